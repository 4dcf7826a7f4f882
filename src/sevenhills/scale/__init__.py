"""Fits of many data sets, and of data sets on many machines."""

from .distributed import DistributedROME
from .distributed_mixture import DistributedMixture
from .many import Failure, fit_many, score_many

__all__ = ["DistributedMixture", "DistributedROME", "Failure", "fit_many", "score_many"]
