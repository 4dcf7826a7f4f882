"""The command ``fit``."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from ..texts import counted, text_table
from . import options
from .screen import listed, remark, shortened

if TYPE_CHECKING:
    from .samples import Samples


def fit(
    data: options.Data,
    output: Annotated[Path, Option("--output", "-o", help="Model file, like m.sevenhills.")],
    choices: options.Choices,
    layout: options.Layout,
    weights: Annotated[str | None, Option(help="Column with the repetitions of rows.")] = None,
    by: options.By = None,
    estimator: options.Estimator = None,
    min_std: Annotated[
        str | None, Option(help="Smallest standard deviation, in units of --scale, or auto.")
    ] = None,
    resolution: Annotated[
        str | None, Option(help="Unit to which values are rounded: a number, auto or none.")
    ] = None,
    support: options.Support = None,
    scale: options.Scale = None,
    selection: Annotated[
        Literal["silhouette", "dbcv", "auto", "none"] | None,
        Option(help="Rule by which ROME chooses clusters; none makes one cluster."),
    ] = None,
    density: Annotated[
        Literal["kde", "gaussian", "knn", "mpw"] | None,
        Option(help="Density of every cluster in ROME; knn cannot be sampled."),
    ] = None,
    constant: options.Constant = "drop",
    jobs: options.Jobs = None,
    json: options.Json = False,
) -> None:
    """Fit a density to a table and save it as a model.

    Columns of words, row numbers, identifiers and columns with one value only are left out, and so
    are rows with missing values. Standard error names them; options refuse or keep them instead.
    An older model of the same name is replaced once the new one is complete.

    With --by species, every species has a density and a model file of its own: -o m.sevenhills
    writes m-Adelie.sevenhills and so on, all of them or none.

    For example:
      sevenhills fit data.csv -o model.sevenhills
      sevenhills fit data.parquet -o model.sevenhills --columns height,weight --estimator rome
      sevenhills fit penguins.csv -o penguins.sevenhills --by species
      sevenhills fit wind.csv -o wind.sevenhills --support speed=0: --support from=circular:360
      cat data.csv | sevenhills fit - -o model.sevenhills --missing raise --json
    """
    from ..atomic_write import check_writable
    from .samples import parts_of
    from .table_files import read_table
    from .writing import paths_by_category, write_all, write_json

    if str(output) == "-":
        raise ValueError("a model is not written to standard output; give -o a file name")
    check_writable(output)
    samples, parts = parts_of(read_table(data, layout), choices, constant, weights, by)
    paths = paths_by_category(output, parts)
    remark(*samples.remarks)
    # These take a second to import; errors in tables are reported before.
    from ..storage import save
    from .model_files import fit_parts

    recipe, models = fit_parts(
        samples,
        parts,
        estimator=estimator,
        support=support,
        min_std=min_std,
        resolution=resolution,
        scale=scale,
        density=density,
        selection=selection,
        n_jobs=jobs,
    )
    write_all(paths, [partial(save, model) for model in models])
    facts = [
        {"model": str(path), "n_rows": len(part.frame), "columns": part.names, **_facts(model)}
        for path, part, model in zip(paths, parts.values(), models, strict=True)
    ]
    common = {**recipe.facts, "data": data, "left_out": samples.left_out}
    if by is not None:
        facts = [{"category": each, **own} for each, own in zip(parts, facts, strict=True)]
    if json:
        write_json({**common, **(facts[0] if by is None else {"by": by, "models": facts})})
        return
    if by is None:
        _print_model(models[0], samples, **_clusters(models[0]))
    else:
        _print_models(by, facts)
    typer.echo(f"estimator: {recipe}")
    if by is None:
        typer.echo(f"saved as {output}")


def _facts(model: Any) -> dict[str, Any]:
    """Return the facts about a model for machines."""
    from .model_files import resolutions, supports

    return {
        **_clusters(model),
        "resolution": resolutions(model, model.feature_names_in_),
        "support": supports(model),
    }


def _clusters(model: Any) -> dict[str, int | None]:
    """Return the numbers of clusters and of noise samples, None if there is no clustering."""
    if not hasattr(model, "clusters_"):
        return {"n_clusters": None, "n_noise": None}
    labels = model.labels_
    return {"n_clusters": len(set(labels[labels >= 0])), "n_noise": int((labels < 0).sum())}


def _print_model(
    model: Any, samples: "Samples", n_clusters: int | None, n_noise: int | None
) -> None:
    """Print the size of a model, and how the values of its columns were taken."""
    from ..estimators.summary import describe_categories, describe_resolution
    from ..estimators.support import describe_support

    n_rows, n_columns = counted(len(samples.frame), "row"), counted(len(samples.names), "column")
    found = "" if n_clusters is None else f": {counted(n_clusters, 'cluster')}"
    noise = f", {counted(n_noise, 'noise row')}" if n_noise else ""
    typer.echo(f"fitted {n_rows} of {n_columns} ({listed(samples.names)}){found}{noise}")
    steps = getattr(model, "resolution_", ())
    rounded = describe_resolution(steps, samples.names, "--resolution none", samples.units)
    few = describe_categories(getattr(model, "categories_", ()), samples.names)
    for sentence in filter(None, (few, rounded, describe_support(model.support_))):
        typer.echo(sentence)


def _print_models(by: str, facts: Sequence[dict[str, Any]]) -> None:
    """Print a table of the models of all categories."""
    headings = ("n_rows", "n_clusters", "n_noise", "model")
    rows = [[by, "rows", "clusters", "noise", "saved as"]]
    for each in facts:
        cells = ("" if each[heading] is None else str(each[heading]) for heading in headings)
        rows.append([shortened(each["category"]), *cells])
    typer.echo(text_table(rows))
