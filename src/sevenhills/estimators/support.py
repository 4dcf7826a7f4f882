"""Supports of features: bounds and circles, and the maps to latent coordinates that follow.

Kernels on a bounded feature are put on latent coordinates. Two maps keep the density inside of
bounds. A log map (:class:`~sevenhills.density.LogMap`, :class:`~sevenhills.density.ProbitMap`)
stretches the values near a bound, and the density vanishes at the bound or grows to infinity. A
mirror (:class:`~sevenhills.density.MirrorMap`) folds the kernels at the bound, where the density
is then flat. The one under which left-out samples are more probable is taken, feature by feature.
Log maps may bend relations between features: if left-out samples are then more probable under
kernels of all features without any map, mirrors are taken.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtri
from sklearn.utils import check_array

from ..clustering import Points
from ..clustering.points import canonical_features, least_spread_cut
from ..covariance import weighted_moments, whitening_transforms
from ..density import KernelMixture
from ..density.maps import (
    AnyMap,
    ChainMap,
    CircleMap,
    FeatureMap,
    LogMap,
    Maps,
    MirrorMap,
    ProbitMap,
    TableMap,
    YeoJohnson,
    map_columns,
)
from ..validation import check_positive, is_auto
from ..whitening import silverman

#: The maps that a declaration may name.
_KINDS = ("log", "mirror")
#: The periods that plain "circular" may stand for: radians, hours, degrees. Each one is more than
#: twice the one before, so that values over more than half of a period fit one only.
_PERIODS = (2 * np.pi, 24.0, 360.0)
#: Values may exceed a period by this fraction: radians are written with few digits.
_SLACK = 1e-3
#: The numbers of samples that are left out in turn, and of those that have kernels.
_N_LEFT_OUT = 512
_N_SOURCES = 2048
#: A log map must be better than a mirror by this many nats, and by this number of standard errors.
#: Where both are about as good, a mirror is safer: it does nothing to samples far from bounds.
_LEAST_GAIN = 0.01
_N_ERRORS = 0.5
#: A Gaussian has this share in the densities of the choice, so that none is zero.
_FLOOR = 1e-3
#: Variance that is added to those of all features, in units of their range: copies of features
#: have a singular covariance.
_RIDGE = 1e-9
#: A log map is straight beyond this many times the largest distance of a sample from the bound.
_REACH = 10.0
_LARGEST = float(np.finfo(float).max)
#: Features with fewer values are codes, for which no bounds are proposed.
_LEAST_VALUES = 8
#: Values must come this near to a proposed bound, as a share of their range.
_NEAR = 0.1
#: The share of the samples that must be near a proposed upper bound. The sample of a long tail may
#: end there by chance.
_LEAST_NEAR = 0.05
_DECLARATION = "(low, high), (low, high, 'log' or 'mirror'), 'circular' or ('circular', period)"


@dataclass(frozen=True)
class FeatureSupport:
    """The support of one feature in a fit."""

    feature: int  #: the index of the feature
    name: str  #: the name of the feature, or its index in words
    map: AnyMap  #: the map to latent coordinates
    n_at_bounds: float  #: the number of samples exactly at a bound
    is_proposed: bool = False  #: whether ``support="auto"`` has proposed it

    def _validate(self) -> None:
        """Raise an error if a value is impossible, as one of a file might be."""
        if self.n_at_bounds < 0:
            raise ValueError(f"n_at_bounds must not be negative, got {self.n_at_bounds}")

    @property
    def kind(self) -> str:
        """One of "log", "mirror" and "circular"."""
        if isinstance(self.map, CircleMap):
            return "circular"
        return "mirror" if isinstance(self.map, MirrorMap) else "log"

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The bounds, None where there is none; the first turn of a circle."""
        low, high = (None if np.isinf(end) else float(end) for end in self.map.bounds)
        return low, high

    def __str__(self) -> str:
        if isinstance(self.map, CircleMap):
            return f"{self.name} on a circle of {self.map.period:.4g}"
        at = f", {self.n_at_bounds:.4g} at a bound" if self.n_at_bounds else ""
        pairs = zip(("from", "to"), self.ends, strict=True)
        ends = " ".join(f"{word} {end:.4g}" for word, end in pairs if end is not None)
        return f"{self.name} {ends} ({self.kind}{at})"


class _Declared(NamedTuple):
    """The declaration of one feature: bounds, which may be infinite, or a circle."""

    low: float = -np.inf
    high: float = np.inf
    kind: str | None = None
    period: float | None = None
    is_circle: bool = False


class _Chosen(NamedTuple):
    """The map of one feature, and what turns samples into latent coordinates and places."""

    map: AnyMap
    n_at_bounds: float = 0.0
    cut: float = 0.0  #: the first latent coordinate of samples on a circle
    log: LogMap | ProbitMap | None = None  #: the log map of a bounded feature with values inside
    nudge: float = 0.0  #: how far the log map moves values at a bound inside
    is_free: bool = False  #: whether the samples have chosen the map

    def latent(self, x: np.ndarray) -> np.ndarray:
        """Return the latent coordinates of values, which may be spread over a bound."""
        if isinstance(self.map, CircleMap):
            return np.asarray(CircleMap(self.cut, self.map.period).inverse(x))
        return x if isinstance(self.map, MirrorMap) else self._stretched(x)

    def places(self, z: np.ndarray) -> list[np.ndarray]:
        """Return the columns of the places of latent coordinates.

        A circle has as its circumference the period, so that short distances are those along it.
        Between two mirrors distances are those of the log map: flat densities have no hills by
        which clusters could be told.
        """
        if isinstance(self.map, CircleMap):
            radius = self.map.period / (2 * np.pi)
            return [radius * np.cos(z / radius), radius * np.sin(z / radius)]
        is_between = isinstance(self.map, MirrorMap) and isinstance(self.log, ProbitMap)
        return [self._stretched(z) if is_between else z]

    def _stretched(self, x: np.ndarray) -> np.ndarray:
        """Apply the log map; values beyond a bound are mirrored, those at it are moved inside."""
        if self.log is None:
            return x
        low, high = self.log.bounds
        x = _mirror(low, high).inverse(x)
        x = np.where(x <= low, low + self.nudge, np.where(x >= high, high - self.nudge, x))
        inside = x.clip(np.nextafter(low, np.inf), np.nextafter(high, -np.inf))
        return np.asarray(self.log.forward(inside))


@dataclass(frozen=True, eq=False)
class Support:
    """The supports of all features of a fit, and the latent coordinates of its samples."""

    n_features: int
    features: tuple[FeatureSupport, ...] = ()
    chosen: tuple[_Chosen, ...] = ()  #: one for each of ``features``
    #: (n_features,) by which latent coordinates are divided; None if they are in data units
    scales: np.ndarray | None = None
    #: (n_features,) subtracted before: far from zero, quotients would lose digits of samples
    origins: np.ndarray | None = None

    @classmethod
    def from_samples(
        cls,
        declared: Any,
        X: np.ndarray,
        weights: np.ndarray | None,
        names: Sequence[str] | None,
        rows: np.ndarray | None = None,
        prefers_log: bool = False,
    ) -> "Support":
        """Choose the map of every declared feature; refuse values outside of the support.

        ``rows`` are the numbers of the rows in error messages; with none, rows are not named.
        With ``prefers_log``, bounded features get a log map unless there are values at a bound:
        any shape may follow, which then need not be that of a mirror.
        """
        if declared is None:
            return cls(X.shape[1])
        is_proposed = is_auto(declared)
        if is_proposed:
            declared = propose_support(X)
        present = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
        own = np.ones(len(X)) if weights is None else weights[present]
        rows = np.arange(len(X)) if rows is None else rows
        choices: dict[int, _Chosen] = {}
        for j, given in sorted(_by_index(declared, X.shape[1], names).items()):
            name = _name(j, names)
            each = _parsed(given, name)
            x = X[present, j]
            _check_inside(each, x, name, rows[present] if len(rows) else rows)
            if prefers_log and not (each.is_circle or np.isin(x, (each.low, each.high)).any()):
                each = each._replace(kind=each.kind or "log")
            choices[j] = _choose(each, x, own, X.shape[1], name)
        choices |= _mirrored_if_bent(X[present], own, choices)
        features = [
            FeatureSupport(j, _name(j, names), chosen.map, chosen.n_at_bounds, is_proposed)
            for j, chosen in choices.items()
        ]
        if is_proposed:
            _warn_of(features)
        return cls(X.shape[1], tuple(features), tuple(choices.values()))

    def scaled(self, scales: np.ndarray, origins: np.ndarray) -> "Support":
        """Return the support with latent coordinates ``(z - origins) / scales``."""
        return replace(self, scales=scales, origins=origins)

    @cached_property
    def maps(self) -> Maps | None:
        """The maps of all features, in data units; None if there is no support."""
        if not self.features:
            return None
        maps: list[AnyMap] = [FeatureMap()] * self.n_features
        for each in self.features:
            maps[each.feature] = each.map
        return tuple(maps)

    def joined_maps(self, shapes: Maps | None) -> Maps | None:
        """Return the maps of features to those latent coordinates which have other maps."""
        if self.maps is None or shapes is None:
            return self.maps or shapes
        return tuple(_chained(*pair) for pair in zip(self.maps, shapes, strict=True))

    @property
    def periods(self) -> np.ndarray:
        """The period of every feature, 0 for those on a line."""
        out = np.zeros(self.n_features)
        for each in self.features:
            out[each.feature] = each.map.period if isinstance(each.map, CircleMap) else 0.0
        return out if self.scales is None else out / self.scales

    def without(self, features: np.ndarray) -> "Support":
        """Return the support of all other features."""
        pairs = zip(self.features, self.chosen, strict=True)
        kept = [pair for pair in pairs if pair[0].feature not in features]
        return replace(
            self,
            features=tuple(each for each, _ in kept),
            chosen=tuple(chosen for _, chosen in kept),
        )

    def wrapped(self, X: np.ndarray) -> np.ndarray:
        """Return samples with all angles in the first turn of their circle."""
        X = X.copy() if self.periods.any() else X
        for each in self.features:
            if isinstance(each.map, CircleMap):
                X[:, each.feature] = each.map.inverse(X[:, each.feature])
        return X

    def latent(self, X: np.ndarray) -> np.ndarray:
        """Return the latent coordinates of samples, which may be spread over a bound."""
        Z = X.copy() if self.features else X
        for each, chosen in zip(self.features, self.chosen, strict=True):
            Z[:, each.feature] = chosen.latent(X[:, each.feature])
        return Z if self.scales is None else (Z - self.origins) / self.scales

    def places(self, Z: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the places of latent coordinates, from features in an order."""
        chosen = {each.feature: one for each, one in zip(self.features, self.chosen, strict=True)}
        scales = np.ones(self.n_features) if self.scales is None else self.scales
        unscaled = self._unscaled(Z) if self.features else Z
        columns: list[np.ndarray] = []
        for j in features:
            if j in chosen:
                columns += [each / scales[j] for each in chosen[j].places(unscaled[:, j])]
            else:
                columns.append(Z[:, j])
        return np.stack(columns, axis=1)

    def points(
        self,
        X: np.ndarray,
        weights: np.ndarray | None,
        resolution: Any = None,
        start: str = "canonical",
        labels: np.ndarray | None = None,
    ) -> Points:
        """Return the points of samples in latent coordinates."""
        if not self.features and self.scales is None:
            return Points.from_samples(X, weights, resolution, start, labels)
        return Points.from_samples(self.wrapped(X), weights, resolution, start, labels, self)

    def values(self, Z: np.ndarray) -> np.ndarray:
        """Return the values of latent coordinates."""
        Z = self._unscaled(Z)
        return Z if self.maps is None else map_columns(self.maps, "inverse", Z)

    def _unscaled(self, Z: np.ndarray) -> np.ndarray:
        return Z if self.scales is None else Z * self.scales + self.origins

    def unscaled(self, density: KernelMixture) -> KernelMixture:
        """Return a density of latent coordinates as one of those in data units."""
        if self.scales is None:
            return density
        return density.affine(np.diag(self.scales), self.origins)

    def latent_range(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the range of latent coordinates of values in a range."""
        if not self.features and self.scales is None:
            return lower, upper
        low, high = self.latent(np.stack([lower, upper]))
        return low, np.where(self.periods > 0, low + self.periods, high)

    def declarations(self) -> dict[int, Any]:
        """Return declarations of the same maps."""
        return {each.feature: declared(each.map) for each in self.features}

    def mean_log_slope(self, X: np.ndarray, weights: np.ndarray | None) -> float:
        """Return the mean log determinant of the slopes of maps and scales at samples."""
        log_scales = 0.0 if self.scales is None else float(np.log(self.scales).sum())
        if self.maps is None:
            return -log_scales
        inside = self.values(self.latent(X))
        slopes = map_columns(self.maps, "log_slope", inside).sum(axis=1)
        return float(np.average(slopes, weights=weights)) - log_scales


def _chained(first: AnyMap, second: AnyMap) -> AnyMap:
    """Return a map after another; one of them may be the identity."""
    if not isinstance(second, YeoJohnson | TableMap):
        return first
    return ChainMap(first, second) if isinstance(first, LogMap | ProbitMap | MirrorMap) else second


def check_support(support: Any) -> None:
    """Refuse a support that no samples could have."""
    if support is None or is_auto(support):
        return
    if not isinstance(support, Mapping):
        raise TypeError(
            f"support must be None, 'auto' or a dict from features to {_DECLARATION}, got "
            f"{support!r:.60}"
        )
    for key, each in support.items():
        if isinstance(key, bool) or not isinstance(key, str | int | np.integer):
            raise TypeError(f"support must name features by names or indices, got {key!r}")
        _parsed(each, repr(key))


def declared(each: AnyMap) -> tuple[Any, ...]:
    """Return the declaration of a feature that gives it a map of the same kind and bounds."""
    if isinstance(each, CircleMap):
        return ("circular", each.period)
    low, high = (None if np.isinf(end) else end for end in each.bounds)
    return low, high, "mirror" if isinstance(each, MirrorMap) else "log"


def indexed(support: Any, names: Sequence[str] | None) -> Any:
    """Return a support with indices in place of names, for samples without names."""
    if names is None or not isinstance(support, Mapping):
        return support
    return _by_index(support, len(names), names)


def describe_support(features: Sequence[FeatureSupport]) -> str:
    """Return a sentence that names the supports of features; empty if there are none."""
    if not features:
        return ""
    origin = "Proposed support" if features[0].is_proposed else "Support"
    return f"{origin}: {'; '.join(map(str, features))}."


def propose_support(X: Any, names: Sequence[str] | None = None) -> dict[Any, tuple[Any, Any]]:
    """Propose bounds of features from their values, for a person to confirm.

    A feature whose values are never negative and come near to zero is proposed to be bounded by 0;
    if one in twenty of them is between 0.9 and 1 and none is larger, by 0 and 1. Circles are not
    proposed, since the values do not show them, nor bounds of features with fewer than 8 values.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    names : sequence of str, optional
        The keys of the result; those of a frame or indices by default.

    Returns
    -------
    dict
        The argument ``support`` of estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.estimators import propose_support
    >>> rng = np.random.default_rng(0)
    >>> propose_support(np.stack([rng.normal(size=99), rng.exponential(size=99)], axis=1))
    {1: (0, None)}
    """
    columns = getattr(X, "columns", None) if names is None else names
    values = check_array(X, dtype=np.float64, input_name="X")
    found = {}
    for j, x in enumerate(values.T):
        low, high = x.min(), x.max()
        if low < 0 or low > _NEAR * (high - low) or len(np.unique(x)) < _LEAST_VALUES:
            continue
        is_share = high <= 1 and np.mean(x >= 1 - _NEAR) >= _LEAST_NEAR
        found[j if columns is None else columns[j]] = (0, 1) if is_share else (0, None)
    return found


def _warn_of(features: Sequence[FeatureSupport]) -> None:
    """Say which bounds were proposed."""
    pairs = ", ".join(f"{each.name} {each.ends}" for each in features)
    warnings.warn(
        f"support='auto' took these bounds: {pairs or 'none'}; pass them as support if they are "
        "right",
        UserWarning,
        stacklevel=6,
    )


def _name(j: int, names: Sequence[str] | None) -> str:
    return f"feature {j}" if names is None else str(names[j])


# Declarations


def _by_index(
    support: Mapping[Any, Any], n_features: int, names: Sequence[str] | None
) -> dict[int, Any]:
    """Return the declarations by the index of their feature."""
    found: dict[int, Any] = {}
    for key, each in support.items():
        if isinstance(key, str):
            if names is None:
                raise ValueError(
                    f"support names the feature {key!r}, but the samples have no names; use indices"
                )
            if key not in list(names):
                raise ValueError(f"support names the feature {key!r}, but there are {list(names)}")
            j = list(names).index(key)
        else:
            j = int(key)
            if not 0 <= j < n_features:
                raise ValueError(f"support names feature {j}, but there are {n_features} features")
        if j in found:
            raise ValueError(f"support names feature {j} twice, by its name and by its index")
        found[j] = each
    return found


def _parsed(given: Any, name: str) -> _Declared:
    """Return a declaration; refuse one of an unknown form."""
    match given if isinstance(given, tuple | list) else (given,):
        case ("circular",):
            return _Declared(is_circle=True)
        case ("circular", period):
            return _Declared(period=check_positive(period, f"the period of {name}"), is_circle=True)
        case (low, high) | (low, high, "log" | "mirror"):
            kind = given[2] if len(given) == 3 else None
            declared = _Declared(_bound(low, -np.inf, name), _bound(high, np.inf, name), kind)
        case _:
            raise ValueError(f"the support of {name} must be {_DECLARATION}, got {given!r:.60}")
    if np.isinf(declared.low) and np.isinf(declared.high):
        raise ValueError(f"the support of {name} has no bound; leave it out")
    if declared.low >= declared.high:
        raise ValueError(f"the support of {name} must have low below high, got {given!r}")
    return declared


def _bound(bound: Any, unbounded: float, name: str) -> float:
    is_number = isinstance(bound, int | float | np.number) and not isinstance(bound, bool)
    if bound is not None and not is_number:
        raise TypeError(f"a bound of {name} must be a number or None, got {bound!r}")
    if bound is not None and np.isnan(bound):
        raise ValueError(f"a bound of {name} must be a number or None, got {bound!r}")
    return unbounded if bound is None or bound == unbounded else float(bound)


def _check_inside(declared: _Declared, x: np.ndarray, name: str, rows: np.ndarray) -> None:
    """Refuse values outside of the bounds; ``rows`` are their numbers, or empty."""
    outside = np.flatnonzero((x < declared.low) | (x > declared.high))
    if len(outside):
        first = outside[0]
        row = f" in row {rows[first]}" if len(rows) else ""
        more = f" ({len(outside)} rows in all)" if len(outside) > 1 else ""
        raise ValueError(
            f"{name} has the value {x[first]:.6g}{row}{more}, outside of its support from "
            f"{declared.low:g} to {declared.high:g}; correct the value or the support"
        )


# Maps


def _choose(
    declared: _Declared, x: np.ndarray, weights: np.ndarray, n_features: int, name: str
) -> _Chosen:
    """Return the map of a feature that its samples choose, unless the declaration does."""
    if declared.is_circle:
        circle = _circle(declared.period, x, name)
        return _Chosen(circle, cut=least_spread_cut(x, weights, circle.period))
    low, high, kind, *_ = declared
    at_bound = (x == low) | (x == high)
    mirror = _Chosen(_mirror(low, high), float(weights[at_bound].sum()))
    if at_bound.all():
        return mirror
    x, weights = x[~at_bound], weights[~at_bound]
    log = _log_map(low, high, x, float(_quantiles(x, weights, 1)[0]))
    nudge = float(min((x - low).min(), (high - x).min()))
    mirror = mirror._replace(log=log, nudge=nudge)
    if kind == "mirror" or (kind is None and at_bound.any()):
        return mirror
    is_log = kind == "log" or _is_better(log, mirror.map, x, weights, n_features)
    return mirror._replace(map=log, is_free=kind is None) if is_log else mirror


def _circle(period: float | None, x: np.ndarray, name: str) -> CircleMap:
    """Return a circle whose first turn has the samples, if it can."""
    low, high = float(x.min()), float(x.max())
    if period is None:
        fitting = [each for each in _PERIODS if each / 2 < high - low <= each * (1 + _SLACK)]
        if not fitting:
            raise ValueError(
                f"the values of {name} do not determine its period ({low:.4g} to {high:.4g}); "
                "declare it in the unit of the feature, as in ('circular', 360)"
            )
        period = fitting[0]
    if high - low > period * (1 + _SLACK):
        raise ValueError(
            f"{name} has values from {low:.4g} to {high:.4g}, more than its period of "
            f"{period:.4g}; declare the period in the unit of the feature"
        )
    slack = _SLACK * period
    for start in (0.0, -0.5 * period):
        if start - slack <= low and high <= start + period + slack:
            return CircleMap(start, period)
    return CircleMap(low, period)


def _mirror(low: float, high: float) -> MirrorMap:
    return MirrorMap(*(None if np.isinf(end) else end for end in (low, high)))


def _log_map(low: float, high: float, x: np.ndarray, middle: float) -> LogMap | ProbitMap:
    """Return the log map of samples with a slope of one in their middle."""
    with np.errstate(over="ignore"):
        reach = min(_REACH * float(np.abs(x - (low if np.isinf(high) else high)).max()), _LARGEST)
    if np.isinf(high):
        return LogMap(low, middle - low, reach=reach)
    if np.isinf(low):
        return LogMap(high, high - middle, is_upper=True, reach=reach)
    score = float(ndtri((middle - low) / (high - low)))
    return ProbitMap(low, high, (high - low) * np.exp(-0.5 * score**2) / np.sqrt(2 * np.pi))


def _quantiles(x: np.ndarray, weights: np.ndarray, number: int) -> np.ndarray:
    """Return the values in the middle of equal parts of the weight."""
    order = np.argsort(x, kind="stable")
    sums = np.cumsum(weights[order])
    places = (np.arange(number) + 0.5) / number * sums[-1]
    return x[order[np.searchsorted(sums, places * (1 - 1e-12))]]


# The choice between maps


def _is_better(
    first: FeatureMap, second: FeatureMap, x: np.ndarray, weights: np.ndarray, n_features: int
) -> bool:
    """Whether left-out samples are clearly more probable under the first of two maps."""
    total = float(weights.sum())
    held = _quantiles(x, weights, min(_N_LEFT_OUT, round(total)))
    if len(x) > _N_SOURCES:
        x = _quantiles(x, weights, _N_SOURCES)
        weights = np.full(_N_SOURCES, total / _N_SOURCES)
    tables = [_left_out(each, x, weights, held, n_features) for each in (first, second)]
    scores = [table[np.argmax(table.mean(axis=1))] for table in tables]
    gains = scores[0] - scores[1]
    least = max(_LEAST_GAIN, _N_ERRORS * gains.std() / np.sqrt(len(gains)))
    return bool(gains.mean() > least)


def _left_out(
    each: FeatureMap, x: np.ndarray, weights: np.ndarray, held: np.ndarray, n_features: int
) -> np.ndarray:
    """Return log densities (n_widths, n_held) of samples under the kernels of all others.

    The bandwidths are Silverman's for all features and, as clusters would have it, half of that.
    """
    z, at, total = each.forward(x), each.forward(held), float(weights.sum())
    span = 0.5 * z.max() - 0.5 * z.min()
    if span == 0.0:
        return np.zeros((1, len(held)))
    mean, covariance = weighted_moments(z[:, None] / span, weights)
    mean, std = span * float(mean[0]), span * float(np.sqrt(covariance[0, 0]))
    signs, offsets = each.images(z.min() - 5 * std, z.max() + 5 * std)
    width = std * silverman(total, n_features)
    kernels = np.exp(-0.5 * (((at[:, None] * signs + offsets)[:, :, None] - z) / width) ** 2)
    found = []
    for each_width, powers in ((width, kernels), (0.5 * width, np.square(np.square(kernels)))):
        sums = np.maximum((powers @ weights).sum(axis=1) - 1.0, 0.0)
        found.append(sums / (each_width * max(total - 1.0, 1.0)))
    wide = np.exp(-0.5 * ((at - mean) / std) ** 2) / std
    mixed = (1 - _FLOOR) * np.stack(found) + _FLOOR * wide
    return np.asarray(np.log(np.maximum(mixed, np.finfo(float).tiny)) + each.log_slope(held))


def _mirrored_if_bent(
    X: np.ndarray, weights: np.ndarray, choices: Mapping[int, _Chosen]
) -> dict[int, _Chosen]:
    """Return mirrors for features whose log maps bend the relations between features."""
    bent = {j: each for j, each in choices.items() if each.is_free}
    if not bent or X.shape[1] == 1:
        return {}
    order = np.lexsort(X[:, canonical_features(X, weights)].T)
    n_rows = min(_N_LEFT_OUT, round(float(weights.sum())))
    places = _quantiles(np.arange(len(X)), weights[order], n_rows)
    rows, counts = np.unique(order[places], return_counts=True)
    straight, Z = X[rows], X[rows].copy()
    log_slopes = np.zeros(len(rows))
    for j, each in bent.items():
        Z[:, j] = each.latent(Z[:, j])
        log_slopes += each.map.log_slope(straight[:, j])
    gains = _left_out_jointly(Z, counts) + log_slopes - _left_out_jointly(straight, counts)
    if counts @ gains > 0:
        return {}
    return {j: each._replace(map=_mirror(*each.map.bounds)) for j, each in bent.items()}


def _left_out_jointly(X: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return log densities (n,) of samples under the kernels of all others.

    Kernels have the shape of the sample. Their bandwidth is Silverman's or less, as clusters would
    have it: whichever is best.
    """
    total, n_features = float(counts.sum()), X.shape[1]
    spans = np.ptp(X, axis=0)
    spans[spans == 0] = 1.0
    shares = (X - X.min(axis=0)) / spans
    covariance = weighted_moments(shares, counts).covariance
    transform = whitening_transforms(covariance + _RIDGE * np.eye(n_features))
    Z = shares @ transform
    squares = cdist(Z, Z, "sqeuclidean")
    wide = np.log(_FLOOR) - 0.5 * np.square(Z - counts @ Z / total).sum(axis=1)
    found = []
    for factor in (1.0, 0.5, 0.25):
        width = factor * silverman(total, n_features)
        sums = np.maximum(np.exp(-0.5 * squares / width**2) @ counts - 1.0, 0.0)
        with np.errstate(divide="ignore"):
            kernels = np.log((1 - _FLOOR) * sums / max(total - 1.0, 1.0))
        found.append(np.logaddexp(kernels - n_features * np.log(width), wide))
    best = found[int(np.argmax([counts @ each for each in found]))]
    return best + np.log(np.abs(np.diag(transform))).sum() - np.log(spans).sum()
