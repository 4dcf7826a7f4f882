"""The values that fits build, and what can be asked of them."""

from .mixture import KernelMixture
from .neighbours import NeighbourCluster, NeighbourDensity

__all__ = ["KernelMixture", "NeighbourCluster", "NeighbourDensity"]
