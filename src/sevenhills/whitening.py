"""The rotation and the regularised scale of clusters.

Clusters come as the deviations of their members from their means, one cluster after another, and
the members' weights; ``offsets`` (n_clusters + 1) says where each cluster begins.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .covariance import Axes, Shrunk

#: Deviations below this part of the largest are nothing but rounding.
_ROUNDING = 1e-14
#: The squares of deviations below this part of the largest are lost beside those of the largest.
_SQUARES_LOST = 1e-6


@dataclass(frozen=True, eq=False)
class Whitening:
    r"""The maps :math:`x \mapsto (x - m) T` under which clusters have about unit covariance.

    Attributes
    ----------
    transforms : ndarray of shape (n_clusters, n_features, n_features)
        :math:`T = R^\top \mathrm{diag}(1 / \tilde s)`.
    log_dets : ndarray of shape (n_clusters,)
        :math:`\log |\det T|`.
    stds : ndarray of shape (n_clusters, n_features)
        The standard deviations along the axes before regularisation.
    """

    transforms: np.ndarray
    log_dets: np.ndarray
    stds: np.ndarray


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

    The standard deviations :math:`s` (``ddof=1``; zero along axes that too few members leave
    open) are regularised to :math:`\tilde s = \max(0, 1 - s_{\min} / s_{\max}) s + s_{\min}`.

    Parameters
    ----------
    deviations : ndarray of shape (n_members, n_features)
    weights : ndarray of shape (n_members,)
        How many samples every member is.
    offsets : ndarray of shape (n_clusters + 1,)
    min_std : float
        The smallest standard deviation :math:`s_{\min}`.
    decorrelate : bool, default=True
        Whether to rotate; if not, :math:`s` is taken by feature with ``ddof=0``.
    normalize : bool, default=True
        Whether to scale; if not, the scale is one data unit.
    tiled : bool, default=False
        Whether members fewer than features count as if repeated until they are not fewer.
    unit : float, default=1
        The length of one unit of ``deviations`` in data units.
    shrunk : Shrunk, optional
        Covariances to use for some clusters in place of those of their members.

    Returns
    -------
    Whitening
    """
    if decorrelate:
        axes, stds = principal_axes(deviations, weights, offsets, tiled, shrunk)
    else:
        stds = feature_stds(deviations, weights, offsets)
        axes = np.broadcast_to(np.eye(stds.shape[1]), (*stds.shape, stds.shape[1]))
    scales = regularise(stds, min_std) if normalize else np.full(stds.shape, 1 / unit)
    return scaled(axes, scales, stds)


def whiten_along(axes: Axes, min_std: float) -> Whitening:
    """Return the whitening of clusters whose covariances have given axes."""
    stds = np.sqrt(axes.variances)
    return scaled(_rows(axes), regularise(stds, min_std), stds)


def scaled(axes: np.ndarray, scales: np.ndarray, stds: np.ndarray) -> Whitening:
    """Return the whitening along given axes (rows) by given scales."""
    transforms = axes.transpose(0, 2, 1) / scales[:, None, :]
    return Whitening(transforms, -np.log(scales).sum(axis=1), stds)


def feature_stds(deviations: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the standard deviation of every feature in every cluster, with ``ddof=0``."""
    squares = np.add.reduceat(deviations**2 * weights[:, None], offsets[:-1])
    return np.sqrt(squares / np.add.reduceat(weights, offsets[:-1])[:, None])


def regularise(stds: np.ndarray, min_std: float) -> np.ndarray:
    """Raise standard deviations so that none is below ``min_std`` and the largest stays."""
    largest = stds.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(largest > min_std, 1.0 - min_std / largest, 0.0)
    scales = factor * stds + min_std
    if not (scales > 0).all():
        raise ValueError(
            "a cluster has no spread in some direction; pass a min_std above 0 "
            f"(got min_std = {min_std:g})"
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
    square roots of small eigenvalues would be nothing but rounding.
    """
    if shrunk is not None and len(shrunk.clusters) == len(offsets) - 1:
        return _rows(shrunk.axes), np.sqrt(shrunk.axes.variances)
    weighted, n_features = deviations * np.sqrt(weights)[:, None], deviations.shape[1]
    parts = [weighted[start:end] for start, end in pairwise(offsets.tolist())]
    scatters = np.empty((len(parts), n_features, n_features))
    for g, part in enumerate(parts):
        scatters[g] = part.T @ part
    axes = np.linalg.eigh(scatters)[1].transpose(0, 2, 1)
    squares = np.empty((len(parts), n_features))
    for g, part in enumerate(parts):
        squares[g] = _squares_along(part, axes[g])
    largest = squares.max(axis=1, keepdims=True)
    thin = (squares > _ROUNDING**2 * largest) & (squares < _SQUARES_LOST**2 * largest)
    for g in np.flatnonzero(thin.any(axis=1)).tolist():
        axes[g] = _careful_axes(parts[g])
        squares[g] = _squares_along(parts[g], axes[g])

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


def _squares_along(part: np.ndarray, axes: np.ndarray) -> np.ndarray:
    along = part @ axes.T
    return np.asarray(np.einsum("ij,ij->j", along, along))


def _careful_axes(part: np.ndarray) -> np.ndarray:
    """Return the principal axes, narrowest first, without any squares; it takes longer."""
    triangle = np.linalg.qr(part, mode="r")
    return np.asarray(np.linalg.svd(triangle, full_matrices=True)[2][::-1])
