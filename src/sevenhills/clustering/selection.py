"""The choice of a candidate clustering."""

from collections.abc import Callable

import numpy as np

from .candidates import TRIVIAL_SCORE, Candidates, Partitions, best_of, cut
from .dbcv import dbcv_scores
from .ordering import Ordering
from .silhouettes import silhouette_scores

#: From the points in order, partitions of them, the number of neighbours that make a core, the
#: number of threads and the weights of the points to scores, the higher the better.
Scorer = Callable[[np.ndarray, Partitions, int, int | None, np.ndarray], np.ndarray]

SCORERS: dict[str, Scorer] = {"silhouette": silhouette_scores, "dbcv": dbcv_scores}


def choose(
    X: np.ndarray,
    ordering: Ordering,
    weights: np.ndarray,
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
    weights : ndarray of shape (n_samples,)
        How many samples every point is.
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
    rules, parameters, cuts = cut(ordering, n_heights, n_steps, weights)
    first = cuts.first_of_equals()
    distinct = np.flatnonzero(first == np.arange(len(first)))
    partitions = cuts.take(distinct)
    trivial = partitions.offsets[1:] - partitions.offsets[:-1] == 1
    scores = np.full(len(distinct), TRIVIAL_SCORE)
    in_order = weights[ordering.order]
    if not trivial.all():
        scores = SCORERS[selection](
            X[ordering.order], partitions, ordering.n_neighbors, n_jobs, in_order
        )
        scores[trivial] = TRIVIAL_SCORE
    return Candidates(
        criterion=selection,
        rules=rules[distinct],
        parameters=parameters[distinct],
        n_cuts=np.bincount(first)[distinct],
        n_clusters=partitions.n_clusters(),
        noise_share=partitions.noise_share(in_order),
        scores=scores,
        chosen=best_of(scores),
        partitions=partitions,
        order=ordering.order.copy(),
    )
