import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills.forecast import Coverage, evaluate
from sevenhills.forecast.coverage import CalibrationError
from sevenhills.metrics import calibration_error

from . import oracles
from .scenes import means, walks


def test_coverage_and_error_are_shares_of_levels():
    predictions, truth = walks(50, 8, 2)
    found = evaluate(predictions, truth, measures="ece", levels=(0.5, 0.25), n_replicates=50)
    levels = found.levels.ravel()
    assert_array_equal(found.coverage.levels, [0.25, 0.5])
    assert_allclose(found.coverage.observed, [(levels <= 0.25).mean(), (levels <= 0.5).mean()])
    assert_allclose(found["ece"].mean, oracles.calibration_error(levels))
    shares = np.round(levels * 1000) / 1000  # as shares of a thousand own samples
    own = np.tile(np.arange(1000.0), (50, 1))
    same = calibration_error(own, 999.5 - 1000 * shares)
    assert_allclose(oracles.calibration_error(shares), same, atol=0.01)
    assert found.coverage.n_truths == 50
    assert 0 <= found["ece"].low <= found["ece"].mean <= found["ece"].high


def test_the_expected_error_is_that_of_uniform_levels():
    rng = np.random.RandomState(0)
    found = means([oracles.calibration_error(rng.uniform(size=200)) for _ in range(200)])
    levels = np.full((200, 1), 0.5)
    coverage = Coverage(*[np.ones(1)] * 5, n_truths=200)
    assert_allclose(found, coverage.expected_error, rtol=0.1)
    assert CalibrationError(levels)() == pytest.approx(0.25, abs=0.01)
