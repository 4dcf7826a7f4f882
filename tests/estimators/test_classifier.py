"""Classes, by one density for each; and the life of estimators that are built around others."""

import pickle
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.metrics import log_loss
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
from sevenhills.estimators.classifier import _calibrate

from .plain_densities import Gaussian, Nowhere


@parametrize_with_checks([DensityClassifier(ROME()), DensityClassifier(pool=None)])
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
        ours = DensityClassifier(Gaussian(ddof=round(50 - 50 / ratio)), pool=None).fit(X, y)
        assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), atol=1e-7)
        assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)
        assert_array_equal(ours.predict(X), theirs.predict(X))

    @pytest.mark.parametrize("estimator", [None, GaussianKDE(), ROME(), ManifoldParzen()])
    def test_bayes_rule(self, iris, estimator):
        X, y = iris[0][:100, :2], iris[1][:100]
        priors = [0.2, 0.8]
        classifier = DensityClassifier(estimator, priors=priors, pool=None).fit(X[::2], y[::2])
        recipe = AutoROME() if estimator is None else estimator
        fits = [clone(recipe).fit(X[::2][y[::2] == c]) for c in (0, 1)]
        joint = np.stack([each.score_samples(X) for each in fits], axis=1) + np.log(priors)
        total = logsumexp(joint, axis=1)
        assert_allclose(classifier.score_samples(X), total, atol=1e-9)
        assert_allclose(classifier.predict_log_proba(X), joint - total[:, None], atol=1e-9)
        assert_allclose(classifier.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
        assert_array_equal(classifier.predict(X), joint.argmax(axis=1))

    def test_priors_are_shares_of_weight(self, iris):
        X, y = iris[0][:120], iris[1][:120]
        recipe = GaussianKDE()
        assert_allclose(DensityClassifier(recipe).fit(X, y).priors_, [5 / 12, 5 / 12, 2 / 12])
        weights = np.where(y == 0, 2.0, 1.0)
        weighted = DensityClassifier(recipe).fit(X, y, sample_weight=weights)
        assert_allclose(weighted.priors_, np.array([100, 50, 20]) / 170)
        given = DensityClassifier(recipe, priors=[0.5, 0.25, 0.25]).fit(X, y)
        assert_array_equal(given.priors_, [0.5, 0.25, 0.25])

    @pytest.mark.parametrize("pool", [None, "auto"])
    def test_weights_are_repetitions(self, iris, pool):
        X, y = iris
        counts = np.random.RandomState(0).randint(0, 3, len(X))
        weighted = DensityClassifier(GaussianKDE(), pool=pool).fit(X, y, sample_weight=counts)
        repeated = DensityClassifier(GaussianKDE(), pool=pool).fit(
            np.repeat(X, counts, axis=0), np.repeat(y, counts)
        )
        assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)

    def test_a_class_without_weight_is_none(self, iris):
        X, y = iris
        classifier = DensityClassifier(ROME()).fit(X, y, sample_weight=(y != 1) * 1.0)
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
        classifier = DensityClassifier(ROME()).fit(X, names)
        assert_array_equal(classifier.classes_, ["setosa", "versicolor", "virginica"])
        assert set(classifier.predict(X)) == set(names)
        assert classifier.score(X, names) > 0.95

    def test_one_class(self, moons):
        moons = moons[:60]
        classifier = DensityClassifier().fit(moons, np.full(len(moons), 7))
        assert_array_equal(classifier.predict_proba(moons[:3]), np.ones((3, 1)))
        assert_array_equal(classifier.predict(moons[:3]), [7, 7, 7])
        alone = AutoROME().fit(moons).score_samples(moons)
        assert_allclose(classifier.score_samples(moons), alone, atol=1e-12)

    @pytest.mark.parametrize("pool", [None, "auto"])
    def test_far_away(self, iris, pool):
        """In the tails classes are told apart; where no class has a density, the priors remain."""
        classifier = DensityClassifier(ROME(), pool=pool).fit(*iris)
        found = classifier.predict_proba([[1e5, 0.0, 0.0, 0.0], [1e300, -1e300, 1e300, 0.0]])
        assert_allclose(found.sum(axis=1), 1.0)
        assert found[0].max() >= 1 - classifier.calibration_.floor
        assert_allclose(found[1], [1 / 3, 1 / 3, 1 / 3])
        assert classifier.score_samples([[1e300, -1e300, 1e300, 0.0]])[0] == -np.inf

    def test_no_density_anywhere(self, iris):
        classifier = DensityClassifier(Nowhere(), priors=[0.2, 0.5, 0.3], pool=None).fit(*iris)
        assert_allclose(classifier.predict_proba(iris[0][:2]), [[0.2, 0.5, 0.3]] * 2)
        assert_array_equal(classifier.predict(iris[0][:2]), [1, 1])
        pooled = DensityClassifier(Nowhere()).fit(*iris)
        assert pooled.score(*iris) > 0.95

    def test_threads_change_nothing(self, iris):
        X, y = iris
        one, two = (DensityClassifier(ROME(), n_jobs=n).fit(X, y) for n in (None, 2))
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
            ({"pool": "always"}, ValueError, "pool must be"),
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

    @pytest.mark.parametrize("pool", [None, "auto"])
    @pytest.mark.parametrize("n_members", [1, 5])
    def test_a_class_without_spread(self, iris, n_members, pool):
        """It has the spread of the others."""
        X, y = iris
        X = np.concatenate([X, np.full((n_members, 4), 9.0)])
        names = np.append(np.array(["a", "b", "c"])[y], ["rare"] * n_members)
        recipe = ROME(scale="auto")
        classifier = DensityClassifier(recipe, pool=pool).fit(X, names)
        assert_array_equal(classifier.predict([X[-1], X[-1] + 0.1, X[0]]), ["rare", "rare", "a"])
        moved = X[:150] - [X[:150][y == c].mean(axis=0) for c in y]
        moved = np.concatenate([moved, np.zeros((n_members, 4))]) + 9.0
        alone = clone(recipe).fit(moved).score_samples(X)
        assert_allclose(classifier.estimators_[-1].score_samples(X), alone, atol=1e-6)

    def test_classes_without_spread(self):
        with pytest.raises(ValueError, match=r"class a cannot be fitted: .*spread"):
            DensityClassifier().fit(np.ones((4, 2)), ["a", "a", "b", "b"])

    @pytest.mark.parametrize("estimator", [AutoROME(), GaussianKDE(), ManifoldParzen(), ROME()])
    def test_classes_of_few_samples(self, iris, estimator):
        X = iris[0][[0, 50, 51, 100, 101, 102, 103]]
        y = iris[1][[0, 50, 51, 100, 101, 102, 103]]
        found, plain = (
            DensityClassifier(estimator, pool=pool).fit(X, y).predict_proba(iris[0])
            for pool in ("auto", None)
        )
        assert_allclose(found.sum(axis=1), 1.0)
        assert log_loss(iris[1], found) < log_loss(iris[1], plain)

    def test_weights_that_an_estimator_does_not_take(self, iris):
        classifier = DensityClassifier(Nowhere(), pool=None).fit(*iris)
        with pytest.raises(TypeError, match="does not take sample_weight"):
            classifier.fit(*iris, sample_weight=np.ones(150))

    def test_grid_search(self, iris):
        classifier = DensityClassifier(ROME(), pool=None)
        search = GridSearchCV(classifier, {"estimator__min_std": [0.01, 3.0]}, cv=3)
        assert search.fit(*iris).best_params_ == {"estimator__min_std": 0.01}


def log_loss_of(scores, y, weights, log_shares, values):
    """Return what the calibration minimizes, one row after the other."""
    slopes, biases, floor = values[:4], values[4:-1], expit(values[-1])
    loss = 2 * np.sum((slopes - [1, 0, 0, 0]) ** 2) + 2 * np.sum(biases**2) - 0.1 * np.log(floor)
    loss += 32 * max(slopes.sum() - 1, 0) ** 2
    for row, c, weight in zip(scores, y, weights, strict=True):
        logits = log_shares + biases + row @ slopes
        share = np.exp(logits[c] - logsumexp(logits))
        loss -= weight * np.log((1 - floor) * share + floor * np.exp(log_shares[c]))
    return loss


class TestPooling:
    def test_calibration_has_the_lowest_loss(self):
        rng = np.random.RandomState(0)
        y, weights = rng.randint(3, size=30), rng.uniform(0.5, 2.0, 30)
        scores = 2 * rng.standard_normal((30, 3, 4)) + 2 * (np.arange(3) == y[:, None])[..., None]
        scores[3, 1, 0] = -np.inf
        shares = np.array([0.2, 0.3, 0.5])
        found = _calibrate(scores, y, weights, shares)
        relative = np.maximum(scores - scores.max(axis=1, keepdims=True), -1000.0)
        given = partial(log_loss_of, relative, y, weights, np.log(shares))
        best = np.concatenate([found.slopes, found.biases, [logit(found.floor)]])
        bounds = [(0, None)] * 4 + [(None, None)] * 4
        slow = minimize(given, best + 0.1, bounds=bounds, method="L-BFGS-B")  # no gradients
        assert given(best) < slow.fun + 1e-6
        assert given(best) < given(np.array([1.0, 0, 0, 0, 0, 0, 0, -5]))
        for i, step in product(range(8), (-0.05, 0.05)):
            moved = best + step * (np.arange(8) == i)
            if moved[:4].min() >= 0:
                assert given(moved) > given(best)

    @pytest.mark.parametrize(("n_rows", "margin"), [(30, 2.0), (100, 3.0)])
    def test_separated_classes_support_no_sharper_densities(self, n_rows, margin):
        y = np.arange(n_rows) % 3
        scores = margin * np.repeat(np.eye(3)[y][..., None], 4, axis=2)
        found = _calibrate(scores, y, np.ones(n_rows), np.full(3, 1 / 3))
        assert found.slopes.sum() < 1.5
        assert found.floor < 0.01

    def test_many_samples_show_densities_that_are_too_flat(self):
        rng = np.random.RandomState(0)
        scores = rng.standard_normal((5000, 2, 4)) * [1, 0, 0, 0]
        y = (rng.uniform(size=5000) < expit(3 * (scores[:, 1, 0] - scores[:, 0, 0]))).astype(int)
        found = _calibrate(scores, y, np.ones(5000), np.full(2, 0.5))
        assert 2 < found.slopes[0] < 3

    def test_probabilities_by_hand(self, iris):
        X, y = iris
        priors = np.array([0.2, 0.5, 0.3])
        model = DensityClassifier(GaussianKDE(), priors=priors).fit(X[::2], y[::2])
        slopes, biases, floor = model.calibration_
        scores = np.empty((len(X), 3))
        for c in range(3):
            densities = (model.estimators_[c].density_, *model.pooled_[c])
            scores[:, c] = biases[c] + slopes @ [each.logpdf(X) for each in densities]
        shares = priors * np.exp(scores - scores.max(axis=1, keepdims=True))
        expected = (1 - floor) * shares / shares.sum(axis=1, keepdims=True) + floor * priors
        assert_allclose(model.predict_proba(X), expected, atol=1e-12)
        assert_array_equal(model.predict(X), expected.argmax(axis=1))

    def test_pooled_densities(self, iris):
        """Gaussians with the pooled covariance are near linear discriminant analysis."""
        X, y = iris
        model = DensityClassifier(GaussianKDE()).fit(X, y)
        theirs = LinearDiscriminantAnalysis().fit(X, y)
        scores = np.stack([each[0].logpdf(X) for each in model.pooled_], axis=1)
        found = scores - logsumexp(scores, axis=1, keepdims=True)
        assert_allclose(np.exp(found), theirs.predict_proba(X), atol=0.05)
        for c, (common, own, kernels) in enumerate(model.pooled_):
            assert_allclose(common.mean(), X[y == c].mean(axis=0))
            assert_allclose(own.mean(), X[y == c].mean(axis=0))
            within = np.sqrt(sum(50 * X[y == d].var(axis=0) for d in range(3)) / 147)
            assert_allclose(
                np.diag(kernels.cov()) - X[y == c].var(axis=0), 0.49 * within**2, rtol=1e-4
            )

    def test_order_and_units_do_not_matter(self, iris):
        X, y = iris
        order, units = np.random.RandomState(1).permutation(150), np.array([1e-6, 1.0, 3e4, 0.1])
        recipe = ROME(scale="auto", resolution=None)
        first = DensityClassifier(recipe).fit(X, y).predict_proba(X)
        shuffled = DensityClassifier(recipe).fit(X[order], y[order]).predict_proba(X)
        assert_allclose(shuffled, first, atol=1e-5)
        scaled = DensityClassifier(recipe).fit(X * units, y).predict_proba(X * units)
        assert_allclose(scaled, first, atol=1e-5)

    @pytest.mark.parametrize("law", ["moons", "common", "unequal", "none"])
    def test_new_samples_are_predicted_at_least_as_well(self, law):
        gains = []
        for seed in range(3):
            rng = np.random.RandomState(seed)
            y = rng.randint(3, size=1060)
            noise = rng.standard_normal((1060, 5))
            if law == "moons":
                X, y = make_moons(1060, noise=0.3, random_state=seed)
            elif law == "common":
                X = noise + np.eye(3, 5)[y]
            elif law == "unequal":
                X = noise * np.array([0.5, 1.0, 2.0])[y][:, None]
            else:
                X = noise
            losses = [
                log_loss(y[60:], model.fit(X[:60], y[:60]).predict_proba(X[60:]))
                for model in (DensityClassifier(ROME(), pool=None), DensityClassifier(ROME()))
            ]
            gains.append(losses[0] - losses[1])
        assert np.mean(gains) > -0.02
        if law != "moons":  # 20 samples in 5 features
            assert np.mean(gains) > 0.1


@pytest.mark.parametrize(
    "model", [DensityOutlierDetector(ROME()), DensityClassifier(ROME())], ids=repr
)
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
