r"""Covariances of weighted samples, and the rule that shrinks those of small clusters.

A covariance of few samples is noisy and often singular. It is shrunk towards the pooled covariance
of all clusters, and then towards a multiple of the identity. The strengths are averaged, weighted
by their leave-one-out likelihood. :func:`shrink`, used by :class:`~sevenhills.ROME`, does it for
all clusters at once, and follows rotations of the data. :func:`shrunk_ellipse`, used by
:class:`~sevenhills.AutoROME`, does it for one cell in standardized features, and follows changes of
their units.

All strengths are evaluated at once, in coordinates in which the covariance is diagonal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

#: Strengths of the shrinkage towards a multiple of the identity.
STRENGTHS = np.append(0.0, np.geomspace(1e-5, 1.0, 21))
#: Strengths of the shrinkage towards the pooled covariance in :func:`shrink`, in samples per
#: feature. Replacing the covariance by the pooled one is tried as well. A finer grid gains nothing.
POOLING = np.array([0.0, 1.0])
#: Lower bound on a shrunk variance, and on the share of it that leaving a sample out keeps, so that
#: rounding errors never make either negative.
_MIN_SHARE = 1e-14
#: Lower bound on the share of the samples of a Gaussian that leaving one out keeps.
_LEAST_LEFT = 1e-8
#: Rows that are evaluated at once, which limits the memory.
_BLOCK_ROWS = 4096
#: Steps, tolerance, and least share of a feature's variance that is noise, in fits of factors.
_FACTOR_STEPS, _NOISE_TOLERANCE, _LEAST_NOISE = 60, 1e-3, 0.05


class Moments(NamedTuple):
    """A mean and a covariance."""

    mean: np.ndarray
    covariance: np.ndarray


class Weighted(NamedTuple):
    """Rows, and the number of samples that each stands for."""

    rows: np.ndarray
    weights: np.ndarray


class Axes(NamedTuple):
    """The principal axes of covariances: variances, and unit vectors as columns."""

    variances: np.ndarray
    directions: np.ndarray


def weighted_moments(X: np.ndarray, weights: np.ndarray) -> Moments:
    """Return mean and covariance (``ddof=0``), which is exactly zero where samples are equal."""
    total = weights.sum()
    deviations = X - X[0]
    shift = weights @ deviations / total
    deviations -= shift
    deviations *= np.sqrt(weights)[:, None]
    return Moments(X[0] + shift, deviations.T @ deviations / total)


def whitening_transforms(covariances: np.ndarray) -> np.ndarray:
    r"""Return the matrices :math:`T` with :math:`T^\top \Sigma T = I`.

    A covariance that is not positive definite raises ``numpy.linalg.LinAlgError``.
    """
    factors = np.linalg.cholesky(covariances)
    return np.asarray(np.swapaxes(np.linalg.inv(factors), -1, -2))


def factor_covariance(covariance: np.ndarray, n_factors: int) -> np.ndarray:
    r"""Return the likeliest covariance of few factors, :math:`L L^\top + \operatorname{diag} \psi`.

    The loadings :math:`L` and the noise :math:`\psi` are maximized in turn.
    """
    variances = np.diag(covariance)
    noise = 0.5 * variances
    for _ in range(_FACTOR_STEPS):
        stds = np.sqrt(noise)
        values, axes = np.linalg.eigh(covariance / np.outer(stds, stds))
        gains = np.sqrt(np.maximum(values[-n_factors:] - 1, 0.0))
        loadings = stds[:, None] * axes[:, -n_factors:] * gains
        before, noise = noise, variances - np.square(loadings).sum(axis=1)
        noise = np.maximum(noise, _LEAST_NOISE * variances)
        if np.abs(noise - before).max() < _NOISE_TOLERANCE * variances.max():
            break
    return np.asarray(loadings @ loadings.T + np.diag(noise))


def _axes_of(covariances: np.ndarray) -> Axes:
    variances, directions = np.linalg.eigh(covariances)
    return Axes(np.maximum(variances, 0.0), directions)


def _interpolated(variances: np.ndarray, target: Any, strengths: np.ndarray) -> np.ndarray:
    """Return variances shrunk towards those of a target by every strength."""
    return np.asarray((1 - strengths) * variances + strengths * target)


# Pooled covariance and a multiple of the identity, by leave-one-out likelihood


@dataclass(frozen=True, eq=False)
class Shrunk:
    """The indices and shrunk axes of some clusters, and those of the pooled covariance."""

    clusters: np.ndarray
    axes: Axes
    common: Axes


def shrink(
    deviations: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    clusters: np.ndarray,
    min_std: float,
) -> Shrunk:
    r"""Shrink the covariances of some clusters.

    .. math:: \Sigma_C = (1 - \lambda) S_C + \lambda \frac{\operatorname{tr} S_C}{M} I, \qquad
              S_C = \frac{A_C + \kappa S}{\nu_C + \kappa}, \qquad
              S = \frac{\sum_C A_C}{\sum_C \nu_C} ,

    where :math:`A_C` sums the outer products of deviations from the mean, :math:`\nu_C` is one less
    than the number of samples, and :math:`\kappa` counts like samples: it dominates in small
    clusters and is negligible in large ones. The result is the mean of :math:`\Sigma_C` over all
    :math:`\kappa` and :math:`\lambda`, weighted by the likelihood of every sample given the others
    under Gaussian clusters. An average does not jump when one sample is added.

    Rows are deviations from the means of the clusters, one cluster after another. ``clusters`` are
    the indices of those to shrink; ``min_std`` bounds standard deviations in the likelihood.
    """
    one = np.zeros(len(offsets) - 1, dtype=np.int64)
    found = shrink_sets(deviations, weights, offsets, one, clusters, np.array([min_std]))
    return Shrunk(clusters, found.axes, Axes(*(each[0] for each in found.common)))


def shrink_sets(
    deviations: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    sets: np.ndarray,
    clusters: np.ndarray,
    min_std: np.ndarray,
) -> Shrunk:
    """Shrink the covariances of some clusters of several sets of samples, each set by itself.

    Clusters have ascending numbers (n_clusters,) of ``sets``, each of which has some to be shrunk,
    and every set its ``min_std`` (n_sets,). The pooled covariances are those of all sets.
    """
    n_sets, n_features = len(min_std), deviations.shape[1]
    rows = [slice(start, end) for start, end in pairwise(offsets.tolist())]
    is_alone = np.bincount(sets, minlength=n_sets) == 1
    axes = Axes(*(np.empty((len(clusters), *[n_features] * n)) for n in (1, 2)))
    common = Axes(*(np.empty((n_sets, *[n_features] * n)) for n in (1, 2)))
    for kind in (is_alone, ~is_alone):  # a single cluster is the pooled one
        if not kind.any():
            continue
        numbers = np.cumsum(kind) - 1
        own, chosen = np.flatnonzero(kind[sets]), np.flatnonzero(kind[sets[clusters]])
        scatters = _Scatters.from_rows(
            deviations, weights, [rows[c] for c in own.tolist()], numbers[sets[own]]
        )
        some = scatters.take(np.searchsorted(own, clusters[chosen]))
        members = [rows[c] for c in clusters[chosen].tolist()]
        parts = [Weighted(deviations[each], weights[each]) for each in members]
        chances = _posterior(some, parts, min_std[kind] ** 2)
        for out, each in zip(axes, _mean_axes(some, chances), strict=True):
            out[chosen] = each
        for out, each in zip(common, _mean_pooled_axes(some, chances), strict=True):
            out[kind] = each
    return Shrunk(clusters, axes, common)


class _Scatters(NamedTuple):
    """Sums of outer products of deviations, of some clusters and of all in their sets.

    ``pooled_dof`` is the number of all samples of a set, less one for each cluster. ``pooling`` has
    the strengths of pooling, except for the last: the pooled covariance alone.
    """

    own: np.ndarray
    n_samples: np.ndarray
    sets: np.ndarray
    pooled: np.ndarray
    pooled_dof: np.ndarray
    pooled_axes: Axes
    pooling: np.ndarray

    @classmethod
    def from_rows(
        cls,
        deviations: np.ndarray,
        weights: np.ndarray,
        rows: Sequence[slice],
        sets: np.ndarray,
    ) -> "_Scatters":
        scaled = deviations * np.sqrt(weights)[:, None]
        own = np.array([scaled[each].T @ scaled[each] for each in rows])
        n_samples = np.array([weights[each].sum() for each in rows])
        starts = np.searchsorted(sets, np.arange(sets[-1] + 1))
        pooled = np.add.reduceat(own, starts)
        dof = np.add.reduceat(np.maximum(n_samples - 1, 0.0), starts)
        pooling = deviations.shape[1] * POOLING if len(rows) > len(starts) else np.empty(0)
        return cls(own, n_samples, sets, pooled, dof, _axes_of(pooled), pooling)

    def take(self, clusters: np.ndarray) -> "_Scatters":
        return self._replace(
            own=self.own[clusters], n_samples=self.n_samples[clusters], sets=self.sets[clusters]
        )

    def factors(self, left_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Return the factors of :math:`A_C` and of :math:`\sum_C A_C`, (n_clusters, n_poolings).

        ``left_out`` is the number of samples that are left out of each cluster.
        """
        dof = np.maximum(self.n_samples - 1 - left_out, 0.0)
        total = np.maximum(dof[:, None] + self.pooling, 1.0)
        zeros, ones = np.zeros((len(total), 1)), np.ones((len(total), 1))
        own = np.concatenate([1 / total, zeros], axis=1)
        shares = np.concatenate([self.pooling / total, ones], axis=1)
        return own, shares / np.maximum(self.pooled_dof[self.sets] - left_out, 1.0)[:, None]

    def traces(self) -> np.ndarray:
        """Return the traces of the covariances, for every strength of pooling."""
        own, pooled = self.factors(np.zeros(len(self.own)))
        each, of_all = (np.einsum("gii->g", scatters) for scatters in (self.own, self.pooled))
        return np.asarray(own * each[:, None] + pooled * of_all[self.sets, None])

    def axes(self, own: np.ndarray, pooled: np.ndarray) -> Axes:
        """Return the axes of the covariances; all clusters of a set share the last."""
        variances, directions = (each[self.sets, None] for each in self.pooled_axes)
        last = Axes(pooled[:, -1:, None] * variances, directions)
        if len(self.pooling) == 0:
            return last
        own, rest = own[:, :-1, None, None], pooled[:, :-1, None, None]
        first = _axes_of(own * self.own[:, None] + rest * self.pooled[self.sets, None])
        return Axes(*(np.concatenate(each, axis=1) for each in zip(first, last, strict=True)))


def _mean_axes(scatters: _Scatters, chances: np.ndarray) -> Axes:
    """Return the axes of the mean covariances over all strengths."""
    own, pooled = scatters.factors(np.zeros(len(scatters.own)))
    sets, n_features = scatters.sets, scatters.own.shape[-1]
    size = (scatters.traces() * (chances @ STRENGTHS)[sets]).sum(axis=1) / n_features
    kept = (chances @ (1 - STRENGTHS))[sets]
    own, pooled = (own * kept).sum(axis=1), (pooled * kept).sum(axis=1)
    if len(scatters.pooling) == 0:
        variances, directions = (each[sets] for each in scatters.pooled_axes)
        return Axes(pooled[:, None] * variances + size[:, None], directions)
    mean = own[:, None, None] * scatters.own + pooled[:, None, None] * scatters.pooled[sets]
    return _axes_of(mean + size[:, None, None] * np.eye(n_features))


def _mean_pooled_axes(scatters: _Scatters, chances: np.ndarray) -> Axes:
    """Return the axes of the mean pooled covariances over all strengths."""
    variances, directions = scatters.pooled_axes
    variances = variances / np.maximum(scatters.pooled_dof, 1.0)[:, None]
    chances = chances.sum(axis=1)
    size = variances.mean(axis=1) * (chances @ STRENGTHS)
    return Axes((chances @ (1 - STRENGTHS))[:, None] * variances + size[:, None], directions)


def _posterior(
    scatters: _Scatters, clusters: Sequence[Weighted], min_variance: np.ndarray
) -> np.ndarray:
    """Return the probability of every strength of pooling and of the identity, in every set.

    The shape is (n_sets, n_poolings, n_strengths).
    """
    scores = np.zeros((len(min_variance), len(scatters.pooling) + 1, len(STRENGTHS)))
    # Leaving out the only row of a cluster leaves nothing to judge by.
    judging = np.flatnonzero([len(cluster.rows) > 1 for cluster in clusters])
    if len(judging):
        some = scatters.take(judging)
        found = _leave_one_out(some, [clusters[g] for g in judging.tolist()], min_variance)
        np.add.at(scores, some.sets, found)
    chances = np.exp(scores - scores.max(axis=(1, 2), keepdims=True))
    return np.asarray(chances / chances.sum(axis=(1, 2), keepdims=True))


def _leave_one_out(
    scatters: _Scatters, clusters: Sequence[Weighted], min_variance: np.ndarray
) -> np.ndarray:
    r"""Return the log likelihood of rows, each given all others, up to a constant.

    Without a row of weight :math:`w` that deviates by :math:`d` from the mean of :math:`n` samples,
    the products lose :math:`d d^\top w n / (n - w)`, a matrix of rank one, and the row deviates by
    :math:`d n / (n - w)` from the mean of the others. The degrees of freedom lose the mean weight
    of rows, and the multiple of the identity stays. The shape is (n_clusters, n_poolings,
    n_strengths).
    """
    n_samples = scatters.n_samples
    size = (scatters.traces() / scatters.own.shape[-1])[:, :, None, None]
    row_weight = n_samples / [len(cluster.rows) for cluster in clusters]
    own, pooled = scatters.factors(row_weight)
    variances, directions = scatters.axes(own, pooled)
    shrunk = _interpolated(variances[..., None], size, STRENGTHS)
    least = min_variance[scatters.sets, None, None, None]
    shrunk = np.maximum(shrunk, np.maximum(least, _MIN_SHARE * size) + np.finfo(float).tiny)
    lost = (own + pooled)[:, :, None, None] * (1 - STRENGTHS)
    out = n_samples[:, None, None] * np.log(shrunk).sum(axis=2)
    for g, n in enumerate(n_samples.tolist()):
        inverse = 1 / shrunk[g]
        for start in range(0, len(clusters[g].rows), _BLOCK_ROWS):
            rows, weights = (each[start : start + _BLOCK_ROWS] for each in clusters[g])
            along = rows @ directions[g]
            squares = np.square(along, out=along) @ inverse
            ratio = (n / (n - weights))[:, None]
            left = np.maximum(1 - lost[g] * (weights[:, None] * ratio) * squares, _MIN_SHARE)
            out[g] += weights @ (ratio**2 * squares / left + np.log(left))
    return np.asarray(-0.5 * out)


def left_out_log_density(
    X: np.ndarray, weights: np.ndarray, rows: np.ndarray, pooled: np.ndarray
) -> np.ndarray:
    r"""Return the log density of the Gaussian of some rows at all rows, times its weight.

    The covariance is :math:`S = (A + \kappa W) / (n + \kappa)` with the scatter matrix :math:`A` of
    the :math:`n` samples and :math:`\kappa = d + 2` samples of the pooled covariance :math:`W`. At
    its own rows, one sample is left out of mean and covariance, or the row if it weighs less.
    """
    n_features = X.shape[1]
    n, prior = float(weights[rows].sum()), n_features + 2.0
    mean, covariance = weighted_moments(X[rows], weights[rows])
    covariance = (n * covariance + prior * pooled) / (n + prior)
    # Beside huge weights the prior is lost in rounding, and samples on a line are then singular.
    covariance[np.diag_indices(n_features)] *= 1 + n_features * _MIN_SHARE
    transform = whitening_transforms(covariance)
    squares = np.square((X - mean) @ transform).sum(axis=1)
    log_dets = np.full(len(X), 2 * np.linalg.slogdet(transform)[1])
    # Without a sample, the scatter matrix loses a matrix of rank one.
    lost = np.minimum(weights[rows], 1.0)
    ratio = n / np.maximum(n - lost, _LEAST_LEFT * n)
    kept = np.maximum(1 - lost * ratio / (n + prior) * squares[rows], np.finfo(float).eps)
    factor = (n + prior) / (n + prior - lost)
    squares[rows] *= ratio**2 / (kept * factor)
    log_dets[rows] -= n_features * np.log(factor) + np.log(kept)
    return np.asarray(np.log(n) - 0.5 * (squares - log_dets))


# The same for one cell, in standardized features


class Shrinkage(NamedTuple):
    """The shares of the pooled covariance and of the diagonal in a shrunk covariance."""

    pooling: float
    diagonal: float


class Pooled(NamedTuple):
    """A covariance pooled over cells, and its degrees of freedom."""

    covariance: np.ndarray
    dof: float


class Ellipse(NamedTuple):
    r"""A mean :math:`m` and the map :math:`x \mapsto (x - m) T` that whitens a covariance."""

    mean: np.ndarray
    transform: np.ndarray

    @property
    def log_det(self) -> float:
        """The logarithm of the determinant of the transform."""
        return float(np.linalg.slogdet(self.transform)[1])

    @property
    def covariance(self) -> np.ndarray:
        """The covariance that is whitened."""
        root = np.linalg.inv(self.transform)
        return np.asarray(root.T @ root)

    def relative_to(self, other: "Ellipse") -> "Ellipse":
        """Return this ellipse in the coordinates in which another is the unit ball."""
        mean = (self.mean - other.mean) @ other.transform
        return Ellipse(mean, np.linalg.solve(other.transform, self.transform))


def shrunk_ellipse(
    X: np.ndarray, weights: np.ndarray, ridge: np.ndarray, pooled: Pooled | None
) -> tuple[Ellipse, Shrinkage]:
    """Return the mean and the shrunk covariance of samples plus a ridge, and the shrinkage.

    The rule is that of :func:`shrink` after every feature is divided by its standard deviation: the
    covariance is shrunk towards its diagonal. ``pooled`` is None if there is one cell only.
    """
    mean, covariance = weighted_moments(X, weights)
    stds = np.sqrt(np.diag(covariance + ridge))
    rows = Weighted((X - mean) / stds, weights)
    units, n_features, n_samples = np.outer(stds, stds), X.shape[1], float(weights.sum())
    own, dof = n_samples * covariance / units, max(n_samples - 1, 0.0)
    scatter, pooling = own, np.empty(0)
    if pooled is not None:
        dof, pooling = pooled.dof, n_features * POOLING
        scatter = dof * pooled.covariance / units
    scatters = _Scatters(
        own=own[None],
        n_samples=np.array([n_samples]),
        sets=np.zeros(1, dtype=np.int64),
        pooled=scatter[None],
        pooled_dof=np.array([dof]),
        pooled_axes=_axes_of(scatter[None]),
        pooling=pooling,
    )
    chances = _posterior(scatters, [rows], np.array([(np.diag(ridge) / stds**2).min()]))
    variances, directions = (each[0] for each in _mean_axes(scatters, chances))
    shrunk = (directions * variances) @ directions.T * units + ridge
    variances, directions = np.linalg.eigh(shrunk)
    transform = directions / np.sqrt(np.maximum(variances, np.diag(ridge).min()))
    shares = np.append(pooling / np.maximum(n_samples - 1 + pooling, 1.0), pooled is not None)
    of_poolings, of_strengths = chances[0].sum(axis=1), chances[0].sum(axis=0)
    shrinkage = Shrinkage(float(of_poolings @ shares), float(of_strengths @ STRENGTHS))
    return Ellipse(mean, transform), shrinkage
