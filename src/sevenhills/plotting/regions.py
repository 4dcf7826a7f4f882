"""Pictures of what a density says: where its mass is, its modes, and how sure it is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..density import KernelMixture
from .canvas import COLOURS, current_axes, in_lines

_N_GRID = 400
#: What a line of one feature leaves out at either end.
_TAIL = 0.001


def plot_regions(
    model: Any,
    masses: Sequence[float] = (0.95, 0.8, 0.5),
    ax: Any = None,
    colour: str = COLOURS[0],
    modes: bool = True,
) -> Any:
    """Draw the smallest regions that hold given masses, and the modes with their shares.

    Parameters
    ----------
    model : KernelMixture, or a fitted estimator
        Of two features.
    masses : sequence of float, default=(0.95, 0.8, 0.5)
        The mass of every region.
    ax : matplotlib axes, optional
    colour : str
    modes : bool, default=True
        Whether to mark the modes, which takes seconds for a hundred thousand kernels and minutes
        for a million.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, datasets, plotting
    >>> rome = ROME().fit(datasets.load("aniso").sample(500, random_state=0))
    >>> ax = plotting.plot_regions(rome, ax=Figure().subplots())
    >>> len(ax.texts)  # the shares of the modes
    3
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    density = _with_features(model, 2)
    ax = current_axes(ax)
    for mass in sorted(masses, reverse=True):
        outlines = density.hdr_contours(mass)
        patch = Path.make_compound_path(*(Path(outline, closed=True) for outline in outlines))
        ax.add_patch(PathPatch(patch, facecolor=colour, alpha=0.25, edgecolor="none"))
        ax.add_patch(PathPatch(patch, facecolor="none", edgecolor=colour, linewidth=0.8))
    ax.autoscale()
    if modes:
        found = density.modes()
        ax.plot(*found.locations.T, "^", color="black", ms=6)
        for place, share in zip(found.locations, found.shares, strict=True):
            ax.annotate(f"{share:.0%}", place, xytext=(5, 5), textcoords="offset points")
    shares = ", ".join(f"{mass:.0%}" for mass in masses)
    ax.set(
        xlabel=in_lines(feature_name(density, 0)),
        ylabel=in_lines(feature_name(density, 1)),
        title=f"regions of {shares}",
    )
    return ax


def plot_line(
    model: Any,
    ax: Any = None,
    level: float | None = 0.9,
    colour: str = COLOURS[0],
    label: str | None = None,
) -> Any:
    """Draw the density of one feature as a line, with the band in which resampling leaves it.

    Parameters
    ----------
    model : KernelMixture, or a fitted estimator
        Of one feature; take ``marginal`` or ``conditional`` first if it has more.
    ax : matplotlib axes, optional
    level : float or None, default=0.9
        The share of replicates of ``bootstrap`` within the band; None for no band.
    colour : str
    label : str, optional
        What the legend says.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sevenhills import ROME, datasets, plotting
    >>> rome = ROME().fit(datasets.load("aniso").sample(500, random_state=0))
    >>> ax = plotting.plot_line(rome.marginal(0), ax=Figure().subplots())
    >>> ax.get_ylabel()
    'density'
    """
    density = _with_features(model, 1)
    ax = current_axes(ax)
    low, high = density.interval(1 - 2 * _TAIL)
    x = np.linspace(low, high, _N_GRID)
    (line,) = ax.plot(x, density.pdf(x[:, None]), color=colour, label=label)
    if level is not None:
        lower, upper = density.bootstrap().band(x[:, None], level)
        ax.fill_between(x, np.exp(lower), np.exp(upper), color=colour, alpha=0.25, linewidth=0)
    ax.set(xlabel=in_lines(feature_name(density, 0)), ylabel="density")
    # The bottom is zero without a margin; the top follows all lines.
    line.sticky_edges.y.append(0.0)
    ax.update_datalim([(low, 0.0)])
    ax.autoscale(axis="y")
    return ax


def mixture_of(model: Any) -> KernelMixture:
    """Return the kernel mixture of a model."""
    if hasattr(model, "fit"):
        check_is_fitted(model)
    density = getattr(model, "density_", model)
    if not isinstance(density, KernelMixture):
        raise TypeError(f"model must have a mixture of kernels, got {type(model).__name__}")
    return density


def feature_name(density: KernelMixture, index: int) -> str:
    """Return what a feature is called on an axis."""
    names = density.feature_names
    return f"feature {index}" if names is None else names[index]


def _with_features(model: Any, n_features: int) -> KernelMixture:
    """Return the kernel mixture of a model, which must have some number of features."""
    density = mixture_of(model)
    if density.n_features != n_features:
        raise ValueError(
            f"model must have {n_features} feature(s), has {density.n_features}; take marginal or "
            "conditional first"
        )
    return density
