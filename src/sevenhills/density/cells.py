"""Cells of neighbouring kernels, and the one kernel that takes the place of each.

A cell is divided where its mean lies along the direction in which its means spread most, as
seen in widths of kernels. The kernel of a cell has its mass, its mean and its covariance, that of
the kernels themselves included; so mass, mean and covariance of a cluster stay as they are,
however coarse its cells.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from .sums import Kernels

#: The kernels of a cell, as indices.
Cell = np.ndarray


class Neighbourhood(NamedTuple):
    """The kernels of a cluster, in coordinates in which they have unit covariance on average.

    Attributes
    ----------
    rows : ndarray of shape (n_kernels,)
        Where the kernels stand in the mixture.
    log_weights : ndarray of shape (n_kernels,)
    means : ndarray of shape (n_kernels, n_features)
    groups : ndarray of shape (n_kernels,)
        The index of the covariance of every kernel.
    factors : ndarray of shape (n_groups, n_features, n_features)
        Of the covariances in these coordinates: ``factor.T @ factor``.
    transform, log_det : ndarray of shape (n_features, n_features), float
        What turns data into these coordinates.
    """

    rows: np.ndarray
    log_weights: np.ndarray
    means: np.ndarray
    groups: np.ndarray
    factors: np.ndarray
    transform: np.ndarray
    log_det: float

    @classmethod
    def of(cls, kernels: Kernels, rows: np.ndarray) -> "Neighbourhood":
        """Prepare some of the kernels of a mixture, each of which has a weight."""
        # Sums are then added up in the same order, in whichever order kernels are given.
        rows = rows[np.lexsort(kernels.means[rows].T)]
        means, log_weights = kernels.means[rows], kernels.log_weights[rows]
        group = np.searchsorted(kernels.offsets, rows, side="right") - 1
        own, groups = np.unique(group, return_inverse=True)
        masses = np.bincount(groups, shares_of(log_weights))
        heaviest = own[masses.argmax()]
        # From one of the transforms, since covariances square what is badly conditioned.
        transform = kernels.transforms[heaviest]
        factors = np.linalg.solve(kernels.transforms[own], transform)
        mean = _joint_factor(masses, factors)
        transform = transform @ np.linalg.inv(mean)
        return cls(
            rows,
            log_weights,
            means,
            groups,
            factors @ np.linalg.inv(mean),
            transform,
            float(kernels.log_dets[heaviest] - _log_det(mean)),
        )

    def whole(self) -> list[Cell]:
        """Return all kernels as one cell."""
        return [np.arange(len(self.rows))]

    def divide(self, cells: Sequence[Cell], n_cells: int) -> list[Cell]:
        """Return cells of which the heaviest were divided until there are as many.

        There are fewer if no cell is left that has means in different places.
        """
        weights = np.exp(self.log_weights - self.log_weights.max())
        number = count()
        heap = [(-weights[cell].sum(), next(number), cell) for cell in cells]
        heapify(heap)
        whole: list[Cell] = []
        while heap and len(heap) + len(whole) < n_cells:
            cell = heappop(heap)[2]
            upper = self._is_upper(cell)
            if upper.all() or not upper.any():
                whole.append(cell)
                continue
            for half in (cell[upper], cell[~upper]):
                heappush(heap, (-weights[half].sum(), next(number), half))
        return [*(cell for _, _, cell in heap), *whole]

    def _is_upper(self, cell: Cell) -> np.ndarray:
        """Return which means lie beyond the mean along the direction of largest variance."""
        if len(cell) == 1:
            return np.ones(1, dtype=bool)
        apart, shares = self._apart(cell)
        apart /= max(np.abs(apart).max(), np.finfo(float).tiny)  # else squares may overflow
        direction = np.linalg.eigh((apart * shares[:, None]).T @ apart)[1][:, -1]
        # Either sign is an eigenvector; means in the very middle must go to one side.
        direction *= np.sign(direction[np.abs(direction).argmax()])
        return np.asarray(apart @ direction > 0)

    def _apart(self, cell: Cell) -> tuple[np.ndarray, np.ndarray]:
        """Return how far means are from their mean, and the shares of kernels in it."""
        shares, means = shares_of(self.log_weights[cell]), self.means[cell]
        # From one of them: a point far away from a cell would cost it its digits.
        apart = (means - means[0]) @ self.transform
        return apart - shares @ apart, shares

    def merge(self, cells: Sequence[Cell]) -> Kernels:
        """Return one kernel for every cell, of the same mass, mean and covariance."""
        factors = [self._factor(cell) for cell in cells]
        return Kernels(
            np.array([np.logaddexp.reduce(self.log_weights[cell]) for cell in cells]),
            np.array([self._mean(cell) for cell in cells]),
            np.arange(len(cells) + 1),
            self.transform @ np.linalg.inv(np.array(factors)),
            np.array([self.log_det - _log_det(factor) for factor in factors]),
        )

    def _mean(self, cell: Cell) -> np.ndarray:
        shares = shares_of(self.log_weights[cell])
        means = self.means[cell]
        return np.asarray(means[0] + shares @ (means - means[0]))

    def _factor(self, cell: Cell) -> np.ndarray:
        """Return the triangular factor of the covariance of a cell."""
        apart, shares = self._apart(cell)
        own, groups = np.unique(self.groups[cell], return_inverse=True)
        spread = apart * np.sqrt(shares)[:, None]
        return _joint_factor(np.bincount(groups, shares), self.factors[own], spread)


def shares_of(log_weights: np.ndarray) -> np.ndarray:
    """Return weights that add up to one."""
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


def _joint_factor(
    shares: np.ndarray, factors: np.ndarray, spread: np.ndarray | None = None
) -> np.ndarray:
    """Return the triangular factor of a mean of covariances, and of the scatter of rows."""
    rows = (np.sqrt(shares)[:, None, None] * factors).reshape(-1, factors.shape[2])
    return np.asarray(np.linalg.qr(rows if spread is None else np.vstack([spread, rows]), mode="r"))


def _log_det(factor: np.ndarray) -> float:
    return float(np.log(np.abs(np.diagonal(factor))).sum())
