"""Pictures of a fit: its candidates, its clusters and their members."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..clustering.selection import TRIVIAL_SCORE
from ..estimators import ROME, AutoROME
from .canvas import (
    COLORS,
    add_legend,
    color_of,
    counted,
    current_axes,
    drawn_rows,
    feature_label,
    has_distinct_colors,
    in_lines,
)

#: Columns of a reachability plot, about two per pixel; more samples share columns.
_N_COLUMNS = 2000
#: Free height above the members of a cluster for its gain, in heights of a bar.
_GAP = 1.1
#: Width of axes, in inches, from which long names fit beside them on one line.
_WIDE = 6.0


def plot_reachability(rome: ROME | AutoROME, ax: Any = None) -> Any:
    """Draw the reachability plot, colored by cluster, with the chosen cut.

    More than seven clusters share colors and have no legend.

    Parameters
    ----------
    rome : ROME or AutoROME
        Fitted, with candidates.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    check_is_fitted(rome)
    if rome.ordering_ is None or rome.candidates_ is None:
        raise ValueError("rome has no ordering: labels were given, or selection is None")
    ax = current_axes(ax)
    order = rome.ordering_.order
    heights, labels = rome.ordering_.reachability[order], rome.labels_[order]
    heights = np.where(np.isfinite(heights), heights, np.max(heights[1:], initial=0.0))
    starts = np.unique(np.linspace(0, len(order), _N_COLUMNS, endpoint=False).astype(int))
    for label in np.unique(labels):
        tops = np.maximum.reduceat(np.where(labels == label, heights, 0.0), starts)
        name = "noise" if label < 0 else f"cluster {label}"
        style = {"color": color_of(label), "linewidth": 0, "label": name}
        ax.fill_between(starts, tops, step="mid", **style)
    candidates = rome.candidates_
    i = candidates.chosen
    rule, parameter = candidates.rules[i], candidates.parameters[i]
    if rule == "dbscan":
        ax.axhline(parameter, color="black", linestyle="--", linewidth=1)
    if has_distinct_colors(labels):
        add_legend(ax)
    score = f"{candidates.criterion} {candidates.scores[i]:.3f}"
    symbol = "ε" if rule == "dbscan" else "ξ"
    ax.set(xlabel="samples in the order of OPTICS", ylabel="reachability")
    ax.set(xlim=(0, len(order)), ylim=(0, None))
    ax.set_title(f"cut at {symbol} = {parameter:.3g}, {score}")
    return ax


def plot_candidates(rome: ROME | AutoROME, ax: Any = None) -> Any:
    """Draw the scores of all candidate clusterings over their numbers of clusters.

    The area of a mark grows with the number of cuts that give the candidate; a ring marks the
    chosen candidate. Candidates of a single label have no score and are left out. Scores that are
    estimated from a sample of rows have bars of one standard error.

    Parameters
    ----------
    rome : ROME or AutoROME
        Fitted, with candidates.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, datasets, plotting
    >>> rome = ROME().fit(datasets.load("aniso").sample(500, random_state=0))
    >>> plotting.plot_candidates(rome, Figure().subplots()).get_title()
    'silhouette 0.773 with 3 clusters'
    """
    check_is_fitted(rome)
    candidates = rome.candidates_
    if candidates is None:
        raise ValueError("rome has no candidates: labels were given, or selection is None")
    ax = current_axes(ax)
    names = {"dbscan": "cut at a height ε", "xi": "steep slopes ξ"}
    scored = candidates.scores > TRIVIAL_SCORE
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


def plot_clusters(rome: ROME | AutoROME, X: Any, ax: Any = None) -> Any:
    """Draw the first two features of the training samples, colored by cluster.

    More than seven clusters share colors and are not in the legend.

    Parameters
    ----------
    rome : ROME or AutoROME
        Fitted.
    X : array-like of shape (n_samples, n_features)
        The training samples.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    X = _training_samples(rome, X)
    ax = current_axes(ax)
    drawn = drawn_rows(len(X))
    X, labels = X[drawn], rome.labels_[drawn]
    is_named = has_distinct_colors(rome.labels_)
    for label in np.unique(labels):
        rows = labels == label
        name = "noise" if label < 0 else f"cluster {label}" if is_named else None
        ax.plot(X[rows, 0], X[rows, 1], ".", ms=2, color=color_of(label), label=name)
    if is_named or len(X) < len(rome.labels_):
        add_legend(ax, len(X), len(rome.labels_), markerscale=4)
    names = getattr(rome, "feature_names_in_", None)
    ax.set(xlabel=feature_label(names, 0), ylabel=feature_label(names, 1), title=_title(rome))
    return ax


def plot_members(auto: AutoROME, ax: Any = None) -> Any:
    """Draw the weights of the members of every cluster as bars, the first cluster on top.

    The gain above the bars is that in held-out log density over a single Gaussian.

    Parameters
    ----------
    auto : AutoROME
        Fitted.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

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
    for i, cluster in enumerate(auto.clusters_):
        first = len(names) + (i + 1) * _GAP
        own = first + np.arange(len(cluster.members))
        bars = ax.barh(own, cluster.weights, height=0.8, color=color_of(cluster.label))
        ax.bar_label(bars, fmt="{:.0%}", padding=3, fontsize="small")
        gain = f"gain {cluster.gain:.2f} \N{PLUS-MINUS SIGN} {cluster.gain_error:.2f}"
        text, place = f"cluster {cluster.label}: {gain}", (0.0, first - 0.5)
        ax.annotate(text, place, (2, 2), textcoords="offset points", fontsize="small")
        names += cluster.members
        heights += own.tolist()
    is_wide = ax.get_window_extent().width > _WIDE * ax.get_figure().dpi
    ax.set_yticks(heights, names if is_wide else [in_lines(name, 26) for name in names])
    ax.tick_params(axis="y", length=0, labelsize="small" if is_wide else "xx-small")
    for label in ax.get_yticklabels():
        label.set_linespacing(0.9)
    # The margin on the right holds the number behind a bar of full length.
    ax.set(xlabel="weight", xlim=(0, 1.2), ylim=(heights[-1] + 0.7, -0.3))
    return ax


def _training_samples(rome: ROME | AutoROME, X: Any) -> np.ndarray:
    check_is_fitted(rome)
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or X.shape[1] < 2 or len(X) != len(rome.labels_):
        raise ValueError(
            f"X must be the {len(rome.labels_)} training samples with at least two features, "
            f"got shape {X.shape}"
        )
    return X


def _title(rome: ROME | AutoROME) -> str:
    n_clusters = sum(cluster.label >= 0 for cluster in rome.clusters_)
    n_noise = int(np.sum(rome.labels_ < 0))
    text = counted(n_clusters, "cluster")
    return f"{text}, {counted(n_noise, 'noise sample')}" if n_noise else text
