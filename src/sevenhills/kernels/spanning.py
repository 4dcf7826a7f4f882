"""Minimum spanning trees under the mutual reachability of points.

The mutual reachability of two points is their distance, or the reach of either if that is larger.
"""

from typing import NamedTuple

import numpy as np

from .blocks import SLACK, Blocks, squared_distances
from .compile import inner, kernel


def spanning_tree(X: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges, (N - 1, 2), of a minimum spanning tree and their lengths."""
    n_points = len(X)
    edges, lengths = np.empty((n_points - 1, 2), dtype=np.int64), np.empty(n_points - 1)
    columns = np.array(X.T[None], order="C")
    indices = np.arange(n_points)
    lows, nearest = np.full(n_points, np.inf), np.zeros(n_points, dtype=np.int64)
    _grow_tree(X, reach.copy(), columns, indices, lows, nearest, np.empty(n_points), edges, lengths)
    return edges, lengths


class Workspace(NamedTuple):
    """Workspace of :func:`span`, in which no point belongs to a part."""

    leaves: np.ndarray  #: (N,) the leaf of every point
    part: np.ndarray  #: (N,) the part of every point, named after its first point; -1 for none
    following: np.ndarray  #: (N,) the next point of the same part
    final: np.ndarray  #: (N,) the last point of every part
    size: np.ndarray  #: (N,) the number of points of every part
    touched: np.ndarray  #: (n_leaves,) whether a leaf has points of other parts
    row: np.ndarray  #: (S,)

    @classmethod
    def from_blocks(cls, blocks: Blocks) -> "Workspace":
        """Return a workspace for spanning points in blocks."""
        n_leaves, leaf_size = blocks.members.shape
        leaf, slot = np.nonzero(np.arange(leaf_size) < blocks.sizes[:, None])
        leaves, part, following, final, size = np.full((5, len(leaf)), -1)
        leaves[blocks.members[leaf, slot]] = leaf
        touched = np.zeros(n_leaves, dtype=np.int64)
        return cls(leaves, part, following, final, size, touched, np.empty(leaf_size))


def span(
    X: np.ndarray,
    reach: np.ndarray,
    blocks: Blocks,
    members: np.ndarray,
    edges: np.ndarray,
    lengths: np.ndarray,
    workspace: Workspace,
) -> tuple[np.ndarray, np.ndarray]:
    """Return edges (n_members - 1, 2) and lengths of a minimum spanning tree of some points.

    ``edges`` and ``lengths`` are those known to belong to the tree of the members; they come first.
    """
    n_edges, n_known = len(members) - 1, len(edges)
    if n_known == n_edges:
        return edges, lengths
    all_edges, all_lengths = np.empty((n_edges, 2), dtype=np.int64), np.empty(n_edges)
    all_edges[:n_known], all_lengths[:n_known] = edges, lengths
    _join_parts(X, reach, *blocks, members, n_known, *workspace, all_edges, all_lengths)
    return all_edges, all_lengths


def diameter_beyond(X: np.ndarray, members: np.ndarray, length: float) -> float:
    """Return the largest distance between two members, or any distance of at least ``length``."""
    points = X[members]
    columns = np.ascontiguousarray(points.T)[None]
    return float(_diameter_beyond(points, columns, length, np.empty(len(members))))


@kernel
def _grow_tree(X, reach, columns, indices, lows, nearest, row, edges, lengths):
    """Add the nearest remaining point to the tree until none remains (Prim's algorithm).

    The remaining points fill the front of ``columns`` (1, M, N), ``reach``, ``indices``, ``lows``
    (their distances to the tree) and ``nearest`` (the nearest point of the tree).
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
    X, reach, columns, leaf_members, leaf_sizes, lower, upper, members, n_known, leaves, part,
    following, final, size, touched, row, edges, lengths,
):  # fmt: skip
    """Join the smallest part of a forest to its nearest neighbor, until there is one part.

    The shortest edge that leaves a part belongs to a minimum spanning tree. ``edges`` and
    ``lengths`` hold ``n_known`` edges at first, and all edges in the end.
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
                gap = _point_to_box(X, i, lower, upper, first_leaf + leaf) * SLACK
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
    """Add the smaller of two parts to the larger."""
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
    """Return the largest distance between two points, or the first one that reaches ``length``."""
    largest = 0.0
    for i in range(X.shape[0]):
        squared_distances(X, i, columns, 0, row)
        for j in range(X.shape[0]):
            if row[j] > largest:
                largest = row[j]
        if largest >= length * length:
            break
    return np.sqrt(largest)
