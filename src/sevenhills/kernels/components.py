"""Expectation maximization for mixtures of Gaussians or Student's t.

Rows are given by one, their coordinates and the products of these, so that squared distances to
components and the sums from which components are estimated are matrix products. One pass over
blocks of rows does both steps.
"""

import numpy as np

from .compile import inner, kernel
from .mixture import LOWEST, split_power
from .triangles import invert_lower

#: Added to the size of a component, so that empty components have a finite logarithm.
EPSILON = 1e-10
#: Samples that the pooled size of components counts for, since one sample has no size of its own.
POOLED_SIZE = 0.3


@kernel
def maximize_likelihood(
    features, weights, n_samples, dof, constants, strengths, target, shape, ridge, max_steps,
    tolerance, sums, found, coefficients, offsets, pooled, rows, work, bits, sizes, means,
    covariances,
):  # fmt: skip
    """Fit components to rows; return whether all covariances were positive definite.

    features : (n, P), one, M coordinates and their products
    weights : (n,), the number of samples of every row; ``n_samples`` is their sum
    dof : the degrees of freedom, infinite for Gaussians
    constants : (2,), the log height of a component of unit covariance, and (dof + M) / 2
    strengths : (2,), the weights, in samples, of the target and of the pooled shape
    target : (M, M), the shape of a covariance, of which the size is free
    shape : (M, M), the pooled shape; all zero if it is to be that of the components
    ridge : (M, M), added to every covariance
    max_steps, tolerance : the fit ends when the mean log likelihood rises by less than this
    sums, found : (K, P), (K,), sums of features and numbers of samples from which the fit starts
    coefficients, offsets : (K, P), (K,), workspaces, and for blocks of B rows
    pooled, rows, work, bits : (2, M, M), (2, K, B), (5, B), and ``work`` as integers
    sizes, means, covariances : (K,), (K, M), (K, M, M), the components; sizes are in samples

    Loops compile in a third of the time of expressions of arrays.
    """
    n_rows, size = features.shape[0], work.shape[1]
    before = -np.inf
    for _ in range(max_steps):
        for k in range(sizes.shape[0]):
            sizes[k] = found[k]
            found[k] = EPSILON
        _estimate(sums, sizes, strengths, target, shape, ridge, pooled[0], means, covariances)
        if not _invert(sizes, means, covariances, constants[0], pooled[1], coefficients, offsets):
            return False
        for k in range(sums.shape[0]):
            for p in range(sums.shape[1]):
                sums[k, p] = 0.0
        likelihood = 0.0
        for start in range(0, n_rows, size):
            block = features[start : start + size]
            parts = np.dot(coefficients, block.T)
            likelihood += _share(
                parts, offsets, dof, constants[1], weights, start, rows, work, bits, found
            )
            added = np.dot(parts, block)
            for k in range(sums.shape[0]):
                for p in range(sums.shape[1]):
                    sums[k, p] += added[k, p]
        likelihood /= n_samples
        if likelihood - before < tolerance:
            break
        before = likelihood
    return True


@inner
def _estimate(sums, sizes, strengths, target, shape, ridge, pooled, means, covariances):
    """Write means, and covariances shrunk to the target and to the pooled shape."""
    n_components, n_features = means.shape
    n_samples = 0.0
    for k in range(n_components):
        n_samples += sizes[k]
        total = sums[k, 0] + EPSILON
        for i in range(n_features):
            means[k, i] = sums[k, 1 + i] / total
        column = 1 + n_features
        for i in range(n_features):
            for j in range(i, n_features):
                covariance = (sums[k, column] - total * means[k, i] * means[k, j]) / sizes[k]
                covariances[k, i, j] = covariance
                covariances[k, j, i] = covariance
                column += 1
    for i in range(n_features):
        for j in range(n_features):
            pooled[i, j] = 0.0
            for k in range(n_components):
                pooled[i, j] += covariances[k, i, j] * (sizes[k] / n_samples)
    mean_trace = _trace(pooled)
    is_given = _trace(shape) > 0.0
    trace = _trace(shape) if is_given else mean_trace
    scale = strengths[1] / (trace if trace > EPSILON else EPSILON)
    target_scale = strengths[0] / _trace(target)
    for i in range(n_features):
        for j in range(n_features):
            value = shape[i, j] if is_given else pooled[i, j]
            pooled[i, j] = value * scale + target[i, j] * target_scale
    for k in range(n_components):
        trace = sizes[k] * _trace(covariances[k]) + POOLED_SIZE * mean_trace
        trace /= sizes[k] + POOLED_SIZE
        trace = trace if trace > 0.0 else 0.0
        strength = sizes[k] + strengths[0] + strengths[1]
        for i in range(n_features):
            for j in range(n_features):
                shrunk = (sizes[k] * covariances[k, i, j] + trace * pooled[i, j]) / strength
                covariances[k, i, j] = shrunk + ridge[i, j]


@inner
def _trace(matrix):
    total = 0.0
    for i in range(matrix.shape[0]):
        total += matrix[i, i]
    return total


@inner
def _invert(sizes, means, covariances, constant, factor, coefficients, offsets):
    """Write the coefficients of squared distances, and the logs of the components' heights."""
    n_components, n_features = means.shape
    total = 0.0
    for k in range(n_components):
        total += sizes[k]
    for k in range(n_components):
        log_det = 0.0
        for i in range(n_features):
            for j in range(i + 1):
                value = covariances[k, i, j]
                for m in range(j):
                    value -= factor[i, m] * factor[j, m]
                if i > j:
                    factor[i, j] = value / factor[j, j]
            if not value > 0.0:
                return False
            factor[i, i] = np.sqrt(value)
            log_det += np.log(value)
        invert_lower(factor)
        for i in range(n_features + 1):
            coefficients[k, i] = 0.0
        column = 1 + n_features
        for i in range(n_features):
            for j in range(i, n_features):
                value = 0.0
                for m in range(j, n_features):
                    value += factor[m, i] * factor[m, j]
                coefficients[k, 1 + i] -= 2 * value * means[k, j]
                if j > i:
                    coefficients[k, 1 + j] -= 2 * value * means[k, i]
                    value *= 2
                coefficients[k, 0] += value * means[k, i] * means[k, j]
                coefficients[k, column] = value
                column += 1
        offsets[k] = constant - 0.5 * log_det + np.log(sizes[k] / total)
    return True


@inner
def _share(parts, offsets, dof, half, weights, start, rows, work, bits, sizes):
    """Replace squared distances by the weights of rows in sums; return the log likelihood.

    The weight is that of the row times the responsibility of the component; distant rows weigh less
    in Student's t. Responsibilities are added to sizes.
    """
    n_components, n_rows = parts.shape
    logs, pulls, tops, totals = rows[0], rows[1], work[3], work[4]
    for s in range(work.shape[1]):
        work[0, s] = 0.0
        tops[s] = -np.inf
        totals[s] = 0.0
    for k in range(n_components):
        offset = offsets[k]
        for s in range(n_rows):
            squared = parts[k, s] if parts[k, s] > 0.0 else 0.0
            if dof < np.inf:
                pulls[k, s] = (2 * half) / (dof + squared)
                logs[k, s] = offset - half * np.log1p(squared / dof)
            else:
                logs[k, s] = offset - 0.5 * squared
            tops[s] = logs[k, s] if logs[k, s] > tops[s] else tops[s]
    for k in range(n_components):
        for s in range(n_rows):
            below = logs[k, s] - tops[s]
            work[0, s] = below if below > LOWEST else LOWEST
        split_power(work)
        for s in range(n_rows):
            bits[2, s] += bits[1, s] << 52
        for s in range(n_rows):
            parts[k, s] = work[2, s]
            totals[s] += work[2, s]
    likelihood = 0.0
    for s in range(n_rows):
        likelihood += weights[start + s] * (tops[s] + np.log(totals[s]))
        totals[s] = weights[start + s] / totals[s]
    for k in range(n_components):
        for s in range(n_rows):
            parts[k, s] *= totals[s]
            sizes[k] += parts[k, s]
            if dof < np.inf:
                parts[k, s] *= pulls[k, s]
    return likelihood
