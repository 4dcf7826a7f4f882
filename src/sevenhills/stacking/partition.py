"""The density of samples in clusters: which samples belong together, and what is put on them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from ..covariance import weighted_moments, whitening_transforms
from ..density import KernelMixture
from ..density.mixture import with_clusters
from ..folds import count, counts, without_a_fifth
from ..threads import map_blocks
from ..whitening import silverman
from .agreement import adjusted_rand
from .cell import Cell
from .race import ENOUGH_TO_STOP, CellFit, fit_cell

STRAY = -1
#: Samples farther than this many standard deviations from all clusters belong to none.
_ASTRAY = 10.0
#: So do samples that are this many times farther from the median of their cluster than typical
#: members, however the silhouettes of the others gain by it.
_FAR = 2.0**20
#: Every kernel has at least this variance, in units of the variance within clusters.
_LEAST_VARIANCE = 1e-8
#: As many samples as this are expected to be like none that was seen.
_BACKGROUND = 0.1
#: Clusters hold if as many pairs of samples as this stay together or apart without some samples,
#: as measured by the adjusted Rand index.
_SAME = 0.95

#: Features with at most so many values, each repeated so often on average, tell clusters apart.
_MOST_VALUES = 12
_LEAST_REPEATS = 20

#: From rows and weights to the labels of clusters, -1 being noise.
Clustering = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Partition:
    """A density of clusters.

    Attributes
    ----------
    density : KernelMixture
    labels : ndarray of shape (n_rows,)
        The cluster of every row, -1 for those far from all.
    fits : tuple of CellFit
        One for each cluster.
    n_fragments : int
        How many clusters were found that would not hold on new samples and were put together.
    held_out : float
        The mean log density of held-out samples in their own clusters.
    """

    density: KernelMixture
    labels: np.ndarray
    fits: tuple[CellFit, ...]
    n_fragments: int
    held_out: float


def fit_partition(
    X: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    cluster: Clustering,
    min_std: float,
    rng: np.random.RandomState,
    n_jobs: int | None = None,
) -> Partition:
    """Fit the density of samples.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Distinct rows.
    weights : ndarray of shape (n_rows,)
        How many samples each row stands for; positive, not necessarily whole.
    labels : ndarray of shape (n_rows,)
        The clusters that were found, -1 being noise.
    cluster : callable
        What found them, from rows and weights; used again to see whether they hold on new samples.
    min_std : float
        The smallest standard deviation of any kernel.
    rng : RandomState
    n_jobs : int, optional
        Number of threads over clusters.
    """
    labels = joined(X, weights, labels)
    n_fragments = 0
    if _fragmented(X, weights, labels, cluster, rng):
        n_fragments = int(labels.max()) + 1
        labels = joined(X, weights, np.minimum(labels, 0))
    labels = split_by_values(X, weights, labels)
    scales = _scales(X, weights, labels, min_std)
    centre = np.average(X, axis=0, weights=weights * (labels != STRAY))
    Z = (X - centre) / scales
    ridge = np.diag(_LEAST_VARIANCE + _squares(min_std / scales))
    fits = _fit_cells(Z, weights, labels, ridge, rng, n_jobs)
    density = _sum(Z, weights, labels, fits, ridge).affine(np.diag(scales), centre)
    held_out = _held_out(weights, labels, fits) - float(np.log(scales).sum())
    return Partition(density, labels, tuple(fits), n_fragments, held_out)


def _squares(stds: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        squares = np.square(stds)
    if not np.isfinite(squares).all():
        raise ValueError("min_std is beyond what kernels can represent beside such samples")
    return squares


def joined(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Let noise and small clusters join the cluster of their nearest sample.

    Samples that are far from all clusters, their own included, stay alone. Clusters are numbered
    anew.
    """
    least = _least(X.shape[1])
    inside = (labels >= 0) & ~_is_far(X, labels)
    sizes = counts(labels[inside], weights[inside])
    kept = inside.copy()
    kept[inside] = sizes[labels[inside]] >= least
    if not kept.any():
        return np.zeros(len(X), dtype=np.int64)
    numbers = np.unique(labels[kept], return_inverse=True)[1]
    out = np.full(len(X), STRAY, dtype=np.int64)
    out[kept] = numbers
    if kept.all():
        return out
    apart, nearest = KDTree(X[kept]).query(X[~kept])
    near = apart <= _ASTRAY * _radii(X[kept], weights[kept], numbers)[numbers[nearest]]
    out[~kept] = np.where(near, numbers[nearest], STRAY)
    return out


def _is_far(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return which rows are so far from their cluster that its covariance would be theirs."""
    far = np.zeros(len(X), dtype=bool)
    for label in np.unique(labels[labels >= 0]):
        rows = np.flatnonzero(labels == label)
        apart = np.abs(X[rows] - np.quantile(X[rows], 0.5, axis=0, method="lower")).max(axis=1)
        if apart.any():
            far[rows] = apart > _FAR * np.quantile(apart[apart > 0], 0.5, method="lower")
    return far


def _radii(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the standard deviation of every cluster, none less than that within all.

    If all clusters are single values, it is that of all samples.
    """
    clusters = _rows_of(labels)
    own = np.array(
        [np.trace(weighted_moments(X[rows], weights[rows]).covariance) for rows in clusters]
    )
    within = float(own @ np.bincount(labels, weights)) / weights.sum()
    if within == 0:
        within = float(np.trace(weighted_moments(X, weights).covariance))
    return np.sqrt(np.maximum(own, within if within > 0 else np.inf))


def _rows_of(labels: np.ndarray) -> list[np.ndarray]:
    """Return the rows of every cluster."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(labels.max() + 1)))[1:]


def _least(n_features: int) -> int:
    """Return the least number of samples in a cluster."""
    return max(10, n_features + 2)


def split_by_values(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Split clusters by features that have a few values only, such as classes and small counts.

    Values that few samples have stay together. Clusters are numbered anew.
    """
    out = np.full(len(X), STRAY, dtype=np.int64)
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
    """Return the parts of a cluster by the values of one feature, None if there is no such."""
    for x in X.T:
        values, parts = np.unique(x, return_inverse=True)
        if not 1 < len(values) <= min(_MOST_VALUES, count(weights) / _LEAST_REPEATS):
            continue
        sizes, least = counts(parts, weights), _least(X.shape[1])
        rare = sizes < least
        if rare.any():
            # The rare values join each other if they are enough, and the commonest value if not.
            together = len(values) if count(sizes[rare]) >= least else sizes.argmax()
            parts = np.where(rare[parts], together, parts)
        parts = np.unique(parts, return_inverse=True)[1]
        if parts.max() > 0:
            return np.asarray(parts)
    return None


def _scales(X: np.ndarray, weights: np.ndarray, labels: np.ndarray, min_std: float) -> np.ndarray:
    """Return the standard deviation within clusters of every feature; none is zero."""
    variances = np.diag(_common(X, weights, labels)).copy()
    for rows in (labels != STRAY, slice(None)):
        scatter = weighted_moments(X[rows], weights[rows]).covariance
        variances = np.where(variances > 0, variances, np.diag(scatter))
    if not (variances > 0).any():
        variances = np.full(len(variances), min_std**2)
    variances[variances == 0] = variances[variances > 0].mean() if variances.any() else 0.0
    if not (variances > 0).all():
        raise ValueError(
            f"the samples have no spread (n_samples = {count(weights):g}); pass the smallest "
            "standard deviation to allow as min_std"
        )
    return np.sqrt(variances)


def _common(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the covariance within clusters."""
    clusters = _rows_of(labels)
    scatters = [weighted_moments(X[rows], weights[rows]).covariance for rows in clusters]
    sizes = [weights[rows].sum() for rows in clusters]
    return np.average(scatters, axis=0, weights=sizes)


def _fit_cells(
    Z: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    ridge: np.ndarray,
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> list[CellFit]:
    n_clusters = labels.max() + 1
    common = _common(Z, weights, labels) if n_clusters > 1 else None
    seeds = rng.randint(2**30, size=n_clusters)
    cells = [Cell.of(Z[rows], weights[rows], ridge, common, rng) for rows in _rows_of(labels)]
    fits: list[CellFit | None] = [None] * n_clusters

    def work(block: range) -> None:
        for c in block:
            fits[c] = fit_cell(cells[c], int(seeds[c]))

    map_blocks(work, n_clusters, n_jobs)
    return [fit for fit in fits if fit is not None]


def _sum(
    Z: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    fits: list[CellFit],
    ridge: np.ndarray,
) -> KernelMixture:
    """Add up the densities of clusters, kernels on samples far from all, and a wide background.

    Each counts as many samples as it has; the background, a part of one.
    """
    parts = [fit.density for fit in fits]
    labels_of_parts = list(range(len(parts)))
    inside = labels != STRAY
    sizes = np.bincount(labels[inside], weights[inside])
    if not inside.all():
        labels_of_parts.append(STRAY)
        parts.append(_alone(Z[~inside], weights[~inside], ridge))
        sizes = np.append(sizes, weights[~inside].sum())
    labels_of_parts.append(STRAY)
    parts.append(_background(Z[inside], weights[inside], ridge))
    sizes = np.append(sizes, _BACKGROUND)
    clusters = np.repeat(labels_of_parts, [part.n_groups for part in parts])
    return with_clusters(KernelMixture.merge(parts, sizes / sizes.sum()), clusters)


def _alone(strays: np.ndarray, weights: np.ndarray, ridge: np.ndarray) -> KernelMixture:
    """Return a kernel of the size of a cluster on every sample."""
    n_features = strays.shape[1]
    scatter = silverman(1, n_features) ** 2 * np.eye(n_features) + ridge
    return KernelMixture(
        weights=weights / weights.sum(),
        means=strays,
        offsets=np.array([0, len(strays)]),
        transforms=whitening_transforms(scatter)[None],
    )


def _background(Z: np.ndarray, weights: np.ndarray, ridge: np.ndarray) -> KernelMixture:
    """Return one Gaussian twice as wide as all samples.

    Without it, a value that no sample had would be ruled out wherever kernels are narrow.
    """
    mean, covariance = weighted_moments(Z, weights)
    stds = np.sqrt(4 * np.diag(covariance) + np.diag(ridge))
    return KernelMixture(np.ones(1), mean[None], np.array([0, 1]), np.diag(1 / stds)[None])


def _fragmented(
    X: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    cluster: Clustering,
    rng: np.random.RandomState,
) -> bool:
    """Whether clusters owe more to the samples at hand than to their distribution.

    Gaps between fragments are where no sample happened to fall: without a fifth of the samples
    there are other gaps. Clusters that are all large are not asked, since fragments that large
    are described well.
    """
    inside = labels != STRAY
    if labels.max() == 0 or counts(labels[inside], weights[inside]).min() >= ENOUGH_TO_STOP:
        return False
    left = np.zeros(len(X))
    left[inside] = without_a_fifth(weights[inside], rng)
    seen = left > 0
    again = joined(X[seen], left[seen], cluster(X[seen], left[seen]))
    return adjusted_rand(labels[seen], again, left[seen]) < _SAME


def _held_out(weights: np.ndarray, labels: np.ndarray, fits: list[CellFit]) -> float:
    """Return the mean over clusters, by their sizes, of what held-out samples are given."""
    inside = labels != STRAY
    sizes = np.bincount(labels[inside], weights[inside])
    scores = np.array([fit.held_out for fit in fits]) + np.log(sizes / weights.sum())
    return float(sizes @ scores / sizes.sum())
