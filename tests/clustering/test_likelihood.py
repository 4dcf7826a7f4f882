"""Clusters by likelihood: formulas beside plain loops, laws, and sets with known clusters."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from sevenhills.clustering import Points, cut, find_likely_clusters, order_by_reachability
from sevenhills.clustering.joining import min_cluster_size
from sevenhills.clustering.likelihood import Samples, join_cuts, split_clusters
from sevenhills.kernels.likelihood import contact_mass, join_along_tree

from ..strategies import samples


def refitted_log_likelihoods(X, labels):
    """Return the log likelihoods of rows by fitting Gaussians without each of them."""
    n, d = X.shape
    clusters = [X[labels == c] for c in range(labels.max() + 1)]
    scatters = [(part - part.mean(axis=0)).T @ (part - part.mean(axis=0)) for part in clusters]
    pooled = np.sum(scatters, axis=0) / sum(map(len, clusters))
    pooled += 1e-6 * np.trace(pooled) / d * np.eye(d)
    whole = np.cov(X.T, ddof=0).reshape(d, d)
    whole = whole + 1e-6 * np.trace(whole) / d * np.eye(d)
    outside = multivariate_normal(X.mean(axis=0), whole)
    out = []
    for i, label in enumerate(labels):
        if label < 0:
            share = max((labels < 0).sum() - 1, 0.5) / n
            out.append(outside.logpdf(X[i]) + np.log(share))
            continue
        others = np.delete(X, i, axis=0)[np.delete(labels, i) == label]
        apart = others - others.mean(axis=0)
        covariance = (apart.T @ apart + (d + 2) * pooled) / (len(others) + d + 2)
        value = multivariate_normal(others.mean(axis=0), covariance).logpdf(X[i])
        out.append(value + np.log(len(others) / (n - 1)))
    return np.array(out)


@given(st.integers(0, 2**31), st.integers(1, 4), st.booleans())
@settings(max_examples=50, deadline=None)
def test_leave_one_out_is_a_fit_without_the_sample(seed, n_features, has_outliers):
    rng = np.random.RandomState(seed)
    n_rows = rng.randint(8, 30)
    X = rng.standard_normal((n_rows, n_features)) * rng.uniform(0.1, 10, n_features)
    counts = rng.randint(1, 4, n_rows)
    labels = np.arange(n_rows) % 3 - has_outliers
    found = Samples(X, counts.astype(float)).log_likelihoods(labels)
    expected = refitted_log_likelihoods(np.repeat(X, counts, axis=0), np.repeat(labels, counts))
    assert_allclose(np.repeat(found, counts), expected, rtol=1e-6, atol=1e-6)


def joined_by_loop(labels, X, edges, lengths, least, reach):
    """Return labels in which parts have joined clusters, by sets of rows."""
    sizes = {c: int((labels == c).sum()) for c in set(labels.tolist()) - {-1}}
    kept = [c for c in sizes if sizes[c] >= least]
    variances = {c: X[labels == c].var(axis=0).sum() for c in kept}
    pooled = sum(sizes[c] * variances[c] for c in kept) / max(sum(sizes[c] for c in kept), 1)
    parts = [({i}, int(c) if c in kept else -1) for i, c in enumerate(labels)]
    for (a, b), length in zip(edges.tolist(), lengths, strict=True):
        (one,), (other,) = ([part for part in parts if i in part[0]] for i in (a, b))
        if one is other or (one[1] >= 0 and other[1] >= 0):
            continue
        label = max(one[1], other[1])
        if label < 0 or length <= reach * np.sqrt(max(variances[label], pooled)):
            parts = [part for part in parts if part is not one and part is not other]
            parts.append((one[0] | other[0], label))
    out = np.empty(len(labels), dtype=np.int64)
    for rows, label in parts:
        out[list(rows)] = label
    return out


@given(st.integers(0, 2**31))
@settings(max_examples=100, deadline=None)
def test_parts_join_along_the_tree_as_in_a_plain_loop(seed):
    rng = np.random.RandomState(seed)
    n_rows = rng.randint(12, 60)
    X = rng.standard_normal((n_rows, 2)) * 10.0 ** rng.uniform(-2, 2, (n_rows, 1))
    labels = rng.randint(-2, 3, n_rows).clip(-1)
    edges = np.stack([np.arange(1, n_rows), rng.randint(np.arange(1, n_rows))], axis=1)
    lengths = np.sort(rng.exponential(size=n_rows - 1))
    found, parents = np.zeros(n_rows, dtype=np.int64), np.empty(2 * n_rows, dtype=np.int64)
    arguments = X, np.ones(n_rows), edges, lengths, 5, 2.0, 1.0, parents, found
    n_clusters = join_along_tree(labels, *arguments)
    expected = joined_by_loop(labels, X, edges, lengths, 5, 2.0)
    if n_clusters == 0:
        assert (expected < 0).all()
        assert not found.any()
    else:
        assert n_clusters == found.max() + 1
        assert_array_equal(found < 0, expected < 0)
        pairs = set(zip(found.tolist(), expected.tolist(), strict=True))
        assert len(pairs) == len(set(found.tolist())) == len(set(expected.tolist()))


def test_contacts_are_samples_with_a_neighbor_in_the_other_piece():
    rng = np.random.RandomState(0)
    X, weights, core = rng.uniform(size=(80, 2)), rng.uniform(size=80), rng.uniform(0, 0.2, 80)
    apart = np.linalg.norm(X[:50, None] - X[50:], axis=2)
    expected = weights[:50] @ (apart <= core[:50, None]).any(axis=1)
    found = contact_mass(X, weights, core, np.arange(50), np.arange(50, 80), np.inf)
    assert_allclose(found, expected)


def check(points, found):
    """Check that labels are valid: numbered by their first points, pieces inside clusters."""
    for labels in (found.clusters, found.pieces):
        assert labels.shape == (len(points.X),)
        inside = labels[labels >= 0]
        values, firsts = np.unique(inside, return_index=True)
        assert_array_equal(values, np.arange(len(values)))
        assert (np.diff(firsts) > 0).all()
        assert len(values) > 0
    assert_array_equal(found.clusters < 0, found.pieces < 0)
    pairs = set(zip(found.pieces.tolist(), found.clusters.tolist(), strict=True))
    assert len(pairs) == len(set(found.pieces.tolist()))
    if found.points.candidates is not None:
        found.points.candidates._validate()
        found.points.row_clusters().candidates._validate()


@given(samples(scales=(1.0, 1e-150, 1e150)), st.integers(0, 2**31))
@settings(max_examples=80, deadline=None)
def test_labels_are_valid_for_any_samples(X, seed):
    weights = np.random.RandomState(seed).randint(1, 4, len(X)).astype(float)
    for given_weights in (None, weights, weights / 3):
        points = Points.from_samples(X, given_weights)
        check(points, find_likely_clusters(points))


@given(samples(min_samples=30, max_samples=120), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_a_weight_is_a_number_of_equal_rows(X, seed):
    weights = np.random.RandomState(seed).randint(1, 4, len(X))
    points = Points.from_samples(X, weights.astype(float))
    repeated = Points.from_samples(np.repeat(X, weights, axis=0))
    one, other = (
        replace(each, labels=find_likely_clusters(each).clusters).row_labels()
        for each in (points, repeated)
    )
    assert_array_equal(np.repeat(one, weights), other)


def test_order_of_rows_and_features_does_not_matter():
    rng = np.random.RandomState(3)
    for n_features in (1, 2, 5):
        X = rng.standard_normal((200, n_features)) + 6 * rng.randint(3, size=(200, 1))
        rows, features = rng.permutation(200), rng.permutation(n_features)
        labels = []
        for each in (X, X[rows][:, features]):
            points = Points.from_samples(each)
            labels.append(
                replace(points, labels=find_likely_clusters(points).clusters).row_labels()
            )
        assert_array_equal(labels[0][rows], labels[1])


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_values_near_one_another_are_no_crash(n_features):
    rng = np.random.RandomState(1)
    X = rng.standard_normal((400, n_features))
    X[:240, 0] *= 1e-6
    points = Points.from_samples(X)
    found = find_likely_clusters(points)
    check(points, found)
    assert found.clusters.max() <= 2
    equal = Points.from_samples(np.ones((30, n_features)))
    assert_array_equal(find_likely_clusters(equal).clusters, [0])


def test_an_outlier_joins_no_cluster():
    rng = np.random.RandomState(1)
    X = np.concatenate([rng.standard_normal((300, 2)), [[1e9, 0.0]]])
    points = Points.from_samples(X)
    labels = replace(points, labels=find_likely_clusters(points).clusters).row_labels()
    assert_array_equal(labels, np.append(np.zeros(300), -1))


def gaussian(rng, shape):
    return rng.standard_normal(shape)


def heavy(rng, shape):
    return rng.standard_normal(shape) * np.sqrt(3 / rng.chisquare(3, size=(shape[0], 1)))


def banana(rng, shape):
    X = rng.standard_normal(shape)
    X[:, -1] += 0.5 * X[:, 0] ** 2
    return X


@pytest.mark.parametrize("n_features", [2, 5, 10])
@pytest.mark.parametrize("law", [gaussian, heavy, banana])
def test_samples_of_one_cluster_are_one_cluster(law, n_features):
    numbers = [
        find_likely_clusters(
            Points.from_samples(law(np.random.RandomState(s), (300, n_features)))
        ).clusters.max()
        for s in range(5)
    ]
    assert np.count_nonzero(numbers) == 0


@pytest.mark.parametrize("draw", [make_moons, partial(make_circles, factor=0.5)])
def test_bent_clusters_are_found(draw):
    indices = []
    for seed in range(4):
        X, y = draw(1000, noise=0.05, random_state=seed)
        points = Points.from_samples(X)
        found = find_likely_clusters(points)
        assert found.pieces.max() > found.clusters.max()
        labels = replace(points, labels=found.clusters).row_labels()
        indices.append(adjusted_rand_score(y, labels))
    assert np.mean(indices) > 0.9


@pytest.mark.parametrize("n_features", [2, 10])
def test_gaussian_clusters_are_found(n_features):
    rng = np.random.RandomState(0)
    y = rng.randint(4, size=400)
    X = 3 * rng.standard_normal((4, n_features))[y] + rng.standard_normal((400, n_features)) / 2
    points = Points.from_samples(X)
    labels = replace(points, labels=find_likely_clusters(points).clusters).row_labels()
    assert adjusted_rand_score(y, labels) > 0.95


def test_overlapping_gaussians_are_split():
    rng = np.random.RandomState(0)
    y = rng.randint(2, size=600)
    X = rng.standard_normal((600, 3)) + np.multiply.outer(4 * y, [1.0, 0.0, 0.0])
    pieces = split_clusters(Samples(X, np.ones(600)), np.zeros(600, dtype=np.int64))
    assert pieces.max() == 1
    assert adjusted_rand_score(y, pieces) > 0.85


def test_the_first_joined_candidate_is_one_cluster():
    X = np.random.RandomState(0).standard_normal((100, 2))
    points = Points.from_samples(X)
    ordering = order_by_reachability(points.places())
    cuts = cut(ordering)
    labelings, index = join_cuts(Samples(points.X, points.weights), points, ordering, cuts)
    assert not labelings[0].any()
    assert len(index) == len(cuts)
    assert set(index) | {0} == set(range(len(labelings)))
    for labels in labelings:
        sizes = np.bincount(labels[labels >= 0])
        assert sizes.min() >= min_cluster_size(2)


def test_a_constant_feature_changes_nothing():
    x = np.random.RandomState(0).standard_normal((200, 1))
    one, other = (
        find_likely_clusters(Points.from_samples(X)) for X in (x, np.hstack([x, np.zeros_like(x)]))
    )
    assert_array_equal(one.clusters, other.clusters)
