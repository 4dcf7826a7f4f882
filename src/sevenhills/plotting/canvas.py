"""Axes and colours."""

from textwrap import wrap
from typing import Any

import numpy as np

from ..extras import import_extra

#: Okabe and Ito's colours, told apart by the colour-blind, without the yellow that fades on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
NOISE_COLOUR = "#999999"
#: Points that an axes shows at most: more would only hide each other, and make large files.
MOST_POINTS = 10_000


def current_axes(ax: Any) -> Any:
    """Return ``ax``, or the current axes of matplotlib if there is none."""
    if ax is not None:
        return ax
    return import_extra("matplotlib.pyplot", "plot", "plotting needs matplotlib").gca()


def colour_of(label: int) -> str:
    """Return the colour of a cluster, grey for noise."""
    return NOISE_COLOUR if label < 0 else COLOURS[label % len(COLOURS)]


def new_figure(n_rows: int, n_columns: int, size: tuple[float, float], **shared: Any) -> Any:
    """Return a figure, known to no window, and its axes as an array of rows and columns.

    Parameters
    ----------
    n_rows, n_columns : int
    size : tuple of float
        Width and height in inches.
    **shared
        Passed to ``subplots``.
    """
    library = import_extra("matplotlib.figure", "plot", "plotting needs matplotlib")
    figure = library.Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **shared)


def drawn_rows(n_rows: int, most: int = MOST_POINTS) -> np.ndarray:
    """Return which rows to draw: all of few, of many a sample that is always the same."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.RandomState(0).choice(n_rows, most, replace=False))


def add_legend(ax: Any, n_drawn: int = 0, n_rows: int = 0, **options: Any) -> None:
    """Draw the legend, which says how many of all samples are shown if these are not all."""
    title = f"{n_drawn:,} of {n_rows:,} samples" if n_drawn < n_rows else None
    # Pale, for there may be no corner without data.
    ground = {"framealpha": 0.75, "edgecolor": "none"}
    ax.legend(fontsize="small", title=title, title_fontsize="small", **ground, **options)


def in_lines(text: str, width: int = 28, most: int = 2) -> str:
    """Return a text in lines that fit the width of a column, cut off where there are too many."""
    lines = wrap(text, width, max_lines=most, placeholder=" \N{HORIZONTAL ELLIPSIS}")
    return literal("\n".join(lines))


def literal(text: str) -> str:
    """Return a name such that matplotlib shows it as it is, dollars included."""
    return text.replace("$", r"\$")


def has_distinct_colours(labels: np.ndarray) -> bool:
    """Whether no two clusters share a colour: else a legend tells nothing."""
    return len(np.unique(labels[labels >= 0])) <= len(COLOURS)
