"""Which samples form clusters, and the sum of the densities of clusters."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from sevenhills import datasets
from sevenhills.stacking import OUTLIER, Partition, join_small, merge_unstable, split_by_category
from sevenhills.stacking.partition import adjusted_rand

from ..strategies import repeats_of, samples, wild_weights
from .cases import blobs, crescent, random_state

seeds = st.integers(0, 2**31)


def two_moons(n_samples, seed):
    return datasets.load("two_moons").sample(n_samples, random_state=seed)


@given(seeds, st.integers(1, 60), st.integers(1, 5), st.integers(1, 5))
def test_it_is_scikit_learns_of_repeated_rows(seed, n_rows, n_here, n_there):
    rng = random_state(seed)
    here, there = rng.randint(n_here, size=n_rows), rng.randint(-1, n_there, size=n_rows)
    if rng.uniform() < 0.5:
        there = np.where(rng.uniform(size=n_rows) < 0.1, there, here)
    repeats = repeats_of(n_rows, seed)
    expected = adjusted_rand_score(np.repeat(here, repeats), np.repeat(there, repeats))
    assert_allclose(adjusted_rand(here, there, repeats.astype(float)), expected, atol=1e-12)


@given(wild_weights())
def test_any_weights(weights):
    labels = np.arange(len(weights)) % 3
    assert adjusted_rand(labels, 2 - labels, weights) == 1
    assert adjusted_rand(labels, np.arange(len(weights)) % 2, weights) <= 1


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


def test_clusters_that_change_without_some_samples_are_merged():
    X, group = blobs([15, 15], n_features=1)
    calls = []

    def fickle(rows, weights):
        calls.append(weights.sum())
        return np.arange(len(rows)) % 2

    torn, n_fragments = merge_unstable(X, np.ones(30), group, fickle, random_state())
    assert n_fragments == 2
    assert_array_equal(torn, 0)
    assert calls == [24]
    firm, n_fragments = merge_unstable(X, np.ones(30), group, right_of(50), random_state())
    assert n_fragments == 0
    assert_array_equal(firm, group)
    one, two = (fitted(X, np.ones(30), labels) for labels in (torn, firm))
    assert two.held_out > one.held_out


def test_fragments_that_are_merged_take_in_samples_between_them():
    """It may be far from every fragment, as measured by the fragment's own spread."""
    x = np.concatenate([0.01 * random_state(0).standard_normal(30), [0.5]])
    x[15:30] += 1.0
    labels = np.append(np.repeat([0, 1], 15), -1)
    X, ones = x[:, None], np.ones(31)
    assert join_small(X, ones, labels)[-1] == OUTLIER
    found, n_fragments = merge_unstable(
        X,
        ones,
        join_small(X, ones, labels),
        lambda rows, _: np.arange(len(rows)) % 2,
        random_state(),
    )
    assert n_fragments == 2
    assert_array_equal(found, 0)


def test_sizes_are_sums_of_weights():
    X, group = blobs([30, 30, 5], apart=7.0)
    tenths, ones = np.full(65, 0.1), np.ones(65)
    assert_array_equal(join_small(X, tenths, group), 0)  # all are small
    assert_array_equal(join_small(X, np.where(group == 2, 2.0, 1.0), group), group)
    assert_array_equal(join_small(X, ones, group), np.minimum(group, 1))
    thirds = np.where(group == 0, 1 / 3, 1.0)  # which are just enough, up to rounding
    assert_array_equal(join_small(X, thirds, group), np.minimum(group, 1))


@given(seeds, st.integers(1, 4))
def test_splits_of_weights_are_those_of_repeated_rows(seed, n_values):
    rng = random_state(seed)
    X = np.stack([rng.randint(n_values, size=60), rng.standard_normal(60)], axis=1)
    repeats, labels = rng.randint(1, 4, size=60), rng.randint(-1, 2, size=60)
    labels[:2] = 0, 1
    found = split_by_category(X, repeats.astype(float), labels)
    copies = np.repeat(X, repeats, axis=0), np.ones(repeats.sum()), np.repeat(labels, repeats)
    assert_array_equal(np.repeat(found, repeats), split_by_category(*copies))


def right_of(border):
    """A clustering of two clusters."""
    return lambda rows, weights: (rows[:, 0] > border).astype(int)


def fitted(X, weights, labels, min_std=0.0, seed=0):
    """Return a partition with its fits and density."""
    rng = random_state(seed)
    partition = Partition.from_labels(X, weights, labels, min_std)
    fits = partition.fit((), rng)
    return SimpleNamespace(
        fits=fits, density=partition.density(fits), held_out=partition.held_out(fits)
    )


def test_rows_that_repeat_are_in_training_and_test():
    """Kernels on values that repeat do well on samples that repeat them."""
    X = np.arange(25.0)[:, None]
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
        Partition.from_labels(np.ones((1, 2)), np.array([7.0]), np.zeros(1, dtype=int), 0.0)
