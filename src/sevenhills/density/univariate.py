"""Distribution function and quantiles of kernels of one feature."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import ndtr, ndtri

from ..threads import map_rows
from ..validation import check_numbers
from .sums import Kernels, LogSums

#: Points that are summed together.
_POINTS = 512
#: The numbers in a table of points and kernels.
_TABLE_NUMBERS = 2**17
#: Beyond this many standard deviations, all of a kernel is below a point, in floats.
_ALL_BELOW = 8.3
#: Before this many standard deviations, nothing of a kernel is below a point, in floats.
_NONE_BELOW = -38.6
#: Relative error allowed for dropped terms.
_NEGLIGIBLE = 1e-18
#: On an interval of two standard deviations of the narrowest kernel, the error of a polynomial of
#: this degree is below 1e-16 of the kernels' weight.
_DEGREE = 25
#: Smaller sums are not interpolated, because that error is not relative to the sum.
_MIN_INTERPOLATED = 0.01
#: The least and the greatest number of bracket edges for quantiles.
_N_EDGES = (32, 2048)
#: Bracket edges, in standard deviations from the means of the kernels.
_EDGE_STEPS = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
_LARGEST = np.finfo(float).max
#: Relative error at which a quantile is accepted; the last step brings it to rounding.
_CLOSE = 1e-13
#: Bisection alone is done after this many steps, whatever the scales.
_MAX_STEPS = 300


class Normals(NamedTuple):
    """The kernels of one feature whose weight is not zero."""

    weights: np.ndarray
    means: np.ndarray
    rates: np.ndarray  #: one over their standard deviations

    @classmethod
    def from_kernels(cls, weights: np.ndarray, kernels: Kernels) -> "Normals":
        """Take the kernels of a mixture of one feature."""
        rates = np.repeat(np.abs(kernels.transforms[:, 0, 0]), np.diff(kernels.offsets))
        return cls(weights / weights.sum(), kernels.means[:, 0], rates).take(weights > 0)

    def take(self, which: Any) -> "Normals":
        """Return some of the kernels."""
        return Normals(self.weights[which], self.means[which], self.rates[which])

    def mirrored(self) -> "Normals":
        """Return the kernels mirrored at zero."""
        return Normals(self.weights, -self.means, self.rates)


def cdf(normals: Normals, n_jobs: int | None, x: np.ndarray) -> np.ndarray:
    """Return the probability below every point, with a small relative error."""
    points, where = np.unique(x, return_inverse=True)
    out = np.empty(len(points))
    map_rows(lambda block: _cdf_of_block(normals, block), points, _POINTS, n_jobs, out)
    # The values of sorted points are sorted up to rounding.
    return np.minimum(np.maximum.accumulate(out), 1.0)[where]


def sf(normals: Normals, n_jobs: int | None, x: np.ndarray) -> np.ndarray:
    """Return the probability above every point, with a small relative error."""
    return cdf(normals.mirrored(), n_jobs, -x)


@np.errstate(over="ignore", invalid="ignore", under="ignore")
def _cdf_of_block(normals: Normals, x: np.ndarray) -> np.ndarray:
    """Return the probabilities below sorted points, which should be close to each other."""
    first = (x[0] - normals.means) * normals.rates
    last = (x[-1] - normals.means) * normals.rates
    whole = normals.weights[first > _ALL_BELOW].sum()
    lowest = max(_NONE_BELOW, ndtri(_NEGLIGIBLE * whole))
    partial = normals.take((first <= _ALL_BELOW) & (last > lowest))
    if not len(partial.weights):
        return np.full(len(x), whole)
    is_short = (x[-1] - x[0]) * partial.rates.max() <= 2.0
    if len(x) > 2 * _DEGREE and is_short:
        base = _sums(partial, x[:1])[0]
        if whole + base >= _MIN_INTERPOLATED:
            return whole + base + _interpolated(partial, x, base)
    return whole + _sums(partial, x)


def _interpolated(normals: Normals, x: np.ndarray, base: float) -> np.ndarray:
    """Return the probabilities between the first of sorted points and each, by a polynomial."""
    middle, half = 0.5 * x[0] + 0.5 * x[-1], 0.5 * (x[-1] - x[0])
    # Differences from the middle have more digits than the values.
    near = normals._replace(means=normals.means - middle)

    def beyond(u: Any) -> Any:
        return _sums(near, half * u) - base

    fit = chebyshev.chebinterpolate(beyond, _DEGREE)
    return np.asarray(chebyshev.chebval((x - middle) / half, fit))


def _sums(normals: Normals, x: np.ndarray) -> np.ndarray:
    """Return the probabilities below points, kernel by kernel."""
    out = np.zeros(len(x))
    step = max(1, _TABLE_NUMBERS // len(x))
    for start in range(0, len(normals.weights), step):
        part = normals.take(slice(start, start + step))
        table = np.subtract.outer(x, part.means)
        table *= part.rates
        out += ndtr(table, out=table) @ part.weights
    return out


# Quantiles


def quantiles(
    normals: Normals, logpdf: LogSums, n_jobs: int | None, upper: bool, q: np.ndarray
) -> np.ndarray:
    """Return quantiles, or upper quantiles.

    They are found from the side that has the smaller probability, which keeps digits.
    """
    from_above = (q > 0.5) != upper
    tails = np.where(q > 0.5, 1.0 - q, q)
    out = np.empty(len(q))
    if not from_above.all():
        rows = ~from_above
        out[rows] = _lower_quantiles(normals, logpdf, tails[rows], n_jobs)
    if from_above.any():
        mirrored, rows = normals.mirrored(), from_above
        out[rows] = -_lower_quantiles(mirrored, lambda x: logpdf(-x), tails[rows], n_jobs)
    return out


def _lower_quantiles(
    normals: Normals, logpdf: LogSums, tails: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Return the points that have these probabilities, at most one half, below them."""
    wanted, where = np.unique(tails, return_inverse=True)
    out = np.full(len(wanted), -np.inf)
    positive = wanted > 0
    if not positive.any():
        return out[where]
    brackets = _brackets(normals, wanted[positive], n_jobs)

    def log_cdf(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore"):
            below = np.log(cdf(normals, n_jobs, x))
        return below, logpdf(x[:, None])

    out[positive] = _solve(log_cdf, np.log(wanted[positive]), *brackets)
    return out[where]


def _brackets(
    normals: Normals, tails: np.ndarray, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lower and upper bounds of quantiles, and guesses."""
    edges = _edges(normals, int(np.clip(4 * len(tails), *_N_EDGES)))
    below = cdf(normals, n_jobs, edges)
    after = np.searchsorted(below, tails).clip(max=len(edges) - 1)
    with np.errstate(over="ignore"):
        # No quantile is below that of the widest kernel at the lowest mean.
        lowest = normals.means.min() + ndtri(tails) / normals.rates.min()
    low = np.where(after > 0, edges[after - 1], np.maximum(lowest, -_LARGEST))
    high = edges[after]
    guess = np.where(after > 0, np.interp(tails, below, edges), 0.5 * low + 0.5 * high)
    return low, high, guess.clip(low, high)


def _edges(normals: Normals, n_edges: int) -> np.ndarray:
    """Return sorted values around the kernels; at least one half is below the last."""
    with np.errstate(over="ignore"):
        values = normals.means + np.divide.outer(_EDGE_STEPS, normals.rates)
    edges = np.unique(values.clip(-_LARGEST, _LARGEST))
    return edges[np.linspace(0, len(edges) - 1, min(len(edges), n_edges)).astype(np.int64)]


def _solve(
    log_cdf: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    wanted: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    x: np.ndarray,
) -> np.ndarray:
    """Solve for points of given log probability by Newton's method, safeguarded by bisection.

    The log probability below a point is nearly linear in the tail.
    """
    out, size, rows = x.copy(), np.full(len(x), np.inf), np.arange(len(x))
    for _ in range(_MAX_STEPS):
        below, log_density = log_cdf(x)
        excess = below - wanted
        low, high = np.where(excess < 0, x, low), np.where(excess > 0, x, high)
        with np.errstate(over="ignore", invalid="ignore"):
            step = excess * np.exp(below - log_density)
            new = x - step
            outside = ~((new >= low) & (new <= high) & (np.abs(step) <= 0.5 * size))
        close = np.abs(excess) <= _CLOSE
        new[outside & close] = x[outside & close]
        new[outside & ~close] = (0.5 * low + 0.5 * high)[outside & ~close]
        out[rows] = new
        left = ~(close | (new == x) | (low >= high))
        if not left.any():
            break
        size = np.where(outside, 0.5 * (high - low), np.abs(step))[left]
        x, low, high, wanted, rows = (v[left] for v in (new, low, high, wanted, rows))
    return out


# Arguments


def check_probabilities(q: Any) -> None:
    """Refuse values that are not between 0 and 1."""
    values = check_numbers(q, "q")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("q must be probabilities, from 0 to 1, got others or NaN")


def map_values(function: Callable[[np.ndarray], np.ndarray], values: Any, name: str) -> Any:
    """Apply a function of a row of values to a number or array, keeping the shape."""
    given = check_numbers(values, name)
    if given.ndim > 2 or (given.ndim == 2 and given.shape[1] != 1):
        raise ValueError(f"{name} must be a number or have shape (n,) or (n, 1), got {given.shape}")
    if np.isnan(given).any():
        raise ValueError(f"{name} must not be NaN")
    if given.size == 0:
        return np.empty(given.shape)
    out = function(given.ravel())
    return float(out[0]) if given.ndim == 0 else out.reshape(given.shape)
