"""Layout, labels and files of the figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sevenhills.atomic_write import atomic_write
from sevenhills.datasets import Distribution
from sevenhills.extras import import_extra
from sevenhills.plotting.canvas import DATA_COLOR, SAMPLE_COLOR, new_figure

#: The width of a page in inches.
WIDTH = 7.5
MARKERS = "os^DvPX"
#: Settings of matplotlib for all figures.
LOOK = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "svg.hashsalt": "sevenhills",
}

_DPI = {"svg": 110}  # of rasterized points; lines are vectors
_USUAL_DPI = 150


def new_panels(
    n_panels: int, n_columns: int, height: float, **shared: Any
) -> tuple[Any, list[Any]]:
    """Return a figure and its panels, in rows of at most ``n_columns``."""
    n_columns = min(n_columns, n_panels)
    n_rows = -(-n_panels // n_columns)
    size = (max(WIDTH * n_columns / 4, 4.0) if n_columns < 2 else WIDTH, height * n_rows + 0.4)
    figure, axes = new_figure(n_rows, n_columns, size, **shared)
    for ax in axes.flat[n_panels:]:
        ax.remove()
    return figure, list(axes.flat[:n_panels])


def new_grid(
    chosen: list[Distribution], titles: Sequence[str], width: float, height: float
) -> tuple[Any, Any]:
    """Return a figure and its axes: rows are distributions, columns are titles."""
    size = (width, height * len(chosen) + 0.6)
    figure, axes = new_figure(len(chosen), len(titles), size, sharex="row", sharey="row")
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title)
    return figure, axes


def label_grid(axes: Any, chosen: list[Distribution]) -> None:
    """Label rows and axes at the left and at the bottom of the grid."""
    for ax in axes.flat:
        ax.set(xlabel="", ylabel="")
    for row, entry in zip(axes, chosen, strict=True):
        row[0].set_ylabel(title_of(entry, "\n") + "\n" + axis_name("y", entry))
    for ax in axes[-1]:
        ax.set_xlabel(axis_name("x", chosen[-1]))


def frame(ax: Any, bounds: np.ndarray) -> None:
    """Show a square with the same scale on both axes."""
    ax.set_aspect("auto")
    ax.set_box_aspect(1)
    ax.set(xlim=bounds[:, 0], ylim=bounds[:, 1])
    few_ticks(ax)


def name_marks(figure: Any, plane: bool) -> None:
    """Add a legend of data and samples to a figure."""
    lines = import_extra("matplotlib.lines", "plot", "the figures need matplotlib")
    data = {"marker": "o", "ls": "", "ms": 5} if plane else {"lw": 2}
    samples = {"marker": "x", "ls": "", "ms": 5} if plane else {"lw": 1}
    handles = [
        lines.Line2D([], [], color=DATA_COLOR, label="data", **data),
        lines.Line2D([], [], color=SAMPLE_COLOR, label="samples", **samples),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)


def few_ticks(ax: Any, axis: str = "both") -> None:
    """Use at most four ticks."""
    ax.locator_params(axis=axis, nbins=4)


def note(ax: Any, text: str) -> None:
    """Write a text into the upper left corner."""
    behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
    where = {"transform": ax.transAxes, "ha": "left", "va": "top"}
    ax.text(0.02, 0.98, text, fontsize=6, bbox=behind if text else None, **where)


def square_around(X: np.ndarray, margin: float) -> np.ndarray:
    """Return the corners of the square around points or paths, with a relative margin."""
    points = X.reshape(-1, 2)
    low, high = points.min(axis=0), points.max(axis=0)
    half = (0.5 + margin) * (high - low).max()
    return np.array([(low + high) / 2 - half, (low + high) / 2 + half])


def is_plane(entry: Distribution) -> bool:
    """Return whether samples are points of a plane rather than walks."""
    return entry.split(0, 1)[0].shape[1] == 2


def title_of(entry: Distribution, gap: str = " ") -> str:
    """Return the name of a distribution for a title."""
    return entry.name.replace("_", gap)


def axis_name(letter: str, entry: Distribution) -> str:
    """Return the label of an axis."""
    return letter if is_plane(entry) else f"{letter} in m"


def save(figure: Any, folder: Path, stem: str, formats: Sequence[str]) -> None:
    """Write a figure into a folder, in every format."""
    for ending in formats:
        # Without the date, the same fits give the same file.
        metadata = {"Date": None} if ending == "svg" else None
        dpi = _DPI.get(ending, _USUAL_DPI)
        with atomic_write(folder / f"{stem}.{ending}") as file:
            figure.savefig(file, format=ending, dpi=dpi, metadata=metadata)
