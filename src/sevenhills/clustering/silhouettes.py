"""The silhouette score of every candidate of a clustering."""

import numpy as np

from ..kernels.silhouettes import ROWS, sum_runs, sum_segments, sum_silhouettes
from ..threads import map_blocks
from .candidates import Partitions, sums_of_runs

#: Starting threads takes longer than the silhouettes of fewer samples.
_FEWEST_TO_SHARE = 512


def silhouette_scores(
    X: np.ndarray,
    partitions: Partitions,
    n_neighbors: int = 0,
    n_jobs: int | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    r"""Score partitions of an ordering by their silhouettes, the noise being counted twice.

    With noise share :math:`f`, the score is :math:`f S_1 + (1 - f) S_2`: the mean silhouette with
    every noise point its own cluster, and with all noise as one cluster.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The points in order.
    partitions : Partitions
        One with a single label has no score.
    n_neighbors : int, optional
        Not used.
    n_jobs : int, optional
        Number of threads.
    weights : ndarray of shape (n_samples,), optional
        How many samples every point is; one by default.

    Returns
    -------
    ndarray of shape (n_partitions,)
        Not a number for a single label.
    """
    n_samples = len(X)
    weights = np.ones(n_samples) if weights is None else weights
    flat, offsets = partitions.runs, partitions.offsets
    is_edge = np.zeros(n_samples + 1, dtype=bool)
    is_edge[flat[:, :2]] = True
    edges = np.flatnonzero(is_edge)
    position = np.cumsum(is_edge) - 1
    starts, ends = position[flat[:, 0]], position[flat[:, 1]]
    runs, index = _distinct_runs(starts, ends, flat[:, 2] < 0)
    parts = np.stack([index, flat[:, 2]], axis=1)
    masses = sums_of_runs(weights, edges[runs[:, 0]], edges[runs[:, 1]])

    n_blocks = -(-n_samples // ROWS)
    rows = np.zeros((n_blocks * ROWS, X.shape[1]))
    rows[:n_samples] = X
    rows = np.ascontiguousarray(rows.reshape(n_blocks, ROWS, -1).transpose(0, 2, 1))
    out = np.empty((n_blocks, len(partitions), 2))

    def score(blocks: range) -> None:
        trees = np.empty((2, 2 * (len(edges) - 1), ROWS))
        by_run = np.empty((2, len(runs), ROWS))
        squares, own, work = np.empty(ROWS), np.empty(ROWS, dtype=np.int64), np.empty((6, ROWS))
        for block in blocks:
            sum_segments(X, weights, rows, block, edges, *trees, squares)
            sum_runs(runs, *trees, *by_run)
            sum_silhouettes(
                block, weights, masses, edges, runs, parts, offsets, *by_run, own, work, out
            )

    map_blocks(score, n_blocks, n_jobs if n_samples >= _FEWEST_TO_SHARE else 1)
    means = out.sum(axis=0) / weights.sum()
    share = partitions.noise_share(weights)
    return share * means[:, 0] + (1 - share) * means[:, 1]


def _distinct_runs(
    starts: np.ndarray, ends: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ``(start, end, noise)``, by noise, start and end, and where each is."""
    n_places = ends.max() + 1
    key = (noise * n_places + starts) * n_places + ends
    order = key.argsort()
    ordered = key[order]
    is_new = np.ones(len(key), dtype=bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    index = np.empty_like(order)
    index[order] = is_new.cumsum() - 1
    distinct = ordered[is_new]
    runs = np.empty((len(distinct), 3), dtype=np.int64)
    rest, runs[:, 1] = np.divmod(distinct, n_places)
    runs[:, 2], runs[:, 0] = np.divmod(rest, n_places)
    return runs, index
