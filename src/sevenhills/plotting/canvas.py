"""Axes, colors and legends."""

import re
from collections.abc import Iterable, Sequence
from math import ceil, isfinite
from textwrap import wrap
from typing import Any

import numpy as np

from ..density import CircleMap, Density
from ..extras import import_extra

#: The color-blind safe palette of Okabe and Ito, without yellow, which is too pale on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
NOISE_COLOR = "#999999"
#: A pale blue below a dark pink, which differ in grayscale too.
DATA_COLOR = "#9CCBEB"
SAMPLE_COLOR = "#AA1F6B"
#: Limit on the points in an axes; more would hide each other and make large files.
MAX_POINTS = 10_000
#: The most numbers along a circle, and their steps, such as 60 degrees and 4 hours.
_N_TICKS, _STEPS = 7, (1, 1.5, 3, 4, 6, 10)
#: Largest fraction of the height of axes that is kept free for a legend.
_MAX_LEGEND = 0.5
#: The width of a letter, in sizes of its font, rounded up.
LETTER = 0.6
#: Marks the places between words without spaces at which lines may end.
_BREAK = "\N{ZERO WIDTH SPACE}"


def current_axes(ax: Any) -> Any:
    """Return ``ax``, or the current axes of matplotlib if there is none."""
    if ax is not None:
        return ax
    return import_extra("matplotlib.pyplot", "plot", "plotting needs matplotlib").gca()


def color_of(label: int) -> str:
    """Return the color of a cluster, gray for noise."""
    return NOISE_COLOR if label < 0 else COLORS[label % len(COLORS)]


def cluster_name(label: int) -> str:
    """Return the name of a cluster in legends and tables."""
    return "noise" if label < 0 else f"cluster {label}"


def new_figure(n_rows: int, n_columns: int, size: tuple[float, float], **shared: Any) -> Any:
    """Return a figure, in inches, that pyplot does not manage, and its axes as a 2-D array."""
    library = import_extra("matplotlib.figure", "plot", "plotting needs matplotlib")
    figure = library.Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **shared)


def drawn_rows(n_rows: int, max_rows: int = MAX_POINTS) -> np.ndarray:
    """Return the indices of the rows to draw: all, or a fixed random subset of too many."""
    if n_rows <= max_rows:
        return np.arange(n_rows)
    return np.sort(np.random.RandomState(0).choice(n_rows, max_rows, replace=False))


def draw_paths(ax: Any, paths: Iterable[np.ndarray], **style: Any) -> None:
    """Draw paths of shape (n_steps, 2) in a plane with equal units."""
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection(list(paths), **style))
    ax.autoscale()
    ax.set(xlabel="x", ylabel="y", aspect="equal")


def add_legend(ax: Any, n_drawn: int = 0, n_rows: int = 0, **options: Any) -> None:
    """Draw a legend above the data, with the number of samples shown if some are left out.

    The data limits grow by the height of the legend. Matplotlib's own search for a free corner
    takes seconds with many points.
    """
    title = f"{n_drawn:,} of {n_rows:,} samples" if n_drawn < n_rows else None
    n_columns, share = _legend_grid(ax, title is not None)
    low, high = ax.dataLim.intervaly
    if isfinite(high - low):
        ax.update_datalim([(ax.dataLim.x0, low + (high - low) / (1 - share))])
        ax.autoscale_view()
    # Transparent, because later limits may move data below the legend.
    style = {"fontsize": "small", "title_fontsize": "small", "framealpha": 0.75}
    place = {"loc": "upper right", "ncols": n_columns, "edgecolor": "none"}
    place |= {"handlelength": 1.5, "columnspacing": 1.0}
    ax.legend(title=title, **style, **place, **options)


def _legend_grid(ax: Any, has_title: bool) -> tuple[int, float]:
    """Return the number of columns of a legend, and its fraction of the height of the axes."""
    size = font_pixels(ax, "small")
    names = ax.get_legend_handles_labels()[1]
    ax.apply_aspect()
    box = ax.get_window_extent()
    # In font sizes: a marker takes 3, a line 1.7, rounded up from matplotlib's own.
    width = size * (3 + LETTER * max(map(len, names), default=0))
    n_columns = max(1, min(len(names), int(box.width / width)))
    height = size * (1.7 * (ceil(len(names) / n_columns) + has_title) + 1)
    return n_columns, min(_MAX_LEGEND, height / box.height)


def font_pixels(ax: Any, size: str) -> float:
    """Return the size of a font in pixels."""
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=size).get_size_in_points() * ax.get_figure().dpi / 72)


def in_lines(text: str, width: int = 28, max_lines: int = 2) -> str:
    """Return a text wrapped to a width, shortened by an ellipsis after some lines.

    Lines also end at signs between words, as in ``color_intensity``.
    """
    text = re.sub(r"([_/.,;:-])(?=\w)", f"\\1{_BREAK} ", text)
    lines = wrap(text, width, max_lines=max_lines, placeholder=" \N{HORIZONTAL ELLIPSIS}")
    return literal("\n".join(lines).replace(f"{_BREAK} ", "").replace(_BREAK, ""))


def name_axes(ax: Any, names: Sequence[str] | None) -> None:
    """Name the axes after the first two features."""
    names = ("feature 0", "feature 1") if names is None else names
    for axis, name in zip("xy", names, strict=False):
        ax.set(**{f"{axis}label": in_lines(str(name))})


def keep_inside(ax: Any, artist: Any, density: Density) -> None:
    """End the axes of features at their limits; circles are shown whole, with their own values."""
    maps = getattr(density, "maps", None) or ()
    for axis, limits, each in zip("xy", density.frame.T, maps, strict=False):
        getattr(artist.sticky_edges, axis).extend(limits[np.isfinite(limits)])
        if isinstance(each, CircleMap):
            updated = {"updatex": axis == "x", "updatey": axis == "y"}
            ax.update_datalim(np.column_stack([limits, limits]), **updated)
            _number_circle(getattr(ax, f"{axis}axis"), each)


def _number_circle(axis: Any, circle: CircleMap) -> None:
    """Label an axis with the values of a circle, which begin again after one turn."""
    from matplotlib.ticker import MaxNLocator

    def number(value: float, _: Any) -> str:
        turn = round((value - circle.low) / circle.period, 9) % 1.0
        return f"{circle.low + turn * circle.period:.3g}"

    axis.set_major_locator(MaxNLocator(_N_TICKS, steps=_STEPS))
    axis.set_major_formatter(number)


def literal(text: str) -> str:
    """Return a name with dollar signs escaped, so that matplotlib does not read a formula."""
    return text.replace("$", r"\$")


def has_distinct_colors(labels: np.ndarray) -> bool:
    """Return whether no two clusters share a color, so that a legend makes sense."""
    return len(np.unique(labels[labels >= 0])) <= len(COLORS)
