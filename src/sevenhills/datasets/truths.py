"""The true densities of the distributions of the study."""

from typing import Any

import numpy as np
from scipy.special import roots_legendre

from ..density import Density, KernelMixture
from ..validation import check_count, random_generator

#: Standard deviation of the noise of the two moons.
MOONS_STD = 0.05
#: Quadrature nodes on each moon. Seen from a distance of 30 units, the integrand along an arc has
#: a standard deviation of .009, which this many nodes resolve.
_MOON_NODES = 1024


def round_gaussians(centers: np.ndarray, stds: np.ndarray) -> KernelMixture:
    """Return round Gaussians of equal weight, each with its standard deviation."""
    n_kernels, n_features = centers.shape
    return KernelMixture(
        weights=np.full(n_kernels, 1 / n_kernels),
        means=centers,
        offsets=np.arange(n_kernels + 1),
        transforms=np.eye(n_features) / stds[:, None, None],
    )


def sheared_gaussians(centers: np.ndarray, matrix: np.ndarray) -> KernelMixture:
    """Return the density of ``(center + z) @ matrix`` for random centers, z standard normal."""
    n_kernels = len(centers)
    return KernelMixture(
        weights=np.full(n_kernels, 1 / n_kernels),
        means=centers @ matrix,
        offsets=np.array([0, n_kernels]),
        transforms=np.linalg.inv(matrix)[None],
    )


class TwoMoons(Density):
    """Two half circles, uniform in the angle, with Gaussian noise.

    Parameters
    ----------
    n_nodes : int, default=1024
        Nodes of the Gauss rule that integrates along each half circle.
    """

    def __init__(self, n_nodes: int = _MOON_NODES) -> None:
        nodes, weights = roots_legendre(n_nodes)
        outer, inner = _moons(np.pi * (nodes + 1) / 2)
        self.mixture = KernelMixture(
            weights=np.tile(weights / (2 * weights.sum()), 2),
            means=np.concatenate([outer, inner]),
            offsets=np.array([0, 2 * n_nodes]),
            transforms=np.eye(2)[None] / MOONS_STD,
        )

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        return 2

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the logarithm of the density at every row of ``X``."""
        return self.mixture.logpdf(X, n_jobs)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw independent samples, from the arcs themselves."""
        n_samples, rng = check_count(n_samples, "n_samples"), random_generator(random_state)
        outer, inner = _moons(rng.uniform(0.0, np.pi, n_samples))
        points = np.where(rng.randint(2, size=n_samples)[:, None], outer, inner)
        return points + rng.normal(0.0, MOONS_STD, points.shape)


def _moons(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.column_stack([cos, sin]), np.column_stack([1 - cos, 0.5 - sin])
