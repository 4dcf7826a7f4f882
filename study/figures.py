"""All figures of the study."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from sevenhills import datasets
from sevenhills.datasets import Distribution
from sevenhills.extras import import_extra

from .boxes import METRICS, describe_boxes, draw_boxes, has_boxes
from .fit_pictures import (
    COLUMNS,
    Fits,
    baseline_columns,
    describe_close_ups,
    describe_clusters,
    describe_reachability,
    describe_samples,
    describe_walks,
    draw_close_ups,
    draw_clusters,
    draw_data,
    draw_reachability,
    draw_samples,
)
from .panels import LOOK, is_plane, save
from .sweeps import SWEEPS, describe_sweep, draw_sweep, sweep_all


@dataclass(frozen=True)
class Figure:
    """A figure in a file, with its title and caption.

    Attributes
    ----------
    stem : str
        The name of its files without the extension.
    title : str
    caption : str
    """

    stem: str
    title: str
    caption: str


def draw_figures(
    folder: Path,
    results: Mapping[str, np.ndarray] | None,
    *,
    distributions: Sequence[str],
    run: int = 0,
    formats: Sequence[str] = ("png", "svg"),
    progress: Callable[[str], None] | None = None,
) -> list[Figure]:
    """Draw the figures of the study and write them into a folder.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    results : mapping of str to ndarray, or None
        Columns "distribution", "run", "estimator", "metric" and "value". There are no box plots
        without rows.
    distributions : sequence of str
        The distributions to draw.
    run : int, default=0
        The run of the study.
    formats : sequence of str, default=("png", "svg")
        The extensions of the files.
    progress : callable, optional
        Called with a line of text before every figure, and for figures that are left out.

    Returns
    -------
    list of Figure
        In the order of the page.
    """
    say = progress or _say_nothing
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    matplotlib = import_extra("matplotlib", "plot", "the figures need matplotlib")
    chosen = [datasets.load(name) for name in distributions]
    figures = []
    with matplotlib.rc_context(LOOK):
        for figure, draw in _plan(Fits(run), chosen, results, say):
            say(f"drawing {figure.stem}")
            save(draw(), folder, figure.stem, formats)
            figures.append(figure)
    return figures


Planned = tuple[Figure, Callable[[], Any]]


def _plan(
    fits: Fits,
    chosen: list[Distribution],
    results: Mapping[str, np.ndarray] | None,
    say: Callable[[str], None],
) -> Iterator[Planned]:
    """Yield every figure with the function that draws it."""
    if not chosen:
        say("no figures: there are no distributions")
        return
    yield from _plan_fits(fits, chosen)
    yield from _plan_sweeps(fits.run, chosen)
    if results is None or len(results["value"]) == 0:
        say("no box plots: there are no results")
        return
    yield from _plan_boxes(results, chosen, say)


def _plan_fits(fits: Fits, chosen: list[Distribution]) -> Iterator[Planned]:
    """Yield the figures of data, samples, clusters and orderings."""
    plane = [entry for entry in chosen if is_plane(entry)]
    walks = [entry for entry in chosen if not is_plane(entry)]
    yield (
        Figure("data", "Data sets", "One training set of every distribution."),
        partial(draw_data, fits, chosen),
    )
    if plane:
        yield (
            Figure("samples", "Samples of the fits", describe_samples(fits)),
            partial(draw_samples, fits, plane, COLUMNS),
        )
        yield (
            Figure("density_close", "Densities of the fits, close-ups", describe_close_ups()),
            partial(draw_close_ups, fits, plane),
        )
    if walks:
        yield (
            Figure("samples_walks", "Sampled walks", describe_walks(fits)),
            partial(draw_samples, fits, walks, baseline_columns()),
        )
    for selection, name in {"silhouette": "silhouettes", "dbcv": "DBCV"}.items():
        yield (
            Figure(f"clusters_{selection}", f"Clusters chosen by {name}", describe_clusters()),
            partial(draw_clusters, fits, chosen, selection),
        )
    yield (
        Figure("reachability", "Reachability plots", describe_reachability(fits)),
        partial(draw_reachability, fits, chosen),
    )


def _plan_sweeps(run: int, chosen: list[Distribution]) -> Iterator[Planned]:
    """Yield a figure for every parameter; the first one makes all fits."""
    sweeps = cache(partial(sweep_all, chosen, run))

    def draw(parameter: str) -> Any:
        return draw_sweep(sweeps(), chosen, parameter)

    for parameter in SWEEPS:
        figure = Figure(f"sweep_{parameter}", f"ROME with other {parameter}", describe_sweep())
        yield figure, partial(draw, parameter)


def _plan_boxes(
    results: Mapping[str, np.ndarray], chosen: list[Distribution], say: Callable[[str], None]
) -> Iterator[Planned]:
    """Yield a figure for every metric with results."""
    present = set(np.asarray(results["metric"]).tolist())
    for metric in [name for name in METRICS if name in present]:
        title, _ = METRICS[metric]
        shown = [entry for entry in chosen if has_boxes(results, metric, entry)]
        if shown:
            figure = Figure(f"boxes_{metric}", title, describe_boxes(metric))
            yield figure, partial(draw_boxes, results, metric, shown)
    for metric in sorted(present - set(METRICS)):
        say(f"no box plot of {metric}: it is not one of {', '.join(METRICS)}")


def _say_nothing(text: str) -> None:
    pass
