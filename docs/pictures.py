"""Draw the pictures of the README and of the pages: ``python docs/pictures.py FOLDER``."""

import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle
from sklearn.datasets import load_wine, make_circles, make_moons

from sevenhills import ROME, AutoROME, conformal, datasets, plotting
from sevenhills.datasets import make_shapes
from sevenhills.plotting.canvas import COLORS, NOISE_COLOR, add_legend

#: The visible part of the three shapes; few samples lie outside.
_WINDOW = {"xlim": (-5.0, 5.4), "ylim": (-3.4, 3.0)}
#: The scene of the picture of forecasts, in which the walker may turn to both sides.
_SCENE = 7


def main(folder):
    """Draw all pictures into a folder."""
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    drawings = {
        "auto": draw_auto,
        "clusters": draw_clusters,
        "questions": draw_questions,
        "steps": draw_steps,
        "supports": draw_supports,
        "job-table": draw_table,
        "job-outliers": draw_outliers,
        "job-forecasts": draw_forecasts,
    }
    for name, draw in drawings.items():
        figure = draw()
        figure.savefig(folder / f"{name}.png", dpi=120)
        plt.close(figure)


def draw_table():
    """Draw clusters and density of a table, in two of its columns."""
    wine = load_wine(as_frame=True).data
    model, pair = AutoROME().fit(wine), ["flavanoids", "proline"]
    figure, ax = small_figure()
    plotting.plot_regions(model.marginal(pair), (0.95, 0.5), ax, NOISE_COLOR, modes=False)
    for label in range(max(model.labels_) + 1):
        ax.plot(*wine[pair][model.labels_ == label].to_numpy().T, ".", color=COLORS[label])
    ax.set(title="178 wines, 13 columns: three clusters", xlim=(-0.3, 5.3), ylim=(0, 1850))
    return figure


def draw_outliers():
    """Draw a calibrated region, and the new points that are flagged as outliers."""
    train, rng = make_shapes(600, random_state=0), np.random.default_rng(0)
    scattered = rng.uniform((-4.5, -3.0), (5.0, 2.4), (14, 2))
    new = np.concatenate([make_shapes(150, random_state=1), scattered])
    calibrated = conformal(AutoROME(), train)
    is_outlier = calibrated.p_value(new) <= 0.01
    figure, ax = small_figure()
    for piece in calibrated.region(0.95).pieces():
        ax.fill(*piece.outline.T, fc=COLORS[4], ec=COLORS[0], alpha=0.4)
    ax.plot(*new[~is_outlier].T, ".", ms=4, color=COLORS[0], label="new rows")
    ax.plot(*new[is_outlier].T, "x", ms=7, mew=2, color=COLORS[1], label="outliers")
    ax.legend(loc="upper right", ncols=2, frameon=False, numpoints=1)
    ax.set(title="a region for 95% of new rows", xlabel="feature 0", ylabel="feature 1")
    ax.set(xlim=(-5.0, 5.4), ylim=(-3.6, 3.6))
    return figure


def draw_forecasts():
    """Draw the sampled paths of a forecast, and the path that was taken."""
    walks = datasets.make_walks(10, random_state=0)
    figure, ax = small_figure()
    ax.plot(*walks.observed[_SCENE].T, "o-", color=COLORS[6], ms=2.5, label="observed")
    plotting.plot_forecast(walks.law.draw(100, random_state=1), walks.truth, _SCENE, ax)
    ax.set(title="100 sampled paths of a walker", xlabel="meters", ylabel="meters")
    return figure


def small_figure():
    """Create one of the three pictures that stand side by side."""
    return plt.subplots(figsize=(4, 3.2), layout="constrained")


def draw_auto():
    """Draw the densities of ROME and AutoROME for three shapes, and the members of AutoROME."""
    train, test = make_shapes(1200, random_state=0), make_shapes(6000, random_state=1)
    rome, auto = ROME().fit(train), AutoROME().fit(train)
    figure = plt.figure(figsize=(12, 7), layout="constrained")
    # Long names of members would otherwise narrow the panels above them.
    above, below = figure.subfigures(2, 1, height_ratios=[4, 3])
    panels = above.subplots(1, 3, sharex=True, sharey=True)
    plotting.plot_clusters(auto, train, panels[0])
    for panel, model in ((panels[1], rome), (panels[2], auto)):
        plotting.plot_density(model, train, panel, n_drawn=0)
        name, score = type(model).__name__, model.score(test)
        said = f"{name}: held-out log density {score:.2f}\n{panel.get_title()}"
        panel.set(title=said, ylabel="")
    panels[0].set(title="samples and clusters", **_WINDOW)
    plotting.plot_members(auto, below.subplots())
    below.suptitle("members of every cluster's density, and the gain over a Gaussian", fontsize=12)
    return figure


def draw_clusters():
    """Draw the clusters of six sets by silhouettes, and by likelihood."""
    figure, axes = plt.subplots(2, 6, figsize=(18, 6.4), layout="constrained")
    for (name, X), pair in zip(six_sets().items(), axes.T, strict=True):
        for estimator, ax in zip((ROME(), AutoROME()), pair, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # ROME warns about the last set, as it should
                labels = estimator.fit(X).labels_
            n_noise, n_clusters = int(np.sum(labels < 0)), int(labels.max()) + 1
            colors = np.array([*COLORS, "#9a9a9a"])[np.where(labels < 0, -1, labels % len(COLORS))]
            ax.scatter(*X.T, s=4, c=colors)
            noise = f", {n_noise} noise" if n_noise else ""
            ax.set_title(f"{name}: {n_clusters}{noise}", fontsize=10)
            ax.set(xticks=[], yticks=[])
    axes[0, 0].set_ylabel("by silhouettes (ROME)")
    axes[1, 0].set_ylabel("by likelihood (AutoROME)")
    return figure


def six_sets():
    """Draw 600 samples each of six sets with clusters that are hard to find."""
    rng = np.random.default_rng(0)
    which = rng.integers(3, size=600)
    round_ones = rng.normal(size=(600, 2))
    moons, _ = make_moons(600, noise=0.08, random_state=0)
    circles, _ = make_circles(600, noise=0.05, factor=0.45, random_state=0)
    thin = round_ones * [4.0, 0.3] + np.outer(which, [0.0, 2.0])
    dense = np.where(which[:, None] == 0, 3.0 * round_ones, 0.3 * round_ones + 2.0 * which[:, None])
    units = (round_ones + 4.0 * which[:, None] * [1.0, -1.0]) * [1.0, 1000.0]
    return {
        "blobs": round_ones + 4.0 * np.array([[0, 0], [1, 0], [0.5, 0.9]])[which],
        "two moons": moons,
        "circles": circles,
        "thin clusters": thin @ [[0.8, 0.6], [-0.6, 0.8]],
        "one wide, two dense": dense,
        "units 1 and 1000": units,
    }


def draw_questions():
    """Draw regions, modes, conditionals and outliers of a density."""
    train = make_shapes(1200, random_state=0)
    auto = AutoROME().fit(train)
    figure, axes = new_figure(3)
    plotting.plot_regions(auto, ax=axes[0])
    plotting.plot_line(auto.marginal(1), axes[1], label="marginal")
    for i, x in enumerate((-2.2, 2.0)):
        conditional = auto.conditional({0: x})
        plotting.plot_line(
            conditional, axes[1], color=COLORS[i + 1], label=f"given feature 0 = {x:g}"
        )
    axes[1].set(xlabel="feature 1", xlim=(-4, 3), title="marginal and conditionals, with 90% bands")
    add_legend(axes[1])
    draw_labels(auto, axes[2])
    axes[0].set(**_WINDOW)
    return figure


def draw_labels(auto, ax):
    """Draw new points, colored by their mode, with rings around outliers."""
    rng = np.random.RandomState(2)
    low, high = np.array([_WINDOW["xlim"], _WINDOW["ylim"]]).T
    points = np.concatenate([make_shapes(300, random_state=3), rng.uniform(low, high, (60, 2))])
    labels = auto.predict(points, by="mode")
    unlikely = auto.hdr_probability(points) > 0.99
    for label in np.unique(labels):
        rows = labels == label
        ax.plot(*points[rows].T, ".", ms=5, color=COLORS[label], label=f"mode {label}")
    ring = {"marker": "o", "ls": "", "mfc": "none", "mec": "black", "ms": 9, "mew": 0.8}
    ax.plot(*points[unlikely].T, label="outside of 99%", **ring)
    add_legend(ax)
    ax.set(xlabel="feature 0", ylabel="feature 1", title="new points: their modes, and outliers")


def draw_steps():
    """Draw the steps of ROME for three shapes."""
    X = make_shapes(900, random_state=0)
    rome = ROME().fit(X)
    figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
    ((order, reachability, candidates), (clusters, white, density)) = axes
    walk = X[rome.ordering_.order]
    order.plot(*walk.T, "-", color="#BBBBBB", linewidth=0.5)
    order.scatter(*walk.T, 4, c=np.arange(len(X)), cmap="viridis")
    order.set(title="1. an ordering, neighbor by neighbor", **_WINDOW)
    plotting.plot_reachability(rome, reachability)
    reachability.set_title("2. reachability: clusters are valleys")
    plotting.plot_candidates(rome, candidates)
    candidates.set_title("3. up to 199 cuts, scored by silhouettes")
    plotting.plot_clusters(rome, X, clusters).set(title="4. the best clustering", **_WINDOW)
    draw_whitened(rome, X, white)
    plotting.plot_regions(rome, ax=density, modes=False)
    density.set(title="6. the mixture: regions of 95%, 80%, 50%", **_WINDOW)
    return figure


def draw_supports():
    """Draw densities of waits, wind directions and shares without a support, and with one."""
    rng = np.random.RandomState(0)
    waits = rng.exponential(10.0, (800, 1))
    winds = np.where(rng.uniform(size=800) < 0.7, rng.normal(0, 25, 800), rng.normal(150, 20, 800))
    shares = rng.dirichlet([0.8, 1.5, 2.0], 800)[:, :2]
    figure = plt.figure(figsize=(13, 8), layout="constrained")
    above, below = figure.subfigures(2, 1)
    above.suptitle("without a support")
    below.suptitle("with a support")
    declared = {0: (0, None)}, {0: ("circular", 360)}, {0: (0, 1), 1: (0, 1)}
    for part, supports in ((above, (None,) * 3), (below, declared)):
        line, rose, plane = (part.add_subplot(1, 3, i + 1, polar=i == 1) for i in range(3))
        draw_waits(ROME(support=supports[0]).fit(waits), waits, line)
        draw_rose(ROME(support=supports[1]).fit(winds[:, None] % 360), winds, rose)
        plotting.plot_density(ROME(support=supports[2]).fit(shares), shares, plane, n_drawn=0)
        plane.plot([0, 1, 0, 0], [0, 0, 1, 0], "--", color=COLORS[1], label="possible shares")
        add_legend(plane)
        plane.set(xlabel="rent", ylabel="food", title="two of three shares of a budget")
    return figure


def draw_waits(model, waits, ax):
    """Draw the density of waiting times beside the law they come from."""
    ax.hist(waits[:, 0], 40, density=True, color=COLORS[4], alpha=0.4)
    plotting.plot_line(model, ax, confidence=None, label="estimate")
    x = np.linspace(0, 60, 300)
    ax.plot(x, np.exp(-x / 10) / 10, "--", color=COLORS[1], label="law")
    add_legend(ax)
    ax.set(xlabel="minutes", title="waiting times", xlim=(-8, 45))


def draw_rose(model, winds, ax):
    """Draw the density of directions around a circle, over a histogram."""
    counts, edges = np.histogram(winds % 360, 36, (0, 360), density=True)
    bars = {"align": "edge", "color": COLORS[4], "alpha": 0.4}
    ax.bar(np.deg2rad(edges[:-1]), counts, np.deg2rad(10), **bars)
    degrees = np.linspace(0, 360, 721)
    ax.plot(np.deg2rad(degrees), model.density_.pdf(degrees[:, None]), color=COLORS[0])
    ax.set(theta_zero_location="N", theta_direction=-1, title="directions of the wind")
    ax.set_yticklabels([])


def draw_whitened(rome, X, ax):
    """Draw a cluster, rotated and scaled, and the kernels on some of its samples."""
    largest = int(np.argmax([cluster.n_members for cluster in rome.clusters_]))
    cluster, density = rome.clusters_[largest], rome.density_
    group = int(np.flatnonzero(density.clusters == cluster.label)[0])
    # The density's transform whitens kernels; the bandwidth scales it to whiten the cluster.
    transform = density.transforms[group] * cluster.bandwidth
    points = (X[rome.labels_ == cluster.label] - cluster.mean) @ transform
    ax.plot(*points.T, ".", ms=3, color=COLORS[largest % len(COLORS)])
    for place in points[:: len(points) // 12]:
        ax.add_patch(Circle(place, cluster.bandwidth, fc="none", ec="black", lw=0.8))
    ax.set(title="5. one cluster, whitened, and its kernels", aspect="equal")
    ax.set(xlabel="first axis", ylabel="second axis")


def new_figure(n_axes):
    return plt.subplots(1, n_axes, figsize=(5 * n_axes, 4.5), layout="constrained")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
