"""Vine copulas and their background."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, qmc

from sevenhills import VineDensity, datasets


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(400, random_state=1)


def test_likelihood_on_the_sets_of_the_study():
    """The figures that pyvinecopulib's own scikit-learn face gives."""
    for name, expected in {"aniso": -2.86, "varied": -4.295, "two_moons": -0.936}.items():
        train, test = datasets.load(name).split(run=0)
        assert_allclose(VineDensity().fit(train).score(test), expected, atol=0.01)


def test_the_background_reaches_everywhere_and_is_drawn_from(moons):
    """Vines give minus infinity at 12 standard deviations."""
    model = VineDensity().fit(moons[:40])
    spread = moons[:40].std(axis=0)
    far = model.score_samples(moons[:3] + spread * np.array([[12.0], [30.0], [1e6]]))
    assert np.isfinite(far).all()
    # All of the weight: the integral over a box that holds nearly all of both parts.
    centre = moons[:40].mean(axis=0)
    box = qmc.Sobol(2, seed=0).random(2**15) * 24 - 12
    mass = np.exp(model.score_samples(centre + box * spread)).mean() * 24**2 * spread.prod()
    assert mass == pytest.approx(1, abs=0.02)
    heavier = replace(model.density_, background_weight=0.3)
    drawn = np.abs(heavier.sample(20_000, random_state=0) - centre) / spread
    outside = (drawn > 4).any(axis=1).mean()  # the vine itself does not reach there
    assert outside == pytest.approx(0.3 * (1 - (1 - 2 * norm.sf(2)) ** 2), rel=0.2)


def test_one_feature(moons):
    model = VineDensity().fit(moons[:, :1])
    assert model.sample(7, random_state=0).shape == (7, 1)
    assert model.sample(0, random_state=0).shape == (0, 1)
    assert np.isfinite(model.score_samples(moons[:, :1])).all()


def test_seeds(moons):
    model = VineDensity().fit(moons)
    assert_array_equal(model.sample(5, random_state=1), model.sample(5, random_state=1))
    assert (model.sample(5, random_state=1) != model.sample(5, random_state=2)).any()


def test_bad_parameters(moons):
    with pytest.raises(ValueError, match="truncation"):
        VineDensity(truncation=-1).fit(moons)
