"""One cluster as its members see it: whitened, dealt out to folds."""

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
from .components import quadratic_features

#: Digits of whitened coordinates that are kept: more would be rounding, which must not decide
#: which of two samples at one distance is the nearer.
_DIGITS = 10
#: More numbers than this in matrices of samples, or more features, take too long.
_MOST_NUMBERS = 2e7
_MOST_FEATURES = 100
#: Local fits look at this many neighbours at most.
MOST_NEIGHBOURS = 250


@dataclass(frozen=True, eq=False)
class Cell:
    """The samples of a cluster.

    Attributes
    ----------
    points : ndarray of shape (n_rows, n_features)
        In coordinates in which ``whole`` is the unit ball.
    weights : ndarray of shape (n_rows,)
        How many samples each row stands for.
    folds : tuple of Fold
    whole : Ellipse
        Mean and shrunk scatter of all samples, in the coordinates that came in.
    parts : tuple of Ellipse
        The same without the samples of each fold, in the coordinates of ``points``.
    shrinkage : Shrinkage
        How scatters are shrunk.
    ridge : ndarray of shape (n_features, n_features)
        What is added to every scatter, in the coordinates of ``points``.
    common : ndarray of shape (n_features, n_features) or None
        The scatter that all clusters share, in the coordinates of ``points``.
    """

    points: np.ndarray
    weights: np.ndarray
    folds: tuple[Fold, ...]
    whole: Ellipse
    parts: tuple[Ellipse, ...]
    shrinkage: Shrinkage
    ridge: np.ndarray
    common: np.ndarray | None

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        ridge: np.ndarray,
        common: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> "Cell":
        """Whiten the samples of a cluster and deal them out."""
        folds = deal(weights, rng)
        seen = [weighted_moments(X[fold.train], fold.train_weights) for fold in folds]
        held = [Weighted(X[fold.test], fold.test_weights) for fold in folds]
        shrinkage = choose_shrinkage(seen, held, ridge, common)
        whole = shrunk_ellipse(weighted_moments(X, weights), ridge, common, shrinkage)
        turn = whole.transform
        parts = [shrunk_ellipse(each, ridge, common, shrinkage).relative_to(whole) for each in seen]
        return cls(
            points=np.round((X - whole.mean) @ turn, _DIGITS),
            weights=weights,
            folds=folds,
            whole=whole,
            parts=tuple(parts),
            shrinkage=shrinkage,
            ridge=turn.T @ ridge @ turn,
            common=None if common is None else turn.T @ common @ turn,
        )

    @property
    def n_rows(self) -> int:
        """The number of rows, which decides what things cost."""
        return len(self.points)

    @cached_property
    def total(self) -> float:
        """The number of samples, which decides what they tell."""
        return count(self.weights)

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        return int(self.points.shape[1])

    @cached_property
    def test_weights(self) -> np.ndarray:
        """How many samples each of the answers counts by which members are judged."""
        return np.concatenate([fold.test_weights for fold in self.folds])

    @property
    def allows_kernels_of_their_own(self) -> bool:
        """Whether a matrix for every row is not too much."""
        return self._allows(self.n_rows)

    @property
    def allows_components(self) -> bool:
        """Whether the products of all coordinates of the rows of a fit are not too much."""
        return self._allows(max(len(fold.subset) for fold in self.folds))

    def _allows(self, n_rows: int) -> bool:
        few = self.n_features <= _MOST_FEATURES
        return few and n_rows * self.n_features**2 <= _MOST_NUMBERS

    def features(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows with the products of their coordinates."""
        return quadratic_features(self.points[rows])

    @cached_property
    def neighbours(self) -> np.ndarray:
        """The nearest rows of every row, itself first, for every fit that needs some."""
        n_neighbors = min(self.n_rows, MOST_NEIGHBOURS * 5 // 4 + 10)
        found = KDTree(self.points).query(self.points, k=np.arange(1, n_neighbors + 1))
        return np.asarray(found[1])
