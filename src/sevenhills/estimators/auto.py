"""ROME with a density for every cluster that is chosen by cross-validation."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..clustering import Candidates, Ordering, Points, find_clusters
from ..clustering.points import check_resolution
from ..density import KernelMixture
from ..stacking import CellFit, Member, Partition, join_small, merge_unstable, split_by_category
from ..validation import check_min_std, random_generator
from ..whitening import Grouping, resolve_min_std
from .base import ClusterEstimator
from .cluster_records import StackedCluster
from .summary import Summary, summarize_members


class AutoROME(ClusterEstimator):
    r"""Density estimation that needs no parameter.

    Clusters are found as in :class:`ROME`. On every cluster several members are tried: the
    Gaussian, Student's t, kernels of several widths, a Gaussian copula, local Gaussians, and
    mixtures of few and many components. The best are summed with the weights :math:`w` that
    maximize the likelihood of held-out samples:

    .. math:: p(x) = \sum_C \frac{n_C}{N} \sum_m w_{Cm} \, p_{Cm}(x)

    A cluster on which no member is better than the Gaussian keeps the Gaussian. The density is a
    sum of Gaussian kernels, whatever its members.

    Parameters
    ----------
    min_std : float or "auto", default=0
        The smallest standard deviation along any direction that every kernel is given, in data
        units. "auto" is 0.01 times the pooled standard deviation within clusters.
    resolution : "auto", None, float or array-like of shape (n_features,), default="auto"
        The unit to which values are rounded, for all features or one for each, 0 for features that
        are exact. Equal values are spread evenly over the unit around them. "auto" recognizes
        features whose values lie on a lattice, such as ages, counts and prices; None treats all
        values as exact, so that repeated values get narrow kernels.
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
        small clusters have joined the nearest cluster. Equal rows of rounded values have one
        label, that of most of their copies after spreading.
    clusters_ : tuple of StackedCluster
        Summaries of the clusters.
    n_fragments_ : int
        The number of clusters that were merged, because they were not found again without a fifth
        of the samples; 0 if the clusters are stable.
    held_out_ : float
        The mean log density of held-out samples within their clusters: an estimate of that of new
        samples, if clusters are well separated.
    candidates_ : Candidates or None
        All distinct candidate clusterings with their scores; None for fewer than 5 samples.
    ordering_ : Ordering or None
        Order, reachability, core distances and predecessors.
    resolution_ : ndarray of shape (n_features,)
        The unit of every feature, 0 where values are exact.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If the samples came with names that are strings.

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
        members: Sequence[Member] | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.min_std = min_std
        self.resolution = resolution
        self.members = members
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_min_std(self.min_std)
        _check_members(self.members)
        check_resolution(self.resolution)
        random_generator(self.random_state)

    def _fit(self, X: np.ndarray, weights: np.ndarray | None) -> None:
        rng = random_generator(self.random_state)
        points = Points.from_samples(X, weights, self.resolution)
        clustered = find_clusters(points, self.n_jobs)
        Y = np.ascontiguousarray(points.X[:, points.features])
        n_samples = points.weights * points.grain

        cluster = partial(_labels_of, grain=points.grain, n_jobs=self.n_jobs)
        labels = join_small(Y, n_samples, clustered.whole_labels())
        labels, self.n_fragments_ = merge_unstable(Y, n_samples, labels, cluster, rng)
        labels = split_by_category(Y, n_samples, labels)
        clusters = Grouping.from_samples(Y, labels, n_samples, points.unit)
        min_std = resolve_min_std(self.min_std, clusters)
        partition = Partition.from_labels(Y, n_samples, labels, min_std)
        fits = partition.fit(self.members or (), rng, self.n_jobs)
        to_data = np.eye(X.shape[1])[points.features] * points.unit
        self.density_ = partition.density(fits).affine(to_data, np.zeros(X.shape[1]))
        self.held_out_ = partition.held_out(fits) - X.shape[1] * float(np.log(points.unit))
        self.labels_ = replace(points, labels=labels).row_labels()
        self.clusters_ = _describe(points, labels, fits, self.labels_)
        _, _, self.ordering_, self.candidates_ = clustered.row_clusters()
        self.resolution_ = points.resolution

    def _summary(self) -> Summary:
        return summarize_members(
            self.clusters_,
            self.labels_,
            n_kernels=self.density_.n_kernels,
            n_fragments=self.n_fragments_,
            held_out=self.held_out_,
            rounded=self._describe_resolution(),
        )


def _labels_of(X: np.ndarray, weights: np.ndarray, grain: float, n_jobs: int | None) -> np.ndarray:
    points = Points.from_samples(X, weights / grain, start="first")
    return find_clusters(points, n_jobs).whole_labels()


def _check_members(members: Any) -> None:
    if members is None:
        return
    if not isinstance(members, list | tuple) or not all(
        isinstance(each, Member) for each in members
    ):
        raise TypeError(
            f"members must be a list of sevenhills.stacking.Member, or None; got {members!r}"
        )


def _describe(
    points: Points, found: np.ndarray, fits: Sequence[CellFit], labels: np.ndarray
) -> tuple[StackedCluster, ...]:
    X = points.X * points.unit

    def one(label: int, fit: CellFit) -> StackedCluster:
        inside = found == label
        weights = points.weights[inside]
        return StackedCluster(
            label=label,
            n_members=int((labels == label).sum()),
            share=float(weights.sum() / points.weights.sum()),
            mean=np.average(X[inside], axis=0, weights=weights),
            members=fit.members,
            weights=fit.weights,
            gain=fit.gain,
            gain_error=fit.gain_error,
            n_tried=fit.n_tried,
            reason=fit.reason,
        )

    return tuple(one(label, fit) for label, fit in enumerate(fits))
