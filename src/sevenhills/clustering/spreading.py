"""Rounded rows, spread over the cells to which they were rounded.

A value ``v`` that is rounded to a unit ``u`` stands for anything between ``v - u/2`` and
``v + u/2``. So all samples that share a value are put at even distances over this interval, column
by column, in an order that looks random. The order follows from the ranks of the values alone: it
depends neither on the order of rows or columns nor on units.
"""

import numpy as np

from .frame import Copies, Frame

#: More samples than this are spread as this many, each of which then weighs more than one. That is
#: enough to fill the cells, and keeps a million equal rows cheap.
_MOST_SAMPLES = 30_000
#: A sum of weights may fall short of a number by this part.
_ROUNDING = 1e-9
#: Values of one column that differ by less than this, in units, are equal.
_SAME = 1e-6
#: Odd constants of the hash function SplitMix64.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


def lay_out(
    X: np.ndarray,
    weights: np.ndarray | None,
    units: np.ndarray,
    start: str = "canonical",
    labels: np.ndarray | None = None,
) -> tuple[np.ndarray, Frame]:
    """Return the points that are clustered: rows, spread over the cells of rounded values.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,), optional
        How often every row counts; once by default.
    units : ndarray of shape (n_features,)
        The widths of the cells, 0 for columns that stay as they are.
    start, labels
        See :meth:`Frame.of`.

    Returns
    -------
    points : ndarray of shape (n_points, n_features)
        In the unit of the frame.
    frame : Frame
        Its weights are counted in ``frame.grain``.
    """
    if not units.any():
        frame = Frame.of(X, weights, start, labels)
        return frame.enter(X), frame
    distinct = Frame.of(X, weights, labels=labels)
    counts, grain = _counts(distinct.weights)
    sequence = np.argsort(distinct.rows) if start == "first" else np.arange(len(counts))
    rows = np.repeat(sequence, counts[sequence])
    firsts = np.empty_like(counts)
    firsts[sequence] = np.cumsum(counts[sequence]) - counts[sequence]
    masses = (distinct.weights / counts)[rows]

    of_points = X[distinct.rows]
    own_labels = None if labels is None else labels[distinct.rows]
    numbers = np.arange(len(rows)) - firsts[rows]
    keys = _keys(of_points, counts, units, own_labels)
    places = _spread(of_points, units, keys, rows, numbers, masses)
    frame = Frame.of(
        places, masses / grain, start, None if own_labels is None else own_labels[rows]
    )

    where = np.empty_like(rows)
    where[frame.members] = np.arange(len(rows))
    of_members, parts = distinct.points, counts[distinct.points]
    part = distinct.middles / distinct.weights[of_members] * parts
    own = where[firsts[of_members] + np.minimum(part.astype(np.int64), parts - 1)]
    return frame.enter(places), Frame(
        rows=distinct.rows[rows[frame.rows]],
        weights=frame.weights,
        unit=frame.unit,
        members=distinct.members,
        points=frame.points[own],
        middles=frame.middles[own],
        n_given=len(X),
        features=frame.features,
        grain=grain,
        copies=Copies(frame.points[where], rows, masses, of_members),
    )


def _counts(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the number of copies of distinct rows, and how many samples a copy stands for.

    Weights are rounded to whole copies: half a copy would be held out beside its other half.
    """
    grain = max(1.0, float(weights.sum()) / _MOST_SAMPLES)
    counts = np.maximum(np.floor(weights / grain * (1 + _ROUNDING) + 0.5), 1.0)
    # Rows that differ are not joined, so that there may be more copies than that.
    is_thinned = bool((weights / counts > 1.5).any())
    return counts.astype(np.int64), grain if is_thinned else 1.0


def _keys(
    X: np.ndarray, counts: np.ndarray, units: np.ndarray, labels: np.ndarray | None
) -> np.ndarray:
    """Return a hash for every feature of every distinct row.

    A feature is known by its values, not by its place, and a cluster by its rows, not by its label.
    Features that have the same ranks have the same hashes.

    Returns
    -------
    ndarray of shape (n_features, n_rows)
    """
    ranks = np.stack([_ranks(x, unit) for x, unit in zip(X.T, units, strict=True)])
    hashes = _mixed(ranks)
    keys = _mixed(hashes + hashes.sum(axis=1, keepdims=True)).sum(axis=0)
    keys = _mixed(keys + _mixed(counts))
    if labels is not None:
        groups = np.unique(labels, return_inverse=True)[1]
        sums = np.zeros(groups.max() + 1, dtype=np.uint64)
        np.add.at(sums, groups, keys)
        keys = _mixed(keys + sums[groups])
    of_features = _mixed(keys + hashes)
    return _mixed(of_features + of_features.sum(axis=1, keepdims=True))


def _spread(
    X: np.ndarray,
    units: np.ndarray,
    keys: np.ndarray,
    rows: np.ndarray,
    numbers: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the places of copies.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Distinct rows.
    units : ndarray of shape (n_features,)
    keys : ndarray of shape (n_features, n_rows)
    rows, numbers : ndarray of shape (n_copies,)
        The row of every copy, and its number among the copies of the row.
    weights : ndarray of shape (n_copies,)
    """
    out = X[rows]
    steps = numbers.astype(np.uint64) * _STEP
    for j in np.flatnonzero(units):
        cells = _ranks(X[:, j], units[j])[rows]
        order = np.lexsort((_mixed(keys[j][rows] + steps), cells))
        out[order, j] += units[j] * _offsets(cells[order], weights[order])
    return out


def _ranks(x: np.ndarray, unit: float) -> np.ndarray:
    """Return the ranks of values, the same for values that are equal to a small part of a unit."""
    order = np.argsort(x, kind="stable")
    ranks = np.empty(len(x), dtype=np.uint64)
    ranks[order] = np.append(0, np.cumsum(np.diff(x[order]) > _SAME * unit))
    return ranks


def _offsets(cells: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return places between -1/2 and 1/2, in order, for samples that are sorted by cells."""
    starts = np.flatnonzero(np.append(True, np.diff(cells) != 0))
    sizes = np.diff(np.append(starts, len(cells)))
    ends = np.cumsum(weights)
    before = np.repeat(np.append(0.0, ends)[starts], sizes)
    total = np.repeat(np.add.reduceat(weights, starts), sizes)
    return np.asarray((ends - 0.5 * weights - before) / total - 0.5)


def _mixed(keys: np.ndarray) -> np.ndarray:
    """Return hashes of whole numbers, by SplitMix64."""
    keys = keys.astype(np.uint64) + _STEP
    for shift, factor in _FACTORS:
        keys = (keys ^ (keys >> np.uint64(shift))) * factor
    return np.asarray(keys ^ (keys >> np.uint64(31)))
