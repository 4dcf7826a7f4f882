"""Pictures of a fit: why these clusters, where they are, what was put on them, what density."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..clustering import TRIVIAL_SCORE
from ..estimators import ROME, AutoROME
from .canvas import (
    COLOURS,
    add_legend,
    colour_of,
    current_axes,
    drawn_rows,
    has_distinct_colours,
    in_lines,
)

#: Shares of probability inside the contour lines.
_MASSES = (0.95, 0.8, 0.5)
_GRID = 300
#: Samples that fix the contours' heights, and how many of them are drawn by default.
_N_LEVEL = 4000
_N_DRAWN = 400
#: Columns of a reachability plot, about two for every pixel; more samples share columns.
_COLUMNS = 2000
#: Height left free above the members of a cluster for what they gain, a bar being 1.
_GAP = 1.1
#: The width of axes, in inches, from which long names fit beside them in a line.
_WIDE = 6.0
#: Paths that an axes shows at most.
_MOST_PATHS = 2000


def plot_reachability(rome: ROME | AutoROME, ax: Any = None) -> Any:
    """Draw the reachability plot, its valleys coloured by cluster, with the chosen cut.

    More than seven clusters share colours, and have no legend.

    Parameters
    ----------
    rome : ROME or AutoROME
        Fitted, with a choice among candidates.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    check_is_fitted(rome)
    if rome.ordering_ is None or rome.candidates_ is None:
        raise ValueError("rome has no ordering: its clusters were given, or there was only one")
    ax = current_axes(ax)
    order = rome.ordering_.order
    heights, labels = rome.ordering_.reachability[order], rome.labels_[order]
    heights = np.where(np.isfinite(heights), heights, np.max(heights[1:], initial=0.0))
    starts = np.unique(np.linspace(0, len(order), _COLUMNS, endpoint=False).astype(int))
    for label in np.unique(labels):
        ax.fill_between(
            starts,
            np.maximum.reduceat(np.where(labels == label, heights, 0.0), starts),
            step="mid",
            color=colour_of(label),
            linewidth=0,
            label="noise" if label < 0 else f"cluster {label}",
        )
    candidates = rome.candidates_
    i = candidates.chosen
    rule, parameter = candidates.rules[i], candidates.parameters[i]
    if rule == "dbscan":
        ax.axhline(parameter, color="black", linestyle="--", linewidth=1)
    if has_distinct_colours(labels):
        add_legend(ax)
    score = f"{candidates.criterion} {candidates.scores[i]:.3f}"
    symbol = "ε" if rule == "dbscan" else "ξ"
    ax.set(
        xlabel="samples in the order of OPTICS",
        ylabel="reachability",
        title=f"cut at {symbol} = {parameter:.3g}, {score}",
        xlim=(0, len(order)),
        ylim=(0, None),
    )
    return ax


def plot_candidates(rome: ROME | AutoROME, ax: Any = None) -> Any:
    """Draw the scores of all candidate clusterings over their numbers of clusters.

    Larger marks stand for more cuts of the ordering; a ring is around the candidate that was
    chosen. Candidates of a single label have no score. Scores that were estimated from samples of
    rows have bars of one standard error.

    Parameters
    ----------
    rome : ROME or AutoROME
        Fitted, with a choice among candidates.
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
        raise ValueError("rome has no candidates: its clusters were given, or there was only one")
    ax = current_axes(ax)
    names = {"dbscan": "cut at a height ε", "xi": "steep slopes ξ"}
    scored = candidates.scores > TRIVIAL_SCORE
    for colour, (rule, name) in zip(COLOURS, names.items(), strict=False):
        of = scored & (candidates.rules == rule)
        x, y = candidates.n_clusters[of], candidates.scores[of]
        size = 12 * np.sqrt(candidates.n_cuts[of])
        ax.scatter(x, y, size, color=colour, alpha=0.7, linewidth=0, label=name)
        if candidates.errors.any():
            ax.errorbar(x, y, candidates.errors[of], ls="", color=colour, elinewidth=0.8)
    i = candidates.chosen
    n_clusters, score = candidates.n_clusters[i], candidates.scores[i]
    ax.plot(n_clusters, score, "o", ms=12, mfc="none", mec="black", label="chosen")
    if candidates.n_clusters[scored].max(initial=1) > 20:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    plural = "" if n_clusters == 1 else "s"
    ax.set(
        xlabel="clusters",
        ylabel=candidates.criterion,
        title=f"{candidates.criterion} {score:.3f} with {n_clusters} cluster{plural}",
    )
    add_legend(ax)
    return ax


def plot_clusters(rome: ROME | AutoROME, X: Any, ax: Any = None) -> Any:
    """Draw the first two features of the training samples, coloured by cluster.

    More than seven clusters share colours, and are not in the legend.

    Parameters
    ----------
    rome : ROME or AutoROME
        Fitted.
    X : array-like of shape (n_samples, n_features)
        The samples that it was fitted to.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    X = _training_samples(rome, X)
    ax = current_axes(ax)
    drawn = drawn_rows(len(X))
    X, labels = X[drawn], rome.labels_[drawn]
    told = has_distinct_colours(rome.labels_)
    for label in np.unique(labels):
        rows = labels == label
        name = "noise" if label < 0 else f"cluster {label}" if told else None
        ax.plot(X[rows, 0], X[rows, 1], ".", ms=2, color=colour_of(label), label=name)
    if told or len(X) < len(rome.labels_):
        add_legend(ax, len(X), len(rome.labels_), markerscale=4)
    ax.set(xlabel=_feature(rome, 0), ylabel=_feature(rome, 1), title=_title(rome))
    return ax


def plot_density(
    rome: ROME | AutoROME,
    X: Any,
    ax: Any = None,
    random_state: Any = 0,
    n_drawn: int = _N_DRAWN,
) -> Any:
    """Draw the density of two features as contours, with some samples of it over the data.

    A contour encloses the given share of probability.

    Parameters
    ----------
    rome : ROME or AutoROME
        Fitted to two features.
    X : array-like of shape (n_samples, 2)
        Data to draw below the samples.
    ax : matplotlib axes, optional
    random_state : int, RandomState instance or None, default=0
        For the samples.
    n_drawn : int, default=400
        How many samples are drawn, at most as many as there are data.

    Returns
    -------
    matplotlib axes
    """
    check_is_fitted(rome)
    if rome.n_features_in_ != 2:
        raise ValueError(f"rome must have 2 features, has {rome.n_features_in_}")
    X = np.asarray(X, dtype=float)
    ax = current_axes(ax)
    samples = rome.sample(_N_LEVEL, random_state=random_state)
    levels = np.quantile(rome.density_.logpdf(samples), [1 - mass for mass in _MASSES])
    both = np.concatenate([X, samples])
    low, high = both.min(axis=0), both.max(axis=0)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    axes = [np.linspace(a, b, _GRID) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    height = rome.density_.logpdf(grid.reshape(-1, 2)).reshape(_GRID, _GRID)
    shown = X[drawn_rows(len(X))]
    ax.plot(shown[:, 0], shown[:, 1], ".", ms=2, color=COLOURS[0], label="data")
    drawn = samples[: min(len(X), n_drawn)]
    if len(drawn):
        ax.plot(drawn[:, 0], drawn[:, 1], ".", ms=3, color=COLOURS[3], label="samples")
    ax.contour(*axes, height, levels=levels, colors="black", linewidths=0.8, linestyles="solid")
    add_legend(ax, len(shown), len(X), markerscale=4)
    shares = ", ".join(f"{mass:.0%}" for mass in _MASSES)
    ax.set(
        xlabel=_feature(rome, 0),
        ylabel=_feature(rome, 1),
        title=f"contours around {shares}",
    )
    return ax


def plot_members(auto: AutoROME, ax: Any = None) -> Any:
    """Draw the weights of the members of every cluster as bars, the first cluster on top.

    Above them stands what the members gain on held-out samples over a plain Gaussian.

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
        bars = ax.barh(own, cluster.weights, height=0.8, color=colour_of(cluster.label))
        ax.bar_label(
            bars, [f"{weight:.0%}" for weight in cluster.weights], padding=3, fontsize="small"
        )
        gain = f"gain {cluster.gain:.2f} \N{PLUS-MINUS SIGN} {cluster.gain_error:.2f}"
        ax.annotate(
            f"cluster {cluster.label}: {gain}",
            (0.0, first - 0.5),
            (2, 2),
            textcoords="offset points",
            fontsize="small",
        )
        names += cluster.members
        heights += own.tolist()
    is_wide = ax.get_window_extent().width > _WIDE * ax.get_figure().dpi
    ax.set_yticks(heights, names if is_wide else [in_lines(name, 26) for name in names])
    ax.tick_params(axis="y", length=0, labelsize="small" if is_wide else "xx-small")
    for label in ax.get_yticklabels():
        label.set_linespacing(0.9)
    # The room on the right is for the number behind a bar of full length.
    ax.set(xlabel="weight", xlim=(0, 1.2), ylim=(heights[-1] + 0.7, -0.3))
    return ax


def plot_trajectories(
    paths: Any, labels: Any = None, ax: Any = None, colour: Any = None, alpha: float = 0.25
) -> Any:
    """Draw rows ``x1, y1, x2, y2, ...`` as paths in the plane, coloured by label.

    Parameters
    ----------
    paths : array-like of shape (n_samples, 2 * n_steps)
        Of more than 2,000, that many are drawn.
    labels : array-like of shape (n_samples,), optional
    ax : matplotlib axes, optional
    colour : colour, optional
        One colour for all paths.
    alpha : float, default=0.25
        How opaque a path is.

    Returns
    -------
    matplotlib axes
    """
    from matplotlib.collections import LineCollection

    paths = np.asarray(paths, dtype=float)
    ax = current_axes(ax)
    steps = paths.reshape(len(paths), -1, 2)
    labels = np.zeros(len(paths), dtype=int) if labels is None else np.asarray(labels)
    drawn = drawn_rows(len(paths), _MOST_PATHS)
    steps, labels = steps[drawn], labels[drawn]
    for label in np.unique(labels):
        shade = colour or colour_of(label)
        lines = LineCollection(
            list(steps[labels == label]), colors=shade, linewidths=0.5, alpha=alpha
        )
        lines.set_rasterized(True)
        ax.add_collection(lines)
    ax.autoscale()
    ax.set(xlabel="x", ylabel="y", aspect="equal")
    return ax


def _training_samples(rome: ROME | AutoROME, X: Any) -> np.ndarray:
    check_is_fitted(rome)
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or X.shape[1] < 2 or len(X) != len(rome.labels_):
        raise ValueError(
            f"X must be the {len(rome.labels_)} training samples with two features at least, "
            f"got shape {X.shape}"
        )
    return X


def _feature(rome: ROME | AutoROME, index: int) -> str:
    names = getattr(rome, "feature_names_in_", None)
    return in_lines(str(names[index])) if names is not None else f"feature {index}"


def _title(rome: ROME | AutoROME) -> str:
    n_clusters = sum(cluster.label >= 0 for cluster in rome.clusters_)
    n_noise = int(np.sum(rome.labels_ < 0))
    text = f"{n_clusters} cluster{'' if n_clusters == 1 else 's'}"
    return f"{text}, {n_noise:,} noise sample{'' if n_noise == 1 else 's'}" if n_noise else text
