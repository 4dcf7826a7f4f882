"""The Wasserstein distance and the Wasserstein indicator."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from sevenhills.metrics import (
    transport,
    wasserstein,
    wasserstein_indicator,
)

from ..strategies import samples
from .gaussians import STANDARD, Gaussian, TwoBlobs, X, Y, draws, error_over_spread


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
    monkeypatch.setattr(transport, "_MAX_ITERATIONS", 1)
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


def test_indicator_of_a_known_distance():
    wide, usual = Gaussian(scale=2.0), wasserstein(X, Y)
    found = wasserstein_indicator(wide, X, usual, random_state=2)
    assert found == wasserstein_indicator(wide, X, Y, random_state=2)
    assert math.isnan(found.std_error)
    with pytest.raises(ValueError, match="Y must be positive"):
        wasserstein_indicator(wide, X, 0.0)


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
