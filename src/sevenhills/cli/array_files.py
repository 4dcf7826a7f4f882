"""npy, npz and parquet."""

import io
import zipfile
from typing import IO, Any

import numpy as np

from ..decoding import Archive, check_unpacked, decoding, read_npy
from ..extras import import_extra
from .numbers import Notation
from .screen import listed
from .tables import Column, ColumnBuilder, Table, distinct, made_up

#: The member that only a model file has.
_MODEL_MEMBER = "header.json"


def is_model(file: IO[bytes]) -> bool:
    """Whether a file is a model file rather than data."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _MODEL_MEMBER in archive.namelist()
    except Exception:  # there is no common error for files that are no archives
        return False
    finally:
        file.seek(0)


def npy_table(file: IO[bytes], source: str) -> Table:
    """Read an array of numpy."""
    return _table_of_array(read_npy(file, source), source)


def npz_table(file: IO[bytes], source: str) -> Table:
    """Read an archive of numpy: its only array, the one called X, or arrays that are columns."""
    archive = Archive(file, source)
    if _MODEL_MEMBER in archive.files:
        raise ValueError(f"{source} is a model, but data are needed here")
    if not archive.files or not all(name.endswith(".npy") for name in archive.files):
        raise ValueError(f"{source} is an archive, but not of arrays; save the table as csv")
    names = archive.names
    if len(names) == 1 or "X" in names:
        return _table_of_array(archive.read("X" if "X" in names else names[0]), source)
    arrays = {name: archive.read(name) for name in names}
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


def _table_of_array(array: np.ndarray, source: str) -> Table:
    if array.dtype.names:
        records = array.reshape(-1)
        for name in array.dtype.names:
            if records[name].ndim > 1 or records[name].dtype.names:
                raise ValueError(f"{source}: field {name!r} must hold one number in every row")
        return Table(
            source, tuple(_column(name, records[name]) for name in array.dtype.names), True
        )
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


def parquet_table(file: IO[bytes], source: str) -> Table:
    """Read a parquet file; dates, truth values and words are no numbers."""
    parquet = import_extra("pyarrow.parquet", "parquet", "reading parquet needs pyarrow")
    n_packed = file.seek(0, io.SEEK_END)
    with decoding(source):
        content = parquet.ParquetFile(file)
        about = content.metadata
        groups = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
    check_unpacked(sum(groups), n_packed, source)
    with decoding(source):
        table = content.read()
        names, _ = distinct(table.column_names)
        columns = tuple(
            _arrow_column(name, column) for name, column in zip(names, table.columns, strict=True)
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
