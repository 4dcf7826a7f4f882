"""Scales of features, against all pairs of samples."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from sevenhills.clustering import scaling
from sevenhills.clustering.scaling import feature_scales

from ..strategies import awkward, repeats_of, wild_weights

KINDS = ["auto", "std"]
each_kind = pytest.mark.parametrize("kind", KINDS)


def plain_scale(x, weights=None):
    """The scale of a feature, from all pairs of samples that differ."""
    weights = np.ones(len(x)) if weights is None else weights
    first, second = np.triu_indices(len(x), 1)
    differences, masses = np.abs(x[first] - x[second]), weights[first] * weights[second]
    differences, masses = differences[differences > 0], masses[differences > 0]
    if len(differences) == 0:
        return 1.0
    order = np.argsort(differences)
    sums = np.cumsum(masses[order])

    def spread(q):
        quantile = differences[order[np.searchsorted(sums, q * sums[-1] * (1 - 1e-11))]]
        return quantile / (np.sqrt(2) * norm.ppf((1 + q) / 2))

    return max(spread(0.2), spread(0.9) / 5)


@given(awkward(max_samples=60, max_features=5, twists=("repeated", "rounded", "constant")))
@example(np.zeros((1, 1)))
@example(np.array([[0.0], [1.0]]))
def test_equal_those_of_all_pairs(X):
    assert_allclose(feature_scales(X), [plain_scale(x) for x in X.T], rtol=1e-12)


@given(wild_weights(min_size=2), st.integers(0, 2**32 - 1))
def test_weights_are_those_of_all_pairs(weights, seed):
    x = np.random.RandomState(seed).randint(9, size=len(weights)) ** 2.0
    if np.ptp(np.log(weights)) < 10:  # else pairs of light samples are lost in rounding
        expected = plain_scale(x, weights / weights.sum())
        assert_allclose(feature_scales(x[:, None], weights), [expected], rtol=1e-12)
    found = feature_scales(x[:, None], weights)
    assert ((found > 0) & np.isfinite(found)).all()


@each_kind
@given(X=awkward(max_samples=60), seed=st.integers(0, 99))
def test_weights_are_repetitions(kind, X, seed):
    weights = repeats_of(len(X), seed)
    repeated = feature_scales(np.repeat(X, weights, axis=0), kind=kind)
    assert_allclose(feature_scales(X, 1.0 * weights, kind), repeated, rtol=1e-12)


@each_kind
@given(X=awkward(twists=("repeated", "outliers", "tiny", "huge", "shifted")))
def test_order_of_rows_does_not_matter(kind, X):
    order = np.random.RandomState(0).permutation(len(X))
    expected = feature_scales(X, kind=kind)
    assert ((expected > 0) & np.isfinite(expected)).all()
    assert_allclose(feature_scales(X[order], kind=kind), expected, rtol=1e-12)


@each_kind
@given(
    X=awkward(twists=("repeated", "outliers", "constant")),
    factor=st.sampled_from([1e-6, 1e-3, 0.7, 3e5, 1e40]),
)
def test_the_unit_of_a_feature_is_that_of_its_scale(kind, X, factor):
    is_constant = np.ptp(X, axis=0) == 0
    expected = np.where(is_constant, 1.0, factor * feature_scales(X, kind=kind))
    assert_allclose(feature_scales(factor * X, kind=kind), expected, rtol=1e-9)


def test_normal_features_have_their_standard_deviation():
    X = np.random.default_rng(0).normal(size=(4000, 3)) * [1e-3, 1.0, 1e3]
    for kind in KINDS:
        assert_allclose(feature_scales(X, kind=kind), [1e-3, 1.0, 1e3], rtol=0.05)


def test_the_distance_between_clusters_does_not_matter():
    rng = np.random.default_rng(0)
    x, clusters = rng.normal(size=(2000, 1)), rng.integers(2, size=(2000, 1))
    near, far = (feature_scales(x + gap * clusters) for gap in (10.0, 15.0))
    assert_allclose(far, near, rtol=1e-12)
    assert near < 2.5


def test_almost_equal_values_do_not_make_a_tiny_scale():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000) * np.where(np.arange(1000) < 600, 1e-6, 1.0)
    assert feature_scales(x[:, None]) > 0.1


@each_kind
@pytest.mark.parametrize(
    "x",
    [
        np.array([1e300, -1e300, 0.0]) / 1e12,
        np.array([0.0, 5e-324, 1e-310, 1.0]),
        np.append(np.random.default_rng(0).normal(size=200), 1e200),
        np.append(1e-150 * np.random.default_rng(0).normal(size=200), 1e200),
        np.append(np.zeros(200), [1e280, 5e-324]),
        np.append(1e-300, 1e-300 + 1e-280 * np.arange(50)),
        np.random.default_rng(0).standard_cauchy(10_000),
        1e9 + np.arange(5.0),
    ],
)
def test_extreme_values(kind, x):
    (found,) = feature_scales(np.stack([x, np.arange(len(x))], axis=1), kind=kind)[:1]
    assert np.isfinite(found)
    assert found > 0
    assert np.isfinite(x / found).all()


@each_kind
def test_tiny_features_beside_others(kind):
    X = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 1e-315]
    found = feature_scales(X, kind=kind)
    assert (found > 0).all()
    assert np.isfinite(X / found).all()


@each_kind
@pytest.mark.parametrize("factor", [1e300, 1e-300])
def test_spreads_beyond_kernels_are_refused(kind, factor):
    X = factor * np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(ValueError, match="beyond what kernels can represent"):
        feature_scales(X, kind=kind)


def test_rows_without_weight_do_not_count():
    X = np.random.default_rng(0).normal(size=(50, 2))
    weights = np.arange(50.0) % 3
    for kind in KINDS:
        expected = feature_scales(X[weights > 0], weights[weights > 0], kind)
        assert_array_equal(feature_scales(X, weights, kind), expected)


def test_many_values_are_thinned(monkeypatch):
    X = np.random.default_rng(0).standard_t(3, size=(5000, 2))
    expected = feature_scales(X)
    monkeypatch.setattr(scaling, "_MOST_VALUES", 700)
    thinned = feature_scales(X)
    assert (thinned != expected).all()
    assert_allclose(thinned, expected, rtol=0.01)
    weights = repeats_of(len(X), 0)
    assert_array_equal(feature_scales(X, 1.0 * weights), feature_scales(np.repeat(X, weights, 0)))
