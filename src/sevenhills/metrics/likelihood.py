"""The likelihood of samples under a density."""

from math import isfinite, nan
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import stdtr

from ..estimate import Estimate, mean_with_error
from .arguments import Density, check_log_densities, check_points, is_array


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
        Minus infinity, with an unknown error, if the density vanishes at a sample.

    Warns
    -----
    UnnormalizedWarning
        If the attribute ``is_normalized`` of the density is False.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.metrics import mean_log_likelihood
    >>> density = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
    >>> round(mean_log_likelihood(density, density.sample(1000, random_state=0)), 1)
    -1.4
    """
    values = _log_densities_of_array(p, X) if is_array(p) else _log_densities(Density(p, "p"), X)
    return Estimate(*mean_with_error(values), len(values))


def _log_densities_of_array(p: Any, X: Any) -> np.ndarray:
    if X is not None:
        raise ValueError("X must be None where p is an array of log densities")
    return check_log_densities(p, "p")


def _log_densities(p: Density, X: Any) -> np.ndarray:
    if X is None:
        raise TypeError(f"X is missing: give the samples at which to evaluate {p}")
    p.warn_if_unnormalized("likelihood", stacklevel=3)
    return p.logpdf(check_points(X, "X"))


class LikelihoodFactor(Estimate):
    """A likelihood factor with the ``p_value`` of a one-sided t-test of F > 1."""

    __slots__ = ("p_value",)

    p_value: float

    _fields: ClassVar[tuple[str, ...]] = ("std_error", "n", "p_value")

    def __new__(
        cls, value: float, std_error: float = nan, n: int = 1, p_value: float = nan
    ) -> Self:
        """Make the estimate and attach the p-value."""
        self = super().__new__(cls, value, std_error, n)
        object.__setattr__(self, "p_value", float(p_value))
        return self


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
        Its attribute ``p_value`` is that of a one-sided t-test of F > 1. If all runs have the
        same factor, it is 0 for a factor above one, 1 for a factor below one and 0.5 for one. It
        is NaN if the factor is infinite.

    Examples
    --------
    >>> from sevenhills.metrics import likelihood_factor
    >>> factor = likelihood_factor([-2.50, -2.48, -2.51, -2.47], [-2.60, -2.61, -2.57, -2.59])
    >>> factor
    1.108 ± 0.017
    >>> round(factor.p_value, 4)
    0.0039
    """
    log_factors = _log_factors(check_log_densities(a, "a"), check_log_densities(b, "b"))
    with np.errstate(over="ignore"):
        factors = np.exp(log_factors)
    value, error = mean_with_error(factors)
    return LikelihoodFactor(value, error, len(factors), _p_value(value, error, len(factors)))


def _log_factors(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if len(a) != len(b):
        raise ValueError(f"a and b must have the same length, got {len(a)} and {len(b)}")
    if len(a) < 2:
        raise ValueError("a and b must hold at least 2 runs, got 1")
    unlikely = (a == -np.inf) & (b == -np.inf)
    if unlikely.any():
        raise ValueError(f"a and b are both minus infinity in run {unlikely.argmax()}")
    with np.errstate(over="ignore"):
        return a - b


def _p_value(mean: float, error: float, n: int) -> float:
    """Return the p-value of the hypothesis that the mean is at most 1."""
    if not isfinite(error):
        return nan
    if error == 0:
        return 0.5 if mean == 1 else float(mean < 1)
    return float(stdtr(n - 1, (1 - mean) / error))
