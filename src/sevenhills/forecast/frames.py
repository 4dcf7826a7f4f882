"""Tables of figures: as text, for notebooks and papers, and as frames of other libraries."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from math import isnan
from typing import Any

from ..atomic_write import atomic_write
from ..extras import import_extra

_CELL = "padding: 0.1em 0.9em; text-align: right"


class Tabular(ABC):
    """A result that is a table of rows."""

    @abstractmethod
    def columns(self) -> Mapping[str, Any]:
        """Return the table by columns."""

    @abstractmethod
    def _caption(self) -> str:
        """Return what stands above the table."""

    def to_pandas(self) -> Any:
        """Return the table as a data frame of pandas."""
        pandas = import_extra("pandas", "frames", "to_pandas needs pandas")
        return pandas.DataFrame(dict(self.columns()))

    def to_polars(self) -> Any:
        """Return the table as a data frame of polars."""
        polars = import_extra("polars", "frames", "to_polars needs polars")
        return polars.DataFrame(dict(self.columns()))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a file."""
        parquet = import_extra("pyarrow.parquet", "frames", "to_parquet needs pyarrow")
        arrow = import_extra("pyarrow", "frames", "to_parquet needs pyarrow")
        with atomic_write(path) as file:
            parquet.write_table(arrow.table(dict(self.columns())), file)

    def to_latex(self) -> str:
        """Return the table in LaTeX, with the rules of the package booktabs."""
        columns = self.columns()
        head = " & ".join(_latex(name) for name in columns)
        rows = [" & ".join(map(_latex, row)) + r" \\" for row in self._rows()]
        layout = "l" + "r" * (len(columns) - 1)
        lines = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", head + r" \\", r"\midrule", *rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def _rows(self) -> list[list[str]]:
        """Return the rows as text."""
        return [
            [_text(value) for value in row] for row in zip(*self.columns().values(), strict=True)
        ]

    def __repr__(self) -> str:
        rows = [list(self.columns()), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([self._caption(), *lines])

    def _repr_html_(self) -> str:
        rows = [_html("th", list(self.columns())), *(_html("td", row) for row in self._rows())]
        caption = f'<p style="margin: 0.7em 0 0.3em">{escape(self._caption())}</p>'
        return f'{caption}<table style="border-collapse: collapse">{"".join(rows)}</table>'


def _text(value: Any) -> str:
    """Return a figure with as many digits as are read."""
    if not isinstance(value, float):
        return str(value)
    return "-" if isnan(value) else f"{value:.4g}"


def _html(tag: str, cells: Sequence[str]) -> str:
    inside = "".join(f'<{tag} style="{_CELL}">{escape(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inside}</tr>"


def _latex(text: str) -> str:
    return text.replace("_", r"\_").replace("%", r"\%")
