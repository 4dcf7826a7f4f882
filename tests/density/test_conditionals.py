"""The conditional densities of many rows, beside those of one row at a time."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import kstest

from sevenhills import AutoROME, KernelMixture
from sevenhills.density import (
    CircleMap,
    FeatureMap,
    LogMap,
    MirrorMap,
    ProbitMap,
    TableMap,
    YeoJohnson,
    conditionals,
)
from sevenhills.density.conditionals import Conditionals

from ..densities import ESTIMATORS, fitted, random_mixture, samples

Q = np.array([1e-4, 0.05, 0.5, 0.95, 1 - 1e-4])
MAPS = {
    "none": FeatureMap(),
    "log": LogMap(-30.0, 20.0),
    "probit": ProbitMap(-30.0, 30.0, 8.0),
    "power": YeoJohnson(0.5, 0.0, 2.0),
    "table": TableMap(np.linspace(-9, 9, 9), np.exp(0.5 * np.sin(np.arange(9.0))), -9.0),
}
each_map = pytest.mark.parametrize("name", MAPS)


def mapped(maps, seed=0, **options):
    """Return kernels in groups of different shapes, with maps of the features."""
    density = random_mixture(seed, len(maps), **({"n_groups": 6, "n_kernels": 40} | options))
    return KernelMixture(
        density.weights, density.means / 2, density.offsets, density.transforms, maps=maps
    )


def rows_of(density, n_given, n_rows=12, seed=3):
    """Return the conditionals of rows near the kernels, and values of the other features."""
    X = density.sample(n_rows, random_state=seed)
    return density.conditional(dict(enumerate(X[:, :n_given].T))), X[:, n_given:]


def one_by_one(rows, question, *arguments):
    return np.array([getattr(each, question)(*arguments) for each in rows])


def close(found, expected, stds, tolerance=1e-8):
    assert_allclose((found - expected) / stds, 0.0, atol=tolerance)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_feature_is_that_of_the_row(name):
    density = fitted(name, 3).density_
    rows, Y = rows_of(density, 2)
    y = Y[:, 0]
    assert len(rows) == 12
    assert rows[3].n_features == rows.n_features == 1
    stds = np.sqrt(one_by_one(rows, "cov")[:, 0])
    # Maps with kinks are integrated less exactly.
    tolerance = 1e-9 if density.maps is None else 1e-4
    close(rows.mean(), one_by_one(rows, "mean"), stds, tolerance)
    close(rows.std(), stds, stds, max(tolerance, 1e-6))
    close(rows.ppf(Q), one_by_one(rows, "ppf", Q), stds, 1e-5)
    assert_allclose(rows.cdf(y), [each.cdf(v) for each, v in zip(rows, y, strict=True)], atol=1e-9)
    expected = [each.logpdf([[v]])[0] for each, v in zip(rows, y, strict=True)]
    assert_allclose(rows.logpdf(y), expected, rtol=1e-9, atol=1e-8)
    heights = [each.logpdf(m[None])[0] for each, m in zip(rows, rows.mode(), strict=True)]
    best = [each.logpdf(each.mode()[None])[0] for each in rows]
    assert (np.array(heights) >= np.array(best) - 1e-9).all()


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 40), st.sampled_from([0.0, 1.0]))
def test_rows_of_any_mixture(seed, n_features, n_groups, stretch):
    density = random_mixture(seed, n_features, n_groups, 50, stretch=stretch)
    n_given = 1 + seed % (n_features - 1)
    rows, Y = rows_of(density, n_given, 5, seed)
    for i, each in enumerate(rows):
        stds = np.sqrt(np.diag(each.cov()))
        close(rows.mean()[i], each.mean(), stds)
        assert_allclose(rows.logpdf(Y)[i], each.logpdf(Y[i][None])[0], rtol=1e-8, atol=1e-8)
        if rows.n_features == 1:
            close(rows.ppf(Q)[i], each.ppf(Q), stds, 1e-5)
            assert_allclose(rows.cdf(Y[:, 0])[i], each.cdf(Y[i, 0]), atol=1e-9)


@each_map
def test_maps(name):
    density = mapped([MAPS["power"], MAPS[name]])
    rows, Y = rows_of(density, 1)
    y, stds = Y[:, 0], one_by_one(rows, "cov")[:, 0] ** 0.5
    tolerance = 1e-3 if name == "table" else 1e-6
    close(rows.mean(), one_by_one(rows, "mean"), stds, tolerance)
    close(rows.std(), stds, stds, tolerance)
    close(rows.ppf(Q), one_by_one(rows, "ppf", Q), stds, 1e-5)
    assert_allclose(rows.cdf(y), [each.cdf(v) for each, v in zip(rows, y, strict=True)], atol=1e-9)
    expected = [each.logpdf([[v]])[0] for each, v in zip(rows, y, strict=True)]
    assert_allclose(rows.logpdf(y), expected, rtol=1e-9, atol=1e-8)
    heights, best = (rows.logpdf(each) for each in (rows.mode(), one_by_one(rows, "mode")))
    assert (heights >= best - 1e-9).all()
    low, high = MAPS[name].bounds
    assert_array_equal(rows.ppf([0.0, 1.0]), np.tile([low, high], (len(rows), 1)))
    assert_allclose(rows.cdf(np.tile([low, high], (len(rows), 1))), [[0.0, 1.0]] * len(rows))


@pytest.mark.parametrize(
    ("known", "free"),
    [
        (MirrorMap(-9.0, 9.0), FeatureMap()),
        (CircleMap(-9.0, 18.0), FeatureMap()),
        (CircleMap(-9.0, 18.0), MirrorMap(-9.0, None)),
        pytest.param(MirrorMap(-9.0, 9.0), CircleMap(-9.0, 18.0), marks=pytest.mark.slow),
    ],
)
def test_folding_maps(known, free):
    density = mapped([known, free], n_kernels=12)
    rows, Y = rows_of(density, 1, 4)
    y = Y[:, 0]
    for i, each in enumerate(rows):
        assert_allclose(rows.mean()[i], each.mean(), rtol=1e-9)
        assert_allclose(rows.ppf(Q)[i], each.ppf(Q), rtol=1e-5)
        assert_allclose(rows.cdf(y)[i], each.cdf(y[i]), atol=1e-9)
        assert_allclose(rows.logpdf(y)[i], each.logpdf([[y[i]]])[0], atol=1e-9)
        assert_allclose(rows.std()[i], np.sqrt(np.diag(each.cov())), rtol=1e-6)
        assert rows.logpdf(rows.mode())[i] >= each.logpdf(each.mode()[None])[0] - 1e-9
        assert abs(rows.hdr_probability(y)[i] - each.hdr_probability([[y[i]]])[0]) < 0.06
    assert rows.sample(7, random_state=0).shape == (4, 7, 1)
    assert len(rows.hdr_intervals(0.9)) == 4


@each_map
def test_regions_are_level_sets(name):
    """The mass of the intervals is the confidence, and their ends have one density."""
    rows, Y = rows_of(mapped([MAPS["none"], MAPS[name]]), 1)
    levels = rows.hdr_level(0.9)
    for i, intervals in enumerate(rows.hdr_intervals(0.9)):
        each = rows[i]
        low, high = intervals.T
        assert_allclose((each.cdf(high) - each.cdf(low)).sum(), 0.9, atol=1e-4)
        assert_allclose(each.logpdf(intervals.reshape(-1, 1)), levels[i], atol=1e-2)
        gaps = np.append(0.5 * (high[:-1] + low[1:]), high[-1] + 0.1)
        assert (each.logpdf(gaps[:, None]) < levels[i]).all()
        drawn = each.hdr_probability(Y[i][None], 20_000)[0]
        assert abs(rows.hdr_probability(Y)[i] - drawn) < 0.02
    assert_allclose(rows.hdr_size(0.9), [np.ptp(e, axis=1).sum() for e in rows.hdr_intervals(0.9)])


def test_narrow_kernels_beside_wide_ones():
    """A grid is fine where narrow kernels are, and no finer elsewhere."""
    weights, stds = [0.5, 0.3, 0.2], np.array([1e-3, 1.0, 1e4])
    covariances = [np.diag([1.0, std**2]) for std in stds]
    density = KernelMixture.from_covariances(weights, [[0, 0], [0, 5], [0, 0]], covariances)
    rows = density.conditional({0: [0.0, 0.5]})
    found = rows.hdr_intervals(0.75)[0]
    assert len(found) == 2
    assert_allclose(np.diff(rows[0].cdf(found.ravel()))[::2].sum(), 0.75, atol=1e-4)
    assert_allclose(rows.mode(), 0.0, atol=1e-8)
    found = rows.hdr_probability([3e-3, 5.0])
    drawn = [rows[0].hdr_probability([[3e-3]], 10**5), rows[1].hdr_probability([[5.0]], 10**5)]
    assert_allclose(found, np.ravel(drawn), atol=0.01)


@pytest.mark.parametrize("name", ["none", "probit"])
def test_ranked_probability_scores_are_integrals(name):
    rows, Y = rows_of(mapped([MAPS["none"], MAPS[name]]), 1, 4)
    for each, y, found in zip(rows, Y[:, 0], rows.crps(Y), strict=True):
        below = quad(lambda t: each.cdf(t) ** 2, -29.99, y, limit=300)[0]  # noqa: B023
        above = quad(lambda t: each.sf(t) ** 2, y, 29.99, limit=300)[0]  # noqa: B023
        assert_allclose(found, below + above, rtol=2e-4)


def test_several_features():
    density = mapped([MAPS["none"], MAPS["power"], MAPS["none"]])
    rows, Y = rows_of(density, 1)
    for i, each in enumerate(rows):
        assert_allclose(rows.mean()[i], each.mean(), rtol=1e-5, atol=1e-5)
        assert_allclose(rows.logpdf(Y)[i], each.logpdf(Y[i][None])[0], atol=1e-8)
        assert abs(rows.hdr_probability(Y)[i] - each.hdr_probability(Y[i][None])[0]) < 0.08
        assert abs(rows.hdr_level(0.5)[i] - each.hdr_level(0.5)) < 0.2
    several = np.stack([Y, Y + 1.0], axis=1)
    assert_allclose(rows.logpdf(several), np.stack([rows.logpdf(Y), rows.logpdf(Y + 1.0)], axis=1))
    for question in (rows.cdf, rows.crps):
        with pytest.raises(ValueError, match="is for one feature, but 2 are not given"):
            question(Y)


@pytest.mark.parametrize("maps", [["none", "none", "none"], ["none", "power", "probit"]])
def test_modes_of_several_features(maps):
    rows, _ = rows_of(mapped([MAPS[name] for name in maps]), 1)
    found = rows.logpdf(rows.mode())
    drawn = rows.logpdf(rows.sample(300, random_state=0))
    assert (found >= drawn.max(axis=1) - 1e-9).all()
    best = rows.logpdf(one_by_one(rows, "mode"))
    assert (found >= best - 1e-9).mean() > 0.9


def test_the_size_of_a_region_of_two_features():
    unit = KernelMixture.from_covariances([1.0], np.zeros((1, 3)), np.eye(3))
    sizes = unit.conditional({0: np.zeros(20)}).hdr_size(0.9, n_draws=4000)
    assert_allclose(sizes, 2 * np.pi * np.log(10), rtol=0.1)  # a disk


@pytest.mark.parametrize("n_free", [1, 2])
def test_draws_follow_the_density(n_free):
    density = fitted("auto", 3).density_
    x = samples(3)[5, : 3 - n_free]
    rows = density.conditional({j: np.repeat(value, 20) for j, value in enumerate(x)})
    drawn = rows.sample(200, random_state=0)
    assert drawn.shape == (20, 200, n_free)
    for j in range(n_free):
        assert kstest(drawn[:, :, j].ravel(), rows[0].marginal(j).cdf).pvalue > 1e-3
    assert len(np.unique(drawn[:, :, 0])) == 4000
    assert_array_equal(drawn, rows.sample(200, random_state=0))
    assert_array_equal(drawn, rows.sample(200, random_state=0, n_jobs=2))


def test_blocks_and_threads_change_nothing(monkeypatch):
    rows, Y = rows_of(fitted("parzen", 3).density_, 2, 30)
    questions = {
        "mean": (), "std": (), "mode": (), "ppf": (Q,), "cdf": (Y[:, 0],),
        "hdr_level": (0.9,), "hdr_probability": (Y,), "crps": (Y,),
    }  # fmt: skip
    before = {name: getattr(rows, name)(*given) for name, given in questions.items()}
    monkeypatch.setattr(conditionals, "_BLOCK_ROWS", 7)
    for name, arguments in questions.items():
        found = getattr(rows, name)(*arguments, n_jobs=2)
        assert_allclose(found, before[name], rtol=1e-12, atol=1e-12)


def test_numbers_are_broadcast_and_columns_may_be_series():
    density = AutoROME().fit(pd.DataFrame(samples(3), columns=[*"xyz"])).density_
    columns = pd.DataFrame({"x": [0.0, 1.0, 2.0]})
    rows = density.conditional({"x": columns["x"], "z": 0.5})
    assert isinstance(rows, Conditionals)
    assert rows.feature_names == ("y",)
    assert repr(rows) == "Conditionals(n_rows=3, n_features=1)"
    for i, each in enumerate(rows):
        expected = density.conditional({"x": float(i), "z": 0.5})
        assert_array_equal(each.means, expected.means)
        assert_array_equal(each.weights, expected.weights)


@pytest.mark.parametrize(
    ("known", "error", "message"),
    [
        ({0: [1.0, 2.0], 1: [1.0]}, ValueError, r"columns must have one length, got \[1, 2\]"),
        ({0: [1.0, np.nan]}, ValueError, r"given\[0\] must be finite, got nan in row 1"),
        ({0: [[1.0]]}, ValueError, r"given\[0\] must have shape"),
        ({0: []}, ValueError, r"given\[0\] must have shape"),
        ({0: ["a"]}, TypeError, r"given\[0\] must be an array of numbers"),
        ({0: [0.0, 1e300, 0.0]}, ValueError, "given: the density .* in row 1 is zero, even as a"),
    ],
)
def test_columns_that_are_none(known, error, message):
    with pytest.raises(error, match=message):
        fitted("rome", 3).density_.conditional(known)


def test_values_outside_of_the_support():
    density = mapped([MAPS["log"], MAPS["none"]])
    with pytest.raises(ValueError, match="given: row 2 has a value outside of the support"):
        density.conditional({0: [0.0, 1.0, -31.0]})


@pytest.mark.parametrize(
    ("question", "arguments", "message"),
    [
        ("logpdf", ([0.0],), r"Y must have shape \(3, 1\) or \(3, n_points, 1\), got \(1, 1\)"),
        ("logpdf", ([0.0, np.inf, 0.0],), "Y must be finite"),
        ("logpdf", ([0.0, np.nan, 0.0],), "Y must not be NaN"),
        ("cdf", (0.0,), r"y must have shape \(3,\) or \(3, n_values\)"),
        ("cdf", ([0.0, np.nan, 0.0],), "y must not be NaN"),
        ("ppf", (1.5,), "q must be probabilities"),
        ("ppf", ([[0.5]],), "q must be a number"),
        ("hdr_level", (1.0,), "confidence must lie between 0 and 1"),
        ("sample", (-1,), "n_samples must be at least 0"),
    ],
)
def test_bad_arguments(question, arguments, message):
    rows = fitted("kde").density_.conditional({0: [0.0, 1.0, 2.0]})
    with pytest.raises(ValueError, match=message):
        getattr(rows, question)(*arguments)


def test_kernels_that_are_narrower_than_floats():
    """Grids end, however large the means are beside the standard deviations."""
    density = KernelMixture.from_covariances([1.0], [[0.0, 1e9]], np.diag([1.0, 1e-16]))
    rows = density.conditional({0: [0.0, 1.0]})
    assert_array_equal(rows.mode(), 1e9)


def test_the_far_tails_of_log_densities():
    rows = fitted("rome").density_.conditional({0: [0.0, 1e4]})
    for i, each in enumerate(rows):
        expected = each.logpdf([[500.0]])[0]
        assert_allclose(rows.logpdf([500.0, 500.0])[i], expected, rtol=1e-9)
