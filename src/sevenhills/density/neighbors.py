"""Densities of clusters by their k nearest neighbours."""

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

#: The numbers that a block of neighbours may hold.
_BLOCK_NUMBERS = 2**20
#: Sums of weights are rounded.
_ALMOST = 1 - 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class NeighborCluster:
    r"""The k-nearest-neighbour density of one cluster.

    .. math:: p(x) = \frac{k}{n \, V_M \, r_k^M} \, |\det T|

    where :math:`r_k` is the distance from :math:`x T` to the k-th nearest member and :math:`V_M`
    the volume of the unit ball. Members that weigh more than one sample, or less, count as such.

    Parameters
    ----------
    members : ndarray of shape (n_members, n_features)
    weights : ndarray of shape (n_members,)
        How many samples every member is.
    location : ndarray of shape (n_features,)
        A point near the members, from which coordinates are measured without cancelling.
    transform : ndarray of shape (n_features, n_features)
        What turns differences, from the right, into the coordinates of the cluster.
    log_det : float
        The logarithm of its absolute determinant.
    n_neighbors : float
        The number :math:`k` of samples.
    min_radius : float
        Neighbourhoods are taken to be no smaller than a ball of this radius, in data units, so
        that the density stays finite at repeated samples.
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
        """What finds the neighbours."""
        return KDTree((self.members - self.location) @ self.transform)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
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
            # Volumes in data units: of the neighbourhood, and of the smallest ball.
            log_radii = np.maximum(
                np.log(radii) - self.log_det / n_features, np.log(self.min_radius)
            )
        log_ball = 0.5 * n_features * np.log(np.pi) - gammaln(0.5 * n_features + 1)
        share = self.n_neighbors / self.weights.sum()
        return np.log(share) - log_ball - n_features * log_radii

    def _radii(self, Y: np.ndarray, n_jobs: int) -> np.ndarray:
        """Return how far from every point the members reach the number of neighbours."""
        n_most = most_needed(self.weights, self.n_neighbors)
        if (self.weights == 1.0).all():
            return np.asarray(self._tree.query(Y, k=[n_most], workers=n_jobs)[0])[:, 0]
        out = np.empty(len(Y))
        step = max(1, _BLOCK_NUMBERS // n_most)
        for start in range(0, len(Y), step):
            rows = slice(start, start + step)
            apart, found = self._tree.query(Y[rows], k=np.arange(1, n_most + 1), workers=n_jobs)
            reached = np.cumsum(self.weights[found], axis=1) >= self.n_neighbors * _ALMOST
            reached[:, -1] = True
            out[rows] = apart[np.arange(len(apart)), reached.argmax(axis=1)]
        return out


@dataclass(frozen=True, eq=False, repr=False)
class NeighborDensity(Density):
    """A weighted sum of k-nearest-neighbour densities, and of kernels for what is noise.

    It does not integrate to one, and cannot be sampled.

    Parameters
    ----------
    weights : ndarray of shape (n_clusters,)
        The weights of the clusters, one minus that of the noise in all.
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
        """The number of samples and kernels it is made of."""
        members = sum(len(cluster.members) for cluster in self.clusters)
        return members + (self.noise.n_kernels if self.noise else 0)

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the logarithm of the density, which is not normalised, at every row of ``X``."""
        X = check_queries(X, self.n_features)
        terms = [
            np.log(weight) + cluster.logpdf(X, n_jobs)
            for weight, cluster in zip(self.weights, self.clusters, strict=True)
        ]
        if self.noise is not None:
            terms.append(np.log1p(-self.weights.sum()) + self.noise.logpdf(X, n_jobs))
        return logsumexp(terms, axis=0)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Refuse to draw samples, for a density that does not integrate to one has none."""
        raise ValueError(
            "a k-nearest-neighbour density is not normalised and cannot be sampled; choose "
            "density='kde', 'gaussian' or 'mpw'"
        )
