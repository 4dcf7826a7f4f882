"""Probabilities of boxes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, owens_t

from ..estimate import Estimate
from ..validation import check_count, check_numbers, random_generator
from .groups import KernelGroups
from .line import Line
from .marginals import Marginals

#: Features count as independent in a kernel if their partial correlation is below this.
_ROUNDING = 1e-13
#: Probabilities in the plane that are smaller lose their digits in differences.
_LEAST_EXACT = 1e-9
#: Kernels of which so little can be in the box, relative to the most, are left out.
_NEGLIGIBLE = 1e-200
#: Point sets that are shifted independently, whose differences give the error.
_N_SHIFTS = 16
#: The binary digits of a point set.
_BITS = 30
#: So much off its centre, in standard deviations, is a corner that would be at it.
_NUDGE = 1e-30


class Boxes(Line, Marginals):
    """Probabilities of boxes under kernel mixtures."""

    def probability(
        self, lower: Any, upper: Any = None, *, n_draws: int = 2**14, random_state: Any = 0
    ) -> Estimate:
        r"""Return the probability of a box whose sides are parallel to the axes.

        .. math:: P(a \le x \le b) = \sum_k w_k \int_a^b N(x; \mu_k, \Sigma_{g(k)}) \, dx

        Features without bounds are left out first, which is exact. With one or two bounded
        features, and for kernels whose features are independent, the probability is known in
        closed form; what is left is integrated one feature after another, each given those
        before, at quasi-random points [1]_.

        Parameters
        ----------
        lower : array-like of shape (n_features,) or mapping
            The lower bounds, minus infinity where there is none; or a mapping from the bounded
            features, by index or by name, to pairs ``(lower, upper)``.
        upper : array-like of shape (n_features,), optional
            The upper bounds, infinity where there is none; not with a mapping.
        n_draws : int, default=16384
            The number of quasi-random points, rounded up to sixteen times a power of two.
        random_state : int, RandomState instance or None, default=0
            What shifts them.

        Returns
        -------
        Estimate
            A float with its standard error ``std_error``, zero where it is exact but for rounding.

        References
        ----------
        .. [1] A. Genz: Numerical computation of multivariate normal probabilities. Journal of
           Computational and Graphical Statistics, 1992.

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture(
        ...     [1.0], [[0.0, 0.0]], [0, 1], [np.eye(2)], feature_names=["a", "b"]
        ... )
        >>> round(plane.probability([0.0, 0.0], [np.inf, np.inf]), 6)
        0.25
        >>> round(plane.probability({"b": (-1.0, 1.0)}), 4)
        0.6827
        """
        a, b = self._bounds(lower, upper)
        n_draws = check_count(n_draws, "n_draws", least=1)
        rng = random_generator(random_state)
        if (a == b).any():
            return Estimate(0.0, 0.0)
        bounded = np.flatnonzero(np.isfinite(a) | np.isfinite(b))
        if len(bounded) == 0:
            return Estimate(1.0, 0.0)
        return _mass_of_box(self.marginal(bounded), a[bounded], b[bounded], n_draws, rng)

    def _bounds(self, lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(lower, Mapping):
            if upper is not None:
                raise TypeError("upper must not be given where lower maps features to bounds")
            a, b = self._mapped_bounds(lower)
        else:
            if upper is None:
                raise TypeError("upper is missing")
            a, b = self._listed_bounds(lower, "lower"), self._listed_bounds(upper, "upper")
        if (a > b).any():
            feature = int(np.argmax(a > b))
            raise ValueError(f"lower must not exceed upper, which it does at feature {feature}")
        return a, b

    def _listed_bounds(self, values: Any, name: str) -> np.ndarray:
        bounds = check_numbers(values, name)
        if bounds.shape != (self.n_features,):
            raise ValueError(f"{name} must have shape ({self.n_features},), got {bounds.shape}")
        if np.isnan(bounds).any():
            raise ValueError(f"{name} must not be NaN")
        return bounds

    def _mapped_bounds(self, bounds: Mapping[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
        a, b = np.full(self.n_features, -np.inf), np.full(self.n_features, np.inf)
        features = self._features(list(bounds)) if bounds else np.array([], dtype=np.int64)
        for feature, (key, pair) in zip(features, bounds.items(), strict=True):
            values = check_numbers(pair, f"lower[{key!r}]")
            if values.shape != (2,) or np.isnan(values).any():
                raise ValueError(f"lower[{key!r}] must be two bounds, got {pair!r}")
            a[feature], b[feature] = values
        return a, b


def _mass_of_box(
    density: KernelGroups, a: np.ndarray, b: np.ndarray, n_draws: int, rng: np.random.RandomState
) -> Estimate:
    """Return the probability of a box whose features are all bounded."""
    weights = density.weights / density.weights.sum()
    masses = _masses_by_feature(density, a, b)
    if density.n_features == 1:
        return Estimate(weights @ masses[:, 0], 0.0)
    if density.n_features == 2:
        value = float(weights @ _masses_in_plane(density, a, b))
        if value >= _LEAST_EXACT:
            return Estimate(min(value, 1.0), 0.0)
    return _mass_in_space(density, weights, masses, a, b, n_draws, rng)


def _mass_in_space(
    density: KernelGroups,
    weights: np.ndarray,
    masses: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    n_draws: int,
    rng: np.random.RandomState,
) -> Estimate:
    """Return the probability of a box from the masses (K, M) of kernels, feature by feature."""
    independent = _has_independent_features(density.transforms)[density._group_of_kernel]
    known = float(weights[independent] @ masses[independent].prod(axis=1))
    # No kernel has more in the box than in its narrowest side.
    tops = np.where(independent, 0.0, weights * masses.min(axis=1))
    left = np.flatnonzero(tops > _NEGLIGIBLE * tops.max())
    if len(left) == 0:
        return Estimate(known, 0.0)
    # The narrowest side comes last, where the integration begins, for there is least to draw.
    order = np.argsort(-(weights @ masses), kind="stable")
    sides = _Sides.of(density, a, b, left, order)
    values = _shifted_sums(sides, weights[left], tops[left] / tops.sum(), n_draws, rng)
    error = float(values.std(ddof=1)) / np.sqrt(_N_SHIFTS)
    return Estimate(known + float(values.mean()), error, n_draws)


def _masses_by_feature(density: KernelGroups, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return how much of every kernel is between the bounds of every feature, (K, M)."""
    # The standard deviations are the lengths of the columns of what makes kernels of unit ones.
    stds = _lengths(np.linalg.inv(density.transforms), axis=1)[:, 0][density._group_of_kernel]
    with np.errstate(over="ignore"):
        first, last = (a - density.means) / stds, (b - density.means) / stds
        return normal_mass(first, last, (b - a) / stds)


def normal_mass(a: Any, b: Any, width: Any) -> np.ndarray:
    """Return how much of the standard normal distribution is between bounds, relatively exact.

    The width ``b - a`` may be known better than its bounds are.
    """
    flipped = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        middle = 0.5 * flipped[0] + 0.5 * flipped[1]
        thin = width * (1.0 + np.abs(middle)) < 1e-3
        # The differences of close values have few digits; the Taylor series has them all.
        bend = 1.0 + (middle**2 - 1.0) * width**2 / 24
        series = np.exp(-0.5 * middle**2) / np.sqrt(2 * np.pi) * width * bend
    return np.where(thin, series, ndtr(flipped[1]) - ndtr(flipped[0]))


def _has_independent_features(transforms: np.ndarray) -> np.ndarray:
    """Whether the inverse covariance of every group is diagonal but for rounding."""
    unit = transforms / _lengths(transforms, axis=2)
    partial = np.abs(np.matmul(unit, unit.transpose(0, 2, 1)))
    return (partial - np.eye(transforms.shape[1]) < _ROUNDING).all(axis=(1, 2))


def _lengths(vectors: np.ndarray, axis: int) -> np.ndarray:
    """Return the lengths of vectors whose squares may be no floats, keeping the axis."""
    sizes = np.abs(vectors).max(axis=axis, keepdims=True)
    return np.asarray(sizes * np.linalg.norm(vectors / sizes, axis=axis, keepdims=True))


# In the plane


def _masses_in_plane(density: KernelGroups, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return how much of every kernel is in a rectangle, from the quadrants below its corners."""
    group = density._group_of_kernel
    first = triangles_of(density.transforms[:, ::-1])[group]  # the first feature by itself
    second = triangles_of(density.transforms)[group]
    total = np.zeros(density.n_kernels)
    for x, y, sign in ((a[0], a[1], 1), (a[0], b[1], -1), (b[0], a[1], -1), (b[0], b[1], 1)):
        total += sign * _quadrants(np.array([x, y]) - density.means, first, second)
    return total


def _quadrants(corners: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    r"""Return how much is below and left of corners (K, 2), by Owen's function.

    .. math:: \Phi_2(h, k) = \frac{\Phi(h) + \Phi(k)}{2} - T\Big(h, \frac{k'}{h}\Big)
              - T\Big(k, \frac{h'}{k}\Big) - \frac{[h k < 0]}{2}

    where :math:`k'` is the standardised second coordinate given the first, and :math:`h'` the
    first given the second.
    """
    x, y = corners.T
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # At the centre itself the fractions mean nothing.
        x = np.where(x == 0, _NUDGE / first[:, 1, 1], x)
        y = np.where(y == 0, _NUDGE / second[:, 1, 1], y)
        h, k = x * first[:, 1, 1], y * second[:, 1, 1]
        k_given = y * first[:, 0, 0] + x * first[:, 1, 0]
        h_given = x * second[:, 0, 0] + y * second[:, 1, 0]
        opposite = np.where((h > 0) != (k > 0), 0.5, 0.0)
        owens = owens_t(h, k_given / h) + owens_t(k, h_given / k)
        finite = 0.5 * (ndtr(h) + ndtr(k)) - owens - opposite
    # Without a bound on one side, it is what is below the other.
    return np.where(np.isfinite(h) & np.isfinite(k), finite, np.minimum(ndtr(h), ndtr(k)))


def triangles_of(transforms: np.ndarray) -> np.ndarray:
    """Return lower triangles, positive on the diagonal, that make unit Gaussians as transforms do.

    The last feature is turned by itself, the one before together with the last, and so on.
    """
    upper = np.linalg.qr(transforms.transpose(0, 2, 1), mode="r")
    signs = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return np.asarray((signs[:, :, None] * upper).transpose(0, 2, 1))


# In more dimensions


class _Sides(NamedTuple):
    """A box, and kernels with the triangles of their groups."""

    lower: np.ndarray
    upper: np.ndarray
    means: np.ndarray
    groups: np.ndarray
    triangles: np.ndarray

    @classmethod
    def of(
        cls,
        density: KernelGroups,
        a: np.ndarray,
        b: np.ndarray,
        kernels: np.ndarray,
        order: np.ndarray,
    ) -> "_Sides":
        """Take some kernels, and the features in some order."""
        return cls(
            a[order],
            b[order],
            density.means[np.ix_(kernels, order)],
            density._group_of_kernel[kernels],
            triangles_of(density.transforms[:, order]),
        )

    def masses(self, kernels: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return estimates of how much of some kernels is in the box, one for each point.

        From the last feature to the first, each is drawn inside the box given those before.
        """
        triangles = self.triangles[self.groups[kernels]]
        steps = np.zeros((len(kernels), len(self.lower)))  # from the centre
        out = np.ones(len(kernels))
        for m in reversed(range(len(self.lower))):
            rates, means = triangles[:, m, m], self.means[kernels, m]
            shift = np.einsum("ij,ij->i", steps, triangles[:, :, m])
            a = (self.lower[m] - means) * rates + shift
            b = (self.upper[m] - means) * rates + shift
            out *= normal_mass(a, b, (self.upper[m] - self.lower[m]) * rates)
            if m > 0:
                steps[:, m] = (_normal_between(a, b, points[:, m - 1]) - shift) / rates
        return out


def _normal_between(a: np.ndarray, b: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the normal deviates between bounds at shares ``u`` of what is between them."""
    flip = a > 0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    u = np.where(flip, 1.0 - u, u)
    drawn = ndtri(ndtr(low) + u * (ndtr(high) - ndtr(low)))
    # Where even the probabilities are zero, the bound that is nearest has all there is.
    drawn = np.where(np.isfinite(drawn), drawn, high).clip(low, high)
    return np.where(flip, -drawn, drawn)


def _shifted_sums(
    sides: _Sides,
    weights: np.ndarray,
    shares: np.ndarray,
    n_draws: int,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Return the sums over kernels, drawn by their shares, at independently shifted points."""
    n_digits = max(0, int(np.ceil(np.log2(n_draws / _N_SHIFTS))))
    n_points, n_features = 2**n_digits, len(sides.lower)
    if 4 * len(shares) <= n_points:
        # Enough for every kernel to be drawn for sure, so that none is missed by all shifts.
        shares = np.maximum(shares, 2 / n_points)
        shares = shares / shares.sum()
    digits = _even_points(n_features, n_digits)
    out = np.empty(_N_SHIFTS)
    for i in range(_N_SHIFTS):
        # A digital shift keeps the points even; what is below their digits is drawn.
        shifted = digits ^ rng.randint(2**_BITS, size=n_features)
        points = (shifted + rng.uniform(size=n_features)) / 2**_BITS
        kernels = np.searchsorted(np.cumsum(shares)[:-1], points[:, -1], side="right")
        # Kernels that are surely drawn count alike however often they were.
        counts = np.bincount(kernels, minlength=len(shares))
        counts = np.where(shares * n_points >= 1, counts, shares * n_points)
        out[i] = weights[kernels] / counts[kernels] @ sides.masses(kernels, points)
    return out


def _even_points(n_features: int, n_digits: int) -> np.ndarray:
    """Return the binary digits of a Sobol net of points, as whole numbers."""
    from scipy.stats import qmc  # a third of a second that others need not wait

    net = qmc.Sobol(n_features, scramble=False, bits=_BITS).random_base2(n_digits)
    return np.asarray(net * 2**_BITS).astype(np.int64)
