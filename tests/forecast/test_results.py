import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills.forecast import Coverage, evaluate, read_evaluation
from sevenhills.forecast.groups import Calibration, Grouping
from sevenhills.metrics import calibration_error

from . import oracles
from .scenes import assert_same, means, walks


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
    with pytest.raises(KeyError, match="no measure 'jsd'"):
        evaluation["jsd"]


def test_coverage_and_error_are_shares_of_levels():
    predictions, truth = walks(50, 8, 2)
    found = evaluate(predictions, truth, measures="ece", levels=(0.5, 0.25), n_replicates=50)
    levels = found.levels.ravel()
    assert_array_equal(found.coverage.levels, [0.25, 0.5])
    assert_allclose(found.coverage.observed, [(levels <= 0.25).mean(), (levels <= 0.5).mean()])
    assert_allclose(found["ece"].mean, oracles.calibration_error(levels))
    shares = np.round(levels * 1000) / 1000  # as shares of a thousand own samples
    own = np.tile(np.arange(1000.0), (50, 1))
    same = calibration_error(own, 999.5 - 1000 * shares)
    assert_allclose(oracles.calibration_error(shares), same, atol=0.01)
    assert found.coverage.n_truths == 50
    assert 0 <= found["ece"].low <= found["ece"].mean <= found["ece"].high


def test_the_expected_error_is_that_of_uniform_levels():
    rng = np.random.RandomState(0)
    found = means([oracles.calibration_error(rng.uniform(size=200)) for _ in range(200)])
    levels = np.full((200, 1), 0.5)
    coverage = Coverage(*[np.ones(1)] * 5, n_truths=200)
    assert_allclose(found, coverage.expected_error, rtol=0.1)
    assert Calibration(levels, Grouping.of(None, 200)).value == pytest.approx(0.25, abs=0.01)


def test_results_as_tables(evaluation, tmp_path):
    frame = evaluation.to_pandas()
    assert list(frame["measure"]) == [row.measure for row in evaluation.summary]
    by_scene = evaluation.to_pandas("scenes")
    assert_array_equal(by_scene["ade"], evaluation.scenes["ade"])
    assert len(evaluation.to_pandas("coverage")) == 19
    with pytest.raises(ValueError, match="what must be"):
        evaluation.to_pandas("everything")
    text = repr(evaluation)
    assert "9 scenes of 10 samples, 3 steps" in text
    lines = text.splitlines()
    assert lines[-len(evaluation.summary) - 1].startswith("measure")
    assert max(map(len, lines)) <= 100
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
    with pytest.raises(ValueError, match="does not hold an evaluation"):
        read_evaluation(tmp_path / "other.parquet")
