import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from sevenhills import ROME, GaussianKDE
from sevenhills.datasets import make_walks
from sevenhills.estimators import ESTIMATORS
from sevenhills.forecast import compare, evaluate, inputs

from .scenes import DISPLACEMENT, assert_same, refuses, shrinking, walks


def test_blocks_do_not_matter(scenes, evaluation, monkeypatch):
    monkeypatch.setattr(inputs, "_BLOCK_SIZE", 130)
    assert_same(evaluate(*scenes, n_replicates=100), evaluation)


def test_workers_do_not_matter(scenes, evaluation):
    assert_same(evaluate(*scenes, n_replicates=100, n_jobs=2), evaluation)


@pytest.mark.parametrize("n_samples", [1, 2])
def test_too_few_samples(n_samples):
    predictions, truth = walks(6, n_samples)
    refuses(f"{n_samples} samples? in a scene, but a density needs 3.*'ade'", predictions, truth)
    found = evaluate(predictions, truth, measures=DISPLACEMENT)
    assert found[f"min_ade_{n_samples}"].n_scenes == 6


def test_parameters_are_checked():
    pair = walks(6)
    refuses("estimator must be one of", *pair, estimator="gauss")
    refuses("estimator must be one of", *pair, estimator=ROME, error=TypeError)
    refuses("step_estimator", *pair, step_estimator=3, error=TypeError)
    refuses("estimator cannot be fitted: min_std", *pair, estimator=ROME(min_std=-1))
    refuses("measures must be .all. or among", *pair, measures=("nll", "likelihood"))
    refuses("must not be empty", *pair, measures=())
    refuses("min_ade_5 needs its number in k", *pair, measures="min_ade_5")
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


def test_settings(evaluation):
    found = evaluation.settings
    assert found["estimator"] == "rome"
    assert found["n_samples"] == 10
    assert found["versions"]["numpy"] == np.__version__
    assert (
        "GaussianKDE"
        in evaluate(*walks(3), estimator=GaussianKDE(), measures="ade").settings["estimator"]
    )


def test_progress_is_printed(scenes, capsys):
    evaluate(*scenes, measures="ade", verbose=True)
    stages = [line.split("%  ")[1] for line in capsys.readouterr().out.splitlines()]
    assert stages == ["checks", "pooled shapes", "scenes", "bootstrap"]


#: Measures whose mean is best for the law of the truth.
PROPER = ("nll", "nll_step", "energy_score")


def check_that_the_oracle_wins(n_scenes, n_samples):
    """The oracle is better by two standard errors, and only the oracle is calibrated."""
    walks = make_walks(n_scenes, random_state=0)
    found = {
        name: evaluate(law.draw(n_samples, 1), walks.truth, measures=(*PROPER, "ece"))
        for name, law in walks.law.predictors().items()
    }
    oracle = found.pop("oracle")
    for evaluation in found.values():
        for measure in PROPER:
            apart = evaluation.scenes[measure] - oracle.scenes[measure]
            assert apart.mean() > 2 * apart.std(ddof=1) / np.sqrt(n_scenes)
        assert evaluation["ece"].mean > 5 * evaluation.coverage.expected_error
    assert oracle["ece"].mean < 2 * oracle.coverage.expected_error
    excess = {
        name: (each.coverage.observed - each.coverage.levels).mean() for name, each in found.items()
    }
    assert excess["over-confident"] < -0.2
    assert excess["under-confident"] > 0.2


@pytest.mark.whole
def test_the_oracle_wins_with_few_samples():
    check_that_the_oracle_wins(120, 20)


@pytest.mark.slow
@pytest.mark.parametrize("n_samples", [100, 1000])
def test_the_oracle_wins(n_samples):
    check_that_the_oracle_wins(120, n_samples)


def test_joint_densities_of_few_samples_need_shrinkage():
    """With 20 samples in 24 dimensions, the NLL without shrinkage is at least 50 nats worse."""
    walks = make_walks(30, random_state=0)
    drawn = walks.law.draw(20, 1)
    nll = {
        shrinkage: evaluate(
            drawn, walks.truth, estimator="rome", measures="nll", shrinkage=shrinkage
        )["nll"].mean
        for shrinkage in (None, "auto")
    }
    exact = -walks.law.logpdf(walks.truth).mean()
    assert nll["auto"] < exact + 15
    assert nll[None] > nll["auto"] + 50


@pytest.mark.parametrize("name", ["rome", "auto", "kde", "kde_cv", "gmm", "parzen"])
def test_estimators_by_name(name):
    predictions, truth = walks(2, 30, 1)
    found = evaluate(predictions, truth, estimator=name, measures="nll", n_replicates=0)
    model = shrinking() if name == "rome" else ESTIMATORS[name]()
    expected = [
        -clone(model).fit(paths.reshape(30, -1)).score_samples(true.reshape(1, -1))[0]
        for paths, true in zip(predictions, truth, strict=True)
    ]
    assert_array_equal(found.scenes["nll"], expected)


# Angles


def headings(n_scenes=40, n_samples=20, n_steps=6, seed=0):
    """Return directions in degrees that turn slowly, of which one is the truth."""
    rng = np.random.RandomState(seed)
    steps = rng.normal(scale=8.0, size=(n_scenes, n_samples + 1, n_steps, 1))
    angles = rng.uniform(-180, 180, size=(n_scenes, 1, 1, 1)) + steps.cumsum(axis=2)
    return angles[:, 1:], angles[:, 0]


@pytest.mark.parametrize("n_scenes", [6, 40])  # by ROME, and pooled
def test_angles_are_the_same_on_any_turn(n_scenes):
    samples, truth = headings(n_scenes)
    turns = 360 * np.random.RandomState(1).randint(-2, 3, size=samples.shape)
    expected = evaluate(samples, truth, period=360, n_replicates=0)
    found = evaluate((samples + turns) % 360, truth % 360, period=360, n_replicates=0)
    line = evaluate(samples, truth, n_replicates=0)
    for name, scores in found.scenes.items():
        np.testing.assert_allclose(scores, expected.scenes[name], rtol=1e-6)
        np.testing.assert_allclose(scores, line.scenes[name], rtol=1e-6)
    if n_scenes == 40:  # of which some cross north
        plain = evaluate(samples % 360, truth % 360, n_replicates=0)
        assert found["ade"].mean < plain["ade"].mean


def test_some_coordinates_are_angles():
    samples, truth = headings()
    places, goal = np.cos(np.deg2rad(samples)), np.cos(np.deg2rad(truth))
    both = [np.concatenate(pair, axis=-1) for pair in ((places, samples), (goal, truth))]
    expected = evaluate(*both, measures="nll", n_replicates=0, check_units=False)
    turned = [np.concatenate([each[..., :1], each[..., 1:] % 360], axis=-1) for each in both]
    options = {"measures": "nll", "n_replicates": 0, "check_units": False}
    found = evaluate(*turned, period=(None, 360), **options)
    assert found["nll"].mean == pytest.approx(expected["nll"].mean, rel=1e-6)


def test_forecasts_of_angles_are_compared():
    samples, truth = headings()
    first = evaluate(samples % 360, truth % 360, period=360)
    second = evaluate((samples + 30) % 360, truth % 360, period=360)
    assert compare(first, second)["ade"].difference < 0


@pytest.mark.parametrize("period", [0, -360, (360, None), "day"])
def test_periods_are_checked(period):
    with pytest.raises((ValueError, TypeError), match="period must"):
        evaluate(*headings(), period=period)
