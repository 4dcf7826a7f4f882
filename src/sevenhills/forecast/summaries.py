"""Figures over all scenes, with bootstrap errors."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..metrics.density_metrics import LEVELS
from ..validation import check_positive
from .results import Coverage, Evaluation, Row
from .scores import BlockScores, measure_of

#: A figure over all scenes, as a function of the weights of the scenes; None weights all by 1.
Statistic = Callable[[np.ndarray | None], np.ndarray | float]

#: Which samples a measure depends on, by what it needs.
_SAMPLES = {"density": "paths", "steps": "steps", "agents": "joint paths"}


class Interval(NamedTuple):
    """Bootstrap standard error and limits of the interval of a statistic."""

    standard_error: np.ndarray
    low: np.ndarray
    high: np.ndarray


class SceneMean:
    """Mean of values (S,) over scenes, without NaN."""

    def __init__(self, values: np.ndarray) -> None:
        valid = ~np.isnan(values)
        self._filled, self._valid = np.where(valid, values, 0.0), valid.astype(np.float64)

    def __call__(self, weights: np.ndarray | None = None) -> float:
        """Return the weighted mean; NaN if no scene has a value."""
        each = np.ones(len(self._valid)) if weights is None else weights
        total = each @ self._valid
        return float(each @ self._filled / total) if total else float("nan")


class CoveredShare:
    """Fraction of truths whose level (S, P) is within each of some bounds, for scene weights."""

    def __init__(self, levels: np.ndarray, bounds: np.ndarray) -> None:
        self._scenes, truths = np.nonzero(~np.isnan(levels))
        self._bins = np.searchsorted(bounds, levels[self._scenes, truths], side="left")
        self._n_bounds = len(bounds)

    def __call__(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the fraction for every bound; NaN if no scene has a truth."""
        each = None if weights is None else weights[self._scenes]
        counts = np.bincount(self._bins, weights=each, minlength=self._n_bounds + 1)
        total = counts.sum()
        return np.cumsum(counts)[:-1] / total if total else np.full(self._n_bounds, np.nan)


class CalibrationError:
    """Expected calibration error of levels (S, P), for scene weights."""

    def __init__(self, levels: np.ndarray) -> None:
        self._share = CoveredShare(levels, LEVELS)

    def __call__(self, weights: np.ndarray | None = None) -> float:
        """Return the mean distance between levels and the fractions of truths within them."""
        return float(np.abs(self._share(weights) - LEVELS).mean())


def check_confidence(confidence: Any) -> None:
    """Refuse a confidence that is not between 0 and 1."""
    if not 0 < check_positive(confidence, "confidence") < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")


def summarize(
    blocks: Sequence[BlockScores],
    measures: Sequence[str],
    settings: Mapping[str, Any],
    names: np.ndarray,
    bounds: np.ndarray,
    n_replicates: int,
    rng: np.random.RandomState,
) -> Evaluation:
    """Return the evaluation of all scenes, which have these names (S,).

    The coverage is reported at the levels in ``bounds``; intervals have the confidence of the
    settings.
    """
    scenes = {
        name: np.concatenate([one.scenes[name] for one in blocks]) for name in blocks[0].scenes
    }
    levels = np.concatenate([one.levels for one in blocks])
    counts = sum((one.degenerate.counts for one in blocks), Counter[str]())
    affected = sum((one.degenerate.affected for one in blocks), Counter[str]())
    columns = {name: scenes.get(name, levels) for name in measures}
    statistics: dict[str, Statistic] = {
        name: CalibrationError(values) if name == "ece" else SceneMean(values)
        for name, values in columns.items()
    }
    means = {name: float(statistic(None)) for name, statistic in statistics.items()}
    if "ece" in measures:
        statistics["coverage"] = CoveredShare(levels, bounds)
    intervals = bootstrap(statistics, len(names), n_replicates, settings["confidence"], rng)
    return Evaluation(
        scenes=scenes,
        summary=tuple(
            _row(name, values, means[name], intervals[name], affected)
            for name, values in columns.items()
        ),
        coverage=_coverage(levels, bounds, intervals["coverage"]) if "ece" in measures else None,
        levels=levels if "ece" in measures else np.empty((len(levels), 0)),
        settings=settings,
        degenerate={name: count for name, count in sorted(counts.items()) if count},
        names=names,
    )


def _row(
    name: str, values: np.ndarray, mean: float, interval: Interval, affected: Mapping[str, int]
) -> Row:
    """Return the summary of a measure with these values (S, ...)."""
    valid = ~np.isnan(values.reshape(len(values), -1)).all(axis=1)
    error, low, high = (float(each) for each in interval)
    if name == "ece":
        # The error of a resample is biased upwards, by the noise of the scenes and of resampling:
        # the interval is reflected at the mean.
        low, high = max(0.0, 2 * mean - high), max(mean, 2 * mean - low)
    elif valid.sum() > 1:
        error = float(values[valid].std(ddof=1) / np.sqrt(valid.sum()))
    return Row(
        measure=name,
        mean=mean,
        standard_error=error,
        low=low,
        high=high,
        n_scenes=int(valid.sum()),
        n_degenerate=affected.get(_SAMPLES.get(measure_of(name).needs, ""), 0),
    )


def _coverage(levels: np.ndarray, bounds: np.ndarray, interval: Interval) -> Coverage:
    return Coverage(
        levels=bounds,
        observed=CoveredShare(levels, bounds)(),
        **interval._asdict(),
        n_truths=int(np.count_nonzero(~np.isnan(levels))),
    )


def bootstrap(
    statistics: Mapping[str, Statistic],
    n_scenes: int,
    n_replicates: int,
    confidence: float,
    rng: np.random.RandomState,
) -> dict[str, Interval]:
    """Return intervals of statistics, all from the same bootstrap replicates of the scenes.

    Without replicates, they are NaN.
    """
    found: dict[str, list[np.ndarray | float]] = {name: [] for name in statistics}
    for weights in _resampled_weights(n_scenes, n_replicates, rng):
        for name, statistic in statistics.items():
            found[name].append(statistic(weights))
    if n_replicates == 0:
        found = {name: [np.full(np.shape(s(None)), np.nan)] for name, s in statistics.items()}
    return {name: _interval(np.array(values), confidence) for name, values in found.items()}


def _resampled_weights(
    n_scenes: int, n_replicates: int, rng: np.random.RandomState
) -> Iterator[np.ndarray]:
    """Yield how often every scene is in a bootstrap replicate."""
    for _ in range(n_replicates):
        drawn = rng.randint(n_scenes, size=n_scenes)
        yield np.bincount(drawn, minlength=n_scenes).astype(np.float64)


def _interval(values: np.ndarray, confidence: float) -> Interval:
    """Return the interval over the first axis, without replicates that have no valid scene."""
    outside = 50 * (1 - confidence)
    flat = values.reshape(len(values), -1)
    out = np.full((3, flat.shape[1]), np.nan)
    for i, column in enumerate(flat.T):
        kept = column[np.isfinite(column)]
        if len(kept) > 1:
            limits = np.percentile(kept, [outside, 100 - outside])
            out[:, i] = kept.std(ddof=1), *limits
    return Interval(*out.reshape(3, *values.shape[1:]))
