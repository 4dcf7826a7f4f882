"""Many data sets, and data sets on many machines."""

from .distributed import DistributedROME
from .many import Failure, fit_many, score_many
from .spread import CoresetMixture, RowMixture, SpreadMixture

__all__ = [
    "CoresetMixture",
    "DistributedROME",
    "Failure",
    "RowMixture",
    "SpreadMixture",
    "fit_many",
    "score_many",
]
