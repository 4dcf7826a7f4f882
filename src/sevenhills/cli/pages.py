"""The command ``report``."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from ..texts import counted
from . import options
from .screen import remark, working

if TYPE_CHECKING:
    from .samples import Parts, Samples


def report(
    source: Annotated[str, Argument(help="A model file, or data to fit a model to.")],
    choices: options.Choices,
    layout: options.Layout,
    output: Annotated[Path, Option("--output", "-o", help="HTML file.")] = Path("report.html"),
    data: Annotated[str | None, Option(help="The data of the model; - is stdin.")] = None,
    title: Annotated[str | None, Option(help="The title of the page.")] = None,
    by: options.By = None,
    estimator: options.Estimator = None,
    support: options.Support = None,
    scale: options.Scale = None,
    constant: options.Constant = "drop",
    json: options.Json = False,
) -> None:
    """Write a report about a model, or about a fit to data, as one HTML page.

    The page is interactive and needs no network. With --by species, every species has a density
    and a page of its own: -o report.html writes report-Adelie.html and so on.

    For example:
      sevenhills report data.csv -o report.html
      sevenhills report penguins.csv -o penguins.html --by species
      sevenhills report model.sevenhills --data data.csv --title "Sea levels"
    """
    from .samples import parts_of
    from .table_files import is_model, opened, table_of
    from .writing import check_page_output, paths_by_category, write_json

    check_page_output(output)
    paths = [output]
    facts: dict[str, Any] = {}
    with opened(source) as file:
        if is_model(file):
            fixed = {"--by": by, "--estimator": estimator, "--support": support, "--scale": scale}
            for option, value in fixed.items():
                if value:
                    raise ValueError(f"{option} belongs to data, but {source} is a model")
            model, shown = _saved_model(file, source, data, layout)
            pages = [_Page(None, model, shown)]
        elif data is not None:
            raise ValueError(f"--data belongs to a model, but {source} is not a model")
        else:
            samples, parts = parts_of(table_of(file, source, layout), choices, constant, by=by)
            paths = paths_by_category(output, parts)
            remark(*samples.remarks)
            pages, facts = _recipes(
                samples, parts, estimator=estimator, support=support, scale=scale
            )
    with working("fitting and judging"):
        verdicts = _write(pages, paths, source, data, title)
    found = [
        {
            "report": str(path),
            "n_rows": len(page.shown["X"]) if page.shown else None,
            "verdict": verdict,
        }
        for path, page, verdict in zip(paths, pages, verdicts, strict=True)
    ]
    if by is not None:
        found = [{"category": p.category, **each} for p, each in zip(pages, found, strict=True)]
    if json:
        write_json({**(found[0] if by is None else {"by": by, "reports": found}), **facts})
    else:
        for path, verdict in zip(paths, verdicts, strict=True):
            typer.echo("\n".join([f"wrote {path}", *verdict]))


class _Page(NamedTuple):
    """The contents of a page."""

    category: str | None
    model: Any
    #: The samples and notes, as arguments of the report.
    shown: dict[str, Any]


def _recipes(
    samples: "Samples", parts: "Parts", **options: Any
) -> tuple[list[_Page], dict[str, Any]]:
    """Return a page for every category, whose model is not fitted, and facts about it."""
    from .model_files import recipes_of

    recipes = recipes_of(samples, parts, **options)
    remark(f"estimator: {recipes[0]}")
    pages = []
    for (category, part), recipe in zip(parts.items(), recipes, strict=True):
        part = replace(
            part,
            remarks=(*samples.remarks, f"estimator: {recipe}"),
            left_out={**part.left_out, **samples.left_out},
        )
        pages.append(_Page(category, recipe.estimator, _shown(part)))
    return pages, recipes[0].facts


def _write(
    pages: Sequence[_Page], paths: Sequence[Path], source: str, data: str | None, title: str | None
) -> list[list[str]]:
    """Write all pages, or none if one of them cannot be built; return their verdicts."""
    from ..report import build_report
    from .model_files import naming_category
    from .writing import write_all

    reports = []
    for page in pages:
        own = title
        if page.category is not None:
            own = f"{title or Path(source).stem}: {page.category}"
        try:
            with naming_category(page.category):
                reports.append(build_report(page.model, title=own, **page.shown))
        except ValueError as error:
            if data is None or not str(error).startswith("X must be the"):
                raise
            raise ValueError(
                f"{data} does not hold the rows that {source} was fitted to"
            ) from error
    write_all(paths, [each.save for each in reports])
    return [list(each.verdict) for each in reports]


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
    return {
        "X": samples.frame,
        "rows": samples.frame.index.to_numpy() + 1,
        "notes": [note, *samples.remarks],
        "left_out": _reasons(samples.left_out),
    }


#: Why columns were left out, by the key of their list.
_COLUMN_REASONS = {
    "text_columns": "words",
    "identifier_columns": "row numbers or identifiers",
    "empty_columns": "few or no values",
    "constant_columns": "one value only",
}
#: Why rows were left out, by the key of their number.
_ROW_REASONS = {
    "rows_with_missing_values": "missing values",
    "unit_and_total_rows": "units or totals",
    "duplicate_rows": "repeated",
    "rows_without_category": "no category",
    "rows_of_small_categories": "small categories",
}


def _reasons(left_out: dict[str, Any]) -> dict[str, str]:
    """Return the columns and the numbers of rows that were left out, with the reasons."""
    columns = {
        name: reason for key, reason in _COLUMN_REASONS.items() for name in left_out.get(key, ())
    }
    numbers = {key: left_out.get(key, 0) for key in _ROW_REASONS}
    rows = {counted(n, "row"): _ROW_REASONS[key] for key, n in numbers.items() if n}
    return {**columns, **rows}
