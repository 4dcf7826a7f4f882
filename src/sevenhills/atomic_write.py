"""Atomic writes: a file is written completely or not at all."""

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO
from uuid import uuid4

#: Contents are kept in memory up to this number of bytes, longer ones in a temporary file.
_MAX_IN_MEMORY = 2**25
#: Open descriptors of this process.
_DESCRIPTOR = re.compile(r"(?:/dev|/proc/self)/fd/([0-9]+)")
_STANDARD_STREAMS = {"/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}
#: Errors of a file that can be written but not replaced: the folder is read-only or sticky, the
#: file has another owner, or is a mount point.
_NOT_REPLACEABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a seekable file whose contents go to ``path`` once they are complete.

    A regular file is replaced by a new one with its mode, owner and attributes. Symbolic links to
    it stay, other hard links keep the old contents. A file that can be written but not replaced is
    written in place. Pipes, devices, and open descriptors like ``/dev/stdout`` and ``/dev/fd/3``
    are written directly; a descriptor may belong to a file to which a shell appends.
    """
    with naming(path), SpooledTemporaryFile(_MAX_IN_MEMORY) as contents:
        yield contents
        descriptor = _descriptor(path)
        if descriptor is not None:
            # A duplicate continues at the current position; opening the path would truncate.
            with os.fdopen(os.dup(descriptor), "wb") as stream:
                _copy(contents, stream)
        elif _is_regular(path):
            _replace(Path(os.path.realpath(path)), contents)
        else:
            with open(path, "wb") as stream:
                _copy(contents, stream)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put ``path`` into errors of the system, which name no file or a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.errno == errno.EPIPE and error.filename is None):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an error for a path that cannot be written; call this before a long computation."""
    if _descriptor(path) is not None:
        return
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        folder = os.path.dirname(os.path.realpath(path))
        if not os.path.isdir(folder):
            raise ValueError(f"{path}: the folder {folder} does not exist") from None
        is_writable = os.access(folder, os.W_OK | os.X_OK)
    else:
        if stat.S_ISDIR(mode):
            raise ValueError(f"{path} is a folder; give the name of a file")
        is_writable = os.access(path, os.W_OK)
    if not is_writable:
        raise PermissionError(f"{path} cannot be written: no permission")


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return the number of the open descriptor that a path names, None for other paths."""
    name = os.fspath(path)
    found = _DESCRIPTOR.fullmatch(_STANDARD_STREAMS.get(name, name))
    return None if found is None else int(found[1])


def _is_regular(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a regular file, or will be one."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def _copy(contents: IO[bytes], stream: IO[bytes]) -> None:
    """Write contents to a stream; regular files are synchronized with the disk."""
    contents.seek(0)
    shutil.copyfileobj(contents, stream)
    stream.flush()
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        os.fsync(stream.fileno())


def _replace(target: Path, contents: IO[bytes]) -> None:
    """Replace a file by one with other contents, or write it in place where that is refused."""
    old = target.stat() if target.exists() else None
    # A replacement is private until it has the mode of the target.
    mode = 0o666 if old is None else 0o600
    unfinished = target.with_name(f".{uuid4().hex}.tmp")
    try:
        with open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as new:
            _copy(contents, new)
        if old is not None:
            _copy_attributes(target, old, unfinished)
        os.replace(unfinished, target)
    except OSError as error:
        if old is None or error.errno not in _NOT_REPLACEABLE:
            raise
        # Sticky folders refuse the flag O_CREAT even for files that exist.
        in_place = os.O_WRONLY | os.O_TRUNC
        with open(target, "wb", opener=lambda name, _: os.open(name, in_place)) as stream:
            _copy(contents, stream)
    finally:
        unfinished.unlink(missing_ok=True)


def _copy_attributes(target: Path, old: os.stat_result, unfinished: Path) -> None:
    """Give a file the owner, the mode and the attributes of the file that it replaces."""
    new = unfinished.stat()
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.chown(unfinished, old.st_uid, old.st_gid)
    shutil.copystat(target, unfinished)
    os.utime(unfinished)
