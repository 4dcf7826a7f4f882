"""From points to labels: an ordering, its cuts, their scores, a choice."""

from .candidates import Candidates
from .frame import Frame
from .ordering import Ordering, neighbours_for, order_by_reachability
from .selection import SCORERS, choose, find_clusters

__all__ = [
    "SCORERS",
    "Candidates",
    "Frame",
    "Ordering",
    "choose",
    "find_clusters",
    "neighbours_for",
    "order_by_reachability",
]
