"""Samples that are spread over partitions: what comes in, and answers in the same shape."""

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from ..extras import import_extra
from ..validation import without_tensors

#: A task that is still to be done, or its result somewhere else.
Delayed = Any
#: Rows in a partition of samples that are given in one piece.
_N_ROWS = 2**17
#: What pyarrow calls an index that has no name; it is no feature.
_INDEX = "__index_level_"
#: What dask takes for a parquet file in a folder.
_SUFFIXES = (".parquet", ".parq", ".pq")
#: The kinds of numpy's numbers that become floats as they are.
_NUMBERS = "biuf"


def dask_module(name: str) -> Any:
    """Import a module of dask, or say how to install it."""
    return import_extra(name, "dask", "samples on more than one machine need dask")


def task(function: Callable[..., Any]) -> Callable[..., Delayed]:
    """Return the function whose calls are tasks for dask."""
    delayed: Callable[..., Delayed] = dask_module("dask").delayed(function, pure=False)
    return delayed


def constant(value: Any) -> Delayed:
    """Return a value that many tasks need, to be sent once."""
    return dask_module("dask").delayed(value, traverse=False, pure=False)


class Features(NamedTuple):
    """What every partition must have."""

    number: int
    columns: tuple[Any, ...] | None = None  #: those of a frame

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns, if all of them are strings."""
        columns = self.columns
        named = columns is not None and all(isinstance(each, str) for each in columns)
        return columns if named else None


class Partitions:
    """Samples in partitions, none of them here.

    Parameters
    ----------
    parts : sequence of Delayed
        Arrays or frames, as they were given.
    features : Features
    given : dask array or DataFrame
        What they are the partitions of.
    """

    def __init__(self, parts: Sequence[Delayed], features: Features, given: Any) -> None:
        self.parts = tuple(parts)
        self.features = features
        self._given = given

    @classmethod
    def of(cls, X: Any) -> "Partitions":
        """Return the partitions of a dask array or frame, of parquet files, or of samples at hand.

        Parameters
        ----------
        X : dask array, dask DataFrame, str, path or array-like
            A string or path is that of a parquet file or of a folder of them, or a pattern.
        """
        if isinstance(X, str | PathLike):
            return cls._of_frame(_read_parquet(fspath(X)))
        if not is_lazy(X):
            return cls._at_hand(X)
        if isinstance(X, dask_module("dask.array").Array):
            return cls._of_array(X)
        if hasattr(type(X), "divisions"):
            return cls._of_frame(X)
        raise TypeError(f"X must be a dask array or DataFrame, got a {type(X).__name__}")

    @classmethod
    def _of_array(cls, X: Any) -> "Partitions":
        if X.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, got {X.ndim}; X[:, None] is one feature of many "
                "samples, X[None] one sample of many features"
            )
        if X.dtype.kind not in _NUMBERS:
            raise ValueError(f"X must hold numbers, got dtype {X.dtype}")
        if not X.shape[1] > 0:
            raise ValueError("X must have features, and their number must be known")
        X = X.rechunk({1: -1})
        return cls(X.to_delayed().ravel().tolist(), Features(X.shape[1]), X)

    @classmethod
    def _of_frame(cls, X: Any) -> "Partitions":
        if X.ndim != 2:
            raise ValueError("X must have two dimensions, got a Series; use X.to_frame()")
        if len(X.columns) == 0:
            raise ValueError("X must have features, got a frame without columns")
        _check_dtypes(X._meta, "X")
        X = X.optimize()
        features = Features(len(X.columns), tuple(X.columns))
        return cls(X.to_delayed(optimize_graph=False), features, X)

    @classmethod
    def _at_hand(cls, X: Any) -> "Partitions":
        columns = getattr(X, "columns", None)
        # NaN is left to be found where its partition is known.
        values = check_array(
            without_tensors(X), dtype=np.float64, ensure_all_finite=False, input_name="X"
        )
        found = cls._of_array(dask_module("dask.array").from_array(values, chunks=(_N_ROWS, -1)))
        if columns is None:
            return found
        return cls(found.parts, found.features._replace(columns=tuple(columns)), found._given)

    def __len__(self) -> int:
        return len(self.parts)

    def each(self, function: Callable[..., Any], *args: Any) -> list[Delayed]:
        """Return what a function makes of the rows of every partition and other arguments."""
        return [self.one(i, function, *args) for i in range(len(self))]

    def one(self, i: int, function: Callable[..., Any], *args: Any) -> Delayed:
        """Return what a function makes of the rows of one partition and other arguments."""
        return task(_on_rows)(function, self.parts[i], i, self.features, *args)

    def answers(self, values: Sequence[Delayed], name: str, dtype: type) -> Any:
        """Return one number for every row as a dask array or Series, partitioned as samples are."""
        if hasattr(self._given, "chunks"):
            return self._array_of(values, dtype)
        frames, pandas = dask_module("dask.dataframe"), dask_module("pandas")
        named = task(_as_series)
        series = [named(each, part, name) for each, part in zip(values, self.parts, strict=True)]
        return frames.from_delayed(
            series,
            meta=pandas.Series([], dtype=dtype, name=name),
            divisions=self._given.divisions,
            verify_meta=False,
        )

    def _array_of(self, values: Sequence[Delayed], dtype: type) -> Any:
        arrays, chunks = dask_module("dask.array"), (self._given.chunks[0],)
        # Of unknown sizes at first, because concatenate drops arrays that are known to be empty.
        pieces = [arrays.from_delayed(each, (np.nan,), dtype) for each in values]
        joined = arrays.concatenate(pieces, allow_unknown_chunksizes=True)
        return joined.map_blocks(np.asarray, chunks=chunks, dtype=dtype)


def is_lazy(X: Any) -> bool:
    """Whether samples are dask's, or in files, so that answers should be lazy, too."""
    is_dask: bool = dask_module("dask").is_dask_collection(X)
    return is_dask or isinstance(X, str | PathLike)


def _read_parquet(path: str) -> Any:
    """Return the frame in parquet files, if all have the same columns.

    dask would take the columns of the first file for those of all.
    """
    system, place = dask_module("fsspec.core").url_to_fs(path)
    files = _parquet_files(system, place)
    if not files:
        raise FileNotFoundError(f"there are no parquet files at {path}")
    columns = [_columns_in(system, file) for file in files]
    for file, each in zip(files, columns, strict=True):
        if each != columns[0]:
            raise ValueError(f"{file} has the columns {each}, but {files[0]} has {columns[0]}")
    return dask_module("dask.dataframe").read_parquet(path)


def _parquet_files(system: Any, place: str) -> list[str]:
    if not system.isdir(place):
        return sorted(system.glob(place))
    return sorted(each for each in system.find(place) if each.endswith(_SUFFIXES))


def _columns_in(system: Any, file: str) -> list[str]:
    with system.open(file) as stream:
        names = dask_module("pyarrow.parquet").read_schema(stream).names
    return [name for name in names if not name.startswith(_INDEX)]


def _on_rows(
    function: Callable[..., Any], part: Any, i: int, features: Features, *args: Any
) -> Any:
    return function(_checked_rows(part, i, features), *args)


def _checked_rows(part: Any, i: int, features: Features) -> np.ndarray:
    """Return a partition as an array of floats, or say what is wrong with it."""
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
    """Refuse a pandas frame with columns that are not numbers."""
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
