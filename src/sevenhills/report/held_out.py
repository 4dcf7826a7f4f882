"""Outliers among the samples, and the quality of a model on held-out samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..estimate import Estimate, mean_with_error
from ..estimators import DensityOutlierDetector, GaussianKDE, GaussianMixtureBIC
from ..metrics import calibration_error, mean_log_likelihood
from ..validation import random_generator
from .page import NO_VALUE, Table, absent, cluster_cell, estimate_cell, number_cell, render
from .subject import Subject

#: Larger data sets are scored by the fit itself instead of by cross-validation.
_MAX_CROSS_VALIDATED = 20_000
#: Outliers that are listed.
_MAX_OUTLIERS = 20
#: Draws by which probabilities are estimated.
_N_DRAWS = 2000
#: Without cross-validation, this share of the samples, or of the density, is called outlying.
_SHARE = 0.01

#: Quality is measured on at most and at least this many samples, and this share is held out.
_MAX_SAMPLES = 10_000
_MIN_SAMPLES = 10
_HELD_OUT = 0.2
#: Confidences of the calibration curve.
_CONFIDENCES = np.linspace(0, 1, 51)


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


def find_outliers(subject: Subject, seed: int) -> Outliers:
    """Return the outliers among the samples."""
    if subject.X is None:
        return _unknown("The samples were not given, so there are no outliers to list.")
    if not subject.is_estimator:
        return _outside_of_region(subject, subject.X, seed)
    if len(subject.X) > _MAX_CROSS_VALIDATED:
        return _lowest_of_fit(subject, subject.X)
    detector = DensityOutlierDetector(subject.model, random_state=seed)
    try:
        is_outlier = detector.fit_predict(subject.X) < 0
    except ValueError as error:
        return _unknown(f"Outliers could not be detected: {error}.")
    scores, count = detector.training_scores_, int(is_outlier.sum())
    rows = _lowest(scores, count)
    rule = (
        f"The samples with p-values of at most {detector.rate_:.2g}. The p-value is the share of "
        "samples that are not denser, each by a fit that has not seen it."
    )
    return Outliers(count, rows, scores[rows], detector.p_value(subject.X)[rows], rule)


def _lowest_of_fit(subject: Subject, X: np.ndarray) -> Outliers:
    scores = subject.density.logpdf(X, subject.model.n_jobs)
    count = int(_SHARE * len(X))
    rows = _lowest(scores, count)
    rule = f"The {_SHARE:.0%} of the samples at which the density is lowest."
    return Outliers(count, rows, scores[rows], None, rule)


def _unknown(reason: str) -> Outliers:
    return Outliers(None, np.empty(0, dtype=np.int64), np.empty(0), None, reason)


def _outside_of_region(subject: Subject, X: np.ndarray, seed: int) -> Outliers:
    probability = subject.density.hdr_probability(X, n_draws=_N_DRAWS, random_state=seed)
    scores = subject.density.logpdf(X)
    count = int((probability > 1 - _SHARE).sum())
    rows = _lowest(scores, count)
    rule = (
        f"The samples outside of the {1 - _SHARE:.0%} highest-density region of the fit. New "
        "samples may be outside more often."
    )
    return Outliers(count, rows, scores[rows], None, rule)


def _lowest(scores: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(scores, kind="stable")[: min(count, _MAX_OUTLIERS)]


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


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """The log densities of held-out samples by an estimator, and its calibration.

    ``coverage`` has the shares of samples inside highest-density regions of rising confidence.
    """

    name: str
    log_densities: np.ndarray
    calibration: Estimate
    coverage: np.ndarray


@dataclass(frozen=True, eq=False)
class Quality:
    """The scores of the model, first, and of simpler estimators."""

    estimators: list[HeldOutScores]
    n_train: int
    n_held_out: int
    #: Sentences on estimators that could not be fitted, or why nothing was held out.
    failures: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration curves, with the 95% band of a perfectly calibrated density."""
        band = 1.96 * np.sqrt(_CONFIDENCES * (1 - _CONFIDENCES) / self.n_held_out)
        return {
            "confidences": _CONFIDENCES,
            "lower": np.maximum(_CONFIDENCES - band, 0),
            "upper": np.minimum(_CONFIDENCES + band, 1),
            "curves": [{"name": each.name, "covered": each.coverage} for each in self.estimators],
            "inside": "held-out samples inside",
        }


def measure_quality(subject: Subject, seed: int) -> Quality:
    """Fit the model and simpler estimators to 80% of the samples and score them on the others."""
    reason = _reason_against(subject)
    if subject.X is None or reason:
        return Quality([], 0, 0, [reason])
    order = random_generator(seed).permutation(len(subject.X))[:_MAX_SAMPLES]
    n_held_out = int(len(order) * _HELD_OUT)
    held_out, train = subject.X[order[:n_held_out]], subject.X[order[n_held_out:]]
    found = Quality([], len(train), n_held_out, [])
    for estimator in _compared_estimators(subject.model):
        try:
            found.estimators.append(_score(estimator, train, held_out, seed))
        except ValueError as error:
            found.failures.append(f"{type(estimator).__name__} could not be fitted: {error}.")
    return found


def _reason_against(subject: Subject) -> str:
    """Return the reason why no samples can be held out, empty if they can."""
    if subject.X is None:
        return "The samples were not given, so none of them could be held out."
    if not subject.is_estimator:
        return f"A {subject.kind} cannot be fitted to fewer samples, so none were held out."
    if not subject.density.is_normalized:
        return "The density does not integrate to one, so its likelihood has no meaning."
    if len(subject.X) < _MIN_SAMPLES:
        return f"{len(subject.X)} samples are too few to hold some of them out."
    return ""


def _compared_estimators(model: Any) -> list[Any]:
    others = [GaussianKDE(n_jobs=model.n_jobs), GaussianMixtureBIC(n_jobs=model.n_jobs)]
    return [clone(model), *(each for each in others if type(each) is not type(model))]


def _score(estimator: Any, train: np.ndarray, held_out: np.ndarray, seed: int) -> HeldOutScores:
    density = estimator.fit(train).density_
    scores = density.logpdf(held_out, estimator.n_jobs)
    own = density.logpdf(density.sample(_N_DRAWS, random_state=seed), estimator.n_jobs)
    probability = 1 - np.searchsorted(np.sort(own), scores, side="right") / len(own)
    return HeldOutScores(
        name=type(estimator).__name__,
        log_densities=scores,
        calibration=calibration_error(own, scores, random_state=seed),
        coverage=np.searchsorted(np.sort(probability), _CONFIDENCES, side="right") / len(scores),
    )


def quality_html(found: Quality) -> str:
    """Return the comparison with simpler estimators."""
    if not found.estimators:
        return absent(" ".join(found.failures))
    first = found.estimators[0]
    headings = ["estimator", "held-out log density", f"difference from {first.name}"]
    headings.append("calibration error")
    rows = [
        (
            each.name,
            estimate_cell(mean_log_likelihood(each.log_densities)),
            NO_VALUE if each is first else estimate_cell(_difference(each, first)),
            estimate_cell(each.calibration),
        )
        for each in found.estimators
    ]
    caption = "Held-out samples, mean ± standard error; higher log densities are better"
    return render(
        "quality.html",
        n_train=f"{found.n_train:,}",
        n_held_out=f"{found.n_held_out:,}",
        content=Table(caption, headings, rows),
        failures=" ".join(found.failures),
    )


def _difference(one: HeldOutScores, other: HeldOutScores) -> Estimate:
    """Return the mean difference of log densities."""
    with np.errstate(invalid="ignore"):  # both may be minus infinity
        differences = one.log_densities - other.log_densities
    return Estimate(*mean_with_error(differences), len(differences))
