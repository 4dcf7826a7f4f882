"""The silhouette score of every candidate of a clustering."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..kernels.silhouettes import (
    ROWS,
    add_rows,
    row_silhouettes,
    sum_runs,
    sum_segments,
    weigh_runs,
)
from ..progress import Progress, no_progress
from ..threads import map_blocks
from .candidates import Partitions
from .sampling import SampledScores, sample_scores

#: Partitions of so many runs, a million of which take 3 GB, are scored together.
_MOST_RUNS = 50_000


#: What is done with silhouettes (n_partitions, 2, ROWS) of rows, and the number of their block.
_Use = Callable[[np.ndarray, np.ndarray, int], None]

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
    weights = np.ones(len(X)) if weights is None else weights
    return Silhouettes.of(X, partitions, weights).scores(n_jobs)


def sampled_silhouette_scores(
    X: np.ndarray,
    partitions: Partitions,
    n_jobs: int | None = None,
    weights: np.ndarray | None = None,
    most: int = 10_000,
    progress: Progress = no_progress,
) -> SampledScores:
    """Estimate the scores of partitions from samples that tell which one is the best.

    Parameters
    ----------
    X, partitions, n_jobs, weights
        See :func:`silhouette_scores`; none of the partitions has a single label.
    most : int, optional
        A sample of as many points does not grow any more.
    progress : callable, optional
        Progress callback, called with (stage, fraction done).

    Returns
    -------
    SampledScores
    """
    weights = np.ones(len(X)) if weights is None else weights
    n_seen = 0

    def contributions(partitions: Partitions, rows: np.ndarray) -> np.ndarray:
        nonlocal n_seen
        progress("scores", min(1.0, n_seen / most))
        n_seen += len(rows)
        parts = [
            Silhouettes.of(X, group, weights).of_rows(rows, n_jobs) for group in _groups(partitions)
        ]
        return np.concatenate(parts)

    return sample_scores(contributions, partitions, weights, most)


def _groups(partitions: Partitions) -> list[Partitions]:
    """Return the same partitions in groups that have few runs, or a single partition."""
    places = partitions.offsets[1:] // _MOST_RUNS
    return [partitions.take(np.flatnonzero(places == place)) for place in np.unique(places)]


@dataclass(frozen=True, eq=False)
class Silhouettes:
    """Points in order, and the runs over which distances to them are added up.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,)
    edges : ndarray of shape (n_segments + 1,)
        Where the segments begin, out of which all runs are made.
    runs : ndarray of shape (n_runs, 3)
        The first segment of every distinct run, the one behind its last, and whether it is noise.
    masses : ndarray of shape (n_runs,)
    parts : ndarray of shape (n_parts, 2)
        The runs of all partitions, and their labels.
    offsets : ndarray of shape (n_partitions + 1,)
        Where the parts of every partition begin.
    shares : ndarray of shape (n_partitions,)
        How much of every partition is noise.
    """

    X: np.ndarray
    weights: np.ndarray
    edges: np.ndarray
    runs: np.ndarray
    masses: np.ndarray
    parts: np.ndarray
    offsets: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, partitions: Partitions, weights: np.ndarray) -> "Silhouettes":
        """Prepare the silhouettes of partitions."""
        flat = partitions.runs
        is_edge = np.zeros(len(X) + 1, dtype=bool)
        is_edge[flat[:, :2]] = True
        edges = np.flatnonzero(is_edge)
        position = np.cumsum(is_edge) - 1
        starts, ends = position[flat[:, 0]], position[flat[:, 1]]
        runs, index = _distinct_runs(starts, ends, flat[:, 2] < 0)
        masses = np.empty(len(runs))
        weigh_runs(runs, edges, weights, masses)
        return cls(
            X=X,
            weights=weights,
            edges=edges,
            runs=runs,
            masses=masses,
            parts=np.stack([index, flat[:, 2]], axis=1),
            offsets=partitions.offsets,
            shares=partitions.noise_share(weights),
        )

    def scores(self, n_jobs: int | None) -> np.ndarray:
        """Return the score of every partition, from all points."""
        n_blocks = -(-len(self.X) // ROWS)
        sums = np.empty((n_blocks, len(self.shares), 2))

        def add(values: np.ndarray, rows: np.ndarray, block: int) -> None:
            add_rows(self.weights[rows], values, sums, block)

        self._each_block(np.arange(len(self.X)), add, n_jobs)
        means = sums.sum(axis=0) / self.weights.sum()
        return self.shares * means[:, 0] + (1 - self.shares) * means[:, 1]

    def of_rows(self, rows: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return what some points, in ascending order, add to the scores.

        Returns
        -------
        ndarray of shape (n_partitions, n_rows)
            The score of a partition is the weighted mean of its row over all points.
        """
        out = np.empty((len(self.shares), len(rows)))
        share = self.shares[:, None]

        def keep(values: np.ndarray, rows: np.ndarray, block: int) -> None:
            single, joint = values[:, 0, : len(rows)], values[:, 1, : len(rows)]
            out[:, block * ROWS : block * ROWS + len(rows)] = share * single + (1 - share) * joint

        self._each_block(rows, keep, n_jobs)
        return out

    def _each_block(self, rows: np.ndarray, use: _Use, n_jobs: int | None) -> None:
        """Hand the silhouettes of rows on, one block of rows after another."""
        n_blocks = -(-len(rows) // ROWS)
        padded = np.zeros((n_blocks * ROWS, self.X.shape[1]))
        padded[: len(rows)] = self.X[rows]
        columns = np.ascontiguousarray(padded.reshape(n_blocks, ROWS, -1).transpose(0, 2, 1))

        def score(blocks: range) -> None:
            trees = np.empty((2, 2 * (len(self.edges) - 1), ROWS))
            by_run = np.empty((2, len(self.runs), ROWS))
            values = np.empty((len(self.shares), 2, ROWS))
            squares, own, work = np.empty(ROWS), np.empty(ROWS, dtype=np.int64), np.empty((6, ROWS))
            for block in blocks:
                places = rows[block * ROWS : (block + 1) * ROWS]
                sum_segments(self.X, self.weights, columns, block, self.edges, *trees, squares)
                sum_runs(self.runs, *trees, *by_run)
                row_silhouettes(
                    places, self.weights[places], self.masses, self.edges, self.runs, self.parts,
                    self.offsets, *by_run, own, work, values,
                )  # fmt: skip
                use(values, places, block)

        map_blocks(score, n_blocks, n_jobs if len(self.X) >= _FEWEST_TO_SHARE else 1)


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
