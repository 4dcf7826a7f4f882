"""npy, npz and parquet."""

import zipfile
from typing import IO, Any

import numpy as np

from ..extras import import_extra
from .numbers import Notation
from .screen import listed
from .tables import Column, ColumnBuilder, Table, distinct, made_up

#: The member that only a model file has.
_MODEL_MEMBER = "header.json"


def is_model(file: IO[bytes]) -> bool:
    """Whether a file is a model file rather than data."""
    return _MODEL_MEMBER in _members(file)


def _members(file: IO[bytes]) -> list[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return []
    finally:
        file.seek(0)


def read_npy(file: IO[bytes], source: str) -> Table:
    """Read an array of numpy."""
    return _table_of_array(_load(file, source), source)


def read_npz(file: IO[bytes], source: str) -> Table:
    """Read an archive of numpy: its only table, the one called X, or arrays that are columns."""
    members = _members(file)
    if _MODEL_MEMBER in members:
        raise ValueError(f"{source} is a model, but data are needed here")
    if not members or not all(name.endswith(".npy") for name in members):
        raise ValueError(f"{source} is an archive, but not of arrays; save the table as csv")
    arrays = dict(_load(file, source))
    if len(arrays) == 1:
        return _table_of_array(next(iter(arrays.values())), source)
    if "X" in arrays:
        return _table_of_array(arrays["X"], source)
    if (
        all(array.ndim == 1 for array in arrays.values())
        and len(set(map(len, arrays.values()))) == 1
    ):
        columns = tuple(_column(name, array) for name, array in arrays.items())
        return Table(source, columns, True)
    raise ValueError(
        f"{source} holds the arrays {listed(arrays)}; it must hold one, one called X, or columns "
        "of equal length"
    )


def _load(file: IO[bytes], source: str) -> Any:
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{source} cannot be read: {error}") from error


def _table_of_array(array: np.ndarray, source: str) -> Table:
    if array.dtype.names:
        columns = tuple(_column(name, array[name].reshape(-1)) for name in array.dtype.names)
        return Table(source, columns, True)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{source} must hold rows and columns, but has shape {array.shape}")
    names = made_up(array.shape[1])
    columns = tuple(_column(name, array[:, i]) for i, name in enumerate(names))
    return Table(source, columns, False)


def _column(name: str, values: np.ndarray) -> Column:
    if values.dtype.kind in "iuf":
        return Column(name, values.astype(np.float64))
    builder = ColumnBuilder(Notation("."))
    builder.add(values.tolist())
    return builder.build(name)


def read_parquet(file: IO[bytes], source: str) -> Table:
    """Read a parquet file; dates, truth values and words are no numbers."""
    parquet = import_extra("pyarrow.parquet", "parquet", "reading parquet needs pyarrow")
    try:
        content = parquet.read_table(file)
    except (ValueError, OSError) as error:
        raise ValueError(f"{source} cannot be read: {error}") from error
    names, _ = distinct(content.column_names)
    columns = tuple(
        _arrow_column(name, column) for name, column in zip(names, content.columns, strict=True)
    )
    return Table(source, columns, True)


def _arrow_column(name: str, column: Any) -> Column:
    pyarrow = import_extra("pyarrow", "parquet", "reading parquet needs pyarrow")
    if pyarrow.types.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    if pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type):
        return Column(name, column.cast(pyarrow.float64()).to_numpy().copy())
    builder = ColumnBuilder(Notation("."))
    builder.add(column.to_pylist())
    return builder.build(name)
