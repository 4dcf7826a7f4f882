"""Files of points and paths, decoded: tables, TrajNet++ and nuScenes. Errors name the line."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..decoding import decoding
from ..extras import import_extra

#: Suffixes of files that are read as tables.
PARQUET_SUFFIXES = (".parquet", ".pq")
TABLE_SUFFIXES = (".csv", ".tsv", *PARQUET_SUFFIXES)
_SEPARATORS = (",", ";", "\t", " ")


def read_table(path: Path, numbers: Sequence[str]) -> Any:
    """Return a parquet or csv file as a table of pyarrow.

    The columns ``numbers`` of a csv file are doubles; the types of others are inferred.
    """
    if path.suffix.lower() in PARQUET_SUFFIXES:
        parquet = import_extra("pyarrow.parquet", "frames", "reading parquet files needs pyarrow")
        with decoding(str(path)):
            return parquet.read_table(path)
    csv = import_extra("pyarrow.csv", "frames", "reading csv files needs pyarrow")
    arrow = import_extra("pyarrow", "frames", "reading csv files needs pyarrow")
    header = first_line(path)
    separator = max(_SEPARATORS, key=header.count)
    types = {key: arrow.float64() for key in numbers}
    with decoding(str(path)):
        try:
            return csv.read_csv(
                path,
                csv.ReadOptions(use_threads=False),  # threads do not count rows for messages
                csv.ParseOptions(delimiter=separator),
                csv.ConvertOptions(column_types=types),
            )
        except arrow.ArrowInvalid as error:
            raise ValueError(_with_line(path, str(error))) from error


def first_line(path: Path) -> str:
    """Return the first line of a text that is not empty or a comment, "" if there is none."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        lines = (line.split("#")[0].strip() for line in file)
        return next((line for line in lines if line), "")


def _with_line(path: Path, message: str) -> str:
    """Replace the number of a row in a message by that of the line; empty lines are no rows."""
    row = re.search(r"Row #(\d+)", message)
    if row is None:
        return message
    with path.open("rb") as file:
        lines = [number for number, line in enumerate(file, start=1) if line.strip()]
    return message.replace(row[0], f"line {lines[int(row[1]) - 1]}")


def read_trajnet(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the place, the kind ("scene" or "track") and the values of every line of TrajNet++."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            place = f"{path.name}, line {number}"
            if line.strip():
                yield place, *_trajnet_line(line, place)


def _trajnet_line(line: str, place: str) -> tuple[str, dict[str, Any]]:
    try:
        ((kind, values),) = json.loads(line).items()
        for key in {"track": "fpxy", "scene": ("id", "p", "s", "e")}[kind]:
            if not np.isfinite(values[key]):
                raise ValueError(f"{key} must be finite, got {values[key]}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f'{place}: expected {{"track": {{"f", "p", "x", "y"}}}} or '
            f'{{"scene": {{"id", "p", "s", "e"}}}}, got {line.strip()[:80]} ({error})'
        ) from error
    return kind, values


def trajnet_columns(path: Path, name: str) -> dict[str, np.ndarray]:
    """Return predictions or truths of the primary pedestrian of every scene as columns of a table.

    A step is the negative number of frames until the end of the scene: a file of truths also has
    the observed steps. Tracks without a "scene_id" belong to all scenes in whose time they fall.
    """
    lines = list(read_trajnet(path))
    tracks = [values for _, kind, values in lines if kind == "track"]
    numbers = [track.get("prediction_number") for track in tracks]
    wants_number = name == "predictions" and any(number is not None for number in numbers)
    by_agent: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for track, number in zip(tracks, numbers, strict=True):
        if (number is not None) == wants_number:
            by_agent[track["p"]].append(track)
    rows = [
        (scene["id"], track.get("prediction_number") or 0, track["f"] - scene["e"], *_xy(track))
        for scene in (values for _, kind, values in lines if kind == "scene")
        for track in by_agent[scene["p"]]
        if scene["s"] <= track["f"] <= scene["e"] and track.get("scene_id") in (None, scene["id"])
    ]
    if not rows:
        raise ValueError(f"{name}: {path.name} has no track of the pedestrian of a scene")
    keys = ("scene", "sample", "step", "x", "y")
    return dict(zip(keys, map(np.array, zip(*rows, strict=True)), strict=True))


def _xy(track: dict[str, Any]) -> tuple[float, float]:
    return float(track["x"]), float(track["y"])


def read_submission(path: Path, name: str) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
    """Return names, paths (K, T, 2) and probabilities (K,) of the scenes of a nuScenes submission.

    A name has the tokens of the instance and of the sample. Truths need no probabilities.
    """
    with decoding(str(path)), path.open(encoding="utf-8-sig") as file:
        entries = json.load(file)
    names, paths, probabilities = [], [], []
    for i, entry in enumerate(entries if isinstance(entries, list) else [None]):
        try:
            found = np.array(entry["prediction"], dtype=np.float64)
            shares = np.array(entry.get("probabilities", np.ones(len(found))), dtype=np.float64)
            names.append(f"{entry['instance']}_{entry['sample']}")
            if found.ndim != 3 or shares.shape != found.shape[:1]:
                raise ValueError(f"shapes {found.shape} and {shares.shape}")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{name}: {path.name}, entry {i} must have an instance, a sample, a prediction "
                f"(modes, steps, 2) and probabilities (modes,): {error!r}"
            ) from error
        paths.append(found)
        probabilities.append(shares)
    repeated = [each for each, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{name}: {path.name} has more than one entry for {repeated[0]}")
    return names, paths, probabilities
