"""Fixtures of the tests of forecasts."""

import pytest

from sevenhills.forecast import evaluate

from .scenes import padded, walks


@pytest.fixture(scope="session")
def scenes():
    return padded(*walks(9, 10, 3))


@pytest.fixture(scope="session")
def evaluation(scenes):
    return evaluate(*scenes, n_replicates=100)
