"""Whether regions that should hold the truth so often do."""

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np

from ..metrics.ece import LEVELS
from ..validation import freeze


@dataclass(frozen=True, eq=False)
class Coverage:
    """How often highest-density regions of forecasts hold the truth.

    Attributes
    ----------
    levels : ndarray of shape (n_levels,)
        The mass of the regions.
    observed : ndarray of shape (n_levels,)
        The share of truths that they hold. Below the level, forecasts are too narrow; above it,
        too wide.
    standard_error, low, high : ndarray of shape (n_levels,)
        The standard error of that share, and the limits of its interval, by resampling scenes.
    n_truths : int
        How many truths there are.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.forecast import evaluate
    >>> walks = np.random.RandomState(0).standard_normal((40, 21, 2, 2)).cumsum(axis=2)
    >>> narrow = evaluate(0.3 * walks[:, 1:], walks[:, 0], measures="ece", levels=(0.5, 0.9))
    >>> bool((narrow.coverage.observed < narrow.coverage.levels).all())
    True
    """

    levels: np.ndarray
    observed: np.ndarray
    standard_error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_truths: int

    def __post_init__(self) -> None:
        freeze(self, "levels", "observed", "standard_error", "low", "high")

    @property
    def expected_error(self) -> float:
        r"""The calibration error that forecasts without any would have, by chance.

        It is the mean of :math:`|B(t)| / \sqrt n` with the Brownian bridge :math:`B`.
        """
        return sqrt(2 / pi) * pi / 8 / sqrt(self.n_truths) if self.n_truths else float("nan")


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Truths in bins between levels, to be counted with any weights of their scenes.

    Attributes
    ----------
    at : ndarray of shape (n_levels,)
    bins : ndarray of shape (n_truths,)
        The first level that holds each truth.
    scenes : ndarray of shape (n_truths,)
        The scene of each truth.
    """

    at: np.ndarray
    bins: np.ndarray
    scenes: np.ndarray

    @classmethod
    def of(cls, levels: np.ndarray, at: np.ndarray) -> "LevelCounts":
        """Count the levels (S, P) of truths, NaN where there is none."""
        scenes, places = np.nonzero(~np.isnan(levels))
        return cls(at, np.searchsorted(at, levels[scenes, places], side="left"), scenes)

    def shares(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the share of truths within every level, scenes counting by their weights."""
        each = None if weights is None else weights[self.scenes]
        counts = np.bincount(self.bins, weights=each, minlength=len(self.at) + 1)
        total = counts.sum()
        return np.cumsum(counts)[:-1] / total if total else np.full(len(self.at), np.nan)


class CalibrationError:
    """The expected calibration error of levels (S, P), with any weights of their scenes."""

    def __init__(self, levels: np.ndarray) -> None:
        self._counts = LevelCounts.of(levels, LEVELS)

    def __call__(self, weights: np.ndarray | None = None) -> float:
        """Return the mean distance between levels and the shares of truths within them."""
        return float(np.abs(self._counts.shares(weights) - LEVELS).mean())
