"""Covariances of weighted samples, and the rule that shrinks them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import ROME, datasets
from sevenhills.covariance import (
    Ellipse,
    Pooled,
    left_out_log_density,
    shrink,
    shrunk_ellipse,
    weighted_moments,
)
from sevenhills.whitening import Grouping

from .oracles import log_density, shrunk_covariances
from .strategies import awkward, repeats_of, samples, wild_weights

seeds = st.integers(0, 2**31)


def random_state(seed=0):
    return np.random.RandomState(seed)


def clusters_of(rng, sizes, n_features, scale=3.0):
    """Clusters of unlike shapes, and weights."""
    parts = [
        scale**g * rng.standard_normal((n, n_features)) @ rng.standard_normal((n_features,) * 2)
        for g, n in enumerate(sizes)
    ]
    return parts, [rng.choice([1.0, 1.0, 2.0, 0.7], len(each)) for each in parts]


def shrunk_by_us(parts, weights, clusters, min_std=0.0):
    labels = np.repeat(np.arange(len(parts)), [len(each) for each in parts])
    grouping = Grouping.from_samples(np.concatenate(parts), labels, np.concatenate(weights))
    variances, directions = shrink(
        grouping.deviations, grouping.weights, grouping.offsets, np.array(clusters), min_std
    ).axes
    return directions * variances[:, None] @ directions.swapaxes(1, 2)


@pytest.mark.parametrize(
    ("sizes", "n_features", "clusters"),
    [
        ((6,), 4, [0]),
        ((20,), 24, [0]),
        ((3, 5), 4, [0, 1]),
        ((2, 9, 4), 5, [0, 2]),
        ((1, 7), 3, [0, 1]),
        ((30, 2), 2, [1]),
    ],
)
def test_equals_leaving_out_every_sample(sizes, n_features, clusters):
    for seed in range(2 if n_features < 10 else 1):
        parts, weights = clusters_of(np.random.RandomState(seed), sizes, n_features)
        found = shrunk_by_us(parts, weights, clusters)
        for each, expected in zip(found, shrunk_covariances(parts, weights, clusters), strict=True):
            assert_allclose(each, expected, rtol=1e-7, atol=1e-9 * np.trace(expected))


def test_blocks_of_members(monkeypatch):
    parts, weights = clusters_of(np.random.RandomState(0), (40, 9), 5)
    whole = shrunk_by_us(parts, weights, [0, 1])
    monkeypatch.setattr("sevenhills.covariance._BLOCK_ROWS", 7)
    assert_allclose(shrunk_by_us(parts, weights, [0, 1]), whole, rtol=1e-9)


def test_few_samples_lean_on_the_others_and_many_do_not():
    rng = np.random.RandomState(0)
    few, many = rng.standard_normal((6, 5)), rng.standard_normal((4000, 5)) * [1, 2, 3, 4, 5]
    weights = [np.ones(6), np.ones(4000)]
    found = shrunk_by_us([few, many], weights, [0, 1])
    assert_allclose(found[1], np.cov(many.T), atol=0.02 * found[1].max())
    assert np.linalg.cond(found[0]) < 100


# In the estimator


def test_auto_leaves_clusters_of_enough_samples_alone():
    X = datasets.load("aniso").sample(300, random_state=0)
    plain, auto = ROME().fit(X), ROME(shrinkage="auto").fit(X)
    assert_array_equal(auto.density_.transforms, plain.density_.transforms)
    always = ROME(shrinkage="always").fit(X)
    assert np.abs(always.density_.transforms - plain.density_.transforms).max() > 0
    assert abs(always.score(X) - plain.score(X)) < 0.05


@pytest.mark.parametrize("n_samples", [20, 50, 100])
def test_held_out_walks_are_likelier(n_samples):
    """The oracle is at 50.2; without shrinkage the missing axes rest on min_std."""
    data = datasets.load("trajectories")
    test = data.sample(300, random_state=1)
    scores = {
        shrinkage: ROME(shrinkage=shrinkage).fit(data.sample(n_samples, random_state=0)).score(test)
        for shrinkage in (None, "auto")
    }
    assert scores["auto"] > 33
    assert scores["auto"] > scores[None] + 30


@pytest.mark.parametrize("density", ["kde", "gaussian", "knn", "mpw"])
def test_every_density(density):
    X = datasets.load("trajectories").sample(20, random_state=0)
    options = {"density": density, "selection": None}
    plain = ROME(**options).fit(X)
    shrunk = ROME(**options, shrinkage="auto").fit(X)
    test = datasets.load("trajectories").sample(50, random_state=1)
    assert np.isfinite(shrunk.score_samples(test)).all()
    if density in ("kde", "gaussian"):
        assert shrunk.score(test) > plain.score(test)


def test_density_is_that_of_the_covariances():
    rng = np.random.RandomState(3)
    parts, _ = clusters_of(rng, (9, 12), 8, scale=1.0)
    parts[1] += 40.0
    X, labels = np.concatenate(parts), np.repeat([0, 1], [9, 12])
    model = ROME(shrinkage="auto", min_std=1e-9).fit(X, labels=labels)
    covariances = shrunk_covariances(parts, [np.ones(9), np.ones(12)], [0, 1])
    for g, (n, expected) in enumerate(zip((9, 12), covariances, strict=True)):
        T = model.density_.transforms[g]
        width = ((8 + 2) / 4 * n) ** (-2 / (8 + 4))
        assert_allclose(np.linalg.inv(T @ T.T), width * expected, rtol=1e-5, atol=1e-7)
    assert_allclose(model.score_samples(X), log_density(model.density_, X), rtol=1e-9)


def test_noise_has_the_covariance_in_common():
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.standard_normal((8, 6)), 30 + rng.standard_normal((3, 6))])
    labels = np.repeat([0, -1], [8, 3])
    model = ROME(shrinkage="auto").fit(X, labels=labels)
    own, noise = model.density_.transforms
    ratio = noise @ np.linalg.inv(own)
    assert_allclose(ratio, ratio[0, 0] * np.eye(6), atol=1e-9)


def test_without_axes_there_is_nothing_to_shrink():
    X = datasets.load("trajectories").sample(20, random_state=0)
    for option in ("decorrelate", "normalize"):
        plain = ROME(**{option: False}).fit(X)
        shrunk = ROME(**{option: False}, shrinkage="always").fit(X)
        assert_array_equal(plain.density_.transforms, shrunk.density_.transforms)


@pytest.mark.parametrize("shrinkage", ["auto", "always"])
def test_unit_rotation_order_and_weights(shrinkage):
    rng = np.random.RandomState(0)
    X = datasets.load("trajectories").sample(30, random_state=2)
    test = datasets.load("trajectories").sample(20, random_state=3)
    expected = ROME(shrinkage=shrinkage).fit(X).score_samples(test)

    def found(X, test, **keywords):
        return ROME(shrinkage=shrinkage).fit(X, **keywords).score_samples(test)

    turn = np.linalg.qr(rng.standard_normal((24, 24)))[0]
    shifted = found(100 * X + 7, 100 * test + 7) + 24 * np.log(100)
    assert_allclose(shifted, expected, rtol=1e-8)
    assert_allclose(found(X @ turn, test @ turn), expected, rtol=1e-7)
    assert_array_equal(found(X[rng.permutation(30)], test), expected)
    weights = rng.randint(1, 4, 30)
    assert_allclose(
        found(X, test, sample_weight=weights), found(np.repeat(X, weights, axis=0), test), rtol=1e-9
    )


@given(awkward(max_samples=40, max_features=12), st.sampled_from(["auto", "always"]))
def test_any_samples_give_a_finite_density(X, shrinkage):
    if (X[0] == X).all():
        return
    model = ROME(shrinkage=shrinkage).fit(X)
    assert np.isfinite(model.score_samples(X)).all()


def test_constant_features_rest_on_min_std():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.standard_normal((10, 3)), np.full(10, 5.0)])
    model = ROME(shrinkage="auto", min_std=0.01).fit(X)
    assert np.isfinite(model.score(X))
    with pytest.raises(ValueError, match="min_std"):
        ROME(shrinkage="auto", min_std=0.0).fit(np.ones((9, 2)))


def test_bad_values():
    for value in ("never", True, 0.5):
        with pytest.raises(
            ValueError, match=r"shrinkage must be one of \[None, 'auto', 'always'\]"
        ):
            ROME(shrinkage=value).fit(np.eye(6))


# Of one cell


@given(samples(min_samples=1, max_samples=40, scales=(1e-9, 1.0, 1e9)))
def test_covariance_is_numpys(X):
    mean, scatter = weighted_moments(X, np.ones(len(X)))
    size = np.abs(X).max() + 1e-300
    assert_allclose(mean, X.mean(axis=0), atol=1e-12 * size)
    assert_allclose(scatter, np.cov(X.T, ddof=0).reshape(scatter.shape), atol=1e-12 * size**2)


@given(samples(min_samples=1, max_samples=40), seeds)
def test_covariance_of_weights_is_that_of_repeated_rows(X, seed):
    repeats = repeats_of(len(X), seed)
    mean, scatter = weighted_moments(X, repeats.astype(float))
    copies = np.repeat(X, repeats, axis=0)
    size = np.abs(X).max() + 1e-300
    assert_allclose(mean, copies.mean(axis=0), atol=1e-12 * size)
    expected = np.cov(copies.T, ddof=0).reshape(scatter.shape)
    assert_allclose(scatter, expected, atol=1e-12 * size**2)
    assert_array_equal(scatter, scatter.T)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5), wild_weights())
def test_covariance_of_equal_rows_is_exactly_zero(row, weights):
    mean, scatter = weighted_moments(np.array([row] * len(weights)), weights)
    assert_array_equal(mean, row)
    assert_array_equal(scatter, 0)


@given(seeds, st.integers(1, 5))
def test_seen_from_leads_to_the_same_coordinates(seed, n_features):
    rng = random_state(seed)
    one, other = (
        Ellipse(
            rng.standard_normal(n_features),
            rng.standard_normal((n_features, n_features)) + 4 * np.eye(n_features),
        )
        for _ in range(2)
    )
    X = rng.standard_normal((7, n_features))
    within = one.relative_to(other)
    Y = (X - other.mean) @ other.transform
    expected = (X - one.mean) @ one.transform
    assert_allclose((Y - within.mean) @ within.transform, expected, atol=1e-9)
    assert_allclose(within.log_det, one.log_det - other.log_det, atol=1e-9)
    itself = one.relative_to(one)
    assert_allclose(itself.mean, 0, atol=1e-12)
    assert_allclose(itself.transform, np.eye(n_features), atol=1e-9)


def ellipse_of(parts, weights, ridge=1e-12):
    """The ellipse of the first of some cells, and its shrinkage."""
    covariances = [weighted_moments(*each).covariance for each in zip(parts, weights, strict=True)]
    sizes = [each.sum() for each in weights]
    dof = sum(max(size - 1, 0.0) for size in sizes)
    pooled = None
    if len(parts) > 1:
        pooled = Pooled(np.tensordot(sizes, covariances, axes=1) / dof, dof)
    return shrunk_ellipse(parts[0], weights[0], ridge * np.eye(parts[0].shape[1]), pooled)


@pytest.mark.parametrize(
    ("sizes", "n_features"), [((6,), 4), ((20,), 24), ((9, 30), 4), ((3, 5), 3), ((2, 9, 4), 5)]
)
def test_an_ellipse_is_that_of_leaving_out_every_sample(sizes, n_features):
    """In features that are divided by their standard deviations in the cell."""
    parts, weights = clusters_of(random_state(len(sizes)), sizes, n_features)
    found, shrinkage = ellipse_of(parts, weights)
    stds = np.sqrt(np.diag(weighted_moments(parts[0], weights[0]).covariance))
    (expected,) = shrunk_covariances([each / stds for each in parts], weights, [0])
    expected = expected * np.outer(stds, stds)
    assert_allclose(found.covariance, expected, rtol=1e-6, atol=1e-8 * np.trace(expected))
    assert_allclose(found.mean, weighted_moments(parts[0], weights[0]).mean)
    assert 0 <= shrinkage.pooling <= 1
    assert 0 <= shrinkage.diagonal <= 1
    assert len(sizes) > 1 or shrinkage.pooling == 0


@given(seeds, st.booleans())
def test_an_ellipse_follows_the_units_of_features(seed, shared):
    rng = random_state(seed)
    parts, weights = clusters_of(rng, (12, 20) if shared else (12,), 4)
    units = 10.0 ** rng.uniform(-3, 3, size=4)
    one, other = (ellipse_of(each, weights, 0.0) for each in (parts, [X * units for X in parts]))
    assert_allclose(other[0].covariance, one[0].covariance * np.outer(units, units), rtol=1e-6)
    assert_allclose(other[1], one[1], rtol=1e-6, atol=1e-9)


@given(samples(min_samples=1, max_samples=30, max_features=4), wild_weights(30, 30), st.booleans())
def test_an_ellipse_of_any_samples_has_the_ridge(X, weights, shared):
    n_features, weights = X.shape[1], weights[: len(X)]
    ridge = 1e-3 * np.eye(n_features)
    pooled = Pooled(np.eye(n_features) + 1, 50.0) if shared else None
    found, _ = shrunk_ellipse(X, weights, ridge, pooled)
    assert np.isfinite(found.transform).all()
    assert np.linalg.eigvalsh(found.covariance).min() > 1e-3 * (1 - 1e-6)


def test_few_samples_are_shrunk_and_many_are_not():
    rng = random_state()
    mixing = rng.standard_normal((5, 5))
    found = [ellipse_of([rng.standard_normal((n, 5)) @ mixing], [np.ones(n)]) for n in (8, 5000)]
    few, many = (shrinkage.diagonal for _, shrinkage in found)
    assert few > 0.05
    assert many < 0.01


def test_leaving_out_of_samples_on_a_line_with_huge_weights():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((20, 1)) * [1.0, 0.86]
    weights = 10.0 ** rng.uniform(-12, 12, 20)
    pooled = 1e-9 * (np.cov(X.T) + 1e-6 * np.eye(2))
    assert np.isfinite(left_out_log_density(X, weights, np.arange(20), pooled)).all()
