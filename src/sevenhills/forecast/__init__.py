"""Forecasts that are given as samples: how likely the truth was, and how well they know it."""

from .baselines import ConstantVelocity, NearestPasts
from .calibration import Coverage
from .checks import PrecisionWarning
from .comparison import Comparison, Difference, compare
from .evaluation import evaluate
from .measures import MEASURES, Measure
from .readers import Tracks, Windows, read_paths, read_tracks, windows, write_paths
from .results import Evaluation, Row, read_evaluation
from .walks import WalkLaw, Walks, make_walks

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
    "WalkLaw",
    "Walks",
    "Windows",
    "compare",
    "evaluate",
    "make_walks",
    "read_evaluation",
    "read_paths",
    "read_tracks",
    "windows",
    "write_paths",
]
