"""Samples where the density is low."""

from dataclasses import dataclass

import numpy as np

from ..estimators import DensityOutlierDetector
from .findings import MOST_COLUMNS, NOTHING, chip, figure_of
from .page import Html, absent, fill, table, text
from .subject import Subject

#: More samples than this are scored by the fit that has seen them.
_MOST_HELD_OUT = 20_000
_MOST_ROWS = 20
_N_DRAWS = 2000
#: Where rows cannot be held out: the mass of the region outside of which they are outliers.
_MASS = 0.99


@dataclass(frozen=True, eq=False)
class Outliers:
    """The samples of lowest density.

    Attributes
    ----------
    count : int
        How many are outliers.
    rows : ndarray of int
        The first of them, the lowest first.
    scores : ndarray
        Their log densities.
    p_values : ndarray or None
        The mass of the density where it is no higher; None if it has no masses.
    rule : str
        What makes an outlier.
    """

    count: int
    rows: np.ndarray
    scores: np.ndarray
    p_values: np.ndarray | None
    rule: str


def find_outliers(subject: Subject, seed: int) -> Outliers | str:
    """Return the outliers among the samples of a subject, or why they are not known."""
    if subject.X is None:
        return "The samples were not given, so there are no outliers to list."
    if not subject.is_recipe:
        return _by_coverage(subject, subject.X, seed)
    held_out = 1 < len(subject.X) <= _MOST_HELD_OUT
    detector = DensityOutlierDetector(
        subject.model, n_folds=5 if held_out else None, n_draws=_N_DRAWS, random_state=seed
    )
    try:
        detector.fit(subject.X)
    except ValueError as error:
        return f"Outliers could not be looked for: {error}."
    scores, fence = detector.training_scores_, detector.offset_
    rows = _lowest(scores, int((scores < fence).sum()))
    can_weigh = subject.can_be_sampled and len(rows) > 0
    seen = "by fits that have not seen them" if held_out else "by the fit itself"
    return Outliers(
        count=int((scores < fence).sum()),
        rows=rows,
        scores=scores[rows],
        p_values=detector.p_values(subject.X[rows]) if can_weigh else None,
        rule=(
            f"Samples are scored {seen}; an outlier has a log density below {figure_of(fence)}, "
            "one and a half interquartile ranges under the lower quartile."
        ),
    )


def _by_coverage(subject: Subject, X: np.ndarray, seed: int) -> Outliers:
    covered = subject.density.hdr_probability(X, n_draws=_N_DRAWS, random_state=seed)
    scores = subject.density.logpdf(X)
    count = int((covered > _MASS).sum())
    rows = _lowest(scores, count)
    return Outliers(
        count=count,
        rows=rows,
        scores=scores[rows],
        p_values=1 - covered[rows],
        rule=f"An outlier lies outside of the smallest region that holds {_MASS:.0%} of the mass.",
    )


def _lowest(scores: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(scores, kind="stable")[: min(count, _MOST_ROWS)]


def outliers_html(subject: Subject, found: Outliers | str, shown: list[int]) -> Html:
    """Return the section of outliers."""
    if isinstance(found, str) or subject.X is None:
        return absent(str(found))
    if found.count == 0:
        return absent(f"No sample is an outlier. {found.rule}")
    columns = shown[:MOST_COLUMNS]
    headings = ["row", *(["cluster"] if subject.labels is not None else [])]
    headings += ["log density", "p-value", *(subject.names[i] for i in columns)]
    rows = [_row(subject, subject.X, found, k, columns) for k in range(len(found.rows))]
    listed = "all" if found.count == len(rows) else f"the lowest {len(rows)}"
    caption = f"Outliers: {listed} of {found.count:,}"
    if found.p_values is not None:
        caption += "; the p-value is the mass of the density where it is no higher"
    return fill(
        "outliers.html",
        rule=found.rule,
        table=table(caption, headings, rows),
    )


def _row(
    subject: Subject, X: np.ndarray, found: Outliers, k: int, columns: list[int]
) -> list[Html | str]:
    row = int(found.rows[k])
    name = text(subject.name_of_row(row))
    mark = Html(f'<button type="button" class="mark" data-row="{row}">{name}</button>')
    cells: list[Html | str] = [mark]
    if subject.labels is not None:
        cells.append(chip(int(subject.labels[row])))
    p_value = NOTHING if found.p_values is None else figure_of(found.p_values[k])
    return [*cells, figure_of(found.scores[k]), p_value, *(figure_of(X[row, i]) for i in columns)]
