"""Density-based validation of every candidate of a clustering."""

import numpy as np
from scipy.special import logsumexp

from ..kernels.blocks import Blocks, build_blocks, most_needed, nearest_distances
from ..kernels.spanning import Room, diameter_beyond, span, spanning_tree
from ..threads import map_blocks
from .optics import Partitions

_LEAF_SIZE = 128
#: Sparseness and separation below this, in units of the data's spread, count as nothing.
_SMALLEST = 1e-6


def dbcv_scores(
    X: np.ndarray,
    partitions: Partitions,
    n_neighbors: int,
    n_jobs: int | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    r"""Score partitions of an ordering by how dense clusters are inside and how sparse between.

    With the reach :math:`a` of :func:`all_points_reach`, two points are
    :math:`\max(d, a, a')` apart. The sparseness :math:`s_C` of a cluster is the longest edge of
    the minimum spanning tree of its members, or its diameter if that is smaller; its separation
    :math:`t_C` is the smallest such distance to a member of another cluster. The score is

    .. math:: \sum_C \frac{n_C}{N} \frac{t_C - s_C}{\max(s_C, t_C, 10^{-6})}

    Noise adds nothing but its share of :math:`N`.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The points in order.
    partitions : Partitions
    n_neighbors : int
        The number of neighbors that make a core in the ordering.
    n_jobs : int, optional
        Number of threads.
    weights : ndarray of shape (n_samples,), optional
        How many samples every point is; one by default.

    Returns
    -------
    ndarray of shape (n_partitions,)

    References
    ----------
    D. Moulavi, P. A. Jaskowiak, R. J. G. B. Campello, A. Zimek, J. Sander: Density-Based
    Clustering Validation. SDM 2014.
    """
    weights = np.ones(len(X)) if weights is None else weights
    blocks = build_blocks(X, _LEAF_SIZE)
    forests = _Forests(X, all_points_reach(X, weights, blocks, n_neighbors), blocks)
    scores = np.empty(len(partitions))

    def score(indices: range) -> None:
        room = Room.over(blocks)
        for index in indices:
            scores[index] = _validity(forests, weights, partitions[index], room)

    map_blocks(score, len(partitions), n_jobs)
    return scores


def all_points_reach(
    X: np.ndarray, weights: np.ndarray, blocks: Blocks, n_neighbors: int
) -> np.ndarray:
    r"""Return how far every point reaches: a mean of the distances to its nearest others.

    .. math:: a = \Big(\frac{1}{k} \sum_{j=1}^{k} d_j^{-M}\Big)^{-1 / M}, \qquad k = 2 k_c - 1

    It is zero for a point that occurs more than once.
    """
    n_features = X.shape[1]
    itself = np.minimum(weights, 1.0)
    masses = np.minimum(2 * n_neighbors - 1, weights.sum() - itself)
    room = most_needed(weights, float((masses + itself).max()))
    _, distances, others = nearest_distances(X, weights, blocks, masses + itself, room)
    others[:, 0] = np.maximum(others[:, 0] - itself, 0.0)  # one sample is the point itself
    # The last one counts only as far as it is needed.
    before = np.cumsum(others, axis=1) - others
    shares = np.clip(masses[:, None] - before, 0.0, others) / masses[:, None]
    near = shares > 0
    repeated = (near & (distances == 0)).any(axis=1)
    logs = np.log(np.where(near & (distances > 0), distances, 1.0))
    reach = np.exp(
        logsumexp(-n_features * logs, axis=1, b=np.where(near, shares, 0.0)) / -n_features
    )
    return np.where(repeated, 0.0, reach)


class _Forests:
    """Spanning trees of subsets of points, all of them grown from the tree of all points."""

    def __init__(self, X: np.ndarray, reach: np.ndarray, blocks: Blocks) -> None:
        self.X, self.reach, self.blocks = X, reach, blocks
        self.leaves = np.empty(len(X), dtype=np.int64)
        for leaf, (members, size) in enumerate(zip(blocks.members, blocks.sizes, strict=True)):
            self.leaves[members[:size]] = leaf
        self.tree = spanning_tree(X, reach)
        self.sparseness: dict[bytes, float] = {}

    def span(
        self, members: np.ndarray, edges: np.ndarray, lengths: np.ndarray, room: Room
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the spanning tree of some points, given edges that belong to it."""
        return span(self.X, self.reach, self.blocks, self.leaves, members, edges, lengths, room)


def _validity(forests: _Forests, weights: np.ndarray, runs: np.ndarray, room: Room) -> float:
    """Return the score of one partition."""
    labels = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0])
    sizes = np.bincount(labels + 1, weights)[1:]
    edges, lengths = forests.tree
    kept = (labels[edges] >= 0).all(axis=1)
    edges, lengths = forests.span(np.flatnonzero(labels >= 0), edges[kept], lengths[kept], room)

    ends = labels[edges]
    inside = ends[:, 0] == ends[:, 1]
    separation = np.full(len(sizes), np.inf)
    for side in (0, 1):
        np.minimum.at(separation, ends[~inside, side], lengths[~inside])
    sparseness = _sparseness(
        forests, labels, runs, (ends[inside, 0], edges[inside], lengths[inside]), room
    )
    separation = np.where(np.isinf(separation), sparseness, separation)
    larger = np.maximum(np.maximum(sparseness, separation), _SMALLEST)
    return float(sizes @ ((separation - sparseness) / larger) / weights.sum())


def _sparseness(
    forests: _Forests,
    labels: np.ndarray,
    runs: np.ndarray,
    inside: tuple[np.ndarray, np.ndarray, np.ndarray],
    room: Room,
) -> np.ndarray:
    """Return the longest edge of every cluster's tree, or the diameter if that is smaller.

    ``inside`` are the labels, ends and lengths of the known edges inside clusters. Clusters come
    back in one partition after another, so their sparseness is kept.
    """
    edges, lengths = (array[np.argsort(inside[0], kind="stable")] for array in inside[1:])
    n_clusters = labels.max() + 1
    first_edge = np.searchsorted(np.sort(inside[0]), np.arange(n_clusters + 1))
    order = np.argsort(labels, kind="stable")
    first_member = np.searchsorted(labels[order], np.arange(n_clusters + 1))
    proper = runs[runs[:, 2] >= 0]
    proper = proper[np.argsort(proper[:, 2], kind="stable")]
    first_run = np.searchsorted(proper[:, 2], np.arange(n_clusters + 1))
    out = np.empty(n_clusters)
    for label in range(n_clusters):
        key = proper[first_run[label] : first_run[label + 1], :2].tobytes()
        if key not in forests.sparseness:
            members = order[first_member[label] : first_member[label + 1]]
            known = slice(first_edge[label], first_edge[label + 1])
            longest = forests.span(members, edges[known], lengths[known], room)[1].max()
            diameter = diameter_beyond(forests.X, members, longest)
            forests.sparseness[key] = min(longest, diameter)
        out[label] = forests.sparseness[key]
    return out
