"""Forecasts with exact densities: mixtures by their parameters, and log densities of the model."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag
from scipy.special import logsumexp
from scipy.stats import kstest, multivariate_normal

from sevenhills import KernelMixture
from sevenhills.density import LogMap
from sevenhills.forecast import Mixtures, compare, evaluate, read_evaluation
from sevenhills.forecast import mixtures as module

from .scenes import DISPLACEMENT, long_frame, refuses, walks
from .test_inputs import Tensor


def random_covariances(rng, *shape):
    """Covariances with condition numbers up to about a hundred."""
    size = shape[-1]
    factors = rng.standard_normal((*shape, size)) / np.sqrt(size)
    return factors @ factors.swapaxes(-1, -2) + 0.2 * np.eye(size)


def some_mixtures(seed=0, n_scenes=5, n_components=3, path=(4, 2), lead=0):
    """Mixtures whose covariances are those of whole paths, or of the first axes of a path."""
    rng = np.random.RandomState(seed)
    weights = rng.dirichlet(np.ones(n_components), n_scenes)
    means = 3 * rng.standard_normal((n_scenes, n_components, *path))
    shape = (n_scenes, n_components, *path[:lead], int(np.prod(path[lead:])))
    return Mixtures(weights, means, random_covariances(rng, *shape))


def full_covariance(mixtures, scene, component):
    each = mixtures.covariances[scene, component]
    return block_diag(*each.reshape(-1, *each.shape[-2:]))


def oracle(mixtures, scene, path, kept=None):
    """Log density of the kept values of a path, by scipy."""
    kept = np.arange(path.size) if kept is None else kept
    terms = [
        np.log(weight)
        + multivariate_normal(
            mixtures.means[scene, m].ravel()[kept],
            full_covariance(mixtures, scene, m)[np.ix_(kept, kept)],
        ).logpdf(path.ravel()[kept])
        for m, weight in enumerate(mixtures.weights[scene])
        if weight > 0
    ]
    return logsumexp(terms)


SHAPES = [((4, 2), 0), ((4, 2), 1), ((3, 3), 1), ((2, 3, 2), 0), ((2, 3, 2), 1), ((2, 3, 2), 2)]


@pytest.mark.parametrize(("path", "lead"), SHAPES)
@given(seed=st.integers(0, 2**31), n_components=st.integers(1, 6))
def test_log_densities_are_those_of_scipy(path, lead, seed, n_components):
    mixtures = some_mixtures(seed, 2, n_components, path, lead)
    paths = mixtures.means[:, :1] + np.random.RandomState(seed).standard_normal((2, 3, *path))
    found = mixtures.logpdf(paths)
    for s, k in np.ndindex(2, 3):
        assert_allclose(found[s, k], oracle(mixtures, s, paths[s, k]), rtol=1e-12, atol=1e-12)
        row = paths[s, k].reshape(1, -1)
        assert_allclose(mixtures[s].logpdf(row)[0], found[s, k], rtol=1e-12, atol=1e-12)
    assert_array_equal(mixtures.logpdf(paths[:, 1]), mixtures.logpdf(paths[:, 1:2])[:, 0])


def test_far_mixtures_lose_no_digits():
    mixtures = some_mixtures()
    far = Mixtures(mixtures.weights, mixtures.means + 2.0**22, mixtures.covariances)
    paths = np.round(mixtures.means[:, 0], 2)
    shifted = paths + 2.0**22
    near = Mixtures(mixtures.weights, far.means - 2.0**22, mixtures.covariances)
    assert_allclose(far.logpdf(shifted), near.logpdf(shifted - 2.0**22), rtol=1e-12)


@pytest.mark.parametrize(("path", "lead"), SHAPES)
def test_missing_steps_are_left_out(path, lead):
    mixtures = some_mixtures(1, 4, 3, path, lead)
    paths = mixtures.means[:, :2] + 0.5
    rng = np.random.RandomState(0)
    paths[rng.uniform(size=paths.shape[:-1]) < 0.4] = np.nan
    paths[0, 0] = np.nan
    found = mixtures.logpdf(paths)
    assert np.isnan(found[0, 0])
    for s, k in list(np.ndindex(4, 2))[1:]:
        kept = np.flatnonzero(~np.isnan(paths[s, k].ravel()))
        assert_allclose(found[s, k], oracle(mixtures, s, paths[s, k], kept), rtol=1e-12)


def test_blocks_of_scenes_change_nothing(monkeypatch):
    mixtures = some_mixtures(n_scenes=7)
    paths = mixtures.means + 0.3
    expected, draws = mixtures.logpdf(paths), mixtures.sample(5, random_state=0)
    monkeypatch.setattr(module, "_BLOCK_SIZE", 1)
    assert_array_equal(mixtures.logpdf(paths), expected)
    assert_array_equal(mixtures.sample(5, random_state=0), draws)


def test_scales_and_correlations():
    rng = np.random.RandomState(0)
    means = rng.standard_normal((3, 2, 4, 2))
    scales, rho = rng.uniform(0.5, 2, means.shape), rng.uniform(-0.9, 0.9, means.shape[:3])
    mixtures = Mixtures.from_scales(np.ones((3, 2)), means, scales, rho)
    for place in np.ndindex(3, 2, 4):
        a, b = scales[place]
        expected = [[a * a, rho[place] * a * b], [rho[place] * a * b, b * b]]
        assert_allclose(mixtures.covariances[place], expected)
    independent = Mixtures.from_scales(np.ones((3, 2)), means, scales)
    assert_allclose(
        independent.covariances, Mixtures.from_scales(np.ones((3, 2)), means, scales, 0).covariances
    )
    with pytest.raises(ValueError, match="correlations need 2 coordinates, got 3"):
        Mixtures.from_scales(np.ones((3, 2)), np.zeros((3, 2, 4, 3)), 1.0, 0.0)
    with pytest.raises(ValueError, match=re.escape("scales must have shape (3, 2, 4, 2)")):
        Mixtures.from_scales(np.ones((3, 2)), means, np.ones((3, 3)))


def test_shared_covariances_and_short_floats():
    mixtures = some_mixtures(n_scenes=3)
    shared = mixtures.covariances[:1, :1]
    repeated = Mixtures(mixtures.weights, mixtures.means, np.tile(shared, (3, 3, 1, 1)))
    paths = mixtures.means[:, 0] + 1
    found = Mixtures(mixtures.weights, mixtures.means, shared).logpdf(paths)
    assert_array_equal(found, repeated.logpdf(paths))
    short = Mixtures(*(a.astype(np.float32) for a in (mixtures.weights, mixtures.means, shared)))
    assert_allclose(short.logpdf(paths), found, rtol=1e-3)
    skew = mixtures.covariances.copy()
    skew[..., 0, 1] *= 1 + 1e-7
    crooked = Mixtures(mixtures.weights, mixtures.means, skew)
    rows = paths.reshape(3, 1, -1)
    each = [crooked[s].logpdf(rows[s])[0] for s in range(3)]
    assert_allclose(crooked.logpdf(paths), each, rtol=1e-5)


def test_absent_components_have_no_effect():
    mixtures = some_mixtures(n_scenes=2)
    weights = np.column_stack([mixtures.weights, [0.0, np.nan]])
    means = np.concatenate([mixtures.means, np.full((2, 1, 4, 2), np.nan)], axis=1)
    covariances = np.concatenate([mixtures.covariances, np.full((2, 1, 8, 8), np.nan)], axis=1)
    padded = Mixtures(weights, means, covariances)
    paths = mixtures.means[:, 0] + 0.2
    assert_allclose(padded.logpdf(paths), mixtures.logpdf(paths), rtol=1e-14)
    assert_array_equal(padded.sample(20, random_state=0), mixtures.sample(20, random_state=0))
    found, expected = (evaluate(each, paths, n_replicates=0) for each in (padded, mixtures))
    for name in ("nll", "nll_step", "ade", "fde"):
        assert_allclose(found.scenes[name], expected.scenes[name], rtol=1e-12)
    assert padded[1].n_kernels == 3


@pytest.mark.parametrize(("path", "lead"), SHAPES)
def test_draws_have_the_moments_of_the_mixture(path, lead):
    mixtures = some_mixtures(3, 2, 3, path, lead)
    draws = mixtures.sample(20000, random_state=0)
    assert draws.shape == (2, 20000, *path)
    for s in range(2):
        rows, density = draws[s].reshape(20000, -1), mixtures[s]
        error = np.sqrt(np.diag(density.cov()) / 20000)
        assert (np.abs(rows.mean(axis=0) - density.mean()) < 5 * error).all()
        scale = np.sqrt(np.outer(*[np.diag(density.cov())] * 2))
        assert (np.abs(np.cov(rows.T) - density.cov()) / scale).max() < 0.05


def test_densities_of_scenes_are_mixtures():
    mixtures = some_mixtures(n_scenes=3)
    densities = [
        mixtures[0],
        mixtures[1],
        KernelMixture.merge([mixtures[2], mixtures[0]], [0.6, 0.4]),
    ]
    truth = mixtures.means[:, 0] + 0.4
    found = evaluate(densities, truth, measures="nll", n_replicates=0).scenes["nll"]
    expected = [-each.logpdf(y.reshape(1, -1))[0] for each, y in zip(densities, truth, strict=True)]
    assert_allclose(found, expected, rtol=1e-10)
    refuses("density of scene 0 has 8 features", densities, np.zeros((3, 5, 2)))
    frame = long_frame(truth[:, None], "future").sort_values("scene", kind="stable")
    assert_array_equal(evaluate(densities, frame, measures="nll").scenes["nll"], found)


def test_files_of_mixtures(tmp_path):
    mixtures = some_mixtures(n_scenes=3)
    truth, path = mixtures.means[:, 0] + 0.4, tmp_path / "a.npz"
    arrays = {name: getattr(mixtures, name) for name in ("weights", "means", "covariances")}
    np.savez(path, **arrays, groups=[0, 0, 1])
    found, expected = (evaluate(each, truth) for each in (str(path), mixtures))
    for name, values in expected.scenes.items():
        assert_array_equal(found.scenes[name], values)
    assert found.settings["n_groups"] == 2
    del arrays["covariances"]
    np.savez(path, **arrays, scales=np.full((3, 3, 4, 2), 0.5), correlations=np.zeros((3, 3, 4)))
    expected = Mixtures.from_scales(mixtures.weights, mixtures.means, 0.5).logpdf(truth)
    assert_array_equal(evaluate(path, truth, measures="nll").scenes["nll"], -expected)
    np.savez(path, **arrays)
    refuses("has means, but no array 'scales'", path, truth)


def test_mapped_densities_are_refused():
    density = KernelMixture.from_covariances([1.0], np.ones((1, 2)), np.eye(2))
    mapped = replace(density, maps=[LogMap(0.0, 1.0), LogMap(0.0, 1.0)])
    refuses("scene 1 has mapped features", [density, mapped], np.zeros((2, 1, 2)))


def test_clipped_steps():
    mixtures = some_mixtures(2, 4)
    truth = mixtures.means[:, 0] + 1.0
    step = -evaluate(mixtures, truth, measures="nll_step").scenes["nll_step"]
    found = evaluate(mixtures, truth, measures="nll_step", lower_bound=100.0)
    assert_array_equal(found.scenes["nll_step"], np.full(4, -100.0))
    assert found.degenerate["clipped steps"] == 16
    found = evaluate(mixtures, truth, measures="nll_step", lower_bound=-1e9)
    assert_array_equal(found.scenes["nll_step"], -step)


@pytest.mark.parametrize("lead", [0, 1])
def test_likelihoods_are_exact(lead):
    mixtures = some_mixtures(2, 6, 3, lead=lead)
    truth = mixtures.means[:, 1] + np.random.RandomState(0).standard_normal((6, 4, 2))
    truth[1, 3:] = truth[2, 1] = np.nan
    truth[4] = np.nan
    found = evaluate(mixtures, truth, n_replicates=0)
    for s in (0, 1, 2, 3, 5):
        steps = np.flatnonzero(~np.isnan(truth[s, :, 0]))
        kept = (2 * steps[:, None] + [0, 1]).ravel()
        assert_allclose(found.scenes["nll"][s], -oracle(mixtures, s, truth[s], kept), rtol=1e-12)
        each = [-oracle(mixtures, s, truth[s], [2 * t, 2 * t + 1]) for t in steps]
        assert_allclose(found.scenes["nll_step"][s], np.mean(each), rtol=1e-12)
    assert np.isnan(found.scenes["nll"][4])
    assert found["nll"].source == found["nll_step"].source == "exact"
    assert found.settings["estimator"] == found.settings["step_estimator"] == "exact"


@pytest.mark.parametrize("lead", [0, 1, 2])
def test_agents_share_components(lead):
    mixtures = some_mixtures(4, 5, 3, (2, 3, 2), lead)
    truth = mixtures.means[:, 0] + 0.5
    truth[2, 1] = np.nan
    found = evaluate(mixtures, truth, agents=True, n_replicates=0).scenes
    for s in range(5):
        agents = [0] if s == 2 else [0, 1]
        values = [np.arange(6) + 6 * a for a in agents]
        assert_allclose(
            found["nll_agents"][s], -oracle(mixtures, s, truth[s], np.concatenate(values))
        )
        each = [-oracle(mixtures, s, truth[s], kept) for kept in values]
        assert_allclose(found["nll_agent"][s], np.mean(each))


def test_several_truths():
    mixtures = some_mixtures(5, 4, 2)
    truth = mixtures.sample(6, random_state=1)
    truth[0, 2, 1:] = np.nan
    found = evaluate(mixtures, truth, n_replicates=0, measures=("nll", "ece"))
    assert_allclose(found.scenes["nll"], -mixtures.logpdf(truth).mean(axis=1), rtol=1e-12)
    assert found.levels.shape == (4, 6)


def test_a_horizon_cuts_mixtures():
    mixtures = some_mixtures(5, 4, 2)
    truth = mixtures.means[:, 0] + 0.2
    cut = truth.copy()
    cut[:, 2:] = np.nan
    found = evaluate(mixtures, truth, horizon=2, n_replicates=0, measures=("nll", "nll_step"))
    assert_array_equal(found.scenes["nll"], -mixtures.logpdf(cut))
    refuses("no horizon", mixtures.sample(9), truth, log_prob=np.zeros(4), horizon=2)


def test_displacements_are_those_of_weighted_means():
    mixtures = some_mixtures(6)
    truth = mixtures.means[:, 0] + 0.1
    measures = DISPLACEMENT
    found = evaluate(mixtures, truth, measures=measures, n_replicates=0)
    expected = evaluate(
        mixtures.means, truth, weights=mixtures.weights, measures=measures, n_replicates=0
    )
    for name, values in expected.scenes.items():
        assert_array_equal(found.scenes[name], values)
        assert (found[name].source, expected[name].source) == ("modes", "samples")


def test_measures_of_samples_are_those_of_draws():
    mixtures = some_mixtures(7, 4)
    truth = mixtures.means[:, 0]
    found = evaluate(mixtures, truth, measures="energy_score", n_draws=30, random_state=3)
    draws = mixtures.sample(30, random_state=3)
    expected = evaluate(draws, truth, measures="energy_score")
    assert_array_equal(found.scenes["energy_score"], expected.scenes["energy_score"])
    assert found["energy_score"].source == "draws"


def test_levels_of_truths_from_the_mixture_are_uniform():
    mixtures = some_mixtures(8, 1500, path=(3, 2))
    truth = mixtures.sample(1, random_state=1)[:, 0]
    right = evaluate(mixtures, truth, measures="ece", n_replicates=0)
    assert kstest(right.levels.ravel(), "uniform").pvalue > 0.01
    narrow = Mixtures(mixtures.weights, mixtures.means, mixtures.covariances / 4)
    wrong = evaluate(narrow, truth, measures="ece", n_replicates=0)
    assert right["ece"].mean < 0.02 < 0.1 < wrong["ece"].mean


def test_estimates_from_draws_approach_the_exact_likelihood():
    mixtures = some_mixtures(9, 40, 2, (1, 2))
    truth = mixtures.sample(1, random_state=1)[:, 0]
    exact = evaluate(mixtures, truth, measures="nll", n_replicates=0)["nll"].mean
    draws = mixtures.sample(1000, random_state=2)
    estimate = evaluate(draws, truth, measures="nll", estimator="rome", n_replicates=0)["nll"].mean
    assert abs(estimate - exact) < 0.1


def test_the_order_of_components_has_no_effect():
    mixtures, order = some_mixtures(10), [2, 0, 1]
    moved = Mixtures(
        mixtures.weights[:, order], mixtures.means[:, order], mixtures.covariances[:, order]
    )
    truth = mixtures.means[:, 0] + 0.3
    measures = ("nll", "nll_step", "ade", "fde")
    first, second = (
        evaluate(each, truth, measures=measures, n_replicates=0) for each in (mixtures, moved)
    )
    for name in measures:
        assert_allclose(first.scenes[name], second.scenes[name], rtol=1e-12)


def test_units_and_rotations():
    mixtures = some_mixtures(11)
    truth, (cos, sin) = mixtures.means[:, 0] + 0.3, (np.cos(0.7), np.sin(0.7))
    turn = 100 * np.array([[cos, -sin], [sin, cos]])
    every = np.kron(np.eye(4), turn)
    moved = Mixtures(
        mixtures.weights, mixtures.means @ turn.T, every @ mixtures.covariances @ every.T
    )
    first = evaluate(mixtures, truth, n_replicates=0).scenes
    second = evaluate(moved, truth @ turn.T, n_replicates=0).scenes
    assert_allclose(second["nll"], first["nll"] + 8 * np.log(100), rtol=1e-10)
    assert_allclose(second["nll_step"], first["nll_step"] + 2 * np.log(100), rtol=1e-10)
    assert_allclose(second["ade"], 100 * first["ade"], rtol=1e-10)


def test_tensors_are_taken():
    mixtures = some_mixtures()
    arrays = (mixtures.weights, mixtures.means, mixtures.covariances)
    found = Mixtures(*map(Tensor, arrays))
    paths = mixtures.means[:, 0] + 0.1
    assert_array_equal(found.logpdf(Tensor(paths)), mixtures.logpdf(paths))


def test_values_are_read_only_and_can_be_pickled():
    mixtures = some_mixtures()
    with pytest.raises(ValueError, match="read-only"):
        mixtures.means[0] = 0.0
    again = pickle.loads(pickle.dumps(mixtures))
    assert_array_equal(again.logpdf(mixtures.means[:, 0]), mixtures.logpdf(mixtures.means[:, 0]))
    assert len(mixtures) == 5
    assert_array_equal(mixtures[-1].means, mixtures[4].means)
    with pytest.raises(IndexError):
        mixtures[5]


def bad(**changes):
    mixtures = some_mixtures()
    arrays = {
        name: np.array(getattr(mixtures, name)) for name in ("weights", "means", "covariances")
    }
    for name, change in changes.items():
        change(arrays[name])
    return arrays


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"weights": lambda w: w.__setitem__((2, 1), -0.1)}, "not negative; scene 2"),
        ({"weights": lambda w: w.__setitem__((2, 1), np.nan)}, "weights must be finite.* scene 2"),
        ({"weights": lambda w: w.__setitem__(3, 0.0)}, "must not all be zero; scene 3"),
        ({"means": lambda m: m.__setitem__((1, 0, 2), np.nan)}, "means must be finite.*scene 1"),
    ],
)
def test_bad_weights_and_means_are_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        Mixtures(**bad(**changes))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda c: c.__setitem__((3, 1), -np.eye(8)), "positive definite.*scene 3, component 1"),
        (lambda c: c.__setitem__((3, 1), np.ones((8, 8))), "that of scene 3, component 1"),
        (lambda c: c.__setitem__((3, 1), 0.0), "that of scene 3, component 1"),
        (lambda c: c.__setitem__((3, 1, 0, 0), np.nan), "that of scene 3, component 1"),
        (lambda c: c.__setitem__((4, 2, 0, 1), 9.0), "symmetric.*scene 4, component 2"),
    ],
)
def test_bad_covariances_are_refused(change, match):
    mixtures = Mixtures(**bad(covariances=change))
    with pytest.raises(ValueError, match=match):
        mixtures.logpdf(np.zeros((5, 4, 2)))


def test_bad_shapes_are_refused():
    mixtures = some_mixtures()
    weights, means, covariances = mixtures.weights, mixtures.means, mixtures.covariances
    for arguments, match in (
        ((weights[:, :2], means, covariances), r"weights must have shape \(5, 3\), got \(5, 2\)"),
        ((weights, means[0], covariances), "means must have the axes"),
        ((weights, means, covariances[:, :, :4]), "covariances must have shape"),
        ((weights, means, covariances[:2]), "covariances must have shape"),
    ):
        with pytest.raises(ValueError, match=match):
            Mixtures(*arguments)
    with pytest.raises(ValueError, match="paths of shape"):
        mixtures.logpdf(np.zeros((5, 3, 2)))
    truth = means[:, 0]
    refuses("weights is for samples", mixtures, truth, weights=weights)
    refuses("log_prob is for samples", mixtures, truth, log_prob=np.zeros(5))
    refuses("do not match truth", mixtures, truth[:, :3])
    refuses("n_draws must be at least 3", mixtures, truth, n_draws=2)


# Log densities of the model itself


def test_log_prob_is_the_likelihood():
    predictions, truth = walks(6, 12)
    log_prob = np.random.RandomState(0).standard_normal(6)
    found = evaluate(predictions, truth, log_prob=log_prob)
    without = evaluate(predictions, truth)
    assert_array_equal(found.scenes["nll"], -log_prob)
    assert list(found.scenes) == list(without.scenes)
    for name in set(found.scenes) - {"nll"}:
        assert_array_equal(found.scenes[name], without.scenes[name])
        assert found[name].source == without[name].source
    assert_array_equal(found.levels, without.levels)
    assert (found["nll"].source, without["nll"].source) == ("exact", "rome")
    with pytest.raises(ValueError, match="differ in estimator"):
        compare(found, without)
    assert compare(found, without, ignore=("estimator",), n_permutations=9)["nll"].n_scenes == 6
    alone = evaluate(predictions, truth, log_prob=log_prob, measures="nll")
    assert_array_equal(alone.scenes["nll"], -log_prob)


def test_log_prob_of_several_truths_and_of_agents():
    predictions, truth = walks(6, 12)
    truths = np.stack([truth, truth + 0.1], axis=1)
    truths[0, 1] = np.nan
    log_prob = np.arange(12.0).reshape(6, 2)
    log_prob[0, 1] = np.nan
    found = evaluate(predictions, truths, log_prob=log_prob, measures="nll").scenes["nll"]
    assert_allclose(found, -np.nanmean(log_prob, axis=1))
    predictions, truth = walks(6, 12, n_agents=2)
    found = evaluate(predictions, truth, agents=True, log_prob=np.arange(6.0))
    assert_array_equal(found.scenes["nll_agents"], -np.arange(6.0))
    assert (found["nll_agents"].source, found["nll_agent"].source) == ("exact", "rome")


@pytest.mark.parametrize(
    ("log_prob", "match"),
    [
        (np.zeros(5), r"log_prob must have shape \(6, 1\), got \(5,\)"),
        (np.array([0, 0, np.nan, 0, 0, 0]), "log_prob must be finite, got nan in scene 2"),
        (np.array([0, 0, 0, -np.inf, 0, 0]), "log_prob must be finite, got -inf in scene 3"),
    ],
)
def test_bad_log_prob_is_refused(log_prob, match):
    refuses(match, *walks(), log_prob=log_prob)
    refuses("log_prob is used by nll", *walks(), log_prob=np.zeros(6), measures="ade")


def test_sources_are_stored(tmp_path):
    pytest.importorskip("pyarrow")
    mixtures = some_mixtures()
    found = evaluate(mixtures, mixtures.means[:, 0] + 0.1, n_replicates=0)
    assert "5 scenes of 3 components" in repr(found)
    found.to_parquet(tmp_path / "a.parquet")
    again = read_evaluation(tmp_path / "a.parquet")
    assert [row.source for row in again.summary] == [row.source for row in found.summary]
    assert set(found.columns()["source"]) == {"exact", "draws", "modes"}


def test_sources_of_samples():
    predictions, truth = walks(40, 12)
    found = evaluate(predictions, truth, n_replicates=0)
    sources = {row.measure: row.source for row in found.summary}
    assert [sources[name] for name in ("nll", "ece", "nll_step", "energy_score", "ade")] == [
        "pooled",
        "rome",
        "kde",
        "samples",
        "samples",
    ]
