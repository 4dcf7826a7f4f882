"""Pictures of the clusters that ROME finds, and of what they are cut from."""

from typing import Any

import numpy as np

from sevenhills.clustering import TRIVIAL_SCORE, Ordering
from sevenhills.datasets import Distribution
from sevenhills.plotting import plot_reachability, plot_trajectories
from sevenhills.plotting.canvas import color_of

from .fits import Fits
from .panels import MARKERS, WIDTH, frame, label_grid, new_grid, new_panels, spoken, square_around
from .sample_pictures import N_DATA_PATHS

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
