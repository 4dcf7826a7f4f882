import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gaussian_kde, kstest
from sklearn.base import clone

from sevenhills import ROME, AutoROME, GaussianKDE, GaussianMixtureBIC, ManifoldParzen, compat
from sevenhills.forecast import evaluate
from sevenhills.forecast.path_densities import (
    AgentForecasts,
    FlooredEstimator,
    leave_one_out,
    step_densities,
)
from sevenhills.metrics import wasserstein

from . import oracles
from .scenes import degenerate_scenes, means, padded, several_truths, shrinking, walks

PLAIN = FlooredEstimator("kde", GaussianKDE(), "floor", None)


@given(
    st.integers(0, 2**31),
    st.integers(1, 4),
    st.sampled_from([0.0, 1.0, 1e4]),
    st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_steps_are_those_of_scipy(seed, n_coordinates, offset, scale):
    rng = np.random.RandomState(seed)
    n_samples = n_coordinates + 2 + rng.randint(10)
    paths = scale * (rng.standard_normal((2, n_samples, 1, 3, n_coordinates)) + offset)
    if rng.randint(2):  # ties
        paths[0, : n_samples // 3] = paths[0, 0]
    truths = paths[:, :2] + scale * rng.choice([0.1, 30.0])
    found = step_densities(AgentForecasts.from_scenes(paths, truths, np.ones((2, 1))), PLAIN)
    for c, m, t in np.ndindex(2, 2, 3):
        try:
            expected = gaussian_kde(paths[c, :, 0, t].T).logpdf(truths[c, m, 0, t])[0]
        except np.linalg.LinAlgError:
            assert found.degeneracy[c, t] != 0
            continue
        if found.degeneracy[c, t] == 0:
            assert_allclose(found.log_densities[c, m, t], expected, rtol=1e-9, atol=1e-9)


DEGENERACY = [[0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 2], [3, 3, 3]]


def test_degenerate_steps_are_those_of_scipy_and_get_a_floor():
    predictions, truth = degenerate_scenes()
    for s, t in np.ndindex(5, 3):
        there = predictions[s, ~np.isnan(predictions[s, :, t, 0]), t]
        try:
            covariance = gaussian_kde(there.T).covariance
            # Where scipy does not notice, what it says is all rounding.
            stds = np.sqrt(np.diag(covariance))
            is_singular = bool((stds < 1e-14).any() or np.linalg.cond(covariance) > 1e14)
        except (np.linalg.LinAlgError, ValueError):
            is_singular = True
        assert is_singular == (DEGENERACY[s][t] != 0)
    agents = AgentForecasts.from_scenes(
        predictions[:, :, None], truth[:, None, None], np.full((5, 1), 0.05)
    )
    found = step_densities(agents, PLAIN)
    assert_array_equal(found.degeneracy, DEGENERACY)
    for s, t in np.argwhere(DEGENERACY):
        there = predictions[s, ~np.isnan(predictions[s, :, t, 0]), t]
        expected = oracles.floored_log_density(there, truth[s, t], 0.05)
        assert_allclose(found.log_densities[s, 0, t], expected, rtol=1e-9)


@pytest.mark.parametrize("given", [ROME(selection=None), "rome", GaussianKDE(bw_method=0.7)])
def test_steps_by_any_estimator(given):
    predictions, truth = padded(*walks(4))
    found = evaluate(predictions, truth, measures="nll_step", step_estimator=given)
    estimator = shrinking() if given == "rome" else given
    for s in (0, 2, 3):
        each = []
        for t in range(min(oracles.length(truth[s]), max(map(oracles.length, predictions[s])))):
            there = np.array([path[t] for path in predictions[s] if oracles.length(path) > t])
            each.append(-clone(estimator).fit(there).score_samples(truth[s, t][None])[0])
        assert_allclose(found.scenes["nll_step"][s], means(each))


@pytest.mark.parametrize("shape", [(60, 3, 2), (12, 4, 2)])
@pytest.mark.whole
def test_paths_are_those_of_the_estimator(shape):
    predictions, truth = walks(2, *shape)
    for asked, estimator in (
        ("rome", shrinking()),
        ("kde", GaussianKDE()),
        (AutoROME(), AutoROME()),
        (ManifoldParzen(), ManifoldParzen()),
        (compat.ROME(min_std=0.2), None),
    ):
        found = evaluate(predictions, truth, estimator=asked, measures="nll")
        for s in range(2):
            model = compat.ROME(min_std=0.2) if estimator is None else clone(estimator)
            model.fit(predictions[s].reshape(shape[0], -1))
            expected = -model.score_samples(truth[s].reshape(1, -1))[0]
            assert found.scenes["nll"][s] == expected


def test_large_clusters_are_plain_rome():
    predictions, truth = walks(3, 80, 3)
    found = evaluate(predictions, truth, measures="nll").scenes["nll"]
    expected = [
        -ROME().fit(each.reshape(80, -1)).score_samples(true.reshape(1, -1))[0]
        for each, true in zip(predictions, truth, strict=True)
    ]
    assert_array_equal(found, expected)


def test_gaussian_kde_is_scipys():
    predictions, truth = walks(5, 40, 3)
    found = evaluate(predictions, truth, estimator="kde", measures=("nll", "nll_step"))
    for s in range(5):
        expected = gaussian_kde(predictions[s].reshape(40, -1).T).logpdf(truth[s].ravel())[0]
        assert_allclose(found.scenes["nll"][s], -expected, rtol=1e-9)
        assert_allclose(found.scenes["nll_step"][s], oracles.step_nll(predictions[s], truth[s]))


@pytest.mark.parametrize("estimator", [ROME(), GaussianKDE(), ManifoldParzen(), ROME(min_std=0.3)])
def test_leave_one_out_densities(estimator):
    X = walks(1, 25, 2)[0].reshape(25, -1)
    X[5] = X[4]
    model = clone(estimator).fit(X)
    assert_allclose(
        leave_one_out(model, X), oracles.others_log_density(model.density_, X), rtol=1e-8
    )


def test_densities_without_a_kernel_per_sample_are_evaluated_as_they_are():
    X = walks(1, 40, 1)[0].reshape(40, -1)
    model = GaussianMixtureBIC(max_components=2).fit(X)
    assert_array_equal(leave_one_out(model, X), model.score_samples(X))


@pytest.mark.parametrize(("n_samples", "n_steps"), [(6, 4), (25, 2)])
def test_levels_of_the_true_distribution_are_uniform(n_samples, n_steps):
    """With fewer and with more samples than dimensions."""
    predictions, truth = walks(80, n_samples, n_steps)
    centre = predictions.mean(axis=1, keepdims=True)
    right, narrow, wide = (
        evaluate(centre + factor * (predictions - centre), truth, measures="ece", n_replicates=200)
        for factor in (1.0, 0.3, 4.0)
    )
    assert kstest(right.levels.ravel(), "uniform").pvalue > 0.01
    assert right["ece"].mean < 2.5 * right.coverage.expected_error
    assert narrow["ece"].mean > 0.05 < wide["ece"].mean
    assert narrow.coverage.observed[-5] < right.coverage.observed[-5]


def test_levels_by_definition():
    predictions, truth = walks(5, 9, 2)
    found = evaluate(predictions, truth, measures="ece", random_state=3)
    uniform = np.random.RandomState(3).uniform(size=(5, 1, 1))
    for s in range(5):
        X = np.concatenate([predictions[s], truth[s][None]]).reshape(10, -1)
        model = shrinking().fit(X)
        values = oracles.others_log_density(model.density_, X)
        denser = (values[:-1] > values[-1] + 1e-9).sum()
        equal = (abs(values[:-1] - values[-1]) <= 1e-9).sum()
        assert_allclose(found.levels[s, 0], (denser + uniform[s, 0, 0] * (1 + equal)) / 10)


def test_divergences():
    predictions, truths = several_truths()
    found = evaluate(predictions, truths, measures=("kl", "jsd", "wasserstein", "nll", "ece"))
    assert found.levels.shape == (3, 6)
    for s in range(3):
        X, Y = predictions[s].reshape(20, -1), truths[s].reshape(6, -1)
        p, q = shrinking().fit(X), shrinking().fit(Y)
        own = oracles.others_log_density(q.density_, Y)
        assert_allclose(found.scenes["kl"][s], means(own - p.score_samples(Y)))
        assert_allclose(found.scenes["wasserstein"][s], wasserstein(X, Y) / np.sqrt(2))
        log_p = np.concatenate([oracles.others_log_density(p.density_, X), p.score_samples(Y)])
        log_q = np.concatenate([q.score_samples(X), own])
        with np.errstate(over="ignore"):
            share = 1 / (1 + np.exp(log_q - log_p))
        entropy = [-sum(x * np.log2(x) for x in (a, 1 - a) if x > 0) for a in share]
        terms = 1 - np.array(entropy)
        assert_allclose(found.scenes["jsd"][s], (terms[:20].mean() + terms[20:].mean()) / 2)


def test_densities_of_steps_leave_the_paths_as_they_are():
    """Paths of one agent at one step have the layout in which steps are computed."""
    paths, truths = np.random.RandomState(0).standard_normal((2, 1, 8, 1, 1, 1)) + 5
    before = paths.copy()
    step_densities(AgentForecasts.from_scenes(paths, truths[:, :1], np.ones((1, 1))), PLAIN)
    assert_array_equal(paths, before)
