"""Evaluation of forecasts that are given as samples: likelihood, calibration and distances."""

from .baselines import ConstantVelocity, NearestPasts
from .checks import PrecisionWarning
from .comparison import Comparison, Difference, compare
from .evaluation import evaluate
from .readers import Tracks, Windows, read_paths, read_tracks, windows, write_paths
from .results import Coverage, Evaluation, Row, read_evaluation
from .scores import MEASURES, Measure

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
