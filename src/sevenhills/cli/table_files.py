"""Tables from a path or from standard input, in any known format."""

import codecs
import csv
import gzip
import io
import json
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..atomic_write import naming
from ..decoding import Archive, check_unpacked, decoding
from ..extras import import_extra
from .columns import Table, decimal_mark, default_names, is_number, number_in, table_of_cells
from .dates import days_in, hours_in
from .options import Layout
from .screen import listed, shortened

#: A member that only model files have.
_MODEL_MEMBER = "header.json"
#: How the names of members begin that only spreadsheets have.
_SPREADSHEET_MEMBERS = ("xl/", "content.xml")
#: Members that macOS adds to archives.
_MAC_FOLDER = "__MACOSX/"
#: The known formats in messages.
_FORMATS = "csv, xlsx, xls, ods, parquet, feather, npy, npz and JSON lines"
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_BLANKS = b" \t\r\n\xef\xbb\xbf"
#: Bytes that are unpacked at a time.
_BLOCK_BYTES = 2**20
#: The separator, the decimal mark and the header are recognized by these first bytes and rows.
_HEAD_BYTES = 2**18
_HEAD_ROWS = 200
_SEPARATORS = (",", ";", "\t", "|", " ")
#: Separator of a file with one column; it occurs in no text.
_NO_SEPARATOR = "\x1f"
_BYTE_ORDER_MARKS = {
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
#: The remedy for rows of different lengths.
_ADVICE = "is the --separator right, or a quote missing?"


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
    other = _read_json if _is_json(path, start) else _read_csv
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
    """Read a spreadsheet, the only file, or arrays: the only one, the one called X, or columns."""
    archive = Archive(file, source)
    if _MODEL_MEMBER in archive.files:
        raise ValueError(f"{source} is a model, but data are needed here")
    if any(name.startswith(_SPREADSHEET_MEMBERS) for name in archive.files):
        check_unpacked(archive.n_bytes, _size(file), source)
        return _read_spreadsheet(file, source, layout)
    files = [name for name in archive.files if not name.startswith(_MAC_FOLDER)]
    if len(files) == 1 and not files[0].endswith(".npy"):
        check_unpacked(archive.n_bytes, _size(file), source)
        return _read_member(archive.read_bytes(files[0]), f"{source}/{files[0]}", layout)
    if not files or not all(name.endswith(".npy") for name in files):
        raise ValueError(f"{source} must hold one table, but has {listed(files) or 'no file'}")
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


def _read_member(content: bytes, path: str, layout: Layout) -> Table:
    """Read the file of an archive, which must not be an archive itself."""
    if content.startswith(b"PK"):
        raise ValueError(f"{path} is an archive or a spreadsheet in an archive; unpack it first")
    return table_of(io.BytesIO(content), path, layout)


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


def _read_feather(file: IO[bytes], source: str, layout: Layout) -> Table:
    arrow = import_extra("pyarrow", "parquet", "reading feather needs pyarrow")
    ipc = import_extra("pyarrow.ipc", "parquet", "reading feather needs pyarrow")
    n_packed, n_bytes, batches = _size(file), 0, []
    with decoding(source):
        content = ipc.open_file(file)
    for i in range(content.num_record_batches):
        with decoding(source):
            batches.append(content.get_batch(i))
        n_bytes += batches[-1].nbytes
        check_unpacked(n_bytes, n_packed, source)
    with decoding(source):
        table = arrow.Table.from_batches(batches, content.schema)
        frame = table.to_pandas(ignore_metadata=True)
    return table_of_cells(source, frame, has_names=True)


def _read_spreadsheet(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read the named sheet of an xlsx, xls or ods file, or the first that has numbers."""
    pandas = import_extra("pandas", "cli", "reading spreadsheets needs pandas")
    import_extra("python_calamine", "cli", "reading spreadsheets needs python-calamine")
    with decoding(source):
        book = pandas.ExcelFile(file, engine="calamine")
    names = list(map(str, book.sheet_names))
    if layout.sheet is not None and layout.sheet not in names:
        raise ValueError(f"{source} has no sheet {layout.sheet!r}; it has {listed(names, 8)}")
    wanted = names if layout.sheet is None else [layout.sheet]
    sheets: dict[str, Any] = {}
    for name in wanted:
        with decoding(source):
            sheets[name] = pandas.read_excel(book, sheet_name=name, header=None, na_filter=False)
        if _has_numbers(sheets[name]):
            break
    else:
        name = wanted[0]
    cells = sheets[name]
    if cells.empty:
        raise ValueError(f"{source} is empty: its sheet {name} has no cells")
    remarks = []
    if len(names) > 1 and layout.sheet is None:
        remarks.append(f"{source}: read the sheet {name} of {listed(names)}; --sheet names another")
    return _table_with_header(source, cells, ".", layout, remarks)


def _has_numbers(cells: Any) -> bool:
    """Return whether at least two of the first rows of a sheet have numbers: it holds a table."""
    cells = cells.iloc[:_HEAD_ROWS]
    numbers = (is_number(str(cell), ".") for row in cells.to_numpy() for cell in row)
    is_numeric = np.fromiter(numbers, bool, cells.size).reshape(cells.shape)
    return int(is_numeric.any(axis=1).sum()) >= 2


def _read_json(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read an object from every line, an array of objects, or an object of columns."""
    text = file.read().decode("utf-8-sig", errors="replace")
    rows = list(_json_lines(text, source))
    if len(rows) == 1:
        rows = _unwrapped(rows[0])
    if not rows:
        raise ValueError(f"{source} is empty: there is no row")
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError(f'{source}: every row must be an object like {{"x": 1.5}}')
    return table_of_cells(source, _frame([_flat(row) for row in rows], source), has_names=True)


def _unwrapped(value: Any) -> list[Any]:
    """Return the rows of an array, of an object that holds one, or of an object of columns."""
    if isinstance(value, list):
        return value
    parts = list(value.values()) if isinstance(value, dict) else []
    if len(parts) == 1 and isinstance(parts[0], list) and isinstance(next(iter(parts[0]), 0), dict):
        return parts[0]
    # An object of columns has arrays, or objects with one value for each name of a row.
    columns = [list(each.values()) if isinstance(each, dict) else each for each in parts]
    lengths = {len(each) if isinstance(each, list) else 0 for each in columns}
    if len(lengths) == 1 and max(lengths) > 1:
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    return [value]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in which the values of objects have names like ``position.x``."""
    if not any(isinstance(value, dict) for value in row.values()):
        return row
    flat: dict[str, Any] = {}
    for name, value in row.items():
        inner = _flat(value) if isinstance(value, dict) else None
        flat |= {name: value} if inner is None else {f"{name}.{key}": x for key, x in inner.items()}
    return flat


def _json_lines(text: str, source: str) -> Iterator[Any]:
    """Yield the values of all lines, or the array that all lines together are."""
    lines = [text] if text.lstrip().startswith("[") else text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except RecursionError as error:
                raise ValueError(f"{source}: line {number} is nested too deeply") from error
            except ValueError as error:
                raise ValueError(f"{source}: line {number} is not JSON: {error}") from error


def _read_csv(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read a table; separator, decimal mark and header are recognized unless they are given."""
    encoding, text = _decoded_head(file, source)
    n_skipped, lines = _head_lines(text)
    if not lines:
        raise ValueError(f"{source} is empty: there is neither a header nor a row")
    separator = layout.separator or _separator_of(lines)
    with decoding(source):
        head = _rows(lines, separator)
    # One more column than the longest row of the head shows rows that are too long.
    n_columns = max(map(len, head)) + 1
    cells = _read_cells(file, source, separator, n_columns, n_skipped, encoding)
    mark: str | None = layout.decimal
    if mark == "auto":
        mark = decimal_mark((cell for row in head for cell in row), separator)
    remarks = []
    if mark == "," and layout.decimal == "auto":
        remarks.append(f"{source} has decimal commas (--decimal . says otherwise)")
    if encoding == "cp1252":
        remarks.append(f"{source} is not UTF-8; it was read as Windows-1252")
    first = head[0 if layout.header is False else _n_titles(head)]
    return _table_with_header(source, cells, mark, layout, remarks, width=len(first))


def _table_with_header(
    source: str,
    cells: Any,
    mark: str | None,
    layout: Layout,
    remarks: list[str],
    width: int | None = None,
) -> Table:
    """Return a table of cells that may have titles and a header of ``width`` cells."""
    head = cells.iloc[:_HEAD_ROWS, :width].astype(str).to_numpy().tolist()
    n_titles = 0 if layout.header is False else _n_titles(head)
    titles = [repr(shortened(cell)) for row in head[:n_titles] for cell in row if cell.strip()]
    if titles:
        remarks = [f"left out the title above the header: {listed(titles)}", *remarks]
    cells, head = cells.iloc[n_titles:], head[n_titles:]
    has_header = _is_header(head, mark) if layout.header is None else layout.header
    names = _merged_names(head, mark) if has_header else None
    if names is not None:
        cells = cells.iloc[1:]
    body = cells.iloc[1:] if has_header else cells
    if body.empty:
        raise ValueError(f"{source} has a header but no rows")
    if width is not None:
        expected = f"{'the header' if has_header else 'the first row'} has {width}"
        _check_lengths(body, width, expected, source)
        body = body.iloc[:, :width]
    if has_header:
        body = _without_blank_columns(body.set_axis(names or head[0], axis=1))
    elif layout.header is None:
        first, *others = default_names(body.shape[1])
        shown = f"{first} to {others[-1]}" if others else first
        remark = f"{source} has no header: the columns are called {shown} (--header says otherwise)"
        remarks = [remark, *remarks]
    return table_of_cells(source, body, has_header, mark, remarks)


def _merged_names(rows: Sequence[Sequence[str]], mark: str | None) -> list[str] | None:
    """Return the names of a header of two rows, of which the first has merged cells, or None."""
    if len(rows) < 3 or not any(is_number(cell, mark) for cell in rows[2]):
        return None
    groups, names = rows[0], rows[1]
    has_gaps = 1 < sum(bool(cell.strip()) for cell in groups) < len(groups)
    if not has_gaps or any(number_in(cell, mark) is not None for cell in names):
        return None
    out, group = [], ""
    for above, name in zip(groups, names, strict=True):
        group = above.strip() or group
        out.append(f"{group} {name.strip()}".strip())
    return out


def _without_blank_columns(cells: Any) -> Any:
    """Return a table without columns that have neither a name nor a value."""
    blank = [
        i
        for i, name in enumerate(cells.columns)
        if not name.strip() and not cells.iloc[:, i].astype(str).str.strip().any()
    ]
    return cells.iloc[:, [i for i in range(cells.shape[1]) if i not in blank]] if blank else cells


def _decoded_head(file: IO[bytes], source: str) -> tuple[str, str]:
    """Return the encoding of a file and its first lines, and go back to its first character."""
    head = file.read(_HEAD_BYTES)
    is_cut = bool(file.read(1))
    file.seek(0)
    marks = _BYTE_ORDER_MARKS.items()
    encoding = next((name for mark, name in marks if head.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in head:
        raise ValueError(f"{source} is not text; known formats are {_FORMATS}")
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head, final=not is_cut)
    except UnicodeDecodeError:
        # Programs that add lines in another encoding leave the mark of the first.
        n_mark = len(codecs.BOM_UTF8) * head.startswith(codecs.BOM_UTF8)
        encoding, text = "cp1252", head[n_mark:].decode("cp1252", errors="replace")
        file.seek(n_mark)
    return encoding, (text.rpartition("\n")[0] or text) if is_cut else text


def _head_lines(text: str) -> tuple[int, list[str]]:
    """Return the number of comments and blank lines at the start, and the first other lines."""
    lines = text.splitlines(keepends=True)
    is_content = (bool(line.strip()) and not line.startswith("#") for line in lines)
    n_skipped = next((i for i, each in enumerate(is_content) if each), len(lines))
    return n_skipped, [line for line in lines[n_skipped:] if line.strip()][:_HEAD_ROWS]


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Return the cells of every line."""
    if separator == " ":
        return [line.split() for line in lines]
    csv.field_size_limit(_HEAD_BYTES)
    return [row for row in csv.reader(lines, delimiter=separator) if row]


def _separator_of(lines: Sequence[str]) -> str:
    """Return the separator with which rows are equally long and cells have values."""
    best, separator = (0.0, 0.0, 0), _NO_SEPARATOR
    for candidate in _SEPARATORS:
        rows = _rows(lines, candidate)
        rows = rows[_n_titles(rows) :]
        width, n_rows = Counter(map(len, rows)).most_common(1)[0]
        if width == 1 or len(rows[0]) != width:
            continue
        cells = [cell for row in rows for cell in row]
        score = (n_rows / len(rows), sum(map(_has_value, cells)) / len(cells), width)
        if score > best:
            best, separator = score, candidate
    return separator


def _has_value(cell: str) -> bool:
    """Return whether a cell is empty, or a number, an amount, a date or a time of day."""
    if any(number_in(cell, mark) is not None or is_number(cell, mark) for mark in ".,"):
        return True
    return days_in([cell])[0] is not None or hours_in(cell) is not None


def _n_titles(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of rows with one word at most that are above a row of several words."""
    filled = [[cell for cell in row if cell.strip()] for row in rows]
    n_titles = next((i for i, row in enumerate(filled) if len(row) > 1), 0)
    words = [cell for row in filled[: n_titles + 1] for cell in row]
    return n_titles if not any(is_number(word, None) for word in words) else 0


def _is_header(rows: Sequence[Sequence[str]], mark: str | None) -> bool:
    """Return whether the first row has words where others have numbers, or nothing but words."""
    first, *rest = rows
    if not any(is_number(cell, mark) for cell in first):
        return True
    words = [i for i, cell in enumerate(first) if number_in(cell, mark) is None]
    return any(is_number(row[i], mark) for i in words for row in rest)


def _read_cells(
    file: IO[bytes], source: str, separator: str, n_columns: int, n_skipped: int, encoding: str
) -> Any:
    """Return a frame of texts."""
    pandas = import_extra("pandas", "cli", "reading csv needs pandas")
    try:
        return pandas.read_csv(
            file,
            sep=r"\s+" if separator == " " else separator,
            header=None,
            names=range(n_columns),
            index_col=False,
            dtype=object,
            na_filter=False,
            skiprows=n_skipped,
            encoding=encoding,
            encoding_errors="replace",
        )
    except pandas.errors.ParserError as error:
        raise ValueError(f"{source} cannot be read as csv: {error}; {_ADVICE}") from error


def _check_lengths(cells: Any, width: int, expected: str, source: str) -> None:
    """Refuse cells beyond the last column; blank ones are harmless."""
    is_filled = cells.iloc[:, width:].apply(lambda column: column.str.strip() != "")
    rows, columns = np.nonzero(is_filled.to_numpy())
    if len(rows):
        n_cells = width + int(columns[rows == rows[0]].max()) + 1
        raise ValueError(
            f"{source}: row {rows[0] + 1} has {n_cells} cells, but {expected}; {_ADVICE}"
        )


#: Readers of binary formats, by the first bytes of their files.
_READERS: dict[bytes, Callable[[IO[bytes], str, Layout], Table]] = {
    b"\x93NUMPY": _read_npy,
    b"PK": _read_zip,
    b"PAR1": _read_parquet,
    b"ARROW1": _read_feather,
    b"\xd0\xcf\x11\xe0": _read_spreadsheet,
}
