import copy
import math
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import energy_distance as energy_on_a_line
from scipy.stats import multivariate_normal, norm, ttest_1samp, wasserstein_distance
from sklearn.neighbors import KernelDensity

from sevenhills.extras import import_extra
from sevenhills.metrics import (
    Estimate,
    UnnormalizedWarning,
    calibration_error,
    divergence_from_truth,
    energy,
    energy_distance,
    energy_test,
    jensen_shannon,
    likelihood_factor,
    mean_log_likelihood,
    over_runs,
    permutation_test,
    transport,
    wasserstein,
    wasserstein_indicator,
)

from .strategies import samples


class Gaussian:
    """A round Gaussian that knows nothing but what the metrics ask for."""

    def __init__(self, mean=(0.0, 0.0), scale=1.0):
        self.mean, self.scale = np.asarray(mean, dtype=float), scale

    def score_samples(self, X):
        steps = (X - self.mean) / self.scale
        constant = len(self.mean) * (0.5 * np.log(2 * np.pi) + np.log(self.scale))
        return -0.5 * (steps**2).sum(axis=1) - constant

    def sample(self, n_samples, random_state):
        return self.mean + self.scale * random_state.standard_normal((n_samples, len(self.mean)))


class TwoBlobs(Gaussian):
    def sample(self, n_samples, random_state):
        side = np.where(random_state.uniform(size=(n_samples, 1)) < 0.5, -4.0, 4.0)
        return super().sample(n_samples, random_state) + side * np.array([1.0, 0.0])


class Answer:
    """A density that answers with what it was given."""

    def __init__(self, answer, **attributes):
        self.answer = np.asarray(answer, dtype=float)
        vars(self).update(attributes)

    def logpdf(self, X):
        return self.answer


def draws(density, n, seed):
    return density.sample(n, random_state=np.random.RandomState(seed))


def error_over_spread(estimates):
    """The standard error that was claimed, over the one that repetitions show."""
    claimed = np.sqrt(np.mean([e.std_error**2 for e in estimates]))
    return claimed / np.std(estimates, ddof=1)


STANDARD = Gaussian()
X, Y = draws(STANDARD, 60, 0), draws(STANDARD, 50, 1)


# Estimates


def test_an_estimate_is_a_float_with_an_error():
    figure = Estimate(0.01031, 0.0004, 6000)
    assert isinstance(figure, float)
    assert (figure.std_error, figure.n) == (0.0004, 6000)
    assert figure == 0.01031
    assert hash(figure) == hash(0.01031)
    assert {figure: 1}[0.01031] == 1
    assert type(figure + 1) is float
    assert f"{figure:.3f}" == "0.010"
    assert_allclose(figure.interval(), 0.01031 + np.array([-1, 1]) * 1.959964 * 0.0004, rtol=1e-6)
    assert_allclose(figure.interval(0.5), 0.01031 + np.array([-1, 1]) * 0.6744898 * 0.0004)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.01031, 0.0004, "0.0103 ± 0.0004"),
        (0.01031, 0.00014, "0.01031 ± 0.00014"),
        (-12.346, 0.2, "-12.3 ± 0.2"),
        (1234.0, 250.0, "1234 ± 250"),
        (2.0, 0.0, "2 ± 0"),
        (0.5, math.nan, "0.5"),
        (-math.inf, math.nan, "-inf"),
        (3e-20, 1e-21, "3e-20 ± 1e-21"),
        (1.5, math.inf, "1.5"),
    ],
)
def test_an_estimate_shows_as_many_digits_as_it_knows(value, error, text):
    assert repr(Estimate(value, error)) == str(Estimate(value, error)) == text
    assert f"{Estimate(value, error)}" == text


@pytest.mark.parametrize(
    "figure",
    [Estimate(1.5, 0.1, 7), over_runs([1.0, 2.0, 4.0]), likelihood_factor([1.0, 2.0], [0.5, 1.8])],
)
def test_an_estimate_survives_pickling_and_copying_and_cannot_be_changed(figure):
    for twin in (pickle.loads(pickle.dumps(figure)), copy.copy(figure), copy.deepcopy(figure)):
        assert type(twin) is type(figure)
        assert twin == figure
        for name in ("std_error", "n", "p_value", "std"):
            assert getattr(twin, name, None) == getattr(figure, name, None)
    for name in ("std_error", "n", "other"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(figure, name, 1)
    with pytest.raises(AttributeError, match="cannot be changed"):
        del figure.n


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, math.nan])
def test_confidence_is_a_probability(confidence):
    with pytest.raises(ValueError, match="confidence"):
        Estimate(1.0, 0.1).interval(confidence)


def test_over_runs():
    figure = over_runs([0.011, 0.013, 0.012, 0.016])
    assert_allclose(figure, 0.013)
    assert_allclose(figure.std, np.std([0.011, 0.013, 0.012, 0.016], ddof=1))
    assert_allclose(figure.std_error, figure.std / 2)
    assert figure.n == 4
    single = over_runs([3.0])
    assert single == 3
    assert math.isnan(single.std)
    assert over_runs([1.0, -np.inf]) == -np.inf
    with pytest.raises(ValueError, match="NaN in 2 of 3 runs, first in run 1"):
        over_runs([1.0, np.nan, np.nan])
    for bad in ([], [[1.0]], 3.0):
        with pytest.raises(ValueError, match="values must be one figure for each run"):
            over_runs(bad)
    with pytest.raises(TypeError, match="values must be an array of numbers"):
        over_runs(["a"])


# Jensen-Shannon divergence

log_densities = st.one_of(
    st.just(-math.inf),
    st.floats(-30, 30),
    st.floats(-1e308, 1e308),
)


def literal_divergence(log_p, log_q):
    total = 0.0
    for first, second in zip(log_p, log_q, strict=True):
        top = max(first, second)
        if top == -math.inf:
            continue
        p, q = math.exp(first - top), math.exp(second - top)
        for density in (p, q):
            share = density / (p + q)
            total += share * math.log(2 * share) if share > 0 else 0.0
    return total / (len(log_p) * math.log(2))


@given(st.lists(st.tuples(log_densities, log_densities), min_size=1, max_size=30))
def test_divergence_of_arrays_equals_the_formula(pairs):
    log_p, log_q = np.array(pairs).T
    found = jensen_shannon(log_p, log_q)
    assert_allclose(found, literal_divergence(log_p, log_q), rtol=1e-10, atol=1e-13)
    assert 0 <= found <= 1
    assert found == jensen_shannon(log_q, log_p) == divergence_from_truth(log_p, log_q)
    assert jensen_shannon(log_p, log_p) == 0
    assert found.n == len(pairs)


def test_points_that_one_density_or_both_exclude():
    none = [-np.inf, -np.inf]
    assert jensen_shannon(none, [1.0, 2.0]) == 1
    assert jensen_shannon(none, none) == 0
    assert jensen_shannon([-np.inf, 0.0], [-np.inf, -np.inf]) == 0.5


@pytest.mark.parametrize(("shift", "scale"), [(0.5, 1.0), (2.0, 1.0), (0.0, 3.0), (1.0, 0.2)])
def test_divergence_of_gaussians_equals_the_integral(shift, scale):
    p, q = Gaussian([0.0]), Gaussian([shift], scale)
    first, second = norm(0, 1), norm(shift, scale)

    def integrand(x):
        mean = (first.pdf(x) + second.pdf(x)) / 2
        terms = [d.pdf(x) * (d.logpdf(x) - np.log(mean)) for d in (first, second)]
        return sum(terms) / (2 * np.log(2))

    expected = quad(integrand, -12, 12, points=[0, shift], limit=200)[0]
    found = jensen_shannon(p, q, n_samples=40_000, random_state=0)
    assert found.n == 80_000
    assert found.std_error < 0.004
    assert abs(found - expected) < 4 * found.std_error
    swapped = jensen_shannon(q, p, n_samples=40_000, random_state=1)
    assert abs(swapped - expected) < 4 * swapped.std_error


def test_divergence_between_its_limits():
    far = Gaussian([1e3, 0.0])
    assert jensen_shannon(STANDARD, far, random_state=0) == 1
    assert jensen_shannon(STANDARD, far, X, X + far.mean).std_error == 0
    assert jensen_shannon(STANDARD, STANDARD, random_state=0) == 0
    assert jensen_shannon(STANDARD, Gaussian(), X) == 0


def test_each_set_of_samples_counts_one_half():
    other = Gaussian([1.0, 0.0])
    of_X, of_Y = jensen_shannon(STANDARD, other, X), jensen_shannon(STANDARD, other, Y)
    both = jensen_shannon(STANDARD, other, X, Y)
    assert_allclose(both, (of_X + of_Y) / 2)
    assert_allclose(both.std_error, np.hypot(of_X.std_error, of_Y.std_error) / 2)
    assert both.n == len(X) + len(Y)
    assert both == jensen_shannon(other, STANDARD, Y, X)
    pooled = np.concatenate([X[:50], Y])
    assert_allclose(
        jensen_shannon(STANDARD, other, X[:50], Y), jensen_shannon(STANDARD, other, pooled)
    )
    arrays = (STANDARD.score_samples(pooled), other.score_samples(pooled))
    assert jensen_shannon(*arrays) == jensen_shannon(STANDARD, other, pooled)


def test_error_of_the_divergence():
    p, q = Gaussian(scale=1.2), Gaussian([1.0, 0.0])
    for n, m in ((40, 160), (100, 100)):
        found = [
            jensen_shannon(p, q, draws(p, n, seed), draws(q, m, 1000 + seed)) for seed in range(200)
        ]
        assert 0.85 < error_over_spread(found) < 1.18
    drawn = [jensen_shannon(p, q, n_samples=100, random_state=seed) for seed in range(200)]
    assert 0.85 < error_over_spread(drawn) < 1.18


def test_one_point_has_no_error():
    assert math.isnan(jensen_shannon([0.0], [1.0]).std_error)
    assert math.isnan(jensen_shannon(STANDARD, STANDARD, X[:1], Y).std_error)
    assert math.isnan(mean_log_likelihood([0.0]).std_error)


# Likelihood


def test_mean_log_likelihood():
    found = mean_log_likelihood(STANDARD, X)
    values = STANDARD.score_samples(X)
    assert_allclose(found, values.mean())
    assert_allclose(found.std_error, values.std(ddof=1) / np.sqrt(60))
    assert found.n == 60
    assert mean_log_likelihood(values) == mean_log_likelihood(list(values)) == found
    impossible = mean_log_likelihood([0.0, -np.inf])
    assert impossible == -np.inf
    assert math.isnan(impossible.std_error)
    assert mean_log_likelihood([-1e308] * 3) == -np.inf
    assert mean_log_likelihood([-1e300, 0.0]).std_error == np.inf


def test_error_of_the_likelihood():
    found = [mean_log_likelihood(STANDARD, draws(STANDARD, 100, seed)) for seed in range(300)]
    assert 0.87 < error_over_spread(found) < 1.15
    covered = [low < -1 - np.log(2 * np.pi) < high for low, high in (e.interval() for e in found)]
    assert 0.90 < np.mean(covered) < 0.99


@given(st.integers(0, 10**6), st.integers(2, 30), st.sampled_from([0.0, 0.1, -0.3]))
def test_likelihood_factor_equals_the_t_test(seed, n, gain):
    rng = np.random.RandomState(seed)
    a, b = rng.standard_normal((2, n)) * 0.3 + [[gain], [0.0]]
    found = likelihood_factor(a, b)
    expected = ttest_1samp(np.exp(a - b), 1.0, alternative="greater")
    assert_allclose(found, np.exp(a - b).mean())
    assert_allclose(found.p_value, expected.pvalue, rtol=1e-9)
    assert_allclose(found.std_error, np.exp(a - b).std(ddof=1) / np.sqrt(n))
    assert found.n == n


def test_likelihood_factor_where_there_is_nothing_to_test():
    assert likelihood_factor([1.0, 2.0], [1.0, 2.0]).p_value == 0.5
    assert likelihood_factor([2.0, 3.0], [1.0, 2.0]).p_value == 0
    assert likelihood_factor([0.0, 1.0], [1.0, 2.0]).p_value == 1
    assert likelihood_factor([-np.inf, -np.inf], [1.0, 2.0]) == 0
    endless = likelihood_factor([1e3, 0.0], [0.0, -np.inf])
    assert endless == np.inf
    assert math.isnan(endless.p_value)
    assert math.isnan(endless.std_error)


def test_likelihood_factor_refuses_runs_that_do_not_match():
    with pytest.raises(ValueError, match="a and b must have the same length, got 2 and 3"):
        likelihood_factor([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="at least 2 runs"):
        likelihood_factor([1.0], [1.0])
    with pytest.raises(ValueError, match="both minus infinity in run 1"):
        likelihood_factor([1.0, -np.inf], [1.0, -np.inf])
    with pytest.raises(ValueError, match="b contains NaN at 1 of 2 points, first in row 0"):
        likelihood_factor([1.0, 2.0], [np.nan, 2.0])
    with pytest.raises(ValueError, match="a must be a 1-D array"):
        likelihood_factor([[1.0, 2.0]], [[1.0, 2.0]])


# Optimal transport


@given(samples(min_samples=2, max_samples=40, max_features=3, scales=(1e-20, 1.0, 1e12)))
def test_wasserstein_equals_the_best_assignment(points):
    half = len(points) // 2
    first, second = points[:half], points[half : 2 * half]
    costs = cdist(first, second)
    expected = costs[linear_sum_assignment(costs)].mean()
    assert_allclose(wasserstein(first, second), expected, rtol=1e-9, atol=1e-12 * costs.max())
    assert_allclose(wasserstein(second, first), expected, rtol=1e-9, atol=1e-12 * costs.max())
    assert wasserstein(first, first) == 0


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 60), st.booleans())
def test_wasserstein_on_a_line_equals_sorting(seed, n, m, has_ties):
    rng = np.random.RandomState(seed)
    first, second = rng.standard_normal(n), 1 + 2 * rng.standard_normal(m)
    if has_ties:
        first, second = np.round(first), np.round(second)
    found = wasserstein(first[:, None], second[:, None])
    assert_allclose(found, wasserstein_distance(first, second), rtol=1e-9, atol=1e-12)
    assert found.n == n + m
    assert math.isnan(found.std_error) == (min(n, m) == 1)


def test_wasserstein_does_not_cancel_and_does_not_hide_overflow():
    far = 2.0**40
    lattice = np.round(64 * X) / 64
    moved = lattice[::-1] + np.array([0.25, 0.0])
    assert_allclose(wasserstein(lattice + far, moved + far), 0.25, rtol=1e-12)
    with pytest.raises(ValueError, match="X and Y are too far apart"):
        wasserstein([[1e200]], [[-1e200]])


def test_wasserstein_says_if_the_solver_gave_up(monkeypatch):
    monkeypatch.setattr(transport, "_MAX_STEPS", 1)
    with pytest.raises(RuntimeError, match="optimal transport was not found"):
        wasserstein(X, Y)


def test_error_of_wasserstein():
    """It is honest where the origins differ, and too large rather than too small where not."""
    other = Gaussian([1.5, 0.0], 1.3)
    apart = [wasserstein(draws(STANDARD, 120, s), draws(other, 80, 500 + s)) for s in range(150)]
    assert 0.8 < error_over_spread(apart) < 1.2
    same = [wasserstein(draws(STANDARD, 120, s), draws(STANDARD, 80, 500 + s)) for s in range(150)]
    assert 0.95 < error_over_spread(same) < 1.6


def test_indicator_equals_its_formula():
    drawn = draws(Gaussian(scale=2.0), 70, 2)
    found = wasserstein_indicator(drawn, X, Y)
    usual = wasserstein(X, Y)
    assert_allclose(found, (wasserstein(X, drawn) - usual) / usual)
    assert found.n == 60 + 50 + 70
    assert wasserstein_indicator(X, X, Y) == -1
    assert wasserstein_indicator(Y, X, Y) == 0
    wide = Gaussian(scale=2.0)
    by_density = wasserstein_indicator(wide, X, Y, n_samples=70, random_state=2)
    assert by_density == found
    assert wasserstein_indicator(wide, X, Y, random_state=2).n == 60 + 50 + 60


@pytest.mark.parametrize(
    ("truth", "p"),
    [
        (Gaussian(), Gaussian()),
        (TwoBlobs(), Gaussian(scale=3.0)),
    ],
    ids=["same", "one blob"],
)
@pytest.mark.whole
def test_error_of_the_indicator(truth, p):
    """Where p is the truth, too, where both distances are nothing but noise."""
    rng = np.random.RandomState(0)
    sets = [[d.sample(100, random_state=rng) for d in (p, truth, truth)] for _ in range(200)]
    ratios = [wasserstein(A, drawn) / wasserstein(A, B) for drawn, A, B in sets]
    claimed = [wasserstein_indicator(*three).std_error for three in sets[:25]]
    assert 0.75 < np.median(claimed) / np.std(ratios, ddof=1) < 1.35


def test_indicator_without_a_unit_or_an_error():
    with pytest.raises(ValueError, match=r"X and Y hold the same points: W\(X, Y\)"):
        wasserstein_indicator(Y, X, X[::-1])
    assert math.isfinite(wasserstein_indicator(X[:8], X[8:16], Y[:8]).std_error)
    assert math.isnan(wasserstein_indicator(X[:7], X[8:16], Y[:8]).std_error)


# Energy distance, and tests by shuffling


def plain_energy(first, second):
    """The three means, pair by pair."""
    between, own, other = (
        np.mean([[math.dist(a, b) for b in B] for a in A])
        for A, B in ((first, second), (first, first), (second, second))
    )
    return 2 * between - own - other


@given(samples(min_samples=5, max_samples=30, max_features=4))
def test_energy_equals_its_formula(points):
    first, second = points[: len(points) // 3 + 1], points[len(points) // 3 + 1 :]
    unit = 1e-12 * cdist(points, points).max()
    expected = plain_energy(first, second)
    assert_allclose(energy_distance(first, second), expected, rtol=1e-9, atol=unit)
    assert_allclose(energy_distance(second, first), expected, rtol=1e-9, atol=unit)
    assert energy_distance(first, first) == 0


@pytest.mark.parametrize("n", [1, 2, 40])
def test_energy_on_a_line_is_the_square_of_scipys(n):
    rng = np.random.RandomState(n)
    first, second = rng.standard_normal(n), rng.standard_normal(23).round(1)
    found = energy_distance(first[:, None], second[:, None])
    assert_allclose(found, energy_on_a_line(first, second) ** 2, rtol=1e-9)


@given(samples(min_samples=5, max_samples=40), st.integers(1, 39))
def test_energy_test_equals_shuffling_and_measuring(points, n_first):
    n_first = min(n_first, len(points) - 1)
    two = points[:n_first], points[n_first:]
    fast = energy_test(*two, n_permutations=19, random_state=3)
    slow = permutation_test(energy_distance, *two, n_permutations=19, random_state=3)
    unit = 1e-12 * cdist(points, points).max()
    assert_allclose(fast.statistic, slow.statistic, rtol=1e-9, atol=unit)
    assert_allclose(fast.null, slow.null, rtol=1e-9, atol=unit)
    if slow.statistic > 1e3 * unit:
        assert fast.p_value == slow.p_value


def test_energy_by_blocks_is_the_same(monkeypatch):
    first, second = draws(STANDARD, 50, 0), draws(STANDARD, 31, 1)
    whole = energy_distance(first, second), energy_test(first, second, random_state=0)
    monkeypatch.setattr(energy, "_BLOCK_NUMBERS", 100)
    again = energy_distance(first, second), energy_test(first, second, random_state=0)
    assert_allclose(again[0], whole[0])
    assert_allclose(again[1].null, whole[1].null)
    with pytest.raises(ValueError, match="distances overflow"):
        energy_distance([[1e308, 1e308]], [[-1e308, 0.0]])


def test_error_of_energy():
    other = Gaussian([1.0, 0.0], 1.5)
    apart = [
        energy_distance(draws(STANDARD, 120, s), draws(other, 80, 500 + s)) for s in range(150)
    ]
    assert 0.8 < error_over_spread(apart) < 1.25


def test_p_values_are_uniform_where_the_origin_is_one():
    found = [
        energy_test(
            draws(STANDARD, 12, s), draws(STANDARD, 9, 900 + s), n_permutations=19, random_state=s
        ).p_value
        for s in range(300)
    ]
    for level in (0.05, 0.2, 0.5, 0.8):
        error = np.sqrt(level * (1 - level) / len(found))
        assert abs(np.mean(np.array(found) <= level) - level) < 4 * error


def test_shuffling_ends_with_enough():
    def mean_apart(X, Y):
        return abs(X.mean() - Y.mean())

    found = []
    for s in range(300):
        rng = np.random.RandomState(s)
        two = rng.standard_normal((12, 1)), rng.standard_normal((9, 1))
        whole = permutation_test(mean_apart, *two, n_permutations=39, random_state=s)
        early = permutation_test(mean_apart, *two, n_permutations=39, enough=4, random_state=s)
        assert_array_equal(early.null, whole.null[: len(early.null)])
        as_large = np.cumsum(whole.null >= whole.statistic)
        if as_large[-1] < 4:
            assert early.p_value == whole.p_value
        else:
            n_shuffles = np.argmax(as_large == 4) + 1
            assert len(early.null) == n_shuffles
            assert early.p_value == 4 / n_shuffles
        found.append(early.p_value)
    for level in (0.05, 0.2, 0.5, 0.8):
        error = np.sqrt(level * (1 - level) / len(found))
        assert np.mean(np.array(found) <= level) < level + 4 * error


def test_a_difference_is_found_and_none_is_not():
    moved = energy_test(draws(STANDARD, 60, 0), draws(Gaussian([1.0, 0.0]), 60, 1), random_state=0)
    assert moved.p_value == 1 / 200
    assert energy_test(X, X, random_state=0).p_value == 1
    same = np.zeros((5, 2))
    assert energy_test(same, same, random_state=0).p_value == 1
    with pytest.raises(ValueError, match="read-only"):
        moved.null[0] = 1.0


def test_shuffling_says_how_far_it_is():
    said = []
    permutation_test(
        lambda *_: 1.0, X, Y, n_permutations=4, progress=lambda stage, part: said.append(part)
    )
    assert said == [0.25, 0.5, 0.75, 1.0]


# Calibration


def literal_calibration(own, true):
    shares = [np.mean([o > t for o in row]) for row, t in zip(own, true, strict=True)]
    total = 0.0
    for k in range(201):
        total += abs(np.mean([m > k / 200 for m in shares]) + k / 200 - 1)
    return total / 201


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 40), st.booleans())
def test_calibration_equals_the_formula(seed, n_true, n_own, is_lattice):
    rng = np.random.RandomState(seed)
    own, true = rng.standard_normal((n_true, n_own)), rng.standard_normal(n_true)
    if is_lattice:  # ties, and shares that are multiples of the levels
        own, true = np.round(own), np.round(true)
        own[own < -1] = -np.inf
        true[true < -1] = -np.inf
    assert_allclose(calibration_error(own, true), literal_calibration(own, true), atol=1e-13)
    shared = np.broadcast_to(own[0], own.shape)
    expected = literal_calibration(shared, true)
    assert_allclose(calibration_error(own[0], true), expected, atol=1e-13)
    assert calibration_error(shared, true) == calibration_error(own[0], true)


def test_calibration_from_the_best_to_the_worst():
    truths = draws(STANDARD, 1000, 0)
    good = calibration_error(STANDARD, truths, random_state=0)
    assert good < 0.03
    assert good.n == 1000
    assert_allclose(calibration_error(STANDARD, truths + 100, random_state=0), 99.5 / 201)
    assert_allclose(calibration_error(STANDARD, truths * 1e-9, random_state=0), 100.5 / 201)
    assert 0.1 < calibration_error(Gaussian(scale=1.5), truths, random_state=0) < 0.3
    own_rows = np.array([STANDARD.score_samples(draws(STANDARD, 50, s)) for s in range(1000)])
    assert calibration_error(own_rows, STANDARD.score_samples(truths)) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1.5])
@pytest.mark.parametrize(("n", "n_own"), [(100, 500), (500, 100)])
def test_error_of_calibration(scale, n, n_own):
    """The noise of the own samples counts as well as that of the truths."""
    p = Gaussian(scale=scale)
    found = [
        calibration_error(p, draws(STANDARD, n, s), n_samples=n_own, random_state=500 + s)
        for s in range(60)
    ]
    assert 0.75 < error_over_spread(found) < 1.6


def test_error_of_calibration_with_own_samples_for_each_truth():
    rng = np.random.RandomState(0)
    found = [
        calibration_error(
            -(rng.standard_normal((200, 20)) ** 2), -2 * rng.standard_normal(200) ** 2
        )
        for _ in range(100)
    ]
    assert 0.8 < error_over_spread(found) < 1.25
    assert math.isnan(calibration_error([0.0, 1.0], [0.5]).std_error)


# What all have in common


def figures(random_state):
    other = Gaussian([0.5, 0.0])
    return [
        jensen_shannon(STANDARD, other, n_samples=50, random_state=random_state),
        divergence_from_truth(STANDARD, other, n_samples=50, random_state=random_state),
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
    with pytest.raises(ValueError, match=r"X has 1 features, but p \(KernelDensity\) has 2"):
        mean_log_likelihood(named, narrow)
    with pytest.raises(ValueError, match="Y has 1 features, but X has 2"):
        wasserstein(A, narrow)


def test_unnormalized_densities_are_warned_of():
    loose = Gaussian()
    loose.is_normalized = False
    message = r"\(Gaussian\) does not integrate to one"
    calls = [
        lambda: jensen_shannon(loose, STANDARD, X),
        lambda: jensen_shannon(STANDARD, loose, X),
        lambda: divergence_from_truth(loose, STANDARD, X),
        lambda: mean_log_likelihood(loose, X),
    ]
    for call, name in zip(calls, "pqpp", strict=True):
        with pytest.warns(UnnormalizedWarning, match=f"{name} {message}") as record:
            call()
        assert len(record) == 1
        assert record[0].filename == __file__
    loose.is_normalized = True
    for call in calls:
        call()


# Bad input

WIDE = np.zeros((5, 3))
SAMPLE_METRICS = {
    "jensen_shannon X": lambda bad: jensen_shannon(STANDARD, STANDARD, bad),
    "jensen_shannon Y": lambda bad: jensen_shannon(STANDARD, STANDARD, X, bad),
    "divergence_from_truth X": lambda bad: divergence_from_truth(STANDARD, STANDARD, bad, Y),
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
        (np.array([["a", "b"]]), "convert"),
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
            lambda: divergence_from_truth(STANDARD, Answer([0.0], n_features=3), X),
            r"X has 2 features, but truth \(Answer\) has 3",
        ),
        (
            lambda: calibration_error(KernelDensity().fit(X), WIDE),
            r"X has 3 features, but p \(KernelDensity\) has 2",
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
        (lambda: divergence_from_truth(STANDARD, broken, X), "truth"),
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
        (lambda: divergence_from_truth([0.0], STANDARD), TypeError, "p and truth must both be"),
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
        (lambda: permutation_test(wasserstein, X, Y, enough=0), ValueError, "enough must be at"),
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


# Extras


def test_without_pot_the_error_names_the_extra():
    code = (
        "import sys\n"
        "import sevenhills.metrics as metrics\n"
        "assert 'ot' not in sys.modules\n"
        "sys.modules['ot'] = None\n"
        "for call in (lambda: metrics.wasserstein([[0.0]], [[1.0]]),\n"
        "             lambda: metrics.wasserstein_indicator([[0.0]], [[1.0]], [[2.0]])):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
        "assert metrics.jensen_shannon([0.0], [0.0]) == 0\n"
    )
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True
    )
    assert (
        found.stdout.splitlines()
        == ["wasserstein needs POT; install it with: pip install 'sevenhills[ot]'"] * 2
    )


def test_an_extra_is_imported_without_its_warnings(tmp_path, monkeypatch):
    (tmp_path / "noisy_extra.py").write_text("import warnings\nwarnings.warn('old')\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert import_extra("noisy_extra", "noise", "this").value == 3
    with pytest.raises(ImportError, match=r"^this; install it with: pip install 'sevenhills\[a\]'"):
        import_extra("no_such_extra", "a", "this")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("from math import no_such_name", "ImportError: cannot import name 'no_such_name'"),
        ("raise OSError('libgomp.so.1: no such file')", "OSError: libgomp.so.1: no such file"),
        ("import broken_extra.part", "ModuleNotFoundError: "),
    ],
)
def test_a_broken_extra_is_not_called_missing(source, message, tmp_path, monkeypatch):
    (tmp_path / "broken_extra.py").write_text(source + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"^this; broken_extra is installed") as caught:
        import_extra("broken_extra", "noise", "this")
    assert message in str(caught.value)
    assert "pip install" not in str(caught.value)
    assert type(caught.value.__cause__).__name__ == message.partition(":")[0]


def test_an_extra_without_a_part_of_it_is_missing():
    with pytest.raises(ImportError, match=r"^this; install it with"):
        import_extra("no_such_extra.part", "a", "this")


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
