"""The energy distance of two sets of samples."""

from collections.abc import Iterator
from math import sqrt
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from ..estimate import Estimate, variance
from .densities import Points, check_points, check_same_width
from .permutations import PermutationTest, compared, shuffles

#: The distances that are held at a time.
_BLOCK_NUMBERS = 2**22


def energy_distance(X: Any, Y: Any) -> Estimate:
    r"""Return the energy distance of two sets of samples.

    .. math:: E(X, Y) = 2 \, \overline{\lVert x - y \rVert} - \overline{\lVert x - x' \rVert}
              - \overline{\lVert y - y' \rVert}

    with means over all pairs, those of a sample with itself among them. It is zero if both sets
    hold the same points, above zero otherwise, and tends to zero only if they have one origin [1]_.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
    Y : array-like of shape (m, n_features)

    Returns
    -------
    Estimate
        Its error is that to first order, which vanishes where the sets have one origin; whether
        they have is told by :func:`energy_test`.

    Notes
    -----
    In one dimension it is the square of what ``scipy.stats.energy_distance`` returns. Time grows
    with the square of the number of samples, memory does not.

    References
    ----------
    .. [1] G. J. Székely, M. L. Rizzo, "Energy statistics: A class of statistics based on
       distances", Journal of Statistical Planning and Inference 143 (2013).

    Examples
    --------
    >>> from sevenhills.metrics import energy_distance
    >>> energy_distance([[0.0], [1.0]], [[2.0], [3.0]])
    3.0 ± 1.4
    """
    rows, columns = check_points(X, "X"), check_points(Y, "Y")
    check_same_width(rows, columns)
    f = _mean_distances(rows, columns) - _mean_distances(rows, rows)
    g = _mean_distances(columns, rows) - _mean_distances(columns, columns)
    error = sqrt(variance(2 * f) / len(f) + variance(2 * g) / len(g))
    return Estimate(max(0.0, float(f.mean() + g.mean())), error, len(f) + len(g))


def energy_test(
    X: Any, Y: Any, *, n_permutations: int = 199, random_state: Any = None
) -> PermutationTest:
    r"""Test by the energy distance whether two sets of samples have one origin.

    With :math:`a_i = 1/n` for samples of X and :math:`-1/m` for those of Y, and the distances
    :math:`D` of all samples, the energy distance is :math:`-a^\top D a`. So distances are computed
    once, and shuffles are products with one matrix.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
    Y : array-like of shape (m, n_features)
    n_permutations : int, default=199
        The number of shuffles; the p-value is at least one over this number plus one.
    random_state : int, RandomState instance or None, default=None
        Makes the shuffles repeatable.

    Returns
    -------
    PermutationTest
        That of :func:`permutation_test` with :func:`energy_distance`.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.metrics import energy_test
    >>> X, Y = np.arange(20.0)[:, None], np.arange(15.0)[:, None] + 12.0
    >>> energy_test(X, Y, random_state=0)
    PermutationTest(statistic=8.49222, p_value=0.005)
    """
    first, second = check_points(X, "X"), check_points(Y, "Y")
    check_same_width(first, second)
    n, m = len(first), len(second)
    signs = np.repeat([1 / n, -1 / m], [n, m])
    orders = shuffles(first, second, n_permutations, random_state)
    # The sample that comes k-th counts as the k-th one did.
    sides = np.stack([signs, *(signs[np.argsort(order)] for order in orders)], axis=1)
    pooled = Points("X and Y", np.concatenate([first.values, second.values]), None)
    energies = np.zeros(sides.shape[1])
    for start, distances in _blocks(pooled, pooled):
        energies -= np.sum(sides[start : start + len(distances)] * (distances @ sides), axis=0)
    energies = np.maximum(energies, 0.0)
    return compared(float(energies[0]), energies[1:])


def _mean_distances(X: Points, Y: Points) -> np.ndarray:
    """Return the mean distance of every sample of one set to those of the other."""
    return np.concatenate([distances.mean(axis=1) for _, distances in _blocks(X, Y)])


def _blocks(X: Points, Y: Points) -> Iterator[tuple[int, np.ndarray]]:
    """Return the distances between two sets by blocks of rows, and where each begins."""
    step = max(1, _BLOCK_NUMBERS // len(Y))
    for start in range(0, len(X), step):
        distances = cdist(X.values[start : start + step], Y.values)
        if not np.isfinite(distances).all():
            raise ValueError(f"{X.name} and {Y.name} are too far apart: their distances overflow")
        yield start, distances
