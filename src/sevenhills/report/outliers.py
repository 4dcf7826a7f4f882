"""The outliers among the samples of a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.outlier_detector import check_rate, is_outlier
from .held_out import Fold, HeldOut, describe_folds
from .page import Table, absent, cluster_cell, number_cell, render
from .quality import Quality
from .subject import Subject

#: Outliers that are listed.
_MAX_LISTED = 20
#: Draws by which probabilities are estimated.
_N_DRAWS = 2000
#: Samples outside of the region of a density with this share of it are outliers.
_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Outliers:
    """The number of outliers, and the first of them, lowest density first."""

    #: None if outliers are not known.
    count: int | None
    rows: np.ndarray
    log_densities: np.ndarray
    #: None if samples were not held out.
    p_values: np.ndarray | None
    #: The definition of an outlier, or the reason why outliers are not known, in words.
    rule: str
    #: The share of regular samples that the rule flags, None if it is not known.
    rate: float | None = None


def find_outliers(subject: Subject, quality: Quality, seed: int) -> Outliers:
    """Return the outliers among the samples, by held-out scores if there are any."""
    if quality.of_model is not None:
        return _by_p_value(np.asarray(subject.X), quality.of_model, quality.folds)
    if subject.X is None or subject.is_estimator:
        return _unknown(quality.reason)
    return _outside_of_region(subject, subject.X, seed)


def _by_p_value(X: np.ndarray, held_out: HeldOut, folds: Sequence[Fold]) -> Outliers:
    """Return the samples with low p-values, as DensityOutlierDetector does."""
    scores = _highest_of_equal(X, held_out.log_densities)
    p_values = np.searchsorted(np.sort(scores), scores, side="right") / len(scores)
    rate = check_rate(len(X), "auto", "fpr")
    rows = np.flatnonzero(is_outlier(p_values, rate, "fpr"))
    first = rows[np.argsort(scores[rows], kind="stable")[:_MAX_LISTED]]
    rule = (
        f"The samples with p-values of at most {rate:.2g}. The p-value is the share of samples "
        f"that are not denser. {describe_folds(folds)}"
    )
    return Outliers(len(rows), first, scores[first], p_values[first], rule, rate)


def _highest_of_equal(X: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return scores that equal samples have in common, although they may be in several folds."""
    _, which = np.unique(X, axis=0, return_inverse=True)
    highest = np.full(len(X), -np.inf)
    np.maximum.at(highest, which.ravel(), scores)
    return np.asarray(highest[which.ravel()])


def _unknown(reason: str) -> Outliers:
    return Outliers(None, np.empty(0, dtype=np.int64), np.empty(0), None, reason)


def _outside_of_region(subject: Subject, X: np.ndarray, seed: int) -> Outliers:
    probability = subject.density.hdr_probability(X, n_draws=_N_DRAWS, random_state=seed)
    scores = subject.density.logpdf(X)
    rows = np.flatnonzero(probability > 1 - _SHARE)
    first = rows[np.argsort(scores[rows], kind="stable")[:_MAX_LISTED]]
    rule = (
        f"The samples outside of the {1 - _SHARE:.0%} highest-density region of the fit. New "
        "samples may be outside more often."
    )
    return Outliers(len(rows), first, scores[first], None, rule)


def outliers_html(subject: Subject, found: Outliers, columns: Sequence[int]) -> str:
    """Return the table of outliers, with the features ``columns``."""
    if found.count is None:
        return absent(found.rule)
    if found.count == 0:
        return absent(f"No sample is an outlier. {found.rule}")
    headings = ["row", *(["cluster"] if subject.labels is not None else [])]
    headings += ["log density", *(["p-value"] if found.p_values is not None else [])]
    headings += [subject.names[i] for i in columns]
    rows = [_outlier_cells(subject, found, k, columns) for k in range(len(found.rows))]
    listed = "all" if found.count == len(rows) else f"the lowest {len(rows)}"
    caption = f"Outliers: {listed} of {found.count:,}"
    return render("outliers.html", rule=found.rule, content=Table(caption, headings, rows))


def _outlier_cells(subject: Subject, found: Outliers, k: int, columns: Sequence[int]) -> list[Any]:
    row, X = int(found.rows[k]), np.asarray(subject.X)
    cells: list[Any] = [{"row": row, "name": subject.name_of_row(row)}]
    if subject.labels is not None:
        cells.append(cluster_cell(subject.labels[row]))
    p_value = [] if found.p_values is None else [found.p_values[k]]
    numbers = (found.log_densities[k], *p_value, *(X[row, i] for i in columns))
    return [*cells, *map(number_cell, numbers)]
