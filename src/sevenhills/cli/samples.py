"""Samples from a table: columns and rows that a density cannot use are left out, and named."""

import shlex
from collections.abc import Collection, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from ..texts import counted
from .columns import MAX_WORDS, Table, Words
from .options import Choices
from .screen import listed

#: Columns of missing words with a remark of their own; more of them share one.
_MAX_REMARKS = 3
#: Values whose range is at most this share of them differ by rounding only.
_ROUNDING = 1e-12
#: Fewest rows of a category that has a density of its own; it also needs more rows than columns.
_MIN_ROWS = 5


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
    #: Series with the category of every sample, None without a column of categories.
    categories: Any = None
    #: The units of the numbers in columns of dates and times.
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """The samples as an array."""
        return np.ascontiguousarray(self.frame)


#: Samples by category; None is the only category if there are no others.
Parts = dict[str | None, Samples]


def samples_of(
    table: Table,
    choices: Choices,
    constant: str = "drop",
    weights: str | None = None,
    by: str | None = None,
) -> Samples:
    """Return the numbers of a table.

    ``constant`` says whether to "drop", "keep" or "raise" an error for columns with one value
    only; ``weights`` names the column of weights, and ``by`` that of categories.
    """
    remarks = list(table.remarks)
    table = replace(table, frame=table.frame.drop(index=list(table.label_rows)))
    n_rows = len(table.frame)
    weight = [] if weights is None else [column_named(table, weights)]
    categories = None
    if by is not None:
        categories = _known_categories(table, column_named(table, by), remarks)
        table = replace(table, frame=table.frame.loc[categories.index])
    group = [] if categories is None else [categories.name]
    chosen = _chosen_names(table, choices, [*weight, *group])
    wanted = {column_named(table, name) for name in choices.keep or ()}
    if choices.columns is not None:
        wanted |= set(chosen)
    text = _columns_of_words(table, chosen, choices.text, wanted, remarks)
    names = _without(chosen, text)
    counted_rows = _identifiers(table, names, wanted, remarks)
    names = _without(names, counted_rows)
    empty = _empty_columns(table, names, wanted if choices.missing == "skip" else names, remarks)
    names = _without(names, empty)
    needed = list(dict.fromkeys([*names, *weight]))
    complete = _complete_rows(table, needed, choices.missing, remarks)
    if len(complete) == 1:
        raise ValueError(f"{table.source} has only one complete row; a density needs at least two")
    flat = _constant_columns(table.source, complete[names], constant, remarks)
    names = _without(names, flat)
    kept = _distinct_rows(complete, names, choices.duplicates, weight, remarks)
    remarks += _warnings(names, len(chosen), len(complete), n_rows)
    remarks += [remark for name in names for remark in _code_warnings(name, kept[name].to_numpy())]
    return Samples(
        source=table.source,
        frame=kept[names],
        weights=kept[weight[0]].to_numpy() if weight else None,
        has_names=table.has_names,
        left_out={
            "text_columns": text,
            "identifier_columns": counted_rows,
            "empty_columns": empty,
            "constant_columns": flat,
            "unit_and_total_rows": len(table.label_rows),
            "rows_with_missing_values": len(table.frame) - len(complete),
            "duplicate_rows": len(complete) - len(kept),
            **({} if by is None else {"rows_without_category": n_rows - len(table.frame)}),
        },
        remarks=tuple(remarks),
        categories=None if categories is None else categories.loc[kept.index],
        units=table.units,
    )


def _known_categories(table: Table, name: str, remarks: list[str]) -> Any:
    """Return the categories of the rows that have one."""
    categories = table.categories(name)
    known = categories.dropna()
    if known.empty:
        raise ValueError(f"{table.source}: no row has a value in column {name!r}")
    if len(known) < len(categories):
        n_left_out = counted(len(categories) - len(known), "row")
        remarks.append(f"left out {n_left_out} without a value in column {name}")
    return known


def parts_of(
    table: Table,
    choices: Choices,
    constant: str,
    weights: str | None = None,
    by: str | None = None,
) -> tuple[Samples, Parts]:
    """Return the samples of a table, and those of every category of the column ``by``.

    Other arguments are those of :func:`samples_of`. Without ``by``, the only category is None, and
    a remark names the columns of few values.
    """
    samples = samples_of(table, choices, constant, weights, by)
    if by is not None:
        return _split_by_category(samples, constant)
    weight = [] if weights is None else [column_named(table, weights)]
    offer = _offer(table, _without(table.names, weight), samples)
    samples = replace(samples, remarks=(*samples.remarks, *offer))
    return samples, {None: samples}


def _offer(table: Table, names: Sequence[str], samples: Samples) -> list[str]:
    """Return a remark on the columns of few values, each of which could divide the samples."""
    # This takes a second to import; errors in tables are reported before.
    from ..stacking import categories

    found = {}
    for name in names:
        values = table.frame[name] if table.is_numeric(name) else table.categories(name)
        codes, different = values.loc[samples.frame.index].dropna().factorize()
        if categories(codes[:, None], np.ones(len(codes))):
            found[name] = len(different)
    if not found:
        return []
    shown = listed([f"{name} ({number})" for name, number in found.items()], 8)
    first = shlex.quote(next(iter(found)))
    return [f"{_noun(found)} of few values: {shown}; --by {first} fits a density to each value"]


def _split_by_category(samples: Samples, constant: str) -> tuple[Samples, Parts]:
    """Return the samples of every category with enough rows, and the samples with remarks on them.

    Columns that have one value only within a category are left out of it, unless they are kept.
    """
    needed = max(_MIN_ROWS, len(samples.names) + 1)
    categories = samples.categories
    rows = categories.groupby(categories, sort=False).indices
    few = [
        f"{category} ({len(found):,})" for category, found in rows.items() if len(found) < needed
    ]
    if len(few) == len(rows):
        raise ValueError(
            f"{samples.source}: no category of {categories.name} has {needed} complete rows, which "
            f"{counted(len(samples.names), 'column')} need; there are {listed(few)}"
        )
    remarks, parts = list(samples.remarks), {}
    if few:
        remarks.append(
            f"left out categories of {categories.name} with fewer than {needed} rows: {listed(few)}"
        )
    for category, found in rows.items():
        if len(found) >= needed:
            parts[category] = _part(samples, category, found, constant)
            remarks += [f"{category}: {each}" for each in parts[category].remarks]
    n_samples, n_kept = len(samples.frame), sum(len(part.frame) for part in parts.values())
    if 2 * n_kept < n_samples:
        share = f"{n_samples - n_kept:,} of {n_samples:,} rows were left out"
        remarks.append(f"warning: {share}, because their categories have too few rows")
    left_out = {**samples.left_out, "rows_of_small_categories": n_samples - n_kept}
    return replace(samples, left_out=left_out, remarks=tuple(remarks)), parts


def _part(samples: Samples, category: str, rows: np.ndarray, constant: str) -> Samples:
    """Return the samples of a category, which are the given ``rows``."""
    remarks: list[str] = []
    frame = samples.frame.iloc[rows]
    flat = _constant_columns(f"{samples.source}, {category}", frame, constant, remarks)
    return replace(
        samples,
        frame=frame[_without(samples.names, flat)],
        weights=None if samples.weights is None else samples.weights[rows],
        left_out={"constant_columns": flat},
        remarks=tuple(remarks),
    )


def _warnings(names: Sequence[str], n_columns: int, n_complete: int, n_rows: int) -> list[str]:
    """Return warnings that most columns or most rows are left out."""
    warnings = []
    if 2 * len(names) < n_columns:
        share = f"{n_columns - len(names):,} of {n_columns:,} columns were left out"
        warnings.append(f"warning: {share}; the samples have only {listed(names)}")
    if 2 * n_complete < n_rows:
        share = f"{n_rows - n_complete:,} of {n_rows:,} rows were left out"
        warnings.append(f"warning: {share}; --columns without the gaps keeps more of them")
    return warnings


def _code_warnings(name: str, values: np.ndarray) -> list[str]:
    """Return a warning on a number of nines, as -999, that is repeated far from all other values.

    Some programs write such a code where a value is missing.
    """
    for code in (values.min(), values.max()):
        others = values[values != code]
        is_nines = abs(code) >= 99 and set(f"{abs(code):g}") == {"9"}
        if not is_nines or len(others) > len(values) - 2 or len(others) < 2:
            continue
        if min(abs(others - code)) > 2 * np.ptp(others) > 0:
            n_rows = counted(len(values) - len(others), "row")
            return [
                f"warning: column {name} has {code:g} in {n_rows}, far from its other values; if "
                "it marks missing values, leave these cells empty"
            ]
    return []


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
    table: Table, names: Sequence[str], text: str, wanted: Collection[str], remarks: list[str]
) -> list[str]:
    """Return the columns that are left out because they have words."""
    with_words = [name for name in names if name in table.words]
    left_out = [name for name in with_words if not _has_missing_words(table, name, text)]
    refused = with_words if text == "raise" else [name for name in left_out if name in wanted]
    if refused:
        first = refused[0]
        raise ValueError(
            f"{table.source}: column {first!r} does not hold numbers "
            f"({table.words[first].example}); --text missing takes words as missing values"
        )
    remarks += words_remarks(table, _without(with_words, left_out))
    remarks += _dropped_words_remarks(table, left_out)
    return left_out


def _has_missing_words(table: Table, name: str, text: str) -> bool:
    """Return whether the words of a column are taken as missing values."""
    if text == "auto":
        return table.is_numeric(name)
    return text == "missing" and bool(table.frame[name].notna().any())


def words_remarks(table: Table, names: Sequence[str]) -> list[str]:
    """Return remarks on the columns whose words are missing values, one if they are many."""
    if len(names) <= _MAX_REMARKS:
        return [_words_remark(name, table.words[name]) for name in names]
    shown = [f"{name} ({table.words[name].count:,})" for name in names]
    different = dict.fromkeys(word for name in names for word in table.words[name].different)
    return [f"words taken as missing in {columns_named(shown)}: {listed(different, MAX_WORDS)}"]


def _words_remark(name: str, words: Words) -> str:
    number = counted(words.count, "word")
    if len(words.different) == 1:
        return f"column {name}: {number} taken as missing: {words.example}"
    different = listed(words.different, MAX_WORDS)
    return f"column {name}: {number} taken as missing: {different}; first {words.example}"


def _dropped_words_remarks(table: Table, names: Sequence[str]) -> list[str]:
    """Return remarks on columns that are left out because of their words."""
    plain = [
        name
        for name in names
        if name not in table.identifiers
        and not table.words[name].advice
        and table.frame[name].isna().all()
    ]
    remarks = [_dropped_words_remark(table, name) for name in _without(names, plain)]
    if plain:
        shown = [f"{name} ({table.words[name].different[0]})" for name in plain]
        remarks.append(f"left out {columns_named(shown)}: words, no numbers")
    return remarks


def _dropped_words_remark(table: Table, name: str) -> str:
    words, values = table.words[name], table.frame[name]
    if name in table.identifiers:
        return f"left out column {name}: identifiers, every word differs, first {words.example}"
    if values.isna().all():
        return f"left out column {name}: words, no numbers, first {words.example}"
    are = "is no number" if words.count == 1 else "are no numbers"
    return (
        f"left out column {name}: {words.count:,} of its {len(values):,} values {are}, first "
        f"{words.example}; --text missing keeps it"
    )


def _identifiers(
    table: Table, names: Sequence[str], wanted: Collection[str], remarks: list[str]
) -> list[str]:
    """Return the columns that are left out because they only tell rows apart."""
    found = [name for name in names if name in table.identifiers and name not in wanted]
    remarks += [
        f"left out column {name}: {table.identifiers[name]}; {_keeping(name)}" for name in found
    ]
    if found and len(found) == len(names):
        raise ValueError(
            f"{table.source} has no column of numbers but {table.identifiers[found[0]]} in "
            f"{found[0]}; {_keeping(found[0])}"
        )
    return found


def _keeping(name: str) -> str:
    return f"--keep {shlex.quote(name)} keeps it"


def _empty_columns(
    table: Table, names: list[str], wanted: Collection[str], remarks: list[str]
) -> list[str]:
    """Return the columns without a value, or with few unless they are wanted; one must be left."""
    n_missing = table.frame[names].isna().sum()
    empty = [name for name in names if n_missing[name] == len(table.frame)]
    if empty:
        remarks.append(f"left out {columns_named(empty)}: no values")
    if len(empty) == len(names):
        examples = [f"; there is {words.example}" for words in table.words.values()]
        raise ValueError(f"{table.source} has no column of numbers{''.join(examples[:1])}")
    sparse = [
        name
        for name in _without(names, [*empty, *wanted])
        if 2 * (n_missing[name] - _n_words(table, name)) > len(table.frame)
    ]
    if len(empty) + len(sparse) == len(names):
        return empty
    remarks += [
        f"left out column {name}: {n_missing[name]:,} of its {len(table.frame):,} values are "
        f"missing; {_keeping(name)}"
        for name in sparse
    ]
    return [*empty, *sparse]


def _n_words(table: Table, name: str) -> int:
    return table.words[name].count if name in table.words else 0


def columns_named(names: Sequence[str]) -> str:
    """Return names of columns after their noun."""
    return f"{_noun(names)} {listed(names)}"


def _noun(names: Sized) -> str:
    return "column" if len(names) == 1 else "columns"


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
        row = int(is_incomplete.idxmax()) + 1
        raise ValueError(
            f"{table.source}: {share} have missing or infinite values, first row {row}; in {where}"
            "; --missing skip leaves them out"
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
    is_flat = (frame.sub(first).abs() <= _ROUNDING * first.abs()).all()
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
