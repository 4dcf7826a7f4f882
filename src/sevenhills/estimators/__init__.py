"""The recipes: scikit-learn estimators that fit a density.

Modules are imported when a name is first used, so that :data:`ESTIMATOR_NAMES` is there at once.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .auto import AutoROME, StackedCell
    from .base import DensityEstimator
    from .classifier import DensityClassifier
    from .conformal_density import ConformalDensity, conformal
    from .gaussians import GaussianMixtureBIC
    from .kde import GaussianKDE, KernelDensityCV
    from .outlier_detector import DensityOutlierDetector
    from .parzen import ManifoldParzen
    from .regressor import DensityRegressor
    from .rome import ROME
    from .summary import Cluster
    from .support import FeatureSupport, propose_support
    from .vine import VineDensity

__all__ = [
    "ESTIMATORS",
    "ROME",
    "AutoROME",
    "Cluster",
    "ConformalDensity",
    "DensityClassifier",
    "DensityOutlierDetector",
    "DensityRegressor",
    "FeatureSupport",
    "GaussianKDE",
    "GaussianMixtureBIC",
    "KernelDensityCV",
    "ManifoldParzen",
    "StackedCell",
    "VineDensity",
    "conformal",
    "propose_support",
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
#: The names that the command line, the forecasts and the study use.
ESTIMATOR_NAMES = tuple(_REGISTRY)
#: The estimators by these names.
ESTIMATORS: Mapping[str, "type[DensityEstimator]"]

_MODULES = dict(_REGISTRY.values()) | {
    "Cluster": "summary",
    "ConformalDensity": "conformal_density",
    "DensityClassifier": "classifier",
    "DensityOutlierDetector": "outlier_detector",
    "DensityRegressor": "regressor",
    "FeatureSupport": "support",
    "StackedCell": "auto",
    "conformal": "conformal_density",
    "propose_support": "support",
}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name == "ESTIMATORS":
        classes = {key: __getattr__(cls) for key, (cls, _) in _REGISTRY.items()}
        return globals().setdefault(name, MappingProxyType(classes))
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return globals().setdefault(name, found)
