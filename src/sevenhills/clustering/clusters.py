"""Points in clusters, and how these were found."""

from dataclasses import dataclass, replace

import numpy as np

from ..progress import Progress, no_progress
from .candidates import Candidates, Partitions
from .frame import Frame
from .ordering import Ordering, neighbours_for, order_by_reachability
from .pieces import Pieces
from .selection import EXACT_BELOW, choose

#: Fewer samples than this are one cluster.
_FEWEST_TO_CLUSTER = 5
#: A sum of weights may fall short of a number by this part.
_ROUNDING = 1e-9
_NOISE = -1


@dataclass(frozen=True, eq=False)
class Clusters:
    """The clusters of points, piece by piece.

    Attributes
    ----------
    pieces : Pieces
    labels : ndarray of shape (n_pieces,)
        The cluster of every piece, -1 being noise.
    ordering : Ordering or None
        The pieces in order; None if there was no choice.
    candidates : Candidates or None
        The candidates that pieces can be cut into; None if there was no choice.
    """

    pieces: Pieces
    labels: np.ndarray
    ordering: Ordering | None = None
    candidates: Candidates | None = None

    def of_given_rows(self, frame: Frame) -> "RowClusters":
        """Return the same in terms of the rows and the unit before ``frame``."""
        pieces = self.pieces.of_members(frame)
        if frame.copies is None:
            labels = frame.to_given(self.labels[pieces], _NOISE)
        else:
            labels = frame.labels_of_rows(self.pieces.heaviest(self.labels), _NOISE)
        if self.ordering is None or self.candidates is None:
            return RowClusters(labels, None, None)
        position = np.empty(len(self.labels), dtype=np.int64)
        position[self.ordering.order] = np.arange(len(position))
        turned = np.argsort(position[pieces], kind="stable")
        order = frame.members[turned]
        if len(order) < frame.n_given:
            absent = np.setdiff1d(np.arange(frame.n_given), frame.members, assume_unique=True)
            order = np.concatenate([order, absent])
        counts = np.bincount(position[pieces], minlength=len(position))
        return RowClusters(
            labels=labels,
            ordering=_ordering_of_rows(self.ordering, self.pieces, pieces, frame, order),
            candidates=_candidates_of_rows(self.candidates, counts, frame.unit, order),
        )


@dataclass(frozen=True, eq=False)
class RowClusters:
    """The clusters of given rows; see :class:`Clusters`. Rows that weigh nothing are noise."""

    labels: np.ndarray
    ordering: Ordering | None
    candidates: Candidates | None


def _ordering_of_rows(
    ordering: Ordering, pieces: Pieces, of_members: np.ndarray, frame: Frame, order: np.ndarray
) -> Ordering:
    sent = ordering.predecessor[of_members]
    sender = np.where(sent < 0, -1, frame.rows[pieces.points[sent]])
    return Ordering(
        order=order,
        reachability=frame.to_given(ordering.reachability[of_members] * frame.unit, np.inf),
        core_distances=frame.to_given(ordering.core_distances[of_members] * frame.unit, np.inf),
        predecessor=frame.to_given(sender, -1),
        n_neighbors=ordering.n_neighbors,
    )


def _candidates_of_rows(
    candidates: Candidates, counts: np.ndarray, unit: float, order: np.ndarray
) -> Candidates:
    """Return candidates for rows, of which every place in the ordering has some or none."""
    units = np.where(candidates.rules == "dbscan", unit, 1.0)
    partitions = candidates.partitions
    if not (counts == 1).all():
        partitions = partitions.counted(counts)
    n_absent = len(order) - int(counts.sum())
    if n_absent:
        partitions = _with_noise_behind(partitions, n_absent)
    return replace(
        candidates,
        parameters=candidates.parameters * units,
        partitions=partitions,
        order=order,
    )


def _with_noise_behind(partitions: Partitions, n_noise: int) -> Partitions:
    """Return partitions of an order that goes on with noise."""
    ends = partitions.offsets[1:]
    last = partitions.runs[ends - 1, 1]
    noise = np.stack([last, last + n_noise, np.full_like(last, _NOISE)], axis=1)
    offsets = partitions.offsets + np.arange(len(partitions.offsets))
    return Partitions(np.insert(partitions.runs, ends, noise, axis=0), offsets)


def find_clusters(
    X: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    selection: str | None = "silhouette",
    k_min: int = 5,
    k_max: int = 20,
    alpha_k: float = 400,
    n_heights: int = 100,
    n_steps: int = 99,
    n_jobs: int | None = None,
    exact_below: int = EXACT_BELOW,
    progress: Progress = no_progress,
) -> Clusters:
    """Order points, cut the ordering and choose among the cuts.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
    weights : ndarray of shape (n_points,), optional
        How many samples every point is, not necessarily a whole number; one by default.
    selection : str or None
        The score, one of ``SCORERS``; with None all points are one cluster, as are fewer than 5
        samples.
    k_min, k_max, alpha_k
        See :func:`~sevenhills.clustering.neighbours_for`.
    n_heights, n_steps, n_jobs, exact_below
        See :func:`~sevenhills.clustering.choose`.
    progress : callable, optional
        Progress callback, called with (stage, fraction done).

    Returns
    -------
    Clusters
    """
    weights = np.ones(len(X)) if weights is None else weights
    total = float(weights.sum()) * (1 + _ROUNDING)
    if selection is None or total < _FEWEST_TO_CLUSTER:
        return given_clusters(np.zeros(len(X), dtype=np.int64), weights)
    pieces = Pieces.of(weights)
    points = X if pieces.are_points else X[pieces.points]
    k = neighbours_for(total, X.shape[1], k_min, k_max, alpha_k)
    ordering = order_by_reachability(points, k, pieces.weights, progress)
    candidates = choose(
        points,
        ordering,
        pieces.weights,
        selection=selection,
        n_heights=n_heights,
        n_steps=n_steps,
        n_jobs=n_jobs,
        exact_below=exact_below,
        progress=progress,
    )
    return Clusters(pieces, candidates.labels(), ordering, candidates)


def given_clusters(labels: np.ndarray, weights: np.ndarray) -> Clusters:
    """Return the clusters of points that have labels already."""
    return Clusters(Pieces(np.arange(len(labels)), weights), labels)
