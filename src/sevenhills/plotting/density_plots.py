"""Pictures of densities: highest-density regions, modes, marginals, differences."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..density import CircleMap, Density, KernelMixture
from ..validation import check_queries
from .binning import binned
from .canvas import (
    COLORS,
    LETTER,
    add_legend,
    current_axes,
    drawn_rows,
    font_pixels,
    in_lines,
    keep_inside,
    literal,
    name_axes,
)

#: Probabilities of the regions that are drawn by default.
_CONFIDENCES = (0.95, 0.8, 0.5)
#: Points of the line of a density of one feature.
_N_LINE = 400
#: Probability that the line of a feature leaves out at either end.
_TAIL = 0.001
#: A line reaches a bound that is nearer than this, relative to its length.
_NEAR = 0.1

#: A corner plot of more features is unreadable, so that they must be chosen.
_MAX_FEATURES = 8
_PAIR_CONFIDENCES = (0.95, 0.5)
_N_BINS = 40
_MAX_PAIR_POINTS = 2000
#: Grid points along each side of each of the many panels of pairs.
_PAIR_GRID = 100
#: Log densities on a grid are not drawn lower than this below the lowest region.
_DEPTH = 30.0
#: Draws for the levels of regions on a grid, which is coarse.
_N_LEVEL_DRAWS = 2000

#: Two densities are compared inside of their regions of this probability.
_COMPARED = 0.99
_RATIO_GRID = 200
#: Log ratio of two densities at which the color scale ends.
_MAX_LOG_RATIO = 3.0


def plot_density(
    model: Any, X: Any, ax: Any = None, *, n_drawn: int = 400, random_state: Any = 0
) -> Any:
    """Draw highest-density regions of two features as outlines, over data and drawn samples.

    The regions hold 95%, 80% and 50% of the probability, as those of :func:`plot_regions`.

    Parameters
    ----------
    model : KernelMixture or fitted estimator, of two features
    X : array-like of shape (n_samples, 2)
        Data to draw below the samples.
    ax : matplotlib axes, optional
    n_drawn : int, default=400
        The number of samples drawn from the density, at most that of the data.
    random_state : int, RandomState instance or None, default=0
        Seeds the samples.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, datasets, plotting
    >>> X = datasets.load("aniso").sample(500, random_state=0)
    >>> plotting.plot_density(ROME().fit(X), X, Figure().subplots()).get_title()
    'regions of 95%, 80%, 50%'
    """
    density = _mixture_of(model, 2)
    X = check_queries(X, 2)
    ax = current_axes(ax)
    shown = density.unrolled(X[drawn_rows(len(X))])
    ax.plot(*shown.T, ".", ms=2, color=COLORS[0], label="data")
    if n_drawn:
        samples = density.unrolled(density.sample(min(len(X), n_drawn), random_state))
        ax.plot(*samples.T, ".", ms=3, color=COLORS[3], label="samples")
    _draw_regions(density, _CONFIDENCES, ax, "black", is_filled=False)
    add_legend(ax, len(shown), len(X), markerscale=4)
    return ax


def plot_regions(
    model: Any,
    confidences: Sequence[float] = _CONFIDENCES,
    ax: Any = None,
    color: str = COLORS[0],
    modes: bool = True,
) -> Any:
    """Draw highest-density regions of two features, and the modes with their shares.

    Parameters
    ----------
    model : KernelMixture or fitted estimator, of two features
    confidences : sequence of float, default=(0.95, 0.8, 0.5)
        The probabilities of the regions.
    ax : matplotlib axes, optional
    color : str
    modes : bool, default=True
        Whether to mark the modes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, datasets, plotting
    >>> rome = ROME().fit(datasets.load("aniso").sample(500, random_state=0))
    >>> len(plotting.plot_regions(rome, ax=Figure().subplots()).texts)  # the shares of the modes
    3
    """
    density = _mixture_of(model, 2)
    ax = current_axes(ax)
    _draw_regions(density, confidences, ax, color, is_filled=True)
    if modes:
        found = density.modes()
        places = density.unrolled(found.locations)
        ax.plot(*places.T, "^", color="black", ms=6)
        for place, share in zip(places, found.shares, strict=True):
            ax.annotate(f"{share:.0%}", place, xytext=(5, 5), textcoords="offset points")
    return ax


def _draw_regions(
    density: KernelMixture, confidences: Sequence[float], ax: Any, color: str, is_filled: bool
) -> None:
    """Draw highest-density regions, the largest first, and name the axes."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    # Outlines alone lie above points, which matplotlib draws at 2.
    line = {"edgecolor": color, "linewidth": 0.8, "zorder": 1 if is_filled else 2.5}
    for confidence in sorted(confidences, reverse=True):
        outlines = density.hdr_contours(confidence)
        path = Path.make_compound_path(*(Path(outline, closed=True) for outline in outlines))
        if is_filled:
            ax.add_patch(PathPatch(path, facecolor=color, alpha=0.25, edgecolor="none"))
        patch = ax.add_patch(PathPatch(path, facecolor="none", **line))
        keep_inside(ax, patch, density)
    ax.autoscale()
    name_axes(ax, density.feature_names)
    ax.set_title("regions of " + ", ".join(f"{confidence:.0%}" for confidence in confidences))


def plot_line(
    model: Any,
    ax: Any = None,
    confidence: float | None = 0.9,
    color: str = COLORS[0],
    label: str | None = None,
) -> Any:
    """Draw the density of one feature as a line, with a bootstrap band.

    Parameters
    ----------
    model : KernelMixture or fitted estimator, of one feature
    ax : matplotlib axes, optional
    confidence : float or None, default=0.9
        The share of replicates of ``bootstrap`` within the band; None for no band.
    color : str
    label : str, optional
        The name in a legend.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, datasets, plotting
    >>> rome = ROME().fit(datasets.load("aniso").sample(500, random_state=0))
    >>> plotting.plot_line(rome.marginal(0), Figure().subplots()).get_ylabel()
    'density'
    """
    density = _mixture_of(model, 1)
    ax = current_axes(ax)
    low, high = _range_of(density)
    x = np.linspace(low, high, _N_LINE)
    if density.maps is not None:
        # The density may be steep at a bound.
        inner = density.unrolled(density.ppf(np.linspace(_TAIL, 1 - _TAIL, _N_LINE))[:, None])
        x = np.unique(np.append(x, inner.clip(low, high)))
    (line,) = ax.plot(x, density.pdf(x[:, None]), color=color, label=label)
    if confidence is not None:
        lower, upper = density.bootstrap().band(x[:, None], confidence)
        ax.fill_between(x, np.exp(lower), np.exp(upper), color=color, alpha=0.25, linewidth=0)
    name_axes(ax, density.feature_names)
    ax.set_ylabel("density")
    # A sticky edge keeps the bottom at zero; the top follows all lines.
    line.sticky_edges.y.append(0.0)
    ax.update_datalim([(low, 0.0)])
    keep_inside(ax, line, density)
    ax.autoscale(axis="y" if density.maps is None else "both")
    return ax


def _range_of(density: KernelMixture) -> tuple[float, float]:
    """Return the values between which a density of one feature is drawn."""
    limits, ends = density.frame[:, 0], density.interval(1 - 2 * _TAIL)
    if density.maps is not None and isinstance(density.maps[0], CircleMap):
        return limits[0], limits[1]
    near = np.abs(limits - ends) < _NEAR * (ends[1] - ends[0])
    low, high = np.where(near, limits, ends)
    return float(low), float(high)


def plot_corner(
    model: Any, X: Any = None, features: Sequence[int | str] | None = None, ax: Any = None
) -> Any:
    """Draw the marginals of all features and of all pairs of features as a matrix of panels.

    The diagonal shows the densities of single features over histograms of the data, the panels
    below it the highest-density regions of 95% and 50% of two features over the data.

    Parameters
    ----------
    model : KernelMixture or fitted estimator
    X : array-like of shape (n_samples, n_features), optional
        Data to draw below the densities.
    features : sequence of int or str, optional
        Indices or names of the features to draw; by default all of them, up to eight.
    ax : matplotlib axes, optional
        Contains the panels.

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
    density = _mixture_of(model)
    if features is None and density.n_features > _MAX_FEATURES:
        raise ValueError(
            f"model has {density.n_features} features: choose up to {_MAX_FEATURES} by features="
        )
    features = range(density.n_features) if features is None else features
    chosen = density.marginal(list(features))
    names = density.feature_names or [f"feature {i}" for i in range(density.n_features)]
    columns = [names.index(f) if isinstance(f, str) else f for f in features]
    points = None
    if X is not None:
        points = check_queries(X, density.n_features, density.feature_names)
        points = density.unrolled(points)[:, columns]
    ax = current_axes(ax)
    ax.set_axis_off()
    _draw_panels(chosen, points, [names[i] for i in columns], ax)
    return ax


def _draw_panels(
    density: KernelMixture, points: np.ndarray | None, names: Sequence[str], ax: Any
) -> None:
    """Draw the panels of a corner plot; all panels of a feature have the same range."""
    n, panels = len(names), {}
    lines = [binned(density.marginal([i])) for i in range(n)]
    ranges = [_range_of(line) for line in lines]
    for row, column in [(i, j) for i in range(n) for j in range(i + 1)]:
        # Left, bottom, width and height, in fractions of the axes.
        box = [(column + 0.06) / n, 1 - (row + 0.94) / n, 0.88 / n, 0.88 / n]
        panels[row, column] = panel = ax.inset_axes(box)
        pair = [column, row]
        shown = None if points is None else points[:, pair]
        if row == column:
            _draw_marginal(lines[row], shown, panel)
        else:
            grid = [np.linspace(*ranges[i], _PAIR_GRID) for i in pair]
            _draw_pair(binned(density.marginal(pair)), grid, shown, panel)
        _name_edges(names, row, column, panel)
    limits = [panels[i, i].get_xlim() for i in range(n)]
    for (row, column), panel in panels.items():
        panel.set_xlim(limits[column])
        if row != column:
            panel.set_ylim(limits[row])


def _draw_marginal(density: KernelMixture, points: np.ndarray | None, panel: Any) -> None:
    if points is not None:
        panel.hist(points[:, 0], _N_BINS, density=True, color=COLORS[4], alpha=0.4)
    plot_line(density, panel, confidence=None)
    panel.set_yticks([])


def _draw_pair(
    pair: KernelMixture, axes: Sequence[np.ndarray], points: np.ndarray | None, panel: Any
) -> None:
    if points is not None:
        shown = points[drawn_rows(len(points), _MAX_PAIR_POINTS)]
        panel.plot(*shown.T, ".", ms=1, color=COLORS[4], rasterized=True)
    heights, levels = grid_regions(pair, axes, _PAIR_CONFIDENCES)
    heights = np.maximum(heights, min(levels) - _DEPTH)
    style = {"colors": COLORS[0], "linewidths": 0.8, "linestyles": "-"}
    keep_inside(panel, panel.contour(*axes, heights, levels, **style), pair)
    for level in levels:
        panel.contourf(*axes, heights, [level, np.inf], colors=COLORS[0], alpha=0.25)


def grid_regions(
    density: Density,
    axes: Sequence[np.ndarray],
    confidences: Sequence[float],
    n_jobs: int | None = None,
) -> tuple[np.ndarray, list[float]]:
    """Return log densities of shape (n_y, n_x), and the levels of highest-density regions."""
    x, y = np.meshgrid(*axes)
    heights = density.logpdf(np.column_stack([x.ravel(), y.ravel()]), n_jobs).reshape(x.shape)
    levels = [float(density.hdr_level(each, _N_LEVEL_DRAWS, n_jobs=n_jobs)) for each in confidences]
    return heights, levels


def _name_edges(names: Sequence[str], row: int, column: int, panel: Any) -> None:
    """Name features above the diagonal, and show tick labels at the left and bottom panels only."""
    last = len(names) - 1
    size = "small" if last < 4 else "x-small"
    if row == column:
        # There are no panels to the right of the diagonal, and a margin beyond the last one.
        room = (last - row + 1.5) * panel.get_window_extent().width
        n_letters = max(8, int(room / (LETTER * font_pixels(panel, size))))
        panel.set_title(in_lines(names[row], n_letters), loc="left", fontsize=size, pad=2)
    panel.set(xlabel="", ylabel="")
    panel.tick_params(labelbottom=row == last, labelleft=column == 0 and row > 0, labelsize=size)
    # More ticks would overlap in the small panels.
    panel.locator_params(axis="x", nbins=2)
    panel.tick_params(axis="x", labelrotation=0 if last < 3 else 45)
    if row != column:
        panel.locator_params(axis="y", nbins=2)


def plot_difference(
    first: Any, second: Any, names: Sequence[str] = ("first", "second"), ax: Any = None
) -> Any:
    """Draw where one density is higher than another.

    Densities of one feature are drawn as lines. For two features, colors show the log ratio, up
    to a factor of 20, inside of the regions of 99%, and outlines the regions of 50%.

    Parameters
    ----------
    first, second : KernelMixture or fitted estimator, of the same one or two features
    names : sequence of two str
        The names in the legend.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, GaussianKDE, datasets, plotting
    >>> X = datasets.load("aniso").sample(500, random_state=0)
    >>> models = ROME().fit(X), GaussianKDE().fit(X)
    >>> plotting.plot_difference(*models, ("ROME", "KDE"), Figure().subplots()).get_title()
    'ROME against KDE'
    """
    one, other = _mixture_of(first), _mixture_of(second)
    if one.n_features != other.n_features or one.n_features > 2:
        raise ValueError(
            f"first and second must have the same one or two features, have {one.n_features} and "
            f"{other.n_features}"
        )
    ax, other = current_axes(ax), other.framed_like(one)
    if one.n_features == 1:
        for density, name, color in zip((one, other), names, COLORS, strict=False):
            plot_line(density, ax, confidence=None, color=color, label=literal(name))
    else:
        _draw_ratio(one, other, names, ax)
    add_legend(ax)
    ax.set_title(in_lines(f"{names[0]} against {names[1]}", max_lines=3))
    return ax


def _draw_ratio(one: KernelMixture, other: KernelMixture, names: Sequence[str], ax: Any) -> None:
    """Draw the log ratio of two densities of two features."""
    outlines = [np.concatenate(density.hdr_contours(_COMPARED)) for density in (one, other)]
    corners = np.concatenate(outlines)
    axes = [np.linspace(column.min(), column.max(), _RATIO_GRID) for column in corners.T]
    above, below = (grid_regions(density, axes, ())[0] for density in (one, other))
    inside = (above >= one.hdr_level(_COMPARED)) | (below >= other.hdr_level(_COMPARED))
    with np.errstate(invalid="ignore"):  # both are minus infinity beyond bounds
        ratio = np.where(inside, above - below, np.nan)
    shades = {"cmap": "PuOr_r", "vmin": -_MAX_LOG_RATIO, "vmax": _MAX_LOG_RATIO}
    drawn = ax.pcolormesh(*axes, ratio, rasterized=True, **shades)
    bar = ax.figure.colorbar(drawn, ax=ax, extend="both")
    bar.set_label(in_lines(f"log density of {names[0]} above {names[1]}"))
    for density, name, line in zip((one, other), names, ("-", "--"), strict=True):
        for i, outline in enumerate(density.hdr_contours(0.5)):
            label = None if i else in_lines(f"half of {name}", 16, max_lines=3)
            (drawn,) = ax.plot(*outline.T, line, color="black", linewidth=0.9, label=label)
            keep_inside(ax, drawn, density)
    name_axes(ax, one.feature_names)


def _mixture_of(model: Any, n_features: int | None = None) -> KernelMixture:
    """Return the kernel mixture of a model; refuse another number of features.

    A density of one or two features is simplified for pictures if it has many kernels.
    """
    if hasattr(model, "fit"):
        check_is_fitted(model)
    density = getattr(model, "density_", model)
    if not isinstance(density, KernelMixture):
        raise TypeError(
            f"model must be a KernelMixture, or an estimator of one, got {type(model).__name__}"
        )
    if n_features is not None and density.n_features != n_features:
        raise ValueError(
            f"model must have {n_features} feature(s), has {density.n_features}; take marginal or "
            "conditional first"
        )
    density = density.with_output(None)
    return binned(density) if density.n_features <= 2 else density
