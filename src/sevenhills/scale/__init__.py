"""Fits of many data sets, and of data sets on many machines."""

from .distributed import DistributedROME
from .distributed_mixture import CoresetMixture, DistributedMixture, RowMixture
from .many import Failure, fit_many, score_many

__all__ = [
    "CoresetMixture",
    "DistributedMixture",
    "DistributedROME",
    "Failure",
    "RowMixture",
    "fit_many",
    "score_many",
]
