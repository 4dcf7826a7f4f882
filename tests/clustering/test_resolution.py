"""Rounded values: the unit is recognized, and copies are spread over their cells."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm, poisson
from sklearn.datasets import load_breast_cancer, load_iris
from typer.testing import CliRunner

import sevenhills
from sevenhills import ROME, AutoROME, compat
from sevenhills.cli.app import app
from sevenhills.clustering import Points
from sevenhills.clustering.resolution import find_units
from sevenhills.report import build_report

each_estimator = pytest.mark.parametrize("estimator", [ROME, AutoROME])


def rng_of(seed=0):
    return np.random.default_rng(seed)


# Samples as they are written down, and points of the same law


def ages(rng, n):
    z = rng.normal(40, 12, (n, 1))
    return np.round(z), z, norm(40, 12).logpdf(z[:, 0])


def two_modes(rng, n):
    young = rng.random((n, 1)) < 0.4
    z = np.where(young, rng.normal(20, 3, (n, 1)), rng.normal(70, 5, (n, 1)))
    parts = [np.log(0.4) + norm(20, 3).logpdf(z[:, 0]), np.log(0.6) + norm(70, 5).logpdf(z[:, 0])]
    return np.round(z), z, np.logaddexp(*parts)


def counts(rng, n):
    x = rng.poisson(5, (n, 1)) * 1.0
    return x, x + rng.uniform(-0.5, 0.5, (n, 1)), poisson(5).logpmf(x[:, 0])


def lattice(rng, n):
    """Twelve by twelve places."""
    law = multivariate_normal([5.5, 5.5], [[3, 2], [2, 3]])
    z = np.clip(law.rvs(n, random_state=np.random.RandomState(rng.integers(2**31))), -0.49, 11.49)
    return np.round(z), z, law.logpdf(z)


def mixed(rng, n):
    z = rng.normal(40, 12, n)
    noise = rng.normal(size=n)
    x = np.stack([np.round(z), 0.1 * z + noise], axis=1)
    return x, np.stack([z, x[:, 1]], axis=1), norm(40, 12).logpdf(z) + norm.logpdf(noise)


# Recognition

ROUNDED = {
    "ages": (lambda g, n: g.normal(40, 12, n).round(), 1),
    "two modes": (lambda g, n: np.r_[g.normal(20, 3, n), g.normal(70, 5, n)].round(), 1),
    "far modes": (lambda g, n: np.r_[g.normal(20, 3, n), g.normal(9000, 5, n)].round(), 1),
    "counts": (lambda g, n: g.poisson(8, n), 1),
    "overdispersed counts": (lambda g, n: g.negative_binomial(3, 0.2, n), 1),
    "counts with many zeros": (lambda g, n: g.poisson(9, n) * (g.random(n) < 0.5), 1),
    "tenths": (lambda g, n: g.normal(4, 1, n).round(1), 0.1),
    "tenths in float32": (lambda g, n: g.normal(36, 1, n).round(1).astype(np.float32), 0.1),
    "halves": (lambda g, n: (2 * g.normal(4, 5, n)).round() / 2, 0.5),
    "fives": (lambda g, n: 5 * (g.normal(0, 10, n)).round(), 5),
    "thousands": (lambda g, n: 1000 * (g.lognormal(3, 0.5, n)).round(), 1000),
    "prices": (lambda g, n: np.ceil(g.lognormal(2, 0.6, n)) - 0.01, 1),
    "standardized ages": (lambda g, n: (g.normal(40, 12, n).round() - 39.7) / 11.9, 1 / 11.9),
    "far from the origin": (lambda g, n: g.normal(1e9, 12, n).round(), 1),
    "with an outlier": (lambda g, n: np.append(g.normal(40, 12, n).round(), 1e7), 1),
    "with some half years": (lambda g, n: g.normal(40, 9, n).round() + (g.random(n) < 0.03) / 2, 1),
    "differences of decimals": (lambda g, n: g.normal(4, 1, n).round(1) - 0.3, 0.1),
}
EXACT = {
    "continuous": lambda g, n: g.normal(size=n),
    "bootstrap": lambda g, n: g.choice(g.normal(size=n), 2 * n),
    "bootstrap of decimals": lambda g, n: g.choice(g.normal(size=n).round(5), 2 * n),
    "float32": lambda g, n: g.normal(size=n).astype(np.float32),
    "two values": lambda g, n: g.integers(0, 2, n),
    "classes": lambda g, n: g.integers(0, 3, n),
    "seven points": lambda g, n: g.integers(1, 8, n),
    "dice": lambda g, n: g.integers(1, 7, n),
    "small counts": lambda g, n: g.poisson(1, n),
    "many zeros": lambda g, n: g.normal(size=n) * (g.random(n) < 0.05),
    "two values and others": lambda g, n: np.where(
        g.random(n) < 0.9, g.integers(0, 2, n), g.normal(size=n)
    ),
    "few decimals": lambda g, n: g.choice([0.1, 0.25, 7.0, 9.5, 20.0, 21.0, 30.0, 44.0, 80.0], n),
    "whole numbers far apart": lambda g, n: g.permutation(10**6)[:n],
    "constant": lambda g, n: np.full(n, 3.0),
}


@pytest.mark.parametrize("n", [60, 500, 5000])
@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_columns_are_recognized(name, n):
    make, unit = ROUNDED[name]
    for seed in range(5):
        x = np.asarray(make(rng_of(seed), n), dtype=float)[:, None]
        assert_allclose(find_units(x), unit, rtol=1e-6)
        assert_allclose(find_units(0.37 * x), 0.37 * unit, rtol=1e-6)


@pytest.mark.parametrize("n", [60, 500, 5000])
@pytest.mark.parametrize("name", EXACT)
def test_exact_columns_and_codes_are_left_alone(name, n):
    for seed in range(5):
        x = np.asarray(EXACT[name](rng_of(seed), n), dtype=float)[:, None]
        assert_array_equal(find_units(x), 0)
        assert_array_equal(find_units(x, np.full(len(x), 3.0)), 0)


def test_columns_are_judged_one_by_one():
    assert_allclose(find_units(load_iris().data), 0.1)
    assert_array_equal(find_units(load_breast_cancer().data), 0)
    x, _, _ = mixed(rng_of(), 300)
    assert_array_equal(find_units(x[:, ::-1]), [0, 1])


def test_weights_are_repetitions_for_the_unit():
    x = np.arange(30.0)[:, None]
    weights = rng_of().poisson(4, 30) * 1.0
    assert_array_equal(find_units(x), 0)
    assert_array_equal(find_units(x, weights), 1)
    assert_array_equal(find_units(x, weights / 100), 0)


# Spreading


@given(st.integers(0, 1000), st.integers(1, 60), st.sampled_from([0.0, 0.25, 1.0]))
def test_copies_lie_at_even_distances_in_their_cells(seed, n, unit):
    """The slow twin goes through the values one by one."""
    rng = rng_of(seed)
    X = np.stack([rng.integers(0, 5, n), rng.integers(0, 3, n), rng.normal(size=n)], axis=1)
    units = np.array([1.0, unit, 0.0])
    points = Points.from_samples(X, None, units)
    places = (points.X * points.unit)[points.of_rows]
    for j in range(3):
        for value in np.unique(X[:, j]):
            found = np.sort(places[X[:, j] == value, j])
            steps = (np.arange(len(found)) + 0.5) / len(found) - 0.5
            assert_allclose(found, value + units[j] * steps, rtol=0, atol=1e-12)


def test_columns_are_spread_independently():
    X = rng_of().integers(0, 3, (3000, 2)) * 1.0
    points = Points.from_samples(X, None, 1.0)
    offsets = (points.X * points.unit)[points.of_rows] - X
    assert abs(np.corrcoef(offsets.T)[0, 1]) < 0.08  # four standard errors
    twins = np.repeat(X[:, :1], 2, axis=1)
    points = Points.from_samples(twins, None, 1.0)
    assert_array_equal(points.X[:, 0], points.X[:, 1])


def test_exact_rows_are_laid_out_as_they_are():
    X = rng_of().normal(size=(50, 2))
    points = Points.from_samples(X, None, np.zeros(2))
    assert_array_equal(points.X * points.unit, X[points.rows])
    assert points.copies is None


# Laws


@pytest.mark.parametrize(
    ("estimator", "make"),
    [(ROME, ages), (ROME, lattice), (ROME, mixed), (AutoROME, two_modes)],
)
def test_order_and_units_do_not_matter(estimator, make):
    X, z, _ = make(rng_of(1), 150)
    z, d = z[:60], X.shape[1]
    usual = estimator().fit(X)
    assert usual.resolution_.any()
    expected = usual.score_samples(z)
    rows = rng_of(2).permutation(len(X))
    shuffled = estimator().fit(X[rows])
    assert_array_equal(shuffled.score_samples(z), expected)
    assert_array_equal(shuffled.labels_, usual.labels_[rows])
    places = np.sort(Points.from_samples(X, None, usual.resolution_).X, axis=0)
    turned = np.sort(Points.from_samples(X[:, ::-1], None, usual.resolution_[::-1]).X, axis=0)
    assert_allclose(turned[:, ::-1], places, rtol=0, atol=1e-12)
    scaled = estimator().fit(1000 * X)
    assert_allclose(scaled.score_samples(1000 * z) + d * np.log(1000), expected, atol=1e-6)
    assert_allclose(scaled.resolution_, 1000 * usual.resolution_, rtol=1e-9)
    single = estimator().fit(X.astype(np.float32))
    assert_allclose(single.score_samples(z), expected, atol=1e-3)


@pytest.mark.parametrize(
    ("estimator", "make"), [(ROME, two_modes), (ROME, mixed), (AutoROME, lattice)]
)
def test_a_weight_is_a_number_of_copies(estimator, make):
    X, z, _ = make(rng_of(3), 120)
    weights = rng_of(4).integers(0, 4, len(X))
    rows = np.repeat(np.arange(len(X)), weights)
    ours, theirs = estimator().fit(X, sample_weight=weights), estimator().fit(X[rows])
    assert_array_equal(ours.resolution_, theirs.resolution_)
    assert_array_equal(ours.score_samples(z), theirs.score_samples(z))
    assert_array_equal(ours.labels_[rows], theirs.labels_)
    assert_array_equal(ours.labels_[weights == 0], -1)
    assert sorted(ours.ordering_.order) == list(range(len(X)))


@each_estimator
def test_equal_rows_have_one_label(estimator):
    X, _, _ = two_modes(rng_of(), 400)
    labels = estimator().fit(X).labels_
    assert all(len(set(labels[X[:, 0] == value])) == 1 for value in X[:, 0])


def test_given_clusters_are_kept_whatever_they_are_called():
    X, z, _ = two_modes(rng_of(), 200)
    labels = (X[:, 0] > 21).astype(int)
    labels[::7] = -1
    one, other = (
        ROME().fit(X, labels=labels),
        ROME().fit(X, labels=np.where(labels < 0, -1, 1 - labels)),
    )
    assert_array_equal(one.labels_, labels)
    assert one.resolution_ == 1
    assert_allclose(one.score_samples(z), other.score_samples(z), atol=1e-9)


@each_estimator
def test_the_global_generator_is_not_used(estimator):
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    estimator().fit(ages(rng_of(), 60)[0])
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


# Densities


@pytest.mark.parametrize(
    ("make", "n_clusters"), [(ages, 1), (two_modes, 2), (counts, 1), (lattice, 1), (mixed, 1)]
)
@pytest.mark.parametrize(
    ("estimator", "n"), [(ROME, 50), (ROME, 1000), (AutoROME, 50), (AutoROME, 1000)]
)
def test_rounded_samples_have_the_density_of_their_law(estimator, n, make, n_clusters):
    X, _, _ = make(rng_of(5), n)
    _, z, truth = make(rng_of(6), 2000)
    model = estimator().fit(X)
    assert n == 50 or len(set(model.labels_[model.labels_ >= 0])) == n_clusters
    assert model.score(z) > truth.mean() - (0.3 if n == 50 else 0.06)


def test_the_way_back():
    X, z, truth = ages(rng_of(), 500)
    exact = ROME(resolution=None).fit(X)
    assert_array_equal(exact.resolution_, 0)
    assert len(exact.clusters_) > 20
    assert exact.score(z) < truth.mean() - 5
    assert_array_equal(ROME(resolution=0).fit(X).score_samples(z), exact.score_samples(z))
    assert_array_equal(
        ROME(resolution=[1.0]).fit(X).score_samples(z), ROME().fit(X).score_samples(z)
    )


def test_a_unit_for_every_feature():
    X = rng_of().integers(0, 4, (200, 2)) * 1.0
    assert_array_equal(ROME().fit(X).resolution_, 0)
    model = ROME(resolution=[1, 0]).fit(X)
    assert_array_equal(model.resolution_, [1, 0])
    assert len(np.unique(model.density_.means[:, 0])) > 150
    assert len(np.unique(model.density_.means[:, 1])) == 4


@pytest.mark.parametrize(
    ("resolution", "error"),
    [
        ("some", TypeError),
        (True, TypeError),
        ([[1.0], [1.0, 2.0]], TypeError),
        (-1.0, ValueError),
        (np.nan, ValueError),
        ([1.0, 2.0, 3.0], ValueError),
    ],
)
@each_estimator
def test_units_that_are_none(estimator, resolution, error):
    with pytest.raises(error, match="resolution must be"):
        estimator(resolution=resolution).fit(rng_of().normal(size=(30, 2)))


@each_estimator
def test_a_hundred_million_samples_are_cheap(estimator):
    """They are spread as some thousands, which together weigh as much."""
    x = np.arange(100.0)[:, None]
    weights = np.ceil(1e7 * np.exp(-(((x[:, 0] - 40) / 12) ** 2) / 2))
    model = estimator().fit(x, sample_weight=weights)
    assert model.density_.n_kernels < 31_000
    assert_allclose(model.score_samples(x[10:70]), norm(40, 12).logpdf(x[10:70, 0]), atol=0.02)


def test_the_drop_in_for_romepy_never_spreads():
    X, z, _ = ages(rng_of(), 200)
    exact = ROME(min_std=0.1, start="first", resolution=None).fit(X)
    assert_array_equal(compat.ROME().fit(X).score_samples(z), exact.score_samples(z))


def test_the_first_row_may_be_the_start():
    X, z, truth = ages(rng_of(), 300)
    model = ROME(start="first").fit(X)
    assert model.ordering_.order[0] == np.flatnonzero(X[:, 0] == X[0, 0])[0]
    assert model.score(z) > truth.mean() - 0.1


# Words and files


@each_estimator
def test_the_summary_names_rounded_features(estimator):
    X, _, _ = mixed(rng_of(), 100)
    text = estimator().fit(X).summary()
    assert "Values come in steps: 1 in feature 0." in text
    assert "resolution=None" in text.replace("\n", " ")
    assert "Rounded" not in estimator(resolution=None).fit(X).summary()
    assert "Values come in steps: 1 in feature 0." in estimator().fit(X)._repr_html_()


def test_many_rounded_features_are_not_all_named():
    X = rng_of().normal(0, 5, (100, 12)).round()
    assert "1 in feature 7 and 4 more." in ROME().fit(X).summary().replace("\n", " ")


def test_the_report_names_rounded_features():
    X, _, _ = ages(rng_of(), 100)
    model = ROME().fit(X)
    assert (
        "Values come in steps: 1 in years."
        in build_report(model, X=X, feature_names=["years"]).html
    )
    with pytest.raises(ValueError, match="these differ from them"):
        build_report(model, X=10 * X)


def test_the_command_line_names_rounded_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, _, _ = mixed(rng_of(), 200)
    np.savetxt("t.csv", X, delimiter=",", header="age,size", comments="")

    def call(*arguments):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    text = call("fit", "t.csv", "-o", "m.sevenhills")
    assert "Values come in steps: 1 in age." in text
    assert "--resolution none" in text
    described = call("describe", "m.sevenhills")
    assert "Values come in steps: 1 in age." in described
    assert json.loads(call("describe", "m.sevenhills", "--json"))["resolution"] == {"age": 1.0}
    for value, units in (("none", {}), ("auto", {"age": 1.0}), ("0.5", {"age": 0.5, "size": 0.5})):
        found = call("fit", "t.csv", "-o", "m.sevenhills", "--resolution", value, "--json")
        assert json.loads(found)["resolution"] == units
    result = CliRunner().invoke(app, ["fit", "t.csv", "-o", "m.sevenhills", "--resolution", "some"])
    assert result.exit_code == 2
    assert "--resolution must be a number, auto or none, got 'some'" in result.stderr


@each_estimator
def test_files_keep_the_units(estimator, tmp_path):
    X, z, _ = mixed(rng_of(), 80)
    model = estimator(resolution=np.array([2.0, 0.0])).fit(X)
    sevenhills.save(model, tmp_path / "m.npz")
    again = sevenhills.load(tmp_path / "m.npz")
    assert_array_equal(again.resolution, [2.0, 0.0])
    assert_array_equal(again.resolution_, [2.0, 0.0])
    assert again.summary() == model.summary()
    assert_array_equal(again.score_samples(z), model.score_samples(z))
