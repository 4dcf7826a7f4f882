"""Slow, obvious twins of what the library computes fast."""

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.cluster import cluster_optics_dbscan, cluster_optics_xi
from sklearn.metrics import silhouette_score


def plain_optics(X, n_neighbors):
    """OPTICS without a radius, all pairs of distances, scikit-learn's rounding."""
    distances = cdist(X, X)
    core = np.around(np.sort(distances, axis=1)[:, n_neighbors - 1], 15)
    reach = np.full(len(X), np.inf)
    source = np.full(len(X), -1)
    todo = np.ones(len(X), dtype=bool)
    order = []
    for _ in range(len(X)):
        point = np.flatnonzero(todo)[np.argmin(reach[todo])]
        todo[point] = False
        order.append(point)
        offer = np.around(np.maximum(distances[point], core[point]), 15)
        better = todo & (offer < reach)
        reach[better] = offer[better]
        source[better] = point
    return np.array(order), reach, core, source


def all_labels(order, reachability, core, predecessor, n_neighbors):
    """The 199 labelings by scikit-learn's extraction and romepy's treatment of single members."""
    finite = reachability[np.isfinite(reachability)]
    heights = np.linspace(0, 1, 100) ** 2 * (finite.max() - finite.min()) + finite.min()
    labelings = [
        cluster_optics_dbscan(
            reachability=reachability, core_distances=core, ordering=order, eps=height
        )
        for height in heights
    ]
    with np.errstate(divide="ignore"):
        labelings += [
            cluster_optics_xi(
                reachability=reachability,
                predecessor=predecessor,
                ordering=order,
                min_samples=n_neighbors,
                min_cluster_size=2,
                xi=xi,
            )[0]
            for xi in np.linspace(0.01, 0.99, 99)
        ]
    return [without_single_members(labels) for labels in labelings]


def without_single_members(labels):
    if len(np.unique(labels)) == 1:
        return np.zeros_like(labels)
    labels = labels.copy()
    found, counts = np.unique(labels, return_counts=True)
    labels[np.isin(labels, found[counts == 1])] = -1
    proper = labels > -1
    labels[proper] = np.unique(labels[proper], return_inverse=True)[1]
    return labels


def score(X, labels):
    """The silhouette score that counts noise twice."""
    if labels.max() == labels.min():
        return -1.1
    distances = cdist(X, X)
    noise = labels == -1
    alone = labels.copy()
    alone[noise] = labels.max() + 1 + np.arange(noise.sum())
    share = noise.mean()
    return share * silhouette_score(distances, alone, metric="precomputed") + (
        1 - share
    ) * silhouette_score(distances, labels, metric="precomputed")


def log_density(density, X):
    """A kernel mixture by direct log-sum-exp over all kernels."""
    X = np.asarray(X, dtype=float)
    exponents = []
    for g in range(density.n_groups):
        rows = slice(density.offsets[g], density.offsets[g + 1])
        apart = X[:, None] - density.centres[rows]
        squares = np.sum((apart @ density.transforms[g]) ** 2, axis=-1)
        with np.errstate(divide="ignore"):
            exponents.append(np.log(density.weights[rows]) - squares / 2 + density.log_dets[g])
    constant = density.n_features / 2 * np.log(2 * np.pi)
    return logsumexp(np.concatenate(exponents, axis=1), axis=1) - constant


def rome_log_density(X, labels, min_std, queries):
    """ROME by its formulas, cluster by cluster, from given labels."""
    n_samples, n_features = X.shape
    terms, stds = [], []
    for label in sorted(set(labels) - {-1}):
        members = X[labels == label]
        mean = members.mean(axis=0)
        _, singular, axes = np.linalg.svd(members - mean)
        s = np.zeros(n_features)
        s[: len(singular)] = singular / np.sqrt(max(len(members) - 1, 1))
        factor = max(0.0, 1 - min_std / s.max()) if s.max() > 0 else 0.0
        T = axes.T / (factor * s + min_std)
        b = ((n_features + 2) / 4 * len(members)) ** (-1 / (n_features + 4))
        stds.append(members.std(axis=0))
        terms.append(_cluster_term(members, queries, mean, T, b) + np.log(len(members) / n_samples))
    noise = X[labels == -1]
    if len(noise):
        scale = np.maximum(np.mean(stds, axis=0), min_std) if stds else np.ones(n_features)
        b = ((n_features + 2) / 4) ** (-1 / (n_features + 4))
        term = _cluster_term(noise, queries, np.zeros(n_features), np.diag(1 / scale), b)
        terms.append(term + np.log(len(noise) / n_samples))
    return logsumexp(terms, axis=0)


def _cluster_term(members, queries, mean, T, b):
    squares = cdist((queries - mean) @ T, (members - mean) @ T, "sqeuclidean")
    n_features = members.shape[1]
    constant = n_features * np.log(b * np.sqrt(2 * np.pi)) + np.log(len(members))
    return logsumexp(-squares / (2 * b**2), axis=1) - constant + np.linalg.slogdet(T)[1]
