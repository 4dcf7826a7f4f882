"""From samples to clusters: a reachability ordering, its cuts, their scores, and the choice.

>>> from sevenhills import clustering, datasets
>>> X = datasets.load("aniso").sample(300, random_state=0)
>>> ordering = clustering.order_by_reachability(X)
>>> cuts = clustering.cut(ordering)
>>> candidates = clustering.choose(cuts, clustering.score(X, cuts))
>>> candidates.labels().shape
(300,)
"""

from .optics import NOISE, Cuts, Ordering, cut, neighbors_for, order_by_reachability
from .points import FEWEST_TO_CLUSTER, Points, check_resolution, find_clusters
from .selection import CRITERIA, TRIVIAL_SCORE, Candidates, Scores, choose, score

__all__ = [
    "CRITERIA",
    "FEWEST_TO_CLUSTER",
    "NOISE",
    "TRIVIAL_SCORE",
    "Candidates",
    "Cuts",
    "Ordering",
    "Points",
    "Scores",
    "check_resolution",
    "choose",
    "cut",
    "find_clusters",
    "neighbors_for",
    "order_by_reachability",
    "score",
]
