"""Forecasts beside plain loops over scenes, samples and steps."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gaussian_kde, kstest
from sklearn.base import clone

from sevenhills import ROME, AutoROME, GaussianKDE, GaussianMixtureBIC, ManifoldParzen, compat
from sevenhills import forecast as fc
from sevenhills.forecast import PrecisionWarning, compare, evaluate, read_evaluation
from sevenhills.forecast.cells import Cases
from sevenhills.forecast.joint import left_out
from sevenhills.forecast.measures import MEASURES
from sevenhills.forecast.recipes import Recipe
from sevenhills.forecast.steps import step_densities
from sevenhills.metrics import calibration_error, wasserstein

from . import forecasts as twins

DISPLACEMENT = ("ade", "fde", "min_ade_k", "min_fde_k", "miss_rate")
PLAIN = Recipe(GaussianKDE(), "floor", None)


def walks(n_scenes=6, n_samples=12, n_steps=4, n_coordinates=2, seed=0, n_agents=None):
    """Samples and a truth from one law; every scene begins elsewhere and turns its own way."""
    rng = np.random.RandomState(seed)
    shape = (n_scenes, n_samples + 1, *(() if n_agents is None else (n_agents,)))
    steps = rng.standard_normal((*shape, n_steps, n_coordinates))
    drift = rng.standard_normal((n_scenes, *[1] * (steps.ndim - 2), n_coordinates))
    paths = (0.3 * steps + drift).cumsum(axis=-2)
    return paths[:, 1:], paths[:, 0]


def padded(predictions, truth, seed=0):
    """Paths that end early, samples and a scene's truth that are absent."""
    rng = np.random.RandomState(seed)
    predictions, truth = predictions.copy(), truth.copy()
    n_scenes, n_samples, n_steps = predictions.shape[:3]
    for s in range(n_scenes):
        truth[s, rng.randint(2, n_steps + 1) :] = np.nan
        predictions[s, rng.randint(n_samples), rng.randint(1, n_steps + 1) :] = np.nan
        predictions[s, rng.randint(n_samples)] = np.nan
    predictions[0, :, n_steps - 1 :] = np.nan
    truth[1] = np.nan
    return predictions, truth


def shrinking(**options):
    """What "rome" stands for."""
    return ROME(shrinkage="auto", **options)


def means(values):
    return float(np.mean(values))


# Densities of single steps


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
    found = step_densities(Cases.of(paths, truths, np.ones((2, 1))), PLAIN)
    for c, m, t in np.ndindex(2, 2, 3):
        try:
            expected = gaussian_kde(paths[c, :, 0, t].T).logpdf(truths[c, m, 0, t])[0]
        except np.linalg.LinAlgError:
            assert found.kinds[c, t] != 0
            continue
        if found.kinds[c, t] == 0:
            assert_allclose(found.log_densities[c, m, t], expected, rtol=1e-9, atol=1e-9)


def test_steps_of_paths_of_several_lengths():
    predictions, truth = padded(*walks(n_scenes=8))
    found = evaluate(predictions, truth, measures="nll_step").scenes["nll_step"]
    for s in range(8):
        expected = np.nan if s == 1 else twins.step_nll(predictions[s], truth[s])
        assert_allclose(found[s], expected, rtol=1e-9, atol=1e-9)


def degenerate_scenes():
    """Scenes of 10 samples x 3 steps x 2: fine, identical, standing, on a line, and few."""
    predictions, truth = walks(5, 10, 3)
    predictions[1] = predictions[1, :1]
    predictions[2, :, 1] = 0.1
    predictions[3, :, 2, 1] = 2 * predictions[3, :, 2, 0] + 1
    predictions[4, 2:] = np.nan
    return predictions, truth


KINDS = [[0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 2], [3, 3, 3]]


def test_degenerate_cells_are_those_of_scipy_and_get_a_floor():
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
        assert is_singular == (KINDS[s][t] != 0)
    cases = Cases.of(predictions[:, :, None], truth[:, None, None], np.full((5, 1), 0.05))
    found = step_densities(cases, PLAIN)
    assert_array_equal(found.kinds, KINDS)
    for s, t in np.argwhere(KINDS):
        there = predictions[s, ~np.isnan(predictions[s, :, t, 0]), t]
        expected = twins.floored_log_density(there, truth[s, t], 0.05)
        assert_allclose(found.log_densities[s, 0, t], expected, rtol=1e-9)


def test_policies_for_degenerate_scenes():
    predictions, truth = degenerate_scenes()
    measures = ("nll", "nll_step", "ece", "ade")
    floored = evaluate(predictions, truth, measures=measures)
    assert floored["nll_step"].n_scenes == floored["nll"].n_scenes == 5
    assert floored["nll_step"].n_degenerate == 8
    counts = floored.degenerate
    assert (counts["identical cells"], counts["flat cells"], counts["few cells"]) == (4, 1, 3)
    assert (counts["identical paths"], counts["flat paths"]) == (1, 2)
    left_out_of_it = evaluate(predictions, truth, measures=measures, errors="skip")
    assert left_out_of_it["nll_step"].n_scenes == 3
    assert np.isfinite([row.mean for row in left_out_of_it.summary]).all()
    assert np.isnan(left_out_of_it.scenes["nll"][1:4]).all()
    assert left_out_of_it.scenes["nll"][0] == floored.scenes["nll"][0]
    assert_array_equal(left_out_of_it.scenes["ade"], floored.scenes["ade"])
    with pytest.raises(ValueError, match=r"scene 1, step 0 \(identical\).*errors='floor'"):
        evaluate(predictions, truth, measures=measures, errors="raise")
    fine = evaluate(predictions[:1], truth[:1], measures="nll_step", errors="raise")
    assert_allclose(fine["nll_step"].mean, twins.step_nll(predictions[0], truth[0]))


def test_the_floor_is_relative_to_the_scene_or_given():
    predictions, truth = degenerate_scenes()
    by_default = evaluate(predictions, truth, measures="nll_step").scenes["nll_step"]
    larger = evaluate(100 * predictions, 100 * truth, measures="nll_step").scenes["nll_step"]
    assert_allclose(larger - by_default, 2 * np.log(100))
    given = evaluate(predictions, truth, measures=("nll_step", "nll"), floor=0.3)
    expected = means(
        [-twins.floored_log_density(predictions[1, :, t], truth[1, t], 0.3) for t in range(3)]
    )
    assert_allclose(given.scenes["nll_step"][1], expected)
    model = shrinking(min_std=0.3).fit(predictions[1].reshape(10, -1))
    assert_allclose(given.scenes["nll"][1], -model.score_samples(truth[1].reshape(1, -1))[0])
    still = np.zeros((4, 5, 3, 2))
    with pytest.raises(ValueError, match=r"identical samples in all scenes.*floor"):
        evaluate(still, still[:, 0])
    assert evaluate(still, still[:, 0], floor=0.1)["nll"].n_scenes == 4


def test_a_lower_bound_clips_steps():
    predictions, truth = walks(8)
    plain = evaluate(predictions, truth + 1.5, measures="nll_step")
    clipped = evaluate(predictions, truth + 1.5, measures="nll_step", lower_bound=-20)
    assert clipped.degenerate["clipped cells"] > 0
    assert clipped["nll_step"].mean < plain["nll_step"].mean
    for s in range(8):
        each = [
            max(gaussian_kde(predictions[s, :, t].T).logpdf(truth[s, t] + 1.5)[0], -20)
            for t in range(4)
        ]
        assert_allclose(clipped.scenes["nll_step"][s], -means(each))


@pytest.mark.parametrize("given", [ROME(selection=None), "rome", GaussianKDE(bw_method=0.7)])
def test_steps_by_any_estimator(given):
    predictions, truth = padded(*walks(4))
    found = evaluate(predictions, truth, measures="nll_step", step_estimator=given)
    estimator = shrinking() if given == "rome" else given
    for s in (0, 2, 3):
        each = []
        for t in range(min(twins.length(truth[s]), max(map(twins.length, predictions[s])))):
            there = np.array([path[t] for path in predictions[s] if twins.length(path) > t])
            each.append(-clone(estimator).fit(there).score_samples(truth[s, t][None])[0])
        assert_allclose(found.scenes["nll_step"][s], means(each))


# Densities of whole paths


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
        found = evaluate(predictions, truth, estimator=asked, measures=("nll", "nll_per_value"))
        for s in range(2):
            model = compat.ROME(min_std=0.2) if estimator is None else clone(estimator)
            model.fit(predictions[s].reshape(shape[0], -1))
            expected = -model.score_samples(truth[s].reshape(1, -1))[0]
            assert found.scenes["nll"][s] == expected
            assert_allclose(found.scenes["nll_per_value"][s], expected / shape[1] / shape[2])


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
        assert_allclose(found.scenes["nll_step"][s], twins.step_nll(predictions[s], truth[s]))


@pytest.mark.parametrize("estimator", [ROME(), GaussianKDE(), ManifoldParzen(), ROME(min_std=0.3)])
def test_own_kernels_are_left_out(estimator):
    X = walks(1, 25, 2)[0].reshape(25, -1)
    X[5] = X[4]
    model = clone(estimator).fit(X)
    assert_allclose(left_out(model, X), twins.others_log_density(model.density_, X), rtol=1e-8)


def test_densities_without_a_kernel_for_every_sample_are_taken_as_they_are():
    X = walks(1, 40, 1)[0].reshape(40, -1)
    model = GaussianMixtureBIC(max_components=2).fit(X)
    assert_array_equal(left_out(model, X), model.score_samples(X))


def test_an_estimator_that_refuses_is_counted():
    predictions, truth = degenerate_scenes()
    found = evaluate(
        predictions, truth, estimator=GaussianMixtureBIC(max_components=9), measures="nll"
    )
    assert found.degenerate
    assert np.isfinite(found["nll"].mean)


# Calibration


@pytest.mark.parametrize(("n_samples", "n_steps"), [(6, 4), (25, 2)])
def test_levels_of_the_right_law_are_uniform(n_samples, n_steps):
    """Whether there are more samples than dimensions or not."""
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


def test_levels_one_by_one():
    predictions, truth = walks(5, 9, 2)
    found = evaluate(predictions, truth, measures="ece", random_state=3)
    uniform = np.random.RandomState(3).uniform(size=(5, 1, 1))
    for s in range(5):
        X = np.concatenate([predictions[s], truth[s][None]]).reshape(10, -1)
        model = shrinking().fit(X)
        values = twins.others_log_density(model.density_, X)
        denser = (values[:-1] > values[-1] + 1e-9).sum()
        equal = (abs(values[:-1] - values[-1]) <= 1e-9).sum()
        assert_allclose(found.levels[s, 0], (denser + uniform[s, 0, 0] * (1 + equal)) / 10)


def test_coverage_and_error_are_shares_of_levels():
    predictions, truth = walks(50, 8, 2)
    found = evaluate(predictions, truth, measures="ece", levels=(0.5, 0.25), n_replicates=50)
    levels = found.levels.ravel()
    assert_array_equal(found.coverage.levels, [0.25, 0.5])
    assert_allclose(found.coverage.observed, [(levels <= 0.25).mean(), (levels <= 0.5).mean()])
    assert_allclose(found["ece"].mean, twins.calibration_error(levels))
    shares = np.round(levels * 1000) / 1000  # as shares of a thousand own samples
    own = np.tile(np.arange(1000.0), (50, 1))
    same = calibration_error(own, 999.5 - 1000 * shares)
    assert_allclose(twins.calibration_error(shares), same, atol=0.01)
    assert found.coverage.n_truths == 50
    assert 0 <= found["ece"].low <= found["ece"].mean <= found["ece"].high


def test_the_expected_error_is_that_of_uniform_levels():
    rng = np.random.RandomState(0)
    found = means([twins.calibration_error(rng.uniform(size=200)) for _ in range(200)])
    levels = np.full((200, 1), 0.5)
    coverage = fc.Coverage(*[np.ones(1)] * 5, n_truths=200)
    assert_allclose(found, coverage.expected_error, rtol=0.1)
    assert fc.calibration.CalibrationError(levels)() == pytest.approx(0.25, abs=0.01)


# Distances


def test_displacements():
    predictions, truth = padded(*walks(8))
    found = evaluate(predictions, truth, measures=DISPLACEMENT, k=(3, 8), miss_threshold=0.5)
    for s in (0, *range(2, 8)):
        expected = twins.displacements(predictions[s], truth[s], (3, 8), 0.5)
        for name, value in expected.items():
            assert_allclose(found.scenes[name][s], value)
    assert all(np.isnan(values[1]) for values in found.scenes.values())
    assert found.degenerate["scenes without truth"] == 1


def test_energy_score():
    predictions, truth = padded(*walks(5))
    found = evaluate(predictions, truth, measures="energy_score").scenes["energy_score"]
    for s in (0, 2, 3, 4):
        assert_allclose(found[s], twins.energy_score(predictions[s], truth[s]))


def test_the_likeliest_sample():
    predictions, truth = walks(2, 30, 2)
    found = evaluate(predictions, truth, measures="ade_likeliest").scenes["ade_likeliest"]
    for s in range(2):
        X = predictions[s].reshape(30, -1)
        best = twins.others_log_density(shrinking().fit(X).density_, X).argmax()
        assert_allclose(found[s], means(np.linalg.norm(predictions[s, best] - truth[s], axis=1)))


# Several truths


def several_truths():
    predictions, truth = walks(3, 20, 2)
    rng = np.random.RandomState(1)
    return predictions, truth[:, None] + 0.2 * rng.standard_normal((3, 6, 2, 2))


def test_several_truths_are_averaged():
    predictions, truths = several_truths()
    measures = ("nll", "nll_step", "energy_score", *DISPLACEMENT, "ade_likeliest")
    found = evaluate(predictions, truths, measures=measures)
    each = [evaluate(predictions, truths[:, i], measures=measures) for i in range(6)]
    for name, values in found.scenes.items():
        assert_allclose(values, np.mean([one.scenes[name] for one in each], axis=0))


def test_divergences():
    predictions, truths = several_truths()
    found = evaluate(predictions, truths, measures=("kl", "jsd", "wasserstein", "nll", "ece"))
    assert found.levels.shape == (3, 6)
    for s in range(3):
        X, Y = predictions[s].reshape(20, -1), truths[s].reshape(6, -1)
        p, q = shrinking().fit(X), shrinking().fit(Y)
        own = twins.others_log_density(q.density_, Y)
        assert_allclose(found.scenes["kl"][s], means(own - p.score_samples(Y)))
        assert_allclose(found.scenes["wasserstein"][s], wasserstein(X, Y) / np.sqrt(2))
        log_p = np.concatenate([twins.others_log_density(p.density_, X), p.score_samples(Y)])
        log_q = np.concatenate([q.score_samples(X), own])
        with np.errstate(over="ignore"):
            share = 1 / (1 + np.exp(log_q - log_p))
        entropy = [-sum(x * np.log2(x) for x in (a, 1 - a) if x > 0) for a in share]
        terms = 1 - np.array(entropy)
        assert_allclose(found.scenes["jsd"][s], (terms[:20].mean() + terms[20:].mean()) / 2)


def test_truths_of_several_lengths():
    predictions, truths = several_truths()
    truths[:, :3, 1] = np.nan
    truths[0, 5] = np.nan
    found = evaluate(predictions, truths, measures=("nll", "kl", "wasserstein", "ade", "ece"))
    for name in ("nll", "ade"):
        each = [evaluate(predictions, truths[:, i], measures=name).scenes[name] for i in range(6)]
        assert_allclose(found.scenes[name], np.nanmean(each, axis=0))
    assert np.isfinite(found.scenes["kl"]).all()
    assert_array_equal(np.isnan(found.levels).sum(axis=1), [1, 0, 0])


# Agents, padding, blocks and sources: the same as scene by scene


def test_agents_are_those_of_calls_for_each():
    predictions, truth = walks(5, 15, 3, n_agents=3)
    truth[2, 1] = np.nan
    truth[3, 0, 2:] = np.nan
    measures = ("nll_step", "energy_score", *DISPLACEMENT, "ade_likeliest")
    found = evaluate(predictions, truth, agents=True, measures=("nll_agent", *measures))
    each = [
        evaluate(predictions[:, :, a], truth[:, a], measures=("nll", *measures)) for a in range(3)
    ]
    for name in found.scenes:
        alone = [one.scenes["nll" if name == "nll_agent" else name] for one in each]
        assert_allclose(found.scenes[name], np.nanmean(alone, axis=0))


def test_agents_together():
    predictions, truth = walks(4, 30, 2, n_agents=2)
    truth[1, 0] = np.nan
    truth[2, 1, 1:] = np.nan
    found = evaluate(predictions, truth, agents=True, measures=("nll_agents", "ece"))
    there = ~np.isnan(truth)
    for s in range(4):
        X, y = predictions[s][:, there[s]], truth[s][there[s]]
        expected = -shrinking().fit(X).score_samples(y[None])[0]
        assert_allclose(found.scenes["nll_agents"][s], expected)
    assert found.levels.shape == (4, 2)


def test_padded_scenes_are_those_of_short_calls():
    predictions, truth = padded(*walks(6, 14, 5))
    found = evaluate(predictions, truth)
    uniform = np.random.RandomState(0).uniform(size=(6, 1, 1))
    for s in (0, 2, 3, 4, 5):
        there = np.isfinite(predictions[s]).all(axis=(1, 2))
        end = twins.length(truth[s])
        if s == 0:
            there, end = np.isfinite(predictions[0, :, 0, 0]), min(end, 4)
            there &= np.isfinite(predictions[0, :, end - 1, 0])
        there = np.array([twins.length(path) >= end for path in predictions[s]])
        alone = evaluate(predictions[s : s + 1, there, :end], truth[s : s + 1, :end])
        for name in ("nll", "energy_score", "ade", "fde", "ade_likeliest"):
            assert_allclose(found.scenes[name][s], alone.scenes[name][0])
        count = there.sum() + 1
        first = np.random.RandomState(0).uniform()
        shift = (uniform[s, 0, 0] - first) / count
        assert_allclose(found.levels[s, 0], alone.levels[0, 0] + shift)


def assert_same(first, second):
    assert first.scenes.keys() == second.scenes.keys()
    for name in first.scenes:
        assert_array_equal(first.scenes[name], second.scenes[name])
    assert_array_equal(first.levels, second.levels)
    assert first.summary == second.summary
    assert first.degenerate == second.degenerate


@pytest.fixture(scope="module")
def scenes():
    return padded(*walks(9, 10, 3))


@pytest.fixture(scope="module")
def evaluation(scenes):
    return evaluate(*scenes, n_replicates=100)


def test_blocks_do_not_matter(scenes, evaluation, monkeypatch):
    monkeypatch.setattr(fc.arrays, "_BLOCK_SIZE", 130)
    assert_same(evaluate(*scenes, n_replicates=100), evaluation)


def test_workers_do_not_matter(scenes, evaluation):
    assert_same(evaluate(*scenes, n_replicates=100, n_jobs=2), evaluation)


def long_frame(values, path):
    """A row for every point, in no order."""
    rows = np.argwhere(np.isfinite(values).all(axis=-1))
    names = ["scene", path, "step"] if values.ndim == 4 else ["scene", path, "agent", "step"]
    frame = pd.DataFrame(rows, columns=names)
    frame[["x", "y"]] = values[tuple(rows.T)]
    return frame


class Tensor:
    """What there is of a tensor that has gradients and lives elsewhere."""

    def __init__(self, values, is_here=False):
        self.values, self.is_here = values, is_here

    def detach(self):
        return self

    def cpu(self):
        return Tensor(self.values, True)

    def __array__(self, dtype=None, copy=None):
        assert self.is_here
        return self.values


class ShortTensor(Tensor):
    """A tensor of a type that numpy does not have."""

    dtype = "torch.bfloat16"

    def detach(self):
        return self

    def cpu(self):
        return ShortTensor(self.values, True)

    def float(self):
        return Tensor(self.values.astype(np.float32), self.is_here)

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")


def as_bfloat16(values):
    """Values as a tensor of 16 bits, eight of which are for the exponent."""
    bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return ShortTensor(bits.view(np.float32))


def test_bfloat16_is_converted():
    """At samples, queries, weights and labels, and in forecasts."""
    rng = np.random.RandomState(0)
    X = as_bfloat16(rng.standard_normal((40, 2)))
    weights = as_bfloat16(rng.randint(1, 4, 40).astype(float))
    model = ROME().fit(X, sample_weight=weights)
    plain = ROME().fit(X.values.astype(float), sample_weight=weights.values)
    assert_array_equal(model.score_samples(X), plain.score_samples(X.values))
    assert_array_equal(model.density_.logpdf(X), plain.density_.logpdf(X.values))
    labels = as_bfloat16((rng.uniform(size=40) < 0.5).astype(float))
    assert_array_equal(ROME().fit(X, labels=labels).labels_, labels.values)
    paths = as_bfloat16(rng.standard_normal((6, 12, 3, 2)))
    truth = as_bfloat16(rng.standard_normal((6, 3, 2)))
    with pytest.warns(PrecisionWarning):  # eight bits are few
        found = evaluate(paths, truth, measures="ade")
    assert found["ade"].mean == evaluate(paths.values, truth.values, measures="ade")["ade"].mean


# Precision


UTM = np.array([448_262.0, 5_411_932.0])


def nll_step_of(predictions, truth):
    return evaluate(predictions, truth, measures="nll_step")["nll_step"].mean


@pytest.mark.parametrize("part", ["both", "predictions", "truth"])
def test_floats_of_32_bits_far_from_the_origin_are_named(part):
    predictions, truth = walks(20, 25, 4)
    predictions, truth = predictions / 4, truth / 4
    expected = nll_step_of(predictions, truth)
    # Doubles hold the digits, and differences are taken in doubles.
    assert nll_step_of(predictions + UTM, truth + UTM) == pytest.approx(expected, abs=1e-6)
    rounded, rounded_truth = (
        (values + UTM).astype(np.float32) if part in ("both", name) else values + UTM
        for name, values in (("predictions", predictions), ("truth", truth))
    )
    named = "predictions and truth" if part == "both" else part
    with pytest.warns(PrecisionWarning, match=f"^{named}: .* subtract an origin") as caught:
        found = nll_step_of(rounded, rounded_truth)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert found > expected + 0.1
    # Converted after an origin was subtracted, they are as good as doubles.
    near = nll_step_of(predictions.astype(np.float32), truth.astype(np.float32))
    assert near == pytest.approx(expected, abs=1e-3)


def test_whole_numbers_are_not_called_rounded():
    """Pixels are integers, and short floats hold them."""
    predictions, truth = walks(10, 25, 4)
    pixels = [np.round(20 * values + 900).astype(np.float32) for values in (predictions, truth)]
    assert np.isfinite(nll_step_of(*pixels))


def test_floats_of_16_bits_are_named():
    predictions, truth = walks(10, 25, 4)
    with pytest.warns(PrecisionWarning, match="predictions") as caught:
        nll_step_of((predictions + 2000).astype(np.float16), truth + 2000)
    assert len(caught) == 1


def test_sources_do_not_matter(scenes, evaluation, tmp_path):
    predictions, truth = scenes
    for name, values in (("predictions", predictions), ("truth", truth)):
        np.save(tmp_path / f"{name}.npy", values)
    np.savez(tmp_path / "both.npz", predictions=predictions, truth=truth)
    mapped = np.load(tmp_path / "predictions.npy", mmap_mode="r")
    for pair in (
        (str(tmp_path / "predictions.npy"), tmp_path / "truth.npy"),
        (tmp_path / "both.npz", tmp_path / "both.npz"),
        (mapped, truth),
        (Tensor(predictions), Tensor(truth)),
        (predictions.tolist(), truth.tolist()),
        (np.asfortranarray(predictions), truth[::1]),
    ):
        assert_same(evaluate(*pair, n_replicates=100), evaluation)


def test_single_floats_are_taken(scenes):
    predictions, truth = (each.astype(np.float32) for each in scenes)
    found = evaluate(predictions, truth, measures="nll_step")
    exact = evaluate(predictions.astype(float), truth.astype(float), measures="nll_step")
    assert_same(found, exact)


@pytest.mark.parametrize("rows", [10, 37, 10_000])
def test_tables_do_not_matter(rows, tmp_path, monkeypatch):
    """Scenes with names, the truth's in another order; files in several row groups."""
    monkeypatch.setattr(fc.arrays, "_BLOCK_SIZE", 130)
    predictions, truth = walks(7, 6, 3)
    predictions[2, 3:, 2:] = np.nan
    predictions[4, 1] = np.nan
    truth[5, 1:] = np.nan
    measures = ("nll", "nll_step", "ece", "ade")
    expected = evaluate(predictions, truth, measures=measures)
    frame, true = long_frame(predictions, "sample"), long_frame(truth[:, None], "future")
    frame["scene"] = "scene " + frame["scene"].astype(str)
    true["scene"] = "scene " + true["scene"].astype(str)
    frame["sample"] += 100 * frame["scene"].str[-1].astype(int)
    shuffled = true.drop(columns="future").sample(frac=1, random_state=0)
    frame.to_parquet(tmp_path / "predictions.parquet", row_group_size=rows)
    shuffled.to_parquet(tmp_path / "truth.parquet")
    # In a file, rows of a scene must stand together.
    true.drop(columns="future").to_parquet(tmp_path / "truth.parquet", row_group_size=rows)
    for pair in (
        (frame.sample(frac=1, random_state=1).sort_values("scene"), shuffled),
        (pl.DataFrame(frame.to_dict("list")), pl.DataFrame(shuffled.to_dict("list"))),
        (tmp_path / "predictions.parquet", tmp_path / "truth.parquet"),
        (tmp_path / "predictions.parquet", shuffled),
    ):
        found = evaluate(*pair, measures=measures)
        assert_array_equal(found.names, [f"scene {s}" for s in range(7)])
        assert found.settings["truth"] == expected.settings["truth"]
        for name in ("nll_step", "ade"):
            assert_allclose(found.scenes[name], expected.scenes[name])
        # Absent samples are left out of a table, so that ties may be parted in another order.
        assert_allclose(found.scenes["nll"], expected.scenes["nll"])
        assert_allclose(found.levels, expected.levels)


def test_a_table_beside_an_array():
    """Scenes and steps of an array have no names: they are taken in the order of the table."""
    predictions, truth = walks(4, 5, 3)
    frame, true = long_frame(predictions, "sample"), long_frame(truth[:, None], "future")
    true = true.drop(columns="future")
    expected = evaluate(predictions, truth, measures="ade").scenes["ade"]
    for pair in ((predictions, true), (frame, truth)):
        assert_array_equal(evaluate(*pair, measures="ade").scenes["ade"], expected)
    true["scene"] = "night " + true["scene"].astype(str)
    true["step"] += 5
    assert_array_equal(evaluate(predictions, true, measures="ade").scenes["ade"], expected)


def test_tables_with_agents_and_futures(tmp_path):
    predictions, truth = walks(4, 8, 2, n_agents=2)
    truths = np.stack([truth, truth + 0.1, truth - 0.2], axis=1)
    measures = ("nll_agent", "nll_agents", "ade")
    expected = evaluate(predictions, truths, agents=True, measures=measures)
    frame, true = long_frame(predictions, "sample"), long_frame(truths, "future")
    for each in (frame, true):
        each["agent"] += 10 * each["scene"]
    found = evaluate(frame, true, agents=True, measures=measures)
    for name, values in expected.scenes.items():
        assert_allclose(found.scenes[name], values)
    with pytest.raises(ValueError, match=r"scene 1 has the agents \[10, 11\].*\[10\] in truth"):
        evaluate(frame, true[true["agent"] != 11], agents=True)


# What is refused


def refuses(match, *arguments, error=ValueError, **options):
    with pytest.raises(error, match=match):
        evaluate(*arguments, **options)


def test_shapes_that_do_not_match():
    predictions, truth = walks(6, 12, 4)
    swapped = predictions.swapaxes(0, 1)
    refuses(
        r"predictions look like \(samples, scenes, steps, coordinates\): pass "
        r"predictions.transpose\(1, 0, 2, 3\)",
        swapped,
        truth,
    )
    refuses(r"\(scenes, samples, coordinates, steps\)", predictions.swapaxes(2, 3), truth)
    refuses(r"\(scenes, steps, samples, coordinates\)", predictions.swapaxes(1, 2), truth)
    refuses(r"or truth looks like \(steps, scenes, coordinates", predictions, truth.swapaxes(0, 1))
    refuses(
        r"truth looks like \(coordinates, scenes, steps\)", predictions, truth.transpose(2, 0, 1)
    )
    refuses(r"\(6, 12, 4, 2\) do not match truth of shape \(5, 4, 2\)", predictions, truth[:5])
    refuses(r"expected predictions \(scenes, samples, steps", predictions, truth[:, :3])
    refuses(r"predictions\[None\] and truth\[None\]", predictions[0], truth[0])
    refuses(r"predictions\[:, None\]", predictions[:, 0], truth)
    refuses("agents=True if", predictions[:, :, None], truth[:, None])
    refuses("leave agents=True out", predictions, truth, agents=True)
    long = walks(6, 12, 2, 12)
    refuses("look like .*coordinates, steps", *long, measures="ade")
    assert evaluate(*long, measures="ade", check_units=False)["ade"].n_scenes == 6


def test_values_that_are_no_paths():
    predictions, truth = walks(6, 12, 4)
    gap = predictions.copy()
    gap[3, 2, 1] = np.nan
    refuses("NaN before the end of a path.*scene 3, sample 2, step 1", gap, truth)
    half = predictions.copy()
    half[3, 2, 3, 0] = np.nan
    refuses("NaN in some coordinates only: scene 3, sample 2, step 3", half, truth)
    infinite = truth.copy()
    infinite[4, 1, 1] = np.inf
    refuses("truth are infinite: scene 4, step 1", predictions, infinite)
    silent = predictions.copy()
    silent[2] = np.nan
    refuses("all NaN for scene 2, which has a truth", silent, truth)
    agents = walks(3, 12, 2, n_agents=2)
    agents[0][1, :, 1] = np.nan
    refuses("all NaN for agent 1 of scene 1", *agents, agents=True)
    refuses("pad shorter paths", [[[[1.0, 2.0]]], [[[1.0], [2.0]]]], truth)
    refuses("masked", np.ma.array(predictions), truth, error=TypeError)
    refuses("must hold numbers", predictions.astype(str), truth, error=TypeError)
    refuses("must not be empty", predictions[:0], truth[:0])
    refuses("no file", "nowhere.npy", truth, error=FileNotFoundError)


@pytest.mark.parametrize("n_samples", [1, 2])
def test_too_few_samples(n_samples):
    predictions, truth = walks(6, n_samples)
    refuses(f"{n_samples} samples? in a scene, too few for a density.*'ade'", predictions, truth)
    found = evaluate(predictions, truth, measures=DISPLACEMENT)
    assert found[f"min_ade_{n_samples}"].n_scenes == 6


def test_mixed_units():
    predictions, truth = walks(6)
    refuses(r"predictions are \d+ times larger", 100 * predictions, truth)
    refuses("times smaller", predictions, 100 * truth)
    refuses("as far from truth", predictions + 1e4, truth)
    assert evaluate(100 * predictions, truth, check_units=False, measures="ade")


def test_parameters_are_checked():
    pair = walks(6)
    refuses("estimator must be one of", *pair, estimator="gauss")
    refuses("estimator must be one of", *pair, estimator=ROME, error=TypeError)
    refuses("step_estimator", *pair, step_estimator=3, error=TypeError)
    refuses("estimator cannot be fitted: min_std", *pair, estimator=ROME(min_std=-1))
    refuses("measures must be among", *pair, measures=("nll", "likelihood"))
    refuses("must not be empty", *pair, measures=())
    refuses("min_ade_5 is asked for, but k is", *pair, measures="min_ade_5")
    refuses("several true futures", *pair, measures="jsd")
    refuses("axis of agents", *pair, measures="nll_agents")
    refuses("'nll_agent' or", *walks(3, n_agents=2), agents=True, measures="nll")
    refuses("k must be between", *pair, k=13)
    refuses("k must be at least 1", *pair, k=0)
    refuses("errors must be", *pair, errors="drop")
    refuses("shrinkage must be", *pair, shrinkage="some")
    refuses("floor must be positive", *pair, floor=0.0)
    refuses("miss_threshold", *pair, miss_threshold=-1)
    refuses("lower_bound", *pair, lower_bound="low", error=TypeError)
    refuses("lower_bound", *pair, lower_bound=np.inf)
    refuses("levels must be", *pair, levels=(0.5, 1.5))
    refuses("confidence", *pair, confidence=1.5)
    refuses("agents", *pair, agents="yes", error=TypeError)
    refuses("n_jobs", *pair, n_jobs=0)


def test_tables_are_checked(tmp_path):
    predictions, truth = walks(4, 5, 3)
    frame, true = long_frame(predictions, "sample"), long_frame(truth[:, None], "future")
    refuses("lacking sample", frame.drop(columns="sample"), true)
    refuses("lacking x", frame.drop(columns=["x", "y"]), true)
    refuses("more than one row for scene 0, sample 0, step 0", pd.concat([frame, frame[:1]]), true)
    refuses(r"truth lacks 1 of the scenes: \[2\]", frame, true[true["scene"] != 2])
    refuses(r"predictions lack 1 of the scenes: \[2\]", frame[frame["scene"] != 2], true)
    refuses("steps that predictions do not have", frame, true.assign(step=true["step"] + 1))
    refuses("column x must hold numbers", frame.assign(x="here"), true, error=TypeError)
    refuses("no rows", frame[:0], true)
    scattered = tmp_path / "scattered.parquet"
    frame.sample(frac=1, random_state=0).to_parquet(scattered)
    refuses("do not stand together", scattered, true)
    (tmp_path / "walks.txt").write_text("")
    refuses("npy, .npz or .parquet", tmp_path / "walks.txt", true)
    np.savez(tmp_path / "two.npz", one=predictions, two=truth)
    refuses("has no array 'predictions', only", tmp_path / "two.npz", truth)


# Results


def test_the_summary_is_that_of_scenes(evaluation):
    for row in evaluation.summary:
        if row.measure == "ece":
            continue
        values = evaluation.scenes[row.measure]
        kept = values[~np.isnan(values)]
        assert_allclose(row.mean, kept.mean())
        assert_allclose(row.standard_error, kept.std(ddof=1) / np.sqrt(len(kept)))
        assert row.low <= row.mean <= row.high
        assert row.n_scenes == len(kept) == 8
    assert evaluation["nll"] is evaluation.summary[0]
    with pytest.raises(KeyError, match="not measured"):
        evaluation["jsd"]


def test_intervals_hold_the_mean_as_often_as_they_say():
    rng = np.random.RandomState(0)
    held = 0
    nowhere = np.zeros((30, 1, 1, 1))
    for _ in range(150):
        truth = rng.standard_normal((30, 1, 1))
        found = evaluate(nowhere, truth, measures="ade", check_units=False, n_replicates=200)
        held += found["ade"].low < np.sqrt(2 / np.pi) < found["ade"].high
    assert 0.86 < held / 150 < 0.99


def test_results_as_tables(evaluation, tmp_path):
    frame = evaluation.to_pandas()
    assert list(frame["measure"]) == [row.measure for row in evaluation.summary]
    assert evaluation.to_polars()["mean"].to_list() == frame["mean"].tolist()
    by_scene = evaluation.to_pandas("scenes")
    assert_array_equal(by_scene["ade"], evaluation.scenes["ade"])
    assert evaluation.to_polars("coverage").height == 19
    with pytest.raises(ValueError, match="what must be"):
        evaluation.to_pandas("everything")
    text = repr(evaluation)
    assert "9 scenes of 10 samples, 3 steps" in text
    assert len(text.splitlines()) == 2 + len(evaluation.summary)
    assert r"min\_ade\_10" in evaluation.to_latex()
    assert evaluation.to_latex().count(r"\\") == 1 + len(evaluation.summary)
    assert evaluation._repr_html_().count("<tr>") == 1 + len(evaluation.summary)
    with pytest.raises(ValueError, match="read-only"):
        evaluation.scenes["ade"][0] = 0
    with pytest.raises(TypeError):
        evaluation.scenes["ade"] = 0


def test_results_are_stored(evaluation, tmp_path):
    evaluation.to_parquet(tmp_path / "evaluation.parquet")
    for again in (
        read_evaluation(tmp_path / "evaluation.parquet"),
        pickle.loads(pickle.dumps(evaluation)),
    ):
        assert_same(again, evaluation)
        assert again.settings == evaluation.settings
        assert_array_equal(again.coverage.observed, evaluation.coverage.observed)
        assert again.coverage.n_truths == evaluation.coverage.n_truths
        assert_array_equal(again.names, evaluation.names)
        assert repr(again) == repr(evaluation)
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="no evaluation"):
        read_evaluation(tmp_path / "other.parquet")


def test_settings_say_how_it_came_about(evaluation):
    found = evaluation.settings
    assert found["estimator"] == "rome"
    assert found["n_samples"] == 10
    assert found["versions"]["numpy"] == np.__version__
    assert (
        "GaussianKDE"
        in evaluate(*walks(3), estimator=GaussianKDE(), measures="ade").settings["estimator"]
    )


def test_measures_are_documented():
    for name in MEASURES:
        assert f"``{name}``" in evaluate.__doc__


def test_it_says_how_far_it_is(scenes, capsys):
    evaluate(*scenes, measures="ade", verbose=True)
    assert "scenes: 100%" in capsys.readouterr().out


# Comparisons


@pytest.fixture(scope="module")
def pair():
    predictions, truth = walks(60, 15, 2)
    centre = predictions.mean(axis=1, keepdims=True)
    return [
        evaluate(centre + factor * (predictions - centre), truth, n_replicates=50)
        for factor in (1.0, 0.2)
    ]


def test_a_better_forecaster_is_better(pair, tmp_path):
    found = compare(*pair, names=("right", "narrow"), n_permutations=199)
    for name in ("nll", "nll_step", "energy_score", "ece"):
        assert found[name].difference < 0
        assert found[name].p_value < 0.01
        assert found[name].high < 0
    row = found["nll"]
    apart = pair[0].scenes["nll"] - pair[1].scenes["nll"]
    assert_allclose(row.difference, apart.mean())
    assert_allclose(row.standard_error, apart.std(ddof=1) / np.sqrt(60), rtol=0.2)
    assert row.n_better == (apart < 0).sum()
    assert_allclose(found["ece"].first, pair[0]["ece"].mean)
    assert_allclose(found["ece"].second, pair[1]["ece"].mean)
    assert "right (first) minus narrow" in repr(found)
    assert "p_value" in found.to_pandas()
    assert found.to_polars().height == len(found.rows)
    found.to_parquet(tmp_path / "comparison.parquet")
    assert pd.read_parquet(tmp_path / "comparison.parquet").equals(found.to_pandas())
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)
    assert found.to_latex().count(r"\\") == 1 + len(found.rows)


def test_the_same_forecaster_is_not_better(pair):
    found = compare(pair[0], pair[0], n_permutations=99)
    for row in found.rows:
        assert row.difference == 0
        assert row.p_value == 1
    turned, straight = (compare(*each, n_permutations=1) for each in (pair[::-1], pair))
    assert_allclose(turned["nll"].difference, -straight["nll"].difference)


def test_p_values_are_uniform_if_nothing_differs():
    found = []
    for seed in range(60):
        predictions, truth = walks(20, 8, 1, seed=seed)
        first, second = (
            evaluate(each, truth, measures="ade", n_replicates=0)
            for each in (predictions[:, :4], predictions[:, 4:])
        )
        found.append(compare(first, second, n_permutations=99, n_replicates=2)["ade"].p_value)
    assert kstest(found, "uniform").pvalue > 0.01


def test_what_cannot_be_compared(pair, evaluation):
    with pytest.raises(ValueError, match=r"n_scenes \(60 and 9\).*n_samples \(15 and 10\)"):
        compare(pair[0], evaluation)
    predictions, truth = walks(60, 15, 2)
    other = evaluate(predictions, truth, estimator="kde", measures=("nll",))
    with pytest.raises(ValueError, match=r"differ in estimator \('rome' and 'kde'\)"):
        compare(pair[0], other)
    assert compare(pair[0], other, ignore=("estimator",), n_permutations=9)["nll"].n_scenes == 60
    elsewhere = evaluate(predictions, truth + 0.1, measures=("nll",))
    with pytest.raises(ValueError, match="differ in truth"):
        compare(pair[0], elsewhere)
    with pytest.raises(ValueError, match="ignore must be among"):
        compare(pair[0], elsewhere, ignore=("truth",))
    with pytest.raises(ValueError, match="no measure in common"):
        compare(other, evaluate(predictions, truth, estimator="kde", measures="ade"))
    with pytest.raises(TypeError, match="b must be an Evaluation"):
        compare(pair[0], 3)


# Memory


def test_a_file_is_not_read_as_a_whole(tmp_path, memory_limit, monkeypatch):
    monkeypatch.setattr(fc.arrays, "_BLOCK_SIZE", 50_000)
    shape = (1000, 50, 40, 2)
    values = np.lib.format.open_memmap(tmp_path / "walks.npy", "w+", np.float64, shape)
    values[:] = np.random.RandomState(0).standard_normal(shape)
    values.flush()
    truth = np.array(values[:, 0])
    measures = ("nll_step", "ade")
    evaluate(values[:20], truth[:20], measures=measures)
    del values
    with memory_limit(10):  # the file has 32 MB
        found = evaluate(tmp_path / "walks.npy", truth, measures=measures, n_replicates=10)
    assert found["ade"].n_scenes == 1000
