"""The values that fits build, and what can be asked of them."""

from .compression import Compression, CompressionError
from .mixture import KernelMixture
from .modes import ModeTable
from .neighbors import NeighborCluster, NeighborDensity
from .regions import Regions
from .support import Bootstrap

__all__ = [
    "Bootstrap",
    "Compression",
    "CompressionError",
    "KernelMixture",
    "ModeTable",
    "NeighborCluster",
    "NeighborDensity",
    "Regions",
]
