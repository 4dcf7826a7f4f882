"""From clusters to a density: whitening, the kernels of every cluster, and their sum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

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
from .cluster_records import Cluster
from .parzen import Neighborhoods, window_neighbors, window_transforms

#: The densities that can be put on a cluster.
DENSITIES = ("kde", "gaussian", "knn", "mpw")
#: The choices of clusters whose covariances are shrunk.
SHRINKAGE = (None, "auto", "always")
#: With ``shrinkage="auto"``, clusters of fewer samples per feature are shrunk.
_ENOUGH = 5
#: The smallest variance that the study adds to Gaussians, in squared data units.
_SMALLEST_RIDGE = 1e-6
#: The smallest radius of a neighborhood, as a fraction of the smallest standard deviation.
_SMALLEST_RADIUS = 1e-6


class ClusterWhitening(NamedTuple):
    """The whitening of all clusters, noise last.

    Attributes
    ----------
    maps : Whitening
    min_std : float
        The smallest standard deviation, in the unit of the clusters.
    ridge : float
        The variance that is added to those of Gaussians.
    shrunk : Shrunk or None
        The shrunk covariances of some clusters.
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

    Parameters
    ----------
    clusters : Grouping
    min_std : float or "auto"
        The smallest standard deviation along any direction, in data units.
    decorrelate, normalize, tiled : bool
        See :func:`~sevenhills.whitening.whiten`.
    shrinkage : {None, "auto", "always"}
        The clusters whose covariances are shrunk.
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
    most = _ENOUGH * clusters.n_features if shrinkage == "auto" else np.inf
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


@dataclass(frozen=True, eq=False)
class ClusterKernels:
    """Gaussian kernels in groups, in the unit of the clusters.

    Attributes
    ----------
    weights : ndarray of shape (n_kernels,)
    means : ndarray of shape (n_kernels, n_features)
    sizes : ndarray of shape (n_groups,)
        The number of kernels of every group.
    transforms : ndarray of shape (n_groups, n_features, n_features)
    log_dets : ndarray of shape (n_groups,)
    labels : ndarray of shape (n_groups,)
        The cluster of every group.
    bandwidths : list of float or None
        The width of the kernels of every cluster after whitening; None if they have none in common.
    neighbors : tuple of NeighborCluster or None
        Densities of the proper clusters by their nearest neighbors, in data units. If there are
        some, the kernels are those of the noise.
    """

    weights: np.ndarray
    means: np.ndarray
    sizes: np.ndarray
    transforms: np.ndarray
    log_dets: np.ndarray
    labels: np.ndarray
    bandwidths: Sequence[float | None]
    neighbors: tuple[NeighborCluster, ...] | None = None


def put_kernels(
    clusters: Grouping,
    whitening: ClusterWhitening,
    density: str = "kde",
    n_jobs: int | None = None,
) -> ClusterKernels:
    """Put a density on every cluster, and kernels on noise.

    Parameters
    ----------
    clusters : Grouping
    whitening : ClusterWhitening
    density : {"kde", "gaussian", "knn", "mpw"}
    n_jobs : int, optional
        Number of threads.
    """
    if density == "kde" or not clusters.n_proper:
        kernels = _silverman_kernels(clusters, whitening.maps, 0)
        return replace(kernels, neighbors=()) if density == "knn" else kernels
    noise = _silverman_kernels(clusters, whitening.maps, clusters.n_proper)
    if density == "gaussian":
        return _joined(_gaussians(clusters, whitening), noise)
    if density == "mpw":
        return _joined(_windows(clusters, whitening, n_jobs), noise)
    return replace(
        noise,
        neighbors=_neighbors(clusters, whitening),
        bandwidths=[*[None] * clusters.n_proper, *noise.bandwidths],
    )


def _joined(*parts: ClusterKernels) -> ClusterKernels:
    def join(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    return ClusterKernels(
        weights=join("weights"),
        means=join("means"),
        sizes=join("sizes"),
        transforms=join("transforms"),
        log_dets=join("log_dets"),
        labels=join("labels"),
        bandwidths=[width for part in parts for width in part.bandwidths],
    )


def _silverman_kernels(clusters: Grouping, maps: Whitening, first: int) -> ClusterKernels:
    """Return kernels of Silverman's width on all clusters from ``first`` on.

    Noise has the width of a single sample.
    """
    bounds, labels = clusters.offsets[first:], clusters.labels[first:]
    n_samples = np.where(labels == NOISE, 1.0, clusters.masses[first:])
    bandwidths = [silverman(n, clusters.n_features) for n in n_samples.tolist()]
    widths = np.array(bandwidths)
    return ClusterKernels(
        weights=clusters.weights[bounds[0] :] / clusters.weights.sum(),
        means=clusters.points[bounds[0] :],
        sizes=bounds[1:] - bounds[:-1],
        transforms=maps.transforms[first:] / widths[:, None, None],
        log_dets=maps.log_dets[first:] - clusters.n_features * np.log(widths),
        labels=labels,
        bandwidths=bandwidths,
    )


def _gaussians(clusters: Grouping, whitening: ClusterWhitening) -> ClusterKernels:
    """Return one Gaussian for each proper cluster, with its own covariance plus a ridge."""
    masses = clusters.masses[: clusters.n_proper]
    axes, stds = principal_axes(*clusters.proper(), shrunk=whitening.shrunk)
    variances = stds**2 * (np.maximum(masses - 1, 1) / masses)[:, None] + whitening.ridge
    if not (variances > 0).all():
        raise ValueError("a cluster has no spread in some direction; pass a min_std above 0")
    if not np.isfinite(variances).all():
        raise ValueError("min_std is beyond what kernels can represent beside such samples")
    gaussians = scaled(axes, np.sqrt(variances), stds)
    return ClusterKernels(
        weights=masses / clusters.weights.sum(),
        means=clusters.means[: len(masses)],
        sizes=np.ones(len(masses), dtype=np.int64),
        transforms=gaussians.transforms,
        log_dets=gaussians.log_dets,
        labels=clusters.labels[: len(masses)],
        bandwidths=[None] * len(masses),
    )


def _windows(clusters: Grouping, whitening: ClusterWhitening, n_jobs: int | None) -> ClusterKernels:
    """Return windows whose neighbors are the nearest in the whitened space of their cluster."""
    members, weights, bounds = clusters.proper()
    windows = []
    for (start, end), transform in zip(pairwise(bounds), whitening.maps.transforms, strict=False):
        own, own_weights = members[start:end], weights[start:end]
        k = window_neighbors(float(own_weights.sum()), clusters.n_features)
        near = Neighborhoods.from_points(own @ transform, own_weights, k, n_jobs)
        windows.append(window_transforms(own, near, whitening.min_std))
    return ClusterKernels(
        weights=weights / clusters.weights.sum(),
        means=clusters.points[: len(members)],
        sizes=np.ones(len(members), dtype=np.int64),
        transforms=np.concatenate([transforms for transforms, _ in windows]),
        log_dets=np.concatenate([log_dets for _, log_dets in windows]),
        labels=np.repeat(clusters.labels[: clusters.n_proper], np.diff(bounds)),
        bandwidths=[None] * clusters.n_proper,
    )


def _neighbors(clusters: Grouping, whitening: ClusterWhitening) -> tuple[NeighborCluster, ...]:
    """Return the nearest-neighbor density of every proper cluster."""
    _, weights, bounds = clusters.proper()
    unit, maps = clusters.unit, whitening.maps
    return tuple(
        NeighborCluster(
            members=clusters.points[start:end] * unit,
            weights=weights[start:end],
            # The median: a mean may be far from all members.
            location=np.quantile(clusters.points[start:end], 0.5, axis=0, method="lower") * unit,
            transform=maps.transforms[g] / unit,
            log_det=float(maps.log_dets[g] - clusters.n_features * np.log(unit)),
            n_neighbors=float(max(min(mass, 3.0), int(np.sqrt(mass)))),
            min_radius=_SMALLEST_RADIUS * whitening.min_std * unit,
        )
        for g, ((start, end), mass) in enumerate(
            zip(pairwise(bounds), clusters.masses.tolist(), strict=False)
        )
    )


def add_up(
    kernels: ClusterKernels,
    clusters: Grouping,
    feature_names: Sequence[str] | None = None,
    n_samples: float | None = None,
) -> KernelMixture | NeighborDensity:
    """Add up the densities of clusters by their shares, in data units.

    Parameters
    ----------
    kernels : ClusterKernels
    clusters : Grouping
    feature_names : sequence of str, optional
    n_samples : float, optional
        The number of samples that the kernels stand for.
    """
    if kernels.neighbors is None:
        return _mixture(kernels, clusters.unit, 1.0, feature_names, n_samples)
    shares = clusters.masses / clusters.masses.sum()
    has_noise = len(kernels.weights) > 0
    return NeighborDensity(
        weights=shares[: clusters.n_proper],
        clusters=kernels.neighbors,
        noise=_mixture(kernels, clusters.unit, float(shares[-1])) if has_noise else None,
    )


def _mixture(
    kernels: ClusterKernels,
    unit: float,
    total: float,
    feature_names: Sequence[str] | None = None,
    n_samples: float | None = None,
) -> KernelMixture:
    """Return kernels, whose weights add up to ``total``, as a density in data units."""
    weights, transforms = kernels.weights / total, kernels.transforms / unit
    if not np.isfinite(transforms).all():
        raise ValueError("min_std is beyond what kernels can represent beside such samples")
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return unchecked_mixture(
        weights=weights,
        means=kernels.means * unit,
        offsets=np.append(0, np.cumsum(kernels.sizes)),
        transforms=transforms,
        log_dets=kernels.log_dets - kernels.means.shape[1] * np.log(unit),
        log_weights=log_weights,
        clusters=kernels.labels,
        counts=None if n_samples is None else weights * n_samples,
        feature_names=None if feature_names is None else tuple(feature_names),
    )


def describe_clusters(
    clusters: Grouping,
    whitening: ClusterWhitening,
    kernels: ClusterKernels,
    counts: Mapping[int, int],
) -> tuple[Cluster, ...]:
    """Return a summary of every cluster in the order of the labels, noise last.

    Parameters
    ----------
    clusters : Grouping
    whitening : ClusterWhitening
    kernels : ClusterKernels
    counts : mapping
        The number of rows of every label.
    """
    rows = zip(
        clusters.labels.tolist(),
        (clusters.masses / clusters.weights.sum()).tolist(),
        clusters.means * clusters.unit,
        whitening.maps.stds * clusters.unit,
        kernels.bandwidths,
        strict=True,
    )
    return tuple(
        Cluster(label, counts.get(label, 0), share, mean, stds, bandwidth)
        for label, share, mean, stds, bandwidth in rows
    )
