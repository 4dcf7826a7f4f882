"""Large data sets: scores from samples beside exact ones, progress, interruption."""

import _thread
import signal
import threading
import time
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import ROME, datasets, load, save
from sevenhills.clustering import cut, neighbors_for, order_by_reachability, score
from sevenhills.clustering.optics import Partitions, _order_many
from sevenhills.clustering.sampling import sample_scores
from sevenhills.clustering.selection import (
    TRIVIAL_SCORE,
    _Silhouettes,
    sampled_silhouette_scores,
    silhouette_scores,
)

from ..strategies import samples

NAMES = ("aniso", "two_moons", "gaussian", "trajectories")


def proper_cuts(X):
    ordering = order_by_reachability(X, neighbors_for(*X.shape, 5, 20, 400))
    partitions = cut(ordering, 30, 30).partitions
    return X[ordering.order], partitions.take(np.flatnonzero(np.diff(partitions.offsets) > 1))


def ordered(X, leaf_size):
    with mock.patch("sevenhills.clustering.optics._LEAF_SIZE", leaf_size):
        return _order_many(X, np.ones(len(X)), 3, None)


def hills(n_samples, seed=0):
    rng = np.random.RandomState(seed)
    return rng.standard_normal((n_samples, 2)) + 7 * rng.randint(3, size=(n_samples, 1))


@given(samples(min_samples=6, max_samples=80, max_features=8, scales=(1.0, 1e6)))
def test_the_ordering_does_not_depend_on_boxes(X):
    """One leaf for all points means all distances: nothing is passed over."""
    for found, expected in zip(ordered(X, 4), ordered(X, 2 * len(X)), strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("n_features", [2, 5, 24])
def test_the_ordering_of_many_points_does_not_depend_on_boxes(n_features):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((2000, 1)) * rng.uniform(size=n_features)
    X += 10 ** rng.uniform(-4, 0, (2000, 1)) * rng.standard_normal(X.shape)
    for found, expected in zip(ordered(X, 16), ordered(X, 2 * len(X)), strict=True):
        assert_array_equal(found, expected)


@given(samples(min_samples=6, max_samples=80, max_features=4), st.booleans())
def test_contributions_of_points_add_up_to_scores(X, weighted):
    X, partitions = proper_cuts(X)
    if len(partitions) == 0:
        return
    weights = 1.0 + np.arange(len(X)) % 3 if weighted else np.ones(len(X))
    rows = np.arange(0, len(X), 3)
    silhouettes = _Silhouettes.from_partitions(X, partitions, weights)
    every = silhouettes.of_rows(np.arange(len(X)), None)
    assert_array_equal(silhouettes.of_rows(rows, None), every[:, rows])
    exact = silhouette_scores(X, partitions, weights=weights)
    assert_allclose(every @ weights / weights.sum(), exact, rtol=0, atol=1e-12)


@given(samples(min_samples=6, max_samples=80, max_features=4))
def test_a_sample_of_all_points_is_exact(X):
    X, partitions = proper_cuts(X)
    if len(partitions) == 0:
        return
    scores, errors = sampled_silhouette_scores(X, partitions, None, np.ones(len(X)), 256, 10_000)
    assert_allclose(scores, silhouette_scores(X, partitions), rtol=0, atol=1e-12)
    assert_array_equal(errors, 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_choice_is_the_exact_one(name):
    X = datasets.load(name).sample(5000, random_state=3)
    exact, sampled = (ROME(exact_below=n).fit(X) for n in (5001, 1000))
    assert_array_equal(sampled.labels_, exact.labels_)
    ours, theirs = sampled.candidates_, exact.candidates_
    assert not theirs.errors.any()
    assert ours.chosen == theirs.chosen
    assert ours.errors.max() > 0
    proper = theirs.scores > TRIVIAL_SCORE
    behind = [(each.scores - each.scores[each.chosen])[proper] for each in (ours, theirs)]
    assert (np.abs(behind[0] - behind[1]) <= 6 * ours.errors[proper] + 1e-12).all()


def test_just_enough_rows_for_a_sample_are_all_seen():
    """So that the time does not drop where sampling begins."""
    X = datasets.load("two_moons").sample(600, random_state=0)
    cuts = cut(order_by_reachability(X))
    exact, sampled = (score(X, cuts, exact_below=n) for n in (601, 600))
    assert not sampled.errors.any()
    assert_allclose(sampled.values, exact.values, rtol=0, atol=1e-12)
    assert score(X, cuts, exact_below=300).errors.any()


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_errors_are_those_of_the_sample(seed):
    """Contributions of known mean: estimates are as far from it as their errors say."""
    rng = np.random.RandomState(seed)
    n_points = 20_000
    bounds = np.array([[0, 9000, 0], [9000, 9010, -1], [9010, n_points, 1]])
    other = np.array([[0, 9010, 0], [9010, n_points, 1]])
    partitions = Partitions(np.concatenate([bounds, other]), np.array([0, 3, 5]))
    table = rng.uniform(size=(2, n_points))
    table[1, 9000:9010] -= 500 * rng.uniform()
    rows = {3: 0, 2: 1}

    def contributions(some, points):
        which = [rows[n] for n in np.diff(some.offsets)]
        return table[which][:, points]

    scores, errors = sample_scores(contributions, partitions, np.ones(n_points), 256, 4000)
    exact = table.mean(axis=1)
    leader = np.argmax(scores)
    off = (scores - scores[leader]) - (exact - exact[leader])
    assert (np.abs(off) <= 5 * errors).all()
    assert abs(scores[leader] - exact[leader]) <= 5 * errors[leader]


def test_the_same_data_give_the_same_scores_in_any_order_with_any_threads():
    X = hills(3000)
    first = ROME(exact_below=0).fit(X).candidates_
    turned = ROME(exact_below=0, n_jobs=3).fit(X[::-1]).candidates_
    assert_array_equal(first.scores, turned.scores)
    assert_array_equal(first.errors, turned.errors)


def test_a_sample_grows_where_points_are_left():
    """All points of the strata that it should grow by are in the sample already."""
    X = datasets.load("aniso").sample(14_000, random_state=0)
    candidates = ROME().fit(X).candidates_
    assert candidates.n_clusters[candidates.chosen] == 3


def test_repeated_rows_are_weights():
    X = hills(2000)
    weights = 1 + np.arange(2000) % 3
    ours = ROME(exact_below=0).fit(X, sample_weight=weights)
    theirs = ROME(exact_below=0).fit(np.repeat(X, weights, axis=0))
    assert_array_equal(np.repeat(ours.labels_, weights), theirs.labels_)
    assert_allclose(ours.candidates_.scores, theirs.candidates_.scores, rtol=0, atol=1e-12)


def test_errors_are_shown_and_stored(tmp_path):
    rome = ROME(exact_below=0).fit(hills(3000))
    assert "error" in rome.summary()
    assert "error" in rome.candidates_.to_dict()
    save(rome, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.exact_below == 0
    assert_array_equal(loaded.candidates_.errors, rome.candidates_.errors)
    exact = ROME().fit(hills(300)).candidates_
    assert "error" not in str(exact)


def test_exact_below_is_checked():
    with pytest.raises(ValueError, match="exact_below"):
        ROME(exact_below=-1).fit(hills(30))


@pytest.mark.parametrize(
    ("n_samples", "stages"),
    [(300, ["ordering", "scores"]), (4500, ["core distances", "ordering", "scores"])],
)
def test_a_verbose_fit_prints_its_stages(capsys, n_samples, stages):
    ROME().fit(hills(300))
    assert capsys.readouterr().out == ""
    ROME(verbose=True).fit(hills(n_samples))
    said = capsys.readouterr().out.splitlines()
    assert [line.split("%  ")[1] for line in said] == [*stages, "kernels"]


@pytest.fixture
def interruptible():
    """Interrupts raise, even if the shell that started the tests, or another test, said no."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_fit_leaves_the_old_model():
    rome = ROME().fit(hills(200))
    ROME(exact_below=0).fit(hills(300))
    before = dict(vars(rome))
    X, stopped = hills(400_000), threading.Event()

    def interrupt():
        # As users do: once more if nothing happens. Libraries may swallow an interrupt.
        while not stopped.wait(0.3):
            _thread.interrupt_main()
            stopped.wait(2.0)

    def fit():
        threading.Thread(target=interrupt).start()
        try:
            rome.fit(X)
        finally:
            stopped.set()

    start = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        fit()
    assert time.process_time() - start < 10
    assert vars(rome) == before
    assert len(rome.score_samples(hills(5))) == 5
