import numpy as np
import pytest
from numpy.testing import assert_allclose

from sevenhills.forecast import PrecisionWarning, evaluate

from . import oracles
from .scenes import degenerate_scenes, means, refuses, shrinking, walks


def test_the_floor_is_relative_to_the_scene_or_given():
    predictions, truth = degenerate_scenes()
    by_default = evaluate(predictions, truth, measures="nll_step").scenes["nll_step"]
    larger = evaluate(100 * predictions, 100 * truth, measures="nll_step").scenes["nll_step"]
    assert_allclose(larger - by_default, 2 * np.log(100))
    given = evaluate(predictions, truth, measures=("nll_step", "nll"), floor=0.3)
    expected = means(
        [-oracles.floored_log_density(predictions[1, :, t], truth[1, t], 0.3) for t in range(3)]
    )
    assert_allclose(given.scenes["nll_step"][1], expected)
    model = shrinking(min_std=0.3).fit(predictions[1].reshape(10, -1))
    assert_allclose(given.scenes["nll"][1], -model.score_samples(truth[1].reshape(1, -1))[0])
    still = np.zeros((4, 5, 3, 2))
    with pytest.raises(ValueError, match=r"identical samples in all scenes.*floor"):
        evaluate(still, still[:, 0])
    assert evaluate(still, still[:, 0], floor=0.1)["nll"].n_scenes == 4


UTM = np.array([448_262.0, 5_411_932.0])


def nll_step_of(predictions, truth):
    return evaluate(predictions, truth, measures="nll_step")["nll_step"].mean


@pytest.mark.parametrize("part", ["both", "predictions", "truth"])
def test_floats_of_32_bits_far_from_the_origin_raise_a_warning(part):
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


@pytest.mark.parametrize("n_scenes", [6, 40])  # by ROME, and pooled
def test_doubles_far_from_the_origin_lose_nothing(n_scenes):
    """Paths on a grid of 2^-20 m are exact at UTM size, so that only our own rounding remains."""
    predictions, truth = (np.round(each * 2**18) / 2**20 for each in walks(n_scenes, 20, 4))
    truths = np.stack([truth, truth + 0.25, truth - 0.125, truth + 0.375], axis=1)
    near = evaluate(predictions, truths)
    far = evaluate(predictions + UTM, truths + UTM)
    for name, values in near.scenes.items():
        assert_allclose(far.scenes[name], values, rtol=0, atol=1e-6)
    assert_allclose(far.levels, near.levels)


def test_integers_are_not_rounded():
    """Pixels are integers, and short floats hold them."""
    predictions, truth = walks(10, 25, 4)
    pixels = [np.round(20 * values + 900).astype(np.float32) for values in (predictions, truth)]
    assert np.isfinite(nll_step_of(*pixels))


def test_floats_of_16_bits_raise_a_warning():
    predictions, truth = walks(10, 25, 4)
    with pytest.warns(PrecisionWarning, match="predictions") as caught:
        nll_step_of((predictions + 2000).astype(np.float16), truth + 2000)
    assert len(caught) == 1


def test_invalid_values():
    predictions, truth = walks(6, 12, 4)
    gap = predictions.copy()
    gap[3, 2, 1] = np.nan
    refuses("NaN before the end of a path.*scene 3, sample 2, step 1", gap, truth)
    half = predictions.copy()
    half[3, 2, 3, 0] = np.nan
    refuses("NaN in some coordinates only at scene 3, sample 2, step 3", half, truth)
    infinite = truth.copy()
    infinite[4, 1, 1] = np.inf
    refuses("truth: infinite values at scene 4, step 1", predictions, infinite)
    silent = predictions.copy()
    silent[2] = np.nan
    refuses("all NaN for scene 2 at the steps of its truth", silent, truth)
    agents = walks(3, 12, 2, n_agents=2)
    agents[0][1, :, 1] = np.nan
    refuses("all NaN for agent 1 of scene 1", *agents, agents=True)
    refuses("same axes and coordinates", [[[[1.0, 2.0]]], [[[1.0], [2.0]]]], truth)
    refuses("masked", np.ma.array(predictions), truth, error=TypeError)
    refuses("must hold numbers", predictions.astype(str), truth, error=TypeError)
    refuses("must not be empty", predictions[:0], truth[:0])
    refuses("no file", "nowhere.npy", truth, error=FileNotFoundError)


def test_mixed_units():
    predictions, truth = walks(6)
    refuses(r"predictions are \d+ times larger", 100 * predictions, truth)
    refuses("times smaller", predictions, 100 * truth)
    refuses("times their size away from truth", predictions + 1e4, truth)
    assert evaluate(100 * predictions, truth, check_units=False, measures="ade")
