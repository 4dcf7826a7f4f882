"""Mean log-likelihoods and likelihood factors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import ttest_1samp

from sevenhills.metrics import (
    likelihood_factor,
    mean_log_likelihood,
)

from .gaussians import STANDARD, X, draws, error_over_spread


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
