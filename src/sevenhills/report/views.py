"""The data of the plots: densities on grids, points, and the ordering with its cuts.

A view has features or principal axes as directions. Arrays are embedded as base64, from which
browsers make typed arrays.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import Any

import numpy as np

from ..clustering import Candidates, Ordering
from ..density import CircleMap, Density, KernelMixture, ModeTable
from ..plotting.density_plots import grid_regions
from .subject import Subject, thin

#: Features and axes that are shown: more make large files and long menus.
MAX_FEATURES = 24
_MAX_AXES = 6
#: Loadings of an axis that are shown.
_MAX_LOADINGS = 8
#: Samples that are plotted as points, and draws if there are no samples.
_MAX_POINTS = 3000
_MAX_DRAWS = 1500
#: A range reaches from this quantile to the opposite one, ...
_TAIL = 0.005
#: ... and beyond them by at most this share of its length.
_BEYOND = 0.25
#: Confidences of the highest-density regions that are drawn.
_CONFIDENCES = (0.5, 0.8, 0.95)
#: Nodes of a curve.
_N_LINE = 160
#: Nodes of all grids together, and smallest and largest number along one direction.
_N_NODES = 400_000
_N_GRID = (28, 80)
#: Numbers along a circle.
_N_TICKS = 12
#: Largest number of clusters with curves of their own, and of bars in a histogram.
_MAX_COMPONENTS = 12
_MAX_BINS = 60
#: Log densities are drawn down to this depth below the highest one.
DEPTH = 14.0
#: Largest number of columns of the reachability plot; samples beyond it share columns.
_MAX_COLUMNS = 2400
#: Largest number of runs of equal labels in all clusterings of a page.
_MAX_RUNS = 40_000
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class View:
    """Directions of plots."""

    names: tuple[str, ...]
    #: Along all directions; None if it is not known.
    density: Density | None
    #: Maps samples of all features to coordinates along the directions.
    project: Callable[[np.ndarray], np.ndarray]
    #: The two directions that are shown first.
    first: list[int]
    #: Shares of the variance and largest loadings, of principal axes.
    loadings: list[dict[str, Any]] | None = None

    @property
    def circles(self) -> list[CircleMap | None]:
        """The circles of the directions that are on one."""
        maps = getattr(self.density, "maps", None) or [None] * len(self.names)
        return [each if isinstance(each, CircleMap) else None for each in maps]

    def along(self, *which: int) -> Density | None:
        """Return the density of some of the directions, None if it is not known."""
        if isinstance(self.density, KernelMixture):
            return self.density.marginal(list(which))
        return self.density if which == tuple(range(len(self.names))) else None


def feature_view(subject: Subject, shown: list[int]) -> View:
    """Return some of the features as directions."""
    density: Density | None = None
    if subject.mixture is not None:
        density = subject.mixture.marginal(shown)
    elif shown == list(range(len(subject.names))) and subject.density.is_normalized:
        density = subject.density
    names = tuple(subject.names[i] for i in shown)
    whole = subject.density
    first = first_pair(subject, shown)
    return View(names, density, lambda X: whole.unrolled(X)[:, shown], first)


def features_to_show(subject: Subject) -> list[int]:
    """Return all features, or those in which clusters differ most."""
    everything = list(range(len(subject.names)))
    if len(everything) <= MAX_FEATURES:
        return everything
    if subject.X is None or subject.labels is None:
        return everything[:MAX_FEATURES]
    between = separation(subject.X, subject.labels)
    return sorted(np.argsort(-between, kind="stable")[:MAX_FEATURES].tolist())


def first_pair(subject: Subject, shown: list[int]) -> list[int]:
    """Return the positions of the two features that separate clusters best.

    Features of few values are among them only if there are no others.
    """
    if len(shown) < 2 or subject.X is None or subject.labels is None:
        return [0, min(1, len(shown) - 1)]
    X = subject.X[:, shown]
    is_few = np.isin(shown, list(subject.few_values))
    between = np.where(is_few, -0.5, separation(X, subject.labels))
    best = int(np.argmax(between))
    with np.errstate(all="ignore"):  # constant features have no correlations
        correlations = np.nan_to_num(np.corrcoef(X.T)[best])
    # A feature that is correlated with the best one adds little.
    gain = between * (1 - correlations**2)
    gain[best] = -1.0
    return sorted([best, int(np.argmax(gain))])


def separation(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return, for every feature, the share of its variance between clusters."""
    _, which = np.unique(labels, return_inverse=True)
    sizes = np.bincount(which)
    means = np.stack([np.bincount(which, column) for column in X.T], axis=1) / sizes[:, None]
    between = sizes @ (means - X.mean(axis=0)) ** 2 / len(X)
    total = X.var(axis=0)
    return np.divide(between, total, out=np.zeros_like(total), where=total > 0)


def axis_view(subject: Subject, draws: np.ndarray) -> View:
    """Return the first principal axes, of the samples or else of draws, as directions.

    They are those of the latent coordinates if the density has maps.
    """
    to_latent: Callable[[np.ndarray], np.ndarray] = np.asarray
    density = subject.mixture
    if density is not None and density.maps is not None:
        to_latent, density = density.latent_view()
    points = to_latent(draws if subject.X is None else subject.X)
    axes, shares, center, matrix = principal_axes(points)
    n_shown = min(_MAX_AXES, len(subject.names))
    if density is not None:
        density = density.affine(matrix, -center @ matrix)
    return View(
        names=tuple(f"axis {i + 1}" for i in range(n_shown)),
        density=density,
        project=lambda X: ((to_latent(X) - center) @ matrix)[:, :n_shown],
        first=[0, min(1, n_shown - 1)],
        loadings=[_loadings(axes[i], shares[i], subject.names) for i in range(n_shown)],
    )


def principal_axes(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the principal axes of standardized features, as rows, the widest first.

    The others are their shares of the variance, a center and a matrix: ``(X - center) @ matrix``
    are coordinates along the axes. Constant features have no loadings. Values that are far away
    are clipped, so that a few outliers do not turn all axes.
    """
    X = np.clip(X, *np.transpose([_usual_range(column) for column in X.T]))
    center, stds = X.mean(axis=0), X.std(axis=0)
    scales = np.where(stds > 0, stds, 1.0)
    Z = (X - center) / scales
    variances, columns = np.linalg.eigh(Z.T @ Z / len(Z))
    axes = columns.T[::-1]
    # The sign of an axis is arbitrary: its largest loading is positive.
    largest = np.abs(axes).argmax(axis=1)
    axes = axes * np.sign(axes[np.arange(len(axes)), largest])[:, None]
    shares = np.maximum(variances[::-1], 0.0)
    return axes, shares / (shares.sum() or 1.0), center, axes.T / scales[:, None]


def _loadings(axis: np.ndarray, share: float, names: Sequence[str]) -> dict[str, Any]:
    """Return the share of the variance and the largest loadings of an axis."""
    largest = np.argsort(-np.abs(axis), kind="stable")[:_MAX_LOADINGS]
    return {"share": share, "names": [names[i] for i in largest], "parts": axis[largest]}


def plot_data(
    subject: Subject,
    views: dict[str, View],
    draws: np.ndarray,
    modes: ModeTable | None,
    kept: np.ndarray,
) -> dict[str, Any]:
    """Return the data of all plots; ``kept`` are samples that must be among the points."""
    rows = thin(subject, _MAX_POINTS, kept)
    out: dict[str, Any] = {
        name: _view_data(subject, view, draws, rows) for name, view in views.items()
    }
    out["rows"] = pack(rows, "i4")
    if subject.rows is not None:
        out["row_names"] = [subject.name_of_row(row) for row in rows]
    if modes is not None:
        for name, view in views.items():
            out[name]["modes"] = pack_rows(view.project(modes.locations).T)
    if subject.labels is not None:
        out["labels"] = pack(subject.labels[rows], "i4")
    out["ordering"] = ordering_data(subject, rows)
    return out


def _view_data(subject: Subject, view: View, draws: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Return the data of the plots of a view; the samples in ``rows`` become points."""
    drawn = view.project(draws)
    data = None if subject.X is None else view.project(subject.X)
    values = drawn if data is None else np.concatenate([drawn, data])
    grids = _grids(view, values, _N_LINE)
    # The plots beside each other show equal numbers: clouds of other sizes look different.
    n_draws = len(rows) or _MAX_DRAWS
    out: dict[str, Any] = {
        "names": view.names,
        "first": view.first,
        "ranges": [[grid[0], grid[-1]] for grid in grids],
        "ticks": [_ticks(circle) for circle in view.circles],
        "draws": pack_rows(drawn[:n_draws].T),
        "lines": [_line(view.along(i), grid) for i, grid in enumerate(grids)],
        "pairs": _pairs(view, values, subject.n_jobs),
    }
    if view.loadings is not None:
        out["loadings"] = view.loadings
    if data is not None:
        out["points"] = pack_rows(data[rows].T)
        out["histograms"] = [_histogram(column) for column in data.T]
    return out


def _usual_range(values: np.ndarray) -> tuple[float, float]:
    """Return the range of values, without those that are far away."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    reach = _BEYOND * (high - low)
    return max(values.min(), low - reach), min(values.max(), high + reach)


def _grids(view: View, values: np.ndarray, n: int) -> list[np.ndarray]:
    """Return nodes along every direction of a view: around the values, or along a circle."""
    limits = np.full((len(view.names), 2), [-np.inf, np.inf])
    if view.density is not None:
        limits = view.density.frame.T[: len(limits)]
    rows = zip(values.T, limits, view.circles, strict=True)
    return [_grid(column, n, ends, circle is not None) for column, ends, circle in rows]


def _ticks(circle: CircleMap | None) -> dict[str, Any]:
    """Return the numbers along a circle, which begin again after one turn."""
    if circle is None:
        return {}
    steps = np.arange(_N_TICKS) / _N_TICKS
    values = circle.low + circle.period * np.append(steps, 1 + steps)
    texts = [f"{value:.3g}" for value in values[:_N_TICKS]]
    return {"tickvals": values.tolist(), "ticktext": texts + texts}


def _grid(values: np.ndarray, n: int, limits: np.ndarray, is_circle: bool) -> np.ndarray:
    """Return nodes along a direction, one half equidistant, one half at quantiles.

    The quantiles resolve narrow modes beside wide ones. A grid does not exceed the limits.
    """
    low, high = _usual_range(values)
    if low == high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    margin = 0.05 * (high - low)
    first, last = limits if is_circle else np.clip([low - margin, high + margin], *limits)
    even = np.linspace(first, last, n - n // 2)
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
    low, high = _usual_range(values)
    if low == high:
        return {"edges": [], "heights": []}
    inside = values[(values >= low) & (values <= high)]
    n_bins = min(_MAX_BINS, ceil(2 * len(inside) ** (1 / 3)))  # Rice's rule
    counts, edges = np.histogram(inside, n_bins, (low, high))
    return {"edges": edges.tolist(), "heights": counts / len(values) / np.diff(edges)}


def _pairs(view: View, values: np.ndarray, n_jobs: int | None) -> dict[str, Any] | None:
    """Return the densities of all pairs of directions on grids, with the levels of regions."""
    pairs = list(combinations(range(len(view.names)), 2))
    if not pairs:
        return None
    n = int(np.clip(np.sqrt(_N_NODES / len(pairs)), *_N_GRID))
    grids = _grids(view, values, n)
    heights, levels = {}, {}
    for i, j in pairs:
        density = view.along(i, j)
        if density is None:
            return None
        logs, found = grid_regions(density, [grids[i], grids[j]], _CONFIDENCES, n_jobs)
        heights[f"{i},{j}"] = pack_heights(logs)
        levels[f"{i},{j}"] = [level - float(logs.max()) for level in found]
    return {
        "grids": [pack_rows(grid[None]) for grid in grids],
        "heights": heights,
        "levels": levels,
        "confidences": _CONFIDENCES,
        "depth": DEPTH,
    }


def ordering_data(subject: Subject, rows: np.ndarray) -> dict[str, Any] | None:
    """Return the reachability plot, its cuts and the positions of ``rows``, None without one."""
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
        "positions": pack(np.argsort(ordering.order)[rows], "i4"),
        "cuts": cuts,
    }


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
    """Return an array for JSON, which ``core.js`` unpacks."""
    array = np.asarray(array)
    if kind == "f4":
        array = np.clip(array, -_LARGEST, _LARGEST)
    data = np.ascontiguousarray(array, dtype=f"<{kind}")
    return {"kind": kind, "shape": list(data.shape), "bytes": b64encode(data.tobytes()).decode()}


def pack_rows(rows: np.ndarray) -> dict[str, Any]:
    """Return rows relative to their medians, so that large numbers keep their digits."""
    medians = np.median(rows, axis=1) if rows.shape[1] else np.zeros(len(rows))
    return {"medians": medians.tolist(), "rest": pack(rows - medians[:, None])}


def pack_heights(logs: np.ndarray) -> dict[str, Any]:
    """Return log densities relative to the highest one, in 65535 steps."""
    depth = np.clip(logs.max(initial=-np.inf) - logs, 0.0, DEPTH)
    return pack(np.rint((1 - depth / DEPTH) * 65535), "u2")
