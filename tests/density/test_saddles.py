import numpy as np
import pytest
from numpy.testing import assert_allclose

from sevenhills import GaussianKDE
from sevenhills.density.saddles import Excess, KernelSamples, Profiles, whitening

from .test_modes import density_of


def profiles(density):
    nothing = np.zeros(density.n_kernels)
    samples = KernelSamples(density.weights, density.counts, nothing, nothing)
    return Profiles(density.kernels, samples)


def test_a_valley_along_the_line_is_that_of_the_marginal():
    """The direction of the discriminant is known here, and so is the marginal density along it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, 6))
    X[400:, 2] += 8
    density = density_of(GaussianKDE(), X)
    places = density.means[:, 2]
    hills = [np.flatnonzero(places < 4), np.flatnonzero(places >= 4)]
    marginal = density.marginal(2)
    level = marginal.pdf(np.linspace(1, 7, 1000)[:, None]).min()
    ratios = level / marginal.pdf(places[:, None])
    found = profiles(density).excesses(hills)
    for hill, excess in zip(hills, found, strict=True):
        assert excess.n_above == pytest.approx((ratios[hill] < 1).sum(), rel=0.03)
        assert excess.n_background == pytest.approx(ratios[hill].clip(0, 1).sum(), rel=0.05)


def test_halves_of_one_gaussian_have_no_valley():
    X = np.random.default_rng(0).normal(size=(400, 10))
    density = density_of(GaussianKDE(), X)
    places = density.means[:, 0]
    halves = [np.flatnonzero(places < 0), np.flatnonzero(places >= 0)]
    for excess in profiles(density).excesses(halves):
        assert excess.significance(400) < 1.25


def test_significance_grows_with_the_samples_and_falls_with_the_saddle():
    values = [Excess(n, 0.0, 0.0).significance(1000) for n in (0, 1, 10, 100, 1000)]
    assert values == sorted(values)
    assert values[0] == 0
    values = [Excess(100.0, b, 0.1).significance(1000) for b in (0, 10, 50, 99, 100)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0
    assert Excess(5.0, 0.0, 0.5).significance(50) >= 1.25


def test_whitening_of_the_largest_numbers():
    deviations = np.array([[1e200, 0.0], [-1e200, 0.0], [0.0, 1e197], [0.0, -1e197]])
    axes = whitening(np.ones(4), deviations)
    Y = deviations @ axes
    assert np.isfinite(Y).all()
    assert_allclose(Y.T @ Y / 4, np.eye(2), atol=1e-6)
    assert np.isfinite(whitening(np.zeros(2), np.zeros((2, 3)))).all()
