"""Checks of arguments; errors name the argument and the value found."""

import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

#: Lower limit on the sum of weights, so that dividing by it cannot overflow.
_LEAST_WEIGHT = 1e-100
#: Upper limit on the difference between given and computed log determinants, far above rounding.
_SAME_LOG_DET = 1e-3


def check_samples(estimator: Any, X: Any, *, reset: bool, missing: bool = False) -> np.ndarray:
    """Return ``X`` as a new C-contiguous float64 array.

    ``reset`` records the features of ``X``; otherwise they are compared with the recorded ones.
    ``missing`` allows NaN.
    """
    X = without_tensors(X)
    if _is_plain(X):
        _check_features(estimator, X, reset)
        return np.array(X, order="C")
    with _clear_errors(X):
        out = validate_data(estimator, X, reset=reset, copy=True, **_floats(missing))
    return np.ascontiguousarray(out)


def _floats(missing: bool) -> dict[str, Any]:
    """Return the arguments of scikit-learn's checks for finite floats, or floats with NaN."""
    finite = "allow-nan" if missing else True
    return {"dtype": np.float64, "order": "C", "ensure_all_finite": finite}


def without_tensors(values: Any) -> Any:
    """Return a tensor of any device and precision as an array; return other values unchanged."""
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    values = values.detach().cpu()
    # numpy has no bfloat16; float32 holds all of its values.
    is_short = "bfloat16" in str(getattr(values, "dtype", ""))
    return np.asarray(values.float() if is_short else values)


def _check_features(estimator: Any, X: np.ndarray, reset: bool) -> None:
    """Record or compare the number of features of an array, which has no feature names."""
    if reset:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
    elif estimator.n_features_in_ != X.shape[1] or hasattr(estimator, "feature_names_in_"):
        validate_data(estimator, X, reset=False, skip_check_array=True)


def check_queries(
    X: Any, n_features: int, names: Sequence[str] | None = None, *, missing: bool = False
) -> np.ndarray:
    """Return points at which a density is evaluated as a C-contiguous float64 array.

    ``n_features`` and ``names`` are those of the density; names are compared if both the density
    and ``X`` have them. ``missing`` allows NaN.
    """
    X = without_tensors(X)
    if not _is_plain(X):
        _check_columns(X, names)
        with _clear_errors(X):
            X = check_array(X, input_name="X", **_floats(missing))
    if X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the density has {n_features}")
    return np.ascontiguousarray(X)


def _check_columns(X: Any, names: Sequence[str] | None) -> None:
    columns = getattr(X, "columns", None)
    if names is None or columns is None or not all(isinstance(each, str) for each in columns):
        return
    if list(columns) != list(names):
        raise ValueError(
            f"X has the features {list(columns)}, but the density has {list(names)}, in this order"
        )


def _is_plain(X: Any) -> bool:
    """Whether ``X`` is a valid float64 array, for which the slow checks can be skipped."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.size > 0
        and bool(np.isfinite(X).all())
    )


@contextmanager
def _clear_errors(X: Any) -> Iterator[None]:
    """Refuse masks and dates, which scikit-learn accepts, and clarify its errors."""
    _refuse_masked(X, "X")
    if _kind_of(X) in "mM":
        raise TypeError("X holds dates or times; turn them into numbers first")
    try:
        with np.errstate(invalid="ignore"):  # scikit-learn sums X to find infinities
            yield
    except OverflowError as error:
        raise ValueError("X holds numbers that are too large for floats") from error


def _kind_of(X: Any) -> str:
    """Return the kind of the dtype of an array-like."""
    try:
        return np.asarray(X).dtype.kind
    except (TypeError, ValueError):
        return "O"


def _refuse_masked(values: Any, name: str) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill or drop the masked values first")


def check_numbers(values: Any, name: str) -> np.ndarray:
    """Return values as an array of floats."""
    _refuse_masked(values, name)
    try:
        given = np.asarray(without_tensors(values))
        if given.dtype.kind not in "biufO":
            raise TypeError(f"got dtype {given.dtype}")
        return given.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers: {error}") from error


def check_count(value: Any, name: str, least: int = 0) -> int:
    """Return a whole number that is at least ``least``."""
    _check_type(value, numbers.Integral, name, "a whole number")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return int(value)


def check_positive(value: Any, name: str, kind: str = "a number") -> float:
    """Return a finite number above zero."""
    number = _check_real(value, name, kind)
    if not 0 < number < np.inf:
        raise ValueError(f"{name} must be positive and finite, got {number}")
    return number


def check_not_negative(value: Any, name: str, kind: str = "a number") -> float:
    """Return a finite number that is at least zero."""
    number = _check_real(value, name, kind)
    if not 0 <= number < np.inf:
        raise ValueError(f"{name} must be finite and not negative, got {number}")
    return number


def check_confidence(confidence: Any, name: str = "confidence") -> float:
    """Return a probability strictly between 0 and 1."""
    number = _check_real(confidence, name, "a number")
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {confidence!r}")
    return number


def _check_real(value: Any, name: str, kind: str) -> float:
    _check_type(value, numbers.Real, name, kind)
    try:
        return float(value)
    except OverflowError:  # a whole number can be larger than any float
        return np.inf


def _check_type(value: Any, number_type: type, name: str, kind: str) -> None:
    if isinstance(value, bool) or not isinstance(value, number_type):
        raise TypeError(f"{name} must be {kind}, got {value!r}")


def is_auto(value: Any) -> bool:
    """Whether a parameter, which may also be an array, is "auto"."""
    return isinstance(value, str) and value == "auto"


def check_min_std(value: Any) -> None:
    """Refuse a ``min_std`` that is neither "auto" nor a finite number that is at least zero."""
    if not is_auto(value):
        check_not_negative(value, "min_std", "a number or 'auto'")


def check_n_jobs(n_jobs: Any) -> None:
    """Refuse an ``n_jobs`` that is neither None nor a whole number other than zero."""
    if n_jobs is None:
        return
    _check_type(n_jobs, numbers.Integral, "n_jobs", "a whole number or None")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; give a number of workers, or -1 for one per core")


def check_flag(value: Any, name: str) -> None:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Refuse a value that is not one of the choices."""
    if not any(value is each or (isinstance(value, str) and value == each) for each in choices):
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}")


def check_labels(labels: Any, n_samples: int, name: str = "labels") -> np.ndarray:
    """Return cluster labels as int64, -1 for noise."""
    _refuse_masked(labels, name)
    out = np.asarray(without_tensors(labels))
    if out.shape != (n_samples,):
        raise ValueError(f"{name} must have shape ({n_samples},), got {out.shape}")
    if out.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be whole numbers, got dtype {out.dtype}")
    if out.dtype.kind == "f" and not (np.isfinite(out) & (out == np.round(out))).all():
        raise ValueError(f"{name} must be whole numbers, got fractions, NaN or infinity")
    if (out < -1).any():
        raise ValueError(f"{name} must be at least -1, the label of noise, got {out.min()}")
    return out.astype(np.int64)


def check_weights(sample_weight: Any, n_samples: int) -> np.ndarray | None:
    """Return sample weights as a new float64 array, or None if ``sample_weight`` is None."""
    if sample_weight is None:
        return None
    out = check_numbers(sample_weight, "sample_weight").copy()
    if out.ndim == 0:
        out = np.full(n_samples, out)
    if out.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {out.shape}")
    if not np.isfinite(out).all():
        raise ValueError("sample_weight must be finite, got NaN or infinity")
    if (out < 0).any():
        raise ValueError("sample_weight must not be negative")
    with np.errstate(over="ignore"):
        total = out.sum()
    if total == 0:
        raise ValueError("sample_weight has nothing but zeros")
    if not _LEAST_WEIGHT < total < np.inf:
        raise ValueError(f"sample_weight adds up to {total:g} samples")
    return out


def random_generator(random_state: Any) -> np.random.RandomState:
    """Return a RandomState for a seed, a generator or None; never numpy's global generator."""
    if random_state is None:
        return np.random.RandomState()
    if isinstance(random_state, np.random.RandomState):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.integers(2**32, dtype=np.uint32))
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        seed = int(random_state)
        if not 0 <= seed < 2**32:
            raise ValueError(f"random_state must be from 0 to 2**32 - 1, got {seed}")
        return np.random.RandomState(seed)
    raise TypeError(f"random_state must be an int, a generator or None, got {random_state!r}")


def check_field(
    values: np.ndarray,
    name: str,
    kind: str,
    shape: tuple[int, ...],
    least: float = -np.inf,
    most: float = np.inf,
) -> None:
    """Raise an error unless an array has the given kind and shape, and values in a range.

    The kinds are those of numpy: "f" for floats, "i" for integers, "U" for strings.
    """
    if values.dtype.kind != kind or values.shape != shape:
        raise ValueError(
            f"{name} must be an array of kind {kind!r} and shape {shape}, got {values.dtype} and "
            f"{values.shape}"
        )
    if kind != "U" and not ((values >= least) & (values <= most)).all():
        raise ValueError(f"{name} must hold values from {least:g} to {most:g}")


def check_permutation(values: np.ndarray, name: str) -> None:
    """Raise an error unless an array holds every index once."""
    check_field(values, name, "i", (len(values),))
    if len(values) == 0 or (np.sort(values) != np.arange(len(values))).any():
        raise ValueError(f"{name} must hold every index once")


def check_offsets(values: np.ndarray, name: str, n_rows: int) -> None:
    """Raise an error unless offsets rise from zero to the number of rows."""
    check_field(values, name, "i", values.shape[:1])
    if values.size < 2 or values[0] != 0 or values[-1] != n_rows or (np.diff(values) < 1).any():
        raise ValueError(f"{name} must rise from 0 to {n_rows}")


def check_log_dets(log_dets: Any, transforms: np.ndarray) -> None:
    """Raise an error unless ``log_dets`` are the log determinants of the transforms."""
    found = np.linalg.slogdet(transforms)[1]
    if not np.isfinite(found).all():
        raise ValueError("transforms must not be singular")
    if not (np.abs(found - log_dets) <= _SAME_LOG_DET).all():
        raise ValueError("log_dets must be the log determinants of the transforms")


def freeze(value: Any, *names: str) -> None:
    """Replace the named arrays of a frozen dataclass by read-only copies."""
    for name in names:
        array = np.array(getattr(value, name), order="C")
        array.flags.writeable = False
        object.__setattr__(value, name, array)


def unfitted_copy(estimator: BaseEstimator) -> Any:
    """Return a clone of an unfitted estimator.

    If all parameters are numbers, strings or None, a shallow copy does the same; ``clone`` takes a
    twentieth of the time of a small fit.
    """
    values = vars(estimator).values()
    is_plain = all(isinstance(value, str | int | float | None) for value in values)
    return copy(estimator) if is_plain else clone(estimator)


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Restore the state of an estimator if the body of the ``with`` statement fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
