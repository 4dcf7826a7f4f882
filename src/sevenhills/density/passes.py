"""Passes between the maxima of a density, and the hills that stand out of them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from .derivatives import Derivatives
from .profiles import Excess, Profiles
from .sums import log_squares_of, sums_at

#: Between so many maxima all ways are looked at, and between more to so many neighbours.
_FEW, _NEIGHBOURS = 16, 8
#: The points on a straight way.
_ON_WAY = 15
#: The points that are moved, and how many there are between them when the lowest is looked for.
_KNOTS, _BETWEEN = 24, 6
#: Rounds of moving, each in a metric of its own, and steps in a round.
_ROUNDS, _STEPS = 3, 5
#: Along a line, hills are told apart only if the pass is so far below both, in log density, and if
#: no more than this part of their samples would be there without a hill. Halves of a ring, which is
#: one curved hill, have 0.64 of theirs left; Gaussians 4 standard deviations apart have 0.35.
_DEEP, _MOST_BELOW = 1.0, 0.5


class Hills(NamedTuple):
    """Maxima by the hill on which they stand."""

    of_maximum: np.ndarray  #: (n,) the number of the hill, that of one of its maxima
    standing: np.ndarray  #: (n,) by how much every hill stands out, in units of chance


class Centres(NamedTuple):
    """What is known about the kernels."""

    counts: np.ndarray  #: (K,) how many samples they stand for
    log_sums: np.ndarray  #: (K,) the log density at their means
    maxima: np.ndarray  #: (K,) the maximum to which they belong


@dataclass
class _Hill:
    """What has been flooded from one maximum or several."""

    maxima: list[int]
    kernels: np.ndarray
    is_range: bool = False  #: whether there are several hills in it


class _Lowest(NamedTuple):
    """The lowest points of ways."""

    log_sums: np.ndarray  #: (E,)
    points: np.ndarray  #: (E, M)


def find_hills(
    density: Derivatives,
    points: np.ndarray,
    log_sums: np.ndarray,
    means: Centres,
    significance: float,
    n_jobs: int | None,
) -> Hills:
    """Find which maxima are hills of their own, and to which hill the others belong.

    The lowest point of any way is at most as high as the pass. Straight ways are tried first;
    those that keep hills apart are then bent upwards.
    """
    edges = _edges(points, log_sums)
    profiles = Profiles(density, means.counts)
    lowest = _lowest(density, _straight(points, edges, _ON_WAY), n_jobs)
    bent = np.zeros(len(edges), dtype=bool)
    while True:
        passes = _spanning(edges, lowest.log_sums)
        saddles = _Lowest(lowest.log_sums[passes], lowest.points[passes])
        errors = _squared_errors(density, means.counts, saddles, n_jobs)
        flood = _Flood(log_sums, means, profiles, significance)
        hills, parting = flood.run(edges[passes], saddles.log_sums, errors)
        doubtful = passes[parting]
        doubtful = doubtful[~bent[doubtful]]
        if not len(doubtful):
            return hills
        bent[doubtful] = True
        found = _bent(density, points, edges[doubtful], n_jobs)
        lowest.log_sums[doubtful], lowest.points[doubtful] = found


@dataclass
class _Flood:
    """Flooding from above; where two hills meet of which one does not stand out, they are one."""

    tops: np.ndarray  #: (n,) the log density at the maxima
    means: Centres
    profiles: Profiles
    significance: float

    def run(
        self, edges: np.ndarray, levels: np.ndarray, errors: np.ndarray
    ) -> tuple[Hills, np.ndarray]:
        """Return the hills, and which of the passes, from the highest on, are between hills."""
        n = len(edges) + 1
        maxima = self.means.maxima
        members = np.split(np.argsort(maxima, kind="stable"), _cuts(maxima, n))
        hills = [_Hill([i], members[i]) for i in range(n)]
        home, standing, where, parting = np.arange(n), np.full(n, np.nan), np.arange(n), []
        for step, ends in enumerate(edges):
            pair = [hills[where[end]] for end in ends]
            heights = [_standing(hill, levels[step], errors[step], self.means) for hill in pair]
            if min(heights) < self.significance:
                heights = np.maximum(heights, self._on_line(home, ends, levels[step])).tolist()
            weaker = int(heights[1] < heights[0])
            are_two = heights[weaker] >= self.significance
            if are_two:
                parting.append(step)
                for hill, height in zip(pair, heights, strict=True):
                    if not hill.is_range:
                        standing[home[hill.maxima]] = height
            else:
                home[pair[weaker].maxima] = home[ends[1 - weaker]]
            hills[where[ends[0]]] = joint = _joined(pair[0], pair[1], are_two)
            where[joint.maxima] = where[ends[0]]
        if not parting:
            standing[home] = _standing(hills[where[0]], -np.inf, 0.0, self.means)
        return Hills(home, standing), np.array(parting, dtype=np.int64)

    def _on_line(self, home: np.ndarray, ends: np.ndarray, level: float) -> list[float]:
        """Return by how much the hills of two maxima stand out along the line between them."""
        are_home = [home == home[end] for end in ends]
        if min(self.tops[each].max() for each in are_home) < level + _DEEP:
            return [0.0, 0.0]
        parts = [np.flatnonzero(each[self.means.maxima]) for each in are_home]
        n_samples = self.means.counts.sum()
        sizes = [self.means.counts[part].sum() for part in parts]
        if min(Excess(n, 0.0, 0.0).standing(n_samples) for n in sizes) < self.significance:
            return [0.0, 0.0]
        excesses = self.profiles.excesses(parts)
        if any(each.n_below > _MOST_BELOW * each.n_above for each in excesses):
            return [0.0, 0.0]
        return [each.standing(n_samples) for each in excesses]


def _cuts(maxima: np.ndarray, n: int) -> np.ndarray:
    """Return where the kernels of another maximum begin, in their order."""
    return np.cumsum(np.bincount(maxima, minlength=n))[:-1]


def _joined(first: _Hill, second: _Hill, are_two: bool) -> _Hill:
    return _Hill(
        first.maxima + second.maxima,
        np.concatenate([first.kernels, second.kernels]),
        first.is_range or second.is_range or are_two,
    )


def _standing(hill: _Hill, level: float, error: float, means: Centres) -> float:
    """Return by how much a hill stands out of a pass, in units of chance."""
    if hill.is_range:
        return np.inf
    counts = means.counts[hill.kernels]
    ratios = np.zeros(len(counts))
    if level > -np.inf:
        ratios = np.exp(np.minimum(level - means.log_sums[hill.kernels], 0.0))
    on_hill = ratios < 1
    excess = Excess(counts[on_hill].sum(), (counts * ratios)[on_hill].sum(), error)
    return excess.standing(means.counts.sum())


def _squared_errors(
    density: Derivatives, counts: np.ndarray, at: _Lowest, n_jobs: int | None
) -> np.ndarray:
    """Return the squared standard error of log p, sum_k r_k^2 / n_k with the shares r_k."""
    log_squares = log_squares_of(density._kernels, counts)
    most = -np.log(counts[counts > 0].min(initial=np.inf))
    with np.errstate(invalid="ignore"):
        # Far from all kernels, the difference is all rounding; there is a bound.
        found = np.exp(np.minimum(sums_at(log_squares, at.points, n_jobs) - 2 * at.log_sums, most))
    # Where the density vanishes, it counts for nothing.
    return np.where(np.isfinite(at.log_sums), found, 0.0)


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


def _spanning(edges: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the edges over which, from above, everything becomes one."""
    top, out = np.arange(edges.max(initial=0) + 1), []
    for edge in np.argsort(-levels, kind="stable"):
        first, second = top[edges[edge]]
        if first != second:
            top[top == second] = first
            out.append(edge)
    return np.array(out, dtype=np.int64)


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
