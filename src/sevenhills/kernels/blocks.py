"""Points in spatial blocks, the leaves of a balanced k-d tree, and their nearest neighbors.

The tree is complete: node ``i`` has the children ``2 i + 1`` and ``2 i + 2``, and the last
``n_leaves`` nodes are the leaves. A leaf holds its points feature-major and by ascending index,
so that the first of equal values in a leaf belongs to the smallest index.

Written by hand because the trees of scipy and scikit-learn cannot be traversed in compiled code.
"""

from typing import NamedTuple

import numpy as np

from .compile import inner, kernel

#: Numbers of features for which boxes are rotated. With fewer a rotation does not pay; with more it
#: changes distances by more than the margin of the boxes.
_FEWEST_ROTATED = 4
_MOST_ROTATED = 100
#: Factor on the distance to a box, so that no box is skipped because of rounding.
SLACK = 1.0 - 1e-12
#: A sum of weights may fall short of the required weight by this fraction.
ROUNDING = 1e-9


class Blocks(NamedTuple):
    """A balanced k-d tree; ``S`` is the number of points in its largest leaf."""

    columns: np.ndarray  #: (n_leaves, M, S) coordinates of the points of every leaf
    members: np.ndarray  #: (n_leaves, S) their indices, ascending
    sizes: np.ndarray  #: (n_leaves,) the numbers of points
    lower: np.ndarray  #: (n_nodes, M) lower corner of every node's bounding box
    upper: np.ndarray  #: (n_nodes, M) upper corner

    @property
    def order(self) -> np.ndarray:
        """The indices of all points, leaf by leaf."""
        return np.asarray(self.members[np.arange(self.members.shape[1]) < self.sizes[:, None]])

    def renumbered(self) -> "Blocks":
        """Return the blocks of the points in this order."""
        starts = np.cumsum(self.sizes) - self.sizes
        places = starts[:, None] + np.arange(self.members.shape[1])
        return self._replace(members=np.minimum(places, self.sizes.sum() - 1))


def build_blocks(X: np.ndarray, leaf_size: int) -> Blocks:
    """Sort the rows of ``X`` (N, M) into the leaves of a balanced k-d tree.

    Level by level, every node is halved at the median of its widest feature, until no node has more
    than ``leaf_size`` points.
    """
    if len(X) <= leaf_size:
        return _single_block(X)
    points, nodes, lower, upper = _divided(X, leaf_size)
    n_leaves = (len(nodes) + 1) // 2
    starts, ends = nodes[-n_leaves:].T
    sizes = ends - starts
    slots = np.arange(sizes.max())
    vacant = slots >= sizes[:, None]
    members = points[np.where(vacant, 0, starts[:, None] + slots)]
    members[vacant] = len(X)
    members.sort(axis=1)
    members[vacant] = 0
    columns = np.ascontiguousarray(X[members].transpose(0, 2, 1))
    return Blocks(columns, members, sizes, lower, upper)


def neighbor_order(X: np.ndarray, leaf_size: int) -> np.ndarray:
    """Return the rows of ``X`` (N, M) in the order of the leaves of a balanced k-d tree."""
    return _divided(X, leaf_size)[0]


def _divided(
    X: np.ndarray, leaf_size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows by leaves, and the ranges and boxes of all nodes; see :func:`divide`."""
    n_points, n_features = X.shape
    n_leaves = 1 << (-(-n_points // leaf_size) - 1).bit_length()
    lower, upper = np.empty((2, 2 * n_leaves - 1, n_features))
    nodes, points = np.empty((len(lower), 2), dtype=np.int64), np.arange(n_points)
    nodes[0] = 0, n_points
    # The kernel is compiled for one layout only.
    X = np.require(X, requirements=["C_CONTIGUOUS", "WRITEABLE"])
    divide(X, points, nodes, lower, upper, np.empty(n_points))
    return points, nodes, lower, upper


@kernel
def divide(X, points, nodes, lower, upper, keys):
    """Sort points into the nodes of a complete tree, and compute the bounding boxes.

    ``points`` (N,) are the rows of ``X`` (N, M) in any order, which changes. Output: ``nodes``
    (n_nodes, 2), the first and last + 1 point of every node, given for the root; ``lower``,
    ``upper`` (n_nodes, M), the corners of the boxes. ``keys`` (N,) is a workspace.
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
    """Write the bounding box of the points of a node; return its widest feature."""
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
    """Move the points of smaller keys before the middle (quickselect).

    The pivot is at a pseudo-random place, so that no order of the points makes it slow.
    """
    low = start
    high = end - 1
    place = 1
    while low < high:
        place = (place * 1103515245 + 12345) & 0x7FFFFFFF
        pivot = keys[low + place % (high - low + 1)]
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
    """Return a tree of one leaf, without the overhead of the general case for small data."""
    return Blocks(
        columns=np.ascontiguousarray(X.T)[None],
        members=np.arange(len(X))[None],
        sizes=np.array([len(X)]),
        lower=X.min(axis=0, keepdims=True),
        upper=X.max(axis=0, keepdims=True),
    )


def build_rotated_blocks(X: np.ndarray, leaf_size: int) -> tuple[Blocks, np.ndarray]:
    """Build blocks whose boxes lie along the principal axes of ``X`` (N, M) where this pays.

    The columns are those of ``X``; the boxes have a margin for rounding. The second result (N, M)
    holds the points in the coordinates of the boxes.
    """
    n_points, n_features = X.shape
    if n_points <= leaf_size or not _FEWEST_ROTATED <= n_features <= _MOST_ROTATED:
        return build_blocks(X, leaf_size), X
    centered = X - X.mean(axis=0)
    coordinates = centered @ np.linalg.eigh(centered.T @ centered)[1]
    blocks = build_blocks(coordinates, leaf_size)
    margin = 16 * n_features**1.5 * np.finfo(float).eps * np.abs(centered).max()
    columns = np.ascontiguousarray(X[blocks.members].transpose(0, 2, 1))
    lower, upper = blocks.lower - margin, blocks.upper + margin
    return blocks._replace(columns=columns, lower=lower, upper=upper), coordinates


def most_needed(weights: np.ndarray, mass: float) -> int:
    """Return the number of points whose weights reach a mass, whichever points they are."""
    if weights.min() >= 1.0:
        return min(len(weights), int(np.ceil(mass)))
    reached = np.cumsum(np.sort(weights))
    return min(len(weights), 1 + int(np.searchsorted(reached, mass * (1 - ROUNDING))))


@kernel
def find_neighbors(
    X, weights, masses, spare, columns, members, sizes, lower, upper, nearest, reached, counts,
    stack, row, farthest, distances, neighbors, first, last,
):  # fmt: skip
    """Find the neighbors of the points of some leaves: own leaf first, then the nearest nodes.

    Output: the distances ``farthest`` (N,) within which weights reach the ``masses`` (N,) divided
    by ``spare``, those to the neighbors, ``distances`` (N, K), by size, and the ``neighbors``
    (N, L), infinite and -1 after the one at which the mass is reached.

    ``nearest`` (2, S, most + 1) holds, for each point of the leaf, the ``counts`` (S,) smallest
    squared distances, ascending, and the points; ``reached`` (2, S) the sum of these weights and
    the squared distance beyond which no point is needed.
    """
    first_leaf = sizes.shape[0] - 1
    for leaf in range(first, last):
        node = first_leaf + leaf
        for i in range(sizes[leaf]):
            counts[i] = 0
            reached[0, i] = 0.0
            reached[1, i] = np.inf
        most = _merge(
            X, weights, masses, members, sizes, leaf, columns, leaf, 0.0, nearest, reached, counts,
            row,
        )  # fmt: skip
        n_open = 1
        stack[0] = 0
        while n_open > 0:
            n_open -= 1
            other = stack[n_open]
            bound = _box_to_box(lower, upper, node, other) * SLACK
            if bound >= most or other == node:
                continue
            if other >= first_leaf:
                there = other - first_leaf
                most = _merge(
                    X, weights, masses, members, sizes, leaf, columns, there, bound, nearest,
                    reached, counts, row,
                )  # fmt: skip
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
            point = members[leaf, i]
            last, mass = 0, weights[np.int64(nearest[1, i, 0])]
            while last + 1 < counts[i] and mass < masses[point] / spare:
                last += 1
                mass += weights[np.int64(nearest[1, i, last])]
            farthest[point] = np.sqrt(nearest[0, i, last])
            for j in range(distances.shape[1]):
                distances[point, j] = np.sqrt(nearest[0, i, j]) if j < counts[i] else np.inf
            for j in range(neighbors.shape[1]):
                neighbors[point, j] = np.int32(nearest[1, i, j]) if j < counts[i] else -1


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
def insert(i, j, square, weights, mass, nearest, reached, counts):
    """Add point ``j`` to the neighbors of point ``i``, and drop neighbors beyond the mass."""
    slot = counts[i]
    while slot > 0 and nearest[0, i, slot - 1] > square:
        nearest[0, i, slot] = nearest[0, i, slot - 1]
        nearest[1, i, slot] = nearest[1, i, slot - 1]
        slot -= 1
    nearest[0, i, slot] = square
    nearest[1, i, slot] = j
    counts[i] += 1
    reached[0, i] += _counted(weights[j], mass)
    last = counts[i] - 1
    weight = _counted(weights[np.int64(nearest[1, i, last])], mass)
    while reached[0, i] - weight >= mass:
        reached[0, i] -= weight
        last -= 1
        weight = _counted(weights[np.int64(nearest[1, i, last])], mass)
    counts[i] = last + 1
    if reached[0, i] >= mass:
        reached[1, i] = nearest[0, i, last]


@inner
def _counted(weight, mass):
    """Return a weight, or twice the mass: more makes no difference, but rounds others away."""
    return weight if weight < 2.0 * mass else 2.0 * mass


@inner
def _merge(
    X, weights, masses, members, sizes, here, columns, there, bound, nearest, reached, counts, row
):
    """Add the points of one leaf to the neighbors of another; return the farthest that counts."""
    farthest = 0.0
    for i in range(sizes[here]):
        if bound < reached[1, i]:
            point = members[here, i]
            squared_distances(X, point, columns, there, row)
            for j in range(sizes[there]):
                if row[j] < reached[1, i]:
                    other = members[there, j]
                    insert(i, other, row[j], weights, masses[point], nearest, reached, counts)
        if reached[1, i] > farthest:
            farthest = reached[1, i]
    return farthest


@inner
def squared_distances(X, i, blocks, b, out):
    """Write the squared distances from ``X[i]`` (M,) to ``blocks[b]`` (M, S) into ``out`` (S,).

    The squares are added in the order of the features, as in scikit-learn and scipy, so that the
    results are equal to the bit. Two features at a time share the loads of sums.
    """
    n_features = X.shape[1]
    size = out.shape[0]
    for s in range(size):
        out[s] = 0.0
    odd = n_features % 2
    for m in range(odd):
        p = X[i, m]
        for s in range(size):
            out[s] += (p - blocks[b, m, s]) * (p - blocks[b, m, s])
    for m in range(odd, n_features, 2):
        p, q = X[i, m], X[i, m + 1]
        for s in range(size):
            total = out[s] + (p - blocks[b, m, s]) * (p - blocks[b, m, s])
            out[s] = total + (q - blocks[b, m + 1, s]) * (q - blocks[b, m + 1, s])


@kernel
def neighborhood_moments(points, neighbors, weights, rows, n_neighbors, means, covariances):
    """Write mean and covariance (``ddof=0``) of the nearest neighbors of some points.

    ``neighbors`` (N, K) of ``points`` (N, M) are sorted by distance, the point itself included;
    ``weights`` (N,) are numbers of samples, 0 for points that are left out. A neighborhood of one
    of the ``rows`` (R,) has ``n_neighbors`` samples, or fewer if there are not enough; the last
    neighbor counts in part. Output: ``means`` (R, M) relative to the point, ``covariances``
    (R, M, M).
    """
    n_features = points.shape[1]
    for r in range(rows.shape[0]):
        i = rows[r]
        means[r] = 0.0
        covariances[r] = 0.0
        size = 0.0
        for k in range(neighbors.shape[1]):
            j = neighbors[i, k]
            part = min(weights[j], n_neighbors - size)
            if part <= 0:
                continue
            # About the mean so far: sums about a point of small weight would lose digits.
            share = part / (size + part)
            for a in range(n_features):
                apart = points[j, a] - points[i, a] - means[r, a]
                for b in range(a + 1):
                    other = points[j, b] - points[i, b] - means[r, b]
                    covariances[r, a, b] += share * size * apart * other
            for a in range(n_features):
                means[r, a] += share * (points[j, a] - points[i, a] - means[r, a])
            size += part
            if size >= n_neighbors:
                break
        for a in range(n_features):
            for b in range(a + 1):
                covariances[r, a, b] /= size
                covariances[r, b, a] = covariances[r, a, b]
