"""Points in spatial blocks: the leaves of a balanced k-d tree.

The tree is complete: node ``i`` has the children ``2 i + 1`` and ``2 i + 2``, and the last
``n_leaves`` nodes are the leaves. A leaf holds its points feature-major and by ascending index,
so that the first of equal values in a leaf belongs to the smallest index.

Written by hand because the trees of scipy and scikit-learn cannot be walked from compiled code.
"""

from typing import NamedTuple

import numpy as np

from .compile import kernel

LEAF_SIZE = 64


class Blocks(NamedTuple):
    """A balanced k-d tree; ``S`` is the number of points in its largest leaf."""

    columns: np.ndarray  #: (n_leaves, M, S) coordinates of the points of every leaf
    members: np.ndarray  #: (n_leaves, S) their indices, ascending
    sizes: np.ndarray  #: (n_leaves,) how many there are
    lower: np.ndarray  #: (n_nodes, M) lower corner of every node's bounding box
    upper: np.ndarray  #: (n_nodes, M) upper corner


def build_blocks(X: np.ndarray) -> Blocks:
    """Sort the rows of ``X`` (N, M) into the leaves of a balanced k-d tree."""
    n_points, n_features = X.shape
    n_leaves = 1
    while n_points > LEAF_SIZE * n_leaves:
        n_leaves *= 2
    n_nodes = 2 * n_leaves - 1
    lower, upper = np.empty((2, n_nodes, n_features))
    points = np.arange(n_points)
    starts, ends = np.zeros(n_nodes, dtype=np.int64), np.full(n_nodes, n_points)
    _split(X, points, starts, ends, lower, upper)

    starts, ends = starts[-n_leaves:], ends[-n_leaves:]
    slots = np.arange(-(-n_points // n_leaves))
    members = np.append(points, n_points)[np.minimum(starts[:, None] + slots, n_points)]
    members[slots >= (ends - starts)[:, None]] = n_points
    members.sort(axis=1)
    members[members == n_points] = 0
    columns = np.ascontiguousarray(X[members].transpose(0, 2, 1))
    return Blocks(columns, members, ends - starts, lower, upper)


@kernel
def _split(X, points, starts, ends, lower, upper):
    """Halve every inner node at the median of its widest feature, from the root down."""
    n_nodes, n_features = lower.shape
    for node in range(n_nodes):
        start, end = starts[node], ends[node]
        for m in range(n_features):
            lower[node, m], upper[node, m] = np.inf, -np.inf
        for i in range(start, end):
            for m in range(n_features):
                value = X[points[i], m]
                lower[node, m] = value if value < lower[node, m] else lower[node, m]
                upper[node, m] = value if value > upper[node, m] else upper[node, m]
        if 2 * node + 2 > n_nodes:
            continue
        widest = 0
        for m in range(n_features):
            if upper[node, m] - lower[node, m] > upper[node, widest] - lower[node, widest]:
                widest = m
        middle = (start + end) // 2
        _select(X, widest, points, start, end - 1, middle)
        starts[2 * node + 1], ends[2 * node + 1] = start, middle
        starts[2 * node + 2], ends[2 * node + 2] = middle, end


@kernel
def _select(X, feature, points, low, high, middle):
    """Reorder ``points[low:high + 1]`` so that none before ``middle`` is larger in ``feature``."""
    while low < high:
        pivot = X[points[(low + high) // 2], feature]
        i, j = low, high
        while i <= j:
            while X[points[i], feature] < pivot:
                i += 1
            while X[points[j], feature] > pivot:
                j -= 1
            if i <= j:
                points[i], points[j] = points[j], points[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return
