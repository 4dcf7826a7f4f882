"""Sums within a tolerance, beside direct sums over all kernels."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.chebyshev import chebvander
from numpy.testing import assert_array_equal
from scipy.special import logsumexp

from sevenhills import ROME, GaussianKDE, KernelMixture, ManifoldParzen, datasets
from sevenhills.density import engines
from sevenhills.kernels.gauss_transform import N_TERMS, translate
from sevenhills.kernels.mixture import add_exponentials

from ..densities import random_mixture
from ..oracles import log_density
from ..strategies import samples

LOW, HIGH = [1, 2, 3], [4, 6, 7, 24, 40]


def by_engine(density, X, tol=1e-8, n_jobs=None):
    """The log density by the engine for many points, however few there are."""
    constant = density.n_features / 2 * np.log(2 * np.pi)
    return density._sums.engine.sums_at(np.ascontiguousarray(X), tol, n_jobs) - constant


def n_series(density):
    """How many cells have a series."""
    return len(density._sums.engine.within(0.1).func.__self__.prepared.keys)


def assert_within(density, X, tol=1e-8):
    """Equal to the direct sum within the tolerance and the rounding of exponents."""
    found, expected = by_engine(density, X, tol), log_density(density, X)
    rounding = 1e-13 * (100 + np.abs(expected))
    wrong = np.abs(found - expected) - rounding
    assert wrong.max() <= tol, (wrong.max(), X[np.argmax(wrong)])


def queries(density, rng, n_each=40):
    """Points from the density, from ten times wider, and from a thousand widths away."""
    own = density.sample(n_each, random_state=rng)
    spread = own.std(axis=0)
    widths = np.linalg.norm(np.linalg.inv(density.transforms), axis=1).max(axis=0)
    wide = own.mean(axis=0) + 10 * (own - own.mean(axis=0))
    near = own + 3 * widths * rng.standard_normal(own.shape)
    direction = rng.standard_normal(own.shape)
    far = own + 1000 * widths * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    middle = own.mean(axis=0) + spread * rng.uniform(-6, 6, own.shape)
    return np.concatenate([own, near, wide, middle, far, density.means[:n_each]])


def kernels_at(X, width, weights=None):
    """Round kernels of one width."""
    n_samples, n_features = X.shape
    weights = np.full(n_samples, 1 / n_samples) if weights is None else weights
    return KernelMixture(weights, X, [0, n_samples], [np.eye(n_features) / width])


@pytest.fixture
def series_everywhere(monkeypatch):
    """Every cell that has a kernel gets a series; only its error says whether it will do."""
    monkeypatch.setattr(engines, "_CROWD", dict.fromkeys(LOW, 1))


@given(
    st.integers(0, 10**6),
    st.sampled_from(LOW),
    st.integers(1, 4),
    st.integers(40, 3000),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0.3, 5.0, 100.0]),
    st.sampled_from([1e-4, 1e-8, 1e-10]),
)
def test_random_mixtures_in_low_dimension(seed, n_features, n_groups, n, stretch, spread, tol):
    density = random_mixture(seed, n_features, n_groups, n, spread, stretch)
    assert_within(density, queries(density, np.random.RandomState(seed)), tol)


@settings(max_examples=20)
@given(
    st.integers(0, 10**6),
    st.sampled_from(HIGH),
    st.integers(1, 4),
    st.integers(10, 900),
    st.sampled_from([0.3, 5.0, 100.0]),
    st.sampled_from([1e-4, 1e-8, 1e-11]),
)
def test_random_mixtures_in_high_dimension(seed, n_features, n_groups, n, spread, tol):
    density = random_mixture(seed, n_features, n_groups, n, spread, 0.5)
    assert_within(density, queries(density, np.random.RandomState(seed)), tol)


@given(
    samples(min_samples=40, max_samples=1500, max_features=3, scales=(1e-6, 1.0, 1e6)),
    st.sampled_from([0.003, 0.1, 1.0, 30.0]),
    st.sampled_from([1e-6, 1e-8, 1e-9]),
)
@pytest.mark.whole
def test_awkward_samples_with_a_series_wherever_there_is_a_kernel(X, factor, tol):
    """Ties, lattices, lines and outliers, in kernels from too thin to too wide."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "_CROWD", dict.fromkeys(LOW, 1))
        density = kernels_at(X, factor * (np.median(np.abs(X - X.mean(axis=0))) or 1.0))
        assert_within(density, queries(density, np.random.RandomState(0)), tol)


@pytest.mark.parametrize("n_features", LOW)
def test_moments_are_sums_of_products_of_polynomials(n_features):
    rng = np.random.RandomState(0)
    sizes = np.array([1, 2, 3, 4, 5, 11])
    starts = np.append(0, np.cumsum(sizes))
    u = rng.uniform(-1, 1, (starts[-1], n_features))
    corners = 2.0 * rng.randint(-9, 9, (len(sizes), n_features)).repeat(sizes, axis=0)
    weights = rng.uniform(size=len(u))
    cells = engines._Cells(np.arange(len(sizes)), starts, corners + 1 + u, weights)
    basis = np.polynomial.chebyshev.chebvander(u, N_TERMS - 1)
    products = weights[:, None]
    for m in range(n_features):
        products = (products[:, :, None] * basis[:, m, None]).reshape(len(u), -1)
    expected = np.add.reduceat(products, starts[:-1])
    np.testing.assert_allclose(cells.moments().reshape(expected.shape), expected, atol=1e-13)


@pytest.mark.parametrize("size", [1, N_TERMS, N_TERMS**2])
def test_translations_are_sums_of_matrix_products(size):
    rng = np.random.RandomState(0)
    tensors = rng.standard_normal((5, N_TERMS, size))
    matrices = rng.standard_normal((3, N_TERMS, N_TERMS))
    sources = rng.randint(-1, 5, (8, 3))
    out = np.zeros((8, size, N_TERMS))
    translate(tensors, matrices, sources, out)
    moved = np.einsum("tsbk,sba->tska", tensors[sources], matrices)
    expected = (moved * (sources >= 0)[:, :, None, None]).sum(axis=1)
    np.testing.assert_allclose(out, expected, atol=1e-12)


@pytest.mark.parametrize("n_features", LOW)
def test_moments_of_cells(n_features, monkeypatch):
    """Some cells hold more kernels than are added together."""
    monkeypatch.setattr(engines, "_MOMENT_ROWS", 7)
    rng = np.random.RandomState(0)
    Z, weights = rng.standard_normal((60, n_features)), rng.uniform(size=60)
    keys = engines._cell_keys(Z)
    order = np.argsort(keys, kind="stable")
    cells = engines._Cells.from_sorted(keys[order], Z[order], weights[order])
    expected = np.zeros((len(cells.keys), *[N_TERMS] * n_features))
    for z, weight, key in zip(Z, weights, keys, strict=True):
        u = 2 * np.remainder(z / engines._SIDE, 1.0) - 1
        value = weight
        for m in range(n_features):
            value = np.multiply.outer(value, chebvander(u[m : m + 1], N_TERMS - 1)[0])
        expected[np.searchsorted(cells.keys, key)] += value
    found = cells.moments().reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_features", LOW)
def test_series_are_used_and_hold_everywhere_in_their_cells(n_features):
    rng = np.random.RandomState(0)
    density = kernels_at(rng.standard_normal((6000, n_features)), 1.0)
    assert n_series(density) >= 3**n_features
    assert_within(density, rng.uniform(-4, 4, (800, n_features)))
    corners = np.stack(np.meshgrid(*[np.arange(-4.0, 5.0)] * n_features), axis=-1)
    assert_within(density, corners.reshape(-1, n_features))


@pytest.mark.parametrize(("estimator", "name"), [(ROME, "varied"), (GaussianKDE, "two_moons")])
def test_fits(name, estimator):
    density = estimator().fit(datasets.load(name).sample(4000, random_state=0)).density_
    assert n_series(density) > 0
    assert_within(density, queries(density, np.random.RandomState(0), 150))


@pytest.mark.parametrize("n_features", LOW)
def test_two_tight_clusters_seen_from_where_they_are_equally_far(n_features, series_everywhere):
    """No polynomial follows the sum where it turns from one cluster to the other."""
    rng = np.random.RandomState(0)
    X = 1e-3 * rng.standard_normal((600, n_features))
    for apart in (2.0, 9.0, 20.0, 60.0):
        X[:300, 0] += apart
        density = kernels_at(X, 1.0)
        line = np.zeros((200, n_features))
        line[:, 0] = np.linspace(-15, apart + 15, 200)
        assert_within(density, line)
        X[:300, 0] -= apart


@pytest.mark.parametrize("n_features", LOW)
def test_weights_of_all_sizes(n_features, series_everywhere):
    """Some are zero, some too small for a float; heavy kernels stand beside light ones."""
    rng = np.random.RandomState(0)
    n_kernels = 900 // n_features**2
    X = 3 * rng.standard_normal((n_kernels, n_features))
    log_weights = rng.choice([0.0, -20.0, -100.0, -800.0, -3000.0, -np.inf], n_kernels)
    log_weights -= np.log(np.exp(log_weights).sum())
    density = KernelMixture(
        np.exp(log_weights),
        X,
        [0, 50, n_kernels],
        [np.eye(n_features), 3 * np.eye(n_features)],
        log_weights=log_weights,
    )
    assert_within(density, queries(density, rng))
    assert_within(density, 40 * rng.standard_normal((200, n_features)))


def test_a_group_without_any_weight_is_left_out():
    weights = np.append(np.zeros(50), np.full(50, 0.02))
    X = np.random.RandomState(0).standard_normal((100, 2))
    density = KernelMixture(weights, X, [0, 50, 100], [np.eye(2), 2 * np.eye(2)])
    assert_within(density, X)


@pytest.mark.parametrize("n_features", [1, 2, 3, 5, 12])
def test_groups_of_very_different_widths(n_features):
    rng = np.random.RandomState(0)
    widths = np.array([1e-9, 1e-3, 1.0, 1e6])
    X = np.repeat(widths, 500)[:, None] * rng.standard_normal((2000, n_features))
    transforms = np.eye(n_features) / (0.3 * widths[:, None, None])
    density = KernelMixture(np.full(2000, 1 / 2000), X, np.arange(0, 2001, 500), transforms)
    for width in widths:
        assert_within(density, width * rng.standard_normal((60, n_features)))


@pytest.mark.parametrize("n_features", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e9, 1e150])
def test_any_unit(n_features, unit):
    rng = np.random.RandomState(0)
    density = kernels_at(unit * rng.standard_normal((1500, n_features)), 0.3 * unit)
    assert_within(density, queries(density, rng))


@pytest.mark.parametrize("n_features", [1, 2, 12])
def test_an_offset_loses_no_more_than_the_data_do(n_features):
    rng = np.random.RandomState(0)
    density = kernels_at(2.0**30 + rng.standard_normal((3000, n_features)), 0.3)
    assert_within(density, 2.0**30 + 2 * rng.standard_normal((200, n_features)))


@pytest.mark.parametrize("n_features", LOW)
def test_outliers_beyond_the_last_cell(n_features, series_everywhere):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((900, n_features))
    X[:5] *= 1e9
    X[5:200] += engines._N_SIDE - 2 * (engines._EDGE + 10) * rng.uniform(size=(195, 1))
    density = kernels_at(X, 1.0)
    assert_within(density, X)
    assert_within(density, X + rng.standard_normal(X.shape))


@pytest.mark.parametrize("tol", [1e-8, 1e-3])
def test_kernels_of_their_own(tol):
    X = datasets.load("aniso").sample(400, random_state=0)
    density = ManifoldParzen().fit(X).density_
    assert_within(density, queries(density, np.random.RandomState(0)), tol)
    both = KernelMixture.merge([density, kernels_at(X, 0.3)], [0.3, 0.7])
    assert_within(both, queries(both, np.random.RandomState(0)))


@pytest.mark.parametrize("tol", [1e-8, 1e-3, 0.1, 1e9])
def test_far_tiles_are_left_out_within_the_tolerance(tol):
    rng = np.random.RandomState(0)
    density = kernels_at(rng.standard_normal((4000, 4)), 0.1)
    X = rng.standard_normal((200, 4))
    assert_within(density, X, tol)
    assert (by_engine(density, X, tol) != by_engine(density, X, 1e-20)).any()


@given(
    samples(min_samples=1, max_samples=300, max_features=7, scales=(1e-6, 1.0, 1e6)),
    st.sampled_from([0.003, 0.1, 1.0, 30.0]),
    st.integers(1, 5),
)
def test_direct_sums_of_awkward_samples(X, factor, n_groups):
    """Ties, lattices, lines and outliers, far away and near, in tiles that are not full."""
    width = factor * (np.median(np.abs(X - X.mean(axis=0))) or 1.0)
    offsets = np.unique(np.linspace(0, len(X), n_groups + 1).astype(int))
    transforms = np.eye(X.shape[1]) / width * np.arange(1, len(offsets))[:, None, None]
    density = KernelMixture(np.full(len(X), 1 / len(X)), X, offsets, transforms)
    rows = queries(density, np.random.RandomState(0))
    expected = log_density(density, rows)
    # Coordinates are in widths from the middle of a group, and lose digits with its extent.
    digits = 1e-13 * (100 + np.abs(expected)) + 1e-14 * n_groups * np.ptp(X) / width
    for most in (0, 2**30):  # pairs that are summed without leaving tiles out
        with mock.patch("sevenhills.density.sums._FEW_SHARED", most):
            assert (np.abs(density.logpdf(rows) - expected) <= digits).all()


def test_series_are_made_only_where_they_are_cheaper():
    rng = np.random.RandomState(0)
    scattered = kernels_at(rng.uniform(0, 300, (9000, 3)), 1.0)
    assert scattered._sums._costs.is_near(10**6)
    dense = kernels_at(rng.standard_normal((9000, 3)), 1.0)
    assert dense._sums._costs.is_near(10)
    assert not dense._sums._costs.is_near(10**6)
    assert dense._sums._costs.n_series == n_series(dense)
    X = scattered.sample(4000, random_state=0)
    found = scattered.logpdf(X)
    assert "engine" not in vars(scattered._sums)
    np.testing.assert_allclose(found, log_density(scattered, X), atol=1e-8, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_exponentials_are_added_whatever_their_sizes(seed):
    rng = np.random.RandomState(seed)
    sums = np.stack([np.full(30, -np.inf), np.zeros(30)])
    exponents = []
    for offset in rng.choice([-5000.0, -700.0, -40.0, 0.0, 30.0, 700.0, 5000.0], 12):
        products, shifts = 5 * rng.standard_normal((30, 17)), rng.standard_normal(17) + offset
        shifts[rng.randint(17)] = -np.inf
        halves = rng.uniform(0, 9, 30)
        exponents.append(products + shifts - halves[:, None])
        bounds = exponents[-1].max(axis=1) + rng.uniform(0, 100, 30)
        add_exponentials(products, halves, shifts, bounds, 40.0, sums)
    expected = logsumexp(np.concatenate(exponents, axis=1), axis=1)
    np.testing.assert_allclose(sums[0] + np.log(sums[1]), expected, rtol=1e-15, atol=1e-11)


@pytest.mark.parametrize("n_features", [2, 5, 12])
def test_neither_threads_nor_parts_matter(n_features):
    density = random_mixture(0, n_features, 3, 3000, 3.0)
    X = queries(density, np.random.RandomState(0), 1500)
    whole = by_engine(density, X)
    threaded = by_engine(density, X, n_jobs=3)
    parts = np.concatenate([by_engine(density, part) for part in np.array_split(X, 7)])
    single = np.concatenate([by_engine(density, x[None]) for x in X[::100]])
    rounding = 1e-12 * (1 + np.abs(whole))
    assert_array_equal(threaded, whole)
    assert (np.abs(parts - whole) <= 1e-8 + rounding).all()
    assert (np.abs(single - whole[::100]) <= 1e-8 + rounding[::100]).all()


@pytest.mark.parametrize("n_features", [1, 2, 12])
def test_where_even_the_logarithm_overflows(n_features):
    density = random_mixture(0, n_features, 3, 300)
    X = np.tile([[1e308], [0.0], [1e150]], (300, n_features))
    X[::3, ::2] *= -1
    found = by_engine(density, X, n_jobs=2)
    assert_array_equal(found[::3], -np.inf)
    assert np.isfinite(found[1::3]).all()
    np.testing.assert_allclose(found[2::3], log_density(density, X[2::3]), rtol=1e-12)


def test_logpdf_takes_the_engine_for_many_pairs_only(monkeypatch):
    rng = np.random.RandomState(0)
    density = kernels_at(rng.standard_normal((3000, 2)), 0.3)
    X = rng.standard_normal((200, 2))
    X[::7, 1] = np.nan
    direct = density.logpdf(X, missing="marginal")
    assert "engine" not in vars(density._sums)
    assert_array_equal(direct, density.logpdf(X, missing="marginal", tol=1e-3))
    monkeypatch.setattr(engines, "FEW_PAIRS", 0)
    found = density.logpdf(X, missing="marginal")
    assert "engine" in vars(density._sums)
    assert 0 < np.abs(found - direct).max() <= 1e-8
    loose = density.logpdf(X, missing="marginal", tol=1e-3)
    assert np.abs(loose - direct).max() <= 1e-3


@pytest.mark.parametrize("tol", [0, -1e-8, np.nan, np.inf, "small", True])
def test_a_tolerance_must_be_a_positive_number(tol):
    with pytest.raises((ValueError, TypeError), match="tol"):
        kernels_at(np.zeros((3, 2)), 1.0).logpdf([[0.0, 0.0]], tol=tol)


@pytest.mark.whole
def test_memory_is_bounded(memory_limit):
    rng = np.random.RandomState(0)
    warm = kernels_at(rng.standard_normal((500, 2)), 0.5)
    by_engine(warm, warm.means)
    # So few in every cell that series in all of them would need 4 GB.
    X = rng.uniform(0, 3000, (100_000, 2))
    with memory_limit(100):
        by_engine(kernels_at(X, 1.0), X[:2000])


def test_series_are_made_in_parts_if_they_are_many(monkeypatch):
    rng = np.random.RandomState(0)
    density = kernels_at(rng.uniform(0, 30, (9000, 2)), 1.0)
    whole = by_engine(density, density.means[:2000])
    monkeypatch.setattr(engines, "_NUMBERS", 2**16)
    again = kernels_at(density.means, 1.0)
    assert n_series(again) == n_series(density) > 225
    np.testing.assert_allclose(by_engine(again, density.means[:2000]), whole, atol=1e-10)


@pytest.mark.parametrize("n_features", [1, 2, 3, 5, 12])
def test_single_precision_is_what_its_numbers_are_in_double(n_features, monkeypatch):
    monkeypatch.setattr(engines, "FEW_PAIRS", 0)
    rng = np.random.RandomState(0)
    X = (1000 + rng.standard_normal((2000, n_features))).astype(np.float32)
    Q = (1000 + 3 * rng.standard_normal((300, n_features))).astype(np.float32)
    density = GaussianKDE().fit(X).density_
    same = GaussianKDE().fit(X.astype(np.float64)).density_
    found = density.logpdf(Q)
    assert found.dtype == np.float64
    assert_array_equal(found, same.logpdf(Q.astype(np.float64)))
    assert_within(density, Q)


def test_memory_for_a_million_points_of_single_precision(memory_limit):
    rng = np.random.RandomState(0)
    density = kernels_at(rng.standard_normal((500, 2)), 0.5)
    X = rng.standard_normal((1_000_000, 2)).astype(np.float32)
    density.logpdf(X[:100_000])
    with memory_limit(50):  # the points in double precision and the results are 24 MB
        density.logpdf(X)
