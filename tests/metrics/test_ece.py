"""The expected calibration error."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sevenhills.metrics import (
    calibration_error,
)

from .gaussians import STANDARD, Gaussian, draws, error_over_spread


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
