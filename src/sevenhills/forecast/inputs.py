"""Predictions and truths as arrays, read a block of scenes at a time.

A block has the shape (scenes, samples, agents, steps, coordinates), with NaN after the end of a
path and for absent samples and agents.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..decoding import Archive, decoding
from ..validation import check_numbers, check_positive, without_tensors
from .files import TABLE_SUFFIXES, read_submission, read_table, trajnet_columns

#: Numbers in a block of scenes: 2 MB of predictions.
_BLOCK_SIZE = 250_000
#: Relative rounding errors of short floats.
_EPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}
#: More coordinates and fewer steps than these suggest swapped axes.
_MANY_COORDINATES, _FEW_STEPS = 6, 4
#: Samples with a smaller share of the largest weight of their scene are absent.
_LEAST_WEIGHT = 1e-100
#: Scenes, steps or agents that an error message names.
_NAMED = 5

#: Column that numbers the paths of a scene; a truth without it has one future.
_PATH_COLUMNS = {"predictions": "sample", "truth": "future"}
_COORDINATES = ("x", "y", "z")


def path_lengths(paths: np.ndarray) -> np.ndarray:
    """Return the number of steps (...) of paths (..., T, D), without padding."""
    return np.asarray(np.count_nonzero(~np.isnan(paths[..., 0]), axis=-1))


@dataclass(frozen=True, eq=False)
class PathArray:
    """Paths of all scenes, in memory or mapped from a file; those of a table have names."""

    values: np.ndarray  # (S, ..., T, D)
    eps: float = _EPS["float32"]  # relative rounding error of the values, if they are not doubles
    names: np.ndarray | None = None  # (S,), of scenes
    steps: np.ndarray | None = None  # (T,), values of the column "step"
    agents: list[list[Any]] | None = None  # names of the agents of every scene
    weights: np.ndarray | None = None  # (S, K) or (S, K, A), of samples
    groups: np.ndarray | None = None  # (S,), labels of groups of scenes
    is_ragged: bool = False  # whether scenes of different sizes were padded

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return tuple(self.values.shape)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return a range of scenes as doubles."""
        return np.array(self.values[start:stop], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Predictions and truths of the same scenes; numbers of them include absent ones."""

    predictions: PathArray
    truth: PathArray
    has_agents: bool
    n_scenes: int
    n_samples: int
    n_agents: int
    n_truths: int
    n_steps: int
    n_coordinates: int
    weights: np.ndarray | None = None  # (S, K) or (S, K, A), of samples
    horizon: int | None = None  # number of steps that are read; the others are NaN
    periods: np.ndarray | None = None  # (D,) of coordinates that are angles, 0 for others

    @property
    def has_joint_weights(self) -> bool:
        """Whether all agents of a scene share the weights of the samples."""
        each = self.weights
        return each is None or each.ndim == 2 or bool((each == each[..., :1]).all())

    @property
    def names(self) -> np.ndarray:
        """Names of the scenes, their numbers if they have none."""
        for each in (self.predictions.names, self.truth.names):
            if each is not None:
                return np.array(each)
        return np.arange(self.n_scenes)

    @property
    def groups(self) -> np.ndarray | None:
        """Labels of the groups of scenes, None if a table has no such column."""
        first, second = self.predictions.groups, self.truth.groups
        return second if first is None else first

    def blocks(self, n_parts: int = 1) -> Iterator[tuple[int, int]]:
        """Yield the first scene of every block and the scene after its last, in n_parts or more."""
        fit = max(1, _BLOCK_SIZE * self.n_scenes // int(np.prod(self.predictions.shape)))
        size = min(fit, -(-self.n_scenes // n_parts))
        for start in range(0, self.n_scenes, size):
            yield start, min(start + size, self.n_scenes)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return paths (B, K, A, T, D) and truths (B, L, A, T, D) of a range of scenes.

        Samples without weight are absent.
        """
        paths, truths = self.predictions.read(start, stop), self.read_truths(start, stop)
        paths = paths if self.has_agents else paths[:, :, None]
        weights = self.read_weights(start, stop)
        if weights is not None:
            paths[weights == 0] = np.nan
        if self.horizon is not None:
            paths[..., self.horizon :, :] = np.nan
        for j, period in enumerate(() if self.periods is None else self.periods.tolist()):
            if period > 0:
                _unwrap(paths[..., j], truths[..., j], period)
        return paths, truths

    def read_truths(self, start: int, stop: int) -> np.ndarray:
        """Return truths (B, L, A, T, D) of a range of scenes, angles as they are given."""
        truths = self.truth.read(start, stop)
        if self.truth.values.ndim < self.predictions.values.ndim:
            truths = truths[:, None]
        truths = truths if self.has_agents else truths[:, :, None]
        if self.horizon is not None:
            truths[..., self.horizon :, :] = np.nan
        return truths

    def read_weights(self, start: int, stop: int) -> np.ndarray | None:
        """Return weights (B, K, A) of the samples of a range of scenes, None if all are equal."""
        if self.weights is None:
            return None
        some = self.weights[start:stop].reshape(stop - start, self.n_samples, -1)
        return np.broadcast_to(some, (*some.shape[:2], self.n_agents))


def _unwrap(paths: np.ndarray, truths: np.ndarray, period: float) -> None:
    """Move angles (B, K, A, T) and (B, L, A, T) to the turn around the mean of their step."""
    with np.errstate(invalid="ignore"):
        turned = np.exp(2j * np.pi / period * paths)
        direction = np.where(np.isnan(paths), 0.0, turned).sum(axis=1, keepdims=True)
        means = np.unwrap(np.angle(direction) * (period / (2 * np.pi)), period=period, axis=3)
        for each in (paths, truths):
            each += period * np.round((means - each) / period)


def checked_periods(period: Any, n_coordinates: int) -> np.ndarray | None:
    """Return the period of every coordinate, 0 for those that are no angles."""
    if period is None:
        return None
    given = [period] * n_coordinates if np.ndim(period) == 0 else list(period)
    if len(given) != n_coordinates:
        raise ValueError(
            f"period must have one number for each of {n_coordinates} coordinates, got {len(given)}"
        )
    return np.array([0.0 if each is None else check_positive(each, "period") for each in given])


def open_forecasts(
    predictions: Any,
    truth: Any,
    agents: bool,
    check_axes: bool = False,
    weights: Any = None,
) -> Forecasts:
    """Return predictions and truths whose shapes match.

    With ``check_axes``, axes that match but look swapped are refused.
    """
    samples = open_paths(predictions, "predictions")
    futures = open_paths(truth, "truth", beside=samples)
    samples, futures = _padded_alike(samples, futures, 2 if agents else 1)
    _check_shapes(samples.shape, futures.shape, agents)
    if check_axes and samples.shape[-1] > _MANY_COORDINATES and samples.shape[-2] < _FEW_STEPS:
        raise ValueError(
            f"predictions of shape {samples.shape} and truth of shape {futures.shape} look like "
            "(..., coordinates, steps): swap their last two axes, or pass check_units=False if "
            f"there are {samples.shape[-1]} coordinates"
        )
    n_scenes, n_samples, *rest, n_steps, n_coordinates = samples.shape
    n_agents = rest[0] if agents else 1
    n_truths = futures.shape[1] if len(futures.shape) == len(samples.shape) else 1
    found = Forecasts(
        samples, futures, agents, n_scenes, n_samples, n_agents, n_truths, n_steps, n_coordinates
    )
    given = samples.weights if weights is None else weights
    return found if given is None else replace(found, weights=_checked_weights(given, found))


def _checked_weights(weights: Any, forecasts: Forecasts) -> np.ndarray:
    """Return weights (S, K) or (S, K, A) of samples, of which the largest in a scene is one."""
    found = check_numbers(_as_array(weights, "weights", 0.0, n_fixed=0)[0], "weights")
    shapes = [forecasts.predictions.shape[:2]]
    shapes += [forecasts.predictions.shape[:3]] if forecasts.has_agents else []
    if found.shape not in shapes:
        raise ValueError(
            f"weights must have shape {' or '.join(map(str, shapes))}, got {found.shape}"
        )
    each = found.reshape(len(found), -1)
    bad, what = ~np.isfinite(each), "NaN or infinity"
    if not bad.any():
        bad, what = each < 0, "a negative value"
    if not bad.any():
        bad, what = each.max(axis=1, keepdims=True) == 0, "nothing but zeros"
    if bad.any():
        scene = int(np.flatnonzero(bad.any(axis=1))[0])
        raise ValueError(f"weights have {what} in scene {forecasts.names[scene]}")
    shares = (each / each.max(axis=1, keepdims=True)).reshape(found.shape)
    return np.where(shares < _LEAST_WEIGHT, 0.0, shares)


def open_paths(value: Any, name: str, beside: PathArray | None = None) -> PathArray:
    """Return paths given as an array, a tensor, a list of scenes, a table or the path of a file.

    Truths with names must have the scenes and steps of predictions with names ``beside`` them.
    """
    if isinstance(value, str | os.PathLike):
        return _open_file(Path(value), name, beside)
    if hasattr(value, "means") and hasattr(value, "covariances"):  # mixtures, by their modes
        return PathArray(value.means, weights=value.weights)
    if hasattr(value, "columns") and hasattr(value, "__getitem__"):
        return _read_table(value, name, beside)
    first = value[0] if isinstance(value, list | tuple) and len(value) else value
    dtype = str(getattr(first, "dtype", "")).rpartition(".")[2]
    values, is_ragged = _as_array(value, name)
    eps = _EPS.get(dtype, _EPS["float32"])
    return PathArray(_checked(values, name), eps, is_ragged=is_ragged)


def _open_file(path: Path, name: str, beside: PathArray | None) -> PathArray:
    if not path.exists():
        raise FileNotFoundError(f"{name}: there is no file {path}")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        with decoding(str(path)):
            array = np.lib.format.open_memmap(path, mode="r")
        return PathArray(_checked(array, name))
    if suffix == ".npz":
        return _read_archive(path, name)
    if suffix in TABLE_SUFFIXES:
        return _read_table(read_table(path, (*_COORDINATES, "weight")), name, beside)
    if suffix == ".ndjson":
        return _read_trajnet(path, name, beside)
    if suffix == ".json":
        return _read_submission(path, name, beside)
    raise ValueError(
        f"{name} must be a .npy, .npz, .csv, .parquet, .ndjson or .json file, got {path.name}"
    )


def _read_trajnet(path: Path, name: str, beside: PathArray | None) -> PathArray:
    """Return paths of TrajNet++; of truths, only the steps that were predicted."""
    columns = trajnet_columns(path, name)
    if beside is not None and beside.steps is not None:
        kept = np.isin(columns["step"], beside.steps)
        columns = {key: values[kept] for key, values in columns.items()}
    return _read_table(columns, name, beside)


def _read_submission(path: Path, name: str, beside: PathArray | None) -> PathArray:
    """Return modes of nuScenes and their weights; a truth may have several futures, too."""
    tokens, paths, probabilities = read_submission(path, name)
    names, (values, is_ragged) = np.array(tokens), _as_array(paths, name)
    weights = _as_array(probabilities, name, 0.0, n_fixed=0)[0] if beside is None else None
    if beside is not None and beside.names is not None:
        order = np.argsort(_places_of_scenes(names, beside.names))
        names, values = names[order], values[order]
    return PathArray(_checked(values, name), names=names, weights=weights, is_ragged=is_ragged)


def _read_archive(path: Path, name: str) -> PathArray:
    """Return the array of an archive that has the name of the argument, or the only one.

    Predictions may have an array of weights beside them, and both an array of groups. Those of
    mixtures are their means.
    """
    with path.open("rb") as file:
        archive = Archive(file, str(path))
        members = archive.names
        key = "means" if name == "predictions" and "means" in members else name
        if key not in members and len(members) != 1:
            raise ValueError(f"{name}: {path.name} has no array {name!r}, only {members}")
        values = _checked(archive.read(key if key in members else members[0]), name)
        beside = members if key in members else []
        has_weights = name == "predictions" and "weights" in beside
        weights = archive.read("weights") if has_weights else None
        groups = archive.read("groups") if "groups" in beside else None
        return PathArray(values, weights=weights, groups=groups)


def _as_array(
    value: Any, name: str, fill: float = np.nan, n_fixed: int = 1
) -> tuple[np.ndarray, bool]:
    """Return an array, a tensor or nested lists as an array, and whether lists were padded.

    All but the last ``n_fixed`` axes may have different sizes.
    """
    value = without_tensors(value)
    is_nested = isinstance(value, list | tuple) or str(getattr(value, "dtype", "")) == "object"
    if not is_nested or len(value) == 0:
        return np.asanyarray(value), False
    if not any(hasattr(each, "detach") for each in value):
        try:
            return np.asarray(list(value)), False
        except ValueError:  # of different sizes
            pass
    parts = [_as_array(each, name, fill, n_fixed)[0] for each in value]
    return _stacked(parts, name, fill, n_fixed), True


def _stacked(parts: list[np.ndarray], name: str, fill: float, n_fixed: int) -> np.ndarray:
    """Return arrays of different sizes as one, padded at the ends."""
    shapes = [part.shape for part in parts]
    if len({(len(shape), shape[len(shape) - n_fixed :]) for shape in shapes}) > 1:
        some = ", ".join(map(str, dict.fromkeys(shapes)))
        raise ValueError(
            f"{name} must have the same axes and coordinates in all scenes, got {some}"
        )
    if any(part.dtype.kind not in "fiu" for part in parts):
        raise TypeError(f"{name} must hold numbers")
    sizes = np.max(shapes, axis=0)
    out = np.full((len(parts), *sizes), fill, dtype=np.result_type(np.float16, *parts))
    for row, part in zip(out, parts, strict=True):
        row[tuple(map(slice, part.shape))] = part
    return out


def _padded_alike(
    samples: PathArray, futures: PathArray, n_axes: int
) -> tuple[PathArray, PathArray]:
    """Give predictions and truths the same numbers of agents and steps, if one was padded."""
    axes = slice(-1 - n_axes, -1)
    has_axes = min(len(samples.shape), len(futures.shape)) > n_axes + 1
    if not has_axes or not (samples.is_ragged or futures.is_ragged):
        return samples, futures
    sizes = np.maximum(samples.shape[axes], futures.shape[axes])
    return _padded_to(samples, sizes), _padded_to(futures, sizes)


def _padded_to(paths: PathArray, sizes: np.ndarray) -> PathArray:
    more = sizes - paths.shape[-1 - len(sizes) : -1]
    if not more.any():
        return paths
    ends = [(0, 0)] * (len(paths.shape) - len(more) - 1) + [(0, n) for n in more] + [(0, 0)]
    values = paths.values.astype(np.result_type(paths.values, np.float16))
    return replace(paths, values=np.pad(values, ends, constant_values=np.nan))


def _checked(values: np.ndarray, name: str) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill the masked values with NaN first")
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers, got dtype {values.dtype}")
    if 0 in values.shape:
        raise ValueError(f"{name} must not be empty, got shape {values.shape}")
    return values


# Tables with a row for every point


def _read_table(frame: Any, name: str, beside: PathArray | None) -> PathArray:
    """Return the paths of a table of pandas, polars or pyarrow, with rows in any order."""
    columns = _table_columns(frame, name)
    keys = [key for key in ("scene", _PATH_COLUMNS[name], "agent", "step") if key in columns]
    names, scene = _in_order_of_appearance(columns["scene"])
    steps, step = np.unique(columns["step"], return_inverse=True)
    if beside is not None and beside.names is not None:
        scene, names = _places_of_scenes(names, beside.names)[scene], beside.names
    if beside is not None and beside.steps is not None:
        step, steps = _places(steps, beside.steps, "steps")[step], beside.steps
    indices = [scene, *(_ranks(columns[key], scene) for key in keys[1:-1]), step]
    sizes = [len(names), *(int(each.max()) + 1 for each in indices[1:-1]), len(steps)]
    points = np.ravel_multi_index(tuple(indices), tuple(sizes))
    first = np.unique(points, return_index=True)[1]
    if len(first) < len(points):
        row = np.delete(np.arange(len(points)), first)[0]
        point = ", ".join(f"{key} {columns[key][row]}" for key in keys)
        raise ValueError(f"{name} has more than one row for {point}")
    coordinates = [key for key in _COORDINATES if key in columns]
    values = np.full((*sizes, len(coordinates)), np.nan)
    values[tuple(indices)] = np.stack([columns[key] for key in coordinates], axis=1)
    agents = _agents_by_scene(columns["agent"], scene) if "agent" in columns else None
    if agents is not None and beside is not None and beside.agents is not None:
        _check_agents(names, beside.agents, agents)
    weights = _table_weights(columns["weight"], indices, sizes) if "weight" in columns else None
    groups = _table_groups(columns["group"], scene, names) if "group" in columns else None
    return PathArray(
        values, names=names, steps=steps, agents=agents, weights=weights, groups=groups
    )


def _table_groups(column: np.ndarray, scene: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Return the group of every scene."""
    groups = column[np.unique(scene, return_index=True)[1]]
    differs = np.flatnonzero(groups[scene] != column)
    if len(differs):
        row = differs[0]
        raise ValueError(
            f"column group differs within scene {names[scene[row]]}: {groups[scene[row]]} and "
            f"{column[row]}"
        )
    return np.asarray(groups)


def _table_weights(column: np.ndarray, indices: list[np.ndarray], sizes: list[int]) -> np.ndarray:
    """Return the weights of samples, or of every agent of a sample; 0 for absent ones."""
    for n_axes in range(2, len(sizes)):
        weights, places = np.zeros(sizes[:n_axes]), tuple(indices[:n_axes])
        weights[places] = column
        differs = weights[places] != column
        if not differs.any():
            return weights
    raise ValueError(
        f"predictions: column weight differs within a sample, {column[differs][0]} and "
        f"{weights[places][differs][0]} for instance"
    )


def _table_columns(frame: Any, name: str) -> dict[str, np.ndarray]:
    """Return the columns of a table that are used, coordinates as doubles."""
    found = list(
        frame if isinstance(frame, dict) else getattr(frame, "column_names", frame.columns)
    )
    needed = ["scene", "step", *(["sample"] if name == "predictions" else [])]
    missing = [key for key in needed if key not in found]
    if missing or not any(key in found for key in _COORDINATES):
        raise ValueError(
            f"{name} must have the columns {', '.join(needed)}, x and y; missing "
            f"{', '.join(missing or ['x'])}, found {', '.join(map(str, found))}"
        )
    numbers = (*_COORDINATES, *(["weight"] if name == "predictions" else []))
    used = ("scene", _PATH_COLUMNS[name], "agent", "step", "group", *numbers)
    columns = {key: np.asarray(frame[key]) for key in used if key in found}
    if len(columns["scene"]) == 0:
        raise ValueError(f"{name} has no rows")
    for key, values in columns.items():
        if key in numbers:
            try:
                columns[key] = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise TypeError(f"{name}: column {key} must hold numbers") from error
        elif (values != values).any() or (values.dtype.kind == "O" and None in values.tolist()):
            raise ValueError(f"{name}: column {key} must not hold NaN")
    return columns


def _in_order_of_appearance(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in order of appearance, and the index of every row's value."""
    values, first, codes = np.unique(column, return_index=True, return_inverse=True)
    appearance = np.argsort(first, kind="stable")
    return values[appearance], np.argsort(appearance)[codes]


def _places(values: np.ndarray, expected: np.ndarray, what: str) -> np.ndarray:
    """Return the index of every value of the truth among those of the predictions."""
    places = {value: i for i, value in enumerate(expected.tolist())}
    extra = [value for value in values.tolist() if value not in places]
    if extra:
        raise ValueError(f"predictions lack {len(extra)} of the {what}: {extra[:_NAMED]}")
    return np.array([places[value] for value in values.tolist()])


def _places_of_scenes(names: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the index of every scene of the truth among those of the predictions."""
    found = set(names.tolist())
    missing = [each for each in expected.tolist() if each not in found]
    if missing:
        raise ValueError(f"truth lacks {len(missing)} of the scenes: {missing[:_NAMED]}")
    return _places(names, expected, "scenes")


def _ranks(column: np.ndarray, scene: np.ndarray) -> np.ndarray:
    """Return the rank of every value among the distinct values of its scene."""
    values, codes = np.unique(column, return_inverse=True)
    pairs, inverse = np.unique(scene * len(values) + codes, return_inverse=True)
    first = np.searchsorted(pairs // len(values), np.arange(scene.max() + 1))
    return np.asarray(inverse - first[scene])


def _agents_by_scene(agents: np.ndarray, scene: np.ndarray) -> list[list[Any]]:
    """Return the sorted agents of every scene."""
    order = np.argsort(scene, kind="stable")
    ends = np.cumsum(np.bincount(scene))[:-1]
    return [np.unique(each).tolist() for each in np.split(agents[order], ends)]


def _check_agents(names: np.ndarray, predicted: list[list[Any]], true: list[list[Any]]) -> None:
    """Refuse a truth with other agents in a scene than the predictions."""
    for name, first, second in zip(names, predicted, true, strict=True):
        if first != second:
            raise ValueError(
                f"scene {name} has the agents {first[:_NAMED]} in predictions, but "
                f"{second[:_NAMED]} in truth"
            )


# Shapes


def _check_shapes(shape: tuple[int, ...], other: tuple[int, ...], agents: bool) -> None:
    """Refuse predictions and truth with other axes, or of different sizes."""
    several = len(other) == len(shape)
    same = shape[:1] == other[:1] and shape[2:] == other[2 if several else 1 :]
    if same and len(shape) == (5 if agents else 4):
        return
    rest = "agents, steps, coordinates" if agents else "steps, coordinates"
    hint = (
        "leave agents=True out without an axis of" if agents else "pass agents=True for an axis of"
    )
    raise ValueError(
        f"predictions of shape {shape} do not match truth of shape {other}: expected predictions "
        f"(scenes, samples, {rest}) and truth (scenes, {rest}) or (scenes, futures, {rest}), "
        f"also for a single scene or sample; {hint} agents"
    )
