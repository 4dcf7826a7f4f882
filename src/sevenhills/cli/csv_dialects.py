"""CSV files in their many dialects."""

import codecs
import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from ..extras import import_extra
from .columns import (
    Table,
    column_from_cells,
    concatenate_columns,
    decimal_mark,
    default_names,
    distinct_names,
    is_number,
    number_in,
)
from .options import Layout

#: The separator, the decimal mark and the header are recognized by these first bytes and rows.
_HEAD_BYTES = 2**18
HEAD_ROWS = 200
#: Rows that are converted at a time, so that the texts of a large file are never all in memory.
_CHUNK_ROWS = 8192
_SEPARATORS = (",", ";", "\t", "|", " ")
#: Separator of a file with one column; it occurs in no text.
_NO_SEPARATOR = "\x1f"
_BYTE_ORDER_MARKS = {
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
#: Longest cell that is accepted while the dialect is recognized, in characters.
_MAX_CELL = 2**24
#: The remedy for rows of different lengths.
_ADVICE = "is the --separator right, or a quote missing?"


@dataclass(frozen=True)
class _Dialect:
    """The properties of a CSV file, and the cells of its first rows."""

    encoding: str
    n_skipped: int
    separator: str
    mark: str | None
    has_header: bool
    head: list[list[str]]


def read_csv(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read a table; separator, decimal mark and header are recognized unless they are given."""
    dialect = _recognize(file, source, layout)
    names, remarks = name_columns(dialect.head[0], dialect.has_header, source, layout)
    parts = [
        [
            column_from_cells(name, cells[i].tolist(), dialect.mark, first_row)
            for i, name in enumerate(names)
        ]
        for first_row, cells in _chunks(file, source, dialect)
    ]
    if not parts:
        raise ValueError(f"{source} has a header but no rows")
    columns = tuple(concatenate_columns(each) for each in zip(*parts, strict=True))
    if dialect.mark == "," and layout.decimal == "auto":
        remarks.append(f"{source} has decimal commas (--decimal . says otherwise)")
    if dialect.encoding == "cp1252":
        remarks.append(f"{source} is not UTF-8; it was read as Windows-1252")
    return Table(source, columns, dialect.has_header, tuple(remarks))


def _recognize(file: IO[bytes], source: str, layout: Layout) -> _Dialect:
    encoding, text = _decoded_head(file, source)
    n_skipped, lines = _head_lines(text)
    if not lines:
        raise ValueError(f"{source} is empty: there is neither a header nor a row")
    separator = layout.separator or _separator_of(lines)
    head = _rows(lines, separator, source)
    mark: str | None = layout.decimal
    if mark == "auto":
        mark = decimal_mark((cell for row in head for cell in row), separator)
    has_header = is_header(head, mark) if layout.header is None else layout.header
    return _Dialect(encoding, n_skipped, separator, mark, has_header, head)


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
    return n_skipped, [line for line in lines[n_skipped:] if line.strip()][:HEAD_ROWS]


def _rows(lines: Sequence[str], separator: str, source: str) -> list[list[str]]:
    """Return the cells of every line."""
    if separator == " ":
        return [line.split() for line in lines]
    csv.field_size_limit(_MAX_CELL)
    try:
        return [row for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error as error:
        raise ValueError(f"{source} cannot be read as csv: {error}") from error


def _separator_of(lines: Sequence[str]) -> str:
    """Return the separator with which rows are equally long and cells are numbers."""
    best, separator = (0.0, 0.0, 0), _NO_SEPARATOR
    for candidate in _SEPARATORS:
        rows = _rows(lines, candidate, "")
        width, n_rows = Counter(map(len, rows)).most_common(1)[0]
        if width == 1 or len(rows[0]) != width:
            continue
        cells = [cell for row in rows for cell in row]
        n_numbers = sum(any(number_in(cell, mark) is not None for mark in ".,") for cell in cells)
        score = (n_rows / len(rows), n_numbers / len(cells), width)
        if score > best:
            best, separator = score, candidate
    return separator


def is_header(rows: Sequence[Sequence[str]], mark: str | None) -> bool:
    """Return whether the first row has words where others have numbers, or nothing but words."""
    first, *rest = rows
    if not any(is_number(cell, mark) for cell in first):
        return True
    words = [i for i, cell in enumerate(first) if number_in(cell, mark) is None]
    return any(is_number(row[i], mark) for i in words for row in rest if i < len(row))


def name_columns(
    first_row: Sequence[str], has_header: bool, source: str, layout: Layout
) -> tuple[list[str], list[str]]:
    """Return the names of columns, and remarks on those that the file does not give."""
    if has_header:
        return distinct_names(first_row, source)
    names = default_names(len(first_row))
    shown = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    remark = f"{source} has no header: the columns are called {shown} (--header says otherwise)"
    return names, [remark] if layout.header is None else []


def _chunks(file: IO[bytes], source: str, dialect: _Dialect) -> Iterator[tuple[int, Any]]:
    """Yield frames of texts without the header, each with the number of its first row."""
    pandas = import_extra("pandas", "cli", "reading csv needs pandas")
    frames = pandas.read_csv(
        file,
        sep=r"\s+" if dialect.separator == " " else dialect.separator,
        header=None,
        # One more column than the longest row of the head shows rows that are too long.
        names=range(max(map(len, dialect.head)) + 1),
        index_col=False,
        dtype=str,
        na_filter=False,
        skiprows=dialect.n_skipped,
        chunksize=_CHUNK_ROWS,
        encoding=dialect.encoding,
        encoding_errors="replace",
    )
    width = len(dialect.head[0])
    expected = f"{'the header' if dialect.has_header else 'the first row'} has {width}"
    try:
        for frame in frames:
            rows = frame.iloc[int(dialect.has_header and frame.index[0] == 0) :]
            if len(rows):
                first_row = int(rows.index[0]) + 1 - dialect.has_header
                _check_lengths(rows, width, first_row, expected, source)
                yield first_row, rows
    except pandas.errors.ParserError as error:
        raise ValueError(f"{source} cannot be read as csv: {error}; {_ADVICE}") from error


def _check_lengths(rows: Any, width: int, first_row: int, expected: str, source: str) -> None:
    """Refuse cells beyond the last column; blank ones are harmless."""
    beyond = rows.iloc[:, width:].itertuples(index=False)
    is_filled = np.array([[bool(cell.strip()) for cell in row] for row in beyond])
    if is_filled.any():
        row = int(is_filled.any(axis=1).argmax())
        n_cells = width + int(is_filled[row].nonzero()[0][-1]) + 1
        raise ValueError(
            f"{source}: row {first_row + row} has {n_cells} cells, but {expected}; {_ADVICE}"
        )
