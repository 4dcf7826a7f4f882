import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from sevenhills import ROME
from sevenhills.clustering import cut, order_by_reachability
from sevenhills.clustering.dbcv import all_points_reach, dbcv_scores
from sevenhills.kernels.blocks import build_blocks, core_distances, nearest_distances
from sevenhills.kernels.spanning import spanning_tree

from ..oracles import dbcv
from ..strategies import samples


@given(samples(min_samples=6, max_samples=70), st.sampled_from([3, 5, 12]))
def test_equals_the_definition(X, k):
    k = min(k, len(X))
    ordering = order_by_reachability(X, k)
    partitions = cut(ordering, 12, 11).partitions
    points = X[ordering.order]
    found = dbcv_scores(points, partitions, k)
    for index, score in enumerate(found):
        runs = partitions[index]
        labels = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0])
        assert_allclose(score, dbcv(points, labels, k), atol=1e-9)


@given(samples(min_samples=2, max_samples=300), st.integers(1, 40))
def test_nearest_distances(X, k):
    k = min(k, len(X) - 1)
    blocks = build_blocks(X, 16)
    expected = np.sort(cdist(X, X), axis=1)
    ones = np.ones(len(X))
    farthest, found, weights = nearest_distances(X, ones, blocks, np.full(len(X), k + 1.0), k + 1)
    assert_allclose(found, expected[:, : k + 1], atol=1e-12)
    assert_allclose(farthest, expected[:, k], atol=1e-12)
    assert_array_equal(weights, 1.0)
    assert_allclose(core_distances(X, ones, blocks, k + 1), expected[:, k], atol=1e-12)


@given(samples(min_samples=2, max_samples=200))
def test_the_spanning_tree_is_scipys(X):
    X = np.unique(X, axis=0)  # scipy takes a length of zero for a missing edge
    if len(X) < 2:
        return
    reach = np.random.RandomState(0).uniform(0, np.ptp(X), len(X))
    mutual = np.maximum(cdist(X, X), np.maximum(reach[:, None], reach))
    expected = np.sort(minimum_spanning_tree(mutual).data)
    edges, lengths = spanning_tree(X, reach)
    assert_allclose(np.sort(lengths), expected, rtol=1e-12)
    assert_allclose(lengths, mutual[tuple(edges.T)], rtol=1e-12)


def test_repeated_points_reach_nowhere():
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    reach = all_points_reach(X, np.ones(len(X)), build_blocks(X, 16), 2)
    assert (reach[:2] == 0).all()
    assert (reach[2:] > 0).all()


def test_threads_give_the_same_scores():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((300, 3)) + 8 * rng.randint(3, size=(300, 1))
    one, four = (ROME(selection="dbcv", n_jobs=n).fit(X) for n in (1, 4))
    assert (one.candidates_.scores == four.candidates_.scores).all()


@pytest.mark.parametrize("gap", [6.0, 9.0])
def test_separate_hills_are_found(gap):
    rng = np.random.RandomState(1)
    X = rng.standard_normal((400, 2)) + gap * rng.randint(3, size=(400, 1)) * [1.0, 0.5]
    rome = ROME(selection="dbcv").fit(X)
    assert rome.candidates_.criterion == "dbcv"
    assert rome.labels_.max() == 2
