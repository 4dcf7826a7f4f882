"""The rows at which a model is asked for its density."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..density import KernelMixture
from .models import Model
from .reading import read_table
from .samples import queries_of
from .screen import counted, listed
from .tables import Table
from .text_files import Layout


@dataclass(frozen=True, eq=False)
class Queries:
    """Rows of a table, in the columns of a model, NaN where values are missing.

    Attributes
    ----------
    model : Model
    table : Table
        The columns of the model, as they were read.
    X : ndarray of shape (n_rows, n_features)
    unused : list of str
        Columns of the file that the model does not know.
    """

    model: Model
    table: Table
    X: np.ndarray
    unused: list[str]

    @property
    def is_complete(self) -> np.ndarray:
        """Which rows have all values."""
        return ~np.isnan(self.X).any(axis=1)

    def remarks(self, missing: str) -> Iterator[str]:
        """Say what is not as one may think."""
        yield from self.table.remarks
        if self.unused:
            yield f"not used, because the model does not know them: {listed(self.unused)}"
        for column in self.table.columns:
            if column.n_words:
                yield (
                    f"column {column.name}: {counted(column.n_words, 'word')} taken as missing, "
                    f"the first is {column.example}"
                )
        n_incomplete = int((~self.is_complete).sum())
        if n_incomplete and missing == "blank":
            yield (
                f"{n_incomplete:,} of {counted(len(self.X), 'row')} have missing or infinite "
                "values and get no log density (--missing marginal scores what is there)"
            )


def read_queries(model: Model, path: str, layout: Layout) -> Queries:
    """Return the rows of a file that a model is asked about."""
    table = read_table(path, layout)
    known = queries_of(table, model.names, model.density.n_features)
    X = np.stack([column.values for column in known.columns], axis=1)
    X[~np.isfinite(X)] = np.nan
    unused = [name for name in table.names if name not in known.names]
    return Queries(model, known, X, unused)


def log_densities(queries: Queries, missing: str, n_jobs: int | None) -> np.ndarray:
    """Return the log density of every row, NaN where it is not asked for."""
    density, X, complete = queries.model.density, queries.X, queries.is_complete
    if missing == "error" and not complete.all():
        raise ValueError(
            f"{queries.table.source}: row {int((~complete).argmax()) + 1} has a missing or "
            "infinite value"
        )
    if missing == "marginal" and not complete.all():
        return _marginal(queries, n_jobs)
    out = np.full(len(X), np.nan)
    if complete.any():
        out[complete] = density.logpdf(X[complete], n_jobs)
    return out


def _marginal(queries: Queries, n_jobs: int | None) -> np.ndarray:
    """Return the log densities of the values that are there, NaN for rows without any."""
    density = queries.model.density
    if not isinstance(density, KernelMixture):
        raise ValueError(
            f"--missing marginal needs a mixture of kernels, but the model is a "
            f"{type(density).__name__}"
        )
    known = ~np.isnan(queries.X).all(axis=1)
    out = np.full(len(queries.X), np.nan)
    out[known] = density.logpdf(queries.X[known], n_jobs, missing="marginal")
    return out
