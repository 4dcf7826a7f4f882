"""Saddles between the maxima of a density, and the maxima that stand out significantly.

The paths between maxima are searched for their lowest points, which are lower bounds of the
saddles. From the highest saddle down, peaks are merged if one of the two has not more samples above
the saddle than chance would put there (a test of excess mass).

In many dimensions nearly all samples of a peak are less dense than the saddle, however deep that
is: half of the samples of a Gaussian in 24 dimensions are below exp(-11.7) of its height, and the
saddle between two of them, 6 standard deviations apart, is at exp(-4.5). Along the line between the
two peaks, the valley is as deep as in one dimension. So the samples are also counted in the
marginal density along that line.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from .derivatives import LogSurface
from .sums import Kernels, log_squares_of, sums_at

#: Up to this many maxima, paths between all pairs are searched, else to this many neighbors.
_FEW_MAXIMA, _N_NEIGHBORS = 16, 8
#: The points on a straight path.
_PATH_POINTS = 15
#: The points of a path that are moved, and the points between two of them.
_KNOTS, _BETWEEN = 24, 6
#: Rounds in which paths are moved, each in a metric of its own, and the steps of a round.
_ROUNDS, _STEPS = 3, 5
#: Along a line, peaks are separate only if the saddle is lower than both by _MIN_DEPTH, in log
#: density, and if at most this share of their samples would be there without a peak. Halves of a
#: ring, which is one curved peak, have a share of 0.64; Gaussians 4 standard deviations apart 0.35.
_MIN_DEPTH, _MAX_BACKGROUND = 1.0, 0.5
#: The points of a profile, and its margin beyond the means of the peaks, in standard deviations.
_PROFILE_POINTS, _PROFILE_MARGIN = 256, 3.0
#: The least number of samples expected without a peak: half a sample, as in Jeffreys' prior,
#: because that number is never known to be zero.
_MIN_BACKGROUND = 0.5
#: The numbers that a block of a profile may hold.
_BLOCK_NUMBERS = 2**20


class KernelSamples(NamedTuple):
    """The samples behind the kernels."""

    weights: np.ndarray  #: (K,)
    counts: np.ndarray  #: (K,) the number of samples of every kernel
    log_sums: np.ndarray  #: (K,) the leave-one-out log density at the means
    maxima: np.ndarray  #: (K,) the maximum of every kernel


def find_peaks(
    surface: LogSurface,
    samples: KernelSamples,
    points: np.ndarray,
    log_sums: np.ndarray,
    significance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the peaks of significant excess mass.

    Return the peak of every maximum, as the index of one of its maxima, and the significance of
    every peak. The lowest point of any path is at most as high as the saddle. Straight paths are
    searched first; those that separate peaks are then bent upwards.
    """
    edges = _edges(points, log_sums)
    merging = _Merging(log_sums, samples, Profiles(surface.kernels, samples), significance)
    levels, lowest = _lowest(surface, _straight(points[edges], _PATH_POINTS))
    bent = np.zeros(len(edges), dtype=bool)
    while True:
        tree = _spanning_tree(edges, levels)
        errors = _squared_errors(surface, samples.counts, levels[tree], lowest[tree])
        home, significances, separating = merging.run(edges[tree], levels[tree], errors)
        doubtful = tree[separating]
        doubtful = doubtful[~bent[doubtful]]
        if not len(doubtful):
            return home, significances
        bent[doubtful] = True
        levels[doubtful], lowest[doubtful] = _bent(surface, points[edges[doubtful]])


# Excess mass


class Excess(NamedTuple):
    """The samples of a peak above a saddle."""

    n_above: float
    n_background: float  #: the number expected if the peak were as dense as the saddle
    error: float  #: the squared standard error of the log density at the saddle

    def significance(self, n_samples: float) -> float:
        """Return the excess of samples, relative to that expected by chance.

        The square root of a count has the standard error 1/2. The excess expected by chance is the
        largest among all peaks of this size that the samples allow.
        """
        if self.n_above <= 0:
            return 0.0
        excess = np.sqrt(self.n_above) - np.sqrt(max(self.n_background, _MIN_BACKGROUND))
        error = 0.5 * np.sqrt(1 + self.error * self.n_background)
        chance = np.sqrt(2 * np.log1p(n_samples / self.n_above))
        return float(max(excess / error / chance, 0.0))


@dataclass
class _Peak:
    """The maxima and kernels above the current saddle."""

    maxima: list[int]
    kernels: np.ndarray
    is_several: bool = False  #: whether it consists of several significant peaks


@dataclass
class _Merging:
    """Merges peaks from the highest saddle down."""

    log_heights: np.ndarray  #: (n,) the log density at the maxima
    samples: KernelSamples
    profiles: "Profiles"
    significance: float

    def run(
        self, edges: np.ndarray, levels: np.ndarray, errors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Return the peak of every maximum, the significances, and the saddles between peaks."""
        n = len(edges) + 1
        maxima = self.samples.maxima
        starts = np.cumsum(np.bincount(maxima, minlength=n))[:-1]
        members = np.split(np.argsort(maxima, kind="stable"), starts)
        peaks = [_Peak([i], members[i]) for i in range(n)]
        home, significances, where = np.arange(n), np.full(n, np.nan), np.arange(n)
        separating = []
        for step, ends in enumerate(edges):
            pair = [peaks[where[end]] for end in ends]
            found = [self._significance(peak, levels[step], errors[step]) for peak in pair]
            if min(found) < self.significance:
                found = np.maximum(found, self._along_line(home, ends, levels[step])).tolist()
            weaker = int(found[1] < found[0])
            are_two = found[weaker] >= self.significance
            if are_two:
                separating.append(step)
                for peak, value in zip(pair, found, strict=True):
                    if not peak.is_several:
                        significances[home[peak.maxima]] = value
            else:
                home[pair[weaker].maxima] = home[ends[1 - weaker]]
            joint = _Peak(
                pair[0].maxima + pair[1].maxima,
                np.concatenate([peak.kernels for peak in pair]),
                are_two or any(peak.is_several for peak in pair),
            )
            peaks[where[ends[0]]] = joint
            where[joint.maxima] = where[ends[0]]
        if not separating:
            significances[home] = self._significance(peaks[where[0]], -np.inf, 0.0)
        return home, significances, separating

    def _significance(self, peak: _Peak, level: float, error: float) -> float:
        """Return the significance of a peak above a saddle."""
        if peak.is_several:
            return np.inf
        counts = self.samples.counts[peak.kernels]
        ratios = np.zeros(len(counts))
        if level > -np.inf:
            ratios = np.exp(np.minimum(level - self.samples.log_sums[peak.kernels], 0.0))
        above = ratios < 1
        excess = Excess(counts[above].sum(), (counts * ratios)[above].sum(), error)
        return excess.significance(self.samples.counts.sum())

    def _along_line(self, home: np.ndarray, ends: np.ndarray, level: float) -> list[float]:
        """Return the significances of two peaks in the marginal density along their line."""
        are_home = [home == home[end] for end in ends]
        if min(self.log_heights[each].max() for each in are_home) < level + _MIN_DEPTH:
            return [0.0, 0.0]
        parts = [np.flatnonzero(each[self.samples.maxima]) for each in are_home]
        n_samples = self.samples.counts.sum()
        sizes = [self.samples.counts[part].sum() for part in parts]
        if min(Excess(n, 0.0, 0.0).significance(n_samples) for n in sizes) < self.significance:
            return [0.0, 0.0]
        excesses = self.profiles.excesses(parts)
        if any(each.n_background > _MAX_BACKGROUND * each.n_above for each in excesses):
            return [0.0, 0.0]
        return [each.significance(n_samples) for each in excesses]


def _squared_errors(
    surface: LogSurface, counts: np.ndarray, log_sums: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Return the squared standard errors of log p, sum_k r_k^2 / n_k with the shares r_k."""
    log_squares = log_squares_of(surface.kernels, counts)
    most = -np.log(counts[counts > 0].min(initial=np.inf))
    squares = sums_at(log_squares, points, surface.n_jobs)
    with np.errstate(invalid="ignore"):
        # Far from all kernels, the difference is rounding; it has an upper bound.
        found = np.exp(np.minimum(squares - 2 * log_sums, most))
    # Where the density is zero, no samples are expected.
    return np.where(np.isfinite(log_sums), found, 0.0)


# Paths between maxima


def _edges(points: np.ndarray, log_sums: np.ndarray) -> np.ndarray:
    """Return pairs of maxima (E, 2) that connect all of them."""
    n = len(points)
    if n <= _FEW_MAXIMA:
        return np.stack(np.triu_indices(n, 1), axis=1)
    near = np.asarray(KDTree(points).query(points, k=_N_NEIGHBORS + 1)[1])[:, 1:]
    pairs = np.stack([np.repeat(np.arange(n), _N_NEIGHBORS), near.ravel()], axis=1)
    # Edges from every maximum to the nearest higher one connect all.
    order = np.argsort(-log_sums, kind="stable")
    squares = (((points[order[:i]] - points[order[i]]) ** 2).sum(axis=1) for i in range(1, n))
    up = [(order[i], order[each.argmin()]) for i, each in enumerate(squares, start=1)]
    return np.unique(np.sort(np.concatenate([pairs, up]), axis=1), axis=0)


def _spanning_tree(edges: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the edges of the maximum spanning tree, from the highest level down."""
    root, out = np.arange(edges.max(initial=0) + 1), []
    for edge in np.argsort(-levels, kind="stable"):
        first, second = root[edges[edge]]
        if first != second:
            root[root == second] = first
            out.append(edge)
    return np.array(out, dtype=np.int64)


def _straight(ends: np.ndarray, n_points: int) -> np.ndarray:
    """Return straight paths (E, n_points, M) between ends (E, 2, M), without these."""
    at = np.arange(1, n_points + 1)[:, None] / (n_points + 1)
    first, second = ends[:, :1], ends[:, 1:]
    return np.asarray(first + at * (second - first))


def _lowest(surface: LogSurface, paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest log sums (E,) on paths, and their points (E, M)."""
    log_sums = surface.values(paths.reshape(-1, paths.shape[2]))
    log_sums = log_sums.reshape(paths.shape[:2])
    at = np.arange(len(paths)), log_sums.argmin(axis=1)
    return log_sums[at], paths[at]


def _bent(surface: LogSurface, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest log sums and points of paths that are moved sideways, to higher density."""
    paths = np.concatenate([ends[:, :1], _straight(ends, _KNOTS), ends[:, 1:]], axis=1)
    levels, lowest = _lowest(surface, _refined(paths))
    for _ in range(_ROUNDS):
        inner = paths[:, 1:-1].reshape(-1, paths.shape[2])
        precisions = surface.curvatures(inner).precisions
        for _ in range(_STEPS):
            paths = _evenly_spaced(_moved(surface, paths, precisions))
        found, points = _lowest(surface, _refined(paths))
        higher = found > levels
        levels[higher], lowest[higher] = found[higher], points[higher]
    return levels, lowest


def _moved(surface: LogSurface, paths: np.ndarray, precisions: np.ndarray) -> np.ndarray:
    """Return paths after a sideways step of mean shift, at most one kernel width long."""
    inner = paths[:, 1:-1].reshape(-1, paths.shape[2])
    along = (paths[:, 2:] - paths[:, :-2]).reshape(inner.shape)
    gradients = surface.slopes(inner).gradients
    steps = np.linalg.solve(precisions, gradients[:, :, None])[:, :, 0]
    scaled = (precisions @ along[:, :, None])[:, :, 0]
    size = (scaled * along).sum(axis=1)
    steps -= ((scaled * steps).sum(axis=1) / np.where(size > 0, size, 1.0))[:, None] * along
    lengths = np.sqrt(np.einsum("im,imj,ij->i", steps, precisions, steps))
    steps /= np.maximum(1.0, lengths)[:, None]
    moved = paths.copy()
    moved[:, 1:-1] += steps.reshape(paths[:, 1:-1].shape)
    return moved


def _evenly_spaced(paths: np.ndarray) -> np.ndarray:
    """Return the same paths with their points at equal distances."""
    out = np.empty_like(paths)
    at = np.linspace(0, 1, paths.shape[1])
    for path, even in zip(paths, out, strict=True):
        steps = np.sqrt((np.diff(path, axis=0) ** 2).sum(axis=1))
        lengths = np.append(0, np.cumsum(steps))
        for m in range(path.shape[1]):
            even[:, m] = np.interp(at * lengths[-1], lengths, path[:, m])
    return out


def _refined(paths: np.ndarray) -> np.ndarray:
    """Return paths with more points between theirs."""
    at = np.arange(_BETWEEN)[:, None] / _BETWEEN
    between = paths[:, :-1, None] + at * np.diff(paths, axis=1)[:, :, None]
    return between.reshape(len(paths), -1, paths.shape[2])[:, 1:]


# Profiles along the line between two peaks


def whitening(
    weights: np.ndarray, deviations: np.ndarray, covariance: np.ndarray | float = 0.0
) -> np.ndarray:
    """Return axes in which deviations, and a covariance added to theirs, have unit variance."""
    total = weights.sum()
    shares = weights / total if total > 0 else np.full(len(weights), 1 / len(weights))
    # Squares of the largest numbers would overflow.
    unit = np.abs(deviations).max() or 1.0
    scaled = deviations / unit
    variances, axes = np.linalg.eigh((shares * scaled.T) @ scaled + covariance / unit / unit)
    least = np.finfo(float).eps * variances[-1] + np.finfo(float).tiny
    return np.asarray(axes / np.sqrt(np.maximum(variances, least)) / unit)


class Profiles:
    """Marginal densities of pairs of peaks, each along the line between the two."""

    def __init__(self, kernels: Kernels, samples: KernelSamples) -> None:
        self.kernels = kernels
        self.samples = samples

    @cached_property
    def _factors(self) -> np.ndarray:
        """Matrices L of all groups, whose covariances are L^T L."""
        return np.linalg.inv(self.kernels.transforms)

    def excesses(self, peaks: list[np.ndarray]) -> list[Excess]:
        """Return the excesses of two peaks of kernels over the lowest point between their means."""
        kernels = np.concatenate(peaks)
        side = np.repeat([0, 1], [len(peak) for peak in peaks])
        profile = self._profile(kernels, side)
        counts = self.samples.counts[kernels]
        grid = np.linspace(-_PROFILE_MARGIN, profile.distance + _PROFILE_MARGIN, _PROFILE_POINTS)
        values = profile.densities(grid)
        between = np.flatnonzero((grid >= 0) & (grid <= profile.distance))
        lowest = between[values[between].argmin()]
        level, terms = values[lowest], profile.terms(grid[[lowest]])[0]
        error = float((terms**2)[counts > 0] @ (1 / counts[counts > 0]) / level**2)
        # Leave-one-out: without one of the samples at the mean.
        own = profile.weights / profile.widths / np.maximum(counts, 1.0)
        left_out = np.interp(profile.positions, grid, values) - own
        ratios = level / np.maximum(left_out, level)
        above = (ratios < 1) & ((profile.positions > grid[lowest]) == side)
        n_above = np.bincount(side[above], counts[above], 2)
        n_background = np.bincount(side[above], (counts * ratios)[above], 2)
        return [Excess(float(n_above[i]), float(n_background[i]), error) for i in (0, 1)]

    def _profile(self, kernels: np.ndarray, side: np.ndarray) -> "_Profile":
        """Return kernels along the direction of Fisher's discriminant."""
        counts, points = self.samples.counts[kernels], self.kernels.means[kernels]
        sizes = np.bincount(side, counts, 2)
        means = np.stack([counts[side == i] @ points[side == i] / sizes[i] for i in (0, 1)])
        deviations = points - means[side]
        groups, group = np.unique(self.kernels.group_of_kernel[kernels], return_inverse=True)
        factors = self._factors[groups]
        shares = np.bincount(group, counts) / counts.sum()
        rows = (np.sqrt(shares)[:, None, None] * factors).reshape(-1, factors.shape[2])
        axes = whitening(counts, deviations, rows.T @ rows)
        difference = (means[1] - means[0]) @ axes
        distance = float(np.linalg.norm(difference))
        direction = difference / (distance or 1.0)
        units = deviations @ axes
        # A sample attracts the mean of its own peak, and thus the line.
        pulls = (units**2).sum(axis=1) / np.maximum(sizes - 1, 1.0)[side] / (distance or 1.0)
        positions = units @ direction + side * distance + np.where(side, -pulls, pulls)
        widths = np.linalg.norm(factors @ (axes @ direction), axis=1)[group]
        return _Profile(distance, positions, widths, self.samples.weights[kernels])


class _Profile(NamedTuple):
    """Kernels of two peaks on a line, in standard deviations from the mean of the first."""

    distance: float  #: that of the two means
    positions: np.ndarray
    widths: np.ndarray
    weights: np.ndarray

    def terms(self, points: np.ndarray) -> np.ndarray:
        """Return the contributions (Q, K) of the kernels to the density, up to a constant."""
        units = (points[:, None] - self.positions) / self.widths
        return np.asarray(np.exp(-0.5 * units**2) * (self.weights / self.widths))

    def densities(self, points: np.ndarray) -> np.ndarray:
        """Return the density up to a constant, a block of points at a time."""
        n_blocks = -(-points.size * self.positions.size // _BLOCK_NUMBERS)
        blocks = np.array_split(points, min(n_blocks, points.size))
        return np.concatenate([self.terms(block).sum(axis=1) for block in blocks])
