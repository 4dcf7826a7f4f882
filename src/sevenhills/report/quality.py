"""The quality of a fit on held-out samples, beside simpler estimators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from ..estimate import Estimate, mean_with_error
from ..estimators import GaussianKDE, GaussianMixtureBIC
from ..texts import listed
from .held_out import Fold, HeldOut, describe_folds, make_folds, measured_features, score_held_out
from .page import NO_VALUE, Table, absent, estimate_cell, render
from .subject import Subject

#: Fewer samples are not held out.
_MIN_SAMPLES = 10
#: Samples on which estimators are compared: more change the errors little.
_MAX_COMPARED = 10_000
#: Confidences of the calibration curve, and of the region whose coverage is said.
_CONFIDENCES = np.linspace(0, 1, 51)
CONFIDENCE = 0.9
#: Simpler estimators in words.
GAUSSIAN, KDE, MIXTURE = "a single Gaussian", "a plain KDE", "a Gaussian mixture"


@dataclass(frozen=True, eq=False)
class Quality:
    """Held-out scores of the model, first, and of simpler estimators, by name."""

    scores: Mapping[str, HeldOut]
    folds: Sequence[Fold]
    #: Sentences on estimators that could not be fitted.
    failures: Sequence[str]
    #: The reason why samples were not held out, empty if they were.
    reason: str
    #: The features whose densities are not compared.
    left_out: Sequence[str] = ()

    @property
    def of_model(self) -> HeldOut | None:
        """The scores of the model, which are those of all samples."""
        return next(iter(self.scores.values()), None)

    @property
    def rows(self) -> np.ndarray:
        """The samples on which estimators are compared."""
        n_tested = _n_tested(self.folds)
        return np.concatenate([fold.test[:n_tested] for fold in self.folds])

    @property
    def is_normalized(self) -> bool:
        """Whether the model has probabilities, which comparisons need."""
        return self.of_model is not None and self.of_model.n_draws > 0

    def differences(self) -> dict[str, Estimate]:
        """Return the mean log density of the model beyond that of every other estimator."""
        if self.of_model is None:
            return {}
        own, rows = self.of_model.measured, self.rows
        others = list(self.scores.items())[1:]
        return {name: _mean(_subtracted(own[rows], each.measured[rows])) for name, each in others}

    def coverage(self, held_out: HeldOut) -> Estimate:
        """Return the share of held-out samples in regions of the confidence ``CONFIDENCE``.

        Its standard error is that of a calibrated density.
        """
        inside = held_out.probabilities[self.rows] <= CONFIDENCE
        error = sqrt(CONFIDENCE * (1 - CONFIDENCE) * (1 / len(inside) + 1 / held_out.n_draws))
        return Estimate(float(inside.mean()), error, len(inside))

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration curves, with the 95% band of a perfectly calibrated density."""
        rows = self.rows
        band = 1.96 * np.sqrt(_CONFIDENCES * (1 - _CONFIDENCES) / len(rows))
        return {
            "confidences": _CONFIDENCES,
            "lower": np.maximum(_CONFIDENCES - band, 0),
            "upper": np.minimum(_CONFIDENCES + band, 1),
            "curves": [
                {"name": name, "covered": _curve(each.probabilities[rows])}
                for name, each in self.scores.items()
            ],
            "inside": "held-out samples inside",
        }


def _curve(probabilities: np.ndarray) -> np.ndarray:
    inside = np.searchsorted(np.sort(probabilities), _CONFIDENCES, side="right")
    return np.asarray(inside / len(probabilities))


def _mean(values: np.ndarray) -> Estimate:
    return Estimate(*mean_with_error(values), len(values))


def _subtracted(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # both may be minus infinity
        return np.asarray(one - other)


def _n_tested(folds: Sequence[Fold]) -> int:
    return _MAX_COMPARED // len(folds)


def measure_quality(subject: Subject, seed: int) -> Quality:
    """Score samples by fits of the model, and of simpler estimators, that have not seen them."""
    reason = _reason_against(subject)
    if subject.X is None or reason:
        return Quality({}, [], [], reason)
    folds = make_folds(subject.X, seed)
    try:
        scores = {subject.kind: score_held_out(subject.model, subject, folds, seed)}
    except ValueError as error:
        return Quality({}, [], [], f"Samples could not be held out: {error}.")
    failures = []
    # Otherwise the variance that mixtures add would depend on the widest feature.
    stds = subject.X.std(axis=0)
    scale, n_tested = np.where(stds > 0, stds, 1.0), _n_tested(folds)
    for name, estimator in _simpler_estimators(subject).items():
        try:
            scores[name] = score_held_out(estimator, subject, folds, seed, n_tested, scale)
        except ValueError as error:
            failures.append(f"{name[0].upper() + name[1:]} could not be fitted: {error}.")
    measured = measured_features(subject)
    left_out = [name for j, name in enumerate(subject.names) if j not in measured]
    return Quality(scores, folds, failures, "", left_out)


def _reason_against(subject: Subject) -> str:
    """Return the reason why no samples can be held out, empty if they can."""
    if subject.X is None:
        return "The samples were not given, so none of them could be held out."
    if not subject.is_estimator:
        return f"A {subject.kind} cannot be fitted to fewer samples, so none were held out."
    if len(subject.X) < _MIN_SAMPLES:
        return f"{len(subject.X)} samples are too few to hold some of them out."
    return ""


def _simpler_estimators(subject: Subject) -> dict[str, Any]:
    """Return the estimators that a model should not be worse than, by their names in words."""
    if not subject.density.is_normalized:
        return {}
    n_jobs = subject.n_jobs
    found = {
        GAUSSIAN: GaussianMixtureBIC(max_components=1, n_jobs=n_jobs),
        KDE: GaussianKDE(n_jobs=n_jobs),
        MIXTURE: GaussianMixtureBIC(n_jobs=n_jobs),
    }
    own = {"GaussianKDE": KDE, "GaussianMixtureBIC": MIXTURE}.get(subject.kind)
    return {name: each for name, each in found.items() if name != own}


def quality_html(found: Quality) -> str:
    """Return the comparison with simpler estimators."""
    if found.of_model is None:
        return absent(found.reason)
    if not found.is_normalized:
        return absent("The density does not integrate to one, so its likelihood has no meaning.")
    first, rows = next(iter(found.scores)), found.rows
    ahead = found.differences()
    headings = ["estimator", "held-out log density", f"difference from {first}"]
    cells = [
        (
            name[0].upper() + name[1:],
            estimate_cell(_mean(each.measured[rows])),
            NO_VALUE if name == first else estimate_cell(_negative(ahead[name])),
            estimate_cell(_percent(found.coverage(each))),
        )
        for name, each in found.scores.items()
    ]
    headings.append(f"% in the {CONFIDENCE:.0%} region")
    about = f"{describe_folds(found.folds)} Compared on {len(rows):,} samples, "
    about += "simpler estimators in standardized features"
    if found.left_out:
        about += f", in the features but {listed(found.left_out)}, whose few values have no density"
    caption = "Held-out samples, mean ± standard error; higher log densities are better"
    return render(
        "quality.html",
        about=f"{about}.",
        content=Table(caption, headings, cells),
        failures=" ".join(found.failures),
    )


def _negative(value: Estimate) -> Estimate:
    return Estimate(-value, value.std_error, value.n)


def _percent(value: Estimate) -> Estimate:
    return Estimate(100 * value, 100 * value.std_error, value.n)
