"""Results as csv, npy, parquet, JSON lines or JSON; files are complete or not written."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..atomic_write import atomic_write, check_writable, naming
from ..extras import import_extra
from ..json_values import json_value
from .options import Destination
from .screen import counted, remark

_SUFFIXES = {".csv": "csv", ".npy": "npy", ".parquet": "parquet", ".jsonl": "jsonl"}
#: Rows that are written at a time.
_BLOCK_ROWS = 10_000


def check_output(path: str, format: str | None) -> str:
    """Return the format of an output, or refuse it before anything is computed."""
    suffix = Path(path).suffix.lower()
    if format is None and path != "-" and suffix not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise ValueError(f"the name of {path} must end with {known}, or --format must be given")
    if path != "-":
        check_writable(path)
    found = format or _SUFFIXES.get(suffix, "csv")
    if found == "parquet":
        import_extra("pyarrow", "parquet", "writing parquet needs pyarrow")
    return found


def check_model_output(path: Path) -> None:
    """Refuse a path where no model can be written, before one is fitted."""
    if str(path) == "-":
        raise ValueError("a model is not written to standard output; give -o a file name")
    check_writable(path)


def check_page_output(path: Path) -> None:
    """Refuse a path where no page can be written, before anything is computed."""
    check_writable(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"the name of {path} must end with .html")


def write_rows(
    columns: Mapping[str, np.ndarray],
    destination: Destination,
    format: str,
    summary: Mapping[str, Any],
    rows: Mapping[str, Any],
) -> None:
    """Write a table and, with ``--json``, a summary; JSON has the rows if no file has them."""
    to_file = destination.output != "-"
    if to_file or not destination.json:
        write_table(columns, destination.output, format)
    if destination.json:
        write_json(summary if to_file else {**summary, **rows})


def write_table(columns: Mapping[str, np.ndarray], path: str, format: str) -> None:
    """Write columns of equal length; NaN becomes an empty cell or null."""
    with _opened(path) as file:
        _WRITERS[format](columns, file)
    if path != "-":
        remark(f"wrote {counted(len(next(iter(columns.values()))), 'row')} to {path}")


def write_json(value: Any) -> None:
    """Print one object; numbers that are not finite become null."""
    print(json.dumps(json_value(value), indent=2, allow_nan=False))


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """Open standard output, or a file that replaces an older one when it is complete."""
    if path != "-":
        with atomic_write(path) as file:
            yield file
        return
    with naming("standard output"):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def _rows(columns: Mapping[str, np.ndarray]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield blocks of rows of Python numbers, None where they are missing."""
    n_rows = len(next(iter(columns.values())))
    for start in range(0, n_rows, _BLOCK_ROWS):
        block = [column[start : start + _BLOCK_ROWS].tolist() for column in columns.values()]
        shown = ([None if value != value else value for value in values] for values in block)
        yield list(zip(*shown, strict=True))


def _write_csv(columns: Mapping[str, np.ndarray], file: IO[bytes]) -> None:
    for rows in chain([[tuple(columns)]], _rows(columns)):
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        file.write(text.getvalue().encode("utf-8"))


def _write_json_lines(columns: Mapping[str, np.ndarray], file: IO[bytes]) -> None:
    for rows in _rows(columns):
        objects = (json_value(dict(zip(columns, row, strict=True))) for row in rows)
        file.writelines(json.dumps(each).encode("ascii") + b"\n" for each in objects)


def _write_npy(columns: Mapping[str, np.ndarray], file: IO[bytes]) -> None:
    # numpy asks a file for its position, which pipes do not have.
    content = io.BytesIO()
    np.save(content, np.stack([np.asarray(each) for each in columns.values()], axis=1))
    file.write(content.getbuffer())


def _write_parquet(columns: Mapping[str, np.ndarray], file: IO[bytes]) -> None:
    pyarrow = import_extra("pyarrow", "parquet", "writing parquet needs pyarrow")
    parquet = import_extra("pyarrow.parquet", "parquet", "writing parquet needs pyarrow")
    arrays = {name: pyarrow.array(each, from_pandas=True) for name, each in columns.items()}
    parquet.write_table(pyarrow.table(arrays), file)


_WRITERS = {
    "csv": _write_csv,
    "jsonl": _write_json_lines,
    "npy": _write_npy,
    "parquet": _write_parquet,
}
