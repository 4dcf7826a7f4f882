"""OPTICS: the reachability ordering, and its cuts into candidate clusterings."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..kernels.blocks import Blocks, build_rotated_blocks
from ..kernels.cuts import all_cuts, first_equals
from ..kernels.direct_ordering import order_few_points
from ..kernels.ordering import find_floors, order_points
from ..progress import part, report
from ..threads import map_blocks
from ..validation import check_field, check_offsets, check_permutation
from .nearest import nearest_neighbors

#: The label of samples that belong to no cluster.
NOISE = -1
#: Scores that differ by no more than this differ by rounding alone.
_EQUAL = 1e-12
#: Points in a leaf of the tree. Larger leaves mean fewer boxes to bound and more distances to
#: compute; 64 to 128 are equally fast, and half of that in the plane.
_LEAF_SIZE = 64
#: The number of nearest neighbors that are searched in the plane, as a multiple of those of a core.
#: The share of surrounded points of 100,000 in aniso is 13 % at 1, 78 % at 1.2 and 94 % at 1.4.
_SPARE = 1.4
#: Up to this number of points, boxes in a list are about as fast as in a tree: at 4000 points they
#: take 0.6 to 0.9 times as long in one or two features and in clusters in 24, and 1.1 to 1.5 times
#: in one cluster in five or more. They compile in less than half of the time.
_FEW = 4000


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
        The distance of every row to its k-th nearest, itself being the first. Rows of weight zero
        come last, with infinite distances.
    predecessor : ndarray of shape (n_samples,)
        The row from which every row was reached, -1 for the first.
    n_neighbors : int
        The number k of neighbors.
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

    def _validate(self) -> None:
        """Raise an error if the arrays contradict each other, as those of a file might."""
        n_samples = len(self.order)
        check_permutation(self.order, "order")
        check_field(self.predecessor, "predecessor", "i", (n_samples,), -1, n_samples - 1)
        check_field(self.reachability, "reachability", "f", (n_samples,), least=0)
        check_field(self.core_distances, "core_distances", "f", (n_samples,), least=0)
        if np.isinf(self.reachability[self.predecessor >= 0]).any():
            raise ValueError("reachability must be finite for a row that was reached")
        if np.isinf(self.core_distances[np.isfinite(self.reachability)]).any():
            raise ValueError("core_distances must be finite for a row that was reached")
        if self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be at least 1, got {self.n_neighbors}")


def neighbors_for(
    n_samples: float, n_features: int, k_min: int = 5, k_max: int = 20, alpha: float = 400
) -> int:
    r"""Return the number of neighbors of a core, :math:`N M / \alpha` between two limits.

    Examples
    --------
    >>> from sevenhills.clustering import neighbors_for
    >>> [neighbors_for(n, 2) for n in (100, 3000, 10_000)]
    [5, 15, 20]
    """
    k = int(min(max(n_samples * n_features / alpha, k_min), k_max))
    return min(k, int(n_samples))


def order_by_reachability(
    X: Any,
    n_neighbors: int | None = None,
    weights: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> Ordering:
    r"""Order samples by OPTICS reachability, starting at the first row.

    The reachability of :math:`p` from an ordered :math:`o` is
    :math:`\max(c_o, \lVert o - p \rVert)` with the core distance :math:`c_o`, within which the
    weights of samples add up to the number of neighbors. If all weights are one, all values equal
    those of ``sklearn.cluster.OPTICS(algorithm="kd_tree")``, to the bit on one machine.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_neighbors : int, optional
        The number of samples that make a core, the sample itself being one; ``neighbors_for(N, M)``
        by default.
    weights : ndarray of shape (n_samples,), optional
        The number of samples that every row stands for; one by default.
    n_jobs : int, optional
        Number of threads for the core distances of large data.

    Returns
    -------
    Ordering

    Examples
    --------
    >>> from sevenhills import clustering, datasets
    >>> X = datasets.load("aniso").sample(300, random_state=0)
    >>> clustering.order_by_reachability(X)
    Ordering(n_samples=300, n_neighbors=5)
    """
    X = np.ascontiguousarray(X, dtype=np.float64)
    weights = np.ones(len(X)) if weights is None else weights
    if n_neighbors is None:
        n_neighbors = neighbors_for(float(weights.sum()), X.shape[1])
    if len(X) <= _FEW:
        with part("ordering"):
            return Ordering(*order_few_points(X, weights, n_neighbors), n_neighbors)
    return Ordering(*_order_many(X, weights, n_neighbors, n_jobs), n_neighbors)


def _order_many(
    X: np.ndarray, weights: np.ndarray, n_neighbors: int, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return order, reachability, core distances and predecessors, by a tree of points.

    The points are renumbered leaf by leaf, so that those nearby in space are so in memory.
    """
    in_plane = X.shape[1] == 2
    blocks, coordinates = build_rotated_blocks(X, _LEAF_SIZE // 2 if in_plane else _LEAF_SIZE)
    rows = blocks.order
    X, coordinates, weights = X[rows], coordinates[rows], weights[rows]
    blocks, spare = blocks.renumbered(), _SPARE if in_plane else 1.0
    with part("core distances", 0.0, 0.3):
        n_kept = min(int(spare * n_neighbors), len(X))
        near, neighbors = nearest_neighbors(
            X, weights, blocks, n_neighbors, n_kept, n_jobs, report, spare
        )
        near = near.round(15)
        floors = _find_floors(X, blocks, near, neighbors, n_jobs)
    with part("ordering", 0.3, 1.0):
        found = order_points(X, coordinates, blocks, near, neighbors, *floors, rows, report)
    order = rows[found[0]]
    reachability, core, predecessor = np.empty(len(X)), np.empty(len(X)), np.empty_like(order)
    reachability[rows], core[rows] = found[1], near
    predecessor[rows] = np.append(rows, NOISE)[found[2]]
    return order, reachability, core, predecessor


def _find_floors(
    X: np.ndarray, blocks: Blocks, core: np.ndarray, neighbors: np.ndarray, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the floors of all points, and which are surrounded; threads share the points."""
    floors, surrounded = np.empty(len(X)), np.empty(len(X), dtype=bool)
    width = float((blocks.upper[0] - blocks.lower[0]).sum())

    def find(rows: range) -> None:
        find_floors(X, core, neighbors, width, floors, surrounded, rows.start, rows.stop)

    map_blocks(find, len(X), n_jobs)
    return floors, surrounded


def weigh_runs(runs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sum of the weights (N,), given in order, of every run (R, 2 or more).

    Differences of cumulated weights would lose the digits of small weights.
    """
    # Of the sums from every index to the next, those from an end to the next start are not needed.
    return np.add.reduceat(np.append(weights, 0.0), runs[:, :2].ravel())[::2]


@dataclass(frozen=True, eq=False)
class Partitions:
    """Partitions of an ordering into runs, one partition after another."""

    runs: np.ndarray  #: (n_runs, 3) start, end and label of every run, label -1 being noise
    offsets: np.ndarray  #: (n_partitions + 1,) where the runs of every partition begin

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.runs[self.offsets[index] : self.offsets[index + 1]]

    def take(self, indices: np.ndarray) -> "Partitions":
        """Return some of the partitions."""
        lengths = self.offsets[indices + 1] - self.offsets[indices]
        offsets = np.zeros(len(indices) + 1, dtype=np.int64)
        lengths.cumsum(out=offsets[1:])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        return Partitions(self.runs[rows], offsets)

    def _validate(self) -> None:
        """Raise an error unless the runs of every partition follow one another."""
        n_runs = len(self.runs)
        check_offsets(self.offsets, "offsets", n_runs)
        starts, lasts = self.offsets[:-1], self.offsets[1:] - 1
        n_samples = self.runs[-1, 1]
        check_field(self.runs, "runs", "i", (n_runs, 3), -1, n_samples)
        expected = np.append(0, self.runs[:-1, 1])
        expected[starts] = 0
        begins, ends = self.runs[:, 0], self.runs[:, 1]
        if (begins != expected).any() or (begins >= ends).any() or (ends[lasts] != n_samples).any():
            raise ValueError("runs must lead through all samples, and none may be empty")

    def first_of_equals(self) -> np.ndarray:
        """Return the index of the first equal partition, for every partition."""
        first = np.empty(len(self), dtype=np.int64)
        first_equals(self.runs, self.offsets, first)
        return first

    def n_clusters(self) -> np.ndarray:
        """Return the number of clusters of every partition."""
        return np.maximum.reduceat(self.runs[:, 2], self.offsets[:-1]) + 1

    def noise_share(self, weights: np.ndarray) -> np.ndarray:
        """Return the share of noise in the weights, given in order, for every partition."""
        masses = weigh_runs(self.runs, weights)
        masses[self.runs[:, 2] != NOISE] = 0.0
        return np.add.reduceat(masses, self.offsets[:-1]) / weights.sum()

    def resized(self, sizes: np.ndarray, n_behind: int) -> "Partitions":
        """Return the partitions of an ordering in which every place becomes some places, or none.

        ``sizes`` (n_places,) are the numbers of places; ``n_behind`` is the number of noise samples
        that follow.
        """
        if n_behind == 0 and (sizes == 1).all():
            return self
        behind = [len(sizes), len(sizes) + 1, NOISE]
        runs = np.insert(self.runs, self.offsets[1:], behind, axis=0)
        offsets = self.offsets + np.arange(len(self.offsets))
        runs[:, :2] = np.append(0, np.cumsum(np.append(sizes, n_behind)))[runs[:, :2]]
        kept = runs[:, 0] < runs[:, 1]
        return Partitions(runs[kept], np.append(0, np.cumsum(kept))[offsets])


@dataclass(frozen=True, eq=False)
class Cuts:
    """The distinct clusterings that cuts of an ordering give.

    Many cuts give the same clusters; they are one candidate, named after the first of them.

    Attributes
    ----------
    rules : ndarray of str, of shape (n_candidates,)
        "dbscan" or "xi".
    parameters : ndarray of shape (n_candidates,)
        The height of the cut in data units, or the steepness.
    n_cuts : ndarray of shape (n_candidates,)
        The number of cuts that give this candidate.
    n_clusters : ndarray of shape (n_candidates,)
    noise_share : ndarray of shape (n_candidates,)
    partitions : Partitions
        The runs of every candidate in the ordering. A candidate of one label is one run.
    order : ndarray of shape (n_samples,)
        The ordering that was cut.
    """

    rules: np.ndarray
    parameters: np.ndarray
    n_cuts: np.ndarray
    n_clusters: np.ndarray
    noise_share: np.ndarray
    partitions: Partitions
    order: np.ndarray

    def __len__(self) -> int:
        return len(self.rules)


def cut(
    ordering: Ordering, n_eps: int = 100, n_xi: int = 99, weights: np.ndarray | None = None
) -> Cuts:
    r"""Cut an ordering at many heights and at many steepnesses.

    With the finite reachabilities between :math:`r_{\min}` and :math:`r_{\max}`, the heights are
    :math:`r_{\min} + (a / (n - 1))^2 (r_{\max} - r_{\min})`, dense where clusters are dense; the
    steepnesses are :math:`b / (n + 1)`. The rules are those of scikit-learn's
    ``cluster_optics_dbscan`` and ``cluster_optics_xi``; a cluster of one sample becomes noise.

    Parameters
    ----------
    ordering : Ordering
    n_eps : int, default=100
        The number of cuts at a height (DBSCAN).
    n_xi : int, default=99
        The number of cuts at a steepness (xi).
    weights : ndarray of shape (n_samples,), optional
        The number of samples that every point stands for; one by default.

    Returns
    -------
    Cuts

    Examples
    --------
    >>> from sevenhills import clustering, datasets
    >>> X = datasets.load("aniso").sample(300, random_state=0)
    >>> cuts = clustering.cut(clustering.order_by_reachability(X))
    >>> bool(len(cuts) < cuts.n_cuts.sum())  # cuts that give the same clusters are joined
    True
    >>> int(cuts.n_cuts.sum())
    199
    """
    order = ordering.order
    weights = np.ones(len(order)) if weights is None else weights[order]
    parameters, every = _all_cuts(ordering, n_eps, n_xi, weights)
    first = every.first_of_equals()
    distinct = (first == np.arange(len(first))).nonzero()[0]
    partitions = every.take(distinct)
    return Cuts(
        rules=_fractions(n_eps, n_xi)[0][distinct],
        parameters=parameters[distinct],
        n_cuts=np.bincount(first)[distinct],
        n_clusters=partitions.n_clusters(),
        noise_share=partitions.noise_share(weights),
        partitions=partitions,
        order=order.copy(),
    )


def _all_cuts(
    ordering: Ordering, n_eps: int, n_xi: int, weights: np.ndarray
) -> tuple[np.ndarray, Partitions]:
    """Return the parameters and the partitions of all cuts; weights are in order."""
    order = ordering.order
    reachability, core = ordering.reachability[order], ordering.core_distances[order]
    _, shares, steepness = _fractions(n_eps, n_xi)
    lowest, highest = reachability[1:].min(), reachability[1:].max()
    heights = shares * (highest - lowest) + lowest
    position = np.empty(len(order) + 1, dtype=np.int64)
    position[order] = np.arange(len(order))
    position[-1] = -1
    predecessor = position[ordering.predecessor[order]]
    runs, offsets = all_cuts(
        reachability, core, predecessor, weights, heights, steepness, ordering.n_neighbors
    )
    starts = offsets[:-1]
    runs[starts[offsets[1:] - starts == 1], 2] = 0  # a single label is a cluster
    return np.concatenate([heights, steepness]), Partitions(runs, offsets)


@cache
def _fractions(n_eps: int, n_xi: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rules of all cuts, fractions of the range of heights, and the steepnesses."""
    rules = np.repeat(["dbscan", "xi"], [n_eps, n_xi])
    steepness = np.linspace(1 / (n_xi + 1), n_xi / (n_xi + 1), n_xi)
    return rules, np.linspace(0, 1, n_eps) ** 2, steepness


def best_of(scores: np.ndarray) -> int:
    """Return the index of the highest score, the first among those equal but for rounding."""
    return int(np.argmax(scores >= scores.max() - _EQUAL))
