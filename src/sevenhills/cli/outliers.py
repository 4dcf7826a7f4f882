"""The command ``outliers``."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .screen import counted, remark, working

if TYPE_CHECKING:
    import numpy as np

    from .model_files import Model
    from .samples import Samples

#: Draws by which the probability of a region is estimated.
_DRAWS = 10_000


def outliers(
    data: options.Data,
    choices: options.Choices,
    layout: options.Layout,
    destination: options.Destination,
    model: Annotated[
        Path | None,
        typer.Option(help="Model to score rows with; by default one is fitted to the data."),
    ] = None,
    contamination: Annotated[
        float | None, typer.Option(help="Share of the rows that are outliers, up to 0.5.")
    ] = None,
    p_value: Annotated[
        float | None,
        typer.Option(help="Outliers are rows whose p-value is below this threshold."),
    ] = None,
    every_row: Annotated[
        bool, typer.Option("--all", help="Write every row, with a column that is 1 for outliers.")
    ] = False,
    estimator: options.Estimator = "rome",
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
    from .samples import samples_of
    from .table_files import read_table
    from .writing import check_output, write_rows

    format = check_output(destination.output, destination.format)
    if model is None:
        samples = samples_of(read_table(data, layout), choices, constant)
        remark(*samples.remarks)
        with working(f"scoring {counted(len(samples.X), 'row')}"):
            found = _by_cross_validation(samples, estimator, contamination, p_value)
    else:
        if contamination is not None or choices.columns is not None:
            raise ValueError("--contamination and --columns have no meaning with --model")
        from .model_files import read_complete_queries, read_model

        known = read_model(model)
        samples = read_complete_queries(known, data, layout)
        remark(*samples.remarks)
        with working(f"scoring {counted(len(samples.X), 'row')}"):
            found = _by_model(samples, known, model, 0.01 if p_value is None else p_value)
    n_outliers = int(found.is_outlier.sum())
    remark(
        f"{n_outliers:,} of {counted(len(samples.X), 'row')} "
        f"{'is an outlier' if n_outliers == 1 else 'are outliers'}: {found.rule}"
    )
    summary = {
        "n_rows": len(samples.X),
        "n_outliers": n_outliers,
        "threshold": found.threshold,
        "rule": found.rule,
        "columns": samples.names,
        "left_out": samples.left_out,
    }
    order = list(range(len(samples.X))) if every_row else found.outlying_rows()
    table = _table(samples, found, order, every_row)
    write_rows(table, destination, format, summary, {"rows": _records(samples, found, order)})


@dataclass(frozen=True, eq=False)
class _Scores:
    """Log densities of all rows, and which rows are outliers."""

    log_densities: "np.ndarray"
    p_values: "np.ndarray | None"
    is_outlier: "np.ndarray"
    threshold: float
    rule: str

    def outlying_rows(self) -> list[int]:
        """Return the outliers, lowest density first."""
        rows = self.is_outlier.nonzero()[0]
        lowest_first: list[int] = rows[self.log_densities[rows].argsort(kind="stable")].tolist()
        return lowest_first


def _table(
    samples: "Samples", found: _Scores, order: list[int], is_marked: bool
) -> "dict[str, np.ndarray]":
    """Return the columns of the output."""
    table = {"row": samples.frame.index[order] + 1}
    if is_marked:
        table["outlier"] = found.is_outlier[order].astype(int)
    table["log_density"] = found.log_densities[order]
    if found.p_values is not None:
        table["p_value"] = found.p_values[order]
    for i, name in enumerate(samples.names):
        # A column of the data may have the name of a column of the output.
        table[name if name not in table else f"{name}_2"] = samples.X[order, i]
    return table


def _records(samples: "Samples", found: _Scores, order: list[int]) -> list[dict[str, Any]]:
    """Return the rows for JSON."""
    return [
        {
            "row": samples.frame.index[i] + 1,
            "outlier": found.is_outlier[i],
            "log_density": found.log_densities[i],
            "p_value": None if found.p_values is None else found.p_values[i],
            "values": dict(zip(samples.names, samples.X[i], strict=True)),
        }
        for i in order
    ]


def _by_cross_validation(
    samples: "Samples", estimator: str, contamination: float | None, p_value: float | None
) -> _Scores:
    """Score every row by a fit to other rows."""
    from ..estimators import DensityOutlierDetector
    from .model_files import make_estimator

    detector = DensityOutlierDetector(
        make_estimator(estimator),
        contamination="auto" if contamination is None else contamination,
        p_value=p_value,
    ).fit(samples.X)
    try:
        p_values = detector.p_values(samples.X)
    except (TypeError, ValueError):  # the density cannot be sampled
        p_values = None
    scores, offset = detector.training_scores_, detector.offset_
    how = "Tukey's fence" if contamination is None else f"the lowest {contamination:.3g} of all"
    if p_value is not None:
        how = f"p-value {p_value:.3g}"
    rule = f"held-out log density below {offset:.4g} ({how})"
    return _Scores(scores, p_values, scores < offset, offset, rule)


def _by_model(samples: "Samples", model: "Model", path: Path, p_value: float) -> _Scores:
    """Score rows by a model, and compare their p-values with a threshold."""
    density = model.density
    if not 0 < p_value < 1:
        raise ValueError(f"--p-value must lie between 0 and 1, got {p_value:g}")
    if not density.is_normalized:
        raise ValueError(f"{path}: outliers need a density that integrates to one")
    # Counting the row itself as a draw keeps p-values above zero.
    n_lower = ((1 - density.hdr_probability(samples.X, _DRAWS)) * _DRAWS).round()
    p_values = (n_lower + 1) / (_DRAWS + 1)
    threshold = float(density.hdr_level(1.0 - p_value, _DRAWS))
    rule = f"p-value below {p_value:.3g}, at log densities below {threshold:.4g}"
    return _Scores(density.logpdf(samples.X), p_values, p_values < p_value, threshold, rule)
