"""The Jensen-Shannon divergence of two densities."""

from math import log, sqrt
from typing import Any

import numpy as np
from scipy.special import expit, xlogy

from ..estimate import Estimate, mean_with_error
from ..validation import random_generator
from .arguments import (
    Density,
    Points,
    check_log_densities,
    check_pair,
    check_points,
    check_same_width,
    draw,
    is_array,
)


def jensen_shannon(
    p: Any,
    q: Any,
    X: Any = None,
    Y: Any = None,
    *,
    n_samples: int = 10_000,
    random_state: Any = 0,
) -> Estimate:
    r"""Return the Jensen-Shannon divergence of two densities.

    .. math:: D_{JS}(p, q) = \frac{1}{\ln 2} \, E \left[
              \frac{p}{p + q} \ln \frac{2 p}{p + q} + \frac{q}{p + q} \ln \frac{2 q}{p + q}
              \right]

    over points of which one half follow p and one half follow q. It is 0 for equal densities and
    1 for densities with disjoint supports. A point where only one density vanishes contributes 1,
    a point where both vanish contributes 0.

    Parameters
    ----------
    p, q : objects with ``score_samples`` or ``logpdf``, or arrays of shape (n_points,)
        The densities, or their logarithms at points of which one half follow either density.
    X, Y : array-like of shape (n_samples, n_features), optional
        Samples that follow p and samples that follow q; both sets have the same weight. X alone
        holds samples of both. Without X and Y, samples are drawn from p and q. None if p and q
        are arrays.
    n_samples : int, default=10_000
        The number of samples drawn from each density.
    random_state : int, RandomState instance or None, default=0
        Seeds the draws.

    Returns
    -------
    Estimate
        Between 0 and 1. Its standard error is that of the mean over points; it does not contain
        the error of fitted densities.

    Warns
    -----
    UnnormalizedWarning
        If the attribute ``is_normalized`` of a density is False.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import jensen_shannon
    >>> left = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
    >>> right = KernelMixture.from_covariances([1.0], [[2.0]], [[1.0]])
    >>> round(jensen_shannon(left, right), 2)
    0.49
    >>> jensen_shannon(left, left)
    0 ± 0
    """
    return _divergence((p, "p"), (q, "q"), X, Y, n_samples, random_state)


def divergence_from_truth(
    p: Any,
    truth: Any,
    X: Any = None,
    Y: Any = None,
    *,
    n_samples: int = 10_000,
    random_state: Any = 0,
) -> Estimate:
    r"""Return the Jensen-Shannon divergence of an estimated density from the true one.

    .. math:: D_{JS}(p, p_{\text{true}})

    Parameters
    ----------
    p, truth : objects with ``score_samples`` or ``logpdf``, or arrays of shape (n_points,)
        The estimated and the true density.
    X, Y, n_samples, random_state
        As in :func:`jensen_shannon`, with the truth in place of q.

    Returns
    -------
    Estimate
        Between 0 and 1.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import divergence_from_truth
    >>> truth = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
    >>> wide = KernelMixture.from_covariances([1.0], [[0.0]], [[1.5]])
    >>> round(divergence_from_truth(wide, truth), 3)
    0.014
    """
    return _divergence((p, "p"), (truth, "truth"), X, Y, n_samples, random_state)


def _divergence(
    first: tuple[Any, str],
    second: tuple[Any, str],
    X: Any,
    Y: Any,
    n_samples: int,
    random_state: Any,
) -> Estimate:
    """Return the divergence of two densities or arrays, given with their names."""
    if is_array(first[0]) != is_array(second[0]):
        raise TypeError(f"{first[1]} and {second[1]} must both be densities or both be arrays")
    if is_array(first[0]):
        return _mean_over([_terms_of_arrays(first, second, X, Y)])
    p, q = Density(*first), Density(*second)
    for density in (p, q):
        density.warn_if_unnormalized("divergence", stacklevel=3)
    sets = _point_sets(p, q, X, Y, n_samples, random_state)
    return _mean_over([divergence_terms(p.logpdf(points), q.logpdf(points)) for points in sets])


def _terms_of_arrays(first: tuple[Any, str], second: tuple[Any, str], X: Any, Y: Any) -> np.ndarray:
    log_p, log_q = check_log_densities(*first), check_log_densities(*second)
    if X is not None or Y is not None:
        raise ValueError("X and Y must be None where log densities are given as arrays")
    if len(log_p) != len(log_q):
        raise ValueError(
            f"{first[1]} and {second[1]} must have the same length, "
            f"got {len(log_p)} and {len(log_q)}"
        )
    return divergence_terms(log_p, log_q)


def _point_sets(
    p: Density, q: Density, X: Any, Y: Any, n_samples: int, random_state: Any
) -> list[Points]:
    """Return the sets of points over which to average, all of the same weight."""
    if X is None and Y is not None:
        raise ValueError("X is missing: with Y alone, no samples of p are known")
    if Y is not None:
        return list(check_pair(X, Y))
    if X is not None:
        return [check_points(X, "X")]
    rng = random_generator(random_state)
    sets = [draw(density.value, density.name, n_samples, rng) for density in (p, q)]
    check_same_width(*sets)
    return sets


def divergence_terms(log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """Return the contribution of every point to the divergence, between 0 and 1."""
    both_vanish = (log_p == -np.inf) & (log_q == -np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.where(both_vanish, 0.0, log_p - log_q)
    share_p, share_q = expit(ratio), expit(-ratio)
    terms = (xlogy(share_p, 2 * share_p) + xlogy(share_q, 2 * share_q)) / log(2)
    return np.clip(terms, 0.0, 1.0)


def _mean_over(strata: list[np.ndarray]) -> Estimate:
    """Return the mean of the means of the strata."""
    means, errors = zip(*map(mean_with_error, strata), strict=True)
    error = sqrt(sum(error**2 for error in errors)) / len(strata)
    return Estimate(sum(means) / len(strata), error, sum(map(len, strata)))
