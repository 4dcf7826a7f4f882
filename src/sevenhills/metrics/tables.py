"""Tables of figures: text, HTML, columns and data frames."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from math import isnan
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from ..estimate import Estimate
from ..extras import import_extra
from ..texts import html_table, text_table

#: Width of captions, in characters.
_WIDTH = 100
#: Short headings of columns in print.
_HEADINGS = {
    "standard_error": "error",
    "trimmed_mean": "trimmed",
    "largest_share": "largest",
    "n_scenes": "scenes",
    "n_groups": "groups",
    "n_degenerate": "degenerate",
}


class MeasureTable:
    """A result with a caption and a row of figures for every measure, or whatever comes first."""

    summary: tuple[Any, ...]
    settings: Mapping[str, Any]
    _caption: Callable[[], str]

    def __getitem__(self, name: str) -> Any:
        kind = fields(self.summary[0])[0].name
        rows = {getattr(row, kind): row for row in self.summary}
        if name not in rows:
            raise KeyError(f"there is no {kind} {name!r}, only {list(rows)}")
        return rows[name]

    def __reduce__(self) -> tuple[Any, ...]:
        values = vars(self).values()
        return type(self), tuple(dict(v) if isinstance(v, MappingProxyType) else v for v in values)

    def columns(self) -> dict[str, Any]:
        """Return the table by columns."""
        names = [field.name for field in fields(self.summary[0])]
        return {name: [getattr(row, name) for row in self.summary] for name in names}

    def to_pandas(self) -> Any:
        """Return the table as a data frame of pandas."""
        return data_frame(self.columns())

    def texts(self, *what: str) -> list[list[str]]:
        """Return :meth:`columns` as text, heading first, without what repeats the caption."""
        known = {"n_degenerate": 0, "n_scenes": self.settings.get("n_scenes")}
        columns = {
            name: values
            for name, values in self.columns(*what).items()
            if name not in known or set(values) != {known[name]}
        }
        rows = zip(*columns.values(), strict=True)
        headings = [_HEADINGS.get(name, name) for name in columns]
        return [headings, *([_text(value) for value in row] for row in rows)]

    def __repr__(self) -> str:
        return "\n".join([*wrap(self._caption(), _WIDTH), text_table(self.texts())])

    def _repr_html_(self) -> str:
        headings, *rows = self.texts()
        return html_table(self._caption(), headings, rows)


def _text(value: Any) -> str:
    if not isinstance(value, float) or isinstance(value, Estimate):
        return str(value)
    return "-" if isnan(value) else f"{value:.4g}"


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a data frame of pandas."""
    pandas = import_extra("pandas", "frames", "to_pandas needs pandas")
    return pandas.DataFrame(dict(columns))
