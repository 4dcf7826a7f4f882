"""The OPTICS ordering of few points by Prim's algorithm on distances between blocks of points.

A point that is taken lowers the reachability of the points of all blocks whose box is near enough.
That takes simple loops, which compile in a third of the time of the tree of :mod:`.ordering` and
are faster for up to some thousand points. The results are the same to the bit.
"""

import numpy as np

from .blocks import ROUNDING, SLACK, build_blocks, insert, most_needed, squared_distances
from .compile import ZERO, comparing_inner, inner, kernel

#: scikit-learn rounds distances to 15 decimals.
_DECIMALS = 1e15
#: Margins of limits for this rounding and for that of sums.
_RELATIVE = 1e-13
_ABSOLUTE = 1e-15
#: Points in a block. Larger blocks mean fewer boxes and more distances.
_BLOCK_SIZE = 64
#: Stands for infinity in differences, which must not be NaN.
_LARGEST = 1e300


def order_few_points(
    X: np.ndarray, weights: np.ndarray, mass: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return order, reachability, core distances and predecessors, starting at the first row.

    The weights of points within the core distance add up to ``mass``.
    """
    n_points = len(X)
    columns, members, sizes, lower, upper = build_blocks(X, _BLOCK_SIZE)
    lower, upper = lower[-len(sizes) :], upper[-len(sizes) :]
    blocks = (columns, members, sizes, lower, upper)
    row, (tops, least) = np.empty(members.shape[1]), np.full((2, len(sizes)), np.inf)
    core, reachability = np.empty((2, n_points))

    nearest = np.empty((2, n_points, most_needed(weights, mass) + 1))
    reached, counts = np.zeros((2, n_points)), np.zeros(n_points, dtype=np.int64)
    reached[1] = np.inf
    mass *= 1 - ROUNDING
    _measure_cores(X, *blocks, weights, mass, nearest, reached, counts, row, tops, core)

    occupied = np.arange(len(row)) < sizes[:, None]
    places = np.empty(n_points, dtype=np.int64)
    places[members[occupied]] = np.flatnonzero(occupied)
    reach, limit = np.full(members.shape, np.inf), np.where(occupied, _LARGEST, -1.0)
    source = np.full(members.shape, -1)
    tops[:] = _LARGEST
    order, predecessor = np.empty((2, n_points), dtype=np.int64)
    _order(
        X, *blocks, core, places, reach, limit, source, row, tops, least, order, reachability,
        predecessor,
    )  # fmt: skip
    return order, reachability, core, predecessor


@kernel
def _measure_cores(
    X, columns, members, sizes, lower, upper, weights, mass, nearest, reached, counts, row, tops,
    core,
):  # fmt: skip
    """Write the core distances (N,); every pair of points is measured once.

    ``nearest`` (2, N, most + 1), ``reached`` (2, N) and ``counts`` (N,) hold the neighbors of every
    point, ``tops`` (n_blocks,) the largest squared distance that counts for a point of a block;
    ``row`` (S,) is a workspace.
    """
    for block in range(sizes.shape[0]):
        for slot in range(sizes[block]):
            i = members[block, slot]
            insert(i, i, 0.0, weights, mass, nearest, reached, counts)
            # The blocks before this one are the nearest, as a rule.
            for other in range(block, -1, -1):
                far = reached[1, i] if reached[1, i] > tops[other] else tops[other]
                if other < block and _to_box(X, i, lower, upper, other) * SLACK >= far:
                    continue
                squared_distances(X, i, columns, other, row)
                top = 0.0
                for s in range(slot if other == block else sizes[other]):
                    j = members[other, s]
                    if row[s] < reached[1, i]:
                        insert(i, j, row[s], weights, mass, nearest, reached, counts)
                    if row[s] < reached[1, j]:
                        insert(j, i, row[s], weights, mass, nearest, reached, counts)
                    top = reached[1, j] if reached[1, j] > top else top
                if other < block:
                    tops[other] = top
        tops[block] = 0.0
        for slot in range(sizes[block]):
            i = members[block, slot]
            tops[block] = reached[1, i] if reached[1, i] > tops[block] else tops[block]
    for i in range(core.shape[0]):
        core[i] = _rounded(np.sqrt(nearest[0, i, counts[i] - 1]))


@kernel
def _order(
    X, columns, members, sizes, lower, upper, core, places, reach, limit, source, row, tops, least,
    order, reachability, predecessor,
):  # fmt: skip
    """Take the open point of smallest reachability, the first among equals, until none is open.

    By block and slot, ``reach`` and ``source`` are the reachability so far and its sender, and
    ``limit`` the squared distance beyond which a sender offers nothing, -1 for taken points; by
    block, ``tops`` are the largest limits and ``least`` the smallest reachabilities. ``places``
    (N,) are the indices of points in these tables.
    """
    n_blocks, size = members.shape
    point = ZERO
    for done in range(X.shape[0]):
        block = places[point] // size
        slot = places[point] % size
        order[done] = point
        reachability[point] = reach[block, slot]
        predecessor[point] = source[block, slot]
        reach[block, slot] = np.inf
        limit[block, slot] = -1.0
        least[block] = _least(reach[block])
        smallest = np.inf
        for block in range(n_blocks):
            if _to_box(X, point, lower, upper, block) * SLACK <= tops[block]:
                squared_distances(X, point, columns, block, row)
                if _least_excess(row, limit[block]) <= 0.0:
                    _lower(point, core[point], row, reach[block], limit[block], source[block])
                    least[block] = _least(reach[block])
                tops[block] = _most(limit[block])
            smallest = least[block] if least[block] < smallest else smallest
        point = X.shape[0]
        for block in range(n_blocks):
            if least[block] == smallest:
                for slot in range(sizes[block]):
                    if reach[block, slot] == smallest and limit[block, slot] >= 0.0:
                        point = members[block, slot] if members[block, slot] < point else point


@inner
def _to_box(X, i, lower, upper, b):
    """Return the squared distance from a point to a box."""
    total = 0.0
    for m in range(X.shape[1]):
        below = lower[b, m] - X[i, m]
        above = X[i, m] - upper[b, m]
        gap = below if below > above else above
        gap = gap if gap > 0.0 else 0.0
        total += gap * gap
    return total


@inner
def _lower(sender, offer, row, reach, limit, source):
    """Lower the reachability of the open points of a block by the offers of one sender."""
    for s in range(row.shape[0]):
        if row[s] <= limit[s]:
            distance = np.sqrt(row[s])
            value = _rounded(distance if distance > offer else offer)
            if value < reach[s]:
                reach[s] = value
                source[s] = sender
                margin = value * (1.0 + _RELATIVE) + _ABSOLUTE
                limit[s] = margin * margin


@comparing_inner
def _least_excess(values, limits):
    """Return the least difference between values and limits."""
    least = np.inf
    for i in range(values.shape[0]):
        excess = values[i] - limits[i]
        least = excess if excess < least else least
    return least


@comparing_inner
def _least(values):
    least = np.inf
    for i in range(values.shape[0]):
        least = values[i] if values[i] < least else least
    return least


@comparing_inner
def _most(values):
    most = -np.inf
    for i in range(values.shape[0]):
        most = values[i] if values[i] > most else most
    return most


@inner
def _rounded(distance):
    return np.rint(distance * _DECIMALS) / _DECIMALS
