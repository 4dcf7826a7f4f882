"""The OPTICS ordering of few points by Prim's algorithm on distances between blocks of points.

A point that is taken lowers the reachability of the points of a block when they might come next:
until then its offer waits at the block, with a lower bound by the distance to the block's box, and
it is dropped if all points of the block have better ones. That takes simple loops, which compile
in a third of the time of the tree of :mod:`.ordering`. The results are the same to the bit.
"""

import numpy as np

from .blocks import (
    ROUNDING,
    SLACK,
    build_blocks,
    build_rotated_blocks,
    insert,
    most_needed,
    squared_distances,
)
from .compile import ZERO, comparing_inner, inner, kernel

#: scikit-learn rounds distances to 15 decimals.
_DECIMALS = 1e15
#: Margins of limits for this rounding and for that of sums.
_RELATIVE = 1e-13
_ABSOLUTE = 1e-15
#: Points in a block. Larger blocks mean fewer boxes and more distances.
_BLOCK_SIZE = 64
#: From this number of points on, boxes along the principal axes save more than they cost.
_FEWEST_ROTATED = 1000
#: Offers up to this factor on the smallest reachability no longer wait, so that a block of nearly
#: equal ones is not visited once for each.
_EARLY = 1.1
#: Stands for infinity in differences, which must not be NaN.
_LARGEST = 1e308


def order_few_points(
    X: np.ndarray, weights: np.ndarray, mass: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return order, reachability, core distances and predecessors, starting at the first row.

    The weights of points within the core distance add up to ``mass``.
    """
    n_points = len(X)
    if n_points < _FEWEST_ROTATED:
        blocks, coordinates = build_blocks(X, _BLOCK_SIZE), X
    else:
        blocks, coordinates = build_rotated_blocks(X, _BLOCK_SIZE)
    columns, members, sizes, *corners = blocks
    n_blocks, size = members.shape
    # Boxes of blocks, feature-major.
    boxes = np.array([corner[-n_blocks:].T for corner in corners])
    row, gaps, (tops, least) = np.empty(size), np.empty((size, n_blocks)), np.empty((2, n_blocks))
    core, reachability = np.empty((2, n_points))

    nearest = np.empty((2, n_points, most_needed(weights, mass) + 1))
    mass *= 1 - ROUNDING
    # The first neighbor of a point is the point itself.
    nearest[0, :, 0], nearest[1, :, 0] = 0.0, np.arange(n_points)
    reached, counts = np.empty((2, n_points)), np.ones(n_points, dtype=np.int64)
    reached[0], reached[1] = np.minimum(weights, 2.0 * mass), np.where(weights < mass, np.inf, 0.0)
    _measure_cores(
        X, coordinates, columns, members, sizes, boxes, weights, mass, nearest, reached, counts,
        row, gaps, tops, core,
    )  # fmt: skip

    occupied = np.arange(size) < sizes[:, None]
    reach, limit = np.full(members.shape, np.inf), np.where(occupied, _LARGEST, -1.0)
    source = np.full(members.shape, -1)
    waiting, counts = np.empty((2, n_blocks, n_points)), np.zeros(n_blocks, dtype=np.int64)
    tops[:], least[:], due = _LARGEST, np.inf, np.full(n_blocks, np.inf)
    order, predecessor = np.empty((2, n_points), dtype=np.int64)
    _order(
        X, coordinates, columns, members, boxes, core, reach, limit, source, waiting, counts, due,
        row, gaps[0], tops, least, order, reachability, predecessor,
    )  # fmt: skip
    return order, reachability, core, predecessor


@kernel
def _measure_cores(
    X, coordinates, columns, members, sizes, boxes, weights, mass, nearest, reached, counts, row,
    gaps, tops, core,
):  # fmt: skip
    """Write the core distances (N,); every pair of points is measured once.

    ``coordinates`` (N, M) are the points in the coordinates of ``boxes`` (2, M, n_blocks), the
    corners of the blocks. ``nearest`` (2, N, most + 1), ``reached`` (2, N) and ``counts`` (N,) hold
    the neighbors of every point, ``tops`` (n_blocks,) the largest squared distance that counts for
    a point of a block; ``row`` (S,) and ``gaps`` (S, n_blocks) are workspaces.
    """
    for block in range(sizes.shape[0]):
        for slot in range(sizes[block]):
            _to_boxes(coordinates, members[block, slot], boxes, gaps[slot])
        # The nearest blocks are this one and those before it, as a rule.
        for other in range(block, -1, -1):
            for slot in range(sizes[block]):
                i = members[block, slot]
                far = reached[1, i] if reached[1, i] > tops[other] else tops[other]
                if other < block and gaps[slot, other] >= far:
                    continue
                squared_distances(X, i, columns, other, row)
                top = 0.0
                for s in range(slot if other == block else sizes[other]):
                    j = members[other, s]
                    for side in range(2):
                        one, two = (i, j) if side == 0 else (j, i)
                        if row[s] < reached[1, one]:
                            insert(one, two, row[s], weights, mass, nearest, reached, counts)
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
    X, coordinates, columns, members, boxes, core, reach, limit, source, waiting, counts, due, row,
    gaps, tops, least, order, reachability, predecessor,
):  # fmt: skip
    """Take the open point of smallest reachability, the first among equals, until none is open.

    By block and slot, ``reach`` and ``source`` are the reachability so far and its sender, and
    ``limit`` the squared distance beyond which a sender offers nothing, -1 for taken points; by
    block, ``tops`` are bounds on the limits and ``least`` the smallest reachabilities. Senders are
    places in the order. The first ``counts`` (n_blocks,) of ``waiting`` (2, n_blocks, N) are lower
    bounds on the offers that wait at a block, the smallest of which is ``due`` (n_blocks,), and
    their senders. ``row`` and ``gaps`` are workspaces.
    """
    n_blocks, size = members.shape
    smallest = np.inf
    for done in range(X.shape[0]):
        point, block, slot = X.shape[0], ZERO, ZERO
        for b in range(n_blocks):
            if least[b] == smallest:
                for s in range(size):
                    if reach[b, s] == smallest and limit[b, s] >= 0.0 and members[b, s] < point:
                        point, block, slot = members[b, s], b, s
        order[done] = point
        reachability[point] = smallest
        sender = source[block, slot]
        predecessor[point] = order[sender] if sender >= 0 else -1
        reach[block, slot] = np.inf
        limit[block, slot] = -1.0
        least[block] = _least(reach[block])
        _to_boxes(coordinates, point, boxes, gaps)
        smallest = np.inf
        for b in range(n_blocks):
            if gaps[b] <= tops[b]:
                offer = np.sqrt(gaps[b]) - _ABSOLUTE
                offer = offer if offer > core[point] else core[point]
                waiting[0, b, counts[b]] = offer
                waiting[1, b, counts[b]] = done
                counts[b] += 1
                due[b] = offer if offer < due[b] else due[b]
            smallest = least[b] if least[b] < smallest else smallest
        for b in range(n_blocks):
            if due[b] <= smallest and counts[b] > 0:
                tops[b] = _most(limit[b])
                counts[b], due[b] = _deliver(
                    b, smallest * _EARLY, X, columns, core, order, reach[b], limit[b], source[b],
                    waiting[:, b], counts[b], row, tops[b],
                )  # fmt: skip
                least[b] = _least(reach[b])
                smallest = least[b] if least[b] < smallest else smallest


@comparing_inner
def _to_boxes(coordinates, i, boxes, out):
    """Write lower bounds on the squared distances from a point to the points of all blocks."""
    for b in range(out.shape[0]):
        out[b] = 0.0
    for m in range(coordinates.shape[1]):
        x = coordinates[i, m]
        for b in range(out.shape[0]):
            below = boxes[0, m, b] - x
            above = x - boxes[1, m, b]
            gap = below if below > above else above
            gap = gap if gap > 0.0 else 0.0
            out[b] += gap * gap
    for b in range(out.shape[0]):
        out[b] *= SLACK


@inner
def _deliver(
    block, early, X, columns, core, order, reach, limit, source, waiting, n_waiting, row, top
):
    """Make the offers up to a size that wait at a block, and drop those that are useless.

    Of equal offers, that of the sender which was taken first counts. Return the number of offers
    that still wait, and the smallest. A sender at the distance of its offer is within the limit of
    a point that takes the offer.
    """
    n_kept, due = 0, np.inf
    for w in range(n_waiting):
        offer = waiting[0, w]
        if offer * offer * SLACK > top:
            continue
        if offer > early:
            waiting[0, n_kept] = offer
            waiting[1, n_kept] = waiting[1, w]
            n_kept += 1
            due = offer if offer < due else due
            continue
        sender = np.int64(waiting[1, w])
        point = order[sender]
        squared_distances(X, point, columns, block, row)
        if _least_excess(row, limit) <= 0.0:
            for s in range(row.shape[0]):
                if row[s] <= limit[s]:
                    distance = np.sqrt(row[s])
                    value = _rounded(distance if distance > core[point] else core[point])
                    if value < reach[s] or (value == reach[s] and sender < source[s]):
                        reach[s] = value
                        source[s] = sender
                        margin = value * (1.0 + _RELATIVE) + _ABSOLUTE
                        limit[s] = margin * margin
            top = _most(limit)
    return n_kept, due


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
