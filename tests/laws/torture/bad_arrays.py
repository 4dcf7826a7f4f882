"""Samples that are none: a clear ValueError or TypeError, and nothing else."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from .checks import refused
from .data import hills
from .registry import family, group

case = group("bad arrays")


def _with(value, row, column):
    X = hills()
    X[row, column] = value
    return X


def _as_lists_with(value):
    rows = hills().tolist()
    rows[3][1] = value
    return rows


def _masked():
    return np.ma.masked_array(hills(), mask=hills() > 6)


def _frame_with(**columns):
    X = hills()
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1]}).assign(**columns)


def _structured():
    return np.array([(1.0, 2.0), (2.0, 1.0), (0.0, 0.0)], dtype=[("a", float), ("b", float)])


#: Functions that return what is no array of samples.
BAD = {
    "NaN in the first place": lambda: _with(np.nan, 0, 0),
    "NaN in the last place": lambda: _with(np.nan, -1, -1),
    "a row of NaN": lambda: _with(np.nan, 5, slice(None)),
    "infinity": lambda: _with(np.inf, 7, 0),
    "minus infinity": lambda: _with(-np.inf, 7, 1),
    "both infinities in one column": lambda: _with(np.inf, 1, 0) + _with(-np.inf, 2, 0),
    "an infinity of 32 bits": lambda: _with(np.inf, 7, 0).astype(np.float32),
    "None among numbers": lambda: _as_lists_with(None),
    "a word among numbers": lambda: _as_lists_with("three"),
    "words": lambda: [["one", "two"], ["three", "four"], ["five", "six"]],
    "bytes": lambda: np.array([[b"a", b"b"], [b"c", b"d"], [b"e", b"f"]]),
    "complex numbers": lambda: hills() * (1 + 1j),
    "a complex number among real ones": lambda: _as_lists_with(1j),
    "a vector": lambda: hills()[:, 0],
    "a vector as a list": lambda: [0.0, 1.0, 2.0, 3.0],
    "a cube": lambda: hills().reshape(12, 4, 2),
    "a single number": lambda: 3.0,
    "an array without dimension": lambda: np.array(3.0),
    "None": lambda: None,
    "no rows": lambda: np.empty((0, 2)),
    "no columns": lambda: np.empty((48, 0)),
    "an empty list": lambda: [],
    "rows of different length": lambda: [[0.0, 1.0], [2.0], [3.0, 4.0, 5.0]],
    "a sparse matrix": lambda: sparse.csr_matrix(hills()),
    "masked values": _masked,
    "dates": lambda: np.arange(0, 96).astype("datetime64[D]").reshape(48, 2),
    "spans of time as objects": lambda: [[datetime.timedelta(i), 1.0] for i in range(9)],
    "records": _structured,
    "a dictionary": lambda: {"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0]},
    "a set": lambda: {1.0, 2.0, 3.0},
    "a generator": lambda: (row for row in hills()),
    "a text": lambda: "samples.csv",
    "a function": lambda: hills,
    "lists inside an array": lambda: np.array([[[1.0], 2.0], [3.0, [4.0]], [5.0, 6.0]], object),
    "a table with a column of words": lambda: _frame_with(c=["x"] * 48),
    "a table with a column of dates": lambda: _frame_with(c=pd.date_range("2020", periods=48)),
    "a table with a missing value": lambda: _frame_with(c=pd.array([1, None] * 24, dtype="Int64")),
    "a polars table with a missing value": lambda: pl.DataFrame({"a": [1.0, None, 2.0]}),
    "numbers too large for 64 bits": lambda: [[10**400, 1.0], [1.0, 2.0], [3.0, 4.0]],
}


@family(case, "fit refuses {}", BAD)
def _(subject, bad):
    refused(lambda: subject.fit(bad()))
