"""The command ``fit``."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from . import options
from .screen import counted, listed, remark, working


def fit(
    data: options.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Model file to write, like m.sevenhills.")
    ],
    choices: options.Choices,
    layout: options.Layout,
    weights: Annotated[
        str | None,
        typer.Option(help="Column with the number of samples that every row stands for."),
    ] = None,
    estimator: options.Estimator = "rome",
    min_std: options.MinStd = None,
    resolution: options.Resolution = None,
    selection: Annotated[
        Literal["silhouette", "dbcv", "none"] | None,
        typer.Option(help="Score by which ROME chooses clusters; none makes one cluster."),
    ] = None,
    density: Annotated[
        Literal["kde", "gaussian", "knn", "mpw"] | None,
        typer.Option(help="Density of every cluster in ROME; knn cannot be sampled."),
    ] = None,
    constant: options.Constant = "drop",
    jobs: options.Jobs = None,
    json: options.Json = False,
) -> None:
    """Fit a density to a table and save it as a model.

    Columns of words, rows with missing values and columns with one value only are left out and
    named on standard error; options refuse them instead. An older model of the same name is
    replaced once the new one is complete.

    For example:
      sevenhills fit data.csv -o model.sevenhills
      sevenhills fit data.parquet -o model.sevenhills --columns height,weight --estimator auto
      cat data.csv | sevenhills fit - -o model.sevenhills --missing raise --json
    """
    from ..atomic_write import check_writable
    from .samples import samples_of
    from .table_files import read_table
    from .writing import write_json

    if str(output) == "-":
        raise ValueError("a model is not written to standard output; give -o a file name")
    check_writable(output)
    samples = samples_of(read_table(data, layout), choices, constant, weights)
    remark(*samples.remarks)
    with working(f"fitting {counted(len(samples.X), 'row')}"):
        # These take a second to import; errors in tables are reported before.
        from ..estimators.summary import describe_resolution
        from ..storage import save
        from .model_files import fit_samples, make_estimator, resolutions

        unfitted = make_estimator(
            estimator,
            min_std=min_std,
            resolution=resolution,
            density=density,
            selection=selection,
            n_jobs=jobs,
        )
        model = fit_samples(unfitted, samples)
        save(model, output)
    found = {
        "model": str(output),
        "estimator": estimator,
        "data": data,
        "n_rows": len(samples.X),
        "columns": samples.names,
        "left_out": samples.left_out,
        **_clusters(model),
        "resolution": resolutions(model, samples.names),
    }
    if json:
        write_json(found)
    else:
        units = getattr(model, "resolution_", ())
        typer.echo(_in_words(found, describe_resolution(units, samples.names, "--resolution none")))


def _clusters(model: Any) -> dict[str, int | None]:
    """Return the numbers of clusters and of noise samples, None if there is no clustering."""
    if not hasattr(model, "clusters_"):
        return {"n_clusters": None, "n_noise": None}
    labels = model.labels_
    return {"n_clusters": len(set(labels[labels >= 0])), "n_noise": int((labels < 0).sum())}


def _in_words(found: dict[str, Any], rounded: str) -> str:
    text = (
        f"fitted {counted(found['n_rows'], 'row')} of {counted(len(found['columns']), 'column')} "
        f"({listed(found['columns'])})"
    )
    if found["n_clusters"] is not None:
        text += f": {counted(found['n_clusters'], 'cluster')}"
        if found["n_noise"]:
            text += f", {found['n_noise']:,} noise rows"
    parts = [text, rounded, f"saved as {found['model']}"]
    return "\n".join(part for part in parts if part)
