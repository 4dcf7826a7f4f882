"""The picture of a density that suits its number of features."""

from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np

from ..density import KernelMixture
from ..extras import import_extra
from ..validation import check_queries
from .binning import binned
from .canvas import COLORS, add_legend, current_axes, drawn_rows, name_axes, new_figure
from .density_plots import _DEPTH, grid_regions, plot_corner, plot_line, plot_regions

#: The most features of a corner plot.
_MAX_FEATURES = 6
#: The width of a panel of a corner plot, in inches.
_PANEL = 1.7
_N_BINS = 40
#: Width and height of a small picture in inches, its resolution, and its draws.
_SMALL, _DPI, _N_DRAWS = (3.4, 2.4), 130, 600
#: Grid lines of a small picture.
_GRID = 50


def draw_overview(density: KernelMixture, X: Any = None, ax: Any = None) -> Any:
    """Draw a density: a line, regions of a plane, or a corner plot; return the axes."""
    points = None
    if X is not None:
        points = check_queries(X, density.n_features, density.feature_names)
    if density.n_features == 1:
        return _draw_line(density, points, current_axes(ax))
    if density.n_features == 2:
        return _draw_plane(density, points, current_axes(ax))
    features, reason = telling_features(density, _MAX_FEATURES)
    if ax is None:
        pyplot = import_extra("matplotlib.pyplot", "plot", "plotting needs matplotlib")
        ax = pyplot.figure(figsize=(_PANEL * len(features),) * 2, layout="constrained").gca()
    plot_corner(density, points, features, ax)
    if reason:
        ax.set_title(f"{len(features)} of {density.n_features} features: {reason}")
    return ax


def _draw_line(density: KernelMixture, points: np.ndarray | None, ax: Any) -> Any:
    """Draw a density of one feature over a histogram and a rug of the data."""
    if points is not None:
        x = density.unrolled(points)[:, 0]
        ax.hist(x, _N_BINS, density=True, color=COLORS[4], alpha=0.4, label="data")
        rug = x[drawn_rows(len(x), 1000)]
        ax.plot(rug, np.zeros(len(rug)), "|", color=COLORS[0], ms=8, alpha=0.4)
    plot_line(density, ax, confidence=None, label=None if points is None else "density")
    if points is not None:
        add_legend(ax)
    return ax


def _draw_plane(density: KernelMixture, points: np.ndarray | None, ax: Any) -> Any:
    """Draw the regions and modes of a density of two features over the data."""
    if points is not None:
        shown = density.unrolled(points[drawn_rows(len(points))])
        ax.plot(*shown.T, ".", ms=2, color=COLORS[6], alpha=0.5)
    return plot_regions(density, ax=ax)


def telling_features(density: KernelMixture, n_most: int) -> tuple[list[int], str]:
    """Return the features to draw if there are too many, and the reason for them.

    Of clusters, they are those with the largest share of variance between clusters, by the kernels
    in latent coordinates; of one cluster, those of the largest standard deviation.
    """
    n_features = density.n_features
    if n_features <= n_most:
        return list(range(n_features)), ""
    latent = density._latent
    mean = latent._mean()
    variances = latent._variances(mean)
    labels, of_group = np.unique(density.clusters, return_inverse=True)
    if len(labels) > 1:
        own = np.equal.outer(np.arange(len(labels)), of_group[density.kernels.group_of_kernel])
        weights = [density.weights[rows] for rows in own]
        shares = np.array([each.sum() for each in weights])
        sums = [each @ latent.means[rows] for each, rows in zip(weights, own, strict=True)]
        means = np.stack(sums) / np.where(shares > 0, shares, 1.0)[:, None] - mean
        worth = shares @ means**2 / np.where(variances > 0, variances, np.inf)
        reason = "those in which clusters differ most"
    else:
        worth, reason = variances, "those of the largest spread"
    return sorted(np.argsort(-worth, kind="stable")[:n_most].tolist()), reason


def small_picture(density: KernelMixture) -> str:
    """Return a small picture as an image of HTML; empty if it cannot be drawn.

    A density of many features is shown by two of them.
    """
    try:
        features, _ = telling_features(density, 2)
        names = density.feature_names or [f"feature {j}" for j in range(density.n_features)]
        figure, axes = new_figure(1, 1, _SMALL)
        shown = binned(density.with_output(None).marginal(features))
        _draw_small(shown, [names[j] for j in features], axes[0, 0])
        file = BytesIO()
        figure.savefig(file, format="png", dpi=_DPI)
    except Exception:  # a display must not fail, with matplotlib or without
        return ""
    source = f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"
    size = f'width="{_SMALL[0] * 96:.0f}" height="{_SMALL[1] * 96:.0f}"'
    return f'<img alt="the density" {size} src="{source}">'


def _draw_small(density: KernelMixture, names: Sequence[str], ax: Any) -> None:
    """Draw a density of one feature as a line, and of two as draws with outlines."""
    if density.n_features == 1:
        plot_line(density, ax, confidence=None)
    else:
        draws = density.unrolled(density.sample(_N_DRAWS, random_state=0))
        ax.plot(*draws.T, ".", ms=1.5, color=COLORS[4])
        lines = [np.linspace(x.min(), x.max(), _GRID) for x in draws.T]
        heights, levels = grid_regions(density, lines, (0.95, 0.5))
        heights = np.maximum(heights, min(levels) - _DEPTH)
        ax.contour(*lines, heights, levels, colors=COLORS[0], linewidths=0.8, linestyles="-")
    name_axes(ax, names)
    ax.tick_params(labelsize="x-small")
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_fontsize("small")
