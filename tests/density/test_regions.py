import numpy as np
import pytest
from matplotlib.path import Path
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, kstest

from sevenhills import (
    ROME,
    AutoROME,
    GaussianKDE,
    KernelMixture,
    ManifoldParzen,
    VineDensity,
    datasets,
)

from .test_mixture import random_mixture

ESTIMATORS = [ROME(), AutoROME(), ManifoldParzen(), GaussianKDE(), VineDensity()]
UNIT = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])


def gaussian(n_features, scale=1.0):
    rng = np.random.RandomState(n_features)
    transform = rng.standard_normal((n_features, n_features)) + 3 * np.eye(n_features)
    centre = scale * rng.standard_normal((1, n_features))
    return KernelMixture([1.0], centre, [0, 1], [transform / scale])


def top_of(density):
    """The log density at the centre of a single kernel."""
    return float(density.logpdf(density.means)[0])


# Closed forms of a Gaussian


@pytest.mark.parametrize("n_features", [1, 2, 24])
@pytest.mark.parametrize("mass", [0.05, 0.5, 0.95])
def test_level_of_a_gaussian(n_features, mass):
    density = gaussian(n_features)
    found = density.hdr_level(mass)
    exact = top_of(density) - chi2(n_features).ppf(mass) / 2
    assert abs(found - exact) < 4 * found.std_error
    assert 0 < found.std_error < 0.2
    assert found.n == 10_000


@pytest.mark.parametrize("n_features", [1, 2, 24])
def test_coverage_of_a_gaussian(n_features):
    density = gaussian(n_features)
    X = density.sample(200, random_state=5)
    found, std = density.hdr_probability(X, return_std=True)
    exact = chi2(n_features).cdf(2 * (top_of(density) - density.logpdf(X)))
    assert np.abs((found - exact) / std).max() < 4.5
    # All points are compared with the same draws; so the scores go together.
    assert abs(np.mean(found - exact)) < 0.015


@pytest.mark.parametrize("n_features", [1, 2, 24])
def test_entropy_of_a_gaussian(n_features):
    density = gaussian(n_features)
    found = density.entropy()
    exact = n_features / 2 - top_of(density)
    assert abs(found - exact) < 4 * found.std_error
    assert_allclose(found.std_error, np.sqrt(n_features / 2 / 10_000), rtol=0.1)


def test_errors_are_honest():
    density = gaussian(3)
    exact = {"entropy": 1.5 - top_of(density)}
    exact |= {m: top_of(density) - chi2(3).ppf(m) / 2 for m in (0.1, 0.9)}
    scores = {key: [] for key in exact}
    for seed in range(150):
        found = {"entropy": density.entropy(400, seed)}
        found |= {m: density.hdr_level(m, 400, seed) for m in (0.1, 0.9)}
        for key, value in found.items():
            scores[key].append((value - exact[key]) / value.std_error)
    for values in scores.values():
        assert abs(np.mean(values)) < 0.4
        assert 0.8 < np.std(values) < 1.3


# Laws that hold for every density


@pytest.fixture(scope="module")
def fitted():
    """Every estimator, fitted to two features and to five."""
    rng = np.random.RandomState(0)
    plane = datasets.load("two_moons").split(run=0)[0][:300]
    space = np.concatenate([rng.standard_normal((150, 5)), 0.2 * rng.standard_normal((150, 5)) + 3])
    return [(e, type(e)().fit(X).density_) for X in (plane, space) for e in ESTIMATORS]


def test_coverage_of_own_samples_is_uniform(fitted):
    for estimator, density in fitted:
        values = density.hdr_probability(density.sample(1000, random_state=7))
        assert kstest(values, "uniform").pvalue > 0.005, estimator


@pytest.mark.whole
def test_a_level_has_its_mass(fitted):
    for estimator, density in fitted:
        held = density.logpdf(density.sample(4000, random_state=11))
        for mass in (0.1, 0.5, 0.9):
            level = density.hdr_level(mass)
            share = np.mean(held >= level)
            error = np.sqrt(mass * (1 - mass) * (1 / 4000 + 1 / 10_000))
            assert abs(share - mass) < 4 * error, estimator
            assert np.isfinite(level.std_error)


def test_a_level_has_its_mass_by_integration():
    density = random_mixture(1, 2, spread=1.0)
    axis = np.linspace(-14, 14, 401)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    values = density.logpdf(grid)
    for mass in (0.3, 0.9):
        level = density.hdr_level(mass, n_draws=40_000)
        inside = np.exp(values[values >= level]).sum() * (axis[1] - axis[0]) ** 2
        assert abs(inside - mass) < 0.015


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_outlines_hold_the_mass(estimator):
    X = datasets.load("aniso").split(run=0)[0][:300]
    density = type(estimator)().fit(X).density_
    drawn = density.sample(4000, random_state=3)
    for mass in (0.5, 0.95):
        polygons = density.hdr_contours(mass, n_grid=128)
        level = density.hdr_level(mass)
        inside = signed_count(polygons, drawn)
        assert set(np.unique(inside)) <= {0, 1}
        assert np.mean(inside == (density.logpdf(drawn) >= level)) > 0.995
        error = np.sqrt(mass * (1 - mass) * (1 / 4000 + 1 / 10_000))
        assert abs(inside.mean() - mass) < 4 * error + 0.003


def area(polygon):
    x, y = polygon.T
    return 0.5 * np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])


def signed_count(polygons, points):
    """How many outlines are around every point, holes counting negatively."""
    return sum(np.sign(area(p)) * Path(p).contains_points(points) for p in polygons)


# Outlines


@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
def test_the_outline_of_a_gaussian_is_its_ellipse(unit):
    density = gaussian(2, unit)
    (polygon,) = density.hdr_contours(0.8)
    level = float(density.hdr_level(0.8))
    assert_array_equal(polygon[0], polygon[-1])
    assert_allclose(density.logpdf(polygon), level, rtol=1e-12, atol=1e-11)
    radius = np.sqrt(2 * (top_of(density) - level))
    turned = (polygon - density.means) @ density.transforms[0]
    assert_allclose(np.linalg.norm(turned, axis=1), radius, rtol=1e-10)
    assert_allclose(area(turned), np.pi * radius**2 * np.sign(area(turned)), rtol=1e-2)
    assert area(polygon / unit) > 0
    assert len(polygon) > 100


def test_holes_turn_the_other_way():
    angles = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    centres = 5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ring = KernelMixture(np.full(100, 0.01), centres, [0, 100], [2 * np.eye(2)])
    outer, hole = sorted(ring.hdr_contours(0.9), key=area, reverse=True)
    assert area(outer) > np.pi * 25
    assert -np.pi * 25 < area(hole) < -np.pi * 9
    assert_array_equal(signed_count([outer, hole], [[0.0, 0.0], [5.0, 0.0], [9.0, 0.0]]), [0, 1, 0])


def test_small_clusters_far_apart_are_found():
    density = KernelMixture(
        [0.5, 0.5], [[0.0, 0.0], [1e4, 3.0]], [0, 1, 2], [np.eye(2), 1e3 * np.eye(2)]
    )
    polygons = density.hdr_contours(0.95)
    assert_array_equal(signed_count(polygons, density.means), [1, 1])
    assert len(polygons) == 2


def test_intervals_of_a_line():
    level = float(UNIT.hdr_level(0.9))
    ((lower, upper),) = UNIT.hdr_intervals(0.9)
    edge = np.sqrt(-2 * level - np.log(2 * np.pi))
    assert_allclose([lower, upper], [-edge, edge], rtol=1e-12)


def test_intervals_hold_the_mass():
    density = random_mixture(4, 1, 3, 30, spread=8.0)
    found = density.hdr_intervals(0.8)
    assert (np.diff(found.ravel()) > 0).all()
    assert_allclose(density.logpdf(found.reshape(-1, 1)), density.hdr_level(0.8), rtol=1e-10)
    assert abs(np.diff(density.cdf(found.ravel()))[::2].sum() - 0.8) < 0.02
    axis = np.linspace(-40, 40, 5001)
    inside = ((axis >= found[:, :1]) & (axis <= found[:, 1:])).any(axis=0)
    assert_array_equal(inside, density.logpdf(axis[:, None]) >= density.hdr_level(0.8))


# Draws


def test_where_the_density_is_zero_all_of_it_is_higher():
    found, std = UNIT.hdr_probability([[1e300], [0.0]], return_std=True)
    assert_array_equal(found, [1.0, 0.0])
    assert (std > 0).all()


def test_draws_are_remembered():
    class Counting(KernelMixture):
        n_calls = 0

        def sample(self, n_samples=1, random_state=None):
            type(self).n_calls += 1
            return super().sample(n_samples, random_state)

    density = Counting([1.0], [[0.0]], [0, 1], [[[1.0]]])
    first = density.hdr_probability([[0.3]])
    density.hdr_level(0.5)
    density.entropy()
    assert_array_equal(density.hdr_probability([[0.3]], random_state=np.int64(0)), first)
    assert Counting.n_calls == 1
    for seed in range(10):
        density.entropy(10, seed)
    assert len(density._drawn) <= 4
    density.entropy(10, None)
    assert Counting.n_calls == 12
    assert "_remembered" not in density.__getstate__()


def test_random_states_and_threads():
    assert UNIT.entropy() == UNIT.entropy(random_state=0, n_jobs=2)
    assert UNIT.entropy(random_state=1) != UNIT.entropy()
    assert UNIT.entropy(random_state=None) != UNIT.entropy(random_state=None)
    assert UNIT.entropy(random_state=np.random.RandomState(0)) == UNIT.entropy()


def test_too_few_draws_give_no_error_estimate():
    assert np.isnan(UNIT.hdr_level(0.9999, n_draws=100).std_error)
    assert np.isnan(UNIT.entropy(n_draws=1).std_error)


def test_a_density_that_is_not_normalised_is_refused():
    X = np.random.RandomState(0).standard_normal((60, 2))
    density = ROME(density="knn").fit(X).density_
    for ask in (
        density.entropy,
        lambda: density.hdr_level(0.5),
        lambda: density.hdr_probability(X),
        lambda: density.hdr_contours(0.5),
    ):
        with pytest.raises(ValueError, match="NeighborDensity is not normalized"):
            ask()


@pytest.mark.parametrize("question", ["hdr_level", "hdr_intervals", "hdr_contours"])
@pytest.mark.parametrize(
    ("mass", "error"),
    [(0.0, ValueError), (1.0, ValueError), (np.nan, ValueError), ("a", TypeError)],
)
def test_bad_masses_are_refused(question, mass, error):
    with pytest.raises(error, match="confidence"):
        getattr(UNIT, question)(mass)


def test_other_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"hdr_contours.*marginal\(\[i, j\]\)"):
        random_mixture(0, 3).hdr_contours(0.5)
    with pytest.raises(ValueError, match=r"hdr_intervals.*marginal\(feature\)"):
        random_mixture(0, 2).hdr_intervals(0.5)


@pytest.mark.parametrize(("n_draws", "error"), [(0, ValueError), (1.5, TypeError)])
def test_bad_numbers_are_refused(n_draws, error):
    for ask in (
        UNIT.entropy,
        lambda n: UNIT.hdr_level(0.5, n),
        lambda n: UNIT.hdr_probability([[0]], n),
    ):
        with pytest.raises(error, match="n_draws"):
            ask(n_draws)
    with pytest.raises(error, match="n_grid"):
        UNIT.hdr_intervals(0.5, n_grid=n_draws)
