"""The commands ``score`` and ``sample``, which use a model."""

from typing import Annotated, Any, Literal

import typer

from . import options
from .screen import counted, remark, working


def score(
    model: options.ModelFile,
    data: options.Data,
    layout: options.Layout,
    destination: options.Destination,
    mean: Annotated[bool, typer.Option("--mean", help="Print only the mean over rows.")] = False,
    missing: Annotated[
        Literal["skip", "marginal", "raise"],
        typer.Option(
            help="Rows with missing or infinite values: leave their log density empty, give the "
            "marginal log density of their other values, or refuse them."
        ),
    ] = "skip",
    jobs: options.Jobs = None,
) -> None:
    """Print log densities of rows, or their mean.

    There is one log density per row of the table, in its order. Columns are matched by name, and
    columns that the model does not have are ignored. Tables without names are matched by position.

    For example:
      sevenhills score model.sevenhills new.csv > scores.csv
      sevenhills score model.sevenhills new.csv -o scores.parquet
      sevenhills score model.sevenhills new.csv --mean
      cat new.csv | sevenhills score model.sevenhills - --mean --json
    """
    from .model_files import log_densities, read_model, read_queries
    from .writing import check_output, write_json, write_rows

    format = check_output(destination.output, destination.format)
    known = read_model(model)
    queries = read_queries(known, data, layout)
    remark(*queries.remarks)
    rows_in_all = counted(len(queries.frame), "row")
    n_incomplete = int(queries.frame.isna().any(axis=1).sum())
    if n_incomplete and missing == "skip":
        remark(
            f"{n_incomplete:,} of {rows_in_all} have missing or infinite values and get no log "
            "density (--missing marginal scores their other values)"
        )
    with working(f"scoring {rows_in_all}"):
        values = log_densities(known.density, queries, missing, jobs)
    found = _mean(values)
    if not mean or destination.output != "-":
        rows = {"log_densities": values}
        write_rows({"log_density": values}, destination, format, found, rows)
    elif destination.json:
        write_json(found)
    if mean and not destination.json:
        typer.echo(_in_words(found))


def _mean(values: Any) -> dict[str, Any]:
    """Return the mean of the values that are not missing, with its standard error."""
    from ..estimate import mean_with_error

    known = values[values == values]
    average, error = mean_with_error(known) if len(known) else (float("nan"), float("nan"))
    return {
        "n_rows": len(values),
        "n_scored": len(known),
        "mean_log_density": average,
        "std_error": error,
    }


def _in_words(found: dict[str, Any]) -> str:
    from ..estimate import Estimate

    figure = Estimate(found["mean_log_density"], found["std_error"], found["n_scored"])
    return f"{figure} (mean log density of {counted(found['n_scored'], 'row')})"


def sample(
    model: options.ModelFile,
    destination: options.Destination,
    n: Annotated[int, typer.Option("-n", "--number", min=0, help="Number of rows to draw.")] = 1000,
    seed: options.Seed = None,
) -> None:
    """Draw new rows from a fitted density.

    For example:
      sevenhills sample model.sevenhills -n 5
      sevenhills sample model.sevenhills -n 100000 --seed 0 -o draws.parquet
      sevenhills sample model.sevenhills -n 100 --json
    """
    from .model_files import read_model
    from .writing import check_output, write_rows

    format = check_output(destination.output, destination.format)
    known = read_model(model)
    with working(f"drawing {counted(n, 'row')}"):
        rows = known.density.sample(n, seed)
    names = known.shown_names
    table = dict(zip(names, rows.T, strict=True))
    write_rows(table, destination, format, {"columns": names, "n_rows": n}, {"rows": rows})
