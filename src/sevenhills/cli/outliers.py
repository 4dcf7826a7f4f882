"""The command ``outliers``."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .screen import counted, remark, working

if TYPE_CHECKING:
    import numpy as np

    from .models import Model
    from .samples import Samples

#: The draws by which masses of a density are measured.
_DRAWS = 10_000


def outliers(
    data: options.Data,
    model: Annotated[
        Path | None, typer.Option(help="Judge by this model; by default one is fitted to the data.")
    ] = None,
    contamination: Annotated[
        float | None, typer.Option(help="The share of rows to call outliers, up to 0.5.")
    ] = None,
    p_value: Annotated[
        float | None,
        typer.Option(help="Call rows outliers where less than this mass of the density is lower."),
    ] = None,
    every_row: Annotated[
        bool, typer.Option("--all", help="Write every row, with a column that says outlier or not.")
    ] = False,
    output: options.Output = "-",
    format: options.Format = None,
    columns: options.Columns = None,
    mode: options.Mode = "rome",
    text: options.Text = "drop",
    missing: options.Missing = "drop",
    constant: options.Constant = "drop",
    duplicates: options.Duplicates = "keep",
    separator: options.Separator = None,
    decimal: options.Decimal = "auto",
    header: options.Header = None,
    json: options.Json = False,
) -> None:
    """Find the rows where the density is low.

    They are written with their log density, the lowest first.

    Without a model, every row is judged by fits that have not seen it, and called an outlier if
    its log density is below Tukey's fence, one and a half interquartile ranges below the lower
    quartile. With a model, and with --p-value, it goes by the mass of the density that is lower
    still: below 0.01, or what --p-value says. Rows are numbered from 1, without the header.

    For example:
      sevenhills outliers data.csv
      sevenhills outliers data.csv --contamination 0.02 -o odd.csv
      sevenhills outliers new.csv --model model.sevenhills --p-value 0.001 --json
    """
    from .reading import read_table
    from .samples import Choices, samples_of
    from .text_files import Layout
    from .writing import check_output, write_json, write_table

    format_found = check_output(output, format)
    layout = Layout(separator, decimal, header)
    if model is None:
        choices = Choices(columns, None, text, missing, constant, duplicates)
        samples = samples_of(read_table(data, layout), choices)
        remark(*samples.remarks)
        with working(f"judging {counted(len(samples.X), 'row')}"):
            found = _by_folds(samples, mode, contamination, p_value)
    else:
        if contamination is not None or columns is not None:
            raise ValueError("--contamination and --columns have no meaning with --model")
        from .models import read_model

        known = read_model(model)
        samples = _rows_for(known, data, layout)
        with working(f"judging {counted(len(samples.X), 'row')}"):
            found = _by_model(samples, known, model, 0.01 if p_value is None else p_value)
    order = found.all_rows() if every_row else found.outlying_rows()
    if json:
        write_json(found.to_dict(samples, order))
        if output == "-":
            return
    n_outliers = int(found.is_outlier.sum())
    remark(
        f"{n_outliers:,} of {counted(len(samples.X), 'row')} "
        f"{'is an outlier' if n_outliers == 1 else 'are outliers'}: {found.rule}"
    )
    write_table(found.table(samples, order, every_row), output, format_found)


@dataclass(frozen=True, eq=False)
class _Judgement:
    """Scores of all rows, and which of them are outliers."""

    log_densities: "np.ndarray"
    p_values: "np.ndarray | None"
    is_outlier: "np.ndarray"
    threshold: float
    rule: str

    def all_rows(self) -> "np.ndarray":
        import numpy as np

        return np.arange(len(self.is_outlier))

    def outlying_rows(self) -> "np.ndarray":
        """Return the outliers, the lowest density first."""
        import numpy as np

        rows = np.flatnonzero(self.is_outlier)
        return rows[np.argsort(self.log_densities[rows], kind="stable")]

    def table(self, samples: "Samples", order: "np.ndarray", marked: bool) -> "dict[str, Any]":
        """Return rows as columns."""
        found: dict[str, Any] = {"row": samples.rows[order] + 1}
        if marked:
            found["outlier"] = self.is_outlier[order].astype(int)
        found["log_density"] = self.log_densities[order]
        if self.p_values is not None:
            found["p_value"] = self.p_values[order]
        for i, name in enumerate(samples.names):
            # A column of the data may be called like one of ours.
            found[name if name not in found else f"{name}_2"] = samples.X[order, i]
        return found

    def to_dict(self, samples: "Samples", order: "np.ndarray") -> dict[str, Any]:
        """Return everything for JSON."""
        rows = [
            {
                "row": int(samples.rows[i]) + 1,
                "outlier": bool(self.is_outlier[i]),
                "log_density": self.log_densities[i],
                "p_value": None if self.p_values is None else self.p_values[i],
                "values": dict(zip(samples.names, samples.X[i], strict=True)),
            }
            for i in order
        ]
        return {
            "n_rows": len(samples.X),
            "n_outliers": int(self.is_outlier.sum()),
            "threshold": self.threshold,
            "rule": self.rule,
            "columns": samples.names,
            "left_out": samples.left_out,
            "rows": rows,
        }


def _by_folds(
    samples: "Samples", mode: str, contamination: float | None, p_value: float | None
) -> _Judgement:
    """Judge rows by fits to the others."""
    from ..estimators import DensityOutlierDetector
    from .models import recipe_of

    detector = DensityOutlierDetector(
        recipe_of(mode),
        contamination="auto" if contamination is None else contamination,
        p_value=p_value,
    ).fit(samples.X)
    try:
        p_values = detector.p_values(samples.X)
    except (TypeError, ValueError):  # a density without draws, or not normalised
        p_values = None
    scores, offset = detector.training_scores_, detector.offset_
    how = "Tukey's fence" if contamination is None else f"the lowest {contamination:.3g} of all"
    if p_value is not None:
        how = f"{p_value:.3g} of the density's mass is lower"
    rule = f"held-out log density below {offset:.4g} ({how})"
    return _Judgement(scores, p_values, scores < offset, offset, rule)


def _rows_for(model: "Model", data: str, layout: Any) -> "Samples":
    """Return the rows of data in the columns of a model."""
    import numpy as np

    from .queries import read_queries
    from .samples import Samples

    queries = read_queries(model, data, layout)
    rows = np.flatnonzero(queries.is_complete)
    remark(*queries.remarks("drop"))
    n_left_out = len(queries.X) - len(rows)
    if len(rows) == 0:
        raise ValueError(f"{data}: every row has a missing value")
    if n_left_out:
        remark(f"left out {counted(n_left_out, 'row')} with missing or infinite values")
    return Samples(
        source=queries.table.source,
        names=queries.model.shown_names,
        X=queries.X[rows],
        weights=None,
        rows=rows,
        has_names=queries.table.has_names,
        left_out={"rows_with_missing_values": n_left_out},
        remarks=(),
    )


def _by_model(samples: "Samples", model: "Model", path: Path, p_value: float) -> _Judgement:
    """Judge rows by the mass of a density that is lower."""
    import numpy as np

    from ..density import Density

    density = model.density
    if not 0 < p_value < 1:
        raise ValueError(f"--p-value must lie between 0 and 1, got {p_value:g}")
    if not isinstance(density, Density) or not density.is_normalized:
        raise ValueError(f"{path}: outliers need a density that integrates to one")
    # As if a row were a draw itself, so that nothing is impossible.
    p_values = (np.rint((1 - density.hdr_probability(samples.X, _DRAWS)) * _DRAWS) + 1) / (
        _DRAWS + 1
    )
    threshold = float(density.hdr_level(1.0 - p_value, _DRAWS))
    rule = f"{p_value:.3g} of the density's mass is below log density {threshold:.4g}"
    return _Judgement(density.logpdf(samples.X), p_values, p_values < p_value, threshold, rule)
