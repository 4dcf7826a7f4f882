"""The parts of a stacked density, and laws of the whole."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import KDTree
from scipy.special import logsumexp
from scipy.stats import kstest, multivariate_normal, multivariate_t, norm
from sklearn.metrics import adjusted_rand_score

from sevenhills import ROME, AutoROME, KernelMixture, datasets
from sevenhills.clustering import Points, find_clusters
from sevenhills.covariance import (
    Ellipse,
    Shrinkage,
    Weighted,
    choose_shrinkage,
    shrunk_ellipse,
    weighted_moments,
)
from sevenhills.folds import Fold, count, counts, deal, deal_in_turn, without_a_fifth
from sevenhills.kernels.neighborhoods import neighbourhood_moments
from sevenhills.stacking import STRAY, fit_partition
from sevenhills.stacking.agreement import adjusted_rand
from sevenhills.stacking.cell import Cell
from sevenhills.stacking.components import (
    Components,
    Prior,
    fit_components,
    log_components,
    log_density,
    nearest_centres,
    quadratic_features,
    squared_distances,
)
from sevenhills.stacking.members import (
    bent_gaussian,
    bent_kernels,
    gaussian,
    local_gaussians,
    mixture,
    shrunk_kernels,
    student,
)
from sevenhills.stacking.partition import joined, split_by_values
from sevenhills.stacking.race import _climb, fit_cell
from sevenhills.stacking.student import precisions
from sevenhills.stacking.warp import Bent, Spots, _quantiles, margin_of
from sevenhills.stacking.weights import mean_and_error, stack, stacked, stacking_weights

from .oracles import (
    expectation_maximisation,
    local_log_density,
    mixture_log_parts,
    neighbourhood,
    shrinkage_log_likelihood,
)
from .strategies import samples

seeds = st.integers(0, 2**31)
#: What covariances may be drawn to: that of all clusters, and their own diagonal.
POOLINGS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
DIAGONALS = (0.0, 1e-3, 0.01, 0.03, 0.1, 0.25, 0.5, 1.0)


def random_state(seed=0):
    return np.random.RandomState(seed)


def awkward(kind, seed, n_samples=40, n_features=2):
    """Whitened samples, some of which are tied or have no spread."""
    rng = random_state(seed)
    X = rng.standard_normal((n_samples, n_features))
    if kind == "tied":
        X = np.round(X)
    elif kind == "repeated":
        X = X[rng.randint(n_samples // 4, size=n_samples)]
    elif kind == "constant":
        X[:, -1] = 1.5
    return X


KINDS_OF_SAMPLES = ["random", "tied", "repeated", "constant"]


@st.composite
def wild_weights(draw, min_size=1, max_size=50):
    """Positive weights: equal, whole, fractional, tiny, huge, and all of these at once."""
    size = draw(st.integers(min_size, max_size))
    rng = random_state(draw(seeds))
    kind = draw(st.sampled_from(["ones", "whole", "fractional", "little", "wild", "one heavy"]))
    if kind == "whole":
        return rng.randint(1, 30, size=size).astype(float)
    if kind == "fractional":
        return rng.exponential(5.0, size=size) + 1e-3
    if kind == "little":
        return np.full(size, draw(st.sampled_from([1e-3, 1e-12, 0.5 / size])))
    if kind == "wild":
        return 10.0 ** rng.uniform(-12, 12, size=size)
    weights = np.ones(size)
    if kind == "one heavy":
        weights[rng.randint(size)] = draw(st.sampled_from([50.0, 1e12]))
    return weights


def repeats_of(n_rows, seed):
    """How often rows are repeated in slow twins."""
    return random_state(seed).randint(1, 5, size=n_rows)


class TestCounts:
    def test_rounding_does_not_matter(self):
        assert count(np.full(100, 0.1)) == 10
        assert count(np.full(30, 1 / 3)) == 10
        assert_array_equal(counts(np.arange(300) % 3, np.full(300, 0.1)), [10, 10, 10])

    @given(wild_weights())
    def test_sums(self, weights):
        assert_allclose(count(weights), weights.sum(), rtol=1e-11)
        labels = np.arange(len(weights)) % 3
        expected = [weights[labels == label].sum() for label in range(labels.max() + 1)]
        assert_allclose(counts(labels, weights), expected, rtol=1e-11)


class TestAgreement:
    @given(seeds, st.integers(1, 60), st.integers(1, 5), st.integers(1, 5))
    def test_it_is_scikit_learns_of_repeated_rows(self, seed, n_rows, n_here, n_there):
        rng = random_state(seed)
        here, there = rng.randint(n_here, size=n_rows), rng.randint(-1, n_there, size=n_rows)
        if rng.uniform() < 0.5:
            there = np.where(rng.uniform(size=n_rows) < 0.1, there, here)
        repeats = repeats_of(n_rows, seed)
        expected = adjusted_rand_score(np.repeat(here, repeats), np.repeat(there, repeats))
        assert_allclose(adjusted_rand(here, there, repeats.astype(float)), expected, atol=1e-12)

    @given(wild_weights())
    def test_any_weights(self, weights):
        labels = np.arange(len(weights)) % 3
        assert adjusted_rand(labels, 2 - labels, weights) == 1
        assert adjusted_rand(labels, np.arange(len(weights)) % 2, weights) <= 1


def spread_out(rows, weights, n_rows):
    """Weights of some rows as weights of all."""
    out = np.zeros(n_rows)
    out[rows] = weights
    return out


class TestFolds:
    @given(st.one_of(st.integers(2, 60), st.sampled_from([299, 2999, 3000])), seeds)
    def test_every_row_is_asked_once_and_never_seen_by_the_fold_that_asks_it(self, n_rows, seed):
        folds = deal(np.ones(n_rows), random_state(seed))
        asked = np.concatenate([fold.test for fold in folds])
        assert_array_equal(np.sort(asked), np.arange(n_rows))
        order = random_state(seed).permutation(n_rows)
        for f, fold in enumerate(folds):
            assert_array_equal(fold.test, np.sort(order[f :: len(folds)]))
            assert_array_equal(np.sort(np.append(fold.train, fold.test)), np.arange(n_rows))
            assert_array_equal(fold.subset, fold.train)
            for weights in (fold.train_weights, fold.subset_weights, fold.test_weights):
                assert_array_equal(weights, 1.0)

    @given(st.lists(st.integers(1, 12), min_size=2, max_size=40), seeds)
    def test_whole_weights_are_dealt_out_as_repeated_rows(self, weights, seed):
        weights = [*weights, 1]
        row_of = np.repeat(np.arange(len(weights)), weights)
        copies = deal(np.ones(len(row_of)), random_state(seed))
        found = deal(np.array(weights, dtype=float), random_state(seed))
        for fold, repeated in zip(found, copies, strict=True):
            for part in ("train", "subset", "test"):
                rows, expected = (getattr(each, part) for each in (fold, repeated))
                parts = spread_out(rows, getattr(fold, f"{part}_weights"), len(weights))
                assert_array_equal(parts, np.bincount(row_of[expected], minlength=len(weights)))

    @given(st.lists(st.integers(1, 12), min_size=2, max_size=40), st.integers(2, 7))
    def test_dealing_in_turn(self, weights, n_folds):
        weights = [*weights, 1]
        row_of = np.repeat(np.arange(len(weights)), weights)
        held = deal_in_turn(np.array(weights, dtype=float), n_folds)
        for f, part in enumerate(held):
            assert_array_equal(part, np.bincount(row_of[f::n_folds], minlength=len(weights)))

    @given(wild_weights(), st.integers(2, 7))
    def test_any_weights_dealt_out_in_turn_add_up(self, weights, n_folds):
        held = deal_in_turn(weights, n_folds)
        assert (held >= 0).all()
        assert_allclose(held.sum(axis=0), weights, rtol=1e-12)
        assert ((held.sum(axis=0) - held).sum(axis=1) > 0).all()

    @given(wild_weights(min_size=2), seeds)
    def test_parts_add_up(self, weights, seed):
        """And every fold sees something and asks for something."""
        folds, n_rows = deal(weights, random_state(seed)), len(weights)
        held = [spread_out(fold.test, fold.test_weights, n_rows) for fold in folds]
        assert_allclose(np.sum(held, axis=0), weights, rtol=1e-12)
        assert 2 <= len(folds) <= 5
        for fold, part in zip(folds, held, strict=True):
            assert len(fold.test) > 0
            assert len(fold.train) > 0
            left = spread_out(fold.train, fold.train_weights, n_rows)
            assert_allclose(left + part, weights, rtol=1e-12)
            assert (fold.train_weights > 0).all()
            assert (fold.test_weights > 0).all()

    @given(
        st.integers(2, 60),
        seeds,
        st.sampled_from(
            [
                lambda rng, n: rng.uniform(1e-3, 5.0, size=n),
                lambda rng, n: np.full(n, 2.0),
                lambda rng, n: rng.choice([2.0, 3.0], size=n) + 2.0,
            ]
        ),
    )
    def test_rows_stay_whole_unless_weights_are_counts(self, n_rows, seed, weights_of):
        """A row that repeats by itself, or not wholly, is never seen and asked for at once."""
        weights = weights_of(random_state(seed), n_rows)
        whole = deal(np.ones(n_rows), random_state(seed))
        for fold, expected in zip(deal(weights, random_state(seed)), whole, strict=True):
            assert_array_equal(fold.train, expected.train)
            assert_array_equal(fold.train_weights, weights[fold.train])
            assert_array_equal(fold.subset_weights, weights[fold.subset])
            assert_array_equal(fold.test, expected.test)
            assert_array_equal(fold.test_weights, weights[fold.test])
        held = deal_in_turn(weights, 5)
        assert_array_equal(np.sum(held > 0, axis=0), 1)

    def test_copies_are_counted_whatever_rounding_left_of_them(self):
        folds = deal(np.array([2 - 1e-12, 2.0, 1 - 1e-12]), random_state())
        asked = np.sort(np.concatenate([fold.test_weights for fold in folds]))
        assert_allclose(asked, [1.0, 1.0, 1.0, 1.0, 1.0])

    def test_heavy_rows_are_dealt_out_in_a_few_copies(self):
        """As many as make sure that they are seen and asked for."""
        for fold in deal(np.array([1e12, 1.0, 1e15]), random_state()):
            assert_array_equal(np.setdiff1d(fold.train, [1]), [0, 2])
            assert len(fold.test) > 0

    @given(wild_weights(), seeds)
    def test_a_fifth_of_any_weights_is_left_out(self, weights, seed):
        left = without_a_fifth(weights, random_state(seed))
        assert (left >= 0).all()
        assert (left <= weights * (1 + 1e-12)).all()
        assert left.sum() > 0
        if not (weights == 1).any() and len(weights) > 1:
            assert np.sum(left == 0) == len(weights) // 5

    @given(st.lists(st.integers(1, 9), min_size=2, max_size=30), seeds)
    def test_a_fifth_of_the_copies_is_left_out(self, weights, seed):
        weights = [*weights, 1]
        left = without_a_fifth(np.array(weights, dtype=float), random_state(seed))
        row_of = np.repeat(np.arange(len(weights)), weights)
        copies = row_of[random_state(seed).permutation(len(row_of))]
        expected = np.bincount(copies[len(copies) // 5 :], minlength=len(weights))
        assert_array_equal(left, expected)

    @given(st.integers(2, 4000), seeds)
    def test_folds_are_even_and_answers_have_places(self, n_rows, seed):
        folds = deal(np.ones(n_rows), random_state(seed))
        sizes = [n_rows - len(fold.train) for fold in folds]
        assert max(sizes) - min(sizes) <= 1
        assert all(len(fold.test) == len(fold.places) for fold in folds)
        places = np.concatenate([fold.places for fold in folds])
        assert_array_equal(places, np.arange(len(places)))

    @pytest.mark.parametrize("n_rows", [7000, 20_000])
    def test_many_rows_are_seen_and_asked_in_part(self, n_rows):
        folds = deal(np.ones(n_rows), random_state())
        asked = np.concatenate([fold.test for fold in folds])
        assert len(np.unique(asked)) == len(asked) <= 3000 + len(folds)
        assert len(asked) >= 2900
        for fold in folds:
            assert len(fold.subset) == min(len(fold.train), 6000)
            assert np.isin(fold.subset, fold.train).all()
            assert not np.isin(fold.test, fold.train).any()

    def test_weights_of_a_part_of_the_rows_are_kept(self):
        weights = random_state(1).randint(1, 4, size=9000).astype(float)
        for fold in deal(weights, random_state()):
            assert len(fold.subset) == 6000
            left = spread_out(fold.train, fold.train_weights, 9000)
            assert_array_equal(fold.subset_weights, left[fold.subset])

    @pytest.mark.parametrize("weight", [1.0, 0.2, 30.0])
    def test_one_row_is_all_there_is(self, weight):
        folds = deal(np.array([weight]), random_state())
        for fold in folds:
            for rows in (fold.train, fold.subset, fold.test):
                assert_array_equal(rows, [0])
            assert_allclose(fold.train_weights + fold.test_weights, weight)
        assert_allclose(sum(fold.test_weights[0] for fold in folds), weight)

    def test_seeds(self):
        one, same, other = (deal(np.ones(50), random_state(seed))[0].train for seed in (1, 1, 2))
        assert_array_equal(one, same)
        assert (one != other).any()


def moments_and_held(X, folds):
    moments = [weighted_moments(X[fold.train], fold.train_weights) for fold in folds]
    return moments, [Weighted(X[fold.test], fold.test_weights) for fold in folds]


def copies_of(X, folds):
    """What folds see and are asked, copy by copy."""
    seen = [np.repeat(X[fold.train], fold.train_weights.astype(int), axis=0) for fold in folds]
    asked = [np.repeat(X[fold.test], fold.test_weights.astype(int), axis=0) for fold in folds]
    return seen, asked


class TestScatter:
    @given(samples(min_samples=1, max_samples=40, scales=(1e-9, 1.0, 1e9)))
    def test_covariance_is_numpys(self, X):
        mean, scatter = weighted_moments(X, np.ones(len(X)))
        size = np.abs(X).max() + 1e-300
        assert_allclose(mean, X.mean(axis=0), atol=1e-12 * size)
        assert_allclose(scatter, np.cov(X.T, ddof=0).reshape(scatter.shape), atol=1e-12 * size**2)

    @given(samples(min_samples=1, max_samples=40), seeds)
    def test_covariance_of_weights_is_that_of_repeated_rows(self, X, seed):
        repeats = repeats_of(len(X), seed)
        mean, scatter = weighted_moments(X, repeats.astype(float))
        copies = np.repeat(X, repeats, axis=0)
        size = np.abs(X).max() + 1e-300
        assert_allclose(mean, copies.mean(axis=0), atol=1e-12 * size)
        expected = np.cov(copies.T, ddof=0).reshape(scatter.shape)
        assert_allclose(scatter, expected, atol=1e-12 * size**2)
        assert_array_equal(scatter, scatter.T)

    @given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5), wild_weights())
    def test_covariance_of_equal_rows_is_exactly_zero(self, row, weights):
        mean, scatter = weighted_moments(np.array([row] * len(weights)), weights)
        assert_array_equal(mean, row)
        assert_array_equal(scatter, 0)

    @given(seeds, st.integers(1, 5))
    def test_seen_from_leads_to_the_same_coordinates(self, seed, n_features):
        rng = random_state(seed)
        one, other = (
            Ellipse(
                rng.standard_normal(n_features),
                rng.standard_normal((n_features, n_features)) + 4 * np.eye(n_features),
            )
            for _ in range(2)
        )
        X = rng.standard_normal((7, n_features))
        within = one.relative_to(other)
        Y = (X - other.mean) @ other.transform
        expected = (X - one.mean) @ one.transform
        assert_allclose((Y - within.mean) @ within.transform, expected, atol=1e-9)
        assert_allclose(within.log_det, one.log_det - other.log_det, atol=1e-9)
        itself = one.relative_to(one)
        assert_allclose(itself.mean, 0, atol=1e-12)
        assert_allclose(itself.transform, np.eye(n_features), atol=1e-9)

    @given(seeds, st.sampled_from(KINDS_OF_SAMPLES), st.booleans())
    def test_an_ellipse_has_the_shrunk_covariance(self, seed, kind, shared):
        X = awkward(kind, seed, 20, 3)
        ridge, common = np.diag([1e-4, 1e-3, 1e-2]), np.diag([1.0, 2.0, 3.0]) if shared else None
        found = shrunk_ellipse(
            weighted_moments(X, np.ones(20)), ridge, common, Shrinkage(0.25, 0.5)
        )
        S = np.cov(X.T, ddof=0)
        S = S if common is None else 0.75 * S + 0.25 * common
        S = 0.5 * S + 0.5 * np.diag(np.diag(S)) + ridge
        assert_allclose(found.transform.T @ S @ found.transform, np.eye(3), atol=1e-9)
        assert_allclose(found.covariance, S, atol=1e-9)
        assert_allclose(found.mean, X.mean(axis=0), atol=1e-12)

    @given(seeds, st.integers(1, 6), st.integers(3, 30), st.booleans(), st.booleans())
    def test_shrinkage_is_the_best_of_a_plain_search(self, seed, n_features, n, shared, alike):
        """First towards the common covariance, then towards its diagonal."""
        rng = random_state(seed)
        mixing = rng.standard_normal((n_features, n_features))
        mixing = np.eye(n_features) if alike else mixing
        X = rng.standard_normal((n, n_features)) @ mixing
        common = np.eye(n_features) + mixing.T @ mixing if shared else None
        ridge = 1e-3 * np.eye(n_features)
        repeats = rng.randint(1, 4, size=n)
        folds = deal(repeats.astype(float), rng)
        found = choose_shrinkage(*moments_and_held(X, folds), ridge, common)
        data = *copies_of(X, folds), ridge, common
        if shared:
            poolings = [shrinkage_log_likelihood(*data, p, 0.0) for p in POOLINGS]
            chosen = shrinkage_log_likelihood(*data, found.pooling, 0.0)
            assert_allclose(chosen, max(poolings), rtol=1e-8, atol=1e-8)
        else:
            assert found.pooling == 0
        pooling = found.pooling
        diagonals = [shrinkage_log_likelihood(*data, pooling, d) for d in DIAGONALS]
        chosen = shrinkage_log_likelihood(*data, *found)
        assert_allclose(chosen, max(diagonals), rtol=1e-8, atol=1e-8)

    def test_few_samples_are_shrunk_and_many_are_not(self):
        rng = random_state()
        mixing = rng.standard_normal((5, 5))
        strengths = []
        for n in (8, 5000):
            X = rng.standard_normal((n, 5)) @ mixing
            data = moments_and_held(X, deal(np.ones(n), rng))
            strengths.append(choose_shrinkage(*data, 1e-8 * np.eye(5), None).diagonal)
        assert strengths[0] > 0.05
        assert strengths[1] < 0.01


class TestNeighbourhoods:
    @given(samples(min_samples=3, max_samples=60, max_features=5), seeds, st.integers(1, 20))
    def test_moments_are_numpys(self, X, seed, n_neighbors):
        """Of seen neighbours only, and of fewer if there are not as many in the table.

        The slow twin repeats neighbours as often as they count.
        """
        rng = random_state(seed)
        K = rng.randint(1, len(X) + 1)
        neighbours = KDTree(X).query(X, k=np.arange(1, K + 1))[1]
        neighbours[:, 0] = np.arange(len(X))  # among equal points, another may have come first
        repeats = rng.randint(1, 4, size=len(X)) * (rng.uniform(size=len(X)) < 0.7)
        repeats[rng.randint(len(X))] = 1
        rows = np.flatnonzero(repeats)
        means = np.full((len(rows), X.shape[1]), np.nan)
        covariances = np.full((len(rows), X.shape[1], X.shape[1]), np.nan)
        weights = repeats.astype(float)
        neighbourhood_moments(X, neighbours, weights, rows, n_neighbors, means, covariances)
        size = max(1.0, np.abs(X).max())
        for row, mean, scatter in zip(rows, means, covariances, strict=True):
            copies = np.repeat(neighbours, repeats[neighbours[row]], axis=1)
            expected = neighbourhood(X, copies, repeats > 0, row, n_neighbors)
            assert_allclose(mean, expected[0], atol=1e-11 * size)
            assert_allclose(scatter, expected[1], atol=1e-11 * size**2)

    def test_the_last_neighbour_counts_in_part(self):
        X = np.array([[0.0], [1.0], [5.0]])
        table, weights = np.array([[0, 1, 2]] * 3), np.array([1.5, 0.25, 10.0])
        mean, scatter = np.empty((1, 1)), np.empty((1, 1, 1))
        neighbourhood_moments(X, table, weights, np.array([0]), 3, mean, scatter)
        expected = weighted_moments(X, np.array([1.5, 0.25, 1.25]))
        assert_allclose(mean[0], expected.mean)
        assert_allclose(scatter[0], expected.covariance)

    def test_a_heavy_point_is_a_neighbourhood_of_its_own(self):
        X, table = np.array([[0.0], [1.0]]), np.array([[0, 1], [1, 0]])
        mean, scatter = np.empty((2, 1)), np.empty((2, 1, 1))
        weights = np.array([8.0, 1e-9])
        neighbourhood_moments(X, table, weights, np.array([0, 1]), 8, mean, scatter)
        assert_array_equal(mean[0], 0.0)
        assert_array_equal(scatter[0], 0.0)
        # The other one has hardly any part in its own, which must not be lost to rounding.
        assert_allclose(scatter[1], 1e-9 / 8, rtol=1e-6)


def random_components(seed, n_components, n_features, dof):
    rng = random_state(seed)
    factors = rng.standard_normal((n_components, n_features, n_features))
    return Components(
        weights=rng.dirichlet(np.ones(n_components)),
        means=3 * rng.standard_normal((n_components, n_features)),
        scatters=factors @ factors.transpose(0, 2, 1) + 0.1 * np.eye(n_features),
        dof=dof,
    )


def one_hot(labels, n_labels):
    return np.eye(n_labels)[labels]


class TestComponents:
    @given(seeds, st.integers(1, 6), st.integers(1, 6), st.sampled_from([np.inf, 1.0, 4.0, 30.0]))
    def test_densities_are_direct_sums(self, seed, n_components, n_features, dof):
        components = random_components(seed, n_components, n_features, dof)
        X = 4 * random_state(seed).standard_normal((15, n_features))
        features, parts = quadratic_features(X), mixture_log_parts(X, *components)
        assert_allclose(log_components(features, components), parts, rtol=1e-8, atol=1e-8)
        expected = logsumexp(parts, axis=1)
        assert_allclose(log_density(features, components), expected, rtol=1e-8, atol=1e-8)

    @given(
        seeds,
        st.sampled_from(KINDS_OF_SAMPLES),
        st.integers(1, 4),
        st.integers(1, 3),
        st.sampled_from([np.inf, 4.0]),
        st.sampled_from([(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)]),
        st.booleans(),
        st.booleans(),
    )
    def test_fit_equals_plain_expectation_maximisation(
        self, seed, kind, n_components, n_features, dof, strengths, known, tied
    ):
        X = awkward(kind, seed, 40, n_features)
        repeats = repeats_of(40, seed) if tied else np.ones(40, dtype=int)
        weights = repeats.astype(float)
        shape = np.diag(1.0 + np.arange(n_features)) if known else None
        prior = Prior(*strengths, shape, 1e-4 * np.eye(n_features))
        start = nearest_centres(X, weights, n_components, random_state(seed))
        components, shares = fit_components(quadratic_features(X), weights, start, prior, dof)
        copies, starts = np.repeat(X, repeats, axis=0), np.repeat(start, repeats, axis=0)
        expected, found_shares, likelihoods = expectation_maximisation(copies, starts, prior, dof)
        expected_shares = found_shares[np.cumsum(repeats) - 1]
        assert_allclose(components.weights, expected[0], atol=1e-6)
        parts = mixture_log_parts(X, *expected, dof)
        found = log_density(quadratic_features(X), components)
        assert_allclose(found, logsumexp(parts, axis=1), atol=1e-4)
        assert_allclose(shares, expected_shares, atol=1e-4)
        assert_allclose(shares.sum(axis=1), 1.0)
        assert components.dof == dof
        assert np.isclose(np.average(found, weights=weights), likelihoods[-1], atol=1e-4)

    @settings(max_examples=20)
    @given(seeds, st.integers(1, 3), st.sampled_from([np.inf, 4.0]))
    def test_likelihood_never_falls_where_nothing_is_shrunk(self, seed, n_components, dof):
        X, _ = blobs([30, 30], apart=3.0, seed=seed)
        start = one_hot(random_state(seed).randint(n_components, size=60), n_components)
        prior = Prior(0.0, 0.0, None, np.zeros((2, 2)))
        features, ones = quadratic_features(X), np.ones(60)
        found = log_density(features, fit_components(features, ones, start, prior, dof)[0]).mean()
        steps = expectation_maximisation(X, start, prior, dof)[2]
        assert (np.diff(steps) > -1e-8).all()
        assert_allclose(found, steps[-1], atol=1e-6)
        before, shares = -np.inf, start
        for _ in range(6):  # every fit goes on from the responsibilities of the one before
            components, shares = fit_components(features, ones, shares, prior)
            after = log_density(features, components).mean()
            assert after >= before - 1e-8
            before = after

    def test_one_gaussian_has_mean_and_covariance(self):
        X = awkward("random", 0, 50, 3)
        prior = Prior(0.0, 0.0, None, np.zeros((3, 3)))
        start = np.ones((50, 1))
        components, shares = fit_components(quadratic_features(X), np.ones(50), start, prior)
        assert_allclose(components.means, [X.mean(axis=0)], atol=1e-9)
        assert_allclose(components.scatters, [np.cov(X.T, ddof=0)], atol=1e-8)
        assert_array_equal(shares, 1.0)

    def test_far_samples_pull_less_on_a_student(self):
        X = np.append(awkward("random", 0, 50, 1), [[100.0]], axis=0)
        prior = Prior(0.0, 0.0, None, 1e-8 * np.eye(1))
        data = quadratic_features(X), np.ones(51), np.ones((51, 1))
        means = [fit_components(*data, prior, dof)[0].means for dof in (4.0, np.inf)]
        assert abs(means[0]) < 0.3 < 1.5 < means[1]

    @given(seeds, st.integers(1, 6), st.sampled_from([1.0, 10.0, 100.0]))
    def test_a_component_of_equal_samples_far_out_is_known_well(self, seed, n_features, far):
        """Its scatter is the ridge, whose inverse is huge; rounding must not be magnified."""
        rng = random_state(seed)
        bulk, spot = rng.standard_normal((30, n_features)), rng.standard_normal((1, n_features))
        X = np.concatenate([bulk, np.repeat(far * spot, 4, axis=0)])
        start = one_hot(np.repeat([0, 1], [30, 4]), 2)
        prior = Prior(0.0, 0.0, None, 1e-8 * np.eye(n_features))
        components = fit_components(quadratic_features(X), np.ones(34), start, prior)[0]
        squares = squared_distances(quadratic_features(X), *components[1:3])[0][30:, 1]
        assert_allclose(squares, 0.0, atol=1e-5 * far**2)

    def test_priors_make_components_round_or_alike(self):
        rng = random_state(0)
        X = np.concatenate([rng.standard_normal((40, 2)) * s for s in ([1, 5], [3, 1])])
        X[40:] += 50
        data = quadratic_features(X), np.ones(80), one_hot(np.repeat([0, 1], 40), 2)
        nothing = np.zeros((2, 2))
        round_ones = fit_components(*data, Prior(1e9, 0.0, None, nothing))[0].scatters
        for scatter in round_ones:
            assert_allclose(scatter, scatter[0, 0] * np.eye(2), atol=1e-4 * scatter[0, 0])
        alike = fit_components(*data, Prior(0.0, 1e9, None, nothing))[0].scatters
        shapes = [scatter / np.trace(scatter) for scatter in alike]
        assert_allclose(shapes[0], shapes[1], atol=1e-4)
        assert np.trace(alike[0]) > 1.5 * np.trace(alike[1])

    @given(
        seeds,
        st.sampled_from(KINDS_OF_SAMPLES),
        st.integers(1, 9),
        st.integers(1, 40),
    )
    def test_every_row_has_one_centre(self, seed, kind, n_centres, n_samples):
        X = awkward(kind, seed, max(n_samples, 4))
        weights = 10.0 ** random_state(seed).uniform(-3, 3, size=len(X))
        shares = nearest_centres(X, weights, n_centres, random_state(seed))
        assert shares.shape == (len(X), n_centres)
        assert set(np.unique(shares)) <= {0.0, 1.0}
        assert_array_equal(shares.sum(axis=1), 1.0)
        assert_array_equal(nearest_centres(X, weights, n_centres, random_state(seed)), shares)

    def test_equal_rows_have_one_centre_and_can_be_fitted(self):
        X, weights = np.full((12, 2), 0.1), np.ones(12)
        shares = nearest_centres(X, weights, 3, random_state())
        assert_array_equal(shares.sum(axis=1), 1.0)
        prior = Prior(1.0, 3.0, None, 1e-8 * np.eye(2))
        components = fit_components(quadratic_features(X), weights, shares, prior)[0]
        assert np.isfinite(log_density(quadratic_features(X), components)).all()

    @given(seeds)
    def test_groups_far_apart_have_centres_of_their_own(self, seed):
        group = np.repeat(np.arange(3), 20)
        X = awkward("random", seed, 60) + 1e3 * group[:, None]
        shares = nearest_centres(X, np.ones(60), 3, random_state(seed))
        centre = shares.argmax(axis=1)
        assert len({(a, b) for a, b in zip(group, centre, strict=True)}) == 3


class TestStudent:
    @pytest.mark.parametrize("n_features", [1, 2, 5, 24])
    def test_gaussians_add_up_to_students_t(self, n_features):
        factors, weights = precisions(4.0, n_features)
        assert_allclose(weights.sum(), 1.0)
        truth = multivariate_t(np.zeros(n_features), np.eye(n_features), 4.0)
        X = truth.rvs(5000, random_state=0).reshape(5000, n_features)
        sum_of_gaussians = KernelMixture(
            weights=weights,
            means=np.zeros((len(factors), n_features)),
            offsets=np.arange(len(factors) + 1),
            transforms=np.sqrt(factors)[:, None, None] * np.eye(n_features),
        )
        apart = np.abs(sum_of_gaussians.logpdf(X) - truth.logpdf(X))
        assert np.mean(apart < 0.02) > 0.999

    def test_a_few_gaussians_are_enough(self):
        assert all(len(precisions(4.0, n_features)[0]) < 40 for n_features in (1, 2, 5, 24))


@st.composite
def margins(draw):
    """Values of one feature: smooth, skewed, bounded, tied or constant."""
    rng = random_state(draw(seeds))
    n = draw(st.integers(5, 300))
    kind = draw(st.sampled_from(["normal", "skewed", "bounded", "tied", "few", "constant"]))
    x = rng.standard_normal(n)
    if kind == "skewed":
        return rng.exponential(size=n)
    if kind == "bounded":
        return rng.uniform(size=n)
    if kind == "tied":
        return np.round(x)
    if kind == "few":
        return np.where(np.arange(n) < n // 10, 1.0, 0.0)
    return np.full(n, 0.3) if kind == "constant" else x


class TestWarp:
    @given(margins())
    def test_margins_rise_and_are_inverted(self, x):
        margin = margin_of(x, np.ones(len(x)))
        z = np.linspace(-8, 8, 401)
        values = margin.values_at(z)
        assert (np.diff(values) > 0).all()
        # The inverse is tabulated, with 64 steps to a standard deviation.
        assert_allclose(margin.deviates_of(values), z, atol=1 / 64)
        inner = np.linspace(*margin.ends, 50)
        assert margin.values_at(inner).min() >= x.min() - 1e-9
        assert margin.values_at(inner).max() <= x.max() + 1e-5 * (1 + np.ptp(x))

    @given(margins(), seeds, st.integers(1, 40))
    def test_weights_bend_like_repeated_rows(self, x, seed, n_kernels):
        X = np.stack([x, random_state(seed).standard_normal(len(x))], axis=1)
        repeats = repeats_of(len(X), seed)
        found = Bent.of(X, repeats.astype(float))
        copies = np.repeat(X, repeats, axis=0)
        expected = Bent.of(copies, np.ones(len(copies)))
        assert_allclose(np.repeat(found.deviates, repeats, axis=0), expected.deviates, atol=1e-9)
        for name in ("mean", "stds", "correlation"):
            assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-9)
        ridge, queries = 1e-4 * np.eye(2), X[:n_kernels]
        one, other = (
            bent.carried_back(bent.own_spots(), 0.4, ridge).logpdf(queries)
            for bent in (found, expected)
        )
        assert_allclose(one, other, atol=1e-6)
        assert_allclose(found.normal_spots().places, expected.normal_spots().places, atol=1e-9)

    @given(margins(), seeds, st.sampled_from([1e-9, 0.1, 0.37, 7.5, 1e9]))
    def test_quantiles(self, x, seed, scale):
        """By a search through the steps, sample by sample."""
        weights = scale * random_state(seed).exponential(size=len(x)) + 1e-12
        values, deviates = _quantiles(x, weights)
        assert len(x) <= len(values) == len(deviates) <= 2000
        order = np.argsort(x)
        reached = np.cumsum(weights[order]) / weights.sum()
        for value, level in zip(values[::7], norm.cdf(deviates[::7]), strict=True):
            found = x[order][reached > level][0]
            near = x[order][np.abs(reached - level) < 1e-9]  # either side of a step will do
            assert value == found or len(near)

    def test_bent_samples_look_normal(self):
        X = random_state(0).exponential(size=(500, 2))
        for deviates in Bent.of(X, np.ones(500)).deviates.T:
            assert kstest(deviates, "norm").pvalue > 0.1

    def test_kernels_have_the_margins_of_the_samples(self):
        """Of exponential samples, where plain kernels put mass below zero."""
        X = random_state(1).exponential(size=(600, 2))
        bent = Bent.of(X, np.ones(600))
        density = bent.carried_back(bent.own_spots(), 0.3, 1e-8 * np.eye(2))
        assert isinstance(density, KernelMixture)
        assert density.n_kernels == len(X)
        drawn = density.sample(600, random_state=0)
        assert np.isfinite(density.logpdf(drawn)).all()
        for margin in drawn.T:
            assert kstest(margin, "expon").pvalue > 0.01
        assert np.mean(drawn < -0.1) < 0.01

    @pytest.mark.parametrize("n_features", [1, 2, 4])
    def test_kernels_on_spread_spots_are_a_gaussian_copula(self, n_features):
        rng = random_state(0)
        latent = rng.standard_normal((500, n_features)) @ (np.eye(n_features) + 0.5)
        bent = Bent.of(np.exp(latent / latent.std(axis=0)), np.ones(500))
        density = bent.carried_back(bent.normal_spots(), 0.4, 1e-8 * np.eye(n_features))
        drawn = density.sample(2000, random_state=0)
        for margin in drawn.T:
            assert kstest(margin, "lognorm", (1.0,)).statistic < 0.07
        found = np.corrcoef(bent.normal_spots().places.T).reshape(n_features, n_features)
        assert_allclose(found, bent.correlation, atol=0.03)

    @given(margins(), margins(), st.sampled_from([0.1, 0.5, 0.8]), st.sampled_from([1.0, 1e-12]))
    def test_tied_and_constant_features_give_finite_densities(self, x, y, width, weight):
        n = min(len(x), len(y))
        X = np.stack([x[:n], y[:n], np.full(n, 0.1), np.full(n, -7.0)], axis=1)
        bent = Bent.of(X, weight * np.ones(n))
        few = Spots(*(each[:50] for each in bent.normal_spots()))
        for spots in (bent.own_spots(), few):
            density = bent.carried_back(spots, width, 1e-8 * np.eye(4))
            assert np.isfinite(density.logpdf(X)).all()


def members_of(cell):
    """Every kind of member."""
    return {
        "gaussian": gaussian(cell),
        "student": student(cell),
        "shrunk": shrunk_kernels(cell, 0.4),
        "bent": bent_kernels(cell, 0.4),
        "copula": bent_gaussian(cell, 0.4),
        "local": local_gaussians(cell, 15, 0.7),
        "mixture": mixture(cell, 3, False, np.inf, 0).member,
        "alike": mixture(cell, 3, True, np.inf, 0).member,
        "students": mixture(cell, 2, False, 4.0, 0).member,
    }


MEMBERS = ["gaussian", "student", "shrunk", "bent", "copula", "local", "mixture"]
MEMBERS += ["alike", "students"]


def cell_of(X, common=None, least=1e-6, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    return Cell.of(X, weights, least * np.eye(X.shape[1]), common, random_state())


@pytest.fixture(scope="module")
def crescent():
    """A bent cluster with margins that are not normal."""
    rng = random_state(0)
    x = rng.standard_normal(120)
    return np.stack([x, x**2 + 0.3 * rng.standard_normal(120)], axis=1)


@pytest.fixture(scope="module")
def cell(crescent):
    return cell_of(crescent)


@pytest.fixture(scope="module")
def members(cell):
    return members_of(cell)


class TestMembers:
    def test_a_cell_is_whitened(self, cell, crescent):
        assert_allclose((crescent - cell.whole.mean) @ cell.whole.transform, cell.points, atol=1e-8)
        again = weighted_moments(cell.points, cell.weights)
        again = shrunk_ellipse(again, cell.ridge, None, Shrinkage(0.0, 0.0))
        if cell.shrinkage == (0.0, 0.0):
            assert_allclose(again.covariance, np.eye(2), atol=1e-3)
        assert_array_equal(cell.neighbours[:, 0], np.arange(cell.n_rows))
        assert (cell.n_rows, cell.n_features, cell.total) == (120, 2, 120)
        assert_array_equal(cell.test_weights, np.ones(120))

    @pytest.mark.parametrize("name", MEMBERS)
    def test_integrates_to_one(self, members, name):
        density = members[name].build()
        axis = np.arange(-16, 18, 0.1)
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        assert_allclose(density.pdf(grid).sum() * 0.1**2, 1.0, atol=2e-3)

    @pytest.mark.parametrize("name", MEMBERS)
    def test_held_out_samples_are_less_likely_than_seen_ones(self, members, cell, name):
        member = members[name]
        asked = np.concatenate([fold.test for fold in cell.folds])
        seen = member.build().logpdf(cell.points[asked])
        assert member.held_out.shape == asked.shape
        assert_allclose(member.score, member.held_out.mean())
        assert member.held_out.mean() - 0.02 < seen.mean() < member.held_out.mean() + 1.5

    @pytest.mark.parametrize("shared", [False, True])
    def test_one_gaussian_by_hand(self, crescent, shared):
        common = np.array([[2.0, 0.3], [0.3, 1.0]]) if shared else None
        cell = cell_of(crescent, common)
        member = gaussian(cell)
        for fold in cell.folds:
            mean, S = by_hand(crescent[fold.train], cell.shrinkage, common)
            truth = multivariate_normal(mean, S + 1e-6 * np.eye(2)).logpdf(crescent[fold.test])
            found = member.held_out[fold.places] + cell.whole.log_det
            assert_allclose(found, truth, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("width", [0.1, 0.5, 0.97])
    def test_shrunk_kernels_by_hand(self, crescent, width):
        cell = cell_of(crescent)
        member = shrunk_kernels(cell, width)
        for fold in cell.folds:
            mean, S = by_hand(crescent[fold.train], cell.shrinkage, None)
            S = width**2 * S + 1e-6 * np.eye(2)
            centres = mean + np.sqrt(1 - width**2) * (crescent[fold.train] - mean)
            terms = [multivariate_normal(c, S).logpdf(crescent[fold.test]) for c in centres]
            truth = logsumexp(terms, axis=0) - np.log(len(centres))
            found = member.held_out[fold.places] + cell.whole.log_det
            assert_allclose(found, truth, rtol=1e-6, atol=1e-6)

    def test_shrunk_kernels_keep_mean_and_covariance(self, cell):
        for width in (0.2, 0.6):
            density = shrunk_kernels(cell, width).build()
            T = density.transforms[0]
            whole = np.cov(density.means.T, ddof=0) + np.linalg.inv(T @ T.T)
            given = np.cov(cell.points.T, ddof=0)  # where not shrunk, it is that of kernels, too
            assert_allclose(whole, (1 - width**2) * given + width**2 * np.eye(2), atol=1e-5)
            assert_allclose(density.means.mean(axis=0), 0, atol=1e-8)

    @pytest.mark.parametrize("width", [0.35, 1.0])
    def test_local_gaussians_are_the_slow_ones(self, cell, width):
        found = local_gaussians(cell, 12, width).build().logpdf(cell.points)
        expected = local_log_density(cell.points, 12, width, cell.ridge, cell.points)
        assert_allclose(found, expected, rtol=1e-7, atol=1e-7)

    @pytest.mark.parametrize("name", ["bent", "copula", "local", "mixture", "student", "students"])
    def test_what_a_fold_is_told_does_not_depend_on_its_own_samples(self, members, cell, name):
        """It is what is built on the other samples alone."""
        fold = cell.folds[0]
        rows, ones = np.arange(len(fold.train)), np.ones(len(fold.train))
        alone = Fold(rows, ones, rows, ones, rows, ones, rows)
        rest = replace(cell, points=cell.points[fold.train], weights=ones, folds=(alone,))
        expected = members_of(rest)[name].build().logpdf(cell.points[fold.test])
        # Student's t is spelled out in Gaussians when it is built.
        atol = 0.03 if name.startswith("student") else 1e-7
        assert_allclose(members[name].held_out[fold.places], expected, atol=atol)

    def test_mixtures_can_go_on_from_others(self, cell):
        start = mixture(cell, 3, False, np.inf, 0)
        again = mixture(cell, 3, False, np.inf, 0, start)
        assert abs(again.member.held_out.mean() - start.member.held_out.mean()) < 0.05
        assert mixture(cell, 3, True, 4.0, 0, start).n_components == 3

    @pytest.mark.parametrize("name", MEMBERS[:6])
    def test_weights_are_repetitions(self, crescent, name):
        """For all that starts from no random draw."""
        X, repeats = crescent[:60], repeats_of(60, 0)
        one = cell_of(X, weights=repeats.astype(float))
        other = cell_of(np.repeat(X, repeats, axis=0))
        assert_allclose(other.whole.transform, one.whole.transform, rtol=1e-9)
        assert one.total == other.total == repeats.sum()
        found, expected = members_of(one)[name], members_of(other)[name]
        assert_allclose(found.score, expected.score, rtol=1e-6)
        queries = random_state(1).standard_normal((50, 2))
        assert_allclose(found.build().logpdf(queries), expected.build().logpdf(queries), rtol=1e-6)

    @pytest.mark.parametrize("kind", ["tied", "repeated", "constant"])
    def test_awkward_samples_have_members(self, kind):
        cell = cell_of(awkward(kind, 0, 60, 3), least=1e-8)
        for member in members_of(cell).values():
            assert np.isfinite(member.held_out).all()
            assert np.isfinite(member.build().logpdf(cell.points)).all()


def by_hand(X, shrinkage, common):
    S = np.cov(X.T, ddof=0)
    if common is not None:
        S = (1 - shrinkage.pooling) * S + shrinkage.pooling * common
    return X.mean(axis=0), (1 - shrinkage.diagonal) * S + shrinkage.diagonal * np.diag(np.diag(S))


def climb(scores, others=()):
    """Return the scores that a climb finds, and the places it tries; NaN is no member."""
    tried = []

    def make(place):
        tried.append(place)
        if np.isnan(scores[place]):
            raise np.linalg.LinAlgError
        return SimpleNamespace(score=scores[place], held_out=np.zeros(1))

    return [member.score for member in _climb(make, range(len(scores)), others)], tried


class TestClimb:
    @pytest.mark.parametrize("n_values", [1, 2, 6, 7])
    def test_the_top_is_found_wherever_it_is(self, n_values):
        for top in range(n_values):
            found, _ = climb(-np.abs(np.arange(n_values) - top))
            assert max(found) == 0

    def test_it_ends_behind_the_top(self):
        assert climb([0, 1, 2, 3, 2, 1, 0])[1] == [3, 2, 4]
        assert climb([0, 4, 3, 2, 1, 0, 9])[1] == [3, 2, 1, 0, 4]
        assert climb([9, 0, 1, 2, 3, 4, 0])[1] == [3, 2, 4, 5, 6]

    def test_what_does_not_exist_ends_a_side(self):
        assert climb([9, np.nan, 3, 2, 3, np.nan, 9]) == ([2, 3, 3], [3, 2, 1, 4, 5])
        assert climb([1, 2, np.nan, 2, 1])[0] == [2, 1, 2, 1]

    def test_it_does_not_begin_far_behind_others(self):
        far, near = (SimpleNamespace(score=9, gain_over=lambda _, g=g: (g, 1.0)) for g in (6, 4))
        assert climb([4, 3, 2], [far])[1] == [1]
        assert climb([4, 3, 2], [near])[1] == [1, 0, 2]


class TestRace:
    def test_what_looks_gaussian_is_left_at_that(self):
        X = random_state(3).standard_normal((400, 2))
        fit = fit_cell(cell_of(X), 0)
        assert len(fit.members) == 1
        assert fit.density.n_kernels == 1
        assert fit.reason
        assert fit.gain == fit.gain_error == 0

    def test_others_gain(self, cell, crescent):
        fit = fit_cell(cell, 0)
        assert fit.gain > 5 * fit.gain_error > 0
        assert fit.n_tried > 15
        assert len(fit.members) == len(fit.weights) <= 6
        assert_allclose(fit.weights.sum(), 1.0)
        assert not fit.reason
        # Held-out log densities are in the coordinates that came in, as is the density.
        new = random_state(9).standard_normal(500)
        new = np.stack([new, new**2 + 0.3 * random_state(8).standard_normal(500)], axis=1)
        assert abs(fit.density.logpdf(new).mean() - fit.held_out) < 0.3

    def test_few_samples_try_few_members(self):
        few = fit_cell(cell_of(random_state(0).standard_normal((12, 2))), 0)
        many = fit_cell(cell_of(random_state(0).standard_normal((40, 2))), 0)
        assert few.reason
        assert few.n_tried < many.n_tried

    def test_what_would_take_too_long_is_done_without(self, cell, monkeypatch):
        whole = fit_cell(cell, 0)
        monkeypatch.setattr(Cell, "allows_components", False)
        monkeypatch.setattr(Cell, "allows_kernels_of_their_own", False)
        part = fit_cell(cell, 0)
        assert 1 < part.n_tried < whole.n_tried
        assert part.gain > 0


class TestMeans:
    @given(seeds, st.integers(1, 50))
    def test_mean_and_error_of_weights_are_those_of_repeated_values(self, seed, n_values):
        values, repeats = random_state(seed).standard_normal(n_values), repeats_of(n_values, seed)
        copies = np.repeat(values, repeats)
        expected = copies.mean(), copies.std() / np.sqrt(len(copies))
        found = mean_and_error(values, repeats.astype(float))
        assert_allclose(found, expected, atol=1e-12)

    def test_what_is_equal_has_no_error(self):
        assert mean_and_error(np.zeros(7), np.full(7, 0.1)) == (0.0, 0.0)


def likelihood(held_out, weights):
    return logsumexp(held_out + np.log(weights), axis=1).mean()


class TestWeights:
    @given(seeds, st.integers(2, 10), st.integers(30, 200))
    def test_no_other_weights_are_likelier(self, seed, n_members, n_samples):
        rng = random_state(seed)
        held_out = 3 * rng.standard_normal((n_samples, n_members)) + rng.standard_normal(n_members)
        weights = stacking_weights(held_out, np.ones(n_samples))
        assert_allclose(weights.sum(), 1.0)
        assert (weights >= 0).all()
        best = likelihood(held_out, np.maximum(weights, 1e-300))
        for sharpness in (0.01, 0.1, 1.0):
            for _ in range(20):
                other = (weights + 1e-6) * np.exp(sharpness * rng.standard_normal(n_members))
                assert likelihood(held_out, other / other.sum()) < best + 1e-6
            other = rng.dirichlet(np.full(n_members, sharpness) + 1e-2) + 1e-300
            assert likelihood(held_out, other) < best + 1e-6

    @settings(max_examples=20)
    @given(seeds, st.integers(2, 20), st.sampled_from([0.0, 0.01, 0.1]))
    def test_members_that_say_nearly_the_same_cost_little(self, seed, n_members, spread):
        """Steps are slow there, but n of them are never behind by more than log(members) / n."""
        rng = random_state(seed)
        held_out = rng.standard_normal((100, 1)) + spread * rng.standard_normal((100, n_members))
        ones = np.ones(100)
        found = likelihood(held_out, np.maximum(stacking_weights(held_out, ones, 50), 1e-300))
        best = likelihood(held_out, np.maximum(stacking_weights(held_out, ones, 2000), 1e-300))
        assert best - 1e-9 <= found + np.log(n_members) / 50
        assert found <= best + 1e-9

    def test_one_that_is_clearly_best_gets_all(self):
        rng = random_state(0)
        held_out = rng.standard_normal((200, 5)) * 0.2
        held_out[:, 3] += 2.0
        assert stacking_weights(held_out, np.ones(200))[3] > 0.99
        kept, weights = stack(held_out, np.ones(200))
        assert_array_equal(kept, [3])
        assert_array_equal(weights, [1.0])

    def test_densities_of_any_size(self):
        held_out, ones = random_state(0).standard_normal((50, 4)), np.ones(50)
        expected = stacking_weights(held_out, ones)
        for shift in (-1e6, 1e6):
            assert_allclose(stacking_weights(held_out + shift, ones), expected)
        lost = np.concatenate([held_out, np.full((50, 1), -1e9)], axis=1)
        assert_allclose(stacking_weights(lost, ones), np.append(expected, 0.0))

    @given(seeds, st.integers(1, 8), st.integers(1, 60))
    def test_answers_of_many_samples_are_repeated_answers(self, seed, n_members, n_asked):
        held_out = random_state(seed).standard_normal((n_asked, n_members))
        repeats = repeats_of(n_asked, seed)
        copies = np.repeat(held_out, repeats, axis=0)
        found = stacking_weights(held_out, repeats.astype(float))
        assert_allclose(found, stacking_weights(copies, np.ones(len(copies))), atol=1e-9)

    @given(seeds, st.integers(1, 30), st.sampled_from([0.0, 0.01, 1.0, 5.0]))
    def test_few_are_kept(self, seed, n_members, spread):
        held_out = spread * random_state(seed).standard_normal((60, n_members))
        kept, weights = stack(held_out, np.ones(60))
        assert 1 <= len(kept) == len(weights) <= 6
        assert len(set(kept)) == len(kept)
        assert_allclose(weights.sum(), 1.0)
        assert (np.diff(weights) <= 0).all()
        assert weights.min() >= 0.02
        whole = stacked(held_out[:, kept], weights)
        assert_allclose(whole, logsumexp(held_out[:, kept] + np.log(weights), axis=1))


def blobs(sizes, apart=100.0, n_features=2, seed=0):
    group = np.repeat(np.arange(len(sizes)), sizes)
    noise = random_state(seed).standard_normal((len(group), n_features))
    return noise + apart * group[:, None], group


class TestPartition:
    def test_small_clusters_and_noise_join_the_nearest(self):
        X, group = blobs([30, 30, 5], apart=7.0)
        labels = group.copy()
        labels[:3] = -1
        expected = np.where(group == 2, 1, group)
        assert_array_equal(joined(X, np.ones(65), labels), expected)

    def test_a_gross_outlier_stays_alone(self):
        X, group = blobs([30, 30, 1])
        X[-1] = 1e6
        for label in (2, -1):
            labels = np.where(group == 2, label, group)
            found = joined(X, np.ones(61), labels)
            assert_array_equal(found, np.where(group == 2, STRAY, group))

    def test_labels_are_numbered_anew(self):
        X, group = blobs([5, 30, 30], apart=8.0)
        assert_array_equal(np.unique(joined(X, np.ones(65), group)), [0, 1])

    @pytest.mark.parametrize("label", [-1, 0])
    def test_all_noise_or_all_small_is_one_cluster(self, label):
        X, _ = blobs([9])
        assert_array_equal(joined(X, np.ones(9), np.full(9, label)), 0)
        assert_array_equal(joined(X, np.ones(9), np.arange(9)), 0)

    @given(samples(min_samples=1, max_samples=60, max_features=4), seeds)
    def test_joined_clusters_are_large_and_whole(self, X, seed):
        labels = random_state(seed).randint(-1, 4, size=len(X))
        found = joined(X, np.ones(len(X)), labels)
        sizes = np.bincount(found[found >= 0])
        assert len(sizes) == 1 or (sizes >= 10).all()
        assert (sizes > 0).all()
        for label in range(4):  # no cluster is torn apart, but for samples that are far away
            inside = found[labels == label]
            if len(inside) >= max(10, X.shape[1] + 2):
                assert (inside == inside[0]).all()
                assert inside[0] >= 0

    @pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 0.0, 1e5)])
    def test_a_feature_of_a_few_values_splits(self, values):
        rng = random_state(0)
        chosen = rng.randint(len(values), size=150)
        X = np.stack([rng.standard_normal(150), np.array(values)[chosen]], axis=1)
        found = split_by_values(X, np.ones(150), np.zeros(150, dtype=int))
        assert_array_equal(found, chosen)
        strays = np.where(np.arange(150) < 3, STRAY, 0)
        found = split_by_values(X, np.ones(150), strays)
        assert_array_equal(found, np.where(strays == STRAY, STRAY, chosen))

    def test_two_such_features_split_in_turn(self):
        rng = random_state(0)
        X = rng.randint(2, size=(400, 2)).astype(float)
        found = split_by_values(X, np.ones(400), np.zeros(400, dtype=int))
        assert_array_equal(found, 2 * X[:, 0] + X[:, 1])

    @given(seeds, st.integers(1, 400), st.integers(1, 4))
    def test_continuous_samples_are_not_split(self, seed, n_samples, n_features):
        X = random_state(seed).standard_normal((n_samples, n_features))
        labels, ones = np.zeros(n_samples, dtype=int), np.ones(n_samples)
        assert_array_equal(split_by_values(X, ones, labels), labels)
        X[:, 0] = 1.0  # one value tells nothing apart
        assert_array_equal(split_by_values(X, ones, labels), labels)

    def test_rare_values_stay_together(self):
        rng = random_state(0)
        value = np.repeat([0.0, 1.0, 2.0, 3.0], [90, 90, 4, 3])
        X = np.stack([value, rng.standard_normal(len(value))], axis=1)
        found = split_by_values(X, np.ones(len(value)), np.zeros(len(value), dtype=int))
        assert set(found) == {0, 1}  # too few to be a cluster
        assert len(set(found[value >= 2])) == 1
        value = np.repeat([0.0, 1.0, 2.0, 3.0], [90, 90, 8, 8])
        X = np.stack([value, rng.standard_normal(len(value))], axis=1)
        found = split_by_values(X, np.ones(len(value)), np.zeros(len(value), dtype=int))
        assert_array_equal(found, np.minimum(value, 2))  # enough together

    def test_clusters_that_change_without_some_samples_are_put_together(self):
        X, group = blobs([15, 15], n_features=1)
        calls = []

        def fickle(rows, weights):
            calls.append(weights.sum())
            return np.arange(len(rows)) % 2

        torn = fit_partition(X, np.ones(30), group, fickle, 0.0, random_state())
        assert torn.n_fragments == 2
        assert_array_equal(torn.labels, 0)
        assert calls == [24]
        firm = fit_partition(X, np.ones(30), group, right_of(50), 0.0, random_state())
        assert firm.n_fragments == 0
        assert_array_equal(firm.labels, group)
        assert firm.held_out > torn.held_out

    def test_what_is_near_to_all_is_no_stray_once_fragments_are_put_together(self):
        """It may be far from every fragment, as measured by the fragment's own spread."""
        x = np.concatenate([0.01 * random_state(0).standard_normal(30), [0.5]])
        x[15:30] += 1.0
        labels = np.append(np.repeat([0, 1], 15), -1)
        X, ones = x[:, None], np.ones(31)
        assert joined(X, ones, labels)[-1] == STRAY
        found = fit_partition(
            X, ones, labels, lambda rows, _: np.arange(len(rows)) % 2, 0.0, random_state()
        )
        assert found.n_fragments == 2
        assert_array_equal(found.labels, 0)

    def test_fewer_than_five_samples_are_not_clustered(self):
        X, _ = blobs([2, 2])
        found = find_clusters(Points.from_samples(X))
        assert found.ordering is None
        assert found.candidates is None
        assert_array_equal(found.labels, 0)

    def test_clusters_are_romes(self):
        X, _ = blobs([40, 30])
        found = find_clusters(Points.from_samples(X, start="first"))
        rome = ROME(start="first").fit(X)
        assert_array_equal(found.labels, rome.labels_)
        assert_array_equal(found.labels, found.candidates.labels())
        assert_array_equal(found.ordering.order, rome.ordering_.order)

    def test_sizes_are_sums_of_weights(self):
        X, group = blobs([30, 30, 5], apart=7.0)
        tenths, ones = np.full(65, 0.1), np.ones(65)
        assert_array_equal(joined(X, tenths, group), 0)  # all are small
        assert_array_equal(joined(X, np.where(group == 2, 2.0, 1.0), group), group)
        assert_array_equal(joined(X, ones, group), np.minimum(group, 1))
        thirds = np.where(group == 0, 1 / 3, 1.0)  # which are just enough, up to rounding
        assert_array_equal(joined(X, thirds, group), np.minimum(group, 1))

    @given(seeds, st.integers(1, 4))
    def test_splits_of_weights_are_those_of_repeated_rows(self, seed, n_values):
        rng = random_state(seed)
        X = np.stack([rng.randint(n_values, size=60), rng.standard_normal(60)], axis=1)
        repeats, labels = rng.randint(1, 4, size=60), rng.randint(-1, 2, size=60)
        labels[:2] = 0, 1
        found = split_by_values(X, repeats.astype(float), labels)
        copies = np.repeat(X, repeats, axis=0), np.ones(repeats.sum()), np.repeat(labels, repeats)
        assert_array_equal(np.repeat(found, repeats), split_by_values(*copies))


def right_of(border):
    """A clustering of two clusters."""
    return lambda rows, weights: (rows[:, 0] > border).astype(int)


def whole(rows, weights):
    """A clustering of one cluster."""
    return np.zeros(len(rows), dtype=int)


class TestWeightedPartition:
    def test_rows_that_repeat_are_seen_and_asked_for(self):
        """Kernels on values that repeat do well on samples that repeat them."""
        X = np.arange(25.0)[:, None]
        labels, weights = np.zeros(25, dtype=int), np.append(np.full(24, 40.0), 1.0)
        density = fit_partition(X, weights, labels, whole, 0.01, random_state()).density
        assert density.logpdf(X).mean() > density.logpdf(X + 0.5).mean() + 2

    def test_rows_that_all_repeat_are_no_counts(self):
        """No spikes, then."""
        X, labels = blobs([60], n_features=2)
        for weights in (np.full(60, 3.0), random_state().uniform(100, 900, 60)):
            density = fit_partition(X, weights, labels, whole, 0.0, random_state()).density
            assert density.logpdf(X).mean() < density.logpdf(X + 0.1).mean() + 1

    def test_densities_of_clusters_are_weighted(self):
        X, group = blobs([20, 40], n_features=1)
        weights = np.where(group == 0, 6.0, 1.0)
        found = fit_partition(X, weights, group, right_of(50), 0.0, random_state())
        drawn = found.density.sample(4000, random_state=0)[:, 0]
        assert_allclose(np.mean(drawn < 50), 120 / 160, atol=0.03)
        assert_array_equal(found.labels, group)

    def test_heavy_samples_pull(self):
        X = np.linspace(-1, 1, 41)[:, None]
        weights = np.where(X[:, 0] > 0, 9.0, 1.0)
        found = fit_partition(X, weights, np.zeros(41, dtype=int), whole, 0.0, random_state())
        drawn = found.density.sample(4000, random_state=0)[:, 0]
        assert_allclose(drawn.mean(), np.average(X[:, 0], weights=weights), atol=0.05)

    @pytest.mark.parametrize("name", ["crescent", "moons"])
    def test_weights_near_one_change_little(self, name, request):
        X = request.getfixturevalue(name)
        labels = np.zeros(len(X), dtype=int)
        near = np.exp(1e-7 * random_state(1).standard_normal(len(X)))
        near *= (len(X) + 1e-6) / near.sum()
        one, other = (
            fit_partition(X, weights, labels, whole, 0.0, random_state())
            for weights in (np.ones(len(X)), near)
        )
        assert [fit.members for fit in one.fits] == [fit.members for fit in other.fits]
        assert_allclose(other.held_out, one.held_out, atol=1e-5)
        assert_allclose(other.density.logpdf(X), one.density.logpdf(X), atol=1e-4)

    def test_weights_that_tell_nothing_do_not_spoil_the_fit(self, moons):
        """No fit is judged by parts of samples that it has seen."""
        labels, weights = np.zeros(len(moons), dtype=int), random_state(0).uniform(0.7, 1.3, 120)
        one, other = (
            fit_partition(moons, each, labels, whole, 0.0, random_state()).density
            for each in (np.ones(120), weights)
        )
        new = two_moons(500, 2)
        assert abs(one.logpdf(new).mean() - other.logpdf(new).mean()) < 0.1

    @settings(max_examples=15)
    @given(samples(min_samples=1, max_samples=50, max_features=4), wild_weights(50, 50), seeds)
    @pytest.mark.whole
    def test_any_weights_give_a_finite_density(self, X, weights, seed):
        X = np.unique(X, axis=0)
        weights = weights[: len(X)]
        labels = random_state(seed).randint(-1, 3, size=len(X))
        min_std = 0.1 if len(X) == 1 else 0.0
        found = fit_partition(X, weights, labels, whole, min_std, random_state(seed))
        assert np.isfinite(found.density.logpdf(X)).all()
        assert np.isfinite(found.density.sample(5, random_state=0)).all()
        assert np.isfinite(found.held_out)
        for fit in found.fits:
            assert np.isfinite([fit.gain, fit.gain_error, fit.held_out]).all()

    def test_the_number_of_samples_is_named_where_they_have_no_spread(self):
        with pytest.raises(ValueError, match="n_samples = 7"):
            fit_partition(
                np.ones((1, 2)), np.array([7.0]), np.zeros(1, dtype=int), whole, 0.0, random_state()
            )


def two_moons(n_samples, seed):
    return datasets.load("two_moons").sample(n_samples, random_state=seed)


@pytest.fixture(scope="module")
def moons():
    return two_moons(120, 1)


@pytest.fixture(scope="module")
def auto(moons):
    return AutoROME().fit(moons)


@pytest.fixture(scope="module")
def blob():
    rng = random_state(0)
    return rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3))


def narrowest(density):
    """The smallest standard deviation of any kernel in any direction."""
    return 1 / np.linalg.norm(density.transforms, 2, axis=(1, 2)).max()


def margin_log_density(density, feature, x):
    """The logarithm of the density of one feature."""
    roots = np.linalg.inv(density.transforms)[:, :, feature]
    stds = np.repeat(np.linalg.norm(roots, axis=1), np.diff(density.offsets))
    parts = norm(density.means[:, feature], stds).logpdf(np.reshape(x, (-1, 1)))
    return logsumexp(parts + np.log(density.weights), axis=1)


class TestAutoROME:
    def test_row_order_does_not_matter(self, auto, moons):
        rows = random_state(1).permutation(len(moons))
        again = AutoROME().fit(moons[rows])
        assert_allclose(again.score_samples(moons), auto.score_samples(moons), atol=1e-9)
        assert_array_equal(again.labels_, auto.labels_[rows])

    @pytest.mark.parametrize("factor", [1e-9, 7.3, 1e12])
    def test_units_do_not_matter(self, auto, moons, factor):
        again = AutoROME().fit(factor * moons)
        moved = again.score_samples(factor * moons) + 2 * np.log(factor)
        assert_allclose(moved, auto.score_samples(moons), atol=1e-8)
        assert_array_equal(again.labels_, auto.labels_)
        assert_allclose(again.held_out_ + 2 * np.log(factor), auto.held_out_, atol=1e-8)

    @pytest.mark.parametrize("scales", [(1e-6, 1.0, 1e6), (1e6, 1e-6, 1.0)])
    def test_units_of_features_matter_little_in_one_cluster(self, blob, scales):
        """Up to the folds, since rows are ordered by their distance to the mean."""
        one, other = AutoROME().fit(blob), AutoROME().fit(blob * scales)
        moved = other.score_samples(blob * scales) + np.log(scales).sum()
        assert np.abs(moved - one.score_samples(blob)).mean() < 0.05

    def test_translation(self, blob):
        shift = 2.0**10
        one, other = AutoROME().fit(blob), AutoROME().fit(blob + shift)
        assert_allclose(other.score_samples(blob + shift), one.score_samples(blob), atol=1e-6)

    def test_seeds(self, moons):
        X, queries = moons[:70], moons[70:]
        expected = AutoROME().fit(X).score_samples(queries)
        for again in (AutoROME(random_state=0), AutoROME(random_state=random_state(0))):
            assert_array_equal(again.fit(X).score_samples(queries), expected)
        other = AutoROME(random_state=1).fit(X).score_samples(queries)
        assert (other != expected).any()
        assert abs(other.mean() - expected.mean()) < 0.2

    def test_a_refit_is_a_fit(self, auto, moons, blob):
        again = AutoROME().fit(blob).fit(moons)
        assert_array_equal(again.score_samples(moons), auto.score_samples(moons))

    def test_threads_over_clusters_change_nothing(self):
        X, _ = blobs([20, 25, 15])
        one, other = AutoROME().fit(X), AutoROME(n_jobs=3).fit(X)
        assert len(one.clusters_) == 3
        assert_array_equal(other.score_samples(X), one.score_samples(X))

    def test_numpys_generator_is_left_alone(self, blob):
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        AutoROME(random_state=None).fit(blob).sample(3)
        assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002

    def test_one_feature_integrates_to_one_and_samples_follow(self):
        X = random_state(0).exponential(size=(200, 1))
        model = AutoROME().fit(X)
        axis = np.linspace(-20, 60, 40_001)
        mass = np.exp(model.score_samples(axis[:, None])) * (axis[1] - axis[0])
        assert_allclose(mass.sum(), 1.0, atol=1e-3)
        drawn = model.sample(3000, random_state=0)[:, 0]
        assert kstest(drawn, lambda x: np.interp(x, axis, np.cumsum(mass))).pvalue > 0.01

    def test_gaussian_clusters_keep_one_gaussian(self):
        X = datasets.load("aniso").sample(1000, random_state=0)
        model = AutoROME().fit(X)
        assert len(model.clusters_) == 3
        assert model.density_.n_kernels < 6
        for cluster in model.clusters_:
            rows = X[model.labels_ == cluster.label]
            assert len(cluster.members) == 1
            assert cluster.n_members == len(rows)
            assert_allclose(cluster.share, len(rows) / len(X))
            assert_allclose(cluster.mean, rows.mean(axis=0), atol=1e-9)

    @pytest.mark.parametrize(("name", "gain"), [("two_moons", 0.3), ("trajectories", 2.0)])
    def test_new_samples_are_likelier_than_under_rome(self, name, gain):
        train, test = datasets.load(name).split(run=0, n_samples=800)
        model = AutoROME().fit(train)
        assert model.score(test) > ROME().fit(train).score(test) + gain
        assert abs(model.held_out_ - model.score(test)) < 0.4

    def test_one_gross_outlier_changes_little(self, blob, moons, auto):
        plain = AutoROME().fit(blob)
        model = AutoROME().fit(np.append(blob, [[1e6, -1e6, 1e6]], axis=0))
        assert np.abs(model.score_samples(blob) - plain.score_samples(blob)).mean() < 0.05
        assert model.labels_[-1] == STRAY
        assert (model.labels_[:-1] == 0).all()
        assert np.isfinite(model.score_samples([[1e6, -1e6, 1e6]])).all()
        model, new = AutoROME().fit([*moons, [1e6, -1e6]]), two_moons(500, 2)
        assert abs(model.score(new) - auto.score(new)) < 0.05

    def test_a_feature_of_two_values(self):
        rng = random_state(0)
        X = np.stack([rng.standard_normal(200), rng.randint(2, size=200)], axis=1)
        model = AutoROME().fit(X)
        assert len(model.clusters_) == 2
        drawn = model.sample(500, random_state=0)[:, 1]
        n_others = np.sum(np.abs(drawn - (drawn > 0.5)) > 0.01)
        assert n_others < 5
        assert abs(drawn.mean() - X[:, 1].mean()) < 0.1
        # Other values are unlikely, but not ruled out.
        assert -30 < model.score_samples([[0.0, 0.5]])[0] < -5

    @pytest.mark.parametrize("values", [1, 2])
    def test_what_has_no_spread_tells_nothing_of_the_rest(self, values):
        """Narrow kernels must not be chosen for what they win on a feature without spread."""
        rng = random_state(0)
        x, new = rng.standard_normal(200), rng.standard_normal(500)
        X = np.stack([x, 3.3 + rng.randint(values, size=200)], axis=1)
        alone, model = AutoROME().fit(X[:, :1]), AutoROME().fit(X)
        found = margin_log_density(model.density_, 0, new).mean()
        assert found > alone.score(new[:, None]) - 0.05

    def test_a_constant_feature(self, blob):
        X = np.append(blob, np.full((len(blob), 1), 0.1), axis=1)
        model = AutoROME().fit(X)
        assert np.isfinite(model.score_samples(X)).all()
        assert_allclose(model.sample(50, random_state=0)[:, 3], 0.1, atol=1e-2)

    def test_equal_samples(self):
        X = np.full((20, 2), 0.1)
        with pytest.raises(ValueError, match="min_std"):
            AutoROME().fit(X)
        model = AutoROME(min_std=0.1).fit(X)
        truth = multivariate_normal([0.1, 0.1], 0.1**2).logpdf([0.1, 0.2])
        assert_allclose(model.score_samples([[0.1, 0.2]]), truth, atol=1e-6)

    @pytest.mark.parametrize("n_samples", [2, 3, 5, 7])
    @pytest.mark.parametrize("n_features", [1, 2, 9])
    def test_few_samples(self, n_samples, n_features):
        X = random_state(n_features).standard_normal((n_samples, n_features))
        model = AutoROME().fit(X)
        assert np.isfinite(model.score_samples(X)).all()
        assert np.isfinite(model.held_out_)
        assert model.sample(3, random_state=0).shape == (3, n_features)
        assert all(cluster.reason in model.summary() for cluster in model.clusters_)

    @pytest.mark.parametrize("n_samples", [2, 3, 5])
    def test_few_samples_are_no_spikes(self, n_samples):
        """Between samples there may be others."""
        model = AutoROME().fit(np.linspace(-1, 1, n_samples)[:, None] ** 3)
        between = np.linspace(-1, 1, 41)[:, None]
        assert model.score_samples(between).min() > -10

    def test_one_sample_has_no_spread(self):
        with pytest.raises(ValueError, match="min_std"):
            AutoROME().fit([[1.0, 2.0]])
        assert np.isfinite(AutoROME(min_std=1.0).fit([[1.0, 2.0]]).score([[1.0, 2.0]]))

    @pytest.mark.parametrize("min_std", [0.01, 2.0])
    def test_no_kernel_is_narrower_than_min_std(self, moons, min_std):
        rng = random_state(0)
        line = rng.standard_normal((40, 1)) * [1.0, 2.0, -1.0]
        outlier = np.append(moons[:40], [[1e3, 1e3]], axis=0)
        counts = rng.randint(2, size=(50, 2)).astype(float)
        tails = rng.standard_t(1.5, size=(60, 2))
        for X in (line, outlier, counts, tails, moons[:9]):
            model = AutoROME(min_std=min_std).fit(X)
            assert narrowest(model.density_) > min_std * (1 - 1e-6)
            assert np.isfinite(model.score_samples(X)).all()

    @settings(max_examples=10)
    @given(samples(min_samples=1, max_samples=40, max_features=5, scales=(1e-12, 1.0, 1e12)))
    def test_any_samples_give_a_finite_density(self, X):
        model = AutoROME()
        if (X[0] == X).all():
            with pytest.raises(ValueError, match="min_std"):
                model.fit(X)
            model.set_params(min_std=0.01 * max(np.abs(X).max(), 1e-300))
        model.fit(X)
        assert np.isfinite(model.score_samples(X)).all()
        assert np.isfinite(model.sample(5, random_state=0)).all()
        assert np.isfinite(model.held_out_)

    def test_a_failed_refit_keeps_the_old_model(self, blob):
        model = AutoROME().fit(blob)
        before = model.score_samples(blob)
        with pytest.raises(ValueError, match="min_std"):
            model.fit(np.ones((5, 2)))
        with pytest.raises(ValueError, match="min_std"):
            model.set_params(min_std=-1.0).fit(blob)
        assert_array_equal(model.score_samples(blob), before)
        assert model.n_features_in_ == 3

    def test_summaries_name_members_weights_and_gains(self, auto, moons):
        said, shown = auto.summary(), auto._repr_html_()
        (cluster,) = auto.clusters_
        for text in (said, shown):
            for name, weight in zip(cluster.members, cluster.weights, strict=True):
                assert f"{name} ({weight:.0%})" in text.replace("&#x27;", "'")
            assert f"{cluster.gain:.3f} ± {cluster.gain_error:.3f}" in text
            assert f"{auto.held_out_:.4g}" in text
        assert f"{auto.density_.n_kernels} kernels in 2 dimensions" in said
        assert "AutoROME" in AutoROME()._repr_html_()
        assert_allclose(cluster.weights.sum(), 1.0)
        assert cluster.n_members == len(moons)

    def test_summaries_tell_of_strays(self, blob):
        strays = AutoROME().fit([*blob, [1e6] * 3])
        for text in (strays.summary(), strays._repr_html_()):
            assert "far from all clusters" in text
            assert "put together" not in text

    def test_a_spiral_is_put_together(self):
        model = AutoROME().fit(spiral())
        assert model.n_fragments_ > 1
        assert_array_equal(model.labels_, 0)
        for text in (model.summary(), model._repr_html_()):
            assert f"{model.n_fragments_} clusters" in text

    @pytest.mark.parametrize("sizes", [(15, 15), (60, 12), (40, 40)])
    def test_clusters_that_are_apart_stay(self, sizes):
        X, group = blobs(sizes, apart=20.0)
        model = AutoROME().fit(X)
        assert model.n_fragments_ == 0
        assert len(np.unique(model.labels_[group == 0])) == 1
        assert len(np.unique(model.labels_)) == 2
        shares = sorted(cluster.share for cluster in model.clusters_)
        assert_allclose(shares, sorted(np.divide(sizes, sum(sizes))))

    @pytest.mark.parametrize(
        ("parameters", "error"),
        [
            ({"min_std": -1.0}, ValueError),
            ({"min_std": np.nan}, ValueError),
            ({"min_std": np.inf}, ValueError),
            ({"min_std": "auto"}, TypeError),
            ({"min_std": None}, TypeError),
            ({"min_std": True}, TypeError),
            ({"min_std": [0.1]}, TypeError),
            ({"random_state": "seed"}, TypeError),
            ({"random_state": 1.5}, TypeError),
            ({"random_state": True}, TypeError),
            ({"random_state": -1}, ValueError),
        ],
    )
    def test_bad_parameters_are_named(self, blob, parameters, error):
        with pytest.raises(error, match=next(iter(parameters))):
            AutoROME(**parameters).fit(blob)


def spiral():
    rng = random_state(0)
    angle = 3 * np.pi * np.sqrt(rng.uniform(size=150))
    X = np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1)
    return X + 0.1 * rng.standard_normal(X.shape)
