"""The choice of a candidate clustering."""

from collections.abc import Callable

import numpy as np

from .candidates import TRIVIAL_SCORE, Candidates, Partitions, best_of, cut
from .dbcv import dbcv_scores
from .ordering import Ordering, neighbours_for, order_by_reachability
from .silhouettes import silhouette_scores

#: From the points in order, partitions of them, the number of neighbours that make a core and the
#: number of threads to scores, the higher the better.
Scorer = Callable[[np.ndarray, Partitions, int, int | None], np.ndarray]

#: Fewer samples than this are one cluster.
_FEWEST_TO_CLUSTER = 5

SCORERS: dict[str, Scorer] = {"silhouette": silhouette_scores, "dbcv": dbcv_scores}


def choose(
    X: np.ndarray,
    ordering: Ordering,
    *,
    selection: str,
    n_heights: int,
    n_steps: int,
    n_jobs: int | None,
) -> Candidates:
    """Cut an ordering into candidates, score the distinct ones and choose the best.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The points that were ordered.
    ordering : Ordering
    selection : str
        The score, one of ``SCORERS``.
    n_heights, n_steps : int
        How many DBSCAN and xi cuts to make.
    n_jobs : int or None
        Number of threads.

    Returns
    -------
    Candidates
        If all have one label only, the chosen one is a single cluster without noise.
    """
    rules, parameters, cuts = cut(ordering, n_heights, n_steps)
    first = cuts.first_of_equals()
    distinct = np.flatnonzero(first == np.arange(len(first)))
    partitions = cuts.take(distinct)
    trivial = np.diff(partitions.offsets) == 1
    scores = np.full(len(distinct), TRIVIAL_SCORE)
    if not trivial.all():
        scores = SCORERS[selection](X[ordering.order], partitions, ordering.n_neighbors, n_jobs)
        scores[trivial] = TRIVIAL_SCORE
    return Candidates(
        criterion=selection,
        rules=rules[distinct],
        parameters=parameters[distinct],
        n_cuts=np.bincount(first)[distinct],
        n_clusters=partitions.n_clusters(),
        noise_share=partitions.n_noise() / len(X),
        scores=scores,
        chosen=best_of(scores),
        partitions=partitions,
        order=ordering.order.copy(),
    )


def find_clusters(
    X: np.ndarray,
    *,
    selection: str | None = "silhouette",
    k_min: int = 5,
    k_max: int = 20,
    alpha_k: float = 400,
    n_heights: int = 100,
    n_steps: int = 99,
    n_jobs: int | None = None,
) -> tuple[Ordering | None, Candidates | None, np.ndarray]:
    """Order points, cut the ordering and choose among the cuts.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    selection : str or None
        The score, one of ``SCORERS``; with None all points are one cluster, as are fewer than 5.
    k_min, k_max, alpha_k
        See :func:`~sevenhills.clustering.neighbours_for`.
    n_heights, n_steps, n_jobs
        See :func:`choose`.

    Returns
    -------
    ordering : Ordering or None
    candidates : Candidates or None
    labels : ndarray of shape (n_samples,)
        The cluster of every point, -1 being noise.
    """
    if selection is None or len(X) < _FEWEST_TO_CLUSTER:
        return None, None, np.zeros(len(X), dtype=np.int64)
    ordering = order_by_reachability(X, neighbours_for(len(X), X.shape[1], k_min, k_max, alpha_k))
    candidates = choose(
        X,
        ordering,
        selection=selection,
        n_heights=n_heights,
        n_steps=n_steps,
        n_jobs=n_jobs,
    )
    return ordering, candidates, candidates.labels()
