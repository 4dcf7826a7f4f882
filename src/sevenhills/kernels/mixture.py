"""Logarithms of sums of Gaussian kernels at many points.

The kernels are in tiles of neighbors, so that a tile's box bounds the exponents in it. The tile
of the highest bound is summed first; tiles that cannot matter beside it are left out. Exponents
are taken relative to the highest bound; a point so far from all kernels that nothing is left is
for the careful sum, which is relative to the largest exponent.

The exponential is written by hand, because the one of the C library does not vectorise.
"""

import numpy as np

from .compile import comparing_inner, fused_inner, inner, kernel, summing_inner
from .distances import squared_distances

#: Exponents are cut off here, where the exponential is still a normal number.
_LOWEST = -708.0
#: Smaller sums may have lost terms to the cut.
_TOO_SMALL = 1e-280
#: A tile whose kernels cannot add more than exp(-NEGLIGIBLE) of the sum is lost in rounding.
NEGLIGIBLE = 44.0

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
#: Adding this leaves the rounded number in the last bits.
_SHIFTER = 6755399441055744.0


@kernel
def log_kernel_sums(
    Y, groups, tiles, lower, upper, log_weights, tops, negligible, bounds, work, bits, out
):
    """Write ``log sum_k exp(log_weights_k - |y_k - z_k|^2 / 2)`` for every point.

    Parameters
    ----------
    Y : (G, Q, M)
        The points, in the coordinates of every group.
    groups : (n_tiles,)
        The group to which a tile belongs.
    tiles : (n_tiles, M, S)
        The means of the kernels, in the coordinates of their group.
    lower, upper : (n_tiles, M)
        The box around every tile.
    log_weights : (n_tiles, S)
        Minus infinity where a tile is not full.
    tops : (n_tiles,)
        The largest log weight of every tile.
    negligible : float
        A tile is left out if none of its kernels can add more than exp(-negligible) of the sum.
    bounds, work : (n_tiles,), (3, S)
        Workspace.
    bits : (3, S)
        The same memory as ``work``, seen as integers.
    out : (Q,)
        Not a number where the sum is too small; those points are for the careful sum.
    """
    n_tiles = tiles.shape[0]
    size = tiles.shape[2]
    exponents = work[0]
    for i in range(Y.shape[1]):
        first = _bound_tiles(Y, i, groups, lower, upper, tops, bounds)
        reference = bounds[first]
        total = 0.0
        cutoff = -np.inf
        for step in range(n_tiles + 1):
            t = step - 1 if step > 0 else first
            if bounds[t] < cutoff or (step > 0 and t == first):
                continue
            squared_distances(Y[groups[t]], i, tiles, t, exponents)
            for s in range(size):
                value = log_weights[t, s] - 0.5 * exponents[s] - reference
                exponents[s] = value if value > _LOWEST else _LOWEST
            _split_power(work)
            for s in range(size):
                bits[2, s] += bits[1, s] << 52
            total += _total(work)
            if step == 0:
                cutoff = reference + np.log(total) - negligible
        out[i] = reference + np.log(total) if total > _TOO_SMALL else np.nan


@inner
def _bound_tiles(Y, i, groups, lower, upper, tops, bounds):
    """Write an upper bound on the exponents of every tile; return the tile of the highest."""
    first = 0
    for t in range(tops.shape[0]):
        total = 0.0
        for m in range(lower.shape[1]):
            y = Y[groups[t], i, m]
            gap = lower[t, m] - y
            gap = gap if gap > y - upper[t, m] else y - upper[t, m]
            gap = gap if gap > 0.0 else 0.0
            total += gap * gap
        bounds[t] = tops[t] - 0.5 * total
        if bounds[t] > bounds[first]:
            first = t
    return first


@fused_inner
def _split_power(work):
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
def _total(work):
    """Return the sum of ``work[2]``, added in the fastest order."""
    total = 0.0
    for s in range(work.shape[1]):
        total += work[2, s]
    return total


@kernel
def careful_log_kernel_sums(Y, groups, tiles, log_weights, squares, out):
    """Write the log sums, however small, relative to the largest exponent so far."""
    for i in range(Y.shape[1]):
        largest, total = -np.inf, 0.0
        for t in range(tiles.shape[0]):
            squared_distances(Y[groups[t]], i, tiles, t, squares)
            for s in range(squares.shape[0]):
                exponent = log_weights[t, s] - 0.5 * squares[s]
                if exponent > largest:
                    total = total * np.exp(largest - exponent) + 1.0
                    largest = exponent
                elif exponent > -np.inf:
                    total += np.exp(exponent - largest)
        out[i] = largest + np.log(total) if total > 0.0 else -np.inf


@kernel
def log_own_kernel_sums(X, means, factors, log_weights, differences, work, bits, sums):
    """Add the kernels, each with a covariance of its own, to the sums at every point.

    Parameters
    ----------
    X : (Q, M)
        The points.
    means : (n_tiles, M, S)
        The means of the kernels.
    factors : (n_tiles, M (M + 1) / 2, S)
        The upper triangles, row by row, of the maps from kernels to unit Gaussians.
    log_weights : (n_tiles, S)
        Minus infinity where a tile is not full.
    differences, work : (M, S), (4, S)
        Workspace.
    bits : (4, S)
        The same memory as ``work``, seen as integers.
    sums : (2, Q)
        The largest exponent met so far, and the sum relative to it; changed.
    """
    size = means.shape[2]
    for t in range(means.shape[0]):
        for i in range(X.shape[0]):
            _own_squares(X, i, means, factors, t, differences, work)
            for s in range(size):
                value = log_weights[t, s] - 0.5 * work[0, s]
                work[0, s] = value if value > -np.inf else -np.inf
            top = _largest(work)
            if not top > sums[0, i] - NEGLIGIBLE:
                continue
            if top > sums[0, i]:
                sums[1, i] *= np.exp(sums[0, i] - top)
                sums[0, i] = top
            for s in range(size):
                value = work[0, s] - sums[0, i]
                work[0, s] = value if value > _LOWEST else _LOWEST
            _split_power(work)
            for s in range(size):
                bits[2, s] += bits[1, s] << 52
            sums[1, i] += _total(work)


@fused_inner
def _own_squares(X, i, means, factors, t, differences, work):
    """Write the squared lengths of the transformed differences into ``work[0]``."""
    n_features = X.shape[1]
    size = work.shape[1]
    for m in range(n_features):
        for s in range(size):
            differences[m, s] = X[i, m] - means[t, m, s]
    for s in range(size):
        work[0, s] = 0.0
    k = 0
    for j in range(n_features):
        for s in range(size):
            work[3, s] = factors[t, k, s] * differences[j, s]
        k += 1
        m = j + 1
        while m + 4 <= n_features:
            for s in range(size):
                total = work[3, s] + factors[t, k, s] * differences[m, s]
                total += factors[t, k + 1, s] * differences[m + 1, s]
                total += factors[t, k + 2, s] * differences[m + 2, s]
                work[3, s] = total + factors[t, k + 3, s] * differences[m + 3, s]
            k += 4
            m += 4
        while m < n_features:
            for s in range(size):
                work[3, s] += factors[t, k, s] * differences[m, s]
            k += 1
            m += 1
        for s in range(size):
            work[0, s] += work[3, s] * work[3, s]


@comparing_inner
def _largest(work):
    """Return the largest of ``work[0]``."""
    largest = work[0, 0]
    for s in range(work.shape[1]):
        largest = work[0, s] if work[0, s] > largest else largest
    return largest
