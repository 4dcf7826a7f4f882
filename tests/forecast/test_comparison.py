import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

from sevenhills.forecast import compare, evaluate

from .scenes import walks


@pytest.fixture(scope="module")
def pair():
    predictions, truth = walks(60, 15, 2)
    centre = predictions.mean(axis=1, keepdims=True)
    return [
        evaluate(centre + factor * (predictions - centre), truth, n_replicates=50)
        for factor in (1.0, 0.2)
    ]


def test_a_better_forecaster_is_better(pair):
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
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)


def test_the_same_forecaster_is_not_better(pair):
    found = compare(pair[0], pair[0], n_permutations=99)
    for row in found.summary:
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
    with pytest.raises(ValueError, match=r"differ in estimator \('pooled' and 'kde'\)"):
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
