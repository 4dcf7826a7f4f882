"""Sums of kernels in many dimensions, with distances from matrix products.

In the coordinates of a group, ``-|y - z|^2 / 2`` is ``y z - y^2 / 2 - z^2 / 2``. Its rounding error
is a little larger than that of differences, and a matrix product is several times faster. Points
so far away that the rounding error could exceed the tolerance are summed directly.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from ..kernels.blocks import build_blocks
from ..kernels.products import add_exponentials
from .sums import Kernels, LogSums

#: Kernels of a block, which is summed or left out as a whole; rows of 512 products would share
#: cache lines.
_BLOCK_SIZE = 480
#: Points for which a block of kernels is summed together.
_N_POINTS = 128
#: Points that are sorted by their nearest group together.
_N_ORDERED = 4096
#: Smaller tolerances are met by direct sums: the compiled exponential has a hundredth of this as
#: its error.
_LEAST_TOL = 1e-9


class MatrixProducts(NamedTuple):
    """Sums of kernels that share covariances, up to a tolerance, in many dimensions.

    Memory: the kernels once more, and a megabyte for every thread.
    """

    groups: list["_Group"]
    n_kernels: int
    exact: LogSums

    @classmethod
    def from_kernels(cls, kernels: Kernels, exact: LogSums) -> "MatrixProducts":
        """Prepare the sums; ``exact`` sums directly where rounding would be too large."""
        some = kernels.with_weight()
        groups = [_Group.from_kernels(some, g, center) for g, center in enumerate(some.centers())]
        return cls(groups, some.n_kernels, exact)

    @property
    def n_points(self) -> int:
        """The number of points that are best summed together."""
        return _N_ORDERED

    def within(self, tol: float) -> LogSums:
        """Return the function whose error is below ``tol``, rounding aside."""
        if tol < _LEAST_TOL:
            return self.exact
        return partial(self._sum, min(tol, 0.5))

    def _sum(self, tol: float, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # holds for this thread only
            lengths = np.array([group.lengths(X) for group in self.groups])
            reaches = np.array([group.reach for group in self.groups])
            n_features = X.shape[1]
            rounding = (n_features + 8) * np.finfo(float).eps
            sure = (rounding * (lengths + reaches[:, None]) ** 2 < 0.4 * tol).all(axis=0)
        out = np.empty(len(X))
        if not sure.all():
            out[~sure] = self.exact(X[~sure])
        # Points of one group are summed together, so that other groups may be left out for all.
        nearest = np.where(sure, np.argmin(lengths, axis=0), -1)
        for g in np.unique(nearest[sure]):
            rows = np.flatnonzero(nearest == g)
            order = np.argsort(lengths[:, rows].mean(axis=1))
            for start in range(0, len(rows), _N_POINTS):
                some = rows[start : start + _N_POINTS]
                out[some] = self._sum_near(tol, X[some], order)
        return out

    def _sum_near(self, tol: float, X: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return the sums at a few points, adding the groups in a given order."""
        negligible = np.log(2 * self.n_kernels / tol)
        sums = np.stack([np.full(len(X), -np.inf), np.zeros(len(X))])
        for g in order:
            self.groups[g].add(X, negligible, sums)
        with np.errstate(divide="ignore"):
            return sums[0] + np.log(sums[1])


class _Group(NamedTuple):
    """A group of kernels in blocks of neighbors, in coordinates of unit Gaussians."""

    center: np.ndarray
    transform: np.ndarray
    columns: np.ndarray  #: (n_blocks, n_features, block_size)
    shifts: np.ndarray  #: (n_blocks, block_size) the log weights minus half the squared lengths
    middles: np.ndarray  #: (n_blocks, n_features) of a ball around every block
    radii: np.ndarray  #: (n_blocks,) of these balls
    tops: np.ndarray  #: (n_blocks,) the largest logarithm of a weight
    reach: float  #: the largest length

    @classmethod
    def from_kernels(cls, kernels: Kernels, g: int, center: np.ndarray) -> "_Group":
        rows = slice(kernels.offsets[g], kernels.offsets[g + 1])
        Z = (kernels.means[rows] - center) @ kernels.transforms[g]
        blocks = build_blocks(Z, _BLOCK_SIZE)
        middles = blocks.columns.mean(axis=2)
        log_weights = kernels.log_weights[rows][blocks.members] + kernels.log_dets[g]
        log_weights[np.arange(log_weights.shape[1]) >= blocks.sizes[:, None]] = -np.inf
        squares = np.einsum("bms,bms->bs", blocks.columns, blocks.columns)
        return cls(
            center,
            kernels.transforms[g],
            blocks.columns,
            log_weights - 0.5 * squares,
            middles,
            # Slightly wider than the blocks, so that rounding does not matter.
            1e-6 + np.sqrt(((blocks.columns - middles[:, :, None]) ** 2).sum(axis=1)).max(axis=1),
            log_weights.max(axis=1),
            float(np.sqrt(squares.max())),
        )

    def lengths(self, X: np.ndarray) -> np.ndarray:
        """Return the distances of points from the center of the group."""
        Y = (X - self.center) @ self.transform
        return np.sqrt(np.einsum("im,im->i", Y, Y))

    def add(self, X: np.ndarray, negligible: float, sums: np.ndarray) -> None:
        """Add the kernels to the sums at a few points."""
        Y = (X - self.center) @ self.transform
        halves = 0.5 * np.einsum("im,im->i", Y, Y)
        products = np.empty((len(X), self.columns.shape[2]))
        bounds = self._bounds(Y, halves)
        for b in np.argsort(-bounds.max(axis=1), kind="stable"):
            if (bounds[b] < sums[0] - negligible).all():
                continue
            np.matmul(Y, self.columns[b], out=products)
            add_exponentials(products, halves, self.shifts[b], bounds[b], negligible, sums)

    def _bounds(self, Y: np.ndarray, halves: np.ndarray) -> np.ndarray:
        """Return upper bounds of the exponents of every block at every point."""
        squares = 2 * (halves - self.middles @ Y.T)
        squares += np.einsum("bm,bm->b", self.middles, self.middles)[:, None]
        gaps = np.sqrt(np.maximum(squares, 0.0)) - self.radii[:, None]
        return self.tops[:, None] - 0.5 * np.maximum(gaps, 0.0) ** 2
