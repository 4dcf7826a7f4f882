"""A sample of rows that depends neither on their order nor on their partitions.

The hash of a row depends on its values and a seed only; the rows with the smallest hashes are the
sample. A row of the sample is also in the sample of every partition that holds it, so the samples
of partitions merge without loss, and their counts add up exactly.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

#: The constants of splitmix64.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


class Reservoir(NamedTuple):
    """The distinct rows with the smallest hashes, in ascending order of the hashes."""

    hashes: np.ndarray  #: (n,) uint64
    rows: np.ndarray  #: (n, n_features)
    counts: np.ndarray  #: (n,) number of occurrences among all rows

    @classmethod
    def from_rows(cls, X: np.ndarray, size: int, seed: int) -> "Reservoir":
        """Return the sample of one partition, of at most ``size`` distinct rows."""
        hashes = row_hashes(X, seed)
        distinct = np.unique(hashes)
        if len(distinct) > size:
            kept = hashes <= distinct[size - 1]
            hashes, X = hashes[kept], X[kept]
        return _distinct(hashes, X, np.ones(len(X)), size)

    @classmethod
    def merge(cls, parts: "Sequence[Reservoir]", size: int) -> "Reservoir":
        """Merge the samples of several partitions."""
        hashes, rows, counts = map(np.concatenate, zip(*parts, strict=True))
        return _distinct(hashes, rows, counts, size)


def row_hashes(X: np.ndarray, seed: int) -> np.ndarray:
    """Return the hash of every row, uint64.

    The finalizer of splitmix64 is applied to the bits of one feature after another.
    """
    hashes = np.full(len(X), seed, dtype=np.uint64)
    for column in (X + 0.0).T:  # turns -0.0 into 0.0
        hashes ^= np.ascontiguousarray(column).view(np.uint64)
        hashes += _GAMMA
        for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
            hashes ^= hashes >> shift
            hashes *= multiplier
        hashes ^= hashes >> _SHIFTS[-1]
    return hashes


def _distinct(hashes: np.ndarray, rows: np.ndarray, counts: np.ndarray, size: int) -> Reservoir:
    """Merge equal rows, and keep the first ``size`` by hash and, among equal hashes, by value."""
    order = np.lexsort((*rows.T[::-1], hashes))
    hashes, rows, counts = hashes[order], rows[order], counts[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (hashes[1:] != hashes[:-1]) | (rows[1:] != rows[:-1]).any(axis=1)
    firsts = np.flatnonzero(new)
    if len(firsts) < len(rows):
        counts = np.add.reduceat(counts, firsts)
    kept = firsts[:size]
    return Reservoir(hashes[kept], rows[kept] + 0.0, counts[: len(kept)])
