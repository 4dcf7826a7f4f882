"""Classes, by one density for each; and the life of estimators that are built around others."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from sevenhills import (
    ROME,
    AutoROME,
    DensityClassifier,
    DensityOutlierDetector,
    GaussianKDE,
    ManifoldParzen,
    datasets,
)

from .plain_densities import Gaussian, Nowhere


@parametrize_with_checks([DensityClassifier()])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(200, random_state=1)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


class TestClassifier:
    def test_gaussians_are_quadratic_discriminant_analysis(self, iris):
        X, y = iris
        theirs = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, y)
        # Versions of scikit-learn differ in what they divide sums of squares by.
        ratio = theirs.covariance_[0][0, 0] / X[y == 0, 0].var()
        ours = DensityClassifier(Gaussian(ddof=round(50 - 50 / ratio))).fit(X, y)
        assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), atol=1e-7)
        assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)
        assert_array_equal(ours.predict(X), theirs.predict(X))

    @pytest.mark.parametrize("estimator", [None, GaussianKDE(), AutoROME(), ManifoldParzen()])
    def test_bayes_rule(self, iris, estimator):
        X, y = iris[0][:100, :2], iris[1][:100]
        priors = [0.2, 0.8]
        classifier = DensityClassifier(estimator, priors=priors).fit(X[::2], y[::2])
        recipe = ROME() if estimator is None else estimator
        fits = [clone(recipe).fit(X[::2][y[::2] == c]) for c in (0, 1)]
        joint = np.stack([each.score_samples(X) for each in fits], axis=1) + np.log(priors)
        total = logsumexp(joint, axis=1)
        assert_allclose(classifier.score_samples(X), total, atol=1e-9)
        assert_allclose(classifier.predict_log_proba(X), joint - total[:, None], atol=1e-9)
        assert_allclose(classifier.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
        assert_array_equal(classifier.predict(X), joint.argmax(axis=1))

    def test_priors_are_shares_of_weight(self, iris):
        X, y = iris[0][:120], iris[1][:120]
        assert_allclose(DensityClassifier().fit(X, y).priors_, [5 / 12, 5 / 12, 2 / 12])
        weights = np.where(y == 0, 2.0, 1.0)
        weighted = DensityClassifier().fit(X, y, sample_weight=weights)
        assert_allclose(weighted.priors_, np.array([100, 50, 20]) / 170)
        assert_array_equal(DensityClassifier(priors=[0.5, 0.25, 0.25]).fit(X, y).priors_[0], 0.5)

    def test_weights_are_repetitions(self, iris):
        X, y = iris
        counts = np.random.RandomState(0).randint(0, 3, len(X))
        weighted = DensityClassifier(GaussianKDE()).fit(X, y, sample_weight=counts)
        repeated = DensityClassifier(GaussianKDE()).fit(
            np.repeat(X, counts, axis=0), np.repeat(y, counts)
        )
        assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-9)

    def test_a_class_without_weight_is_none(self, iris):
        X, y = iris
        classifier = DensityClassifier().fit(X, y, sample_weight=(y != 1) * 1.0)
        assert_array_equal(classifier.classes_, [0, 2])
        assert_allclose(classifier.priors_, [0.5, 0.5])

    def test_a_share_that_is_too_small_for_a_float(self, iris):
        X, y = iris
        weights = np.where(y == 0, 1e-99, 1e230)
        classifier = DensityClassifier(GaussianKDE()).fit(X, y, sample_weight=weights)
        assert_allclose(classifier.priors_, [0.0, 0.5, 0.5])
        assert_allclose(classifier.predict_proba(X).sum(axis=1), 1.0)
        assert set(classifier.predict(X)) == {1, 2}

    @pytest.mark.parametrize("dtype", [object, str, "category"])
    def test_names_of_classes(self, iris, dtype):
        X, y = iris
        names = pd.Series(np.array(["setosa", "versicolor", "virginica"])[y]).astype(dtype)
        classifier = DensityClassifier().fit(X, names)
        assert_array_equal(classifier.classes_, ["setosa", "versicolor", "virginica"])
        assert set(classifier.predict(X)) == set(names)
        assert classifier.score(X, names) > 0.95

    def test_one_class(self, moons):
        classifier = DensityClassifier().fit(moons, np.full(len(moons), 7))
        assert_array_equal(classifier.predict_proba(moons[:3]), np.ones((3, 1)))
        assert_array_equal(classifier.predict(moons[:3]), [7, 7, 7])
        assert_allclose(
            classifier.score_samples(moons), ROME().fit(moons).score_samples(moons), atol=1e-12
        )

    def test_far_away(self, iris):
        """In the tails classes are told apart; where no class has a density, the priors remain."""
        classifier = DensityClassifier().fit(*iris)
        found = classifier.predict_proba([[1e5, 0.0, 0.0, 0.0], [1e300, -1e300, 1e300, 0.0]])
        assert np.isfinite(found).all()
        assert_allclose(found.sum(axis=1), 1.0)
        assert found[0].max() == 1.0
        assert_allclose(found[1], [1 / 3, 1 / 3, 1 / 3])
        assert classifier.score_samples([[1e300, -1e300, 1e300, 0.0]])[0] == -np.inf

    def test_no_density_anywhere(self, iris):
        classifier = DensityClassifier(Nowhere(), priors=[0.2, 0.5, 0.3]).fit(*iris)
        assert_allclose(classifier.predict_proba(iris[0][:2]), [[0.2, 0.5, 0.3]] * 2)
        assert_array_equal(classifier.predict(iris[0][:2]), [1, 1])

    def test_threads_change_nothing(self, iris):
        X, y = iris
        one, two = (DensityClassifier(n_jobs=n).fit(X, y) for n in (None, 2))
        assert_array_equal(one.predict_proba(X), two.predict_proba(X))

    @pytest.mark.parametrize(
        ("options", "error", "match"),
        [
            ({"priors": [0.5, 0.5]}, ValueError, r"priors must have shape \(3,\)"),
            ({"priors": 1.0}, ValueError, "priors must have shape"),
            ({"priors": [0.5, 0.5, 0.0]}, ValueError, "priors must be finite and positive"),
            ({"priors": [0.5, 0.7, -0.2]}, ValueError, "priors must be finite and positive"),
            ({"priors": [0.5, np.nan, 0.5]}, ValueError, "priors must be finite and positive"),
            ({"priors": [0.5, 0.5, 0.5]}, ValueError, "priors must add up to one, got 1.5"),
            ({"priors": "even"}, TypeError, "priors"),
            ({"n_jobs": 0}, ValueError, "n_jobs"),
            ({"n_jobs": "all"}, TypeError, "n_jobs"),
            ({"estimator": GaussianKDE}, TypeError, "estimator must be an instance"),
            ({"estimator": 3}, TypeError, "estimator must be an instance"),
        ],
    )
    def test_bad_parameters(self, iris, options, error, match):
        with pytest.raises(error, match=match):
            DensityClassifier(**options).fit(*iris)

    def test_bad_labels(self, iris):
        X, y = iris
        for labels, match in (
            (None, "y is None"),
            (y[:-1], "inconsistent"),
            (np.linspace(0, 1, len(X)), "Unknown label type"),
            (np.where(y == 0, np.nan, y), "NaN"),
        ):
            with pytest.raises(ValueError, match=match):
                DensityClassifier().fit(X, labels)
        with pytest.raises(TypeError, match="y is a masked array"):
            DensityClassifier().fit(X, np.ma.masked_equal(y, 0))

    @pytest.mark.parametrize("n_members", [1, 5])
    def test_a_class_without_spread(self, iris, n_members):
        """By default it goes by the spread of the others; otherwise it is named."""
        X, y = iris
        X = np.concatenate([X, np.ones((n_members, 4))])
        names = np.append(np.array(["a", "b", "c"])[y], ["rare"] * n_members)
        with pytest.raises(ValueError, match=r"class rare cannot be fitted: .*spread"):
            DensityClassifier(ROME()).fit(X, names)
        classifier = DensityClassifier().fit(X, names)
        assert_array_equal(classifier.predict([X[-1], X[-1] + 0.01, X[0]]), ["rare", "rare", "a"])
        again = DensityClassifier().fit(1e6 * X, names)
        assert_allclose(again.predict_proba(1e6 * X), classifier.predict_proba(X), atol=1e-9)
        with pytest.raises(ValueError, match=r"class a cannot be fitted: .*spread"):
            DensityClassifier().fit(np.ones((4, 2)), ["a", "a", "b", "b"])

    def test_weights_that_an_estimator_does_not_take(self, iris):
        classifier = DensityClassifier(Nowhere()).fit(*iris)
        with pytest.raises(TypeError, match="does not take sample_weight"):
            classifier.fit(*iris, sample_weight=np.ones(150))

    def test_grid_search(self, iris):
        search = GridSearchCV(DensityClassifier(ROME()), {"estimator__min_std": [0.01, 3.0]}, cv=3)
        assert search.fit(*iris).best_params_ == {"estimator__min_std": 0.01}


@pytest.mark.parametrize("model", [DensityOutlierDetector(), DensityClassifier()], ids=repr)
class TestBoth:
    def test_pickles(self, model, iris):
        model = clone(model).fit(*iris)
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.score_samples(iris[0]), model.score_samples(iris[0]))
        assert_array_equal(again.predict(iris[0]), model.predict(iris[0]))

    def test_a_failed_refit_keeps_the_old_model(self, model, iris):
        model = clone(model).fit(*iris)
        before = model.score_samples(iris[0])
        for X in (np.full((150, 3), np.nan), np.ones((150, 3))):
            with pytest.raises(ValueError, match=r"NaN|spread"):
                model.fit(X, iris[1])
        assert_array_equal(model.score_samples(iris[0]), before)
        assert model.n_features_in_ == 4

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_frames(self, model, iris, frame):
        names = ["length", "width", "petal length", "petal width"]
        X = frame(dict(zip(names, iris[0].T, strict=True)))
        fitted = clone(model).fit(X, iris[1])
        assert_array_equal(fitted.feature_names_in_, names)
        plain = clone(model).fit(*iris)
        assert_array_equal(fitted.score_samples(X), plain.score_samples(iris[0]))
        with pytest.raises(ValueError, match="feature names"):
            fitted.predict(X[names[::-1]])

    def test_inputs_are_not_changed(self, model, iris):
        X, y, weights = iris[0].copy(), iris[1].copy(), np.ones(150)
        for each in (X, y, weights):
            each.flags.writeable = False
        model = clone(model).fit(X, y, sample_weight=weights)
        before = model.score_samples(X)
        X.flags.writeable = True
        X[:] = 0.0
        assert_array_equal(model.score_samples(iris[0]), before)

    def test_nested_parameters(self, model, iris):
        recipe = ROME()
        model = clone(model).set_params(estimator=recipe, estimator__min_std=0.5)
        assert model.get_params()["estimator__min_std"] == 0.5
        model.fit(*iris)
        assert not hasattr(recipe, "density_")
        fitted = getattr(model, "estimator_", None) or model.estimators_[0]
        assert fitted.min_std_ == 0.5
