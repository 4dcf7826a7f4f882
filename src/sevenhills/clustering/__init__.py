"""From points to labels: an ordering, its cuts, their scores, a choice."""

from .candidates import Candidates
from .clusters import Clusters, find_clusters, given_clusters
from .frame import Frame
from .ordering import Ordering, neighbours_for, order_by_reachability
from .selection import SCORERS, choose

__all__ = [
    "SCORERS",
    "Candidates",
    "Clusters",
    "Frame",
    "Ordering",
    "choose",
    "find_clusters",
    "given_clusters",
    "neighbours_for",
    "order_by_reachability",
]
