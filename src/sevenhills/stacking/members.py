"""What can be put on a cluster: every member is a sum of Gaussian kernels.

A member is fitted once for every fold, without the samples of the fold, which are then used to
judge it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..covariance import Ellipse, whitening_transforms
from ..density import KernelMixture
from ..folds import Fold
from ..kernels.neighborhoods import neighbourhood_moments
from .cell import Cell
from .components import (
    Components,
    Prior,
    fit_components,
    log_density,
    nearest_centres,
)
from .student import precisions
from .warp import Bent, Spots
from .weights import mean_and_error

#: Shapes of components are shrunk by as many samples as this, or as this times the features.
_LIGHT, _HEAVY = 3.0, 3.0
#: The degrees of freedom of Student's t.
DOF = 4.0


@dataclass(frozen=True, eq=False)
class Member:
    """A way to estimate the density of a cluster, and how well it did.

    Attributes
    ----------
    name : str
    held_out : ndarray of shape (n_asked,)
        The log densities of samples that were not seen.
    test_weights : ndarray of shape (n_asked,)
        How many samples were given each.
    build : callable
        Returns the density of the cluster, in the coordinates of the cell.
    """

    name: str
    held_out: np.ndarray
    test_weights: np.ndarray
    build: Callable[[], KernelMixture]

    @property
    def score(self) -> float:
        """The mean log density of samples that were not seen."""
        return mean_and_error(self.held_out, self.test_weights)[0]

    def gain_over(self, other: "Member") -> tuple[float, float]:
        """Return by how much that exceeds another's, and the standard error of it."""
        return mean_and_error(self.held_out - other.held_out, self.test_weights)


def _judged(
    cell: Cell,
    name: str,
    answers: Callable[[int, Fold], np.ndarray],
    build: Callable[[], KernelMixture],
) -> Member:
    """Return the member whose fits say this of the samples that they have not seen."""
    held_out = np.empty(len(cell.test_weights))
    for f, fold in enumerate(cell.folds):
        if len(fold.test):
            held_out[fold.places] = answers(f, fold)
    return Member(name, held_out, cell.test_weights, build)


# One ellipse


def gaussian(cell: Cell) -> Member:
    """Put one Gaussian with the mean and the shrunk covariance of the cluster on it."""

    def answers(f: int, fold: Fold) -> np.ndarray:
        return _ball(cell.parts[f]).logpdf(cell.points[fold.test])

    unit = Ellipse(np.zeros(cell.n_features), np.eye(cell.n_features))
    return _judged(cell, "Gaussian", answers, partial(_ball, unit))


def _ball(ellipse: Ellipse) -> KernelMixture:
    return KernelMixture(np.ones(1), ellipse.mean[None], np.array([0, 1]), ellipse.transform[None])


# Kernels of one shape


def shrunk_kernels(cell: Cell, width: float) -> Member:
    r"""Put kernels on all samples, drawn towards the mean, so that the covariance stays as it is.

    .. math:: \frac{1}{n} \sum_i w_i N(y;\, m + \sqrt{1 - h^2} (y_i - m),\, h^2 \Sigma)

    With :math:`h = 1` it is the cluster's Gaussian, with a small :math:`h` a kernel density.
    """

    def answers(f: int, fold: Fold) -> np.ndarray:
        points, weights = cell.points[fold.train], fold.train_weights
        kernels = _kernels(points, weights, cell.parts[f], width, cell.ridge)
        return kernels.logpdf(cell.points[fold.test])

    unit = Ellipse(np.zeros(cell.n_features), np.eye(cell.n_features))
    return _judged(
        cell,
        f"kernels of width {width:.2g}",
        answers,
        partial(_kernels, cell.points, cell.weights, unit, width, cell.ridge),
    )


def _kernels(
    points: np.ndarray, weights: np.ndarray, ellipse: Ellipse, width: float, ridge: np.ndarray
) -> KernelMixture:
    # The ellipse has the ridge in it, of which nothing must be taken away.
    scatter = width**2 * ellipse.covariance + (1 - width**2) * ridge
    return KernelMixture(
        weights=weights / weights.sum(),
        means=ellipse.mean + np.sqrt(1 - width**2) * (points - ellipse.mean),
        offsets=np.array([0, len(points)]),
        transforms=whitening_transforms(scatter)[None],
    )


def bent_kernels(cell: Cell, width: float) -> Member:
    """Put kernels on all samples in the space of normal margins.

    Margins are those of the features as they came in; see :mod:`~sevenhills.stacking.warp`.
    """
    return _on_bent_margins(
        cell, width, Bent.own_spots, f"kernels of width {width:.2g} on bent margins"
    )


def bent_gaussian(cell: Cell, width: float) -> Member:
    """Put a Gaussian, spelled out in kernels, on the samples in the space of normal margins.

    That is a Gaussian copula with the margins of the samples.
    """
    return _on_bent_margins(
        cell, width, Bent.normal_spots, f"Gaussian on bent margins, in kernels of width {width:.2g}"
    )


def _on_bent_margins(
    cell: Cell, width: float, spots_of: Callable[[Bent], Spots], name: str
) -> Member:
    turn, back = cell.whole.transform, np.linalg.inv(cell.whole.transform)
    given = cell.points @ back
    ridge = back.T @ cell.ridge @ back

    def kernels(X: np.ndarray, weights: np.ndarray) -> KernelMixture:
        bent = Bent.of(X, weights)
        return bent.carried_back(spots_of(bent), width, ridge)

    def answers(f: int, fold: Fold) -> np.ndarray:
        density = kernels(given[fold.train], fold.train_weights)
        return density.logpdf(given[fold.test]) - cell.whole.log_det

    def build() -> KernelMixture:
        return kernels(given, cell.weights).affine(turn, np.zeros(cell.n_features))

    return _judged(cell, name, answers, build)


# Kernels of their own shapes


def local_gaussians(cell: Cell, n_neighbors: int, width: float) -> Member:
    r"""Put kernels on all samples, each with the shape of its neighbourhood.

    .. math:: \frac{1}{n} \sum_i w_i N(y;\, m_i + \sqrt{1 - h^2} (y_i - m_i),\, h^2 S_i)

    with mean :math:`m_i` and covariance :math:`S_i` of the nearest neighbours.
    """

    def windows(rows: np.ndarray, weights: np.ndarray) -> KernelMixture:
        points, (means, scatters) = cell.points[rows], _shapes(cell, n_neighbors, rows, weights)
        return KernelMixture(
            weights=weights / weights.sum(),
            means=means + np.sqrt(1 - width**2) * (points - means),
            offsets=np.arange(len(rows) + 1),
            transforms=whitening_transforms(width**2 * scatters + cell.ridge),
        )

    def answers(f: int, fold: Fold) -> np.ndarray:
        return windows(fold.train, fold.train_weights).logpdf(cell.points[fold.test])

    name = f"local Gaussians of {n_neighbors} neighbours, width {width:g}"
    return _judged(cell, name, answers, partial(windows, np.arange(cell.n_rows), cell.weights))


def _shapes(
    cell: Cell, n_neighbors: int, rows: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of the neighbourhood of each of some rows among them."""
    n_features = cell.n_features
    seen = np.zeros(cell.n_rows)
    seen[rows] = weights
    means = np.empty((len(rows), n_features))
    scatters = np.empty((len(rows), n_features, n_features))
    neighbourhood_moments(cell.points, cell.neighbours, seen, rows, n_neighbors, means, scatters)
    sizes = np.trace(scatters, axis1=1, axis2=2) / n_features
    strength = np.sqrt(n_features)
    scatters *= n_neighbors
    scatters += (strength * sizes)[:, None, None] * np.eye(n_features)
    scatters /= n_neighbors + strength
    return cell.points[rows] + means, scatters


# A few ellipses


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """Components fitted without each fold, from which more can be started."""

    n_components: int
    alike: bool
    member: Member
    shares: tuple[np.ndarray, ...]


def mixture(
    cell: Cell,
    n_components: int,
    alike: bool,
    dof: float,
    seed: int,
    start: MixtureFit | None = None,
) -> MixtureFit:
    """Fit a mixture of ellipses, the mean of the fits to all folds.

    The fits differ, as they start from different samples, and their mean is better than any. If
    components are to be alike, their shapes are shrunk much towards each other, or, where there
    are other clusters, towards what these have in common.
    """
    prior = _prior(cell, alike)
    fits = []
    for f, fold in enumerate(cell.folds):
        if start is not None:
            shares = start.shares[f]
        else:
            rng = np.random.RandomState([seed, f])
            points = cell.points[fold.subset]
            shares = nearest_centres(points, fold.subset_weights, n_components, rng)
        features = cell.features(fold.subset)
        fits.append(fit_components(features, fold.subset_weights, shares, prior, dof))

    def answers(f: int, fold: Fold) -> np.ndarray:
        return log_density(cell.features(fold.test), fits[f][0])

    kind = "Gaussians" if np.isinf(dof) else f"Student's t of {dof:g} degrees of freedom"
    member = _judged(
        cell,
        f"{n_components} {kind}" + (", alike" if alike else ""),
        answers,
        partial(_mean_of, [fit[0] for fit in fits], cell.ridge),
    )
    return MixtureFit(n_components, alike, member, tuple(fit[1] for fit in fits))


def _prior(cell: Cell, alike: bool) -> Prior:
    if not alike:
        return Prior(1.0, _LIGHT, None, cell.ridge)
    if cell.common is None:
        return Prior(1.0, _HEAVY * cell.n_features, None, cell.ridge)
    odds = cell.shrinkage.pooling / (1 - cell.shrinkage.pooling)
    strength = max(_HEAVY * cell.n_features, odds * cell.total)
    return Prior(1.0, strength, cell.common, cell.ridge)


def student(cell: Cell, dof: float = DOF) -> Member:
    """Fit one Student's t, the mean of the fits to all folds."""
    few = cell.shrinkage.diagonal / max(1 - cell.shrinkage.diagonal, 0.1) * cell.total
    prior = Prior(1.0 + few, 0.0, None, cell.ridge)

    def fitted(fold: Fold) -> Components:
        start = np.ones((len(fold.subset), 1))
        return fit_components(cell.features(fold.subset), fold.subset_weights, start, prior, dof)[0]

    fits = [fitted(fold) for fold in cell.folds]

    def answers(f: int, fold: Fold) -> np.ndarray:
        return log_density(cell.features(fold.test), fits[f])

    name = f"Student's t of {dof:g} degrees of freedom"
    return _judged(cell, name, answers, partial(_mean_of, fits, cell.ridge))


def _mean_of(fits: Sequence[Components], ridge: np.ndarray) -> KernelMixture:
    parts = [_ellipses(fit, ridge) for fit in fits]
    return KernelMixture.merge(parts, np.full(len(fits), 1 / len(fits)))


def _ellipses(components: Components, ridge: np.ndarray) -> KernelMixture:
    weights, means, scatters, dof = components
    factors, shares = np.ones(1), np.ones(1)
    if not np.isinf(dof):
        factors, shares = precisions(dof, means.shape[1])
    # None of the Gaussians in a Student's t may be narrower than the ridge.
    widths = 1 / np.tile(factors, len(means))[:, None, None]
    scatters = np.repeat(scatters, len(factors), axis=0)
    scatters = widths * scatters + np.maximum(1 - widths, 0.0) * ridge
    return KernelMixture(
        weights=np.outer(weights, shares).ravel(),
        means=np.repeat(means, len(factors), axis=0),
        offsets=np.arange(len(scatters) + 1),
        transforms=whitening_transforms(scatters),
    )
