"""From clusters to a density: what is put on every cluster, and how it adds up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..bandwidth import silverman
from ..covariance import Axes, Shrunk, shrink
from ..density import KernelMixture, NeighborCluster, NeighborDensity
from ..density.mixture import unchecked_mixture
from ..whitening import Whitening, feature_stds, principal_axes, scaled, whiten, whiten_along
from .clusters import NOISE, Cluster, Grouping
from .parzen import Neighbourhoods, neighbours_of_window, window_transforms

#: What can be put on a cluster.
DOWNSTREAM = ("kde", "gaussian", "knn", "mpw")
#: Which clusters are shrunk.
SHRINKAGE = (None, "auto", "always")
#: By default, clusters of fewer samples for each feature are.
_ENOUGH = 5

#: Neighbourhoods are no smaller than this part of the smallest standard deviation.
_SMALLEST_RADIUS = 1e-6


@dataclass(frozen=True)
class Options:
    """How clusters are turned into a density.

    Attributes
    ----------
    density : str
        One of ``DOWNSTREAM``.
    decorrelate, normalize, tiled : bool
        See :func:`~sevenhills.whitening.whiten`.
    shrinkage : str or None
        One of ``SHRINKAGE``.
    min_std : float
        The smallest standard deviation to allow, in multiples of ``unit``.
    ridge : float
        The variance added to every feature of a Gaussian, in multiples of the squared ``unit``.
    unit : float
        The length of one unit in data units.
    n_jobs : int or None
        Number of threads.
    """

    density: str
    decorrelate: bool
    normalize: bool
    tiled: bool
    shrinkage: str | None
    min_std: float
    ridge: float
    unit: float
    n_jobs: int | None


@dataclass(frozen=True, eq=False)
class _Part:
    """Kernels in groups of clusters, in multiples of the unit, and the widths within each."""

    weights: np.ndarray
    means: np.ndarray
    sizes: np.ndarray
    transforms: np.ndarray
    log_dets: np.ndarray
    clusters: np.ndarray
    bandwidths: Sequence[float | None]


def cluster_density(
    grouping: Grouping, counts: Mapping[int, int], options: Options
) -> tuple[KernelMixture | NeighborDensity, tuple[Cluster, ...]]:
    """Put a density on every cluster, kernels on noise, and add them up by their shares.

    Parameters
    ----------
    grouping : Grouping
        The samples by cluster, in multiples of the unit.
    counts : dict
        The number of samples of every label, however much they weigh.
    options : Options

    Returns
    -------
    density : KernelMixture or NeighborDensity
        In data units.
    clusters : tuple of Cluster
        In the order of the labels, noise last.
    """
    bounds = grouping.offsets[: grouping.n_proper + 1]
    shrunk = _shrink(grouping, bounds, options)
    maps, parts = [], []
    if grouping.n_proper:
        maps.append(_whiten_proper(grouping, bounds, options, shrunk))
    if grouping.labels[-1] == NOISE:
        maps.append(_whiten_noise(grouping, options, shrunk))
    if grouping.n_proper and options.density == "gaussian":
        parts.append(_gaussian(grouping, bounds, options, shrunk))
    elif grouping.n_proper and options.density != "knn":
        parts.append(_PARTS[options.density](grouping, bounds, maps[0], options))
    if grouping.labels[-1] == NOISE:
        parts.append(_noise_kernels(grouping, maps[-1]))
    density: KernelMixture | NeighborDensity
    if options.density == "knn":
        density = _neighbours(grouping, bounds, maps, parts, options)
        bandwidths = [None] * grouping.n_proper + [w for part in parts for w in part.bandwidths]
    else:
        density = _mixture(parts, options.unit)
        bandwidths = [width for part in parts for width in part.bandwidths]
    stds = np.concatenate([each.stds for each in maps])
    return density, _describe(grouping, counts, stds, bandwidths, options.unit)


def _describe(
    grouping: Grouping,
    counts: Mapping[int, int],
    stds: np.ndarray,
    bandwidths: Sequence[float | None],
    unit: float,
) -> tuple[Cluster, ...]:
    rows = zip(
        grouping.labels.tolist(),
        (grouping.masses / grouping.weights.sum()).tolist(),
        grouping.means * unit,
        stds * unit,
        bandwidths,
        strict=True,
    )
    return tuple(
        Cluster(label, counts.get(label, 0), share, mean, each, bandwidth)
        for label, share, mean, each, bandwidth in rows
    )


def _shrink(grouping: Grouping, bounds: np.ndarray, options: Options) -> Shrunk | None:
    """Shrink the covariances of the clusters that ask for it; None if none does."""
    masses, n_features = grouping.masses[: grouping.n_proper], grouping.points.shape[1]
    if options.shrinkage is None or not (options.decorrelate and options.normalize):
        return None
    most = _ENOUGH * n_features if options.shrinkage == "auto" else np.inf
    clusters = np.flatnonzero(masses < most)
    if not len(clusters):
        return None
    members = slice(bounds[-1])
    deviations, weights = grouping.deviations[members], grouping.weights[members]
    return shrink(deviations, weights, bounds, clusters, options.min_std)


def _whiten_proper(
    grouping: Grouping, bounds: np.ndarray, options: Options, shrunk: Shrunk | None
) -> Whitening:
    return whiten(
        grouping.deviations[: bounds[-1]],
        grouping.weights[: bounds[-1]],
        bounds,
        options.min_std,
        decorrelate=options.decorrelate,
        normalize=options.normalize,
        tiled=options.tiled,
        unit=options.unit,
        shrunk=shrunk,
    )


def _whiten_noise(grouping: Grouping, options: Options, shrunk: Shrunk | None) -> Whitening:
    """Scale noise, without rotation, by the mean spread of the proper clusters.

    Without any, or if nothing is to be scaled, its scale is one data unit. Where clusters are
    shrunk, noise has the covariance that they have in common.
    """
    if shrunk is not None:
        variances, directions = shrunk.common
        return whiten_along(Axes(variances[None], directions[None]), options.min_std)
    n_features = grouping.deviations.shape[1]
    scale = np.full(n_features, 1 / options.unit)
    if grouping.n_proper and options.normalize:
        bounds = grouping.offsets[: grouping.n_proper + 1]
        n_proper = bounds[-1]
        stds = feature_stds(grouping.deviations[:n_proper], grouping.weights[:n_proper], bounds)
        scale = np.maximum(stds.mean(axis=0), options.min_std)
    if not (scale > 0).all():
        raise ValueError(
            f"noise has no scale in some feature; pass a min_std above {options.min_std:g}"
        )
    return scaled(np.eye(n_features)[None], scale[None], scale[None])


def _mixture(parts: Sequence[_Part], unit: float, total: float = 1.0) -> KernelMixture:
    """Return kernels, whose weights add up to ``total``, as a density in data units."""
    weights, means, sizes, transforms, log_dets, clusters = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("weights", "means", "sizes", "transforms", "log_dets", "clusters")
    )
    weights, transforms = weights / total, transforms / unit
    if not np.isfinite(transforms).all():
        raise ValueError("min_std is beyond what kernels can represent beside such samples")
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return unchecked_mixture(
        weights=weights,
        means=means * unit,
        offsets=np.append(0, np.cumsum(sizes)),
        transforms=transforms,
        log_dets=log_dets - means.shape[1] * np.log(unit),
        log_weights=log_weights,
        clusters=clusters,
        counts=None,
        feature_names=None,
    )


def _kernels(
    grouping: Grouping,
    bounds: np.ndarray,
    labels: np.ndarray,
    whitening: Whitening,
    masses: np.ndarray,
) -> _Part:
    """Return kernels of Silverman's width for samples of these masses, in whitened space."""
    rows = slice(bounds[0], bounds[-1])
    n_features = grouping.points.shape[1]
    bandwidths = [silverman(mass, n_features) for mass in masses.tolist()]
    widths = np.array(bandwidths)
    return _Part(
        weights=grouping.weights[rows] / grouping.weights.sum(),
        means=grouping.points[rows],
        sizes=bounds[1:] - bounds[:-1],
        transforms=whitening.transforms / widths[:, None, None],
        log_dets=whitening.log_dets - n_features * np.log(widths),
        clusters=labels,
        bandwidths=bandwidths,
    )


def _noise_kernels(grouping: Grouping, whitening: Whitening) -> _Part:
    return _kernels(grouping, grouping.offsets[-2:], grouping.labels[-1:], whitening, np.ones(1))


def _kde(grouping: Grouping, bounds: np.ndarray, whitening: Whitening, options: Options) -> _Part:
    n_proper = len(bounds) - 1
    labels, masses = grouping.labels[:n_proper], grouping.masses[:n_proper]
    return _kernels(grouping, bounds, labels, whitening, masses)


def _gaussian(
    grouping: Grouping, bounds: np.ndarray, options: Options, shrunk: Shrunk | None
) -> _Part:
    """Return one Gaussian for each cluster, whatever its whitening."""
    masses, n_members = grouping.masses[: len(bounds) - 1], bounds[-1]
    axes, stds = principal_axes(
        grouping.deviations[:n_members], grouping.weights[:n_members], bounds, shrunk=shrunk
    )
    variances = stds**2 * (np.maximum(masses - 1, 1) / masses)[:, None] + options.ridge
    if not (variances > 0).all():
        raise ValueError("a cluster has no spread in some direction; pass a min_std above 0")
    if not np.isfinite(variances).all():
        raise ValueError("min_std is beyond what kernels can represent beside such samples")
    gaussians = scaled(axes, np.sqrt(variances), stds)
    return _Part(
        weights=masses / grouping.weights.sum(),
        means=grouping.means[: len(masses)],
        sizes=np.ones(len(masses), dtype=np.int64),
        transforms=gaussians.transforms,
        log_dets=gaussians.log_dets,
        clusters=grouping.labels[: len(masses)],
        bandwidths=[None] * len(masses),
    )


def _parzen(
    grouping: Grouping, bounds: np.ndarray, whitening: Whitening, options: Options
) -> _Part:
    """Return windows whose neighbours are the nearest in the whitened space of their cluster."""
    n_members, n_features = int(bounds[-1]), grouping.points.shape[1]
    windows = []
    for (start, end), transform in zip(pairwise(bounds), whitening.transforms, strict=True):
        members, weights = grouping.deviations[start:end], grouping.weights[start:end]
        k = neighbours_of_window(float(weights.sum()), n_features)
        near = Neighbourhoods.of(members @ transform, weights, k, options.n_jobs)
        windows.append(window_transforms(members, near, options.min_std))
    return _Part(
        weights=grouping.weights[:n_members] / grouping.weights.sum(),
        means=grouping.points[:n_members],
        sizes=np.ones(n_members, dtype=np.int64),
        transforms=np.concatenate([transforms for transforms, _ in windows]),
        log_dets=np.concatenate([log_dets for _, log_dets in windows]),
        clusters=np.repeat(grouping.labels[: len(bounds) - 1], np.diff(bounds)),
        bandwidths=[None] * (len(bounds) - 1),
    )


_PARTS = {"kde": _kde, "mpw": _parzen}


def _neighbours(
    grouping: Grouping,
    bounds: np.ndarray,
    maps: Sequence[Whitening],
    noise: Sequence[_Part],
    options: Options,
) -> NeighborDensity:
    """Return a nearest-neighbour density for each cluster; noise keeps its kernels."""
    unit, n_features = options.unit, grouping.points.shape[1]
    masses = grouping.masses
    clusters = []
    for g, (start, end) in enumerate(pairwise(bounds)):
        mass, members = float(masses[g]), grouping.points[start:end]
        clusters.append(
            NeighborCluster(
                members=members * unit,
                weights=grouping.weights[start:end],
                # The median: a mean may be far from all members.
                location=np.quantile(members, 0.5, axis=0, method="lower") * unit,
                transform=maps[0].transforms[g] / unit,
                log_det=float(maps[0].log_dets[g] - n_features * np.log(unit)),
                n_neighbors=float(max(min(mass, 3.0), int(np.sqrt(mass)))),
                min_radius=_SMALLEST_RADIUS * options.min_std * unit,
            )
        )
    shares = masses / masses.sum()
    return NeighborDensity(
        weights=shares[: len(bounds) - 1],
        clusters=tuple(clusters),
        noise=_mixture(noise, unit, float(shares[-1])) if noise else None,
    )
