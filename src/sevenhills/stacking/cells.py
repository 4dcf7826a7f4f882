"""The samples of a cluster, whitened and divided into folds."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.spatial import KDTree

from ..covariance import Ellipse, Pooled, Shrinkage, shrunk_ellipse
from ..density.sums import LOG_2PI
from ..folds import Fold, count, deal

#: Decimals of whitened coordinates. Further digits are rounding errors, which must not decide which
#: of two equally distant samples is the nearer.
_DECIMALS = 10
#: Upper bounds on the numbers in one matrix per row, which take too long beyond, and on features.
_MAX_NUMBERS, _MAX_FEATURES = 2e7, 100
#: Upper bound on the neighbors of a local Gaussian.
MAX_NEIGHBORS = 64
#: Weight of the wide background of a density, in samples.
BACKGROUND = 0.1
#: The number of held-out samples on which all members are tried.
_ENOUGH_TO_SCAN = 60


@dataclass(frozen=True, eq=False)
class Cell:
    """The samples of a cluster, in coordinates in which ``ellipse`` is the unit ball.

    The ellipse has the mean and the shrunk covariance of all samples, in the coordinates of the
    data; ``fold_ellipses`` have those of the training samples of each fold, in the coordinates of
    ``points``, as have the ridge, which is added to every covariance, and the covariance pooled
    over all cells, which is None if there is one. Mixtures start from ``pieces``, the labels of
    nearly Gaussian parts, or from centers drawn with the seed.
    """

    points: np.ndarray
    weights: np.ndarray
    pieces: np.ndarray
    folds: tuple[Fold, ...]
    ellipse: Ellipse
    fold_ellipses: tuple[Ellipse, ...]
    shrinkage: Shrinkage
    ridge: np.ndarray
    pooled: np.ndarray | None
    seed: int

    @classmethod
    def from_samples(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        pieces: np.ndarray,
        ridge: np.ndarray,
        pooled: Pooled | None,
        rng: np.random.RandomState,
    ) -> "Cell":
        """Divide the samples of a cell into folds and whiten them."""
        folds = deal(weights, rng)
        whole, shrinkage = shrunk_ellipse(X, weights, ridge, pooled)
        training = [(X[fold.train], fold.train_weights) for fold in folds]
        parts = [shrunk_ellipse(*each, ridge, pooled)[0] for each in training]
        transform = whole.transform
        return cls(
            points=np.round((X - whole.mean) @ transform, _DECIMALS),
            weights=weights,
            pieces=_numbered(pieces, weights),
            folds=folds,
            ellipse=whole,
            fold_ellipses=tuple(part.relative_to(whole) for part in parts),
            shrinkage=shrinkage,
            ridge=transform.T @ ridge @ transform,
            pooled=None if pooled is None else transform.T @ pooled.covariance @ transform,
            seed=int(rng.randint(2**30)),
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

    @property
    def n_pieces(self) -> int:
        """The number of nearly Gaussian pieces in the cell."""
        return int(self.pieces.max()) + 1

    def test_weights(self, n_folds: int) -> np.ndarray:
        """Return the number of samples of every test row of the first folds."""
        return np.concatenate([fold.test_weights for fold in self.folds[:n_folds]])

    def log_background(self, f: int) -> np.ndarray:
        """Return the log density at test rows of a Gaussian twice as wide, of very small weight.

        The fitted density has such a background. Without it, one sample apart from all others
        would decide between narrow and wide kernels.
        """
        squares = np.square(self.points[self.folds[f].test]).sum(axis=1)
        log_density = -0.125 * squares - self.n_features * (0.5 * LOG_2PI + np.log(2.0))
        return np.asarray(log_density + np.log(BACKGROUND / self.n_samples))

    @property
    def n_tested(self) -> int:
        """The number of folds that have test rows, which are the first."""
        return sum(len(fold.test) > 0 for fold in self.folds)

    @cached_property
    def n_scanned(self) -> int:
        """The number of folds on which all members are tried: enough to have some test samples."""
        n_samples = np.cumsum([fold.test_weights.sum() for fold in self.folds])
        return min(self.n_tested, int(np.searchsorted(n_samples, _ENOUGH_TO_SCAN)) + 1)

    def allows_matrices(self, n_rows: int) -> bool:
        """Whether one matrix for each of ``n_rows`` rows is affordable."""
        return self.n_features <= _MAX_FEATURES and n_rows * self.n_features**2 <= _MAX_NUMBERS

    @property
    def allows_components(self) -> bool:
        """Whether the products of all coordinates of the rows of a fit are affordable."""
        return self.allows_matrices(max(len(fold.subset) for fold in self.folds))

    @cached_property
    def back(self) -> np.ndarray:
        """The matrix that takes points back to the axes and units of the data."""
        return np.linalg.inv(self.ellipse.transform)

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

    @cached_property
    def training(self) -> tuple["Samples", ...]:
        """The samples that each fold does not hold out."""
        pairs = zip(self.folds, self.fold_ellipses, strict=True)
        return tuple(Samples(self, fold.train, fold.train_weights, each) for fold, each in pairs)

    @cached_property
    def training_subsets(self) -> tuple["Samples", ...]:
        """Those of the samples outside of each fold to which expensive members are fitted."""
        parts = [(fold.subset, fold.subset_weights) for fold in self.folds]
        pairs = zip(parts, self.fold_ellipses, strict=True)
        return tuple(Samples(self, *part, ellipse) for part, ellipse in pairs)

    def subset(self) -> "Samples":
        """Return the samples of the cluster to which expensive members are fitted."""
        is_whole = len(self.folds[0].subset) == len(self.folds[0].train)
        return self.samples() if is_whole else self.training_subsets[0]


def _numbered(pieces: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return pieces numbered from 0; samples in none (-1) are in the largest."""
    inside = pieces >= 0
    largest = np.bincount(pieces[inside], weights[inside], minlength=1).argmax()
    return np.unique(np.where(inside, pieces, largest), return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples that a member is fitted to: all of a cluster, or those outside of a fold."""

    cell: Cell  #: the cluster
    rows: np.ndarray  #: (n_rows,) the rows of the cluster that are samples
    weights: np.ndarray  #: (n_rows,) the number of samples that each row stands for
    ellipse: Ellipse  #: their mean and shrunk covariance

    @cached_property
    def points(self) -> np.ndarray:
        """The rows, in coordinates in which the cluster has mean 0 and covariance 1."""
        return self.cell.points[self.rows]

    @cached_property
    def covariance(self) -> np.ndarray:
        """The shrunk covariance of the samples."""
        return self.ellipse.covariance

    def thinned(self, n_rows: int) -> "Samples":
        """Return at most a number of the rows, at even distances."""
        if len(self.rows) <= n_rows:
            return self
        kept = np.linspace(0, len(self.rows) - 1, n_rows).astype(np.int64)
        return replace(self, rows=self.rows[kept], weights=self.weights[kept])
