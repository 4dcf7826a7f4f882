"""Clusters of different shapes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sevenhills import datasets


def test_shapes_lie_in_three_places():
    X = datasets.make_shapes(3000, random_state=0)
    assert_array_equal(X, datasets.make_shapes(3000, random_state=0))
    bow, blob = (X[:, 0] < 0.5) & (X[:, 1] > -0.6), (X[:, 0] < 0.5) & (X[:, 1] < -0.6)
    counts = np.array([bow.sum(), blob.sum(), (~bow & ~blob).sum()])
    assert np.abs(counts - 1000).max() < 120
    with pytest.raises(ValueError, match="n_samples"):
        datasets.make_shapes(-1)
