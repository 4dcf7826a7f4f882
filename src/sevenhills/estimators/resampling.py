"""Fits to resampled data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ..density.bootstrap import Replicates, resample
from ..validation import check_count, check_queries, check_weights, random_generator
from .base import DensityEstimator


@dataclass(frozen=True, eq=False)
class RefitBootstrap(Replicates):
    """Densities that were fitted to data drawn anew.

    Parameters
    ----------
    estimators : tuple of DensityEstimator
        The fit of every replicate.
    """

    estimators: tuple[DensityEstimator, ...]

    def __repr__(self) -> str:
        name = type(self.estimators[0]).__name__
        return f"RefitBootstrap({name}, n_replicates={len(self.estimators)})"

    def _check(self, X: Any) -> np.ndarray:
        first = self.estimators[0]
        return check_queries(X, first.n_features_in_, getattr(first, "feature_names_in_", None))

    def _logpdf(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        return np.stack([each.density_.logpdf(X, n_jobs) for each in self.estimators])


def refit_bootstrap(
    estimator: DensityEstimator,
    X: Any,
    n_replicates: int = 50,
    sample_weight: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> RefitBootstrap:
    """Draw the samples anew, many times, and fit the estimator to each of these data sets.

    It shows what ``KernelMixture.bootstrap``, which only weighs the kernels of one fit anew, does
    not: how clusters, places and widths of kernels depend on the samples. Use it where kernels
    stand for many samples each.

    Parameters
    ----------
    estimator : DensityEstimator
        What to fit; it is cloned, and need not be fitted.
    X : array-like of shape (n_samples, n_features)
    n_replicates : int, default=50
        The number of replicates.
    sample_weight : array-like of shape (n_samples,), optional
        How many samples every row stands for; one by default.
    random_state : int, RandomState instance or None, default=0
        Seeds the draws. Every fit has the seed of the estimator.
    n_jobs : int, optional
        Number of processes that fit; one by default.

    Returns
    -------
    RefitBootstrap
        With ``logpdf``, ``band`` and ``std_error``, and the fits as ``estimators``.

    Examples
    --------
    >>> from sevenhills import GaussianMixtureBIC, datasets, refit_bootstrap
    >>> X = datasets.load("varied").sample(300, random_state=0)
    >>> refits = refit_bootstrap(GaussianMixtureBIC(max_components=3), X, n_replicates=20)
    >>> low, high = refits.band(X[:5])
    >>> bool((low < high).all())
    True
    """
    if not isinstance(estimator, DensityEstimator):
        raise TypeError(f"estimator must be one of sevenhills, got {type(estimator).__name__}")
    n_replicates = check_count(n_replicates, "n_replicates", least=2)
    n_rows = len(X)
    weights = check_weights(sample_weight, n_rows)
    weights = np.ones(n_rows) if weights is None else weights
    n_samples = max(1, round(float(weights.sum())))
    counts = resample(weights, n_samples, n_replicates, random_generator(random_state))
    fits = Parallel(n_jobs=n_jobs)(delayed(_fit)(estimator, X, each) for each in counts)
    return RefitBootstrap(tuple(fits))


def _fit(estimator: DensityEstimator, X: Any, counts: np.ndarray) -> DensityEstimator:
    return clone(estimator).fit(X, sample_weight=counts)
