"""Pictures that compare: samples with data, and figures over runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .canvas import current_axes, drawn_rows
from .fits import plot_trajectories

#: A pale blue below a dark pink: told apart in grey, too.
DATA_COLOUR = "#9CCBEB"
SAMPLE_COLOUR = "#AA1F6B"


def plot_samples(X: Any, samples: Any, ax: Any = None, size: float = 1.0) -> Any:
    """Draw samples of a fit, dark pink crosses, over the data, pale blue dots.

    Parameters
    ----------
    X, samples : array-like of shape (n_samples, n_features)
        More than two features are rows ``x1, y1, x2, y2, ...`` and drawn as paths. Of more than
        10,000 rows, that many are drawn.
    ax : matplotlib axes, optional
    size : float, default=1.0
        How much larger than usual marks are.

    Returns
    -------
    matplotlib axes
    """
    X, samples = np.asarray(X, dtype=float), np.asarray(samples, dtype=float)
    ax = current_axes(ax)
    X, samples = X[drawn_rows(len(X))], samples[drawn_rows(len(samples))]
    if X.shape[1] > 2:
        plot_trajectories(X, ax=ax, colour=DATA_COLOUR, alpha=0.5)
        return plot_trajectories(samples, ax=ax, colour=SAMPLE_COLOUR, alpha=0.6)
    below = {"marker": "o", "ms": 2.4 * size, "mew": 0, "color": DATA_COLOUR, "label": "data"}
    above = {"marker": "x", "ms": 1.6 * size, "mew": 0.4 * size, "color": SAMPLE_COLOUR}
    ax.plot(X[:, 0], X[:, 1], ls="", rasterized=True, **below)
    ax.plot(samples[:, 0], samples[:, 1], ls="", rasterized=True, label="samples", **above)
    return ax


def plot_boxes(groups: Mapping[str, Any], marks: Mapping[str, float], ax: Any = None) -> Any:
    """Draw a box for every group of numbers, the first on top, each named on the left.

    A box holds the middle half, its line is the median, the whiskers reach up to 1.5 times as
    far; what lies beyond are dots. A group without numbers leaves its line empty.

    Parameters
    ----------
    groups : mapping of str to array-like of shape (n_values,)
    marks : mapping of str to float
        Values to mark with a diamond, by group.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    ax = current_axes(ax)
    heights = {name: -i for i, name in enumerate(groups)}
    line = {"color": "black", "linewidth": 0.8}
    drawn = ax.boxplot(
        [np.asarray(values, dtype=float) for values in groups.values()],
        positions=list(heights.values()),
        orientation="horizontal",
        widths=0.45,
        patch_artist=True,
        manage_ticks=False,
        medianprops=line,
        whiskerprops=line,
        capprops=line,
        boxprops={"linewidth": 0.8},
        flierprops={"marker": ".", "markersize": 2},
    )
    for box in drawn["boxes"]:
        box.set_facecolor(DATA_COLOUR)
    known = [name for name in heights if name in marks]
    ax.plot(
        [marks[name] for name in known],
        [heights[name] for name in known],
        ls="",
        marker="D",
        ms=4,
        mfc="white",
        mec="black",
        mew=0.9,
        zorder=3,
        label="published mean",
    )
    ax.set_yticks(list(heights.values()), list(heights))
    ax.set_ylim(0.3 - len(groups), 0.6)
    return ax
