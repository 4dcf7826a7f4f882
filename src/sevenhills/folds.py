"""Folds for cross-validation of weighted rows.

A weight is the number of samples that a row stands for. Where values repeat, as rounded values do,
the copies of a row are dealt out one by one, so that a fit may see some and be tested on others:
new samples repeat old values, too. Otherwise a row stays in one fold: a fit that had seen a part of
every row it is tested on would favor spikes at the rows.
"""

from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from .validation import random_generator

N_FOLDS = 5
#: Upper bounds on the rows of an expensive fit, and on those of a test. More cost time and change
#: little.
_MAX_SUBSET = 6000
_MAX_TESTED = 3000
#: Folds are tested until there are this many test rows, but two at least.
_ENOUGH_TESTED = 500
#: Upper bound on the copies of a row; copies of heavier rows have a larger weight.
_MAX_COPIES = 25
#: Weights above this are not counts: not every whole number is representable there.
_MAX_COUNT = 2.0**53
#: Samples are compared in units of their range over this.
_DIGITS = 10**5
#: Relative rounding error up to which a sum of weights is a whole number.
_ROUNDING = 1e-9


def count(weights: np.ndarray) -> float:
    """Return the number of samples that rows stand for.

    The number is rounded to 12 digits, so that the order of summation does not decide a comparison
    with a whole number.
    """
    return _rounded(weights.sum())


def counts(labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the number of samples in every cluster, for labels from 0."""
    return np.array([_rounded(each) for each in np.bincount(labels, weights, minlength=1)])


def _rounded(number: float) -> float:
    return float(f"{number:.12g}")


class Fold(NamedTuple):
    """Training rows, a subset of them for expensive fits, and test rows, with their weights.

    A fold that is not tested has no test rows.
    """

    train: np.ndarray
    train_weights: np.ndarray
    subset: np.ndarray
    subset_weights: np.ndarray
    test: np.ndarray
    test_weights: np.ndarray


def deal(weights: np.ndarray, rng: np.random.RandomState) -> tuple[Fold, ...]:
    """Deal the copies of rows out to folds at random, in equal numbers."""
    n_rows = len(weights)
    copies, order = _shuffled(weights, rng)
    each = weights / copies
    n_folds = min(N_FOLDS, len(order))
    n_tested = int(np.clip(-(-_ENOUGH_TESTED * n_folds // len(order)), 2, n_folds))
    max_tested = -(-_MAX_TESTED // n_tested)
    folds = []
    for f in range(n_folds):
        held_out = order[f::n_folds]
        left = (copies - np.bincount(held_out, minlength=n_rows)) * each
        train = np.flatnonzero(left)
        subset = train
        if len(train) > _MAX_SUBSET:
            subset = np.sort(rng.permutation(train)[:_MAX_SUBSET])
        tested = held_out[: max_tested if f < n_tested else 0]
        test, times = np.unique(tested, return_counts=True)
        test_weights = times * each[test]
        folds.append(Fold(train, left[train], subset, left[subset], test, test_weights))
    return tuple(folds)


def deal_in_turn(weights: np.ndarray, n_folds: int) -> np.ndarray:
    """Return the weight of every row (columns) that each fold (rows) holds out.

    Copies are dealt out in turn. With fewer copies than folds, the last folds hold out nothing.

    Examples
    --------
    >>> deal_in_turn(np.array([1.0, 3.0, 1.0]), 2)
    array([[1., 1., 1.],
           [0., 2., 0.]])
    """
    copies = _copies(weights)
    starts = np.append(0.0, np.cumsum(copies[:-1])) % n_folds
    folds = np.arange(n_folds)[:, None]
    dealt = np.ceil((starts + copies - folds) / n_folds) - np.ceil((starts - folds) / n_folds)
    return np.asarray(dealt * (weights / copies))


def mixed_generator(random_state: Any, X: np.ndarray) -> np.random.RandomState:
    """Return a generator that depends on a seed and on samples, but not on their order or units.

    With a seed alone, the rows of the same ranks would be held out of all data sets that are
    sorted: they would not be exchangeable with new samples.
    """
    seed = random_generator(random_state).randint(2**31)
    values = np.unique(X, axis=0)
    apart = values - np.median(values, axis=0)
    largest = np.abs(apart).max(axis=0)
    digits = np.rint(apart / np.where(largest > 0, largest, 1.0) * _DIGITS).astype(np.int64)
    return np.random.RandomState([seed, crc32(digits.tobytes())])


def hold_out(weights: np.ndarray, cv: float, rng: np.random.RandomState) -> np.ndarray:
    """Return the weight of every row (columns) that each fold (rows) holds out, at random.

    ``cv`` is the number of folds, at most that of copies, or the share that a single fold holds
    out.
    """
    copies, order = _shuffled(weights, rng)
    if cv < 1:
        parts = [order[: int(np.clip(round(cv * len(order)), 1, len(order) - 1))]]
    else:
        parts = [order[f :: int(cv)] for f in range(min(int(cv), len(order)))]
    dealt = np.stack([np.bincount(part, minlength=len(weights)) for part in parts])
    return np.asarray(dealt * (weights / copies))


def _shuffled(weights: np.ndarray, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of copies of every row, and the rows of all copies in random order."""
    copies = np.minimum(_copies(weights), _MAX_COPIES).astype(np.int64)
    rows = np.repeat(np.arange(len(weights)), copies)
    return copies, rows[rng.permutation(len(rows))]


def _copies(weights: np.ndarray) -> np.ndarray:
    """Return the number of copies of every row.

    Weights are treated as counts if they are integers and, after dividing by their greatest common
    divisor, at least one equals 1. Other weights say how the samples were recorded, and nothing
    about repetitions in new samples: every row is one copy.
    """
    if len(weights) == 1:  # a second copy is the only possible test
        return np.full(1, 2.0)
    numbers = np.rint(np.minimum(weights, _MAX_COUNT))
    if (np.abs(weights - numbers) > _ROUNDING * numbers).any():
        return np.ones(len(weights))
    numbers /= np.gcd.reduce(numbers.astype(np.int64))
    return numbers if numbers.min() == 1 else np.ones(len(weights))
