"""The latent coordinates of points under the maps of all features.

This is the place where the maps of a density are applied to points: every question about a point
is answered for its preimages, and the answers are added up.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .maps import CircleMap, FeatureMap, Images, map_columns
from .sums import LOG_2PI, Kernels, LogSums

#: An image whose density is smaller than the largest by this factor, in log, is left out.
_NEGLIGIBLE = 37.0
#: Images this many standard deviations from all kernels never matter.
_REACH = 9.5


class Preimages(NamedTuple):
    """The preimages of points inside the support; those of one point are neighbors."""

    rows: np.ndarray  #: (P,) the point of every preimage, ascending
    Z: np.ndarray  #: (P, M)
    steps: np.ndarray  #: (P, M) the derivatives of the latent coordinates, negative if mirrored
    log_slopes: np.ndarray  #: (P,) the log of the absolute value of their product
    log_q: np.ndarray  #: (P,) the log density of the latent coordinates
    n_points: int

    @property
    def starts(self) -> np.ndarray:
        """The first preimage of every point that has one."""
        return np.flatnonzero(np.diff(self.rows, prepend=-1))

    def log_densities(self) -> np.ndarray:
        """Return the log densities of all points, minus infinity outside of the support."""
        return self.spread(self.log_sums(self.log_q + self.log_slopes), -np.inf)

    def log_sums(self, logs: np.ndarray) -> np.ndarray:
        """Return the log of the sum over the preimages of every point, (n, ...)."""
        if len(self.rows) == len(self.starts):
            return logs
        return np.asarray(np.logaddexp.reduceat(logs, self.starts, axis=0))

    def shares(self) -> np.ndarray:
        """Return the share of every preimage in the density of its point."""
        tops = np.maximum.reduceat(self.log_q, self.starts)
        sizes = np.diff(np.append(self.starts, len(self.rows)))
        with np.errstate(invalid="ignore"):
            shares = np.exp(self.log_q - np.repeat(tops, sizes))
        shares = np.nan_to_num(shares, nan=1.0)
        return np.asarray(shares / np.repeat(np.add.reduceat(shares, self.starts), sizes))

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of values over the preimages of every point, by their shares."""
        if len(self.rows) == len(self.starts):
            return values
        shares = self.shares().reshape(-1, *[1] * (values.ndim - 1))
        return np.asarray(np.add.reduceat(shares * values, self.starts))

    def best(self) -> np.ndarray:
        """Return the most probable preimage of every point that has one."""
        order = np.lexsort([-self.log_q, self.rows])
        return self.Z[order[self.starts]]

    def drawn(self, rng: np.random.RandomState) -> np.ndarray:
        """Draw a preimage of every point by the shares; all points must have one."""
        sums = np.cumsum(self.shares())
        before = np.append(0.0, sums)[self.starts]
        sizes = np.diff(np.append(self.starts, len(self.rows)))
        chosen = np.searchsorted(sums, before + rng.uniform(size=len(before)), side="right")
        return self.Z[np.clip(chosen, self.starts, self.starts + sizes - 1)]

    def spread(self, values: np.ndarray, outside: float) -> np.ndarray:
        """Return values of points inside the support for all points."""
        if len(values) == self.n_points:
            return values
        out = np.full((self.n_points, *values.shape[1:]), outside)
        out[self.rows[self.starts]] = values
        return out


class Chart:
    """The maps of all features, and the region of the kernels in latent coordinates."""

    def __init__(self, maps: Sequence[FeatureMap], kernels: Kernels) -> None:
        self.maps = maps
        self._kernels = kernels
        self.folding = [j for j, each in enumerate(maps) if each.is_folding]

    @cached_property
    def _region(self) -> tuple[np.ndarray, ...]:
        """The ranges of the means, and the largest standard deviation of every feature."""
        kernels = self._kernels.with_weight()
        factors = np.linalg.inv(kernels.transforms)
        stds = np.sqrt((factors**2).sum(axis=1)).max(axis=0)
        return kernels.means.min(axis=0), kernels.means.max(axis=0), stds

    @property
    def stds(self) -> np.ndarray:
        """The largest standard deviation of a kernel along every feature."""
        return self._region[2]

    def is_close(self, first: np.ndarray, second: np.ndarray, n_stds: float) -> bool:
        """Whether two points are less than some standard deviations of kernels apart."""
        pairs = zip(self.maps, first, second, strict=True)
        apart = np.abs([_apart(each, *pair) for each, *pair in pairs])
        return bool((apart < n_stds * self.stds).all())

    @cached_property
    def _top(self) -> float:
        """A bound of the log density of the latent coordinates."""
        constant = 0.5 * self._kernels.n_features * LOG_2PI
        return float(np.logaddexp.reduce(self._kernels.log_heights)) - constant

    @cached_property
    def _turned(self) -> list[FeatureMap]:
        """The maps, with the kernels in the middle of the first turn of circles."""
        middles = 0.5 * self._region[0] + 0.5 * self._region[1]
        return [
            replace(each, low=middle - 0.5 * each.period) if isinstance(each, CircleMap) else each
            for each, middle in zip(self.maps, middles, strict=True)
        ]

    @cached_property
    def images(self) -> list[Images]:
        """The images of every feature that may matter; the first is that of :meth:`base`."""
        found = []
        for each, low, high, std in zip(self._turned, *self._region, strict=True):
            width = np.subtract(*each.bounds[::-1])
            reach = _REACH * std + (2 * width if np.isfinite(width) else 0.0)
            found.append(each.images(low - reach, high + reach))
        return found

    def base(self, X: Any, xp: Any = np) -> Any:
        """Return the latent coordinates nearest to the kernels, of points inside the support."""
        return xp.stack([_based(each, X[:, j], xp) for j, each in enumerate(self._turned)], -1)

    def contains(self, X: np.ndarray) -> np.ndarray:
        """Return whether points are inside the support."""
        inside = [each.contains(x) for each, x in zip(self.maps, X.T, strict=True)]
        return np.asarray(np.logical_and.reduce(inside))

    def clip(self, X: np.ndarray) -> np.ndarray:
        """Return points moved into the support."""
        ends = np.array([each.bounds for each in self.maps]).T
        turns = np.array([isinstance(each, CircleMap) for each in self.maps])
        inside = np.nextafter(ends, ends[::-1])
        return np.where(turns, X, X.clip(*inside))

    def preimages(self, X: np.ndarray, log_q: LogSums) -> Preimages:
        """Return the preimages of points that matter; ``log_q`` is the latent log density."""
        inside = self.contains(X)
        rows = np.flatnonzero(inside)
        X = X if inside.all() else X[rows]
        if len(rows) == 0:
            empty = np.empty(X.shape)
            return Preimages(rows, empty, empty, np.empty(0), np.empty(0), len(inside))
        log_steps = map_columns(self.maps, "log_slope", X)
        Z = np.ascontiguousarray(self.base(X))
        with np.errstate(over="ignore"):
            steps = np.exp(log_steps)
        found = Preimages(rows, Z, steps, log_steps.sum(axis=1), log_q(Z), len(inside))
        return self._with_images(found, log_q) if self.folding else found

    def _with_images(self, base: Preimages, log_q: LogSums) -> Preimages:
        """Add the images that are not negligible."""
        floors = base.log_q - _NEGLIGIBLE
        points, Z = np.arange(len(base.rows)), base.Z
        signs, is_base = np.ones(Z.shape), np.ones(len(Z), dtype=bool)
        for j in self.folding:
            parts = []
            for i, (sign, offset) in enumerate(zip(*self.images[j], strict=True)):
                z = sign * Z[:, j] + offset
                kept = np.flatnonzero((self._bounds(j, z) > floors[points]) | (is_base & (i == 0)))
                part = Z[kept], signs[kept], points[kept], is_base[kept] & (i == 0)
                part[0][:, j], part[1][:, j] = z[kept], sign
                parts.append(part)
            Z, signs, points, is_base = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(points, kind="stable")
        Z, signs, points, is_base = Z[order], signs[order], points[order], is_base[order]
        values = np.empty(len(Z))
        values[is_base] = base.log_q
        if not is_base.all():
            values[~is_base] = log_q(Z[~is_base])
        return Preimages(
            base.rows[points],
            Z,
            signs * base.steps[points],
            base.log_slopes[points],
            values,
            base.n_points,
        )

    def _bounds(self, j: int, z: np.ndarray) -> np.ndarray:
        """Return bounds of the log density where a feature has a latent coordinate."""
        low, high, std = (each[j] for each in self._region)
        apart = np.maximum(np.maximum(low - z, z - high), 0.0) / std
        return np.asarray(self._top - 0.5 * apart**2)

    def intervals(self, j: int, low: float, high: float) -> list[tuple[float, float]]:
        """Return the latent intervals of an interval of a feature, which do not overlap."""
        each, (first, last) = self._turned[j], self.maps[j].bounds
        is_circle = isinstance(each, CircleMap)
        if is_circle:
            low, high = first if low == -np.inf else low, last if high == np.inf else high
            is_whole = high - low >= last - first
        else:
            is_whole = low <= first and high >= last
            low, high = max(low, first), min(high, last)
        if is_whole:
            return [(-np.inf, np.inf)]
        if not low < high:
            return []
        if not each.is_folding:
            return [(_end(each, low), _end(each, high))]
        return list(zip(*self.image_intervals(j, low, high).tolist(), strict=True))

    def image_intervals(self, j: int, low: Any, high: Any) -> np.ndarray:
        """Return the ends (2, n_images, ...) of the images of intervals of a folded feature."""
        first, last = np.broadcast_arrays(low, high)
        middle = np.where(np.isfinite(first), first, last)
        start = _based(self._turned[j], middle) + np.array([first - middle, last - middle])
        signs, offsets = (each.reshape(-1, *[1] * first.ndim) for each in self.images[j])
        return np.sort(signs * start[:, None] + offsets, axis=0)

    def boxes(self, box: np.ndarray) -> list[np.ndarray]:
        """Return the latent boxes of a box (2, M), which do not overlap."""
        sides = [self.intervals(j, *box[:, j]) for j in range(box.shape[1])]
        return [np.array(each).T for each in product(*sides)]


def _apart(each: FeatureMap, first: float, second: float) -> float:
    if not each.is_folding:
        return first - second
    apart = each.inverse(np.array(first)) - each.inverse(np.array(second))
    if isinstance(each, CircleMap):
        apart = np.remainder(apart + 0.5 * each.period, each.period) - 0.5 * each.period
    return float(apart)


def _based(each: FeatureMap, x: Any, xp: Any = np) -> Any:
    """Return the latent coordinates of values, on the first turn of a circle."""
    return each.inverse(x, xp) if isinstance(each, CircleMap) else each.forward(x, xp)


def _end(each: FeatureMap, x: float) -> float:
    """Return the latent coordinate of the end of an interval, which may be infinite."""
    if not np.isfinite(x):
        return x
    with np.errstate(divide="ignore"):
        return float(_based(each, np.array(x)))
