"""Sums of kernels with covariances of their own, beside direct sums over all kernels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import KernelMixture, ManifoldParzen
from sevenhills.density.sums import LOG_2PI, TreeSums, split_by_size, sums_at
from sevenhills.kernels.mixture import NEGLIGIBLE

from ..oracles import log_density, tile_exponents
from ..strategies import samples


def scale_mixture(seed, n_features, n_shapes, n_scales, spread=3.0, unit=1.0, n_means=None):
    """Kernels of several scales for each shape, whose means are few if ``n_means`` is."""
    rng = np.random.RandomState(seed)
    centers = unit * spread * rng.standard_normal((n_means or n_shapes, n_features))
    means = centers[np.arange(n_shapes) % len(centers)].repeat(n_scales, axis=0)
    axes = np.linalg.qr(rng.standard_normal((n_shapes, n_features, n_features)))[0]
    roots = axes / np.exp(rng.uniform(-1, 1, (n_shapes, 1, n_features)))
    scales = np.exp(rng.uniform(-2, 2, n_shapes * n_scales))
    transforms = roots.repeat(n_scales, axis=0) / (unit * scales[:, None, None])
    weights = rng.dirichlet(np.ones(len(means)))
    return KernelMixture(weights, means, np.arange(len(means) + 1), transforms)


def points(density, rng, n_points=100):
    """Points from the density, and from five and from a hundred times wider."""
    own = density.sample(n_points, random_state=rng)
    middle = own.mean(axis=0)
    return np.concatenate([own, middle + 5 * (own - middle), middle + 100 * (own - middle)])


def own_sums(density, X, negligible=NEGLIGIBLE):
    """The log density by the sums for covariances of their own."""
    sums = TreeSums(density.kernels).within(negligible)
    return sums_at(sums, X) - 0.5 * density.n_features * LOG_2PI


def n_families(density):
    """How many squared distances are computed for a point."""
    return len(TreeSums(density.kernels).tree.means)


def assert_exact(density, X):
    """Equal to the direct sum but for rounding, at many points together and at one by one."""
    expected = log_density(density, X)
    assert_allclose(own_sums(density, X), expected, rtol=1e-12, atol=1e-12)
    assert_allclose(own_sums(density, X[:3]), expected[:3], rtol=1e-12, atol=1e-12)


@given(
    st.integers(0, 10**6),
    st.integers(1, 16),
    st.integers(1, 12),
    st.integers(1, 8),
    st.sampled_from([0.0, 3.0, 100.0]),
    st.integers(16, 150),
)
def test_random_families(seed, n_features, n_shapes, n_scales, spread, n_points):
    density = scale_mixture(seed, n_features, n_shapes, n_scales, spread)
    assert_exact(density, points(density, np.random.RandomState(seed), n_points))
    # Kernels at one place of a line are all concentric.
    assert n_families(density) == (1 if n_features == 1 and spread == 0 else n_shapes)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([24, 40]))
def test_many_features(seed, n_features):
    density = scale_mixture(seed, n_features, 4, 5)
    assert_exact(density, points(density, np.random.RandomState(seed)))
    assert n_families(density) == 4


@pytest.mark.parametrize("n_features", [1, 2, 5, 9])
def test_families_after_other_orders_and_maps(n_features):
    """Mapped means agree to rounding only, which decides the number of families there."""
    density = scale_mixture(0, n_features, 6, 7)
    rng = np.random.RandomState(0)
    matrix = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    matrix *= np.linspace(0.5, 2.0, n_features)
    mapped = density.affine(matrix, rng.standard_normal(n_features))
    assert_exact(mapped, points(mapped, rng))
    order = rng.permutation(density.n_kernels)
    shuffled = KernelMixture(
        density.weights[order],
        density.means[order],
        np.arange(density.n_kernels + 1),
        density.transforms[order],
    )
    assert n_families(shuffled) == 6
    assert_exact(shuffled, points(shuffled, rng))


def test_a_marginal_keeps_families():
    density = scale_mixture(0, 6, 5, 7)
    marginal = density.marginal([0, 2, 3])
    assert n_families(marginal) == 5
    assert_exact(marginal, points(marginal, np.random.RandomState(0)))


def test_shapes_of_one_mean_are_apart():
    density = scale_mixture(0, 4, 6, 3, n_means=2)
    assert n_families(density) == 6
    assert_exact(density, points(density, np.random.RandomState(0)))


@pytest.mark.parametrize("change", [1e-9, 1e-6, 0.1])
def test_nearly_proportional_covariances_are_apart(change):
    density = scale_mixture(0, 3, 1, 8)
    transforms = density.transforms.copy()
    transforms[1::2, 0] *= 1 + change
    nearly = KernelMixture(density.weights, density.means, density.offsets, transforms)
    assert n_families(nearly) == 8
    assert_exact(nearly, points(nearly, np.random.RandomState(0)))


def test_kernels_that_share_a_covariance_in_small_groups():
    rng = np.random.RandomState(0)
    means = rng.standard_normal((60, 3)).repeat(2, axis=0)
    transforms = rng.standard_normal((40, 3, 3)) + 3 * np.eye(3)
    density = KernelMixture(np.full(120, 1 / 120), means, np.arange(0, 121, 3), transforms)
    assert_exact(density, points(density, rng))


@pytest.mark.parametrize("n_features", [1, 3, 7])
@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e9, 1e150])
def test_any_unit(n_features, unit):
    density = scale_mixture(0, n_features, 5, 4, unit=unit)
    assert n_families(density) == 5
    assert_exact(density, points(density, np.random.RandomState(0)))


def test_features_of_very_different_units():
    density = scale_mixture(0, 5, 5, 4).affine(np.diag(np.logspace(-8, 8, 5)), np.zeros(5))
    assert n_families(density) == 5
    assert_exact(density, points(density, np.random.RandomState(0)))


@pytest.mark.parametrize("n_features", [1, 2, 8])
def test_ties_lattices_and_weights_of_zero(n_features):
    rng = np.random.RandomState(0)
    means = rng.randint(-2, 3, (200, n_features)).astype(float)
    scales = rng.choice([0.1, 1.0, 10.0], 200)[:, None, None]
    weights = rng.choice([0.0, 1.0, 1e-200], 200)
    transforms = np.eye(n_features) / scales
    density = KernelMixture(weights / weights.sum(), means, np.arange(201), transforms)
    assert n_families(density) == len(np.unique(means, axis=0))
    assert_exact(density, rng.randint(-4, 5, (300, n_features)).astype(float))
    assert_exact(density, np.zeros((100, n_features)))


@pytest.mark.parametrize("n_features", [1, 2, 5, 8])
def test_where_the_logarithm_overflows(n_features):
    density = scale_mixture(0, n_features, 20, 2)
    X = np.tile([[1e308], [0.0], [1e150]], (50, n_features))
    X[::3, ::2] *= -1
    found = own_sums(density, X)
    assert_array_equal(found[::3], -np.inf)
    assert_allclose(found[1::3], log_density(density, X[1::3]), rtol=1e-12)
    assert_allclose(found[2::3], log_density(density, X[2::3]), rtol=1e-12)


@pytest.mark.parametrize("negligible", [10.0, 20.0, 30.0])
def test_kernels_are_left_out_within_the_bound(negligible):
    rng = np.random.RandomState(0)
    density = scale_mixture(0, 2, 400, 1, spread=30.0)
    X = density.sample(1000, random_state=rng)
    errors = own_sums(density, X, negligible) - log_density(density, X)
    assert -density.n_kernels * np.exp(-negligible) < errors.min() < -1e-15
    assert errors.max() < 1e-12 * np.abs(log_density(density, X)).max()


def test_threads_change_nothing():
    density = scale_mixture(0, 4, 30, 4)
    X = points(density, np.random.RandomState(0), 7000)
    assert_array_equal(density.logpdf(X), density.logpdf(X, n_jobs=3))


def groups_of_kernels(seed, n_features, sizes, spread=3.0):
    """Groups of some sizes, each around a center of its own."""
    rng = np.random.RandomState(seed)
    centers = spread * rng.standard_normal((len(sizes), n_features))
    means = centers.repeat(sizes, axis=0) + rng.standard_normal((sum(sizes), n_features))
    axes = np.linalg.qr(rng.standard_normal((len(sizes), n_features, n_features)))[0]
    transforms = axes / np.exp(rng.uniform(-2, 1, (len(sizes), 1, n_features)))
    weights = rng.dirichlet(np.ones(len(means)))
    return KernelMixture(weights, means, np.append(0, np.cumsum(sizes)), transforms)


@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 3, 5, 8]),
    st.lists(st.sampled_from([1, 3, 40, 150]), min_size=1, max_size=25),
    st.sampled_from([0.0, 3.0, 100.0]),
)
def test_groups_large_and_small(seed, n_features, sizes, spread):
    density = groups_of_kernels(seed, n_features, sizes, spread)
    assert_exact(density, points(density, np.random.RandomState(seed), 70))


@pytest.mark.parametrize(
    ("n_features", "n_groups", "is_tree"), [(2, 16, False), (2, 40, True), (8, 20, False)]
)
def test_many_groups_are_in_a_tree(n_features, n_groups, is_tree):
    density = groups_of_kernels(0, n_features, [100] * n_groups)
    assert (split_by_size(density.kernels)[1] is not None) == is_tree
    X = points(density, np.random.RandomState(0), 300)
    assert_allclose(density.logpdf(X), log_density(density, X), rtol=1e-12, atol=1e-8)


@given(samples(min_samples=20, max_samples=300), st.integers(0, 10**6))
def test_awkward_means(X, seed):
    """Ties, lattices, lines and outliers, in kernels from thin to wide."""
    rng = np.random.RandomState(seed)
    width = np.median(np.abs(X - X.mean(axis=0))) or 1.0
    axes = np.linalg.qr(rng.standard_normal((len(X), X.shape[1], X.shape[1])))[0]
    transforms = axes / (width * np.exp(rng.uniform(-6, 3, (len(X), 1, X.shape[1]))))
    density = KernelMixture(np.full(len(X), 1 / len(X)), X, np.arange(len(X) + 1), transforms)
    places = np.concatenate([X, X + width * rng.standard_normal(X.shape)])
    expected = log_density(density, places)
    assert_allclose(own_sums(density, places), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_features", [1, 2, 3, 6, 24])
@pytest.mark.parametrize("thinnest", [-1.0, -12.0])
def test_boxes_bound_their_kernels(n_features, thinnest):
    rng = np.random.RandomState(0)
    mixtures = [
        scale_mixture(0, n_features, 50, 3),
        groups_of_kernels(0, n_features, [40, 1, 2, 70]),
    ]
    density = KernelMixture.merge(mixtures, [0.5, 0.5])
    stretch = np.exp(rng.uniform(thinnest, 1, (density.n_groups, n_features, 1)))
    density = KernelMixture(
        density.weights, density.means, density.offsets, density.transforms / stretch
    )
    X = points(density, rng, 20)
    bounds, exponents = tile_exponents(TreeSums(density.kernels).tree, X)
    slack = 1e-6 * (1 + np.abs(exponents))
    assert (exponents <= bounds + slack).all()
    # They are not so wide that nothing is ever left out.
    assert (bounds < bounds.max(axis=0) - NEGLIGIBLE).mean() > 0.3


@pytest.mark.parametrize("n_features", [1, 2, 3, 5])
def test_arrays_of_a_tree_have_one_layout(n_features):
    """Each layout of an argument compiles the sum once more, which takes seconds."""
    X = np.random.RandomState(0).standard_normal((60, n_features))
    tree = TreeSums(ManifoldParzen().fit(X).density_.kernels).tree
    assert all(array.flags.c_contiguous for array in tree)
