"""Results with a row for every measure, as text, HTML and data frames."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from html import escape
from math import isnan
from typing import Any

from ..extras import import_extra

_CELL = "padding: 0.1em 0.9em; text-align: right"


class MeasureTable(ABC):
    """A result with a row of figures for every measure."""

    @property
    @abstractmethod
    def _rows(self) -> Sequence[Any]:
        """Rows, as dataclasses with the field ``measure``."""

    @abstractmethod
    def _caption(self) -> str:
        """Return the line above the table."""

    def __getitem__(self, measure: str) -> Any:
        rows = {row.measure: row for row in self._rows}
        if measure not in rows:
            raise KeyError(f"there is no measure {measure!r}, only {list(rows)}")
        return rows[measure]

    def columns(self) -> dict[str, Any]:
        """Return the table by columns."""
        return {
            field.name: [getattr(row, field.name) for row in self._rows]
            for field in fields(self._rows[0])
        }

    def to_pandas(self) -> Any:
        """Return the table as a data frame of pandas."""
        return data_frame(self.columns())

    def _texts(self) -> list[list[str]]:
        """Return the heading and the rows as text."""
        columns = self.columns()
        rows = zip(*columns.values(), strict=True)
        return [list(columns), *([_text(value) for value in row] for row in rows)]

    def __repr__(self) -> str:
        rows = self._texts()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([self._caption(), *lines])

    def _repr_html_(self) -> str:
        head, *rows = self._texts()
        body = "".join([_html("th", head), *(_html("td", row) for row in rows)])
        caption = f'<p style="margin: 0.7em 0 0.3em">{escape(self._caption())}</p>'
        return f'{caption}<table style="border-collapse: collapse">{body}</table>'


def _text(value: Any) -> str:
    """Return a figure with four digits."""
    if not isinstance(value, float):
        return str(value)
    return "-" if isnan(value) else f"{value:.4g}"


def _html(tag: str, cells: Sequence[str]) -> str:
    inside = "".join(f'<{tag} style="{_CELL}">{escape(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inside}</tr>"


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a data frame of pandas."""
    pandas = import_extra("pandas", "frames", "to_pandas needs pandas")
    return pandas.DataFrame(dict(columns))
