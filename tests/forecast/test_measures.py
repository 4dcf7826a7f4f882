"""Every measure beside an independent implementation, and the invariances of all of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sevenhills.forecast import MEASURES, evaluate, evaluate_horizons
from sevenhills.forecast.scores import measure_of

from . import oracles
from .scenes import assert_same, padded, refuses, walks

KS = (3, 12)
OPTIONS = {"k": KS, "miss_threshold": 0.5, "collision_distance": 0.4, "n_replicates": 0}

#: Powers of the unit that measures have, where it is not one; None: a sum of both.
UNITS = {
    "ece": 0,
    "kl": 0,
    "jsd": 0,
    "miss_rate_k": 0,
    "miss_rate_path_k": 0,
    "collision_rate": 0,
    "collision_rate_truth": 0,
    "brier_min_ade_k": None,
    "brier_min_fde_k": None,
}


def many_agents(seed=0, n_scenes=6, n_steps=4, n_coordinates=2):
    """Samples of three agents that come near each other, with weights of which some are equal."""
    predictions, truth = walks(n_scenes, 12, n_steps, n_coordinates, seed=seed, n_agents=3)
    rng = np.random.RandomState(seed)
    weights = rng.randint(1, 4, size=predictions.shape[:2]).astype(float)
    return predictions, truth, weights


def with_gaps(predictions, truth, seed=0):
    """Absent agents, samples that end early or are absent, and truths with gaps."""
    rng = np.random.RandomState(seed)
    predictions, truth = predictions.copy(), truth.copy()
    for s in range(len(truth)):
        truth[s, rng.randint(3), rng.randint(1, truth.shape[2]) :] = np.nan
        truth[s, rng.randint(3), 1] = np.nan
        predictions[s, rng.randint(12), rng.randint(3), rng.randint(1, 4) :] = np.nan
        predictions[s, rng.randint(12)] = np.nan
    truth[0, 1] = truth[1] = np.nan
    truth[2, :2] = np.nan
    return predictions, truth


def oracle_scores(samples, truth, weights):
    """Slow measures of one scene: samples (K, A, T, D), truth (A, T, D), weights (K,)."""
    out = [
        oracles.agent_scores(samples[:, a], truth[a], weights, KS, OPTIONS["miss_threshold"])
        for a in range(len(truth))
        if np.isfinite(truth[a]).any()
    ]
    found = {name: np.nanmean([each[name] for each in out]) for name in out[0]} if out else {}
    found |= oracles.joint_scores(samples, truth, weights, KS)
    return found | oracles.collision_scores(samples, truth, weights, OPTIONS["collision_distance"])


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize(
    ("n_coordinates", "is_tied"), [(2, False), (2, True), (1, True), (3, False)]
)
def test_measures_are_those_of_slow_twins(n_coordinates, is_tied, has_gaps, has_weights):
    predictions, truth, weights = many_agents(n_coordinates=n_coordinates)
    if is_tied:  # equal distances and samples, and a scene of identical samples
        predictions, truth = predictions.round(), truth.round()
        predictions[3] = predictions[3, 0]
    if has_gaps:
        predictions, truth = with_gaps(predictions, truth)
    names = [
        name
        for name, each in MEASURES.items()
        if each.needs in ("displacement", "samples", "collisions")
        and (has_weights or not each.weighted)
    ]
    given = weights if has_weights else None
    found = evaluate(predictions, truth, agents=True, measures=names, weights=given, **OPTIONS)
    assert {measure_of(name).needs for name in found.scenes} >= {"displacement", "samples"}
    for s in range(len(truth)):
        each = weights[s] if has_weights else np.ones(12)
        expected = oracle_scores(predictions[s], truth[s], each)
        for name, values in found.scenes.items():
            other = expected.get(name, np.nan)
            assert_allclose(values[s], other, rtol=1e-10, atol=1e-13, err_msg=name)


@pytest.fixture(scope="module")
def scoringrules():
    """The peer, unless there is no folder for the code that it compiles."""
    try:
        peer = pytest.importorskip("scoringrules")
        peer.es_ensemble(np.zeros(2), np.eye(3, 2), estimator="fair", backend="numpy")
    except RuntimeError as error:
        pytest.skip(str(error))
    return peer


@pytest.mark.parametrize("n_coordinates", [1, 2, 3])
def test_fair_scores_are_those_of_scoringrules(scoringrules, n_coordinates):
    predictions, truth = walks(8, 9, 5, n_coordinates)
    found = evaluate(predictions, truth, measures=oracles.FAIR).scenes
    rows, y = predictions.reshape(8, 9, -1), truth.reshape(8, -1)
    options = {"estimator": "fair", "backend": "numpy"}
    energy = scoringrules.es_ensemble(y, rows, **options)
    assert_allclose(found["energy_score"], energy / np.sqrt(5), rtol=1e-10)
    crps = scoringrules.crps_ensemble(y, rows, m_axis=1, **options)
    assert_allclose(found["crps"], crps.mean(axis=1), rtol=1e-10)
    moves, true = np.diff(predictions, axis=2).reshape(8, 9, -1), np.diff(truth, axis=1)
    energy = scoringrules.es_ensemble(true.reshape(8, -1), moves, **options)
    assert_allclose(found["energy_score_moves"], energy / 2, rtol=1e-10)
    if n_coordinates == 1:
        variogram = scoringrules.vs_ensemble(y, rows, **options)
        assert_allclose(found["variogram_score"], variogram / 20, rtol=1e-10)


def expected_scores(paths, law, true_law, n_samples):
    """Expected fair scores of a law on a few paths, over all samples and truths it can draw."""
    cases = np.array(list(np.ndindex(*[len(paths)] * (n_samples + 1))))
    found = evaluate(paths[cases[:, 1:]], paths[cases[:, 0]], measures=oracles.FAIR, n_replicates=0)
    shares = true_law[cases[:, 0]] * law[cases[:, 1:]].prod(axis=1)
    return {name: shares @ values for name, values in found.scenes.items()}


def test_fair_scores_are_proper_for_any_number_of_samples():
    rng = np.random.RandomState(0)
    paths = rng.standard_normal((4, 3, 2)).cumsum(axis=1)
    true_law = np.array([0.4, 0.3, 0.2, 0.1])
    best = expected_scores(paths, true_law, true_law, 2)
    more = expected_scores(paths, true_law, true_law, 3)
    for name in oracles.FAIR:
        assert MEASURES[name].is_proper
        assert_allclose(best[name], more[name], rtol=1e-10)
    for law in rng.dirichlet(np.ones(4), size=10):
        wrong = expected_scores(paths, law, true_law, 2)
        for name in oracles.FAIR:
            assert wrong[name] > best[name] + 1e-6


def scores(predictions, truth, weights, **options):
    """Return all measures of scenes of several agents, by ROME."""
    found = evaluate(
        predictions,
        truth,
        agents=True,
        weights=weights,
        measures="all",
        estimator="rome",
        **{**OPTIONS, **options},
    )
    return {**found.scenes, "ece": found.levels}


@pytest.fixture(scope="module")
def several():
    """Scenes with three agents and four futures, and all measures of them."""
    predictions, truth, weights = many_agents(n_scenes=4, n_steps=3)
    rng = np.random.RandomState(1)
    truths = truth[:, None] + 0.2 * rng.standard_normal((4, 4, *truth.shape[1:]))
    found = scores(predictions, truths, weights)
    allowed = {name for name in MEASURES if name != "nll"}
    assert {general(name) for name in found} == allowed
    return predictions, truths, weights, found


def general(name):
    return "_".join("k" if part.isdigit() else part for part in name.split("_"))


def assert_invariant(found, expected, but=()):
    for name, values in expected.items():
        if general(name) not in but:
            assert_allclose(found[name], values, rtol=1e-7, atol=1e-9, err_msg=name)


def test_a_unit_scales_measures(several):
    predictions, truths, weights, expected = several
    found = scores(
        100 * predictions, 100 * truths, weights, miss_threshold=50, collision_distance=40
    )
    shifts = {"nll_agent": 6, "nll_agents": 18, "nll_step": 2}
    for name, values in expected.items():
        if general(name) in shifts:
            scaled = values + shifts[name] * np.log(100)
        elif UNITS.get(general(name), 1) is None:
            base = expected[name.removeprefix("brier_")]
            scaled = values + 99 * base
        else:
            scaled = values * 100 ** UNITS.get(general(name), 1)
        if name != "ece" or np.isfinite(values).any():
            assert_allclose(found[name], scaled, rtol=1e-7, atol=1e-9, err_msg=name)


def test_a_rotation_and_a_shift_change_only_the_crps(several):
    predictions, truths, weights, expected = several
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    found = scores(predictions @ turn + [30.0, -20.0], truths @ turn + [30.0, -20.0], weights)
    assert_invariant(found, expected, but=("crps",))
    assert not np.allclose(found["crps"], expected["crps"])


def test_the_order_of_samples_has_no_effect(several):
    predictions, truths, weights, expected = several
    order = np.random.RandomState(2).permutation(12)
    found = scores(predictions[:, order], truths, weights[:, order])
    # Of equal weights, the first ones are the most probable: k of all samples only.
    kept = {name: values for name, values in expected.items() if not name.endswith("_3")}
    assert_invariant(found, kept)
    weights = weights + np.random.RandomState(3).uniform(size=weights.shape)
    assert_invariant(
        scores(predictions[:, order], truths, weights[:, order]),
        scores(predictions, truths, weights),
    )


def test_the_order_of_scenes_futures_and_agents_has_no_effect(several):
    predictions, truths, weights, expected = several
    found = scores(predictions[::-1], truths[::-1], weights[::-1])
    # Levels have random numbers of their scene, future and agent, which break ties.
    assert_invariant({name: values[::-1] for name, values in found.items()}, expected, but=("ece",))
    found = scores(predictions[:, :, ::-1], truths[:, ::-1, ::-1], weights)
    assert_invariant(found, expected, but=("ece",))


def test_what_forecasts_do_not_allow_is_refused():
    predictions, truth, _ = many_agents()
    one = predictions[:, :, 0], truth[:, 0]
    refuses("brier_min_fde_k needs weights", *one, measures="brier_min_fde_k")
    refuses("min_jade_3 needs an axis of agents", *one, measures="min_jade_3", k=3)
    refuses("collision_rate needs an axis of agents", *one, measures="collision_rate")
    refuses("nll_agent needs an axis of agents; pass 'nll'", *one, measures="nll_agent")
    refuses("nll is ambiguous", predictions, truth, agents=True, measures="nll")
    refuses("kl needs several true futures", *one, measures="kl")
    refuses("collision_distance", *one, collision_distance=0)
    refuses("ade_5", *one, measures="ade_5", k=5)


def test_defaults_depend_on_the_forecasts():
    predictions, truth, weights = many_agents()
    one = evaluate(predictions[:, :, 0], truth[:, 0], n_replicates=0)
    assert list(one.scenes) == [
        "nll", "nll_step", "energy_score", "ade", "fde", "min_ade_12", "min_fde_12", "miss_rate_12"
    ]  # fmt: skip
    more = evaluate(predictions, truth, agents=True, weights=weights, n_replicates=0)
    added = {"nll_agent", "nll_agents", "brier_min_fde_12", "min_jade_12", "min_jfde_12"}
    assert set(more.scenes) - set(one.scenes) == added


def test_one_sample_has_distances_but_no_fair_scores():
    predictions, truth = walks(4, 1, 3)
    found = evaluate(predictions, truth, measures=("ade", "crps", "variogram_score"))
    assert found["ade"].n_scenes == 4
    assert found["crps"].n_scenes == found["variogram_score"].n_scenes == 0


def test_an_almost_certain_sample_has_fair_scores():
    predictions, truth = walks(4, 5, 3)
    weights = np.tile([1e-18, 1e-18, 1.0, 1e-18, 1e-18], (4, 1))
    found = evaluate(predictions, truth, measures=oracles.FAIR, weights=weights).scenes
    for s in range(4):
        expected = oracles.agent_scores(predictions[s], truth[s], weights[s], (5,), 1.0)
        for name in oracles.FAIR:
            assert_allclose(found[name][s], expected[name], rtol=1e-10)


def test_agents_that_cross_between_steps_collide():
    """Two agents pass through each other; a third one is far away, a fourth alone in its scene."""
    paths = np.zeros((2, 1, 3, 2, 2))
    paths[0, 0, 0] = [[0.0, 0.0], [1.0, 1.0]]
    paths[0, 0, 1] = [[1.0, 0.0], [0.0, 1.0]]
    paths[0, 0, 2] = [[50.0, 0.0], [50.0, 1.0]]
    truth = paths[:, 0].copy()
    truth[1, 1:] = np.nan
    truth[0, 0] = [[0.0, 0.0], [0.0, 1.0]]
    truth[0, 1] = [[1.0, 0.0], [1.0, 1.0]]
    measures = ("collision_rate", "collision_rate_truth")
    found = evaluate(paths, truth, agents=True, measures=measures, check_units=False).scenes
    assert_allclose(found["collision_rate"], [2 / 3, np.nan])
    assert_allclose(found["collision_rate_truth"], [0, np.nan])


@pytest.mark.parametrize("n_scenes", [6, 40])  # by ROME, and pooled
def test_a_horizon_cuts_paths(n_scenes):
    predictions, truth = padded(*walks(n_scenes, 12, 5))
    found = evaluate_horizons(predictions, truth, (2, 5), k=(3, 12), n_replicates=0)
    expected = evaluate(predictions[:, :, :2], truth[:, :2], k=(3, 12), n_replicates=0)
    first, last = found.evaluations
    for name, values in expected.scenes.items():
        assert_allclose(first.scenes[name], values, rtol=1e-10, err_msg=name)
        assert found[name][2] == first[name]
    assert_allclose(first.levels, expected.levels)
    assert first.degenerate == expected.degenerate
    assert first.settings == expected.settings | {"truth": first.settings["truth"]}
    assert_same(last, evaluate(predictions, truth, k=(3, 12), n_replicates=0))


def test_horizons_in_seconds():
    predictions, truth = walks(5, 6, 5)
    found = evaluate_horizons(predictions, truth, (1, 1.2, 2), dt=0.4, measures=("ade", "fde"))
    assert [each.settings["n_steps"] for each in found.evaluations] == [2, 3, 5]
    assert repr(found).splitlines()[1].split() == ["measure", "1", "1.2", "2"]
    table = found.to_pandas()
    assert list(table["horizon"]) == [1, 1, 1.2, 1.2, 2, 2]
    assert table["mean"][5] == found["fde"][2.0].mean
    assert "1.2" in found._repr_html_()


def test_horizons_are_checked():
    pair = walks(5, 6, 5)
    refuses("horizon must be at most the 5 steps", *pair, horizon=6)
    refuses("horizon", *pair, horizon=0)
    for horizons, match in (((), "empty"), ((2.5,), "pass dt"), ((-1,), "horizons")):
        with pytest.raises(ValueError, match=match):
            evaluate_horizons(*pair, horizons)
    with pytest.raises(ValueError, match="horizon"):
        evaluate_horizons(*pair, (0.1,), dt=0.4)
