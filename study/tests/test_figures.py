"""Figures of the study."""

from functools import partial
from itertools import islice

import matplotlib.figure
import numpy as np
import pytest

from sevenhills import datasets, plotting
from study import boxes, figures, fit_pictures, sweeps
from study.figures import draw_figures

pytestmark = pytest.mark.usefixtures("_no_place_is_searched_for_a_legend")


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(fit_pictures, "N_SAMPLES", 60)
    monkeypatch.setattr(fit_pictures, "N_DRAWN", 30)
    monkeypatch.setattr(fit_pictures, "N_GRID", 8)
    monkeypatch.setattr(fit_pictures, "CLUSTER_SIZES", (50, 60))
    monkeypatch.setattr(sweeps, "SWEEP_SIZES", (50,))
    monkeypatch.setattr(sweeps, "SWEEP_RUNS", 1)
    monkeypatch.setitem(sweeps.SWEEPS, "k_min", (3, 5))
    monkeypatch.setitem(sweeps.SWEEPS, "k_max", (10, 20))
    monkeypatch.setitem(sweeps.SWEEPS, "alpha_k", (100, 400))
    # A vine of 24 dimensions takes seconds.
    monkeypatch.setattr(fit_pictures, "BASELINES", ("rome", "parzen"))


def make_results(metrics):
    rng = np.random.default_rng(0)
    cells = [
        (distribution, run, estimator, metric, rng.uniform(0.01, 0.02))
        for distribution in ("aniso", "varied", "trajectories")
        for run in range(4)
        for estimator in ("rome", "parzen", "vine", "oracle")
        for metric in metrics
    ]
    columns = zip(*cells, strict=True)
    names = ("distribution", "run", "estimator", "metric", "value")
    return dict(zip(names, map(np.array, columns), strict=True))


def texts(figure):
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


@pytest.mark.slow
def test_every_figure_is_written(tmp_path, tiny):
    results = make_results(("D_JS", "W_hat", "L_hat", "D_JS_true", "other"))
    results["value"][:9] = np.nan
    said = []
    drawn = draw_figures(
        tmp_path / "figures",
        results,
        distributions=["aniso", "trajectories"],
        formats=("png", "svg"),
        progress=said.append,
    )
    stems = [figure.stem for figure in drawn]
    assert {"data", "samples", "density_close", "samples_walks", "reachability"} <= set(stems)
    assert {"clusters_silhouette", "clusters_dbcv", "sweep_k_min", "boxes_W_hat"} <= set(stems)
    assert all(figure.title and figure.caption.endswith(".") for figure in drawn)
    files = {path.name for path in (tmp_path / "figures").iterdir()}
    assert files == {f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")}
    assert min(path.stat().st_size for path in (tmp_path / "figures").iterdir()) > 5_000
    assert [f"drawing {stem}" for stem in stems] == [s for s in said if s.startswith("drawing")]
    assert any("other" in line for line in said)


@pytest.mark.parametrize("results", [None, {"value": np.array([])}])
def test_without_results_there_are_no_boxes(tmp_path, tiny, monkeypatch, results):
    monkeypatch.setattr(figures, "_plan_sweeps", lambda run, chosen: iter(()))
    first = partial(lambda plan, *given: islice(plan(*given), 1), figures._plan_fits)
    monkeypatch.setattr(figures, "_plan_fits", first)
    said = []
    drawn = draw_figures(
        tmp_path, results, distributions=["aniso"], formats=["svg"], progress=said.append
    )
    assert not any(figure.stem.startswith("boxes") for figure in drawn)
    assert "no box plots: there are no results" in said
    # The same fits give the same file.
    before = (tmp_path / "data.svg").read_bytes()
    draw_figures(tmp_path, results, distributions=["aniso"], formats=["svg"])
    assert (tmp_path / "data.svg").read_bytes() == before


def test_what_a_box_cannot_show_is_written():
    results = make_results(["L_hat"])
    is_vine, is_parzen = results["estimator"] == "vine", results["estimator"] == "parzen"
    results["value"][is_vine] = -200.0
    results["value"][is_parzen & (results["run"] < 2)] = -np.inf
    results["value"][results["estimator"] == "oracle"] = np.nan
    figure = boxes.draw_boxes(results, "L_hat", [datasets.load("trajectories")])
    said = texts(figure)
    assert "far below: -200 (published -215)" in said
    assert "2 of 4 not finite" in said
    assert "4 of 4 not finite" in said


def test_divergences_of_zero_are_written():
    results = make_results(["D_JS"])
    results["value"][results["estimator"] == "oracle"] = 0.0
    results["value"][(results["estimator"] == "parzen") & (results["run"] == 1)] = 0.0
    figure = boxes.draw_boxes(results, "D_JS", [datasets.load("aniso")])
    assert {"not above zero", "1 of 4 not above zero"} <= set(texts(figure))
    assert figure.axes[0].get_xscale() == "log"


def test_published_means_are_those_of_the_same_truth():
    aniso, varied = datasets.load("aniso"), datasets.load("varied")
    assert boxes._published_means(aniso, "D_JS_true")["rome"] == 0.007
    assert boxes._published_means(varied, "D_JS_true") == {}
    assert boxes._published_means(varied, "D_JS_as_published")["rome"] == 0.078


def test_what_cannot_be_fitted_is_written(tiny, monkeypatch):
    made, entry = fit_pictures.Fits(0), datasets.load("aniso")
    monkeypatch.setattr(made, "try_fit", lambda entry, name: None)
    figure = fit_pictures.draw_samples(made, [entry], {"vine": "VC"})
    assert "fit failed" in texts(figure)


def test_samples_lie_over_data():
    ax = matplotlib.figure.Figure().subplots()
    assert plotting.plot_samples(np.zeros((5, 2)), np.ones((3, 2)), ax) is ax
    assert [len(line.get_xdata()) for line in ax.lines] == [5, 3]


def test_boxes_are_named_from_the_top():
    ax = matplotlib.figure.Figure().subplots()
    boxes.plot_boxes({"a": [1.0, 2.0], "b": []}, {"a": 1.5}, ax)
    named = {label.get_text(): label.get_position()[1] for label in ax.get_yticklabels()}
    assert named["a"] > named["b"]


def test_sweep_depends_on_the_number_of_neighbors():
    sweep = sweeps.sweep_neighbors(datasets.load("varied"), 100, [0, 1])["alpha_k"]
    assert sweep.n_neighbors.tolist() == [5] * len(sweep.values)
    assert sweep.n_clusters.shape == (2, len(sweep.values))
    assert (np.ptp(sweep.log_likelihood, axis=1) == 0).all()
