"""Quantiles of the differences between all pairs of numbers, without a table of pairs."""

import numpy as np

from .compile import inner, kernel

#: Sums of weights that differ by this fraction are equal but for rounding.
_ROUNDING = 1e-12
#: Intervals with a larger ratio of their ends are halved on a logarithmic scale.
_WIDE = 4.0


def pair_quantile(values: np.ndarray, weights: np.ndarray, q: float) -> float:
    """Return the smallest difference such that pairs up to it have the share q of the weight.

    values : (n,), ascending, n > 1
    weights : (n,); a pair has the product of its weights
    q : float between 0 and 1
    """
    return float(_pair_quantile(values, weights, q, np.empty(len(values) + 1)))


@kernel
def _pair_quantile(values, weights, q, before):
    """Search between the smallest and the largest difference.

    ``before`` (n + 1,) is a workspace for cumulated weights.
    """
    n = values.shape[0]
    before[0] = 0.0
    low, high = np.inf, values[n - 1] - values[0]
    for i in range(n):
        before[i + 1] = before[i] + weights[i]
        if i > 0:
            low = min(low, values[i] - values[i - 1])
    below, above = 0.0, _pairs_within(values, weights, before, high)[0]
    goal = q * (1 - _ROUNDING) * above
    # Both ends are differences of pairs, so that the search ends with one of them. Every other
    # limit is interpolated, which is fast; the others halve the interval, which is safe.
    is_halved = high >= _WIDE * low
    while low < high:
        if not is_halved:
            limit = low + (high - low) * (goal - below) / (above - below)
        elif high < _WIDE * low:
            limit = 0.5 * (low + high)
        else:
            limit = np.sqrt(low) * np.sqrt(high)
        if not low <= limit < high:
            limit = low
        weight, last, following = _pairs_within(values, weights, before, limit)
        if weight >= goal:
            high, above = last, weight
        else:
            low, below = following, weight
        is_halved = not is_halved or high >= _WIDE * low
    return high


@inner
def _pairs_within(values, weights, before, limit):
    """Return the weight of pairs up to a difference, their largest one, and the next larger one."""
    n = values.shape[0]
    weight, last, following = 0.0, 0.0, np.inf
    end = 1
    for i in range(n):
        value = values[i]
        while end < n and values[end] - value <= limit:
            end += 1
        weight += weights[i] * (before[end] - before[i + 1])
        if values[end - 1] - value > last:
            last = values[end - 1] - value
        if end < n and values[end] - value < following:
            following = values[end] - value
    return weight, last, following
