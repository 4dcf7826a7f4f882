"""Samples from a table: columns and rows that a density cannot use are left out, and named."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from ..texts import counted
from .columns import Table, Words
from .options import Choices
from .screen import listed

#: Columns of words with a remark of their own.
_MAX_REMARKS = 8


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples that a density is fitted to."""

    #: The name of the file in messages.
    source: str
    #: DataFrame of shape (n_samples, n_features); the index is the row of the table, from zero.
    frame: Any
    weights: np.ndarray | None
    #: Whether the file itself names its columns.
    has_names: bool
    #: Names of the columns and numbers of the rows that were left out, by reason.
    left_out: dict[str, list[str] | int]
    #: The same in words.
    remarks: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """The samples as an array."""
        return np.ascontiguousarray(self.frame)


def samples_of(
    table: Table, choices: Choices, constant: str = "drop", weights: str | None = None
) -> Samples:
    """Return the numbers of a table.

    ``constant`` says whether to "drop", "keep" or "raise" an error for columns with one value
    only; ``weights`` names the column of weights.
    """
    remarks = list(table.remarks)
    weight = [] if weights is None else [column_named(table, weights)]
    names = _chosen_names(table, choices, weight)
    text = _columns_of_words(table, names, choices, remarks)
    names = _without(names, text)
    empty = _empty_columns(table, names, remarks)
    names = _without(names, empty)
    needed = list(dict.fromkeys([*names, *weight]))
    complete = _complete_rows(table, needed, choices.missing, remarks)
    flat = _constant_columns(table.source, complete[names], constant, remarks)
    kept = _distinct_rows(complete, _without(names, flat), choices.duplicates, weight, remarks)
    return Samples(
        source=table.source,
        frame=kept[_without(names, flat)],
        weights=kept[weight[0]].to_numpy() if weight else None,
        has_names=table.has_names,
        left_out={
            "text_columns": text,
            "empty_columns": empty,
            "constant_columns": flat,
            "rows_with_missing_values": len(table.frame) - len(complete),
            "duplicate_rows": len(complete) - len(kept),
        },
        remarks=tuple(remarks),
    )


def column_named(table: Table, name: str) -> str:
    """Return the name of a column that is given by its name or, if there is none, its index."""
    name, names = name.strip(), table.names
    if name in names:
        return name
    if name.isdecimal() and int(name) < len(names):
        return names[int(name)]
    close = get_close_matches(name, names, 1)
    advice = f"did you mean {close[0]!r}?" if close else f"it has {listed(names, 8)}"
    raise ValueError(f"{table.source} has no column {name!r}; {advice}")


def _chosen_names(table: Table, choices: Choices, weight: list[str]) -> list[str]:
    """Return the columns named by the user, by default all but the weights."""
    if choices.columns is None:
        return _without(table.names, weight)
    found = [column_named(table, name) for name in choices.columns.split(",") if name.strip()]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"--columns must name different columns, got {choices.columns!r}")
    return found


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    left_out = set(others)
    return [name for name in names if name not in left_out]


def _columns_of_words(
    table: Table, names: Sequence[str], choices: Choices, remarks: list[str]
) -> list[str]:
    """Return the columns that are left out because they have words."""
    with_words = [name for name in names if name in table.words]
    if with_words and (
        choices.text == "raise" or (choices.text == "drop" and choices.columns is not None)
    ):
        first = with_words[0]
        raise ValueError(
            f"{table.source}: column {first!r} does not hold numbers "
            f"({table.words[first].example}); --text missing takes words as missing values"
        )
    if choices.text == "missing":
        dropped = [name for name in with_words if table.frame[name].isna().all()]
        remarks += [words_remark(name, table.words[name]) for name in _without(with_words, dropped)]
        return dropped
    remarks += [_dropped_words_remark(table, name) for name in with_words[:_MAX_REMARKS]]
    if len(with_words) > _MAX_REMARKS:
        n_more = len(with_words) - _MAX_REMARKS
        remarks.append(f"and {n_more} more columns that do not hold numbers")
    return with_words


def words_remark(name: str, words: Words) -> str:
    """Return the remark on a column whose words are missing values."""
    number = counted(words.count, "word")
    return f"column {name}: {number} taken as missing, the first is {words.example}"


def _dropped_words_remark(table: Table, name: str) -> str:
    words, values = table.words[name], table.frame[name]
    if values.isna().all():
        return f"left out column {name}: it holds no numbers, but {words.example}"
    are = "is no number" if words.count == 1 else "are no numbers"
    return (
        f"left out column {name}: {words.count:,} of its {len(values):,} values {are}, first "
        f"{words.example}; --text missing keeps it"
    )


def _empty_columns(table: Table, names: list[str], remarks: list[str]) -> list[str]:
    """Return the columns without a value; one must be left."""
    is_empty = table.frame[names].isna().all()
    empty = list(is_empty.index[is_empty])
    if empty:
        remarks.append(f"left out {columns_named(empty)}: no values")
    if len(empty) == len(names):
        examples = [f"; there is {words.example}" for words in table.words.values()]
        raise ValueError(f"{table.source} has no column of numbers{''.join(examples[:1])}")
    return empty


def columns_named(names: Sequence[str]) -> str:
    """Return names of columns after their noun."""
    return f"{'column' if len(names) == 1 else 'columns'} {listed(names)}"


def _complete_rows(table: Table, names: list[str], missing: str, remarks: list[str]) -> Any:
    """Return the rows in which no value is missing or infinite, as a frame."""
    frame = table.frame[names]
    is_missing = ~np.isfinite(frame)
    is_incomplete = is_missing.any(axis=1)
    n_left_out = int(is_incomplete.sum())
    if n_left_out == 0:
        return frame
    counts = is_missing.sum()
    worst = counts[counts > 0].sort_values(ascending=False, kind="stable")
    where = listed([f"{name} ({count:,})" for name, count in worst.items()])
    share = f"{n_left_out:,} of {counted(len(frame), 'row')}"
    if missing == "raise":
        row = int(is_incomplete.argmax()) + 1
        raise ValueError(
            f"{table.source}: {share} have missing or infinite values, first row {row}; in {where}"
        )
    if n_left_out == len(frame):
        raise ValueError(
            f"{table.source}: every row has a missing value, in {where}; choose --columns"
        )
    remarks.append(f"left out {share} with missing or infinite values, in {where}")
    return frame[~is_incomplete]


def _constant_columns(source: str, frame: Any, constant: str, remarks: list[str]) -> list[str]:
    """Return the columns that are left out because they have one value only."""
    first = frame.iloc[0]
    is_flat = (frame == first).all()
    flat = list(is_flat.index[is_flat])
    if not flat or constant == "keep":
        return []
    shown = [f"{name} ({first[name]:g})" for name in flat]
    if constant == "raise" or len(flat) == frame.shape[1]:
        what = "every column has" if len(flat) == frame.shape[1] else "there are columns with"
        raise ValueError(f"{source}: {what} one value only: {listed(shown)}; use --constant keep")
    remarks.append(f"left out {columns_named(shown)}: one value only")
    return flat


def _distinct_rows(
    frame: Any, names: list[str], duplicates: str, weight: list[str], remarks: list[str]
) -> Any:
    """Return the rows to keep: all, or one of each."""
    is_repeated = frame.duplicated(names)
    n_repeated = int(is_repeated.sum())
    if n_repeated == 0:
        return frame
    verb, count = ("repeats", "counts") if n_repeated == 1 else ("repeat", "count")
    if duplicates == "keep":
        remarks.append(
            f"{counted(n_repeated, 'row')} {verb} others and {count} all the same "
            "(--duplicates drop keeps one of each)"
        )
        return frame
    if weight:
        raise ValueError("--duplicates drop and --weights exclude each other")
    remarks.append(f"left out {counted(n_repeated, 'row')} that {verb} others")
    return frame[~is_repeated]
