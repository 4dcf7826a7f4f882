"""The subject of a report: a fitted model and the samples that it was fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..clustering import Candidates, Ordering
from ..density import Density, KernelMixture
from ..estimators import ROME
from ..validation import check_queries


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model and its samples.

    Attributes
    ----------
    model : estimator or density
    density : Density
        The fitted density.
    X : ndarray of shape (n_samples, n_features) or None
        The samples, if they are known.
    names : tuple of str
        The names of the features.
    rows : ndarray of shape (n_samples,) or None
        The names of the samples, which are their indices by default.
    """

    model: Any
    density: Density
    X: np.ndarray | None
    names: tuple[str, ...]
    rows: np.ndarray | None = None

    def name_of_row(self, row: int) -> str:
        """Return the name of a sample."""
        return str(row if self.rows is None else self.rows[row])

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
    def labels(self) -> np.ndarray | None:
        """The cluster of every sample, if the model has any."""
        return getattr(self.model, "labels_", None)

    @property
    def clusters(self) -> tuple[Any, ...]:
        """Summaries of the clusters, if the model has any."""
        return getattr(self.model, "clusters_", ())

    @property
    def ordering(self) -> Ordering | None:
        """The ordering by reachability, if there is one."""
        return getattr(self.model, "ordering_", None)

    @property
    def candidates(self) -> Candidates | None:
        """The candidate clusterings, if there was a choice."""
        return getattr(self.model, "candidates_", None)

    @property
    def n_samples(self) -> int | None:
        """The number of samples that the model was fitted to, if it is known."""
        known = self.X if self.X is not None else self.labels
        return None if known is None else len(known)

    @property
    def n_jobs(self) -> int | None:
        """The number of threads of the model."""
        return getattr(self.model, "n_jobs", None)


def make_subject(
    given: Any, X: Any, feature_names: Sequence[str] | None, rows: Any = None
) -> Subject:
    """Return the subject of a report; a model that is not fitted is fitted first."""
    if isinstance(given, type):
        raise TypeError(f"model_or_data must be a model or samples, got the class {given.__name__}")
    if not hasattr(given, "score_samples") and not hasattr(given, "logpdf"):
        if X is not None:
            raise ValueError("model_or_data must be a model where X is given, got samples")
        given, X = ROME(), given
    model = _fitted(given, X)
    density = getattr(model, "density_", model)
    if not isinstance(density, Density):
        raise TypeError(
            f"model_or_data must be samples, a density or an estimator of this package that has "
            f"fitted one, got {type(given).__name__}"
        )
    samples = None if X is None else check_queries(X, density.n_features)
    _check_rows(model, samples)
    if samples is None and not density.is_normalized:
        raise ValueError(f"X is missing: a {type(density).__name__} cannot be drawn from")
    names = _names(density, model, X, feature_names)
    return Subject(model, density, samples, names, _row_names(rows, samples))


def _row_names(rows: Any, X: np.ndarray | None) -> np.ndarray | None:
    if rows is None:
        return None
    rows = np.asarray(rows)
    n_samples = 0 if X is None else len(X)
    if rows.shape != (n_samples,):
        raise ValueError(f"rows must name the {n_samples} samples, got shape {rows.shape}")
    return rows


def _fitted(model: Any, X: Any) -> Any:
    if not hasattr(model, "fit"):
        return model
    try:
        check_is_fitted(model)
    except NotFittedError:
        if X is None:
            raise ValueError(
                f"X is missing: this {type(model).__name__} is not fitted yet"
            ) from None
        return clone(model).fit(X)
    return model


def _check_rows(model: Any, X: np.ndarray | None) -> None:
    labels = getattr(model, "labels_", None)
    if X is not None and labels is not None and len(labels) != len(X):
        raise ValueError(
            f"X must be the {len(labels)} samples that the model was fitted to, got {len(X)}"
        )
    ordering = getattr(model, "ordering_", None)
    # Rounded values were spread by up to half a unit before samples were ordered.
    slack = float(np.linalg.norm(getattr(model, "resolution_", 0.0)))
    if X is not None and ordering is not None and not _agrees_with(X, ordering, slack):
        raise ValueError(
            "X must be the samples that the model was fitted to, but these differ from them"
        )


def _agrees_with(X: np.ndarray, ordering: Ordering, slack: float) -> bool:
    """Return whether no sample is farther from its predecessor than its reachability."""
    rows = np.flatnonzero(ordering.predecessor >= 0)
    steps = np.linalg.norm(X[rows] - X[ordering.predecessor[rows]], axis=1)
    rounding = 1e-9 * float(np.abs(X).max()) + slack
    return bool((steps <= ordering.reachability[rows] * (1 + 1e-6) + rounding).all())


def _names(
    density: Any, model: Any, X: Any, feature_names: Sequence[str] | None
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


def thin(subject: Subject, n_points: int, kept: np.ndarray) -> np.ndarray:
    """Return a subset of the samples, evenly spread over the ordering.

    Neighbors in the ordering are neighbors in space. Every k-th sample of the ordering therefore
    represents the density with less variance than a random subset, and clusters keep their shares.
    The subset has at most ``n_points`` samples, and those of ``kept``.
    """
    if subject.X is None:
        return np.empty(0, dtype=np.int64)
    n_samples = len(subject.X)
    if n_samples <= n_points:
        return np.arange(n_samples)
    places = (np.arange(n_points) * n_samples) // n_points
    order = np.lexsort(subject.X.T) if subject.ordering is None else subject.ordering.order
    return np.union1d(order[places], kept)
