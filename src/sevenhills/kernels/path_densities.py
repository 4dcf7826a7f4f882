"""Kernel densities of single steps, and leave-one-out densities of whole paths.

The density of a step has the covariance of its samples and Scott's bandwidth, as in scipy's
``gaussian_kde``. A call of scipy takes about a hundred microseconds, of which the sum of kernels
takes a hundredth; here one call computes the densities of all agents and steps.
"""

import numpy as np

from .compile import inner, kernel, summing_inner

#: Degeneracy of samples: none; all samples equal; a direction without spread; no more samples
#: than coordinates; no samples.
REGULAR, IDENTICAL, FLAT, FEW, EMPTY = 0, 1, 2, 3, 4

#: A standard deviation below this fraction of the largest coordinate is a rounding error.
_ROUNDED_STD = 1e-13
#: A residual variance, given the other coordinates, below this fraction of the variance is a
#: rounding error.
_ROUNDED_SHARE = 1e-12
#: Fewest degrees of freedom of a covariance: one sample may have almost all of the weight.
_LEAST_FREE = 1e-12

_HALF_LOG_2PI = 0.9189385332046727
#: The row of a workspace for a truth; with a literal number, ``_whiten`` would be compiled twice.
_TRUTH = np.int64(3)


@kernel
def log_step_densities(
    paths,
    lengths,
    weights,
    truths,
    observed,
    floors,
    points,
    counts,
    factor,
    vectors,
    exponents,
    degeneracy,
    out,
):
    """Write the log density of every truth at every step, and the degeneracy of the samples.

    paths, lengths : (N, K, T, D), (N, K), the samples of every agent and their numbers of steps
    weights : (N, K), of the samples; only their ratios matter
    truths, observed : (N, L, T, D), (N, L, T), the truths, and whether they have a step
    floors : (N,), the standard deviation whose square is added to all variances of degenerate
        samples; NaN to give these no density
    points, counts, factor, vectors, exponents : (K, D), (K,), (D, D), (4, D), (K,), workspace
    degeneracy : (N, T), one of ``REGULAR``, ``IDENTICAL``, ``FLAT``, ``FEW`` and ``EMPTY``
    out : (N, L, T), NaN where there is no density, or no truth
    """
    for i in range(paths.shape[0]):
        for t in range(paths.shape[2]):
            n = _gather(paths, lengths, i, t, points, vectors)
            total = _count(lengths, weights, i, t, counts)
            degeneracy[i, t] = _factor_samples(n, total, points, counts, factor, vectors)
            has_density = degeneracy[i, t] == REGULAR
            if degeneracy[i, t] != REGULAR and degeneracy[i, t] != EMPTY and floors[i] > 0.0:
                _covariance(n, total, points, counts, vectors, factor)
                has_density = _factor(factor, floors[i] * floors[i])
            if has_density:
                for k in range(n):
                    _whiten(points, k, factor)
            for m in range(truths.shape[1]):
                out[i, m, t] = np.nan
                if has_density and observed[i, m, t]:
                    for d in range(factor.shape[0]):
                        vectors[_TRUTH, d] = truths[i, m, t, d] - vectors[0, d]
                    _whiten(vectors, _TRUTH, factor)
                    out[i, m, t] = _log_density(
                        n, total, points, counts, factor, vectors, exponents
                    )


@inner
def _gather(paths, lengths, i, t, points, vectors):
    """Write the samples of a step relative to the first sample; return their number.

    The first sample and the largest absolute coordinates go into ``vectors``. Relative to the
    first sample, equal samples have a spread of exactly zero, however far from the origin.
    """
    n = 0
    for k in range(paths.shape[1]):
        if lengths[i, k] <= t:
            continue
        for d in range(paths.shape[3]):
            value = paths[i, k, t, d]
            if n == 0:
                vectors[0, d] = value
                vectors[1, d] = 0.0
            points[n, d] = value - vectors[0, d]
            vectors[1, d] = max(vectors[1, d], abs(value))
        n += 1
    return n


@inner
def _count(lengths, weights, i, t, counts):
    """Write the number of samples that every sample of a step stands for; return their sum.

    The sum is the effective number ``(sum w)^2 / sum w^2`` of samples; equal weights give ones.
    """
    n = 0
    total = 0.0
    squares = 0.0
    for k in range(weights.shape[1]):
        if lengths[i, k] > t:
            counts[n] = weights[i, k]
            total += weights[i, k]
            squares += weights[i, k] * weights[i, k]
            n += 1
    for k in range(n):
        counts[k] *= total / squares
    return total * total / squares if n > 0 else 0.0


@inner
def _factor_samples(n, total, points, counts, factor, vectors):
    """Return the degeneracy of samples; write the factor of their covariance if there is none."""
    n_features = points.shape[1]
    if n == 0:
        return EMPTY
    if n <= n_features:
        return FEW
    _covariance(n, total, points, counts, vectors, factor)
    n_constant = 0
    for d in range(n_features):
        if not factor[d, d] > (_ROUNDED_STD * vectors[1, d]) ** 2:
            n_constant += 1
    if n_constant > 0:
        return IDENTICAL if n_constant == n_features else FLAT
    return REGULAR if _factor(factor, 0.0) else FLAT


@inner
def _covariance(n, total, points, counts, vectors, out):
    """Write the lower triangle of the covariance, all zeros for a single sample."""
    n_features = points.shape[1]
    for d in range(n_features):
        moment = 0.0
        for k in range(n):
            moment += counts[k] * points[k, d]
        vectors[2, d] = moment / total
    for d in range(n_features):
        for e in range(d + 1):
            moment = 0.0
            for k in range(n):
                square = (points[k, d] - vectors[2, d]) * (points[k, e] - vectors[2, e])
                moment += counts[k] * square
            out[d, e] = moment / max(total - 1.0, _LEAST_FREE)


@inner
def _factor(S, floor):
    """Replace a covariance by its Cholesky factor, and return whether it is regular.

    A floor above zero is added to all variances, which makes every covariance regular.
    """
    for j in range(S.shape[0]):
        pivot = S[j, j]
        for m in range(j):
            pivot -= S[j, m] * S[j, m]
        if floor > 0.0:
            # Rounding can lose a small floor beside large variances.
            pivot = floor + pivot if pivot > 0.0 else floor
        elif not pivot > _ROUNDED_SHARE * S[j, j]:
            return False
        S[j, j] = np.sqrt(pivot)
        for i in range(j + 1, S.shape[0]):
            for m in range(j):
                S[i, j] -= S[i, m] * S[j, m]
            S[i, j] /= S[j, j]
    return True


@inner
def _whiten(points, k, factor):
    """Transform a point to coordinates in which the covariance is the identity."""
    for d in range(factor.shape[0]):
        for e in range(d):
            points[k, d] -= factor[d, e] * points[k, e]
        points[k, d] /= factor[d, d]


@inner
def _log_density(n, total, points, counts, factor, vectors, exponents):
    """Return the log density of Scott's kernels on whitened samples at a whitened point."""
    n_features = factor.shape[0]
    bandwidth = total ** (-1.0 / (n_features + 4))
    largest = -np.inf
    for k in range(n):
        square = 0.0
        for d in range(n_features):
            square += (points[k, d] - vectors[_TRUTH, d]) ** 2
        exponents[k] = -0.5 * square / (bandwidth * bandwidth)
        largest = max(largest, exponents[k])
    density = 0.0
    for k in range(n):
        density += counts[k] * np.exp(exponents[k] - largest)
    out = largest + np.log(density / total)
    for d in range(n_features):
        out -= np.log(factor[d, d] * bandwidth) + _HALF_LOG_2PI
    return out


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
