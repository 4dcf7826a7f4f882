import time
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.cluster import OPTICS

from sevenhills.clustering import neighbors_for, order_by_reachability
from sevenhills.clustering.nearest import nearest_neighbors
from sevenhills.clustering.optics import _find_floors
from sevenhills.kernels.blocks import build_blocks, build_rotated_blocks
from sevenhills.kernels.direct_ordering import order_few_points
from sevenhills.kernels.ordering import _link, order_points

from ..oracles import plain_links, plain_optics
from ..strategies import samples


@pytest.fixture(params=["list", "tree"])
def way(request, monkeypatch):
    """Boxes of points in a list, or in a tree, for any number of points."""
    few = {"list": 10_000, "tree": 0}[request.param]
    monkeypatch.setattr("sevenhills.clustering.optics._FEW", few)


def assert_same_ordering(ordering, order, reachability, core, predecessor):
    assert_array_equal(ordering.core_distances, core)
    assert_array_equal(ordering.order, order)
    assert_array_equal(ordering.reachability, reachability)
    assert_array_equal(ordering.predecessor, predecessor)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(samples(max_samples=200, max_features=24, scales=(1e-6, 1.0, 100.0, 1e8)))
def test_equals_a_plain_optics(way, X):
    k = neighbors_for(*X.shape, 5, 20, 400)
    assert_same_ordering(order_by_reachability(X, k), *plain_optics(X, k))


@pytest.mark.parametrize("seed", range(6))
def test_equals_scikit_learn_to_the_bit(seed):
    rng = np.random.RandomState(seed)
    assert_equals_scikit_learn(rng)


@pytest.mark.slow
def test_equals_scikit_learn_to_the_bit_on_200_sets():
    rng = np.random.RandomState(2024)
    for _ in range(200):
        assert_equals_scikit_learn(rng)


def assert_equals_scikit_learn(rng):
    X = rng.standard_normal((rng.randint(5, 600), rng.randint(1, 25)))
    X = [X, np.round(X), np.round(X, 1) * 100, X + 9 * rng.randint(3, size=(len(X), 1))][
        rng.randint(4)
    ]
    X = X[rng.randint(len(X), size=len(X))] if rng.randint(3) == 0 else X
    k = neighbors_for(*X.shape, 5, 20, 400)
    optics = OPTICS(min_samples=k, algorithm="kd_tree", cluster_method="dbscan").fit(X)
    assert_same_ordering(
        order_by_reachability(X, k),
        optics.ordering_,
        optics.reachability_,
        optics.core_distances_,
        optics.predecessor_,
    )


@pytest.mark.parametrize("n_features", [1, 2, 5, 24])
def test_lists_and_trees_agree_on_thousands_of_rows(n_features):
    rng = np.random.RandomState(n_features)
    X = rng.standard_normal((2500, n_features)) * rng.choice([0.1, 1.0, 5.0], (2500, 1))
    X[:800] = np.round(X[:800] + 4, 1)
    found = []
    for few in (10_000, 0):
        with mock.patch("sevenhills.clustering.optics._FEW", few):
            found.append(order_by_reachability(X))
    one, other = found
    assert_same_ordering(
        one, other.order, other.reachability, other.core_distances, other.predecessor
    )


def test_many_messages_wait_at_once(monkeypatch):
    """Two far clusters fill the first room for messages, which has to grow."""
    monkeypatch.setattr("sevenhills.clustering.optics._FEW", 0)
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.standard_normal((1500, 3)), rng.standard_normal((1500, 3)) * 3 + 30])
    assert_same_ordering(order_by_reachability(X, 15), *plain_optics(X, 15))


@given(samples(min_samples=2, max_samples=150, max_features=8), st.data())
def test_boxes_in_a_list_give_what_the_tree_gives(X, data):
    """With any weights and numbers of links, to the bit."""
    rng = np.random.RandomState(data.draw(st.integers(0, 1000)))
    weights = rng.choice([[0.1, 0.5, 1.0, 2.0, 7.5], [1.0] * 5][rng.randint(2)], len(X))
    mass = rng.uniform(0.05, 1.0) * weights.sum()
    fewest_rotated = data.draw(st.sampled_from([0, 1000]))
    with mock.patch.multiple(
        "sevenhills.kernels.direct_ordering", _BLOCK_SIZE=8, _FEWEST_ROTATED=fewest_rotated
    ):
        found = order_few_points(X, weights, mass)
    blocks, coordinates = build_rotated_blocks(X, 16)
    rows, blocks = blocks.order, blocks.renumbered()
    X, coordinates, weights = X[rows], coordinates[rows], weights[rows]
    n_links, spare = rng.randint(1, len(X) + 1), rng.choice([1.0, 1.4, 3.0])
    core, neighbors = nearest_neighbors(X, weights, blocks, mass, n_links, spare=spare)
    core = np.around(core, 15)
    floors = _find_floors(X, blocks, core, neighbors, None)
    order, reachability, predecessor = order_points(
        X, coordinates, blocks, core, neighbors, *floors, rows, lambda part: None
    )
    assert_array_equal(rows[order], found[0])
    assert_array_equal(reachability, found[1][rows])
    assert_array_equal(core, found[2][rows])
    assert_array_equal(np.append(rows, -1)[predecessor], found[3][rows])


@given(samples(min_samples=1, max_samples=100, max_features=4), st.integers(1, 12))
def test_links_and_floors(X, k):
    """A pair without a link is not closer than the floors of both, and links go both ways.

    Points that are surrounded offer to their own neighbors only.
    """
    k = min(k, len(X))
    rng = np.random.RandomState(len(X))
    weights = rng.choice([0.5, 1.0, 3.0], len(X))
    blocks = build_blocks(X, 8)
    neighbors = nearest_neighbors(X, weights, blocks, min(k, weights.sum()), k)[1]
    floors = _find_floors(X, blocks, np.zeros(len(X)), neighbors, None)[0]
    surrounded = rng.uniform(size=len(X)) < 0.5
    starts, links = _link(neighbors, surrounded)
    linked, expected_floors = plain_links(X, neighbors)
    assert_array_equal(floors, expected_floors)
    for i in range(len(X)):
        found = links[starts[i] : starts[i + 1]]
        if surrounded[i]:
            assert len(found) == 0
        else:
            found = np.concatenate([neighbors[i, neighbors[i] >= 0], found])
            assert_array_equal(np.sort(found[found != i]), np.flatnonzero(linked[i]))
        apart = np.setdiff1d(np.arange(len(X)), [i, *np.flatnonzero(linked[i])])
        distances = np.sqrt(((X[i] - X[apart]) ** 2).cumsum(axis=1)[:, -1]).round(15)
        assert (distances >= np.maximum(expected_floors[i], expected_floors[apart])).all()


@pytest.mark.parametrize("decimals", [1, 16])
def test_surrounded_points(decimals):
    """Of all that is beyond the floor of such a point, one of its neighbors is nearer."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((2000, 2)).round(decimals)
    blocks = build_blocks(X, 64)
    core, neighbors = nearest_neighbors(X, np.ones(len(X)), blocks, 10, 14, spare=1.4)
    floors, surrounded = _find_floors(X, blocks, core, neighbors, None)
    assert 0.1 < surrounded.mean() < 0.9
    angles = rng.uniform(0, 2 * np.pi, 300)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for i in np.flatnonzero(surrounded)[::20]:
        far = floors[i] * (1 + rng.exponential(size=300) * (np.arange(300) > 99))
        there, near = X[i] + far[:, None] * directions, neighbors[i]
        offers = np.linalg.norm(there[:, None] - X[near], axis=2)
        offers = np.maximum(offers, np.maximum(core[near], np.linalg.norm(X[i] - X[near], axis=1)))
        assert (offers.min(axis=1) < far).all()


@pytest.mark.parametrize("scale", [1e-11, 1e-3, 1.0, 1e9])
@pytest.mark.parametrize("decimals", [1, 16])
def test_many_points_in_a_plane(scale, decimals):
    """Dense and sparse clusters, outliers and, with few decimals, a grid of equal distances."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((1500, 2)) * np.repeat([0.1, 1.0, 3.0], 500)[:, None]
    X += np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 30.0]], 500, axis=0)
    X[::100] *= 100
    X = X.round(decimals) * scale
    assert_same_ordering(order_by_reachability(X, 10), *plain_optics(X, 10))


@pytest.mark.parametrize("n_features", [2, 24])
def test_threads_do_not_change_an_ordering(n_features, monkeypatch):
    monkeypatch.setattr("sevenhills.clustering.optics._FEW", 0)
    X = np.random.RandomState(0).standard_normal((2500, n_features))
    one, two = order_by_reachability(X, 9), order_by_reachability(X, 9, n_jobs=2)
    assert_same_ordering(two, one.order, one.reachability, one.core_distances, one.predecessor)


def test_all_rows_equal(way):
    ordering = order_by_reachability(np.ones((200, 3)), 5)
    assert_array_equal(ordering.order, np.arange(200))
    assert_array_equal(ordering.reachability[1:], 0.0)
    assert_array_equal(ordering.predecessor, np.where(np.arange(200) == 0, -1, 0))


@given(samples(max_samples=300, max_features=4))
def test_blocks_hold_every_point_once_inside_its_boxes(X):
    blocks = build_blocks(X, leaf_size=16)
    n_leaves = len(blocks.sizes)
    found = []
    for leaf in range(n_leaves):
        members = blocks.members[leaf, : blocks.sizes[leaf]]
        found.extend(members)
        assert (np.diff(members) > 0).all()
        assert_array_equal(blocks.columns[leaf, :, : len(members)], X[members].T)
        node = n_leaves - 1 + leaf
        while True:
            assert (X[members] >= blocks.lower[node]).all()
            assert (X[members] <= blocks.upper[node]).all()
            if node == 0:
                break
            node = (node - 1) // 2
    assert sorted(found) == list(range(len(X)))


def assert_halved(X, blocks, node, rows):
    """The box is tight, and the children hold the halves along its widest feature."""
    assert_array_equal(blocks.lower[node], X[rows].min(axis=0))
    assert_array_equal(blocks.upper[node], X[rows].max(axis=0))
    n_leaves = len(blocks.sizes)
    if node >= n_leaves - 1:
        return
    left, right = (leaf_members(blocks, 2 * node + side) for side in (1, 2))
    assert len(left) == len(rows) // 2
    assert_array_equal(np.sort(np.concatenate([left, right])), np.sort(rows))
    widest = np.argmax(blocks.upper[node] - blocks.lower[node])
    assert X[left, widest].max() <= X[right, widest].min()
    assert_halved(X, blocks, 2 * node + 1, left)
    assert_halved(X, blocks, 2 * node + 2, right)


def leaf_members(blocks, node):
    """The points in all leaves below a node."""
    n_leaves = len(blocks.sizes)
    if node >= n_leaves - 1:
        leaf = node - n_leaves + 1
        return blocks.members[leaf, : blocks.sizes[leaf]]
    return np.concatenate([leaf_members(blocks, 2 * node + side) for side in (1, 2)])


@given(samples(min_samples=1, max_samples=300, max_features=4), st.integers(2, 40))
def test_blocks_are_the_halves_of_halves(X, leaf_size):
    blocks = build_blocks(X, leaf_size)
    assert blocks.sizes.max() <= leaf_size
    assert_halved(X, blocks, 0, np.arange(len(X)))


@pytest.mark.parametrize("order", ["up", "down", "organ pipe", "comb", "ties"])
def test_no_order_of_points_makes_slow_blocks(order):
    """With a pivot from fixed places some of these would take minutes."""
    n_points = 200_000
    up = np.arange(n_points, dtype=float)
    x = {
        "up": up,
        "down": -up,
        "organ pipe": -np.abs(up - n_points / 2),
        "comb": up % 447,
        "ties": up // 50_000,
    }[order]
    start = time.process_time()
    blocks = build_blocks(x[:, None], 64)
    assert time.process_time() - start < 5
    assert_array_equal(blocks.lower[len(blocks.sizes) - 1 :, 0], np.sort(x)[leaf_starts(blocks)])


def leaf_starts(blocks):
    return np.cumsum(blocks.sizes) - blocks.sizes


@pytest.mark.parametrize(
    ("n_samples", "n_features", "expected"),
    [(3000, 2, 15), (3000, 24, 20), (100, 24, 6), (10, 1, 5), (4, 2, 4)],
)
def test_number_of_neighbours(n_samples, n_features, expected):
    assert neighbors_for(n_samples, n_features, 5, 20, 400) == expected
