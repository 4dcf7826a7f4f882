"""ROME with a density for every cluster that is chosen by cross-validation."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ..clustering import Candidates, Ordering, Points, find_clusters
from ..clustering.optics import NOISE
from ..density import KernelMixture
from ..stacking import (
    OUTLIER,
    CellFit,
    Frame,
    Member,
    Partition,
    Stack,
    frames_of,
    join_small,
    merge_unstable,
    split_by_category,
)
from ..validation import check_choice, check_field, check_min_std, random_generator
from ..whitening import Grouping, resolve_min_std
from .base import ClusterEstimator
from .summary import Summary, describe_maps, describe_size
from .support import Support, describe_support


@dataclass(frozen=True, eq=False)
class StackedCluster(Stack):
    """Summary of one cluster of a stacked density."""

    label: int
    n_members: int  #: the number of its samples
    share: float  #: of the weight of all samples; in the density a wide background has weight, too
    mean: np.ndarray  #: (n_features,)

    def _validate(self) -> None:
        """Raise an error if a value is impossible, as one of a file might be."""
        check_field(self.mean, "mean", "f", (len(self.mean),))
        check_field(self.weights, "weights", "f", (len(self.members),), least=0)
        if self.label < NOISE or min(self.n_members, self.share, self.gain_error, self.n_tried) < 0:
            raise ValueError("numbers must not be negative, but for the label of noise")


class AutoROME(ClusterEstimator):
    r"""Density estimation that needs no parameter.

    Every feature may be mapped first, if that makes the samples more Gaussian. Clusters are found
    as in :class:`ROME`. On every cluster several members are tried: the Gaussian, Student's t,
    kernels of several widths, local Gaussians, and mixtures of few and many components. The best
    are summed with the weights :math:`w` that maximize the likelihood of held-out samples:

    .. math:: p(x) = \sum_C \frac{n_C}{N} \sum_m w_{Cm} \, p_{Cm}(z) \prod_j t_j'(x_j), \qquad
              z_j = t_j(x_j)

    A cluster on which no member is better than the Gaussian keeps the Gaussian. The density is a
    sum of Gaussian kernels in the latent coordinates :math:`z`, whatever its members.

    Parameters
    ----------
    min_std : float or "auto", default=0
        The smallest standard deviation of a kernel along any direction, in data units. "auto" is
        0.01 times the pooled standard deviation within clusters. Where features are mapped, it
        holds where maps are steepest.
    resolution : "auto", None, float or array-like of shape (n_features,), default="auto"
        The unit to which values are rounded, as in :class:`ROME`. With None, repeated values get
        narrow kernels.
    support : None, "auto" or dict, default=None
        The bounds and circles of features, as in :class:`ROME`.
    maps : "auto" or None, default="auto"
        Whether a monotone map :math:`t_j` is chosen for every feature: the identity, a power map of
        Yeo and Johnson, or a table of smooth normal scores. ``density_.maps`` has them. With None,
        no feature is mapped.
    members : list of :class:`sevenhills.stacking.Member`, optional
        Members to try on every cluster, in addition to those above.
    random_state : int, RandomState instance or None, default=0
        Seeds folds and the starts of mixtures.
    n_jobs : int, optional
        Number of threads; one by default.

    Attributes
    ----------
    density_ : KernelMixture
        The fitted density.
    labels_ : ndarray of shape (n_samples,)
        The cluster of every sample, -1 for outliers, which are far from all clusters. Noise and
        small clusters have joined the nearest cluster.
    clusters_ : tuple of StackedCluster
        Summaries of the clusters.
    n_fragments_ : int
        The number of clusters that were merged, because they were not found again without a fifth
        of the samples; 0 if clusters are stable.
    held_out_ : float
        The mean log density of held-out samples within their clusters: an estimate of that of new
        samples, if clusters are well separated. Maps are fitted to all samples; the number of their
        parameters, divided by that of samples, is subtracted.
    candidates_ : Candidates or None
        All distinct candidate clusterings with their scores; None for fewer than 5 samples.
    ordering_ : Ordering or None
        Order, reachability, core distances and predecessors.
    resolution_ : ndarray of shape (n_features,)
        The unit of every feature, 0 where values are exact.
    support_ : tuple of :class:`~sevenhills.estimators.FeatureSupport`
        The maps of the features in ``support``, and the number of samples at their bounds.

    Examples
    --------
    >>> from sevenhills import AutoROME, datasets
    >>> train, test = datasets.load("aniso").split(run=0, n_samples=1000)
    >>> auto = AutoROME().fit(train)
    >>> [cluster.members for cluster in auto.clusters_]
    [('Gaussian',), ('Gaussian',), ('Gaussian',)]
    >>> round(auto.score(test), 1)
    -2.6
    """

    _prefers_log = True
    density_: KernelMixture
    clusters_: tuple[StackedCluster, ...]
    n_fragments_: int
    held_out_: float
    candidates_: Candidates | None
    ordering_: Ordering | None

    def __init__(
        self,
        *,
        min_std: float | str = 0.0,
        resolution: Any = "auto",
        support: Any = None,
        maps: str | None = "auto",
        members: Sequence[Member] | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.min_std = min_std
        self.resolution = resolution
        self.support = support
        self.maps = maps
        self.members = members
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_min_std(self.min_std)
        check_choice(self.maps, "maps", ("auto", None))
        _check_members(self.members)
        random_generator(self.random_state)

    def _fit(self, X: np.ndarray, weights: np.ndarray | None, support: Support) -> None:
        rng = random_generator(self.random_state)
        given = support.points(X, weights, self.resolution)
        frames = (
            [Frame.identity(given)] if self.maps is None else frames_of(given, support.periods > 0)
        )
        generators = [rng, *(deepcopy(rng) for _ in frames[1:])]
        races = [self._race(*each) for each in zip(frames, generators, strict=True)]
        self._set_fitted(given, max(races, key=attrgetter("held_out")), support)
        self.held_out_ += support.mean_log_slope(X, weights)

    def _race(self, frame: Frame, rng: np.random.RandomState) -> "_Race":
        """Cluster points, and find the best members on every cluster."""
        points = frame.points
        clustered = find_clusters(points, self.n_jobs)
        Y = np.ascontiguousarray(points.X[:, points.features])
        places, n_samples = points.places(points.features), points.weights * points.grain

        cluster = partial(_labels_of, grain=points.grain, n_jobs=self.n_jobs)
        labels = join_small(places, n_samples, clustered.whole_labels())
        labels, n_fragments = merge_unstable(places, n_samples, labels, cluster, rng)
        labels = split_by_category(Y, n_samples, labels)
        points = replace(points, labels=labels).unwrapped()
        Y = np.ascontiguousarray(points.X[:, points.features])
        clusters = Grouping.from_samples(Y, labels, n_samples, points.unit)
        min_std = resolve_min_std(self.min_std, clusters)
        partition = Partition.from_labels(Y, n_samples, labels, min_std, frame.steepest)
        fits = partition.fit(self.members or (), rng, self.n_jobs)
        return _Race(frame, clustered, n_fragments, partition, fits)

    def _set_fitted(self, given: Points, race: "_Race", support: Support) -> None:
        """Set the fitted attributes; ``given`` are the points before any map."""
        self.density_ = race.frame.to_data(race.partition.density(race.fits))
        self.held_out_ = race.held_out
        self.n_fragments_ = race.n_fragments
        given = replace(given, labels=race.partition.labels).unwrapped()
        self.labels_ = given.row_labels()
        self.clusters_ = tuple(_describe(given, race.fits, self.labels_, support))
        _, _, self.ordering_, self.candidates_ = race.clustered.row_clusters()
        self.resolution_ = given.resolution

    def _summary(self) -> Summary:
        remarks = [
            self._describe_resolution(),
            describe_support(self.support_),
            describe_maps(self.density_.maps, self._feature_names()),
            f"The mean log density of held-out samples is {self.held_out_:.4g}.",
        ]
        if self.n_fragments_:
            remarks.append(
                f"{self.n_fragments_} clusters were merged: they were not stable when a fifth of "
                "the samples was left out."
            )
        n_outliers = int(np.sum(self.labels_ == NOISE))
        if n_outliers:
            remarks.append(
                f"Samples far from all clusters, with kernels of their own: {n_outliers}."
            )
        n_kernels, n_features = self.density_.n_kernels, self.n_features_in_
        return Summary(
            title=describe_size(n_kernels, "kernels", n_features, len(self.clusters_)),
            remarks=remarks,
            headings=("cluster", "samples", "share", "gain over a Gaussian", "members (weight)"),
            rows=[
                (
                    str(cluster.label),
                    str(cluster.n_members),
                    f"{cluster.share:.1%}",
                    f"{cluster.gain:.3f} \N{PLUS-MINUS SIGN} {cluster.gain_error:.3f}",
                    _list_members(cluster),
                )
                for cluster in self.clusters_
            ],
            is_ragged=True,
        )


class _Race(NamedTuple):
    """Points in a frame, their clusters and the densities of these."""

    frame: Frame
    clustered: Points
    n_fragments: int
    partition: Partition
    fits: Sequence[CellFit]

    @property
    def held_out(self) -> float:
        """The mean log density of held-out samples, in data units."""
        score = self.partition.held_out(self.fits)
        return self.frame.to_data_score(score, self.partition.labels != OUTLIER)


def _list_members(cluster: StackedCluster) -> str:
    """Return one line for each member, and the reason why not all were tried."""
    pairs = zip(cluster.members, cluster.weights, strict=True)
    lines = [f"{name} ({weight:.0%})" for name, weight in pairs]
    return "\n".join([*lines, f"[{cluster.reason}]"] if cluster.reason else lines)


def _labels_of(X: np.ndarray, weights: np.ndarray, grain: float, n_jobs: int | None) -> np.ndarray:
    points = Points.from_samples(X, weights / grain, start="first")
    return find_clusters(points, n_jobs).whole_labels()


def _check_members(members: Any) -> None:
    is_list = isinstance(members, list | tuple) and all(isinstance(m, Member) for m in members)
    if members is not None and not is_list:
        raise TypeError(
            f"members must be a list of sevenhills.stacking.Member, or None; got {members!r}"
        )


def _describe(
    points: Points, fits: Sequence[CellFit], labels: np.ndarray, support: Support
) -> list[StackedCluster]:
    """Return a summary of every cluster; ``labels`` are those of the rows of the data."""
    X, found = points.X * points.unit, []
    for label, fit in enumerate(fits):
        inside = points.labels == label
        weights = points.weights[inside]
        found.append(
            StackedCluster(
                label=label,
                n_members=int((labels == label).sum()),
                share=float(weights.sum() / points.weights.sum()),
                mean=support.values(np.average(X[inside], axis=0, weights=weights)[None])[0],
                **vars(fit.stack),
            )
        )
    return found
