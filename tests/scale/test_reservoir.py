"""Samples of partitions, compared with the smallest hashes of all rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sevenhills.scale.reservoir import Reservoir, row_hashes

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
        "sevenhills.scale.reservoir.row_hashes", lambda X, seed: np.full(len(X), 7, np.uint64)
    )
    X = np.array([[2.0], [1.0], [3.0], [1.0]])
    found = Reservoir.merge([Reservoir.from_rows(X[:2], 2, 0), Reservoir.from_rows(X[2:], 2, 0)], 2)
    assert_array_equal(found.rows, [[1.0], [2.0]])
    assert_array_equal(found.counts, [2, 1])
