"""Outlines of regions where a density is above a level."""

from collections.abc import Callable, Sequence

import numpy as np

from ..extras import import_extra

#: From points to log densities.
LogDensity = Callable[[np.ndarray], np.ndarray]

#: What is so far below the level, in nats, is as good as nothing.
_DEEP = 30.0
#: What a grid reaches beyond the draws at first, relative to their spread.
_MARGIN = 0.1
#: A grid is widened so many times at most, each time by twice as much.
_MOST_GRIDS = 12
#: Steps after which a crossing is found to rounding, if not before.
_MOST_STEPS = 40
#: Log densities so close to the level, relatively, are on it.
_CLOSE = 1e-14


def intervals_around(
    log_density: LogDensity, level: float, drawn: np.ndarray, n_grid: int
) -> np.ndarray:
    """Return the intervals (n, 2) in which a density of one feature is above a level.

    The draws say where to look.
    """
    axes = _axes_around(log_density, level, drawn, n_grid)
    heights = _heights_on(axes, log_density, level)
    before = np.flatnonzero((heights[1:] > 0) != (heights[:-1] > 0))
    steps = np.where(heights[before] > 0, 0, 1)
    inner, outer = axes[0][before + steps], axes[0][before + 1 - steps]
    ends = _crossings(log_density, level, inner[:, None], outer[:, None])
    return ends.reshape(-1, 2)


def contours_around(
    log_density: LogDensity, level: float, drawn: np.ndarray, n_grid: int
) -> list[np.ndarray]:
    """Return closed polygons around where a density of two features is above a level.

    The draws say where to look. Higher values are on the left of a polygon.
    """
    library = import_extra("contourpy", "plot", "hdr_contours needs contourpy")
    axes = _axes_around(log_density, level, drawn, n_grid)
    heights = _heights_on(axes, log_density, level)
    tracer = library.contour_generator(
        *axes, heights.T, name="serial", line_type=library.LineType.Separate
    )
    polygons = [np.array(polygon) for polygon in tracer.lines(0.0)]
    if not polygons:
        return []
    vertices = _onto_level(np.concatenate(polygons), axes, heights, log_density, level)
    return np.split(vertices, np.cumsum([len(polygon) for polygon in polygons])[:-1])


def _axes_around(
    log_density: LogDensity, level: float, drawn: np.ndarray, n_grid: int
) -> list[np.ndarray]:
    """Return grid lines for every feature such that the density is below the level at the rim."""
    heights = log_density(drawn)
    inside = drawn[heights >= min(level, heights.max())]
    spread = np.ptp(inside, axis=0)
    spread = np.where(spread > 0, spread, np.ptp(drawn, axis=0))
    margin = _MARGIN * np.where(spread > 0, spread, 1e-3 * (np.abs(drawn[0]) + 1e-6))
    for _ in range(_MOST_GRIDS):
        axes = [_lines(values, gap, n_grid) for values, gap in zip(inside.T, margin, strict=True)]
        rim = np.concatenate([_points_on(side) for side in _sides(axes)])
        if (log_density(rim) < level).all():
            break
        margin = 2 * margin
    return axes


def _lines(values: np.ndarray, margin: float, n_grid: int) -> np.ndarray:
    """Return grid lines around values, half of them even and half of them where the values are."""
    even = np.linspace(values.min() - margin, values.max() + margin, len(values) + 2)
    return np.unique(np.quantile(np.append(values, even), np.linspace(0, 1, n_grid)))


def _sides(axes: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Return the axes of every side of a grid."""
    return [
        [axis[[end]] if other is axis else other for other in axes]
        for axis in axes
        for end in (0, -1)
    ]


def _points_on(axes: Sequence[np.ndarray]) -> np.ndarray:
    """Return the points of a grid, the last feature running fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _heights_on(axes: Sequence[np.ndarray], log_density: LogDensity, level: float) -> np.ndarray:
    """Return by how much the log density exceeds the level on a grid, deep down at its rim."""
    heights = _heights(log_density, level, _points_on(axes)).reshape([len(axis) for axis in axes])
    out = np.full(heights.shape, -_DEEP)
    middle = (slice(1, -1),) * len(axes)
    out[middle] = heights[middle]
    return out


def _heights(log_density: LogDensity, level: float, points: np.ndarray) -> np.ndarray:
    return np.maximum(log_density(points) - level, -_DEEP)


def _onto_level(
    vertices: np.ndarray,
    axes: Sequence[np.ndarray],
    heights: np.ndarray,
    log_density: LogDensity,
    level: float,
) -> np.ndarray:
    """Move vertices, which are on the lines of a grid, along them to where the level is."""
    cells, shares = _places(vertices, axes)
    nearest = cells + (shares > 0.5)
    # A vertex is on a line of the feature in whose cell it is nearest to an end.
    along = np.abs(shares - 0.5).argmin(axis=1)
    rows = np.arange(len(vertices))
    ends = [nearest.copy(), nearest.copy()]
    for step, end in enumerate(ends):
        end[rows, along] = cells[rows, along] + step
    above = [heights[tuple(end.T)] > 0 for end in ends]
    crossed = above[0] != above[1]
    first, second = (
        np.stack([axis[i] for axis, i in zip(axes, end.T, strict=True)], axis=1) for end in ends
    )
    inner = np.where(above[0][:, None], first, second)[crossed]
    outer = np.where(above[0][:, None], second, first)[crossed]
    out = vertices.copy()
    out[crossed] = _crossings(log_density, level, inner, outer)
    return out


def _places(vertices: np.ndarray, axes: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell of every vertex in every feature, and how far into it the vertex is."""
    cells, shares = np.empty(vertices.shape, dtype=np.int64), np.empty(vertices.shape)
    for m, axis in enumerate(axes):
        cell = np.searchsorted(axis, vertices[:, m], side="right") - 1
        cells[:, m] = cell.clip(0, len(axis) - 2)
        low, high = axis[cells[:, m]], axis[cells[:, m] + 1]
        shares[:, m] = (vertices[:, m] - low) / (high - low)
    return cells, shares


def _crossings(
    log_density: LogDensity, level: float, inner: np.ndarray, outer: np.ndarray
) -> np.ndarray:
    """Return where lines from points above the level to points below it cross the level.

    By false position; an end that stays twice counts half, lest it stay for ever (the Illinois
    rule).
    """
    low, high = np.zeros(len(inner)), np.ones(len(inner))
    f_low = _heights(log_density, level, inner)
    f_high = np.minimum(_heights(log_density, level, outer), -np.finfo(float).tiny)
    was_above = np.zeros(len(inner), dtype=bool)
    for i in range(_MOST_STEPS):
        at = low + (high - low) * (f_low / (f_low - f_high))
        points = inner + at[:, None] * (outer - inner)
        f = _heights(log_density, level, points)
        if (np.abs(f) <= _CLOSE * (1.0 + abs(level))).all():
            break
        above = f > 0
        again = (above == was_above) if i > 0 else np.zeros(len(f), dtype=bool)
        f_low = np.where(above, f, np.where(again, 0.5 * f_low, f_low))
        f_high = np.where(above, np.where(again, 0.5 * f_high, f_high), f)
        low, high = np.where(above, at, low), np.where(above, high, at)
        was_above = above
    return points
