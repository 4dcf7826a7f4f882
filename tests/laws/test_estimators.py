"""Laws that hold for every estimator, and what is special to each."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from sevenhills import (
    ROME,
    ManifoldParzen,
    VineDensity,
    datasets,
)

from ..oracles import rome_log_density
from ..strategies import samples
from .estimators import EVERY, NORMALIZED, REGISTERED, each_estimator, for_each

#: scikit-learn's checks are about a class and its parameters.
CHECKED = [*REGISTERED, ROME(density="knn"), ROME(support={0: (-1e3, None)})]


@pytest.fixture(scope="module")
def moons():
    return datasets.load("two_moons").sample(250, random_state=1)


@parametrize_with_checks(CHECKED)
def test_scikit_learn(estimator, check):
    check(estimator)


@for_each(NORMALIZED)
def test_integrates_to_one(estimator, moons):
    model = clone(estimator).fit(moons)
    assert model.is_normalized
    step = 0.02
    axes = np.arange(-4, 5, step), np.arange(-4, 4.5, step)
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    assert_allclose(np.exp(model.score_samples(grid)).sum() * step**2, 1.0, atol=0.02)


@for_each(NORMALIZED)
def test_samples_follow_the_density(estimator, moons):
    """A chi-square over the bins of a grid, whose masses are integrals of the density."""
    model = clone(estimator).fit(moons)
    assert chi_square_z(model, model.sample(4000, random_state=3)) < 4


def chi_square_z(model, draws):
    """How many standard deviations the chi-square of draws lies above what is expected."""
    edges, parts = [np.linspace(-2.5, 3.5, 13), np.linspace(-2, 2.5, 10)], 25
    fine = [np.linspace(e[0], e[-1], parts * (len(e) - 1) + 1) for e in edges]
    centres = [(f[1:] + f[:-1]) / 2 for f in fine]
    grid = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1)
    cell = (fine[0][1] - fine[0][0]) * (fine[1][1] - fine[1][0])
    mass = np.exp(model.score_samples(grid.reshape(-1, 2))).reshape(grid.shape[:2]) * cell
    mass = mass.reshape(len(edges[0]) - 1, parts, len(edges[1]) - 1, parts).sum(axis=(1, 3))
    counts = np.histogram2d(*draws.T, bins=edges)[0]
    expected = len(draws) * mass
    large = expected > 8
    observed = np.append(counts[large], len(draws) - counts[large].sum())
    expected = np.append(expected[large], len(draws) - expected[large].sum())
    dof = len(observed) - 1
    chi_square = ((observed - expected) ** 2 / np.maximum(expected, 1)).sum()
    return (chi_square - dof) / np.sqrt(2 * dof)


def test_the_chi_square_can_fail(moons):
    model = ManifoldParzen().fit(moons)
    assert chi_square_z(model, model.sample(4000, random_state=3) + 0.05) > 10


@each_estimator
def test_row_order_and_units_do_not_matter(estimator, moons):
    queries = moons[::7] + 0.01
    expected = clone(estimator).fit(moons).score_samples(queries)
    rows = np.random.RandomState(0).permutation(len(moons))
    assert_allclose(clone(estimator).fit(moons[rows]).score_samples(queries), expected, atol=1e-7)
    scaled = clone(estimator)
    if getattr(scaled, "normalize", True):
        scaled.fit(1000 * moons)
        shift = 2 * np.log(1000)
        assert_allclose(scaled.score_samples(1000 * queries) + shift, expected, atol=1e-6)


@each_estimator
def test_the_data_can_change_after_the_fit(estimator, moons):
    X = moons.copy()
    model = clone(estimator).fit(X)
    before = model.score_samples(moons[:5])
    X[:] = 0
    assert_array_equal(model.score_samples(moons[:5]), before)


@each_estimator
def test_pickles(estimator, moons):
    model = clone(estimator).fit(moons)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.score_samples(moons[:9]), model.score_samples(moons[:9]))


@each_estimator
def test_a_failed_refit_keeps_the_old_model(estimator, moons):
    model = clone(estimator).fit(moons)
    before = model.score_samples(moons[:5])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((5, 3), np.nan))
    assert_array_equal(model.score_samples(moons[:5]), before)
    assert model.n_features_in_ == 2


@each_estimator
def test_far_queries(estimator, moons):
    model = clone(estimator).fit(moons)
    far = model.score_samples([[1e300, 0.0], [-1e308, 1e308], [1e6, 1e6]])
    assert not np.isnan(far).any()
    assert (far < -20).all()


@given(
    samples(min_samples=5, max_samples=50, max_features=4),
    st.sampled_from(EVERY),
)
def test_awkward_samples(X, estimator):
    """Ties, lattices, lines and outliers give no NaN; samples without spread a clear error."""
    model = clone(estimator)
    n_directions = getattr(model, "n_directions", None)
    if n_directions is not None:
        model.set_params(n_directions=min(n_directions, X.shape[1]))
    if (X[0] == X).all() and not isinstance(model, VineDensity):
        with pytest.raises(ValueError, match="spread"):
            model.fit(X)
        return
    scores = model.fit(X).score_samples(X)
    assert not np.isnan(scores).any()
    assert isinstance(model, VineDensity) or np.isfinite(scores).all()


class TestAblations:
    @given(
        samples(min_samples=8, max_samples=60, max_features=3),
        st.sampled_from(["kde", "gaussian", "knn", "mpw"]),
        st.booleans(),
        st.booleans(),
    )
    def test_equals_the_slow_estimator(self, X, density, decorrelate, normalize):
        X = X + 1e-6 * np.random.RandomState(0).standard_normal(X.shape)  # no ties
        labels = np.arange(len(X)) % 3 - 1
        options = {"density": density, "decorrelate": decorrelate, "normalize": normalize}
        model = ROME(min_std=0.3, start="first", **options).fit(X, labels=labels)
        queries = np.concatenate([X + 0.1, 3 * X])
        expected = rome_log_density(X, labels, 0.3, queries, **options)
        assert_allclose(model.score_samples(queries), expected, rtol=1e-7, atol=1e-7)

    def test_which_settings_are_the_same(self):
        """Without noise, seven of twelve are distinct."""
        X = datasets.load("aniso").sample(120, random_state=0)
        labels = np.maximum(ROME().fit(X).labels_, 0)
        seen = []
        for density in ("kde", "gaussian", "knn"):
            for decorrelate in (True, False):
                for normalize in (True, False):
                    model = ROME(density=density, decorrelate=decorrelate, normalize=normalize)
                    seen.append(model.fit(X, labels=labels).score_samples(X[:40]))
        apart = np.abs(np.array(seen)[:, None] - np.array(seen)).max(axis=-1) > 1e-7
        first = {int(np.argmin(row)) for row in apart}
        assert len(first) == 7

    def test_neighbors_cannot_be_sampled(self, moons):
        model = ROME(density="knn").fit(moons)
        assert not model.is_normalized
        with pytest.raises(ValueError, match="nearest-neighbor"):
            model.sample(3)

    def test_summaries_say_what_was_done(self, moons):
        assert "dbcv score" in ROME(selection="dbcv").fit(moons).summary()
        assert "neighbors" in ROME(density="knn").fit(moons).summary()

    def test_bad_choices(self, moons):
        with pytest.raises(ValueError, match="density must be one of"):
            ROME(density="gmm").fit(moons)
        with pytest.raises(ValueError, match="selection must be one of"):
            ROME(selection="calinski").fit(moons)
