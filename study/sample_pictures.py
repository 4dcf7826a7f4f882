"""Pictures of the data, and of samples and densities of the fits."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from sevenhills.datasets import Distribution
from sevenhills.plotting import plot_samples, plot_trajectories
from sevenhills.plotting.canvas import COLORS

from .catalogue import BASELINES, ORACLE
from .fits import Fits
from .panels import (
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

#: How many points, walks of the data, and walks of a fit are drawn.
N_DRAWN = 800
N_DATA_PATHS = 400
N_DRAWN_PATHS = 80
#: The points of a close-up along each side.
N_GRID = 90
#: The estimators whose samples are shown, under their names in the pictures.
COLUMNS = {
    "rome": "ROME",
    "mpw": "MPW",
    "vine": "VC",
    "rome-none-plain-kde": "plain KDE",
    "gaussian_kde": "gaussian_kde",
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
