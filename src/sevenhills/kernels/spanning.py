"""Minimum spanning trees under the mutual reachability of points.

The mutual reachability of two points is their distance, or the reach of either if that is larger.
"""

from typing import NamedTuple

import numpy as np

from .blocks import Blocks
from .compile import inner, kernel
from .distances import squared_distances

#: Boxes are passed over only if they are farther by more than rounding can explain.
_SLACK = 1.0 - 1e-12


def spanning_tree(X: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges, (N - 1, 2), of a minimum spanning tree and their lengths."""
    n_points = len(X)
    edges, lengths = np.empty((n_points - 1, 2), dtype=np.int64), np.empty(n_points - 1)
    columns = np.array(X.T[None], order="C")
    indices = np.arange(n_points)
    lows, nearest = np.full(n_points, np.inf), np.zeros(n_points, dtype=np.int64)
    _grow_tree(X, reach.copy(), columns, indices, lows, nearest, np.empty(n_points), edges, lengths)
    return edges, lengths


class Room(NamedTuple):
    """Room to work in for :func:`span`, in which every point is outside."""

    part: np.ndarray  #: (N,) the part that every point belongs to, named after its first point
    following: np.ndarray  #: (N,) the next point of the same part
    final: np.ndarray  #: (N,) the last point of every part
    size: np.ndarray  #: (N,) how many points every part has
    touched: np.ndarray  #: (n_leaves,) whether a leaf has points of other parts
    row: np.ndarray  #: (S,)

    @classmethod
    def over(cls, blocks: Blocks) -> "Room":
        """Return room for spanning points in blocks."""
        n_points, (n_leaves, leaf_size) = int(blocks.sizes.sum()), blocks.members.shape
        part, following, final, size = np.full((4, n_points), -1)
        touched = np.zeros(n_leaves, dtype=np.int64)
        return cls(part, following, final, size, touched, np.empty(leaf_size))


def span(
    X: np.ndarray,
    reach: np.ndarray,
    blocks: Blocks,
    leaves: np.ndarray,
    members: np.ndarray,
    edges: np.ndarray,
    lengths: np.ndarray,
    room: Room,
) -> tuple[np.ndarray, np.ndarray]:
    """Return a minimum spanning tree of some points, given those of its edges that are known.

    Parameters
    ----------
    X, reach : ndarray of shape (n_points, n_features), (n_points,)
    blocks, leaves : Blocks, ndarray of shape (n_points,)
        All points in blocks, and the leaf of every point.
    members : ndarray of shape (n_members,)
        The indices of the points to span.
    edges, lengths : ndarray of shape (n_edges, 2), (n_edges,)
        Edges between members that are part of a minimum spanning tree of theirs.
    room : Room

    Returns
    -------
    edges, lengths : ndarray of shape (n_members - 1, 2), (n_members - 1,)
        The given ones, then the others.
    """
    n_edges, n_known = len(members) - 1, len(edges)
    if n_known == n_edges:
        return edges, lengths
    all_edges, all_lengths = np.empty((n_edges, 2), dtype=np.int64), np.empty(n_edges)
    all_edges[:n_known], all_lengths[:n_known] = edges, lengths
    _join_parts(X, reach, *blocks, leaves, members, n_known, *room, all_edges, all_lengths)
    return all_edges, all_lengths


def diameter_beyond(X: np.ndarray, members: np.ndarray, length: float) -> float:
    """Return the largest distance between two members, or one that is at least ``length``."""
    points = X[members]
    columns = np.ascontiguousarray(points.T)[None]
    return float(_diameter_beyond(points, columns, length, np.empty(len(members))))


@kernel
def _grow_tree(X, reach, columns, indices, lows, nearest, row, edges, lengths):
    """Prim's algorithm: add the nearest point that is left, again and again.

    The points that are left fill the front of ``columns`` (1, M, N), ``reach``, ``indices``,
    ``lows`` (their distance to the tree) and ``nearest`` (the point of the tree that is nearest).
    """
    n_points = X.shape[0]
    current, own, slot = 0, reach[0], 0
    for step in range(n_points - 1):
        last = n_points - 1 - step
        for m in range(X.shape[1]):
            columns[0, m, slot] = columns[0, m, last]
        reach[slot] = reach[last]
        indices[slot] = indices[last]
        lows[slot] = lows[last]
        nearest[slot] = nearest[last]
        squared_distances(X, current, columns, 0, row[:last])
        slot = 0
        for s in range(last):
            length = _mutual(row[s], own, reach[s])
            if length < lows[s]:
                lows[s] = length
                nearest[s] = current
            if lows[s] < lows[slot]:
                slot = s
        edges[step, 0] = nearest[slot]
        edges[step, 1] = indices[slot]
        lengths[step] = lows[slot]
        current, own = indices[slot], reach[slot]


@kernel
def _join_parts(
    X,
    reach,
    columns,
    leaf_members,
    leaf_sizes,
    lower,
    upper,
    leaves,
    members,
    n_known,
    part,
    following,
    final,
    size,
    touched,
    row,
    edges,
    lengths,
):
    """Join the smallest part of a forest to what is nearest to it, until there is one part.

    The shortest edge that leaves a part belongs to a minimum spanning tree.
    """
    first_leaf = leaf_sizes.shape[0] - 1
    for i in members:
        part[i] = i
        following[i] = -1
        final[i] = i
        size[i] = 1
    for e in range(n_known):
        _merge_parts(part[edges[e, 0]], part[edges[e, 1]], part, following, final, size)
    for e in range(n_known, edges.shape[0]):
        smallest = -1
        for i in members:
            if part[i] == i and (smallest == -1 or size[i] < size[smallest]):
                smallest = i
        for i in members:
            touched[leaves[i]] = 0
        for i in members:
            if part[i] != smallest:
                touched[leaves[i]] = 1
        length, here, there = np.inf, smallest, -1
        i = smallest
        while i >= 0:
            for leaf in range(leaf_sizes.shape[0]):
                if touched[leaf] == 0 or reach[i] >= length:
                    continue
                gap = _point_to_box(X, i, lower, upper, first_leaf + leaf) * _SLACK
                if gap >= length * length:
                    continue
                squared_distances(X, i, columns, leaf, row)
                for s in range(leaf_sizes[leaf]):
                    j = leaf_members[leaf, s]
                    if part[j] >= 0 and part[j] != smallest:
                        candidate = _mutual(row[s], reach[i], reach[j])
                        if candidate < length:
                            length, here, there = candidate, i, j
            i = following[i]
        edges[e, 0] = here
        edges[e, 1] = there
        lengths[e] = length
        _merge_parts(smallest, part[there], part, following, final, size)
    for i in members:
        part[i] = -1
        touched[leaves[i]] = 0


@inner
def _point_to_box(X, i, lower, upper, node):
    """Return the squared distance from a point to a box."""
    total = 0.0
    for m in range(X.shape[1]):
        gap = lower[node, m] - X[i, m]
        if gap < X[i, m] - upper[node, m]:
            gap = X[i, m] - upper[node, m]
        if gap > 0.0:
            total += gap * gap
    return total


@inner
def _merge_parts(one, other, part, following, final, size):
    """Make the smaller of two parts a piece of the larger."""
    if size[one] > size[other]:
        one, other = other, one
    i = one
    while i >= 0:
        part[i] = other
        i = following[i]
    following[final[other]] = one
    final[other] = final[one]
    size[other] += size[one]


@inner
def _mutual(squared_distance, reach, other_reach):
    """Return the mutual reachability of two points."""
    length = np.sqrt(squared_distance)
    length = length if length > reach else reach
    return length if length > other_reach else other_reach


@kernel
def _diameter_beyond(X, columns, length, row):
    """Look for a distance of at least ``length``, first from the first point."""
    largest = 0.0
    for i in range(X.shape[0]):
        squared_distances(X, i, columns, 0, row)
        for j in range(X.shape[0]):
            if row[j] > largest:
                largest = row[j]
        if largest >= length * length:
            break
    return np.sqrt(largest)
