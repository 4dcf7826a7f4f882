"""What stands in a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..density import ModeTable
from ..estimators.summary import describe_resolution
from ..validation import check_count
from .clusters import ordering_data, positions
from .coordinates import (
    MOST_AXES,
    Coordinates,
    PrincipalAxes,
    axis_coordinates,
    draws_of,
    feature_coordinates,
    features_to_show,
    first_pair,
)
from .findings import notes_html, summary_html
from .outliers import Outliers, find_outliers, outliers_html
from .packing import pack, pack_rows
from .page import Html, Report, Section, absent, fill, render_page, shorten
from .quality import Quality, measure_quality, quality_data, quality_html
from .reproduction import circumstances, code_of
from .subject import Subject, subject_of
from .thinning import thin
from .views import view_of

#: Samples that are drawn as points, and draws where there are no samples.
_MOST_POINTS = 3000
_MOST_DRAWS = 1500
#: Parts of an axis that are listed.
_MOST_LOADINGS = 8


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
        A fitted model; one that is not fitted yet, which is then fitted to ``X``; or samples, to
        which :class:`~sevenhills.ROME` is fitted.
    path : str or path-like
        The file to write.
    X : array-like of shape (n_samples, n_features), optional
        The samples that the model was fitted to. Without them the report has no points, no
        outliers and no quality.
    feature_names : sequence of str, optional
        What the features are called; known already if the samples are a data frame.
    features : sequence of int or str, optional
        Which of them to look at. By default all, or the 24 in which clusters differ most.
    title : str, optional
    source : str, optional
        The file that the samples come from, for the code that makes the report again.
    rows : array-like of shape (n_samples,), optional
        What rows are called in tables and pictures, where they are a part of a larger table; by
        default they are numbered from 0 on.
    notes : sequence of str, optional
        What to say of the samples, like what was left out.
    random_state : int, default=0
        For draws, folds and the samples that are held out.

    Returns
    -------
    Path
        The file.

    Notes
    -----
    The same input gives the same file. The outliers and the comparison with other estimators take
    six more fits; for more than 20 000 samples outliers are not held out, and more than 10 000
    are compared by a part of them.

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
    subject = subject_of(model_or_data, X, feature_names, rows)
    found = _examine(subject, features, seed)
    options: dict[str, Any] = {"feature_names": feature_names, "features": features, "title": title}
    options |= {"source": source, "random_state": random_state or None}
    sections = [
        Section("summary", "What was found", Html(_summary(found) + _notes(subject, notes))),
        Section("line", "One feature", _line(found)),
        *_of_pairs(found),
        Section("clusters", "Clusters", _clusters(found)),
        Section("samples", "Samples beside data", _samples(found)),
        Section("outliers", "Outliers", outliers_html(subject, found.outliers, found.shown)),
        Section("quality", "Quality", _quality(found)),
        Section("code", "Code", _code(subject, source, options)),
    ]
    return render_page(title or _title(subject), _subtitle(subject), sections, _data(found))


def _of_pairs(found: "_Findings") -> list[Section]:
    """Return the sections that it takes two features to have."""
    if len(found.subject.names) < 2:
        return []
    pair = Section("pair", "Two features", _pair(found))
    return [pair, Section("axes", "Principal axes", _axes(found))]


@dataclass(frozen=True, eq=False)
class _Findings:
    """All that the sections tell of."""

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
    axes = PrincipalAxes.of(draws if subject.X is None else subject.X)
    return _Findings(
        subject=subject,
        shown=shown,
        modes=None if subject.mixture is None else subject.mixture.modes(n_jobs=subject.n_jobs),
        outliers=outliers,
        quality=measure_quality(subject, seed),
        axes=axes,
        features=feature_coordinates(subject, shown, draws),
        turned=axis_coordinates(subject, axes, draws),
        rows=thin(subject, _MOST_POINTS, kept),
    )


def _data(found: _Findings) -> dict[str, Any]:
    """Return what the page draws."""
    subject = found.subject
    views = {"features": found.features, "axes": found.turned}
    # As many as samples: clouds of different sizes look different.
    n_draws = len(found.rows) or _MOST_DRAWS
    out: dict[str, Any] = {
        name: view_of(view, found.rows, n_draws, subject.n_jobs) for name, view in views.items()
    }
    out["rows"] = pack(found.rows, "i4")
    if subject.rows is not None:
        out["row_names"] = [subject.name_of_row(row) for row in found.rows]
    if found.modes is not None:
        places = found.modes.locations
        out["features"]["modes"] = pack_rows(places[:, found.shown].T)
        out["axes"]["modes"] = pack_rows(found.axes.apply(places)[:, : len(found.turned.names)].T)
    out["features"]["first"] = first_pair(subject, found.shown)
    out["axes"]["first"] = [0, min(1, len(found.turned.names) - 1)]
    out["axes"]["loadings"] = _loadings(found)
    if subject.labels is not None:
        out["labels"] = pack(subject.labels[found.rows], "i4")
    out["ordering"] = ordering_data(subject)
    if out["ordering"] is not None and subject.ordering is not None:
        out["ordering"]["positions"] = pack(positions(subject.ordering, found.rows), "i4")
    if isinstance(found.quality, Quality):
        out["quality"] = quality_data(found.quality)
    return out


def _loadings(found: _Findings) -> list[dict[str, Any]]:
    """Return, for every axis shown, its part of the variance and the features that make it up."""
    out = []
    for axis, share in zip(found.axes.axes[:MOST_AXES], found.axes.shares, strict=False):
        largest = np.argsort(-np.abs(axis), kind="stable")[:_MOST_LOADINGS]
        names = [found.subject.names[i] for i in largest]
        out.append({"share": share, "names": names, "parts": axis[largest]})
    return out


def _title(subject: Subject) -> str:
    known = subject.n_samples
    return subject.kind if known is None else f"{subject.kind} of {known:,} samples"


def _subtitle(subject: Subject) -> str:
    n_features = len(subject.names)
    text = f"{n_features} feature{'' if n_features == 1 else 's'}"
    listed = ", ".join(shorten(name) for name in subject.names[:6])
    return f"{text}: {listed}" + (", …" if n_features > 6 else "")


def _summary(found: _Findings) -> Html:
    n_outliers = None if isinstance(found.outliers, str) else found.outliers.count
    return summary_html(found.subject, found.modes, n_outliers, found.shown)


def _notes(subject: Subject, notes: Sequence[str]) -> Html:
    """Return what is to be said of the samples."""
    rounded = describe_resolution(getattr(subject.model, "resolution_", ()), subject.names)
    return notes_html([*notes, rounded] if rounded else notes)


def _line(found: _Findings) -> Html:
    body = fill("line.html", shown=_shown(found))
    if found.features.along(0) is not None:
        return body
    return Html(_missing(found, "along single features, so there is no line") + body)


def _pair(found: _Findings) -> Html:
    if len(found.shown) < 2:
        return absent("One feature only was chosen to be shown.")
    body = fill("pair.html", view="features", shown=_shown(found))
    if found.features.along(0, 1) is not None:
        return body
    return Html(_missing(found, "along pairs of features, so there are no regions") + body)


def _missing(found: _Findings, what: str) -> Html:
    kind = type(found.subject.density).__name__
    return absent(f"A {kind} cannot be drawn {what}.")


def _axes(found: _Findings) -> Html:
    note = (
        "Axes along which the standardised features spread most, and the density in these "
        "coordinates."
    )
    body = Html(fill("pair.html", view="axes", shown=note) + fill("loadings.html"))
    if found.turned.along(0, 1) is not None:
        return body
    return Html(_missing(found, "along its axes, so there are no regions") + body)


def _shown(found: _Findings) -> str:
    n_shown, n_features = len(found.shown), len(found.subject.names)
    if n_shown == n_features:
        return ""
    why = "those in which clusters differ most" if found.subject.labels is not None else "the first"
    return f"{n_shown} of {n_features} features are shown, {why}."


def _clusters(found: _Findings) -> Html:
    subject = found.subject
    if subject.labels is None:
        return absent(f"{subject.kind} finds no clusters.")
    if subject.ordering is None:
        return absent("The samples were not ordered: clusters were given, or there is only one.")
    return fill("clusters.html")


def _samples(found: _Findings) -> Html:
    if not found.subject.can_be_sampled:
        return absent("The density does not integrate to one, so it cannot be drawn from.")
    if len(found.shown) < 2:
        return fill("samples_line.html")
    return fill("samples.html")


def _quality(found: _Findings) -> Html:
    if isinstance(found.quality, str):
        return absent(found.quality)
    return quality_html(found.quality)


def _code(subject: Subject, source: str | None, options: dict[str, Any]) -> Html:
    code = code_of(subject, source, options)
    return fill("code.html", code=code, circumstances=circumstances(subject))
