"""Interpolated sums of kernels in one dimension, beside direct sums over all kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.chebyshev import chebfit, chebval
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import KernelMixture, ManifoldParzen
from sevenhills.density import interpolation
from sevenhills.density.interpolation import LineSums
from sevenhills.density.sums import LOG_2PI

from ..oracles import log_density
from ..strategies import samples


def kernels_of(means, stds, weights=None):
    """Kernels with standard deviations of their own."""
    n = len(means)
    weights = np.full(n, 1 / n) if weights is None else weights
    return KernelMixture(weights, means[:, None], np.arange(n + 1), 1 / stds[:, None, None])


def by_engine(density, x, tol=1e-8, n_jobs=None):
    """The log density by the engine for many points."""
    return density._sums.engine.sums_at(x[:, None], tol, n_jobs) - 0.5 * LOG_2PI


def assert_within(density, x, tol=1e-8):
    """Equal to the direct sum within the tolerance and the rounding of exponents."""
    found = by_engine(density, x, tol)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = log_density(density, x[:, None])
        wrong = np.where(found == expected, 0.0, np.abs(found - expected))
    assert (wrong <= tol + 1e-13 * (100 + np.abs(expected))).all(), wrong.max()


def share_of_intervals(density, x):
    """The share of points that are in intervals."""
    starts, ends = LineSums.from_kernels(density.kernels)._intervals(np.sort(x))
    return (ends - starts).sum() / len(x)


@given(
    st.integers(0, 10**6),
    st.integers(40, 300),
    st.sampled_from([0.0, 0.5, 3.0, 10.0]),
    st.sampled_from([0.0, 1.0, 1e6, 1e12]),
    st.sampled_from([1e-150, 1.0, 1e150]),
    st.sampled_from([1e-4, 1e-8, 1e-11, 1e-14]),
)
def test_kernels_of_any_widths(seed, n, spread, shift, unit, tol):
    rng = np.random.RandomState(seed)
    means = shift + rng.standard_normal(n)
    density = kernels_of(unit * means, unit * 0.1 * np.exp(spread * rng.standard_normal(n)))
    near = shift + rng.uniform(-4, 4, 2000)
    assert_within(density, unit * np.concatenate([near, means, [shift + 1e4]]), tol)


@given(samples(min_samples=40, max_samples=300, max_features=1), st.integers(0, 10**6))
def test_awkward_means(X, seed):
    """Ties, lattices and outliers, in kernels from thin to wide."""
    rng = np.random.RandomState(seed)
    x = X[:, 0]
    width = np.median(np.abs(x - x.mean())) or 1.0
    density = kernels_of(x, width * np.exp(rng.uniform(-6, 3, len(x))))
    some = rng.choice(x, 1000)
    assert_within(density, np.concatenate([some, some + width * rng.standard_normal(1000)]))


@pytest.mark.parametrize("width", [1e-2, 1e-5, 1e-12, 1e-100])
@pytest.mark.parametrize("weight", [0.5, 1e-6, 1e-15])
def test_a_narrow_kernel_among_wide_ones(width, weight):
    rng = np.random.RandomState(0)
    means, stds = np.append(0.0, rng.standard_normal(100)), np.append(width, np.full(100, 0.5))
    density = kernels_of(means, stds, np.append(weight, np.full(100, (1 - weight) / 100)))
    steps = width * np.linspace(-40, 40, 500)
    assert_within(density, np.concatenate([steps, np.linspace(-5, 5, 5000)]))


def test_far_and_equal_points():
    rng = np.random.RandomState(0)
    density = kernels_of(np.append(rng.standard_normal(100), [1e200, -1e200]), np.full(102, 0.3))
    ends = np.array([1e200, -1e200, 1e308, -1e308])
    x = [rng.standard_normal(1000), rng.uniform(-9, 9, 1000), np.zeros(1000), ends.repeat(300)]
    assert_within(density, np.concatenate(x))


def test_many_points_are_interpolated():
    rng = np.random.RandomState(0)
    X, x = rng.standard_normal((3000, 1)), rng.standard_normal(20_000)
    density = ManifoldParzen().fit(X).density_
    assert share_of_intervals(density, x) > 0.95
    assert share_of_intervals(density, x[:50]) == 0
    assert_within(density, x)
    assert_array_equal(by_engine(density, x), by_engine(density, x, n_jobs=3))


@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0, 3.0, 100.0])
def test_the_remainder_bounds_the_error_of_a_kernel(ratio):
    """Kernels of widths from narrow to wide, as close to an interval as they may be."""
    n, std = interpolation._N_NODES, ratio / interpolation._MAX_RATIO
    gap = 1 + interpolation._MARGIN if ratio < 1 else 0.0
    nodes = np.cos(np.pi * (np.arange(n) + 0.5) / n)
    places = np.linspace(-1, 1, 999)
    for mean in np.linspace(gap, gap + 3 * std, 20):
        at_nodes = np.exp(-0.5 * ((nodes - mean) / std) ** 2)
        series = chebfit(nodes, at_nodes, n - 1)
        found = chebval(places, series)
        expected = np.exp(-0.5 * ((places - mean) / std) ** 2)
        assert_allclose(found, expected, rtol=0, atol=interpolation._REMAINDER + 1e-14)
