"""How far the nearest points lie."""

from collections.abc import Callable

import numpy as np

from .blocks import Blocks
from .compile import inner, kernel
from .distances import squared_distances

#: Boxes are passed over only if they are farther by more than rounding can explain.
_SLACK = 1.0 - 1e-12
#: Weights that fall short of what is asked for by this part do so by rounding.
ROUNDING = 1e-9
#: So many leaves are served by one call, which cannot be interrupted.
_STEP = 128


def _no_progress(part: float) -> None:
    pass


def core_distances(
    X: np.ndarray,
    weights: np.ndarray,
    blocks: Blocks,
    mass: float,
    progress: Callable[[float], None] = _no_progress,
) -> np.ndarray:
    """Return how far from every point the weights of points, its own among them, reach a mass."""
    masses = np.full(len(X), float(mass))
    return nearest_distances(X, weights, blocks, masses, progress=progress)[0]


def nearest_distances(
    X: np.ndarray,
    weights: np.ndarray,
    blocks: Blocks,
    masses: np.ndarray,
    n_kept: int = 0,
    progress: Callable[[float], None] = _no_progress,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distances from every point at which others, itself first, reach a mass.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
    weights : ndarray of shape (n_points,)
    blocks : Blocks
    masses : ndarray of shape (n_points,)
        The mass for each point, not above that of all points.
    n_kept : int
        How many of the nearest to return, at most.
    progress : callable
        Progress callback, called with the fraction done.

    Returns
    -------
    distances : ndarray of shape (n_points,)
    nearest, their_weights : ndarray of shape (n_points, n_kept)
        The distances of the nearest, ascending, and their weights, or twice the mass if that is
        less; infinite and zero after the one at which the mass is reached.
    """
    leaf_size = blocks.members.shape[1]
    room = most_needed(weights, masses.max())
    out = np.empty(len(X)), np.empty((len(X), n_kept)), np.empty((len(X), n_kept))
    work = (
        np.empty((2, leaf_size, room + 1)),
        np.empty((2, leaf_size)),
        np.empty(leaf_size, dtype=np.int64),
        np.empty(blocks.lower.shape[0], dtype=np.int64),
        np.empty(leaf_size),
    )
    masses = masses * (1 - ROUNDING)
    n_leaves = len(blocks.sizes)
    for first in range(0, n_leaves, _STEP):
        progress(first / n_leaves)
        last = min(n_leaves, first + _STEP)
        _nearest_distances(X, weights, masses, *blocks, *work, *out, first, last)
    return out


def most_needed(weights: np.ndarray, mass: float) -> int:
    """Return how many points are enough to reach a mass, whichever they are."""
    if weights.min() >= 1.0:
        return min(len(weights), int(np.ceil(mass)))
    reached = np.cumsum(np.sort(weights))
    return min(len(weights), 1 + int(np.searchsorted(reached, mass * (1 - ROUNDING))))


@kernel
def _nearest_distances(
    X, weights, masses, columns, members, sizes, lower, upper, nearest, reached, counts, stack,
    row, distances, out, out_weights, first, last,
):  # fmt: skip
    """Visit, for some leaves, the nodes near each, nearest first, own leaf before all others.

    ``nearest`` holds, for each point of the leaf, the smallest squared distances, sorted, and the
    weights that belong to them, as many as ``counts``; ``reached`` their mass and the distance
    from which on no other is needed.
    """
    first_leaf = sizes.shape[0] - 1
    for leaf in range(first, last):
        node = first_leaf + leaf
        for i in range(sizes[leaf]):
            counts[i] = 0
            reached[0, i] = 0.0
            reached[1, i] = np.inf
        farthest = _merge(
            X, weights, masses, members, sizes, leaf, columns, leaf, 0.0, nearest, reached, counts,
            row,
        )  # fmt: skip
        n_open = 1
        stack[0] = 0
        while n_open > 0:
            n_open -= 1
            other = stack[n_open]
            bound = _box_to_box(lower, upper, node, other) * _SLACK
            if bound >= farthest or other == node:
                continue
            if other >= first_leaf:
                there = other - first_leaf
                farthest = _merge(
                    X, weights, masses, members, sizes, leaf, columns, there, bound, nearest,
                    reached, counts, row,
                )  # fmt: skip
                continue
            left = 2 * other + 1
            right = left + 1
            nearer = left
            if _box_to_box(lower, upper, node, right) < _box_to_box(lower, upper, node, left):
                nearer = right
            stack[n_open] = left + right - nearer
            stack[n_open + 1] = nearer
            n_open += 2
        for i in range(sizes[leaf]):
            point = members[leaf, i]
            distances[point] = np.sqrt(nearest[0, i, counts[i] - 1])
            for j in range(out.shape[1]):
                known = j < counts[i]
                out[point, j] = np.sqrt(nearest[0, i, j]) if known else np.inf
                out_weights[point, j] = nearest[1, i, j] if known else 0.0


@inner
def _box_to_box(lower, upper, one, other):
    """Return the squared distance between two boxes."""
    total = 0.0
    for m in range(lower.shape[1]):
        gap = lower[one, m] - upper[other, m]
        if gap < lower[other, m] - upper[one, m]:
            gap = lower[other, m] - upper[one, m]
        if gap > 0.0:
            total += gap * gap
    return total


@inner
def insert(i, square, weight, mass, nearest, reached, counts):
    """Add a point at a squared distance to the neighbours of another, and drop those too many."""
    # Beyond what matters, so that a large weight does not round the others away.
    weight = weight if weight < 2.0 * mass else 2.0 * mass
    slot = counts[i]
    while slot > 0 and nearest[0, i, slot - 1] > square:
        nearest[0, i, slot] = nearest[0, i, slot - 1]
        nearest[1, i, slot] = nearest[1, i, slot - 1]
        slot -= 1
    nearest[0, i, slot] = square
    nearest[1, i, slot] = weight
    counts[i] += 1
    reached[0, i] += weight
    last = counts[i] - 1
    while reached[0, i] - nearest[1, i, last] >= mass:
        reached[0, i] -= nearest[1, i, last]
        last -= 1
    counts[i] = last + 1
    if reached[0, i] >= mass:
        reached[1, i] = nearest[0, i, last]


@inner
def _merge(
    X, weights, masses, members, sizes, here, columns, there, bound, nearest, reached, counts, row
):
    """Add the points of one leaf to the neighbours of another; return the farthest that counts."""
    farthest = 0.0
    for i in range(sizes[here]):
        if bound < reached[1, i]:
            point = members[here, i]
            squared_distances(X, point, columns, there, row)
            for j in range(sizes[there]):
                if row[j] < reached[1, i]:
                    weight = weights[members[there, j]]
                    insert(i, row[j], weight, masses[point], nearest, reached, counts)
        if reached[1, i] > farthest:
            farthest = reached[1, i]
    return farthest
