"""Regression by a joint density: predictions, calibration, and the life of the estimator."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from sevenhills import ROME, AutoROME, GaussianKDE, KernelMixture, VineDensity
from sevenhills.estimators.regressor import DensityRegressor, Regions

from .plain_densities import Gaussian


@parametrize_with_checks([DensityRegressor(GaussianKDE())])
def test_scikit_learn(estimator, check):
    check(estimator)


def branches(n, seed=0):
    """Two branches y = +-x, with little noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(1, 3, size=(n, 1))
    return X, rng.choice([-1, 1], size=n) * X[:, 0] + 0.15 * rng.standard_normal(n)


def plane(n, seed=0):
    """Two targets that depend on two features, and on each other."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 2))
    noise = rng.standard_normal((n, 2)) @ [[0.5, 0.4], [0.0, 0.3]]
    return X, X @ [[1.0, 0.0], [0.5, -1.0]] + noise


@pytest.fixture(scope="module")
def forked():
    return DensityRegressor().fit(*branches(400))


@pytest.fixture(scope="module")
def double():
    return DensityRegressor(GaussianKDE()).fit(*plane(300))


class TestOneTarget:
    def test_everything_is_that_of_the_conditional_density(self, forked):
        X, y = branches(6, seed=1)
        rows = [forked.density_.conditional({0: float(x)}) for x in X[:, 0]]
        assert isinstance(forked.density_, KernelMixture)
        assert forked.n_targets_ == 1
        stds = np.ravel([each.cov() for each in rows]) ** 0.5
        assert (
            np.abs(forked.predict(X) - np.ravel([each.mean() for each in rows])) < 1e-4 * stds
        ).all()
        expected = [each.logpdf([[v]])[0] for each, v in zip(rows, y, strict=True)]
        assert_allclose(forked.logpdf(X, y), expected, atol=1e-7)
        assert_allclose(forked.score(X, y), np.mean(expected), atol=1e-7)
        assert_allclose(forked.score(X, y, [1, 0, 0, 0, 0, 0]), expected[0], atol=1e-7)
        q = [0.1, 0.5, 0.9]
        assert_allclose(forked.predict_quantile(X, q), [each.ppf(q) for each in rows], atol=1e-5)
        assert forked.predict_quantile(X, 0.5).shape == (6,)
        assert_array_equal(forked.crps(X, y), forked.conditionals(X).crps(y))

    def test_points(self, forked):
        X, _ = branches(20, seed=2)
        assert (np.abs(forked.predict(X)) < 0.6 * X[:, 0]).all()  # between the branches
        mode = clone(forked).set_params(point="mode", cv=None).fit(*branches(400)).predict(X)
        assert (np.abs(np.abs(mode) - X[:, 0]) < 0.3).all()
        median = clone(forked).set_params(point="median", cv=None).fit(*branches(400))
        assert_array_equal(median.predict(X), median.predict_quantile(X, 0.5))

    def test_draws(self, forked):
        X, _ = branches(5, seed=2)
        drawn = forked.sample(X, 200, random_state=0)
        assert drawn.shape == (5, 200)
        assert_array_equal(drawn, forked.sample(X, 200, random_state=0))
        assert (np.abs(np.abs(drawn) - X).mean(axis=1) < 0.4).all()

    def test_regions_have_two_parts(self, forked):
        X, y = branches(1000, seed=3)
        regions = forked.predict_region(X)
        assert isinstance(regions, Regions)
        assert 0.86 < regions.contains(y).mean() < 0.95
        intervals = regions.intervals()
        assert np.mean([len(each) == 2 for each in intervals]) > 0.9
        inside = [((v > e[:, 0]) & (v < e[:, 1])).any() for v, e in zip(y, intervals, strict=True)]
        assert_array_equal(inside, regions.contains(y))
        assert_allclose(regions.size(), [np.ptp(each, axis=1).sum() for each in intervals])
        # The truth has an interval of 1.645 standard deviations on both sides of either branch.
        assert 0.8 < regions.size().mean() / (4 * 1.645 * 0.15) < 1.4
        low, high = forked.predict_interval(X).T
        assert 0.86 < ((y > low) & (y < high)).mean() < 0.95
        assert (high - low).mean() > 2 * regions.size().mean()

    def test_confidence_is_monotone(self, forked):
        X, _ = branches(20, seed=3)
        sizes = [forked.predict_region(X, each).size() for each in (0.5, 0.8, 0.95)]
        assert (np.diff(sizes, axis=0) > 0).all()


class TestSeveralTargets:
    def test_shapes(self, double):
        X, Y = plane(7, seed=1)
        assert double.n_targets_ == 2
        assert double.predict(X).shape == (7, 2)
        assert double.predict_quantile(X, 0.5).shape == (7, 2)
        assert double.predict_quantile(X, [0.1, 0.9]).shape == (7, 2, 2)
        assert double.predict_interval(X).shape == (7, 2, 2)
        assert double.sample(X, 3, random_state=0).shape == (7, 3, 2)
        assert double.logpdf(X, Y).shape == (7,)
        one = DensityRegressor(GaussianKDE(), cv=None).fit(X, Y[:, :1])
        assert one.predict(X).shape == (7, 1)
        assert one.predict_interval(X).shape == (7, 1, 2)
        with pytest.raises(ValueError, match="crps is for one feature, but 2"):
            double.crps(X, Y)
        with pytest.raises(ValueError, match="y has 1 targets, but the fit had 2"):
            double.score(X, Y[:, 0])

    def test_a_gaussian_is_linear_regression(self):
        X, Y = plane(500)
        model = DensityRegressor(GaussianKDE(), cv=None)
        joint = KernelMixture.from_covariances(
            [1.0], [np.hstack([X, Y]).mean(axis=0)], np.cov(np.hstack([X, Y]).T)
        )
        model.fit(X[:50], Y[:50])
        model.density_ = joint
        slopes, *_ = np.linalg.lstsq(X - X.mean(axis=0), Y - Y.mean(axis=0), rcond=None)
        expected = (X - X.mean(axis=0)) @ slopes + Y.mean(axis=0)
        assert_allclose(model.predict(X), expected, atol=1e-9)
        assert_allclose(model.predict_quantile(X, 0.5), expected, atol=1e-8)
        assert_allclose(model.set_params(point="mode").predict(X), expected, atol=1e-6)

    @pytest.mark.slow
    def test_coverage(self, double):
        X, Y = plane(1000, seed=4)
        regions = double.predict_region(X)
        assert 0.85 < regions.contains(Y).mean() < 0.95
        low, high = np.moveaxis(double.predict_interval(X), -1, 0)
        inside = ((low < Y) & (high > Y)).mean(axis=0)
        assert ((inside > 0.85) & (inside < 0.95)).all()

    def test_outlines_are_those_of_the_region(self, double):
        X, _ = plane(2, seed=5)
        regions = double.predict_region(X)
        (outline,) = regions.outlines(0)
        x, y = outline.T
        area = 0.5 * abs(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1]))
        assert_allclose(area, regions.size()[0], rtol=0.15)


class TestCalibration:
    @pytest.mark.parametrize("confidence", [0.5, 0.9])
    def test_regions_hold_the_share_of_rows_that_calibrate(self, confidence):
        model = DensityRegressor(GaussianKDE(), cv=None).fit(*branches(200))
        X, y = branches(300, seed=1)
        before = model.predict_region(X, confidence)
        assert before.mass == confidence
        model.calibrate(X, y)
        wanted = np.ceil(confidence * 301) / 300
        assert_allclose(model.predict_region(X, confidence).contains(y).mean(), wanted, atol=1e-3)
        low, high = model.predict_interval(X, confidence).T
        assert_allclose(((y >= low - 1e-9) & (y <= high + 1e-9)).mean(), wanted, atol=0.004)

    def test_a_density_that_is_much_too_wide_is_corrected(self):
        X, y = branches(300)
        model = DensityRegressor(GaussianKDE(bw_method=1.5)).fit(X, y)
        X, y = branches(2000, seed=1)
        assert model.predict_region(X).mass < 0.85
        assert 0.86 < model.predict_region(X).contains(y).mean() < 0.94

    def test_splits(self):
        X, y = branches(60)
        splits = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
        model = DensityRegressor(GaussianKDE(), cv=splits).fit(X, y)
        scores = [
            DensityRegressor(GaussianKDE(), cv=None)
            .fit(X[a], y[a])
            .calibrate(X[b], y[b])
            .calibration_
            for a, b in splits
        ]
        for name in ("region", "interval"):
            expected = np.concatenate([getattr(each, name) for each in scores])
            assert_allclose(getattr(model.calibration_, name), expected, atol=1e-9)
        with pytest.raises(ValueError, match="every row at most once"):
            DensityRegressor(GaussianKDE(), cv=splits[:1] * 2).fit(X, y)

    def test_folds_that_cannot_be_fitted(self):
        with pytest.raises(ValueError, match=r"without one of 2 folds: .*with cv=None no rows"):
            DensityRegressor(ROME(), cv=2).fit([[0.0], [1.0]], [0.0, 1.0])

    def test_too_few_rows(self):
        model = DensityRegressor(GaussianKDE(), cv=None).fit(*branches(50))
        model.calibrate(*branches(8, seed=1))
        X, y = branches(3, seed=2)
        regions = model.predict_region(X, 0.9)
        assert not regions.is_bounded
        assert np.isinf(regions.size()).all()
        assert regions.contains(y).all()
        assert_array_equal(regions.intervals(), np.tile([-np.inf, np.inf], (3, 1, 1)))
        assert_array_equal(model.predict_interval(X, 0.9), np.tile([-np.inf, np.inf], (3, 1)))
        assert model.predict_region(X, 0.8).is_bounded

    def test_weights_are_repetitions(self):
        X, y = branches(60)
        counts = np.random.RandomState(0).randint(0, 4, len(X))
        weighted = DensityRegressor(GaussianKDE()).fit(X, y, sample_weight=counts)
        repeated = DensityRegressor(GaussianKDE()).fit(
            np.repeat(X, counts, axis=0), np.repeat(y, counts)
        )
        assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-9)
        assert_allclose(weighted.predict_interval(X), repeated.predict_interval(X), atol=1e-6)
        masses = [each.predict_region(X).mass for each in (weighted, repeated)]
        assert_allclose(*masses, atol=1e-9)
        for model, own in ((weighted, counts), (repeated, None)):
            rows = (X, y) if own is not None else (np.repeat(X, counts, 0), np.repeat(y, counts))
            model.calibrate(*rows, sample_weight=own)
        assert_allclose(weighted.predict_interval(X), repeated.predict_interval(X), atol=1e-6)


class TestLife:
    def test_frames(self):
        X, Y = plane(80)
        frame = pd.DataFrame(X, columns=["a", "b"])
        model = DensityRegressor(GaussianKDE(), cv=None)
        assert model.fit(frame, pd.Series(Y[:, 0], name="c")).density_.feature_names == (*"abc",)
        assert model.fit(frame, Y[:, 0]).density_.feature_names == ("a", "b", "y")
        targets = pd.DataFrame(Y, columns=["c", "d"])
        assert model.fit(frame, targets).density_.feature_names == (*"abcd",)
        assert model.fit(X, targets).density_.feature_names is None
        model.fit(frame, targets)
        plain = DensityRegressor(GaussianKDE(), cv=None).fit(X, Y)
        assert_array_equal(model.predict(frame), plain.predict(X))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[["b", "a"]])
        with pytest.raises(ValueError, match=r"different names, got \['a', 'b', 'a'\]"):
            model.fit(frame, pd.Series(Y[:, 0], name="a"))
        assert model.n_targets_ == 2  # a failed fit changes nothing
        assert_array_equal(model.predict(frame), plain.predict(X))

    def test_support_of_the_target_by_name(self):
        X, y = branches(100)
        frame = pd.DataFrame(X, columns=["x"])
        model = DensityRegressor(ROME(support={"size": (0, None)}), cv=None)
        model.fit(frame, pd.Series(np.abs(y), name="size"))
        drawn = model.sample(frame[:5], 100, random_state=0)
        assert (drawn >= 0).all()
        assert (model.predict_interval(frame[:5])[:, 0] >= 0).all()

    def test_copies_and_threads(self, double):
        X, Y = plane(300)
        again = pickle.loads(pickle.dumps(double))
        threads = DensityRegressor(GaussianKDE(), n_jobs=2).fit(X, Y)
        for each in (again, threads, DensityRegressor(GaussianKDE()).fit(X, Y)):
            assert_array_equal(each.predict(X), double.predict(X))
            assert_array_equal(each.predict_interval(X), double.predict_interval(X))
            assert each.predict_region(X).mass == double.predict_region(X).mass

    def test_cross_validation_scores_log_densities(self):
        X, y = load_diabetes(return_X_y=True)
        model = DensityRegressor(GaussianKDE(), cv=None)
        found = cross_val_score(model, X[:, [2, 8]], y, cv=3)
        # A Gaussian of the standard deviation 77 has the mean log density -5.76.
        assert (found > -5.7).all()

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"point": "center"}, ValueError, "point must be one of"),
            ({"cv": 1}, ValueError, "cv must be at least 2, got 1"),
            ({"cv": 2.5}, TypeError, "cv must be a whole number"),
            ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
            ({"estimator": VineDensity()}, TypeError, "must fit a mixture of kernels, which Vine"),
            ({"estimator": Gaussian()}, TypeError, "must fit a mixture of kernels"),
            ({"estimator": 3}, TypeError, "estimator must be an instance"),
        ],
    )
    def test_bad_parameters(self, options, error, message):
        with pytest.raises(error, match=message):
            DensityRegressor(**options).fit(*branches(30))

    def test_bad_input(self, forked):
        X, y = branches(20)
        with pytest.raises(ValueError, match="requires y to be passed"):
            DensityRegressor().fit(X, None)
        with pytest.raises(ValueError, match="y contains NaN"):
            DensityRegressor().fit(X, np.where(y > 0, y, np.nan))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            DensityRegressor().fit(X, y[1:])
        with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
            forked.predict_region(X, 1.0)
        with pytest.raises(ValueError, match="in row 1 is zero"):
            forked.predict([[1.0], [1e300]])


def test_the_default_estimator_depends_on_the_size(forked, monkeypatch):
    assert isinstance(forked.estimator_, AutoROME)
    monkeypatch.setattr("sevenhills.estimators.defaults.AFFORDABLE", 50)
    large = DensityRegressor(cv=None).fit(*branches(30)).estimator_
    assert isinstance(large, ROME)
    assert large.scale == "auto"
