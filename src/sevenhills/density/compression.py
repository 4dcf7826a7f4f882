"""Fewer kernels in place of many, and the loss of held-out log density.

Every cluster is divided into cells, and the kernels of a cell become one kernel of the same weight,
mean and covariance; so the weight, mean and covariance of a cluster stay the same, however coarse
its cells. A cell is divided at its mean along the direction of the largest variance of its kernel
means, in widths of kernels.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ..estimate import Estimate, mean_with_error
from ..validation import check_count
from .sums import (
    GAUSS_TRANSFORM_FEATURES,
    LOG_2PI,
    Kernels,
    has_own_covariances,
    log_sums_of,
    sums_at,
)

#: A normal variable deviates by more than this many standard errors once in a hundred times.
_STANDARD_ERRORS = 2.576
#: Chosen with twice the margin, a compression is confirmed by other points 19 times in 20.
_CHOOSING_ERRORS = 2 * _STANDARD_ERRORS
#: A gain in log density is clipped at this, so that a few outliers do not offset all losses.
_MAX_GAIN = 10.0
#: Fewer held-out points do not bound the mean loss.
_MIN_POINTS = 100
#: A Gauss transform takes at least as long as this many kernels with covariances of their own.
_TRANSFORM_COST = 1024
#: The default number of kernels makes scoring this many times as fast.
_MIN_SPEEDUP = 2

#: The kernels of a cell, as indices.
Cell = np.ndarray


class CompressionError(ValueError):
    """No density of fewer kernels is good enough; the message says what was measured."""


@dataclass(frozen=True, eq=False)
class Compression:
    """A density of fewer kernels, and its loss at held-out points that were not used to choose it.

    Attributes
    ----------
    density : KernelMixture
        The density of fewer kernels.
    n_before : int
        The number of kernels before.
    loss : Estimate
        The mean decrease of the log density over the held-out points; negative if it increases. A
        gain at a single point counts as 10 at most.
    bound : float
        An upper bound of the loss, with a confidence of 99 %.
    change : Estimate
        The mean absolute change of the log density.
    largest : float
        The largest loss at a single held-out point.
    """

    density: Any
    n_before: int
    loss: Estimate
    bound: float
    change: Estimate
    largest: float

    @property
    def n_after(self) -> int:
        """The number of kernels after."""
        return int(self.density.n_kernels)


def compress(
    density: Any, X: np.ndarray, max_loss: float, max_kernels: int | None, n_jobs: int | None
) -> Compression:
    """Compress a kernel mixture: half of the points choose the kernels, the others measure."""
    clusters = _clusters(density.kernels, density.clusters)
    budget = _budget(density.kernels, max_kernels, len(clusters))
    before, half = density.logpdf(X, n_jobs), len(X) // 2
    points, log_densities = density._latent_points(X[:half], before[:half], n_jobs)
    search = _Search(list(clusters.values()), points, log_densities, n_jobs)
    smaller = _merged(density, clusters, search.coarsest(max_loss, budget))
    losses = _losses(before[half:], smaller.logpdf(X[half:], n_jobs))
    found = Compression(
        density=smaller,
        n_before=density.n_kernels,
        loss=Estimate(*mean_with_error(_clipped(losses)), len(losses)),
        bound=_bound(_clipped(losses), _STANDARD_ERRORS),
        change=Estimate(*mean_with_error(np.abs(losses)), len(losses)),
        largest=float(losses.max()),
    )
    if not found.bound <= max_loss:
        raise CompressionError(
            f"with {found.n_after} of {found.n_before} kernels, {len(losses)} held-out points lose "
            f"{found.loss} nats, at most {found.bound:.3g} with 99 % confidence, more than "
            f"max_loss = {max_loss:g}"
        )
    return found


def check_held_out(X: np.ndarray, means: np.ndarray) -> None:
    """Refuse too few points, and warn of points to which the density was fitted."""
    if len(X) < _MIN_POINTS:
        raise ValueError(f"held_out must have at least {_MIN_POINTS} rows, got {len(X)}")
    # Rows as single items; adding zero makes both zeros the same.
    rows, known = (
        np.ascontiguousarray(each + 0.0).view(f"V{8 * each.shape[1]}").ravel()
        for each in (X, means)
    )
    n_known = int(np.isin(rows, known).sum())
    if n_known:
        warnings.warn(
            f"{n_known} of {len(X)} rows of held_out are means of kernels; the density is higher "
            "at samples to which it was fitted, and seems to lose more there",
            stacklevel=3,
        )


def _clusters(kernels: Kernels, labels: np.ndarray) -> dict[int, "ClusterKernels"]:
    """Return the kernels of nonzero weight of every cluster; the labels are those of groups."""
    labels, has_weight = labels[kernels.group_of_kernel], kernels.log_weights > -np.inf
    return {
        label: ClusterKernels.from_kernels(kernels, np.flatnonzero(has_weight & (labels == label)))
        for label in np.unique(labels[has_weight]).tolist()
    }


def _budget(kernels: Kernels, max_kernels: int | None, n_clusters: int) -> int:
    """Return the largest number of kernels after compression."""
    if max_kernels is not None:
        return check_count(max_kernels, "max_kernels", least=n_clusters)
    budget = int(_cost(kernels) / _MIN_SPEEDUP)
    if budget < n_clusters:
        raise CompressionError(
            f"{kernels.n_kernels} kernels in {n_clusters} cluster(s) are too few: with more than "
            f"{budget} left, log densities would not take half the time; max_kernels allows more"
        )
    return budget


def _cost(kernels: Kernels) -> float:
    """Return the number of kernels with covariances of their own that take as long to sum."""
    own = has_own_covariances(kernels)
    sizes = np.diff(kernels.offsets)
    shared = sizes[~own].sum() / (kernels.n_features + 1)
    if kernels.n_features <= GAUSS_TRANSFORM_FEATURES:
        shared = min(shared, _TRANSFORM_COST)
    return float(sizes[own].sum() + shared)


def _merged(density: Any, clusters: dict[int, "ClusterKernels"], stages: list["_Stage"]) -> Any:
    """Return the density of the kernels of all cells."""
    sizes = [len(stage.cells) for stage in stages]
    log_weights, means, _, transforms, log_dets = (
        np.concatenate(each) for each in zip(*(stage.kernels for stage in stages), strict=True)
    )
    members = [
        each.rows[cell]
        for each, stage in zip(clusters.values(), stages, strict=True)
        for cell in stage.cells
    ]
    counts = density.counts
    return type(density)(
        weights=np.exp(log_weights),
        means=means,
        offsets=np.arange(len(means) + 1),
        transforms=transforms,
        log_dets=log_dets,
        log_weights=log_weights,
        clusters=np.repeat(list(clusters), sizes),
        counts=None if counts is None else np.array([counts[rows].sum() for rows in members]),
        feature_names=density.feature_names,
        maps=density.maps,
    )


# Search


class _Stage(NamedTuple):
    """The cells of a cluster, their merged kernels, and the sums of these at points."""

    cells: list[Cell]
    kernels: Kernels
    log_sums: np.ndarray


class _Search(NamedTuple):
    """Search for the coarsest cells that are good enough at some points."""

    clusters: list["ClusterKernels"]
    points: np.ndarray
    log_densities: np.ndarray
    n_jobs: int | None

    def coarsest(self, max_loss: float, budget: int) -> list[_Stage]:
        """Return the cells of every cluster, as fine as needed or allowed.

        Finer cells are not always better: those of a Gaussian have lighter tails than the whole.
        So every cluster tries two times its number of cells, then four times, and so on.
        The trial with the largest gain per added kernel is accepted.
        """
        stages = [self._stage(each, each.whole()) for each in self.clusters]
        trials = list(stages)
        while _bound(self._losses(stages), _CHOOSING_ERRORS) > max_loss:
            spare = budget - sum(len(stage.cells) for stage in stages)
            gains = self._gains(stages, trials, spare)
            best = int(np.argmax(gains))
            if gains[best] > 0:
                stages[best] = trials[best]
                continue
            finer = [
                self._finer(each, trial, len(stage.cells) + spare)
                for each, stage, trial in zip(self.clusters, stages, trials, strict=True)
            ]
            if all(new is old for new, old in zip(finer, trials, strict=True)):
                break
            trials = finer
        return stages

    def _stage(self, cluster: "ClusterKernels", cells: list[Cell]) -> _Stage:
        kernels = cluster.merge(cells)
        return _Stage(cells, kernels, sums_at(log_sums_of(kernels), self.points, self.n_jobs))

    def _finer(self, cluster: "ClusterKernels", stage: _Stage, most: int) -> _Stage:
        """Return a stage of twice the number of cells, or the same one if no more are allowed."""
        n_cells = len(stage.cells)
        cells = cluster.divide(stage.cells, min(2 * n_cells, most)) if n_cells < most else []
        return self._stage(cluster, cells) if len(cells) > n_cells else stage

    def _gains(self, stages: list[_Stage], trials: list[_Stage], spare: int) -> np.ndarray:
        """Return the decrease of the mean loss by every trial, per added kernel."""
        now, gains = self._losses(stages).mean(), np.zeros(len(stages))
        for c, (stage, trial) in enumerate(zip(stages, trials, strict=True)):
            n_more = len(trial.cells) - len(stage.cells)
            if 0 < n_more <= spare:
                then = self._losses([*stages[:c], trial, *stages[c + 1 :]]).mean()
                with np.errstate(invalid="ignore"):  # infinite losses where a density is zero
                    gains[c] = (now - then) / n_more
        return np.nan_to_num(gains, nan=0.0)

    def _losses(self, stages: list[_Stage]) -> np.ndarray:
        log_sums = np.logaddexp.reduce([stage.log_sums for stage in stages])
        log_densities = log_sums - 0.5 * self.points.shape[1] * LOG_2PI
        return _clipped(_losses(self.log_densities, log_densities))


# Losses


def _losses(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the decreases of log densities; minus infinity equals minus infinity."""
    with np.errstate(invalid="ignore"):
        return np.where(before == after, 0.0, before - after)


def _clipped(losses: np.ndarray) -> np.ndarray:
    return np.maximum(losses, -_MAX_GAIN)


def _bound(values: np.ndarray, n_errors: float) -> float:
    """Return an upper bound of the true mean, some standard errors above that of the values.

    If rare values are very large, most samples have too few of them, and the mean and its standard
    error are both too small. So one more value is added, twice as large as the largest.
    """
    mean, error = mean_with_error(np.append(values, 2 * max(0.0, values.max())))
    return mean + n_errors * error if np.isfinite(mean) else np.inf


# Cells


class ClusterKernels(NamedTuple):
    """The kernels of a cluster, in coordinates in which they have unit covariance on average."""

    rows: np.ndarray  #: (K,) the indices of the kernels in the mixture
    log_weights: np.ndarray  #: (K,)
    means: np.ndarray  #: (K, M) in data units
    groups: np.ndarray  #: (K,) the index of the covariance of every kernel
    factors: np.ndarray  #: (G, M, M) with the covariances ``factor.T @ factor``
    transform: np.ndarray  #: (M, M) the map from data to these coordinates
    log_det: float  #: of this map

    @classmethod
    def from_kernels(cls, kernels: Kernels, rows: np.ndarray) -> "ClusterKernels":
        """Take some of the kernels of a mixture, all of nonzero weight."""
        # Sorted, so that rounding does not depend on the order of the kernels.
        rows = rows[np.lexsort(kernels.means[rows].T)]
        means, log_weights = kernels.means[rows], kernels.log_weights[rows]
        group = np.searchsorted(kernels.offsets, rows, side="right") - 1
        own, groups = np.unique(group, return_inverse=True)
        masses = np.bincount(groups, _shares(log_weights))
        heaviest = own[masses.argmax()]
        # From one of the transforms: covariances would square its condition number.
        transform = kernels.transforms[heaviest]
        factors = np.linalg.solve(kernels.transforms[own], transform)
        mean = _joint_factor(masses, factors, np.empty((0, kernels.n_features)))
        to_unit = np.linalg.inv(mean)
        log_det = float(kernels.log_dets[heaviest] - _log_det(mean))
        return cls(
            rows, log_weights, means, groups, factors @ to_unit, transform @ to_unit, log_det
        )

    def whole(self) -> list[Cell]:
        """Return all kernels as one cell."""
        return [np.arange(len(self.rows))]

    def divide(self, cells: Sequence[Cell], n_cells: int) -> list[Cell]:
        """Divide the heaviest cells until there are ``n_cells``.

        There are fewer if the means in every cell are equal.
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
        """Whether kernels lie beyond the mean of a cell along the direction of largest variance."""
        if len(cell) == 1:
            return np.ones(1, dtype=bool)
        differences, shares = self._differences(cell)
        # Scaled, since squares may overflow.
        differences /= max(np.abs(differences).max(), np.finfo(float).tiny)
        direction = np.linalg.eigh((differences * shares[:, None]).T @ differences)[1][:, -1]
        # Both signs are eigenvectors; kernels at the mean must go to the same side.
        direction *= np.sign(direction[np.abs(direction).argmax()])
        return np.asarray(differences @ direction > 0)

    def _differences(self, cell: Cell) -> tuple[np.ndarray, np.ndarray]:
        """Return the differences of kernel means from the mean of a cell, and their shares."""
        shares, means = _shares(self.log_weights[cell]), self.means[cell]
        # Measured from one of the means, since a point far away would cost digits.
        differences = (means - means[0]) @ self.transform
        return differences - shares @ differences, shares

    def merge(self, cells: Sequence[Cell]) -> Kernels:
        """Return one kernel for every cell, of the same weight, mean and covariance."""
        log_weights = [np.logaddexp.reduce(self.log_weights[cell]) for cell in cells]
        means, factors = (np.array(each) for each in zip(*map(self._moments, cells), strict=True))
        return Kernels(
            np.array(log_weights),
            means,
            np.arange(len(cells) + 1),
            self.transform @ np.linalg.inv(factors),
            self.log_det - _log_det(factors),
        )

    def _moments(self, cell: Cell) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of a cell, and the triangular factor of its covariance."""
        differences, shares = self._differences(cell)
        means = self.means[cell]
        own, groups = np.unique(self.groups[cell], return_inverse=True)
        spread = differences * np.sqrt(shares)[:, None]
        factor = _joint_factor(np.bincount(groups, shares), self.factors[own], spread)
        return means[0] + shares @ (means - means[0]), factor


def _shares(log_weights: np.ndarray) -> np.ndarray:
    """Return weights that add up to one, from their logarithms."""
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


def _joint_factor(shares: np.ndarray, factors: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return the triangular factor of a mean of covariances plus the scatter of rows."""
    rows = (np.sqrt(shares)[:, None, None] * factors).reshape(-1, factors.shape[2])
    return np.asarray(np.linalg.qr(np.vstack([spread, rows]), mode="r"))


def _log_det(factors: np.ndarray) -> np.ndarray:
    """Return the log determinants of triangular matrices (..., M, M)."""
    return np.asarray(np.log(np.abs(np.diagonal(factors, axis1=-2, axis2=-1))).sum(axis=-1))
