"""Files of tracks, and windows of tracks.

Every format has a function that returns :class:`Tracks`; :func:`windows` serves all of them.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..decoding import decoding
from ..validation import check_count, check_flag, check_positive, freeze

#: Number of an absent agent.
_ABSENT = -1


@dataclass(frozen=True, eq=False, repr=False)
class Tracks:
    """Observed positions of agents, which are sorted by agent and frame.

    Parameters
    ----------
    frames, agents : array-like of shape (n_points,)
        The frame of every point, and the number of its agent.
    positions : array-like of shape (n_points, 2)
    """

    frames: np.ndarray
    agents: np.ndarray
    positions: np.ndarray

    def __post_init__(self) -> None:
        order = np.lexsort((self.frames, self.agents))
        for name in ("frames", "agents", "positions"):
            object.__setattr__(self, name, np.asarray(getattr(self, name))[order])
        freeze(self, "frames", "agents", "positions")
        repeated = np.flatnonzero((np.diff(self.frames) == 0) & (np.diff(self.agents) == 0))
        if len(repeated):
            agent, frame = self.agents[repeated[0]], self.frames[repeated[0]]
            raise ValueError(f"agent {agent:g} has more than one position at frame {frame:g}")

    def __repr__(self) -> str:
        n_agents = len(np.unique(self.agents))
        return f"Tracks(n_agents={n_agents}, n_points={len(self.frames)})"

    @property
    def step(self) -> float:
        """The most common number of frames between successive points of an agent."""
        same = self.agents[1:] == self.agents[:-1]
        steps, counts = np.unique(np.diff(self.frames)[same], return_counts=True)
        if len(steps) == 0:
            raise ValueError("no agent has two points, which leaves the step undefined; pass step")
        return float(steps[counts.argmax()])


def read_tracks(path: str | os.PathLike[str]) -> Tracks:
    r"""Read a text file of the ETH and UCY data sets.

    Parameters
    ----------
    path : path-like
        Every line has a frame, the number of an agent, x and y, separated by spaces, tabs or
        commas. Empty lines and text after a ``#`` are skipped.

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
    path, rows = Path(path), []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            words = line.split("#")[0].replace(",", " ").split()
            if words:
                rows.append(_parse(words, f"{path.name}, line {number}"))
    if not rows:
        raise ValueError(f"{path.name} has no lines with frame, agent, x and y")
    table = np.array(rows)
    with decoding(path.name):
        return Tracks(table[:, 0], table[:, 1].astype(np.int64), table[:, 2:])


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
        Numbers of the agents, -1 for absent ones.
    """

    observed: np.ndarray
    future: np.ndarray
    frames: np.ndarray
    agents: np.ndarray

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
    """Cut tracks into windows in which an agent is observed at every step.

    Parameters
    ----------
    tracks : Tracks
    n_observed, n_predicted : int, default=8, 12
        Number of steps before and after the present.
    stride : int, default=1
        Number of steps between the starts of windows.
    step : float, optional
        Number of frames per step, by default the most common one. A missing frame ends a window.
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
    step = tracks.step if step is None else check_positive(step, "step")
    length = n_observed + n_predicted
    rows = _rows_of_windows(tracks, length, stride, step)
    if len(rows) == 0:
        raise ValueError(f"no agent was observed at {length} successive steps of {step:g} frames")
    rows = rows[np.lexsort((tracks.agents[rows[:, 0]], tracks.frames[rows[:, 0]]))]
    paths, frames = tracks.positions[rows], tracks.frames[rows[:, 0]]
    numbers = tracks.agents[rows[:, 0]]
    if agents:
        paths, frames, numbers = _by_frame(paths, frames, numbers)
    return Windows(paths[..., :n_observed, :], paths[..., n_observed:, :], frames, numbers)


def _rows_of_windows(tracks: Tracks, length: int, stride: int, step: float) -> np.ndarray:
    """Return the rows (n_windows, length) of every window."""
    out = [np.empty((0, length), dtype=np.int64)]
    begin = tracks.frames.min()
    for agent in np.unique(tracks.agents):
        start, stop = np.searchsorted(tracks.agents, [agent, agent + 1])
        frames = tracks.frames[start:stop]
        firsts = frames[np.floor((frames - begin) / step + 1e-9) % stride == 0]
        expected = firsts[:, None] + step * np.arange(length)
        found = np.minimum(np.searchsorted(frames, expected - 1e-6 * step), len(frames) - 1)
        complete = (np.abs(frames[found] - expected) <= 1e-6 * step).all(axis=1)
        out.append(start + found[complete])
    return np.concatenate(out)


def _by_frame(
    paths: np.ndarray, frames: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return paths, frames and numbers with an axis of agents, absent ones last."""
    firsts, scene, counts = np.unique(frames, return_inverse=True, return_counts=True)
    place = np.arange(len(frames)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(firsts), int(counts.max()))
    out = np.full((*shape, *paths.shape[1:]), np.nan)
    present = np.full(shape, _ABSENT, dtype=np.int64)
    out[scene, place], present[scene, place] = paths, numbers
    return out, firsts, present
