"""The density of all clusters: which samples form clusters, and the sum of their densities."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from ..clustering.joining import OUTLIER, min_cluster_size, rows_of
from ..covariance import Pooled, weighted_moments, whitening_transforms
from ..density import KernelMixture
from ..folds import count, counts
from ..whitening import silverman
from .components import gaussian_kernels, log_sum_exp
from .members import BACKGROUND, Cell
from .search import CellFit

#: Smallest variance of a kernel, relative to the variance within clusters.
_MIN_VARIANCE = 1e-8
#: Slopes beyond this do not widen kernels further, which would blur thin relations.
_MAX_STEEPNESS = 100.0
#: The number of widths of the background; the widest is a thousand times as wide as the samples.
_N_WIDTHS = 10
#: Clusters overlap if they exchange more than this share of the samples of the smaller one.
_MAX_OVERLAP = 0.01
#: Ridge of their covariances, relative to the pooled one, and the least spread within clusters
#: relative to that of all samples.
_OVERLAP_RIDGE, _LEAST_SPREAD = 1e-6, 1e-12
#: A feature with at most this many values, each repeated this often on average, is a category.
_MAX_VALUES = 12
_MIN_REPEATS = 20

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
    n_clusters, n_samples = int(clusters.max()) + 1, weights * inside
    if n_clusters == 1:
        return clusters
    # Samples that joined a cluster later are in none of its pieces, and some pieces are outliers.
    in_piece = inside & (pieces != OUTLIER)
    numbers = np.unique(pieces[in_piece], return_inverse=True)[1]
    pieces = np.full(len(X), OUTLIER, dtype=np.int64)
    pieces[in_piece] = numbers
    # Without a ridge, features of few values and linear relations make covariances singular.
    variances = np.diag(weighted_moments(X[inside], weights[inside]).covariance)
    ridge = _MIN_VARIANCE * np.where(variances > 0, variances, 1.0)
    pooled = _pooled(X, weights, pieces) + np.diag(ridge)
    log_parts = np.full((len(X), n_clusters), -np.inf)
    for rows in rows_of(pieces):
        log_density = _left_out_log_density(X, weights, rows, pooled)
        cluster = clusters[rows[0]]
        log_parts[:, cluster] = np.logaddexp(log_parts[:, cluster], log_density)
    shares = np.exp(log_parts - log_sum_exp(log_parts)[:, None]) * n_samples[:, None]
    sizes = counts(clusters[inside], weights[inside])
    exchanged = np.zeros((n_clusters, n_clusters))
    np.add.at(exchanged, clusters[inside], shares[inside])
    exchanged += exchanged.T
    overlaps = exchanged > _MAX_OVERLAP * np.minimum(sizes[:, None], sizes)
    cells = connected_components(overlaps, directed=False)[1]
    return np.where(inside, np.unique(cells, return_inverse=True)[1][clusters], OUTLIER)


def _left_out_log_density(
    X: np.ndarray, weights: np.ndarray, rows: np.ndarray, pooled: np.ndarray
) -> np.ndarray:
    r"""Return the log density of the Gaussian of some rows at all rows, times its weight.

    The covariance is :math:`S = (A + \kappa W) / (n + \kappa)` with the scatter matrix :math:`A` of
    the :math:`n` samples and :math:`\kappa = d + 2` samples of the pooled covariance :math:`W`. At
    its own rows, one sample is left out of mean and covariance, or the row if it weighs less.
    """
    n_features = X.shape[1]
    n, prior = float(weights[rows].sum()), n_features + 2.0
    mean, covariance = weighted_moments(X[rows], weights[rows])
    transform = whitening_transforms((n * covariance + prior * pooled) / (n + prior))
    squares = np.square((X - mean) @ transform).sum(axis=1)
    log_dets = np.full(len(X), 2 * np.linalg.slogdet(transform)[1])
    # Without a sample, the scatter matrix loses a matrix of rank one.
    lost = np.minimum(weights[rows], 1.0)
    ratio = n / np.maximum(n - lost, _MIN_VARIANCE * n)
    kept = np.maximum(1 - lost * ratio / (n + prior) * squares[rows], np.finfo(float).eps)
    factor = (n + prior) / (n + prior - lost)
    squares[rows] *= ratio**2 / (kept * factor)
    log_dets[rows] -= n_features * np.log(factor) + np.log(kept)
    return np.asarray(np.log(n) - 0.5 * (squares - log_dets))


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
    """Samples in cells, each with a density of its own.

    Samples are centered and scaled to unit variance within cells. A cell is one cluster or, where
    clusters overlap, several: a cluster cut off from its neighbors has tails that are no longer
    Gaussian. Cells and clusters are -1 for outliers; ``pieces`` are nearly Gaussian parts of
    clusters. ``center`` and ``scales`` are the origin and
    the unit of every feature. The ridge is added to every covariance.
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
        steepest: np.ndarray | None = None,
    ) -> "Partition":
        """Center and scale samples; no kernel is narrower than ``min_std``.

        The labels are those of cells. If features are mapped, ``steepest`` are their steepest
        slopes, and kernels are not narrower than ``min_std`` before the map.
        """
        slopes = np.ones(X.shape[1]) if steepest is None else steepest
        scales = _scales(X, weights, labels, min_std)
        center = np.average(X, axis=0, weights=weights * (labels != OUTLIER))
        ridge = np.diag(least_variances(slopes) + _squares(min_std * slopes / scales))
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
            pooled = Pooled(_pooled(Z, weights, self.labels), float(dof))
        return [
            Cell.from_samples(Z[rows], weights[rows], self.pieces[rows], self.ridge, pooled, rng)
            for rows in cells
        ]

    def cells_of_clusters(self) -> list[int]:
        """Return the cell in which most samples of every cluster are."""
        inside = self.clusters != OUTLIER
        n_cells = int(self.labels.max()) + 1
        pairs = self.clusters[inside] * n_cells + np.maximum(self.labels[inside], 0)
        n_clusters = int(self.clusters.max()) + 1
        sizes = np.bincount(pairs, self.weights[inside], n_clusters * n_cells)
        return sizes.reshape(n_clusters, n_cells).argmax(axis=1).tolist()

    def density(self, fits: Sequence[CellFit]) -> KernelMixture:
        """Return the sum of the densities of cells, in data units.

        Outliers have one kernel each, and a wide background weighs as much as a part of one sample.
        """
        outside = self.labels == OUTLIER
        parts = [
            self._in_clusters(fit.density, rows)
            for fit, rows in zip(fits, rows_of(self.labels), strict=True)
        ]
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
        is_first = np.append(True, (np.diff(labels) != 0) | (np.diff(groups) != 0))
        starts = np.flatnonzero(is_first)
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
        return gaussian_kernels(self.weights[rows], self.points[rows], covariance)

    def _background(self, rows: np.ndarray) -> KernelMixture:
        """Return Gaussians that are 2, 4, 8, ... times as wide as all clusters together.

        Without them, the density would be zero between narrow kernels and far from all samples.
        The weight falls with the square of the width, as in Student's t of two degrees of freedom:
        every width adds the same to the variance.
        """
        mean, covariance = weighted_moments(self.points[rows], self.weights[rows])
        widths = 2.0 ** np.arange(1, _N_WIDTHS + 1)
        stds = np.sqrt(np.outer(widths**2, np.diag(covariance)) + np.diag(self.ridge))
        n_features = self.points.shape[1]
        return KernelMixture(
            weights=widths**-2 / (widths**-2).sum(),
            means=np.broadcast_to(mean, (_N_WIDTHS, n_features)),
            offsets=np.arange(_N_WIDTHS + 1),
            transforms=np.eye(n_features) / stds[:, None, :],
        )

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
    clusters = rows_of(labels)
    covariances = [weighted_moments(X[rows], weights[rows]).covariance for rows in clusters]
    return np.average(covariances, axis=0, weights=[weights[rows].sum() for rows in clusters])
