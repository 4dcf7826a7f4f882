"""Passes between the maxima of a density, and which maxima stand out of them."""

from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from .derivatives import Derivatives
from .sums import Kernels, log_sums_of, sums_at

#: Between so many maxima all ways are looked at, and between more to so many neighbours.
_FEW, _NEIGHBOURS = 16, 8
#: The points on a straight way.
_ON_WAY = 15
#: The points that are moved, and how many there are between them when the lowest is looked for.
_KNOTS, _BETWEEN = 24, 6
#: Rounds of moving, each in a metric of its own, and steps in a round.
_ROUNDS, _STEPS = 3, 5


class MergeTree(NamedTuple):
    """Maxima, as the pass to a higher one joins each to another."""

    standing: np.ndarray  #: (n,) how far each stands out of its pass, in units of chance
    over: np.ndarray  #: (n,) the maximum behind the pass; itself for the highest

    def homes(self, kept: np.ndarray) -> np.ndarray:
        """Return the maximum that every one joins if only some, and the highest, are kept."""
        home = np.where(kept, np.arange(len(kept)), self.over)
        while (home[home] != home).any():
            home = home[home]
        return home


class _Lowest(NamedTuple):
    """The lowest points of ways."""

    log_sums: np.ndarray  #: (E,)
    points: np.ndarray  #: (E, M)


def merge_tree(
    density: Derivatives,
    points: np.ndarray,
    log_sums: np.ndarray,
    significance: float,
    n_jobs: int | None,
) -> MergeTree:
    """Find the passes between maxima, as high as it takes to say which stand out.

    The lowest point of any way is at most as high as the pass. Straight ways are tried first;
    those from maxima that stand out of them are then bent upwards.
    """
    edges = _edges(points, log_sums)
    lowest = _lowest(density, _straight(points, edges, _ON_WAY), n_jobs)
    errors = _squared_errors(density, points, log_sums, n_jobs)
    chance = _chance(errors, density.counts)
    bent = np.zeros(len(edges), dtype=bool)
    while True:
        passes, over = _elders(edges, lowest.log_sums, log_sums)
        standing = 1 / np.sqrt(errors) / chance
        lower = np.flatnonzero(passes >= 0)
        saddles = _Lowest(*(each[passes[lower]] for each in lowest))
        ratios = np.exp(np.minimum(saddles.log_sums - log_sums[lower], 0.0))
        there = _squared_errors(density, saddles.points, saddles.log_sums, n_jobs)
        standing[lower] = (1 - ratios) / np.sqrt(errors[lower] + ratios**2 * there) / chance[lower]
        doubtful = passes[lower[standing[lower] >= significance]]
        doubtful = doubtful[~bent[doubtful]]
        if not len(doubtful):
            return MergeTree(standing, over)
        bent[doubtful] = True
        for values, value in zip(lowest, _bent(density, points, edges[doubtful], n_jobs), strict=True):
            values[doubtful] = value


def _chance(errors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return how many standard errors chance is expected to reach somewhere.

    There is room for as many bumps as the samples are times those that make up one of them.
    """
    return np.sqrt(2 * np.log1p(counts.sum() * errors))


def _squared_errors(
    density: Derivatives, X: np.ndarray, log_sums: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Return the squared standard error of log p, sum_k r_k^2 / n_k with the shares r_k."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_squares = 2 * density.log_weights - np.log(density.counts)
    log_squares[np.isneginf(density.log_weights)] = -np.inf
    squares = log_sums_of(
        Kernels(
            log_squares,
            density.centres,
            density.offsets,
            np.sqrt(2) * density.transforms,
            2 * density.log_dets,
        )
    )
    with np.errstate(invalid="ignore"):
        found = np.exp(sums_at(squares, X, n_jobs) - 2 * log_sums)
    # Where the density vanishes, it counts for nothing.
    return np.where(np.isfinite(log_sums), found, 0.0)


def _edges(points: np.ndarray, log_sums: np.ndarray) -> np.ndarray:
    """Return pairs of maxima (E, 2) such that ways between them lead to all."""
    n = len(points)
    if n <= _FEW:
        return np.stack(np.triu_indices(n, 1), axis=1)
    near = np.asarray(KDTree(points).query(points, k=_NEIGHBOURS + 1)[1])[:, 1:]
    pairs = np.stack([np.repeat(np.arange(n), _NEIGHBOURS), near.ravel()], axis=1)
    # From every maximum to the nearest higher one, so that no part is cut off.
    order = np.argsort(-log_sums, kind="stable")
    up = [(order[i], order[_nearest(points[order[:i]], points[order[i]])]) for i in range(1, n)]
    return np.unique(np.sort(np.concatenate([pairs, up]), axis=1), axis=0)


def _nearest(points: np.ndarray, x: np.ndarray) -> int:
    return int(((points - x) ** 2).sum(axis=1).argmin())


def _elders(
    edges: np.ndarray, levels: np.ndarray, log_sums: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Flood from above: where two hills meet, the lower one ends.

    Returns
    -------
    passes : ndarray
        The edge over which every maximum meets a higher one; -1 for the highest.
    over : ndarray
        The maximum at the other end of it.
    """
    n = len(log_sums)
    passes, over, top = np.full(n, -1), np.arange(n), np.arange(n)
    rank = np.empty(n, dtype=np.int64)
    rank[np.argsort(log_sums, kind="stable")] = np.arange(n)
    for edge in np.argsort(-levels, kind="stable"):
        ends = edges[edge]
        tops = top[ends]
        if tops[0] == tops[1]:
            continue
        lower = int(rank[tops[1]] < rank[tops[0]])
        passes[tops[lower]], over[tops[lower]] = edge, ends[1 - lower]
        top[top == tops[lower]] = tops[1 - lower]
    return passes, over


def _straight(points: np.ndarray, edges: np.ndarray, n_points: int) -> np.ndarray:
    """Return straight ways, (E, n_points, M), without their ends."""
    at = np.arange(1, n_points + 1)[:, None] / (n_points + 1)
    first, second = points[edges[:, 0], None], points[edges[:, 1], None]
    return np.asarray(first + at * (second - first))


def _lowest(density: Derivatives, ways: np.ndarray, n_jobs: int | None) -> _Lowest:
    """Return the lowest points of ways."""
    log_sums = sums_at(density._log_sums, ways.reshape(-1, ways.shape[2]), n_jobs)
    log_sums = log_sums.reshape(ways.shape[:2])
    at = np.arange(len(ways)), log_sums.argmin(axis=1)
    return _Lowest(log_sums[at], ways[at])


def _bent(
    density: Derivatives, points: np.ndarray, edges: np.ndarray, n_jobs: int | None
) -> _Lowest:
    """Return the lowest points of ways that climb sideways as far as they can."""
    ends = points[edges][:, [0]], points[edges][:, [1]]
    ways = np.concatenate([ends[0], _straight(points, edges, _KNOTS), ends[1]], axis=1)
    best = _lowest(density, _refined(ways), n_jobs)
    for _ in range(_ROUNDS):
        inner = ways[:, 1:-1].reshape(-1, ways.shape[2])
        precisions = density._curvatures(inner, n_jobs).precisions
        for _ in range(_STEPS):
            ways = _even(_moved(density, ways, precisions, n_jobs))
        found = _lowest(density, _refined(ways), n_jobs)
        higher = found.log_sums > best.log_sums
        best = _Lowest(
            np.where(higher, found.log_sums, best.log_sums),
            np.where(higher[:, None], found.points, best.points),
        )
    return best


def _moved(
    density: Derivatives, ways: np.ndarray, precisions: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Return ways after a step of mean shift, no longer than a kernel is wide, sideways."""
    inner = ways[:, 1:-1].reshape(-1, ways.shape[2])
    along = (ways[:, 2:] - ways[:, :-2]).reshape(inner.shape)
    gradients = density._slopes(inner, n_jobs).gradients
    steps = np.linalg.solve(precisions, gradients[:, :, None])[:, :, 0]
    turned = (precisions @ along[:, :, None])[:, :, 0]
    size = (turned * along).sum(axis=1)
    steps -= ((turned * steps).sum(axis=1) / np.where(size > 0, size, 1.0))[:, None] * along
    lengths = np.sqrt(np.einsum("im,imj,ij->i", steps, precisions, steps))
    steps /= np.maximum(1.0, lengths)[:, None]
    moved = ways.copy()
    moved[:, 1:-1] += steps.reshape(ways[:, 1:-1].shape)
    return moved


def _even(ways: np.ndarray) -> np.ndarray:
    """Return the same ways with their points at equal distances."""
    out = np.empty_like(ways)
    at = np.linspace(0, 1, ways.shape[1])
    for way, even in zip(ways, out, strict=True):
        steps = np.sqrt((np.diff(way, axis=0) ** 2).sum(axis=1))
        lengths = np.append(0, np.cumsum(steps))
        for m in range(way.shape[1]):
            even[:, m] = np.interp(at * lengths[-1], lengths, way[:, m])
    return out


def _refined(ways: np.ndarray) -> np.ndarray:
    """Return ways with points put between theirs."""
    at = np.arange(_BETWEEN)[:, None] / _BETWEEN
    between = ways[:, :-1, None] + at * np.diff(ways, axis=1)[:, :, None]
    return between.reshape(len(ways), -1, ways.shape[2])[:, 1:]
