"""Expectation maximization for mixtures of Gaussians or Student's t.

Rows are given by one, their coordinates and the products of these, so that squared distances to
components and the sums from which components are estimated are matrix products. One pass over
blocks of rows does both steps.
"""

from math import lgamma

import numpy as np

from .compile import inner, kernel
from .mixture import LOWEST, split_power
from .triangles import invert_lower

#: Added to the size of a component, so that empty components have a finite logarithm.
EPSILON = 1e-10
#: Samples that the pooled size of components counts for, since one sample has no size of its own.
POOLED_SIZE = 0.3
#: Most rows of a block.
_BLOCK = 256


@kernel
def maximize_likelihood(
    features, weights, shares, dof, strengths, target, shape, ridge, max_steps, tolerance, sizes,
    means, covariances,
):  # fmt: skip
    """Fit components to rows; return whether all covariances were positive definite.

    features : (n, P), one, M coordinates and their products
    weights : (n,), the number of samples of every row
    shares : (K, n), the responsibilities from which the fit starts
    dof : the degrees of freedom, infinite for Gaussians
    strengths : (2,), the weights, in samples, of the target and of the pooled shape
    target : (M, M), the shape of a covariance, of which the size is free
    shape : (M, M), the pooled shape; all zero if it is to be that of the components
    ridge : (M, M), added to every covariance
    max_steps, tolerance : the fit ends when the mean log likelihood rises by less than this
    sizes, means, covariances : (K,), (K, M), (K, M, M), the components; sizes are in samples
    """
    n_components, n_rows = shares.shape
    n_features = means.shape[1]
    size = min(_BLOCK, n_rows)
    work = np.zeros((3, size))
    coefficients, offsets = np.empty((n_components, features.shape[1])), np.empty(n_components)
    n_samples = weights.sum()
    pulls = shares * weights
    sums, found = np.dot(pulls, features), pulls.sum(axis=1) + EPSILON
    half, constant = 0.0, -0.5 * n_features * np.log(2 * np.pi)
    if dof < np.inf:
        half = 0.5 * (dof + n_features)
        constant = lgamma(half) - lgamma(0.5 * dof) - 0.5 * n_features * np.log(dof * np.pi)
    before = -np.inf
    for _ in range(max_steps):
        sizes[:] = found
        _estimate(sums, sizes, strengths, target, shape, ridge, means, covariances)
        if not _invert(sizes, means, covariances, constant, coefficients, offsets):
            return False
        likelihood = 0.0
        sums[:] = 0.0
        found[:] = EPSILON
        for start in range(0, n_rows, size):
            block, own = features[start : start + size], weights[start : start + size]
            parts = np.dot(coefficients, block.T)
            likelihood += _share(parts, offsets, dof, half, own, work, found)
            sums += np.dot(parts, block)
        likelihood /= n_samples
        if likelihood - before < tolerance:
            break
        before = likelihood
    return True


@inner
def _estimate(sums, sizes, strengths, target, shape, ridge, means, covariances):
    """Write means, and covariances shrunk to the target and to the pooled shape."""
    n_components, n_features = means.shape
    pooled = np.zeros((n_features, n_features))
    for k in range(n_components):
        total = sums[k, 0] + EPSILON
        for i in range(n_features):
            means[k, i] = sums[k, 1 + i] / total
        column = 1 + n_features
        for i in range(n_features):
            for j in range(i, n_features):
                covariance = (sums[k, column] - total * means[k, i] * means[k, j]) / sizes[k]
                covariances[k, i, j] = covariances[k, j, i] = covariance
                column += 1
    n_samples = sizes.sum()
    for k in range(n_components):
        pooled += covariances[k] * (sizes[k] / n_samples)
    mean_trace = np.trace(pooled)
    if np.trace(shape) > 0:
        pooled[:] = shape
    pooled *= strengths[1] / max(np.trace(pooled), EPSILON)
    pooled += target * (strengths[0] / np.trace(target))
    for k in range(n_components):
        trace = sizes[k] * np.trace(covariances[k]) + POOLED_SIZE * mean_trace
        trace = max(trace / (sizes[k] + POOLED_SIZE), 0.0)
        strength = sizes[k] + strengths[0] + strengths[1]
        for i in range(n_features):
            for j in range(n_features):
                shrunk = (sizes[k] * covariances[k, i, j] + trace * pooled[i, j]) / strength
                covariances[k, i, j] = shrunk + ridge[i, j]


@inner
def _invert(sizes, means, covariances, constant, coefficients, offsets):
    """Write the coefficients of squared distances, and the logs of the components' heights."""
    n_components, n_features = means.shape
    factor = np.zeros((n_features, n_features))
    log_total = np.log(sizes.sum())
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
        coefficients[k, : n_features + 1] = 0.0
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
        offsets[k] = constant - 0.5 * log_det + np.log(sizes[k]) - log_total
    return True


@inner
def _share(parts, offsets, dof, half, weights, work, sizes):
    """Replace squared distances by the weights of rows in sums; return the log likelihood.

    The weight is that of the row times the responsibility of the component; distant rows weigh less
    in Student's t. Responsibilities are added to sizes.
    """
    n_components, n_rows = parts.shape
    bits = work.view(np.int64)
    tops, totals = np.full(n_rows, -np.inf), np.zeros(n_rows)
    logs, pulls = np.empty(parts.shape), np.ones((1, 1))
    if dof < np.inf:
        pulls = np.empty(parts.shape)
    for k in range(n_components):
        for s in range(n_rows):
            squared = max(parts[k, s], 0.0)
            if dof < np.inf:
                pulls[k, s] = (2 * half) / (dof + squared)
                logs[k, s] = offsets[k] - half * np.log1p(squared / dof)
            else:
                logs[k, s] = offsets[k] - 0.5 * squared
            tops[s] = max(tops[s], logs[k, s])
    for k in range(n_components):
        for s in range(n_rows):
            work[0, s] = max(logs[k, s] - tops[s], LOWEST)
        split_power(work)
        for s in range(n_rows):
            bits[2, s] += bits[1, s] << 52
        for s in range(n_rows):
            parts[k, s] = work[2, s]
            totals[s] += work[2, s]
    likelihood = 0.0
    for s in range(n_rows):
        likelihood += weights[s] * (tops[s] + np.log(totals[s]))
        totals[s] = weights[s] / totals[s]
    for k in range(n_components):
        for s in range(n_rows):
            parts[k, s] *= totals[s]
            sizes[k] += parts[k, s]
            if dof < np.inf:
                parts[k, s] *= pulls[k, s]
    return likelihood
