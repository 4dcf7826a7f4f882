"""The data of the plots: densities on grids, points, and the ordering with its cuts.

Arrays are embedded as base64, from which browsers make typed arrays.
"""

from base64 import b64encode
from itertools import combinations
from typing import Any

import numpy as np

from ..clustering import Candidates, Ordering
from ..density import Density, KernelMixture
from .coordinates import Coordinates, usual_range
from .subject import Subject

#: Confidences of the highest-density regions that are drawn, and draws that find their levels.
CONFIDENCES = (0.5, 0.8, 0.95)
_N_LEVEL_DRAWS = 2000
#: Nodes of a curve.
_N_LINE = 160
#: Nodes of all grids together, and smallest and largest number along one direction.
_N_NODES = 400_000
_N_GRID = (28, 80)
#: Largest number of clusters with curves of their own, and of bars in a histogram.
_MAX_COMPONENTS = 12
_MAX_BINS = 60
#: Log densities are drawn down to this depth below the highest one.
DEPTH = 14.0
#: Largest number of columns of the reachability plot; samples beyond it share columns.
_MAX_COLUMNS = 2400
#: Largest number of runs of equal labels in all clusterings of a page.
_MAX_RUNS = 40_000
_TYPES = {"f4": "<f4", "u2": "<u2", "i4": "<i4"}
_LARGEST = float(np.finfo(np.float32).max)


def view_of(
    coordinates: Coordinates, rows: np.ndarray, n_draws: int, n_jobs: int | None
) -> dict[str, Any]:
    """Return the data of all plots along some directions; samples in ``rows`` become points."""
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
    """Return nodes along a direction, one half equidistant, one half at quantiles.

    The quantiles resolve narrow modes beside wide ones.
    """
    values = coordinates.draws[:, i]
    if coordinates.data is not None:
        values = np.concatenate([values, coordinates.data[:, i]])
    low, high = usual_range(values)
    if low == high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    margin = 0.05 * (high - low)
    even = np.linspace(low - margin, high + margin, n - n // 2)
    inside = values[(values >= low) & (values <= high)]
    dense = np.quantile(inside, (np.arange(n // 2) + 0.5) / (n // 2))
    return np.unique(np.concatenate([even, dense]))


def _line(density: Density | None, grid: np.ndarray) -> dict[str, Any] | None:
    """Return the density along one direction, and the contributions of clusters."""
    if density is None:
        return None
    return {
        "x": pack_rows(grid[None]),
        "y": pack(density.pdf(grid[:, None])),
        "parts": [
            {"label": label, "y": pack(share * part.pdf(grid[:, None]))}
            for label, share, part in _components(density)
        ],
    }


def _components(density: Density) -> list[tuple[int, float, KernelMixture]]:
    """Return labels, weights and densities of the largest clusters."""
    if not isinstance(density, KernelMixture) or len(np.unique(density.clusters)) < 2:
        return []
    of_kernel = np.repeat(density.clusters, np.diff(density.offsets))
    labels = np.unique(density.clusters)
    shares = np.array([density.weights[of_kernel == label].sum() for label in labels])
    largest = np.sort(np.argsort(-shares, kind="stable")[:_MAX_COMPONENTS])
    return [
        (int(labels[i]), float(shares[i]), density.component(int(labels[i])))
        for i in largest
        if shares[i] > 0
    ]


def _histogram(values: np.ndarray) -> dict[str, Any]:
    """Return a histogram, as a density, without values that are far away."""
    low, high = usual_range(values)
    if low == high:
        return {"edges": [], "heights": []}
    inside = values[(values >= low) & (values <= high)]
    lower, upper = np.quantile(inside, [0.25, 0.75])
    # The rule of Freedman and Diaconis; repeated values can make the width zero.
    width = 2 * (upper - lower) / len(inside) ** (1 / 3)
    n_least = 2 * len(inside) ** (1 / 3)  # Rice's rule, since the width assumes one mode
    n_bins = _MAX_BINS if width == 0 else np.clip((high - low) / width, n_least, _MAX_BINS)
    counts, edges = np.histogram(inside, int(n_bins), (low, high))
    return {"edges": edges.tolist(), "heights": counts / len(values) / np.diff(edges)}


def _pairs(coordinates: Coordinates, n_jobs: int | None) -> dict[str, Any] | None:
    """Return the densities of all pairs of directions on grids, with the levels of regions."""
    pairs = list(combinations(range(len(coordinates.names)), 2))
    if not pairs:
        return None
    n = int(np.clip(np.sqrt(_N_NODES / len(pairs)), *_N_GRID))
    grids = [_grid(coordinates, i, n) for i in range(len(coordinates.names))]
    heights, levels = {}, {}
    for i, j in pairs:
        density = coordinates.along(i, j)
        if density is None:
            return None
        nodes = np.stack(np.meshgrid(grids[i], grids[j]), axis=-1).reshape(-1, 2)
        logs = density.logpdf(nodes, n_jobs).reshape(len(grids[j]), len(grids[i]))
        heights[f"{i},{j}"] = pack_heights(logs)
        levels[f"{i},{j}"] = [
            float(density.hdr_level(each, _N_LEVEL_DRAWS, n_jobs=n_jobs)) - float(logs.max())
            for each in CONFIDENCES
        ]
    return {
        "grids": [pack_rows(grid[None]) for grid in grids],
        "heights": heights,
        "levels": levels,
        "confidences": CONFIDENCES,
        "depth": DEPTH,
    }


def ordering_data(subject: Subject) -> dict[str, Any] | None:
    """Return the reachability plot and its cuts, None if there is no ordering."""
    ordering, candidates = subject.ordering, subject.candidates
    if ordering is None or candidates is None or subject.labels is None:
        return None
    fitted = subject.labels[ordering.order]
    differs = (subject.labels != candidates.labels()).any()
    cuts = [_fitted_cut(fitted, candidates)] if differs else []
    ranking = candidates.ranking()
    n_runs = np.cumsum(np.diff(candidates.partitions.offsets)[ranking])
    kept = ranking[: max(1, int(np.searchsorted(n_runs, _MAX_RUNS, side="right")))]
    cuts += [_cut(candidates, int(i), place) for place, i in enumerate(kept, start=1)]
    return {
        "n": len(ordering.order),
        "criterion": candidates.criterion,
        "n_candidates": len(candidates),
        "heights": pack(_columns(ordering)),
        "cuts": cuts,
    }


def positions(ordering: Ordering, rows: np.ndarray) -> np.ndarray:
    """Return the positions of samples in the ordering."""
    places = np.empty(len(ordering.order), dtype=np.int64)
    places[ordering.order] = np.arange(len(places))
    return places[rows]


def _columns(ordering: Ordering) -> np.ndarray:
    """Return reachabilities in order, the maximum of samples that share a column."""
    heights = ordering.reachability[ordering.order]
    finite = np.isfinite(heights)
    heights = np.where(finite, heights, heights[finite].max(initial=0.0))
    n_columns = min(len(heights), _MAX_COLUMNS)
    starts = np.arange(n_columns) * len(heights) // n_columns
    return np.maximum.reduceat(heights, starts)


def _fitted_cut(labels: np.ndarray, candidates: Candidates) -> dict[str, Any]:
    """Return the clusters of the fit, in which clusters of the candidate may be merged."""
    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    ends = np.append(starts[1:], len(labels))
    return {
        **_cut(candidates, candidates.chosen, 0),
        "n_clusters": len(np.unique(labels[labels >= 0])),
        "noise": float((labels < 0).mean()),
        "score": None,
        "runs": pack(np.stack([ends, labels[starts]]), "i4"),
    }


def _cut(candidates: Candidates, i: int, place: int) -> dict[str, Any]:
    return {
        "place": place,
        "rule": str(candidates.rules[i]),
        "parameter": candidates.parameters[i],
        "n_clusters": int(candidates.n_clusters[i]),
        "noise": candidates.noise_share[i],
        "score": candidates.scores[i],
        "runs": pack(candidates.partitions[i][:, 1:3].T, "i4"),
    }


def pack(array: np.ndarray, kind: str = "f4") -> dict[str, Any]:
    """Return an array for JSON, which ``core.js`` unpacks.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.report.views import pack
    >>> pack(np.array([1.0, 2.0]))
    {'kind': 'f4', 'shape': [2], 'bytes': 'AACAPwAAAEA='}
    """
    array = np.asarray(array)
    if kind == "f4":
        array = np.clip(array, -_LARGEST, _LARGEST)
    data = np.ascontiguousarray(array, dtype=_TYPES[kind])
    return {"kind": kind, "shape": list(data.shape), "bytes": b64encode(data.tobytes()).decode()}


def pack_rows(rows: np.ndarray) -> dict[str, Any]:
    """Return rows relative to their medians, so that large numbers keep their digits."""
    medians = np.median(rows, axis=1) if rows.shape[1] else np.zeros(len(rows))
    return {"medians": medians.tolist(), "rest": pack(rows - medians[:, None])}


def pack_heights(logs: np.ndarray) -> dict[str, Any]:
    """Return log densities relative to the highest one, in 65535 steps."""
    depth = np.clip(logs.max(initial=-np.inf) - logs, 0.0, DEPTH)
    return pack(np.rint((1 - depth / DEPTH) * 65535), "u2")
