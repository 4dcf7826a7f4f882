"""From scenes to figures over all scenes, with their errors."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .blocks import Measured
from .calibration import CalibrationError, Coverage, LevelCounts
from .measures import measure_of
from .resampling import Figure, Interval, MeanFigure, bootstrap
from .results import Evaluation, Row

#: What a measure is made from, and how the samples are called whose degeneracy concerns it.
_SAMPLES = {"density": "paths", "steps": "cells", "agents": "joint paths"}


def summarise(
    measured: Sequence[Measured],
    names: Sequence[str],
    settings: Mapping[str, Any],
    scene_names: np.ndarray,
    at: np.ndarray,
    n_replicates: int,
    rng: np.random.RandomState,
) -> Evaluation:
    """Return the evaluation that blocks of scenes make up.

    Parameters
    ----------
    measured : sequence of Measured
        The blocks in order.
    names : sequence of str
        The measures.
    settings : mapping
        With "confidence", the mass of intervals.
    scene_names : ndarray of shape (S,)
    at : ndarray of shape (n_levels,)
        The levels whose coverage is reported.
    n_replicates : int
    rng : RandomState
    """
    by_scene = [name for name in names if name != "ece"]
    scenes = {name: np.concatenate([one.scenes[name] for one in measured]) for name in by_scene}
    levels = np.concatenate([one.levels for one in measured])
    counts, affected = (
        sum((getattr(one.tally, name) for one in measured), Counter[str]())
        for name in ("counts", "affected")
    )
    columns = {name: scenes.get(name, levels) for name in names}
    figures: dict[str, Figure] = {
        name: CalibrationError(values) if name == "ece" else MeanFigure(values)
        for name, values in columns.items()
    }
    means = {name: float(figure(None)) for name, figure in figures.items()}
    if "ece" in names:
        figures["coverage"] = LevelCounts.of(levels, at).shares
    spread = bootstrap(figures, len(scene_names), n_replicates, settings["confidence"], rng)
    return Evaluation(
        scenes=scenes,
        summary=tuple(
            _row(name, values, means[name], spread[name], affected)
            for name, values in columns.items()
        ),
        coverage=_coverage(levels, at, spread["coverage"]) if "ece" in names else None,
        levels=levels if "ece" in names else np.empty((len(levels), 0)),
        settings=settings,
        degenerate={name: count for name, count in sorted(counts.items()) if count},
        names=scene_names,
    )


def _row(
    name: str, values: np.ndarray, mean: float, spread: Interval, affected: Mapping[str, int]
) -> Row:
    """Return a measure over all scenes, in which it has these values."""
    there = ~np.isnan(values.reshape(len(values), -1)).all(axis=1)
    error, low, high = (float(each) for each in spread)
    if name == "ece":
        # Chance only ever adds to it, once in the scenes and once more in resampling them.
        low, high = max(0.0, 2 * mean - high), max(mean, 2 * mean - low)
    elif there.sum() > 1:
        error = float(values[there].std(ddof=1) / np.sqrt(there.sum()))
    return Row(
        measure=name,
        mean=mean,
        standard_error=error,
        low=low,
        high=high,
        n_scenes=int(there.sum()),
        n_degenerate=affected.get(_SAMPLES.get(measure_of(name).needs, ""), 0),
    )


def _coverage(levels: np.ndarray, at: np.ndarray, spread: Interval) -> Coverage:
    return Coverage(
        levels=at,
        observed=LevelCounts.of(levels, at).shares(),
        standard_error=spread.standard_error,
        low=spread.low,
        high=spread.high,
        n_truths=int(np.count_nonzero(~np.isnan(levels))),
    )
