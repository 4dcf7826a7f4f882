"""Distribution function and quantiles of kernel mixtures of one feature."""

from collections.abc import Callable
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import ndtr, ndtri

from ..threads import map_blocks
from ..validation import check_numbers
from .groups import KernelGroups

#: Points that are summed together.
_POINTS = 512
#: The numbers in a table of points and kernels.
_TABLE_NUMBERS = 2**17
#: Beyond so many standard deviations all of a kernel is below a point, in floats.
_ALL = 8.3
#: Before so many standard deviations nothing of a kernel is below a point, in floats.
_NOTHING = -38.6
#: What may be left out of a sum, relative to it.
_NEGLIGIBLE = 1e-18
#: On an interval of two standard deviations of the narrowest kernel, the error of a polynomial of
#: this degree is below 1e-16 of the kernels' weight.
_DEGREE = 25
#: Sums below this are not interpolated, for that error is not relative to them.
_LEAST_INTERPOLATED = 0.01
#: The least and the greatest number of values between which quantiles are looked up.
_N_EDGES = (32, 2048)
#: Where they are, in standard deviations from the means.
_STEPS = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
_LARGEST = np.finfo(float).max
#: Relative error at which a quantile is found; the step taken last brings it to rounding.
_CLOSE = 1e-13
#: Bisection alone is done after so many steps, whatever the scales.
_MOST_STEPS = 300


class Bells(NamedTuple):
    """The kernels of one feature that have a weight.

    Attributes
    ----------
    weights, means : ndarray of shape (n_kernels,)
    rates : ndarray of shape (n_kernels,)
        One over their standard deviations.
    """

    weights: np.ndarray
    means: np.ndarray
    rates: np.ndarray

    def take(self, which: Any) -> "Bells":
        """Return some of the kernels."""
        return Bells(self.weights[which], self.means[which], self.rates[which])

    def mirrored(self) -> "Bells":
        """Return the kernels with what is above now below."""
        return Bells(self.weights, -self.means, self.rates)


class Line(KernelGroups):
    """Distribution function and quantiles of kernel mixtures of one feature."""

    def cdf(self, x: Any, n_jobs: int | None = None) -> Any:
        r"""Return the probability of values up to ``x``, for a density of one feature.

        .. math:: P(x) = \sum_k w_k \, \Phi\Big(\frac{x - \mu_k}{\sigma_{g(k)}}\Big)

        Parameters
        ----------
        x : float or array-like of shape (n,) or (n, 1)
            Infinite values are allowed.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        float or ndarray of the shape of ``x``
            Relatively exact in the lower tail; see :meth:`sf` for the upper one.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> unit.cdf([-1.0, 0.0, 1.0]).round(4)
        array([0.1587, 0.5   , 0.8413])
        """
        bells = self._bells_for("cdf")
        return _on_values(lambda values: masses_below(bells, values, n_jobs), x, "x")

    def sf(self, x: Any, n_jobs: int | None = None) -> Any:
        r"""Return the probability of values above ``x``, for a density of one feature.

        It is one minus :meth:`cdf`, but relatively exact in the upper tail.

        Parameters
        ----------
        x : float or array-like of shape (n,) or (n, 1)
            Infinite values are allowed.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        float or ndarray of the shape of ``x``

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> print(f"{unit.sf(20.0):.3g}")
        2.75e-89
        """
        bells = self._bells_for("sf").mirrored()
        return _on_values(lambda values: masses_below(bells, -values, n_jobs), x, "x")

    def ppf(self, q: Any, n_jobs: int | None = None) -> Any:
        """Return quantiles, the inverse of :meth:`cdf`, for a density of one feature.

        Parameters
        ----------
        q : float or array-like of shape (n,) or (n, 1)
            Probabilities, from 0 to 1; at the ends the quantiles are infinite.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        float or ndarray of the shape of ``q``

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> unit.ppf([0.025, 0.5, 0.975]).round(2)
        array([-1.96,  0.  ,  1.96])
        """
        self._bells_for("ppf")
        _check_probabilities(q)
        return _on_values(lambda values: self._quantiles(values, False, n_jobs), q, "q")

    def isf(self, q: Any, n_jobs: int | None = None) -> Any:
        """Return upper quantiles, the inverse of :meth:`sf`, for a density of one feature.

        It is ``ppf(1 - q)``, but relatively exact in the upper tail.

        Parameters
        ----------
        q : float or array-like of shape (n,) or (n, 1)
            Probabilities, from 0 to 1; at the ends the quantiles are infinite.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        float or ndarray of the shape of ``q``

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> round(unit.isf(1e-50), 4)
        14.9333
        """
        self._bells_for("isf")
        _check_probabilities(q)
        return _on_values(lambda values: self._quantiles(values, True, n_jobs), q, "q")

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval that leaves out as much below as above, for one feature.

        Parameters
        ----------
        confidence : float
            Its probability, between 0 and 1.

        Returns
        -------
        lower, upper : float

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> lower, upper = unit.interval(0.95)
        >>> round(lower, 2), round(upper, 2)
        (-1.96, 1.96)
        """
        self._bells_for("interval")
        tail = (1.0 - check_confidence(confidence)) / 2
        return self.ppf(tail), self.isf(tail)

    def _bells_for(self, question: str) -> Bells:
        if self.n_features != 1:
            raise ValueError(
                f"{question} is for one feature, but this density has {self.n_features}; take "
                "marginal(feature) first, or use probability(lower, upper) for a box"
            )
        return self._bells

    @cached_property
    def _bells(self) -> Bells:
        """The kernels as the distribution function wants them, if there is one feature."""
        rates = np.abs(self.transforms[:, 0, 0])[self._group_of_kernel]
        bells = Bells(self.weights / self.weights.sum(), self.means[:, 0], rates)
        return bells.take(self.weights > 0)

    def _quantiles(self, q: np.ndarray, upper: bool, n_jobs: int | None) -> np.ndarray:
        """Return quantiles from the side that has the smaller probability, which keeps digits."""
        from_above = (q > 0.5) != upper
        shares = np.where(q > 0.5, 1.0 - q, q)
        out = np.empty(len(q))
        for mirror in (False, True):
            rows = from_above == mirror
            if rows.any():
                out[rows] = self._lower_quantiles(shares[rows], mirror, n_jobs)
        return out

    def _lower_quantiles(self, shares: np.ndarray, mirror: bool, n_jobs: int | None) -> np.ndarray:
        """Return where so much is below, or where so much is above if mirrored."""
        sign = -1.0 if mirror else 1.0
        bells = self._bells.mirrored() if mirror else self._bells
        wanted, where = np.unique(shares, return_inverse=True)
        out = np.full(len(wanted), -np.inf)
        real = wanted > 0
        if not real.any():
            return sign * out[where]
        brackets = _brackets(bells, wanted[real], n_jobs)

        def log_mass(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            with np.errstate(divide="ignore"):
                below = np.log(masses_below(bells, x, n_jobs))
            return below, self.logpdf(sign * x[:, None], n_jobs)

        out[real] = _solve(log_mass, np.log(wanted[real]), *brackets)
        return sign * out[where]


def masses_below(bells: Bells, x: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
    """Return how much of the kernels is below every point, relatively exact."""
    points, where = np.unique(x, return_inverse=True)
    out = np.empty(len(points))

    def evaluate(blocks: range) -> None:
        # Holds for this thread only.
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for block in blocks:
                rows = slice(block * _POINTS, (block + 1) * _POINTS)
                out[rows] = _masses_below_neighbours(bells, points[rows])

    map_blocks(evaluate, -(-len(points) // _POINTS), n_jobs)
    # Points in order have masses in order but for rounding.
    return np.minimum(np.maximum.accumulate(out), 1.0)[where]


def _masses_below_neighbours(bells: Bells, x: np.ndarray) -> np.ndarray:
    """Return the masses below rising points, which should be close to each other."""
    first = (x[0] - bells.means) * bells.rates
    last = (x[-1] - bells.means) * bells.rates
    whole = bells.weights[first > _ALL].sum()
    lowest = max(_NOTHING, ndtri(_NEGLIGIBLE * whole))
    partial = bells.take((first <= _ALL) & (last > lowest))
    if not len(partial.weights):
        return np.full(len(x), whole)
    is_short = (x[-1] - x[0]) * partial.rates.max() <= 2.0
    if len(x) > 2 * _DEGREE and is_short:
        base = _sums(partial, x[:1])[0]
        if whole + base >= _LEAST_INTERPOLATED:
            return whole + base + _interpolated(partial, x, base)
    return whole + _sums(partial, x)


def _interpolated(bells: Bells, x: np.ndarray, base: float) -> np.ndarray:
    """Return the masses below rising points beyond that below the first, by a polynomial."""
    middle, half = 0.5 * x[0] + 0.5 * x[-1], 0.5 * (x[-1] - x[0])
    # Differences from the middle have more digits than the values.
    near = bells._replace(means=bells.means - middle)

    def beyond(u: Any) -> Any:
        return _sums(near, half * u) - base

    fit = chebyshev.chebinterpolate(beyond, _DEGREE)
    return np.asarray(chebyshev.chebval((x - middle) / half, fit))


def _sums(bells: Bells, x: np.ndarray) -> np.ndarray:
    """Return the masses below points, kernel by kernel."""
    out = np.zeros(len(x))
    step = max(1, _TABLE_NUMBERS // len(x))
    for start in range(0, len(bells.weights), step):
        part = bells.take(slice(start, start + step))
        table = np.subtract.outer(x, part.means)
        table *= part.rates
        out += ndtr(table, out=table) @ part.weights
    return out


def _brackets(
    bells: Bells, shares: np.ndarray, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return between which values there is so much below, no more than a half, and a guess."""
    edges = _edges(bells, int(np.clip(4 * len(shares), *_N_EDGES)))
    below = masses_below(bells, edges, n_jobs)
    after = np.searchsorted(below, shares).clip(max=len(edges) - 1)
    with np.errstate(over="ignore"):
        # No quantile is below that of the widest kernel, were it the lowest.
        lowest = bells.means.min() + ndtri(shares) / bells.rates.min()
    low = np.where(after > 0, edges[after - 1], np.maximum(lowest, -_LARGEST))
    high = edges[after]
    guess = np.where(after > 0, np.interp(shares, below, edges), 0.5 * low + 0.5 * high)
    return low, high, guess.clip(low, high)


def _edges(bells: Bells, n_edges: int) -> np.ndarray:
    """Return rising values where the kernels are, of which the last has at least a half below."""
    with np.errstate(over="ignore"):
        values = bells.means + np.divide.outer(_STEPS, bells.rates)
    edges = np.unique(values.clip(-_LARGEST, _LARGEST))
    return edges[np.linspace(0, len(edges) - 1, min(len(edges), n_edges)).astype(np.int64)]


def _solve(
    log_mass: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    wanted: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    x: np.ndarray,
) -> np.ndarray:
    """Find points of a wanted log mass by Newton's method, by bisection where that goes astray.

    In logarithms, because the log of the mass below bends but little in the tail.
    """
    out, size, rows = x.copy(), np.full(len(x), np.inf), np.arange(len(x))
    for _ in range(_MOST_STEPS):
        below, density = log_mass(x)
        excess = below - wanted
        low, high = np.where(excess < 0, x, low), np.where(excess > 0, x, high)
        with np.errstate(over="ignore", invalid="ignore"):
            step = excess * np.exp(below - density)
            new = x - step
            astray = ~((new >= low) & (new <= high) & (np.abs(step) <= 0.5 * size))
        close = np.abs(excess) <= _CLOSE
        new[astray & close] = x[astray & close]
        new[astray & ~close] = (0.5 * low + 0.5 * high)[astray & ~close]
        out[rows] = new
        left = ~(close | (new == x) | (low >= high))
        if not left.any():
            break
        size = np.where(astray, 0.5 * (high - low), np.abs(step))[left]
        x, low, high, wanted, rows = (v[left] for v in (new, low, high, wanted, rows))
    return out


def check_confidence(confidence: Any) -> float:
    """Return a probability that is neither none nor all."""
    if not isinstance(confidence, Real) or isinstance(confidence, bool | np.bool_):
        raise TypeError(f"confidence must be a number, got {confidence!r}")
    share = float(confidence)
    if not 0 < share < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    return share


def _check_probabilities(q: Any) -> None:
    values = check_numbers(q, "q")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("q must be probabilities, from 0 to 1, got others or NaN")


def _on_values(work: Callable[[np.ndarray], np.ndarray], values: Any, name: str) -> Any:
    """Return what ``work`` makes of a row of values, in the shape in which they came."""
    given = check_numbers(values, name)
    if given.ndim > 2 or (given.ndim == 2 and given.shape[1] != 1):
        raise ValueError(f"{name} must be a number or have shape (n,) or (n, 1), got {given.shape}")
    if np.isnan(given).any():
        raise ValueError(f"{name} must not be NaN")
    if given.size == 0:
        return np.empty(given.shape)
    out = work(given.ravel())
    return float(out[0]) if given.ndim == 0 else out.reshape(given.shape)
