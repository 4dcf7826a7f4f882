"""The answers depend on the samples alone: not on their order, on threads, or on the process.

Checks are calls, not bare asserts, so that they are made under ``python -O``, too.
"""

import copy
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import (
    datasets,
)
from sevenhills.clustering.points import canonical_features

from .estimators import EVERY, each_estimator

pytestmark = pytest.mark.usefixtures("silent")

SETS = ["two moons", "trajectories", "lattice", "mixed"]

each_set = pytest.mark.parametrize("name", SETS)


@cache
def samples_of(name):
    rng = np.random.RandomState(4)
    if name == "two moons":
        return datasets.load("two_moons").sample(150, random_state=0)
    if name == "trajectories":
        return datasets.load("trajectories").sample(80, random_state=0)
    lattice = np.round(1.5 * rng.standard_normal((200, 3)))
    if name == "lattice":
        return lattice
    return np.concatenate(
        [
            lattice[:60],  # ties and repeated rows
            [40, 0, 0] + 0.1 * rng.standard_normal((50, 3)),
            np.tile([0.0, 25.0, 0.1], (30, 1)),  # one row, thirty times
            30 * rng.standard_cauchy((10, 3)),
        ]
    )


def probes_of(name):
    X = samples_of(name)
    steps = 0.05 * X.std(axis=0) * np.random.RandomState(1).standard_normal(X.shape)
    return np.concatenate([X[::7], (X + steps)[::5], X[:3] + 100 * steps[:3]])


def answers(estimator, name, rows=None, **parameters):
    """Log densities at the probes of a set, and labels in its own order, if there are any."""
    X, probes = samples_of(name), probes_of(name)
    rows = np.arange(len(X)) if rows is None else rows
    model = copy.deepcopy(estimator).set_params(**parameters).fit(X[rows])
    labels = np.zeros(len(X), dtype=np.int64)
    labels[rows] = getattr(model, "labels_", 0)
    return model.score_samples(probes), labels


@cache
def usual_answers(number, name):
    return answers(EVERY[number], name)


def assert_the_usual(found, estimator, name):
    expected = usual_answers(EVERY.index(estimator), name)
    assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-9)
    assert_array_equal(found[1], expected[1])


# The order of the rows


def shuffle_often(estimator, name, numbers):
    for number in numbers:
        rows = np.random.RandomState(number).permutation(len(samples_of(name)))
        assert_the_usual(answers(estimator, name, rows), estimator, name)


@each_estimator
@pytest.mark.parametrize("name", ["trajectories", "mixed"])
def test_shuffled_rows(estimator, name):
    shuffle_often(estimator, name, range(1))


@pytest.mark.slow
@each_estimator
@each_set
def test_shuffled_rows_often(estimator, name):
    shuffle_often(estimator, name, range(1, 20))


# The order of the columns


COLUMN_SETS = {
    "skewed": lambda rng: rng.standard_gamma(2.0, size=(120, 4)) * [1, 1e3, 1e-3, 1e6],
    "clusters": lambda rng: np.concatenate(
        [
            rng.standard_normal((70, 3)),
            [6, 6, 0] + rng.exponential(size=(60, 3)) @ rng.standard_normal((3, 3)),
            [9, -9, 3] + 0.3 * rng.standard_normal((20, 3)),
        ]
    ),
    "heavy tails": lambda rng: rng.standard_t(2.5, size=(120, 5)),
    "lattice": lambda rng: np.round(1.5 * rng.standard_normal((120, 3))) / 10 + 0.99,
    "classes": lambda rng: np.column_stack(
        [np.eye(3)[np.repeat(np.arange(3), 30)], rng.standard_normal(90)]
    ),
    "a constant": lambda rng: np.column_stack([rng.standard_normal((80, 2)), np.full(80, 1.95)]),
}


def shuffle_columns(estimator, name):
    rng = np.random.RandomState(7)
    X = COLUMN_SETS[name](rng)
    probes = X[::3] + 0.05 * X.std(axis=0) * rng.standard_normal(X[::3].shape)
    expected = copy.deepcopy(estimator).fit(X).score_samples(probes)
    order, rows = np.roll(np.arange(X.shape[1])[::-1], 1), rng.permutation(len(X))
    found = copy.deepcopy(estimator).fit(X[rows][:, order]).score_samples(probes[:, order])
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@each_estimator
@pytest.mark.parametrize("name", ["clusters", "classes"])
def test_shuffled_columns(estimator, name):
    shuffle_columns(estimator, name)


@pytest.mark.slow
@each_estimator
@pytest.mark.parametrize("name", ["skewed", "heavy tails", "lattice", "a constant"])
def test_shuffled_columns_of_other_sets(estimator, name):
    shuffle_columns(estimator, name)


@pytest.mark.parametrize("name", COLUMN_SETS)
def test_the_order_of_features_follows_from_their_values(name):
    rng = np.random.RandomState(8)
    X = COLUMN_SETS[name](rng)
    weights = rng.randint(1, 4, len(X)).astype(float)
    expected = X[:, canonical_features(X, weights)]
    order, rows = rng.permutation(X.shape[1]), rng.permutation(len(X))
    signs, shifts = rng.choice([-1.0, 1.0], X.shape[1]), rng.uniform(-9, 9, X.shape[1])
    turned = X * signs * 2.5 + shifts
    for given in (
        canonical_features(X[rows][:, order], weights[rows]),
        canonical_features(
            np.repeat(X, weights.astype(int), axis=0)[:, order], np.ones(int(weights.sum()))
        ),
        canonical_features(turned[:, order], weights),
    ):
        assert_array_equal(X[:, order[given]], expected)


# Threads


@each_estimator
def test_number_of_threads(estimator):
    for name in ("two moons", "mixed"):
        assert_the_usual(answers(estimator, name, n_jobs=4), estimator, name)


def test_fits_at_the_same_time():
    tasks = [(each, name) for name in ("two moons", "mixed") for each in EVERY]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda task: answers(*task), tasks))
    for answer, task in zip(found, tasks, strict=True):
        assert_the_usual(answer, *task)


def test_one_model_asked_at_the_same_time():
    """What a density computes at the first question is computed by whoever comes first."""
    probes = probes_of("mixed")
    for number, estimator in enumerate(EVERY):
        model = copy.deepcopy(estimator).fit(samples_of("mixed"))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(model.score_samples, [probes] * 8))
        for each in found:
            assert_array_equal(each, usual_answers(number, "mixed")[0])


# Processes


def tell():
    """Print all answers; this is what another process does."""
    found = [[part.tolist() for part in answers(each, "mixed")] for each in EVERY]
    json.dump(found, sys.stdout)


def test_other_processes():
    """Another hash seed and four threads of BLAS."""
    threads = {f"{library}_NUM_THREADS": "4" for library in ("OMP", "OPENBLAS", "MKL")}
    run = subprocess.run(
        [sys.executable, "-c", "from tests.laws.test_invariance import tell; tell()"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "random", **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert_array_equal(run.stderr, "")
    for estimator, found in zip(EVERY, json.loads(run.stdout), strict=True):
        assert_the_usual([np.array(part) for part in found], estimator, "mixed")
