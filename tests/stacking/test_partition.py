"""Which samples form cells, and the sum of the densities of cells."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from sevenhills import datasets
from sevenhills.clustering.joining import join_small
from sevenhills.covariance import left_out_log_density
from sevenhills.stacking import OUTLIER, Partition, fit_cells, join_overlapping, split_by_category

from ..strategies import samples, wild_weights
from .cases import blobs, crescent, random_state

seeds = st.integers(0, 2**31)


def two_moons(n_samples, seed):
    return datasets.load("two_moons").sample(n_samples, random_state=seed)


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 0.0, 1e5)])
def test_a_feature_of_a_few_values_splits(values):
    rng = random_state(0)
    chosen = rng.randint(len(values), size=150)
    X = np.stack([rng.standard_normal(150), np.array(values)[chosen]], axis=1)
    found = split_by_category(X, np.ones(150), np.zeros(150, dtype=int))
    assert_array_equal(found, chosen)
    outliers = np.where(np.arange(150) < 3, OUTLIER, 0)
    found = split_by_category(X, np.ones(150), outliers)
    assert_array_equal(found, np.where(outliers == OUTLIER, OUTLIER, chosen))


def test_two_such_features_split_in_turn():
    rng = random_state(0)
    X = rng.randint(2, size=(400, 2)).astype(float)
    found = split_by_category(X, np.ones(400), np.zeros(400, dtype=int))
    assert_array_equal(found, 2 * X[:, 0] + X[:, 1])


@given(seeds, st.integers(1, 400), st.integers(1, 4))
def test_continuous_samples_are_not_split(seed, n_samples, n_features):
    X = random_state(seed).standard_normal((n_samples, n_features))
    labels, ones = np.zeros(n_samples, dtype=int), np.ones(n_samples)
    assert_array_equal(split_by_category(X, ones, labels), labels)
    X[:, 0] = 1.0  # one value tells nothing apart
    assert_array_equal(split_by_category(X, ones, labels), labels)


def test_rare_values_stay_together():
    rng = random_state(0)
    value = np.repeat([0.0, 1.0, 2.0, 3.0], [90, 90, 4, 3])
    X = np.stack([value, rng.standard_normal(len(value))], axis=1)
    found = split_by_category(X, np.ones(len(value)), np.zeros(len(value), dtype=int))
    assert set(found) == {0, 1}  # too few to be a cluster
    assert len(set(found[value >= 2])) == 1
    value = np.repeat([0.0, 1.0, 2.0, 3.0], [90, 90, 8, 8])
    X = np.stack([value, rng.standard_normal(len(value))], axis=1)
    found = split_by_category(X, np.ones(len(value)), np.zeros(len(value), dtype=int))
    assert_array_equal(found, np.minimum(value, 2))  # enough together


@given(seeds, st.integers(1, 4))
def test_splits_of_weights_are_those_of_repeated_rows(seed, n_values):
    rng = random_state(seed)
    X = np.stack([rng.randint(n_values, size=60), rng.standard_normal(60)], axis=1)
    repeats, labels = rng.randint(1, 4, size=60), rng.randint(-1, 2, size=60)
    labels[:2] = 0, 1
    found = split_by_category(X, repeats.astype(float), labels)
    copies = np.repeat(X, repeats, axis=0), np.ones(repeats.sum()), np.repeat(labels, repeats)
    assert_array_equal(np.repeat(found, repeats), split_by_category(*copies))


# Cells


def without_one(X, weights, row):
    """Weights without one sample of a row, or without the row if it weighs less."""
    weights = weights.copy()
    weights[row] -= min(1.0, weights[row])
    return weights


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 3.0), (0.5, 1.0, 2.5)])
@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_left_out_densities_are_those_of_fits_without_a_sample(weights, n_features):
    rng = random_state(n_features)
    X, weights = rng.standard_normal((30, n_features)), rng.choice(weights, size=30)
    rows, pooled = np.arange(0, 30, 2), np.eye(n_features) + 0.5
    found = left_out_log_density(X, weights, rows, pooled)
    prior = n_features + 2
    for i in range(30):
        own = without_one(X, weights, i)[rows] if i in rows else weights[rows]
        mean = np.average(X[rows], axis=0, weights=own)
        scatter = (X[rows] - mean).T @ (own[:, None] * (X[rows] - mean))
        S = (scatter + prior * pooled) / (own.sum() + prior)
        expected = multivariate_normal(mean, S).logpdf(X[i]) + np.log(weights[rows].sum())
        constant = 0.5 * n_features * np.log(2 * np.pi)
        assert_allclose(found[i], expected + constant, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_features", [1, 2, 6])
@pytest.mark.parametrize(("apart", "n_cells"), [(20.0, 3), (2.0, 1)])
def test_clusters_that_overlap_are_one_cell(n_features, apart, n_cells):
    X, group = blobs([40, 60, 50], apart / np.sqrt(n_features), n_features)
    found = join_overlapping(X, np.ones(150), group, group)
    assert_array_equal(found, group if n_cells == 3 else 0)


def test_one_of_three_clusters_is_apart():
    X, group = blobs([60, 60, 60], apart=0.0)
    X += np.array([[0.0, 0.0], [30.0, 0.0], [2.5, 0.0]])[group]
    assert_array_equal(join_overlapping(X, np.ones(180), group, group), np.array([0, 1, 0])[group])


def test_bent_clusters_overlap_where_their_pieces_do():
    """One Gaussian for each cluster would cover the other."""
    angle = random_state(0).uniform(0, np.pi, 400)
    ring = (
        np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.where(angle > 0, 10.0, 0.0)[:, None]
    )
    ring += 0.3 * random_state(1).standard_normal((400, 2))
    inside = 0.3 * random_state(2).standard_normal((100, 2)) + [0.0, 4.0]
    X, clusters = np.concatenate([ring, inside]), np.repeat([0, 1], [400, 100])
    pieces = np.append((angle * 8 / np.pi).astype(int), np.full(100, 8))
    assert_array_equal(join_overlapping(X, np.ones(500), clusters, pieces), clusters)
    assert_array_equal(join_overlapping(X, np.ones(500), clusters, clusters), 0)


def test_outliers_are_in_no_cell():
    X, group = blobs([30, 30], apart=2.0)
    clusters = np.where(np.arange(60) % 10 == 0, OUTLIER, group)
    found = join_overlapping(X, np.ones(60), clusters, clusters)
    assert_array_equal(found, np.where(clusters == OUTLIER, OUTLIER, 0))
    # A piece of which all samples are outliers is none, and samples may be in no piece.
    pieces = np.where(clusters == OUTLIER, 0, np.where(np.arange(60) % 7 == 0, OUTLIER, group + 1))
    assert_array_equal(join_overlapping(X, np.ones(60), clusters, pieces), found)


@pytest.mark.parametrize("values", [(0.0,), (0.0, 1.0)])
def test_features_of_one_value_within_clusters_are_no_crash(values):
    rng = random_state(0)
    group = np.repeat([0, 1], 40)
    column = np.array(values)[group % len(values)]
    X = np.stack([rng.standard_normal(80), column, np.zeros(80)], axis=1)
    X[:, 2] = X[:, 0]
    found = join_overlapping(X, np.ones(80), group, group)
    assert_array_equal(found, group if len(values) == 2 else 0)


@given(seeds, st.sampled_from([1e-3, 1.0, 1e3]))
def test_cells_do_not_depend_on_order_and_units(seed, unit):
    rng = random_state(seed)
    X, group = blobs([20, 30, 25], apart=rng.uniform(1, 8), seed=seed % 1000)
    weights = rng.randint(1, 4, size=75).astype(float)
    expected = join_overlapping(X, weights, group, group)
    rows = rng.permutation(75)
    found = join_overlapping(X[rows], weights[rows], group[rows], group[rows])
    assert_array_equal(found, expected[rows])
    scaled = X[:, ::-1] * [unit, 1.0]
    assert_array_equal(join_overlapping(scaled, weights, group, group), expected)


@given(samples(min_samples=1, max_samples=60, max_features=4), wild_weights(60, 60), seeds)
def test_any_samples_have_cells(X, weights, seed):
    weights = weights[: len(X)]
    pieces = random_state(seed).randint(-1, 4, size=len(X))
    clusters = join_small(X, weights, pieces)
    found = join_overlapping(X, weights, clusters, pieces)
    assert_array_equal(found == OUTLIER, clusters == OUTLIER)
    inside = found[found != OUTLIER]
    assert_array_equal(np.unique(inside), np.arange(inside.max() + 1))
    pairs = set(zip(clusters.tolist(), found.tolist(), strict=True))
    assert len(pairs) == len(set(clusters.tolist()))  # a cluster is in one cell


# Densities


def fitted(X, weights, labels, min_std=0.0, seed=0, clusters=None):
    """Return a partition with its fits and density; cells are clusters unless these are given."""
    clusters = labels if clusters is None else clusters
    partition = Partition.from_labels(
        X, weights, labels, clusters, clusters, min_std, np.ones(X.shape[1])
    )
    fits = fit_cells(partition.cells(random_state(seed)))
    return SimpleNamespace(
        partition=partition,
        fits=fits,
        density=partition.density(fits),
        held_out=partition.held_out([fit.held_out for fit in fits]),
    )


def test_clusters_that_are_apart_are_more_likely_than_one():
    X, group = blobs([15, 15], n_features=1)
    one, two = (fitted(X, np.ones(30), labels) for labels in (np.zeros(30, dtype=int), group))
    assert two.held_out > one.held_out


def test_held_out_scores_are_those_of_rows():
    X, group = blobs([40, 60])
    found = fitted(X, np.ones(100), group)
    scores = found.partition.scores(found.fits)
    assert scores.shape == (100,)
    assert_allclose(scores.mean(), found.held_out)


def test_the_background_is_wide_and_light():
    X = random_state(0).standard_normal((1000, 2)) @ [[2.0, 1.0], [0.0, 0.5]]
    density = fitted(X, np.ones(1000), np.zeros(1000, dtype=int)).density
    far = X.mean(axis=0) + 500 * X.std(axis=0) * np.array([[1.0, 0.0], [0.0, -1.0]])
    assert (density.logpdf(far) > -80).all()
    sample = np.cov(X.T, ddof=0)
    assert np.linalg.norm(density.cov() - sample) < 0.01 * np.linalg.norm(sample)
    behind = density.clusters == OUTLIER
    assert_allclose(
        density.weights[np.repeat(behind, np.diff(density.offsets))].sum(), 1e-4, rtol=1e-3
    )
    assert behind.sum() == 10


def test_kernels_are_in_the_cluster_of_the_nearest_sample():
    """Overlapping clusters share a cell, and others have their own."""
    X, group = blobs([80, 80, 80], apart=0.0)
    X += np.array([[0.0, 0.0], [6.0, 0.0], [100.0, 0.0]])[group]
    cells = np.array([0, 0, 1])[group]
    found = fitted(X, np.ones(240), cells, clusters=group)
    assert_array_equal(np.unique(found.density.clusters), [OUTLIER, 0, 1, 2])
    assert np.mean(found.density.predict(X) == group) > 0.98
    # Labels change no density.
    cell, rows = found.fits[0].density, np.flatnonzero(cells == 0)
    labeled = found.partition._in_clusters(cell, rows)
    points = found.partition.points
    assert_allclose(labeled.logpdf(points), cell.logpdf(points), rtol=1e-9)


@pytest.mark.parametrize("single", [12.01, 24.0])
def test_rows_that_repeat_are_in_training_and_test(single):
    """Kernels on values that repeat do well on samples that repeat them."""
    X = np.append(np.arange(24.0), single)[:, None]
    labels, weights = np.zeros(25, dtype=int), np.append(np.full(24, 40.0), 1.0)
    density = fitted(X, weights, labels, 0.01).density
    assert density.logpdf(X).mean() > density.logpdf(X + 0.5).mean() + 2


def test_rows_that_all_repeat_are_no_counts():
    """No spikes, then."""
    X, labels = blobs([60], n_features=2)
    for weights in (np.full(60, 3.0), random_state().uniform(100, 900, 60)):
        density = fitted(X, weights, labels).density
        assert density.logpdf(X).mean() < density.logpdf(X + 0.1).mean() + 1


def test_densities_of_clusters_are_weighted():
    X, group = blobs([20, 40], n_features=1)
    weights = np.where(group == 0, 6.0, 1.0)
    found = fitted(X, weights, group)
    drawn = found.density.sample(4000, random_state=0)[:, 0]
    assert_allclose(np.mean(drawn < 50), 120 / 160, atol=0.03)


def test_heavy_samples_pull():
    X = np.linspace(-1, 1, 41)[:, None]
    weights = np.where(X[:, 0] > 0, 9.0, 1.0)
    found = fitted(X, weights, np.zeros(41, dtype=int))
    drawn = found.density.sample(4000, random_state=0)[:, 0]
    assert_allclose(drawn.mean(), np.average(X[:, 0], weights=weights), atol=0.05)


@pytest.mark.parametrize("X", [crescent(), two_moons(120, 1)], ids=["crescent", "moons"])
def test_weights_near_one_change_little(X):
    labels = np.zeros(len(X), dtype=int)
    near = np.exp(1e-7 * random_state(1).standard_normal(len(X)))
    near *= (len(X) + 1e-6) / near.sum()
    one, other = (fitted(X, weights, labels) for weights in (np.ones(len(X)), near))
    assert [fit.stack.members for fit in one.fits] == [fit.stack.members for fit in other.fits]
    assert_allclose(other.held_out, one.held_out, atol=1e-5)
    assert_allclose(other.density.logpdf(X), one.density.logpdf(X), atol=1e-4)


def test_weights_that_tell_nothing_do_not_spoil_the_fit():
    """No fit is judged by parts of samples that it has seen."""
    moons = two_moons(120, 1)
    labels, weights = np.zeros(len(moons), dtype=int), random_state(0).uniform(0.7, 1.3, 120)
    one, other = (fitted(moons, each, labels).density for each in (np.ones(120), weights))
    new = two_moons(500, 2)
    assert abs(one.logpdf(new).mean() - other.logpdf(new).mean()) < 0.1


@settings(max_examples=15)
@given(samples(min_samples=1, max_samples=50, max_features=4), wild_weights(50, 50), seeds)
@pytest.mark.whole
def test_any_weights_give_a_finite_density(X, weights, seed):
    X = np.unique(X, axis=0)
    weights = weights[: len(X)]
    labels = random_state(seed).randint(-1, 3, size=len(X))
    min_std = 0.1 if len(X) == 1 else 0.0
    found = fitted(X, weights, join_small(X, weights, labels), min_std, seed)
    assert np.isfinite(found.density.logpdf(X)).all()
    assert np.isfinite(found.density.sample(5, random_state=0)).all()
    assert np.isfinite(found.held_out)
    for fit in found.fits:
        assert np.isfinite([fit.stack.gain, fit.stack.gain_error, fit.held_out]).all()


def test_the_number_of_samples_is_named_where_they_have_no_spread():
    with pytest.raises(ValueError, match="n_samples = 7"):
        fitted(np.ones((1, 2)), np.array([7.0]), np.zeros(1, dtype=int))
