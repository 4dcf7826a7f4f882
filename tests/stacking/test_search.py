"""The search for members, and their weights."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from sevenhills.stacking.cells import Cell
from sevenhills.stacking.members import Kernels, Member
from sevenhills.stacking.search import _climb, fit_cell, fit_cells, preview
from sevenhills.stacking.weights import pruned, stack, stacking_weights

from ..strategies import repeats_of
from .cases import cell_of, crescent, random_state

seeds = st.integers(0, 2**31)


def climb(scores, middle=None, patience=1):
    """Return the scores that a climb finds, and the members that it judges; NaN is no member."""
    tried = []

    def held_out(cell, f, learned, place):
        tried.append(place)
        if np.isnan(scores[place]):
            raise np.linalg.LinAlgError
        return np.array([scores[place]]), None

    places = range(len(scores))
    members = [SimpleNamespace(held_out=partial(held_out, place=place)) for place in places]
    cell = SimpleNamespace(
        n_scanned=1, log_background=lambda f: -np.inf, test_weights=lambda n_folds: np.ones(1)
    )
    middle = len(scores) // 2 if middle is None else middle
    found = _climb(cell, members, middle, patience)
    return [trial.score for trial in found], tried


@pytest.mark.parametrize("n_values", [1, 2, 6, 7])
@pytest.mark.parametrize("patience", [1, 2])
def test_the_top_is_found_wherever_it_is(n_values, patience):
    for top in range(n_values):
        for middle in range(n_values):
            found, _ = climb(-np.abs(np.arange(n_values) - top), middle, patience)
            assert max(found) == 0


def test_it_ends_behind_the_top():
    assert climb([0, 1, 2, 3, 2, 1, 0])[1] == [3, 2, 4]
    assert climb([0, 4, 3, 2, 1, 0, 9])[1] == [3, 2, 1, 0, 4]
    assert climb([9, 0, 1, 2, 3, 4, 0])[1] == [3, 2, 4, 5, 6]
    assert climb([0, 1, 2, 3, 2, 1, 0], patience=2)[1] == [3, 2, 1, 4, 5]
    assert climb([9, 4, 1, 3, 0, 4, 9], patience=2)[1] == [3, 2, 1, 0, 4, 5, 6]


def test_what_does_not_exist_ends_a_side():
    assert climb([9, np.nan, 3, 2, 3, np.nan, 9]) == ([2, 3, 3], [3, 2, 1, 4, 5])
    assert climb([1, 2, np.nan, 2, 1])[0] == [2, 1, 2, 1]


def test_a_cluster_that_looks_gaussian_is_one_gaussian():
    X = random_state(3).standard_normal((400, 2))
    fit = fit_cell(cell_of(X))
    assert len(fit.stack.members) == 1
    assert fit.density.n_kernels == 1
    assert fit.stack.reason
    assert fit.stack.gain == fit.stack.gain_error == 0


def test_others_gain():
    fit = fit_cell(cell_of(crescent()))
    assert fit.stack.gain > 5 * fit.stack.gain_error > 0
    assert fit.stack.n_tried > 15
    assert len(fit.stack.members) == len(fit.stack.weights) <= 6
    assert_allclose(fit.stack.weights.sum(), 1.0)
    assert not fit.stack.reason
    # Held-out log densities are in the coordinates that came in, as is the density.
    assert abs(fit.density.logpdf(crescent(500, seed=9)).mean() - fit.held_out) < 0.3


def test_few_samples_try_few_members():
    few = fit_cell(cell_of(random_state(0).standard_normal((12, 2))))
    many = fit_cell(cell_of(random_state(0).standard_normal((40, 2))))
    assert few.stack.reason
    assert few.stack.n_tried < many.stack.n_tried


def test_members_that_would_take_too_long_are_not_tried(monkeypatch):
    cell = cell_of(crescent())
    whole = fit_cell(cell)
    monkeypatch.setattr(Cell, "allows_matrices", lambda cell, n_rows: False)
    part = fit_cell(cell)
    assert 1 < part.stack.n_tried < whole.stack.n_tried
    assert part.stack.gain > 0


def likelihood(held_out, weights):
    return logsumexp(held_out + np.log(weights), axis=1).mean()


@given(seeds, st.integers(2, 10), st.integers(30, 200))
def test_no_other_weights_are_likelier(seed, n_members, n_samples):
    rng = random_state(seed)
    held_out = 3 * rng.standard_normal((n_samples, n_members)) + rng.standard_normal(n_members)
    weights = stacking_weights(held_out, np.ones(n_samples))
    assert_allclose(weights.sum(), 1.0)
    assert (weights >= 0).all()
    best = likelihood(held_out, np.maximum(weights, 1e-300))
    for sharpness in (0.01, 0.1, 1.0):
        for _ in range(20):
            other = (weights + 1e-6) * np.exp(sharpness * rng.standard_normal(n_members))
            assert likelihood(held_out, other / other.sum()) < best + 1e-6
        other = rng.dirichlet(np.full(n_members, sharpness) + 1e-2) + 1e-300
        assert likelihood(held_out, other) < best + 1e-6


@settings(max_examples=20)
@given(seeds, st.integers(2, 20), st.sampled_from([0.0, 0.01, 0.1]))
def test_members_that_say_nearly_the_same_cost_little(seed, n_members, spread):
    """Steps are slow there, but n of them are never behind by more than log(members) / n."""
    rng = random_state(seed)
    held_out = rng.standard_normal((100, 1)) + spread * rng.standard_normal((100, n_members))
    ones = np.ones(100)
    found = likelihood(held_out, np.maximum(stacking_weights(held_out, ones, 50), 1e-300))
    best = likelihood(held_out, np.maximum(stacking_weights(held_out, ones, 2000), 1e-300))
    assert best - 1e-9 <= found + np.log(n_members) / 50
    assert found <= best + 1e-9


def test_one_that_is_clearly_best_gets_all():
    rng = random_state(0)
    held_out = rng.standard_normal((200, 5)) * 0.2
    held_out[:, 3] += 2.0
    assert stacking_weights(held_out, np.ones(200))[3] > 0.99
    kept, weights = stack(held_out, np.ones(200))
    assert_array_equal(kept, [3])
    assert_array_equal(weights, [1.0])


def test_densities_of_any_size():
    held_out, ones = random_state(0).standard_normal((50, 4)), np.ones(50)
    expected = stacking_weights(held_out, ones)
    for shift in (-1e6, 1e6):
        assert_allclose(stacking_weights(held_out + shift, ones), expected)
    lost = np.concatenate([held_out, np.full((50, 1), -1e9)], axis=1)
    assert_allclose(stacking_weights(lost, ones), np.append(expected, 0.0))


@given(seeds, st.integers(1, 8), st.integers(1, 60))
def test_counts_are_repeated_rows(seed, n_members, n_asked):
    held_out = random_state(seed).standard_normal((n_asked, n_members))
    repeats = repeats_of(n_asked, seed)
    copies = np.repeat(held_out, repeats, axis=0)
    found = stacking_weights(held_out, repeats.astype(float))
    assert_allclose(found, stacking_weights(copies, np.ones(len(copies))), atol=1e-9)


@given(seeds, st.integers(1, 30), st.sampled_from([0.0, 0.01, 1.0, 5.0]))
def test_few_are_kept(seed, n_members, spread):
    held_out = spread * random_state(seed).standard_normal((60, n_members))
    kept, weights = stack(held_out, np.ones(60))
    assert 1 <= len(kept) == len(weights) <= 6
    assert len(set(kept)) == len(kept)
    assert_allclose(weights.sum(), 1.0)
    assert (np.diff(weights) <= 0).all()
    assert weights.min() >= 0.02


@given(seeds, st.integers(1, 12), st.sampled_from([0.0, 0.01, 0.1, 1.0]))
def test_little_is_lost_where_members_are_dropped(seed, n_members, spread):
    """At most 0.008, and only for members of many kernels more than 0.002."""
    rng = random_state(seed)
    held_out = rng.standard_normal((80, 1)) + spread * rng.standard_normal((80, n_members))
    ones, n_kernels = np.ones(80), rng.choice([1, 10, 100, 1000], size=n_members)
    kept = stack(held_out, ones)[0]
    before = likelihood(held_out[:, kept], stacking_weights(held_out[:, kept], ones))
    stays, weights = pruned(held_out, ones, kept, n_kernels)
    after = likelihood(held_out[:, stays], weights)
    dropped = np.setdiff1d(kept, stays)
    assert after >= before - (0.002 if n_kernels[dropped].sum() <= 200 else 0.008) - 1e-9
    assert 1 <= len(stays) == len(weights)
    assert np.isin(stays, kept).all()
    assert_allclose(weights.sum(), 1.0)
    assert (np.diff(weights) <= 0).all()


def test_the_best_single_member_stays():
    rng = random_state(0)
    held_out = 0.01 * rng.standard_normal((200, 4))
    held_out[:, 2] += 0.5
    for n_kernels in ([1, 1, 1000, 1], [1, 1, 1, 1], [1000, 1, 1, 1]):
        kept, weights = pruned(held_out, np.ones(200), np.arange(4), np.array(n_kernels))
        assert_array_equal(kept, [2])
        assert_allclose(weights, 1.0)


def test_of_equal_members_the_one_with_few_kernels_stays():
    held_out = np.repeat(random_state(0).standard_normal((50, 1)), 3, axis=1)
    kept, _ = pruned(held_out, np.ones(50), np.arange(3), np.array([9, 3, 500]))
    assert_array_equal(kept, [1])


def test_members_that_gain_together_stay():
    rng = random_state(0)
    half = np.arange(100) < 50
    held_out = np.stack([np.where(half, 0.0, -5.0), np.where(half, -5.0, 0.0)], axis=1)
    kept, weights = pruned(held_out, np.ones(100), np.arange(2), np.array([1, 10_000]))
    assert len(kept) == 2
    assert_allclose(weights, 0.5)
    counts = rng.randint(1, 5, size=100)  # counts are repeated rows
    copies = np.repeat(held_out, counts, axis=0)
    found = pruned(held_out, counts.astype(float), np.arange(2), np.ones(2, dtype=int))
    expected = pruned(copies, np.ones(len(copies)), np.arange(2), np.ones(2, dtype=int))
    assert_array_equal(found[0], expected[0])
    assert_allclose(found[1], expected[1])


def test_a_preview_is_near_the_score_of_the_whole_search():
    rng = random_state(0)
    for X in (rng.standard_normal((300, 3)), crescent(300), np.exp(rng.standard_normal((300, 2)))):
        cell = cell_of(X)
        score = preview(cell)
        assert abs(score - fit_cell(cell).held_out) < 0.25
        # It is in the units of the data.
        scaled = preview(cell_of(10 * X, least=1e-4))
        assert_allclose(scaled, score - X.shape[1] * np.log(10), atol=1e-4)


def test_a_preview_of_equal_samples():
    assert np.isfinite(preview(cell_of(np.full((20, 2), 3.0))))


def test_threads_change_nothing():
    cells = [cell_of(crescent(60, seed)) for seed in range(3)]
    for one, other in zip(fit_cells(cells), fit_cells(cells, n_jobs=3), strict=True):
        assert one.held_out == other.held_out
        assert one.stack.members == other.stack.members


class Copy(Member):
    """The true density of the crescent, up to its margins."""

    name = "copy"

    def fit(self, samples):
        return Kernels(0.25).fit(samples)


def test_members_of_users_are_tried_on_every_cluster():
    for n_samples in (20, 120):
        cell = cell_of(crescent(n_samples))
        plain, extended = fit_cell(cell), fit_cell(cell, [Copy()])
        assert extended.stack.n_tried == plain.stack.n_tried + 1
    gaussian = cell_of(random_state(3).standard_normal((400, 2)))
    assert fit_cell(gaussian, [Copy()]).stack.members == ("Gaussian",)


class Singular(Member):
    name = "singular"

    def fit(self, samples):
        raise np.linalg.LinAlgError


def test_members_that_do_not_exist_are_left_out():
    cell = cell_of(crescent(20))
    assert fit_cell(cell, [Singular()]).stack.n_tried == fit_cell(cell).stack.n_tried
