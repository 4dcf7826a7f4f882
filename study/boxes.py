"""Box plots of the metrics over runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sevenhills.datasets import Distribution
from sevenhills.extras import import_extra
from sevenhills.plotting.canvas import DATA_COLOR, current_axes

from .catalogue import RECIPES, name_of, published
from .panels import new_panels, title_of

#: The estimators with a box, from top to bottom.
BOXES = ("rome", "auto", "parzen", "vine", "kde", "kde_cv", "gmm", "oracle")
#: Title and axis label of the figure of every metric.
METRICS = {
    "D_JS": ("Divergence between two fits", "$D_{JS}$ (0 is best)"),
    "W_hat": ("Transport cost of samples", r"$\hat{W}$ (0 is best)"),
    "L_hat": ("Held-out log-likelihood", r"$\hat{L}$ (more is better)"),
    "D_JS_true": ("Divergence from the truth", "$D_{JS}$ from the truth (0 is best)"),
    "D_JS_as_published": (
        "Divergence from the published truth",
        "$D_{JS}$ from the published truth (0 is best)",
    ),
}

#: Absolute values of W_hat below this are noise.
_W_NOISE = 0.3
#: A median log-likelihood this far below the best is written as a number, not drawn.
_MAX_BELOW = 30.0


def has_boxes(results: Mapping[str, np.ndarray], metric: str, entry: Distribution) -> bool:
    """Return whether a distribution has results of a metric."""
    rows = np.asarray(results["metric"]) == metric
    rows &= np.asarray(results["distribution"]) == entry.name
    return bool((rows & np.isin(results["estimator"], BOXES)).any())


def describe_boxes(metric: str) -> str:
    """Return the caption of a metric's picture."""
    remarks = {
        "W_hat": f" The gray band, up to {_W_NOISE}, is the range of noise. The scale is linear "
        "up to 1 and logarithmic beyond.",
        "L_hat": f" Medians more than {_MAX_BELOW:.0f} below the best are given as numbers.",
        "D_JS_true": " The published truth of varied is another density.",
    }
    return (
        "Boxes span the quartiles of the runs, with a line at the median; diamonds are the "
        "published means." + remarks.get(metric, "")
    )


def draw_boxes(results: Mapping[str, np.ndarray], metric: str, shown: list[Distribution]) -> Any:
    """Draw a panel for every distribution with a box for every estimator."""
    of_metric = np.asarray(results["metric"]) == metric
    table = {name: np.asarray(column)[of_metric] for name, column in results.items()}
    estimators = [name for name in BOXES if name in table["estimator"]]
    figure, panels = new_panels(len(shown), 4, 0.55 + 0.27 * len(estimators), sharey=True)
    for ax, entry in zip(panels, shown, strict=True):
        rows = table["distribution"] == entry.name
        groups = {name: table["value"][rows & (table["estimator"] == name)] for name in estimators}
        _draw_box_panel(ax, metric, groups, _published_means(entry, metric))
        ax.set_title(title_of(entry))
    figure.supxlabel(METRICS[metric][1], fontsize="medium")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", frameon=False)
    return figure


def _draw_box_panel(
    ax: Any, metric: str, groups: Mapping[str, np.ndarray], marks: Mapping[str, float]
) -> None:
    """Draw a box for every estimator, and remarks in place of values without a position."""
    least = _lowest_drawn(groups) if metric == "L_hat" else -np.inf
    far = {name for name, values in groups.items() if _median(values) < least}
    boxes = {name: _drawable(metric, groups[name], name in far) for name in groups}
    drawn_marks = {
        name: mark
        for name, mark in marks.items()
        if name in groups and len(_drawable(metric, np.array([mark]), mark < least))
    }
    titled = {RECIPES[name].title: values for name, values in boxes.items()}
    plot_boxes(titled, {RECIPES[name].title: mark for name, mark in drawn_marks.items()}, ax)
    _scale_metric(ax, metric, np.concatenate([*boxes.values(), list(drawn_marks.values())]))
    for row, (name, values) in enumerate(groups.items()):
        finite = values[np.isfinite(values)]
        if name in far:
            _remark(ax, -row, _describe_far(finite, marks.get(name)))
        elif marks.get(name, np.inf) < least:
            _remark(ax, -row, f"published {marks[name]:.0f}")
        elif len(finite) and not len(boxes[name]):
            _remark(ax, -row, "not above zero")
        elif len(finite) > len(boxes[name]):
            _remark(
                ax, -row + 0.45, f"{len(finite) - len(boxes[name])} of {len(values)} not above zero"
            )
        if len(values) == 0:
            _remark(ax, -row, "no results")
        elif len(finite) < len(values):
            lost = len(values) - len(finite)
            _remark(ax, -row - 0.45, f"{lost} of {len(values)} not finite")


def _drawable(metric: str, values: np.ndarray, is_far: bool) -> np.ndarray:
    """Return the values with a position on the axis, which is logarithmic for divergences."""
    least = 0.0 if metric.startswith("D_JS") else -np.inf
    return values[np.isfinite(values) & (values > least) & (not is_far)]


def _remark(ax: Any, y: float, text: str) -> None:
    """Write a remark at the height of a box."""
    where = {"transform": ax.get_yaxis_transform(), "ha": "left", "va": "center"}
    ax.text(0.03, y, text, fontsize=6, **where)


def _describe_far(values: np.ndarray, mark: float | None) -> str:
    text = f"far below: {np.median(values):.0f}"
    return text if mark is None else f"{text} (published {mark:.0f})"


def _median(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")


def _lowest_drawn(groups: Mapping[str, np.ndarray]) -> float:
    """Return the lowest value that is drawn; lower ones would compress the axis."""
    medians = [_median(values) for values in groups.values()]
    return max((median for median in medians if np.isfinite(median)), default=0.0) - _MAX_BELOW


def _scale_metric(ax: Any, metric: str, values: np.ndarray) -> None:
    """Choose a scale on which small and large values are visible."""
    ax.grid(axis="x", lw=0.3)
    ax.set_axisbelow(True)
    if metric == "W_hat":
        ax.axvspan(-_W_NOISE, _W_NOISE, color="#DDDDDD", lw=0, zorder=0)
        ax.axvline(0, color="black", lw=0.6)
        ax.set_xscale("symlog", linthresh=1)
        low, high = min(values.min(initial=-1.0), -1.0), max(values.max(initial=1.0), 1.0)
        _set_ticks(ax, 1.2 * low, 1.4 * high, [-100.0, -10.0, -1.0, 0.0, 1.0, 10.0, 100.0])
    elif metric != "L_hat" and len(values):
        ax.set_xscale("log")
        low, high = values.min() / 1.3, values.max() * 1.3
        decades = [10.0**power for power in range(-12, 1)]
        if sum(low <= tick <= high for tick in decades) < 2:
            decades = [step * tick for tick in decades for step in (1, 2, 5)]
        _set_ticks(ax, low, high, decades)
    else:
        ax.locator_params(axis="x", nbins=3)


def _set_ticks(ax: Any, low: float, high: float, ticks: list[float]) -> None:
    """Set the limits of the axis, with at most four of the ticks inside."""
    ticker = import_extra("matplotlib.ticker", "plot", "the figures need matplotlib")
    inside = [tick for tick in ticks if low <= tick <= high]
    inside = inside[:: -(-len(inside) // 4) or 1]
    ax.set_xticks(inside, [f"{tick:g}" for tick in inside])
    ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.set_xlim(low, high)


def _published_means(entry: Distribution, metric: str) -> dict[str, float]:
    """Return the published means of the main tables, by estimator."""
    if metric == "D_JS_true" and entry.name == "varied":
        return {}
    printed = "D_JS_true" if metric == "D_JS_as_published" else metric
    return {
        name_of(cell): cell.mean
        for cell in published()
        if (cell.distribution, cell.metric) == (entry.name, printed)
        and cell.table.startswith("baselines")
    }


def plot_boxes(groups: Mapping[str, Any], marks: Mapping[str, float], ax: Any = None) -> Any:
    """Draw a horizontal box for every group of numbers, the first on top.

    Whiskers reach to the last value within 1.5 interquartile ranges; values beyond are dots. An
    empty group leaves its row empty.

    Parameters
    ----------
    groups : mapping of str to array-like of shape (n_values,)
    marks : mapping of str to float
        Values that are marked with a diamond, by group.
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
        box.set_facecolor(DATA_COLOR)
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
