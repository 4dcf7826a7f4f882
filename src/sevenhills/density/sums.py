"""Sums of Gaussian kernels at many points, in two ways.

Kernels that share a covariance with many others are summed in coordinates in which they are unit
Gaussians, tiles of neighbours at a time. Where nearly every kernel has a covariance of its own,
turning all points for each of them would cost more than it saves; there every difference is
turned by itself.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..kernels.blocks import Blocks, build_blocks
from ..kernels.mixture import (
    NEGLIGIBLE,
    careful_log_kernel_sums,
    log_kernel_sums,
    log_own_kernel_sums,
)
from ..threads import map_blocks

#: Points that are transformed and summed together.
POINTS = 256
#: Kernels that are kept or left out of a sum together.
_TILE_SIZE = 256
#: Groups of fewer kernels are small.
_SMALL = 32
#: So many small groups are still best summed like large ones.
_FEW = 16
#: The numbers in a tile of kernels with covariances of their own, which should stay in the cache.
_TILE_NUMBERS = 16_384

#: Groups that extend over more widths of their kernels are divided: coordinates are measured from
#: the middle of a group, and this many widths cost five of the sixteen digits of a double.
_WIDEST = 2.0**16

LOG_2PI = float(np.log(2 * np.pi))

#: From points to the logarithms of the sums there, but for the Gaussians' constant.
LogSums = Callable[[np.ndarray], np.ndarray]


class Kernels(NamedTuple):
    """Kernels in groups that share a covariance; see :class:`~sevenhills.KernelMixture`."""

    log_weights: np.ndarray
    means: np.ndarray
    offsets: np.ndarray
    transforms: np.ndarray
    log_dets: np.ndarray

    def take(self, groups: np.ndarray) -> "Kernels":
        """Return some of the groups."""
        sizes = np.diff(self.offsets)[groups]
        offsets = np.append(0, np.cumsum(sizes))
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[groups] - offsets[:-1], sizes)
        return Kernels(
            self.log_weights[rows],
            self.means[rows],
            offsets,
            self.transforms[groups],
            self.log_dets[groups],
        )

    def with_weight(self) -> "Kernels":
        """Return those that have any weight."""
        kept = self.log_weights > -np.inf
        sizes = np.add.reduceat(kept, self.offsets[:-1], dtype=np.int64)
        groups = sizes > 0
        return Kernels(
            self.log_weights[kept],
            self.means[kept],
            np.append(0, np.cumsum(sizes[groups])),
            self.transforms[groups],
            self.log_dets[groups],
        )

    def locations(self) -> np.ndarray:
        """Return the middle of the range of every group."""
        lower, upper = self._ranges()
        return 0.5 * lower + 0.5 * upper

    def _ranges(self) -> tuple[np.ndarray, np.ndarray]:
        starts = self.offsets[:-1]
        return np.minimum.reduceat(self.means, starts), np.maximum.reduceat(self.means, starts)

    def parts(self) -> list[tuple[int, np.ndarray]] | None:
        """Divide groups that extend over too many widths of their kernels.

        Coordinates that are measured from one point lose the digits of kernels far away from it.

        Returns
        -------
        list of (group, rows) or None
            The group and the kernels of every part; None if the groups may stay as they are.
        """
        lower, upper = self._ranges()
        with np.errstate(over="ignore", invalid="ignore"):
            bounds = np.matmul((upper - lower)[:, None], np.abs(self.transforms)).max(axis=(1, 2))
        wide = ~(bounds <= _WIDEST)
        if not wide.any():
            return None
        parts: list[tuple[int, np.ndarray]] = []
        for g, (start, end) in enumerate(pairwise(self.offsets.tolist())):
            rows = [np.arange(end - start)]
            if wide[g]:
                rows = _compact_parts(self.means[start:end], self.transforms[g])
            parts.extend((g, start + each) for each in rows)
        return parts

    def compact(self) -> "Kernels":
        """Return the same kernels in groups, none of which extends over too many widths."""
        parts = self.parts()
        if parts is None or len(parts) == len(self.log_dets):
            return self
        groups = [g for g, _ in parts]
        members = np.concatenate([rows for _, rows in parts])
        return Kernels(
            self.log_weights[members],
            self.means[members],
            np.append(0, np.cumsum([len(rows) for _, rows in parts])),
            self.transforms[groups],
            self.log_dets[groups],
        )


def middle_of(means: np.ndarray) -> np.ndarray:
    """Return the middle of the range of points."""
    return np.asarray(0.5 * means.min(axis=0) + 0.5 * means.max(axis=0))


def _compact_parts(means: np.ndarray, transform: np.ndarray) -> list[np.ndarray]:
    """Divide kernels of one covariance into parts that do not extend over too many widths.

    Parts are halved at the middle of their widest coordinate until they are small enough.

    Returns
    -------
    list of ndarray
        The indices of the kernels of every part.
    """
    largest = np.abs(transform).max()
    waiting, parts = [np.arange(len(means))], []
    while waiting:
        rows = waiting.pop()
        apart = means[rows] - middle_of(means[rows])
        reach = max(np.abs(apart).max(), np.finfo(float).tiny)
        # In units in which nothing overflows.
        turned = (apart / reach) @ (transform / largest)
        low, high = turned.min(axis=0), turned.max(axis=0)
        widest = int((high - low).argmax())
        is_upper = turned[:, widest] > 0.5 * (low + high)[widest]
        with np.errstate(over="ignore"):
            is_compact = (high - low)[widest] <= _WIDEST / reach / largest
        if is_compact or is_upper.all() or not is_upper.any():
            parts.append(rows)
        else:
            waiting.extend([rows[~is_upper], rows[is_upper]])
    return parts


def has_own_covariances(kernels: Kernels) -> np.ndarray:
    """Return for every group whether its kernels are best turned each by itself."""
    small = np.diff(kernels.offsets) < _SMALL
    return small if small.sum() > _FEW else np.zeros(len(small), dtype=bool)


def parted(kernels: Kernels) -> tuple[Kernels | None, Kernels | None]:
    """Return the kernels that share a covariance, and those that have one of their own."""
    kernels = kernels.compact()
    small = has_own_covariances(kernels)
    if not small.any():
        return kernels, None
    own = kernels.take(np.flatnonzero(small))
    return (None if small.all() else kernels.take(np.flatnonzero(~small))), own


def log_sums_of(kernels: Kernels) -> LogSums:
    """Return the function that sums kernels, prepared for many calls."""
    shared, own = parted(kernels)
    sums: list[LogSums] = []
    if shared is not None:
        sums.append(partial(_sum_shared, shared_tiles(shared), NEGLIGIBLE))
    if own is not None:
        sums.append(partial(_sum_own, own_tiles(own)))
    return sums[0] if len(sums) == 1 else joined(*sums)


def joined(first: LogSums, second: LogSums) -> LogSums:
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
    """Return the sums at many points, a block of them at a time."""
    out = np.empty(len(X))

    def evaluate(blocks: range) -> None:
        for block in blocks:
            rows = slice(block * n_points, (block + 1) * n_points)
            out[rows] = log_sums(X[rows])

    map_blocks(evaluate, -(-len(X) // n_points), n_jobs)
    return out


class Tiles(NamedTuple):
    """Kernels of shared covariance as the compiled sum wants them."""

    groups: np.ndarray
    columns: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_weights: np.ndarray
    tops: np.ndarray


class SharedTiles(NamedTuple):
    """Kernels of shared covariance, and what turns points into the coordinates of their groups."""

    transforms: np.ndarray
    locations: np.ndarray
    tiles: Tiles


def shared_tiles(kernels: Kernels) -> SharedTiles:
    """Prepare the kernels in tiles of neighbours, in the coordinates of their groups."""
    locations = kernels.locations()
    if np.diff(kernels.offsets).max() <= _TILE_SIZE:
        return SharedTiles(kernels.transforms, locations, _single_tiles(kernels, locations))
    blocks = [_group_blocks(kernels, g, locations[g]) for g in range(len(locations))]
    return SharedTiles(kernels.transforms, locations, _tiles_of(kernels, blocks))


def _single_tiles(kernels: Kernels, locations: np.ndarray) -> Tiles:
    """Make every group one tile, which takes half the time where no group is larger."""
    starts, sizes = kernels.offsets[:-1], np.diff(kernels.offsets)
    groups, size = np.arange(len(sizes)), int(sizes.max())
    turned = kernels.means - np.repeat(locations, sizes, axis=0)
    columns = np.zeros((len(sizes), turned.shape[1], size))
    log_weights = np.full((len(sizes), size), -np.inf)
    for g, (start, end) in enumerate(pairwise(kernels.offsets.tolist())):
        turned[start:end] = turned[start:end] @ kernels.transforms[g]
        columns[g, :, : end - start] = turned[start:end].T
        log_weights[g, : end - start] = kernels.log_weights[start:end] + kernels.log_dets[g]
    lower, upper = np.minimum.reduceat(turned, starts), np.maximum.reduceat(turned, starts)
    return Tiles(groups, columns, lower, upper, log_weights, log_weights.max(axis=1))


def _group_blocks(kernels: Kernels, g: int, location: np.ndarray) -> Blocks:
    rows = slice(kernels.offsets[g], kernels.offsets[g + 1])
    return build_blocks((kernels.means[rows] - location) @ kernels.transforms[g], _TILE_SIZE)


def _tiles_of(kernels: Kernels, blocks: Sequence[Blocks]) -> Tiles:
    """Put the leaves of all groups together; those of fewer kernels than others are filled up."""
    bounds = np.cumsum([0, *(len(each.sizes) for each in blocks)])
    n_tiles, n_features = bounds[-1], kernels.means.shape[1]
    size = max(each.members.shape[1] for each in blocks)
    columns = np.zeros((n_tiles, n_features, size))
    log_weights = np.full((n_tiles, size), -np.inf)
    lower, upper = np.empty((2, n_tiles, n_features))
    for g, (each, (start, end)) in enumerate(zip(blocks, pairwise(bounds), strict=True)):
        n_leaves, leaf_size = each.members.shape
        columns[start:end, :, :leaf_size] = each.columns
        lower[start:end], upper[start:end] = each.lower[-n_leaves:], each.upper[-n_leaves:]
        own = kernels.log_weights[kernels.offsets[g] + each.members] + kernels.log_dets[g]
        own[np.arange(leaf_size) >= each.sizes[:, None]] = -np.inf
        log_weights[start:end, :leaf_size] = own
    groups = np.repeat(np.arange(len(blocks)), np.diff(bounds))
    return Tiles(groups, columns, lower, upper, log_weights, log_weights.max(axis=1))


def _sum_shared(kernels: SharedTiles, negligible: float, X: np.ndarray) -> np.ndarray:
    transforms, locations, tiles = kernels
    with np.errstate(over="ignore", invalid="ignore"):  # holds for this thread only
        Y = np.matmul(X - locations[:, None], transforms)
    bounds, work = np.empty(len(tiles.tops)), np.empty((3, tiles.columns.shape[2]))
    out = np.empty(len(X))
    log_kernel_sums(Y, *tiles, negligible, bounds, work, work.view(np.int64), out)
    lost = np.isnan(out)
    if lost.any():
        rest = np.empty(lost.sum())
        careful_log_kernel_sums(
            Y[:, lost], tiles.groups, tiles.columns, tiles.log_weights, work[0], rest
        )
        out[lost] = rest
    return out


class NearSums(NamedTuple):
    """What sums kernels that share covariances directly, but for tiles too far away to matter.

    Memory: the kernels once more.
    """

    tiles: SharedTiles
    n_kernels: int

    @classmethod
    def of(cls, kernels: Kernels) -> "NearSums":
        """Prepare the sums."""
        return cls(shared_tiles(kernels), len(kernels.means))

    @property
    def n_points(self) -> int:
        """How many points to ask for at a time."""
        return POINTS

    def within(self, tol: float) -> LogSums:
        """Return the function whose results are wrong by less than ``tol``, but for rounding."""
        negligible = float(np.log(2 * self.n_kernels / min(tol, 0.5)))
        return partial(_sum_shared, self.tiles, min(negligible, NEGLIGIBLE))


class OwnTiles(NamedTuple):
    """Kernels with a covariance of their own, in tiles."""

    means: np.ndarray
    factors: np.ndarray
    log_weights: np.ndarray


def own_tiles(kernels: Kernels) -> OwnTiles:
    """Prepare the kernels in tiles, each with a triangular factor of its inverse covariance."""
    n_kernels, n_features = kernels.means.shape
    n_numbers = n_features * (n_features + 1) // 2
    size = int(np.clip(_TILE_NUMBERS // n_numbers, 8, _TILE_SIZE))
    n_tiles = -(-n_kernels // size)
    group = np.repeat(np.arange(len(kernels.log_dets)), np.diff(kernels.offsets))
    upper = np.asarray(np.linalg.qr(kernels.transforms.transpose(0, 2, 1), mode="r"))
    rows, columns = np.triu_indices(n_features)
    log_weights = np.full(n_tiles * size, -np.inf)
    log_weights[:n_kernels] = kernels.log_weights + kernels.log_dets[group]
    return OwnTiles(
        tiled(kernels.means, n_tiles, size),
        tiled(upper[:, rows, columns][group], n_tiles, size),
        log_weights.reshape(n_tiles, size),
    )


def tiled(values: np.ndarray, n_tiles: int, size: int) -> np.ndarray:
    """Return values (N, K) of kernels by tiles, (n_tiles, K, size), with zeros at the end."""
    out = np.zeros((n_tiles * size, values.shape[1]))
    out[: len(values)] = values
    return np.ascontiguousarray(out.reshape(n_tiles, size, -1).transpose(0, 2, 1))


def _sum_own(kernels: OwnTiles, X: np.ndarray) -> np.ndarray:
    means, factors, log_weights = kernels
    differences, work = np.empty(means.shape[1:]), np.empty((4, means.shape[2]))
    sums = np.stack([np.full(len(X), -np.inf), np.zeros(len(X))])
    log_own_kernel_sums(
        X, means, factors, log_weights, differences, work, work.view(np.int64), sums
    )
    with np.errstate(divide="ignore"):
        return sums[0] + np.log(sums[1])
