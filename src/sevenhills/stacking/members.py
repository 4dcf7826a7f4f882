"""Members: estimators for the density of one cluster, each a sum of Gaussian kernels.

A member is a class with a name and a method ``fit``. To try a density of your own beside these,
derive it from :class:`Member` and pass an instance to ``AutoROME(members=[...])``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Self, TypeVar

import numpy as np

from ..density import KernelMixture
from ..kernels.neighborhoods import neighborhood_moments
from .cell import Cell, Samples
from .components import (
    ComponentFit,
    Prior,
    fit_components,
    gaussian_kernels,
    kmeans_start,
    quadratic_features,
)
from .margins import NormalScores

#: Weight of the pooled shape of components, in samples, if shapes are to be free; and per feature,
#: if they are to be pooled.
_FREE, _POOLED = 3.0, 3.0
#: Degrees of freedom of Student's t.
DOF = 4.0


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the mean of values that occur as often as their weights, and its standard error.

    Examples
    --------
    >>> mean, error = mean_and_error(np.array([0.0, 4.0]), np.array([3.0, 1.0]))
    >>> mean, round(error, 3)
    (1.0, 0.866)
    """
    total = weights.sum()
    mean = weights @ values / total
    return float(mean), float(np.sqrt(weights @ np.square(values - mean)) / total)


M = TypeVar("M", bound="Member", covariant=True)


@dataclass(frozen=True, eq=False)
class Trial(Generic[M]):
    """A member that was judged on a cluster.

    Attributes
    ----------
    member : Member
    held_out : ndarray of shape (n_test,)
        The log densities of held-out rows, in the coordinates of the cell.
    weights : ndarray of shape (n_test,)
        The number of samples that each of these rows stands for.
    density : callable
        Returns the density of the cluster, in the coordinates of the cell.
    fits : tuple of ComponentFit
        The fits without each fold, if the member keeps them.
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
    33
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


class NormalScoreKernels(Member):
    """Kernels on all samples in the space of normal scores; see :mod:`~.stacking.margins`.

    Margins are those of the features of the data, not of the whitened ones.
    """

    def __init__(self, width: float) -> None:
        self.width = width
        self.name = f"kernels of width {width:.2g} on normal scores"

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        cell = samples.cell
        return self._fit_data(samples).affine(cell.ellipse.transform, np.zeros(cell.n_features))

    def held_out(self, cell: Cell, f: int) -> np.ndarray:
        """Return the log densities of a fold, computed in the units of the data."""
        density = self._fit_data(cell.training_samples(f))
        return density.logpdf(cell.unwhitened[cell.folds[f].test]) - cell.ellipse.log_det

    def _fit_data(self, samples: Samples) -> KernelMixture:
        cell = samples.cell
        scores = NormalScores.from_samples(cell.unwhitened[samples.rows], samples.weights)
        return self._kernels(scores, cell.back.T @ cell.ridge @ cell.back)

    def _kernels(self, scores: NormalScores, ridge: np.ndarray) -> KernelMixture:
        return scores.kernels(self.width, ridge)


class GaussianCopula(NormalScoreKernels):
    """A Gaussian in the space of normal scores, made of kernels: a Gaussian copula."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.name = f"Gaussian copula in kernels of width {width:.2g}"

    def _kernels(self, scores: NormalScores, ridge: np.ndarray) -> KernelMixture:
        return scores.copula_kernels(self.width, ridge)


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

    @abstractmethod
    def fit_fold(self, cell: Cell, f: int) -> ComponentFit:
        """Fit components to a subset of the training samples of a fold."""

    def fit(self, samples: Samples) -> KernelMixture:
        """Return the mean of the fits without each fold of the cluster."""
        return self.judge(samples.cell).density()

    def judge(self, cell: Cell) -> Trial[Self]:
        """Judge the member on the folds of a cluster, and keep the fits."""
        fits = tuple(self.fit_fold(cell, f) for f in range(len(cell.folds)))
        features = [quadratic_features(cell.points[fold.test]) for fold in cell.folds]
        held_out = [fits[f].components.log_density(features[f]) for f in cell.tested]
        density = partial(_mean_density, fits, cell.ridge)
        return Trial(self, np.concatenate(held_out), cell.test_weights, density, fits)


def _mean_density(fits: Sequence[ComponentFit], ridge: np.ndarray) -> KernelMixture:
    parts = [fit.components.density(ridge) for fit in fits]
    return KernelMixture.merge(parts, np.full(len(fits), 1 / len(fits)))


class Student(FoldAverage):
    """One Student's t."""

    def __init__(self, dof: float = DOF) -> None:
        self.dof = dof
        self.name = f"Student's t of {dof:g} degrees of freedom"

    def fit_fold(self, cell: Cell, f: int) -> ComponentFit:
        """Fit one component, shrunk towards the identity as much as the Gaussian is."""
        fold, diagonal = cell.folds[f], cell.shrinkage.diagonal
        round_ = 1.0 + diagonal / max(1 - diagonal, 0.1) * cell.n_samples
        prior = Prior(round_, 0.0, None, cell.ridge)
        features = quadratic_features(cell.points[fold.subset])
        start = np.ones((len(fold.subset), 1))
        return fit_components(features, fold.subset_weights, start, prior, self.dof)


class Mixture(FoldAverage):
    """A mixture of Gaussians or of Student's t.

    Parameters
    ----------
    n_components : int
    pooled : bool
        Whether covariances are shrunk strongly towards a common shape: that of all clusters or, if
        there is one cluster, that of all components.
    dof : float
        Degrees of freedom; infinite for Gaussians.
    seed : int
        Seeds the start.
    start : Trial, optional
        A mixture of as many components to start from.
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

    def fit_fold(self, cell: Cell, f: int) -> ComponentFit:
        """Fit components to a subset of the training samples of a fold."""
        fold = cell.folds[f]
        points, weights = cell.points[fold.subset], fold.subset_weights
        if self.start is not None:
            shares = self.start.fits[f].shares
        else:
            rng = np.random.RandomState([self.seed, f])
            shares = kmeans_start(points, weights, self.n_components, rng)
        features = quadratic_features(points)
        return fit_components(features, weights, shares, self._prior(cell), self.dof)

    def _prior(self, cell: Cell) -> Prior:
        if not self.pooled:
            return Prior(1.0, _FREE, None, cell.ridge)
        strength = _POOLED * cell.n_features
        if cell.pooled is not None:
            odds = cell.shrinkage.pooling / (1 - cell.shrinkage.pooling)
            strength = max(strength, odds * cell.n_samples)
        return Prior(1.0, strength, cell.pooled, cell.ridge)
