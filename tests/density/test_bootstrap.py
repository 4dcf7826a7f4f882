import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import chi2

from sevenhills import (
    ROME,
    AutoROME,
    GaussianKDE,
    KernelMixture,
    ManifoldParzen,
    datasets,
)
from sevenhills.density import bootstrap
from sevenhills.density.mixture import with_samples

from .test_mixture import random_mixture

ESTIMATORS = [ROME(), AutoROME(), ManifoldParzen(), GaussianKDE()]


def log_kernels(density, X):
    """The log of every weighted kernel at every point (Q, K), one difference at a time."""
    out = []
    for k in range(density.n_kernels):
        g = np.searchsorted(density.offsets, k, side="right") - 1
        squares = np.sum(((X - density.means[k]) @ density.transforms[g]) ** 2, axis=1)
        constant = density.log_dets[g] - density.n_features / 2 * np.log(2 * np.pi)
        out.append(density.log_weights[k] + constant - squares / 2)
    return np.stack(out, axis=1)


def counts_of(density):
    return np.ones(density.n_kernels) if density.counts is None else density.counts


def kish(density, X):
    logs = log_kernels(density, X)
    logs -= logsumexp(logs, axis=1, keepdims=True)
    return np.exp(-logsumexp(2 * logs - np.log(counts_of(density)), axis=1))


def n_as_far(density, X):
    total = np.zeros(len(X))
    for k, count in enumerate(counts_of(density)):
        g = np.searchsorted(density.offsets, k, side="right") - 1
        squares = np.sum(((X - density.means[k]) @ density.transforms[g]) ** 2, axis=1)
        total += count * chi2.sf(squares, density.n_features)
    return total


def known(density, n_samples=500.0):
    return with_samples(density, None, n_samples)


def points_near_and_far(density, seed, n=20):
    rng = np.random.RandomState(seed)
    near = density.means[rng.randint(density.n_kernels, size=n)]
    far = rng.standard_normal(near.shape) * rng.choice([0.3, 1, 3, 10, 1e3], size=(n, 1))
    return near + far


mixtures = st.builds(
    random_mixture,
    st.integers(0, 10**6),
    n_features=st.integers(1, 12),
    n_groups=st.sampled_from([1, 3, 50]),
    n_kernels=st.integers(60, 200),
    spread=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
)


# Effective samples


@given(mixtures, st.booleans(), st.integers(0, 100))
def test_effective_samples_are_kishs(density, counted, seed):
    density = known(density) if counted else density
    X = points_near_and_far(density, seed)
    assert_allclose(density.effective_sample_size(X), kish(density, X), rtol=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_effective_samples_of_fits(estimator):
    X = datasets.load("varied").sample(300, random_state=0)
    density = estimator.fit(X).density_
    X = np.concatenate([X[:50], X[:50] + 20])
    assert_allclose(density.effective_sample_size(X), kish(density, X), rtol=1e-7)


@pytest.mark.parametrize("factor", [1e-200, 1e-9, 1e12, 1e200])
def test_effective_samples_in_any_unit(factor):
    density = known(random_mixture(0))
    X = points_near_and_far(density, 0)
    moved = replace(density.affine(factor * np.eye(2), np.zeros(2)), counts=density.counts)
    found = moved.effective_sample_size(factor * X)
    assert_allclose(found, density.effective_sample_size(X), rtol=1e-6)


def test_a_gaussian_has_all_its_samples_everywhere():
    density = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]], counts=[500.0])
    X = [[0.0], [3.0], [1e5], [1e200]]
    assert_allclose(density.effective_sample_size(X)[:3], 500.0)
    assert_array_equal(density.effective_sample_size(X)[3], 500.0)


def test_a_repeated_sample_counts_as_often_as_it_is_repeated():
    X = np.array([[0.0], [0.0], [0.0], [100.0], [150.0]])
    density = GaussianKDE(bw_method=0.1).fit(X).density_
    assert_allclose(density.effective_sample_size([[0.0], [100.0]]), [3.0, 1.0])


def test_the_error_of_the_density_follows_from_the_effective_samples():
    """The relative variance of a plain kernel density is 1 / n(x) less 1 / N."""
    rng = np.random.RandomState(0)
    X = np.array([[0.0], [1.0], [2.5]])
    fits = [round_kernels(rng.standard_normal((200, 1)), 0.4) for _ in range(400)]
    values = np.stack([fit.pdf(X) for fit in fits])
    relative = values.var(axis=0) / values.mean(axis=0) ** 2
    n = np.mean([fit.effective_sample_size(X) for fit in fits], axis=0)
    assert_allclose(1 / n[:2] - 1 / 200, relative[:2], rtol=0.25)
    assert n[0] > n[1] > n[2] > 1


def test_effective_samples_where_even_the_logarithm_overflows():
    density = known(random_mixture(0))
    found = density.effective_sample_size([[1e300, -1e300]])
    assert_array_equal(found, density.counts.min())


def test_kernels_that_weigh_nothing_support_nothing():
    density = KernelMixture([1.0, 0.0], [[0.0], [1.0]], [0, 2], [[[1.0]]], counts=[7.0, 0.0])
    assert_allclose(density.effective_sample_size([[0.0], [1.0], [50.0]]), 7.0)
    assert_array_equal(density.is_extrapolation([[0.0], [1.0], [50.0]]), [False, False, True])


# Extrapolation


@given(mixtures, st.sampled_from([None, 10.0, 1e4]), st.integers(0, 100))
def test_extrapolates_where_no_sample_would_lie_as_far(density, n_samples, seed):
    density = density if n_samples is None else known(density, n_samples)
    X = points_near_and_far(density, seed, n=60)
    expected = n_as_far(density, X)
    clear = np.abs(expected / 0.01 - 1) > 1e-4
    assert_array_equal(density.is_extrapolation(X)[clear], expected[clear] < 0.01)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("name", ["aniso", "varied", "two_moons"])
def test_new_samples_are_not_beyond_the_old_ones_and_far_points_are(estimator, name):
    train, test = datasets.load(name).split(run=0, n_samples=250)
    density = estimator.fit(train).density_
    assert density.is_extrapolation(test).mean() < 0.01
    assert not density.is_extrapolation(train).any()
    assert density.is_extrapolation(test + 12 * train.std(axis=0)).all()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_few_of_its_own_draws_are_beyond_the_samples(estimator):
    """A kernel that stands for n samples has one in 100 n draws where it reaches no more."""
    X = datasets.load("trajectories").sample(100, random_state=0)
    density = estimator.fit(X).density_
    drawn = density.sample(2000, random_state=0)
    most = 0.01 * density.n_kernels / density.counts.sum()
    assert density.is_extrapolation(drawn).mean() <= most + 3 * np.sqrt(most / len(drawn))


def test_a_wide_kernel_that_stands_for_less_than_a_sample_hides_nothing():
    hill = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
    both = KernelMixture.merge([hill, hill.affine([[1000.0]], [0.0])], [1 - 1e-6, 1e-6])
    assert_array_equal(known(both).is_extrapolation([[1.0], [20.0], [900.0]]), [False, True, True])


def test_extrapolates_far_beyond_floats():
    X = [[1e300, -1e300], [1e308, 1e308]]
    assert random_mixture(0).is_extrapolation(X).all()
    assert random_mixture(0, n_groups=60).is_extrapolation(X).all()


@pytest.mark.parametrize("n_groups", [1, 60])
@pytest.mark.parametrize("n_features", [2, 10])
def test_support_may_be_split_and_threaded(n_groups, n_features, monkeypatch):
    density = known(random_mixture(0, n_features, n_groups, spread=1.0))
    X = points_near_and_far(density, 0, n=600)
    whole = (
        density.is_extrapolation(X),
        density.effective_sample_size(X),
        density.bootstrap(5).logpdf(X),
    )
    assert whole[0].any()
    assert not whole[0].all()
    monkeypatch.setattr(bootstrap, "_BLOCK_NUMBERS", 5000)
    assert_array_equal(density.is_extrapolation(X, n_jobs=2), whole[0])
    assert_array_equal(density.effective_sample_size(X, n_jobs=2), whole[1])
    assert_allclose(density.bootstrap(5).logpdf(X, n_jobs=2), whole[2], rtol=1e-12)


@pytest.mark.whole
def test_memory_is_bounded(memory_limit):
    rng = np.random.RandomState(0)
    density = round_kernels(rng.standard_normal((20_000, 9)), 0.3)
    X = rng.standard_normal((1000, 9))
    density.is_extrapolation(X[:5])
    replicates = density.bootstrap(20)
    replicates.logpdf(X[:5])
    with memory_limit(60):  # all pairs alone take 160
        density.is_extrapolation(X)
        density.effective_sample_size(X)
        replicates.band(X)


# Bootstrap


def round_kernels(X, bandwidth):
    n_samples, n_features = X.shape
    transform = np.eye(n_features)[None] / bandwidth
    weights = np.full(n_samples, 1 / n_samples)
    return KernelMixture(weights, X, [0, n_samples], transform, counts=np.ones(n_samples))


@given(mixtures, st.integers(0, 100))
def test_replicates_are_the_density_with_other_weights(density, seed):
    replicates = known(density).bootstrap(6, random_state=seed)
    X = points_near_and_far(density, seed)
    found = replicates.logpdf(X)
    assert found.shape == (6, len(X))
    for values, weights in zip(found, replicates.weights, strict=True):
        with np.errstate(divide="ignore"):
            replicate = replace(density, weights=weights, log_weights=np.log(weights))
        assert_allclose(values, replicate.logpdf(X), rtol=1e-9, atol=1e-9)


def test_where_all_kernels_nearby_were_left_out_the_others_are_what_is_left():
    """Kernels so far apart that only the nearest one that was drawn counts."""
    density = round_kernels(np.arange(0.0, 1e4, 1e3)[:, None], 1.0)
    replicates = density.bootstrap(50)
    X = np.array([[0.0], [4.1e3], [-7e3], [1e6]])
    found = replicates.logpdf(X)
    assert np.isfinite(found).all()
    for values, weights in zip(found, replicates.weights, strict=True):
        drawn = density.means[weights > 0, 0]
        nearest = np.abs(X - drawn).argmin(axis=1)
        expected = np.log(weights[weights > 0][nearest]) - 0.5 * (X[:, 0] - drawn[nearest]) ** 2
        assert_allclose(values, expected - 0.5 * np.log(2 * np.pi), rtol=1e-12)
    assert found[:, 0].min() < -4e5


def test_beyond_floats_nothing_is_left():
    replicates = random_mixture(0).bootstrap(5)
    X = [[0.0, 0.0], [1e300, -1e300]]
    assert_array_equal(replicates.logpdf(X)[:, 1], -np.inf)
    lower, upper = replicates.band(X)
    assert np.isfinite([lower[0], upper[0]]).all()
    assert_array_equal([lower[1], upper[1]], -np.inf)
    assert_array_equal(np.isinf(replicates.std_error(X)), [False, True])


def test_weights_are_those_of_samples_drawn_anew():
    density = known(random_mixture(0, n_kernels=50), 1000.4)
    weights = density.bootstrap(4000).weights
    assert_allclose(weights.sum(axis=1), 1.0)
    assert_allclose(weights * 1000, np.round(weights * 1000), atol=1e-9)
    assert_allclose(weights.mean(axis=0), density.weights, atol=5e-4)
    expected = density.weights * (1 - density.weights) / 1000
    assert_allclose(weights.var(axis=0), expected, rtol=0.12)


def test_band_and_error_are_percentiles_and_spread_of_replicates():
    replicates = random_mixture(0).bootstrap(101)
    X = random_mixture(0).sample(10, random_state=0)
    values = np.sort(replicates.logpdf(X), axis=0)
    lower, upper = replicates.band(X, confidence=0.8)
    assert_array_equal(lower, values[10])
    assert_array_equal(upper, values[90])
    assert_allclose(replicates.std_error(X), values.std(axis=0, ddof=1))
    narrow = replicates.band(X, confidence=0.5)
    assert (narrow[0] >= lower).all()
    assert (narrow[1] <= upper).all()


def test_summaries_may_be_taken_in_parts(monkeypatch):
    replicates = random_mixture(0).bootstrap(20)
    X = random_mixture(0).sample(50, random_state=0)
    whole = replicates.band(X), replicates.std_error(X)
    monkeypatch.setattr(bootstrap, "_BLOCK_NUMBERS", 7 * replicates.density.n_kernels)
    assert_allclose(replicates.band(X), whole[0], rtol=1e-12)
    assert_allclose(replicates.std_error(X), whole[1], rtol=1e-10)


def test_bands_cover_the_expectation_of_the_estimate():
    """Nine of ten bands, over 150 data sets, of a kernel density of fixed width."""
    rng = np.random.RandomState(0)
    X = np.array([[-1.5], [0.0], [1.0]])
    width = np.hypot(1.0, 0.3)  # of the samples and of the kernels together
    expected = -0.5 * (X[:, 0] / width) ** 2 - np.log(width * np.sqrt(2 * np.pi))
    covered = []
    for _ in range(150):
        density = round_kernels(rng.standard_normal((150, 1)), 0.3)
        lower, upper = density.bootstrap(200, random_state=rng).band(X)
        covered.append((lower <= expected) & (expected <= upper))
    # Three standard errors of a share of 150 are 0.07.
    assert_allclose(np.mean(covered, axis=0), 0.9, atol=0.08)


def test_random_state():
    density = random_mixture(0)
    first = density.bootstrap(3).weights
    assert_array_equal(density.bootstrap(3).weights, first)
    assert (density.bootstrap(3, random_state=1).weights != first).any()
    assert (density.bootstrap(3, random_state=None).weights != first).any()


def test_replicates_are_immutable_and_survive_pickling():
    density = random_mixture(0)
    replicates = density.bootstrap(3)
    X = density.sample(5, random_state=0)
    with pytest.raises(ValueError, match="read-only"):
        replicates.weights[0, 0] = 1.0
    with pytest.raises(AttributeError):
        replicates.weights = None
    again = pickle.loads(pickle.dumps(replicates))
    assert_array_equal(again.logpdf(X), replicates.logpdf(X))
    assert "n_replicates=3" in repr(replicates)
    density.is_extrapolation(X)
    assert_array_equal(
        pickle.loads(pickle.dumps(density)).is_extrapolation(X), density.is_extrapolation(X)
    )


def test_refuses_bad_arguments():
    density = random_mixture(0)
    with pytest.raises(ValueError, match="n_replicates must be at least 2"):
        density.bootstrap(1)
    with pytest.raises(TypeError, match="n_replicates must be a whole number"):
        density.bootstrap(2.5)
    replicates = density.bootstrap(2)
    for level in (0.0, 1.0, -1, np.nan):
        with pytest.raises(ValueError, match="confidence must lie between"):
            replicates.band([[0.0, 0.0]], confidence=level)
    with pytest.raises(TypeError, match="confidence must be a number"):
        replicates.band([[0.0, 0.0]], confidence="wide")
    for ask in (density.effective_sample_size, density.is_extrapolation, replicates.logpdf):
        with pytest.raises(ValueError, match="features"):
            ask([[0.0]])
