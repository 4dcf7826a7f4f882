"""Logarithms of sums of Gaussian kernels at many points.

Points are in blocks of neighbors, kernels in tiles of neighbors, so that the boxes around both
bound exponents. The tiles of the highest bounds are added first; tiles that are negligible beside
them are left out. Exponents are relative to one that was found at the point, so that no sum
underflows.

The exponential is written by hand, because the one of the C library does not vectorize.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from .blocks import squared_distances
from .compile import comparing_inner, fused_inner, inlined, inner, kernel, summing_inner

#: Exponents are cut off here, where the exponential is still a normal number.
LOWEST = -708.0
#: Exponents up to this do not overflow, even in a sum of many.
HIGHEST = 600.0
#: Smaller sums may have lost terms to the cut.
TOO_SMALL = 1e-280
#: A tile whose kernels cannot add more than exp(-NEGLIGIBLE) of the sum is lost in rounding.
NEGLIGIBLE = 44.0
#: Neighboring points for which tiles are added in one order; an even number.
BLOCK = 64
#: A sum is relative to an exponent that no other exceeds by more than this. The exponential of
#: large numbers has a larger relative error.
_CLOSE = 32.0

_LOG2_E = 1.4426950408889634
_LN2 = 0.6931471805599453
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
#: Adding this leaves the rounded number in the last bits.
_SHIFTER = 6755399441055744.0


@kernel
def log_kernel_sums(
    Y, groups, tiles, lower, upper, log_weights, tops, negligible, bounds, orders, near, highs,
    squares, sums,
):  # fmt: skip
    """Add kernels to the sums of ``exp(log_weights_k - |y - z_k|^2 / 2)`` at every point.

    Y : (G, Q, M), the points in the coordinates of every group, none of them NaN
    groups : (n_tiles,), the group of every tile
    tiles : (n_tiles, M, S), the means of the kernels in the coordinates of their group
    lower, upper : (n_tiles, M), the box around every tile
    log_weights : (n_tiles, S), minus infinity where a tile is not full
    tops : (n_tiles,), the largest log weight of every tile
    negligible : a tile is left out if no kernel of it can add exp(-negligible) of the sum
    bounds, orders : (n_tiles, n_blocks), upper bounds on the exponents of every tile for blocks of
        ``BLOCK`` points, and the tiles by descending bounds
    near, highs, squares : (BLOCK,), of integers, (BLOCK,) and (4, S), workspaces
    sums : (3, Q), an exponent, the sum relative to it, and a cutoff, which begin as minus infinity,
        zero and minus infinity; changed
    """
    for b in range(bounds.shape[1]):
        first = b * BLOCK
        end = min(Y.shape[1], first + BLOCK)
        for k in range(orders.shape[0]):
            t = orders[k, b]
            floor = np.inf
            for i in range(first, end):
                floor = sums[2, i] if sums[2, i] < floor else floor
            if not bounds[t, b] > floor:
                break
            n_near = 0
            for i in range(first, end):
                near[n_near] = i
                highs[n_near] = _bound(Y, groups[t], i, lower, upper, tops, t)
                n_near += highs[n_near] > sums[2, i]
            for n in range(0, n_near, 4):
                last = min(n + 3, n_near - 1)
                _squares_of_four(Y, groups[t], near, n, last, tiles, t, squares)
                for m in range(n, last + 1):
                    _add_tile(near[m], highs[m], squares[m - n], log_weights[t], negligible, sums)


@kernel
def log_sums_of_few(Y, groups, tiles, log_weights, squares, out):
    """Write the logarithms of the sums of :func:`log_kernel_sums`, without leaving out tiles.

    Y : (G, Q, M), the points in the coordinates of every group
    squares : (n_tiles, S), workspace
    out : (Q,)
    """
    for i in range(Y.shape[1]):
        top = -np.inf
        for t in range(tiles.shape[0]):
            squared_distances(Y[groups[t]], i, tiles, t, squares[t])
            for s in range(squares.shape[1]):
                value = log_weights[t, s] - 0.5 * squares[t, s]
                top = value if value > top else top
        out[i] = top
        if top > -np.inf:
            total = 0.0
            for t in range(tiles.shape[0]):
                total += sum_of_tile(squares[t], log_weights[t], top)
            out[i] += np.log(total)


@comparing_inner
def _bound(Y, g, i, lower, upper, tops, t):
    """Return an upper bound on the exponents of a tile at a point."""
    total = 0.0
    for m in range(lower.shape[1]):
        y = Y[g, i, m]
        gap = lower[t, m] - y
        gap = gap if gap > y - upper[t, m] else y - upper[t, m]
        gap = gap if gap > 0.0 else 0.0
        total += gap * gap
    return tops[t] - 0.5 * total


@fused_inner
def _squares_of_four(Y, g, near, n, last, tiles, t, out):
    """Write the squared distances from up to four points to the kernels of a tile into ``out``.

    Two features of four points at a time, so that every kernel is loaded once for them.
    """
    p, q, r, u = near[n], near[min(n + 1, last)], near[min(n + 2, last)], near[last]
    for j in range(4):
        for s in range(out.shape[1]):
            out[j, s] = 0.0
    for m in range(0, tiles.shape[1], 2):
        # An odd number of features has the last one twice, once with all coordinates zero. The
        # weight keeps two features equal to the bit to those of :func:`squared_distances`.
        k = min(m + 1, tiles.shape[1] - 1)
        w = float(k - m)
        a, b, c, d = Y[g, p, m], Y[g, q, m], Y[g, r, m], Y[g, u, m]
        e, f, h, v = w * Y[g, p, k], w * Y[g, q, k], w * Y[g, r, k], w * Y[g, u, k]
        for s in range(out.shape[1]):
            y, z = tiles[t, m, s], w * tiles[t, k, s]
            out[0, s] = (out[0, s] + (a - y) * (a - y)) + w * ((e - z) * (e - z))
            out[1, s] = (out[1, s] + (b - y) * (b - y)) + w * ((f - z) * (f - z))
            out[2, s] = (out[2, s] + (c - y) * (c - y)) + w * ((h - z) * (h - z))
            out[3, s] = (out[3, s] + (d - y) * (d - y)) + w * ((v - z) * (v - z))


@inlined
def _add_tile(p, bound, squares, log_weights, negligible, sums):
    """Add the kernels of a tile to the sum at a point."""
    if bound - sums[0, p] > _CLOSE:
        top = _highest(squares, log_weights)
        if top > sums[0, p]:
            sums[1, p] *= np.exp(sums[0, p] - top) if sums[1, p] > 0.0 else 0.0
            sums[0, p] = top
    if sums[0, p] > -np.inf:
        sums[1, p] += sum_of_tile(squares, log_weights, sums[0, p])
        if bound > sums[2, p] + negligible:  # the sum may have doubled
            cutoff = sums[0, p] + np.log(sums[1, p]) - negligible
            sums[2, p] = cutoff if cutoff > sums[2, p] else sums[2, p]


@comparing_inner
def _highest(squares, log_weights):
    """Return the largest exponent of the kernels of a tile."""
    top = -np.inf
    for s in range(squares.shape[0]):
        value = log_weights[s] - 0.5 * squares[s]
        top = value if value > top else top
    return top


@summing_inner
def sum_of_tile(squares, log_weights, reference):
    """Return the sum of the exponentials of a tile's exponents minus the reference."""
    total = 0.0
    for s in range(squares.shape[0]):
        value = (log_weights[s] - 0.5 * squares[s]) - reference
        total += exponential(value if value > LOWEST else LOWEST)
    return total


@inner
def bound_tiles(Y, i, groups, lower, upper, tops, bounds):
    """Write an upper bound on the exponents of every tile; return the tile of the highest."""
    first = 0
    for t in range(tops.shape[0]):
        bounds[t] = _bound(Y, groups[t], i, lower, upper, tops, t)
        if bounds[t] > bounds[first]:
            first = t
    return first


@fused_inner
def split_power(work):
    """Write ``exp(work[0])`` as ``work[2]`` times two to the last bits of ``work[1]``."""
    for s in range(work.shape[1]):
        shifted = work[0, s] * _LOG2_E + _SHIFTER
        n = shifted - _SHIFTER
        r = (work[0, s] - n * _LN2_HIGH) - n * _LN2_LOW
        p = 1.6059043836821613e-10 * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        work[1, s] = shifted
        work[2, s] = p * r + 1.0


@summing_inner
def total_of(work):
    """Return the sum of ``work[2]``, added in the fastest order."""
    total = 0.0
    for s in range(work.shape[1]):
        total += work[2, s]
    return total


@kernel
def log_own_kernel_sums(X, means, factors, log_weights, units, work, bits, sums):
    """Add the kernels, each with a covariance of its own, to the sums at every point.

    X : (Q, M), the points
    means : (n_tiles, M, S)
    factors : (n_tiles, M (M + 1) / 2, S), the upper triangles, row by row, of the maps from kernels
        to unit Gaussians
    log_weights : (n_tiles, S), minus infinity where a tile is not full
    units, work, bits : (M, S), (3, S) and (3, S), the last two the same memory
    sums : (2, Q), the largest exponent so far, and the sum relative to it; changed
    """
    size = means.shape[2]
    for t in range(means.shape[0]):
        for i in range(X.shape[0]):
            top = own_exponents(X, i, means, factors, log_weights, t, units, work)
            if not top > sums[0, i] - NEGLIGIBLE:
                continue
            if top > sums[0, i]:
                sums[1, i] *= np.exp(sums[0, i] - top)
                sums[0, i] = top
            for s in range(size):
                value = work[0, s] - sums[0, i]
                work[0, s] = value if value > LOWEST else LOWEST
            split_power(work)
            for s in range(size):
                bits[2, s] += bits[1, s] << 52
            sums[1, i] += total_of(work)


@inner
def own_exponents(X, i, means, factors, log_weights, t, units, work):
    """Write the exponents of a tile into ``work[0]`` and its coordinates; return the largest."""
    _own_units(X, i, means, factors, t, units, work)
    for s in range(work.shape[1]):
        value = log_weights[t, s] - 0.5 * work[0, s]
        work[0, s] = value if value > -np.inf else -np.inf
    return _largest(work)


@fused_inner
def _own_units(X, i, means, factors, t, units, work):
    """Write the transformed differences of a tile (M, S), and squared lengths into ``work[0]``."""
    n_features = X.shape[1]
    size = work.shape[1]
    for m in range(n_features):
        for s in range(size):
            units[m, s] = X[i, m] - means[t, m, s]
    for s in range(size):
        work[0, s] = 0.0
    k = 0
    # A row of the triangle needs no difference of an earlier feature.
    for j in range(n_features):
        for s in range(size):
            units[j, s] = factors[t, k, s] * units[j, s]
        k += 1
        m = j + 1
        while m + 4 <= n_features:
            for s in range(size):
                total = units[j, s] + factors[t, k, s] * units[m, s]
                total += factors[t, k + 1, s] * units[m + 1, s]
                total += factors[t, k + 2, s] * units[m + 2, s]
                units[j, s] = total + factors[t, k + 3, s] * units[m + 3, s]
            k += 4
            m += 4
        while m < n_features:
            for s in range(size):
                units[j, s] += factors[t, k, s] * units[m, s]
            k += 1
            m += 1
        for s in range(size):
            work[0, s] += units[j, s] * units[j, s]


@comparing_inner
def _largest(work):
    """Return the largest of ``work[0]``."""
    largest = work[0, 0]
    for s in range(work.shape[1]):
        largest = work[0, s] if work[0, s] > largest else largest
    return largest


# Exponents from a product of matrices


@kernel
def add_exponentials(products, halves, shifts, bounds, negligible, sums):
    """Add ``exp(products + shifts - halves)`` of a block of kernels to the sums at every point.

    products : (Q, S), the inner products of points and kernels
    halves, shifts : (Q,), (S,), half the squared lengths of points, and constants of the kernels
    bounds : (Q,), upper bounds of the exponents
    negligible : smaller exponents, relative to the largest, are left out
    sums : (2, Q), an exponent, and the sum relative to it; changed
    """
    for i in range(products.shape[0]):
        if bounds[i] < sums[0, i] - negligible:
            continue
        if bounds[i] - sums[0, i] > HIGHEST:
            top = _top_product(products, i, shifts, halves[i])
            if sums[1, i] == 0.0 or top - sums[0, i] > HIGHEST:
                sums[1, i] *= np.exp(sums[0, i] - top) if sums[1, i] > 0.0 else 0.0
                sums[0, i] = top
            if top == -np.inf:
                continue
        sums[1, i] += _sum_exponentials(products, i, shifts, halves[i] + sums[0, i])


@inner
def _top_product(products, i, shifts, half):
    """Return the largest exponent of a block of kernels."""
    top = -np.inf
    for s in range(products.shape[1]):
        value = products[i, s] + shifts[s] - half
        top = value if value > top else top
    return top


@summing_inner
def _sum_exponentials(products, i, shifts, less):
    """Return the sum of the exponentials of a block's exponents minus a number."""
    total = 0.0
    for s in range(products.shape[1]):
        value = products[i, s] + shifts[s] - less
        total += exponential(value if value > LOWEST else LOWEST)
    return total


@fused_inner
def exponential(x):
    """Return ``exp(x)`` with a relative error of 2e-14, by products that are independent."""
    shifted = x * _LOG2_E + _SHIFTER
    r = x - (shifted - _SHIFTER) * _LN2
    r2 = r * r
    r4 = r2 * r2
    p01 = 1.0 + r
    p23 = 0.16666666666666666 * r + 0.5
    p45 = 0.008333333333333333 * r + 0.041666666666666664
    p67 = 0.0001984126984126984 * r + 0.001388888888888889
    p89 = 2.7557319223985893e-06 * r + 2.48015873015873e-05
    pab = 2.505210838544172e-08 * r + 2.755731922398589e-07
    p = (p23 * r2 + p01) + r4 * ((p67 * r2 + p45) + r4 * (pab * r2 + p89))
    return _times_power(p, shifted)


@intrinsic
def _times_power(_context: Any, factor: Any, shifted: Any) -> Any:
    """Return a factor times two to the last bits of another number."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole, real = (context.get_value_type(each) for each in (types.int64, types.float64))
        number, power = (builder.bitcast(value, whole) for value in values)
        power = builder.shl(power, context.get_constant(types.int64, 52))
        return builder.bitcast(builder.add(number, power), real)

    return types.float64(types.float64, types.float64), generate
