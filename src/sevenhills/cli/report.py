"""The command ``report``."""

from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .screen import counted, remark, working

if TYPE_CHECKING:
    from .samples import Samples


def report(
    source: Annotated[str, typer.Argument(help="A model file, or data to fit a model to.")],
    choices: options.Choices,
    layout: options.Layout,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    data: Annotated[
        str | None, typer.Option(help="Data that the model was fitted to; - is standard input.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    estimator: options.Estimator = "rome",
    constant: options.Constant = "drop",
    json: options.Json = False,
) -> None:
    """Write a report about a model, or about a fit to data, as one HTML page.

    The page is interactive and needs no network.

    For example:
      sevenhills report data.csv -o report.html
      sevenhills report model.sevenhills --data data.csv --title "Sea levels"
    """
    from ..report import report as write_report
    from .model_files import fit_samples, make_estimator
    from .samples import samples_of
    from .table_files import is_model, opened, table_of
    from .writing import check_page_output, write_json

    check_page_output(output)
    with opened(source) as file:
        if is_model(file):
            model, shown = _saved_model(file, source, data, layout)
        elif data is not None:
            raise ValueError(f"--data belongs to a model, but {source} is not a model")
        else:
            samples = samples_of(table_of(file, source, layout), choices, constant)
            remark(*samples.remarks)
            with working(f"fitting {counted(len(samples.X), 'row')}"):
                model = fit_samples(make_estimator(estimator), samples)
            shown = _shown(samples, source)
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


def _saved_model(
    file: IO[bytes], source: str, data: str | None, layout: Any
) -> tuple[Any, dict[str, Any]]:
    """Return a saved model, and the complete rows of its data."""
    from .model_files import model_of, read_complete_queries

    model = model_of(file, source)
    if data is None:
        return model.value, {}
    samples = read_complete_queries(model, data, layout)
    remark(*samples.remarks)
    return model.value, _shown(samples, data)


def _shown(samples: "Samples", source: str) -> dict[str, Any]:
    """Return the samples of a page and notes on them; rows are numbered from 1."""
    origin = "standard input" if source == "-" else source
    notes = [f"Rows of {origin} are numbered from 1, without the header.", *samples.remarks]
    return {"X": samples.X, "rows": samples.frame.index.to_numpy() + 1, "notes": notes}
