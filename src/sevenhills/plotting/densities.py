"""Pictures of a density in many dimensions, and of two densities side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..density import KernelMixture
from ..validation import check_queries
from .canvas import COLOURS, add_legend, current_axes, drawn_rows, in_lines, literal
from .regions import feature_name, mixture_of, plot_line

#: Features of a corner plot unless they are chosen: more panels than that cannot be read.
_MOST_FEATURES = 8
_MASSES = (0.95, 0.5)
_BINS = 40
_MOST_IN_PAIR = 2000
_GRID = 200
_PAIR_GRID = 100
#: What the panels of pairs leave out of a feature at either end.
_TAIL = 0.001
#: Where two densities in the plane are compared: in the regions that hold this share of either.
_SHARE = 0.99
#: Logarithms of ratios that have the deepest colour.
_DEEPEST = 3.0


def plot_corner(
    model: Any, X: Any = None, features: Sequence[int | str] | None = None, ax: Any = None
) -> Any:
    """Draw the marginals of all features and of all pairs as a matrix of panels.

    On the diagonal stand densities of single features, with histograms of the data if there are
    any; below it the regions that hold 95% and 50% of two features, over the data.

    Parameters
    ----------
    model : KernelMixture, or a fitted estimator
    X : array-like of shape (n_samples, n_features), optional
        Data to draw below.
    features : sequence of int or str, optional
        Which ones to draw, by place or name; all of them by default, up to eight.
    ax : matplotlib axes, optional
        The panels are laid out within it.

    Returns
    -------
    matplotlib axes
        ``child_axes`` are its panels, row by row.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, datasets, plotting
    >>> X = datasets.load("trajectories").sample(300, random_state=0)
    >>> ax = plotting.plot_corner(ROME().fit(X), X, features=[0, 1, 23], ax=Figure().subplots())
    >>> len(ax.child_axes)
    6
    """
    density = mixture_of(model)
    if features is None and density.n_features > _MOST_FEATURES:
        raise ValueError(
            f"model has {density.n_features} features: choose up to {_MOST_FEATURES} by features="
        )
    names = [feature_name(density, i) for i in range(density.n_features)]
    features = list(range(density.n_features)) if features is None else list(features)
    chosen = density.marginal(features)
    places = [names.index(f) if isinstance(f, str) else f for f in features]
    points = (
        None
        if X is None
        else check_queries(X, density.n_features, density.feature_names)[:, places]
    )
    names = [names[i] for i in places]
    ax = current_axes(ax)
    ax.set_axis_off()
    n = len(names)
    for row, column in _cells(n):
        panel = ax.inset_axes(_box(row, column, n))
        if row == column:
            _draw_margin(chosen, row, points, panel)
        else:
            _draw_pair(chosen, column, row, points, panel)
        _name_edges(names, row, column, panel)
    _share_ranges(ax.child_axes, n)
    return ax


def plot_difference(
    first: Any, second: Any, names: Sequence[str] = ("first", "second"), ax: Any = None
) -> Any:
    """Draw where one density is higher than another.

    Of one feature, both are lines. Of two, colours show the logarithm of their ratio wherever
    either has its mass, up to a factor of 20, with the regions of 50% as outlines.

    Parameters
    ----------
    first, second : KernelMixture, or a fitted estimator
        Of the same one or two features; take ``marginal`` first if there are more.
    names : sequence of two str
        What the legend calls them.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, GaussianKDE, datasets, plotting
    >>> X = datasets.load("aniso").sample(500, random_state=0)
    >>> models = ROME().fit(X), GaussianKDE().fit(X)
    >>> ax = plotting.plot_difference(*models, ("ROME", "KDE"), Figure().subplots())
    >>> ax.get_title()
    'ROME against KDE'
    """
    one, other = mixture_of(first), mixture_of(second)
    if one.n_features != other.n_features or one.n_features > 2:
        raise ValueError(
            f"first and second must have the same one or two features, have {one.n_features} and "
            f"{other.n_features}"
        )
    ax = current_axes(ax)
    if one.n_features == 1:
        for density, name, colour in zip((one, other), names, COLOURS, strict=False):
            plot_line(density, ax, level=None, colour=colour, label=literal(name))
    else:
        _draw_ratio(one, other, names, ax)
    add_legend(ax)
    ax.set_title(in_lines(f"{names[0]} against {names[1]}", most=3))
    return ax


def _draw_ratio(one: KernelMixture, other: KernelMixture, names: Sequence[str], ax: Any) -> None:
    """Draw the logarithm of the ratio of two densities in the plane."""
    outlines = [np.concatenate(density.hdr_contours(_SHARE)) for density in (one, other)]
    low, high = (edge(np.concatenate(outlines), axis=0) for edge in (np.min, np.max))
    axes, above = _heights_on(one, low, high, _GRID)
    _, below = _heights_on(other, low, high, _GRID)
    inside = (above >= one.hdr_level(_SHARE)) | (below >= other.hdr_level(_SHARE))
    ratio = np.where(inside, above - below, np.nan)
    shades = {"cmap": "PuOr_r", "vmin": -_DEEPEST, "vmax": _DEEPEST}
    drawn = ax.pcolormesh(*axes, ratio, rasterized=True, **shades)
    bar = ax.figure.colorbar(drawn, ax=ax, extend="both")
    bar.set_label(in_lines(f"log density of {names[0]} above {names[1]}"))
    for density, name, line in zip((one, other), names, ("-", "--"), strict=True):
        for i, outline in enumerate(density.hdr_contours(0.5)):
            label = None if i else in_lines(f"half of {name}", 16, most=3)
            ax.plot(*outline.T, line, color="black", linewidth=0.9, label=label)
    ax.set(xlabel=in_lines(feature_name(one, 0)), ylabel=in_lines(feature_name(one, 1)))


def _draw_margin(density: KernelMixture, i: int, points: np.ndarray | None, panel: Any) -> None:
    if points is not None:
        panel.hist(points[:, i], _BINS, density=True, color=COLOURS[4], alpha=0.4)
    plot_line(density.marginal([i]), panel, level=None)
    panel.set_yticks([])


def _draw_pair(
    density: KernelMixture, x: int, y: int, points: np.ndarray | None, panel: Any
) -> None:
    if points is not None:
        shown = points[drawn_rows(len(points), _MOST_IN_PAIR)]
        panel.plot(shown[:, x], shown[:, y], ".", ms=1, color=COLOURS[4], rasterized=True)
    pair = density.marginal([x, y])
    ranges = [pair.marginal(i).interval(1 - 2 * _TAIL) for i in range(2)]
    low, high = np.transpose(ranges)
    axes, heights = _heights_on(pair, low, high, _PAIR_GRID)
    levels = [*_levels(heights), heights.max() + 1.0]
    panel.contourf(*axes, heights, levels, colors=COLOURS[:1] * len(_MASSES), alpha=0.25)
    panel.contour(*axes, heights, levels[:-1], colors=COLOURS[0], linewidths=0.8, linestyles="-")


def _levels(heights: np.ndarray) -> np.ndarray:
    """Return the log densities on a grid above which given shares of its mass are."""
    falling = np.sort(heights, axis=None)[::-1]
    mass = np.cumsum(np.exp(falling - falling[0]))
    return falling[np.searchsorted(mass, np.multiply(_MASSES, mass[-1]))]


def _heights_on(
    density: KernelMixture, low: np.ndarray, high: np.ndarray, n: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return a grid's axes and the log densities on it."""
    axes = [np.linspace(a, b, n) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    return axes, density.logpdf(grid.reshape(-1, 2)).reshape(n, n)


def _name_edges(names: Sequence[str], row: int, column: int, panel: Any) -> None:
    """Leave names and numbers to the panels at the left and at the bottom."""
    last = len(names) - 1
    size = "small" if last < 4 else "x-small"
    panel.set_xlabel(in_lines(names[column], 12) if row == last else "", fontsize=size)
    panel.set_ylabel(in_lines(names[row], 12) if column == 0 and row else "", fontsize=size)
    panel.tick_params(labelbottom=row == last, labelleft=column == 0 and row > 0, labelsize=size)
    # Panels are small: more numbers would run into each other.
    panel.locator_params(axis="x", nbins=2)
    panel.tick_params(axis="x", labelrotation=0 if last < 3 else 45)
    if row != column:
        panel.locator_params(axis="y", nbins=2)


def _share_ranges(panels: Sequence[Any], n: int) -> None:
    """Give all panels of a feature the same range."""
    cells = dict(zip(_cells(n), panels, strict=True))
    ranges = [cells[i, i].get_xlim() for i in range(n)]
    for (row, column), panel in cells.items():
        panel.set_xlim(ranges[column])
        if row != column:
            panel.set_ylim(ranges[row])


def _cells(n: int) -> list[tuple[int, int]]:
    """Return the rows and columns on the diagonal and below it."""
    return [(row, column) for row in range(n) for column in range(row + 1)]


def _box(row: int, column: int, n: int) -> list[float]:
    """Return left, bottom, width and height of a panel, in parts of the whole."""
    side, gap = 1 / n, 0.06 / n
    return [column * side + gap, 1 - (row + 1) * side + gap, side - 2 * gap, side - 2 * gap]
