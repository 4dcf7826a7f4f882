"""A Gaussian mixture whose number of components is chosen by the BIC.

Expectation maximization is written twice, here and in :mod:`sevenhills.stacking.components`. This
one gives the results of scikit-learn's ``GaussianMixture``: it sums squared deviations from each
mean, and does not shrink covariances. The other one is faster on small clusters, but its sums of
products lose the digits that a small ``reg_covar`` needs.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from ..clustering import Points
from ..covariance import whitening_transforms
from ..density import KernelMixture
from ..progress import part, tracked
from ..validation import check_count, check_positive, is_auto, random_generator
from ..whitening import Grouping
from .base import DensityEstimator, points_with_spread
from .support import Support

#: Upper bound on the iterations of a fit, which ends when the mean log likelihood changes by less
#: than this tolerance.
_MAX_STEPS = 100
_TOLERANCE = 1e-3
#: Added to the size of a component, so that empty components have a finite mean.
_EPSILON = 10 * np.finfo(float).eps
#: The automatic ``reg_covar`` is this fraction of the mean variance.
_AUTO_SHARE = 1e-6
_LOG_2PI = float(np.log(2 * np.pi))


class GaussianMixtureBIC(DensityEstimator):
    r"""Full-covariance Gaussian mixture with the number of components of the lowest BIC.

    .. math:: p(x) = \sum_{k=1}^{K} w_k \, N(x; \mu_k, \Sigma_k)

    For every number of components the fit is that of scikit-learn's ``GaussianMixture``, which
    lacks weights of samples.

    Parameters
    ----------
    max_components : int, default=10
        The largest number of components to try, at most the number of distinct samples.
    n_init : int, default=1
        The number of starts for each number of components.
    reg_covar : float or "auto", default="auto"
        The variance added to every feature, in squared data units. "auto" is 1e-6 times the mean
        variance of the features, so that the density does not depend on the unit of the samples.
    support : None, "auto" or dict, default=None
        The bounds and circles of features, as in :class:`ROME`.
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
    support_ : tuple of :class:`~sevenhills.estimators.FeatureSupport`
        The maps of the features in ``support``, and the number of samples at their bounds.

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
        reg_covar: float | str = "auto",
        support: Any = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.max_components = max_components
        self.n_init = n_init
        self.reg_covar = reg_covar
        self.support = support
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self.max_components, "max_components", least=1)
        check_count(self.n_init, "n_init", least=1)
        if not is_auto(self.reg_covar):
            check_positive(self.reg_covar, "reg_covar", "a number or 'auto'")
        random_generator(self.random_state)

    def _fit(self, X: np.ndarray, weights: np.ndarray | None, support: Support) -> None:
        rng = random_generator(self.random_state)
        points = points_with_spread(support.latent(X), weights, "a covariance")
        ridge = self._ridge(points)
        # Relative to the median: an outlier would move the mean far away from all other samples.
        origin = np.quantile(points.X, 0.5, axis=0, method="lower")
        data = _Data(points.X - origin, points.weights, ridge)
        numbers = range(1, min(int(self.max_components), len(points.rows)) + 1)
        with part("components"):
            fits = [_best_fit(data, k, int(self.n_init), rng) for k in tracked(numbers)]
        bic = np.array([fit.bic(data) for fit in fits])
        best = fits[int(np.argmin(bic))]
        self.density_ = KernelMixture(
            weights=best.weights,
            means=(best.means + origin) * points.unit,
            offsets=np.arange(len(best.weights) + 1),
            transforms=best.transforms / points.unit,
        )
        self.n_components_ = len(best.weights)
        n_numbers = float(points.weights.sum()) * X.shape[1]
        self.bic_ = bic + 2 * n_numbers * np.log(points.unit)

    def _ridge(self, points: Points) -> float:
        """Return the variance to add, in squared units of the points."""
        if is_auto(self.reg_covar):
            return _AUTO_SHARE * Grouping.from_points(points).spread() ** 2
        number = float(self.reg_covar)
        ridge = number / points.unit / points.unit
        if not 0 < ridge < np.inf:
            raise ValueError(
                f"reg_covar = {number:g} cannot be represented in the units of these samples"
            )
        return ridge


class _Data(NamedTuple):
    """Samples, their weights, and the variance that is added to every feature."""

    points: np.ndarray
    weights: np.ndarray
    ridge: float


class _Fit(NamedTuple):
    """A mixture, and the mean log likelihood before its last iteration."""

    weights: np.ndarray
    means: np.ndarray
    transforms: np.ndarray
    likelihood: float

    def log_parts(self, points: np.ndarray) -> np.ndarray:
        """Return the log density of every component times its weight at every point, (K, N)."""
        turned = np.matmul(points - self.means[:, None], self.transforms)
        squares = np.einsum("kij,kij->ki", turned, turned)
        log_dets = np.linalg.slogdet(self.transforms)[1]
        heights = np.log(self.weights) + log_dets - 0.5 * points.shape[1] * _LOG_2PI
        return np.asarray(heights[:, None] - 0.5 * squares)

    def bic(self, data: _Data) -> float:
        """Return the Bayesian information criterion."""
        n_components, n_features = self.means.shape
        n_free = n_components * (1 + n_features + n_features * (n_features + 1) // 2) - 1
        scores = logsumexp(self.log_parts(data.points), axis=0)
        return float(n_free * np.log(data.weights.sum()) - 2 * data.weights @ scores)


def _best_fit(data: _Data, k: int, n_init: int, rng: np.random.RandomState) -> _Fit:
    fits = [_fit_from(data, _kmeans_start(data, k, rng)) for _ in range(n_init)]
    return max(fits, key=lambda fit: fit.likelihood)


def _kmeans_start(data: _Data, k: int, rng: np.random.RandomState) -> np.ndarray:
    """Return one-hot responsibilities (K, N) of the centers that k-means finds."""
    from sklearn.cluster import KMeans  # takes a tenth of a second, which others are spared

    # KMeans needs numpy arrays, and warns if there are fewer distinct samples than centers.
    with config_context(array_api_dispatch=False), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        means = KMeans(n_clusters=k, n_init=1, random_state=rng)
        labels = means.fit(data.points, sample_weight=data.weights).labels_
    return (labels == np.arange(k)[:, None]).astype(np.float64)


def _fit_from(data: _Data, shares: np.ndarray) -> _Fit:
    """Fit components by expectation maximization, starting from responsibilities."""
    fit = _estimate(data, shares, -np.inf)
    for _ in range(_MAX_STEPS):
        parts = fit.log_parts(data.points)
        scores = logsumexp(parts, axis=0)
        likelihood = float(np.average(scores, weights=data.weights))
        gain = likelihood - fit.likelihood
        fit = _estimate(data, np.exp(parts - scores), likelihood)
        if abs(gain) < _TOLERANCE:
            break
    return fit


def _estimate(data: _Data, shares: np.ndarray, likelihood: float) -> _Fit:
    """Return components from responsibilities."""
    n_features = data.points.shape[1]
    pulls = shares * data.weights
    sizes = pulls.sum(axis=1) + _EPSILON
    means = pulls @ data.points / sizes[:, None]
    apart = data.points - means[:, None]
    covariances = np.matmul(apart.transpose(0, 2, 1), pulls[:, :, None] * apart)
    covariances = covariances / sizes[:, None, None] + data.ridge * np.eye(n_features)
    try:
        transforms = whitening_transforms(covariances)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "reg_covar is too small for the spread of the samples; pass a larger one or 'auto'"
        ) from error
    return _Fit(sizes / sizes.sum(), means, transforms, likelihood)
