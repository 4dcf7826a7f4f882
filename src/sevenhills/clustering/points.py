"""Samples as the points that are clustered.

The density must depend neither on the order of rows and features nor on the unit of length, and a
row of weight three must count as three equal rows. :class:`Points` hides all of that from the
recipes: rows become distinct points with weights, in a canonical order and a canonical unit, and
labels, orderings and candidates of points are translated back to the given rows.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from math import frexp, ldexp, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np

from .optics import NOISE, Ordering, cut, neighbors_for, order_by_reachability
from .resolution import find_units, spread
from .selection import Candidates, choose, score

#: Fewer samples than this are one cluster.
FEWEST_TO_CLUSTER = 5
#: Squares of numbers beyond this, or below its inverse, may leave the range of floats.
_SQUARABLE = 2.0**300
#: Kernels on samples spread wider than this, or less than its inverse, cannot be represented.
_LARGEST = 2.0**960
#: Outliers this many times farther away than typical samples do not determine the unit: with 15
#: decimals of the distances, 9 digits of those between typical samples would be left.
_FAR = 2.0**20
#: Moments of features that differ by less are taken to be equal.
_EQUAL = 1e-9
#: Digits of distances and weights that are not affected by rounding.
_DIGITS = 12
#: Distances that differ by a larger fraction are in one order, however their mean was added up.
_CLEAR = 1e-11
#: Among more rows than this, some distances are nearly equal.
_MOST_CLEAR = 30_000
#: A sum of weights may fall short of a whole number by this fraction.
_ROUNDING = 1e-9
#: Largest number of pieces of a point; see :meth:`Points.split`.
_MOST_PIECES = 4
#: More samples than this are spread as this many copies, each of which then weighs more than one.
#: That is enough to fill the cells, and keeps a million equal rows cheap.
_MOST_COPIES = 30_000
#: Values that differ by this fraction of the largest or less may be equal.
_TIE = 1e-15
#: The valid kinds of ``resolution``, for error messages.
_RESOLUTION = "'auto', None, a number or one number for each feature"


class Space(Protocol):
    """Coordinates of samples: latent ones for kernels, and places for distances."""

    def latent(self, X: np.ndarray) -> np.ndarray:
        """Return the latent coordinates of samples; rounded values have been spread."""
        ...

    def places(self, Z: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the places of latent coordinates, from features in an order."""
        ...

    @property
    def periods(self) -> np.ndarray:
        """The period of every feature, 0 for those on a line."""
        ...

    def without(self, features: np.ndarray) -> "Space":
        """Return the space in which some features are as they are given."""
        ...


class RowClusters(NamedTuple):
    """Clusters of the given rows; rows of weight zero are noise and are not counted."""

    labels: np.ndarray
    counts: Counter[int]  #: the number of rows of every label
    ordering: Ordering | None
    candidates: Candidates | None


class Copies(NamedTuple):
    """Copies of distinct rows, spread over the cells to which their values were rounded."""

    points: np.ndarray  #: (n_copies,) the point of every copy
    distinct: np.ndarray  #: (n_copies,) the distinct row of every copy
    weights: np.ndarray  #: (n_copies,)
    of_rows: np.ndarray  #: (n_rows,) the distinct row of every given row, -1 for weight zero

    def vote(self, labels: np.ndarray) -> np.ndarray:
        """Return, from labels of points, the label of most copies of every distinct row."""
        n_labels = int(labels.max()) + 2
        pairs = self.distinct * n_labels + labels[self.points] + 1
        pairs, index = np.unique(pairs, return_inverse=True)
        masses = np.bincount(index, self.weights)
        distinct, labels = np.divmod(pairs, n_labels)
        # Of two labels with equally many copies the larger wins, which is never noise.
        order = np.lexsort((labels, (masses / masses.max()).round(_DIGITS), distinct))
        last = np.append(np.diff(distinct[order]) != 0, True)
        return np.asarray(labels[order][last] - 1)


@dataclass(frozen=True, eq=False)
class Points:
    """Distinct samples with weights, in a canonical order and unit.

    Equal rows become one point, whose weight is the sum of theirs. Points are sorted by their
    distance to the mean, which a rotation does not change, and measured in a power of two near
    their spread, which changes no digit but those that scikit-learn's absolute rounding of
    distances to 15 decimals would take away.
    """

    X: np.ndarray  #: (n_points, n_features) in multiples of ``unit``
    weights: np.ndarray  #: (n_points,) in multiples of ``grain``
    labels: np.ndarray  #: (n_points,) the cluster of every point, -1 being noise
    rows: np.ndarray  #: (n_points,) the first given row of every point
    of_rows: np.ndarray  #: (n_rows,) the point of every given row, -1 for rows of weight zero
    middles: np.ndarray  #: (n_rows,) the middle of every row along the weight of its point
    unit: float  #: a power of two, in data units
    resolution: np.ndarray  #: (n_features,) the unit of rounding, 0 where values are exact
    grain: float = 1.0  #: the number of samples that clustering counts as one
    copies: Copies | None = None  #: the copies of rounded rows; None if all values are exact
    whole: np.ndarray | None = None  #: (n_points,) the point of every piece, if points are split
    space: Space | None = None  #: None if places, latent coordinates and samples are the same
    ordering: Ordering | None = None
    candidates: Candidates | None = None
    is_canonical: bool = True  #: False if rows, features and unit are as given

    @cached_property
    def features(self) -> np.ndarray:
        """The features in an order that does not depend on the given order, (n_features,)."""
        if not self.is_canonical:
            return np.arange(self.X.shape[1])
        return canonical_features(self.X, self.weights)

    @classmethod
    def from_samples(
        cls,
        X: np.ndarray,
        weights: np.ndarray | None = None,
        resolution: Any = None,
        start: str = "canonical",
        labels: np.ndarray | None = None,
        space: Space | None = None,
    ) -> "Points":
        """Return the points of a data set.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        weights : ndarray of shape (n_samples,), optional
            The number of samples that every row stands for; one by default.
        resolution : "auto", None, float or ndarray of shape (n_features,), optional
            The unit to which values are rounded. Equal rows are spread over it.
        start : {"canonical", "first"}
            With "first", rows and unit stay as given.
        labels : ndarray of shape (n_samples,), optional
            Clusters, -1 being noise. Equal rows of different labels are different points.
        space : Space, optional
            The latent coordinates, in which points are, and the places of points.
        """
        columns = np.sort(X.T, axis=1)
        units = _resolve_resolution(resolution, X, weights, columns)
        given = np.ones(len(X)) if weights is None else weights
        if units.any():
            points = cls._from_rounded(X, given, units, start, labels, space)
        elif space is None:
            return cls._from_exact(X, given, start, labels, columns)
        else:
            points = cls._from_exact(space.latent(X), given, start, labels)
        return points if space is None else replace(points, space=space)

    @classmethod
    def _from_exact(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        start: str,
        labels: np.ndarray | None,
        columns: np.ndarray | None = None,
    ) -> "Points":
        """Return the points of rows whose values are exact; see :func:`unit_of`."""
        if not weights.all():
            kept = np.flatnonzero(weights)
            labels = None if labels is None else labels[kept]
            points = cls._from_exact(X[kept], weights[kept], start, labels)
            return points._among(kept, len(weights))
        unit, clear = unit_of(X, columns), None
        if start == "first" and unit > 1 / _SQUARABLE and np.abs(X).max() < _SQUARABLE:
            unit = 1.0
        Z = X / unit
        if start == "first":
            clear = np.arange(len(X))
        elif len(X) <= _MOST_CLEAR:
            clear = _clear_order(Z, weights)
        if clear is not None:
            rows, of_rows = clear, np.empty_like(clear)
            of_rows[rows] = np.arange(len(rows))
            sums, middles = weights[rows], 0.5 * weights
        else:
            rows, of_rows, sums, middles = _join_equal_rows(X, weights, unit, labels)
        return cls(
            X=Z.take(rows, axis=0),
            weights=sums,
            labels=np.zeros(len(rows), dtype=np.int64) if labels is None else labels[rows],
            rows=rows,
            of_rows=of_rows,
            middles=middles,
            unit=unit,
            resolution=np.zeros(X.shape[1]),
            is_canonical=start != "first",
        )

    def _among(self, kept: np.ndarray, n_rows: int) -> "Points":
        """Return the points of the rows that were kept as points of all rows."""
        of_rows, middles = np.full(n_rows, -1), np.zeros(n_rows)
        of_rows[kept], middles[kept] = self.of_rows, self.middles
        return replace(self, rows=kept[self.rows], of_rows=of_rows, middles=middles)

    @classmethod
    def _from_rounded(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        units: np.ndarray,
        start: str,
        labels: np.ndarray | None,
        space: Space | None,
    ) -> "Points":
        """Return the points of rows that are spread over the cells of rounded values."""
        distinct = cls._from_exact(X, weights, "canonical", labels)
        counts, grain = _count_copies(distinct.weights)
        sequence = np.argsort(distinct.rows) if start == "first" else np.arange(len(counts))
        source = np.repeat(sequence, counts[sequence])
        firsts = np.empty_like(counts)
        firsts[sequence] = np.cumsum(counts[sequence]) - counts[sequence]
        masses = (distinct.weights / counts)[source]
        numbers = np.arange(len(source)) - firsts[source]
        given = None if labels is None else distinct.labels
        places = spread(X[distinct.rows], counts, units, given, source, numbers, masses)
        places = places if space is None else space.latent(places)
        points = cls._from_exact(
            places, masses / grain, start, None if given is None else given[source]
        )

        own = distinct.of_rows
        part = distinct.middles / distinct.weights[own] * counts[own]
        copy = firsts[own] + np.minimum(part.astype(np.int64), counts[own] - 1)
        return replace(
            points,
            rows=distinct.rows[source[points.rows]],
            of_rows=np.where(own < 0, -1, points.of_rows[copy]),
            middles=points.middles[copy],
            resolution=units,
            grain=grain,
            copies=Copies(points.of_rows, source, masses, own),
        )

    @property
    def n_counted(self) -> float:
        """The number of samples that clustering counts, not below a whole number by rounding."""
        return float(self.weights.sum()) * (1 + _ROUNDING)

    def places(self, features: np.ndarray | None = None) -> np.ndarray:
        """Return the points where distances are measured, from features in some order."""
        if self.space is not None:
            order = np.arange(self.X.shape[1]) if features is None else features
            return self.space.places(self.X * self.unit, order) / self.unit
        return self.X if features is None else np.ascontiguousarray(self.X[:, features])

    def unwrapped(self) -> "Points":
        """Return the points with every cluster in one piece, on some turn of its circles."""
        if self.space is None or not self.space.periods.any():
            return self
        X, periods = self.X.copy(), self.space.periods / self.unit
        for label in np.unique(self.labels):
            rows = np.flatnonzero(self.labels == label)
            for j in np.flatnonzero(periods):
                cut = least_spread_cut(X[rows, j], self.weights[rows], periods[j])
                X[rows, j] = cut + np.remainder(X[rows, j] - cut, periods[j])
        return replace(self, X=X)

    def split(self) -> "Points":
        """Return the points with those of more than one sample in pieces.

        A point of weight k is k samples at one place. OPTICS reaches one of them first and all
        the others later, one after another, from the same place at the same height; in between,
        it may take other points at the same distance. A cut may begin with the last sample of
        this point, or end with its first. So four pieces are enough: the sample that is reached
        first, the first and the last of the others, and all those between.
        """
        if self.weights.max() <= 1.0:
            return self
        counts = np.clip(np.ceil(self.weights), 1, _MOST_PIECES).astype(np.int64)
        whole = np.repeat(np.arange(len(counts)), counts)
        firsts = np.cumsum(counts) - counts
        heavy = firsts + np.where(counts == _MOST_PIECES, 2, counts - 1)
        weights = np.ones(len(whole))
        weights[heavy] = self.weights - (counts - 1)
        pieces = firsts[self.of_rows] + self._pieces_of_rows(counts)
        return replace(
            self,
            X=self.X[whole],
            weights=weights,
            labels=self.labels[whole],
            rows=self.rows[whole],
            of_rows=np.where(self.of_rows < 0, -1, pieces),
            whole=whole,
        )

    def _pieces_of_rows(self, counts: np.ndarray) -> np.ndarray:
        """Return the number of the piece that contains the middle of every row."""
        weights = self.weights[self.of_rows]
        steps = (self.middles >= 1.0).astype(np.int64) + (self.middles >= 2.0)
        steps += (self.middles >= weights - 1.0) & (weights > _MOST_PIECES - 1)
        return np.minimum(steps, counts[self.of_rows] - 1)

    def clustered(self, ordering: Ordering, candidates: Candidates) -> "Points":
        """Return the points with the labels of the chosen candidate."""
        return replace(self, labels=candidates.labels(), ordering=ordering, candidates=candidates)

    def joined(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return X, labels and numbers of samples, pieces of one point and label being joined."""
        whole, labels = self.whole, self.labels
        if whole is None:
            return self.X, labels, self.weights * self.grain
        alike = (whole[1:] == whole[:-1]) & (labels[1:] == labels[:-1])
        starts = np.flatnonzero(np.append(True, ~alike))
        return self.X[starts], labels[starts], np.add.reduceat(self.weights, starts) * self.grain

    def whole_labels(self) -> np.ndarray:
        """Return one label for every point, that of its heaviest piece."""
        return self.labels if self.whole is None else self.labels[self.heaviest_pieces()]

    def heaviest_pieces(self) -> np.ndarray:
        """Return the heaviest piece of every point."""
        if self.whole is None:
            return np.arange(len(self.X))
        order = np.lexsort((-self.weights, self.whole))
        return order[np.flatnonzero(np.append(True, np.diff(self.whole) > 0))]

    def row_labels(self) -> np.ndarray:
        """Return the labels of the given rows, -1 for rows of weight zero."""
        if self.copies is None:
            return self._to_rows(self.labels, NOISE)
        votes = self.copies.vote(self.whole_labels())
        return np.where(self.of_rows < 0, NOISE, votes[self.copies.of_rows])

    def _to_rows(self, values: np.ndarray, absent: float) -> np.ndarray:
        """Return values of points for the given rows, ``absent`` for rows of weight zero."""
        out = values[self.of_rows]
        if len(self._absent):
            out[self._absent] = absent
        return out

    @cached_property
    def _absent(self) -> np.ndarray:
        """The given rows of weight zero."""
        return (self.of_rows < 0).nonzero()[0]

    def row_clusters(self) -> RowClusters:
        """Return the clusters in terms of the given rows and data units."""
        labels = self.row_labels()
        distinct, n_rows = np.unique(labels, return_counts=True)
        counts = Counter(dict(zip(distinct.tolist(), n_rows.tolist(), strict=True)))
        counts[NOISE] -= len(self._absent)
        if self.ordering is None or self.candidates is None:
            return RowClusters(labels, counts, None, None)
        # Rows of weight zero, whose point is -1, come last.
        position = np.full(len(self.X) + 1, len(self.X))
        position[self.ordering.order] = np.arange(len(self.X))
        places = position[self.of_rows]
        order, sent = _stable_order(places), self.ordering.predecessor
        units = np.where(self.candidates.rules == "dbscan", self.unit, 1.0)
        sizes = np.bincount(places, minlength=len(position))
        ordering = Ordering(
            order=order,
            reachability=self._to_rows(self.ordering.reachability * self.unit, np.inf),
            core_distances=self._to_rows(self.ordering.core_distances * self.unit, np.inf),
            predecessor=self._to_rows(np.where(sent < 0, -1, self.rows[sent]), -1),
            n_neighbors=self.ordering.n_neighbors,
        )
        candidates = replace(
            self.candidates,
            parameters=self.candidates.parameters * units,
            partitions=self.candidates.partitions.resized(sizes[:-1], n_behind=sizes[-1]),
            order=order,
        )
        return RowClusters(labels, counts, ordering, candidates)


def find_clusters(points: Points, n_jobs: int | None = None) -> Points:
    """Cluster points as ``ROME`` does with its default parameters."""
    if points.n_counted < FEWEST_TO_CLUSTER:
        return points
    points, k = points.split(), neighbors_for(points.n_counted, points.X.shape[1])
    places = points.places()
    ordering = order_by_reachability(places, k, points.weights, n_jobs)
    cuts = cut(ordering, weights=points.weights)
    scores = score(places, cuts, weights=points.weights, n_jobs=n_jobs)
    return points.clustered(ordering, choose(cuts, scores))


def least_spread_cut(x: np.ndarray, weights: np.ndarray, period: float) -> float:
    """Return where to cut a circle, so that the variance of the values after the cut is least.

    The values are then within half a period of their mean. The cut is in the middle of a gap, and
    the mean between 0 and the period.
    """
    order = np.argsort(np.remainder(x, period), kind="stable")
    turned, shares = np.remainder(x, period)[order] / period, weights[order] / weights.sum()
    # With the values before a cut moved by one period behind the others.
    moved = np.append(0.0, np.cumsum(shares)[:-1])
    means = shares @ turned + moved
    squares = shares @ turned**2 + np.append(0.0, np.cumsum(shares * (2 * turned + 1))[:-1])
    variances = squares - means**2
    starts = np.append(True, np.diff(turned) > 0)
    first = int(np.argmax(starts & (variances <= variances[starts].min() + _EQUAL)))
    gap = np.remainder(turned[first] - turned[first - 1], 1.0) if len(x) > 1 else 1.0
    cut = turned[first] - 0.5 * (gap if gap > 0 else 1.0)
    return float((cut - np.floor(means[first])) * period)


def _resolve_resolution(
    resolution: Any, X: np.ndarray, weights: np.ndarray | None, columns: np.ndarray
) -> np.ndarray:
    """Return the unit of every feature, 0 for features whose values are exact.

    ``columns`` (n_features, n_samples) are the values of every feature in ascending order.
    """
    n_features = X.shape[1]
    if resolution is None:
        return np.zeros(n_features)
    if isinstance(resolution, str) and resolution == "auto":
        return find_units(X, weights) if _has_ties(columns, weights) else np.zeros(n_features)
    try:
        units = np.array(resolution)
    except ValueError:  # a list of lists of several lengths
        units = np.array(None)
    if units.dtype.kind not in "iuf":
        raise TypeError(f"resolution must be {_RESOLUTION}, got {resolution!r:.60}")
    if not ((units >= 0) & (units < np.inf)).all():
        raise ValueError(f"resolution must be finite and not negative, got {resolution!r:.60}")
    if units.shape not in ((), (n_features,)):
        raise ValueError(
            f"resolution must be {_RESOLUTION}; there are {n_features} features, got shape "
            f"{units.shape}"
        )
    return np.full(n_features, units, dtype=np.float64)


def _has_ties(columns: np.ndarray, weights: np.ndarray | None) -> bool:
    """Whether some values of a feature may be equal; almost all continuous data have none."""
    if weights is not None and weights.max() > 1.0:
        return True
    largest = np.maximum(np.abs(columns[:, 0]), np.abs(columns[:, -1]))
    with np.errstate(over="ignore", invalid="ignore"):
        return bool((columns[:, 1:] - columns[:, :-1] <= _TIE * largest[:, None]).any())


def _count_copies(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the number of copies of distinct rows, and the number of samples of a copy.

    Weights are rounded to whole copies: half a copy would be held out beside its other half.
    """
    grain = max(1.0, float(weights.sum()) / _MOST_COPIES)
    counts = np.maximum(np.floor(weights / grain * (1 + _ROUNDING) + 0.5), 1.0)
    # Every distinct row has a copy, so that there may be more copies than the limit.
    is_thinned = bool((weights / counts > 1.5).any())
    return counts.astype(np.int64), grain if is_thinned else 1.0


def unit_of(X: np.ndarray, columns: np.ndarray | None = None) -> float:
    """Return the power of two next to the largest deviation from the middle of the range.

    If outliers are so far away that typical rows would lose digits in this unit, it is next to the
    deviation of a typical row. ``columns`` (n_features, n_samples) are the values of every feature
    in ascending order.
    """
    columns = np.sort(X.T, axis=1) if columns is None else columns
    ranges = 0.5 * columns[:, -1] - 0.5 * columns[:, 0]
    widest = int(ranges.argmax())
    largest = float(ranges[widest])
    if largest == 0:
        return 1.0
    # The distance between the quartiles of one feature is enough, unless it is small.
    quarter = len(X) // 4
    typical = float(0.5 * columns[widest, -1 - quarter] - 0.5 * columns[widest, quarter])
    if typical * _FAR < largest < _LARGEST:
        deviations = np.abs(X - np.quantile(X, 0.5, axis=0, method="lower")).max(axis=1)
        typical = float(np.quantile(deviations[deviations > 0], 0.5, method="lower"))
    return balanced_unit(typical, largest)


def balanced_unit(typical: float, largest: float) -> float:
    """Return a power of two in which neither typical nor the largest deviations lose digits."""
    if not 1 / _LARGEST < largest < _LARGEST:
        raise ValueError(
            f"X has a spread of {largest:.3g}, beyond what kernels can represent; measure it in a "
            "unit nearer to its spread"
        )
    if typical * _FAR >= largest:
        return ldexp(1.0, frexp(largest)[1])
    if typical * _SQUARABLE < largest:  # then squares are within the range of floats at both ends
        typical = sqrt(typical) * sqrt(largest)
    return ldexp(1.0, frexp(typical)[1])


def canonical_features(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the features in an order that follows from their values alone.

    They are sorted by moments that neither origin, unit, direction nor the order of features and
    rows changes: by their skewness and, where that is equal but for rounding, by moments of higher
    order and joint moments. Features with equal moments keep the given order.
    """
    apart = X - X[0]
    sizes = np.abs(apart, order="F").max(axis=0)
    apart /= np.where(sizes > 0, sizes, 1.0)
    shares = weights / weights.sum()
    apart -= shares @ apart
    squares = apart * apart
    stds = np.sqrt(shares @ squares)
    stds[stds <= _EQUAL] = 1.0
    skewness = np.abs(shares @ (squares * apart)) / stds**3
    order = np.argsort(skewness, kind="stable")
    ordered = skewness[order]
    if (ordered[1:] - ordered[:-1] > _EQUAL).all():
        return order
    squares /= stds**2
    lengths = squares.sum(axis=1)
    keys = [
        skewness,
        shares @ squares**2,
        (shares * lengths) @ squares,
        (shares * lengths**2) @ squares,
        np.abs((shares * lengths) @ (squares * apart)) / stds,
        shares @ squares**3,
    ]
    ranks = np.stack([_ranks(key) for key in keys])
    return np.lexsort(ranks[::-1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of values; values that differ by rounding only have one rank."""
    order = np.argsort(values, kind="stable")
    steps = np.diff(values[order]) > _EQUAL * (1 + np.abs(values[order[1:]]))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.append(0, np.cumsum(steps))
    return ranks


def _clear_order(X: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """Return the order of rows by their distance to the mean, None if some are nearly equal.

    Then no two rows are equal, and features need no canonical order.
    """
    distance = _distances_to_mean(X, weights)
    order = distance.argsort()
    ascending = distance[order]
    is_clear = ascending[1:] - ascending[:-1] > _CLEAR * ascending[1:]
    return order if is_clear.all() else None


def _join_equal_rows(
    X: np.ndarray, weights: np.ndarray, unit: float, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ``rows``, ``of_rows``, ``weights`` and ``middles`` of :class:`Points`."""
    order, is_new = _lexicographic(X[:, canonical_features(X, weights)], labels)
    starts, own = np.flatnonzero(is_new), weights[order]
    sums = np.add.reduceat(own, starts)
    by_distance = _by_distance(X[order[starts]] / unit, sums)
    rows = order[starts][by_distance]
    point = np.cumsum(is_new) - 1
    before = np.cumsum(own) - own
    of_rows, middles, place = np.empty_like(order), np.empty(len(X)), np.empty_like(rows)
    place[by_distance] = np.arange(len(rows))
    of_rows[order] = place[point]
    middles[order] = (before - before[starts][point]) + 0.5 * own
    return rows, of_rows, sums[by_distance], middles


def _lexicographic(X: np.ndarray, labels: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Sort rows by their columns, then by label; return the order and where a new row begins."""
    order = X[:, 0].argsort()
    first, is_new = X[order, 0], np.ones(len(X), dtype=bool)
    is_new[1:] = first[1:] != first[:-1]
    if not is_new.all():  # which is rare, and a sort by all columns takes longer
        keys = X.T[::-1] if labels is None else np.concatenate([labels[None], X.T[::-1]])
        order = np.lexsort(keys)
        ordered = keys[:, order]
        is_new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return order, is_new


def _by_distance(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the order of points by their distance to the mean; ties keep the given order."""
    # Distances that differ by rounding only are ties.
    mantissa, exponent = np.frexp(_distances_to_mean(X, weights))
    return _stable_order(np.ldexp(mantissa.round(_DIGITS), exponent))


def _stable_order(keys: np.ndarray) -> np.ndarray:
    """Sort keys; ties, which are rare, keep the given order, by a sort that takes longer."""
    order = keys.argsort()
    ordered = keys[order]
    is_strict = (ordered[1:] > ordered[:-1]).all()
    return order if is_strict else keys.argsort(kind="stable")


def _distances_to_mean(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the squared distances of points to their mean."""
    shares = weights / weights.max()
    centered = X - X[0]
    centered -= shares @ centered / shares.sum()
    return np.asarray(np.einsum("ij,ij->i", centered, centered))
