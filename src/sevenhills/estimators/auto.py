"""ROME with a density for every cluster that is chosen by cross-validation."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..clustering import Candidates, Ordering, Points
from ..clustering.joining import join_small
from ..clustering.likelihood import find_likely_clusters
from ..clustering.optics import NOISE
from ..covariance import weighted_moments
from ..density import KernelMixture
from ..progress import muted, part, show_progress
from ..stacking import (
    OUTLIER,
    Cell,
    CellFit,
    Frame,
    Member,
    Partition,
    Stack,
    categories,
    fit_cells,
    frames_of,
    join_overlapping,
    preview,
    split_by_category,
)
from ..validation import (
    check_choice,
    check_field,
    check_flag,
    check_min_std,
    random_generator,
)
from ..whitening import Grouping, resolve_min_std
from .base import ClusterEstimator
from .summary import (
    Cluster,
    Summary,
    describe_categories,
    describe_coverage,
    describe_maps,
    describe_size,
    feature_name,
)
from .support import Support, describe_support

#: Fewer samples for each feature are scarce.
_ENOUGH_PER_FEATURE = 3
#: Longer lists of clusters are cut off.
_MOST_LISTED = 5


@dataclass(frozen=True, eq=False)
class StackedCell(Stack):
    """Summary of a cell: the samples that have a density of their own.

    A cell is one cluster or several overlapping ones; features of few values divide it further.
    """

    clusters: tuple[int, ...]  #: the labels of its samples
    #: The values of the features of few values; None where its samples differ.
    values: tuple[float | None, ...]
    n_members: int  #: the number of its samples
    share: float  #: of the weight of all samples; in the density a wide background has weight, too

    def _validate(self) -> None:
        """Raise an error if a value is impossible, as one of a file might be."""
        check_field(self.weights, "weights", "f", (len(self.members),), least=0)
        numbers = (self.n_members, self.share, self.gain_error, self.n_tried, *self.clusters)
        if min(numbers) < 0:
            raise ValueError("numbers must not be negative")


class AutoROME(ClusterEstimator):
    r"""Density estimation that needs no parameter.

    Features are scaled, and mapped if that makes the samples more Gaussian. Clusters are found as
    in ``ROME(selection="auto")``. Clusters that overlap form one cell :math:`C`; other clusters
    are cells of their own. Features of few values, such as years, divide cells further and are left
    out of the search for clusters. On every cell several members are tried: the Gaussian, Gaussians
    of few factors, Student's t, kernels of several widths, local Gaussians, and mixtures of few and
    many components. The best are summed with the weights :math:`w` that maximize the likelihood of
    held-out samples:

    .. math:: p(x) = \sum_C \frac{n_C}{N} \sum_m w_{Cm} \, p_{Cm}(z) \prod_j t_j'(x_j), \qquad
              z_j = t_j(x_j)

    A cell on which no member is better than the Gaussian keeps the Gaussian. The density is a
    sum of Gaussian kernels in the latent coordinates :math:`z`, whatever its members.

    Parameters
    ----------
    min_std : float or "auto", default=0
        The smallest standard deviation of a kernel along any direction, in scaled units; without
        ``scale``, in data units. "auto" is 0.01 times the pooled standard deviation within
        clusters. Where features are mapped, it holds where maps are steepest.
    resolution : "auto", None, float or array-like of shape (n_features,), default="auto"
        The unit to which values are rounded, as in :class:`ROME`. With None, repeated values get
        narrow kernels.
    support : None, "auto" or dict, default=None
        The bounds and circles of features, as in :class:`ROME`.
    scale : {"auto", "std", None}, default="auto"
        The scales by which features are divided before the fit, as in :class:`ROME`.
    maps : "auto" or None, default="auto"
        Whether a monotone map :math:`t_j` is chosen for every feature: the identity, a power map of
        Yeo and Johnson, or a table of smooth normal scores. ``density_.maps`` has them. With None,
        no feature is mapped.
    members : list of :class:`sevenhills.stacking.Member`, optional
        Members to try on every cluster, in addition to those above.
    random_state : int, RandomState instance or None, default=0
        Seeds folds and the starts of mixtures.
    verbose : bool, default=False
        Whether to print the stages of the fit, the share that is done and the time left.
    n_jobs : int, optional
        Number of threads; one by default.

    Attributes
    ----------
    density_ : KernelMixture
        The fitted density.
    labels_ : ndarray of shape (n_samples,)
        The cluster of every sample, -1 for outliers, which are far from all clusters. Noise and
        small clusters have joined the nearest cluster.
    clusters_ : tuple of Cluster
        Size, mean and spread of every cluster, as in :class:`ROME`; ``bandwidth`` is None.
    cells_ : tuple of StackedCell
        The members of every cell, their weights, and their gain over a Gaussian.
    held_out_ : float
        The mean log density of held-out samples within their clusters: an estimate of that of new
        samples, if clusters are well separated. Maps are fitted to all samples; the number of their
        parameters, divided by that of samples, is subtracted.
    held_out_scores_ : ndarray of shape (n_tested,)
        The log densities of held-out rows within their cells, in latent coordinates.
    categories_ : tuple of int
        The features of few values: at most 12, each with 20 samples on average. Cells are split by
        these values, and clusters are found without these features.
    candidates_ : Candidates or None
        All distinct candidate clusterings with their scores; None for fewer than 5 samples.
    ordering_ : Ordering or None
        Order, reachability, core distances and predecessors. Distances, and the heights of
        candidates, are in scaled units; without ``scale``, in data units.
    resolution_ : ndarray of shape (n_features,)
        The unit of every feature, 0 where values are exact.
    scale_ : ndarray of shape (n_features,)
        The scale of every feature, after the maps of ``support``; ones without ``scale``.
    support_ : tuple of :class:`~sevenhills.estimators.FeatureSupport`
        The maps of the features in ``support``, and the number of samples at their bounds.

    Examples
    --------
    >>> from sevenhills import AutoROME, datasets
    >>> train, test = datasets.load("aniso").split(run=0, n_samples=1000)
    >>> auto = AutoROME().fit(train)
    >>> [cell.members for cell in auto.cells_]
    [('Gaussian',), ('Gaussian',), ('Gaussian',)]
    >>> round(auto.score(test), 1)
    -2.6
    """

    _prefers_log = True
    density_: KernelMixture
    clusters_: tuple[Cluster, ...]
    cells_: tuple[StackedCell, ...]
    held_out_: float
    held_out_scores_: np.ndarray
    categories_: tuple[int, ...]
    candidates_: Candidates | None
    ordering_: Ordering | None

    def __init__(
        self,
        *,
        min_std: float | str = 0.0,
        resolution: Any = "auto",
        support: Any = None,
        scale: str | None = "auto",
        maps: str | None = "auto",
        members: Sequence[Member] | None = None,
        random_state: Any = 0,
        verbose: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.min_std = min_std
        self.resolution = resolution
        self.support = support
        self.scale = scale
        self.maps = maps
        self.members = members
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_min_std(self.min_std)
        check_choice(self.maps, "maps", ("auto", None))
        _check_members(self.members)
        random_generator(self.random_state)
        check_flag(self.verbose, "verbose")

    def _fit(self, X: np.ndarray, weights: np.ndarray | None, support: Support) -> None:
        with show_progress(enabled=self.verbose):
            self._fit_best(X, weights, support)

    def _fit_best(self, X: np.ndarray, weights: np.ndarray | None, support: Support) -> None:
        """Fit in the coordinates in which held-out samples are most likely."""
        rng = random_generator(self.random_state)
        given = support.points(X, weights, self.resolution)
        with part("maps", 0.0, 0.1), muted():
            frames = self._frames(given, support)
        races = []
        for i, frame in enumerate(frames):
            with part("", 0.1 + 0.3 * i / len(frames), 0.1 + 0.3 * (i + 1) / len(frames)):
                races.append(self._race(frame, deepcopy(rng)))
        with part("choice of maps", 0.4, 0.5):
            best = races[0] if len(races) == 1 else max(races, key=_Race.preview)
        with part("members", 0.5, 1.0):
            self._set_fitted(X, given, best, support)
        self.held_out_ += support.mean_log_slope(X, weights)

    def _frames(self, given: Points, support: Support) -> Sequence[Frame]:
        """Return the coordinates in which clusters are searched."""
        if self.maps is None:
            return [Frame.identity(given)]
        return frames_of(given, support.periods > 0)

    def _race(self, frame: Frame, rng: np.random.RandomState) -> "_Race":
        """Cluster the points of a frame, and divide them into cells."""
        points, n_samples = frame.points, frame.points.weights * frame.points.grain
        found = find_likely_clusters(_without_categories(points, n_samples), self.n_jobs)
        Y = np.ascontiguousarray(points.X[:, points.features])
        places = points.places(points.features)
        clusters = join_small(places, n_samples, found.clusters)
        cells = join_overlapping(places, n_samples, clusters, found.pieces)
        cells = split_by_category(Y, n_samples, cells)
        points = replace(points, labels=cells).unwrapped()
        Y = np.ascontiguousarray(points.X[:, points.features])
        groups = Grouping.from_samples(Y, cells, n_samples, points.unit)
        min_std = resolve_min_std(self.min_std, groups)
        partition = Partition.from_labels(
            Y, n_samples, cells, clusters, found.pieces, min_std, frame.steepest
        )
        return _Race(frame, found.points, partition, partition.cells(rng))

    def _set_fitted(self, X: np.ndarray, given: Points, race: "_Race", support: Support) -> None:
        """Set the fitted attributes; ``given`` are the points before any map."""
        fits = fit_cells(race.cells, self.members or (), self.n_jobs)
        self.density_ = race.frame.to_data(race.partition.density(fits))
        self.held_out_ = race.held_out([fit.held_out for fit in fits])
        given = replace(given, labels=race.partition.clusters).unwrapped()
        self.labels_ = given.row_labels()
        self.categories_ = categories(given.X, given.weights * given.grain)
        self.clusters_ = _describe_clusters(given, self.labels_, support)
        values = X[given.rows][:, list(self.categories_)]
        self.cells_ = _describe_cells(given, race.partition.labels, fits, values)
        self.held_out_scores_ = race.partition.scores(fits) - race.frame.log_unit
        self.held_out_scores_ -= np.log(self.scale_).sum()
        _, _, self.ordering_, self.candidates_ = race.clustered.row_clusters()
        self.resolution_ = given.resolution

    def _summary(self) -> Summary:
        names = self._feature_names()
        remarks = [
            self._describe_scale(),
            self._describe_resolution(),
            describe_support(self.support_),
            describe_maps(self.density_.maps, names),
            describe_categories(self.categories_, names),
            _describe_overlap(self.cells_, self.clusters_),
            f"The mean log density of held-out samples is {self.held_out_:.4g}.",
            describe_coverage(self.density_, self.held_out_scores_, "held-out samples"),
            _describe_scarcity(self.cells_, self.n_features_in_),
            _describe_outliers(int(np.sum(self.labels_ == NOISE))),
        ]
        n_kernels, n_features = self.density_.n_kernels, self.n_features_in_
        groups = [feature_name(j, names) for j in self.categories_]
        return Summary(
            title=describe_size(n_kernels, "kernels", n_features, len(self.clusters_)),
            remarks=remarks,
            headings=(
                *("cluster", *groups, "samples", "share"),
                *("gain over a Gaussian", "members (weight)"),
            ),
            rows=[
                (
                    ", ".join(map(str, cell.clusters)),
                    *("several" if value is None else f"{value:g}" for value in cell.values),
                    str(cell.n_members),
                    f"{cell.share:.1%}",
                    f"{cell.gain:.3f} \N{PLUS-MINUS SIGN} {cell.gain_error:.3f}",
                    _list_members(cell),
                )
                for cell in self.cells_
            ],
            is_ragged=True,
        )


class _Race(NamedTuple):
    """Points in a frame, and their clusters."""

    frame: Frame
    clustered: Points
    partition: Partition
    cells: Sequence[Cell]

    def held_out(self, cell_scores: Sequence[float]) -> float:
        """Return the mean log density of held-out samples, in data units."""
        score = self.partition.held_out(cell_scores)
        return self.frame.to_data_score(score, self.partition.labels != OUTLIER)

    def preview(self) -> float:
        """Return about the mean log density of held-out samples, in data units."""
        return self.held_out([preview(cell) for cell in self.cells])


def _without_categories(points: Points, n_samples: np.ndarray) -> Points:
    """Return points without the features of few values, which would pass for clusters."""
    few = categories(points.X, n_samples)
    if not 0 < len(few) < points.X.shape[1]:
        return points
    X = points.X.copy()
    X[:, few] = 0.0
    return replace(points, X=X)


def _list_members(cell: StackedCell) -> str:
    """Return one line for each member, and the reason why not all were tried."""
    lines = [f"{n} ({w:.0%})" for n, w in zip(cell.members, cell.weights, strict=True)]
    return "\n".join([*lines, f"[{cell.reason}]"] if cell.reason else lines)


def _describe_overlap(cells: Sequence[StackedCell], clusters: Sequence[Cluster]) -> str:
    """Return a sentence that gives the sizes of clusters that share a density."""
    shared = sorted({label for cell in cells if len(cell.clusters) > 1 for label in cell.clusters})
    sizes = {cluster.label: cluster.n_members for cluster in clusters}
    listed = [f"{label} ({sizes[label]} samples)" for label in shared[:_MOST_LISTED]]
    more = len(shared) - len(listed)
    text = ", ".join(listed) + (f" and {more} more" if more else "")
    return f"Clusters that overlap, and share a density: {text}." if shared else ""


def _describe_scarcity(cells: Sequence[StackedCell], n_features: int) -> str:
    """Return a sentence on cells with few samples for the number of features."""
    n_few = sum(cell.n_members < _ENOUGH_PER_FEATURE * n_features for cell in cells)
    if not n_few:
        return ""
    where = "" if len(cells) == 1 else f" in {n_few} of {len(cells)} densities"
    return (
        f"Fewer than {_ENOUGH_PER_FEATURE} samples for each feature{where}: the density follows "
        "the pooled covariance and single features more than the samples."
    )


def _describe_outliers(n_outliers: int) -> str:
    return (
        f"Samples far from all clusters, with kernels of their own: {n_outliers}."
        if n_outliers
        else ""
    )


def _check_members(members: Any) -> None:
    is_list = isinstance(members, list | tuple) and all(isinstance(m, Member) for m in members)
    if members is not None and not is_list:
        raise TypeError(
            f"members must be a list of sevenhills.stacking.Member, or None; got {members!r}"
        )


def _describe_clusters(points: Points, labels: np.ndarray, support: Support) -> tuple[Cluster, ...]:
    """Return a summary of every cluster; ``labels`` are those of the rows of the data."""
    groups = Grouping.from_samples(points.X, points.labels, points.weights, points.unit)
    sizes = Counter(labels.tolist())
    means = support.values(groups.means * groups.unit)
    return tuple(
        Cluster(
            label=int(label),
            n_members=sizes[int(label)],
            share=float(mass / points.weights.sum()),
            mean=mean,
            stds=_spread(points, points.labels == label),
            bandwidth=None,
        )
        for label, mass, mean in zip(groups.labels, groups.masses, means, strict=True)
        if label != OUTLIER
    )


def _spread(points: Points, inside: np.ndarray) -> np.ndarray:
    """Return the standard deviations of points along their principal axes, largest first."""
    covariance = weighted_moments(points.X[inside], points.weights[inside]).covariance
    variances = np.linalg.eigvalsh(covariance)[::-1]
    return np.sqrt(np.maximum(variances, 0.0)) * points.unit


def _describe_cells(
    points: Points, cells: np.ndarray, fits: Sequence[CellFit], values: np.ndarray
) -> tuple[StackedCell, ...]:
    """Return a summary of every cell.

    Points have the labels of clusters, and ``values`` are those of their features of few values.
    """
    sizes = Counter(replace(points, labels=cells).row_labels().tolist())
    found = []
    for label, fit in enumerate(fits):
        inside = cells == label
        first, is_same = values[inside][0], np.ptp(values[inside], axis=0) == 0
        found.append(
            StackedCell(
                clusters=tuple(np.unique(points.labels[inside]).tolist()),
                values=tuple(
                    value if same else None
                    for value, same in zip(first.tolist(), is_same.tolist(), strict=True)
                ),
                n_members=sizes[label],
                share=float(points.weights[inside].sum() / points.weights.sum()),
                **vars(fit.stack),
            )
        )
    return tuple(found)
