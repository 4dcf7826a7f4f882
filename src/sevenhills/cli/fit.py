"""The command ``fit``."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from ..texts import counted
from . import options
from .screen import listed, remark, working


def fit(
    data: options.Data,
    output: Annotated[Path, Option("--output", "-o", help="Model file, like m.sevenhills.")],
    choices: options.Choices,
    layout: options.Layout,
    weights: Annotated[str | None, Option(help="Column with the repetitions of rows.")] = None,
    estimator: options.Estimator = "rome",
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

    For example:
      sevenhills fit data.csv -o model.sevenhills
      sevenhills fit data.parquet -o model.sevenhills --columns height,weight --estimator auto
      sevenhills fit wind.csv -o wind.sevenhills --support speed=0: --support from=circular:360
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
    n_rows = counted(len(samples.frame), "row")
    with working(f"fitting {n_rows}"):
        # These take a second to import; errors in tables are reported before.
        from ..estimators.summary import describe_resolution
        from ..estimators.support import describe_support
        from ..storage import save
        from .model_files import make_estimator, parse_support, resolutions, supports

        unfitted = make_estimator(
            estimator,
            min_std=min_std,
            resolution=resolution,
            support=parse_support(support, samples.frame, samples.weights),
            scale=scale,
            density=density,
            selection=selection,
            n_jobs=jobs,
        )
        model = unfitted.fit(samples.frame, sample_weight=samples.weights)
        save(model, output)
    clusters = _clusters(model)
    if json:
        write_json(
            {
                "model": str(output),
                "estimator": estimator,
                "data": data,
                "n_rows": len(samples.frame),
                "columns": samples.names,
                "left_out": samples.left_out,
                **clusters,
                "resolution": resolutions(model, samples.names),
                "support": supports(model),
            }
        )
        return
    n_columns = counted(len(samples.names), "column")
    typer.echo(f"fitted {n_rows} of {n_columns} ({listed(samples.names)}){_in_words(**clusters)}")
    units = getattr(model, "resolution_", ())
    rounded = describe_resolution(units, samples.names, "--resolution none")
    for sentence in filter(None, (rounded, describe_support(model.support_))):
        typer.echo(sentence)
    typer.echo(f"saved as {output}")


def _clusters(model: Any) -> dict[str, int | None]:
    """Return the numbers of clusters and of noise samples, None if there is no clustering."""
    if not hasattr(model, "clusters_"):
        return {"n_clusters": None, "n_noise": None}
    labels = model.labels_
    return {"n_clusters": len(set(labels[labels >= 0])), "n_noise": int((labels < 0).sum())}


def _in_words(n_clusters: int | None, n_noise: int | None) -> str:
    if n_clusters is None:
        return ""
    noise = f", {n_noise:,} noise rows" if n_noise else ""
    return f": {counted(n_clusters, 'cluster')}{noise}"
