"""Pictures of how ROME's choice of neighbours changes its fit."""

from collections.abc import Mapping
from typing import Any

from sevenhills.datasets import Distribution
from sevenhills.extras import import_extra
from sevenhills.plotting.canvas import COLORS, new_figure

from .panels import MARKERS, WIDTH, spoken
from .sweeps import DEFAULTS, SWEEPS, Sweep, sweep_neighbours

#: The numbers of samples, and the runs for each.
SWEEP_SIZES = (300, 1000, 3000)
SWEEP_RUNS = 3

#: By distribution and number of samples, then by parameter.
Sweeps = Mapping[tuple[str, int], Mapping[str, Sweep]]


def sweep_all(chosen: list[Distribution], run: int) -> Sweeps:
    """Vary all parameters for every distribution and size, from a run on."""
    runs = range(run, run + SWEEP_RUNS)
    return {
        (entry.name, size): sweep_neighbours(entry, size, runs)
        for entry in chosen
        for size in SWEEP_SIZES
    }


def describe_sweep() -> str:
    """Return the caption of a parameter's picture."""
    return (
        "ROME with one parameter changed and the others at their defaults (dotted line): the mean "
        f"of {SWEEP_RUNS} runs, and their range. The parameters act through the number of "
        "neighbours N M / alpha_k, kept between k_min and k_max, alone; lines are level where it "
        "stays the same."
    )


def draw_sweep(sweeps: Sweeps, chosen: list[Distribution], parameter: str) -> Any:
    """Draw a row for every distribution and a column for everything that may change."""
    titles = {
        "n_clusters": "clusters",
        "noise_share": "noise, in per cent",
        "log_likelihood": "log-likelihood gained",
    }
    size = (WIDTH, 1.15 * len(chosen) + 0.9)
    figure, axes = new_figure(len(chosen), 3, size, sharex=True)
    for row, entry in zip(axes, chosen, strict=True):
        for i, n_samples in enumerate(SWEEP_SIZES):
            sweep = sweeps[entry.name, n_samples][parameter]
            for ax, quantity in zip(row, titles, strict=True):
                _draw_band(ax, sweep, quantity, i, f"N = {n_samples}")
        _finish_sweep_row(row, entry, parameter)
    for ax, title in zip(axes[0], titles.values(), strict=True):
        ax.set_title(title)
    for ax in axes[-1]:
        ax.set_xlabel(parameter)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    return figure


def _draw_band(ax: Any, sweep: Sweep, quantity: str, index: int, name: str) -> None:
    """Draw the mean over runs, and the range of the runs around it."""
    y = getattr(sweep, quantity).astype(float)
    if quantity == "noise_share":
        y = 100 * y
    if quantity == "log_likelihood":
        default = sweep.values == DEFAULTS[sweep.parameter]
        y = y - y[:, default]
    style = {"color": COLORS[index], "marker": MARKERS[index], "ls": ("-", "--", ":")[index % 3]}
    ax.plot(sweep.values, y.mean(axis=0), ms=6 - 1.5 * index, lw=1, mfc="none", label=name, **style)
    ax.fill_between(
        sweep.values, y.min(axis=0), y.max(axis=0), color=style["color"], alpha=0.2, lw=0
    )


def _finish_sweep_row(row: Any, entry: Distribution, parameter: str) -> None:
    ticker = import_extra("matplotlib.ticker", "plot", "the figures need matplotlib")
    row[0].yaxis.set_major_locator(ticker.MaxNLocator(3, integer=True))
    for ax in row[1:]:
        ax.yaxis.set_major_locator(ticker.MaxNLocator(3))
    for ax, least in zip(row, (0.0, 0.0, None), strict=True):
        ax.axvline(DEFAULTS[parameter], color="black", lw=0.6, ls=(0, (1, 2)), label="default")
        ax.set_xscale("log")
        ax.set_xticks(SWEEPS[parameter], [str(value) for value in SWEEPS[parameter]], fontsize=6.5)
        ax.xaxis.set_minor_locator(ticker.NullLocator())
        low, high = ax.get_ylim()
        if least is not None:
            ax.set_ylim(least, max(1.2 * high, 1.2))
        else:
            ax.set_ylim(min(low, -0.05), max(high, 0.05))
    row[0].set_ylabel(spoken(entry, "\n"))
