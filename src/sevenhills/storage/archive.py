"""The container: an uncompressed .npz archive with a header and a checksum over everything."""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ..decoding import Archive

MAGIC = "sevenhills model"
VERSION = "3.0"

_HEADER = "header.json"
#: The comment of the archive, its last bytes, is the SHA-256 of all bytes before it.
_DIGEST_BYTES = 64
_FIELDS = {"magic", "version", "model"}


class ModelFileError(ValueError):
    """A model file cannot be read, or a model cannot be stored.

    The message begins with the name of the part of the file or of the model.
    """


@contextmanager
def naming_part(name: str) -> Iterator[None]:
    """Turn any error into a ModelFileError that names a part of the file."""
    try:
        yield
    except (ModelFileError, MemoryError, ImportError):
        raise
    except Exception as error:
        raise ModelFileError(f"{name}: {error or type(error).__name__}") from error


# Writing


def pack(model: Any, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the contents of a file, given the JSON of a model and the arrays it refers to."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = b"0" * _DIGEST_BYTES
        header = {"magic": MAGIC, "version": VERSION, "model": model}
        # One text for one content, so that equal models give equal files.
        text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode("ascii")
        with _member(archive, _HEADER, len(text)) as member:
            member.write(text)
        for name, array in sorted(arrays.items()):
            with _member(archive, f"{name}.npy", array.nbytes) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    contents = file.getvalue()[:-_DIGEST_BYTES]
    return contents + _digest(contents)


def _member(archive: zipfile.ZipFile, name: str, n_bytes: int) -> Any:
    """Open a member of about ``n_bytes`` for writing, dated 1980 so that files are reproducible."""
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.file_size = n_bytes
    return archive.open(info, "w")


def _digest(contents: bytes | memoryview) -> bytes:
    return hashlib.sha256(contents).hexdigest().encode("ascii")


# Reading


def unpack(contents: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the JSON of a model and its arrays, once the checksum is verified."""
    _check_digest(contents)
    with naming_part("file"):
        archive = Archive(io.BytesIO(contents), "file")
        if archive.n_bytes > len(contents):
            raise ModelFileError("file: the members are larger than the file")
    if _HEADER not in archive.files:
        raise ModelFileError(f"{_HEADER}: missing")
    with naming_part(_HEADER):
        header = json.loads(archive.read_bytes(_HEADER).decode("ascii"))
    _check_header(header)
    return header["model"], _read_arrays(archive)


def _check_digest(contents: bytes) -> None:
    """Raise an error that names the damaged part unless the checksum is right."""
    view = memoryview(contents)
    if contents[:4] != b"PK\x03\x04":
        raise ModelFileError("file: not a model file of sevenhills")
    if not re.fullmatch(rb"[0-9a-f]{64}", contents[-_DIGEST_BYTES:]):
        raise ModelFileError("file: truncated, or not a model file of sevenhills")
    if _digest(view[:-_DIGEST_BYTES]) != contents[-_DIGEST_BYTES:]:
        raise ModelFileError(f"{_damaged_part(contents)}: damaged, the SHA-256 does not match")


def _damaged_part(contents: bytes) -> str:
    """Return the first member whose own checksum is wrong, or "file"."""
    with suppress(Exception), zipfile.ZipFile(io.BytesIO(contents)) as archive:
        if sum(info.file_size for info in archive.infolist()) <= len(contents):
            return archive.testzip() or "file"
    return "file"


def _check_header(header: Any) -> None:
    if not isinstance(header, dict) or header.get("magic") != MAGIC:
        raise ModelFileError("magic: not a model file of sevenhills")
    _check_version(header.get("version"))
    for name in sorted(set(header) ^ _FIELDS):
        raise ModelFileError(f"{name}: {'unknown' if name in header else 'missing'} in the header")


def _check_version(version: Any) -> None:
    if not isinstance(version, str) or not re.fullmatch(r"[0-9]{1,4}\.[0-9]{1,4}", version):
        raise ModelFileError(f"version: must be like {VERSION!r}, got {version!r:.20}")
    major, ours = int(version.split(".")[0]), int(VERSION.split(".")[0])
    if major > ours:
        raise ModelFileError(f"version: {version} is newer than {VERSION}; update sevenhills")
    if major < ours:
        raise ModelFileError(f"version: {version} is too old, this is version {VERSION}")


def _read_arrays(archive: Archive) -> dict[str, np.ndarray]:
    arrays = {}
    for name in archive.names:
        if name != _HEADER:
            with naming_part(name):
                arrays[name] = archive.read(name)
    return arrays
