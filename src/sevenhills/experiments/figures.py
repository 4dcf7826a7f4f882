"""The pictures of the study, drawn from fits and results of our own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from .. import datasets
from ..clustering import Ordering
from ..clustering.candidates import TRIVIAL_SCORE
from ..datasets import Distribution
from ..extras import import_extra
from ..plotting import plot_boxes, plot_reachability, plot_samples, plot_trajectories
from ..plotting.canvas import COLOURS, colour_of, new_figure
from ..plotting.comparisons import DATA_COLOUR, SAMPLE_COLOUR
from .catalogue import BASELINES, ORACLE, RECIPES, name_of
from .published import published
from .sweeps import DEFAULTS, SWEEPS, Sweep, sweep_neighbours

#: Samples that fits see, and how many are drawn of them.
N_SAMPLES = 3000
N_DRAWN = 800
#: The points of a close-up along each side.
N_GRID = 90
N_DATA_PATHS = 400
N_DRAWN_PATHS = 80
CLUSTER_SIZES = (100, 300, 1000, 3000)
SWEEP_SIZES = (300, 1000, 3000)
SWEEP_RUNS = 3
#: The estimators whose samples are shown, under their names in the pictures.
PLANE_COLUMNS = {
    "rome": "ROME",
    "mpw": "MPW",
    "vine": "VC",
    "rome-none-plain-kde": "plain KDE",
    "gaussian_kde": "gaussian_kde",
    "rome-silhouette-gaussian": "Gaussian\nper cluster",
    "rome-none-gaussian": "one Gaussian",
}
BOXES = ("rome", "mpw", "vine", "gaussian_kde", "kde_cv", "gmm_bic", "oracle")
SELECTIONS = {"silhouette": "rome", "dbcv": "rome-dbcv-dn-kde"}

_WIDTH = 7.5
_DPI = {"svg": 110}  # of the points inside; all else in it is drawn by lines
_USUAL_DPI = 150
_LOOK = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "svg.hashsalt": "sevenhills",
}
_MARKERS = "os^DvPX"
#: Neighbours inside a close-up, and how sparse its centre is among the data.
_CLOSE_UP = 80
_CLOSE_UP_QUANTILE = 0.8
_N_LEVELS = 8
#: Smaller values of W_hat than this are noise.
_W_NOISE = 0.3
#: A mean log-likelihood so far below the best one is written, not drawn.
_FAR_BELOW = 30.0
_METRICS = {
    "D_JS": ("Divergence between two fits", "$D_{JS}$ (0 is best)"),
    "W_hat": ("Transport cost of samples", r"$\hat{W}$ (0 is best)"),
    "L_hat": ("Held-out log-likelihood", r"$\hat{L}$ (more is better)"),
    "D_JS_true": ("Divergence from the truth", "$D_{JS}$ from the truth (0 is best)"),
    "D_JS_as_published": (
        "Divergence from what the study took for the truth",
        "$D_{JS}$ from the published truth (0 is best)",
    ),
}


@dataclass(frozen=True)
class Figure:
    """A picture on disk and what to say of it.

    Attributes
    ----------
    stem : str
        The name of its files without the ending.
    title : str
    caption : str
    """

    stem: str
    title: str
    caption: str


def draw_figures(
    folder: Path,
    results: Mapping[str, np.ndarray] | None,
    *,
    distributions: Sequence[str],
    run: int = 0,
    formats: Sequence[str] = ("png", "svg"),
    progress: Callable[[str], None] | None = None,
) -> list[Figure]:
    """Draw the pictures of the study and write them into a folder.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    results : mapping of str to ndarray, or None
        Columns "distribution", "run", "estimator", "metric" and "value" of equal length; None or
        no rows leave out the box plots.
    distributions : sequence of str
        Which distributions to draw, in this order.
    run : int, default=0
        The run of the study whose samples are drawn and fitted.
    formats : sequence of str, default=("png", "svg")
        The endings of the files.
    progress : callable, optional
        Called with a line of text before every picture, and for what is left out.

    Returns
    -------
    list of Figure
        One for every picture, in the order of a report.
    """
    say = progress or _say_nothing
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    matplotlib = import_extra("matplotlib", "plot", "the figures need matplotlib")
    chosen = [datasets.load(name) for name in distributions]
    figures = []
    with matplotlib.rc_context(_LOOK):
        for figure, draw in _plan(_Fits(run), chosen, results, say):
            say(f"drawing {figure.stem}")
            _save(draw(), folder, figure.stem, formats)
            figures.append(figure)
    return figures


Planned = tuple[Figure, Callable[[], Any]]


def _plan(
    fits: "_Fits",
    chosen: list[Distribution],
    results: Mapping[str, np.ndarray] | None,
    say: Callable[[str], None],
) -> Iterator[Planned]:
    """Give every figure with the function that draws it."""
    if not chosen:
        say("no figures: there are no distributions")
        return
    yield from _plan_fits(fits, chosen)
    yield from _plan_sweeps(fits.run, chosen)
    if results is None or len(results["value"]) == 0:
        say("no box plots: there are no results")
        return
    present = set(np.asarray(results["metric"]).tolist())
    for metric in [name for name in _METRICS if name in present]:
        title, _ = _METRICS[metric]
        figure = Figure(f"boxes_{metric}", title, _BOX_CAPTION + _BOX_CAPTIONS.get(metric, ""))
        shown = [entry for entry in chosen if _has(results, metric, entry)]
        if shown:
            yield figure, partial(_draw_boxes, results, metric, shown)
    for metric in sorted(present - set(_METRICS)):
        say(f"no box plot of {metric}: it is not one of {', '.join(_METRICS)}")


def _has(results: Mapping[str, np.ndarray], metric: str, entry: Distribution) -> bool:
    """Return whether there is a box to draw."""
    rows = np.asarray(results["metric"]) == metric
    rows &= np.asarray(results["distribution"]) == entry.name
    return bool((rows & np.isin(results["estimator"], BOXES)).any())


def _plan_fits(fits: "_Fits", chosen: list[Distribution]) -> Iterator[Planned]:
    """Give the figures of data, samples, clusters and orderings."""
    plane = [entry for entry in chosen if _is_plane(entry)]
    walks = [entry for entry in chosen if not _is_plane(entry)]
    yield (
        Figure("data", "Data sets", "One training set of every distribution."),
        partial(_draw_data, fits, chosen),
    )
    if plane:
        yield (
            Figure("samples", "Samples of the fits", _SAMPLES_CAPTION),
            partial(_draw_samples, fits, plane, PLANE_COLUMNS),
        )
        yield (
            Figure("density_close", "Densities of the fits, seen closely", _CLOSE_CAPTION),
            partial(_draw_close_ups, fits, plane),
        )
    if walks:
        columns = {name: PLANE_COLUMNS[name] for name in BASELINES}
        yield (
            Figure("samples_walks", "Sampled walks", _WALKS_CAPTION),
            partial(_draw_samples, fits, walks, columns),
        )
    for selection, name in {"silhouette": "silhouettes", "dbcv": "DBCV"}.items():
        yield (
            Figure(f"clusters_{selection}", f"Clusters chosen by {name}", _CLUSTERS_CAPTION),
            partial(_draw_clusters, fits, chosen, selection),
        )
    yield (
        Figure("reachability", "Reachability plots", _REACHABILITY_CAPTION),
        partial(_draw_reachability, fits, chosen),
    )


def _plan_sweeps(run: int, chosen: list[Distribution]) -> Iterator[Planned]:
    """Give a figure for every parameter; the fits for all are made with the first."""
    sweeps: dict[tuple[str, int], dict[str, Sweep]] = {}
    runs = range(run, run + SWEEP_RUNS)

    def draw(parameter: str) -> Any:
        for entry in chosen:
            for size in SWEEP_SIZES:
                if (entry.name, size) not in sweeps:
                    sweeps[entry.name, size] = sweep_neighbours(entry, size, runs)
        return _draw_sweep(sweeps, chosen, parameter)

    for parameter in SWEEPS:
        figure = Figure(f"sweep_{parameter}", f"ROME with other {parameter}", _SWEEP_CAPTION)
        yield figure, partial(draw, parameter)


class _Fits:
    """The fits of one run, each made when it is first asked for."""

    def __init__(self, run: int) -> None:
        self.run = run
        self._models: dict[tuple[str, str, int], Any] = {}

    def data(self, entry: Distribution, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a training and a held-out set."""
        return entry.split(self.run, n_samples)

    def fit(self, entry: Distribution, estimator: str, n_samples: int) -> Any:
        """Return a fitted estimator."""
        key = (entry.name, estimator, n_samples)
        if key not in self._models:
            train, _ = self.data(entry, n_samples)
            self._models[key] = RECIPES[estimator].build(entry).fit(train)
        return self._models[key]

    def try_fit(self, entry: Distribution, estimator: str) -> Any:
        """Return a fitted estimator, or None if it fails or its library is missing."""
        try:
            return self.fit(entry, estimator, N_SAMPLES)
        except (ImportError, RuntimeError, ValueError):
            return None


def _draw_data(fits: _Fits, chosen: list[Distribution]) -> Any:
    figure, panels = _panels(len(chosen), 4, 1.95)
    for ax, entry in zip(panels, chosen, strict=True):
        X, _ = fits.data(entry, N_SAMPLES)
        if _is_plane(entry):
            ax.plot(X[:, 0], X[:, 1], "o", ms=1.2, mew=0, color=COLOURS[0], rasterized=True)
        else:
            plot_trajectories(X[:N_DATA_PATHS], ax=ax, colour=COLOURS[0], alpha=0.3)
        _frame(ax, _square(X, 0.04))
        ax.set(title=_spoken(entry), xlabel=_axis("x", entry), ylabel=_axis("y", entry))
    return figure


def _draw_samples(fits: _Fits, chosen: list[Distribution], columns: Mapping[str, str]) -> Any:
    """Draw a row for every distribution and a column for every estimator."""
    plane = _is_plane(chosen[0])
    n_data, n_drawn = (N_DRAWN, N_DRAWN) if plane else (N_DATA_PATHS, N_DRAWN_PATHS)
    width, height = (10.0, 1.45) if plane else (_WIDTH, 2.4)
    figure, axes = _grid(chosen, list(columns.values()), width, height)
    for row, entry in zip(axes, chosen, strict=True):
        X, _ = fits.data(entry, N_SAMPLES)
        bounds = _square(X, 0.1)
        for ax, name in zip(row, columns, strict=True):
            model = fits.try_fit(entry, name)
            if model is None:
                _note(ax, "could not be fitted")
            else:
                samples = model.sample(n_drawn, random_state=fits.run)
                plot_samples(X[:n_data], samples, ax)
                _note(ax, _count_beyond(samples, bounds))
            _frame(ax, bounds)
    _label_grid(axes, chosen)
    _name_marks(figure, plane)
    return figure


def _draw_close_ups(fits: _Fits, chosen: list[Distribution]) -> Any:
    """Draw the densities in a window, with how much they prefer the data they have seen."""
    columns = {ORACLE: "truth", **{name: PLANE_COLUMNS[name] for name in BASELINES}}
    figure, axes = _grid(chosen, list(columns.values()), _WIDTH, 1.85)
    for row, entry in zip(axes, chosen, strict=True):
        X, held_out = fits.data(entry, N_SAMPLES)
        bounds, luck = _sparse_window(X), _preference(entry.truth, X, held_out)
        for ax, (name, title) in zip(row, columns.items(), strict=True):
            model = fits.try_fit(entry, name)
            ax.set_title(title)
            if model is None:
                _note(ax, "could not be fitted")
            else:
                _draw_density(ax, model, bounds)
                # No negative zero for the truth itself.
                ax.set_title(f"{title}: {_preference(model, X, held_out) - luck + 0.0:.2f}")
            ax.plot(X[:, 0], X[:, 1], "o", ms=2, mew=0, color="black", rasterized=True)
            _frame(ax, bounds)
    _label_grid(axes, chosen)
    return figure


def _draw_density(ax: Any, model: Any, bounds: np.ndarray) -> None:
    """Shade a window, the darker the denser."""
    x, y = (np.linspace(low, high, N_GRID) for low, high in bounds.T)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    density = np.exp(model.score_samples(points)).reshape(N_GRID, N_GRID)
    highest = density.max()
    levels = np.linspace(0, highest, _N_LEVELS + 1)
    # Half of the colours only, so that dots are seen above the darkest.
    shades = {"cmap": "PuRd", "vmin": 0, "vmax": 1.5 * highest}
    ax.contourf(x, y, density, levels=levels, **shades).set_rasterized(True)


def _preference(model: Any, seen: np.ndarray, held_out: np.ndarray) -> float:
    """Return by how much the mean log density of the data seen exceeds that of others."""
    return float(np.mean(model.score_samples(seen)) - np.mean(model.score_samples(held_out)))


def _beyond(samples: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return which points or paths leave a box."""
    steps = samples.reshape(len(samples), -1, 2)
    return np.asarray(((steps < bounds[0]) | (steps > bounds[1])).any(axis=(1, 2)))


def _count_beyond(samples: np.ndarray, bounds: np.ndarray) -> str:
    n_beyond = int(_beyond(samples, bounds).sum())
    return f"{n_beyond} of {len(samples)} beyond" if n_beyond else ""


def _sparse_window(X: np.ndarray) -> np.ndarray:
    """Return the bounds of a square around a rather lonely point and some neighbours."""
    reach = cKDTree(X).query(X, min(_CLOSE_UP, len(X)))[0][:, -1]
    centre = np.argsort(reach)[int(_CLOSE_UP_QUANTILE * (len(X) - 1))]
    return np.array([X[centre] - reach[centre], X[centre] + reach[centre]])


def _draw_clusters(fits: _Fits, chosen: list[Distribution], selection: str) -> Any:
    """Draw a row for every distribution and a column for every number of samples."""
    titles = [f"N = {n_samples}" for n_samples in CLUSTER_SIZES]
    figure, axes = _grid(chosen, titles, _WIDTH, 1.85)
    for row, entry in zip(axes, chosen, strict=True):
        bounds = _square(fits.data(entry, max(CLUSTER_SIZES))[0], 0.04)
        for ax, n_samples in zip(row, CLUSTER_SIZES, strict=True):
            X, _ = fits.data(entry, n_samples)
            labels = fits.fit(entry, SELECTIONS[selection], n_samples).labels_
            _draw_labelled(ax, X, labels)
            _frame(ax, bounds)
            ax.set_title("\n".join(filter(None, [ax.get_title(), _count_clusters(labels)])))
    _label_grid(axes, chosen)
    return figure


def _draw_labelled(ax: Any, X: np.ndarray, labels: np.ndarray) -> None:
    if X.shape[1] > 2:
        # Paths lie above each other: fewer of them are told apart better.
        plot_trajectories(X[:N_DATA_PATHS], labels[:N_DATA_PATHS], ax=ax, alpha=0.4)
        return
    size = float(np.clip(40 / np.sqrt(len(X)), 1.2, 3.5))
    for label in np.unique(labels):
        marker = "x" if label < 0 else _MARKERS[label % len(_MARKERS)]
        style = {"color": colour_of(label), "ms": size, "mew": 0.6 if label < 0 else 0}
        rows = labels == label
        ax.plot(X[rows, 0], X[rows, 1], marker, rasterized=True, **style)


def _count_clusters(labels: np.ndarray) -> str:
    n_clusters, n_noise = int(labels.max()) + 1, int(np.sum(labels < 0))
    return f"{n_clusters} cluster{'' if n_clusters == 1 else 's'}, {n_noise} noise"


def _draw_reachability(fits: _Fits, chosen: list[Distribution]) -> Any:
    figure, panels = _panels(len(chosen), 2, 1.9)
    for ax, entry in zip(panels, chosen, strict=True):
        rome = fits.fit(entry, "rome", N_SAMPLES)
        plot_reachability(rome, ax)
        for area in ax.collections:
            area.set_rasterized(True)
        _draw_outline(ax, rome.ordering_)
        ax.legend(frameon=False, ncols=3, loc="upper right", handlelength=1, columnspacing=1)
        ax.set_ylim(0, 1.35 * ax.get_ylim()[1])
        trivial = rome.candidates_.scores[rome.candidates_.chosen] == TRIVIAL_SCORE
        ax.set_title(f"{_spoken(entry)}: {'no cut' if trivial else ax.get_title()}")
        ax.set_xlabel("samples in the order of OPTICS" if ax in panels[-2:] else "")
    return figure


def _draw_outline(ax: Any, ordering: Ordering) -> None:
    """Draw the heights as a line: a peak of one sample is too narrow for an area."""
    heights = ordering.reachability[ordering.order][1:]
    ax.plot(np.arange(1, len(heights) + 1), heights, color="black", lw=0.4, rasterized=True)


def _draw_sweep(
    sweeps: Mapping[tuple[str, int], Mapping[str, Sweep]],
    chosen: list[Distribution],
    parameter: str,
) -> Any:
    """Draw a row for every distribution and a column for everything that may change."""
    titles = {
        "n_clusters": "clusters",
        "noise_share": "noise, in per cent",
        "log_likelihood": "log-likelihood gained",
    }
    size = (_WIDTH, 1.15 * len(chosen) + 0.9)
    figure, axes = new_figure(len(chosen), 3, size, sharex=True)
    for row, entry in zip(axes, chosen, strict=True):
        for i, n_samples in enumerate(SWEEP_SIZES):
            sweep = sweeps[entry.name, n_samples][parameter]
            for ax, quantity in zip(row, titles, strict=True):
                _draw_band(ax, sweep, quantity, i, f"N = {n_samples}")
        _finish_sweep_row(row, entry, parameter)
    for ax, title in zip(axes[0], titles.values(), strict=True):
        ax.set_title(title)
    for ax in axes[-1]:
        ax.set_xlabel(parameter)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    return figure


def _draw_band(ax: Any, sweep: Sweep, quantity: str, index: int, name: str) -> None:
    """Draw the mean over runs, and the range of the runs around it."""
    y = getattr(sweep, quantity).astype(float)
    if quantity == "noise_share":
        y = 100 * y
    if quantity == "log_likelihood":
        default = sweep.values == DEFAULTS[sweep.parameter]
        y = y - y[:, default]
    style = {"color": COLOURS[index], "marker": _MARKERS[index], "ls": ("-", "--", ":")[index % 3]}
    ax.plot(sweep.values, y.mean(axis=0), ms=6 - 1.5 * index, lw=1, mfc="none", label=name, **style)
    ax.fill_between(
        sweep.values, y.min(axis=0), y.max(axis=0), color=style["color"], alpha=0.2, lw=0
    )


def _finish_sweep_row(row: Any, entry: Distribution, parameter: str) -> None:
    ticker = import_extra("matplotlib.ticker", "plot", "the figures need matplotlib")
    row[0].yaxis.set_major_locator(ticker.MaxNLocator(3, integer=True))
    for ax in row[1:]:
        ax.yaxis.set_major_locator(ticker.MaxNLocator(3))
    for ax, least in zip(row, (0.0, 0.0, None), strict=True):
        ax.axvline(DEFAULTS[parameter], color="black", lw=0.6, ls=(0, (1, 2)), label="default")
        ax.set_xscale("log")
        ax.set_xticks(SWEEPS[parameter], [str(value) for value in SWEEPS[parameter]], fontsize=6.5)
        ax.xaxis.set_minor_locator(ticker.NullLocator())
        low, high = ax.get_ylim()
        if least is not None:
            ax.set_ylim(least, max(1.2 * high, 1.2))
        else:
            ax.set_ylim(min(low, -0.05), max(high, 0.05))
    row[0].set_ylabel(_spoken(entry, "\n"))


def _draw_boxes(results: Mapping[str, np.ndarray], metric: str, shown: list[Distribution]) -> Any:
    of_metric = np.asarray(results["metric"]) == metric
    table = {name: np.asarray(column)[of_metric] for name, column in results.items()}
    estimators = [name for name in BOXES if name in table["estimator"]]
    figure, panels = _panels(len(shown), 4, 0.55 + 0.27 * len(estimators), sharey=True)
    for ax, entry in zip(panels, shown, strict=True):
        rows = table["distribution"] == entry.name
        groups = {name: table["value"][rows & (table["estimator"] == name)] for name in estimators}
        _draw_box_panel(ax, metric, groups, _published_means(entry, metric))
        ax.set_title(_spoken(entry))
    figure.supxlabel(_METRICS[metric][1], fontsize="medium")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", frameon=False)
    return figure


def _draw_box_panel(
    ax: Any, metric: str, groups: Mapping[str, np.ndarray], marks: Mapping[str, float]
) -> None:
    """Draw one box for every estimator; what cannot be drawn is written in its place."""
    far = _far_below(groups) if metric == "L_hat" else set()
    boxes = {name: _drawable(metric, groups[name], name in far) for name in groups}
    drawn_marks = {
        name: mark
        for name, mark in marks.items()
        if name in groups and len(_drawable(metric, np.array([mark]), name in far))
    }
    titled = {RECIPES[name].title: values for name, values in boxes.items()}
    plot_boxes(titled, {RECIPES[name].title: mark for name, mark in drawn_marks.items()}, ax)
    _scale_metric(ax, metric, np.concatenate([*boxes.values(), list(drawn_marks.values())]))
    for row, (name, values) in enumerate(groups.items()):
        finite = values[np.isfinite(values)]
        if name in far:
            _remark(ax, -row, _describe_far(finite, marks.get(name)))
        elif len(finite) and not len(boxes[name]):
            _remark(ax, -row, "not above zero")
        elif len(finite) > len(boxes[name]):
            _remark(
                ax, -row + 0.45, f"{len(finite) - len(boxes[name])} of {len(values)} not above zero"
            )
        if len(values) == 0:
            _remark(ax, -row, "no results")
        elif len(finite) < len(values):
            lost = len(values) - len(finite)
            _remark(ax, -row - 0.45, f"{lost} of {len(values)} not finite")


def _drawable(metric: str, values: np.ndarray, is_far: bool) -> np.ndarray:
    """Return the values that have a place on the axis: divergences have a logarithmic one."""
    least = 0.0 if metric.startswith("D_JS") else -np.inf
    return values[np.isfinite(values) & (values > least) & (not is_far)]


def _remark(ax: Any, y: float, text: str) -> None:
    """Write into the line of a box, or beside it."""
    where = {"transform": ax.get_yaxis_transform(), "ha": "left", "va": "center"}
    ax.text(0.03, y, text, fontsize=6, **where)


def _describe_far(values: np.ndarray, mark: float | None) -> str:
    text = f"far below: {np.median(values):.0f}"
    return text if mark is None else f"{text} (published {mark:.0f})"


def _far_below(groups: Mapping[str, np.ndarray]) -> set[str]:
    """Return the estimators whose median is so low that the others would be squeezed."""
    finite = {name: values[np.isfinite(values)] for name, values in groups.items()}
    medians = {name: float(np.median(values)) for name, values in finite.items() if len(values)}
    best = max(medians.values(), default=0.0)
    return {name for name, median in medians.items() if median < best - _FAR_BELOW}


def _scale_metric(ax: Any, metric: str, values: np.ndarray) -> None:
    """Choose a scale on which small and large values are both seen."""
    ax.grid(axis="x", lw=0.3)
    ax.set_axisbelow(True)
    if metric == "W_hat":
        ax.axvspan(-_W_NOISE, _W_NOISE, color="#DDDDDD", lw=0, zorder=0)
        ax.axvline(0, color="black", lw=0.6)
        ax.set_xscale("symlog", linthresh=1)
        low, high = min(values.min(initial=-1.0), -1.0), max(values.max(initial=1.0), 1.0)
        _set_ticks(ax, 1.2 * low, 1.4 * high, [-100.0, -10.0, -1.0, 0.0, 1.0, 10.0, 100.0])
    elif metric != "L_hat" and len(values):
        ax.set_xscale("log")
        low, high = values.min() / 1.3, values.max() * 1.3
        decades = [10.0**power for power in range(-12, 1)]
        if sum(low <= tick <= high for tick in decades) < 2:
            decades = [step * tick for tick in decades for step in (1, 2, 5)]
        _set_ticks(ax, low, high, decades)
    else:
        _few_ticks(ax, "x")


def _set_ticks(ax: Any, low: float, high: float, ticks: list[float]) -> None:
    """Show an interval, with at most four of the ticks inside."""
    ticker = import_extra("matplotlib.ticker", "plot", "the figures need matplotlib")
    inside = [tick for tick in ticks if low <= tick <= high]
    inside = inside[:: -(-len(inside) // 4) or 1]
    ax.set_xticks(inside, [f"{tick:g}" for tick in inside])
    ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.set_xlim(low, high)


def _published_means(entry: Distribution, metric: str) -> dict[str, float]:
    """Return what the study printed, by estimator, in its main tables."""
    if metric == "D_JS_true" and entry.build_published_truth is not None:
        return {}
    printed = "D_JS_true" if metric == "D_JS_as_published" else metric
    return {
        name_of(cell): cell.mean
        for cell in published()
        if (cell.distribution, cell.metric) == (entry.name, printed)
        and cell.table.startswith("baselines")
    }


def _panels(n_panels: int, n_columns: int, height: float, **shared: Any) -> tuple[Any, list[Any]]:
    """Return a figure and as many panels, in rows of ``n_columns`` at most."""
    n_columns = min(n_columns, n_panels)
    n_rows = -(-n_panels // n_columns)
    size = (max(_WIDTH * n_columns / 4, 4.0) if n_columns < 2 else _WIDTH, height * n_rows + 0.4)
    figure, axes = new_figure(n_rows, n_columns, size, **shared)
    for ax in axes.flat[n_panels:]:
        ax.remove()
    return figure, list(axes.flat[:n_panels])


def _grid(
    chosen: list[Distribution], titles: Sequence[str], width: float, height: float
) -> tuple[Any, Any]:
    """Return a figure with a row for every distribution and a column for every title."""
    size = (width, height * len(chosen) + 0.6)
    figure, axes = new_figure(len(chosen), len(titles), size, sharex="row", sharey="row")
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title)
    return figure, axes


def _label_grid(axes: Any, chosen: list[Distribution]) -> None:
    """Name rows and axes, on the left and at the bottom only."""
    for ax in axes.flat:
        ax.set(xlabel="", ylabel="")
    for row, entry in zip(axes, chosen, strict=True):
        row[0].set_ylabel(_spoken(entry, "\n") + "\n" + _axis("y", entry))
    for ax in axes[-1]:
        ax.set_xlabel(_axis("x", chosen[-1]))


def _frame(ax: Any, bounds: np.ndarray) -> None:
    """Show a square, both axes on one scale."""
    ax.set_aspect("auto")
    ax.set_box_aspect(1)
    ax.set(xlim=bounds[:, 0], ylim=bounds[:, 1])
    _few_ticks(ax)


def _name_marks(figure: Any, plane: bool) -> None:
    """Say once what is data and what is drawn from fits."""
    lines = import_extra("matplotlib.lines", "plot", "the figures need matplotlib")
    data = {"marker": "o", "ls": "", "ms": 5} if plane else {"lw": 2}
    samples = {"marker": "x", "ls": "", "ms": 5} if plane else {"lw": 1}
    handles = [
        lines.Line2D([], [], color=DATA_COLOUR, label="data", **data),
        lines.Line2D([], [], color=SAMPLE_COLOUR, label="samples", **samples),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)


def _few_ticks(ax: Any, axis: str = "both") -> None:
    ax.locator_params(axis=axis, nbins=4)


def _note(ax: Any, text: str) -> None:
    """Write into the upper left corner."""
    behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
    where = {"transform": ax.transAxes, "ha": "left", "va": "top"}
    ax.text(0.02, 0.98, text, fontsize=6, bbox=behind if text else None, **where)


def _square(X: np.ndarray, margin: float) -> np.ndarray:
    """Return the corners of the square around points or paths, a share wider on every side."""
    points = X.reshape(-1, 2)
    low, high = points.min(axis=0), points.max(axis=0)
    half = (0.5 + margin) * (high - low).max()
    return np.array([(low + high) / 2 - half, (low + high) / 2 + half])


def _is_plane(entry: Distribution) -> bool:
    return entry.split(0, 1)[0].shape[1] == 2


def _spoken(entry: Distribution, gap: str = " ") -> str:
    return entry.name.replace("_", gap)


def _axis(letter: str, entry: Distribution) -> str:
    return letter if _is_plane(entry) else f"{letter} in m"


def _say_nothing(text: str) -> None:
    pass


def _save(figure: Any, folder: Path, stem: str, formats: Sequence[str]) -> None:
    for ending in formats:
        # Without the date, the same fits give the same file.
        metadata = {"Date": None} if ending == "svg" else None
        dpi = _DPI.get(ending, _USUAL_DPI)
        figure.savefig(folder / f"{stem}.{ending}", dpi=dpi, metadata=metadata)


_SAMPLES_CAPTION = (
    f"{N_DRAWN} samples of every fit (dark crosses) over as many of the {N_SAMPLES} samples that "
    "it was fitted to (pale dots). Plain KDE is ROME without clustering, decorrelation and "
    "normalisation; the Gaussians are ROME with one Gaussian for every cluster, and without "
    "clustering."
)
_CLOSE_CAPTION = (
    "A small window where data (dots) are rather sparse, the darker the denser, each panel on a "
    "scale of its own. The number is by how much the mean log density of the training data "
    "exceeds that of held-out data, beyond what the truth does: the larger it is, the closer the "
    "density keeps to the points that it has seen."
)
_WALKS_CAPTION = (
    f"{N_DRAWN_PATHS} sampled walks (dark) over walks that the fit has seen (pale), "
    f"{N_DATA_PATHS} of {N_SAMPLES}."
)
_CLUSTERS_CAPTION = (
    "The clusters that ROME finds among N samples, by colour and mark; noise is grey. Of walks, "
    f"{N_DATA_PATHS} at most are drawn."
)
_REACHABILITY_CAPTION = (
    f"Reachability of {N_SAMPLES} samples in the order of OPTICS, coloured by cluster. The dashed "
    "line is the chosen cut where it is one at a height."
)
_SWEEP_CAPTION = (
    "ROME with one parameter changed and the others at their defaults (dotted line): the mean of "
    f"{SWEEP_RUNS} runs, and their range. The parameters act through the number of neighbours "
    "N M / alpha_k, kept between k_min and k_max, alone; lines are level where it stays the same."
)
_BOX_CAPTION = (
    "Boxes hold the middle half of the runs, the line in them is the median; diamonds are the "
    "means that the study published."
)
_BOX_CAPTIONS = {
    "W_hat": f" The grey band, up to {_W_NOISE}, is what noise alone does. Linear up to 1, "
    "logarithmic beyond.",
    "L_hat": f" A median more than {_FAR_BELOW:.0f} below the best one is written, not drawn.",
    "D_JS_true": " The study took another density for the truth of varied.",
}
