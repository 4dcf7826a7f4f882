"""The subject of a report: a fitted model and the samples that it was fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from ..clustering import Candidates, Ordering
from ..density import Density, FeatureMap, KernelMixture
from ..estimators.defaults import default_estimator
from ..stacking import categories
from ..validation import check_queries, random_generator

#: Rows that a report fits at most: a report of more takes longer than people wait.
_MAX_FITTED = 20_000


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model and its samples; None stands for parts that are not known."""

    #: An estimator or a density.
    model: Any
    density: Density
    X: np.ndarray | None
    #: The names of the features.
    names: tuple[str, ...]
    #: The names of the samples, which are their indices by default.
    rows: np.ndarray | None
    #: The clusters of the samples.
    labels: np.ndarray | None
    ordering: Ordering | None
    candidates: Candidates | None
    #: The number of rows of which the samples were drawn at random, None if all were fitted.
    n_rows: int | None = None

    def name_of_row(self, row: int) -> str:
        """Return the name of a sample."""
        return str(row if self.rows is None else self.rows[row])

    @cached_property
    def few_values(self) -> dict[int, int]:
        """The features of few values, such as years, with the number of their values."""
        if self.X is None:
            return {}
        return {j: len(np.unique(self.X[:, j])) for j in categories(self.X, np.ones(len(self.X)))}

    @property
    def kind(self) -> str:
        """The class of the model."""
        return type(self.model).__name__

    @property
    def mixture(self) -> KernelMixture | None:
        """The density, if it is a mixture of kernels."""
        return self.density if isinstance(self.density, KernelMixture) else None

    @property
    def is_estimator(self) -> bool:
        """Whether the model can be fitted to other samples."""
        return hasattr(self.model, "fit")

    @property
    def n_samples(self) -> int | None:
        """The number of samples that the model was fitted to."""
        known = self.labels if self.X is None else self.X
        return None if known is None else len(known)

    @property
    def n_jobs(self) -> int | None:
        """The number of threads of the model."""
        return getattr(self.model, "n_jobs", None)


def make_subject(
    given: Any, X: Any, feature_names: Sequence[str] | None, rows: Any = None, seed: int = 0
) -> Subject:
    """Return the subject of a report; a model that is not fitted is fitted first.

    It is fitted to a random sample of the rows if they are many.
    """
    if isinstance(given, type):
        raise TypeError(f"model_or_data must be a model or samples, got the class {given.__name__}")
    if not hasattr(given, "score_samples") and not hasattr(given, "logpdf"):
        if X is not None:
            raise ValueError("model_or_data must be a model where X is given, got samples")
        shape = np.shape(given)
        # Samples of another shape are refused by the fit.
        given, X = default_estimator(*shape if len(shape) == 2 else (0, 0)), given
    rows, n_rows = _check_rows(rows, X), None
    is_fitted = _is_fitted(given)
    if not is_fitted and X is not None and len(X) > _MAX_FITTED:
        chosen = np.sort(random_generator(seed).permutation(len(X))[:_MAX_FITTED])
        rows = chosen if rows is None else rows[chosen]
        X, n_rows = _safe_indexing(X, chosen), len(X)
    model = given if is_fitted else _fitted(given, X)
    density = getattr(model, "density_", model)
    if not isinstance(density, Density):
        raise TypeError(
            f"model_or_data must be samples, a density or an estimator of this package that has "
            f"fitted one, got {type(given).__name__}"
        )
    if X is None and not density.is_normalized:
        raise ValueError(f"X is missing: a {type(density).__name__} cannot be drawn from")
    subject = Subject(
        model,
        density,
        X=None if X is None else check_queries(X, density.n_features),
        names=_names(density, model, X, feature_names),
        rows=rows,
        labels=getattr(model, "labels_", None),
        ordering=getattr(model, "ordering_", None),
        candidates=getattr(model, "candidates_", None),
        n_rows=n_rows,
    )
    _check_samples(subject)
    return subject


def _check_rows(rows: Any, X: Any) -> np.ndarray | None:
    """Return the names of samples; raise an error unless all samples have one."""
    if rows is None:
        return None
    rows, n_samples = np.asarray(rows), 0 if X is None else len(X)
    if rows.shape != (n_samples,):
        raise ValueError(f"rows must name the {n_samples} samples, got shape {rows.shape}")
    return rows


def _is_fitted(model: Any) -> bool:
    if not hasattr(model, "fit"):
        return True
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _fitted(model: Any, X: Any) -> Any:
    if X is None:
        raise ValueError(f"X is missing: this {type(model).__name__} is not fitted yet")
    return clone(model).fit(X)


def _names(
    density: Density, model: Any, X: Any, feature_names: Sequence[str] | None
) -> tuple[str, ...]:
    sources = (
        feature_names,
        getattr(model, "feature_names_in_", None),
        getattr(X, "columns", None),
        getattr(density, "feature_names", None),
    )
    default = [f"feature {i}" for i in range(density.n_features)]
    names = tuple(map(str, next((known for known in sources if known is not None), default)))
    if len(names) != density.n_features:
        raise ValueError(f"feature_names must be {density.n_features} names, got {len(names)}")
    return names


def _check_samples(subject: Subject) -> None:
    """Raise an error unless the samples are those of the fit."""
    X, labels = subject.X, subject.labels
    if X is not None and labels is not None and len(labels) != len(X):
        raise ValueError(
            f"X must be the {len(labels)} samples that the model was fitted to, got {len(X)}"
        )
    is_mapped = getattr(subject.density, "maps", None) is not None
    if X is not None and subject.ordering is not None and not is_mapped and not _agrees(X, subject):
        raise ValueError(
            "X must be the samples that the model was fitted to, but these differ from them"
        )


def _agrees(X: np.ndarray, subject: Subject) -> bool:
    """Return whether no sample is farther from its predecessor than its reachability.

    Features with a map are left out: samples were ordered by their distances after the map. So are
    features of few values, by which AutoROME does not order samples.
    """
    ordering: Any = subject.ordering
    maps = getattr(subject.density, "maps", None) or ()
    scale = getattr(subject.model, "scale_", 1.0)
    mapped = [j for j, each in enumerate(maps) if type(each) is not FeatureMap]
    X = np.delete(X / scale, [*mapped, *getattr(subject.model, "categories_", ())], axis=1)
    rows = np.flatnonzero(ordering.predecessor >= 0)
    steps = np.linalg.norm(X[rows] - X[ordering.predecessor[rows]], axis=1)
    # Rounded values were spread by up to half a unit before samples were ordered.
    spread = float(np.linalg.norm(getattr(subject.model, "resolution_", 0.0) / scale))
    slack = 1e-9 * float(np.abs(X).max(initial=0.0)) + spread
    return bool((steps <= ordering.reachability[rows] * (1 + 1e-6) + slack).all())


def thin(subject: Subject, n_points: int, kept: np.ndarray) -> np.ndarray:
    """Return ``n_points`` samples, evenly spread over the ordering, and those of ``kept``.

    Neighbors in the ordering are neighbors in space. Every k-th sample of the ordering therefore
    represents the density with less variance than a random subset, and clusters keep their shares.
    """
    if subject.X is None:
        return np.empty(0, dtype=np.int64)
    n_samples = len(subject.X)
    if n_samples <= n_points:
        return np.arange(n_samples)
    places = (np.arange(n_points) * n_samples) // n_points
    order = np.lexsort(subject.X.T) if subject.ordering is None else subject.ordering.order
    return np.union1d(order[places], kept)
