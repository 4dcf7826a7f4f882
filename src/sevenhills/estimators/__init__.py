"""The recipes: thin scikit-learn faces that fit a density."""

from .auto import AutoROME
from .gaussians import GaussianMixtureBIC
from .kde import GaussianKDE, KernelDensityCV
from .parzen import ManifoldParzen
from .rome import ROME
from .vine import VineDensity

__all__ = [
    "ROME",
    "AutoROME",
    "GaussianKDE",
    "GaussianMixtureBIC",
    "KernelDensityCV",
    "ManifoldParzen",
    "VineDensity",
]
