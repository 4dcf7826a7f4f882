"""Means and covariances of kernels after the maps of their features.

A map of a Gaussian variable is expanded in Hermite polynomials. The covariance of two maps of
Gaussian variables with correlation r is then a power series in r (Mehler's formula), so that
integrals over one feature at a time are enough.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from .maps import CircleMap, FeatureMap
from .sums import Kernels, covariances

#: The number of Hermite polynomials.
_N_TERMS = 48
#: Integrals end this many standard deviations from the mean; an exponential moves their peak.
_LIMIT = 20.0
#: The steps of the trapezoidal rule, for smooth maps and for those that fold.
_STEPS = (0.02, 0.005)
#: The numbers in a table of kernels and nodes.
_TABLE_NUMBERS = 2**20


def mapped_moments(
    maps: Sequence[FeatureMap], weights: np.ndarray, kernels: Kernels
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the covariance; angles are measured from their circular mean."""
    scatters = covariances(kernels.transforms)
    stds = np.sqrt(np.diagonal(scatters, axis1=1, axis2=2))[kernels.group_of_kernel]
    angles = [
        _circular_mean(each, weights, kernels.means[:, j], stds[:, j])
        if isinstance(each, CircleMap)
        else 0.0
        for j, each in enumerate(maps)
    ]
    terms, variances = np.empty((_N_TERMS, *stds.shape)), np.empty(stds.shape)
    for j, (each, angle) in enumerate(zip(maps, angles, strict=True)):
        if isinstance(each, CircleMap):
            each = replace(each, low=angle - 0.5 * each.period)
        found = _expansion(each, angle, kernels.means[:, j], stds[:, j])
        terms[:, :, j], variances[:, j] = found
    mean = weights @ terms[0]
    apart = terms[0] - mean
    cov = (apart * weights[:, None]).T @ apart
    cov += _within(terms, weights, kernels.offsets, scatters)
    np.fill_diagonal(cov, weights @ (variances + apart**2))
    is_circle = [isinstance(each, CircleMap) for each in maps]
    return np.where(is_circle, angles, mean), cov


def _circular_mean(
    circle: CircleMap, weights: np.ndarray, means: np.ndarray, stds: np.ndarray
) -> float:
    """Return the direction of the mean vector on the unit circle."""
    turn = 2 * np.pi / circle.period
    vector = weights @ np.exp(1j * turn * (means - circle.low) - 0.5 * (turn * stds) ** 2)
    return float(circle.inverse(np.array(circle.low + np.angle(vector) / turn)))


def _expansion(
    each: FeatureMap, origin: float, means: np.ndarray, stds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients (N, K) of a mapped feature minus an origin, and its variances."""
    terms = np.zeros((_N_TERMS, len(means)))
    if type(each) is FeatureMap:
        terms[0], terms[1] = means - origin, stds
        return terms, stds**2
    step = _STEPS[each.is_folding]
    nodes = np.arange(-_LIMIT, _LIMIT + step, step)
    weights = step * np.exp(-0.5 * nodes**2) / np.sqrt(2 * np.pi)
    polynomials = _hermite(nodes) * weights
    variances, size = np.empty(len(means)), max(1, _TABLE_NUMBERS // len(nodes))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(means), size):
            rows = slice(start, start + size)
            values = each.inverse(means[rows, None] + stds[rows, None] * nodes) - origin
            terms[:, rows] = polynomials @ values.T
            variances[rows] = (values - terms[0, rows, None]) ** 2 @ weights
    return terms, variances


def _hermite(nodes: np.ndarray) -> np.ndarray:
    """Return the orthonormal Hermite polynomials at nodes, (N, n_nodes)."""
    out = np.empty((_N_TERMS, len(nodes)))
    out[0], out[1] = 1.0, nodes
    for n in range(2, _N_TERMS):
        out[n] = (nodes * out[n - 1] - np.sqrt(n - 1) * out[n - 2]) / np.sqrt(n)
    return out


def _within(
    terms: np.ndarray, weights: np.ndarray, offsets: np.ndarray, scatters: np.ndarray
) -> np.ndarray:
    """Return the weighted sum of the covariances within kernels; the diagonal is not final."""
    powers = np.arange(1, _N_TERMS)[:, None, None]
    out = np.zeros(scatters.shape[1:])
    for scatter, (start, end) in zip(scatters, pairwise(offsets.tolist()), strict=True):
        stds = np.sqrt(np.diag(scatter))
        own = terms[1:, start:end]
        products = np.matmul((own * weights[start:end, None]).swapaxes(1, 2), own)
        out += ((scatter / np.outer(stds, stds)) ** powers * products).sum(axis=0)
    return out
