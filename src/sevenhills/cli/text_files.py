"""CSV in its many dialects, and JSON lines."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, Any

from .numbers import Notation, is_missing
from .screen import listed
from .tables import ColumnBuilder, Table, distinct, made_up

#: What is looked at before anything is decided.
_HEAD_BYTES = 2**18
_HEAD_ROWS = 200
#: The rows that are converted at a time.
_BLOCK_ROWS = 4096
_SEPARATORS = (",", ";", "\t", "|", " ")
#: Separates nothing: there is one column.
_NONE = "\x1f"
_SPOKEN = {"\t": "tab", " ": "space"}
_MARKS = {
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
#: A cell may be long, in a column of words.
_MOST_CHARACTERS = 2**24


@dataclass(frozen=True)
class Layout:
    """How a CSV file is laid out, as far as the user says.

    Attributes
    ----------
    separator : str or None
        What separates cells, or its name.
    decimal : {"auto", ".", ","}
    header : bool or None
        Whether the first row holds names.
    """

    separator: str | None = None
    decimal: str = "auto"
    header: bool | None = None

    def __post_init__(self) -> None:
        named = {name: mark for mark, name in _SPOKEN.items()} | {"\\t": "\t"}
        separator = named.get(self.separator or "", self.separator)
        if separator is not None and len(separator) != 1:
            raise ValueError(
                f"--separator must be one character, tab or space, got {self.separator!r}"
            )
        object.__setattr__(self, "separator", separator)


# CSV


def read_csv(file: IO[bytes], source: str, layout: Layout) -> Table:
    """Read a table whose separator, decimal mark and header are found unless they are given."""
    encoding, head = _decoded_head(file, source)
    lines = _lines(head)
    if not lines:
        raise ValueError(f"{source} is empty: there is neither a header nor a row")
    separator = layout.separator or _separator_of(lines)
    first = list(_rows(lines, separator, source))
    notation = _notation(layout, first, separator)
    has_header = _has_header(first, notation) if layout.header is None else layout.header
    names, changes = _names(first[0], has_header)

    columns = [ColumnBuilder(notation) for _ in names]
    with io.TextIOWrapper(file, encoding, errors="replace", newline="") as text:
        rows = _rows(_without_comments(text), separator, source)
        if has_header:
            next(rows)
        for block in _blocks(rows, len(names), source, has_header):
            for column, cells in zip(columns, zip(*block, strict=True), strict=True):
                column.add(cells)
    built = tuple(each.build(name) for each, name in zip(columns, names, strict=True))
    if not len(built[0].values):
        raise ValueError(f"{source} has a header but no rows")
    remarks = _remarks(source, names, notation, encoding, has_header, layout)
    return Table(source, built, has_header, (*remarks, *_renamed(source, changes)))


def _decoded_head(file: IO[bytes], source: str) -> tuple[str, str]:
    """Return the encoding of a file and its beginning, and go back to its start."""
    head = file.read(_HEAD_BYTES)
    is_cut = bool(file.read(1))
    file.seek(0)
    encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in head:
        raise ValueError(f"{source} is not text; known are csv, parquet, npy, npz and JSON lines")
    try:
        text = head.decode(encoding, errors="ignore" if is_cut else "strict")
        if is_cut and encoding == "utf-8":
            head[: head.rfind(b"\n") + 1].decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        text = head.decode(encoding, errors="replace")
    return encoding, text[: text.rfind("\n") + 1] if is_cut and "\n" in text else text


def _lines(text: str) -> list[str]:
    """Return the first lines that are not blank."""
    lines = (line for line in _without_comments(text.splitlines(keepends=True)) if line.strip())
    return list(islice(lines, _HEAD_ROWS))


def _without_comments(lines: Iterable[str]) -> Iterator[str]:
    """Leave out lines at the beginning that are comments or blank."""
    rest = iter(lines)
    for line in rest:
        if line.strip() and not line.startswith("#"):
            return chain([line], rest)
    return iter(())


def _separator_of(lines: Sequence[str]) -> str:
    """Return the separator that makes rows equally long and cells numbers."""
    best, separator = (0.0, 0.0, 0), _NONE
    for candidate in _SEPARATORS:
        rows = list(_rows(lines, candidate, ""))
        width, n_rows = Counter(map(len, rows)).most_common(1)[0]
        if width == 1 or len(rows[0]) != width:
            continue
        cells = [cell for row in rows for cell in row]
        n_numbers = sum(_looks_like_a_number(cell) for cell in cells)
        score = (n_rows / len(rows), n_numbers / len(cells), width)
        if score > best:
            best, separator = score, candidate
    return separator


def _looks_like_a_number(cell: str) -> bool:
    return is_missing(cell) or any(Notation(mark).is_number(cell) for mark in (".", ","))


def _rows(lines: Iterable[str], separator: str, source: str) -> Iterator[list[str]]:
    """Return the cells of every line that is not blank."""
    csv.field_size_limit(_MOST_CHARACTERS)
    try:
        # Any number of spaces is one separator.
        rows = (
            (line.split() for line in lines)
            if separator == " "
            else csv.reader(lines, delimiter=separator)
        )
        yield from (row for row in rows if row and not (len(row) == 1 and row[0].isspace()))
    except csv.Error as error:
        raise ValueError(f"{source} cannot be read as csv: {error}") from error


def _notation(layout: Layout, rows: Sequence[Sequence[str]], separator: str) -> Notation:
    if layout.decimal != "auto":
        return Notation(layout.decimal)
    return Notation.of((cell for row in rows for cell in row), separator)


def _has_header(rows: Sequence[Sequence[str]], notation: Notation) -> bool:
    """Whether the first row has words where others have numbers, or nothing but words."""
    first, rest = rows[0], rows[1:]
    words = [i for i, cell in enumerate(first) if not is_missing(cell)]
    words = [i for i in words if not notation.is_number(first[i])]
    if len(words) == sum(not is_missing(cell) for cell in first):
        return True
    return any(notation.is_number(row[i]) for i in words for row in rest if i < len(row))


def _names(first: Sequence[str], has_header: bool) -> tuple[list[str], list[str]]:
    return distinct(first) if has_header else (made_up(len(first)), [])


def _blocks(
    rows: Iterator[list[str]], width: int, source: str, has_header: bool
) -> Iterator[list[list[str]]]:
    """Return rows of equal length, many at a time; cells that are not there are missing."""
    n_before = 0
    while block := list(islice(rows, _BLOCK_ROWS)):
        for i, row in enumerate(block):
            if len(row) == width:
                continue
            if any(cell.strip() for cell in row[width:]):
                head = "the header" if has_header else "the first row"
                raise ValueError(
                    f"{source}: row {n_before + i + 1} has {len(row)} cells, but {head} has "
                    f"{width}; is the --separator right, or a quote missing?"
                )
            block[i] = row[:width] + [""] * (width - len(row))
        yield block
        n_before += len(block)


def _remarks(
    source: str,
    names: Sequence[str],
    notation: Notation,
    encoding: str,
    has_header: bool,
    layout: Layout,
) -> Iterator[str]:
    if not has_header and layout.header is None:
        shown = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        yield f"{source} has no header: the columns are called {shown} (--header says otherwise)"
    if notation.mark == "," and layout.decimal == "auto":
        yield f"{source} has decimal commas (--decimal . says otherwise)"
    if encoding == "cp1252":
        yield f"{source} is not UTF-8; it was read as Windows-1252"


def _renamed(source: str, changes: Sequence[str]) -> list[str]:
    what = "a column has no name or that of another"
    return [f"{source}: {what}: {listed(changes)}"] if changes else []


# JSON lines


def read_json_lines(file: IO[bytes], source: str) -> Table:
    """Read a table with one object, or one array, in every line, or an array of these."""
    rows = list(_objects(file, source))
    if not rows:
        raise ValueError(f"{source} is empty: there is no row")
    if all(isinstance(row, dict) for row in rows):
        keys = list(dict.fromkeys(chain.from_iterable(rows)))
        names, changes = distinct(keys)
        cells: Iterable[list[Any]] = ([row.get(key) for row in rows] for key in keys)
    elif all(isinstance(row, list) for row in rows):
        width = len(rows[0])
        if any(len(row) != width for row in rows):
            raise ValueError(f"{source}: the rows are not equally long")
        names, changes, cells = made_up(width), [], (list(each) for each in zip(*rows, strict=True))
    else:
        raise ValueError(f"{source}: every line must be an object, or every line an array")
    columns = []
    for name, values in zip(names, cells, strict=True):
        builder = ColumnBuilder(Notation("."))
        builder.add(values)
        columns.append(builder.build(name))
    return Table(
        source, tuple(columns), isinstance(rows[0], dict), tuple(_renamed(source, changes))
    )


def _objects(file: IO[bytes], source: str) -> Iterator[Any]:
    text = file.read().decode("utf-8-sig", errors="replace")
    try:
        whole = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        whole = None  # arrays, line by line
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
