"""The commands for the first minutes: ``demo`` and ``warm``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, echo

from ..texts import counted
from .screen import remark, working

if TYPE_CHECKING:
    import numpy as np

#: Scenes of the forecasts, and samples of every forecast.
_N_SCENES, _N_SAMPLES = 40, 20


def demo(
    folder: Annotated[Path, Argument(help="Where to write tables, pictures and pages.")] = Path(
        "demo"
    ),
) -> None:
    """Fit two tables and evaluate forecasts, as a tour of the other commands.

    Writes a picture of points in the plane, reports about a table of wines and about forecasts of
    walks, and the tables and forecasts themselves, to try the other commands on.

    For example:
      sevenhills demo
      sevenhills report demo/wine.csv -o wines.html --by cultivar
      sevenhills compare demo/aniso.csv demo/aniso_new.csv
    """
    folder.mkdir(parents=True, exist_ok=True)
    _show_plane(folder)
    _show_table(folder)
    _show_forecasts(folder)
    _propose(folder)


def _propose(folder: Path) -> None:
    """Print which pages to open, and commands to try."""
    echo(f"\nOpen {folder / 'wine.html'} and {folder / 'forecasts.html'} in a browser. Then try:")
    echo(f"  sevenhills fit {folder / 'wine.csv'} -o wine.sevenhills")
    echo(f"  sevenhills outliers {folder / 'wine.csv'}")
    echo(f"  sevenhills compare {folder / 'aniso.csv'} {folder / 'aniso_new.csv'}")
    echo(f"  sevenhills forecast {folder / 'forecasts'}/*.npy --truth {folder / 'truth.npy'}")


def _show_plane(folder: Path) -> None:
    """Fit ROME to points in the plane, and write a picture and tables."""
    from .. import ROME, datasets
    from ..progress import Clock
    from .writing import write_table

    distribution = datasets.load("aniso")
    train, test = distribution.split(run=0)
    echo(f"== {distribution.description}: {len(train):,} rows, 2 columns")
    for name, rows in (("aniso.csv", train), ("aniso_new.csv", test)):
        write_table({"x": rows[:, 0], "y": rows[:, 1]}, str(folder / name), "csv")
    clock = Clock()
    rome = ROME().fit(train)
    echo(clock.describe("fitted in"))
    found = counted(len(rome.clusters_), "cluster")
    echo(f"ROME: {found}; mean log density of {len(test):,} new rows: {rome.score(test):.3f}")
    try:
        _draw(rome, train, folder / "aniso.png")
    except ImportError as error:
        remark(f"no picture: {error}")


def _draw(rome: Any, X: "np.ndarray", path: Path) -> None:
    """Draw the ordering, the clusters and the density of points in the plane."""
    from .. import plotting
    from ..atomic_write import atomic_write
    from ..plotting.canvas import new_figure

    figure, axes = new_figure(1, 3, (15, 4.5))
    plotting.plot_reachability(rome, axes[0][0])
    plotting.plot_clusters(rome, X, axes[0][1])
    plotting.plot_density(rome, X, axes[0][2])
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=120)
    echo(f"wrote {path}")


def _show_table(folder: Path) -> None:
    """Write a table of wines and a report about it."""
    from sklearn.datasets import load_wine

    from .options import Choices, Layout
    from .pages import report
    from .writing import write_table

    wines = load_wine()
    names, table = wines.feature_names, str(folder / "wine.csv")
    echo(f"\n== wines from scikit-learn: {len(wines.data)} rows, {len(names)} measured columns")
    columns = dict(zip(names, wines.data.T, strict=True))
    write_table({**columns, "cultivar": wines.target_names[wines.target]}, table, "csv")
    report(table, Choices(), Layout(), folder / "wine.html", title="Wines")


def _show_forecasts(folder: Path) -> None:
    """Write forecasts by a right and by three wrong forecasters, and a report about them."""
    import numpy as np

    from ..datasets import make_walks
    from ..forecast import rank
    from ..report.evaluation_report import forecast_report
    from ..report.forecast_verdicts import verdicts

    walks = make_walks(_N_SCENES, random_state=0)
    laws = walks.law.predictors()
    echo(f"\n== forecasts of {_N_SCENES} walks by {counted(len(laws), 'forecaster')}")
    forecasts = {name: law.draw(_N_SAMPLES, random_state=0) for name, law in laws.items()}
    (folder / "forecasts").mkdir(exist_ok=True)
    for name, paths in forecasts.items():
        np.save(folder / "forecasts" / f"{name}.npy", paths)
    np.save(folder / "truth.npy", walks.truth)
    with working(f"evaluating {counted(len(laws), 'forecaster')}"):
        ranking = rank(forecasts, walks.truth)
    forecast_report(ranking, forecasts, walks.truth).save(folder / "forecasts.html")
    echo(verdicts(ranking)[0])
    echo(f"wrote {folder / 'forecasts.html'}")


def warm() -> None:
    """Compile all numerical code ahead of its first use.

    Otherwise the first fit on a machine takes seconds longer than the next. Compiled code is kept
    on disk. Run this command when an image is built, or before times are measured.

    For example:
      sevenhills warm
      sevenhills warm && sevenhills fit data.csv -o model.sevenhills
    """
    from ..warming import warm as compile_all

    seconds = compile_all()
    echo(f"compiled in {seconds:.1f} s" if seconds else "everything is compiled already")
