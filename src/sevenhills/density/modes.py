"""Modes of a density, by ascent from the means of its kernels.

All computations are made in coordinates in which the heaviest group of kernels consists of unit
Gaussians, so that numbers are of the same size whatever the units of the features.

A step of the ascent is that of Newton's method in the metric of the kernels that matter at a point,
in which the log density is nowhere more curved downwards than a single kernel. Where it is curved
upwards, the step leads away from the saddle. A step is no longer than half the width of a kernel.
It is taken only if it leads higher than the step of mean shift, which never descends.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.special import expit

from ..validation import freeze
from .derivatives import Curvatures, LogSurface, nearest_shares
from .output import to_frame
from .saddles import KernelSamples, find_peaks, whitening
from .sums import LOG_2PI, Kernels, log_sums_of, sums_at

#: Up to this many kernels, an ascent starts at each of them.
_FEW_KERNELS = 256
#: Up to this many kernels, ascents also start at the ridge between every pair.
_FEW_FOR_PAIRS = 64
#: The weights of the first kernel of a pair for which points of the ridge are computed.
_RIDGE_WEIGHTS = expit(np.linspace(-8, 8, 33))
#: Neighbors among which a denser kernel is searched; groups of this size have starts of their own.
_N_NEIGHBORS = 24
#: The distance to a denser neighbor is long if it is this many times the distance to the last
#: neighbor, as extrapolated from the neighbor of number _CLOSE for an even density.
_LONG, _CLOSE = 1.5, 4
#: A kernel of a larger share in the density at its mean may have a maximum of its own.
_MAIN_SHARE = 0.5
#: The highest means from which the highest mode is searched.
_MAX_BEST_STARTS = 16
#: Kernels lower than the highest by this, in log, are not at the highest mode.
_NEGLIGIBLE = 30.0
#: Positions between two maxima at which a dip of the density is searched.
_DIP_POSITIONS = np.arange(1, 8) / 8
#: Smaller dips are rounding, relative to the log density.
_MIN_DIP = 1e-13
#: An ascent is given up after this many steps.
_MAX_STEPS = 200
#: The longest step of Newton's method, in widths of kernels.
_MAX_STEP = 0.5
#: An ascent ends where the expected gain of the next step, in log density, is smaller.
_MIN_GAIN = 1e-14
#: Smaller curvatures, relative to a kernel's, do not distinguish a flat maximum from a saddle.
_FLAT = 1e-7
#: The ascent continues this far from a saddle, in widths of kernels.
_NUDGE = 0.1
#: The number of saddles after one another from which an ascent continues.
_MAX_SADDLES = 4


@dataclass(frozen=True, eq=False, repr=False)
class ModeTable:
    """The modes of a density, those with the largest share first.

    Attributes
    ----------
    locations : ndarray or data frame of shape (n_modes, n_features)
        The maxima of the density; a frame if the results of the density are frames.
    log_heights : ndarray of shape (n_modes,)
        The log density at the modes.
    shares : ndarray of shape (n_modes,)
        The weight of the kernels in the basin of every mode.
    basins : ndarray of shape (n_kernels,)
        The mode to which an ascent from every kernel's mean leads.
    significances : ndarray of shape (n_modes,)
        The excess of every mode over its highest saddle, relative to that expected by chance;
        infinite for a density that was not made from samples.
    """

    locations: np.ndarray
    log_heights: np.ndarray
    shares: np.ndarray
    basins: np.ndarray
    significances: np.ndarray

    def __post_init__(self) -> None:
        freeze(self, "locations", "log_heights", "shares", "basins", "significances")

    def __len__(self) -> int:
        return len(self.shares)

    def with_output(self, library: str | None, names: Sequence[str] | None) -> "ModeTable":
        """Return the same table with locations as a frame of a library, None for an array."""
        made = copy(self)
        object.__setattr__(made, "locations", to_frame(self.locations, library, names))
        return made

    def __repr__(self) -> str:
        shares = ", ".join(f"{share:.1%}" for share in self.shares[:5])
        return f"ModeTable(n_modes={len(self)}, shares=[{shares}{', ...' * (len(self) > 5)}])"


def find_modes(
    weights: np.ndarray,
    kernels: Kernels,
    clusters: np.ndarray,
    counts: np.ndarray | None,
    significance: float,
    n_jobs: int | None,
) -> ModeTable:
    """Find the maxima of a density, and those of them that are significant."""
    standard = Standard.from_kernels(weights, kernels, n_jobs)
    surface = standard.surface
    heights = surface.values(surface.kernels.means)
    isolated = significance == 0 or counts is None
    starts, start_of_kernel = _starts(surface, weights, clusters, heights, isolated)
    ends, end_sums = find_maxima(surface, starts)
    points, log_sums, maximum_of_end = _distinct(surface, ends, end_sums)
    maxima = maximum_of_end[start_of_kernel]
    peak_of_maximum, significances = np.arange(len(points)), np.full(len(points), np.inf)
    if counts is not None:
        left_out = _left_out(surface.kernels, counts, heights)
        samples = KernelSamples(weights, counts, left_out, maxima)
        peak_of_maximum, significances = find_peaks(
            surface, samples, points, log_sums, significance
        )
    shares = np.bincount(peak_of_maximum[maxima], weights, len(points))
    highest = _highest(peak_of_maximum, log_sums)
    keys = -shares[peak_of_maximum[highest]], -log_sums[highest], *points[highest].T
    highest = highest[np.lexsort(keys[::-1])]
    peaks = peak_of_maximum[highest]
    rank = np.empty(len(points), dtype=np.int64)
    rank[peaks] = np.arange(len(peaks))
    return ModeTable(
        locations=standard.points(points[highest]),
        log_heights=standard.log_densities(log_sums[highest]),
        shares=shares[peaks],
        basins=rank[peak_of_maximum[maxima]],
        significances=significances[peaks],
    )


def find_highest_mode(weights: np.ndarray, kernels: Kernels, n_jobs: int | None) -> np.ndarray:
    """Return the location of the highest maximum of a density."""
    standard = Standard.from_kernels(weights, kernels, n_jobs)
    points, log_sums = find_maxima(standard.surface, _best_starts(standard.surface))
    return standard.points(points[[np.argmax(log_sums)]])[0]


def label_shares(
    kernels: Kernels, labels: np.ndarray, n_labels: int, X: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Return the shares (n_points, n_labels) of labels 0, 1, ... of kernels in the density."""
    log_shares = np.full((len(X), n_labels), -np.inf)
    for label in np.unique(labels):
        log_sums = log_sums_of(kernels.select(labels == label))
        log_shares[:, label] = sums_at(log_sums, X, n_jobs)
    with np.errstate(all="ignore"):
        for i in np.flatnonzero(log_shares.max(axis=1) == -np.inf):
            shares = nearest_shares(kernels, X[i])[0]
            log_shares[i] = np.log(np.bincount(labels, shares, n_labels))
    out = np.exp(log_shares - log_shares.max(axis=1, keepdims=True))
    return np.asarray(out / out.sum(axis=1, keepdims=True))


class Standard(NamedTuple):
    """Kernels in coordinates in which the heaviest group consists of unit Gaussians."""

    surface: LogSurface
    center: np.ndarray
    transform: np.ndarray
    log_det: float

    @classmethod
    def from_kernels(
        cls, weights: np.ndarray, kernels: Kernels, n_jobs: int | None = None
    ) -> "Standard":
        """Transform kernels into these coordinates."""
        heaviest = np.argmax(np.add.reduceat(weights, kernels.offsets[:-1]))
        transform = kernels.transforms[heaviest]
        center = kernels.means[kernels.offsets[heaviest]]
        log_det = float(kernels.log_dets[heaviest])
        transformed = kernels._replace(
            means=(kernels.means - center) @ transform,
            transforms=np.ascontiguousarray(np.linalg.solve(transform, kernels.transforms)),
            log_dets=kernels.log_dets - log_det,
        )
        return cls(LogSurface(transformed, n_jobs), center, transform, log_det)

    def points(self, Y: np.ndarray) -> np.ndarray:
        """Return the points of given coordinates."""
        return np.linalg.solve(self.transform.T, Y.T).T + self.center

    def log_densities(self, log_sums: np.ndarray) -> np.ndarray:
        """Return log densities from sums of kernels in these coordinates."""
        return log_sums + self.log_det - 0.5 * len(self.center) * LOG_2PI


# Starts


def _starts(
    surface: LogSurface,
    weights: np.ndarray,
    clusters: np.ndarray,
    heights: np.ndarray,
    isolated: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the points at which ascents start, and the start of every kernel.

    They are the means of all kernels if these are few, else dense ones.
    """
    kernels = surface.kernels
    if kernels.n_kernels <= _FEW_KERNELS:
        points = kernels.means
        if kernels.n_kernels <= _FEW_FOR_PAIRS:
            points = np.concatenate([points, _ridge_maxima(surface)])
        return points, np.arange(kernels.n_kernels)
    parts = _parts(kernels, weights, clusters)
    roots = _roots(surface, parts, heights, isolated)
    chosen, of_kernel = np.unique(roots, return_inverse=True)
    return kernels.means[chosen], of_kernel


def _best_starts(surface: LogSurface) -> np.ndarray:
    """Return a few points from which the highest maximum is found."""
    kernels = surface.kernels
    if kernels.n_kernels <= _FEW_FOR_PAIRS:
        return np.concatenate([kernels.means, _ridge_maxima(surface)])
    # Of a conditional density, few kernels matter; the others cannot be at the highest mode.
    own = kernels.log_heights
    points = kernels.means[own > own.max() - _NEGLIGIBLE]
    highest = np.argsort(-surface.values(points), kind="stable")
    return points[highest[:_MAX_BEST_STARTS]]


def _ridge_maxima(surface: LogSurface) -> np.ndarray:
    """Return the local maxima along the ridges between pairs of kernels.

    All modes of a pair lie on its ridge, the points at which a weighted product of the two kernels
    has its maximum. Kernels of different shapes can have a mode far from their means (Ray and
    Lindsay, The topography of multivariate normal mixtures, 2005).
    """
    kernels = surface.kernels
    first, second = np.triu_indices(kernels.n_kernels, 1)
    precisions = (kernels.transforms @ kernels.transforms.transpose(0, 2, 1))[
        kernels.group_of_kernel
    ]
    differences = kernels.means[second] - kernels.means[first]
    pulls = (precisions[second] @ differences[:, :, None])[:, :, 0]
    ridges = np.empty((len(_RIDGE_WEIGHTS), *differences.shape))
    for i, weight in enumerate(_RIDGE_WEIGHTS):
        joint = (1 - weight) * precisions[first] + weight * precisions[second]
        steps = np.linalg.solve(joint, weight * pulls[:, :, None])[:, :, 0]
        ridges[i] = kernels.means[first] + steps
    heights = surface.values(ridges.reshape(-1, kernels.n_features))
    heights = np.pad(heights.reshape(ridges.shape[:2]), [(1, 1), (0, 0)], constant_values=np.inf)
    is_maximum = (heights[1:-1] >= heights[:-2]) & (heights[1:-1] >= heights[2:])
    return ridges[is_maximum]


def _parts(
    kernels: Kernels, weights: np.ndarray, clusters: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the kernels of every large group, and the other kernels of every cluster.

    After them come the kernels among which their neighbors are searched, which are the same unless
    the cluster is noise, and the coordinates of these with equal spread in all directions.
    """
    sizes = np.diff(kernels.offsets)
    large = np.where(sizes >= _N_NEIGHBORS, np.arange(kernels.n_groups), -1)
    names, part = np.unique(np.stack([clusters, large]), axis=1, return_inverse=True)
    part = part.ravel()[kernels.group_of_kernel]
    deviations = np.empty_like(kernels.means)
    everything = np.arange(kernels.n_kernels)
    chosen = [np.flatnonzero(part == i) for i in range(names.shape[1])]
    for rows in chosen:
        own = weights[rows]
        mean = np.average(kernels.means[rows], axis=0, weights=own if own.any() else None)
        deviations[rows] = kernels.means[rows] - mean
    for rows, cluster in zip(chosen, names[0], strict=True):
        among = rows if cluster >= 0 else everything
        axes = whitening(weights[among], deviations[among])
        points = deviations if cluster >= 0 else kernels.means
        yield rows, among, points[among] @ axes


def _roots(
    surface: LogSurface,
    parts: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]],
    heights: np.ndarray,
    isolated: bool,
) -> np.ndarray:
    """Return, for every kernel, the kernel to which a walk over denser neighbors leads.

    Quick shift: a kernel points to its nearest denser neighbor of the same part; kernels without
    one are roots. So are kernels whose distance to it is long if the density is lower halfway. With
    ``isolated``, kernels that make up most of the density at their mean are roots, too.
    """
    kernels = surface.kernels
    n_kernels = kernels.n_kernels
    rank = np.empty(n_kernels, dtype=np.int64)
    rank[np.argsort(heights, kind="stable")] = np.arange(n_kernels)
    long = _LONG * (_N_NEIGHBORS / _CLOSE) ** (1 / kernels.n_features)
    parent, is_long = np.arange(n_kernels), np.zeros(n_kernels, dtype=bool)
    for rows, among, Y in parts:
        k = np.arange(1, min(_N_NEIGHBORS, len(among)) + 1)
        distances, near = KDTree(Y).query(
            Y[np.searchsorted(among, rows)], k, workers=effective_n_jobs(surface.n_jobs)
        )
        denser = rank[among[near]] > rank[rows, None]
        at = np.arange(len(rows)), denser.argmax(axis=1)
        parent[rows] = np.where(denser.any(axis=1), among[near[at]], rows)
        is_long[rows] = distances[at] > long * distances[:, min(_CLOSE, len(k) - 1)]
    is_root = parent == np.arange(n_kernels)
    doubtful = np.flatnonzero(is_long & ~is_root)
    halfway = (kernels.means[doubtful] + kernels.means[parent[doubtful]]) / 2
    is_root[doubtful] = surface.values(halfway) < heights[doubtful]
    if isolated:
        is_root |= kernels.log_heights > heights + np.log(_MAIN_SHARE)
    parent = np.where(is_root, np.arange(n_kernels), parent)
    while (parent[parent] != parent).any():
        parent = parent[parent]
    return parent


def _left_out(kernels: Kernels, counts: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return the leave-one-out log sums at the means: without one of the samples there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.exp(kernels.log_heights - heights) / np.maximum(counts, 1.0)
        return np.asarray(heights + np.log1p(-np.minimum(shares, 1.0)))


# Ascent


class _Ends(NamedTuple):
    """The ends of ascents, and the curvature of the surface there."""

    points: np.ndarray
    log_sums: np.ndarray
    curvatures: np.ndarray  #: (n,) the largest, relative to a kernel's
    directions: np.ndarray  #: (n, M) in which it is, one kernel width long


def find_maxima(surface: LogSurface, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascend from starts, and further from the saddles at which ascents end.

    Return the ends (n, M), those from the starts first, and the log sums there.
    """
    ends = _ascend(surface, starts)
    limit = -_FLAT
    for _ in range(_MAX_SADDLES):
        rows = np.flatnonzero(ends.curvatures > limit)
        if not len(rows):
            break
        middle, nudge = ends.points[rows], _NUDGE * ends.directions[rows]
        sides = _ascend(surface, np.concatenate([middle + nudge, middle - nudge]))
        higher = np.arange(len(rows))
        higher += len(rows) * (sides.log_sums[len(rows) :] > sides.log_sums[: len(rows)])
        for values, found in zip(ends, sides, strict=True):
            values[rows] = found[higher]
        lower = (higher + len(rows)) % (2 * len(rows))
        ends = _Ends(*(np.append(v, f[lower], axis=0) for v, f in zip(ends, sides, strict=True)))
        # A point that is flat after a nudge is a flat maximum.
        limit = _FLAT
    kept = (np.arange(len(ends.points)) < len(starts)) | (ends.curvatures <= _FLAT)
    return ends.points[kept], ends.log_sums[kept]


def _ascend(surface: LogSurface, starts: np.ndarray) -> _Ends:
    """Ascend from every start until nothing more is gained."""
    n_starts, n_features = starts.shape
    points = starts.copy()
    values = surface.values(points)
    curvatures, directions = np.full(n_starts, -np.inf), np.zeros((n_starts, n_features))
    active = np.arange(n_starts)
    for _ in range(_MAX_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            newton, mean_shift, gains, curvatures[active], directions[active] = _steps(
                surface.curvatures(points[active])
            )
        here = points[active]
        trials = np.concatenate([here + newton, here + mean_shift])
        found = surface.values(trials)
        taken, other = np.arange(len(here)), np.arange(len(here)) + len(here)
        taken = np.where(found[other] > found[taken], other, taken)
        rises = (found[taken] > values[active]) | ~np.isfinite(values[active])
        # The last step is too small to be seen in the density, but refines the location.
        taken = np.where(gains > _MIN_GAIN, taken, np.arange(len(here)))
        moves = rises | (gains <= _MIN_GAIN)
        points[active[moves]] = trials[taken[moves]]
        values[active[rises]] = found[taken[rises]]
        active = active[rises & (gains > _MIN_GAIN)]
        if not len(active):
            break
    return _Ends(points, values, curvatures, directions)


def _steps(here: Curvatures) -> tuple[np.ndarray, ...]:
    """Return the steps from points (n, M), in the metric of the mean precision.

    They are those of Newton's method, and of mean shift. Then come the expected gains of the
    former in log density (n,), the largest curvatures (n,), and their directions (n, M).
    """
    sizes, axes = np.linalg.eigh(here.precisions)
    least = np.finfo(float).eps * sizes[:, -1:]
    widths = axes / np.sqrt(np.maximum(sizes, least))[:, None]
    # Where a Hessian overflows, in the farthest tails, a single kernel matters.
    finite = np.isfinite(here.hessians).all(axis=(1, 2))[:, None, None]
    hessians = np.where(finite, here.hessians, -here.precisions)
    curvatures, rotations = np.linalg.eigh(widths.swapaxes(1, 2) @ hessians @ widths)
    axes = widths @ rotations
    slopes = (here.gradients[:, None] @ axes)[:, 0]
    steps = slopes / np.maximum(np.abs(curvatures), _FLAT**2)
    gains = 0.5 * (slopes * steps).sum(axis=1)
    steps /= np.maximum(1.0, np.sqrt((steps**2).sum(axis=1, keepdims=True)) / _MAX_STEP)
    newton = (axes @ steps[:, :, None])[:, :, 0]
    mean_shift = (axes @ slopes[:, :, None])[:, :, 0]
    return newton, mean_shift, gains, curvatures[:, -1], axes[:, :, -1]


# Distinct maxima


def _highest(labels: np.ndarray, log_sums: np.ndarray) -> np.ndarray:
    """Return the index of the highest point of every label."""
    order = np.lexsort([-log_sums, labels])
    return np.asarray(order[np.flatnonzero(np.diff(labels[order], prepend=-1))])


def _distinct(
    surface: LogSurface, points: np.ndarray, log_sums: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the highest end of every maximum, and the index of the maximum of every end.

    Two ends are the same maximum if the density does not dip between them.
    """
    # Most ends are equal to many digits.
    rounded = np.column_stack([points.round(9), log_sums.round(9)])
    _, one, same = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    points, log_sums = points[one], log_sums[one]
    first, second = _near_pairs(surface, points)
    differences = points[second] - points[first]
    paths = points[first, None] + _DIP_POSITIONS[:, None] * differences[:, None]
    on_path = surface.values(paths.reshape(-1, points.shape[1]))
    lower = np.minimum(log_sums[first], log_sums[second])
    dips = lower - on_path.reshape(paths.shape[:2]).min(axis=1, initial=np.inf)
    joint = dips <= _MIN_DIP * (1 + np.abs(lower))
    links = coo_array((joint[joint], (first[joint], second[joint])), shape=[len(points)] * 2)
    _, maximum = connected_components(links, directed=False)
    highest = _highest(maximum, log_sums)
    return points[highest], log_sums[highest], maximum[same.ravel()]


def _near_pairs(surface: LogSurface, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of points that are less than one kernel width apart."""
    precisions = surface.curvatures(points).precisions
    widest = 1 / np.sqrt(np.linalg.eigvalsh(precisions)[:, 0].clip(np.finfo(float).tiny))
    found = KDTree(points).query_ball_point(points, widest)
    first = np.repeat(np.arange(len(points)), [len(each) for each in found])
    second = np.concatenate(found).astype(np.int64)
    differences = points[second] - points[first]
    squares = np.einsum("im,imj,ij->i", differences, precisions[first], differences)
    near = (first != second) & (squares < 1)
    return first[near], second[near]
