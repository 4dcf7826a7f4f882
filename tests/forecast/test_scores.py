import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gaussian_kde

from sevenhills import GaussianMixtureBIC
from sevenhills.forecast import MEASURES, evaluate

from . import oracles
from .scenes import DISPLACEMENT, degenerate_scenes, means, padded, several_truths, shrinking, walks

MASKED = ("nll", "nll_step", "energy_score", *DISPLACEMENT, "ade_densest")


def test_steps_of_paths_of_several_lengths():
    predictions, truth = padded(*walks(n_scenes=8))
    found = evaluate(predictions, truth, measures="nll_step").scenes["nll_step"]
    for s in range(8):
        expected = np.nan if s == 1 else oracles.step_nll(predictions[s], truth[s])
        assert_allclose(found[s], expected, rtol=1e-9, atol=1e-9)


def test_policies_for_degenerate_scenes():
    predictions, truth = degenerate_scenes()
    measures = ("nll", "nll_step", "ece", "ade")
    floored = evaluate(predictions, truth, measures=measures)
    assert floored["nll_step"].n_scenes == floored["nll"].n_scenes == 5
    assert floored["nll_step"].n_degenerate == 8
    counts = floored.degenerate
    assert (counts["identical steps"], counts["flat steps"], counts["few steps"]) == (4, 1, 3)
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
    assert_allclose(fine["nll_step"].mean, oracles.step_nll(predictions[0], truth[0]))


def test_an_estimator_that_refuses_is_counted():
    predictions, truth = degenerate_scenes()
    found = evaluate(
        predictions, truth, estimator=GaussianMixtureBIC(max_components=9), measures="nll"
    )
    assert found.degenerate
    assert np.isfinite(found["nll"].mean)


def test_a_lower_bound_clips_steps():
    predictions, truth = walks(8)
    plain = evaluate(predictions, truth + 1.5, measures="nll_step")
    clipped = evaluate(predictions, truth + 1.5, measures="nll_step", lower_bound=-20)
    assert clipped.degenerate["clipped steps"] > 0
    assert clipped["nll_step"].mean < plain["nll_step"].mean
    for s in range(8):
        each = [
            max(gaussian_kde(predictions[s, :, t].T).logpdf(truth[s, t] + 1.5)[0], -20)
            for t in range(4)
        ]
        assert_allclose(clipped.scenes["nll_step"][s], -means(each))


def test_displacements():
    predictions, truth = padded(*walks(8))
    found = evaluate(predictions, truth, measures=DISPLACEMENT, k=(3, 8), miss_threshold=0.5)
    for s in (0, *range(2, 8)):
        expected = oracles.displacements(predictions[s], truth[s], (3, 8), 0.5)
        for name, value in expected.items():
            assert_allclose(found.scenes[name][s], value)
    assert all(np.isnan(values[1]) for values in found.scenes.values())
    assert found.degenerate["scenes without truth"] == 1


def test_energy_score():
    predictions, truth = padded(*walks(5))
    found = evaluate(predictions, truth, measures="energy_score").scenes["energy_score"]
    for s in (0, 2, 3, 4):
        assert_allclose(found[s], oracles.energy_score(predictions[s], truth[s]))


def test_the_densest_sample():
    predictions, truth = walks(2, 30, 2)
    found = evaluate(predictions, truth, measures=("ade_densest", "fde_densest")).scenes
    for s in range(2):
        X = predictions[s].reshape(30, -1)
        best = oracles.others_log_density(shrinking().fit(X).density_, X).argmax()
        apart = np.linalg.norm(predictions[s, best] - truth[s], axis=1)
        assert_allclose(found["ade_densest"][s], means(apart))
        assert_allclose(found["fde_densest"][s], apart[-1])


def test_several_truths_are_averaged():
    predictions, truths = several_truths()
    measures = ("nll", "nll_step", "energy_score", *DISPLACEMENT, "ade_densest")
    found = evaluate(predictions, truths, measures=measures)
    each = [evaluate(predictions, truths[:, i], measures=measures) for i in range(6)]
    for name, values in found.scenes.items():
        assert_allclose(values, np.mean([one.scenes[name] for one in each], axis=0))


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


def test_agents_are_those_of_calls_for_each():
    predictions, truth = walks(5, 15, 3, n_agents=3)
    truth[2, 1] = np.nan
    truth[3, 0, 2:] = np.nan
    measures = ("nll_step", "energy_score", *DISPLACEMENT, "ade_densest")
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
    found = evaluate(predictions, truth, measures="all")
    uniform = np.random.RandomState(0).uniform(size=(6, 1, 1))
    for s in (0, 2, 3, 4, 5):
        there = np.isfinite(predictions[s]).all(axis=(1, 2))
        end = oracles.length(truth[s])
        if s == 0:
            there, end = np.isfinite(predictions[0, :, 0, 0]), min(end, 4)
            there &= np.isfinite(predictions[0, :, end - 1, 0])
        there = np.array([oracles.length(path) >= end for path in predictions[s]])
        short = predictions[s : s + 1, there, :end], truth[s : s + 1, :end]
        alone = evaluate(*short, measures="all")
        for name in ("nll", "energy_score", "ade", "fde", "ade_densest"):
            assert_allclose(found.scenes[name][s], alone.scenes[name][0])
        count = there.sum() + 1
        first = np.random.RandomState(0).uniform()
        shift = (uniform[s, 0, 0] - first) / count
        assert_allclose(found.levels[s, 0], alone.levels[0, 0] + shift)


class TestMasks:
    """NaN before the end of a truth leaves its step out, as if nobody had predicted it."""

    @pytest.mark.parametrize("n_scenes", [6, 40])  # by ROME, and pooled
    def test_a_common_mask_deletes_steps(self, n_scenes):
        predictions, truth = walks(n_scenes, 12, 5)
        kept = [0, 2, 3]
        masked = np.full_like(truth, np.nan)
        masked[:, kept] = truth[:, kept]
        found = evaluate(predictions, masked, k=(3, 12))
        expected = evaluate(predictions[:, :, kept], truth[:, kept], k=(3, 12))
        assert found.settings["estimator"] == ("pooled" if n_scenes == 40 else "rome")
        for name, values in expected.scenes.items():
            assert_allclose(found.scenes[name], values, rtol=1e-10)
        assert_allclose(found.levels, expected.levels)
        assert found.degenerate == expected.degenerate

    @pytest.mark.parametrize("weighted", [False, True])
    def test_a_common_mask_of_agents_deletes_steps(self, weighted):
        predictions, truth = walks(6, 12, 5, n_agents=2)
        kept = [0, 2, 3]
        masked = np.full_like(truth, np.nan)
        masked[:, :, kept] = truth[:, :, kept]
        weights = np.random.RandomState(0).uniform(size=(6, 12)) if weighted else None
        options = {"agents": True, "weights": weights}
        found = evaluate(predictions, masked, **options)
        expected = evaluate(predictions[:, :, :, kept], truth[:, :, kept], **options)
        assert found.scenes.keys() == expected.scenes.keys()
        for name, values in expected.scenes.items():
            assert_allclose(found.scenes[name], values, rtol=1e-10)

    def test_every_scene_has_its_own_mask(self):
        predictions, truth = padded(*walks(9, 12, 6))
        truth[np.random.RandomState(1).uniform(size=truth.shape[:2]) < 0.3] = np.nan
        found = evaluate(predictions, truth, measures=MASKED)
        for s in range(9):
            lengths = np.array([oracles.length(path) for path in predictions[s]])
            kept = np.flatnonzero(~np.isnan(truth[s, :, 0]) & (np.arange(6) < lengths.max()))
            if len(kept) == 0:
                assert all(np.isnan(values[s]) for values in found.scenes.values())
                continue
            alone = evaluate(
                predictions[s : s + 1, :, kept], truth[s : s + 1, kept], measures=MASKED
            )
            for name, values in alone.scenes.items():
                assert_allclose(found.scenes[name][s], values[0], rtol=1e-10)
            last = predictions[s, lengths > kept[-1], kept[-1]] - truth[s, kept[-1]]
            assert_allclose(found.scenes["fde"][s], means(np.linalg.norm(last, axis=-1)))

    @pytest.mark.parametrize("step_estimator", ["kde", "rome"])
    def test_futures_and_agents_have_their_own_masks(self, step_estimator):
        predictions, truth = walks(4, 14, 4, n_agents=2)
        truths = np.stack([truth, truth + 0.1, truth - 0.1], axis=1)
        truths[:, 0, 0, 1] = truths[:, 1, 1, [0, 2]] = truths[1, 2, 0] = np.nan
        options = {"agents": True, "step_estimator": step_estimator, "estimator": "rome"}
        measures = ("nll_agents", "nll_agent", *MASKED[1:])
        found = evaluate(predictions, truths, measures=measures, **options)
        each = [evaluate(predictions, truths[:, i], measures=measures, **options) for i in range(3)]
        joint = [one.scenes["nll_agents"] for one in each]
        assert_allclose(found.scenes["nll_agents"], np.mean(joint, axis=0))
        for i in range(3):
            for s in range(4):
                there = ~np.isnan(truths[s, i])
                model = shrinking().fit(predictions[s][:, there])
                expected = -model.score_samples(truths[s, i][there][None])[0]
                assert_allclose(joint[i][s], expected)
        alone = [
            evaluate(
                predictions[:, :, a],
                truths[:, :, a],
                measures=MASKED,
                **options | {"agents": False},
            )
            for a in range(2)
        ]
        for name in set(alone[0].scenes) - {"nll"}:
            expected = np.mean([one.scenes[name] for one in alone], axis=0)
            assert_allclose(found.scenes[name], expected)

    def test_a_sample_has_no_mask(self):
        predictions, truth = walks(3)
        predictions[1, 2, 1] = np.nan
        with pytest.raises(ValueError, match="predictions: NaN before the end of a path"):
            evaluate(predictions, truth)
        predictions, truth = walks(3)
        predictions[1, :, 2:] = truth[1, :2] = np.nan
        with pytest.raises(ValueError, match="all NaN for scene 1 at the steps of its truth"):
            evaluate(predictions, truth)


def test_measures_are_documented():
    for name in MEASURES:
        assert f"``{name}``" in evaluate.__doc__
