"""Stored results: one row for every figure, kept from one run to the next."""

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from sevenhills.atomic_write import atomic_write
from sevenhills.extras import import_extra

from .plan import Cell

#: What a file of results says of itself.
_MARK = {b"sevenhills.results": b"1"}
#: Less room than this on the disk is too little to start.
_LEAST_BYTES = 50_000_000


@dataclass(frozen=True)
class Row:
    """One figure as it is stored.

    Attributes
    ----------
    distribution, run, n_samples, estimator, metric
        The cell; see :class:`~study.Cell`.
    value : float
        NaN if it failed.
    error : str
        Why it failed; empty if it did not.
    seed : int
        The seed of the samples that were drawn for it.
    fit_seconds, seconds : float
        CPU time of fitting, and of measuring it all.
    peak_mb : float
        The most memory that the process held meanwhile.
    versions : str
        The libraries that took part, with their versions.
    """

    distribution: str
    run: int
    n_samples: int
    estimator: str
    metric: str
    value: float
    error: str
    seed: int
    fit_seconds: float
    seconds: float
    peak_mb: float
    versions: str

    @property
    def cell(self) -> Cell:
        """Which figure it is."""
        return Cell(self.distribution, self.run, self.n_samples, self.estimator, self.metric)


class Store:
    """Results in a folder: one file of all, and a part for each piece of work since.

    A part is written under another name first and then renamed, so that it is there as a whole
    or not at all, whatever stops the process.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.main = self.folder / "results.parquet"
        self.parts = self.folder / "parts"

    def prepare(self) -> None:
        """Make the folder, and refuse now what would fail later."""
        import_extra("pyarrow.parquet", "parquet", "storing results needs pyarrow")
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.parts):
                pass
        except OSError as error:
            raise OSError(f"cannot write to {self.folder}: {error}") from error
        free = shutil.disk_usage(self.folder).free
        if free < _LEAST_BYTES:
            raise OSError(f"{self.folder} has only {free / 1e6:.0f} MB left to write to")

    def read(self) -> list[Row]:
        """Return all rows, the first of each cell.

        A file that is not ours, or broken, is refused with its path and left as it is.
        """
        paths = [self.main] if self.main.exists() else []
        paths += sorted(self.parts.glob("*.parquet")) if self.parts.exists() else []
        rows: dict[Cell, Row] = {}
        for path in paths:
            for row in _read(path):
                rows.setdefault(row.cell, row)
        return sorted(rows.values(), key=lambda row: row.cell)

    def add(self, rows: Sequence[Row]) -> None:
        """Store rows at once, in a part of their own."""
        _write(self.parts / f"{uuid4().hex}.parquet", rows)

    def merge(self, without: Iterable[Cell] = ()) -> list[Row]:
        """Put all parts into one file, leaving out some cells; return what is left."""
        dropped = set(without)
        parts = list(self.parts.glob("*.parquet"))
        rows = [row for row in self.read() if row.cell not in dropped]
        if parts or dropped:
            _write(self.main, rows)
            for part in parts:
                part.unlink(missing_ok=True)
        return rows

    def close(self) -> None:
        """Remove the folder of parts if nothing is left in it."""
        with suppress(OSError):
            self.parts.rmdir()

    def n_parts(self) -> int:
        """Return how many parts there are."""
        return sum(1 for _ in self.parts.glob("*.parquet"))


def count_rows(path: Path) -> int:
    """Return the number of rows of a file of results, 0 if it is gone."""
    parquet = import_extra("pyarrow.parquet", "parquet", "reading results needs pyarrow")
    try:
        return int(parquet.read_metadata(path).num_rows)
    except FileNotFoundError:
        return 0


def columns_of(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Return rows by columns."""
    return {
        field.name: np.array([getattr(row, field.name) for row in rows]) for field in fields(Row)
    }


def _schema(arrow: Any) -> Any:
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64()}
    return arrow.schema(
        [(field.name, types[field.type]) for field in fields(Row)],  # type: ignore[index]
        metadata=_MARK,
    )


def _write(path: Path, rows: Sequence[Row]) -> None:
    parquet = import_extra("pyarrow.parquet", "parquet", "storing results needs pyarrow")
    arrow = import_extra("pyarrow", "parquet", "storing results needs pyarrow")
    table = arrow.Table.from_pylist([asdict(row) for row in rows], schema=_schema(arrow))
    with atomic_write(path) as file:
        parquet.write_table(table, file)


def _read(path: Path) -> list[Row]:
    parquet = import_extra("pyarrow.parquet", "parquet", "reading results needs pyarrow")
    arrow = import_extra("pyarrow", "parquet", "reading results needs pyarrow")
    try:
        table = parquet.read_table(path)
    except FileNotFoundError:  # merged meanwhile by another process
        return []
    except (OSError, arrow.ArrowException) as error:
        raise ValueError(f"{path} is broken and was left as it is: {error}") from error
    mark = table.schema.metadata or {}
    if any(mark.get(key) != value for key, value in _MARK.items()):
        raise ValueError(f"{path} does not hold results of sevenhills; it was left as it is")
    names = [field.name for field in fields(Row)]
    if table.column_names != names:
        raise ValueError(f"{path} has other columns than {names}; it was left as it is")
    return [Row(**entry) for entry in table.to_pylist()]
