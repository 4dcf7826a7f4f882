"""Nearest-neighbor densities of clusters."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from scipy.spatial import KDTree
from scipy.special import gammaln, logsumexp

from ..kernels.blocks import most_needed
from ..validation import check_field, check_log_dets, check_queries, freeze
from .mixture import KernelMixture
from .regions import Density

#: The numbers that a block of neighbors may hold.
_BLOCK_NUMBERS = 2**20
#: The number of neighbors is reached at this fraction of it, since sums of weights are rounded.
_ALMOST = 1 - 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class NeighborCluster:
    r"""The k-nearest-neighbor density of one cluster.

    .. math:: p(x) = \frac{k}{n \, V_M \, r_k^M} \, |\det T|

    where :math:`r_k` is the distance from :math:`x T` to the k-th nearest member and :math:`V_M`
    the volume of the unit ball. A member of weight :math:`w` counts as :math:`w` samples.

    Parameters
    ----------
    members, weights : ndarray of shape (n_members, n_features) and (n_members,)
        The points, and the number of samples that every one stands for.
    location : ndarray of shape (n_features,)
        The origin of the coordinates, near the members so that digits are kept.
    transform, log_det : ndarray of shape (n_features, n_features) and float
        The map from differences to the coordinates of the cluster, from the right, and the
        logarithm of its absolute determinant.
    n_neighbors : float
        The number :math:`k` of samples.
    min_radius : float
        The smallest radius of a neighborhood, in data units, which keeps the density finite at
        repeated samples.
    """

    members: np.ndarray
    weights: np.ndarray
    location: np.ndarray
    transform: np.ndarray
    log_det: float
    n_neighbors: float
    min_radius: float

    def __post_init__(self) -> None:
        freeze(self, "members", "weights", "location", "transform")

    def _validate(self) -> None:
        """Raise an error if the fields contradict each other, as those of a file might."""
        n_members, n_features = self.members.shape
        check_field(self.weights, "weights", "f", (n_members,))
        check_field(self.location, "location", "f", (n_features,))
        check_field(self.transform, "transform", "f", (n_features, n_features))
        check_log_dets(self.log_det, self.transform)
        if not (self.weights > 0).all():
            raise ValueError("weights must be positive")
        if not 0 < self.n_neighbors * _ALMOST <= self.weights.sum():
            raise ValueError("n_neighbors must be positive and no more than the cluster has")
        if self.min_radius < 0:
            raise ValueError(f"min_radius must not be negative, got {self.min_radius}")

    @cached_property
    def _tree(self) -> KDTree:
        """The tree of the members, in the coordinates of the cluster."""
        return KDTree((self.members - self.location) @ self.transform)

    def __getstate__(self) -> dict[str, Any]:
        """Leave cached values out of pickles and copies."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def logpdf(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the log density at points (Q, M)."""
        n_features = self.members.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):
            Y = (X - self.location) @ self.transform
        near = np.isfinite(Y).all(axis=1)
        radii = np.full(len(X), np.inf)
        radii[near] = self._radii(Y[near], effective_n_jobs(n_jobs))
        with np.errstate(divide="ignore"):
            # Radii in data units: of the neighborhood, and the smallest.
            log_radii = np.maximum(
                np.log(radii) - self.log_det / n_features, np.log(self.min_radius)
            )
        log_ball = 0.5 * n_features * np.log(np.pi) - gammaln(0.5 * n_features + 1)
        share = self.n_neighbors / self.weights.sum()
        return np.log(share) - log_ball - n_features * log_radii

    def _radii(self, Y: np.ndarray, n_jobs: int) -> np.ndarray:
        """Return the distance of the k-th neighbor of every point, by weight."""
        n_most = most_needed(self.weights, self.n_neighbors)
        if (self.weights == 1.0).all():
            return np.asarray(self._tree.query(Y, k=[n_most], workers=n_jobs)[0])[:, 0]
        out = np.empty(len(Y))
        step = max(1, _BLOCK_NUMBERS // n_most)
        for start in range(0, len(Y), step):
            rows = slice(start, start + step)
            apart, found = self._tree.query(Y[rows], k=np.arange(1, n_most + 1), workers=n_jobs)
            # Where distances overflow, no neighbor is found.
            found = np.minimum(found, len(self.weights) - 1)
            reached = np.cumsum(self.weights[found], axis=1) >= self.n_neighbors * _ALMOST
            reached[:, -1] = True
            out[rows] = apart[np.arange(len(apart)), reached.argmax(axis=1)]
        return out


@dataclass(frozen=True, eq=False, repr=False)
class NeighborDensity(Density):
    """A weighted sum of k-nearest-neighbor densities, and of kernels for noise.

    It does not integrate to one, and cannot be sampled.

    Parameters
    ----------
    weights : ndarray of shape (n_clusters,)
        The weights of the clusters; they add up to one minus the weight of noise.
    clusters : tuple of NeighborCluster
    noise : KernelMixture or None
        The density of noise.
    """

    weights: np.ndarray
    clusters: tuple[NeighborCluster, ...]
    noise: KernelMixture | None

    #: It does not integrate to one.
    is_normalized: ClassVar[bool] = False

    def __post_init__(self) -> None:
        freeze(self, "weights")

    def _validate(self) -> None:
        """Raise an error if the fields contradict each other, as those of a file might."""
        check_field(self.weights, "weights", "f", (len(self.clusters),), 0, 1)
        rest = 1 - self.weights.sum()
        if (self.weights == 0).any() or (rest <= 0 if self.noise else abs(rest) > 1 - _ALMOST):
            raise ValueError("weights must be positive and add up to one with that of the noise")
        parts = [each.members.shape[1] for each in self.clusters]
        if self.noise is not None:
            parts.append(self.noise.n_features)
        if len(set(parts)) != 1:
            raise ValueError("clusters and noise must have the same features")

    def __repr__(self) -> str:
        return f"NeighborDensity(n_features={self.n_features}, n_clusters={len(self.clusters)})"

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        if self.clusters:
            return int(self.clusters[0].members.shape[1])
        return 0 if self.noise is None else self.noise.n_features

    @property
    def n_kernels(self) -> int:
        """The number of members and kernels."""
        members = sum(len(cluster.members) for cluster in self.clusters)
        return members + (self.noise.n_kernels if self.noise else 0)

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the logarithm of the density, which is not normalized, at every row of ``X``."""
        X = check_queries(X, self.n_features)
        terms = [
            np.log(weight) + cluster.logpdf(X, n_jobs)
            for weight, cluster in zip(self.weights, self.clusters, strict=True)
        ]
        if self.noise is not None:
            terms.append(np.log1p(-self.weights.sum()) + self.noise.logpdf(X, n_jobs))
        return logsumexp(terms, axis=0)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Raise an error: a density that does not integrate to one cannot be sampled."""
        raise ValueError(
            "a k-nearest-neighbor density is not normalized and cannot be sampled; choose "
            "density='kde', 'gaussian' or 'mpw'"
        )
