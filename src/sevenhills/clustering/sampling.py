"""Scores of candidates from a sample of points that is just large enough to find the best one.

A first sample from all points drops the candidates that are far behind. Points are then divided
into strata by the labels that the remaining candidates give them: where these disagree, few points
make most of the difference between two scores, and a plain sample might miss them. More points are
taken from every stratum, most where the scores differ most, until the leader is ahead of every
other candidate by some standard errors.

Samples are drawn with a fixed seed from the points in order, so that the same data give the same
scores.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .optics import Partitions, best_of

#: The leader is ahead of another candidate if it is ahead by this number of standard errors.
_STANDARD_ERRORS = 4.0
#: The smallest first sample.
_FIRST = 256
#: Candidates that are behind by less than this after the first sample are kept in any case.
_NEAR = 0.03
#: The smallest sample of a stratum.
_FEWEST = 16
#: The smallest second sample.
_FEWEST_OF_ALL = 2048
#: The largest number of strata.
_MOST_STRATA = 256
#: The factor by which a sample grows.
_GROWTH = 1.5
#: Lower bound on a stratum's standard deviation relative to the mean over strata, so that a
#: homogeneous stratum still gets samples.
_LEAST_STD = 0.1
_SEED = 0

#: Maps partitions and points, in ascending order, to the contributions of the points to the scores:
#: an array of shape (n_partitions, n_points), whose weighted mean over all points is the score.
Contributions = Callable[[Partitions, np.ndarray], np.ndarray]


def sample_scores(
    contributions: Contributions,
    partitions: Partitions,
    weights: np.ndarray,
    first_size: int,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of partitions and standard errors, from a sample of up to ``most`` points.

    ``weights`` (n_points,) are numbers of samples. No partition may have a single label. The first
    sample, from which all partitions get a score, has about ``first_size`` points. The errors
    are the standard error of the highest score, and of the distances of all others to it.
    """
    queue = np.random.RandomState(_SEED).permutation(len(weights))
    first = _Sample.from_queue(queue, weights, len(partitions))
    first = first.grown(
        max(_FIRST, first_size), None, lambda points: contributions(partitions, points)
    )
    near = first.not_far_behind()
    rivals = partitions.take(near)
    sample = _decide(contributions, rivals, first.divided(_strata(rivals), near), most)
    leader = sample.leader()
    behind, errors = first.behind(near[leader])
    behind[near], errors[near] = sample.behind(leader)
    score, errors[near[leader]] = sample.score(leader)
    return score - behind, errors


def _decide(
    contributions: Contributions, rivals: Partitions, sample: "_Sample", most: int
) -> "_Sample":
    """Return a sample that is large enough to find the best partition, or of the largest size."""
    size = max(_FEWEST_OF_ALL, _FEWEST * len(sample.sizes))
    hardest = None
    while True:
        sample = sample.grown(size, hardest, lambda points: contributions(rivals, points))
        hardest = sample.hardest_rival()
        if hardest is None or len(sample.points) >= min(most, len(sample.queue)):
            return sample
        # Strata of which all points are taken make the sample smaller than intended.
        size = int(_GROWTH * max(size, len(sample.points)))


def _strata(partitions: Partitions) -> np.ndarray:
    """Divide points by their labels in all partitions, those of few runs first."""
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
    """Points from strata, and their contributions to the scores of partitions."""

    queue: np.ndarray  #: (n_all,) all points, by stratum, in the order in which they are taken
    sizes: np.ndarray  #: (n_strata,) the number of points of every stratum
    taken: np.ndarray  #: (n_strata,) the number of these in the sample
    weights: np.ndarray  #: (n_all,) relative to their mean
    points: np.ndarray  #: (n_points,) the points in the sample
    strata: np.ndarray  #: (n_points,)
    values: np.ndarray  #: (n_partitions, n_points) their weighted contributions to the scores

    @classmethod
    def from_queue(cls, queue: np.ndarray, weights: np.ndarray, n_partitions: int) -> "_Sample":
        """Return an empty sample of points in a single stratum."""
        none = np.empty(0, dtype=np.int64)
        return cls(
            queue=queue,
            sizes=np.array([len(queue)]),
            taken=np.array([0]),
            weights=weights / weights.mean(),
            points=none,
            strata=none,
            values=np.empty((n_partitions, 0)),
        )

    def divided(self, strata: np.ndarray, kept: np.ndarray) -> "_Sample":
        """Return the sample in ``strata`` (n_all,), with values of the ``kept`` partitions."""
        sizes = np.bincount(strata)
        return replace(
            self,
            queue=self.queue[np.argsort(strata.astype(np.int16)[self.queue], kind="stable")],
            sizes=sizes,
            taken=np.bincount(strata[self.points], minlength=len(sizes)),
            strata=strata[self.points],
            values=self.values[kept],
        )

    def grown(
        self, size: int, rival: int | None, contributions: Callable[[np.ndarray], np.ndarray]
    ) -> "_Sample":
        """Return a sample of about this size, largest where the leader and a rival differ most."""
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
        """Return the shares of strata in a sample: by size, or by size and spread (Neyman)."""
        parts = self.sizes / self.sizes.sum()
        if rival is not None:
            _, variances = self._moments((self.values[self.leader()] - self.values[rival])[None])
            least = _LEAST_STD * np.sqrt(variances[0] @ parts)
            parts = parts * np.maximum(np.sqrt(variances[0]), least)
        return parts / parts.sum()

    def _by_stratum(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values (n, n_points) by stratum, and their means (n, n_strata)."""
        if len(self.taken) > 1:
            values = values[:, np.argsort(self.strata, kind="stable")]
        starts = np.cumsum(self.taken) - self.taken
        return values, np.add.reduceat(values, starts, axis=1) / self.taken

    def _moments(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of values (n, n_points) in all strata."""
        values, means = self._by_stratum(values)
        values = values - (np.repeat(means, self.taken, axis=1) if len(self.taken) > 1 else means)
        starts = np.cumsum(self.taken) - self.taken
        squares = np.add.reduceat(np.square(values, out=values), starts, axis=1)
        return means, squares / np.maximum(self.taken - 1, 1)

    def _estimates(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means of values over all points, and their standard errors."""
        means, variances = self._moments(values)
        parts = self.sizes / self.sizes.sum()
        unseen = 1 - self.taken / self.sizes
        return means @ parts, np.sqrt(variances @ (parts**2 * unseen / self.taken))

    def leader(self) -> int:
        """Return the partition of the highest score, the first among equals."""
        return best_of(self._by_stratum(self.values)[1] @ (self.sizes / self.sizes.sum()))

    def score(self, index: int) -> tuple[float, float]:
        """Return the score of a partition and its standard error."""
        means, errors = self._estimates(self.values[index][None])
        return float(means[0]), float(errors[0])

    def behind(self, leader: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances of all scores to that of the leader, and their standard errors."""
        return self._estimates(self.values[leader] - self.values)

    def not_far_behind(self) -> np.ndarray:
        """Return the partitions that may be the best."""
        behind, errors = self.behind(self.leader())
        return np.flatnonzero(behind <= _STANDARD_ERRORS * errors + _NEAR)

    def hardest_rival(self) -> int | None:
        """Return the rival that is closest to the leader in errors; None if the leader is ahead."""
        behind, errors = self.behind(self.leader())
        ratios = np.full(len(errors), np.inf)
        np.divide(behind, errors, out=ratios, where=errors > 0)
        hardest = int(np.argmin(ratios))
        return None if ratios[hardest] >= _STANDARD_ERRORS else hardest
