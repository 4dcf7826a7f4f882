"""The command ``report``."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from . import options
from .screen import counted, remark, working


def report(
    source: Annotated[str, typer.Argument(help="A model file, or data of which to fit one.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    data: Annotated[
        str | None, typer.Option(help="The data to show beside a model; - is standard input.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    mode: options.Mode = "rome",
    columns: options.Columns = None,
    text: options.Text = "drop",
    missing: options.Missing = "drop",
    constant: options.Constant = "drop",
    duplicates: options.Duplicates = "keep",
    separator: options.Separator = None,
    decimal: options.Decimal = "auto",
    header: options.Header = None,
    json: options.Json = False,
) -> None:
    """Write what was found into one HTML page.

    The page needs no network. It shows a model, or one that is fitted to data.

    For example:
      sevenhills report data.csv -o report.html
      sevenhills report model.sevenhills --data data.csv --title "Sea levels"
    """
    from ..report import report as write_report
    from .array_files import is_model
    from .reading import opened
    from .samples import Choices
    from .text_files import Layout
    from .writing import check_page_output, write_json

    check_page_output(output)
    layout = Layout(separator, decimal, header)
    with opened(source) as file:
        if is_model(file):
            model, shown = _of_model(file, source, data, layout)
        elif data is not None:
            raise ValueError(f"--data belongs to a model, but {source} is none")
        else:
            choices = Choices(columns, None, text, missing, constant, duplicates)
            model, shown = _of_data(file, source, mode, choices, layout)
    with working("writing the report"):
        try:
            write_report(model, output, title=title, **shown)
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


def _of_model(
    file: IO[bytes], source: str, data: str | None, layout: Any
) -> tuple[Any, dict[str, Any]]:
    """Return a saved model, and the complete rows of the data that belong to it."""
    import numpy as np

    from .models import model_of
    from .queries import read_queries

    model = model_of(file, source)
    if data is None:
        return model.value, {}
    queries = read_queries(model, data, layout)
    remarks = list(queries.remarks("drop"))
    n_incomplete = int((~queries.is_complete).sum())
    if n_incomplete:
        remarks.append(f"left out {counted(n_incomplete, 'row')} with missing or infinite values")
    remark(*remarks)
    return model.value, _shown(
        queries.X[queries.is_complete], np.flatnonzero(queries.is_complete), data, remarks
    )


def _of_data(
    file: IO[bytes], source: str, mode: str, choices: Any, layout: Any
) -> tuple[Any, dict[str, Any]]:
    """Return a model of data, and the rows that it was fitted to."""
    from .models import fit_recipe, recipe_of
    from .reading import table_of
    from .samples import samples_of

    samples = samples_of(table_of(file, source, layout), choices)
    remark(*samples.remarks)
    with working(f"fitting {counted(len(samples.X), 'row')}"):
        model = fit_recipe(recipe_of(mode), samples)
    return model, _shown(samples.X, samples.rows, source, samples.remarks)


def _shown(X: Any, rows: Any, source: str, remarks: Sequence[str]) -> dict[str, Any]:
    """Return the samples of a page and what it says of them; rows count from 1, as in a table."""
    origin = "standard input" if source == "-" else source
    notes = [f"Rows are those of {origin}, numbered from 1, without the header.", *remarks]
    return {"X": X, "rows": rows + 1, "notes": notes}
