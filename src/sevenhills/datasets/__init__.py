"""The distributions of the ROME study, each with its true density."""

from .forking_paths import ForkingScene, load_forking_paths
from .registry import POOL_SIZE, Distribution, disturbed_walks, load, names
from .trajectories import WalkModel
from .truths import Truth

__all__ = [
    "POOL_SIZE",
    "Distribution",
    "ForkingScene",
    "Truth",
    "WalkModel",
    "disturbed_walks",
    "load",
    "load_forking_paths",
    "names",
]
