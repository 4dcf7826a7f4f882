"""Log densities of samples by fits that have not seen them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ..estimators.base import cloned_fit, inner_fits
from ..folds import N_FOLDS, hold_out, mixed_generator
from ..progress import step
from ..validation import random_generator
from .subject import Subject

#: Up to this many samples are held out in the folds of DensityOutlierDetector; more are halved.
_MAX_IN_FOLDS = 3000
#: Samples of a half to which the other half is compared: mixtures of more take seconds.
_MAX_TRAIN = 3000
#: Draws of every fit, by which the probabilities of regions are estimated.
_N_DRAWS = 2000


class Fold(NamedTuple):
    """The samples of a fit, and those that are scored by it."""

    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Log densities of samples by fits of one estimator to other samples."""

    #: NaN for samples that were not scored.
    log_densities: np.ndarray
    #: The same of the measured features alone; see :func:`measured_features`.
    measured: np.ndarray
    #: The share of the fit's own draws at which this is higher, NaN if the fit cannot be sampled.
    probabilities: np.ndarray
    #: The number of draws of all fits.
    n_draws: int


def make_folds(X: np.ndarray, seed: int) -> list[Fold]:
    """Return folds that hold out every sample once.

    Few samples are in five folds, those of :class:`~sevenhills.DensityOutlierDetector`. Many are
    halved, and each half is scored by a fit to some samples of the other one.
    """
    if len(X) <= _MAX_IN_FOLDS:
        order = np.lexsort(X.T[::-1])
        held = hold_out(np.ones(len(X)), N_FOLDS, mixed_generator(seed, X[order]))
        return [Fold(order[each == 0], order[each > 0]) for each in held]
    order = random_generator(seed).permutation(len(X))
    first, second = order[: len(X) // 2], order[len(X) // 2 :]
    return [Fold(a[:_MAX_TRAIN], b) for a, b in ((first, second), (second, first))]


def describe_folds(folds: Sequence[Fold]) -> str:
    """Return a sentence on the samples of the fits, and those that are scored by them."""
    if len(folds) == N_FOLDS:
        return "Every sample was scored by a fit without it and the others of its fifth."
    n_train = f"{len(folds[0].train):,}"
    return f"The samples were halved, and each half was scored by a fit to {n_train} of the other."


def measured_features(subject: Subject) -> list[int]:
    """Return the features whose log densities are compared: all but those of few values.

    The density of a feature of few values may be as high as its kernels are narrow. All features
    are compared if there are no others, or if the density has no marginals.
    """
    everything = list(range(len(subject.names)))
    measured = [j for j in everything if j not in subject.few_values]
    return measured if measured and subject.mixture is not None else everything


def score_held_out(
    estimator: Any,
    subject: Subject,
    folds: Sequence[Fold],
    seed: int,
    n_tested: int | None = None,
    scale: np.ndarray | float = 1.0,
) -> HeldOut:
    """Fit an estimator without every fold, and score the fold, or ``n_tested`` samples of it.

    It is fitted to features that are divided by ``scale``; log densities are those of the features.
    """
    X, features = np.asarray(subject.X) / scale, measured_features(subject)
    log_scale = np.broadcast_to(np.log(scale), X.shape[1])
    fit = cloned_fit(estimator, subject.names)
    scores, measured, probabilities = np.full((3, len(X)), np.nan)
    n_draws = 0
    for i, fold in enumerate(folds):
        rows = fold.test[:n_tested]
        task = step(f"{type(estimator).__name__}, fold {i + 1}", i, len(folds))
        # Threads of k-means that wait for each other cost CPU time in small fits.
        with task, inner_fits(), threadpool_limits(1, "openmp"):
            density = fit(X[fold.train], None).density_
        scores[rows] = measured[rows] = density.logpdf(X[rows], subject.n_jobs)
        if len(features) < X.shape[1]:
            density = density.marginal(features)
            measured[rows] = density.logpdf(X[rows][:, features], subject.n_jobs)
        if density.is_normalized:
            # The draws of folds are independent, so that their errors cancel.
            draws = density.sample(_N_DRAWS, random_state=seed + i)
            own = np.sort(density.logpdf(draws, subject.n_jobs))
            probabilities[rows] = 1 - np.searchsorted(own, measured[rows], side="right") / _N_DRAWS
            n_draws += _N_DRAWS
    scores -= log_scale.sum()
    measured -= log_scale[features].sum()
    return HeldOut(scores, measured, probabilities, n_draws)
