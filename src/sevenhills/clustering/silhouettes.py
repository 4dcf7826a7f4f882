"""The silhouette score of every candidate of a clustering."""

from collections.abc import Sequence

import numpy as np

from ..kernels.silhouettes import silhouette_block
from ..threads import map_blocks

#: Rows that are scored together; two of their vectors fill a cache line of the fastest memory.
_ROWS = 64


def silhouette_scores(
    X: np.ndarray, partitions: Sequence[np.ndarray], n_jobs: int | None = None
) -> np.ndarray:
    r"""Score partitions of an ordering by their silhouettes, the noise being counted twice.

    With noise share :math:`f`, the score is :math:`f S_1 + (1 - f) S_2`: the mean silhouette with
    every noise point its own cluster, and with all noise as one cluster.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The points in order.
    partitions : sequence of ndarray of shape (n_runs, 3)
        Runs ``(start, end, label)`` that cover the ordering, label -1 being noise.
    n_jobs : int, optional
        Number of threads.

    Returns
    -------
    ndarray of shape (n_partitions,)
    """
    n_samples = len(X)
    lengths = [len(partition) for partition in partitions]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.concatenate(partitions)
    edges = np.unique(flat[:, :2])
    position = np.empty(n_samples + 1, dtype=np.int64)
    position[edges] = np.arange(len(edges))
    spans = np.column_stack([position[flat[:, :2]], flat[:, 2] < 0])
    runs, index = _distinct_rows(spans)
    parts = np.stack([index, flat[:, 2], *_cluster_extent(flat, offsets)], axis=1)

    n_blocks = -(-n_samples // _ROWS)
    rows = np.zeros((n_blocks * _ROWS, X.shape[1]))
    rows[:n_samples] = X
    rows = np.ascontiguousarray(rows.reshape(n_blocks, _ROWS, -1).transpose(0, 2, 1))
    out = np.empty((n_blocks, len(partitions), 2))

    def score(blocks: range) -> None:
        trees = np.empty((2, 2 * (len(edges) - 1), _ROWS))
        by_run = np.empty((2, len(runs), _ROWS))
        work = np.empty((6, _ROWS))
        for block in blocks:
            silhouette_block(
                X, rows, block, edges, runs, parts, offsets, *trees, *by_run, work, out
            )

    map_blocks(score, n_blocks, n_jobs)
    means = out.sum(axis=0) / n_samples
    noise = np.add.reduceat(np.where(flat[:, 2] < 0, flat[:, 1] - flat[:, 0], 0), offsets[:-1])
    share = noise / n_samples
    return share * means[:, 0] + (1 - share) * means[:, 1]


def _distinct_rows(spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ``(start, end, noise)``, sorted by noise, start, end, and an inverse."""
    base = spans[:, 1].max() + 1
    key = (spans[:, 2] * base + spans[:, 0]) * base + spans[:, 1]
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    return spans[first], index


def _cluster_extent(flat: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for every part, the size of its cluster and whether it is the cluster's last part."""
    partition = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    key = partition * (flat[:, 2].max() + 2) + flat[:, 2] + 1
    length = flat[:, 1] - flat[:, 0]
    size = np.bincount(key, weights=length).astype(np.int64)[key]
    last = np.zeros(len(flat), dtype=np.int64)
    final = np.empty(key.max() + 1, dtype=np.int64)
    final[key] = np.arange(len(flat))
    last[final[key]] = 1
    return size, last
