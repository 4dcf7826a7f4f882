"""The joint density of paths that is pooled over scenes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.cluster.hierarchy import fcluster, ward
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from sevenhills.datasets import make_walks
from sevenhills.forecast import evaluate
from sevenhills.forecast.pooled import (
    MIN_SCENES,
    ScenePool,
    Scenes,
    _Clusters,
    _MeanPrior,
    _partition,
    _stack,
    _whitener,
)


def nll(predictions, truth, **options):
    found = evaluate(
        predictions, truth, measures="nll", n_replicates=0, check_units=False, **options
    )
    return found.scenes["nll"]


@pytest.fixture(scope="module")
def walks():
    return make_walks(60, random_state=0)


@pytest.fixture(scope="module")
def samples(walks):
    return walks.law.draw(20, 1)


@given(st.integers(2, 12), st.integers(0, 1000))
def test_partitions_are_those_of_scipy(n_samples, seed):
    X = np.random.RandomState(seed).standard_normal((3, n_samples, 2))
    resolutions = np.arange(1, n_samples + 1)
    for n_clusters, labels in zip(resolutions, _partition(X, resolutions), strict=True):
        for x, found in zip(X, labels, strict=True):
            expected = fcluster(ward(x), n_clusters, "maxclust")
            same = found[:, None] == found
            np.testing.assert_array_equal(same, expected[:, None] == expected)
            assert len(np.unique(found)) == n_clusters


@given(st.integers(2, 12), st.integers(1, 3), st.integers(0, 1000))
def test_partitions_of_tied_samples_are_nested(n_samples, n_values, seed):
    X = np.random.RandomState(seed).randint(n_values, size=(3, n_samples, 2)) * 0.1
    partitions = _partition(X, np.arange(1, n_samples + 1))
    together = partitions[..., None] == partitions[:, :, None]
    assert (together[1:] <= together[:-1]).all()
    for n_clusters, labels in enumerate(partitions, 1):
        assert all(len(np.unique(found)) == n_clusters for found in labels)


def equal(samples):
    """Return samples (S, K, d) without weights."""
    return Scenes(samples, np.ones(samples.shape[:2]))


def some_scenes(n_scenes=40, n_samples=12, seed=0):
    """Return scenes of three features with means and modes along the last one."""
    rng = np.random.RandomState(seed)
    mix = np.array([[1.0, 0.5, -0.3], [0.0, 0.7, 0.4], [0.0, 0.0, 1.2]])
    X = rng.standard_normal((n_scenes, n_samples, 3))
    X[..., 2] += 4 * rng.standard_normal((n_scenes, 1)) + 3 * rng.choice(2, (n_scenes, n_samples))
    return X @ mix


TRANSLATIONS = np.array([[1.0, 0.0, 0.0]])


def test_predictive_distributions_of_clusters_by_definition():
    """Scale, posterior mean and variance of every cluster, direction by direction."""
    rng = np.random.RandomState(0)
    X, counts = rng.standard_normal((2, 9, 3)), rng.uniform(0.5, 3, (2, 9))
    labels = _partition(X, np.array([3]))[0]
    between, centers, errors = [0.0, 0.2, 5.0], rng.standard_normal((2, 3)), [[0.1, 0.2, 0.3]] * 2
    found = _Clusters(Scenes(X, counts), labels).predictive(
        np.array(between), centers, np.array(errors), 1e-300
    )
    for s in range(2):
        own, free, means, sizes = [], [], [], []
        for c in range(3):
            weights, members = counts[s, labels[s] == c], X[s, labels[s] == c]
            sizes.append(weights.sum() ** 2 / (weights**2).sum())
            free.append(weights.sum() - weights.sum() / sizes[c])
            means.append(np.average(members, axis=0, weights=weights))
            squares = (weights[:, None] * (members - means[c]) ** 2).sum()
            own.append(squares / (3 * free[c]) if len(members) > 1 else 1.0)
        scene = np.exp(np.average(np.log(own), weights=free))
        for c, j in itertools.product(range(3), range(3)):
            variance = (free[c] * own[c] + 2 * scene) / (free[c] + 2)
            share = between[j] * scene / (between[j] * scene + variance / sizes[c])
            shift = (1 - share) * (centers[s, j] - means[c][j])
            limit = 1.5 * np.sqrt(variance / sizes[c])
            posterior = means[c][j] + max(-limit, min(limit, shift))
            error = share / sizes[c] + (1 - share) * errors[s][j]
            assert_allclose(found[0][s, c, j], posterior, rtol=1e-9)
            assert_allclose(found[1][s, c, j], variance * (1 + error), rtol=1e-9)


def test_densities_of_cells_by_definition():
    """The density of a resolution is a mixture of normal distributions."""
    scenes = equal(some_scenes())
    pool = ScenePool.fit(scenes, TRANSLATIONS)
    pool = replace(pool, weights=np.ones(pool.weights.shape) / pool.weights.size)
    first, paths = scenes.samples[:1], some_scenes(1, 4, seed=1)
    found = pool._log_cells(equal(first), paths)
    centered = first - first.mean(axis=1, keepdims=True)
    n, (prior, cell) = np.array([12.0]), (pool.prior, pool.cells[2])
    assert pool.resolutions[2] == 3
    variance = (centered @ pool.cells[0].transform).var(axis=1).mean() * 12 / 11
    center = prior.shifts(first.mean(axis=1), np.array([variance]), n)
    covariance = np.linalg.inv(prior.transform)
    covariance = covariance.T @ np.diag(prior.shares(n)[0] / 12) @ covariance
    errors = np.diag(cell.transform.T @ covariance @ cell.transform)[None]
    labels = _partition(centered @ pool.metric, np.array([3]))[0]
    clusters = _Clusters(equal(centered @ cell.transform), labels)
    means, variances = clusters.predictive(
        cell.between, center @ cell.transform, errors, 1e-6 * pool.scale
    )
    inverse = np.linalg.inv(cell.transform)
    for g, width in enumerate((0.4, 0.7, 1.0, 1.5)):
        terms = [
            np.log((labels[0] == c).mean())
            + multivariate_normal(
                first[0].mean(axis=0) + means[0, c] @ inverse,
                width * inverse.T @ np.diag(variances[0, c]) @ inverse,
            ).logpdf(paths[0])
            for c in range(3)
        ]
        assert_allclose(found[0, :, 2, g], logsumexp(terms, axis=0), rtol=1e-9)


def test_marginal_densities_are_integrals():
    rng, scenes = np.random.RandomState(0), equal(some_scenes())
    pool = ScenePool.fit(scenes, TRANSLATIONS)
    first = equal(scenes.samples[:1])
    center, grid = first.means(), np.linspace(-25, 25, 5001)
    for columns in ([0, 1], [0, 2], [1, 2]):
        at = center[:, None, columns] + rng.standard_normal((1, 5, 2))
        paths = np.empty((1, 5, len(grid), 3))
        paths[..., columns] = at[:, :, None]
        other = ({0, 1, 2} - set(columns)).pop()
        paths[..., other] = center[0, other] + grid
        densities = np.exp(pool.logpdf(first, paths.reshape(1, -1, 3)).reshape(5, -1))
        expected = np.log(densities.sum(axis=1) * (grid[1] - grid[0]))
        found = pool.logpdf(first, at, np.array(columns))[0]
        assert_allclose(found, expected, atol=2e-3)  # the floor of the density has no integral
    everything = pool.logpdf(first, first.samples + 0.1, np.arange(3))
    assert_allclose(everything, pool.logpdf(first, first.samples + 0.1), atol=1e-9)


def test_the_common_shape_of_scenes_of_different_scales():
    rng = np.random.RandomState(0)
    root = np.array([[2.0, 0.0], [1.5, 0.5]])
    scales = np.exp(3 * rng.standard_normal(4000))
    X = scales[:, None, None] * rng.standard_normal((4000, 5, 2)) @ root.T
    found = _whitener(X - X.mean(axis=1, keepdims=True), np.ones((4000, 5)), 1)
    assert_allclose(np.linalg.inv(found @ found.T), root @ root.T, rtol=0.05)


def test_variances_of_means_between_clusters():
    """The variance of random effects, in a simulation with known clusters."""
    rng, stds = np.random.RandomState(0), np.linspace(0, 2, 20)
    labels = np.tile(np.repeat([0, 1, 2], [3, 4, 8]), (4000, 1))
    effects = rng.standard_normal((4000, 3, 20)) * stds
    X = rng.standard_normal((4000, 15, 20)) + np.take_along_axis(effects, labels[..., None], axis=1)
    found = _Clusters(equal(X).centered(), labels).between()
    assert_allclose(found, np.diag(stds**2), rtol=0.05, atol=0.1)


def test_means_of_scenes_are_shrunk_where_they_do_not_differ():
    rng = np.random.RandomState(0)
    true = rng.standard_normal((2000, 4)) * [9.0, 0.0, 2.0, 0.1] + [0.0, 0.5, 0.0, 0.0]
    scenes = equal(true[:, None] + rng.standard_normal((2000, 10, 4)))
    means = scenes.means()
    prior = _MeanPrior.fit(scenes, np.eye(4), np.eye(4)[:1])
    assert np.isinf(prior.variances[0])
    assert_allclose(np.sort(prior.variances[1:]), [0.0, 0.01, 4.0], atol=0.15)
    shifts = prior.shifts(means, np.ones(2000), np.full(2000, 10.0))
    assert_allclose(shifts[:, 0], 0.0, atol=1e-9)
    before, after = (((each - true) ** 2).mean(axis=0) for each in (means, means + shifts))
    assert (after[[1, 3]] < 0.3 * before[[1, 3]]).all()
    assert_allclose(after[2], before[2], rtol=0.1)
    # A scene that the others do not resemble is moved by 1.5 standard errors at most.
    far = prior.shifts(np.full((1, 4), 100.0), np.ones(1), np.array([10.0]))
    assert 0.1 < np.linalg.norm(far) <= 1.5 * np.sqrt(3 / 10) + 1e-12


def test_samples_of_small_weight_hardly_count(walks, samples):
    """Samples of weight zero are absent, and only ratios of weights count."""
    absent, tiny = np.ones((60, 20)), np.ones((60, 20))
    absent[:, 15:], tiny[:, 15:] = 0.0, 1e-9
    some, nearly = (nll(samples, walks.truth, weights=each) for each in (absent, tiny))
    assert_allclose(some, nll(samples[:, :15], walks.truth), atol=1e-9)
    assert abs(np.median(nearly - some)) < 0.2
    assert_allclose(
        nll(samples, walks.truth, weights=3 * np.ones((60, 20))), nll(samples, walks.truth)
    )


def test_weights_are_those_of_a_likelihood():
    rng = np.random.RandomState(0)
    logs, counts = np.log(rng.gamma(1.0, size=(10, 3))), rng.choice([1, 2, 3], 10)
    repeated = _stack(np.repeat(logs, counts, axis=0), np.ones(counts.sum()))
    assert_allclose(_stack(logs, counts), repeated, atol=1e-9)


def test_weights_maximize_the_likelihood():
    rng = np.random.RandomState(0)
    densities = rng.gamma(1.0, size=(500, 4)) * [1.0, 1.0, 0.01, 0.3]
    weights = _stack(np.log(densities), np.ones(500))
    assert weights[2] == weights[3] == 0
    best = max(np.log(densities[:, :2] @ [w, 1 - w]).sum() for w in np.linspace(0.01, 0.99, 99))
    assert np.log(densities @ weights).sum() > best - 1e-2


def test_the_order_of_scenes_and_samples_has_no_effect(walks, samples):
    rng = np.random.RandomState(0)
    scenes = rng.permutation(len(samples))
    shuffled = samples[scenes][:, rng.permutation(20)]
    found = nll(shuffled, walks.truth[scenes])
    assert_allclose(found, nll(samples, walks.truth)[scenes], atol=1e-9)


def test_units_rotations_and_origins(walks, samples):
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    moved = nll(7 * samples @ turn + 300, 7 * walks.truth @ turn + 300)
    assert_allclose(moved, nll(samples, walks.truth) + 24 * np.log(7), atol=1e-7)


def test_rare_masks_have_marginal_densities(walks, samples):
    """Each scene has a mask of its own; the exact density is that of the marginal mixture."""
    rng = np.random.RandomState(0)
    truth = walks.truth.copy()
    truth[rng.uniform(size=truth.shape[:2]) < 0.3] = np.nan
    law, exact = walks.law, []
    for s, path in enumerate(truth):
        kept = ~np.isnan(path[:, 0])
        along, across = law.headings[s], law.headings[s][::-1] * [-1, 1]
        cov = sum(
            np.kron(factor @ factor.T, np.outer(axis, axis))
            for factor, axis in zip(law.factors, (along, across), strict=True)
        )
        cov = cov[np.ix_(np.repeat(kept, 2), np.repeat(kept, 2))]
        terms = [
            np.log(share) + multivariate_normal(mean[kept].ravel(), cov).logpdf(path[kept].ravel())
            for share, mean in zip(law.shares[s], law.means[s], strict=True)
            if share > 0
        ]
        exact.append(-logsumexp(terms))
    pooled, single = nll(samples, truth), nll(samples, truth, estimator="rome")
    assert abs(np.median(pooled - exact)) < 2 < np.median(single - exact)
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    moved = nll(7 * samples @ turn + 300, 7 * truth @ turn + 300)
    n_values = 2 * np.count_nonzero(~np.isnan(truth[..., 0]), axis=1)
    assert_allclose(moved, pooled + n_values * np.log(7), atol=1e-7)


def test_closer_to_the_exact_likelihood_than_single_scenes(walks, samples):
    exact = -walks.law.logpdf(walks.truth)
    pooled, single = nll(samples, walks.truth), nll(samples, walks.truth, estimator="rome")
    assert abs(np.median(pooled - exact)) < 2 < np.median(single - exact)
    assert np.corrcoef(pooled, exact)[0, 1] > np.corrcoef(single, exact)[0, 1]


@pytest.mark.whole
@pytest.mark.parametrize("spread", [0.8, 1.25])
def test_the_right_spread_wins(spread):
    """By single scenes, a law that is 20 % too narrow beats the true one."""
    walks = make_walks(200, random_state=3)
    right = nll(walks.law.draw(20, 1), walks.truth)
    wrong = nll(walks.law.spread(spread).draw(20, 1), walks.truth)
    apart = wrong - right
    assert apart.mean() > 2 * apart.std() / np.sqrt(len(apart))


def test_few_scenes_are_fitted_one_by_one(walks, samples):
    few = slice(MIN_SCENES - 1)
    found = evaluate(samples[few], walks.truth[few], measures="nll", n_replicates=0)
    assert found.settings["estimator"] == "rome"
    expected = nll(samples[few], walks.truth[few], estimator="rome")
    np.testing.assert_array_equal(found.scenes["nll"], expected)
    assert evaluate(samples, walks.truth, measures="nll").settings["estimator"] == "pooled"


def test_degenerate_scenes_stay_out_of_the_pool(walks, samples):
    """Standing pedestrians get the density of their floor; the others do not notice them."""
    still = np.concatenate([samples, np.repeat(samples[:5, :1], 20, axis=1)])
    truth = np.concatenate([walks.truth, walks.truth[:5]])
    found = nll(still, truth, floor=0.05)
    assert np.isfinite(found).all()
    assert_allclose(found[:60], nll(samples, walks.truth, floor=0.05), atol=1e-9)
    single = nll(still[60:], truth[60:], floor=0.05, estimator="rome")
    np.testing.assert_array_equal(found[60:], single)


def test_paths_of_every_length_have_a_pool(walks, samples):
    truth = np.concatenate([walks.truth, walks.truth])
    truth[60:, 7:] = np.nan
    found = nll(np.concatenate([samples, samples]), truth)
    assert_allclose(found[60:], nll(samples[:, :, :7], walks.truth[:, :7]), atol=1e-9)


def test_absent_samples(walks, samples):
    some = samples.copy()
    some[0, 15:] = np.nan
    found = nll(some, walks.truth)
    assert np.isfinite(found).all()
    assert abs(found[0] - nll(samples, walks.truth)[0]) < 15


def test_agents_together(walks, samples):
    pairs = samples.reshape(30, 2, 20, 12, 2).swapaxes(1, 2)
    truth = walks.truth.reshape(30, 2, 12, 2)
    found = evaluate(
        pairs, truth, agents=True, measures=["nll_agent", "nll_agents"], n_replicates=0
    )
    assert found.settings["estimator"] == "pooled"
    exact = -walks.law.logpdf(walks.truth).reshape(30, 2)
    assert abs(np.median(found.scenes["nll_agent"] - exact.mean(axis=1))) < 2
    assert np.isfinite(found.scenes["nll_agents"]).all()


def test_a_truth_far_away_has_a_bounded_score(walks, samples):
    truth = walks.truth.copy()
    truth[0] += 1e6
    found, usual = nll(samples, truth), nll(samples, walks.truth)
    assert_allclose(found[1:], usual[1:], atol=1e-9)
    assert 50 < found[0] - np.median(usual) < 120


def test_pools_need_enough_samples_for_the_features():
    rng = np.random.RandomState(0)
    for shape, is_enough in (((40, 4, 60), False), ((40, 20, 4), True)):
        scenes = equal(rng.standard_normal(shape))
        found = ScenePool.from_scenes(scenes, np.eye(shape[-1])[:2])
        assert (found is not None) == is_enough


def test_paths_in_a_subspace_are_fitted_one_by_one(walks):
    """Samples of constant velocity have two degrees of freedom, whatever the number of steps."""
    velocity = np.random.RandomState(0).standard_normal((60, 20, 1, 2))
    found = evaluate(velocity * np.arange(1, 13)[:, None], walks.truth, measures="nll")
    assert found.settings["estimator"] == "rome"
    assert np.isfinite(found.scenes["nll"]).all()


def test_repeated_samples(walks, samples):
    """Six modes that are repeated by their probabilities have no spread of their own."""
    repeated = samples[:, np.arange(20) % 6]
    found = nll(repeated, walks.truth)
    assert np.isfinite(found).all()
    assert np.median(found) > np.median(nll(samples, walks.truth))
