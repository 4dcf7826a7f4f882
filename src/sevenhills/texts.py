"""Values as text: JSON, counts with their nouns, and tables of terminals and notebooks."""

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite
from typing import Any


def json_value(value: Any) -> Any:
    """Return a value without numpy's types, and with None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): json_value(each) for key, each in value.items()}
    if hasattr(value, "tolist"):
        return json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    return value


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return names with commas and an "and"."""
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in aligned columns, the first one to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def html_table(text: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a paragraph and a table as HTML; lines of a cell are separated by semicolons."""
    style = "padding: 0.1em 0.9em; text-align: right"
    lines = []
    for tag, row in (("th", headings), *(("td", row) for row in rows)):
        cells = (escape(cell).replace("\n", "; ") for cell in row)
        lines.append("".join(f'<{tag} style="{style}">{cell}</{tag}>' for cell in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<p style="margin: 0.7em 0 0.3em">{escape(text)}</p>'
        f'<table style="border-collapse: collapse">{body}</table>'
    )
