"""From points to labels: an ordering, its cuts, their scores, a choice."""

from .candidates import Candidates
from .frame import Frame
from .ordering import Ordering, neighbours_for, order_by_reachability
from .selection import SCORERS, choose

__all__ = [
    "SCORERS",
    "Candidates",
    "Frame",
    "Ordering",
    "choose",
    "neighbours_for",
    "order_by_reachability",
]
