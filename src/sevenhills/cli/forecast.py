"""The command ``forecast``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ..texts import counted, text_table
from . import options
from .screen import working

if TYPE_CHECKING:
    from ..forecast import Evaluation, Ranking


def forecast(
    predictions: Annotated[
        list[Path], Argument(help="Samples of each forecaster: npz, npy, csv or parquet.")
    ],
    truth: Annotated[Path, Option(help="The true paths: npz, npy, csv or parquet.")],
    output: Annotated[Path | None, Option("--output", "-o", help="HTML page to write.")] = None,
    rank_by: Annotated[str | None, Option(help="The measure to rank by, nll by default.")] = None,
    estimator: Annotated[
        str, Option(help="Density of whole paths: pooled, rome, kde or auto.")
    ] = "pooled",
    measure: Annotated[list[str] | None, Option(help="A measure, may be repeated; or all.")] = None,
    lower_bound: Annotated[
        float | None, Option(help="Lower bound of log densities of steps; -20 is customary.")
    ] = None,
    k: Annotated[
        list[int] | None, Option("-k", help="Samples for minimum distances; may be repeated.")
    ] = None,
    miss_threshold: Annotated[float, Option(help="Farther forecasts are misses.")] = 2.0,
    agents: Annotated[bool, Option("--agents", help="The files have an axis of agents.")] = False,
    check_units: Annotated[bool, Option(help="Refuse units that look inconsistent.")] = True,
    jobs: Annotated[int, Option(help="Number of processes, -1 for all cores.")] = 1,
    parquet: Annotated[Path | None, Option(help="Parquet file of all scenes to write.")] = None,
    json: options.Json = False,
) -> None:
    """Evaluate and rank forecasters that are given as samples.

    Samples have the axes (scenes, samples, steps, coordinates), true paths have no axis of samples.
    Tables have the columns scene, sample, step, x and y; those of true paths have no sample.
    The array groups of an npz file, or the column group of a table, labels scenes that belong
    together. Forecasters are named after their files.

    For example:
      sevenhills forecast a.npz b.npz --truth truth.npz -o report.html
      sevenhills forecast a.csv --truth truth.csv --estimator kde --lower-bound -20
    """
    from ..forecast import rank
    from ..report.evaluation_report import forecast_report
    from ..report.forecast_verdicts import verdicts
    from .writing import check_output, check_page_output, write_json, write_table

    if output is not None:
        check_page_output(output)
    if parquet is not None:
        check_output(str(parquet), "parquet")
    files = named_after_files(predictions)
    with working(f"evaluating {counted(len(files), 'forecaster')}"):
        ranking = rank(
            files,
            truth,
            measure=rank_by,
            estimator=estimator,
            measures="all" if measure == ["all"] else measure or None,
            lower_bound=lower_bound,
            k=k or None,
            miss_threshold=miss_threshold,
            agents=agents,
            check_units=check_units,
            n_jobs=jobs,
        )
    if output is not None:
        forecast_report(ranking, files, truth, agents=agents).save(output)
    if parquet is not None:
        write_table(_scenes(ranking.evaluations), str(parquet), "parquet")
    if json:
        write_json(_plain(ranking, verdicts(ranking)))
        return
    tables = [text_table(ranking.texts(what)) for what in ("summary", "measures")]
    typer.echo("\n\n".join(["\n".join(verdicts(ranking)), *tables]))
    if output is not None:
        typer.echo(f"wrote {output}")


def named_after_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Return files by the shortest ends of their paths that differ, without suffixes."""
    if len(set(paths)) < len(paths):
        raise ValueError(f"each file must be given once, got {' '.join(map(str, paths))}")
    parts = [path.with_suffix("").parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-length:]) for each in parts]
        if len(set(names)) == len(paths):
            return dict(zip(names, paths, strict=True))
    return dict(zip(map(str, paths), paths, strict=True))


def _scenes(evaluations: Mapping[str, "Evaluation"]) -> dict[str, Any]:
    """Return the scores of all scenes by columns, one forecaster below the other."""
    import numpy as np

    tables = [each.columns("scenes") for each in evaluations.values()]
    names = np.repeat(list(evaluations), [len(each["scene"]) for each in tables])
    return {
        "forecaster": names,
        **{name: np.concatenate([each[name] for each in tables]) for name in tables[0]},
    }


def _plain(ranking: "Ranking", sentences: Sequence[str]) -> dict[str, Any]:
    """Return a ranking as plain values."""
    return {
        "verdict": sentences,
        "measure": ranking.measure,
        "ranking": ranking.columns(),
        "ties": ranking.ties,
        "forecasters": {
            name: {
                "summary": each.columns("summary"),
                "coverage": each.columns("coverage"),
                "degenerate": each.degenerate,
                "settings": each.settings,
            }
            for name, each in ranking.evaluations.items()
        },
    }
