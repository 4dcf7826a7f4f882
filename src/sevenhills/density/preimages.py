"""The latent coordinates of points under the maps of all features.

This is the place where the maps of a density are applied to points: every question about a point
is answered for its preimages, and the answers are added up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..kernels.blocks import build_blocks
from .maps import CircleMap, FeatureMap, Images
from .sums import LOG_2PI, Kernels, LogSums

#: An image whose density is smaller than that of the point by this factor, in log, is left out;
#: the second is for more than two folded features, which have many images.
_NEGLIGIBLE = (32.0, 20.0)
#: Images of kernels are left out if their log density is this far below that of the kernel. They
#: may matter where the log density is not this far above their sum.
_DEPTH, _ACCURACY = 60.0, 32.0
#: Upper bounds on the number of images of kernels: the larger of a multiple of the kernels, and of
#: a number.
_MAX_GROWTH, _FEW_IMAGES = 16, 2**15
#: Numbers in a table of points and cells, and in the preimages that are held in memory.
_TABLE_NUMBERS, _MAX_NUMBERS = 2**21, 2**20
#: Of a point that has more images of kernels, those nearest to their kernels are kept.
_MAX_IMAGES = 2**14
#: Up to this many groups of kernels have images of their own; more share them by their width.
_MAX_GROUPS = 8
#: The number of small cells, for single points that have many images.
_MAX_CELLS = 2048
#: Images on more turns of a circle are left out.
_MAX_TURNS = 100
#: A kernel this many times wider than a circle is uniform on it to 12 digits; on more than two
#: circles, less is enough, down to a width at which it is uniform to 2 %.
_UNIFORM, _LEAST_UNIFORM = 1.2, 0.5


class ManyImagesError(Exception):
    """Points have more images than should be held in memory."""


@dataclass(frozen=True, eq=False)
class Preimages:
    """The preimages of points inside the support; those of one point are neighbors."""

    X: np.ndarray  #: (n, M) the points inside the support
    rows: np.ndarray  #: (P,) the row of the point of every preimage, ascending
    Z: np.ndarray  #: (P, M)
    signs: np.ndarray  #: (P, M) minus one where a latent coordinate decreases
    log_slopes: np.ndarray  #: (P,) the log of the product of the slopes
    log_q: np.ndarray  #: (P,) the log density of the latent coordinates
    n_rows: int  #: the number of all points

    @cached_property
    def starts(self) -> np.ndarray:
        """The first preimage of every point that has one."""
        return np.flatnonzero(np.diff(self.rows, prepend=-1))

    @property
    def sizes(self) -> np.ndarray:
        """The number of preimages of every point that has one."""
        return np.diff(np.append(self.starts, len(self.rows)))

    def log_densities(self) -> np.ndarray:
        """Return the log densities of all points, minus infinity outside of the support."""
        return self.spread(self.log_sums(self.log_q + self.log_slopes), -np.inf)

    def log_sums(self, logs: np.ndarray) -> np.ndarray:
        """Return the log of the sum over the preimages of every point, (n, ...)."""
        if len(self.rows) == len(self.X):
            return logs
        return np.asarray(np.logaddexp.reduceat(logs, self.starts, axis=0))

    def shares(self) -> np.ndarray:
        """Return the share of every preimage in the density of its point."""
        tops = np.maximum.reduceat(self.log_q, self.starts)
        with np.errstate(invalid="ignore"):
            shares = np.exp(self.log_q - np.repeat(tops, self.sizes))
        shares = np.nan_to_num(shares, nan=1.0)
        return np.asarray(shares / np.repeat(np.add.reduceat(shares, self.starts), self.sizes))

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of values over the preimages of every point, by their shares."""
        if len(self.rows) == len(self.X):
            return values
        shares = self.shares().reshape(-1, *[1] * (values.ndim - 1))
        return np.asarray(np.add.reduceat(shares * values, self.starts))

    def best(self) -> np.ndarray:
        """Return the most probable preimage of every point that has one."""
        order = np.lexsort([-self.log_q, self.rows])
        return self.Z[order[self.starts]]

    def drawn(self, rng: np.random.RandomState) -> np.ndarray:
        """Draw a preimage of every point that has one, by the shares."""
        sums = np.cumsum(self.shares())
        before = np.append(0.0, sums)[self.starts]
        chosen = np.searchsorted(sums, before + rng.uniform(size=len(before)), side="right")
        return self.Z[np.clip(chosen, self.starts, self.starts + self.sizes - 1)]

    def spread(self, values: np.ndarray, outside: float) -> np.ndarray:
        """Return values of points inside the support for all points."""
        if len(values) == self.n_rows:
            return values
        out = np.full((self.n_rows, *values.shape[1:]), outside)
        out[self.rows[self.starts]] = values
        return out


class _Cells(NamedTuple):
    """Boxes around the means of kernels, which bound the density from above."""

    low: np.ndarray  #: (C, M)
    high: np.ndarray  #: (C, M)
    stds: np.ndarray  #: (C, M) the largest standard deviations
    spreads: np.ndarray  #: (C,) the largest variance along any direction, in these units
    tops: np.ndarray  #: (C,) bounds of the log density anywhere

    @classmethod
    def from_kernels(cls, kernels: Kernels, cell_of_kernel: np.ndarray) -> "_Cells":
        """Make cells of kernels."""
        order = np.argsort(cell_of_kernel, kind="stable")
        starts = np.flatnonzero(np.diff(cell_of_kernel[order], prepend=-1))
        factors, group = np.linalg.inv(kernels.transforms), kernels.group_of_kernel[order]
        own = _stds(factors)
        stds = np.maximum.reduceat(own[group], starts)
        # A matrix in units of its own standard deviations is as wide or wider.
        spreads = np.linalg.norm(factors / own[:, None], 2, axis=(1, 2)) ** 2
        tops = np.logaddexp.reduceat(kernels.log_heights[order], starts)
        return cls(
            np.minimum.reduceat(kernels.means[order], starts),
            np.maximum.reduceat(kernels.means[order], starts),
            stds,
            np.maximum.reduceat(spreads[group], starts),
            tops - 0.5 * kernels.n_features * LOG_2PI,
        )

    def apart(self, j: int, z: np.ndarray, cells: Any = slice(None)) -> np.ndarray:
        """Return how far values of a feature are from cells, in variances."""
        beyond = np.maximum(np.maximum(self.low[cells, j] - z, z - self.high[cells, j]), 0.0)
        with np.errstate(over="ignore"):
            return np.asarray((beyond / self.stds[cells, j]) ** 2)

    def bounds(self, total: Any, largest: Any, cells: Any = slice(None)) -> np.ndarray:
        """Return upper bounds of the log density, from sums and maxima of :meth:`apart`."""
        apart = np.maximum(total / self.spreads[cells], largest)
        return np.asarray(self.tops[cells] - 0.5 * apart)


class _Pairs(NamedTuple):
    """Images of points that are near cells."""

    points: np.ndarray  #: (P,)
    cells: np.ndarray  #: (P,)
    numbers: np.ndarray  #: (P, F) the number of the image of every folded feature
    total: np.ndarray  #: (P,) the sum of the distances along all features
    largest: np.ndarray  #: (P,) their maximum

    def take(self, which: np.ndarray) -> "_Pairs":
        """Return some of the pairs."""
        return _Pairs(*(each[which] for each in self))

    def with_image(self, k: int, number: int, change: np.ndarray, apart: np.ndarray) -> "_Pairs":
        """Return the pairs with another image of a folded feature."""
        numbers = self.numbers.copy()
        numbers[:, k] = number
        total, largest = self.total + change, np.maximum(self.largest, apart)
        return _Pairs(self.points, self.cells, numbers, total, largest)


class Chart:
    """The maps of all features, and the region of the kernels in latent coordinates."""

    def __init__(self, maps: Sequence[FeatureMap], kernels: Kernels) -> None:
        self.maps = maps
        self.kernels = kernels.with_weight()
        self.folding = [j for j, each in enumerate(maps) if each.is_folding]
        self._negligible = _NEGLIGIBLE[len(self.folding) > 2]

    @cached_property
    def part_of_group(self) -> np.ndarray:
        """The part of the kernels, for images of its own, to which every group belongs.

        It is the group itself, or groups of like width.
        """
        if self.kernels.n_groups <= _MAX_GROUPS:
            return np.arange(self.kernels.n_groups)
        stds = _stds(np.linalg.inv(self.kernels.transforms))
        sizes = np.log2((stds / stds.max(axis=0))[:, self.folding or slice(None)].max(axis=1))
        return np.unique(np.floor(sizes).clip(1 - _MAX_GROUPS), return_inverse=True)[1]

    @cached_property
    def _cells(self) -> _Cells:
        """The parts of the kernels."""
        numbers = self.part_of_group[self.kernels.group_of_kernel]
        return _Cells.from_kernels(self.kernels, numbers)

    @cached_property
    def _small_cells(self) -> _Cells:
        """Single kernels, or neighbors."""
        return _Cells.from_kernels(self.kernels, _neighbors(self.kernels))

    @property
    def stds(self) -> np.ndarray:
        """The largest standard deviation of a kernel along every feature."""
        return np.asarray(self._cells.stds.max(axis=0))

    def is_close(self, first: np.ndarray, second: np.ndarray, n_stds: float) -> bool:
        """Whether two points are less than some standard deviations of kernels apart."""
        pairs = zip(self.maps, first, second, strict=True)
        apart = np.abs([_apart(each, *pair) for each, *pair in pairs])
        return bool((apart < n_stds * self.stds).all())

    @cached_property
    def _turned(self) -> list[FeatureMap]:
        """The maps, with the kernels in the middle of the first turn of circles."""
        if not self.folding:
            return list(self.maps)
        middles = 0.5 * self._cells.low.min(axis=0) + 0.5 * self._cells.high.max(axis=0)
        return [
            replace(each, low=middle - 0.5 * each.period) if isinstance(each, CircleMap) else each
            for each, middle in zip(self.maps, middles, strict=True)
        ]

    def unfolded(self) -> tuple[Kernels, float] | None:
        """Return kernels with their images, and the log density above which no others matter.

        Points have one latent coordinate each, in the first turn or between the mirrors. Images of
        kernels are left out if they are far from there. The result is None without folded features,
        and if there are too many images.
        """
        if not self.folding:
            return None
        kernels = self.kernels
        most = max(_MAX_GROWTH * kernels.n_kernels, _FEW_IMAGES)
        rows, means = np.arange(kernels.n_kernels), kernels.means
        stds = _stds(np.linalg.inv(kernels.transforms))[kernels.group_of_kernel]
        flips = np.zeros(len(rows), dtype=np.int64)  # a bit for every mirrored feature
        for k, j in enumerate(self.folding):
            parts, (low, high) = [], self._turned[j].fold.bounds
            for number, (sign, offset) in enumerate(zip(*self.images(j, _DEPTH), strict=True)):
                moved = sign * (means[:, j] - offset)
                beyond = np.maximum(np.maximum(low - moved, moved - high), 0.0)
                with np.errstate(over="ignore"):
                    is_near = (beyond / stds[rows, j]) ** 2 < 2 * _DEPTH
                kept = np.flatnonzero(is_near | (number == 0))
                own = means[kept].copy()
                own[:, j] = moved[kept]
                parts.append((rows[kept], own, flips[kept] | ((sign < 0) << k)))
            rows, means, flips = (np.concatenate(each) for each in zip(*parts, strict=True))
            if len(rows) > most:
                return None
        of_group, group = np.unique(
            np.stack([kernels.group_of_kernel[rows], flips]), axis=1, return_inverse=True
        )
        signs = np.ones((of_group.shape[1], kernels.n_features))
        signs[:, self.folding] -= 2 * (of_group[1][:, None] >> np.arange(len(self.folding)) & 1)
        order = np.argsort(group, kind="stable")
        images = Kernels(
            kernels.log_weights[rows][order],
            means[order],
            np.append(0, np.cumsum(np.bincount(group))),
            signs[:, :, None] * kernels.transforms[of_group[0]],
            kernels.log_dets[of_group[0]],
        )
        top = float(logsumexp(kernels.log_heights)) - 0.5 * kernels.n_features * LOG_2PI
        return images, top + _ACCURACY - _DEPTH

    def images(self, j: int, depth: float = _NEGLIGIBLE[0]) -> Images:
        """Return the images of a feature where the log density is at most so far below its bound.

        The first is that of :meth:`latent`.
        """
        cells, each = self._cells, self._turned[j]
        width = np.subtract(*each.fold.bounds[::-1])
        with np.errstate(invalid="ignore"):
            reach = np.fmin(np.sqrt(2 * depth) * cells.stds[:, j], _MAX_TURNS * width)
        reach += width if np.isfinite(width) else 0.0
        return each.images((cells.low[:, j] - reach).min(), (cells.high[:, j] + reach).max())

    def latent(self, X: Any, xp: Any = np) -> tuple[Any, Any]:
        """Return latent coordinates of points inside the support, and the log of the slopes."""
        pairs = [_based(each, X[:, j], xp) for j, each in enumerate(self._turned)]
        return xp.stack([z for z, _ in pairs], -1), sum(slope for _, slope in pairs)

    def contains(self, X: np.ndarray) -> np.ndarray:
        """Return whether points are inside the support."""
        inside = np.ones(len(X), dtype=bool)
        for each, x in zip(self.maps, X.T, strict=True):
            inside &= each.contains(x)
        return inside

    def clip(self, X: np.ndarray) -> np.ndarray:
        """Return points moved into the support."""
        ends = np.array([each.bounds for each in self.maps]).T
        turns = np.array([isinstance(each, CircleMap) for each in self.maps])
        inside = np.nextafter(ends, ends[::-1])
        return np.where(turns, X, X.clip(*inside))

    def answers(
        self, X: np.ndarray, log_q: LogSums, answer: Callable[[Preimages], np.ndarray]
    ) -> np.ndarray:
        """Return answers (n_rows, ...) for the preimages of points, block by block if too many."""
        step = _TABLE_NUMBERS // len(self._cells.tops) if self.folding else max(1, len(X))
        try:
            if len(X) <= step:
                return answer(self.preimages(X, log_q))
        except ManyImagesError:
            step = len(X) // 2
        blocks = [X[start : start + step] for start in range(0, len(X), step)]
        return np.concatenate([self.answers(block, log_q, answer) for block in blocks])

    def preimages(self, X: np.ndarray, log_q: LogSums) -> Preimages:
        """Return the preimages of points that matter; ``log_q`` is the latent log density."""
        inside, n_rows = self.contains(X), len(X)
        rows = np.flatnonzero(inside)
        X = X if len(rows) == n_rows else X[rows]
        Z, log_slopes = self.latent(X)
        log_slopes = np.broadcast_to(log_slopes, len(X))
        if not self.folding:
            signs = np.broadcast_to(1.0, Z.shape)
            return Preimages(X, rows, Z, signs, log_slopes, log_q(Z), n_rows)
        try:
            points, Z, signs, values = self._with_images(Z, log_q, self._cells)
        except ManyImagesError:
            if n_rows > 1:
                raise
            found = self._with_images(Z, log_q, self._small_cells, _MAX_IMAGES)
            points, Z, signs, values = found
        return Preimages(X, rows[points], Z, signs, log_slopes[points], values, n_rows)

    def _with_images(
        self, Z: np.ndarray, log_q: LogSums, cells: _Cells, most: int | None = None
    ) -> tuple[np.ndarray, ...]:
        """Return points, images, signs and log densities of images that are not negligible.

        The nearest image of every cell bounds the density of all others of the cell.
        """
        images = [self.images(j, self._depth(Z)) for j in self.folding]
        total, largest, nearest = self._nearest(Z, images, cells)
        bounds, rows = cells.bounds(total, largest), np.arange(len(Z))
        best = bounds.argmax(axis=1)
        base = nearest[:, rows, best].T
        log_base = log_q(self._moved(Z, images, base)[0])
        floors = np.where(log_base > -np.inf, log_base - self._negligible, np.inf)
        is_near = bounds > floors[:, None]
        is_near[rows, best] = True
        points, chosen = np.nonzero(is_near)
        numbers = nearest[:, points, chosen].T
        pairs = _Pairs(points, chosen, numbers, total[is_near], largest[is_near])
        for k in range(len(images)):
            pairs = self._with_images_of(k, images[k], Z, cells, pairs, floors)
            if len(pairs.points) > (_MAX_NUMBERS // Z.shape[1] if most is None else most):
                if most is None:
                    raise ManyImagesError
                found = cells.bounds(pairs.total, pairs.largest, pairs.cells)
                pairs = pairs.take(np.argsort(-found, kind="stable")[:most])
        points, numbers = _distinct(pairs)
        Z, signs = self._moved(Z[points], images, numbers)
        log_images, is_new = log_base[points], (numbers != base[points]).any(axis=1)
        if is_new.any():
            log_images[is_new] = log_q(Z[is_new])
        return points, Z, signs, log_images

    def _with_images_of(
        self,
        k: int,
        images: Images,
        Z: np.ndarray,
        cells: _Cells,
        pairs: _Pairs,
        floors: np.ndarray,
    ) -> _Pairs:
        """Add the images of one folded feature where the density may be above a floor."""
        j, first = self.folding[k], pairs.numbers[:, k]
        z = Z[pairs.points, j]
        nearest, parts = cells.apart(j, _image(images, first, z), pairs.cells), []
        for i in range(len(images.signs)):
            apart = cells.apart(j, _image(images, i, z), pairs.cells)
            found = pairs.with_image(k, i, apart - nearest, apart)
            is_near = cells.bounds(found.total, found.largest, found.cells) > floors[found.points]
            parts.append(found.take(np.flatnonzero(is_near | (first == i))))
        return _Pairs(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _depth(self, Z: np.ndarray) -> float:
        """Return how far below its bound the density of images that matter may be."""
        others = [j for j in range(Z.shape[1]) if j not in self.folding]
        total = sum(self._cells.apart(j, Z[:, j, None]).min(axis=1) for j in others)
        return self._negligible + 0.5 * float(np.max(total, initial=0.0))

    def _nearest(
        self, Z: np.ndarray, images: list[Images], cells: _Cells
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sum and maximum of distances (n, C) to cells, and nearest images (F, n, C)."""
        total = largest = np.zeros((len(Z), len(cells.tops)))
        nearest = np.empty((len(images), *total.shape), dtype=np.int16)
        for j, z in enumerate(Z.T):
            if j in self.folding:
                k = self.folding.index(j)
                pairs = zip(*images[k], strict=True)
                found = [cells.apart(j, (sign * z + offset)[:, None]) for sign, offset in pairs]
                nearest[k] = np.argmin(found, axis=0)
                apart = np.min(found, axis=0)
            else:
                apart = cells.apart(j, z[:, None])
            total, largest = total + apart, np.maximum(largest, apart)
        return total, largest, nearest

    def _moved(
        self, Z: np.ndarray, images: list[Images], numbers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return latent coordinates at images of these numbers (P, F), and their signs."""
        Z, signs = Z.copy(), np.ones(Z.shape)
        for k, j in enumerate(self.folding):
            signs[:, j] = images[k].signs[numbers[:, k]]
            Z[:, j] = _image(images[k], numbers[:, k], Z[:, j])
        return Z, signs

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
            return [tuple(_ends(each, np.array([low, high])).tolist())]
        return list(zip(*self.image_intervals(j, low, high).tolist(), strict=True))

    def image_intervals(self, j: int, low: Any, high: Any) -> np.ndarray:
        """Return the ends (2, n_images, ...) of the images of intervals of a folded feature."""
        each, (first, last) = self._turned[j], np.broadcast_arrays(low, high)
        if isinstance(each, CircleMap):  # where an interval may be longer than a turn
            start = each.inverse(first) + np.array([np.zeros_like(last), last - first])
        else:
            start = np.array([_ends(each, first), _ends(each, last)])
        signs, offsets = (each.reshape(-1, *[1] * first.ndim) for each in self.images(j))
        return np.sort(signs * start[:, None] + offsets, axis=0)

    def boxes(self, box: np.ndarray) -> list[np.ndarray]:
        """Return the latent boxes of a box (2, M), which do not overlap."""
        sides = [self.intervals(j, *box[:, j]) for j in range(box.shape[1])]
        return [np.array(each).T for each in product(*sides)]


def _image(images: Images, numbers: Any, z: np.ndarray) -> np.ndarray:
    """Return latent coordinates at images of these numbers."""
    return np.asarray(images.signs[numbers] * z + images.offsets[numbers])


def _distinct(pairs: _Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return the points and numbers of distinct images, by point."""
    rows = np.column_stack([pairs.points, pairs.numbers])
    rows = rows[np.lexsort(rows.T[::-1])]
    rows = rows[np.diff(rows, axis=0, prepend=-1).any(axis=1)]
    return rows[:, 0], rows[:, 1:]


def _neighbors(kernels: Kernels) -> np.ndarray:
    """Return for every kernel the number of a set of neighbors."""
    if kernels.n_kernels <= _MAX_CELLS:
        return np.arange(kernels.n_kernels)
    blocks = build_blocks(
        kernels.means / np.ptp(kernels.means, axis=0), 2 * kernels.n_kernels // _MAX_CELLS
    )
    numbers = np.empty(kernels.n_kernels, dtype=np.int64)
    for i, (members, size) in enumerate(zip(blocks.members, blocks.sizes, strict=True)):
        numbers[members[:size]] = i
    return numbers


def _stds(factors: np.ndarray) -> np.ndarray:
    """Return standard deviations (G, M) of inverse transforms, in any unit."""
    sizes = np.abs(factors).max(axis=1)
    return np.asarray(sizes * np.sqrt(((factors / sizes[:, None]) ** 2).sum(axis=1)))


def _apart(each: FeatureMap, first: float, second: float) -> float:
    if not each.is_folding:
        return first - second
    apart = each.fold.inverse(np.array(first)) - each.fold.inverse(np.array(second))
    if isinstance(each, CircleMap):
        apart = np.remainder(apart + 0.5 * each.period, each.period) - 0.5 * each.period
    return float(apart)


def _based(each: FeatureMap, x: Any, xp: Any = np) -> tuple[Any, Any]:
    """Return latent coordinates and log slopes of values, on the first turn of a circle."""
    return (each.inverse(x, xp), 0.0) if isinstance(each, CircleMap) else each.latent(x, xp)


def _ends(each: FeatureMap, x: np.ndarray) -> np.ndarray:
    """Return the latent coordinates of the ends of intervals, which may be infinite."""
    out, inside = np.array(x, dtype=float), np.isfinite(x)
    with np.errstate(divide="ignore"):
        out[inside] = _based(each, out[inside])[0]
    return out


# Kernels


def narrowed(maps: Sequence[FeatureMap], kernels: Kernels) -> Kernels:
    """Return kernels of the same density on circles, without many turns between and in them.

    A kernel that is much wider than a circle, given all other features, is uniform on it. So is a
    narrower one. Means that are many turns apart are moved to the same turn.
    """
    periods = np.array([_period(each) for each in maps])
    circles = np.flatnonzero(np.isfinite(periods)).tolist()
    means, transforms = kernels.means.copy(), kernels.transforms.copy()
    width = float(np.clip(2 * _UNIFORM / max(len(circles), 1), _LEAST_UNIFORM, _UNIFORM))
    for j in circles:
        first, period = means[0, j], periods[j]
        if np.ptp(means[:, j]) > 2 * period:
            means[:, j] = first + np.remainder(means[:, j] - first, period)
        with np.errstate(over="ignore", under="ignore"):
            wide = ((transforms[:, j] * period) ** 2).sum(axis=1) < (1.01 * width) ** -2
        transforms[wide] = _independent(transforms[wide], j, width * period)
    if np.array_equal(means, kernels.means) and np.array_equal(transforms, kernels.transforms):
        return kernels
    log_dets = np.linalg.slogdet(transforms)[1]
    return kernels._replace(means=means, transforms=transforms, log_dets=log_dets)


def _independent(transforms: np.ndarray, j: int, std: float) -> np.ndarray:
    """Return transforms of kernels in which a feature is independent, with a standard deviation."""
    factors = np.linalg.inv(transforms)
    stds = _stds(factors)
    factors = factors / stds[:, None]
    scatters = factors.swapaxes(1, 2) @ factors
    scatters[:, j], scatters[:, :, j] = 0.0, 0.0
    scatters[:, j, j], stds[:, j] = 1.0, std
    return np.linalg.inv(np.linalg.cholesky(scatters)).swapaxes(1, 2) / stds[:, :, None]


def _period(each: FeatureMap) -> float:
    """Return the period after which a fold is repeated, infinity if it is not."""
    width = float(np.subtract(*each.fold.bounds[::-1]))
    return width if isinstance(each, CircleMap) else 2 * width if each.is_folding else np.inf
