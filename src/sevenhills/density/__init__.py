"""The values that fits build, and what can be asked of them."""

from .base import Density
from .mixture import KernelMixture
from .neighbours import NeighbourCluster, NeighbourDensity

__all__ = ["Density", "KernelMixture", "NeighbourCluster", "NeighbourDensity"]
