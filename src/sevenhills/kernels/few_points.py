"""The OPTICS ordering of a few points, by Prim's algorithm on the table of all distances.

A tree of boxes saves nothing where all points are near each other, and takes longer to prepare than
all of this. The results are those of :mod:`sevenhills.kernels.ordering`, to the bit.
"""

from typing import NamedTuple

import numpy as np

from .blocks import ROUNDING, insert
from .compile import kernel
from .distances import squared_distances
from .ordering import DECIMALS


class FewOrdered(NamedTuple):
    """Points in order; see :class:`~sevenhills.clustering.Ordering`."""

    order: np.ndarray
    reachability: np.ndarray
    core: np.ndarray
    predecessor: np.ndarray


def order_few_points(X: np.ndarray, weights: np.ndarray, mass: float) -> FewOrdered:
    """Order points, starting at the first row; memory is N x N.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
    weights : ndarray of shape (n_points,)
    mass : float
        The weights of points within the core distance add up to this.
    """
    n_points = len(X)
    found = FewOrdered(
        order=np.empty(n_points, dtype=np.int64),
        reachability=np.empty(n_points),
        core=np.empty(n_points),
        predecessor=np.empty(n_points, dtype=np.int64),
    )
    nearest = np.empty((2, 1, n_points + 1))
    squares = np.empty((n_points, n_points))
    columns = np.ascontiguousarray(X.T)[None]
    _measure(X, columns, weights, mass * (1 - ROUNDING), nearest, squares, found.core)
    _order(squares, np.ones(n_points, dtype=np.bool_), *found)
    return found


@kernel
def _measure(X, columns, weights, mass, nearest, squares, core):
    """Write all squared distances, and the distances within which weights reach a mass."""
    reached = np.empty((2, 1))
    counts = np.empty(1, dtype=np.int64)
    for i in range(X.shape[0]):
        squared_distances(X, i, columns, 0, squares[i])
        counts[0] = 0
        reached[0, 0] = 0.0
        reached[1, 0] = np.inf
        for j in range(X.shape[0]):
            if squares[i, j] < reached[1, 0]:
                insert(0, squares[i, j], weights[j], mass, nearest, reached, counts)
        core[i] = np.rint(np.sqrt(nearest[0, 0, counts[0] - 1]) * DECIMALS) / DECIMALS


@kernel
def _order(squares, is_open, order, reachability, core, predecessor):
    """Take the open point of smallest reachability, the first among equals, until none is left."""
    n_points = order.shape[0]
    for i in range(n_points):
        reachability[i] = np.inf
        predecessor[i] = -1
    point = 0
    for done in range(n_points):
        order[done] = point
        is_open[point] = False
        sender, best, offer = point, np.inf, core[point]
        point = -1
        for i in range(n_points):
            if is_open[i]:
                distance = np.sqrt(squares[sender, i])
                distance = distance if distance > offer else offer
                value = np.rint(distance * DECIMALS) / DECIMALS
                if value < reachability[i]:
                    reachability[i] = value
                    predecessor[i] = sender
                if point == -1 or reachability[i] < best:
                    point, best = i, reachability[i]
