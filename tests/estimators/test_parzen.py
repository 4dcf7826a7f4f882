"""Manifold Parzen windows, beside a slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sevenhills import ManifoldParzen, datasets

from ..oracles import manifold_parzen_log_density
from ..strategies import samples


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(400, random_state=1)


@given(
    samples(min_samples=4, max_samples=40, max_features=4),
    st.sampled_from([0.05, 1.0]),
    st.integers(0, 4),
)
def test_equals_the_slow_estimator(X, min_std, n_directions):
    n_directions = min(n_directions, X.shape[1])
    X = X + 1e-6 * np.random.RandomState(0).standard_normal(X.shape)  # no ties
    model = ManifoldParzen(min_std=min_std, n_directions=n_directions).fit(X)
    queries = np.concatenate([X + 0.1, 30 * X])
    expected = manifold_parzen_log_density(X, min_std, n_directions, queries)
    assert_allclose(model.score_samples(queries), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("n_directions", [0, 1, 2, None])
@pytest.mark.whole
def test_integrates_to_one(moons, n_directions):
    model = ManifoldParzen(min_std=0.05, n_directions=n_directions).fit(moons)
    step = 0.03
    axes = np.arange(-3, 4, step), np.arange(-3, 3.5, step)
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    assert_allclose(np.exp(model.score_samples(grid)).sum() * step**2, 1.0, atol=1e-4)


def test_one_number_of_neighbors_for_all(moons):
    assert ManifoldParzen().fit(moons).n_neighbors_ == 13
    assert ManifoldParzen(n_neighbors=400).fit(moons).n_neighbors_ == 400


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_neighbors": 401}, "n_neighbors"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_directions": 3}, "n_directions"),
        ({"n_directions": -1}, "n_directions"),
        ({"min_std": -1.0}, "min_std"),
        ({"min_std": 0.0, "n_directions": 1}, "min_std"),
    ],
)
def test_bad_parameters(moons, parameters, match):
    with pytest.raises(ValueError, match=match):
        ManifoldParzen(**parameters).fit(moons)
