"""Kernel densities of the samples of single steps, of all agents and steps at once.

The density of a step has the covariance of its samples and Scott's bandwidth, as in scipy's
``gaussian_kde``, of which a call takes about a hundred microseconds.
"""

from typing import NamedTuple

import numpy as np

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


class StepSamples(NamedTuple):
    """The samples of all steps, relative to the first sample of a step.

    Relative to that, equal samples have a spread of exactly zero, however far from the origin.
    """

    points: np.ndarray  # (D, K, N, T), 0 for samples that have ended
    origins: np.ndarray  # (D, N, T)
    counts: np.ndarray  # (K, N, T), numbers of samples that the samples stand for
    total: np.ndarray  # (N, T), the sums of the counts, effective numbers of samples
    covariances: np.ndarray  # (D, D, N, T)
    degeneracy: np.ndarray  # (N, T), one of the five above

    @classmethod
    def from_paths(
        cls, paths: np.ndarray, lengths: np.ndarray, weights: np.ndarray
    ) -> "StepSamples":
        """Return the samples of paths (N, K, T, D) with numbers of steps and weights (N, K)."""
        n_coordinates = paths.shape[3]
        points = np.array(paths.transpose(3, 1, 0, 2), order="C")
        there = lengths.T[..., None] > np.arange(paths.shape[2])
        is_whole = there.all()
        if not is_whole:
            points[:, ~there] = 0.0
        largest = np.maximum(points.max(axis=1), -points.min(axis=1))
        first = there.argmax(axis=0)[None, None]
        origins = np.take_along_axis(points, first, axis=1)[:, 0]
        points -= origins[:, None]
        if not is_whole:
            points[:, ~there] = 0.0
        weights = np.where(there, weights.T[..., None], 0.0)
        sums, squares = weights.sum(axis=0), (weights**2).sum(axis=0)
        with np.errstate(invalid="ignore"):  # where there are no samples
            counts, total = weights * (sums / squares), sums**2 / squares
            apart = points - ((counts * points).sum(axis=1) / total)[:, None]
        covariances = np.empty((n_coordinates, n_coordinates, *total.shape))
        for d in range(n_coordinates):
            for e in range(d + 1):
                moments = (counts * apart[d] * apart[e]).sum(axis=0)
                covariances[d, e] = covariances[e, d] = moments / np.maximum(total - 1, _LEAST_FREE)
        n_samples = np.count_nonzero(there, axis=0)
        degeneracy = _degeneracy(n_samples, covariances, largest)
        return cls(points, origins, counts, total, covariances, degeneracy)

    def factors(self, floors: np.ndarray) -> np.ndarray:
        """Return Cholesky factors (D, D, N, T), NaN for degenerate samples without a floor (N,).

        The square of the floor is added to all variances of degenerate samples.
        """
        factors, _ = _cholesky(self.covariances)
        factors[:, :, self.degeneracy != REGULAR] = np.nan
        floored = (self.degeneracy != REGULAR) & (self.degeneracy != EMPTY)
        floored &= floors[:, None] > 0
        if floored.any():
            least = np.broadcast_to(floors[:, None] ** 2, floored.shape)[floored]
            factors[:, :, floored] = _cholesky(self.covariances[:, :, floored], least)[0]
        return factors

    def log_densities(self, truths: np.ndarray, floors: np.ndarray) -> np.ndarray:
        """Return the log densities (N, L, T) of truths (N, L, T, D), NaN without a density."""
        n_coordinates, factors = len(self.points), self.factors(floors)
        points = _whitened(self.points, factors[:, :, None])
        bandwidth = self.total ** (-1 / (n_coordinates + 4))
        log_dets = np.log(np.einsum("ddnt->dnt", factors) * bandwidth).sum(axis=0)
        rates, out = -0.5 / bandwidth**2, np.empty(truths.shape[:3])
        for i in range(truths.shape[1]):
            truth = _whitened(np.moveaxis(truths[:, i], 2, 0) - self.origins, factors)
            squares = np.square(points - truth[:, None]).sum(axis=0)
            squares[self.counts == 0] = np.inf
            nearest = squares.min(axis=0)
            with np.errstate(invalid="ignore"):  # where there are no samples
                terms = np.exp((squares - nearest) * rates)
            density = (self.counts * terms).sum(axis=0) / self.total
            out[:, i] = nearest * rates + np.log(density) - log_dets
        return out - n_coordinates * _HALF_LOG_2PI


def _degeneracy(n_samples: np.ndarray, covariances: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return the degeneracy (N, T) of samples with largest absolute coordinates (D, N, T)."""
    n_coordinates = len(largest)
    variances = np.einsum("ddnt->dnt", covariances)
    n_constant = np.count_nonzero(~(variances > (_ROUNDED_STD * largest) ** 2), axis=0)
    is_regular = _cholesky(covariances)[1] & (n_constant == 0)
    out = np.where(is_regular, REGULAR, FLAT)
    out[n_constant == n_coordinates] = IDENTICAL
    out[n_samples <= n_coordinates] = FEW
    out[n_samples == 0] = EMPTY
    return out


def _cholesky(
    covariances: np.ndarray, floors: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return Cholesky factors (D, D, ...), and whether the covariances are regular.

    Floors are added to all variances. Rounding can lose a small floor beside large variances, and
    the pivot must be positive.
    """
    S = covariances.copy()
    is_regular = np.ones(S.shape[2:], dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        for j in range(len(S)):
            pivot = S[j, j] - (S[j, :j] ** 2).sum(axis=0)
            is_regular &= pivot > _ROUNDED_SHARE * S[j, j]
            S[j, j] = np.sqrt(pivot if floors is None else np.maximum(pivot + floors, floors))
            S[j + 1 :, j] -= (S[j + 1 :, :j] * S[j, :j]).sum(axis=1)
            S[j + 1 :, j] /= S[j, j]
    return S, is_regular


def _whitened(points: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return points (D, ...) in coordinates in which covariances are the identity."""
    out = np.empty(np.broadcast_shapes(points.shape, factors.shape[1:]))
    for d in range(len(out)):
        out[d] = (points[d] - (factors[d, :d] * out[:d]).sum(axis=0)) / factors[d, d]
    return out
