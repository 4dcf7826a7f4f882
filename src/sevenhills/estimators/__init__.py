"""The recipes: thin scikit-learn faces that fit a density."""

from .auto import AutoROME
from .classifier import DensityClassifier
from .gaussians import GaussianMixtureBIC
from .kde import GaussianKDE, KernelDensityCV
from .outliers import DensityOutlierDetector
from .parzen import ManifoldParzen
from .resampling import refit_bootstrap
from .rome import ROME
from .vine import VineDensity

__all__ = [
    "ROME",
    "AutoROME",
    "DensityClassifier",
    "DensityOutlierDetector",
    "GaussianKDE",
    "GaussianMixtureBIC",
    "KernelDensityCV",
    "ManifoldParzen",
    "VineDensity",
    "refit_bootstrap",
]
