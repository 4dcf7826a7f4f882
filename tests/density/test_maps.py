"""Densities with maps: every answer against a slow one, or against another answer."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from sevenhills import KernelMixture, load, save
from sevenhills.density import (
    ChainMap,
    CircleMap,
    FeatureMap,
    LogMap,
    MirrorMap,
    ProbitMap,
    TableMap,
    YeoJohnson,
    preimages,
)

_IDENTITY = FeatureMap()
MONOTONE = {
    "log": LogMap(0.5, 1.3),
    "upper log": LogMap(2.0, 2.5, is_upper=True, reach=4.0),
    "probit": ProbitMap(-1.0, 2.0, 1.2),
    "roots": YeoJohnson(0.3, 0.2, 0.8),
    "logs": YeoJohnson(0.0, 0.2, 0.8),
    "squeezed": YeoJohnson(-1.0, 0.2, 0.8, -20.0, 20.0),
    "stretched": YeoJohnson(3.0, 0.2, 0.8, -9.0, 9.0),
    "table": TableMap(np.linspace(-2, 2, 9), np.exp(np.sin(np.arange(9.0))), -1.0),
    "log, powers": ChainMap(LogMap(0.5, 1.3), YeoJohnson(1.3, 0.2, 0.8)),
    "upper log, table": ChainMap(
        LogMap(2.0, 2.5, is_upper=True),
        TableMap(np.linspace(-2, 2, 9), np.exp(np.cos(np.arange(9.0))), -1.0),
    ),
}
FOLDING = {
    "mirror": MirrorMap(0.0, None),
    "upper mirror": MirrorMap(None, 1.5),
    "two mirrors": MirrorMap(-0.5, 1.5),
    "circle": CircleMap(-1.0, 2.5),
    "mirror, roots": ChainMap(MirrorMap(0.0, None), YeoJohnson(0.3, 0.2, 0.8)),
    "two mirrors, table": ChainMap(
        MirrorMap(-0.5, 1.5), TableMap(np.linspace(-2, 2, 9), np.exp(np.sin(np.arange(9.0))), -1.0)
    ),
}
MAPS = MONOTONE | FOLDING
TRIPLES = [
    ("log", "two mirrors"),
    ("circle", "roots"),
    ("mirror", "probit"),
    ("circle", "two mirrors"),
    ("table", "upper log"),
    ("log, powers", "mirror, roots"),
    ("two mirrors, table", "upper log"),
]

each_map = pytest.mark.parametrize("name", MAPS)
each_triple = pytest.mark.parametrize("names", TRIPLES, ids="-".join)


def mixture(*maps, seed=0, width=0.6):
    """Return six kernels of three shapes in two clusters."""
    rng, n_features = np.random.default_rng(seed), len(maps)
    spreads = rng.normal(size=(3, n_features, n_features)) * 0.3 + np.eye(n_features)
    return KernelMixture(
        rng.dirichlet(np.ones(6)),
        rng.normal(size=(6, n_features)) * 0.8 + 0.5,
        [0, 2, 4, 6],
        spreads / width,
        clusters=[0, 1, 1],
        counts=np.full(6, 30.0),
        maps=maps,
    )


def triple(names):
    return mixture(MAPS[names[0]], _IDENTITY, MAPS[names[1]])


def slow_images(each, x, n_turns=40):
    """Return many latent coordinates of a value, and the slope of the map."""
    if not each.contains(np.array(x)):
        return [], 1.0
    turns = np.arange(-n_turns, n_turns + 1)
    if isinstance(each, CircleMap):
        return x + each.period * turns, 1.0
    if isinstance(each, MirrorMap):
        low, high = each.bounds
        bound = low if np.isfinite(low) else high
        period = 2 * (high - low) * turns if np.isfinite(high - low) else np.zeros(1)
        return np.concatenate([x + period, 2 * bound - x + period]), 1.0
    if isinstance(each, ChainMap) and isinstance(each.first, MirrorMap):
        shape, ends = each.second, (each.first.low, each.first.high)
        mirror = MirrorMap(*(end if end is None else shape.forward(np.array(end)) for end in ends))
        return slow_images(mirror, shape.forward(x), n_turns)[0], np.exp(shape.log_slope(x))
    return [each.forward(x)], np.exp(each.log_slope(x))


def kinks_of(each):
    """Return the values at which the slope of a map may have a kink."""
    if isinstance(each, ChainMap):
        return each.first.inverse(np.clip(kinks_of(each.second), -100, 100))
    found = [*getattr(each, "knots", []), getattr(each, "center", np.nan)]
    if isinstance(each, LogMap):
        found.append(each.bound + (-each.reach if each.is_upper else each.reach))
    return [*found, getattr(each, "low", None) or np.nan, getattr(each, "high", None) or np.nan]


def slow_pdf(density, X, n_turns=40):
    """Sum the kernels at the preimages of one point at a time, as many as may matter."""
    precisions = density.transforms @ density.transforms.swapaxes(1, 2)
    kernels = [
        (w, multivariate_normal(mean, np.linalg.inv(precisions[g])))
        for w, mean, g in zip(
            density.weights, density.means, density.kernels.group_of_kernel, strict=True
        )
    ]
    out = []
    for x in X:
        pairs = zip(density.maps, x, strict=True)
        images, slopes = zip(*(slow_images(*pair, n_turns) for pair in pairs), strict=True)
        grid = np.stack(np.meshgrid(*images), axis=-1).reshape(-1, len(x))
        total = sum(w * kernel.pdf(grid).sum() for w, kernel in kernels) if len(grid) else 0.0
        out.append(total * np.prod(slopes))
    return np.array(out)


def edges_of(density, n=80):
    """Return ends of intervals that hold all of a density of one feature."""
    (each,) = density.maps
    ends = [
        low if np.isfinite(low) else float(density.ppf(q))
        for low, q in zip(each.bounds, (1e-13, 1 - 1e-13), strict=True)
    ]
    inner = density.ppf(np.linspace(1e-5, 1 - 1e-5, n))
    found = np.unique([*ends, *inner, *kinks_of(each)])
    return found[(found >= ends[0]) & (found <= ends[1])]


def integral(density, function=None):
    """Integrate the density, times a function, by Gauss-Legendre between quantiles."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = edges_of(density)
    middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    x = (middles[:, None] + halves[:, None] * nodes).ravel()
    values = density.pdf(x[:, None]) * (1 if function is None else function(x))
    return float((values.reshape(-1, 40) @ weights) @ halves)


@pytest.mark.parametrize("name", MONOTONE)
def test_maps_are_inverted(name):
    each = MONOTONE[name]
    z = np.random.default_rng(0).normal(size=1000) * 2
    x = each.inverse(z)
    # Values near a bound that is not zero are rounded, and the slope is steep there.
    rounding = np.spacing(np.abs(x)) * np.exp(each.log_slope(x))
    assert (np.abs(each.forward(x) - z) < 1e-9 + rounding).all()
    low, high = each.bounds
    assert (x > low).all()
    assert (x < high).all()
    assert (np.diff(x[np.argsort(z)]) >= 0).all()


@pytest.mark.parametrize("name", MONOTONE)
def test_slopes_of_maps_are_those_of_differences(name):
    each = MONOTONE[name]
    x = each.inverse(np.random.default_rng(1).normal(size=200))
    step = 1e-6
    slope = (each.forward(x + step) - each.forward(x - step)) / (2 * step)
    assert_allclose(each.log_slope(x), np.log(slope), atol=1e-6)
    first, second = each.bends(x)
    change = (each.log_slope(x + step) - each.log_slope(x - step)) / (2 * step)
    bend = np.subtract(each.bends(x + step)[0], each.bends(x - step)[0]) / (2 * step)
    away = np.ones(len(x), dtype=bool)
    for kink in (*getattr(each, "knots", []), getattr(each, "center", np.inf)):
        away &= np.abs(x - kink) > 1e-4
    assert_allclose(np.broadcast_to(first, len(x))[away], change[away], rtol=1e-4, atol=1e-6)
    assert_allclose(np.broadcast_to(second, len(x))[away], bend[away], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MONOTONE)
def test_maps_are_finite_at_the_ends_of_the_floats(name):
    each = MONOTONE[name]
    z = np.array([-1e300, -1e10, -800.0, 800.0, 1e10, 1e300])
    x = each.inverse(z)
    assert np.isfinite(x).all()
    assert each.contains(x).all()


@each_map
def test_the_density_is_the_sum_over_preimages(name):
    density = mixture(MAPS[name])
    X = np.linspace(-3, 4, 40)[:, None]
    assert_allclose(density.pdf(X), slow_pdf(density, X), rtol=1e-12, atol=1e-300)


@each_triple
def test_the_density_of_several_features_is_the_sum_over_preimages(names):
    density = triple(names)
    X = np.vstack([density.sample(4, random_state=0), [[0.1, 0.0, 9.0], [3.0, 8.0, 0.3]]])
    assert_allclose(density.pdf(X), slow_pdf(density, X, n_turns=9), rtol=1e-10, atol=1e-300)


def test_far_images_are_not_left_out():
    # The nearest kernel of the second cluster is across the seam, far beyond all kernel widths.
    density = KernelMixture.from_covariances([0.5, 0.5], [[10.0, 0.0], [355.0, 100.0]], np.eye(2))
    wrapped = density._replace(maps=(CircleMap(0.0, 360.0), _IDENTITY))
    assert_allclose(wrapped.logpdf([[20.0, 100.0]]), density.logpdf([[380.0, 100.0]]), rtol=1e-12)


def circles(n_features, width, n_kernels=30, seed=0):
    """Return correlated kernels of one width on several circles of circumference one."""
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=(n_features, n_features)) * 0.2 + np.eye(n_features)
    return KernelMixture(
        rng.dirichlet(np.ones(n_kernels)),
        rng.uniform(size=(n_kernels, n_features)),
        [0, n_kernels],
        [np.linalg.inv(width * spread)],
        maps=(CircleMap(0.0, 1.0),) * n_features,
    )


@pytest.mark.parametrize("width", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("n_features", [2, 3])
def test_images_on_several_circles(n_features, width):
    density = circles(n_features, width)
    X = np.random.default_rng(1).uniform(size=(20, n_features))
    found, slow = density.pdf(X), slow_pdf(density, X, n_turns=4)
    assert_allclose(found, slow, rtol=1e-12 if n_features == 2 else 1e-8)


@pytest.mark.parametrize("width", [0.02, 0.5, 3.0, 1e6])
def test_many_circles_do_not_have_too_many_images(width):
    density = circles(6, width, n_kernels=3)
    X = np.vstack([density.sample(3, random_state=0), np.full((1, 6), 0.5)])
    assert np.isfinite(density.logpdf(X)).all()
    if width > 1:
        assert_allclose(density.logpdf(X), 0.0, atol=0.2)


def test_small_cells_find_the_images_of_large_ones(monkeypatch):
    density = circles(3, 0.1)
    X = density.sample(10, random_state=0)
    expected = density.logpdf(X), density.grad_logpdf(X)
    monkeypatch.setattr(preimages, "_MAX_NUMBERS", 12)
    assert_allclose(density.logpdf(X), expected[0], rtol=0, atol=1e-8)
    assert_allclose(density.grad_logpdf(X), expected[1], atol=1e-6)


def test_a_wide_kernel_is_uniform_on_a_circle():
    wide = KernelMixture([1.0], [[7.0, 0.0]], [0, 1], [np.linalg.inv([[1e4, 1.0], [0.0, 1.0]])])
    wrapped = KernelMixture(
        wide.weights,
        wide.means,
        wide.offsets,
        wide.transforms,
        maps=(CircleMap(0.0, 2.0), _IDENTITY),
    )
    X = np.column_stack([np.linspace(0, 2, 9), np.linspace(-2, 2, 9)])
    expected = wide.marginal(1).logpdf(X[:, 1:]) - np.log(2.0)
    assert_allclose(wrapped.logpdf(X), expected, atol=1e-11)
    far = wrapped._replace(means=wrapped.means + np.array([2e6, 0.0]))
    again = KernelMixture.merge([wrapped, far], [0.5, 0.5])
    assert np.ptp(again.means[:, 0]) < 4.0
    assert_allclose(again.logpdf(X), expected, atol=1e-9)


def test_narrow_kernels_beside_wide_ones_have_their_own_images():
    parts = [circles(2, width, n_kernels=4, seed=i) for i, width in enumerate((0.01, 0.05, 0.5))]
    density = KernelMixture.merge(parts, [0.3, 0.5, 0.2])
    X = density.sample(30, random_state=0)
    assert_allclose(density.pdf(X), slow_pdf(density, X, n_turns=6), rtol=1e-10)
    step = np.eye(2)[0] * 1e-6
    slope = (density.logpdf(X + step) - density.logpdf(X - step)) / 2e-6
    assert_allclose(density.grad_logpdf(X)[:, 0], slope, rtol=1e-4, atol=1e-3)


def test_many_kernels_of_slowly_growing_width():
    parts = [circles(1, width, n_kernels=2) for width in np.geomspace(0.002, 0.5, 400)]
    density = KernelMixture.merge(parts, np.full(400, 1 / 400))
    X = np.random.default_rng(0).uniform(size=(20, 1))
    assert_allclose(density.pdf(X), slow_pdf(density, X, n_turns=6), rtol=1e-10)


def test_far_from_all_kernels_the_nearest_image_counts():
    # The kernel is turned: five standard deviations along one feature are a turn of the other.
    density = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [np.linalg.inv([[0.2, 1.0], [0.02, 0.0]])])
    wrapped = density._replace(maps=(CircleMap(-0.5, 1.0), _IDENTITY))
    y = 30.0
    x = 0.2 * y
    images = np.column_stack([x % 1 + np.arange(-40, 41), np.full(81, y)])
    expected = np.logaddexp.reduce(density.logpdf(images))
    assert_allclose(wrapped.logpdf([[x, y]]), expected, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e100])
@each_triple
def test_any_unit(names, unit):
    density = triple(names)
    X = density.sample(10, random_state=0)
    moved = density.affine(unit * np.eye(3), np.zeros(3))
    expected = density.logpdf(X) - 3 * np.log(unit)
    assert_allclose(moved.logpdf(X * unit), expected, rtol=1e-8)
    assert moved._chart.contains(moved.sample(100, random_state=0)).all()


def test_kernels_without_weight_do_not_matter():
    density = triple(("circle", "log"))
    weightless = density._replace(means=density.means + 1e9)
    both = KernelMixture.merge([density, weightless], [1.0, 0.0])
    X = density.sample(10, random_state=0)
    assert_allclose(both.logpdf(X), density.logpdf(X), rtol=1e-12)
    assert_allclose(both.grad_logpdf(X), density.grad_logpdf(X), rtol=1e-9)


def test_a_mode_of_the_latent_coordinates_may_be_a_minimum():
    knots = np.linspace(-3, 3, 61)
    table = TableMap(knots, 0.2 + knots**2 / (1 + knots**2), 0.0)
    middle = table.forward(np.zeros(1))
    density = KernelMixture([1.0], [middle], [0, 1], [[[1.0]]], maps=(table,))
    assert density.pdf([[0.0]]) < density.pdf([[0.5]])
    for place in (density.modes().locations[0, 0], density.mode()[0]):
        around = density.logpdf(place * np.array([[0.99], [1.0], [1.01]]))
        assert around.argmax() == 1


@pytest.mark.parametrize("names", [(name, name) for name in FOLDING] + TRIPLES, ids="-".join)
def test_images_of_kernels_are_those_of_points(names):
    density = triple(names)
    X = density.sample(60, random_state=0)
    X[::2, 1] *= 30  # far from all kernels
    found = density._answers(X, None, preimages.Preimages.log_densities)
    assert_allclose(density.logpdf(X), found, rtol=1e-10, atol=1e-10)


def test_many_images_of_kernels_are_not_made(monkeypatch):
    density = triple(("circle", "two mirrors"))
    monkeypatch.setattr(preimages, "_MAX_GROWTH", 1)
    monkeypatch.setattr(preimages, "_FEW_IMAGES", 1)
    assert density._chart.unfolded() is None
    X = density.sample(20, random_state=0)
    assert_allclose(density.logpdf(X), np.log(slow_pdf(density, X)), rtol=1e-9)


@each_map
def test_densities_integrate_to_one(name):
    assert integral(mixture(MAPS[name])) == pytest.approx(
        1.0, abs=1e-8 if name != "table" else 1e-7
    )


@pytest.mark.parametrize("name", [n for n in MAPS if np.isfinite(MAPS[n].bounds).any()])
def test_there_is_nothing_outside(name):
    density, (low, high) = mixture(MAPS[name]), MAPS[name].bounds
    drawn = density.sample(5000, random_state=0)[:, 0]
    assert (drawn >= low).all()
    assert (drawn <= high).all()
    if name != "circle":
        outside = np.array([[low - 1e-9], [high + 1e-9]])
        outside = outside[np.isfinite(outside[:, 0])]
        assert (density.logpdf(outside) == -np.inf).all()
    assert density.probability([low], [high]) == 1.0
    assert density.cdf(low) == 0.0
    assert density.sf(high) == 0.0


@each_map
def test_tails_and_quantiles(name):
    density = mixture(MAPS[name])
    q = np.array([1e-9, 1e-6, 0.01, 0.3, 0.5, 0.8, 0.999])
    assert_allclose(density.cdf(density.ppf(q)), q, rtol=1e-6)
    assert_allclose(density.sf(density.isf(q)), q, rtol=1e-6)
    assert_allclose(density.cdf(density.ppf(q)), q, rtol=0, atol=1e-13)
    x = density.sample(3000, random_state=1)[:, 0]
    assert_allclose(density.cdf(x) + density.sf(x), 1.0, rtol=1e-13)
    a, b = np.quantile(x, [0.2, 0.6])
    assert density.probability([a], [b]) == pytest.approx(
        density.cdf(b) - density.cdf(a), abs=1e-13
    )
    assert_array_equal(density.ppf([0.0, 1.0]), MAPS[name].bounds)
    assert_array_equal(density.cdf([-np.inf, np.inf]), [0.0, 1.0])


@each_map
def test_the_distribution_of_samples(name):
    density = mixture(MAPS[name])
    x = density.sample(20_000, random_state=0)[:, 0]
    u = np.sort(density.cdf(x))
    assert np.abs(u - np.linspace(0, 1, len(u))).max() < 1.8 / np.sqrt(len(u))


@each_triple
def test_marginal_times_conditional_is_the_joint(names):
    density = triple(names)
    X = density.sample(8, random_state=2)
    joint = density.logpdf(X)
    for given in ([0], [2], [0, 2], [1]):
        free = np.setdiff1d(np.arange(3), given)
        marginal = density.marginal(given).logpdf(X[:, given])
        for i, x in enumerate(X):
            rest = density.conditional(dict(zip(given, x[given].tolist(), strict=True)))
            assert_allclose(marginal[i] + rest.logpdf(x[None, free])[0], joint[i], rtol=1e-11)
            assert rest.counts.sum() == pytest.approx(180.0)
        absent = X.copy()
        absent[:, free] = np.nan
        assert_allclose(density.logpdf(absent, missing="marginal"), marginal, rtol=1e-13)


@each_triple
def test_derivatives_are_those_of_differences(names):
    density = triple(names)
    X = density.sample(12, random_state=3)
    for i in range(3):
        ends = np.array(density._chart.maps[i].bounds)
        X = X[np.abs(X[:, i, None] - ends).min(axis=1) > 0.05]
    gradients, hessians = density.grad_logpdf(X), density.hess_logpdf(X)
    for m, unit in enumerate(1e-5 * np.eye(3)):
        slope = (density.logpdf(X + unit) - density.logpdf(X - unit)) / 2e-5
        bend = (density.grad_logpdf(X + unit) - density.grad_logpdf(X - unit)) / 2e-5
        assert_allclose(gradients[:, m], slope, rtol=1e-5, atol=1e-6)
        assert_allclose(hessians[:, m], bend, rtol=1e-4, atol=1e-5)
    assert_array_equal(np.isnan(density.grad_logpdf([[0.1, 0.0, 99.0]])).any(), names[1] != "roots")


@pytest.mark.parametrize("name", [n for n in MAPS if n != "circle"])
def test_moments_are_integrals(name):
    density = mixture(MAPS[name], width=0.3)
    mean = integral(density, lambda x: x)
    assert density.mean()[0] == pytest.approx(mean, rel=1e-5, abs=1e-5)
    variance = integral(density, lambda x: (x - mean) ** 2)
    assert density.cov()[0, 0] == pytest.approx(variance, rel=1e-4)


@each_triple
def test_covariances_are_those_of_samples(names):
    maps = MAPS[names[0]], _IDENTITY, MAPS[names[1]]
    density = mixture(*maps, width=0.3)
    drawn = density.sample(200_000, random_state=0)
    mean = density.mean()
    for j, each in enumerate(maps):
        if isinstance(each, CircleMap):
            drawn[:, j] = (drawn[:, j] - mean[j] + each.period / 2) % each.period
            turn = np.exp(2j * np.pi * (drawn[:, j] - each.period / 2) / each.period).mean()
            assert abs(np.angle(turn)) < 0.06
        else:
            assert abs(drawn[:, j].mean() - mean[j]) < 5 * drawn[:, j].std() / np.sqrt(len(drawn))
    spread = drawn.std(axis=0)
    assert_allclose(density.cov() / np.outer(spread, spread), np.corrcoef(drawn.T), atol=0.05)


@each_map
def test_modes_are_maxima(name):
    density = mixture(MAPS[name], width=0.3)
    modes, mode = density.modes(), density.mode()
    low, high = MAPS[name].bounds
    x = np.clip(modes.locations + np.linspace(-1e-3, 1e-3, 21), low, high)
    around = density.logpdf(x.reshape(-1, 1)).reshape(x.shape)
    assert (around.max(axis=1) <= modes.log_heights + 1e-6).all()
    assert density.logpdf(mode[None])[0] >= modes.log_heights.max() - 1e-6
    assert modes.shares.sum() == pytest.approx(1.0)
    grid = density.logpdf(density.sample(2000, random_state=0))
    assert density.logpdf(mode[None])[0] >= grid.max() - 1e-6


@each_triple
def test_labels_and_support(names):
    density = triple(names)
    X = density.sample(30, random_state=4)
    shares = density.predict_proba(X)
    assert_allclose(shares.sum(axis=1), 1.0)
    parts = [density.component(label) for label in (0, 1)]
    weights = [density.weights[:2].sum(), density.weights[2:].sum()]
    logs = np.stack([np.log(w) + part.logpdf(X) for w, part in zip(weights, parts, strict=True)])
    assert_allclose(shares.T, np.exp(logs - density.logpdf(X)), rtol=1e-9)
    table = density._log_kernels(X) + density.log_weights
    r = np.exp(table - density.logpdf(X)[:, None])
    assert_allclose(r.sum(axis=1), 1.0, rtol=1e-9)
    assert_allclose(density.effective_sample_size(X), 1 / (r**2 / 30).sum(axis=1), rtol=1e-9)
    assert not density.is_extrapolation(X).all()
    low, high = density.bootstrap(50).band(X)
    assert (low <= high).all()


@pytest.mark.parametrize("names", TRIPLES[:4], ids="-".join)  # the others take seconds
def test_missing_values_are_imputed_inside(names):
    density = triple(names)
    X = density.sample(6, random_state=5)
    X[:3, 0], X[2:5, 2] = np.nan, np.nan
    for method in ("mean", "mode", "sample"):
        filled = density.impute(X, method, random_state=0)
        assert density._chart.contains(filled).all()
        assert_array_equal(filled[5], X[5])
    given = dict(zip([1, 2], X[0, 1:].tolist(), strict=True))
    assert_allclose(density.impute(X)[0, 0], density.conditional(given).mean()[0], rtol=1e-9)
    many = np.repeat(X[:1], 250, axis=0)
    drawn = np.sort(density.impute(many, "sample", random_state=1)[:, 0])
    expected = density.conditional(given).cdf(drawn)
    assert np.abs(expected - np.linspace(0, 1, 250)).max() < 1.8 / np.sqrt(250)


@each_triple
def test_affine_maps(names):
    density = triple(names)
    X = density.sample(20, random_state=6)
    factors, shift = np.array([2.0, 3.0, -1.5]), np.array([1.0, 2.0, 3.0])
    moved = density.affine(np.diag(factors), shift)
    expected = density.logpdf(X) - np.log(np.abs(factors)).sum()
    assert_allclose(moved.logpdf(X * factors + shift), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="mixes feature 0"):
        density.affine(np.eye(3) + np.eye(3, k=1), shift)


def test_a_feature_may_be_mixed_with_others_without_maps():
    density = mixture(_IDENTITY, _IDENTITY, MAPS["log"])
    X = density.sample(5, random_state=0)
    matrix = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    moved = density.affine(matrix, np.zeros(3))
    assert_allclose(moved.logpdf(X @ matrix), density.logpdf(X) - np.log(2), rtol=1e-12)


@each_triple
def test_boxes_hold_the_share_of_samples(names):
    density = triple(names)
    drawn = density.sample(100_000, random_state=7)
    box = {
        0: tuple(np.quantile(drawn[:, 0], [0.2, 0.7])),
        2: tuple(np.quantile(drawn[:, 2], [0.3, 1])),
    }
    inside = [(drawn[:, j] >= a) & (drawn[:, j] <= b) for j, (a, b) in box.items()]
    share = np.logical_and.reduce(inside).mean()
    assert density.probability(box) == pytest.approx(share, abs=5 * np.sqrt(share / 100_000))


@each_triple
def test_products_and_entropies_are_estimates(names):
    maps = MAPS[names[0]], _IDENTITY, MAPS[names[1]]
    density, other = (mixture(*maps, seed=seed, width=0.2) for seed in (0, 3))
    product = density.integrate_product(other)
    values = density.pdf(other.sample(10_000, random_state=9))
    error = np.hypot(product.std_error, values.std() / np.sqrt(len(values)))
    assert abs(product - values.mean()) < 5 * error
    assert np.exp(density.integrate_product(other, log=True)) == pytest.approx(product)
    assert density.entropy().std_error > 0


@each_triple
def test_compression_keeps_maps(names):
    density = triple(names)
    smaller = density.compress(density.sample(2000, random_state=1), max_loss=1.0, max_kernels=4)
    assert smaller.density.maps == density.maps
    assert smaller.n_after <= 4


def test_sums_need_the_same_maps():
    one, other = mixture(MAPS["log"]), mixture(MAPS["log"], seed=1)
    both = KernelMixture.merge([one, other], [0.3, 0.7])
    X = one.sample(10, random_state=0)
    assert_allclose(both.pdf(X), 0.3 * one.pdf(X) + 0.7 * other.pdf(X), rtol=1e-12)
    with pytest.raises(ValueError, match="same maps"):
        KernelMixture.merge([one, mixture(MAPS["probit"])], [0.5, 0.5])
    table = TableMap([0.0, 1.0], [1.0, 2.0], 0.0)
    assert table == TableMap([0.0, 1.0], [1.0, 2.0], 0.0)
    assert table != TableMap([0.0, 1.0], [1.0, 2.0], 1.0)


@each_triple
def test_files_and_pickles_keep_every_bit(names, tmp_path):
    density = triple(names)
    X = density.sample(20, random_state=0)
    save(density, tmp_path / "density.shm")
    for copy in (load(tmp_path / "density.shm"), pickle.loads(pickle.dumps(density))):
        assert copy.maps == density.maps
        assert_array_equal(copy.logpdf(X), density.logpdf(X))
        assert_array_equal(copy.sample(9, random_state=1), density.sample(9, random_state=1))


def test_identities_are_no_maps():
    plain = mixture(_IDENTITY, _IDENTITY)
    assert plain.maps is None
    assert triple(("log", "probit")).marginal(1).maps is None
    assert triple(("log", "probit")).conditional({0: 1.0, 2: 0.5}).maps is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LogMap(0.0, 0.0), "scale must be positive"),
        (lambda: LogMap(np.inf, 1.0), "bound must be finite"),
        (lambda: ProbitMap(1.0, 1.0, 1.0), "low must be below"),
        (lambda: YeoJohnson(-1.0, 0.0, 1.0), "high must be given"),
        (lambda: YeoJohnson(3.0, 0.0, 1.0), "low must be given"),
        (lambda: TableMap([0.0, 0.0], [1.0, 1.0], 0.0), "knots must be ascending"),
        (lambda: TableMap([0.0, 1.0], [1.0, 0.0], 0.0), "slopes must be positive"),
        (lambda: MirrorMap(None, None), "low or high must be given"),
        (lambda: MirrorMap(2.0, 1.0), "low must be below"),
        (lambda: CircleMap(0.0, -1.0), "period must be positive"),
    ],
)
def test_impossible_maps_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_maps_of_a_density_are_checked():
    with pytest.raises(TypeError, match="maps must be 2 FeatureMaps"):
        KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [np.eye(2)], maps=(LogMap(0.0, 1.0),))
    with pytest.raises(TypeError, match="maps must be 1 FeatureMaps"):
        KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]], maps=("log",))


def test_conditioning_on_values_outside_is_refused():
    density = mixture(MAPS["log"], _IDENTITY)
    with pytest.raises(ValueError, match="the density is zero"):
        density.conditional({0: 0.5})
    with pytest.raises(ValueError, match="row 0 has a value outside"):
        density.impute([[0.2, np.nan]], "sample")


def test_many_groups_of_like_widths_have_few_parts():
    """Parts are not divided again, however many groups they have."""
    rng, n = np.random.default_rng(0), 1500
    density = KernelMixture(
        np.full(n, 1 / n),
        rng.normal(size=(n, 1)),
        np.arange(n + 1),
        1 / rng.uniform(0.3, 0.6, size=(n, 1, 1)),
        maps=(MirrorMap(0.0, None),),
    )
    X = np.array([[0.0], [0.1], [2.0]])
    assert_allclose(density.pdf(X), slow_pdf(density, X), rtol=1e-10)


# Regions


def test_regions_on_a_circle_cross_its_end():
    density = KernelMixture(
        [0.7, 0.3], [[0.0], [200.0]], [0, 2], [[[0.1]]], maps=(CircleMap(0.0, 360.0),)
    )
    intervals = density.hdr_intervals(0.9, n_draws=100_000)
    assert intervals.shape == (2, 2)
    (a, b), (c, d) = intervals
    assert a < 200 < b
    assert (c + d) / 2 == pytest.approx(360.0, abs=0.01)
    heights = density.logpdf(intervals.reshape(-1, 1))
    assert_allclose(heights, density.hdr_level(0.9, n_draws=100_000), atol=1e-9)
    mass = sum(density.probability([low], [high]) for low, high in intervals)
    assert mass == pytest.approx(0.9, abs=0.005)
    turns = [0.0, 90.0, 180.0, 270.0]
    even = KernelMixture.from_covariances([0.25] * 4, np.array([turns]).T, [[100.0]])
    four = even._replace(maps=(CircleMap(0.0, 360.0),)).hdr_intervals(0.8)
    assert four.shape == (4, 2)
    assert (np.diff(four, axis=1) < 60).all()


def test_the_whole_circle_is_one_interval():
    density = KernelMixture([1.0], [[0.5]], [0, 1], [[[2.0]]], maps=(CircleMap(0.0, 1.0),))
    found = density.hdr_intervals(1 - 1e-12)
    assert_allclose(np.diff(found), [[1.0]], atol=0.01)


@pytest.mark.parametrize("name", ["mirror", "upper mirror", "two mirrors", "log", "probit"])
def test_intervals_end_at_bounds(name):
    density = mixture(MAPS[name], width=0.3)
    low, high = MAPS[name].bounds
    for confidence in (0.5, 0.9, 0.999):
        found = density.hdr_intervals(confidence, n_draws=20_000)
        assert (found >= low).all()
        assert (found <= high).all()
        mass = sum(density.probability([a], [b]) for a, b in found)
        assert mass == pytest.approx(confidence, abs=0.015)
        inner = found[(found > low + 1e-9) & (found < high - 1e-9)]
        level = density.hdr_level(confidence, n_draws=20_000)
        assert_allclose(density.logpdf(inner[:, None]), level, atol=1e-6)


def area_of(outlines):
    return sum(
        (x[:-1] @ y[1:] - x[1:] @ y[:-1]) / 2 for x, y in (outline.T for outline in outlines)
    )


def test_contours_on_a_circle_have_no_break():
    density = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[400.0, 0.0], [0.0, 1.0]])
    wrapped = density._replace(maps=(CircleMap(0.0, 360.0), _IDENTITY))
    (outline,), (expected,) = wrapped.hdr_contours(0.8), density.hdr_contours(0.8)
    assert_array_equal(wrapped.frame[:, 0], [180.0, 540.0])
    assert area_of([outline]) == pytest.approx(area_of([expected]), rel=0.05)
    assert outline[:, 0].mean() == pytest.approx(360.0, abs=3.0)


def test_contours_stay_inside_the_support():
    density = mixture(MAPS["mirror"], MAPS["two mirrors"], width=0.3)
    drawn = density.sample(10_000, random_state=0)
    for confidence in (0.5, 0.95):
        outlines = density.hdr_contours(confidence, n_grid=64)
        ends = np.concatenate(outlines)
        assert density._chart.contains(ends).all()
        level = density.hdr_level(confidence)
        share = (density.logpdf(drawn) > level).mean()
        x = np.random.default_rng(0).uniform(size=(20_000, 2)) * [4.0, 2.0] + [0.0, -0.5]
        volume = 8.0 * (density.logpdf(x) > level).mean()
        assert area_of(outlines) == pytest.approx(volume, rel=0.05)
        assert share == pytest.approx(confidence, abs=0.02)
