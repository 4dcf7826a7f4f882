"""Samples by cluster."""

from dataclasses import dataclass

import numpy as np

NOISE = -1
#: The automatic ``min_std`` is this part of the spread within clusters.
AUTO_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Cluster:
    """What became of one cluster.

    Attributes
    ----------
    label : int
        Its label, -1 for noise.
    n_members : int
        The number of its samples.
    share : float
        Its part of the weight of all samples, which is its weight in the density.
    mean : ndarray of shape (n_features,)
    stds : ndarray of shape (n_features,)
        Standard deviations along its axes, in data units.
    bandwidth : float or None
        Standard deviation of its kernels after whitening; None if it has no kernels of one width.
    """

    label: int
    n_members: int
    share: float
    mean: np.ndarray
    stds: np.ndarray
    bandwidth: float | None

    @property
    def name(self) -> str:
        """How to speak of it."""
        return "noise" if self.label == NOISE else str(self.label)


@dataclass(frozen=True, eq=False)
class StackedCluster:
    """What became of one cluster.

    Attributes
    ----------
    label : int
    n_members : int
        The number of its samples.
    share : float
        Its part of the weight of all samples, which is its weight in the density but for a wide
        background that counts as a tenth of a sample.
    mean : ndarray of shape (n_features,)
    members : tuple of str
        What its density is a sum of.
    weights : ndarray
        The weight of each of these.
    gain, gain_error : float
        By how much the log density of held-out samples exceeds that of a plain Gaussian, on
        average, and the standard error of that.
    n_tried : int
        How many members were tried.
    reason : str
        Why there are not more; empty if all were tried.
    """

    label: int
    n_members: int
    share: float
    mean: np.ndarray
    members: tuple[str, ...]
    weights: np.ndarray
    gain: float
    gain_error: float
    n_tried: int
    reason: str


@dataclass(frozen=True, eq=False)
class Grouping:
    """Samples by cluster: the proper clusters by ascending label, then the noise.

    Attributes
    ----------
    labels : ndarray of shape (n_clusters,)
    offsets : ndarray of shape (n_clusters + 1,)
        Where the members of every cluster begin.
    means : ndarray of shape (n_clusters, n_features)
    points : ndarray of shape (n_samples, n_features)
        The members of every cluster, one cluster after another.
    deviations : ndarray of shape (n_samples, n_features)
        The members' deviations from their mean, exactly zero if they are all equal.
    weights : ndarray of shape (n_samples,)
        How many samples every member is.
    """

    labels: np.ndarray
    offsets: np.ndarray
    means: np.ndarray
    points: np.ndarray
    deviations: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> "Grouping":
        """Group samples by their labels, -1 being noise."""
        order = np.argsort(np.where(labels == NOISE, np.iinfo(np.int64).max, labels), kind="stable")
        points, keys, weights = X[order], labels[order], weights[order]
        is_first = np.ones(len(X), dtype=bool)
        is_first[1:] = keys[1:] != keys[:-1]
        starts = np.flatnonzero(is_first)
        offsets = np.append(starts, len(X))
        sizes = offsets[1:] - starts
        first = points[starts]
        deviations = points - np.repeat(first, sizes, axis=0)
        sums = np.add.reduceat(deviations * weights[:, None], starts)
        shifts = sums / np.add.reduceat(weights, starts)[:, None]
        deviations -= np.repeat(shifts, sizes, axis=0)
        return cls(keys[starts], offsets, first + shifts, points, deviations, weights)

    @classmethod
    def whole(cls, X: np.ndarray, weights: np.ndarray) -> "Grouping":
        """Return all samples as one cluster."""
        return cls.of(X, np.zeros(len(X), dtype=np.int64), weights)

    @property
    def n_proper(self) -> int:
        """The number of clusters that are not noise."""
        return len(self.labels) - int(self.labels[-1] == NOISE)

    @property
    def masses(self) -> np.ndarray:
        """The weight of every cluster."""
        return np.add.reduceat(self.weights, self.offsets[:-1])

    def spread(self) -> float:
        r"""Return the pooled standard deviation within clusters, noise left out.

        .. math:: \sqrt{\sum_C n_C \operatorname{tr}(S_C) / (N M)}

        If no cluster has any spread, it is that of all samples together.
        """
        n_proper = self.offsets[self.n_proper]
        squares = _squares(self.deviations[:n_proper], self.weights[:n_proper])
        if squares == 0.0:
            whole = Grouping.whole(self.points, self.weights)
            squares = _squares(whole.deviations, whole.weights)
        return float(np.sqrt(squares / self.weights.sum() / self.points.shape[1]))


def _squares(deviations: np.ndarray, weights: np.ndarray) -> float:
    return float(np.einsum("ij,ij,i->", deviations, deviations, weights))


def resolve_min_std(min_std: float | str, grouping: Grouping, unit: float) -> float:
    """Return the smallest standard deviation to allow, in multiples of the unit.

    It is derived from the data if "auto", and given in data units otherwise.
    """
    if not isinstance(min_std, str):
        return float(min_std) / unit
    smallest = AUTO_SHARE * grouping.spread()
    if smallest == 0.0:
        raise ValueError(
            f"the samples have no spread (n_samples = {len(grouping.deviations)}), so min_std "
            "cannot be 'auto'; pass the smallest standard deviation to allow as a number"
        )
    return smallest
