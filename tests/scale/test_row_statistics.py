"""Moments of partitions, compared with those of all rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sevenhills.scale.row_statistics import Moments

from ..strategies import awkward, partition_sizes


@given(X=awkward(min_samples=1, max_samples=60, max_features=5), data=st.data())
def test_moments_are_those_of_all_rows(X, data):
    X = X / max(np.abs(X).max(), 1e-300)
    clusters = np.arange(len(X)) % 3
    origins = X[:1].repeat(3, axis=0)
    bounds = np.cumsum(data.draw(partition_sizes(len(X))))[:-1]
    parts = zip(np.split(X, bounds), np.split(clusters, bounds), strict=True)
    found = Moments.merge([Moments.from_rows(rows, at, origins) for rows, at in parts])
    covariances = found.covariances(1.0)
    for c in range(min(3, len(X))):
        members = X[clusters == c] - origins[c]
        assert found.counts[c] == len(members)
        scale = np.abs(members).max() + 1e-300
        assert_allclose(found.shifts[c], members.mean(axis=0), atol=1e-14 * scale)
        if len(members) > 1:
            expected = np.atleast_2d(np.cov(members.T))
            assert_allclose(covariances[c], expected, atol=1e-13 * scale**2)


def test_moments_keep_narrow_directions_far_from_the_origin():
    rng = np.random.RandomState(0)
    X = np.stack([rng.standard_normal(3000), 1e-9 * rng.standard_normal(3000)], axis=1)
    parts = [Moments.from_rows(part, np.zeros(len(part), int), X[:1]) for part in np.split(X, 10)]
    stds = np.linalg.svd(Moments.merge(parts).factors[0], compute_uv=False) / np.sqrt(2999)
    assert_allclose(stds[1], np.linalg.svd(X - X.mean(0))[1][1] / np.sqrt(2999), rtol=1e-6)
    far = X * [1, 1e9] + 1e9
    parts = [
        Moments.from_rows(part, np.zeros(len(part), int), far[:1]) for part in np.split(far, 10)
    ]
    assert_allclose(
        Moments.merge(parts).covariances(1.0)[0], np.cov((far - far[0]).T), rtol=1e-13, atol=1e-13
    )
