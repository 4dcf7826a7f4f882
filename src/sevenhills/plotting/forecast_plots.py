"""Pictures of forecasts, their calibration and their comparison."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from ..forecast import Comparison, Evaluation
from ..forecast.inputs import open_forecasts
from ..validation import check_count
from .canvas import (
    COLORS,
    LETTER,
    NOISE_COLOR,
    add_legend,
    current_axes,
    draw_paths,
    font_pixels,
    in_lines,
    literal,
)


def plot_calibration(evaluation: Evaluation, ax: Any = None, label: str | None = None) -> Any:
    """Draw the share of truths in highest-density regions over the probability of the regions.

    Forecasts are too narrow below the diagonal and too wide above it. Bars are confidence
    intervals.

    Parameters
    ----------
    evaluation : Evaluation
        With the measure "ece".
    ax : matplotlib axes, optional
        Several forecasts may be drawn on the same axes.
    label : str, optional
        The name of the forecasts in a legend.
    """
    coverage = evaluation.coverage
    if coverage is None:
        raise ValueError("evaluation has no coverage; evaluate with the measure 'ece'")
    ax = current_axes(ax)
    ax.plot([0, 1], [0, 1], color=NOISE_COLOR, lw=0.8, zorder=0)
    beside = np.abs(np.stack([coverage.low, coverage.high]) - coverage.observed)
    error = f"ECE {evaluation['ece'].mean:.3f}"
    name = None if label is None else f"{literal(label)}, {error}"
    style = {"color": COLORS[len(ax.containers) % len(COLORS)], "marker": "o", "ms": 3, "lw": 1}
    ax.errorbar(coverage.levels, coverage.observed, beside, label=name, **style)
    ax.set(xlabel="probability of the region", ylabel="share of truths in it")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    alone = f"{error}, by chance {coverage.expected_error:.3f}"
    # With several forecasts, the legend holds the errors.
    ax.set_title(alone if len(ax.containers) == 1 else "")
    return ax


def plot_comparison(comparison: Comparison, ax: Any = None) -> Any:
    """Draw the difference of two forecasters in every measure, in standard errors.

    The first forecaster is better left of zero. Differences are divided by their standard errors,
    because measures have different units.

    Parameters
    ----------
    comparison : Comparison
    ax : matplotlib axes, optional
    """
    ax = current_axes(ax)
    rows = comparison.summary
    heights = -np.arange(len(rows))
    unit = np.array([row.standard_error for row in rows])
    unit = np.where(unit > 0, unit, np.nan)
    limits = np.array([[row.low, row.difference, row.high] for row in rows]) / unit[:, None]
    middle = limits[:, 1]
    beside = np.abs(limits[:, [0, 2]].T - middle)
    ax.axvline(0, color=NOISE_COLOR, lw=0.8, zorder=0)
    ax.errorbar(middle, heights, xerr=beside, ls="", marker="o", ms=4, color=COLORS[0])
    for row, x, y in zip(rows, middle, heights, strict=True):
        if np.isfinite(x):
            text = f"{row.difference:+.3g}, p = {row.p_value:.2g}"
            ax.annotate(text, (x, y), (0, 5), textcoords="offset points", ha="center", fontsize=7)
    ax.set_ylim(0.5 - len(rows), 0.7)
    first, second = comparison.names
    ax.set_title(in_lines(f"{first} minus {second}", 50))
    ax.set_xlabel("difference in standard errors")
    _name_rows(ax, heights, [row.measure for row in rows])
    return ax


def _name_rows(ax: Any, heights: np.ndarray, names: Sequence[str]) -> None:
    """Name rows at the left, inside of the axes, where a saved figure does not cut them."""
    ax.set_yticks(heights, names, ha="left", fontsize="small")
    ax.tick_params(axis="y", length=0, pad=-4)
    letters = LETTER * font_pixels(ax, "small") / ax.get_window_extent().width
    # Fractions of the width for names, and for the numbers above the outermost marks.
    left, beside = min(letters * max(map(len, names)), 0.5), 0.15
    low, high = ax.dataLim.intervalx
    unit = (high - low) / (1 - left - 2 * beside)
    if isfinite(unit):
        ax.set_xlim(low - (left + beside) * unit, high + beside * unit)


def plot_forecast(
    predictions: Any, truth: Any, scene: int = 0, ax: Any = None, agents: bool = False
) -> Any:
    """Draw the samples of a scene and the truth.

    Parameters
    ----------
    predictions, truth : array-like, frame or path-like
        As for :func:`~sevenhills.forecast.evaluate`, with two coordinates.
    scene : int, default=0
        The index of the scene.
    ax : matplotlib axes, optional
    agents : bool, default=False
        Whether the arrays have an axis of agents.
    """
    forecasts = open_forecasts(predictions, truth, agents)
    if forecasts.n_coordinates != 2:
        raise ValueError(f"only 2 coordinates can be drawn, got {forecasts.n_coordinates}")
    if check_count(scene, "scene") >= forecasts.n_scenes:
        raise ValueError(f"scene must be below {forecasts.n_scenes}, got {scene}")
    ax = current_axes(ax)
    paths, truths = forecasts.read(scene, scene + 1)
    for agent in range(forecasts.n_agents):
        lines = (path[~np.isnan(path[:, 0])] for path in paths[0, :, agent])
        color = COLORS[(0, 2, 3, 4)[agent % 4]]
        name = "samples" if agent == 0 else None
        draw_paths(ax, lines, colors=color, linewidths=0.6, alpha=0.4, label=name)
        for i, path in enumerate(truths[0, :, agent]):
            name = "truth" if agent == 0 and i == 0 else None
            ax.plot(*path.T, "o-", color=COLORS[1], ms=2.5, lw=1.4, label=name)
    add_legend(ax)
    return ax
