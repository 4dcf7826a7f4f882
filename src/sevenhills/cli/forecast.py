"""The command ``forecast``: evaluate files of forecasts and write a page."""

from pathlib import Path
from typing import Annotated

import typer


def forecast(
    predictions: Annotated[
        Path,
        typer.Argument(help="Samples (scenes, samples, steps, coordinates): npz, npy, parquet."),
    ],
    truth: Annotated[Path, typer.Argument(help="The true paths: npz, npy or parquet.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML page to write.")
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="Density of whole paths: rome, kde or auto.")
    ] = "rome",
    step_estimator: Annotated[
        str, typer.Option(help="Density of single steps: kde, rome or auto.")
    ] = "kde",
    measure: Annotated[
        list[str] | None, typer.Option(help="A measure, may be repeated; all by default.")
    ] = None,
    shrinkage: Annotated[
        str, typer.Option(help="Covariance shrinkage of ROME: auto, always or none.")
    ] = "auto",
    errors: Annotated[
        str, typer.Option(help="Samples without a density: floor, skip or raise.")
    ] = "floor",
    floor: Annotated[
        float | None, typer.Option(help="Standard deviation of such samples, in data units.")
    ] = None,
    lower_bound: Annotated[
        float | None, typer.Option(help="Lower bound of log densities of steps; -20 is customary.")
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option("-k", help="Number of samples for minimum distances, may be repeated."),
    ] = None,
    miss_threshold: Annotated[
        float, typer.Option(help="Distance beyond which a forecast is a miss.")
    ] = 2.0,
    agents: Annotated[
        bool, typer.Option("--agents", help="The files have an axis of agents.")
    ] = False,
    check_units: Annotated[
        bool, typer.Option(help="Refuse units or axes that look inconsistent.")
    ] = True,
    jobs: Annotated[int, typer.Option(help="Number of processes, -1 for all cores.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    parquet: Annotated[
        Path | None, typer.Option(help="Parquet file to write with the figures of all scenes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Evaluation of forecasts",
    verbose: Annotated[bool, typer.Option("--verbose", help="Show progress.")] = False,
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

        write_json(
            {
                "summary": evaluation.columns("summary"),
                "coverage": evaluation.columns("coverage"),
                "degenerate": evaluation.degenerate,
                "settings": evaluation.settings,
            }
        )
        return
    from ..report.evaluation_report import verdicts

    typer.echo(evaluation)
    for sentence in verdicts(evaluation):
        typer.echo(sentence)
    for path in filter(None, (output, parquet)):
        typer.echo(f"wrote {path}")
