"""Sums of kernels of many covariances in one dimension, interpolated between Chebyshev nodes.

The polynomial through the values of ``f`` at ``n`` nodes in an interval of half length ``l`` has an
error of at most ``2 (l / 2)^n / n! max |f^(n)|``. By Cramér's inequality, the derivative of a
Gaussian of height one is at most ``1.09 sqrt(n!) s^-n exp(-t^2 / 4)`` at ``t`` standard deviations
``s`` from its mean. With ``s >= l / r`` for all kernels, the error is thus below
``2.18 (r / 2)^n / sqrt(n!)`` times the sum of their heights. A narrower kernel meets this bound,
too, if its mean is at least ``l sqrt(2 n / e) / r`` away from the interval.
"""

from functools import partial
from math import e, factorial, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..kernels.mixture import NEGLIGIBLE
from .kernel_tree import ranges
from .sums import Kernels, LogSums, TreeSums

#: Nodes of an interval.
_N_NODES = 24
#: Points of an interval, at least: fewer are summed directly in the time of the nodes.
_LEAST_POINTS = 3 * _N_NODES
#: The largest ratio ``r`` of half an interval and the standard deviation of a kernel.
_MAX_RATIO = 1.4
#: Distance from an interval, by half its length, beyond which kernels may be narrower.
_MARGIN = sqrt(2 * _N_NODES / e) / _MAX_RATIO
#: Bound on the error of a polynomial, by the sum of the heights.
_REMAINDER = 2.18 * (_MAX_RATIO / 2) ** _N_NODES / sqrt(factorial(_N_NODES))
#: Bounds on the rounding errors of a polynomial, by the largest value at a node: of all values, and
#: of the nodes' places, relative to half the interval.
_ROUNDING, _ROUNDING_OF_NODES = 1e-12, 50 * float(np.finfo(float).eps)


class LineSums(NamedTuple):
    """Sums of kernels in one dimension at ascending points, up to a tolerance in the logarithm."""

    sums: TreeSums
    means: np.ndarray  #: (K,) ascending
    stds: np.ndarray  #: (K + 1,) the standard deviations in this order, and infinity
    log_height: float  #: the log of the sum of the heights

    @classmethod
    def from_kernels(cls, kernels: Kernels) -> "LineSums":
        """Prepare the sums."""
        means = kernels.means[:, 0]
        order = np.argsort(means)
        stds = 1 / np.abs(kernels.transforms[kernels.group_of_kernel[order], 0, 0])
        log_height = float(logsumexp(kernels.log_heights))
        return cls(TreeSums(kernels), means[order], np.append(stds, np.inf), log_height)

    def within(self, tol: float, negligible: float) -> LogSums:
        """Return the sum with interpolation errors below ``tol``, and otherwise as a tree does."""
        return partial(self._sum, tol, negligible)

    def _sum(self, tol: float, negligible: float, X: np.ndarray) -> np.ndarray:
        x, out = X[:, 0], np.full(len(X), np.nan)
        with np.errstate(all="ignore"):  # holds for this thread only
            starts, ends = self._intervals(x)
            if len(starts):
                rows = ranges(starts, ends - starts)
                out[rows] = self._interpolated(tol, x[rows], x[starts], x[ends - 1], ends - starts)
        is_left = np.isnan(out)
        if is_left.any():
            out[is_left] = self.sums.within_ordered(negligible)(X[is_left])
        return out

    def _intervals(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first points of short intervals, ascending, and those after their last ones.

        Intervals are halved until kernels are wide enough or points are too few.
        """
        starts, ends = np.array([0]), np.array([len(x)])
        chosen = [(starts[:0], ends[:0])]
        while len(starts):
            low, high = x[starts], x[ends - 1]
            half = 0.5 * high - 0.5 * low
            bounds = np.stack([low - _MARGIN * half, high + _MARGIN * half], axis=1)
            near = np.searchsorted(self.means, bounds.ravel())
            is_short = half <= _MAX_RATIO * np.minimum.reduceat(self.stds, near)[::2]
            is_short &= ends - starts >= _LEAST_POINTS
            chosen.append((starts[is_short], ends[is_short]))
            is_long = ~is_short & (ends - starts >= 2 * _LEAST_POINTS)
            starts, ends = starts[is_long], ends[is_long]
            middles = (starts + ends) // 2
            starts, ends = np.append(starts, middles), np.append(middles, ends)
        firsts, lasts = (np.sort(np.concatenate(each)) for each in zip(*chosen, strict=True))
        return firsts, lasts

    def _interpolated(
        self, tol: float, x: np.ndarray, low: np.ndarray, high: np.ndarray, sizes: np.ndarray
    ) -> np.ndarray:
        """Return the log sums at the points of intervals, and nan where the error is too large."""
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        angles = np.pi * (np.arange(_N_NODES) + 0.5) / _N_NODES
        nodes = middle[:, None] - half[:, None] * np.cos(angles)  # ascending
        log_sums = self.sums.within_ordered(NEGLIGIBLE)(nodes.reshape(-1, 1)).reshape(nodes.shape)
        tops = log_sums.max(axis=1)
        degrees = np.arange(_N_NODES)
        transform = 2 / _N_NODES * np.cos(angles[:, None] * degrees) * (-1.0) ** degrees
        transform[:, 0] /= 2
        series = (np.exp(log_sums - tops[:, None]) @ transform).T
        errors = _ROUNDING + _ROUNDING_OF_NODES * np.maximum(np.abs(low), np.abs(high)) / half
        errors += _REMAINDER * np.exp(self.log_height - tops)
        interval = np.repeat(np.arange(len(sizes)), sizes)
        twice = 2 * (x - middle[interval]) / half[interval]
        values, after = np.zeros((2, len(x)))
        for each in series[:0:-1]:
            values, after = each[interval] + twice * values - after, values
        values = series[0, interval] + 0.5 * twice * values - after
        is_sure = errors[interval] < 0.5 * tol * values
        return np.where(is_sure, tops[interval] + np.log(values), np.nan)
