"""The container: an uncompressed archive of arrays with a header, checked before it is trusted."""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..atomic_write import atomic_write
from .entries import STORED, Entries, ModelFileError

MAGIC = "sevenhills model"
VERSION = "2.0"

_HEADER = "header.json"
_MOST_HEADER_BYTES = 10_000_000
#: Far more than the directory of any model file takes.
_MOST_DIRECTORY_BYTES = 100_000
_DIGEST = "sha256"
_FIELDS = {"magic", "version", "class", "parameters", "values", "members", _DIGEST}
_SIZES = {"<f8": 8, "<i8": 8, "|b1": 1, "|u1": 1}
_NAME = re.compile(r"[a-z][a-z_.]{0,99}")
_MOST_DIMENSIONS = 3
_ENCRYPTED = 0x1


@dataclass(frozen=True, eq=False)
class Content:
    """What a model file says.

    Attributes
    ----------
    kind : str
        The class of the model.
    parameters : dict
        The parameters of its recipe.
    entries : dict
        What was fitted: arrays as they are stored, and what JSON can hold.
    """

    kind: str
    parameters: dict[str, Any]
    entries: Entries


@dataclass(frozen=True)
class _Member:
    """An array as the header declares it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def file(self) -> str:
        return f"{self.name}.npy"

    @property
    def prefix(self) -> bytes:
        """The .npy header, of which there is only this one for an array: it is never parsed."""
        shape = f"({self.shape[0]},)" if len(self.shape) == 1 else str(self.shape)
        text = f"{{'descr': '{self.dtype}', 'fortran_order': False, 'shape': {shape}, }}"
        # The format wants the data to begin at a multiple of 64 bytes.
        text += " " * (-(len(text) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")

    @property
    def n_bytes(self) -> int:
        """How long its file is."""
        return len(self.prefix) + _SIZES[self.dtype] * prod(self.shape)


# Writing


def write(path: Path, content: Content) -> None:
    """Write a model file as a whole, or leave everything as it was."""
    arrays = {k: v for k, v in content.entries.items() if isinstance(v, np.ndarray)}
    members = [_Member(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    header = _header(content, members, arrays)
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        _add(archive, _HEADER, [header])
        for member in members:
            _add(archive, member.file, [member.prefix, arrays[member.name].data])


def _header(
    content: Content, members: Sequence[_Member], arrays: Mapping[str, np.ndarray]
) -> bytes:
    fields = {
        "magic": MAGIC,
        "version": VERSION,
        "class": content.kind,
        "parameters": content.parameters,
        "values": {k: v for k, v in content.entries.items() if k not in arrays},
        "members": [[each.name, each.dtype, list(each.shape)] for each in members],
    }
    digest = _digest(fields, (arrays[each.name] for each in members))
    header = _canonical({**fields, _DIGEST: digest})
    if len(header) > _MOST_HEADER_BYTES:
        raise ModelFileError(f"{_HEADER}: would take {len(header)} bytes, too many to be read")
    return header


def _canonical(fields: Mapping[str, Any]) -> bytes:
    """Return JSON of which there is one text for one content."""
    try:
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{_HEADER}: {error}") from error
    return text.encode("ascii")


def _digest(fields: Mapping[str, Any], arrays: Iterable[np.ndarray]) -> str:
    """Return the SHA-256 of all fields, which say how long arrays are, and then of the arrays."""
    digest = hashlib.sha256(_canonical(fields))
    for array in arrays:
        digest.update(array.data)
    return digest.hexdigest()


def _add(archive: zipfile.ZipFile, name: str, parts: Sequence[Any]) -> None:
    info = zipfile.ZipInfo(name)  # dated 1980, so that one model gives one file
    info.create_system = 3
    info.file_size = sum(memoryview(part).nbytes for part in parts)
    with archive.open(info, "w") as member:
        for part in parts:
            member.write(part)


# Reading


def read(file: IO[bytes], max_bytes: int) -> Content:
    """Read a model file, having checked that it is whole and no larger than allowed."""
    if not file.seekable():
        file = io.BytesIO(file.read(max_bytes + 1))
    size = file.seek(0, io.SEEK_END)
    _check_ends(file, size)
    _check_size("file", size, max_bytes)
    with _blaming("directory"):
        archive = zipfile.ZipFile(file)
    with archive:
        files = _directory(archive, size)
        fields, members = _parse_header(_bytes_of(archive, files[_HEADER]))
        _check_table(members, files, max_bytes)
        arrays = {each.name: _array(archive, files[each.file], each) for each in members}
    declared = fields.pop(_DIGEST)
    if _digest(fields, arrays.values()) != declared:
        raise ModelFileError(f"{_DIGEST}: the contents are not those that were written")
    return Content(fields["class"], fields["parameters"], {**fields["values"], **arrays})


@contextmanager
def _blaming(name: str) -> Iterator[None]:
    """Turn whatever zipfile says of a broken archive, for which it has no one error, into ours."""
    try:
        yield
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:
        raise ModelFileError(f"{name}: {error or type(error).__name__}") from error


def _check_size(name: str, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise ModelFileError(f"{name}: declares {size} bytes, more than max_bytes = {max_bytes}")


def _check_ends(file: IO[bytes], size: int) -> None:
    """Refuse a file that is no archive from its first byte to its last, or has a long directory."""
    file.seek(0)
    begin = file.read(4)
    file.seek(max(0, size - 42))
    end = file.read(42)
    file.seek(0)
    if begin != b"PK\x03\x04":
        raise ModelFileError("file: not a model file, for it does not begin like an archive")
    if end[-22:-18] != b"PK\x05\x06" or end[-2:] != b"\x00\x00":
        raise ModelFileError("file: truncated, or followed by something else")
    # The directory of a large file is described elsewhere; a small one has no need to.
    large = end[:4] == b"PK\x06\x07"
    if large and size <= zipfile.ZIP64_LIMIT:
        raise ModelFileError("directory: made for a larger file than this one")
    if int.from_bytes(end[-10:-6], "little") > _MOST_DIRECTORY_BYTES:
        raise ModelFileError("directory: too long for a model file")


def _directory(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive by name, having looked at what it says of each."""
    files: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.orig_filename
        if name in files:
            raise ModelFileError(f"{name!r}: there are two members of this name")
        if info.flag_bits & _ENCRYPTED:
            raise ModelFileError(f"{name!r}: encrypted")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ModelFileError(f"{name!r}: compressed")
        files[name] = info
    if _HEADER not in files:
        raise ModelFileError(f"{_HEADER}: missing")
    if sum(info.file_size for info in files.values()) > size:
        raise ModelFileError("directory: the members are longer than the file")
    if files[_HEADER].file_size > _MOST_HEADER_BYTES:
        raise ModelFileError(f"{_HEADER}: longer than {_MOST_HEADER_BYTES} bytes")
    return files


def _bytes_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with _blaming(info.orig_filename):
        return archive.read(info)


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, member: _Member) -> np.ndarray:
    """Return an array, whose declared length is that of its file."""
    with _blaming(member.name), archive.open(info) as file:
        if file.read(len(member.prefix)) != member.prefix:
            raise ModelFileError(f"{member.name}: is not the array that the header declares")
        out = np.empty(member.shape, dtype=member.dtype)
        octets = out.reshape(-1).view(np.uint8)
        if file.readinto(octets.data) != octets.size or file.read(1):  # type: ignore[attr-defined]
            raise ModelFileError(f"{member.name}: truncated")
        if member.dtype == STORED["b"] and (octets > 1).any():
            raise ModelFileError(f"{member.name}: holds what is neither true nor false")
        return out


def _parse_header(text: bytes) -> tuple[dict[str, Any], list[_Member]]:
    """Return the fields of a header, and the table of arrays among them."""
    with _blaming(_HEADER):
        fields = json.loads(text.decode("ascii"), object_pairs_hook=_distinct)
    if not isinstance(fields, dict) or fields.get("magic") != MAGIC:
        raise ModelFileError("magic: not a model file of sevenhills")
    _check_version(fields.get("version"))
    if set(fields) != _FIELDS:
        odd = sorted(set(fields) ^ _FIELDS)[0]
        raise ModelFileError(f"{odd}: {'unknown' if odd in fields else 'missing'} in the header")
    for name, kind in (("class", str), ("parameters", dict), ("values", dict), ("members", list)):
        if not isinstance(fields[name], kind):
            raise ModelFileError(f"{name}: must be a {kind.__name__}")
    return fields, [_parse_member(row) for row in fields["members"]]


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ModelFileError(f"{_HEADER}: there are two fields of one name")
    return out


def _check_version(version: Any) -> None:
    match = (
        re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})", version) if isinstance(version, str) else None
    )
    if match is None:
        raise ModelFileError(f"version: must be like {VERSION!r}")
    ours, theirs = int(VERSION.split(".")[0]), int(match[1])
    if theirs > ours:
        raise ModelFileError(f"version: {version} is newer than {VERSION}; update sevenhills")
    if theirs < ours:
        raise ModelFileError(f"version: {version} is too old to be read")


def _parse_member(row: Any) -> _Member:
    """Return a row of the table of arrays."""
    if not (isinstance(row, list) and len(row) == 3 and isinstance(row[0], str)):
        raise ModelFileError("members: every row must be a name, a dtype and a shape")
    name, dtype, shape = row
    if not _NAME.fullmatch(name):
        raise ModelFileError(f"members: {name!r} is not the name of an array")
    if dtype not in list(_SIZES):
        raise ModelFileError(f"{name}: must be of one of {list(_SIZES)}, got {dtype!r}")
    if not isinstance(shape, list) or not 1 <= len(shape) <= _MOST_DIMENSIONS:
        raise ModelFileError(f"{name}: the shape must have 1 to {_MOST_DIMENSIONS} dimensions")
    if not all(type(length) is int and 0 <= length < 2**63 for length in shape):
        raise ModelFileError(f"{name}: the shape must be of whole numbers, got {shape}")
    return _Member(name, dtype, tuple(shape))


def _check_table(
    members: Sequence[_Member], files: Mapping[str, zipfile.ZipInfo], max_bytes: int
) -> None:
    """Refuse a table of arrays that is not that of the archive."""
    _check_size("members", sum(each.n_bytes for each in members), max_bytes)
    seen = {_HEADER}
    for each in members:
        if each.file in seen:
            raise ModelFileError(f"{each.name}: declared twice")
        if each.file not in files:
            raise ModelFileError(f"{each.name}: declared, but missing")
        if files[each.file].file_size != each.n_bytes:
            raise ModelFileError(f"{each.name}: is not as long as its shape declares")
        seen.add(each.file)
    undeclared = set(files) - seen
    if undeclared:
        raise ModelFileError(f"{min(undeclared)!r}: not declared")
