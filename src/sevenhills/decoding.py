"""Files from elsewhere: errors name the file, pickles are never loaded, bombs are not unpacked."""

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

#: Any compressed file may unpack to this many bytes, ...
_ALWAYS_UNPACKED = 2**26
#: ... and a larger one to this many times its size. Tables of numbers reach 3 to 30 times.
_LARGEST_RATIO = 100
_BLOCK_BYTES = 2**20


@contextmanager
def decoding(source: str) -> Iterator[None]:
    """Turn any error of a decoder into a ValueError that names the file.

    Decoders have no common exception for damaged files.
    """
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        message = str(error) or type(error).__name__
        raise ValueError(f"{source} cannot be read: {message}") from error


def check_unpacked(n_bytes: int, n_packed: int, source: str) -> None:
    """Raise an error if a compressed file is far longer when it is unpacked."""
    limit = max(_ALWAYS_UNPACKED, _LARGEST_RATIO * n_packed)
    if n_bytes > limit:
        raise ValueError(
            f"{source} unpacks to more than {limit // 2**20} MiB, over {_LARGEST_RATIO} times its "
            "size; if that is right, unpack it and give the unpacked file"
        )


def unzipped(file: IO[bytes], source: str) -> IO[bytes]:
    """Return the contents of a gzip file."""
    n_packed = file.seek(0, io.SEEK_END)
    file.seek(0)
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=file) as stream:
        while True:
            with decoding(source):
                block = stream.read(_BLOCK_BYTES)
            if not block:
                break
            check_unpacked(out.tell() + len(block), n_packed, source)
            out.write(block)
    out.seek(0)
    return out


def read_npy(file: IO[bytes], source: str) -> np.ndarray:
    """Return the array in a .npy file."""
    with decoding(source):
        return np.lib.format.read_array(file, allow_pickle=False)


def map_npy(path: Path) -> np.ndarray:
    """Return the array in a .npy file as a memory map."""
    with decoding(str(path)):
        return np.lib.format.open_memmap(path, mode="r")


class Archive:
    """The arrays in a .npz file.

    Parameters
    ----------
    file : file
        Seekable.
    source : str
        The name of the file in messages.
    """

    def __init__(self, file: IO[bytes], source: str) -> None:
        with decoding(source):
            self._archive = zipfile.ZipFile(file)
        self.files = self._archive.namelist()
        self.source = source

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return [name.removesuffix(".npy") for name in self.files]

    @property
    def n_bytes(self) -> int:
        """The size of all members when they are unpacked, as the archive declares it."""
        return sum(info.file_size for info in self._archive.infolist())

    def read(self, name: str) -> np.ndarray:
        """Return an array by its name."""
        info = self._archive.getinfo(self.files[self.names.index(name)])
        check_unpacked(info.file_size, info.compress_size, self.source)
        with decoding(self.source), self._archive.open(info) as member:
            _check_declared_size(member, info.file_size)
            member.seek(0)
            array = np.lib.format.read_array(member, allow_pickle=False)
            member.read()  # the checksum is compared at the end
        return array

    def read_bytes(self, file: str) -> bytes:
        """Return a member that is not an array by the name of its file."""
        with decoding(self.source):
            return self._archive.read(file)


def _check_declared_size(file: IO[bytes], n_bytes: int) -> None:
    """Raise an error if a .npy file declares a larger array than it can hold.

    numpy allocates the declared size before it reads the data.
    """
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"version {version} of the .npy format is not supported")
    if prod(shape) * dtype.itemsize > n_bytes:
        raise ValueError(f"an array of shape {shape} does not fit into {n_bytes} bytes")
