"""Folds of weighted rows: copies are dealt out, and parts add up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills.folds import count, counts, deal, deal_in_turn, hold_out, mixed_generator

from .strategies import wild_weights

seeds = st.integers(0, 2**31)


def random_state(seed=0):
    return np.random.RandomState(seed)


def test_rounding_does_not_matter():
    assert count(np.full(100, 0.1)) == 10
    assert count(np.full(30, 1 / 3)) == 10
    assert_array_equal(counts(np.arange(300) % 3, np.full(300, 0.1)), [10, 10, 10])


@given(wild_weights())
def test_sums(weights):
    assert_allclose(count(weights), weights.sum(), rtol=1e-11)
    labels = np.arange(len(weights)) % 3
    expected = [weights[labels == label].sum() for label in range(labels.max() + 1)]
    assert_allclose(counts(labels, weights), expected, rtol=1e-11)


def spread_out(rows, weights, n_rows):
    """Weights of some rows as weights of all."""
    out = np.zeros(n_rows)
    out[rows] = weights
    return out


@given(st.one_of(st.integers(2, 60), st.sampled_from([299, 624])), seeds)
def test_every_row_is_tested_once_by_a_fold_that_does_not_train_on_it(n_rows, seed):
    folds = deal(np.ones(n_rows), random_state(seed))
    tested = np.concatenate([fold.test for fold in folds])
    assert_array_equal(np.sort(tested), np.arange(n_rows))
    order = random_state(seed).permutation(n_rows)
    for f, fold in enumerate(folds):
        assert_array_equal(fold.test, np.sort(order[f :: len(folds)]))
        assert_array_equal(np.sort(np.append(fold.train, fold.test)), np.arange(n_rows))
        assert_array_equal(fold.subset, fold.train)
        for weights in (fold.train_weights, fold.subset_weights, fold.test_weights):
            assert_array_equal(weights, 1.0)


@given(st.lists(st.integers(1, 12), min_size=2, max_size=40), seeds)
def test_whole_weights_are_dealt_out_as_repeated_rows(weights, seed):
    weights = [*weights, 1]
    row_of = np.repeat(np.arange(len(weights)), weights)
    copies = deal(np.ones(len(row_of)), random_state(seed))
    found = deal(np.array(weights, dtype=float), random_state(seed))
    for fold, repeated in zip(found, copies, strict=True):
        for part in ("train", "subset", "test"):
            rows, expected = (getattr(each, part) for each in (fold, repeated))
            parts = spread_out(rows, getattr(fold, f"{part}_weights"), len(weights))
            assert_array_equal(parts, np.bincount(row_of[expected], minlength=len(weights)))


@given(st.lists(st.integers(1, 12), min_size=2, max_size=40), st.integers(2, 7))
def test_dealing_in_turn(weights, n_folds):
    weights = [*weights, 1]
    row_of = np.repeat(np.arange(len(weights)), weights)
    held = deal_in_turn(np.array(weights, dtype=float), n_folds)
    for f, part in enumerate(held):
        assert_array_equal(part, np.bincount(row_of[f::n_folds], minlength=len(weights)))


@given(wild_weights(), st.integers(2, 7))
def test_any_weights_dealt_out_in_turn_add_up(weights, n_folds):
    held = deal_in_turn(weights, n_folds)
    assert (held >= 0).all()
    assert_allclose(held.sum(axis=0), weights, rtol=1e-12)
    assert ((held.sum(axis=0) - held).sum(axis=1) > 0).all()


@given(wild_weights(min_size=2), seeds)
def test_parts_add_up(weights, seed):
    """Every fold has training rows and test rows."""
    folds, n_rows = deal(weights, random_state(seed)), len(weights)
    held = [spread_out(fold.test, fold.test_weights, n_rows) for fold in folds]
    assert_allclose(np.sum(held, axis=0), weights, rtol=1e-12)
    assert 2 <= len(folds) <= 5
    for fold, part in zip(folds, held, strict=True):
        assert len(fold.test) > 0
        assert len(fold.train) > 0
        left = spread_out(fold.train, fold.train_weights, n_rows)
        assert_allclose(left + part, weights, rtol=1e-12)
        assert (fold.train_weights > 0).all()
        assert (fold.test_weights > 0).all()


@given(
    st.integers(2, 60),
    seeds,
    st.sampled_from(
        [
            lambda rng, n: rng.uniform(1e-3, 5.0, size=n),
            lambda rng, n: np.full(n, 2.0),
            lambda rng, n: rng.choice([2.0, 3.0], size=n) + 2.0,
        ]
    ),
)
def test_rows_stay_whole_unless_weights_are_counts(n_rows, seed, weights_of):
    """A row is then either in training or in the test."""
    weights = weights_of(random_state(seed), n_rows)
    whole = deal(np.ones(n_rows), random_state(seed))
    for fold, expected in zip(deal(weights, random_state(seed)), whole, strict=True):
        assert_array_equal(fold.train, expected.train)
        assert_array_equal(fold.train_weights, weights[fold.train])
        assert_array_equal(fold.subset_weights, weights[fold.subset])
        assert_array_equal(fold.test, expected.test)
        assert_array_equal(fold.test_weights, weights[fold.test])
    held = deal_in_turn(weights, 5)
    assert_array_equal(np.sum(held > 0, axis=0), 1)


def test_rounding_errors_of_counts_do_not_matter():
    folds = deal(np.array([2 - 1e-12, 2.0, 1 - 1e-12]), random_state())
    tested = np.sort(np.concatenate([fold.test_weights for fold in folds]))
    assert_allclose(tested, [1.0, 1.0, 1.0, 1.0, 1.0])


def test_heavy_rows_are_dealt_out_in_a_few_copies():
    """They are in training and in the test of some folds."""
    for fold in deal(np.array([1e12, 1.0, 1e15]), random_state()):
        assert_array_equal(np.setdiff1d(fold.train, [1]), [0, 2])
        assert len(fold.test) > 0


@pytest.mark.parametrize("n_rows", [900, 1250, 3000, 7000, 20_000])
def test_many_rows_are_tested_in_part(n_rows):
    """By as few folds as have 500 test rows, but two at least."""
    folds = deal(np.ones(n_rows), random_state())
    tested = [fold.test for fold in folds if len(fold.test)]
    n_tested = sum(map(len, tested))
    assert len(np.unique(np.concatenate(tested))) == n_tested <= 3000
    assert n_tested >= 500
    assert len(tested) == 2 or n_tested - len(tested[0]) < 500
    for fold in folds:
        assert len(fold.subset) == min(len(fold.train), 6000)
        assert np.isin(fold.subset, fold.train).all()
        assert not np.isin(fold.test, fold.train).any()


@pytest.mark.parametrize("weight", [1.0, 0.2, 30.0])
def test_one_row_is_all_there_is(weight):
    folds = deal(np.array([weight]), random_state())
    for fold in folds:
        for rows in (fold.train, fold.subset, fold.test):
            assert_array_equal(rows, [0])
        assert_allclose(fold.train_weights + fold.test_weights, weight)
    assert_allclose(sum(fold.test_weights[0] for fold in folds), weight)


def held_by_hand(n_copies, cv, seed):
    """The copies that each fold holds out: every so many of a random order, or the first ones."""
    order = random_state(seed).permutation(n_copies)
    if cv < 1:
        n_held = min(max(round(cv * n_copies), 1), n_copies - 1)
        return [order[:n_held]]
    return [order[f::cv] for f in range(cv) if f < n_copies]


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=40),
    seeds,
    st.sampled_from([2, 5, 30, 1000, 0.01, 0.5, 0.99]),
)
def test_whole_weights_are_held_out_as_repeated_rows(weights, seed, cv):
    weights = [*weights, 1]
    row_of = np.repeat(np.arange(len(weights)), weights)
    held = hold_out(np.array(weights, dtype=float), cv, random_state(seed))
    expected = held_by_hand(len(row_of), cv, seed)
    assert len(held) == len(expected) == (1 if cv < 1 else min(cv, len(row_of)))
    for part, copies in zip(held, expected, strict=True):
        assert_array_equal(part, np.bincount(row_of[copies], minlength=len(weights)))


@given(wild_weights(), seeds, st.sampled_from([2, 5, 7, 100]))
def test_what_folds_hold_out_adds_up(weights, seed, cv):
    held = hold_out(weights, cv, random_state(seed))
    assert (held >= 0).all()
    assert (held.sum(axis=1) > 0).all()
    assert_allclose(held.sum(axis=0), weights, rtol=1e-12)
    assert ((held.sum(axis=0) - held).sum(axis=1) > 0).all()


@given(wild_weights(), seeds, st.floats(1e-6, 1 - 1e-6))
def test_a_share_leaves_something_on_both_sides(weights, seed, share):
    (held,) = hold_out(weights, share, random_state(seed))
    assert ((held >= 0) & (held <= weights * (1 + 1e-12))).all()
    assert held.sum() > 0
    assert (weights - held).max() > 0


def test_fractional_rows_are_held_out_as_a_whole():
    weights = random_state().uniform(0.1, 5, 30)
    for cv in (5, 0.3):
        held = hold_out(weights, cv, random_state())
        assert ((held == 0) | (held == weights)).all()
    assert (held > 0).sum() == 9


def test_a_mixed_generator_depends_on_samples_but_not_on_order_units_or_copies():
    X = np.random.RandomState(0).standard_normal((40, 2))
    drawn = mixed_generator(0, X).randint(2**31)
    for same in (X[::-1], X * [1000.0, 3e-7] + [5.0, 1e-6], np.repeat(X, 2, axis=0)):
        assert mixed_generator(0, same).randint(2**31) == drawn
    X[3, 1] += 0.01
    assert mixed_generator(0, X).randint(2**31) != drawn
    assert mixed_generator(1, X).randint(2**31) != mixed_generator(0, X).randint(2**31)
    constant = np.full((5, 1), 3.0)
    assert 0 <= mixed_generator(0, constant).randint(5) < 5
