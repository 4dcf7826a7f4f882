"""Forecasts as tables with a row for every point: scene, sample, step, x, y, and agent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..decoding import decoding
from ..extras import import_extra

#: What tells the paths of a scene apart, by argument; a truth without it has one future.
_PATHS = {"predictions": "sample", "truth": "future"}
_COORDINATES = ("x", "y", "z")
#: How many are named in an error.
_NAMED = 5


@dataclass(frozen=True, eq=False)
class Layout:
    """Which columns a table has.

    Attributes
    ----------
    name : {"predictions", "truth"}
    path : str or None
        The column that tells paths apart; None if there is one path for every agent.
    has_agents : bool
    coordinates : tuple of str
    """

    name: str
    path: str | None
    has_agents: bool
    coordinates: tuple[str, ...]

    @classmethod
    def of(cls, columns: Sequence[str], name: str) -> "Layout":
        """Return the layout of a table with these columns."""
        path = _PATHS[name]
        coordinates = tuple(each for each in _COORDINATES if each in columns)
        needed = ["scene", "step", *(["sample"] if name == "predictions" else [])]
        lacking = [each for each in needed if each not in columns]
        if lacking or not coordinates:
            raise ValueError(
                f"{name} must have the columns {', '.join(needed)}, x and y; lacking "
                f"{', '.join(lacking or ['x'])}, found {', '.join(map(str, columns))}"
            )
        return cls(name, path if path in columns else None, "agent" in columns, coordinates)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that say which point a row is."""
        path = () if self.path is None else (self.path,)
        return ("scene", *path, *(("agent",) if self.has_agents else ()), "step")


class Rows(dict[str, np.ndarray]):
    """Columns of rows that stand scene by scene, and where each scene begins."""

    def __init__(self, columns: Mapping[str, np.ndarray], starts: np.ndarray) -> None:
        super().__init__(columns)
        self.starts = starts

    def ranks(self, column: str) -> tuple[np.ndarray, int]:
        """Return the place of every value among those of its scene, and the most there are."""
        scene = self._scene_of_row()
        values, codes = np.unique(self[column], return_inverse=True)
        pairs, inverse = np.unique(scene * len(values) + codes, return_inverse=True)
        first = np.searchsorted(pairs // len(values), np.arange(len(self.starts) - 1))
        ranks = inverse - first[scene]
        return ranks, int(ranks.max(initial=-1)) + 1

    def agents(self) -> list[list[Any]]:
        """Return the agents of every scene in order."""
        bounds = zip(self.starts[:-1], self.starts[1:], strict=True)
        return [np.unique(self["agent"][start:stop]).tolist() for start, stop in bounds]

    def _scene_of_row(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def dense(self, layout: Layout, shape: Sequence[int], steps: np.ndarray) -> np.ndarray:
        """Return the points in an array of this shape, NaN where there is no row."""
        out = np.full((len(self.starts) - 1, *shape), np.nan)
        places = [self._scene_of_row()]
        if layout.path is not None:
            places.append(self.ranks(layout.path)[0])
        if layout.has_agents:
            places.append(self.ranks("agent")[0])
        places.append(np.searchsorted(steps, self["step"]))
        self._refuse_repeated(places, out.shape[:-1], layout)
        at = tuple(places)
        for d, column in enumerate(layout.coordinates):
            out[..., d][at] = self[column]
        return out

    def _refuse_repeated(
        self, places: Sequence[np.ndarray], shape: Sequence[int], layout: Layout
    ) -> None:
        flat = np.ravel_multi_index(tuple(places), tuple(shape))
        order = np.argsort(flat, kind="stable")
        again = np.flatnonzero(np.diff(flat[order]) == 0)
        if len(again):
            row = order[again[0] + 1]
            point = ", ".join(f"{key} {self[key][row]}" for key in layout.keys)
            raise ValueError(f"{layout.name} has more than one row for {point}")


@dataclass(frozen=True, eq=False)
class LongTable:
    """A table in memory, its rows scene by scene."""

    layout: Layout
    rows: Rows
    names: np.ndarray
    steps: np.ndarray

    @classmethod
    def of_frame(cls, frame: Any, name: str) -> "LongTable":
        """Return the table of a frame of pandas or polars, whose rows may be in any order."""
        layout = Layout.of(list(frame.columns), name)
        columns = {key: np.asarray(frame[key]) for key in (*layout.keys, *layout.coordinates)}
        return cls.of_columns(columns, layout)

    @classmethod
    def of_columns(cls, columns: Mapping[str, np.ndarray], layout: Layout) -> "LongTable":
        """Return the table of some columns; scenes stand in the order in which they appear."""
        scenes = columns["scene"]
        if len(scenes) == 0:
            raise ValueError(f"{layout.name} has no rows")
        values, first, codes = np.unique(scenes, return_index=True, return_inverse=True)
        appearance = np.argsort(first, kind="stable")
        place = np.empty(len(values), dtype=np.int64)
        place[appearance] = np.arange(len(values))
        order = np.argsort(place[codes], kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(place[codes])))
        rows = Rows({key: values[order] for key, values in _numbers(columns, layout)}, starts)
        return cls(layout, rows, values[appearance], np.unique(columns["step"]))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of all scenes together."""
        paths = () if self.layout.path is None else (self.rows.ranks(self.layout.path)[1],)
        agents = (self.rows.ranks("agent")[1],) if self.layout.has_agents else ()
        return (len(self.names), *paths, *agents, len(self.steps), len(self.layout.coordinates))

    def beside(self, predictions: Any) -> "LongTable":
        """Return a truth with the scenes and the steps of the predictions, if they have names."""
        if not isinstance(predictions, LongTable | ParquetTable):
            return self
        unknown = np.setdiff1d(self.steps, predictions.steps)
        if len(unknown):
            raise ValueError(
                f"truth has steps that predictions do not have: {unknown[:_NAMED].tolist()}"
            )
        places = {name: i for i, name in enumerate(self.names.tolist())}
        wanted = predictions.names.tolist()
        lacking = [name for name in wanted if name not in places]
        extra = sorted(set(places) - set(wanted), key=str)
        if lacking or extra:
            which, found = ("truth", lacking) if lacking else ("predictions", extra)
            raise ValueError(
                f"{which} lack{'s' if which == 'truth' else ''} {len(found)} of the scenes: "
                f"{found[:_NAMED]}"
            )
        return replace(self._in_order([places[name] for name in wanted]), steps=predictions.steps)

    def _in_order(self, places: Sequence[int]) -> "LongTable":
        ranges = [np.arange(*self.rows.starts[i : i + 2]) for i in places]
        rows = np.concatenate(ranges)
        starts = np.append(0, np.cumsum([len(each) for each in ranges]))
        columns = {key: values[rows] for key, values in self.rows.items()}
        return replace(self, rows=Rows(columns, starts), names=self.names[list(places)])

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows of some scenes."""
        starts = self.rows.starts[start : stop + 1]
        columns = {key: values[starts[0] : starts[-1]] for key, values in self.rows.items()}
        return Rows(columns, starts - starts[0])

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return some of the scenes as floats."""
        return self.part(start, stop).dense(self.layout, self.shape[1:], self.steps)


class ParquetTable:
    """A table in a file, in which the rows of a scene stand together.

    It is looked through once for its scenes, samples and steps, and then read by row groups.

    Parameters
    ----------
    path : Path
    name : {"predictions", "truth"}
    """

    def __init__(self, path: Path, name: str) -> None:
        parquet = import_extra("pyarrow.parquet", "frames", "reading parquet files needs pyarrow")
        self._path = path
        with decoding(str(path)):
            self._file = parquet.ParquetFile(path)
        self.layout = Layout.of(self._file.schema_arrow.names, name)
        sizes = [
            self._file.metadata.row_group(i).num_rows for i in range(self._file.num_row_groups)
        ]
        self._groups = np.append(0, np.cumsum(sizes)).astype(np.int64)
        self._kept: dict[int, dict[str, np.ndarray]] = {}
        self._look_through()

    def _look_through(self) -> None:
        """Find where scenes begin, the steps, and the most samples and agents of a scene."""
        names, starts, steps = [], [], []
        most: dict[str, int] = {}
        kept: dict[str, np.ndarray] = {}
        for group in range(self._file.num_row_groups):
            columns = self._columns(group, self.layout.keys)
            steps.append(np.unique(columns["step"]))
            columns = {k: np.concatenate([kept[k], v]) if kept else v for k, v in columns.items()}
            first = int(self._groups[group + 1]) - len(columns["scene"])
            begins = _begins(columns["scene"])
            # The last scene may go on in the next group.
            last = group == self._file.num_row_groups - 1
            ends = np.append(begins, len(columns["scene"])) if last else begins
            kept = {} if last else {k: v[begins[-1] :] for k, v in columns.items()}
            done = Rows({k: v[: ends[-1]] for k, v in columns.items()}, ends)
            names.append(columns["scene"][ends[:-1]])
            starts.append(first + ends[:-1])
            for key in self.layout.keys[1:-1]:
                most[key] = max(most.get(key, 0), done.ranks(key)[1])
        if not names or sum(map(len, names)) == 0:
            raise ValueError(f"{self.layout.name} has no rows")
        self.names = np.concatenate(names)
        self._starts = np.append(np.concatenate(starts), self._groups[-1])
        self.steps = np.unique(np.concatenate(steps))
        self.shape = (
            len(self.names),
            *(most[key] for key in self.layout.keys[1:-1]),
            len(self.steps),
            len(self.layout.coordinates),
        )
        self._refuse_scattered()

    def _refuse_scattered(self) -> None:
        values, counts = np.unique(self.names, return_counts=True)
        if (counts > 1).any():
            raise ValueError(
                f"{self.layout.name}: the rows of scene {values[counts > 1][0]} do not stand "
                "together; sort the file by scene"
            )

    def _columns(self, group: int, keys: Sequence[str]) -> dict[str, np.ndarray]:
        with decoding(str(self._path)):
            table = self._file.read_row_group(group, columns=list(keys))
            columns = {key: table[key].to_numpy() for key in keys}
        return dict(_numbers(columns, self.layout))

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows of some scenes."""
        first, last = int(self._starts[start]), int(self._starts[stop])
        groups = range(
            int(np.searchsorted(self._groups, first, side="right")) - 1,
            int(np.searchsorted(self._groups, last, side="left")),
        )
        wanted = (*self.layout.keys, *self.layout.coordinates)
        self._kept = {i: self._kept.get(i) or self._columns(i, wanted) for i in groups}
        begin = int(self._groups[groups[0]])
        columns = {
            key: np.concatenate([self._kept[i][key] for i in groups])[first - begin : last - begin]
            for key in wanted
        }
        return Rows(columns, self._starts[start : stop + 1] - first)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return some of the scenes as floats."""
        return self.part(start, stop).dense(self.layout, self.shape[1:], self.steps)

    def in_memory(self) -> LongTable:
        """Return the whole table."""
        rows = self.part(0, len(self.names))
        self._kept = {}
        return LongTable(self.layout, rows, self.names, self.steps)


def same_agents(predictions: Any, truth: Any, start: int, stop: int) -> None:
    """Refuse tables in which a scene has other agents in the truth than in the predictions."""
    tables = [each for each in (predictions, truth) if isinstance(each, LongTable | ParquetTable)]
    if len(tables) < 2 or not all(each.layout.has_agents for each in tables):
        return
    found, true = (each.part(start, stop).agents() for each in tables)
    for i, (first, second) in enumerate(zip(found, true, strict=True)):
        if first != second:
            raise ValueError(
                f"scene {tables[0].names[start + i]} has the agents {first[:_NAMED]} in "
                f"predictions, but {second[:_NAMED]} in truth"
            )


def _begins(scenes: np.ndarray) -> np.ndarray:
    """Return the first row of every scene."""
    return np.flatnonzero(np.append(True, scenes[1:] != scenes[:-1]))


def _numbers(columns: Mapping[str, np.ndarray], layout: Layout) -> list[tuple[str, np.ndarray]]:
    """Return columns, coordinates as floats."""
    out = []
    for key, values in columns.items():
        if key in layout.coordinates:
            try:
                values = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise TypeError(f"{layout.name}: column {key} must hold numbers") from error
        elif values.dtype.kind == "f" and np.isnan(values).any():
            raise ValueError(f"{layout.name}: column {key} must not hold NaN")
        out.append((key, values))
    return out
