"""Checks of arguments that all metrics share."""

import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn.neighbors import KernelDensity

from sevenhills.metrics import (
    UnnormalizedWarning,
    calibration_error,
    energy_distance,
    energy_test,
    jensen_shannon,
    mean_log_likelihood,
    permutation_test,
    wasserstein,
    wasserstein_indicator,
)

from .gaussians import STANDARD, Answer, Gaussian, X, Y


def figures(random_state):
    other = Gaussian([0.5, 0.0])
    return [
        jensen_shannon(STANDARD, other, n_samples=50, random_state=random_state),
        wasserstein_indicator(other, X, Y, random_state=random_state),
        calibration_error(other, X, n_samples=50, random_state=random_state),
    ]


def test_random_state():
    first, again = figures(7), figures(7)
    assert first == again
    assert [e.std_error for e in first] == [e.std_error for e in again]
    assert all(a != b for a, b in zip(first, figures(8), strict=True))
    assert all(a != b for a, b in zip(figures(None), figures(None), strict=True))
    generators = [np.random.default_rng(0), np.random.RandomState(0)]
    assert all(math.isfinite(e) for generator in generators for e in figures(generator))
    with pytest.raises(TypeError, match="random_state"):
        figures("seed")


def test_what_needs_no_drawing_is_the_same_every_time():
    own = STANDARD.score_samples(Y)
    for metric, arguments in (
        (wasserstein_indicator, (Y + 1, X, Y)),
        (calibration_error, (own, STANDARD.score_samples(X))),
    ):
        first, again = metric(*arguments), metric(*arguments)
        assert (first, first.std_error) == (again, again.std_error)


def test_any_object_with_logpdf_will_do():
    p, q = multivariate_normal([0.0, 0.0]), multivariate_normal([1.0, 0.0])
    expected = jensen_shannon(STANDARD, Gaussian([1.0, 0.0]), X, Y)
    assert_allclose(jensen_shannon(p, q, X, Y), expected)
    assert_allclose(mean_log_likelihood(p, X), mean_log_likelihood(STANDARD, X))
    assert_allclose(mean_log_likelihood(p, X[:1]), mean_log_likelihood(STANDARD, X[:1]))
    assert_allclose(mean_log_likelihood(norm(), X[:, :1]), norm().logpdf(X[:, 0]).mean())


@pytest.mark.parametrize(
    "frame", [lambda x: pd.DataFrame(x, columns=["a", "b"]), lambda x: pl.DataFrame(x, ["a", "b"])]
)
def test_frames(frame):
    """Without a warning about the names of features, whoever has them and whoever has not."""
    named, plain = KernelDensity().fit(frame(X)), KernelDensity().fit(X)
    A, B = frame(X), frame(Y)
    assert jensen_shannon(named, STANDARD, A, B) == jensen_shannon(plain, STANDARD, X, Y)
    assert jensen_shannon(named, plain, A, B) == 0
    assert jensen_shannon(named, plain, random_state=0) == 0
    assert mean_log_likelihood(named, A) == mean_log_likelihood(plain, A)
    assert wasserstein(A, B) == wasserstein(X, Y)
    assert wasserstein_indicator(frame(Y + 1), A, B) == wasserstein_indicator(Y + 1, X, Y)
    assert calibration_error(named, A, random_state=0) == calibration_error(
        plain, X, random_state=0
    )
    column = A["a"]
    assert mean_log_likelihood(column) == X[:, 0].mean()
    narrow = frame(X)[["a"]]
    with pytest.raises(ValueError, match="X has 1 features, but KernelDensity is expecting 2"):
        mean_log_likelihood(plain, narrow)
    with pytest.raises(ValueError, match="Y has 1 features, but X has 2"):
        wasserstein(A, narrow)


def test_unnormalized_densities_are_warned_of():
    loose = Gaussian()
    loose.is_normalized = False
    message = r"\(Gaussian\) does not integrate to one"
    calls = [
        lambda: jensen_shannon(loose, STANDARD, X),
        lambda: jensen_shannon(STANDARD, loose, X),
        lambda: mean_log_likelihood(loose, X),
    ]
    for call, name in zip(calls, "pqp", strict=True):
        with pytest.warns(UnnormalizedWarning, match=f"{name} {message}") as record:
            call()
        assert len(record) == 1
        assert record[0].filename == __file__
    loose.is_normalized = True
    for call in calls:
        call()


WIDE = np.zeros((5, 3))
SAMPLE_METRICS = {
    "jensen_shannon X": lambda bad: jensen_shannon(STANDARD, STANDARD, bad),
    "jensen_shannon Y": lambda bad: jensen_shannon(STANDARD, STANDARD, X, bad),
    "mean_log_likelihood X": lambda bad: mean_log_likelihood(STANDARD, bad),
    "wasserstein X": lambda bad: wasserstein(bad, Y),
    "wasserstein Y": lambda bad: wasserstein(X, bad),
    "wasserstein_indicator p": lambda bad: wasserstein_indicator(bad, X, Y),
    "wasserstein_indicator X": lambda bad: wasserstein_indicator(STANDARD, bad, Y),
    "wasserstein_indicator Y": lambda bad: wasserstein_indicator(STANDARD, X, bad),
    "calibration_error X": lambda bad: calibration_error(STANDARD, bad),
    "energy_distance X": lambda bad: energy_distance(bad, Y),
    "energy_distance Y": lambda bad: energy_distance(X, bad),
    "energy_test X": lambda bad: energy_test(bad, Y),
    "permutation_test Y": lambda bad: permutation_test(energy_distance, X, bad),
}


@pytest.mark.parametrize("where", SAMPLE_METRICS)
@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (np.empty((0, 2)), "0 sample"),
        (np.empty((3, 0)), "0 feature"),
        (np.zeros(5), "2D array"),
        (np.zeros((2, 2, 2)), "dim 3"),
        (np.array([[0.0, np.nan]]), "NaN"),
        (np.array([[0.0, -np.inf]]), "infinity"),
        (np.array([["a", "b"]]), "has words in column 0"),
    ],
    ids=["empty", "no features", "1-D", "3-D", "NaN", "infinite", "words"],
)
def test_bad_samples_are_named(where, bad, problem):
    name = where.split()[1]
    with pytest.raises(ValueError, match=f"^{name} must hold samples(.|\n)*{problem}"):
        SAMPLE_METRICS[where](bad)


@pytest.mark.parametrize("where", SAMPLE_METRICS)
def test_masked_samples_are_refused(where):
    with pytest.raises(TypeError, match=f"^{where.split()[1]} is a masked array"):
        SAMPLE_METRICS[where](np.ma.masked_equal(X, 0.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jensen_shannon(STANDARD, STANDARD, X, WIDE), "Y has 3 features, but X has 2"),
        (lambda: wasserstein(X, WIDE), "Y has 3 features, but X has 2"),
        (lambda: energy_distance(X, WIDE), "Y has 3 features, but X has 2"),
        (lambda: energy_test(X, WIDE), "Y has 3 features, but X has 2"),
        (lambda: permutation_test(wasserstein, X, WIDE), "Y has 3 features, but X has 2"),
        (lambda: wasserstein_indicator(STANDARD, X, WIDE), "Y has 3 features, but X has 2"),
        (lambda: wasserstein_indicator(WIDE, X, Y), "p has 3 features, but X has 2"),
        (
            lambda: wasserstein_indicator(Gaussian([0.0] * 3), X, Y),
            "the sample of p has 3 features, but X has 2",
        ),
        (
            lambda: jensen_shannon(STANDARD, Gaussian([0.0] * 3), n_samples=4),
            "the sample of q has 3 features, but the sample of p has 2",
        ),
        (
            lambda: calibration_error(KernelDensity().fit(X), WIDE),
            "X has 3 features, but KernelDensity is expecting 2 features as input.",
        ),
    ],
)
def test_widths_that_do_not_match(call, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        call()


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "plus infinity")])
def test_bad_log_densities_are_located(bad, word):
    values = np.zeros(60)
    values[[7, 9]] = bad
    broken = Answer(values)
    for call, who in (
        (lambda: mean_log_likelihood(broken, X), "p"),
        (lambda: jensen_shannon(broken, STANDARD, X), "p"),
        (lambda: jensen_shannon(STANDARD, broken, X), "q"),
    ):
        where = rf"{who} \(Answer\) gives {word} at 2 of 60 points, first in row 7 of X"
        with pytest.raises(ValueError, match=f"^{where}$"):
            call()
    for call, who in (
        (lambda: mean_log_likelihood(values), "p"),
        (lambda: jensen_shannon(np.zeros(60), values), "q"),
        (lambda: calibration_error(np.zeros(5), values), "X"),
        (lambda: calibration_error(values, np.zeros(5)), "p"),
    ):
        where = f"{who} contains {word} at 2 of 60 points, first in row 7"
        with pytest.raises(ValueError, match=f"^{where}$"):
            call()
    with pytest.raises(ValueError, match=f"^p contains {word} at 2 of 120 points, first in row 7$"):
        calibration_error(np.stack([np.zeros(60), values], axis=1), np.zeros(60))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jensen_shannon(object(), STANDARD), TypeError, "p must have score_samples"),
        (lambda: jensen_shannon(STANDARD, None), TypeError, "q must have score_samples"),
        (lambda: mean_log_likelihood(Gaussian, X), TypeError, "got the class Gaussian"),
        (lambda: mean_log_likelihood("text", X), TypeError, "p must have score_samples"),
        (lambda: calibration_error(3.0, X), TypeError, "p must have score_samples"),
        (lambda: jensen_shannon(STANDARD, [0.0]), TypeError, "p and q must both be"),
        (lambda: jensen_shannon([0.0], STANDARD), TypeError, "p and q must both be"),
        (lambda: jensen_shannon([0.0], [0.0], X), ValueError, "X and Y must be None"),
        (lambda: jensen_shannon([0.0], [0.0], None, Y), ValueError, "X and Y must be None"),
        (lambda: jensen_shannon([0.0], [0.0, 1.0]), ValueError, "same length, got 1 and 2"),
        (lambda: jensen_shannon([], []), ValueError, "p must be a 1-D array"),
        (lambda: jensen_shannon([0.0], [[0.0]]), ValueError, "q must be a 1-D array"),
        (lambda: jensen_shannon([0.0], ["a"]), TypeError, "q must be an array of numbers"),
        (lambda: jensen_shannon(STANDARD, STANDARD, None, Y), ValueError, "X is missing"),
        (lambda: mean_log_likelihood([0.0], X), ValueError, "X must be None"),
        (lambda: mean_log_likelihood(STANDARD), TypeError, "X is missing"),
        (lambda: mean_log_likelihood(Answer([0.0, 1.0]), X), ValueError, r"got shape \(2,\)"),
        (lambda: mean_log_likelihood(np.ma.array([0.0])), TypeError, "p is a masked array"),
        (lambda: calibration_error([0.0], X), ValueError, "X must be a 1-D array"),
        (lambda: calibration_error(WIDE, np.zeros(4)), ValueError, "one row for each of the 4"),
        (lambda: calibration_error(np.zeros((1, 1, 1)), [0.0]), ValueError, "1-D or 2-D array"),
        (lambda: calibration_error(Answer([0.0]), X), TypeError, r"p \(Answer\) must have sample"),
        (lambda: jensen_shannon(STANDARD, Answer([0.0])), TypeError, r"q \(Answer\) must have sam"),
        (lambda: wasserstein_indicator(object(), X, Y), TypeError, "p .object. must have sample"),
        (lambda: wasserstein_indicator(Gaussian, X, Y), TypeError, "must have sample"),
        (lambda: jensen_shannon(STANDARD, STANDARD, n_samples=0), ValueError, "n_samples must"),
        (lambda: calibration_error(STANDARD, X, n_samples=-1), ValueError, "n_samples must"),
        (lambda: wasserstein_indicator(STANDARD, X, Y, n_samples=0), ValueError, "n_samples must"),
        (lambda: wasserstein_indicator(STANDARD, X, Y, n_samples=2.5), TypeError, "n_samples must"),
        (lambda: energy_test(X, Y, n_permutations=0), ValueError, "n_permutations must"),
        (lambda: energy_test(X, Y, n_permutations="9"), TypeError, "must be a whole"),
        (lambda: permutation_test(lambda *_: np.nan, X, Y), ValueError, "the statistic is NaN"),
        (
            lambda: permutation_test(wasserstein, X, Y, max_exceedances=0),
            ValueError,
            "max_exceedances must",
        ),
    ],
)
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_samples_of_a_broken_density_are_checked():
    class Broken(Gaussian):
        def sample(self, n_samples, random_state):
            return np.full((n_samples, 2), np.nan)

    with pytest.raises(ValueError, match=r"the sample of p must hold samples(.|\n)*NaN"):
        jensen_shannon(Broken(), STANDARD)


def test_without_pot_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    message = r"^wasserstein needs POT; install it with: pip install 'sevenhills\[ot\]'$"
    with pytest.raises(ImportError, match=message):
        wasserstein([[0.0]], [[1.0]])
    with pytest.raises(ImportError, match=message):
        wasserstein_indicator([[0.0]], [[1.0]], [[2.0]])
    assert jensen_shannon([0.0], [0.0]) == 0


def test_inputs_are_left_as_they_were():
    first, second, own = X.copy(), Y.copy(), STANDARD.score_samples(Y)
    kept = own.copy()
    wasserstein(first, second)
    wasserstein_indicator(STANDARD, first, second, random_state=0)
    calibration_error(own, STANDARD.score_samples(X))
    jensen_shannon(own, own[::-1])
    assert_array_equal(first, X)
    assert_array_equal(second, Y)
    assert_array_equal(own, kept)
