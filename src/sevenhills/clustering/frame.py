"""The points that are clustered: distinct, in one order and one unit of length."""

from dataclasses import dataclass
from math import frexp, ldexp, sqrt
from typing import NamedTuple

import numpy as np

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


class Copies(NamedTuple):
    """Samples as which distinct rows are spread.

    Attributes
    ----------
    points : ndarray of shape (n_copies,)
        The point of every copy.
    rows : ndarray of shape (n_copies,)
        The distinct row of every copy.
    weights : ndarray of shape (n_copies,)
    of_members : ndarray of shape (n_members,)
        The distinct row of every member of the frame.
    """

    points: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    of_members: np.ndarray

    def vote(self, labels: np.ndarray) -> np.ndarray:
        """Return one label for every member: that of most copies of its row.

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
        # Of two labels with as many copies it is the larger, which is never noise.
        best = np.lexsort((own, masses, rows))
        last = np.append(np.diff(rows[best]) != 0, True)
        return np.asarray(own[best][last][self.of_members])


@dataclass(frozen=True, eq=False)
class Frame:
    """How given rows are turned into the points that are clustered.

    The density must depend neither on the order of rows and features nor on the unit in which
    they are measured, and a row that is given three times is a row that weighs three. So rows are
    sorted lexicographically, by features in an order of their own, which fixes the mean to the
    bit; equal rows become one point, whose weight is the sum of theirs; points are sorted by their
    distance to the mean, which a rotation does not change; and they are measured in a power of two
    near their spread, which changes no digit but those that scikit-learn's absolute rounding of
    distances to 15 decimals would take away.

    Attributes
    ----------
    rows : ndarray of shape (n_points,)
        The first given row of every point.
    weights : ndarray of shape (n_points,)
        In multiples of ``grain``.
    unit : float
        The power of two by which coordinates are divided.
    members : ndarray of shape (n_members,)
        All given rows that weigh anything, one point after another.
    points : ndarray of shape (n_members,)
        The point of each of these.
    middles : ndarray of shape (n_members,)
        The middle of each of these, if the members of a point are laid out along its weight.
    n_given : int
        The number of given rows.
    features : ndarray of shape (n_features,)
        The features in an order that does not depend on the order in which they are given.
    grain : float
        The number of samples that clustering counts as one.
    copies : Copies or None
        Where the samples of rounded rows are; None if rows are where they were given.
    """

    rows: np.ndarray
    weights: np.ndarray
    unit: float
    members: np.ndarray
    points: np.ndarray
    middles: np.ndarray
    n_given: int
    features: np.ndarray
    grain: float = 1.0
    copies: Copies | None = None

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        weights: np.ndarray | None = None,
        start: str = "canonical",
        labels: np.ndarray | None = None,
    ) -> "Frame":
        """Return the frame of a data set.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        weights : ndarray of shape (n_samples,), optional
            How often every row counts; once by default.
        start : {"canonical", "first"}
            With "first", rows and unit stay as given.
        labels : ndarray of shape (n_samples,), optional
            Rows of different labels are different points.
        """
        given = np.ones(len(X)) if weights is None else weights
        kept = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
        weighing = X if len(kept) == len(X) else X[kept]
        unit = unit_of(weighing)
        if start == "first":
            unit = 1.0 if unit > 1 / _SQUARABLE and np.abs(weighing).max() < _SQUARABLE else unit
            return cls(
                kept,
                given[kept],
                unit,
                kept,
                np.arange(len(kept)),
                0.5 * given[kept],
                len(X),
                np.arange(X.shape[1]),
            )
        features = canonical_features(weighing, given[kept])
        ordered = weighing[:, features]
        members = kept[_lexicographic(ordered, None if labels is None else labels[kept])]
        same = _equals_previous(X[members])
        if labels is not None:
            same &= np.append(False, labels[members[1:]] == labels[members[:-1]])
        order, starts, total = _by_distance(X[members] / unit, given[members], same)
        if not same.any():
            members = members[order]
            middles = 0.5 * given[members]
            return cls(
                members, total, unit, members, np.arange(len(order)), middles, len(X), features
            )
        sizes = np.diff(np.append(starts, len(members)))[order]
        ends = np.cumsum(sizes)
        turned = np.arange(len(members)) + np.repeat(starts[order] - (ends - sizes), sizes)
        members, points = members[turned], np.repeat(np.arange(len(order)), sizes)
        return cls(
            rows=members[ends - sizes],
            weights=total,
            unit=unit,
            members=members,
            points=points,
            middles=_middles(given[members], ends - sizes, points),
            n_given=len(X),
            features=features,
        )

    def enter(self, X: np.ndarray) -> np.ndarray:
        """Return the points in the unit of the frame."""
        return X[self.rows] / self.unit

    def labels_of_rows(self, labels: np.ndarray, absent: int) -> np.ndarray:
        """Return the labels of points for the given rows.

        Rows that weigh nothing have the label ``absent``.
        """
        of_members = labels[self.points] if self.copies is None else self.copies.vote(labels)
        return self.to_given(of_members, absent)

    def to_given(self, values: np.ndarray, absent: float) -> np.ndarray:
        """Return values that belong to members in the order of the given rows.

        Rows that weigh nothing have the value ``absent``.
        """
        out = np.full(self.n_given, absent, dtype=values.dtype)
        out[self.members] = values
        return out


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


def _middles(weights: np.ndarray, firsts: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return where the middles of members lie in the weight of their point."""
    ends = np.cumsum(weights)
    begins = np.append(0.0, ends[:-1])[firsts]
    return ends - 0.5 * weights - begins[points]
