"""Outliers, by the density of any estimator."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.utils.estimator_checks import parametrize_with_checks

from sevenhills import (
    ROME,
    AutoROME,
    DensityOutlierDetector,
    GaussianKDE,
    ManifoldParzen,
    VineDensity,
    conformal,
    datasets,
)
from sevenhills.estimators.defaults import default_estimator
from sevenhills.estimators.outlier_detector import is_outlier
from sevenhills.folds import hold_out, mixed_generator

from ..strategies import samples
from .plain_densities import Gaussian, Nowhere


@parametrize_with_checks([DensityOutlierDetector(ROME())])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(200, random_state=1)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def clump():
    """A cluster, and one in twenty samples in a dense clump beside it."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 2))
    X[:20] = np.array([7.0, 0.0]) + 0.05 * rng.standard_normal((20, 2))
    return X


def held_out_by_hand(estimator, X, cv=5, seed=0):
    """The score of every row by a fit that has not seen it; rows must be distinct."""
    by_value = np.lexsort(X.T[::-1])
    scores = np.full(len(X), np.nan)
    for held in hold_out(np.ones(len(X)), cv, mixed_generator(seed, X)) > 0:
        fit = clone(estimator).fit(X[by_value][~held])
        scores[by_value[held]] = fit.score_samples(X[by_value][held])
    return scores


def discoveries_by_hand(p_values, rate):
    """Benjamini and Hochberg: the most rows whose largest p-value is at most rate * k / n."""
    order = np.argsort(p_values, kind="stable")
    n_found = 0
    for k in range(1, len(order) + 1):
        if p_values[order[k - 1]] <= rate * k / len(order) * (1 + 1e-9):
            n_found = k
    out = np.zeros(len(order), dtype=bool)
    out[order[:n_found]] = True
    return out


class TestScores:
    @pytest.mark.parametrize("estimator", [ROME(), GaussianKDE(), ManifoldParzen(), Gaussian()])
    def test_come_from_fits_that_have_not_seen_the_row(self, moons, estimator):
        detector = DensityOutlierDetector(estimator).fit(moons)
        new = moons[:50] + 0.01
        expected = clone(estimator).fit(moons).score_samples(new)
        assert_allclose(detector.score_samples(new), expected, atol=1e-9)
        expected = held_out_by_hand(estimator, moons)
        assert_allclose(detector.training_scores_, expected, atol=1e-9)
        both = detector.score_samples(np.concatenate([new, moons]))
        assert_allclose(both[50:], expected, atol=1e-9)

    def test_of_a_split(self, moons):
        """Rows that the fit has seen have its log density, and p-values like new rows."""
        X = np.concatenate([moons, [[4.0, 4.0]]])
        lowest = []
        for seed in range(6):
            detector = DensityOutlierDetector(
                GaussianKDE(), calibration=0.5, random_state=seed
            ).fit(X)
            expected = held_out_by_hand(GaussianKDE(), X, 0.5, seed)
            seen = np.isnan(expected)
            fitted = detector.estimator_
            assert seen.sum() in (100, 101)
            expected[seen] = fitted.score_samples(X[seen])
            assert_allclose(detector.training_scores_, expected, atol=1e-9)
            p_values = detector.p_value(X)
            assert_allclose(p_values[seen], detector.conformal_.p_value(X[seen]))
            assert np.isfinite(detector.decision_function(X)).all()
            lowest.append(seen[-1] and p_values[-1] == 1 / (detector.conformal_.n_samples + 1))
        assert any(lowest)

    def test_find_more_if_they_are_held_out(self, iris):
        X = (iris[0] - iris[0].mean(axis=0)) / iris[0].std(axis=0)
        rng = np.random.RandomState(0)
        X = np.concatenate([X, rng.uniform(-3, 3, (8, 4))])
        planted = np.arange(len(X)) >= 150
        # Spread over their cells, rounded values would not lie on kernels of their own.
        exact = ROME(resolution=None)
        seen = roc_auc_score(planted, -exact.fit(X).score_samples(X))
        found = roc_auc_score(planted, -DensityOutlierDetector(exact).fit(X).training_scores_)
        assert found > max(0.97, seen + 0.05)

    def test_one_of_many_copies_is_held_out(self, moons):
        """So that a value that repeats is as common as it is."""
        X = np.concatenate([moons, np.tile([[0.0, -0.0]], (20, 1))])
        detector = DensityOutlierDetector(GaussianKDE(), calibration=len(X)).fit(X)
        expected = GaussianKDE().fit(X[:-1]).score_samples(X[-1:])
        assert_allclose(detector.training_scores_[-20:], expected[0], atol=1e-9)
        assert_allclose(detector.score_samples([[-0.0, 0.0]]), expected, atol=1e-9)

    @pytest.mark.parametrize(
        "options", [{}, {"rate": 0.1}, {"control": "fdr"}, {"calibration": 0.5}]
    )
    def test_weights_are_repetitions(self, moons, options):
        counts = np.random.RandomState(0).randint(0, 4, len(moons))
        detector = DensityOutlierDetector(GaussianKDE(), **options)
        weighted = clone(detector).fit(moons, sample_weight=counts)
        repeated = clone(detector).fit(np.repeat(moons, counts, axis=0))
        assert weighted.rate_ == repeated.rate_
        queries = np.concatenate([moons, moons + 0.3])
        for method in ("score_samples", "p_value", "decision_function"):
            found, expected = (getattr(each, method)(queries) for each in (weighted, repeated))
            assert_allclose(found, expected, atol=1e-7)
        assert_allclose(weighted.training_scores_, weighted.score_samples(moons))

    def test_rows_of_weight_zero_are_new(self, moons):
        X = np.concatenate([moons, [[50.0, 50.0]]])
        weights = np.append(np.ones(200), 0.0)
        detector = DensityOutlierDetector(GaussianKDE()).fit(X, sample_weight=weights)
        assert detector.p_value(X[-1:])[0] == 1 / 201
        assert_array_equal(detector.predict(X[-1:]), [-1])

    def test_the_order_of_rows_does_not_matter(self, moons):
        rows = np.random.RandomState(0).permutation(len(moons))
        one, other = (DensityOutlierDetector(ROME()).fit(X) for X in (moons, moons[rows]))
        assert_allclose(one.training_scores_[rows], other.training_scores_, atol=1e-7)
        assert_array_equal(one.p_value(moons), other.p_value(moons))

    def test_seeds(self, moons):
        def scores(seed):
            detector = DensityOutlierDetector(GaussianKDE(), random_state=seed)
            return detector.fit(moons).training_scores_

        assert_array_equal(scores(1), scores(np.random.RandomState(1)))
        assert (scores(1) != scores(2)).any()
        assert np.isfinite(scores(None)).all()

    @pytest.mark.parametrize(
        "estimator",
        [
            ROME(density="knn"),
            GaussianMixture(2, random_state=0),
            IsolationForest(n_estimators=50, random_state=0),
            KernelDensity(bandwidth=0.2),
        ],
        ids=repr,
    )
    def test_of_any_estimator(self, moons, estimator):
        detector = DensityOutlierDetector(estimator, rate=0.1).fit(moons)
        assert 1 <= (detector.predict(moons) < 0).sum() <= 20
        assert_array_equal(detector.predict([[0.5, 9.0], [0.0, 1.0]]), [-1, 1])

    def test_far_away(self, moons):
        detector = DensityOutlierDetector(GaussianKDE()).fit(moons)
        far = [[1e300, -1e300], [1e6, 0.0]]
        assert detector.score_samples(far)[0] == -np.inf
        assert np.isfinite(detector.decision_function(far)).all()
        assert_array_equal(detector.predict(far), [-1, -1])

    @pytest.mark.parametrize(
        "options", [{}, {"rate": 0.2}, {"control": "fdr"}, {"calibration": 0.5}]
    )
    def test_where_there_is_no_density_nothing_stands_out(self, moons, options):
        detector = DensityOutlierDetector(Nowhere(), **options).fit(moons)
        assert_array_equal(detector.training_scores_, -np.inf)
        assert_array_equal(detector.p_value(np.concatenate([moons, moons + 1])), 1.0)
        assert_array_equal(detector.predict(np.concatenate([moons, moons + 1])), 1)


class TestFalsePositives:
    def test_p_values_of_training_rows_are_ranks(self, moons):
        detector = DensityOutlierDetector(GaussianKDE()).fit(moons)
        scores = held_out_by_hand(GaussianKDE(), moons)
        ranks = np.argsort(np.argsort(scores)) + 1
        assert_allclose(detector.p_value(moons), ranks / 200)

    def test_p_values_of_new_rows_are_conformal(self, moons):
        detector = DensityOutlierDetector(GaussianKDE()).fit(moons)
        new = moons[:30] + 0.2
        both = detector.p_value(np.concatenate([new, moons]))
        assert_array_equal(both[:30], conformal(GaussianKDE(), moons).p_value(new))
        assert_array_equal(both[30:], detector.p_value(moons))

    @pytest.mark.parametrize("rate", [0.005, 0.05, 0.1, 0.29, 0.5])
    def test_the_rate_is_the_share_of_training_rows(self, moons, rate):
        detector = DensityOutlierDetector(GaussianKDE(), rate=rate)
        labels = detector.fit_predict(moons)
        assert (labels < 0).sum() == int(rate * 200 + 1e-9)
        assert_array_equal(labels < 0, detector.p_value(moons) <= rate + 1e-9)
        assert (
            detector.training_scores_[labels < 0].max()
            < detector.training_scores_[labels > 0].min()
        )

    @pytest.mark.parametrize("cv", [5, 0.5])
    def test_the_rate_holds_for_new_rows(self, cv):
        flagged = []
        for run in range(60):
            X = np.random.RandomState(run).standard_normal((160, 3))
            detector = DensityOutlierDetector(Gaussian(), rate=0.1, calibration=cv).fit(X[:60])
            flagged.append((detector.predict(X[60:]) < 0).mean())
        error = np.std(flagged) / np.sqrt(60)
        assert 0.05 < np.mean(flagged) < 0.1 + 3 * error

    @pytest.mark.parametrize(("n_samples", "expected"), [(20, 0.05), (99, 1 / 99), (200, 0.01)])
    def test_the_automatic_rate(self, moons, n_samples, expected):
        detector = DensityOutlierDetector(GaussianKDE()).fit(moons[:n_samples])
        assert_allclose(detector.rate_, expected)
        assert (detector.predict(moons[:n_samples]) < 0).sum() == max(1, n_samples // 100)
        assert_array_equal(detector.predict([[1e3, 0.0]]), [-1])

    def test_the_lowest_rate(self, moons):
        detector = DensityOutlierDetector(GaussianKDE(), rate=0.02)
        assert detector.fit(moons[:50]).rate_ == 0.02
        with pytest.raises(ValueError, match=r"rate = 0.02 needs at least 50 samples, got 49"):
            detector.fit(moons[:49])


class TestFalseDiscoveries:
    def test_are_found_by_hand(self, moons):
        rng = np.random.RandomState(0)
        detector = DensityOutlierDetector(GaussianKDE(), control="fdr", rate=0.2).fit(moons)
        for n_far in (0, 1, 10, 30):
            new = np.concatenate([moons[:50] + 0.05, rng.uniform(3, 9, (n_far, 2))])
            expected = discoveries_by_hand(detector.p_value(new), 0.2)
            assert_array_equal(detector.predict(new) < 0, expected)
            assert_array_equal(detector.decision_function(new) < 0, expected)
            assert_array_equal(is_outlier(detector.p_value(new), 0.2, "fdr"), expected)

    def test_training_rows_are_none(self, moons):
        detector = DensityOutlierDetector(GaussianKDE(), control="fdr").fit(moons)
        assert detector.rate_ == 0.1
        assert_array_equal(detector.predict(moons), 1)

    @pytest.mark.parametrize("cv", [0.5, 5])
    def test_their_rate(self, cv):
        """Of the rows that are flagged, at most the rate are regular ones; most planted are."""
        shares, power = [], []
        for run in range(40):
            rng = np.random.RandomState(run)
            train, regular = rng.standard_normal((400, 2)), rng.standard_normal((180, 2))
            planted = 4.5 * rng.standard_normal((20, 2))
            planted += 4 * planted / np.linalg.norm(planted, axis=1, keepdims=True)
            detector = DensityOutlierDetector(Gaussian(), control="fdr", rate=0.2, calibration=cv)
            found = detector.fit(train).predict(np.concatenate([regular, planted])) < 0
            shares.append(found[:180].sum() / max(1, found.sum()))
            power.append(found[180:].mean())
        error = np.std(shares) / np.sqrt(40)
        assert 0.08 < np.mean(shares) < 0.2 + 3 * error
        assert np.mean(power) > 0.9


class TestMinShare:
    def test_finds_a_dense_clump(self, clump):
        is_clump = np.arange(400) < 20
        without = DensityOutlierDetector(ROME(), rate=0.06).fit(clump)
        assert (without.predict(clump)[is_clump] < 0).mean() < 0.3
        detector = DensityOutlierDetector(ROME(), rate=0.06, min_share=0.1).fit(clump)
        assert (detector.predict(clump)[is_clump] < 0).all()
        assert (detector.predict(clump)[~is_clump] < 0).mean() < 0.02
        assert_array_equal(detector.predict([[7.01, 0.01], [0.0, 0.0]]), [-1, 1])

    def test_the_density_is_that_of_large_clusters(self, clump):
        detector = DensityOutlierDetector(ROME(), min_share=0.1).fit(clump)
        fitted = ROME().fit(clump).density_
        labels = fitted.predict([[0.0, 0.0], [7.0, 0.0]])
        assert labels[0] != labels[1]
        shares = fitted.predict_proba(clump).mean(axis=0)
        assert (shares >= 0.1).sum() == 1
        new = clump[:50] + 0.01
        expected = fitted.component(labels[0]).logpdf(new)
        assert_allclose(detector.score_samples(new), expected, atol=1e-9)

    def test_larger_than_all_clusters_leaves_the_largest(self, moons):
        detector = DensityOutlierDetector(ROME(), min_share=0.99).fit(moons)
        assert np.isfinite(detector.training_scores_).any()

    def test_with_weights_and_bounds(self, clump):
        X, weights = np.abs(clump), np.ones(len(clump))
        bounded = ROME(support={0: (0, None), 1: (0, None)})
        detector = DensityOutlierDetector(bounded, min_share=0.1).fit(X, sample_weight=weights)
        assert_array_equal(detector.score_samples([[-1.0, 1.0]]), -np.inf)
        assert detector.p_value([[7.0, 0.0]])[0] < 0.06

    @pytest.mark.parametrize(
        "estimator", [Gaussian(), GaussianMixture(random_state=0), VineDensity()], ids=repr
    )
    def test_needs_clusters(self, moons, estimator):
        name = type(estimator).__name__
        with pytest.raises(TypeError, match=rf"min_share needs clusters.*\({name}\)"):
            DensityOutlierDetector(estimator, min_share=0.1).fit(moons)


class TestDefaultEstimator:
    def test_of_small_tables_is_auto_rome(self, moons):
        detector = DensityOutlierDetector(calibration=2).fit(moons[:60])
        assert isinstance(detector.estimator_, AutoROME)
        assert_array_equal(detector.predict([[30.0, 30.0], moons[70]]), [-1, 1])

    def test_of_large_tables_is_rome(self):
        assert isinstance(default_estimator(5000, 10), AutoROME)
        for shape in ((5001, 10), (50_001, 1)):
            recipe = default_estimator(*shape)
            assert isinstance(recipe, ROME)
            assert (recipe.scale, recipe.shrinkage) == ("auto", "auto")


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "error", "match"),
        [
            ({"rate": 0.0}, ValueError, "rate must be positive"),
            ({"rate": 1.0}, ValueError, "rate must be below 1, got 1.0"),
            ({"rate": np.nan}, ValueError, "rate"),
            ({"rate": "few"}, TypeError, "rate must be a number or 'auto'"),
            ({"rate": True}, TypeError, "rate must be a number"),
            ({"rate": None}, TypeError, "rate must be a number"),
            ({"rate": 0.001}, ValueError, "rate = 0.001 needs at least 1000 samples, got 200"),
            ({"rate": 0.1, "calibration": 0.005}, ValueError, "at least 2 held-out samples, got 1"),
            ({"control": "fwer"}, ValueError, "control must be one of"),
            ({"control": None}, ValueError, "control must be one of"),
            ({"min_share": -0.1}, ValueError, "min_share"),
            ({"min_share": 1.0}, ValueError, "min_share must be below 1, got 1.0"),
            ({"min_share": None}, TypeError, "min_share"),
            (
                {"calibration": 1},
                ValueError,
                "calibration must be a whole number of at least 2 folds",
            ),
            ({"calibration": 2.0}, ValueError, "calibration must be"),
            ({"calibration": "five"}, TypeError, "calibration must be"),
            (
                {"calibration": None},
                TypeError,
                "calibration must be a number of folds or a share, got None",
            ),
            ({"random_state": "a"}, TypeError, "random_state"),
            ({"estimator": ROME}, TypeError, "estimator must be an instance"),
            ({"estimator": "rome"}, TypeError, "estimator must be an instance"),
            ({"estimator": ROME(min_std=-1)}, ValueError, "min_std"),
        ],
    )
    def test_bad_parameters(self, moons, options, error, match):
        with pytest.raises(error, match=match):
            DensityOutlierDetector(**({"estimator": GaussianKDE()} | options)).fit(moons)

    def test_weights_that_an_estimator_does_not_take(self, moons):
        detector = DensityOutlierDetector(LocalOutlierFactor(novelty=True))
        with pytest.raises(TypeError, match=r"LocalOutlierFactor\) does not take sample_weight"):
            detector.fit(moons, sample_weight=np.ones(len(moons)))

    def test_weights_of_less_than_two_samples(self, moons):
        with pytest.raises(ValueError, match="at least 2 held-out samples, got 0; see sample_w"):
            DensityOutlierDetector(GaussianKDE()).fit(moons, sample_weight=np.full(200, 1e-3))

    def test_too_few_samples_to_hold_any_out(self):
        with pytest.raises(ValueError, match="cannot be fitted without the held-out samples"):
            DensityOutlierDetector(GaussianKDE()).fit([[0.0, 0.0], [1.0, 1.0]])
        with pytest.raises(ValueError, match="n_samples = 1"):
            DensityOutlierDetector(GaussianKDE()).fit([[0.0, 0.0]])

    def test_a_failed_fit_keeps_the_old_model(self, moons):
        detector = DensityOutlierDetector(GaussianKDE()).fit(moons)
        before = detector.p_value(moons + 0.1)
        for X, options in (([[0.0]], {}), (moons[:50], {"rate": 0.001})):
            detector.set_params(**options)
            with pytest.raises(ValueError, match="samples"):
                detector.fit(X)
            detector.set_params(rate="auto")
            assert_array_equal(detector.p_value(moons + 0.1), before)
            assert len(detector.training_scores_) == 200

    def test_frames(self):
        rng = np.random.RandomState(0)
        frame = pd.DataFrame({"a": rng.exponential(1, 120), "b": rng.standard_normal(120)})
        for options in ({}, {"min_share": 0.05}):
            named = DensityOutlierDetector(ROME(support={"a": (0, None)}), **options).fit(frame)
            plain = DensityOutlierDetector(ROME(support={0: (0, None)}), **options)
            assert_array_equal(named.feature_names_in_, ["a", "b"])
            expected = plain.fit(frame.to_numpy()).training_scores_
            assert_allclose(named.training_scores_, expected)
            outside = pd.DataFrame({"a": [-1.0], "b": [0.0]})
            assert_array_equal(named.score_samples(outside), -np.inf)
            assert_array_equal(named.predict(outside), -1)
            with pytest.raises(ValueError, match="feature names"):
                named.predict(frame[["b", "a"]])

    def test_clones_and_pickles(self, moons):
        detector = DensityOutlierDetector(ROME(), rate=0.05)
        fitted = clone(detector).fit(moons)
        again = pickle.loads(pickle.dumps(fitted))
        rows = np.concatenate([moons, moons + 0.1])
        assert_array_equal(again.p_value(rows), fitted.p_value(rows))
        assert repr(clone(fitted)) == "DensityOutlierDetector(estimator=ROME(), rate=0.05)"
        assert not hasattr(clone(fitted), "conformal_")
        assert not hasattr(fitted.estimator, "density_")

    @given(samples(min_samples=6, max_samples=40, max_features=4))
    def test_awkward_samples(self, X):
        """No NaN and never more outliers than the rate; samples without spread a clear error."""
        if len(np.unique(X, axis=0)) < 3:
            return
        detector = DensityOutlierDetector(GaussianKDE(), rate=0.2)
        try:
            labels = detector.fit_predict(X)
        except ValueError as error:
            if "spread" not in str(error):
                raise
            return
        assert np.isfinite(detector.decision_function(X)).all()
        assert np.isfinite(detector.decision_function(X + 0.01)).all()
        assert (labels < 0).sum() <= 0.2 * len(X) + 1e-9
