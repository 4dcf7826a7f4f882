"""The reachability ordering of OPTICS."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..kernels.blocks import build_rotated_blocks
from ..kernels.core_distances import core_distances
from ..kernels.few_points import order_few_points
from ..kernels.ordering import order_points
from ..progress import Progress, no_progress

#: Larger leaves mean fewer boxes to bound and more distances to compute; 64 to 256 are alike.
_LEAF_SIZE = 128
#: The distances of so many points, all of them, are computed sooner than a tree is made.
_FEW = 256


@dataclass(frozen=True, eq=False)
class Ordering:
    """Points in the order in which OPTICS reaches them.

    Attributes
    ----------
    order : ndarray of shape (n_samples,)
        The rows in that order.
    reachability : ndarray of shape (n_samples,)
        The distance at which every row was reached, infinite for the first. Use
        ``reachability[order]`` for the reachability plot.
    core_distances : ndarray of shape (n_samples,)
        The distance of every row to its k-th nearest, itself being the first, infinite like the
        reachability for rows that weigh nothing; these come last.
    predecessor : ndarray of shape (n_samples,)
        The row from which every row was reached, -1 for the first.
    n_neighbors : int
        The number k of neighbours.
    """

    order: np.ndarray
    reachability: np.ndarray
    core_distances: np.ndarray
    predecessor: np.ndarray
    n_neighbors: int

    def __post_init__(self) -> None:
        for array in (self.order, self.reachability, self.core_distances, self.predecessor):
            array.flags.writeable = False

    def __repr__(self) -> str:
        return f"Ordering(n_samples={len(self.order)}, n_neighbors={self.n_neighbors})"


def neighbours_for(total: float, n_features: int, k_min: int, k_max: int, alpha: float) -> int:
    r"""Return :math:`k_c`, which grows as :math:`N M / \alpha` between two limits."""
    k = int(min(max(total * n_features / alpha, k_min), k_max))
    return min(k, int(total))


def order_by_reachability(
    X: np.ndarray,
    n_neighbors: int,
    weights: np.ndarray | None = None,
    progress: Progress = no_progress,
) -> Ordering:
    r"""Order points by reachability, starting at the first row.

    The reachability of :math:`p` from an ordered :math:`o` is
    :math:`\max(c_o, \lVert o - p \rVert)` with the core distance :math:`c_o`, within which the
    weights of points add up to the number of neighbours. If all weigh one, all values equal those
    of ``sklearn.cluster.OPTICS(algorithm="kd_tree")``, to the bit on one machine.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        C-contiguous, float64.
    n_neighbors : int
        How many samples, the point itself being one, make a core.
    weights : ndarray of shape (n_samples,), optional
        How many samples every point is; one by default.
    progress : callable, optional
        Progress callback, called with (stage, fraction done).

    Returns
    -------
    Ordering
    """
    weights = np.ones(len(X)) if weights is None else weights
    if len(X) <= _FEW:
        return Ordering(*order_few_points(X, weights, n_neighbors), n_neighbors)
    blocks, coordinates = build_rotated_blocks(X, _LEAF_SIZE)
    far = core_distances(X, weights, blocks, n_neighbors, partial(progress, "core distances"))
    core = np.around(far, 15)
    order, reachability, predecessor = order_points(
        X, coordinates, blocks, core, partial(progress, "ordering")
    )
    return Ordering(order, reachability, core, predecessor, n_neighbors)
