"""Columns of numbers and words, as they were read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np

from .numbers import Notation, is_ambiguous


@dataclass(frozen=True, eq=False)
class Column:
    """A column of numbers, NaN where they are missing or where there are words.

    Attributes
    ----------
    name : str
    values : ndarray of shape (n_rows,)
    n_words : int
        How many values are no numbers.
    example : str
        One of those, and where it is; empty if there are none.
    """

    name: str
    values: np.ndarray
    n_words: int = 0
    example: str = ""

    @property
    def is_ambiguous(self) -> bool:
        """Whether the example is a number whose comma may be a decimal mark or not."""
        return is_ambiguous(self.example.split("'")[1] if "'" in self.example else "")

    @property
    def is_empty(self) -> bool:
        """Whether it has no number at all."""
        return bool(np.isnan(self.values).all())


@dataclass(frozen=True, eq=False)
class Table:
    """What a file holds.

    Attributes
    ----------
    source : str
        How to speak of it.
    columns : tuple of Column
    has_names : bool
        Whether the names of the columns are its own.
    remarks : tuple of str
        What had to be decided to read it.
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


@dataclass(eq=False)
class ColumnBuilder:
    """A column that is read piece by piece."""

    notation: Notation
    n_rows: int = 0
    n_words: int = 0
    example: str = ""
    pieces: list[np.ndarray] = field(default_factory=list)

    def add(self, cells: Sequence[Any]) -> None:
        """Append cells, which are texts, numbers, None or whatever JSON may hold."""
        self.pieces.append(self._fast(cells) if self.notation.mark != "," else self._slow(cells))
        self.n_rows += len(cells)

    def _fast(self, cells: Sequence[Any]) -> np.ndarray:
        """Convert all cells at once, which works unless one is missing or a word."""
        try:
            if self._needs_care(cells):
                return self._slow(cells)
            return np.array(cells, dtype=np.float64).reshape(len(cells))
        except (ValueError, TypeError, OverflowError):
            return self._slow(cells)

    @staticmethod
    def _needs_care(cells: Sequence[Any]) -> bool:
        """Whether there are cells that numpy takes for numbers, and we do not."""
        if all(isinstance(cell, str) for cell in cells):
            return "_" in "".join(cells)
        return any(isinstance(cell, bool) for cell in cells)

    def _slow(self, cells: Sequence[Any]) -> np.ndarray:
        return np.array(
            [self._number(cell, row) for row, cell in enumerate(cells, self.n_rows + 1)]
        )

    def _number(self, cell: Any, row: int) -> float:
        if cell is None:
            return nan
        try:
            if isinstance(cell, str):
                return self.notation.number(cell)
            if isinstance(cell, int | float) and not isinstance(cell, bool):
                return float(cell)
        except (ValueError, OverflowError):
            pass
        self.n_words += 1
        if not self.example:
            self.example = f"{_shown(cell)} in row {row}"
        return nan

    def build(self, name: str) -> Column:
        """Return the column under its name."""
        values = np.concatenate(self.pieces) if self.pieces else np.empty(0)
        return Column(name, values, self.n_words, self.example)


def _shown(cell: Any, most: int = 24) -> str:
    text = repr(cell)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def made_up(n_columns: int) -> list[str]:
    """Return names for columns that have none."""
    return [f"x{i}" for i in range(n_columns)]


def distinct(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return names that all differ and are not blank, and what had to be changed."""
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
