"""The distributions of the ROME study, each with its true density."""

from .registry import POOL_SIZE, Distribution, disturbed_walks, load, names
from .trajectories import WalkModel
from .truths import Truth

__all__ = [
    "POOL_SIZE",
    "Distribution",
    "Truth",
    "WalkModel",
    "disturbed_walks",
    "load",
    "names",
]
