"""Densities: the values that estimators fit."""

from .bootstrap import Bootstrap
from .compression import Compression, CompressionError
from .maps import (
    CircleMap,
    FeatureMap,
    LogitMap,
    LogMap,
    MirrorMap,
    TableMap,
    YeoJohnson,
)
from .mixture import KernelMixture
from .modes import ModeTable
from .neighbors import NeighborCluster, NeighborDensity
from .regions import Density

__all__ = [
    "Bootstrap",
    "CircleMap",
    "Compression",
    "CompressionError",
    "Density",
    "FeatureMap",
    "KernelMixture",
    "LogMap",
    "LogitMap",
    "MirrorMap",
    "ModeTable",
    "NeighborCluster",
    "NeighborDensity",
    "TableMap",
    "YeoJohnson",
]
