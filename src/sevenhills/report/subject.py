"""What a report is about: a fitted model and the samples that it was fitted to."""

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
        What it has fitted.
    X : ndarray of shape (n_samples, n_features) or None
        The samples, if they are known.
    names : tuple of str
        Of the features.
    rows : ndarray of shape (n_samples,) or None
        What the samples are called, if not by their numbers.
    """

    model: Any
    density: Density
    X: np.ndarray | None
    names: tuple[str, ...]
    rows: np.ndarray | None = None

    def name_of_row(self, row: int) -> str:
        """Return what a sample is called."""
        return str(row if self.rows is None else self.rows[row])

    @property
    def kind(self) -> str:
        """What the model is called."""
        return type(self.model).__name__

    @property
    def mixture(self) -> KernelMixture | None:
        """The density, if it is a mixture of kernels."""
        return self.density if isinstance(self.density, KernelMixture) else None

    @property
    def is_recipe(self) -> bool:
        """Whether the model can be fitted to other samples."""
        return hasattr(self.model, "fit")

    @property
    def can_be_sampled(self) -> bool:
        """Whether there is a probability to draw samples by."""
        return self.density.is_normalized

    @property
    def labels(self) -> np.ndarray | None:
        """The cluster of every sample, if the model has any."""
        return getattr(self.model, "labels_", None)

    @property
    def clusters(self) -> tuple[Any, ...]:
        """What became of every cluster, if the model has any."""
        return getattr(self.model, "clusters_", ())

    @property
    def ordering(self) -> Ordering | None:
        """The samples in order of reachability, if they were ordered."""
        return getattr(self.model, "ordering_", None)

    @property
    def candidates(self) -> Candidates | None:
        """The clusterings among which one was chosen, if there was a choice."""
        return getattr(self.model, "candidates_", None)

    @property
    def n_samples(self) -> int | None:
        """How many samples the model was fitted to, if that is known."""
        known = self.X if self.X is not None else self.labels
        return None if known is None else len(known)

    @property
    def n_jobs(self) -> int | None:
        """The number of threads of the model."""
        return getattr(self.model, "n_jobs", None)


def subject_of(
    given: Any, X: Any, feature_names: Sequence[str] | None, rows: Any = None
) -> Subject:
    """Return what to report about, fitting what is not fitted yet.

    Parameters
    ----------
    given : estimator, density, or samples
    X : samples or None
    feature_names : sequence of str or None
    rows : array-like or None
        What the samples are called.
    """
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
    # Rounded rows were spread by up to half a unit before they were ordered.
    slack = float(np.linalg.norm(getattr(model, "resolution_", 0.0)))
    if X is not None and ordering is not None and not _could_be_ordered_so(X, ordering, slack):
        raise ValueError("X must be the samples that the model was fitted to, these are others")


def _could_be_ordered_so(X: np.ndarray, ordering: Ordering, slack: float) -> bool:
    """Whether no sample is farther from the one it was reached from than it was said to be."""
    rows = np.flatnonzero(ordering.predecessor >= 0)
    steps = np.linalg.norm(X[rows] - X[ordering.predecessor[rows]], axis=1)
    rounding = 1e-9 * float(np.abs(X).max()) + slack
    return bool((steps <= ordering.reachability[rows] * (1 + 1e-6) + rounding).all())


def _names(
    density: Any, model: Any, X: Any, feature_names: Sequence[str] | None
) -> tuple[str, ...]:
    for known in (
        feature_names,
        getattr(model, "feature_names_in_", None),
        getattr(X, "columns", None),
        getattr(density, "feature_names", None),
    ):
        if known is not None:
            names = tuple(str(each) for each in known)
            break
    else:
        names = tuple(f"feature {i}" for i in range(density.n_features))
    if len(names) != density.n_features:
        raise ValueError(f"feature_names must be {density.n_features} names, got {len(names)}")
    return names
