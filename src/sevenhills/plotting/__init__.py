"""Pictures of fits, densities, samples and forecasts. Needs the extra ``plot``.

Every function draws on the axes ``ax``, by default the current axes of matplotlib, and returns the
axes. Of many samples, a random subset is drawn. The kernels of a density of more than 20,000 are
joined in cells that are finer than a picture, so that a million kernels take seconds.
"""

from .density_plots import plot_corner, plot_density, plot_difference, plot_line, plot_regions
from .fit_plots import (
    plot_candidates,
    plot_clusters,
    plot_members,
    plot_reachability,
    plot_samples,
    plot_trajectories,
)
from .forecast_plots import plot_calibration, plot_comparison, plot_forecast

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
