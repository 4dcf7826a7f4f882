"""Leave-one-out sums of Gaussian kernels at their own means."""

import numpy as np

from .compile import inner, kernel, summing_inner


@kernel
def log_sums_of_others(Y, rows, groups, log_weights, own, log_own, exponents, out):
    """Write ``log sum_k exp(log_weights_k - |y_k - z_k|^2 / 2)`` for every point.

    Parameters
    ----------
    Y : (G, Q, M)
        The points, in the whitened coordinates of every group.
    rows : (K,)
        The point that is the mean of a kernel.
    groups : (K,)
        The group of a kernel.
    log_weights : (K,)
    own : (Q,)
        The kernel whose mean is the point.
    log_own : (Q,)
        Log weight of that kernel at its own point; minus infinity leaves it out.
    exponents : (K,)
        Workspace.
    out : (Q,)
        Minus infinity where no kernel is left.
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
