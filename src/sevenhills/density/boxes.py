"""Probabilities of boxes whose sides are parallel to the axes.

The probability of one feature, of two features, and of kernels with independent features is known
in closed form. Other kernels are integrated one feature after another, each conditional on those
before, at quasi-random points (Genz, Numerical computation of multivariate normal probabilities,
1992).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, owens_t

from ..estimate import Estimate
from ..validation import check_numbers
from .conditioning import feature_indices, marginal
from .sums import Kernels

#: Features of a kernel count as independent if their partial correlation is below this.
_ROUNDING = 1e-13
#: Smaller probabilities in the plane lose their digits in differences, and are integrated instead.
_MIN_CLOSED_FORM = 1e-9
#: Kernels whose upper bound on the probability of the box is below this fraction of the largest
#: are skipped.
_NEGLIGIBLE = 1e-200
#: Point sets that are shifted independently; the standard error comes from their differences.
_N_SHIFTS = 16
#: The binary digits of a point set.
_BITS = 30
#: Corners exactly at the mean of a kernel are moved by this many standard deviations: Owen's
#: function needs a nonzero argument.
_NUDGE = 1e-30


def box_probability(
    weights: np.ndarray,
    kernels: Kernels,
    lower: np.ndarray,
    upper: np.ndarray,
    n_draws: int,
    rng: np.random.RandomState,
) -> Estimate:
    """Return the probability of a box; features without bounds are integrated out first."""
    if (lower == upper).any():
        return Estimate(0.0, 0.0)
    bounded = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
    if len(bounded) == 0:
        return Estimate(1.0, 0.0)
    kernels, box = marginal(kernels, bounded), _Box(lower[bounded], upper[bounded])
    weights = weights / weights.sum()
    sides = _side_probabilities(kernels, box)
    if len(bounded) == 1:
        return Estimate(weights @ sides[:, 0], 0.0)
    if len(bounded) == 2:
        value = float(weights @ _plane_probabilities(kernels, box))
        if value >= _MIN_CLOSED_FORM:
            return Estimate(min(value, 1.0), 0.0)
    return _integrate(weights, kernels, box, sides, n_draws, rng)


# Bounds


def box_bounds(
    lower: Any, upper: Any, n_features: int, names: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return checked lower and upper bounds, from two lists or one mapping."""
    if isinstance(lower, Mapping):
        if upper is not None:
            raise TypeError("upper must not be given where lower maps features to bounds")
        a, b = _mapped_bounds(lower, n_features, names)
    else:
        if upper is None:
            raise TypeError("upper is missing")
        a = _listed_bounds(lower, "lower", n_features)
        b = _listed_bounds(upper, "upper", n_features)
    if (a > b).any():
        feature = int(np.argmax(a > b))
        raise ValueError(f"lower must not exceed upper, which it does at feature {feature}")
    return a, b


def _listed_bounds(values: Any, name: str, n_features: int) -> np.ndarray:
    bounds = check_numbers(values, name)
    if bounds.shape != (n_features,):
        raise ValueError(f"{name} must have shape ({n_features},), got {bounds.shape}")
    if np.isnan(bounds).any():
        raise ValueError(f"{name} must not be NaN")
    return bounds


def _mapped_bounds(
    bounds: Mapping[Any, Any], n_features: int, names: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    if not bounds:
        return a, b
    features = feature_indices(list(bounds), n_features, names)
    for feature, (key, pair) in zip(features, bounds.items(), strict=True):
        values = check_numbers(pair, f"lower[{key!r}]")
        if values.shape != (2,) or np.isnan(values).any():
            raise ValueError(f"lower[{key!r}] must be two bounds, got {pair!r}")
        a[feature], b[feature] = values
    return a, b


class _Box(NamedTuple):
    """The bounds of a box."""

    lower: np.ndarray
    upper: np.ndarray


# One feature at a time


def _side_probabilities(kernels: Kernels, box: _Box) -> np.ndarray:
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
    flipped = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        middle = 0.5 * flipped[0] + 0.5 * flipped[1]
        thin = width * (1.0 + np.abs(middle)) < 1e-3
        # The difference of close values has few digits; the Taylor series has all of them.
        bend = 1.0 + (middle**2 - 1.0) * width**2 / 24
        series = np.exp(-0.5 * middle**2) / np.sqrt(2 * np.pi) * width * bend
    return np.where(thin, series, ndtr(flipped[1]) - ndtr(flipped[0]))


def _has_independent_features(transforms: np.ndarray) -> np.ndarray:
    """Whether the inverse covariance of every group is diagonal, rounding aside."""
    unit = transforms / _lengths(transforms, axis=2)
    partial = np.abs(np.matmul(unit, unit.transpose(0, 2, 1)))
    return (partial - np.eye(transforms.shape[1]) < _ROUNDING).all(axis=(1, 2))


def _lengths(vectors: np.ndarray, axis: int) -> np.ndarray:
    """Return the lengths of vectors whose squares may overflow, keeping the axis."""
    sizes = np.abs(vectors).max(axis=axis, keepdims=True)
    return np.asarray(sizes * np.linalg.norm(vectors / sizes, axis=axis, keepdims=True))


# Two features


def _plane_probabilities(kernels: Kernels, box: _Box) -> np.ndarray:
    """Return the probability of a rectangle under every kernel, from the quadrants of corners."""
    group = kernels.group_of_kernel
    first = _triangles(kernels.transforms[:, ::-1])[group]  # the first feature by itself
    second = _triangles(kernels.transforms)[group]
    a, b = box
    total = np.zeros(kernels.n_kernels)
    for x, y, sign in ((a[0], a[1], 1), (a[0], b[1], -1), (b[0], a[1], -1), (b[0], b[1], 1)):
        total += sign * _quadrants(np.array([x, y]) - kernels.means, first, second)
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


# More features


def _integrate(
    weights: np.ndarray,
    kernels: Kernels,
    box: _Box,
    sides: np.ndarray,
    n_draws: int,
    rng: np.random.RandomState,
) -> Estimate:
    """Return the probability of a box, from the probabilities (K, M) of its sides."""
    independent = _has_independent_features(kernels.transforms)[kernels.group_of_kernel]
    known = float(weights[independent] @ sides[independent].prod(axis=1))
    # The probability of a box is at most that of its narrowest side.
    bounds = np.where(independent, 0.0, weights * sides.min(axis=1))
    left = np.flatnonzero(bounds > _NEGLIGIBLE * bounds.max())
    if len(left) == 0:
        return Estimate(known, 0.0)
    # The integration begins with the last feature: the narrowest side leaves least to draw.
    order = np.argsort(-(weights @ sides), kind="stable")
    integrand = _Integrand(
        box.lower[order],
        box.upper[order],
        kernels.means[np.ix_(left, order)],
        kernels.group_of_kernel[left],
        _triangles(kernels.transforms[:, order]),
    )
    values = _shifted_sums(integrand, weights[left], bounds[left] / bounds.sum(), n_draws, rng)
    error = float(values.std(ddof=1)) / np.sqrt(_N_SHIFTS)
    return Estimate(known + float(values.mean()), error, n_draws)


class _Integrand(NamedTuple):
    """A box, and kernels with the triangles of their groups."""

    lower: np.ndarray
    upper: np.ndarray
    means: np.ndarray
    groups: np.ndarray
    triangles: np.ndarray

    def at(self, kernels: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return estimates of the probability under some kernels, one for each point.

        From the last feature to the first, each is drawn inside the box given those before.
        """
        triangles = self.triangles[self.groups[kernels]]
        steps = np.zeros((len(kernels), len(self.lower)))  # from the mean
        out = np.ones(len(kernels))
        for m in reversed(range(len(self.lower))):
            rates, means = triangles[:, m, m], self.means[kernels, m]
            shift = np.einsum("ij,ij->i", steps, triangles[:, :, m])
            a = (self.lower[m] - means) * rates + shift
            b = (self.upper[m] - means) * rates + shift
            out *= normal_probability(a, b, (self.upper[m] - self.lower[m]) * rates)
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
    n_points, n_features = 2**n_digits, len(integrand.lower)
    if 4 * len(shares) <= n_points:
        # Every kernel is drawn in every shift, so that none is missed by all.
        shares = np.maximum(shares, 2 / n_points)
        shares = shares / shares.sum()
    digits = _sobol_digits(n_features, n_digits)
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


def _sobol_digits(n_features: int, n_digits: int) -> np.ndarray:
    """Return the binary digits of a Sobol net, as integers."""
    from scipy.stats import qmc  # takes a third of a second to import

    net = qmc.Sobol(n_features, scramble=False, bits=_BITS).random_base2(n_digits)
    return np.asarray(net * 2**_BITS).astype(np.int64)
