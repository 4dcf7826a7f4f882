"""Statistics of partitions that merge into the statistics of all rows.

A fit makes two passes over all rows. The first one, before there are clusters, collects
:class:`RowStatistics`; the second one collects :class:`ClusterStatistics`.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from ..clustering.points import balanced_unit
from ..estimators.cluster_records import Cluster
from ..whitening import Grouping
from .assignment import Assignment, label_indices
from .reservoir import Reservoir


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
            out.factors[c] = _triangular_factor(deviations - shift)
        return out

    @classmethod
    def merge(cls, parts: "Sequence[Moments]") -> "Moments":
        """Merge the moments of several partitions."""
        return reduce(_merge_two, parts)

    def covariances(self, unit: float) -> np.ndarray:
        """Return the covariances of clusters that have rows, given the unit of the moments."""
        factors, counts = self.factors[self.counts > 0] * unit, self.counts[self.counts > 0]
        with np.errstate(over="ignore"):
            scatters = factors.transpose(0, 2, 1) @ factors
        return np.asarray(scatters / np.maximum(counts - 1, 1)[:, None, None])


def _merge_two(first: Moments, second: Moments) -> Moments:
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


def _triangular_factor(deviations: np.ndarray) -> np.ndarray:
    """Return the factor R of deviations, with rows of zeros if there are few of them."""
    factor = np.linalg.qr(deviations, mode="r")
    out = np.zeros((deviations.shape[1],) * 2)
    out[: len(factor)] = factor
    return out


class Plan(NamedTuple):
    """The clusters of the sample, and the parameters of their statistics."""

    labels: np.ndarray  #: (n_clusters,) ascending, noise last
    origins: np.ndarray  #: (n_clusters, n_features) the clusters' means in the sample
    unit: float  #: unit of the moments, a power of two
    coreset_size: int | None  #: number of rows in the coreset of a cluster, None for no coresets
    seed: int  #: seed of the hashes

    @classmethod
    def from_clusters(
        cls,
        clusters: Sequence[Cluster],
        statistics: RowStatistics,
        coreset_size: int | None,
        seed: int,
    ) -> "Plan":
        """Choose origins and unit by the clusters of the sample and the range of all rows."""
        largest = float((0.5 * statistics.upper - 0.5 * statistics.lower).max())
        typical = min((float(each.stds.max()) for each in clusters if each.stds.any()), default=0)
        return cls(
            np.array([cluster.label for cluster in clusters]),
            np.array([cluster.mean for cluster in clusters]),
            balanced_unit(typical or largest, largest) if largest > 0 else 1.0,
            coreset_size,
            seed,
        )


class ClusterStatistics(NamedTuple):
    """Moments of clusters, and a sample of the rows of every cluster."""

    moments: Moments
    coresets: tuple[Reservoir, ...]  #: one for each cluster; empty if the plan has none

    @classmethod
    def from_rows(cls, X: np.ndarray, assignment: Assignment, plan: Plan) -> "ClusterStatistics":
        """Return the statistics of one partition."""
        clusters = label_indices(assignment.predict(X), plan.labels)
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
        return cls(Moments.merge(moments), tuple(merged))


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
