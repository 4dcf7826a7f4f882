"""The density of all clusters: which samples form clusters, and the sum of their densities."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from ..clustering.joining import OUTLIER, min_cluster_size, rows_of
from ..covariance import Pooled, left_out_log_density, weighted_moments
from ..density import KernelMixture
from ..folds import count, counts
from ..whitening import silverman
from .cells import BACKGROUND, Cell
from .components import gaussian_kernels, log_sum_exp
from .search import CellFit

#: Smallest variance of a kernel, relative to the variance within clusters.
_MIN_VARIANCE = 1e-8
#: Slopes beyond this do not widen kernels further, which would blur thin relations.
_MAX_STEEPNESS = 100.0
#: The number of widths of the background; the widest is a thousand times as wide as the samples.
_N_WIDTHS = 10
#: Clusters overlap if they exchange more than this share of the samples of the smaller one.
_MAX_OVERLAP = 0.01
#: A feature with at most this many values, each repeated this often on average, is a category.
_MAX_VALUES, _MIN_REPEATS = 12, 20

# Labels


def split_by_category(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Split clusters by features with few values, such as classes and small counts.

    Rare values stay together. Clusters are renumbered.
    """
    out = np.full(len(X), OUTLIER, dtype=np.int64)
    queue = rows_of(labels)
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
    for j in categories(X, weights):
        parts = np.unique(X[:, j], return_inverse=True)[1]
        sizes, min_size = counts(parts, weights), min_cluster_size(X.shape[1])
        rare = sizes < min_size
        if rare.any():
            # Rare values form a part of their own if it is large enough; if not, they join the
            # most frequent value.
            target = len(sizes) if count(sizes[rare]) >= min_size else sizes.argmax()
            parts = np.where(rare[parts], target, parts)
        parts = np.unique(parts, return_inverse=True)[1]
        if parts.max() > 0:
            return np.asarray(parts)
    return None


def categories(X: np.ndarray, weights: np.ndarray) -> tuple[int, ...]:
    """Return the features of few values, by which clusters are split."""
    values = [len(np.unique(x)) for x in X.T]
    most = min(_MAX_VALUES, count(weights) / _MIN_REPEATS)
    return tuple(j for j, n_values in enumerate(values) if 1 < n_values <= most)


def join_overlapping(
    X: np.ndarray, weights: np.ndarray, clusters: np.ndarray, pieces: np.ndarray
) -> np.ndarray:
    """Return cells: clusters that overlap are in one cell.

    Clusters are mixtures of one Gaussian for each of their pieces. Two overlap if more than a
    hundredth of the samples of the smaller one is expected to come from the other.
    """
    inside = clusters != OUTLIER
    n_clusters = int(clusters.max()) + 1
    if n_clusters == 1:
        return clusters
    # Samples that joined a cluster later are in none of its pieces, and some pieces are outliers.
    parts = [rows for rows in rows_of(np.where(inside, pieces, OUTLIER)) if len(rows)]
    # Without a ridge, features of few values and linear relations make covariances singular.
    variances = np.diag(weighted_moments(X[inside], weights[inside]).covariance)
    ridge = _MIN_VARIANCE * np.where(variances > 0, variances, 1.0)
    pooled = _pooled(X, weights, parts) + np.diag(ridge)
    log_parts = np.full((len(X), n_clusters), -np.inf)
    for rows in parts:
        log_density = left_out_log_density(X, weights, rows, pooled)
        cluster = clusters[rows[0]]
        log_parts[:, cluster] = np.logaddexp(log_parts[:, cluster], log_density)
    shares = np.exp(log_parts - log_sum_exp(log_parts)[:, None]) * weights[:, None]
    sizes = counts(clusters[inside], weights[inside])
    exchanged = np.zeros((n_clusters, n_clusters))
    np.add.at(exchanged, clusters[inside], shares[inside])
    exchanged += exchanged.T
    overlaps = exchanged > _MAX_OVERLAP * np.minimum(sizes[:, None], sizes)
    cells = connected_components(overlaps, directed=False)[1]
    return np.where(inside, cells[clusters], OUTLIER)


# Densities


@dataclass(frozen=True, eq=False)
class Partition:
    """Samples in cells, each with a density of its own.

    Samples are centered and scaled to unit variance within cells. A cell is one cluster or, where
    clusters overlap, several: a cluster cut off from its neighbors has tails that are no longer
    Gaussian. Cells and clusters are -1 for outliers; ``pieces`` are nearly Gaussian parts of
    clusters. ``center`` and ``scales`` are the origin and the unit of every feature. The ridge is
    added to every covariance.
    """

    points: np.ndarray
    weights: np.ndarray
    labels: np.ndarray
    clusters: np.ndarray
    pieces: np.ndarray
    center: np.ndarray
    scales: np.ndarray
    ridge: np.ndarray

    @classmethod
    def from_labels(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        labels: np.ndarray,
        clusters: np.ndarray,
        pieces: np.ndarray,
        min_std: float,
        steepest: np.ndarray,
    ) -> "Partition":
        """Center and scale samples; no kernel is narrower than ``min_std``.

        The labels are those of cells, and ``steepest`` the steepest slopes of the maps of features:
        kernels are not narrower than ``min_std`` before the map.
        """
        scales = _scales(X, weights, labels, min_std)
        center = np.average(X, axis=0, weights=weights * (labels != OUTLIER))
        with np.errstate(over="ignore"):
            variances = least_variances(steepest) + np.square(min_std * steepest / scales)
        if not np.isfinite(variances).all():
            raise ValueError("min_std is too large for the spread of samples; pass a smaller one")
        ridge = np.diag(variances)
        return cls((X - center) / scales, weights, labels, clusters, pieces, center, scales, ridge)

    @property
    def sizes(self) -> np.ndarray:
        """The number of samples of every cell."""
        inside = self.labels != OUTLIER
        return np.bincount(self.labels[inside], self.weights[inside])

    def cells(self, rng: np.random.RandomState) -> list[Cell]:
        """Return the samples of every cell, divided into folds and whitened."""
        Z, weights, cells = self.points, self.weights, rows_of(self.labels)
        pooled = None
        if len(cells) > 1:
            dof = sum(max(weights[rows].sum() - 1, 0.0) for rows in cells)
            pooled = Pooled(_pooled(Z, weights, cells), float(dof))
        return [
            Cell.from_samples(Z[rows], weights[rows], self.pieces[rows], self.ridge, pooled, rng)
            for rows in cells
        ]

    def density(self, fits: Sequence[CellFit]) -> KernelMixture:
        """Return the sum of the densities of cells, in data units.

        Outliers have one kernel each, and a wide background weighs as much as a part of one sample.
        """
        outside = self.labels == OUTLIER
        pairs = zip(fits, rows_of(self.labels), strict=True)
        parts = [self._in_clusters(fit.density, rows) for fit, rows in pairs]
        others, sizes = [self._background(~outside)], [*self.sizes, BACKGROUND]
        if outside.any():
            others.append(self._outliers(outside))
            sizes.append(self.weights[outside].sum())
        parts += [replace(part, clusters=np.full(part.n_groups, OUTLIER)) for part in others]
        clusters = np.concatenate([part.clusters for part in parts])
        whole = replace(KernelMixture.merge(parts, np.divide(sizes, sum(sizes))), clusters=clusters)
        return whole.affine(np.diag(self.scales), self.center)

    def _in_clusters(self, density: KernelMixture, rows: np.ndarray) -> KernelMixture:
        """Return the density of a cell with every kernel in the cluster of the nearest sample."""
        points, clusters = self.points[rows], self.clusters[rows]
        if (clusters == clusters[0]).all():
            return replace(density, clusters=np.full(density.n_groups, clusters[0]))
        labels = clusters[KDTree(points).query(density.means)[1]]
        groups = density.kernels.group_of_kernel
        order = np.lexsort((labels, groups))
        labels, groups = labels[order], groups[order]
        is_next = (np.diff(labels) != 0) | (np.diff(groups) != 0)
        starts = np.flatnonzero(np.append(True, is_next))
        return KernelMixture(
            weights=density.weights[order],
            means=density.means[order],
            offsets=np.append(starts, len(order)),
            transforms=density.transforms[groups[starts]],
            clusters=labels[starts],
        )

    def _outliers(self, rows: np.ndarray) -> KernelMixture:
        """Return a kernel as wide as a cluster on every outlier."""
        n_features = self.points.shape[1]
        covariance = silverman(1, n_features) ** 2 * np.eye(n_features) + self.ridge
        weights = self.weights[rows] / self.weights[rows].sum()
        return KernelMixture.from_covariances(weights, self.points[rows], covariance)

    def _background(self, rows: np.ndarray) -> KernelMixture:
        """Return Gaussians that are 2, 4, 8, ... times as wide as all clusters together.

        Without them, the density would be zero between narrow kernels and far from all samples.
        The weight falls with the square of the width, as in Student's t of two degrees of freedom:
        every width adds the same to the variance.
        """
        mean, covariance = weighted_moments(self.points[rows], self.weights[rows])
        widths = 2.0 ** np.arange(1, _N_WIDTHS + 1)
        variances = np.outer(widths**2, np.diag(covariance)) + np.diag(self.ridge)
        means = np.tile(mean, (_N_WIDTHS, 1))
        return gaussian_kernels(widths**-2, means, variances[:, None] * np.eye(len(mean)))

    def held_out(self, cell_scores: Sequence[float]) -> float:
        """Return the mean log density of held-out samples, from those of their own clusters."""
        sizes = self.sizes
        scores = np.array(cell_scores) + np.log(sizes / self.weights.sum())
        return float(sizes @ scores / sizes.sum()) - float(np.log(self.scales).sum())

    def scores(self, fits: Sequence[CellFit]) -> np.ndarray:
        """Return the log densities of held-out rows in their own cells."""
        shares = np.log(self.sizes / self.weights.sum()) - np.log(self.scales).sum()
        return np.concatenate([fit.scores + share for fit, share in zip(fits, shares, strict=True)])


def least_variances(steepest: np.ndarray) -> np.ndarray:
    """Return the smallest variances of kernels, relative to those of mapped features.

    Repeated values must not get narrower kernels where a map is steep.
    """
    return np.asarray(_MIN_VARIANCE * np.clip(steepest, 1.0, _MAX_STEEPNESS) ** 2)


def _scales(X: np.ndarray, weights: np.ndarray, labels: np.ndarray, min_std: float) -> np.ndarray:
    """Return the standard deviation within clusters of every feature; none is zero."""
    variances = np.diag(_pooled(X, weights, rows_of(labels)))
    for rows in (labels != OUTLIER, slice(None)):
        covariance = weighted_moments(X[rows], weights[rows]).covariance
        variances = np.where(variances > 0, variances, np.diag(covariance))
    is_zero = variances == 0
    variances[is_zero] = min_std**2 if is_zero.all() else variances[~is_zero].mean()
    if not (variances > 0).all():
        raise ValueError(
            f"the samples have no spread (n_samples = {count(weights):g}); pass the smallest "
            "standard deviation to allow as min_std"
        )
    return np.sqrt(variances)


def _pooled(X: np.ndarray, weights: np.ndarray, clusters: Sequence[np.ndarray]) -> np.ndarray:
    """Return the pooled covariance within clusters, which are given by their rows."""
    covariances = [weighted_moments(X[rows], weights[rows]).covariance for rows in clusters]
    return np.average(covariances, axis=0, weights=[weights[rows].sum() for rows in clusters])
