"""Outliers: observations where a fitted density is low."""

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..density import KernelMixture
from ..validation import (
    check_choice,
    check_not_negative,
    check_positive,
    check_samples,
    is_auto,
    unchanged_on_failure,
)
from .base import cloned_fit
from .conformal_density import ConformalDensity, check_cv, conformal
from .defaults import default_estimator, scaled_rome
from .support import indexed

#: The rates that "auto" stands for.
_FALSE_POSITIVES, _FALSE_DISCOVERIES = 0.01, 0.1
#: Relative rounding error of p-values and rates.
_ROUNDING = 1e-9
#: Scores are clipped to this magnitude before they are subtracted.
_FAR = 1e9


class DensityOutlierDetector(OutlierMixin, BaseEstimator):
    r"""Outlier detection by the density of any estimator that has ``score_samples``.

    An observation is an outlier if its p-value is small. The p-value compares its log density
    with those of training rows, each by a fit that has not seen the row; see :func:`conformal`.
    It holds for new rows, whatever the estimator: of rows that are distributed like the training
    rows, ``rate`` are flagged.

    Parameters
    ----------
    estimator : estimator, optional
        An estimator with ``fit`` and ``score_samples``. By default :class:`AutoROME` for tables of
        up to 50,000 values (rows times features); otherwise, and with ``min_share``,
        ``ROME(scale="auto", shrinkage="auto")``.
    rate : float or "auto", default="auto"
        The share of regular rows that are flagged, or with ``control="fdr"`` the share of regular
        rows among those that are flagged. "auto" is 0.01, or 0.1 with "fdr". The lowest rate is
        one out of the number of samples; "auto" is that for fewer than 100 samples.
    control : {"fpr", "fdr"}, default="fpr"
        Whether ``rate`` limits false positives, or false discoveries (by the procedure of Benjamini
        and Hochberg, over all rows of a call of ``predict``).
    min_share : float, default=0
        The density is that of clusters with at least this share of the samples. Smaller clusters
        count as outliers, which finds outliers that lie together in a dense clump.
    calibration : int or float, default=5
        How training rows are held out: the number of folds, or the share of one split, as ``cv`` of
        :func:`conformal`.
    random_state : int, RandomState instance or None, default=0
        Seeds the folds.

    Attributes
    ----------
    estimator_ : estimator
        The fit to all training rows; with a split, to those that are not held out.
    conformal_ : ConformalDensity
        The calibrated density.
    rate_ : float
        The rate.
    offset_ : float
        The lowest score of a training row that is not flagged, for false positives.
    training_scores_ : ndarray of shape (n_samples,)
        The held-out log densities of the training rows.

    Notes
    -----
    The p-value of a training row is its rank among all training rows, divided by their number;
    rows that were not held out have the p-values of new rows. A share of ``rate`` of the training
    rows is therefore flagged, whether they are outliers or not, and ``control="fdr"`` flags none of
    them: it is for new rows, and training rows that are free of outliers. With a split, the false
    discovery rate is proved to be at most ``rate`` [1]_; with folds, it was measured to be.

    References
    ----------
    .. [1] S. Bates, E. Candès, L. Lei, Y. Romano, M. Sesia: Testing for outliers with conformal
       p-values. Annals of Statistics, 2023.

    Examples
    --------
    >>> from sevenhills import ROME, DensityOutlierDetector, datasets
    >>> X = datasets.load("aniso").sample(500, random_state=0)
    >>> X[:3] = [[0.0, 0.0], [3.0, -3.0], [8.0, 8.0]]  # beside the three modes, and far away
    >>> detector = DensityOutlierDetector(ROME()).fit(X)
    >>> detector.predict(X)[:5]
    array([-1, -1, -1,  1,  1])
    >>> detector.p_value(X[:5]).round(3)
    array([0.006, 0.004, 0.002, 0.36 , 0.53 ])
    """

    estimator_: Any
    conformal_: ConformalDensity
    rate_: float
    offset_: float
    training_scores_: np.ndarray

    def __init__(
        self,
        estimator: Any = None,
        *,
        rate: float | str = "auto",
        control: str = "fpr",
        min_share: float = 0.0,
        calibration: int | float = 5,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.rate = rate
        self.control = control
        self.min_share = min_share
        self.calibration = calibration
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the density to samples, and calibrate it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            The number of samples that every row stands for, if the estimator takes weights.

        Returns
        -------
        self
            If fitting fails, the detector is as it was before.
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            X = check_samples(self, X, reset=True)
            self.conformal_ = conformal(
                self._recipe(*X.shape),
                X,
                cv=self.calibration,
                sample_weight=sample_weight,
                random_state=self.random_state,
            )
            self.estimator_ = self.conformal_.estimator_
            self.rate_ = check_rate(self.conformal_.n_samples, self.rate, self.control)
            self._set_training_scores(X)
        return self

    def _check_parameters(self) -> None:
        check_choice(self.control, "control", ("fpr", "fdr"))
        if check_not_negative(self.min_share, "min_share") >= 1:
            raise ValueError(f"min_share must be below 1, got {self.min_share}")
        check_cv(self.calibration, "calibration")
        _check_rate(self.rate)

    def _recipe(self, n_samples: int, n_features: int) -> Any:
        """Return the estimator of the density, unfitted."""
        if self.estimator is None:
            # Large clusters of AutoROME may hold a clump of outliers; those of ROME are finer.
            has_all = self.min_share == 0
            recipe = default_estimator(n_samples, n_features) if has_all else scaled_rome()
        else:
            cloned_fit(self.estimator)  # refuses what is not an estimator
            recipe = clone(self.estimator)
        support = indexed(
            getattr(recipe, "support", None), getattr(self, "feature_names_in_", None)
        )
        if support is not None:
            recipe.set_params(support=support)
        return recipe if self.min_share == 0 else _LargeClusters(recipe, self.min_share)

    def _set_training_scores(self, X: np.ndarray) -> None:
        """Set the scores and p-values of training rows; a row is recognized by its values."""
        self._row_of = {key: i for i, key in enumerate(_keys(X))}
        rows = np.array([self._row_of[key] for key in _keys(X)])
        scores = self.conformal_.held_out_scores_.copy()
        np.fmax.at(scores, rows, scores.copy())  # of equal rows, the highest score counts
        scores = scores[rows]
        p_values = self.conformal_.rank(scores)
        stay = ~np.isnan(scores) & ~is_outlier(p_values, self.rate_, "fpr")
        self.offset_ = float(np.maximum(scores[stay], -_FAR).min())
        others = np.isnan(scores)  # they were not held out
        self._training_decisions = np.maximum(scores, -_FAR) - self.offset_
        if others.any():
            scores[others] = self.conformal_.log_density(X[others])
            p_values[others], self._training_decisions[others] = self._compared(X[others])
        self.training_scores_, self._training_p_values = scores, p_values

    def _compared(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the p-values of new rows, and their decisions for false positives."""
        p_values, margins = self.conformal_.compare(X, self.rate_)
        flagged = is_outlier(p_values, self.rate_, "fpr")
        return p_values, np.where(flagged, np.minimum(margins, -_ROUNDING), margins.clip(0.0, _FAR))

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log density at every row of ``X``, for training rows the held-out one."""
        check_is_fitted(self)
        return self._known_or_new(X, self.training_scores_, self.conformal_.log_density)

    def p_value(self, X: Any) -> np.ndarray:
        """Return the p-value of every row of ``X``, for training rows the share of lower ones.

        Examples
        --------
        >>> from sevenhills import ROME, DensityOutlierDetector, datasets
        >>> X = datasets.load("aniso").sample(499, random_state=0)
        >>> detector = DensityOutlierDetector(ROME()).fit(X)
        >>> detector.p_value([[100.0, 0.0]])  # 1 / (n_samples + 1), the lowest of all
        array([0.002])
        """
        check_is_fitted(self)
        return self._known_or_new(X, self._training_p_values, self.conformal_.p_value)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return a number for every row of ``X`` that is negative for outliers.

        For false positives it is ``score_samples(X) - offset_`` for training rows, and the margin
        of :meth:`ConformalDensity.margin` for others, in nats. For false discoveries it is the
        logarithm of the p-value over the largest one that is rejected.
        """
        check_is_fitted(self)
        if self.control == "fdr":
            return _log_over_discoveries(self.p_value(X), self.rate_)
        return self._known_or_new(X, self._training_decisions, lambda new: self._compared(new)[1])

    def _known_or_new(
        self, X: Any, known: np.ndarray, of_new: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Return values that are known for training rows, and computed for others."""
        X = check_samples(self, X, reset=False)
        rows = np.array([self._row_of.get(key, -1) for key in _keys(X)])
        out = known[rows]
        if (rows < 0).any():
            out[rows < 0] = of_new(X[rows < 0])
        return out

    def predict(self, X: Any) -> np.ndarray:
        """Return 1 for every row of ``X`` that is an inlier, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)


def _keys(X: np.ndarray) -> Iterator[bytes]:
    """Return a key of every row, by which training rows are recognized."""
    return (row.tobytes() for row in X + 0.0)  # minus zero becomes zero


def check_rate(n_samples: int, rate: float | str, control: str) -> float:
    """Return the rate for a number of calibration samples; refuse one that is too low for them."""
    if n_samples < 2:
        raise ValueError(
            f"a rate needs at least 2 held-out samples, got {n_samples}; see sample_weight"
        )
    number = _check_rate(rate)
    if number is None:
        return _FALSE_DISCOVERIES if control == "fdr" else max(_FALSE_POSITIVES, 1 / n_samples)
    if control == "fpr" and number * n_samples < 1 - _ROUNDING:
        raise ValueError(
            f"rate = {number:g} needs at least {int(np.ceil(1 / number))} samples, got {n_samples}"
        )
    return number


def _check_rate(rate: Any) -> float | None:
    """Return a rate, None for "auto"."""
    if is_auto(rate):
        return None
    number = check_positive(rate, "rate", "a number or 'auto'")
    if number >= 1:
        raise ValueError(f"rate must be below 1, got {number}")
    return number


def is_outlier(p_values: np.ndarray, rate: float, control: str) -> np.ndarray:
    """Return which rows are outliers, by their p-values."""
    if control == "fdr":
        return np.asarray(_log_over_discoveries(p_values, rate) < 0)
    return np.asarray(p_values <= rate * (1 + _ROUNDING))


def _log_over_discoveries(p_values: np.ndarray, rate: float) -> np.ndarray:
    """Return the logs of p-values over the largest one that Benjamini and Hochberg reject.

    They are negative for rejected ones. If none is rejected, the divisor is below all.
    """
    ranked = np.sort(p_values)
    limits = rate * np.arange(1, len(ranked) + 1) / len(ranked)
    below = np.flatnonzero(ranked <= limits * (1 + _ROUNDING))
    largest = ranked[below[-1]] if len(below) else ranked[0] / 2
    return np.asarray(np.log(p_values / largest) - _ROUNDING)


class _LargeClusters(BaseEstimator):
    """The density of an estimator, without its small clusters."""

    density_: Any

    def __init__(self, estimator: Any, min_share: float) -> None:
        self.estimator = estimator
        self.min_share = min_share

    def fit(self, X: np.ndarray, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the estimator, and leave small clusters out."""
        self.estimator_ = cloned_fit(self.estimator)(X, sample_weight)
        density = getattr(self.estimator_, "density_", None)
        if not isinstance(density, KernelMixture):
            raise TypeError(
                f"min_share needs clusters, which estimator ({type(self.estimator).__name__}) lacks"
            )
        labels = np.unique(density.clusters)
        of_kernel = density.clusters[
            np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
        ]
        shares = np.array([density.weights[of_kernel == label].sum() for label in labels])
        large = shares >= min(self.min_share, shares.max())
        parts = [density.component(label) for label in labels[large]]
        self.density_ = KernelMixture.merge(parts, shares[large] / shares[large].sum())
        return self

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        """Return the log density at every row."""
        return self.density_.logpdf(X)
