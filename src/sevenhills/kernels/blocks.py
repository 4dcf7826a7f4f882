"""Points in spatial blocks: the leaves of a balanced k-d tree.

The tree is complete: node ``i`` has the children ``2 i + 1`` and ``2 i + 2``, and the last
``n_leaves`` nodes are the leaves. A leaf holds its points feature-major and by ascending index,
so that the first of equal values in a leaf belongs to the smallest index.

Written by hand because the trees of scipy and scikit-learn cannot be walked from compiled code.
"""

from typing import NamedTuple

import numpy as np

from .compile import inner, kernel

#: Numbers of features from which and up to which boxes are rotated: few are not worth it, and with
#: many a rotation changes distances by more than those who use the boxes allow for.
_FEWEST_ROTATED = 4
_MOST_ROTATED = 100


class Blocks(NamedTuple):
    """A balanced k-d tree; ``S`` is the number of points in its largest leaf."""

    columns: np.ndarray  #: (n_leaves, M, S) coordinates of the points of every leaf
    members: np.ndarray  #: (n_leaves, S) their indices, ascending
    sizes: np.ndarray  #: (n_leaves,) how many there are
    lower: np.ndarray  #: (n_nodes, M) lower corner of every node's bounding box
    upper: np.ndarray  #: (n_nodes, M) upper corner


def build_blocks(X: np.ndarray, leaf_size: int) -> Blocks:
    """Sort the rows of ``X`` (N, M) into the leaves of a balanced k-d tree.

    Level by level, every node is halved at the median of its widest feature, until none of them
    has more than ``leaf_size`` points.
    """
    n_points, n_features = X.shape
    if n_points <= leaf_size:
        return _single_block(X)
    n_leaves = 1 << (-(-n_points // leaf_size) - 1).bit_length()
    lower, upper = np.empty((2, 2 * n_leaves - 1, n_features))
    nodes, points = np.empty((len(lower), 2), dtype=np.int64), np.arange(n_points)
    nodes[0] = 0, n_points
    # One layout only, so that it is compiled only once.
    X = np.require(X, requirements=["C_CONTIGUOUS", "WRITEABLE"])
    divide(X, points, nodes, lower, upper, np.empty(n_points))

    starts, ends = nodes[-n_leaves:].T
    sizes = ends - starts
    slots = np.arange(sizes.max())
    vacant = slots >= sizes[:, None]
    members = points[np.where(vacant, 0, starts[:, None] + slots)]
    members[vacant] = n_points
    members.sort(axis=1)
    members[vacant] = 0
    columns = np.ascontiguousarray(X[members].transpose(0, 2, 1))
    return Blocks(columns, members, sizes, lower, upper)


@kernel
def divide(X, points, nodes, lower, upper, keys):
    """Put the points of every node of a complete tree together, and boxes around them.

    Parameters
    ----------
    X : (N, M)
    points : (N,)
        The rows, in any order; changed.
    nodes : (n_nodes, 2)
        Where the points of every node start and end, given for the first; changed.
    lower, upper : (n_nodes, M)
        The corners of the boxes; changed.
    keys : (N,)
        Room to work in.
    """
    n_nodes = nodes.shape[0]
    for node in range(n_nodes):
        start = nodes[node, 0]
        end = nodes[node, 1]
        widest = _enclose(X, points, start, end, lower, upper, node)
        if 2 * node + 2 < n_nodes:
            middle = (start + end) // 2
            for k in range(start, end):
                keys[k] = X[points[k], widest]
            _halve(keys, points, start, middle, end)
            nodes[2 * node + 1, 0] = start
            nodes[2 * node + 1, 1] = middle
            nodes[2 * node + 2, 0] = middle
            nodes[2 * node + 2, 1] = end


@inner
def _enclose(X, points, start, end, lower, upper, node):
    """Write the corners of the box of some points; return its widest feature."""
    widest = 0
    for m in range(X.shape[1]):
        low = X[points[start], m]
        high = low
        for k in range(start + 1, end):
            x = X[points[k], m]
            low = x if x < low else low
            high = x if x > high else high
        lower[node, m] = low
        upper[node, m] = high
        if high - low > upper[node, widest] - lower[node, widest]:
            widest = m
    return widest


@inner
def _halve(keys, points, start, middle, end):
    """Put points before the middle whose keys are not above those from there on (quickselect).

    Two of the three keys from which the pivot comes are at places that no order of points can
    foresee, so that none is slow.
    """
    low = start
    high = end - 1
    place = 1
    while low < high:
        place = (place * 1103515245 + 12345) & 0x7FFFFFFF
        a = keys[low + place % (high - low + 1)]
        place = (place * 1103515245 + 12345) & 0x7FFFFFFF
        b = keys[low + place % (high - low + 1)]
        pivot = max(min(a, b), min(max(a, b), keys[middle]))
        i = low
        j = high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                points[i], points[j] = points[j], points[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            break


def _single_block(X: np.ndarray) -> Blocks:
    """Return a tree that is one leaf; with small data, making it is most of the work."""
    return Blocks(
        columns=np.ascontiguousarray(X.T)[None],
        members=np.arange(len(X))[None],
        sizes=np.array([len(X)]),
        lower=X.min(axis=0, keepdims=True),
        upper=X.max(axis=0, keepdims=True),
    )


def build_rotated_blocks(X: np.ndarray, leaf_size: int) -> tuple[Blocks, np.ndarray]:
    """Do the same with boxes along the principal axes of ``X``, where small boxes are of use.

    Returns
    -------
    blocks : Blocks
        The columns are those of ``X``; the boxes are wider than needed by what rounding may do.
    coordinates : ndarray of shape (N, M)
        The points in the coordinates of the boxes.
    """
    n_points, n_features = X.shape
    if n_points <= leaf_size or not _FEWEST_ROTATED <= n_features <= _MOST_ROTATED:
        return build_blocks(X, leaf_size), X
    centred = X - X.mean(axis=0)
    coordinates = centred @ np.linalg.eigh(centred.T @ centred)[1]
    blocks = build_blocks(coordinates, leaf_size)
    room = 16 * n_features**1.5 * np.finfo(float).eps * np.abs(centred).max()
    columns = np.ascontiguousarray(X[blocks.members].transpose(0, 2, 1))
    wider = blocks._replace(columns=columns, lower=blocks.lower - room, upper=blocks.upper + room)
    return wider, coordinates
