"""Columns of dates, times of day and weekdays as numbers."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from math import nan
from typing import Any

#: A fixed origin, so that the dates of two tables can be compared.
_ORIGIN = datetime(1970, 1, 1)
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
_DATE = re.compile(r"(\d{4}|\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{1,2})(?:[T ]\s*(.+))?")
#: Dates with the name of the month: 5 Jan 2024, 05-Jan-2024, January 5, 2024.
_NAMED = re.compile(
    r"(?:(\d{1,2})\.?[ -]([a-z]{3,9})\.?[ -]|([a-z]{3,9})\.? (\d{1,2}),? )(\d{4})", re.IGNORECASE
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
#: The numbers of the months by their names.
_MONTH_NUMBERS = {
    name: i for i, month in enumerate(_MONTHS, 1) for name in (month, month[:3], month[:4])
}
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?(?:\s*([ap])\.?m\.?)?", re.IGNORECASE)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: The numbers of the days of the week by their names, as in ISO 8601.
_WEEKDAY_NUMBERS = {
    name: float(i) for i, day in enumerate(_WEEKDAYS, 1) for name in (day, day[:3], f"{day[:3]}.")
}
#: Two-digit years from here on are those of the last century, as in POSIX.
_FIRST_OF_1900S = 69


def days_in(cells: Sequence[Any]) -> list[float | None]:
    """Return the days from 1970-01-01 to the date in every cell, None where there is none.

    Numbers with slashes or dashes are dates only if a day beyond 12 shows their order.
    """
    matches = [_DATE.fullmatch(cell.strip()) for cell in cells if isinstance(cell, str)]
    is_month_first = _is_month_first([each for each in matches if each])
    return [_days(cell, is_month_first) for cell in cells]


def _is_month_first(dates: Sequence[re.Match[str]]) -> bool | None:
    """Return whether dates with slashes or dashes begin with the month, None if that is unknown."""
    pairs = [(int(each[1]), int(each[3])) for each in dates if each[2] != "." and len(each[1]) < 3]
    has_first_day, has_second_day = (any(pair[i] > 12 for pair in pairs) for i in (0, 1))
    return None if has_first_day == has_second_day else has_second_day


def _days(cell: Any, is_month_first: bool | None) -> float | None:
    if isinstance(cell, str):
        moment = _moment(cell.strip(), is_month_first)
    elif isinstance(cell, datetime):
        moment = cell
    else:
        moment = datetime.combine(cell, time()) if isinstance(cell, date) else None
    if moment is None:
        return None
    if moment != moment:  # pandas' missing date
        return nan
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _ORIGIN) / timedelta(days=1)


def _moment(text: str, is_month_first: bool | None) -> datetime | None:
    """Return the date and the time in a text."""
    try:
        if _ISO.fullmatch(text):
            return datetime.fromisoformat(text)
        named = _NAMED.fullmatch(text)
        if named:
            month = _MONTH_NUMBERS.get((named[2] or named[3]).lower(), 0)
            return datetime(int(named[5]), month, int(named[1] or named[4]))
        match = _DATE.fullmatch(text)
        hours = 0.0 if match is None or match[5] is None else hours_in(match[5])
        if match is None or hours is None:
            return None
        year, month, day = _calendar_date(match, is_month_first)
        return datetime(year, month, day) + timedelta(hours=hours)
    except (ValueError, OverflowError):  # there is no such day
        return None


def _calendar_date(match: re.Match[str], is_month_first: bool | None) -> tuple[int, int, int]:
    """Return year, month and day."""
    first, second, third = (int(match[i]) for i in (1, 3, 4))
    n_digits = tuple(len(match[i]) for i in (1, 3, 4))
    if n_digits[0] == 4 and n_digits[2] < 3:
        return first, second, third
    has_point = match[2] == "."
    # 3.11.4 and 3.11.14 are versions.
    if n_digits[2] == 1 or (has_point and n_digits[2] == 2 and n_digits != (2, 2, 2)):
        raise ValueError("the year is too short")
    if n_digits[2] == 2:
        third += 1900 if third >= _FIRST_OF_1900S else 2000
    if has_point:
        return third, second, first
    if is_month_first is None:
        raise ValueError("the order of day and month is unknown")
    return (third, first, second) if is_month_first else (third, second, first)


def has_unknown_order(cell: Any) -> bool:
    """Return whether a cell is a date whose day and month cannot be told apart by itself."""
    match = _DATE.fullmatch(cell.strip()) if isinstance(cell, str) else None
    return match is not None and _days(cell, None) is None and _days(cell, True) is not None


def hours_in(cell: Any) -> float | None:
    """Return the hours from midnight to the time of day in a cell, None if there is none."""
    if isinstance(cell, time):
        return cell.hour + cell.minute / 60 + (cell.second + cell.microsecond / 1e6) / 3600
    match = _CLOCK.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if match is None:
        return None
    hours, minutes, seconds = int(match[1]), int(match[2]), float(match[3] or 0)
    if match[4]:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + 12 * (match[4] in "pP")
    if hours >= 24 or minutes >= 60 or seconds >= 60:
        return None
    return hours + minutes / 60 + seconds / 3600


def weekday_in(cell: Any) -> float | None:
    """Return the number of a weekday, from 1 for Monday to 7, None if a cell names none."""
    return _WEEKDAY_NUMBERS.get(cell.strip().lower()) if isinstance(cell, str) else None
