"""What all estimators share."""

from abc import ABC, abstractmethod
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from ..validation import check_samples, unchanged_on_failure


class Density(Protocol):
    """A fitted value."""

    @property
    def is_normalized(self) -> bool:
        """Whether it integrates to one."""

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the log density at every row of ``X``."""

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw independent samples."""


class DensityEstimator(DensityMixin, BaseEstimator, ABC):
    """An estimator whose fitted value is ``density_``."""

    density_: Density
    n_jobs: int | None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the density to samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
            If fitting fails, the estimator is as it was before.
        """
        with unchanged_on_failure(self):
            self._fit(check_samples(self, X, reset=True))
        return self

    @abstractmethod
    def _fit(self, X: np.ndarray) -> None:
        """Set ``density_`` and what else is learned from checked samples."""

    @property
    def is_normalized(self) -> bool:
        """Whether the fitted density integrates to one."""
        check_is_fitted(self)
        return self.density_.is_normalized

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log density at every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.density_.logpdf(check_samples(self, X, reset=False), n_jobs=self.n_jobs)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log density of the rows of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
        """
        return float(np.mean(self.score_samples(X)))

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
