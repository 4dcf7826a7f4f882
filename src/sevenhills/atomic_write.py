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

#: Contents for a stream are kept in memory up to this number of bytes, longer ones on disk.
_MOST_IN_MEMORY = 2**25
#: The folders of open descriptors in Linux and in other systems.
_DESCRIPTORS = re.compile(r"/proc/[0-9]+(/task/[0-9]+)?/fd|/dev/fd")
#: Upper limit on the symbolic links that are followed, as in Linux.
_MOST_LINKS = 40
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
    with naming(path):
        stream = _stream(path)
        if stream is not None:
            with stream, _spool() as file:
                yield file
                file.seek(0)
                shutil.copyfileobj(file, stream)
            return
        target = Path(os.path.realpath(path))
        unfinished = target.with_name(f".{uuid4().hex}.tmp")
        try:
            new = _create(unfinished, target)
            with new or _spool() as file:
                yield file
                if new is None:
                    _overwrite(target, file)
                else:
                    _sync(file)
            if new is not None:
                _move(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)


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


def _descriptor(path: str | os.PathLike[str]) -> str | None:
    """Return the open descriptor to which a path leads, None for other paths."""
    place = os.fspath(path)
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(place)
        folder = os.path.realpath(folder)
        place = os.path.join(folder, name)
        if name.isdecimal() and _DESCRIPTORS.fullmatch(folder):
            return place
        if not os.path.islink(place):
            return None
        place = os.path.join(folder, os.readlink(place))
    return None


def _stream(path: str | os.PathLike[str]) -> IO[bytes] | None:
    """Open a pipe, a device or a descriptor for writing; return None for regular files."""
    descriptor = _descriptor(path)
    if descriptor is not None:
        folder, number = os.path.split(descriptor)
        if folder == "/dev/fd" or folder.startswith(f"{os.path.realpath('/proc/self')}/"):
            # A duplicate continues at the current position; opening the path would truncate.
            return os.fdopen(os.dup(int(number)), "wb")
        return open(descriptor, "ab")
    try:
        is_regular = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return None
    return None if is_regular else open(path, "wb")


def _spool() -> IO[bytes]:
    """Open a temporary file for contents that cannot be written beside their target."""
    return SpooledTemporaryFile(_MOST_IN_MEMORY)


def _create(unfinished: Path, target: Path) -> IO[bytes] | None:
    """Create the file that replaces the target; None if the target can only be written in place."""
    old = target.stat() if target.exists() else None
    # A replacement is private until it has the mode of the target.
    mode = 0o666 if old is None else 0o600
    try:
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        if old is None or error.errno not in _NOT_REPLACEABLE:
            raise
        return None
    if old is None or _owned_like(descriptor, old):
        return os.fdopen(descriptor, "w+b")
    os.close(descriptor)
    return None


def _owned_like(descriptor: int, old: os.stat_result) -> bool:
    """Give a file the owner and the group of another, and return whether that was allowed."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid):
        return True
    try:
        os.fchown(descriptor, old.st_uid, old.st_gid)
    except PermissionError:
        return False
    return True


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _move(unfinished: Path, target: Path) -> None:
    """Replace the target by a complete file."""
    is_new = not target.exists()
    try:
        if not is_new:
            shutil.copystat(target, unfinished)
            os.utime(unfinished)
        os.replace(unfinished, target)
    except OSError as error:
        if is_new or error.errno not in _NOT_REPLACEABLE:
            raise
        with open(unfinished, "rb") as file:
            _overwrite(target, file)


def _overwrite(target: Path, file: IO[bytes]) -> None:
    """Write contents into an existing file, which is not replaced."""
    file.seek(0)
    with open(target, "wb", opener=lambda name, _: os.open(name, os.O_WRONLY)) as stream:
        shutil.copyfileobj(file, stream)
        stream.truncate()
        _sync(stream)
