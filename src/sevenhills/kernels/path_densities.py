"""Leave-one-out densities of whole paths, and distances of samples."""

import numpy as np

from .compile import inner, kernel, summing_inner


@kernel
def log_sums_of_others(Y, rows, groups, log_weights, own, log_own, exponents, out):
    """Write ``log sum_k exp(log_weights_k - |y_k - z_k|^2 / 2)`` for every point.

    Y : (G, Q, M), the points, in the whitened coordinates of every group
    rows, groups, log_weights : (K,), the point that is the mean of a kernel, and its group
    own, log_own : (Q,), the kernel whose mean is the point, and its log weight there; minus
        infinity leaves that kernel out
    exponents : (K,), workspace
    out : (Q,), minus infinity where no kernel is left
    """
    for i in range(Y.shape[1]):
        top = -np.inf
        for k in range(rows.shape[0]):
            if k == own[i]:
                exponents[k] = log_own[i]
            else:
                exponents[k] = log_weights[k] - 0.5 * _squared(Y, groups[k], i, rows[k])
            top = max(top, exponents[k])
        out[i] = top + _log_total(exponents, top) if top > -np.inf else top


@summing_inner
def _squared(Y, g, i, j):
    """Return the squared distance of two points in the coordinates of a group."""
    total = 0.0
    for m in range(Y.shape[2]):
        total += (Y[g, i, m] - Y[g, j, m]) ** 2
    return total


@inner
def _log_total(exponents, top):
    """Return the log of the sum of exponentials, relative to the largest exponent."""
    total = 0.0
    for k in range(exponents.shape[0]):
        total += np.exp(exponents[k] - top)
    return np.log(total)


@kernel
def pair_distances(X, weights, out):
    """Add up the distances of samples from the truth, and of pairs of samples.

    X, weights : (N, K + 1, M), (N, K), the samples and the truth after them; samples of weight 0
        are left out
    out : (N, 2, 2), zeros to which Euclidean and absolute distances are added: from the truth,
        times the weight, and of pairs, times both weights
    """
    for i in range(X.shape[0]):
        for j in range(weights.shape[1]):
            weight = weights[i, j]
            if weight == 0.0:
                continue
            out[i, 0, 0] += weight * np.sqrt(_squared(X, i, j, weights.shape[1]))
            out[i, 1, 0] += weight * _absolute(X, i, j, weights.shape[1])
            euclidean, absolute = 0.0, 0.0
            for k in range(j):
                euclidean += weights[i, k] * np.sqrt(_squared(X, i, j, k))
                absolute += weights[i, k] * _absolute(X, i, j, k)
            out[i, 0, 1] += weight * euclidean
            out[i, 1, 1] += weight * absolute


@summing_inner
def _absolute(X, i, j, k):
    """Return the absolute distance of two samples."""
    total = 0.0
    for m in range(X.shape[2]):
        total += abs(X[i, j, m] - X[i, k, m])
    return total
