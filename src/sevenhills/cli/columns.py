"""Columns of a table: cells as numbers, missing values or words."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import nan
from typing import Any

import numpy as np

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

    Parameters
    ----------
    cell : object
        A text, a number, None or anything else that a file may hold.
    mark : {".", ","} or None, default="."
        The decimal mark; the other character may group thousands. With None, numbers have
        neither a decimal comma nor groups.

    Examples
    --------
    >>> from sevenhills.cli.columns import number_in
    >>> number_in("1,234.5"), number_in("1.234,5", ","), number_in("Rome")
    (1234.5, 1234.5, None)
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


@dataclass(frozen=True, eq=False)
class Column:
    """A column of numbers, NaN where values are missing or words.

    Attributes
    ----------
    name : str
    values : ndarray of shape (n_rows,)
    n_words : int
        Number of cells that are neither numbers nor missing.
    example : str
        The first of these cells, quoted, and its row; empty if there are none.
    """

    name: str
    values: np.ndarray
    n_words: int = 0
    example: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is no number at all."""
        return bool(np.isnan(self.values).all())


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file.

    Attributes
    ----------
    source : str
        The name of the file in messages.
    columns : tuple of Column
    has_names : bool
        Whether the file itself names its columns.
    remarks : tuple of str
        Decisions that were made to read the file.
    """

    source: str
    columns: tuple[Column, ...]
    has_names: bool
    remarks: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0].values) if self.columns else 0

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]


def table_from_arrays(
    source: str,
    names: Sequence[str],
    arrays: Iterable[np.ndarray],
    has_names: bool = True,
    remarks: Sequence[str] = (),
) -> Table:
    """Return arrays of numbers or of Python objects as a table."""
    columns = (
        Column(name, array.astype(np.float64))
        if array.dtype.kind in "iuf"
        else column_from_cells(name, array.tolist())
        for name, array in zip(names, arrays, strict=True)
    )
    return Table(source, tuple(columns), has_names, tuple(remarks))


def column_from_cells(
    name: str, cells: Sequence[Any], mark: str | None = ".", first_row: int = 1
) -> Column:
    """Convert cells to numbers, and count those that are words; rows count from ``first_row``."""
    if mark != "," and not _numpy_misreads(cells):
        try:
            return Column(name, np.array(cells, dtype=np.float64).reshape(len(cells)))
        except (ValueError, TypeError, OverflowError):
            pass  # some cells are missing or words
    numbers = [number_in(cell, mark) for cell in cells]
    values = np.array([nan if number is None else number for number in numbers], dtype=np.float64)
    words = [i for i, number in enumerate(numbers) if number is None]
    if not words:
        return Column(name, values)
    return Column(name, values, len(words), _example(cells[words[0]], first_row + words[0]))


def concatenate_columns(parts: Sequence[Column]) -> Column:
    """Return consecutive parts of a column as one."""
    first = next((part for part in parts if part.n_words), parts[0])
    return replace(
        first,
        values=np.concatenate([part.values for part in parts]),
        n_words=sum(part.n_words for part in parts),
    )


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


def distinct_names(names: Iterable[str], source: str) -> tuple[list[str], list[str]]:
    """Return names that all differ and are not blank, and a remark if they were changed."""
    out: list[str] = []
    changes = []
    for i, given in enumerate(names):
        name = original = given.strip() or f"x{i}"
        number = 2
        while name in out:
            name = f"{original}_{number}"
            number += 1
        if name != given.strip():
            changes.append(f"column {i + 1} is called {name}")
        out.append(name)
    problem = f"{source}: a column has no name or that of another"
    return out, [f"{problem}: {listed(changes)}"] if changes else []
