"""The nearest neighbors of weighted points."""

from collections.abc import Callable

import numpy as np

from ..kernels.blocks import ROUNDING, Blocks, find_neighbors, most_needed
from ..threads import map_blocks

#: The number of leaves in one call of a kernel, which cannot be interrupted.
_STEP = 128


def nearest_distances(
    X: np.ndarray,
    weights: np.ndarray,
    blocks: Blocks,
    masses: float | np.ndarray,
    n_kept: int = 0,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distance from every point within which weights reach its mass, and its neighbors.

    ``masses``, one or (n_points,), are not above the weight of all points. The neighbors are two
    arrays of shape (n_points, n_kept): ascending distances, the point itself first, and weights,
    each at most twice the mass; infinite and zero after the neighbor at which the mass is reached.
    """
    distances, neighbors = np.empty((len(X), n_kept)), np.empty((len(X), n_kept), dtype=np.int32)
    masses = np.full(len(X), masses, dtype=np.float64)
    farthest = _find(X, weights, blocks, masses, distances, neighbors, n_jobs)
    counted = np.minimum(weights[neighbors], 2.0 * masses[:, None])
    return farthest, distances, np.where(neighbors >= 0, counted, 0.0)


def nearest_neighbors(
    X: np.ndarray,
    weights: np.ndarray,
    blocks: Blocks,
    mass: float,
    n_kept: int,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    spare: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distance from every point within which weights reach a mass, and its neighbors.

    The neighbors (n_points, n_kept) are indices by ascending distance, the point itself among the
    first, and -1 after the one at which ``spare`` times the mass is reached. ``progress`` is called
    with the fraction done.
    """
    distances, neighbors = np.empty((len(X), 0)), np.empty((len(X), n_kept), dtype=np.int32)
    masses = np.full(len(X), mass, dtype=np.float64)
    farthest = _find(X, weights, blocks, masses, distances, neighbors, n_jobs, progress, spare)
    return farthest, neighbors


def _find(
    X: np.ndarray,
    weights: np.ndarray,
    blocks: Blocks,
    masses: np.ndarray,
    distances: np.ndarray,
    neighbors: np.ndarray,
    n_jobs: int | None,
    progress: Callable[[float], None] | None = None,
    spare: float = 1.0,
) -> np.ndarray:
    """Return the distances within which weights reach masses; write neighbors and their distances.

    Threads share the leaves.
    """
    leaf_size, n_leaves = blocks.members.shape[1], len(blocks.sizes)
    most = most_needed(weights, spare * masses.max())
    masses = masses * (spare * (1 - ROUNDING))
    farthest = np.empty(len(X))

    def find(leaves: range) -> None:
        work = (
            np.empty((2, leaf_size, most + 1)),
            np.empty((2, leaf_size)),
            np.empty(leaf_size, dtype=np.int64),
            np.empty(len(blocks.lower), dtype=np.int64),
            np.empty(leaf_size),
        )
        for first in range(leaves.start, leaves.stop, _STEP):
            if progress is not None:
                progress((first - leaves.start) / len(leaves))
            last = min(leaves.stop, first + _STEP)
            find_neighbors(
                X, weights, masses, spare, *blocks, *work, farthest, distances, neighbors,
                first, last,
            )  # fmt: skip

    map_blocks(find, n_leaves, n_jobs)
    return farthest
