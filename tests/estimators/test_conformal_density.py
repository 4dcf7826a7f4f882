"""Conformal regions and p-values, beside loops over folds, and their coverage."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from sevenhills import (
    ROME,
    ConformalDensity,
    GaussianKDE,
    KernelMixture,
    VineDensity,
    conformal,
    datasets,
)
from sevenhills.density.pieces import polygon_pieces
from sevenhills.folds import hold_out, mixed_generator

from .plain_densities import Gaussian, Nowhere

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(200, random_state=1)


@pytest.fixture(scope="module")
def plane():
    """A Gaussian of two features; its log density at the mean is -log(2 pi)."""
    return KernelMixture.from_covariances([1.0], [[0.0, 0.0]], np.eye(2))


class Normal(Gaussian):
    """A Gaussian whose log density of one row is an array, too."""

    def score_samples(self, X):
        return np.atleast_1d(super().score_samples(X))


def held_out_by_hand(estimator, X, cv, seed=0, weights=None):
    """Return fits, and the rows and weights of the samples that each has not seen."""
    own = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    by_value = np.lexsort(X.T[::-1])
    out = []
    for held in hold_out(own[by_value], cv, mixed_generator(seed, X)):
        left = own[by_value] - held
        rest = {} if weights is None else {"sample_weight": left[left > 0]}
        fit = clone(estimator).fit(X[by_value][left > 0], **rest)
        out.append((fit, by_value[held > 0], held[held > 0]))
    return out


def p_values_by_hand(folds, X, new):
    """Count held-out samples, one by one, whose log densities are not above that of a row."""
    out = []
    for x in new:
        below, total = 0.0, 0.0
        for fit, rows, weights in folds:
            at_x = fit.score_samples(x[None])[0]
            for row, weight in zip(rows, weights, strict=True):
                total += weight
                below += weight * (fit.score_samples(X[row][None])[0] <= at_x + 1e-9)
        out.append((1 + below) / (1 + total))
    return np.array(out)


def differences_by_hand(folds, X, new):
    """The log densities of rows, minus those of held-out samples by the same fit, descending."""
    columns = [
        fit.score_samples(new)[:, None] - fit.score_samples(X[rows])[None] for fit, rows, _ in folds
    ]
    return -np.sort(-np.concatenate(columns, axis=1), axis=1)


def some_rows(X):
    """Rows inside and outside of the samples, and far away."""
    return np.concatenate([X[:8] + 0.03, X[8:14] * 1.4, [[3.0, 3.0], [1e3, 0.0]]])


class TestPValues:
    def test_of_a_split_are_uniform_with_one_seed_for_all_samples(self):
        """Rows are sorted before they are dealt, so a seed alone would hold out the same ranks."""
        rng, found = np.random.RandomState(0), []
        for _ in range(400):
            X = rng.standard_normal((30, 1))
            found.append(conformal(Gaussian(), X, cv=0.5).p_value(rng.standard_normal((50, 1))))
        # Of 15 held-out samples, p-values are multiples of 1/16.
        for k in (2, 4, 8, 12):
            shares = (np.array(found) <= k / 16 + 1e-9).mean(axis=1)
            error = shares.std() / np.sqrt(len(shares))
            assert abs(shares.mean() - k / 16) < 3.5 * error

    @pytest.mark.parametrize("estimator", [GaussianKDE(), Normal(), KernelDensity(bandwidth=0.2)])
    @pytest.mark.parametrize("cv", [2, 5, 0.5, 0.1, 30, 400])
    def test_are_those_of_a_loop_over_folds(self, moons, estimator, cv):
        X = moons[:30]
        found = conformal(estimator, X, cv=cv)
        folds = held_out_by_hand(estimator, X, cv)
        new = some_rows(moons)
        assert_allclose(found.p_value(new), p_values_by_hand(folds, X, new), rtol=1e-12)
        assert_allclose(found.hdr_probability(new), 1 - found.p_value(new))
        expected = np.full(len(X), np.nan)
        for fit, rows, _ in folds:
            expected[rows] = fit.score_samples(X[rows])
        assert_allclose(found.held_out_scores_, expected, atol=1e-9)
        assert found.n_samples == np.isfinite(expected).sum()
        assert len(found.folds_) == len(folds) == (1 if cv < 1 else min(cv, 30))

    def test_leaving_one_out(self, moons):
        X = moons[:20]
        found = conformal(GaussianKDE(), X, cv=len(X))
        one_less = [GaussianKDE().fit(np.delete(X, i, axis=0)) for i in range(20)]
        for x, p_value in zip(some_rows(moons), found.p_value(some_rows(moons)), strict=True):
            below = [
                fit.score_samples(X[i][None])[0] <= fit.score_samples(x[None])[0] + 1e-9
                for i, fit in enumerate(one_less)
            ]
            assert_allclose(p_value, (1 + sum(below)) / 21)

    def test_the_fit_to_all_samples_gives_densities(self, moons):
        found = conformal(GaussianKDE(), moons)
        expected = GaussianKDE().fit(moons).score_samples(moons + 0.1)
        assert_allclose(found.log_density(moons + 0.1), expected, atol=1e-9)

    def test_a_split_gives_the_densities_of_its_fit(self, moons):
        found = conformal(GaussianKDE(), moons, cv=0.3)
        ((fit, rows, _),) = held_out_by_hand(GaussianKDE(), moons, 0.3)
        assert len(rows) == found.n_samples == 60
        assert_allclose(found.log_density(moons), fit.score_samples(moons), atol=1e-9)

    @pytest.mark.parametrize(
        "fitted",
        [
            lambda X: GaussianKDE().fit(X),
            lambda X: GaussianKDE().fit(X).density_,
            lambda X: KernelDensity(bandwidth=0.2).fit(X),
            lambda X: GaussianMixture(2, random_state=0).fit(X),
            lambda X: VineDensity().fit(X),
        ],
    )
    def test_of_a_density_and_unseen_samples(self, moons, fitted):
        model, unseen, new = fitted(moons[:100]), moons[100:], some_rows(moons)
        score = model.logpdf if isinstance(model, KernelMixture) else model.score_samples
        found = conformal(model, unseen, cv=None)
        assert found.estimator_ is model
        below = score(unseen)[None] <= score(new)[:, None]
        assert_allclose(found.p_value(new), (1 + below.sum(axis=1)) / 101)
        assert_allclose(found.log_density(new), score(new))
        assert_allclose(found.held_out_scores_, score(unseen))

    def test_the_order_of_rows_does_not_matter(self, moons):
        rows = np.random.RandomState(0).permutation(len(moons))
        weights = np.random.RandomState(1).uniform(0.5, 2, len(moons))
        X = np.round(moons, 1)  # equal rows with different weights
        for own in (None, weights):
            one = conformal(GaussianKDE(), X, sample_weight=own)
            other = conformal(
                GaussianKDE(), X[rows], sample_weight=None if own is None else own[rows]
            )
            assert_allclose(one.p_value(moons), other.p_value(moons), rtol=1e-9)
            if own is not None:
                assert_allclose(one.held_out_scores_[rows], other.held_out_scores_, atol=1e-7)

    def test_weights_are_repetitions(self, moons):
        counts = np.random.RandomState(0).randint(0, 4, len(moons))
        new = np.concatenate([moons, moons + 0.3])
        for cv in (5, 0.4):
            weighted = conformal(GaussianKDE(), moons, cv=cv, sample_weight=counts)
            repeated = conformal(GaussianKDE(), np.repeat(moons, counts, axis=0), cv=cv)
            assert weighted.n_samples == repeated.n_samples
            assert_allclose(weighted.p_value(new), repeated.p_value(new), rtol=1e-9)
            assert_allclose(weighted.margin(new), repeated.margin(new), atol=1e-6)
            assert weighted.guarantee() == repeated.guarantee()
        assert np.isnan(weighted.held_out_scores_[counts == 0]).all()

    def test_fractional_weights(self, moons):
        X, weights = moons[:40], np.random.RandomState(0).uniform(0.1, 3, 40)
        found = conformal(GaussianKDE(), X, sample_weight=weights)
        folds = held_out_by_hand(GaussianKDE(), X, 5, weights=weights)
        new = some_rows(moons)
        assert_allclose(found.p_value(new), p_values_by_hand(folds, X, new), rtol=1e-9)
        assert found.n_samples == round(weights.sum())

    def test_weights_of_much_less_than_a_sample(self, moons):
        """Rows that stand for a tenth of a sample reject nothing."""
        found = conformal(GaussianKDE(), moons, sample_weight=np.full(len(moons), 5e-4))
        assert found.n_samples == found.guarantee() == 0
        assert_allclose(found.p_value([[1e3, 0.0]]), 1 / 1.1)

    def test_seeds(self, moons):
        def p_values(seed):
            return conformal(GaussianKDE(), moons, random_state=seed).p_value(moons + 0.1)

        assert_array_equal(p_values(1), p_values(np.random.RandomState(1)))
        assert (p_values(1) != p_values(2)).any()

    def test_no_density_anywhere(self, moons):
        found = conformal(Nowhere(), moons)
        assert_array_equal(found.p_value(moons + 0.1), 1.0)
        assert found.contains(moons).all()
        assert_array_equal(found.held_out_scores_, -np.inf)

    @pytest.mark.parametrize("cv", [5, 0.5])
    def test_ties_never_make_them_too_small(self, cv):
        """Of rounded values, new ones are often equal to old ones."""
        n_runs, alphas, p_values = 60, np.array([0.05, 0.1, 0.2, 0.4]), []
        for run in range(n_runs):
            X = np.random.RandomState(run).poisson(0.7, (140, 2)).astype(float)
            p_values.append(conformal(GaussianKDE(), X[:40], cv=cv).p_value(X[40:]))
        found = np.mean(np.array(p_values)[..., None] <= alphas + 1e-9, axis=1)
        error = found.std(axis=0) / np.sqrt(n_runs)
        assert (found.mean(axis=0) <= alphas + 3 * error).all()
        assert (found.mean(axis=0)[1:] > 0).all()

    def test_last_digits_of_equal_scores_do_not_matter(self, moons):
        """Log densities of equal rows differ in their last digits between blocks of rows."""

        class Jittered(Normal):
            def score_samples(self, X):
                scores = super().score_samples(X)
                return scores * (1 + 1e-13 * np.random.RandomState(len(X)).uniform(-1, 1, len(X)))

        X = np.tile(np.round(moons[:25], 1), (8, 1))
        exact, found = conformal(Normal(), X, cv=0.5), conformal(Jittered(), X, cv=0.5)
        values = np.unique(X, axis=0)
        assert_array_equal(found.p_value(values), exact.p_value(values))
        for value in values:
            assert_array_equal(found.p_value(value[None]), exact.p_value(value[None]))

    def test_of_the_commonest_value_is_one(self):
        X = np.repeat([[0.0], [1.0], [2.0]], [20, 60, 20], axis=0)
        found = conformal(KernelDensity(bandwidth=0.1), X, cv=0.5)
        assert_array_equal(found.p_value(X[[30, 50]]), 1.0)
        assert found.p_value([[0.0]])[0] > 0.2


class TestRegions:
    @pytest.mark.parametrize("cv", [0.5, 4, 40])
    @pytest.mark.parametrize("confidence", [0.3, 0.75, 0.9, 0.95])
    def test_margins_are_differences_of_log_densities(self, moons, cv, confidence):
        """A row is inside if more than alpha (n + 1) - 1 samples are not denser."""
        X, new = moons[:40], some_rows(moons)
        found = conformal(GaussianKDE(), X, cv=cv)
        differences = differences_by_hand(held_out_by_hand(GaussianKDE(), X, cv), X, new)
        n = found.n_samples
        least = int(np.floor((1 - confidence) * (n + 1) + 1e-9))
        margins = found.margin(new, confidence)
        assert_allclose(margins, differences[:, least - 1], rtol=1e-6, atol=1e-6)
        assert_array_equal(margins >= 0, found.contains(new, confidence))

    @given(st.integers(0, 2**31), st.floats(0.2, 0.93), st.sampled_from([0.5, 3, 20]))
    def test_margins_have_the_sign_of_membership(self, seed, confidence, cv):
        rng = np.random.RandomState(seed)
        X, new = rng.standard_normal((40, 2)), 3 * rng.standard_normal((60, 2))
        found = conformal(Normal(), X, cv=cv)
        assert_array_equal(found.margin(new, confidence) >= 0, found.contains(new, confidence))

    @pytest.mark.parametrize("cv", [None, 0.5])
    def test_one_fit_has_a_level(self, moons, plane, cv):
        estimator = plane if cv is None else GaussianKDE()
        found = conformal(estimator, moons, cv=cv)
        region, new = found.region(0.8), some_rows(moons)
        expected = found.log_density(new[:-1]) - region.level
        assert_allclose(found.margin(new[:-1], 0.8), expected, atol=1e-6)
        assert_array_equal(region.contains(new), found.contains(new, 0.8))

    def test_the_level_of_folds_is_a_quantile(self, moons):
        found = conformal(GaussianKDE(), moons)
        below = (found.held_out_scores_ < found.region(0.8).level).sum()
        assert below == np.floor(0.2 * 201) - 1

    def test_too_high_a_confidence(self, moons):
        X, far = moons[:18], [[1e3, 1e3]]
        found = conformal(GaussianKDE(), X)
        assert found.contains(far, 0.95).all()
        assert np.isinf(found.margin(far, 0.95)).all()
        with pytest.raises(
            ValueError, match=r"confidence = 0.95 needs at least 19 samples, got 18"
        ):
            found.region(0.95)
        enough = conformal(GaussianKDE(), moons[:19])
        assert not enough.contains(far, 0.95).any()
        assert_allclose(enough.region(0.95).level, enough.held_out_scores_.min())

    def test_a_p_value_that_equals_the_level(self, moons):
        """It is outside, although 1 - 0.9 is less than 0.1 in floating point."""
        found, far = conformal(GaussianKDE(), moons[:9]), [[1e3, 1e3]]
        assert found.p_value(far)[0] == 0.1
        assert not found.contains(far, 0.9)[0]
        assert found.margin(far, 0.9)[0] < 0
        assert_allclose(found.region(0.9).level, found.held_out_scores_.min())

    def test_guarantees(self, moons):
        def guarantee(cv, n_samples=100, confidence=0.9):
            return conformal(Normal(), moons[:n_samples], cv=cv).guarantee(confidence)

        assert guarantee(0.5) == 0.9
        assert conformal(Normal().fit(moons), moons, cv=None).guarantee(0.8) == 0.8
        assert_allclose(guarantee(100), 0.8)
        assert_allclose(guarantee(5), 1 - 2 * (0.1 * 101 + 4) / 105)
        assert_allclose(guarantee(50), 1 - 0.2 - (1 - 50 / 100) / 51)
        assert_allclose(guarantee(5, 98), 1 - 2 * (0.1 * 99 + 4) / 103)
        assert guarantee(5, confidence=0.3) == 0.0
        groups = np.arange(200) % 10
        found = conformal(Normal(), moons, cv=10, groups=groups)
        assert_allclose(found.guarantee(), 0.8)


def is_in_piece(points, piece):
    """Whether points are in the outline of a piece, and in none of its holes."""
    if piece.outline.ndim == 1:
        return (points[:, 0] >= piece.outline[0]) & (points[:, 0] <= piece.outline[1])
    holes = [Path(hole).contains_points(points) for hole in piece.holes]
    return Path(piece.outline).contains_points(points) & ~np.any(holes, axis=0)


def assert_pieces(found, confidence, new, most=0.01):
    """Check pieces against membership, and return them."""
    region = found.region(confidence)
    pieces = region.pieces()
    inside = [is_in_piece(new, piece) for piece in pieces]
    assert np.sum(inside, axis=0).max() == 1
    wrong = np.any(inside, axis=0) != region.contains(new)
    assert wrong.mean() <= most  # between grid lines
    highest = [np.inf]
    for piece in pieces:
        for polygon in (piece.outline, *piece.holes):
            vertices = polygon.reshape(-1, new.shape[1])
            assert np.abs(found.margin(vertices, confidence)).max() < 1e-6
        assert is_in_piece(piece.modes, piece).all()
        scores = found.log_density(piece.modes) if len(piece.modes) else np.array([-1e300])
        assert (np.diff(scores) <= 1e-9).all()
        highest.append(scores[0])
    assert (np.diff(highest) <= 1e-9).all()
    return pieces


class TestPieces:
    @pytest.mark.parametrize("cv", [0.5, 5])
    def test_of_one_feature(self, cv):
        rng = np.random.RandomState(0)
        X = np.concatenate([rng.normal(0, 1, (60, 1)), rng.normal(9, 0.5, (140, 1))])
        found = conformal(ROME(), X, cv=cv)
        pieces = assert_pieces(found, 0.9, rng.uniform(-5, 12, (2000, 1)))
        assert len(pieces) == 2
        assert pieces[0].outline[0] > 5 > pieces[1].outline[1]

    @pytest.mark.whole
    @pytest.mark.parametrize("cv", [0.5, 3])
    def test_of_two_features(self, moons, cv):
        found = conformal(ROME(), moons, cv=cv)
        new = np.random.RandomState(0).uniform(-3, 3, (3000, 2))
        pieces = assert_pieces(found, 0.9, new)
        assert sum(len(piece.modes) for piece in pieces) >= 2

    def test_of_a_ring_have_a_hole(self):
        angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        rng = np.random.RandomState(0)
        heights = 1 + 0.3 * circle[:, 0]
        ring = KernelMixture.from_covariances(heights / heights.sum(), 4 * circle, 0.1 * np.eye(2))
        found = conformal(ring, ring.sample(300, rng), cv=None)
        (piece,) = assert_pieces(found, 0.9, rng.uniform(-6, 6, (3000, 2)))
        assert len(piece.holes) == 1
        assert Path(piece.holes[0]).contains_points([[0.0, 0.0]])[0]
        assert len(piece.modes) >= 1

    def test_a_hole_belongs_to_the_smallest_outline_around_it(self):
        """A ring around a ring."""
        square = np.array([[-1.0, -1.0], [1, -1], [1, 1], [-1, 1], [-1, -1]])
        polygons = [4 * square, 3 * square[::-1], square[::-1], 2 * square]
        modes = np.array([[1.5, 0.0], [3.5, 0.0], [0.0, 3.6]])
        small, large = polygon_pieces(polygons, modes)
        assert_array_equal(small.outline, 2 * square)
        assert_array_equal(small.holes, [square[::-1]])
        assert_array_equal(small.modes, modes[:1])
        assert_array_equal(large.outline, 4 * square)
        assert_array_equal(large.holes, [3 * square[::-1]])
        assert_array_equal(large.modes, modes[1:])

    def test_without_modes(self, moons):
        found = conformal(GaussianMixture(2, random_state=0), moons, cv=0.5)
        pieces = found.region(0.9).pieces(n_grid=64)
        assert pieces
        assert all(piece.modes.shape == (0, 2) for piece in pieces)
        assert np.abs(found.margin(pieces[0].outline)).max() < 1e-6

    def test_within_bounds(self):
        """Regions end at a bound; modes at both bounds are in their own pieces."""
        x = np.random.RandomState(0).beta(0.4, 0.4, (300, 1))
        found = conformal(GaussianKDE(support={0: (0, 1, "mirror")}), x, cv=0.5)
        first, second = sorted(found.region(0.5).pieces(), key=lambda piece: piece.outline[0])
        assert first.outline[0] == 0.0
        assert second.outline[1] == 1.0
        for piece in (first, second):
            assert is_in_piece(piece.modes, piece).all()
        assert found.contains([[0.01], [0.99]], 0.5).all()
        assert not found.contains([[0.5]], 0.5).any()

    def test_on_a_circle(self):
        """An interval may pass the end of the turn."""
        rng = np.random.RandomState(0)
        hours = np.concatenate([rng.normal(0, 1, 150), rng.normal(9, 1, 150)]) % 24
        found = conformal(GaussianKDE(support={0: ("circular", 24)}), hours[:, None], cv=0.5)
        new = np.linspace(0, 24, 1001)[:-1]
        for confidence in (0.3, 0.9, 0.99):
            pieces = found.region(confidence).pieces()
            inside = np.zeros(1000, dtype=bool)
            for piece in pieces:
                low, high = piece.outline
                inside |= (new - low) % 24 <= high - low
                assert ((piece.modes[:, 0] - low) % 24 <= high - low).all()
                assert len(piece.modes) >= 1
            wrong = inside != found.contains(new[:, None], confidence)
            assert wrong.mean() <= 0.005
        assert len(found.region(0.5).pieces()) == 2

    def test_a_nearly_full_circle_is_one_piece(self):
        """All but a gap, which the turn of the frame does not begin in."""
        density = GaussianKDE(support={0: ("circular", 24)})
        hours = np.random.RandomState(0).uniform(0, 24, (400, 1))
        hours = np.concatenate([hours, np.random.RandomState(1).normal(6, 0.5, (50, 1))])
        found = conformal(density, hours % 24, cv=0.5)
        total = sum(np.ptp(piece.outline) for piece in found.region(0.9).pieces())
        inside = found.contains(np.linspace(0, 24, 4001)[:-1, None]).mean()
        assert_allclose(total, 24 * inside, atol=0.1)

    @pytest.mark.whole
    def test_bounds_and_circles_of_two_features(self):
        rng = np.random.RandomState(0)
        X = np.stack([rng.exponential(1, 200), rng.normal(0, 1, 200) % 24], axis=1)
        found = conformal(ROME(support={0: (0, None), 1: ("circular", 24)}), X, cv=0.5)
        pieces = found.region(0.9).pieces(n_grid=64)
        assert pieces
        assert min(piece.outline[:, 0].min() for piece in pieces) >= 0
        assert all(np.isfinite(piece.outline).all() for piece in pieces)

    def test_where_a_ratio_is_very_large(self):
        """Every row is inside there, since there are too few samples like it."""
        x = np.random.RandomState(0).standard_normal((200, 1)) + np.tile([[-9.0], [9.0]], (100, 1))
        found = conformal(
            KernelDensity(), x, cv=0.5, ratio=lambda X: 1 + 1e6 * (np.abs(X[:, 0]) < 0.5)
        )
        assert np.isinf(found.margin([[0.0]])).all()
        left, middle, right = found.region(0.9).pieces()
        assert_allclose(middle.outline, [-0.5, 0.5], atol=0.01)
        for piece in (left, right):
            assert np.abs(found.margin(piece.outline[:, None])).max() < 1e-6

    def test_more_features_are_refused(self):
        X = np.random.RandomState(0).standard_normal((60, 3))
        with pytest.raises(ValueError, match=r"1 or 2 features, but the density has 3"):
            conformal(Normal(), X).region(0.8).pieces()

    @pytest.mark.parametrize("n_grid", [3, 0])
    def test_too_few_grid_lines(self, moons, n_grid):
        with pytest.raises(ValueError, match="n_grid must be at least 4"):
            conformal(Normal(), moons, cv=0.5).region(0.8).pieces(n_grid)


class TestGroups:
    def test_are_held_out_as_a_whole_with_equal_weights(self, moons):
        X = moons[:60]
        groups = np.array([f"group {i}" for i in np.random.RandomState(0).randint(0, 9, 60)])
        found = conformal(GaussianKDE(), X, cv=4, groups=groups)
        new = some_rows(moons)
        assert found.n_samples == 9
        below, names = np.zeros(len(new)), np.unique(groups)
        for held in hold_out(np.ones(9), 4, mixed_generator(0, X)) > 0:
            out = np.isin(groups, names[held])
            fit = GaussianKDE().fit(X[~out])
            assert_allclose(found.held_out_scores_[out], fit.score_samples(X[out]), atol=1e-9)
            for name in names[held]:
                scores = fit.score_samples(X[groups == name])
                below += np.mean(scores[None] <= fit.score_samples(new)[:, None], axis=1)
        assert_allclose(found.p_value(new), (1 + below) / 10)

    def test_with_weights(self, moons):
        """A row of weight two counts as two rows of its group."""
        rng = np.random.RandomState(0)
        counts, groups = rng.randint(0, 4, 60), rng.randint(0, 7, 60)
        weighted = conformal(GaussianKDE(), moons[:60], groups=groups, sample_weight=counts)
        repeated = conformal(
            GaussianKDE(), np.repeat(moons[:60], counts, axis=0), groups=np.repeat(groups, counts)
        )
        assert_allclose(weighted.p_value(moons), repeated.p_value(moons), rtol=1e-9)

    def test_of_unseen_samples(self, moons, plane):
        groups = np.repeat([0, 1, 1, 1], 50)
        found = conformal(plane, moons, cv=None, groups=groups)
        scores, new = plane.logpdf(moons), some_rows(moons)
        below = scores[None] <= plane.logpdf(new)[:, None]
        expected = 1 + below[:, :50].mean(axis=1) + below[:, 50:].mean(axis=1)
        assert_allclose(found.p_value(new), expected / 3)

    def test_cover_rows_of_new_groups(self):
        """Groups far apart: without labels, a region misses most rows of new ones."""

        def draw(rng, n_groups):
            centers = 5 * rng.standard_normal((n_groups, 1))
            return np.repeat(centers, 10, axis=0) + 0.1 * rng.standard_normal((10 * n_groups, 1))

        grouped, plain, labels = [], [], np.repeat(np.arange(12), 10)
        for run in range(40):
            rng = np.random.RandomState(run)
            X, new = draw(rng, 12), draw(rng, 50)
            estimator = KernelDensity(bandwidth=0.3)
            grouped.append(conformal(estimator, X, groups=labels).contains(new, 0.8).mean())
            plain.append(conformal(estimator, X).contains(new, 0.8).mean())
        assert np.mean(grouped) > 0.8 - 3 * np.std(grouped) / np.sqrt(40)
        assert np.mean(plain) < 0.6


class TestRatio:
    @staticmethod
    def ratio(X):
        """The density of N(1, 1) over that of N(0, 1), times a factor."""
        return 1e-3 * np.exp(X[:, 0])

    def test_covers_a_shifted_distribution(self):
        weighted, plain = [], []
        for run in range(30):
            rng = np.random.RandomState(run)
            X, new = rng.standard_normal((200, 1)), 1 + rng.standard_normal((500, 1))
            weighted.append(
                conformal(Gaussian1D(), X, cv=0.5, ratio=self.ratio).contains(new, 0.9).mean()
            )
            plain.append(conformal(Gaussian1D(), X, cv=0.5).contains(new, 0.9).mean())
        assert np.mean(weighted) > 0.9 - 3 * np.std(weighted) / np.sqrt(30)
        assert np.mean(weighted) < 0.97
        assert np.mean(plain) < 0.8

    def test_p_values_by_hand(self, moons):
        X, new = moons[:30], some_rows(moons)[:-1]
        found = conformal(GaussianKDE(), X, cv=3, ratio=self.ratio)
        own = self.ratio(new)
        below, total = np.zeros(len(new)), self.ratio(X).sum()
        for fit, rows, _ in held_out_by_hand(GaussianKDE(), X, 3):
            is_below = fit.score_samples(X[rows])[None] <= fit.score_samples(new)[:, None]
            below += is_below @ self.ratio(X[rows])
        assert_allclose(found.p_value(new), (own + below) / (own + total))
        assert_array_equal(found.margin(new, 0.8) >= 0, found.contains(new, 0.8))

    def test_a_factor_does_not_matter(self, moons):
        one, other = (
            conformal(GaussianKDE(), moons, ratio=lambda X, factor=factor: factor * np.exp(X[:, 0]))
            for factor in (1.0, 1e-6)
        )
        assert_allclose(one.p_value(moons), other.p_value(moons), rtol=1e-9)
        assert one.region(0.9).level == other.region(0.9).level
        plain = conformal(GaussianKDE(), moons)
        constant = conformal(GaussianKDE(), moons, ratio=lambda X: np.full(len(X), 7.0))
        assert_allclose(constant.p_value(moons), plain.p_value(moons), rtol=1e-9)
        assert constant.region(0.9).level == plain.region(0.9).level

    @pytest.mark.parametrize(
        ("ratio", "error", "match"),
        [
            (2.0, TypeError, "ratio must be a function of rows, got 2.0"),
            (lambda X: X, ValueError, "ratio must return one finite number for each of 200 rows"),
            (lambda X: np.ones(3), ValueError, "ratio must return one finite number"),
            (lambda X: -np.ones(len(X)), ValueError, "not below zero"),
            (lambda X: np.full(len(X), np.nan), ValueError, "ratio must return one finite number"),
            (lambda X: np.zeros(len(X)), ValueError, "ratio is zero at all samples"),
            (lambda X: ["a"] * len(X), (TypeError, ValueError), r"ratio\(X\)"),
        ],
    )
    def test_bad_ratios(self, moons, ratio, error, match):
        with pytest.raises(error, match=match):
            conformal(GaussianKDE(), moons, ratio=ratio)


class Gaussian1D(BaseEstimator):
    """The mean and the standard deviation of one feature."""

    def fit(self, X, y=None):
        self.mean_, self.std_ = X.mean(), X.std(ddof=1)
        return self

    def score_samples(self, X):
        return -0.5 * ((X[:, 0] - self.mean_) / self.std_) ** 2 - np.log(self.std_)


class TestCoverage:
    def test_of_few_samples_in_many_dimensions(self):
        """The highest-density region of an estimate holds hardly any new samples."""
        rng = np.random.RandomState(0)
        new = rng.standard_normal((4000, 24))
        plain, calibrated = [], []
        for _ in range(5):
            found = conformal(ROME(), rng.standard_normal((100, 24)))
            plain.append((found.estimator_.hdr_probability(new) <= 0.9).mean())
            calibrated.append(found.contains(new, 0.9).mean())
        assert np.mean(plain) < 0.5
        assert np.mean(calibrated) >= 0.88

    @pytest.mark.parametrize("cv", [0.5, 5, 20])
    def test_is_at_least_the_confidence(self, cv):
        covered = []
        for run in range(60):
            X = datasets.load("aniso").sample(140, random_state=run)
            covered.append(conformal(Normal(), X[:40], cv=cv).contains(X[40:], 0.8).mean())
        error = np.std(covered) / np.sqrt(60)
        assert 0.8 - 3 * error < np.mean(covered) < 0.9


class TestFrames:
    def test_supports_by_name(self):
        rng = np.random.RandomState(0)
        frame = pd.DataFrame({"a": rng.exponential(1, 120), "b": rng.standard_normal(120)})
        named = conformal(ROME(support={"a": (0, None)}), frame, cv=3)
        plain = conformal(ROME(support={0: (0, None)}), frame.to_numpy(), cv=3)
        assert_allclose(named.p_value(frame), plain.p_value(frame.to_numpy()))
        assert named.p_value(pd.DataFrame({"a": [-1.0], "b": [0.0]})) == 1 / 121
        with pytest.raises(ValueError, match="feature names"):
            named.p_value(frame[["b", "a"]])

    def test_a_density_of_other_features(self):
        frame = pd.DataFrame(np.random.RandomState(0).standard_normal((50, 2)), columns=["a", "b"])
        fitted = GaussianKDE().fit(frame)
        for model in (fitted, fitted.density_, GaussianMixture(random_state=0).fit(frame)):
            with pytest.raises(
                ValueError, match=re.escape("['b', 'a'], but estimator has ['a', 'b']")
            ):
                conformal(model, frame[["b", "a"]], cv=None)
        assert conformal(fitted, frame, cv=None).p_value(frame).max() == 1.0


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "error", "match"),
        [
            ({"cv": 1}, ValueError, "cv must be a whole number of at least 2 folds"),
            ({"cv": 0}, ValueError, "cv must be"),
            ({"cv": -3}, ValueError, "cv must be"),
            ({"cv": 1.0}, ValueError, "cv must be"),
            ({"cv": 5.0}, ValueError, "cv must be a whole number"),
            ({"cv": np.nan}, ValueError, "cv must be"),
            ({"cv": True}, TypeError, "cv must be a number of folds or a share, got True"),
            ({"cv": np.True_}, TypeError, "cv must be a number of folds"),
            ({"cv": "five"}, TypeError, "cv must be a number of folds"),
            ({"cv": [1]}, TypeError, "cv must be a number of folds"),
            ({"random_state": "a"}, TypeError, "random_state"),
            ({"groups": [1, 2]}, ValueError, "one label for each of 200 rows, got 2"),
            ({"groups": np.zeros(200)}, ValueError, "groups has one label"),
            ({"sample_weight": [1.0]}, ValueError, "sample_weight must have shape"),
            ({"sample_weight": np.eye(200)[0]}, ValueError, "at least 2 are needed to hold one"),
        ],
    )
    def test_bad_options(self, moons, options, error, match):
        with pytest.raises(error, match=match):
            conformal(GaussianKDE(), moons, **options)

    @pytest.mark.parametrize("estimator", ["rome", ROME, None, 3])
    @pytest.mark.parametrize("cv", [5, None])
    def test_bad_estimators(self, moons, estimator, cv):
        with pytest.raises(TypeError, match="estimator must be"):
            conformal(estimator, moons, cv=cv)

    def test_an_estimator_that_does_not_take_weights(self, moons):
        with pytest.raises(TypeError, match=r"Normal\) does not take sample_weight"):
            conformal(Normal(), moons, sample_weight=np.ones(len(moons)))

    def test_samples_that_cannot_be_fitted(self):
        X = [[0.0], [1.0]]
        with pytest.raises(ValueError, match="cannot be fitted without the held-out samples"):
            conformal(GaussianKDE(), X)

    @pytest.mark.parametrize("confidence", [0, 1, 1.5, np.nan])
    @pytest.mark.parametrize("method", ["contains", "margin"])
    def test_bad_confidences(self, moons, method, confidence):
        found = conformal(Normal(), moons)
        with pytest.raises(ValueError, match="confidence"):
            getattr(found, method)(moons, confidence)
        with pytest.raises(ValueError, match="confidence"):
            found.region(confidence)
        with pytest.raises(ValueError, match="confidence"):
            found.guarantee(confidence)

    def test_bad_rows(self, moons):
        found = conformal(Normal(), moons)
        for method in (found.p_value, found.log_density, found.contains, found.margin):
            with pytest.raises(ValueError, match="features"):
                method(moons[:, :1])
            with pytest.raises(ValueError, match="NaN"):
                method([[np.nan, 0.0]])

    @pytest.mark.parametrize("estimator", [ROME(), Normal(), KernelDensity()])
    def test_pickles(self, moons, estimator):
        found = conformal(estimator, moons, cv=3)
        again = pickle.loads(pickle.dumps(found))
        assert isinstance(again, ConformalDensity)
        assert_array_equal(again.p_value(moons + 0.1), found.p_value(moons + 0.1))
        assert repr(again) == "ConformalDensity(n_folds=3, n_samples=200)"
