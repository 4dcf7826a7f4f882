"""Sums of Gaussian kernels at many points, in two ways.

Kernels that share a covariance with many others are summed in coordinates in which they are unit
Gaussians, tiles of neighbours at a time. Where nearly every kernel has a covariance of its own,
turning all points for each of them would cost more than it saves; there every difference is
turned by itself.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ..kernels.blocks import build_blocks
from ..kernels.mixture import (
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

LOG_2PI = float(np.log(2 * np.pi))

#: From points to the logarithms of the sums there, but for the Gaussians' constant.
LogSums = Callable[[np.ndarray], np.ndarray]


class Kernels(NamedTuple):
    """Kernels in groups that share a covariance; see :class:`~sevenhills.KernelMixture`."""

    log_weights: np.ndarray
    centres: np.ndarray
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
            self.centres[rows],
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
            self.centres[kept],
            np.append(0, np.cumsum(sizes[groups])),
            self.transforms[groups],
            self.log_dets[groups],
        )

    def locations(self) -> np.ndarray:
        """Return a point near every group, from which to measure coordinates without cancelling."""
        sums = np.add.reduceat(self.centres, self.offsets[:-1])
        return sums / np.diff(self.offsets)[:, None]


def parted(kernels: Kernels) -> tuple[Kernels | None, Kernels | None]:
    """Return the kernels that share a covariance, and those that have one of their own."""
    small = np.diff(kernels.offsets) < _SMALL
    if small.sum() <= _FEW:
        return kernels, None
    own = kernels.take(np.flatnonzero(small))
    return (None if small.all() else kernels.take(np.flatnonzero(~small))), own


def log_sums_of(kernels: Kernels) -> LogSums:
    """Return the function that sums kernels, prepared for many calls."""
    shared, own = parted(kernels)
    if own is None or shared is None:
        return _shared_sums(kernels) if own is None else _own_sums(kernels)
    return joined(_shared_sums(shared), _own_sums(own))


def joined(first: LogSums, second: LogSums) -> LogSums:
    """Return the function that sums the kernels of two others."""
    return lambda X: np.logaddexp(first(X), second(X))


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


class _Tiles(NamedTuple):
    """Kernels of shared covariance as the compiled sum wants them."""

    groups: np.ndarray
    columns: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_weights: np.ndarray
    tops: np.ndarray


def _shared_sums(kernels: Kernels) -> LogSums:
    """Prepare the kernels in tiles of neighbours, in the coordinates of their groups."""
    locations = kernels.locations()
    tiles = [_group_tiles(kernels, g, locations[g]) for g in range(len(locations))]
    size = max(tile.columns.shape[2] for tile in tiles)
    room = [(0, size - tile.columns.shape[2]) for tile in tiles]
    columns = [np.pad(t.columns, [(0, 0), (0, 0), r]) for t, r in zip(tiles, room, strict=True)]
    log_weights = [
        np.pad(t.log_weights, [(0, 0), r], constant_values=-np.inf)
        for t, r in zip(tiles, room, strict=True)
    ]
    joint = _Tiles(
        groups=np.concatenate([tile.groups for tile in tiles]),
        columns=np.concatenate(columns),
        lower=np.concatenate([tile.lower for tile in tiles]),
        upper=np.concatenate([tile.upper for tile in tiles]),
        log_weights=np.concatenate(log_weights),
        tops=np.concatenate([tile.tops for tile in tiles]),
    )
    return partial(_sum_shared, kernels.transforms, locations, joint)


def _group_tiles(kernels: Kernels, g: int, location: np.ndarray) -> _Tiles:
    rows = slice(kernels.offsets[g], kernels.offsets[g + 1])
    blocks = build_blocks((kernels.centres[rows] - location) @ kernels.transforms[g], _TILE_SIZE)
    n_leaves, leaf_size = blocks.members.shape
    log_weights = kernels.log_weights[rows][blocks.members] + kernels.log_dets[g]
    log_weights[np.arange(leaf_size) >= blocks.sizes[:, None]] = -np.inf
    return _Tiles(
        groups=np.full(n_leaves, g),
        columns=blocks.columns,
        lower=blocks.lower[-n_leaves:],
        upper=blocks.upper[-n_leaves:],
        log_weights=log_weights,
        tops=log_weights.max(axis=1),
    )


def _sum_shared(
    transforms: np.ndarray, locations: np.ndarray, tiles: _Tiles, X: np.ndarray
) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):  # holds for this thread only
        Y = np.matmul(X - locations[:, None], transforms)
    bounds, work = np.empty(len(tiles.tops)), np.empty((3, tiles.columns.shape[2]))
    out = np.empty(len(X))
    log_kernel_sums(Y, *tiles, bounds, work, work.view(np.int64), out)
    lost = np.isnan(out)
    if lost.any():
        rest = np.empty(lost.sum())
        careful_log_kernel_sums(
            Y[:, lost], tiles.groups, tiles.columns, tiles.log_weights, work[0], rest
        )
        out[lost] = rest
    return out


def _own_sums(kernels: Kernels) -> LogSums:
    """Prepare the kernels in tiles, each with a triangular factor of its inverse covariance."""
    n_kernels, n_features = kernels.centres.shape
    n_numbers = n_features * (n_features + 1) // 2
    size = int(np.clip(_TILE_NUMBERS // n_numbers, 8, _TILE_SIZE))
    n_tiles = -(-n_kernels // size)
    group = np.repeat(np.arange(len(kernels.log_dets)), np.diff(kernels.offsets))
    upper = np.asarray(np.linalg.qr(kernels.transforms.transpose(0, 2, 1), mode="r"))
    rows, columns = np.triu_indices(n_features)
    log_weights = np.full(n_tiles * size, -np.inf)
    log_weights[:n_kernels] = kernels.log_weights + kernels.log_dets[group]
    return partial(
        _sum_own,
        _tiled(kernels.centres, n_tiles, size),
        _tiled(upper[:, rows, columns][group], n_tiles, size),
        log_weights.reshape(n_tiles, size),
    )


def _tiled(values: np.ndarray, n_tiles: int, size: int) -> np.ndarray:
    """Return values (N, K) of kernels by tiles, (n_tiles, K, size), with zeros at the end."""
    out = np.zeros((n_tiles * size, values.shape[1]))
    out[: len(values)] = values
    return np.ascontiguousarray(out.reshape(n_tiles, size, -1).transpose(0, 2, 1))


def _sum_own(
    centres: np.ndarray, factors: np.ndarray, log_weights: np.ndarray, X: np.ndarray
) -> np.ndarray:
    differences, work = np.empty(centres.shape[1:]), np.empty((4, centres.shape[2]))
    sums = np.stack([np.full(len(X), -np.inf), np.zeros(len(X))])
    log_own_kernel_sums(
        X, centres, factors, log_weights, differences, work, work.view(np.int64), sums
    )
    with np.errstate(divide="ignore"):
        return sums[0] + np.log(sums[1])
