"""Climbing from points to maxima of the log density.

A step is that of Newton's method in the metric of the kernels that matter at a point, in which the
log density is nowhere more curved downwards than a single kernel. Where it curves upwards, the
step goes the other way than to the saddle. It is no longer than half a kernel's width, and taken
only if it climbs higher than the step of mean shift, which never descends.
"""

from typing import NamedTuple, Self

import numpy as np

from .derivatives import Curvatures, Derivatives
from .sums import LOG_2PI, sums_at

#: A climb is given up after so many steps.
_MOST_STEPS = 200
#: How long a step of Newton's method may be, in kernel widths.
_LONGEST = 0.5
#: A climb ends where the next step promises no more than this.
_LEAST_GAIN = 1e-14
#: Curvatures, in units of a kernel's, from which on a flat top cannot be told from a saddle.
_FLAT = 1e-7
#: How far from a saddle, in kernel widths, the climb goes on.
_NUDGE = 0.1
#: Saddles from which the climb goes on one after the other.
_MOST_SADDLES = 4


class Standard(NamedTuple):
    """A density in coordinates in which its heaviest group consists of unit Gaussians.

    Whatever the units of the features, numbers are then of the same size.
    """

    density: Derivatives
    location: np.ndarray
    transform: np.ndarray
    log_det: float

    @classmethod
    def of(cls, density: Derivatives) -> Self:
        """Turn a density into these coordinates."""
        heaviest = np.argmax(np.add.reduceat(density.weights, density.offsets[:-1]))
        transform = density.transforms[heaviest]
        location = density.means[density.offsets[heaviest]]
        log_det = float(density.log_dets[heaviest])
        turned = density._with(
            means=(density.means - location) @ transform,
            transforms=np.ascontiguousarray(np.linalg.solve(transform, density.transforms)),
            log_dets=density.log_dets - log_det,
        )
        return cls(turned, location, transform, log_det)

    def coordinates(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of points."""
        return (X - self.location) @ self.transform

    def points(self, Y: np.ndarray) -> np.ndarray:
        """Return the points that have some coordinates."""
        return np.linalg.solve(self.transform.T, Y.T).T + self.location

    def log_densities(self, log_sums: np.ndarray) -> np.ndarray:
        """Return log densities from sums of kernels in these coordinates."""
        n_features = len(self.location)
        return log_sums + self.log_det - 0.5 * n_features * LOG_2PI


class Summits(NamedTuple):
    """Where climbs ended; those from the starts first, others at the far side of saddles."""

    points: np.ndarray  #: (n, M)
    log_sums: np.ndarray  #: (n,)


class _Ends(NamedTuple):
    """Where climbs ended, and what the surface is like there."""

    points: np.ndarray
    log_sums: np.ndarray
    curvatures: np.ndarray  #: (n,) the largest, in units of a kernel's
    directions: np.ndarray  #: (n, M) along which it is, a kernel width long


def climb(
    density: Derivatives, starts: np.ndarray, n_jobs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Climb to maxima of a density.

    Parameters
    ----------
    density : KernelMixture
    starts : ndarray of shape (n_starts, n_features)
    n_jobs : int, optional
        Number of threads.

    Returns
    -------
    points : ndarray of shape (n_starts, n_features)
        The maximum above every start.
    log_densities : ndarray of shape (n_starts,)
        The log density there, which is not below that at the start.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills import KernelMixture
    >>> from sevenhills.density.ascent import climb
    >>> hills = KernelMixture([0.5, 0.5], [[0.0], [9.0]], [0, 2], [[[1.0]]])
    >>> points, _ = climb(hills, np.array([[-1.0], [7.0]]))
    >>> points.round(6) + 0.0
    array([[0.],
           [9.]])
    """
    standard = Standard.of(density)
    summits = find_summits(standard.density, standard.coordinates(starts), n_jobs)
    points, log_sums = summits.points[: len(starts)], summits.log_sums[: len(starts)]
    return standard.points(points), standard.log_densities(log_sums)


def find_summits(density: Derivatives, starts: np.ndarray, n_jobs: int | None) -> Summits:
    """Climb from starts, and on from the saddles where climbs end."""
    ends = _ascend(density, starts, n_jobs)
    limit = -_FLAT
    for _ in range(_MOST_SADDLES):
        rows = np.flatnonzero(ends.curvatures > limit)
        if not len(rows):
            break
        middle, nudge = ends.points[rows], _NUDGE * ends.directions[rows]
        sides = _ascend(density, np.concatenate([middle + nudge, middle - nudge]), n_jobs)
        higher = np.arange(len(rows))
        higher += len(rows) * (sides.log_sums[len(rows) :] > sides.log_sums[: len(rows)])
        for values, found in zip(ends, sides, strict=True):
            values[rows] = found[higher]
        lower = (higher + len(rows)) % (2 * len(rows))
        ends = _Ends(*(np.append(v, f[lower], axis=0) for v, f in zip(ends, sides, strict=True)))
        # What is flat after a nudge is a flat top.
        limit = _FLAT
    kept = (np.arange(len(ends.points)) < len(starts)) | (ends.curvatures <= _FLAT)
    return Summits(ends.points[kept], ends.log_sums[kept])


def _ascend(density: Derivatives, starts: np.ndarray, n_jobs: int | None) -> _Ends:
    """Climb from every start until there is nothing more to gain."""
    n_starts, n_features = starts.shape
    points = starts.copy()
    values = sums_at(density._log_sums, points, n_jobs)
    curvatures, directions = np.full(n_starts, -np.inf), np.zeros((n_starts, n_features))
    active = np.arange(n_starts)
    for _ in range(_MOST_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            steps = _steps(density._curvatures(points[active], n_jobs))
        curvatures[active], directions[active] = steps.curvatures, steps.directions
        here = points[active]
        trials = np.concatenate([here + steps.newton, here + steps.shift])
        found = sums_at(density._log_sums, trials, n_jobs)
        taken, other = np.arange(len(here)), np.arange(len(here)) + len(here)
        taken = np.where(found[other] > found[taken], other, taken)
        climbs = (found[taken] > values[active]) | ~np.isfinite(values[active])
        # The last step is too small to be seen in the density, but sharpens the place.
        taken = np.where(steps.gains > _LEAST_GAIN, taken, np.arange(len(here)))
        moves = climbs | (steps.gains <= _LEAST_GAIN)
        points[active[moves]] = trials[taken[moves]]
        values[active[climbs]] = found[taken[climbs]]
        active = active[climbs & (steps.gains > _LEAST_GAIN)]
        if not len(active):
            break
    return _Ends(points, values, curvatures, directions)


class _Steps(NamedTuple):
    """The next steps of climbs."""

    newton: np.ndarray  #: (n, M)
    shift: np.ndarray  #: (n, M) of mean shift
    gains: np.ndarray  #: (n,) what the former promises in log density
    curvatures: np.ndarray
    directions: np.ndarray


def _steps(here: Curvatures) -> _Steps:
    """Return the steps from points, in the metric of the mean precision."""
    sizes, axes = np.linalg.eigh(here.precisions)
    least = np.finfo(float).eps * sizes[:, -1:]
    widths = axes / np.sqrt(np.maximum(sizes, least))[:, None]
    # Where a Hessian overflows, in the farthest tails, a single kernel matters.
    finite = np.isfinite(here.hessians).all(axis=(1, 2))[:, None, None]
    hessians = np.where(finite, here.hessians, -here.precisions)
    curvatures, turns = np.linalg.eigh(widths.swapaxes(1, 2) @ hessians @ widths)
    axes = widths @ turns
    slopes = (here.gradients[:, None] @ axes)[:, 0]
    steps = slopes / np.maximum(np.abs(curvatures), _FLAT**2)
    gains = 0.5 * (slopes * steps).sum(axis=1)
    steps /= np.maximum(1.0, np.sqrt((steps**2).sum(axis=1, keepdims=True)) / _LONGEST)
    return _Steps(
        newton=(axes @ steps[:, :, None])[:, :, 0],
        shift=(axes @ slopes[:, :, None])[:, :, 0],
        gains=gains,
        curvatures=curvatures[:, -1],
        directions=axes[:, :, -1],
    )
