"""Energy and Wasserstein distances, and permutation tests."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import energy_distance as energy_on_a_line
from scipy.stats import wasserstein_distance

from sevenhills import show_progress
from sevenhills.metrics import (
    energy_distance,
    energy_test,
    permutation_test,
    two_samples,
    wasserstein,
    wasserstein_indicator,
)

from ..strategies import samples
from .gaussians import STANDARD, Gaussian, TwoBlobs, X, Y, draws, error_over_spread


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
    monkeypatch.setattr(two_samples, "_BLOCK_SIZE", 100)
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
        early = permutation_test(
            mean_apart, *two, n_permutations=39, max_exceedances=4, random_state=s
        )
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
    with show_progress(lambda stage, fraction: said.append(fraction)):
        permutation_test(lambda *_: 1.0, X, Y, n_permutations=4)
    assert said == sorted(said)
    assert {0.25, 0.5, 0.75, 1.0} <= set(said)


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


@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(2, 30))
def test_weighted_wasserstein_on_a_line_equals_sorting(seed, n, m):
    rng = np.random.RandomState(seed)
    first, second = rng.standard_normal(n), 1 + 2 * rng.standard_normal(m)
    weights = rng.uniform(0.1, 2.0, n)
    found = wasserstein(first[:, None], second[:, None], sample_weight=weights)
    assert_allclose(found, wasserstein_distance(first, second, weights), rtol=1e-9, atol=1e-12)
    same = wasserstein(first[:, None], second[:, None], sample_weight=np.full(n, 3.0))
    plain = wasserstein(first[:, None], second[:, None])
    assert_allclose([same, same.std_error], [plain, plain.std_error], rtol=1e-9)


def test_wasserstein_does_not_cancel_and_does_not_hide_overflow():
    far = 2.0**40
    lattice = np.round(64 * X) / 64
    moved = lattice[::-1] + np.array([0.25, 0.0])
    assert_allclose(wasserstein(lattice + far, moved + far), 0.25, rtol=1e-12)
    with pytest.raises(ValueError, match="X and Y are too far apart"):
        wasserstein([[1e200]], [[-1e200]])


def test_wasserstein_says_if_the_solver_gave_up(monkeypatch):
    monkeypatch.setattr(two_samples, "_MAX_ITERATIONS", 1)
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
