"""Assignment of rows to the clusters of a sample."""

from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ..density import KernelMixture
from ..density.engines import TOLERANCE, Engine
from ..density.sums import POINTS, Kernels, LogSums, log_sums_of, sums_at
from .reservoir import row_hashes

#: Clusters with at least this number of kernels are summed by an engine. The number of rows does
#: not count, so that the label of a row does not depend on its partition.
_MANY_KERNELS = 4096
#: Log densities that differ by less than this are a tie; rounding errors are far smaller.
_TIE = 1e-6


class Assignment:
    """Assigns every row to the cluster with the largest share times density.

    Rows of the sample keep the label of the sample. Ties go to the first of the clusters. The label
    of a row does not depend on other rows.

    Parameters
    ----------
    density : KernelMixture
        The density of the sample, with one group of kernels for each cluster.
    hashes : ndarray of shape (n_sample,)
        The hashes of the sample's rows, ascending. Among 1e9 rows, the probability that another
        row has the hash of one of 30,000 is 1e-6.
    labels : ndarray of shape (n_sample,)
        The labels of the sample's rows, -1 for noise.
    seed : int
        The seed of the hashes.
    """

    def __init__(
        self, density: KernelMixture, hashes: np.ndarray, labels: np.ndarray, seed: int
    ) -> None:
        self._density = density
        self._hashes = hashes
        self._labels = labels
        self._seed = seed
        self._sums: list[tuple[LogSums, int]] | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Assignment, (self._density, self._hashes, self._labels, self._seed)

    def __sizeof__(self) -> int:
        """Return the approximate size after preparation, from which dask plans its memory."""
        return 6 * self._density.means.nbytes

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the label of every row, -1 for noise."""
        labels = self._most_likely(X)
        hashes = row_hashes(X, self._seed)
        nearest = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        in_sample = self._hashes[nearest] == hashes
        labels[in_sample] = self._labels[nearest[in_sample]]
        return labels

    def _most_likely(self, X: np.ndarray) -> np.ndarray:
        clusters = self._density.clusters
        if len(clusters) == 1:
            return np.full(len(X), clusters[0])
        values = np.stack([sums_at(sums, X, None, n) for sums, n in self._prepared()])
        largest = values.max(axis=0)
        labels = clusters[(values >= largest - _TIE).argmax(axis=0)]
        underflows = largest == -np.inf
        if underflows.any():
            labels[underflows] = self._density.predict(X[underflows])
        return labels

    def _prepared(self) -> list[tuple[LogSums, int]]:
        """Return the log sums of every cluster and their block size, prepared once."""
        with self._lock:
            if self._sums is None:
                kernels = self._density.kernels
                groups = range(len(kernels.log_dets))
                self._sums = [_prepare(kernels.take(np.array([g]))) for g in groups]
        return self._sums


def _prepare(kernels: Kernels) -> tuple[LogSums, int]:
    if len(kernels.means) < _MANY_KERNELS:
        return log_sums_of(kernels), POINTS
    engine = Engine.from_kernels(kernels, partial(log_sums_of, kernels))
    return engine.within(TOLERANCE), engine.n_points


class KernelShapes(NamedTuple):
    """The kernels of every cluster without their means."""

    labels: np.ndarray  #: (n_clusters,)
    transforms: np.ndarray  #: (n_clusters, n_features, n_features)
    log_dets: np.ndarray  #: (n_clusters,)


class ClusterRows(NamedTuple):
    """Rows, sorted by cluster."""

    rows: np.ndarray  #: (n_rows, n_features)
    counts: np.ndarray  #: (n_clusters,)

    @classmethod
    def from_rows(cls, X: np.ndarray, assignment: Assignment, labels: np.ndarray) -> "ClusterRows":
        """Sort the rows of one partition by their cluster."""
        clusters = label_indices(assignment.predict(X), labels)
        order = np.argsort(clusters, kind="stable")
        return cls(X[order], np.bincount(clusters, minlength=len(labels)))

    @classmethod
    def merge(cls, parts: "Sequence[ClusterRows]") -> "ClusterRows":
        """Merge the rows of several partitions."""
        split = [np.split(part.rows, np.cumsum(part.counts)[:-1]) for part in parts]
        rows = [piece for cluster in zip(*split, strict=True) for piece in cluster]
        return cls(np.concatenate(rows), np.sum([part.counts for part in parts], axis=0))

    def kernels(self, shapes: KernelShapes, log_weights: np.ndarray) -> Kernels:
        """Return a kernel on every row."""
        groups = self.counts > 0
        return Kernels(
            log_weights,
            self.rows,
            np.append(0, np.cumsum(self.counts[groups])),
            shapes.transforms[groups],
            shapes.log_dets[groups],
        )


def label_indices(labels: np.ndarray, distinct: np.ndarray) -> np.ndarray:
    """Return the index of every label in an array of distinct labels."""
    order = np.argsort(distinct)
    return np.asarray(order[np.searchsorted(distinct, labels, sorter=order)])
