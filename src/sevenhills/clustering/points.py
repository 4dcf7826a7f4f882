"""Samples as the points that are clustered.

The density must depend neither on the order of rows and features nor on the unit of length, and a
row of weight three must count as three equal rows. :class:`Points` hides all of that from the
recipes: rows become distinct points with weights, in a canonical order and a canonical unit, and
labels, orderings and candidates of points are translated back to the given rows.
"""

from collections import Counter
from dataclasses import dataclass, replace
from math import frexp, ldexp, sqrt
from typing import Any, NamedTuple

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
#: Digits of distances that are more than rounding.
_DIGITS = 12
#: A sum of weights may fall short of a whole number by this fraction.
_ROUNDING = 1e-9
#: Largest number of pieces of a point; see :meth:`Points.split`.
_MOST_PIECES = 4
#: More samples than this are spread as this many copies, each of which then weighs more than one.
#: That is enough to fill the cells, and keeps a million equal rows cheap.
_MOST_COPIES = 30_000
#: Values that differ by this fraction of the largest or less may be equal.
_TIE = 1e-15
#: The kinds of resolution, for messages.
_RESOLUTION = "'auto', None, a number or one number for each feature"


class RowClusters(NamedTuple):
    """Clusters of the given rows.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,)
        The cluster of every row; -1 for noise, and for rows of weight zero.
    counts : Counter
        The number of rows of every label, without rows of weight zero.
    ordering : Ordering or None
    candidates : Candidates or None
    """

    labels: np.ndarray
    counts: Counter[int]
    ordering: Ordering | None
    candidates: Candidates | None


class _Copies(NamedTuple):
    """Copies of distinct rows, spread over the cells to which their values were rounded.

    Attributes
    ----------
    points : ndarray of shape (n_copies,)
        The point of every copy.
    rows : ndarray of shape (n_copies,)
        The distinct row of every copy.
    weights : ndarray of shape (n_copies,)
    of_members : ndarray of shape (n_members,)
        The distinct row of every member.
    """

    points: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    of_members: np.ndarray

    def vote(self, labels: np.ndarray) -> np.ndarray:
        """Return one label for every member: the label of most copies of its row.

        Parameters
        ----------
        labels : ndarray of shape (n_points,)
        """
        own = labels[self.points]
        order = np.lexsort((own, self.rows))
        rows, own = self.rows[order], own[order]
        starts = np.flatnonzero(np.append(True, (np.diff(rows) != 0) | (np.diff(own) != 0)))
        masses = np.add.reduceat(self.weights[order], starts)
        masses = (masses / masses.max()).round(_DIGITS)
        rows, own = rows[starts], own[starts]
        # Of two labels with equally many copies the larger wins, which is never noise.
        best = np.lexsort((own, masses, rows))
        last = np.append(np.diff(rows[best]) != 0, True)
        return np.asarray(own[best][last][self.of_members])


@dataclass(frozen=True, eq=False)
class Points:
    """Distinct samples with weights, in a canonical order and unit.

    Rows are sorted lexicographically, by features in an order of their own, which fixes the mean
    to the bit. Equal rows become one point, whose weight is the sum of theirs. Points are sorted
    by their distance to the mean, which a rotation does not change, and measured in a power of two
    near their spread, which changes no digit but those that scikit-learn's absolute rounding of
    distances to 15 decimals would take away.

    Attributes
    ----------
    X : ndarray of shape (n_points, n_features)
        In multiples of ``unit``.
    weights : ndarray of shape (n_points,)
        In multiples of ``grain``.
    labels : ndarray of shape (n_points,)
        The cluster of every point, -1 being noise.
    unit : float
        A power of two, in data units.
    grain : float
        The number of samples that clustering counts as one.
    features : ndarray of shape (n_features,)
        The features in an order that does not depend on the given order.
    resolution : ndarray of shape (n_features,)
        The unit to which every feature is rounded, 0 where values are exact.
    n_rows : int
        The number of given rows.
    n_samples : float
        The sum of the given weights.
    rows : ndarray of shape (n_points,)
        The first given row of every point.
    members : ndarray of shape (n_members,)
        All given rows of positive weight, one point after another.
    of_members : ndarray of shape (n_members,)
        The point of every member.
    middles : ndarray of shape (n_members,)
        The middle of every member, if the members of a point are laid out along its weight.
    copies : _Copies or None
        The copies of rounded rows; None if rows are where they were given.
    whole : ndarray of shape (n_points,) or None
        The point of every piece, if points are split into pieces.
    ordering : Ordering or None
    candidates : Candidates or None
    """

    X: np.ndarray
    weights: np.ndarray
    labels: np.ndarray
    unit: float
    grain: float
    features: np.ndarray
    resolution: np.ndarray
    n_rows: int
    n_samples: float
    rows: np.ndarray
    members: np.ndarray
    of_members: np.ndarray
    middles: np.ndarray
    copies: _Copies | None = None
    whole: np.ndarray | None = None
    ordering: Ordering | None = None
    candidates: Candidates | None = None

    @classmethod
    def from_samples(
        cls,
        X: np.ndarray,
        weights: np.ndarray | None = None,
        resolution: Any = None,
        start: str = "canonical",
        labels: np.ndarray | None = None,
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
        """
        units = _resolve_resolution(resolution, X, weights)
        if not units.any():
            return cls._from_exact(X, weights, start, labels)
        return cls._from_rounded(X, weights, units, start, labels)

    @classmethod
    def _from_exact(
        cls, X: np.ndarray, weights: np.ndarray | None, start: str, labels: np.ndarray | None
    ) -> "Points":
        """Return the points of rows that stay where they are."""
        given = np.ones(len(X)) if weights is None else weights
        kept = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
        weighing = X if len(kept) == len(X) else X[kept]
        unit = unit_of(weighing)
        features = np.arange(X.shape[1])
        if start == "first":
            unit = 1.0 if unit > 1 / _SQUARABLE and np.abs(weighing).max() < _SQUARABLE else unit
            rows = members = kept
            sums, of_members, middles = given[kept], np.arange(len(kept)), 0.5 * given[kept]
        else:
            features = canonical_features(weighing, given[kept])
            order = _lexicographic(weighing[:, features], None if labels is None else labels[kept])
            members = kept[order]
            same = _equals_previous(X[members])
            if labels is not None:
                same &= np.append(False, labels[members[1:]] == labels[members[:-1]])
            order, starts, sums = _by_distance(X[members] / unit, given[members], same)
            members, firsts, of_members = _gathered(members, order, starts)
            rows = members[firsts]
            middles = _middles(given[members], firsts, of_members)
        return cls(
            X=X[rows] / unit,
            weights=sums,
            labels=np.zeros(len(rows), dtype=np.int64) if labels is None else labels[rows],
            unit=unit,
            grain=1.0,
            features=features,
            resolution=np.zeros(X.shape[1]),
            n_rows=len(X),
            n_samples=len(X) if weights is None else float(weights.sum()),
            rows=rows,
            members=members,
            of_members=of_members,
            middles=middles,
        )

    @classmethod
    def _from_rounded(
        cls,
        X: np.ndarray,
        weights: np.ndarray | None,
        units: np.ndarray,
        start: str,
        labels: np.ndarray | None,
    ) -> "Points":
        """Return the points of rows that are spread over the cells of rounded values."""
        distinct = cls._from_exact(X, weights, "canonical", labels)
        counts, grain = _count_copies(distinct.weights)
        sequence = np.argsort(distinct.rows) if start == "first" else np.arange(len(counts))
        rows = np.repeat(sequence, counts[sequence])
        firsts = np.empty_like(counts)
        firsts[sequence] = np.cumsum(counts[sequence]) - counts[sequence]
        masses = (distinct.weights / counts)[rows]
        numbers = np.arange(len(rows)) - firsts[rows]
        given = None if labels is None else distinct.labels
        places = spread(X[distinct.rows], counts, units, given, rows, numbers, masses)
        spread_points = cls._from_exact(
            places, masses / grain, start, None if given is None else given[rows]
        )

        where = np.empty_like(rows)
        where[spread_points.members] = np.arange(len(rows))
        of_members, parts = distinct.of_members, counts[distinct.of_members]
        part = distinct.middles / distinct.weights[of_members] * parts
        own = where[firsts[of_members] + np.minimum(part.astype(np.int64), parts - 1)]
        return replace(
            spread_points,
            grain=grain,
            resolution=units,
            n_rows=distinct.n_rows,
            n_samples=distinct.n_samples,
            rows=distinct.rows[rows[spread_points.rows]],
            members=distinct.members,
            of_members=spread_points.of_members[own],
            middles=spread_points.middles[own],
            copies=_Copies(spread_points.of_members[where], rows, masses, of_members),
        )

    @property
    def n_counted(self) -> float:
        """The number of samples that clustering counts, not below a whole number by rounding."""
        return float(self.weights.sum()) * (1 + _ROUNDING)

    def split(self) -> "Points":
        """Return the points with those of more than one sample in pieces.

        A point of weight k is k samples at one place. OPTICS reaches one of them first and all
        the others later, one after another, from the same place at the same height; in between,
        it may take other points at the same distance. A cut may begin with the last sample of
        such a row, or end with its first. So four pieces are enough: the sample that is reached
        first, the first and the last of the others, and all those between.
        """
        if self.weights.max() <= 1.0:
            return self
        counts = np.clip(np.ceil(self.weights), 1, _MOST_PIECES).astype(np.int64)
        whole = np.repeat(np.arange(len(counts)), counts)
        firsts = np.cumsum(counts) - counts
        weights = np.ones(len(whole))
        weights[firsts + np.where(counts == _MOST_PIECES, 2, counts - 1)] = self.weights - (
            counts - 1
        )
        return replace(
            self,
            X=self.X[whole],
            weights=weights,
            labels=self.labels[whole],
            rows=self.rows[whole],
            of_members=firsts[self.of_members] + self._pieces_of_members(counts),
            whole=whole,
        )

    def _pieces_of_members(self, counts: np.ndarray) -> np.ndarray:
        """Return the number of the piece that contains the middle of every member."""
        weights = self.weights[self.of_members]
        steps = (self.middles >= 1.0).astype(np.int64) + (self.middles >= 2.0)
        steps += (self.middles >= weights - 1.0) & (weights > _MOST_PIECES - 1)
        return np.minimum(steps, counts[self.of_members] - 1)

    def clustered(self, ordering: Ordering, candidates: Candidates) -> "Points":
        """Return the points with the labels of the chosen candidate."""
        return replace(self, labels=candidates.labels(), ordering=ordering, candidates=candidates)

    def joined(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Put pieces of one point and one label together again.

        Returns
        -------
        X : ndarray of shape (n_joined, n_features)
        labels, weights : ndarray of shape (n_joined,)
            Weights are numbers of samples.
        """
        whole, labels = self.whole, self.labels
        if whole is None:
            return self.X, labels, self.weights * self.grain
        alike = (whole[1:] == whole[:-1]) & (labels[1:] == labels[:-1])
        starts = np.flatnonzero(np.append(True, ~alike))
        return self.X[starts], labels[starts], np.add.reduceat(self.weights, starts) * self.grain

    def whole_labels(self) -> np.ndarray:
        """Return one label for every point, that of its heaviest piece."""
        if self.whole is None:
            return self.labels
        order = np.lexsort((-self.weights, self.whole))
        firsts = np.flatnonzero(np.append(True, np.diff(self.whole) > 0))
        return self.labels[order[firsts]]

    def row_labels(self) -> np.ndarray:
        """Return the labels of the given rows, -1 for rows of weight zero."""
        if self.copies is None:
            return self._to_rows(self.labels[self.of_members], NOISE)
        return self._to_rows(self.copies.vote(self.whole_labels()), NOISE)

    def _to_rows(self, values: np.ndarray, absent: float) -> np.ndarray:
        """Return values of members for the given rows, ``absent`` for rows of weight zero."""
        out = np.full(self.n_rows, absent, dtype=values.dtype)
        out[self.members] = values
        return out

    def row_clusters(self) -> RowClusters:
        """Return the clusters in terms of the given rows and data units."""
        labels = self.row_labels()
        counts = Counter(labels[self.members].tolist())
        if self.ordering is None or self.candidates is None:
            return RowClusters(labels, counts, None, None)
        position = np.empty(len(self.X), dtype=np.int64)
        position[self.ordering.order] = np.arange(len(position))
        places = position[self.of_members]
        order = self.members[np.argsort(places, kind="stable")]
        if len(order) < self.n_rows:
            absent = np.setdiff1d(np.arange(self.n_rows), self.members, assume_unique=True)
            order = np.concatenate([order, absent])
        n_rows_at = np.bincount(places, minlength=len(position))
        return RowClusters(
            labels,
            counts,
            self._row_ordering(self.ordering, order),
            self._row_candidates(self.candidates, n_rows_at, order),
        )

    def _row_ordering(self, ordering: Ordering, order: np.ndarray) -> Ordering:
        own = self.of_members
        sent = ordering.predecessor[own]
        return Ordering(
            order=order,
            reachability=self._to_rows(ordering.reachability[own] * self.unit, np.inf),
            core_distances=self._to_rows(ordering.core_distances[own] * self.unit, np.inf),
            predecessor=self._to_rows(np.where(sent < 0, -1, self.rows[sent]), -1),
            n_neighbors=ordering.n_neighbors,
        )

    def _row_candidates(
        self, candidates: Candidates, n_rows_at: np.ndarray, order: np.ndarray
    ) -> Candidates:
        """Return candidates of rows, of which every place in the ordering has some or none."""
        units = np.where(candidates.rules == "dbscan", self.unit, 1.0)
        partitions = candidates.partitions
        if len(order) > len(n_rows_at) or not (n_rows_at == 1).all():
            partitions = partitions.resized(n_rows_at, n_behind=len(order) - len(self.members))
        return replace(
            candidates,
            parameters=candidates.parameters * units,
            partitions=partitions,
            order=order,
        )


def find_clusters(points: Points, n_jobs: int | None = None) -> Points:
    """Cluster points as ``ROME`` does with its default parameters."""
    if points.n_counted < FEWEST_TO_CLUSTER:
        return points
    points, k = points.split(), neighbors_for(points.n_counted, points.X.shape[1])
    ordering = order_by_reachability(points.X, k, points.weights)
    cuts = cut(ordering, weights=points.weights)
    scores = score(points.X, cuts, weights=points.weights, n_jobs=n_jobs)
    return points.clustered(ordering, choose(cuts, scores))


def check_resolution(resolution: Any) -> None:
    """Refuse a resolution that no samples could have."""
    if resolution is None or (isinstance(resolution, str) and resolution == "auto"):
        return
    try:
        units = np.array(resolution)
    except ValueError:  # a list of lists of several lengths
        units = np.array(None)
    if units.dtype.kind not in "iuf":
        raise TypeError(f"resolution must be {_RESOLUTION}, got {resolution!r:.60}")
    if not ((units >= 0) & (units < np.inf)).all():
        raise ValueError(f"resolution must be finite and not negative, got {resolution!r:.60}")


def _resolve_resolution(resolution: Any, X: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the unit of every feature, 0 for features whose values are exact."""
    n_features = X.shape[1]
    if resolution is None:
        return np.zeros(n_features)
    if isinstance(resolution, str):
        return find_units(X, weights) if _has_ties(X, weights) else np.zeros(n_features)
    units = np.asarray(resolution, dtype=np.float64)
    if units.shape not in ((), (n_features,)):
        raise ValueError(
            f"resolution must be {_RESOLUTION}; there are {n_features} features, got shape "
            f"{units.shape}"
        )
    return np.broadcast_to(units, n_features).copy()


def _has_ties(X: np.ndarray, weights: np.ndarray | None) -> bool:
    """Whether some values of a feature may be equal; almost all continuous data have none."""
    if weights is not None and weights.max() > 1.0:
        return True
    columns = np.sort(X.T, axis=1)
    largest = np.maximum(np.abs(columns[:, 0]), np.abs(columns[:, -1]))
    with np.errstate(over="ignore", invalid="ignore"):
        return bool((np.diff(columns) <= _TIE * largest[:, None]).any())


def _count_copies(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the number of copies of distinct rows, and the number of samples of a copy.

    Weights are rounded to whole copies: half a copy would be held out beside its other half.
    """
    grain = max(1.0, float(weights.sum()) / _MOST_COPIES)
    counts = np.maximum(np.floor(weights / grain * (1 + _ROUNDING) + 0.5), 1.0)
    # Rows that differ are not joined, so that there may be more copies than that.
    is_thinned = bool((weights / counts > 1.5).any())
    return counts.astype(np.int64), grain if is_thinned else 1.0


def unit_of(X: np.ndarray) -> float:
    """Return the power of two next to the largest deviation from the middle of the range.

    If outliers are so far away that the others would lose digits in it, it is next to the
    deviation of a typical row.
    """
    ranges = 0.5 * X.max(axis=0) - 0.5 * X.min(axis=0)
    widest = int(ranges.argmax())
    largest = float(ranges[widest])
    if largest == 0:
        return 1.0
    # Half of the values lie between the quartiles; where they do so widely, there is no need to
    # look at all features.
    quarter = len(X) // 4
    values = np.partition(X[:, widest], [quarter, len(X) - 1 - quarter])
    typical = float(0.5 * values[len(X) - 1 - quarter] - 0.5 * values[quarter])
    if typical * _FAR < largest < _LARGEST:
        typical = _typical_deviation(X)
    return balanced_unit(typical, largest)


def _typical_deviation(X: np.ndarray) -> float:
    """Return the median of the largest deviations of rows from the medians of features."""
    deviations = np.abs(X - np.quantile(X, 0.5, axis=0, method="lower")).max(axis=1)
    return float(np.quantile(deviations[deviations > 0], 0.5, method="lower"))


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
    order and joint moments. Features that none of these tells apart keep the given order.
    """
    apart = X - X[0]
    sizes = np.abs(apart).max(axis=0)
    apart /= np.where(sizes > 0, sizes, 1.0)
    shares = weights / weights.sum()
    apart -= shares @ apart
    squares = apart * apart
    stds = np.sqrt(shares @ squares)
    stds[stds <= _EQUAL] = 1.0
    skewness = np.abs(shares @ (squares * apart)) / stds**3
    order = np.argsort(skewness, kind="stable")
    if (np.diff(skewness[order]) > _EQUAL).all():
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
    """Return the ranks of values; those that differ by rounding only have one rank."""
    order = np.argsort(values, kind="stable")
    steps = np.diff(values[order]) > _EQUAL * (1 + np.abs(values[order[1:]]))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.append(0, np.cumsum(steps))
    return ranks


def _lexicographic(X: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Sort rows by the first column, then the second, and so on, and by their labels."""
    rows = np.argsort(X[:, 0], kind="stable")
    first = X[rows, 0]
    if (first[1:] == first[:-1]).any():
        keys = X.T[::-1] if labels is None else np.concatenate([labels[None], X.T[::-1]])
        rows = np.lexsort(keys)
    return rows


def _equals_previous(X: np.ndarray) -> np.ndarray:
    """Return whether a row is the one before it."""
    same = np.zeros(len(X), dtype=bool)
    same[1:] = X[1:, 0] == X[:-1, 0]
    if same.any():  # which is rare, and all features take longer
        same[1:] = (X[1:] == X[:-1]).all(axis=1)
    return same


def _by_distance(
    X: np.ndarray, weights: np.ndarray, same: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order distinct rows by their distance to the mean.

    Returns
    -------
    order : ndarray of shape (n_points,)
    starts : ndarray of shape (n_points,)
        The first row of every point, before they are ordered.
    weights : ndarray of shape (n_points,)
        The weights of the points in order.
    """
    starts = np.flatnonzero(~same)
    if len(starts) < len(X):
        X, weights = X[starts], np.add.reduceat(weights, starts)
    shares = weights / weights.max()
    centred = X - X[0]
    centred -= (centred * shares[:, None]).sum(axis=0) / shares.sum()
    distance = np.einsum("ij,ij->i", centred, centred)
    # Points at one distance stay in lexicographic order, whatever rounding says.
    mantissa, exponent = np.frexp(distance)
    order = np.ldexp(mantissa.round(_DIGITS), exponent).argsort(kind="stable")
    return order, starts, weights[order]


def _gathered(
    members: np.ndarray, order: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the members point by point, the first member of each point, and members' points."""
    if len(starts) == len(members):
        return members[order], np.arange(len(order)), np.arange(len(order))
    sizes = np.diff(np.append(starts, len(members)))[order]
    firsts = np.cumsum(sizes) - sizes
    turned = np.arange(len(members)) + np.repeat(starts[order] - firsts, sizes)
    return members[turned], firsts, np.repeat(np.arange(len(order)), sizes)


def _middles(weights: np.ndarray, firsts: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return where the middles of members lie in the weight of their point."""
    if len(firsts) == len(weights):
        return 0.5 * weights
    ends = np.cumsum(weights)
    begins = np.append(0.0, ends[:-1])[firsts]
    return ends - 0.5 * weights - begins[points]
