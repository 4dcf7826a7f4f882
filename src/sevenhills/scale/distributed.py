"""ROME for samples on more than one machine."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..density import KernelMixture
from ..density.mixture import with_samples
from ..estimators import ROME
from ..estimators.base import inner_fits
from ..estimators.cluster_densities import describe_clusters, put_kernels
from ..estimators.summary import Cluster
from ..estimators.support import Support
from ..progress import part
from ..validation import check_choice, check_count, random_generator, unchanged_on_failure
from .distributed_mixture import (
    DistributedMixture,
    KernelShapes,
    coreset_mixture,
    draw_samples,
    log_densities,
)
from .partitions import Delayed, Features, Partitions, constant, reduce_tree, task
from .row_statistics import (
    Assignment,
    ClusterStatistics,
    Plan,
    Reservoir,
    RowStatistics,
    sigma_points,
)

#: The weight of the least and the largest values of all rows beside those of the sample.
_MASS_OF_ENDS = 1e-9


class DistributedROME(DensityMixin, BaseEstimator):
    r"""ROME for samples in partitions, which need not fit on one machine.

    1. The sample of all partitions consists of the rows with the smallest hashes.
    2. :class:`~sevenhills.ROME` finds the clusters of the sample.
    3. Every row is assigned to the cluster with the largest share times density, both estimated
       from the sample. Rows of the sample keep their label.
    4. Counts, means and covariances of clusters are computed from all rows.
    5. Whitening and bandwidths follow from these moments. Kernels are put on all rows, or on a
       limited number of rows of every cluster.

    The result depends neither on the partitions nor on the order of the rows. If all distinct rows
    fit in the sample, the density is that of :class:`~sevenhills.ROME`, except that equal rows
    always belong to one cluster. To find the clusters of the sample, rounded values are spread over
    their resolution; kernels are put on the rows as given.

    Parameters
    ----------
    estimator : ROME, optional
        The estimator of the clusters and their kernels, with ``density="kde"`` and
        ``scale=None``. The sample chooses the maps of its ``support``; where a row is at a bound,
        it is a mirror.
    sample_size : int, default=30_000
        The number of distinct rows in the sample.
    kernels : "all" or int, default="all"
        "all" puts a kernel on every row. The rows stay in their partitions, and every evaluation
        of the density reads them again. A number limits the distinct rows of every cluster that
        have a kernel; these rows are kept in this process, and the bandwidth is that for their
        number.
    random_state : int, RandomState instance or None, default=0
        The seed of the hashes.

    Attributes
    ----------
    density_ : DistributedMixture or KernelMixture
        The fitted density, with kernels on all rows or on a limited number.
    clusters_ : tuple of Cluster
        Size, mean, spread and bandwidth of every cluster.
    rome_ : ROME
        The fit of the sample, with its labels, candidates and ordering.
    min_std_ : float
        The lower limit on standard deviations, in data units.
    n_samples_, n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Defined if ``X`` is a frame whose column names are strings.

    Notes
    -----
    A fit reads all samples twice. If samples are costly to compute and fit in memory, ``persist``
    them by dask.

    Examples
    --------
    >>> import dask.array as da
    >>> from sevenhills import DistributedROME, datasets
    >>> train, test = datasets.load("aniso").split(run=0, n_samples=1000)
    >>> rome = DistributedROME().fit(da.from_array(train, chunks=(300, 2)))
    >>> len(rome.clusters_)
    3
    >>> scores = rome.score_samples(da.from_array(test, chunks=(500, 2)))
    >>> scores.chunks
    ((500, 500),)
    >>> round(float(scores.mean().compute()), 1)
    -2.6
    """

    density_: DistributedMixture | KernelMixture
    clusters_: tuple[Cluster, ...]
    rome_: ROME
    min_std_: float
    n_samples_: int
    _assignment: Delayed
    _features: Features

    is_normalized = True

    def __init__(
        self,
        *,
        estimator: ROME | None = None,
        sample_size: int = 30_000,
        kernels: str | int = "all",
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.sample_size = sample_size
        self.kernels = kernels
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the density to samples.

        Parameters
        ----------
        X : dask array, dask DataFrame, str, path or array-like of shape (n_samples, n_features)
            Partitions may be empty, and their sizes unknown. A string or path is a parquet file, a
            folder of parquet files, or a pattern.
        y : ignored

        Returns
        -------
        self
            If fitting fails, the estimator keeps its previous state.
        """
        with unchanged_on_failure(self):
            coreset_size = self._check_parameters()
            samples = Partitions.from_data(X)
            seed = int(random_generator(self.random_state).randint(2**63, dtype=np.uint64))
            with part("sample", 0.0, 0.4):
                rows = self._row_statistics(samples, seed)
            support = self._support_of(rows, samples.features.names)
            with part("clusters", 0.4, 0.6):
                found = self._cluster(rows.sample, seed, support)
            plan = Plan.from_clusters(self.rome_.clusters_, rows, found, coreset_size)
            assignment = constant(found)
            parts = samples.map(ClusterStatistics.from_rows, assignment, constant(plan))
            with part("statistics", 0.6, 1.0):
                statistics = reduce_tree(parts, ClusterStatistics.merge, constant(plan)).compute()
            shapes = self._shape_kernels(statistics, plan, support)
            if coreset_size is None:
                self.density_ = DistributedMixture(
                    samples, rows.sizes, assignment, shapes, support.maps
                )
            else:
                self._put_on_coresets(statistics, shapes, samples.features.names, support)
            self._assignment = assignment
            self._record_features(samples.features)
        return self

    def _check_parameters(self) -> int | None:
        """Return the upper limit on the kernels of a cluster, None for kernels on all rows."""
        recipe = self.estimator
        if recipe is not None and not isinstance(recipe, ROME):
            raise TypeError(f"estimator must be a ROME, got {recipe!r}")
        if recipe is not None and recipe.density != "kde":
            raise ValueError(
                "estimator must be a ROME with kernels on its clusters, density='kde', got "
                f"{recipe.density!r}"
            )
        if recipe is not None and recipe.scale is not None:
            raise ValueError(
                f"estimator must be a ROME with scale=None, got {recipe.scale!r}; divide the "
                "features by their scales before the fit"
            )
        check_count(self.sample_size, "sample_size", least=2)
        if isinstance(self.kernels, str):
            check_choice(self.kernels, "kernels", ("all",))
            return None
        return check_count(self.kernels, "kernels", least=1)

    def _row_statistics(self, samples: Partitions, seed: int) -> RowStatistics:
        parts = samples.map(RowStatistics.from_rows, self.sample_size, seed)
        found: RowStatistics = reduce_tree(parts, RowStatistics.merge, self.sample_size).compute()
        if not found.sizes.sum():
            raise ValueError("X has no rows: all of its partitions are empty")
        return found

    def _support_of(self, rows: RowStatistics, names: Sequence[str] | None) -> Support:
        """Choose the maps of features by the sample; refuse rows outside of the support."""
        declared = None if self.estimator is None else self.estimator.support
        if declared is None:
            return Support(len(rows.lower))
        X, counts = rows.sample.rows, rows.sample.counts
        # Rows at a bound may not be in the sample; only a mirror gives them a density.
        with_ends = np.concatenate([X, [rows.lower, rows.upper]])
        masses, no_rows = np.append(counts, [_MASS_OF_ENDS] * 2), np.empty(0)
        chosen = Support.from_samples(declared, with_ends, masses, names, rows=no_rows)
        return Support.from_samples(chosen.declarations(), X, counts, names, rows=no_rows)

    def _cluster(self, sample: Reservoir, seed: int, support: Support) -> Assignment:
        """Find the clusters of the sample; return the assignment of rows to them."""
        recipe = clone(ROME() if self.estimator is None else self.estimator)
        if support.features:
            recipe.set_params(support=support.declarations())
        with inner_fits():
            self.rome_ = recipe.fit(sample.rows, sample_weight=sample.counts)
        density = cast(KernelMixture, self.rome_.density_)
        return Assignment(density, sample.hashes, self.rome_.labels_, seed, support)

    def _shape_kernels(
        self, statistics: ClusterStatistics, plan: Plan, support: Support
    ) -> KernelShapes:
        """Compute whitening and bandwidth of every cluster from the moments of all rows."""
        moments, rome = statistics.moments, self.rome_
        clusters = sigma_points(moments, plan)
        whitening = rome._whiten(clusters)
        density = cast(KernelMixture, put_kernels(clusters, whitening))
        n_members = dict(zip(plan.labels.tolist(), moments.counts.tolist(), strict=True))
        self.clusters_ = describe_clusters(clusters, whitening, "kde", n_members, support)
        self.min_std_ = whitening.min_std * plan.unit
        self.n_samples_ = int(moments.counts.sum())
        return KernelShapes(density.clusters, density.transforms, density.log_dets)

    def _put_on_coresets(
        self,
        statistics: ClusterStatistics,
        shapes: KernelShapes,
        names: tuple[str, ...] | None,
        support: Support,
    ) -> None:
        coresets = [each for each in statistics.coresets if len(each.rows)]
        density, bandwidths = coreset_mixture(coresets, self.clusters_, shapes)
        self.density_ = with_samples(density, names, self.n_samples_, support.maps)
        self.clusters_ = tuple(
            replace(cluster, bandwidth=width)
            for cluster, width in zip(self.clusters_, bandwidths, strict=True)
        )

    def _record_features(self, features: Features) -> None:
        self._features = features
        self.n_features_in_ = features.number
        self.__dict__.pop("feature_names_in_", None)
        if features.names is not None:
            self.feature_names_in_ = np.array(features.names, dtype=object)

    def _queries(self, X: Any) -> Partitions:
        check_is_fitted(self)
        return Partitions.from_data(X, self._features)

    def score_samples(self, X: Any) -> Any:
        """Return the log density at every row of ``X``, with an error of at most 1e-8.

        Parameters
        ----------
        X : as for :meth:`fit`

        Returns
        -------
        dask array or Series, or ndarray, of shape (n_samples,)
            Lazy, with the partitions of ``X``; computed at once for an array-like.
        """
        queries = self._queries(X)
        return queries.to_collection(log_densities(self.density_, queries), "log_density", float)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log density of the rows of ``X``, which stay in their partitions.

        Parameters
        ----------
        X : as for :meth:`fit`
        y : ignored

        Returns
        -------
        float
        """
        values = log_densities(self.density_, self._queries(X))
        parts = [task(_sum_and_count)(each) for each in values]
        total, count = reduce_tree(parts, _add).compute()
        if not count:
            raise ValueError("X has no rows: all of its partitions are empty")
        return float(total / count)

    def predict(self, X: Any) -> Any:
        """Return the label of every row of ``X``, by the assignment of the fit, -1 for noise.

        Parameters
        ----------
        X : as for :meth:`fit`

        Returns
        -------
        dask array or Series, or ndarray, of shape (n_samples,)
            As for :meth:`score_samples`.
        """
        queries = self._queries(X)
        return queries.to_collection(queries.map(_predict, self._assignment), "cluster", np.int64)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw independent samples from the fitted density.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            With None the draws differ from call to call. The draws of a seed do not depend on
            partitions; with kernels on all rows they depend on the order of the rows.

        Returns
        -------
        dask array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return draw_samples(self.density_, n_samples, random_state)

    def persist(self) -> Self:
        """Compute the kernels on all rows and keep them in the workers of dask.

        Later calls do not read the rows again. The kernels take little more memory than the rows,
        and about six times that memory after the first large call of :meth:`score_samples`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if isinstance(self.density_, DistributedMixture):
            self.density_._persist()
        return self


def _predict(X: np.ndarray, assignment: Assignment) -> np.ndarray:
    return assignment.predict(X)


def _sum_and_count(values: np.ndarray) -> tuple[float, int]:
    return float(values.sum()), len(values)


def _add(parts: Sequence[tuple[float, int]]) -> tuple[float, int]:
    totals, counts = zip(*parts, strict=True)
    return sum(totals), sum(counts)
