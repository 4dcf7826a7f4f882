"""Numbers with a standard error."""

import copy
import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sevenhills.metrics import (
    Estimate,
    likelihood_factor,
)


def test_an_estimate_is_a_float_with_an_error():
    figure = Estimate(0.01031, 0.0004, 6000)
    assert isinstance(figure, float)
    assert (figure.std_error, figure.n) == (0.0004, 6000)
    assert figure == 0.01031
    assert hash(figure) == hash(0.01031)
    assert {figure: 1}[0.01031] == 1
    assert type(figure + 1) is float
    assert f"{figure:.3f}" == "0.010"
    assert_allclose(figure.interval(), 0.01031 + np.array([-1, 1]) * 1.959964 * 0.0004, rtol=1e-6)
    assert_allclose(figure.interval(0.5), 0.01031 + np.array([-1, 1]) * 0.6744898 * 0.0004)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.01031, 0.0004, "0.0103 ± 0.0004"),
        (0.01031, 0.00014, "0.01031 ± 0.00014"),
        (-12.346, 0.2, "-12.3 ± 0.2"),
        (1234.0, 250.0, "1234 ± 250"),
        (2.0, 0.0, "2 ± 0"),
        (0.5, math.nan, "0.5"),
        (-math.inf, math.nan, "-inf"),
        (3e-20, 1e-21, "3e-20 ± 1e-21"),
        (1.5, math.inf, "1.5"),
    ],
)
def test_an_estimate_shows_as_many_digits_as_it_knows(value, error, text):
    assert repr(Estimate(value, error)) == str(Estimate(value, error)) == text
    assert f"{Estimate(value, error)}" == text


@pytest.mark.parametrize(
    "figure",
    [Estimate(1.5, 0.1, 7), likelihood_factor([1.0, 2.0], [0.5, 1.8])],
)
def test_an_estimate_survives_pickling_and_copying_and_cannot_be_changed(figure):
    for twin in (pickle.loads(pickle.dumps(figure)), copy.copy(figure), copy.deepcopy(figure)):
        assert type(twin) is type(figure)
        assert twin == figure
        for name in ("std_error", "n", "p_value"):
            assert getattr(twin, name, None) == getattr(figure, name, None)
    for name in ("std_error", "n", "other"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(figure, name, 1)
    with pytest.raises(AttributeError, match="cannot be changed"):
        del figure.n


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, math.nan])
def test_confidence_is_a_probability(confidence):
    with pytest.raises(ValueError, match="confidence"):
        Estimate(1.0, 0.1).interval(confidence)
