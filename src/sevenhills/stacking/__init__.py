"""The density of clusters as a weighted sum of members, judged on held-out samples.

``shapes`` chooses a map for every feature, and ``frames`` applies it. ``partition`` decides which
samples form clusters and sums the densities of clusters. ``cells`` whitens the samples of a cluster
and divides them into folds. ``members`` has the densities that are tried on them; ``components``
has mixtures. ``search`` decides which members are tried, and ``weights`` weights them so that
held-out samples are likeliest. Every member is a sum of Gaussian kernels, and so is the whole.
"""

from ..clustering.joining import OUTLIER
from .cells import Cell, Samples
from .frames import Frame, frames_of
from .members import Member
from .partition import Partition, categories, join_overlapping, split_by_category
from .search import CellFit, Stack, fit_cells, preview

__all__ = [
    "OUTLIER",
    "Cell",
    "CellFit",
    "Frame",
    "Member",
    "Partition",
    "Samples",
    "Stack",
    "categories",
    "fit_cells",
    "frames_of",
    "join_overlapping",
    "preview",
    "split_by_category",
]
