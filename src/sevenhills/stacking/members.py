"""Members: estimators for the density of one cluster, each a sum of Gaussian kernels.

A member is a class with a name and a method ``fit``. To try a density of your own beside these,
derive it from :class:`Member` and pass an instance to ``AutoROME(members=[...])``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from ..covariance import factor_covariance, weighted_moments, whitening_transforms
from ..density import KernelMixture
from ..density.sums import GAUSS_TRANSFORM_FEATURES, LOG_2PI
from ..kernels.blocks import neighborhood_moments
from .cells import Cell, Samples
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

#: Numbers of kernels that are always enough, for each ball of their width in the unit ball, and for
#: each feature and neighborhood of local Gaussians.
_ENOUGH_KERNELS, _KERNELS_PER_WIDTH, _KERNELS_PER_NEIGHBORHOOD = 128, 60.0, 8
#: Kernels with covariances of their own take about this number of times as long to evaluate.
_OWN_COST = 4
#: Kernels are summed at this number of pairs without a search for near ones.
_MAX_PAIRS = 2**17
#: Weight of the pooled shape of components, in samples, if shapes are to be free; and per feature,
#: if they are to be pooled.
FREE, _POOLED = 3.0, 3.0
#: Degrees of freedom of Student's t.
DOF = 4.0


class Member(ABC):
    """An estimator for the density of one cluster.

    A member has a ``name``, which summaries show, and a method :meth:`fit`. It is judged by
    cross-validation.

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
    >>> AutoROME(members=[Round()]).fit(X).cells_[0].members
    ('round Gaussian',)
    """

    name: str
    #: The time to evaluate a kernel, relative to that of kernels that share a covariance.
    kernel_cost: int = 1

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
        return self.fit(cell.training[f]).logpdf(cell.points[cell.folds[f].test]), None

    def density(self, cell: Cell, learned: Any) -> KernelMixture:
        """Return the density of all samples of a cluster."""
        return self.fit(cell.samples())

    def n_kernels(self, cell: Cell) -> int:
        """Return about the number of kernels of the density of a cell."""
        return 1


class Gaussian(Member):
    """One Gaussian with the mean and the shrunk covariance of the samples."""

    name = "Gaussian"

    def _parts(self, samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights and means of kernels, and the transform that whitens their covariance."""
        mean, transform = samples.ellipse
        return np.ones(1), mean[None], transform

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        weights, means, transform = self._parts(samples)
        return KernelMixture(weights, means, np.array([0, len(means)]), transform[None])

    def held_out(self, cell: Cell, f: int, learned: Any) -> tuple[np.ndarray, Any]:
        """Return the log densities of the test rows of a fold."""
        samples, points = cell.training[f], cell.points[cell.folds[f].test]
        if len(points) * len(samples.rows) > _MAX_PAIRS:
            return super().held_out(cell, f, learned)
        # All pairs of few rows take less time than the checks of a mixture.
        weights, means, transform = self._parts(samples)
        squares = cdist(points @ transform, means @ transform, "sqeuclidean")
        constant = np.linalg.slogdet(transform)[1] - 0.5 * cell.n_features * LOG_2PI
        return log_sum_exp(np.log(weights) - 0.5 * squares) + constant, None


class Kernels(Gaussian):
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
        samples = samples.thinned(self.n_kernels(samples.cell))
        mean, kept = samples.ellipse.mean, 1 - self.width**2
        # The ellipse includes the ridge, which every kernel has in full.
        covariance = self.width**2 * samples.covariance + kept * samples.cell.ridge
        means = mean + np.sqrt(kept) * (samples.points - mean)
        return samples.weights / samples.weights.sum(), means, whitening_transforms(covariance)


class FactorGaussian(Gaussian):
    r"""One Gaussian of few factors: :math:`\Sigma = L L^\top + \operatorname{diag} \psi`.

    With few samples in many dimensions, it has far fewer parameters than a covariance.
    """

    def __init__(self, n_factors: int) -> None:
        self.n_factors = n_factors
        self.name = f"Gaussian of {n_factors} factor{'s' if n_factors > 1 else ''}"

    def _parts(self, samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cell = samples.cell
        mean, covariance = weighted_moments(samples.points, samples.weights)
        # Factors and noise are those of the given features, not of whitened ones.
        given = cell.back.T @ (covariance + cell.ridge) @ cell.back
        found = cell.ellipse.transform.T @ factor_covariance(given, self.n_factors)
        covariance = found @ cell.ellipse.transform + cell.ridge
        return np.ones(1), mean[None], whitening_transforms(0.5 * (covariance + covariance.T))


class LocalGaussians(Member):
    r"""Kernels on all samples, each with the covariance of its neighborhood.

    .. math:: \frac{1}{n} \sum_i w_i N(y;\, m_i + \sqrt{1 - h^2} (y_i - m_i),\, h^2 S_i)

    with mean :math:`m_i` and covariance :math:`S_i` of the nearest neighbors.
    """

    kernel_cost = _OWN_COST

    def __init__(self, n_neighbors: int, width: float) -> None:
        self.n_neighbors = n_neighbors
        self.width = width
        self.name = f"local Gaussians of {n_neighbors} neighbors, width {width:g}"

    def n_kernels(self, cell: Cell) -> int:
        """Return the number of kernels: fewer than samples, if neighborhoods are large."""
        per_neighborhood = _KERNELS_PER_NEIGHBORHOOD * cell.n_features
        n_kernels = per_neighborhood * cell.n_rows // self.n_neighbors
        return min(cell.n_rows, max(_ENOUGH_KERNELS, n_kernels))

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        kept = samples.thinned(self.n_kernels(samples.cell))
        means, covariances = self._moments(samples, kept.rows)
        means = means + np.sqrt(1 - self.width**2) * (kept.points - means)
        covariances = self.width**2 * covariances + samples.cell.ridge
        return gaussian_kernels(kept.weights, means, covariances)

    def _moments(self, samples: Samples, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance, shrunk towards the identity, of the neighborhoods of rows."""
        cell, n_features = samples.cell, samples.cell.n_features
        weights = np.zeros(cell.n_rows)
        weights[samples.rows] = samples.weights
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
        return cell.points[rows] + means, covariances


class ComponentMember(Member):
    """Components that are fitted by expectation maximization.

    The fits without each fold and that of all samples start from the fit without the first fold.
    They are shrunk towards the covariance of their own samples: the identity, which is that of the
    whole cell, would tell of held-out samples.
    """

    kernel_cost = _OWN_COST
    n_components: int
    dof: float

    @abstractmethod
    def _prior(self, samples: Samples) -> Prior:
        """Return the shrinkage of the covariances."""

    def _start(self, samples: Samples) -> np.ndarray:
        """Return the responsibilities from which a fit starts."""
        return np.ones((len(samples.rows), 1))

    def components(self, samples: Samples, start: Components | None = None) -> Components:
        """Fit components to samples, from others if there are any."""
        features = quadratic_features(samples.points)
        shares = self._start(samples) if start is None else start.shares(features)
        prior = self._prior(samples)
        return fit_components(features, samples.weights, shares, prior, self.dof)

    def fit(self, samples: Samples) -> KernelMixture:
        """Fit the density of samples."""
        return self.components(samples).density(samples.cell.ridge)

    def held_out(self, cell: Cell, f: int, learned: Any) -> tuple[np.ndarray, Any]:
        """Return the log densities of the test rows of a fold, and the components."""
        found = self.components(cell.training_subsets[f], learned)
        return found.log_density(quadratic_features(cell.points[cell.folds[f].test])), found

    def density(self, cell: Cell, learned: Any) -> KernelMixture:
        """Return the density of all samples of a cluster."""
        return self.components(cell.subset(), learned).density(cell.ridge)

    def n_kernels(self, cell: Cell) -> int:
        """Return the number of Gaussians of all components."""
        return self.n_components * len(student_precisions(self.dof, cell.n_features)[0])


class Student(ComponentMember):
    """One Student's t."""

    n_components = 1

    def __init__(self, dof: float = DOF) -> None:
        self.dof = dof
        self.name = f"Student's t of {dof:g} degrees of freedom"

    def _prior(self, samples: Samples) -> Prior:
        # The component is shrunk as strongly as the Gaussian.
        cell, share = samples.cell, samples.cell.shrinkage.diagonal
        strength = 1.0 + share / max(1 - share, 0.1) * cell.n_samples
        return Prior(strength, 0.0, None, cell.ridge, samples.covariance)


@dataclass(eq=False)
class Mixture(ComponentMember):
    """A mixture of Gaussians (infinite ``dof``) or of Student's t.

    If ``pooled``, covariances are shrunk strongly towards a common shape: that of all clusters or,
    if there is one cluster, that of all components. The fit starts from the components ``start`` of
    the same number, if there are any; from the pieces of the cell, if their number is the same;
    and from seeded centers otherwise.
    """

    n_components: int
    pooled: bool
    dof: float
    seed: int
    start: Components | None = None

    def __post_init__(self) -> None:
        kind = "Gaussians" if np.isinf(self.dof) else Student(self.dof).name
        self.name = f"{self.n_components} {kind}" + (", pooled shape" if self.pooled else "")

    def _start(self, samples: Samples) -> np.ndarray:
        if self.start is not None:
            return self.start.shares(quadratic_features(samples.points))
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
