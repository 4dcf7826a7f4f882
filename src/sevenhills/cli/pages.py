"""The command ``report``."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

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
            pages, facts = _fitted(
                samples, parts, estimator=estimator, support=support, scale=scale
            )
    with working("writing the report"):
        _write(pages, paths, source, data, title)
    found = [
        {"report": str(path), "n_rows": len(page.shown["X"]) if page.shown else None}
        for path, page in zip(paths, pages, strict=True)
    ]
    if by is not None:
        found = [{"category": p.category, **each} for p, each in zip(pages, found, strict=True)]
    if json:
        write_json({**(found[0] if by is None else {"by": by, "reports": found}), **facts})
    else:
        for path in paths:
            typer.echo(f"wrote {path}")


class _Page(NamedTuple):
    """The contents of a page."""

    category: str | None
    model: Any
    #: The samples and notes, as arguments of the report.
    shown: dict[str, Any]


def _fitted(
    samples: "Samples",
    parts: "Parts",
    **options: Any,
) -> tuple[list[_Page], dict[str, Any]]:
    """Return a page for every category, and facts about the estimator."""
    from .model_files import fit_parts

    recipe, models = fit_parts(samples, parts, **options)
    remark(f"estimator: {recipe}")
    pages = []
    for (category, part), model in zip(parts.items(), models, strict=True):
        shown = _shown(replace(part, remarks=(*samples.remarks, f"estimator: {recipe}")))
        pages.append(_Page(category, model, shown))
    return pages, recipe.facts


def _write(
    pages: Sequence[_Page], paths: Sequence[Path], source: str, data: str | None, title: str | None
) -> None:
    """Write all pages, or none if one of them cannot be built."""
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
