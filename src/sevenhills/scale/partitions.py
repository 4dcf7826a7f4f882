"""Lazy data sets in partitions: input, one task for each partition, and collections of results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from ..extras import import_extra
from ..validation import without_tensors

#: A dask.Delayed: a task, or its result in a worker.
Delayed = Any
#: Rows in a partition of an array in memory, 1 MB for each feature.
_N_ROWS = 2**17
#: The prefix of pyarrow's column for an index without a name, which is not a feature.
_INDEX = "__index_level_"
#: The suffixes by which dask finds parquet files in a folder.
_SUFFIXES = (".parquet", ".parq", ".pq")
#: The kinds of numpy dtypes that are converted to floats.
_NUMBERS = "biuf"
#: Results that one task of a tree merges, as in dask.bag.
_FAN_IN = 8


def dask_module(name: str) -> Any:
    """Import a module that the extra ``dask`` installs."""
    return import_extra(name, "dask", "samples on more than one machine need dask")


def task(function: Callable[..., Any]) -> Callable[..., Delayed]:
    """Return a function whose calls are tasks of dask."""
    delayed: Callable[..., Delayed] = dask_module("dask").delayed(function, pure=False)
    return delayed


def constant(value: Any) -> Delayed:
    """Return a value as a task, so that many tasks can use it and it is sent once."""
    return dask_module("dask").delayed(value, traverse=False, pure=False)


class Features(NamedTuple):
    """The number and the columns of features, which all partitions share."""

    number: int
    columns: tuple[Any, ...] | None = None  #: None for arrays

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns, if all of them are strings."""
        columns = self.columns
        named = columns is not None and all(isinstance(each, str) for each in columns)
        return columns if named else None

    def check_equal(self, expected: "Features") -> None:
        """Raise an error unless these features of X are those of the density."""
        if self.number != expected.number:
            raise ValueError(f"X has {self.number} features, but the density has {expected.number}")
        names, known = self.names, expected.names
        if names is not None and known is not None and names != known:
            raise ValueError(
                f"X has the features {list(names)}, but the density has {list(known)}, in this "
                "order"
            )


@dataclass(frozen=True, eq=False)
class Partitions:
    """A partitioned data set."""

    parts: list[Delayed]  #: the partitions, each an array or a frame
    features: Features
    source: Any  #: the dask array or DataFrame of these partitions
    is_lazy: bool = True  #: False for data in memory, for which results are computed at once

    @classmethod
    def from_data(cls, X: Any, expected: Features | None = None) -> "Partitions":
        """Return the partitions of a dask array or frame, of parquet files, or of an array-like.

        A string or path is a parquet file, a folder of parquet files, or a pattern. Features must
        be those that are expected.
        """
        if isinstance(X, str | PathLike):
            found = cls._from_frame(_read_parquet(fspath(X)))
        elif not dask_module("dask").is_dask_collection(X):
            found = cls._from_memory(X)
        elif isinstance(X, dask_module("dask.array").Array):
            found = cls._from_array(X)
        elif hasattr(type(X), "divisions"):
            found = cls._from_frame(X)
        else:
            raise TypeError(f"X must be a dask array or DataFrame, got a {type(X).__name__}")
        if expected is not None:
            found.features.check_equal(expected)
        return found

    @classmethod
    def _from_array(cls, X: Any) -> "Partitions":
        if X.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, got {X.ndim}; X[:, None] is one feature of many "
                "samples, X[None] one sample of many features"
            )
        if not X.shape[1] > 0:
            raise ValueError("X must have features, and their number must be known")
        X = X.rechunk({1: -1})
        return cls(X.to_delayed().ravel().tolist(), Features(X.shape[1]), X)

    @classmethod
    def _from_frame(cls, X: Any) -> "Partitions":
        if X.ndim != 2:
            raise ValueError("X must have two dimensions, got a Series; use X.to_frame()")
        if len(X.columns) == 0:
            raise ValueError("X must have features, got a frame without columns")
        X = X.optimize()
        features = Features(len(X.columns), tuple(X.columns))
        return cls(X.to_delayed(optimize_graph=False), features, X)

    @classmethod
    def _from_memory(cls, X: Any) -> "Partitions":
        columns = getattr(X, "columns", None)
        # NaN is found later, where the error can name the partition.
        values = check_array(
            without_tensors(X), dtype=np.float64, ensure_all_finite=False, input_name="X"
        )
        found = cls._from_array(dask_module("dask.array").from_array(values, chunks=(_N_ROWS, -1)))
        columns = None if columns is None else tuple(columns)
        return replace(found, features=Features(found.features.number, columns), is_lazy=False)

    def map(self, function: Callable[..., Any], *args: Any) -> list[Delayed]:
        """Return the tasks ``function(rows, *args)``, one for each partition."""
        return [self.map_one(i, function, *args) for i in range(len(self.parts))]

    def map_one(self, i: int, function: Callable[..., Any], *args: Any) -> Delayed:
        """Return the task ``function(rows, *args)`` for partition ``i``."""
        return task(_on_rows)(function, self.parts[i], i, self.features, *args)

    def to_collection(self, values: Sequence[Delayed], name: str, dtype: type) -> Any:
        """Return one number for every row as a dask array or Series with the same partitions.

        The numbers of data in memory are computed.
        """
        if hasattr(self.source, "chunks"):
            return self._to_array(values, dtype)
        frames, pandas = dask_module("dask.dataframe"), dask_module("pandas")
        named = task(_as_series)
        series = [named(each, part, name) for each, part in zip(values, self.parts, strict=True)]
        return frames.from_delayed(
            series,
            meta=pandas.Series([], dtype=dtype, name=name),
            divisions=self.source.divisions,
            verify_meta=False,
        )

    def _to_array(self, values: Sequence[Delayed], dtype: type) -> Any:
        arrays, chunks = dask_module("dask.array"), (self.source.chunks[0],)
        # Their sizes are declared last, because concatenate drops arrays of size zero.
        pieces = [arrays.from_delayed(each, (np.nan,), dtype) for each in values]
        joined = arrays.concatenate(pieces, allow_unknown_chunksizes=True)
        out = joined.map_blocks(np.asarray, chunks=chunks, dtype=dtype)
        return out if self.is_lazy else out.compute()


def _read_parquet(path: str) -> Any:
    """Return the frame in parquet files, which must have the same columns.

    dask checks only the first file.
    """
    system, location = dask_module("fsspec.core").url_to_fs(path)
    files = _parquet_files(system, location)
    if not files:
        raise FileNotFoundError(f"there are no parquet files at {path}")
    columns = [_columns(system, file) for file in files]
    for file, each in zip(files, columns, strict=True):
        if each != columns[0]:
            raise ValueError(f"{file} has the columns {each}, but {files[0]} has {columns[0]}")
    return dask_module("dask.dataframe").read_parquet(path)


def _parquet_files(system: Any, location: str) -> list[str]:
    if not system.isdir(location):
        return sorted(system.glob(location))
    return sorted(each for each in system.find(location) if each.endswith(_SUFFIXES))


def _columns(system: Any, file: str) -> list[str]:
    with system.open(file) as stream:
        names = dask_module("pyarrow.parquet").read_schema(stream).names
    return [name for name in names if not name.startswith(_INDEX)]


def _on_rows(
    function: Callable[..., Any], part: Any, i: int, features: Features, *args: Any
) -> Any:
    return function(_checked_rows(part, i, features), *args)


def _checked_rows(part: Any, i: int, features: Features) -> np.ndarray:
    """Return a partition as an array of floats; errors name the partition."""
    where = f"partition {i} of X"
    if isinstance(part, np.ma.MaskedArray):
        raise ValueError(f"{where} is a masked array; fill or drop the masked values first")
    if len(part) == 0:
        return np.empty((0, features.number))
    if hasattr(part, "columns"):
        if tuple(part.columns) != features.columns:
            raise ValueError(
                f"{where} has the columns {list(part.columns)}, but X has "
                f"{list(features.columns or ())}"
            )
        _check_dtypes(part, where)
        part = part.to_numpy(dtype=np.float64, na_value=np.nan)
    rows = np.asarray(part)
    if rows.dtype.kind not in _NUMBERS:
        raise ValueError(f"{where} must hold numbers, got dtype {rows.dtype}")
    if rows.ndim != 2 or rows.shape[1] != features.number:
        raise ValueError(f"{where} has shape {rows.shape}, but X has {features.number} features")
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise ValueError(f"{where} holds NaN or infinity, first in its row {finite.argmin()}")
    return rows


def _check_dtypes(frame: Any, where: str) -> None:
    """Raise an error for a pandas frame with columns that are not real numbers."""
    is_number = dask_module("pandas").api.types.is_numeric_dtype
    others = {
        str(column): str(dtype)
        for column, dtype in frame.dtypes.items()
        if not is_number(dtype) or getattr(dtype, "kind", "f") == "c"
    }
    if others:
        raise ValueError(f"{where} must hold numbers, got columns of other dtypes: {others}")


def _as_series(values: np.ndarray, part: Any, name: str) -> Any:
    return dask_module("pandas").Series(values, index=part.index, name=name)


def reduce_tree(parts: Sequence[Delayed], combine: Callable[..., Any], *args: Any) -> Delayed:
    """Reduce results in a tree of tasks ``combine(list_of_results, *args)``."""
    combined, level = task(combine), list(parts)
    while len(level) > 1:
        level = [
            combined(level[i : i + _FAN_IN], *args) if len(level) - i > 1 else level[i]
            for i in range(0, len(level), _FAN_IN)
        ]
    return level[0]
