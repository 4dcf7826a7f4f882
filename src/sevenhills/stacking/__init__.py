"""The density of clusters as a weighted sum of members, judged on held-out samples.

``shapes`` chooses a map for every feature, and ``frames`` applies it. ``partition`` decides which
samples form clusters and sums the densities of clusters. ``members`` whitens the samples of a
cluster, divides them into folds, and holds the densities that are tried on them; ``components`` has
mixtures.
``search`` decides which members are tried, and weights them so that held-out samples are likeliest.
Every member is a sum of Gaussian kernels, and so is the whole.
"""

from .frames import Frame, frames_of
from .members import Member, Samples
from .partition import OUTLIER, Partition, join_small, merge_unstable, split_by_category
from .search import CellFit, Stack

__all__ = [
    "OUTLIER",
    "CellFit",
    "Frame",
    "Member",
    "Partition",
    "Samples",
    "Stack",
    "frames_of",
    "join_small",
    "merge_unstable",
    "split_by_category",
]
