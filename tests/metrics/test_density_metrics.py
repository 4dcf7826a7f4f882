"""Likelihood, Jensen-Shannon divergence and calibration."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm, ttest_1samp

from sevenhills.metrics import (
    calibration_error,
    jensen_shannon,
    likelihood_factor,
    mean_log_likelihood,
)

from .gaussians import STANDARD, Gaussian, X, Y, draws, error_over_spread


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
    assert found == jensen_shannon(log_q, log_p)
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
