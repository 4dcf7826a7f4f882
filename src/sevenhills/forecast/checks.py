"""What no forecast may hold: NaN in the midst of a path, infinity, a unit of its own."""

import warnings
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from .arrays import SHORT_EPS, Forecasts, Source
from .cells import lengths_of

#: Scales, or distances beside extents, that differ by this are a matter of units.
_OTHER_UNIT = 30.0
#: So many samples say how far an agent goes.
_A_FEW = 8
#: Values rounded to more than this part of the spread between samples call for a warning.
_COARSE = 0.01
#: A spread below this part of the coordinates themselves is nothing but rounding.
_ROUNDING = 1e-13


class PrecisionWarning(UserWarning):
    """Samples are rounded too much for the figures that are made from them."""


@dataclass(frozen=True, eq=False)
class Survey:
    """What all scenes have to say before any of them is evaluated.

    Attributes
    ----------
    spreads : ndarray of shape (n_scenes, n_agents)
        The standard deviation between the samples of an agent, over all steps and coordinates.
    n_present : ndarray of shape (n_scenes, n_agents)
        How many samples there are, absent ones left out.
    digest : str
        What tells this truth from any other.
    """

    spreads: np.ndarray
    n_present: np.ndarray
    digest: str

    @property
    def usual_spread(self) -> float:
        """The median spread of those that have any, 0 if none has."""
        some = self.spreads[self.spreads > 0]
        return float(np.median(some)) if len(some) else 0.0


class _Sizes(NamedTuple):
    """The size of paths (B,), of the truth, and how far they are apart."""

    paths: np.ndarray
    truths: np.ndarray
    apart: np.ndarray


def survey(forecasts: Forecasts, check_units: bool) -> Survey:
    """Look through all scenes, and refuse what cannot be evaluated.

    Parameters
    ----------
    forecasts : Forecasts
    check_units : bool
        Whether to refuse predictions and truths of very different sizes or places.
    """
    spreads, present, sizes, digest = [], [], [], sha256()
    roundings: dict[str, list[np.ndarray]] = {"predictions": [], "truth": []}
    for start, stop in forecasts.blocks():
        paths, truths = forecasts.read(start, stop)
        _check_values(paths, "predictions", "sample", start, forecasts)
        _check_values(truths, "truth", "future", start, forecasts)
        lengths, horizons = lengths_of(paths), lengths_of(truths)
        _check_presence(lengths, horizons, start, forecasts)
        spreads.append(_spreads(paths, lengths))
        present.append(np.count_nonzero(lengths, axis=1))
        roundings["predictions"].append(_roundings(paths, forecasts.predictions))
        roundings["truth"].append(_roundings(truths, forecasts.truth))
        sizes.append(_sizes(paths, truths, spreads[-1]))
        digest.update(np.where(np.isnan(truths), np.nan, truths + 0.0).tobytes())
    if check_units:
        _check_units(_Sizes(*map(np.concatenate, zip(*sizes, strict=True))))
    found = Survey(np.concatenate(spreads), np.concatenate(present), digest.hexdigest()[:16])
    _warn_of_rounding({n: np.concatenate(each) for n, each in roundings.items()}, found.spreads)
    return found


def name_scene(i: int, forecasts: Forecasts) -> str:
    """Return how to speak of a scene."""
    return f"scene {i if forecasts.names is None else forecasts.names[i]}"


def _check_values(
    values: np.ndarray, name: str, path: str, start: int, forecasts: Forecasts
) -> None:
    """Refuse infinity, and NaN that is not the end of a path."""
    if np.isfinite(values).all():
        return
    bad, what = np.isinf(values).any(axis=-1), "infinite"
    if not bad.any():
        missing = np.isnan(values)
        some, whole = missing.any(axis=-1), missing.all(axis=-1)
        bad, what = some & ~whole, "NaN in some coordinates only"
    if not bad.any():
        # What follows a gap is there again.
        later = np.flip(np.logical_or.accumulate(np.flip(~some, axis=-1), axis=-1), axis=-1)
        bad, what = some & later, "NaN before the end of a path, where it is no padding"
    if bad.any():
        scene, sample, agent, step = (int(i) for i in np.argwhere(bad)[0])
        place = [name_scene(start + scene, forecasts)]
        place += [f"{path} {sample}"] if values.shape[1] > 1 or name == "predictions" else []
        place += [f"agent {agent}"] if forecasts.has_agents else []
        raise ValueError(
            f"{name} are {what}: {', '.join([*place, f'step {step}'])} "
            f"({int(bad.sum())} such points in scenes {start} to {start + len(values) - 1})"
        )


def _check_presence(
    lengths: np.ndarray, horizons: np.ndarray, start: int, forecasts: Forecasts
) -> None:
    """Refuse a truth for which there is no forecast: to leave it out would reward silence."""
    silent = (lengths.max(axis=1) == 0) & (horizons.max(axis=1) > 0)
    if silent.any():
        scene, agent = (int(i) for i in np.argwhere(silent)[0])
        who = f"agent {agent} of " if forecasts.has_agents else ""
        raise ValueError(
            f"predictions are all NaN for {who}{name_scene(start + scene, forecasts)}, which has "
            "a truth; make the truth NaN to leave it out"
        )


def _spreads(paths: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the pooled standard deviation (B, A) between samples."""
    there = np.arange(paths.shape[3]) < lengths[..., None]
    is_full = bool(there.all())
    counts = there.sum(axis=1)
    values = paths if is_full else np.where(there[..., None], paths, 0.0)
    means = values.sum(axis=1) / np.maximum(counts, 1)[..., None]
    deviations = paths - means[:, None]
    if not is_full:
        deviations[~there] = 0.0
    squares = np.square(deviations, out=deviations).sum(axis=(1, 3, 4))
    free = np.maximum(counts - 1, 0).sum(axis=-1) * paths.shape[-1]
    spreads = np.sqrt(squares / np.maximum(free, 1))
    largest = np.abs(values).max(axis=(1, 3, 4))
    return np.where(spreads > _ROUNDING * largest, spreads, 0.0)


def _roundings(values: np.ndarray, source: Source) -> np.ndarray:
    """Return to what the coordinates of an agent (B, A) are rounded, 0 if by doubles only."""
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    is_short = ((short == values) | np.isnan(values)).all(axis=(1, 3, 4))
    largest = np.abs(np.where(np.isnan(values), 0.0, values)).max(axis=(1, 3, 4))
    return np.where(is_short, largest * getattr(source, "eps", SHORT_EPS), 0.0)


def _warn_of_rounding(roundings: dict[str, np.ndarray], spreads: np.ndarray) -> None:
    """Warn if short floats do not hold the coordinates in most scenes."""
    there = spreads > 0
    coarse = {
        name: values[there]
        for name, values in roundings.items()
        if there.any() and np.mean(values[there] > _COARSE * spreads[there]) > 0.5
    }
    if coarse:
        apart = np.median(np.concatenate(list(coarse.values())))
        warnings.warn(
            f"{' and '.join(coarse)}: coordinates are rounded to short floats, {apart:.2g} apart, "
            f"beside a spread of {np.median(spreads[there]):.2g} between samples; subtract an "
            "origin near the paths before converting them, or keep them as floats of 64 bits",
            PrecisionWarning,
            stacklevel=4,
        )


def _sizes(paths: np.ndarray, truths: np.ndarray, spreads: np.ndarray) -> _Sizes:
    """Return how far the agents of a scene go, by the forecasts and in truth."""
    (size, middle), (true_size, true_middle) = _extent(paths[:, :_A_FEW]), _extent(truths)
    apart = np.sqrt(((middle - true_middle) ** 2).sum(axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        beside = apart / (size + true_size + np.sqrt((spreads**2).mean(axis=1)))
    return _Sizes(size, true_size, beside)


def _extent(paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the root mean square distance (B,) of points from their path's mean, and the mean."""
    there = ~np.isnan(paths[..., :1])
    n_points = np.maximum(there.sum(axis=3, keepdims=True), 1)
    values = np.where(there, paths, 0.0)
    means = values.sum(axis=3, keepdims=True) / n_points
    squares = (np.where(there, paths - means, 0.0) ** 2).sum(axis=(1, 2, 3, 4))
    total = np.maximum(there.sum(axis=(1, 2, 3, 4)), 1)
    return np.sqrt(squares / total), values.sum(axis=(1, 2, 3)) / total[:, None]


def _check_units(sizes: _Sizes) -> None:
    """Refuse forecasts that are far larger, smaller or elsewhere in most scenes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = sizes.paths / sizes.truths
    ratios = ratios[(sizes.paths > 0) & (sizes.truths > 0)]
    advice = "are they in the same unit and frame? Pass check_units=False if they are"
    for found, word in ((ratios, "larger"), (1 / ratios, "smaller")):
        if np.mean(found >= _OTHER_UNIT) > 0.5 if len(found) else False:
            raise ValueError(
                f"predictions are {np.median(found):.3g} times {word} than truth in most scenes: "
                f"{advice}"
            )
    far = sizes.apart[np.isfinite(sizes.apart)]
    if len(far) and np.mean(far >= _OTHER_UNIT) > 0.5:
        raise ValueError(
            f"predictions are {np.median(far):.3g} times as far from truth as they are large in "
            f"most scenes: {advice}"
        )
