"""Kernel densities of many small cells, each the samples of one forecast at one step.

A cell has the covariance of its samples and Scott's bandwidth, as scipy's ``gaussian_kde`` has.
What scipy does for a cell takes it a hundred microseconds, of which the sum of kernels is a
hundredth; here all cells are worked through in one call.
"""

import numpy as np

from .compile import inner, kernel

#: Kinds of cells: nothing wrong; all samples equal; a direction without spread; no more samples
#: than coordinates; no samples.
FINE, IDENTICAL, FLAT, FEW, EMPTY = 0, 1, 2, 3, 4

#: A standard deviation below this part of the coordinates themselves is nothing but rounding.
_ROUNDED_STD = 1e-13
#: So is the part of a variance that other coordinates do not explain, below this part of it.
_ROUNDED_SHARE = 1e-12

_HALF_LOG_2PI = 0.9189385332046727


@kernel
def log_step_densities(
    paths, lengths, truths, horizons, floors, points, factor, vectors, exponents, kinds, out
):
    """Write the log density of every truth at every step, and what is wrong with the cells.

    Parameters
    ----------
    paths : (C, K, T, D)
        The samples of every case.
    lengths : (C, K)
        The number of steps that every sample has; the values beyond are not looked at.
    truths : (C, L, T, D)
    horizons : (C, L)
        The number of steps that every truth has.
    floors : (C,)
        What is added, squared, to the variances of cells that have no density otherwise; NaN if
        they are to have none.
    points, factor, vectors, exponents : (K, D), (D, D), (4, D), (K,)
        Room to work in.
    kinds : (C, T)
        One of ``FINE``, ``IDENTICAL``, ``FLAT``, ``FEW`` and ``EMPTY``.
    out : (C, L, T)
        NaN where there is no density, or no truth.
    """
    for c in range(paths.shape[0]):
        for t in range(paths.shape[2]):
            n = _gather(paths, lengths, c, t, points, vectors)
            kinds[c, t] = _factor_cell(n, points, factor, vectors)
            has_density = kinds[c, t] == FINE
            if kinds[c, t] != FINE and kinds[c, t] != EMPTY and floors[c] > 0.0:
                _covariance(n, points, vectors, factor)
                _factor_with_floor(factor, floors[c] * floors[c])
                has_density = True
            if has_density:
                for k in range(n):
                    _whiten(points, k, factor)
            for m in range(truths.shape[1]):
                out[c, m, t] = np.nan
                if has_density and horizons[c, m] > t:
                    for d in range(factor.shape[0]):
                        vectors[3, d] = truths[c, m, t, d] - vectors[0, d]
                    _whiten(vectors, 3, factor)
                    out[c, m, t] = _log_density(n, points, factor, vectors, exponents)


@inner
def _gather(paths, lengths, c, t, points, vectors):
    """Write the samples of a cell, measured from the first of them; return how many there are.

    The first sample and the largest of all coordinates go into ``vectors``. Measured so, equal
    samples have no spread at all, however far they are from the origin.
    """
    n = 0
    for k in range(paths.shape[1]):
        if lengths[c, k] <= t:
            continue
        for d in range(paths.shape[3]):
            value = paths[c, k, t, d]
            if n == 0:
                vectors[0, d] = value
                vectors[1, d] = 0.0
            points[n, d] = value - vectors[0, d]
            vectors[1, d] = max(vectors[1, d], abs(value))
        n += 1
    return n


@inner
def _factor_cell(n, points, factor, vectors):
    """Return what is wrong with a cell; write the factor of its covariance if nothing is."""
    n_features = points.shape[1]
    if n == 0:
        return EMPTY
    if n <= n_features:
        return FEW
    _covariance(n, points, vectors, factor)
    n_constant = 0
    for d in range(n_features):
        if not factor[d, d] > (_ROUNDED_STD * vectors[1, d]) ** 2:
            n_constant += 1
    if n_constant > 0:
        return IDENTICAL if n_constant == n_features else FLAT
    return FINE if _factor(factor) else FLAT


@inner
def _covariance(n, points, vectors, out):
    """Write the lower triangle of the covariance, all zeros for a single sample."""
    n_features = points.shape[1]
    for d in range(n_features):
        total = 0.0
        for k in range(n):
            total += points[k, d]
        vectors[2, d] = total / n
    for d in range(n_features):
        for e in range(d + 1):
            total = 0.0
            for k in range(n):
                total += (points[k, d] - vectors[2, d]) * (points[k, e] - vectors[2, e])
            out[d, e] = total / max(n - 1, 1)


@inner
def _factor(S):
    """Replace a covariance by its Cholesky factor; return whether it is regular."""
    for j in range(S.shape[0]):
        pivot = _pivot(S, j)
        if not pivot > _ROUNDED_SHARE * S[j, j]:
            return False
        _finish_column(S, j, pivot)
    return True


@inner
def _factor_with_floor(S, floor):
    """Replace a covariance by the Cholesky factor of its sum with a multiple of the identity."""
    for j in range(S.shape[0]):
        # Beside large variances a small floor is lost in rounding.
        _finish_column(S, j, max(_pivot(S, j) + floor, floor))


@inner
def _pivot(S, j):
    """Return the part of a variance that the coordinates before do not explain."""
    pivot = S[j, j]
    for i in range(j):
        pivot -= S[j, i] * S[j, i]
    return pivot


@inner
def _finish_column(S, j, pivot):
    S[j, j] = np.sqrt(pivot)
    for i in range(j + 1, S.shape[0]):
        for m in range(j):
            S[i, j] -= S[i, m] * S[j, m]
        S[i, j] /= S[j, j]


@inner
def _whiten(points, k, factor):
    """Turn one of the points into coordinates in which the covariance is the identity."""
    for d in range(factor.shape[0]):
        for e in range(d):
            points[k, d] -= factor[d, e] * points[k, e]
        points[k, d] /= factor[d, d]


@inner
def _log_density(n, points, factor, vectors, exponents):
    """Return the log density of Scott's kernels on whitened samples at a whitened point."""
    n_features = factor.shape[0]
    bandwidth = n ** (-1.0 / (n_features + 4))
    largest = -np.inf
    for k in range(n):
        total = 0.0
        for d in range(n_features):
            total += (points[k, d] - vectors[3, d]) ** 2
        exponents[k] = -0.5 * total / (bandwidth * bandwidth)
        largest = max(largest, exponents[k])
    total = 0.0
    for k in range(n):
        total += np.exp(exponents[k] - largest)
    out = largest + np.log(total / n)
    for d in range(n_features):
        out -= np.log(factor[d, d] * bandwidth) + _HALF_LOG_2PI
    return out
