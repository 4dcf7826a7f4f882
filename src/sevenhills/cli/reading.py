"""From a path, or standard input, to a table."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..atomic_write import naming
from ..decoding import unzipped
from .array_files import npy_table, npz_table, parquet_table
from .tables import Table
from .text_files import Layout, read_csv, read_json_lines

#: Files that begin with these bytes, whatever they are called.
_READERS: dict[bytes, Callable[[IO[bytes], str], Table]] = {
    b"\x93NUMPY": npy_table,
    b"PK": npz_table,
    b"PAR1": parquet_table,
}
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_SPACES = b" \t\r\n\xef\xbb\xbf"


def read_table(path: str, layout: Layout | None = None) -> Table:
    """Read a file, or standard input if its path is ``-``."""
    with opened(path) as file:
        return table_of(file, path, layout or Layout())


def table_of(file: IO[bytes], path: str, layout: Layout) -> Table:
    """Read a file that was opened.

    Arrays, archives and parquet are recognised by their first bytes. JSON lines are recognised by
    the name of the file or, on standard input, by their first bracket. Everything else is csv.
    """
    source = "standard input" if path == "-" else path
    begin = file.read(64)
    file.seek(0)
    if not begin:
        raise ValueError(f"{source} is empty")
    with naming(source):
        for magic, read in _READERS.items():
            if begin.startswith(magic):
                return _checked(read(file, source))
        if _is_json(path, begin):
            return _checked(read_json_lines(file, source))
        return _checked(read_csv(file, source, layout))


def _checked(table: Table) -> Table:
    """Refuse names that cannot be written to any file."""
    for name in table.names:
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise ValueError(
                f"{table.source}: column {name!a} cannot be written as UTF-8, because it "
                "holds half of a surrogate pair; rename it"
            )
    return table


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file, a pipe or standard input, unzipped, so that it can be read from any place."""
    if path == "-":
        yield _seekable(sys.stdin.buffer, "standard input")
        return
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder, but a file is needed")
    with open(path, "rb") as file:
        yield _seekable(file, path)


def _seekable(file: IO[bytes], source: str) -> IO[bytes]:
    with naming(source):
        if file is sys.stdin.buffer or not file.seekable():
            file = io.BytesIO(file.read())
        is_zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return unzipped(file, source) if is_zipped else file


def _is_json(path: str, begin: bytes) -> bool:
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    return suffix in _JSON_SUFFIXES or (path == "-" and begin.lstrip(_SPACES)[:1] in (b"{", b"["))
