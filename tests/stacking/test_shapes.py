"""Maps of features: the library, the choice for one Gaussian, and the choice by held-out rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from sevenhills.clustering import Points
from sevenhills.density import FeatureMap, TableMap, YeoJohnson
from sevenhills.density.maps import map_columns
from sevenhills.folds import count
from sevenhills.stacking import Frame, frames_of
from sevenhills.stacking.shapes import Library, _best_map, _thinned, choose_shapes

from .cases import blobs, random_state

seeds = st.integers(0, 2**31)
#: No feature is fixed.
NONE = np.zeros(3, dtype=bool)
KINDS = ["normal", "skewed", "bounded", "heavy", "tied", "slab"]


@st.composite
def features(draw):
    """Standardized values of one feature, and weights."""
    rng = random_state(draw(seeds))
    n, kind = draw(st.integers(40, 300)), draw(st.sampled_from(KINDS))
    x = {
        "normal": rng.standard_normal(n),
        "skewed": rng.exponential(size=n),
        "bounded": rng.uniform(size=n),
        "heavy": rng.standard_cauchy(n),
        "tied": np.round(5 * rng.standard_normal(n)),
        "slab": np.maximum(rng.standard_normal(n), 0.0) + 1e-3 * rng.uniform(size=n),
    }[kind]
    weights = rng.randint(1, 4, size=n).astype(float)
    mean = np.average(x, weights=weights)
    return (x - mean) / np.sqrt(np.average((x - mean) ** 2, weights=weights)), weights


def skewed(n_samples, n_features=3, seed=0):
    rng = random_state(seed)
    return np.exp(rng.standard_normal((n_samples, n_features)) @ np.triu(np.ones(n_features)) / 2)


def maps_of(X):
    chosen = choose_shapes(X, np.ones(len(X)), np.zeros(X.shape[1], dtype=bool))
    return [FeatureMap()] * X.shape[1] if chosen is None else list(chosen.maps)


@given(features())
def test_values_and_slopes_are_those_of_the_maps(feature):
    x, weights = feature
    library = Library.from_values(x, weights, 1e-14)
    maps = [make() for make in library.maps]
    assert type(maps[0]) is FeatureMap
    assert library.dof[0] == 0
    assert_allclose(library.values[0], x, atol=1e-9)
    for each, values, log_slopes in zip(maps, library.values, library.log_slopes, strict=True):
        z = each.forward(x)
        mean = np.average(z, weights=weights)
        std = np.sqrt(np.average((z - mean) ** 2, weights=weights))
        assert_allclose(values, (z - mean) / std, rtol=1e-6, atol=1e-6)
        assert_allclose(log_slopes, each.log_slope(x) - np.log(std), rtol=1e-6, atol=1e-6)
        # Where a map is flat, its rounded values have wide preimages.
        blurred = 1e-14 * np.abs(z).max() * np.exp(-each.log_slope(x))
        assert (np.abs(each.inverse(z) - x) <= 1e-6 * (1 + np.abs(x)) + blurred).all()


@given(features())
def test_slopes_at_repeated_values_are_bounded(feature):
    x, weights = feature
    x = np.where(np.arange(len(x)) < len(x) // 2, x[0], x)
    maps = [make() for make in Library.from_values(x, weights, 1e-14).maps]
    for each in maps:
        if isinstance(each, TableMap):
            assert each.slopes.max() <= 50 * (1 + 1e-9)


def gain_of_map(z, slopes, others, weights):
    """Mean log density of a feature under the regression on others, but for a constant."""
    W = np.diag(weights)
    coefficients = np.linalg.solve(
        others.T @ W @ others + 1e-4 * weights.sum() * np.eye(others.shape[1]), others.T @ W @ z
    )
    errors = z - others @ coefficients
    variance = (weights @ errors**2 + 0.01) / weights.sum()
    return np.log(slopes) + norm(0, np.sqrt(variance)).logpdf(errors)


@given(features(), seeds)
def test_the_best_map_is_that_of_a_slow_search(feature, seed):
    x, weights = feature
    library = Library.from_values(x, weights, 1e-14)
    others = 0.5 * x[:, None] + random_state(seed).standard_normal((len(x), 2))
    scores = np.array(
        [
            gain_of_map(z, np.exp(slopes), others, weights)
            for z, slopes in zip(library.values, library.log_slopes, strict=True)
        ]
    )
    apart, total = scores - scores[0], weights.sum()
    gains = apart @ weights / total
    errors = np.sqrt((apart - gains[:, None]) ** 2 @ weights) / total
    gains = gains - library.dof / total
    allowed = gains > 2 * errors
    expected = int(np.argmax(np.where(allowed, gains, 0.0)))
    found = _best_map(library, weights, list(others.T))
    assert_allclose(np.where(allowed, gains, 0.0)[found], max(0.0, gains[expected]), atol=1e-9)


def test_skewed_features_are_mapped_and_normal_ones_are_not():
    X = np.hstack([skewed(400, 2), random_state(1).standard_normal((400, 2))])
    kinds = [type(each) for each in maps_of(X)]
    assert FeatureMap not in kinds[:2]
    assert kinds[2:] == [FeatureMap] * 2


@pytest.mark.parametrize("n_samples", [35, 100, 1000])
@pytest.mark.parametrize("n_features", [1, 3, 8])
def test_gaussians_are_not_mapped(n_samples, n_features):
    rng = random_state(n_samples)
    X = rng.standard_normal((n_samples, n_features)) @ rng.standard_normal((n_features,) * 2)
    assert maps_of(X) == [FeatureMap()] * n_features


@pytest.mark.parametrize("sizes", [(40, 30), (30, 30, 30, 30), (200, 100, 50)])
@pytest.mark.parametrize("n_features", [1, 2, 6])
def test_clusters_are_not_mapped_into_one(sizes, n_features):
    X, _ = blobs(sizes, apart=20.0, n_features=n_features)
    assert maps_of(X) == [FeatureMap()] * n_features


@pytest.mark.parametrize("noise", [1e-4, 1e-2])
def test_near_copies_are_not_bent_apart(noise):
    """Their relation is worth more than the skewness of each."""
    rng = random_state(0)
    x = np.exp(rng.standard_normal(400))
    X = np.stack([x, x + noise * rng.standard_normal(400), np.exp(rng.standard_normal(400))]).T
    kinds = [type(each) for each in maps_of(X)]
    assert kinds[:2] == [FeatureMap] * 2
    assert kinds[2] is not FeatureMap


def test_categories_are_not_mapped():
    X = np.column_stack([random_state(0).geometric(0.5, 300) ** 2.0, skewed(300)])
    assert len(np.unique(X[:, 0])) <= 12
    kinds = [type(each) for each in maps_of(X)]
    assert kinds[0] is FeatureMap
    assert FeatureMap not in kinds[1:]


def test_features_far_from_zero():
    """Knots of tables must differ in floats."""
    X = skewed(300, 2)
    X[:150, 1] = 0.5
    for maps in (maps_of(X), maps_of(X + 2.0**40)):
        assert all(isinstance(each, TableMap | YeoJohnson) for each in maps)


def test_rows_that_are_left_stand_for_all():
    weights = random_state(0).choice([0.5, 1.0, 4.0], 5000)
    rows, left = _thinned(weights, 300)
    assert len(np.unique(rows)) == len(rows) <= 300
    assert_allclose(count(left), 300)
    half = np.arange(5000) < 2500
    assert abs(left[half[rows]].sum() / 300 - weights[half].sum() / weights.sum()) < 0.01
    rows, left = _thinned(weights[:200], 300)
    assert_array_equal(rows, np.arange(200))
    assert_array_equal(left, weights[:200])


def test_frames_keep_the_spread_and_the_far_outlier():
    X = np.append(skewed(300), [[1e9, 0.0, 0.0]], axis=0)
    (frame,) = frames_of(Points.from_samples(X), NONE)
    assert_allclose(
        frame.factors, frames_of(Points.from_samples(X[:-1]), NONE)[0].factors, rtol=1e-9
    )
    far = frame.points.rows == 300
    Z = frame.points.X * frame.points.unit
    assert_allclose(Z[~far].std(axis=0), X[:-1].std(axis=0), rtol=1e-9)
    assert Z[far].max() > 100 * Z[~far].std()
    slopes = np.exp(map_columns(frame.maps, "log_slope", X[frame.points.rows]))
    assert_allclose(np.exp(frame.log_slopes), slopes * frame.factors, rtol=1e-9)


def test_a_frame_without_maps_changes_nothing():
    points = Points.from_samples(random_state(0).standard_normal((50, 2)))
    frame = Frame.identity(points)
    assert frame.points is points
    assert_array_equal(frame.steepest, 1.0)
    rows = np.ones(50, dtype=bool)
    assert frame.to_data_score(-1.5, rows) == -1.5 - 2 * np.log(points.unit)
