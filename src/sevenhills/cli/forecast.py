"""The command ``forecast``: evaluate files of forecasts and write a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..forecast import Evaluation


def forecast(
    predictions: Annotated[
        Path,
        typer.Argument(help="Samples (scenes, samples, steps, coordinates): npz, npy, parquet."),
    ],
    truth: Annotated[Path, typer.Argument(help="What became true: npz, npy or parquet.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page to write, .html.")
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="Density of whole paths: rome, kde or auto.")
    ] = "rome",
    step_estimator: Annotated[
        str, typer.Option(help="Density of single steps: kde, rome or auto.")
    ] = "kde",
    measure: Annotated[
        list[str] | None, typer.Option(help="A measure to take, may be repeated; all if none.")
    ] = None,
    shrinkage: Annotated[
        str, typer.Option(help="Shrunk covariances of ROME: auto, always or none.")
    ] = "auto",
    errors: Annotated[
        str, typer.Option(help="Samples without a density: floor, skip or raise.")
    ] = "floor",
    floor: Annotated[
        float | None, typer.Option(help="Standard deviation to give them, in the data's unit.")
    ] = None,
    lower_bound: Annotated[
        float | None, typer.Option(help="Raise log densities of steps to this; -20 is customary.")
    ] = None,
    k: Annotated[
        list[int] | None, typer.Option("-k", help="Samples for the nearest one, may be repeated.")
    ] = None,
    miss_threshold: Annotated[float, typer.Option(help="How far off is a miss.")] = 2.0,
    agents: Annotated[bool, typer.Option("--agents", help="There is an axis of agents.")] = False,
    check_units: Annotated[
        bool, typer.Option(help="Refuse units or axes that look mixed up.")
    ] = True,
    jobs: Annotated[int, typer.Option(help="Number of processes, -1 for all cores.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    parquet: Annotated[
        Path | None, typer.Option(help="Write the evaluation, all scenes in it, to this file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON in place of a table.")
    ] = False,
    title: Annotated[str, typer.Option(help="The title of the page.")] = "Forecasts, evaluated",
    verbose: Annotated[bool, typer.Option("--verbose", help="Say how far it is.")] = False,
) -> None:
    """Evaluate forecasts that are given as samples.

    For example:
      sevenhills forecast predictions.npz truth.npz -o report.html
      sevenhills forecast samples.parquet truth.parquet --estimator kde --lower-bound -20
    """
    from ..forecast import evaluate
    from .writing import check_output, check_page_output

    if output is not None:
        check_page_output(output)
    if parquet is not None:
        check_output(str(parquet), "parquet")
    evaluation = evaluate(
        predictions,
        truth,
        estimator=estimator,
        step_estimator=step_estimator,
        measures=measure or None,
        shrinkage=None if shrinkage == "none" else shrinkage,
        errors=errors,
        floor=floor,
        lower_bound=lower_bound,
        k=k or None,
        miss_threshold=miss_threshold,
        agents=agents,
        check_units=check_units,
        n_jobs=jobs,
        random_state=seed,
        verbose=verbose,
    )
    if output is not None:
        from ..report import forecast_report

        forecast_report(evaluation, output, predictions, truth, agents=agents, title=title)
    if parquet is not None:
        evaluation.to_parquet(parquet)
    if as_json:
        from .writing import write_json

        write_json(_told(evaluation))
    else:
        _show(evaluation, [path for path in (output, parquet) if path is not None])


def _told(evaluation: "Evaluation") -> dict[str, Any]:
    """Return all of an evaluation but its scenes."""
    return {
        "summary": evaluation.columns("summary"),
        "coverage": evaluation.columns("coverage"),
        "degenerate": evaluation.degenerate,
        "settings": evaluation.settings,
    }


def _show(evaluation: "Evaluation", written: list[Path]) -> None:
    from rich.console import Console
    from rich.table import Table

    from ..report.evaluation_report import verdicts

    table = Table(box=None, pad_edge=False)
    table.add_column("measure")
    for name in ("mean", "± error", "interval", "scenes", "degenerate"):
        table.add_column(name, justify="right")
    for row in evaluation.summary:
        table.add_row(
            row.measure,
            f"{row.mean:.4g}",
            f"{row.standard_error:.2g}",
            f"{row.low:.4g} to {row.high:.4g}",
            str(row.n_scenes),
            str(row.n_degenerate),
        )
    screen = Console(highlight=False)
    screen.print(table)
    for each in verdicts(evaluation):
        screen.print(each, soft_wrap=True, markup=False)
    for path in written:
        screen.print(f"Written: {path}", soft_wrap=True, markup=False)
