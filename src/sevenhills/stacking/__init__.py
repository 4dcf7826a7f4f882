"""The density of clusters as a sum of members that did well on samples they had not seen.

Rows stand for as many samples as their weights (``counts``). Samples of a cluster are whitened and
dealt out to folds (``cell``, ``scatter``, ``folds``); members are fitted without each fold and
judged by it (``members`` on ``components``, ``student`` and ``warp``); a cluster that looks like a
Gaussian is left at that, and others try more members (``race``), whose weights make held-out
samples likeliest (``weights``); clusters that hold on new samples (``agreement``) are added up
(``partition``). Every member is a sum of Gaussian kernels, and so is the whole.
"""

from .partition import STRAY, Partition, fit_partition
from .race import CellFit

__all__ = ["STRAY", "CellFit", "Partition", "fit_partition"]
