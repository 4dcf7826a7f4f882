"""Densities: the values that estimators fit."""

from .bootstrap import Bootstrap
from .compression import Compression, CompressionError
from .mixture import KernelMixture
from .modes import ModeTable
from .neighbors import NeighborCluster, NeighborDensity
from .regions import Density

__all__ = [
    "Bootstrap",
    "Compression",
    "CompressionError",
    "Density",
    "KernelMixture",
    "ModeTable",
    "NeighborCluster",
    "NeighborDensity",
]
