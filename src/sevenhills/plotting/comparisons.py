"""Pictures that compare samples with data."""

from typing import Any

import numpy as np

from .canvas import add_legend, current_axes, drawn_rows, in_lines
from .fits import plot_trajectories

#: A pale blue below a dark pink: told apart in grey, too.
DATA_COLOUR = "#9CCBEB"
SAMPLE_COLOUR = "#AA1F6B"


#: Paths of samples, more of which would hide those of the data.
_MOST_PATHS = 100


def plot_samples(
    X: Any, samples: Any, ax: Any = None, size: float = 1.0, legend: bool = True
) -> Any:
    """Draw samples of a fit, dark pink, over the data, pale blue.

    Parameters
    ----------
    X, samples : array-like of shape (n_samples, n_features)
        One feature is drawn as histograms, two as points; more are rows ``x1, y1, x2, y2, ...``
        and drawn as paths. Of more than 10,000 rows, that many are drawn, and up to 100 paths of
        samples.
    ax : matplotlib axes, optional
    size : float, default=1.0
        How much larger than usual marks are.
    legend : bool, default=True
        Whether to say which are which.

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
        _draw_paths(X, samples[drawn_rows(len(samples), _MOST_PATHS)], ax)
    elif X.shape[1] == 2:
        _draw_points(X, samples, ax, size)
        ax.set(**{f"{x}label": in_lines(str(n)) for x, n in zip("xy", names, strict=False)})
    else:
        _draw_bars(X, samples, ax)
        ax.set(xlabel=in_lines(str(names[0])) if names else "feature 0", ylabel="density")
    if legend:
        add_legend(ax, markerscale=2)
    return ax


def _draw_paths(X: np.ndarray, samples: np.ndarray, ax: Any) -> None:
    plot_trajectories(X, ax=ax, colour=DATA_COLOUR, alpha=0.5)
    plot_trajectories(samples, ax=ax, colour=SAMPLE_COLOUR, alpha=0.6)
    for name, colour in (("data", DATA_COLOUR), ("samples", SAMPLE_COLOUR)):
        ax.plot([], [], color=colour, label=name)


def _draw_bars(X: np.ndarray, samples: np.ndarray, ax: Any) -> None:
    edges = np.histogram_bin_edges(np.concatenate([X, samples]), 40)
    ax.hist(X[:, 0], edges, density=True, color=DATA_COLOUR, label="data")
    ax.hist(
        samples[:, 0], edges, density=True, histtype="step", color=SAMPLE_COLOUR, label="samples"
    )


def _draw_points(X: np.ndarray, samples: np.ndarray, ax: Any, size: float) -> None:
    below = {"marker": "o", "ms": 2.4 * size, "mew": 0, "color": DATA_COLOUR, "label": "data"}
    above = {"marker": "x", "ms": 1.6 * size, "mew": 0.4 * size, "color": SAMPLE_COLOUR}
    ax.plot(X[:, 0], X[:, 1], ls="", rasterized=True, **below)
    ax.plot(samples[:, 0], samples[:, 1], ls="", rasterized=True, label="samples", **above)
