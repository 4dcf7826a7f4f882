import numpy as np
import pytest
from numpy.testing import assert_allclose

from sevenhills.kernels.mixture import _squares_of_four


@pytest.mark.parametrize("n_features", [1, 2, 3, 6])
@pytest.mark.parametrize("n_points", [1, 3, 4])
def test_squares_of_four(n_features, n_points):
    """Interpreted, beside plain sums; a far kernel is infinitely far, also if features are odd."""
    rng = np.random.RandomState(n_features)
    Y, tiles = rng.standard_normal((1, 9, n_features)), rng.standard_normal((2, n_features, 8))
    tiles[1, :, 3] = 1e200
    near, out = np.array([7, 2, 5, 0, 8, 1]), np.empty((4, 8))
    with np.errstate(over="ignore"):
        _squares_of_four.py_func(Y, 0, near, 2, 1 + n_points, tiles, 1, out)
        points = Y[0, near[2 : 2 + n_points]]
        expected = ((points[:, :, None] - tiles[1]) ** 2).sum(axis=1)
    assert np.isinf(expected[:, 3]).all()
    assert_allclose(out[:n_points], expected, rtol=1e-14)
