"""Figures of all rows, put together from those of partitions."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from .partitions import Delayed, task

#: Results that are put together at a time.
_FAN_IN = 8


def reduce_tree(parts: Sequence[Delayed], combine: Callable[..., Any], *args: Any) -> Delayed:
    """Put results together, a few at a time, ``combine`` being given a list of them."""
    combined, level = task(combine), list(parts)
    while len(level) > 1:
        level = [
            combined(level[i : i + _FAN_IN], *args) if len(level) - i > 1 else level[i]
            for i in range(0, len(level), _FAN_IN)
        ]
    return level[0]


class Moments(NamedTuple):
    r"""Counts, means and scatters of the clusters of some rows.

    The scatter :math:`\sum (x - m)(x - m)^\top = R^\top R` is kept as its triangular factor, which
    does not lose narrow directions beside wide ones as sums of squares do.
    """

    counts: np.ndarray  #: (n_clusters,)
    shifts: np.ndarray  #: (n_clusters, n_features) the means, from given origins
    factors: np.ndarray  #: (n_clusters, n_features, n_features) the factors R

    @classmethod
    def of(cls, X: np.ndarray, places: np.ndarray, origins: np.ndarray) -> "Moments":
        """Return the moments of rows, whose cluster is one of those around the origins."""
        n_clusters, n_features = origins.shape
        counts = np.bincount(places, minlength=n_clusters)
        out = cls(counts, np.zeros(origins.shape), np.zeros((*origins.shape, n_features)))
        for c in np.flatnonzero(counts):
            members = X[places == c]
            # From one of the members, so that equal ones have no scatter at all.
            deviations = members - members[0]
            shift = deviations.mean(axis=0)
            out.shifts[c] = members[0] - origins[c] + shift
            out.factors[c] = _factor(deviations - shift)
        return out

    @classmethod
    def joint(cls, parts: "Sequence[Moments]") -> "Moments":
        """Return the moments of the rows of several partitions together."""
        return reduce(_joint, parts)

    def covariances(self, unit: float) -> np.ndarray:
        """Return the covariances of clusters that have rows, if one unit is so long."""
        factors, counts = self.factors[self.counts > 0] * unit, self.counts[self.counts > 0]
        with np.errstate(over="ignore"):
            scatters = factors.transpose(0, 2, 1) @ factors
        return np.asarray(scatters / np.maximum(counts - 1, 1)[:, None, None])


def _joint(first: Moments, second: Moments) -> Moments:
    """Put two partitions together, by the update of Chan, Golub and LeVeque."""
    counts = first.counts + second.counts
    apart = second.shifts - first.shifts
    with np.errstate(invalid="ignore"):  # a cluster may have no rows in either
        share = np.where(counts > 0, second.counts / counts, 0.0)
    between = np.sqrt(first.counts * share)[:, None] * apart
    stacked = np.concatenate([first.factors, second.factors, between[:, None]], axis=1)
    shifts = np.where((first.counts > 0)[:, None], first.shifts, second.shifts)
    both = (first.counts > 0) & (second.counts > 0)
    shifts[both] += share[both, None] * apart[both]
    return Moments(counts, shifts, np.asarray(np.linalg.qr(stacked, mode="r")))


def _factor(deviations: np.ndarray) -> np.ndarray:
    """Return the triangular factor of deviations, filled up to a square."""
    factor = np.linalg.qr(deviations, mode="r")
    out = np.zeros((deviations.shape[1],) * 2)
    out[: len(factor)] = factor
    return out
