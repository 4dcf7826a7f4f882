"""Nearest-neighbor densities."""

import numpy as np
import pytest

from sevenhills import ROME


@pytest.mark.parametrize("weighted", [False, True])
def test_the_density_is_zero_where_distances_overflow(weighted):
    rng = np.random.RandomState(0)
    weights = rng.uniform(0.5, 3.0, 200) if weighted else None
    density = ROME(density="knn").fit(rng.standard_normal((200, 2)), sample_weight=weights).density_
    near, far = density.logpdf([[0.0, 0.0], [1e160, 1e160]])
    assert np.isfinite(near)
    assert far == -np.inf
