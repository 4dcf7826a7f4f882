import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from sevenhills import ROME, AutoROME, GaussianKDE, KernelMixture, ManifoldParzen
from sevenhills.density.boxes import normal_probability
from sevenhills.density.mixture import with_samples
from sevenhills.estimate import Estimate

from .test_mixture import random_mixture

INF = np.inf
#: Three features that depend on each other.
SPACE = random_mixture(5, 3, 2, 12, spread=1.0)


def random_box(density, seed, widths=1.0):
    """A box around some sample, some of whose bounds are infinite."""
    rng = np.random.RandomState(seed)
    middle = density.sample(1, random_state=rng)[0]
    half = widths * rng.exponential(1.0, (2, density.n_features))
    lower, upper = middle - half[0], middle + half[1]
    lower[rng.uniform(size=len(lower)) < 0.2] = -INF
    upper[rng.uniform(size=len(upper)) < 0.2] = INF
    return lower, upper


def by_scipy(density, lower, upper):
    """The sum over kernels of scipy's probabilities."""
    group = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
    covariances = [np.linalg.inv(t @ t.T) for t in density.transforms]
    normal = type(multivariate_normal)(seed=0)
    options = {"lower_limit": lower, "abseps": 1e-10, "maxpts": 10**5}
    return sum(
        weight * normal.cdf(upper, centre, covariances[g], **options)
        for weight, centre, g in zip(density.weights, density.means, group, strict=True)
    )


@given(st.integers(0, 10**6), st.integers(1, 2), st.sampled_from([0.05, 1.0, 10.0]))
def test_one_and_two_features_are_exact(seed, n_features, widths):
    density = random_mixture(seed, n_features, 3, 12, spread=2.0)
    lower, upper = random_box(density, seed, widths)
    found = density.probability(lower, upper)
    assert_allclose(found, by_scipy(density, lower, upper), rtol=1e-9, atol=1e-13)
    assert found.std_error == 0


@pytest.mark.parametrize("n_features", [3, 5])
def test_more_features_agree_with_scipy(n_features):
    for seed in range(2):
        density = random_mixture(seed, n_features, 2, 8, spread=1.0)
        lower, upper = random_box(density, seed, 2.0)
        found = density.probability(lower, upper)
        # The error comes from sixteen values, so that it is itself uncertain.
        slack = 5 * found.std_error + 1e-7
        assert abs(found - by_scipy(density, lower, upper)) < slack
        assert found.std_error < 0.01 * found + 1e-5


@pytest.mark.parametrize("estimator", [ROME(), AutoROME(), ManifoldParzen(), GaussianKDE()])
def test_counted_draws_agree(estimator):
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.standard_normal((60, 4)), rng.standard_normal((60, 4)) * 0.3 + 4])
    density = estimator.fit(X @ rng.standard_normal((4, 4))).density_
    drawn = density.sample(20_000, random_state=1)
    for seed in range(4):
        lower, upper = random_box(density, seed, 2.0)
        found = density.probability(lower, upper)
        share = np.mean(((drawn >= lower) & (drawn <= upper)).all(axis=1))
        error = np.hypot(np.sqrt(found * (1 - found) / len(drawn)), found.std_error)
        assert abs(found - share) < 4 * error + 1e-4


@pytest.mark.whole
def test_errors_are_honest():
    """The scores have a t distribution of 15 degrees of freedom, whose deviation is 1.07."""
    scores = []
    for seed in range(6):
        density = random_mixture(seed, 4, 2, 8, spread=1.0)
        lower, upper = random_box(density, seed, 3.0)
        truth = density.probability(lower, upper, n_draws=2**16, random_state=99)
        runs = [density.probability(lower, upper, n_draws=256, random_state=s) for s in range(25)]
        scores += [(run - truth) / np.hypot(run.std_error, truth.std_error) for run in runs]
    assert abs(np.mean(scores)) < 0.35
    assert 0.8 < np.std(scores) < 1.4
    assert np.mean(np.abs(scores) > 3) < 0.04


def test_more_points_are_better_than_random_ones():
    lower, upper = np.full(3, -2.0), np.full(3, 1.0)
    errors = [SPACE.probability(lower, upper, n_draws=n).std_error for n in (2**10, 2**16)]
    assert errors[1] < errors[0] / 12


@given(st.integers(0, 10**6), st.integers(2, 4))
def test_adjoining_boxes_add_up(seed, n_features):
    density = random_mixture(seed, n_features, 2, 10, spread=1.0)
    lower, upper = random_box(density, seed, 2.0)
    cut = density.sample(1, random_state=seed + 1)[0, 0].clip(lower[0], upper[0])
    left, right = upper.copy(), lower.copy()
    left[0] = right[0] = cut
    parts = density.probability(lower, left), density.probability(right, upper)
    whole = density.probability(lower, upper)
    error = np.sqrt(sum(each.std_error**2 for each in (*parts, whole)))
    assert abs(sum(parts) - whole) <= 6 * error + 1e-13


def test_the_whole_space_and_nothing():
    assert SPACE.probability([-INF] * 3, [INF] * 3) == 1
    assert SPACE.probability({}) == 1
    assert SPACE.probability([0.0, -1.0, -1.0], [0.0, 1.0, 1.0]) == 0
    assert SPACE.probability([INF, -INF, -INF], [INF] * 3) == 0
    assert isinstance(SPACE.probability({}), Estimate)
    assert_allclose(SPACE.probability([-50.0] * 3, [50.0] * 3), 1.0, atol=1e-12)


def test_features_without_bounds_are_left_out():
    line = SPACE.marginal(1)
    found = SPACE.probability([-INF, -1.0, -INF], [INF, 0.5, INF])
    assert_allclose(found, line.cdf(0.5) - line.cdf(-1.0), rtol=1e-12)
    assert found.std_error == 0
    plane = SPACE.marginal([2, 0]).probability([0.0, -1.0], [2.0, INF])
    assert_allclose(SPACE.probability({0: (-1.0, INF), 2: (0.0, 2.0)}), plane, rtol=1e-12)


def test_bounds_by_name():
    named = with_samples(SPACE, ["a", "b", "c"], 1)
    assert named.probability({"c": (0.0, 1.0), 0: (-1.0, 1.0)}) == SPACE.probability(
        [-1.0, -INF, 0.0], [1.0, INF, 1.0]
    )


def test_independent_features_are_exact():
    rates = np.array([1.0, 2.0, 0.5])
    turn = np.linalg.qr(np.random.RandomState(0).standard_normal((3, 3)))[0]
    density = KernelMixture(
        [0.4, 0.6], [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], [0, 2], [np.diag(rates) @ turn]
    )
    lower, upper = np.array([-1.0, 0.0, -2.0]), np.array([1.0, 0.5, 3.0])
    shares = ndtr((upper - density.means) * rates) - ndtr((lower - density.means) * rates)
    found = density.probability(lower, upper)
    assert_allclose(found, density.weights @ shares.prod(axis=1), rtol=1e-12)
    assert found.std_error == 0


@pytest.mark.parametrize("correlation", [0.9999999, -0.9999999])
def test_nearly_dependent_features(correlation):
    covariance = np.array([[1.0, correlation], [correlation, 1.0]])
    transform = np.linalg.inv(np.linalg.cholesky(covariance)).T
    density = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [transform])
    angle = np.arcsin(correlation) / (2 * np.pi)
    assert_allclose(density.probability([0.0, 0.0], [INF, INF]), 0.25 + angle, rtol=1e-7, atol=1e-9)
    # Where both are positive, or of different signs, both of them are what one of them is.
    beyond = density.probability([1.0, -INF], [2.0, INF])
    other = (1.0 - 1e-2, 2.0 + 1e-2) if correlation > 0 else (-2.0 - 1e-2, -1.0 + 1e-2)
    assert_allclose(density.probability([1.0, other[0]], [2.0, other[1]]), beyond, rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e200])
def test_any_unit(unit):
    lower, upper = np.array([-1.0, -2.0, 0.0]), np.array([1.0, 0.5, 2.0])
    scaled = SPACE.affine(unit * np.eye(3), np.zeros(3))
    assert_allclose(
        scaled.probability(unit * lower, unit * upper), SPACE.probability(lower, upper), rtol=1e-9
    )
    pair, plane = scaled.marginal([0, 1]), SPACE.marginal([0, 1])
    assert_allclose(
        pair.probability(unit * lower[:2], unit * upper[:2]),
        plane.probability(lower[:2], upper[:2]),
        rtol=1e-9,
    )


@pytest.mark.parametrize("n_features", [1, 2, 3, 6])
def test_tiny_boxes_have_the_mass_of_the_density_there(n_features):
    density = random_mixture(1, n_features, 2, 10, spread=1.0)
    x = density.sample(1, random_state=0)[0]
    found = density.probability(x - 5e-7, x + 5e-7)
    expected = density.pdf(x[None])[0] * 1e-6**n_features
    assert_allclose(found, expected, rtol=1e-5, atol=6 * found.std_error)
    assert found.std_error < 0.1 * found


def test_boxes_far_out_keep_their_digits():
    density = KernelMixture([1.0], np.zeros((1, 3)), [0, 1], [np.eye(3) + 0.1])
    found = density.probability([10.0, 8.0, -1.0], [INF, INF, 1.0])
    assert 0 < found < 1e-30
    assert found.std_error < 0.02 * found


@given(st.floats(-36, 36), st.floats(-12, 2))
def test_narrow_normal_probabilityes_are_relatively_exact(a, exponent):
    width = 10.0**exponent
    t, w = np.polynomial.legendre.leggauss(60)
    found = normal_probability(a, a + width, width)
    if width < 1:
        x = a + width * (t + 1) / 2
        expected = w @ np.exp(-(x**2) / 2) * width / 2 / np.sqrt(2 * np.pi)
        assert_allclose(found, expected, rtol=1e-10)
    else:
        high, low = (ndtr(-a), ndtr(-a - width)) if a > 0 else (ndtr(a + width), ndtr(a))
        assert_allclose(found, high - low, rtol=1e-12)


def test_random_states():
    box = [-1.0] * 3, [2.0] * 3
    assert SPACE.probability(*box) == SPACE.probability(*box, random_state=0)
    assert SPACE.probability(*box) != SPACE.probability(*box, random_state=1)
    assert SPACE.probability(*box, random_state=None) != SPACE.probability(*box, random_state=None)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.0] * 3, [1.0, -1.0, 1.0]), ValueError, "lower must not exceed upper.* feature 1"),
        (([0.0] * 2, [1.0] * 3), ValueError, r"lower must have shape \(3,\)"),
        (([0.0] * 3, 1.0), ValueError, r"upper must have shape \(3,\)"),
        (([0.0] * 3, [1.0, np.nan, 1.0]), ValueError, "upper must not be NaN"),
        (([0.0] * 3,), TypeError, "upper is missing"),
        (({0: (0.0, 1.0)}, [1.0] * 3), TypeError, "upper must not be given"),
        (({0: 1.0},), ValueError, r"lower\[0\] must be two bounds"),
        (({0: (1.0, 0.0)},), ValueError, "lower must not exceed upper.* feature 0"),
        (([0.0, 2.0, 3.0], [1.0] * 3), ValueError, "which it does at feature 1$"),
        (([0.0, 0.0, 3.0], [1.0] * 3), ValueError, "which it does at feature 2$"),
        (({2: (1.0, 0.0), 1: (0.0, 1.0)},), ValueError, "which it does at feature 2$"),
        (({1: (0.0, 1.0), 2: (0.0, np.nan)},), ValueError, r"lower\[2\] must be two bounds"),
        (({3: (0.0, 1.0)},), ValueError, "unknown feature 3"),
        (({"a": (0.0, 1.0)},), ValueError, "unknown feature 'a'"),
        (({0: ("a", "b")},), TypeError, r"lower\[0\] must be an array of numbers"),
    ],
)
def test_bad_boxes_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        SPACE.probability(*arguments)


def test_bad_numbers_of_draws_are_refused():
    with pytest.raises(ValueError, match="n_draws"):
        SPACE.probability([0.0] * 3, [1.0] * 3, n_draws=0)
