"""The command ``describe``."""

from typing import TYPE_CHECKING, Any

import typer

from . import options
from .screen import counted, listed, working

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
        typer.echo(_in_words(known, found))


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


# In words


def _in_words(model: "Model", found: dict[str, Any]) -> str:
    names = found["columns"]
    parts = [
        f"{found['model']}: {found['kind']} of {counted(len(names), 'column')}: {listed(names)}"
    ]
    if hasattr(model.value, "summary"):
        parts.append(model.value.summary())
    if not found["normalized"]:
        parts.append("The density does not integrate to one.")
    if found["clusters"] and len(names) <= 12:
        parts.append(_means(found["clusters"], names))
    if found["modes"] is not None:
        parts.append(_modes_in_words(found["modes"], names))
    if found["correlations"] is not None:
        parts.append(_correlations_in_words(found["correlations"], names))
    return "\n\n".join(parts)


def _row(cells: list[str], first: int = 15, width: int = 13) -> str:
    """Return cells side by side, shortened where they are too long."""
    short = [cell if len(cell) < width else f"{cell[: width - 3]}.." for cell in cells[1:]]
    return f"{cells[0]:>{first}}" + "".join(f"{cell:>{width}}" for cell in short)


def _means(clusters: list[dict[str, Any]], names: list[str]) -> str:
    lines = ["Means of the clusters", _row(["cluster", *names])]
    for cluster in clusters:
        label = "noise" if cluster["label"] < 0 else str(cluster["label"])
        lines.append(_row([label, *(f"{cluster['mean'][name]:.4g}" for name in names)]))
    return "\n".join(lines)


def _modes_in_words(modes: list[dict[str, Any]], names: list[str]) -> str:
    shown = names[:8]
    lines = [
        f"{counted(len(modes), 'mode')} ",
        _row(["share", "log density", *shown]),
    ]
    for mode in modes[:_MAX_SHOWN]:
        place = [f"{mode['location'][name]:.4g}" for name in shown]
        lines.append(_row([f"{mode['share']:.1%}", f"{mode['log_density']:.4g}", *place]))
    if len(modes) > _MAX_SHOWN or len(names) > len(shown):
        lines.append("--json prints all of them")
    return "\n".join(lines)


def _correlations_in_words(correlations: dict[str, Any], names: list[str]) -> str:
    lines = ["Strongest correlations", f"  overall: {_strongest(correlations['all'], names)}"]
    for label, matrix in list(correlations["within_clusters"].items())[: 2 * _MAX_SHOWN]:
        lines.append(f"  within cluster {label}: {_strongest(matrix, names)}")
    return "\n".join(lines)


def _strongest(matrix: "np.ndarray", names: list[str]) -> str:
    """Return the pairs of columns whose correlation is farthest from zero."""
    import numpy as np

    rows, columns = np.triu_indices(len(names), 1)
    order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[:3]
    pairs = ((rows[i], columns[i]) for i in order)
    return ", ".join(f"{names[i]} and {names[j]} {matrix[i, j]:+.2f}" for i, j in pairs)
