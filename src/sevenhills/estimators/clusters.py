"""From labelled points to a kernel mixture: one group of kernels for each cluster."""

from dataclasses import dataclass

import numpy as np

from ..bandwidth import silverman
from ..density import KernelMixture
from ..whitening import Whitening, feature_stds, scaled, whiten

NOISE = -1
#: The automatic ``min_std`` is this part of the spread within clusters.
_AUTO_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Cluster:
    """What became of one cluster.

    Attributes
    ----------
    label : int
        Its label, -1 for noise.
    n_members : int
    share : float
        Its part of all samples, which is its weight in the density.
    mean : ndarray of shape (n_features,)
    stds : ndarray of shape (n_features,)
        Standard deviations along its axes, in data units.
    bandwidth : float
        Standard deviation of its kernels after whitening.
    """

    label: int
    n_members: int
    share: float
    mean: np.ndarray
    stds: np.ndarray
    bandwidth: float

    @property
    def name(self) -> str:
        """How to speak of it."""
        return "noise" if self.label == NOISE else str(self.label)


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
    """

    labels: np.ndarray
    offsets: np.ndarray
    means: np.ndarray
    points: np.ndarray
    deviations: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, labels: np.ndarray) -> "Grouping":
        """Group samples by their labels, -1 being noise."""
        order = np.argsort(np.where(labels == NOISE, np.iinfo(np.int64).max, labels), kind="stable")
        points, keys = X[order], labels[order]
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        sizes = np.diff(np.append(starts, len(X)))
        first = points[starts]
        deviations = points - np.repeat(first, sizes, axis=0)
        shifts = np.add.reduceat(deviations, starts) / sizes[:, None]
        deviations -= np.repeat(shifts, sizes, axis=0)
        return cls(keys[starts], np.append(starts, len(X)), first + shifts, points, deviations)

    @property
    def n_proper(self) -> int:
        """The number of clusters that are not noise."""
        return int(np.sum(self.labels != NOISE))

    @property
    def sizes(self) -> np.ndarray:
        """The number of members of every cluster."""
        return np.diff(self.offsets)

    def spread(self) -> float:
        r"""Return the pooled standard deviation within clusters, noise left out.

        .. math:: \sqrt{\sum_C n_C \operatorname{tr}(S_C) / (N M)}

        If no cluster has any spread, it is that of all samples together.
        """
        within = self.deviations[: self.offsets[self.n_proper]]
        squares = np.vdot(within, within)
        if squares == 0.0:
            whole = Grouping.of(self.points, np.zeros(len(self.deviations), dtype=np.int64))
            squares = np.vdot(whole.deviations, whole.deviations)
        return float(np.sqrt(squares / self.deviations.size))


def resolve_min_std(min_std: float | str, grouping: Grouping) -> float:
    """Return the smallest standard deviation to allow, derived from the data if "auto"."""
    if not isinstance(min_std, str):
        return float(min_std)
    smallest = _AUTO_SHARE * grouping.spread()
    if smallest == 0.0:
        raise ValueError(
            f"the samples have no spread (n_samples = {len(grouping.deviations)}), so min_std "
            "cannot be 'auto'; pass the smallest standard deviation to allow as a number"
        )
    return smallest


def cluster_mixture(
    grouping: Grouping,
    min_std: float,
    *,
    decorrelate: bool,
    normalize: bool,
    tiled: bool,
    unit: float,
) -> tuple[KernelMixture, tuple[Cluster, ...]]:
    """Put Gaussian kernels on every cluster, in its own whitened space, and add them up.

    Parameters
    ----------
    grouping : Grouping
        The samples by cluster, in multiples of ``unit``.
    min_std : float
        The smallest standard deviation to allow, in multiples of ``unit``.
    decorrelate, normalize, tiled : bool
        See :func:`~sevenhills.whitening.whiten`.
    unit : float
        The length of one unit in data units.

    Returns
    -------
    density : KernelMixture
        In data units.
    clusters : tuple of Cluster
        In the order of its groups.
    """
    n_samples, n_features = grouping.deviations.shape
    proper = grouping.offsets[: grouping.n_proper + 1]
    maps = []
    if len(proper) > 1:
        members = grouping.deviations[: proper[-1]]
        options = {"decorrelate": decorrelate, "normalize": normalize, "tiled": tiled}
        maps.append(whiten(members, proper, min_std, unit=unit, **options))
    if grouping.labels[-1] == NOISE:
        maps.append(_whiten_noise(grouping, min_std, unit))
    transforms, log_dets, stds = (
        np.concatenate([getattr(each, name) for each in maps])
        for name in ("transforms", "log_dets", "stds")
    )
    sizes = np.where(grouping.labels == NOISE, 1, grouping.sizes)
    bandwidths = [silverman(size, n_features) for size in sizes.tolist()]
    widths = np.array(bandwidths) * unit
    density = KernelMixture(
        weights=np.full(n_samples, 1 / n_samples),
        centres=grouping.points * unit,
        offsets=grouping.offsets,
        transforms=transforms / widths[:, None, None],
        log_dets=log_dets - n_features * np.log(widths),
    )
    clusters = (
        Cluster(label, size, size / n_samples, mean, each, bandwidth)
        for label, size, mean, each, bandwidth in zip(
            grouping.labels.tolist(),
            grouping.sizes.tolist(),
            grouping.means * unit,
            stds * unit,
            bandwidths,
            strict=True,
        )
    )
    return density, tuple(clusters)


def _whiten_noise(grouping: Grouping, min_std: float, unit: float) -> Whitening:
    """Scale noise, without rotation, by the mean spread of the proper clusters, or by 1."""
    n_features = grouping.deviations.shape[1]
    scale = np.full(n_features, 1 / unit)
    if grouping.n_proper:
        proper = grouping.offsets[: grouping.n_proper + 1]
        stds = feature_stds(grouping.deviations[: proper[-1]], proper)
        scale = np.maximum(stds.mean(axis=0), min_std)
    if not (scale > 0).all():
        raise ValueError(f"noise has no scale in some feature; pass a min_std above {min_std:g}")
    return scaled(np.eye(n_features)[None], scale[None], scale[None])
