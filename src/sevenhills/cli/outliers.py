"""The command ``outliers``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from ..texts import counted
from . import options
from .screen import remark, working

if TYPE_CHECKING:
    from .samples import Samples


def outliers(
    data: options.Data,
    choices: options.Choices,
    layout: options.Layout,
    destination: options.Destination,
    train: Annotated[
        str | None, Option(help="Table of regular rows, with which DATA is compared.")
    ] = None,
    model: Annotated[Path | None, Option(help="Model to score rows with.")] = None,
    calibration: Annotated[
        str | None, Option(help="With --model: table of rows that it was not fitted to.")
    ] = None,
    rate: Annotated[
        float | None,
        Option(help="Share of regular rows that are written; 0.01, or 0.1 for fdr, by default."),
    ] = None,
    control: Annotated[
        Literal["fpr", "fdr"],
        Option(help="Whether --rate is a share of the regular rows, or of the written rows."),
    ] = "fpr",
    min_share: Annotated[
        float, Option(help="Clusters with a smaller share of the rows count as outliers.")
    ] = 0.0,
    every_row: Annotated[bool, Option("--all", help="Write all rows; outliers have a 1.")] = False,
    estimator: options.DefaultEstimator = None,
    support: options.Support = None,
    scale: options.Scale = None,
    constant: options.Constant = "drop",
) -> None:
    """Find the rows where the density is low.

    Outliers are written with their log density and p-value, lowest first. Rows are numbered from
    1, without the header. A row is an outlier if its p-value is at most --rate.

    Without --train and --model, every row is scored by a fit to other rows, and its p-value is the
    share of rows that are not denser: --rate of all rows are written, whatever they are.

    With --train, rows are compared with the rows of another table. Of rows of the same
    distribution, --rate are written. With --control fdr, --rate is instead the share of such rows
    among all rows that are written.

    The estimator is AutoROME for tables of up to 50,000 values, and ROME for larger ones.

    For example:
      sevenhills outliers data.csv
      sevenhills outliers data.csv --rate 0.05 -o odd.csv
      sevenhills outliers new.csv --train regular.csv --control fdr
      sevenhills outliers new.csv --model model.sevenhills --calibration unseen.csv --json
    """
    from .writing import check_output, write_rows

    format = check_output(destination.output, destination.format)
    wanted: dict[str, Any] = {"rate": "auto" if rate is None else rate, "control": control}
    if model is None and calibration is None:
        recipe = {"estimator": estimator, "support": support, "scale": scale}
        wanted["min_share"] = min_share
        samples, scored, rule = _by_fit(data, train, choices, layout, constant, recipe, wanted)
    else:
        fixed = (choices.columns, choices.keep, train, estimator, support, scale, min_share or None)
        if any(each is not None for each in fixed):
            raise ValueError(
                "--columns, --keep, --train, --estimator, --support, --scale and --min-share have "
                "no meaning with --model"
            )
        if model is None or calibration is None:
            raise ValueError(
                "--model and --calibration, a table of rows that the model was not fitted to, need "
                "each other"
            )
        samples, scored, rule = _by_model(data, model, calibration, layout, wanted)
    scores = samples.frame[[]].assign(row=samples.frame.index + 1, **scored)
    odd = scores[scores["outlier"]].sort_values("log_density", kind="stable")
    are = "is an outlier" if len(odd) == 1 else "are outliers"
    remark(f"{len(odd):,} of {counted(len(scores), 'row')} {are}: {rule}")
    summary = {
        "n_rows": len(scores),
        "n_outliers": len(odd),
        "rule": rule,
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
    # A column of the data may have the name of a column of the output.
    values = values.rename(columns={name: f"{name}_2" for name in table})
    write_rows({**table, **values}, destination, format, summary, {"rows": rows})


def _by_fit(
    data: str,
    train: str | None,
    choices: options.Choices,
    layout: options.Layout,
    constant: str,
    recipe: dict[str, Any],
    wanted: dict[str, Any],
) -> tuple["Samples", dict[str, Any], str]:
    """Compare rows with each other or with those of another table.

    Return the rows, columns of scores and the rule.
    """
    from .samples import samples_of
    from .table_files import read_table

    regular = samples_of(read_table(data if train is None else train, layout), choices, constant)
    remark(*regular.remarks)
    with working(f"fitting {counted(len(regular.frame), 'row')}"):
        from ..estimators import DensityOutlierDetector
        from .model_files import Model, make_estimator, parse_support, read_complete_queries

        bounds = parse_support(recipe.pop("support"), regular.frame)
        name = recipe.pop("estimator")
        unfitted = make_estimator(name, regular.X.shape, support=bounds, **recipe)
        detector = DensityOutlierDetector(unfitted, **wanted).fit(regular.X)
    samples = regular
    if train is not None:
        known = Model(unfitted, detector.estimator_.density_, regular.names)
        samples = read_complete_queries(known, data, layout)
        remark(*samples.remarks)
    scored = {
        "outlier": detector.predict(samples.X) < 0,
        "log_density": detector.score_samples(samples.X),
        "p_value": detector.p_value(samples.X),
    }
    fitted = f"{type(unfitted).__name__}, {len(regular.frame):,} held-out rows"
    return samples, scored, _in_words(detector.rate_, wanted["control"], fitted)


def _by_model(
    data: str, model: Path, calibration: str, layout: options.Layout, wanted: dict[str, Any]
) -> tuple["Samples", dict[str, Any], str]:
    """Compare rows with others that a model has not seen; return rows, scores and the rule."""
    from ..estimators.conformal_density import conformal
    from ..estimators.outlier_detector import check_rate, is_outlier
    from .model_files import read_complete_queries, read_model

    known = read_model(model)
    unseen, samples = (read_complete_queries(known, each, layout) for each in (calibration, data))
    remark(*samples.remarks)
    calibrated = conformal(known.density, unseen.X, cv=None)
    rate = check_rate(calibrated.n_samples, **wanted)
    p_values = calibrated.p_value(samples.X)
    scored = {
        "outlier": is_outlier(p_values, rate, wanted["control"]),
        "log_density": calibrated.log_density(samples.X),
        "p_value": p_values,
    }
    return samples, scored, _in_words(rate, wanted["control"], f"{len(unseen.frame):,} unseen rows")


def _in_words(rate: float, control: str, reference: str) -> str:
    """Return the rule by which rows are outliers."""
    if control == "fdr":
        return f"false discovery rate {rate:.3g} ({reference})"
    return f"p-value at most {rate:.3g} ({reference})"
