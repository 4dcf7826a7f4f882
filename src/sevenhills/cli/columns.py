"""Columns of a table: cells as numbers, missing values or words."""

import re
import shlex
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from math import nan
from typing import Any, NamedTuple

import numpy as np

from ..extras import import_extra
from .dates import days_in, has_unknown_order, hours_in, weekday_in
from .screen import listed

_MISSING = {"", "na", "nan", "null", "none"}
#: Cells that are missing values, too, and are named in a remark: they might mean something else.
_MARKERS = {"n/a", "#n/a", "nil", "missing", "?", "-", "--", "."}
#: Numbers with groups of thousands, by decimal mark.
_GROUPED = {
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"),
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?"),
}
#: The same with spaces or apostrophes, which are no decimal marks.
_SPACED = re.compile(r"[+-]?[1-9]\d{0,2}([ '\u2019]\d{3})+([.,]\d*)?")
_TYPOGRAPHY = str.maketrans({"\u2212": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " "})
_CURRENCY = r"[$€£¥]|USD|EUR|GBP|CHF|JPY"
_QUANTITY = re.compile(
    rf"([+-]?)\s*({_CURRENCY})?\s*([+-]?)(\d[\d., '\u2019]*|[.,]\d+)\s*(%|{_CURRENCY})?"
)
#: A number and a unit of measurement. One letter needs a space before it: 10k may be 10,000.
_MEASURE = re.compile(
    r"([+-]?(?:\d[\d., '\u2019]*|[.,]\d+))(?:\s+([^\W\d_][^\s\d]{0,9})|([^\W\d_][^\s\d]{1,9}|°\w))"
)
#: Words after numbers of which the same one may mean different things.
_NO_UNITS = {"am", "pm", "AM", "PM", "st", "nd", "rd", "th"}
#: Units beside which a comma never marks decimals.
_POINT_UNITS = ("$", "£", "USD", "GBP")
#: Numbers in a column for each word in it; with fewer it is a column of words.
_NUMBERS_PER_WORD = 4
#: Rows that show whether a column counts rows, and whether it does with gaps or in another order.
_MIN_ROWS, _SURE_ROWS = 5, 20
#: Whole numbers between these may be years, of which a table often has one in every row.
_YEARS = 1500, 2100
_INDEX_NAME = re.compile(r"|Unnamed: 0(\.\d+)*")
#: Names like order_id, PassengerId or Nr.
_ID_NAME = re.compile(r"(?i:(.*[_\W])?(id|uuid|guid|key|nr)\.?)|.*[a-z]I[dD]")
#: Periods of readings, and the units of their numbers, by their first words.
_PERIODS = {"times": 24, "weekdays": 7}
_UNITS = {"dates,": "days", "times": "hours", "durations,": "hours"}
#: Words by which the last row is a summary of the others.
_SUMMARIES = {
    *("total", "totals", "grand total", "sum", "mean", "average", "median"),
    *("summe", "gesamt", "insgesamt", "mittelwert", "durchschnitt"),
}
#: Characters of a word that a message quotes.
_MAX_QUOTED = 24
#: Different words of a column that a message quotes.
MAX_WORDS = 4


def number_in(cell: Any, mark: str | None = ".") -> float | None:
    """Return the number in a cell, NaN if it is missing, None if it is a word.

    The character of "." and "," that is not the decimal mark may group thousands, and so may
    spaces and apostrophes. If the mark is None, numbers have neither a decimal comma nor groups by
    commas or points.
    """
    if isinstance(cell, str):
        # Spreadsheets mark numbers that are texts by an apostrophe.
        text = cell.translate(_TYPOGRAPHY).strip().removeprefix("'")
        if _SPACED.fullmatch(text):
            text = re.sub(r"[ '\u2019]", "", text)
        if mark is not None and _GROUPED[mark].fullmatch(text):
            text = text.replace("." if mark == "," else ",", "")
        if text.lower() in _MISSING or text.lower() in _MARKERS:
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


class Quantity(NamedTuple):
    """The number of a cell as a text, and its unit: a currency, a percent sign, or nothing."""

    text: str
    unit: str
    #: Whether the number is negative because it is in parentheses, as in accounting.
    in_parentheses: bool


def quantity_in(cell: Any) -> Quantity | None:
    """Return the number and the unit of a cell like $1,200, 12 % or (3.50)."""
    if not isinstance(cell, str):
        return None
    text = cell.translate(_TYPOGRAPHY).strip()
    in_parentheses = text.startswith("(") and text.endswith(")")
    match = _QUANTITY.fullmatch(text[1:-1].strip() if in_parentheses else text)
    if match is None:
        return None
    first, before, second, number, after = (part or "" for part in match.groups())
    if (before and after) or in_parentheses + len(first + second) > 1:
        return None
    sign = "-" if in_parentheses else first + second
    return Quantity(sign + number.strip(), before or after, in_parentheses)


def is_number(cell: str, mark: str | None) -> bool:
    """Return whether a cell is a number, with or without a unit, that is not missing."""
    quantity = quantity_in(cell)
    number = number_in(quantity.text if quantity else cell, mark)
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
    #: The first different ones, quoted.
    different: tuple[str, ...]
    #: The remedy if the first is a number or a date with two readings.
    advice: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file as numbers."""

    #: The name of the file in messages.
    source: str
    #: DataFrame of floats, NaN where values are missing or words.
    frame: Any
    #: The words of the columns that have some.
    words: dict[str, Words]
    #: Row numbers and identifiers: the columns that tell rows apart but measure nothing.
    identifiers: dict[str, str]
    #: Rows of units and totals; their values are missing.
    label_rows: tuple[int, ...]
    #: Whether the file itself names its columns.
    has_names: bool
    #: Decisions that were made to read the file.
    remarks: tuple[str, ...]
    #: DataFrame of the cells as they are in the file.
    cells: Any
    #: The units of the numbers in columns of dates and times.
    units: dict[str, str]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    def is_numeric(self, name: str) -> bool:
        """Return whether nearly all values of a column are numbers."""
        n_words = self.words[name].count if name in self.words else 0
        return is_mostly_numbers(int(self.frame[name].notna().sum()), n_words)

    def categories(self, name: str) -> Any:
        """Return the category of every row, a Series of texts that are missing where cells are.

        In a column of numbers, equal numbers are one category, called as the first of them.
        """
        cells = self.cells[name].loc[self.frame.index].astype(object)
        if not all(isinstance(cell, Hashable) for cell in cells):
            cells = cells.map(str)
        texts = cells.map({cell: _text(cell) for cell in cells.unique()})
        if not self.is_numeric(name):
            return texts
        values = self.frame[name]
        return texts.groupby(values).transform("first").where(values.notna())


def is_mostly_numbers(n_numbers: int, n_words: int) -> bool:
    """Return whether a column is one of numbers, by its numbers of numbers and of words."""
    return n_numbers >= _NUMBERS_PER_WORD * n_words


def table_of_cells(
    source: str,
    cells: Any,
    has_names: bool,
    mark: str | None = ".",
    remarks: Sequence[str] = (),
) -> Table:
    """Return the numbers in a frame of numbers, texts or other objects as a table."""
    pandas = import_extra("pandas", "cli", "reading tables needs pandas")
    names: list[str] = default_names(cells.shape[1])
    headers: Sequence[str | None] = [None] * cells.shape[1]
    if has_names:
        headers = [_one_line(header) for header in cells.columns]
        names, changes = _distinct_names(cells.columns, source)
        remarks = [*changes, *remarks]
    columns = [_column_of(cells.iloc[:, i], mark) for i in range(len(names))]
    labels = {**_unit_row(cells, columns), **_summary_row(cells)}
    words, identifiers = {}, {}
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        column.values[list(labels)] = nan
        rows = [row for row in column.word_rows if row not in labels]
        if rows:
            texts = cells.iloc[:, i].tolist()
            found = [texts[row] for row in rows]
            words[name] = _words(found, rows[0] + 1)
            if _are_identifiers(found, len(cells) - len(labels)):
                identifiers[name] = "identifiers"
        elif not column.unit and (kind := _counted(column.values, headers[i], i)):
            identifiers[name] = kind
    remarks = [*remarks, *_unit_remarks(names, columns), *_marker_remarks(names, columns)]
    remarks += labels.values()
    frame = pandas.DataFrame({n: each.values for n, each in zip(names, columns, strict=True)})
    cells = cells.copy(deep=False)
    cells.columns, cells.index = names, frame.index
    firsts = (
        (name, column.unit.split(" ")[0]) for name, column in zip(names, columns, strict=True)
    )
    return Table(
        source=source,
        frame=frame,
        words=words,
        identifiers=identifiers,
        label_rows=tuple(labels),
        has_names=has_names,
        remarks=tuple(remarks),
        cells=cells,
        units={name: _UNITS[first] for name, first in firsts if first in _UNITS},
    )


def _text(cell: Any) -> str | None:
    """Return a cell as a text, None if it is missing."""
    number = number_in(cell)
    if number is not None and number != number:
        return None
    if isinstance(cell, float | np.floating):
        return f"{cell:.15g}"
    text = " ".join(str(cell).split()).removesuffix(" 00:00:00")
    return None if text in ("NaT", "<NA>") else text


class Column(NamedTuple):
    """The numbers of a column, NaN where there are none."""

    values: np.ndarray
    #: The rows that hold words.
    word_rows: list[int]
    #: The unit of the numbers in words, empty if they have none.
    unit: str
    #: Cells like "?" that are missing values, quoted.
    markers: tuple[str, ...] = ()


def _column_of(column: Any, mark: str | None) -> Column:
    """Return the numbers of a column, and where its words are."""
    if column.dtype.kind in "iuf":
        return Column(column.to_numpy(np.float64, copy=True), [], "")
    cells = column.tolist()
    if mark != "," and not _numpy_misreads(cells):
        try:
            return Column(np.array(cells, dtype=np.float64).reshape(len(cells)), [], "")
        except (ValueError, TypeError, OverflowError):
            pass  # some cells are missing or words
    numbers, unit = [number_in(cell, mark) for cell in cells], ""
    if None in numbers:
        numbers, unit = _best_reading(cells, numbers, mark)
    values = np.array([nan if number is None else number for number in numbers], dtype=np.float64)
    rows = [row for row, number in enumerate(numbers) if number is None]
    texts = {cell.strip(): None for cell in cells if isinstance(cell, str)}
    markers = tuple(repr(text) for text in texts if text.lower() in _MARKERS)
    return Column(values, rows, unit, markers)


_Reading = tuple[list[float | None], str]


def _best_reading(cells: list[Any], plain: list[float | None], mark: str | None) -> _Reading:
    """Return the numbers of a column in the unit that leaves the fewest words."""
    is_missing = [number is not None and number != number for number in plain]
    readings = [
        _quantities(cells, plain, mark),
        _measures(cells, mark),
        (days_in(cells), "dates, read as days since 1970-01-01"),
        ([hours_in(cell) for cell in cells], "times of day, read as hours"),
        ([_duration(cell) for cell in cells], "durations, read as hours"),
        ([weekday_in(cell) for cell in cells], "weekdays, read as 1 (Monday) to 7"),
    ]
    best: _Reading = (plain, "")
    for numbers, unit in readings:
        known = [nan if gap else number for gap, number in zip(is_missing, numbers, strict=True)]
        n_words = known.count(None)
        n_numbers = len(known) - n_words - sum(is_missing)
        if n_words < best[0].count(None) and is_mostly_numbers(n_numbers, n_words):
            best = (known, unit)
    return best


def _quantities(cells: list[Any], plain: list[float | None], mark: str | None) -> _Reading:
    """Return the numbers of a column of currency, percentages or accounts.

    Amounts without the sign of the currency have it too. Numbers beside percentages are words,
    because 0.12 may be 12 %.
    """
    found = [quantity_in(cell) for cell in cells]
    known = [each for each in found if each]
    units = Counter(each.unit for each in known if each.unit)
    unit = units.most_common(1)[0][0] if units else ""
    parts = []
    if unit:
        parts.append("percentages, 12 % is read as 12" if unit == "%" else f"amounts in {unit}")
    if mark is None and _groups_thousands([each.text for each in known], unit):
        mark = "."
        parts.append("commas group thousands")
    n_negative = sum(each.in_parentheses for each in known)
    if n_negative:
        parts.append(f"{n_negative:,} in parentheses, read as negative")
    accepted = ("%",) if unit == "%" else ("", unit)
    numbers = [
        number_in(each.text, mark) if each and each.unit in accepted else None for each in found
    ]
    if unit != "%":
        numbers = [a if b is None else b for a, b in zip(plain, numbers, strict=True)]
    return numbers, "; ".join(parts)


def _measures(cells: list[Any], mark: str | None) -> _Reading:
    """Return the numbers of a column of measurements in the most frequent unit, like 12 kg."""
    texts = (cell.translate(_TYPOGRAPHY).strip() if isinstance(cell, str) else "" for cell in cells)
    matches = [_MEASURE.fullmatch(text) for text in texts]
    units = Counter(each[2] or each[3] for each in matches if each)
    if not units or units.keys() & _NO_UNITS:
        return [None] * len(cells), ""
    ((unit, _),) = units.most_common(1)
    numbers = [
        number_in(each[1], mark) if each and unit in (each[2], each[3]) else None
        for each in matches
    ]
    return numbers, f"measurements in {unit}"


def _duration(cell: Any) -> float | None:
    return cell / timedelta(hours=1) if isinstance(cell, timedelta) else None


def _groups_thousands(texts: Sequence[str], unit: str) -> bool:
    """Return whether the commas in a column group thousands, and cannot mark decimals.

    Beside 950, the comma of 1,200 does: with three decimals, 950 would be 950,000.
    """
    with_commas = [text for text in texts if "," in text]
    mark = decimal_mark(texts, "")
    if not with_commas or mark is not None:
        return bool(with_commas) and mark == "."
    whole = [text.lstrip("+-") for text in texts if "," not in text]
    is_small = all(each.isdecimal() and len(each) <= 3 for each in whole)
    ends_in_zero = any(text.endswith("0") for text in with_commas)
    return unit in _POINT_UNITS or (bool(whole) and is_small and ends_in_zero)


def _unit_remarks(names: Sequence[str], columns: Sequence[Column]) -> list[str]:
    """Return a remark on the columns of every unit."""
    members: dict[str, list[str]] = {}
    for name, column in zip(names, columns, strict=True):
        if column.unit:
            members.setdefault(column.unit, []).append(name)
    remarks = []
    for unit, found in members.items():
        noun = "column" if len(found) == 1 else "columns"
        period = next((value for word, value in _PERIODS.items() if unit.startswith(word)), None)
        options = " ".join(f"--support {shlex.quote(name)}=circular:{period}" for name in found[:3])
        circular = "makes it circular" if len(found) == 1 else "makes them circular"
        advice = f"; {options} {circular}" if period else ""
        remarks.append(f"{noun} {listed(found)}: {unit}{advice}")
    return remarks


def _marker_remarks(names: Sequence[str], columns: Sequence[Column]) -> list[str]:
    """Return a remark on the columns of numbers with the same cells like "?"."""
    members: dict[tuple[str, ...], list[str]] = {}
    for name, column in zip(names, columns, strict=True):
        if column.markers and not np.isnan(column.values).all():
            members.setdefault(column.markers, []).append(name)
    return [
        f"{'column' if len(found) == 1 else 'columns'} {listed(found)}: missing values are marked "
        f"{listed(markers)}"
        for markers, found in members.items()
    ]


def _unit_row(cells: Any, columns: Sequence[Column]) -> dict[int, str]:
    """Return a remark on the first row if it has words where other rows have numbers."""
    if len(cells) < 2 or any(column.values[0] == column.values[0] for column in columns):
        return {}
    numeric = [
        i
        for i, column in enumerate(columns)
        if is_mostly_numbers(int(np.sum(~np.isnan(column.values))), len(column.word_rows))
        and not np.isnan(column.values).all()
    ]
    units = [_quoted(cells.iat[0, i]) for i in numeric if columns[i].word_rows[:1] == [0]]
    if len(units) < 2 or 2 * len(units) < len(numeric):
        return {}
    return {0: f"left out row 1: no numbers, but words or units: {listed(units)}"}


def _summary_row(cells: Any) -> dict[int, str]:
    """Return a remark on the last row if a word in it, and in no other, calls it a summary."""
    last = len(cells) - 1
    for i, cell in enumerate(cells.iloc[last] if len(cells) else ()):
        is_summary = isinstance(cell, str) and cell.strip(" :").lower() in _SUMMARIES
        if is_summary and int((cells.iloc[:, i] == cell).sum()) == 1:
            return {
                last: f"left out row {last + 1}: it is called {_quoted(cell)}, and is no sample"
            }
    return {}


def _are_identifiers(words: Sequence[Any], n_rows: int) -> bool:
    """Return whether all rows have words, all differ, and they are no ambiguous numbers."""
    is_complete = len(words) == n_rows >= _MIN_ROWS
    return is_complete and len(set(map(str, words))) == n_rows and not _advice(words[0])


def _counted(values: np.ndarray, header: str | None, position: int) -> str | None:
    """Return the kind of whole numbers that tell rows apart, None if they may be measured."""
    rows = np.flatnonzero(np.isfinite(values))
    known = values[rows]
    if len(rows) < _MIN_ROWS or 2 * len(rows) < len(values) or np.any(known != np.floor(known)):
        return None
    is_index = header is not None and position == 0 and _INDEX_NAME.fullmatch(header)
    if (is_index and known.min() >= 0) or _counts_rows(known, rows):
        return "row numbers"
    is_unique = len(np.unique(known)) == len(known)
    return "identifiers" if is_unique and header and _ID_NAME.fullmatch(header) else None


def _counts_rows(known: np.ndarray, rows: np.ndarray) -> bool:
    """Return whether whole numbers count rows, or did before rows were removed or shuffled."""
    low, high = known.min(), known.max()
    if _YEARS[0] <= low and high <= _YEARS[1]:
        return False
    if any(np.ptp(known - sign * rows) == 0 for sign in (1, -1)):
        return True
    n_numbers, steps = high - low + 1, np.diff(known)
    is_ordered = (steps > 0).all() or (steps < 0).all()
    is_complete = low in (0, 1) and n_numbers == len(known) == len(np.unique(known))
    return len(known) >= _SURE_ROWS and bool(
        is_complete or (is_ordered and n_numbers < 2 * len(known))
    )


def _words(cells: Sequence[Any], first_row: int) -> Words:
    different = tuple(dict.fromkeys(map(_quoted, cells)))
    return Words(len(cells), _example(cells[0], first_row), different, _advice(cells[0]))


def _numpy_misreads(cells: Sequence[Any]) -> bool:
    """Return whether there are cells that numpy would take for numbers: 1_0 and truth values."""
    if all(isinstance(cell, str) for cell in cells):
        return "_" in "".join(cells)
    return any(isinstance(cell, bool) for cell in cells)


def _quoted(cell: Any) -> str:
    """Return a word in quotes, without its end if it is long."""
    text = repr(cell)
    if len(text) <= _MAX_QUOTED:
        return text
    if isinstance(cell, str):
        return repr(f"{cell[: _MAX_QUOTED - 5]}...")
    return f"{text[: _MAX_QUOTED - 3]}..."


def _example(cell: Any, row: int) -> str:
    """Return a word, quoted, its row, and the remedy if it has two readings."""
    advice = _advice(cell)
    return f"{_quoted(cell)} in row {row}{f'; {advice}' if advice else ''}"


def _advice(cell: Any) -> str:
    """Return the remedy for a word that is a number or a date with two readings."""
    quantity = quantity_in(cell)
    readings = {number_in(quantity.text, mark) for mark in ".,"} if quantity else {None}
    if len(readings) == 2 and None not in readings:
        return "--decimal says what the mark in it means"
    if has_unknown_order(cell):
        return "day or month first? dates like 2024-12-31 are read"
    return ""


def default_names(n_columns: int) -> list[str]:
    """Return names for columns that have none."""
    return [f"x{i}" for i in range(n_columns)]


def _distinct_names(names: Iterable[str], source: str) -> tuple[list[str], list[str]]:
    """Return names that all differ and are not blank, and a remark if they were changed."""
    out: dict[str, None] = {}
    changes = []
    for i, given in enumerate(names):
        name = original = _one_line(given) or f"x{i}"
        number = 2
        while name in out:
            name = f"{original}_{number}"
            number += 1
        if name != _one_line(given):
            changes.append(f"column {i + 1} is called {name}")
        _check_encodable(name, source)
        out[name] = None
    problem = f"{source}: a column has no name or that of another"
    return list(out), [f"{problem}: {listed(changes)}"] if changes else []


def _one_line(name: str) -> str:
    """Return a name without blanks around it and line breaks in it."""
    return " ".join(name.strip().splitlines())


def _check_encodable(name: str, source: str) -> None:
    """Refuse a name that cannot be written to any file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{source}: column {name!a} cannot be written as UTF-8, because it holds half of a "
            "surrogate pair; rename it"
        ) from None
