"""The interface that all estimators share."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from contextvars import ContextVar
from functools import update_wrapper
from inspect import currentframe, signature
from types import MethodType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, DensityMixin, clone
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ..clustering import Points
from ..clustering.scaling import SCALES, feature_scales, unequal_scales
from ..density import Density, KernelMixture
from ..density.mixture import with_samples
from ..density.output import LIBRARIES, index_of, library_of, to_frame
from ..validation import (
    FILL_MISSING,
    IGNORE_MISSING,
    check_choice,
    check_n_jobs,
    check_samples,
    check_weights,
    unchanged_on_failure,
)
from .summary import Summary, describe_resolution, describe_scale, feature_name
from .support import FeatureSupport, Support, check_support, indexed

P = ParamSpec("P")
R = TypeVar("R")

#: The methods of densities whose results, or those of whose results, are frames of a library.
_FRAMED = ("affine", "conditional", "marginal", "mean", "mode", "modes")
#: Whether a fit is a part of another computation, so that its data are not the caller's own.
_IS_INNER = ContextVar("_IS_INNER", default=False)
#: How the names of the modules of this package begin.
_OWN_MODULES = f"{__name__.partition('.')[0]}."


@contextmanager
def inner_fits() -> Iterator[None]:
    """Fit without the warning about unequal scales, as in computations that fit many models."""
    before = _IS_INNER.set(True)
    try:
        yield
    finally:
        _IS_INNER.reset(before)


class UnavailableError(AttributeError, TypeError):
    """A method that the density of an estimator does not have."""


class _Delegate:
    """A method of the density, offered by estimators whose density has it.

    By default, ``n_jobs`` is that of the estimator. Fitted estimators among the arguments are
    replaced by their densities.
    """

    def __init__(self, method: Callable[..., Any], check_rows: bool) -> None:
        name, parameters = method.__name__, signature(method)

        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            check_is_fitted(self)
            bound = parameters.bind(self.density_, *args, **kwargs)
            given = bound.arguments.get("X")
            if check_rows:
                X = bound.arguments["X"]
                bound.arguments["X"] = check_samples(self, X, reset=False, remedy=FILL_MISSING)
            if "n_jobs" in parameters.parameters:
                bound.arguments.setdefault("n_jobs", self.n_jobs)
            arguments = {key: getattr(a, "density_", a) for key, a in bound.kwargs.items()}
            values = [getattr(a, "density_", a) for a in bound.args[1:]]
            is_framed = name in _FRAMED
            density = self.density_.with_output(self._library()) if is_framed else self.density_
            found = getattr(density, name)(*values, **arguments)
            if name != "impute":
                return found
            names = getattr(given, "columns", self._feature_names())
            return to_frame(np.asarray(found), self._library(given), names, index_of(given))

        self.name, self.call = name, update_wrapper(call, method)

    def __get__(self, estimator: Any, owner: type) -> Any:
        """Return the method; refuse it if the density of the estimator does not have it."""
        if estimator is None:
            return self.call
        estimator._check_available(self.name)
        return MethodType(self.call, estimator)


def delegate(
    method: Callable[Concatenate[Any, P], R], *, check_rows: bool = False
) -> Callable[Concatenate[Any, P], R]:
    """Return a method of estimators that calls the same method of the fitted density.

    With ``check_rows`` the features of its argument ``X`` are compared with those of the fit.
    """
    return cast("Callable[Concatenate[Any, P], R]", _Delegate(method, check_rows))


class DensityEstimator(DensityMixin, BaseEstimator, ABC):
    """An estimator whose fitted value is ``density_``.

    It has the methods of its density: those of :class:`~sevenhills.KernelMixture` for all
    estimators but the vine copula and nearest neighbors. A fit also sets scikit-learn's
    ``n_features_in_`` and, if columns have names, ``feature_names_in_``.
    """

    density_: Density
    support_: tuple[FeatureSupport, ...]
    #: Whether bounded features get log maps rather than mirrors. (It has no type: attributes that
    #: have one are stored in files.)
    _prefers_log = False
    #: The library of the frame of the fit; it has no type, either.
    _fitted_library = None
    n_jobs: int | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep the signature that scikit-learn inspects whenever it clones an estimator."""
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__.__signature__ = signature(cls.__init__)  # type: ignore[attr-defined]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the density to samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            The number of samples that every row stands for, not necessarily whole: a row of
            weight three counts as three equal rows. Relative weights should be scaled to add up
            to the number of samples.

        Returns
        -------
        self
            If fitting fails, the estimator is as it was before.
        """
        return self._fit_checked(X, sample_weight)

    def _fit_checked(self, X: Any, sample_weight: Any, **given: Any) -> Self:
        """Check samples and weights, and fit; other arguments are passed to ``_fit`` as given."""
        stages = self._fit_stages(X, sample_weight, **given)
        with unchanged_on_failure(self), closing(stages):
            for _ in stages:
                pass
        return self

    def _fit_stages(
        self, X: Any, sample_weight: Any = None, **given: Any
    ) -> Generator[None, None, None]:
        """Fit in stages; after each, another fit may take its turn.

        A fit that fails may leave the estimator changed.
        """
        self._check_parameters()
        library = library_of(X)
        X = check_samples(self, X, reset=True)
        weights = check_weights(sample_weight, len(X))
        names = self._feature_names()
        declared = self._declared_support()
        support = Support.from_samples(declared, X, weights, names, prefers_log=self._prefers_log)
        support = self._scaled(support, X, weights)
        yield from self._fit(X, weights, support, **given) or ()
        self.support_ = support.features
        self.__dict__.pop("_fitted_library", None)
        if library is not None:
            self._fitted_library = library
        if isinstance(self.density_, KernelMixture):
            n_samples = len(X) if weights is None else float(weights.sum())
            density = support.unscaled(self.density_)
            maps = support.joined_maps(density.maps)
            self.density_ = with_samples(density, names, n_samples, maps)

    def _check_parameters(self) -> None:
        """Refuse parameters that no samples could be fitted with."""
        check_n_jobs(self.n_jobs)
        check_support(self._declared_support())

    @abstractmethod
    def _fit(
        self, X: np.ndarray, weights: np.ndarray | None, support: Support
    ) -> Iterator[None] | None:
        """Set ``density_`` and the other fitted attributes from checked samples.

        The density is that of latent coordinates, which ``support`` gives. A generator fits in
        stages.
        """

    def _scaled(self, support: Support, X: np.ndarray, weights: np.ndarray | None) -> Support:
        """Return the support in the latent coordinates of the fit, which may be scaled."""
        return support

    def _declared_support(self) -> Any:
        """Return the parameter ``support``, None if the estimator does not have it."""
        return getattr(self, "support", None)

    def _feature_names(self) -> Sequence[str] | None:
        return getattr(self, "feature_names_in_", None)

    @property
    def is_normalized(self) -> bool:
        """Whether the fitted density integrates to one."""
        check_is_fitted(self)
        return self.density_.is_normalized

    def score_samples(self, X: Any, missing: str = "raise") -> np.ndarray:
        """Return the log density at every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        missing : {"raise", "marginal"}, default="raise"
            Whether to refuse NaN, or to return the marginal density of the features that are
            present.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        check_choice(missing, "missing", ("raise", "marginal"))
        has_kernels = isinstance(self.density_, KernelMixture)
        if missing == "raise":
            X = check_samples(self, X, reset=False, remedy=IGNORE_MISSING if has_kernels else "")
            return self.density_.logpdf(X, n_jobs=self.n_jobs)
        if not has_kernels:
            self._check_available(f"missing={missing!r}")
        X = check_samples(self, X, reset=False, missing=True)
        return cast(KernelMixture, self.density_).logpdf(X, n_jobs=self.n_jobs, missing=missing)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean log density of the rows of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            The number of samples that every row stands for; one by default.

        Returns
        -------
        float
        """
        scores = self.score_samples(X)
        return float(np.average(scores, weights=check_weights(sample_weight, len(scores))))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of ``sample``, ``impute``, ``mean``, ``mode`` and ``modes``.

        By default, a model that is fitted to a data frame of pandas or polars returns frames of the
        same library, and ``impute`` returns a frame if it is given one. scikit-learn's global
        setting ``transform_output`` is used, too, unless it is "default". ``mean`` and ``mode`` are
        a Series of pandas, or a frame of one row of polars; so are those of the densities that
        ``conditional`` and ``marginal`` return. The ``locations`` of ``modes`` are a frame.
        ``score_samples``, ``predict``, ``cov`` and draws for many rows are arrays.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            "default" is an array; None changes nothing.

        Returns
        -------
        self

        Notes
        -----
        Files do not hold the setting: a loaded model returns arrays until it is set again.

        Examples
        --------
        >>> import pandas as pd
        >>> from sevenhills import ROME, datasets
        >>> X = datasets.load("aniso").sample(200, random_state=0)
        >>> rome = ROME().fit(pd.DataFrame(X, columns=["a", "b"]))
        >>> rome.conditional({"a": 0.5}).mean().round(1)
        b   -1.7
        dtype: float64
        >>> rome.set_output(transform="default").sample(2, random_state=0).shape
        (2, 2)
        """
        if transform is not None:
            check_choice(transform, "transform", ("default", *LIBRARIES))
            self._sklearn_output_config = {"transform": transform}
        return self

    def _library(self, given: Any = None) -> str | None:
        """Return the library of results: that which is set, or that of the given table.

        Without a table, it is the library of the frame of the fit.
        """
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        if chosen is None:
            chosen = get_config()["transform_output"]
            if chosen == "default":
                return self._fitted_library if given is None else library_of(given)
        return None if chosen == "default" else str(chosen)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw independent samples from the fitted density.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            With None the draws differ from call to call; numpy's global generator is neither
            used nor changed.

        Returns
        -------
        ndarray or data frame of shape (n_samples, n_features)
            A frame if the fit was to a frame; see :meth:`set_output`.
        """
        check_is_fitted(self)
        drawn = np.asarray(self.density_.sample(n_samples, random_state))
        return to_frame(drawn, self._library(), self._feature_names())

    def _density_class(self) -> type[Density]:
        """Return the class of the density that would be fitted."""
        return KernelMixture

    def _check_available(self, name: str) -> None:
        """Refuse a method that the density does not have, before and after the fit."""
        density = type(self.density_) if hasattr(self, "density_") else self._density_class()
        if not hasattr(density, name):
            raise UnavailableError(
                f"{name} needs a mixture of kernels, but {type(self).__name__} fits a "
                f"{density.__name__}"
            )
        if density.is_normalized is False:
            raise UnavailableError(
                f"{name} needs a density that integrates to one, but {density.__name__} does not; "
                "choose density='kde', 'gaussian' or 'mpw'"
            )

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram, followed by a picture and a table once fitted."""
        diagram: str = estimator_html_repr(self)
        if not hasattr(self, "density_"):
            return diagram
        try:
            return diagram + self._html_table()
        except Exception:  # a display must not fail
            return diagram

    def _html_table(self) -> str:
        """Return the density as HTML."""
        density = self.density_
        return density._repr_html_() if isinstance(density, KernelMixture) else ""

    affine = delegate(KernelMixture.affine)
    bootstrap = delegate(KernelMixture.bootstrap)
    cdf = delegate(KernelMixture.cdf)
    compress = delegate(KernelMixture.compress)
    conditional = delegate(KernelMixture.conditional)
    cov = delegate(KernelMixture.cov)
    effective_sample_size = delegate(KernelMixture.effective_sample_size)
    entropy = delegate(Density.entropy)
    grad_logpdf = delegate(KernelMixture.grad_logpdf)
    hdr_contours = delegate(Density.hdr_contours)
    hdr_intervals = delegate(Density.hdr_intervals)
    hdr_level = delegate(Density.hdr_level)
    hdr_probability = delegate(Density.hdr_probability)
    hess_logpdf = delegate(KernelMixture.hess_logpdf)
    impute = delegate(KernelMixture.impute)
    integrate_product = delegate(KernelMixture.integrate_product)
    interval = delegate(KernelMixture.interval)
    is_extrapolation = delegate(KernelMixture.is_extrapolation)
    isf = delegate(KernelMixture.isf)
    marginal = delegate(KernelMixture.marginal)
    mean = delegate(KernelMixture.mean)
    mode = delegate(KernelMixture.mode)
    modes = delegate(KernelMixture.modes)
    plot = delegate(KernelMixture.plot)
    ppf = delegate(KernelMixture.ppf)
    predict = delegate(KernelMixture.predict, check_rows=True)
    predict_proba = delegate(KernelMixture.predict_proba, check_rows=True)
    probability = delegate(KernelMixture.probability)
    sf = delegate(KernelMixture.sf)
    to_torch = delegate(KernelMixture.to_torch)


class ClusterEstimator(DensityEstimator):
    """A density estimator that finds clusters."""

    labels_: np.ndarray
    resolution_: np.ndarray
    scale_: np.ndarray
    scale: str | None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.scale, "scale", (*SCALES, None))

    def _scaled(self, support: Support, X: np.ndarray, weights: np.ndarray | None) -> Support:
        self.scale_ = np.ones(X.shape[1])
        if self.scale is None:
            return support
        Z = support.latent(X if weights is None else X[weights > 0])
        weights = None if weights is None else weights[weights > 0]
        self.scale_ = feature_scales(Z, weights, self.scale)
        return support.scaled(self.scale_, np.quantile(Z, 0.5, axis=0, method="lower"))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit the density and return the cluster of every sample, ``labels_``.

        Where clusters overlap, ``predict`` may differ: it returns the most probable cluster.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        ndarray of shape (n_samples,)
            -1 for noise.
        """
        return self._fit_checked(X, sample_weight).labels_

    def summary(self) -> str:
        """Return the clusters of the fit as a few lines of text."""
        check_is_fitted(self)
        return self._summary().to_text()

    @abstractmethod
    def _summary(self) -> Summary:
        """Return the summary of the fit."""

    def _html_table(self) -> str:
        density = self.density_
        picture = density._small_picture() if isinstance(density, KernelMixture) else ""
        return picture + self._summary().to_html()

    def _describe_resolution(self) -> str:
        return describe_resolution(self.resolution_, self._feature_names())

    def _describe_scale(self) -> str:
        return describe_scale(self.scale)


def warn_if_unequal(estimator: DensityEstimator, Z: np.ndarray, weights: np.ndarray | None) -> None:
    """Warn if the scales of features differ by a factor of ten, and name the remedy.

    Fits to similar samples have the same text, which Python shows once for a line of the caller.
    """
    found = None if _IS_INNER.get() else unequal_scales(Z, weights)
    if found is None:
        return
    names = estimator._feature_names()
    wide, narrow = feature_name(found.widest, names), feature_name(found.narrowest, names)
    factor = 10.0 ** np.floor(np.log10(found.scales[1] / found.scales[0]))
    warnings.warn(
        f"the scales of {wide} and {narrow} differ by a factor of more than {factor:,.7g}, and "
        f"{type(estimator).__name__} takes features as they are, so that the wide ones decide the "
        "clusters. If they have different units, pass scale='auto' or use AutoROME()",
        UserWarning,
        stacklevel=_level_of_caller(),
    )


def _level_of_caller() -> int:
    """Return the number of calls from the function that warns to the code outside of the package.

    Wrappers of scikit-learn and decorators lie between both.
    """
    frame, level = currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OWN_MODULES):
        frame, level = frame.f_back, level + 1
    return level


def points_with_spread(X: np.ndarray, weights: np.ndarray | None, purpose: str) -> Points:
    """Return the distinct points of samples; refuse one sample, and samples that are all equal."""
    if len(X) < 2:
        raise ValueError(f"X has n_samples = 1; {purpose} needs at least 2")
    points = Points.from_samples(X, weights)
    if len(points.rows) == 1:
        raise ValueError(f"the samples have no spread (n_samples = {len(X)})")
    return points


#: A function that fits a clone of an estimator to rows and their weights.
Fit = Callable[[np.ndarray, np.ndarray | None], Any]


def cloned_fit(estimator: Any, names: Sequence[str] | None = None) -> Fit:
    """Return a function that fits clones of an estimator to rows and weights.

    ``names`` are those of the features, by which the ``support`` of the estimator may know them.
    Only the first fit warns about unequal scales.
    """
    lacking = [name for name in ("fit", "score_samples") if not hasattr(estimator, name)]
    if isinstance(estimator, type) or lacking:
        raise TypeError(
            f"estimator must be an instance with fit and score_samples, got {estimator!r}"
        )
    weighted = has_fit_parameter(estimator, "sample_weight")
    support = indexed(getattr(estimator, "support", None), names)
    first = [nullcontext()]

    def fit(X: np.ndarray, weights: np.ndarray | None) -> Any:
        recipe = clone(estimator)
        if support is not None:
            recipe.set_params(support=support)
        if weights is not None and not weighted:
            raise TypeError(f"estimator ({type(estimator).__name__}) does not take sample_weight")
        with first.pop() if first else inner_fits():
            return recipe.fit(X) if weights is None else recipe.fit(X, sample_weight=weights)

    return fit
