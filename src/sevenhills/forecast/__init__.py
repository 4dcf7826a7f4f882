"""Evaluation of forecasts that are given as samples: likelihood, calibration and distances."""

from .checks import PrecisionWarning
from .comparison import Comparison, Difference, compare
from .evaluation import evaluate
from .horizons import HorizonEvaluation, evaluate_horizons
from .mixtures import Mixtures
from .ranking import Power, Ranked, Ranking, power, rank
from .readers import Tracks, Windows, read_tracks, windows
from .results import Breakdown, Coverage, Evaluation, Part, Row, read_evaluation
from .scores import MEASURES, Measure

__all__ = [
    "MEASURES",
    "Breakdown",
    "Comparison",
    "Coverage",
    "Difference",
    "Evaluation",
    "HorizonEvaluation",
    "Measure",
    "Mixtures",
    "Part",
    "Power",
    "PrecisionWarning",
    "Ranked",
    "Ranking",
    "Row",
    "Tracks",
    "Windows",
    "compare",
    "evaluate",
    "evaluate_horizons",
    "power",
    "rank",
    "read_evaluation",
    "read_tracks",
    "windows",
]
