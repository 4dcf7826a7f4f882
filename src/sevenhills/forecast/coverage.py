"""How often highest-density regions hold the truth."""

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
        Probability of the regions.
    observed : ndarray of shape (n_levels,)
        Fraction of truths in the regions. Below the level, forecasts are too narrow; above it,
        too wide.
    standard_error, low, high : ndarray of shape (n_levels,)
        Bootstrap standard error of that fraction, and the limits of its interval.
    n_truths : int
        Number of truths.

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
        r"""The expected calibration error of a calibrated forecast with this number of truths.

        It is the mean of :math:`|B(t)| / \sqrt n` with the Brownian bridge :math:`B`.
        """
        return sqrt(2 / pi) * pi / 8 / sqrt(self.n_truths) if self.n_truths else float("nan")


class CoveredShare:
    """Fraction of truths whose level (S, P) is within each of some bounds, for scene weights."""

    def __init__(self, levels: np.ndarray, bounds: np.ndarray) -> None:
        self._scenes, truths = np.nonzero(~np.isnan(levels))
        self._bins = np.searchsorted(bounds, levels[self._scenes, truths], side="left")
        self._n_bounds = len(bounds)

    def __call__(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the fraction for every bound; NaN if no scene has a truth."""
        each = None if weights is None else weights[self._scenes]
        counts = np.bincount(self._bins, weights=each, minlength=self._n_bounds + 1)
        total = counts.sum()
        return np.cumsum(counts)[:-1] / total if total else np.full(self._n_bounds, np.nan)


class CalibrationError:
    """Expected calibration error of levels (S, P), for scene weights."""

    def __init__(self, levels: np.ndarray) -> None:
        self._share = CoveredShare(levels, LEVELS)

    def __call__(self, weights: np.ndarray | None = None) -> float:
        """Return the mean distance between levels and the fractions of truths within them."""
        return float(np.abs(self._share(weights) - LEVELS).mean())
