"""Files that are written as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of another once all of it is on the disk.

    What is not a file, like a pipe or ``/dev/null``, is written to as it is.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            yield file
        return
    unfinished = target.with_name(f".{uuid4().hex}.tmp")
    try:
        with _opened(unfinished, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def _opened(unfinished: Path, path: Path) -> IO[bytes]:
    """Open a new file; an error names what it is to become, which is what the user knows."""
    try:
        return open(unfinished, "xb")
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error
