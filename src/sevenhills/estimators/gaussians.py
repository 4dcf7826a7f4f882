"""A Gaussian mixture whose number of components is chosen by the BIC."""

import warnings
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from ..clustering import Frame
from ..density import KernelMixture
from ..validation import (
    check_count,
    check_positive,
    random_generator,
)
from .base import DensityEstimator

_MOST_ITERATIONS = 100


class GaussianMixtureBIC(DensityEstimator):
    r"""Full-covariance Gaussian mixture with the number of components of the lowest BIC.

    .. math:: p(x) = \sum_{k=1}^{K} w_k \, N(x; \mu_k, \Sigma_k)

    scikit-learn's ``GaussianMixture`` is fitted for every number of components.

    Parameters
    ----------
    max_components : int, default=10
        The largest number of components to try, at most the number of distinct samples.
    n_init : int, default=1
        How many starts to try for each number.
    reg_covar : float, default=1e-6
        The variance added to every feature, as a part of the variance of the samples.
    random_state : int, RandomState instance or None, default=0
        Seeds the starts.
    n_jobs : int, optional
        Number of threads for queries; one by default.

    Attributes
    ----------
    density_ : KernelMixture
        The fitted density, one kernel for each component.
    n_components_ : int
        The number of components of the lowest BIC.
    bic_ : ndarray of shape (n_tried,)
        The BIC of one component, two, and so on.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If the samples came with names that are strings.

    Examples
    --------
    >>> from sevenhills import GaussianMixtureBIC, datasets
    >>> X = datasets.load("varied").sample(600, random_state=0)
    >>> GaussianMixtureBIC(max_components=5).fit(X).n_components_
    3
    """

    density_: KernelMixture
    n_components_: int
    bic_: np.ndarray

    def __init__(
        self,
        *,
        max_components: int = 10,
        n_init: int = 1,
        reg_covar: float = 1e-6,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.max_components = max_components
        self.n_init = n_init
        self.reg_covar = reg_covar
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, X: np.ndarray) -> None:
        most = check_count(self.max_components, "max_components", least=1)
        check_count(self.n_init, "n_init", least=1)
        if len(X) < 2:
            raise ValueError("X has n_samples = 1; a covariance needs at least 2")
        rng = random_generator(self.random_state)
        frame = Frame.of(X, "canonical")
        points = frame.enter(X)
        centre = points.mean(axis=0)
        most = min(most, len(np.unique(points, axis=0)))
        ridge = check_positive(self.reg_covar, "reg_covar") * np.var(points - centre)
        if ridge == 0:
            raise ValueError(f"the samples have no spread (n_samples = {len(X)})")
        fits = [self._fit_one(points - centre, k, ridge, rng) for k in range(1, most + 1)]
        bic = np.array([fit.bic(points - centre) for fit in fits])
        best = fits[int(np.argmin(bic))]
        self.density_ = KernelMixture(
            weights=best.weights_ / best.weights_.sum(),
            centres=(best.means_ + centre) * frame.unit,
            offsets=np.arange(best.n_components + 1),
            transforms=best.precisions_cholesky_ / frame.unit,
        )
        self.n_components_ = best.n_components
        self.bic_ = bic + 2 * X.size * np.log(frame.unit)

    def _fit_one(self, points: np.ndarray, k: int, ridge: float, rng: np.random.RandomState) -> Any:
        from sklearn.mixture import GaussianMixture  # a tenth of a second that others need not wait

        mixture = GaussianMixture(
            n_components=k,
            n_init=self.n_init,
            reg_covar=ridge,
            max_iter=_MOST_ITERATIONS,
            random_state=rng,
        )
        # k-means, which finds the starts, knows numpy alone.
        with config_context(array_api_dispatch=False), warnings.catch_warnings():
            # A start that did not converge is a worse fit, which the BIC will tell.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return mixture.fit(points)
