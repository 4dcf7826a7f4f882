"""Axes, colors and legends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sevenhills import ROME, AutoROME, forecast, plotting
from sevenhills.plotting.canvas import in_lines

from . import pictures

pytestmark = pytest.mark.usefixtures("_no_place_is_searched_for_a_legend")


LEGENDS = [
    "plot_candidates",
    "plot_clusters",
    "plot_density",
    "plot_difference",
    "plot_forecast",
    "plot_reachability",
    "plot_samples",
]


@pytest.fixture(scope="module")
def drawings():
    return pictures.drawings()


def test_without_axes_the_current_ones_are_used(aniso, ax):
    assert plotting.plot_reachability(aniso[0]) is ax


def test_large_data_are_drawn_in_part(ax):
    X = np.random.RandomState(0).standard_normal((30_000, 2))
    rome = ROME(selection=None).fit(X)
    plotting.plot_clusters(rome, X, ax)
    assert sum(len(line.get_xdata()) for line in ax.lines) == 10_000
    assert ax.get_legend().get_title().get_text() == "10,000 of 30,000 samples"
    ax.clear()
    plotting.plot_samples(X, X[:10], ax)
    assert [len(line.get_xdata()) for line in ax.lines] == [10_000, 10]


def test_many_clusters_have_no_legend(ax):
    corners = np.repeat(10.0 * np.indices((3, 4)).reshape(2, -1).T, 20, axis=0)
    X = corners + np.random.RandomState(0).standard_normal(corners.shape)
    rome = ROME().fit(X)
    for draw in (plotting.plot_reachability, lambda rome, ax: plotting.plot_clusters(rome, X, ax)):
        draw(rome, ax)
        assert ax.get_legend() is None
    assert "12 clusters" in ax.get_title()


def marks_of(ax):
    """Return the points of all lines, areas, marks and bars, in pixels."""
    drawn = [*ax.lines, *ax.patches]
    shown = [each.get_path().transformed(each.get_transform()).vertices for each in drawn]
    for each in ax.collections:
        offsets = each.get_offset_transform().transform(each.get_offsets())
        paths = [path.transformed(each.get_transform()).vertices for path in each.get_paths()]
        shown += [offsets] if len(offsets) > 1 else paths
    return np.concatenate(shown)


@pytest.mark.parametrize("name", LEGENDS)
def test_legends_cover_no_data(drawings, name):
    figure = Figure(figsize=(3.5, 2.8), layout="constrained")
    canvas, ax = FigureCanvasAgg(figure), figure.subplots()
    drawings[name](ax)
    canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert box.count_contains(marks_of(ax)) == 0
    outer = ax.get_window_extent()
    assert outer.x0 <= box.x0
    assert box.y1 <= outer.y1


@pytest.mark.whole
def test_only_these_pictures_have_legends(drawings):
    axes = {name: Figure().subplots() for name in drawings}
    for name, draw in drawings.items():
        draw(axes[name])
    assert {name for name, ax in axes.items() if ax.get_legend()} == set(LEGENDS)


def test_more_can_be_drawn_below_a_legend(aniso, ax):
    plotting.plot_clusters(*aniso, ax)
    ax.plot([50], [90], "o")
    assert ax.get_ylim()[1] > 90


def test_long_names_are_cut(aniso, ax):
    name = "the height of the water above the zero of the gauge (meters)"
    X = pd.DataFrame(aniso[1], columns=["east", name])
    plotting.plot_clusters(ROME().fit(X), X, ax)
    lines = ax.get_ylabel().splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= 28
    assert lines[-1].endswith("…")


def test_lines_end_between_words():
    name = "od280/od315_of_diluted_wines"
    lines = in_lines(name, 18, max_lines=3).splitlines()
    assert "".join(lines) == name
    assert all(line[-1] in "/_" for line in lines[:-1])
    assert in_lines("color_intensity", 28) == "color_intensity"


#: No formulas of matplotlib, though they look like some.
AWKWARD_NAMES = [("a_$x^$ and $$", r"\frac{$ of _^{}%#&~ in $")]


def draw_all(first, second, ax):
    """Draw every picture whose text comes from the names of columns or of forecasts."""
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.standard_normal((60, 2)), columns=[first, second])
    rome, auto = ROME().fit(X), AutoROME().fit(X)
    wide = ROME().fit(2 * X)
    walks = np.cumsum(rng.standard_normal((12, 6, 3, 2)), axis=2)
    evaluations = [
        forecast.evaluate(f * walks[:, 1:], walks[:, 0], measures=("ece", "ade"), estimator="kde")
        for f in (1.0, 0.5)
    ]
    comparison = forecast.compare(*evaluations, names=(first, second), n_permutations=9)
    line = rome.density_.marginal([0])
    for draw in (
        lambda: plotting.plot_clusters(rome, X, ax),
        lambda: plotting.plot_density(auto, X, ax),
        lambda: plotting.plot_regions(rome, ax=ax),
        lambda: plotting.plot_line(line, ax=ax),
        lambda: plotting.plot_corner(rome, X),
        lambda: plotting.plot_difference(rome, wide, (first, second), ax),
        lambda: plotting.plot_difference(line, line, (first, second), ax),
        lambda: plotting.plot_samples(X, X, ax),
        lambda: plotting.plot_samples(X[[first]], X[[first]], ax),
        lambda: plotting.plot_calibration(evaluations[0], ax, label=first).legend(loc="upper left"),
        lambda: plotting.plot_comparison(comparison, ax),
        lambda: plotting.plot_reachability(rome, ax),
        lambda: plotting.plot_candidates(rome, ax),
        lambda: plotting.plot_members(auto, ax),
    ):
        ax.clear()
        made = draw()
        yield (made if made is not None and hasattr(made, "savefig") else ax.figure)


@pytest.mark.parametrize(("first", "second"), AWKWARD_NAMES)
@pytest.mark.whole
def test_names_are_no_formulas(ax, first, second):
    for figure in draw_all(first, second, ax):
        figure.draw_without_rendering()


def test_dollars_are_shown(ax):
    X = pd.DataFrame(np.random.RandomState(0).standard_normal((60, 2)), columns=["a_$x^$", "$y$"])
    plotting.plot_clusters(ROME().fit(X), X, ax)
    assert ax.xaxis.label._preprocess_math(ax.get_xlabel()) == ("a_$x^$", False)


@pytest.mark.slow
def test_pictures_are_the_same_in_every_process_to_the_pixel(drawings):
    command = [sys.executable, "-m", "tests.plotting.pictures"]
    # Sets of another process have another order.
    elsewhere = {**os.environ, "PYTHONHASHSEED": "1"}
    root = Path(__file__).parents[2]
    found = subprocess.run(command, env=elsewhere, cwd=root, check=True, capture_output=True)
    here = {name: pictures.digest(draw) for name, draw in drawings.items()}
    assert json.loads(found.stdout) == here
    assert sorted(here) == sorted(plotting.__all__)
    assert len(set(here.values())) == len(here)
