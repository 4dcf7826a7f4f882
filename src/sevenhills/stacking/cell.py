"""One cluster, prepared for its members: whitened and divided into folds."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import KDTree

from ..covariance import (
    Ellipse,
    Shrinkage,
    Weighted,
    choose_shrinkage,
    shrunk_ellipse,
    weighted_moments,
)
from ..folds import Fold, count, deal

#: Decimals of whitened coordinates. Further digits are rounding errors, which must not decide which
#: of two equally distant samples is the nearer.
_DECIMALS = 10
#: Upper bounds on the numbers in one matrix per row, and on the features; more take too long.
_MAX_NUMBERS = 2e7
_MAX_FEATURES = 100
#: Upper bound on the neighbors of a local Gaussian.
MAX_NEIGHBORS = 250


@dataclass(frozen=True, eq=False)
class Cell:
    """The samples of a cluster.

    Attributes
    ----------
    points : ndarray of shape (n_rows, n_features)
        In coordinates in which ``ellipse`` is the unit ball.
    weights : ndarray of shape (n_rows,)
        The number of samples that each row stands for.
    folds : tuple of Fold
    ellipse : Ellipse
        Mean and shrunk covariance of all samples, in the coordinates of the data.
    fold_ellipses : tuple of Ellipse
        Those of the training samples of each fold, in the coordinates of ``points``.
    shrinkage : Shrinkage
        The strengths of the shrinkage.
    ridge : ndarray of shape (n_features, n_features)
        Added to every covariance, in the coordinates of ``points``.
    pooled : ndarray of shape (n_features, n_features) or None
        The pooled covariance of all clusters, in the coordinates of ``points``.
    """

    points: np.ndarray
    weights: np.ndarray
    folds: tuple[Fold, ...]
    ellipse: Ellipse
    fold_ellipses: tuple[Ellipse, ...]
    shrinkage: Shrinkage
    ridge: np.ndarray
    pooled: np.ndarray | None

    @classmethod
    def from_samples(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        ridge: np.ndarray,
        pooled: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> "Cell":
        """Divide the samples of a cluster into folds and whiten them."""
        folds = deal(weights, rng)
        moments = [weighted_moments(X[fold.train], fold.train_weights) for fold in folds]
        held_out = [Weighted(X[fold.test], fold.test_weights) for fold in folds]
        shrinkage = choose_shrinkage(moments, held_out, ridge, pooled)
        whole = shrunk_ellipse(weighted_moments(X, weights), ridge, pooled, shrinkage)
        parts = [shrunk_ellipse(each, ridge, pooled, shrinkage) for each in moments]
        transform = whole.transform
        return cls(
            points=np.round((X - whole.mean) @ transform, _DECIMALS),
            weights=weights,
            folds=folds,
            ellipse=whole,
            fold_ellipses=tuple(part.relative_to(whole) for part in parts),
            shrinkage=shrinkage,
            ridge=transform.T @ ridge @ transform,
            pooled=None if pooled is None else transform.T @ pooled @ transform,
        )

    @property
    def n_rows(self) -> int:
        """The number of rows, which decides the cost of a fit."""
        return len(self.points)

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        return int(self.points.shape[1])

    @cached_property
    def n_samples(self) -> float:
        """The number of samples, which decides how much can be learned."""
        return count(self.weights)

    @cached_property
    def test_weights(self) -> np.ndarray:
        """The number of samples of every test row, over all folds."""
        return np.concatenate([fold.test_weights for fold in self.folds])

    @property
    def tested(self) -> list[int]:
        """The folds that have test rows."""
        return [f for f, fold in enumerate(self.folds) if len(fold.test)]

    @property
    def allows_own_covariances(self) -> bool:
        """Whether one covariance per row is affordable."""
        return self._allows(self.n_rows)

    @property
    def allows_components(self) -> bool:
        """Whether the products of all coordinates of the rows of a fit are affordable."""
        return self._allows(max(len(fold.subset) for fold in self.folds))

    def _allows(self, n_rows: int) -> bool:
        few = self.n_features <= _MAX_FEATURES
        return few and n_rows * self.n_features**2 <= _MAX_NUMBERS

    @cached_property
    def back(self) -> np.ndarray:
        """The matrix that takes points back to the axes and units of the data."""
        return np.linalg.inv(self.ellipse.transform)

    @cached_property
    def unwhitened(self) -> np.ndarray:
        """The points in the axes and units of the data, relative to the mean."""
        return np.asarray(self.points @ self.back)

    @cached_property
    def neighbors(self) -> np.ndarray:
        """The nearest rows of every row, itself first; computed once for all fits."""
        n_neighbors = min(self.n_rows, MAX_NEIGHBORS * 5 // 4 + 10)
        found = KDTree(self.points).query(self.points, k=np.arange(1, n_neighbors + 1))
        return np.asarray(found[1])

    def samples(self) -> "Samples":
        """Return all samples of the cluster."""
        unit = Ellipse(np.zeros(self.n_features), np.eye(self.n_features))
        return Samples(self, np.arange(self.n_rows), self.weights, unit)

    def training_samples(self, f: int) -> "Samples":
        """Return the samples that are not held out by a fold."""
        fold = self.folds[f]
        return Samples(self, fold.train, fold.train_weights, self.fold_ellipses[f])


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples that a member is fitted to: all of a cluster, or those outside of a fold.

    Attributes
    ----------
    cell, rows : Cell and ndarray of shape (n_rows,)
        The cluster, and the rows of it.
    weights : ndarray of shape (n_rows,)
        The number of samples that each row stands for.
    ellipse : Ellipse
        Their mean and shrunk covariance.
    """

    cell: Cell
    rows: np.ndarray
    weights: np.ndarray
    ellipse: Ellipse

    @property
    def points(self) -> np.ndarray:
        """The rows, in coordinates in which the cluster has mean 0 and covariance 1."""
        return self.cell.points[self.rows]
