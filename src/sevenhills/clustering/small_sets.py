"""The clusters of many small sets of samples at once, as ``ROME`` finds them.

A fit to twenty samples spends its time on calls of numpy and of kernels. Here sets are ordered side
by side, and cut as parts of one long ordering: every set begins with an infinite reachability, over
which no cluster extends.
"""

from typing import NamedTuple

import numpy as np

from ..kernels.cuts import all_cuts
from .optics import NOISE, neighbors_for
from .points import unit_of
from .selection import TRIVIAL_SCORE

#: Numbers of cuts, the defaults of ``ROME``.
_N_EPS, _N_XI = 100, 99
#: Values of a feature, or distances from the mean, that differ by a smaller fraction may be equal.
_TIE = 1e-11
#: scikit-learn rounds distances to this many decimals.
_DECIMALS = 15
#: Distances between the samples of partitions that are scored together, which stay in the cache.
_BLOCK = 2**17
#: Scores that differ by no more than this differ by rounding alone.
_EQUAL = 1e-12


class SmallSets(NamedTuple):
    """Sets of samples without ties, from the sample nearest to the mean to the farthest."""

    rows: np.ndarray  #: (S, n) the given row of every sample
    X: np.ndarray  #: (S, n, d) in multiples of the units
    units: np.ndarray  #: (S,) powers of two

    @classmethod
    def from_samples(cls, X: np.ndarray) -> tuple["SmallSets", np.ndarray]:
        """Return the sets of samples (S, n, d) that have no ties, and their indices."""
        ascending = np.sort(X, axis=1)
        largest = np.abs(ascending[:, [0, -1]]).max(axis=1, keepdims=True)
        distinct = (np.diff(ascending, axis=1) > _TIE * largest).all(axis=(1, 2))
        kept = np.flatnonzero(distinct)
        units = np.array([unit_of(X[s], ascending[s].T) for s in kept.tolist()])
        Z = X[kept] / units[:, None, None]
        centered = Z - Z.mean(axis=1, keepdims=True)
        distances = np.einsum("snd,snd->sn", centered, centered)
        rows = distances.argsort(axis=1, kind="stable")
        ascending = np.take_along_axis(distances, rows, axis=1)
        clear = (np.diff(ascending) > _TIE * ascending[:, 1:]).all(axis=1)
        Z = np.take_along_axis(Z, rows[..., None], axis=1)
        return cls(rows[clear], Z[clear], units[clear]), kept[clear]


def cluster_small_sets(X: np.ndarray) -> np.ndarray:
    """Return the labels (S, n) of the samples of sets, -1 being noise; see :class:`SmallSets`."""
    n_sets, n_samples, n_features = X.shape
    k = neighbors_for(n_samples, n_features)
    distances = _distances(X)
    order, reachability, core, predecessor = _order_sets(distances, k)
    cuts = np.concatenate(
        [_cut_heights(reachability, core), _cut_slopes(reachability, predecessor, k)]
    )
    rows = np.arange(n_sets)[:, None]
    in_order = distances[rows[..., None], order[:, :, None], order[:, None]]
    labels = np.empty((n_sets, n_samples), dtype=np.int64)
    labels[rows, order] = _best_cuts(in_order, cuts)
    return labels


def _distances(X: np.ndarray) -> np.ndarray:
    """Return the distances (S, n, n); squares are added in the order of the features."""
    squares = np.zeros((len(X), X.shape[1], X.shape[1]))
    for column in np.moveaxis(X, 2, 0):
        squares += (column[:, :, None] - column[:, None]) ** 2
    return np.sqrt(squares)


def _order_sets(
    distances: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return orders, and reachability, core distances and predecessors (S, n) in order.

    Predecessors are positions, -1 for the first sample, which is the first row.
    """
    n_sets, n_samples = distances.shape[:2]
    sets, core = np.arange(n_sets), np.partition(distances, k - 1, axis=2)[..., k - 1]
    core = core.round(_DECIMALS)
    open_reach, sender = np.full((n_sets, n_samples), np.inf), np.full((n_sets, n_samples), -1)
    is_open = np.ones((n_sets, n_samples), dtype=bool)
    order, predecessor = np.empty((2, n_sets, n_samples), dtype=np.int64)
    reachability, point = np.empty((n_sets, n_samples)), np.zeros(n_sets, dtype=np.int64)
    for i in range(n_samples):
        order[:, i], predecessor[:, i] = point, sender[sets, point]
        reachability[:, i] = open_reach[sets, point]
        is_open[sets, point] = False
        offers = np.maximum(distances[sets, point], core[sets, point, None]).round(_DECIMALS)
        is_less = is_open & (offers < open_reach)
        open_reach = np.where(is_less, offers, open_reach)
        sender[is_less] = i
        point = np.where(is_open, open_reach, np.inf).argmin(axis=1)
    return order, reachability, np.take_along_axis(core, order, axis=1), predecessor


def _cut_heights(reachability: np.ndarray, core: np.ndarray) -> np.ndarray:
    """Return the labels (n_cuts, S, n) of cuts at heights between the limits of every set.

    A sample above a height begins a cluster if it is a core, and is noise otherwise.
    """
    lowest, highest = reachability[:, 1:].min(axis=1), reachability[:, 1:].max(axis=1)
    heights = (highest - lowest)[:, None] * np.linspace(0, 1, _N_EPS) ** 2 + lowest[:, None]
    # The number of heights below a distance; only there, a cut differs from the one before.
    reached, cores = (
        (heights[:, None] < each[..., None]).sum(axis=2) for each in (reachability, core)
    )
    changes = np.minimum(np.sort(np.concatenate([reached, cores], axis=1), axis=1), _N_EPS - 1)
    cuts = np.append(np.zeros((1, len(core), 1), dtype=np.int64), changes.T[..., None], axis=0)
    is_far, is_core = reached > cuts, cores <= cuts
    labels = np.cumsum(is_far & is_core, axis=2) - 1
    labels[is_far & ~is_core] = NOISE
    return _without_singles(labels)


def _without_singles(labels: np.ndarray) -> np.ndarray:
    """Return labels (n_cuts, S, n) in which clusters of one sample are noise."""
    flat = labels.reshape(-1, labels.shape[2])
    keys = flat + 1 + (flat.shape[1] + 1) * np.arange(len(flat))[:, None]
    sizes = np.bincount(keys.ravel(), minlength=len(flat) * (flat.shape[1] + 1))
    kept = (sizes > 1).reshape(len(flat), -1)
    kept[:, 0] = False  # noise
    numbers = np.where(kept, np.cumsum(kept, axis=1) - 1, NOISE)
    return _alone_in_one(np.take(numbers.ravel(), keys).reshape(labels.shape))


def _cut_slopes(reachability: np.ndarray, predecessor: np.ndarray, k: int) -> np.ndarray:
    """Return the labels (n_cuts, S, n) of cuts at steep flanks."""
    n_sets, n_samples = reachability.shape
    starts = n_samples * np.arange(n_sets)[:, None]
    places = np.where(predecessor < 0, -1, predecessor + starts)
    steepness = np.linspace(1 / (_N_XI + 1), _N_XI / (_N_XI + 1), _N_XI)
    plot, weights = reachability.ravel(), np.ones(places.size)
    runs = all_cuts(plot, plot, places.ravel(), weights, np.empty(0), steepness, k)[0]
    labels = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0]).reshape(_N_XI, n_sets, n_samples)
    # Clusters are numbered over all sets.
    last = np.maximum.accumulate(labels.max(axis=2), axis=1)
    labels[:, 1:] -= last[:, :-1, None] + 1
    return _alone_in_one(np.maximum(labels, NOISE))


def _alone_in_one(labels: np.ndarray) -> np.ndarray:
    """Return labels (n_cuts, S, n) in which sets of one label, noise or not, are one cluster."""
    labels[(labels == labels[..., :1]).all(axis=2)] = 0
    return labels


# The choice of a cut


def _best_cuts(distances: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return the labels (S, n) of the cut with the best silhouette in every set.

    distances : (S, n, n), in order
    cuts : (n_cuts, S, n), labels
    """
    n_cuts, n_sets = cuts.shape[:2]
    # Neighboring cuts are often equal, and most of the others have a single label.
    is_new = np.append(
        np.ones((1, n_sets), dtype=bool), (cuts[1:] != cuts[:-1]).any(axis=2), axis=0
    )
    is_proper = (cuts != cuts[..., :1]).any(axis=2)
    numbers, sets = np.nonzero(is_new & is_proper)
    scores = np.full((n_cuts, n_sets), TRIVIAL_SCORE)
    size = max(1, _BLOCK // distances[0].size)
    for start in range(0, len(sets), size):
        some = numbers[start : start + size], sets[start : start + size]
        scores[some] = _silhouettes(distances[some[1]], cuts[some])
    scores[~is_new] = -np.inf
    best = np.argmax(scores >= scores.max(axis=0) - _EQUAL, axis=0)
    return np.asarray(cuts[best, np.arange(n_sets)])


def _silhouettes(distances: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the scores (P,) of partitions (P, n) by silhouettes, counting noise twice.

    See :func:`~sevenhills.clustering.selection.silhouette_scores`.
    """
    is_noise, n_labels = labels == NOISE, int(labels.max(initial=0)) + 1
    own = np.where(is_noise, n_labels, labels)[..., None]
    members = (own == np.arange(n_labels + 1)).astype(np.float64)
    sizes = members.sum(axis=1)
    sums = distances @ members
    with np.errstate(divide="ignore", invalid="ignore"):
        own_size = np.take_along_axis(sizes, own[..., 0], axis=1)
        within = np.take_along_axis(sums, own, axis=2)[..., 0] / (own_size - 1)
        sums /= sizes[:, None]
        sums[np.broadcast_to(sizes[:, None] == 0, sums.shape)] = np.inf
        np.put_along_axis(sums, own, np.inf, axis=2)
        between = sums[..., :-1].min(axis=2)
        nearest = np.where(is_noise[:, :, None], distances, np.inf).min(axis=1)
        alone = _silhouette(within, np.minimum(between, nearest))
        joined = _silhouette(within, np.minimum(between, sums[..., -1]))
    alone[is_noise] = 0.0
    joined[own_size == 1] = 0.0
    share = is_noise.mean(axis=1)
    return np.asarray(share * alone.mean(axis=1) + (1 - share) * joined.mean(axis=1))


def _silhouette(within: np.ndarray, between: np.ndarray) -> np.ndarray:
    """Return silhouettes from mean distances within clusters and to the nearest other one."""
    larger = np.maximum(within, between)
    return np.where(larger > 0, (between - within) / larger, 0.0)
