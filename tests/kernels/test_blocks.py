"""Moments of neighborhoods, beside numpy's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import KDTree

from sevenhills.covariance import weighted_moments
from sevenhills.kernels.blocks import neighborhood_moments

from ..oracles import neighbourhood
from ..strategies import samples

seeds = st.integers(0, 2**31)


@given(samples(min_samples=3, max_samples=60, max_features=5), seeds, st.integers(1, 20))
def test_moments_are_numpys(X, seed, n_neighbors):
    """Of seen neighbours only, and of fewer if there are not as many in the table.

    The slow twin repeats neighbours as often as they count.
    """
    rng = np.random.RandomState(seed)
    K = rng.randint(1, len(X) + 1)
    neighbours = KDTree(X).query(X, k=np.arange(1, K + 1))[1]
    neighbours[:, 0] = np.arange(len(X))  # among equal points, another may have come first
    repeats = rng.randint(1, 4, size=len(X)) * (rng.uniform(size=len(X)) < 0.7)
    repeats[rng.randint(len(X))] = 1
    rows = np.flatnonzero(repeats)
    means = np.full((len(rows), X.shape[1]), np.nan)
    covariances = np.full((len(rows), X.shape[1], X.shape[1]), np.nan)
    weights = repeats.astype(float)
    neighborhood_moments(X, neighbours, weights, rows, n_neighbors, means, covariances)
    size = max(1.0, np.abs(X).max())
    for row, mean, scatter in zip(rows, means, covariances, strict=True):
        copies = np.repeat(neighbours, repeats[neighbours[row]], axis=1)
        expected = neighbourhood(X, copies, repeats > 0, row, n_neighbors)
        assert_allclose(mean, expected[0], atol=1e-11 * size)
        assert_allclose(scatter, expected[1], atol=1e-11 * size**2)


def test_the_last_neighbour_counts_in_part():
    X = np.array([[0.0], [1.0], [5.0]])
    table, weights = np.array([[0, 1, 2]] * 3), np.array([1.5, 0.25, 10.0])
    mean, scatter = np.empty((1, 1)), np.empty((1, 1, 1))
    neighborhood_moments(X, table, weights, np.array([0]), 3, mean, scatter)
    expected = weighted_moments(X, np.array([1.5, 0.25, 1.25]))
    assert_allclose(mean[0], expected.mean)
    assert_allclose(scatter[0], expected.covariance)


def test_a_heavy_point_is_a_neighbourhood_of_its_own():
    X, table = np.array([[0.0], [1.0]]), np.array([[0, 1], [1, 0]])
    mean, scatter = np.empty((2, 1)), np.empty((2, 1, 1))
    weights = np.array([8.0, 1e-9])
    neighborhood_moments(X, table, weights, np.array([0, 1]), 8, mean, scatter)
    assert_array_equal(mean[0], 0.0)
    assert_array_equal(scatter[0], 0.0)
    # The other one has hardly any part in its own, which must not be lost to rounding.
    assert_allclose(scatter[1], 1e-9 / 8, rtol=1e-6)
