"""Files from elsewhere: errors name the file, pickles are never loaded, bombs are not unpacked."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import IO

import numpy as np

#: Any compressed file may unpack to this number of bytes, ...
_ALWAYS_UNPACKED = 2**26
#: ... and a larger one to this multiple of its size. Tables of numbers reach 3 to 30 times.
_LARGEST_RATIO = 100


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


class Archive:
    """The arrays in a seekable .npz file; ``source`` names the file in messages."""

    def __init__(self, file: IO[bytes], source: str) -> None:
        with decoding(source):
            self._archive = zipfile.ZipFile(file)
        self.files = self._archive.namelist()
        self.names = [name.removesuffix(".npy") for name in self.files]
        self.n_bytes = sum(info.file_size for info in self._archive.infolist())
        self.source = source

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
    major, _ = np.lib.format.read_magic(file)
    if major > 2:
        raise ValueError(f"version {major} of the .npy format is not supported")
    read_header = getattr(np.lib.format, f"read_array_header_{major}_0")
    shape, _, dtype = read_header(file)
    if prod(shape) * dtype.itemsize > n_bytes:
        raise ValueError(f"an array of shape {shape} does not fit into {n_bytes} bytes")
