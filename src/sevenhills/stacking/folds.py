"""Which samples of a cluster are kept from which fit.

A row stands for as many samples as its weight. Where values repeat, as rounded ones do, it is dealt
out in copies, of which some may be seen and others be asked for, since new samples may repeat old
ones, too. Otherwise it stays whole: if a fit saw a part of every sample that it is asked for, it
would seem best to put spikes on them.
"""

from typing import NamedTuple

import numpy as np

N_FOLDS = 5
#: Beyond these numbers of rows, fits and scores go by a part of them.
_MOST_TRAINED = 6000
_MOST_ASKED = 3000
#: Clusters of more rows than this are asked in two folds only.
_MANY = 8000
#: A row is dealt out in so many copies at most, which are heavier then.
_MOST_COPIES = 25
#: Larger weights are no counts.
_LARGEST_COUNT = 2.0**53
#: A sum of weights may fall short of a whole number by this part.
_ROUNDING = 1e-9


class Fold(NamedTuple):
    """One division of the samples of a cluster.

    Attributes
    ----------
    rows, row_weights : ndarray
        All rows that a fit may see, and how many samples of each.
    some, some_weights : ndarray
        Those among them that are used where not all are needed.
    asked, asked_weights : ndarray
        Rows with samples that the fit has not seen and that are used to judge it.
    places : ndarray
        Where the answers belong among those of all folds.
    """

    rows: np.ndarray
    row_weights: np.ndarray
    some: np.ndarray
    some_weights: np.ndarray
    asked: np.ndarray
    asked_weights: np.ndarray
    places: np.ndarray


def deal(weights: np.ndarray, rng: np.random.RandomState) -> tuple[Fold, ...]:
    """Deal samples out to folds at random, as evenly as the number of their copies allows."""
    n_rows = len(weights)
    copies, order = _shuffled(weights, rng)
    each = weights / copies
    n_folds = min(N_FOLDS, len(order))
    n_scored = n_folds if n_rows <= _MANY else 2
    most = -(-_MOST_ASKED // n_scored)
    folds, first = [], 0
    for f in range(n_folds):
        held = order[f::n_folds]
        left = (copies - np.bincount(held, minlength=n_rows)) * each
        rows = np.flatnonzero(left)
        some = rows
        if len(rows) > _MOST_TRAINED:
            some = np.sort(rng.permutation(rows)[:_MOST_TRAINED])
        asked, times = np.unique(held[: most if f < n_scored else 0], return_counts=True)
        places = first + np.arange(len(asked))
        folds.append(Fold(rows, left[rows], some, left[some], asked, times * each[asked], places))
        first += len(asked)
    return tuple(folds)


def without_a_fifth(weights: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Return what is left of weights when a fifth of the copies is taken away at random."""
    copies, order = _shuffled(weights, rng)
    taken = np.bincount(order[: len(order) // 5], minlength=len(weights))
    return np.asarray((copies - taken) * (weights / copies))


def _shuffled(weights: np.ndarray, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of copies of every row, and the rows of all copies in random order."""
    copies = np.minimum(_copies(weights), _MOST_COPIES).astype(np.int64)
    rows = np.repeat(np.arange(len(weights)), copies)
    return copies, rows[rng.permutation(len(rows))]


def _copies(weights: np.ndarray) -> np.ndarray:
    """Return into how many copies every row is dealt out.

    Weights are taken for numbers of equal samples, as of rounded values, if they are whole and some
    row is there but once, be it after all were repeated alike. If every row repeats, or weighs
    something between, this says how the samples were written down, and nothing of what new samples
    will be: rows stay whole.
    """
    if len(weights) == 1:  # there is nothing else to learn from
        return np.full(1, 2.0)
    counts = np.rint(np.minimum(weights, _LARGEST_COUNT))
    if (np.abs(weights - counts) > _ROUNDING * counts).any():
        return np.ones(len(weights))
    counts /= np.gcd.reduce(counts.astype(np.int64))
    return counts if counts.min() == 1 else np.ones(len(weights))


def deal_in_turn(weights: np.ndarray, n_folds: int) -> np.ndarray:
    """Return how much of every weight each fold holds out, if copies are dealt out in turn.

    Parameters
    ----------
    weights : ndarray of shape (n_rows,)
    n_folds : int
        If there are fewer copies, the last folds hold out nothing.

    Returns
    -------
    ndarray of shape (n_folds, n_rows)

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
