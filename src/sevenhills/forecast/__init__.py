"""Forecasts that are given as samples: how likely the truth was, and how well they know it."""

from .baselines import ConstantVelocity, NearestPasts
from .calibration import Coverage
from .checks import PrecisionWarning
from .comparison import Comparison, Difference, compare
from .evaluation import evaluate
from .measures import MEASURES, Measure
from .readers import Tracks, Windows, read_paths, read_tracks, windows, write_paths
from .results import Evaluation, Row, read_evaluation

__all__ = [
    "MEASURES",
    "Comparison",
    "ConstantVelocity",
    "Coverage",
    "Difference",
    "Evaluation",
    "Measure",
    "NearestPasts",
    "PrecisionWarning",
    "Row",
    "Tracks",
    "Windows",
    "compare",
    "evaluate",
    "read_evaluation",
    "read_paths",
    "read_tracks",
    "windows",
    "write_paths",
]
