"""What a model file holds, by name, and how it is checked when it is taken out again."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Arrays are members of the file; whatever else there is goes into its header.
Entries = dict[str, Any]

#: How arrays are stored, whatever the platform, by their kind.
STORED = {"f": "<f8", "i": "<i8", "b": "|b1", "u": "|u1"}


class ModelFileError(ValueError):
    """A model file that cannot be read, or a model that cannot be written to one.

    The message begins with the field or the member that is to blame.
    """


def full_name(name: str, key: str) -> str:
    """Return the name of an entry within an entry; an empty name is the entry itself."""
    return f"{name}.{key}" if name and key else name or key


def nested(name: str, entries: Entries) -> Entries:
    """Return entries as parts of an entry."""
    return {full_name(name, key): value for key, value in entries.items()}


def as_stored(entries: Entries) -> Entries:
    """Return entries with their arrays as they are stored."""
    return {
        name: _stored(name, value) if isinstance(value, np.ndarray) else value
        for name, value in entries.items()
    }


def _stored(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in STORED:
        raise ModelFileError(f"{name}: arrays of {array.dtype} cannot be stored")
    return np.ascontiguousarray(array, dtype=STORED[array.dtype.kind]).reshape(array.shape)


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Blame an entry for what its contents do not allow to be built."""
    try:
        yield
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"{name}: {error}") from error


@dataclass(frozen=True)
class Reader:
    """Checked access to entries.

    Parameters
    ----------
    entries : mapping
        All entries of a file.
    name : str
        The entry whose parts are read; all of them if empty.
    taken : set
        The entries that have been read.
    """

    entries: Mapping[str, Any]
    name: str = ""
    taken: set[str] = field(default_factory=set)

    def at(self, key: str) -> "Reader":
        """Return the reader of an entry's parts."""
        return Reader(self.entries, full_name(self.name, key), self.taken)

    def fail(self, problem: str, key: str = "") -> ModelFileError:
        """Return the error that blames an entry."""
        return ModelFileError(f"{full_name(self.name, key)}: {problem}")

    def is_none(self) -> bool:
        """Whether the entry itself is stored as nothing."""
        if self.name in self.entries and self.entries[self.name] is None:
            self.taken.add(self.name)
            return True
        return False

    def __contains__(self, key: str) -> bool:
        return full_name(self.name, key) in self.entries

    def finish(self) -> None:
        """Refuse entries that nobody asked for."""
        for name in self.entries:
            if name not in self.taken:
                raise ModelFileError(f"{name}: not part of such a model")

    def whole(self, key: str = "", least: int = 0) -> int:
        """Return a whole number."""
        return self._whole(self._take(key), key, least)

    def wholes(self, key: str = "", least: int = 0) -> list[int]:
        """Return a list of whole numbers."""
        return [self._whole(value, key, least) for value in self._list(key)]

    def number(self, key: str = "", least: float = -np.inf) -> float:
        """Return a finite number."""
        return self._number(self._take(key), key, least)

    def numbers(self, key: str = "", least: float = -np.inf) -> list[float]:
        """Return a list of finite numbers."""
        return [self._number(value, key, least) for value in self._list(key)]

    def text(self, key: str, choices: Sequence[str] = ()) -> str:
        """Return a text, one of the choices if there are any."""
        value = self._text(self._take(key), key)
        if choices and value not in choices:
            raise self.fail(f"must be one of {list(choices)}, got {value!r}", key)
        return value

    def texts(self, key: str = "") -> list[str]:
        """Return a list of texts."""
        return [self._text(value, key) for value in self._list(key)]

    def lists(self, key: str) -> list["Reader"]:
        """Return readers of the items of a list."""
        name, items = full_name(self.name, key), self._list(key)
        return [Reader({f"{name}[{i}]": item}, f"{name}[{i}]") for i, item in enumerate(items)]

    def floats(
        self,
        key: str,
        shape: tuple[int | None, ...],
        *,
        least: float = -np.inf,
        finite: bool = True,
    ) -> np.ndarray:
        """Return an array of finite numbers, or of any but NaN; None stands for any length."""
        array = self._array(key, "f", shape).astype(np.float64, copy=False)
        if not (np.isfinite(array) if finite else ~np.isnan(array)).all():
            raise self.fail("holds values that are not finite", key)
        if (array < least).any():
            raise self.fail(f"holds values below {least:g}", key)
        return array

    def integers(
        self,
        key: str,
        shape: tuple[int | None, ...],
        *,
        least: int = 0,
        below: int = np.iinfo(np.int64).max,
    ) -> np.ndarray:
        """Return an array of whole numbers within limits."""
        array = self._array(key, "i", shape).astype(np.int64, copy=False)
        if ((array < least) | (array >= below)).any():
            raise self.fail(f"holds values outside of {least} to {below - 1}", key)
        return array

    def flags(self, key: str, shape: tuple[int | None, ...]) -> np.ndarray:
        """Return an array of truth values."""
        return self._array(key, "b", shape)

    def octets(self, key: str) -> bytes:
        """Return the bytes of a text too long for the header."""
        return self._array(key, "u", (None,)).tobytes()

    def _take(self, key: str) -> Any:
        name = full_name(self.name, key)
        if name not in self.entries:
            raise self.fail("missing", key)
        self.taken.add(name)
        return self.entries[name]

    def _list(self, key: str) -> list[Any]:
        value = self._take(key)
        if not isinstance(value, list):
            raise self.fail("must be a list", key)
        return value

    def _whole(self, value: Any, key: str, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail("must be a whole number", key)
        if not least <= value < 2**63:
            raise self.fail(f"must be at least {least} and below 2**63", key)
        return value

    def _number(self, value: Any, key: str, least: float) -> float:
        if not isinstance(value, float):
            raise self.fail("must be a number", key)
        if not (np.isfinite(value) and value >= least):
            raise self.fail(f"must be finite and at least {least:g}, got {value:g}", key)
        return value

    def _text(self, value: Any, key: str) -> str:
        if not isinstance(value, str):
            raise self.fail("must be a text", key)
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self.fail(f"{value!a} cannot be written as UTF-8; rename it", key)
        return value

    def _array(self, key: str, kind: str, shape: tuple[int | None, ...]) -> np.ndarray:
        value = self._take(key)
        if not isinstance(value, np.ndarray) or value.dtype != STORED[kind]:
            raise self.fail(f"must be an array of {STORED[kind]}", key)
        agrees = len(shape) == value.ndim and all(
            expected in (None, length) for expected, length in zip(shape, value.shape, strict=True)
        )
        if not agrees:
            expected = tuple("any" if each is None else each for each in shape)
            raise self.fail(f"must have shape {expected}, got {value.shape}", key)
        return value
