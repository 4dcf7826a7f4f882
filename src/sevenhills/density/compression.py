"""Fewer kernels in place of many, and what that costs in held-out log density."""

import warnings
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from ..estimate import Estimate, mean_with_error
from ..validation import (
    check_count,
    check_flag,
    check_not_negative,
    check_queries,
    random_generator,
)
from .cells import Cell, Neighbourhood
from .groups import KernelGroups
from .sums import LOG_2PI, Kernels, has_own_covariances, log_sums_of, sums_at

#: The standard errors that a normal variable exceeds, to either side, once in a hundred times.
_SURE = 2.576
#: Chosen with twice the margin, a coreset is confirmed by other points 19 times in 20.
_SAFELY = 2 * _SURE
#: A gain in log density counts as no more than this, lest a few outliers pay for all losses.
_MOST_GAIN = 10.0
#: Fewer held-out points do not tell how far a mean may be from the true one.
_LEAST_POINTS = 100
#: In place of the label of kernels that weigh nothing.
_WEIGHTLESS = np.iinfo(np.int64).min
#: The highest dimension in which many kernels are summed by a Gauss transform.
_LOW = 3
#: It takes about as long as this many kernels with covariances of their own, or longer.
_TRANSFORM_COST = 1024
#: What is worth the trouble: scoring that takes half the time.
_LEAST_SPEEDUP = 2


D = TypeVar("D", bound=KernelGroups)


class CompressionError(ValueError):
    """No density of fewer kernels is as good as asked for; the message says what was measured."""


@dataclass(frozen=True, eq=False)
class Compression(Generic[D]):
    """A density of fewer kernels, and what was measured at held-out points that had no say in it.

    Attributes
    ----------
    density : KernelMixture
        The density of fewer kernels.
    n_before : int
        How many kernels there were.
    loss : Estimate
        How much lower the log density is, on average over the held-out points; negative if it is
        higher. A gain at a single point counts as 10 at most.
    bound : float
        What the loss, or the change if that was to be bounded, is at most, with a confidence of
        99 %.
    change : Estimate
        How much the log density differs, be it higher or lower, on average.
    largest : float
        The largest loss at a single held-out point.
    """

    density: D
    n_before: int
    loss: Estimate
    bound: float
    change: Estimate
    largest: float

    @property
    def n_after(self) -> int:
        """How many kernels there are."""
        return self.density.n_kernels


class Compressible(KernelGroups):
    """Densities that can be told with fewer kernels."""

    def compress(
        self,
        held_out: Any,
        *,
        max_loss: float = 0.01,
        two_sided: bool = False,
        max_kernels: int | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> Compression[Self]:
        r"""Return a density of fewer kernels that is as good at held-out points.

        Every cluster is divided into cells, and the kernels of a cell become one that has their
        mass, mean and covariance:

        .. math:: \hat w = \sum_k w_k, \qquad
                  \hat \mu = \sum_k \frac{w_k}{\hat w} \mu_k, \qquad
                  \hat \Sigma = \sum_k \frac{w_k}{\hat w}
                  \big( \Sigma_{g(k)} + (\mu_k - \hat\mu)(\mu_k - \hat\mu)^\top \big)

        A cluster begins as one cell. While half of the held-out points, by the mean of
        :math:`\log p - \log \hat p`, lose too much, the cells of that cluster are divided which
        gains most by it. The other half then measures the loss.

        Parameters
        ----------
        held_out : array-like of shape (n_samples, n_features)
            At least 100 samples to which the density was not fitted; keep some rows back when
            fitting, as below. If the loss varies by ``s`` from point to point, about
            ``50 * (s / max_loss) ** 2`` of them tell whether it is below ``max_loss``.
        max_loss : float, default=0.01
            How much lower the mean log density of held-out samples may be, in nats, with a
            confidence of 99 %.
        two_sided : bool, default=False
            Whether to bound how much the log density changes on average, be it to the better, and
            not only how much is lost. In many dimensions, kernels that reach few of their
            neighbours are a rough estimate; nothing with fewer kernels is close to it, but much
            is better.
        max_kernels : int, optional
            The most kernels that may be left, at least one for every cluster. By default so many
            that log densities take about half the time: a kernel with a covariance of its own
            takes as long as ``n_features + 1`` kernels that share one, and in up to three
            dimensions, 1024 take as long as any number.
        random_state : int, RandomState instance or None, default=0
            Which half of the held-out points chooses.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        Compression
            With the ``density`` and what was measured. It keeps clusters, counts and names, and
            is asked, saved and loaded like any other.

        Raises
        ------
        CompressionError
            If more is lost, or may be lost for all that so many points can tell.

        Notes
        -----
        The bound is the mean and 2.576 standard errors of what was measured and of one more point
        that loses twice as much as the one that lost most: losses of some rare points may be
        large, and a sample then seldom has its share of them. The confidence is nominal: where
        some points lost a hundred times the mean, the bound held for 93 % of samples of 50 points,
        96 % of 200 and 98 % of 1000, elsewhere for 99 %.

        Examples
        --------
        >>> from sevenhills import GaussianKDE, datasets
        >>> X = datasets.load("gaussian").sample(3000, random_state=0)
        >>> kde = GaussianKDE().fit(X[:2000])
        >>> smaller = kde.compress(X[2000:], max_loss=0.05)
        >>> smaller.n_before, smaller.n_after
        (2000, 1)
        >>> smaller.bound < 0.05
        True
        >>> smaller.density.sample(2, random_state=0).shape
        (2, 2)
        """
        max_loss = check_not_negative(max_loss, "max_loss")
        check_flag(two_sided, "two_sided")
        X = check_queries(held_out, self.n_features, self.feature_names)
        _check_held_out(X, self.means)
        # Which rows are in which half must not depend on the order in which they are given.
        X = random_generator(random_state).permutation(X[np.lexsort(X.T)])
        clusters = self._neighbourhoods
        budget = self._budget(max_kernels, len(clusters))
        before, half = self.logpdf(X, n_jobs), len(X) // 2
        search = _Search(list(clusters.values()), X[:half], before[:half], two_sided, n_jobs)
        density = self._merged(clusters, search.coarsest(max_loss, budget))
        losses = _losses(before[half:], density.logpdf(X[half:], n_jobs))
        found = _measured(density, self.n_kernels, losses, two_sided)
        if not found.bound <= max_loss:
            raise CompressionError(_refusal(found, two_sided, max_loss))
        return found

    @property
    def _neighbourhoods(self) -> dict[int, Neighbourhood]:
        """The kernels of every cluster that have a weight."""
        clusters = np.where(
            self.log_weights > -np.inf, self.clusters[self._group_of_kernel], _WEIGHTLESS
        )
        labels = np.unique(clusters[clusters != _WEIGHTLESS]).tolist()
        return {
            label: Neighbourhood.of(self._kernels, np.flatnonzero(clusters == label))
            for label in labels
        }

    def _budget(self, max_kernels: int | None, n_clusters: int) -> int:
        """Return how many kernels may be left."""
        if max_kernels is not None:
            return check_count(max_kernels, "max_kernels", least=n_clusters)
        budget = int(self._cost / _LEAST_SPEEDUP)
        if budget < n_clusters:
            raise CompressionError(
                f"{self.n_kernels} kernels in {n_clusters} cluster(s) are too few: with more than "
                f"{budget} left, log densities would not take half the time; max_kernels allows "
                "more"
            )
        return budget

    @property
    def _cost(self) -> float:
        """How many kernels with covariances of their own would take as long."""
        own = has_own_covariances(self._kernels)
        sizes = np.diff(self.offsets)
        shared = sizes[~own].sum() / (self.n_features + 1)
        if self.n_features <= _LOW:
            shared = min(shared, _TRANSFORM_COST)
        return float(sizes[own].sum() + shared)

    def _merged(self, clusters: dict[int, Neighbourhood], stages: list["_Stage"]) -> Self:
        """Return the density of the kernels that cells have become."""
        sizes = [len(stage.cells) for stage in stages]
        log_weights, means, _, transforms, log_dets = (
            np.concatenate(each) for each in zip(*(stage.kernels for stage in stages), strict=True)
        )
        members = [
            each.rows[cell]
            for each, stage in zip(clusters.values(), stages, strict=True)
            for cell in stage.cells
        ]
        counts = self.counts
        return type(self)(
            weights=np.exp(log_weights),
            means=means,
            offsets=np.arange(len(means) + 1),
            transforms=transforms,
            log_dets=log_dets,
            log_weights=log_weights,
            clusters=np.repeat(list(clusters), sizes),
            counts=None if counts is None else np.array([counts[rows].sum() for rows in members]),
            feature_names=self.feature_names,
        )


class _Stage(NamedTuple):
    """The cells of a cluster, the kernels that they become, and their sums at points."""

    cells: list[Cell]
    kernels: Kernels
    log_sums: np.ndarray


class _Search(NamedTuple):
    """What looks for the coarsest cells that are good enough at some points."""

    clusters: list[Neighbourhood]
    points: np.ndarray
    log_densities: np.ndarray
    two_sided: bool
    n_jobs: int | None

    def coarsest(self, max_loss: float, budget: int) -> list[_Stage]:
        """Return the cells of every cluster, as fine as needed or allowed.

        Finer cells are not always better: those of a Gaussian have lighter tails than the whole.
        So clusters try twice as many cells as they have, then four times as many, and so on; the
        trial that gains most for every kernel it adds comes to be.
        """
        stages = [self._stage(each, each.whole()) for each in self.clusters]
        trials = list(stages)
        while self._bound(stages) > max_loss:
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

    def _stage(self, cluster: Neighbourhood, cells: list[Cell]) -> _Stage:
        kernels = cluster.merge(cells)
        return _Stage(cells, kernels, sums_at(log_sums_of(kernels), self.points, self.n_jobs))

    def _finer(self, cluster: Neighbourhood, stage: _Stage, most: int) -> _Stage:
        """Return twice as many cells, or the same if there cannot be more."""
        n_cells = len(stage.cells)
        cells = cluster.divide(stage.cells, min(2 * n_cells, most)) if n_cells < most else []
        return self._stage(cluster, cells) if len(cells) > n_cells else stage

    def _gains(self, stages: list[_Stage], trials: list[_Stage], spare: int) -> np.ndarray:
        """Return by how much every trial would lower the mean, for each kernel that it adds."""
        log_sums = np.array([stage.log_sums for stage in stages])
        now, gains = self._counted(log_sums).mean(), np.zeros(len(stages))
        for c, (stage, trial) in enumerate(zip(stages, trials, strict=True)):
            n_more = len(trial.cells) - len(stage.cells)
            if 0 < n_more <= spare:
                tried = log_sums.copy()
                tried[c] = trial.log_sums
                with np.errstate(invalid="ignore"):  # where a density vanishes, all is lost
                    gains[c] = (now - self._counted(tried).mean()) / n_more
        return np.nan_to_num(gains, nan=0.0)

    def _bound(self, stages: list[_Stage]) -> float:
        return _bound(self._counted(np.array([stage.log_sums for stage in stages])), _SAFELY)

    def _counted(self, log_sums: np.ndarray) -> np.ndarray:
        constant = 0.5 * self.points.shape[1] * LOG_2PI
        losses = _losses(self.log_densities, np.logaddexp.reduce(log_sums) - constant)
        return _counted(losses, self.two_sided)


def _check_held_out(X: np.ndarray, means: np.ndarray) -> None:
    """Refuse too few points, and warn of those that the density was fitted to."""
    if len(X) < _LEAST_POINTS:
        raise ValueError(f"held_out must have at least {_LEAST_POINTS} rows, got {len(X)}")
    n_known = int(np.isin(_as_items(X), _as_items(means)).sum())
    if n_known:
        warnings.warn(
            f"{n_known} of {len(X)} rows of held_out are means of kernels; where a density was "
            "fitted, it is higher than elsewhere, and seems to lose more",
            stacklevel=3,
        )


def _as_items(rows: np.ndarray) -> np.ndarray:
    """Return every row as one item, which is equal to another if all numbers are."""
    rows = np.ascontiguousarray(rows + 0.0)  # of the two zeros, one
    return rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel()


def _losses(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return by how much log densities are lower than before, minus infinity being equal."""
    with np.errstate(invalid="ignore"):
        return np.where(before == after, 0.0, before - after)


def _counted(losses: np.ndarray, two_sided: bool) -> np.ndarray:
    """Return what losses count as: their size, or themselves if gains are not too large."""
    return np.abs(losses) if two_sided else np.maximum(losses, -_MOST_GAIN)


def _bound(values: np.ndarray, n_errors: float) -> float:
    """Return what the true mean is at most, by some standard errors.

    If few values are very large, most samples do not have enough of them, and the mean and its
    error are both too small: so one more is added, twice as large as the largest.
    """
    mean, error = mean_with_error(np.append(values, 2 * max(0.0, values.max())))
    return mean + n_errors * error if np.isfinite(mean) else np.inf


def _measured(density: D, n_before: int, losses: np.ndarray, two_sided: bool) -> Compression[D]:
    counted, sizes = _counted(losses, False), np.abs(losses)
    return Compression(
        density=density,
        n_before=n_before,
        loss=Estimate(*mean_with_error(counted), len(losses)),
        bound=_bound(_counted(losses, two_sided), _SURE),
        change=Estimate(*mean_with_error(sizes), len(losses)),
        largest=float(losses.max()),
    )


def _refusal(found: Compression[D], two_sided: bool, max_loss: float) -> str:
    what, figure = ("change by", found.change) if two_sided else ("lose", found.loss)
    return (
        f"with {found.n_after} of {found.n_before} kernels, {figure.n} held-out points {what} "
        f"{figure} nats, at most {found.bound:.3g} with 99 % confidence, more than max_loss = "
        f"{max_loss:g}"
    )
