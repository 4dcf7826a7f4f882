"""The energy distance and permutation tests."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.stats import energy_distance as energy_on_a_line

from sevenhills.metrics import (
    energy_distance,
    energy_test,
    permutation_test,
    two_samples,
)

from ..strategies import samples
from .gaussians import STANDARD, Gaussian, X, Y, draws, error_over_spread


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
    permutation_test(
        lambda *_: 1.0, X, Y, n_permutations=4, progress=lambda stage, part: said.append(part)
    )
    assert said == [0.25, 0.5, 0.75, 1.0]
