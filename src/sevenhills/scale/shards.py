"""Kernels of several partitions, kept and summed together."""

from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ..density import KernelMixture
from ..density.engines import FEW_PAIRS, Engine
from ..density.sums import Kernels, LogSums, log_sums_of, sums_at
from .assignment import Assignment


class Shapes(NamedTuple):
    """The kernels of every cluster, but for their centres."""

    labels: np.ndarray  #: (n_clusters,)
    transforms: np.ndarray  #: (n_clusters, n_features, n_features)
    log_dets: np.ndarray  #: (n_clusters,)


class ClusterRows(NamedTuple):
    """Rows by the cluster that they belong to."""

    rows: np.ndarray  #: (n_rows, n_features) one cluster after another
    counts: np.ndarray  #: (n_clusters,)

    @classmethod
    def of(cls, X: np.ndarray, assignment: Assignment, labels: np.ndarray) -> "ClusterRows":
        """Assign rows to clusters of some labels."""
        places = places_of(assignment.labels(X), labels)
        return cls(X[np.argsort(places, kind="stable")], np.bincount(places, minlength=len(labels)))

    @classmethod
    def joint(cls, parts: "Sequence[ClusterRows]") -> "ClusterRows":
        """Put the rows of several partitions together."""
        split = [np.split(part.rows, np.cumsum(part.counts)[:-1]) for part in parts]
        rows = [piece for cluster in zip(*split, strict=True) for piece in cluster]
        return cls(np.concatenate(rows), np.sum([part.counts for part in parts], axis=0))

    def kernels(self, shapes: Shapes, log_weights: np.ndarray) -> Kernels:
        """Put kernels on the rows."""
        groups = self.counts > 0
        return Kernels(
            log_weights,
            self.rows,
            np.append(0, np.cumsum(self.counts[groups])),
            shapes.transforms[groups],
            shapes.log_dets[groups],
        )


def mixture_of(kernels: Kernels, labels: np.ndarray) -> KernelMixture:
    """Return kernels, whose groups are clusters of some labels, as a density."""
    weights = np.exp(kernels.log_weights)
    return KernelMixture(
        weights=weights / weights.sum(),
        means=kernels.means,
        offsets=kernels.offsets,
        transforms=kernels.transforms,
        log_dets=kernels.log_dets,
        clusters=labels,
    )


def stretched(steps: np.ndarray, groups: np.ndarray, transforms: np.ndarray) -> np.ndarray:
    """Turn standard normal steps into those of kernels of some groups.

    Of all roots of a covariance the triangular one is taken, of positive diagonal: it changes as
    little as the covariance, unlike axes, which can turn round.
    """
    out = np.empty_like(steps)
    for g in np.unique(groups):
        root = np.asarray(np.linalg.qr(np.linalg.inv(transforms[g]), mode="r"))
        root *= np.where(root.diagonal() < 0, -1.0, 1.0)[:, None]
        out[groups == g] = steps[groups == g] @ root
    return out


def places_of(labels: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return the places of labels among distinct ones."""
    order = np.argsort(among)
    return np.asarray(order[np.searchsorted(among, labels, sorter=order)])


class Shard:
    """Kernels that are kept in one place, and summed by what does so fastest.

    Parameters
    ----------
    kernels : Kernels
        There may be none.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self._direct: LogSums | None = None
        self._engine: Engine | None = None
        self._lock = Lock()

    @classmethod
    def of(cls, parts: Sequence[ClusterRows], shapes: Shapes, n_samples: int) -> "Shard":
        """Put kernels on the rows of partitions, each of which is one of so many samples."""
        rows = ClusterRows.joint(parts)
        return cls(rows.kernels(shapes, np.full(len(rows.rows), -np.log(n_samples))))

    def __reduce__(self) -> tuple[Any, ...]:
        # What is prepared is larger than what it is prepared from.
        return Shard, (self.kernels,)

    def __sizeof__(self) -> int:
        """Return about what it takes once it is prepared, so that dask knows what to expect."""
        return 6 * self.kernels.means.nbytes

    def log_sums(self, X: np.ndarray, tol: float) -> np.ndarray:
        """Return the logarithms of the sums at every row, but for the Gaussians' constant."""
        n_pairs = len(X) * len(self.kernels.means)
        if n_pairs == 0:
            return np.full(len(X), -np.inf)
        if n_pairs <= FEW_PAIRS:
            return sums_at(self._prepare_direct(), X)
        return self._prepare_engine().sums_at(X, tol, None)

    def _prepare_direct(self) -> LogSums:
        with self._lock:
            self._direct = self._direct or log_sums_of(self.kernels)
            return self._direct

    def _prepare_engine(self) -> Engine:
        with self._lock:
            self._engine = self._engine or Engine.from_kernels(
                self.kernels, partial(log_sums_of, self.kernels)
            )
            return self._engine
