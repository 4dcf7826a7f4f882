import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from sevenhills import ROME, AutoROME, GaussianKDE, KernelMixture, ManifoldParzen, datasets

EPS = np.finfo(float).eps


def random_mixture(seed, n_features=2, n_groups=3, n_kernels=60, spread=5.0, ratio=1.0):
    """Kernels in groups, whose widths differ by up to a factor of ``ratio``."""
    rng = np.random.RandomState(seed)
    n_groups = min(n_groups, n_kernels)
    cuts = np.sort(rng.choice(np.arange(1, n_kernels), n_groups - 1, replace=False))
    offsets = np.concatenate([[0], cuts, [n_kernels]]).astype(int)
    home = spread * rng.standard_normal((n_groups, n_features))
    centres = rng.standard_normal((n_kernels, n_features)) + np.repeat(
        home, np.diff(offsets), axis=0
    )
    transforms = rng.standard_normal((n_groups, n_features, n_features)) + 2 * np.eye(n_features)
    transforms *= ratio ** rng.uniform(-1, 1, (n_groups, 1, 1))
    return KernelMixture(rng.dirichlet(np.ones(n_kernels)), centres, offsets, transforms)


def direct(density, x):
    """Return gradient, Hessian and how far rounding may move each, kernel by kernel."""
    groups = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
    transforms = density.transforms[groups]
    units = np.einsum("km,kmj->kj", x - density.means, transforms)
    exponents = density.log_weights + density.log_dets[groups] - 0.5 * (units**2).sum(axis=1)
    shares = softmax(exponents)
    slopes = -np.einsum("kmj,kj->km", transforms, units)
    gradient = shares @ slopes
    apart = slopes - gradient
    precision = np.einsum("k,kij,kmj->im", shares, transforms, transforms)
    hessian = np.einsum("k,ki,kj->ij", shares, apart, apart) - precision
    met = shares > 1e-20
    # Rounding moves coordinates, exponents and so shares, and what is made of them.
    moved = 64 * EPS * (np.abs(x) + np.abs(density.means)).max()
    steep = np.abs(transforms[met]).max() ** 2 * len(x)
    size, wide = np.abs(slopes[met]).max(axis=0), np.abs(apart[met]).max(axis=0)
    shifted = 1e-11 + 16 * EPS * np.abs(exponents[met]).max() + moved * size.sum()
    first = shifted * wide + 1e-11 * size + moved * steep
    scale = np.sqrt(np.diag(precision)) + wide
    second = (1e-9 + shifted) * np.outer(scale, scale) + np.outer(first, scale)
    return gradient, hessian, first, second + second.T


def assert_derivatives(density, X):
    gradients, hessians = density.grad_logpdf(X), density.hess_logpdf(X)
    for x, gradient, hessian in zip(X, gradients, hessians, strict=True):
        expected, curved, tolerance, wide = direct(density, x)
        assert (np.abs(gradient - expected) <= tolerance).all()
        assert (np.abs(hessian - curved) <= wide).all()
        assert_array_equal(hessian, hessian.T)


@given(
    st.integers(0, 10**6),
    st.integers(1, 9),
    st.sampled_from([1, 3, 25, 1000]),
    st.integers(2, 300),
    st.sampled_from([0.0, 1.0, 30.0, 1e4]),
    st.sampled_from([1.0, 10.0, 1e6]),
)
def test_equal_the_direct_sums_in_the_far_tails_too(seed, n_features, n_groups, n, spread, ratio):
    density = random_mixture(seed, n_features, n_groups, n, spread, ratio)
    rng = np.random.RandomState(seed)
    near = density.means[rng.randint(n, size=8)]
    far = rng.standard_normal((8, n_features)) * rng.choice([1e-6, 1, 10, 1e3, 1e6], size=(8, 1))
    assert_derivatives(density, np.concatenate([near, near + far]))


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1, 30]))
def test_equal_finite_differences(seed, n_features, n_groups):
    density = random_mixture(seed, n_features, n_groups, 40, spread=1.0)
    X = density.sample(6, random_state=0)
    # Central differences of the fourth order: off by h^4 and by eps / h.
    h = 1e-3
    steps = h * np.eye(n_features)

    def slope(function):
        moved = [(8.0, 1), (-8.0, -1), (-1.0, 2), (1.0, -2)]
        sums = [sum(c * function(X + k * step) for c, k in moved) for step in steps]
        return np.stack(sums, axis=1) / (12 * h)

    size = np.abs(density.transforms).max() ** 2
    assert_allclose(density.grad_logpdf(X), slope(density.logpdf), rtol=1e-6, atol=1e-7 * size**2)
    assert_allclose(
        density.hess_logpdf(X), slope(density.grad_logpdf), rtol=1e-6, atol=1e-7 * size**3
    )


@pytest.mark.parametrize("estimator", [ROME(), AutoROME(), ManifoldParzen(), GaussianKDE()])
@pytest.mark.parametrize(("name", "n"), [("aniso", 400), ("two_moons", 300), ("trajectories", 150)])
def test_of_fits(estimator, name, n):
    X = datasets.load(name).split(run=0)[0]
    density = estimator.fit(X[:n]).density_
    near, far = X[n : n + 10], X[n : n + 10] + 3 * np.ptp(X, axis=0)
    assert_derivatives(density, np.concatenate([near, far]))


@pytest.mark.parametrize("n_groups", [2, 40])
@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1e12])
def test_units(unit, n_groups):
    density = random_mixture(0, 3, n_groups, 80)
    X = density.sample(30, random_state=0)
    units = np.array([unit, 1.0, 1 / unit])
    scaled = density.affine(np.diag(units), np.zeros(3))
    gradients, hessians = density.grad_logpdf(X), density.hess_logpdf(X)
    assert_allclose(scaled.grad_logpdf(X * units) * units, gradients, rtol=1e-8, atol=1e-8)
    found = scaled.hess_logpdf(X * units) * np.outer(units, units)
    assert_allclose(found, hessians, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n_groups", [2, 40])
def test_an_offset_loses_no_more_than_the_data_do(n_groups):
    density = random_mixture(0, 2, n_groups, 80)
    X = density.sample(40, random_state=0)
    moved = KernelMixture(density.weights, density.means + 1e6, density.offsets, density.transforms)
    assert_allclose(moved.grad_logpdf(X + 1e6), density.grad_logpdf(X), atol=1e-6)
    assert_allclose(moved.hess_logpdf(X + 1e6), density.hess_logpdf(X), atol=1e-6)


def test_of_one_kernel_they_are_linear_and_constant_at_any_distance():
    transform = np.array([[2.0, 1.0], [0.0, 0.5]])
    density = KernelMixture([1.0], [[3.0, -1.0]], [0, 1], [transform])
    precision = transform @ transform.T
    X = 10.0 ** np.arange(0, 300, 10)[:, None] * [1.0, -0.3]
    expected = (density.means[0] - X) @ precision
    assert_allclose(density.grad_logpdf(X), expected, rtol=1e-13)
    assert_allclose(density.hess_logpdf(X), np.tile(-precision, (len(X), 1, 1)), rtol=1e-13)


@pytest.mark.parametrize("n_groups", [1, 40])
def test_where_the_logarithm_overflows_the_nearest_kernel_counts(n_groups):
    transforms = np.tile(np.eye(2), (n_groups, 1, 1))
    centres = np.stack([np.arange(40.0), np.zeros(40)], axis=1)
    offsets = [0, 40] if n_groups == 1 else np.arange(41)
    density = KernelMixture(np.full(40, 1 / 40), centres, offsets, transforms)
    X = np.array([[1e200, 0.0], [-1e200, 3.0], [0.0, 1e308], [1e200, 1e200]])
    assert_array_equal(density.logpdf(X), -np.inf)
    assert_allclose(density.grad_logpdf(X), -X, rtol=1e-12, atol=40)
    found = density.hess_logpdf(X)
    assert np.isfinite(found).all()
    assert_allclose(found[:2], np.tile(-np.eye(2), (2, 1, 1)), atol=1e-9)
    beyond = density.grad_logpdf([[1.7e308, -1.7e308], [0.0, 0.0]])
    assert np.isfinite(beyond[1]).all()


def test_a_group_that_overflows_does_not_hide_another():
    narrow, wide = np.diag([1e200, 1e200]), np.eye(2)
    density = KernelMixture([0.5, 0.5], [[0.0, 0.0], [5.0, 5.0]], [0, 1, 2], [narrow, wide])
    assert_allclose(density.grad_logpdf([[4.0, 5.0], [1e150, 0.0]]), [[1.0, 0.0], [-1e150, 5.0]])
    many = KernelMixture(
        np.full(40, 1 / 40), np.tile([[0.0, 0.0], [5.0, 5.0]], (20, 1)), np.arange(41),
        np.tile([narrow, wide], (20, 1, 1)),
    )  # fmt: skip
    assert_allclose(many.grad_logpdf([[4.0, 5.0]]), [[1.0, 0.0]])
    assert_allclose(many.hess_logpdf([[4.0, 5.0]])[0], -np.eye(2))


def test_a_narrow_kernel_is_not_negligible_where_it_is_steep():
    """Its share may be 1e-20, its precision 1e24."""
    density = KernelMixture([0.5, 0.5], [[0.0], [0.0]], [0, 1, 2], [[[1e12]], [[1.0]]])
    x = np.array([[12.0], [12.5], [13.0], [14.0]]) * 1e-12
    assert_derivatives(density, x)


@pytest.mark.parametrize("n_groups", [1, 40])
def test_weights_of_zero_and_below_all_floats(n_groups):
    rng = np.random.RandomState(0)
    centres = rng.standard_normal((80, 2))
    offsets = np.linspace(0, 80, n_groups + 1).astype(int)
    transforms = rng.standard_normal((n_groups, 2, 2)) + 2 * np.eye(2)
    log_weights = np.where(np.arange(80) < 40, -800.0, -np.log(39))
    log_weights[-1] = -np.inf
    density = KernelMixture(
        np.exp(log_weights), centres, offsets, transforms, log_weights=log_weights
    )
    assert (density.weights == 0).sum() == 41
    assert_derivatives(density, np.concatenate([centres[:20], 100 * centres[:20]]))


def test_calls_may_be_split_and_threaded():
    density = random_mixture(0, 3, 4, 200)
    X = density.sample(1500, random_state=0)
    for question in (density.grad_logpdf, density.hess_logpdf):
        whole = question(X)
        assert_allclose(whole, np.concatenate([question(X[:700]), question(X[700:])]), rtol=1e-12)
        assert_array_equal(whole, question(X, n_jobs=3))


def test_large_and_small_groups_together():
    large, small = random_mixture(0, 3, 2, 150), random_mixture(1, 3, 40, 60)
    both = KernelMixture.merge([large, small], [0.6, 0.4])
    X = both.sample(40, random_state=0)
    assert_derivatives(both, np.concatenate([X, 50 * X]))
    assert_allclose(
        pickle.loads(pickle.dumps(both)).grad_logpdf(X), both.grad_logpdf(X), rtol=1e-14
    )


def test_far_queries_in_threads_give_no_warning():
    density = random_mixture(0)
    X = np.tile([[1e308, -1e308], [0.0, 0.0]], (300, 1))
    assert np.isfinite(density.grad_logpdf(X, n_jobs=2)[1::2]).all()
    assert np.isfinite(density.hess_logpdf(X, n_jobs=2)[1::2]).all()


def test_bad_queries_are_refused():
    density = random_mixture(0)
    for question in (density.grad_logpdf, density.hess_logpdf):
        with pytest.raises(ValueError, match="X has 3 features, but the density has 2"):
            question(np.zeros((1, 3)))
        with pytest.raises(ValueError, match="NaN"):
            question([[np.nan, 0.0]])
