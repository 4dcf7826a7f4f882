"""Members: estimators for the density of one cluster, each a sum of Gaussian kernels.

A cluster is whitened and divided into folds first, which makes it a :class:`Cell`. A member is a
class with a name and a method ``fit``. To try a density of your own beside these, derive it from
:class:`Member` and pass an instance to ``AutoROME(members=[...])``.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from ..covariance import (
    Ellipse,
    Pooled,
    Shrinkage,
    shrunk_ellipse,
    weighted_moments,
    whitening_transforms,
)
from ..density import KernelMixture
from ..density.engines import GAUSS_TRANSFORM_FEATURES
from ..density.sums import LOG_2PI
from ..folds import Fold, count, deal
from ..kernels.blocks import neighborhood_moments
from .components import (
    Components,
    Prior,
    fit_components,
    gaussian_kernels,
    kmeans_start,
    log_sum_exp,
    quadratic_features,
    student_precisions,
)

#: Decimals of whitened coordinates. Further digits are rounding errors, which must not decide which
#: of two equally distant samples is the nearer.
_DECIMALS = 10
#: Upper bounds on the numbers in one matrix per row, which take too long beyond, on those that are
#: kept for further fits, and on the features.
_MAX_NUMBERS = 2e7
_MOST_KEPT = 1e6
_MAX_FEATURES = 100
#: Upper bound on the neighbors of a local Gaussian.
MAX_NEIGHBORS = 64
#: Weight of the wide background of a density, in samples.
BACKGROUND = 0.1
#: The number of held-out samples on which all members are tried.
_ENOUGH_TO_SCAN = 60
#: Numbers of kernels that are always enough, for each ball of their width in the unit ball, and for
#: each feature and neighborhood of local Gaussians.
_ENOUGH_KERNELS, _KERNELS_PER_WIDTH, _KERNELS_PER_NEIGHBORHOOD = 128, 60.0, 8
#: Kernels with covariances of their own take about this number of times as long to evaluate.
_OWN_COST = 4
#: Steps, tolerance, and least share of a feature's variance that is noise, in fits of factors.
_FACTOR_STEPS, _NOISE_TOLERANCE, _LEAST_NOISE = 60, 1e-3, 0.05
#: Kernels are summed at this number of pairs without a search for near ones.
_MAX_PAIRS = 2**17
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
        parts = [
            shrunk_ellipse(X[fold.train], fold.train_weights, ridge, pooled)[0] for fold in folds
        ]
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

    def test_weights(self, folds: Sequence[int]) -> np.ndarray:
        """Return the number of samples of every test row of some folds."""
        return np.concatenate([self.folds[f].test_weights for f in folds])

    def log_background(self, f: int) -> np.ndarray:
        """Return the log density at test rows of a Gaussian twice as wide, of very small weight.

        The fitted density has such a background. Without it, one sample apart from all others
        would decide between narrow and wide kernels.
        """
        squares = np.square(self.points[self.folds[f].test]).sum(axis=1)
        log_density = -0.125 * squares - self.n_features * (0.5 * LOG_2PI + np.log(2.0))
        return np.asarray(log_density + np.log(BACKGROUND / self.n_samples))

    @cached_property
    def tested(self) -> tuple[int, ...]:
        """The folds that have test rows."""
        return tuple(f for f, fold in enumerate(self.folds) if len(fold.test))

    @cached_property
    def scanned(self) -> tuple[int, ...]:
        """The folds on which all members are tried: enough to have some test samples."""
        n_tested = np.cumsum([self.folds[f].test_weights.sum() for f in self.tested])
        return self.tested[: int(np.searchsorted(n_tested, _ENOUGH_TO_SCAN)) + 1]

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

    @cached_property
    def _training(self) -> dict[int, "Samples"]:
        return {}

    def training_samples(self, f: int) -> "Samples":
        """Return the samples that are not held out by a fold."""
        if f not in self._training:
            fold, ellipse = self.folds[f], self.fold_ellipses[f]
            self._training[f] = Samples(self, fold.train, fold.train_weights, ellipse)
        return self._training[f]

    def training_subset(self, f: int) -> "Samples":
        """Return those of the samples outside of a fold to which expensive members are fitted."""
        fold = self.folds[f]
        if len(fold.subset) == len(fold.train):
            return self.training_samples(f)
        return Samples(self, fold.subset, fold.subset_weights, self.fold_ellipses[f])

    def subset(self) -> "Samples":
        """Return the samples of the cluster to which expensive members are fitted."""
        if len(self.folds[0].subset) == len(self.folds[0].train):
            return self.samples()
        return self.training_subset(0)


def _numbered(pieces: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return pieces numbered from 0; samples in none (-1) are in the largest."""
    inside = pieces >= 0
    if not inside.any():
        return np.zeros_like(pieces)
    _, numbers = np.unique(pieces[inside], return_inverse=True)
    out = np.full_like(pieces, np.bincount(numbers, weights[inside]).argmax())
    out[inside] = numbers
    return out


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

    @cached_property
    def _features(self) -> np.ndarray:
        return quadratic_features(self.points)

    @property
    def features(self) -> np.ndarray:
        """One, the coordinates and their products; kept for further fits if they are few."""
        is_small = len(self.rows) * self.cell.n_features**2 <= _MOST_KEPT
        return self._features if is_small else quadratic_features(self.points)

    def thinned(self, n_rows: int) -> "Samples":
        """Return at most a number of the rows, at even distances."""
        if len(self.rows) <= n_rows:
            return self
        kept = np.linspace(0, len(self.rows) - 1, n_rows).astype(np.int64)
        return replace(self, rows=self.rows[kept], weights=self.weights[kept])


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the weighted mean of values, and its standard error; weights are repetitions."""
    total = weights.sum()
    mean = weights @ values / total
    return float(mean), float(np.sqrt(weights @ np.square(values - mean)) / total)


M = TypeVar("M", bound="Member", covariant=True)


@dataclass(frozen=True, eq=False)
class Trial(Generic[M]):
    """A member, and the log densities ``held_out`` (n_test,) of the test rows of some folds.

    ``learned`` is what the fit without the first of these folds found, if the member keeps it: the
    fits without other folds and of all samples start from there.
    """

    member: M
    cell: Cell
    folds: tuple[int, ...]
    held_out: np.ndarray
    learned: Any = None

    @property
    def weights(self) -> np.ndarray:
        """The number of samples of every test row."""
        return self.cell.test_weights(self.folds)

    @property
    def score(self) -> float:
        """The mean log density of held-out samples."""
        return mean_and_error(self.held_out, self.weights)[0]

    def gain_over(self, other: "Trial[Member]") -> tuple[float, float]:
        """Return the difference of the scores of two members, and its standard error."""
        n_rows = min(len(self.held_out), len(other.held_out))
        gains = self.held_out[:n_rows] - other.held_out[:n_rows]
        return mean_and_error(gains, self.weights[:n_rows])

    def continued(self, folds: Sequence[int]) -> "Trial[M]":
        """Judge the member on more folds: ``folds`` begin with those that it was judged on."""
        more = [f for f in folds if f not in self.folds]
        found = [self.member.judged(self.cell, f, self.learned)[0] for f in more]
        held_out = np.concatenate([self.held_out, *found])
        return replace(self, folds=(*self.folds, *more), held_out=held_out)

    def density(self) -> KernelMixture:
        """Return the density of all samples, in the coordinates of the cell."""
        return self.member.density(self.cell, self.learned)


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
    >>> AutoROME(members=[Round()]).fit(X).clusters_[0].members
    ('round Gaussian',)
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

    def held_out(self, cell: Cell, f: int, learned: Any) -> tuple[np.ndarray, Any]:
        """Return the log densities of the test rows of a fold, and what the fit has learned.

        The fit is that to the training rows of the fold; ``learned`` is from another fold, or None.
        """
        return self.fit(cell.training_samples(f)).logpdf(cell.points[cell.folds[f].test]), None

    def judged(self, cell: Cell, f: int, learned: Any) -> tuple[np.ndarray, Any]:
        """Return the log densities of held-out rows with the background, and what was learned."""
        held_out, learned = self.held_out(cell, f, learned)
        return np.logaddexp(held_out, cell.log_background(f)), learned

    def density(self, cell: Cell, learned: Any) -> KernelMixture:
        """Return the density of all samples of a cluster."""
        return self.fit(cell.samples())

    def n_kernels(self, cell: Cell) -> int:
        """Return about the number of kernels of the density of a cell."""
        return 1

    def cost(self, cell: Cell) -> int:
        """Return the number of kernels of one covariance that take about as long to evaluate."""
        return self.n_kernels(cell)

    def judge(self, cell: Cell, folds: Sequence[int] | None = None) -> Trial[Self]:
        """Judge the member on some folds of a cluster, by default on all that have test rows."""
        first, *others = cell.tested if folds is None else folds
        held_out, learned = self.judged(cell, first, None)
        trial = Trial(self, cell, (first,), held_out, learned)
        return trial.continued((first, *others)) if others else trial


class Kernels(Member):
    r"""Kernels on all samples, moved towards the mean so that the covariance is kept.

    .. math:: \frac{1}{n} \sum_i w_i N(y;\, m + \sqrt{1 - h^2} (y_i - m),\, h^2 \Sigma)

    With the width :math:`h = 1` it is the Gaussian, with a small one a kernel density estimate.
    """

    def __init__(self, width: float) -> None:
        self.width = width
        self.name = f"kernels of width {width:.2g}"

    def n_kernels(self, cell: Cell) -> int:
        """Return the number of kernels: fewer than samples, if kernels are wide."""
        if cell.n_features <= GAUSS_TRANSFORM_FEATURES:  # many are as fast as few
            return cell.n_rows
        with np.errstate(over="ignore"):
            n_kernels = _KERNELS_PER_WIDTH * np.power(self.width, -float(cell.n_features))
        return int(min(cell.n_rows, max(_ENOUGH_KERNELS, n_kernels)))

    def _parts(self, samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights and means of kernels, and the transform that whitens their covariance."""
        samples = samples.thinned(self.n_kernels(samples.cell))
        mean, kept = samples.ellipse.mean, 1 - self.width**2
        # The ellipse includes the ridge, which every kernel has in full.
        covariance = self.width**2 * samples.covariance + kept * samples.cell.ridge
        means = mean + np.sqrt(kept) * (samples.points - mean)
        return samples.weights / samples.weights.sum(), means, whitening_transforms(covariance)

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        weights, means, transform = self._parts(samples)
        return KernelMixture(weights, means, np.array([0, len(means)]), transform[None])

    def held_out(self, cell: Cell, f: int, learned: Any) -> tuple[np.ndarray, Any]:
        """Return the log densities of the test rows of a fold."""
        samples, points = cell.training_samples(f), cell.points[cell.folds[f].test]
        if len(points) * len(samples.rows) > _MAX_PAIRS:
            return super().held_out(cell, f, learned)
        # All pairs of few rows take less time than the checks of a mixture.
        weights, means, transform = self._parts(samples)
        squares = cdist(points @ transform, means @ transform, "sqeuclidean")
        constant = np.linalg.slogdet(transform)[1] - 0.5 * cell.n_features * LOG_2PI
        return log_sum_exp(np.log(weights) - 0.5 * squares) + constant, None


class Gaussian(Kernels):
    """One Gaussian with the mean and the shrunk covariance of the samples."""

    name = "Gaussian"

    def __init__(self) -> None:
        self.width = 1.0

    def _parts(self, samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        mean, transform = samples.ellipse
        return np.ones(1), mean[None], transform

    def n_kernels(self, cell: Cell) -> int:
        """Return one."""
        return 1


class FactorGaussian(Kernels):
    r"""One Gaussian of few factors: :math:`\Sigma = L L^\top + \operatorname{diag} \psi`.

    With few samples in many dimensions, it has far fewer parameters than a covariance.
    """

    def __init__(self, n_factors: int) -> None:
        self.n_factors = n_factors
        self.width = 1.0
        self.name = f"Gaussian of {n_factors} factor{'s' if n_factors > 1 else ''}"

    def n_kernels(self, cell: Cell) -> int:
        """Return one."""
        return 1

    def _parts(self, samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cell = samples.cell
        mean, covariance = weighted_moments(samples.points, samples.weights)
        # Factors and noise are those of the given features, not of whitened ones.
        given = cell.back.T @ (covariance + cell.ridge) @ cell.back
        found = cell.ellipse.transform.T @ _factor_covariance(given, self.n_factors)
        covariance = found @ cell.ellipse.transform + cell.ridge
        return np.ones(1), mean[None], whitening_transforms(0.5 * (covariance + covariance.T))


def _factor_covariance(covariance: np.ndarray, n_factors: int) -> np.ndarray:
    """Return the covariance of few factors that is likeliest, by alternating maximization."""
    variances = np.diag(covariance)
    noise = 0.5 * variances
    for _ in range(_FACTOR_STEPS):
        stds = np.sqrt(noise)
        values, axes = np.linalg.eigh(covariance / np.outer(stds, stds))
        gains = np.sqrt(np.maximum(values[-n_factors:] - 1, 0.0))
        loadings = stds[:, None] * axes[:, -n_factors:] * gains
        before, noise = noise, variances - np.square(loadings).sum(axis=1)
        noise = np.maximum(noise, _LEAST_NOISE * variances)
        if np.abs(noise - before).max() < _NOISE_TOLERANCE * variances.max():
            break
    return np.asarray(loadings @ loadings.T + np.diag(noise))


class LocalGaussians(Member):
    r"""Kernels on all samples, each with the covariance of its neighborhood.

    .. math:: \frac{1}{n} \sum_i w_i N(y;\, m_i + \sqrt{1 - h^2} (y_i - m_i),\, h^2 S_i)

    with mean :math:`m_i` and covariance :math:`S_i` of the nearest neighbors.
    """

    def __init__(self, n_neighbors: int, width: float) -> None:
        self.n_neighbors = n_neighbors
        self.width = width
        self.name = f"local Gaussians of {n_neighbors} neighbors, width {width:g}"

    def n_kernels(self, cell: Cell) -> int:
        """Return the number of kernels: fewer than samples, if neighborhoods are large."""
        per_neighborhood = _KERNELS_PER_NEIGHBORHOOD * cell.n_features
        n_kernels = per_neighborhood * cell.n_rows // self.n_neighbors
        return min(cell.n_rows, max(_ENOUGH_KERNELS, n_kernels))

    def cost(self, cell: Cell) -> int:
        """Return a multiple of the number of kernels, which have covariances of their own."""
        return _OWN_COST * self.n_kernels(cell)

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        means, covariances, samples = self._moments(samples)
        means = means + np.sqrt(1 - self.width**2) * (samples.points - means)
        covariances = self.width**2 * covariances + samples.cell.ridge
        return gaussian_kernels(samples.weights, means, covariances)

    def _moments(self, samples: Samples) -> tuple[np.ndarray, np.ndarray, Samples]:
        """Return mean and covariance, shrunk towards the identity, of the neighborhoods of rows."""
        cell, n_features = samples.cell, samples.cell.n_features
        weights = np.zeros(cell.n_rows)
        weights[samples.rows] = samples.weights
        samples = samples.thinned(self.n_kernels(cell))
        rows = samples.rows
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
        return samples.points + means, covariances, samples


class ComponentMember(Member):
    """Components that are fitted by expectation maximization.

    The fits without each fold and that of all samples start from the fit without the first fold.
    """

    dof: float
    n_components: int = 1

    @abstractmethod
    def _prior(self, samples: Samples) -> Prior:
        """Return the shrinkage of the covariances.

        The target is the covariance of the samples: the coordinates are those in which that of the
        whole cell is the identity, but held-out samples must not be known.
        """

    def _start(self, samples: Samples) -> np.ndarray:
        """Return the responsibilities from which a fit starts."""
        return np.ones((len(samples.rows), 1))

    def components(self, samples: Samples, start: Components | None = None) -> Components:
        """Fit components to samples, from others if there are any."""
        features = samples.features
        shares = self._start(samples) if start is None else start.shares(features)
        prior = self._prior(samples)
        return fit_components(features, samples.weights, shares, prior, self.dof)

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        return self.components(samples).density(samples.cell.ridge)

    def held_out(self, cell: Cell, f: int, learned: Any) -> tuple[np.ndarray, Any]:
        """Return the log densities of the test rows of a fold, and the components."""
        found = self.components(cell.training_subset(f), learned)
        return found.log_density(quadratic_features(cell.points[cell.folds[f].test])), found

    def density(self, cell: Cell, learned: Any) -> KernelMixture:
        """Return the density of all samples of a cluster."""
        return self.components(cell.subset(), learned).density(cell.ridge)

    def n_kernels(self, cell: Cell) -> int:
        """Return the number of Gaussians of all components."""
        if np.isinf(self.dof):
            return self.n_components
        return self.n_components * len(student_precisions(self.dof, cell.n_features)[0])

    def cost(self, cell: Cell) -> int:
        """Return a multiple of the number of kernels, which have covariances of their own."""
        return _OWN_COST * self.n_kernels(cell)


class Student(ComponentMember):
    """One Student's t."""

    def __init__(self, dof: float = DOF) -> None:
        self.dof = dof
        self.name = f"Student's t of {dof:g} degrees of freedom"

    def _prior(self, samples: Samples) -> Prior:
        # The component is shrunk as strongly as the Gaussian.
        cell, share = samples.cell, samples.cell.shrinkage.diagonal
        strength = 1.0 + share / max(1 - share, 0.1) * cell.n_samples
        return Prior(strength, 0.0, None, cell.ridge, samples.covariance)


class Mixture(ComponentMember):
    """A mixture of Gaussians (infinite ``dof``) or of Student's t.

    If ``pooled``, covariances are shrunk strongly towards a common shape: that of all clusters or,
    if there is one cluster, that of all components. The fit starts from the components ``start`` of
    the same number, if there are any; from the pieces of the cell, if their number is the same;
    and from seeded centers otherwise.
    """

    def __init__(
        self,
        n_components: int,
        pooled: bool,
        dof: float,
        seed: int,
        start: Components | None = None,
    ) -> None:
        self.n_components = n_components
        self.pooled = pooled
        self.dof = dof
        self.seed = seed
        self.start = start
        kind = "Gaussians" if np.isinf(dof) else f"Student's t of {dof:g} degrees of freedom"
        self.name = f"{n_components} {kind}" + (", pooled shape" if pooled else "")

    @property
    def kind(self) -> tuple[bool, float]:
        """Whether shapes are pooled, and the degrees of freedom."""
        return self.pooled, self.dof

    def _start(self, samples: Samples) -> np.ndarray:
        if self.start is not None:
            return self.start.shares(samples.features)
        if self.n_components == samples.cell.n_pieces:
            return np.eye(self.n_components)[samples.cell.pieces[samples.rows]]
        rng = np.random.RandomState(self.seed)
        # Components of one shape are round in the given coordinates rather than in whitened ones.
        points = samples.points @ samples.cell.back if self.pooled else samples.points
        return kmeans_start(points, samples.weights, self.n_components, rng)

    def _prior(self, samples: Samples) -> Prior:
        cell, target = samples.cell, samples.covariance
        if not self.pooled:
            return Prior(1.0, FREE, None, cell.ridge, target)
        strength = _POOLED * cell.n_features
        if cell.pooled is not None:
            odds = cell.shrinkage.pooling / max(1 - cell.shrinkage.pooling, 0.1)
            strength = max(strength, odds * cell.n_samples)
        return Prior(1.0, strength, cell.pooled, cell.ridge, target)
