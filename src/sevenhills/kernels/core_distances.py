"""How far the nearest points lie."""

import numpy as np

from .blocks import Blocks
from .compile import inner, kernel
from .distances import squared_distances

#: Boxes are passed over only if they are farther by more than rounding can explain.
_SLACK = 1.0 - 1e-12


def core_distances(X: np.ndarray, blocks: Blocks, n_neighbors: int) -> np.ndarray:
    """Return the distance of every point to its k-th nearest, the point itself being the first."""
    return _farthest_of_nearest(X, blocks, n_neighbors, 1)[:, 0]


def nearest_distances(X: np.ndarray, blocks: Blocks, n_neighbors: int) -> np.ndarray:
    """Return the distances of every point to its k nearest others, (N, k), ascending."""
    return _farthest_of_nearest(X, blocks, n_neighbors + 1, n_neighbors)


def _farthest_of_nearest(
    X: np.ndarray, blocks: Blocks, n_neighbors: int, n_kept: int
) -> np.ndarray:
    """Return the largest of the distances to the nearest, the point itself being the first."""
    leaf_size = blocks.members.shape[1]
    nearest = np.empty((leaf_size, n_neighbors))
    stack = np.empty(blocks.lower.shape[0], dtype=np.int64)
    out = np.empty((X.shape[0], n_kept))
    _nearest_distances(X, *blocks, nearest, stack, np.empty(leaf_size), out)
    return out


@kernel
def _nearest_distances(X, columns, members, sizes, lower, upper, nearest, stack, row, out):
    """Visit, for every leaf, the nodes near it, nearest first, own leaf before all others.

    ``nearest`` holds the smallest squared distances of each point of the leaf, sorted, of which
    ``out`` takes as many of the last as it has columns.
    """
    first_leaf = sizes.shape[0] - 1
    k = nearest.shape[1]
    for leaf in range(sizes.shape[0]):
        node = first_leaf + leaf
        for i in range(sizes[leaf]):
            for j in range(k):
                nearest[i, j] = np.inf
        farthest = _merge(X, members, sizes, leaf, columns, leaf, 0.0, nearest, row)
        n_open = 1
        stack[0] = 0
        while n_open > 0:
            n_open -= 1
            other = stack[n_open]
            bound = _box_to_box(lower, upper, node, other) * _SLACK
            if bound >= farthest or other == node:
                continue
            if other >= first_leaf:
                there = other - first_leaf
                farthest = _merge(X, members, sizes, leaf, columns, there, bound, nearest, row)
                continue
            left = 2 * other + 1
            right = left + 1
            nearer = left
            if _box_to_box(lower, upper, node, right) < _box_to_box(lower, upper, node, left):
                nearer = right
            stack[n_open] = left + right - nearer
            stack[n_open + 1] = nearer
            n_open += 2
        for i in range(sizes[leaf]):
            for j in range(out.shape[1]):
                out[members[leaf, i], j] = np.sqrt(nearest[i, k - out.shape[1] + j])


@inner
def _box_to_box(lower, upper, one, other):
    """Return the squared distance between two boxes."""
    total = 0.0
    for m in range(lower.shape[1]):
        gap = lower[one, m] - upper[other, m]
        if gap < lower[other, m] - upper[one, m]:
            gap = lower[other, m] - upper[one, m]
        if gap > 0.0:
            total += gap * gap
    return total


@inner
def _merge(X, members, sizes, here, columns, there, bound, nearest, row):
    """Add the points of one leaf to the neighbours of another; return the farthest that counts."""
    last = nearest.shape[1] - 1
    farthest = 0.0
    for i in range(sizes[here]):
        if bound < nearest[i, last]:
            squared_distances(X, members[here, i], columns, there, row)
            for j in range(sizes[there]):
                if row[j] < nearest[i, last]:
                    slot = last
                    while slot > 0 and nearest[i, slot - 1] > row[j]:
                        nearest[i, slot] = nearest[i, slot - 1]
                        slot -= 1
                    nearest[i, slot] = row[j]
        if nearest[i, last] > farthest:
            farthest = nearest[i, last]
    return farthest
