"""From clusters to a density: whitening, the kernels of every cluster, and their sum."""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..clustering import Points
from ..clustering.optics import NOISE
from ..covariance import Axes, Shrunk, shrink
from ..density import KernelMixture, NeighborCluster, NeighborDensity
from ..density.mixture import unchecked_mixture
from ..whitening import (
    Grouping,
    Whitening,
    feature_stds,
    principal_axes,
    resolve_min_std,
    scaled,
    silverman,
    whiten,
    whiten_along,
)
from .parzen import neighborhoods, window_neighbors, window_transforms
from .summary import Cluster
from .support import Support

#: The densities that can be put on a cluster.
DENSITIES = ("kde", "gaussian", "knn", "mpw")
#: The choices of clusters whose covariances are shrunk.
SHRINKAGE = (None, "auto", "always")
#: With ``shrinkage="auto"``, clusters of fewer samples per feature are shrunk.
ENOUGH = 5
#: The smallest variance that the study adds to Gaussians, in squared data units.
_SMALLEST_RIDGE = 1e-6
#: The smallest radius of a neighborhood, as a fraction of the smallest standard deviation.
_SMALLEST_RADIUS = 1e-6


class ClusterWhitening(NamedTuple):
    """The whitening of all clusters, noise last, in the unit of the clusters.

    ``ridge`` is the variance that is added to those of Gaussians; ``shrunk`` holds the shrunk
    covariances of some clusters.
    """

    maps: Whitening
    min_std: float
    ridge: float
    shrunk: Shrunk | None


def whiten_clusters(
    clusters: Grouping,
    min_std: float | str = "auto",
    *,
    decorrelate: bool = True,
    normalize: bool = True,
    shrinkage: str | None = None,
    tiled: bool = False,
) -> ClusterWhitening:
    """Rotate and scale every cluster to about unit variance, and scale the noise.

    ``min_std`` is in data units. The options are those of :class:`~sevenhills.ROME` and of
    :func:`~sevenhills.whitening.whiten`.
    """
    smallest = resolve_min_std(min_std, clusters)
    shrunk = _shrink(clusters, shrinkage if decorrelate and normalize else None, smallest)
    maps = []
    if clusters.n_proper:
        maps.append(
            whiten(
                *clusters.proper(),
                smallest,
                decorrelate=decorrelate,
                normalize=normalize,
                tiled=tiled,
                unit=clusters.unit,
                shrunk=shrunk,
            )
        )
    if clusters.labels[-1] == NOISE:
        maps.append(_whiten_noise(clusters, smallest, normalize, shrunk))
    joint = Whitening(*map(np.concatenate, zip(*maps, strict=True))) if len(maps) > 1 else maps[0]
    least = 0.0 if isinstance(min_std, str) else _SMALLEST_RIDGE / clusters.unit / clusters.unit
    return ClusterWhitening(joint, smallest, max(least, smallest * smallest), shrunk)


def _shrink(clusters: Grouping, shrinkage: str | None, min_std: float) -> Shrunk | None:
    """Shrink the covariances of small clusters, or of all; return None if there are none."""
    if shrinkage is None:
        return None
    most = ENOUGH * clusters.n_features if shrinkage == "auto" else np.inf
    small = np.flatnonzero(clusters.masses[: clusters.n_proper] < most)
    return shrink(*clusters.proper(), small, min_std) if len(small) else None


def _whiten_noise(
    clusters: Grouping, min_std: float, normalize: bool, shrunk: Shrunk | None
) -> Whitening:
    """Scale noise, without rotation, by the mean spread of the proper clusters.

    Without any, or without ``normalize``, the scale is one data unit. If clusters are shrunk, noise
    has the covariance that they have in common.
    """
    if shrunk is not None:
        variances, directions = shrunk.common
        return whiten_along(Axes(variances[None], directions[None]), min_std)
    scale = np.full(clusters.n_features, 1 / clusters.unit)
    if clusters.n_proper and normalize:
        scale = np.maximum(feature_stds(*clusters.proper()).mean(axis=0), min_std)
    if not (scale > 0).all():
        raise ValueError(f"noise has no scale in some feature; pass a min_std above {min_std:g}")
    return scaled(np.eye(clusters.n_features)[None], scale[None], scale[None])


class _Kernels(NamedTuple):
    """Gaussian kernels in groups, with the sizes and clusters of groups, in the clusters' unit."""

    weights: np.ndarray
    means: np.ndarray
    sizes: np.ndarray
    transforms: np.ndarray
    log_dets: np.ndarray
    labels: np.ndarray


def put_kernels(
    clusters: Grouping,
    whitening: ClusterWhitening,
    density: str = "kde",
    n_jobs: int | None = None,
) -> KernelMixture | NeighborDensity:
    """Put a density on every cluster, and kernels on noise; return their sum in data units."""
    if density == "knn":
        return _neighbor_density(clusters, whitening)
    kernels = _silverman_kernels(clusters, whitening.maps, _first_with_kernels(clusters, density))
    if density == "gaussian" and clusters.n_proper:
        kernels = _joined(_gaussians(clusters, whitening), kernels)
    elif density == "mpw" and clusters.n_proper:
        kernels = _joined(_windows(clusters, whitening, n_jobs), kernels)
    return _mixture(kernels, clusters.unit)


def _first_with_kernels(clusters: Grouping, density: str) -> int:
    """Return the first cluster with kernels of Silverman's width: only noise if not "kde"."""
    return 0 if density == "kde" else clusters.n_proper


def _joined(*parts: _Kernels) -> _Kernels:
    return _Kernels(*map(np.concatenate, zip(*parts, strict=True)))


def _bandwidths(clusters: Grouping, first: int) -> list[float]:
    """Return Silverman's width of every cluster from ``first`` on, that of one sample for noise."""
    n_samples = np.where(clusters.labels == NOISE, 1.0, clusters.masses)[first:]
    return [silverman(n, clusters.n_features) for n in n_samples.tolist()]


def _silverman_kernels(clusters: Grouping, maps: Whitening, first: int) -> _Kernels:
    """Return kernels of Silverman's width on all clusters from ``first`` on."""
    bounds, widths = clusters.offsets[first:], np.array(_bandwidths(clusters, first))
    return _Kernels(
        weights=clusters.weights[bounds[0] :] / clusters.weights.sum(),
        means=clusters.points[bounds[0] :],
        sizes=bounds[1:] - bounds[:-1],
        transforms=maps.transforms[first:] / widths[:, None, None],
        log_dets=maps.log_dets[first:] - clusters.n_features * np.log(widths),
        labels=clusters.labels[first:],
    )


def _gaussians(clusters: Grouping, whitening: ClusterWhitening) -> _Kernels:
    """Return one Gaussian for each proper cluster, with its own covariance plus a ridge."""
    masses = clusters.masses[: clusters.n_proper]
    axes, stds = principal_axes(*clusters.proper(), shrunk=whitening.shrunk)
    variances = stds**2 * (np.maximum(masses - 1, 1) / masses)[:, None] + whitening.ridge
    if not (variances > 0).all():
        raise ValueError("a cluster has no spread in some direction; pass a min_std above 0")
    if not np.isfinite(variances).all():
        raise ValueError("min_std is beyond what kernels can represent beside such samples")
    gaussians = scaled(axes, np.sqrt(variances), stds)
    return _Kernels(
        weights=masses / clusters.weights.sum(),
        means=clusters.means[: len(masses)],
        sizes=np.ones(len(masses), dtype=np.int64),
        transforms=gaussians.transforms,
        log_dets=gaussians.log_dets,
        labels=clusters.labels[: len(masses)],
    )


def _windows(clusters: Grouping, whitening: ClusterWhitening, n_jobs: int | None) -> _Kernels:
    """Return windows whose neighbors are the nearest in the whitened space of their cluster."""
    members, weights, bounds = clusters.proper()
    windows = []
    for (start, end), transform in zip(pairwise(bounds), whitening.maps.transforms, strict=False):
        own, own_weights = members[start:end], weights[start:end]
        k = window_neighbors(float(own_weights.sum()), clusters.n_features)
        near = neighborhoods(own @ transform, own_weights, k, n_jobs)
        windows.append(window_transforms(own, near, whitening.min_std))
    return _Kernels(
        weights=weights / clusters.weights.sum(),
        means=clusters.points[: len(members)],
        sizes=np.ones(len(members), dtype=np.int64),
        transforms=np.concatenate([transforms for transforms, _ in windows]),
        log_dets=np.concatenate([log_dets for _, log_dets in windows]),
        labels=np.repeat(clusters.labels[: clusters.n_proper], np.diff(bounds)),
    )


def _neighbor_density(clusters: Grouping, whitening: ClusterWhitening) -> NeighborDensity:
    """Return nearest-neighbor densities of the proper clusters, and kernels on noise."""
    _, weights, bounds = clusters.proper()
    unit, maps, masses = clusters.unit, whitening.maps, clusters.masses.tolist()
    parts = [
        NeighborCluster(
            members=clusters.points[start:end] * unit,
            weights=weights[start:end],
            # The median: a mean may be far from all members.
            location=np.quantile(clusters.points[start:end], 0.5, axis=0, method="lower") * unit,
            transform=maps.transforms[g] / unit,
            log_det=float(maps.log_dets[g] - clusters.n_features * np.log(unit)),
            n_neighbors=float(max(min(masses[g], 3.0), int(np.sqrt(masses[g])))),
            min_radius=_SMALLEST_RADIUS * whitening.min_std * unit,
        )
        for g, (start, end) in enumerate(pairwise(bounds))
    ]
    shares = clusters.masses / clusters.masses.sum()
    noise = _silverman_kernels(clusters, maps, clusters.n_proper)
    return NeighborDensity(
        weights=shares[: clusters.n_proper],
        clusters=tuple(parts),
        noise=_mixture(noise, unit, float(shares[-1])) if len(noise.sizes) else None,
    )


def show_clusters(
    density: KernelMixture | NeighborDensity, points: Points, labels: np.ndarray
) -> KernelMixture | NeighborDensity:
    """Return a density with the labels (n_points,) of clusters that kernels do not follow.

    Groups of kernels are divided by cluster, so that a cluster may have kernels of several shapes
    and a shape may occur in several clusters. ``points`` are those of the density, which stays as
    it is. A group of one Gaussian belongs to the cluster of most of its samples.
    """
    if not isinstance(density, KernelMixture):
        return density
    own = points.labels
    order = np.argsort(np.where(own == NOISE, own.max() + 1, own), kind="stable")
    if density.n_kernels == len(order):
        labels = labels[order]
    else:
        proper = range(int(own.max()) + 1)
        most = [_most_frequent(labels[own == c], points.weights[own == c]) for c in proper]
        labels = np.append(most, labels[own == NOISE]).astype(np.int64)
    groups = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
    order = np.lexsort((labels, groups))
    groups, labels = groups[order], labels[order]
    starts = np.flatnonzero(np.append(True, np.diff(groups) + np.abs(np.diff(labels)) > 0))
    return unchecked_mixture(
        weights=density.weights[order],
        means=density.means[order],
        offsets=np.append(starts, len(order)),
        transforms=density.transforms[groups[starts]],
        log_dets=density.log_dets[groups[starts]],
        log_weights=density.log_weights[order],
        clusters=labels[starts],
        counts=None,
        feature_names=None,
    )


def _most_frequent(labels: np.ndarray, weights: np.ndarray) -> int:
    return int(np.bincount(labels + 1, weights).argmax()) - 1


def _mixture(kernels: _Kernels, unit: float, total: float = 1.0) -> KernelMixture:
    """Return kernels, whose weights add up to ``total``, as a density in data units."""
    weights, transforms = kernels.weights / total, kernels.transforms / unit
    offsets = np.zeros(len(kernels.sizes) + 1, dtype=np.int64)
    kernels.sizes.cumsum(out=offsets[1:])
    if not np.isfinite(transforms).all():
        raise ValueError("min_std is beyond what kernels can represent beside such samples")
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return unchecked_mixture(
        weights=weights,
        means=kernels.means * unit,
        offsets=offsets,
        transforms=transforms,
        log_dets=kernels.log_dets - kernels.means.shape[1] * np.log(unit),
        log_weights=log_weights,
        clusters=kernels.labels,
        counts=None,
        feature_names=None,
    )


def describe_clusters(
    clusters: Grouping,
    whitening: ClusterWhitening,
    density: str,
    n_members: Mapping[int, int],
    support: Support,
) -> tuple[Cluster, ...]:
    """Return a summary of every cluster in the order of the labels, noise last.

    ``n_members`` has the number of rows of every label. Means are values, not latent coordinates.
    """
    first = _first_with_kernels(clusters, density)
    rows = zip(
        clusters.labels.tolist(),
        (clusters.masses / clusters.weights.sum()).tolist(),
        support.values(clusters.means * clusters.unit),
        whitening.maps.stds * clusters.unit,
        [*[None] * first, *_bandwidths(clusters, first)],
        strict=True,
    )
    return tuple(
        Cluster(label, n_members.get(label, 0), share, mean, stds, bandwidth)
        for label, share, mean, stds, bandwidth in rows
    )
