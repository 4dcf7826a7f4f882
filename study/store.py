"""Stored results, one row for every figure."""

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

#: Metadata that mark a file of results.
_MARK = {b"sevenhills.results": b"1"}
#: Free disk space, in bytes, that a run needs at its start.
_MIN_FREE_BYTES = 50_000_000


@dataclass(frozen=True)
class Row:
    """A stored figure.

    Attributes
    ----------
    distribution, run, n_samples, estimator, metric
        The cell; see :class:`~study.Cell`.
    value : float
        NaN if it failed.
    error : str
        Why it failed; empty if it did not.
    seed : int
        The seed of drawn samples.
    fit_seconds, seconds : float
        CPU time of the fits, and of the whole measurement.
    peak_mb : float
        The peak memory of the process.
    versions : str
        Names and versions of the libraries used.
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
        """The cell of the plan."""
        return Cell(self.distribution, self.run, self.n_samples, self.estimator, self.metric)


class Store:
    """Results in a folder: one main file, and parts that were added since.

    Files are written atomically: an interruption leaves a whole file or none.

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
        """Make the folder, and check that it can be written to."""
        import_extra("pyarrow.parquet", "parquet", "storing results needs pyarrow")
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.parts):
                pass
        except OSError as error:
            raise OSError(f"cannot write to {self.folder}: {error}") from error
        free = shutil.disk_usage(self.folder).free
        if free < _MIN_FREE_BYTES:
            raise OSError(f"{self.folder} has only {free / 1e6:.0f} MB left to write to")

    def read(self) -> list[Row]:
        """Return all rows, the first of each cell.

        Broken files, and files of other programs, raise a ValueError and are not changed.
        """
        paths = [self.main] if self.main.exists() else []
        paths += sorted(self.parts.glob("*.parquet")) if self.parts.exists() else []
        rows: dict[Cell, Row] = {}
        for path in paths:
            for row in _read(path):
                rows.setdefault(row.cell, row)
        return sorted(rows.values(), key=lambda row: row.cell)

    def add(self, rows: Sequence[Row]) -> None:
        """Store rows in a new part."""
        _write(self.parts / f"{uuid4().hex}.parquet", rows)

    def merge(self, without: Iterable[Cell] = ()) -> list[Row]:
        """Merge all parts into the main file without some cells; return the rows."""
        dropped = set(without)
        parts = list(self.parts.glob("*.parquet"))
        rows = [row for row in self.read() if row.cell not in dropped]
        if parts or dropped:
            _write(self.main, rows)
            for part in parts:
                part.unlink(missing_ok=True)
        return rows

    def close(self) -> None:
        """Remove the folder of parts if it is empty."""
        with suppress(OSError):
            self.parts.rmdir()

    def n_parts(self) -> int:
        """Return the number of parts."""
        return sum(1 for _ in self.parts.glob("*.parquet"))


def count_rows(path: Path) -> int:
    """Return the number of rows of a file of results, 0 if it does not exist."""
    parquet = import_extra("pyarrow.parquet", "parquet", "reading results needs pyarrow")
    try:
        return int(parquet.read_metadata(path).num_rows)
    except FileNotFoundError:
        return 0


def columns_of(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Return rows as columns."""
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
