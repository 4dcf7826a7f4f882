"""Forecasts that are given as samples: how likely the truth was, and how well they know it."""

from .calibration import Coverage
from .evaluation import evaluate
from .measures import MEASURES, Measure
from .results import Evaluation, Row, read_evaluation

__all__ = [
    "MEASURES",
    "Coverage",
    "Evaluation",
    "Measure",
    "Row",
    "evaluate",
    "read_evaluation",
]
