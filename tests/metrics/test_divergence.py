"""The Jensen-Shannon divergence."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from sevenhills.metrics import (
    divergence_from_truth,
    jensen_shannon,
    mean_log_likelihood,
)

from .gaussians import STANDARD, Gaussian, X, Y, draws, error_over_spread

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
