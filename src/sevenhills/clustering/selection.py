"""The choice of a candidate clustering."""

from collections.abc import Callable

import numpy as np

from .candidates import TRIVIAL_SCORE, Candidates, best_of, cut
from .ordering import Ordering
from .silhouettes import silhouette_scores

#: From the points in order and partitions of them to scores, the higher the better.
Scorer = Callable[[np.ndarray, list[np.ndarray], int | None], np.ndarray]

SCORERS: dict[str, Scorer] = {"silhouette": silhouette_scores}


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
    keys = [runs.tobytes() for runs in cuts]
    first: dict[bytes, int] = {}
    for i, key in enumerate(keys):
        first.setdefault(key, i)
    distinct = list(first.values())
    runs = [cuts[i].copy() for i in distinct]

    scores = np.full(len(runs), TRIVIAL_SCORE)
    scored = [i for i, each in enumerate(runs) if len(each) > 1]
    if scored:
        points = np.ascontiguousarray(X[ordering.order])
        scores[scored] = SCORERS[selection](points, [runs[i] for i in scored], n_jobs)
    noise = [(each[:, 1] - each[:, 0])[each[:, 2] < 0].sum() for each in runs]
    return Candidates(
        rules=tuple(rules[i] for i in distinct),
        parameters=parameters[distinct],
        n_cuts=np.array([keys.count(key) for key in first]),
        n_clusters=np.array([each[:, 2].max() + 1 for each in runs]),
        noise_share=np.array(noise) / len(X),
        scores=scores,
        chosen=best_of(scores),
        runs=tuple(runs),
        order=ordering.order.copy(),
    )
