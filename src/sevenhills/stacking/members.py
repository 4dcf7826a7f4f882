"""Members: estimators for the density of one cluster, each a sum of Gaussian kernels.

A cluster is whitened and divided into folds first, which makes it a :class:`Cell`. A member is a
class with a name and a method ``fit``. To try a density of your own beside these, derive it from
:class:`Member` and pass an instance to ``AutoROME(members=[...])``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Self, TypeVar

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
from ..density import KernelMixture
from ..folds import Fold, count, deal
from ..kernels.blocks import neighborhood_moments
from .components import (
    ComponentFit,
    Prior,
    fit_components,
    gaussian_kernels,
    kmeans_start,
    quadratic_features,
)

#: Decimals of whitened coordinates. Further digits are rounding errors, which must not decide which
#: of two equally distant samples is the nearer.
_DECIMALS = 10
#: Upper bounds on the numbers in one matrix per row, and on the features; more take too long.
_MAX_NUMBERS = 2e7
_MAX_FEATURES = 100
#: Upper bound on the neighbors of a local Gaussian.
MAX_NEIGHBORS = 250
#: Weight of the pooled shape of components, in samples, if shapes are to be free; and per feature,
#: if they are to be pooled.
FREE, _POOLED = 3.0, 3.0
#: Degrees of freedom of Student's t.
DOF = 4.0


@dataclass(frozen=True, eq=False)
class Cell:
    """The samples of a cluster, in coordinates in which ``ellipse`` is the unit ball.

    The ellipse has the mean and the shrunk covariance of all samples, in the coordinates of the
    data; ``fold_ellipses`` have those of the training samples of each fold, in the coordinates of
    ``points``, as have the ridge, which is added to every covariance, and the covariance pooled
    over all clusters, which is None if there is one cluster.
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

    def allows_matrices(self, n_rows: int) -> bool:
        """Whether one matrix for each of ``n_rows`` rows is affordable."""
        few = self.n_features <= _MAX_FEATURES
        return few and n_rows * self.n_features**2 <= _MAX_NUMBERS

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

    def training_samples(self, f: int) -> "Samples":
        """Return the samples that are not held out by a fold."""
        fold = self.folds[f]
        return Samples(self, fold.train, fold.train_weights, self.fold_ellipses[f])


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples that a member is fitted to: all of a cluster, or those outside of a fold."""

    cell: Cell  #: the cluster
    rows: np.ndarray  #: (n_rows,) the rows of the cluster that are samples
    weights: np.ndarray  #: (n_rows,) the number of samples that each row stands for
    ellipse: Ellipse  #: their mean and shrunk covariance

    @property
    def points(self) -> np.ndarray:
        """The rows, in coordinates in which the cluster has mean 0 and covariance 1."""
        return self.cell.points[self.rows]


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the weighted mean of values, and its standard error; weights are repetitions."""
    total = weights.sum()
    mean = weights @ values / total
    return float(mean), float(np.sqrt(weights @ np.square(values - mean)) / total)


M = TypeVar("M", bound="Member", covariant=True)


@dataclass(frozen=True, eq=False)
class Trial(Generic[M]):
    """A member with the log densities ``held_out`` (n_test,) of held-out rows of a cluster.

    ``density`` returns the density of the cluster, in the coordinates of the cell. ``fits`` has the
    fit without each fold, if the member keeps them.
    """

    member: M
    held_out: np.ndarray
    weights: np.ndarray
    density: Callable[[], KernelMixture]
    fits: tuple[ComponentFit, ...] = ()

    @property
    def score(self) -> float:
        """The mean log density of held-out samples."""
        return mean_and_error(self.held_out, self.weights)[0]

    def gain_over(self, other: "Trial[Member]") -> tuple[float, float]:
        """Return the difference of the scores of two members, and its standard error."""
        return mean_and_error(self.held_out - other.held_out, self.weights)


class Member(ABC):
    """An estimator for the density of one cluster.

    A member has a ``name``, which summaries show, and a method :meth:`fit`. The base class judges
    it by cross-validation.

    Examples
    --------
    >>> from sevenhills import AutoROME, KernelMixture
    >>> class Round(Member):
    ...     name = "round Gaussian"
    ...
    ...     def fit(self, samples):
    ...         mean = np.average(samples.points, axis=0, weights=samples.weights)
    ...         return KernelMixture.from_covariances([1.0], [mean], np.eye(len(mean)))
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> AutoROME(members=[Round()]).fit(X).clusters_[0].n_tried
    24
    """

    name: str

    @abstractmethod
    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples.

        Parameters
        ----------
        samples : Samples
            With ``points`` (n_rows, n_features), in coordinates in which the cluster has about mean
            0 and covariance 1, and ``weights`` (n_rows,), the number of samples of each row.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the density does not exist; the member is left out.
        """

    def held_out(self, cell: Cell, f: int) -> np.ndarray:
        """Return the log densities of the test rows of a fold, fitted to its training rows."""
        return self.fit(cell.training_samples(f)).logpdf(cell.points[cell.folds[f].test])

    def judge(self, cell: Cell) -> Trial[Self]:
        """Judge the member on the folds of a cluster."""
        held_out = np.concatenate([self.held_out(cell, f) for f in cell.tested])
        return Trial(self, held_out, cell.test_weights, lambda: self.fit(cell.samples()))


class Gaussian(Member):
    """One Gaussian with the mean and the shrunk covariance of the samples."""

    name = "Gaussian"

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        mean, transform = samples.ellipse
        return KernelMixture(np.ones(1), mean[None], np.array([0, 1]), transform[None])


class Kernels(Member):
    r"""Kernels on all samples, moved towards the mean so that the covariance is kept.

    .. math:: \frac{1}{n} \sum_i w_i N(y;\, m + \sqrt{1 - h^2} (y_i - m),\, h^2 \Sigma)

    With the width :math:`h = 1` it is the Gaussian, with a small one a kernel density estimate.
    """

    def __init__(self, width: float) -> None:
        self.width = width
        self.name = f"kernels of width {width:.2g}"

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        mean, kept = samples.ellipse.mean, 1 - self.width**2
        # The ellipse includes the ridge, which every kernel has in full.
        covariance = self.width**2 * samples.ellipse.covariance + kept * samples.cell.ridge
        means = mean + np.sqrt(kept) * (samples.points - mean)
        return gaussian_kernels(samples.weights, means, covariance)


class LocalGaussians(Member):
    r"""Kernels on all samples, each with the covariance of its neighborhood.

    .. math:: \frac{1}{n} \sum_i w_i N(y;\, m_i + \sqrt{1 - h^2} (y_i - m_i),\, h^2 S_i)

    with mean :math:`m_i` and covariance :math:`S_i` of the nearest neighbors.
    """

    def __init__(self, n_neighbors: int, width: float) -> None:
        self.n_neighbors = n_neighbors
        self.width = width
        self.name = f"local Gaussians of {n_neighbors} neighbors, width {width:g}"

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        means, covariances = self._moments(samples)
        means = means + np.sqrt(1 - self.width**2) * (samples.points - means)
        covariances = self.width**2 * covariances + samples.cell.ridge
        return gaussian_kernels(samples.weights, means, covariances)

    def _moments(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance, shrunk towards the identity, of every neighborhood."""
        cell, rows, n_features = samples.cell, samples.rows, samples.cell.n_features
        weights = np.zeros(cell.n_rows)
        weights[rows] = samples.weights
        means = np.empty((len(rows), n_features))
        covariances = np.empty((len(rows), n_features, n_features))
        neighborhood_moments(
            cell.points, cell.neighbors, weights, rows, self.n_neighbors, means, covariances
        )
        sizes = np.trace(covariances, axis1=1, axis2=2) / n_features
        strength = np.sqrt(n_features)
        covariances *= self.n_neighbors
        covariances += (strength * sizes)[:, None, None] * np.eye(n_features)
        covariances /= self.n_neighbors + strength
        return samples.points + means, covariances


class FoldAverage(Member):
    """The mean of the fits of components without each fold.

    The fits differ, because they start from different samples, and their mean is better than any.
    """

    dof: float

    @abstractmethod
    def _prior(self, cell: Cell) -> Prior:
        """Return the shrinkage of the covariances."""

    def _start(self, points: np.ndarray, weights: np.ndarray, f: int) -> np.ndarray:
        """Return the responsibilities from which the fit without a fold starts."""
        return np.ones((len(points), 1))

    def fit_fold(self, cell: Cell, f: int) -> ComponentFit:
        """Fit components to a subset of the training samples of a fold."""
        points, weights = cell.points[cell.folds[f].subset], cell.folds[f].subset_weights
        start, features = self._start(points, weights, f), quadratic_features(points)
        return fit_components(features, weights, start, self._prior(cell), self.dof)

    def fit(self, samples: Samples) -> KernelMixture:
        """Return the mean of the fits without each fold of the cluster."""
        return self.judge(samples.cell).density()

    def judge(self, cell: Cell) -> Trial[Self]:
        """Judge the member on the folds of a cluster, and keep the fits."""
        fits = tuple(self.fit_fold(cell, f) for f in range(len(cell.folds)))
        tests = [(fits[f], cell.points[cell.folds[f].test]) for f in cell.tested]
        held_out = [fit.components.log_density(quadratic_features(rows)) for fit, rows in tests]

        def density() -> KernelMixture:
            parts = [fit.components.density(cell.ridge) for fit in fits]
            return KernelMixture.merge(parts, np.full(len(fits), 1 / len(fits)))

        return Trial(self, np.concatenate(held_out), cell.test_weights, density, fits)


class Student(FoldAverage):
    """One Student's t."""

    def __init__(self, dof: float = DOF) -> None:
        self.dof = dof
        self.name = f"Student's t of {dof:g} degrees of freedom"

    def _prior(self, cell: Cell) -> Prior:
        # The component is shrunk towards the identity as strongly as the Gaussian.
        odds = cell.shrinkage.diagonal / max(1 - cell.shrinkage.diagonal, 0.1)
        return Prior(1.0 + odds * cell.n_samples, 0.0, None, cell.ridge)


class Mixture(FoldAverage):
    """A mixture of Gaussians (infinite ``dof``) or of Student's t.

    If ``pooled``, covariances are shrunk strongly towards a common shape: that of all clusters or,
    if there is one cluster, that of all components. The fit starts from the mixture ``start`` of
    the same number of components, if there is one, and from seeded centers otherwise.
    """

    def __init__(
        self,
        n_components: int,
        pooled: bool,
        dof: float,
        seed: int,
        start: "Trial[Mixture] | None" = None,
    ) -> None:
        self.n_components = n_components
        self.pooled = pooled
        self.dof = dof
        self.seed = seed
        self.start = start
        kind = "Gaussians" if np.isinf(dof) else f"Student's t of {dof:g} degrees of freedom"
        self.name = f"{n_components} {kind}" + (", pooled shape" if pooled else "")

    def _start(self, points: np.ndarray, weights: np.ndarray, f: int) -> np.ndarray:
        if self.start is not None:
            return self.start.fits[f].shares
        rng = np.random.RandomState([self.seed, f])
        return kmeans_start(points, weights, self.n_components, rng)

    def _prior(self, cell: Cell) -> Prior:
        if not self.pooled:
            return Prior(1.0, FREE, None, cell.ridge)
        strength = _POOLED * cell.n_features
        if cell.pooled is not None:
            odds = cell.shrinkage.pooling / (1 - cell.shrinkage.pooling)
            strength = max(strength, odds * cell.n_samples)
        return Prior(1.0, strength, cell.pooled, cell.ridge)
