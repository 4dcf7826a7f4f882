"""Whatever finite samples come in, every answer is finite, or an error says what is wrong.

Checks are calls, not bare asserts, so that they are made under ``python -O``, too.
"""

import copy
import inspect
import re

import numpy as np
import pytest
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st
from numpy.testing import assert_, assert_allclose, assert_array_equal

from sevenhills import ROME, AutoROME, KernelMixture, VineDensity, compat

from ..strategies import TWISTS, awkward
from .estimators import AND_COMPAT, SETTINGS, for_each
from .test_numerics import direct_log_density

pytestmark = pytest.mark.usefixtures("silent")

#: Those whose widths are in data units, beside which huge samples are infinitely far apart.
IN_DATA_UNITS = [
    each
    for each in AND_COMPAT
    if isinstance(each, compat.ROME) or not getattr(each, "normalize", 1)
]
OTHERS = [each for each in AND_COMPAT if type(each) not in (ROME, AutoROME) or each in SETTINGS]

each_other = for_each(OTHERS)
each_estimator = for_each(AND_COMPAT)


def adapted(estimator, n_samples, n_features):
    """A copy of an estimator whose numbers suit so few samples or features."""
    model = copy.deepcopy(estimator)
    for name, most in (("n_directions", n_features), ("n_neighbors", n_samples)):
        value = getattr(model, name, None)
        if isinstance(value, int):
            model.set_params(**{name: min(value, most)})
    return model


def has_no_spread(X):
    return bool((X[0] == X).all())


def answers_are_finite(estimator, X):
    """The law of this module: fit, ask at the samples, near them and at draws, and far away."""
    model = adapted(estimator, *X.shape)
    if has_no_spread(X) and not isinstance(model, compat.ROME):
        with pytest.raises(ValueError, match=r"spread|n_samples = 1"):
            model.fit(X)
        return
    given_rows = X.copy()
    if not fitted(model, X):
        return
    assert_array_equal(X, given_rows)
    labels_are_in_range(model, len(X))
    near = points_near(X)
    for points in (X, near, draws_of(model, near)):
        log_densities = model.score_samples(points)
        assert_(not np.isnan(log_densities).any(), "not a number")
        if not beyond_floats(estimator, X):
            assert_(np.isfinite(log_densities).all(), "infinite")
    far_answers_are_direct_sums(model, X)


def fitted(model, X, **weights):
    """Fit; a vine may refuse if it says why: not all samples have margins and ranks."""
    try:
        model.fit(X, **weights)
    except ValueError as error:
        if isinstance(model, VineDensity) and re.search(r"no spread|a vine", str(error)):
            return False
        raise
    return True


def labels_are_in_range(model, n_samples):
    labels = getattr(model, "labels_", None)
    if labels is None:
        return
    fitted = getattr(model, "_model", model)
    n_proper = sum(cluster.label >= 0 for cluster in fitted.clusters_)
    assert_(labels.shape == (n_samples,) and labels.dtype == np.int64, "shape of labels")
    assert_array_equal(np.unique(labels[labels >= 0]), np.arange(n_proper))
    assert_(labels.min() >= -1, "labels below -1")


def points_near(X):
    """Points at a thousandth of the spread from samples, and at the middles of pairs of them."""
    rng = np.random.RandomState(0)
    some, others = X[rng.randint(len(X), size=(2, 10))]
    steps = 1e-3 * np.ptp(X, axis=0) * rng.standard_normal(some.shape)
    return np.concatenate([some + steps, some / 2 + others / 2])


def draws_of(model, instead):
    """Fresh draws, or other points where a density cannot be sampled."""
    if not getattr(model, "is_normalized", True):
        return instead
    draws = model.sample(20, random_state=0)
    assert_(np.isfinite(draws).all(), "a draw is not finite")
    assert_array_equal(draws, model.sample(20, random_state=0))
    return draws


def beyond_floats(estimator, X):
    """Whether squares of distances, in the unit of the kernels, may be beyond the largest float."""
    return estimator in IN_DATA_UNITS and np.ptp(X, axis=0).max() > 1e140


def far_answers_are_direct_sums(model, X):
    density = getattr(model, "density_", None)
    if not isinstance(density, KernelMixture):
        return
    rng = np.random.RandomState(1)
    far = X[rng.randint(len(X), size=4)]
    far = far + np.ptp(X, axis=0) * rng.standard_normal(far.shape) * [[1.0], [30.0], [1e3], [1e5]]
    latent, log_slopes = density._chart.latent(far)
    expected = direct_log_density(density, latent) + log_slopes
    assert_allclose(model.score_samples(far), expected, 1e-9, 1e-8)


def on_examples(estimator, numbers, **sizes):
    """Check ten examples for every number, which is their seed.

    Ten, because in a longer run hypothesis mostly varies a little what it has drawn before.
    """
    for number in numbers:

        @seed(number)
        @settings(max_examples=5)
        @given(awkward(**sizes))
        def law(X):
            answers_are_finite(estimator, X)

        law()


# In every run


def test_rome():
    on_examples(ROME(), range(6), min_samples=1)


@pytest.mark.whole
def test_auto_rome():
    on_examples(AutoROME(), range(2), min_samples=1)


@each_other
def test_all_others(estimator):
    on_examples(estimator, range(2), max_samples=60, max_features=8)


@each_estimator
@pytest.mark.parametrize("n_samples", [1, 2, 6])
def test_no_spread_is_said(estimator, n_samples):
    """Also of values whose mean is rounded."""
    answers_are_finite(estimator, np.tile([0.1, 1e9 / 3, -7e-5], (n_samples, 1)))


@each_estimator
def test_two_samples(estimator):
    answers_are_finite(estimator, np.array([[0.1, 2.0], [0.3, 2.0]]))


# By the thousand


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_rome_on_many(part):
    on_examples(ROME(), range(100 * part, 100 * (part + 1)), min_features=2)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_auto_rome_on_many(part):
    on_examples(AutoROME(), range(25 * part, 25 * (part + 1)), min_features=2)


@pytest.mark.slow
@each_other
def test_all_others_on_many(estimator):
    n_features = 12 if isinstance(estimator, VineDensity) else 30
    on_examples(estimator, range(2, 32), max_samples=200, max_features=n_features)


# Weights


def takes_weights(estimator):
    return "sample_weight" in inspect.signature(estimator.fit).parameters


WEIGHTED = [each for each in AND_COMPAT if takes_weights(each)]
needs_weights = pytest.mark.skipif(not WEIGHTED, reason="no estimator takes weights")
each_weighted = for_each(WEIGHTED)
#: Beyond the squares of floats, answers depend on where sums overflow.
weighted_samples = awkward(
    min_samples=3,
    max_samples=40,
    max_features=5,
    twists=tuple(name for name in TWISTS if name not in ("tiny", "huge")),
).filter(lambda X: not has_no_spread(X))
seeds = st.integers(0, 2**32 - 1)


def weighted_fit(estimator, X, weights):
    model = adapted(estimator, int(weights.sum()), X.shape[1])
    assume(fitted(model, X, sample_weight=weights))
    return model


def assert_same_density(model, other, X):
    queries = np.concatenate([X, points_near(X)])
    assert_allclose(model.score_samples(queries), other.score_samples(queries), 1e-6, 1e-6)


@needs_weights
@each_weighted
@settings(max_examples=3)
@given(X=weighted_samples, number=seeds, most=st.integers(1, 4))
def test_a_weight_is_a_number_of_rows(estimator, X, number, most):
    weights = np.random.RandomState(number).randint(0, most + 1, len(X))
    repeated = np.repeat(X, weights, axis=0)
    assume(weights.sum() >= 3 and not has_no_spread(repeated))
    weighted = weighted_fit(estimator, X, weights)
    plain = adapted(estimator, *repeated.shape).fit(repeated)
    assert_same_density(weighted, plain, repeated)
    if hasattr(plain, "labels_"):
        present = weights > 0
        # Copies of a row may be told apart; it has the label of the middle one.
        middle = np.cumsum(weights) - weights + weights // 2
        assert_array_equal(weighted.labels_[present], plain.labels_[middle[present]])
        assert_array_equal(weighted.labels_[~present], -1)


@needs_weights
@each_weighted
@settings(max_examples=3)
@given(X=weighted_samples, number=seeds)
def test_any_weights_give_finite_answers(estimator, X, number):
    rng = np.random.RandomState(number)
    weights = rng.exponential(size=len(X)) * 10.0 ** rng.uniform(-3, 3, len(X))
    weights *= max(1.0, 3.0 / weights.sum())
    if isinstance(estimator, VineDensity):
        weights += 1  # it repeats rows, and drops those that are less than half a sample
    model = weighted_fit(estimator, X, weights)
    for points in (X, points_near(X), draws_of(model, X)):
        assert_(np.isfinite(model.score_samples(points)).all(), "not finite")
    labels_are_in_range(model, len(X))


@needs_weights
@for_each([each for each in WEIGHTED if not isinstance(each, compat.ROME)])
@settings(max_examples=3)
@given(X=weighted_samples, number=seeds)
def test_the_order_of_weighted_rows_does_not_matter(estimator, X, number):
    rng = np.random.RandomState(number)
    weights = rng.choice([1.0, 1.5, 2.5], len(X))
    rows = rng.permutation(len(X))
    model = weighted_fit(estimator, X, weights)
    turned = weighted_fit(estimator, X[rows], weights[rows])
    assert_same_density(turned, model, X)
