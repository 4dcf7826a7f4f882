"""ROME for samples on more than one machine."""

from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..density import KernelMixture
from ..density.mixture import with_samples
from ..estimators import ROME
from ..estimators.cluster_densities import (
    add_up,
    describe_clusters,
    put_kernels,
    whiten_clusters,
)
from ..estimators.cluster_records import Cluster
from ..validation import check_choice, check_count, random_generator, unchanged_on_failure
from .assignment import Assignment
from .coresets import coreset_mixture
from .partitions import Delayed, Partitions, constant, is_lazy
from .reductions import reduce_tree
from .reservoir import Reservoir
from .shards import Shapes
from .spread import CoresetMixture, RowMixture, SpreadMixture
from .survey import Overview, Plan, Survey, stand_ins


class DistributedROME(DensityMixin, BaseEstimator):
    r"""ROME for samples in partitions, which need not fit on one machine.

    1. A sample is chosen over all partitions: the rows whose values have the smallest hashes.
    2. :class:`~sevenhills.ROME` finds the clusters of the sample.
    3. Every row is assigned to the cluster whose share times density, both estimated from the
       sample, is the largest; rows of the sample stay where they were found.
    4. Counts, means and covariances of clusters are those of all rows, exactly.
    5. Whitening and bandwidths follow from these, and kernels are put on all rows, or on the
       same number of rows of every cluster.

    Neither the partitions nor the order of the rows make any difference. Where all distinct rows
    fit in the sample, the density is that of :class:`~sevenhills.ROME`, but that rows that are
    equal always belong to one cluster. Rounded values are spread over their unit to find the
    clusters of the sample; kernels are put on the rows as they are.

    Parameters
    ----------
    estimator : ROME, optional
        How to find clusters and to shape kernels; with kernels on clusters, the default.
    sample_size : int, default=30_000
        The number of distinct rows in the sample.
    kernels : "all" or int, default="all"
        "all" puts a kernel on every row. The rows stay in their partitions, and are read again
        whenever the density is asked unless it is told to ``persist``. A number puts kernels on at
        most so many distinct rows of every cluster, which are kept here; their width is that for
        as many samples as these rows are.
    random_state : int, RandomState instance or None, default=0
        What the hashes depend on.

    Attributes
    ----------
    density_ : RowMixture or CoresetMixture
        The fitted density, evaluated and drawn from by partitions; ``density_.compute()`` is an
        ordinary :class:`~sevenhills.KernelMixture`.
    clusters_ : tuple of Cluster
        Size, mean, spread and bandwidth of every cluster.
    covariances_ : ndarray of shape (n_clusters, n_features, n_features)
        The covariances of all rows of every cluster.
    rome_ : ROME
        The fit of the sample, with its labels, candidates and ordering.
    min_std_ : float
        The smallest standard deviation that was used, in data units.
    n_samples_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If the samples are a frame with names that are strings.

    Notes
    -----
    Samples are read twice by a fit, and once more for every question to a density with kernels on
    all rows: let dask ``persist`` them if they are costly to make and there is memory for them.

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

    density_: SpreadMixture
    clusters_: tuple[Cluster, ...]
    covariances_: np.ndarray
    rome_: ROME
    min_std_: float
    n_samples_: int

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
            Partitions may be empty, and their sizes unknown. A string or path is that of a parquet
            file or of a folder of them, or a pattern.
        y : ignored

        Returns
        -------
        self
            If fitting fails, the estimator is as it was before.
        """
        with unchanged_on_failure(self):
            coreset_size = self._check_parameters()
            samples = Partitions.of(X)
            seed = int(random_generator(self.random_state).randint(2**63, dtype=np.uint64))
            overview = self._look_over(samples, seed)
            assignment = self._cluster(overview.sample, seed)
            plan = Plan.of(self.rome_.clusters_, overview, coreset_size, seed)
            parts = samples.each(Survey.of, assignment, constant(plan))
            survey = reduce_tree(parts, Survey.joint, constant(plan)).compute()
            shapes = self._measure(survey, plan)
            if coreset_size is None:
                self.density_ = RowMixture(samples, overview.sizes, assignment, shapes)
            else:
                self._put_on_coresets(survey, shapes, samples.features.names)
            self._assignment = assignment
            self._keep_features(samples)
        return self

    def _check_parameters(self) -> int | None:
        """Return the number of kernels for each cluster, None if all rows have one."""
        recipe = self.estimator
        if recipe is not None and not isinstance(recipe, ROME):
            raise TypeError(f"estimator must be a ROME, got {recipe!r}")
        if recipe is not None and recipe.density != "kde":
            raise ValueError(
                "estimator must be a ROME with kernels on its clusters, density='kde', got "
                f"{recipe.density!r}"
            )
        check_count(self.sample_size, "sample_size", least=2)
        if isinstance(self.kernels, str):
            check_choice(self.kernels, "kernels", ("all",))
            return None
        return check_count(self.kernels, "kernels", least=1)

    def _look_over(self, samples: Partitions, seed: int) -> Overview:
        parts = samples.each(Overview.of, self.sample_size, seed)
        overview: Overview = reduce_tree(parts, Overview.joint, self.sample_size).compute()
        if not overview.sizes.sum():
            raise ValueError("X has no rows: all of its partitions are empty")
        return overview

    def _cluster(self, sample: Reservoir, seed: int) -> Delayed:
        """Find clusters in the sample; return what assigns rows to them."""
        recipe = ROME() if self.estimator is None else self.estimator
        self.rome_ = clone(recipe).fit(sample.rows, sample_weight=sample.counts)
        density = cast(KernelMixture, self.rome_.density_)
        return constant(Assignment(density, sample.hashes, self.rome_.labels_, seed))

    def _measure(self, survey: Survey, plan: Plan) -> Shapes:
        """Shape the kernels of clusters as all of their rows are."""
        clusters, rome = stand_ins(survey, plan), self.rome_
        whitening = whiten_clusters(
            clusters,
            rome.min_std,
            decorrelate=rome.decorrelate,
            normalize=rome.normalize,
            shrinkage=rome.shrinkage,
        )
        kernels = put_kernels(clusters, whitening)
        density = cast(KernelMixture, add_up(kernels, clusters))
        n_members = dict(zip(plan.labels.tolist(), survey.moments.counts.tolist(), strict=True))
        self.clusters_ = describe_clusters(clusters, whitening, kernels, n_members)
        self.covariances_ = survey.moments.covariances(plan.unit)
        self.min_std_ = whitening.min_std * plan.unit
        self.n_samples_ = int(survey.moments.counts.sum())
        return Shapes(density.clusters, density.transforms, density.log_dets)

    def _put_on_coresets(
        self, survey: Survey, shapes: Shapes, names: tuple[str, ...] | None
    ) -> None:
        coresets = [each for each in survey.coresets if len(each.rows)]
        density, bandwidths = coreset_mixture(coresets, self.clusters_, shapes)
        self.density_ = CoresetMixture(
            with_samples(density, names, self.n_samples_), self.n_samples_
        )
        self.clusters_ = tuple(
            replace(cluster, bandwidth=width)
            for cluster, width in zip(self.clusters_, bandwidths, strict=True)
        )

    def _keep_features(self, samples: Partitions) -> None:
        self.n_features_in_ = samples.features.number
        self.__dict__.pop("feature_names_in_", None)
        if samples.features.names is not None:
            self.feature_names_in_ = np.array(samples.features.names, dtype=object)

    @property
    def is_normalized(self) -> bool:
        """Whether the fitted density integrates to one."""
        check_is_fitted(self)
        return self.density_.is_normalized

    def score_samples(self, X: Any) -> Any:
        """Return the log density at every row of ``X``.

        Parameters
        ----------
        X : dask array, dask DataFrame, str, path or array-like of shape (n_samples, n_features)

        Returns
        -------
        dask array or Series, or ndarray, of shape (n_samples,)
            Lazy, and partitioned as ``X`` is; at once for an array-like.
        """
        check_is_fitted(self)
        return self.density_.logpdf(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log density of the rows of ``X``, which are not gathered.

        Parameters
        ----------
        X : dask array, dask DataFrame, str, path or array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        return self.density_.mean_logpdf(X)

    def predict(self, X: Any) -> Any:
        """Return the cluster of every row of ``X``, as in the fit, -1 being noise.

        Parameters
        ----------
        X : dask array, dask DataFrame, str, path or array-like of shape (n_samples, n_features)

        Returns
        -------
        dask array or Series, or ndarray, of shape (n_samples,)
            Lazy, and partitioned as ``X`` is; at once for an array-like.
        """
        check_is_fitted(self)
        queries = self.density_.check_queries(X)
        labels = queries.answers(queries.each(_labels, self._assignment), "cluster", np.int64)
        return labels if is_lazy(X) else labels.compute()

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw independent samples from the fitted density.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            With None the draws differ from call to call. The draws of a seed do not depend on how
            rows are partitioned; those from kernels on all rows depend on the order of the rows.

        Returns
        -------
        dask array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.density_.sample(n_samples, random_state)


def _labels(X: np.ndarray, assignment: Assignment) -> np.ndarray:
    return assignment.labels(X)
