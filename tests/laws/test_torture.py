"""What careful users expect, for every estimator; and that what is wrong is found out."""

import os
import random
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array

from .torture import CASES, EXCEPTIONS, OURS, PEERS, Subject, run, why_not
from .torture.checks import Failed, check
from .torture.subjects import THINGS

SUBJECTS = (*OURS, *PEERS)
#: One of every class, but for those whose fits take longest; the slow tests have them all.
CLASSES = tuple(
    subject
    for subject in {type(subject.make()): subject for subject in reversed(OURS)}.values()
    if subject.name not in ("AutoROME()", "KernelDensityCV()")
)
#: Arrays are taken in by the base class, which compat.ROME does without.
TAKING = tuple(subject for subject in CLASSES if subject.name in ("ROME()", "compat.ROME()"))


def subjects_of(case):
    """Return ROME, compat.ROME and every second of the other classes, in turn from case to case."""
    if case.group == "array kinds":
        return TAKING
    turn = list(CASES).index(case.name) % 2
    others = [subject for subject in CLASSES if subject not in TAKING]
    return (*TAKING, *others[turn::2])


#: These cases start a process, as ``test_other_processes`` does for the same promise.
IN_A_PROCESS = (
    "another process with other hashes gives the same bits",
    "importing and fitting print nothing in a fresh process",
)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if name in IN_A_PROCESS else [], id=name)
        for name, case in CASES.items()
    ],
)
def test_case(case):
    meet(case, subjects_of(case))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_case_of_other_settings(case):
    meet(case, [subject for subject in OURS if subject not in subjects_of(case)])


def meet(case, subjects):
    """Demand a case of several subjects: thousands of tests take longer than what is in them."""
    errors = []
    for subject in subjects:
        if why_not(case, subject) is None:
            try:
                run(case, subject)
            except Exception as error:
                error.add_note(f"by {subject.name}")
                errors.append(error)
    if errors:
        raise ExceptionGroup(case.name, errors)


def test_there_are_many_cases():
    check(len(CASES) >= 170, f"there are only {len(CASES)} cases")
    check(len({case.group for case in CASES.values()}) == 10, "some groups are missing")


def test_exceptions_name_cases_and_subjects():
    subjects = {subject.name: subject for subject in SUBJECTS}
    for (case, subject), reason in EXCEPTIONS.items():
        check(case in CASES, f"there is no case {case!r}")
        check(subject in subjects, f"there is no subject {subject!r}")
        check(len(reason) > 10, f"no reason is given for {case!r}")
        lacking = [thing for thing in CASES[case].needs if not subjects[subject].can(thing)]
        check(not lacking, f"{subject!r} lacks {lacking}; it need not be excepted from {case!r}")


@pytest.mark.parametrize("subject", OURS, ids=[subject.name for subject in OURS])
def test_no_exception_is_idle(subject):
    for case, name in EXCEPTIONS:
        if name == subject.name:
            with pytest.raises(AssertionError):
                run(CASES[case], subject)


def test_what_is_needed_and_lacked_is_known():
    for case in CASES.values():
        check(set(case.needs) <= THINGS.keys(), f"{case.name!r} needs the unknown: {case.needs}")
    for subject in SUBJECTS:
        unknown = subject.lacks.keys() - THINGS.keys()
        check(not unknown, f"{subject.name!r} lacks the unknown: {unknown}")


def test_what_is_recommended_offers_nearly_everything():
    for subject in OURS:
        if subject.name in ("ROME()", "AutoROME()"):
            reasons = [why_not(case, subject) for case in CASES.values()]
            check(sum(reason is not None for reason in reasons) <= 4, f"{subject.name} lacks a lot")


class Plain:
    """Round kernels of width one: as little as can be right."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, sample_weight=None):
        X, weights = self._check(X).copy(), self._weights(X, sample_weight)
        if not isinstance(self.scale, float) or not 0 < self.scale < np.inf:
            raise ValueError(f"scale must be a positive number, got {self.scale!r}")
        self._learn(X[weights > 0], weights[weights > 0])
        return self

    def _check(self, X):
        if isinstance(X, np.ma.MaskedArray):
            raise TypeError("X is a masked array")
        return check_array(X, dtype=np.float64)

    def _weights(self, X, sample_weight):
        if sample_weight is None or np.ndim(sample_weight) == 0:
            return np.ones(len(X))
        weights = np.asarray(sample_weight, dtype=float)
        if weights.shape != (len(X),) or not (weights >= 0).all() or not weights.any():
            raise ValueError("sample_weight must not be negative, one for each sample")
        return weights

    def _learn(self, X, weights):
        self.X_, self.weights_ = X, weights / weights.sum()

    def score_samples(self, X):
        if not hasattr(self, "X_"):
            raise NotFittedError("not fitted")
        X = self._check(X)
        if X.shape[1] != self.X_.shape[1]:
            raise ValueError("X has another number of features")
        with np.errstate(over="ignore"):
            squares = (((X[:, None] - self.X_) / self.scale) ** 2).sum(axis=-1)
        constant = X.shape[1] * np.log(self.scale * np.sqrt(2 * np.pi))
        return logsumexp(np.log(self.weights_) - 0.5 * squares, axis=1) - constant

    def sample(self, n_samples=1, random_state=None):
        rng = np.random.RandomState(random_state) if _is_seed(random_state) else random_state
        rows = rng.choice(len(self.X_), n_samples, p=self.weights_)
        return self.X_[rows] + self.scale * rng.standard_normal((n_samples, self.X_.shape[1]))


def _is_seed(random_state):
    return random_state is None or isinstance(random_state, int)


class KeepsTheSamples(Plain):
    def _check(self, X):
        return X if isinstance(X, np.ndarray) and X.dtype == float else super()._check(X)

    def fit(self, X, sample_weight=None):
        super().fit(X, sample_weight)
        self.X_ = self._check(X)
        return self


class WritesToTheSamples(Plain):
    def fit(self, X, sample_weight=None):
        super().fit(X, sample_weight)
        X -= X.mean(axis=0)
        return self


class WrapsSmallIntegers(Plain):
    def fit(self, X, sample_weight=None):
        super().fit(X, sample_weight)
        if getattr(X, "dtype", None) == np.uint8:
            self.X_ = (X - X[0]).astype(float) + X[0]
        return self


class IsLostFarAway(Plain):
    def score_samples(self, X):
        logs = super().score_samples(X)
        return np.where(np.isneginf(logs), np.nan, logs)


class WarnsFarAway(Plain):
    def score_samples(self, X):
        logs = super().score_samples(X)
        if np.isneginf(logs).any():
            warnings.warn("overflow", RuntimeWarning, stacklevel=2)
        return logs


class UsesTheGlobalGenerator(Plain):
    def sample(self, n_samples=1, random_state=None):
        return super().sample(n_samples, np.random.mtrand._rand)


class UsesPythonsGenerator(Plain):
    def fit(self, X, sample_weight=None):
        random.random()
        return super().fit(X, sample_weight)


class ReseedsItself(Plain):
    def sample(self, n_samples=1, random_state=None):
        return super().sample(n_samples, 0 if random_state is None else random_state)


class DrawsSamples(Plain):
    def sample(self, n_samples=1, random_state=None):
        draws = super().sample(n_samples, random_state)
        nearest = ((draws[:, None] - self.X_) ** 2).sum(axis=-1).argmin(axis=1)
        return self.X_[nearest]


class Asserts(Plain):
    def _check(self, X):
        if not np.isfinite(np.asarray(X, dtype=float)).all():
            raise AssertionError("X must be finite")
        return super()._check(X)


class TakesNaN(Plain):
    def _check(self, X):
        return np.asarray(X, dtype=float)


class Prints(Plain):
    def fit(self, X, sample_weight=None):
        print("fitting")
        return super().fit(X, sample_weight)


class ForgetsAtAFailure(Plain):
    def fit(self, X, sample_weight=None):
        self.X_ = np.zeros((1, 2))
        self.weights_ = np.ones(1)
        return super().fit(X, sample_weight)


class SwallowsInterrupts(Plain):
    def fit(self, X, sample_weight=None):
        try:
            return super().fit(X, sample_weight)
        except KeyboardInterrupt:
            return self


class LikesItsFirstRow(Plain):
    def _learn(self, X, weights):
        weights[0] *= 2
        super()._learn(X, weights)


class HasNoUnit(Plain):
    def score_samples(self, X):
        return super().score_samples(X) + 0.1


class SharesItsAnswers(Plain):
    def score_samples(self, X):
        logs = super().score_samples(X)
        self._last = getattr(self, "_last", {})
        return self._last.setdefault(np.asarray(X, dtype=float).tobytes(), logs)


class IgnoresWeights(Plain):
    def _weights(self, X, sample_weight):
        return np.ones(len(X))


class LearnsUnknownScales(Plain):
    def fit(self, X, sample_weight=None):
        kept, self.scale = self.scale, 1.0
        super().fit(X, sample_weight)
        self.scale = kept
        return self


#: Estimators with one fault each, and a case that must find it.
FAULTS = [
    (KeepsTheSamples, "samples given as rows may be changed after the fit"),
    (WritesToTheSamples, "samples given as rows are not written to"),
    (WrapsSmallIntegers, "samples may come as unsigned integers of 8 bits"),
    (IsLostFarAway, "queries at 1e300 are no NaN"),
    (WarnsFarAway, "queries at 1e300 are no NaN"),
    (UsesTheGlobalGenerator, "seven samples can be drawn"),
    (UsesPythonsGenerator, "fit returns the estimator"),
    (ReseedsItself, "without a seed draws differ from call to call"),
    (DrawsSamples, "draws are no copies of the samples, nor of each other"),
    (Asserts, "fit refuses NaN in the last place"),
    (TakesNaN, "fit refuses NaN in the last place"),
    (TakesNaN, "a query refuses infinity"),
    (Prints, "fit returns the estimator"),
    (ForgetsAtAFailure, "a refit that is refused for samples with NaN keeps the old model"),
    (ForgetsAtAFailure, "a refused first fit leaves the estimator unfitted"),
    (
        SwallowsInterrupts,
        "an interrupt in the first half of a refit is passed on and keeps the old model",
    ),
    (LikesItsFirstRow, "the order of the rows does not matter (shuffled)"),
    (HasNoUnit, "the density integrates to one"),
    (SharesItsAnswers, "writing to an answer changes no later answer"),
    (IgnoresWeights, "whole weights are repetitions"),
    (IgnoresWeights, "weights refuse a negative number by name"),
    (LearnsUnknownScales, "every parameter refuses a word by its name"),
]


@pytest.mark.parametrize(("faulty", "name"), FAULTS, ids=[f"{f.__name__}: {n}" for f, n in FAULTS])
def test_a_fault_is_found_out(faulty, name):
    run(CASES[name], Subject("plain", Plain))
    with pytest.raises((AssertionError, ValueError, TypeError)):
        run(CASES[name], Subject("faulty", faulty))


def test_what_compiled_code_prints_is_found_out():
    class PrintsFromC(Plain):
        def fit(self, X, sample_weight=None):
            os.write(2, b"fitting\n")
            return super().fit(X, sample_weight)

    with pytest.raises(Failed, match="fitting"):
        run(CASES["fit returns the estimator"], Subject("faulty", PrintsFromC))
