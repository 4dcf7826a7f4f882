"""A sample of rows that depends neither on their order nor on how they are partitioned.

Every row has a pseudorandom number that depends on nothing but its values; the rows with the
smallest numbers are the sample. Such a row is among the smallest of every partition that has it,
so samples of partitions are put together without losing any, and their counts add up exactly.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


class Reservoir(NamedTuple):
    """Distinct rows, by ascending hash."""

    hashes: np.ndarray  #: (n,) uint64
    rows: np.ndarray  #: (n, n_features)
    counts: np.ndarray  #: (n,) how often they occur among all rows

    @classmethod
    def of(cls, X: np.ndarray, size: int, seed: int) -> "Reservoir":
        """Return the rows of the smallest hashes, at most so many distinct ones."""
        hashes = row_hashes(X, seed)
        distinct = np.unique(hashes)
        if len(distinct) > size:
            kept = hashes <= distinct[size - 1]
            hashes, X = hashes[kept], X[kept]
        return _distinct(hashes, X, np.ones(len(X)), size)

    @classmethod
    def joint(cls, parts: "Sequence[Reservoir]", size: int) -> "Reservoir":
        """Return the sample of several partitions together."""
        hashes, rows, counts = map(np.concatenate, zip(*parts, strict=True))
        return _distinct(hashes, rows, counts, size)


def row_hashes(X: np.ndarray, seed: int) -> np.ndarray:
    """Return a pseudorandom number, uint64, for the values of every row.

    The finaliser of splitmix64 is applied to the bits of one feature after another.
    """
    hashes = np.full(len(X), seed, dtype=np.uint64)
    for column in (X + 0.0).T:  # which makes -0.0 what it equals, 0.0
        hashes ^= np.ascontiguousarray(column).view(np.uint64)
        hashes += _GAMMA
        for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
            hashes ^= hashes >> shift
            hashes *= multiplier
        hashes ^= hashes >> _SHIFTS[-1]
    return hashes


def _distinct(hashes: np.ndarray, rows: np.ndarray, counts: np.ndarray, size: int) -> Reservoir:
    """Put equal rows together, and keep the first by hash and, among equal hashes, by value."""
    order = np.lexsort((*rows.T[::-1], hashes))
    hashes, rows, counts = hashes[order], rows[order], counts[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (hashes[1:] != hashes[:-1]) | (rows[1:] != rows[:-1]).any(axis=1)
    firsts = np.flatnonzero(new)
    if len(firsts) < len(rows):
        counts = np.add.reduceat(counts, firsts)
    kept = firsts[:size]
    return Reservoir(hashes[kept], rows[kept] + 0.0, counts[: len(kept)])
