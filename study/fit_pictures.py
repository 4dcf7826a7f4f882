"""Pictures of data, samples, densities, clusters and orderings of fits."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from sevenhills.clustering import Ordering
from sevenhills.clustering.selection import TRIVIAL_SCORE
from sevenhills.datasets import Distribution
from sevenhills.plotting import plot_reachability, plot_samples, plot_trajectories
from sevenhills.plotting.canvas import COLORS, color_of

from .catalogue import BASELINES, ORACLE, RECIPES
from .panels import (
    MARKERS,
    WIDTH,
    axis_name,
    frame,
    is_plane,
    label_grid,
    name_marks,
    new_grid,
    new_panels,
    note,
    square_around,
    title_of,
)

#: Number of training samples.
N_SAMPLES = 3000


class Fits:
    """The fits of one run, each made at its first use.

    Parameters
    ----------
    run : int
        The run of the study.

    Attributes
    ----------
    n_samples : int
        The default number of training samples.
    """

    def __init__(self, run: int) -> None:
        self.run = run
        self.n_samples = N_SAMPLES
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
            return self.fit(entry, estimator, self.n_samples)
        except (ImportError, RuntimeError, ValueError):
            return None


#: Numbers of points, of walks of the data, and of walks of a fit that are drawn.
N_DRAWN = 800
N_DATA_PATHS = 400
N_DRAWN_PATHS = 80
#: Grid points along each side of a close-up.
N_GRID = 90
#: Titles of the estimators whose samples are shown.
COLUMNS = {
    "rome": "ROME",
    "parzen": "MPW",
    "vine": "VC",
    "rome-none-plain-kde": "plain KDE",
    "kde": "gaussian_kde",
    "rome-silhouette-gaussian": "Gaussian\nper cluster",
    "rome-none-gaussian": "one Gaussian",
}

#: Number of samples inside a close-up, and the quantile of sparsity of its center.
_CLOSE_UP = 80
_CLOSE_UP_QUANTILE = 0.8
_N_LEVELS = 8


def baseline_columns() -> dict[str, str]:
    """Return the titles of the estimators of the study's main tables."""
    return {name: COLUMNS[name] for name in BASELINES}


def describe_samples(fits: Fits) -> str:
    """Return the caption of the samples in a plane."""
    return (
        f"{N_DRAWN} samples of every fit (dark crosses) over {N_DRAWN} of the {fits.n_samples} "
        "training samples (pale dots). Plain KDE is ROME without clustering, decorrelation and "
        "normalization; the Gaussians are ROME with one Gaussian for every cluster, and for all "
        "samples."
    )


def describe_walks(fits: Fits) -> str:
    """Return the caption of the sampled walks."""
    return (
        f"{N_DRAWN_PATHS} sampled walks (dark) over {N_DATA_PATHS} of the {fits.n_samples} "
        "training walks (pale)."
    )


def describe_close_ups() -> str:
    """Return the caption of the close-ups."""
    return (
        "Densities in a small window with sparse data (dots); darker is denser, with a separate "
        "scale for each panel. The number is the excess of the mean log density of the training "
        "data over that of held-out data, minus the same excess of the truth: it is large for a "
        "density that overfits."
    )


def draw_data(fits: Fits, chosen: list[Distribution]) -> Any:
    """Draw a training set of every distribution."""
    figure, panels = new_panels(len(chosen), 4, 1.95)
    for ax, entry in zip(panels, chosen, strict=True):
        X, _ = fits.data(entry, fits.n_samples)
        if is_plane(entry):
            ax.plot(X[:, 0], X[:, 1], "o", ms=1.2, mew=0, color=COLORS[0], rasterized=True)
        else:
            plot_trajectories(X[:N_DATA_PATHS], ax=ax, color=COLORS[0], alpha=0.3)
        frame(ax, square_around(X, 0.04))
        ax.set(title=title_of(entry), xlabel=axis_name("x", entry), ylabel=axis_name("y", entry))
    return figure


def draw_samples(fits: Fits, chosen: list[Distribution], columns: Mapping[str, str]) -> Any:
    """Draw a row for every distribution and a column for every estimator."""
    plane = is_plane(chosen[0])
    n_data, n_drawn = (N_DRAWN, N_DRAWN) if plane else (N_DATA_PATHS, N_DRAWN_PATHS)
    width, height = (10.0, 1.45) if plane else (WIDTH, 2.4)
    figure, axes = new_grid(chosen, list(columns.values()), width, height)
    for row, entry in zip(axes, chosen, strict=True):
        X, _ = fits.data(entry, fits.n_samples)
        bounds = square_around(X, 0.1)
        for ax, name in zip(row, columns, strict=True):
            model = fits.try_fit(entry, name)
            if model is None:
                note(ax, "fit failed")
            else:
                samples = model.sample(n_drawn, random_state=fits.run)
                plot_samples(X[:n_data], samples, ax, legend=False)
                note(ax, _count_beyond(samples, bounds))
            frame(ax, bounds)
    label_grid(axes, chosen)
    name_marks(figure, plane)
    return figure


def draw_close_ups(fits: Fits, chosen: list[Distribution]) -> Any:
    """Draw the densities in a window, with their overfitting."""
    columns = {ORACLE: "truth", **baseline_columns()}
    figure, axes = new_grid(chosen, list(columns.values()), WIDTH, 1.85)
    for row, entry in zip(axes, chosen, strict=True):
        X, held_out = fits.data(entry, fits.n_samples)
        bounds, luck = _sparse_window(X), _preference(entry.truth.logpdf, X, held_out)
        for ax, (name, title) in zip(row, columns.items(), strict=True):
            model = fits.try_fit(entry, name)
            ax.set_title(title)
            if model is None:
                note(ax, "fit failed")
            else:
                _draw_density(ax, model, bounds)
                # No negative zero for the truth itself.
                ax.set_title(
                    f"{title}: {_preference(model.score_samples, X, held_out) - luck + 0.0:.2f}"
                )
            ax.plot(X[:, 0], X[:, 1], "o", ms=2, mew=0, color="black", rasterized=True)
            frame(ax, bounds)
    label_grid(axes, chosen)
    return figure


def _draw_density(ax: Any, model: Any, bounds: np.ndarray) -> None:
    """Draw filled contours of a density in a window."""
    x, y = (np.linspace(low, high, N_GRID) for low, high in bounds.T)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    density = np.exp(model.score_samples(points)).reshape(N_GRID, N_GRID)
    highest = density.max()
    levels = np.linspace(0, highest, _N_LEVELS + 1)
    # The darkest colors are left out, so that dots remain visible.
    shades = {"cmap": "PuRd", "vmin": 0, "vmax": 1.5 * highest}
    ax.contourf(x, y, density, levels=levels, zorder=-1, **shades)
    ax.set_rasterization_zorder(0)  # matplotlib 3.10 ignores it as a property of contours


def _preference(
    log_density: Callable[[np.ndarray], np.ndarray], seen: np.ndarray, held_out: np.ndarray
) -> float:
    """Return the excess of the mean log density of training data over held-out data."""
    return float(np.mean(log_density(seen)) - np.mean(log_density(held_out)))


def _beyond(samples: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return whether points or paths leave a box."""
    steps = samples.reshape(len(samples), -1, 2)
    return np.asarray(((steps < bounds[0]) | (steps > bounds[1])).any(axis=(1, 2)))


def _count_beyond(samples: np.ndarray, bounds: np.ndarray) -> str:
    n_beyond = int(_beyond(samples, bounds).sum())
    return f"{n_beyond} of {len(samples)} beyond" if n_beyond else ""


def _sparse_window(X: np.ndarray) -> np.ndarray:
    """Return the corners of a square around a point in a sparse region and its neighbors."""
    reach = cKDTree(X).query(X, min(_CLOSE_UP, len(X)))[0][:, -1]
    center = np.argsort(reach)[int(_CLOSE_UP_QUANTILE * (len(X) - 1))]
    return np.array([X[center] - reach[center], X[center] + reach[center]])


#: Numbers of clustered samples.
CLUSTER_SIZES = (100, 300, 1000, 3000)
#: The estimator for each selection.
SELECTIONS = {"silhouette": "rome", "dbcv": "rome-dbcv-dn-kde"}


def describe_clusters() -> str:
    """Return the caption of the clusters."""
    return (
        "The clusters of ROME for N samples, by color and mark; noise is gray. At most "
        f"{N_DATA_PATHS} walks are drawn."
    )


def describe_reachability(fits: Fits) -> str:
    """Return the caption of the reachability plots."""
    return (
        f"Reachability of {fits.n_samples} samples in the order of OPTICS, colored by cluster. The "
        "dashed line is the chosen cut if it is a horizontal one."
    )


def draw_clusters(fits: Fits, chosen: list[Distribution], selection: str) -> Any:
    """Draw a row for every distribution and a column for every number of samples."""
    titles = [f"N = {n_samples}" for n_samples in CLUSTER_SIZES]
    figure, axes = new_grid(chosen, titles, WIDTH, 1.85)
    for row, entry in zip(axes, chosen, strict=True):
        bounds = square_around(fits.data(entry, max(CLUSTER_SIZES))[0], 0.04)
        for ax, n_samples in zip(row, CLUSTER_SIZES, strict=True):
            X, _ = fits.data(entry, n_samples)
            labels = fits.fit(entry, SELECTIONS[selection], n_samples).labels_
            _draw_labelled(ax, X, labels)
            frame(ax, bounds)
            ax.set_title("\n".join(filter(None, [ax.get_title(), _count_clusters(labels)])))
    label_grid(axes, chosen)
    return figure


def _draw_labelled(ax: Any, X: np.ndarray, labels: np.ndarray) -> None:
    if X.shape[1] > 2:
        # More paths would hide each other.
        plot_trajectories(X[:N_DATA_PATHS], labels[:N_DATA_PATHS], ax=ax, alpha=0.4)
        return
    size = float(np.clip(40 / np.sqrt(len(X)), 1.2, 3.5))
    for label in np.unique(labels):
        marker = "x" if label < 0 else MARKERS[label % len(MARKERS)]
        style = {"color": color_of(label), "ms": size, "mew": 0.6 if label < 0 else 0}
        rows = labels == label
        ax.plot(X[rows, 0], X[rows, 1], marker, rasterized=True, **style)


def _count_clusters(labels: np.ndarray) -> str:
    n_clusters, n_noise = int(labels.max()) + 1, int(np.sum(labels < 0))
    return f"{n_clusters} cluster{'' if n_clusters == 1 else 's'}, {n_noise} noise"


def draw_reachability(fits: Fits, chosen: list[Distribution]) -> Any:
    """Draw the ordering of every distribution with its clusters."""
    figure, panels = new_panels(len(chosen), 2, 1.9)
    for ax, entry in zip(panels, chosen, strict=True):
        rome = fits.fit(entry, "rome", fits.n_samples)
        plot_reachability(rome, ax)
        for area in ax.collections:
            area.set_rasterized(True)
        _draw_outline(ax, rome.ordering_)
        trivial = rome.candidates_.scores[rome.candidates_.chosen] == TRIVIAL_SCORE
        ax.set_title(f"{title_of(entry)}: {'no cut' if trivial else ax.get_title()}")
        ax.set_xlabel("samples in the order of OPTICS" if ax in panels[-2:] else "")
    return figure


def _draw_outline(ax: Any, ordering: Ordering) -> None:
    """Draw the reachability as a line, because peaks of one sample are too narrow for an area."""
    heights = ordering.reachability[ordering.order][1:]
    ax.plot(np.arange(1, len(heights) + 1), heights, color="black", lw=0.4, rasterized=True)
