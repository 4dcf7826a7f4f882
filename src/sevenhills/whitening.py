"""Samples by cluster: means, rotations, regularized scales, and the bandwidth of kernels."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .clustering import Points
from .clustering.optics import NOISE
from .covariance import Axes, Shrunk

#: The automatic ``min_std`` is this fraction of the spread within clusters.
AUTO_SHARE = 0.01
#: Deviations below this fraction of the largest are rounding errors.
_ROUNDING = 1e-14
#: Below this fraction of the largest deviation, eigenvectors of a covariance lose their digits.
_SQUARES_LOST = 1e-6


@dataclass(frozen=True, eq=False)
class Grouping:
    """Samples by cluster: the proper clusters by ascending label, then the noise."""

    labels: np.ndarray  #: (n_clusters,)
    offsets: np.ndarray  #: (n_clusters + 1,) the first member of every cluster
    means: np.ndarray  #: (n_clusters, n_features)
    points: np.ndarray  #: (n_samples, n_features) the members by cluster, in multiples of ``unit``
    deviations: np.ndarray  #: (n_samples, n_features) from the mean; zero if all members are equal
    weights: np.ndarray  #: (n_samples,) the number of samples that every member stands for
    unit: float = 1.0  #: the unit of length, in data units

    @classmethod
    def from_points(cls, points: Points) -> "Grouping":
        """Group points by their labels."""
        return cls.from_samples(*points.joined(), points.unit)

    @classmethod
    def from_samples(
        cls, X: np.ndarray, labels: np.ndarray, weights: np.ndarray, unit: float = 1.0
    ) -> "Grouping":
        """Group samples by their labels, -1 being noise."""
        order = labels.astype(np.uint64).argsort(kind="stable")  # noise becomes the largest
        points, keys, weights = X.take(order, axis=0), labels[order], weights[order]
        is_edge = np.ones(len(X) + 1, dtype=bool)
        is_edge[1:-1] = keys[1:] != keys[:-1]
        offsets = is_edge.nonzero()[0]
        starts = offsets[:-1]
        of_rows = is_edge[:-1].cumsum() - 1
        first = points[starts]
        deviations = points - first.take(of_rows, axis=0)
        sums = np.add.reduceat(deviations * weights[:, None], starts)
        shifts = sums / np.add.reduceat(weights, starts)[:, None]
        deviations -= shifts.take(of_rows, axis=0)
        return cls(keys[starts], offsets, first + shifts, points, deviations, weights, unit)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.points.shape[1])

    @property
    def n_proper(self) -> int:
        """The number of clusters that are not noise."""
        return len(self.labels) - int(self.labels[-1] == NOISE)

    @cached_property
    def masses(self) -> np.ndarray:
        """The weight of every cluster."""
        return np.add.reduceat(self.weights, self.offsets[:-1])

    def proper(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return deviations, weights and offsets of the clusters that are not noise."""
        offsets = self.offsets[: self.n_proper + 1]
        return self.deviations[: offsets[-1]], self.weights[: offsets[-1]], offsets

    def spread(self) -> float:
        r"""Return the pooled standard deviation within clusters, noise left out.

        .. math:: \sqrt{\sum_C n_C \operatorname{tr}(S_C) / (N M)}

        If no cluster has any spread, it is that of all samples together.
        """
        deviations, weights, _ = self.proper()
        squares = _squares(deviations, weights)
        if squares == 0.0:
            alike = np.zeros(len(self.points), dtype=np.int64)
            whole = Grouping.from_samples(self.points, alike, self.weights)
            squares = _squares(whole.deviations, whole.weights)
        return float(np.sqrt(squares / self.weights.sum() / self.n_features))


def _squares(deviations: np.ndarray, weights: np.ndarray) -> float:
    return float(np.einsum("ij,ij,i->", deviations, deviations, weights))


def resolve_min_std(min_std: float | str, clusters: Grouping) -> float:
    """Return the smallest standard deviation in the unit of the clusters.

    It is derived from the data if "auto", and given in data units otherwise.
    """
    if not isinstance(min_std, str):
        return float(min_std) / clusters.unit
    smallest = AUTO_SHARE * clusters.spread()
    if smallest == 0.0:
        raise ValueError(
            f"the samples have no spread (n_samples = {len(clusters.deviations)}), so min_std "
            "cannot be 'auto'; pass the smallest standard deviation to allow as a number"
        )
    return smallest


class Whitening(NamedTuple):
    r"""The maps :math:`x \mapsto (x - m) T` under which clusters have about unit covariance."""

    #: (n_clusters, n_features, n_features) :math:`T = R^\top \mathrm{diag}(1 / \tilde s)`
    transforms: np.ndarray
    log_dets: np.ndarray  #: (n_clusters,) :math:`\log |\det T|`
    stds: np.ndarray  #: (n_clusters, n_features) along the axes, before regularization


def whiten(
    deviations: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    min_std: float,
    *,
    decorrelate: bool = True,
    normalize: bool = True,
    tiled: bool = False,
    unit: float = 1.0,
    shrunk: Shrunk | None = None,
) -> Whitening:
    r"""Rotate clusters onto their principal axes and scale each axis to about unit variance.

    The standard deviations :math:`s` (``ddof=1``; zero along axes that fewer members than features
    leave undetermined) are regularized by ``min_std`` to
    :math:`\tilde s = \max(0, 1 - s_{\min} / s_{\max}) s + s_{\min}`.

    Without ``decorrelate``, they are those of the features, with ``ddof=0``; without ``normalize``,
    the scale is one data unit, which is ``1 / unit`` units of ``deviations``. ``tiled`` repeats
    fewer members than features until there are enough, as romepy does. ``shrunk`` has covariances
    that replace those of the members of some clusters.
    """
    if decorrelate:
        axes, stds = principal_axes(deviations, weights, offsets, tiled, shrunk)
    else:
        stds = feature_stds(deviations, weights, offsets)
        axes = np.broadcast_to(np.eye(stds.shape[1]), (*stds.shape, stds.shape[1]))
    scales = regularize(stds, min_std) if normalize else np.full(stds.shape, 1 / unit)
    return scaled(axes, scales, stds)


def whiten_along(axes: Axes, min_std: float) -> Whitening:
    """Return the whitening of clusters whose covariances have given axes."""
    stds = np.sqrt(axes.variances)
    return scaled(_rows(axes), regularize(stds, min_std), stds)


def scaled(axes: np.ndarray, scales: np.ndarray, stds: np.ndarray) -> Whitening:
    """Return the whitening along given axes (rows) by given scales."""
    transforms = axes.transpose(0, 2, 1) / scales[:, None, :]
    return Whitening(transforms, -np.log(scales).sum(axis=1), stds)


def feature_stds(deviations: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the standard deviation of every feature in every cluster, with ``ddof=0``."""
    squares = np.add.reduceat(deviations**2 * weights[:, None], offsets[:-1])
    return np.sqrt(squares / np.add.reduceat(weights, offsets[:-1])[:, None])


def regularize(stds: np.ndarray, min_std: float | np.ndarray) -> np.ndarray:
    """Raise standard deviations so that none is below ``min_std`` and the largest stays.

    Clusters may have a ``min_std`` each, of shape (n_clusters, 1).
    """
    largest = stds.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(largest > min_std, 1.0 - min_std / largest, 0.0)
    scales = factor * stds + min_std
    if not (scales > 0).all():
        raise ValueError(
            "a cluster has no spread in some direction; pass a min_std above 0 "
            f"(got min_std = {np.min(min_std):g})"
        )
    return scales


def principal_axes(
    deviations: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    tiled: bool = False,
    shrunk: Shrunk | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the principal axes of every cluster as rows, and the standard deviations along them.

    The axes are the eigenvectors of the covariance. The deviations are measured along them, since
    square roots of small eigenvalues would be rounding errors.
    """
    if shrunk is not None and len(shrunk.clusters) == len(offsets) - 1:
        return _rows(shrunk.axes), np.sqrt(shrunk.axes.variances)
    weighted, n_features = deviations * np.sqrt(weights)[:, None], deviations.shape[1]
    bounds = list(pairwise(offsets.tolist()))
    parts = [weighted[start:end] for start, end in bounds]
    scatters = np.empty((len(parts), n_features, n_features))
    for part, scatter in zip(parts, scatters, strict=True):
        np.dot(part.T, part, out=scatter)
    axes = np.linalg.eigh(scatters)[1].transpose(0, 2, 1)
    along = np.empty_like(weighted)
    for part, each, (start, end) in zip(parts, axes, bounds, strict=True):
        np.dot(part, each.T, out=along[start:end])
    squares = np.add.reduceat(np.square(along, out=along), offsets[:-1])
    largest = squares.max(axis=1, keepdims=True)
    thin = (squares > _ROUNDING**2 * largest) & (squares < _SQUARES_LOST**2 * largest)
    for g in thin.any(axis=1).nonzero()[0].tolist():
        axes[g] = _careful_axes(parts[g])
        squares[g] = np.square(parts[g] @ axes[g].T).sum(axis=0)

    n_members = np.add.reduceat(weights, offsets[:-1])
    n_rows = n_members * np.ceil(n_features / n_members) if tiled else n_members
    stds = np.sqrt(squares * (n_rows / n_members / np.maximum(n_rows - 1, 1))[:, None])
    stds[stds <= _ROUNDING * stds.max(axis=1, keepdims=True)] = 0.0
    if shrunk is not None:
        axes[shrunk.clusters] = _rows(shrunk.axes)
        stds[shrunk.clusters] = np.sqrt(shrunk.axes.variances)
    return axes, stds


def _rows(axes: Axes) -> np.ndarray:
    return axes.directions.swapaxes(-1, -2)


def _careful_axes(part: np.ndarray) -> np.ndarray:
    """Return the principal axes, narrowest first, from the deviations themselves, not squared."""
    triangle = np.linalg.qr(part, mode="r")
    return np.asarray(np.linalg.svd(triangle, full_matrices=True)[2][::-1])


def silverman(n_samples: float, n_features: int) -> float:
    r"""Return Silverman's bandwidth for data of unit variance.

    .. math:: b = \left(\frac{M + 2}{4} n\right)^{-1 / (M + 4)}

    The bandwidth is a standard deviation; ``n_samples`` may be a sum of weights.
    """
    return float((n_samples * (n_features + 2) / 4) ** (-1 / (n_features + 4)))
