"""Groups of dependent scenes, and figures over all scenes with errors by group."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy.special import ndtr, stdtrit

from ..metrics.density_metrics import LEVELS

K = TypeVar("K", bound=Hashable)

#: Fewer groups have intervals by Student's distribution: their resamples are too often constant.
_FEW_GROUPS = 5
#: Weights of groups in replicates that are drawn together; more of them leave the cache.
_BATCH = 2**16
#: Bootstrap quantiles in units of Student's quantiles are at most this large, so that intervals are
#: finite if many resamples are constant, as those of rare misses.
_MAX_RATIO = 3.0


def check_group_labels(labels: Any, n_scenes: int, name: str) -> np.ndarray:
    """Return labels (n_scenes,), strings or numbers."""
    out = np.asarray(labels)
    if out.dtype.kind == "O" and len({isinstance(each, str) for each in out.flat}) == 1:
        out = np.array(out.tolist())
    if out.shape != (n_scenes,):
        raise ValueError(
            f"{name} must have one label for each of {n_scenes} scenes, got {out.shape}"
        )
    if out.dtype.kind not in "biufUSM":
        raise TypeError(f"{name} must be strings or numbers, got dtype {out.dtype}")
    if out.dtype.kind in "fM" and (out != out).any():
        raise ValueError(f"{name} must not be NaN")
    return np.array(out)


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of scenes by number, and whether a mean is one of group means."""

    codes: np.ndarray  # (S,), numbers of the groups in order of appearance
    n_groups: int
    by_group: bool = False

    @classmethod
    def of(cls, labels: np.ndarray | None, n_scenes: int, average: str = "scene") -> "Grouping":
        """Return the groups with these labels; without labels, every scene is a group."""
        if labels is None:
            return cls(np.arange(n_scenes), n_scenes, average == "group")
        values, first, codes = np.unique(labels, return_index=True, return_inverse=True)
        return cls(first.argsort().argsort()[codes], len(values), average == "group")

    def __getitem__(self, scenes: np.ndarray) -> "Grouping":
        """Return the groups of some of the scenes."""
        average = "group" if self.by_group else "scene"
        return Grouping.of(self.codes[scenes], int(np.count_nonzero(scenes)), average)

    @property
    def effective(self) -> float:
        r"""The effective number of groups, :math:`(\sum_g n_g)^2 / \sum_g n_g^2` with sizes n_g."""
        return effective_groups(np.bincount(self.codes))


def effective_groups(sizes: np.ndarray) -> float:
    """Return Kish's effective number of groups with these sizes (G,)."""
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if sizes.any() else 0.0


class Interval(NamedTuple):
    """Standard error and limits of the interval of a statistic."""

    standard_error: Any
    low: Any
    high: Any


class Statistic(Protocol):
    """A figure over all scenes."""

    def replicates(self, weights: np.ndarray) -> np.ndarray:
        """Return what the interval needs of bootstrap replicates with weights (B, G) of groups."""

    def interval(self, replicates: np.ndarray, confidence: float) -> Interval:
        """Return the interval of these replicates (B, ...)."""


def bootstrap(
    statistics: Mapping[K, Statistic],
    n_groups: int,
    n_replicates: int,
    confidence: float,
    rng: np.random.RandomState,
) -> dict[K, Interval]:
    """Return intervals of statistics, all from the same bootstrap replicates of the groups."""
    size = max(1, _BATCH // max(n_groups, 1))
    found: dict[K, list[np.ndarray]] = {name: [] for name in statistics}
    for start in range(0, n_replicates, size):
        n = min(size, n_replicates - start)
        drawn = rng.randint(n_groups, size=(n, n_groups)) + n_groups * np.arange(n)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=n * n_groups).astype(np.float64)
        for name, statistic in statistics.items():
            found[name].append(statistic.replicates(weights.reshape(n, n_groups)))
    if not n_replicates:
        return {name: each.interval(np.empty(0), confidence) for name, each in statistics.items()}
    return {
        name: each.interval(np.concatenate(found[name]), confidence)
        for name, each in statistics.items()
    }


class GroupedMean:
    r"""The mean of values (S,) without NaN, with an error that is clustered by group.

    With totals :math:`t_g` and sizes :math:`n_g` of the groups, :math:`N = \sum_g n_g`, the mean is
    :math:`m = \sum_g t_g / N`, and its squared standard error
    :math:`\sum_g (t_g - m n_g)^2 / (1 - n_g / N) / N^2` (CR2 of Bell and McCaffrey, 2002). For
    groups of one scene it is the usual one.

    The interval is that of the studentized bootstrap, widened by the ratio of Student's quantiles
    for the effective number of groups and for their number. The effective number is Kish's, or that
    of Satterthwaite's degrees of freedom with the kurtosis of the residuals of groups, if less.
    """

    def __init__(self, values: np.ndarray, grouping: Grouping) -> None:
        valid = ~np.isnan(values)
        codes, n_groups = grouping.codes[valid], grouping.n_groups
        self.totals: np.ndarray = np.bincount(codes, weights=values[valid], minlength=n_groups)
        self.sizes = np.bincount(codes, minlength=n_groups).astype(np.float64)
        if grouping.by_group:
            self.totals = self.totals / np.maximum(self.sizes, 1.0)
            self.sizes = np.minimum(self.sizes, 1.0)
        self.averaged = self.totals[self.sizes > 0] if grouping.by_group else values[valid]
        self.n_scenes, self.n_groups = len(codes), int(np.count_nonzero(self.sizes))
        self.value = float(self.totals.sum() / self.sizes.sum()) if len(codes) else float("nan")
        self._residuals = self.totals - self.value * self.sizes
        self._squares = np.stack([self._residuals**2, self._residuals * self.sizes, self.sizes**2])

    @property
    def standard_error(self) -> float:
        """The standard error of the mean; NaN for a single group."""
        if self.n_groups < 2:
            return float("nan")
        total = self.sizes.sum()
        squares = self._residuals**2 / (1.0 - self.sizes / total)
        return float(np.sqrt(squares.sum()) / total)

    def replicates(self, weights: np.ndarray) -> np.ndarray:
        """Return the deviations of the means of replicates, divided by their standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            deviations = weights @ self._residuals / (weights @ self.sizes)
            own, mixed, sizes = (weights @ self._squares.T).T
            squares = own - 2 * deviations * mixed + deviations**2 * sizes
            errors = np.sqrt(np.maximum(squares, 0.0)) / (weights @ self.sizes)
            return np.asarray(deviations / errors)

    def _n_by_kurtosis(self) -> float:
        """Return the number of normal groups whose variance is known as well as that of these."""
        squares = (self._residuals / max(np.abs(self._residuals).max(initial=0.0), 1e-300)) ** 2
        excess = self.n_groups * (squares**2).sum() - squares.sum() ** 2
        return 1.0 + 2 * self.n_groups * squares.sum() ** 2 / excess if excess > 0 else np.inf

    def interval(self, replicates: np.ndarray, confidence: float) -> Interval:
        """Return standard error and limits; the limits of a single group are NaN."""
        error, kept = self.standard_error, replicates[~np.isnan(replicates)]
        outside = (1 - confidence) / 2
        limit = _student(1 - outside, min(effective_groups(self.sizes), self._n_by_kurtosis()))
        upper, lower = limit, -limit
        if self.n_groups >= _FEW_GROUPS and len(kept):
            usual = _student(1 - outside, self.n_groups)
            within = np.clip(kept / usual, -_MAX_RATIO, _MAX_RATIO)
            upper, lower = limit * np.quantile(within, [1 - outside, outside])
        if not len(replicates):
            upper = lower = float("nan")
        return Interval(error, self.value - error * upper, self.value - error * lower)


class Shares:
    """The fraction of truths with a level (S, P) within each bound."""

    def __init__(self, levels: np.ndarray, bounds: np.ndarray, grouping: Grouping) -> None:
        scenes, truths = np.nonzero(~np.isnan(levels))
        self._bins = np.searchsorted(bounds, levels[scenes, truths], side="left")
        self._groups, self._n_bounds = grouping.codes[scenes], len(bounds)
        sizes = np.bincount(self._groups, minlength=grouping.n_groups).astype(np.float64)
        self._base = 1.0 / sizes[self._groups] if grouping.by_group else np.ones(len(scenes))
        self.effective = effective_groups(np.minimum(sizes, 1) if grouping.by_group else sizes)
        self.value = self.replicates(np.ones((1, grouping.n_groups)))[0]

    def replicates(self, weights: np.ndarray) -> np.ndarray:
        """Return the fractions with weights (B, G) of groups; NaN without any truth."""
        each, n_bins = self._base * weights[:, self._groups], self._n_bounds + 1
        bins = self._bins + n_bins * np.arange(len(weights))[:, None]
        counts = np.bincount(bins.ravel(), each.ravel(), minlength=n_bins * len(weights))
        up_to = counts.reshape(-1, n_bins).cumsum(axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(up_to[:, :-1] / counts.reshape(-1, n_bins).sum(axis=1)[:, None])

    def interval(self, replicates: np.ndarray, confidence: float) -> Interval:
        """Return standard errors and limits at all bounds."""
        columns = replicates.reshape(-1, self._n_bounds).T
        found = [percentile_interval(each, confidence, self.effective) for each in columns]
        return Interval(*np.array(found).T)


class Calibration:
    """The mean distance between levels (S, P) and the fraction of truths within them."""

    standard_error = float("nan")  # only the bootstrap has one

    def __init__(self, levels: np.ndarray, grouping: Grouping) -> None:
        self._shares = Shares(levels, LEVELS, grouping)
        self.effective, self.averaged = self._shares.effective, np.empty(0)
        valid = ~np.isnan(levels).all(axis=1)
        self.n_scenes, self.n_groups = int(valid.sum()), len(set(grouping.codes[valid]))
        self.value = float(self.replicates(np.ones((1, grouping.n_groups)))[0])

    def replicates(self, weights: np.ndarray) -> np.ndarray:
        """Return the distances with weights (B, G) of groups."""
        return np.asarray(np.abs(self._shares.replicates(weights) - LEVELS).mean(axis=1))

    def interval(self, replicates: np.ndarray, confidence: float) -> Interval:
        """Return standard error and limits.

        The distance of a replicate is biased upwards, by the noise of the scenes and of
        resampling: the interval is reflected at the distance.
        """
        error, low, high = percentile_interval(replicates, confidence, self.effective)
        value = self.value
        return Interval(error, np.maximum(0, 2 * value - high), np.maximum(value, 2 * value - low))


def percentile_interval(values: np.ndarray, confidence: float, effective: float) -> Interval:
    """Return the interval of replicates (B,) of a statistic, widened for few groups.

    The percentiles are those of Student's quantiles for the effective number of groups; see
    Hesterberg, What teachers should know about the bootstrap, 2015, on expanded percentiles.
    """
    kept = values[np.isfinite(values)]
    if len(kept) < 2 or effective <= 1:
        return Interval(*[float("nan")] * 3)
    factor = np.sqrt(effective / (effective - 1))
    outside = ndtr(factor * _student((1 - confidence) / 2, effective))
    low, high = np.quantile(kept, [outside, 1 - outside])
    return Interval(float(factor * kept.std(ddof=1)), float(low), float(high))


def _student(probability: float, n_groups: float) -> float:
    """Return a quantile of Student's distribution for a number of groups."""
    return float(stdtrit(max(n_groups - 1.0, 1.0), probability))
