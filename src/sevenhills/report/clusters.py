"""The ordering of samples by reachability, and the clusterings that it can be cut into."""

from typing import Any

import numpy as np

from ..clustering import Candidates, Ordering
from .packing import pack
from .subject import Subject

#: Columns of the reachability plot; more samples share them.
_MOST_COLUMNS = 2400
#: Runs of all clusterings together.
_MOST_RUNS = 40_000


def ordering_data(subject: Subject) -> dict[str, Any] | None:
    """Return the reachability plot and its cuts, None if samples were not ordered."""
    ordering, candidates = subject.ordering, subject.candidates
    if ordering is None or candidates is None or subject.labels is None:
        return None
    fitted = subject.labels[ordering.order]
    differs = (subject.labels != candidates.labels()).any()
    cuts = [_as_fitted(fitted, candidates)] if differs else []
    ranking = candidates.ranking()
    n_runs = np.cumsum(np.diff(candidates.partitions.offsets)[ranking])
    kept = ranking[: max(1, int(np.searchsorted(n_runs, _MOST_RUNS, side="right")))]
    cuts += [_cut(candidates, int(i), place) for place, i in enumerate(kept, start=1)]
    return {
        "n": len(ordering.order),
        "criterion": candidates.criterion,
        "n_candidates": len(candidates),
        "heights": pack(_columns(ordering)),
        "cuts": cuts,
    }


def positions(ordering: Ordering, rows: np.ndarray) -> np.ndarray:
    """Return the places of some samples in the ordering."""
    places = np.empty(len(ordering.order), dtype=np.int64)
    places[ordering.order] = np.arange(len(places))
    return places[rows]


def _columns(ordering: Ordering) -> np.ndarray:
    """Return reachabilities in order; where samples share a column, the highest of them."""
    heights = ordering.reachability[ordering.order]
    finite = np.isfinite(heights)
    heights = np.where(finite, heights, heights[finite].max(initial=0.0))
    n_columns = min(len(heights), _MOST_COLUMNS)
    starts = np.arange(n_columns) * len(heights) // n_columns
    return np.maximum.reduceat(heights, starts)


def _as_fitted(labels: np.ndarray, candidates: Candidates) -> dict[str, Any]:
    """Return the clusters of the fit, which may have joined some of those that were chosen."""
    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    ends = np.append(starts[1:], len(labels))
    return {
        "place": 0,
        "rule": str(candidates.rules[candidates.chosen]),
        "parameter": candidates.parameters[candidates.chosen],
        "n_clusters": len(np.unique(labels[labels >= 0])),
        "noise": float((labels < 0).mean()),
        "score": None,
        "runs": pack(np.stack([ends, labels[starts]]), "i4"),
    }


def _cut(candidates: Candidates, i: int, place: int) -> dict[str, Any]:
    runs = candidates.partitions[i]
    return {
        "place": place,
        "rule": str(candidates.rules[i]),
        "parameter": candidates.parameters[i],
        "n_clusters": int(candidates.n_clusters[i]),
        "noise": candidates.noise_share[i],
        "score": candidates.scores[i],
        "runs": pack(np.stack([runs[:, 1], runs[:, 2]]), "i4"),
    }
