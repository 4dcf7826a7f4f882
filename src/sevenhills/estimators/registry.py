"""The estimators by name; a class is imported when it is first looked up."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import DensityEstimator

#: Module and class of every estimator, in the order of the documentation.
CLASSES = {
    "rome": ("rome", "ROME"),
    "auto": ("auto", "AutoROME"),
    "kde": ("kde", "GaussianKDE"),
    "kde_cv": ("kde", "KernelDensityCV"),
    "gmm": ("gaussians", "GaussianMixtureBIC"),
    "parzen": ("parzen", "ManifoldParzen"),
    "vine": ("vine", "VineDensity"),
}


class _Registry(Mapping[str, "type[DensityEstimator]"]):
    """A read-only mapping from names to classes."""

    def __getitem__(self, name: str) -> "type[DensityEstimator]":
        module, cls = CLASSES[name]
        found: type[DensityEstimator] = getattr(import_module(f".{module}", __package__), cls)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(CLASSES)

    def __len__(self) -> int:
        return len(CLASSES)

    def __repr__(self) -> str:
        return f"ESTIMATORS({', '.join(CLASSES)})"


#: The estimators by the names that the command line, the forecasts and the study use.
ESTIMATORS = _Registry()
