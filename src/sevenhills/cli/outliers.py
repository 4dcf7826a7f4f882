"""The command ``outliers``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ..texts import counted
from . import options
from .screen import remark, working

if TYPE_CHECKING:
    import numpy as np

    from .model_files import Model

#: Draws by which the probability of a region is estimated.
_DRAWS = 10_000


def outliers(
    data: options.Data,
    choices: options.Choices,
    layout: options.Layout,
    destination: options.Destination,
    model: Annotated[Path | None, Option(help="Model to score rows with.")] = None,
    contamination: Annotated[float | None, Option(help="Share of outliers, up to 0.5.")] = None,
    p_value: Annotated[float | None, Option(help="Outliers have p-values below this.")] = None,
    every_row: Annotated[bool, Option("--all", help="Write all rows; outliers have a 1.")] = False,
    estimator: options.Estimator = "rome",
    support: options.Support = None,
    scale: options.Scale = None,
    constant: options.Constant = "drop",
) -> None:
    """Find the rows where the density is low.

    Outliers are written with their log density, lowest first. Rows are numbered from 1, without
    the header.

    Without a model, every row is scored by a fit to other rows, and is an outlier if its log
    density is below Tukey's fence, 1.5 interquartile ranges below the lower quartile. With --model
    or --p-value, a row is an outlier if its p-value is below the threshold, 0.01 by default. The
    p-value is the probability that the density at a new row is no higher.

    For example:
      sevenhills outliers data.csv
      sevenhills outliers data.csv --contamination 0.02 -o odd.csv
      sevenhills outliers new.csv --model model.sevenhills --p-value 0.001 --json
    """
    from .model_files import make_estimator, parse_support, read_complete_queries, read_model
    from .samples import samples_of
    from .table_files import read_table
    from .writing import check_output, write_rows

    format = check_output(destination.output, destination.format)
    known = None if model is None else read_model(model)
    if known is None:
        samples = samples_of(read_table(data, layout), choices, constant)
    elif contamination is not None or choices.columns is not None or support or scale:
        raise ValueError(
            "--contamination, --columns, --support and --scale have no meaning with --model"
        )
    else:
        samples = read_complete_queries(known, data, layout)
    remark(*samples.remarks)
    n_rows = counted(len(samples.frame), "row")
    with working(f"scoring {n_rows}"):
        if known is None:
            bounds = parse_support(support, samples.frame)
            recipe = make_estimator(estimator, support=bounds, scale=scale)
            scored, rule = _by_cross_validation(samples.X, recipe, contamination, p_value)
        else:
            scored, rule = _by_model(samples.X, known, str(model), p_value)
    scores = samples.frame[[]].assign(row=samples.frame.index + 1, **scored)
    odd = scores[scores["outlier"]].sort_values("log_density", kind="stable")
    are = "is an outlier" if len(odd) == 1 else "are outliers"
    remark(f"{len(odd):,} of {n_rows} {are}: {rule['rule']}")
    summary = {
        "n_rows": len(scores),
        "n_outliers": len(odd),
        **rule,
        "columns": samples.names,
        "left_out": samples.left_out,
    }
    table = scores.astype({"outlier": int}) if every_row else odd.drop(columns="outlier")
    values = samples.frame.loc[table.index]
    rows = [
        {**score, "values": value}
        for score, value in zip(
            scores.loc[table.index].to_dict("records"), values.to_dict("records"), strict=True
        )
    ]
    if scores["p_value"].isna().all():  # the density cannot be sampled
        table = table.drop(columns="p_value")
    # A column of the data may have the name of a column of the output.
    values = values.rename(columns={name: f"{name}_2" for name in table})
    write_rows({**table, **values}, destination, format, summary, {"rows": rows})


def _by_cross_validation(
    X: "np.ndarray", recipe: Any, contamination: float | None, p_value: float | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Score every row by a fit to other rows; return columns of scores and the rule."""
    from ..estimators import DensityOutlierDetector

    detector = DensityOutlierDetector(
        recipe,
        contamination="auto" if contamination is None else contamination,
        p_value=p_value,
    ).fit(X)
    try:
        p_values: Any = detector.p_values(X)
    except (TypeError, ValueError):  # the density cannot be sampled
        p_values = float("nan")
    scores, offset = detector.training_scores_, detector.offset_
    how = "Tukey's fence" if contamination is None else f"the lowest {contamination:.3g} of all"
    if p_value is not None:
        how = f"p-value {p_value:.3g}"
    rule = f"held-out log density below {offset:.4g} ({how})"
    scored = {"outlier": scores < offset, "log_density": scores, "p_value": p_values}
    return scored, {"threshold": offset, "rule": rule}


def _by_model(
    X: "np.ndarray", model: "Model", path: str, p_value: float | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Score rows by a model, and compare their p-values with a threshold."""
    density = model.density
    p_value = 0.01 if p_value is None else p_value
    if not 0 < p_value < 1:
        raise ValueError(f"--p-value must lie between 0 and 1, got {p_value:g}")
    if not density.is_normalized:
        raise ValueError(f"{path}: outliers need a density that integrates to one")
    # Counting the row itself as a draw keeps p-values above zero.
    n_lower = ((1 - density.hdr_probability(X, _DRAWS)) * _DRAWS).round()
    p_values = (n_lower + 1) / (_DRAWS + 1)
    threshold = float(density.hdr_level(1.0 - p_value, _DRAWS))
    rule = f"p-value below {p_value:.3g}, at log densities below {threshold:.4g}"
    scored = {"outlier": p_values < p_value, "log_density": density.logpdf(X), "p_value": p_values}
    return scored, {"threshold": threshold, "rule": rule}
