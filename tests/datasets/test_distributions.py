"""The distributions of the study and their samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons

from sevenhills import datasets


def test_pools_are_those_of_the_study():
    blobs = make_blobs(20_000, random_state=100)[0]
    assert_array_equal(datasets.load("aniso")._pool, blobs @ np.array([[0.6, -0.6], [-0.4, 0.8]]))
    varied = make_blobs(20_000, cluster_std=[1, 2.5, 0.5], random_state=100)[0]
    assert_array_equal(datasets.load("varied")._pool, varied)
    moons = make_moons(20_000, noise=0.05, random_state=100)[0]
    assert_array_equal(datasets.load("two_moons")._pool, moons)


@pytest.mark.parametrize("name", datasets.names())
def test_splits_and_samples(name):
    distribution = datasets.load(name)
    first, second = distribution.split(run=3)
    rows = np.random.RandomState(3).choice(20_000, 6000, replace=False)
    assert_array_equal(first, distribution._pool[rows[:3000]])
    assert_array_equal(second, distribution._pool[rows[3000:]])
    fresh = distribution.sample(4000, random_state=5)
    assert_array_equal(fresh, distribution.sample(4000, random_state=5))
    spread = first.std(axis=0)
    assert_allclose(fresh.mean(axis=0), first.mean(axis=0), atol=0.15 * spread.max())
    assert_allclose(fresh.std(axis=0), spread, rtol=0.15)
    assert distribution.sample(2).shape == (2, first.shape[1])


def test_bad_names_and_sizes():
    with pytest.raises(ValueError, match="one of"):
        datasets.load("moon")
    with pytest.raises(ValueError, match="n_samples"):
        datasets.load("aniso").split(0, 20_000)
