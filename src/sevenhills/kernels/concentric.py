"""Logarithms of sums of Gaussian kernels that have covariances of their own.

Kernels of one mean whose covariances are multiples of each other are a family: one squared distance
serves all of them. Points are in blocks of neighbors, so that families out of reach of a block are
left out. Every step runs along the points of a block, whose number is fixed, so that it vectorizes.
"""

import numpy as np

from .compile import comparing_inner, fused_inner, inner, kernel
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
def log_concentric_sums(
    columns, lower, upper, means, columns_of_means, precisions, factors, factor_of_family, starts,
    rates, log_heights, negligible, bounds, units, work, out,
):  # fmt: skip
    """Write ``log sum_k exp(log_heights_k - rates_k |R_f (x - m_f)|^2)`` for every point.

    columns : (n_blocks, M, WIDTH), the points
    lower, upper : (n_blocks, M), the box around every block
    means, columns_of_means : (F, M) and (M, F), one mean for every family f
    precisions : (M, F), one over the standard deviation of every feature, if the rate is 1/2
    factors : (n_factors, M (M + 1) / 2), upper triangles R, row by row
    factor_of_family : (F,)
    starts : (F + 1,), the first kernel of every family, and the number of kernels
    rates, log_heights : (K,)
    negligible : a kernel is left out where it cannot add exp(-negligible) of the sum
    bounds, units, work : (2, F), (M, WIDTH) and (6, WIDTH)
    out : (n_blocks, WIDTH)
    """
    n_families = means.shape[0]
    exponents, squares, references, totals, rows = work[0], work[1], work[2], work[3], work[4:]
    for b in range(columns.shape[0]):
        first = _bound_families(
            lower[b], upper[b], columns_of_means, precisions, starts, rates, log_heights, bounds
        )
        references[:] = _FLOOR
        totals[:] = 0.0
        cutoff = -np.inf
        for step in range(n_families + 1):
            f = step - 1 if step > 0 else first
            if bounds[0, f] < cutoff or (step > 0 and f == first):
                continue
            _write_squares(columns, b, means, f, factors, factor_of_family[f], units, rows, squares)
            for k in range(starts[f], starts[f + 1]):
                top = _write_exponents(log_heights[k], rates[k], squares, references, exponents)
                if top < -negligible:
                    continue
                if top > _RAISE:
                    _raise_references(
                        log_heights[k], rates[k], squares, exponents, references, totals
                    )
                    cutoff = _smallest(references) - negligible
                _add_exponentials(exponents, totals)
        for s in range(WIDTH):
            is_reached = references[s] > _FLOOR
            out[b, s] = references[s] + np.log(totals[s]) if is_reached else -np.inf


@inner
def _bound_families(lower, upper, means, precisions, starts, rates, log_heights, bounds):
    """Write an upper bound on the exponents of every family; return the highest one's family.

    The distance in units of a kernel is at least that along any one feature.
    """
    gaps = bounds[1]
    gaps[:] = 0.0
    for m in range(means.shape[0]):
        low, high = lower[m], upper[m]
        for f in range(means.shape[1]):
            gap = low - means[m, f]
            gap = gap if gap > means[m, f] - high else means[m, f] - high
            gap *= precisions[m, f]
            gaps[f] = gap if gap > gaps[f] else gaps[f]
    first = 0
    for f in range(means.shape[1]):
        bound = -np.inf
        for k in range(starts[f], starts[f + 1]):
            exponent = log_heights[k] - rates[k] * gaps[f] * gaps[f]
            bound = exponent if exponent > bound else bound
        bounds[0, f] = bound
        if bound > bounds[0, first]:
            first = f
    return first


@inner
def _write_squares(points, b, means, f, factors, g, units, rows, squares):
    """Write the squared lengths of differences from a mean that a triangle has transformed."""
    n_features = points.shape[1]
    squares[:] = 0.0
    start = 0
    first = 0
    if n_features > _LAST_ROWS:
        _write_differences(points, b, means, f, units)
    while n_features - first > _LAST_ROWS:
        _add_two_rows(factors, g, start, units, first, rows, squares)
        start += 2 * (n_features - first) - 1
        first += 2
    _add_last_rows(points, b, means, f, factors, g, start, first, squares)


@inner
def _write_differences(points, b, means, f, units):
    """Write the differences of points and a mean."""
    for m in range(points.shape[1]):
        mean = means[f, m]
        for s in range(WIDTH):
            units[m, s] = points[b, m, s] - mean


@fused_inner
def _add_two_rows(factors, g, start, units, first, rows, squares):
    """Add the squares of two rows of a triangle of at least four, from the entry ``start`` on.

    Two rows and four columns at a time keep sums and factors in registers.
    """
    n = units.shape[0] - first
    i = start
    j = start + n - 1  # the second row has no entry in the first column
    k = first
    a, b, c, d = factors[g, i], factors[g, i + 1], factors[g, i + 2], factors[g, i + 3]
    u, v, w = factors[g, j + 1], factors[g, j + 2], factors[g, j + 3]
    for s in range(WIDTH):
        q, r, t = units[k + 1, s], units[k + 2, s], units[k + 3, s]
        rows[0, s] = a * units[k, s] + b * q + c * r + d * t
        rows[1, s] = u * q + v * r + w * t
    m = 4
    while m < n:
        i, j, k = start + m, start + n - 1 + m, first + m
        if m + 4 <= n:
            a, b, c, d = factors[g, i], factors[g, i + 1], factors[g, i + 2], factors[g, i + 3]
            e, u, v, w = factors[g, j], factors[g, j + 1], factors[g, j + 2], factors[g, j + 3]
            for s in range(WIDTH):
                p, q, r, t = units[k, s], units[k + 1, s], units[k + 2, s], units[k + 3, s]
                rows[0, s] += a * p + b * q + c * r + d * t
                rows[1, s] += e * p + u * q + v * r + w * t
            m += 4
        else:
            a, e = factors[g, i], factors[g, j]
            for s in range(WIDTH):
                rows[0, s] += a * units[k, s]
                rows[1, s] += e * units[k, s]
            m += 1
    for s in range(WIDTH):
        squares[s] += rows[0, s] * rows[0, s] + rows[1, s] * rows[1, s]


@fused_inner
def _add_last_rows(points, b, means, f, factors, g, start, first, squares):
    """Add the squares of a triangle of at most three rows; what is not a number becomes infinite.

    Loops over all rows at once keep everything in registers; fewer rows would need more loops.
    """
    n = points.shape[1] - first
    if n == 1:
        f00 = factors[g, start]
        c0 = means[f, first]
        for s in range(WIDTH):
            x0 = points[b, first, s] - c0
            y0 = f00 * x0
            total = squares[s] + y0 * y0
            squares[s] = total if total < np.inf else np.inf
    elif n == 2:
        f00, f01 = factors[g, start], factors[g, start + 1]
        f11 = factors[g, start + 2]
        c0, c1 = means[f, first], means[f, first + 1]
        for s in range(WIDTH):
            x0 = points[b, first, s] - c0
            x1 = points[b, first + 1, s] - c1
            y0 = f00 * x0 + f01 * x1
            y1 = f11 * x1
            total = squares[s] + y0 * y0 + y1 * y1
            squares[s] = total if total < np.inf else np.inf
    else:
        f00, f01, f02 = factors[g, start], factors[g, start + 1], factors[g, start + 2]
        f11, f12 = factors[g, start + 3], factors[g, start + 4]
        f22 = factors[g, start + 5]
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


@comparing_inner
def _write_exponents(log_height, rate, squares, references, exponents):
    """Write the exponents of a kernel minus the references; return the largest."""
    largest = -np.inf
    for s in range(WIDTH):
        exponents[s] = (log_height - rate * squares[s]) - references[s]
        largest = exponents[s] if exponents[s] > largest else largest
    return largest


@inner
def _raise_references(log_height, rate, squares, exponents, references, totals):
    """Make the exponents of a kernel the references where they are higher."""
    for s in range(WIDTH):
        if exponents[s] > 0.0:
            reference = log_height - rate * squares[s]
            totals[s] *= np.exp(references[s] - reference)
            references[s] = reference
            exponents[s] = 0.0


@inner
def _add_exponentials(exponents, totals):
    """Add the exponentials of exponents."""
    for s in range(WIDTH):
        totals[s] += exponential(exponents[s] if exponents[s] > LOWEST else LOWEST)


@comparing_inner
def _smallest(values):
    """Return the smallest value."""
    smallest = values[0]
    for s in range(WIDTH):
        smallest = values[s] if values[s] < smallest else smallest
    return smallest


@kernel
def invert_triangles(matrices):
    """Replace lower triangles (n, M, M) by their inverses; the rest of the matrices is not read."""
    for i in range(matrices.shape[0]):
        invert_lower(matrices[i])
