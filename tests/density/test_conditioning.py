import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import kstest, multivariate_normal

from sevenhills import ROME, KernelMixture, VineDensity

from ..densities import ESTIMATORS, fitted, random_mixture, samples

FEATURES = {2: ([0], [1]), 4: ([2], [3, 0], [1, 2, 3])}


def close(found, expected, tolerance=1e-10):
    """Log densities are as exact as their size allows."""
    assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def covariances(density):
    inverses = np.linalg.inv(density.transforms)
    return np.matmul(inverses.transpose(0, 2, 1), inverses)


def slow_logpdf(density, X, features):
    """The log density of some features by scipy, kernel by kernel."""
    terms = []
    for g, covariance in enumerate(covariances(density)):
        part = multivariate_normal(np.zeros(len(features)), covariance[np.ix_(features, features)])
        for k in range(density.offsets[g], density.offsets[g + 1]):
            away = X - density.means[k, features]
            terms.append(np.log(density.weights[k]) + part.logpdf(away).reshape(len(X)))
    return np.logaddexp.reduce(terms, axis=0)


def query(density, n=30, seed=0):
    """Points near the kernels, between clusters, and far from all."""
    rng = np.random.RandomState(seed)
    near = density.sample(n, random_state=seed)
    crossed = np.stack([rng.permutation(x) for x in near.T], axis=1)
    return np.concatenate([near, crossed, near * 3, near * 50])


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("n_features", [2, 4])
def test_marginal_times_conditional_is_the_joint(name, n_features):
    density = fitted(name, n_features).density_
    for given_features in FEATURES[n_features]:
        left = [i for i in range(n_features) if i not in given_features]
        marginal = density.marginal(given_features)
        for x in query(density, 8):
            known = dict(zip(given_features, x[given_features], strict=True))
            conditional = density.conditional(known)
            found = marginal.logpdf(x[None, given_features]) + conditional.logpdf(x[None, left])
            close(found, density.logpdf(x[None]))


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 70), st.sampled_from([0.0, 1.0]))
def test_marginals_and_conditionals_of_any_mixture(seed, n_features, n_groups, stretch):
    rng = np.random.RandomState(seed)
    density = random_mixture(seed, n_features, n_groups, 80, stretch=stretch)
    features = rng.permutation(n_features)[: rng.randint(1, n_features)]
    left = np.setdiff1d(np.arange(n_features), features)
    marginal = density.marginal(features)
    X = query(density, 4, seed)
    assert_allclose(
        marginal.logpdf(X[:, features]), slow_logpdf(density, X[:, features], features), rtol=1e-8
    )
    for x in X[::4]:
        conditional = density.conditional(dict(zip(features.tolist(), x[features], strict=True)))
        found = marginal.logpdf(x[None, features]) + conditional.logpdf(x[None, left])
        close(found, density.logpdf(x[None]), 1e-9)
        assert_allclose(conditional.weights.sum(), 1.0, rtol=1e-12)
    assert_array_equal(marginal.clusters, density.clusters)
    assert_array_equal(conditional.counts, density.counts)
    for each in (marginal, conditional):
        log_dets = np.linalg.slogdet(each.transforms)[1]
        assert_allclose(each.log_dets, log_dets, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_marginal_of_a_marginal(name):
    density = fitted(name, 4).density_
    twice = density.marginal([3, 1, 0]).marginal([2, 0])
    X = query(density)[:, [0, 3]]
    close(twice.logpdf(X), density.marginal([0, 3]).logpdf(X))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_conditions_one_after_another(name):
    density = fitted(name, 4).density_
    x = density.sample(1, random_state=1)[0]
    together = density.conditional({0: x[0], 2: x[2]})
    in_turn = density.conditional({2: x[2]}).conditional({0: x[0]})
    X = query(density)[:, [1, 3]]
    close(in_turn.logpdf(X), together.logpdf(X), 1e-9)


def test_thin_kernels_keep_their_digits():
    """A line at 45 degrees, 1e-7 wide: the marginals know nothing of its width."""
    axes = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    density = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [axes / [1.0, 1e-7]])
    expected = multivariate_normal(0, (1 + 1e-14) / 2)
    for feature in (0, 1):
        assert_allclose(density.marginal(feature).logpdf([[0.3]]), expected.logpdf(0.3), rtol=1e-12)
    conditional = density.conditional({0: 0.3})
    assert_allclose(conditional.mean(), 0.3, rtol=1e-12)
    assert_allclose(np.sqrt(conditional.cov()), [[np.sqrt(2) * 1e-7]], rtol=1e-6)


def test_marginal_by_integration():
    density = fitted("rome").density_
    for x in (-2.0, 0.5):
        expected = quad(lambda y: density.pdf([[x, y]])[0], -30, 30, limit=400, epsabs=1e-12)[0]  # noqa: B023
        assert_allclose(density.marginal(0).pdf([[x]]), expected, rtol=1e-8)


def test_a_condition_that_every_kernel_finds_impossible_is_answered_in_log_space():
    density = fitted("rome").density_
    left = density.conditional({0: 1e6})
    assert np.isfinite(left.logpdf([[0.0], [1e6]])).all()
    found = density.marginal(0).logpdf([[1e6]]) + left.logpdf([[3.0]])
    close(found, density.logpdf([[1e6, 3.0]]))
    with pytest.raises(ValueError, match=r"given: the density is zero at {1: 1e\+300}"):
        density.conditional({1: 1e300})


def test_weights_that_underflow_still_count_far_away():
    """Two hills: given the place of the one, the other weighs nothing that a float could hold."""
    two = KernelMixture([0.5, 0.5], [[0.0, 0.0], [90.0, 90.0]], [0, 2], [np.eye(2)])
    left = two.conditional({0: 0.0})
    assert left.weights[1] == 0.0
    found = two.marginal(0).logpdf([[0.0]]) + left.logpdf([[90.0]])
    close(found, two.logpdf([[0.0, 90.0]]))


def frame(names):
    return pd.DataFrame(samples(3), columns=names)


def test_by_name():
    model = ROME().fit(frame(["x", "y", "speed"]))
    named, density = model.density_, ROME().fit(samples(3)).density_
    assert named.feature_names == ("x", "y", "speed")
    assert density.feature_names is None
    X = query(density)
    assert_array_equal(
        model.marginal(["speed", "x"]).logpdf(X[:, [2, 0]]),
        density.marginal([2, 0]).logpdf(X[:, [2, 0]]),
    )
    assert model.marginal(["speed", "x"]).feature_names == ("speed", "x")
    left = model.conditional({"y": 1.0})
    assert left.feature_names == ("x", "speed")
    assert_array_equal(
        left.logpdf(X[:, [0, 2]]), density.conditional({1: 1.0}).logpdf(X[:, [0, 2]])
    )
    assert_array_equal(left.marginal("speed").means, left.marginal(-1).means)
    assert named.affine(np.diag([1.0, 2.0, 3.0]), np.zeros(3)).feature_names == ("x", "y", "speed")
    assert named.affine(np.eye(3)[::-1], np.zeros(3)).feature_names is None


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_columns_must_be_those_of_the_density(make):
    named = ROME().fit(frame(["x", "y", "speed"])).density_
    X = samples(3)[:5]
    right = make(dict(zip(["x", "y", "speed"], X.T, strict=True)))
    assert_array_equal(named.logpdf(right), named.logpdf(X))
    wrong = make(dict(zip(["y", "x", "speed"], X.T, strict=True)))
    with pytest.raises(ValueError, match=r"X has the features \['y', 'x', 'speed'\], but"):
        named.logpdf(wrong)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        ("z", ValueError, r"unknown feature 'z'; known are \['x', 'y', 'speed'\], or indices 0"),
        (3, ValueError, r"unknown feature 3; known are \['x', 'y', 'speed'\]"),
        (-4, ValueError, "unknown feature -4"),
        ([0, "x"], ValueError, "different"),
        ([], ValueError, "empty"),
        (1.0, TypeError, "features must be indices or names"),
        ([1.0], TypeError, "index or a name"),
        ([True], TypeError, "index or a name"),
        (None, TypeError, "features must be"),
    ],
)
def test_unknown_features(features, error, message):
    named = ROME().fit(frame(["x", "y", "speed"])).density_
    with pytest.raises(error, match=message):
        named.marginal(features)


def test_unknown_features_of_a_density_without_names():
    with pytest.raises(ValueError, match="unknown feature 'x': this density has no feature names"):
        fitted("kde").density_.marginal("x")


@pytest.mark.parametrize(
    ("known", "error", "message"),
    [
        ({"z": 1.0}, ValueError, "unknown feature 'z'"),
        ({0: 1.0, "x": 2.0}, ValueError, "different"),
        ({}, ValueError, "empty"),
        ({0: 1.0, 1: 1.0, 2: 1.0}, ValueError, "all features"),
        ({"x": np.nan}, ValueError, r"given\['x'\] must be finite"),
        ({"x": np.inf}, ValueError, "finite"),
        ({"x": "1"}, TypeError, "must be a number"),
        ([("x", 1.0)], TypeError, "must map"),
    ],
)
def test_conditions_that_are_none(known, error, message):
    named = ROME().fit(frame(["x", "y", "speed"])).density_
    with pytest.raises(error, match=message):
        named.conditional(known)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_affine_then_query_is_query_then_affine(name):
    density = fitted(name, 4).density_
    rng = np.random.RandomState(0)
    matrix, shift = rng.standard_normal((4, 4)) + 2 * np.eye(4), rng.standard_normal(4)
    moved = density.affine(matrix, shift)
    X = query(density)
    expected = density.logpdf(X) - np.linalg.slogdet(matrix)[1]
    close(moved.logpdf(X @ matrix + shift), expected)
    assert_array_equal(moved.clusters, density.clusters)
    assert_array_equal(moved.counts, density.counts)
    assert_allclose(moved.mean(), density.mean() @ matrix + shift, rtol=1e-10)
    assert_allclose(moved.cov(), matrix.T @ density.cov() @ matrix, rtol=1e-9)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 2.0], [2.0, 4.0]],
        [[0.1, 0.3], [0.2, 0.6]],
        [[1.0, 0.0], [1e-300, 0.0]],
        [[1e-9, 2e-9], [1e9, 2e9]],
    ],
)
def test_affine_refuses_singular_matrices(matrix):
    with pytest.raises(ValueError, match="matrix must be regular"):
        fitted("kde").density_.affine(matrix, np.zeros(2))


def test_affine_takes_matrices_of_any_unit():
    density = fitted("kde").density_
    moved = density.affine(np.diag([1e-200, 1e200]), np.zeros(2))
    assert_allclose(moved.logpdf(density.means * [1e-200, 1e200]), density.logpdf(density.means))


def test_merge_is_the_mixture():
    parts = [fitted(name).density_ for name in ESTIMATORS]
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    both = KernelMixture.merge(parts, shares)
    X = query(both)
    expected = np.logaddexp.reduce(
        [np.log(v) + part.logpdf(X) for v, part in zip(shares, parts, strict=True)]
    )
    close(both.logpdf(X), expected)
    assert both.counts is not None
    assert_allclose(both.mean(), shares @ [part.mean() for part in parts], rtol=1e-12)
    labels = [set(part.clusters[part.clusters >= 0]) for part in parts]
    assert set(both.clusters[both.clusters >= 0]) == set(range(sum(map(len, labels))))


def test_merge_refuses_other_names():
    one, other = (ROME().fit(frame([*"abc"])).density_, ROME().fit(frame([*"abd"])).density_)
    with pytest.raises(ValueError, match="same features"):
        KernelMixture.merge([one, other], [0.5, 0.5])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_moments_are_those_of_samples(name):
    density = fitted(name, 4).density_
    drawn = density.sample(40_000, random_state=0)
    errors = np.sqrt(np.diag(density.cov()) / len(drawn))
    assert (np.abs(density.mean() - drawn.mean(axis=0)) < 4 * errors).all()
    assert_allclose(density.cov(), np.cov(drawn.T), atol=0.05 * np.diag(density.cov()).max())


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 40))
def test_moments_of_any_mixture(seed, n_features, n_groups):
    density = random_mixture(seed, n_features, n_groups, 40, stretch=1.0)
    shifted = density.affine(np.eye(n_features), np.full(n_features, 1e6))
    group = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
    mean = density.weights @ density.means
    apart = density.means - mean
    cov = sum(
        w * (covariances(density)[g] + np.outer(a, a))
        for w, g, a in zip(density.weights, group, apart, strict=True)
    )
    assert_allclose(density.mean(), mean, rtol=1e-9, atol=1e-12)
    assert_allclose(density.cov(), cov, rtol=1e-8, atol=1e-9 * np.abs(cov).max())
    assert_allclose(shifted.cov(), cov, rtol=1e-6, atol=1e-6 * np.abs(cov).max())


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 30), st.integers(1, 3))
@pytest.mark.whole
def test_integral_of_a_product_kernel_by_kernel(seed, n_features, n_groups, n_others):
    one = random_mixture(seed, n_features, n_groups, 30, stretch=0.5)
    other = random_mixture(seed + 1, n_features, n_others, 12, stretch=0.5)
    expected = 0.0
    for k in range(30):
        for j in range(12):
            g = np.searchsorted(one.offsets, k, side="right") - 1
            h = np.searchsorted(other.offsets, j, side="right") - 1
            both = covariances(one)[g] + covariances(other)[h]
            value = multivariate_normal(other.means[j], both).pdf(one.means[k])
            expected += one.weights[k] * other.weights[j] * value
    assert_allclose(one.integrate_product(other), expected, rtol=1e-8)
    assert_allclose(other.integrate_product(one), expected, rtol=1e-8)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_integral_of_a_product_is_an_expectation(name):
    one, other = fitted(name).density_, fitted("rome").density_
    values = other.pdf(one.sample(20_000, random_state=0))
    error = values.std() / np.sqrt(len(values))
    assert abs(one.integrate_product(other) - values.mean()) < 4 * error
    found = fitted(name).integrate_product(fitted("rome"))
    assert_allclose(found, other.integrate_product(one), rtol=1e-10)


def test_integral_of_a_product_that_underflows():
    unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
    far = unit.affine([[1.0]], [200.0])
    assert unit.integrate_product(far) == 0.0
    expected = -0.25 * 200.0**2 - 0.5 * np.log(4 * np.pi)
    assert_allclose(unit.integrate_product(far, log=True), expected)
    with pytest.raises(ValueError, match="other has 2 features"):
        unit.integrate_product(fitted("kde").density_)
    with pytest.raises(TypeError, match="KernelMixture, got int"):
        unit.integrate_product(3)


# Missing values


def holes(X, seed=0, share=0.4):
    rng = np.random.RandomState(seed)
    X = np.array(X)
    X[rng.uniform(size=X.shape) < share] = np.nan
    return X


@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_with_missing_values_are_scored_by_what_is_there(name):
    model = fitted(name, 4)
    X = np.concatenate([holes(samples(4)[:60]), samples(4)[:3], np.full((1, 4), np.nan)])
    found = model.score_samples(X, missing="marginal")
    for x, score in zip(X, found, strict=True):
        there = np.flatnonzero(~np.isnan(x))
        expected = model.marginal(there).logpdf(x[None, there])[0] if len(there) else 0.0
        assert_allclose(score, expected, rtol=1e-12)
    assert_array_equal(model.score_samples(samples(4)), model.score_samples(samples(4), "marginal"))
    for ask in (model.score_samples, model.density_.logpdf):
        with pytest.raises(ValueError, match="NaN"):
            ask(X)
        with pytest.raises(ValueError, match="infinity"):
            ask([[np.inf, 0.0, 0.0, np.nan]], missing="marginal")
        with pytest.raises(ValueError, match="missing must be one of"):
            ask(X, missing="drop")


def test_frames_with_missing_values():
    names = ["x", "y", "speed"]
    model = ROME().fit(pd.DataFrame(samples(3), columns=names))
    X = holes(samples(3)[:20])
    assert_array_equal(
        model.score_samples(pd.DataFrame(X, columns=names), missing="marginal"),
        model.density_.logpdf(X, missing="marginal"),
    )


def test_only_kernels_know_marginals():
    for model in (VineDensity(), ROME(density="knn")):
        model.fit(samples())
        with pytest.raises(TypeError, match="missing='marginal' needs a mixture of kernels, but"):
            model.score_samples(samples(), missing="marginal")
        with pytest.raises(TypeError, match="conditional needs a mixture of kernels"):
            model.conditional({0: 0.0})


@pytest.mark.parametrize("name", ESTIMATORS)
def test_imputed_means_are_those_of_the_conditional(name):
    model = fitted(name, 4)
    X = holes(samples(4)[:40])
    filled = model.impute(X)
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    for x, found in zip(X, filled, strict=True):
        lost, there = np.isnan(x), np.flatnonzero(~np.isnan(x))
        if lost.all():
            expected = model.mean()
        elif lost.any():
            expected = model.conditional({i: x[i] for i in there.tolist()}).mean()
        else:
            continue
        assert_allclose(found[lost], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_imputed_draws_follow_the_conditional(name):
    model = fitted(name, 4)
    x = samples(4)[3]
    rows = np.tile([x[0], np.nan, x[2], np.nan], (3000, 1))
    drawn = model.impute(rows, method="sample", random_state=0)[:, [1, 3]]
    left = model.conditional({0: x[0], 2: x[2]})
    for i in range(2):
        assert kstest(drawn[:, i], left.marginal(i).cdf).pvalue > 0.01
    assert abs(np.corrcoef(drawn.T)[0, 1] - _correlation(left.cov())) < 0.1
    again = model.impute(rows, method="sample", random_state=0)[:, [1, 3]]
    assert_array_equal(drawn, again)


def _correlation(covariance):
    return covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_imputed_modes_are_the_highest_places(name):
    model = fitted(name, 4)
    X = holes(samples(4)[:8], share=0.5)
    filled = model.impute(X, method="mode")
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    drawn = np.tile(X, (200, 1))
    drawn = model.impute(drawn, method="sample", random_state=0)
    best = model.score_samples(drawn).reshape(200, len(X)).max(axis=0)
    assert (model.score_samples(filled) >= best - 1e-9).all()


def test_imputing_bad_input():
    model = fitted("rome")
    with pytest.raises(ValueError, match="method must be one of"):
        model.impute(samples(), method="median")
    with pytest.raises(ValueError, match="in row 1 is zero"):
        model.impute([[0.0, np.nan], [1e300, np.nan]])
    assert_array_equal(model.impute(samples()), samples())
    with pytest.raises(ValueError, match="features"):
        model.impute([[np.nan]])
