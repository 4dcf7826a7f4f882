"""Estimators by name, model files, and the rows of a table in the columns of a model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..density import Density, KernelMixture
from ..estimators import ESTIMATORS
from ..extras import import_extra
from ..storage import load
from .columns import Table, default_names
from .options import Layout
from .samples import Samples, column_named, columns_named, words_remark
from .screen import counted, listed
from .table_files import is_model, opened, read_table


def make_estimator(name: str, **options: Any) -> Any:
    """Return an unfitted estimator; options that are None keep their defaults."""
    estimator = ESTIMATORS[name]()
    known = estimator.get_params()
    for option, value in options.items():
        if value is None:
            continue
        if option not in known:
            raise ValueError(f"--{option.replace('_', '-')} has no meaning with --estimator {name}")
        estimator.set_params(**{option: _parsed(option, value)})
    return estimator


def _parsed(option: str, value: Any) -> Any:
    """Return the value of an option as estimators take it."""
    if option == "min_std":
        return _number_or_auto(value, "--min-std must be a number or auto")
    if option in ("selection", "resolution") and value == "none":
        return None
    if option == "resolution":
        return _number_or_auto(value, "--resolution must be a number, auto or none")
    return value


def _number_or_auto(text: str, problem: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{problem}, got {text!r}") from None


def fit_samples(estimator: Any, samples: Samples) -> Any:
    """Fit an estimator to samples with the names of their columns."""
    pandas = import_extra("pandas", "cli", "the command line needs pandas")
    frame = pandas.DataFrame(samples.X, columns=samples.names, copy=False)
    return estimator.fit(frame, sample_weight=samples.weights)


def resolutions(model: Any, names: Sequence[str]) -> dict[str, float]:
    """Return the units of the columns whose values were taken as rounded."""
    units = getattr(model, "resolution_", ())
    return {name: float(unit) for name, unit in zip(names, units, strict=False) if unit}


@dataclass(frozen=True, eq=False)
class Model:
    """The contents of a model file.

    Attributes
    ----------
    value : estimator or KernelMixture
        The saved object.
    density : Density
    names : list of str or None
        The columns that it was fitted to, if they had names.
    """

    value: Any
    density: Density
    names: list[str] | None

    @property
    def kind(self) -> str:
        """The class of the saved object."""
        return type(self.value).__name__

    @property
    def shown_names(self) -> list[str]:
        """The columns, with default names if they have none."""
        return self.names or default_names(self.density.n_features)


def read_model(path: str | Path) -> Model:
    """Return the model in a file."""
    with opened(str(path)) as file:
        return model_of(file, str(path))


def model_of(file: IO[bytes], path: str) -> Model:
    """Return the model in an open file."""
    if not is_model(file):
        raise ValueError(f"{path} is not a model; `sevenhills fit` makes one from data")
    try:
        value = load(file)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    # The drop-in for romepy wraps a ROME estimator.
    estimator = getattr(value, "_model", value)
    density = value if isinstance(value, Density) else estimator.density_
    names = getattr(estimator, "feature_names_in_", getattr(density, "feature_names", None))
    return Model(estimator, density, None if names is None else list(names))


@dataclass(frozen=True, eq=False)
class Queries:
    """Rows of a table in the columns of a model, NaN where values are missing or infinite.

    Attributes
    ----------
    model : Model
    table : Table
        The columns of the model, as they were read.
    X : ndarray of shape (n_rows, n_features)
    unused : list of str
        Columns of the file that the model does not have.
    """

    model: Model
    table: Table
    X: np.ndarray
    unused: list[str]

    @property
    def is_complete(self) -> np.ndarray:
        """Mask of the rows without missing values."""
        return ~np.isnan(self.X).any(axis=1)

    def remarks(self) -> Iterator[str]:
        """Yield remarks on everything that is not used."""
        yield from self.table.remarks
        if self.unused:
            yield f"not used, because the model does not have them: {listed(self.unused)}"
        yield from (words_remark(column) for column in self.table.columns if column.n_words)

    def complete_samples(self) -> Samples:
        """Return the rows that have all values."""
        rows = np.flatnonzero(self.is_complete)
        n_left_out = len(self.X) - len(rows)
        if len(rows) == 0:
            raise ValueError(f"{self.table.source}: every row has a missing value")
        remarks = list(self.remarks())
        if n_left_out:
            remarks.append(f"left out {counted(n_left_out, 'row')} with missing or infinite values")
        return Samples(
            source=self.table.source,
            names=self.model.shown_names,
            X=self.X[rows],
            weights=None,
            rows=rows,
            has_names=self.table.has_names,
            left_out={"rows_with_missing_values": n_left_out},
            remarks=tuple(remarks),
        )


def read_queries(model: Model, path: str, layout: Layout) -> Queries:
    """Return the rows of a file in the columns of a model."""
    table = read_table(path, layout)
    known = _in_columns_of(model, table)
    X = np.stack([column.values for column in known.columns], axis=1)
    X[~np.isfinite(X)] = np.nan
    unused = [name for name in table.names if name not in known.names]
    return Queries(model, known, X, unused)


def _in_columns_of(model: Model, table: Table) -> Table:
    """Return the columns of a model by name or, if the table has no names, by position."""
    names, n_features = model.names, model.density.n_features
    if names is not None and (table.has_names or set(names) <= set(table.names)):
        lacking = [name for name in names if name not in table.names]
        if lacking:
            raise ValueError(
                f"{table.source} lacks {columns_named(lacking)} of the model; "
                f"it has {listed(table.names, 8)}"
            )
        return replace(table, columns=tuple(column_named(table, name) for name in names))
    columns = table.columns
    if len(columns) != n_features:
        columns = tuple(column for column in columns if not column.n_words)
    if len(columns) != n_features:
        known = "" if names is None else f": {listed(names)}"
        raise ValueError(
            f"{table.source} has {counted(len(columns), 'column')} of numbers, but the model "
            f"has {n_features}{known}"
        )
    return replace(table, columns=columns)


def log_densities(queries: Queries, missing: str, n_jobs: int | None) -> np.ndarray:
    """Return the log density of every row, NaN for rows that are skipped."""
    density, X, complete = queries.model.density, queries.X, queries.is_complete
    if missing == "raise" and not complete.all():
        raise ValueError(
            f"{queries.table.source}: row {int((~complete).argmax()) + 1} has a missing or "
            "infinite value"
        )
    out = np.full(len(X), np.nan)
    if missing == "marginal" and not complete.all():
        if not isinstance(density, KernelMixture):
            raise ValueError(
                f"--missing marginal needs a mixture of kernels, but the model is a "
                f"{type(density).__name__}"
            )
        known = ~np.isnan(X).all(axis=1)
        out[known] = density.logpdf(X[known], n_jobs, missing="marginal")
    elif complete.any():
        out[complete] = density.logpdf(X[complete], n_jobs)
    return out
