"""Maps of single features to latent coordinates, in which a density is a sum of Gaussian kernels.

A monotone map has one latent coordinate for every value: ``LogMap`` and ``ProbitMap`` for features
with bounds, ``YeoJohnson`` and ``TableMap`` for skewed features. ``MirrorMap`` and ``CircleMap``
fold the latent line onto an interval or a circle: a value has several images. All maps increase,
and keep the unit of the feature.

Functions with an argument ``xp`` take arrays of numpy, or tensors and the module ``torch``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import special

from ..validation import freeze

_LARGEST = float(np.finfo(float).max)
#: The exponential of a larger number overflows.
_MAX_LOG = 709.0
#: Smaller slopes would put samples beyond all floats.
_MIN_SLOPE = 1e-100
#: The derivatives of a constant.
_CONSTANT = (0.0, 0.0)
#: The least argument of log1p.
_LEAST_INNER = float(np.nextafter(-1.0, 0.0))
#: The least share of an interval that has a normal score.
_LEAST_SHARE = float(np.finfo(float).tiny)
_HALF_LOG_2PI = 0.9189385332046727


class Images(NamedTuple):
    """The latent coordinates ``signs * x + offsets`` of a value ``x``."""

    signs: np.ndarray
    offsets: np.ndarray


#: The only latent coordinate under a monotone map, after the map.
_ONE_IMAGE = Images(np.ones(1), np.zeros(1))


@dataclass(frozen=True)
class FeatureMap:
    """The identity, and the interface of all maps of one feature."""

    #: The name of the map in tables; empty for the identity.
    label: ClassVar[str] = ""
    #: Whether the latent coordinate of ``x + shift`` is shifted alike by :meth:`affine`.
    is_shifted: ClassVar[bool] = True

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value of the feature."""
        return -np.inf, np.inf

    @property
    def is_folding(self) -> bool:
        """Whether a value has several latent coordinates."""
        return False

    @property
    def fold(self) -> "FeatureMap":
        """The map of latent coordinates to those that are not folded, if there are several."""
        return self

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Return whether the density may be positive at values."""
        return np.ones(np.shape(x), dtype=bool)

    def latent(self, x: Any, xp: Any = np) -> tuple[Any, Any]:
        """Return the latent coordinates of values inside the support, and the log of the slope."""
        return x, 0.0

    def inverse(self, z: Any, xp: Any = np) -> Any:
        """Return the values of latent coordinates."""
        return z

    def forward(self, x: Any, xp: Any = np) -> Any:
        """Return the latent coordinates of values inside the support."""
        return self.latent(x, xp)[0]

    def log_slope(self, x: Any, xp: Any = np) -> Any:
        """Return the logarithm of the derivative of :meth:`forward`."""
        return self.latent(x, xp)[1]

    def bends(self, x: np.ndarray) -> tuple[Any, Any]:
        """Return the first and second derivative of :meth:`log_slope`."""
        return _CONSTANT

    def orientation(self, z: np.ndarray) -> Any:
        """Return whether :meth:`inverse` increases (1) or decreases (-1)."""
        return 1.0

    def images(self, low: float, high: float) -> Images:
        """Return the images of values that may be between two latent coordinates."""
        return _ONE_IMAGE

    def affine(self, factor: float, shift: float) -> "FeatureMap":
        """Return the map of ``x * factor + shift``, whose latent coordinates change alike."""
        return self


def _check(condition: bool, name: str, what: str, value: Any) -> None:
    if not condition:
        raise ValueError(f"{name} must be {what}, got {value!r}")


def _check_finite(record: Any, *names: str) -> None:
    """Turn the named fields into finite floats."""
    for name in names:
        value = float(getattr(record, name))
        _check(bool(np.isfinite(value)), name, "finite", value)
        object.__setattr__(record, name, value)


@dataclass(frozen=True)
class LogMap(FeatureMap):
    r"""A feature with one bound, at which the density vanishes or grows to infinity.

    .. math:: z = \pm s \log(|x - b| / s)

    Parameters
    ----------
    bound : float
        The bound :math:`b`.
    scale : float
        The distance :math:`s` from the bound at which the slope is one.
    is_upper : bool, default=False
        Whether values are below the bound, not above it.
    reach : float, optional
        The distance from the bound beyond which the map is straight. Wide kernels would have huge
        means without it.

    Examples
    --------
    >>> LogMap(0.0, 1.0).inverse(np.array([0.0]))
    array([1.])
    """

    label: ClassVar[str] = "log"
    is_shifted: ClassVar[bool] = False

    bound: float
    scale: float
    is_upper: bool = False
    reach: float = _LARGEST

    def __post_init__(self) -> None:
        _check_finite(self, "bound", "scale", "reach")
        _check(self.scale > 0, "scale", "positive", self.scale)
        _check(self.reach > 0, "reach", "positive", self.reach)

    @property
    def _sign(self) -> float:
        return -1.0 if self.is_upper else 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """The bound, and infinity."""
        return (-np.inf, self.bound) if self.is_upper else (self.bound, np.inf)

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Return whether values are beyond the bound."""
        return np.asarray(self._sign * (x - self.bound) > 0)

    def latent(self, x: Any, xp: Any = np) -> tuple[Any, Any]:
        """Return the latent coordinates of values beyond the bound, and the log of the slope."""
        distance, reach = self._sign * (x - self.bound), self._reach(x, xp)
        within = xp.clip(distance, None, reach)
        log = xp.log(within / self.scale)
        return self._sign * self.scale * (log + (distance - within) / reach), -log

    def inverse(self, z: Any, xp: Any = np) -> Any:
        """Return values, which are never at the bound."""
        log, reach = self._sign * z / self.scale, self._reach(z, xp)
        within = xp.clip(log, None, float(np.log(reach) - np.log(self.scale)))
        with np.errstate(over="ignore"):
            distance = self.scale * xp.exp(within) + reach * (log - within)
            x = self.bound + self._sign * distance
        return _inside(x, *self.bounds, xp)

    def _reach(self, x: Any, xp: Any) -> float:
        """Return the reach, or the largest number of the type of an array if that is less."""
        return min(self.reach, float(xp.finfo(x.dtype).max))

    def bends(self, x: np.ndarray) -> tuple[Any, Any]:
        """Return the derivatives of minus the log of the distance."""
        inverse = np.where(np.abs(x - self.bound) < self.reach, 1 / (x - self.bound), 0.0)
        return -inverse, inverse**2

    def affine(self, factor: float, shift: float) -> FeatureMap:
        """Return the map of ``x * factor + shift``."""
        with np.errstate(over="ignore"):
            scale, reach = self.scale * abs(factor), min(self.reach * abs(factor), _LARGEST)
        is_upper = self.is_upper != (factor < 0)
        return LogMap(self.bound * factor + shift, scale, is_upper, reach)


def _inside(x: Any, low: float, high: float, xp: Any) -> Any:
    """Move values at or beyond finite bounds to the next floats inside."""
    first, last = _as(np.array([low, high]), x, xp)
    return xp.clip(x, xp.nextafter(first, last), xp.nextafter(last, first))


@dataclass(frozen=True)
class ProbitMap(FeatureMap):
    r"""A feature with two bounds, at which the density vanishes or grows to infinity.

    .. math:: z = s \, \Phi^{-1}\Big(\frac{x - a}{b - a}\Big)

    The uniform distribution is normal in the latent coordinate.

    Parameters
    ----------
    low, high : float
        The bounds :math:`a` and :math:`b`.
    scale : float
        The unit :math:`s` of the latent coordinate.

    Examples
    --------
    >>> ProbitMap(0.0, 1.0, 0.25).forward(np.array([0.5]))
    array([0.])
    """

    label: ClassVar[str] = "probit"
    is_shifted: ClassVar[bool] = False

    low: float
    high: float
    scale: float

    def __post_init__(self) -> None:
        _check_finite(self, "low", "high", "scale")
        _check(self.low < self.high, "low", f"below high = {self.high}", self.low)
        _check(self.scale > 0, "scale", "positive", self.scale)

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds."""
        return self.low, self.high

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Return whether values are between the bounds."""
        return np.asarray((x > self.low) & (x < self.high))

    def latent(self, x: Any, xp: Any = np) -> tuple[Any, Any]:
        """Return the latent coordinates of values between the bounds, and the log of the slope."""
        u = self._scores(x, xp)
        return self.scale * u, 0.5 * u**2 + self._least_log_slope

    def _scores(self, x: Any, xp: Any) -> Any:
        """Return normal scores, from the nearer bound, which keeps digits."""
        below, above = x - self.low, self.high - x
        share = xp.minimum(below, above) / (self.high - self.low)
        u = _special(xp).ndtri(xp.clip(share, _LEAST_SHARE, 0.5))
        return xp.where(below <= above, u, -u)

    @property
    def _least_log_slope(self) -> float:
        """The log of the slope in the middle between the bounds."""
        return float(np.log(self.scale) - np.log(self.high - self.low)) + _HALF_LOG_2PI

    def inverse(self, z: Any, xp: Any = np) -> Any:
        """Return values, which are never at a bound."""
        share = (self.high - self.low) * _special(xp).ndtr(-abs(z) / self.scale)
        x = xp.where(z > 0, self.high - share, self.low + share)
        return _inside(x, self.low, self.high, xp)

    def bends(self, x: np.ndarray) -> tuple[Any, Any]:
        """Return the derivatives of the log slope."""
        u = self._scores(x, np)
        with np.errstate(over="ignore"):
            rate = np.exp(0.5 * u**2 + self._least_log_slope) / self.scale
            return u * rate, (1 + u**2) * rate**2

    def affine(self, factor: float, shift: float) -> FeatureMap:
        """Return the map of ``x * factor + shift``."""
        low, high = sorted([self.low * factor + shift, self.high * factor + shift])
        return ProbitMap(low, high, self.scale * abs(factor))


def _special(xp: Any) -> Any:
    """Return the special functions of numpy or of torch."""
    return special if xp is np else xp.special


@dataclass(frozen=True)
class YeoJohnson(FeatureMap):
    r"""The power map of Yeo and Johnson for a skewed feature, straight beyond two values.

    .. math:: z = c + s \, h_\lambda\Big(\frac{x - c}{s}\Big), \qquad
              h_\lambda(u) = \begin{cases}
              ((1 + u)^\lambda - 1) / \lambda & u \ge 0 \\
              -((1 - u)^{2 - \lambda} - 1) / (2 - \lambda) & u < 0 \end{cases}

    The slope is one at the center. A power below 0 or above 2 would squeeze all values beyond some
    value into a short interval; so the map is straight below ``low`` and above ``high``.

    Parameters
    ----------
    power : float
        The power :math:`\lambda`; 1 is the identity, less draws in a long upper tail.
    center, scale : float
        The location :math:`c` and the scale :math:`s`.
    low, high : float, optional
        The values beyond which the map is straight; needed for powers outside of 0 to 2.

    References
    ----------
    I.-K. Yeo, R. A. Johnson: A new family of power transformations to improve normality or
    symmetry. Biometrika, 2000.

    Examples
    --------
    >>> YeoJohnson(0.0, 1.0, 2.0).forward(np.array([1.0]))
    array([1.])
    """

    label: ClassVar[str] = "Yeo-Johnson"

    power: float
    center: float
    scale: float
    low: float = -_LARGEST
    high: float = _LARGEST

    def __post_init__(self) -> None:
        _check_finite(self, "power", "center", "scale", "low", "high")
        _check(self.scale > 0, "scale", "positive", self.scale)
        _check(self.low < self.high, "low", f"below high = {self.high}", self.low)
        for name, is_open in (("low", self.power > 2), ("high", self.power < 0)):
            value = getattr(self, name)
            if is_open and self.log_slope(np.array(value)) < np.log(_MIN_SLOPE):
                raise ValueError(f"{name} must be given for power = {self.power}, got {value!r}")

    def latent(self, x: Any, xp: Any = np) -> tuple[Any, Any]:
        """Return the latent coordinates of values, and the log of the slope."""
        within = x if self._is_curved else xp.clip(x, self.low, self.high)
        u = (within - self.center) / self.scale
        sign, power = self._side(u, xp)
        log = xp.log1p(sign * u)
        z = self.center + self.scale * sign * _grown(log, power, xp)
        log_slope = (power - 1) * log
        return z if within is x else z + _beyond(x - within, log_slope, xp), log_slope

    def inverse(self, z: Any, xp: Any = np) -> Any:
        """Return the values of latent coordinates."""
        within = z if self._is_curved else xp.clip(z, *self._ends)
        y = (within - self.center) / self.scale
        sign, power = self._side(y, xp)
        log = _shrunk(sign * y, power, xp)
        with np.errstate(over="ignore"):
            x = self.center + self.scale * sign * xp.expm1(log)
            if within is not z:
                x = xp.clip(x, self.low, self.high) + _beyond(z - within, (1 - power) * log, xp)
        return _inside(x, *self.bounds, xp)

    def _side(self, u: Any, xp: Any) -> tuple[Any, Any]:
        """Return the sign and the power, above the center or below it."""
        sign = xp.sign(u) + (u == 0)
        return sign, 1 + sign * (self.power - 1)

    @property
    def _is_curved(self) -> bool:
        """Whether the map is straight nowhere."""
        return self.low == -_LARGEST and self.high == _LARGEST

    def bends(self, x: np.ndarray) -> tuple[Any, Any]:
        """Return the derivatives of the log slope."""
        u = (x - self.center) / self.scale
        sign, power = self._side(u, np)
        steps = 1 / (1 + sign * u) / self.scale
        curved = (x > self.low) & (x < self.high)
        first, second = sign * (power - 1) * steps, (1 - power) * steps**2
        return np.where(curved, first, 0.0), np.where(curved, second, 0.0)

    def affine(self, factor: float, shift: float) -> FeatureMap:
        """Return the map of ``x * factor + shift``."""
        with np.errstate(over="ignore"):
            ends = np.array([self.low, self.high]) * factor + shift
        low, high = np.sort(ends.clip(-_LARGEST, _LARGEST)).tolist()
        power = self.power if factor > 0 else 2 - self.power
        return YeoJohnson(power, self.center * factor + shift, self.scale * abs(factor), low, high)

    @property
    def _ends(self) -> tuple[float, float]:
        """The latent coordinates beyond which the map is straight."""
        with np.errstate(over="ignore"):
            ends = self.forward(np.array([self.low, self.high]))
        low, high = ends.clip(-_LARGEST, _LARGEST).tolist()
        return low, high


def _beyond(apart: Any, log_slope: Any, xp: Any) -> Any:
    """Return the change along a straight line, zero at its start whatever the slope."""
    return apart * xp.exp(xp.clip(log_slope, -_MAX_LOG, _MAX_LOG))


def _grown(log: Any, power: Any, xp: Any) -> Any:
    """Return ``(exp(power * log) - 1) / power``, and its limit for a power of zero."""
    safe = xp.where(power == 0, 1.0, power)
    return xp.where(power == 0, log, xp.expm1(xp.clip(safe * log, None, _MAX_LOG)) / safe)


def _shrunk(size: Any, power: Any, xp: Any) -> Any:
    """Return the inverse of :func:`_grown`."""
    safe = xp.where(power == 0, 1.0, power)
    inner = xp.clip(safe * size, _LEAST_INNER, None)
    return xp.where(power == 0, size, xp.log1p(inner) / safe)


@dataclass(frozen=True, eq=False)
class TableMap(FeatureMap):
    r"""A monotone map whose slope is interpolated between knots, and constant beyond them.

    Between two knots the slope is a straight line and the map a parabola, so that the density is
    continuous and the map is inverted in closed form.

    Parameters
    ----------
    knots : array-like of shape (n_knots,)
        Ascending values of the feature.
    slopes : array-like of shape (n_knots,)
        The slopes at the knots, positive.
    start : float
        The latent coordinate of the first knot.

    Examples
    --------
    >>> table = TableMap([0.0, 1.0], [1.0, 3.0], 0.0)
    >>> table.forward(np.array([0.0, 1.0, 2.0]))
    array([0., 2., 5.])
    """

    label: ClassVar[str] = "table"

    knots: np.ndarray
    slopes: np.ndarray
    start: float

    def __post_init__(self) -> None:
        freeze(self, "knots", "slopes")
        _check_finite(self, "start")
        for name in ("knots", "slopes"):
            values = np.asarray(getattr(self, name), dtype=float)
            fits = values.ndim == 1 and len(values) >= 2 and values.shape == self.knots.shape
            _check(fits and bool(np.isfinite(values).all()), name, "finite, two or more", values)
        _check(bool((np.diff(self.knots) > 0).all()), "knots", "ascending", self.knots)
        _check(bool((self.slopes > 0).all()), "slopes", "positive", self.slopes)

    def __eq__(self, other: object) -> bool:
        """Whether another map has the same table."""
        return isinstance(other, TableMap) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[bytes, bytes, float]:
        return self.knots.tobytes(), self.slopes.tobytes(), self.start

    @classmethod
    def from_values(cls, x: np.ndarray, z: np.ndarray) -> Self:
        """Return a smooth map through about the latent coordinates ``z`` of ascending ``x``."""
        from scipy.interpolate import PchipInterpolator

        slopes = PchipInterpolator(x, z).derivative()(x)
        least = np.diff(z).min() / np.ptp(x) / len(x)
        return cls(x, np.maximum(slopes, least), float(z[0]))

    @cached_property
    def _values(self) -> np.ndarray:
        """The latent coordinates of the knots."""
        steps = np.diff(self.knots) * (self.slopes[1:] + self.slopes[:-1]) / 2
        return self.start + np.append(0.0, np.cumsum(steps))

    @cached_property
    def _table(self) -> tuple[np.ndarray, ...]:
        """First knot, latent coordinate, slope and change of slope of every part."""
        first = [0, *range(len(self.knots))]
        turns = np.concatenate([[0.0], np.diff(self.slopes) / np.diff(self.knots), [0.0]])
        return self.knots[first], self._values[first], self.slopes[first], turns

    def _parts(self, x: Any, ends: np.ndarray, xp: Any) -> tuple[Any, ...]:
        """Return first knot, latent coordinate, slope and change of slope of the part of values.

        ``ends`` are the places of the knots among the values.
        """
        part = xp.searchsorted(_as(ends, x, xp), x, side="right")
        return tuple(_as(each, x, xp)[part] for each in self._table)

    def latent(self, x: Any, xp: Any = np) -> tuple[Any, Any]:
        """Return the latent coordinates of values, and the log of the slope."""
        knot, value, slope, turn = self._parts(x, self.knots, xp)
        apart = x - knot
        change = turn * apart
        return value + apart * (slope + 0.5 * change), xp.log(slope + change)

    def inverse(self, z: Any, xp: Any = np) -> Any:
        """Return the values of latent coordinates."""
        knot, value, slope, turn = self._parts(z, self._values, xp)
        apart = z - value
        # The root of the parabola that does not cancel.
        root = xp.sqrt(xp.clip(slope**2 + 2 * turn * apart, 0.0, None))
        return knot + 2 * apart / (slope + root)

    def bends(self, x: np.ndarray) -> tuple[Any, Any]:
        """Return the derivatives of the log slope."""
        knot, _, slope, turn = self._parts(x, self.knots, np)
        first = turn / (slope + turn * (x - knot))
        return first, -(first**2)

    def affine(self, factor: float, shift: float) -> FeatureMap:
        """Return the map of ``x * factor + shift``."""
        knots, values = self.knots * factor + shift, self._values * factor + shift
        if factor > 0:
            return replace(self, knots=knots, start=float(values[0]))
        return TableMap(knots[::-1], self.slopes[::-1], float(values[-1]))


def _as(values: np.ndarray, like: Any, xp: Any) -> Any:
    """Return an array as one of numpy, or as a tensor like another."""
    return values if xp is np else xp.tensor(values, dtype=like.dtype, device=like.device)


@dataclass(frozen=True)
class MirrorMap(FeatureMap):
    r"""A feature with one or two bounds, at which the density does not vanish.

    Kernels beyond a bound are mirrored at it: :math:`p(x) = q(x) + q(2a - x)` for values above
    :math:`a`, and further images if there is another bound.

    Parameters
    ----------
    low, high : float or None
        The bounds; None where there is none.

    Examples
    --------
    >>> MirrorMap(0.0, None).inverse(np.array([-2.0, 3.0]))
    array([2., 3.])
    """

    label: ClassVar[str] = "mirror"

    low: float | None
    high: float | None

    def __post_init__(self) -> None:
        _check_finite(self, *(name for name in ("low", "high") if getattr(self, name) is not None))
        low, high = self.bounds
        _check(np.isfinite(low) or np.isfinite(high), "low or high", "given", (None, None))
        _check(low < high, "low", f"below high = {high}", low)

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds."""
        low, high = self.low, self.high
        return -np.inf if low is None else low, np.inf if high is None else high

    @property
    def is_folding(self) -> bool:
        """True."""
        return True

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Return whether values are between the bounds, or at them."""
        low, high = self.bounds
        return np.asarray((x >= low) & (x <= high))

    def inverse(self, z: Any, xp: Any = np) -> Any:
        """Fold latent coordinates into the support."""
        if self.high is None:
            return self.low + abs(z - self.low)
        if self.low is None:
            return self.high - abs(z - self.high)
        width = self.high - self.low
        apart = width - abs(xp.remainder(z - self.low, 2 * width) - width)
        return xp.clip(self.low + apart, self.low, self.high)

    def orientation(self, z: np.ndarray) -> Any:
        """Return whether :meth:`inverse` increases (1) or decreases (-1)."""
        if self.low is None or self.high is None:
            return np.where((z < self.low) if self.high is None else (z > self.high), -1.0, 1.0)
        width = self.high - self.low
        return np.where(np.remainder(z - self.low, 2 * width) > width, -1.0, 1.0)

    def images(self, low: float, high: float) -> Images:
        """Return the images of values that may be between two latent coordinates."""
        if self.low is None or self.high is None:
            bound = self.low if self.high is None else self.high
            return Images(np.array([1.0, -1.0]), np.array([0.0, 2 * (bound or 0.0)]))
        period = 2 * (self.high - self.low)
        turns = _turns(low - self.low, high - self.low, period)
        return Images(
            np.repeat([1.0, -1.0], len(turns)),
            np.append(turns * period, 2 * self.low + turns * period),
        )

    def affine(self, factor: float, shift: float) -> FeatureMap:
        """Return the map of ``x * factor + shift``."""
        ends = [None if end is None else end * factor + shift for end in (self.low, self.high)]
        return MirrorMap(*(ends if factor > 0 else ends[::-1]))


def _turns(low: float, high: float, period: float) -> np.ndarray:
    """Return the multiples of a period that reach from it to an interval; zero first."""
    turns = np.arange(np.floor(low / period), np.floor(high / period) + 1)
    return np.append(0.0, turns[turns != 0])


@dataclass(frozen=True)
class CircleMap(FeatureMap):
    r"""A feature on a circle, such as a direction or a time of day.

    Kernels are wrapped around the circle: :math:`p(x) = \sum_k q(x + k P)`. Values that differ by
    the period are the same.

    Parameters
    ----------
    low : float
        The least value of samples.
    period : float
        The period :math:`P`, in data units.

    Examples
    --------
    >>> CircleMap(0.0, 360.0).inverse(np.array([-2.0, 362.0]))
    array([358.,   2.])
    """

    label: ClassVar[str] = "circle"

    low: float
    period: float

    def __post_init__(self) -> None:
        _check_finite(self, "low", "period")
        _check(self.period > 0, "period", "positive", self.period)

    @property
    def bounds(self) -> tuple[float, float]:
        """One turn of the circle."""
        return self.low, self.low + self.period

    @property
    def is_folding(self) -> bool:
        """True."""
        return True

    def inverse(self, z: Any, xp: Any = np) -> Any:
        """Return values on the first turn of the circle."""
        x = self.low + xp.remainder(z - self.low, self.period)
        return xp.where(x < self.low + self.period, x, xp.full_like(x, self.low))

    def images(self, low: float, high: float) -> Images:
        """Return the images of values that may be between two latent coordinates."""
        turns = _turns(low - self.low, high - self.low, self.period)
        return Images(np.ones(len(turns)), turns * self.period)

    def affine(self, factor: float, shift: float) -> FeatureMap:
        """Return the map of ``x * factor + shift``."""
        low = min(end * factor + shift for end in self.bounds)
        return CircleMap(low, self.period * abs(factor))


@dataclass(frozen=True)
class ChainMap(FeatureMap):
    """A bounded feature that is skewed: the map of its bounds, and then one of its shape.

    Parameters
    ----------
    first : LogMap, ProbitMap or MirrorMap
        The map of the feature. A mirror is put where the second map leads its bounds.
    second : YeoJohnson or TableMap
        The map of the latent coordinate of the first one.

    Examples
    --------
    >>> ChainMap(LogMap(0.0, 1.0), YeoJohnson(1.0, 0.0, 1.0)).inverse(np.array([0.0]))
    array([1.])
    """

    first: LogMap | ProbitMap | MirrorMap
    second: YeoJohnson | TableMap

    def __post_init__(self) -> None:
        allowed = {"first": (LogMap, ProbitMap, MirrorMap), "second": (YeoJohnson, TableMap)}
        for name, kinds in allowed.items():
            names, value = " or ".join(kind.__name__ for kind in kinds), getattr(self, name)
            _check(isinstance(value, kinds), name, f"a {names}", value)

    @property
    def label(self) -> str:  # type: ignore[override]
        """The names of both maps."""
        return f"{self.first.label}, {self.second.label}"

    @property
    def is_shifted(self) -> bool:  # type: ignore[override]
        """Whether the latent coordinate of ``x + shift`` is shifted alike by :meth:`affine`."""
        return self.first.is_shifted

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of the feature."""
        return self.first.bounds

    @property
    def is_folding(self) -> bool:
        """Whether the first map is a mirror."""
        return self.first.is_folding

    @cached_property
    def fold(self) -> FeatureMap:
        """The mirror of latent coordinates; the identity without one."""
        if not isinstance(self.first, MirrorMap):
            return FeatureMap()
        ends = (self.first.low, self.first.high)
        latent = [
            None if end is None else float(self.second.forward(np.array(end))) for end in ends
        ]
        return MirrorMap(*latent)

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Return whether values are inside the bounds."""
        return self.first.contains(x)

    def latent(self, x: Any, xp: Any = np) -> tuple[Any, Any]:
        """Return the latent coordinates of values inside the bounds, and the log of the slope."""
        between, log_slope = self.first.latent(x, xp)
        z, other = self.second.latent(between, xp)
        return z, log_slope + other

    def inverse(self, z: Any, xp: Any = np) -> Any:
        """Return values inside the bounds."""
        return self.first.inverse(self.second.inverse(self.fold.inverse(z, xp), xp), xp)

    def bends(self, x: np.ndarray) -> tuple[Any, Any]:
        """Return the derivatives of the log slope, by the chain rule."""
        between, log_slope = self.first.latent(x)
        slope = np.exp(log_slope)
        first, second = self.first.bends(x)
        other, others = self.second.bends(between)
        return first + slope * other, second + slope * (first * other + slope * others)

    def orientation(self, z: np.ndarray) -> Any:
        """Return whether :meth:`inverse` increases (1) or decreases (-1)."""
        return self.fold.orientation(z)

    def images(self, low: float, high: float) -> Images:
        """Return the images of values that may be between two latent coordinates."""
        return self.fold.images(low, high)

    def affine(self, factor: float, shift: float) -> FeatureMap:
        """Return the map of ``x * factor + shift``."""
        first: Any = self.first.affine(factor, shift)
        second: Any = self.second.affine(factor, shift if self.is_shifted else 0.0)
        return ChainMap(first, second)


#: The maps that model files may hold.
AnyMap = FeatureMap | LogMap | ProbitMap | YeoJohnson | TableMap | MirrorMap | CircleMap | ChainMap
Maps = tuple[AnyMap, ...]


def map_columns(maps: Sequence[FeatureMap], method: str, X: np.ndarray) -> np.ndarray:
    """Apply a method of the map of every feature to the columns of an array."""
    out = np.empty(X.shape)
    for j, each in enumerate(maps):
        out[:, j] = getattr(each, method)(X[:, j])
    return out
