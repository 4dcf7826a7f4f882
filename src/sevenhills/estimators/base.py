"""What all estimators that fit a :class:`~sevenhills.KernelMixture` share."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from ..density import KernelMixture
from ..validation import check_samples


class MixtureEstimator(DensityMixin, BaseEstimator):
    """An estimator whose fitted value is ``density_``."""

    density_: KernelMixture
    n_jobs: int | None

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
