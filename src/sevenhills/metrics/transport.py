"""Optimal transport between sets of samples."""

import warnings
from math import nan, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..estimate import Estimate, variance
from ..extras import import_extra
from ..validation import check_positive, random_generator
from .arguments import check_pair, check_points, distances, draw, is_array

#: Limit on the solver's iterations; sets of 3000 samples needed fewer than 300 000.
_MAX_ITERATIONS = 10_000_000
#: The standard error of an indicator is estimated from this many random partitions of the samples,
#: each into this many blocks.
_N_PARTITIONS = 8
_N_BLOCKS = 4


class _Transport(NamedTuple):
    """The cost of an optimal plan and the dual potentials of both sets."""

    cost: float
    f: np.ndarray
    g: np.ndarray


def wasserstein(X: Any, Y: Any) -> Estimate:
    r"""Return the Wasserstein distance of two sets of samples.

    .. math:: W(X, Y) = \min_{\gamma} \sum_{ij} \gamma_{ij} \lVert x_i - y_j \rVert, \qquad
              \sum_j \gamma_{ij} = \tfrac{1}{n}, \quad \sum_i \gamma_{ij} = \tfrac{1}{m}

    computed exactly by the network simplex of POT. The standard error is that of the central
    limit theorem for optimal transport [1]_: with the dual potentials f and g of the two sets,
    :math:`\sqrt{\text{var}(f) / n + \text{var}(g) / m}`.

    Parameters
    ----------
    X, Y : array-like of shapes (n, n_features) and (m, n_features)

    Returns
    -------
    Estimate
        The distance of two finite sets is on average larger than that of their distributions;
        the standard error does not contain this bias.

    Notes
    -----
    In simulations with 2-D Gaussians, the standard error was .97 to 1.10 of the standard deviation
    over repetitions for sets of different distributions, and 1.36 to 1.48 for sets of the same.

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
    plan = _transport(distances(first, second))
    error = sqrt(variance(plan.f) / len(first) + variance(plan.g) / len(second))
    return Estimate(plan.cost, error, len(first) + len(second))


def wasserstein_indicator(
    p: Any, X: Any, Y: Any, *, n_samples: int | None = None, random_state: Any = 0
) -> Estimate:
    r"""Return the excess distance of a density's samples from those it was fitted to.

    .. math:: \hat W = \frac{W(X, \hat X) - W(X, Y)}{W(X, Y)}

    It is negative if the samples of the density repeat those it was fitted to, and large if the
    density misses them.

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
        The standard error is NaN if a set has fewer than eight samples or Y is a distance.

    Notes
    -----
    The standard error follows to first order from the covariance of both distances, which is
    estimated between the blocks of random partitions of the three sets; the potentials of
    :func:`wasserstein` overestimate the error of W(X, Y). In simulations with 2-D Gaussians it was
    .94 to 1.20 of the standard deviation over repetitions.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import wasserstein_indicator
    >>> truth = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
    >>> wide = KernelMixture.from_covariances([1.0], [[0.0]], [[4.0]])
    >>> X, Y = truth.sample(200, random_state=1), truth.sample(200, random_state=2)
    >>> bool(abs(wasserstein_indicator(truth, X, Y)) < 1)
    True
    >>> bool(wasserstein_indicator(wide, X, Y) > 2)
    True
    """
    fitted = check_points(X, "X")
    rng = random_generator(random_state)
    n_samples = len(fitted) if n_samples is None else n_samples
    drawn = check_points(p, "p") if is_array(p) else draw(p, "p", n_samples, rng)
    to_drawn = distances(fitted, drawn)
    if isinstance(Y, float):
        ratio = _transport(to_drawn).cost / check_positive(Y, "Y")
        return Estimate(ratio - 1, nan, len(fitted) + len(drawn))
    fresh = check_points(Y, "Y")
    to_fresh = distances(fitted, fresh)
    usual = _transport(to_fresh).cost
    if usual == 0:
        raise ValueError("X and Y hold the same points: W(X, Y), the unit of the indicator, is 0")
    ratio = _transport(to_drawn).cost / usual
    error = _ratio_error(ratio, usual, _covariance(to_drawn, to_fresh, rng))
    return Estimate(ratio - 1, error, len(fitted) + len(fresh) + len(drawn))


def _transport(costs: np.ndarray) -> _Transport:
    """Return the optimal transport of rows to columns, all of equal weight."""
    pot = import_extra("ot", "ot", "wasserstein needs POT")
    unit = costs.max()
    if unit == 0:
        return _Transport(0.0, np.zeros(costs.shape[0]), np.zeros(costs.shape[1]))
    weights = [np.full(n, 1 / n) for n in costs.shape]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the log holds the same message
        # In units of the largest cost, because the solver's tolerances are absolute.
        cost, log = pot.emd2(*weights, costs / unit, numItermax=_MAX_ITERATIONS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"the optimal transport was not found: {log['warning']}")
    return _Transport(float(cost) * unit, log["u"] * unit, log["v"] * unit)


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
            (_transport(first[np.ix_(r, c)]).cost, _transport(second[np.ix_(r, o)]).cost)
            for r, c, o in zip(rows, columns, others, strict=True)
        ]
        found += np.cov(costs, rowvar=False)
    return found / (_N_PARTITIONS * _N_BLOCKS)


def _ratio_error(ratio: float, denominator: float, covariance: np.ndarray) -> float:
    """Return the standard error of a ratio, to first order."""
    slope = np.array([1.0, -ratio]) / denominator
    return float(np.sqrt(np.maximum(slope @ covariance @ slope, 0.0)))
