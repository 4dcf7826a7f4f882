"""Normal scores and the kernels that are carried back from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import kstest, norm

from sevenhills.stacking.margins import Margin, NormalScores, _quantiles

from ..strategies import repeats_of
from .cases import random_state

seeds = st.integers(0, 2**31)


@st.composite
def margins(draw):
    """Values of one feature: smooth, skewed, bounded, tied or constant."""
    rng = random_state(draw(seeds))
    n = draw(st.integers(5, 300))
    kind = draw(st.sampled_from(["normal", "skewed", "bounded", "tied", "few", "constant"]))
    x = rng.standard_normal(n)
    if kind == "skewed":
        return rng.exponential(size=n)
    if kind == "bounded":
        return rng.uniform(size=n)
    if kind == "tied":
        return np.round(x)
    if kind == "few":
        return np.where(np.arange(n) < n // 10, 1.0, 0.0)
    return np.full(n, 0.3) if kind == "constant" else x


@given(margins())
def test_margins_rise_and_are_inverted(x):
    margin = Margin.from_samples(x, np.ones(len(x)))
    z = np.linspace(-8, 8, 401)
    values = margin.values_at(z)
    assert (np.diff(values) > 0).all()
    # The inverse is tabulated, with 64 steps to a standard deviation.
    assert_allclose(margin.scores_of(values), z, atol=1 / 64)
    inner = np.linspace(*margin.ends, 50)
    assert margin.values_at(inner).min() >= x.min() - 1e-9
    assert margin.values_at(inner).max() <= x.max() + 1e-5 * (1 + np.ptp(x))


@given(margins(), seeds, st.integers(1, 40))
def test_weights_are_repeated_rows(x, seed, n_kernels):
    X = np.stack([x, random_state(seed).standard_normal(len(x))], axis=1)
    repeats = repeats_of(len(X), seed)
    found = NormalScores.from_samples(X, repeats.astype(float))
    copies = np.repeat(X, repeats, axis=0)
    expected = NormalScores.from_samples(copies, np.ones(len(copies)))
    assert_allclose(np.repeat(found.points, repeats, axis=0), expected.points, atol=1e-9)
    for name in ("mean", "stds", "correlation"):
        assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-9)
    ridge, queries = 1e-4 * np.eye(2), X[:n_kernels]
    one, other = (scores.kernels(0.4, ridge).logpdf(queries) for scores in (found, expected))
    assert_allclose(one, other, atol=1e-6)
    one, other = (scores.copula_kernels(0.4, ridge).means for scores in (found, expected))
    assert_allclose(one, other, atol=1e-9)


@given(margins(), seeds, st.sampled_from([1e-9, 0.1, 0.37, 7.5, 1e9]))
def test_quantiles(x, seed, scale):
    """By a search through the steps, sample by sample."""
    weights = scale * random_state(seed).exponential(size=len(x)) + 1e-12
    values, scores = _quantiles(x, weights)
    assert len(x) <= len(values) == len(scores) <= 2000
    order = np.argsort(x)
    reached = np.cumsum(weights[order]) / weights.sum()
    for value, level in zip(values[::7], norm.cdf(scores[::7]), strict=True):
        found = x[order][reached > level][0]
        near = x[order][np.abs(reached - level) < 1e-9]  # either side of a step will do
        assert value == found or len(near)


def test_scores_look_normal():
    X = random_state(0).exponential(size=(500, 2))
    for scores in NormalScores.from_samples(X, np.ones(500)).points.T:
        assert kstest(scores, "norm").pvalue > 0.1


def test_kernels_have_the_margins_of_the_samples():
    """Of exponential samples, where plain kernels put mass below zero."""
    X = random_state(1).exponential(size=(600, 2))
    scores = NormalScores.from_samples(X, np.ones(600))
    density = scores.kernels(0.3, 1e-8 * np.eye(2))
    assert density.n_kernels == len(X)
    drawn = density.sample(600, random_state=0)
    assert np.isfinite(density.logpdf(drawn)).all()
    for margin in drawn.T:
        assert kstest(margin, "expon").pvalue > 0.01
    assert np.mean(drawn < -0.1) < 0.01


@pytest.mark.parametrize("n_features", [1, 2, 4])
def test_copula_kernels_are_a_gaussian_copula(n_features):
    rng = random_state(0)
    latent = rng.standard_normal((500, n_features)) @ (np.eye(n_features) + 0.5)
    scores = NormalScores.from_samples(np.exp(latent / latent.std(axis=0)), np.ones(500))
    density = scores.copula_kernels(0.4, 1e-8 * np.eye(n_features))
    drawn = density.sample(2000, random_state=0)
    for margin in drawn.T:
        assert kstest(margin, "lognorm", (1.0,)).statistic < 0.07
    again = NormalScores.from_samples(drawn, np.ones(2000))
    assert_allclose(again.correlation, scores.correlation, atol=0.06)


@given(margins(), margins(), st.sampled_from([0.1, 0.5, 0.8]), st.sampled_from([1.0, 1e-12]))
def test_tied_and_constant_features_give_finite_densities(x, y, width, weight):
    n = min(len(x), len(y))
    X = np.stack([x[:n], y[:n], np.full(n, 0.1), np.full(n, -7.0)], axis=1)
    scores = NormalScores.from_samples(X, weight * np.ones(n))
    for kernels in (scores.kernels, scores.copula_kernels):
        assert np.isfinite(kernels(width, 1e-8 * np.eye(4)).logpdf(X[:20])).all()
