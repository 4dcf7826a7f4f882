"""From points to labels: an ordering, its cuts, their scores, a choice."""

from .candidates import Candidates
from .clusters import Clusters, find_clusters, given_clusters
from .frame import Frame
from .ordering import Ordering, neighbours_for, order_by_reachability
from .rounding import check_resolution, resolve_resolution
from .selection import SCORERS, choose
from .spreading import lay_out

__all__ = [
    "SCORERS",
    "Candidates",
    "Clusters",
    "Frame",
    "Ordering",
    "check_resolution",
    "choose",
    "find_clusters",
    "given_clusters",
    "lay_out",
    "neighbours_for",
    "order_by_reachability",
    "resolve_resolution",
]
