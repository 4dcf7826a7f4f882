"""A density with kernels on all rows, which dask evaluates partition by partition."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..clustering.optics import NOISE
from ..density import KernelMixture
from ..density.engines import FEW_PAIRS
from ..density.maps import Maps, map_columns
from ..density.mixture import with_samples
from ..density.sums import LOG_2PI, Kernels
from ..estimators.summary import Cluster
from ..validation import check_count, random_generator
from ..whitening import silverman
from .partitions import Delayed, Partitions, constant, dask_module, reduce_tree, task
from .row_statistics import Assignment, KernelBlock, Reservoir, label_indices

#: Draws in a chunk of samples. Every chunk has a seed, so another number would change the draws.
_CHUNK_SIZE = 2**17
#: Upper limit on the coordinates in a block of kernels: 32 MB, and 200 MB after preparation.
_BLOCK_SIZE = 2**22


class KernelShapes(NamedTuple):
    """The kernels of every cluster without their means."""

    labels: np.ndarray  #: (n_clusters,)
    transforms: np.ndarray  #: (n_clusters, n_features, n_features)
    log_dets: np.ndarray  #: (n_clusters,)


class ClusterRows(NamedTuple):
    """Latent coordinates of rows, sorted by cluster."""

    rows: np.ndarray  #: (n_rows, n_features)
    counts: np.ndarray  #: (n_clusters,)

    @classmethod
    def from_rows(cls, X: np.ndarray, assignment: Assignment, labels: np.ndarray) -> "ClusterRows":
        """Sort the rows of one partition by their cluster."""
        own, Z = assignment.placed(X)
        clusters = label_indices(own, labels)
        order = np.argsort(clusters, kind="stable")
        return cls(Z[order], np.bincount(clusters, minlength=len(labels)))

    @classmethod
    def merge(cls, parts: "Sequence[ClusterRows]") -> "ClusterRows":
        """Merge the rows of several partitions."""
        split = [np.split(part.rows, np.cumsum(part.counts)[:-1]) for part in parts]
        rows = [piece for cluster in zip(*split, strict=True) for piece in cluster]
        return cls(np.concatenate(rows), np.sum([part.counts for part in parts], axis=0))

    def kernels(self, shapes: KernelShapes, log_weights: Any) -> Kernels:
        """Return a kernel on every row, given log weights of shape (n_rows,) or one for all."""
        groups = self.counts > 0
        return Kernels(
            np.full(len(self.rows), log_weights),
            self.rows,
            np.append(0, np.cumsum(self.counts[groups])),
            shapes.transforms[groups],
            shapes.log_dets[groups],
        )


class DistributedMixture:
    """A mixture with a Gaussian kernel on every row; the rows stay in their partitions.

    The methods of :class:`~sevenhills.DistributedROME`, which fits this density, evaluate it and
    draw from it.

    Attributes
    ----------
    n_features, n_kernels : int
    feature_names : tuple of str or None

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from sevenhills import ROME, DistributedROME
    >>> X = da.from_array(np.random.RandomState(0).standard_normal((400, 2)), chunks=(100, 2))
    >>> density = DistributedROME(estimator=ROME(selection=None)).fit(X).density_
    >>> density
    DistributedMixture(n_features=2, n_kernels=400, n_blocks=1)
    >>> density.compute()
    KernelMixture(n_features=2, n_kernels=400, n_groups=1)
    """

    def __init__(
        self,
        samples: Partitions,
        sizes: np.ndarray,
        assignment: Delayed,
        shapes: KernelShapes,
        maps: Maps | None,
    ) -> None:
        self.n_features = samples.features.number
        self.n_kernels = int(sizes.sum())
        self.feature_names = samples.features.names
        self._samples, self._sizes = samples, sizes
        self._assignment, self._shapes, self.maps = assignment, shapes, maps
        self._blocks = self._kernel_blocks()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_features={self.n_features}, n_kernels={self.n_kernels}, "
            f"n_blocks={len(self._blocks)})"
        )

    def _kernel_blocks(self) -> tuple[Delayed, ...]:
        """Put kernels on all rows; adjacent partitions share a block.

        Every partition of queries visits every block, so blocks should be few and large.
        """
        rows, shapes = self._cluster_rows(), constant(self._shapes)
        most_rows = max(1, _BLOCK_SIZE // self.n_features)
        return tuple(
            task(_kernel_block)(rows[start:end], shapes, -np.log(self.n_kernels), self.maps)
            for start, end in pairwise(_block_bounds(self._sizes, most_rows))
        )

    def _cluster_rows(self) -> list[Delayed]:
        return self._samples.map(ClusterRows.from_rows, self._assignment, self._shapes.labels)

    def compute(self) -> KernelMixture:
        """Return the density with all kernels in the memory of this process."""
        merged = ClusterRows.merge(dask_module("dask").compute(*self._cluster_rows()))
        kernels = merged.kernels(self._shapes, -np.log(self.n_kernels))
        density = _mixture(kernels, self._shapes.labels[merged.counts > 0])
        return with_samples(density, self.feature_names, self.n_kernels, self.maps)

    def _persist(self) -> None:
        self._blocks = dask_module("dask").persist(*self._blocks)

    def _draw_chunk(self, n_draws: int, seed: list[int]) -> Delayed:
        bounds = np.append(0, np.cumsum(self._sizes))
        rows = _draw_rows(self.n_kernels, n_draws, seed)
        drawn_from = np.unique(np.searchsorted(bounds, rows, side="right") - 1)
        others = (self.n_kernels, n_draws, seed, self._assignment, self._shapes)
        parts = [
            self._samples.map_one(i, _draw_in_partition, bounds[i : i + 2], *others)
            for i in drawn_from.tolist()
        ]
        return task(_merge_draws)(parts)


def _kernel_block(
    parts: Sequence[ClusterRows], shapes: KernelShapes, log_weight: float, maps: Maps | None
) -> KernelBlock:
    return KernelBlock(ClusterRows.merge(parts).kernels(shapes, log_weight), maps)


def _block_bounds(sizes: np.ndarray, most_rows: int) -> list[int]:
    """Divide partitions into blocks of at most ``most_rows``, or of one larger partition.

    Empty partitions belong to the block before them, so that no block is empty.
    """
    bounds, n_rows = [0], 0
    for i, size in enumerate(sizes.tolist()):
        if n_rows and size and n_rows + size > most_rows:
            bounds.append(i)
            n_rows = 0
        n_rows += size
    return [*bounds, len(sizes)]


def _mixture(kernels: Kernels, labels: np.ndarray) -> KernelMixture:
    """Return kernels as a density, given the label of every group."""
    weights = np.exp(kernels.log_weights)
    return KernelMixture(
        weights=weights / weights.sum(),
        means=kernels.means,
        offsets=kernels.offsets,
        transforms=kernels.transforms,
        log_dets=kernels.log_dets,
        clusters=labels,
    )


def coreset_mixture(
    coresets: Sequence[Reservoir], clusters: Sequence[Cluster], shapes: KernelShapes
) -> tuple[KernelMixture, list[float]]:
    """Return kernels on the coresets of clusters, and the bandwidths after whitening.

    The bandwidth is that for the number of rows in a coreset: kernels with the bandwidth for a
    million rows would be separate peaks on 1,000 of these rows.
    """
    n_features = shapes.transforms.shape[1]
    pairs = list(zip(coresets, clusters, strict=True))
    bandwidths = [
        silverman(1 if cluster.label == NOISE else each.counts.sum(), n_features)
        for each, cluster in pairs
    ]
    ratios = np.array(bandwidths) / [cluster.bandwidth for cluster in clusters]
    log_weights = [
        np.log(each.counts / each.counts.sum() * cluster.share) for each, cluster in pairs
    ]
    rows = ClusterRows(
        np.concatenate([each.rows for each in coresets]),
        np.array([len(each.rows) for each in coresets]),
    )
    shapes = shapes._replace(
        transforms=shapes.transforms / ratios[:, None, None],
        log_dets=shapes.log_dets - n_features * np.log(ratios),
    )
    kernels = rows.kernels(shapes, np.concatenate(log_weights))
    return _mixture(kernels, shapes.labels), bandwidths


# Log densities


def log_densities(
    density: KernelMixture | DistributedMixture, queries: Partitions
) -> list[Delayed]:
    """Return the log density at the rows of every partition."""
    if isinstance(density, KernelMixture):
        return queries.map(_logpdf, constant(density))
    by_block = [queries.map(_log_sums, block) for block in density._blocks]
    return [
        task(_normalize)(reduce_tree(sums, _log_add), density.n_features)
        for sums in zip(*by_block, strict=True)
    ]


def _logpdf(X: np.ndarray, density: KernelMixture) -> np.ndarray:
    return density._logpdf(X, n_jobs=None)


def _log_sums(X: np.ndarray, block: KernelBlock) -> np.ndarray:
    return block.log_sums(X, len(X) * len(block.kernels.means) > FEW_PAIRS)


def _log_add(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


def _normalize(log_sums: np.ndarray, n_features: int) -> np.ndarray:
    return log_sums - 0.5 * n_features * LOG_2PI


# Draws


def draw_samples(
    density: KernelMixture | DistributedMixture, n_samples: int, random_state: Any
) -> Any:
    """Return draws as a dask array."""
    draw_chunk: Callable[[int, list[int]], Delayed] = (
        partial(task(_draw_from_mixture), constant(density))
        if isinstance(density, KernelMixture)
        else density._draw_chunk
    )
    n_samples, n_features = check_count(n_samples, "n_samples"), density.n_features
    seed = int(random_generator(random_state).randint(2**32, dtype=np.uint32))
    arrays = dask_module("dask.array")
    sizes = [min(_CHUNK_SIZE, n_samples - start) for start in range(0, n_samples, _CHUNK_SIZE)]
    chunks = [
        arrays.from_delayed(draw_chunk(size, [seed, i]), (size, n_features), float)
        for i, size in enumerate(sizes)
    ]
    return arrays.concatenate(chunks or [arrays.zeros((0, n_features))])


def _draw_from_mixture(mixture: KernelMixture, n_draws: int, seed: list[int]) -> np.ndarray:
    bounds = np.cumsum(mixture.weights)
    heights = np.random.default_rng(seed).uniform(0.0, bounds[-1], n_draws)
    kernels = np.searchsorted(bounds[:-1], heights, side="right")
    groups = np.searchsorted(mixture.offsets, kernels, side="right") - 1
    normals = _draw_normals(n_draws, mixture.n_features, seed)
    drawn = mixture.means[kernels] + _centered_draws(normals, groups, mixture.transforms)
    return drawn if mixture.maps is None else map_columns(mixture.maps, "inverse", drawn)


def _draw_rows(n_rows: int, n_draws: int, seed: list[int]) -> np.ndarray:
    return np.random.default_rng(seed).integers(n_rows, size=n_draws)


def _draw_in_partition(
    X: np.ndarray,
    bounds: np.ndarray,
    n_rows: int,
    n_draws: int,
    seed: list[int],
    assignment: Assignment,
    shapes: KernelShapes,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws from the kernels of one partition, after their indices in the chunk."""
    rows = _draw_rows(n_rows, n_draws, seed)
    indices = np.flatnonzero((rows >= bounds[0]) & (rows < bounds[1]))
    labels, means = assignment.placed(X[rows[indices] - bounds[0]])
    clusters = label_indices(labels, shapes.labels)
    normals = _draw_normals(n_draws, X.shape[1], seed)[indices]
    drawn = means + _centered_draws(normals, clusters, shapes.transforms)
    return indices, assignment.support.values(drawn)


def _merge_draws(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    indices, draws = map(np.concatenate, zip(*parts, strict=True))
    return np.asarray(draws[np.argsort(indices)])


def _draw_normals(n_draws: int, n_features: int, seed: list[int]) -> np.ndarray:
    return np.random.default_rng([*seed, 1]).standard_normal((n_draws, n_features))


def _centered_draws(normals: np.ndarray, groups: np.ndarray, transforms: np.ndarray) -> np.ndarray:
    """Turn standard normal draws into draws from kernels with mean zero, given their groups.

    The root of the covariance is the Cholesky factor. A small change of the covariance changes it
    by little, whereas eigenvectors may flip; draws then hardly depend on rounding.
    """
    out = np.empty_like(normals)
    for g in np.unique(groups):
        root = np.asarray(np.linalg.qr(np.linalg.inv(transforms[g]), mode="r"))
        root *= np.where(root.diagonal() < 0, -1.0, 1.0)[:, None]
        out[groups == g] = normals[groups == g] @ root
    return out
