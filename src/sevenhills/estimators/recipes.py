"""Estimators that others are built around: how they are fitted, and what they can do."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from .rome import ROME

#: Fits a clone of the estimator to rows and their weights.
Fit = Callable[[np.ndarray, np.ndarray | None], Any]


def recipe(estimator: Any) -> Fit:
    """Return what fits clones of an estimator, ``ROME()`` if it is None."""
    chosen = ROME() if estimator is None else estimator
    lacking = [name for name in ("fit", "score_samples") if not hasattr(chosen, name)]
    if isinstance(chosen, type) or lacking:
        raise TypeError(
            f"estimator must be an instance with fit and score_samples, got {estimator!r}"
        )
    weighted = has_fit_parameter(chosen, "sample_weight")

    def fit(X: np.ndarray, weights: np.ndarray | None) -> Any:
        if weights is None:
            return clone(chosen).fit(X)
        if not weighted:
            raise TypeError(f"estimator ({type(chosen).__name__}) does not take sample_weight")
        return clone(chosen).fit(X, sample_weight=weights)

    return fit


def can_be_sampled(estimator: Any) -> bool:
    """Whether an estimator has ``sample(n_samples, random_state)``."""
    sample = getattr(estimator, "sample", None)
    return callable(sample) and "random_state" in signature(sample).parameters
