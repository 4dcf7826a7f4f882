"""Two passes over all rows: one before there are clusters, and one that measures them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..clustering.points import balanced_unit
from ..estimators.cluster_records import Cluster
from ..whitening import Grouping
from .assignment import Assignment
from .reductions import Moments
from .reservoir import Reservoir
from .shards import places_of


class Overview(NamedTuple):
    """What is known about rows before they are clustered."""

    sizes: np.ndarray  #: (n_partitions,) how many rows there are
    lower: np.ndarray  #: (n_features,)
    upper: np.ndarray  #: (n_features,)
    sample: Reservoir

    @classmethod
    def of(cls, X: np.ndarray, sample_size: int, seed: int) -> "Overview":
        """Look at one partition."""
        return cls(
            np.array([len(X)]),
            X.min(axis=0, initial=np.inf),
            X.max(axis=0, initial=-np.inf),
            Reservoir.of(X, sample_size, seed),
        )

    @classmethod
    def joint(cls, parts: "Sequence[Overview]", sample_size: int) -> "Overview":
        """Put partitions together."""
        sizes, lower, upper, samples = zip(*parts, strict=True)
        return cls(
            np.concatenate(sizes),
            np.min(lower, axis=0),
            np.max(upper, axis=0),
            Reservoir.joint(samples, sample_size),
        )


class Survey(NamedTuple):
    """What is known about clusters; see :class:`Plan`."""

    moments: Moments
    coresets: tuple[Reservoir, ...]  #: a sample of every cluster, if one was asked for

    @classmethod
    def of(cls, X: np.ndarray, assignment: Assignment, plan: "Plan") -> "Survey":
        """Look at one partition."""
        places = places_of(assignment.labels(X), plan.labels)
        moments = Moments.of(X / plan.unit, places, plan.origins / plan.unit)
        if plan.coreset_size is None:
            return cls(moments, ())
        members = (X[places == c] for c in range(len(plan.labels)))
        return cls(
            moments, tuple(Reservoir.of(each, plan.coreset_size, plan.seed) for each in members)
        )

    @classmethod
    def joint(cls, parts: "Sequence[Survey]", plan: "Plan") -> "Survey":
        """Put partitions together."""
        moments, coresets = zip(*parts, strict=True)
        size = plan.coreset_size or 0
        joint = (Reservoir.joint(each, size) for each in zip(*coresets, strict=True))
        return cls(Moments.joint(moments), tuple(joint))


class Plan(NamedTuple):
    """What to find out about clusters."""

    labels: np.ndarray  #: (n_clusters,) ascending, noise last
    origins: np.ndarray  #: (n_clusters, n_features) points near the clusters
    unit: float  #: the power of two in which moments are measured
    coreset_size: int | None  #: how many rows of every cluster are wanted
    seed: int  #: that of their hashes

    @classmethod
    def of(
        cls,
        clusters: Sequence[Cluster],
        overview: Overview,
        coreset_size: int | None,
        seed: int,
    ) -> "Plan":
        """Plan a survey of the clusters of a sample."""
        largest = float((0.5 * overview.upper - 0.5 * overview.lower).max())
        typical = min((float(each.stds.max()) for each in clusters if each.stds.any()), default=0)
        return cls(
            np.array([cluster.label for cluster in clusters]),
            np.array([cluster.mean for cluster in clusters]),
            balanced_unit(typical or largest, largest) if largest > 0 else 1.0,
            coreset_size,
            seed,
        )


def stand_ins(survey: Survey, plan: Plan) -> Grouping:
    """Return a few rows for each cluster that weigh and scatter as all of its rows do.

    They have its count, its mean and its covariance, which is all that its whitening and its
    bandwidth are made from. Clusters without rows are left out.
    """
    kept = survey.moments.counts > 0
    counts, shifts, factors = (values[kept] for values in survey.moments)
    origins = plan.origins[kept] / plan.unit
    n_clusters, n_features = origins.shape
    # On both sides of the mean, so that it is theirs.
    weights = np.repeat(counts / (2 * n_features), 2 * n_features)
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
