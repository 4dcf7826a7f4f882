"""Samples from a table: columns and rows that a density cannot use are left out, and named."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from .columns import Column, Table
from .options import Choices
from .screen import counted, listed

#: Columns of words with a remark of their own.
_MAX_REMARKS = 8


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples that a density is fitted to.

    Attributes
    ----------
    source : str
        The name of the file in messages.
    names : list of str
    X : ndarray of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,) or None
    rows : ndarray of shape (n_samples,)
        Their rows in the table, counted from zero.
    has_names : bool
        Whether the file itself names its columns.
    left_out : dict
        Names of the columns and numbers of the rows that were left out, by reason.
    remarks : tuple of str
        The same in words.
    """

    source: str
    names: list[str]
    X: np.ndarray
    weights: np.ndarray | None
    rows: np.ndarray
    has_names: bool
    left_out: dict[str, list[str] | int]
    remarks: tuple[str, ...]


def samples_of(
    table: Table, choices: Choices, constant: str = "drop", weights: str | None = None
) -> Samples:
    """Return the numbers of a table.

    Parameters
    ----------
    table : Table
    choices : Choices
    constant : {"drop", "keep", "raise"}, default="drop"
        Columns with one value only: leave them out, keep or refuse them.
    weights : str, optional
        The column of weights.
    """
    weight = None if weights is None else column_named(table, weights)
    remarks = list(table.remarks)
    columns, text = _with_numbers(table, _wanted(table, choices, weight), choices, remarks)
    columns, empty = _not_empty(table, columns, remarks)
    rows = _complete_rows(table, columns, weight, choices.missing, remarks)
    columns, flat = _varying(table, columns, rows, constant, remarks)
    X = np.stack([column.values[rows] for column in columns], axis=1)
    kept = _distinct_rows(X, weight, choices.duplicates, remarks)
    return Samples(
        source=table.source,
        names=[column.name for column in columns],
        X=X[kept],
        weights=None if weight is None else weight.values[rows[kept]],
        rows=rows[kept],
        has_names=table.has_names,
        left_out={
            "text_columns": text,
            "empty_columns": empty,
            "constant_columns": flat,
            "rows_with_missing_values": table.n_rows - len(rows),
            "duplicate_rows": len(rows) - len(kept),
        },
        remarks=tuple(remarks),
    )


def column_named(table: Table, name: str) -> Column:
    """Return a column by its name or, if no column has that name, by its index."""
    name = name.strip()
    if name in table.names:
        return table.columns[table.names.index(name)]
    if name.isdecimal() and int(name) < len(table.columns):
        return table.columns[int(name)]
    close = get_close_matches(name, table.names, 1)
    advice = f"did you mean {close[0]!r}?" if close else f"it has {listed(table.names, 8)}"
    raise ValueError(f"{table.source} has no column {name!r}; {advice}")


def _wanted(table: Table, choices: Choices, weight: Column | None) -> list[Column]:
    """Return the columns named by the user, by default all but the weights."""
    if choices.columns is None:
        return [column for column in table.columns if column is not weight]
    names = [name for name in choices.columns.split(",") if name.strip()]
    found = [column_named(table, name) for name in names]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"--columns must name different columns, got {choices.columns!r}")
    return found


def _without(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    return [column for column in columns if column.name not in names]


def _with_numbers(
    table: Table, columns: Sequence[Column], choices: Choices, remarks: list[str]
) -> tuple[list[Column], list[str]]:
    """Return columns without those of words, and the names of these."""
    with_words = [column for column in columns if column.n_words]
    if with_words and (
        choices.text == "raise" or (choices.text == "drop" and choices.columns is not None)
    ):
        first = with_words[0]
        raise ValueError(
            f"{table.source}: column {first.name!r} does not hold numbers ({first.example}); "
            "--text missing takes words as missing values"
        )
    if choices.text == "missing":
        kept = [column for column in with_words if not column.is_empty]
        remarks += [words_remark(column) for column in kept]
        with_words = [column for column in with_words if column.is_empty]
    else:
        remarks += [_dropped_words_remark(column) for column in with_words[:_MAX_REMARKS]]
        if len(with_words) > _MAX_REMARKS:
            n_more = len(with_words) - _MAX_REMARKS
            remarks.append(f"and {n_more} more columns that do not hold numbers")
    dropped = [column.name for column in with_words]
    return _without(columns, dropped), dropped


def words_remark(column: Column) -> str:
    """Return the remark on a column whose words are missing values."""
    return (
        f"column {column.name}: {counted(column.n_words, 'word')} taken as missing, the first is "
        f"{column.example}"
    )


def _dropped_words_remark(column: Column) -> str:
    if column.is_empty:
        return f"left out column {column.name}: it holds no numbers, but {column.example}"
    are = "is no number" if column.n_words == 1 else "are no numbers"
    return (
        f"left out column {column.name}: {column.n_words:,} of its {len(column.values):,} values "
        f"{are}, first {column.example}; --text missing keeps it"
    )


def _not_empty(
    table: Table, columns: Sequence[Column], remarks: list[str]
) -> tuple[list[Column], list[str]]:
    """Return columns without empty ones, and the names of these."""
    empty = [column.name for column in columns if column.is_empty]
    if empty:
        remarks.append(f"left out {columns_named(empty)}: no values")
    if len(empty) == len(columns):
        example = next((column.example for column in table.columns if column.example), "")
        ending = f"; there is {example}" if example else ""
        raise ValueError(f"{table.source} has no column of numbers{ending}")
    return _without(columns, empty), empty


def columns_named(names: Sequence[str]) -> str:
    """Return names of columns after their noun."""
    return f"{'column' if len(names) == 1 else 'columns'} {listed(names)}"


def _complete_rows(
    table: Table,
    columns: Sequence[Column],
    weight: Column | None,
    missing: str,
    remarks: list[str],
) -> np.ndarray:
    """Return the rows in which no value is missing or infinite."""
    needed = [*columns, *([] if weight is None else [weight])]
    is_missing = {column.name: ~np.isfinite(column.values) for column in needed}
    is_incomplete = np.logical_or.reduce(list(is_missing.values()))
    n_left_out = int(is_incomplete.sum())
    if n_left_out == 0:
        return np.arange(table.n_rows)
    counts = {name: int(each.sum()) for name, each in is_missing.items() if each.any()}
    worst = sorted(counts, key=lambda name: -counts[name])
    where = listed([f"{name} ({counts[name]:,})" for name in worst])
    share = f"{n_left_out:,} of {counted(table.n_rows, 'row')}"
    if missing == "raise":
        row = int(is_incomplete.argmax()) + 1
        raise ValueError(
            f"{table.source}: {share} have missing or infinite values, first row {row}; in {where}"
        )
    if n_left_out == table.n_rows:
        raise ValueError(
            f"{table.source}: every row has a missing value, in {where}; choose --columns"
        )
    remarks.append(f"left out {share} with missing or infinite values, in {where}")
    return np.flatnonzero(~is_incomplete)


def _varying(
    table: Table,
    columns: Sequence[Column],
    rows: np.ndarray,
    constant: str,
    remarks: list[str],
) -> tuple[list[Column], list[str]]:
    """Return columns without those of one value, and the names of these."""
    values = {column.name: column.values[rows] for column in columns}
    flat = [name for name, numbers in values.items() if (numbers == numbers[0]).all()]
    if not flat or constant == "keep":
        return list(columns), []
    shown = [f"{name} ({values[name][0]:g})" for name in flat]
    if constant == "raise" or len(flat) == len(columns):
        what = "every column has" if len(flat) == len(columns) else "there are columns with"
        raise ValueError(
            f"{table.source}: {what} one value only: {listed(shown)}; use --constant keep"
        )
    remarks.append(f"left out {columns_named(shown)}: one value only")
    return _without(columns, flat), flat


def _distinct_rows(
    X: np.ndarray, weight: Column | None, duplicates: str, remarks: list[str]
) -> np.ndarray:
    """Return the samples to keep: all, or one of each."""
    _, first = np.unique(X, axis=0, return_index=True)
    n_repeated = len(X) - len(first)
    verb, count = ("repeats", "counts") if n_repeated == 1 else ("repeat", "count")
    if n_repeated and duplicates == "keep":
        remarks.append(
            f"{counted(n_repeated, 'row')} {verb} others and {count} all the same "
            "(--duplicates drop keeps one of each)"
        )
    if n_repeated == 0 or duplicates == "keep":
        return np.arange(len(X))
    if weight is not None:
        raise ValueError("--duplicates drop and --weights exclude each other")
    remarks.append(f"left out {counted(n_repeated, 'row')} that {verb} others")
    return np.sort(first)
