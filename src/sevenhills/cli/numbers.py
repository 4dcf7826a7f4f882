"""Cells that are numbers, missing values or words."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import nan

_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "nil", "none", "missing", "?", "-", "."}

_EXPONENT = r"(e[+-]?\d+)?"
#: 1,5 and 1.234,5 can only have a decimal comma, 1.5 and 1,234.5 only a point.
_WITH_COMMA = re.compile(rf"[+-]?(\d*|\d{{1,3}}(\.\d{{3}})+),\d+{_EXPONENT}", re.IGNORECASE)
_WITH_POINT = re.compile(rf"[+-]?(\d*|\d{{1,3}}(,\d{{3}})+)\.\d+{_EXPONENT}", re.IGNORECASE)
#: 1,234 may be either.
_GROUPED = {
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"),
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?"),
}
_ONLY_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*")


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in _MISSING


def is_ambiguous(cell: str) -> bool:
    """Whether a cell may be a number of thousands or one with three decimals, like 1,234."""
    return _ONLY_GROUPED.fullmatch(cell.strip()) is not None


@dataclass(frozen=True)
class Notation:
    """How numbers are written.

    Parameters
    ----------
    mark : {".", ","} or None
        The decimal mark; the other one may group thousands. With None there is no number that
        has either a decimal comma or groups.

    Examples
    --------
    >>> from sevenhills.cli.numbers import Notation
    >>> Notation(".").number("1,234.5"), Notation(",").number("1.234,5")
    (1234.5, 1234.5)
    """

    mark: str | None = None

    @classmethod
    def of(cls, cells: Iterable[str], separator: str) -> "Notation":
        """Return the notation that cells of a file show."""
        found = {mark for cell in cells for mark in _marks(cell.strip())}
        if "point" in found:
            return cls(".")
        # Who writes decimal commas separates cells otherwise.
        if "comma" in found or ("grouped by commas" in found and separator == ";"):
            return cls(",")
        return cls("." if "grouped by points" in found else None)

    def number(self, cell: str) -> float:
        """Return the number in a cell, NaN if it is missing.

        Raises
        ------
        ValueError
            If it is a word.
        """
        text = cell.strip().replace("\N{MINUS SIGN}", "-")
        if text.lower() in _MISSING:
            return nan
        if self.mark is not None and _GROUPED[self.mark].fullmatch(text):
            text = text.replace("." if self.mark == "," else ",", "")
        if self.mark == ",":
            # A point that groups nothing has no meaning here.
            text = text.replace(".", "?").replace(",", ".")
        if "_" in text:  # which Python takes for part of a number
            raise ValueError(text)
        return float(text)

    def is_number(self, cell: str) -> bool:
        """Whether a cell is a number that is not missing."""
        try:
            return not is_missing(cell) and self.number(cell) is not None
        except ValueError:
            return False


def _marks(cell: str) -> list[str]:
    """Return which notation a cell speaks for."""
    if grouped := _ONLY_GROUPED.fullmatch(cell):
        return ["grouped by commas" if grouped[1] == "," else "grouped by points"]
    if _WITH_COMMA.fullmatch(cell):
        return ["comma"]
    return ["point"] if _WITH_POINT.fullmatch(cell) else []
