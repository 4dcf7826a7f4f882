"""Pictures of samples: over data, and as paths in the plane."""

from typing import Any

import numpy as np

from .canvas import add_legend, color_of, current_axes, drawn_rows, in_lines

#: A pale blue below a dark pink, which differ in grayscale too.
DATA_COLOR = "#9CCBEB"
SAMPLE_COLOR = "#AA1F6B"
#: Limits on the paths in an axes, and on the paths of samples, which would hide those of the data.
_MAX_PATHS = 2000
_MAX_SAMPLE_PATHS = 100


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

    Returns
    -------
    matplotlib axes

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
    X, samples = np.asarray(X, dtype=float), np.asarray(samples, dtype=float)
    ax = current_axes(ax)
    X, samples = X[drawn_rows(len(X))], samples[drawn_rows(len(samples))]
    if X.shape[1] > 2:
        _draw_paths(X, samples[drawn_rows(len(samples), _MAX_SAMPLE_PATHS)], ax)
    elif X.shape[1] == 2:
        _draw_points(X, samples, ax)
        ax.set(**{f"{x}label": in_lines(str(n)) for x, n in zip("xy", names, strict=False)})
    else:
        _draw_bars(X, samples, ax)
        ax.set(xlabel=in_lines(str(names[0])) if names else "feature 0", ylabel="density")
    if legend:
        add_legend(ax, markerscale=2)
    return ax


def _draw_paths(X: np.ndarray, samples: np.ndarray, ax: Any) -> None:
    plot_trajectories(X, ax=ax, color=DATA_COLOR, alpha=0.5)
    plot_trajectories(samples, ax=ax, color=SAMPLE_COLOR, alpha=0.6)
    for name, color in (("data", DATA_COLOR), ("samples", SAMPLE_COLOR)):
        ax.plot([], [], color=color, label=name)


def _draw_bars(X: np.ndarray, samples: np.ndarray, ax: Any) -> None:
    edges = np.histogram_bin_edges(np.concatenate([X, samples]), 40)
    ax.hist(X[:, 0], edges, density=True, color=DATA_COLOR, label="data")
    ax.hist(
        samples[:, 0], edges, density=True, histtype="step", color=SAMPLE_COLOR, label="samples"
    )


def _draw_points(X: np.ndarray, samples: np.ndarray, ax: Any) -> None:
    below = {"marker": "o", "ms": 2.4, "mew": 0, "color": DATA_COLOR, "label": "data"}
    above = {"marker": "x", "ms": 1.6, "mew": 0.4, "color": SAMPLE_COLOR}
    ax.plot(X[:, 0], X[:, 1], ls="", rasterized=True, **below)
    ax.plot(samples[:, 0], samples[:, 1], ls="", rasterized=True, label="samples", **above)


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

    Returns
    -------
    matplotlib axes
    """
    from matplotlib.collections import LineCollection

    paths = np.asarray(paths, dtype=float)
    ax = current_axes(ax)
    steps = paths.reshape(len(paths), -1, 2)
    labels = np.zeros(len(paths), dtype=int) if labels is None else np.asarray(labels)
    drawn = drawn_rows(len(paths), _MAX_PATHS)
    steps, labels = steps[drawn], labels[drawn]
    for label in np.unique(labels):
        style: Any = {"colors": color or color_of(label), "linewidths": 0.5, "alpha": alpha}
        lines = LineCollection(list(steps[labels == label]), **style)
        lines.set_rasterized(True)
        ax.add_collection(lines)
    ax.autoscale()
    ax.set(xlabel="x", ylabel="y", aspect="equal")
    return ax
