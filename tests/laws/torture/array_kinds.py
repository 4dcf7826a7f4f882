"""The same numbers in another container: the same density."""

import tempfile
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

from .checks import check, refused, same
from .data import fitted, hills, points, whole_numbers
from .registry import family, group

case = group("array kinds")

#: Values that are the same are turned into the same numbers; only sums may differ in order.
_EQUAL = 1e-9


def _spread_out(X, rows, columns):
    """Return a view of every so many-th row and column of a larger array."""
    larger = np.full((len(X) * rows, X.shape[1] * columns), np.nan)
    larger[::rows, ::columns] = X
    return larger[::rows, ::columns]


def _backwards(X):
    return X[::-1, ::-1].copy()[::-1, ::-1]


def _read_only(X):
    X.flags.writeable = False
    return X


def _mapped(X):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npy"
        np.save(path, X)
        return np.load(path, mmap_mode="r")


class _Labelled(np.ndarray):
    """An array with something more to it."""


class _Convertible:
    """What is no array, but can be made one."""

    def __init__(self, X):
        self._X = X

    def __array__(self, dtype=None, copy=None):
        return np.array(self._X, dtype=dtype)


def _frame(X, dtype=None):
    frame = pd.DataFrame(X, columns=["a", "b"])
    return frame if dtype is None else frame.astype(dtype)


def _objects(X, kind):
    out = np.empty(X.shape, dtype=object)
    for place, value in np.ndenumerate(X):
        out[place] = kind(int(value))
    return out


#: Whole numbers from 0 to 120 in other containers.
KINDS = {
    "a list of lists": lambda X: X.tolist(),
    "a list of arrays": list,
    "floats of 32 bits": lambda X: X.astype(np.float32),
    "floats of 16 bits": lambda X: X.astype(np.float16),
    "long doubles": lambda X: X.astype(np.longdouble),
    "integers of 8 bits": lambda X: X.astype(np.int8),
    "unsigned integers of 8 bits": lambda X: X.astype(np.uint8),
    "integers of 64 bits": lambda X: X.astype(np.int64),
    "column order": np.asfortranarray,
    "every second row of an array": lambda X: _spread_out(X, 2, 1),
    "every third column of an array": lambda X: _spread_out(X, 1, 3),
    "an array read backwards": _backwards,
    "a read-only array": _read_only,
    "floats of the other byte order": lambda X: X.astype(">f8"),
    "a file mapped into memory": _mapped,
    "a subclass of arrays": lambda X: X.view(_Labelled),
    "an object that can be made an array": _Convertible,
    "a memory view": memoryview,
    "numbers as objects": lambda X: X.astype(object),
    "fractions": lambda X: _objects(X, Fraction),
    "decimals": lambda X: _objects(X, Decimal),
    "a pandas table": _frame,
    "a pandas table of whole and other numbers": lambda X: _frame(X, {"a": "int32", "b": "f4"}),
    "a pandas table of nullable types": lambda X: _frame(X, {"a": "Int64", "b": "Float64"}),
    "a pandas table with an odd index": lambda X: _frame(X).set_index(np.arange(len(X)) % 3),
    "a pandas table of Arrow types": lambda X: _frame(X, "double[pyarrow]"),
    "a polars table": lambda X: pl.DataFrame({"a": X[:, 0], "b": X[:, 1].astype(int)}),
}


@cache
def _plain(subject):
    X = whole_numbers()
    return subject.fit(X).score_samples(X[::3])


@family(case, "samples may come as {}", KINDS)
def _(subject, kind):
    model = subject.fit(kind(whole_numbers()))
    same(model.score_samples(kind(whole_numbers()[::3].copy())), _plain(subject), _EQUAL)


@case("samples may be true or false")
def _(subject):
    X = np.random.RandomState(0).uniform(size=(30, 2)) < [0.3, 0.6]
    found = subject.fit(X).score_samples(X.astype(float))
    same(found, subject.fit(X.astype(float)).score_samples(X.astype(float)), _EQUAL)


@case("a numpy matrix is refused, or the same as an array")
def _(subject):
    X = whole_numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # numpy's, of all matrices
        matrix = np.asmatrix(X)
    try:
        model = subject.fit(matrix)
    except (TypeError, ValueError):
        return
    same(model.score_samples(X[::3]), _plain(subject), _EQUAL)


@case("whole numbers as text are refused, or the same as numbers")
def _(subject):
    X = whole_numbers()
    try:
        model = subject.fit(X.astype(str))
    except (TypeError, ValueError):
        return
    same(model.score_samples(X[::3]), _plain(subject), _EQUAL)


_QUERIES = {
    "lists": lambda X: X.tolist(),
    "floats of 32 bits": lambda X: X.astype(np.float32),
    "unsigned integers of 8 bits": lambda X: X.astype(np.uint8),
    "integers of 64 bits": lambda X: X.astype(np.int64),
    "columns": np.asfortranarray,
    "a view": lambda X: _spread_out(X, 2, 3),
    "an array read backwards": _backwards,
    "a read-only array": _read_only,
    "floats of the other byte order": lambda X: X.astype(">f8"),
    "objects": lambda X: X.astype(object),
}


@family(case, "queries may come as {}", _QUERIES)
def _(subject, kind):
    X = np.round(np.abs(points()))
    model = fitted(subject)
    same(model.score_samples(kind(X.copy())), model.score_samples(X), 1e-12)


@case("the names of features are kept", needs=["estimator"])
def _(subject):
    model = subject.fit(_frame(hills()))
    check(list(model.feature_names_in_) == ["a", "b"], "feature_names_in_ are others")
    check(model.n_features_in_ == 2, "n_features_in_ is wrong")
    same(model.score_samples(_frame(points())), fitted(subject).score_samples(points()), _EQUAL)


@case("queries with other names of features are refused", needs=["estimator"])
def _(subject):
    model = subject.fit(_frame(whole_numbers()))
    refused(lambda: model.score_samples(_frame(points()).rename(columns={"b": "c"})), "names")


@case("queries with features in another order are refused", needs=["estimator"])
def _(subject):
    model = subject.fit(_frame(whole_numbers()))
    refused(lambda: model.score_samples(_frame(points())[["b", "a"]]), "order")
