"""Tables from a path or from standard input, in any known format."""

import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..atomic_write import naming
from ..decoding import Archive, check_unpacked, decoding, read_npy, unzipped
from ..extras import import_extra
from .columns import Table, column_from_cells, default_names, distinct_names, table_from_arrays
from .csv_dialects import HEAD_ROWS, is_header, name_columns, read_csv
from .options import Layout
from .screen import listed

#: A member that only model files have.
_MODEL_MEMBER = "header.json"
#: The folder that only spreadsheets have.
_SPREADSHEET_FOLDER = "xl/"
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_BLANKS = b" \t\r\n\xef\xbb\xbf"


def read_table(path: str, layout: Layout | None = None) -> Table:
    """Read a file, or standard input if the path is ``-``."""
    with opened(path) as file:
        return table_of(file, path, layout or Layout())


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file, a pipe or standard input as an unzipped, seekable file."""
    if path == "-":
        yield _seekable(sys.stdin.buffer, "standard input")
        return
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder, but a file is needed")
    with open(path, "rb") as file:
        yield _seekable(file, path)


def _seekable(file: IO[bytes], source: str) -> IO[bytes]:
    with naming(source):
        if file is sys.stdin.buffer or not file.seekable():
            file = io.BytesIO(file.read())
        is_zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return unzipped(file, source) if is_zipped else file


def table_of(file: IO[bytes], path: str, layout: Layout) -> Table:
    """Read an open file.

    Binary formats are recognized by their first bytes, JSON lines by the name of the file or, on
    standard input, by their first bracket. Everything else is csv.
    """
    source = "standard input" if path == "-" else path
    start = file.read(64)
    file.seek(0)
    if not start:
        raise ValueError(f"{source} is empty")
    with naming(source):
        other = _read_json_lines if _is_json(path, start) else read_csv
        readers = (read for magic, read in _READERS.items() if start.startswith(magic))
        table = next(readers, other)(file, source, layout)
    _check_names(table)
    return table


def _is_json(path: str, start: bytes) -> bool:
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    return suffix in _JSON_SUFFIXES or (path == "-" and start.lstrip(_BLANKS)[:1] in (b"{", b"["))


def _check_names(table: Table) -> None:
    """Refuse names that cannot be written to any file."""
    for name in table.names:
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise ValueError(
                f"{table.source}: column {name!a} cannot be written as UTF-8, because it holds "
                "half of a surrogate pair; rename it"
            )


def is_model(file: IO[bytes]) -> bool:
    """Return whether a file is a model file rather than data."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _MODEL_MEMBER in archive.namelist()
    except Exception:  # zipfile raises many kinds of errors for other files
        return False
    finally:
        file.seek(0)


def _read_npy(file: IO[bytes], source: str, layout: Layout) -> Table:
    return _table_from_array(read_npy(file, source), source)


def _read_zip(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read a spreadsheet, or an archive of arrays: its only one, the one called X, or columns."""
    archive = Archive(file, source)
    if _MODEL_MEMBER in archive.files:
        raise ValueError(f"{source} is a model, but data are needed here")
    if any(name.startswith(_SPREADSHEET_FOLDER) for name in archive.files):
        return _read_spreadsheet(file, source, layout)
    if not archive.files or not all(name.endswith(".npy") for name in archive.files):
        raise ValueError(f"{source} is an archive, but not of arrays; save the table as csv")
    names = archive.names
    if len(names) == 1 or "X" in names:
        return _table_from_array(archive.read("X" if "X" in names else names[0]), source)
    arrays = {name: archive.read(name) for name in names}
    lengths = {len(array) if array.ndim == 1 else None for array in arrays.values()}
    if len(lengths) > 1 or None in lengths:
        raise ValueError(
            f"{source} holds the arrays {listed(arrays)}; it must hold one, one called X, or "
            "columns of equal length"
        )
    return table_from_arrays(source, names, arrays.values())


def _table_from_array(array: np.ndarray, source: str) -> Table:
    if array.dtype.names:
        fields = [array.reshape(-1)[name] for name in array.dtype.names]
        for name, field in zip(array.dtype.names, fields, strict=True):
            if field.ndim > 1 or field.dtype.names:
                raise ValueError(f"{source}: field {name!r} must hold one number in every row")
        return table_from_arrays(source, array.dtype.names, fields)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{source} must hold rows and columns, but has shape {array.shape}")
    return table_from_arrays(source, default_names(array.shape[1]), array.T, has_names=False)


def _arrays_of(frame: Any) -> list[np.ndarray]:
    return [frame.iloc[:, i].to_numpy() for i in range(frame.shape[1])]


def _read_parquet(file: IO[bytes], source: str, layout: Layout) -> Table:
    parquet = import_extra("pyarrow.parquet", "parquet", "reading parquet needs pyarrow")
    n_packed = file.seek(0, io.SEEK_END)
    with decoding(source):
        content = parquet.ParquetFile(file)
        about = content.metadata
        groups = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
    check_unpacked(sum(groups), n_packed, source)
    with decoding(source):
        frame = content.read().to_pandas(ignore_metadata=True)
        names, remarks = distinct_names(frame.columns, source)
        return table_from_arrays(source, names, _arrays_of(frame), remarks=remarks)


def _read_spreadsheet(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read the first sheet of an xlsx file."""
    pandas = import_extra("pandas", "cli", "reading xlsx needs pandas")
    import_extra("python_calamine", "cli", "reading xlsx needs python-calamine")
    with decoding(source), zipfile.ZipFile(file) as archive:
        n_unpacked = sum(member.file_size for member in archive.infolist())
    check_unpacked(n_unpacked, file.seek(0, io.SEEK_END), source)
    file.seek(0)
    with decoding(source):
        book = pandas.ExcelFile(file, engine="calamine")
        frame = pandas.read_excel(book, header=None, na_filter=False)
    if frame.empty:
        raise ValueError(f"{source} is empty: its first sheet has no cells")
    head = frame.iloc[:HEAD_ROWS].astype(str).to_numpy().tolist()
    has_names = is_header(head, ".") if layout.header is None else layout.header
    names, remarks = name_columns(head[0], has_names, source, layout)
    if len(book.sheet_names) > 1:
        remarks.append(f"{source}: only the first of its sheets was read: {book.sheet_names[0]}")
    body = frame.iloc[int(has_names) :].infer_objects()
    if body.empty:
        raise ValueError(f"{source} has a header but no rows")
    return table_from_arrays(source, names, _arrays_of(body), has_names, remarks)


def _read_json_lines(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read an object, or an array, from every line, or an array of these."""
    rows = list(_json_rows(file, source))
    if not rows:
        raise ValueError(f"{source} is empty: there is no row")
    if all(isinstance(row, dict) for row in rows):
        keys = list(dict.fromkeys(chain.from_iterable(rows)))
        names, remarks = distinct_names(keys, source)
        columns = map(column_from_cells, names, ([row.get(key) for row in rows] for key in keys))
        return Table(source, tuple(columns), True, tuple(remarks))
    if not all(isinstance(row, list) for row in rows):
        raise ValueError(f"{source}: every line must be an object, or every line an array")
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"{source}: the rows are not equally long")
    columns = map(column_from_cells, default_names(len(rows[0])), zip(*rows, strict=True))
    return Table(source, tuple(columns), False)


def _json_rows(file: IO[bytes], source: str) -> Iterator[Any]:
    text = file.read().decode("utf-8-sig", errors="replace")
    try:
        whole = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        whole = None  # arrays, one in every line
    if isinstance(whole, list) and whole and all(isinstance(row, dict | list) for row in whole):
        yield from whole
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except RecursionError as error:
                raise ValueError(f"{source}: line {number} is nested too deeply") from error
            except ValueError as error:
                raise ValueError(f"{source}: line {number} is not JSON: {error}") from error


#: Readers of binary formats, by the first bytes of their files.
_READERS: dict[bytes, Callable[[IO[bytes], str, Layout], Table]] = {
    b"\x93NUMPY": _read_npy,
    b"PK": _read_zip,
    b"PAR1": _read_parquet,
}
