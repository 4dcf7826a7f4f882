"""Outliers, by the density of any estimator."""

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.utils.estimator_checks import parametrize_with_checks

from sevenhills import (
    ROME,
    DensityOutlierDetector,
    GaussianKDE,
    ManifoldParzen,
    datasets,
)

from ..strategies import samples
from .plain_densities import Gaussian, Nowhere


@parametrize_with_checks([DensityOutlierDetector()])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(200, random_state=1)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def held_out_by_hand(estimator, X, n_folds=5, seed=0):
    """The score of every row by a fit that has not seen it; rows must be distinct."""
    by_value = np.lexsort(X.T[::-1])
    fold_of = np.empty(len(X), int)
    rng = np.random.RandomState(seed)
    rng.randint(2**31)  # the seed of draws
    fold_of[by_value] = rng.permutation(len(X)) % n_folds
    scores = np.empty(len(X))
    for fold in range(n_folds):
        out = fold_of == fold
        scores[out] = clone(estimator).fit(X[~out]).score_samples(X[out])
    return scores


class TestOutliers:
    @pytest.mark.parametrize("estimator", [ROME(), GaussianKDE(), ManifoldParzen(), Gaussian()])
    def test_scores_come_from_fits_that_have_not_seen_the_row(self, moons, estimator):
        detector = DensityOutlierDetector(estimator).fit(moons)
        new = moons[:50] + 0.01
        expected = clone(estimator).fit(moons).score_samples(new)
        assert_allclose(detector.score_samples(new), expected, atol=1e-9)
        expected = held_out_by_hand(estimator, moons)
        assert_allclose(detector.training_scores_, expected, atol=1e-9)
        both = detector.score_samples(np.concatenate([new, moons]))
        assert_allclose(both[50:], expected, atol=1e-9)

    def test_without_folds_scores_are_the_density(self, moons):
        detector = DensityOutlierDetector(n_splits=None).fit(moons)
        assert_array_equal(detector.training_scores_, ROME().fit(moons).score_samples(moons))

    def test_held_out_scores_find_more(self, iris):
        X = (iris[0] - iris[0].mean(axis=0)) / iris[0].std(axis=0)
        rng = np.random.RandomState(0)
        X = np.concatenate([X, rng.uniform(-3, 3, (8, 4))])
        planted = np.arange(len(X)) >= 150

        def quality(**options):
            # Spread over their cells, rounded values would not lie on kernels of their own.
            exact = ROME(resolution=None)
            scores = DensityOutlierDetector(exact, **options).fit(X).training_scores_
            return roc_auc_score(planted, -scores)

        assert quality() > 0.97
        assert quality(n_splits=None) < quality() - 0.05

    def test_one_of_many_copies_is_held_out(self, moons):
        """So that a value that repeats is as common as it is."""
        X = np.concatenate([moons, np.tile([[0.0, -0.0]], (20, 1))])
        detector = DensityOutlierDetector(GaussianKDE(), n_splits=len(X)).fit(X)
        expected = GaussianKDE().fit(X[:-1]).score_samples(X[-1:])
        assert_allclose(detector.training_scores_[-20:], expected[0], atol=1e-9)
        assert_allclose(detector.score_samples([[-0.0, 0.0]]), expected, atol=1e-9)

    @pytest.mark.parametrize("options", [{}, {"contamination": 0.1}, {"p_value": 0.05}])
    def test_weights_are_repetitions(self, moons, options):
        counts = np.random.RandomState(0).randint(0, 4, len(moons))
        detector = DensityOutlierDetector(GaussianKDE(), **options)
        weighted = clone(detector).fit(moons, sample_weight=counts)
        repeated = clone(detector).fit(np.repeat(moons, counts, axis=0))
        assert_allclose(weighted.offset_, repeated.offset_, atol=1e-7)
        queries = np.concatenate([moons, moons + 0.3])
        found, expected = weighted.score_samples(queries), repeated.score_samples(queries)
        assert_allclose(found, expected, atol=1e-7)
        assert_array_equal(weighted.training_scores_, found[: len(moons)])

    def test_the_order_of_rows_does_not_matter(self, moons):
        rows = np.random.RandomState(0).permutation(len(moons))
        one, other = (DensityOutlierDetector(p_value=0.02).fit(X) for X in (moons, moons[rows]))
        assert_allclose(one.training_scores_[rows], other.training_scores_, atol=1e-7)
        assert_allclose(one.offset_, other.offset_, atol=1e-7)

    def test_the_fence(self, moons):
        detector = DensityOutlierDetector().fit(moons)
        ranked = np.sort(detector.training_scores_)
        lower, upper = ranked[50], ranked[150]
        assert_allclose(detector.offset_, lower - 1.5 * (upper - lower))

    def test_the_fence_calls_few_regular_observations_outliers(self):
        rng = np.random.RandomState(0)
        for n_features, expected in ((2, 0.048), (10, 0.020)):
            X, new = rng.standard_normal((2, 4000, n_features))
            detector = DensityOutlierDetector(Gaussian()).fit(X)
            assert_allclose((detector.predict(new) < 0).mean(), expected, atol=0.012)

    @pytest.mark.parametrize("share", [0.001, 0.05, 0.1, 0.29, 0.5])
    def test_contamination_is_the_share_of_outliers(self, moons, share):
        detector = DensityOutlierDetector(GaussianKDE(), contamination=share)
        labels = detector.fit_predict(moons)
        assert (labels < 0).sum() == int(share * 200 + 1e-9)
        assert_array_equal(labels, np.where(detector.training_scores_ < detector.offset_, -1, 1))
        weights = np.where(labels < 0, 0.5, 1.0)
        weighted = detector.fit(moons, sample_weight=weights)
        assert weights[weighted.predict(moons) < 0].sum() <= share * weights.sum()

    def test_p_values_of_a_gaussian(self):
        X = np.random.RandomState(0).standard_normal((300, 2))
        detector = DensityOutlierDetector(Gaussian(), p_value=0.05, n_draws=50_000).fit(X)
        new = np.random.RandomState(1).standard_normal((200, 2)) * 2
        density = detector.estimator_.density_
        squares = 2 * (density.logpdf(density.mean) - density.logpdf(new))
        assert_allclose(detector.p_values(new), np.exp(-squares / 2), atol=0.01)

    @pytest.mark.parametrize("p_value", [0.0015, 0.01, 0.3, 0.999])
    def test_the_threshold_goes_by_p_values(self, moons, p_value):
        detector = DensityOutlierDetector(p_value=p_value, n_draws=999).fit(moons)
        X = np.concatenate([moons, detector.estimator_.sample(2000, random_state=5)])
        assert_array_equal(detector.predict(X) < 0, detector.p_values(X) < p_value)

    def test_p_values_of_draws_are_uniform(self, moons):
        detector = DensityOutlierDetector().fit(moons)
        found = detector.p_values(detector.estimator_.sample(2000, random_state=3))
        assert kstest(found, "uniform").pvalue > 1e-3
        assert detector.p_values([[1e3, 1e3]])[0] == 1 / 10_001

    def test_p_values_do_not_depend_on_how_the_threshold_is_set(self, moons):
        options = ({}, {"p_value": 0.1}, {"contamination": 0.1})
        found = [DensityOutlierDetector(**each).fit(moons).p_values(moons) for each in options]
        assert_array_equal(found[0], found[1])
        assert_array_equal(found[0], found[2])

    def test_seeds(self, moons):
        def scores(seed):
            return DensityOutlierDetector(random_state=seed).fit(moons).training_scores_

        assert_array_equal(scores(1), scores(np.random.RandomState(1)))
        assert (scores(1) != scores(2)).any()
        assert np.isfinite(scores(None)).all()

    @pytest.mark.parametrize(
        "estimator",
        [
            ROME(density="knn"),
            GaussianMixture(2, random_state=0),
            IsolationForest(n_estimators=5, random_state=0),
        ],
        ids=repr,
    )
    def test_what_cannot_be_sampled_has_a_threshold_all_the_same(self, moons, estimator):
        detector = DensityOutlierDetector(estimator, contamination=0.1).fit(moons)
        assert (detector.predict(moons) < 0).sum() <= 20
        name = type(estimator).__name__
        with pytest.raises((TypeError, ValueError), match=name):
            detector.p_values(moons)
        with pytest.raises((TypeError, ValueError), match=name):
            DensityOutlierDetector(estimator, p_value=0.1).fit(moons)

    def test_scikit_learns_density(self, moons):
        detector = DensityOutlierDetector(KernelDensity(bandwidth=0.2), p_value=0.02).fit(moons)
        assert_array_equal(detector.predict([[0.5, 5.0], [0.0, 1.0]]), [-1, 1])

    def test_far_away(self, moons):
        detector = DensityOutlierDetector(GaussianKDE()).fit(moons)
        far = [[1e300, -1e300], [1e6, 0.0]]
        assert detector.score_samples(far)[0] == -np.inf
        assert np.isfinite(detector.decision_function(far)).all()
        assert_array_equal(detector.predict(far), [-1, -1])

    @pytest.mark.parametrize("contamination", ["auto", 0.2])
    def test_where_there_is_no_density_nothing_stands_out(self, moons, contamination):
        detector = DensityOutlierDetector(Nowhere(), contamination=contamination).fit(moons)
        assert_array_equal(detector.decision_function(moons), 0.0)

    @pytest.mark.parametrize(
        ("options", "error", "match"),
        [
            ({"contamination": 0.0}, ValueError, "contamination must be positive"),
            ({"contamination": 0.6}, ValueError, "contamination must be up to 0.5, got 0.6"),
            ({"contamination": np.nan}, ValueError, "contamination"),
            ({"contamination": "few"}, TypeError, "contamination must be a number or 'auto'"),
            ({"contamination": True}, TypeError, "contamination must be a number"),
            ({"contamination": None}, TypeError, "contamination must be a number"),
            ({"p_value": 0}, ValueError, "p_value must be positive"),
            ({"p_value": 1.0}, ValueError, "p_value must be below 1, got 1.0"),
            ({"p_value": "small"}, TypeError, "p_value"),
            ({"p_value": 0.1, "contamination": 0.1}, ValueError, "not both"),
            ({"p_value": 0.01, "n_draws": 99}, ValueError, "n_draws = 99 are too few"),
            ({"n_draws": 0}, ValueError, "n_draws"),
            ({"n_draws": 1.5}, TypeError, "n_draws"),
            ({"n_splits": 1}, ValueError, "n_splits"),
            ({"n_splits": 2.0}, TypeError, "n_splits"),
            ({"random_state": "a"}, TypeError, "random_state"),
            ({"estimator": ROME}, TypeError, "estimator must be an instance"),
            ({"estimator": "rome"}, TypeError, "estimator must be an instance"),
            ({"estimator": ROME(min_std=-1)}, ValueError, "min_std"),
        ],
    )
    def test_bad_parameters(self, moons, options, error, match):
        with pytest.raises(error, match=match):
            DensityOutlierDetector(**options).fit(moons)

    def test_just_enough_draws(self, moons):
        assert DensityOutlierDetector(p_value=0.01, n_draws=100).fit(moons).offset_ < 0

    def test_weights_that_an_estimator_does_not_take(self, moons):
        detector = DensityOutlierDetector(LocalOutlierFactor(novelty=True))
        with pytest.raises(TypeError, match=r"LocalOutlierFactor\) does not take sample_weight"):
            detector.fit(moons, sample_weight=np.ones(len(moons)))

    def test_too_few_samples_to_hold_any_out(self):
        X = [[0.0, 0.0], [1.0, 1.0]]
        with pytest.raises(ValueError, match="n_splits=None"):
            DensityOutlierDetector().fit(X)
        assert_array_equal(DensityOutlierDetector(n_splits=None).fit_predict(X), [1, 1])

    @given(samples(min_samples=6, max_samples=40, max_features=4))
    def test_awkward_samples(self, X):
        """No NaN and never more outliers than asked for; samples without spread a clear error."""
        detector = DensityOutlierDetector(GaussianKDE(), contamination=0.2)
        if len(np.unique(X, axis=0)) < 3:
            return
        try:
            labels = detector.fit_predict(X)
        except ValueError as error:
            if "spread" not in str(error):
                raise
            return
        assert not np.isnan(detector.decision_function(X)).any()
        assert (labels < 0).sum() <= 0.2 * len(X) + 1e-9
