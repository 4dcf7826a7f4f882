"""Points in spatial blocks: the leaves of a balanced k-d tree.

The tree is complete: node ``i`` has the children ``2 i + 1`` and ``2 i + 2``, and the last
``n_leaves`` nodes are the leaves. A leaf holds its points feature-major and by ascending index,
so that the first of equal values in a leaf belongs to the smallest index.

Written by hand because the trees of scipy and scikit-learn cannot be walked from compiled code.
Made with numpy, which needs no compilation.
"""

from typing import NamedTuple

import numpy as np

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
    n_points = len(X)
    if n_points <= leaf_size:
        return _single_block(X)
    points, bounds = np.arange(n_points), np.array([0, n_points])
    lower, upper = [X.min(axis=0, keepdims=True)], [X.max(axis=0, keepdims=True)]
    while n_points > leaf_size * (len(bounds) - 1):
        widest = np.argmax(upper[-1] - lower[-1], axis=1)
        middles = (bounds[:-1] + bounds[1:]) // 2
        for feature, start, middle, end in zip(widest, bounds, middles, bounds[1:], strict=False):
            part = points[start:end]
            points[start:end] = part[np.argpartition(X[part, feature], middle - start)]
        bounds = np.append(np.stack([bounds[:-1], middles], axis=1), n_points)
        ordered = X[points]
        lower.append(np.minimum.reduceat(ordered, bounds[:-1]))
        upper.append(np.maximum.reduceat(ordered, bounds[:-1]))

    sizes = np.diff(bounds)
    slots = np.arange(sizes.max())
    vacant = slots >= sizes[:, None]
    members = points[np.where(vacant, 0, bounds[:-1, None] + slots)]
    members[vacant] = n_points
    members.sort(axis=1)
    members[vacant] = 0
    columns = np.ascontiguousarray(X[members].transpose(0, 2, 1))
    return Blocks(columns, members, sizes, np.concatenate(lower), np.concatenate(upper))


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
    """Do the same with boxes along the principal axes of ``X``, where that makes them smaller.

    Returns
    -------
    blocks : Blocks
        The columns are those of ``X``; the boxes are wider than needed by what rounding may do.
    coordinates : ndarray of shape (N, M)
        The points in the coordinates of the boxes.
    """
    n_features = X.shape[1]
    if not _FEWEST_ROTATED <= n_features <= _MOST_ROTATED:
        return build_blocks(X, leaf_size), X
    centred = X - X.mean(axis=0)
    coordinates = centred @ np.linalg.eigh(centred.T @ centred)[1]
    blocks = build_blocks(coordinates, leaf_size)
    room = 16 * n_features**1.5 * np.finfo(float).eps * np.abs(centred).max()
    columns = np.ascontiguousarray(X[blocks.members].transpose(0, 2, 1))
    wider = blocks._replace(columns=columns, lower=blocks.lower - room, upper=blocks.upper + room)
    return wider, coordinates
