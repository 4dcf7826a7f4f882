"""Synthetic data with known densities: the distributions of the ROME study, and walks."""

from .distributions import POOL_SIZE, Distribution, load, make_shapes, names
from .trajectories import WalkModel
from .walks import WalkLaw, Walks, make_walks

__all__ = [
    "POOL_SIZE",
    "Distribution",
    "WalkLaw",
    "WalkModel",
    "Walks",
    "load",
    "make_shapes",
    "make_walks",
    "names",
]
