"""Pictures of densities."""

import numpy as np
import pandas as pd
import pytest

from sevenhills import ROME, datasets, plotting

pytestmark = pytest.mark.usefixtures("_no_place_is_searched_for_a_legend")


def test_density_has_contours(aniso, ax):
    rome, X = aniso
    plotting.plot_density(rome, X, ax)
    assert len(ax.patches) == 3
    assert ax.get_ylabel() == "north"


def test_density_without_samples(aniso, ax):
    rome, X = aniso
    plotting.plot_density(rome, X, ax, n_drawn=0)
    assert [len(line.get_xdata()) for line in ax.lines] == [len(X)]


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


def test_corner_has_whole_names_above_its_diagonal(ax):
    X = pd.DataFrame(datasets.load("trajectories").sample(100, random_state=0))
    X.columns = ["nonflavanoid_phenols", *(f"c{i}" for i in X.columns[1:])]
    rome = ROME().fit(X)
    assert plotting.plot_corner(rome, X, ["c3", 0, "c23"], ax) is ax
    panels = ax.child_axes
    names = [panel.get_title(loc="left") for panel in panels]
    assert names == ["c3", "", "nonflavanoid_phenols", "", "", "c23"]
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


@pytest.fixture(scope="module")
def winds():
    """Directions around north, and speeds above zero."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(0, 30, 300) % 360, rng.exponential(5.0, 300)])
    support = {0: ("circular", 360), 1: (0, None, "mirror")}
    return ROME(support=support).fit(X), X


def test_lines_begin_at_bounds_with_their_full_height(winds, ax):
    plotting.plot_line(winds[0].marginal(1), ax)
    x, y = ax.lines[0].get_data()
    assert x[0] == 0.0
    assert y[0] == y.max()
    assert ax.get_xlim()[0] == 0.0
    assert ax.get_ylim()[0] == 0.0


def test_a_circle_is_drawn_without_a_break(winds, ax):
    rome, _ = winds
    plotting.plot_line(rome.marginal(0), ax)
    x, y = ax.lines[0].get_data()
    assert ax.get_xlim() == (x[0], x[-1]) == tuple(rome.density_.frame[:, 0])
    assert x[-1] - x[0] == 360.0
    assert y[0] == pytest.approx(y[-1])
    assert x[y.argmax()] == pytest.approx(360.0, abs=15)
    ax.figure.canvas.draw()
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert "0" in names
    assert "360" not in names


@pytest.mark.parametrize("draw", ["plot_density", "plot_clusters", "plot_regions"])
def test_planes_end_at_bounds_and_hold_one_turn(winds, ax, draw):
    rome, X = winds
    getattr(plotting, draw)(rome, *([] if draw == "plot_regions" else [X]), ax=ax)
    low, high = rome.density_.frame[:, 0]
    assert ax.get_xlim() == (low, high)
    assert ax.get_ylim()[0] == 0.0
    for line in ax.lines:
        assert ((line.get_xdata() >= low) & (line.get_xdata() <= high)).all()


def test_corner_and_difference_of_mapped_densities(winds, ax):
    rome, X = winds
    plotting.plot_corner(rome, X, ax=ax)
    panels = ax.child_axes
    assert panels[1].get_xlim() == tuple(rome.density_.frame[:, 0])
    assert panels[1].get_ylim()[0] == 0.0
    other = ROME(support=rome.support).fit((X + np.array([150.0, 0.0])) % [360.0, 1e9])
    assert (other.density_.frame != rome.density_.frame).any()
    ax.clear()
    plotting.plot_difference(rome, other, ax=ax)
    ends = np.concatenate([line.get_xdata() for line in ax.lines])
    low, high = rome.density_.frame[:, 0]
    assert ((ends >= low) & (ends <= high)).all()
