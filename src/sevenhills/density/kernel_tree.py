"""A tree over kernels of many covariances, in the layout of the compiled sum.

Kernels of one mean whose covariances are multiples of each other are a family. Families are in
tiles of neighbors. A tile or a node of the tree has coordinates in which none of its kernels is
wider than a unit Gaussian: those of the sum of their covariances, scaled. The distance of a point
from the box of the means in these coordinates bounds all of its kernels.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..kernels.blocks import build_blocks
from ..kernels.concentric import invert_triangles

#: Families of a tile, at most.
_TILE_SIZE = 16
#: Families that share a covariance in a tile, more than that for every feature: the coordinates of
#: points in a tile take the longer the more features there are.
_PER_FEATURE = 2
#: Tiles of a leaf, at most.
_LEAF_SIZE = 2
#: The factor on distances within a group where groups are divided first.
_CONTRACTION = 2.0**-10
#: Kernels of one mean are concentric if the factor of one, divided by that of the other, differs
#: from a multiple of the identity by less than this, which is then the relative error of distances.
_CONCENTRIC = 1e-12
#: The numbers in matrices that are decomposed at a time.
_NUMBERS = 2**18
#: Bound on the rounding error of a product of triangles, relative to that of absolute values.
_ROUNDING = 8 * float(np.finfo(float).eps)


class Families(NamedTuple):
    """Kernels of one mean and of proportional covariances."""

    means: np.ndarray  #: (F, M)
    groups: np.ndarray  #: (F,) the group whose triangle measures distances
    starts: np.ndarray  #: (F + 1,) the first kernel of every family, and the number of kernels
    rates: np.ndarray  #: (K,) the factor on squared distances
    log_heights: np.ndarray  #: (K,)

    @property
    def widths(self) -> np.ndarray:
        """The standard deviation of the widest kernel, by that of a kernel of the group."""
        return np.asarray(np.sqrt(0.5 / np.minimum.reduceat(self.rates, self.starts[:-1])))

    @property
    def tops(self) -> np.ndarray:
        """The largest log height."""
        return np.asarray(np.maximum.reduceat(self.log_heights, self.starts[:-1]))

    def take(self, chosen: np.ndarray) -> "Families":
        """Return some of the families."""
        sizes = np.diff(self.starts)[chosen]
        kernels = ranges(self.starts[chosen], sizes)
        return Families(
            self.means[chosen],
            self.groups[chosen],
            np.append(0, np.cumsum(sizes)),
            self.rates[kernels],
            self.log_heights[kernels],
        )


class Boxes(NamedTuple):
    """The coordinates and boxes of tiles or nodes."""

    frames: np.ndarray  #: (n, M, M) upper triangles
    centers: np.ndarray  #: (n, M) the origin of the coordinates
    lower: np.ndarray  #: (n, M) the box of the means, in the coordinates
    upper: np.ndarray
    tops: np.ndarray  #: (n,) the largest log height


class KernelTree(NamedTuple):
    """The arrays of :func:`~sevenhills.kernels.concentric.log_tree_sums`, in its order."""

    frames: np.ndarray
    centers: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    tops: np.ndarray
    first_tiles: np.ndarray
    first_families: np.ndarray
    is_shared: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    factor_of_family: np.ndarray
    starts: np.ndarray
    rates: np.ndarray
    log_heights: np.ndarray

    @np.errstate(over="ignore", invalid="ignore")
    def nearest_tiles(self, X: np.ndarray) -> np.ndarray:
        """Return the tile of the nearest center for every point, in the root's coordinates."""
        n_features = X.shape[1]
        rows, columns = _packing(n_features)
        frame = np.zeros((n_features, n_features))
        frame[rows, columns] = self.frames[0]
        centers = (self.centers[-len(self.is_shared) :] - self.centers[0]) @ frame.T
        halves = 0.5 * np.square(centers).sum(axis=1)
        nearest = np.empty(len(X), dtype=np.int64)
        step = max(1, _NUMBERS // len(centers))
        for start in range(0, len(X), step):
            Y = (X[start : start + step] - self.centers[0]) @ frame.T
            nearest[start : start + step] = (halves - Y @ centers.T).argmin(axis=1)
        return nearest

    @property
    def depth(self) -> int:
        """The number of levels."""
        return len(self.first_tiles).bit_length()


def ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the ranges of integers with these starts and sizes, concatenated."""
    ends = np.cumsum(sizes)
    return np.arange(sizes.sum()) + np.repeat(starts - (ends - sizes), sizes)


# Families


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def find_families(
    means: np.ndarray, group: np.ndarray, upper: np.ndarray, log_heights: np.ndarray
) -> Families:
    """Return kernels in families; ``upper`` (G, M, M) are the triangles of the groups."""
    order = _order_by_mean(means)
    means, group = means[order], group[order]
    heads = np.flatnonzero(~_is_concentric(means, upper, group))
    starts = np.append(heads, len(means))
    diagonals = np.diagonal(upper, axis1=1, axis2=2)
    ratios = diagonals[group] / diagonals[np.repeat(group[heads], np.diff(starts))]
    rates = 0.5 * np.square(ratios.mean(axis=1))
    return Families(means[heads], group[heads], starts, rates, log_heights[order])


def _order_by_mean(means: np.ndarray) -> np.ndarray:
    """Return an order in which equal means follow each other."""
    keys = (means * np.sqrt(np.arange(2.0, means.shape[1] + 2))).sum(axis=1)
    return np.argsort(keys, kind="stable")


def _is_concentric(means: np.ndarray, upper: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return whether a kernel has the mean and the shape of the kernel before it."""
    out = np.zeros(len(means), dtype=bool)
    rows = 1 + np.flatnonzero((means[1:] == means[:-1]).all(axis=1))
    step = max(1, _NUMBERS // upper[0].size)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        ratios = np.matmul(upper[group[some]], _roots(upper[group[some - 1]]).transpose(0, 2, 1))
        scales = np.diagonal(ratios, axis1=1, axis2=2).mean(axis=1)[:, None, None]
        apart = np.abs(ratios / scales - np.eye(means.shape[1])).max(axis=(1, 2))
        out[some] = apart < _CONCENTRIC
    return out


def _roots(upper: np.ndarray) -> np.ndarray:
    """Return the transposed inverses of triangles, the columns of which have the variances."""
    roots = upper.transpose(0, 2, 1).copy(order="C")
    invert_triangles(roots)
    return roots


# Tiles


class _Tiles(NamedTuple):
    """Families in the order of tiles."""

    order: np.ndarray  #: (F,)
    sizes: np.ndarray  #: (n_tiles,)
    groups: np.ndarray  #: (n_tiles,) the group whose covariance all kernels share, or -1

    def take(self, chosen: np.ndarray) -> "_Tiles":
        starts = np.cumsum(self.sizes) - self.sizes
        order = self.order[ranges(starts[chosen], self.sizes[chosen])]
        return _Tiles(order, self.sizes[chosen], self.groups[chosen])


def _find_tiles(families: Families, upper: np.ndarray) -> _Tiles:
    """Divide families into tiles of neighbors, those of a large group among themselves."""
    order = np.argsort(families.groups, kind="stable")
    counts = np.bincount(families.groups, minlength=len(upper))
    ends = np.cumsum(counts)
    # Coordinates in which a kernel is wider than a unit Gaussian would bound nothing.
    is_wide = np.bincount(families.groups, families.widths > 1, len(upper)) > 0
    is_large = (counts >= _TILE_SIZE) & ~is_wide
    size = _TILE_SIZE + _PER_FEATURE * upper.shape[1]
    parts = []
    small = order[np.repeat(~is_large, counts)]
    if len(small):
        parts.append(_neighbors(families.means[small], small, _TILE_SIZE, -1))
    for g in np.flatnonzero(is_large).tolist():
        rows = order[ends[g] - counts[g] : ends[g]]
        parts.append(_neighbors(families.means[rows] @ upper[g].T, rows, size, g))
    return _Tiles(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _neighbors(X: np.ndarray, rows: np.ndarray, size: int, group: int) -> _Tiles:
    """Return tiles of neighboring families, whose places are given."""
    blocks = build_blocks(X, size)
    return _Tiles(rows[blocks.order], blocks.sizes, np.full(len(blocks.sizes), group))


# Boxes


def _envelopes(roots: np.ndarray) -> np.ndarray:
    """Return coordinates in which Gaussians are not wider than a unit Gaussian.

    roots : (n, S, M, M), whose squares ``A' A`` are the covariances, S for each of n results

    The largest eigenvalue of a matrix is not above the mean of its eigenvalues plus
    ``sqrt(M - 1)`` times their standard deviation.
    """
    n, size, n_features, _ = roots.shape
    # The triangle of the sum of covariances, from the last feature to the first.
    stacked = roots.reshape(n, size * n_features, n_features)[:, :, ::-1]
    triangles = np.asarray(np.linalg.qr(stacked, mode="r")).transpose(0, 2, 1).copy(order="C")
    invert_triangles(triangles)
    frames = np.ascontiguousarray(triangles[:, ::-1, ::-1])
    turned = np.matmul(roots, frames.transpose(0, 2, 1)[:, None])
    squares = np.matmul(turned, turned.transpose(0, 1, 3, 2))
    means = np.square(turned).sum(axis=(2, 3)) / n_features
    spreads = np.square(squares).sum(axis=(2, 3)) / n_features - np.square(means)
    largest = means + np.sqrt((n_features - 1) * np.maximum(spreads, 0.0))
    absolute = np.matmul(np.abs(roots), np.abs(frames).transpose(0, 2, 1)[:, None])
    errors = _ROUNDING * n_features * np.sqrt(np.square(absolute).sum(axis=(2, 3)))
    stds = (1 + 1e-9) * (np.sqrt(largest) + errors).max(axis=1)
    return np.asarray(frames / stds[:, None, None])


def _tile_boxes(families: Families, tiles: _Tiles, upper: np.ndarray) -> Boxes:
    """Return the boxes of all tiles; families are in their order."""
    n_features = families.means.shape[1]
    starts = np.cumsum(tiles.sizes) - tiles.sizes
    lows, highs = (each.reduceat(families.means, starts) for each in (np.minimum, np.maximum))
    centers = 0.5 * lows + 0.5 * highs
    frames = np.empty((len(starts), n_features, n_features))
    is_shared, widths = tiles.groups >= 0, families.widths
    frames[is_shared] = upper[tiles.groups[is_shared]]
    lower, top = np.empty((2, *centers.shape))
    for some, rows, is_empty in _padded(tiles, np.flatnonzero(~is_shared), n_features):
        roots = _roots(upper[families.groups[rows]].reshape(-1, n_features, n_features))
        roots *= np.where(is_empty, 0.0, widths[rows]).reshape(-1, 1, 1)
        frames[some] = _envelopes(roots.reshape(*rows.shape, n_features, n_features))
    for some, rows, _ in _padded(tiles, np.arange(len(starts)), n_features):
        Y = np.matmul(families.means[rows] - centers[some, None], frames[some].transpose(0, 2, 1))
        lower[some], top[some] = Y.min(axis=1), Y.max(axis=1)
    slack = _slack(frames, 0.5 * highs - 0.5 * lows)
    lower, top = lower - slack, top + slack
    tops = np.maximum.reduceat(families.tops, starts)
    return Boxes(frames, centers, lower, top, tops)


def _slack(frames: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return bounds on the rounding errors of coordinates of points that are not beyond ``reach``.

    Beyond it, errors are small beside the distances.
    """
    n_features = reach.shape[1]
    return _ROUNDING * n_features * np.einsum("tij,tj->ti", np.abs(frames), reach)


def _padded(
    tiles: _Tiles, chosen: np.ndarray, n_features: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield some tiles at a time, their families (n, S), and which of these fill up a tile."""
    starts = np.cumsum(tiles.sizes) - tiles.sizes
    slots = np.arange(tiles.sizes[chosen].max(initial=1))
    step = max(1, _NUMBERS // (len(slots) * n_features**2))
    for first in range(0, len(chosen), step):
        some = chosen[first : first + step]
        is_empty = slots >= tiles.sizes[some, None]
        yield some, starts[some, None] + np.where(is_empty, 0, slots), is_empty


def _node_boxes(tiles: Boxes, halves: np.ndarray, first_tiles: np.ndarray) -> Boxes:
    """Return the boxes of the nodes of a complete tree; ``halves`` are half the sides of tiles."""
    n_leaves, n_features = len(first_tiles) - 1, tiles.centers.shape[1]
    n_nodes = 2 * n_leaves - 1
    frames = np.empty((n_nodes, n_features, n_features))
    centers, tops = np.empty((n_nodes, n_features)), np.empty(n_nodes)
    lower, upper = np.empty((2, n_nodes, n_features))
    pairs = tiles.frames[np.stack([first_tiles[:-1], first_tiles[1:] - 1], axis=1)]
    starts = first_tiles
    while True:
        n = len(starts) - 1
        level = slice(n - 1, 2 * n - 1)
        roots = _roots(pairs.reshape(-1, n_features, n_features))
        frames[level] = _envelopes(roots.reshape(pairs.shape))
        low = np.minimum.reduceat(tiles.centers - halves, starts[:-1])
        high = np.maximum.reduceat(tiles.centers + halves, starts[:-1])
        centers[level] = 0.5 * low + 0.5 * high
        node = np.repeat(np.arange(n - 1, 2 * n - 1), np.diff(starts))
        Y = np.einsum("tij,tj->ti", frames[node], tiles.centers - centers[node])
        reach = np.einsum("tij,tj->ti", np.abs(frames[node]), halves)
        reach += _slack(frames[node], np.abs(tiles.centers - centers[node]) + halves)
        lower[level] = np.minimum.reduceat(Y - reach, starts[:-1])
        upper[level] = np.maximum.reduceat(Y + reach, starts[:-1])
        tops[level] = np.maximum.reduceat(tiles.tops, starts[:-1])
        if n == 1:
            return Boxes(frames, centers, lower, upper, tops)
        pairs, starts = frames[level].reshape(n // 2, 2, n_features, n_features), starts[::2]


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def build_tree(families: Families, upper: np.ndarray) -> KernelTree:
    """Build the tree over families; ``upper`` (G, M, M) are the triangles of the groups."""
    tiles = _find_tiles(families, upper)
    means = families.means[tiles.order]
    starts = np.cumsum(tiles.sizes) - tiles.sizes
    lows, highs = np.minimum.reduceat(means, starts), np.maximum.reduceat(means, starts)
    blocks = build_blocks(_places(0.5 * lows + 0.5 * highs, tiles.groups), _LEAF_SIZE)
    order, first_tiles = blocks.order, np.append(0, np.cumsum(blocks.sizes))
    tiles = tiles.take(order)
    families = families.take(tiles.order)
    boxes = _tile_boxes(families, tiles, upper)
    nodes = _node_boxes(boxes, 0.5 * (highs - lows)[order], first_tiles)
    both = Boxes(*(np.concatenate(each) for each in zip(nodes, boxes, strict=True)))
    groups, factor_of_family = _by_first_use(families.groups)
    is_shared = tiles.groups >= 0
    return KernelTree(
        _packed(both.frames),
        both.centers,
        both.lower,
        both.upper,
        both.tops,
        first_tiles,
        np.append(0, np.cumsum(tiles.sizes)),
        is_shared,
        _means_of_tiles(families, tiles, boxes),
        _packed(upper[groups]),
        factor_of_family,
        families.starts,
        families.rates,
        families.log_heights,
    )


def _places(centers: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return where tiles are for the tree: those that share a covariance at almost one place.

    The tree then divides groups first, so that most of its nodes have kernels of one covariance.
    """
    distinct, group = np.unique(groups, return_inverse=True)
    sums = np.zeros((len(distinct), centers.shape[1]))
    np.add.at(sums, group, centers)
    middles = (sums / np.bincount(group)[:, None])[group]
    return np.where(groups[:, None] < 0, centers, middles + (centers - middles) * _CONTRACTION)


def _packed(triangles: np.ndarray) -> np.ndarray:
    """Return upper triangles without zeros, the last row first, which is read first."""
    n, n_features, _ = triangles.shape
    rows, columns = _packing(n_features)
    # Indexing by two arrays would give another layout, for which the sum would be compiled again.
    return triangles.reshape(n, -1).take(rows * n_features + columns, axis=1)


def _packing(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of the numbers of a packed triangle."""
    rows, columns = np.triu_indices(n_features)
    order = np.argsort(-rows, kind="stable")
    return rows[order], columns[order]


def _by_first_use(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct groups by their first use, and the place of each use among them."""
    distinct, first, places = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return distinct[order], np.argsort(order)[places]


def _means_of_tiles(families: Families, tiles: _Tiles, boxes: Boxes) -> np.ndarray:
    """Return the means, in the coordinates of a tile if it is shared."""
    means, start = families.means, 0
    for size, group, center, frame in zip(
        tiles.sizes, tiles.groups, boxes.centers, boxes.frames, strict=True
    ):
        if group >= 0:
            means[start : start + size] = (means[start : start + size] - center) @ frame.T
        start += size
    return means
