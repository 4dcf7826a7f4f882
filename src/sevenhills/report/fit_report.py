"""The report about a fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..density import ModeTable
from ..validation import check_count
from .coordinates import (
    MAX_AXES,
    Coordinates,
    PrincipalAxes,
    axis_coordinates,
    draws_of,
    feature_coordinates,
    features_to_show,
    first_pair,
)
from .held_out import Outliers, Quality, find_outliers, measure_quality
from .page import Report, Section, render, render_page
from .sections import absent, code_html, outliers_html, quality_html, summary_html
from .subject import Subject, make_subject, thin
from .views import ordering_data, pack, pack_rows, positions, view_of

#: Samples that are plotted as points, and draws if there are no samples.
_MAX_POINTS = 3000
_MAX_DRAWS = 1500
#: Loadings of an axis that are shown.
_MAX_LOADINGS = 8
#: Names in the subtitle, and characters of one.
_MAX_NAMES, _MAX_NAME = 6, 28


def report(
    model_or_data: Any,
    path: Any,
    *,
    X: Any = None,
    feature_names: Sequence[str] | None = None,
    features: Sequence[int | str] | None = None,
    title: str | None = None,
    source: str | None = None,
    rows: Any = None,
    notes: Sequence[str] = (),
    random_state: int = 0,
) -> Path:
    """Write a report about a fit to one HTML file, which needs no network.

    Parameters
    ----------
    model_or_data : estimator, KernelMixture, or array-like of shape (n_samples, n_features)
        A fitted model; a model to fit to ``X``; or samples to fit :class:`~sevenhills.ROME` to.
    path : str or path-like
        The file to write.
    X : array-like of shape (n_samples, n_features), optional
        The samples that the model was fitted to. Without them the report has no points, no
        outliers and no quality.
    feature_names : sequence of str, optional
        The names of the features; by default those of a data frame.
    features : sequence of int or str, optional
        The features to show. By default all, or the 24 in which clusters differ most.
    title : str, optional
    source : str, optional
        The file that the samples come from, for the code that makes the report again.
    rows : array-like of shape (n_samples,), optional
        The names of samples in tables and plots; by default their indices.
    notes : sequence of str, optional
        Notes on the samples, for example on rows that were left out.
    random_state : int, default=0
        Seed of draws, folds and held-out samples.

    Returns
    -------
    Path
        The file.

    Notes
    -----
    The same input gives the same file. Outliers and the comparison with other estimators take
    six more fits. More than 20,000 samples are scored for outliers without cross-validation, and
    estimators are compared on at most 10,000 samples. A page of 10,000 samples in two dimensions
    has 2.3 MB, of which plotly.js takes 1.9 MB. It needs the extra ``report``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sevenhills import datasets
    >>> from sevenhills.report import report
    >>> X = datasets.load("aniso").sample(100, random_state=0)
    >>> with TemporaryDirectory() as folder:
    ...     path = report(X, Path(folder) / "hills.html", feature_names=["east", "north"])
    ...     path.stat().st_size < 5_000_000
    True
    """
    made = build_report(
        model_or_data,
        X=X,
        feature_names=feature_names,
        features=features,
        title=title,
        source=source,
        rows=rows,
        notes=notes,
        random_state=random_state,
    )
    return made.save(path)


def build_report(
    model_or_data: Any,
    *,
    X: Any = None,
    feature_names: Sequence[str] | None = None,
    features: Sequence[int | str] | None = None,
    title: str | None = None,
    source: str | None = None,
    rows: Any = None,
    notes: Sequence[str] = (),
    random_state: int = 0,
) -> Report:
    """Return a report about a fit; see :func:`report`.

    Parameters
    ----------
    model_or_data, X, feature_names, features, title, source, rows, notes, random_state
        See :func:`report`.

    Returns
    -------
    Report
        Its ``html`` is the page; ``save`` writes it.

    Examples
    --------
    >>> from sevenhills import GaussianKDE, datasets
    >>> from sevenhills.report import build_report
    >>> X = datasets.load("two_moons").sample(50, random_state=0)
    >>> made = build_report(GaussianKDE().fit(X), X=X)
    >>> made.title
    'GaussianKDE of 50 samples'
    """
    seed = check_count(random_state, "random_state")
    subject = make_subject(model_or_data, X, feature_names, rows)
    found = _examine(subject, features, seed)
    options: dict[str, Any] = {"feature_names": feature_names, "features": features, "title": title}
    options |= {"source": source, "random_state": random_state or None}
    n_outliers = None if isinstance(found.outliers, str) else found.outliers.count
    summary = summary_html(subject, found.modes, n_outliers, found.shown, notes)
    sections = [
        Section("summary", "Summary", summary),
        Section("line", "One feature", _line_html(found)),
        *_pair_sections(found),
        Section("clusters", "Clusters", _clusters_html(subject)),
        Section("samples", "Samples beside data", _samples_html(found)),
        Section("outliers", "Outliers", outliers_html(subject, found.outliers, found.shown)),
        Section("quality", "Quality", quality_html(found.quality)),
        Section("code", "Code", code_html(subject, source, options)),
    ]
    return render_page(title or _title(subject), _subtitle(subject), sections, _data(found))


@dataclass(frozen=True, eq=False)
class _Findings:
    """Everything that the sections show."""

    subject: Subject
    shown: list[int]
    modes: ModeTable | None
    outliers: Outliers | str
    quality: Quality | str
    axes: PrincipalAxes
    features: Coordinates
    turned: Coordinates
    rows: np.ndarray


def _examine(subject: Subject, features: Sequence[int | str] | None, seed: int) -> _Findings:
    draws = draws_of(subject, seed)
    outliers = find_outliers(subject, seed)
    kept = np.empty(0, dtype=np.int64) if isinstance(outliers, str) else outliers.rows
    shown = features_to_show(subject, features)
    axes = PrincipalAxes.from_samples(draws if subject.X is None else subject.X)
    return _Findings(
        subject=subject,
        shown=shown,
        modes=None if subject.mixture is None else subject.mixture.modes(n_jobs=subject.n_jobs),
        outliers=outliers,
        quality=measure_quality(subject, seed),
        axes=axes,
        features=feature_coordinates(subject, shown, draws),
        turned=axis_coordinates(subject, axes, draws),
        rows=thin(subject, _MAX_POINTS, kept),
    )


def _data(found: _Findings) -> dict[str, Any]:
    """Return the data of the plots."""
    subject = found.subject
    views = {"features": found.features, "axes": found.turned}
    # As many draws as samples, since clouds of different sizes look different.
    n_draws = len(found.rows) or _MAX_DRAWS
    out: dict[str, Any] = {
        name: view_of(view, found.rows, n_draws, subject.n_jobs) for name, view in views.items()
    }
    out["rows"] = pack(found.rows, "i4")
    if subject.rows is not None:
        out["row_names"] = [subject.name_of_row(row) for row in found.rows]
    if found.modes is not None:
        locations = found.modes.locations
        turned = found.axes.apply(locations)[:, : len(found.turned.names)]
        out["features"]["modes"] = pack_rows(locations[:, found.shown].T)
        out["axes"]["modes"] = pack_rows(turned.T)
    out["features"]["first"] = first_pair(subject, found.shown)
    out["axes"]["first"] = [0, min(1, len(found.turned.names) - 1)]
    out["axes"]["loadings"] = _loadings(found)
    if subject.labels is not None:
        out["labels"] = pack(subject.labels[found.rows], "i4")
    out["ordering"] = ordering_data(subject)
    if out["ordering"] is not None and subject.ordering is not None:
        out["ordering"]["positions"] = pack(positions(subject.ordering, found.rows), "i4")
    if isinstance(found.quality, Quality):
        out["quality"] = found.quality.to_dict()
    return out


def _loadings(found: _Findings) -> list[dict[str, Any]]:
    """Return the share of the variance and the largest loadings of every axis."""
    out = []
    for axis, share in zip(found.axes.axes[:MAX_AXES], found.axes.shares, strict=False):
        largest = np.argsort(-np.abs(axis), kind="stable")[:_MAX_LOADINGS]
        names = [found.subject.names[i] for i in largest]
        out.append({"share": share, "names": names, "parts": axis[largest]})
    return out


def _title(subject: Subject) -> str:
    n_samples = subject.n_samples
    return subject.kind if n_samples is None else f"{subject.kind} of {n_samples:,} samples"


def _subtitle(subject: Subject) -> str:
    n_features = len(subject.names)
    short = [
        name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"
        for name in subject.names[:_MAX_NAMES]
    ]
    ending = ", …" if n_features > _MAX_NAMES else ""
    return f"{n_features} feature{'' if n_features == 1 else 's'}: {', '.join(short)}{ending}"


def _line_html(found: _Findings) -> str:
    missing = "" if found.features.along(0) is not None else _not_drawn(found, "single features")
    return render("line.html", shown=_shown(found), missing=missing)


def _pair_sections(found: _Findings) -> list[Section]:
    """Return the sections of pairs of directions, none if there is one feature only."""
    if len(found.subject.names) < 2:
        return []
    pair = absent("Only one feature is shown.")
    if len(found.shown) > 1:
        pair = _pair_html(found, "features", "pairs of features", _shown(found))
    about = "The principal axes of the standardized features, and the density along them."
    return [
        Section("pair", "Two features", pair),
        Section("axes", "Principal axes", _pair_html(found, "axes", "its axes", about)),
    ]


def _pair_html(found: _Findings, view: str, directions: str, about: str) -> str:
    coordinates = found.features if view == "features" else found.turned
    missing = "" if coordinates.along(0, 1) is not None else _not_drawn(found, directions)
    return render("pair.html", view=view, shown=about, missing=missing)


def _not_drawn(found: _Findings, directions: str) -> str:
    kind = type(found.subject.density).__name__
    return f"The density of a {kind} along {directions} is not known, so it is not drawn."


def _shown(found: _Findings) -> str:
    n_shown, n_features = len(found.shown), len(found.subject.names)
    if n_shown == n_features:
        return ""
    which = (
        "those in which clusters differ most" if found.subject.labels is not None else "the first"
    )
    return f"{n_shown} of {n_features} features are shown, {which}."


def _clusters_html(subject: Subject) -> str:
    if subject.labels is None:
        return absent(f"{subject.kind} finds no clusters.")
    if subject.ordering is None:
        return absent("There is no ordering: clusters were given, or there is only one.")
    return render("clusters.html")


def _samples_html(found: _Findings) -> str:
    if not found.subject.density.is_normalized:
        return absent("The density does not integrate to one, so it cannot be sampled.")
    return render("samples.html", two=len(found.shown) > 1)
