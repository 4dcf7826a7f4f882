"""A cluster that is whitened and divided into folds."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills.covariance import weighted_moments

from .cases import cell_of, crescent


def test_samples_are_whitened():
    X = crescent()
    cell = cell_of(X)
    mean, transform = cell.ellipse
    assert_allclose((X - mean) @ transform, cell.points, atol=1e-8)
    assert_allclose(cell.unwhitened, X - mean, atol=1e-8)
    assert_allclose(weighted_moments(cell.points, cell.weights).mean, 0, atol=1e-8)
    assert (cell.n_rows, cell.n_features, cell.n_samples) == (120, 2, 120)
    assert_array_equal(cell.neighbors[:, 0], np.arange(120))


def test_training_samples_are_those_that_a_fold_does_not_hold_out():
    cell = cell_of(crescent())
    assert_array_equal(cell.samples().points, cell.points)
    assert_array_equal(cell.test_weights, np.ones(120))
    for f, fold in enumerate(cell.folds):
        samples = cell.training_samples(f)
        assert_array_equal(samples.points, np.delete(cell.points, fold.test, axis=0))
        assert_array_equal(samples.weights, 1.0)
        # Their ellipse is given in whitened coordinates, too.
        mean, _ = weighted_moments(samples.points, samples.weights)
        assert_allclose(samples.ellipse.mean, mean, atol=1e-8)


def test_many_features_allow_no_covariance_for_each_row():
    few, many = (cell_of(np.random.RandomState(0).standard_normal((9, m))) for m in (2, 101))
    assert few.allows_components
    assert few.allows_own_covariances
    assert not many.allows_components
    assert not many.allows_own_covariances
