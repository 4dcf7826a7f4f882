"""Which cluster a row belongs to, by the density of a sample's clusters."""

from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from ..density import KernelMixture
from ..density.engines import TOLERANCE, Engine
from ..density.sums import POINTS, Kernels, LogSums, log_sums_of, sums_at
from .reservoir import row_hashes

#: From so many kernels on, more than direct sums are prepared, whatever the number of rows.
_MANY_KERNELS = 4096
#: Clusters whose log densities differ by less are equally likely, whatever rounding says.
_TIE = 1e-6


class Assignment:
    """Puts every row into the cluster whose share times density is the largest.

    Rows of the sample stay in the cluster in which they were found, and rows for which several
    clusters are equally likely go to the first of these. The answer for a row does not depend on
    those that are asked for with it.

    Parameters
    ----------
    density : KernelMixture
        The density of the sample, one group of kernels for each cluster.
    hashes : ndarray of shape (n_sample,)
        Those of the sample's rows, ascending. Of a thousand million rows, the chance that any other
        one has the hash of one of 30,000 is one in a million.
    labels : ndarray of shape (n_sample,)
        The cluster of every row of the sample, -1 being noise.
    seed : int
        That of the hashes.
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
        """Return about what it takes once it is prepared, so that dask knows what to expect."""
        return 6 * self._density.means.nbytes

    def labels(self, X: np.ndarray) -> np.ndarray:
        """Return the label of every row, -1 being noise."""
        labels = self._likeliest(X)
        hashes = row_hashes(X, self._seed)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        known = self._hashes[at] == hashes
        labels[known] = self._labels[at[known]]
        return labels

    def _likeliest(self, X: np.ndarray) -> np.ndarray:
        names = self._density.clusters
        if len(names) == 1:
            return np.full(len(X), names[0])
        values = np.stack([sums_at(sums, X, None, n) for sums, n in self._prepared()])
        best = values.max(axis=0)
        labels = names[(values >= best - _TIE).argmax(axis=0)]
        lost = best == -np.inf
        if lost.any():
            labels[lost] = self._density.predict(X[lost])
        return labels

    def _prepared(self) -> list[tuple[LogSums, int]]:
        """Return what sums the kernels of every cluster, prepared once, and for how many points."""
        with self._lock:
            if self._sums is None:
                kernels = self._density.kernels
                groups = range(len(kernels.log_dets))
                self._sums = [_sums_of(kernels.take(np.array([g]))) for g in groups]
        return self._sums


def _sums_of(kernels: Kernels) -> tuple[LogSums, int]:
    if len(kernels.means) < _MANY_KERNELS:
        return log_sums_of(kernels), POINTS
    engine = Engine.from_kernels(kernels, partial(log_sums_of, kernels))
    return engine.within(TOLERANCE), engine.n_points
