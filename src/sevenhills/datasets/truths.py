"""The true densities of the distributions of the study."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import roots_legendre

from ..density import KernelMixture
from ..validation import check_count, check_queries, random_generator
from .trajectories import WalkModel

#: Standard deviation of the noise of the two moons.
MOONS_STD = 0.05
#: Quadrature nodes on each moon. Seen from a distance of 30 units, the integrand along an arc has
#: a standard deviation of .009, which this many nodes resolve.
_MOON_NODES = 1024


@dataclass(frozen=True, eq=False)
class Truth:
    """The true density of a distribution.

    It has the methods of a fitted estimator, so that metrics of two fits also compare a fit with
    the truth.

    Parameters
    ----------
    n_features : int
        The dimension of the space.
    log_density : callable
        ``log_density(X)`` returns the logarithm of the density at every row of ``X``.
    draw : callable
        ``draw(n_samples, rng)`` returns independent draws, (n_samples, n_features).

    Examples
    --------
    >>> from sevenhills import datasets
    >>> truth = datasets.load("gaussian").truth
    >>> truth.logpdf([[0.0, 0.0], [1.0, 2.0]]).round(3)
    array([-1.838, -4.338])
    >>> truth.sample(3, random_state=0).shape
    (3, 2)
    """

    n_features: int
    log_density: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    draw: Callable[[int, np.random.RandomState], np.ndarray] = field(repr=False)

    def logpdf(self, X: Any) -> np.ndarray:
        """Return the logarithm of the density at every row of ``X``."""
        return self.log_density(check_queries(X, self.n_features))

    def pdf(self, X: Any) -> np.ndarray:
        """Return the density at every row of ``X``."""
        return np.exp(self.logpdf(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the same as :meth:`logpdf`, as estimators do."""
        return self.logpdf(X)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw independent samples.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            With None, the samples differ from call to call. Numpy's global generator is not used.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        return self.draw(check_count(n_samples, "n_samples"), random_generator(random_state))


def round_gaussians(centers: np.ndarray, stds: np.ndarray) -> Truth:
    """Return the truth of round Gaussians of equal weight, each with its standard deviation."""
    n_kernels, n_features = centers.shape
    mixture = KernelMixture(
        weights=np.full(n_kernels, 1 / n_kernels),
        means=centers,
        offsets=np.arange(n_kernels + 1),
        transforms=np.eye(n_features) / stds[:, None, None],
    )
    return Truth(n_features, mixture.logpdf, mixture.sample)


def sheared_gaussians(centers: np.ndarray, matrix: np.ndarray) -> Truth:
    """Return the truth of ``(center + z) @ matrix`` for random centers, z standard normal."""
    n_kernels, n_features = centers.shape
    mixture = KernelMixture(
        weights=np.full(n_kernels, 1 / n_kernels),
        means=centers @ matrix,
        offsets=np.array([0, n_kernels]),
        transforms=np.linalg.inv(matrix)[None],
    )
    return Truth(n_features, mixture.logpdf, mixture.sample)


def disturbed(model: WalkModel) -> Truth:
    """Return the truth of rotated, stretched and noisy walks."""
    return Truth(model.n_features, model.logpdf, model.draw)


def two_moons() -> Truth:
    """Return the truth of two half circles, uniform in the angle, with Gaussian noise."""
    return Truth(2, moons_mixture(_MOON_NODES).logpdf, _draw_moons)


def moons_mixture(n_nodes: int) -> KernelMixture:
    """Return the noisy half circles as a mixture with one kernel per node of a Gauss rule."""
    nodes, weights = roots_legendre(n_nodes)
    outer, inner = _moons(np.pi * (nodes + 1) / 2)
    return KernelMixture(
        weights=np.tile(weights / (2 * weights.sum()), 2),
        means=np.concatenate([outer, inner]),
        offsets=np.array([0, 2 * n_nodes]),
        transforms=np.eye(2)[None] / MOONS_STD,
    )


def _moons(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.column_stack([cos, sin]), np.column_stack([1 - cos, 0.5 - sin])


def _draw_moons(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    outer, inner = _moons(rng.uniform(0.0, np.pi, n_samples))
    points = np.where(rng.randint(2, size=n_samples)[:, None], outer, inner)
    return points + rng.normal(0.0, MOONS_STD, points.shape)
