"""Results as csv, npy, parquet, JSON lines or JSON; files are complete or not written."""

import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np

from ..atomic_write import atomic_write, check_writable, naming
from ..extras import import_extra
from ..texts import counted, json_value
from .options import Destination
from .screen import remark

#: Characters that names of files do not get from a table.
_UNSAFE = re.compile(r"[^\w.-]+")
#: Longest part of the name of a file that comes from a table.
_MAX_WORD = 40
_SUFFIXES = {".csv": "csv", ".npy": "npy", ".parquet": "parquet", ".jsonl": "jsonl"}


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


def check_page_output(path: Path) -> None:
    """Refuse a path where no page can be written, before anything is computed."""
    check_writable(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"the name of {path} must end with .html")


def paths_by_category(path: Path, categories: Iterable[str | None]) -> list[Path]:
    """Return a path for every category, like ``m-Adelie.npz`` for ``m.npz``, and check them.

    Characters that are no letters or digits become underscores. The category None has the path
    itself.
    """
    found: list[Path] = []
    taken: set[str] = set()
    for category in categories:
        if category is None:
            found.append(path)
            continue
        word = _UNSAFE.sub("_", category)[:_MAX_WORD].strip("._-") or "other"
        name, number = word, 2
        while name.lower() in taken:  # some systems ignore case
            name, number = f"{word}_{number}", number + 1
        taken.add(name.lower())
        found.append(path.with_name(f"{path.stem}-{name}{path.suffix}"))
    for each in found:
        check_writable(each)
    return found


def write_all(paths: Iterable[Path], save: Iterable[Callable[[Path], Any]]) -> None:
    """Write files by functions that save to a path; if one of them fails, no file is changed."""
    with TemporaryDirectory() as folder:
        contents = []
        for i, save_to in enumerate(save):
            save_to(Path(folder, str(i)))
            contents.append(Path(folder, str(i)))
        for path, content in zip(paths, contents, strict=True):
            with atomic_write(path) as file, open(content, "rb") as complete:
                shutil.copyfileobj(complete, file)


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
    pandas = import_extra("pandas", "cli", "writing tables needs pandas")
    frame = pandas.DataFrame(columns)
    with _opened(path) as file:
        if format == "csv":
            frame.to_csv(file, index=False, lineterminator="\n")
        elif format == "parquet":
            frame.to_parquet(file, engine="pyarrow", index=False)
        elif format == "jsonl":
            rows = (dict(zip(columns, row, strict=True)) for row in frame.itertuples(False, None))
            file.writelines(json.dumps(json_value(row)).encode("ascii") + b"\n" for row in rows)
        else:
            # numpy reads the position of a file, which pipes do not have.
            content = io.BytesIO()
            np.save(content, np.ascontiguousarray(frame))
            file.write(content.getbuffer())
    if path != "-":
        remark(f"wrote {counted(len(frame), 'row')} to {path}")


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
