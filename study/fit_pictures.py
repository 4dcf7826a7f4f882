"""Pictures of data, samples, densities, clusters and orderings of fits."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from sevenhills.clustering import TRIVIAL_SCORE, Ordering
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
    spoken,
    square_around,
)

#: Samples that fits see.
N_SAMPLES = 3000


class Fits:
    """The fits of one run, each made when it is first asked for.

    Parameters
    ----------
    run : int
        The run of the study whose samples are fitted.

    Attributes
    ----------
    n_samples : int
        How many samples a fit sees where nothing else is said.
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


#: How many points, walks of the data, and walks of a fit are drawn.
N_DRAWN = 800
N_DATA_PATHS = 400
N_DRAWN_PATHS = 80
#: The points of a close-up along each side.
N_GRID = 90
#: The estimators whose samples are shown, under their names in the pictures.
COLUMNS = {
    "rome": "ROME",
    "parzen": "MPW",
    "vine": "VC",
    "rome-none-plain-kde": "plain KDE",
    "kde": "gaussian_kde",
    "rome-silhouette-gaussian": "Gaussian\nper cluster",
    "rome-none-gaussian": "one Gaussian",
}

#: Neighbours inside a close-up, and how sparse its centre is among the data.
_CLOSE_UP = 80
_CLOSE_UP_QUANTILE = 0.8
_N_LEVELS = 8


def baseline_columns() -> dict[str, str]:
    """Return the estimators of the study's main tables, with their names in the pictures."""
    return {name: COLUMNS[name] for name in BASELINES}


def describe_samples(fits: Fits) -> str:
    """Return the caption of the samples in a plane."""
    return (
        f"{N_DRAWN} samples of every fit (dark crosses) over as many of the {fits.n_samples} "
        "samples that it was fitted to (pale dots). Plain KDE is ROME without clustering, "
        "decorrelation and normalisation; the Gaussians are ROME with one Gaussian for every "
        "cluster, and without clustering."
    )


def describe_walks(fits: Fits) -> str:
    """Return the caption of the sampled walks."""
    return (
        f"{N_DRAWN_PATHS} sampled walks (dark) over walks that the fit has seen (pale), "
        f"{N_DATA_PATHS} of {fits.n_samples}."
    )


def describe_close_ups() -> str:
    """Return the caption of the close-ups."""
    return (
        "A small window where data (dots) are rather sparse, the darker the denser, each panel on "
        "a scale of its own. The number is by how much the mean log density of the training data "
        "exceeds that of held-out data, beyond what the truth does: the larger it is, the closer "
        "the density keeps to the points that it has seen."
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
        ax.set(title=spoken(entry), xlabel=axis_name("x", entry), ylabel=axis_name("y", entry))
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
                note(ax, "could not be fitted")
            else:
                samples = model.sample(n_drawn, random_state=fits.run)
                plot_samples(X[:n_data], samples, ax, legend=False)
                note(ax, _count_beyond(samples, bounds))
            frame(ax, bounds)
    label_grid(axes, chosen)
    name_marks(figure, plane)
    return figure


def draw_close_ups(fits: Fits, chosen: list[Distribution]) -> Any:
    """Draw the densities in a window, with how much they prefer the data they have seen."""
    columns = {ORACLE: "truth", **baseline_columns()}
    figure, axes = new_grid(chosen, list(columns.values()), WIDTH, 1.85)
    for row, entry in zip(axes, chosen, strict=True):
        X, held_out = fits.data(entry, fits.n_samples)
        bounds, luck = _sparse_window(X), _preference(entry.truth, X, held_out)
        for ax, (name, title) in zip(row, columns.items(), strict=True):
            model = fits.try_fit(entry, name)
            ax.set_title(title)
            if model is None:
                note(ax, "could not be fitted")
            else:
                _draw_density(ax, model, bounds)
                # No negative zero for the truth itself.
                ax.set_title(f"{title}: {_preference(model, X, held_out) - luck + 0.0:.2f}")
            ax.plot(X[:, 0], X[:, 1], "o", ms=2, mew=0, color="black", rasterized=True)
            frame(ax, bounds)
    label_grid(axes, chosen)
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
    ax.contourf(x, y, density, levels=levels, zorder=-1, **shades)
    ax.set_rasterization_zorder(0)  # matplotlib 3.10 ignores it as a property of contours


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


#: The numbers of samples that are clustered.
CLUSTER_SIZES = (100, 300, 1000, 3000)
#: The estimator that chooses its clusters by each score.
SELECTIONS = {"silhouette": "rome", "dbcv": "rome-dbcv-dn-kde"}


def describe_clusters() -> str:
    """Return the caption of the clusters."""
    return (
        "The clusters that ROME finds among N samples, by colour and mark; noise is grey. Of "
        f"walks, {N_DATA_PATHS} at most are drawn."
    )


def describe_reachability(fits: Fits) -> str:
    """Return the caption of the reachability plots."""
    return (
        f"Reachability of {fits.n_samples} samples in the order of OPTICS, coloured by cluster. "
        "The dashed line is the chosen cut where it is one at a height."
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
        # Paths lie above each other: fewer of them are told apart better.
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
        ax.set_title(f"{spoken(entry)}: {'no cut' if trivial else ax.get_title()}")
        ax.set_xlabel("samples in the order of OPTICS" if ax in panels[-2:] else "")
    return figure


def _draw_outline(ax: Any, ordering: Ordering) -> None:
    """Draw the heights as a line: a peak of one sample is too narrow for an area."""
    heights = ordering.reachability[ordering.order][1:]
    ax.plot(np.arange(1, len(heights) + 1), heights, color="black", lw=0.4, rasterized=True)
