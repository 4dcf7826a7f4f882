import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

from sevenhills import AutoROME, GaussianKDE, KernelMixture, ManifoldParzen

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
