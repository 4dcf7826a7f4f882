"""Whether two sets of samples have one origin: what is seen after shuffling tells."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..progress import Progress, no_progress
from ..validation import check_count, freeze, random_generator
from .densities import Points, check_points, check_same_width

#: Statistics that differ by no more than this, relatively, differ by rounding alone.
_EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """How a statistic of two sets compares with that of sets in which their rows are mixed.

    Attributes
    ----------
    statistic : float
        Of the sets as they were given.
    p_value : float
        The share of all shuffles, the given sets among them, whose statistic is as large: small
        if the sets have different origins.
    null : ndarray of shape (n_shuffles,)
        The statistics after shuffling, as far as it went.
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
    enough: int | None = None,
    random_state: Any = None,
    progress: Progress = no_progress,
) -> PermutationTest:
    r"""Test by shuffling whether two sets of samples have one origin.

    .. math:: p = \frac{1 + \#\{b : t_b \ge t\}}{1 + B}

    with the statistic :math:`t` of the two sets and :math:`t_b` after the :math:`b`-th of
    :math:`B` random shuffles of all rows over both. If the origin is one, :math:`p` is below any
    level with at most that probability, whatever the statistic and the number of samples.

    With ``enough``, shuffling ends when so many statistics, :math:`h`, have been as large, because
    the difference is none. After :math:`b` shuffles :math:`p = h / b`, which keeps the promise
    above [1]_; where they are never reached, nothing changes.

    Parameters
    ----------
    statistic : callable
        ``statistic(X, Y)`` returns a number that grows with the difference of two arrays.
    X : array-like of shape (n, n_features)
    Y : array-like of shape (m, n_features)
    n_permutations : int, default=199
        The number of shuffles; p is at least one over this number plus one.
    enough : int, optional
        The number of statistics as large after which to stop; never by default.
    random_state : int, RandomState instance or None, default=None
        Makes the shuffles repeatable.
    progress : callable, optional
        Progress callback, called with (stage, fraction done) after every shuffle.

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
    >>> permutation_test(lambda X, Y: abs(X.mean() - Y.mean()), X, Y, random_state=0)
    PermutationTest(statistic=9.5, p_value=0.005)
    >>> equal = permutation_test(
    ...     lambda X, Y: abs(X.mean() - Y.mean()), X[::2], X[1::2], enough=10, random_state=0
    ... )
    >>> equal, len(equal.null)
    (PermutationTest(statistic=1, p_value=0.7143), 14)
    """
    first, second = check_points(X, "X"), check_points(Y, "Y")
    check_same_width(first, second)
    enough = None if enough is None else check_count(enough, "enough", least=1)
    pooled = np.concatenate([first.values, second.values])
    found = float(statistic(first.values, second.values))
    null = []
    for rows in shuffles(first, second, n_permutations, random_state):
        null.append(float(statistic(pooled[rows[: len(first)]], pooled[rows[len(first) :]])))
        progress("shuffles", len(null) / n_permutations)
        if enough is not None and _count_as_large(found, np.array(null)) >= enough:
            break
    return compared(found, np.array(null), enough)


def shuffles(X: Points, Y: Points, n_permutations: int, random_state: Any) -> Iterator[np.ndarray]:
    """Return random orders of the rows of both sets."""
    n_permutations = check_count(n_permutations, "n_permutations", least=1)
    rng = random_generator(random_state)
    return (rng.permutation(len(X) + len(Y)) for _ in range(n_permutations))


def compared(statistic: float, null: np.ndarray, enough: int | None = None) -> PermutationTest:
    """Return how a statistic compares with those after shuffling, which end with enough of them."""
    if np.isnan(statistic) or np.isnan(null).any():
        raise ValueError("the statistic is NaN for some of the sets, so that it tells nothing")
    n_as_large = _count_as_large(statistic, null)
    if enough is not None and n_as_large >= enough:
        return PermutationTest(statistic, n_as_large / len(null), null)
    return PermutationTest(statistic, (1 + n_as_large) / (1 + len(null)), null)


def _count_as_large(statistic: float, null: np.ndarray) -> int:
    margin = _EQUAL * max(abs(statistic), float(np.abs(null).max()))
    return int(np.sum(null >= statistic - margin))
