"""Which samples of a cluster are kept from which fit."""

from typing import NamedTuple

import numpy as np

N_FOLDS = 5
#: Beyond these numbers of rows, fits and scores go by a part of them.
_MOST_TRAINED = 6000
_MOST_ASKED = 3000
#: Clusters of more rows than this are asked in two folds only.
_MANY = 8000


class Fold(NamedTuple):
    """One division of the rows of a cluster.

    Attributes
    ----------
    rows : ndarray
        All rows that a fit may see.
    some : ndarray
        Those among them that are used where not all are needed.
    asked : ndarray
        Rows that the fit has not seen and that are used to judge it.
    places : ndarray
        Where the answers belong among those of all folds.
    """

    rows: np.ndarray
    some: np.ndarray
    asked: np.ndarray
    places: np.ndarray


def deal(n_rows: int, rng: np.random.RandomState) -> tuple[Fold, ...]:
    """Deal rows out to folds, as evenly as their number allows."""
    if n_rows == 1:  # there is no other row to learn from
        only = np.zeros(1, dtype=np.int64)
        return (Fold(only, only, only, only),)
    n_folds = min(N_FOLDS, n_rows)
    order = rng.permutation(n_rows)
    n_scored = n_folds if n_rows <= _MANY else 2
    most = -(-_MOST_ASKED // n_scored)
    folds, first = [], 0
    for f in range(n_folds):
        held = order[f::n_folds]
        rows = np.sort(np.setdiff1d(order, held, assume_unique=True))
        some = rows
        if len(rows) > _MOST_TRAINED:
            some = np.sort(rng.permutation(rows)[:_MOST_TRAINED])
        asked = np.sort(held[:most]) if f < n_scored else held[:0]
        folds.append(Fold(rows, some, asked, first + np.arange(len(asked))))
        first += len(asked)
    return tuple(folds)
