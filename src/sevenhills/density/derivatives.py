r"""Gradients and Hessians of the log density.

With the shares :math:`r_k` of the kernels at a point, and the gradients
:math:`v_k = \Sigma_k^{-1} (\mu_k - x)` of their logarithms, the gradient of the log density is the
mean of the :math:`v_k`, and the Hessian is their covariance minus the mean precision. The
covariance is taken about the gradient, in a second pass: far from all kernels, the difference of
two mean squares would have no correct digits.
"""

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..kernels.derivatives import own_kernel_moments, shared_kernel_moments
from ..kernels.mixture import NEGLIGIBLE
from ..threads import map_rows
from .sums import (
    Kernels,
    LogSums,
    log_sums_of,
    own_tiles,
    shared_tiles,
    split_by_sharing,
    sum_shared,
    sums_at,
    tiled,
)

#: Points whose derivatives are computed together.
_POINTS = 256
#: The numbers that the second moments of a block may hold.
_BLOCK_NUMBERS = 2**18
#: Sums below this, relative to their bound, may have lost terms to underflow.
_UNDERFLOW = 1e-280
#: Below this log density, rounding moves the gradient by more than one percent in units of the
#: kernels; the nearest kernels then give the Hessian.
_FAR = -1e28


class Slopes(NamedTuple):
    """Log sums of kernels, without the Gaussians' constant, and their gradients."""

    log_sums: np.ndarray  #: (Q,)
    gradients: np.ndarray  #: (Q, M)


class Curvatures(NamedTuple):
    """The quadratic model of the log density at points."""

    log_sums: np.ndarray  #: (Q,)
    gradients: np.ndarray  #: (Q, M)
    hessians: np.ndarray  #: (Q, M, M)
    precisions: np.ndarray  #: (Q, M, M) the mean precision of the kernels


class LogSurface:
    """The log of a sum of kernels, and its derivatives, prepared for many points.

    ``n_jobs`` is the number of threads if a call does not give another.
    """

    def __init__(self, kernels: Kernels, n_jobs: int | None = None) -> None:
        self.kernels = kernels
        self.n_jobs = n_jobs

    @cached_property
    def log_sums(self) -> LogSums:
        """The function that sums the kernels."""
        return log_sums_of(self.kernels)

    def values(self, X: np.ndarray) -> np.ndarray:
        """Return the log sums at points, without the Gaussians' constant."""
        return sums_at(self.log_sums, X, self.n_jobs)

    def slopes(self, X: np.ndarray, n_jobs: int | None = None) -> Slopes:
        """Return the log sums and gradients at points."""
        out = Slopes(np.empty(len(X)), np.empty(X.shape))
        return map_rows(self._slopes, X, _POINTS, n_jobs or self.n_jobs, out)

    def curvatures(self, X: np.ndarray, n_jobs: int | None = None) -> Curvatures:
        """Return the log sums, gradients, Hessians and mean precisions at points."""
        shape = (*X.shape, X.shape[1])
        out = Curvatures(np.empty(len(X)), np.empty(X.shape), np.empty(shape), np.empty(shape))
        n_numbers = max(part.n_groups for part in self._parts) * X.shape[1] ** 2
        n_points = min(_POINTS, max(1, _BLOCK_NUMBERS // n_numbers))
        return map_rows(self._curvatures, X, n_points, n_jobs or self.n_jobs, out)

    def _slopes(self, X: np.ndarray) -> Slopes:
        with np.errstate(all="ignore"):  # holds for this thread only
            slopes = _first_derivatives(self._parts, X)
            for i in np.flatnonzero(~_is_finite(slopes)):
                slopes.gradients[i] = _nearest_curvature(self.kernels, X[i])[0]
        return slopes

    def _curvatures(self, X: np.ndarray) -> Curvatures:
        slopes = self._slopes(X)
        with np.errstate(all="ignore"):
            out = Curvatures(*slopes, *_second_derivatives(self._parts, X, slopes))
            far = ~_is_finite(out) | (slopes.log_sums < _FAR)
            for i in np.flatnonzero(far):
                _, out.hessians[i], out.precisions[i] = _nearest_curvature(self.kernels, X[i])
        return out

    @cached_property
    def _parts(self) -> "list[_Part]":
        """The kernels that share covariances, and those that do not."""
        log_sizes = _log_sizes(self.kernels.transforms).min(axis=0)
        shared, own = split_by_sharing(self.kernels)
        parts: list[_Part] = []
        if shared is not None:
            parts.append(_SharedPart(shared, _slacks(shared.transforms, log_sizes)))
        if own is not None:
            parts.append(_OwnPart(own, _slacks(own.transforms, log_sizes)))
        return parts


def _is_finite(found: Slopes | Curvatures) -> np.ndarray:
    """Whether all values at a point are finite."""
    finite = [np.isfinite(each).reshape(len(each), -1).all(axis=1) for each in found]
    return np.asarray(np.logical_and.reduce(finite))


class _Moments(NamedTuple):
    """Sums over kernels at points, relative to ``exp(references)``."""

    references: np.ndarray  #: (Q,)
    shares: np.ndarray  #: (Q,)
    slopes: np.ndarray  #: (Q, M) minus a shift
    squares: np.ndarray  #: (Q, M, M) of those slopes; empty for first derivatives
    precisions: np.ndarray  #: (Q, M, M) likewise


def _log_sizes(transforms: np.ndarray) -> np.ndarray:
    """Return the log of the largest entry in every row of every transform."""
    return np.asarray(np.log(np.abs(transforms).max(axis=2)))


def _slacks(transforms: np.ndarray, log_sizes: np.ndarray) -> np.ndarray:
    """Return by how much the kernels of every group may be smaller before they are negligible.

    A kernel contributes to the derivatives in proportion to its precision, so that a narrow kernel
    may matter in the derivatives where it does not in the sum.
    """
    return np.asarray(2 * (_log_sizes(transforms) - log_sizes).max(axis=1))


def _first_derivatives(parts: "list[_Part]", X: np.ndarray) -> Slopes:
    """Return the mean slope of the kernels."""
    found = [part.slopes(X) for part in parts]
    log_sums = np.stack([each.references + np.log(each.shares) for each in found])
    weights = np.exp(log_sums - log_sums.max(axis=0))
    weights /= weights.sum(axis=0)
    gradients = np.zeros(X.shape)
    for weight, each in zip(weights, found, strict=True):
        rows = weight > 0
        gradients[rows] += (weight / each.shares)[rows, None] * each.slopes[rows]
    gradients[log_sums.max(axis=0) == -np.inf] = np.nan
    return Slopes(np.logaddexp.reduce(log_sums), gradients)


def _second_derivatives(
    parts: "list[_Part]", X: np.ndarray, slopes: Slopes
) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariance of the slopes minus the mean precision, and that precision."""
    found = [part.curvatures(X, slopes) for part in parts]
    scales = [np.exp(each.references - slopes.log_sums) for each in found]
    total = sum(scale * each.shares for scale, each in zip(scales, found, strict=True))
    means = np.zeros(X.shape)
    hessians, precisions = np.zeros((2, *X.shape, X.shape[1]))
    for scale, each in zip(scales, found, strict=True):
        share = (scale / total)[:, None, None]
        means += share[:, 0] * each.slopes
        hessians += share * (each.squares - each.precisions)
        precisions += share * each.precisions
    # The gradient was rounded, so that the mean of the slopes minus the gradient is not zero.
    hessians -= means[:, :, None] * means[:, None]
    return _symmetrized(hessians), _symmetrized(precisions)


def _symmetrized(matrices: np.ndarray) -> np.ndarray:
    """Return matrices (..., M, M) with exact symmetry restored."""
    return (matrices + matrices.swapaxes(-1, -2)) / 2


class _SharedPart:
    """Kernels that share covariances, in tiles of neighbors."""

    def __init__(self, kernels: Kernels, slacks: np.ndarray) -> None:
        self.shared = shared_tiles(kernels)
        self.transforms, _, self.tiles = self.shared
        self.inverses = np.linalg.inv(self.transforms)
        self.slacks = slacks
        self.n_groups = len(slacks)

    def slopes(self, X: np.ndarray) -> _Moments:
        """Sum the kernels, relative to a bound or, where that underflows, to their sum."""
        Y = self.shared.coordinates(X)
        found = self._moments(Y, Y, np.full(len(X), np.nan), second=False)
        lost = np.flatnonzero(~(found.shares > _UNDERFLOW))
        if lost.size:
            far = np.ascontiguousarray(Y[:, lost])
            sums = sum_shared(self.shared, NEGLIGIBLE, X[lost])
            again = self._moments(far, far, sums, second=False)
            for values, value in zip(found[:3], again[:3], strict=True):
                values[lost] = value
        return found

    def curvatures(self, X: np.ndarray, slopes: Slopes) -> _Moments:
        """Sum the kernels and the squares of their slopes minus the gradient."""
        Y = self.shared.coordinates(X)
        # The slope -T z minus the gradient is the slope at another place.
        origins = Y + np.matmul(slopes.gradients, self.inverses.transpose(0, 2, 1))
        return self._moments(Y, origins, slopes.log_sums.copy(), second=True)

    def _moments(
        self, Y: np.ndarray, origins: np.ndarray, references: np.ndarray, second: bool
    ) -> _Moments:
        n_groups, n_points, n_features = Y.shape
        n_tiles, _, size = self.tiles.columns.shape
        work = np.empty((3, size))
        firsts = np.zeros((n_points, n_groups, 1 + n_features))
        n_pairs = n_features * (n_features + 1) // 2
        seconds = np.zeros((n_points, n_groups, n_pairs) if second else (0, 0, 0))
        shared_kernel_moments(
            Y,
            origins,
            *self.tiles,
            self.slacks,
            np.empty(n_tiles),
            work,
            work.view(np.int64),
            np.empty((n_features, size)),
            references,
            firsts,
            seconds,
        )
        return self._in_data_units(references, firsts, seconds)

    def _in_data_units(
        self, references: np.ndarray, firsts: np.ndarray, seconds: np.ndarray
    ) -> _Moments:
        """Transform the moments of every group to data units and add them up."""
        transposed = self.transforms.transpose(0, 2, 1)
        shares = firsts[:, :, 0]
        # Products of small matrices: for large ones, threads of BLAS would compete with ours.
        slopes = -np.matmul(firsts[:, :, 1:].transpose(1, 0, 2), transposed).sum(axis=0)
        squares = precisions = np.empty((0, 0, 0))
        if len(seconds):
            squares = self.transforms @ _symmetric(seconds, slopes.shape[1]) @ transposed
            squares = squares.sum(axis=1)
            precisions = np.einsum("qg,gij->qij", shares, self.transforms @ transposed)
        return _Moments(references, shares.sum(axis=1), slopes, squares, precisions)


class _OwnPart:
    """Kernels with covariances of their own."""

    n_groups = 1

    def __init__(self, kernels: Kernels, slacks: np.ndarray) -> None:
        self.means, self.factors, self.log_weights = own_tiles(kernels)
        self.group = kernels.group_of_kernel
        self.transforms = kernels.transforms
        n_tiles, size = self.log_weights.shape
        self.slacks = tiled(slacks[self.group][:, None], n_tiles, size).max(axis=(1, 2))

    @cached_property
    def precisions(self) -> np.ndarray:
        """The precisions of the kernels, in tiles."""
        n_tiles, n_features, size = self.means.shape
        precisions = self.transforms @ self.transforms.transpose(0, 2, 1)
        rows, columns = np.triu_indices(n_features)
        return tiled(precisions[:, rows, columns][self.group], n_tiles, size)

    def slopes(self, X: np.ndarray) -> _Moments:
        """Sum the kernels, relative to the largest of them."""
        return self._moments(X, np.zeros(X.shape), np.full(len(X), -np.inf), second=False)

    def curvatures(self, X: np.ndarray, slopes: Slopes) -> _Moments:
        """Sum the kernels and the squares of their slopes minus the gradient."""
        return self._moments(X, slopes.gradients, slopes.log_sums.copy(), second=True)

    def _moments(
        self, X: np.ndarray, shifts: np.ndarray, references: np.ndarray, second: bool
    ) -> _Moments:
        _, n_features, size = self.means.shape
        work = np.empty((3, size))
        firsts = np.zeros((len(X), 1 + n_features))
        n_pairs = n_features * (n_features + 1) // 2
        seconds = np.zeros((2, len(X), n_pairs) if second else (0, 0, 0))
        own_kernel_moments(
            X,
            shifts,
            self.means,
            self.factors,
            self.precisions if second else seconds,
            self.log_weights,
            self.slacks,
            *np.empty((2, n_features, size)),
            work,
            work.view(np.int64),
            references,
            firsts,
            seconds,
        )
        squares = precisions = seconds
        if second:
            squares, precisions = _symmetric(seconds, n_features)
        return _Moments(references, firsts[:, 0], firsts[:, 1:], squares, precisions)


#: Kernels that are summed in the same way.
_Part = _SharedPart | _OwnPart


def _symmetric(triangles: np.ndarray, n_features: int) -> np.ndarray:
    """Return symmetric matrices (..., M, M) from their upper triangles, row by row."""
    rows, columns = np.triu_indices(n_features)
    out = np.empty((*triangles.shape[:-1], n_features, n_features))
    out[..., rows, columns] = out[..., columns, rows] = triangles
    return out


def nearest_shares(kernels: Kernels, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of kernels at a far point, and the point in their unit coordinates.

    Squared distances overflow there; differences between them need not.
    """
    units = x - kernels.means
    for transform, (start, end) in zip(kernels.transforms, pairwise(kernels.offsets), strict=True):
        units[start:end] = units[start:end] @ transform
    sizes = np.abs(units).max(axis=1)
    relative = units / np.where(sizes > 0, sizes, 1.0)[:, None]
    lengths = sizes * np.sqrt(np.einsum("ij,ij->i", relative, relative))
    shortest = np.fmin.reduce(lengths)
    farther = (lengths - shortest) / 2
    exponents = kernels.log_heights - farther * lengths - farther * shortest
    exponents[np.isnan(exponents)] = -np.inf
    # Where all exponents overflow, all kernels are equally far.
    shares = np.exp(np.nan_to_num(exponents - exponents.max(), neginf=-np.inf))
    return shares / shares.sum(), units


def _nearest_curvature(
    kernels: Kernels, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return gradient, Hessian and precision of the kernels that are nearest to a far point."""
    shares, units = nearest_shares(kernels, x)
    kept = np.flatnonzero(shares > 0)
    weights = shares[kept]
    transforms = kernels.transforms[kernels.group_of_kernel[kept]]
    slopes = -np.matmul(transforms, units[kept, :, None])[:, :, 0]
    # Measured from one of the slopes, so that equal slopes have no covariance.
    apart = slopes - slopes[0]
    mean = weights @ apart
    precision = np.tensordot(weights, transforms @ transforms.transpose(0, 2, 1), 1)
    hessian = (weights * (apart - mean).T) @ (apart - mean) - precision
    return slopes[0] + mean, _symmetrized(hessian), _symmetrized(precision)
