"""Gaussian kernels conditional on some of their features.

Calling LAPACK for every one of thousands of small matrices, as in manifold Parzen windows, costs
more than factoring them here. All inner loops run along rows.
"""

import numpy as np

from .compile import fused_inner, inner, kernel, summing_inner


@kernel
def factor_transforms(transforms, features, n_free, order, work, out):
    """Write the triangle ``L`` of ``T = L Q`` of every group, its features in another order.

    transforms : (G, M, M)
    features : (M,), the order of the features: ``n_free`` free ones, then the given ones
    order, work : (M,), workspace of integers and of floats
    out : (G, M, M), zero above the diagonal; the block of given rows and free columns is
        ``-L21 L11^-1`` in place of ``L21``
    """
    n_features = features.shape[0]
    for g in range(transforms.shape[0]):
        _order_columns(transforms, g, order, work)
        for i in range(n_features):
            for j in range(n_features):
                out[g, i, j] = transforms[g, features[i], order[j]]
        for i in range(n_features - 1):
            _reflect(out, g, i, work)
        for i in range(n_free, n_features):
            _solve_slopes(out, g, i, n_free)


@inner
def _order_columns(transforms, g, order, sizes):
    """Order columns by size, largest first, so that small columns keep their digits."""
    n = order.shape[0]
    for j in range(n):
        sizes[j] = 0.0
    for i in range(n):
        for j in range(n):
            size = abs(transforms[g, i, j])
            sizes[j] = size if size > sizes[j] else sizes[j]
    for j in range(n):
        i = j
        while i > 0 and sizes[order[i - 1]] < sizes[j]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = j


@inner
def _reflect(A, g, i, mirror):
    """Reflect the columns from ``i`` on so that row ``i`` is zero beyond column ``i``."""
    n = A.shape[1]
    largest = 0.0
    for c in range(i, n):
        largest = max(largest, abs(A[g, i, c]))
    if largest == 0.0:
        return
    for c in range(i, n):
        # Scaled so that squares neither overflow nor underflow.
        mirror[c] = A[g, i, c] / largest
    length = np.sqrt(_squared(mirror, i))
    end = -length if mirror[i] > 0.0 else length
    mirror[i] -= end
    half = -end * mirror[i]
    for r in range(i + 1, n):
        _add(A, g, r, mirror, i, -_dot(A, g, r, mirror, i) / half)
    A[g, i, i] = end * largest
    for c in range(i + 1, n):
        A[g, i, c] = 0.0


@summing_inner
def _squared(values, start):
    total = 0.0
    for c in range(start, values.shape[0]):
        total += values[c] * values[c]
    return total


@summing_inner
def _dot(A, g, r, values, start):
    total = 0.0
    for c in range(start, values.shape[0]):
        total += A[g, r, c] * values[c]
    return total


@fused_inner
def _add(A, g, r, values, start, factor):
    for c in range(start, values.shape[0]):
        A[g, r, c] += factor * values[c]


@fused_inner
def _solve_slopes(L, g, i, n_free):
    """Replace a row of ``L21`` by that of ``-L21 L11^-1``, the last column first."""
    for j in range(n_free - 1, -1, -1):
        slope = L[g, i, j] / L[g, j, j]
        L[g, i, j] = -slope
        for c in range(j):
            L[g, i, c] -= slope * L[g, j, c]


@kernel
def kernels_at_given(values, means, features, offsets, factors, work, squares, moved):
    """Write squared distances to given values, and conditional means of the free features.

    values : (n_given,)
    means, offsets : (K, M), (G + 1,)
    features, factors : (M,), (G, M, M), of :func:`factor_transforms`
    work : (M + 1, S), workspace for blocks of S kernels
    squares : (K,), the squared distances, in units of the kernels
    moved : (K, n_free), the conditional means
    """
    n_free = moved.shape[1]
    n_features = features.shape[0]
    for g in range(offsets.shape[0] - 1):
        for start in range(offsets[g], offsets[g + 1], work.shape[1]):
            size = min(work.shape[1], offsets[g + 1] - start)
            for j in range(n_features):
                for s in range(size):
                    work[j, s] = 0.0
            for i in range(n_free, n_features):
                for s in range(size):
                    work[n_features, s] = values[i - n_free] - means[start + s, features[i]]
                for j in range(i + 1):
                    _add_multiple(work, j, n_features, factors[g, i, j], size)
            for s in range(size):
                squares[start + s] = 0.0
            for j in range(n_free, n_features):
                for s in range(size):
                    squares[start + s] += work[j, s] * work[j, s]
            for s in range(size):
                for j in range(n_free):
                    moved[start + s, j] = means[start + s, features[j]] + work[j, s]


@fused_inner
def _add_multiple(work, to, of, factor, size):
    for s in range(size):
        work[to, s] += factor * work[of, s]
