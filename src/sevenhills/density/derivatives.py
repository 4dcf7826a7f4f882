r"""Slopes and curvatures of the log density.

With the shares :math:`r_k` of the kernels at a point, and the slopes :math:`v_k = L_k (\mu_k - x)`
of their logarithms, the gradient is the mean slope and the Hessian the covariance of the slopes
less the mean precision. The covariance is taken about the gradient, in a second pass: far from all
kernels the difference of two mean squares would leave nothing.
"""

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..kernels.derivatives import own_kernel_moments, shared_kernel_moments
from ..kernels.mixture import careful_log_kernel_sums
from ..threads import map_blocks
from ..validation import check_queries
from .groups import KernelGroups
from .sums import Kernels, has_own_covariances, own_tiles, shared_tiles, tiled

#: Points whose slopes are added up together.
_POINTS = 256
#: The numbers that the second moments of a block may hold.
_BLOCK_NUMBERS = 2**18
#: A sum so small, beside the bound it is relative to, may have lost some of its terms.
_TOO_SMALL = 1e-280
#: Log densities below this are those of a point at which rounding moves a slope by more than one
#: percent of what it is in the kernels' units.
_FAR = -1e28


class Slopes(NamedTuple):
    """The log of the kernels' sum, but for the Gaussians' constant, and its gradient."""

    log_sums: np.ndarray  #: (Q,)
    gradients: np.ndarray  #: (Q, M)


class Curvatures(NamedTuple):
    """What a quadratic model of the log density needs."""

    log_sums: np.ndarray  #: (Q,)
    gradients: np.ndarray  #: (Q, M)
    hessians: np.ndarray  #: (Q, M, M)
    precisions: np.ndarray  #: (Q, M, M) the mean precision of the kernels


class Derivatives(KernelGroups):
    """The gradient and the Hessian of the log density."""

    def grad_logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return the gradient of the log density, the score function, at every row of ``X``.

        .. math:: \nabla \log p(x) = \sum_k r_k(x) \, \Sigma_{g(k)}^{-1} (\mu_k - x)

        where :math:`r_k(x)` is the share of kernel :math:`k` in the density at :math:`x`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Exact in the far tails, too; where even the logarithm of the density overflows, it is
            the gradient of the nearest kernel, as long as that is a finite number.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[1.0, 2.0]], [0, 1], [[[1.0, 0.0], [0.0, 2.0]]])
        >>> unit.grad_logpdf([[0.0, 0.0]])
        array([[1., 8.]])
        """
        X = check_queries(X, self.n_features, self.feature_names)
        return self._slopes(X, n_jobs).gradients

    def hess_logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return the matrix of second derivatives of the log density at every row of ``X``.

        .. math:: \nabla^2 \log p(x) = \sum_k r_k(x) \bigl((v_k - \bar v)(v_k - \bar v)^\top
                  - \Sigma_{g(k)}^{-1}\bigr), \qquad
                  v_k = \Sigma_{g(k)}^{-1} (\mu_k - x), \quad \bar v = \nabla \log p(x)

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Symmetric; in the far tails as exact as the gradient.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[1.0]], [0, 1], [[[2.0]]])
        >>> unit.hess_logpdf([[0.0]])
        array([[[-4.]]])
        """
        X = check_queries(X, self.n_features, self.feature_names)
        return self._curvatures(X, n_jobs).hessians

    def _slopes(self, X: np.ndarray, n_jobs: int | None = None) -> Slopes:
        """Return the slopes at checked points."""
        out = Slopes(np.empty(len(X)), np.empty(X.shape))
        _by_blocks(self._slopes_of_block, X, _POINTS, n_jobs, out)
        return out

    def _curvatures(self, X: np.ndarray, n_jobs: int | None = None) -> Curvatures:
        """Return the slopes and curvatures at checked points."""
        shape = (*X.shape, X.shape[1])
        out = Curvatures(np.empty(len(X)), np.empty(X.shape), np.empty(shape), np.empty(shape))
        n_numbers = max(part.n_groups for part in self._parts) * self.n_features**2
        n_points = min(_POINTS, max(1, _BLOCK_NUMBERS // n_numbers))
        _by_blocks(self._curvatures_of_block, X, n_points, n_jobs, out)
        return out

    def _slopes_of_block(self, X: np.ndarray) -> Slopes:
        with np.errstate(all="ignore"):  # holds for this thread only
            slopes = _first_derivatives(self._parts, X)
            for i in np.flatnonzero(~_is_finite(slopes)):
                slopes.gradients[i] = _nearest_curvature(self, X[i])[0]
        return slopes

    def _curvatures_of_block(self, X: np.ndarray) -> Curvatures:
        slopes = self._slopes_of_block(X)
        with np.errstate(all="ignore"):
            curvatures = Curvatures(*slopes, *_second_derivatives(self._parts, X, slopes))
            far = ~_is_finite(curvatures) | (slopes.log_sums < _FAR)
            for i in np.flatnonzero(far):
                _, curvatures.hessians[i], curvatures.precisions[i] = _nearest_curvature(self, X[i])
        return curvatures

    @cached_property
    def _parts(self) -> "tuple[_Part, ...]":
        """The kernels that share covariances, and those that do not."""
        return _parts_of(self._kernels)


def _by_blocks(function: Any, X: np.ndarray, size: int, n_jobs: int | None, out: Any) -> None:
    """Write what a function returns for blocks of points, in threads."""

    def evaluate(blocks: range) -> None:
        for block in blocks:
            rows = slice(block * size, (block + 1) * size)
            for values, found in zip(out, function(X[rows]), strict=True):
                values[rows] = found

    map_blocks(evaluate, -(-len(X) // size), n_jobs)


def _is_finite(found: Slopes | Curvatures) -> np.ndarray:
    """Whether nothing at a point has overflowed."""
    finite = [np.isfinite(each).reshape(len(each), -1).all(axis=1) for each in found]
    return np.asarray(np.logical_and.reduce(finite))


class _Moments(NamedTuple):
    """Sums over kernels at points, relative to ``exp(references)``."""

    references: np.ndarray  #: (Q,)
    shares: np.ndarray  #: (Q,)
    slopes: np.ndarray  #: (Q, M), less a shift
    squares: np.ndarray  #: (Q, M, M) of those slopes; empty if not asked for
    precisions: np.ndarray  #: (Q, M, M) empty, too, then


class _Part(Protocol):
    """Kernels that are added up in the same way."""

    n_groups: int

    def slopes(self, X: np.ndarray) -> _Moments: ...

    def curvatures(self, X: np.ndarray, slopes: Slopes) -> _Moments: ...


def _parts_of(kernels: Kernels) -> tuple[_Part, ...]:
    """Prepare kernels, those of large groups and the others each in their way."""
    kernels = kernels.compact()
    small, slacks = has_own_covariances(kernels), _slacks(kernels.transforms)
    if not small.any():
        return (_Shared(kernels, slacks),)
    own = _Own(kernels.take(np.flatnonzero(small)), slacks[small])
    if small.all():
        return (own,)
    return _Shared(kernels.take(np.flatnonzero(~small)), slacks[~small]), own


def _slacks(transforms: np.ndarray) -> np.ndarray:
    """Return how much farther down than others the kernels of every group still matter.

    What is negligible beside the sum of kernels may not be so in its derivatives, to which a
    kernel adds in proportion to its precision.
    """
    log_sizes = np.log(np.abs(transforms).max(axis=2))
    return np.asarray(2 * (log_sizes - log_sizes.min(axis=0)).max(axis=1))


def _first_derivatives(parts: tuple[_Part, ...], X: np.ndarray) -> Slopes:
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
    parts: tuple[_Part, ...], X: np.ndarray, slopes: Slopes
) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariance of the slopes less the mean precision, and that precision."""
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
    # The gradient was rounded, so that the mean of what is left is not quite zero.
    hessians -= means[:, :, None] * means[:, None]
    return _symmetrised(hessians), _symmetrised(precisions)


def _symmetrised(matrices: np.ndarray) -> np.ndarray:
    """Return matrices (..., M, M) without what rounding made of their symmetry."""
    return (matrices + matrices.swapaxes(-1, -2)) / 2


class _Shared:
    """Kernels that share covariances, in tiles of neighbours."""

    def __init__(self, kernels: Kernels, slacks: np.ndarray) -> None:
        self.transforms, self.locations, self.tiles = shared_tiles(kernels)
        self.inverses = np.linalg.inv(self.transforms)
        self.slacks = slacks
        self.n_groups = len(slacks)

    def slopes(self, X: np.ndarray) -> _Moments:
        """Add up the kernels, relative to a bound or, where that is too high, to their sum."""
        Y = np.matmul(X - self.locations[:, None], self.transforms)
        found = self._moments(Y, Y, np.full(len(X), np.nan), second=False)
        lost = np.flatnonzero(~(found.shares > _TOO_SMALL))
        if lost.size:
            log_sums = np.empty(len(lost))
            far, work = np.ascontiguousarray(Y[:, lost]), np.empty(self.tiles.columns.shape[2])
            careful_log_kernel_sums(
                far, self.tiles.groups, self.tiles.columns, self.tiles.log_weights, work, log_sums
            )
            again = self._moments(far, far, log_sums, second=False)
            for values, value in zip(found[:3], again[:3], strict=True):
                values[lost] = value
        return found

    def curvatures(self, X: np.ndarray, slopes: Slopes) -> _Moments:
        """Add up the kernels and the squares of their slopes, less the gradient."""
        Y = np.matmul(X - self.locations[:, None], self.transforms)
        # The slope -T z, less the gradient, is the slope at another place.
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
        """Turn the moments of every group back and add them up."""
        turned = self.transforms.transpose(0, 2, 1)
        shares = firsts[:, :, 0]
        # Products of small matrices: for large ones, threads of BLAS would get in the way of ours.
        slopes = -np.matmul(firsts[:, :, 1:].transpose(1, 0, 2), turned).sum(axis=0)
        squares = precisions = np.empty((0, 0, 0))
        if len(seconds):
            squares = self.transforms @ _symmetric(seconds, slopes.shape[1]) @ turned
            squares = squares.sum(axis=1)
            precisions = np.einsum("qg,gij->qij", shares, self.transforms @ turned)
        return _Moments(references, shares.sum(axis=1), slopes, squares, precisions)


class _Own:
    """Kernels with covariances of their own."""

    n_groups = 1

    def __init__(self, kernels: Kernels, slacks: np.ndarray) -> None:
        self.means, self.factors, self.log_weights = own_tiles(kernels)
        self.group = np.repeat(np.arange(len(slacks)), np.diff(kernels.offsets))
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
        """Add up the kernels, relative to the largest of them."""
        return self._moments(X, np.zeros(X.shape), np.full(len(X), -np.inf), second=False)

    def curvatures(self, X: np.ndarray, slopes: Slopes) -> _Moments:
        """Add up the kernels and the squares of their slopes, less the gradient."""
        return self._moments(X, slopes.gradients, slopes.log_sums.copy(), second=True)

    def _moments(
        self, X: np.ndarray, shifts: np.ndarray, references: np.ndarray, second: bool
    ) -> _Moments:
        _, n_features, size = self.means.shape
        work = np.empty((4, size))
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


def _symmetric(triangles: np.ndarray, n_features: int) -> np.ndarray:
    """Return symmetric matrices (..., M, M) from their upper triangles, row by row."""
    rows, columns = np.triu_indices(n_features)
    out = np.empty((*triangles.shape[:-1], n_features, n_features))
    out[..., rows, columns] = out[..., columns, rows] = triangles
    return out


def nearest_shares(density: KernelGroups, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of kernels at a far point, and its places in their unit coordinates.

    Squared distances overflow there; their differences need not.
    """
    units = x - density.means
    for transform, (start, end) in zip(density.transforms, pairwise(density.offsets), strict=True):
        units[start:end] = units[start:end] @ transform
    sizes = np.abs(units).max(axis=1)
    relative = units / np.where(sizes > 0, sizes, 1.0)[:, None]
    lengths = sizes * np.sqrt(np.einsum("ij,ij->i", relative, relative))
    shortest = np.fmin.reduce(lengths)
    farther = (lengths - shortest) / 2
    exponents = density.log_weights + density.log_dets[density._group_of_kernel]
    exponents = exponents - farther * lengths - farther * shortest
    exponents[np.isnan(exponents)] = -np.inf
    # Where all of them overflow, all kernels are equally far.
    shares = np.exp(np.nan_to_num(exponents - exponents.max(), neginf=-np.inf))
    return shares / shares.sum(), units


def _nearest_curvature(
    density: KernelGroups, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return gradient, Hessian and precision of the kernels that are nearest to a far point."""
    shares, units = nearest_shares(density, x)
    kept = np.flatnonzero(shares > 0)
    weights = shares[kept]
    transforms = density.transforms[density._group_of_kernel[kept]]
    slopes = -np.matmul(transforms, units[kept, :, None])[:, :, 0]
    # Differences from one of the slopes vanish where rounding leaves none.
    apart = slopes - slopes[0]
    mean = weights @ apart
    precision = np.tensordot(weights, transforms @ transforms.transpose(0, 2, 1), 1)
    hessian = (weights * (apart - mean).T) @ (apart - mean) - precision
    return slopes[0] + mean, _symmetrised(hessian), _symmetrised(precision)
