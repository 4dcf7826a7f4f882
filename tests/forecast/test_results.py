import pickle

import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from sevenhills.forecast import read_evaluation

from .scenes import assert_same


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
    assert len(text.splitlines()) == 2 + len(evaluation.summary)
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
