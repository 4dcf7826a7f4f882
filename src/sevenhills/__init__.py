"""Robust density estimation of multi-modal data.

An estimator is a recipe; fitting it builds an immutable density that answers questions. Modules
import only from those above them in this list:

=================  =============================================================
``kernels``        hot loops: arrays in, arrays out
``progress``       what a long piece of work says while it goes on
``threads``        threads over blocks of work
``extras``         libraries that only some functions need
``validation``     what comes in is checked here
``estimate``       figures that know their error
``clustering``     from points to an ordering, its cuts, their scores, labels
``shrinkage``      covariances of clusters of few samples
``whitening``      a cluster's mean, rotation and regularised scale
``bandwidth``      rules for the width of kernels
``density``        the values: above all, a Gaussian kernel mixture
``stacking``       members for a cluster, judged on held-out samples and added up
``estimators``     the recipes, thin scikit-learn faces
``compat``         a drop-in for users of romepy
``storage``        model files
``scale``          many data sets
``metrics``        what compares densities and samples
``datasets``       the distributions of the ROME study, with their truths
``forecast``       forecasts given as samples, scored
``plotting``       pictures
``report``         pages of evaluations
``experiments``    the study, rerun beside its published figures
``demo``           a short tour
``cli``            the command line
=================  =============================================================
"""

from .density import KernelMixture
from .estimators import (
    ROME,
    AutoROME,
    DensityClassifier,
    DensityOutlierDetector,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
    refit_bootstrap,
)
from .scale import fit_many, score_many
from .storage import load, save

__version__ = "0.1.0"
__all__ = [
    "ROME",
    "AutoROME",
    "DensityClassifier",
    "DensityOutlierDetector",
    "GaussianKDE",
    "GaussianMixtureBIC",
    "KernelDensityCV",
    "KernelMixture",
    "ManifoldParzen",
    "VineDensity",
    "__version__",
    "fit_many",
    "load",
    "refit_bootstrap",
    "save",
    "score_many",
]
