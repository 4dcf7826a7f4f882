"""From labelled points to a kernel mixture: one group of kernels for each cluster."""

from dataclasses import dataclass

import numpy as np

from ..bandwidth import silverman
from ..density import KernelMixture
from ..whitening import Whitening, whiten

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


def spread_within(X: np.ndarray, labels: np.ndarray) -> float:
    r"""Return the pooled standard deviation within clusters, noise left out.

    .. math:: \sqrt{\sum_C n_C \operatorname{tr}(S_C) / (N M)}

    If no cluster has any spread, it is that of all samples together.
    """
    squares = 0.0
    for label in np.unique(labels[labels != NOISE]):
        members = X[labels == label]
        squares += float(np.sum((members - members.mean(axis=0)) ** 2))
    if squares == 0.0:
        squares = float(np.sum((X - X.mean(axis=0)) ** 2))
    return float(np.sqrt(squares / X.size))


def resolve_min_std(min_std: float | str, X: np.ndarray, labels: np.ndarray) -> float:
    """Return the smallest standard deviation to allow, derived from the data if "auto"."""
    if min_std != "auto":
        return float(min_std)
    spread = _AUTO_SHARE * spread_within(X, labels)
    if spread == 0.0:
        raise ValueError(
            f"the samples have no spread (n_samples = {len(X)}), so min_std cannot be 'auto'; "
            "pass the smallest standard deviation to allow as a number"
        )
    return spread


def cluster_mixture(
    X: np.ndarray,
    labels: np.ndarray,
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
    X : ndarray of shape (n_samples, n_features)
        The samples in multiples of ``unit``.
    labels : ndarray of shape (n_samples,)
        Their clusters, -1 being noise.
    min_std : float
        The smallest standard deviation to allow, in multiples of ``unit``.
    decorrelate, normalize, tiled : bool
        See :func:`~sevenhills.whitening.whiten`.
    unit : float
        The length of one unit of ``X`` in data units.

    Returns
    -------
    density : KernelMixture
        In data units.
    clusters : tuple of Cluster
        In the order of its groups, noise last.
    """
    n_samples, n_features = X.shape
    proper = [label for label in np.unique(labels) if label != NOISE]
    members = [X[labels == label] for label in proper]
    options = {"decorrelate": decorrelate, "normalize": normalize, "tiled": tiled}
    maps = [whiten(each, min_std, **options) for each in members]
    bandwidths = [silverman(len(each), n_features) for each in members]
    if NOISE in labels:
        maps.append(_whiten_noise(members, n_features, min_std))
        members.append(X[labels == NOISE])
        bandwidths.append(silverman(1, n_features))
        proper.append(NOISE)

    sizes = [len(each) for each in members]
    widths = np.array(bandwidths) * unit
    density = KernelMixture(
        weights=np.full(n_samples, 1 / n_samples),
        centres=np.concatenate(members) * unit,
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        transforms=np.stack([m.transform for m in maps]) / widths[:, None, None],
        log_dets=np.array([m.log_det for m in maps]) - n_features * np.log(widths),
    )
    clusters = tuple(
        Cluster(int(label), n, n / n_samples, each.mean(axis=0) * unit, m.stds * unit, b)
        for label, n, each, m, b in zip(proper, sizes, members, maps, bandwidths, strict=True)
    )
    return density, clusters


def _whiten_noise(members: list[np.ndarray], n_features: int, min_std: float) -> Whitening:
    """Scale noise, without rotation, by the mean spread of the proper clusters."""
    scale = np.ones(n_features)
    if members:
        spread = np.mean([each.std(axis=0) for each in members], axis=0)
        scale = np.maximum(spread, min_std)
    if not (scale > 0).all():
        raise ValueError(f"noise has no scale in some feature; pass a min_std above {min_std:g}")
    return Whitening(
        np.zeros(n_features), np.diag(1 / scale), float(-np.log(scale).sum()), scale
    )
