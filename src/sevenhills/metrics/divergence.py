"""The Jensen-Shannon divergence of two densities."""

from math import log, sqrt
from typing import Any

import numpy as np
from scipy.special import expit, xlogy

from ..estimate import Estimate, mean_with_error
from ..validation import random_generator
from .densities import (
    Density,
    Points,
    check_log_densities,
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
    random_state: Any = None,
) -> Estimate:
    r"""Return the Jensen-Shannon divergence of two densities.

    .. math:: D_{JS}(p, q) = \frac{1}{\ln 2} \, E \left[
              \frac{p}{p + q} \ln \frac{2 p}{p + q} + \frac{q}{p + q} \ln \frac{2 q}{p + q}
              \right]

    over points that follow p and q half by half. It is 0 for equal densities and 1 for those
    that have nothing in common. A point where only one density vanishes counts fully, one where
    both do not at all.

    Parameters
    ----------
    p, q : objects with ``score_samples`` or ``logpdf``, or arrays of shape (n_points,)
        The densities, or their logarithms at points of which half follow either.
    X, Y : array-like of shape (n_samples, n_features), optional
        Samples that follow p and samples that follow q, of which each set counts one half. X
        alone holds samples of both. With neither, samples are drawn from p and from q. None if p
        and q are arrays.
    n_samples : int, default=10_000
        How many samples are drawn from each density.
    random_state : int, RandomState instance or None, default=None
        Makes the draws repeatable.

    Returns
    -------
    Estimate
        Between 0 and 1. Its error is that of the mean over points; it knows nothing of the error
        of fits.

    Warns
    -----
    UnnormalizedWarning
        If a density says by ``is_normalized`` that it does not integrate to one.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import jensen_shannon
    >>> left = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
    >>> right = KernelMixture([1.0], [[2.0]], [0, 1], [[[1.0]]])
    >>> round(jensen_shannon(left, right, random_state=0), 2)
    0.49
    >>> jensen_shannon(left, left, random_state=0)
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
    random_state: Any = None,
) -> Estimate:
    r"""Return the Jensen-Shannon divergence of an estimated density from the true one.

    .. math:: D_{JS}(p, p_{\text{true}})

    Parameters
    ----------
    p : object with ``score_samples`` or ``logpdf``, or array of shape (n_points,)
        The estimated density.
    truth : object with ``score_samples`` or ``logpdf``, or array of shape (n_points,)
        The true one.
    X, Y : array-like of shape (n_samples, n_features), optional
        Samples that follow p and samples that follow the truth; see :func:`jensen_shannon`.
    n_samples : int, default=10_000
        How many samples are drawn from each density if X and Y are not given.
    random_state : int, RandomState instance or None, default=None
        Makes the draws repeatable.

    Returns
    -------
    Estimate
        Between 0 and 1.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import divergence_from_truth
    >>> truth = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
    >>> wide = KernelMixture([1.0], [[0.0]], [0, 1], [[[0.8]]])
    >>> round(divergence_from_truth(wide, truth, random_state=0), 3)
    0.017
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
    """Return the divergence of two densities, or arrays, given with their names."""
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
    """Return the sets of points over which to average, each counting the same."""
    if X is None and Y is not None:
        raise ValueError("X is missing: Y alone does not say what follows which density")
    if X is None:
        rng = random_generator(random_state)
        sets = [draw(density.value, density.name, n_samples, rng) for density in (p, q)]
    elif Y is None:
        sets = [check_points(X, "X")]
    else:
        sets = [check_points(X, "X"), check_points(Y, "Y")]
    check_same_width(sets[0], sets[-1])
    return sets


def divergence_terms(log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """Return what every point adds to the divergence, between 0 and 1."""
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
