"""Lists that are sent to another process in one piece."""

import copyreg
import gc
import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np

#: joblib maps arrays from this size on into the memory of its processes.
_MAPPED_BYTES = 1_000_000
#: Where arrays in a parcel begin, and so the sizes of those that can follow one another.
_ALIGNMENT = 8


class Parcel(list[Any]):
    """A list that is sent to another process in one piece.

    joblib would look at every array in it by itself, to see whether to map it into memory, which
    takes a tenth of the time of a small fit. What it should map, and what only it can send, such
    as classes that were defined in a notebook, is left to it.

    Parameters
    ----------
    values : iterable
    together : bool, default=False
        Whether the arrays of all values share one piece of memory after the way, which is faster;
        otherwise those of every value stay apart, so that they go when it goes.
    """

    def __init__(self, values: Iterable[Any] = (), *, together: bool = False) -> None:
        super().__init__(values)
        self._together = together

    def __reduce__(self) -> tuple[Any, ...]:
        if not any(map(_should_be_mapped, self)):
            with suppress(pickle.PicklingError, AttributeError, TypeError):
                if self._together:
                    return _unpack_together, _pack([list(self)])
                return _unpack, _pack(list(self))
        return list, (list(self),)


def _should_be_mapped(value: Any) -> bool:
    return isinstance(value, np.memmap) or (
        isinstance(value, np.ndarray) and value.nbytes >= _MAPPED_BYTES
    )


def _pack(content: list[Any]) -> tuple[bytes, bytes, list[int]]:
    """Return a pickle of all values without their arrays, the bytes of these, and where they end.

    A small model has dozens of arrays. To pickle and to restore one by itself takes several times
    longer than to copy it.
    """
    file, ends = BytesIO(), []
    packer = _Packer(file)
    for value in content:
        packer.dump(value)
        ends.append(packer.n_bytes)
    return file.getvalue(), b"".join(packer.arrays), ends


def _unpack(pickled: bytes, data: bytes, ends: list[int]) -> list[Any]:
    unpacker, view = _Unpacker(BytesIO(pickled)), memoryview(data)
    with _no_collection():
        return [
            unpacker.load_with(bytearray(view[start:end])) for start, end in pairwise([0, *ends])
        ]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Make many objects, none of them garbage, for which Python would look again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _unpack_together(pickled: bytes, data: bytes, ends: list[int]) -> list[Any]:
    [content] = _unpack(pickled, data, ends)
    return list(content)


class _Packer(pickle.Pickler):
    """Pickles values but for the bytes of ``arrays``, of which it only says the form."""

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.arrays: list[Any] = []
        self.n_bytes = 0
        self.dispatch_table = copyreg.dispatch_table | {np.ndarray: self._reduce}

    def _reduce(self, array: np.ndarray) -> Any:
        if not _can_be_packed(array):
            return array.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        self.arrays.append(array)
        self.n_bytes += array.nbytes
        return _next_array, (array.dtype, array.shape, array.flags.writeable)


def _can_be_packed(array: np.ndarray) -> bool:
    """Whether an array is plain bytes, and those that follow it in memory stay aligned."""
    dtype = array.dtype
    return (
        dtype.kind in "biufU"
        and dtype.alignment <= _ALIGNMENT
        and array.nbytes % _ALIGNMENT == 0
        and array.flags.c_contiguous
    )


def _next_array(dtype: np.dtype, shape: tuple[int, ...], is_writeable: bool) -> np.ndarray:
    """Stands for the method of the same name, which knows the bytes."""
    raise pickle.UnpicklingError("the bytes of this array are elsewhere")


class _Unpacker(pickle.Unpickler):
    """Restores values whose arrays follow one another in memory."""

    def load_with(self, arrays: bytearray) -> Any:
        """Return the next value, given the bytes of its arrays."""
        self._arrays, self._start = arrays, 0
        return self.load()

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return self._next_array if found is _next_array else found

    def _next_array(
        self, dtype: np.dtype, shape: tuple[int, ...], is_writeable: bool
    ) -> np.ndarray:
        array: np.ndarray = np.ndarray(shape, dtype, self._arrays, self._start)
        if not is_writeable:
            array.flags.writeable = False
        self._start += array.nbytes
        return array
