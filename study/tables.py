"""The study's tables: ours beside the published figures."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from sevenhills import datasets
from sevenhills.metrics import likelihood_factor

from .catalogue import (
    BASELINES,
    BEYOND,
    MAPS,
    RECIPES,
    Published,
    ablation_name,
    name_of,
    published,
)
from .store import Row

TITLES = {
    "baselines": "Estimators compared on multi-modal distributions",
    "baselines_unimodal": "Estimators compared on uni-modal distributions",
    "baselines_true": "Divergence from the truth, multi-modal distributions",
    "baselines_true_unimodal": "Divergence from the truth, uni-modal distributions",
    "ablation_W_varied": "Ablations: Wasserstein indicator on varied",
    "ablation_L_aniso": "Ablations: log-likelihood on aniso",
    "ablation_W_moons": "Ablations: Wasserstein indicator on two_moons",
    "ablation_JS_trajectories": "Ablations: divergence between two fits on trajectories",
    "ablation_JStrue_aniso": "Ablations: divergence from the truth on aniso",
    "ablation_JStrue_varied": "Ablations: divergence from the published truth on varied",
    "ablation_JStrue_elliptical": "Ablations: divergence from the truth on elliptical",
    "ablation_JStrue_rotated_elliptical": (
        "Ablations: divergence from the truth on rotated_elliptical"
    ),
    "ablation_L_unimodal_trajectories": "Ablations: log-likelihood on unimodal_trajectories",
    "ablation_JS_unimodal_trajectories": (
        "Ablations: divergence between two fits on unimodal_trajectories"
    ),
    "ablation_W_unimodal_trajectories": (
        "Ablations: Wasserstein indicator on unimodal_trajectories"
    ),
}
#: The figures of this table are ten times too large, by comparison with the baselines.
_TENFOLD = "ablation_JS_unimodal_trajectories"
_MAP_HEADS = {"dn": "norm., decorr.", "n": "norm.", "plain": "no norm."}


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of a figure over runs.

    Attributes
    ----------
    mean, std : float
        NaN if all runs failed.
    n : int
        The number of runs with a value.
    n_failed : int
        The number of runs in which it failed.
    """

    mean: float
    std: float
    n: int
    n_failed: int

    @classmethod
    def from_values(cls, values: Sequence[float]) -> "Summary":
        """Summarize the values of all runs; NaN is a failure."""
        kept = np.array([value for value in values if not np.isnan(value)])
        if len(kept) == 0:
            return cls(float("nan"), float("nan"), 0, len(values))
        with np.errstate(invalid="ignore"):
            std = float(kept.std(ddof=1)) if len(kept) > 1 else float("nan")
        return cls(float(kept.mean()), std, len(kept), len(values) - len(kept))

    @property
    def std_error(self) -> float:
        """The standard error of the mean, 0 if it is unknown."""
        error = self.std / self.n**0.5 if self.n else 0.0
        return error if isfinite(error) else 0.0


@dataclass(frozen=True)
class Entry:
    """A cell of a table: our figure, the published figure, or both."""

    ours: Summary | None
    published: Published | None = None

    @property
    def expected(self) -> tuple[float, float]:
        """The published mean and deviation, in the unit of ours."""
        if self.published is None:
            return float("nan"), float("nan")
        unit = 0.1 if self.published.table == _TENFOLD else 1.0
        return self.published.mean * unit, self.published.std * unit

    @property
    def allowed(self) -> float:
        """The largest difference of the means that counts as agreement.

        Two published standard deviations, our standard error, and half a unit of the last
        published digit.
        """
        if self.published is None or self.ours is None:
            return float("nan")
        unit = 0.1 if self.published.table == _TENFOLD else 1.0
        return 2 * self.expected[1] + 0.5 * unit * self.published.digit + self.ours.std_error

    @property
    def agrees(self) -> bool | None:
        """Whether both agree; None if one of them is missing."""
        if self.published is None or self.ours is None:
            return None
        if self.ours.n == 0:
            return False
        return abs(self.ours.mean - self.expected[0]) <= self.allowed


@dataclass(frozen=True)
class Table:
    """A table of entries."""

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    entries: tuple[tuple[Entry | None, ...], ...]

    def places(self) -> Iterable[tuple[str, str, Entry]]:
        """Yield all entries with their row and column."""
        for row, entries in zip(self.rows, self.entries, strict=True):
            for column, entry in zip(self.columns, entries, strict=True):
                if entry is not None:
                    yield row, column, entry


def summaries(rows: Iterable[Row]) -> dict[tuple[str, str, str], Summary]:
    """Return summaries over runs, by distribution, estimator and metric."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        values.setdefault((row.distribution, row.estimator, row.metric), []).append(row.value)
    return {key: Summary.from_values(figures) for key, figures in values.items()}


def paper_tables(rows: Sequence[Row]) -> list[Table]:
    """Return the tables of the study that have results, in the layout of the paper."""
    found = summaries(rows)
    cells: dict[str, list[Published]] = {}
    for cell in published():
        cells.setdefault(cell.table, []).append(cell)
    tables = [
        _baselines(name, group, found)
        if name.startswith("baselines")
        else _ablations(name, group, found)
        for name, group in cells.items()
    ]
    return [table for table in tables if any(e.ours for _, _, e in table.places())]


def _entry(cell: Published, found: Mapping[tuple[str, str, str], Summary]) -> Entry:
    metric = cell.metric
    if metric == "D_JS_true" and cell.distribution == "varied":
        metric = "D_JS_as_published"
    return Entry(found.get((cell.distribution, name_of(cell), metric)), cell)


def _grid(
    name: str, rows: Sequence[str], columns: Sequence[str], at: Mapping[tuple[str, str], Entry]
) -> Table:
    entries = tuple(tuple(at.get((row, column)) for column in columns) for row in rows)
    return Table(name, TITLES[name], tuple(rows), tuple(columns), entries)


def _baselines(
    name: str, cells: Sequence[Published], found: Mapping[tuple[str, str, str], Summary]
) -> Table:
    at = {
        (cell.distribution, f"{cell.metric} {RECIPES[name_of(cell)].title}"): _entry(cell, found)
        for cell in cells
    }
    rows, columns = (list(dict.fromkeys(key[side] for key in at)) for side in (0, 1))
    if name == "baselines_true":  # the study has no row for the real truth
        row = "varied, its real truth"
        rows.append(row)
        for method in BASELINES:
            entry = Entry(found.get(("varied", method, "D_JS_true")))
            at[row, f"D_JS_true {RECIPES[method].title}"] = entry
    return _grid(name, rows, columns, at)


def _ablations(
    name: str, cells: Sequence[Published], found: Mapping[tuple[str, str, str], Summary]
) -> Table:
    codes = {flags: code for code, flags in MAPS.items()}
    heads = {"silhouette": "silhouette", "dbcv": "DBCV", None: "no clustering"}
    at: dict[tuple[str, str], Entry] = {}
    for cell in cells:
        column = "Gaussian"
        if cell.estimator != "gaussian":
            code = codes[bool(cell.decorrelate), bool(cell.normalize)]
            column = f"{_MAP_HEADS[code]}, {cell.estimator}"
        at[heads[cell.selection], column] = _entry(cell, found)
    rows, columns = (list(dict.fromkeys(key[side] for key in at)) for side in (0, 1))
    return _grid(name, rows, columns, at)


def beyond_tables(rows: Sequence[Row]) -> list[Table]:
    """Return a table for every metric, with the main estimators and those beyond the study."""
    found = summaries(rows)
    titles = {
        "L_hat": "Mean log-likelihood",
        "D_JS": "Divergence between two fits",
        "D_JS_true": "Divergence from the truth",
        "W_hat": "Wasserstein indicator",
    }
    names = [name for name in datasets.names() if any(key[0] == name for key in found)]
    tables = []
    for metric, title in titles.items():
        columns = [
            name
            for name in (*BASELINES, *BEYOND, ablation_name(None, None, None, "gaussian"))
            if any((each, name, metric) in found for each in names)
        ]
        entries = tuple(
            tuple(
                Entry(found[name, column, metric]) if (name, column, metric) in found else None
                for column in columns
            )
            for name in names
        )
        heads = tuple(RECIPES[column].title for column in columns)
        if columns:
            tables.append(Table(f"beyond_{metric}", title, tuple(names), heads, entries))
    return tables


@dataclass(frozen=True)
class Factor:
    """The likelihood factor of two estimators on one distribution."""

    distribution: str
    other: str
    value: float
    p_value: float
    n: int


def likelihood_factors(rows: Sequence[Row], reference: str = "rome") -> list[Factor]:
    """Return the likelihood factors of a reference over all other estimators.

    The factor is the geometric mean over the samples of a run, averaged over runs, with the
    p-value of a one-sided test of a factor above one.
    """
    by_key: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if row.metric == "L_hat" and not row.error:
            by_key.setdefault((row.distribution, row.estimator), {})[row.run] = row.value
    out = []
    for (distribution, other), theirs in by_key.items():
        ours = by_key.get((distribution, reference), {})
        runs = sorted(ours.keys() & theirs.keys())
        if other == reference or len(runs) < 2 or not RECIPES[other].can_sample:
            continue
        values = np.array([[ours[run], theirs[run]] for run in runs])
        if not np.isfinite(values).all():
            continue
        with np.errstate(over="ignore"):
            factor = likelihood_factor(values[:, 0], values[:, 1])
        out.append(Factor(distribution, other, float(factor), float(factor.p_value), len(runs)))
    return out


def to_markdown(table: Table) -> str:
    """Return a table as Markdown, with published figures in parentheses."""
    lines = ["| | " + " | ".join(table.columns) + " |", "|---" * (len(table.columns) + 1) + "|"]
    for row, entries in zip(table.rows, table.entries, strict=True):
        lines.append(f"| {row} | " + " | ".join(_markdown(entry) for entry in entries) + " |")
    return "\n".join(lines)


def _markdown(entry: Entry | None) -> str:
    if entry is None or (entry.ours is None and entry.published is None):
        return ""
    text = "not run" if entry.ours is None else _figure(entry.ours.mean, entry.ours.std, "±")
    if entry.published is not None:
        mark = {True: " ✓", False: " ✗", None: ""}[entry.agrees]
        text += f" ({_figure(*entry.expected, '±')}){mark}"
    return text


def _figure(mean: float, std: float, sign: str) -> str:
    """Return a mean with its standard deviation, rounded."""
    if not isfinite(mean):
        return "failed" if np.isnan(mean) else f"{mean:g}"
    if not isfinite(std):
        return f"{mean:.4g}"
    digits = 4 if max(abs(mean), std) < 1 else 2
    return f"{mean:.{digits}f} {sign} {std:.{digits}f}"


def to_latex(table: Table) -> str:
    """Return a table as LaTeX, for the package booktabs."""
    heads = " & ".join(["", *map(_tex, table.columns)])
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        rf"{heads} \\",
        r"\midrule",
    ]
    for row, entries in zip(table.rows, table.entries, strict=True):
        cells = " & ".join([_tex(row), *map(_latex, entries)])
        lines.append(rf"{cells} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _tex(text: str) -> str:
    return text.replace("_", r"\_")


def _latex(entry: Entry | None) -> str:
    text = _markdown(entry)
    for sign, command in (("±", r"$\pm$"), ("✓", r"$\checkmark$"), ("✗", r"$\times$")):
        text = text.replace(sign, command)
    return _tex(text).replace("-", "$-$") if text[:1].isdigit() or text[:1] == "-" else _tex(text)


def to_csv(tables: Iterable[Table]) -> str:
    """Return tables as one CSV table with a row for every entry."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = ["mean", "std", "runs", "failed", "published_mean", "published_std", "agrees"]
    writer.writerow(["table", "row", "column", *heads])
    for table in tables:
        for row, column, entry in table.places():
            ours, agrees = entry.ours, entry.agrees
            figures = (
                ["", "", 0, 0] if ours is None else [ours.mean, ours.std, ours.n, ours.n_failed]
            )
            expected = entry.expected if entry.published else ("", "")
            verdict = "" if agrees is None else "yes" if agrees else "no"
            writer.writerow([table.name, row, column, *figures, *expected, verdict])
    return out.getvalue()
