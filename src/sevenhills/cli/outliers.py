"""The command ``outliers``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from typer import Option

from ..texts import counted
from . import options
from .screen import remark

if TYPE_CHECKING:
    from .samples import Samples

#: Columns of the output that are not of the table.
_OUTPUT = ("row", "outlier", "log_density", "p_value")


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
    by: options.By = None,
    estimator: options.Estimator = None,
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

    With --by species, rows are compared with the rows of the same species, and --rate is the share
    of every species.

    The estimator is AutoROME for tables of up to 50,000 values, and ROME for larger ones.

    For example:
      sevenhills outliers data.csv
      sevenhills outliers penguins.csv --by species
      sevenhills outliers data.csv --rate 0.05 -o odd.csv
      sevenhills outliers new.csv --train regular.csv --control fdr
      sevenhills outliers new.csv --model model.sevenhills --calibration unseen.csv --json
    """
    from .writing import check_output, write_rows

    format = check_output(destination.output, destination.format)
    wanted: dict[str, Any] = {"rate": "auto" if rate is None else rate, "control": control}
    if model is None and calibration is None:
        if by is not None and train is not None:
            raise ValueError("--by compares the rows of one table, and excludes --train")
        recipe = {"estimator": estimator, "support": support, "scale": scale}
        wanted["min_share"] = min_share
        found = _by_fit(data, train, choices, layout, constant, by, recipe, wanted)
    else:
        fixed = (choices.columns, choices.keep, train, by, estimator, support, scale)
        if any(each is not None for each in (*fixed, min_share or None)):
            raise ValueError(
                "--columns, --keep, --train, --by, --estimator, --support, --scale and --min-share "
                "have no meaning with --model"
            )
        if model is None or calibration is None:
            raise ValueError(
                "--model and --calibration, a table of rows that the model was not fitted to, need "
                "each other"
            )
        found = _by_model(data, model, calibration, layout, wanted)
    samples, scores = found.samples, found.scores
    odd = scores[scores["outlier"]].sort_values(found.order, kind="stable")
    are = "is an outlier" if len(odd) == 1 else "are outliers"
    remark(f"{len(odd):,} of {counted(len(scores), 'row')} {are}: {found.rule}")
    summary = {
        "n_rows": len(scores),
        "n_outliers": len(odd),
        "rule": found.rule,
        "columns": samples.names,
        "left_out": samples.left_out,
        **found.facts,
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


class _Found(NamedTuple):
    """Rows and their scores."""

    samples: "Samples"
    #: DataFrame with the index of the samples.
    scores: Any
    rule: str
    #: The columns of the scores by which outliers are sorted.
    order: list[str]
    #: Facts about the estimator, for machines.
    facts: dict[str, Any]


def _by_fit(
    data: str,
    train: str | None,
    choices: options.Choices,
    layout: options.Layout,
    constant: str,
    by: str | None,
    recipe: dict[str, Any],
    wanted: dict[str, Any],
) -> _Found:
    """Compare rows with each other, those of a category alone, or with those of another table."""
    from ..extras import import_extra
    from .samples import parts_of
    from .table_files import read_table

    table = read_table(data if train is None else train, layout)
    regular, parts = parts_of(table, choices, constant, by=by)
    remark(*regular.remarks)
    from ..estimators import DensityOutlierDetector
    from .model_files import Model, fitting, read_complete_queries, recipes_of

    chosen = recipes_of(regular, parts, **recipe)
    samples, scores, rates = regular, [], []
    group = f"{by}_2" if by in _OUTPUT else str(by)
    for (category, part), each in zip(parts.items(), chosen, strict=True):
        with fitting(part, category):
            detector = DensityOutlierDetector(each.estimator, **wanted).fit(part.X)
        rates.append(detector.rate_)
        if train is not None:
            known = Model(each.estimator, detector.estimator_.density_, regular.names)
            samples = part = read_complete_queries(known, data, layout)
            remark(*samples.remarks)
        scores.append(_scores(detector, part, {} if category is None else {group: category}))
    remark(f"estimator: {chosen[0]}")
    title, n_rows = type(chosen[0].estimator).__name__, sum(len(p.frame) for p in parts.values())
    reference = f"{title}, {n_rows:,} held-out rows"
    return _Found(
        samples=samples,
        scores=import_extra("pandas", "cli", "tables need pandas").concat(scores).sort_index(),
        rule=_in_words(rates, wanted["control"], reference, by),
        order=["log_density"] if by is None else ["p_value", "log_density"],
        facts=chosen[0].facts,
    )


def _scores(detector: Any, samples: "Samples", group: dict[str, Any]) -> Any:
    """Return the scores of rows as a frame with the index of the samples."""
    return samples.frame[[]].assign(
        row=samples.frame.index + 1,
        **group,
        outlier=detector.predict(samples.X) < 0,
        log_density=detector.score_samples(samples.X),
        p_value=detector.p_value(samples.X),
    )


def _by_model(
    data: str, model: Path, calibration: str, layout: options.Layout, wanted: dict[str, Any]
) -> _Found:
    """Compare rows with others that a model has not seen."""
    from ..estimators.conformal_density import conformal
    from ..estimators.outlier_detector import check_rate, is_outlier
    from .model_files import read_complete_queries, read_model

    known = read_model(model)
    unseen, samples = (read_complete_queries(known, each, layout) for each in (calibration, data))
    remark(*samples.remarks)
    calibrated = conformal(known.density, unseen.X, cv=None)
    rate = check_rate(calibrated.n_samples, **wanted)
    p_values = calibrated.p_value(samples.X)
    scores = samples.frame[[]].assign(
        row=samples.frame.index + 1,
        outlier=is_outlier(p_values, rate, wanted["control"]),
        log_density=calibrated.log_density(samples.X),
        p_value=p_values,
    )
    rule = _in_words([rate], wanted["control"], f"{len(unseen.frame):,} unseen rows")
    return _Found(samples, scores, rule, ["log_density"], {})


def _in_words(rates: Sequence[float], control: str, reference: str, by: str | None = None) -> str:
    """Return the rule by which rows are outliers; categories may have rates of their own."""
    shown = " to ".join(sorted({f"{min(rates):.3g}", f"{max(rates):.3g}"}))
    where = "" if by is None else f" within the same {by}"
    if control == "fdr":
        return f"false discovery rate {shown}{where} ({reference})"
    return f"p-value at most {shown}{where} ({reference})"
