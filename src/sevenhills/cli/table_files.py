"""Tables from a path or from standard input, in any known format."""

import gzip
import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..atomic_write import naming
from ..decoding import Archive, check_unpacked, decoding
from ..extras import import_extra
from .columns import Table, table_of_cells
from .csv_dialects import read_csv, table_with_header
from .options import Layout
from .screen import listed

#: A member that only model files have.
_MODEL_MEMBER = "header.json"
#: The folder that only spreadsheets have.
_SPREADSHEET_FOLDER = "xl/"
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_BLANKS = b" \t\r\n\xef\xbb\xbf"
#: Bytes that are unpacked at a time.
_BLOCK_BYTES = 2**20


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
        return _unzipped(file, source) if is_zipped else file


def _unzipped(file: IO[bytes], source: str) -> IO[bytes]:
    n_packed = _size(file)
    out = io.BytesIO()
    stream = gzip.GzipFile(fileobj=file)
    while True:
        with decoding(source):
            block = stream.read(_BLOCK_BYTES)
        if not block:
            out.seek(0)
            return out
        check_unpacked(out.tell() + len(block), n_packed, source)
        out.write(block)


def _size(file: IO[bytes]) -> int:
    """Return the number of bytes of a file, and go back to its start."""
    n_bytes = file.seek(0, io.SEEK_END)
    file.seek(0)
    return n_bytes


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
    other = _read_json_lines if _is_json(path, start) else read_csv
    readers = (read for magic, read in _READERS.items() if start.startswith(magic))
    with naming(source):
        return next(readers, other)(file, source, layout)


def _is_json(path: str, start: bytes) -> bool:
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    return suffix in _JSON_SUFFIXES or (path == "-" and start.lstrip(_BLANKS)[:1] in (b"{", b"["))


def is_model(file: IO[bytes]) -> bool:
    """Return whether a file is a model file rather than data."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _MODEL_MEMBER in archive.namelist()
    except Exception:  # zipfile raises many kinds of errors for other files
        return False
    finally:
        file.seek(0)


def _frame(content: Any, source: str) -> Any:
    """Return arrays or rows as a data frame."""
    pandas = import_extra("pandas", "cli", "reading tables needs pandas")
    with decoding(source):
        return pandas.DataFrame(content)


def _read_npy(file: IO[bytes], source: str, layout: Layout) -> Table:
    with decoding(source):
        array = np.lib.format.read_array(file, allow_pickle=False)
    return _table_of_array(array, source)


def _read_zip(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read a spreadsheet, or an archive of arrays: its only one, the one called X, or columns."""
    archive = Archive(file, source)
    if _MODEL_MEMBER in archive.files:
        raise ValueError(f"{source} is a model, but data are needed here")
    if any(name.startswith(_SPREADSHEET_FOLDER) for name in archive.files):
        check_unpacked(archive.n_bytes, _size(file), source)
        return _read_spreadsheet(file, source, layout)
    if not archive.files or not all(name.endswith(".npy") for name in archive.files):
        raise ValueError(f"{source} is an archive, but not of arrays; save the table as csv")
    names = archive.names
    if len(names) == 1 or "X" in names:
        return _table_of_array(archive.read("X" if "X" in names else names[0]), source)
    arrays = {name: archive.read(name) for name in names}
    try:
        cells = _frame(arrays, source)
    except ValueError as error:
        raise ValueError(
            f"{source} holds the arrays {listed(arrays)}; it must hold one, one called X, or "
            "columns of equal length"
        ) from error
    return table_of_cells(source, cells, has_names=True)


def _table_of_array(array: np.ndarray, source: str) -> Table:
    has_names = bool(array.dtype.names)
    if has_names:
        array = array.reshape(-1)
    elif array.ndim not in (1, 2):
        raise ValueError(f"{source} must hold rows and columns, but has shape {array.shape}")
    return table_of_cells(source, _frame(array, source), has_names)


def _read_parquet(file: IO[bytes], source: str, layout: Layout) -> Table:
    parquet = import_extra("pyarrow.parquet", "parquet", "reading parquet needs pyarrow")
    n_packed = _size(file)
    with decoding(source):
        content = parquet.ParquetFile(file)
        about = content.metadata
        groups = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
    check_unpacked(sum(groups), n_packed, source)
    with decoding(source):
        frame = content.read().to_pandas(ignore_metadata=True)
    return table_of_cells(source, frame, has_names=True)


def _read_spreadsheet(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read the first sheet of an xlsx file."""
    pandas = import_extra("pandas", "cli", "reading xlsx needs pandas")
    import_extra("python_calamine", "cli", "reading xlsx needs python-calamine")
    with decoding(source):
        book = pandas.ExcelFile(file, engine="calamine")
        cells = pandas.read_excel(book, header=None, na_filter=False)
    if cells.empty:
        raise ValueError(f"{source} is empty: its first sheet has no cells")
    remarks = []
    if len(book.sheet_names) > 1:
        remarks.append(f"{source}: only the first of its sheets was read: {book.sheet_names[0]}")
    return table_with_header(source, cells, ".", layout, remarks)


def _read_json_lines(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read an object, or an array, from every line, or an array of these."""
    rows = list(_json_rows(file, source))
    if not rows:
        raise ValueError(f"{source} is empty: there is no row")
    has_names = isinstance(rows[0], dict)
    if not all(isinstance(row, dict if has_names else list) for row in rows):
        raise ValueError(f"{source}: every line must be an object, or every line an array")
    if not has_names and len({len(row) for row in rows}) > 1:
        raise ValueError(f"{source}: the rows are not equally long")
    return table_of_cells(source, _frame(rows, source), has_names)


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
