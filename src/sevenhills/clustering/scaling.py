r"""Scales of features, by which samples are divided before they are clustered.

The scale of a feature is a low quantile :math:`Q` of the differences between samples,

.. math:: s = \max\Big(c_{0.2} Q_{0.2}, \frac{c_{0.9} Q_{0.9}}{5}\Big), \qquad
          c_q = \frac{1}{\sqrt 2 \, \Phi^{-1}\big((1 + q) / 2\big)}

which is the standard deviation of a normal feature. In a feature with two clusters half of all
pairs are inside of a cluster, so that the scale is the spread within clusters, not the distance
between them. Pairs of equal values do not count, so that ties do not make a scale of zero.
"""

from collections.abc import Callable
from math import frexp
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ..kernels.pairs import pair_quantile
from .points import unit_of

#: A quantile of differences within clusters. From 0.05 to 0.25 densities are equally good.
_INNER = 0.2
#: A quantile of almost all differences, which limits the scale if most values are almost equal.
_OUTER = 0.9
#: Scales are at least the outer quantile divided by this, both in standard deviations of a normal
#: feature.
_RATIO = 5.0
#: Quantiles of more distinct values are those of this many evenly spaced ones.
_MOST_VALUES = 100_000
#: Scales are between this power of two and its inverse, so that kernels can be represented.
_LARGEST = 2.0**960
#: No value is farther from another than this many scales.
_FARTHEST = 2.0**900
#: Scales that differ by more than this factor are unequal: the narrower feature hardly counts in
#: distances.
_UNEQUAL = 10.0
#: The number of evenly spaced rows by which unequal scales are recognized.
_MOST_COMPARED = 1000
#: Features whose spreads differ by less than this factor are equally wide, so that a warning names
#: the same ones in similar samples.
_SIMILAR = 2.0
#: Numbers of coordinates of a step of a path. Fewer features or steps may ascend by chance.
_COORDINATES, _FEWEST_FEATURES, _FEWEST_STEPS = (1, 2, 3), 8, 4
#: The spread of a step is at least this share of that before it; samples of a path that spreads
#: evenly have ratios of 0.9 and more.
_STEADY = 0.8


def feature_scales(
    X: np.ndarray, weights: np.ndarray | None = None, kind: str = "auto"
) -> np.ndarray:
    """Return the scale of every feature, 1 for features with one value.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,), optional
        The number of samples that every row stands for; one by default.
    kind : {"auto", "std"}
        The quantile of differences, or the standard deviation.

    Returns
    -------
    ndarray of shape (n_features,)
        Finite and positive.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> one_cluster = rng.normal(size=1000)
    >>> two_clusters = rng.normal(size=1000) + rng.choice([0.0, 10.0], 1000)
    >>> X = np.stack([one_cluster, two_clusters], axis=1)
    >>> feature_scales(X).round(1), feature_scales(X, kind="std").round(1)
    (array([1. , 2.1]), array([1. , 5.1]))
    """
    if weights is not None and not weights.all():
        X, weights = X[weights > 0], weights[weights > 0]
    unit_of(X)  # refuses spreads that kernels cannot represent
    measure = SCALES[kind]
    return np.array([_scale(*_distinct(x, weights), measure) for x in X.T])


class UnequalScales(NamedTuple):
    """Features of a small and a large scale."""

    narrowest: int
    widest: int
    scales: np.ndarray  #: (2,)


def unequal_scales(X: np.ndarray, weights: np.ndarray | None = None) -> UnequalScales | None:
    """Return features of a small and a large scale that differ by more than a factor of ten.

    The features are the first of those with about the smallest and the largest interquartile range;
    features with one value do not count. The result is None if scales are closer, or if features
    are a path: the coordinates of its steps spread more and more, and share a unit.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 2.0, 30.0]
    >>> unequal_scales(X)[:2]
    (0, 2)
    >>> unequal_scales(X[:, :2]) is None
    True
    """
    if X.shape[1] == 1:
        return None
    if weights is not None:
        X, weights = X[weights > 0], weights[weights > 0]
    step = -(-len(X) // _MOST_COMPARED)
    X, weights = X[::step], None if weights is None else weights[::step]
    spreads = _spreads(X)
    features = np.flatnonzero(spreads)
    spreads = spreads[features]
    # Interquartile ranges differ from scales where a feature has clusters.
    if len(features) < 2 or spreads.max() < spreads.min() * np.sqrt(_UNEQUAL) or _is_path(spreads):
        return None
    first_narrow = (spreads < _SIMILAR * spreads.min()).argmax()
    first_wide = (spreads > spreads.max() / _SIMILAR).argmax()
    for pair in ([first_narrow, first_wide], [spreads.argmin(), spreads.argmax()]):
        narrow, wide = features[pair]
        scales = feature_scales(X[:, [narrow, wide]], weights)
        if scales[1] > _UNEQUAL * scales[0]:
            return UnequalScales(int(narrow), int(wide), scales)
    return None


def _is_path(spreads: np.ndarray) -> bool:
    """Return whether features are coordinates of steps whose spreads never shrink."""
    return any(
        len(spreads) >= max(_FEWEST_FEATURES, _FEWEST_STEPS * n)
        and bool((spreads[n:] >= _STEADY * spreads[:-n]).all())
        for n in _COORDINATES
    )


def _spreads(X: np.ndarray) -> np.ndarray:
    """Return the interquartile range of every feature, the range if that is zero."""
    columns, quarter = np.sort(X.T, axis=1), len(X) // 4
    with np.errstate(over="ignore"):
        inner = columns[:, -1 - quarter] - columns[:, quarter]
        return np.where(inner > 0, inner, columns[:, -1] - columns[:, 0])


def _distinct(x: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of a feature in ascending order, and their weights."""
    order = np.argsort(x, kind="stable")
    values = x[order]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    own = np.ones(len(x)) if weights is None else weights[order]
    return values[starts], np.add.reduceat(own, starts)


def _scale(
    values: np.ndarray, weights: np.ndarray, measure: Callable[[np.ndarray, np.ndarray], float]
) -> float:
    """Return the scale of ascending distinct values, which no extreme value makes zero."""
    if len(values) == 1:
        return 1.0
    # Differences between huge values overflow, and squares of tiny ones vanish.
    exponent = frexp(max(-values[0], values[-1]))[1]
    values = np.ldexp(values, -exponent)
    found = max(measure(values, weights / weights.sum()), (values[-1] - values[0]) / _FARTHEST)
    with np.errstate(over="ignore"):
        return float(np.ldexp(found, exponent).clip(1 / _LARGEST, _LARGEST))


def _typical_difference(values: np.ndarray, shares: np.ndarray) -> float:
    """Return the quantile of differences, in standard deviations of a normal feature."""
    if len(values) > _MOST_VALUES:
        starts = np.arange(_MOST_VALUES) * len(values) // _MOST_VALUES
        ends = np.append(starts[1:], len(values))
        values, shares = values[(starts + ends) // 2], np.add.reduceat(shares, starts)
    inner, outer = (
        pair_quantile(values, shares, q) / (np.sqrt(2) * float(ndtri((1 + q) / 2)))
        for q in (_INNER, _OUTER)
    )
    return max(inner, outer / _RATIO)


def _standard_deviation(values: np.ndarray, shares: np.ndarray) -> float:
    deviations = values - values[0]
    return float(np.sqrt(shares @ np.square(deviations - shares @ deviations)))


#: The scale of ascending distinct values and their shares, for every choice of ``scale``.
SCALES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "auto": _typical_difference,
    "std": _standard_deviation,
}
