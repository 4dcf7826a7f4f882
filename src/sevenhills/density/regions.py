"""Densities that are evaluated and sampled, and their highest-density regions."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..estimate import Estimate, mean_with_error
from ..extras import import_extra
from ..validation import check_confidence, check_count, check_flag

#: Sets of draws whose log densities are cached.
_MAX_CACHED = 4
#: Log densities are clipped this far below the level, in nats.
_DEPTH = 30.0
#: The first margin of a grid around the draws, relative to their spread.
_MARGIN = 0.1
#: A grid is widened this many times at most, each time by twice as much.
_MAX_GRIDS = 12
#: Steps after which a crossing is found to rounding, if not before.
_MAX_STEPS = 40
#: Log densities this close to the level, relatively, are on the level.
_CLOSE = 1e-14


class Density(ABC):
    """A density: ``logpdf``, ``sample``, and questions that need only these two.

    Some arguments of methods are always the same: ``X`` is array-like of shape (n_samples,
    n_features), ``confidence`` a probability between 0 and 1, ``n_draws`` the number of draws by
    which an answer is estimated, ``random_state`` an int, a generator of numpy or None, which means
    other draws in every call, and ``n_jobs`` the number of threads.
    """

    #: Whether the density integrates to one.
    is_normalized: ClassVar[bool] = True

    @property
    @abstractmethod
    def n_features(self) -> int:
        """The dimension of the space."""

    @abstractmethod
    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the logarithm of the density at every row of ``X``."""

    @abstractmethod
    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw independent samples."""

    @property
    def frame(self) -> np.ndarray:
        """The limits (2, n_features) of the features, infinite where there are none.

        Those of a feature on a circle are one turn, from a value with a low density.
        """
        return np.array([[-np.inf], [np.inf]]).repeat(self.n_features, axis=1)

    def unrolled(self, X: np.ndarray) -> np.ndarray:
        """Return points with features on circles moved to the turn of the ``frame``."""
        return X

    def __getstate__(self) -> dict[str, Any]:
        """Leave cached values out of pickles and copies."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def pdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the density at every row of ``X``; see :meth:`logpdf`."""
        return np.exp(self.logpdf(X, n_jobs))

    def entropy(
        self, n_draws: int = 10_000, random_state: Any = 0, n_jobs: int | None = None
    ) -> Estimate:
        r"""Return the differential entropy, in nats, with its standard error.

        .. math:: H = -\int p(x) \log p(x) \, dx

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> unit.entropy()  # exactly log(2 pi e) / 2 = 1.419
        1.410 ± 0.007
        """
        values = self._log_densities(n_draws, random_state, n_jobs)
        mean, error = mean_with_error(values)
        return Estimate(-mean, error, len(values))

    def hdr_level(
        self,
        confidence: float,
        n_draws: int = 10_000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> Estimate:
        r"""Return the log density at the boundary of a highest-density region.

        .. math:: P\big(\log p(x) \ge \ell\big) = \text{confidence}

        The region :math:`\{x : \log p(x) \ge \ell\}` is the smallest of that probability. The level
        is a quantile of the log densities of draws; its ``std_error`` is NaN if these are too few.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> unit.hdr_level(0.5)  # exactly the log density at 0.674, -1.146
        -1.141 ± 0.005
        """
        share = 1.0 - check_confidence(confidence)
        values = self._log_densities(n_draws, random_state, n_jobs)
        level = float(np.quantile(values, share, method="inverted_cdf"))
        return Estimate(level, _quantile_error(values, share), len(values))

    def hdr_probability(
        self,
        X: Any,
        n_draws: int = 10_000,
        random_state: Any = 0,
        *,
        return_std: bool = False,
        n_jobs: int | None = None,
    ) -> Any:
        r"""Return the probability of the smallest highest-density region that contains each row.

        .. math:: c(x) = P\big(p(y) > p(x)\big), \quad y \sim p

        It is 0 at the highest mode and 1 far away. For draws from the density itself it is
        uniform. New data come from another distribution than the estimated density, and samples
        to which it was fitted lie too high: for neither is :math:`1 - c(x)` a p-value.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_draws : int, default=10000
            The number of draws. Their log densities are cached for the next call if
            ``random_state`` is an integer.
        return_std : bool, default=False
            Whether to also return standard errors.

        Returns
        -------
        probabilities : ndarray of shape (n_samples,)
            Between 0 and 1; 1 where the density is zero.
        std : ndarray of shape (n_samples,)
            The binomial standard error of every value, only if ``return_std``. It is positive
            even where all draws agree.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture.from_covariances([1.0], [[0.0]], [[1.0]])
        >>> unit.hdr_probability([[0.0], [1.0], [-1.96]]).round(2)
        array([0.  , 0.69, 0.95])
        """
        check_flag(return_std, "return_std")
        drawn = self._log_densities(n_draws, random_state, n_jobs)
        found = self.logpdf(X, n_jobs)
        n_higher = len(drawn) - np.searchsorted(drawn, found, side="right")
        out = np.where(np.isneginf(found), 1.0, n_higher / len(drawn))
        if not return_std:
            return out
        # One more draw on either side, so that a share of zero is not taken as certain.
        share = (n_higher + 1) / (len(drawn) + 2)
        return out, np.sqrt(share * (1 - share) / len(drawn))

    def hdr_intervals(
        self,
        confidence: float,
        n_grid: int = 4096,
        n_draws: int = 10_000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        """Return the highest-density region of one feature, as ascending intervals (n, 2).

        The ends of intervals are searched between ``n_grid`` values; draws give :meth:`hdr_level`.
        On a circle, an interval across the end of a turn ends on the next one.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture.from_covariances([0.5, 0.5], [[-9.0], [9.0]], [[1.0]])
        >>> hills.hdr_intervals(0.95).round(1)
        array([[-10.9,  -7.1],
               [  7.1,  10.9]])
        """
        check_confidence(confidence)
        check_dimension(self, 1, "hdr_intervals", "marginal(feature) first")
        n_grid = check_count(n_grid, "n_grid", least=4)
        region = self._region(confidence, n_draws, random_state, n_jobs)
        found = region.intervals(
            self.unrolled(np.asarray(self.sample(n_draws, random_state))), n_grid
        )
        return self._joined(found)

    def _joined(self, intervals: np.ndarray) -> np.ndarray:
        """Join intervals at both ends of the turn of a circle."""
        low, high = self.frame[:, 0]
        is_circle = self.unrolled(np.array([[high]]))[0, 0] == low
        if not is_circle or len(intervals) < 2 or tuple(intervals.flat[[0, -1]]) != (low, high):
            return intervals
        last = intervals[-1, 0], intervals[0, 1] + high - low
        return np.vstack([intervals[1:-1], last])

    def hdr_contours(
        self,
        confidence: float,
        n_grid: int = 256,
        n_draws: int = 10_000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> list[np.ndarray]:
        """Return the outlines of the highest-density region of a density of two features.

        Needs contourpy, which comes with matplotlib: ``pip install 'sevenhills[plot]'``. An outline
        (n_vertices, 2) is a closed polygon: the first vertex is also the last. Outlines are
        counter-clockwise around the region, and clockwise around holes. Every vertex is on the
        level, or on a limit of the ``frame``; draws give :meth:`hdr_level`.

        Parameters
        ----------
        n_grid : int, default=256
            The number of grid lines for every feature, dense where draws are. Parts of the region
            that fit between grid lines may be missed.

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], np.eye(2))
        >>> (outline,) = plane.hdr_contours(0.5)
        >>> np.linalg.norm(outline, axis=1).round(1)[:3]  # about sqrt(2 log 2) = 1.18
        array([1.2, 1.2, 1.2])
        """
        check_confidence(confidence)
        check_dimension(self, 2, "hdr_contours", "marginal([i, j]) first")
        n_grid = check_count(n_grid, "n_grid", least=4)
        region = self._region(confidence, n_draws, random_state, n_jobs)
        return region.contours(
            self.unrolled(np.asarray(self.sample(n_draws, random_state))), n_grid
        )

    def _region(
        self, confidence: float, n_draws: int, random_state: Any, n_jobs: int | None
    ) -> "LevelSet":
        level = self.hdr_level(confidence, n_draws, random_state, n_jobs)
        return LevelSet(lambda X: self.logpdf(X, n_jobs), float(level), self.frame)

    def _log_densities(self, n_draws: Any, random_state: Any, n_jobs: int | None) -> np.ndarray:
        """Return the log densities of draws, ascending."""
        n_draws = check_count(n_draws, "n_draws", least=1)
        if not self.is_normalized:
            raise ValueError(
                f"a {type(self).__name__} is not normalized: its regions have no probability"
            )
        is_seed = isinstance(random_state, Integral) and not isinstance(random_state, bool)
        key = (n_draws, int(random_state) if is_seed else None)
        values = self._drawn.get(key)
        if values is None:
            draws = np.asarray(self.sample(n_draws, random_state))
            values = np.sort(self.logpdf(draws, n_jobs))
            values.flags.writeable = False
            if is_seed:
                # The oldest are dropped; another thread may drop the same ones.
                for old in list(self._drawn)[: -_MAX_CACHED + 1]:
                    self._drawn.pop(old, None)
                self._drawn[key] = values
        return values

    @cached_property
    def _drawn(self) -> dict[tuple[int, int | None], np.ndarray]:
        """The log densities of draws, by their number and seed."""
        return {}


def check_dimension(density: Density, wanted: int, question: str, remedy: str) -> None:
    """Raise an error unless a density has the number of features that a question needs."""
    if density.n_features != wanted:
        raise ValueError(
            f"{question} is for {wanted} feature(s), but this density has {density.n_features}; "
            f"take {remedy}"
        )


def _quantile_error(values: np.ndarray, share: float) -> float:
    """Return the standard error of a quantile of sorted values, whatever their distribution.

    Ranks that differ by one binomial standard deviation give values one standard error apart.
    """
    n = len(values)
    spread = np.sqrt(n * share * (1.0 - share))
    low, high = n * share - spread, n * share + spread
    if low < 0 or high > n - 1:
        return float("nan")
    below, above = np.interp([low, high], np.arange(n), values)
    return float(above - below) / 2


# Regions on grids


class LevelSet(NamedTuple):
    """The region in which a log density is above a level, found on a grid around draws."""

    logpdf: Callable[[np.ndarray], np.ndarray]
    level: float
    frame: np.ndarray

    def intervals(self, drawn: np.ndarray, n_grid: int) -> np.ndarray:
        """Return the region of one feature as intervals (n, 2)."""
        axes = self._axes_around(drawn, n_grid)
        above = self._heights_on(axes) > 0
        before = np.flatnonzero(above[1:] != above[:-1])
        steps = np.where(above[before], 0, 1)
        inner, outer = axes[0][before + steps], axes[0][before + 1 - steps]
        return self._crossings(inner[:, None], outer[:, None]).reshape(-1, 2)

    def contours(self, drawn: np.ndarray, n_grid: int) -> list[np.ndarray]:
        """Return closed polygons around the region of two features, which is on their left."""
        library = import_extra("contourpy", "plot", "hdr_contours needs contourpy")
        axes = self._axes_around(drawn, n_grid)
        heights = self._heights_on(axes)
        tracer = library.contour_generator(
            *axes, heights.T, name="serial", line_type=library.LineType.Separate
        )
        polygons = [np.array(polygon) for polygon in tracer.lines(0.0)]
        if not polygons:
            return []
        vertices = self._moved_to_level(np.concatenate(polygons), axes, heights)
        return np.split(vertices, np.cumsum([len(polygon) for polygon in polygons])[:-1])

    def _heights(self, points: np.ndarray) -> np.ndarray:
        return np.maximum(self.logpdf(points) - self.level, -_DEPTH)

    def _axes_around(self, drawn: np.ndarray, n_grid: int) -> list[np.ndarray]:
        """Return grid lines of every feature.

        The grid's boundary is outside of the region, or at a limit of the frame.
        """
        log_densities = self.logpdf(drawn)
        inside = drawn[log_densities >= min(self.level, log_densities.max())]
        spread = np.ptp(inside, axis=0)
        spread = np.where(spread > 0, spread, np.ptp(drawn, axis=0))
        margin = _MARGIN * np.where(spread > 0, spread, 1e-3 * (np.abs(drawn[0]) + 1e-6))
        for _ in range(_MAX_GRIDS):
            axes = [
                _lines(*each, n_grid) for each in zip(inside.T, margin, self.frame.T, strict=True)
            ]
            points, ends = _points_on(axes), [axis[[0, -1]] for axis in axes]
            is_open = (np.transpose(ends) != self.frame)[:, None]
            outer = ((points == np.transpose(ends)[:, None]) & is_open).any(axis=(0, 2))
            if not outer.any() or (self.logpdf(points[outer]) < self.level).all():
                break
            margin = 2 * margin
        return axes

    def _heights_on(self, axes: list[np.ndarray]) -> np.ndarray:
        """Return the log density minus the level on a grid, far below it at the boundary."""
        heights = self._heights(_points_on(axes)).reshape([len(axis) for axis in axes])
        return np.pad(heights[(slice(1, -1),) * len(axes)], 1, constant_values=-_DEPTH)

    def _moved_to_level(
        self, vertices: np.ndarray, axes: list[np.ndarray], heights: np.ndarray
    ) -> np.ndarray:
        """Move vertices on the lines of a grid along these lines to the level."""
        at = np.stack(
            [
                np.interp(x, axis, np.arange(len(axis)))
                for x, axis in zip(vertices.T, axes, strict=True)
            ]
        )
        # A vertex moves along the feature in whose cell it is farthest from the ends.
        along = np.abs(at % 1 - 0.5).argmin(axis=0) == np.arange(len(axes))[:, None]
        first = np.where(along, np.floor(at), np.rint(at)).astype(np.int64)
        second = first + along
        above = heights[tuple(first)] > 0
        crossed = above != (heights[tuple(second)] > 0)
        ends = [
            np.stack([axis[i] for axis, i in zip(axes, nodes, strict=True)], axis=1)
            for nodes in (first, second)
        ]
        inner, outer = np.where(above[:, None], ends, ends[::-1])[:, crossed]
        out = vertices.copy()
        out[crossed] = self._crossings(inner, outer)
        return out

    def _crossings(self, inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
        """Return the points where segments from inside the region to outside cross the level.

        They are found by false position; the value of an end that is kept twice is halved (the
        Illinois rule).
        """
        low, high = np.zeros(len(inner)), np.ones(len(inner))
        f_low = self._heights(inner)
        f_high = np.minimum(self._heights(outer), -np.finfo(float).tiny)
        was_above = np.zeros(len(inner), dtype=bool)
        for i in range(_MAX_STEPS):
            at = low + (high - low) * (f_low / (f_low - f_high))
            points = inner + at[:, None] * (outer - inner)
            f = self._heights(points)
            if (np.abs(f) <= _CLOSE * (1.0 + abs(self.level))).all():
                break
            above = f > 0
            again = (above == was_above) & (i > 0)
            f_low = np.where(above, f, np.where(again, 0.5 * f_low, f_low))
            f_high = np.where(above, np.where(again, 0.5 * f_high, f_high), f)
            low, high = np.where(above, at, low), np.where(above, high, at)
            was_above = above
        return points


def _lines(values: np.ndarray, margin: float, limits: np.ndarray, n_grid: int) -> np.ndarray:
    """Return grid lines around values, half of them evenly spaced, half of them at the values."""
    low, high = np.clip([values.min() - margin, values.max() + margin], *limits)
    even = np.linspace(low, high, len(values) + 2)
    return np.unique(np.quantile(np.append(values, even), np.linspace(0, 1, n_grid)))


def _points_on(axes: list[np.ndarray]) -> np.ndarray:
    """Return the points of a grid, the last feature running fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
