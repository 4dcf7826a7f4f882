"""Samples and moments of partitions, compared with those of all rows."""

from functools import reduce

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills.scale.row_statistics import Moments, Reservoir, merge_moments, row_hashes

from ..oracles import row_hash, smallest_hashes
from ..strategies import awkward, partition_sizes


@given(X=awkward(max_samples=60, max_features=4), seed=st.integers(0, 2**63 - 1), data=st.data())
def test_samples_are_the_smallest_hashes_however_rows_are_parted(X, seed, data):
    size = data.draw(st.integers(1, 70))
    parts = np.split(X, np.cumsum(data.draw(partition_sizes(len(X))))[:-1])
    found = Reservoir.merge([Reservoir.from_rows(part, size, seed) for part in parts], size)
    rows, counts = smallest_hashes(X, size, seed)
    assert_array_equal(found.rows, rows)
    assert_array_equal(found.counts, counts)
    assert_array_equal(found.hashes, [row_hash(row, seed) for row in rows])


def test_hashes_are_evenly_spread_and_take_zeros_for_equal():
    X = np.stack(np.meshgrid(np.arange(200.0), np.arange(200.0)), axis=-1).reshape(-1, 2)
    hashes = row_hashes(X, 1)
    assert len(np.unique(hashes)) == len(X)
    for shift in (0, 30, 58):
        bits = (hashes >> np.uint64(shift)) & np.uint64(63)
        counts = np.bincount(bits.astype(np.int64), minlength=64)
        assert ((counts - len(X) / 64) ** 2 / (len(X) / 64)).sum() < 120  # 63 degrees of freedom
    assert (hashes != row_hashes(X, 2)).all()
    assert row_hashes(np.array([[-0.0]]), 5) == row_hashes(np.array([[0.0]]), 5)


def test_rows_of_one_hash_are_still_different_rows(monkeypatch):
    monkeypatch.setattr(
        "sevenhills.scale.row_statistics.row_hashes", lambda X, seed: np.full(len(X), 7, np.uint64)
    )
    X = np.array([[2.0], [1.0], [3.0], [1.0]])
    found = Reservoir.merge([Reservoir.from_rows(X[:2], 2, 0), Reservoir.from_rows(X[2:], 2, 0)], 2)
    assert_array_equal(found.rows, [[1.0], [2.0]])
    assert_array_equal(found.counts, [2, 1])


def covariance(moments, c):
    factor = moments.factors[c]
    return factor.T @ factor / (moments.counts[c] - 1)


@given(X=awkward(min_samples=1, max_samples=60, max_features=5), data=st.data())
def test_moments_are_those_of_all_rows(X, data):
    X = X / max(np.abs(X).max(), 1e-300)
    clusters = np.arange(len(X)) % 3
    origins = X[:1].repeat(3, axis=0)
    bounds = np.cumsum(data.draw(partition_sizes(len(X))))[:-1]
    parts = zip(np.split(X, bounds), np.split(clusters, bounds), strict=True)
    found = reduce(merge_moments, [Moments.from_rows(rows, at, origins) for rows, at in parts])
    for c in range(min(3, len(X))):
        members = X[clusters == c] - origins[c]
        assert found.counts[c] == len(members)
        scale = np.abs(members).max() + 1e-300
        assert_allclose(found.shifts[c], members.mean(axis=0), atol=1e-14 * scale)
        if len(members) > 1:
            expected = np.atleast_2d(np.cov(members.T))
            assert_allclose(covariance(found, c), expected, atol=1e-13 * scale**2)


def test_moments_keep_narrow_directions_far_from_the_origin():
    rng = np.random.RandomState(0)
    X = np.stack([rng.standard_normal(3000), 1e-9 * rng.standard_normal(3000)], axis=1)
    parts = [Moments.from_rows(part, np.zeros(len(part), int), X[:1]) for part in np.split(X, 10)]
    stds = np.linalg.svd(reduce(merge_moments, parts).factors[0], compute_uv=False) / np.sqrt(2999)
    assert_allclose(stds[1], np.linalg.svd(X - X.mean(0))[1][1] / np.sqrt(2999), rtol=1e-6)
    far = X * [1, 1e9] + 1e9
    parts = [
        Moments.from_rows(part, np.zeros(len(part), int), far[:1]) for part in np.split(far, 10)
    ]
    assert_allclose(
        covariance(reduce(merge_moments, parts), 0),
        np.cov((far - far[0]).T),
        rtol=1e-13,
        atol=1e-13,
    )
