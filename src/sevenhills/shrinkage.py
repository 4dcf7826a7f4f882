r"""Covariances of clusters that have too few samples for one of their own.

The covariance of a cluster is drawn to that of all clusters together, and then to a ball,

.. math:: \Sigma_C = (1 - \lambda) S_C + \lambda \frac{\operatorname{tr} S_C}{M} I, \qquad
          S_C = \frac{A_C + \kappa S}{\nu_C + \kappa}, \qquad
          S = \frac{\sum_C A_C}{\sum_C \nu_C} ,

where :math:`A_C` adds up the products of deviations from the mean and :math:`\nu_C` is one less
than the number of samples. :math:`\kappa` counts like samples, so that small clusters lean on the
others and large ones do not. A choice of :math:`\kappa` and :math:`\lambda` is as good as samples
are likely given all others, if clusters were Gaussian, and :math:`\Sigma_C` is the mean over all
choices, weighted by this likelihood: where there are too few samples to decide, it is the wider
that count, and no sample tips a choice.

To leave a sample out changes a covariance by a matrix of rank one, so that all samples and
strengths are judged at once, in the coordinates in which :math:`S_C` is diagonal. A ball, since it
looks the same from all sides, keeps the density one that follows rotations.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

#: The strengths of the pull to a ball.
STRENGTHS = np.append(0.0, np.geomspace(1e-5, 1.0, 21))
#: The strengths of the pull to all clusters, in samples for each feature; more gain nothing.
POOLING = np.array([0.0, 1.0, np.inf])
#: Rounding must not make a variance, or what a sample leaves of one, less than this part.
_LEAST = 1e-14
#: Members that are judged at once.
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Shrunk:
    """The covariances of some clusters.

    Attributes
    ----------
    clusters : ndarray of shape (n_shrunk,)
        Which clusters.
    covariances : ndarray of shape (n_shrunk, n_features, n_features)
    common : ndarray of shape (n_features, n_features)
        That of all clusters together, shrunk alike.
    """

    clusters: np.ndarray
    covariances: np.ndarray
    common: np.ndarray


class _Scatter(NamedTuple):
    """The members of a cluster, and the sum of the products of their deviations."""

    deviations: np.ndarray
    weights: np.ndarray
    products: np.ndarray

    @property
    def n_samples(self) -> float:
        return float(self.weights.sum())


class _Common(NamedTuple):
    """The sum of all clusters, and the number of their samples but for one of each cluster."""

    products: np.ndarray
    freedom: float


class _Shares(NamedTuple):
    """What the products of a cluster, and those of all, count for every strength of pooling."""

    own: np.ndarray
    common: np.ndarray

    @classmethod
    def of(cls, freedom: float, common_freedom: float, pooling: np.ndarray) -> "_Shares":
        freedom, common_freedom = max(freedom, 0.0), max(common_freedom, 1.0)
        with np.errstate(invalid="ignore"):  # an infinite number of samples leaves no other share
            total = np.maximum(freedom + pooling, 1.0)
            pulled = np.where(np.isinf(pooling), 1.0, pooling / total)
        return cls(1 / total, pulled / common_freedom)

    def mixed(self, own: np.ndarray, common: np.ndarray) -> np.ndarray:
        """Return the covariance for every strength of pooling."""
        return np.multiply.outer(self.own, own) + np.multiply.outer(self.common, common)

    def mean_variance(self, scatter: _Scatter, common: _Common) -> np.ndarray:
        """Return the mean variance of a feature for every strength of pooling."""
        traces = self.own * np.trace(scatter.products) + self.common * np.trace(common.products)
        return np.asarray(traces / len(common.products))


def shrink(
    deviations: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    clusters: np.ndarray,
    min_std: float,
) -> Shrunk:
    """Shrink the covariances of some clusters.

    Parameters
    ----------
    deviations : ndarray of shape (n_members, n_features)
        The members' deviations from the means of their clusters, one cluster after another.
    weights : ndarray of shape (n_members,)
        How many samples every member is.
    offsets : ndarray of shape (n_clusters + 1,)
        Where each cluster begins.
    clusters : ndarray of shape (n_shrunk,)
        Which of them to shrink.
    min_std : float
        No standard deviation will be below this.

    Returns
    -------
    Shrunk
    """
    weighted = deviations * np.sqrt(weights)[:, None]
    scatters = [
        _Scatter(deviations[rows], weights[rows], weighted[rows].T @ weighted[rows])
        for rows in (slice(start, end) for start, end in pairwise(offsets.tolist()))
    ]
    freedoms = [max(each.n_samples - 1, 0.0) for each in scatters]
    common = _Common(np.sum([each.products for each in scatters], axis=0), sum(freedoms))
    n_features = deviations.shape[1]
    pooling = n_features * POOLING if len(scatters) > 1 else np.array([np.inf])
    chances = _chances([scatters[g] for g in clusters], common, pooling, min_std**2)
    covariances = [
        _mean_covariance(scatters[g].products, freedoms[g], common, pooling, chances)
        for g in clusters
    ]
    alike = chances.sum(axis=0, keepdims=True)
    everything = np.array([np.inf])
    return Shrunk(
        clusters=np.asarray(clusters),
        covariances=np.array(covariances),
        common=_mean_covariance(common.products, common.freedom, common, everything, alike),
    )


def _mean_covariance(
    products: np.ndarray,
    freedom: float,
    common: _Common,
    pooling: np.ndarray,
    chances: np.ndarray,
) -> np.ndarray:
    """Return the mean over all choices, each of which has a chance."""
    mixed = _Shares.of(freedom, common.freedom, pooling).mixed(products, common.products)
    kept, given = chances @ (1 - STRENGTHS), chances @ STRENGTHS
    ball = given @ np.einsum("kii->k", mixed) / len(products)
    return np.asarray(np.tensordot(kept, mixed, axes=1) + ball * np.eye(len(products)))


def _chances(
    scatters: list[_Scatter], common: _Common, pooling: np.ndarray, floor: float
) -> np.ndarray:
    """Return how likely samples make every strength of pooling and of the pull to a ball."""
    # A single point leaves nothing behind by which it could be judged.
    told = [each for each in scatters if len(each.weights) > 1]
    scores = np.zeros((len(pooling), len(STRENGTHS)))
    for each in told:
        scores += _log_likelihoods(each, common, pooling, floor)
    chances = np.exp(scores - scores.max())
    return np.asarray(chances / chances.sum())


def _log_likelihoods(
    scatter: _Scatter, common: _Common, pooling: np.ndarray, floor: float
) -> np.ndarray:
    r"""Return the log likelihood of members, each given all others, for all strengths.

    Without a member of weight :math:`w`, which lies :math:`d` from the mean of :math:`n` samples,
    the products of deviations lose :math:`d d^\top w n / (n - w)`, and the member lies
    :math:`d n / (n - w)` from the mean of the others. Degrees of freedom lose the mean weight of
    members, and the ball keeps its size.

    Returns
    -------
    ndarray of shape (n_poolings, n_strengths)
        Up to a constant.
    """
    n_samples, usual = scatter.n_samples, scatter.n_samples / len(scatter.weights)
    size = _Shares.of(n_samples - 1, common.freedom, pooling).mean_variance(scatter, common)
    shares = _Shares.of(n_samples - 1 - usual, common.freedom - usual, pooling)
    variances, axes = np.linalg.eigh(shares.mixed(scatter.products, common.products))
    size = size[:, None, None]
    shrunk = (1 - STRENGTHS) * np.maximum(variances, 0.0)[:, :, None] + STRENGTHS * size
    shrunk = np.maximum(shrunk, np.maximum(floor, _LEAST * size) + np.finfo(float).tiny)
    lost = (shares.own + shares.common)[:, None, None] * (1 - STRENGTHS)
    out = n_samples * np.log(shrunk).sum(axis=1)
    for start in range(0, len(scatter.weights), _BLOCK):
        weights = scatter.weights[start : start + _BLOCK]
        squares = np.square(scatter.deviations[start : start + _BLOCK] @ axes) @ (1 / shrunk)
        away = (n_samples / (n_samples - weights))[:, None]
        left = np.maximum(1 - lost * weights[:, None] * away * squares, _LEAST)
        out += weights @ (away**2 * squares / left + np.log(left))
    return np.asarray(-0.5 * out)
