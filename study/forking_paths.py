"""Loader of the public Forking Paths annotation files: one observed walk, several futures."""

import json
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sevenhills.datasets import Distribution, WalkModel
from sevenhills.validation import check_count, check_positive

#: Scenes with the lower frame rate, this rate, and that of all other scenes, in frames per second.
_SLOW_SCENES, _SLOW_RATE, _RATE = ("eth", "hotel", "zara01"), 25, 30
_NAME = re.compile(
    r"(?P<scene>[^_]+)_(?P<moment>\d+)_(?P<agent>\d+)_(?P<destination>\d+)_(?P<annotator>\d+)"
    r"_(?P<camera>cam\d+)\.json"
)
_FORM = "[scene]_[moment]_[agent]_[destination]_[annotator]_[camera].json"
#: Observations of the same moment may differ by this many pixels.
_TOLERANCE = 1.0
#: The study's lower limit on standard deviations of walks, in meters.
_MIN_STD = 0.1


class _File(NamedTuple):
    """A file with the parts of its name; files sort by scene, then by future."""

    scene: str
    moment: int
    agent: int
    camera: str
    destination: int
    annotator: int
    path: Path


@dataclass(frozen=True, eq=False)
class ForkingScene:
    """A walk up to a fork, and several futures from there on.

    Parameters
    ----------
    scene : str
        The name of the scene.
    moment, agent : int
        The numbers of the moment and of the walking agent.
    camera : str
        The name of the camera.
    observed : ndarray of shape (n_observed, 2)
        The walk up to the fork.
    futures : tuple of ndarray of shape (n_steps, 2)
        The futures, of different lengths.
    destinations, annotators : tuple of int
        The destination and the annotator of every future.

    Examples
    --------
    >>> import numpy as np
    >>> from study.forking_paths import ForkingScene
    >>> steps = np.arange(1.0, 4.0)
    >>> scene = ForkingScene(
    ...     "eth", 0, 3, "cam4", observed=np.zeros((1, 2)),
    ...     futures=(np.column_stack([steps, steps]), np.column_stack([steps, -steps])[:2]),
    ...     destinations=(0, 1), annotators=(5, 5),
    ... )
    >>> scene.paths(n_steps=2)
    array([[ 1.,  1.,  2.,  2.],
           [ 1., -1.,  2., -2.]])
    >>> scene.distribution(n_steps=3).sample(10).shape
    (10, 6)
    """

    scene: str
    moment: int
    agent: int
    camera: str
    observed: np.ndarray
    futures: tuple[np.ndarray, ...]
    destinations: tuple[int, ...]
    annotators: tuple[int, ...]

    @property
    def name(self) -> str:
        """The common part of the names of its files."""
        return f"{self.scene}_{self.moment}_{self.agent}_{self.camera}"

    def paths(self, n_steps: int = 12) -> np.ndarray:
        """Return the first steps of all futures that are long enough.

        Parameters
        ----------
        n_steps : int, default=12

        Returns
        -------
        ndarray of shape (n_paths, 2 * n_steps)
            Every row holds x and y of step 1, of step 2, ...
        """
        n_steps = check_count(n_steps, "n_steps", least=1)
        long_enough = [future[:n_steps] for future in self.futures if len(future) >= n_steps]
        return np.array(long_enough).reshape(-1, 2 * n_steps)

    def distribution(self, n_steps: int = 12) -> Distribution:
        """Return the distribution of rotated, stretched and noisy copies of the futures.

        The noise is that of the study, in meters: load the files with a ``scale``.

        Parameters
        ----------
        n_steps : int, default=12
        """
        paths = self.paths(n_steps)
        if len(paths) == 0:
            raise ValueError(f"no future of {self.name} has {n_steps} steps")
        truth = partial(WalkModel, paths.reshape(-1, n_steps, 2), self.observed[-1])
        description = f"{len(paths)} futures from one fork"
        return Distribution(self.name, description, _MIN_STD, truth().sample, truth)


def load_forking_paths(
    folder: str | Path,
    *,
    camera: str = "cam4",
    n_observed: int = 12,
    scale: float = 1.0,
    frequency: float = 2.5,
) -> list[ForkingScene]:
    """Read the annotation files of the Forking Paths data.

    Parameters
    ----------
    folder : str or Path
        The folder ``bbox`` of the data, or the one that holds it.
    camera : str, default="cam4"
        The camera; "cam4" looks straight down.
    n_observed : int, default=12
        The number of steps before the fork.
    scale : float, default=1.0
        Meters per pixel, which the files do not contain; with 1, positions are in pixels.
    frequency : float, default=2.5
        Steps per second; the nearest frames are taken.

    Returns
    -------
    list of ForkingScene
        One for every scene, moment, agent and camera, sorted. A position is the center of a box,
        with y downwards; a future ends before its first missing box.

    Warns
    -----
    UserWarning
        If futures of the same moment differ before the fork. The files leave out the first ten
        simulated frames, so that the observation takes 4.1 instead of 4.8 seconds, and the
        twelfth step may belong to the future already. Eleven steps are safe.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from study.forking_paths import load_forking_paths
    >>> boxes = [
    ...     {"class_name": "Person", "is_x_agent": 1, "track_id": 3.0, "frame_id": frame,
    ...      "bbox": [frame, 0, 2, 4]}
    ...     for frame in range(200)
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "eth_0_3_0_1_cam4.json")
    ...     _ = file.write_text(json.dumps(boxes))
    ...     (scene,) = load_forking_paths(folder, scale=0.05)
    >>> scene.name, scene.observed.shape, scene.paths(n_steps=3)
    ('eth_0_3_cam4', (12, 2), array([[6.05, 0.1 , 6.55, 0.1 , 7.05, 0.1 ]]))
    """
    n_observed = check_count(n_observed, "n_observed", least=1)
    scale, frequency = check_positive(scale, "scale"), check_positive(frequency, "frequency")
    if frequency > _SLOW_RATE:
        raise ValueError(f"frequency must not exceed {_SLOW_RATE} frames, got {frequency}")
    files = _find_files(Path(folder), camera)
    spread, scenes = {}, []
    for _, group in groupby(files, key=lambda file: file[:4]):
        members = list(group)
        walks = [_read_walk(file, n_observed, frequency) for file in members]
        scene = _scene(members, walks, n_observed, scale)
        spread[scene.name] = np.ptp([walk[:n_observed] for walk in walks], axis=0).max()
        scenes.append(scene)
    _warn_of_spread(spread)
    return scenes


def _find_files(folder: Path, camera: str) -> list[_File]:
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    if (folder / "bbox").is_dir():
        folder = folder / "bbox"
    files = [_parse_name(path) for path in folder.glob("*.json") if not path.name.startswith(".")]
    if not files:
        raise ValueError(f"{folder} holds no annotation files ({_FORM})")
    chosen = sorted(file for file in files if file.camera == camera)
    if not chosen:
        cameras = sorted({file.camera for file in files})
        raise ValueError(f"{folder} holds files of {cameras}, none of camera {camera!r}")
    return chosen


def _parse_name(path: Path) -> _File:
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path}: the name must have the form {_FORM}")
    part = match.groupdict()
    return _File(
        part["scene"],
        int(part["moment"]),
        int(part["agent"]),
        part["camera"],
        int(part["destination"]),
        int(part["annotator"]),
        path,
    )


def _read_walk(file: _File, n_observed: int, frequency: float) -> np.ndarray:
    """Return the positions of all steps before the first missing one, in pixels."""
    positions = _controlled_positions(file.path)
    rate = _SLOW_RATE if file.scene in _SLOW_SCENES else _RATE
    walk = []
    for step in count():
        frame = round(step * rate / frequency)
        if frame not in positions:
            break
        walk.append(positions[frame])
    if len(walk) < n_observed:
        raise ValueError(
            f"{file.path}: the controlled agent has no box in frame {frame}, "
            f"which belongs to the {n_observed} observed steps"
        )
    return np.array(walk)


def _controlled_positions(path: Path) -> dict[int, tuple[float, float]]:
    """Return the positions of the controlled agent by frame."""
    positions: dict[int, tuple[float, float]] = {}
    for entry in _read_entries(path):
        try:
            if not entry["is_x_agent"]:
                continue
            frame, position = _frame_and_center(entry)
        except KeyError as error:
            raise ValueError(f"{path}: an entry lacks the key {error}") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: the entry {entry!r} is not a box ({error})") from None
        if frame in positions:
            raise ValueError(f"{path}: the controlled agent has two boxes in frame {frame}")
        positions[frame] = position
    if not positions:
        raise ValueError(f"{path}: no entry is of the controlled agent (is_x_agent)")
    return positions


def _read_entries(path: Path) -> Iterable[Any]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # UnicodeDecodeError is a ValueError, too
        raise ValueError(f"{path}: not JSON ({error})") from None
    if not isinstance(entries, list):
        raise ValueError(f"{path}: must hold a list of boxes, got a {type(entries).__name__}")
    return entries


def _frame_and_center(entry: Any) -> tuple[int, tuple[float, float]]:
    frame = float(entry["frame_id"])
    x, y, width, height = (float(number) for number in entry["bbox"])
    if not frame.is_integer() or not np.isfinite([x, y, width, height]).all():
        raise ValueError("frame_id must be a whole number, bbox four finite ones")
    return int(frame), (x + width / 2, y + height / 2)


def _scene(
    files: list[_File], walks: list[np.ndarray], n_observed: int, scale: float
) -> ForkingScene:
    return ForkingScene(
        files[0].scene,
        files[0].moment,
        files[0].agent,
        files[0].camera,
        observed=_scaled(walks[0][:n_observed], scale),
        futures=tuple(_scaled(walk[n_observed:], scale) for walk in walks),
        destinations=tuple(file.destination for file in files),
        annotators=tuple(file.annotator for file in files),
    )


def _scaled(positions: np.ndarray, scale: float) -> np.ndarray:
    out = positions * scale
    out.flags.writeable = False
    return out


def _warn_of_spread(spread: dict[str, float]) -> None:
    """Warn of scenes whose files have different observations."""
    forked = {name: pixels for name, pixels in spread.items() if pixels > _TOLERANCE}
    if forked:
        worst = max(forked, key=lambda name: forked[name])
        warnings.warn(
            f"futures differ before the fork in {len(forked)} of {len(spread)} scenes, "
            f"by up to {forked[worst]:.3g} pixels ({worst}); try a smaller n_observed",
            stacklevel=3,
        )
