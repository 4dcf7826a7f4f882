"""Sections of the report about a fit: tables, explanations and code."""

import platform
from collections.abc import Sequence
from hashlib import sha256
from inspect import signature
from typing import Any

import numpy as np

from .. import __version__
from ..density import ModeTable
from ..estimate import Estimate, mean_with_error
from ..estimators.summary import StackedCluster, describe_choice, describe_resolution
from ..metrics import mean_log_likelihood
from .held_out import Outliers, Quality
from .page import Table, render
from .subject import Subject

#: Rows of a table, and features with a column in it.
_MAX_ROWS = 30
_MAX_FEATURES = 6
_NO_VALUE = "\N{EN DASH}"
#: Code that reads a file, by its suffix.
_READERS = {
    ".csv": 'pd.read_csv("{}")',
    ".parquet": 'pd.read_parquet("{}")',
    ".npy": 'np.load("{}")',
}
_IMPORTS = {"pd": "import pandas as pd", "np": "import numpy as np"}


def _number(value: Any) -> str:
    """Return a number for a table, with a minus sign instead of a hyphen."""
    if value is None or not np.isfinite(value):
        return _NO_VALUE
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _estimate(value: Estimate) -> str:
    """Return a number and its standard error for a table."""
    return str(value).replace("-", "\N{MINUS SIGN}").replace("nan", _NO_VALUE)


def _cluster(label: int) -> dict[str, Any]:
    """Return the cell of a cluster."""
    return {"label": int(label), "name": "noise" if label < 0 else f"cluster {label}"}


def _cut_short(n_rows: int) -> str:
    return f", the first {_MAX_ROWS} of {n_rows}" if n_rows > _MAX_ROWS else ""


def summary_html(
    subject: Subject,
    modes: ModeTable | None,
    n_outliers: int | None,
    shown: Sequence[int],
    notes: Sequence[str],
) -> str:
    """Return counts, clusters, modes and notes on the samples."""
    resolution = describe_resolution(getattr(subject.model, "resolution_", ()), subject.names)
    return render(
        "summary.html",
        tiles=_tiles(subject, modes, n_outliers),
        choice=_choice(subject),
        clusters=_cluster_table(subject),
        modes=None if modes is None else _mode_table(subject, modes, shown),
        no_modes=f"{subject.kind} is not a mixture of kernels, so its modes are not known."
        if modes is None
        else "",
        notes=[*notes, resolution] if resolution else list(notes),
    )


def _tiles(
    subject: Subject, modes: ModeTable | None, n_outliers: int | None
) -> list[tuple[str, str]]:
    """Return counts with their nouns."""
    counts = {"samples": subject.n_samples, "features": len(subject.names)}
    if subject.labels is not None:
        counts["clusters"] = len(np.unique(subject.labels[subject.labels >= 0]))
        counts["noise samples"] = int((subject.labels < 0).sum())
    if modes is not None:
        counts["modes"] = len(modes)
    if n_outliers is not None:
        counts["outliers"] = n_outliers
    return [
        (
            noun.removesuffix("s") if count == 1 else noun,
            _NO_VALUE if count is None else f"{count:,}",
        )
        for noun, count in counts.items()
    ]


def _choice(subject: Subject) -> str:
    if subject.labels is None:
        return f"{subject.kind} fits one density to all samples and finds no clusters."
    text = describe_choice(subject.candidates)
    n_fragments = getattr(subject.model, "n_fragments_", 0)
    if n_fragments:
        text += (
            f" {n_fragments} clusters were merged: they were not stable when a part of the samples "
            "was left out."
        )
    return text


def _cluster_table(subject: Subject) -> Table | None:
    clusters = subject.clusters
    if not clusters:
        return None
    stacked = isinstance(clusters[0], StackedCluster)
    headings = ["cluster", "samples", "share"]
    headings += ["gain", "members"] if stacked else ["widest std", "narrowest std", "bandwidth"]
    cells = _stacked_cells if stacked else _scale_cells
    rows = [
        (_cluster(each.label), f"{each.n_members:,}", f"{each.share:.1%}", *cells(each))
        for each in clusters[:_MAX_ROWS]
    ]
    caption = "Clusters" + _cut_short(len(clusters))
    if stacked:
        caption += "; the gain is in held-out log density over a Gaussian"
    return Table(caption, headings, rows)


def _scale_cells(cluster: Any) -> tuple[str, ...]:
    scales = (cluster.stds.max(), cluster.stds.min(), cluster.bandwidth)
    return tuple(_number(each) for each in scales)


def _stacked_cells(cluster: StackedCluster) -> tuple[str, ...]:
    members = zip(cluster.members, cluster.weights, strict=True)
    gain = _estimate(Estimate(cluster.gain, cluster.gain_error))
    return gain, ", ".join(f"{name} {weight:.0%}" for name, weight in members)


def _mode_table(subject: Subject, modes: ModeTable, shown: Sequence[int]) -> Table:
    columns = list(shown)[:_MAX_FEATURES]
    headings = ["mode", "share", "significance", *(subject.names[i] for i in columns)]
    rows = [
        (
            i + 1,
            f"{modes.shares[i]:.1%}",
            _number(modes.significances[i]),
            *(_number(modes.locations[i, j]) for j in columns),
        )
        for i in range(min(len(modes), _MAX_ROWS))
    ]
    caption = "Modes of the density" + _cut_short(len(modes))
    if len(columns) < len(subject.names):
        caption += f", {len(columns)} of {len(subject.names)} features"
    return Table(caption, headings, rows)


def outliers_html(subject: Subject, found: Outliers | str, shown: Sequence[int]) -> str:
    """Return the table of outliers."""
    if isinstance(found, str) or subject.X is None:
        return absent(str(found))
    if found.count == 0:
        return absent(f"No sample is an outlier. {found.rule}")
    columns = list(shown)[:_MAX_FEATURES]
    headings = ["row", *(["cluster"] if subject.labels is not None else [])]
    headings += ["log density", "p-value", *(subject.names[i] for i in columns)]
    rows = [_outlier_cells(subject, subject.X, found, k, columns) for k in range(len(found.rows))]
    listed = "all" if found.count == len(rows) else f"the lowest {len(rows)}"
    caption = f"Outliers: {listed} of {found.count:,}"
    if found.p_values is not None:
        caption += "; p-value: the probability that the density at a new sample is no higher"
    return render("outliers.html", rule=found.rule, content=Table(caption, headings, rows))


def _outlier_cells(
    subject: Subject, X: np.ndarray, found: Outliers, k: int, columns: Sequence[int]
) -> list[Any]:
    row = int(found.rows[k])
    cells: list[Any] = [{"row": row, "name": subject.name_of_row(row)}]
    if subject.labels is not None:
        cells.append(_cluster(subject.labels[row]))
    p_value = _NO_VALUE if found.p_values is None else _number(found.p_values[k])
    return [*cells, _number(found.scores[k]), p_value, *(_number(X[row, i]) for i in columns)]


def quality_html(found: Quality | str) -> str:
    """Return the comparison with simpler estimators."""
    if isinstance(found, str):
        return absent(found)
    first = found.estimators[0]
    rows = [
        (
            each.name,
            _estimate(mean_log_likelihood(each.scores)),
            _NO_VALUE if each is first else _estimate(_difference(each.scores, first.scores)),
            _estimate(each.calibration),
        )
        for each in found.estimators
    ]
    headings = [
        "estimator",
        "held-out log density",
        f"difference from {first.name}",
        "calibration error",
    ]
    caption = "Held-out samples, mean ± standard error; higher log densities are better"
    return render(
        "quality.html",
        n_train=f"{found.n_train:,}",
        n_held_out=f"{found.n_held_out:,}",
        content=Table(caption, headings, rows),
        failures=" ".join(found.failures),
    )


def _difference(scores: np.ndarray, others: np.ndarray) -> Estimate:
    with np.errstate(invalid="ignore"):  # both may be minus infinity
        differences = scores - others
    return Estimate(*mean_with_error(differences), len(differences))


def absent(reason: str) -> str:
    """Return an explanation in place of a section's content."""
    return render("absent.html", reason=reason)


def code_html(subject: Subject, source: str | None, options: dict[str, Any]) -> str:
    """Return the code that makes the same report again, and the versions that it depends on."""
    return render(
        "code.html", code=_code(subject, source, options), environment=_environment(subject)
    )


def _code(subject: Subject, source: str | None, options: dict[str, Any]) -> str:
    """Return Python code; ``options`` are the keywords of the report, None where not given."""
    reading = _reading_code(subject, source)
    imports = [line for name, line in _IMPORTS.items() if f"= {name}." in reading]
    given = {name: value for name, value in options.items() if value is not None}
    keywords = [f"{name}={_plain(value)!r}" for name, value in given.items()]
    if subject.X is not None:
        keywords.insert(0, "X=X")
    call = f"report({', '.join(['model', repr('report.html'), *keywords])})"
    return "\n".join([*imports, "", *_fitting_code(subject, reading), call]).strip() + "\n"


def _plain(value: Any) -> Any:
    """Return a sequence as a list of Python values."""
    return value if isinstance(value, str | int) else np.asarray(value).tolist()


def _fitting_code(subject: Subject, reading: str) -> list[str]:
    import_report = "from sevenhills.report import report"
    if not subject.is_estimator:
        return [import_report, "", "model = ...  # the density", reading]
    call = f"{subject.kind}({_parameters(subject.model)})"
    lines = [f"from sevenhills import {subject.kind}", import_report, "", reading]
    if _has_given_labels(subject):
        return [*lines, "labels = ...  # the clusters", f"model = {call}.fit(X, labels=labels)"]
    return [*lines, f"model = {call}.fit(X)"]


def _has_given_labels(subject: Subject) -> bool:
    """Return whether the clusters were given: there are several, but no ordering."""
    labels = subject.labels
    return labels is not None and subject.ordering is None and len(np.unique(labels)) > 1


def _reading_code(subject: Subject, source: str | None) -> str:
    if source is not None:
        for suffix, reader in _READERS.items():
            if source.endswith(suffix):
                return "X = " + reader.format(source.replace("\\", "\\\\").replace('"', '\\"'))
    samples = "" if subject.n_samples is None else f"the {subject.n_samples} samples, "
    features = f"{len(subject.names)} feature{'' if len(subject.names) == 1 else 's'}"
    return f"X = ...  # {samples}{features}"


def _parameters(model: Any) -> str:
    """Return the parameters of an estimator that differ from their defaults."""
    defaults = signature(type(model)).parameters
    given = model.get_params(deep=False)
    return ", ".join(
        f"{name}={value!r}"
        for name, value in given.items()
        if repr(value) != repr(defaults[name].default)
    )


def _environment(subject: Subject) -> str:
    python, numpy = platform.python_version(), np.__version__
    versions = f"Made with sevenhills {__version__}, numpy {numpy} and Python {python}."
    if subject.X is None:
        return versions
    n_samples, n_features = subject.X.shape
    digest = sha256(np.ascontiguousarray(subject.X, dtype="<f8").tobytes()).hexdigest()
    return f"{versions} The samples, {n_samples} by {n_features}: SHA-256 {digest[:16]}…"
