"""Densities along one direction and along two, on grids."""

from itertools import combinations
from typing import Any

import numpy as np

from ..density import Density, KernelMixture
from .coordinates import Coordinates, usual_range
from .packing import DEPTH, pack, pack_heights, pack_rows

#: Masses of the regions whose outlines are drawn.
MASSES = (0.5, 0.8, 0.95)
#: Grid lines of a curve.
_N_LINE = 160
#: Cells of all grids of pairs together, and the fewest and most grid lines of one.
_CELLS = 400_000
_N_GRID = (28, 80)
#: Clusters that have curves of their own.
_MOST_PARTS = 12
_MOST_BINS = 60


def view_of(
    coordinates: Coordinates, rows: np.ndarray, n_draws: int, n_jobs: int | None
) -> dict[str, Any]:
    """Return all that is drawn along some directions.

    Parameters
    ----------
    coordinates : Coordinates
    rows : ndarray of int
        The samples that are drawn as points.
    n_draws : int
        How many draws are drawn as points.
    n_jobs : int or None
    """
    count = len(coordinates.names)
    grids = [_grid(coordinates, i, _N_LINE) for i in range(count)]
    out: dict[str, Any] = {
        "names": coordinates.names,
        "ranges": [[grid[0], grid[-1]] for grid in grids],
        "draws": pack_rows(coordinates.draws[:n_draws].T),
        "lines": [_line(coordinates.along(i), grid) for i, grid in enumerate(grids)],
        "pairs": _pairs(coordinates, n_jobs),
    }
    if coordinates.data is not None:
        out["points"] = pack_rows(coordinates.data[rows].T)
        out["histograms"] = [_histogram(coordinates.data[:, i]) for i in range(count)]
    return out


def _grid(coordinates: Coordinates, i: int, n: int) -> np.ndarray:
    """Return values along a direction: one half at equal distances, one half of equal mass.

    So a narrow hill beside a wide one is not lost between two of them.
    """
    seen = coordinates.draws[:, i]
    if coordinates.data is not None:
        seen = np.concatenate([seen, coordinates.data[:, i]])
    low, high = usual_range(seen)
    if low == high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    margin = 0.05 * (high - low)
    even = np.linspace(low - margin, high + margin, n - n // 2)
    inside = seen[(seen >= low) & (seen <= high)]
    dense = np.quantile(inside, (np.arange(n // 2) + 0.5) / (n // 2))
    return np.unique(np.concatenate([even, dense]))


def _line(density: Density | None, grid: np.ndarray) -> dict[str, Any] | None:
    """Return the density of one direction, and what every cluster adds to it."""
    if density is None:
        return None
    return {
        "x": pack_rows(grid[None]),
        "y": pack(density.pdf(grid[:, None])),
        "parts": [
            {"label": label, "y": pack(share * part.pdf(grid[:, None]))}
            for label, share, part in _parts(density)
        ],
    }


def _parts(density: Density) -> list[tuple[int, float, KernelMixture]]:
    """Return the largest clusters of a density: their labels, their shares and densities."""
    if not isinstance(density, KernelMixture) or len(np.unique(density.clusters)) < 2:
        return []
    sizes = np.diff(density.offsets)
    of_kernel = np.repeat(density.clusters, sizes)
    labels = np.unique(density.clusters)
    shares = np.array([density.weights[of_kernel == label].sum() for label in labels])
    largest = np.sort(np.argsort(-shares, kind="stable")[:_MOST_PARTS])
    return [
        (int(labels[i]), float(shares[i]), density.component(int(labels[i])))
        for i in largest
        if shares[i] > 0
    ]


def _histogram(values: np.ndarray) -> dict[str, Any]:
    """Return the heights of bars, as densities, over a range that leaves far values out."""
    low, high = usual_range(values)
    if low == high:
        return {"edges": [], "heights": []}
    inside = values[(values >= low) & (values <= high)]
    quarter, three = np.quantile(inside, [0.25, 0.75])
    # Freedman and Diaconis' width, which repeated values can make zero.
    width = 2 * (three - quarter) / len(inside) ** (1 / 3)
    fewest = 2 * len(inside) ** (1 / 3)  # Rice's number, for the width is that of one hill
    n_bins = _MOST_BINS if width == 0 else np.clip((high - low) / width, fewest, _MOST_BINS)
    counts, edges = np.histogram(inside, int(n_bins), (low, high))
    return {"edges": edges.tolist(), "heights": counts / len(values) / np.diff(edges)}


def _pairs(coordinates: Coordinates, n_jobs: int | None) -> dict[str, Any] | None:
    """Return the densities of all pairs of directions on grids, and the outlines' heights."""
    pairs = list(combinations(range(len(coordinates.names)), 2))
    if not pairs:
        return None
    n = int(np.clip(np.sqrt(_CELLS / len(pairs)), *_N_GRID))
    grids = [_grid(coordinates, i, n) for i in range(len(coordinates.names))]
    heights, levels = {}, {}
    for i, j in pairs:
        density = coordinates.along(i, j)
        if density is None:
            return None
        nodes = np.stack(np.meshgrid(grids[i], grids[j]), axis=-1).reshape(-1, 2)
        logs = density.logpdf(nodes, n_jobs).reshape(len(grids[j]), len(grids[i]))
        heights[f"{i},{j}"] = pack_heights(logs)
        levels[f"{i},{j}"] = _levels(logs, grids[i], grids[j])
    return {
        "grids": [pack_rows(grid[None]) for grid in grids],
        "heights": heights,
        "levels": levels,
        "masses": MASSES,
        "depth": DEPTH,
    }


def _levels(logs: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the log densities, below the highest, above which the grid holds given masses."""
    logs = logs - logs.max()
    masses = np.exp(logs) * np.gradient(y)[:, None] * np.gradient(x)
    order = np.argsort(-logs, axis=None, kind="stable")
    inside = np.cumsum(masses.ravel()[order])
    last = np.searchsorted(inside, np.array(MASSES) * inside[-1])
    return logs.ravel()[order][np.minimum(last, len(order) - 1)].tolist()
