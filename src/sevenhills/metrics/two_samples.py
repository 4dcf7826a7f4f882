"""Distances between two sets of samples, and tests of whether their distributions differ."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import numpy as np

from ..estimate import Estimate, variance
from ..extras import import_extra
from ..progress import muted, part, report
from ..validation import check_count, check_positive, check_weights, freeze, random_generator
from .arguments import Points, check_pair, check_points, distances, draw, is_array

#: Statistics whose relative difference is at most this count as equal: rounding errors are smaller.
_TOLERANCE = 1e-9
#: Upper limit on the distances in memory (32 MB).
_BLOCK_SIZE = 2**22
#: Limit on the solver's iterations; sets of 3000 samples needed fewer than 300 000.
_MAX_ITERATIONS = 10_000_000
#: The standard error of a Wasserstein indicator is estimated from this number of random partitions
#: of the samples, ...
_N_PARTITIONS = 8
#: ... each into this number of blocks.
_N_BLOCKS = 4


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """The result of a permutation test.

    Attributes
    ----------
    statistic : float
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
) -> PermutationTest:
    r"""Test whether two sets of samples come from the same distribution.

    .. math:: p = \frac{1 + \#\{b : t_b \ge t\}}{1 + B}

    with the statistic :math:`t` of the two sets and :math:`t_b` after the :math:`b`-th of
    :math:`B` random permutations of the rows of both sets together. The test keeps its level for
    any statistic and any number of samples. With ``max_exceedances`` it stops at the first
    permutation :math:`b` after which :math:`h` statistics were at least :math:`t`; then
    :math:`p = h / b`, and the level is still kept [1]_.

    Parameters
    ----------
    statistic : callable
        ``statistic(X, Y)`` returns a number that grows with the difference of two arrays.
    X, Y : array-like of shapes (n, n_features) and (m, n_features)
    n_permutations : int, default=199
        The number of permutations B; p is at least 1 / (B + 1).
    max_exceedances : int, optional
        The number h of exceedances after which to stop; by default all permutations are made.
    random_state : int, RandomState instance or None, default=0
        Seeds the permutations.

    Returns
    -------
    PermutationTest

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
    """
    first, second = check_pair(X, Y)
    if max_exceedances is not None:
        check_count(max_exceedances, "max_exceedances", least=1)
    pooled = np.concatenate([first.values, second.values])
    null: list[float] = []
    with part("permutations"):
        found = _quiet(statistic, first.values, second.values)
        for rows in _permutations(len(pooled), n_permutations, random_state):
            null.append(_quiet(statistic, pooled[rows[: len(first)]], pooled[rows[len(first) :]]))
            report(len(null) / n_permutations)
            if max_exceedances is not None and _exceedances(found, null) >= max_exceedances:
                break
    return _test_result(found, null, max_exceedances)


def _quiet(
    statistic: Callable[[np.ndarray, np.ndarray], float], X: np.ndarray, Y: np.ndarray
) -> float:
    """Return a statistic, without the progress of fits that it makes."""
    with muted():
        return float(statistic(X, Y))


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
    hold the same points, and converges to zero only if the distributions are the same [1]_. In one
    dimension it is the square of ``scipy.stats.energy_distance``.

    Parameters
    ----------
    X, Y : array-like of shapes (n, n_features) and (m, n_features)

    Returns
    -------
    Estimate
        The standard error, of first order, vanishes if the distributions are the same;
        :func:`energy_test` tests whether they are.

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
    computed once for all permutations.

    Parameters
    ----------
    X, Y : array-like of shapes (n, n_features) and (m, n_features)
    n_permutations, random_state
        See :func:`permutation_test`.

    Returns
    -------
    PermutationTest
        That of :func:`permutation_test` with :func:`energy_distance`, many times faster.

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
    pooled = Points("X and Y", np.concatenate([first.values, second.values]))
    energies = np.zeros(sides.shape[1])
    with part("permutations"):
        for rows, block in _distance_blocks(pooled, pooled):
            energies -= np.sum(sides[rows] * (block @ sides), axis=0)
            report(rows.stop / len(pooled))
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


def wasserstein(X: Any, Y: Any, *, sample_weight: Any = None) -> Estimate:
    r"""Return the Wasserstein distance of two sets of samples.

    .. math:: W(X, Y) = \min_{\gamma} \sum_{ij} \gamma_{ij} \lVert x_i - y_j \rVert, \qquad
              \sum_j \gamma_{ij} = \tfrac{1}{n}, \quad \sum_i \gamma_{ij} = \tfrac{1}{m}

    computed exactly by the network simplex of POT. The standard error is
    :math:`\sqrt{\text{var}(f) / n + \text{var}(g) / m}` with the dual potentials f and g of the two
    sets, by the central limit theorem for optimal transport [1]_.

    Parameters
    ----------
    X, Y : array-like of shapes (n, n_features) and (m, n_features)
    sample_weight : array-like of shape (n,), optional
        Weights of the rows of X, equal by default; they take the place of 1 / n.

    Returns
    -------
    Estimate
        The distance of two finite sets is on average larger than that of their distributions;
        the standard error does not contain this bias. If the distributions are the same, it is too
        large by about a half.

    Notes
    -----
    POT imports every array library that it finds; the environment variables
    ``POT_BACKEND_DISABLE_PYTORCH``, ``_JAX``, ``_CUPY`` and ``_TENSORFLOW`` keep it from doing so.

    References
    ----------
    .. [1] E. del Barrio, J.-M. Loubes, "Central limit theorems for empirical transportation cost
       in general dimension", Annals of Probability 47 (2019).

    Examples
    --------
    >>> from sevenhills.metrics import wasserstein
    >>> wasserstein([[0.0], [1.0]], [[3.0], [1.0]])
    1.5 ± 1.1
    """
    first, second = check_pair(X, Y)
    given = check_weights(sample_weight, len(first))
    shares = np.full(len(first), 1 / len(first)) if given is None else given / given.sum()
    cost, f, g = _transport(distances(first, second), shares)
    one = variance(f) / len(f) if given is None else _weighted_variance(f, shares)
    return Estimate(cost, sqrt(one + variance(g) / len(g)), len(f) + len(g))


def _weighted_variance(values: np.ndarray, shares: np.ndarray) -> float:
    """Return the variance of a mean with weights that add up to one."""
    apart, squares = values - shares @ values, float((shares**2).sum())
    return float(shares @ apart**2) * squares / max(1 - squares, np.finfo(float).eps)


def wasserstein_indicator(
    p: Any, X: Any, Y: Any, *, n_samples: int | None = None, random_state: Any = 0
) -> Estimate:
    r"""Return the excess distance of a density's samples from those it was fitted to.

    .. math:: \hat W = \frac{W(X, \hat X) - W(X, Y)}{W(X, Y)}

    It is negative if the density repeats the samples it was fitted to, and large if it misses them.

    Parameters
    ----------
    p : object with ``sample``, or array-like of shape (n_drawn, n_features)
        The density, or samples that were drawn from it.
    X : array-like of shape (n, n_features)
        The samples that the density was fitted to.
    Y : array-like of shape (m, n_features), or float
        Other samples of the same distribution as X; or their distance W(X, Y), if it is known,
        which saves half of the time.
    n_samples : int, optional
        The number of samples drawn from p; by default that of X.
    random_state : int, RandomState instance or None, default=0
        Seeds the draws.

    Returns
    -------
    Estimate
        The standard error follows to first order from the covariance of both distances, which is
        estimated between the blocks of random partitions of the three sets. It is NaN if a set has
        fewer than eight samples or Y is a distance.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import wasserstein_indicator
    >>> truth = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
    >>> wide = KernelMixture.from_covariances([1.0], [[0.0]], [[4.0]])
    >>> X, Y = truth.sample(200, random_state=1), truth.sample(200, random_state=2)
    >>> bool(wasserstein_indicator(truth, X, Y) < 1 < 2 < wasserstein_indicator(wide, X, Y))
    True
    """
    fitted = check_points(X, "X")
    rng = random_generator(random_state)
    n_samples = len(fitted) if n_samples is None else n_samples
    drawn = check_points(p, "p") if is_array(p) else draw(p, "p", n_samples, rng)
    to_drawn = distances(fitted, drawn)
    if isinstance(Y, float):
        ratio = _cost(to_drawn) / check_positive(Y, "Y")
        return Estimate(ratio - 1, nan, len(fitted) + len(drawn))
    fresh = check_points(Y, "Y")
    to_fresh = distances(fitted, fresh)
    usual = _cost(to_fresh)
    if usual == 0:
        raise ValueError("X and Y hold the same points: W(X, Y), the unit of the indicator, is 0")
    ratio = _cost(to_drawn) / usual
    error = _ratio_error(ratio, usual, _covariance(to_drawn, to_fresh, rng))
    return Estimate(ratio - 1, error, len(fitted) + len(fresh) + len(drawn))


def _cost(costs: np.ndarray) -> float:
    return _transport(costs)[0]


def _transport(
    costs: np.ndarray, shares: np.ndarray | None = None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the cost and both dual potentials of the transport of rows to columns.

    Rows may have shares (n,), which add up to one.
    """
    pot = import_extra("ot", "ot", "wasserstein needs POT")
    unit = costs.max()
    if unit == 0:
        return 0.0, np.zeros(costs.shape[0]), np.zeros(costs.shape[1])
    weights = [np.full(n, 1 / n) for n in costs.shape]
    weights[0] = weights[0] if shares is None else shares
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the log holds the same message
        # In units of the largest cost, because the solver's tolerances are absolute.
        cost, log = pot.emd2(*weights, costs / unit, numItermax=_MAX_ITERATIONS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"the optimal transport was not found: {log['warning']}")
    return float(cost) * unit, log["u"] * unit, log["v"] * unit


def _covariance(first: np.ndarray, second: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Return the covariance of two distances from the same samples (the rows).

    The variance of a distance is inversely proportional to the number of samples. So it is the
    covariance of the distances between blocks of a random partition, divided by their number.
    """
    if min(*first.shape, *second.shape) < 2 * _N_BLOCKS:
        return np.full((2, 2), nan)
    found = np.zeros((2, 2))
    for _ in range(_N_PARTITIONS):
        rows, columns, others = (
            np.array_split(rng.permutation(n), _N_BLOCKS) for n in (*first.shape, second.shape[1])
        )
        costs = [
            (_cost(first[np.ix_(r, c)]), _cost(second[np.ix_(r, o)]))
            for r, c, o in zip(rows, columns, others, strict=True)
        ]
        found += np.cov(costs, rowvar=False)
    return found / (_N_PARTITIONS * _N_BLOCKS)


def _ratio_error(ratio: float, denominator: float, covariance: np.ndarray) -> float:
    """Return the standard error of a ratio, to first order."""
    slope = np.array([1.0, -ratio]) / denominator
    return float(np.sqrt(np.maximum(slope @ covariance @ slope, 0.0)))
