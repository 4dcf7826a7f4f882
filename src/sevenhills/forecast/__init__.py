"""Forecasts that are given as samples: how likely the truth was, and how well they know it."""

from .calibration import Coverage
from .comparison import Comparison, Difference, compare
from .evaluation import evaluate
from .measures import MEASURES, Measure
from .results import Evaluation, Row, read_evaluation
from .walks import WalkLaw, Walks, make_walks

__all__ = [
    "MEASURES",
    "Comparison",
    "Coverage",
    "Difference",
    "Evaluation",
    "Measure",
    "Row",
    "WalkLaw",
    "Walks",
    "compare",
    "evaluate",
    "make_walks",
    "read_evaluation",
]
