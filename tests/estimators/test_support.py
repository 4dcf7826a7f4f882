"""Supports of features: laws of the fitted densities, the choice of maps, circles and errors."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone

from sevenhills import (
    ROME,
    AutoROME,
    DensityClassifier,
    DensityOutlierDetector,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelDensityCV,
    ManifoldParzen,
    VineDensity,
    fit_many,
    load,
    save,
)
from sevenhills.clustering.points import least_spread_cut
from sevenhills.density import LogMap, MirrorMap, ProbitMap
from sevenhills.estimators import ESTIMATORS, propose_support

#: Laws of one feature with their supports.
LAWS = {
    "exponential": (stats.expon(), (0, None)),
    "uniform": (stats.uniform(), (0, 1)),
    "arcsine": (stats.beta(0.5, 0.5), (0, 1)),
    "lognormal": (stats.lognorm(1.0), (0, None)),
    "gamma": (stats.gamma(2.0), (0, None)),
    "Lomax": (stats.lomax(2.0), (0, None)),
    "below": (stats.loguniform(0.01, 1.0), (None, 1)),
    "far": (stats.norm(40.0, 5.0), (0, None)),
}
WITH_KERNELS = [
    ROME(),
    ROME(density="gaussian"),
    ROME(density="mpw"),
    AutoROME(),
    GaussianKDE(),
    KernelDensityCV(),
    GaussianMixtureBIC(max_components=3),
    ManifoldParzen(),
]
#: A support of three features of all kinds.
MIXED = {0: (0, None), 1: (0, 1), 2: ("circular", 360)}

each_estimator = pytest.mark.parametrize("estimator", WITH_KERNELS, ids=repr)
each_kind = pytest.mark.parametrize("kind", ["log", "mirror", None])


def with_support(estimator, support):
    return clone(estimator).set_params(support=support)


def mixed_samples(n=300, seed=0):
    """Return waiting times, shares and directions about north, which depend on each other."""
    rng = np.random.default_rng(seed)
    waits = rng.exponential(2.0, size=n)
    shares = rng.beta(2.0, 2.0, size=n)
    return np.stack([waits, shares, (rng.normal(0, 20, n) + 30 * shares) % 360], axis=1)


def nodes_of(density, n_edges=60, n_nodes=24):
    """Return nodes and weights of a quadrature over a feature, dense in both tails."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    low, high = density.maps[0].bounds
    inner = density.ppf(stats.norm.cdf(np.linspace(-7.5, 7.5, n_edges)))
    even = np.linspace(inner.min(), inner.max(), n_edges)
    edges = [inner, even]
    for end, side in ((low, 1), (high, -1)):
        if np.isfinite(end):  # where the density may grow to infinity
            edges += [[end], end + side * np.geomspace(1e-20, 0.1, n_edges)]
    edges = np.unique(np.concatenate(edges))
    middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    return (middles[:, None] + halves[:, None] * nodes).ravel(), np.outer(halves, weights).ravel()


# Densities


@each_kind
@pytest.mark.parametrize("name", LAWS)
def test_all_mass_is_inside(name, kind):
    law, bounds = LAWS[name]
    X = law.rvs(size=(250, 1), random_state=1)
    density = ROME(support={0: (*bounds, kind) if kind else bounds}).fit(X).density_
    low, high = (-np.inf, 1) if bounds[0] is None else (0, np.inf if bounds[1] is None else 1)
    nodes, weights = nodes_of(density)
    assert_allclose(density.pdf(nodes[:, None]) @ weights, 1.0, atol=1e-8)
    for end, mass in ((low, density.cdf), (high, density.sf)):
        if np.isfinite(end):
            assert mass(np.array([end]))[0] <= 1e-12
    outside = np.array([[low - 1e-9], [high + 1e-9]])[np.isfinite([low, high])]
    assert (density.logpdf(outside) == -np.inf).all()
    draws = density.sample(2000, random_state=0)
    assert ((draws >= low) & (draws <= high)).all()
    q = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6])
    assert_allclose(density.cdf(density.ppf(q)), q, rtol=1e-9)


@pytest.mark.parametrize("estimator", [ROME(), GaussianKDE(), GaussianMixtureBIC()], ids=repr)
def test_two_features_integrate_to_one(estimator):
    X = mixed_samples(100)[:, [0, 2]] / [1, 15]
    density = with_support(estimator, {0: (0, None), 1: ("circular", 24)}).fit(X).density_
    x, w = nodes_of(density.marginal([0]), 24, 12)
    y, v = nodes_of(density.marginal([1]), 24, 12)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    total = w @ density.pdf(grid).reshape(len(x), len(y)) @ v
    assert_allclose(total, 1.0, atol=1e-8)


@each_estimator
def test_marginal_times_conditional_is_the_joint(estimator):
    X = mixed_samples()
    density = with_support(estimator, MIXED).fit(X).density_
    for x in X[:5]:
        given = density.marginal([0]).logpdf(x[None, :1])
        rest = density.conditional({0: x[0]}).logpdf(x[None, 1:])
        assert_allclose(given + rest, density.logpdf(x[None]), rtol=1e-10, atol=1e-10)


@each_estimator
def test_samples_are_inside(estimator):
    model = with_support(estimator, MIXED).fit(mixed_samples())
    draws = model.sample(3000, random_state=0)
    assert (draws[:, 0] >= 0).all()
    assert ((draws[:, 1] >= 0) & (draws[:, 1] <= 1)).all()
    assert ((draws[:, 2] >= 0) & (draws[:, 2] < 360)).all()
    assert np.isfinite(model.score_samples(draws)).all()


@pytest.mark.parametrize("estimator", [ROME(), GaussianKDE()], ids=repr)
@pytest.mark.parametrize(
    ("law", "bounds", "n_features", "most"),
    [
        (stats.expon(), (0, None), 1, 0.03),
        (stats.uniform(), (0, 1), 2, 0.06),
        (stats.lognorm(1.0), (0, None), 3, 0.1),
        (stats.beta(0.5, 0.5), (0, 1), 1, 0.05),
    ],
    ids=["exponential", "square", "lognormal", "arcsine"],
)
def test_bounds_bring_the_density_near_the_truth(estimator, law, bounds, n_features, most):
    train = law.rvs(size=(1000, n_features), random_state=3)
    test = law.rvs(size=(4000, n_features), random_state=4)
    oracle = law.logpdf(test).sum(axis=1).mean()
    model = with_support(estimator, dict.fromkeys(range(n_features), bounds)).fit(train)
    assert oracle - model.score(test) < most


# The choice of maps


@pytest.mark.parametrize(
    ("law", "bounds", "kind"),
    [
        (stats.lognorm(1.0), (0, None), LogMap),
        (stats.beta(0.5, 0.5), (0, 1), ProbitMap),
        (stats.lomax(2.0), (0, None), LogMap),
        (stats.uniform(), (0, 1), MirrorMap),
        (stats.halfnorm(), (0, None), MirrorMap),
        (stats.norm(40.0, 5.0), (0, None), MirrorMap),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_samples_choose_the_map(law, bounds, kind, seed):
    X = law.rvs(size=(800, 1), random_state=seed)
    assert isinstance(GaussianKDE(support={0: bounds}).fit(X).support_[0].map, kind)
    assert isinstance(
        GaussianKDE(support={0: (*bounds, "log")}).fit(X).support_[0].map, LogMap | ProbitMap
    )
    assert isinstance(
        GaussianKDE(support={0: (*bounds, "mirror")}).fit(X).support_[0].map, MirrorMap
    )


@pytest.mark.parametrize("each", [(0, None), (-5, None), (None, 40), (0, 99)])
def test_log_maps_keep_the_unit_at_the_median(each):
    X = np.random.default_rng(0).lognormal(size=(501, 1))
    found = GaussianKDE(support={0: (*each, "log")}).fit(X).support_[0].map
    assert_allclose(found.log_slope(np.median(X)), 0.0, atol=1e-12)


def test_values_at_a_bound_are_mirrored_and_counted():
    X = np.r_[np.zeros(30), np.random.default_rng(0).lognormal(size=300)][:, None]
    model = ROME(support={0: (0, None)}, resolution=None).fit(X)
    assert isinstance(model.support_[0].map, MirrorMap)
    assert model.support_[0].n_at_bounds == 30
    assert "feature 0 from 0 (mirror, 30 at a bound)" in model.summary()
    assert np.isfinite(model.score_samples(X)).all()


def test_values_at_a_bound_are_moved_inside_for_a_log_map():
    x = np.random.default_rng(0).lognormal(size=300)
    X = np.r_[np.zeros(3), x][:, None]
    model = ROME(support={0: (0, None, "log")}, selection=None).fit(X)
    assert model.support_[0].n_at_bounds == 3
    assert_allclose(model.density_.maps[0].inverse(model.density_.means).min(), x.min())


def test_a_column_at_its_bound_is_mirrored():
    X = np.c_[np.zeros(50), np.random.default_rng(0).normal(size=50)]
    model = ROME(support={0: (0, 1, "log")}).fit(X)
    assert np.isfinite(model.score_samples(X)).all()


@each_kind
def test_rounded_values_are_spread_inside(kind):
    """Zeros stand for values from 0 to half of the unit."""
    x = np.random.default_rng(0).exponential(3.0, size=(2000, 1))
    model = ROME(support={0: (0, None, kind) if kind else (0, None)}).fit(np.rint(x))
    assert model.resolution_[0] == 1.0
    found = np.diff(model.cdf(np.array([0.0, 0.5, 1.5, 2.5, 3.5, 4.5])))
    shares = [np.mean(np.rint(x) == v) for v in range(5)]
    assert_allclose(found, shares, atol=0.05)


# Circles


@each_estimator
def test_two_sides_of_the_seam_are_one_mode(estimator):
    X = np.random.default_rng(0).normal(0.0, 8.0, size=(400, 1)) % 360
    model = with_support(estimator, {0: ("circular", 360)}).fit(X)
    density = model.density_
    apart = (density.mode() + 180) % 360 - 180
    assert abs(apart[0]) < 5
    assert_allclose(density.logpdf([[359.0]]), density.logpdf([[-1.0]]), rtol=1e-12)
    assert_allclose(density.logpdf([[359.0]]), density.logpdf([[1.0]]), atol=0.4)
    assert_allclose(density.cov()[0, 0], 8.0**2, rtol=0.3)
    if hasattr(model, "clusters_"):
        assert model.clusters_[0].n_members > 380


@pytest.mark.parametrize("estimator", [ROME(), AutoROME()], ids=repr)
@pytest.mark.parametrize("turn", [0.0, 100.0, 359.0])
def test_the_place_of_the_seam_does_not_matter(estimator, turn):
    rng = np.random.default_rng(1)
    X = np.c_[np.r_[rng.normal(0, 8, 200), rng.normal(150, 20, 300)], rng.normal(size=500)]
    model = with_support(estimator, {0: ("circular", 360)})
    first = model.fit(np.c_[X[:, 0] % 360, X[:, 1]]).score_samples(X)
    second = model.fit(np.c_[(X[:, 0] + turn) % 360, X[:, 1]]).score_samples(
        X + np.array([turn, 0])
    )
    # Members of AutoROME are found by k-means, which may round differently.
    assert_allclose(first, second, atol=1e-6 if isinstance(model, ROME) else 1e-2)
    assert len([each for each in model.clusters_ if each.label >= 0]) == 2


def test_a_cluster_is_unwrapped_with_the_least_spread():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, weights = rng.uniform(0, 7, size=9), rng.uniform(0.1, 2, size=9)
        cut = least_spread_cut(x, weights, 7.0)

        def variance(start, x=x, weights=weights):
            z = start + np.remainder(x - start, 7.0)
            return np.cov(z, aweights=weights, ddof=0)

        slow = min(variance(start) for start in np.append(x, 0.0))
        assert_allclose(variance(cut), slow, rtol=1e-9)


@pytest.mark.parametrize(
    ("values", "period", "low"),
    [
        (np.linspace(0.1, 6.2, 50), 2 * np.pi, 0.0),
        (np.linspace(-3.1, 3.1, 50), 2 * np.pi, -np.pi),
        (np.linspace(0, 23.9, 50), 24.0, 0.0),
        (np.linspace(0, 360, 50), 360.0, 0.0),
        (np.linspace(-179, 180, 50), 360.0, -180.0),
    ],
)
def test_plain_circles_have_the_period_of_radians_hours_or_degrees(values, period, low):
    found = GaussianKDE(support={0: "circular"}).fit(values[:, None]).support_[0].map
    assert_allclose([found.period, found.low], [period, low])


# Invariance


@each_estimator
def test_units_change_the_density_by_a_constant(estimator):
    X, factor = mixed_samples(), 2.0**0.3
    plain = with_support(estimator, MIXED).fit(X).score_samples(X)
    support = {0: (0, None), 1: (0, factor), 2: ("circular", 360 * factor)}
    changed = with_support(estimator, support).fit(X * factor).score_samples(X * factor)
    assert_allclose(changed, plain - 3 * np.log(factor), atol=1e-6)


def test_the_unit_of_one_column_changes_the_density_by_a_constant():
    X, factors = mixed_samples(), np.array([7.0, 0.01, np.pi / 180])
    plain = GaussianKDE(support=MIXED).fit(X).score_samples(X)
    support = {0: (0, None), 1: (0, 0.01), 2: ("circular", 2 * np.pi)}
    changed = GaussianKDE(support=support).fit(X * factors).score_samples(X * factors)
    assert_allclose(changed, plain - np.log(factors).sum(), atol=1e-9)


@each_estimator
def test_row_and_column_order_do_not_matter(estimator):
    X = mixed_samples()
    plain = with_support(estimator, MIXED).fit(X).score_samples(X)
    rows = np.random.default_rng(0).permutation(len(X))
    mixed = with_support(estimator, MIXED).fit(X[rows]).score_samples(X)
    assert_allclose(mixed, plain, rtol=1e-7, atol=1e-7)
    support = {2 - j: each for j, each in MIXED.items()}
    turned = with_support(estimator, support).fit(X[:, ::-1]).score_samples(X[:, ::-1])
    assert_allclose(turned, plain, rtol=1e-6, atol=1e-6)


@each_estimator
def test_weights_are_repetitions(estimator):
    X = mixed_samples(150)
    weights = np.random.default_rng(0).integers(0, 4, size=len(X))
    weighted = with_support(estimator, MIXED).fit(X, sample_weight=weights)
    repeated = with_support(estimator, MIXED).fit(np.repeat(X, weights, axis=0))
    assert [each.map for each in weighted.support_] == [each.map for each in repeated.support_]
    assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-6, atol=1e-6)


# Files, names and wrappers


@each_estimator
def test_models_are_saved_and_loaded_to_the_bit(estimator, tmp_path):
    X = pd.DataFrame(mixed_samples(), columns=["wait", "share", "heading"])
    support = {"wait": (0, None), 1: (0, 1, "log"), "heading": ["circular", 360]}
    model = with_support(estimator, support).fit(X)
    save(model, tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert again.support == support
        assert again.support_ == model.support_
        assert again.density_.maps == model.density_.maps
        assert_array_equal(again.score_samples(X), model.score_samples(X))


def test_names_and_indices_are_the_same():
    X = mixed_samples()
    frame = pd.DataFrame(X, columns=["wait", "share", "heading"])
    by_name = ROME(support={"share": (0, 1), "wait": (0, None)}).fit(frame)
    by_index = ROME(support={0: (0, None), 1: (0, 1)}).fit(X)
    assert_array_equal(by_name.score_samples(frame), by_index.score_samples(X))
    assert [each.name for each in by_name.support_] == ["wait", "share"]


def test_many_fits_have_supports():
    sets = [mixed_samples(60, seed) for seed in range(3)]
    models = fit_many(sets, ROME(support=MIXED))
    for X, model in zip(sets, models, strict=True):
        assert_array_equal(model.score_samples(X), ROME(support=MIXED).fit(X).score_samples(X))


@pytest.mark.parametrize("wrapper", [DensityClassifier, DensityOutlierDetector])
def test_wrappers_take_supports_by_name(wrapper):
    X = pd.DataFrame(mixed_samples(), columns=["wait", "share", "heading"])
    y = (X["wait"] > 2).to_numpy().astype(int)
    named = {"wait": (0, None), "share": (0, 1), "heading": ("circular", 360)}
    first = wrapper(ROME(support=named)).fit(X, y).score_samples(X)
    second = wrapper(ROME(support=MIXED)).fit(X.to_numpy(), y).score_samples(X.to_numpy())
    assert_array_equal(first, second)


def test_a_point_outside_is_an_outlier_of_no_class():
    X = mixed_samples()
    outside = X[:1] * [-1, 1, 1]
    detector = DensityOutlierDetector(ROME(support=MIXED)).fit(X)
    assert detector.predict(outside)[0] == -1
    classifier = DensityClassifier(ROME(support=MIXED)).fit(X, X[:, 0] > 2)
    assert_allclose(classifier.predict_proba(outside).sum(), 1.0)


def test_missing_values_are_left_out():
    X = mixed_samples()
    model = ROME(support=MIXED).fit(X)
    found = model.score_samples(np.c_[X[:5, :1], np.full((5, 2), np.nan)], missing="marginal")
    assert_allclose(found, model.marginal([0]).logpdf(X[:5, :1]))


# Proposals


def test_bounds_are_proposed_and_named():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "normal": rng.normal(size=200),
            "wait": rng.exponential(size=200),
            "share": rng.uniform(size=200),
            "far": rng.normal(40, 5, size=200),
            "code": rng.integers(0, 3, size=200),
        }
    )
    proposed = {"wait": (0, None), "share": (0, 1)}
    assert propose_support(X) == proposed
    with pytest.warns(UserWarning, match=r"wait \(0.0, None\), share \(0.0, 1.0\)"):
        model = ROME(support="auto").fit(X)
    assert all(each.is_proposed for each in model.support_)
    assert "Proposed support: wait from 0" in model.summary()
    same = ROME(support=proposed).fit(X)
    assert_array_equal(model.score_samples(X), same.score_samples(X))


# Errors


@pytest.mark.parametrize(
    ("support", "error", "message"),
    [
        ({"age": (0, 1)}, ValueError, "no names; use indices"),
        ({9: (0, 1)}, ValueError, "feature 9, but there are 3"),
        ({0: (1, None)}, ValueError, "feature 0 has the value .* in row .*outside of its support"),
        ({0: (None, None)}, ValueError, "no bound"),
        ({0: (2, 1)}, ValueError, "low below high"),
        ({0: (0, None, "logit")}, ValueError, "'log' or 'mirror'"),
        ({0: 3}, ValueError, "must be"),
        ({0: ("0", None)}, TypeError, "a number or None"),
        ({0: (np.nan, None)}, ValueError, "a number or None"),
        ({0: "circle"}, ValueError, "circular"),
        ({0: ("circular", -1)}, ValueError, "period of .*positive"),
        ({1: "circular"}, ValueError, "values of feature 1 do not determine its period"),
        ({2: ("circular", 6.28)}, ValueError, "more than its period of 6.28"),
        ({0.5: (0, 1)}, TypeError, "names or indices"),
        ([(0, 1)], TypeError, "dict"),
        ("positive", TypeError, "dict"),
    ],
)
def test_bad_supports_are_refused(support, error, message):
    with pytest.raises(error, match=message):
        ROME(support=support).fit(mixed_samples())


def test_the_first_row_outside_is_named():
    X = pd.DataFrame({"wait": [1.0, 2.0, -3.0, 4.0, -5.0, 6.0]})
    with pytest.raises(ValueError, match=r"wait has the value -3 in row 2 \(2 rows in all\)"):
        ROME(support={"wait": (0, None)}).fit(X)


def test_a_name_and_an_index_may_not_be_the_same_feature():
    X = pd.DataFrame({"wait": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="twice"):
        ROME(support={"wait": (0, None), 0: (0, None)}).fit(X)
    with pytest.raises(ValueError, match=r"'age', but there are \['wait'\]"):
        ROME(support={"age": (0, None)}).fit(X)


def test_a_failed_fit_keeps_the_old_model():
    X = mixed_samples()
    model = ROME(support=MIXED).fit(X)
    before = model.score_samples(X)
    with pytest.raises(ValueError, match="outside"):
        model.fit(-X)
    assert_array_equal(model.score_samples(X), before)


def test_densities_without_kernels_refuse_a_support():
    with pytest.raises(ValueError, match="density='knn'"):
        ROME(density="knn", support={0: (0, None)}).fit(mixed_samples())
    with pytest.raises(TypeError, match="support"):
        VineDensity(support={0: (0, None)})
    kinds = {name for name, cls in ESTIMATORS.items() if "support" in cls().get_params()}
    assert kinds == set(ESTIMATORS) - {"vine"}


def test_rows_without_weight_may_be_outside():
    X, weights = np.append(mixed_samples(), [[-1.0, 2.0, 0.0]], axis=0), np.ones(301)
    weights[-1] = 0
    model = ROME(support=MIXED).fit(X, sample_weight=weights)
    same = ROME(support=MIXED).fit(X[:-1])
    assert_array_equal(model.score_samples(X), same.score_samples(X))
    X[3, 0], weights[1] = -7.0, 0
    with pytest.raises(ValueError, match="the value -7 in row 3,"):
        ROME(support=MIXED).fit(X, sample_weight=weights)
