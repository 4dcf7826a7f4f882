"""Synthetic data with known densities: the distributions of the ROME study, and walks."""

from .distributions import POOL_SIZE, Distribution, disturbed_walks, load, names
from .shapes import make_shapes
from .trajectories import WalkModel
from .walks import WalkLaw, Walks, make_walks

__all__ = [
    "POOL_SIZE",
    "Distribution",
    "WalkLaw",
    "WalkModel",
    "Walks",
    "disturbed_walks",
    "load",
    "make_shapes",
    "make_walks",
    "names",
]
