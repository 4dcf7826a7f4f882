"""Blocks of work in threads."""

from typing import NamedTuple

import numpy as np
import pytest

from sevenhills.threads import map_blocks, map_rows


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3, 50, -1])
@pytest.mark.parametrize("n_blocks", [0, 1, 2, 7])
def test_every_block_is_worked_on_once(n_blocks, n_jobs):
    seen = []
    map_blocks(seen.extend, n_blocks, n_jobs)
    assert sorted(seen) == list(range(n_blocks))


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 50])
@pytest.mark.parametrize("n_rows", [0, 1, 4, 5, 23])
def test_rows_are_written_where_they_belong(n_rows, n_jobs):
    X, sizes = np.random.default_rng(0).normal(size=(n_rows, 3)), []

    def total(rows):
        sizes.append(len(rows))
        return rows.sum(axis=1)

    out = np.full(n_rows, np.nan)
    assert map_rows(total, X, 4, n_jobs, out) is out
    np.testing.assert_array_equal(out, X.sum(axis=1))
    assert sum(sizes) == n_rows
    assert max(sizes, default=0) <= 4


def test_functions_may_return_several_arrays():
    class Parts(NamedTuple):
        totals: np.ndarray
        squares: np.ndarray

    X = np.random.default_rng(0).normal(size=(23, 3))
    out = Parts(np.empty(23), np.empty((23, 3)))
    map_rows(lambda rows: Parts(rows.sum(axis=1), rows**2), X, 4, 2, out)
    np.testing.assert_array_equal(out.totals, X.sum(axis=1))
    np.testing.assert_array_equal(out.squares, X**2)
    with pytest.raises(ValueError, match="zip"):
        map_rows(lambda rows: (rows.sum(axis=1),), X, 4, 2, out)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_in_threads_reach_the_caller(n_jobs):
    def fail(rows):
        raise KeyError("no row")

    with pytest.raises(KeyError, match="no row"):
        map_rows(fail, np.ones((9, 1)), 2, n_jobs, np.empty(9))
