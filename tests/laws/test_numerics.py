"""Numbers at the ends of what floats can hold: far tails, far origins, columns of all sizes.

Checks are calls, not bare asserts, so that they are made under ``python -O``, too.
"""

import copy
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_, assert_allclose, assert_array_equal
from scipy.stats import gaussian_kde
from sklearn.base import clone

from sevenhills import (
    ROME,
    AutoROME,
    GaussianKDE,
    KernelMixture,
    ManifoldParzen,
    VineDensity,
    compat,
    datasets,
)
from sevenhills.clustering import Points
from sevenhills.density.bootstrap import Bootstrap

from ..density.test_engines import by_engine
from ..oracles import rome_log_density
from .estimators import AND_COMPAT, NORMALIZED, WITH_KERNELS, for_each

pytestmark = pytest.mark.usefixtures("silent")

each_mixture = for_each(WITH_KERNELS)


# The direct sum


def log_terms(density, X):
    """The exponent of every kernel at every point, and the slopes of it, in more digits."""
    group = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
    transforms = density.transforms[group].astype(np.longdouble)
    apart = X[:, None].astype(np.longdouble) - density.means
    turned = np.einsum("qkm,kmj->qkj", apart, transforms)
    with np.errstate(divide="ignore", over="ignore"):
        logs = np.log(density.weights.astype(np.longdouble)) + density.log_dets[group]
        logs = logs - np.square(turned).sum(axis=-1) / 2
    return logs, np.einsum("qkj,kmj->qkm", turned, transforms)


def direct_log_density(density, X):
    """The log density by the sum over all kernels, relative to the highest, in more digits."""
    logs, _ = log_terms(density, X)
    highest = logs.max(axis=1)
    sums = highest + np.log(np.exp(logs - highest[:, None]).sum(axis=1))
    with np.errstate(over="ignore"):
        return (sums - density.n_features / 2 * np.log(2 * np.longdouble(np.pi))).astype(float)


def change_by_moving_means(density, X, step):
    """How much log densities change, to first order, if every centre moves by a step at most."""
    logs, slopes = log_terms(density, X)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return (step * np.einsum("qk,qkm->q", shares, np.abs(slopes))).astype(float)


# Far tails


DEPTHS = [1e3, 1e5, 1e8]
each_depth = pytest.mark.parametrize("depth", DEPTHS)


def mixture_of(n_groups, group_size, n_features):
    """Groups of very different widths and weights, at different places."""
    rng = np.random.RandomState(n_groups + n_features)
    shapes = (n_groups, n_features, n_features)
    widths = 10.0 ** rng.uniform(-2, 1, (n_groups, 1, 1))
    transforms = (np.eye(n_features) + 0.3 * rng.uniform(-1, 1, shapes)) / widths
    places = np.repeat(5 * rng.standard_normal((n_groups, n_features)), group_size, axis=0)
    weights = rng.dirichlet(np.full(n_groups * group_size, 0.3))
    return KernelMixture(
        weights=weights,
        means=places + rng.standard_normal(places.shape),
        offsets=group_size * np.arange(n_groups + 1),
        transforms=transforms,
    )


MIXTURES = {
    "one kernel": lambda m: mixture_of(1, 1, m),
    "one group": lambda m: mixture_of(1, 600, m),
    "several groups": lambda m: mixture_of(6, 120, m),
    "own covariances": lambda m: mixture_of(300, 1, m),
    "small groups": lambda m: mixture_of(40, 7, m),
    "large groups and small ones": lambda m: KernelMixture.merge(
        [mixture_of(3, 100, m), mixture_of(50, 2, m)], [0.9, 0.1]
    ),
}


def points_at_depth(density, depth, n_points=12):
    """Points in all directions whose log density is about minus the depth."""
    rng = np.random.RandomState(7)
    ways = rng.standard_normal((n_points, density.n_features))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    reach = np.linalg.norm(ways @ density.transforms, axis=2).min(axis=0)
    return density.weights @ density.means + ways * (np.sqrt(2 * depth) / reach)[:, None]


def is_exact_at(density, depth, log_density):
    far = points_at_depth(density, depth)
    expected = direct_log_density(density, far)
    assert_(
        -20 * depth < expected.min() <= expected.max() < -depth / 20, f"another depth: {expected}"
    )
    assert_allclose(log_density(far), expected, rtol=1e-9)


@pytest.mark.parametrize("n_features", [1, 2, 6, 24])
@pytest.mark.parametrize("kind", MIXTURES)
@each_depth
def test_tails_of_mixtures(kind, n_features, depth):
    density = MIXTURES[kind](n_features)
    is_exact_at(density, depth, density.logpdf)


@pytest.fixture(scope="module")
def sets():
    """Data by name."""
    blobs = np.random.RandomState(3).standard_normal((90, 6))
    blobs[:30] = 0.01 * blobs[:30] + 8
    blobs[30:40] *= 6
    return {
        "two moons": datasets.load("two_moons").sample(150, random_state=1),
        "trajectories": datasets.load("trajectories").sample(70, random_state=1),
        "blobs": blobs,
        "lattice": np.round(2 * blobs[:60, :2]) / 4,
    }


@each_mixture
@pytest.mark.parametrize("name", ["trajectories", "blobs"])
def test_tails_of_estimators(estimator, name, sets):
    model = copy.deepcopy(estimator).fit(sets[name])
    for depth in DEPTHS:
        is_exact_at(model.density_, depth, model.score_samples)


@each_depth
def test_the_direct_sum_is_exact(depth):
    """Against fractions and decimals, for kernels whose transforms are binary fractions."""
    density = KernelMixture(
        weights=[0.5, 0.25, 0.25],
        means=[[0.0, 0.0], [1.5, -0.25], [-3.0, 2.0]],
        offsets=[0, 2, 3],
        transforms=[[[2.0, 0.5], [0.0, 1.0]], [[0.5, 0.0], [-0.125, 0.25]]],
        log_dets=[np.log(2.0), np.log(0.125)],
    )
    far = np.round(points_at_depth(density, depth, 4))
    expected = [float(decimal_log_density(density, x)) for x in far.tolist()]
    assert_allclose(direct_log_density(density, far), expected, rtol=1e-14)
    assert_allclose(density.logpdf(far), expected, rtol=1e-12)


def decimal_log_density(density, x):
    total = Decimal(0)
    with localcontext(prec=60, Emin=-(10**12), Emax=10**12):
        group = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
        for g, weight, centre in zip(group, density.weights, density.means, strict=True):
            (a, b), (c, d) = [[Fraction(t) for t in row] for row in density.transforms[g].tolist()]
            u, v = (Fraction(p) - Fraction(q) for p, q in zip(x, centre.tolist(), strict=True))
            square = (u * a + v * c) ** 2 + (u * b + v * d) ** 2
            exponent = -Decimal(square.numerator) / Decimal(2 * square.denominator)
            determinant = abs(a * d - b * c)
            scale = Decimal(determinant.numerator) / Decimal(determinant.denominator)
            total += Decimal(weight) * scale * exponent.exp()
        return total.ln() - (2 * Decimal("3.14159265358979323846264338327950288419717")).ln()


def test_a_light_wide_kernel_is_all_that_counts_far_away():
    density = KernelMixture(
        weights=[1 - 1e-9, 1e-9],
        means=[[0.0], [0.0]],
        offsets=[0, 1, 2],
        transforms=[[[1.0]], [[0.01]]],
    )
    far = np.array([[30.0], [1e3], [1e6]])
    expected = np.log(1e-9) + np.log(0.01) - (0.01 * far[:, 0]) ** 2 / 2 - np.log(2 * np.pi) / 2
    assert_allclose(density.logpdf(far), expected, rtol=1e-12)


# Kernels far from the others of their group


FAR_KERNELS = {
    "one": [1e12],
    "one very far": [1e20],
    "several": [1e15, -1e15, 2e15],
    "half of them": [1e12] * 60,
    "at all distances": [*10.0 ** np.linspace(2, 250, 50)],
    "beyond all squares": [1e200, -1e300],
}
each_far = pytest.mark.parametrize("far", FAR_KERNELS.values(), ids=list(FAR_KERNELS))


def group_with_far_kernels(far, n_features, n_kernels=120):
    """One group with some kernels far away, and points near all of the others."""
    rng = np.random.RandomState(n_features)
    centres = rng.standard_normal((n_kernels, n_features))
    centres[-len(far) :] += np.array(far)[:, None]
    axes = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    weights = np.full(n_kernels, 1 / n_kernels)
    density = KernelMixture(
        weights, centres, [0, n_kernels], [axes * np.linspace(2, 5, n_features)]
    )
    return density, centres[:30] + 0.1 * rng.standard_normal((30, n_features))


@each_far
@pytest.mark.parametrize("n_features", [1, 2, 3, 5, 8])
def test_far_kernels_cost_the_others_no_digits(far, n_features):
    density, X = group_with_far_kernels(far, n_features)
    logs, slopes = log_terms(density, X)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    near = (shares > 0)[:, :, None]
    gradients = -(shares[:, :, None] * np.where(near, slopes, 0)).sum(axis=1)
    expected = direct_log_density(density, X)
    same = Bootstrap(density, np.full((2, density.n_kernels), 1 / density.n_kernels))
    assert_allclose(density.logpdf(X), expected, rtol=0, atol=1e-12)
    assert_allclose(by_engine(density, X), expected, rtol=0, atol=1e-8)
    assert_allclose(density.grad_logpdf(X), gradients.astype(float), rtol=0, atol=1e-10)
    assert_allclose(same.logpdf(X)[0], expected, rtol=0, atol=1e-12)
    at_centres = density.means[-len(far) :]
    expected = direct_log_density(density, at_centres)
    assert_allclose(density.logpdf(at_centres), expected, rtol=0, atol=1e-12)


@each_far
@pytest.mark.parametrize("n_features", [1, 2, 3, 5, 8])
def test_far_kernels_cost_kernels_of_their_own_no_digits(far, n_features):
    shared, X = group_with_far_kernels(far, n_features)
    rng = np.random.RandomState(0)
    scales = np.exp(0.3 * rng.standard_normal((shared.n_kernels, 1, n_features)))
    offsets = np.arange(shared.n_kernels + 1)
    density = KernelMixture(shared.weights, shared.means, offsets, scales * shared.transforms[0])
    points = np.concatenate([X, density.means[-len(far) :]])
    expected = direct_log_density(density, points)
    assert_allclose(density.logpdf(points), expected, rtol=0, atol=1e-12)
    assert_allclose(by_engine(density, points), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("far", [[0.0], [1e12], [1e20], [1e200, -1e200]], ids=str)
def test_far_kernels_cost_merged_kernels_no_digits(far):
    """Cells far from each other become kernels of their own means and covariances."""
    density, X = group_with_far_kernels(far, 2)
    held_out = np.concatenate([X + shift for shift in (-0.2, -0.1, 0.1, 0.2)])
    found = density.compress(held_out, max_loss=0.1, max_kernels=100).density
    assert_(found.n_kernels < 100)
    assert_allclose(found.logpdf(held_out).mean(), density.logpdf(held_out).mean(), atol=0.1)


def test_kernels_all_over_the_place():
    """More far kernels than groups of shared covariance are worth making."""
    rng = np.random.RandomState(0)
    centres = rng.standard_normal((300, 2)) * 10.0 ** rng.uniform(0, 30, (300, 1))
    density = KernelMixture(np.full(300, 1 / 300), centres, [0, 300], [np.eye(2)])
    expected = direct_log_density(density, centres)
    assert_allclose(density.logpdf(centres), expected, rtol=0, atol=1e-12)
    assert_allclose(by_engine(density, centres), expected, rtol=0, atol=1e-8)


# Fits of samples with an outlier


ROBUST = [
    ROME(),
    ROME(decorrelate=False),
    ROME(density="gaussian"),
    ROME(density="knn"),
    ROME(density="mpw"),
    ROME(start="first"),
    compat.ROME(min_std=0.1),
    ManifoldParzen(min_std=0.01),
]


def with_outliers(X, distance, n_outliers):
    """Samples, and some more in different directions, far from the others and from each other."""
    ways = np.random.RandomState(5).standard_normal((n_outliers, X.shape[1]))
    return np.concatenate([X, distance * ways * np.arange(1, n_outliers + 1)[:, None]])


@pytest.mark.parametrize("estimator", ROBUST, ids=lambda each: repr(each).split(" object")[0])
def test_the_distance_of_an_outlier_does_not_matter(estimator, sets):
    X = sets["two moons"]
    moderate = copy.deepcopy(estimator).fit(with_outliers(X, 1e6, 1)).score_samples(X)
    for distance in (1e9, 1e20, 1e100, 1e200, 1e280):
        model = copy.deepcopy(estimator).fit(with_outliers(X, distance, 1))
        assert_allclose(model.score_samples(X), moderate, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("distance", "n_outliers"), [(1e9, 3), (1e280, 1)])
def test_auto_rome_loses_little_by_outliers(distance, n_outliers, sets):
    """Folds differ, since they are dealt out in the order of distances to the mean."""
    X = sets["two moons"]
    model = AutoROME().fit(with_outliers(X, distance, n_outliers))
    assert_array_equal(model.labels_[len(X) :], -1)
    assert_(abs(model.score(X) - AutoROME().fit(X).score(X)) < 0.3)


# Far from the origin


FAR = 1e9
#: Multiples of this are exact beside FAR.
GRAIN = 2.0**-20
#: What the numbers beside FAR are rounded by.
ROUNDING = float(np.spacing(FAR))
#: The lattice has ties, the trajectories have many features.
each_set = pytest.mark.parametrize("name", ["trajectories", "lattice"])


def on_grid(X):
    return np.round(X / GRAIN) * GRAIN


def on_samples(model, X):
    """Whether every kernel stands on a sample."""
    means = {tuple(mean) for mean in np.round(model.density_.means / GRAIN)}
    return means <= {tuple(row) for row in np.round(X / GRAIN)}


def here_and_far(estimator, X):
    """The fits of samples and of the same samples far away, and points at which to ask both."""
    X = on_grid(X)
    estimator = copy.deepcopy(estimator)
    if hasattr(estimator, "resolution"):
        estimator.resolution = None  # values that are spread are not on the grid
    rng = np.random.RandomState(0)
    queries = np.concatenate([X[:30], X[:30] + 0.1 * rng.standard_normal(X[:30].shape), 2 * X[:9]])
    here, far = copy.deepcopy(estimator).fit(X), copy.deepcopy(estimator).fit(X + FAR)
    if hasattr(here, "labels_"):
        assert_array_equal(far.labels_, here.labels_)
    return here, far, on_grid(queries)


@for_each(AND_COMPAT)
@each_set
def test_the_origin_does_not_matter(estimator, name, sets):
    """Means that are not samples are rounded to numbers that exist far away."""
    if isinstance(estimator, VineDensity) and name == "trajectories":
        pytest.skip("takes seconds")
    here, far, queries = here_and_far(estimator, sets[name])
    expected = here.score_samples(queries)
    allowed = 1e-9 * np.abs(expected) + 1e-9
    if estimator in WITH_KERNELS and not on_samples(here, sets[name]):
        # The knots of a map are rounded, too, and its slope may be 50.
        steepness = 1 if here.density_.maps is None else 50
        allowed += change_by_moving_means(here.density_, queries, steepness * ROUNDING)
    errors = np.abs(far.score_samples(queries + FAR) - expected)
    assert_((errors <= allowed).all(), f"errors {errors.max()} of {allowed.max()} allowed")


def test_the_origin_does_not_order_points():
    """Pairs of samples at one distance to the mean, which no rounding may tell apart."""
    half = on_grid(np.random.RandomState(0).standard_normal((60, 2)))
    X = np.concatenate([half, -half])
    assert_array_equal(Points.from_samples(X + FAR).rows, Points.from_samples(X).rows)


def test_the_mean_of_kernels_at_one_place_is_that_place():
    weights = np.random.RandomState(0).dirichlet(np.ones(999))
    density = KernelMixture(weights, np.full((999, 2), FAR + 0.1), [0, 999], [np.eye(2)])
    assert_array_equal(density.mean(), density.means[0])


@for_each(NORMALIZED)
def test_draws_far_from_the_origin_are_exact_to_rounding(estimator, sets):
    here, far, _ = here_and_far(estimator, sets["two moons"])
    draws, far_draws = here.sample(200, random_state=3), far.sample(200, random_state=3)
    assert_allclose(far_draws - FAR, draws, rtol=0, atol=1.5 * ROUNDING)


# Columns of all sizes


SIZES = [np.array([1e-8, 1e8]), np.array([1e12, 1.0])]
each_size = pytest.mark.parametrize("sizes", SIZES, ids=str)


@each_mixture
@each_size
def test_columns_of_all_sizes(estimator, sizes, sets):
    X = sets["two moons"] * sizes
    model = copy.deepcopy(estimator).fit(X)
    queries = np.concatenate([X[::9], X[::9] + 0.1 * sizes, X[:4] + 1e3 * sizes])
    scores = model.score_samples(queries)
    assert_(np.isfinite(scores).all(), "infinite")
    assert_allclose(scores, direct_log_density(model.density_, queries), rtol=1e-9)
    assert_(np.isfinite(model.sample(50, random_state=0)).all(), "a draw is infinite")


@each_size
def test_draws_of_columns_of_all_sizes(sizes, sets):
    """AutoROME measures every feature by its own spread."""
    X = sets["two moons"] * sizes
    draws = AutoROME().fit(X).sample(2000, random_state=0)
    assert_allclose(draws.std(axis=0), X.std(axis=0), rtol=0.25)


@each_size
def test_gaussian_kde_is_scipys_whatever_the_units(sizes, sets):
    X = sets["blobs"][:, :2] * sizes
    queries = X[::5] + 0.1 * sizes
    expected = gaussian_kde(X.T).logpdf(queries.T)
    assert_allclose(GaussianKDE().fit(X).score_samples(queries), expected, rtol=1e-6)


@pytest.mark.parametrize("group_size", [1, 40])
@pytest.mark.parametrize("condition", [1e4, 1e8])
def test_thin_kernels(condition, group_size):
    """Pancakes at all angles: errors are those of one rounding of every product."""
    rng = np.random.RandomState(0)
    n_groups, n_features = 20, 5
    axes = np.linalg.qr(rng.standard_normal((n_groups, n_features, n_features)))[0]
    transforms = axes * np.geomspace(1, condition, n_features)
    n_kernels = n_groups * group_size
    density = KernelMixture(
        weights=np.full(n_kernels, 1 / n_kernels),
        means=rng.standard_normal((n_kernels, n_features)),
        offsets=group_size * np.arange(n_groups + 1),
        transforms=transforms,
    )
    queries = np.concatenate([density.means[:20], density.means[:20] + 1e-9])
    found, expected = density.logpdf(queries), direct_log_density(density, queries)
    assert_allclose(found, expected, rtol=1e-13 * condition, atol=1e-13 * condition)


@pytest.mark.parametrize("narrow", [1e-3, 1e-7, 5e-9, 1e-10])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_narrow_directions_keep_their_spread(scale, narrow):
    """Squares of what is narrow are lost beside those of what is wide, unless they are avoided."""
    rng = np.random.RandomState(0)
    stds = np.array([1.0, *[narrow] * 4, *[0.0] * 5])
    turn = np.linalg.qr(rng.standard_normal((10, 10)))[0]
    X = scale * (rng.standard_normal((100, 10)) * stds) @ turn
    model = ROME(min_std=0.01 * scale * max(narrow, 1e-7), selection=None).fit(X)
    queries = X[:20] + 0.1 * model.min_std_
    expected = rome_log_density(X, model.labels_, model.min_std_, queries)
    assert_allclose(model.score_samples(queries), expected, rtol=1e-7, atol=1e-7)


# Memory


def test_memory_of_rome(memory_limit):
    """A table of 3000 x 199 labels or of 3000 x 3000 distances would not fit."""
    source = datasets.load("trajectories")
    X, queries = source.sample(3000, random_state=0), source.sample(20_000, random_state=1)
    ROME().fit(X[:300]).score_samples(X)  # compiles
    with memory_limit(10):
        model = ROME().fit(X)
    with memory_limit(20):
        model.score_samples(queries)
    with memory_limit(20):
        model.sample(20_000, random_state=0)


@pytest.mark.whole
def test_memory_of_manifold_parzen(memory_limit):
    """Three matrices for each sample, while they are made."""
    source = datasets.load("trajectories")
    X, queries = source.sample(3000, random_state=0), source.sample(2000, random_state=1)
    ManifoldParzen().fit(X[:300]).score_samples(X[:300])
    with memory_limit(80):
        model = ManifoldParzen().fit(X)
    with memory_limit(60):
        model.score_samples(queries)


@pytest.mark.slow
@pytest.mark.whole
def test_memory_of_auto_rome(memory_limit):
    source = datasets.load("two_moons")
    X, queries = source.sample(1000, random_state=0), source.sample(20_000, random_state=1)
    AutoROME().fit(X[:300]).score_samples(X)
    with memory_limit(30):
        model = AutoROME().fit(X)
    with memory_limit(10):
        model.score_samples(queries)


@pytest.mark.parametrize("min_std", [1e-5, 1e-8, 1e-10])
def test_windows_on_a_line_are_as_thin_as_they_should_be(min_std):
    """Squares lose what is across a line; the windows have min_std there all the same."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 1)) @ [[3.0, 1.0, 2.0]]
    transforms = ManifoldParzen(min_std=min_std).fit(X).density_.transforms
    across = np.linalg.svd(transforms, compute_uv=False)[:, :2]
    assert_allclose(across, 1 / min_std, rtol=1e-6)


@pytest.mark.parametrize("n_samples", [20, 50])
@each_mixture
def test_a_constant_feature(estimator, n_samples):
    X = np.random.RandomState(0).standard_normal((n_samples, 2))
    X[:, 1] = 1.95591231
    drawn = clone(estimator).fit(X).sample(1000, random_state=0)
    assert np.ptp(drawn[:, 1]) < 2 * np.ptp(X[:, 0])
    assert abs(np.median(drawn[:, 1]) - X[0, 1]) < 0.1 * np.ptp(X[:, 0])
