"""Scenes for the tests of forecasts."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal, assert_equal

from sevenhills import ROME
from sevenhills.forecast import evaluate

DISPLACEMENT = ("ade", "fde", "min_ade_k", "min_fde_k", "miss_rate_k")


def walks(n_scenes=6, n_samples=12, n_steps=4, n_coordinates=2, seed=0, n_agents=None):
    """Samples and a truth of one distribution; every scene has its own drift."""
    rng = np.random.RandomState(seed)
    shape = (n_scenes, n_samples + 1, *(() if n_agents is None else (n_agents,)))
    steps = rng.standard_normal((*shape, n_steps, n_coordinates))
    drift = rng.standard_normal((n_scenes, *[1] * (steps.ndim - 2), n_coordinates))
    paths = (0.3 * steps + drift).cumsum(axis=-2)
    return paths[:, 1:], paths[:, 0]


def padded(predictions, truth, seed=0):
    """Paths that end early, absent samples and an absent truth."""
    rng = np.random.RandomState(seed)
    predictions, truth = predictions.copy(), truth.copy()
    n_scenes, n_samples, n_steps = predictions.shape[:3]
    for s in range(n_scenes):
        truth[s, rng.randint(2, n_steps + 1) :] = np.nan
        predictions[s, rng.randint(n_samples), rng.randint(1, n_steps + 1) :] = np.nan
        predictions[s, rng.randint(n_samples)] = np.nan
    predictions[0, :, n_steps - 1 :] = np.nan
    truth[1] = np.nan
    return predictions, truth


def degenerate_scenes():
    """Scenes of 10 samples x 3 steps x 2: regular, identical, standing, on a line, and few."""
    predictions, truth = walks(5, 10, 3)
    predictions[1] = predictions[1, :1]
    predictions[2, :, 1] = 0.1
    predictions[3, :, 2, 1] = 2 * predictions[3, :, 2, 0] + 1
    predictions[4, 2:] = np.nan
    return predictions, truth


def several_truths():
    predictions, truth = walks(3, 20, 2)
    rng = np.random.RandomState(1)
    return predictions, truth[:, None] + 0.2 * rng.standard_normal((3, 6, 2, 2))


def shrinking(**options):
    """The estimator of the name "rome"."""
    return ROME(shrinkage="auto", **options)


def means(values):
    return float(np.mean(values))


def assert_same(first, second):
    assert first.scenes.keys() == second.scenes.keys()
    for name in first.scenes:
        assert_array_equal(first.scenes[name], second.scenes[name])
    assert_array_equal(first.levels, second.levels)
    assert_equal([vars(row) for row in first.summary], [vars(row) for row in second.summary])
    assert first.degenerate == second.degenerate


def refuses(match, *arguments, error=ValueError, **options):
    with pytest.raises(error, match=match):
        evaluate(*arguments, **options)


def long_frame(values, path):
    """A row for every point, in no order."""
    rows = np.argwhere(np.isfinite(values).all(axis=-1))
    names = ["scene", path, "step"] if values.ndim == 4 else ["scene", path, "agent", "step"]
    frame = pd.DataFrame(rows, columns=names)
    frame[["x", "y"]] = values[tuple(rows.T)]
    return frame
