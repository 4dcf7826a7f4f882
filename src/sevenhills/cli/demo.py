"""The command ``demo``."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .screen import remark


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to write tables and pictures.")] = Path(
        "demo"
    ),
) -> None:
    """Fit two embedded data sets and draw them.

    Writes the pictures, and two tables to try the other commands on: aniso.csv and, of the same
    distribution, aniso_new.csv.

    For example:
      sevenhills demo
      sevenhills fit demo/aniso.csv -o aniso.sevenhills
      sevenhills compare demo/aniso.csv demo/aniso_new.csv
    """
    from .. import datasets
    from .writing import write_table

    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(
        ("aniso.csv", "aniso_new.csv"), datasets.load("aniso").split(run=0), strict=True
    ):
        write_table({"x": rows[:, 0], "y": rows[:, 1]}, str(folder / name), "csv")
    has_pictures = _can_draw()
    for name, draw in (("aniso", _draw_aniso), ("trajectories", _draw_trajectories)):
        rome, train = _fit(name)
        if has_pictures:
            _save(draw, rome, train, folder / f"{name}.png")


def _can_draw() -> bool:
    """Return whether matplotlib is there; remark on it if it is not."""
    from ..extras import import_extra

    try:
        import_extra("matplotlib", "plot", "the pictures need matplotlib")
    except ImportError as error:
        remark(f"no pictures: {error}")
        return False
    return True


def _fit(name: str) -> tuple[Any, Any]:
    """Fit ROME to an embedded data set, print a summary, and return the fit and its samples."""
    from .. import ROME, datasets

    distribution = datasets.load(name)
    train, test = distribution.split(run=0)
    start = time.perf_counter()
    rome = ROME().fit(train)
    print(
        f"fitted {name} ({len(train)} samples) in {time.perf_counter() - start:.2f} s", flush=True
    )
    print(f"\n== {name}: {distribution.description}")
    print(rome.summary())
    print(f"mean log density of {len(test)} held-out samples: {rome.score(test):.3f}")
    return rome, train


def _draw_aniso(rome: Any, X: Any, axes: Any) -> None:
    from .. import plotting

    plotting.plot_reachability(rome, axes[0])
    plotting.plot_clusters(rome, X, axes[1])
    plotting.plot_density(rome, X, axes[2])


def _draw_trajectories(rome: Any, X: Any, axes: Any) -> None:
    from .. import plotting

    plotting.plot_reachability(rome, axes[0])
    plotting.plot_trajectories(X, rome.labels_, axes[1]).set_title("walks, colored by cluster")
    plotting.plot_samples(X, rome.sample(150, random_state=0), axes[2])
    axes[2].set_title("samples of the density over the walks")


def _save(draw: Any, rome: Any, X: Any, path: Path) -> None:
    """Draw a fit into three panels and write them to a file."""
    from ..atomic_write import atomic_write
    from ..plotting.canvas import new_figure

    figure, axes = new_figure(1, 3, (15, 4.5))
    draw(rome, X, axes[0])
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=120)
    print(f"wrote {path}")
