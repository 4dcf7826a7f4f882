"""Comparison of two forecasters on the same scenes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from ..metrics.tables import MeasureTable
from ..validation import check_confidence, check_count, random_generator
from .groups import (
    Calibration,
    GroupedMean,
    Grouping,
    Interval,
    K,
    bootstrap,
    percentile_interval,
)
from .results import Evaluation

#: Random numbers that are drawn at once for permutations.
_BLOCK_SIZE = 250_000

#: Settings that may always differ.
_FREE = ("confidence", "versions")
#: Settings of the scenes, which cannot be ignored.
_SCENES = (
    *("n_scenes", "n_agents", "n_truths", "n_steps", "n_coordinates", "truth"),
    *("n_groups", "effective_groups", "average"),
)


@dataclass(frozen=True)
class Difference:
    """The difference of two forecasters in one measure.

    Attributes
    ----------
    measure : str
    first, second : float
        Mean of each forecaster, over the scenes that both have.
    difference : float
        The first minus the second: below zero, the first is better.
    standard_error, low, high : float
        Standard error of the difference, and the limits of its bootstrap interval.
    p_value : float
        Fraction of permutations, which exchange the two in random groups of scenes, with a
        difference at least as large in either direction.
    n_scenes : int
        Number of scenes that both have.
    n_better : float
        Number of scenes in which the first is better, ties counting one half; NaN for "ece",
        which single scenes do not have.
    """

    measure: str
    first: float
    second: float
    difference: float
    standard_error: float
    low: float
    high: float
    p_value: float
    n_scenes: int
    n_better: float


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(MeasureTable):
    """Differences of two forecasters, measure by measure.

    Attributes
    ----------
    summary : tuple of Difference
    names : tuple of str
        Names of the two forecasters.
    settings : mapping
        Settings of the first; those of the second differ only where this was allowed.
    confidence : float
        Confidence of the intervals.
    """

    summary: tuple[Difference, ...]
    names: tuple[str, str]
    settings: Any
    confidence: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    def _caption(self) -> str:
        first, second = self.names
        n_scenes, n_groups = self.settings["n_scenes"], self.settings["n_groups"]
        groups = f" in {n_groups} groups" if n_groups < n_scenes else ""
        return (
            f"{first} (first) minus {second} (second) over {n_scenes} scenes{groups}; "
            f"{first} is better below zero"
        )


def compare(
    a: Evaluation,
    b: Evaluation,
    *,
    names: Sequence[str] = ("a", "b"),
    ignore: Sequence[str] = (),
    confidence: float = 0.95,
    n_replicates: int = 1000,
    n_permutations: int = 1999,
    random_state: Any = 0,
) -> Comparison:
    """Compare two forecasters that were evaluated on the same scenes.

    Scenes differ more than forecasters do, so that measures are compared scene by scene: intervals
    are bootstrap intervals of the mean difference, and p-values are those of a permutation test
    that exchanges the two forecasters in random scenes. If the evaluations have groups, whole
    groups are resampled and exchanged.

    Parameters
    ----------
    a, b : Evaluation
        Evaluations of the same scenes, with the same settings.
    names : pair of str
        Names of the two forecasters.
    ignore : sequence of str
        Settings that may differ, "estimator" for instance.
    confidence : float, default=0.95
        Confidence of the intervals.
    n_replicates : int, default=1000
        Number of bootstrap replicates of the scenes.
    n_permutations : int, default=1999
        Number of permutations for p-values.
    random_state : int, RandomState instance or None, default=0

    Returns
    -------
    Comparison
        With the measures that both have.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.forecast import compare, evaluate
    >>> walks = np.random.RandomState(0).standard_normal((60, 21, 4, 2)).cumsum(axis=2)
    >>> truth, predictions = walks[:, 0], walks[:, 1:]
    >>> measures = ("nll_step", "energy_score")
    >>> right = evaluate(predictions, truth, measures=measures)
    >>> wrong = evaluate(0.2 * predictions, truth, measures=measures)
    >>> comparison = compare(right, wrong, names=("right", "wrong"))
    >>> comparison["energy_score"].difference < 0, comparison["energy_score"].p_value < 0.01
    (True, True)
    """
    check_evaluation(a, "a")
    check_evaluation(b, "b")
    check_comparable(a, b, ignore, names)
    check_confidence(confidence)
    n_replicates = check_count(n_replicates, "n_replicates", least=2)
    n_permutations = check_count(n_permutations, "n_permutations", least=1)
    if len(tuple(names)) != 2:
        raise ValueError(f"names must be two, got {names!r}")
    others = {row.measure for row in b.summary}
    both = [row.measure for row in a.summary if row.measure in others]
    if not both:
        raise ValueError("a and b have no measure in common")
    rng = random_generator(random_state)
    pairs = {name: (a, b, name) for name in both}
    rows = paired_differences(pairs, confidence, n_replicates, n_permutations, rng)
    given = (str(names[0]), str(names[1]))
    return Comparison(tuple(rows.values()), given, a.settings, float(confidence))


def paired_differences(
    pairs: Mapping[K, tuple[Evaluation, Evaluation, str]],
    confidence: float,
    n_replicates: int,
    n_permutations: int,
    rng: np.random.RandomState,
) -> dict[K, Difference]:
    """Return the differences of pairs of evaluations of the same scenes, each in a measure."""
    if not pairs:
        return {}
    n_groups = next(iter(pairs.values()))[0].grouping.n_groups
    paired = {key: _paired(*pair) for key, pair in pairs.items()}
    intervals = bootstrap(paired, n_groups, n_replicates, confidence, rng)
    p_values = _p_values(list(paired.values()), n_groups, n_permutations, rng)
    return {
        key: Difference(
            measure=pairs[key][2],
            first=pair.first,
            second=pair.second,
            difference=pair.first - pair.second,
            **{limit: float(value) for limit, value in intervals[key]._asdict().items()},
            p_value=p_value,
            n_scenes=pair.n_scenes,
            n_better=pair.n_better,
        )
        for (key, pair), p_value in zip(paired.items(), p_values, strict=True)
    }


def check_evaluation(value: Any, name: str) -> None:
    """Refuse anything but an evaluation."""
    if not isinstance(value, Evaluation):
        raise TypeError(f"{name} must be an Evaluation, got {type(value).__name__}")


def check_comparable(
    a: Evaluation, b: Evaluation, ignore: Sequence[str], names: Sequence[str]
) -> None:
    """Refuse evaluations of different scenes or with different settings."""
    both = " and ".join(map(str, names))
    compared = [name for name in a.settings if name not in _FREE]
    known = [name for name in compared if name not in _SCENES]
    unknown = [name for name in ignore if name not in known]
    if unknown:
        raise ValueError(f"ignore must be among {known}, got {unknown}")
    differing = [
        f"{name} ({a.settings[name]!r} and {b.settings.get(name)!r})"
        for name in compared
        if name not in ignore and a.settings[name] != b.settings.get(name)
    ]
    if differing:
        raise ValueError(f"{both} cannot be compared, they differ in {', '.join(differing)}")
    if not np.array_equal(a.names, b.names):
        raise ValueError(f"{both} cannot be compared, their scenes have different names")
    if not np.array_equal(a.grouping.codes, b.grouping.codes):
        raise ValueError(f"{both} cannot be compared, their scenes have different groups")


def _paired(a: Evaluation, b: Evaluation, name: str) -> "_Means | _Calibrations":
    if name == "ece":
        return _Calibrations(a.levels, b.levels, a.grouping)
    return _Means(a.scenes[name], b.scenes[name], a.grouping)


class _Means(GroupedMean):
    """The mean difference in a measure of single scenes."""

    def __init__(self, first: np.ndarray, second: np.ndarray, grouping: Grouping) -> None:
        apart = first - second
        super().__init__(apart, grouping)
        self.first, self.second = (
            GroupedMean(np.where(np.isnan(apart), np.nan, each), grouping).value
            for each in (first, second)
        )
        self.n_better = float((apart < 0).sum() + 0.5 * (apart == 0).sum())

    def exchanged(self, swaps: np.ndarray) -> np.ndarray:
        """Return differences (B,) with the two exchanged in groups where swaps (B, G) are 1."""
        return (1.0 - 2.0 * swaps) @ self.totals / max(self.sizes.sum(), 1.0)


class _Calibrations:
    """The difference of calibration errors, a measure of all scenes together."""

    n_better = float("nan")

    def __init__(self, first: np.ndarray, second: np.ndarray, grouping: Grouping) -> None:
        apart = first - second
        levels = [np.where(np.isnan(apart), np.nan, each) for each in (first, second)]
        codes, n_groups = grouping.codes, grouping.n_groups
        both = Grouping(np.append(codes, codes + n_groups), 2 * n_groups, grouping.by_group)
        self._both = Calibration(np.concatenate(levels), both)
        self.first, self.second = (Calibration(each, grouping).value for each in levels)
        self.value = self.first - self.second
        self.n_scenes, self._effective = self._both.n_scenes // 2, self._both.effective / 2

    def _differences(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return differences (B,) between groups of the two forecasters and the exchanged ones."""
        pairs = (first, second), (second, first)
        one, other = (self._both.replicates(np.concatenate(each, axis=1)) for each in pairs)
        return np.asarray(one - other)

    def replicates(self, weights: np.ndarray) -> np.ndarray:
        """Return the differences with weights (B, G) of groups."""
        return self._differences(weights, np.zeros_like(weights))

    def interval(self, replicates: np.ndarray, confidence: float) -> Interval:
        """Return standard error and limits."""
        return percentile_interval(replicates, confidence, self._effective)

    def exchanged(self, swaps: np.ndarray) -> np.ndarray:
        """Return differences (B,) with the two exchanged in groups where swaps (B, G) are 1."""
        return self._differences(1 - swaps, swaps)


def _p_values(
    compared: Sequence[_Means | _Calibrations],
    n_groups: int,
    n_permutations: int,
    rng: np.random.RandomState,
) -> list[float]:
    """Return the fractions of permutations with at least the observed difference."""
    found = np.array([abs(each.value) for each in compared])
    as_large = np.ones(len(compared))
    for block in gen_batches(n_permutations, max(1, _BLOCK_SIZE // n_groups)):
        swaps = rng.randint(2, size=(block.stop - block.start, n_groups)).astype(np.float64)
        others = np.array([np.abs(each.exchanged(swaps)) for each in compared])
        # Equal differences may differ by rounding.
        as_large += (others >= found[:, None] * (1 - 1e-12)).sum(axis=1)
    return [
        float(count / (n_permutations + 1)) if np.isfinite(value) else float("nan")
        for count, value in zip(as_large, found, strict=True)
    ]
