"""Tests of whether two sets of samples come from the same distribution."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from ..estimate import Estimate, variance
from ..progress import Progress, no_progress
from ..validation import check_count, freeze, random_generator
from .arguments import Points, check_pair, distances

#: Statistics whose relative difference is at most this count as equal: rounding errors are smaller.
_TOLERANCE = 1e-9
#: Number of distances in memory at a time (32 MB).
_BLOCK_SIZE = 2**22


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """The result of a permutation test.

    Attributes
    ----------
    statistic : float
        The statistic of the two sets.
    p_value : float
        Small if the sets come from different distributions.
    null : ndarray of shape (n_permutations,)
        The statistics after the permutations that were made.
    """

    statistic: float
    p_value: float
    null: np.ndarray

    def __post_init__(self) -> None:
        freeze(self, "null")

    def __repr__(self) -> str:
        return f"PermutationTest(statistic={self.statistic:.6g}, p_value={self.p_value:.4g})"


def permutation_test(
    statistic: Callable[[np.ndarray, np.ndarray], float],
    X: Any,
    Y: Any,
    *,
    n_permutations: int = 199,
    max_exceedances: int | None = None,
    random_state: Any = 0,
    progress: Progress = no_progress,
) -> PermutationTest:
    r"""Test whether two sets of samples come from the same distribution.

    .. math:: p = \frac{1 + \#\{b : t_b \ge t\}}{1 + B}

    with the statistic :math:`t` of the two sets and :math:`t_b` after the :math:`b`-th of
    :math:`B` random permutations of the rows of both sets together. If the distributions are the
    same, :math:`p` is below a level with at most the probability of that level, for any statistic
    and any number of samples.

    With ``max_exceedances``, the test stops after :math:`b` permutations when this many statistics,
    :math:`h`, have been at least :math:`t`, and :math:`p = h / b`. The level is kept [1]_, and
    results with fewer exceedances do not change.

    Parameters
    ----------
    statistic : callable
        ``statistic(X, Y)`` returns a number that grows with the difference of two arrays.
    X, Y : array-like of shapes (n, n_features) and (m, n_features)
    n_permutations : int, default=199
        The number of permutations B; p is at least 1 / (B + 1).
    max_exceedances : int, optional
        The number of exceedances after which to stop; by default all permutations are made.
    random_state : int, RandomState instance or None, default=0
        Seeds the permutations.
    progress : callable, optional
        Progress callback, called with (stage, fraction done) after every permutation.

    Returns
    -------
    PermutationTest

    See Also
    --------
    energy_test : The same for the energy distance, many times faster.

    References
    ----------
    .. [1] J. Besag, P. Clifford, "Sequential Monte Carlo p-values", Biometrika 78 (1991).

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.metrics import permutation_test
    >>> X, Y = np.arange(20.0)[:, None], np.arange(15.0)[:, None] + 12.0
    >>> permutation_test(lambda X, Y: abs(X.mean() - Y.mean()), X, Y)
    PermutationTest(statistic=9.5, p_value=0.005)
    >>> equal = permutation_test(
    ...     lambda X, Y: abs(X.mean() - Y.mean()), X[::2], X[1::2], max_exceedances=10
    ... )
    >>> equal, len(equal.null)
    (PermutationTest(statistic=1, p_value=0.7143), 14)
    """
    first, second = check_pair(X, Y)
    if max_exceedances is not None:
        check_count(max_exceedances, "max_exceedances", least=1)
    pooled = np.concatenate([first.values, second.values])
    found = float(statistic(first.values, second.values))
    null: list[float] = []
    for rows in _permutations(len(pooled), n_permutations, random_state):
        null.append(float(statistic(pooled[rows[: len(first)]], pooled[rows[len(first) :]])))
        progress("permutations", len(null) / n_permutations)
        if max_exceedances is not None and _exceedances(found, null) >= max_exceedances:
            break
    return _test_result(found, null, max_exceedances)


def _permutations(n_rows: int, n_permutations: int, random_state: Any) -> Iterator[np.ndarray]:
    n_permutations = check_count(n_permutations, "n_permutations", least=1)
    rng = random_generator(random_state)
    return (rng.permutation(n_rows) for _ in range(n_permutations))


def _exceedances(statistic: float, null: Any) -> int:
    margin = _TOLERANCE * max(abs(statistic), float(np.abs(null).max()))
    return int(np.sum(np.asarray(null) >= statistic - margin))


def _test_result(
    statistic: float, null: Any, max_exceedances: int | None = None
) -> PermutationTest:
    if np.isnan(statistic) or np.isnan(null).any():
        raise ValueError("the statistic is NaN for the given sets or for a permutation of them")
    exceedances = _exceedances(statistic, null)
    if max_exceedances is not None and exceedances >= max_exceedances:
        p_value = exceedances / len(null)
    else:
        p_value = (1 + exceedances) / (1 + len(null))
    return PermutationTest(statistic, p_value, np.asarray(null))


def energy_distance(X: Any, Y: Any) -> Estimate:
    r"""Return the energy distance of two sets of samples.

    .. math:: E(X, Y) = 2 \, \overline{\lVert x - y \rVert} - \overline{\lVert x - x' \rVert}
              - \overline{\lVert y - y' \rVert}

    with means over all pairs, including pairs of a sample with itself. It is zero if both sets
    hold the same points, positive otherwise, and converges to zero only if the distributions are
    the same [1]_.

    Parameters
    ----------
    X, Y : array-like of shapes (n, n_features) and (m, n_features)

    Returns
    -------
    Estimate
        With the standard error to first order, which vanishes where the distributions are the
        same; :func:`energy_test` tests whether they are.

    Notes
    -----
    In one dimension it is the square of ``scipy.stats.energy_distance``. Time grows with the
    square of the number of samples, memory does not.

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
    first, second = check_pair(X, Y)
    f = _mean_distances(first, second) - _mean_distances(first, first)
    g = _mean_distances(second, first) - _mean_distances(second, second)
    error = sqrt(variance(2 * f) / len(f) + variance(2 * g) / len(g))
    return Estimate(max(0.0, float(f.mean() + g.mean())), error, len(f) + len(g))


def energy_test(
    X: Any, Y: Any, *, n_permutations: int = 199, random_state: Any = 0
) -> PermutationTest:
    r"""Test by the energy distance whether two sets come from the same distribution.

    With :math:`a_i = 1/n` for samples of X, :math:`a_i = -1/m` for samples of Y and the distances
    :math:`D` of all samples, the energy distance is :math:`-a^\top D a`. The distances are
    computed once, and all permutations are columns of one matrix product.

    Parameters
    ----------
    X, Y : array-like of shapes (n, n_features) and (m, n_features)
    n_permutations : int, default=199
        The number of permutations B; the p-value is at least 1 / (B + 1).
    random_state : int, RandomState instance or None, default=0
        Seeds the permutations.

    Returns
    -------
    PermutationTest
        That of :func:`permutation_test` with :func:`energy_distance`.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.metrics import energy_test
    >>> X, Y = np.arange(20.0)[:, None], np.arange(15.0)[:, None] + 12.0
    >>> energy_test(X, Y)
    PermutationTest(statistic=8.49222, p_value=0.005)
    """
    first, second = check_pair(X, Y)
    n, m = len(first), len(second)
    signs = np.repeat([1 / n, -1 / m], [n, m])
    orders = _permutations(n + m, n_permutations, random_state)
    # argsort inverts a permutation: row order[k] gets the sign of row k.
    sides = np.stack([signs, *(signs[np.argsort(order)] for order in orders)], axis=1)
    pooled = Points("X and Y", np.concatenate([first.values, second.values]), None)
    energies = np.zeros(sides.shape[1])
    for rows, block in _distance_blocks(pooled, pooled):
        energies -= np.sum(sides[rows] * (block @ sides), axis=0)
    energies = np.maximum(energies, 0.0)
    return _test_result(float(energies[0]), energies[1:])


def _mean_distances(X: Points, Y: Points) -> np.ndarray:
    """Return the mean distance of every sample of X to the samples of Y."""
    return np.concatenate([block.mean(axis=1) for _, block in _distance_blocks(X, Y)])


def _distance_blocks(X: Points, Y: Points) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the distances of all pairs by blocks of rows, each with its rows."""
    step = max(1, _BLOCK_SIZE // len(Y))
    for start in range(0, len(X), step):
        yield slice(start, start + step), distances(X, Y, slice(start, start + step))
