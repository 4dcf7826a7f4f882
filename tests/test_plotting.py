import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from sevenhills import ROME, AutoROME, datasets, demo, plotting

mpl.use("Agg")


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
    X = demo.three_shapes(150, random_state=0)
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
    assert len(ax.collections[0].get_paths()) == 3
    assert ax.get_ylabel() == "north"


def test_density_without_samples(aniso, ax):
    rome, X = aniso
    plotting.plot_density(rome, X, ax, n_drawn=0)
    assert [len(line.get_xdata()) for line in ax.lines] == [len(X)]


def test_members_have_names_weights_and_gains(auto, ax):
    model, _ = auto
    assert plotting.plot_members(model, ax) is ax
    names = [name for cluster in model.clusters_ for name in cluster.members]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
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
    with pytest.raises(ValueError, match="2 features"):
        plotting.plot_density(ROME().fit(np.eye(6) + X[:6, :1]), X, ax)


def test_demo(tmp_path, capsys, monkeypatch):
    draw = demo.three_shapes
    monkeypatch.setattr(demo, "three_shapes", lambda n, random_state: draw(n // 4, random_state))
    demo.main([str(tmp_path / "pictures")])
    said = capsys.readouterr().out
    assert "3 clusters" in said
    assert "5 clusters" in said
    for name in ("aniso", "trajectories"):
        assert (tmp_path / "pictures" / f"{name}.png").stat().st_size > 20_000
    demo.main([str(tmp_path / "readme"), "--readme"])
    drawn = {path.name for path in (tmp_path / "readme").iterdir()}
    assert drawn == {"aniso.png", "auto.png", "questions.png"}


def test_regions_and_lines(aniso, ax):
    rome, X = aniso
    assert plotting.plot_regions(rome, masses=(0.5,), ax=ax) is ax
    assert len(ax.patches) == 2
    assert len(ax.texts) == len(rome.modes())
    assert ax.get_xlabel() == "east"
    assert plotting.plot_regions(rome.density_, ax=ax, modes=False) is ax
    line = plotting.plot_line(rome.marginal("north"), ax, level=None, label="y")
    assert line.lines[-1].get_label() == "y"
    for draw, model in ((plotting.plot_regions, rome.marginal(0)), (plotting.plot_line, rome)):
        with pytest.raises(ValueError, match="feature"):
            draw(model, ax=ax)
    with pytest.raises(TypeError, match="mixture of kernels"):
        plotting.plot_regions(ROME(estimator="knn").fit(X), ax=ax)
