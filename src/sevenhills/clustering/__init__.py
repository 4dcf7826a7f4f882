"""From samples to clusters: a reachability ordering, its cuts, their scores, and the choice.

>>> from sevenhills import clustering, datasets
>>> X = datasets.load("aniso").sample(300, random_state=0)
>>> ordering = clustering.order_by_reachability(X)
>>> cuts = clustering.cut(ordering)
>>> candidates = clustering.choose(cuts, clustering.score(X, cuts))
>>> candidates.labels().shape
(300,)
"""

from .likelihood import LikelyClusters, find_likely_clusters
from .optics import Cuts, Ordering, cut, neighbors_for, order_by_reachability
from .points import Points, find_clusters
from .selection import Candidates, Scores, choose, score

__all__ = [
    "Candidates",
    "Cuts",
    "LikelyClusters",
    "Ordering",
    "Points",
    "Scores",
    "choose",
    "cut",
    "find_clusters",
    "find_likely_clusters",
    "neighbors_for",
    "order_by_reachability",
    "score",
]
