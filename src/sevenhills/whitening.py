"""A cluster's mean, rotation and regularised scale."""

from dataclasses import dataclass

import numpy as np

#: Deviations below this part of the largest are nothing but rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Whitening:
    r"""The map :math:`x \mapsto (x - m) T` under which a cluster has about unit covariance.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
    transform : ndarray of shape (n_features, n_features)
        :math:`T = R^\top \mathrm{diag}(1 / \tilde s)`.
    log_det : float
        :math:`\log |\det T|`.
    stds : ndarray of shape (n_features,)
        The standard deviations along the axes before regularisation.
    """

    mean: np.ndarray
    transform: np.ndarray
    log_det: float
    stds: np.ndarray


def whiten(
    mean: np.ndarray,
    deviations: np.ndarray,
    min_std: float,
    *,
    decorrelate: bool = True,
    normalize: bool = True,
    tiled: bool = False,
    unit: float = 1.0,
) -> Whitening:
    r"""Rotate a cluster onto its principal axes and scale each to about unit variance.

    The standard deviations :math:`s` (``ddof=1``; zero along axes that too few members leave
    open) are regularised to :math:`\tilde s = \max(0, 1 - s_{\min} / s_{\max}) s + s_{\min}`.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        The mean of the cluster.
    deviations : ndarray of shape (n_members, n_features)
        The deviations of its members from the mean; see :func:`centre`.
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

    Returns
    -------
    Whitening
    """
    if decorrelate:
        rotation, stds = _principal_axes(deviations, tiled)
    else:
        rotation, stds = np.eye(len(mean)), np.sqrt(np.mean(deviations**2, axis=0))
    scale = regularise(stds, min_std) if normalize else np.full(len(mean), 1 / unit)
    return Whitening(mean, rotation.T / scale, float(-np.log(scale).sum()), stds)


def centre(members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the deviations from it, which are exactly zero for equal rows."""
    deviations = members - members[0]
    shift = deviations.mean(axis=0)
    deviations -= shift
    return members[0] + shift, deviations


def regularise(stds: np.ndarray, min_std: float) -> np.ndarray:
    """Raise standard deviations so that none is below ``min_std`` and the largest stays."""
    largest = stds.max()
    factor = max(0.0, 1.0 - min_std / largest) if largest > 0 else 0.0
    scale = factor * stds + min_std
    if not (scale > 0).all():
        raise ValueError(
            "a cluster has no spread in some direction; pass a min_std above 0 "
            f"(got min_std = {min_std:g})"
        )
    return scale


def _principal_axes(deviations: np.ndarray, tiled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the principal axes as rows, and the standard deviations along them.

    The axes are the eigenvectors of the covariance. The deviations are measured along them, since
    square roots of small eigenvalues would be nothing but rounding.
    """
    n_members, n_features = deviations.shape
    axes = np.linalg.eigh(deviations.T @ deviations)[1].T[::-1]
    along = deviations @ axes.T
    n_rows = n_members * -(-n_features // n_members) if tiled else n_members
    stds = np.sqrt(np.einsum("ij,ij->j", along, along) * (n_rows / n_members / max(n_rows - 1, 1)))
    stds[stds <= _ROUNDING * stds.max()] = 0.0
    return axes, stds
