"""Weighted sums over Gaussian kernels for gradients and Hessians.

Beside the sum of all kernels at a point, these loops add up first and second moments of the
distances to them. Tiles, bounds and the exponential are those of the plain sums.
"""

import numpy as np

from .blocks import squared_distances
from .compile import fused_inner, inner, kernel, summing_inner
from .mixture import LOWEST, NEGLIGIBLE, bound_tiles, own_exponents, split_power


@kernel
def shared_kernel_moments(
    Y, origins, groups, tiles, lower, upper, log_weights, tops, slacks, bounds, work, bits,
    differences, references, firsts, seconds,
):  # fmt: skip
    """Sum kernels that share covariances, and their moments about ``origins``, by groups.

    A kernel ``z`` has the share ``a = exp(log_weight - |y - z|^2 / 2 - reference)``. Arrays that
    are not listed are those of :func:`~sevenhills.kernels.mixture.log_kernel_sums`.

    origins : (G, Q, M), the points from which moments are measured, in coordinates of the groups
    slacks : (G,), added to the exponents of a group before they are compared with the cutoff
    differences : (M, S), workspace
    references : (Q,), the logs of the references of sums; NaN is replaced by a bound
    firsts : (Q, G, 1 + M), zeros, to which the sums of ``a`` and ``a (origin - z)`` are added
    seconds : (Q, G, M (M + 1) / 2), zeros, to which the upper triangles of
        ``a (origin - z) (origin - z)'`` are added; or (0, 0, 0)
    """
    for i in range(Y.shape[1]):
        first = bound_tiles(Y, i, groups, lower, upper, tops, bounds)
        cutoff = references[i] - NEGLIGIBLE
        if np.isnan(references[i]):
            references[i] = bounds[first]
            cutoff = -np.inf
        for step in range(tiles.shape[0] + 1):
            t = step - 1 if step > 0 else first
            g = groups[t]
            if bounds[t] + slacks[g] < cutoff or (step > 0 and t == first):
                continue
            squared_distances(Y[g], i, tiles, t, work[0])
            for s in range(work.shape[1]):
                work[0, s] = log_weights[t, s] - 0.5 * work[0, s] - references[i]
            _exponentials(work, bits)
            _add_firsts(work, origins, g, i, tiles, t, firsts)
            if seconds.shape[0] > 0:
                _differences(origins, g, i, tiles, t, differences)
                _add_seconds(work, differences, i, g, seconds)
            if step == 0:
                cutoff = max(cutoff, references[i] + np.log(firsts[i, g, 0]) - NEGLIGIBLE)


@inner
def _exponentials(work, bits):
    """Write ``exp(work[0])`` into ``work[2]``, zero where it is subnormal."""
    size = work.shape[1]
    for s in range(size):
        work[0, s] = work[0, s] if work[0, s] > LOWEST else LOWEST
    split_power(work)
    for s in range(size):
        bits[2, s] += bits[1, s] << 52
    for s in range(size):
        work[2, s] = work[2, s] if work[0, s] > LOWEST else 0.0


@summing_inner
def _add_firsts(work, origins, g, i, tiles, t, firsts):
    """Add the shares in a tile, and the differences from the origin times them."""
    n_features, size = tiles.shape[1], tiles.shape[2]
    total = 0.0
    for s in range(size):
        total += work[2, s]
    firsts[i, g, 0] += total
    m = 0
    while m + 2 <= n_features:
        p, q = origins[g, i, m], origins[g, i, m + 1]
        along_p, along_q = 0.0, 0.0
        for s in range(size):
            along_p += work[2, s] * (p - tiles[t, m, s])
            along_q += work[2, s] * (q - tiles[t, m + 1, s])
        firsts[i, g, 1 + m] += along_p
        firsts[i, g, 2 + m] += along_q
        m += 2
    if m < n_features:
        p = origins[g, i, m]
        total = 0.0
        for s in range(size):
            total += work[2, s] * (p - tiles[t, m, s])
        firsts[i, g, 1 + m] += total


@inner
def _differences(origins, g, i, tiles, t, out):
    """Write the differences from the origin to the kernels of a tile."""
    for m in range(out.shape[0]):
        p = origins[g, i, m]
        for s in range(out.shape[1]):
            out[m, s] = p - tiles[t, m, s]


@summing_inner
def _add_seconds(work, differences, i, g, seconds):
    """Add the products of all pairs of differences, times the shares."""
    n_features, size = differences.shape
    k = 0
    for j in range(n_features):
        for s in range(size):
            work[0, s] = work[2, s] * differences[j, s]
        for m in range(j, n_features):
            total = 0.0
            for s in range(size):
                total += work[0, s] * differences[m, s]
            seconds[i, g, k] += total
            k += 1


@kernel
def own_kernel_moments(
    X, shifts, means, factors, precisions, log_weights, slacks, units, slopes, work, bits,
    references, firsts, seconds,
):  # fmt: skip
    """Sum kernels with covariances of their own, and the moments of their slopes.

    A kernel has the share ``a = exp(log_weight - |U (x - z)|^2 / 2 - reference)`` and the slope
    ``v = -U' U (x - z) - shift``. Arrays that are not listed are those of
    :func:`~sevenhills.kernels.mixture.log_own_kernel_sums`.

    shifts : (Q, M), subtracted from the slopes
    precisions : (n_tiles, M (M + 1) / 2, S), the upper triangles of ``U' U``; or (0, 0, 0)
    slacks : (n_tiles,), added to the exponents of a tile before they are compared with the cutoff
    slopes : (M, S), workspace
    references : (Q,), the logs of the references of sums; raised to the largest exponent
    firsts : (Q, 1 + M), zeros, to which the sums of ``a`` and ``a v`` are added
    seconds : (2, Q, M (M + 1) / 2), zeros, to which the upper triangles of ``a v v'`` and
        ``a U' U`` are added; or (0, 0, 0)
    """
    for t in range(means.shape[0]):
        for i in range(X.shape[0]):
            top = own_exponents(X, i, means, factors, log_weights, t, units, work)
            if not top > references[i] - NEGLIGIBLE - slacks[t]:
                continue
            if top > references[i]:
                _relate(firsts, seconds, i, np.exp(references[i] - top))
                references[i] = top
            for s in range(work.shape[1]):
                work[0, s] -= references[i]
            _exponentials(work, bits)
            _own_slopes(factors, t, units, shifts, i, slopes)
            _add_own_firsts(work, slopes, i, firsts)
            if seconds.shape[0] > 0:
                _add_own_seconds(work, slopes, precisions, t, i, seconds)


@inner
def _relate(firsts, seconds, i, factor):
    """Make the sums at a point relative to a larger reference."""
    for m in range(firsts.shape[1]):
        firsts[i, m] *= factor
    for which in range(seconds.shape[0]):
        for k in range(seconds.shape[2]):
            seconds[which, i, k] *= factor


@fused_inner
def _own_slopes(factors, t, units, shifts, i, slopes):
    """Write the gradient of every kernel's logarithm, minus the shift of the point."""
    n_features, size = units.shape
    for m in range(n_features):
        shift = shifts[i, m]
        for s in range(size):
            slopes[m, s] = -shift
        k = m
        step = n_features - 1
        for j in range(m + 1):
            for s in range(size):
                slopes[m, s] -= factors[t, k, s] * units[j, s]
            k += step
            step -= 1


@summing_inner
def _add_own_firsts(work, slopes, i, firsts):
    """Add the shares in a tile, and the slopes times them."""
    n_features, size = slopes.shape
    total = 0.0
    for s in range(size):
        total += work[2, s]
    firsts[i, 0] += total
    for m in range(n_features):
        total = 0.0
        for s in range(size):
            total += work[2, s] * slopes[m, s]
        firsts[i, 1 + m] += total


@summing_inner
def _add_own_seconds(work, slopes, precisions, t, i, seconds):
    """Add the products of all pairs of slopes, and the precisions, times the shares."""
    n_features, size = slopes.shape
    k = 0
    for j in range(n_features):
        for s in range(size):
            work[0, s] = work[2, s] * slopes[j, s]
        for m in range(j, n_features):
            product, precision = 0.0, 0.0
            for s in range(size):
                product += work[0, s] * slopes[m, s]
                precision += work[2, s] * precisions[t, k, s]
            seconds[0, i, k] += product
            seconds[1, i, k] += precision
            k += 1
