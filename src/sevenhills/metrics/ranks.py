"""Ranks that pairwise tests leave open, and the correction for their number."""

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return p-values after Holm's correction for their number; NaN counts as 1."""
    found = np.nan_to_num(np.asarray(p_values, dtype=np.float64), nan=1.0)
    order = np.argsort(found, kind="stable")
    out = np.empty(len(found))
    out[order] = np.maximum.accumulate(found[order] * np.arange(len(found), 0, -1))
    return np.minimum(out, 1.0)


def rank_range(name: str, names: Sequence[str], apart: set[tuple[str, str]]) -> str:
    """Return the ranks of one of several names that pairs which are told apart leave open."""
    best = 1 + sum(worse == name for _, worse in apart)
    worst = len(names) - sum(better == name for better, _ in apart)
    return str(best) if best == worst else f"{best}-{worst}"


def ties(names: Sequence[str], apart: set[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Return the largest groups that hold no pair which is told apart, without single names."""
    groups = {frozenset(names)}
    for pair in apart:
        split = {group - {one} for group in groups if group.issuperset(pair) for one in pair}
        groups = {group for group in groups if not group.issuperset(pair)} | split
        groups = {group for group in groups if not any(group < other for other in groups)}
    tied = [tuple(sorted(group, key=names.index)) for group in groups if len(group) > 1]
    return tuple(sorted(tied, key=lambda tie: [names.index(name) for name in tie]))
