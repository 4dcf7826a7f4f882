"""Pictures as part of a page, in the colours of its text."""

import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np

from ..extras import import_extra
from ..forecast import Evaluation
from ..plotting.canvas import COLORS, add_legend, new_figure
from ..plotting.forecast_plots import plot_calibration, plot_forecast

#: Stands for the colour of the text until the picture is on the page, which may be dark or light.
_INK = "#012345"
_STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def drawn(draw: Callable[[Any], Any], size: tuple[float, float], name: str) -> str:
    """Return what a function draws on axes as an element of a page.

    Parameters
    ----------
    draw : callable
        Called with axes of matplotlib.
    size : tuple of float
        Width and height in inches.
    name : str
        What the picture shows, for those who cannot see it.
    """
    matplotlib = import_extra("matplotlib", "plot", "reports need matplotlib")
    # Parts of pictures on one page must not have one name.
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure, axes = new_figure(1, 1, size)
        draw(axes[0, 0])
        file = StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = svg.replace(COLORS[0].lower(), "var(--blue)")
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{name}"', 1)


def calibration(evaluation: Evaluation) -> str:
    """Return how often regions hold the truth."""
    return drawn(
        lambda ax: plot_calibration(evaluation, ax), (4.2, 4.2), "Coverage of the forecasts"
    )


def spread(evaluation: Evaluation, measure: str) -> str:
    """Return how a measure is spread over the scenes."""
    values = evaluation.scenes[measure]
    values = values[np.isfinite(values)]
    low, high = np.percentile(values, [0.5, 99.5])
    mean = evaluation[measure].mean

    def draw(ax: Any) -> None:
        # What lies beyond stands in the outermost bars.
        ax.hist(np.clip(values, low, high), bins=30, color=COLORS[0], alpha=0.8)
        ax.axvline(mean, color=COLORS[1], lw=1.5, label=f"mean {mean:.4g}")
        ax.set(xlabel=measure, ylabel="scenes")
        add_legend(ax, labelcolor=_INK)

    return drawn(draw, (4.2, 3.7), f"{measure} of the scenes")


def scene(predictions: Any, truth: Any, number: int, title: str, agents: bool) -> str:
    """Return the samples of a scene beside the truth."""

    def draw(ax: Any) -> None:
        plot_forecast(predictions, truth, number, ax, agents)
        ax.set_title(title)
        ax.get_legend().remove()  # the page says it once for all scenes

    return drawn(draw, (3.4, 3.2), title)
