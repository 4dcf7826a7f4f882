"""Outliers among the samples, and the quality of a model on held-out samples."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..estimate import Estimate
from ..estimators import DensityOutlierDetector, GaussianKDE, GaussianMixtureBIC
from ..metrics import calibration_error
from ..validation import random_generator
from .subject import Subject

#: Larger data sets are scored by the fit itself instead of by cross-validation.
_MAX_CROSS_VALIDATED = 20_000
#: Outliers that are listed.
_MAX_OUTLIERS = 20
#: Draws by which probabilities are estimated.
_N_DRAWS = 2000
#: Without cross-validation: samples outside of this highest-density region are outliers.
_CONFIDENCE = 0.99

#: Quality is measured on at most and at least this many samples, and this share is held out.
_MAX_SAMPLES = 10_000
_MIN_SAMPLES = 10
_HELD_OUT = 0.2
#: Confidences of the calibration curve.
_CONFIDENCES = np.linspace(0, 1, 51)


@dataclass(frozen=True, eq=False)
class Outliers:
    """The samples of lowest density.

    Attributes
    ----------
    count : int
        The number of outliers.
    rows : ndarray of int
        The first of them, lowest density first.
    scores : ndarray
        Their log densities.
    p_values : ndarray or None
        The probability that the density at a new sample is no higher; None if it is not known.
    rule : str
        The definition of an outlier, in words.
    """

    count: int
    rows: np.ndarray
    scores: np.ndarray
    p_values: np.ndarray | None
    rule: str


def find_outliers(subject: Subject, seed: int) -> Outliers | str:
    """Return the outliers among the samples, or the reason why there are none to return."""
    if subject.X is None:
        return "The samples were not given, so there are no outliers to list."
    if not subject.is_estimator:
        return _outside_of_region(subject, subject.X, seed)
    held_out = 1 < len(subject.X) <= _MAX_CROSS_VALIDATED
    detector = DensityOutlierDetector(
        subject.model, n_splits=5 if held_out else None, n_draws=_N_DRAWS, random_state=seed
    )
    try:
        detector.fit(subject.X)
    except ValueError as error:
        return f"Outliers could not be detected: {error}."
    scores, fence = detector.training_scores_, detector.offset_
    count = int((scores < fence).sum())
    rows = _lowest(scores, count)
    has_p_values = subject.density.is_normalized and len(rows) > 0
    p_values = detector.p_values(subject.X[rows]) if has_p_values else None
    scored = "by fits to other samples" if held_out else "by the fit itself"
    rule = (
        f"Samples are scored {scored}. An outlier has a log density below {fence:.4g}, 1.5 "
        "interquartile ranges below the lower quartile."
    )
    return Outliers(count, rows, scores[rows], p_values, rule)


def _outside_of_region(subject: Subject, X: np.ndarray, seed: int) -> Outliers:
    probability = subject.density.hdr_probability(X, n_draws=_N_DRAWS, random_state=seed)
    scores = subject.density.logpdf(X)
    count = int((probability > _CONFIDENCE).sum())
    rows = _lowest(scores, count)
    rule = f"An outlier lies outside of the {_CONFIDENCE:.0%} highest-density region."
    return Outliers(count, rows, scores[rows], 1 - probability[rows], rule)


def _lowest(scores: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(scores, kind="stable")[: min(count, _MAX_OUTLIERS)]


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """The scores of an estimator on held-out samples.

    Attributes
    ----------
    name : str
    scores : ndarray of shape (n_held_out,)
        The log densities.
    calibration : Estimate
    coverage : ndarray
        The shares of held-out samples inside highest-density regions of increasing confidence.
    """

    name: str
    scores: np.ndarray
    calibration: Estimate
    coverage: np.ndarray


@dataclass(frozen=True, eq=False)
class Quality:
    """The model, first, beside simpler estimators.

    Attributes
    ----------
    estimators : list of HeldOutScores
    n_train, n_held_out : int
    failures : list of str
        Estimators that could not be fitted, and why.
    """

    estimators: list[HeldOutScores]
    n_train: int
    n_held_out: int
    failures: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration curves, with the 95% band of a perfectly calibrated density."""
        band = 1.96 * np.sqrt(_CONFIDENCES * (1 - _CONFIDENCES) / self.n_held_out)
        return {
            "confidences": _CONFIDENCES,
            "lower": np.maximum(_CONFIDENCES - band, 0),
            "upper": np.minimum(_CONFIDENCES + band, 1),
            "curves": [{"name": each.name, "covered": each.coverage} for each in self.estimators],
        }


def measure_quality(subject: Subject, seed: int) -> Quality | str:
    """Fit the model and simpler estimators to 80% of the samples and score them on the others.

    Returns the reason in words if that is not possible.
    """
    if subject.X is None:
        return "The samples were not given, so none of them could be held out."
    if not subject.is_estimator:
        return f"A {subject.kind} cannot be fitted to fewer samples, so none were held out."
    if not subject.density.is_normalized:
        return "The density does not integrate to one, so its likelihood has no meaning."
    if len(subject.X) < _MIN_SAMPLES:
        return f"{len(subject.X)} samples are too few to hold some of them out."
    order = random_generator(seed).permutation(len(subject.X))[:_MAX_SAMPLES]
    n_held_out = int(len(order) * _HELD_OUT)
    held_out, train = subject.X[order[:n_held_out]], subject.X[order[n_held_out:]]
    found = Quality([], len(train), n_held_out, [])
    for estimator in _compared_estimators(subject.model):
        try:
            found.estimators.append(_score(estimator, train, held_out, seed))
        except ValueError as error:
            found.failures.append(f"{type(estimator).__name__} could not be fitted: {error}.")
    return found if found.estimators else " ".join(found.failures)


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
        scores=scores,
        calibration=calibration_error(own, scores, random_state=seed),
        coverage=np.searchsorted(np.sort(probability), _CONFIDENCES, side="right") / len(scores),
    )
