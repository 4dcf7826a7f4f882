"""Scores of candidates from some of the points: as many as it takes to tell the best one.

A first sample from all points drops the candidates that are far behind. Points are then divided
into strata by the labels that the other candidates give them: where these disagree, few points make
most of the difference between two scores, and a plain sample might miss them. From every stratum
points are taken, most where they tell most, until the leader is ahead of every other candidate by
some standard errors.

Samples are drawn with a fixed seed from the points in order, so that the same data give the same
scores.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .candidates import Partitions, best_of

#: By how many standard errors a leader is ahead.
_STANDARD_ERRORS = 4.0
#: The size of the first sample. Whoever is behind by less than this goes on, whatever the errors.
_FIRST = 256
_NEAR = 0.03
#: The smallest samples of a stratum and of all.
_FEWEST = 16
_FEWEST_OF_ALL = 1024
_MOST_STRATA = 256
_GROWTH = 1.5
#: A stratum tells no less than this part of what strata tell on average, however alike its sample.
_LEAST_TOLD = 0.1
_SEED = 0

#: From partitions and points, in ascending order, to what these add to the scores of partitions:
#: an array of shape (n_partitions, n_points), whose weighted mean over all points is the score.
Contributions = Callable[[Partitions, np.ndarray], np.ndarray]


class SampledScores(NamedTuple):
    """Scores from a sample of points.

    Attributes
    ----------
    scores : ndarray of shape (n_partitions,)
    errors : ndarray of shape (n_partitions,)
        The standard error of the highest score, and of the distances of all others to it.
    """

    scores: np.ndarray
    errors: np.ndarray


def sample_scores(
    contributions: Contributions, partitions: Partitions, weights: np.ndarray, most: int
) -> SampledScores:
    """Score partitions by samples of points until one is the best beyond doubt.

    Parameters
    ----------
    contributions : callable
    partitions : Partitions
        None of them with a single label.
    weights : ndarray of shape (n_points,)
        How many samples every point is.
    most : int
        A sample of as many points does not grow any more.

    Returns
    -------
    SampledScores
    """
    rng = np.random.RandomState(_SEED)
    everywhere = np.zeros(len(weights), dtype=np.int64)
    first = _Sample.of(everywhere, weights, len(partitions), rng)
    first = first.grown(_FIRST, None, lambda points: contributions(partitions, points))
    near = first.not_far_behind()
    sample = _decide(contributions, partitions.take(near), weights, most, rng)
    leader = sample.leader()
    behind, errors = first.behind(near[leader])
    behind[near], errors[near] = sample.behind(leader)
    score, errors[near[leader]] = sample.score(leader)
    return SampledScores(score - behind, errors)


def _decide(
    contributions: Contributions,
    rivals: Partitions,
    weights: np.ndarray,
    most: int,
    rng: np.random.RandomState,
) -> "_Sample":
    """Return a sample that is large enough to tell the best one, or as large as may be."""
    sample = _Sample.of(_strata(rivals), weights, len(rivals), rng)
    size = max(_FEWEST_OF_ALL, _FEWEST * len(sample.sizes))
    hardest = None
    while True:
        sample = sample.grown(size, hardest, lambda points: contributions(rivals, points))
        hardest = sample.hardest_rival()
        if hardest is None or len(sample.points) >= min(most, len(weights)):
            return sample
        size = int(_GROWTH * len(sample.points))


def _strata(partitions: Partitions) -> np.ndarray:
    """Divide points by their labels in all partitions, simple ones first, up to some strata."""
    edges = np.unique(partitions.runs[:, :2])
    strata = np.zeros(len(edges) - 1, dtype=np.int64)
    for i in np.argsort(np.diff(partitions.offsets), kind="stable"):
        runs = partitions[i]
        labels = runs[np.searchsorted(runs[:, 1], edges[:-1], side="right"), 2] + 1
        finer = np.unique(strata * (labels.max() + 1) + labels, return_inverse=True)[1]
        if finer.max() < _MOST_STRATA:
            strata = finer
    return np.repeat(strata, np.diff(edges))


@dataclass(frozen=True, eq=False)
class _Sample:
    """Points from strata, and what they add to the scores of partitions.

    Attributes
    ----------
    queue : ndarray of shape (n_all,)
        All points, one stratum after another, in the order in which they are taken.
    sizes : ndarray of shape (n_strata,)
        How many points a stratum has.
    taken : ndarray of shape (n_strata,)
        How many of them are in the sample.
    weights : ndarray of shape (n_all,)
    points : ndarray of shape (n_points,)
        The points in the sample.
    strata : ndarray of shape (n_points,)
    values : ndarray of shape (n_partitions, n_points)
        The weighted contributions of these, such that scores are their means over all points.
    """

    queue: np.ndarray
    sizes: np.ndarray
    taken: np.ndarray
    weights: np.ndarray
    points: np.ndarray
    strata: np.ndarray
    values: np.ndarray

    @classmethod
    def of(
        cls, strata: np.ndarray, weights: np.ndarray, n_partitions: int, rng: np.random.RandomState
    ) -> "_Sample":
        """Return an empty sample of points in strata."""
        shuffled = rng.permutation(len(strata))
        sizes = np.bincount(strata)
        none = np.empty(0, dtype=np.int64)
        return cls(
            queue=shuffled[np.argsort(strata[shuffled], kind="stable")],
            sizes=sizes,
            taken=np.zeros_like(sizes),
            weights=weights / weights.mean(),
            points=none,
            strata=none,
            values=np.empty((n_partitions, 0)),
        )

    def grown(
        self, size: int, rival: int | None, contributions: Callable[[np.ndarray], np.ndarray]
    ) -> "_Sample":
        """Return a sample of about this size, largest where it tells the leader from a rival."""
        wanted = np.maximum(_FEWEST, np.ceil(size * self._allotment(rival))).astype(np.int64)
        taken = np.minimum(self.sizes, np.maximum(self.taken, wanted))
        new = taken - self.taken
        places = np.cumsum(self.sizes) - self.sizes + self.taken - (np.cumsum(new) - new)
        points = self.queue[np.arange(new.sum()) + np.repeat(places, new)]
        strata = np.repeat(np.arange(len(new)), new)
        order = np.argsort(points)
        points, strata = points[order], strata[order]
        values = contributions(points) * self.weights[points]
        return replace(
            self,
            taken=taken,
            points=np.concatenate([self.points, points]),
            strata=np.concatenate([self.strata, strata]),
            values=np.concatenate([self.values, values], axis=1),
        )

    def _allotment(self, rival: int | None) -> np.ndarray:
        """Return the parts of strata in a sample, by their size or by what they tell (Neyman)."""
        parts = self.sizes / self.sizes.sum()
        if rival is not None:
            _, variances = self._moments((self.values[self.leader()] - self.values[rival])[None])
            told = np.sqrt(variances[0])
            parts = parts * np.maximum(told, _LEAST_TOLD * np.sqrt(variances[0] @ parts))
        return parts / parts.sum()

    def _moments(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of values (n, n_points) in all strata."""
        order = np.argsort(self.strata, kind="stable")
        starts = np.cumsum(self.taken) - self.taken
        values = values[:, order]
        means = np.add.reduceat(values, starts, axis=1) / self.taken
        values = values - np.repeat(means, self.taken, axis=1)
        squares = np.add.reduceat(values * values, starts, axis=1)
        return means, squares / np.maximum(self.taken - 1, 1)

    def _estimates(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means of values over all points, and their standard errors."""
        means, variances = self._moments(values)
        parts = self.sizes / self.sizes.sum()
        unseen = 1 - self.taken / self.sizes
        return means @ parts, np.sqrt(variances @ (parts**2 * unseen / self.taken))

    def leader(self) -> int:
        """Return the partition of the highest score, the first among equals."""
        return best_of(self._estimates(self.values)[0])

    def score(self, index: int) -> tuple[float, float]:
        """Return the score of a partition and its standard error."""
        means, errors = self._estimates(self.values[index][None])
        return float(means[0]), float(errors[0])

    def behind(self, leader: int) -> tuple[np.ndarray, np.ndarray]:
        """Return by how much partitions are behind one of them, and the standard errors of that."""
        return self._estimates(self.values[leader] - self.values)

    def not_far_behind(self) -> np.ndarray:
        """Return the partitions that may turn out to be the best."""
        behind, errors = self.behind(self.leader())
        return np.flatnonzero(behind <= _STANDARD_ERRORS * errors + _NEAR)

    def hardest_rival(self) -> int | None:
        """Return the partition that is hardest to tell from the leader; None if all can be told."""
        behind, errors = self.behind(self.leader())
        ratios = np.full(len(errors), np.inf)
        np.divide(behind, errors, out=ratios, where=errors > 0)
        hardest = int(np.argmin(ratios))
        return None if ratios[hardest] >= _STANDARD_ERRORS else hardest
