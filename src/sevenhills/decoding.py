"""Files of others: damage names the file, pickles are never loaded, and bombs are not unpacked."""

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

#: Any compressed file may unpack to this many bytes, ...
_ALWAYS_UNPACKED = 2**26
#: ... and a larger one to this many times its size. Tables of numbers reach 3 to 30 times.
_MOST_TIMES = 100
_BLOCK_BYTES = 2**20


@contextmanager
def decoding(source: str) -> Iterator[None]:
    """Blame a file for whatever its decoder raises: there is no common error for damaged files."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        said = str(error) or type(error).__name__
        raise ValueError(f"{source} cannot be read: {said}") from error


def check_unpacked(n_bytes: int, n_packed: int, source: str) -> None:
    """Refuse a compressed file that is far longer when it is unpacked."""
    most = max(_ALWAYS_UNPACKED, _MOST_TIMES * n_packed)
    if n_bytes > most:
        raise ValueError(
            f"{source} unpacks to more than {most // 2**20} MiB, over {_MOST_TIMES} times its "
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
    """Return the array in a .npy file, mapped into memory."""
    with decoding(str(path)):
        return np.lib.format.open_memmap(path, mode="r")


class Archive:
    """The arrays in a .npz file.

    Parameters
    ----------
    file : file
        Can be read from any place.
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

    def read(self, name: str) -> np.ndarray:
        """Return an array by its name."""
        info = self._archive.getinfo(self.files[self.names.index(name)])
        check_unpacked(info.file_size, info.compress_size, self.source)
        with decoding(self.source), self._archive.open(info) as member:
            array = np.lib.format.read_array(member, allow_pickle=False)
            member.read()  # the checksum is compared at the end
        return array
