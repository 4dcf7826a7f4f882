r"""Normal scores: every feature is transformed so that its samples look normal.

Gaussian kernels of one width suit skewed, bounded and heavy-tailed features badly. Every feature is
therefore a monotone curve :math:`x = g(z)` of a normal score. Kernels are placed in the space of
scores, and each is carried back to the data as the Gaussian that has the mean and the standard
deviation of :math:`g(z)` in every feature and the same correlations. The kernels are narrow where
samples are dense and wide in the tails, and the density is a sum of Gaussians.

Kernels stand on the scores of the samples or, for a Gaussian copula, on a low-discrepancy sample of
the normal distribution with the mean and covariance of the scores.
"""

from functools import cache
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri
from scipy.stats import qmc

from ..density import KernelMixture
from ..folds import count
from .components import gaussian_kernels

_N_KNOTS = 12
#: Gauss-Hermite quadrature for mean and standard deviation of a kernel that is carried back.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
#: Curves are inverted by interpolation in a table of scores between plus and minus this bound.
_MAX_SCORE = 8.0
_TABLE_SIZE = 1025
#: Number of kernels of a Gaussian copula in one dimension, in two, and in more.
_COPULA_KERNELS = (512, 2048, 4096)
#: Upper bound on these kernels per sample.
_MAX_PER_SAMPLE = 16
#: Upper bound on the quantiles of a margin, unless there are more rows.
_MAX_QUANTILES = 2000
#: Smallest rise of a curve from knot to knot, relative to about a standard deviation. Ties would
#: make curves flat, which cannot be inverted.
_MIN_RISE = 1e-7


class Margin(NamedTuple):
    """The curve from normal scores to the values of a feature, linear beyond its end knots."""

    curve: PchipInterpolator
    ends: np.ndarray
    slopes: np.ndarray

    @classmethod
    def from_samples(cls, x: np.ndarray, weights: np.ndarray) -> "Margin":
        """Smooth the quantiles of samples over the distance of knots."""
        values, scores = _quantiles(x, weights)
        knots = np.linspace(scores[0], scores[-1], min(_N_KNOTS, len(values)))
        step = knots[1] - knots[0]
        closeness = np.exp(-2 * np.square((scores - knots[:, None]) / step))
        heights = (closeness @ values) / closeness.sum(axis=1)
        min_rise = _MIN_RISE * (1 + float(np.ptp(values)))
        heights = np.maximum.accumulate(heights) + min_rise * np.arange(len(knots))
        slopes = np.diff(heights)[[0, -1]] / step
        return cls(PchipInterpolator(knots, heights), knots[[0, -1]], slopes)

    def values_at(self, z: np.ndarray) -> np.ndarray:
        """Return the values of the feature at normal scores."""
        inner = np.clip(z, *self.ends)
        beyond = z - inner
        slopes = np.where(beyond < 0, self.slopes[0], self.slopes[1])
        return np.asarray(self.curve(inner) + slopes * beyond)

    def scores_of(self, x: np.ndarray) -> np.ndarray:
        """Return the normal scores of values of the feature."""
        table = np.linspace(-_MAX_SCORE, _MAX_SCORE, _TABLE_SIZE)
        return np.asarray(np.interp(x, self.values_at(table), table))


def _quantiles(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return quantiles at equidistant probabilities, one per sample, and their normal scores."""
    n_steps = max(2, len(x), min(ceil(count(weights)), _MAX_QUANTILES))
    steps = (np.arange(n_steps) + 0.5) / n_steps
    order = np.argsort(x)
    ends = np.cumsum(weights[order])
    found = np.searchsorted(ends, steps * ends[-1], side="right")
    return x[order[found]], ndtri(steps)


class NormalScores(NamedTuple):
    """Samples in the space of normal scores, with mean, stds and correlation of the scores."""

    margins: list[Margin]
    points: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    stds: np.ndarray
    correlation: np.ndarray

    @classmethod
    def from_samples(cls, X: np.ndarray, weights: np.ndarray) -> "NormalScores":
        """Fit the margins of samples."""
        margins = [Margin.from_samples(x, weights) for x in X.T]
        points = np.stack([m.scores_of(x) for m, x in zip(margins, X.T, strict=True)], axis=1)
        shares = weights / weights.sum()
        mean = shares @ points
        centered = points - mean
        centered[:, np.ptp(X, axis=0) <= _MIN_RISE] = 0.0  # constant up to rounding
        stds = np.sqrt(shares @ np.square(centered))
        stds[stds == 0] = 1.0
        scaled = np.sqrt(shares)[:, None] * centered / stds
        correlation = scaled.T @ scaled
        np.fill_diagonal(correlation, 1.0)
        return cls(margins, points, weights, mean, stds, correlation)

    def kernels(self, width: float, ridge: np.ndarray) -> KernelMixture:
        """Return kernels on the samples, in data space.

        The width is relative to the standard deviations of the scores. The ridge is added to every
        covariance.
        """
        return self._carried_back(self.points, self.weights, width, ridge)

    def copula_kernels(self, width: float, ridge: np.ndarray) -> KernelMixture:
        """Return the kernels of a Gaussian copula, in data space."""
        n_features = len(self.mean)
        n_kernels = _COPULA_KERNELS[min(n_features, len(_COPULA_KERNELS)) - 1]
        while n_kernels > max(1, _MAX_PER_SAMPLE * count(self.weights)):
            n_kernels //= 2
        regular = self.correlation + _MIN_RISE * np.eye(n_features)
        steps = _sobol_normals(n_kernels, n_features) @ np.linalg.cholesky(regular).T
        return self._carried_back(self.mean + self.stds * steps, np.ones(n_kernels), width, ridge)

    def _carried_back(
        self, points: np.ndarray, weights: np.ndarray, width: float, ridge: np.ndarray
    ) -> KernelMixture:
        """Return kernels on points, moved towards the mean so that the covariance is kept."""
        moved = self.mean + np.sqrt(1 - width**2) * (points - self.mean)
        nodes = moved[:, :, None] + width * self.stds[:, None] * _NODES
        values = np.stack([m.values_at(nodes[:, j]) for j, m in enumerate(self.margins)], axis=1)
        means = values @ _NODE_WEIGHTS
        stds = np.sqrt(np.square(values - means[:, :, None]) @ _NODE_WEIGHTS)
        covariances = stds[:, :, None] * self.correlation * stds[:, None, :] + ridge
        return gaussian_kernels(weights, means, covariances)


@cache
def _sobol_normals(n_points: int, n_features: int) -> np.ndarray:
    """Return normal deviates from a Sobol sequence."""
    uniform = qmc.Sobol(n_features, scramble=False).random(n_points) + 0.5 / n_points
    out = np.asarray(ndtri(uniform))
    out.flags.writeable = False
    return out
