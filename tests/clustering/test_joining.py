"""Noise and small clusters that join others, and outliers that do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sevenhills.clustering.joining import OUTLIER, join_small, rows_of

from ..stacking.cases import blobs, random_state
from ..strategies import samples

seeds = st.integers(0, 2**31)


def test_small_clusters_and_noise_join_the_nearest():
    X, group = blobs([30, 30, 5], apart=7.0)
    labels = group.copy()
    labels[:3] = -1
    expected = np.where(group == 2, 1, group)
    assert_array_equal(join_small(X, np.ones(65), labels), expected)


def test_a_gross_outlier_stays_alone():
    X, group = blobs([30, 30, 1])
    X[-1] = 1e6
    for label in (2, -1):
        labels = np.where(group == 2, label, group)
        found = join_small(X, np.ones(61), labels)
        assert_array_equal(found, np.where(group == 2, OUTLIER, group))


def test_labels_are_numbered_anew():
    X, group = blobs([5, 30, 30], apart=8.0)
    assert_array_equal(np.unique(join_small(X, np.ones(65), group)), [0, 1])


@pytest.mark.parametrize("label", [-1, 0])
def test_all_noise_or_all_small_is_one_cluster(label):
    X, _ = blobs([9])
    assert_array_equal(join_small(X, np.ones(9), np.full(9, label)), 0)
    assert_array_equal(join_small(X, np.ones(9), np.arange(9)), 0)


@given(samples(min_samples=1, max_samples=60, max_features=4), seeds)
def test_joined_clusters_are_large_and_whole(X, seed):
    labels = random_state(seed).randint(-1, 4, size=len(X))
    found = join_small(X, np.ones(len(X)), labels)
    sizes = np.bincount(found[found >= 0])
    assert len(sizes) == 1 or (sizes >= 10).all()
    assert (sizes > 0).all()
    for label in range(4):  # no cluster is torn apart, but for samples that are far away
        inside = found[labels == label]
        if len(inside) >= max(10, X.shape[1] + 2):
            assert (inside == inside[0]).all()
            assert inside[0] >= 0


def test_sizes_are_sums_of_weights():
    X, group = blobs([30, 30, 5], apart=7.0)
    tenths, ones = np.full(65, 0.1), np.ones(65)
    assert_array_equal(join_small(X, tenths, group), 0)  # all are small
    assert_array_equal(join_small(X, np.where(group == 2, 2.0, 1.0), group), group)
    assert_array_equal(join_small(X, ones, group), np.minimum(group, 1))
    thirds = np.where(group == 0, 1 / 3, 1.0)  # which are just enough, up to rounding
    assert_array_equal(join_small(X, thirds, group), np.minimum(group, 1))


@given(seeds, st.integers(1, 60), st.integers(1, 6))
def test_rows_of_clusters(seed, n_rows, n_clusters):
    labels = random_state(seed).randint(-1, n_clusters, size=n_rows)
    for label, rows in enumerate(rows_of(labels)):
        assert_array_equal(rows, np.flatnonzero(labels == label))
