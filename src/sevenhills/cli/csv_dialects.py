"""CSV files in their many dialects."""

import codecs
import csv
from collections import Counter
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from ..decoding import decoding
from ..extras import import_extra
from .columns import Table, decimal_mark, default_names, is_number, number_in, table_of_cells
from .options import Layout

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


def read_csv(file: IO[bytes], source: str, layout: Layout) -> Table:
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
    return table_with_header(source, cells, mark, layout, remarks, width=len(head[0]))


def table_with_header(
    source: str,
    cells: Any,
    mark: str | None,
    layout: Layout,
    remarks: list[str],
    width: int | None = None,
) -> Table:
    """Return a table of cells whose first row may be a header, and is ``width`` cells long."""
    head = cells.iloc[:_HEAD_ROWS, :width].astype(str).to_numpy().tolist()
    has_header = _is_header(head, mark) if layout.header is None else layout.header
    body = cells.iloc[1:] if has_header else cells
    if body.empty:
        raise ValueError(f"{source} has a header but no rows")
    if width is not None:
        expected = f"{'the header' if has_header else 'the first row'} has {width}"
        _check_lengths(body, width, expected, source)
        body = body.iloc[:, :width]
    if has_header:
        body = body.set_axis(head[0], axis=1)
    elif layout.header is None:
        names = default_names(body.shape[1])
        shown = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        remark = f"{source} has no header: the columns are called {shown} (--header says otherwise)"
        remarks = [remark, *remarks]
    return table_of_cells(source, body, has_header, mark, remarks)


def _decoded_head(file: IO[bytes], source: str) -> tuple[str, str]:
    """Return the encoding of a file and its first lines, and go back to its start."""
    head = file.read(_HEAD_BYTES)
    is_cut = bool(file.read(1))
    file.seek(0)
    marks = _BYTE_ORDER_MARKS.items()
    encoding = next((name for mark, name in marks if head.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in head:
        raise ValueError(
            f"{source} is not text; known formats are csv, xlsx, parquet, npy, npz and JSON lines"
        )
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head, final=not is_cut)
    except UnicodeDecodeError:
        encoding, text = "cp1252", head.decode("cp1252", errors="replace")
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
    """Return the separator with which rows are equally long and cells are numbers."""
    best, separator = (0.0, 0.0, 0), _NO_SEPARATOR
    for candidate in _SEPARATORS:
        rows = _rows(lines, candidate)
        width, n_rows = Counter(map(len, rows)).most_common(1)[0]
        if width == 1 or len(rows[0]) != width:
            continue
        cells = [cell for row in rows for cell in row]
        n_numbers = sum(any(number_in(cell, mark) is not None for mark in ".,") for cell in cells)
        score = (n_rows / len(rows), n_numbers / len(cells), width)
        if score > best:
            best, separator = score, candidate
    return separator


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
