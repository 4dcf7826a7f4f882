"""Columns of a table: cells as numbers, missing values or words."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import nan
from typing import Any

import numpy as np

_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "nil", "none", "missing", "?", "-", "."}

_EXPONENT = r"(e[+-]?\d+)?"
#: 1,5 and 1.234,5 can only have a decimal comma, 1.5 and 1,234.5 only a decimal point.
_WITH_COMMA = re.compile(rf"[+-]?(\d*|\d{{1,3}}(\.\d{{3}})+),\d+{_EXPONENT}", re.IGNORECASE)
_WITH_POINT = re.compile(rf"[+-]?(\d*|\d{{1,3}}(,\d{{3}})+)\.\d+{_EXPONENT}", re.IGNORECASE)
#: Numbers with groups of thousands, by decimal mark.
_GROUPED = {
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"),
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?"),
}
#: 1,234 may have a decimal comma or a group of thousands.
_AMBIGUOUS = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*")
#: Characters of a word that a message quotes.
_MAX_QUOTED = 24


def is_missing(cell: str) -> bool:
    """Return whether a cell stands for a missing value."""
    return cell.strip().lower() in _MISSING


@dataclass(frozen=True)
class Notation:
    """The way numbers are written.

    Parameters
    ----------
    mark : {".", ","} or None
        The decimal mark; the other character may group thousands. With None, numbers have
        neither a decimal comma nor groups.

    Examples
    --------
    >>> from sevenhills.cli.columns import Notation
    >>> Notation(".").number("1,234.5"), Notation(",").number("1.234,5")
    (1234.5, 1234.5)
    """

    mark: str | None = None

    @classmethod
    def from_cells(cls, cells: Iterable[str], separator: str) -> "Notation":
        """Return the notation that the cells of a file show."""
        found = {_evidence(cell.strip()) for cell in cells}
        if "point" in found:
            return cls(".")
        # A file with decimal commas seldom separates cells by commas.
        if "comma" in found or ("groups with commas" in found and separator == ";"):
            return cls(",")
        return cls("." if "groups with points" in found else None)

    def number(self, cell: str) -> float:
        """Return the number in a cell, NaN if it is missing; raise ValueError for a word."""
        text = cell.strip().replace("\N{MINUS SIGN}", "-")
        if text.lower() in _MISSING:
            return nan
        if self.mark is not None and _GROUPED[self.mark].fullmatch(text):
            text = text.replace("." if self.mark == "," else ",", "")
        if self.mark == ",":
            # A point that groups nothing makes the cell a word.
            text = text.replace(".", "?").replace(",", ".")
        if "_" in text:  # Python reads 1_0 as 10
            raise ValueError(text)
        return float(text)

    def is_number(self, cell: str) -> bool:
        """Return whether a cell is a number that is not missing."""
        try:
            return not is_missing(cell) and self.number(cell) is not None
        except ValueError:
            return False


def _evidence(cell: str) -> str:
    """Return the notation that a cell is evidence for, an empty string if for none."""
    if grouped := _AMBIGUOUS.fullmatch(cell):
        return "groups with commas" if grouped[1] == "," else "groups with points"
    if _WITH_COMMA.fullmatch(cell):
        return "comma"
    return "point" if _WITH_POINT.fullmatch(cell) else ""


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
    is_ambiguous : bool
        Whether that cell is a number whose comma or point has two readings.
    """

    name: str
    values: np.ndarray
    n_words: int = 0
    example: str = ""
    is_ambiguous: bool = False

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


def column_from_array(name: str, values: np.ndarray) -> Column:
    """Return an array of numbers or of Python objects as a column."""
    if values.dtype.kind in "iuf":
        return Column(name, values.astype(np.float64))
    return column_from_cells(name, values.tolist())


def column_from_cells(
    name: str, cells: Sequence[Any], notation: Notation | None = None, first_row: int = 1
) -> Column:
    """Convert cells to numbers, and count those that are words.

    Parameters
    ----------
    name : str
    cells : sequence
        Texts, numbers, None or anything else that a file may hold.
    notation : Notation, optional
        The way numbers in texts are written; with a decimal point by default.
    first_row : int, default=1
        The row of the first cell in messages.
    """
    notation = notation or Notation(".")
    if notation.mark != "," and not _numpy_misreads(cells):
        try:
            return Column(name, np.array(cells, dtype=np.float64).reshape(len(cells)))
        except (ValueError, TypeError, OverflowError):
            pass  # some cells are missing or words
    numbers = [_number(cell, notation) for cell in cells]
    values = np.array([nan if number is None else number for number in numbers], dtype=np.float64)
    words = [i for i, number in enumerate(numbers) if number is None]
    if not words:
        return Column(name, values)
    word = cells[words[0]]
    is_ambiguous = isinstance(word, str) and _AMBIGUOUS.fullmatch(word.strip()) is not None
    example = f"{_quoted(word)} in row {first_row + words[0]}"
    return Column(name, values, len(words), example, is_ambiguous)


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


def _number(cell: Any, notation: Notation) -> float | None:
    """Return the number in a cell, NaN if it is missing, None if it is a word."""
    if cell is None:
        return nan
    try:
        if isinstance(cell, str):
            return notation.number(cell)
        if isinstance(cell, int | float | Decimal) and not isinstance(cell, bool):
            return float(cell)
    except (ValueError, OverflowError):
        pass
    return None


def _quoted(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= _MAX_QUOTED else f"{text[: _MAX_QUOTED - 3]}..."


def default_names(n_columns: int) -> list[str]:
    """Return names for columns that have none."""
    return [f"x{i}" for i in range(n_columns)]


def distinct_names(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return names that all differ and are not blank, and the changes in words."""
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
    return out, changes
