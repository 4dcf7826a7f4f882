"""Kernel density estimates, beside those of scipy and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

from sevenhills import GaussianKDE, KernelDensityCV, datasets

from ..strategies import samples


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(400, random_state=1)


@given(samples(min_samples=12, max_samples=60, max_features=4))
def test_gaussian_kde_is_scipys(X):
    X = X + 1e-3 * np.random.RandomState(0).standard_normal(X.shape)  # no line
    queries = X[:5] + 0.1
    for method in ("scott", "silverman", 0.4):
        expected = gaussian_kde(X.T, bw_method=method).logpdf(queries.T)
        found = GaussianKDE(bw_method=method).fit(X).score_samples(queries)
        assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_gaussian_kde_of_a_line():
    t = np.linspace(0, 1, 50)
    X = np.stack([t, 2 * t, np.ones(50)], axis=1)
    model = GaussianKDE().fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert model.score_samples([[0.5, 0.5, 1.0]])[0] < model.score_samples([[0.5, 1.0, 1.0]])[0]
    with pytest.raises(ValueError, match="min_std"):
        GaussianKDE(min_std=0.0).fit(X)


def test_kernel_density_is_scikit_learns(moons):
    model = KernelDensityCV().fit(moons)
    plain = KernelDensity(bandwidth=model.bandwidth_).fit(moons)
    assert_allclose(model.score_samples(moons), plain.score_samples(moons), atol=1e-9)
    assert model.bandwidth_ == model.bandwidths_[np.argmax(model.scores_)]
    assert 0.03 < model.bandwidth_ < 0.15
    chosen = KernelDensityCV(bandwidths=[0.01, 0.08, 0.5]).fit(moons)
    assert chosen.bandwidth_ == 0.08


def test_held_out_scores(moons):
    model = KernelDensityCV(bandwidths=[0.1], n_splits=len(moons)).fit(moons)
    apart = ((moons[:, None] - moons) ** 2).sum(axis=-1) / 0.1**2
    terms = np.exp(-0.5 * apart) / (2 * np.pi * 0.1**2)
    np.fill_diagonal(terms, 0)
    expected = np.log(terms.sum(axis=1) / (len(moons) - 1)).mean()
    assert_allclose(model.scores_, [expected], rtol=1e-10)


@pytest.mark.parametrize(
    ("estimator", "match"),
    [
        (GaussianKDE(bw_method="wide"), "bw_method"),
        (GaussianKDE(bw_method=-1.0), "bw_method"),
        (KernelDensityCV(bandwidths=[]), "bandwidths"),
        (KernelDensityCV(bandwidths="wide"), "bandwidths"),
        (KernelDensityCV(bandwidths=[-1.0]), "bandwidths"),
        (KernelDensityCV(n_splits=1), "n_splits"),
    ],
)
def test_bad_parameters(moons, estimator, match):
    with pytest.raises(ValueError, match=match):
        estimator.fit(moons)
