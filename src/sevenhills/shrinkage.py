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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

#: The strengths of the pull to a ball.
STRENGTHS = np.append(0.0, np.geomspace(1e-5, 1.0, 21))
#: The strengths of the pull to all clusters, in samples for each feature, but for the last, which
#: leaves nothing of the cluster itself; others gain nothing.
POOLING = np.array([0.0, 1.0])
#: Rounding must not make a variance, or what a sample leaves of one, less than this part.
_LEAST = 1e-14
#: Members that are judged at once.
_BLOCK = 4096


class Axes(NamedTuple):
    """The principal axes of covariances.

    Attributes
    ----------
    variances : ndarray of shape (..., n_features)
    directions : ndarray of shape (..., n_features, n_features)
        Unit vectors, as columns.
    """

    variances: np.ndarray
    directions: np.ndarray


@dataclass(frozen=True, eq=False)
class Shrunk:
    """The covariances of some clusters.

    Attributes
    ----------
    clusters : ndarray of shape (n_shrunk,)
        Which clusters.
    axes : Axes
        Those of each.
    common : Axes
        That of all clusters together, shrunk alike.
    """

    clusters: np.ndarray
    axes: Axes
    common: Axes


class _Scatters(NamedTuple):
    """The members of clusters, and the sums of the products of their deviations."""

    deviations: Sequence[np.ndarray]
    weights: Sequence[np.ndarray]
    products: np.ndarray
    n_samples: np.ndarray

    @classmethod
    def of(cls, deviations: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> "_Scatters":
        weighted = deviations * np.sqrt(weights)[:, None]
        rows = [slice(start, end) for start, end in pairwise(offsets.tolist())]
        return cls(
            [deviations[each] for each in rows],
            [weights[each] for each in rows],
            np.array([weighted[each].T @ weighted[each] for each in rows]),
            np.add.reduceat(weights, offsets[:-1]),
        )

    def take(self, clusters: Sequence[int]) -> "_Scatters":
        return _Scatters(
            [self.deviations[g] for g in clusters],
            [self.weights[g] for g in clusters],
            self.products[clusters],
            self.n_samples[clusters],
        )


class _Common(NamedTuple):
    """The sum of all clusters, and the number of their samples but for one of each cluster."""

    products: np.ndarray
    freedom: float
    axes: Axes

    @classmethod
    def of(cls, scatters: _Scatters) -> "_Common":
        products = scatters.products.sum(axis=0)
        freedom = float(np.maximum(scatters.n_samples - 1, 0.0).sum())
        return cls(products, freedom, _axes_of(products))


class _Shares(NamedTuple):
    """What the products of every cluster, and those of all, count for all strengths of pooling.

    Attributes
    ----------
    own, common : ndarray of shape (n_clusters, n_poolings)
    """

    own: np.ndarray
    common: np.ndarray

    @classmethod
    def of(cls, freedom: np.ndarray, common_freedom: np.ndarray, pooling: np.ndarray) -> "_Shares":
        total = np.maximum(np.maximum(freedom, 0.0)[:, None] + pooling, 1.0)
        none, all_of_it = np.zeros((len(total), 1)), np.ones((len(total), 1))
        pulled = np.concatenate([pooling / total, all_of_it], axis=1)
        return cls(
            own=np.concatenate([1 / total, none], axis=1),
            common=pulled / np.maximum(common_freedom, 1.0)[:, None],
        )

    def traces(self, scatters: _Scatters, common: _Common) -> np.ndarray:
        """Return the traces of the covariances."""
        each = np.einsum("gii->g", scatters.products)[:, None]
        return np.asarray(self.own * each + self.common * np.trace(common.products))

    def axes(self, scatters: _Scatters, common: _Common) -> Axes:
        """Return the axes of the covariances, of which all clusters share the last."""
        own, pulled = self.own[:, :-1, None, None], self.common[:, :-1, None, None]
        first = _axes_of(own * scatters.products[:, None] + pulled * common.products)
        variances, directions = common.axes
        last = (self.common[:, -1:] * variances)[:, None]
        turned = np.broadcast_to(directions, (len(own), 1, *directions.shape))
        return Axes(
            np.concatenate([first.variances, last], axis=1),
            np.concatenate([first.directions, turned], axis=1),
        )


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
    scatters = _Scatters.of(deviations, weights, offsets)
    common = _Common.of(scatters)
    pooling = deviations.shape[1] * POOLING if len(scatters.products) > 1 else np.empty(0)
    some = scatters.take(clusters.tolist())
    chances = _chances(some, common, pooling, min_std**2)
    return Shrunk(
        clusters=clusters,
        axes=_mean_axes(some, common, pooling, chances),
        common=_mean_common_axes(common, chances.sum(axis=0)),
    )


def _mean_axes(
    scatters: _Scatters, common: _Common, pooling: np.ndarray, chances: np.ndarray
) -> Axes:
    """Return the axes of the mean covariances over all choices, each of which has a chance."""
    n_features = len(common.products)
    shares = _Shares.of(scatters.n_samples - 1, np.atleast_1d(common.freedom), pooling)
    kept, given = chances @ (1 - STRENGTHS), chances @ STRENGTHS
    own, pulled = (shares.own @ kept)[:, None, None], (shares.common @ kept)[:, None, None]
    ball = (shares.traces(scatters, common) @ given / n_features)[:, None]
    if len(pooling) == 0:
        variances, directions = common.axes
        return Axes(pulled[:, 0] * variances + ball, directions[None])
    mean = own * scatters.products + pulled * common.products
    return _axes_of(mean + ball[:, :, None] * np.eye(n_features))


def _mean_common_axes(common: _Common, chances: np.ndarray) -> Axes:
    """Return the axes of the mean covariance of all clusters together."""
    variances, directions = common.axes
    variances = variances / max(common.freedom, 1.0)
    mean = (1 - STRENGTHS) @ chances * variances + STRENGTHS @ chances * variances.mean()
    return Axes(mean, directions)


def _axes_of(covariances: np.ndarray) -> Axes:
    variances, directions = np.linalg.eigh(covariances)
    return Axes(np.maximum(variances, 0.0), directions)


def _chances(scatters: _Scatters, common: _Common, pooling: np.ndarray, floor: float) -> np.ndarray:
    """Return how likely samples make every strength of pooling and of the pull to a ball."""
    # A single point leaves nothing behind by which it could be judged.
    told = [g for g, weights in enumerate(scatters.weights) if len(weights) > 1]
    scores = np.zeros((len(pooling) + 1, len(STRENGTHS)))
    if told:
        scores = _log_likelihoods(scatters.take(told), common, pooling, floor)
    chances = np.exp(scores - scores.max())
    return np.asarray(chances / chances.sum())


def _log_likelihoods(
    scatters: _Scatters, common: _Common, pooling: np.ndarray, floor: float
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
    n_features, n_samples = len(common.products), scatters.n_samples
    usual = n_samples / [len(weights) for weights in scatters.weights]
    whole = _Shares.of(n_samples - 1, np.atleast_1d(common.freedom), pooling)
    size = (whole.traces(scatters, common) / n_features)[:, :, None, None]
    shares = _Shares.of(n_samples - 1 - usual, common.freedom - usual, pooling)
    variances, directions = shares.axes(scatters, common)
    shrunk = (1 - STRENGTHS) * variances[..., None] + STRENGTHS * size
    shrunk = np.maximum(shrunk, np.maximum(floor, _LEAST * size) + np.finfo(float).tiny)
    lost = (shares.own + shares.common)[:, :, None, None] * (1 - STRENGTHS)
    out = np.tensordot(n_samples, np.log(shrunk).sum(axis=2), axes=1)
    for g, n in enumerate(n_samples.tolist()):
        inverse = 1 / shrunk[g]
        for start in range(0, len(scatters.weights[g]), _BLOCK):
            weights = scatters.weights[g][start : start + _BLOCK]
            along = scatters.deviations[g][start : start + _BLOCK] @ directions[g]
            squares = np.square(along, out=along) @ inverse
            away = (n / (n - weights))[:, None]
            left = np.maximum(1 - lost[g] * (weights[:, None] * away) * squares, _LEAST)
            out += weights @ (away**2 * squares / left + np.log(left))
    return np.asarray(-0.5 * out)
