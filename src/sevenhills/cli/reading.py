"""From a path, or standard input, to a table."""

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from .array_files import is_model, read_npy, read_npz, read_parquet
from .tables import Table
from .text_files import Layout, read_csv, read_json_lines

#: Files that begin with these bytes, whatever they are called.
_READERS: dict[bytes, Callable[[IO[bytes], str], Table]] = {
    b"\x93NUMPY": read_npy,
    b"PK": read_npz,
    b"PAR1": read_parquet,
}
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_SPACES = b" \t\r\n\xef\xbb\xbf"


def read_table(path: str, layout: Layout | None = None) -> Table:
    """Read a file, or standard input if its path is ``-``.

    What a file begins with tells arrays, archives and parquet; else JSON lines are told by the
    name of the file or, on standard input, by their first bracket, and all the rest is csv.
    """
    with _open(path) as file:
        source = "standard input" if path == "-" else path
        begin = file.read(64)
        file.seek(0)
        if not begin:
            raise ValueError(f"{source} is empty")
        for magic, read in _READERS.items():
            if begin.startswith(magic):
                return read(file, source)
        if _is_json(path, begin):
            return read_json_lines(file, source)
        return read_csv(file, source, layout or Layout())


def is_model_file(path: str) -> bool:
    """Whether a path leads to a model rather than to data."""
    if path == "-":
        return False
    with open(path, "rb") as file:
        return is_model(file)


def _open(path: str) -> IO[bytes]:
    """Open a file that one can go back in."""
    if path == "-":
        file: IO[bytes] = io.BytesIO(sys.stdin.buffer.read())
    else:
        if Path(path).is_dir():
            raise ValueError(f"{path} is a folder, but a file is needed")
        file = open(path, "rb")  # noqa: SIM115
        if not file.seekable():
            file = io.BytesIO(file.read())
    is_zipped = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    if not is_zipped:
        return file
    with file:
        return io.BytesIO(gzip.decompress(file.read()))


def _is_json(path: str, begin: bytes) -> bool:
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    return suffix in _JSON_SUFFIXES or (path == "-" and begin.lstrip(_SPACES)[:1] in (b"{", b"["))
