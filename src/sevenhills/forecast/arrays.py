"""What comes in: forecasts and truths, read a block of scenes at a time.

Whatever they are given as, a block is an array of shape (scenes, samples, agents, steps,
coordinates), with NaN where a path has ended or something is absent.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..decoding import Archive, map_npy
from ..validation import without_tensors
from .tables import LongTable, ParquetTable, same_agents

#: Numbers in a block.
_BLOCK_SIZE = 500_000
#: The relative rounding of floats of 32 bits.
SHORT_EPS = 2.0**-23
#: More coordinates than this beside so few steps look like swapped axes.
_MANY_COORDINATES, _FEW_STEPS = 6, 3

_PREDICTIONS = ("scenes", "samples", "steps", "coordinates")
_TRUTH = ("scenes", "steps", "coordinates")


class Source(Protocol):
    """Scenes that can be read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all scenes together."""

    @property
    def names(self) -> np.ndarray | None:
        """What the scenes are called, if they have names."""

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return some of the scenes as floats."""


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Scenes in an array, which may be mapped from a file."""

    values: np.ndarray
    names: np.ndarray | None = None
    eps: float = SHORT_EPS  #: what numbers are rounded to, if not to doubles, beside their size

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all scenes together."""
        return tuple(self.values.shape)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return some of the scenes as floats."""
        return np.array(self.values[start:stop], dtype=np.float64)


def open_source(value: Any, name: str) -> Source:
    """Return scenes given as an array, a tensor, a table of rows or the path of a file.

    Parameters
    ----------
    value : array-like, frame or path-like
        A path ends with ``.npy``, ``.npz`` or ``.parquet``.
    name : {"predictions", "truth"}
    """
    if isinstance(value, str | os.PathLike):
        return _open_file(Path(value), name)
    if hasattr(value, "columns") and hasattr(value, "__getitem__"):
        return LongTable.of_frame(value, name)
    return ArraySource(_checked(_as_array(value, name), name), eps=_eps_of(value))


def _open_file(path: Path, name: str) -> Source:
    if not path.exists():
        raise FileNotFoundError(f"{name}: there is no file {path}")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return ArraySource(_checked(map_npy(path), name))
    if suffix == ".npz":
        return ArraySource(_checked(_member(path, name), name))
    if suffix in (".parquet", ".pq"):
        table = ParquetTable(path, name)
        # A truth is small, and may have its scenes in another order than the predictions.
        return table if name == "predictions" else table.in_memory()
    raise ValueError(f"{name} must be a .npy, .npz or .parquet file, got {path.name}")


def _member(path: Path, name: str) -> np.ndarray:
    """Return the array of an archive that has the name of the argument, or the only one."""
    with path.open("rb") as file:
        archive = Archive(file, str(path))
        members = archive.names
        if name not in members and len(members) != 1:
            raise ValueError(f"{name}: {path.name} has no array {name!r}, only {members}")
        return archive.read(name if name in members else members[0])


def _as_array(value: Any, name: str) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(without_tensors(value))
    except ValueError as error:
        raise ValueError(
            f"{name} must be one array; pad shorter paths and absent samples with NaN ({error})"
        ) from error


def _eps_of(value: Any) -> float:
    """Return the relative rounding of floats of 16 bits, and of 32 bits for all others."""
    dtype = str(getattr(value, "dtype", ""))
    return {"bfloat16": 2.0**-7, "float16": 2.0**-10}.get(dtype.rpartition(".")[2], SHORT_EPS)


def _checked(values: np.ndarray, name: str) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill the masked values with NaN first")
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers, got dtype {values.dtype}")
    if 0 in values.shape:
        raise ValueError(f"{name} must not be empty, got shape {values.shape}")
    return values


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Forecasts beside the truth, read a block of scenes at a time."""

    predictions: Source
    truth: Source
    has_agents: bool

    @property
    def names(self) -> np.ndarray | None:
        """What the scenes are called, None if they have no names."""
        return self.truth.names if self.predictions.names is None else self.predictions.names

    @property
    def n_scenes(self) -> int:
        """The number of scenes."""
        return self.predictions.shape[0]

    @property
    def n_samples(self) -> int:
        """The number of samples in a scene, absent ones among them."""
        return self.predictions.shape[1]

    @property
    def n_agents(self) -> int:
        """The number of agents in a scene, one if there is no axis of agents."""
        return self.predictions.shape[2] if self.has_agents else 1

    @property
    def n_steps(self) -> int:
        """The number of steps of the longest path."""
        return self.predictions.shape[-2]

    @property
    def n_coordinates(self) -> int:
        """The dimension of the space in which agents move."""
        return self.predictions.shape[-1]

    @property
    def n_truths(self) -> int:
        """The number of true futures of a scene, absent ones among them."""
        return self.truth.shape[1] if self._has_several_truths else 1

    @property
    def _has_several_truths(self) -> bool:
        return len(self.truth.shape) == len(self.predictions.shape)

    def blocks(self, n_parts: int = 1) -> Iterator[tuple[int, int]]:
        """Yield the first scene of every block, and the one after its last.

        Parameters
        ----------
        n_parts : int
            There are as many blocks at least, if there are as many scenes.
        """
        fit = max(1, _BLOCK_SIZE * self.n_scenes // int(np.prod(self.predictions.shape)))
        size = min(fit, -(-self.n_scenes // n_parts))
        for start in range(0, self.n_scenes, size):
            yield start, min(start + size, self.n_scenes)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return paths (B, K, A, T, D) and truths (B, L, A, T, D) of some scenes."""
        paths, truths = self.predictions.read(start, stop), self.truth.read(start, stop)
        same_agents(self.predictions, self.truth, start, stop)
        if not self._has_several_truths:
            truths = truths[:, None]
        if not self.has_agents:
            paths, truths = paths[:, :, None], truths[:, :, None]
        return paths, truths


def open_forecasts(predictions: Any, truth: Any, agents: bool, check: bool) -> Forecasts:
    """Return forecasts whose shapes match those of the truth.

    Parameters
    ----------
    predictions, truth : array-like, frame or path-like
    agents : bool
        Whether there is an axis of agents.
    check : bool
        Whether to refuse axes that fit, but look swapped.
    """
    forecasts, futures = open_source(predictions, "predictions"), open_source(truth, "truth")
    if isinstance(futures, LongTable):
        futures = futures.beside(forecasts)
    roles = _with_agents(_PREDICTIONS, agents)
    _check_axes(forecasts.shape, futures.shape, agents, roles)
    if not _match(forecasts.shape, futures.shape):
        raise ValueError(_mismatch(forecasts.shape, futures.shape, agents, roles))
    if check and forecasts.shape[-1] > _MANY_COORDINATES and forecasts.shape[-2] <= _FEW_STEPS:
        raise ValueError(
            f"predictions of shape {forecasts.shape} and truth of shape {futures.shape} look like "
            "(..., coordinates, steps): swap their last two axes, or pass check_units=False if "
            f"there are {forecasts.shape[-1]} coordinates"
        )
    return Forecasts(forecasts, futures, agents)


def _with_agents(roles: Sequence[str], agents: bool) -> tuple[str, ...]:
    return (*roles[:-2], *(("agents",) if agents else ()), *roles[-2:])


def _expected(agents: bool) -> str:
    predictions, truth = (
        ", ".join(_with_agents(roles, agents)) for roles in (_PREDICTIONS, _TRUTH)
    )
    several = ", ".join(("scenes", "futures", *_with_agents(_TRUTH[1:], agents)))
    return f"expected predictions ({predictions}) and truth ({truth}) or ({several})"


def _check_axes(
    shape: tuple[int, ...], other: tuple[int, ...], agents: bool, roles: Sequence[str]
) -> None:
    """Refuse arrays with too few or too many axes."""
    n = len(roles)
    if len(shape) == n and len(other) in (n - 1, n):
        return
    hint = ""
    if len(shape) == 5 and not agents:
        hint = "; pass agents=True if they have an axis of agents"
    elif len(shape) == 4 and agents:
        hint = "; leave agents=True out if there is no axis of agents"
    elif len(shape) == n - 1 and len(other) == n - 2:
        hint = "; for a single scene, pass predictions[None] and truth[None]"
    elif shape[1:2] != () and len(shape) == n - 1:
        hint = "; for one sample in every scene, pass predictions[:, None]"
    raise ValueError(
        f"predictions have shape {shape} and truth has shape {other}: {_expected(agents)}{hint}"
    )


def _match(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether predictions and truth have the same scenes, agents, steps and coordinates."""
    several = len(other) == len(shape)
    return shape[0] == other[0] and shape[2:] == other[2 if several else 1 :]


def _mismatch(
    shape: tuple[int, ...], other: tuple[int, ...], agents: bool, roles: Sequence[str]
) -> str:
    """Say how shapes differ, and which order of axes would make them match."""
    futures = ("futures",) if len(other) == len(shape) else ()
    guesses = (
        _guess("predictions look", shape, roles, lambda moved: _match(moved, other)),
        _guess("truth looks", other, ("scenes", *futures, *roles[2:]), lambda m: _match(shape, m)),
    )
    advice = ", or ".join(each for each in guesses if each)
    return (
        f"predictions of shape {shape} do not match truth of shape {other}: "
        f"{advice or _expected(agents)}"
    )


def _guess(
    who: str,
    shape: tuple[int, ...],
    roles: Sequence[str],
    matches: Callable[[tuple[int, ...]], bool],
) -> str:
    """Say which axes an array seems to have, if another order of them would match."""
    order = _order(shape, matches)
    if order is None:
        return ""
    seen = ", ".join(roles[order.index(i)] for i in range(len(shape)))
    return f"{who} like ({seen}): pass {who.split()[0]}.transpose{order}"


def _order(
    shape: tuple[int, ...], matches: Callable[[tuple[int, ...]], bool]
) -> tuple[int, ...] | None:
    """Return the order of axes that matches with the fewest of them moved."""
    n = len(shape)
    orders = sorted(permutations(range(n)), key=lambda order: sum(map(int.__ne__, order, range(n))))
    return next((o for o in orders if matches(tuple(shape[i] for i in o))), None)
