"""Metrics of densities: likelihood, Jensen-Shannon divergence and calibration."""

from math import isfinite, log, nan, sqrt
from typing import Any

import numpy as np
from scipy.special import expit, stdtr, xlogy

from ..estimate import Estimate, mean_with_error
from ..validation import random_generator
from .arguments import (
    Density,
    Points,
    check_log_densities,
    check_log_density_pair,
    check_pair,
    check_points,
    check_same_width,
    draw,
    is_array,
)

#: Levels at which the shares of a calibration error are compared, as in the study.
LEVELS = np.arange(201) / 200
#: Bootstrap replicates for the standard error of a calibration error, then known to about 5 %.
_N_REPLICATES = 200


def mean_log_likelihood(p: Any, X: Any = None) -> Estimate:
    r"""Return the mean log density of samples.

    .. math:: \hat L = \frac{1}{n} \sum_i \ln p(x_i)

    Parameters
    ----------
    p : object with ``score_samples`` or ``logpdf``, or array of shape (n_samples,)
        The density, or its logarithms at the samples.
    X : array-like of shape (n_samples, n_features), optional
        Held-out samples. None if p is an array.

    Returns
    -------
    Estimate
        Minus infinity, with an unknown error, if the density vanishes at a sample. An
        UnnormalizedWarning is issued if the attribute ``is_normalized`` of p is False.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import mean_log_likelihood
    >>> density = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
    >>> round(mean_log_likelihood(density, density.sample(1000, random_state=0)), 1)
    -1.4
    """
    values = _log_densities(p, X)
    return Estimate(*mean_with_error(values), len(values))


def _log_densities(p: Any, X: Any) -> np.ndarray:
    """Return the log densities of samples, or the array that is given in place of a density."""
    if is_array(p) and X is not None:
        raise ValueError("X must be None where p is an array of log densities")
    if is_array(p):
        return check_log_densities(p, "p")
    density = Density(p, "p")
    if X is None:
        raise TypeError(f"X is missing: give the samples at which to evaluate {density}")
    density.warn_if_unnormalized("likelihood", stacklevel=3)
    return density.logpdf(check_points(X, "X"))


class LikelihoodFactor(Estimate):
    """A likelihood factor F."""

    __slots__ = ()

    @property
    def p_value(self) -> float:
        """The p-value of a one-sided t-test of F > 1, NaN if F is infinite."""
        if not isfinite(self.std_error):
            return nan
        if self.std_error == 0:
            return 0.5 if float(self) == 1 else float(self < 1)
        return float(stdtr(self.n - 1, (1 - self) / self.std_error))


def likelihood_factor(a: Any, b: Any) -> LikelihoodFactor:
    r"""Return the mean ratio of the likelihoods of held-out samples under two estimators.

    .. math:: F = \frac{1}{n} \sum_i \exp(a_i - b_i)

    Parameters
    ----------
    a, b : array-like of shape (n_runs,)
        The mean log-likelihoods of the two estimators in the same runs, at least two. They must
        not both be minus infinity in a run.

    Returns
    -------
    Estimate
        With the attribute ``p_value`` of a one-sided t-test of F > 1, NaN if F is infinite.

    Examples
    --------
    >>> from sevenhills.metrics import likelihood_factor
    >>> factor = likelihood_factor([-2.50, -2.48, -2.51, -2.47], [-2.60, -2.61, -2.57, -2.59])
    >>> factor
    1.108 ± 0.017
    >>> round(factor.p_value, 4)
    0.0039
    """
    a, b = check_log_density_pair(a, b, ("a", "b"))
    if len(a) < 2:
        raise ValueError("a and b must hold at least 2 runs, got 1")
    unlikely = (a == -np.inf) & (b == -np.inf)
    if unlikely.any():
        raise ValueError(f"a and b are both minus infinity in run {unlikely.argmax()}")
    with np.errstate(over="ignore"):
        factors = np.exp(a - b)
    return LikelihoodFactor(*mean_with_error(factors), len(factors))


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
    1 for densities with disjoint supports. A point where both vanish contributes 0.

    Parameters
    ----------
    p, q : objects with ``score_samples`` or ``logpdf``, or arrays of shape (n_points,)
        The densities, or their logarithms at points of which one half follow either density.
    X, Y : array-like of shape (n_samples, n_features), optional
        Samples of p and samples of q; both sets have the same weight. X alone holds samples of
        both. Without X and Y, samples are drawn. None if p and q are arrays.
    n_samples : int, default=10_000
        The number of samples drawn from each density.
    random_state : int, RandomState instance or None, default=0
        Seeds the draws.

    Returns
    -------
    Estimate
        Between 0 and 1. Its standard error is that of the mean over points, without the error of
        fitted densities. An UnnormalizedWarning is issued if ``is_normalized`` of a density is
        False.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import jensen_shannon
    >>> left = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
    >>> right = KernelMixture.from_covariances([1.0], [[2.0]], [[1.0]])
    >>> round(jensen_shannon(left, right), 2)
    0.49
    """
    if is_array(p) != is_array(q):
        raise TypeError("p and q must both be densities or both be arrays")
    if is_array(p):
        if X is not None or Y is not None:
            raise ValueError("X and Y must be None where log densities are given as arrays")
        return _mean_over([divergence_terms(*check_log_density_pair(p, q, ("p", "q")))])
    first, second = Density(p, "p"), Density(q, "q")
    for density in (first, second):
        density.warn_if_unnormalized("divergence", stacklevel=2)
    sets = _point_sets(first, second, X, Y, n_samples, random_state)
    return _mean_over(
        [divergence_terms(first.logpdf(points), second.logpdf(points)) for points in sets]
    )


def _point_sets(
    p: Density, q: Density, X: Any, Y: Any, n_samples: int, random_state: Any
) -> list[Points]:
    """Return the sets of points over which to average, each with the same weight."""
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


def calibration_error(p: Any, X: Any, *, n_samples: int = 2000, random_state: Any = 0) -> Estimate:
    r"""Return the expected calibration error of a density.

    .. math:: \frac{1}{201} \sum_{k=0}^{200} \left|
              \frac{1}{n} \sum_i [m_i > \tfrac{k}{200}] + \tfrac{k}{200} - 1 \right|

    where :math:`m_i` is the share of the density's own samples at which the density is higher
    than at the true point :math:`x_i`. The error is near 0 if the points follow the density, .495
    if all points lie outside of the support, and .5, the maximum, if all points lie at the mode.

    Parameters
    ----------
    p : object with ``score_samples`` or ``logpdf`` and ``sample``, or array
        The density; or the log densities of its own samples, of shape (n_own,), or
        (n_samples, n_own) if every true point has its own density.
    X : array-like of shape (n_samples, n_features) or (n_samples,)
        The true points; if p is an array, their log densities.
    n_samples : int, default=2000
        The number of own samples that are drawn.
    random_state : int, RandomState instance or None, default=0
        Seeds the draws.

    Returns
    -------
    Estimate
        Between 0 and .5, with a small positive bias near 0. Its standard error is that of a
        bootstrap of the true points and, if all points share one density, of the own samples.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import calibration_error
    >>> truth = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
    >>> wide = KernelMixture.from_covariances([1.0], [[0.0]], [[4.0]])
    >>> X = truth.sample(1000, random_state=0)
    >>> bool(calibration_error(truth, X) < 0.02 < 0.15 < calibration_error(wide, X))
    True
    """
    rng = random_generator(random_state)
    own, true = _own_and_true(p, X, n_samples, rng)
    n_own = own.shape[-1]
    ranks = np.bincount(_count_denser(own, true), minlength=n_own + 1)
    value = _calibration(ranks, np.arange(n_own + 1))
    return Estimate(value, _bootstrap_error(ranks, own.ndim == 1, rng), len(true))


def _own_and_true(
    p: Any, X: Any, n_samples: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log densities of own samples and of true points."""
    if not is_array(p):
        density, points = Density(p, "p"), check_points(X, "X")
        return density.logpdf(draw(p, "p", n_samples, rng)), density.logpdf(points)
    own, true = check_log_densities(p, "p", (1, 2)), check_log_densities(X, "X")
    if own.ndim == 2 and len(own) != len(true):
        raise ValueError(
            f"p must have one row for each of the {len(true)} log densities of X, "
            f"got shape {own.shape}"
        )
    return own, true


def _count_denser(own: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return the number of own samples of higher density than each true point."""
    if own.ndim == 2:
        return np.count_nonzero(own > true[:, None], axis=1)
    return len(own) - np.searchsorted(np.sort(own), true, side="right")


def _calibration(ranks: np.ndarray, n_denser: np.ndarray) -> float:
    """Return the error if ``ranks[c]`` true points have ``n_denser[c]`` own samples above them."""
    n_not_above = np.searchsorted(n_denser / n_denser[-1], LEVELS, side="right")
    cumulative = np.concatenate([[0], np.cumsum(ranks)]) / ranks.sum()
    return float(np.abs(LEVELS - cumulative[n_not_above]).mean())


def _bootstrap_error(ranks: np.ndarray, is_shared: bool, rng: np.random.RandomState) -> float:
    """Return the bootstrap standard error over true points and shared own samples."""
    n_true, n_own = ranks.sum(), len(ranks) - 1
    if n_true < 2:
        return nan
    own = np.ones(n_own, dtype=np.int64)
    found = np.empty(_N_REPLICATES)
    for i in range(_N_REPLICATES):
        if is_shared:  # otherwise each point is resampled together with its own samples
            own = np.bincount(rng.randint(n_own, size=n_own), minlength=n_own)
        n_denser = np.concatenate([[0], np.cumsum(own)])
        found[i] = _calibration(rng.multinomial(n_true, ranks / n_true), n_denser)
    return float(found.std(ddof=1))
