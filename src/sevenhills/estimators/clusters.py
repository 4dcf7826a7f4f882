"""From labelled points to a kernel mixture: one group of kernels for each cluster."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..bandwidth import silverman
from ..density import KernelMixture
from ..whitening import Whitening, centre, whiten

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
class Members:
    """The samples of one cluster: its label, its mean and the deviations from it."""

    label: int
    mean: np.ndarray
    deviations: np.ndarray

    def __len__(self) -> int:
        return len(self.deviations)


def split_by_label(X: np.ndarray, labels: np.ndarray) -> list[Members]:
    """Return the members of every cluster by ascending label, noise last."""
    order = np.argsort(labels, kind="stable")
    found, starts = np.unique(labels[order], return_index=True)
    parts = zip(found.tolist(), np.split(X[order], starts[1:]), strict=True)
    clusters = [Members(label, *centre(part)) for label, part in parts]
    return clusters[1:] + clusters[:1] if found[0] == NOISE else clusters


def spread_within(clusters: Sequence[Members]) -> float:
    r"""Return the pooled standard deviation within clusters, noise left out.

    .. math:: \sqrt{\sum_C n_C \operatorname{tr}(S_C) / (N M)}

    If no cluster has any spread, it is that of all samples together.
    """
    squares = sum(np.vdot(c.deviations, c.deviations) for c in clusters if c.label != NOISE)
    if squares == 0.0:
        deviations = centre(np.concatenate([c.mean + c.deviations for c in clusters]))[1]
        squares = np.vdot(deviations, deviations)
    return float(np.sqrt(squares / sum(c.deviations.size for c in clusters)))


def resolve_min_std(min_std: float | str, clusters: Sequence[Members]) -> float:
    """Return the smallest standard deviation to allow, derived from the data if "auto"."""
    if not isinstance(min_std, str):
        return float(min_std)
    spread = _AUTO_SHARE * spread_within(clusters)
    if spread == 0.0:
        n_samples = sum(map(len, clusters))
        raise ValueError(
            f"the samples have no spread (n_samples = {n_samples}), so min_std cannot be 'auto'; "
            "pass the smallest standard deviation to allow as a number"
        )
    return spread


def cluster_mixture(
    clusters: Sequence[Members],
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
    clusters : sequence of Members
        The samples of every cluster, in multiples of ``unit``, noise last.
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
    proper = [c for c in clusters if c.label != NOISE]
    maps = [
        whiten(
            c.mean,
            c.deviations,
            min_std,
            decorrelate=decorrelate,
            normalize=normalize,
            tiled=tiled,
            unit=unit,
        )
        for c in proper
    ]
    sizes = [len(c) for c in proper]
    if len(proper) < len(clusters):
        maps.append(_whiten_noise(proper, clusters[-1], min_std, unit))
        sizes.append(1)
    n_features = len(clusters[0].mean)
    n_samples = sum(map(len, clusters))
    bandwidths = [silverman(size, n_features) for size in sizes]
    widths = np.array(bandwidths) * unit
    density = KernelMixture(
        weights=np.full(n_samples, 1 / n_samples),
        centres=np.concatenate([c.mean + c.deviations for c in clusters]) * unit,
        offsets=np.cumsum([0, *map(len, clusters)]),
        transforms=np.stack([m.transform for m in maps]) / widths[:, None, None],
        log_dets=np.array([m.log_det for m in maps]) - n_features * np.log(widths),
    )
    return density, tuple(
        Cluster(c.label, len(c), len(c) / n_samples, c.mean * unit, m.stds * unit, bandwidth)
        for c, m, bandwidth in zip(clusters, maps, bandwidths, strict=True)
    )


def _whiten_noise(
    proper: Sequence[Members], noise: Members, min_std: float, unit: float
) -> Whitening:
    """Scale noise, without rotation, by the mean spread of the proper clusters, or by 1."""
    scale = np.full(len(noise.mean), 1 / unit)
    if proper:
        spread = np.mean([np.sqrt(np.mean(c.deviations**2, axis=0)) for c in proper], axis=0)
        scale = np.maximum(spread, min_std)
    if not (scale > 0).all():
        raise ValueError(f"noise has no scale in some feature; pass a min_std above {min_std:g}")
    return Whitening(noise.mean, np.diag(1 / scale), float(-np.log(scale).sum()), scale)
