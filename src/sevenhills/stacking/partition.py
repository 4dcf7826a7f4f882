"""The density of all clusters: which samples form clusters, and the sum of their densities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import KDTree

from ..covariance import weighted_moments
from ..density import KernelMixture
from ..folds import count, counts, without_a_fifth
from ..threads import map_blocks
from ..whitening import silverman
from .components import gaussian_kernels
from .members import Cell, Member
from .search import ENOUGH_TO_STOP, CellFit, fit_cell

OUTLIER = -1
#: Samples farther than this number of standard deviations from all clusters are outliers.
_MAX_STDS = 10.0
#: So are samples whose distance to the median of their own cluster exceeds the typical distance by
#: this factor: they alone would determine the covariance of the cluster.
_MAX_RATIO = 2.0**20
#: Smallest variance of a kernel, relative to the variance within clusters.
_MIN_VARIANCE = 1e-8
#: Slopes beyond this do not widen kernels further, which would blur thin relations.
_MAX_STEEPNESS = 100.0
#: Weight of the wide background, in samples.
_BACKGROUND = 0.1
#: Clusters are stable if the adjusted Rand index without a fifth of the samples reaches this.
_MIN_AGREEMENT = 0.95
#: A feature with at most this many values, each repeated this often on average, is a category.
_MAX_VALUES = 12
_MIN_REPEATS = 20

#: A function of rows and weights that returns labels, -1 for noise.
Clustering = Callable[[np.ndarray, np.ndarray], np.ndarray]


def min_cluster_size(n_features: int) -> int:
    """Return the smallest number of samples of a cluster."""
    return max(10, n_features + 2)


# Labels


def join_small(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Assign noise and small clusters to the cluster of the nearest sample.

    Samples that are far from all clusters, including their own, become outliers. Clusters are
    renumbered.
    """
    inside = (labels >= 0) & ~is_far(X, labels)
    sizes = counts(labels[inside], weights[inside])
    kept = inside.copy()
    kept[inside] = sizes[labels[inside]] >= min_cluster_size(X.shape[1])
    if not kept.any():
        return np.zeros(len(X), dtype=np.int64)
    numbers = np.unique(labels[kept], return_inverse=True)[1]
    out = np.full(len(X), OUTLIER, dtype=np.int64)
    out[kept] = numbers
    if kept.all():
        return out
    distances, nearest = KDTree(X[kept]).query(X[~kept])
    near = distances <= _MAX_STDS * _radii(X[kept], weights[kept], numbers)[numbers[nearest]]
    out[~kept] = np.where(near, numbers[nearest], OUTLIER)
    return out


def is_far(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return which rows are far from the median of their cluster."""
    far = np.zeros(len(X), dtype=bool)
    for label in np.unique(labels[labels >= 0]):
        rows = np.flatnonzero(labels == label)
        apart = np.abs(X[rows] - np.quantile(X[rows], 0.5, axis=0, method="lower")).max(axis=1)
        if apart.any():
            far[rows] = apart > _MAX_RATIO * np.quantile(apart[apart > 0], 0.5, method="lower")
    return far


def _radii(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the standard deviation of every cluster, but at least the pooled one.

    If all clusters are single values, the standard deviation is that of all samples.
    """
    moments = [weighted_moments(X[rows], weights[rows]) for rows in _rows_of(labels)]
    own = np.array([np.trace(each.covariance) for each in moments])
    within = float(own @ np.bincount(labels, weights)) / weights.sum()
    if within == 0:
        within = float(np.trace(weighted_moments(X, weights).covariance))
    return np.sqrt(np.maximum(own, within if within > 0 else np.inf))


def _rows_of(labels: np.ndarray) -> list[np.ndarray]:
    """Return the rows of every cluster."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(labels.max() + 1)))[1:]


def merge_unstable(
    X: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    cluster: Clustering,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, int]:
    """Merge all clusters if ``cluster`` does not find them again without a fifth of the samples.

    Gaps that happen to be in the samples move when samples are left out. If all clusters are large,
    the test is skipped: the density is then good even if they are fragments. The second result is
    the number of clusters that were merged.
    """
    inside = labels != OUTLIER
    if labels.max() == 0 or counts(labels[inside], weights[inside]).min() >= ENOUGH_TO_STOP:
        return labels, 0
    left = np.zeros(len(X))
    left[inside] = without_a_fifth(weights[inside], rng)
    seen = left > 0
    again = join_small(X[seen], left[seen], cluster(X[seen], left[seen]))
    if adjusted_rand(labels[seen], again, left[seen]) >= _MIN_AGREEMENT:
        return labels, 0
    return join_small(X, weights, np.minimum(labels, 0)), int(labels.max()) + 1


def adjusted_rand(labels: np.ndarray, others: np.ndarray, weights: np.ndarray) -> float:
    r"""Return the adjusted Rand index of two clusterings of weighted rows.

    .. math:: \frac{\sum_{ij} p(n_{ij}) - e}{\frac{1}{2} (a + b) - e}, \quad e = a b / p(n), \quad
              a = \sum_i p(n_{i \cdot}), \quad b = \sum_j p(n_{\cdot j})

    with the number of samples :math:`n_{ij}` in cluster :math:`i` of the one and :math:`j` of the
    other clustering, and :math:`p(n) = n (n - 1) / 2` pairs of :math:`n` samples.
    """
    here, there = (np.unique(each, return_inverse=True)[1] for each in (labels, others))
    shape = here.max() + 1, there.max() + 1
    table = np.bincount(here * shape[1] + there, weights, shape[0] * shape[1]).reshape(shape)
    both, one, other = (_n_pairs(sizes) for sizes in (table, table.sum(axis=1), table.sum(axis=0)))
    by_chance = one * (other / max(_n_pairs(weights.sum()), np.finfo(float).tiny))
    most = 0.5 * (one + other)
    return (both - by_chance) / (most - by_chance) if most > by_chance else 1.0


def _n_pairs(sizes: np.ndarray) -> float:
    return float(np.maximum(0.5 * sizes * (sizes - 1), 0.0).sum())


def split_by_category(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Split clusters by features with few values, such as classes and small counts.

    Rare values stay together. Clusters are renumbered.
    """
    out = np.full(len(X), OUTLIER, dtype=np.int64)
    queue = _rows_of(labels)
    n_done = 0
    while queue:
        rows = queue.pop(0)
        parts = _split(X[rows], weights[rows])
        if parts is None:
            out[rows] = n_done
            n_done += 1
        else:
            queue = [rows[parts == part] for part in range(parts.max() + 1)] + queue
    return out


def _split(X: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """Return the parts of a cluster by the first feature that splits it, None if there is none."""
    for x in X.T:
        values, parts = np.unique(x, return_inverse=True)
        if not 1 < len(values) <= min(_MAX_VALUES, count(weights) / _MIN_REPEATS):
            continue
        sizes, min_size = counts(parts, weights), min_cluster_size(X.shape[1])
        rare = sizes < min_size
        if rare.any():
            # Rare values form a part of their own if it is large enough; if not, they join the
            # most frequent value.
            target = len(values) if count(sizes[rare]) >= min_size else sizes.argmax()
            parts = np.where(rare[parts], target, parts)
        parts = np.unique(parts, return_inverse=True)[1]
        if parts.max() > 0:
            return np.asarray(parts)
    return None


# Densities


@dataclass(frozen=True, eq=False)
class Partition:
    """Samples in clusters, centered and scaled to unit variance within clusters.

    The labels are -1 for outliers. ``center`` and ``scales`` are the origin and the unit of every
    feature. The ridge is added to every covariance.
    """

    points: np.ndarray
    weights: np.ndarray
    labels: np.ndarray
    center: np.ndarray
    scales: np.ndarray
    ridge: np.ndarray

    @classmethod
    def from_labels(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        labels: np.ndarray,
        min_std: float,
        steepest: np.ndarray | None = None,
    ) -> "Partition":
        """Center and scale samples; no kernel is narrower than ``min_std``.

        If features are mapped, ``steepest`` are their steepest slopes, and kernels are not narrower
        than ``min_std`` before the map.
        """
        slopes = np.ones(X.shape[1]) if steepest is None else steepest
        scales = _scales(X, weights, labels, min_std)
        center = np.average(X, axis=0, weights=weights * (labels != OUTLIER))
        ridge = np.diag(least_variances(slopes) + _squares(min_std * slopes / scales))
        return cls((X - center) / scales, weights, labels, center, scales, ridge)

    @property
    def sizes(self) -> np.ndarray:
        """The number of samples of every cluster."""
        inside = self.labels != OUTLIER
        return np.bincount(self.labels[inside], self.weights[inside])

    def fit(
        self, members: Sequence[Member], rng: np.random.RandomState, n_jobs: int | None = None
    ) -> list[CellFit]:
        """Fit the density of every cluster, in threads; ``members`` are tried in addition."""
        Z, weights, clusters = self.points, self.weights, _rows_of(self.labels)
        pooled = _pooled(Z, weights, self.labels) if len(clusters) > 1 else None
        seeds = rng.randint(2**30, size=len(clusters))
        cells = [
            Cell.from_samples(Z[rows], weights[rows], self.ridge, pooled, rng) for rows in clusters
        ]
        fits: dict[int, CellFit] = {}

        def work(block: range) -> None:
            for c in block:
                fits[c] = fit_cell(cells[c], int(seeds[c]), members)

        map_blocks(work, len(clusters), n_jobs)
        return [fits[c] for c in range(len(clusters))]

    def density(self, fits: Sequence[CellFit]) -> KernelMixture:
        """Return the sum of the densities of clusters, in data units.

        Outliers have one kernel each, and a wide background weighs as much as a part of one sample.
        """
        outside = self.labels == OUTLIER
        others = [(self._background(~outside), _BACKGROUND)]
        if outside.any():
            others.insert(0, (self._outliers(outside), self.weights[outside].sum()))
        labels = [*range(len(fits)), *(OUTLIER for _ in others)]
        parts = [*(fit.density for fit in fits), *(part for part, _ in others)]
        sizes = np.append(self.sizes, [size for _, size in others])
        clusters = np.repeat(labels, [part.n_groups for part in parts])
        whole = replace(KernelMixture.merge(parts, sizes / sizes.sum()), clusters=clusters)
        return whole.affine(np.diag(self.scales), self.center)

    def _outliers(self, rows: np.ndarray) -> KernelMixture:
        """Return a kernel as wide as a cluster on every outlier."""
        n_features = self.points.shape[1]
        covariance = silverman(1, n_features) ** 2 * np.eye(n_features) + self.ridge
        return gaussian_kernels(self.weights[rows], self.points[rows], covariance)

    def _background(self, rows: np.ndarray) -> KernelMixture:
        """Return one Gaussian twice as wide as all clusters together.

        Without it, the density between narrow kernels would be zero.
        """
        mean, covariance = weighted_moments(self.points[rows], self.weights[rows])
        stds = np.sqrt(4 * np.diag(covariance) + np.diag(self.ridge))
        return KernelMixture(np.ones(1), mean[None], np.array([0, 1]), np.diag(1 / stds)[None])

    def held_out(self, fits: Sequence[CellFit]) -> float:
        """Return the mean log density of held-out samples in their own clusters."""
        sizes = self.sizes
        scores = np.array([fit.held_out for fit in fits]) + np.log(sizes / self.weights.sum())
        return float(sizes @ scores / sizes.sum()) - float(np.log(self.scales).sum())


def least_variances(steepest: np.ndarray) -> np.ndarray:
    """Return the smallest variances of kernels, relative to those of mapped features.

    Repeated values must not get narrower kernels where a map is steep.
    """
    return np.asarray(_MIN_VARIANCE * np.clip(steepest, 1.0, _MAX_STEEPNESS) ** 2)


def _squares(stds: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        squares = np.square(stds)
    if not np.isfinite(squares).all():
        raise ValueError("min_std is too large for the spread of the samples; pass a smaller one")
    return squares


def _scales(X: np.ndarray, weights: np.ndarray, labels: np.ndarray, min_std: float) -> np.ndarray:
    """Return the standard deviation within clusters of every feature; none is zero."""
    variances = np.diag(_pooled(X, weights, labels)).copy()
    for rows in (labels != OUTLIER, slice(None)):
        covariance = weighted_moments(X[rows], weights[rows]).covariance
        variances = np.where(variances > 0, variances, np.diag(covariance))
    if not (variances > 0).any():
        variances = np.full(len(variances), min_std**2)
    variances[variances == 0] = variances[variances > 0].mean() if variances.any() else 0.0
    if not (variances > 0).all():
        raise ValueError(
            f"the samples have no spread (n_samples = {count(weights):g}); pass the smallest "
            "standard deviation to allow as min_std"
        )
    return np.sqrt(variances)


def _pooled(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the pooled covariance within clusters."""
    clusters = _rows_of(labels)
    covariances = [weighted_moments(X[rows], weights[rows]).covariance for rows in clusters]
    return np.average(covariances, axis=0, weights=[weights[rows].sum() for rows in clusters])
