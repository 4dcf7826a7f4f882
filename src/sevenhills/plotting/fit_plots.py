"""Pictures of a fit: its candidates, clusters, members and samples."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..clustering import Candidates, Ordering
from ..clustering.selection import TRIVIAL_SCORE
from ..estimators import ROME, AutoROME, StackedCell
from ..estimators.summary import feature_name
from ..texts import counted
from ..validation import clear_errors
from .canvas import (
    COLORS,
    DATA_COLOR,
    SAMPLE_COLOR,
    add_legend,
    cluster_name,
    color_of,
    current_axes,
    draw_paths,
    drawn_rows,
    has_distinct_colors,
    in_lines,
    keep_inside,
    literal,
    name_axes,
)

#: Columns of a reachability plot, about two per pixel; more samples share columns.
_N_COLUMNS = 2000
#: Free height above the members of a cluster for its gain, in heights of a bar.
_GAP = 1.1
#: Width of axes, in inches, from which long names fit beside them on one line.
_WIDE = 6.0
#: Limits on the paths in an axes, and on the paths of samples, which would hide those of the data.
_MAX_PATHS = 2000
_MAX_SAMPLE_PATHS = 100


def plot_reachability(rome: ROME | AutoROME, ax: Any = None) -> Any:
    """Draw the reachability plot, colored by cluster, with the chosen cut.

    More than seven clusters share colors and have no legend.

    Parameters
    ----------
    rome : fitted ROME or AutoROME, with candidates
    ax : matplotlib axes, optional
    """
    ordering, candidates = _ordering_of(rome)
    ax = current_axes(ax)
    order = ordering.order
    heights, labels = ordering.reachability[order], rome.labels_[order]
    heights = np.where(np.isfinite(heights), heights, np.max(heights[1:], initial=0.0))
    starts = np.unique(np.linspace(0, len(order), _N_COLUMNS, endpoint=False).astype(int))
    for label in np.unique(labels):
        tops = np.maximum.reduceat(np.where(labels == label, heights, 0.0), starts)
        style = {"color": color_of(label), "linewidth": 0, "label": cluster_name(label)}
        ax.fill_between(starts, tops, step="mid", **style)
    i = candidates.chosen
    symbol, parameter = "ξ", candidates.parameters[i]
    if candidates.rules[i] == "dbscan":
        symbol = "ε"
        ax.axhline(parameter, color="black", linestyle="--", linewidth=1)
    if has_distinct_colors(labels):
        add_legend(ax)
    has_maps = getattr(rome.density_, "maps", None) is not None
    height = "reachability of latent coordinates" if has_maps else "reachability"
    ax.set(xlabel="samples in the order of OPTICS", ylabel=height)
    ax.set(xlim=(0, len(order)), ylim=(0, None))
    score = f"{candidates.criterion} {candidates.scores[i]:.3f}"
    ax.set_title(f"cut at {symbol} = {parameter:.3g}, {score}")
    return ax


def plot_candidates(rome: ROME | AutoROME, ax: Any = None) -> Any:
    """Draw the scores of all candidate clusterings over their numbers of clusters.

    The area of a mark grows with the number of cuts that give the candidate; a ring marks the
    chosen candidate. Candidates of a single label have no score and are left out. Scores that are
    estimated from a sample of rows have bars of one standard error.

    Parameters
    ----------
    rome : fitted ROME or AutoROME, with candidates
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, datasets, plotting
    >>> rome = ROME().fit(datasets.load("aniso").sample(500, random_state=0))
    >>> plotting.plot_candidates(rome, Figure().subplots()).get_title()
    'silhouette 0.773 with 3 clusters'
    """
    _, candidates = _ordering_of(rome)
    ax = current_axes(ax)
    names = {"dbscan": "cut at a height ε", "xi": "steep slopes ξ"}
    scored = candidates.scores != TRIVIAL_SCORE
    for color, (rule, name) in zip(COLORS, names.items(), strict=False):
        of = scored & (candidates.rules == rule)
        x, y = candidates.n_clusters[of], candidates.scores[of]
        size = 12 * np.sqrt(candidates.n_cuts[of])
        ax.scatter(x, y, size, color=color, alpha=0.7, linewidth=0, label=name)
        if candidates.errors.any():
            ax.errorbar(x, y, candidates.errors[of], ls="", color=color, elinewidth=0.8)
    i = candidates.chosen
    n_clusters, score = candidates.n_clusters[i], candidates.scores[i]
    ax.plot(n_clusters, score, "o", ms=12, mfc="none", mec="black", label="chosen")
    if candidates.n_clusters[scored].max(initial=1) > 20:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    title = f"{candidates.criterion} {score:.3f} with {counted(n_clusters, 'cluster')}"
    ax.set(xlabel="clusters", ylabel=candidates.criterion, title=title)
    add_legend(ax)
    return ax


def _ordering_of(rome: ROME | AutoROME) -> tuple[Ordering, Candidates]:
    check_is_fitted(rome)
    if rome.ordering_ is None or rome.candidates_ is None:
        raise ValueError(
            "rome has no ordering and no candidates: labels were given, or selection is None"
        )
    return rome.ordering_, rome.candidates_


def plot_clusters(rome: ROME | AutoROME, X: Any, ax: Any = None) -> Any:
    """Draw the first two features of the training samples, colored by cluster.

    More than seven clusters share colors and are not in the legend.

    Parameters
    ----------
    rome : fitted ROME or AutoROME
    X : array-like of shape (n_samples, n_features)
        The training samples.
    ax : matplotlib axes, optional
    """
    check_is_fitted(rome)
    n_samples = len(rome.labels_)
    with clear_errors(X):
        X = np.asarray(X, dtype=float)
    if X.ndim != 2 or X.shape[1] < 2 or len(X) != n_samples:
        raise ValueError(
            f"X must be the {n_samples} training samples with at least two features, "
            f"got shape {X.shape}"
        )
    ax = current_axes(ax)
    drawn = drawn_rows(n_samples)
    X, labels = rome.density_.unrolled(X[drawn])[:, :2], rome.labels_[drawn]
    is_named = has_distinct_colors(rome.labels_)
    for label in np.unique(labels):
        name = cluster_name(label) if is_named or label < 0 else None
        (dots,) = ax.plot(*X[labels == label].T, ".", ms=2, color=color_of(label), label=name)
        keep_inside(ax, dots, rome.density_)
    ax.autoscale_view()
    if is_named or len(X) < n_samples:
        add_legend(ax, len(X), n_samples, markerscale=4)
    name_axes(ax, getattr(rome, "feature_names_in_", None))
    n_noise = int(np.sum(rome.labels_ < 0))
    title = counted(sum(cluster.label >= 0 for cluster in rome.clusters_), "cluster")
    ax.set_title(f"{title}, {counted(n_noise, 'noise sample')}" if n_noise else title)
    return ax


def plot_members(auto: AutoROME, ax: Any = None) -> Any:
    """Draw the weights of the members of every cell as bars, the first cell on top.

    The gain above the bars is that in held-out log density over a single Gaussian.

    Parameters
    ----------
    auto : fitted AutoROME
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import AutoROME, datasets, plotting
    >>> auto = AutoROME().fit(datasets.load("aniso").sample(1000, random_state=0))
    >>> ax = plotting.plot_members(auto, Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['Gaussian', 'Gaussian', 'Gaussian']
    """
    check_is_fitted(auto)
    ax = current_axes(ax)
    names: list[str] = []
    heights: list[float] = []
    for i, cell in enumerate(auto.cells_):
        first = len(names) + (i + 1) * _GAP
        own = first + np.arange(len(cell.members))
        bars = ax.barh(own, cell.weights, height=0.8, color=color_of(cell.clusters[0]))
        ax.bar_label(bars, fmt="{:.0%}", padding=3, fontsize="small")
        gain = f"gain {cell.gain:.2f} \N{PLUS-MINUS SIGN} {cell.gain_error:.2f}"
        text, place = f"{_cell_name(auto, cell)}: {gain}", (0.0, first - 0.5)
        ax.annotate(text, place, (2, 2), textcoords="offset points", fontsize="small")
        names += cell.members
        heights += own.tolist()
    is_wide = ax.get_window_extent().width > _WIDE * ax.get_figure().dpi
    ax.set_yticks(heights, names if is_wide else [in_lines(name, 26) for name in names])
    ax.tick_params(axis="y", length=0, labelsize="small" if is_wide else "xx-small")
    for label in ax.get_yticklabels():
        label.set_linespacing(0.9)
    # The margin on the right holds the number behind a bar of full length.
    ax.set(xlabel="weight", xlim=(0, 1.2), ylim=(heights[-1] + 0.7, -0.3))
    return ax


def _cell_name(auto: AutoROME, cell: StackedCell) -> str:
    """Return the clusters of a cell, and the values of features of few values."""
    names = getattr(auto, "feature_names_in_", None)
    labels = ", ".join(map(str, cell.clusters))
    values = [
        f"{feature_name(j, names)} {value:g}"
        for j, value in zip(auto.categories_, cell.values, strict=True)
        if value is not None
    ]
    return literal(", ".join([f"cluster{'s' * (len(cell.clusters) > 1)} {labels}", *values]))


def plot_samples(X: Any, samples: Any, ax: Any = None, legend: bool = True) -> Any:
    """Draw samples of a density, dark pink, over the data, pale blue.

    Parameters
    ----------
    X, samples : array-like of shape (n_samples, n_features)
        One feature is drawn as histograms, two as points, more as paths with rows
        ``x1, y1, x2, y2, ...``. At most 10,000 rows are drawn, and 100 paths of samples.
    ax : matplotlib axes, optional
    legend : bool, default=True
        Whether to draw a legend.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, datasets, plotting
    >>> X = datasets.load("aniso").sample(300, random_state=0)
    >>> samples = ROME().fit(X).sample(300, random_state=0)
    >>> ax = plotting.plot_samples(X, samples, Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['data', 'samples']
    """
    names = list(getattr(X, "columns", []))
    with clear_errors(X):
        X = np.asarray(X, dtype=float)
    samples = np.asarray(samples, dtype=float)
    ax = current_axes(ax)
    X, samples = X[drawn_rows(len(X))], samples[drawn_rows(len(samples))]
    n_features = X.shape[1]
    data = {"color": DATA_COLOR, "label": "data"}
    drawn = {"color": SAMPLE_COLOR, "label": "samples"}
    if n_features == 1:
        edges = np.histogram_bin_edges(np.concatenate([X, samples]), 40)
        ax.hist(X[:, 0], edges, density=True, **data)
        ax.hist(samples[:, 0], edges, density=True, histtype="step", **drawn)
        name_axes(ax, names or ["feature 0"])
        ax.set_ylabel("density")
    elif n_features == 2:
        points: Any = {"ls": "", "rasterized": True}
        ax.plot(*X.T, marker="o", ms=2.4, mew=0, **points, **data)
        ax.plot(*samples.T, marker="x", ms=1.6, mew=0.4, **points, **drawn)
        name_axes(ax, names)
    else:
        samples = samples[drawn_rows(len(samples), _MAX_SAMPLE_PATHS)]
        plot_trajectories(X, ax=ax, color=DATA_COLOR, alpha=0.5)
        plot_trajectories(samples, ax=ax, color=SAMPLE_COLOR, alpha=0.6)
        for style in (data, drawn):
            ax.plot([], [], **style)
    if legend:
        add_legend(ax, markerscale=2)
    return ax


def plot_trajectories(
    paths: Any, labels: Any = None, ax: Any = None, color: Any = None, alpha: float = 0.25
) -> Any:
    """Draw rows ``x1, y1, x2, y2, ...`` as paths in the plane, colored by label.

    Parameters
    ----------
    paths : array-like of shape (n_samples, 2 * n_steps)
        At most 2,000 are drawn.
    labels : array-like of shape (n_samples,), optional
    ax : matplotlib axes, optional
    color : color, optional
        One color for all paths.
    alpha : float, default=0.25
        The opacity of a path.
    """
    paths = np.asarray(paths, dtype=float)
    ax = current_axes(ax)
    labels = np.zeros(len(paths), dtype=int) if labels is None else np.asarray(labels)
    drawn = drawn_rows(len(paths), _MAX_PATHS)
    steps, labels = paths.reshape(len(paths), -1, 2)[drawn], labels[drawn]
    for label in np.unique(labels):
        style = {"colors": color or color_of(label), "linewidths": 0.5, "alpha": alpha}
        draw_paths(ax, steps[labels == label], rasterized=True, **style)
    return ax
