"""Sums of weights, which stand for numbers of samples.

They are compared with whole numbers, so digits that depend on the order of adding up are dropped:
ten weights of 0.1 are one sample.
"""

import numpy as np


def count(weights: np.ndarray) -> float:
    """Return the number of samples that rows stand for.

    Parameters
    ----------
    weights : ndarray of shape (n_rows,)

    Examples
    --------
    >>> count(np.full(10, 0.1))
    1.0
    """
    return _rounded(weights.sum())


def counts(labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the number of samples in every cluster.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Whole numbers from 0.
    weights : ndarray of shape (n_rows,)

    Examples
    --------
    >>> counts(np.array([0, 2, 0]), np.array([0.1, 1.0, 0.2]))
    array([0.3, 0. , 1. ])
    """
    return np.array([_rounded(each) for each in np.bincount(labels, weights, minlength=1)])


def _rounded(number: float) -> float:
    return float(f"{number:.12g}")
