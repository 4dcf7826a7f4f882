"""Weights of samples."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gaussian_kde
from sklearn.neighbors import NearestNeighbors

from sevenhills import GaussianKDE
from sevenhills.forecast import evaluate
from sevenhills.forecast.path_densities import AgentForecasts, FlooredEstimator, step_densities

from . import oracles
from .scenes import long_frame, padded, refuses, several_truths, walks

PLAIN = FlooredEstimator("kde", GaussianKDE(), "floor", None)


def some_weights(predictions, seed=0):
    return np.random.RandomState(seed).uniform(0.2, 3.0, predictions.shape[:2])


def scores(*arguments, **options):
    found = evaluate(*arguments, n_replicates=0, **options)
    return {**found.scenes, "levels": found.levels}


def assert_equal(first, second, rtol=1e-9):
    assert first.keys() == second.keys()
    for name in first:
        assert_allclose(first[name], second[name], rtol=rtol, atol=1e-12, err_msg=name)


@given(st.integers(0, 2**31), st.integers(1, 3), st.sampled_from([0.0, 1e4]))
def test_steps_are_those_of_scipy(seed, n_coordinates, offset):
    rng = np.random.RandomState(seed)
    paths = rng.standard_normal((2, n_coordinates + 4, 1, 2, n_coordinates)) + offset
    weights = rng.uniform(0.1, 5.0, paths.shape[:2])
    truths = paths[:, :1] + 0.3
    agents = AgentForecasts.from_scenes(paths, truths, np.ones((2, 1)), weights[..., None])
    found = step_densities(agents, PLAIN).log_densities
    for s, t in np.ndindex(2, 2):
        kde = gaussian_kde(paths[s, :, 0, t].T, weights=weights[s])
        assert_allclose(found[s, 0, t], kde.logpdf(truths[s, 0, 0, t])[0], rtol=1e-9, atol=1e-9)


def test_measures_are_those_of_weighted_oracles():
    predictions, truth = walks(4, 7, 3)
    weights = some_weights(predictions)
    found = scores(predictions, truth, weights=weights, measures=("ade", "fde", "energy_score"))
    shares = weights / weights.sum(axis=1, keepdims=True)
    for s, (samples, w) in enumerate(zip(predictions, shares, strict=True)):
        apart = np.linalg.norm(samples - truth[s], axis=-1)
        assert_allclose(found["ade"][s], w @ apart.mean(axis=1))
        assert_allclose(found["fde"][s], w @ apart[:, -1])
        rows, y = oracles.rows_of(samples, truth[s])
        pairs = [
            (w[i] * w[j], np.linalg.norm(rows[i] - rows[j])) for i, j in np.ndindex(7, 7) if i != j
        ]
        within = sum(p * d for p, d in pairs) / sum(p for p, _ in pairs)
        score = w @ np.linalg.norm(rows - y, axis=1) - within / 2
        assert_allclose(found["energy_score"][s], score / np.sqrt(3))


def test_the_density_of_paths_counts_the_effective_number_of_samples():
    predictions, truth = walks(3, 12, 2)
    weights = some_weights(predictions)
    found = scores(predictions, truth, weights=weights, measures="nll", estimator="kde")
    for s, (samples, w) in enumerate(zip(predictions, weights, strict=True)):
        kde = gaussian_kde(samples.reshape(12, -1).T, weights=w)
        assert_allclose(found["nll"][s], -kde.logpdf(truth[s].ravel())[0], rtol=1e-9)


SCENES = [
    walks(40, 12, 3),
    padded(*walks(9, 10, 3)),
    several_truths(),
]


@pytest.mark.parametrize("scenes", SCENES)
@pytest.mark.parametrize("weight", [1.0, 0.1, 7e30])
def test_equal_weights_are_no_weights(scenes, weight):
    found = scores(*scenes, weights=np.full(scenes[0].shape[:2], weight), measures="all")
    expected = scores(*scenes, measures="all")
    assert_equal({name: found[name] for name in expected}, expected)


@pytest.mark.parametrize("scenes", SCENES)
def test_scaled_weights_are_the_same_weights(scenes):
    weights = some_weights(scenes[0])
    factors = np.random.RandomState(1).uniform(1e-3, 1e3, (len(weights), 1))
    assert_equal(scores(*scenes, weights=weights), scores(*scenes, weights=factors * weights))


@pytest.mark.parametrize("scenes", SCENES)
def test_the_order_of_samples_has_no_effect(scenes):
    weights, order = some_weights(scenes[0]), np.random.RandomState(2).permutation(10)
    order = np.append(order, np.arange(10, scenes[0].shape[1]))
    assert_equal(
        scores(*scenes, weights=weights),
        scores(scenes[0][:, order], scenes[1], weights=weights[:, order]),
        rtol=1e-7,
    )


@pytest.mark.parametrize("scenes", SCENES)
def test_samples_of_weight_zero_are_absent(scenes):
    predictions, truth = scenes
    weights = some_weights(predictions)
    weights[:, 3] = 0.0
    without = predictions.copy()
    without[:, 3] = np.nan
    found = scores(predictions, truth, weights=weights)
    assert_equal(found, scores(without, truth, weights=weights))
    weights[:, 3] = 5.0
    assert_equal(found, scores(without, truth, weights=weights))


@pytest.mark.parametrize("copies", [2, 3])
def test_a_whole_weight_is_a_number_of_copies_for_means(copies):
    predictions, truth = walks(5, 8, 3)
    weights = np.ones((5, 8))
    weights[:, 2] = copies
    repeated = np.concatenate([predictions, *[predictions[:, 2:3]] * (copies - 1)], axis=1)
    measures = ("ade", "fde")
    if find_spec("ot") is not None:
        truth = np.stack([truth, truth + 0.4], axis=1)
        measures += ("wasserstein",)
    assert_equal(
        scores(predictions, truth, weights=weights, measures=measures),
        scores(repeated, truth, measures=measures),
    )


def test_weights_of_agents():
    predictions, truth = walks(5, 12, 3, n_agents=2)
    weights = some_weights(predictions)
    shared = scores(predictions, truth, agents=True, weights=weights)
    each = np.stack([weights, weights], axis=-1)
    assert_equal(scores(predictions, truth, agents=True, weights=each), shared)
    each[..., 1] = weights[:, ::-1]
    own = scores(predictions, truth, agents=True, weights=each)
    assert set(shared) - set(own) == {"nll_agents", "min_jade_12", "min_jfde_12"}
    first = scores(predictions[:, :, 0], truth[:, 0], weights=weights, measures="ade")["ade"]
    second = scores(predictions[:, :, 1], truth[:, 1], weights=each[..., 1], measures="ade")["ade"]
    assert_allclose(own["ade"], (first + second) / 2)
    refuses(
        "weights differ between agents",
        predictions,
        truth,
        agents=True,
        weights=each,
        measures="nll_agents",
    )


def test_an_almost_certain_sample_gives_finite_scores():
    predictions, truth = walks(5, 12, 3)
    weights = np.full((5, 12), 1e-14)
    weights[:, 0] = 1.0
    found = scores(predictions, truth, weights=weights)
    assert all(np.isfinite(values).all() for values in found.values())
    alone = scores(predictions[:, :1], truth, measures="ade")
    assert_allclose(found["ade"], alone["ade"], rtol=1e-9)


@pytest.mark.parametrize("n_agents", [None, 2])
def test_the_weights_of_tables_and_archives(n_agents, tmp_path):
    predictions, truth = walks(4, 9, 3, n_agents=n_agents)
    weights, agents = some_weights(predictions), n_agents is not None
    options = {"agents": agents, "measures": ("ade", "energy_score")}
    expected = scores(predictions, truth, weights=weights, **options)
    frame = long_frame(predictions, "sample")
    frame["weight"] = weights[frame["scene"], frame["sample"]]
    true = long_frame(truth[:, None], "future")
    found = scores(frame, true, **options)
    order = pd.unique(frame["scene"])
    for name in ("ade", "energy_score"):
        assert_allclose(found[name], expected[name][order])
    frame.loc[3, "weight"] += 1.0
    refuses("weight differs within a sample", frame, true, **options)
    np.savez(tmp_path / "a.npz", predictions=predictions, weights=weights)
    assert_equal(scores(tmp_path / "a.npz", truth, **options), expected)


def test_a_table_may_have_weights_of_agents():
    predictions, truth = walks(4, 9, 3, n_agents=2)
    weights = np.random.RandomState(0).uniform(1, 2, predictions.shape[:3])
    frame = long_frame(predictions, "sample").sort_values("scene", kind="stable")
    frame["weight"] = weights[frame["scene"], frame["sample"], frame["agent"]]
    found = scores(frame, long_frame(truth[:, None], "future"), agents=True, measures="ade")
    expected = scores(predictions, truth, agents=True, weights=weights, measures="ade")
    assert_array_equal(found["ade"], expected["ade"])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda w: w[:, 1:], r"weights must have shape \(6, 12\), got \(6, 11\)"),
        (lambda w: np.where(np.arange(6)[:, None] == 4, np.nan, w), "NaN or infinity in scene 4"),
        (lambda w: np.where(np.arange(6)[:, None] == 4, np.inf, w), "NaN or infinity in scene 4"),
        (lambda w: np.where(np.arange(6)[:, None] == 2, -1.0, w), "a negative value in scene 2"),
        (lambda w: w * (np.arange(6) != 5)[:, None], "nothing but zeros in scene 5"),
    ],
)
def test_bad_weights_are_refused(change, match):
    predictions, truth = walks()
    refuses(match, predictions, truth, weights=change(np.ones((6, 12))))


def test_an_estimator_without_weights_is_refused():
    class Unweighted(NearestNeighbors):
        def score_samples(self, X):
            return self.kneighbors(X)[0][:, 0]

    predictions, truth = walks()
    weights = some_weights(predictions)
    refuses(
        "does not take weights",
        predictions,
        truth,
        weights=weights,
        estimator=Unweighted(),
        error=TypeError,
    )
