"""What was found: figures, clusters and modes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..density import ModeTable
from ..estimate import Estimate
from ..estimators.cluster_records import Cluster, StackedCluster
from ..estimators.summary import describe_choice
from .page import Html, absent, fill, table, text
from .subject import Subject

#: Rows of tables, and features that have a column in them.
_MOST_ROWS = 30
#: What stands where there is no number.
NOTHING = "\N{EN DASH}"
MOST_COLUMNS = 6


def figure_of(value: Any) -> str:
    """Return a number for a table, with a true minus sign."""
    if value is None or not np.isfinite(value):
        return NOTHING
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def estimate_of(value: Estimate) -> str:
    """Return a number and its error for a table, with a true minus sign."""
    return str(value).replace("-", "\N{MINUS SIGN}").replace("nan", NOTHING)


def chip(label: int) -> Html:
    """Return a cluster's name with its colour."""
    name = "noise" if label < 0 else f"cluster {label}"
    return Html(f'<span class="chip" data-label="{int(label)}"></span>{name}')


def tiles(figures: Sequence[tuple[str, Any]]) -> Html:
    """Return figures with what they count."""
    return Html(
        "".join(
            fill("tile.html", name=_counted(name, value), figure=value) for name, value in figures
        )
    )


def _counted(name: str, value: Any) -> str:
    """Return the name of what is counted, in the singular if there is one."""
    return name.removesuffix("s") if str(value) == "1" else name


def summary_html(
    subject: Subject, modes: ModeTable | None, n_outliers: int | None, shown: Sequence[int]
) -> Html:
    """Return the first section of the page."""
    counts: list[tuple[str, Any]] = [
        ("samples", NOTHING if subject.n_samples is None else f"{subject.n_samples:,}"),
        ("features", len(subject.names)),
    ]
    if subject.labels is not None:
        counts += [
            ("clusters", len(np.unique(subject.labels[subject.labels >= 0]))),
            ("noise samples", f"{int((subject.labels < 0).sum()):,}"),
        ]
    if modes is not None:
        counts.append(("modes", len(modes)))
    if n_outliers is not None:
        counts.append(("outliers", f"{n_outliers:,}"))
    return fill(
        "summary.html",
        tiles=tiles(counts),
        choice=_choice(subject),
        clusters=_cluster_table(subject),
        modes=_mode_table(subject, modes, shown),
    )


def notes_html(notes: Sequence[str]) -> Html:
    """Return what is to be said of the samples."""
    if not notes:
        return Html("")
    items = "".join(f"<li>{text(note)}</li>" for note in notes)
    return Html(f'<p class="note">About the data</p><ul class="notes">{items}</ul>')


def _choice(subject: Subject) -> str:
    if subject.labels is None:
        return f"{subject.kind} describes all samples by one density and knows no clusters."
    text = describe_choice(subject.candidates)
    n_fragments = getattr(subject.model, "n_fragments_", 0)
    if n_fragments:
        text += (
            f" {n_fragments} clusters were found that would not hold on new samples; "
            "they were put together."
        )
    return text


def _cluster_table(subject: Subject) -> Html:
    clusters = subject.clusters
    if not clusters:
        return Html("")
    stacked = isinstance(clusters[0], StackedCluster)
    headings = ["cluster", "samples", "share"]
    headings += ["gain", "members"] if stacked else ["widest std", "narrowest std", "bandwidth"]
    cells = _stacked_cells if stacked else _cells
    rows = [
        (chip(each.label), f"{each.n_members:,}", f"{each.share:.1%}", *cells(each))
        for each in clusters[:_MOST_ROWS]
    ]
    caption = "Clusters" + _cut_short(len(clusters))
    if stacked:
        caption += "; the gain is in held-out log density over a plain Gaussian"
    return table(caption, headings, rows)


def _cells(cluster: Cluster) -> tuple[str, ...]:
    widths = (cluster.stds.max(), cluster.stds.min(), cluster.bandwidth)
    return tuple(figure_of(each) for each in widths)


def _stacked_cells(cluster: StackedCluster) -> tuple[str, ...]:
    members = zip(cluster.members, cluster.weights, strict=True)
    gain = estimate_of(Estimate(cluster.gain, cluster.gain_error))
    return gain, ", ".join(f"{name} {weight:.0%}" for name, weight in members)


def _mode_table(subject: Subject, modes: ModeTable | None, shown: Sequence[int]) -> Html:
    if modes is None:
        return absent(f"{subject.kind} has no modes to list: its density is not made of kernels.")
    columns = list(shown)[:MOST_COLUMNS]
    headings = ["mode", "share", "significance", *(subject.names[i] for i in columns)]
    rows = [
        (
            i + 1,
            f"{modes.shares[i]:.1%}",
            figure_of(modes.significances[i]),
            *(figure_of(modes.locations[i, j]) for j in columns),
        )
        for i in range(min(len(modes), _MOST_ROWS))
    ]
    caption = "Modes of the density" + _cut_short(len(modes))
    if len(columns) < len(subject.names):
        caption += f", {len(columns)} of {len(subject.names)} features"
    return table(caption, headings, rows)


def _cut_short(n_rows: int) -> str:
    return f", the first {_MOST_ROWS} of {n_rows}" if n_rows > _MOST_ROWS else ""
