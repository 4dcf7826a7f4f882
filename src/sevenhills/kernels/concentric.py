"""Logarithms of sums of Gaussian kernels of many covariances.

Kernels of one mean whose covariances are multiples of each other are a family: one squared distance
serves all of them. Families are in tiles of neighbors, and tiles in a tree. Points are in blocks of
neighbors; every step runs along the points of a block, whose number is fixed, so that it
vectorizes.

A node of the tree and a tile have a box and coordinates in which no kernel of theirs is wider than
a unit Gaussian. The distance of a point from the box bounds the exponents of its kernels there.
"""

import numpy as np

from .compile import ZERO, comparing_inner, fused_inner, inlined, kernel
from .mixture import LOWEST, exponential
from .triangles import invert_lower

#: Points of a block.
WIDTH = 64
#: Exponents above the reference by more than this become the reference, so that more is left out.
_RAISE = 20.0
#: Rows of a triangle that are summed in one loop.
_LAST_ROWS = 3
#: The reference of a point before the first kernel, below that of any kernel.
_FLOOR = -1.7e308


@kernel
def log_tree_sums(
    columns, nearest, frames, centers, lower, upper, tops, first_tiles, first_families, is_shared,
    means, factors, factor_of_family, starts, rates, log_heights, negligible, stack, units, turned,
    work, out,
):  # fmt: skip
    """Write ``log sum_k exp(log_heights_k - rates_k |R_f (x - m_f)|^2)`` for every point.

    columns : (n_blocks, M, WIDTH), the points
    nearest : (n_blocks,), the tile that is summed first
    frames : (n_boxes, M (M + 1) / 2), upper triangles U, the last row first, of the coordinates
        ``U (x - center)`` of the nodes of the tree, the leaves last, and then of the tiles
    centers, lower, upper : (n_boxes, M), the origin, and the box of the means in these coordinates
    tops : (n_boxes,), the largest log height
    first_tiles : (n_leaves + 1,), the first tile of every leaf, and the number of tiles
    first_families : (n_tiles + 1,), the first family of every tile, and the number of families
    is_shared : (n_tiles,), whether the coordinates of a tile are those of all its kernels
    means : (F, M), one mean for every family f; that of a shared tile in the tile's coordinates
    factors : (n_factors, M (M + 1) / 2), upper triangles R, the last row first
    factor_of_family : (F,)
    starts : (F + 1,), the first kernel of every family, and the number of kernels
    rates, log_heights : (K,)
    negligible : a kernel is left out where it cannot add exp(-negligible) of the sum
    stack, units, turned, work : (depth + 2,), (M, WIDTH), (M, WIDTH) and (4, WIDTH)
    out : (n_blocks, WIDTH)
    """
    n_leaves = first_tiles.shape[0] - 1
    n_nodes = 2 * n_leaves - 1
    # Views are made once, because each costs atomic reference counts.
    floors, references, totals, squares = work[0], work[1], work[2], work[3]
    for b in range(columns.shape[0]):
        floors[:] = 0.0
        references[:] = _FLOOR
        totals[:] = 0.0
        n_added = 0
        renewal = 1
        n_open = 2
        stack[0] = 0
        stack[1] = n_nodes + nearest[b]
        while n_open > 0:
            n_open -= 1
            node = stack[n_open]
            leaf = node - (n_nodes - n_leaves)
            is_leaf = leaf >= 0
            child, end = 2 * node + 1, 2 * node + 3
            if node >= n_nodes:
                child, end = node, node + 1
            elif is_leaf:
                child, end = n_nodes + first_tiles[leaf], n_nodes + first_tiles[leaf + 1]
            previous = -np.inf
            while child < end:
                is_started = n_added > 0
                margin = _margin(
                    columns, b, child, frames, centers, lower, upper, tops, is_started, units,
                    turned, floors, squares,
                )  # fmt: skip
                if is_started and (margin < 0.0 or child == n_nodes + nearest[b]):
                    pass
                elif is_leaf:
                    tile = child - n_nodes
                    may_rise = (
                        _largest_margin(tops[child], 0.5, squares, references) > _RAISE
                    ) or not is_started
                    for f in range(first_families[tile], first_families[tile + 1]):
                        _add_family(
                            columns, b, f, is_shared[tile], means, factors, factor_of_family[f],
                            starts[f], starts[f + 1], rates, log_heights, is_started, may_rise,
                            units, turned, floors, references, totals, squares,
                        )  # fmt: skip
                    n_added += 1
                    # Floors rise more and more slowly, and logarithms are expensive.
                    if n_added == renewal:
                        renewal += 1 + renewal // 4
                        _raise_floors(floors, references, totals, negligible)
                else:
                    stack[n_open] = child
                    n_open += 1
                    # The child of the larger bound is opened first.
                    if margin < previous:
                        stack[n_open - 2], stack[n_open - 1] = child, child - 1
                    previous = margin
                child += 1
        for s in range(WIDTH):
            is_reached = references[s] > _FLOOR
            out[b, s] = references[s] + np.log(totals[s]) if is_reached else -np.inf


# Bounds


@inlined
def _margin(
    columns, b, box, frames, centers, lower, upper, tops, may_stop, units, turned, floors, squares
):
    """Return by how much the bound of a box exceeds the floor of a point, at most.

    ``turned`` receives the coordinates of the points, unless the result is negative and the
    search may stop.
    """
    n_features = columns.shape[1]
    for s in range(WIDTH):
        squares[s] = 0.0
    _write_differences(columns, b, centers, box, units)
    first = n_features
    margin = np.inf
    while first > 0:
        n_rows = 1 if first == n_features and n_features % 2 == 1 else 2
        first -= n_rows
        if n_rows == 1:
            _write_last_row(frames[box, 0], units, turned)
        else:
            _write_two_rows(frames, box, first, units, turned, first)
        _add_gaps(lower, upper, box, first, n_rows, turned, squares)
        if first % 8 == 0:
            margin = _largest_margin(tops[box], 0.5, squares, floors)
            if margin < 0.0 and may_stop:
                break
    return margin


@inlined
def _write_differences(points, b, means, f, units):
    """Write the differences of points and a mean."""
    for m in range(points.shape[1]):
        mean = means[f, m]
        for s in range(WIDTH):
            units[m, s] = points[b, m, s] - mean


@inlined
def _write_last_row(factor, units, turned):
    """Write the last coordinate."""
    last = units.shape[0] - 1
    for s in range(WIDTH):
        turned[last, s] = factor * units[last, s]


@fused_inner
def _write_two_rows(factors, g, first, units, turned, to):
    """Write two coordinates.

    Two rows and four columns at a time keep sums and factors in registers.
    """
    n = units.shape[0] - first
    start = n * (n - 1) // 2
    second = start - n
    a, b, v = factors[g, start], factors[g, start + 1], factors[g, second + 1]
    for s in range(WIDTH):
        turned[to, s] = a * units[first, s] + b * units[first + 1, s]
        turned[to + 1, s] = v * units[first + 1, s]
    m = 2
    while m < n:
        i, j, k = start + m, second + m, first + m
        if m + 4 <= n:
            a, b, c, d = factors[g, i], factors[g, i + 1], factors[g, i + 2], factors[g, i + 3]
            e, u, v, w = factors[g, j], factors[g, j + 1], factors[g, j + 2], factors[g, j + 3]
            for s in range(WIDTH):
                p, q = units[k, s], units[k + 1, s]
                r, t = units[k + 2, s], units[k + 3, s]
                turned[to, s] += a * p + b * q + c * r + d * t
                turned[to + 1, s] += e * p + u * q + v * r + w * t
            m += 4
        elif m + 2 <= n:
            a, b, e, u = factors[g, i], factors[g, i + 1], factors[g, j], factors[g, j + 1]
            for s in range(WIDTH):
                p, q = units[k, s], units[k + 1, s]
                turned[to, s] += a * p + b * q
                turned[to + 1, s] += e * p + u * q
            m += 2
        else:
            a, e = factors[g, i], factors[g, j]
            for s in range(WIDTH):
                turned[to, s] += a * units[k, s]
                turned[to + 1, s] += e * units[k, s]
            m += 1


@fused_inner
def _add_gaps(lower, upper, box, first, n_rows, turned, squares):
    """Add the squared gaps between points and a box along some coordinates.

    Coordinates that are not a number are those of points at infinity; the gap is then unknown.
    """
    for j in range(first, first + n_rows):
        low, high = lower[box, j], upper[box, j]
        for s in range(WIDTH):
            y = turned[j, s]
            gap = low - y if low - y > y - high else y - high
            squares[s] += gap * gap if gap > 0.0 else 0.0
            turned[j, s] = y if y < np.inf else np.inf


@comparing_inner
def _largest_margin(log_height, rate, squares, floors):
    """Return by how much a kernel exceeds the floor of a point, at most."""
    largest = -np.inf
    for s in range(WIDTH):
        margin = (log_height - rate * squares[s]) - floors[s]
        largest = margin if margin > largest else largest
    return largest


# Sums


@inlined
def _raise_floors(floors, references, totals, negligible):
    """Write the logarithms below which nothing can be added to the sums."""
    for s in range(WIDTH):
        floor = references[s] + np.log(totals[s]) - negligible
        floors[s] = floor if floor > _FLOOR else _FLOOR


@inlined
def _add_family(
    columns, b, f, is_shared, means, factors, g, start, end, rates, log_heights, may_stop,
    may_rise, units, turned, floors, references, totals, squares,
):  # fmt: skip
    """Add the kernels of a family to the sums."""
    if is_shared:
        _write_distances(means, f, turned, squares)
    else:
        log_height, rate = log_heights[start], rates[start]
        for k in range(start + 1, end):
            log_height = max(log_height, log_heights[k])
            rate = min(rate, rates[k])
        if not _write_squares(
            columns, b, means, f, factors, g, log_height, rate, floors, may_stop, units, turned,
            squares,
        ):  # fmt: skip
            return
    for k in range(start, end):
        if may_rise:
            _raise_references(log_heights[k], rates[k], squares, references, totals)
        _add_exponentials(log_heights[k], rates[k], squares, references, totals)


@fused_inner
def _write_distances(means, f, turned, squares):
    """Write the squared distances of points from a mean in the coordinates of a tile."""
    n_features = means.shape[1]
    a = means[f, 0]
    for s in range(WIDTH):
        squares[s] = (turned[0, s] - a) * (turned[0, s] - a)
    m = 1
    while m < n_features:
        if m + 4 <= n_features:
            a, b, c, d = means[f, m], means[f, m + 1], means[f, m + 2], means[f, m + 3]
            for s in range(WIDTH):
                p, q = turned[m, s] - a, turned[m + 1, s] - b
                r, t = turned[m + 2, s] - c, turned[m + 3, s] - d
                squares[s] += (p * p + q * q) + (r * r + t * t)
            m += 4
        else:
            a = means[f, m]
            for s in range(WIDTH):
                squares[s] += (turned[m, s] - a) * (turned[m, s] - a)
            m += 1


@inlined
def _write_squares(
    points, b, means, f, factors, g, log_height, rate, floors, may_stop, units, turned, squares
):
    """Write the squared lengths of differences from a mean that a triangle has transformed.

    The last rows are the shortest. After every eight the sum is compared with the floors; return
    whether a kernel of the family may reach them.
    """
    n_features = points.shape[1]
    n_last = n_features if n_features <= _LAST_ROWS else 2 + n_features % 2
    first = n_features - n_last
    for s in range(WIDTH):
        squares[s] = 0.0
    _add_last_rows(points, b, means, f, factors, g, first, squares)
    if first > 0:
        _write_differences(points, b, means, f, units)
    while first > 0:
        first -= 2
        _write_two_rows(factors, g, first, units, turned, ZERO)
        for s in range(WIDTH):
            y, z = turned[0, s], turned[1, s]
            total = squares[s] + y * y + z * z
            squares[s] = total if total < np.inf else np.inf
        may_end = may_stop and first > 0 and first % 8 == 0
        if may_end and _largest_margin(log_height, rate, squares, floors) < 0.0:
            return False
    return True


@fused_inner
def _add_last_rows(points, b, means, f, factors, g, first, squares):
    """Add the squares of a triangle of at most three rows; what is not a number becomes infinite.

    Loops over all rows at once keep everything in registers; fewer rows would need more loops.
    """
    n = points.shape[1] - first
    if n == 1:
        f00 = factors[g, 0]
        c0 = means[f, first]
        for s in range(WIDTH):
            x0 = points[b, first, s] - c0
            y0 = f00 * x0
            total = squares[s] + y0 * y0
            squares[s] = total if total < np.inf else np.inf
    elif n == 2:
        f11 = factors[g, 0]
        f00, f01 = factors[g, 1], factors[g, 2]
        c0, c1 = means[f, first], means[f, first + 1]
        for s in range(WIDTH):
            x0 = points[b, first, s] - c0
            x1 = points[b, first + 1, s] - c1
            y0 = f00 * x0 + f01 * x1
            y1 = f11 * x1
            total = squares[s] + y0 * y0 + y1 * y1
            squares[s] = total if total < np.inf else np.inf
    else:
        f22 = factors[g, 0]
        f11, f12 = factors[g, 1], factors[g, 2]
        f00, f01, f02 = factors[g, 3], factors[g, 4], factors[g, 5]
        c0, c1, c2 = means[f, first], means[f, first + 1], means[f, first + 2]
        for s in range(WIDTH):
            x0 = points[b, first, s] - c0
            x1 = points[b, first + 1, s] - c1
            x2 = points[b, first + 2, s] - c2
            y0 = f00 * x0 + f01 * x1 + f02 * x2
            y1 = f11 * x1 + f12 * x2
            y2 = f22 * x2
            total = squares[s] + y0 * y0 + y1 * y1 + y2 * y2
            squares[s] = total if total < np.inf else np.inf


@inlined
def _raise_references(log_height, rate, squares, references, totals):
    """Make the exponents of a kernel the references where they are much higher."""
    if _largest_margin(log_height, rate, squares, references) > _RAISE:
        for s in range(WIDTH):
            exponent = log_height - rate * squares[s]
            if exponent > references[s]:
                totals[s] *= np.exp(references[s] - exponent)
                references[s] = exponent


@fused_inner
def _add_exponentials(log_height, rate, squares, references, totals):
    """Add a kernel to the sums."""
    for s in range(WIDTH):
        exponent = (log_height - rate * squares[s]) - references[s]
        totals[s] += exponential(exponent if exponent > LOWEST else LOWEST)


@kernel
def invert_triangles(matrices):
    """Replace lower triangles (n, M, M) by their inverses; the rest of the matrices is not read."""
    for i in range(matrices.shape[0]):
        invert_lower(matrices[i])
