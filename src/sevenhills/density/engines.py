"""Sums of many kernels at many points, within a tolerance in the logarithm.

A few pairs of kernels and points are summed directly. For more pairs, kernels that share
covariances are summed by a fast Gauss transform in one to three dimensions, and by matrix products
from seven dimensions on. In between, and in three dimensions where the transform would cost more,
sums are direct, without tiles of kernels that are negligible within the tolerance. Kernels of many
covariances, with few kernels each, are summed directly in a tree, without kernels that are
negligible; in one dimension they are summed at few places, between which the sum is interpolated.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from typing import NamedTuple

import numpy as np

from ..kernels.blocks import build_blocks
from ..kernels.gauss_transform import N_TERMS, fast_log_sums, translate
from ..kernels.mixture import NEGLIGIBLE, add_exponentials
from .interpolation import LineSums
from .sums import (
    GAUSS_TRANSFORM_FEATURES,
    LOG_2PI,
    Kernels,
    LogSums,
    TreeSums,
    added,
    leaf_values,
    log_sums_of,
    padded,
    shared_tiles,
    split_by_size,
    sum_shared,
    sums_at,
)

#: Pairs of kernels and points up to which preparing more than direct sums does not pay.
FEW_PAIRS = 2**25
#: The lowest dimension in which products save more than leaving out far tiles: for 1e5 kernels at
#: 1e5 points, normal, clustered or heavy-tailed, they took 16 to 25 s in any dimension from four to
#: ten, tiles 9 to 21 s in five, 11 to 43 s in seven and 10 to 46 s in eight.
_PRODUCT_FEATURES = 7
#: Points that are given together to the tree of kernels of many covariances.
_OWN_POINTS = 2**14
#: Points that are given together to direct sums, which divide them into blocks of neighbors.
_DIRECT_POINTS = 1024
#: Coordinates of points that are given together to sums without negligible tiles, likewise.
_NEAR_NUMBERS = 2**17
#: Kernels at whose means near kernels are counted, to compare the costs of sums.
_N_PROBES = 64
#: The costs of making a series in three features, and of its value at a point, in direct pairs:
#: 0.45 ms and 1 us, where a pair takes 0.6 ns.
_PAIRS_PER_SERIES, _PAIRS_PER_POINT = 750_000, 1700
#: The default tolerance of log densities.
TOLERANCE = 1e-8
#: Larger tolerances are replaced by this, which the bounds below need.
_MAX_TOL = 0.5


class KernelSums:
    """The sum of kernels, prepared when it is first needed."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels

    @cached_property
    def direct(self) -> LogSums:
        """The sums one by one."""
        return log_sums_of(self.kernels)

    @cached_property
    def _n_direct(self) -> int:
        """The number of points whose direct sums are computed together."""
        return _DIRECT_POINTS if split_by_size(self.kernels)[1] is None else _OWN_POINTS

    @cached_property
    def engine(self) -> "Engine":
        """The sums at many points."""
        return Engine.from_kernels(self.kernels, lambda: self.direct)

    @cached_property
    def near(self) -> "Engine":
        """The same without series, for kernels that share covariances."""
        return _near_engine(self.kernels.compact())

    @cached_property
    def _costs(self) -> "_Costs | None":
        """The costs of ``near`` and of ``engine``, None where ``engine`` is always used."""
        if self.kernels.n_features != _LARGE_CELLS or split_by_size(self.kernels)[1] is not None:
            return None
        return _Costs.of(self.kernels.compact().with_weight())

    def log_density(self, X: np.ndarray, n_jobs: int | None, tol: float) -> np.ndarray:
        """Return the log of the sum at points, by direct sums if there are few pairs."""
        if len(X) * self.kernels.n_kernels <= FEW_PAIRS:
            log_sums = sums_at(self.direct, X, n_jobs, self._n_direct)
        else:
            is_near = self._costs is not None and self._costs.is_near(len(X))
            log_sums = (self.near if is_near else self.engine).sums_at(X, tol, n_jobs)
        return log_sums - 0.5 * self.kernels.n_features * LOG_2PI


class Engine(NamedTuple):
    """Sums of kernels at many points."""

    within: Callable[[float], LogSums]  #: from a tolerance to the function that meets it
    n_points: int  #: the number of points that are best given to such a function at a time
    #: The order of neighbors in which it takes points, None for any.
    order: Callable[[np.ndarray], np.ndarray] | None = None

    @classmethod
    def from_kernels(cls, kernels: Kernels, direct: Callable[[], LogSums]) -> "Engine":
        """Prepare the sums of kernels; ``direct`` returns their direct sums if needed."""
        shared, own = split_by_size(kernels)
        if shared is None:
            return _own_engine(kernels)
        if own is None:
            return _shared_engine(shared, direct)
        engine, rest = _shared_engine(shared, lambda: log_sums_of(shared)), _own_engine(own)
        n_points = max(engine.n_points, rest.n_points)
        return cls(lambda tol: added(engine.within(tol), rest.within(tol)), n_points, rest.order)

    def sums_at(self, X: np.ndarray, tol: float, n_jobs: int | None) -> np.ndarray:
        """Return the logarithms of the sums at every point, with errors below ``tol``."""
        if self.order is None:
            return sums_at(self.within(tol), X, n_jobs, self.n_points)
        order, out = self.order(X), np.empty(len(X))
        out[order] = sums_at(self.within(tol), X[order], n_jobs, self.n_points)
        return out


def _shared_engine(kernels: Kernels, direct: Callable[[], LogSums]) -> Engine:
    """Prepare the sums of kernels that share covariances."""
    if kernels.n_features <= GAUSS_TRANSFORM_FEATURES:
        transform = GaussTransform.from_kernels(kernels)
        return Engine(transform.within, transform.n_points)
    if kernels.n_features < _PRODUCT_FEATURES:
        return _near_engine(kernels)
    return Engine(MatrixProducts.from_kernels(kernels, direct()).within, _N_ORDERED)


def _near_engine(kernels: Kernels) -> Engine:
    """Prepare direct sums without negligible tiles; they hold the kernels in memory once more."""
    tiles = shared_tiles(kernels)
    n_points = max(_DIRECT_POINTS, _NEAR_NUMBERS // kernels.n_features)
    return Engine(lambda tol: partial(sum_shared, tiles, _negligible(kernels, tol)), n_points)


class _Costs(NamedTuple):
    """The costs of sums without negligible tiles and of the Gauss transform, in pairs."""

    n_near: float  #: the kernels that are not left out at a point
    n_series: int
    n_groups: int

    @classmethod
    def of(cls, kernels: Kernels) -> "_Costs":
        """Count the kernels near some of the means, and the series that would be made."""
        shared = shared_tiles(kernels)
        X = kernels.means[:: -(-kernels.n_kernels // _N_PROBES)]
        cutoffs = sum_shared(shared, NEGLIGIBLE, X) - _negligible(kernels, TOLERANCE)
        tiles, Y = shared.tiles, shared.coordinates(X)[shared.tiles.groups]
        gaps = np.maximum(tiles.lower[:, None] - Y, Y - tiles.upper[:, None])
        squares = np.square(np.maximum(gaps, 0.0)).sum(axis=2)
        is_near = tiles.tops[:, None] - 0.5 * squares > cutoffs
        return cls(is_near.mean() * kernels.n_kernels, _n_series(kernels), kernels.n_groups)

    def is_near(self, n_points: int) -> bool:
        """Return whether sums without negligible tiles are cheaper for a number of points."""
        transform = _PAIRS_PER_SERIES * self.n_series
        return n_points * (self.n_near - _PAIRS_PER_POINT * self.n_groups) < transform


def _own_engine(kernels: Kernels) -> Engine:
    """Prepare sums of kernels of many covariances in a tree, without negligible kernels."""
    if kernels.n_features == 1:
        line = LineSums.from_kernels(kernels)
        return Engine(
            lambda tol: line.within(min(tol, _MAX_TOL), _negligible(kernels, tol)),
            _OWN_POINTS,
            lambda X: np.argsort(X[:, 0]),
        )
    sums = TreeSums(kernels)
    return Engine(
        lambda tol: sums.within_ordered(_negligible(kernels, tol)), _OWN_POINTS, sums.order
    )


def _negligible(kernels: Kernels, tol: float) -> float:
    """Return how far below the sum all kernels may be left out."""
    return min(float(np.log(2 * kernels.n_kernels / min(tol, _MAX_TOL))), NEGLIGIBLE)


# Matrix products

#: Kernels of a block, which is summed or left out as a whole; rows of 512 products would share
#: cache lines.
_BLOCK_SIZE = 480
#: Points for which a block of kernels is summed together.
_N_POINTS = 128
#: Points that are sorted by their nearest group together.
_N_ORDERED = 4096
#: Smaller tolerances are met by direct sums: the compiled exponential has a hundredth of this as
#: its error.
_LEAST_TOL = 1e-9


class MatrixProducts(NamedTuple):
    """Sums of kernels that share covariances, up to a tolerance, in many dimensions.

    Memory: the kernels once more, and a megabyte for every thread.
    """

    groups: list["_ProductGroup"]
    n_kernels: int
    exact: LogSums

    @classmethod
    def from_kernels(cls, kernels: Kernels, exact: LogSums) -> "MatrixProducts":
        """Prepare the sums; ``exact`` sums directly where rounding would be too large."""
        some = kernels.with_weight()
        centers = some.centers()
        groups = [_ProductGroup.from_kernels(some, g, center) for g, center in enumerate(centers)]
        return cls(groups, some.n_kernels, exact)

    def within(self, tol: float) -> LogSums:
        """Return the function whose error is below ``tol``, rounding aside."""
        if tol < _LEAST_TOL:
            return self.exact
        return partial(self._sum, min(tol, _MAX_TOL))

    def _sum(self, tol: float, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # holds for this thread only
            lengths = np.array([group.lengths(X) for group in self.groups])
            reaches = np.array([group.reach for group in self.groups])
            n_features = X.shape[1]
            rounding = (n_features + 8) * np.finfo(float).eps
            sure = (rounding * (lengths + reaches[:, None]) ** 2 < 0.4 * tol).all(axis=0)
        out = np.empty(len(X))
        if not sure.all():
            out[~sure] = self.exact(X[~sure])
        # Points of one group are summed together, so that other groups may be left out for all.
        nearest = np.where(sure, np.argmin(lengths, axis=0), -1)
        for g in np.unique(nearest[sure]):
            rows = np.flatnonzero(nearest == g)
            order = np.argsort(lengths[:, rows].mean(axis=1))
            for start in range(0, len(rows), _N_POINTS):
                some = rows[start : start + _N_POINTS]
                out[some] = self._sum_near(tol, X[some], order)
        return out

    def _sum_near(self, tol: float, X: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return the sums at a few points, adding the groups in a given order."""
        negligible = np.log(2 * self.n_kernels / tol)
        sums = np.stack([np.full(len(X), -np.inf), np.zeros(len(X))])
        for g in order:
            self.groups[g].add(X, negligible, sums)
        with np.errstate(divide="ignore"):
            return sums[0] + np.log(sums[1])


class _ProductGroup(NamedTuple):
    """A group of kernels in blocks of neighbors, in coordinates of unit Gaussians."""

    center: np.ndarray
    transform: np.ndarray
    columns: np.ndarray  #: (n_blocks, n_features, block_size)
    shifts: np.ndarray  #: (n_blocks, block_size) the log weights minus half the squared lengths
    middles: np.ndarray  #: (n_blocks, n_features) of a ball around every block
    radii: np.ndarray  #: (n_blocks,) of these balls
    tops: np.ndarray  #: (n_blocks,) the largest logarithm of a weight
    reach: float  #: the largest length

    @classmethod
    def from_kernels(cls, kernels: Kernels, g: int, center: np.ndarray) -> "_ProductGroup":
        blocks = build_blocks(kernels.coordinates(g, center), _BLOCK_SIZE)
        log_weights = leaf_values(blocks, kernels.heights(g))
        middles = blocks.columns.mean(axis=2)
        squares = np.einsum("bms,bms->bs", blocks.columns, blocks.columns)
        return cls(
            center,
            kernels.transforms[g],
            blocks.columns,
            log_weights - 0.5 * squares,
            middles,
            # Slightly wider than the blocks, so that rounding does not matter.
            1e-6 + np.sqrt(((blocks.columns - middles[:, :, None]) ** 2).sum(axis=1)).max(axis=1),
            log_weights.max(axis=1),
            float(np.sqrt(squares.max())),
        )

    def lengths(self, X: np.ndarray) -> np.ndarray:
        """Return the distances of points from the center of the group."""
        Y = (X - self.center) @ self.transform
        return np.sqrt(np.einsum("im,im->i", Y, Y))

    def add(self, X: np.ndarray, negligible: float, sums: np.ndarray) -> None:
        """Add the kernels to the sums at a few points."""
        Y = (X - self.center) @ self.transform
        halves = 0.5 * np.einsum("im,im->i", Y, Y)
        products = np.empty((len(X), self.columns.shape[2]))
        bounds = self._bounds(Y, halves)
        for b in np.argsort(-bounds.max(axis=1), kind="stable"):
            if (bounds[b] < sums[0] - negligible).all():
                continue
            np.matmul(Y, self.columns[b], out=products)
            add_exponentials(products, halves, self.shifts[b], bounds[b], negligible, sums)

    def _bounds(self, Y: np.ndarray, halves: np.ndarray) -> np.ndarray:
        """Return upper bounds of the exponents of every block at every point."""
        squares = 2 * (halves - self.middles @ Y.T)
        squares += np.einsum("bm,bm->b", self.middles, self.middles)[:, None]
        gaps = np.sqrt(np.maximum(squares, 0.0)) - self.radii[:, None]
        return self.tops[:, None] - 0.5 * np.maximum(gaps, 0.0) ** 2


# Fast Gauss transform

#: The share of the tolerance for series, and for kernels that are left out.
_SHARE = 0.45
#: The side of a cell, in standard deviations of a kernel.
_SIDE = 2.0
#: Cells up to this far away are included; the next are 10 standard deviations away.
_REACH = 5
#: Cells in every feature; the key of a cell in three features then fits into 64 bits.
_N_SIDE = 2**20
#: Cells at either end that stay empty, so that steps between keys never wrap around.
_EDGE = 16
#: Terms of the reference series from which the truncation error is computed.
_MORE_TERMS = 40
#: Bound on the rounding error of a series, relative to the sum of its absolute coefficients.
_ROUNDING = 1e-13
#: The least number of kernels in a cell and its neighbors for a series, by the number of features.
_CROWD = {1: 64, 2: 64, 3: 512}
#: The number of features from which series are so large that points are sorted by cell.
_LARGE_CELLS = 3
#: Cells up to this far around crowded cells may have a series, too.
_MARGIN = 3
#: The most coefficients of a group's series: a constant, and a number for each of its kernels.
_BASE_COEFFICIENTS, _COEFFICIENTS_PER_KERNEL = 2**20, 32
#: Coefficients held in memory while series are made: 128 MB.
_NUMBERS = 2**24
#: Kernels that are added to the moments of cells together, so that products stay in the cache.
_MOMENT_ROWS = 1024
#: Coordinates of points, over all groups, that are held in memory.
_POINT_NUMBERS = 2**16
#: Kernels in a leaf of the tree for direct sums.
_LEAF_SIZE = 64
#: Leaves are padded to multiples of this, the width of vector instructions.
_LANES = 8


class GaussTransform(NamedTuple):
    """Sums of kernels that share covariances, up to a tolerance, in one to three dimensions.

    Memory: the kernels once more and 256 bytes for each of them; 8 MB for each group that has
    series; 128 MB at a time while they are made.
    """

    transforms: np.ndarray
    centers: np.ndarray
    prepared: "_Prepared"

    @classmethod
    def from_kernels(cls, kernels: Kernels) -> "GaussTransform":
        """Prepare the sums; kernels of zero weight are left out."""
        kernels = kernels.with_weight()
        centers = kernels.centers()
        return cls(kernels.transforms, centers, _Prepared.from_kernels(kernels, centers))

    @property
    def n_points(self) -> int:
        """The number of points that are best summed together."""
        return max(64, _POINT_NUMBERS // self.centers.size)

    def within(self, tol: float) -> LogSums:
        """Return the function whose error is below ``tol``, rounding aside."""
        return partial(self._sum, min(tol, _MAX_TOL))

    def _sum(self, tol: float, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # holds for this thread only
            Y = np.matmul(X - self.centers[:, None], self.transforms)
            order = np.argsort(_cell_keys(Y[0])) if X.shape[1] == _LARGE_CELLS else slice(None)
        n_leaves, n_features, size = self.prepared.tiles.shape
        series = np.empty(N_TERMS), np.empty((n_features, N_TERMS ** (n_features - 1)))
        depth = n_leaves.bit_length() + 2
        stack = np.empty(depth, dtype=np.int64), np.empty(depth)  # nodes and their distances
        values, found = np.empty((3, len(Y))), np.empty(len(X))
        fast_log_sums(
            Y[:, order], *self.prepared, np.log(_SHARE * tol), self.prepared.log_masses.max(),
            *series, np.empty(size), values, *stack, found,
        )  # fmt: skip
        out = np.empty(len(X))
        out[order] = found
        return out


class _Prepared(NamedTuple):
    """All groups, in the layout of the compiled sum."""

    log_masses: np.ndarray
    side: float
    n_side: int
    keys: np.ndarray
    cell_starts: np.ndarray
    series: np.ndarray
    errors: np.ndarray
    boxes: np.ndarray
    node_starts: np.ndarray
    tiles: np.ndarray
    log_weights: np.ndarray
    log_tops: np.ndarray
    tile_starts: np.ndarray

    @classmethod
    def from_kernels(cls, kernels: Kernels, centers: np.ndarray) -> "_Prepared":
        """Concatenate groups, padding all leaves to the size of the largest."""
        groups = [_tree_and_series(kernels, g, center) for g, center in enumerate(centers)]
        log_masses, series, boxes, tiles, log_weights = zip(*groups, strict=True)
        size = -(-max(each.shape[2] for each in tiles) // _LANES) * _LANES
        return cls(
            log_masses=np.array(log_masses),
            side=_SIDE,
            n_side=_N_SIDE,
            keys=np.concatenate([each.keys for each in series]),
            cell_starts=_starts([each.keys for each in series]),
            series=np.concatenate([each.coefficients for each in series]),
            errors=np.concatenate([each.errors for each in series]),
            boxes=np.concatenate(boxes),
            node_starts=_starts(boxes),
            tiles=padded(tiles, size, 0.0),
            log_weights=padded(log_weights, size, -np.inf),
            log_tops=np.concatenate([each.max(axis=1) for each in log_weights]),
            tile_starts=_starts(tiles),
        )


def _starts(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the rows at which arrays start after they are concatenated, and the end."""
    return np.append(0, np.cumsum([len(each) for each in arrays]))


def _tree_and_series(
    kernels: Kernels, g: int, center: np.ndarray
) -> tuple[float, "_Series", np.ndarray, np.ndarray, np.ndarray]:
    """Return the log mass of a group, its series, and the boxes, leaves and weights of its tree."""
    Z, log_weights = kernels.coordinates(g, center), kernels.heights(g)
    keys = _cell_keys(Z)
    order = np.argsort(keys, kind="stable")
    keys, Z, log_weights = keys[order], Z[order], log_weights[order]
    top = log_weights.max()
    log_mass = float(top + np.log(np.exp(log_weights - top).sum()))
    series = _Series.from_cells(_Cells.from_sorted(keys, Z, np.exp(log_weights - log_mass)))
    # The rows are in the order of cells, so that the leaves of the tree are close in memory.
    blocks = build_blocks(Z, _LEAF_SIZE)
    boxes = np.stack([blocks.lower, blocks.upper], axis=1)
    return log_mass, series, boxes, blocks.columns, leaf_values(blocks, log_weights)


class _Series(NamedTuple):
    """Chebyshev series of the sum of a group's kernels, in some cells."""

    keys: np.ndarray  #: (n_cells,) the keys of the cells, ascending
    coefficients: np.ndarray  #: (n_cells, n_terms ** n_features)
    errors: np.ndarray  #: (n_cells,) upper bounds of their errors

    @classmethod
    def from_cells(cls, sources: "_Cells") -> "_Series":
        """Expand the sum of unit Gaussians, whose weights add up to one, in crowded cells."""
        targets = _surroundings(_crowded(sources), *sources.Z.shape)
        coefficients = np.empty((len(targets), N_TERMS**sources.n_features))
        errors = np.empty(len(targets))
        for rows, some in _shares(sources, targets):
            coefficients[rows], errors[rows] = _expand(some, targets[rows])
        return cls(targets, coefficients, errors)


def _n_series(kernels: Kernels) -> int:
    """Return the number of series that are made for kernels."""
    n_series = 0
    for g, center in enumerate(kernels.centers()):
        Z = kernels.coordinates(g, center)
        cells = _Cells.from_sorted(np.sort(_cell_keys(Z)), Z, kernels.heights(g))
        n_series += len(_surroundings(_crowded(cells), *cells.Z.shape))
    return n_series


def _cell_keys(Z: np.ndarray) -> np.ndarray:
    """Return the key of the cell of every point, -1 beyond the last cells.

    Points without a cell are out of reach of all cells that have a series.
    """
    places = np.floor(Z / _SIDE) + _N_SIDE // 2
    inside = ((places >= _EDGE) & (places < _N_SIDE - _EDGE)).all(axis=1)
    places[~inside] = 0
    keys = places.astype(np.int64) @ np.array(_strides(Z.shape[1]))
    return np.where(inside, keys, -1)


class _Cells(NamedTuple):
    """Kernels sorted into cells."""

    keys: np.ndarray
    starts: np.ndarray
    Z: np.ndarray
    weights: np.ndarray

    @classmethod
    def from_sorted(cls, keys: np.ndarray, Z: np.ndarray, weights: np.ndarray) -> "_Cells":
        """Divide kernels, sorted by their keys, into cells; those without a cell are left out."""
        first = np.searchsorted(keys, 0)
        keys, Z, weights = keys[first:], Z[first:], weights[first:]
        firsts = np.flatnonzero(np.diff(keys, prepend=-1))
        return cls(keys[firsts], np.append(firsts, len(keys)), Z, weights)

    @property
    def n_features(self) -> int:
        return int(self.Z.shape[1])

    def near(self, targets: np.ndarray) -> "_Cells":
        """Return the cells within reach of some targets."""
        reached = targets
        for stride in _strides(self.n_features):
            reached = _spread(reached, stride, _REACH)
        kept = np.isin(self.keys, reached)
        rows = np.repeat(kept, np.diff(self.starts))
        starts = np.append(0, np.cumsum(np.diff(self.starts)[kept]))
        return _Cells(self.keys[kept], starts, self.Z[rows], self.weights[rows])

    def moments(self) -> np.ndarray:
        """Return ``sum_k w_k T_a(u_k1) T_b(u_k2) ...`` of every cell, ``u`` being from -1 to 1."""
        out = np.empty((len(self.keys), N_TERMS ** (self.n_features - 1), N_TERMS))
        bounds = self.starts.tolist()
        first = 0
        while first < len(out):
            start = bounds[first]
            last = max(first + 1, bisect_right(bounds, start + _MOMENT_ROWS) - 1)
            rows = slice(start, bounds[last])
            polynomials = _chebyshev_polynomials(self.Z[rows])
            products = self.weights[None, rows]
            for each in polynomials[:-1]:
                products = (products[:, None] * each).reshape(-1, each.shape[1])
            factors = polynomials[-1].T
            for c in range(first, last):
                i, j = bounds[c] - start, bounds[c + 1] - start
                np.dot(products[:, i:j], factors[i:j], out[c])
            first = last
        return out


def _chebyshev_polynomials(Z: np.ndarray) -> np.ndarray:
    """Return the Chebyshev polynomials (M, n_terms, N) at the places of points in their cells."""
    places = Z.T / _SIDE
    twice = 4 * (places - np.floor(places)) - 2
    out = np.empty((len(places), N_TERMS, len(Z)))
    out[:, 0], out[:, 1] = 1.0, 0.5 * twice
    for a in range(2, N_TERMS):
        np.multiply(twice, out[:, a - 1], out=out[:, a])
        out[:, a] -= out[:, a - 2]
    return out


def _strides(n_features: int) -> list[int]:
    """Return the differences between the keys of adjacent cells, by feature."""
    return [_N_SIDE**m for m in reversed(range(n_features))]


def _spread(keys: np.ndarray, stride: int, reach: int) -> np.ndarray:
    """Return the cells along one feature within reach of some cells."""
    steps = stride * np.arange(-reach, reach + 1)
    return np.unique(keys[:, None] + steps)


def _sources_of(targets: np.ndarray, keys: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the rows of the keys ``target - step``, -1 where there is none."""
    wanted = targets[:, None] - steps
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    return np.where(keys[at] == wanted, at, -1)


def _crowded(cells: _Cells) -> np.ndarray:
    """Return the cells that have many kernels in them and in adjacent cells."""
    keys, counts = cells.keys, np.diff(cells.starts)
    for stride in _strides(cells.n_features):
        wider = _spread(keys, stride, 1)
        sources = _sources_of(wider, keys, stride * np.arange(-1, 2))
        keys, counts = wider, np.append(counts, 0)[sources].sum(axis=1)
    return keys[counts >= _CROWD[cells.n_features]]


def _surroundings(crowded: np.ndarray, n_kernels: int, n_features: int) -> np.ndarray:
    """Return cells and the cells around them, as far as memory for their series allows."""
    cells, limit = crowded, _BASE_COEFFICIENTS + _COEFFICIENTS_PER_KERNEL * n_kernels
    for _ in range(_MARGIN):
        wider = cells
        for stride in _strides(n_features):
            wider = _spread(wider, stride, 1)
        if len(wider) * N_TERMS**n_features > limit:
            break
        cells = wider
    for stride in _strides(n_features):
        place = cells // stride % _N_SIDE
        cells = cells[(place >= 2 * _EDGE) & (place < _N_SIDE - 2 * _EDGE)]
    return cells


def _shares(sources: _Cells, targets: np.ndarray) -> list[tuple[slice, _Cells]]:
    """Return ranges of targets and the sources near them, so that memory is bounded."""
    size = N_TERMS**sources.n_features
    waiting, shares = [(0, len(targets))] if len(targets) else [], []
    while waiting:
        start, end = waiting.pop()
        near = sources.near(targets[start:end])
        if len(near.keys) * size > _NUMBERS and end - start > 1:
            middle = (start + end) // 2
            waiting += [(start, middle), (middle, end)]
        else:
            shares.append((slice(start, end), near))
    return shares


def _expand(sources: _Cells, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the series and their errors in target cells."""
    translations = _translations()
    strides = _strides(sources.n_features)
    keys, tensors = sources.keys, sources.moments()
    sums = np.add.reduceat(sources.weights, sources.starts[:-1])
    errors = np.zeros(len(keys))
    for m, stride in enumerate(strides):
        needed = targets
        for later in strides[m + 1 :]:
            needed = _spread(needed, later, _REACH)
        reached = np.intersect1d(_spread(keys, stride, _REACH), needed, assume_unique=True)
        keys, tensors, sums, errors = _sweep(
            translations, keys, reached, stride, tensors, sums, errors
        )
    # Every target is near a kernel, and thus reached. Kernels out of reach have at most weight one.
    return tensors.reshape(len(targets), -1), errors + np.exp(-0.5 * (_REACH * _SIDE) ** 2)


def _sweep(
    translations: "_Translations",
    keys: np.ndarray,
    reached: np.ndarray,
    stride: int,
    tensors: np.ndarray,
    sums: np.ndarray,
    errors: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Turn moments into series along the first feature of the tensors, which becomes the last.

    ``sums`` are upper bounds of the kernel sums, ``errors`` those of the errors of the tensors.
    """
    steps, matrices, new_errors, tops = translations
    rows = _sources_of(reached, keys, stride * steps)
    sums, errors = np.append(sums, 0.0)[rows], np.append(errors, 0.0)[rows]
    errors = new_errors * sums + (tops + new_errors) * errors
    tensors = tensors.reshape(len(keys), N_TERMS, -1)
    out = np.zeros((len(reached), tensors.shape[2], N_TERMS))
    rows[:, tops < _ROUNDING] = -1
    translate(tensors, matrices, rows, out)
    return reached, out, (tops * sums).sum(axis=1), errors.sum(axis=1)


class _Translations(NamedTuple):
    """Maps from the moments in a cell to the series in another, along one feature."""

    steps: np.ndarray  #: (n_steps,) the differences between the two cells
    matrices: np.ndarray  #: (n_steps, n_terms, n_terms) from moments, the first axis
    errors: np.ndarray  #: (n_steps,) the largest error of the series of a kernel
    tops: np.ndarray  #: (n_steps,) the largest value of a kernel


@cache
def _translations() -> _Translations:
    """Expand ``exp(-(x - z)^2 / 2)`` in Chebyshev polynomials of x and z, each in its cell."""
    angles = np.pi * (np.arange(_MORE_TERMS) + 0.5) / _MORE_TERMS
    nodes = 0.5 * _SIDE * np.cos(angles)
    transform = 2 / _MORE_TERMS * np.cos(np.arange(_MORE_TERMS)[:, None] * angles)
    transform[0] /= 2
    steps = np.arange(-_REACH, _REACH + 1)
    apart = _SIDE * steps[:, None, None] + nodes[:, None] - nodes
    full = transform @ np.exp(-0.5 * apart**2) @ transform.T
    kept = full[:, :N_TERMS, :N_TERMS]
    sizes, kept_sizes = np.abs(full).sum(axis=(1, 2)), np.abs(kept).sum(axis=(1, 2))
    # Chebyshev polynomials are at most one, so the sum of the truncated coefficients is a bound.
    errors = np.maximum(sizes - kept_sizes, 0.0) + _ROUNDING * sizes
    tops = np.exp(-0.5 * (_SIDE * np.maximum(np.abs(steps) - 1, 0)) ** 2)
    # Translations below the rounding error are left out, and count as errors.
    errors = np.where(tops < _ROUNDING, tops, errors)
    return _Translations(steps, np.ascontiguousarray(kept.transpose(0, 2, 1)), errors, tops)
