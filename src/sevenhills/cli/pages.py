"""The commands that write pages and pictures: ``report`` and ``demo``."""

import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ..texts import counted
from . import options
from .screen import remark, working

if TYPE_CHECKING:
    from .samples import Samples


def report(
    source: Annotated[str, Argument(help="A model file, or data to fit a model to.")],
    choices: options.Choices,
    layout: options.Layout,
    output: Annotated[Path, Option("--output", "-o", help="HTML file.")] = Path("report.html"),
    data: Annotated[str | None, Option(help="The data of the model; - is stdin.")] = None,
    title: Annotated[str | None, Option(help="The title of the page.")] = None,
    estimator: options.Estimator = "rome",
    support: options.Support = None,
    scale: options.Scale = None,
    constant: options.Constant = "drop",
    json: options.Json = False,
) -> None:
    """Write a report about a model, or about a fit to data, as one HTML page.

    The page is interactive and needs no network.

    For example:
      sevenhills report data.csv -o report.html
      sevenhills report model.sevenhills --data data.csv --title "Sea levels"
    """
    from ..report import build_report
    from .model_files import make_estimator, parse_support
    from .samples import samples_of
    from .table_files import is_model, opened, table_of
    from .writing import check_page_output, write_json

    check_page_output(output)
    with opened(source) as file:
        if is_model(file):
            for option, value in (("support", support), ("scale", scale)):
                if value:
                    raise ValueError(f"--{option} belongs to data, but {source} is a model")
            model, shown = _saved_model(file, source, data, layout)
        elif data is not None:
            raise ValueError(f"--data belongs to a model, but {source} is not a model")
        else:
            samples = samples_of(table_of(file, source, layout), choices, constant)
            remark(*samples.remarks)
            with working(f"fitting {counted(len(samples.frame), 'row')}"):
                bounds = parse_support(support, samples.frame)
                recipe = make_estimator(estimator, support=bounds, scale=scale)
                model = recipe.fit(samples.frame)
            shown = _shown(samples)
    with working("writing the report"):
        try:
            build_report(model, title=title, **shown).save(output)
        except ValueError as error:
            if data is None or not str(error).startswith("X must be the"):
                raise
            raise ValueError(
                f"{data} does not hold the rows that {source} was fitted to"
            ) from error
    if json:
        write_json({"report": str(output), "n_rows": len(shown["X"]) if shown else None})
    else:
        typer.echo(f"wrote {output}")


def _saved_model(
    file: IO[bytes], source: str, data: str | None, layout: options.Layout
) -> tuple[Any, dict[str, Any]]:
    """Return a saved model, and the complete rows of its data."""
    from .model_files import model_of, read_complete_queries

    model = model_of(file, source)
    if data is None:
        return model.value, {}
    samples = read_complete_queries(model, data, layout)
    remark(*samples.remarks)
    return model.value, _shown(samples)


def _shown(samples: "Samples") -> dict[str, Any]:
    """Return the samples of a page and notes on them; rows are numbered from 1."""
    note = f"Rows of {samples.source} are numbered from 1, without the header."
    rows = samples.frame.index.to_numpy() + 1
    return {"X": samples.X, "rows": rows, "notes": [note, *samples.remarks]}


def demo(
    folder: Annotated[Path, Argument(help="Where to write tables and pictures.")] = Path("demo"),
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
    tables = datasets.load("aniso").split(run=0)
    for name, rows in zip(("aniso.csv", "aniso_new.csv"), tables, strict=True):
        write_table({"x": rows[:, 0], "y": rows[:, 1]}, str(folder / name), "csv")
    for name in ("aniso", "trajectories"):
        rome, train = _fit(name)
        try:
            _draw(rome, train, folder / f"{name}.png")
        except ImportError as error:
            remark(f"no picture: {error}")


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


def _draw(rome: Any, X: Any, path: Path) -> None:
    """Draw a fit to points of the plane, or to walks, into three panels."""
    from .. import plotting
    from ..atomic_write import atomic_write
    from ..plotting.canvas import new_figure

    figure, axes = new_figure(1, 3, (15, 4.5))
    first, second, third = axes[0]
    plotting.plot_reachability(rome, first)
    if X.shape[1] == 2:
        plotting.plot_clusters(rome, X, second)
        plotting.plot_density(rome, X, third)
    else:
        plotting.plot_trajectories(X, rome.labels_, second).set_title("walks, colored by cluster")
        plotting.plot_samples(X, rome.sample(150, random_state=0), third)
        third.set_title("samples of the density over the walks")
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=120)
    print(f"wrote {path}")
