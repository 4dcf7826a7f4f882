import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sevenhills import ROME, AutoROME, datasets, forecast, plotting

from . import pictures

mpl.use("Agg")
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


@pytest.fixture
def ax():
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


@pytest.fixture(scope="module")
def aniso():
    X = datasets.load("aniso").sample(300, random_state=0)
    return ROME().fit(pd.DataFrame(X, columns=["east", "north"])), X


@pytest.fixture(scope="module")
def auto():
    X = datasets.make_shapes(150, random_state=0)
    return AutoROME().fit(X), X


def test_reachability_shows_cut_and_clusters(aniso, ax):
    rome, _ = aniso
    assert plotting.plot_reachability(rome, ax) is ax
    assert len(ax.collections) == len(np.unique(rome.labels_))
    assert f"{rome.candidates_.scores.max():.3f}" in ax.get_title()


def test_clusters_are_named(aniso, ax):
    rome, X = aniso
    plotting.plot_clusters(rome, X, ax)
    assert ax.get_xlabel() == "east"
    assert sum(len(line.get_xdata()) for line in ax.lines) == len(X)


def test_density_has_contours(aniso, ax):
    rome, X = aniso
    plotting.plot_density(rome, X, ax)
    assert len(ax.patches) == 3
    assert ax.get_ylabel() == "north"


def test_density_without_samples(aniso, ax):
    rome, X = aniso
    plotting.plot_density(rome, X, ax, n_drawn=0)
    assert [len(line.get_xdata()) for line in ax.lines] == [len(X)]


def test_members_have_names_weights_and_gains(auto, ax):
    model, _ = auto
    assert plotting.plot_members(model, ax) is ax
    names = [name for cluster in model.clusters_ for name in cluster.members]
    said = [label.get_text().replace("\n", " ") for label in ax.get_yticklabels()]
    assert said == names
    weights = np.concatenate([cluster.weights for cluster in model.clusters_])
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], weights)
    said = {text.get_text() for text in ax.texts}
    for cluster in model.clusters_:
        gain = f"gain {cluster.gain:.2f} ± {cluster.gain_error:.2f}"
        assert f"cluster {cluster.label}: {gain}" in said


def test_other_pictures_take_stacked_fits(auto, ax):
    model, X = auto
    plotting.plot_clusters(model, X, ax)
    plotting.plot_density(model, X, ax)
    assert plotting.plot_reachability(model, ax) is ax


def test_trajectories(ax):
    X = datasets.load("trajectories").sample(20, random_state=0)
    plotting.plot_trajectories(X, np.arange(20) % 2, ax)
    assert sum(len(lines.get_segments()) for lines in ax.collections) == 20


def test_without_axes_the_current_ones_are_used(aniso, ax):
    assert plotting.plot_reachability(aniso[0]) is ax


def test_what_cannot_be_drawn_is_refused(aniso, ax):
    rome, X = aniso
    with pytest.raises(ValueError, match="ordering"):
        plotting.plot_reachability(ROME(selection=None).fit(X), ax)
    with pytest.raises(ValueError, match="training samples"):
        plotting.plot_clusters(rome, X[:5], ax)
    with pytest.raises(ValueError, match=r"2 feature\(s\)"):
        plotting.plot_density(ROME().fit(np.eye(6) + X[:6, :1]), X, ax)


@pytest.mark.slow
def test_pictures_of_the_pages(tmp_path):
    script = Path(__file__).parents[1] / "docs" / "pictures.py"
    runpy.run_path(str(script))["main"](tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {"aniso.png", "auto.png", "questions.png", "steps.png"}


def test_regions_and_lines(aniso, ax):
    rome, X = aniso
    assert plotting.plot_regions(rome, confidences=(0.5,), ax=ax) is ax
    assert len(ax.patches) == 2
    assert len(ax.texts) == len(rome.modes())
    assert ax.get_xlabel() == "east"
    assert plotting.plot_regions(rome.density_, ax=ax, modes=False) is ax
    line = plotting.plot_line(rome.marginal("north"), ax, confidence=None, label="y")
    assert line.lines[-1].get_label() == "y"
    for draw, model in ((plotting.plot_regions, rome.marginal(0)), (plotting.plot_line, rome)):
        with pytest.raises(ValueError, match="feature"):
            draw(model, ax=ax)
    with pytest.raises(TypeError, match="must be a KernelMixture"):
        plotting.plot_regions(ROME(density="knn").fit(X), ax=ax)


def test_candidates_show_the_chosen_one(aniso, ax):
    rome, X = aniso
    assert plotting.plot_candidates(rome, ax) is ax
    chosen = rome.candidates_.chosen
    ring = ax.lines[-1]
    assert ring.get_xdata() == rome.candidates_.n_clusters[chosen]
    assert ring.get_ydata() == rome.candidates_.scores.max()
    drawn = sum(len(points.get_offsets()) for points in ax.collections)
    assert drawn == np.sum(rome.candidates_.scores > -1.1)
    with pytest.raises(ValueError, match="no candidates"):
        plotting.plot_candidates(ROME(selection=None).fit(X), ax)


def test_estimated_scores_have_bars(aniso, ax):
    rome = ROME(exact_below=0).fit(aniso[1])
    plotting.plot_candidates(rome, ax)
    assert len(ax.containers) == 2


def test_corner_has_names_at_its_edges(ax):
    X = pd.DataFrame(datasets.load("trajectories").sample(100, random_state=0))
    X.columns = [f"c{i}" for i in X.columns]
    rome = ROME().fit(X)
    assert plotting.plot_corner(rome, X, ["c3", 0, "c23"], ax) is ax
    panels = ax.child_axes
    assert [panel.get_xlabel() for panel in panels] == ["", "", "", "c3", "c0", "c23"]
    assert [panel.get_ylabel() for panel in panels] == ["", "c0", "", "c23", "", ""]
    # The histogram of the first panel is the named column's, and panels of a column share it.
    heights = np.histogram(X["c3"], 40, density=True)[0]
    np.testing.assert_allclose([bar.get_height() for bar in panels[0].patches], heights)
    assert panels[0].get_xlim() == panels[1].get_xlim() == panels[3].get_xlim()
    assert panels[1].get_ylim() == panels[2].get_xlim()
    with pytest.raises(ValueError, match="24 features: choose up to 8"):
        plotting.plot_corner(rome, ax=ax)


def test_regions_of_pairs_hold_their_masses(aniso, ax):
    rome, _ = aniso
    plotting.plot_corner(rome, ax=ax)
    lines = ax.child_axes[1].collections[0].get_paths()
    for path, mass in zip(lines, (0.95, 0.5), strict=True):
        level = rome.density_.logpdf(path.vertices)
        # The grid of the picture is coarse: its lines are within a few percent of mass.
        coverage = rome.density_.hdr_probability(path.vertices[np.isfinite(level)])
        assert abs(np.median(coverage) - mass) < 0.03


@pytest.mark.parametrize("n_features", [1, 2])
def test_differences_of_densities(aniso, ax, n_features):
    rome, X = aniso
    other = ROME(selection=None).fit(pd.DataFrame(X, columns=["east", "north"]))
    pair = [model.marginal(list(range(n_features))) for model in (rome, other)]
    assert plotting.plot_difference(*pair, ("one", "two"), ax) is ax
    assert ax.get_xlabel() == "east"
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == (["one", "two"] if n_features == 1 else ["half of one", "half of two"])
    with pytest.raises(ValueError, match="same one or two features"):
        plotting.plot_difference(pair[0], rome.marginal(list(range(3 - n_features))), ax=ax)


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
    name = "the height of the water above the zero of the gauge (metres)"
    X = pd.DataFrame(aniso[1], columns=["east", name])
    plotting.plot_clusters(ROME().fit(X), X, ax)
    lines = ax.get_ylabel().splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= 28
    assert lines[-1].endswith("…")


#: No formulas of matplotlib, though they look like some.
AWKWARD_NAMES = [("a_$x^$", "$$"), (r"\frac{$ of $", "_^{}%#&~ in $")]


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


@pytest.mark.parametrize("n_features", [1, 2, 4])
def test_samples_over_data_of_any_width(ax, n_features):
    X = np.random.RandomState(0).standard_normal((3000, n_features)).cumsum(axis=1)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(n_features)])
    assert plotting.plot_samples(frame, X[:500], ax) is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["data", "samples"]
    assert ax.get_xlabel() == ("c0" if n_features < 3 else "x")
    if n_features > 2:
        assert [len(each.get_segments()) for each in ax.collections] == [2000, 100]


def test_reachability_of_many_samples_keeps_its_peaks(ax):
    X = datasets.load("aniso").sample(5000, random_state=0)
    rome = ROME().fit(X)
    plotting.plot_reachability(rome, ax)
    tops = [c.get_paths()[0].vertices[:, 1].max() for c in ax.collections]
    order = rome.ordering_.order
    heights, labels = rome.ordering_.reachability[order], rome.labels_[order]
    heights[0] = heights[1:].max()
    assert tops == [heights[labels == label].max() for label in np.unique(labels)]


@pytest.fixture(scope="module")
def walks():
    paths = np.random.RandomState(0).standard_normal((20, 13, 3, 2)).cumsum(axis=2)
    return paths[:, 1:], paths[:, 0]


def test_calibration_has_a_bar_for_every_level(walks, ax):
    evaluations = [forecast.evaluate(f * walks[0], walks[1], measures="ece") for f in (1.0, 0.2)]
    for i, evaluation in enumerate(evaluations):
        assert plotting.plot_calibration(evaluation, ax, label=f"forecast {i}") is ax
    colors = {str(drawn.lines[0].get_color()) for drawn in ax.containers}
    assert len(colors) == 2
    observed = ax.containers[0].lines[0].get_ydata()
    np.testing.assert_array_equal(observed, evaluations[0].coverage.observed)
    assert ax.get_title() == ""
    labels = ax.get_legend_handles_labels()[1]
    assert labels == [
        f"forecast {i}, ECE {each['ece'].mean:.3f}" for i, each in enumerate(evaluations)
    ]
    ax.clear()
    assert "by chance" in plotting.plot_calibration(evaluations[0], ax).get_title()
    with pytest.raises(ValueError, match="'ece'"):
        plotting.plot_calibration(forecast.evaluate(*walks, measures="ade"), ax)


def test_a_comparison_names_measures_and_differences(walks, ax):
    first, second = (
        forecast.evaluate(f * walks[0], walks[1], measures=("nll_step", "ade", "miss_rate"))
        for f in (1.0, 0.2)
    )
    comparison = forecast.compare(first, second, names=("wide", "narrow"), n_permutations=9)
    assert plotting.plot_comparison(comparison, ax) is ax
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["nll_step", "ade", "miss_rate"]
    assert "wide minus narrow" in ax.get_xlabel()
    assert any(f"{comparison['ade'].difference:+.3g}" in text.get_text() for text in ax.texts)


def test_a_forecast_shows_samples_and_truth(walks, ax):
    predictions, truth = walks[0].copy(), walks[1]
    predictions[3, 5:] = np.nan
    assert plotting.plot_forecast(predictions, truth, 3, ax) is ax
    drawn = [segment for segment in ax.collections[0].get_segments() if len(segment)]
    assert len(drawn) == 5
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), truth[3, :, 0])
    with pytest.raises(ValueError, match="below 20"):
        plotting.plot_forecast(predictions, truth, 20, ax)
    with pytest.raises(ValueError, match="only 2 coordinates"):
        plotting.plot_forecast(predictions[..., :1], truth[..., :1], 0, ax)


@pytest.mark.slow
def test_pictures_are_the_same_in_every_process_to_the_pixel(drawings):
    command = [sys.executable, "-m", "tests.pictures"]
    # Sets of another process have another order.
    elsewhere = {**os.environ, "PYTHONHASHSEED": "1"}
    root = Path(__file__).parents[1]
    found = subprocess.run(command, env=elsewhere, cwd=root, check=True, capture_output=True)
    here = {name: pictures.digest(draw) for name, draw in drawings.items()}
    assert json.loads(found.stdout) == here
    assert sorted(here) == sorted(plotting.__all__)
    assert len(set(here.values())) == len(here)
