"""Densities: the values that estimators fit."""

from .bootstrap import Bootstrap
from .compression import Compression, CompressionError
from .conditionals import Conditionals
from .maps import (
    ChainMap,
    CircleMap,
    FeatureMap,
    LogMap,
    MirrorMap,
    ProbitMap,
    TableMap,
    YeoJohnson,
)
from .mixture import KernelMixture
from .modes import ModeTable
from .neighbors import NeighborCluster, NeighborDensity
from .regions import Density

__all__ = [
    "Bootstrap",
    "ChainMap",
    "CircleMap",
    "Compression",
    "CompressionError",
    "Conditionals",
    "Density",
    "FeatureMap",
    "KernelMixture",
    "LogMap",
    "MirrorMap",
    "ModeTable",
    "NeighborCluster",
    "NeighborDensity",
    "ProbitMap",
    "TableMap",
    "YeoJohnson",
]
