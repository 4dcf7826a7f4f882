"""Manifold Parzen windows: every sample has a kernel with the shape of its neighborhood."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy.spatial import KDTree

from ..clustering import Points
from ..density import KernelMixture
from ..kernels.blocks import most_needed
from ..validation import check_count, check_min_std, is_auto
from ..whitening import Grouping, resolve_min_std
from .base import DensityEstimator
from .support import Support

#: Upper bound on the numbers in a block of neighborhoods, which limits the memory.
_BLOCK_NUMBERS = 2**20
#: Eigenvalues below this fraction of the largest may be rounding errors.
_SQUARES_LOST = 1e-8
#: Eigenvalues that differ by less than this fraction are equal. Rounding alone would decide which
#: of their axes is kept, and the density would depend on the order of the features.
_TIED = 1e-9


def window_neighbors(total: float, n_features: int) -> int:
    r"""Return the number of neighbors of a kernel: :math:`\max(M, \lfloor\sqrt N / 1.5\rfloor)`."""
    return max(1, int(min(total, max(n_features, np.sqrt(total) / 1.5))))


def neighborhoods(
    points: np.ndarray, weights: np.ndarray, n_neighbors: int, n_jobs: int | None
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield blocks of points: their rows, their nearest points, and the shares of these.

    The nearest points of every point, itself first, add up to ``n_neighbors`` samples, or to all if
    there are fewer; the last counts in part.
    """
    mass = min(float(n_neighbors), float(weights.sum()))
    n_most = most_needed(weights, mass)
    tree, step = KDTree(points), max(1, _BLOCK_NUMBERS // (n_most * points.shape[1]))
    ranks, n_threads = np.arange(1, n_most + 1), effective_n_jobs(n_jobs)
    for start in range(0, len(points), step):
        rows = slice(start, start + step)
        _, found = tree.query(points[rows], k=ranks, workers=n_threads)
        own = weights[found]
        before = np.cumsum(own, axis=1) - own
        parts = np.clip(mass - before, 0.0, own)
        yield rows, found, parts / parts.sum(axis=1, keepdims=True)


def window_transforms(
    points: np.ndarray,
    near: Iterable[tuple[slice, np.ndarray, np.ndarray]],
    min_std: float,
    n_directions: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the transform that whitens the kernel of every point, and its log determinant.

    The covariance of kernel :math:`i` is the second moment of its :math:`k` neighbors about it,
    as :func:`neighborhoods` yields them, plus ``min_std ** 2`` in every direction:

    .. math:: S_i = \frac{1}{k} \sum_j (x_j - x_i)(x_j - x_i)^\top + s_{\min}^2 I

    With fewer directions than features, only the largest eigenvalues of the moment are kept, and
    those equal to the smallest of them. The results have the shapes
    (n_points, n_features, n_features) and (n_points,).
    """
    n_points, n_features = points.shape
    transforms, log_dets = np.empty((n_points, n_features, n_features)), np.empty(n_points)
    for rows, neighbors, shares in near:
        apart = points[neighbors] - points[rows, None]
        variances, axes = _principal_moments(apart * np.sqrt(shares)[:, :, None])
        if n_directions is not None:
            kept = variances[:, n_features - n_directions :]
            smallest = kept.min(axis=1, initial=np.inf, keepdims=True)
            variances[variances < (1 - _TIED) * smallest] = 0.0
        variances += min_std**2
        if not (variances > 0).all():
            raise ValueError(
                "some neighborhoods have no spread in some direction; pass a min_std above 0 "
                f"(got min_std = {min_std:g})"
            )
        transforms[rows] = axes / np.sqrt(variances)[:, None, :]
        log_dets[rows] = -0.5 * np.log(variances).sum(axis=1)
    return transforms, log_dets


def _principal_moments(apart: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues, smallest first, and the axes of second moments of points (W, K, M).

    If neighbors lie on a line or a plane, small eigenvalues are lost in the rounding errors of
    squares. They are then computed from singular values, which takes longer.
    """
    variances, axes = np.linalg.eigh(np.matmul(apart.transpose(0, 2, 1), apart))
    for i in np.flatnonzero(variances[:, 0] < _SQUARES_LOST * variances[:, -1]):
        triangle = np.linalg.qr(apart[i], mode="r")
        _, lengths, turned = np.linalg.svd(triangle)
        n_lost = len(turned) - len(lengths)  # fewer neighbors than features
        variances[i] = np.append(lengths, np.zeros(n_lost))[::-1] ** 2
        axes[i] = turned[::-1].T
    return np.maximum(variances, 0.0), axes


class ManifoldParzen(DensityEstimator):
    r"""Manifold Parzen windows.

    Every sample has a Gaussian kernel with the covariance of its :math:`k` nearest neighbors,
    itself included, so that kernels follow the manifold from which the samples come:

    .. math:: p(x) = \frac{1}{N} \sum_i N(x; x_i, S_i), \qquad
              S_i = \frac{1}{k} \sum_j (x_j - x_i)(x_j - x_i)^\top + s_{\min}^2 I

    The covariances take :math:`N M^2` numbers.

    Parameters
    ----------
    min_std : float or "auto", default="auto"
        The smallest standard deviation :math:`s_{\min}` of a kernel along any direction, in data
        units. "auto" is 0.01 times the standard deviation of the samples.
    n_neighbors : int or "auto", default="auto"
        The number of neighbors; "auto" is :math:`\max(M, \lfloor\sqrt N / 1.5\rfloor)`.
    n_directions : int, optional
        The number of principal directions of a neighborhood to keep; along all others a kernel has
        the standard deviation ``min_std``. Directions of equal variance are kept together. All by
        default.
    support : None, "auto" or dict, default=None
        The bounds and circles of features, as in :class:`ROME`.
    n_jobs : int, optional
        Number of threads; one by default.

    Attributes
    ----------
    density_ : KernelMixture
        The fitted density, one group for each kernel.
    n_neighbors_ : int
        The number of neighbors that was used.
    min_std_ : float
        The smallest standard deviation that was used, in data units.
    support_ : tuple of :class:`~sevenhills.estimators.FeatureSupport`
        The maps of the features in ``support``, and the number of samples at their bounds.

    References
    ----------
    P. Vincent, Y. Bengio: Manifold Parzen Windows. NIPS 2002.

    Examples
    --------
    >>> from sevenhills import ManifoldParzen, datasets
    >>> train, test = datasets.load("two_moons").split(run=0, n_samples=1000)
    >>> round(ManifoldParzen(min_std=0.01).fit(train).score(test), 1)
    -0.4
    """

    density_: KernelMixture
    n_neighbors_: int
    min_std_: float

    def __init__(
        self,
        *,
        min_std: float | str = "auto",
        n_neighbors: int | str = "auto",
        n_directions: int | None = None,
        support: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.min_std = min_std
        self.n_neighbors = n_neighbors
        self.n_directions = n_directions
        self.support = support
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_min_std(self.min_std)
        if self.n_directions is not None:
            check_count(self.n_directions, "n_directions")
        if not is_auto(self.n_neighbors):
            check_count(self.n_neighbors, "n_neighbors", least=1)

    def _fit(self, X: np.ndarray, weights: np.ndarray | None, support: Support) -> None:
        X = support.latent(X)
        points = Points.from_samples(X, weights)
        total = float(points.weights.sum())
        n_neighbors = self._resolve_neighbors(total, X.shape[1])
        whole = Grouping.from_points(points)
        # Ties between neighbors are broken in the same way for every order of the features.
        X_sorted = points.X[:, points.features]
        near = neighborhoods(X_sorted, whole.weights, n_neighbors, self.n_jobs)
        spread = resolve_min_std(self.min_std, whole)
        transforms, log_dets = window_transforms(points.X, near, spread, self.n_directions)
        self.density_ = KernelMixture(
            weights=points.weights / total,
            means=X[points.rows],
            offsets=np.arange(len(points.rows) + 1),
            transforms=transforms / points.unit,
            log_dets=log_dets - X.shape[1] * np.log(points.unit),
        )
        self.n_neighbors_, self.min_std_ = n_neighbors, spread * points.unit

    def _resolve_neighbors(self, n_samples: float, n_features: int) -> int:
        """Return the number of neighbors; refuse numbers that exceed samples or features."""
        if self.n_directions is not None and self.n_directions > n_features:
            raise ValueError(
                f"n_directions must not exceed the {n_features} features, got {self.n_directions}"
            )
        if isinstance(self.n_neighbors, str):
            return window_neighbors(n_samples, n_features)
        if self.n_neighbors > n_samples:
            raise ValueError(
                f"n_neighbors must not exceed n_samples = {n_samples:g}, got {self.n_neighbors}"
            )
        return int(self.n_neighbors)
