"""The samples that are drawn as points."""

import numpy as np

from .subject import Subject


def thin(subject: Subject, most: int, kept: np.ndarray) -> np.ndarray:
    """Return rows of the samples, evenly spread over the ordering, and some in any case.

    Neighbours in the ordering are neighbours in space. So every k-th of them has the density of
    all, with less scatter than random ones, and every cluster keeps its share.

    Parameters
    ----------
    subject : Subject
    most : int
        The most rows, but for those kept.
    kept : ndarray of int
        Rows that are drawn in any case.

    Returns
    -------
    ndarray of int
        Rising.
    """
    if subject.X is None:
        return np.empty(0, dtype=np.int64)
    n_samples = len(subject.X)
    if n_samples <= most:
        return np.arange(n_samples)
    places = (np.arange(most) * n_samples) // most
    order = np.lexsort(subject.X.T) if subject.ordering is None else subject.ordering.order
    return np.union1d(order[places], kept)
