"""The choice among candidate clusterings: their scores, and the best one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..kernels.silhouettes import (
    ROWS,
    add_rows,
    row_silhouettes,
    sum_runs,
    sum_segments,
    weigh_runs,
)
from ..progress import Progress
from ..threads import map_blocks
from ..validation import check_choice, check_field, check_permutation
from .dbcv import dbcv_scores
from .optics import Cuts, Partitions, best_of
from .sampling import sample_scores

#: The criteria by which candidates are scored.
CRITERIA = ("silhouette", "dbcv")
#: The score of a candidate with one label only, below that of any other.
TRIVIAL_SCORE = -1.1
#: From this number of samples on, silhouettes are estimated from a sample of them.
EXACT_BELOW = 30_000
#: The limit of the size of that sample is not below this.
_LARGEST_SAMPLE = 4096
#: Partitions up to this number of runs are scored together; a million runs take 3 GB.
_MOST_RUNS = 50_000
#: The silhouettes of fewer samples are computed faster than threads are started.
_FEWEST_TO_SHARE = 512

#: Takes silhouettes (n_partitions, 2, ROWS) of rows, the rows, and the number of their block.
_Use = Callable[[np.ndarray, np.ndarray, int], None]


@dataclass(frozen=True, eq=False)
class Candidates(Cuts):
    """The distinct candidate clusterings of an ordering, their scores, and the chosen one.

    Many cuts give the same clusters; they are one candidate, named after the first of them.

    Attributes
    ----------
    rules : ndarray of str, of shape (n_candidates,)
        "dbscan" or "xi".
    parameters : ndarray of shape (n_candidates,)
        The height of the cut in data units, or the steepness.
    n_cuts : ndarray of shape (n_candidates,)
        The number of cuts that give this candidate.
    n_clusters : ndarray of shape (n_candidates,)
    noise_share : ndarray of shape (n_candidates,)
    partitions : Partitions
        The runs of every candidate in the ordering.
    order : ndarray of shape (n_samples,)
        The ordering that was cut.
    criterion : str
        The kind of the scores: "silhouette" or "dbcv".
    scores : ndarray of shape (n_candidates,)
        The higher the better; -1.1 for a single label.
    errors : ndarray of shape (n_candidates,)
        Where scores are estimated from samples: the standard error of the chosen candidate's
        score, and of the others' distance to it. Zero where scores are exact.
    chosen : int
        The candidate of the highest score, the first among equals.
    """

    criterion: str
    scores: np.ndarray
    errors: np.ndarray
    chosen: int

    def __post_init__(self) -> None:
        partitions = (self.partitions.runs, self.partitions.offsets)
        for array in (*self.to_dict().values(), *partitions, self.order):
            array.flags.writeable = False

    def _validate(self) -> None:
        """Raise an error if the arrays contradict each other, as those of a file might."""
        check_permutation(self.order, "order")
        check_choice(self.criterion, "criterion", CRITERIA)
        shape, largest = (len(self.partitions),), float(np.finfo(np.float64).max)
        check_field(self.rules, "rules", "U", shape)
        check_field(self.parameters, "parameters", "f", shape, -largest, largest)
        check_field(self.n_cuts, "n_cuts", "i", shape, least=1)
        check_field(self.n_clusters, "n_clusters", "i", shape, least=0)
        check_field(self.noise_share, "noise_share", "f", shape, 0, largest)
        check_field(self.scores, "scores", "f", shape, -largest, largest)
        check_field(self.errors, "errors", "f", shape, 0, largest)
        if not 0 <= self.chosen < len(self):
            raise ValueError(f"chosen must be one of {len(self)} candidates, got {self.chosen}")
        if self.partitions.runs[-1, 1] != len(self.order):
            raise ValueError("partitions must lead through all samples")
        if (self.n_clusters < self.partitions.n_clusters()).any():
            raise ValueError("n_clusters must not be below the labels of a candidate")

    def labels(self, index: int | None = None) -> np.ndarray:
        """Return the labels of a candidate, of the chosen one by default, -1 being noise."""
        runs = self.partitions[self.chosen if index is None else index]
        out = np.empty(len(self.order), dtype=np.int64)
        out[self.order] = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0])
        return out

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return the table of candidates by columns, ready for a data frame."""
        return {
            "rule": self.rules,
            "parameter": self.parameters,
            "n_cuts": self.n_cuts,
            "n_clusters": self.n_clusters,
            "noise_share": self.noise_share,
            "score": self.scores,
            "error": self.errors,
        }

    def ranking(self) -> np.ndarray:
        """Return the indices of the candidates, best first, the first among equals."""
        rest = np.argsort(-self.scores, kind="stable")
        return np.concatenate([[self.chosen], rest[rest != self.chosen]])

    def __repr__(self) -> str:
        rule, parameter = self.rules[self.chosen], self.parameters[self.chosen]
        return (
            f"Candidates({len(self)} distinct of {int(self.n_cuts.sum())} cuts, "
            f"chosen: {rule} at {parameter:.4g}, n_clusters={self.n_clusters[self.chosen]})"
        )


class Scores(NamedTuple):
    """Scores of candidate clusterings.

    Attributes
    ----------
    criterion : str
        "silhouette" or "dbcv".
    values : ndarray of shape (n_candidates,)
        The higher the better.
    errors : ndarray of shape (n_candidates,)
        The standard error of the highest score, and of the distances of all others to it; zero
        where scores are exact.
    """

    criterion: str
    values: np.ndarray
    errors: np.ndarray


def score(
    X: np.ndarray,
    cuts: Cuts,
    criterion: str = "silhouette",
    *,
    n_neighbors: int = 5,
    weights: np.ndarray | None = None,
    n_jobs: int | None = None,
    exact_below: int = EXACT_BELOW,
    progress: Progress | None = None,
) -> Scores:
    """Score the candidate clusterings of samples.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The samples that were ordered.
    cuts : Cuts
    criterion : {"silhouette", "dbcv"}, default="silhouette"
        Silhouettes with the noise counted twice, or density-based validation.
    n_neighbors : int, default=5
        The number of neighbors of a core in the ordering, for "dbcv".
    weights : ndarray of shape (n_samples,), optional
        The number of samples that every row stands for; one by default.
    n_jobs : int, optional
        Number of threads.
    exact_below : int, default=30_000
        From this number of rows on, silhouettes are estimated from a sample whose cost does not
        exceed that of the exact silhouettes of this number of rows.
    progress : callable, optional
        Progress callback, called with (stage, fraction done).

    Returns
    -------
    Scores
        The score is -1.1 for a candidate of one label.
    """
    if progress is not None:
        progress("scores", 0.0)
    weights = np.ones(len(X)) if weights is None else weights
    X, weights, partitions = X[cuts.order], weights[cuts.order], cuts.partitions
    scores = np.full(len(partitions), TRIVIAL_SCORE)
    errors = np.zeros(len(partitions))
    proper = np.flatnonzero(np.diff(partitions.offsets) > 1)
    if len(proper) == 0:
        return Scores(criterion, scores, errors)
    if criterion == "dbcv":
        scores[proper] = dbcv_scores(X, partitions, n_neighbors, n_jobs, weights)[proper]
    elif len(X) < exact_below:
        scores[proper] = silhouette_scores(X, partitions, n_jobs, weights)[proper]
    else:
        most = max(_LARGEST_SAMPLE, exact_below**2 // len(X))
        scores[proper], errors[proper] = sampled_silhouette_scores(
            X, partitions.take(proper), n_jobs, weights, most, progress
        )
    return Scores(criterion, scores, errors)


def choose(cuts: Cuts, scores: Scores) -> Candidates:
    """Choose the candidate of the highest score, the first among equals.

    If all candidates have one label only, the chosen one is a single cluster without noise.

    Examples
    --------
    >>> from sevenhills import clustering, datasets
    >>> X = datasets.load("aniso").sample(300, random_state=0)
    >>> cuts = clustering.cut(clustering.order_by_reachability(X))
    >>> candidates = clustering.choose(cuts, clustering.score(X, cuts))
    >>> labels = candidates.labels()
    >>> int(labels.max()) + 1
    3
    """
    return Candidates(
        **vars(cuts),
        criterion=scores.criterion,
        scores=scores.values,
        errors=scores.errors,
        chosen=best_of(scores.values),
    )


def silhouette_scores(
    X: np.ndarray,
    partitions: Partitions,
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
    n_jobs : int, optional
        Number of threads.
    weights : ndarray of shape (n_samples,), optional
        The number of samples that every point stands for, in order; one by default.

    Returns
    -------
    ndarray of shape (n_partitions,)
        NaN for a partition of a single label.
    """
    weights = np.ones(len(X)) if weights is None else weights
    return _Silhouettes.from_partitions(X, partitions, weights).scores(n_jobs)


def sampled_silhouette_scores(
    X: np.ndarray,
    partitions: Partitions,
    n_jobs: int | None,
    weights: np.ndarray,
    most: int,
    progress: Progress | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the scores of partitions from samples that are large enough to find the best.

    Parameters
    ----------
    X, partitions, n_jobs, weights
        See :func:`silhouette_scores`; none of the partitions has a single label.
    most : int
        The sample stops growing at this size.
    progress : callable, optional
        Progress callback, called with (stage, fraction done).

    Returns
    -------
    scores, errors : ndarray of shape (n_partitions,)
    """
    n_seen = 0

    def contributions(partitions: Partitions, rows: np.ndarray) -> np.ndarray:
        nonlocal n_seen
        if progress is not None:
            progress("scores", min(1.0, n_seen / most))
        n_seen += len(rows)
        parts = [
            _Silhouettes.from_partitions(X, group, weights).of_rows(rows, n_jobs)
            for group in _groups(partitions)
        ]
        return np.concatenate(parts)

    return sample_scores(contributions, partitions, weights, most)


def _groups(partitions: Partitions) -> list[Partitions]:
    """Return the same partitions in groups that have few runs, or a single partition."""
    places = partitions.offsets[1:] // _MOST_RUNS
    return [partitions.take(np.flatnonzero(places == place)) for place in np.unique(places)]


@dataclass(frozen=True, eq=False)
class _Silhouettes:
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
    def from_partitions(
        cls, X: np.ndarray, partitions: Partitions, weights: np.ndarray
    ) -> "_Silhouettes":
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
