r"""Mixtures of Gaussian or Student's t components, fitted by expectation maximization.

The squared distance of a sample to a component is linear in the products of the sample's
coordinates, and so are the sums from which components are estimated. Products are computed once and
used as features, so that both steps are matrix products and many small fits are cheap.
scikit-learn's ``GaussianMixture`` has neither Student's t nor shrinkage of the covariances.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ..covariance import whitening_transforms
from ..density import KernelMixture
from ..density.sums import LOG_2PI
from ..kernels.components import EPSILON, maximize_likelihood

#: Iterations of k-means that start a fit.
_KMEANS_STEPS = 3
#: Upper bound on the iterations of a fit, which ends when the mean log likelihood rises by less
#: than this tolerance.
_MAX_STEPS = 60
_TOLERANCE, _TOLERANCE_PER_FEATURE = 1e-3, 1e-4
#: Most rows for which sums are computed together.
_BLOCK = 256
#: Distance of the logarithms of precisions in Student's t, in widths of a Gaussian's likelihood.
_SPACING = 1.2
#: Precisions less likely than this share of the likeliest are dropped.
_MIN_LIKELIHOOD = 1e-5


def gaussian_kernels(
    weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> KernelMixture:
    """Return the mixture of Gaussians that have one covariance each.

    A covariance that is not positive definite raises ``numpy.linalg.LinAlgError``.
    """
    transforms = whitening_transforms(covariances)
    return KernelMixture(weights / weights.sum(), means, np.arange(len(means) + 1), transforms)


class Components(NamedTuple):
    """A mixture of Gaussians (infinite ``dof``) or of Student's t, with their scale matrices."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    dof: float

    def log_density(self, features: np.ndarray) -> np.ndarray:
        """Return the log density at rows given as :func:`quadratic_features`."""
        return log_sum_exp(self._log_parts(features))

    def shares(self, features: np.ndarray) -> np.ndarray:
        """Return the responsibilities (n_rows, n_components) at rows."""
        parts = self._log_parts(features)
        return np.asarray(np.exp(parts - log_sum_exp(parts)[:, None]))

    def _log_parts(self, features: np.ndarray) -> np.ndarray:
        """Return the log density of every component times its weight at every row."""
        distances, log_dets = squared_distances(features, self.means, self.covariances)
        dof, n_features = self.dof, self.means.shape[1]
        log_dets = log_dets - 2 * np.log(self.weights)
        if np.isinf(dof):
            return np.asarray(-0.5 * (distances + log_dets + n_features * LOG_2PI))
        half = 0.5 * (dof + n_features)
        constant = gammaln(half) - gammaln(0.5 * dof) - 0.5 * n_features * np.log(dof * np.pi)
        return np.asarray(constant - 0.5 * log_dets - half * np.log1p(distances / dof))

    def density(self, ridge: np.ndarray) -> KernelMixture:
        """Return the mixture as Gaussian kernels.

        A Gaussian in a Student's t that is narrower than its scale matrix would lose a part of the
        ridge that is in the matrix; that part is added again.
        """
        precisions, shares = student_precisions(self.dof, self.means.shape[1])
        widths = 1 / np.tile(precisions, len(self.means))[:, None, None]
        covariances = widths * np.repeat(self.covariances, len(precisions), axis=0)
        covariances = covariances + np.maximum(1 - widths, 0.0) * ridge
        means = np.repeat(self.means, len(precisions), axis=0)
        return gaussian_kernels(np.outer(self.weights, shares).ravel(), means, covariances)


@cache
def student_precisions(dof: float, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Return precisions and weights of Gaussians that add up to Student's t.

    Student's t is a Gaussian whose precision is multiplied by a random :math:`u` that follows a
    gamma distribution with shape and rate :math:`\nu / 2`. The integral over :math:`u` is replaced
    by a sum over a grid of :math:`\log u`. Infinite degrees of freedom need one Gaussian.
    """
    if np.isinf(dof):
        return np.ones(1), np.ones(1)
    half = 0.5 * dof
    # As a function of log u, a Gaussian in M dimensions is a bump of width sqrt(2 / M) at most.
    step = _SPACING / np.sqrt(1 + 0.5 * n_features)
    grid = np.arange(-12.0, 4.0, step)
    logs = half * np.log(half) - gammaln(half) + half * grid - half * np.exp(grid)
    kept = logs > logs.max() + np.log(_MIN_LIKELIHOOD)
    weights = np.exp(logs[kept])
    return np.exp(grid[kept]), weights / weights.sum()


# The expectation step


#: The two features of every product.
_pairs = cache(np.triu_indices)


def quadratic_features(Y: np.ndarray) -> np.ndarray:
    """Return one, the coordinates and their products, for every row."""
    i, j = _pairs(Y.shape[1])
    return np.concatenate([np.ones((len(Y), 1)), Y, Y[:, i] * Y[:, j]], axis=1)


def squared_distances(
    features: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Mahalanobis distances of rows to components, squared, and the log determinants."""
    i, j = _pairs(means.shape[1])
    factors = np.linalg.cholesky(covariances)
    log_dets = 2 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    inverses = np.linalg.inv(covariances)
    # Products use the upper half and linear terms all of it, so the halves must be exactly equal.
    inverses = 0.5 * (inverses + inverses.transpose(0, 2, 1))
    linear = np.matmul(inverses, means[:, :, None])[:, :, 0]
    constant = (means * linear).sum(axis=1)
    products = inverses[:, i, j] * np.where(i == j, 1.0, 2.0)
    coefficients = np.concatenate([constant[:, None], -2 * linear, products], axis=1)
    # Stored by component, so that the next steps run along contiguous memory.
    return np.maximum((coefficients @ features.T).T, 0.0), log_dets


def log_sum_exp(parts: np.ndarray) -> np.ndarray:
    """Return the logarithm of the sum of exponentials along rows.

    It lacks the checks of ``scipy.special.logsumexp``, which cost more than small sums.
    """
    highest = parts.max(axis=1)
    return np.asarray(highest + np.log(np.exp(parts - highest[:, None]).sum(axis=1)))


# The start


def kmeans_start(
    Y: np.ndarray, weights: np.ndarray, n_components: int, rng: np.random.RandomState
) -> np.ndarray:
    """Return one-hot responsibilities of the centers that a few steps of k-means find."""
    centers = _spread_centers(Y, weights, n_components, rng)
    squares = np.einsum("ij,ij->i", Y, Y)
    weighted = Y * weights[:, None]
    for _ in range(_KMEANS_STEPS):
        apart = squares[:, None] - 2 * Y @ centers.T + np.einsum("ij,ij->i", centers, centers)
        shares = np.zeros((len(Y), n_components), order="F")
        shares[np.arange(len(Y)), apart.argmin(axis=1)] = 1.0
        sizes = weights @ shares
        taken = sizes > 0
        centers[taken] = (shares.T @ weighted)[taken] / sizes[taken, None]
    return shares


def _spread_centers(
    Y: np.ndarray, weights: np.ndarray, n_centers: int, rng: np.random.RandomState
) -> np.ndarray:
    """Draw centers as k-means++ does, by weight and squared distance to the centers so far."""
    chosen = [rng.randint(len(Y))]
    apart = np.full(len(Y), np.inf)
    for draw in rng.uniform(size=n_centers - 1):
        apart = np.minimum(apart, np.square(Y - Y[chosen[-1]]).sum(axis=1))
        bounds = np.cumsum(weights * apart)
        row = int(np.searchsorted(bounds, draw * bounds[-1], side="right"))
        chosen.append(min(row, len(Y) - 1))
    return Y[chosen].copy()


# The fit


class Prior(NamedTuple):
    """The shrinkage of the covariances of components.

    ``round`` and ``pooled`` are the weights, in samples, of a ``target`` and of the pooled
    covariance ``shape``, both scaled to the trace. If ``shape`` is None, the covariance is pooled
    over the components; without a ``target``, it is the identity. The ridge is added to every
    covariance, so that none is singular.
    """

    round: float
    pooled: float
    shape: np.ndarray | None
    ridge: np.ndarray
    target: np.ndarray | None = None


def fit_components(
    features: np.ndarray,
    weights: np.ndarray,
    shares: np.ndarray,
    prior: Prior,
    dof: float = np.inf,
) -> Components:
    """Fit components by expectation maximization.

    Rows are given as :func:`quadratic_features`, with the number of samples that each stands for.
    The fit starts from the responsibilities ``shares`` (n_rows, n_components).
    """
    n_components, n_features = shares.shape[1], len(prior.ridge)
    pulls = shares.T * weights
    constants = np.array([-0.5 * n_features * LOG_2PI, np.inf])
    if dof < np.inf:
        half = 0.5 * (dof + n_features)
        height = gammaln(half) - gammaln(0.5 * dof) - 0.5 * n_features * np.log(dof * np.pi)
        constants = np.array([height, half])
    size = min(_BLOCK, len(features))
    work = np.empty((5, size))
    sizes, means = np.empty(n_components), np.empty((n_components, n_features))
    covariances = np.empty((n_components, n_features, n_features))
    is_fitted = maximize_likelihood(
        features,
        weights,
        float(weights.sum()),
        float(dof),
        constants,
        np.array([prior.round, prior.pooled]),
        np.eye(n_features) if prior.target is None else prior.target,
        np.zeros_like(prior.ridge) if prior.shape is None else prior.shape,
        prior.ridge,
        _MAX_STEPS,
        max(_TOLERANCE, _TOLERANCE_PER_FEATURE * n_features),
        pulls @ features,
        pulls.sum(axis=1) + EPSILON,
        np.empty((n_components, features.shape[1])),
        np.empty(n_components),
        np.empty((2, n_features, n_features)),
        np.empty((2, n_components, size)),
        work,
        work.view(np.int64),
        sizes,
        means,
        covariances,
    )
    if not is_fitted:
        raise np.linalg.LinAlgError("a covariance is not positive definite")
    return Components(sizes / sizes.sum(), means, covariances, dof)
