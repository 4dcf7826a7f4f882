"""The value that most estimators fit: a mixture of Gaussian kernels.

The class documents every question and checks its arguments. The answers are computed by functions
of :class:`~sevenhills.density.sums.Kernels`, a plain tuple of arrays, in the question's module.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from html import escape
from itertools import pairwise
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np

from ..drawing import pictures
from ..estimate import Estimate, mean_with_error
from ..texts import counted, html_table
from ..validation import (
    FILL_MISSING,
    IGNORE_MISSING,
    check_choice,
    check_confidence,
    check_count,
    check_log_dets,
    check_not_negative,
    check_numbers,
    check_offsets,
    check_positive,
    check_queries,
    random_generator,
)
from . import compression, conditioning, mapped, probabilities, torch_export
from .bootstrap import Bootstrap, Reach
from .compression import Compression
from .conditionals import Conditionals
from .derivatives import LogSurface
from .engines import TOLERANCE, KernelSums
from .maps import AnyMap, CircleMap, FeatureMap, Maps, map_columns
from .modes import ModeTable, find_highest_mode, find_modes, label_shares
from .moments import mapped_covariance, mapped_mean
from .output import LIBRARIES, column_names, index_of, library_of, to_frame, to_named
from .preimages import Chart, Preimages, narrowed
from .regions import Density, check_dimension
from .sums import (
    KernelDistances,
    Kernels,
    LogSums,
    covariances,
    log_product_integral,
    log_squares_of,
    sums_at,
)

#: Weights may differ from a sum of one by this.
_ROUNDING = 1e-9
#: Draws from each of two densities, by which the integral of their product is estimated.
_PRODUCT_DRAWS = 10_000
#: The features and the clusters that are listed in notebooks, and the means of a cluster.
_MAX_LISTED, _MAX_MEANS = 12, 4
#: The draws that give the moments of mapped features in notebooks.
_N_LISTED_DRAWS = 2000


def _empty() -> np.ndarray:
    return np.empty(0)


@dataclass(frozen=True, eq=False, repr=False)
class KernelMixture(Density):
    r"""A density that is a weighted sum of Gaussian kernels.

    .. math:: p(x) = \sum_k w_k \, N(x; \mu_k, \Sigma_{g(k)}), \qquad
              \Sigma_g^{-1} = T_g T_g^\top

    The kernels of a group are contiguous and share the transform :math:`T_g`, which maps them to
    Gaussians of unit covariance. The value is immutable: its arrays are read-only copies. To build
    a mixture from covariances, use :meth:`from_covariances`.

    Three arguments of methods are always the same: ``X`` is array-like of shape (n_samples,
    n_features), ``n_jobs`` is the number of threads, and ``random_state`` is an int, a generator
    of numpy or None, which means other draws in every call.

    Parameters
    ----------
    weights : array-like of shape (n_kernels,)
        Not negative, adding up to one.
    means : array-like of shape (n_kernels, n_features)
        The means of the kernels.
    offsets : array-like of shape (n_groups + 1,)
        Group ``g`` consists of the kernels ``offsets[g]`` to ``offsets[g + 1] - 1``.
    transforms : array-like of shape (n_groups, n_features, n_features)
        The map of every group to unit Gaussians, from the right: ``(x - mean) @ transform``.
    log_dets : array-like of shape (n_groups,), optional
        The logarithms of the transforms' absolute determinants; computed if not given.
    log_weights : array-like of shape (n_kernels,), optional
        The logarithms of the weights, finite even where a weight underflows.
    clusters : array-like of shape (n_groups,), optional
        The label of the cluster of every group, -1 for noise; one cluster by default.
    counts : array-like of shape (n_kernels,), optional
        The number of samples that every kernel stands for, if the density was made from samples.
    feature_names : sequence of str, optional
        The names of the features.
    maps : sequence of :class:`~sevenhills.density.FeatureMap`, optional
        The map of every feature to latent coordinates :math:`z`, in which the kernels are then
        given: :math:`p(x) = \sum_z |\det dz/dx| \sum_k w_k N(z; \mu_k, \Sigma_{g(k)})` over the
        latent coordinates of :math:`x`. The density is zero outside of the bounds of the maps.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> hills = KernelMixture.from_covariances([0.5, 0.5], [[-1.0], [1.0]], [[0.25]])
    >>> hills.pdf([[0.0], [1.0]]).round(4)
    array([0.108 , 0.3991])
    >>> hills.sample(3, random_state=0).shape
    (3, 1)
    """

    weights: np.ndarray
    means: np.ndarray
    offsets: np.ndarray
    transforms: np.ndarray
    log_dets: np.ndarray = field(default_factory=_empty)
    log_weights: np.ndarray = field(default_factory=_empty)
    clusters: np.ndarray = field(default_factory=_empty)
    counts: np.ndarray | None = None
    feature_names: Sequence[str] | None = None
    maps: Maps | None = None
    #: The library of the frames that ``sample``, ``mean`` and ``mode`` return; None for arrays.
    output: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        for name in ("weights", "means", "offsets", "transforms"):
            dtype = np.int64 if name == "offsets" else np.float64
            self._set(name, np.array(getattr(self, name), dtype=dtype, order="C"))
        _check_shapes(self)
        self._set("log_dets", _checked_log_dets(self, self.log_dets))
        self._set("log_weights", _checked_log_weights(self, self.log_weights))
        self._set("clusters", _checked_clusters(self, self.clusters))
        self._set("counts", _checked_counts(self, self.counts))
        self._set("feature_names", _checked_names(self, self.feature_names))
        self._set("maps", _checked_maps(self, self.maps))
        if self.maps is not None:
            for name, value in narrowed(self.maps, self.kernels)._asdict().items():
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(self, name, value)

    @classmethod
    def _unchecked(cls, **fields: Any) -> Self:
        """Build a mixture from its fields, without validation or copying; maps are optional."""
        made = object.__new__(cls)
        vars(made).update({"maps": None} | fields)
        for value in fields.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        return made

    def _replace(self, **changes: Any) -> Self:
        """Replace some fields, without validation or copying."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        return self._unchecked(**{**kept, **changes}).with_output(self.output)

    def with_output(self, library: str | None) -> Self:
        """Return the same density with results as frames of a library, None for arrays.

        ``mean`` and ``mode`` are then a Series of pandas or a frame of one row of polars, and
        ``sample`` is a frame; so are those of marginals and conditionals. An estimator that is
        fitted to a frame returns such densities.

        Parameters
        ----------
        library : {"pandas", "polars", None}

        Examples
        --------
        >>> plane = KernelMixture.from_covariances(
        ...     [1.0], [[1.0, 2.0]], np.eye(2), feature_names=["a", "b"]
        ... )
        >>> plane.with_output("pandas").mean()
        a    1.0
        b    2.0
        dtype: float64
        """
        if library == self.output:
            return self
        check_choice(library, "library", (*LIBRARIES, None))
        made = object.__new__(type(self))
        vars(made).update({**vars(self), "output": library})  # with all that is prepared
        return made

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_features={self.n_features}, n_kernels={self.n_kernels}, "
            f"n_groups={self.n_groups})"
        )

    def _repr_html_(self) -> str:
        """Return a small picture and tables of features and clusters, for notebooks."""
        try:
            table = self._html_table()
        except Exception:  # a display must not fail
            table = f"<pre>{escape(repr(self))}</pre>"
        return self._small_picture() + table

    def _html_table(self) -> str:
        """Return the moments of the first features, and those of the first clusters, as HTML."""
        n_listed = min(self.n_features, _MAX_LISTED)
        names = self.feature_names or [f"feature {j}" for j in range(self.n_features)]
        labels, of_group = np.unique(self.clusters, return_inverse=True)
        title = (
            f"Density of {counted(self.n_features, 'feature')}, a mixture of "
            f"{counted(self.n_kernels, 'kernel')} in {counted(len(labels), 'cluster')}"
        )
        if n_listed < self.n_features:
            title += f"; the first {n_listed} features"
        if self.maps is not None:  # exact integrals take seconds
            title += f"; moments of {_N_LISTED_DRAWS:,} draws"
        means, stds = self._listed_moments()
        rows = [(names[j], f"{means[j]:.4g}", f"{stds[j]:.4g}") for j in range(n_listed)]
        table = html_table(f"{title}.", ("feature", "mean", "std"), rows)
        if len(labels) == 1:
            return table
        label_of_kernel = of_group[self.kernels.group_of_kernel]
        centers = self.unrolled(self._values(self.means))[:, :_MAX_MEANS]
        listed: list[Sequence[str]] = []
        for i, label in enumerate(labels[:_MAX_LISTED]):
            is_own = label_of_kernel == i
            share = self.weights[is_own].sum()
            means = self.weights[is_own] @ centers[is_own] / max(share, np.finfo(float).tiny)
            cells = (f"{share:.1%}", f"{is_own.sum():,}", *(f"{each:.4g}" for each in means))
            listed.append(("noise" if label < 0 else str(label), *cells))
        title = "Clusters, and the means of their kernels."
        headings = ("cluster", "share", "kernels", *names[:_MAX_MEANS])
        return table + html_table(title, headings, listed)

    def _listed_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations, those of mapped features from draws."""
        if self.maps is None:
            return (mean := self._mean()), np.sqrt(self._variances(mean))
        drawn = self.with_output(None).sample(_N_LISTED_DRAWS, random_state=0)
        drawn = self.unrolled(drawn)
        return drawn.mean(axis=0), drawn.std(axis=0)

    def _variances(self, mean: np.ndarray) -> np.ndarray:
        """Return the variances of features without maps, which need no covariance."""
        within = np.square(np.linalg.inv(self.transforms)).sum(axis=1)
        of_group = np.add.reduceat(self.weights, self.offsets[:-1])
        return np.asarray(of_group @ within + self.weights @ (self.means - mean) ** 2)

    def _small_picture(self) -> str:
        """Return a small picture as HTML; empty without matplotlib."""
        return str(pictures().small_picture(self))

    def plot(self, X: Any = None, ax: Any = None) -> Any:
        """Draw the picture that suits the number of features. Needs the extra ``plot``.

        One feature is a line, over a histogram of the data. Two features are highest-density
        regions with the modes, over the data. Three to six features are a corner plot, as drawn by
        :func:`~sevenhills.plotting.plot_corner`; of more features, it has the six in which
        clusters differ most, or which have the largest spread if there is one cluster, and its
        title says so.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), optional
            Data to draw below the density.
        ax : matplotlib axes, optional
            By default the current axes, and a new figure for a corner plot.

        Returns
        -------
        matplotlib axes

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sevenhills import ROME, datasets
        >>> X = datasets.load("aniso").sample(500, random_state=0)
        >>> ROME().fit(X).plot(X, Figure().subplots()).get_title()
        'regions of 95%, 80%, 50%'
        """
        return pictures().draw_overview(self.with_output(None), X, ax)

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        return int(self.means.shape[1])

    @property
    def n_kernels(self) -> int:
        """The number of kernels."""
        return int(self.means.shape[0])

    @property
    def n_groups(self) -> int:
        """The number of groups that share a covariance."""
        return len(self.offsets) - 1

    @property
    def kernels(self) -> Kernels:
        """The kernels as a tuple of arrays."""
        return Kernels(self.log_weights, self.means, self.offsets, self.transforms, self.log_dets)

    # Structures that are prepared once; pickles and copies leave them out.

    @cached_property
    def _latent(self) -> Self:
        """The density of the latent coordinates."""
        return self if self.maps is None else self._replace(maps=None)

    @cached_property
    def _chart(self) -> Chart:
        """The maps, prepared for the kernels."""
        identity = (FeatureMap(),) * self.n_features
        return Chart(self.maps or identity, self.kernels)

    @cached_property
    def _sums(self) -> KernelSums:
        """Sums of the kernels at latent coordinates."""
        return KernelSums(self.kernels)

    @cached_property
    def _unfolded(self) -> tuple[KernelSums, float] | None:
        """Sums of kernels and their images, and the log density above which no others matter."""
        found = self._chart.unfolded()
        return None if found is None else (KernelSums(found[0]), found[1])

    @cached_property
    def _surface(self) -> LogSurface:
        """The derivatives of the log density."""
        return LogSurface(self.kernels)

    @cached_property
    def _sample_counts(self) -> np.ndarray:
        """The number of samples that every kernel stands for, by default one."""
        if self.counts is None:
            return np.ones(self.n_kernels)
        # Kernels whose weight underflows stand for a positive number, too.
        return np.maximum(self.counts, np.finfo(np.float64).tiny)

    @cached_property
    def _log_squares(self) -> LogSums:
        """Sums of the squared kernels, each divided by its number of samples."""
        return log_squares_of(self.kernels, self._sample_counts)

    @cached_property
    def _reach(self) -> Reach:
        """The region in which the samples support the density."""
        return Reach.from_kernels(self.kernels, self._sample_counts)

    @cached_property
    def _normals(self) -> probabilities.Normals:
        """The kernels of a density of one feature."""
        return probabilities.Normals.from_kernels(self.weights, self.kernels)

    @cached_property
    def _modes(self) -> dict[str, ModeTable]:
        """The modes of the default significance, once they are found."""
        return {}

    @cached_property
    def frame(self) -> np.ndarray:
        """The limits (2, n_features) of the features, infinite where there are none.

        Those of a feature on a circle are one turn, from a value with a low density.

        Examples
        --------
        >>> from sevenhills.density import CircleMap
        >>> KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]], maps=[CircleMap(0.0, 24.0)]).frame
        array([[12.],
               [36.]])
        """
        if self.maps is None:
            return super().frame
        limits = np.array([each.bounds for each in self.maps]).T
        for j, each in enumerate(self.maps):
            if isinstance(each, CircleMap):
                limits[:, j] = mapped.turn(each, self.marginal([j])._logpdf)
        return limits

    def framed_like(self, other: "KernelMixture") -> Self:
        """Return the same density with the turns of circles of another one."""
        pairs = zip(self._chart.maps, other._chart.maps, strict=True)
        same = [isinstance(one, CircleMap) and isinstance(two, CircleMap) for one, two in pairs]
        made = self._replace()
        vars(made)["frame"] = np.where(same, other.frame, self.frame)
        return made

    def unrolled(self, X: np.ndarray) -> np.ndarray:
        """Return points with features on circles moved to the turn of the :attr:`frame`."""
        return X if self.maps is None else map_columns(self._framed_circles, "inverse", X)

    def latent_view(self) -> tuple[Callable[[np.ndarray], np.ndarray], Self | None]:
        """Return a function from points to latent coordinates, and the density of these.

        The density is None if a value has several latent coordinates; they are then the values.
        """
        if self._chart.folding:
            return self.unrolled, None
        return lambda X: self._chart.latent(self._chart.clip(X))[0], self._latent

    @cached_property
    def _framed_circles(self) -> list[FeatureMap]:
        """Circles that begin at the frame, and the identity for other features."""
        pairs = zip(self._chart.maps, self.frame[0], strict=True)
        return [
            replace(each, low=low) if isinstance(each, CircleMap) else FeatureMap()
            for each, low in pairs
        ]

    def _check(self, X: Any, missing: bool = False, remedy: str = "") -> np.ndarray:
        names = self.feature_names
        return check_queries(X, self.n_features, names, missing=missing, remedy=remedy)

    def _validate(self) -> None:
        """Raise an error unless the determinants are right, as those of a file might not be."""
        check_log_dets(self.log_dets, self.transforms)
        if (self.clusters < -1).any():
            raise ValueError("clusters must not be below -1, the label of noise")

    # Other ways to build a mixture

    @classmethod
    def from_covariances(
        cls,
        weights: Any,
        means: Any,
        covariances: Any,
        *,
        clusters: Any = None,
        counts: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Build a mixture from the means and covariances of its kernels.

        Parameters
        ----------
        weights : array-like of shape (n_kernels,)
            Not negative, adding up to one.
        means : array-like of shape (n_kernels, n_features)
        covariances : array-like of shape (n_features, n_features) or \
                (n_kernels, n_features, n_features)
            One covariance for all kernels, or one for each.
        clusters, counts, feature_names : optional
            As for :class:`KernelMixture`; clusters only if each kernel has its own covariance.

        Examples
        --------
        >>> KernelMixture.from_covariances([0.3, 0.7], [[0.0], [9.0]], [[1.0]])
        KernelMixture(n_features=1, n_kernels=2, n_groups=1)
        """
        means = check_numbers(means, "means")
        transforms = _transforms(check_numbers(covariances, "covariances"), means)
        offsets = [0, len(means)] if len(transforms) == 1 else np.arange(len(means) + 1)
        return cls(
            weights=weights,
            means=means,
            offsets=np.asarray(offsets),
            transforms=transforms,
            clusters=clusters,
            counts=counts,
            feature_names=feature_names,
        )

    @classmethod
    def merge(cls, mixtures: Sequence[Self], weights: Any) -> Self:
        r"""Return the weighted sum of densities of the same features, :math:`\sum_m v_m p_m`.

        The weights are not negative and add up to one. Clusters of different densities stay
        different, and are renumbered.

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> both = KernelMixture.merge([unit, unit.affine([[2.0]], [1.0])], [0.5, 0.5])
        >>> both.n_kernels
        2
        """
        if not mixtures:
            raise ValueError("mixtures and weights must not be empty")
        shares = check_numbers(weights, "weights")
        _check_array(shares, "weights", (len(mixtures),))
        _check_same_features(mixtures)
        sizes = np.concatenate([np.diff(each.offsets) for each in mixtures])
        pairs = list(zip(shares, mixtures, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):  # the constructor checks the signs
            log_weights = [np.log(share) + each.log_weights for share, each in pairs]
        return cls(
            weights=np.concatenate([share * each.weights for share, each in pairs]),
            means=np.concatenate([each.means for each in mixtures]),
            offsets=np.append(0, np.cumsum(sizes)),
            transforms=np.concatenate([each.transforms for each in mixtures]),
            log_dets=np.concatenate([each.log_dets for each in mixtures]),
            log_weights=np.concatenate(log_weights),
            clusters=_renumbered([each.clusters for each in mixtures]),
            counts=_joint_counts([each.counts for each in mixtures]),
            feature_names=mixtures[0].feature_names,
            maps=mixtures[0].maps,
        )

    def component(self, label: int) -> Self:
        """Return one of the ``clusters`` as a density, its weights divided by their sum.

        Examples
        --------
        >>> hills = KernelMixture.from_covariances(
        ...     [0.3, 0.7], [[0.0], [9.0]], [[[1.0]], [[1.0]]], clusters=[0, 1]
        ... )
        >>> hills.component(1).mean()
        array([9.])
        """
        is_chosen = self.clusters == label
        if not is_chosen.any():
            known = np.unique(self.clusters).tolist()
            raise ValueError(f"label must be one of the clusters {known}, got {label!r}")
        rows = np.repeat(is_chosen, np.diff(self.offsets))
        weights, kernels = self.weights[rows], self.kernels.select(rows)
        made = replace(
            self,
            weights=weights / weights.sum(),
            **kernels._replace(log_weights=_empty())._asdict(),
            clusters=self.clusters[is_chosen],
            counts=None if self.counts is None else self.counts[rows],
        )
        return made.with_output(self.output)

    # Values and draws

    def logpdf(
        self,
        X: Any,
        n_jobs: int | None = None,
        missing: str = "raise",
        tol: float | None = None,
    ) -> np.ndarray:
        """Return the logarithm (n_samples,) of the density at every row of ``X``.

        The value is minus infinity where the logarithm overflows.

        Parameters
        ----------
        X, n_jobs : as in all methods
        missing : {"raise", "marginal"}, default="raise"
            Whether to refuse NaN, or to return the marginal density of the present features. A row
            that is all NaN gets log density 0.
        tol : float, optional
            The largest error of the logarithm, rounding aside, 1e-8 by default, in the far tails,
            too. Up to 2**25 pairs of rows and kernels are summed directly, without this error.

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], np.eye(2))
        >>> unit.logpdf([[0.0, 0.0], [0.0, np.nan]], missing="marginal").round(4)
        array([-1.8379, -0.9189])
        """
        check_choice(missing, "missing", ("raise", "marginal"))
        tol = TOLERANCE if tol is None else check_positive(tol, "tol")
        if missing == "raise":
            return self._logpdf(self._check(X, remedy=IGNORE_MISSING), n_jobs, tol)
        X = self._check(X, missing=True)
        out = np.zeros(len(X))
        for present, rows in conditioning.missing_patterns(X):
            if len(present) == self.n_features:
                out[rows] = self._logpdf(X[rows], n_jobs, tol)
            elif len(present):
                values = X[np.ix_(rows, present)]
                out[rows] = self.marginal(present)._logpdf(values, n_jobs, tol)
        return out

    def _logpdf(
        self, X: np.ndarray, n_jobs: int | None = None, tol: float = TOLERANCE
    ) -> np.ndarray:
        """Return the log density at checked points."""
        if self.maps is None:
            return self._log_q(X, n_jobs, tol)
        if self._unfolded is None:
            return self._answers(X, n_jobs, Preimages.log_densities, tol)
        out, inside = np.full(len(X), -np.inf), np.flatnonzero(self._chart.contains(X))
        Z, log_slopes = self._chart.latent(X[inside])
        sums, least = self._unfolded
        found = sums.log_density(Z, n_jobs, tol)
        out[inside] = found + log_slopes
        # Where images that were left out may matter, points have images instead of the kernels.
        low = inside[~(found > least)]
        if len(low):
            out[low] = self._answers(X[low], n_jobs, Preimages.log_densities, tol)
        return out

    def _answers(
        self,
        X: np.ndarray,
        n_jobs: int | None,
        answer: Callable[[Preimages], np.ndarray],
        tol: float = TOLERANCE,
    ) -> np.ndarray:
        """Return answers for the latent coordinates of checked points."""
        return self._chart.answers(X, partial(self._log_q, n_jobs=n_jobs, tol=tol), answer)

    def _log_q(self, X: np.ndarray, n_jobs: int | None, tol: float = TOLERANCE) -> np.ndarray:
        """Return the log density of latent coordinates."""
        return self._sums.log_density(X, n_jobs, tol)

    @cached_property
    def _distances(self) -> KernelDistances:
        """The distances of latent coordinates to every kernel."""
        return KernelDistances.from_kernels(self.kernels)

    def _log_kernels(self, X: np.ndarray) -> np.ndarray:
        """Return the log densities (n_samples, n_kernels) of all kernels at checked points."""
        if self.maps is None:
            return self._distances.log_kernels(X)

        def log_kernels(found: Preimages) -> np.ndarray:
            logs = self._distances.log_kernels(found.Z) + found.log_slopes[:, None]
            return found.spread(found.log_sums(logs), -np.inf)

        return self._answers(X, None, log_kernels)

    def _latent_points(
        self, X: np.ndarray, log_densities: np.ndarray, n_jobs: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable latent coordinates of checked points, and the log densities."""
        if self.maps is None:
            return X, log_densities
        Z = self._answers(self._chart.clip(X), n_jobs, Preimages.best)
        return Z, self._log_q(Z, n_jobs)

    def grad_logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return the gradient of the log density, the score function, at every row of ``X``.

        .. math:: \nabla \log p(x) = \sum_k r_k(x) \, \Sigma_{g(k)}^{-1} (\mu_k - x)

        where :math:`r_k(x)` is the share of kernel :math:`k` in the density at :math:`x`. The
        gradient (n_samples, n_features) is exact in the far tails, too. Where the logarithm of the
        density overflows, the gradient is that of the nearest kernel, as long as that is finite.

        Examples
        --------
        >>> kernel = KernelMixture.from_covariances([1.0], [[1.0, 2.0]], [[1.0, 0.0], [0.0, 0.25]])
        >>> kernel.grad_logpdf([[0.0, 0.0]])
        array([[1., 8.]])
        """
        X = self._check(X)
        if self.maps is None:
            return self._surface.slopes(X, n_jobs).gradients
        return self._answers(X, n_jobs, partial(mapped.gradients, self.maps, self._surface, n_jobs))

    def hess_logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return the Hessian matrix of the log density at every row of ``X``.

        .. math:: \nabla^2 \log p(x) = \sum_k r_k(x) \bigl((v_k - \bar v)(v_k - \bar v)^\top
                  - \Sigma_{g(k)}^{-1}\bigr), \qquad
                  v_k = \Sigma_{g(k)}^{-1} (\mu_k - x), \quad \bar v = \nabla \log p(x)

        The matrices (n_samples, n_features, n_features) are symmetric, and as exact in the far
        tails as the gradient.

        Examples
        --------
        >>> KernelMixture.from_covariances([1.0], [[1.0]], [[0.25]]).hess_logpdf([[0.0]])
        array([[[-4.]]])
        """
        X = self._check(X)
        if self.maps is None:
            return self._surface.curvatures(X, n_jobs).hessians
        return self._answers(X, n_jobs, partial(mapped.hessians, self.maps, self._surface, n_jobs))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw independent samples, (n_samples, n_features); numpy's global generator is not used.

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> unit.sample(5, random_state=0).shape
        (5, 1)
        """
        n_samples = check_count(n_samples, "n_samples")
        drawn = self._values(_draw(self, n_samples, random_generator(random_state)))
        return to_frame(drawn, self.output, self.feature_names)

    def _values(self, Z: np.ndarray) -> np.ndarray:
        """Return the points of latent coordinates."""
        return Z if self.maps is None else map_columns(self.maps, "inverse", Z)

    # Moments

    def mean(self) -> Any:
        r"""Return the mean (n_features,) of the density, :math:`\sum_k w_k \mu_k`.

        The mean of a mapped feature is integrated numerically. That of a feature on a circle is
        the direction of the mean vector.

        Examples
        --------
        >>> KernelMixture.from_covariances([0.25, 0.75], [[0.0], [4.0]], [[1.0]]).mean()
        array([3.])
        """
        return to_named(self._mean(), self.output, self.feature_names)

    def _mean(self) -> np.ndarray:
        if self.maps is not None:
            return mapped_mean(self.maps, self.weights, self.kernels)
        # Measured from one of the means, so that a large offset does not cost digits.
        origin = self.means[np.argmax(self.weights)]
        return np.asarray(origin + self.weights @ (self.means - origin))

    def cov(self) -> np.ndarray:
        r"""Return the covariance (n_features, n_features) of the density.

        .. math:: \sum_k w_k \big(\Sigma_{g(k)} + (\mu_k - m)(\mu_k - m)^\top\big), \qquad
                  m = \sum_k w_k \mu_k

        Covariances of mapped features are integrated numerically. On a circle, the shorter way
        from the mean counts.

        Examples
        --------
        >>> KernelMixture.from_covariances([0.25, 0.75], [[0.0], [4.0]], [[1.0]]).cov()
        array([[4.]])
        """
        if self.maps is not None:
            return mapped_covariance(self.maps, self.weights, self.kernels, self._mean())
        deviations = self.means - self._mean()
        group_weights = np.add.reduceat(self.weights, self.offsets[:-1])
        within = np.tensordot(group_weights, covariances(self.transforms), axes=1)
        return np.asarray(within + (deviations * self.weights[:, None]).T @ deviations)

    def integrate_product(self, other: "KernelMixture", *, log: bool = False) -> float:
        r"""Return the integral of the product of two densities.

        .. math:: \int p(x) \, q(x) \, dx = \sum_k \sum_l w_k v_l \,
                  N(\mu_k; \nu_l, \Sigma_{g(k)} + \Pi_{h(l)})

        Distances follow from it: :math:`\int (p - q)^2 = \int p^2 - 2 \int p q + \int q^2`.
        With ``log``, the result is the logarithm, which does not underflow. If a density has maps,
        the integral is the mean of each density over 10,000 draws from the other, and the result
        has a standard error.

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> round(unit.integrate_product(unit), 4)  # 1 / sqrt(4 pi)
        0.2821
        """
        if not isinstance(other, KernelMixture):
            raise TypeError(f"other must be a KernelMixture, got {type(other).__name__}")
        if other.n_features != self.n_features:
            raise ValueError(
                f"other has {other.n_features} features, but this density has {self.n_features}"
            )
        if self.maps is not None or other.maps is not None:
            return _drawn_product(self, other, log)
        value = log_product_integral(self.kernels, other.kernels)
        return value if log else float(np.exp(value))

    # Marginals, conditionals and linear maps

    def marginal(self, features: Any) -> Self:
        r"""Return the marginal density of some features.

        .. math:: p(x_S) = \int p(x) \, dx_{\setminus S} = \sum_k w_k \, N(x_S; \mu_{k,S},
                  \Sigma_{g(k),SS})

        Parameters
        ----------
        features : int, str or sequence of them
            Indices, or names if the density has them; the result has this order of features.

        Examples
        --------
        >>> plane = KernelMixture.from_covariances(
        ...     [1.0], [[1.0, 2.0]], np.eye(2), feature_names=["a", "b"]
        ... )
        >>> plane.marginal("b").mean()
        array([2.])
        """
        kept = conditioning.feature_indices(features, self.n_features, self.feature_names)
        kernels, names = conditioning.marginal(self.kernels, kept), self._names
        if names is not None:
            names = tuple(names[i] for i in kept)
        return self._replace(**kernels._asdict(), feature_names=names, maps=self._maps_of(kept))

    @property
    def _names(self) -> Sequence[str] | None:
        """The names of the features; in frames, features without names are x0, x1, ..."""
        is_named = self.output is None or self.feature_names is not None
        return self.feature_names if is_named else column_names(None, self.n_features)

    def _maps_of(self, features: Any) -> Maps | None:
        """Return the maps of some features."""
        return None if self.maps is None else _no_identities([self.maps[j] for j in features])

    def conditional(self, given: Mapping[Any, Any]) -> Any:
        r"""Return the conditional density of the other features, given some.

        .. math:: p(x_R \mid x_S) = \frac{p(x_R, x_S)}{p(x_S)}

        The remaining features keep their order, and every kernel stays. The new weights are kept as
        logarithms, too, so that the result is exact however unlikely the given values are.

        Parameters
        ----------
        given : mapping from int or str to float or array-like of shape (n_rows,)
            The values of some features, by index, or by name if the density has names.

        Returns
        -------
        KernelMixture or :class:`~sevenhills.density.conditionals.Conditionals`
            One density, or those of all rows if a value is a column.

        Examples
        --------
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.5], [0.5, 1.0]])
        >>> plane.conditional({1: 3.0}).mean().round(6)
        array([1.5])
        >>> plane.conditional({1: [3.0, 1.0]}).mean().round(6)
        array([[1.5],
               [0.5]])
        """
        features, values = conditioning.given_values(given, self.n_features, self.feature_names)
        if values.ndim == 2:
            rows = self._conditionals(features, values, "given")
            indices = [index_of(each) for each in given.values()]
            rows.index = next((each for each in indices if each is not None), None)
            return rows
        found = self._conditional(features, values)
        if found is None:
            named = dict(zip(given, values.tolist(), strict=True))
            raise ValueError(f"given: the density is zero at {named}, even as a logarithm")
        return found

    def _conditional(self, features: np.ndarray, values: np.ndarray) -> Self | None:
        """Return the conditional density given values; None if their density is zero."""
        rows, counts = values[None], self.counts
        if self.maps is not None:
            rows = self.marginal(features)._answers(rows, None, attrgetter("Z"))
        found = conditioning.conditional(self.kernels, features, rows) if len(rows) else None
        if found is None:
            return None
        weights, kernels = found
        names = self._names
        if names is not None:
            names = tuple(np.delete(names, features).tolist())
        if counts is not None and len(rows) > 1:
            counts = _shared_counts(counts, kernels.log_weights)
        return self._replace(
            weights=weights,
            **kernels._asdict(),
            clusters=np.tile(self.clusters, len(rows)),
            counts=counts,
            feature_names=names,
            maps=self._maps_of(np.delete(np.arange(self.n_features), features)),
        )

    def _conditionals(
        self, features: np.ndarray, values: np.ndarray, name: str, rows: Any = None
    ) -> Conditionals:
        """Return the conditional densities given values of an argument, in rows of it."""
        found = Conditionals(self, features, values)
        impossible = np.flatnonzero(np.isneginf(found.log_given))
        if len(impossible):
            row = impossible[0] if rows is None else rows[impossible[0]]
            chart = self.marginal(features)._chart
            if not chart.contains(values[impossible[:1]])[0]:
                raise ValueError(f"{name}: row {row} has a value outside of the support")
            raise ValueError(
                f"{name}: the density of the present values in row {row} is zero, even as a "
                "logarithm"
            )
        return found

    def affine(self, matrix: Any, shift: Any) -> Self:
        r"""Return the density of :math:`x A + b` for :math:`x` from this density.

        The ``matrix`` :math:`A` (n_features, n_features) must be regular. If :math:`A` is diagonal,
        features keep their names. Features with maps cannot be mixed with others.

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> wide = unit.affine([[3.0]], [5.0])
        >>> wide.mean(), wide.cov().round(6)
        (array([5.]), array([[9.]]))
        """
        matrix, shift = _checked_map(matrix, shift, self.n_features)
        maps = self.maps
        if maps is not None:
            maps, shift = _affine_maps(maps, matrix, shift)
        is_diagonal = np.array_equal(matrix, np.diag(np.diag(matrix)))
        made = replace(
            self,
            means=self.means @ matrix + shift,
            transforms=np.linalg.solve(matrix, self.transforms),
            log_dets=self.log_dets - np.linalg.slogdet(matrix)[1],
            log_weights=_empty(),
            feature_names=self.feature_names if is_diagonal else None,
            maps=maps,
        )
        # Those of a conditional density may be rounded too much to be checked.
        return made._replace(log_weights=self.log_weights).with_output(self.output)

    def impute(self, X: Any, method: str = "mean", random_state: Any = None) -> Any:
        r"""Return a copy of ``X`` with NaN replaced by values from the conditional density.

        The copy of a data frame is a data frame, with the same index and columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With NaN where a value is missing.
        method : {"mean", "mode", "sample"}, default="mean"
            The mean of :math:`p(x_R \mid x_S)` given the present values, its highest mode, or a
            draw.
        random_state : int, RandomState instance or None
            For draws.

        Examples
        --------
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.5], [0.5, 1.0]])
        >>> plane.impute([[np.nan, 3.0], [1.0, 2.0]]).round(6)
        array([[1.5, 3. ],
               [1. , 2. ]])
        """
        check_choice(method, "method", ("mean", "mode", "sample"))
        rng, given = random_generator(random_state), X
        X = np.array(self._check(X, missing=True))
        for present, rows in conditioning.missing_patterns(X):
            absent = np.setdiff1d(np.arange(self.n_features), present)
            if len(absent) == 0:
                continue
            X[np.ix_(rows, absent)] = self._imputed(X[rows], present, rows, method, rng)
        return to_frame(X, library_of(given), getattr(given, "columns", None), index_of(given))

    def _imputed(
        self,
        X: np.ndarray,
        present: np.ndarray,
        rows: np.ndarray,
        method: str,
        rng: np.random.RandomState,
    ) -> np.ndarray:
        """Return the other features of rows of which the same features are present."""
        if len(present) == 0:
            if method == "sample":
                return np.asarray(self.sample(len(X), rng))
            return np.tile(self._mean() if method == "mean" else self._mode(), (len(X), 1))
        found = self._conditionals(present, X[:, present], "X", rows)
        if method == "sample":
            return found.sample(1, rng)[:, 0]
        return np.asarray(found.mean() if method == "mean" else found.mode())

    # One feature, and boxes

    def cdf(self, x: Any, n_jobs: int | None = None) -> Any:
        r"""Return the distribution function of one feature, relatively exact in the lower tail.

        .. math:: P(x) = \sum_k w_k \, \Phi\Big(\frac{x - \mu_k}{\sigma_{g(k)}}\Big)

        On a circle, it begins at the least value of samples.

        Parameters
        ----------
        x : float or array-like of shape (n,) or (n, 1)
            Infinite values are allowed. The result has the shape of ``x``.
        n_jobs : int, optional

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> unit.cdf([-1.0, 0.0, 1.0]).round(4)
        array([0.1587, 0.5   , 0.8413])
        """
        return self._tails(x, "cdf", n_jobs)

    def sf(self, x: Any, n_jobs: int | None = None) -> Any:
        """Return one minus :meth:`cdf`, relatively exact in the upper tail, for one feature.

        Arguments and result are those of :meth:`cdf`.

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> print(f"{unit.sf(20.0):.3g}")
        2.75e-89
        """
        return self._tails(x, "sf", n_jobs)

    def ppf(self, q: Any, n_jobs: int | None = None) -> Any:
        """Return quantiles, the inverse of :meth:`cdf`, of a density of one feature.

        Parameters
        ----------
        q : float or array-like of shape (n,) or (n, 1)
            Probabilities, from 0 to 1; at the ends the quantiles are infinite, or bounds of the
            support. The result has the shape of ``q``.
        n_jobs : int, optional

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> unit.ppf([0.025, 0.5, 0.975]).round(2)
        array([-1.96,  0.  ,  1.96])
        """
        return self._quantiles(q, "ppf", n_jobs)

    def isf(self, q: Any, n_jobs: int | None = None) -> Any:
        """Return upper quantiles, the inverse of :meth:`sf`, of a density of one feature.

        It is ``ppf(1 - q)``, but relatively exact in the upper tail. Arguments and result are those
        of :meth:`ppf`.

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> round(unit.isf(1e-50), 4)
        14.9333
        """
        return self._quantiles(q, "isf", n_jobs)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the central interval of one feature that has the probability ``confidence``.

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> np.round(unit.interval(0.95), 2)
        array([-1.96,  1.96])
        """
        self._one_feature("interval")
        tail = (1.0 - check_confidence(confidence)) / 2
        return self.ppf(tail), self.isf(tail)

    def _one_feature(self, question: str) -> probabilities.Normals:
        remedy = "marginal(feature) first, or use probability(lower, upper) for a box"
        check_dimension(self, 1, question, remedy)
        return self._normals

    def _tails(self, x: Any, question: str, n_jobs: int | None) -> Any:
        normals, is_upper = self._one_feature(question), question == "sf"
        if self.maps is None:
            tails = partial(probabilities.sf if is_upper else probabilities.cdf, normals, n_jobs)
        else:
            tails = partial(mapped.tails, self._chart, normals, n_jobs, is_upper)
        return probabilities.map_values(tails, x, "x")

    def _quantiles(self, q: Any, question: str, n_jobs: int | None) -> Any:
        self._one_feature(question)
        probabilities.check_probabilities(q)
        is_upper = question == "isf"
        return probabilities.map_values(partial(self._solved, n_jobs, is_upper), q, "q")

    def _solved(self, n_jobs: int | None, is_upper: bool, q: np.ndarray) -> np.ndarray:
        """Return quantiles of one feature."""
        if self.maps is not None and self.maps[0].is_folding:
            logpdf = partial(self._logpdf, n_jobs=n_jobs)
            return mapped.quantiles(self._chart, self._normals, logpdf, n_jobs, is_upper, q)
        log_q = partial(self._log_q, n_jobs=n_jobs)
        out = probabilities.quantiles(self._normals, log_q, n_jobs, is_upper, q)
        if self.maps is not None:
            low, high = self.maps[0].bounds
            finite = np.isfinite(out)
            out[finite] = self.maps[0].inverse(out[finite])
            out[~finite] = np.where(out[~finite] < 0, low, high)
        return out

    def probability(
        self, lower: Any, upper: Any = None, *, n_draws: int = 2**14, random_state: Any = 0
    ) -> Estimate:
        r"""Return the probability of a box whose sides are parallel to the axes.

        .. math:: P(a \le x \le b) = \sum_k w_k \int_a^b N(x; \mu_k, \Sigma_{g(k)}) \, dx

        The probability is exact, and the ``std_error`` of the result zero, for one or two bounded
        features and for kernels whose features are independent. Other kernels are integrated one
        feature after another, each conditional on those before, at quasi-random points [1]_.

        Parameters
        ----------
        lower : array-like of shape (n_features,) or mapping
            The lower bounds, minus infinity where there is none; or a mapping from the bounded
            features, by index or by name, to pairs ``(lower, upper)``.
        upper : array-like of shape (n_features,), optional
            The upper bounds, infinity where there is none; not with a mapping.
        n_draws : int, default=16384
            The number of quasi-random points, rounded up to sixteen times a power of two.
        random_state : int, RandomState instance or None
            Shifts the quasi-random points.

        References
        ----------
        .. [1] A. Genz: Numerical computation of multivariate normal probabilities. Journal of
           Computational and Graphical Statistics, 1992.

        Examples
        --------
        >>> plane = KernelMixture.from_covariances(
        ...     [1.0], [[0.0, 0.0]], np.eye(2), feature_names=["a", "b"]
        ... )
        >>> round(plane.probability([0.0, 0.0], [np.inf, np.inf]), 6)
        0.25
        >>> round(plane.probability({"b": (-1.0, 1.0)}), 4)
        0.6827
        """
        box = probabilities.check_box(lower, upper, self.n_features, self.feature_names)
        n_draws = check_count(n_draws, "n_draws", least=1)
        rng = random_generator(random_state)
        boxes = [box] if self.maps is None else self._chart.boxes(box)
        found = [
            probabilities.box_probability(self.weights, self.kernels, each, n_draws, rng)
            for each in boxes
        ]
        return found[0] if len(found) == 1 else _total(found)

    # Modes and clusters

    def modes(self, significance: float = 1.25, n_jobs: int | None = None) -> ModeTable:
        r"""Return the significant modes of the density.

        A density made from samples has maxima by chance. A maximum counts as a mode if its peak has
        more samples above the highest saddle to another peak than chance would put there; the page
        on theory has the test. All maxima of a density that was not made from samples are modes. A
        maximum where three or more kernels overlap can be missed.

        Parameters
        ----------
        significance : float, default=1.25
            The least excess of a peak, relative to that expected by chance; zero for all maxima.
            By default, a separate peak of one tenth of the samples counts from 5 samples on.
        n_jobs : int, optional

        Examples
        --------
        >>> hills = KernelMixture.from_covariances([0.3, 0.7], [[0.0], [9.0]], [[1.0]])
        >>> modes = hills.modes()
        >>> modes
        ModeTable(n_modes=2, shares=[70.0%, 30.0%])
        >>> modes.locations.round(6) + 0.0
        array([[9.],
               [0.]])
        """
        significance = check_not_negative(significance, "significance")
        found = find_modes(
            self.weights, self.kernels, self.clusters, self.counts, significance, n_jobs
        )
        if self.maps is not None:
            found = mapped.moved_modes(self, self._chart, found)
        return found.with_output(self.output, self._names)

    def mode(self, n_jobs: int | None = None) -> Any:
        """Return the location (n_features,) of the highest maximum of the density.

        Examples
        --------
        >>> hills = KernelMixture.from_covariances([0.3, 0.7], [[0.0], [9.0]], [[1.0]])
        >>> hills.mode().round(6)
        array([9.])
        """
        return to_named(self._mode(n_jobs), self.output, self.feature_names)

    def _mode(self, n_jobs: int | None = None) -> np.ndarray:
        if self.maps is None:
            return find_highest_mode(self.weights, self.kernels, n_jobs)
        return mapped.highest_mode(self, self._chart)

    def predict(self, X: Any, by: Any = "cluster", n_jobs: int | None = None) -> np.ndarray:
        """Return the most probable cluster or mode of every row of ``X``.

        Parameters
        ----------
        X, n_jobs : as in all methods
        by : {"cluster", "mode"} or ModeTable, default="cluster"
            The labels: those of the clusters, with noise as -1, or the indices of the modes of
            :meth:`modes`, or of the given modes.

        Examples
        --------
        >>> hills = KernelMixture.from_covariances([0.3, 0.7], [[0.0], [9.0]], [[1.0]])
        >>> hills.predict([[-1.0], [1e6]], by="mode")
        array([1, 0])
        """
        labels, shares = self._label_shares(X, by, n_jobs)
        return np.asarray(labels[shares.argmax(axis=1)])

    def predict_proba(self, X: Any, by: Any = "cluster", n_jobs: int | None = None) -> np.ndarray:
        r"""Return the probabilities (n_samples, n_labels) of all labels of :meth:`predict`.

        The probability of a label is the share of its kernels in the density:

        .. math:: P(j \mid x) = \sum_{k \in j} w_k \, N(x; \mu_k, \Sigma_{g(k)}) / p(x)

        The columns are ``np.unique(density.clusters)``, noise (-1) first, or the modes in the order
        of their table.

        Examples
        --------
        >>> hills = KernelMixture.from_covariances([0.3, 0.7], [[0.0], [9.0]], [[1.0]])
        >>> hills.predict_proba([[-1.0], [1e6]], by="mode").round(3)
        array([[0., 1.],
               [1., 0.]])
        """
        return self._label_shares(X, by, n_jobs)[1]

    def _label_shares(self, X: Any, by: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return all labels, and their shares in the density at every row of ``X``."""
        X, (labels, of_kernel) = self._check(X, remedy=FILL_MISSING), self._labels(by, n_jobs)
        if self.maps is None:
            return labels, label_shares(self.kernels, of_kernel, len(labels), X, n_jobs)

        def shares(found: Preimages) -> np.ndarray:
            return found.mean(label_shares(self.kernels, of_kernel, len(labels), found.Z, n_jobs))

        return labels, self._answers(self._chart.clip(X), n_jobs, shares)

    def _labels(self, by: Any, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return all labels, and the index of the label of every kernel."""
        if isinstance(by, str) and by == "cluster":
            labels, of_group = np.unique(self.clusters, return_inverse=True)
            return labels, of_group[self.kernels.group_of_kernel]
        if isinstance(by, str) and by == "mode":
            if "default" not in self._modes:
                self._modes["default"] = self.modes(n_jobs=n_jobs)
            by = self._modes["default"]
        if not isinstance(by, ModeTable):
            raise ValueError(f"by must be 'mode', 'cluster' or a ModeTable, got {by!r}")
        if by.basins.shape != (self.n_kernels,):
            raise ValueError(
                f"by: these are the modes of {len(by.basins)} kernels, but the density has "
                f"{self.n_kernels}"
            )
        return np.arange(len(by)), by.basins

    # Support by the samples

    def effective_sample_size(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return the number of samples that support the density at every row of ``X``.

        .. math:: n(x) = \Big( \sum_k \frac{r_k(x)^2}{n_k} \Big)^{-1}, \qquad
                  r_k(x) = \frac{w_k N(x; \mu_k, \Sigma_{g(k)})}{p(x)}

        where kernel :math:`k` stands for :math:`n_k` samples, one without ``counts``. It is Kish's
        effective sample size: all samples where their kernels contribute alike, one where the
        kernel of a single sample makes up the density. The variance of the density at :math:`x` is
        about :math:`p(x)^2 / n(x)`. Where the logarithm of the density overflows, the value is the
        smallest count of a kernel.

        Examples
        --------
        >>> hills = KernelMixture.from_covariances([0.5, 0.5], [[-1.0], [1.0]], [[1.0]])
        >>> hills.effective_sample_size([[0.0], [1.0], [9.0]]).round(2)
        array([2.  , 1.27, 1.  ])
        """
        X = self._check(X)
        least = self._sample_counts[self.log_weights > -np.inf].min()
        if self.maps is not None:

            def sizes(found: Preimages) -> np.ndarray:
                if self._chart.folding:
                    sizes = mapped.sample_sizes(self.kernels, self._sample_counts, found)
                else:
                    sizes = self._latent.effective_sample_size(found.Z, n_jobs)
                return found.spread(sizes, least)

            return self._answers(X, n_jobs, sizes)
        log_sums = sums_at(self._sums.direct, X, n_jobs)
        log_squares = sums_at(self._log_squares, X, n_jobs)
        most = self._sample_counts.sum()
        with np.errstate(invalid="ignore", over="ignore"):
            found = np.exp(2 * log_sums - log_squares)
        return np.clip(np.nan_to_num(found, nan=0.0), least, most)

    def is_extrapolation(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return for every row of ``X`` whether it lies beyond the samples.

        .. math:: \sum_k n_k \, P\big(\chi^2_M > d_k(x)^2\big) < 0.01, \qquad
                  d_k(x)^2 = (x - \mu_k)^\top \Sigma_{g(k)}^{-1} (x - \mu_k)

        where kernel :math:`k` stands for :math:`n_k` samples. The sum is the expected number of
        samples as far from the means of their kernels as :math:`x`, if the samples were drawn from
        the density. If the sum is nearly zero, the density at :math:`x` depends on the shape of the
        kernels and not on the samples. In many dimensions narrow kernels may not reach from one
        sample to the next; then most new samples are extrapolations, too.

        Examples
        --------
        >>> hills = KernelMixture.from_covariances([0.5, 0.5], [[-1.0], [1.0]], [[1.0]])
        >>> hills.is_extrapolation([[0.0], [3.0], [9.0]])
        array([False, False,  True])
        """
        X = self._check(X)
        if self.maps is None:
            return ~self._reach.contains(X, n_jobs)

        def is_beyond(found: Preimages) -> np.ndarray:
            near = np.logical_or.reduceat(self._reach.contains(found.Z, n_jobs), found.starts)
            return found.spread(~near, True)

        return self._answers(X, n_jobs, is_beyond).astype(bool)

    def bootstrap(self, n_replicates: int = 200, random_state: Any = 0) -> Bootstrap:
        r"""Return bootstrap replicates of the density, for confidence bands.

        The :math:`N` samples behind the kernels are drawn with replacement. In a replicate,
        kernel :math:`k` weighs :math:`c_k / N`, where the counts :math:`c` are multinomial with
        the weights of the density as probabilities; means and covariances stay the same. A band
        shows how the density would vary from one set of samples to another. It does not show the
        bias by smoothing, nor the variation of the means and covariances of kernels.

        Examples
        --------
        >>> from sevenhills import GaussianKDE, datasets
        >>> X = datasets.load("aniso").sample(300, random_state=0)
        >>> density = GaussianKDE().fit(X).density_
        >>> low, high = density.bootstrap().band(X[:5])
        >>> bool(((low < density.logpdf(X[:5])) & (density.logpdf(X[:5]) < high)).all())
        True
        """
        n_replicates = check_count(n_replicates, "n_replicates", least=2)
        rng = random_generator(random_state)
        n_samples = max(1, round(float(self._sample_counts.sum())))
        shares = self.weights / self.weights.sum()
        counts = rng.multinomial(n_samples, shares, size=n_replicates)
        return Bootstrap(self, counts / n_samples)

    # Other forms

    def compress(
        self,
        held_out: Any,
        *,
        max_loss: float = 0.01,
        max_kernels: int | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> Compression:
        r"""Return a density of fewer kernels that is nearly as good at held-out points.

        Every cluster is divided into cells, and the kernels of a cell become one kernel of the same
        weight, mean and covariance:

        .. math:: \hat w = \sum_k w_k, \qquad
                  \hat \mu = \sum_k \frac{w_k}{\hat w} \mu_k, \qquad
                  \hat \Sigma = \sum_k \frac{w_k}{\hat w}
                  \big( \Sigma_{g(k)} + (\mu_k - \hat\mu)(\mu_k - \hat\mu)^\top \big)

        A cluster begins as one cell. While half of the held-out points have too large a mean loss
        :math:`\log p - \log \hat p`, the cells of the cluster that gains most are divided. The
        other half of the points measures the loss.

        Parameters
        ----------
        held_out : array-like of shape (n_samples, n_features)
            At least 100 samples to which the density was not fitted. If the standard deviation of
            the loss is ``s``, about ``50 * (s / max_loss) ** 2`` samples are needed.
        max_loss : float, default=0.01
            The largest decrease of the mean log density of held-out samples, in nats, with a
            confidence of 99 %.
        max_kernels : int, optional
            The largest number of kernels, at least one for every cluster. By default, log densities
            take about half the time.
        random_state : int, RandomState instance or None
            Chooses the half of the held-out points by which kernels are chosen.
        n_jobs : int, optional

        Raises
        ------
        CompressionError
            If the upper bound of the loss exceeds ``max_loss``.

        Examples
        --------
        >>> from sevenhills import GaussianKDE, datasets
        >>> X = datasets.load("gaussian").sample(3000, random_state=0)
        >>> kde = GaussianKDE().fit(X[:2000])
        >>> smaller = kde.compress(X[2000:], max_loss=0.05)
        >>> smaller.n_before, smaller.n_after
        (2000, 1)
        >>> smaller.bound < 0.05
        True
        >>> smaller.density.sample(2, random_state=0).shape
        (2, 2)
        """
        max_loss = check_not_negative(max_loss, "max_loss")
        X = self._check(held_out)
        compression.check_held_out(X, self._values(self.means))
        # Sorted first, so that the halves do not depend on the order of the rows.
        X = random_generator(random_state).permutation(X[np.lexsort(X.T)])
        return compression.compress(self, X, max_loss, max_kernels, n_jobs)

    def to_torch(self, device: Any = None, dtype: Any = None) -> Any:
        """Return the density as a distribution of PyTorch.

        Its ``log_prob`` is ``logpdf`` for points of any batch shape, and can be differentiated any
        number of times. It also has ``sample``, which draws from PyTorch's generator, ``mean``,
        ``variance``, ``covariance_matrix``, ``expand`` and ``to(device, dtype)``. It has no
        ``rsample``: the choice of a kernel cannot be differentiated. Memory is bounded: for the
        gradient of many points at many kernels, sums are computed twice.

        The device is the CPU by default, and ``dtype`` is ``torch.float64`` or ``torch.float32``.

        Examples
        --------
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], np.eye(2))
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)  # doctest: +SKIP
        >>> unit.to_torch().log_prob(x).backward()  # doctest: +SKIP
        >>> x.grad  # doctest: +SKIP
        tensor([-1., -2.])
        """
        return torch_export.distribution(self, device, dtype)


# For the package: densities with other fields


def unchecked_mixture(**fields: Any) -> KernelMixture:
    """Build a mixture from all of its fields, without validation or copying."""
    return KernelMixture._unchecked(**fields)


def with_samples(
    density: KernelMixture,
    feature_names: Sequence[str] | None,
    n_samples: float,
    maps: Maps | None = None,
) -> KernelMixture:
    """Return a density with feature names, a number of samples shared by weight, and maps."""
    names = None if feature_names is None else tuple(feature_names)
    if maps is not None:
        density = density._replace(maps=maps, **narrowed(maps, density.kernels)._asdict())
    return density._replace(feature_names=names, counts=density.weights * n_samples)


def mapped_kernels(kernels: Kernels, maps: Maps) -> KernelMixture:
    """Return some of the kernels of a density with maps; the weights need not add up to one."""
    return KernelMixture._unchecked(
        weights=np.exp(kernels.log_weights),
        clusters=np.zeros(kernels.n_groups, dtype=np.int64),
        counts=None,
        feature_names=None,
        maps=maps,
        **narrowed(maps, kernels)._asdict(),
    )


def _draw(density: KernelMixture, n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw kernels by their weights, and a step from the mean of each."""
    bounds = np.cumsum(density.weights)
    kernel = np.searchsorted(bounds[:-1], rng.uniform(0.0, bounds[-1], n_samples), side="right")
    steps = rng.standard_normal((n_samples, density.n_features))
    group = np.searchsorted(density.offsets, kernel, side="right") - 1
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))
    for start, end in pairwise(starts):
        rows = order[start:end]
        transform = density.transforms[group[order[start]]]
        steps[rows] = np.linalg.solve(transform.T, steps[rows].T).T
    return density.means[kernel] + steps


# Maps


def _no_identities(maps: Sequence[AnyMap]) -> Maps | None:
    """Return maps, or None if they do not change anything."""
    return None if all(type(each) is FeatureMap for each in maps) else tuple(maps)


def _affine_maps(maps: Maps, matrix: np.ndarray, shift: np.ndarray) -> tuple[Maps, np.ndarray]:
    """Return the maps of a linear map of the features, and the shift of latent coordinates."""
    is_mapped = np.array([type(each) is not FeatureMap for each in maps])
    mixed = (matrix != np.diag(np.diag(matrix))) & (is_mapped | is_mapped[:, None])
    if mixed.any():
        feature = int(np.argmax(is_mapped & (mixed.any(axis=0) | mixed.any(axis=1))))
        raise ValueError(
            f"matrix mixes feature {feature}, which has a map, with others; transform the samples "
            "and fit a density to these"
        )
    moved = [each.affine(*pair) for each, *pair in zip(maps, np.diag(matrix), shift, strict=True)]
    return tuple(moved), np.where([each.is_shifted for each in maps], shift, 0.0)


def _drawn_product(first: KernelMixture, second: KernelMixture, log: bool) -> Estimate:
    """Return the integral of the product of two densities, from draws of both."""
    found = [
        one.logpdf(other.sample(_PRODUCT_DRAWS, random_state=0))
        for one, other in ((first, second), (second, first))
    ]
    top = max(0.0 if np.isneginf(each).all() else each.max() for each in found)
    means, errors = np.array([mean_with_error(np.exp(each - top)) for each in found]).T
    mean, error = means.mean(), np.hypot(*errors) / 2
    n_draws = 2 * _PRODUCT_DRAWS
    with np.errstate(divide="ignore", invalid="ignore"):
        if log:
            return Estimate(np.log(mean) + top, error / mean, n_draws)
        return Estimate(mean * np.exp(top), error * np.exp(top), n_draws)


def _total(parts: Sequence[Estimate]) -> Estimate:
    """Return the sum of probabilities."""
    error = np.sqrt(sum(each.std_error**2 for each in parts))
    return Estimate(min(float(sum(parts)), 1.0), float(error), max((p.n for p in parts), default=1))


def _shared_counts(counts: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """Share the samples of every kernel among its images, by their weights."""
    logs = log_weights.reshape(-1, len(counts))
    shares = np.exp(logs - np.maximum(logs.max(axis=0), -np.finfo(float).max))
    totals = shares.sum(axis=0)
    even = np.full(shares.shape, 1 / len(shares))
    return np.asarray(np.divide(shares, totals, out=even, where=totals > 0) * counts).ravel()


# Validation of fields


def _check_shapes(density: KernelMixture) -> None:
    n_kernels, n_features = _check_means(density.means)
    check_offsets(density.offsets, "offsets", n_kernels)
    _check_array(density.weights, "weights", (n_kernels,))
    if (density.weights < 0).any() or abs(density.weights.sum() - 1.0) > _ROUNDING:
        raise ValueError("weights must not be negative and must add up to one")
    _check_array(density.transforms, "transforms", (density.n_groups, n_features, n_features))


def _check_means(means: np.ndarray) -> tuple[int, int]:
    """Return the numbers of kernels and features."""
    if means.ndim != 2 or means.size == 0:
        raise ValueError(f"means must have 2 dimensions and not be empty, got shape {means.shape}")
    _check_array(means, "means", means.shape)
    return means.shape


def _check_array(values: np.ndarray, name: str, *expected: tuple[int, ...]) -> None:
    """Raise an error unless an array is finite and has one of the expected shapes."""
    if values.shape not in expected:
        shapes = " or ".join(str(shape) for shape in expected)
        raise ValueError(f"{name} must have shape {shapes}, got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite")


def _checked_log_dets(density: KernelMixture, values: Any) -> np.ndarray:
    log_dets = (
        np.linalg.slogdet(density.transforms)[1]
        if _is_empty(values)
        else np.array(values, dtype=float)
    )
    if log_dets.shape != (density.n_groups,) or not np.isfinite(log_dets).all():
        raise ValueError("transforms must be regular, and log_dets finite, one for each group")
    return log_dets


def _checked_log_weights(density: KernelMixture, values: Any) -> np.ndarray:
    if _is_empty(values):
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(density.weights))
    log_weights = np.array(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        found = np.exp(log_weights)
    same_shape = found.shape == density.weights.shape
    if not same_shape or not np.allclose(found, density.weights, rtol=1e-6, atol=1e-300):
        raise ValueError("log_weights must be the logarithms of the weights")
    return log_weights


def _checked_clusters(density: KernelMixture, values: Any) -> np.ndarray:
    clusters = np.zeros(density.n_groups, dtype=int) if _is_empty(values) else np.asarray(values)
    if clusters.shape != (density.n_groups,) or clusters.dtype.kind not in "iu":
        raise ValueError(f"clusters must be {density.n_groups} integers, one for each group")
    return clusters.astype(np.int64)


def _checked_counts(density: KernelMixture, values: Any) -> np.ndarray | None:
    if values is None:
        return None
    counts = np.array(values, dtype=np.float64)
    _check_array(counts, "counts", density.weights.shape)
    if (counts < 0).any():
        raise ValueError("counts must not be negative")
    return counts


def _checked_names(density: KernelMixture, values: Any) -> tuple[str, ...] | None:
    if values is None:
        return None
    names = tuple(values)
    if len(names) != density.n_features or len(set(names)) < len(names):
        raise ValueError(f"feature_names must be {density.n_features} different names")
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"feature_names must be strings, got {names!r}")
    return names


def _checked_maps(density: KernelMixture, values: Any) -> Maps | None:
    if values is None:
        return None
    maps = tuple(values)
    if len(maps) != density.n_features or not all(isinstance(each, FeatureMap) for each in maps):
        raise TypeError(f"maps must be {density.n_features} FeatureMaps, got {values!r}")
    return _no_identities(maps)


def _is_empty(values: Any) -> bool:
    """Whether an optional array is not given."""
    return values is None or np.size(values) == 0


# Validation of arguments


def _transforms(covariances: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the transforms of checked covariances, one if all kernels share a covariance."""
    n_kernels, n_features = _check_means(means)
    one = n_features, n_features
    _check_array(covariances, "covariances", one, (n_kernels, *one))
    covariances = covariances.reshape(-1, *one)
    if not np.allclose(covariances, covariances.swapaxes(1, 2), atol=0.0):
        raise ValueError("covariances must be symmetric")
    try:
        factors = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        raise ValueError("covariances must be positive definite") from None
    return np.linalg.inv(factors).swapaxes(1, 2)


def _check_same_features(mixtures: Sequence[KernelMixture]) -> None:
    for each in mixtures[1:]:
        for name in ("n_features", "feature_names"):
            one, other = getattr(mixtures[0], name), getattr(each, name)
            if one != other:
                raise ValueError(f"mixtures must have the same features, got {one} and {other}")
        if each.maps != mixtures[0].maps:
            raise ValueError(
                "mixtures must have the same maps; fit them with the same support, or fit one "
                "density to all samples"
            )


def _renumbered(labels: Sequence[np.ndarray]) -> np.ndarray:
    """Return labels of clusters that differ between densities; noise stays noise."""
    out, n_before = [], 0
    for each in labels:
        values, numbers = np.unique(each[each >= 0], return_inverse=True)
        new = np.full(len(each), -1)
        new[each >= 0] = numbers + n_before
        out.append(new)
        n_before += len(values)
    return np.concatenate(out)


def _joint_counts(counts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    known = [each for each in counts if each is not None]
    return np.concatenate(known) if len(known) == len(counts) else None


def _checked_map(matrix: Any, shift: Any, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a regular matrix and a shift."""
    matrix, shift = check_numbers(matrix, "matrix"), check_numbers(shift, "shift")
    _check_array(matrix, "matrix", (n_features, n_features))
    _check_array(shift, "shift", (n_features,))
    if _is_singular(matrix):
        raise ValueError("matrix must be regular, got a singular one")
    return matrix, shift


def _is_singular(matrix: np.ndarray) -> bool:
    """Whether a matrix is singular up to rounding, whatever its units."""
    for axis in (1, 0):
        sizes = np.abs(matrix).max(axis=axis, keepdims=True)
        if not sizes.all():
            return True
        matrix = matrix / sizes
    return bool(np.linalg.matrix_rank(matrix) < len(matrix))
