import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from sevenhills import ROME
from sevenhills.clustering import cut, neighbors_for, order_by_reachability
from sevenhills.clustering.nearest import nearest_distances
from sevenhills.clustering.optics import Partitions, _all_cuts, best_of
from sevenhills.clustering.selection import all_points_reach, dbcv_scores, silhouette_scores
from sevenhills.kernels.blocks import build_blocks
from sevenhills.kernels.cuts import all_cuts
from sevenhills.kernels.spanning import spanning_tree

from ..oracles import all_labels, dbcv, score, without_single_members
from ..strategies import samples


def labels_of(partitions, order):
    out = []
    for i in range(len(partitions)):
        runs = partitions[i]
        labels = np.empty(len(order), dtype=int)
        labels[order] = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0])
        out.append(labels)
    return out


def assert_all_labels_and_scores(X, n_scored):
    k = neighbors_for(*X.shape, 5, 20, 400)
    ordering = order_by_reachability(X, k)
    partitions = _all_cuts(ordering, 100, 99, np.ones(len(X)))[1]
    expected = all_labels(
        ordering.order, ordering.reachability, ordering.core_distances, ordering.predecessor, k
    )
    found = labels_of(partitions, ordering.order)
    assert len(found) == len(expected) == 199
    for ours, theirs in zip(found, expected, strict=True):
        assert_array_equal(ours, theirs)
    some = [i for i in range(199) if len(partitions[i]) > 1]
    some = some[:: max(1, len(some) // n_scored)]
    if some:
        scores = silhouette_scores(X[ordering.order], partitions.take(np.array(some)))
        assert_allclose(scores, [score(X, expected[i]) for i in some], rtol=0, atol=1e-10)


@given(samples(min_samples=6, max_samples=80, max_features=4, scales=(1.0, 1e6)))
def test_cuts_and_scores_follow_the_rules_of_romepy(X):
    assert_all_labels_and_scores(X, n_scored=6)


RUNS = st.lists(st.tuples(st.integers(1, 2), st.integers(-1, 1)), min_size=1, max_size=3)


@given(st.lists(RUNS, min_size=1))
def test_first_of_equals(cuts):
    offsets = np.cumsum([0, *map(len, cuts)])
    parts = [np.array(runs) for runs in cuts]
    starts = [np.append(0, runs[:-1, 0].cumsum()) for runs in parts]
    runs = np.concatenate(
        [
            np.stack([start, np.append(start[1:], 9), runs[:, 1]], axis=1)
            for start, runs in zip(starts, parts, strict=True)
        ]
    )
    partitions = Partitions(runs, offsets)
    keys = [partitions[c].tolist() for c in range(len(cuts))]
    assert partitions.first_of_equals().tolist() == [keys.index(key) for key in keys]


@pytest.mark.slow
def test_all_199_labelings_and_scores_on_200_sets():
    rng = np.random.RandomState(7)
    for i in range(200):
        X = rng.standard_normal((rng.randint(6, 250), rng.randint(1, 25)))
        X += [0, 5, 20][i % 3] * rng.randint(4, size=(len(X), 1))
        X = np.round(X * 2) if i % 4 == 0 else X
        assert_all_labels_and_scores(X, n_scored=199)


def cut_at(height, reachability, core):
    sent = np.zeros(len(core), dtype=np.int64)
    heights = np.array([height])
    return all_cuts(reachability, core, sent, np.ones(len(core)), heights, np.empty(0), 1)


def test_a_cluster_may_have_a_hole_of_noise():
    """Rounding twice lets a reachability fall below the height at which its source is no core."""
    reachability = np.array([np.inf, 1.0, 3.0, 1.0, 1.0])
    core = np.array([1.0, 1.0, 3.0, 1.0, 1.0])
    runs, _ = cut_at(2.0, reachability, core)
    assert_array_equal(runs, [[0, 2, 0], [2, 3, -1], [3, 5, 0]])
    X = np.array([[0.0], [0.1], [5.0], [0.2], [0.4]])
    found = silhouette_scores(X, Partitions(runs, np.array([0, 3])))
    assert_allclose(found, [score(X, np.array([0, 0, -1, 0, 0]))], atol=1e-12)


def test_single_members_become_noise_and_labels_are_renumbered():
    reachability = np.array([np.inf, 1.0, 9.0, 9.0, 1.0, 1.0])
    runs, _ = cut_at(2.0, reachability, np.ones(6))
    assert_array_equal(runs, [[0, 2, 0], [2, 3, -1], [3, 6, 1]])
    assert_array_equal(without_single_members(np.array([0, 0, 1, 2, 2, 2])), [0, 0, -1, 1, 1, 1])


def test_scores_do_not_depend_on_threads():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((700, 2)) + 6 * rng.randint(3, size=(700, 1))
    ordering = order_by_reachability(X, 5)
    partitions = cut(ordering, 20, 20).partitions
    one, four = (silhouette_scores(X[ordering.order], partitions, n_jobs=n) for n in (1, 4))
    assert_array_equal(one, four)


def test_the_first_among_equals_is_chosen():
    assert best_of(np.array([0.1, 0.5, 0.5 + 1e-15, 0.2])) == 1
    assert best_of(np.array([-1.1, -1.1])) == 0


def test_candidates_say_why_one_was_chosen():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((300, 2)) + 20 * rng.randint(3, size=(300, 1))
    candidates = ROME().fit(X).candidates_
    table = candidates.to_dict()
    assert len({len(column) for column in table.values()}) == 1
    assert table["n_cuts"].sum() == 199
    assert len({tuple(candidates.labels(i)) for i in range(len(candidates))}) == len(candidates)
    assert candidates.chosen == best_of(table["score"])
    for i in range(len(candidates)):
        labels = candidates.labels(i)
        assert table["n_clusters"][i] == labels.max() + 1
        assert_allclose(table["noise_share"][i], np.mean(labels == -1))
        assert_allclose(table["score"][i], score(X, labels), atol=1e-10)
    assert "distinct of 199 cuts" in repr(candidates)
    with pytest.raises(ValueError, match="read-only"):
        candidates.scores[0] = 1.0


# Density-based validation


@given(samples(min_samples=6, max_samples=70), st.sampled_from([3, 5, 12]))
def test_dbcv_equals_the_definition(X, k):
    k = min(k, len(X))
    ordering = order_by_reachability(X, k)
    partitions = cut(ordering, 12, 11).partitions
    points = X[ordering.order]
    found = dbcv_scores(points, partitions, k)
    for index, value in enumerate(found):
        runs = partitions[index]
        labels = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0])
        assert_allclose(value, dbcv(points, labels, k), atol=1e-9)


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
    assert_allclose(nearest_distances(X, ones, blocks, k + 1)[0], expected[:, k], atol=1e-12)


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


def test_dbcv_does_not_depend_on_threads():
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
