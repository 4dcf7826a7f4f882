"""How well the model describes samples that it has not seen, beside simpler ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..estimate import Estimate, mean_with_error
from ..estimators import GaussianKDE, GaussianMixtureBIC
from ..metrics import calibration_error, mean_log_likelihood
from ..validation import random_generator
from .findings import NOTHING, estimate_of
from .page import Html, fill, table
from .subject import Subject

#: More samples than this would keep the reader waiting.
_MOST_SAMPLES = 10_000
_FEWEST_SAMPLES = 10
_HELD_OUT = 0.2
_N_DRAWS = 2000
_MASSES = np.linspace(0, 1, 51)


@dataclass(frozen=True, eq=False)
class Contestant:
    """How a model did on samples that it has not seen.

    Attributes
    ----------
    name : str
    scores : ndarray of shape (n_held_out,)
        Its log densities there.
    calibration : Estimate
    covered : ndarray
        The share of held-out samples inside its regions of rising mass.
    """

    name: str
    scores: np.ndarray
    calibration: Estimate
    covered: np.ndarray


@dataclass(frozen=True, eq=False)
class Quality:
    """The model, first, beside its rivals.

    Attributes
    ----------
    contestants : list of Contestant
    n_seen, n_held_out : int
        How many samples they were fitted to, and judged by.
    failures : list of str
        Who could not be fitted, and why.
    """

    contestants: list[Contestant]
    n_seen: int
    n_held_out: int
    failures: list[str]


def measure_quality(subject: Subject, seed: int) -> Quality | str:
    """Fit the model and its rivals to four fifths of the samples, or say why that cannot be."""
    if subject.X is None:
        return "The samples were not given, so none of them could be held out."
    if not subject.is_recipe:
        return f"A {subject.kind} cannot be fitted to fewer samples, so none were held out."
    if not subject.can_be_sampled:
        return "The density does not integrate to one, so its likelihood means nothing."
    if len(subject.X) < _FEWEST_SAMPLES:
        return f"{len(subject.X)} samples are too few to hold some of them out."
    order = random_generator(seed).permutation(len(subject.X))[:_MOST_SAMPLES]
    n_held_out = int(len(order) * _HELD_OUT)
    unseen, seen = subject.X[order[:n_held_out]], subject.X[order[n_held_out:]]
    found = Quality([], len(seen), n_held_out, [])
    for estimator in _entrants(subject.model):
        try:
            found.contestants.append(_judge(estimator, seen, unseen, seed))
        except ValueError as error:
            found.failures.append(f"{type(estimator).__name__} could not be fitted: {error}.")
    return found if found.contestants else " ".join(found.failures)


def _entrants(model: Any) -> list[Any]:
    rivals = [GaussianKDE(n_jobs=model.n_jobs), GaussianMixtureBIC(n_jobs=model.n_jobs)]
    return [clone(model), *(each for each in rivals if type(each) is not type(model))]


def _judge(estimator: Any, seen: np.ndarray, unseen: np.ndarray, seed: int) -> Contestant:
    density = estimator.fit(seen).density_
    scores = density.logpdf(unseen, estimator.n_jobs)
    own = density.logpdf(density.sample(_N_DRAWS, random_state=seed), estimator.n_jobs)
    denser = 1 - np.searchsorted(np.sort(own), scores, side="right") / len(own)
    return Contestant(
        name=type(estimator).__name__,
        scores=scores,
        calibration=calibration_error(own, scores, random_state=seed),
        covered=np.searchsorted(np.sort(denser), _MASSES, side="right") / len(scores),
    )


def quality_html(found: Quality) -> Html:
    """Return the section of quality."""
    first = found.contestants[0]
    rows = [
        (
            each.name,
            estimate_of(mean_log_likelihood(each.scores)),
            NOTHING if each is first else estimate_of(_difference(each.scores, first.scores)),
            estimate_of(each.calibration),
        )
        for each in found.contestants
    ]
    headings = ["estimator", "held-out log density", f"less {first.name}'s", "calibration error"]
    return fill(
        "quality.html",
        n_seen=f"{found.n_seen:,}",
        n_held_out=f"{found.n_held_out:,}",
        table=table("Held-out samples, mean ± standard error; higher is better", headings, rows),
        failures=" ".join(found.failures),
    )


def _difference(scores: np.ndarray, others: np.ndarray) -> Estimate:
    with np.errstate(invalid="ignore"):  # both may be minus infinity
        gaps = scores - others
    return Estimate(*mean_with_error(gaps), len(gaps))


def quality_data(found: Quality) -> dict[str, Any]:
    """Return the calibration curves, with what chance alone makes of a perfect one."""
    chance = 1.96 * np.sqrt(_MASSES * (1 - _MASSES) / found.n_held_out)
    return {
        "masses": _MASSES,
        "lower": np.maximum(_MASSES - chance, 0),
        "upper": np.minimum(_MASSES + chance, 1),
        "curves": [{"name": each.name, "covered": each.covered} for each in found.contestants],
    }
