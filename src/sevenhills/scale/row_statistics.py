"""The two passes of a fit over all rows: statistics of partitions that merge without loss.

The first pass collects :class:`RowStatistics`, with a sample in which clusters are found. The
second one assigns every row to a cluster and collects :class:`ClusterStatistics`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ..clustering.points import balanced_unit
from ..density import KernelMixture
from ..density.engines import TOLERANCE, Engine
from ..density.maps import Maps
from ..density.mixture import mapped_kernels
from ..density.sums import LOG_2PI, Kernels, LogSums, log_sums_of, sums_at
from ..estimators.summary import Cluster
from ..estimators.support import Support
from ..whitening import Grouping

#: The constants of splitmix64.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
#: Clusters with at least this number of kernels are summed by an engine. The number of rows does
#: not count, so that the label of a row does not depend on its partition.
_MANY_KERNELS = 4096
#: Log densities that differ by less than this are a tie; rounding errors are far smaller.
_TIE = 1e-6

# The first pass


class Reservoir(NamedTuple):
    """The distinct rows with the smallest hashes, in ascending order of the hashes.

    The hash of a row depends on its values and a seed only. A row of the sample is also in the
    sample of every partition that holds it, so the samples of partitions merge without loss, and
    their counts add up exactly.
    """

    hashes: np.ndarray  #: (n,) uint64
    rows: np.ndarray  #: (n, n_features)
    counts: np.ndarray  #: (n,) number of occurrences among all rows

    @classmethod
    def from_rows(cls, X: np.ndarray, size: int, seed: int) -> "Reservoir":
        """Return the sample of one partition, of at most ``size`` distinct rows."""
        hashes = row_hashes(X, seed)
        distinct = np.unique(hashes)
        if len(distinct) > size:
            kept = hashes <= distinct[size - 1]
            hashes, X = hashes[kept], X[kept]
        return _distinct(hashes, X, np.ones(len(X)), size)

    @classmethod
    def merge(cls, parts: "Sequence[Reservoir]", size: int) -> "Reservoir":
        """Merge the samples of several partitions."""
        hashes, rows, counts = map(np.concatenate, zip(*parts, strict=True))
        return _distinct(hashes, rows, counts, size)


def row_hashes(X: np.ndarray, seed: int) -> np.ndarray:
    """Return the hash of every row: splitmix64 of the bits of one feature after another."""
    hashes = np.full(len(X), seed, dtype=np.uint64)
    for column in (X + 0.0).T:  # turns -0.0 into 0.0
        hashes ^= np.ascontiguousarray(column).view(np.uint64)
        hashes += _GAMMA
        for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
            hashes ^= hashes >> shift
            hashes *= multiplier
        hashes ^= hashes >> _SHIFTS[-1]
    return hashes


def _distinct(hashes: np.ndarray, rows: np.ndarray, counts: np.ndarray, size: int) -> Reservoir:
    """Merge equal rows, and keep the first ``size`` by hash and, among equal hashes, by value."""
    order = np.lexsort((*rows.T[::-1], hashes))
    hashes, rows, counts = hashes[order], rows[order], counts[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (hashes[1:] != hashes[:-1]) | (rows[1:] != rows[:-1]).any(axis=1)
    firsts = np.flatnonzero(new)
    if len(firsts) < len(rows):
        counts = np.add.reduceat(counts, firsts)
    kept = firsts[:size]
    return Reservoir(hashes[kept], rows[kept] + 0.0, counts[: len(kept)])


class RowStatistics(NamedTuple):
    """Sizes, range and a sample of rows."""

    sizes: np.ndarray  #: (n_partitions,) number of rows
    lower: np.ndarray  #: (n_features,) smallest values
    upper: np.ndarray  #: (n_features,) largest values
    sample: Reservoir

    @classmethod
    def from_rows(cls, X: np.ndarray, sample_size: int, seed: int) -> "RowStatistics":
        """Return the statistics of one partition."""
        return cls(
            np.array([len(X)]),
            X.min(axis=0, initial=np.inf),
            X.max(axis=0, initial=-np.inf),
            Reservoir.from_rows(X, sample_size, seed),
        )

    @classmethod
    def merge(cls, parts: "Sequence[RowStatistics]", sample_size: int) -> "RowStatistics":
        """Merge the statistics of several partitions."""
        sizes, lower, upper, samples = zip(*parts, strict=True)
        return cls(
            np.concatenate(sizes),
            np.min(lower, axis=0),
            np.max(upper, axis=0),
            Reservoir.merge(samples, sample_size),
        )


# The second pass


class KernelBlock:
    """Kernels, at least one, and their sums, which the process that needs them prepares once.

    With ``maps``, the kernels are those of latent coordinates, and the sums those of rows.
    """

    def __init__(self, kernels: Kernels, maps: Maps | None = None) -> None:
        self.kernels, self.maps = kernels, maps
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Prepared sums are larger than the kernels, and not sent.
        return KernelBlock, (self.kernels, self.maps)

    def __sizeof__(self) -> int:
        """Return the approximate size after preparation, from which dask plans its memory."""
        return 6 * self.kernels.means.nbytes

    @cached_property
    def _direct(self) -> LogSums:
        return log_sums_of(self.kernels)

    @cached_property
    def _engine(self) -> Engine:
        return Engine.from_kernels(self.kernels, lambda: self._direct)

    @cached_property
    def _mapped(self) -> KernelMixture | None:
        return None if self.maps is None else mapped_kernels(self.kernels, self.maps)

    def log_sums(self, X: np.ndarray, by_engine: bool) -> np.ndarray:
        """Return the log of the sum of kernels at every row, without the Gaussian's constant."""
        with self._lock:
            mapped = self._mapped
        if mapped is not None:
            return mapped._logpdf(X, n_jobs=None) + 0.5 * X.shape[1] * LOG_2PI
        with self._lock:
            prepared = self._engine if by_engine else self._direct
        if isinstance(prepared, Engine):
            return prepared.sums_at(X, TOLERANCE, None)
        return sums_at(prepared, X)


@dataclass(frozen=True, eq=False)
class Assignment:
    """Assigns every row to the cluster with the largest share times density.

    Rows of the sample keep the label of the sample. Ties go to the first of the clusters. The label
    of a row does not depend on other rows.
    """

    density: KernelMixture  #: of the sample, with one group of kernels for each cluster
    #: (n_sample,) hashes of the sample's rows, ascending. Among 1e9 rows, the probability that
    #: another row has the hash of one of 30,000 is 1e-6.
    hashes: np.ndarray
    labels: np.ndarray  #: (n_sample,) labels of the sample's rows, -1 for noise
    seed: int  #: seed of the hashes
    support: Support  #: of the features

    @cached_property
    def centers(self) -> np.ndarray:
        """The mean latent coordinates of the clusters of the density."""
        weights, starts = self.density.weights, self.density.offsets[:-1]
        sums = np.add.reduceat(self.density.means * weights[:, None], starts)
        return np.asarray(sums / np.add.reduceat(weights, starts)[:, None])

    def placed(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the label and the latent coordinates of every row, near those of its cluster."""
        labels, Z = self.predict(X), self.support.latent(X)
        centers = self.centers[label_indices(labels, self.density.clusters)]
        for j in np.flatnonzero(self.support.periods):
            period = self.support.periods[j]
            first = centers[:, j] - 0.5 * period
            Z[:, j] = first + np.remainder(Z[:, j] - first, period)
        return labels, Z

    @cached_property
    def _blocks(self) -> list[KernelBlock]:
        groups = range(self.density.n_groups)
        parts = [self.density.kernels.take(np.array([g])) for g in groups]
        return [KernelBlock(part, self.density.maps) for part in parts]

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the label of every row, -1 for noise."""
        labels = self._most_likely(X)
        hashes = row_hashes(X, self.seed)
        nearest = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        in_sample = self.hashes[nearest] == hashes
        labels[in_sample] = self.labels[nearest[in_sample]]
        return labels

    def _most_likely(self, X: np.ndarray) -> np.ndarray:
        clusters = self.density.clusters
        if len(clusters) == 1:
            return np.full(len(X), clusters[0])
        values = np.stack(
            [block.log_sums(X, len(block.kernels.means) >= _MANY_KERNELS) for block in self._blocks]
        )
        largest = values.max(axis=0)
        labels = clusters[(values >= largest - _TIE).argmax(axis=0)]
        underflows = largest == -np.inf
        if underflows.any():
            labels[underflows] = self.density.predict(X[underflows])
        return labels


def label_indices(labels: np.ndarray, distinct: np.ndarray) -> np.ndarray:
    """Return the index of every label in an array of distinct labels."""
    order = np.argsort(distinct)
    return np.asarray(order[np.searchsorted(distinct, labels, sorter=order)])


class Moments(NamedTuple):
    r"""Counts, means and scatter matrices of clusters.

    The scatter matrix :math:`\sum (x - m)(x - m)^\top = R^\top R` is kept as its triangular factor,
    because sums of squares lose narrow directions beside wide ones to rounding.
    """

    counts: np.ndarray  #: (n_clusters,)
    shifts: np.ndarray  #: (n_clusters, n_features) means relative to given origins
    factors: np.ndarray  #: (n_clusters, n_features, n_features) triangular factors R

    @classmethod
    def from_rows(cls, X: np.ndarray, clusters: np.ndarray, origins: np.ndarray) -> "Moments":
        """Return the moments of rows, given the index of each row's cluster."""
        n_clusters, n_features = origins.shape
        counts = np.bincount(clusters, minlength=n_clusters)
        out = cls(counts, np.zeros(origins.shape), np.zeros((*origins.shape, n_features)))
        for c in np.flatnonzero(counts):
            members = X[clusters == c]
            # Relative to a member, so that equal members have a scatter of exactly zero.
            deviations = members - members[0]
            shift = deviations.mean(axis=0)
            out.shifts[c] = members[0] - origins[c] + shift
            factor = np.linalg.qr(deviations - shift, mode="r")
            out.factors[c, : len(factor)] = factor  # fewer rows if there are few members
        return out


def merge_moments(first: Moments, second: Moments) -> Moments:
    """Merge the moments of two partitions by the update of Chan, Golub and LeVeque."""
    counts = first.counts + second.counts
    differences = second.shifts - first.shifts
    with np.errstate(invalid="ignore"):  # a cluster may have no rows in either partition
        share = np.where(counts > 0, second.counts / counts, 0.0)
    between = np.sqrt(first.counts * share)[:, None] * differences
    stacked = np.concatenate([first.factors, second.factors, between[:, None]], axis=1)
    shifts = np.where((first.counts > 0)[:, None], first.shifts, second.shifts)
    both = (first.counts > 0) & (second.counts > 0)
    shifts[both] += share[both, None] * differences[both]
    return Moments(counts, shifts, np.asarray(np.linalg.qr(stacked, mode="r")))


class Plan(NamedTuple):
    """The clusters of the sample, and the parameters of their statistics."""

    labels: np.ndarray  #: (n_clusters,) ascending, noise last
    origins: np.ndarray  #: (n_clusters, n_features) the clusters' means in the sample, latent
    unit: float  #: unit of the moments, a power of two
    coreset_size: int | None  #: number of rows in the coreset of a cluster, None for no coresets
    seed: int  #: seed of the hashes

    @classmethod
    def from_clusters(
        cls,
        clusters: Sequence[Cluster],
        statistics: RowStatistics,
        assignment: Assignment,
        coreset_size: int | None,
    ) -> "Plan":
        """Choose origins and unit by the clusters of the sample and the range of all rows."""
        lower, upper = assignment.support.latent_range(statistics.lower, statistics.upper)
        largest = float((0.5 * upper - 0.5 * lower).max())
        typical = min((float(each.stds.max()) for each in clusters if each.stds.any()), default=0)
        means = np.array([cluster.mean for cluster in clusters])
        return cls(
            np.array([cluster.label for cluster in clusters]),
            assignment.centers if assignment.support.features else means,
            balanced_unit(typical or largest, largest) if largest > 0 else 1.0,
            coreset_size,
            assignment.seed,
        )


class ClusterStatistics(NamedTuple):
    """Moments of clusters, and a sample of the rows of every cluster."""

    moments: Moments
    coresets: tuple[Reservoir, ...]  #: one for each cluster; empty if the plan has none

    @classmethod
    def from_rows(cls, X: np.ndarray, assignment: Assignment, plan: Plan) -> "ClusterStatistics":
        """Return the statistics of one partition."""
        labels, X = assignment.placed(X)
        clusters = label_indices(labels, plan.labels)
        moments = Moments.from_rows(X / plan.unit, clusters, plan.origins / plan.unit)
        if plan.coreset_size is None:
            return cls(moments, ())
        members = (X[clusters == c] for c in range(len(plan.labels)))
        coresets = (Reservoir.from_rows(each, plan.coreset_size, plan.seed) for each in members)
        return cls(moments, tuple(coresets))

    @classmethod
    def merge(cls, parts: "Sequence[ClusterStatistics]", plan: Plan) -> "ClusterStatistics":
        """Merge the statistics of several partitions."""
        moments, coresets = zip(*parts, strict=True)
        size = plan.coreset_size or 0
        merged = (Reservoir.merge(each, size) for each in zip(*coresets, strict=True))
        return cls(reduce(merge_moments, moments), tuple(merged))


def sigma_points(moments: Moments, plan: Plan) -> Grouping:
    """Return weighted points with the count, mean and covariance of every cluster.

    Whitening and bandwidth depend on these moments only, so ``2 * n_features`` points replace all
    rows of a cluster. Clusters without rows are left out.
    """
    kept = moments.counts > 0
    counts, shifts, factors = (values[kept] for values in moments)
    origins = plan.origins[kept] / plan.unit
    n_clusters, n_features = origins.shape
    weights = np.repeat(counts / (2 * n_features), 2 * n_features)
    # In pairs on opposite sides of the mean, which is then the mean of the points.
    both = np.concatenate([factors, -factors], axis=1).reshape(-1, n_features)
    deviations = both / np.sqrt(2 * weights)[:, None]
    means = origins + shifts
    return Grouping(
        labels=plan.labels[kept],
        offsets=np.arange(n_clusters + 1) * 2 * n_features,
        means=means,
        points=np.repeat(means, 2 * n_features, axis=0) + deviations,
        deviations=deviations,
        weights=weights,
        unit=plan.unit,
    )
