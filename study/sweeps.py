"""Fits of ROME with different numbers of neighbors, and pictures of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sevenhills.clustering import neighbors_for
from sevenhills.datasets import Distribution
from sevenhills.estimators import ROME
from sevenhills.extras import import_extra
from sevenhills.plotting.canvas import COLORS, new_figure

from .panels import MARKERS, WIDTH, title_of

#: Values of every parameter; the others keep their defaults.
SWEEPS: dict[str, tuple[int, ...]] = {
    "k_min": (2, 3, 5, 8, 12, 20),
    "k_max": (5, 10, 20, 40, 80),
    "alpha_k": (50, 100, 200, 400, 800, 1600, 3200),
}
DEFAULTS = {"k_min": 5, "k_max": 20, "alpha_k": 400}


@dataclass(frozen=True, eq=False)
class Sweep:
    """Results of fits with different values of one parameter.

    Attributes
    ----------
    parameter : str
        One of ``SWEEPS``.
    values : ndarray of shape (n_values,)
        The values of the parameter.
    n_neighbors : ndarray of shape (n_values,)
        The resulting number of neighbors, which determines the fit.
    n_clusters, noise_share, log_likelihood : ndarray of shape (n_runs, n_values)
        The number of clusters, the share of noise, and the held-out mean log density.
    """

    parameter: str
    values: np.ndarray
    n_neighbors: np.ndarray
    n_clusters: np.ndarray
    noise_share: np.ndarray
    log_likelihood: np.ndarray


def sweep_neighbors(
    distribution: Distribution, n_samples: int, runs: Sequence[int]
) -> dict[str, Sweep]:
    """Vary the three parameters of ROME that set the number of neighbors, one at a time.

    Parameters
    ----------
    distribution : Distribution
    n_samples : int
        The size of the training set, and of the held-out one.
    runs : sequence of int
        The runs of the study.

    Returns
    -------
    dict of str to Sweep
        By parameter.

    Examples
    --------
    >>> from sevenhills import datasets
    >>> from study.sweeps import sweep_neighbors
    >>> sweep = sweep_neighbors(datasets.load("aniso"), 300, runs=[0])["k_min"]
    >>> sweep.values.tolist(), sweep.n_neighbors.tolist()
    ([2, 3, 5, 8, 12, 20], [2, 3, 5, 8, 12, 20])
    >>> sweep.n_clusters[0].tolist()
    [3, 3, 3, 3, 3, 3]
    """
    n_features = distribution.split(0, 1)[0].shape[1]
    neighbors = {
        parameter: np.array([_neighbors(n_samples, n_features, parameter, v) for v in values])
        for parameter, values in SWEEPS.items()
    }
    # Different settings often give the same number of neighbors, and the same fit.
    distinct = np.unique(np.concatenate(list(neighbors.values())))
    found = np.array([_fit_all(distribution, n_samples, run, distinct) for run in runs])
    sweeps = {}
    for parameter, numbers in neighbors.items():
        clusters, noise, score = np.moveaxis(found[:, np.searchsorted(distinct, numbers)], -1, 0)
        values = np.array(SWEEPS[parameter])
        sweeps[parameter] = Sweep(parameter, values, numbers, clusters.astype(int), noise, score)
    return sweeps


def _neighbors(n_samples: int, n_features: int, parameter: str, value: int) -> int:
    settings = {**DEFAULTS, parameter: value}
    return neighbors_for(
        n_samples, n_features, settings["k_min"], settings["k_max"], settings["alpha_k"]
    )


def _fit_all(
    distribution: Distribution, n_samples: int, run: int, neighbors: np.ndarray
) -> list[tuple[int, float, float]]:
    """Return the number of clusters, share of noise and score for every number of neighbors."""
    train, test = distribution.split(run, n_samples)
    rows = []
    for k in neighbors.tolist():
        rome = ROME(min_std=distribution.min_std, k_min=k, k_max=k).fit(train)
        labels = rome.labels_
        rows.append((int(labels.max()) + 1, float(np.mean(labels < 0)), rome.score(test)))
    return rows


#: Numbers of samples, and runs for each of them.
SWEEP_SIZES = (300, 1000, 3000)
SWEEP_RUNS = 3

#: By distribution and number of samples, then by parameter.
Sweeps = Mapping[tuple[str, int], Mapping[str, Sweep]]


def sweep_all(chosen: list[Distribution], run: int) -> Sweeps:
    """Vary all parameters for every distribution and size, in consecutive runs."""
    runs = range(run, run + SWEEP_RUNS)
    return {
        (entry.name, size): sweep_neighbors(entry, size, runs)
        for entry in chosen
        for size in SWEEP_SIZES
    }


def describe_sweep() -> str:
    """Return the caption of a parameter's picture."""
    return (
        "ROME with one parameter changed and the others at their defaults (dotted line): mean and "
        f"range of {SWEEP_RUNS} runs. The parameters only set the number of neighbors, "
        "N M / alpha_k, limited to k_min and k_max; lines are constant where it does not change."
    )


def draw_sweep(sweeps: Sweeps, chosen: list[Distribution], parameter: str) -> Any:
    """Draw a row for every distribution and a column for every quantity."""
    titles = {
        "n_clusters": "clusters",
        "noise_share": "noise, in per cent",
        "log_likelihood": "gain in log-likelihood",
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
    """Draw mean and range over runs."""
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
    row[0].set_ylabel(title_of(entry, "\n"))
