"""The kernels of a mixture as a tuple of arrays, and sums of them at many points.

Groups of many kernels that share a covariance are summed in coordinates in which their kernels are
unit Gaussians, a tile of neighboring kernels at a time. Where groups are many, transforming all
points for each of them would cost more than it saves; there a tree of tiles tells which kernels are
in reach of some points, and the others are left out (:mod:`~sevenhills.density.kernel_tree`).
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from ..kernels.blocks import Blocks, build_blocks, neighbor_order
from ..kernels.concentric import WIDTH, log_tree_sums
from ..kernels.mixture import (
    BLOCK,
    NEGLIGIBLE,
    log_kernel_sums,
    log_own_kernel_sums,
    log_sums_of_few,
)
from ..threads import map_rows
from .kernel_tree import KernelTree, build_tree, find_families, ranges

#: Points that are given to a sum together.
POINTS = 256
#: Neighbors that are transformed and summed together, some blocks.
_SOME_POINTS = 1024
#: Tiles are padded to multiples of this, the width of vector instructions.
_LANES = 8
#: Fewer points are summed one by one where kernels have covariances of their own.
_FEW_POINTS = 16
#: Pairs of kernels and points up to which all are added: the sum that leaves tiles out is as fast
#: for a few hundred kernels, but takes three times as long to compile.
_FEW_SHARED = 2**18
#: Kernels of a tile, which is added to a sum or left out as a whole.
_TILE_SIZE = 256
#: Groups of fewer kernels are small: the kernels of many small groups are summed one by one.
SMALL_GROUP = 32
#: Where groups are many, those of fewer kernels are summed in a tree: this, by whether the Gauss
#: transform sums the others, times the number of groups that are not small. Every one of these
#: costs time at every point, wherever it is.
_PER_GROUP = {True: 64, False: 4}
#: The highest dimension in which many kernels are in few cells of the Gauss transform.
GAUSS_TRANSFORM_FEATURES = 3
#: Up to this many small groups are summed like large ones.
_FEW_SMALL_GROUPS = 16
#: The numbers in a tile of kernels with covariances of their own, which should stay in the cache.
_TILE_NUMBERS = 16_384
#: Groups that extend over more widths of their kernels are divided: coordinates are measured from
#: the middle of a group, and this many widths cost five of the sixteen digits of a double.
_MAX_WIDTHS = 2.0**16
#: The least dimension in which points are ordered by the nearest tile of kernels; the blocks of a
#: k-d tree, which are made faster, then mix points of several clusters.
_FEWEST_ORDERED = 4
#: The numbers in a table of differences between points and kernels.
_TABLE_NUMBERS = 2**20

LOG_2PI = float(np.log(2 * np.pi))

#: From points to the logarithms of the kernel sums there, without the Gaussians' constant.
LogSums = Callable[[np.ndarray], np.ndarray]


class Kernels(NamedTuple):
    """Kernels in groups that share a covariance; see :class:`~sevenhills.KernelMixture`."""

    log_weights: np.ndarray
    means: np.ndarray
    offsets: np.ndarray
    transforms: np.ndarray
    log_dets: np.ndarray

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        return int(self.means.shape[1])

    @property
    def n_kernels(self) -> int:
        """The number of kernels."""
        return len(self.means)

    @property
    def n_groups(self) -> int:
        """The number of groups that share a covariance."""
        return len(self.log_dets)

    @property
    def group_of_kernel(self) -> np.ndarray:
        """The group of every kernel."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.offsets))

    @property
    def log_heights(self) -> np.ndarray:
        """The log of every kernel at its mean, times its weight, without the constant."""
        return self.log_weights + np.repeat(self.log_dets, np.diff(self.offsets))

    def coordinates(self, g: int, center: np.ndarray) -> np.ndarray:
        """Return the means of a group as unit Gaussians, measured from a point."""
        rows = slice(self.offsets[g], self.offsets[g + 1])
        return (self.means[rows] - center) @ self.transforms[g]

    def heights(self, g: int) -> np.ndarray:
        """Return the ``log_heights`` of a group."""
        return self.log_weights[self.offsets[g] : self.offsets[g + 1]] + self.log_dets[g]

    def take(self, groups: np.ndarray) -> "Kernels":
        """Return some of the groups."""
        sizes = np.diff(self.offsets)[groups]
        return self._subset(ranges(self.offsets[groups], sizes), sizes, groups)

    def select(self, chosen: np.ndarray) -> "Kernels":
        """Return the kernels where a mask is true."""
        sizes = np.add.reduceat(chosen, self.offsets[:-1], dtype=np.int64)
        return self._subset(chosen, sizes[sizes > 0], sizes > 0)

    def _subset(self, rows: np.ndarray, sizes: Any, groups: Any) -> "Kernels":
        """Return the kernels of some rows, in groups of these sizes."""
        offsets = np.append(0, np.cumsum(sizes))
        kept = self.transforms[groups], self.log_dets[groups]
        return Kernels(self.log_weights[rows], self.means[rows], offsets, *kept)

    def with_weight(self) -> "Kernels":
        """Return the kernels whose weight is not zero."""
        return self.select(self.log_weights > -np.inf)

    def centers(self) -> np.ndarray:
        """Return the middle of the range of every group."""
        lower, upper = self._ranges()
        return 0.5 * lower + 0.5 * upper

    def compact(self) -> "Kernels":
        """Return the same kernels in groups that do not extend over too many widths."""
        if not self._is_wide().any():
            return self
        parts = self.parts()
        if len(parts) == self.n_groups:
            return self
        groups, members = zip(*parts, strict=True)
        sizes = [len(rows) for rows in members]
        return self._subset(np.concatenate(members), sizes, list(groups))

    def parts(self) -> list[tuple[int, np.ndarray]]:
        """Return groups and their kernels, wide groups divided into several parts.

        Coordinates that are measured from one point lose the digits of kernels far away from it.
        """
        parts: list[tuple[int, np.ndarray]] = []
        for g, (is_wide, ends) in enumerate(
            zip(self._is_wide(), pairwise(self.offsets.tolist()), strict=True)
        ):
            rows = np.arange(*ends)
            divided = [rows]
            if is_wide:
                divided = [rows[part] for part in _divide(self.means[rows], self.transforms[g])]
            parts.extend((g, part) for part in divided)
        return parts

    def _is_wide(self) -> np.ndarray:
        """Whether the means of a group may lie too many widths of its kernels apart."""
        lower, upper = self._ranges()
        with np.errstate(over="ignore", invalid="ignore"):
            bounds = np.matmul((upper - lower)[:, None], np.abs(self.transforms)).max(axis=(1, 2))
        return ~(bounds <= _MAX_WIDTHS)

    def _ranges(self) -> tuple[np.ndarray, np.ndarray]:
        starts = self.offsets[:-1]
        return np.minimum.reduceat(self.means, starts), np.maximum.reduceat(self.means, starts)


def middle(points: np.ndarray) -> np.ndarray:
    """Return the middle of the range of points."""
    return np.asarray(0.5 * points.min(axis=0) + 0.5 * points.max(axis=0))


def _divide(means: np.ndarray, transform: np.ndarray) -> list[np.ndarray]:
    """Divide the kernels of one covariance into parts that do not extend over too many widths.

    Parts are halved at the middle of their widest coordinate until they are small enough.
    """
    largest = np.abs(transform).max()
    waiting, parts = [np.arange(len(means))], []
    while waiting:
        rows = waiting.pop()
        differences = means[rows] - middle(means[rows])
        reach = max(np.abs(differences).max(), np.finfo(float).tiny)
        # Scaled so that nothing overflows.
        Y = (differences / reach) @ (transform / largest)
        low, high = Y.min(axis=0), Y.max(axis=0)
        widest = int((high - low).argmax())
        is_upper = Y[:, widest] > 0.5 * (low + high)[widest]
        with np.errstate(over="ignore"):
            is_compact = (high - low)[widest] <= _MAX_WIDTHS / reach / largest
        if is_compact or is_upper.all() or not is_upper.any():
            parts.append(rows)
        else:
            waiting.extend([rows[~is_upper], rows[is_upper]])
    return parts


# Own and shared covariances


def has_own_covariances(kernels: Kernels) -> np.ndarray:
    """Return for every group whether its kernels are summed one by one."""
    small = np.diff(kernels.offsets) < SMALL_GROUP
    return small if small.sum() > _FEW_SMALL_GROUPS else np.zeros(len(small), dtype=bool)


def split_by_sharing(kernels: Kernels) -> tuple[Kernels | None, Kernels | None]:
    """Return the kernels that share a covariance, and those that have one of their own."""
    return _split(kernels.compact(), SMALL_GROUP)


def split_by_size(kernels: Kernels) -> tuple[Kernels | None, Kernels | None]:
    """Return the kernels of large groups, and those of many groups, for a tree."""
    kernels = kernels.compact()
    n_groups = int((np.diff(kernels.offsets) >= SMALL_GROUP).sum())
    per_group = _PER_GROUP[kernels.n_features <= GAUSS_TRANSFORM_FEATURES]
    return _split(kernels, max(SMALL_GROUP, per_group * n_groups))


def _split(kernels: Kernels, size: int) -> tuple[Kernels | None, Kernels | None]:
    """Return groups of at least this size, or all if few are smaller, and the others."""
    small = np.diff(kernels.offsets) < size
    if small.sum() <= _FEW_SMALL_GROUPS:
        return kernels, None
    large = None if small.all() else kernels.take(np.flatnonzero(~small))
    return large, kernels.take(np.flatnonzero(small))


# Sums


def log_sums_of(kernels: Kernels) -> LogSums:
    """Return the function that sums kernels, prepared for many calls."""
    large, small = split_by_size(kernels)
    sums: list[LogSums] = []
    if large is not None:
        sums.append(partial(sum_shared, shared_tiles(large), NEGLIGIBLE))
    if small is not None:
        sums.append(TreeSums(small).within(NEGLIGIBLE))
    return sums[0] if len(sums) == 1 else added(*sums)


def added(first: LogSums, second: LogSums) -> LogSums:
    """Return the function that sums the kernels of two others."""
    return lambda X: np.logaddexp(first(X), second(X))


def log_squares_of(kernels: Kernels, counts: np.ndarray) -> LogSums:
    r"""Return the function that sums the squares of kernels, :math:`\sum_k (w_k N_k)^2 / n_k`.

    The square of a Gaussian is a Gaussian of half the covariance. Kernels of no count are left
    out; so is the square of the Gaussians' constant.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_weights = 2 * kernels.log_weights - np.log(counts)
    log_weights[np.isneginf(kernels.log_weights) | (counts == 0)] = -np.inf
    return log_sums_of(
        kernels._replace(
            log_weights=log_weights,
            transforms=np.sqrt(2) * kernels.transforms,
            log_dets=2 * kernels.log_dets,
        )
    )


def sums_at(
    log_sums: LogSums, X: np.ndarray, n_jobs: int | None = None, n_points: int = POINTS
) -> np.ndarray:
    """Return the sums at many points, a block of points at a time."""
    out = np.empty(len(X))
    if len(X) > n_points and effective_n_jobs(n_jobs) > 1:
        return map_rows(log_sums, X, n_points, n_jobs, out)
    for start in range(0, len(X), n_points):
        out[start : start + n_points] = log_sums(X[start : start + n_points])
    return out


class Tiles(NamedTuple):
    """Tiles of kernels of shared covariance, in the layout of the compiled sum."""

    groups: np.ndarray
    columns: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_weights: np.ndarray
    tops: np.ndarray


class SharedTiles(NamedTuple):
    """Tiles, and the maps from points to the coordinates of their groups."""

    transforms: np.ndarray
    centers: np.ndarray
    tiles: Tiles

    def coordinates(self, X: np.ndarray) -> np.ndarray:
        """Return points in the coordinates of every group, (n_groups, n_points, n_features)."""
        with np.errstate(over="ignore", invalid="ignore"):  # holds for this thread only
            return np.matmul(X - self.centers[:, None], self.transforms)

    def order(self, X: np.ndarray) -> np.ndarray:
        """Return the rows of points in an order of neighbors."""
        if len(X) <= BLOCK:
            return np.arange(len(X))
        g = self.tiles.groups[len(self.tiles.groups) // 2]
        with np.errstate(over="ignore", invalid="ignore"):
            return neighbor_order((X - self.centers[g]) @ self.transforms[g], _FEW_POINTS)


def shared_tiles(kernels: Kernels) -> SharedTiles:
    """Prepare the kernels in tiles of neighbors, in the coordinates of their groups."""
    centers = kernels.centers()
    is_small = np.diff(kernels.offsets).max() <= _TILE_SIZE
    make_tiles = _single_tiles if is_small else _leaf_tiles
    return SharedTiles(kernels.transforms, centers, make_tiles(kernels, centers))


def _single_tiles(kernels: Kernels, centers: np.ndarray) -> Tiles:
    """Make every group one tile, which takes half the time where no group is larger."""
    starts, sizes = kernels.offsets[:-1], np.diff(kernels.offsets)
    groups, size = np.arange(len(sizes)), -(-int(sizes.max()) // _LANES) * _LANES
    Y = kernels.means - np.repeat(centers, sizes, axis=0)
    columns = np.zeros((len(sizes), Y.shape[1], size))
    log_weights = np.full((len(sizes), size), -np.inf)
    for g, (start, end) in enumerate(pairwise(kernels.offsets.tolist())):
        Y[start:end] = Y[start:end] @ kernels.transforms[g]
        columns[g, :, : end - start] = Y[start:end].T
        log_weights[g, : end - start] = kernels.log_weights[start:end] + kernels.log_dets[g]
    lower, upper = np.minimum.reduceat(Y, starts), np.maximum.reduceat(Y, starts)
    return Tiles(groups, columns, lower, upper, log_weights, log_weights.max(axis=1))


def _leaf_tiles(kernels: Kernels, centers: np.ndarray) -> Tiles:
    """Make the leaves of a tree of every group tiles of one size."""
    units = [kernels.coordinates(g, center) for g, center in enumerate(centers)]
    blocks = [build_blocks(Y, _TILE_SIZE) for Y in units]
    n_tiles = [len(each.sizes) for each in blocks]
    size = -(-max(each.members.shape[1] for each in blocks) // _LANES) * _LANES
    leaves = [leaf_values(each, kernels.heights(g)) for g, each in enumerate(blocks)]
    log_weights = padded(leaves, size, -np.inf)
    return Tiles(
        np.repeat(np.arange(len(blocks)), n_tiles),
        padded([each.columns for each in blocks], size, 0.0),
        np.concatenate([each.lower[-n:] for each, n in zip(blocks, n_tiles, strict=True)]),
        np.concatenate([each.upper[-n:] for each, n in zip(blocks, n_tiles, strict=True)]),
        log_weights,
        log_weights.max(axis=1),
    )


def leaf_values(blocks: Blocks, values: np.ndarray) -> np.ndarray:
    """Return logarithms by the leaves of a tree, minus infinity where a leaf is not full."""
    out = np.asarray(values[blocks.members])
    out[np.arange(out.shape[1]) >= blocks.sizes[:, None]] = -np.inf
    return out


def padded(arrays: Sequence[np.ndarray], size: int, value: float) -> np.ndarray:
    """Concatenate arrays after padding their last axis to a size."""
    ends = np.cumsum([0, *(len(each) for each in arrays)])
    out = np.full((ends[-1], *arrays[0].shape[1:-1], size), value)
    for each, start in zip(arrays, ends, strict=False):
        out[start : start + len(each), ..., : each.shape[-1]] = each
    return out


def sum_shared(shared: SharedTiles, negligible: float, X: np.ndarray) -> np.ndarray:
    """Return the log sums at points, without tiles below exp(-negligible) of the sum."""
    if len(X) * shared.tiles.log_weights.size <= _FEW_SHARED:
        return _sum_few(shared, X)
    out, rows = np.empty(len(X)), shared.order(X)
    for start in range(0, len(X), _SOME_POINTS):
        some = rows[start : start + _SOME_POINTS]
        out[some] = _sum_tiles(shared, negligible, X[some])
    return out


def _sum_few(shared: SharedTiles, X: np.ndarray) -> np.ndarray:
    tiles, out = shared.tiles, np.empty(len(X))
    squares = np.empty(tiles.log_weights.shape)
    Y = shared.coordinates(X)
    log_sums_of_few(Y, tiles.groups, tiles.columns, tiles.log_weights, squares, out)
    return out


def _sum_tiles(shared: SharedTiles, negligible: float, X: np.ndarray) -> np.ndarray:
    tiles, Y = shared.tiles, shared.coordinates(X)
    Y[np.isnan(Y)] = np.inf  # an infinite coordinate minus another
    squares, sums = np.empty((4, tiles.columns.shape[2])), np.full((3, len(X)), -np.inf)
    near, highs = np.empty(BLOCK, dtype=np.int64), np.empty(BLOCK)
    sums[1] = 0.0
    with np.errstate(all="ignore"):
        bounds = _bound_blocks(tiles, Y)
        orders = np.argsort(-bounds, axis=0)
        log_kernel_sums(Y, *tiles, negligible, bounds, orders, near, highs, squares, sums)
        return sums[0] + np.log(sums[1])


def _bound_blocks(tiles: Tiles, Y: np.ndarray) -> np.ndarray:
    """Return upper bounds (n_tiles, n_blocks) on exponents, from boxes around blocks of points."""
    starts = np.arange(0, Y.shape[1], BLOCK)
    low, high = (each.reduceat(Y, starts, axis=1) for each in (np.minimum, np.maximum))
    gaps = tiles.lower[:, None] - high[tiles.groups]
    np.maximum(gaps, low[tiles.groups] - tiles.upper[:, None], out=gaps)
    np.maximum(gaps, 0.0, out=gaps)
    return np.asarray(tiles.tops[:, None] - 0.5 * np.einsum("tbm,tbm->tb", gaps, gaps))


class OwnTiles(NamedTuple):
    """Kernels with covariances of their own, in tiles."""

    means: np.ndarray
    factors: np.ndarray
    log_weights: np.ndarray


def own_tiles(kernels: Kernels) -> OwnTiles:
    """Prepare the kernels in tiles, each with a triangular factor of its inverse covariance."""
    n_kernels, n_features = kernels.means.shape
    n_numbers = n_features * (n_features + 1) // 2
    size = int(np.clip(_TILE_NUMBERS // n_numbers, 8, _TILE_SIZE))
    n_tiles = -(-n_kernels // size)
    rows, columns = np.triu_indices(n_features)
    log_weights = np.full(n_tiles * size, -np.inf)
    log_weights[:n_kernels] = kernels.log_heights
    return OwnTiles(
        tiled(kernels.means, n_tiles, size),
        tiled(_upper(kernels)[:, rows, columns][kernels.group_of_kernel], n_tiles, size),
        log_weights.reshape(n_tiles, size),
    )


def _upper(kernels: Kernels) -> np.ndarray:
    """Return the triangular factors of the inverse covariances of all groups."""
    return np.asarray(np.linalg.qr(kernels.transforms.transpose(0, 2, 1), mode="r"))


def tiled(values: np.ndarray, n_tiles: int, size: int) -> np.ndarray:
    """Return values (N, K) of kernels by tiles, (n_tiles, K, size), with zeros at the end."""
    out = np.zeros((n_tiles * size, values.shape[1]))
    out[: len(values)] = values
    return np.ascontiguousarray(out.reshape(n_tiles, size, -1).transpose(0, 2, 1))


class TreeSums:
    """Sums of kernels of many covariances, prepared when they are first needed."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels

    @cached_property
    def tree(self) -> KernelTree:
        """The kernels in a tree."""
        kernels = self.kernels
        upper = _upper(kernels)
        families = find_families(kernels.means, kernels.group_of_kernel, upper, kernels.log_heights)
        return build_tree(families, upper)

    @cached_property
    def _few(self) -> list[LogSums]:
        """The sums one by one."""
        shared, own = split_by_sharing(self.kernels)
        sums: list[LogSums] = []
        if shared is not None:
            sums.append(partial(sum_shared, shared_tiles(shared), NEGLIGIBLE))
        if own is not None:
            sums.append(partial(_sum_own, own_tiles(own)))
        return sums

    def within(self, negligible: float) -> LogSums:
        """Return the sum without kernels below exp(-negligible) of it."""
        return partial(self._sum, negligible)

    def within_ordered(self, negligible: float) -> LogSums:
        """Return the same for points in an order of neighbors."""
        return partial(_sum_tree, self.tree, negligible)

    def order(self, X: np.ndarray) -> np.ndarray:
        """Return the rows of points in an order of neighbors."""
        if X.shape[1] < _FEWEST_ORDERED:
            return neighbor_order(X, WIDTH)
        return np.argsort(self.tree.nearest_tiles(X))

    def _sum(self, negligible: float, X: np.ndarray) -> np.ndarray:
        if len(X) < _FEW_POINTS:
            return np.asarray(np.logaddexp.reduce([sums(X) for sums in self._few]))
        order, out = self.order(X), np.empty(len(X))
        out[order] = _sum_tree(self.tree, negligible, X[order])
        return out


def aligned(*shape: int) -> np.ndarray:
    """Return an array of numbers that starts at a cache line, which is read twice as fast."""
    n_numbers = int(np.prod(shape))
    numbers = np.empty(n_numbers + 8)
    start = -(numbers.ctypes.data // 8) % 8
    return numbers[start : start + n_numbers].reshape(shape)


def _sum_tree(tree: KernelTree, negligible: float, X: np.ndarray) -> np.ndarray:
    """Return the log sums at points in an order of neighbors."""
    # The last block is filled up with one of its points.
    rows = np.minimum(np.arange(len(X) + -len(X) % WIDTH), len(X) - 1).reshape(-1, WIDTH)
    columns = aligned(len(rows), X.shape[1], WIDTH)
    columns[:] = X[rows].transpose(0, 2, 1)
    stack, work = np.empty(tree.depth + 2, dtype=np.int64), aligned(4, WIDTH)
    units, turned = aligned(X.shape[1], WIDTH), aligned(X.shape[1], WIDTH)
    out = np.empty(rows.shape)
    nearest = tree.nearest_tiles(X[rows[:, WIDTH // 2]])
    log_tree_sums(columns, nearest, *tree, negligible, stack, units, turned, work, out)
    return out.ravel()[: len(X)]


def _sum_own(kernels: OwnTiles, X: np.ndarray) -> np.ndarray:
    means, factors, log_weights = kernels
    units, work = np.empty(means.shape[1:]), np.empty((3, means.shape[2]))
    sums = np.stack([np.full(len(X), -np.inf), np.zeros(len(X))])
    log_own_kernel_sums(X, means, factors, log_weights, units, work, work.view(np.int64), sums)
    with np.errstate(divide="ignore"):
        return sums[0] + np.log(sums[1])


# Kernel by kernel


class _LargePart(NamedTuple):
    """Kernels of a large group in the coordinates of the group."""

    rows: np.ndarray
    center: np.ndarray
    transform: np.ndarray
    Y: np.ndarray


class KernelDistances(NamedTuple):
    """Squared distances from points to every kernel, in units of the kernel's width."""

    kernels: Kernels
    large: list[_LargePart]
    small: np.ndarray  #: the kernels of small groups

    @classmethod
    def from_kernels(cls, kernels: Kernels) -> "KernelDistances":
        """Prepare the kernels of large groups."""
        large, is_small = [], np.ones(kernels.n_kernels, dtype=bool)
        for g, rows in kernels.parts():
            if len(rows) >= SMALL_GROUP:
                center, transform = middle(kernels.means[rows]), kernels.transforms[g]
                Y = (kernels.means[rows] - center) @ transform
                large.append(_LargePart(rows, center, transform, Y))
                is_small[rows] = False
        return cls(kernels, large, np.flatnonzero(is_small))

    def squares(self, X: np.ndarray) -> np.ndarray:
        """Return the squared distances, (n_points, n_kernels), infinite where they overflow."""
        out = np.empty((len(X), self.kernels.n_kernels))
        step = max(1, _TABLE_NUMBERS // X.size)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self.large:
                Y = (X - part.center) @ part.transform
                out[:, part.rows] = cdist(Y, part.Y, "sqeuclidean")
            for start in range(0, len(self.small), step):
                chosen = self.small[start : start + step]
                out[:, chosen] = self._own_squares(X, chosen)
        out[np.isnan(out)] = np.inf  # an infinite distance minus another
        return out

    def _own_squares(self, X: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        differences = X - self.kernels.means[chosen][:, None]
        groups = np.searchsorted(self.kernels.offsets, chosen, side="right") - 1
        Y = np.matmul(differences, self.kernels.transforms[groups])
        return np.asarray(np.einsum("kqm,kqm->qk", Y, Y))

    def log_kernels(self, X: np.ndarray) -> np.ndarray:
        """Return the log densities of all kernels, (n_points, n_kernels)."""
        kernels = self.kernels
        constants = kernels.log_dets - 0.5 * kernels.n_features * LOG_2PI
        return np.repeat(constants, np.diff(kernels.offsets)) - 0.5 * self.squares(X)


# Integrals of products


def covariances(transforms: np.ndarray) -> np.ndarray:
    """Return the covariances (G, M, M) of kernels from their transforms."""
    inverses = np.linalg.inv(transforms)
    return np.matmul(inverses.transpose(0, 2, 1), inverses)


def log_product_integral(first: Kernels, second: Kernels) -> float:
    """Return the log of the integral of the product of two sums of kernels.

    The integral of the product of two Gaussians is a Gaussian of the difference of their means,
    whose covariance is the sum of both.
    """
    few, many = sorted((first, second), key=lambda kernels: kernels.n_groups)
    spread = covariances(many.transforms)
    terms = []
    for g, covariance in enumerate(covariances(few.transforms)):
        transforms = np.linalg.inv(np.linalg.cholesky(spread + covariance)).transpose(0, 2, 1)
        log_dets = np.log(np.diagonal(transforms, axis1=1, axis2=2)).sum(axis=1)
        rows = slice(few.offsets[g], few.offsets[g + 1])
        log_sums = log_sums_of(many._replace(transforms=transforms, log_dets=log_dets))
        terms.append(sums_at(log_sums, few.means[rows]) + few.log_weights[rows])
    constant = 0.5 * few.n_features * LOG_2PI
    return float(logsumexp(np.concatenate(terms) - constant))
