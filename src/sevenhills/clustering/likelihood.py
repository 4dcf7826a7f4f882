"""Clusters by likelihood: Gaussians choose among cuts, split clusters, and valleys divide them.

The candidates are the cuts of an ordering, in which noise and small clusters have joined their
neighbors. The chosen one has the highest leave-one-out likelihood of one Gaussian for each cluster.
Its clusters are split into pieces as long as that raises the likelihood, and pieces are merged into
clusters where the samples show no valley between them. Pieces are nearly Gaussian, clusters need
not be.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from ..kernels.likelihood import (
    contact_mass,
    halve,
    join_along_tree,
    leave_one_out,
    scatter_matrices,
    valley_depth,
)
from ..progress import part
from .joining import MAX_STDS, is_far, min_cluster_size
from .optics import NOISE, Cuts, Ordering, cut, neighbors_for, order_by_reachability
from .points import FEWEST_TO_CLUSTER, Points
from .selection import LIKELIHOOD, Candidates

#: The scores of candidates that differ by less are equal.
_EQUAL = 1e-9
#: Ridge of the pooled covariance, relative to its mean variance and to that of all samples.
_RIDGE = 1e-6
_MIN_RIDGE = 1e-20
#: The gain over one cluster, and that of a split, must exceed this number of standard errors.
_MIN_GAIN = 1.0
_MIN_SPLIT_GAIN = 3.0
#: The number of principal axes along which a split is tried.
_N_AXES = 3
#: A candidate with a larger share of outliers is not a clustering.
_MAX_STRAYS = 0.1
#: Pieces whose means are farther apart, in pooled standard deviations, are not merged.
_MAX_APART = 8.0
#: Pieces touch if there are this many samples, in core numbers of neighbors, that have a sample of
#: the other piece within this number of core distances.
_CONTACT = 0.5
_CONTACT_RADIUS = 2.0
#: The deepest valley must be deeper than the limit of all others by this factor.
_STRICT = np.sqrt(2)
#: Candidates with a larger share of noise do not separate clusters by density.
_MAX_NOISE = 0.1
#: At most this number of rows of a piece is searched for contacts.
_MOST_SEARCHED = 2000


class LikelyClusters(NamedTuple):
    """Clusters of points by likelihood.

    Attributes
    ----------
    points : Points
        The points in the pieces of the ordering, with the candidates and their scores: the mean
        log likelihood in excess of that of one cluster.
    clusters : ndarray of shape (n_points,)
        The cluster of every given point, numbered by their first points, -1 for outliers.
    pieces : ndarray of shape (n_points,)
        Nearly Gaussian parts of the clusters, numbered in the same way.
    """

    points: Points
    clusters: np.ndarray
    pieces: np.ndarray


def _on_lines(points: Points) -> np.ndarray:
    """Return points with circles cut open where the samples are few: Gaussians are on lines.

    Features of one value are left out, unless all are.
    """
    one = replace(points, labels=np.zeros_like(points.labels)).unwrapped()
    X = one.X[:, one.features]
    varied = np.ptp(X, axis=0) > 0
    return np.ascontiguousarray(X[:, varied] if varied.any() else X)


def _whole(split: Points) -> np.ndarray:
    """Return the point of every piece."""
    return np.arange(len(split.X)) if split.whole is None else split.whole


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Return labels in the order of their first rows; -1 stays."""
    inside = labels != NOISE
    _, firsts, index = np.unique(labels[inside], return_index=True, return_inverse=True)
    out = labels.copy()
    out[inside] = np.argsort(np.argsort(firsts))[index]
    return out


class Moments(NamedTuple):
    """Masses (k,), means (k, d) and scatter matrices (k, d, d) of clusters."""

    masses: np.ndarray
    means: np.ndarray
    scatters: np.ndarray


class Grouped(NamedTuple):
    """Rows in the order of their labels, as columns (d, n); rows of label -1 are left out."""

    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray

    def of(self, label: int) -> np.ndarray:
        """Return the rows of a label."""
        return self.rows[self.offsets[label] : self.offsets[label + 1]]

    def moments(self) -> Moments:
        """Return the moments of all clusters."""
        n_clusters, n_features = len(self.offsets) - 1, len(self.columns)
        out = Moments(
            np.empty(n_clusters),
            np.empty((n_clusters, n_features)),
            np.empty((n_clusters, n_features, n_features)),
        )
        scatter_matrices(self.columns, self.weights, self.offsets, *out)
        return out


class Samples:
    """Rows with weights, and the likelihood of labels under one Gaussian for each cluster."""

    def __init__(self, X: np.ndarray, weights: np.ndarray) -> None:
        self.X, self.weights = np.ascontiguousarray(X), weights
        self.columns = np.ascontiguousarray(X.T)
        self.total = float(weights.sum())
        self.n_features = X.shape[1]
        #: The weight of the pooled covariance in that of a cluster, in samples.
        self.prior = float(self.n_features + 2)
        self.least = min_cluster_size(self.n_features)

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance of all samples."""
        everything = self.grouped(np.zeros(len(self.X), dtype=np.int64))
        return np.asarray(everything.moments().scatters[0] / self.total)

    def grouped(self, labels: np.ndarray, rows: np.ndarray | None = None) -> Grouped:
        """Group all rows, or the given ones, by their labels from 0; -1 is left out."""
        order = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels + 1)
        order = order[sizes[0] :]
        rows = order if rows is None else rows[order]
        offsets = np.append(0, np.cumsum(sizes[1:]))
        return Grouped(rows, self.columns[:, rows], self.weights[rows], offsets)

    def pooled(self, scatter: np.ndarray, mass: float) -> np.ndarray:
        """Return a pooled covariance with a ridge, from the sum of scatter matrices."""
        pooled = scatter / mass
        ridge = _RIDGE * np.trace(pooled) + _MIN_RIDGE * np.trace(self.covariance)
        # All samples are equal if the ridge is zero, and any number will do.
        return np.asarray(pooled + np.eye(self.n_features) * (ridge / self.n_features or 1.0))

    def own_log_likelihoods(
        self, grouped: Grouped, moments: Moments, pooled: np.ndarray
    ) -> np.ndarray:
        """Return the log likelihoods of grouped rows; see :meth:`log_likelihoods`."""
        out = np.empty(len(grouped.rows))
        columns, weights, offsets = grouped[1:]
        leave_one_out(columns, weights, offsets, *moments, pooled, self.prior, self.total, out)
        return out

    def log_likelihoods(self, labels: np.ndarray) -> np.ndarray:
        r"""Return the log likelihood of every row, without one sample of it.

        A cluster of :math:`n` of :math:`N` samples with mean :math:`m` and scatter matrix :math:`A`
        has the share :math:`n / N` of a Gaussian with the covariance

        .. math:: S = \frac{A + \kappa W}{n + \kappa}, \qquad \kappa = d + 2 ,

        where :math:`W` is the pooled covariance of clusters, which is kept when a sample is left
        out. Outliers have the Gaussian of all samples.
        """
        grouped = self.grouped(labels)
        moments = grouped.moments()
        pooled = self.pooled(moments.scatters.sum(axis=0), float(moments.masses.sum()))
        out = np.empty(len(labels))
        out[grouped.rows] = self.own_log_likelihoods(grouped, moments, pooled)
        outside = labels == NOISE
        if outside.any():
            share = max(float(self.weights[outside].sum()) - 1.0, 0.5) / self.total
            out[outside] = self._outside[outside] + np.log(share)
        return out

    def is_clear(
        self, gains: np.ndarray, n_errors: float, weights: np.ndarray | None = None
    ) -> bool:
        """Whether the sum of gains exceeds standard errors; rows that are not given gain nothing.

        ``weights`` are those of the rows, of all by default.
        """
        weights = self.weights if weights is None else weights
        gain = float(weights @ gains)
        variance = float(weights @ gains**2) - gain**2 / self.total
        return gain > n_errors * np.sqrt(max(variance, 0.0))

    @cached_property
    def _outside(self) -> np.ndarray:
        """The log density of the Gaussian of all samples at every row."""
        root = np.linalg.cholesky(self.pooled(self.covariance, 1.0))
        centered = self.columns - (self.columns @ self.weights / self.total)[:, None]
        squares = np.square(np.linalg.solve(root, centered)).sum(axis=0)
        log_det = 2 * np.log(np.diag(root)).sum()
        return np.asarray(-0.5 * (squares + log_det + self.n_features * np.log(2 * np.pi)))


# Candidates


def join_cuts(
    samples: Samples, split: Points, ordering: Ordering, cuts: Cuts
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return distinct labels of points in which noise has joined, and the index of every cut.

    The first labels are one cluster.
    """
    whole = _whole(split)
    reached = ordering.order[np.isfinite(ordering.reachability[ordering.order])]
    edges = np.stack([whole[reached], whole[ordering.predecessor[reached]]], axis=1)
    lengths = ordering.reachability[reached]
    apart = edges[:, 0] != edges[:, 1]
    edges, lengths = edges[apart], lengths[apart]
    ascending = np.argsort(lengths, kind="stable")
    edges, lengths = edges[ascending], lengths[ascending]
    spread = float(np.trace(samples.covariance))

    one = np.zeros(len(samples.X), dtype=np.int64)
    one[is_far(samples.X, one)] = NOISE
    found = {_digest(one): 0, _digest(np.zeros_like(one)): 0}
    joined, index = [one], np.empty(len(cuts), dtype=np.int64)
    heaviest = split.heaviest_pieces()
    labels, parents = np.empty(len(split.X), dtype=np.int64), np.empty(2 * len(one) + 1, np.int64)
    for i in range(len(cuts)):
        runs = cuts.partitions[i]
        labels[cuts.order] = np.repeat(runs[:, 2], runs[:, 1] - runs[:, 0])
        out = np.zeros_like(one)
        join_along_tree(
            labels[heaviest], samples.X, samples.weights, edges, lengths, samples.least,
            MAX_STDS, spread, parents, out,
        )  # fmt: skip
        if samples.weights[out == NOISE].sum() > _MAX_STRAYS * samples.total:
            out = one  # around repeated values, all others would be far away
        index[i] = found.setdefault(_digest(out), len(joined))
        if index[i] == len(joined):
            joined.append(out)
    return joined, index


def _digest(labels: np.ndarray) -> bytes:
    return blake2b(labels.tobytes()).digest()


# Pieces


def split_clusters(samples: Samples, labels: np.ndarray) -> np.ndarray:
    """Split clusters in two as long as this clearly raises the likelihood."""
    grouped = samples.grouped(labels)
    moments = grouped.moments()
    mass, scatter = float(moments.masses.sum()), moments.scatters.sum(axis=0)
    queue = [grouped.of(c) for c in range(len(moments.masses))]
    out, n_pieces = np.full(len(labels), NOISE), 0
    while queue:
        rows = queue.pop(0)
        halves = _split(samples, rows, scatter, mass)
        if halves is None:
            out[rows] = n_pieces
            n_pieces += 1
        else:
            sides, between = halves
            scatter = scatter - between
            queue += [rows[sides == 0], rows[sides == 1]]
    return _numbered(out)


def _split(
    samples: Samples, rows: np.ndarray, scatter: np.ndarray, mass: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the sides of a cluster's rows, and the scatter matrix between them.

    ``scatter`` and ``mass`` are those of all clusters. None if the likelihood does not rise.
    """
    if len(rows) < 2 or samples.weights[rows].sum() < 2 * samples.least:
        return None
    whole = samples.grouped(np.zeros(len(rows), dtype=np.int64), rows)
    moments = whole.moments()
    before = samples.own_log_likelihoods(whole, moments, samples.pooled(scatter, mass))
    best, best_gain = None, 0.0
    for sides in _halves(samples, whole, moments, samples.pooled(scatter, mass)):
        parts = samples.grouped(sides, rows)
        own = parts.moments()
        apart = own.means[1] - own.means[0]
        between = np.outer(apart, apart) * (own.masses[0] * own.masses[1] / own.masses.sum())
        after = np.empty(len(rows))
        after[np.argsort(sides, kind="stable")] = samples.own_log_likelihoods(
            parts, own, samples.pooled(scatter - between, mass)
        )
        gains = after - before
        gain = float(whole.weights @ gains)
        if gain > best_gain and samples.is_clear(gains, _MIN_SPLIT_GAIN, whole.weights):
            best, best_gain = (sides, between), gain
    return best


def _halves(
    samples: Samples, whole: Grouped, moments: Moments, pooled: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the distinct sides of a cluster's rows, from its widest principal axes."""
    scatter = moments.scatters[0]
    precision = np.linalg.inv(scatter + samples.prior * pooled)
    axes = np.linalg.eigh(scatter)[1].T[: -_N_AXES - 1 : -1]
    seen = set()
    for axis in np.ascontiguousarray(axes):
        sides = np.empty(len(whole.rows), dtype=np.int64)
        smaller = halve(
            whole.columns, whole.weights, moments.means[0], axis, precision, samples.prior,
            np.empty((2, samples.n_features)), np.empty(len(sides)), sides,
        )  # fmt: skip
        key = (sides ^ sides[0]).tobytes()
        if smaller * (1 + 1e-12) >= samples.least and key not in seen:
            seen.add(key)
            yield sides


# Clusters


def merge_pieces(
    samples: Samples, pieces: np.ndarray, core: np.ndarray, n_neighbors: int
) -> np.ndarray:
    r"""Merge touching pieces between which the samples show no valley.

    A valley between two of :math:`k` pieces must be deeper than :math:`\sqrt{2 \log k}` standard
    errors. If none is deeper than :math:`\sqrt{2 \log k^2}`, which the deepest of all pairs may
    reach by chance, there is one cluster. ``core`` (n,) are the distances within which there are
    ``n_neighbors`` samples.
    """
    grouped = samples.grouped(pieces)
    n_pieces = len(grouped.offsets) - 1
    if n_pieces < 2:
        return pieces
    limit = np.sqrt(2 * np.log(n_pieces))
    strict = _STRICT * limit
    radii, enough = _CONTACT_RADIUS * core, _CONTACT * n_neighbors
    moments = grouped.moments()
    pooled = samples.pooled(moments.scatters.sum(axis=0), float(moments.masses.sum()))
    depths = np.full((n_pieces, n_pieces), np.inf)
    for a, b in _near_pairs(grouped, radii):
        depth = _valley(samples, grouped, moments, pooled, a, b)
        if depth < strict and _touch(samples, radii, grouped.of(a), grouped.of(b), enough):
            depths[a, b] = depth
    n_clusters, merged = connected_components(depths < strict)
    if n_clusters > 1:
        merged = connected_components(depths < limit)[1]
    return _numbered(np.where(pieces == NOISE, NOISE, merged.astype(np.int64)[pieces]))


def _near_pairs(grouped: Grouped, radii: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs of pieces that may touch: their boxes are not farther apart than radii.

    On a line, all pieces may touch.
    """
    starts, n_pieces = grouped.offsets[:-1], len(grouped.offsets) - 1
    low = np.minimum.reduceat(grouped.columns, starts, axis=1)
    high = np.maximum.reduceat(grouped.columns, starts, axis=1)
    reach = np.maximum.reduceat(radii[grouped.rows], starts)
    gaps = np.maximum(low[:, :, None] - high[:, None], low[:, None] - high[:, :, None])
    apart = np.square(np.maximum(gaps, 0.0)).sum(axis=0)
    near = apart <= np.square(np.maximum(reach[:, None], reach)) * (1 + _EQUAL)
    is_line = len(grouped.columns) == 1
    return [(a, b) for a, b in combinations(range(n_pieces), 2) if is_line or near[a, b]]


def _valley(
    samples: Samples, grouped: Grouped, moments: Moments, pooled: np.ndarray, a: int, b: int
) -> float:
    """Return the depth of the valley between two pieces, in standard errors.

    Samples are projected on the axis that separates the pieces best. The depth is infinite if the
    pieces are far apart.
    """
    masses, apart = moments.masses[[a, b]], moments.means[b] - moments.means[a]
    covariance = moments.scatters[a] + moments.scatters[b] + samples.prior * pooled
    axis = np.linalg.solve(covariance / (masses.sum() + samples.prior), apart)
    square = float(apart @ axis)
    if not 0 < square <= _MAX_APART**2:
        return 0.0 if square <= 0 else np.inf
    std = np.sqrt(square)
    axis = axis / std  # the pooled standard deviation along the axis is one
    width = 0.9 * masses.min() ** -0.2
    margin = 3.0 + 4 * width
    low = float(moments.means[a] @ axis) - margin
    ends = np.array([margin, margin + std]) / (0.25 * width)
    bins = np.empty(int((2 * margin + std) / (0.25 * width)) + 2)
    parts = [slice(grouped.offsets[c], grouped.offsets[c + 1]) for c in (a, b)]
    along = np.concatenate([axis @ grouped.columns[:, part] for part in parts]) - low
    weights = np.concatenate([grouped.weights[part] for part in parts])
    return float(valley_depth(along, weights, ends.astype(np.int64), width, bins))


def _touch(
    samples: Samples, radii: np.ndarray, some: np.ndarray, others: np.ndarray, enough: float
) -> bool:
    """Whether enough samples of two pieces have a sample of the other within their radius.

    On a line, pieces without a valley between them are neighbors.
    """
    if samples.n_features == 1:
        return True
    mass = 0.0
    for here, there in ((some, others), (others, some)):
        step = -(-len(here) // _MOST_SEARCHED)
        mass += step * contact_mass(
            samples.X, samples.weights, radii, here[::step], there, (enough - mass) / step
        )
    return mass >= enough


# The whole


def find_likely_clusters(points: Points, n_jobs: int | None = None) -> LikelyClusters:
    """Cluster points by likelihood, from the ordering that ``ROME`` has by default."""
    if points.n_counted < FEWEST_TO_CLUSTER:
        return LikelyClusters(points, np.zeros_like(points.labels), np.zeros_like(points.labels))
    split, k = points.split(), neighbors_for(points.n_counted, points.X.shape[1])
    with part("", 0.0, 0.5):
        ordering = order_by_reachability(split.places(), k, split.weights, n_jobs)
    cuts = cut(ordering, weights=split.weights)
    with part("clusters", 0.5, 1.0):
        return choose_by_likelihood(points, split, ordering, cuts)


def choose_by_likelihood(
    points: Points, split: Points, ordering: Ordering, cuts: Cuts
) -> LikelyClusters:
    """Choose among the cuts of an ordering of ``split``, which are the points in pieces."""
    samples = Samples(_on_lines(points), points.weights * points.grain)
    joined, index = join_cuts(samples, split, ordering, cuts)
    sums = [samples.weights @ samples.log_likelihoods(labels) for labels in joined]
    scores = (np.array(sums) - sums[0]) / samples.total
    best = int(np.argmax(scores >= scores.max() - _EQUAL))
    gains = samples.log_likelihoods(joined[best]) - samples.log_likelihoods(joined[0])
    best = best if samples.is_clear(gains, _MIN_GAIN) else 0
    starts = dict.fromkeys([best, *_likeliest_connected(cuts, joined, index, scores)])
    pieces = _best_pieces(samples, [joined[i] for i in starts])
    core = np.empty(len(samples.X))
    core[_whole(split)] = ordering.core_distances
    clusters = merge_pieces(samples, pieces, core, ordering.n_neighbors)
    # Of cuts that are equal after joining, the one with the least noise is reported.
    equal = np.flatnonzero(index == (best if best in index else index[scores[index].argmax()]))
    candidates = Candidates(
        **vars(cuts),
        criterion=LIKELIHOOD,
        scores=scores[index],
        errors=np.zeros(len(cuts)),
        chosen=int(equal[cuts.noise_share[equal].argmin()]),
    )
    return LikelyClusters(split.clustered(ordering, candidates), clusters, pieces)


def _likeliest_connected(
    cuts: Cuts, joined: list[np.ndarray], index: np.ndarray, scores: np.ndarray
) -> list[int]:
    """Return the likeliest candidate of several clusters that leaves little noise, if any.

    Bent clusters, such as rings, are no Gaussians, but parts of them are.
    """
    some = [i for i in index[cuts.noise_share <= _MAX_NOISE].tolist() if joined[i].max() > 0]
    return [max(some, key=lambda i: float(scores[i]))] if some else []


def _best_pieces(samples: Samples, starts: list[np.ndarray]) -> np.ndarray:
    """Return the pieces of the first labels, or of the next if they are clearly more likely."""
    best, *others = [
        split_clusters(samples, np.where(is_far(samples.X, start), NOISE, start))
        for start in starts
    ]
    for pieces in others:
        gains = samples.log_likelihoods(pieces) - samples.log_likelihoods(best)
        best = pieces if samples.is_clear(gains, _MIN_GAIN) else best
    return best
