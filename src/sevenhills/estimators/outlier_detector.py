"""Outliers: observations where a fitted density is low."""

from collections.abc import Iterator
from inspect import signature
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ..validation import (
    check_count,
    check_positive,
    check_samples,
    check_weights,
    is_auto,
    random_generator,
    unchanged_on_failure,
)
from .base import Fit, cloned_fit
from .rome import ROME

#: Tukey's fence is this number of interquartile ranges below the lower quartile.
_FENCE = 1.5
#: A share of a sum of weights may fall short of a whole number by this fraction.
_ROUNDING = 1e-9


class DensityOutlierDetector(OutlierMixin, BaseEstimator):
    r"""Outlier detection by the density of any estimator that has ``score_samples``.

    An observation is an outlier if its log density is below a threshold, ``offset_``. By default
    this is Tukey's fence, one and a half interquartile ranges below the lower quartile of the
    training scores, which outliers hardly move if they are fewer than a quarter. It can also be
    set by the share of the training rows that are below it, or by the probability mass below it:

    .. math:: \pi(x) = P\big(p(Z) \le p(x)\big) < \mathtt{p\_value}, \qquad Z \sim p

    A kernel density is high at every sample that it was fitted to, even at outliers, because the
    sample carries a kernel of its own. All methods therefore score training rows by fits to the
    other ``n_splits - 1`` folds.

    Parameters
    ----------
    estimator : estimator, optional
        An estimator with ``fit`` and ``score_samples``; ``ROME()`` by default.
    contamination : float or "auto", default="auto"
        The share of outliers among the training rows, above 0 and up to 0.5. With "auto" the
        threshold is set by ``p_value`` if given, and is Tukey's fence otherwise, which about 5 %
        of regular observations fall below for Gaussians in two dimensions, 2 % in ten.
    p_value : float, optional
        The mass of the density below the threshold, between 0 and 1: the share of regular
        observations that are called outliers. The estimator must be normalized and have
        ``sample(n_samples, random_state)``.
    n_splits : int or None, default=5
        The number of folds in which training rows are held out. None scores them by the fit that
        has seen them, which is quicker and finds fewer of the outliers among them.
    n_draws : int, default=10000
        The number of draws from the density by which masses are estimated.
    random_state : int, RandomState instance or None, default=0
        Seeds the folds and the draws.

    Attributes
    ----------
    estimator_ : estimator
        The clone of ``estimator`` that is fitted to all training rows.
    offset_ : float
        The threshold: the lowest score of an inlier.
    training_scores_ : ndarray of shape (n_samples,)
        The scores of the training rows, held out unless ``n_splits`` is None. Of equal rows one is
        held out and the others are not: values that repeat are no outliers.

    References
    ----------
    R. J. Hyndman: Computing and Graphing Highest Density Regions. The American Statistician, 1996.

    Examples
    --------
    >>> from sevenhills import DensityOutlierDetector, datasets
    >>> X = datasets.load("aniso").sample(500, random_state=0)
    >>> X[:3] = [[0.0, 0.0], [3.0, -3.0], [8.0, 8.0]]  # beside the three modes, and far away
    >>> detector = DensityOutlierDetector().fit(X)
    >>> detector.predict(X)[:5]
    array([-1, -1, -1,  1,  1])
    >>> detector.p_values(X[:5]).round(2)
    array([0.  , 0.  , 0.  , 0.46, 0.69])
    """

    estimator_: Any
    offset_: float
    training_scores_: np.ndarray

    def __init__(
        self,
        estimator: Any = None,
        *,
        contamination: float | str = "auto",
        p_value: float | None = None,
        n_splits: int | None = 5,
        n_draws: int = 10_000,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.contamination = contamination
        self.p_value = p_value
        self.n_splits = n_splits
        self.n_draws = n_draws
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the density to samples and set the threshold.

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
            self._fit(X, check_weights(sample_weight, len(X)))
        return self

    def _check_parameters(self) -> None:
        if not is_auto(self.contamination):
            if check_positive(self.contamination, "contamination", "a number or 'auto'") > 0.5:
                raise ValueError(f"contamination must be up to 0.5, got {self.contamination}")
            if self.p_value is not None:
                raise ValueError("contamination and p_value must not both be given")
        if self.p_value is not None and check_positive(self.p_value, "p_value") >= 1:
            raise ValueError(f"p_value must be below 1, got {self.p_value}")
        if self.n_splits is not None:
            check_count(self.n_splits, "n_splits", least=2)
        check_count(self.n_draws, "n_draws", least=1)

    def _fit(self, X: np.ndarray, weights: np.ndarray | None) -> None:
        recipe = ROME() if self.estimator is None else self.estimator
        fit = cloned_fit(recipe, getattr(self, "feature_names_in_", None))
        rng = random_generator(self.random_state)
        self.estimator_ = fit(X, weights)
        self._seed = int(rng.randint(2**31))
        sizes = np.ones(len(X)) if weights is None else weights
        present = sizes > 0  # rows of weight zero are no samples
        self._held_out = {}
        if self.n_splits is not None:
            own = None if weights is None else weights[present]
            self._held_out = _score_held_out(fit, X[present], own, self.n_splits, rng)
        self.training_scores_ = self._score(X)
        self.offset_ = self._threshold(self.training_scores_[present], sizes[present])

    def _threshold(self, scores: np.ndarray, sizes: np.ndarray) -> float:
        if self.p_value is not None:
            return self._score_at_mass(float(self.p_value))
        if not is_auto(self.contamination):
            return _score_at_share(scores, sizes, float(self.contamination))
        lower, upper = (_score_at_share(scores, sizes, share) for share in (0.25, 0.75))
        with np.errstate(over="ignore"):
            return float(_bounded(np.float64(lower) - _FENCE * (upper - lower)))

    def _score_at_mass(self, p_value: float) -> float:
        """Return the lowest score whose p-value is not below ``p_value``."""
        draws = self._score_draws()
        n_below = int((np.arange(1, len(draws) + 1) / (len(draws) + 1) < p_value).sum())
        if n_below == 0:
            raise ValueError(
                f"n_draws = {len(draws)} are too few for p_value = {p_value:g}; it takes at "
                f"least {int(1 / p_value)}"
            )
        return float(_bounded(draws[n_below - 1]))

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log density at every row of ``X``, for training rows the held-out one."""
        check_is_fitted(self)
        return self._score(check_samples(self, X, reset=False))

    def _score(self, X: np.ndarray) -> np.ndarray:
        scores = np.array(self.estimator_.score_samples(X), dtype=np.float64)
        if self._held_out:
            for i, key in enumerate(_keys(X)):
                scores[i] = self._held_out.get(key, scores[i])
        return scores

    def decision_function(self, X: Any) -> np.ndarray:
        """Return ``score_samples(X) - offset_``, which is negative for outliers."""
        return _bounded(self.score_samples(X)) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """Return 1 for every row of ``X`` that is an inlier, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def p_values(self, X: Any) -> np.ndarray:
        r"""Return the mass of the density where it is not above that at every row of ``X``.

        With :math:`n` draws of which :math:`c` have no higher density, the estimate is
        :math:`(c + 1) / (n + 1)`, which is never zero. P-values are uniform between 0 and 1 for
        draws from the density, and small for outliers.

        Examples
        --------
        >>> from sevenhills import DensityOutlierDetector, datasets
        >>> X = datasets.load("aniso").sample(500, random_state=0)
        >>> detector = DensityOutlierDetector().fit(X)
        >>> bool(detector.p_values([[100.0, 0.0]])[0] == 1 / 10_001)
        True
        """
        scores, draws = self.score_samples(X), self._score_draws()
        return (np.searchsorted(draws, scores, side="right") + 1) / (len(draws) + 1)

    def _score_draws(self) -> np.ndarray:
        """Return the scores of draws from the density, the lowest first."""
        sample = getattr(self.estimator_, "sample", None)
        needs = {
            "sample(n_samples, random_state)": callable(sample)
            and "random_state" in signature(sample).parameters,
            "a density that integrates to one": getattr(self.estimator_, "is_normalized", True),
        }
        for need, is_met in needs.items():
            if not is_met:
                raise TypeError(
                    f"p-values need {need}, which estimator ({type(self.estimator_).__name__}) "
                    "lacks; leave p_value at None, and set the threshold by contamination"
                )
        draws = self.estimator_.sample(self.n_draws, random_state=self._seed)
        return np.sort(np.asarray(self.estimator_.score_samples(draws), dtype=np.float64))


def _keys(X: np.ndarray) -> Iterator[bytes]:
    """Return a key of every row, by which training rows are recognized."""
    return (row.tobytes() for row in X + 0.0)  # minus zero becomes zero


def _score_held_out(
    fit: Fit,
    X: np.ndarray,
    weights: np.ndarray | None,
    n_folds: int,
    rng: np.random.RandomState,
) -> dict[bytes, float]:
    """Return the score of every distinct row, by key, under a fit with one sample less of it."""
    values, first, of_row = np.unique(X + 0.0, axis=0, return_index=True, return_inverse=True)
    totals = np.bincount(of_row.ravel(), weights)
    # Sorted before they are dealt, so that the order of rows does not matter.
    fold_of = rng.permutation(len(values)) % n_folds
    scores = np.empty(len(values))
    for fold in range(min(n_folds, len(values))):
        out = fold_of == fold
        if weights is None:
            left, left_weights = np.delete(X, first[out], axis=0), None
        else:
            shares = np.where(out, np.maximum(0.0, 1.0 - 1.0 / totals), 1.0)
            left_weights = weights * shares[of_row.ravel()]
            left, left_weights = X[left_weights > 0], left_weights[left_weights > 0]
        try:
            scores[out] = fit(left, left_weights).score_samples(values[out])
        except ValueError as error:
            raise ValueError(
                f"the samples cannot be fitted without one of the {n_folds} folds: {error}; with "
                "n_splits=None no rows are held out"
            ) from error
    return dict(zip(_keys(values), scores.tolist(), strict=True))


def _bounded(scores: Any) -> np.ndarray:
    """Return scores that can be subtracted from each other."""
    return np.maximum(scores, np.finfo(np.float64).min)


def _score_at_share(scores: np.ndarray, sizes: np.ndarray, share: float) -> float:
    """Return the highest score with no more than a share of all samples below it."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(sizes[order]) - sizes[order]
    most = share * sizes.sum() * (1 + _ROUNDING)
    return float(_bounded(scores[order[np.flatnonzero(below <= most)[-1]]]))
