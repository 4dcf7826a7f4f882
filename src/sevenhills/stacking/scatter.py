r"""Means and shrunk covariances.

A covariance of few samples is shrunk twice: towards the one that all clusters share, then towards
a diagonal one,

.. math:: S_\mu = (1 - \mu) S + \mu S_{\text{common}}, \qquad
          \Sigma = (1 - \lambda) S_\mu + \lambda \operatorname{diag} S_\mu .

How much is decided by the likelihood of samples that were held out. In the coordinates in which
the target of the shrinkage is the unit matrix and the covariance is diagonal, all strengths are
judged at once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_POOLING = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9])
_DIAGONAL = np.array([0.0, 1e-3, 0.01, 0.03, 0.1, 0.25, 0.5, 1.0])


class Shrinkage(NamedTuple):
    r"""How much covariances are shrunk: :math:`\mu` and :math:`\lambda`."""

    pooling: float
    diagonal: float


class Ellipse(NamedTuple):
    r"""A mean, and the map :math:`x \mapsto (x - m) T` under which the scatter is a unit ball."""

    mean: np.ndarray
    transform: np.ndarray

    @property
    def log_det(self) -> float:
        """The logarithm of the determinant of the transform."""
        return float(np.linalg.slogdet(self.transform)[1])

    @property
    def scatter(self) -> np.ndarray:
        """The covariance."""
        root = np.linalg.inv(self.transform)
        return np.asarray(root.T @ root)

    def seen_from(self, other: "Ellipse") -> "Ellipse":
        """Return it in the coordinates in which the other is the unit ball."""
        mean = (self.mean - other.mean) @ other.transform
        return Ellipse(mean, np.linalg.solve(other.transform, self.transform))


def unit_transforms(scatters: np.ndarray) -> np.ndarray:
    """Return what turns Gaussians of these covariances into unit ones, from the right."""
    factors = np.linalg.cholesky(scatters)
    return np.asarray(np.swapaxes(np.linalg.inv(factors), -1, -2))


class Moments(NamedTuple):
    """A mean and a covariance."""

    mean: np.ndarray
    scatter: np.ndarray


class Weighted(NamedTuple):
    """Rows, and how many samples each stands for."""

    rows: np.ndarray
    weights: np.ndarray


def covariance(X: np.ndarray, weights: np.ndarray) -> Moments:
    """Return mean and covariance (``ddof=0``), which is exactly zero where samples are equal."""
    total = weights.sum()
    deviations = X - X[0]
    shift = weights @ deviations / total
    deviations -= shift
    deviations *= np.sqrt(weights)[:, None]
    return Moments(X[0] + shift, deviations.T @ deviations / total)


def ellipse(
    moments: Moments, ridge: np.ndarray, common: np.ndarray | None, shrinkage: Shrinkage
) -> Ellipse:
    """Return the mean of samples and their covariance, shrunk."""
    mean, scatter = moments
    if common is not None:
        scatter = (1 - shrinkage.pooling) * scatter + shrinkage.pooling * common
    scatter = (1 - shrinkage.diagonal) * scatter + shrinkage.diagonal * np.diag(np.diag(scatter))
    variances, axes = np.linalg.eigh(scatter + ridge)
    return Ellipse(mean, axes / np.sqrt(np.maximum(variances, np.diag(ridge).min())))


def choose_shrinkage(
    moments: Sequence[Moments],
    held: Sequence[Weighted],
    ridge: np.ndarray,
    common: np.ndarray | None,
) -> Shrinkage:
    """Return the shrinkage under which Gaussians with these moments suit held-out samples best."""
    pooling = 0.0
    if common is not None:
        targets = [common] * len(moments)
        pooling = _best(_POOLING, moments, held, targets, ridge)
        moments = [Moments(mean, (1 - pooling) * S + pooling * common) for mean, S in moments]
    targets = [np.diag(np.diag(scatter)) for _, scatter in moments]
    return Shrinkage(pooling, _best(_DIAGONAL, moments, held, targets, ridge))


def _best(
    strengths: np.ndarray,
    moments: Sequence[Moments],
    held: Sequence[Weighted],
    targets: Sequence[np.ndarray],
    ridge: np.ndarray,
) -> float:
    scores = sum(
        _log_likelihoods(strengths, mean, scatter + ridge, target + ridge, samples)
        for (mean, scatter), target, samples in zip(moments, targets, held, strict=True)
    )
    return float(strengths[int(np.argmax(scores))])


def _log_likelihoods(
    strengths: np.ndarray,
    mean: np.ndarray,
    scatter: np.ndarray,
    target: np.ndarray,
    samples: Weighted,
) -> np.ndarray:
    """Return the log likelihood of samples, up to a constant, for every strength of shrinkage."""
    factor = np.linalg.cholesky(target)
    inner = np.linalg.solve(factor, np.linalg.solve(factor, scatter).T)
    variances, axes = np.linalg.eigh(0.5 * (inner + inner.T))
    rows, weights = samples
    squares = weights @ np.square(np.linalg.solve(factor, (rows - mean).T).T @ axes)
    shrunk = np.maximum(variances, 0.0)[:, None] * (1 - strengths) + strengths
    # Without any shrinkage there may be directions without spread.
    shrunk = np.maximum(shrunk, np.finfo(float).tiny ** 0.25)
    log_dets = np.log(shrunk).sum(axis=0) + 2 * np.log(np.diag(factor)).sum()
    return np.asarray(-0.5 * (squares @ (1 / shrunk) + weights.sum() * log_dets))
