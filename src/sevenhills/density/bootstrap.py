"""Support of a density by its samples: extrapolation and bootstrap."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree
from scipy.special import chdtri, gammaincc

from ..threads import map_rows
from ..validation import check_confidence, check_queries, freeze
from .sums import KernelDistances, Kernels

#: The numbers that a block of points and kernels may hold.
_BLOCK_NUMBERS = 2**20
#: In more dimensions, a tree is slower than all distances.
_MAX_TREE_FEATURES = 8
#: A point is an extrapolation if fewer samples are expected as far from their kernels.
_MIN_SAMPLES = 0.01
#: Kernels that add less than this fraction of that number are left out.
_NEGLIGIBLE = 1e-6
#: Smaller sums may have lost terms to underflow.
_UNDERFLOW = 1e-280
#: The exponential of a number lower by this is zero.
_ZERO_BELOW = 746.0


# Extrapolation


class _Tree(NamedTuple):
    """The kernels of a group in coordinates in which they are unit Gaussians."""

    center: np.ndarray
    transform: np.ndarray
    tree: KDTree
    radius: float

    def is_near(self, X: np.ndarray) -> np.ndarray:
        """Return whether a kernel lies within the radius."""
        with np.errstate(over="ignore", invalid="ignore"):
            Y = (X - self.center) @ self.transform
        out = np.isfinite(Y).all(axis=1)
        distances = self.tree.query(Y[out], distance_upper_bound=self.radius)[0]
        out[out] = distances < np.inf
        return out


class Reach(NamedTuple):
    """The region in which kernels that stand for samples support the density."""

    counts: np.ndarray  #: the number of samples that every kernel stands for
    radii: np.ndarray  #: the squared distances up to which a kernel alone has enough samples
    trees: list[_Tree]  #: large groups of kernels that each have enough samples
    distances: KernelDistances

    @classmethod
    def from_kernels(cls, kernels: Kernels, counts: np.ndarray) -> "Reach":
        """Prepare kernels that stand for some numbers of samples."""
        shares = np.minimum(_MIN_SAMPLES / counts, 1.0)
        radii = np.asarray(np.where(shares < 1, chdtri(kernels.n_features, shares), -1.0))
        distances = KernelDistances.from_kernels(kernels)
        trees = [
            _Tree(part.center, part.transform, KDTree(part.Y), float(np.sqrt(radius)))
            for part in distances.large
            if (radius := radii[part.rows].min()) > 0 and kernels.n_features <= _MAX_TREE_FEATURES
        ]
        return cls(counts, radii, trees, distances)

    def contains(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return whether enough samples are expected as far from their kernels as each point."""
        step = max(1, _BLOCK_NUMBERS // len(self.counts))
        return map_rows(self._contains, X, step, n_jobs, np.empty(len(X), dtype=bool))

    def _contains(self, X: np.ndarray) -> np.ndarray:
        out = np.zeros(len(X), dtype=bool)
        for tree in self.trees:
            rest = np.flatnonzero(~out)
            out[rest] = tree.is_near(X[rest])
        rest = np.flatnonzero(~out)
        if len(rest) == 0:
            return out
        squares = self.distances.squares(X[rest])
        out[rest] = (squares <= self.radii).any(axis=1)
        still = ~out[rest]
        out[rest[still]] = self._n_as_far(squares[still]) >= _MIN_SAMPLES
        return out

    def _n_as_far(self, squares: np.ndarray) -> np.ndarray:
        """Return the expected number of samples as far from their kernels, or farther."""
        n_features = self.distances.kernels.n_features
        tail = _NEGLIGIBLE * _MIN_SAMPLES / max(self.counts.sum(), _MIN_SAMPLES)
        close = squares < chdtri(n_features, tail)
        shares = np.zeros(squares.shape)
        shares[close] = gammaincc(0.5 * n_features, 0.5 * squares[close])
        return np.asarray(shares @ self.counts)


# Bootstrap


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Bootstrap replicates that differ in the weights of their kernels.

    Arguments of methods are those of :class:`~sevenhills.KernelMixture`.

    Parameters
    ----------
    density : KernelMixture
        The density whose samples were resampled.
    weights : ndarray of shape (n_replicates, n_kernels)
        The weights of its kernels in every replicate.
    """

    density: Any
    weights: np.ndarray

    def __post_init__(self) -> None:
        freeze(self, "weights")

    def __repr__(self) -> str:
        return f"Bootstrap({self.density!r}, n_replicates={len(self.weights)})"

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the log density (n_replicates, n_samples) of every replicate at every row."""
        return self._summary(lambda values: values, len(self.weights), X, n_jobs).T

    def band(
        self, X: Any, confidence: float = 0.9, n_jobs: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return pointwise confidence limits of the log density, two arrays (n_samples,).

        The share ``confidence`` of replicates lies between the limits at every point. The limits
        are quantiles of the log density; their exponentials are those of the density.
        """
        tail = round(0.5 - 0.5 * check_confidence(confidence), 12)  # 0.1, not a little less

        def limits(values: np.ndarray) -> np.ndarray:
            # Values of replicates, without interpolation, which minus infinity does not allow.
            lower = np.quantile(values, tail, axis=1, method="lower")
            upper = np.quantile(values, 1 - tail, axis=1, method="higher")
            return np.stack([lower, upper], axis=1)

        lower, upper = self._summary(limits, 2, X, n_jobs).T
        return lower, upper

    def std_error(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the standard error of the log density at every row of ``X``.

        A small value is also the relative standard error of the density. The value is infinite
        where the density of a replicate is zero.
        """

        def spread(values: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore", over="ignore"):
                errors = values.std(axis=1, ddof=1, keepdims=True)
            return np.nan_to_num(errors, nan=np.inf, posinf=np.inf)

        return self._summary(spread, 1, X, n_jobs)[:, 0]

    def _summary(
        self, summarize: Callable[[np.ndarray], np.ndarray], n_columns: int, X: Any, n_jobs: Any
    ) -> np.ndarray:
        """Summarize the log densities (Q, n_replicates) of blocks of points, as (Q, n_columns)."""
        density = self.density
        X = check_queries(X, density.n_features, density.feature_names)
        log_kernels = density._log_kernels

        def evaluate(points: np.ndarray) -> np.ndarray:
            return summarize(_log_sums(log_kernels(points), self.weights))

        step = max(1, _BLOCK_NUMBERS // density.n_kernels)
        return map_rows(evaluate, X, step, n_jobs, np.empty((len(X), n_columns)))


def _log_sums(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the logs (Q, n) of sums by weights (n, K) of kernels whose logs are (Q, K)."""
    tops = logs.max(axis=1)
    shift = np.where(tops > -np.inf, tops, 0.0)
    sums = np.exp(logs - shift[:, None]) @ weights.T
    with np.errstate(divide="ignore"):
        out = np.log(sums) + shift[:, None]
    for i in np.flatnonzero((sums < _UNDERFLOW).any(axis=1) & (tops > -np.inf)):
        lost = sums[i] < _UNDERFLOW
        out[i, lost] = _log_sums_at_point(logs[i], weights[lost])
    return out


def _log_sums_at_point(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the logs (n,) at one point, relative to the largest kernel of each replicate."""
    tops = np.where(weights > 0, logs, -np.inf).max(axis=1)
    seen = logs > tops.min() - _ZERO_BELOW
    relative = np.minimum(logs[seen] - tops[:, None], 0.0)  # larger kernels have zero weight
    with np.errstate(divide="ignore"):
        return np.asarray(tops + np.log((weights[:, seen] * np.exp(relative)).sum(axis=1)))
