"""Files of tracks, and windows of tracks.

Every format is read as :class:`Tracks`; :func:`windows` serves all of them.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..decoding import decoding
from ..validation import check_count, check_flag, check_positive, freeze
from .files import PARQUET_SUFFIXES, TABLE_SUFFIXES, first_line, read_table, read_trajnet

#: Number and name of an absent agent.
_ABSENT, _UNNAMED = -1, ""
#: Length of a block of time, in windows. Windows that overlap at the ends of blocks make variances
#: too small by 1 / (3 * 5) at most; longer blocks are too few.
_BLOCK = 5
#: Suffixes of the files of a folder that are read.
_SUFFIXES = (".txt", ".ndjson", *TABLE_SUFFIXES)
#: Columns of a table, and their names in Argoverse 2.
_COLUMNS = {"frame": "timestep", "agent": "track_id", "x": "position_x", "y": "position_y"}
_RECORDING = ("recording", "scenario_id")

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False, repr=False)
class Tracks:
    """Observed positions of agents, sorted by recording, agent and frame.

    Parameters
    ----------
    frames, agents : array-like of shape (n_points,)
        The frame of every point, and the number or name of its agent.
    positions : array-like of shape (n_points, 2)
    recordings : str or array-like of shape (n_points,), default=""
        The name of the recording of every point. Agents and frames of different recordings have
        nothing to do with one another.
    """

    frames: np.ndarray
    agents: np.ndarray
    positions: np.ndarray
    recordings: Any = ""

    def __post_init__(self) -> None:
        columns = {name: np.asarray(values) for name, values in vars(self).items()}
        frames, names = columns["frames"], columns["recordings"].astype(str)
        columns["recordings"] = names if names.ndim else np.full(len(frames), names)
        for name, values in columns.items():
            if len(values) != len(frames):
                raise ValueError(f"{name} must have {len(frames)} points, got {len(values)}")
        order = np.lexsort((frames, columns["agents"], columns["recordings"]))
        for name, values in columns.items():
            object.__setattr__(self, name, values[order])
        freeze(self, *columns)
        repeated = np.flatnonzero(self._is_same_agent() & (np.diff(self.frames) == 0))
        if len(repeated):
            agent, frame = self.agents[repeated[0]], self.frames[repeated[0]]
            raise ValueError(f"agent {agent} has more than one position at frame {frame:g}")

    def __repr__(self) -> str:
        n_recordings = len(np.unique(self.recordings))
        several = f"n_recordings={n_recordings}, " if n_recordings > 1 else ""
        n_agents = len(self.frames) - np.count_nonzero(self._is_same_agent())
        return f"Tracks({several}n_agents={n_agents}, n_points={len(self.frames)})"

    @property
    def step(self) -> float:
        """The most common number of frames between successive points of an agent."""
        steps, counts = np.unique(np.diff(self.frames)[self._is_same_agent()], return_counts=True)
        if len(steps) == 0:
            raise ValueError("no agent has two points, which leaves the step undefined; pass step")
        return float(steps[counts.argmax()])

    def _is_same_agent(self) -> np.ndarray:
        """Whether (n_points - 1,) a point and the next one are of the same agent."""
        agents, names = self.agents, self.recordings
        return np.asarray((agents[1:] == agents[:-1]) & (names[1:] == names[:-1]))


def read_tracks(path: PathLike | Iterable[PathLike]) -> Tracks:
    r"""Read tracks from files, in any of these formats.

    =======================  ======================================================================
    format                   content
    =======================  ======================================================================
    text of ETH and UCY      frame, number of the agent, x and y in every line, separated by
                             spaces, tabs or commas; text after a ``#`` is skipped
    ``.csv``, ``.parquet``   the columns frame, agent, x, y and optionally recording
    Argoverse 2              timestep, track_id, position_x, position_y and scenario_id in parquet
    TrajNet++ ``.ndjson``    ``{"track": {"f": 10, "p": 1, "x": 0.5, "y": 2.0}}`` in every line;
                             lines with a scene are skipped
    =======================  ======================================================================

    Parameters
    ----------
    path : path-like or iterable of path-like
        A file, a folder with its subfolders, or several of them. Every file is a recording with the
        name of the file, unless it has a column of recordings.

    Returns
    -------
    Tracks

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sevenhills.forecast import read_tracks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "walk.txt"
    ...     _ = file.write_text("0.0 1.0 3.1 4.0\n10.0 1.0 3.5 4.1\n")
    ...     read_tracks(file)
    Tracks(n_agents=1, n_points=2)
    """
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    files = [file for each in given for file in _files(Path(each))]
    stems = [file.stem for file in files]
    is_unique = len(set(stems)) == len(stems)
    names = stems if is_unique else [str(file.with_suffix("")) for file in files]
    parts = [_read_file(file, name) for file, name in zip(files, names, strict=True)]
    if not parts:
        raise ValueError("path must name at least one file")
    if len(parts) == 1:
        return parts[0]
    columns = ("frames", "agents", "positions", "recordings")
    return Tracks(*(np.concatenate([getattr(part, key) for part in parts]) for key in columns))


def _files(path: Path) -> list[Path]:
    """Return a file, or all files of a folder that may have tracks."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in _SUFFIXES)
    if not found:
        raise ValueError(f"{path} has no {', '.join(_SUFFIXES)} files")
    return found


def _read_file(path: Path, name: str) -> Tracks:
    frames, agents, x, y, *recordings = _reader_of(path)(path)
    points = np.column_stack([frames, x, y]).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(bad):
        values = " ".join(map(str, points[bad[0]]))
        raise ValueError(f"{path.name}, row {bad[0] + 1}: all values must be finite, got {values}")
    names = recordings[0] if recordings else name
    with decoding(path.name):
        return Tracks(points[:, 0], _labels(agents), points[:, 1:], names)


def _reader_of(path: Path) -> Callable[[Path], list[np.ndarray]]:
    """Return the function that reads a file; formats of text are recognized by the first line."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return _columns_of_table
    line = first_line(path)
    if line.startswith("{"):
        return _columns_of_trajnet
    has_names = line and not _is_number(re.split(r"[\s,;]", line)[0])
    return _columns_of_table if has_names else _columns_of_text


def _labels(agents: np.ndarray) -> np.ndarray:
    """Return names of agents as strings, or numbers as integers."""
    if agents.dtype.kind not in "fiu":
        return agents.astype(str)
    if not (agents == np.round(agents)).all():
        raise ValueError("agents must be whole numbers or names")
    return agents.astype(np.int64)


def _columns_of_table(path: Path) -> list[np.ndarray]:
    """Return frames, agents, x, y and maybe recordings of a table."""
    table = read_table(path, ["frame", "timestep", "x", "y", "position_x", "position_y"])
    found = list(table.column_names)
    names = [ours if ours in found else theirs for ours, theirs in _COLUMNS.items()]
    if not set(names) <= set(found):
        raise ValueError(
            f"{path.name} must have the columns {', '.join(_COLUMNS)}, or those of Argoverse 2, "
            f"{', '.join(_COLUMNS.values())}; found {', '.join(found)}"
        )
    names += [name for name in _RECORDING if name in found][:1]
    return [np.asarray(table[name]) for name in names]


def _columns_of_trajnet(path: Path) -> list[np.ndarray]:
    tracks = []
    for place, kind, values in read_trajnet(path):
        if values.get("prediction_number") is not None:
            raise ValueError(f"{place}: this is a prediction; evaluate reads predictions")
        if kind == "track":
            tracks.append([values[key] for key in "fpxy"])
    if not tracks:
        raise ValueError(f"{path.name} has no lines with a track")
    return list(np.array(tracks).T)


def _columns_of_text(path: Path) -> list[np.ndarray]:
    rows = []
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            words = line.split("#")[0].replace(",", " ").split()
            if words:
                rows.append(_parse(words, f"{path.name}, line {number}"))
    if not rows:
        raise ValueError(f"{path.name} has no lines with frame, agent, x and y")
    return list(np.array(rows).T)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _parse(words: list[str], where: str) -> list[float]:
    if len(words) != 4:
        raise ValueError(f"{where}: expected frame, agent, x and y, got {len(words)} columns")
    try:
        values = [float(word) for word in words]
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{where}: all values must be finite, got {' '.join(words)}")
    if values[1] != round(values[1]):
        raise ValueError(f"{where}: the agent must be a whole number, got {words[1]}")
    return values


@dataclass(frozen=True, eq=False, repr=False)
class Windows:
    """Observed and future parts of tracks.

    Attributes
    ----------
    observed : ndarray of shape (n_scenes, n_observed, 2) or (n_scenes, n_agents, n_observed, 2)
    future : ndarray of shape (n_scenes, n_predicted, 2) or (n_scenes, n_agents, n_predicted, 2)
        NaN for absent agents.
    frames : ndarray of shape (n_scenes,)
        First frame of every window.
    agents : ndarray of shape (n_scenes,) or (n_scenes, n_agents)
        Numbers or names of the agents, -1 or "" for absent ones.
    recordings : ndarray of shape (n_scenes,)
        Names of the recordings.
    groups : ndarray of shape (n_scenes,)
        Labels of windows that overlap, for ``evaluate(..., groups=...)``: the recording and the
        agent. If the agents of a window form one scene, the recording and the number of a block of
        time, which is five windows long.
    """

    observed: np.ndarray
    future: np.ndarray
    frames: np.ndarray
    agents: np.ndarray
    recordings: np.ndarray
    groups: np.ndarray

    def __len__(self) -> int:
        return len(self.frames)

    def __repr__(self) -> str:
        n_observed, n_predicted = self.observed.shape[-2], self.future.shape[-2]
        return f"Windows(n_scenes={len(self)}, n_observed={n_observed}, n_predicted={n_predicted})"


def windows(
    tracks: Tracks,
    n_observed: int = 8,
    n_predicted: int = 12,
    *,
    stride: int = 1,
    step: float | None = None,
    agents: bool = False,
) -> Windows:
    """Cut tracks into windows in which an agent is observed at every step of one recording.

    Parameters
    ----------
    tracks : Tracks
    n_observed, n_predicted : int, default=8, 12
        Number of steps before and after the present.
    stride : int, default=1
        Number of steps between the starts of windows.
    step : float, optional
        Number of frames per step, by default the most common one of every recording. A missing
        frame ends a window.
    agents : bool, default=False
        Whether the agents of a window form one scene, with an axis of agents; otherwise every
        agent of every window is a scene.

    Returns
    -------
    Windows

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.forecast import Tracks, windows
    >>> walk = np.column_stack([np.arange(25.0), np.zeros(25)])
    >>> tracks = Tracks(10.0 * np.arange(25), np.zeros(25, dtype=int), walk)
    >>> windows(tracks)
    Windows(n_scenes=6, n_observed=8, n_predicted=12)
    """
    n_observed = check_count(n_observed, "n_observed", least=1)
    n_predicted = check_count(n_predicted, "n_predicted", least=1)
    stride = check_count(stride, "stride", least=1)
    check_flag(agents, "agents")
    usual = tracks.step if step is None else check_positive(step, "step")
    length = n_observed + n_predicted
    rows = _rows_of_windows(tracks, length, stride, step)
    if len(rows) == 0:
        raise ValueError(f"no agent was observed at {length} successive steps of {usual:g} frames")
    columns = (tracks.agents, tracks.frames, tracks.recordings)
    rows = rows[np.lexsort([each[rows[:, 0]] for each in columns])]
    numbers, frames, recordings = (each[rows[:, 0]] for each in columns)
    paths = tracks.positions[rows]
    groups = _group_labels(recordings, "agent", numbers)
    if agents:
        paths, numbers, firsts = _side_by_side(paths, numbers, frames, recordings)
        frames, recordings = frames[firsts], recordings[firsts]
        steps = (tracks.frames[rows[firsts, -1]] - frames) / (length - 1)
        blocks = _blocks(frames, recordings, _BLOCK * length * steps)
        groups = _group_labels(recordings, "block", blocks)
    observed, future = paths[..., :n_observed, :], paths[..., n_observed:, :]
    return Windows(observed, future, frames, numbers, recordings, groups)


def _rows_of_windows(tracks: Tracks, length: int, stride: int, step: float | None) -> np.ndarray:
    """Return the rows (n_windows, length) of every window."""
    out = [np.empty((0, length), dtype=np.int64)]
    names = tracks.recordings
    for rows in _runs(names[1:] == names[:-1]):
        recording = Tracks(tracks.frames[rows], tracks.agents[rows], tracks.positions[rows])
        found = _rows_of_recording(recording, length, stride, step)
        out += [rows.start + each for each in found]
    return np.concatenate(out)


def _rows_of_recording(
    tracks: Tracks, length: int, stride: int, step: float | None
) -> Iterator[np.ndarray]:
    """Yield the rows (n_windows, length) of the windows of every agent."""
    is_same = tracks._is_same_agent()
    if not is_same.any():
        return
    step = tracks.step if step is None else step
    begin = tracks.frames.min()
    for rows in _runs(is_same):
        frames = tracks.frames[rows]
        firsts = frames[np.floor((frames - begin) / step + 1e-9) % stride == 0]
        expected = firsts[:, None] + step * np.arange(length)
        found = np.minimum(np.searchsorted(frames, expected - 1e-6 * step), len(frames) - 1)
        complete = (np.abs(frames[found] - expected) <= 1e-6 * step).all(axis=1)
        yield rows.start + found[complete]


def _runs(is_same: np.ndarray) -> list[slice]:
    """Return the runs of n points, given whether (n - 1,) a point continues with the next one."""
    ends = np.flatnonzero(~is_same) + 1
    return [slice(*each) for each in pairwise([0, *ends.tolist(), len(is_same) + 1])]


def _side_by_side(
    paths: np.ndarray, numbers: np.ndarray, frames: np.ndarray, recordings: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return paths and numbers with an axis of agents, absent ones last, and the first windows."""
    is_same = (frames[1:] == frames[:-1]) & (recordings[1:] == recordings[:-1])
    scene = np.cumsum([0, *~is_same])
    firsts = np.flatnonzero(np.diff(scene, prepend=-1))
    place = np.arange(len(scene)) - firsts[scene]
    shape = (len(firsts), int(place.max()) + 1)
    out = np.full((*shape, *paths.shape[1:]), np.nan)
    present = np.full(shape, _ABSENT if numbers.dtype.kind in "iu" else _UNNAMED, numbers.dtype)
    out[scene, place], present[scene, place] = paths, numbers
    return out, present, firsts


def _blocks(frames: np.ndarray, recordings: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """Return the blocks of time of windows, which are sorted by recording and frame."""
    _, firsts, recording = np.unique(recordings, return_index=True, return_inverse=True)
    begins = frames[firsts][recording]
    return np.floor((frames - begins) / durations + 1e-9).astype(np.int64)


def _group_labels(recordings: np.ndarray, kind: str, numbers: np.ndarray) -> np.ndarray:
    """Return labels of groups, "zara1 agent 3" for instance."""
    pairs = zip(recordings, numbers, strict=True)
    return np.array([f"{recording} {kind} {number}".lstrip() for recording, number in pairs])
