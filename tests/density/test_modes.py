import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from sevenhills import (
    ROME,
    AutoROME,
    GaussianKDE,
    GaussianMixtureBIC,
    KernelMixture,
    ManifoldParzen,
    datasets,
)
from sevenhills.density.derivatives import LogSurface
from sevenhills.density.mixture import with_samples
from sevenhills.density.modes import Standard, find_maxima

from ..mixtures import draw, is_found
from ..strategies import awkward
from .test_derivatives import random_mixture


def density_of(estimator, X):
    """Return the density of samples, knowing how many they are."""
    return with_samples(estimator.fit(X).density_, None, len(X))


def unit_kernels(centres, weights=None):
    centres = np.asarray(centres, dtype=float)
    weights = np.full(len(centres), 1 / len(centres)) if weights is None else weights
    return KernelMixture(weights, centres, [0, len(centres)], [np.eye(centres.shape[1])])


def climb(density, starts):
    """Return the ends of ascents from points, and the log densities there."""
    standard = Standard.from_kernels(density.weights, density.kernels)
    Y = (starts - standard.center) @ standard.transform
    points, log_sums = find_maxima(standard.surface, Y)
    ends = standard.points(points[: len(starts)])
    return ends, standard.log_densities(log_sums[: len(starts)])


def widths_apart(density, first, second):
    """Return how far points are apart, in the metric of the kernels around the first."""
    precisions = LogSurface(density.kernels).curvatures(first).precisions
    apart = second - first
    return np.sqrt(np.einsum("im,imj,ij->i", apart, precisions, apart))


def assert_are_maxima(density, modes):
    """What holds for every table of modes."""
    n = len(modes)
    assert n >= 1
    assert modes.locations.shape == (n, density.n_features)
    assert modes.basins.shape == (density.n_kernels,)
    assert_allclose(modes.log_heights, density.logpdf(modes.locations), rtol=1e-9, atol=1e-9)
    assert_allclose(modes.shares, np.bincount(modes.basins, density.weights, n), atol=1e-12)
    assert_allclose(modes.shares.sum(), 1.0)
    assert (np.diff(modes.shares) <= 0).all()
    found = LogSurface(density.kernels).curvatures(modes.locations)
    whitening = np.linalg.inv(np.linalg.cholesky(found.precisions))
    slopes = (whitening @ found.gradients[:, :, None])[:, :, 0]
    curved = whitening @ found.hessians @ whitening.transpose(0, 2, 1)
    assert (np.abs(slopes) < 1e-6).all()
    assert (np.linalg.eigvalsh(curved)[:, -1] < 1e-6).all()
    rows, columns = np.triu_indices(n, 1)
    if n > 1:
        apart = widths_apart(density, modes.locations[rows], modes.locations[columns])
        assert (apart > 1e-6).all()


# Exact densities: all maxima, each once


@pytest.mark.parametrize(
    ("distance", "n_modes"), [(0.0, 1), (1.0, 1), (1.99, 1), (2.0, 1), (2.01, 2), (2.5, 2), (60, 2)]
)
@pytest.mark.parametrize("n_features", [1, 3])
def test_two_equal_kernels_part_at_two_widths(distance, n_modes, n_features):
    centres = np.zeros((2, n_features))
    centres[1, 0] = distance
    modes = unit_kernels(centres).modes()
    assert len(modes) == n_modes
    assert_are_maxima(unit_kernels(centres), modes)
    if n_modes == 1:
        assert_allclose(modes.locations, centres.mean(axis=0)[None], atol=2e-3)
    assert_array_equal(modes.significances, np.inf)


def test_kernels_of_different_shapes_have_a_mode_away_from_their_centres():
    """The example of Ray and Lindsay: two kernels, three modes."""
    transforms = [np.diag([1.0, 0.05**-0.5]), np.diag([0.05**-0.5, 1.0])]
    density = KernelMixture([0.5, 0.5], [[0.0, 0.0], [1.0, 1.0]], [0, 1, 2], transforms)
    modes = density.modes()
    assert len(modes) == 3
    assert_are_maxima(density, modes)
    assert_allclose(modes.locations[-1], [1.0, 0.0], atol=0.1)
    assert modes.shares[-1] == 0
    assert density.predict_proba([[0.0, 0.0]], by="mode").shape == (1, 3)
    assert_allclose(density.mode(), modes.locations[modes.log_heights.argmax()], atol=1e-6)


@pytest.mark.parametrize("n_copies", [1, 20, 300])
def test_repeated_kernels_are_one_mode(n_copies):
    centres = np.tile([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], (n_copies, 1))
    modes = unit_kernels(centres).modes()
    assert len(modes) == 3
    assert_allclose(modes.shares, 1 / 3)
    assert_array_equal(modes.basins, np.tile(modes.basins[:3], n_copies))


@pytest.mark.parametrize(("side", "n_modes"), [(1.5, 1), (2.0, 1), (2.2, 4), (3.0, 4)])
def test_a_square_has_a_flat_top_or_a_saddle(side, n_modes):
    corners = side * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    density = unit_kernels(corners)
    modes = density.modes()
    assert len(modes) == n_modes
    assert_are_maxima(density, modes)
    _, values = climb(density, np.full((1, 2), side / 2))
    assert values[0] >= density.logpdf(np.full((1, 2), side / 2))[0] - 1e-12
    assert_allclose(values, modes.log_heights[0], atol=1e-9)


@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from([1.0, 3.0, 20.0]))
def test_all_maxima_on_a_line_are_found(seed, n_kernels, ratio):
    density = random_mixture(seed, 1, n_kernels, n_kernels, spread=2.0, ratio=ratio)
    modes = density.modes()
    assert_are_maxima(density, modes)
    widths = np.repeat(1 / np.abs(density.transforms[:, 0, 0]), np.diff(density.offsets))
    grid = density.means[:, :1] + widths[:, None] * np.linspace(-6, 6, 2001)
    grid = np.unique(grid)[:, None]
    values = density.logpdf(grid)
    top = np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])) + 1
    gaps = np.abs(grid[top] - modes.locations.T)
    near = gaps.min(axis=1) <= 2 * np.maximum(grid[top + 1] - grid[top - 1], 1e-3)[:, 0]
    # Where rounding makes the top of the grid's own, the slope is as small as it gets.
    flat = np.abs(density.grad_logpdf(grid[top]))[:, 0] * widths.min() < 1e-9
    assert (near | flat).all()
    assert len(modes) <= len(top) + flat.sum()


def maxima_on_a_grid(density):
    """Return the maxima to which the ascents from the tops of a grid in the plane lead."""
    low, high = density.means.min(axis=0) - 1, density.means.max(axis=0) + 1
    grid = np.stack(np.meshgrid(*np.linspace(low, high, 201).T, indexing="ij"), axis=-1)
    values = density.logpdf(grid.reshape(-1, 2)).reshape(201, 201)
    inner = values[1:-1, 1:-1]
    shifts = [(i, j) for i in (0, 1, 2) for j in (0, 1, 2) if (i, j) != (1, 1)]
    is_top = np.all([inner > values[i : 199 + i, j : 199 + j] for i, j in shifts], axis=0)
    return climb(density, grid[1:-1, 1:-1][is_top])[0]


def test_nearly_all_maxima_in_a_plane_are_found():
    """A maximum where three kernels overlap can be missed: 5 of 1776 in 250 such mixtures."""
    gaps = []
    for seed in range(40):
        density = random_mixture(seed, 2, 3 + seed % 13, 3 + seed % 13, spread=1.5)
        modes = density.modes()
        assert_are_maxima(density, modes)
        apart = maxima_on_a_grid(density)[:, None] - modes.locations
        gaps.extend(np.abs(apart).max(axis=2).min(axis=1))
    assert np.mean(np.array(gaps) < 1e-4) > 0.98


@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([1, 4, 60]), st.integers(60, 300))
@settings(max_examples=6)
def test_climbs_never_descend(seed, n_features, n_groups, n_kernels):
    density = random_mixture(seed, n_features, n_groups, n_kernels, ratio=10.0)
    starts = np.concatenate([density.sample(10, random_state=0), 1e3 * density.means[:3]])
    points, values = climb(density, starts)
    assert_allclose(values, density.logpdf(points), rtol=1e-9, atol=1e-9)
    assert (values >= density.logpdf(starts) - 1e-9).all()
    assert_are_maxima(density, density.modes())


def test_climbs_from_where_the_logarithm_overflows():
    density = unit_kernels([[0.0, 0.0], [9.0, 0.0]])
    points, _ = climb(density, np.array([[-1e200, 0.0], [1e200, 1e3]]))
    gaps = np.abs(points[:, None] - density.means).max(axis=2).min(axis=1)
    assert (gaps < 1e-6).all()


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_modes_follow_units_and_turns(unit):
    density = random_mixture(3, 3, 5, 60, spread=3.0)
    matrix = np.diag([unit, 1.0, 1 / unit])
    shift = np.array([1e3 * unit, -1e3, 0.0])
    modes, moved = density.modes(), density.affine(matrix, shift).modes()
    assert len(modes) == len(moved)
    scale = np.array([unit, 1.0, 1 / unit])
    found = (moved.locations - shift) / scale
    assert_allclose(found, modes.locations, atol=1e-7)
    assert_array_equal(moved.basins, modes.basins)


def test_weights_of_zero_belong_somewhere():
    density = unit_kernels([[0.0], [50.0], [9.0]], [0.5, 0.0, 0.5])
    modes = density.modes()
    assert len(modes) == 2
    assert modes.basins[1] == modes.basins[2]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_features", [2, 10])
def test_known_modes_of_mixtures(seed, n_features):
    rng = np.random.RandomState(seed)
    centres = 10 * rng.standard_normal((5, n_features))
    transforms = 0.3 * rng.standard_normal((5, n_features, n_features)) + np.eye(n_features)
    density = KernelMixture(rng.dirichlet(np.full(5, 5.0)), centres, np.arange(6), transforms)
    modes = density.modes()
    assert_are_maxima(density, modes)
    own = widths_apart(density, density.means, modes.locations[modes.basins])
    assert (own < 1).mean() >= 0.6
    again = density.modes(n_jobs=2)
    assert_array_equal(again.locations, modes.locations)


# Densities made from samples: what stands out

#: Seeds of mixtures that are cheap to fit.
MIXTURES = (2, 14, 38, 11, 25, 27)

ESTIMATORS = [ROME(), AutoROME(), GaussianKDE(), ManifoldParzen()]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("name", "n_modes"), [("aniso", 3), ("varied", 3), ("gaussian", 1)])
def test_samples_of_known_hills_have_as_many_modes(estimator, name, n_modes):
    X = datasets.load(name).split(run=1)[0][:300]
    density = density_of(estimator, X)
    modes = density.modes()
    assert len(modes) == n_modes
    assert (modes.significances >= 1.25).all()
    assert_are_maxima(density, modes)
    assert_allclose(modes.shares, 1 / n_modes, atol=0.05)


@pytest.mark.parametrize("seed", [0, 1])
def test_modes_of_a_fit_in_ten_dimensions(seed):
    """Where every sample has a bump of its own, hills are still told apart."""
    rng = np.random.RandomState(seed)
    centres = 6 * rng.standard_normal((4, 10))
    labels = rng.randint(4, size=2000)
    X = centres[labels] + rng.standard_normal((2000, 10))
    density = density_of(ROME(), X)
    modes = density.modes()
    assert len(modes) == 4
    nearest = np.linalg.norm(modes.locations[:, None] - centres, axis=2).argmin(axis=1)
    assert_array_equal(np.sort(nearest), np.arange(4))
    found = density.predict(X, by="mode")
    assert_array_equal(nearest[found], labels)


def assert_has_hills(model, X, labels):
    """Every hill is one mode, with the share of its samples, and labels are those of the hills."""
    modes = model.modes()
    shares = np.bincount(labels) / len(labels)
    assert_allclose(modes.shares, np.sort(shares)[::-1], atol=0.01)
    pairs = np.unique(np.stack([labels, model.predict(X, modes)]), axis=1)
    assert_array_equal(pairs[0], np.arange(len(shares)))


def blobs(n_features):
    """Three blobs of different shapes, 12 standard deviations apart or more."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(200, n_features)), rng.normal(size=(175, n_features)) + 12]
    X.append(rng.exponential(size=(150, n_features)) - 14)
    return np.concatenate(X), np.repeat([0, 1, 2], [200, 175, 150])


@pytest.mark.parametrize("n_features", [5, pytest.param(2, marks=pytest.mark.slow)])
def test_blobs_of_different_shapes_are_modes(n_features):
    X, labels = blobs(n_features)
    assert_has_hills(AutoROME().fit(X), X, labels)


@pytest.mark.parametrize("estimator", [ROME(), GaussianKDE(), ManifoldParzen()])
@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_a_small_hill_is_a_mode(estimator, n_features):
    """It has fewer samples than neighbours are looked at."""
    X = np.random.default_rng(0).normal(size=(520, n_features))
    X[500:, 0] += 15
    assert_has_hills(estimator.fit(X), X, np.repeat([0, 1], [500, 20]))


@pytest.mark.parametrize(("n_features", "n_hills", "n"), [(24, 5, 1000), (20, 3, 600)])
def test_hills_in_many_dimensions_are_modes(n_features, n_hills, n):
    rng = np.random.default_rng(0)
    labels = rng.integers(n_hills, size=n)
    X = 3 * rng.normal(size=(n_hills, n_features))[labels] + rng.normal(size=(n, n_features))
    assert_has_hills(ROME().fit(X), X, labels)


def test_clusters_of_walks_are_modes():
    X = datasets.load("trajectories").split(run=0)[0][:1000]
    model = ROME().fit(X)
    assert model.labels_.min() == 0
    assert_has_hills(model, X, model.labels_)


@pytest.mark.parametrize(
    ("estimator", "seeds"),
    [(ROME(), MIXTURES), (AutoROME(), MIXTURES[-2:]), (GaussianMixtureBIC(), MIXTURES)],
)
def test_found_mixtures_have_as_many_modes(estimator, seeds):
    n_found = 0
    for seed in seeds:
        drawn = draw(seed)
        model = estimator.fit(drawn.samples)
        if is_found(model, drawn):
            n_found += 1
            assert len(model.modes()) == drawn.n_hills
    assert n_found >= 2


@pytest.mark.parametrize("n_features", [2, 8, 24])
def test_one_gaussian_has_one_mode(n_features):
    rng = np.random.default_rng(n_features)
    numbers = [len(ROME().fit(rng.normal(size=(300, n_features))).modes()) for _ in range(5)]
    assert np.mean(numbers) <= 1.1


@pytest.mark.parametrize("n", [60, 500])
def test_a_tenth_of_the_samples_is_a_hill(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    X[: n // 10] += 20
    assert_has_hills(GaussianKDE().fit(X), X, np.repeat([1, 0], [n // 10, n - n // 10]))


def test_groups_have_starts_of_their_own():
    """Groups need not be clusters."""
    rng = np.random.default_rng(0)
    centres = np.r_[rng.normal(size=(500, 2)), rng.normal(size=(20, 2)) + 15]
    transforms = [3.0 * np.eye(2), np.eye(2)]
    density = KernelMixture(np.full(520, 1 / 520), centres, [0, 500, 520], transforms)
    modes = with_samples(density, None, 520).modes()
    assert_array_equal(np.unique(modes.basins[500:]), [1])
    assert_array_equal(np.unique(modes.basins[:500]), [0])


def test_more_modes_count_if_less_is_asked_of_them():
    X = datasets.load("aniso").split(run=0)[0][:300]
    density = density_of(ManifoldParzen(), X)
    numbers = [len(density.modes(significance)) for significance in (0.0, 0.5, 1.0, 100.0)]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] > 3
    assert numbers[2:] == [3, 1]
    assert len(density.modes(0)) == len(replace(density, counts=None).modes())


def test_a_curved_hill_is_one():
    """The straight way between the ends of an arc leaves it."""
    rng = np.random.RandomState(0)
    angle = rng.uniform(0, 1.5 * np.pi, 1000)
    X = 3 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * rng.standard_normal((1000, 2))
    density = density_of(GaussianKDE(bw_method=0.1), X)
    assert len(density.modes(0)) > 3
    assert len(density.modes()) == 1


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_peak_is_the_highest_maximum(estimator):
    X = datasets.load("varied").split(run=0)[0][:250]
    density = density_of(estimator, X)
    modes = density.modes(0)
    assert_allclose(density.logpdf(density.mode()[None])[0], modes.log_heights.max(), atol=1e-9)


# Labels


def shares_at(density, x):
    groups = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
    units = np.einsum("km,kmj->kj", x - density.means, density.transforms[groups])
    return softmax(density.log_weights + density.log_dets[groups] - 0.5 * (units**2).sum(axis=1))


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([1, 4, 60]))
@settings(max_examples=15)
def test_probabilities_are_shares_of_kernels(seed, n_features, n_groups):
    density = random_mixture(seed, n_features, n_groups, 80)
    rng = np.random.RandomState(seed)
    density = replace(density, clusters=rng.randint(-1, 3, density.n_groups))
    modes = density.modes()
    X = density.sample(6, random_state=0) * rng.choice([1.0, 30.0], (6, 1))
    kernel_clusters = np.repeat(density.clusters, np.diff(density.offsets))
    for by, of_kernel in [(modes, modes.basins), ("cluster", kernel_clusters)]:
        labels, probabilities = density.predict(X, by), density.predict_proba(X, by)
        names = np.arange(len(modes)) if by is modes else np.unique(density.clusters)
        for x, label, row in zip(X, labels, probabilities, strict=True):
            shares = shares_at(density, x)
            expected = [shares[of_kernel == name].sum() for name in names]
            assert_allclose(row, expected, atol=1e-7)
            assert row[names == label] == row.max()
    assert_array_equal(density.predict(X, "mode"), density.predict(X, modes))


def test_rows_add_up_to_one_however_far():
    density = unit_kernels([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    X = np.array([[1e4, 3.0], [-1e9, 1e9], [1e200, 0.0], [-1e300, 1e300], [1.7e308, -1.7e308]])
    labels, probabilities = density.predict(X, "mode"), density.predict_proba(X, "mode")
    assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    nearest = density.modes().basins
    assert_array_equal(labels[:2], nearest[[1, 2]])
    assert probabilities.shape == (5, 3)


def test_noise_is_a_cluster():
    density = KernelMixture(
        [0.5, 0.3, 0.2], [[0.0], [9.0], [4.0]], [0, 1, 2, 3], [[[1.0]], [[1.0]], [[0.1]]],
        clusters=[1, 0, -1],
    )  # fmt: skip
    X = [[0.0], [9.0], [40.0]]
    assert_array_equal(density.predict(X, n_jobs=2), [1, 0, -1])
    # The columns are those of -1, 0 and 1.
    assert_array_equal(density.predict_proba(X).argmax(axis=1), [2, 1, 0])


# Tables and errors


def test_tables_cannot_be_changed_and_survive_pickling():
    modes = unit_kernels(np.arange(0.0, 70.0, 10)[:, None]).modes()
    with pytest.raises(ValueError, match="read-only"):
        modes.locations[0] = 0
    with pytest.raises(AttributeError):
        modes.shares = None
    assert repr(modes).startswith("ModeTable(n_modes=7, shares=[14.3%, ")
    assert repr(modes).endswith(", ...])")
    again = pickle.loads(pickle.dumps(modes))
    assert_array_equal(again.locations, modes.locations)


def test_bad_arguments_are_refused():
    density = unit_kernels([[0.0], [9.0]])
    with pytest.raises(ValueError, match="significance"):
        density.modes(significance=-1)
    with pytest.raises(TypeError, match="significance"):
        density.modes(significance="high")
    with pytest.raises(ValueError, match="by must be 'mode', 'cluster' or a ModeTable"):
        density.predict([[0.0]], by="group")
    with pytest.raises(ValueError, match="by: these are the modes of 2 kernels"):
        unit_kernels([[0.0]]).predict([[0.0]], by=density.modes())
    with pytest.raises(ValueError, match="X has 2 features, but the density has 1"):
        density.predict([[0.0, 1.0]])


@given(awkward(max_samples=60, max_features=6), st.sampled_from([GaussianKDE, ManifoldParzen]))
@settings(max_examples=12)
@pytest.mark.whole
def test_modes_of_awkward_samples(X, estimator):
    try:
        density = density_of(estimator(), X)
    except ValueError:  # no spread at all
        return
    for significance in (0.0, 1.25):
        modes = density.modes(significance)
        assert np.isfinite(modes.locations).all()
        assert np.isfinite(modes.log_heights).all()
        assert_allclose(modes.shares.sum(), 1.0)
    assert_allclose(density.predict_proba(X, modes).sum(axis=1), 1.0)
