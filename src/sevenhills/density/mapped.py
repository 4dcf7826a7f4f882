"""Questions about densities with maps that are not those of their latent coordinates.

Derivatives follow from the chain rule. Tails of a folded feature are sums over the images of an
interval. Modes are found by climbing the density from those of the latent coordinates.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtri

from .derivatives import LogSurface
from .maps import CircleMap, FeatureMap, map_columns
from .modes import ModeTable
from .preimages import Chart, Preimages
from .probabilities import Normals, cdf, normal_probability, sf, solve
from .sums import KernelDistances, Kernels, LogSums

#: The numbers in a table of points and kernels.
_TABLE_NUMBERS = 2**20
#: Maxima closer than this, in standard deviations of the widest kernels, are the same.
_SAME = 1e-2
#: Values at which a turn may begin: a day is divided into hours, a circle into steps of 15 degrees.
_N_STARTS = 24
#: A turn begins at the least value if the density there is low, relative to its range.
_LOW = 0.02
#: The highest means from which the highest mode is searched.
_MAX_STARTS = 16
#: An ascent is repeated if the log density is higher by this, this many standard deviations aside.
_FLAT, _SIDE = 1e-9, 0.1
_MAX_ASCENTS = 4
#: The end of an ascent: the gradient, in standard deviations of the widest kernels.
_OPTIONS = {"gtol": 1e-9, "maxiter": 200}


def gradients(
    maps: Sequence[FeatureMap], surface: LogSurface, n_jobs: int | None, found: Preimages
) -> np.ndarray:
    """Return gradients of the log density by the chain rule, NaN outside of the support."""
    slopes = surface.slopes(found.Z, n_jobs).gradients * _steps(maps, found)
    return found.spread(found.mean(slopes) + _bends(maps, found)[0], np.nan)


def hessians(
    maps: Sequence[FeatureMap], surface: LogSurface, n_jobs: int | None, found: Preimages
) -> np.ndarray:
    """Return Hessians of the log density by the chain rule, NaN outside of the support."""
    latent, steps = surface.curvatures(found.Z, n_jobs), _steps(maps, found)
    slopes = steps * latent.gradients
    gradients, (firsts, seconds) = found.mean(slopes), _bends(maps, found)
    apart = slopes - np.repeat(gradients, found.sizes, axis=0)
    parts = latent.hessians * steps[:, :, None] * steps[:, None]
    out = found.mean(parts + apart[:, :, None] * apart[:, None])
    diagonal = np.arange(len(maps))
    out[:, diagonal, diagonal] += firsts * gradients + seconds
    return found.spread(out, np.nan)


def _steps(maps: Sequence[FeatureMap], found: Preimages) -> np.ndarray:
    """Return the derivatives (P, M) of latent coordinates, negative if mirrored."""
    with np.errstate(over="ignore"):
        slopes = np.exp(map_columns(maps, "log_slope", found.X))
    return np.asarray(found.signs * np.repeat(slopes, found.sizes, axis=0))


def _bends(maps: Sequence[FeatureMap], found: Preimages) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivatives (n, M) of the log slopes, first and second."""
    both = np.empty((2, *found.X.shape))
    for j, each in enumerate(maps):
        both[0, :, j], both[1, :, j] = each.bends(found.X[:, j])
    return both[0], both[1]


def sample_sizes(kernels: Kernels, counts: np.ndarray, found: Preimages) -> np.ndarray:
    """Return the effective sample size of every point that has preimages."""
    distances, log_weights = KernelDistances.from_kernels(kernels), kernels.log_weights
    ends = np.append(found.starts, len(found.rows))
    step, out = max(1, _TABLE_NUMBERS // len(counts)), np.empty(len(found.starts))
    for first in range(0, len(out), step):
        last = min(first + step, len(out))
        logs = distances.log_kernels(found.Z[ends[first] : ends[last]]) + log_weights
        logs = np.logaddexp.reduceat(logs, ends[first:last] - ends[first])
        with np.errstate(invalid="ignore"):
            shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        out[first:last] = 1 / (np.nan_to_num(shares) ** 2 / counts).sum(axis=1).clip(1e-300)
    least = counts[log_weights > -np.inf].min()
    return out.clip(least, counts.sum())


# One feature


def tails(
    chart: Chart, normals: Normals, n_jobs: int | None, is_upper: bool, x: np.ndarray
) -> np.ndarray:
    """Return the probabilities below values, or above them."""
    (each,) = chart.maps
    low, high = each.bounds
    out = np.where((x >= high) != is_upper, 1.0, 0.0)
    inside = np.flatnonzero((x > low) & (x < high) & np.isfinite(x))
    out[~np.isfinite(x)] = (x[~np.isfinite(x)] > 0) != is_upper
    values = x[inside]
    if not each.is_folding:
        out[inside] = (sf if is_upper else cdf)(normals, n_jobs, each.forward(values))
    elif len(values):
        ends = (values, high) if is_upper else (low, values)
        images = zip(*chart.image_intervals(0, *ends), strict=True)
        sums = sum(_interval_sums(normals, *pair) for pair in images)
        out[inside] = np.minimum(sums, 1.0)
    return out


def _interval_sums(normals: Normals, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the probabilities of intervals of the latent coordinate."""
    out, step = np.empty(len(low)), max(1, _TABLE_NUMBERS // len(normals.weights))
    for start in range(0, len(out), step):
        ends = low[start : start + step, None], high[start : start + step, None]
        first, last = ((end - normals.means) * normals.rates for end in ends)
        widths = (ends[1] - ends[0]) * normals.rates
        out[start : start + step] = normal_probability(first, last, widths) @ normals.weights
    return out


def turn(circle: CircleMap, logpdf: Callable[..., np.ndarray]) -> tuple[float, float]:
    """Return the turn of a circle that begins where the density is low, if need be elsewhere."""
    starts = circle.low + np.arange(_N_STARTS) / _N_STARTS * circle.period
    heights = np.exp(logpdf(starts[:, None], None))
    start = starts[heights.argmin()]
    if heights[0] <= heights.min() + _LOW * np.ptp(heights):
        start = circle.low
    return float(start), float(start + circle.period)


def quantiles(
    chart: Chart,
    normals: Normals,
    logpdf: LogSums,
    n_jobs: int | None,
    is_upper: bool,
    q: np.ndarray,
) -> np.ndarray:
    """Return quantiles, or upper quantiles, of a folded feature.

    They are found from the side that has the smaller probability, which keeps digits.
    """
    low, high = chart.maps[0].bounds
    from_above, smaller = (q > 0.5) != is_upper, np.where(q > 0.5, 1.0 - q, q)
    out = np.where(from_above, high, low)
    for above, sign in ((False, 1.0), (True, -1.0)):
        rows = np.flatnonzero((from_above == above) & (smaller > 0))
        if not len(rows):
            continue

        def log_tail(
            x: np.ndarray, above: bool = above, sign: float = sign
        ) -> tuple[np.ndarray, np.ndarray]:
            with np.errstate(divide="ignore"):
                below = np.log(tails(chart, normals, n_jobs, above, sign * x))
            return below, logpdf(sign * x[:, None])

        ends = np.sort(sign * _finite_ends(chart, normals, logpdf, smaller[rows].min()))
        first, last = (np.full(len(rows), end) for end in ends)
        middle = 0.5 * first + 0.5 * last
        out[rows] = sign * solve(log_tail, np.log(smaller[rows]), first, last, middle)
    return out


def _finite_ends(chart: Chart, normals: Normals, logpdf: LogSums, tail: float) -> np.ndarray:
    """Return values between which a folded feature is, but for a probability."""
    (each,) = chart.maps
    widths = -ndtri(0.5 * tail) / normals.rates
    farthest = np.array([(normals.means - widths).min(), (normals.means + widths).max()])
    if np.isinf(each.bounds).any():  # one bound, at which far kernels are mirrored
        bound = each.fold.bounds[1 if np.isinf(each.bounds[0]) else 0]
        reach = np.abs(farthest - bound).max()
        farthest = each.inverse(np.array([bound - reach, bound + reach]))
    return np.where(np.isfinite(each.bounds), each.bounds, farthest)


# Modes


def moved_modes(density: Any, chart: Chart, found: ModeTable) -> ModeTable:
    """Return the maxima to which ascents from the modes of the latent coordinates lead.

    Modes that lead to the same maximum are joined.
    """
    ends = np.array([_climbed(density, chart, z) for z in found.locations])
    distinct: list[int] = []
    mode_of = np.empty(len(ends), dtype=np.int64)
    for i, end in enumerate(ends):
        same = [chart.is_close(end, ends[k], _SAME) for k in distinct]
        mode_of[i] = same.index(True) if any(same) else len(distinct)
        if not any(same):
            distinct.append(i)
    locations = map_columns(density.maps, "inverse", ends[distinct])
    shares = np.bincount(mode_of, found.shares)
    heights = density.logpdf(locations)
    order = np.lexsort((-heights, -shares))
    rank = np.argsort(order)
    significances = np.full(len(order), -np.inf)
    np.maximum.at(significances, mode_of, found.significances)
    basins = rank[mode_of][found.basins]
    return ModeTable(locations[order], heights[order], shares[order], basins, significances[order])


def highest_mode(density: Any, chart: Chart) -> np.ndarray:
    """Return the highest maximum to which ascents from the means of kernels lead."""
    means = density.means[density.log_weights > -np.inf]
    heights = density.logpdf(map_columns(density.maps, "inverse", means))
    starts = means[np.argsort(-heights, kind="stable")[:_MAX_STARTS]]
    ends = np.array([_climbed(density, chart, z) for z in starts])
    points = map_columns(density.maps, "inverse", ends)
    return np.asarray(points[np.argmax(density.logpdf(points))])


def _climbed(density: Any, chart: Chart, start: np.ndarray) -> np.ndarray:
    """Return the latent coordinates of a maximum of the density of the values."""
    stds = chart.stds
    sides = _SIDE * np.concatenate([np.diag(stds), -np.diag(stds), np.zeros((1, len(stds)))])

    # The line search comes back from steps to places without finite values or densities.
    beyond = np.inf, np.zeros_like(start)

    def heights(Z: np.ndarray) -> np.ndarray:
        return np.asarray(density._logpdf(map_columns(density.maps, "inverse", Z)))

    def descent(z: np.ndarray) -> tuple[float, np.ndarray]:
        x = map_columns(density.maps, "inverse", z[None] * stds)
        if not np.isfinite(x).all():
            return beyond
        pairs = zip(density.maps, z * stds, x[0], strict=True)
        slopes = [each.orientation(a) * np.exp(-each.log_slope(b)) for each, a, b in pairs]
        gradient = density.grad_logpdf(x)[0] * slopes * stds
        height = float(density._logpdf(x)[0])
        return (-height, -gradient) if np.isfinite([height, *gradient]).all() else beyond

    for _ in range(_MAX_ASCENTS):
        with np.errstate(over="ignore", invalid="ignore"):
            found = minimize(descent, start / stds, jac=True, method="BFGS", options=_OPTIONS)
        end = found.x * stds
        # A mode of the latent coordinates may be a minimum of the density of the values.
        around = heights(end + sides)
        if around.max() <= around[-1] + _FLAT:
            break
        start = end + sides[around.argmax()]
    return np.asarray(end)
