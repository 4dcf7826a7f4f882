"""The densities that ``ROME(shrinkage=...)`` fits to many small sets of samples, all at once."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..clustering.optics import NOISE
from ..clustering.points import FEWEST_TO_CLUSTER
from ..clustering.small_sets import SmallSets, cluster_small_sets
from ..covariance import shrink_sets
from ..density import KernelMixture
from ..density.mixture import unchecked_mixture
from ..density.sums import LOG_2PI
from ..whitening import AUTO_SHARE, Grouping, regularize, silverman
from .cluster_densities import ENOUGH
from .rome import ROME

#: Larger sets are fitted one by one, which is as fast.
_MOST_SAMPLES = 40
#: Numbers in the samples of sets that are fitted together; more of them leave the cache.
_BATCH = 2**16


class SmallFit(NamedTuple):
    """The density of a set of samples, and its logs at the samples without their own kernels."""

    density: KernelMixture
    left_out: np.ndarray  #: (n_samples,)

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        """Return the log densities of points."""
        return self.density.logpdf(X)


def takes_small_sets(estimator: Any, n_samples: int, n_features: int) -> bool:
    """Return whether sets of this shape can be fitted at once.

    The estimator must be a ``ROME`` that shrinks all clusters, with other parameters as by default.
    """
    if type(estimator) is not ROME or estimator.shrinkage is None:
        return False
    if not FEWEST_TO_CLUSTER <= n_samples <= _MOST_SAMPLES:
        return False
    free = {"shrinkage": None, "n_jobs": None, "verbose": False}
    is_default = {**estimator.get_params(), **free} == ROME().get_params()
    return is_default and (estimator.shrinkage == "always" or n_samples < ENOUGH * n_features)


def fit_small_sets(X: np.ndarray) -> list[SmallFit | None]:
    """Fit every set of samples (n_sets, n_samples, n_features) by itself.

    The result is None for sets with ties, which are to be fitted one by one.
    """
    out: list[SmallFit | None] = [None] * len(X)
    size = max(1, _BATCH // X[0].size)
    for start in range(0, len(X), size):
        sets, places = SmallSets.from_samples(X[start : start + size])
        for place, fit in zip((places + start).tolist(), _fits(sets), strict=True):
            out[place] = fit
    return out


def _fits(sets: SmallSets) -> Iterator[SmallFit]:
    """Yield the fits of sets without ties."""
    if len(sets.X) == 0:
        return
    labels = cluster_small_sets(sets.X)
    n_sets, n_samples, n_features = sets.X.shape
    # All clusters of all sets are numbered one after another, with the noise after every set.
    numbers = np.where(labels == NOISE, n_samples, labels)
    numbers += (n_samples + 1) * np.arange(n_sets)[:, None]
    order = np.argsort(numbers, axis=1, kind="stable")
    clusters = Grouping.from_samples(
        sets.X.reshape(-1, n_features), numbers.ravel(), np.ones(labels.size)
    )
    of_set, labels = np.divmod(clusters.labels, n_samples + 1)
    labels[labels == n_samples] = NOISE
    transforms, log_dets = _whiten(clusters, of_set, labels == NOISE)
    units = sets.units[of_set]
    transforms /= units[:, None, None]
    log_dets -= n_features * np.log(units)
    means = clusters.points.reshape(sets.X.shape) * sets.units[:, None, None]
    left_out = np.empty(order.shape)
    rows = np.take_along_axis(sets.rows, order, axis=1)
    np.put_along_axis(
        left_out, rows, _sums_of_others(means, clusters, transforms, log_dets), axis=1
    )
    weights = np.full(n_samples, 1 / n_samples)
    bounds = np.searchsorted(of_set, np.arange(n_sets + 1))
    for s, (first, last) in enumerate(pairwise(bounds.tolist())):
        density = unchecked_mixture(
            weights=weights,
            means=means[s],
            offsets=clusters.offsets[first : last + 1] - clusters.offsets[first],
            transforms=transforms[first:last],
            log_dets=log_dets[first:last],
            log_weights=np.log(weights),
            clusters=labels[first:last],
            counts=np.ones(n_samples),
            feature_names=None,
        )
        yield SmallFit(density, left_out[s])


def _sums_of_others(
    means: np.ndarray, clusters: Grouping, transforms: np.ndarray, log_dets: np.ndarray
) -> np.ndarray:
    """Return the log densities (S, n) at the means (S, n, d) of kernels, each without its own."""
    n_sets, n_samples, n_features = means.shape
    squares = np.empty((n_sets * n_samples, n_samples))  # a row for every kernel
    centered = means - means.mean(axis=1, keepdims=True)
    for g, (first, last) in enumerate(pairwise(clusters.offsets.tolist())):
        start = first - first % n_samples
        Z = centered[first // n_samples] @ transforms[g]
        apart = Z[first - start : last - start, None] - Z
        np.einsum("kid,kid->ki", apart, apart, out=squares[first:last])
    heights = np.repeat(log_dets, np.diff(clusters.offsets))[:, None]
    logs = (heights - 0.5 * squares).reshape(n_sets, n_samples, n_samples)
    logs[:, np.arange(n_samples), np.arange(n_samples)] = -np.inf
    constant = np.log(n_samples) + 0.5 * n_features * LOG_2PI
    return np.asarray(np.logaddexp.reduce(logs, axis=1) - constant)


def _whiten(
    clusters: Grouping, of_set: np.ndarray, is_noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return transforms and log determinants of the kernels of clusters, which are shrunk.

    The arguments are the sets of the clusters, and whether they are noise.
    """
    sizes, n_features = np.diff(clusters.offsets), clusters.n_features
    rows = np.repeat(~is_noise, sizes)
    deviations, kept = clusters.deviations[rows], of_set[~is_noise]
    squares = np.bincount(np.repeat(kept, sizes[~is_noise]), np.square(deviations).sum(axis=1))
    n_samples = np.bincount(of_set, sizes)
    min_std = AUTO_SHARE * np.sqrt(squares / n_samples / n_features)
    offsets = np.append(0, np.cumsum(sizes[~is_noise]))
    shrunk = shrink_sets(
        deviations, np.ones(len(deviations)), offsets, kept, np.arange(len(kept)), min_std
    )
    variances, directions = (each[of_set] for each in shrunk.common)
    variances[~is_noise], directions[~is_noise] = shrunk.axes
    scales = regularize(np.sqrt(variances), min_std[of_set, None])
    # A kernel of noise has the width of that of one sample.
    widths = np.array([silverman(n, n_features) for n in np.where(is_noise, 1, sizes).tolist()])
    scales *= widths[:, None]
    return directions / scales[:, None], -np.log(scales).sum(axis=1)
