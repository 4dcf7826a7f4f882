"""A short tour: fit two embedded data sets, say what was found and draw it.

Run it with ``python -m sevenhills.demo FOLDER``.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, plotting
from .estimators import ROME
from .plotting.canvas import COLOURS


def main(arguments: list[str] | None = None) -> None:
    """Run the tour and write its pictures into a folder."""
    parser = argparse.ArgumentParser(prog="python -m sevenhills.demo", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the pictures")
    parser.add_argument("--readme", action="store_true", help="draw the README's picture only")
    options = parser.parse_args(arguments)
    import matplotlib

    matplotlib.use("Agg")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.readme:
        _save(_draw_aniso(*_fit("aniso")[:2]), options.folder / "aniso.png")
        return
    for name, draw in (("aniso", _draw_aniso), ("trajectories", _draw_trajectories)):
        rome, train, test = _fit(name)
        print(f"\n== {name}: {datasets.load(name).description}")
        print(rome.summary())
        print(f"mean log density of {len(test)} held-out samples: {rome.score(test):.3f}")
        path = options.folder / f"{name}.png"
        _save(draw(rome, train), path)
        print(f"wrote {path}")


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

    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
