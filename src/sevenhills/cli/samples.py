"""Samples from a table: columns and rows that a density cannot use are left out, and named."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from .columns import Column, Table
from .screen import counted, listed


@dataclass(frozen=True)
class Choices:
    """How to treat columns and rows that a density cannot use; see ``options``."""

    columns: str | None = None
    weights: str | None = None
    text: str = "drop"
    missing: str = "skip"
    constant: str = "drop"
    duplicates: str = "keep"


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


def samples_of(table: Table, choices: Choices) -> Samples:
    """Return the numbers of a table; everything else is treated as ``choices`` say."""
    weights = None if choices.weights is None else column_named(table, choices.weights)
    wanted = _wanted(table, choices)
    columns, words = _with_numbers(table, wanted, choices)
    empty = [column.name for column in columns if column.is_empty]
    columns = [column for column in columns if not column.is_empty]
    _check_any(columns, f"{table.source} has no column of numbers", table.columns)
    rows, missing = _complete_rows(table, columns, weights, choices.missing)
    columns, constant = _varying(table, columns, rows, choices.constant)
    X = np.stack([column.values[rows] for column in columns], axis=1)
    rows, X, duplicates = _distinct_rows(rows, X, weights, choices.duplicates)
    remarks = (*table.remarks, *words.remarks, *_empty_remarks(empty), *missing.remarks)
    return Samples(
        source=table.source,
        names=[column.name for column in columns],
        X=X,
        weights=None if weights is None else weights.values[rows],
        rows=rows,
        has_names=table.has_names,
        left_out={
            "text_columns": words.names,
            "empty_columns": empty,
            "constant_columns": constant.names,
            "rows_with_missing_values": missing.number,
            "duplicate_rows": duplicates.number,
        },
        remarks=(*remarks, *constant.remarks, *duplicates.remarks),
    )


@dataclass(frozen=True)
class _LeftOut:
    """Columns or rows that were left out for one reason, and the remarks on them."""

    names: list[str]
    number: int
    remarks: tuple[str, ...]


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


def _wanted(table: Table, choices: Choices) -> list[Column]:
    """Return the columns named by the user, by default all but the weights."""
    if choices.columns is not None:
        names = [name for name in choices.columns.split(",") if name.strip()]
        found = [column_named(table, name) for name in names]
        if not found or len(set(found)) < len(found):
            raise ValueError(f"--columns must name different columns, got {choices.columns!r}")
        return found
    used = [] if choices.weights is None else [column_named(table, choices.weights).name]
    return [column for column in table.columns if column.name not in used]


def _with_numbers(
    table: Table, columns: Sequence[Column], choices: Choices
) -> tuple[list[Column], _LeftOut]:
    """Drop, keep or refuse columns that have words."""
    wordy = [column for column in columns if column.n_words]
    if not wordy:
        return list(columns), _LeftOut([], 0, ())
    if choices.text == "raise" or (choices.text == "drop" and choices.columns is not None):
        first = wordy[0]
        raise ValueError(
            f"{table.source}: column {first.name!r} does not hold numbers ({first.example}); "
            "--text missing takes words as missing values"
        )
    if choices.text == "missing":
        dropped = [column.name for column in wordy if column.is_empty]
        remarks = tuple(
            f"column {column.name}: {counted(column.n_words, 'word')} taken as missing, the first "
            f"is {column.example}"
            for column in wordy
            if not column.is_empty
        )
    else:
        dropped = [column.name for column in wordy]
        remarks = tuple(_words_remark(column) for column in wordy[:8])
        if len(wordy) > 8:
            remarks += (f"and {len(wordy) - 8} more columns that do not hold numbers",)
    kept = [column for column in columns if column.name not in dropped]
    return kept, _LeftOut(dropped, len(dropped), remarks)


def _words_remark(column: Column) -> str:
    n_numbers = int((~np.isnan(column.values)).sum())
    if n_numbers == 0:
        return (
            f"left out column {column.name}: it holds no numbers, but {column.example}"
            + "; --decimal says what the mark in it means" * column.is_ambiguous
        )
    are = "is no number" if column.n_words == 1 else "are no numbers"
    return (
        f"left out column {column.name}: {column.n_words:,} of its {len(column.values):,} values "
        f"{are}, first {column.example}; --text missing keeps it"
        + ", --decimal says what the mark in it means"
        * column.is_ambiguous
    )


def _empty_remarks(names: Sequence[str]) -> Iterable[str]:
    if names:
        yield f"left out {columns_named(names)}: no values"


def columns_named(names: Sequence[str]) -> str:
    """Return the names of columns after their noun."""
    return f"{'column' if len(names) == 1 else 'columns'} {listed(names)}"


def _check_any(columns: Sequence[Column], problem: str, all_columns: Sequence[Column]) -> None:
    if not columns:
        words = next((column.example for column in all_columns if column.example), "")
        raise ValueError(problem + (f"; there is {words}" if words else ""))


def _complete_rows(
    table: Table, columns: Sequence[Column], weights: Column | None, missing: str
) -> tuple[np.ndarray, _LeftOut]:
    """Return the rows in which no value is missing or infinite."""
    needed = [*columns, *([] if weights is None else [weights])]
    lacking = {column.name: ~np.isfinite(column.values) for column in needed}
    incomplete = np.logical_or.reduce(list(lacking.values()))
    n_left_out = int(incomplete.sum())
    if n_left_out == 0:
        return np.arange(table.n_rows), _LeftOut([], 0, ())
    counts = {name: int(gaps.sum()) for name, gaps in lacking.items() if gaps.any()}
    worst = sorted(counts, key=lambda name: -counts[name])
    said = listed([f"{name} ({counts[name]:,})" for name in worst])
    share = f"{n_left_out:,} of {counted(table.n_rows, 'row')}"
    if missing == "raise":
        row = int(incomplete.argmax()) + 1
        raise ValueError(
            f"{table.source}: {share} have missing or infinite values, first row {row}; in {said}"
        )
    if n_left_out == table.n_rows:
        raise ValueError(
            f"{table.source}: every row has a missing value, in {said}; choose --columns"
        )
    remark = f"left out {share} with missing or infinite values, in {said}"
    return np.flatnonzero(~incomplete), _LeftOut([], n_left_out, (remark,))


def _varying(
    table: Table, columns: Sequence[Column], rows: np.ndarray, constant: str
) -> tuple[list[Column], _LeftOut]:
    """Drop, keep or refuse columns that have one value only."""
    values = {column.name: column.values[rows] for column in columns}
    flat = [name for name, numbers in values.items() if (numbers == numbers[0]).all()]
    if not flat or constant == "keep":
        return list(columns), _LeftOut([], 0, ())
    said = listed([f"{name} ({values[name][0]:g})" for name in flat])
    if constant == "raise" or len(flat) == len(columns):
        what = "every column has" if len(flat) == len(columns) else "there are columns with"
        raise ValueError(f"{table.source}: {what} one value only: {said}; use --constant keep")
    remark = f"left out {'column' if len(flat) == 1 else 'columns'} {said}: one value only"
    kept = [column for column in columns if column.name not in flat]
    return kept, _LeftOut(flat, len(flat), (remark,))


def _distinct_rows(
    rows: np.ndarray, X: np.ndarray, weights: Column | None, duplicates: str
) -> tuple[np.ndarray, np.ndarray, _LeftOut]:
    """Keep or drop rows that repeat others."""
    _, first = np.unique(X, axis=0, return_index=True)
    n_repeated = len(X) - len(first)
    if n_repeated == 0:
        return rows, X, _LeftOut([], 0, ())
    verb = "repeats others" if n_repeated == 1 else "repeat others"
    if duplicates == "keep":
        remark = (
            f"{counted(n_repeated, 'row')} {verb} and {'counts' if n_repeated == 1 else 'count'} "
            "all the same (--duplicates drop keeps one of each)"
        )
        return rows, X, _LeftOut([], 0, (remark,))
    if weights is not None:
        raise ValueError("--duplicates drop and --weights exclude each other")
    kept = np.sort(first)
    remark = f"left out {counted(n_repeated, 'row')} that {verb}"
    return rows[kept], X[kept], _LeftOut([], n_repeated, (remark,))
