"""Pictures of a fit; every function draws on an axes and returns it. Needs the extra ``plot``."""

from .comparisons import plot_samples
from .densities import plot_corner, plot_difference
from .fits import (
    plot_candidates,
    plot_clusters,
    plot_density,
    plot_members,
    plot_reachability,
    plot_trajectories,
)
from .forecasts import plot_calibration, plot_comparison, plot_forecast
from .regions import plot_line, plot_regions

__all__ = [
    "plot_calibration",
    "plot_candidates",
    "plot_clusters",
    "plot_comparison",
    "plot_corner",
    "plot_density",
    "plot_difference",
    "plot_forecast",
    "plot_line",
    "plot_members",
    "plot_reachability",
    "plot_regions",
    "plot_samples",
    "plot_trajectories",
]
