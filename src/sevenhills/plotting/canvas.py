"""Axes and colours."""

from typing import Any

from ..extras import import_extra

#: Okabe and Ito's colours, told apart by the colour-blind, without the yellow that fades on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
NOISE_COLOUR = "#999999"


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
