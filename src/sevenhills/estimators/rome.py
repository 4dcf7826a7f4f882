"""ROME, the robust multi-modal estimator."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..clustering import (
    Candidates,
    Cuts,
    Ordering,
    Points,
    Scores,
    choose,
    cut,
    neighbors_for,
    order_by_reachability,
    score,
)
from ..clustering.likelihood import choose_by_likelihood
from ..clustering.optics import NOISE
from ..clustering.points import FEWEST_TO_CLUSTER
from ..clustering.selection import CRITERIA
from ..density import Density, KernelMixture, NeighborDensity
from ..progress import part, show_progress
from ..validation import (
    check_choice,
    check_count,
    check_flag,
    check_labels,
    check_min_std,
    check_positive,
)
from ..whitening import Grouping
from .base import ClusterEstimator, warn_if_unequal
from .cluster_densities import (
    DENSITIES,
    SHRINKAGE,
    ClusterWhitening,
    describe_clusters,
    put_kernels,
    show_clusters,
    whiten_clusters,
)
from .summary import (
    Cluster,
    Summary,
    describe_candidates,
    describe_choice,
    describe_coverage,
    describe_size,
    leave_one_out_scores,
)
from .support import Support, describe_support

#: Numbers of folds, and of points of a fold that are tested, by which ``selection="auto"`` decides
#: which clusters have kernels.
_N_FOLDS = 5
_MOST_TESTED = 100
#: The parts of the density of a cluster, for every choice of ``density``.
_PARTS = {"kde": "kernels", "gaussian": "kernels", "knn": "neighbors", "mpw": "windows"}


class ROME(ClusterEstimator):
    r"""Robust multi-modal density estimation.

    The samples are ordered by OPTICS reachability, the ordering is cut into candidate
    clusterings, the one with the best silhouette is kept, every cluster :math:`C` is rotated onto
    its principal axes and scaled, and Gaussian kernels are put on it:

    .. math:: p(x) = \sum_C \frac{n_C}{N} \; p_C\big((x - m_C) T_C\big) \; |\det T_C|

    Parameters
    ----------
    min_std : float or "auto", default="auto"
        The smallest standard deviation of the density along any direction, in data units; with
        ``scale``, in scaled units. "auto" is 0.01 times the pooled standard deviation within
        clusters. It is one number for all features: without ``scale``, features of a small spread
        are smoothed away beside features of a large one. On the breast cancer table the mean log
        density of held-out samples is -47.3, and 30.8 with "auto" for both ``scale`` and
        ``selection`` (``make bench-clusters``).
    selection : {"silhouette", "dbcv", "auto", None}, default="silhouette"
        The score by which a candidate clustering is chosen: silhouettes, or density-based
        validation. None keeps all samples in one cluster. With "auto", the leave-one-out likelihood
        of one Gaussian for each cluster chooses a candidate, clusters are split where that is
        likelier, and merged where the samples show no valley. Kernels are then put on the pieces
        before merging, on the clusters, on those of the best silhouette or on one cluster,
        whichever has the highest log density of held-out samples.
    decorrelate : bool, default=True
        Whether to rotate every cluster onto its principal axes.
    normalize : bool, default=True
        Whether to scale every cluster to about unit variance along its axes, and noise by the
        spread of the clusters; if not, kernels are measured in data units.
    density : {"kde", "gaussian", "knn", "mpw"}, default="kde"
        The density of every cluster: Gaussian kernels of Silverman's width; one Gaussian with
        the mean and covariance of the cluster, widened by a variance of ``min_std ** 2``, and by
        at least 1e-6 if ``min_std`` is a number; the k-nearest-neighbor density, which is not
        normalized and cannot be sampled; or manifold Parzen windows. Noise always carries
        kernels.
    shrinkage : {None, "auto", "always"}, default=None
        The clusters whose covariance is shrunk: none, those of fewer than five samples per
        feature, or all. With 20 samples in 24 dimensions at least five principal variances are
        zero, and only ``min_std`` keeps the density finite. The covariance is shrunk towards the
        pooled covariance and a multiple of the identity; the amounts are chosen by leave-one-out
        likelihood. Noise then has the pooled covariance. Ignored without ``decorrelate`` and
        ``normalize``.
    resolution : "auto", None, float or array-like of shape (n_features,), default="auto"
        The unit to which values are rounded, for all features or one for each, 0 for exact
        features. Samples with equal values are spread evenly over the unit around the value, so
        that each value does not become a cluster. "auto" recognizes features of at least 8 values
        that lie on a lattice, such as ages, counts and prices; None takes all values as exact.
    support : None, "auto" or dict, default=None
        The bounds and circles of features, by name or index: ``{"age": (0, None), "share": (0, 1),
        "heading": ("circular", 360)}``. The density is zero outside, and clusters are found where
        distances make sense. A third item, "log" or "mirror", chooses the map of a bounded feature;
        by default the samples do. "auto" proposes bounds, and warns which ones it took.
    scale : {"auto", "std", None}, default=None
        The scales by which features are divided before clusters are found and kernels are put on
        them: typical differences between samples within clusters, standard deviations, or none, as
        in the published method. With scales, the unit of a feature does not matter. The density is
        that of the features as given.
    start : {"canonical", "first"}, default="canonical"
        The start of the ordering: the sample nearest to the mean, which makes the result
        independent of the order of the rows, or the first row.
    k_min, k_max : int, default=5, 20
        Limits of the number of neighbors that make a core.
    alpha_k : float, default=400
        The number of neighbors is ``n_samples * n_features / alpha_k`` between the limits.
    n_eps, n_xi : int, default=100, 99
        Numbers of cuts of the ordering at a height (DBSCAN) and at a steepness (xi).
    exact_below : int, default=4000
        From this number of distinct samples on, silhouettes are computed for a sample of them,
        which grows until the best candidate is ahead of all others by four standard errors;
        ``candidates_`` then has the errors of the scores. The sample is the same in every fit of
        the same data. It costs no more than all silhouettes of 30,000 samples, unless it has at
        most 4096 samples.
    verbose : bool, default=False
        Whether to print the stages of the fit, the share that is done and the time left.
    n_jobs : int, optional
        Number of threads; one by default.

    Attributes
    ----------
    density_ : KernelMixture or NeighborDensity
        The fitted density.
    labels_ : ndarray of shape (n_samples,)
        The cluster of every sample, -1 being noise. Equal rows of rounded values have one label,
        the most frequent one of their copies after spreading.
    clusters_ : tuple of Cluster
        Size, mean, spread and bandwidth of every cluster. With a ``support``, the mean is that of
        latent coordinates, mapped to a value, and the spread that of latent coordinates. With a
        ``scale``, means are in data units and spreads in scaled units.
    candidates_ : Candidates or None
        All distinct candidate clusterings with their scores; None if there was no choice. The
        heights of cuts are in data units; with ``scale``, in scaled units.
    ordering_ : Ordering or None
        Order, reachability, core distances and predecessors; None if there was no choice.
        Distances are in data units; with ``scale``, in scaled units.
    min_std_ : float
        The smallest standard deviation that was used, in data units; with ``scale``, in scaled
        units.
    scale_ : ndarray of shape (n_features,)
        The scale of every feature, after the maps of ``support``; ones without ``scale``.
    resolution_ : ndarray of shape (n_features,)
        The unit of every feature, 0 where values are exact.
    support_ : tuple of :class:`~sevenhills.estimators.FeatureSupport`
        The maps of the features in ``support``, and the number of samples at their bounds.

    Notes
    -----
    The study calls the other choices of ``selection``, ``decorrelate``, ``normalize`` and
    ``density`` ablations. Some of them are the same estimator: ``decorrelate`` does not matter
    without ``normalize``, and neither changes the Gaussians of ``density="gaussian"``.

    References
    ----------
    A. Mészáros, J. F. Schumann, J. Alonso-Mora, A. Zgonnikov, J. Kober: ROME: Robust Multi-Modal
    Density Estimator. IJCAI 2024.

    Examples
    --------
    >>> from sevenhills import ROME, datasets
    >>> train, test = datasets.load("aniso").split(run=0, n_samples=1000)
    >>> rome = ROME().fit(train)
    >>> len(rome.clusters_)
    3
    >>> round(rome.score(test), 1)
    -2.6
    >>> rome.sample(2, random_state=0).shape
    (2, 2)
    """

    ordering_: Ordering | None
    candidates_: Candidates | None
    clusters_: tuple[Cluster, ...]
    min_std_: float
    density_: KernelMixture | NeighborDensity

    def __init__(
        self,
        *,
        min_std: float | str = "auto",
        selection: str | None = "silhouette",
        decorrelate: bool = True,
        normalize: bool = True,
        density: str = "kde",
        shrinkage: str | None = None,
        resolution: Any = "auto",
        support: Any = None,
        scale: str | None = None,
        start: str = "canonical",
        k_min: int = 5,
        k_max: int = 20,
        alpha_k: float = 400,
        n_eps: int = 100,
        n_xi: int = 99,
        exact_below: int = 4000,
        verbose: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.min_std = min_std
        self.selection = selection
        self.decorrelate = decorrelate
        self.normalize = normalize
        self.density = density
        self.shrinkage = shrinkage
        self.resolution = resolution
        self.support = support
        self.scale = scale
        self.start = start
        self.k_min = k_min
        self.k_max = k_max
        self.alpha_k = alpha_k
        self.n_eps = n_eps
        self.n_xi = n_xi
        self.exact_below = exact_below
        self.verbose = verbose
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, labels: Any = None
    ) -> "ROME":
        """Fit the density to samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            The number of samples that every row stands for, not necessarily whole: a row of
            weight three counts as three equal rows. Relative weights should be scaled to add up
            to the number of samples. Rows of weight zero are ignored, and labeled as noise.
        labels : array-like of shape (n_samples,), optional
            Clusters to use in place of those that would be found, -1 being noise.

        Returns
        -------
        self : ROME
            If fitting fails or is interrupted, the estimator is as it was before.
        """
        return self._fit_checked(X, sample_weight, labels=labels)

    def _fit(
        self, X: np.ndarray, weights: np.ndarray | None, support: Support, labels: Any = None
    ) -> Iterator[None]:
        with show_progress(enabled=self.verbose):
            yield from self._fit_clusters(X, weights, support, labels)

    def _fit_clusters(
        self, X: np.ndarray, weights: np.ndarray | None, support: Support, labels: Any
    ) -> Iterator[None]:
        """Find clusters, unless they are given, and put kernels on them."""
        labels = None if labels is None else check_labels(labels, len(X))
        yield
        points = shown = support.points(X, weights, self.resolution, self.start, labels)
        if labels is None and self.selection and points.n_counted >= FEWEST_TO_CLUSTER:
            if self.scale is None and self.density != "knn":  # which cannot be scaled
                warn_if_unequal(self, support.latent(X), weights)
            yield
            points, shown = yield from self._find_clusters(points)
        yield
        with part("kernels", 0.95, 1.0):
            clusters = Grouping.from_points(points.unwrapped())
            yield
            whitening = self._whiten(clusters)
            yield
            self.density_ = put_kernels(clusters, whitening, self.density, self.n_jobs)
        yield
        self.min_std_, self.resolution_ = whitening.min_std * points.unit, points.resolution
        self.labels_, n_members, self.ordering_, self.candidates_ = shown.row_clusters()
        if shown is not points:
            self.density_ = show_clusters(self.density_, points, shown.whole_labels())
            clusters = Grouping.from_points(shown.unwrapped())
            whitening = self._whiten(clusters)
        yield
        self.clusters_ = describe_clusters(clusters, whitening, self.density, n_members, support)
        if shown is not points:
            self.clusters_ = tuple(replace(each, bandwidth=None) for each in self.clusters_)

    def _find_clusters(self, points: Points) -> Generator[None, None, tuple[Points, Points]]:
        """Return points in the clusters of kernels, and in those to show."""
        split, k = points.split(), self._n_neighbors(points)
        with part("", 0.0, 0.6):
            ordering = order_by_reachability(split.places(), k, split.weights, self.n_jobs)
        yield
        cuts = cut(ordering, self.n_eps, self.n_xi, split.weights)
        yield
        with part("scores", 0.6, 0.9):
            scores = self._score(split, cuts, k)
        yield
        clustered = split.clustered(ordering, choose(cuts, scores))
        if self.selection != "auto":
            return clustered, clustered
        found = choose_by_likelihood(points, split, ordering, cuts)
        one = np.zeros_like(found.clusters)
        choices = (found.clusters, found.pieces, clustered.whole_labels(), one)
        whole = slice(None) if split.whole is None else split.whole
        shown = replace(found.points, labels=found.clusters[whole])
        labels = self._likeliest(points, choices)
        return (shown if labels is found.clusters else replace(points, labels=labels)), shown

    def _likeliest(self, points: Points, choices: Sequence[np.ndarray]) -> np.ndarray:
        """Return the labels under which the log density of held-out points is highest."""
        distinct = list({labels.tobytes(): labels for labels in reversed(choices)}.values())
        if len(distinct) == 1:
            return distinct[0]
        return max(distinct, key=lambda labels: self._held_out(replace(points, labels=labels)))

    def _held_out(self, points: Points) -> float:
        """Return the mean log density of points that are left out of the fit, in turn."""
        X, labels, weights = points.unwrapped().joined()
        fold = np.arange(len(X)) % _N_FOLDS
        total = 0.0
        for f in range(_N_FOLDS):
            train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            test = test[:: -(-len(test) // _MOST_TESTED)]
            clusters = Grouping.from_samples(X[train], labels[train], weights[train], points.unit)
            try:
                density = put_kernels(clusters, self._whiten(clusters), self.density, self.n_jobs)
            except ValueError:  # a cluster has no spread
                return -np.inf
            scores = density.logpdf(X[test] * points.unit)
            total += float(np.average(scores, weights=weights[test]))
        return total / _N_FOLDS

    def _n_neighbors(self, points: Points) -> int:
        n_features = points.X.shape[1]
        return neighbors_for(points.n_counted, n_features, self.k_min, self.k_max, self.alpha_k)

    def _score(self, points: Points, cuts: Cuts, k: int) -> Scores:
        return score(
            points.places(),
            cuts,
            "silhouette" if self.selection == "auto" else str(self.selection),
            n_neighbors=k,
            weights=points.weights,
            n_jobs=self.n_jobs,
            exact_below=self.exact_below,
        )

    def _whiten(self, clusters: Grouping) -> ClusterWhitening:
        return whiten_clusters(
            clusters,
            self.min_std,
            decorrelate=self.decorrelate,
            normalize=self.normalize,
            shrinkage=self.shrinkage,
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_min_std(self.min_std)
        check_choice(self.density, "density", DENSITIES)
        check_choice(self.shrinkage, "shrinkage", SHRINKAGE)
        check_choice(self.selection, "selection", (*CRITERIA, "auto", None))
        check_choice(self.start, "start", ("canonical", "first"))
        check_flag(self.decorrelate, "decorrelate")
        check_flag(self.normalize, "normalize")
        check_flag(self.verbose, "verbose")
        check_count(self.k_min, "k_min", least=2)
        check_count(self.k_max, "k_max", least=2)
        if self.k_max < self.k_min:
            raise ValueError(f"k_max must not be below k_min, got {self.k_max} < {self.k_min}")
        check_positive(self.alpha_k, "alpha_k")
        if check_count(self.n_eps, "n_eps") + check_count(self.n_xi, "n_xi") == 0:
            raise ValueError("n_eps and n_xi must not both be zero")
        check_count(self.exact_below, "exact_below")
        for name in ("support", "scale"):
            if self.density == "knn" and getattr(self, name) is not None:
                raise ValueError(
                    f"{name} needs a mixture of kernels, which density='knn' does not fit; choose "
                    "density='kde', 'gaussian' or 'mpw'"
                )

    def _density_class(self) -> type[Density]:
        return NeighborDensity if self.density == "knn" else KernelMixture

    def _summary(self) -> Summary:
        kind, n_features = _PARTS[self.density], self.n_features_in_
        proper = [cluster for cluster in self.clusters_ if cluster.label != NOISE]
        size = describe_size(self.density_.n_kernels, kind, n_features, len(proper))
        n_noise = sum(cluster.n_members for cluster in self.clusters_ if cluster.label == NOISE)
        noise = f" and {n_noise} noise samples" if n_noise else ""
        return Summary(
            title=f"{size}{noise}, min_std = {self.min_std_:.4g}",
            remarks=[
                self._describe_scale(),
                self._describe_resolution(),
                describe_support(self.support_),
                self._describe_coverage(),
            ],
            headings=("cluster", "samples", "share", "widest std", "narrowest std", "bandwidth"),
            rows=[
                (
                    cluster.name,
                    str(cluster.n_members),
                    f"{cluster.share:.1%}",
                    f"{cluster.stds.max():.4g}",
                    f"{cluster.stds.min():.4g}",
                    "-" if cluster.bandwidth is None else f"{cluster.bandwidth:.4g}",
                )
                for cluster in self.clusters_
            ],
            conclusion=describe_choice(self.candidates_),
            details=describe_candidates(self.candidates_),
        )

    def _describe_coverage(self) -> str:
        density = self.density_
        if self.density != "kde" or not isinstance(density, KernelMixture) or len(self.labels_) < 2:
            return ""
        scores = leave_one_out_scores(density)
        return describe_coverage(density, scores, "samples that are left out one at a time")
