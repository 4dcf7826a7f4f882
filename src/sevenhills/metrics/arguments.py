"""Checks of the arguments of metrics: samples, log densities and densities."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_array

from ..validation import check_count, check_numbers, clear_errors, without_tensors


class UnnormalizedWarning(UserWarning):
    """A metric was computed for a density that does not integrate to one."""


@dataclass(frozen=True)
class Points:
    """Samples, with the name that error messages use."""

    name: str
    values: np.ndarray
    given: Any = None  # the argument itself, which may have feature names; None for drawn samples

    def __len__(self) -> int:
        return len(self.values)


def check_points(X: Any, name: str) -> Points:
    """Return at least one sample, all finite, of shape (n_samples, n_features)."""
    X = without_tensors(X)
    try:
        with clear_errors(X, name):
            values = check_array(X, dtype=np.float64, order="C", input_name=name)
    except ValueError as error:
        raise ValueError(
            f"{name} must hold samples of shape (n_samples, n_features): {error}"
        ) from error
    return Points(name, values, X)


def check_same_width(X: Points, Y: Points) -> None:
    """Refuse samples with different numbers of features."""
    n, m = X.values.shape[1], Y.values.shape[1]
    if n != m:
        raise ValueError(f"{Y.name} has {m} features, but {X.name} has {n}")


def check_pair(X: Any, Y: Any) -> tuple[Points, Points]:
    """Return two sets of samples with the same number of features."""
    first, second = check_points(X, "X"), check_points(Y, "Y")
    check_same_width(first, second)
    return first, second


def distances(X: Points, Y: Points, rows: slice = slice(None)) -> np.ndarray:
    """Return the distances of the given rows of X, by default all, to all rows of Y."""
    check_same_width(X, Y)
    out = cdist(X.values[rows], Y.values)
    if not np.isfinite(out).all():
        raise ValueError(f"{X.name} and {Y.name} are too far apart: their distances overflow")
    return out


def is_array(value: Any) -> bool:
    """Whether a value is data and not a density; frames also have a method ``sample``."""
    return isinstance(value, np.ndarray | list | tuple) or hasattr(value, "__array__")


def check_log_densities(values: Any, name: str, n_dimensions: tuple[int, ...] = (1,)) -> np.ndarray:
    """Return log densities as an array without NaN and plus infinity."""
    out = check_numbers(values, name)
    if out.ndim not in n_dimensions or out.size == 0:
        shapes = " or ".join(f"{n}-D" for n in n_dimensions)
        raise ValueError(f"{name} must be a {shapes} array of log densities, got shape {out.shape}")
    _refuse_bad(out, f"{name} contains", "")
    return out


def check_log_density_pair(
    first: Any, second: Any, names: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays of log densities of the same length."""
    a, b = check_log_densities(first, names[0]), check_log_densities(second, names[1])
    if len(a) != len(b):
        raise ValueError(
            f"{names[0]} and {names[1]} must have the same length, got {len(a)} and {len(b)}"
        )
    return a, b


def _refuse_bad(values: np.ndarray, who: str, where: str) -> None:
    """Raise an error that counts log densities of NaN or plus infinity and names the first."""
    for bad, word in ((np.isnan(values), "NaN"), (values == np.inf, "plus infinity")):
        if bad.any():
            rows = bad if bad.ndim == 1 else bad.any(axis=1)
            raise ValueError(
                f"{who} {word} at {bad.sum()} of {bad.size} points, first in row "
                f"{rows.argmax()}{where}"
            )


@dataclass(frozen=True)
class Density:
    """A density, with the name of its argument."""

    value: Any
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({type(self.value).__name__})"

    def __post_init__(self) -> None:
        value, is_class = self.value, isinstance(self.value, type)
        if is_class or not (hasattr(value, "score_samples") or hasattr(value, "logpdf")):
            got = f"the class {value.__name__}" if is_class else type(value).__name__
            raise TypeError(
                f"{self.name} must have score_samples or logpdf, or be an array of log "
                f"densities, got {got}"
            )

    def logpdf(self, points: Points) -> np.ndarray:
        """Return the checked log densities at points."""
        values = np.asarray(self._evaluate(points), dtype=np.float64)
        if values.size != len(points):
            raise ValueError(
                f"{self} must give one log density for each of the {len(points)} rows of "
                f"{points.name}, got shape {values.shape}"
            )
        values = values.reshape(len(points))
        _refuse_bad(values, f"{self} gives", f" of {points.name}")
        return values

    def _evaluate(self, points: Points) -> Any:
        evaluate = getattr(self.value, "score_samples", None) or self.value.logpdf
        if getattr(self.value, "feature_names_in_", None) is None:
            return evaluate(points.values)
        if points.given is not None:
            return evaluate(points.given)
        with warnings.catch_warnings():
            # Drawn samples have no feature names, and the caller cannot add them.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return evaluate(points.values)

    def warn_if_unnormalized(self, figure: str, stacklevel: int) -> None:
        """Warn if the density does not integrate to one."""
        if not getattr(self.value, "is_normalized", True):
            warnings.warn(
                f"{self} does not integrate to one; the {figure} assumes a probability density, "
                "so it cannot be interpreted or compared with that of other densities",
                UnnormalizedWarning,
                stacklevel=stacklevel + 1,
            )


def draw(density: Any, name: str, n_samples: int, rng: np.random.RandomState) -> Points:
    """Return samples of a density."""
    n_samples = check_count(n_samples, "n_samples", least=1)
    if isinstance(density, type) or not callable(getattr(density, "sample", None)):
        raise TypeError(
            f"{name} ({type(density).__name__}) must have sample(n_samples, random_state), "
            "because samples of it are needed"
        )
    drawn = density.sample(n_samples, random_state=rng)
    return Points(f"the sample of {name}", check_points(drawn, f"the sample of {name}").values)
