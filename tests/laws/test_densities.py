"""What holds between the answers of a density, for fits of four kinds.

Marginals, conditionals, affine maps and sums are in density/test_conditioning.py.
"""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import kstest

from ..densities import ESTIMATORS, fitted

pytestmark = pytest.mark.parametrize("name", ESTIMATORS)


def test_the_distribution_function_is_the_integral(name):
    line = fitted(name).marginal(1)
    edges = np.append(-np.inf, line.ppf([1e-6, 0.02, 0.2, 0.4, 0.6, 0.8, 0.98, 1 - 1e-6]))
    parts = [
        quad(lambda x: line.pdf([[x]])[0], *pair, epsabs=1e-13, epsrel=1e-12, limit=500)[0]
        for pair in pairwise(edges[1:])
    ]
    assert_allclose(np.diff(line.cdf(edges[1:])), parts, rtol=0, atol=1e-10)
    assert_allclose(line.cdf(edges) + line.sf(edges), 1.0, rtol=1e-14)


def test_quantiles_invert_the_distribution_function(name):
    line = fitted(name).marginal(0)
    x = np.sort(line.sample(200, random_state=0)[:, 0])
    width = np.ptp(x)
    assert_allclose(line.ppf(line.cdf(x)), x, rtol=0, atol=1e-10 * width)
    assert_allclose(line.isf(line.sf(x)), x, rtol=0, atol=1e-10 * width)


@pytest.mark.parametrize("n_features", [1, 2, 4])
def test_coverage_of_samples_is_uniform(name, n_features):
    density = fitted(name, 4).marginal(range(n_features))
    drawn = density.sample(1000, random_state=1)
    assert kstest(density.hdr_probability(drawn), "uniform").pvalue > 0.01


def test_regions_hold_their_mass_on_a_grid(name):
    density = fitted(name).density_
    low, high = (density.means.min(axis=0) - 3, density.means.max(axis=0) + 3)
    axes = [np.linspace(a, b, 400) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    logs, cell = density.logpdf(grid), np.prod([axis[1] - axis[0] for axis in axes])
    assert_allclose(np.exp(logs).sum() * cell, 1.0, atol=2e-3)
    for mass in (0.2, 0.5, 0.9):
        level = density.hdr_level(mass, n_draws=40_000)
        found = np.exp(logs[logs >= level]).sum() * cell
        assert abs(found - mass) < 4 * np.sqrt(mass * (1 - mass) / 40_000) + 1e-3


@pytest.mark.parametrize("n_features", [2, 4])
def test_derivatives_are_those_of_differences(name, n_features):
    density = fitted(name, n_features).density_
    X = density.sample(20, random_state=0)
    step = 1e-5 * np.sqrt(np.diag(density.cov()).min())
    gradients, hessians = density.grad_logpdf(X), density.hess_logpdf(X)
    for m in range(n_features):
        ahead, behind = X.copy(), X.copy()
        ahead[:, m] += step
        behind[:, m] -= step
        slope = (density.logpdf(ahead) - density.logpdf(behind)) / (2 * step)
        bend = (density.grad_logpdf(ahead) - density.grad_logpdf(behind)) / (2 * step)
        size = np.abs(gradients).max(axis=1)
        assert_allclose(gradients[:, m], slope, rtol=1e-5, atol=1e-5 * size.max())
        scale = np.abs(hessians).max()
        assert_allclose(hessians[:, m], bend, rtol=1e-4, atol=1e-5 * scale)
    assert_allclose(hessians, hessians.transpose(0, 2, 1), rtol=1e-10, atol=1e-12 * scale)


def test_entropy_is_the_mean_of_what_coverage_sorts(name):
    density = fitted(name).density_
    found = density.entropy(n_draws=20_000, random_state=1)
    drawn = -density.logpdf(density.sample(20_000, random_state=2))
    error = np.hypot(found.std_error, drawn.std() / np.sqrt(len(drawn)))
    assert abs(found - drawn.mean()) < 4 * error
