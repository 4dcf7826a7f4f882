"""Pictures of candidates, clusters, members and samples."""

import numpy as np
import pandas as pd
import pytest

from sevenhills import ROME, datasets, plotting

pytestmark = pytest.mark.usefixtures("_no_place_is_searched_for_a_legend")


def test_reachability_shows_cut_and_clusters(aniso, ax):
    rome, _ = aniso
    assert plotting.plot_reachability(rome, ax) is ax
    assert len(ax.collections) == len(np.unique(rome.labels_))
    assert f"{rome.candidates_.scores.max():.3f}" in ax.get_title()


def test_reachability_of_many_samples_keeps_its_peaks(ax):
    X = datasets.load("aniso").sample(5000, random_state=0)
    rome = ROME().fit(X)
    plotting.plot_reachability(rome, ax)
    tops = [c.get_paths()[0].vertices[:, 1].max() for c in ax.collections]
    order = rome.ordering_.order
    heights, labels = rome.ordering_.reachability[order], rome.labels_[order]
    heights[0] = heights[1:].max()
    assert tops == [heights[labels == label].max() for label in np.unique(labels)]


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


def test_clusters_are_named(aniso, ax):
    rome, X = aniso
    plotting.plot_clusters(rome, X, ax)
    assert ax.get_xlabel() == "east"
    assert sum(len(line.get_xdata()) for line in ax.lines) == len(X)


def test_members_have_names_weights_and_gains(auto, ax):
    model, _ = auto
    assert plotting.plot_members(model, ax) is ax
    names = [name for cell in model.cells_ for name in cell.members]
    said = [label.get_text().replace("\n", " ") for label in ax.get_yticklabels()]
    assert said == names
    weights = np.concatenate([cell.weights for cell in model.cells_])
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], weights)
    said = {text.get_text() for text in ax.texts}
    for cell in model.cells_:
        gain = f"gain {cell.gain:.2f} ± {cell.gain_error:.2f}"
        several = "s" * (len(cell.clusters) > 1)
        assert f"cluster{several} {', '.join(map(str, cell.clusters))}: {gain}" in said


def test_other_pictures_take_stacked_fits(auto, ax):
    model, X = auto
    plotting.plot_clusters(model, X, ax)
    plotting.plot_density(model, X, ax)
    assert plotting.plot_reachability(model, ax) is ax


def test_what_cannot_be_drawn_is_refused(aniso, ax):
    rome, X = aniso
    with pytest.raises(ValueError, match="ordering"):
        plotting.plot_reachability(ROME(selection=None).fit(X), ax)
    with pytest.raises(ValueError, match="training samples"):
        plotting.plot_clusters(rome, X[:5], ax)
    with pytest.raises(ValueError, match=r"2 feature\(s\)"):
        plotting.plot_density(ROME().fit(np.eye(6) + X[:6, :1]), X, ax)


def test_trajectories(ax):
    X = datasets.load("trajectories").sample(20, random_state=0)
    plotting.plot_trajectories(X, np.arange(20) % 2, ax)
    assert sum(len(lines.get_segments()) for lines in ax.collections) == 20


@pytest.mark.parametrize("n_features", [1, 2, 4])
def test_samples_over_data_of_any_width(ax, n_features):
    X = np.random.RandomState(0).standard_normal((3000, n_features)).cumsum(axis=1)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(n_features)])
    assert plotting.plot_samples(frame, X[:500], ax) is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["data", "samples"]
    assert ax.get_xlabel() == ("c0" if n_features < 3 else "x")
    if n_features > 2:
        assert [len(each.get_segments()) for each in ax.collections] == [2000, 100]
