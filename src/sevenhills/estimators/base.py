"""What all estimators share."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from ..density import KernelMixture
from ..density.mixture import with_samples
from ..validation import (
    check_choice,
    check_n_jobs,
    check_samples,
    check_weights,
    unchanged_on_failure,
)
from .questions import Questions, not_kernels


class DensityEstimator(Questions, DensityMixin, BaseEstimator, ABC):
    """An estimator whose fitted value is ``density_``."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the density to samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            How many samples every row stands for, not necessarily a whole number: a row that
            weighs three is a row that is given three times. Weights that only say how rows
            compare should be scaled to add up to the number of samples that they are worth.

        Returns
        -------
        self
            If fitting fails, the estimator is as it was before.
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            X = check_samples(self, X, reset=True)
            weights = check_weights(sample_weight, len(X))
            self._fit(X, weights)
            self._describe_density(len(X) if weights is None else float(weights.sum()))
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters that no samples could be fitted with."""
        check_n_jobs(self.n_jobs)

    @abstractmethod
    def _fit(self, X: np.ndarray, weights: np.ndarray | None) -> None:
        """Set ``density_`` and what else is learned from checked samples."""

    def _describe_density(self, n_samples: float) -> None:
        """Tell the density of the features and the samples that it was made from."""
        if isinstance(self.density_, KernelMixture):
            names = getattr(self, "feature_names_in_", None)
            self.density_ = with_samples(self.density_, names, n_samples)

    @property
    def is_normalized(self) -> bool:
        """Whether the fitted density integrates to one."""
        check_is_fitted(self)
        return self.density_.is_normalized

    def score_samples(self, X: Any, missing: str = "raise") -> np.ndarray:
        """Return the log density at every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        missing : {"raise", "marginal"}, default="raise"
            What to do with NaN: refuse it, or give the density of the values that are there, by
            the marginal over those features.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        check_choice(missing, "missing", ("raise", "marginal"))
        if missing == "raise":
            return self.density_.logpdf(check_samples(self, X, reset=False), n_jobs=self.n_jobs)
        if not isinstance(self.density_, KernelMixture):
            raise not_kernels(self, f"missing={missing!r}")
        X = check_samples(self, X, reset=False, missing=True)
        return self.density_.logpdf(X, n_jobs=self.n_jobs, missing=missing)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean log density of the rows of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            How often every row counts; once by default.

        Returns
        -------
        float
        """
        scores = self.score_samples(X)
        return float(np.average(scores, weights=check_weights(sample_weight, len(scores))))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw independent samples from the fitted density.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            With None the draws differ from call to call; numpy's global generator is neither
            used nor changed.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.density_.sample(n_samples, random_state)
