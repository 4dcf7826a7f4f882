"""Columns of a table: cells as numbers, missing values or words."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import nan
from typing import Any

import numpy as np

from ..extras import import_extra
from .screen import listed

_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "nil", "none", "missing", "?", "-", "."}
#: Numbers with groups of thousands, by decimal mark.
_GROUPED = {
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"),
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?"),
}
#: Characters of a word that a message quotes.
_MAX_QUOTED = 24


def number_in(cell: Any, mark: str | None = ".") -> float | None:
    """Return the number in a cell, NaN if it is missing, None if it is a word.

    The character of "." and "," that is not the decimal mark may group thousands. If the mark is
    None, numbers have neither a decimal comma nor groups.
    """
    if isinstance(cell, str):
        text = cell.strip().replace("\N{MINUS SIGN}", "-")
        if mark is not None and _GROUPED[mark].fullmatch(text):
            text = text.replace("." if mark == "," else ",", "")
        if text.lower() in _MISSING:
            return nan
        if mark == ",":
            # A point that groups nothing makes the cell a word.
            text = text.replace(".", "?").replace(",", ".")
        cell = "?" if "_" in text else text  # Python reads 1_0 as 10
    elif cell is None:
        return nan
    elif isinstance(cell, bool) or not isinstance(cell, int | float | Decimal):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def is_number(cell: str, mark: str | None) -> bool:
    """Return whether a cell is a number that is not missing."""
    number = number_in(cell, mark)
    return number is not None and number == number


def decimal_mark(cells: Iterable[str], separator: str) -> str | None:
    """Return the decimal mark that the cells of a file show, None if it is ambiguous."""
    readings = [(is_number(cell, "."), is_number(cell, ","), "," in cell) for cell in cells]
    if any(point and not comma for point, comma, _ in readings):
        return "."
    if any(comma and not point for point, comma, _ in readings):
        return ","
    if not any(point and has_comma for point, _, has_comma in readings):
        return "."
    # All commas are like that in 1,234. Decimal commas are usual beside semicolons.
    return "," if separator == ";" else None


@dataclass(frozen=True)
class Words:
    """The cells of a column that are neither numbers nor missing."""

    count: int
    #: The first of these cells, quoted, and its row.
    example: str


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file as numbers."""

    #: The name of the file in messages.
    source: str
    #: DataFrame of floats, NaN where values are missing or words.
    frame: Any
    #: The words of the columns that have some.
    words: dict[str, Words]
    #: Whether the file itself names its columns.
    has_names: bool
    #: Decisions that were made to read the file.
    remarks: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)


def table_of_cells(
    source: str,
    cells: Any,
    has_names: bool,
    mark: str | None = ".",
    remarks: Sequence[str] = (),
) -> Table:
    """Return the numbers in a frame of numbers, texts or other objects as a table."""
    pandas = import_extra("pandas", "cli", "reading tables needs pandas")
    names = default_names(cells.shape[1])
    if has_names:
        names, changes = _distinct_names(cells.columns, source)
        remarks = [*changes, *remarks]
    columns, words = {}, {}
    for i, name in enumerate(names):
        columns[name], found = _numbers_in(cells.iloc[:, i], mark)
        if found is not None:
            words[name] = found
    return Table(source, pandas.DataFrame(columns), words, has_names, tuple(remarks))


def _numbers_in(column: Any, mark: str | None) -> tuple[np.ndarray, Words | None]:
    """Return the numbers of a column, NaN where there are none, and its words."""
    if column.dtype.kind in "iuf":
        return column.to_numpy(np.float64), None
    cells = column.tolist()
    if mark != "," and not _numpy_misreads(cells):
        try:
            return np.array(cells, dtype=np.float64).reshape(len(cells)), None
        except (ValueError, TypeError, OverflowError):
            pass  # some cells are missing or words
    numbers = [number_in(cell, mark) for cell in cells]
    values = np.array([nan if number is None else number for number in numbers], dtype=np.float64)
    rows = [row for row, number in enumerate(numbers) if number is None]
    return values, Words(len(rows), _example(cells[rows[0]], rows[0] + 1)) if rows else None


def _numpy_misreads(cells: Sequence[Any]) -> bool:
    """Return whether there are cells that numpy would take for numbers: 1_0 and truth values."""
    if all(isinstance(cell, str) for cell in cells):
        return "_" in "".join(cells)
    return any(isinstance(cell, bool) for cell in cells)


def _example(cell: Any, row: int) -> str:
    """Return a word, quoted, its row, and the remedy if it is a number of two readings."""
    text = repr(cell)
    shown = text if len(text) <= _MAX_QUOTED else f"{text[: _MAX_QUOTED - 3]}..."
    is_ambiguous = isinstance(cell, str) and is_number(cell, ".") and is_number(cell, ",")
    advice = "; --decimal says what the mark in it means" if is_ambiguous else ""
    return f"{shown} in row {row}{advice}"


def default_names(n_columns: int) -> list[str]:
    """Return names for columns that have none."""
    return [f"x{i}" for i in range(n_columns)]


def _distinct_names(names: Iterable[str], source: str) -> tuple[list[str], list[str]]:
    """Return names that all differ and are not blank, and a remark if they were changed."""
    out: dict[str, None] = {}
    changes = []
    for i, given in enumerate(names):
        name = original = given.strip() or f"x{i}"
        number = 2
        while name in out:
            name = f"{original}_{number}"
            number += 1
        if name != given.strip():
            changes.append(f"column {i + 1} is called {name}")
        _check_encodable(name, source)
        out[name] = None
    problem = f"{source}: a column has no name or that of another"
    return list(out), [f"{problem}: {listed(changes)}"] if changes else []


def _check_encodable(name: str, source: str) -> None:
    """Refuse a name that cannot be written to any file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{source}: column {name!a} cannot be written as UTF-8, because it holds half of a "
            "surrogate pair; rename it"
        ) from None
