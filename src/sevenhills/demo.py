"""A short tour: fit two embedded data sets, say what was found and draw it.

Run it with ``python -m sevenhills.demo FOLDER``.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, plotting
from .atomic_write import atomic_write
from .estimators import ROME, AutoROME
from .plotting.canvas import COLOURS, add_legend
from .validation import random_generator

#: What is shown of the three shapes; few samples lie outside.
_WINDOW = {"xlim": (-5.0, 5.4), "ylim": (-3.4, 3.0)}


def main(arguments: list[str] | None = None) -> None:
    """Run the tour and write its pictures into a folder."""
    parser = argparse.ArgumentParser(prog="python -m sevenhills.demo", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the pictures")
    parser.add_argument("--readme", action="store_true", help="draw the documents' pictures only")
    options = parser.parse_args(arguments)
    import matplotlib

    matplotlib.use("Agg")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.readme:
        _save(_draw_aniso(*_fit("aniso")[:2]), options.folder / "aniso.png")
        _save(_draw_auto(), options.folder / "auto.png")
        _save(_draw_questions(), options.folder / "questions.png")
        _save(_draw_steps(), options.folder / "steps.png")
        return
    for name, draw in (("aniso", _draw_aniso), ("trajectories", _draw_trajectories)):
        rome, train, test = _fit(name)
        print(f"\n== {name}: {datasets.load(name).description}")
        print(rome.summary())
        print(f"mean log density of {len(test)} held-out samples: {rome.score(test):.3f}")
        path = options.folder / f"{name}.png"
        _save(draw(rome, train), path)
        print(f"wrote {path}")


def three_shapes(n_samples: int, random_state: Any = None) -> np.ndarray:
    """Draw from a bow, a sheared Gaussian and a skewed cluster with heavy tails, a third each.

    Parameters
    ----------
    n_samples : int
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    ndarray of shape (n_samples, 2)

    Examples
    --------
    >>> from sevenhills.demo import three_shapes
    >>> three_shapes(5, random_state=0).shape
    (5, 2)
    """
    rng = random_generator(random_state)
    angles = np.pi * rng.uniform(size=n_samples)
    bow = 1.6 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    bow += 0.12 * rng.standard_normal((n_samples, 2)) + [-2.2, 0.0]
    blob = rng.standard_normal((n_samples, 2)) @ [[0.45, 0.25], [0.0, 0.3]] + [-2.2, -2.0]
    skewed = rng.lognormal(-0.6, 0.7, n_samples) + 1.2
    tailed = 0.35 * rng.standard_t(3.0, n_samples) - 0.6
    shapes = np.stack([bow, blob, np.stack([skewed, tailed], axis=1)])
    return np.asarray(shapes[rng.randint(3, size=n_samples), np.arange(n_samples)])


def _fit(name: str) -> tuple[ROME, np.ndarray, np.ndarray]:
    train, test = datasets.load(name).split(run=0)
    start = time.perf_counter()
    rome = ROME().fit(train)
    print(
        f"fitted {name} ({len(train)} samples) in {time.perf_counter() - start:.2f} s", flush=True
    )
    return rome, train, test


def _draw_aniso(rome: ROME, X: np.ndarray) -> Any:
    figure, axes = _figure(3)
    plotting.plot_reachability(rome, axes[0])
    plotting.plot_clusters(rome, X, axes[1])
    plotting.plot_density(rome, X, axes[2])
    return figure


def _draw_auto() -> Any:
    """Draw the density that ROME gives to three shapes, and that of AutoROME with its members."""
    import matplotlib.pyplot as plt

    train, test = three_shapes(1200, random_state=0), three_shapes(6000, random_state=1)
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
    below.suptitle("what AutoROME put on every cluster, and its gain over a Gaussian", fontsize=12)
    return figure


def _draw_questions() -> Any:
    """Draw what the density of three shapes answers: regions, modes, slices, outliers."""
    train = three_shapes(1200, random_state=0)
    auto = AutoROME().fit(train)
    figure, axes = _figure(3)
    plotting.plot_regions(auto, ax=axes[0])
    plotting.plot_line(auto.marginal(1), axes[1], label="marginal")
    for i, x in enumerate((-2.2, 2.0)):
        sliced = auto.condition({0: x})
        plotting.plot_line(sliced, axes[1], colour=COLOURS[i + 1], label=f"given feature 0 = {x:g}")
    axes[1].set(xlabel="feature 1", xlim=(-4, 3), title="a marginal, and slices, with 90% bands")
    add_legend(axes[1])
    _draw_labels(auto, axes[2])
    axes[0].set(**_WINDOW)
    return figure


def _draw_labels(auto: AutoROME, ax: Any) -> None:
    """Draw new points by the mode to which they belong, ringed where they look like outliers."""
    rng = random_generator(2)
    low, high = np.array([_WINDOW["xlim"], _WINDOW["ylim"]]).T
    points = np.concatenate([three_shapes(300, random_state=3), rng.uniform(low, high, (60, 2))])
    labels = auto.label(points).labels
    unlikely = auto.coverage(points) > 0.99
    for label in np.unique(labels):
        rows = labels == label
        ax.plot(*points[rows].T, ".", ms=5, color=COLOURS[label], label=f"mode {label}")
    ring = {"marker": "o", "ls": "", "mfc": "none", "mec": "black", "ms": 9, "mew": 0.8}
    ax.plot(*points[unlikely].T, label="outside of 99%", **ring)
    add_legend(ax)
    ax.set(xlabel="feature 0", ylabel="feature 1", title="new points: their modes, and outliers")


def _draw_steps() -> Any:
    """Draw what ROME does to three shapes, step by step."""
    import matplotlib.pyplot as plt

    X = three_shapes(900, random_state=0)
    rome: Any = ROME().fit(X)
    figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
    ((order, reachability, candidates), (clusters, white, density)) = axes
    walk = X[rome.ordering_.order]
    order.plot(*walk.T, "-", color="#BBBBBB", linewidth=0.5)
    order.scatter(*walk.T, 4, c=np.arange(len(X)), cmap="viridis")
    order.set(title="1. an order in which neighbours follow each other", **_WINDOW)
    plotting.plot_reachability(rome, reachability)
    reachability.set_title("2. distances along it: hills are valleys")
    plotting.plot_candidates(rome, candidates)
    candidates.set_title("3. up to 199 cuts, judged by silhouettes")
    plotting.plot_clusters(rome, X, clusters).set(title="4. the best one", **_WINDOW)
    _draw_whitened(rome, X, white)
    plotting.plot_regions(rome, ax=density, modes=False)
    density.set(title="6. the sum: regions of 95%, 80%, 50%", **_WINDOW)
    return figure


def _draw_whitened(rome: Any, X: np.ndarray, ax: Any) -> None:
    """Draw a cluster, rotated and scaled, and the kernels on some of its samples."""
    from matplotlib.patches import Circle

    largest = int(np.argmax([cluster.n_members for cluster in rome.clusters_]))
    cluster, density = rome.clusters_[largest], rome.density_
    group = int(np.flatnonzero(density.clusters == cluster.label)[0])
    # The density's transform makes kernels round; the cluster itself is round in units of its own.
    transform = density.transforms[group] * cluster.bandwidth
    points = (X[rome.labels_ == cluster.label] - cluster.mean) @ transform
    ax.plot(*points.T, ".", ms=3, color=COLOURS[largest % len(COLOURS)])
    for place in points[:: len(points) // 12]:
        ax.add_patch(Circle(place, cluster.bandwidth, fc="none", ec="black", lw=0.8))
    ax.set(title="5. made round, with kernels of one width", aspect="equal")
    ax.set(xlabel="first axis", ylabel="second axis")


def _draw_trajectories(rome: ROME, X: np.ndarray) -> Any:
    figure, axes = _figure(3)
    plotting.plot_reachability(rome, axes[0])
    plotting.plot_trajectories(X, rome.labels_, axes[1]).set_title("walks, coloured by cluster")
    samples = rome.sample(150, random_state=0)
    plotting.plot_trajectories(X, ax=axes[2])
    plotting.plot_trajectories(samples, ax=axes[2], colour=COLOURS[3], alpha=0.9)
    axes[2].set_title("samples of the density over the walks")
    return figure


def _figure(n_axes: int) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    return plt.subplots(1, n_axes, figsize=(5 * n_axes, 4.5), layout="constrained")


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
