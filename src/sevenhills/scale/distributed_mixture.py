"""Densities that dask evaluates, partition by partition."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from ..clustering.optics import NOISE
from ..density import KernelMixture
from ..density.engines import FEW_PAIRS, TOLERANCE, Engine
from ..density.mixture import with_samples
from ..density.sums import LOG_2PI, Kernels, LogSums, log_sums_of, sums_at
from ..estimators.cluster_records import Cluster
from ..validation import check_count, check_positive, random_generator
from ..whitening import silverman
from .assignment import Assignment, ClusterRows, KernelShapes, label_indices
from .partitions import Delayed, Partitions, constant, dask_module, is_lazy, reduce_tree, task
from .reservoir import Reservoir

#: Draws in a chunk of samples. Every chunk has a seed, so another number would change the draws.
_CHUNK_SIZE = 2**17
#: Upper limit on the coordinates in a block of kernels: 32 MB, and 200 MB after preparation.
_BLOCK_SIZE = 2**22


class KernelBlock:
    """Kernels that are kept and summed by one worker.

    Parameters
    ----------
    kernels : Kernels
        There may be none.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self._direct: LogSums | None = None
        self._engine: Engine | None = None
        self._lock = Lock()

    @classmethod
    def from_rows(
        cls, parts: Sequence[ClusterRows], shapes: KernelShapes, n_samples: int
    ) -> "KernelBlock":
        """Return kernels of weight ``1 / n_samples`` on the rows of partitions."""
        merged = ClusterRows.merge(parts)
        return cls(merged.kernels(shapes, np.full(len(merged.rows), -np.log(n_samples))))

    def __reduce__(self) -> tuple[Any, ...]:
        # Prepared sums are larger than the kernels, and not sent.
        return KernelBlock, (self.kernels,)

    def __sizeof__(self) -> int:
        """Return the approximate size after preparation, from which dask plans its memory."""
        return 6 * self.kernels.means.nbytes

    def log_sums(self, X: np.ndarray, tol: float) -> np.ndarray:
        """Return the log of the sum of kernels at every row, without the Gaussian's constant."""
        n_pairs = len(X) * len(self.kernels.means)
        if n_pairs == 0:
            return np.full(len(X), -np.inf)
        if n_pairs <= FEW_PAIRS:
            return sums_at(self._prepare_direct(), X)
        return self._prepare_engine().sums_at(X, tol, None)

    def _prepare_direct(self) -> LogSums:
        with self._lock:
            self._direct = self._direct or log_sums_of(self.kernels)
            return self._direct

    def _prepare_engine(self) -> Engine:
        with self._lock:
            self._engine = self._engine or Engine.from_kernels(
                self.kernels, partial(log_sums_of, self.kernels)
            )
            return self._engine


class DistributedMixture(ABC):
    """A mixture of Gaussian kernels that dask evaluates and draws from.

    Results for dask collections and parquet files are lazy collections with the same partitions;
    results for arrays are computed at once.

    Parameters
    ----------
    blocks : sequence of Delayed
        The kernels, each a ``KernelBlock``.
    n_features : int
    n_samples : int
        The number of samples to which the density was fitted.
    feature_names : tuple of str or None

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from sevenhills import ROME, DistributedROME
    >>> X = da.from_array(np.random.RandomState(0).standard_normal((400, 2)), chunks=(100, 2))
    >>> model = DistributedROME(estimator=ROME(selection=None), kernels=50)
    >>> density = model.fit(X).density_
    >>> density
    CoresetMixture(n_features=2, n_kernels=50, n_blocks=1)
    >>> density.logpdf(X).chunks
    ((100, 100, 100, 100),)
    >>> density.sample(3, random_state=0).compute().shape
    (3, 2)
    >>> density.compute()
    KernelMixture(n_features=2, n_kernels=50, n_groups=1)
    """

    is_normalized = True

    def __init__(
        self,
        blocks: Sequence[Delayed],
        n_features: int,
        n_samples: int,
        feature_names: tuple[str, ...] | None,
    ) -> None:
        self._blocks = tuple(blocks)
        self.n_features = n_features
        self.n_samples = n_samples
        self.feature_names = feature_names

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_features={self.n_features}, n_kernels={self.n_kernels}, "
            f"n_blocks={len(self._blocks)})"
        )

    @property
    @abstractmethod
    def n_kernels(self) -> int:
        """The number of kernels."""

    @abstractmethod
    def compute(self) -> KernelMixture:
        """Return the density with all kernels in the memory of this process."""

    @abstractmethod
    def persist(self) -> "DistributedMixture":
        """Return the density with its kernels computed and kept by the workers."""

    @abstractmethod
    def _draw_chunk(self, n_draws: int, seed: list[int]) -> Delayed:
        """Return a chunk of draws."""

    def logpdf(self, X: Any, *, tol: float | None = None) -> Any:
        """Return the log density at every row of ``X``.

        Parameters
        ----------
        X : dask array, dask DataFrame, path of parquet files, or array-like
        tol : float, optional
            Upper limit on the error of the log density, 1e-8 by default. Up to 2**25 pairs of
            points in a partition and kernels in a block are summed directly, to rounding.

        Returns
        -------
        dask array or Series, or ndarray, of shape (n_samples,)
        """
        queries = self.check_queries(X)
        values = queries.to_collection(self._log_densities(queries, tol), "log_density", float)
        return values if is_lazy(X) else values.compute()

    def pdf(self, X: Any, *, tol: float | None = None) -> Any:
        """Return the density at every row of ``X``; see :meth:`logpdf`."""
        return np.exp(self.logpdf(X, tol=tol))

    def mean_logpdf(self, X: Any) -> float:
        """Return the mean log density over all rows of ``X``, which stay in their partitions."""
        parts = [
            task(_sum_and_count)(each) for each in self._log_densities(self.check_queries(X), None)
        ]
        total, count = reduce_tree(parts, _add).compute()
        if not count:
            raise ValueError("X has no rows: all of its partitions are empty")
        return float(total / count)

    def check_queries(self, X: Any) -> Partitions:
        """Return the partitions of ``X`` if it has the features of the density."""
        queries = Partitions.from_data(X)
        found, names = queries.features, self.feature_names
        if found.number != self.n_features:
            raise ValueError(
                f"X has {found.number} features, but the density has {self.n_features}"
            )
        if found.names is not None and names is not None and found.names != names:
            raise ValueError(
                f"X has the features {list(found.names)}, but the density has {list(names)}, in "
                "this order"
            )
        return queries

    def _log_densities(self, queries: Partitions, tol: float | None) -> list[Delayed]:
        tol = TOLERANCE if tol is None else check_positive(tol, "tol")
        by_block = [queries.map(_log_sums, block, tol) for block in self._blocks]
        return [
            task(_normalize)(reduce_tree(sums, _log_add), self.n_features)
            for sums in zip(*by_block, strict=True)
        ]

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw independent samples.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            With None the draws differ from call to call; numpy's global generator is neither
            used nor changed.

        Returns
        -------
        dask array of shape (n_samples, n_features)
        """
        n_samples = check_count(n_samples, "n_samples")
        seed = int(random_generator(random_state).randint(2**32, dtype=np.uint32))
        arrays = dask_module("dask.array")
        starts = range(0, n_samples, _CHUNK_SIZE)
        sizes = [min(_CHUNK_SIZE, n_samples - start) for start in starts]
        chunks = [
            arrays.from_delayed(self._draw_chunk(size, [seed, i]), (size, self.n_features), float)
            for i, size in enumerate(sizes)
        ]
        return arrays.concatenate(chunks or [arrays.zeros((0, self.n_features))])


def _log_sums(X: np.ndarray, block: KernelBlock, tol: float) -> np.ndarray:
    return block.log_sums(X, tol)


def _log_add(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


def _normalize(log_sums: np.ndarray, n_features: int) -> np.ndarray:
    return log_sums - 0.5 * n_features * LOG_2PI


def _sum_and_count(values: np.ndarray) -> tuple[float, int]:
    return float(values.sum()), len(values)


def _add(parts: Sequence[tuple[float, int]]) -> tuple[float, int]:
    totals, counts = zip(*parts, strict=True)
    return sum(totals), sum(counts)


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


class CoresetMixture(DistributedMixture):
    """A mixture with kernels on some rows of every cluster, which is sent to every worker.

    Parameters
    ----------
    mixture : KernelMixture
    n_samples : int
        The number of samples to which the density was fitted.
    """

    def __init__(self, mixture: KernelMixture, n_samples: int) -> None:
        names = mixture.feature_names
        super().__init__(
            [constant(KernelBlock(mixture.kernels))],
            mixture.n_features,
            n_samples,
            None if names is None else tuple(names),
        )
        self._mixture = mixture

    @property
    def n_kernels(self) -> int:
        """The number of kernels."""
        return self._mixture.n_kernels

    def compute(self) -> KernelMixture:
        """Return the density as a :class:`~sevenhills.KernelMixture`."""
        return self._mixture

    def persist(self) -> "CoresetMixture":
        """Return the density itself, because its kernels are already computed."""
        return self

    def _draw_chunk(self, n_draws: int, seed: list[int]) -> Delayed:
        return task(_draw_from_mixture)(constant(self._mixture), n_draws, seed)


def coreset_kernels(
    coresets: Sequence[Reservoir], clusters: Sequence[Cluster], shapes: KernelShapes
) -> tuple[KernelMixture, list[float]]:
    """Put kernels on the coresets of clusters.

    The bandwidth is that for the number of rows in a coreset: kernels with the bandwidth for a
    million rows would be separate peaks on 1,000 of these rows.

    Parameters
    ----------
    coresets : sequence of Reservoir
    clusters : sequence of Cluster
        The clusters of all rows.
    shapes : KernelShapes
        The kernels for all rows.

    Returns
    -------
    density : KernelMixture
    bandwidths : list of float
        The bandwidths of the clusters after whitening.
    """
    n_features = shapes.transforms.shape[1]
    bandwidths = [
        silverman(1 if cluster.label == NOISE else each.counts.sum(), n_features)
        for each, cluster in zip(coresets, clusters, strict=True)
    ]
    ratios = np.array(bandwidths) / [cluster.bandwidth for cluster in clusters]
    log_weights = [
        np.log(each.counts / each.counts.sum() * cluster.share)
        for each, cluster in zip(coresets, clusters, strict=True)
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


class RowMixture(DistributedMixture):
    """A mixture with a kernel on every row; the rows stay in their partitions.

    Draws depend on the order of the rows, but not on their partitions.

    Parameters
    ----------
    samples : Partitions
        The rows.
    sizes : ndarray of shape (n_partitions,)
        The number of rows in every partition.
    assignment : Delayed
        The ``Assignment`` of rows to clusters.
    shapes : KernelShapes
        The kernels of every cluster.
    blocks : sequence of Delayed, optional
        The kernels, if they are already computed.
    """

    def __init__(
        self,
        samples: Partitions,
        sizes: np.ndarray,
        assignment: Delayed,
        shapes: KernelShapes,
        blocks: Sequence[Delayed] | None = None,
    ) -> None:
        if blocks is None:
            blocks = _kernel_blocks(samples, sizes, assignment, shapes)
        features = samples.features
        super().__init__(blocks, features.number, int(sizes.sum()), features.names)
        self._samples, self._sizes = samples, sizes
        self._assignment, self._shapes = assignment, shapes

    @property
    def n_kernels(self) -> int:
        """The number of kernels."""
        return self.n_samples

    def compute(self) -> KernelMixture:
        """Return the density with all kernels in the memory of this process."""
        parts = self._samples.map(ClusterRows.from_rows, self._assignment, self._shapes.labels)
        merged = ClusterRows.merge(dask_module("dask").compute(*parts))
        kernels = merged.kernels(self._shapes, np.full(self.n_samples, -np.log(self.n_samples)))
        density = _mixture(kernels, self._shapes.labels[merged.counts > 0])
        return with_samples(density, self.feature_names, self.n_samples)

    def persist(self) -> "RowMixture":
        """Return the density with its kernels computed and kept by the workers.

        Later calls do not read the rows again. The kernels take little more memory than the rows,
        and about six times as much after the first large call of :meth:`logpdf`.
        """
        blocks = dask_module("dask").persist(*self._blocks)
        return RowMixture(self._samples, self._sizes, self._assignment, self._shapes, blocks)

    def _draw_chunk(self, n_draws: int, seed: list[int]) -> Delayed:
        bounds = np.append(0, np.cumsum(self._sizes))
        rows = _draw_rows(self.n_samples, n_draws, seed)
        drawn_from = np.unique(np.searchsorted(bounds, rows, side="right") - 1)
        parts = [
            self._samples.map_one(
                i,
                _draw_in_partition,
                bounds[i : i + 2],
                self.n_samples,
                n_draws,
                seed,
                self._assignment,
                self._shapes,
            )
            for i in drawn_from.tolist()
        ]
        return task(_merge_draws)(parts)


def _kernel_blocks(
    samples: Partitions, sizes: np.ndarray, assignment: Delayed, shapes: KernelShapes
) -> list[Delayed]:
    """Put kernels on all rows; adjacent partitions share a block.

    Every partition of queries visits every block, so blocks should be few and large.
    """
    rows = samples.map(ClusterRows.from_rows, assignment, shapes.labels)
    shared_shapes, n_samples = constant(shapes), int(sizes.sum())
    most_rows = max(1, _BLOCK_SIZE // samples.features.number)
    return [
        task(KernelBlock.from_rows)(rows[start:end], shared_shapes, n_samples)
        for start, end in pairwise(_block_bounds(sizes, most_rows))
    ]


def _block_bounds(sizes: np.ndarray, most_rows: int) -> list[int]:
    """Divide partitions into blocks of at most ``most_rows``, or of one larger partition."""
    bounds, n_rows = [0], 0
    for i, size in enumerate(sizes.tolist()):
        if n_rows and n_rows + size > most_rows:
            bounds.append(i)
            n_rows = 0
        n_rows += size
    return [*bounds, len(sizes)]


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
    means = X[rows[indices] - bounds[0]]
    clusters = label_indices(assignment.predict(means), shapes.labels)
    normals = _draw_normals(n_draws, X.shape[1], seed)[indices]
    return indices, means + _centered_draws(normals, clusters, shapes.transforms)


def _merge_draws(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    indices, draws = map(np.concatenate, zip(*parts, strict=True))
    return np.asarray(draws[np.argsort(indices)])


def _draw_from_mixture(mixture: KernelMixture, n_draws: int, seed: list[int]) -> np.ndarray:
    bounds = np.cumsum(mixture.weights)
    heights = np.random.default_rng(seed).uniform(0.0, bounds[-1], n_draws)
    kernels = np.searchsorted(bounds[:-1], heights, side="right")
    groups = np.searchsorted(mixture.offsets, kernels, side="right") - 1
    normals = _draw_normals(n_draws, mixture.n_features, seed)
    return mixture.means[kernels] + _centered_draws(normals, groups, mixture.transforms)


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
