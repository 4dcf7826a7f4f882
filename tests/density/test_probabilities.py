import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import multivariate_normal

from sevenhills import ROME, AutoROME, GaussianKDE, KernelMixture, ManifoldParzen
from sevenhills.density.mixture import with_samples
from sevenhills.density.probabilities import normal_probability
from sevenhills.estimate import Estimate

from .test_mixture import random_mixture

EPS = np.finfo(float).eps
UNIT = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])


def mixture_of(weights, centres, stds):
    """A mixture on the line whose kernels have widths of their own."""
    rates = 1 / np.asarray(stds, dtype=float)
    return KernelMixture(
        np.asarray(weights) / np.sum(weights),
        np.asarray(centres, dtype=float)[:, None],
        np.arange(len(rates) + 1),
        rates[:, None, None],
    )


@st.composite
def mixtures(draw, orders=6, max_kernels=40):
    """Widths over many orders of magnitude, ties, weights of zero, gaps, any unit."""
    n = draw(st.integers(1, max_kernels))
    rng = np.random.RandomState(draw(st.integers(0, 2**31)))
    centres = rng.standard_normal(n) * draw(st.sampled_from([0.0, 1.0, 100.0]))
    if draw(st.booleans()):
        centres = np.round(centres)
    stds = 10.0 ** rng.uniform(-draw(st.integers(0, orders)), 0, n)
    weights = rng.dirichlet(np.full(n, draw(st.sampled_from([0.1, 1.0, 10.0]))))
    weights[1:][rng.uniform(size=n - 1) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
    weights[0] += 0.01
    unit = draw(st.sampled_from([1e-200, 1.0, 1e6, 1e200]))
    return mixture_of(weights, centres * unit, stds * unit)


def below(density, x):
    """The sum over kernels, one point at a time."""
    rates = np.abs(density.transforms[:, 0, 0]).repeat(np.diff(density.offsets))
    scaled = ((v - density.means[:, 0]) * rates for v in np.ravel(x))
    return np.array([density.weights @ ndtr(each) for each in scaled])


def above(density, x):
    return below(density.affine([[-1.0]], [0.0]), -np.asarray(x))


@given(mixtures(), st.integers(0, 10**6))
def test_both_tails_are_relatively_exact(density, seed):
    x = density.sample(300, random_state=seed)[:, 0]
    x = np.append(x, np.median(x) + (x - np.median(x)) * 30)
    assert_allclose(density.cdf(x), below(density, x), rtol=1e-12, atol=1e-300)
    assert_allclose(density.sf(x), above(density, x), rtol=1e-12, atol=1e-300)
    assert_allclose(density.cdf(x) + density.sf(x), 1.0, atol=1e-14)


@pytest.mark.parametrize("estimator", [GaussianKDE(), AutoROME(), ManifoldParzen()])
def test_many_values_are_as_exact_as_few(estimator):
    rng = np.random.RandomState(0)
    X = np.append(rng.standard_normal(300), 12 + 0.05 * rng.standard_normal(200))[:, None]
    density = estimator.fit(X).density_
    x = density.sample(20_000, random_state=1)[:, 0]
    some = slice(None, None, 50)
    for whole, oracle in ((density.cdf(x), below), (density.sf(x), above)):
        assert_allclose(whole[some], oracle(density, x[some]), rtol=1e-13)
    order = np.argsort(x)
    assert (np.diff(density.cdf(x)[order]) >= 0).all()
    assert (np.diff(density.sf(x)[order]) <= 0).all()


def test_equals_the_integral_of_the_density():
    rng = np.random.RandomState(0)
    density = mixture_of(rng.dirichlet(np.ones(6)), rng.standard_normal(6), rng.uniform(0.1, 1, 6))
    for x in (-2.0, -0.3, 0.0, 0.9):
        parts = [
            quad(lambda t: density.pdf([[t]])[0], a, b, epsabs=1e-13, epsrel=1e-13)[0]
            for a, b in ((-12.0, -3.0), (-3.0, -2.0), (-2.0, x))
        ]
        assert_allclose(density.cdf(x), sum(parts), atol=1e-11)


@given(mixtures(), st.integers(0, 10**6))
def test_quantiles_invert(density, seed):
    x = density.sample(100, random_state=seed)[:, 0]
    pdf = np.exp(density.logpdf(x[:, None]))
    for upper, mass in ((False, density.cdf(x)), (True, density.sf(x))):
        use = (mass < 0.6) & (mass > 1e-300)
        if not use.any():
            continue
        found = (density.isf if upper else density.ppf)(mass[use])
        # What rounding of the mass, and of the value, can do.
        slack = 200 * EPS * (mass[use] / pdf[use] + np.abs(x[use]))
        assert (np.abs(found - x[use]) <= slack).all()


@given(mixtures(orders=12))
@example(KernelMixture([1.0], [[1.7640523459676642e-198]], [0, 1], [[[3.8810254952034455e201]]]))
def test_quantiles_have_their_mass(density):
    q = np.append(10.0 ** np.arange(-280, 0, 20), np.linspace(0.02, 0.98, 49))
    x = density.ppf(q)
    assert (np.diff(x) >= 0).all()
    # Values are right to two units in the last place, between which the mass may jump.
    step = 2 * np.spacing(np.abs(x))
    assert (density.cdf(x - step) <= q * (1 + 1e-11)).all()
    assert (density.cdf(x + step) >= q * (1 - 1e-11)).all()
    y = density.isf(q)
    step = 2 * np.spacing(np.abs(y))
    assert (density.sf(y + step) <= q * (1 + 1e-11)).all()
    assert (density.sf(y - step) >= q * (1 - 1e-11)).all()


def test_quantiles_in_a_gap_and_next_to_it():
    density = mixture_of([0.5, 0.5], [-1e3, 1e3], [1.0, 1e-6])
    assert -1e3 < density.ppf(0.5) < 1e3
    assert_allclose(density.ppf(0.5 - 1e-9), -1e3 - ndtri(2e-9), rtol=1e-10)
    assert_allclose(density.ppf(0.75), 1e3, rtol=1e-15)
    assert_allclose(density.isf([0.25, 0.75]), [1e3, -1e3], rtol=1e-13)


def test_closed_forms_of_a_gaussian():
    x = np.array([-37.0, -8.0, 0.0, 3.0])
    assert_allclose(UNIT.cdf(x), ndtr(x), rtol=1e-14)
    assert_allclose(UNIT.sf(-x), ndtr(x), rtol=1e-14)
    q = np.array([1e-300, 1e-9, 0.3, 0.5, 0.9])
    assert_allclose(UNIT.ppf(q), ndtri(q), rtol=1e-13, atol=1e-15)
    assert_allclose(UNIT.isf(q), -ndtri(q), rtol=1e-13, atol=1e-15)
    assert_allclose(UNIT.interval(0.9), [ndtri(0.05), -ndtri(0.05)], rtol=1e-13)


def test_the_ends():
    assert_array_equal(UNIT.cdf([-np.inf, -1e308, 1e308, np.inf]), [0, 0, 1, 1])
    assert_array_equal(UNIT.sf([-np.inf, np.inf]), [1, 0])
    assert_array_equal(UNIT.ppf([0.0, 1.0]), [-np.inf, np.inf])
    assert_array_equal(UNIT.isf([0.0, 1.0]), [np.inf, -np.inf])


@pytest.mark.parametrize("ask", [UNIT.cdf, UNIT.sf, UNIT.ppf, UNIT.isf])
def test_the_shape_stays(ask):
    assert type(ask(0.25)) is float
    assert ask([0.25, 0.5]).shape == (2,)
    assert ask([[0.25], [0.5]]).shape == (2, 1)
    assert ask([]).shape == (0,)
    assert_array_equal(ask([0.5, 0.25, 0.5]), [ask(0.5), ask(0.25), ask(0.5)])


def test_threads_change_nothing():
    rng = np.random.RandomState(0)
    density = mixture_of(np.ones(300), rng.standard_normal(300), np.full(300, 0.3))
    x = rng.standard_normal(3000)
    assert_array_equal(density.cdf(x), density.cdf(x, n_jobs=2))
    assert_array_equal(density.ppf(ndtr(x)), density.ppf(ndtr(x), n_jobs=2))


def test_memory_is_bounded(memory_limit):
    rng = np.random.RandomState(0)
    density = mixture_of(np.ones(20_000), rng.standard_normal(20_000), np.full(20_000, 0.01))
    x = rng.standard_normal(3000)
    density.cdf(x[:3])
    with memory_limit(20):
        density.cdf(x)


def test_the_distribution_of_an_estimator_follows_its_samples():
    rng = np.random.RandomState(0)
    density = GaussianKDE().fit(rng.standard_normal((300, 2))).density_.marginal(1)
    drawn = density.sample(20_000, random_state=0)
    for q in (0.1, 0.5, 0.9):
        assert abs(np.mean(drawn <= density.ppf(q)) - q) < 0.01


@pytest.mark.parametrize("question", ["cdf", "sf", "ppf", "isf", "interval"])
def test_more_features_are_refused(question):
    plane = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [np.eye(2)])
    with pytest.raises(ValueError, match=rf"{question}.*marginal\(feature\).*probability"):
        getattr(plane, question)(0.5)


@pytest.mark.parametrize(
    ("question", "value", "error", "message"),
    [
        ("cdf", np.nan, ValueError, "x must not be NaN"),
        ("sf", [[0.0, 1.0]], ValueError, "x must be a number or have shape"),
        ("cdf", "a", TypeError, "x must be an array of numbers"),
        ("ppf", 1.5, ValueError, "q must be probabilities"),
        ("ppf", [0.5, -0.1], ValueError, "q must be probabilities"),
        ("ppf", np.nan, ValueError, "q must be probabilities"),
        ("interval", 1.0, ValueError, "confidence must lie between 0 and 1"),
        ("interval", "a", TypeError, "confidence must be a number"),
    ],
)
def test_bad_values_are_refused(question, value, error, message):
    with pytest.raises(error, match=message):
        getattr(UNIT, question)(value)


# Boxes

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
