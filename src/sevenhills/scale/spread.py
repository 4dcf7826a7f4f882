"""A density whose kernels are spread over partitions, or one that is asked from them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..density import KernelMixture
from ..density.engines import TOLERANCE
from ..density.mixture import with_samples
from ..density.sums import LOG_2PI
from ..validation import check_count, check_positive, random_generator
from .assignment import Assignment
from .partitions import Delayed, Partitions, constant, dask_module, is_lazy, task
from .reductions import reduce_tree
from .shards import ClusterRows, Shapes, Shard, mixture_of, places_of, stretched

#: Draws in a chunk of samples; another number would change the draws.
_DRAWS = 2**17
#: Coordinates of the kernels of a shard.
_SHARD_NUMBERS = 2**22


class SpreadMixture(ABC):
    """A mixture of Gaussian kernels that is evaluated and drawn from by partitions.

    What is asked of dask collections, or of parquet files, is answered lazily, by a collection
    of the same partitions; what is asked of arrays is answered at once.

    Parameters
    ----------
    shards : sequence of Delayed
        All kernels.
    n_features, n_samples : int
        The dimension, and how many samples the kernels stand for.
    feature_names : sequence of str or None

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from sevenhills import ROME, DistributedROME
    >>> X = da.from_array(np.random.RandomState(0).standard_normal((400, 2)), chunks=(100, 2))
    >>> model = DistributedROME(estimator=ROME(selection=None), kernels=50)
    >>> density = model.fit(X).density_
    >>> density
    CoresetMixture(n_features=2, n_kernels=50, n_shards=1)
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
        shards: Sequence[Delayed],
        n_features: int,
        n_samples: int,
        feature_names: tuple[str, ...] | None,
    ) -> None:
        self._shards = tuple(shards)
        self.n_features = n_features
        self.n_samples = n_samples
        self.feature_names = feature_names

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_features={self.n_features}, n_kernels={self.n_kernels}, "
            f"n_shards={len(self._shards)})"
        )

    @property
    @abstractmethod
    def n_kernels(self) -> int:
        """The number of kernels."""

    @abstractmethod
    def compute(self) -> KernelMixture:
        """Return the same density on this machine, which must have room for all kernels."""

    @abstractmethod
    def persist(self) -> "SpreadMixture":
        """Return the same density, its kernels being kept where they are computed."""

    @abstractmethod
    def _draws(self, n_draws: int, seed: list[int]) -> Delayed:
        """Return a chunk of draws."""

    def logpdf(self, X: Any, *, tol: float | None = None) -> Any:
        """Return the logarithm of the density at every row of ``X``.

        Parameters
        ----------
        X : dask array, dask DataFrame, path of parquet files, or array-like
        tol : float, optional
            How much the logarithm may be wrong, 1e-8 by default. Up to 2**25 pairs of points in a
            partition and kernels in a shard are summed directly, to rounding.

        Returns
        -------
        dask array or Series, or ndarray, of shape (n_samples,)
        """
        queries = self.check_queries(X)
        answers = queries.answers(self._log_densities(queries, tol), "log_density", float)
        return answers if is_lazy(X) else answers.compute()

    def pdf(self, X: Any, *, tol: float | None = None) -> Any:
        """Return the density at every row of ``X``; see :meth:`logpdf`."""
        return np.exp(self.logpdf(X, tol=tol))

    def mean_logpdf(self, X: Any) -> float:
        """Return the mean of the log density over all rows of ``X``, which are not gathered."""
        parts = [
            task(_sum_and_count)(each) for each in self._log_densities(self.check_queries(X), None)
        ]
        total, count = reduce_tree(parts, _added).compute()
        if not count:
            raise ValueError("X has no rows: all of its partitions are empty")
        return float(total / count)

    def check_queries(self, X: Any) -> Partitions:
        """Return the partitions of points at which something is asked."""
        queries = Partitions.of(X)
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
        by_shard = [queries.each(_log_sums, shard, tol) for shard in self._shards]
        return [
            task(_normalised)(reduce_tree(sums, _log_added), self.n_features)
            for sums in zip(*by_shard, strict=True)
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
        sizes = [min(_DRAWS, n_samples - start) for start in range(0, n_samples, _DRAWS)]
        chunks = [
            arrays.from_delayed(self._draws(size, [seed, i]), (size, self.n_features), float)
            for i, size in enumerate(sizes)
        ]
        return arrays.concatenate(chunks or [arrays.zeros((0, self.n_features))])


def _log_sums(X: np.ndarray, shard: Shard, tol: float) -> np.ndarray:
    return shard.log_sums(X, tol)


def _log_added(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


def _normalised(log_sums: np.ndarray, n_features: int) -> np.ndarray:
    return log_sums - 0.5 * n_features * LOG_2PI


def _sum_and_count(values: np.ndarray) -> tuple[float, int]:
    return float(values.sum()), len(values)


def _added(parts: Sequence[tuple[float, int]]) -> tuple[float, int]:
    totals, counts = zip(*parts, strict=True)
    return sum(totals), sum(counts)


class CoresetMixture(SpreadMixture):
    """A mixture of so few kernels that all of them go wherever they are asked."""

    def __init__(self, mixture: KernelMixture, n_samples: int) -> None:
        names = mixture.feature_names
        super().__init__(
            [constant(Shard(mixture.kernels))],
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
        """Return the same density on this machine."""
        return self._mixture

    def persist(self) -> "CoresetMixture":
        """Return the density itself; there is nothing to compute."""
        return self

    def _draws(self, n_draws: int, seed: list[int]) -> Delayed:
        return task(_drawn_from)(constant(self._mixture), n_draws, seed)


def _drawn_from(mixture: KernelMixture, n_draws: int, seed: list[int]) -> np.ndarray:
    bounds = np.cumsum(mixture.weights)
    heights = np.random.default_rng(seed).uniform(0.0, bounds[-1], n_draws)
    kernels = np.searchsorted(bounds[:-1], heights, side="right")
    groups = np.searchsorted(mixture.offsets, kernels, side="right") - 1
    steps = _normal(n_draws, mixture.n_features, seed)
    return mixture.means[kernels] + stretched(steps, groups, mixture.transforms)


class RowMixture(SpreadMixture):
    """A mixture with a kernel on every row, the rows staying in their partitions.

    Draws depend on the order of the rows, but not on how they are partitioned.

    Parameters
    ----------
    samples : Partitions
        The rows.
    sizes : ndarray of shape (n_partitions,)
        How many rows every partition has.
    assignment : Delayed
        What assigns rows to clusters.
    shapes : Shapes
        The kernels of every cluster.
    shards : sequence of Delayed, optional
        The kernels, if they are somewhere already.
    """

    def __init__(
        self,
        samples: Partitions,
        sizes: np.ndarray,
        assignment: Delayed,
        shapes: Shapes,
        shards: Sequence[Delayed] | None = None,
    ) -> None:
        if shards is None:
            shards = _shards_of(samples, sizes, assignment, shapes)
        features = samples.features
        super().__init__(shards, features.number, int(sizes.sum()), features.names)
        self._samples, self._sizes = samples, sizes
        self._assignment, self._shapes = assignment, shapes

    @property
    def n_kernels(self) -> int:
        """The number of kernels."""
        return self.n_samples

    def compute(self) -> KernelMixture:
        """Return the same density on this machine, which must have room for all kernels."""
        rows = self._samples.each(ClusterRows.of, self._assignment, self._shapes.labels)
        joint = ClusterRows.joint(dask_module("dask").compute(*rows))
        kernels = joint.kernels(self._shapes, np.full(self.n_samples, -np.log(self.n_samples)))
        density = mixture_of(kernels, self._shapes.labels[joint.counts > 0])
        return with_samples(density, self.feature_names, self.n_samples)

    def persist(self) -> "RowMixture":
        """Return the same density, its kernels being kept where they are computed.

        They are then computed once for many questions. They take little more memory than the rows,
        and several times that once they have been asked for many log densities.
        """
        kept = dask_module("dask").persist(*self._shards)
        return RowMixture(self._samples, self._sizes, self._assignment, self._shapes, kept)

    def _draws(self, n_draws: int, seed: list[int]) -> Delayed:
        bounds = np.append(0, np.cumsum(self._sizes))
        rows = _drawn_rows(self.n_samples, n_draws, seed)
        wanted = np.unique(np.searchsorted(bounds, rows, side="right") - 1)
        parts = [
            self._samples.one(
                i,
                _drawn_in,
                bounds[i : i + 2],
                self.n_samples,
                n_draws,
                seed,
                self._assignment,
                self._shapes,
            )
            for i in wanted.tolist()
        ]
        return task(_put_together)(parts)


def _shards_of(
    samples: Partitions, sizes: np.ndarray, assignment: Delayed, shapes: Shapes
) -> list[Delayed]:
    """Put kernels on rows, those of partitions next to each other together.

    The fewer shards, the fewer sums for every query.
    """
    rows = samples.each(ClusterRows.of, assignment, shapes.labels)
    kept, n_samples = constant(shapes), int(sizes.sum())
    largest = max(1, _SHARD_NUMBERS // samples.features.number)
    return [
        task(Shard.of)(rows[start:end], kept, n_samples)
        for start, end in pairwise(_cuts(sizes, largest))
    ]


def _cuts(sizes: np.ndarray, largest: int) -> list[int]:
    """Return where to cut a row of partitions so that pieces are not larger, unless one is."""
    cuts, size = [0], 0
    for i, each in enumerate(sizes.tolist()):
        if size and size + each > largest:
            cuts.append(i)
            size = 0
        size += each
    return [*cuts, len(sizes)]


def _drawn_rows(n_rows: int, n_draws: int, seed: list[int]) -> np.ndarray:
    return np.random.default_rng(seed).integers(n_rows, size=n_draws)


def _drawn_in(
    X: np.ndarray,
    bounds: np.ndarray,
    n_rows: int,
    n_draws: int,
    seed: list[int],
    assignment: Assignment,
    shapes: Shapes,
) -> tuple[np.ndarray, np.ndarray]:
    """Return which draws are from the kernels of one partition, and these."""
    rows = _drawn_rows(n_rows, n_draws, seed)
    draws = np.flatnonzero((rows >= bounds[0]) & (rows < bounds[1]))
    centres = X[rows[draws] - bounds[0]]
    places = places_of(assignment.labels(centres), shapes.labels)
    steps = _normal(n_draws, X.shape[1], seed)[draws]
    return draws, centres + stretched(steps, places, shapes.transforms)


def _normal(n_draws: int, n_features: int, seed: list[int]) -> np.ndarray:
    return np.random.default_rng([*seed, 1]).standard_normal((n_draws, n_features))


def _put_together(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    draws, values = map(np.concatenate, zip(*parts, strict=True))
    return np.asarray(values[np.argsort(draws)])
