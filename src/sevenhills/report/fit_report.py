"""The report about a fit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..density import ModeTable
from ..estimators.summary import describe_choice, describe_resolution
from ..texts import counted, listed
from ..validation import check_count
from .fit_verdict import fit_verdict
from .held_out import measured_features
from .outliers import find_outliers, outliers_html
from .page import (
    NO_VALUE,
    Report,
    Section,
    Table,
    absent,
    cluster_cell,
    number_cell,
    render,
    render_page,
)
from .quality import measure_quality, quality_html
from .subject import Subject, make_subject
from .views import View, axis_view, feature_view, features_to_show, plot_data

#: Scripts of this page.
_SCRIPTS = ("core", "density", "clusters", "samples", "outliers", "quality")
#: Draws from the density that determine ranges and grids.
_N_DRAWS = 4000
#: Modes of more kernels are not searched, which takes a minute.
_MAX_KERNELS = 100_000
#: Rows of a table, and features with a column in it.
_MAX_ROWS = 30
_MAX_COLUMNS = 6
#: Characters of all names in the subtitle.
_MAX_NAMES = 160


def build_report(
    model_or_data: Any,
    *,
    X: Any = None,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    rows: Any = None,
    notes: Sequence[str] = (),
    left_out: Mapping[str, str] | None = None,
    random_state: int = 0,
) -> Report:
    """Return a report about a fit, an interactive page in one HTML file that needs no network.

    It begins with a verdict: what was found, how good the fit is beside simpler ones, and what to
    try next.

    Parameters
    ----------
    model_or_data : estimator, KernelMixture, or array-like of shape (n_samples, n_features)
        A fitted model; a model to fit to ``X``; or samples to fit. The default for samples is
        :class:`~sevenhills.AutoROME` up to 50,000 values (rows times features), and else
        ``ROME(scale="auto", shrinkage="auto")``, as on the command line.
    X : array-like of shape (n_samples, n_features), optional
        The samples that the model was fitted to. Without them the report has no points, no
        outliers and no quality.
    feature_names : sequence of str, optional
        The names of the features; by default those of a data frame.
    title : str, optional
    rows : array-like of shape (n_samples,), optional
        The names of samples in tables and plots; by default their indices.
    notes : sequence of str, optional
        Notes on the samples, for example on the table that they come from.
    left_out : mapping of str to str, optional
        Columns and rows that were left out, each with the reason, for the verdict.
    random_state : int, default=0
        Seed of draws, folds and samples of rows.

    Returns
    -------
    Report

    Notes
    -----
    The same input gives the same file. A model is fitted to at most 20,000 rows, drawn at random,
    unless it is fitted before. Up to 3,000 rows are held out in five folds, as by
    :class:`~sevenhills.DensityOutlierDetector`; more are halved, each half is scored by a fit to
    3,000 rows of the other one, and estimators are compared on 10,000 rows. Of more than 24
    features, those in which clusters differ most are shown. A page of 10,000 samples in two
    dimensions has 2.3 MB, of which plotly.js takes 1.9 MB. Reports need the extra ``report``.

    Examples
    --------
    >>> from sevenhills import GaussianKDE, datasets
    >>> from sevenhills.report import build_report
    >>> X = datasets.load("two_moons").sample(50, random_state=0)
    >>> page = build_report(GaussianKDE().fit(X), X=X)  # page.save("hills.html") writes it
    >>> page.title
    'GaussianKDE of 50 samples'
    >>> page.verdict[0]
    'GaussianKDE is one density of 50 rows of 2 columns, without clusters; the density has 1 mode.'
    """
    seed = check_count(random_state, "random_state")
    subject = make_subject(model_or_data, X, feature_names, rows, seed)
    shown = features_to_show(subject)
    draws = _draws(subject, seed)
    views = {"features": feature_view(subject, shown), "axes": axis_view(subject, draws)}
    modes = _modes(subject)
    quality = measure_quality(subject, seed)
    outliers = find_outliers(subject, quality, seed)
    n_modes = None if modes is None else _count_measured(subject, modes)
    verdict = fit_verdict(subject, n_modes, quality, outliers, left_out or {})
    data = plot_data(subject, views, draws, modes, outliers.rows)
    if quality.is_normalized:
        data["quality"] = quality.to_dict()
    columns, tiles = shown[:_MAX_COLUMNS], _tiles(subject, n_modes, outliers.count)
    sections = [
        Section("verdict", "Verdict", render("fit_verdict.html", findings=verdict)),
        Section("summary", "Summary", _summary(subject, modes, tiles, columns, notes)),
        Section("line", "One feature", _line(subject, views["features"])),
        *_pair_sections(subject, views),
        Section("clusters", "Clusters", _clusters(subject)),
        Section("samples", "Samples beside data", _samples(subject, len(shown))),
        Section("outliers", "Outliers", outliers_html(subject, outliers, columns)),
        Section("quality", "Quality", quality_html(quality)),
    ]
    sentences = [each.text for each in verdict]
    title = title or _title(subject)
    return render_page(title, _subtitle(subject), sections, data, _SCRIPTS, sentences)


def _modes(subject: Subject) -> ModeTable | None:
    """Return the modes of the density, None if they are not known."""
    if subject.mixture is None or subject.mixture.n_kernels > _MAX_KERNELS:
        return None
    return subject.mixture.modes(n_jobs=subject.n_jobs)


def _count_measured(subject: Subject, modes: ModeTable) -> int:
    """Return the number of modes of the measured features: values of others are no modes."""
    measured = measured_features(subject)
    if subject.mixture is None or len(measured) == len(subject.names):
        return len(modes)
    return len(subject.mixture.marginal(measured).modes(n_jobs=subject.n_jobs))


def _draws(subject: Subject, seed: int) -> np.ndarray:
    """Return samples of the density, none if it cannot be sampled."""
    if not subject.density.is_normalized:
        return np.empty((0, len(subject.names)))
    return subject.density.sample(_N_DRAWS, random_state=seed)


def _title(subject: Subject) -> str:
    if subject.n_samples is None:
        return subject.kind
    of_all = "" if subject.n_rows is None else f" of {subject.n_rows:,}"
    return f"{subject.kind} of {subject.n_samples:,}{of_all} samples"


def _subtitle(subject: Subject) -> str:
    names = ", ".join(subject.names)
    if len(names) > _MAX_NAMES:
        names = names[:_MAX_NAMES] + "…"
    return f"{counted(len(subject.names), 'feature')}: {names}"


def _summary(
    subject: Subject,
    modes: ModeTable | None,
    tiles: list[tuple[str, str]],
    columns: Sequence[int],
    notes: Sequence[str],
) -> str:
    """Return counts, clusters, modes and notes on the samples."""
    resolution = describe_resolution(getattr(subject.model, "resolution_", ()), subject.names)
    no_modes = f"{subject.kind} is not a mixture of kernels, so its modes are not known."
    if subject.mixture is not None:
        no_modes = f"Modes are not searched among more than {_MAX_KERNELS:,} kernels."
    return render(
        "summary.html",
        tiles=tiles,
        choice=_choice(subject),
        clusters=_cluster_table(subject),
        modes=None if modes is None else _mode_table(subject, modes, columns),
        no_modes=no_modes if modes is None else "",
        maps=_map_table(subject),
        notes=[*notes, resolution] if resolution else notes,
    )


def _tiles(subject: Subject, n_modes: int | None, n_outliers: int | None) -> list[tuple[str, str]]:
    """Return counts with their nouns."""
    counts = {"samples": subject.n_samples, "features": len(subject.names)}
    if subject.labels is not None:
        counts["clusters"] = len(np.unique(subject.labels[subject.labels >= 0]))
        counts["noise samples"] = int((subject.labels < 0).sum())
    if n_modes is not None:
        counts["modes"] = n_modes
    if n_outliers is not None:
        counts["outliers"] = n_outliers
    return [
        (
            noun.removesuffix("s") if count == 1 else noun,
            NO_VALUE if count is None else f"{count:,}",
        )
        for noun, count in counts.items()
    ]


def _choice(subject: Subject) -> str:
    if subject.labels is None:
        return f"{subject.kind} fits one density to all samples and finds no clusters."
    return describe_choice(subject.candidates)


def _cluster_table(subject: Subject) -> Table | None:
    """Return the table of the estimator's summary, with the colors of clusters."""
    clusters = getattr(subject.model, "clusters_", ())
    if not clusters:
        return None
    summary = subject.model._summary()
    # Rows of AutoROME are cells, which may hold several clusters.
    cells = {each.name: cluster_cell(each.label) for each in clusters}
    rows = [
        (cells.get(row[0], row[0]), *(cell.replace("\n", ", ") for cell in row[1:]))
        for row in summary.rows[:_MAX_ROWS]
    ]
    return Table("Densities of clusters" + _cut_short(len(summary.rows)), summary.headings, rows)


def _cut_short(n_rows: int) -> str:
    return f", the first {_MAX_ROWS} of {n_rows}" if n_rows > _MAX_ROWS else ""


def _mode_table(subject: Subject, modes: ModeTable, columns: Sequence[int]) -> Table:
    headings = ["mode", "share", "significance", *(subject.names[i] for i in columns)]
    rows = [
        (
            i + 1,
            f"{modes.shares[i]:.1%}",
            *map(number_cell, (modes.significances[i], *modes.locations[i, columns])),
        )
        for i in range(min(len(modes), _MAX_ROWS))
    ]
    grouping = [name for j, name in enumerate(subject.names) if j not in measured_features(subject)]
    caption = "Modes of the density" + (f", by {listed(grouping)}" if grouping else "")
    caption += _cut_short(len(modes))
    if len(columns) < len(subject.names):
        caption += f", {len(columns)} of {len(subject.names)} features"
    return Table(caption, headings, rows)


def _map_table(subject: Subject) -> Table | None:
    """Return the limits of features and their maps to latent coordinates."""
    maps = getattr(subject.density, "maps", None)
    if maps is None:
        return None
    at_bounds = {each.feature: each.n_at_bounds for each in getattr(subject.model, "support_", ())}
    rows: list[tuple[str, ...]] = [
        (name, each.label, *map(number_cell, (*each.bounds, at_bounds.get(j))))
        for j, (name, each) in enumerate(zip(subject.names, maps, strict=True))
        if each.label
    ]
    headings = ["feature", "map", "least", "largest", "samples at a bound"]
    if not np.isfinite([each.bounds for each in maps]).any():  # the other columns would be empty
        headings, rows = headings[:2], [row[:2] for row in rows]
    caption = "Maps of features" + _cut_short(len(rows))
    return Table(caption, headings, rows[:_MAX_ROWS])


def _line(subject: Subject, view: View) -> str:
    missing = _missing(subject, view.along(0), "single features")
    return render("line.html", shown=_shown(subject, view), missing=missing)


def _pair_sections(subject: Subject, views: dict[str, View]) -> list[Section]:
    """Return the sections of pairs of directions, none if there is one feature only."""
    if len(subject.names) < 2:
        return []
    features, axes = views["features"], views["axes"]
    pair = absent("Only one feature is shown.")
    if len(features.names) > 1:
        missing = _missing(subject, features.along(0, 1), "pairs of features")
        shown = _shown(subject, features)
        pair = render("pair.html", view="features", shown=shown, missing=missing)
    is_mapped = getattr(subject.density, "maps", None) is not None
    what = "latent coordinates" if is_mapped and axes.density is not None else "features"
    about = f"The principal axes of the standardized {what}, and the density along them."
    missing = _missing(subject, axes.along(0, 1), "its axes")
    turned = render("pair.html", view="axes", shown=about, missing=missing)
    return [Section("pair", "Two features", pair), Section("axes", "Principal axes", turned)]


def _missing(subject: Subject, density: Any, directions: str) -> str:
    """Return a sentence in place of a density that is not known."""
    if density is not None:
        return ""
    kind = type(subject.density).__name__
    return f"The density of a {kind} along {directions} is not known, so it is not drawn."


def _shown(subject: Subject, view: View) -> str:
    n_shown, n_features = len(view.names), len(subject.names)
    if n_shown == n_features:
        return ""
    which = "the first" if subject.labels is None else "those in which clusters differ most"
    return f"{n_shown} of {n_features} features are shown, {which}."


def _clusters(subject: Subject) -> str:
    if subject.labels is None:
        return absent(f"{subject.kind} finds no clusters.")
    if subject.ordering is None:
        return absent("There is no ordering: clusters were given, or there is only one.")
    return render("clusters.html")


def _samples(subject: Subject, n_shown: int) -> str:
    if not subject.density.is_normalized:
        return absent("The density does not integrate to one, so it cannot be sampled.")
    return render("samples.html", two=n_shown > 1)
