"""The recipes: scikit-learn estimators that fit a density.

Modules are imported when a name is first used, so that the names of :data:`ESTIMATORS` are there
at once.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .auto import AutoROME
    from .base import DensityEstimator
    from .classifier import DensityClassifier
    from .gaussians import GaussianMixtureBIC
    from .kde import GaussianKDE, KernelDensityCV
    from .outlier_detector import DensityOutlierDetector
    from .parzen import ManifoldParzen
    from .rome import ROME
    from .summary import Cluster, StackedCluster
    from .vine import VineDensity

__all__ = [
    "ESTIMATORS",
    "ROME",
    "AutoROME",
    "Cluster",
    "DensityClassifier",
    "DensityOutlierDetector",
    "GaussianKDE",
    "GaussianMixtureBIC",
    "KernelDensityCV",
    "ManifoldParzen",
    "StackedCluster",
    "VineDensity",
]

#: Name, class and module of every estimator, in the order of the documentation.
_REGISTRY = {
    "rome": ("ROME", "rome"),
    "auto": ("AutoROME", "auto"),
    "kde": ("GaussianKDE", "kde"),
    "kde_cv": ("KernelDensityCV", "kde"),
    "gmm": ("GaussianMixtureBIC", "gaussians"),
    "parzen": ("ManifoldParzen", "parzen"),
    "vine": ("VineDensity", "vine"),
}

_MODULES = dict(_REGISTRY.values()) | {
    "Cluster": "summary",
    "DensityClassifier": "classifier",
    "DensityOutlierDetector": "outlier_detector",
    "StackedCluster": "summary",
}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return globals().setdefault(name, found)


class _Estimators(Mapping[str, "type[DensityEstimator]"]):
    """A read-only mapping from names to classes; looking up a class imports its module."""

    def __getitem__(self, name: str) -> "type[DensityEstimator]":
        found: type[DensityEstimator] = __getattr__(_REGISTRY[name][0])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_REGISTRY)

    def __len__(self) -> int:
        return len(_REGISTRY)

    def __repr__(self) -> str:
        return f"ESTIMATORS({', '.join(_REGISTRY)})"


#: The estimators by the names that the command line, the forecasts and the study use.
ESTIMATORS = _Estimators()
