"""Noise and small clusters: which samples join a cluster, and which are outliers."""

import numpy as np
from scipy.spatial import KDTree

from ..covariance import weighted_moments
from ..folds import counts

#: The label of samples that are far from all clusters.
OUTLIER = -1
#: Samples farther than this number of standard deviations from all clusters are outliers.
MAX_STDS = 10.0
#: So are samples whose distance to the median of their own cluster exceeds the typical distance by
#: this factor: they alone would determine the covariance of the cluster.
_MAX_RATIO = 2.0**20


def min_cluster_size(n_features: int) -> int:
    """Return the smallest number of samples of a cluster."""
    return max(10, n_features + 2)


def join_small(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Assign noise and small clusters to the cluster of the nearest sample.

    Samples that are far from all clusters, including their own, become outliers. Clusters are
    renumbered.
    """
    inside = (labels >= 0) & ~is_far(X, labels)
    sizes = counts(labels[inside], weights[inside])
    kept = inside.copy()
    kept[inside] = sizes[labels[inside]] >= min_cluster_size(X.shape[1])
    if not kept.any():
        return np.zeros(len(X), dtype=np.int64)
    numbers = np.unique(labels[kept], return_inverse=True)[1]
    out = np.full(len(X), OUTLIER, dtype=np.int64)
    out[kept] = numbers
    if kept.all():
        return out
    distances, nearest = KDTree(X[kept]).query(X[~kept])
    near = distances <= MAX_STDS * _radii(X[kept], weights[kept], numbers)[numbers[nearest]]
    out[~kept] = np.where(near, numbers[nearest], OUTLIER)
    return out


def is_far(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return which rows are far from the median of their cluster."""
    far = np.zeros(len(X), dtype=bool)
    for label in np.unique(labels[labels >= 0]):
        rows = np.flatnonzero(labels == label)
        apart = np.abs(X[rows] - np.quantile(X[rows], 0.5, axis=0, method="lower")).max(axis=1)
        if apart.any():
            far[rows] = apart > _MAX_RATIO * np.quantile(apart[apart > 0], 0.5, method="lower")
    return far


def _radii(X: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the standard deviation of every cluster, but at least the pooled one.

    If all clusters are single values, the standard deviation is that of all samples.
    """
    moments = [weighted_moments(X[rows], weights[rows]) for rows in rows_of(labels)]
    own = np.array([np.trace(each.covariance) for each in moments])
    within = float(own @ np.bincount(labels, weights)) / weights.sum()
    if within == 0:
        within = float(np.trace(weighted_moments(X, weights).covariance))
    return np.sqrt(np.maximum(own, within if within > 0 else np.inf))


def rows_of(labels: np.ndarray) -> list[np.ndarray]:
    """Return the rows of every cluster."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(labels.max() + 1)))[1:]
