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
#: Kernels of a smaller weight, relative to the largest, do not change the mean.
_NEGLIGIBLE = 1e-18
#: The numbers in a table of kernels and nodes.
_TABLE_NUMBERS = 2**20


def mapped_mean(maps: Sequence[FeatureMap], weights: np.ndarray, kernels: Kernels) -> np.ndarray:
    """Return the mean; that of a feature on a circle is the direction of the mean vector."""
    # Most kernels of a conditional density weigh next to nothing.
    kept = weights > _NEGLIGIBLE * weights.max()
    means, stds, weights = kernels.means[kept], _stds(kernels)[kept], weights[kept]
    return np.array(
        [
            _circular_mean(each, weights, means[:, j], stds[:, j])
            if isinstance(each, CircleMap)
            else weights @ _expansion(each, means[:, j], stds[:, j], 1)[0][0]
            for j, each in enumerate(maps)
        ]
    )


def mapped_covariance(
    maps: Sequence[FeatureMap], weights: np.ndarray, kernels: Kernels, mean: np.ndarray
) -> np.ndarray:
    """Return the covariance; angles are measured from their circular mean."""
    stds = _stds(kernels)
    terms, variances = np.empty((_N_TERMS, *stds.shape)), np.empty(stds.shape)
    for j, each in enumerate(maps):
        if isinstance(each, CircleMap):
            each = replace(each, low=mean[j] - 0.5 * each.period)
        found = _expansion(each, kernels.means[:, j], stds[:, j], _N_TERMS)
        terms[:, :, j], variances[:, j] = found
    apart = terms[0] - weights @ terms[0]
    cov = (apart * weights[:, None]).T @ apart
    cov += _within(terms, weights, kernels.offsets, covariances(kernels.transforms))
    np.fill_diagonal(cov, weights @ (variances + apart**2))
    return cov


def _stds(kernels: Kernels) -> np.ndarray:
    """Return the standard deviations (K, M) of kernels."""
    variances = np.diagonal(covariances(kernels.transforms), axis1=1, axis2=2)
    return np.sqrt(variances)[kernels.group_of_kernel]


def _circular_mean(
    circle: CircleMap, weights: np.ndarray, means: np.ndarray, stds: np.ndarray
) -> float:
    """Return the direction of the mean vector on the unit circle."""
    turn = 2 * np.pi / circle.period
    vector = weights @ np.exp(1j * turn * (means - circle.low) - 0.5 * (turn * stds) ** 2)
    return float(circle.inverse(np.array(circle.low + np.angle(vector) / turn)))


def _expansion(
    each: FeatureMap, means: np.ndarray, stds: np.ndarray, n_terms: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first coefficients (n_terms, K) of a mapped feature, and its variances."""
    terms = np.zeros((n_terms, len(means)))
    if type(each) is FeatureMap:
        terms[0], terms[1:2] = means, stds
        return terms, stds**2
    step = _STEPS[each.is_folding]
    nodes = np.arange(-_LIMIT, _LIMIT + step, step)
    weights = step * np.exp(-0.5 * nodes**2) / np.sqrt(2 * np.pi)
    polynomials = _hermite(nodes)[:n_terms] * weights
    variances, size = np.empty(len(means)), max(1, _TABLE_NUMBERS // len(nodes))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(means), size):
            rows = slice(start, start + size)
            values = each.inverse(means[rows, None] + stds[rows, None] * nodes)
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
