"""The choice of a candidate clustering."""

from collections.abc import Callable

import numpy as np

from ..progress import Progress, no_progress
from .candidates import TRIVIAL_SCORE, Candidates, Partitions, best_of, cut
from .dbcv import dbcv_scores
from .ordering import Ordering
from .sampling import SampledScores
from .silhouettes import sampled_silhouette_scores, silhouette_scores

#: From the points in order, partitions of them, the number of neighbours that make a core, the
#: number of threads and the weights of the points to scores, the higher the better.
Scorer = Callable[[np.ndarray, Partitions, int, int | None, np.ndarray], np.ndarray]

#: From this number of points on, silhouettes are scored by samples.
EXACT_BELOW = 30_000
#: The largest samples are no smaller.
_LARGEST_SAMPLE = 4096

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
    exact_below: int = EXACT_BELOW,
    progress: Progress = no_progress,
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
    exact_below : int
        As many points or more are scored by their silhouettes in samples, which take no more
        distances than all silhouettes of so many points.
    progress : callable
        Progress callback, called with (stage, fraction done).

    Returns
    -------
    Candidates
        If all have one label only, the chosen one is a single cluster without noise.
    """
    progress("cuts", 0.0)
    rules, parameters, cuts = cut(ordering, n_heights, n_steps, weights)
    first = cuts.first_of_equals()
    distinct = np.flatnonzero(first == np.arange(len(first)))
    partitions = cuts.take(distinct)
    in_order = weights[ordering.order]
    scores, errors = _scores(
        X[ordering.order],
        partitions,
        ordering.n_neighbors,
        in_order,
        selection,
        n_jobs,
        exact_below,
        progress,
    )
    return Candidates(
        criterion=selection,
        rules=rules[distinct],
        parameters=parameters[distinct],
        n_cuts=np.bincount(first)[distinct],
        n_clusters=partitions.n_clusters(),
        noise_share=partitions.noise_share(in_order),
        scores=scores,
        errors=errors,
        chosen=best_of(scores),
        partitions=partitions,
        order=ordering.order.copy(),
    )


def _scores(
    X: np.ndarray,
    partitions: Partitions,
    n_neighbors: int,
    weights: np.ndarray,
    selection: str,
    n_jobs: int | None,
    exact_below: int,
    progress: Progress,
) -> SampledScores:
    """Score partitions of points in order."""
    progress("scores", 0.0)
    scores = np.full(len(partitions), TRIVIAL_SCORE)
    errors = np.zeros(len(partitions))
    proper = np.flatnonzero(np.diff(partitions.offsets) > 1)
    if len(proper) == 0:
        return SampledScores(scores, errors)
    if selection == "silhouette" and len(X) >= exact_below:
        most = max(_LARGEST_SAMPLE, exact_below**2 // len(X))
        scores[proper], errors[proper] = sampled_silhouette_scores(
            X, partitions.take(proper), n_jobs, weights, most, progress
        )
    else:
        scores[proper] = SCORERS[selection](X, partitions, n_neighbors, n_jobs, weights)[proper]
    return SampledScores(scores, errors)
