"""What comes in is checked here, once; errors name the argument and what is wrong with it."""

import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

#: Weights that add up to less than this cannot be divided by.
_LEAST_WEIGHT = 1e-100
#: The largest difference between logarithms of a determinant that were computed in two ways.
_SAME_LOG_DET = 1e-3


def check_samples(estimator: Any, X: Any, *, reset: bool, missing: bool = False) -> np.ndarray:
    """Return ``X`` as a new C-contiguous float64 array; record its features if ``reset``.

    NaN is refused unless values may be ``missing``.
    """
    X = without_tensors(X)
    if _is_plain(X):
        _check_features(estimator, X, reset)
        return np.array(X, order="C")
    finite = "allow-nan" if missing else True
    with _clear_errors(X):
        out = validate_data(
            estimator,
            X,
            dtype=np.float64,
            order="C",
            copy=True,
            reset=reset,
            ensure_all_finite=finite,
        )
    return np.ascontiguousarray(out)


def without_tensors(values: Any) -> Any:
    """Return a tensor as an array, whatever its device and precision; all else as it is."""
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    values = values.detach().cpu()
    # numpy has no such type, but floats of 32 bits hold all of its values.
    is_short = "bfloat16" in str(getattr(values, "dtype", ""))
    return np.asarray(values.float() if is_short else values)


def _check_features(estimator: Any, X: np.ndarray, reset: bool) -> None:
    """Record or compare the features of an array; there are no names to look for in it."""
    if reset:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
    elif estimator.n_features_in_ != X.shape[1] or hasattr(estimator, "feature_names_in_"):
        validate_data(estimator, X, reset=False, skip_check_array=True)


def check_queries(
    X: Any, n_features: int, names: Sequence[str] | None = None, *, missing: bool = False
) -> np.ndarray:
    """Return points at which a density of ``n_features`` is asked for as a float64 array.

    Columns that have names must be those of the density, if it knows them; NaN is refused unless
    values may be ``missing``.
    """
    X = without_tensors(X)
    if not _is_plain(X):
        _check_columns(X, names)
        finite = "allow-nan" if missing else True
        with _clear_errors(X):
            X = check_array(
                X, dtype=np.float64, order="C", ensure_all_finite=finite, input_name="X"
            )
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
    """Whether there is nothing to convert or to refuse, which is most of the cost of checking."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.size > 0
        and bool(np.isfinite(X).all())
    )


@contextmanager
def _clear_errors(X: Any) -> Iterator[None]:
    """Refuse what scikit-learn would take, and say clearly what it would not."""
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError("X is a masked array; fill or drop the masked values first")
    if _kind_of(X) in "mM":
        raise TypeError("X holds dates or times; turn them into numbers first")
    try:
        with np.errstate(invalid="ignore"):  # it adds infinities up to find them
            yield
    except OverflowError as error:
        raise ValueError("X holds numbers that are too large for floats") from error


def _kind_of(X: Any) -> str:
    """Return the kind of the values of an array or a list of them."""
    try:
        return np.asarray(X).dtype.kind
    except (TypeError, ValueError):
        return "O"


def check_numbers(values: Any, name: str) -> np.ndarray:
    """Return values as an array of floats."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill or drop the masked values first")
    try:
        return np.asarray(without_tensors(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers: {error}") from error


def check_count(value: Any, name: str, least: int = 0) -> int:
    """Return a whole number that is not below ``least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return int(value)


def check_positive(value: Any, name: str, kind: str = "a number") -> float:
    """Return a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {kind}, got {value!r}")
    number = _as_float(value)
    if not 0 < number < np.inf:
        raise ValueError(f"{name} must be positive and finite, got {number}")
    return number


def _as_float(value: numbers.Real) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number can be larger than any float
        return np.inf


def check_min_std(value: Any) -> None:
    """Refuse a smallest standard deviation that is neither "auto" nor a number from zero on."""
    if not (isinstance(value, str) and value == "auto"):
        check_not_negative(value, "min_std", "a number or 'auto'")


def check_not_negative(value: Any, name: str, kind: str = "a number") -> float:
    """Return a finite number from zero on."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {kind}, got {value!r}")
    number = _as_float(value)
    if not 0 <= number < np.inf:
        raise ValueError(f"{name} must be finite and not negative, got {number}")
    return number


def check_n_jobs(n_jobs: Any) -> None:
    """Refuse a number of threads that is neither None nor a whole number other than zero."""
    if n_jobs is None:
        return
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral):
        raise TypeError(f"n_jobs must be a whole number or None, got {n_jobs!r}")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; it is a number of threads, -1 for one per core")


def check_flag(value: Any, name: str) -> None:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Refuse a value that is none of the choices."""
    if not any(
        value is choice or (isinstance(value, str) and value == choice) for choice in choices
    ):
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}")


def check_labels(labels: Any, n_samples: int, name: str = "labels") -> np.ndarray:
    """Return cluster labels as int64, -1 being noise."""
    if isinstance(labels, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill or drop the masked values first")
    out = np.asarray(without_tensors(labels))
    if out.shape != (n_samples,):
        raise ValueError(f"{name} must have shape ({n_samples},), got {out.shape}")
    if out.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be whole numbers, got dtype {out.dtype}")
    if out.dtype.kind == "f" and not (np.isfinite(out) & (out == np.round(out))).all():
        raise ValueError(f"{name} must be whole numbers, got others")
    if (out < -1).any():
        raise ValueError(f"{name} must not be below -1, which stands for noise")
    return out.astype(np.int64)


def check_weights(sample_weight: Any, n_samples: int) -> np.ndarray | None:
    """Return the weights of samples as a new float64 array, None if there are none."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, np.ma.MaskedArray):
        raise TypeError("sample_weight is a masked array; fill or drop the masked values first")
    given = np.asarray(without_tensors(sample_weight))
    if given.dtype.kind not in "biufO":
        raise TypeError(f"sample_weight must be numbers, got dtype {given.dtype}")
    try:
        out = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError("sample_weight must be numbers") from error
    if out.ndim == 0:
        out = np.full(n_samples, out)
    if out.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {out.shape}")
    if not np.isfinite(out).all():
        raise ValueError("sample_weight must be finite, got NaN or infinity")
    if (out < 0).any():
        raise ValueError("sample_weight must not be negative")
    _check_total(out)
    return out


def _check_total(weights: np.ndarray) -> None:
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not _LEAST_WEIGHT < total < np.inf:
        what = "has nothing but zeros" if total == 0 else f"adds up to {total:g} samples"
        raise ValueError(f"sample_weight {what}")


def random_generator(random_state: Any) -> np.random.RandomState:
    """Return a generator for a seed, a generator or None, never numpy's global one."""
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
    """Raise an error unless an array of a record has a kind, a shape, and values in a range.

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
    check_field(values, name, "i", (len(values),))
    if len(values) < 2 or values[0] != 0 or values[-1] != n_rows or (np.diff(values) < 1).any():
        raise ValueError(f"{name} must rise from 0 to {n_rows}")


def check_log_dets(log_dets: Any, transforms: np.ndarray) -> None:
    """Raise an error unless these are the logarithms of the transforms' determinants."""
    found = np.linalg.slogdet(transforms)[1]
    if not np.isfinite(found).all():
        raise ValueError("transforms must not be singular")
    if not (np.abs(found - log_dets) <= _SAME_LOG_DET).all():
        raise ValueError("log_dets must be those of the transforms")


def freeze(value: Any, *names: str) -> None:
    """Replace arrays of an immutable value by copies that cannot be written to."""
    for name in names:
        array = np.array(getattr(value, name), order="C")
        array.flags.writeable = False
        object.__setattr__(value, name, array)


def unfitted_copy(estimator: BaseEstimator) -> Any:
    """Return a clone of an estimator that is not fitted.

    Parameters that are numbers, strings or None need no copy. ``clone`` would copy them, too, which
    takes as long as a twentieth of a small fit.
    """
    is_plain = all(
        isinstance(value, str | int | float | None) for value in vars(estimator).values()
    )
    return copy(estimator) if is_plain else clone(estimator)


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Put an estimator back into its state if what follows fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
