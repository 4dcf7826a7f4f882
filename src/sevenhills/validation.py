"""Checks of arguments; errors name the argument and the value found."""

import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import date, time, timedelta
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

#: Lower limit on the sum of weights, so that dividing by it cannot overflow.
_LEAST_WEIGHT = 1e-100
#: Upper limit on the difference between given and computed log determinants, far above rounding.
_SAME_LOG_DET = 1e-3
#: The ends of errors about NaN, where a method can do without the values.
IGNORE_MISSING = (
    "pass missing='marginal' to score_samples or logpdf for the density of the features that are "
    "present"
)
FILL_MISSING = "fill the values by impute(X) first"


def check_samples(
    estimator: Any, X: Any, *, reset: bool, missing: bool = False, remedy: str = ""
) -> np.ndarray:
    """Return ``X`` as a new C-contiguous float64 array.

    ``reset`` records the features of ``X``; otherwise they are compared with the recorded ones.
    ``missing`` allows NaN; errors about NaN end with the ``remedy`` of the method.
    """
    X = without_tensors(X)
    if _is_plain(X):
        _check_features(estimator, X, reset)
        return np.array(X, order="C")
    with clear_errors(X, missing=missing, remedy=remedy):
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
    X: Any,
    n_features: int,
    names: Sequence[str] | None = None,
    *,
    missing: bool = False,
    remedy: str = "",
) -> np.ndarray:
    """Return points at which a density is evaluated as a C-contiguous float64 array.

    ``n_features`` and ``names`` are those of the density; names are compared if both the density
    and ``X`` have them. ``missing`` and ``remedy`` are as in :func:`check_samples`.
    """
    X = without_tensors(X)
    if not _is_plain(X):
        _check_columns(X, names)
        with clear_errors(X, missing=missing, remedy=remedy):
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
def clear_errors(
    X: Any, name: str = "X", *, missing: bool = False, remedy: str = ""
) -> Iterator[None]:
    """Refuse masks and dates, which scikit-learn accepts, and name the cell of other errors."""
    _refuse_masked(X, name)
    _refuse_dates(X, name)
    try:
        with np.errstate(invalid="ignore"):  # scikit-learn sums X to find infinities
            yield
    except OverflowError as error:
        raise ValueError(f"{name} holds numbers that are too large for floats") from error
    except (TypeError, ValueError) as error:
        # Of names or a number of features, or of complex numbers, not of a cell.
        is_whole = "feature" in str(error) or "Complex" in str(error)
        found = None if is_whole else _describe_cell(X, name, error, missing, remedy)
        if found is None:
            raise
        raise type(error)(found) from error


def _refuse_dates(X: Any, name: str) -> None:
    """Refuse columns of dates and times."""
    if not hasattr(X, "columns") and _kind_of(X) not in "mM":
        return
    for j, column in enumerate(_columns_of(X)):
        is_polars = getattr(getattr(column, "dtype", None), "is_temporal", bool)()
        if is_polars or getattr(getattr(column, "dtype", None), "kind", "O") in "mM":
            raise TypeError(_describe_dates(X, name, j))


def _describe_dates(X: Any, name: str, j: int) -> str:
    return (
        f"{name} holds dates or times in {_name_of(X, j)}; turn them into numbers first, such as "
        "days since the first date"
    )


def _columns_of(X: Any) -> list[Any]:
    """Return the columns of a frame or of a table of two dimensions; none of other values."""
    if hasattr(X, "iloc"):
        return [X.iloc[:, j] for j in range(X.shape[1])] if X.ndim == 2 else []
    if hasattr(X, "get_columns"):  # of polars
        return list(X.get_columns())
    try:
        rows = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    except ValueError:  # rows of different lengths
        return []
    return list(rows.T) if rows.ndim == 2 else []


def _name_of(X: Any, j: int) -> str:
    """Return a column by name, or by position."""
    name = list(X.columns)[j] if hasattr(X, "columns") else j
    return f"column {name!r}"


def _first_of(X: Any, j: int, rows: np.ndarray, in_all: str = "") -> str:
    """Return a column and the first of some rows, by position and by its own label."""
    row = int(rows[0])
    label = X.index[row] if hasattr(X, "iloc") else row
    is_position = isinstance(label, numbers.Integral) and label == row
    remarks = [*([] if is_position else [f"index {label!r}"]), *([in_all] if in_all else [])]
    return f"{_name_of(X, j)}, row {row}" + (f" ({'; '.join(remarks)})" if remarks else "")


class _Column(NamedTuple):
    """The values of a column that are no numbers, or not finite, by their rows."""

    words: np.ndarray
    missing: np.ndarray
    infinite: np.ndarray
    n_rows: int

    @classmethod
    def from_values(cls, values: Any) -> "_Column":
        """Sort out the values of a column."""
        try:
            if np.iscomplexobj(values):  # numpy would drop the imaginary parts
                raise TypeError
            found = np.asarray(values, dtype=np.float64)
            words = np.empty(0, dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            read = [_number(each) for each in np.asarray(values, dtype=object)]
            words = np.flatnonzero([each is None for each in read])
            found = np.array([0.0 if each is None else each for each in read])
        missing, infinite = np.flatnonzero(np.isnan(found)), np.flatnonzero(np.isinf(found))
        return cls(words, missing, infinite, len(found))


def _number(value: Any) -> float | None:
    """Return a value as a number, NaN if it is missing, None if it is something else."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
    except OverflowError:
        return np.inf


def _describe_cell(X: Any, name: str, error: Exception, missing: bool, remedy: str) -> str | None:
    """Return a message about the first cell that is no number, or not finite; None without any."""
    table = list(enumerate(map(_Column.from_values, given := _columns_of(X))))
    for j, column in table:
        if len(column.words):
            value = np.asarray(given[j], dtype=object)[column.words[0]]
            return _describe_word(X, name, j, column, value, error, missing)
    for j, column in table:
        if len(column.missing) and not missing:
            rows = np.unique(np.concatenate([each.missing for _, each in table]))
            in_all = f"{len(rows)} rows in all" if len(rows) > 1 else ""
            where = _first_of(X, j, column.missing, in_all)
            text = f"Input {name} contains NaN in {where}; leave such rows out"
            return f"{text}, or {remedy}" if remedy else text
    for j, column in table:
        if len(column.infinite):
            where = _first_of(X, j, column.infinite)
            return f"Input {name} contains infinity in {where}; leave such rows out"
    return None


def _describe_word(
    X: Any, name: str, j: int, column: _Column, value: Any, error: Exception, missing: bool
) -> str:
    """Return a message about a value that is no number."""
    if isinstance(value, date | time | timedelta):
        return _describe_dates(X, name, j)
    if not isinstance(value, str | bytes):
        return f"{name} has {value!r:.60} in {_first_of(X, j, column.words)}: {error}"
    if len(column.words) + len(column.missing) == column.n_rows:
        return (
            f"{name} has words in {_name_of(X, j)}, such as {value!r:.60}; leave the column out, "
            "or replace the words by numbers"
        )
    n_words = len(column.words)
    where = _first_of(X, j, column.words, f"{n_words} words in all" if n_words > 1 else "")
    instead = "turn it into a number or NaN" if missing else "turn it into a number"
    return f"{name} has the word {value!r:.60} in {where}; {instead}, or leave the row out"


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
        found = _first_word(values) or error
        raise TypeError(f"{name} must be an array of numbers: {found}") from error


def _first_word(values: Any) -> str:
    """Return the first value of a column that is no number, and its row."""
    if np.ndim(values) != 1 or not len(words := _Column.from_values(values).words):
        return ""
    return f"got {np.asarray(values, dtype=object)[words[0]]!r:.60} in row {words[0]}"


def first_not_finite(values: np.ndarray) -> str:
    """Return the first value of a column that is not finite, and its row."""
    row = int(np.flatnonzero(~np.isfinite(values))[0])
    return f"{values[row]} in row {row}"


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
    is_plain = value is None or isinstance(value, str)  # others may not be comparable
    if not (value in choices if is_plain else any(value is each for each in choices)):
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
        raise ValueError(f"sample_weight must be finite, got {first_not_finite(out)}")
    if (out < 0).any():
        row = int(np.flatnonzero(out < 0)[0])
        raise ValueError(f"sample_weight must not be negative, got {out[row]:g} in row {row}")
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
