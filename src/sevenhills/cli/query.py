"""The commands that query a model: ``describe``, ``score`` and ``sample``."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from ..texts import counted
from . import options
from .screen import listed, remark, working

if TYPE_CHECKING:
    import numpy as np

    from .model_files import Model

#: Modes and alternative clusterings that are printed; JSON has all modes.
_MAX_SHOWN = 5


def describe(
    model: options.ModelFile,
    jobs: options.Jobs = None,
    json: options.Json = False,
) -> None:
    """Describe a model.

    Prints its clusters, how they were chosen, its modes, and the correlations of columns, overall
    and within clusters.

    For example:
      sevenhills describe model.sevenhills
      sevenhills describe model.sevenhills --json | jq .clusters
    """
    from .model_files import read_model, resolutions
    from .writing import write_json

    known = read_model(model)
    with working("looking for modes"):
        found = {
            "model": str(model),
            "kind": type(known.value).__name__,
            "columns": known.shown_names,
            "normalized": known.density.is_normalized,
            "resolution": resolutions(known.value, known.shown_names),
            "clusters": _clusters(known),
            "choice": _choice(known),
            "modes": _modes(known, jobs),
            "correlations": _correlations(known),
        }
    if json:
        write_json(found)
    else:
        typer.echo(_description(known, found))


def _clusters(model: "Model") -> list[dict[str, Any]] | None:
    """Return size and mean of every cluster, or None if the model has no clusters."""
    if not hasattr(model.value, "clusters_"):
        return None
    return [
        {
            "label": cluster.label,
            "n_rows": cluster.n_members,
            "share": cluster.share,
            "mean": dict(zip(model.shown_names, cluster.mean, strict=True)),
        }
        for cluster in model.value.clusters_
    ]


def _choice(model: "Model") -> dict[str, Any] | None:
    """Return the chosen clustering and the next best candidates."""
    candidates = getattr(model.value, "candidates_", None)
    if candidates is None:
        return None
    table = candidates.to_dict()
    ranked = [{name: column[i] for name, column in table.items()} for i in candidates.ranking()]
    return {
        "criterion": candidates.criterion,
        "n_candidates": len(candidates),
        "n_cuts": candidates.n_cuts.sum(),
        "chosen": ranked[0],
        "next_best": ranked[1 : 1 + _MAX_SHOWN],
    }


def _modes(model: "Model", n_jobs: int | None) -> list[dict[str, Any]] | None:
    """Return the modes, largest share first."""
    from ..density import KernelMixture

    if not isinstance(model.density, KernelMixture):
        return None
    table = model.density.modes(n_jobs=n_jobs)
    return [
        {
            "share": table.shares[i],
            "log_density": table.log_heights[i],
            "location": dict(zip(model.shown_names, table.locations[i], strict=True)),
        }
        for i in range(len(table))
    ]


def _correlations(model: "Model") -> dict[str, Any] | None:
    """Return the correlations of all columns, overall and within every cluster."""
    import numpy as np

    from ..density import KernelMixture

    density = model.density
    if not isinstance(density, KernelMixture) or density.n_features < 2:
        return None
    labels = np.unique(density.clusters[density.clusters >= 0]).tolist()
    within = {label: _correlation(density.component(label)) for label in labels}
    return {"all": _correlation(density), "within_clusters": within if len(labels) > 1 else {}}


def _correlation(density: Any) -> "np.ndarray":
    import numpy as np

    covariance = density.cov()
    deviations = np.sqrt(np.diag(covariance))
    return covariance / np.outer(deviations, deviations)


def _description(model: "Model", found: dict[str, Any]) -> str:
    names = found["columns"]
    parts = [
        f"{found['model']}: {found['kind']} of {counted(len(names), 'column')}: {listed(names)}"
    ]
    if hasattr(model.value, "summary"):
        parts.append(model.value.summary())
    if not found["normalized"]:
        parts.append("The density does not integrate to one.")
    if found["clusters"] and len(names) <= 12:
        parts.append(_table_of_means(found["clusters"], names))
    if found["modes"] is not None:
        parts.append(_table_of_modes(found["modes"], names))
    if found["correlations"] is not None:
        parts.append(_strongest_correlations(found["correlations"], names))
    return "\n\n".join(parts)


def _row(cells: list[str], first: int = 15, width: int = 13) -> str:
    """Return cells side by side, shortened where they are too long."""
    short = [cell if len(cell) < width else f"{cell[: width - 3]}.." for cell in cells[1:]]
    return f"{cells[0]:>{first}}" + "".join(f"{cell:>{width}}" for cell in short)


def _table_of_means(clusters: list[dict[str, Any]], names: list[str]) -> str:
    lines = ["Means of the clusters", _row(["cluster", *names])]
    for cluster in clusters:
        label = "noise" if cluster["label"] < 0 else str(cluster["label"])
        lines.append(_row([label, *(f"{cluster['mean'][name]:.4g}" for name in names)]))
    return "\n".join(lines)


def _table_of_modes(modes: list[dict[str, Any]], names: list[str]) -> str:
    shown = names[:8]
    lines = [f"{counted(len(modes), 'mode')} ", _row(["share", "log density", *shown])]
    for mode in modes[:_MAX_SHOWN]:
        place = [f"{mode['location'][name]:.4g}" for name in shown]
        lines.append(_row([f"{mode['share']:.1%}", f"{mode['log_density']:.4g}", *place]))
    if len(modes) > _MAX_SHOWN or len(names) > len(shown):
        lines.append("--json prints all of them")
    return "\n".join(lines)


def _strongest_correlations(correlations: dict[str, Any], names: list[str]) -> str:
    lines = ["Strongest correlations", f"  overall: {_strongest(correlations['all'], names)}"]
    for label, matrix in list(correlations["within_clusters"].items())[: 2 * _MAX_SHOWN]:
        lines.append(f"  within cluster {label}: {_strongest(matrix, names)}")
    return "\n".join(lines)


def _strongest(matrix: "np.ndarray", names: list[str]) -> str:
    """Return the pairs of columns whose correlation is farthest from zero."""
    import numpy as np

    rows, columns = np.triu_indices(len(names), 1)
    order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[:3]
    pairs = zip(rows[order], columns[order], strict=True)
    return ", ".join(f"{names[i]} and {names[j]} {matrix[i, j]:+.2f}" for i, j in pairs)


def score(
    model: options.ModelFile,
    data: options.Data,
    layout: options.Layout,
    destination: options.Destination,
    mean: Annotated[bool, Option("--mean", help="Print only the mean over rows.")] = False,
    missing: Annotated[
        Literal["skip", "marginal", "raise"],
        Option(help="Incomplete rows: leave out, take the marginal log density, or refuse."),
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
    n_rows = counted(len(queries.frame), "row")
    n_incomplete = int(queries.frame.isna().any(axis=1).sum())
    if n_incomplete and missing == "skip":
        remark(
            f"{n_incomplete:,} of {n_rows} have missing or infinite values and get no log density "
            "(--missing marginal scores their other values)"
        )
    with working(f"scoring {n_rows}"):
        values = log_densities(known.density, queries, missing, jobs)
    found = _mean(values)
    if not mean or destination.output != "-":
        rows = {"log_densities": values}
        write_rows({"log_density": values}, destination, format, found, rows)
    elif destination.json:
        write_json(found)
    if mean and not destination.json:
        from ..estimate import Estimate

        figure = Estimate(found["mean_log_density"], found["std_error"], found["n_scored"])
        typer.echo(f"{figure} (mean log density of {counted(found['n_scored'], 'row')})")


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


def sample(
    model: options.ModelFile,
    destination: options.Destination,
    n: Annotated[int, Option("-n", "--number", min=0, help="Number of rows to draw.")] = 1000,
    seed: Annotated[int | None, Option(help="Seed of the random numbers.")] = None,
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
