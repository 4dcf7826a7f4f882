"""Checks of all scenes before any is scored: values, units and precision."""

import warnings
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from .inputs import Forecasts, PathArray, path_lengths

#: Sizes, or distances relative to sizes, that differ by this factor suggest different units.
_OTHER_UNIT = 30.0
#: Samples per scene from which the size of paths is estimated.
_N_FOR_SIZE = 8
#: A rounding error above this fraction of the spread between samples raises a warning.
_COARSE = 0.01
#: A spread below this fraction of the largest coordinate is a rounding error.
_ROUNDING = 1e-13
#: Default floor, as a fraction of the spread between the samples of an agent.
_FLOOR_SHARE = 0.01


class PrecisionWarning(UserWarning):
    """Coordinates are rounded by more than a hundredth of the spread between samples."""


@dataclass(frozen=True, eq=False)
class SceneStatistics:
    """Statistics (n_scenes, n_agents) of all scenes."""

    spreads: np.ndarray  # standard deviations between samples, pooled over steps and coordinates
    n_samples: np.ndarray  # without absent ones
    digest: str  # hash of the truth, by which evaluations of other scenes are recognized

    @property
    def median_spread(self) -> float:
        """Median of the positive spreads, 0 if there are none."""
        positive = self.spreads[self.spreads > 0]
        return float(np.median(positive)) if len(positive) else 0.0

    def floors(self, floor: float | None) -> np.ndarray:
        """Return the standard deviation (n_scenes, n_agents) for degenerate samples."""
        if floor is not None:
            return np.full(self.spreads.shape, floor)
        return _FLOOR_SHARE * np.where(self.spreads > 0, self.spreads, self.median_spread)


def check_scenes(forecasts: Forecasts, check_units: bool) -> SceneStatistics:
    """Return statistics of all scenes; raise an error if a scene cannot be evaluated."""
    spreads, n_samples, sizes, digest = [], [], [], sha256()
    roundings: dict[str, list[np.ndarray]] = {"predictions": [], "truth": []}
    for start, stop in forecasts.blocks():
        paths, truths = forecasts.read(start, stop)
        _check_values(paths, "predictions", "sample", start, forecasts)
        _check_values(truths, "truth", "future", start, forecasts)
        lengths = path_lengths(paths)
        _check_presence(lengths, ~np.isnan(truths[..., 0]), start, forecasts)
        spreads.append(_spreads(paths, lengths))
        n_samples.append(np.count_nonzero(lengths, axis=1))
        roundings["predictions"].append(_roundings(paths, forecasts.predictions))
        roundings["truth"].append(_roundings(truths, forecasts.truth))
        sizes.append(_sizes(paths, truths, spreads[-1]))
        given = forecasts.read_truths(start, stop)
        digest.update(np.where(np.isnan(given), np.nan, given + 0.0).tobytes())
    if check_units:
        _check_units(*map(np.concatenate, zip(*sizes, strict=True)))
    found = SceneStatistics(
        np.concatenate(spreads), np.concatenate(n_samples), digest.hexdigest()[:16]
    )
    _warn_of_rounding({n: np.concatenate(each) for n, each in roundings.items()}, found.spreads)
    return found


def _check_values(
    values: np.ndarray, name: str, path: str, start: int, forecasts: Forecasts
) -> None:
    """Refuse infinity, and NaN before the end of a sample; in a truth it is a mask."""
    if np.isfinite(values).all():
        return
    bad, what = np.isinf(values).any(axis=-1), "infinite values"
    if not bad.any():
        missing = np.isnan(values)
        some, whole = missing.any(axis=-1), missing.all(axis=-1)
        bad, what = some & ~whole, "NaN in some coordinates only"
    if not bad.any() and name == "predictions":
        later = np.flip(np.logical_or.accumulate(np.flip(~some, axis=-1), axis=-1), axis=-1)
        bad, what = some & later, "NaN before the end of a path"
    if bad.any():
        scene, sample, agent, step = (int(i) for i in np.argwhere(bad)[0])
        place = [f"scene {forecasts.names[start + scene]}"]
        place += [f"{path} {sample}"] if values.shape[1] > 1 or name == "predictions" else []
        place += [f"agent {agent}"] if forecasts.has_agents else []
        raise ValueError(
            f"{name}: {what} at {', '.join([*place, f'step {step}'])} "
            f"({int(bad.sum())} such points in scenes {start} to {start + len(values) - 1})"
        )


def _check_presence(
    lengths: np.ndarray, observed: np.ndarray, start: int, forecasts: Forecasts
) -> None:
    """Refuse a truth without a forecast: skipping it would reward a missing forecast."""
    within = np.arange(observed.shape[3]) < lengths.max(axis=1)[..., None]
    there = np.asarray(observed.any(axis=1))
    absent = there.any(axis=2) & ~np.any(there & within, axis=2)
    if absent.any():
        scene, agent = (int(i) for i in np.argwhere(absent)[0])
        who = f"agent {agent} of " if forecasts.has_agents else ""
        raise ValueError(
            f"predictions are all NaN for {who}scene {forecasts.names[start + scene]} at the steps "
            "of its truth; set the truth to NaN to leave it out"
        )


def _spreads(paths: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the pooled standard deviation (B, A) between samples."""
    counts = (np.arange(paths.shape[3]) < lengths[..., None]).sum(axis=1)
    means = _valid(paths).sum(axis=1) / np.maximum(counts, 1)[..., None]
    squares = _valid((paths - means[:, None]) ** 2).sum(axis=(1, 3, 4))
    free = np.maximum(counts - 1, 0).sum(axis=-1) * paths.shape[-1]
    spreads = np.sqrt(squares / np.maximum(free, 1))
    return np.where(spreads > _ROUNDING * _largest(paths), spreads, 0.0)


def _largest(paths: np.ndarray) -> np.ndarray:
    """Return the largest absolute coordinate (B, A) of an agent, 0 if it is absent."""
    return np.asarray(np.fmax.reduce(np.abs(paths), axis=(1, 3, 4), initial=0.0))


def _roundings(values: np.ndarray, source: PathArray) -> np.ndarray:
    """Return the rounding error (B, A) of the coordinates of an agent, 0 for doubles."""
    for part in (values[:, :1], values):  # a single path tells doubles
        with np.errstate(over="ignore"):
            short = part.astype(np.float32)
        is_short = ((short == part) | np.isnan(part)).all(axis=(1, 3, 4))
        if not is_short.any():
            return np.zeros(is_short.shape)
    return np.where(is_short, _largest(values) * source.eps, 0.0)


def _warn_of_rounding(roundings: dict[str, np.ndarray], spreads: np.ndarray) -> None:
    """Warn if coordinates are rounded coarsely in most scenes."""
    there = spreads > 0
    coarse = {
        name: values[there]
        for name, values in roundings.items()
        if there.any() and np.mean(values[there] > _COARSE * spreads[there]) > 0.5
    }
    if coarse:
        apart = np.median(np.concatenate(list(coarse.values())))
        warnings.warn(
            f"{' and '.join(coarse)}: coordinates are 32-bit or 16-bit floats, which are "
            f"{apart:.2g} apart, with a spread of {np.median(spreads[there]):.2g} between samples; "
            "subtract an origin near the paths before the conversion, or keep 64-bit floats",
            PrecisionWarning,
            stacklevel=4,
        )


def _sizes(
    paths: np.ndarray, truths: np.ndarray, spreads: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sizes (B,) of predicted and true paths, and their distance relative to the sizes."""
    (size, middle), (true_size, true_middle) = _extent(paths[:, :_N_FOR_SIZE]), _extent(truths)
    apart = np.sqrt(((middle - true_middle) ** 2).sum(axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return size, true_size, apart / (size + true_size + np.sqrt((spreads**2).mean(axis=1)))


def _extent(paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the root mean square distance (B,) of points from their path's mean, and the mean."""
    lengths = path_lengths(paths)
    # Sums over the last axis are fast.
    columns = np.ascontiguousarray(np.moveaxis(paths, -1, 0))
    sums = _valid(columns).sum(axis=4)
    apart = _valid(columns - (sums / np.maximum(lengths, 1))[..., None])
    total = np.maximum(lengths.sum(axis=(1, 2)), 1)
    squares = np.einsum("dbkat,dbkat->b", apart, apart)
    return np.sqrt(squares / total), (sums.sum(axis=(2, 3)) / total).T


def _valid(values: np.ndarray) -> np.ndarray:
    """Return values with 0 in place of NaN; ``nansum`` takes long even where there is none."""
    missing = np.isnan(values)
    return np.where(missing, 0.0, values) if missing.any() else values


def _check_units(sizes: np.ndarray, true_sizes: np.ndarray, distances: np.ndarray) -> None:
    """Refuse predictions that are far larger, smaller or farther away in most scenes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = sizes / true_sizes
    ratios = ratios[(sizes > 0) & (true_sizes > 0)]
    for found, words in (
        (ratios, "larger than truth"),
        (1 / ratios, "smaller than truth"),
        (distances[np.isfinite(distances)], "their size away from truth"),
    ):
        if len(found) and np.mean(found >= _OTHER_UNIT) > 0.5:
            raise ValueError(
                f"predictions are {np.median(found):.3g} times {words} in most scenes: are they "
                "in the same unit and frame? Pass check_units=False if they are"
            )
