"""Robust density estimation of multi-modal data.

An estimator is a recipe; fitting it builds an immutable density with many methods. Modules import
only from those above them in this list:

=================  =============================================================
``kernels``        hot loops: arrays in, arrays out
``atomic_write``   files that are written as a whole or not at all
``decoding``       files of others: damage, pickles and bombs are refused
``deprecation``    old names of renamed parameters
``progress``       progress of long computations
``threads``        threads over blocks of work
``extras``         libraries that only some functions need
``drawing``        the way from densities to their pictures
``validation``     checks of arguments
``estimate``       estimates with their standard errors
``clustering``     samples, their ordering, its cuts, their scores, the choice
``folds``          cross-validation folds of weighted rows
``covariance``     covariances of weighted samples, and their shrinkage
``whitening``      a cluster's mean, rotation, scale and bandwidth
``density``        the values: above all, a Gaussian kernel mixture
``stacking``       members for a cluster, judged on held-out samples and added up
``estimators``     scikit-learn estimators that fit densities
``compat``         a drop-in for users of romepy
``storage``        model files
``scale``          many data sets, and data sets on many machines
``metrics``        metrics of densities and samples
``datasets``       synthetic data with known densities
``forecast``       forecasts given as samples, scored
``warming``        compiling ahead of the first use
``plotting``       pictures
``report``         pages in one file: of a fit, and of an evaluation
``cli``            the command line
=================  =============================================================
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import estimators
from .drawing import register_pictures

if TYPE_CHECKING:
    from .density import KernelMixture
    from .estimators import *  # noqa: F403
    from .progress import show_progress
    from .scale import DistributedROME, fit_many, score_many
    from .storage import load, save

__version__ = "0.1.0"
__all__ = [
    "DistributedROME",
    "KernelMixture",
    "__version__",
    "fit_many",
    "load",
    "save",
    "score_many",
    "show_progress",
    "warm",  # noqa: F405
]
__all__ += estimators.__all__

#: Public names and packages are imported when they are first used, so that ``sevenhills --help``
#: does not import scipy and scikit-learn.
_PACKAGES = [
    "clustering",
    "compat",
    "datasets",
    "density",
    "forecast",
    "metrics",
    "plotting",
    "report",
    "scale",
    "storage",
]
_HOMES = {"KernelMixture": "density", "load": "storage", "save": "storage", "warm": "warming"}
_HOMES |= {"DistributedROME": "scale", "fit_many": "scale", "score_many": "scale"}
_HOMES |= {"show_progress": "progress"}

register_pictures(lambda: import_module(".plotting.overview", __name__))


def __getattr__(name: str) -> Any:
    """Import a public name or package."""
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f".{_HOMES.get(name, 'estimators')}", __name__)
    return globals().setdefault(name, getattr(home, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
