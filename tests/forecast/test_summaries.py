import numpy as np
import pytest
from numpy.testing import assert_allclose

from sevenhills.forecast import evaluate


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


def test_intervals_hold_the_mean_as_often_as_they_say():
    rng = np.random.RandomState(0)
    held = 0
    nowhere = np.zeros((30, 1, 1, 1))
    for _ in range(150):
        truth = rng.standard_normal((30, 1, 1))
        found = evaluate(nowhere, truth, measures="ade", check_units=False, n_replicates=200)
        held += found["ade"].low < np.sqrt(2 / np.pi) < found["ade"].high
    assert 0.86 < held / 150 < 0.99
