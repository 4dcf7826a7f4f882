"""Gaussian mixtures chosen by the BIC, beside those of scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.mixture import GaussianMixture

from sevenhills import GaussianMixtureBIC, datasets


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(400, random_state=1)


def test_gaussian_mixture_is_scikit_learns(moons):
    model = GaussianMixtureBIC(max_components=6).fit(moons)
    assert len(model.bic_) == 6
    assert model.n_components_ == np.argmin(model.bic_) + 1
    plain = [
        GaussianMixture(k, max_iter=500, n_init=3, random_state=0).fit(moons)
        for k in (1, model.n_components_)
    ]
    assert_allclose(model.bic_[0], plain[0].bic(moons), rtol=1e-3)
    assert abs(model.score(moons) - plain[1].score(moons)) < 0.1
    free = 6 * model.n_components_ - 1
    bic = -2 * len(moons) * model.score(moons) + free * np.log(len(moons))
    assert_allclose(model.bic_.min(), bic, rtol=1e-6)


@pytest.mark.parametrize("reg_covar", [1e-6, 10.0, 1e4])
def test_reg_covar_is_scikit_learns(moons, reg_covar):
    X = moons * [1.0, 1000.0]
    model = GaussianMixtureBIC(max_components=1, reg_covar=reg_covar).fit(X)
    expected = GaussianMixture(1, reg_covar=reg_covar, random_state=0).fit(X)
    assert_allclose(model.bic_, [expected.bic(X)], rtol=1e-9)
    assert_allclose(model.score_samples(X), expected.score_samples(X), rtol=1e-9)


def test_reg_covar_beside_a_large_spread(moons):
    far = np.concatenate([moons, [[1e12, 1e12]]])
    with pytest.raises(ValueError, match="reg_covar is too small"):
        GaussianMixtureBIC(reg_covar=1e-6).fit(far)
    assert np.isfinite(GaussianMixtureBIC(max_components=2).fit(far).score(far))


@pytest.mark.parametrize(
    ("estimator", "match"),
    [
        (GaussianMixtureBIC(reg_covar=0), "reg_covar"),
        (GaussianMixtureBIC(reg_covar=-1e-6), "reg_covar"),
        (GaussianMixtureBIC(max_components=0), "max_components"),
    ],
)
def test_bad_parameters(moons, estimator, match):
    with pytest.raises(ValueError, match=match):
        estimator.fit(moons)
