"""Errors of figures over scenes, by resampling the scenes."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

#: A figure of all scenes, each counting by its weight; once if there are no weights.
Figure = Callable[[np.ndarray | None], np.ndarray | float]


class Interval(NamedTuple):
    """The spread of a figure over resampled scenes."""

    standard_error: np.ndarray
    low: np.ndarray
    high: np.ndarray


class MeanFigure:
    """The mean over scenes of values (S,), those that are NaN left out."""

    def __init__(self, values: np.ndarray) -> None:
        there = ~np.isnan(values)
        self._filled, self._valid = np.where(there, values, 0.0), there.astype(np.float64)

    def __call__(self, weights: np.ndarray | None = None) -> float:
        """Return the mean, scenes counting by their weights; NaN if no scene has a value."""
        each = np.ones(len(self._valid)) if weights is None else weights
        total = each @ self._valid
        return float(each @ self._filled / total) if total else float("nan")


def bootstrap(
    figures: Mapping[str, Figure],
    n_scenes: int,
    n_replicates: int,
    confidence: float,
    rng: np.random.RandomState,
) -> dict[str, Interval]:
    """Return the spread of figures, all of them over the same resampled scenes.

    Parameters
    ----------
    figures : mapping of str to figure
    n_scenes : int
    n_replicates : int
        How often scenes are drawn; without any, the spread is NaN.
    confidence : float
        The mass between the limits.
    rng : RandomState
    """
    found: dict[str, list[np.ndarray | float]] = {name: [] for name in figures}
    for weights in _draws(n_scenes, n_replicates, rng):
        for name, figure in figures.items():
            found[name].append(figure(weights))
    if n_replicates == 0:
        found = {name: [np.full(np.shape(f(None)), np.nan)] for name, f in figures.items()}
    return {name: _interval(np.array(values), confidence) for name, values in found.items()}


def _draws(n_scenes: int, n_draws: int, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    """Yield how often every scene is drawn."""
    for _ in range(n_draws):
        drawn = rng.randint(n_scenes, size=n_scenes)
        yield np.bincount(drawn, minlength=n_scenes).astype(np.float64)


def _interval(values: np.ndarray, confidence: float) -> Interval:
    """Return the spread over the first axis; draws in which nothing is valid do not count."""
    outside = 50 * (1 - confidence)
    flat = values.reshape(len(values), -1)
    out = np.full((3, flat.shape[1]), np.nan)
    for i, column in enumerate(flat.T):
        kept = column[np.isfinite(column)]
        if len(kept) > 1:
            limits = np.percentile(kept, [outside, 100 - outside])
            out[:, i] = kept.std(ddof=1), *limits
    return Interval(*out.reshape(3, *values.shape[1:]))
