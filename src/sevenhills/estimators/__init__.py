"""The recipes: scikit-learn estimators that fit a density.

Modules are imported when a name is first used, so that the names of :data:`ESTIMATORS` are there
at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import CLASSES, ESTIMATORS

if TYPE_CHECKING:
    from .auto import AutoROME
    from .classifier import DensityClassifier
    from .cluster_records import Cluster, StackedCluster
    from .gaussians import GaussianMixtureBIC
    from .kde import GaussianKDE, KernelDensityCV
    from .outlier_detector import DensityOutlierDetector
    from .parzen import ManifoldParzen
    from .resampling import RefitBootstrap, refit_bootstrap
    from .rome import ROME
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
    "RefitBootstrap",
    "StackedCluster",
    "VineDensity",
    "refit_bootstrap",
]

_MODULES = {cls: module for module, cls in CLASSES.values()} | {
    "Cluster": "cluster_records",
    "DensityClassifier": "classifier",
    "DensityOutlierDetector": "outlier_detector",
    "RefitBootstrap": "resampling",
    "StackedCluster": "cluster_records",
    "refit_bootstrap": "resampling",
}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return globals().setdefault(name, found)
