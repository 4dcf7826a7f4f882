"""Probabilities of intervals and boxes, and quantiles.

The distribution function and quantiles are those of kernels of one feature. The sides of a box are
parallel to the axes. Its probability is known in closed form for one feature, for two features, and
for kernels with independent features. Other kernels are integrated one feature after another, each
conditional on those before, at quasi-random points (Genz, Numerical computation of multivariate
normal probabilities, 1992).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import ndtr, ndtri, owens_t

from ..estimate import Estimate
from ..threads import map_rows
from ..validation import check_numbers
from .conditioning import feature_indices, marginal
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

#: Features of a kernel count as independent if their partial correlation is below this.
_ROUNDING = 1e-13
#: Smaller probabilities in the plane lose their digits in differences, and are integrated instead.
_MIN_CLOSED_FORM = 1e-9
#: Kernels whose upper bound on the probability of the box is below this fraction of the largest
#: are skipped.
_NEGLIGIBLE_BOUND = 1e-200
#: Point sets that are shifted independently; the standard error comes from their differences.
_N_SHIFTS = 16
#: The binary digits of a point set.
_BITS = 30
#: Corners exactly at the mean of a kernel are moved by this many standard deviations: Owen's
#: function needs a nonzero argument.
_NUDGE = 1e-30


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

    out[positive] = solve(log_cdf, np.log(wanted[positive]), *brackets)
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


def solve(
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


# Boxes


def check_box(lower: Any, upper: Any, n_features: int, names: Sequence[str] | None) -> np.ndarray:
    """Return the lower and upper bounds (2, M) of a box, from two lists or one mapping."""
    if isinstance(lower, Mapping):
        if upper is not None:
            raise TypeError("upper must not be given where lower maps features to bounds")
        box = _mapped_bounds(lower, n_features, names)
    else:
        if upper is None:
            raise TypeError("upper is missing")
        box = np.stack(
            [_listed_bounds(lower, "lower", n_features), _listed_bounds(upper, "upper", n_features)]
        )
    exceeds = box[0] > box[1]
    if exceeds.any():
        feature = int(np.argmax(exceeds))
        raise ValueError(f"lower must not exceed upper, which it does at feature {feature}")
    return box


def _listed_bounds(values: Any, name: str, n_features: int) -> np.ndarray:
    bounds = check_numbers(values, name)
    if bounds.shape != (n_features,):
        raise ValueError(f"{name} must have shape ({n_features},), got {bounds.shape}")
    if np.isnan(bounds).any():
        raise ValueError(f"{name} must not be NaN")
    return bounds


def _mapped_bounds(
    bounds: Mapping[Any, Any], n_features: int, names: Sequence[str] | None
) -> np.ndarray:
    box = np.repeat([[-np.inf], [np.inf]], n_features, axis=1)
    if not bounds:
        return box
    features = feature_indices(list(bounds), n_features, names)
    for feature, (key, pair) in zip(features, bounds.items(), strict=True):
        values = check_numbers(pair, f"lower[{key!r}]")
        if values.shape != (2,) or np.isnan(values).any():
            raise ValueError(f"lower[{key!r}] must be two bounds, got {pair!r}")
        box[:, feature] = values
    return box


def box_probability(
    weights: np.ndarray,
    kernels: Kernels,
    box: np.ndarray,
    n_draws: int,
    rng: np.random.RandomState,
) -> Estimate:
    """Return the probability of a box (2, M); features without bounds are integrated out first."""
    if (box[0] == box[1]).any():
        return Estimate(0.0, 0.0)
    bounded = np.flatnonzero(np.isfinite(box).any(axis=0))
    if len(bounded) == 0:
        return Estimate(1.0, 0.0)
    kernels, box = marginal(kernels, bounded), box[:, bounded]
    weights = weights / weights.sum()
    sides = _side_probabilities(kernels, box)
    if len(bounded) == 1:
        return Estimate(weights @ sides[:, 0], 0.0)
    if len(bounded) == 2:
        value = float(weights @ _plane_probabilities(kernels, box))
        if value >= _MIN_CLOSED_FORM:
            return Estimate(min(value, 1.0), 0.0)
    return _integrate(weights, kernels, box, sides, n_draws, rng)


def _side_probabilities(kernels: Kernels, box: np.ndarray) -> np.ndarray:
    """Return the probability of every kernel between the bounds of every feature, (K, M)."""
    # Standard deviations are the lengths of the columns of the inverse transforms.
    stds = _lengths(np.linalg.inv(kernels.transforms), axis=1)[:, 0][kernels.group_of_kernel]
    lower, upper = box
    with np.errstate(over="ignore"):
        first, last = (lower - kernels.means) / stds, (upper - kernels.means) / stds
        return normal_probability(first, last, (upper - lower) / stds)


def normal_probability(a: Any, b: Any, width: Any) -> np.ndarray:
    """Return the standard normal probability between bounds, with a small relative error.

    The width ``b - a`` may be known more exactly than the bounds.
    """
    low, high = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        middle = 0.5 * low + 0.5 * high
        thin = width * (1.0 + np.abs(middle)) < 1e-3
        # The difference of close values has few digits; the Taylor series has all of them.
        bend = 1.0 + (middle**2 - 1.0) * width**2 / 24
        series = np.exp(-0.5 * middle**2) / np.sqrt(2 * np.pi) * width * bend
    return np.where(thin, series, ndtr(high) - ndtr(low))


def _lengths(vectors: np.ndarray, axis: int) -> np.ndarray:
    """Return the lengths of vectors whose squares may overflow, keeping the axis."""
    sizes = np.abs(vectors).max(axis=axis, keepdims=True)
    return np.asarray(sizes * np.linalg.norm(vectors / sizes, axis=axis, keepdims=True))


def _plane_probabilities(kernels: Kernels, box: np.ndarray) -> np.ndarray:
    """Return the probability of a rectangle under every kernel, from the quadrants of corners."""
    group = kernels.group_of_kernel
    first = _triangles(kernels.transforms[:, ::-1])[group]  # the first feature by itself
    second = _triangles(kernels.transforms)[group]
    total = np.zeros(kernels.n_kernels)
    for i, j in np.ndindex(2, 2):
        corner = np.array([box[i, 0], box[j, 1]])
        total += (-1) ** (i + j) * _quadrants(corner - kernels.means, first, second)
    return total


def _quadrants(corners: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    r"""Return the probabilities below and left of corners (K, 2), by Owen's function.

    .. math:: \Phi_2(h, k) = \frac{\Phi(h) + \Phi(k)}{2} - T\Big(h, \frac{k'}{h}\Big)
              - T\Big(k, \frac{h'}{k}\Big) - \frac{[h k < 0]}{2}

    where :math:`k'` is the standardized second coordinate given the first, and :math:`h'` the
    first given the second.
    """
    x, y = corners.T
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        x = np.where(x == 0, _NUDGE / first[:, 1, 1], x)
        y = np.where(y == 0, _NUDGE / second[:, 1, 1], y)
        h, k = x * first[:, 1, 1], y * second[:, 1, 1]
        k_given = y * first[:, 0, 0] + x * first[:, 1, 0]
        h_given = x * second[:, 0, 0] + y * second[:, 1, 0]
        opposite = np.where((h > 0) != (k > 0), 0.5, 0.0)
        owens = owens_t(h, k_given / h) + owens_t(k, h_given / k)
        finite = 0.5 * (ndtr(h) + ndtr(k)) - owens - opposite
    # Without a bound on one side, it is the probability below the other.
    return np.where(np.isfinite(h) & np.isfinite(k), finite, np.minimum(ndtr(h), ndtr(k)))


def _triangles(transforms: np.ndarray) -> np.ndarray:
    """Return lower triangles, positive on the diagonal, equivalent to the transforms.

    The last coordinate depends on the last feature only, the one before on the last two features,
    and so on.
    """
    upper = np.linalg.qr(transforms.transpose(0, 2, 1), mode="r")
    signs = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return np.asarray((signs[:, :, None] * upper).transpose(0, 2, 1))


def _integrate(
    weights: np.ndarray,
    kernels: Kernels,
    box: np.ndarray,
    sides: np.ndarray,
    n_draws: int,
    rng: np.random.RandomState,
) -> Estimate:
    """Return the probability of a box, from the probabilities (K, M) of its sides."""
    independent = _is_independent(kernels.transforms)[kernels.group_of_kernel]
    known = float(weights[independent] @ sides[independent].prod(axis=1))
    # The probability of a box is at most that of its narrowest side.
    bounds = np.where(independent, 0.0, weights * sides.min(axis=1))
    left = np.flatnonzero(bounds > _NEGLIGIBLE_BOUND * bounds.max())
    if len(left) == 0:
        return Estimate(known, 0.0)
    # The integration begins with the last feature: the narrowest side leaves least to draw.
    order = np.argsort(-(weights @ sides), kind="stable")
    integrand = _Integrand(
        box[:, order],
        kernels.means[np.ix_(left, order)],
        kernels.group_of_kernel[left],
        _triangles(kernels.transforms[:, order]),
    )
    values = _shifted_sums(integrand, weights[left], bounds[left] / bounds.sum(), n_draws, rng)
    error = float(values.std(ddof=1)) / np.sqrt(_N_SHIFTS)
    return Estimate(known + float(values.mean()), error, n_draws)


def _is_independent(transforms: np.ndarray) -> np.ndarray:
    """Whether the inverse covariance of every group is diagonal, rounding aside."""
    unit = transforms / _lengths(transforms, axis=2)
    partial = np.abs(np.matmul(unit, unit.transpose(0, 2, 1)))
    return (partial - np.eye(transforms.shape[1]) < _ROUNDING).all(axis=(1, 2))


class _Integrand(NamedTuple):
    """A box, and kernels with the triangles of their groups."""

    box: np.ndarray  #: (2, M)
    means: np.ndarray  #: (K, M)
    groups: np.ndarray  #: (K,)
    triangles: np.ndarray  #: (G, M, M)

    def at(self, kernels: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return estimates of the probability under some kernels, one for each point.

        From the last feature to the first, each is drawn inside the box given those before.
        """
        triangles = self.triangles[self.groups[kernels]]
        steps = np.zeros((len(kernels), self.means.shape[1]))  # from the mean
        out = np.ones(len(kernels))
        for m in reversed(range(self.means.shape[1])):
            rates, means = triangles[:, m, m], self.means[kernels, m]
            shift = np.einsum("ij,ij->i", steps, triangles[:, :, m])
            lower, upper = self.box[:, m]
            a, b = (lower - means) * rates + shift, (upper - means) * rates + shift
            out *= normal_probability(a, b, (upper - lower) * rates)
            if m > 0:
                steps[:, m] = (_normal_between(a, b, points[:, m - 1]) - shift) / rates
        return out


def _normal_between(a: np.ndarray, b: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return normal quantiles of probabilities ``u`` within bounds."""
    flip = a > 0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    u = np.where(flip, 1.0 - u, u)
    drawn = ndtri(ndtr(low) + u * (ndtr(high) - ndtr(low)))
    # Where the probability of the interval underflows, it is all at the nearest bound.
    drawn = np.where(np.isfinite(drawn), drawn, high).clip(low, high)
    return np.where(flip, -drawn, drawn)


def _shifted_sums(
    integrand: _Integrand,
    weights: np.ndarray,
    shares: np.ndarray,
    n_draws: int,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Return the sums over kernels, drawn by their shares, for every shifted point set."""
    n_digits = max(0, int(np.ceil(np.log2(n_draws / _N_SHIFTS))))
    n_points, n_features = 2**n_digits, integrand.means.shape[1]
    if 4 * len(shares) <= n_points:
        # Every kernel is drawn in every shift, so that none is missed by all.
        shares = np.maximum(shares, 2 / n_points)
        shares = shares / shares.sum()
    from scipy.stats import qmc  # takes a third of a second to import

    net = qmc.Sobol(n_features, scramble=False, bits=_BITS).random_base2(n_digits)
    digits = (net * 2**_BITS).astype(np.int64)
    out = np.empty(_N_SHIFTS)
    for i in range(_N_SHIFTS):
        # A digital shift keeps the points evenly spread; lower digits are drawn.
        shifted = digits ^ rng.randint(2**_BITS, size=n_features)
        points = (shifted + rng.uniform(size=n_features)) / 2**_BITS
        kernels = np.searchsorted(np.cumsum(shares)[:-1], points[:, -1], side="right")
        # Kernels that are certainly drawn have the same weight however often they are drawn.
        counts = np.bincount(kernels, minlength=len(shares))
        counts = np.where(shares * n_points >= 1, counts, shares * n_points)
        out[i] = weights[kernels] / counts[kernels] @ integrand.at(kernels, points)
    return out
