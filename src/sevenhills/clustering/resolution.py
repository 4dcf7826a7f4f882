"""Columns of rounded values: the unit of rounding, and samples spread over it.

Rounded values lie on a lattice of some unit, and many rows share neighboring places of the lattice.
Copies of continuous values repeat, but have no common unit; decimals that are finer than the
distance between samples have a unit, but it does not matter.

A value ``v`` that is rounded to a unit ``u`` stands for anything between ``v - u/2`` and
``v + u/2``. So all samples that share a value are put at even distances over this interval, column
by column, in an order that looks random. The order follows from the ranks of the values alone: it
depends neither on the order of rows or columns nor on units.
"""

import numpy as np

#: Columns with fewer distinct values are codes, such as classes, weekdays or seven-point scales.
_LEAST_VALUES = 8
#: Lower limit on the effective number of values, the inverse of the probability that two rows are
#: equal. It is 3.2 for counts of mean 1, and 7.9 for counts of mean 5; fewer values are classes.
_LEAST_EFFECTIVE = 5
#: The share of the rows whose value must occur more than once. With fewer ties, the samples are
#: farther apart than the unit.
_LEAST_TIED = 0.5
#: The share of the rows that must lie on the lattice; half years among ages may be off it.
_LEAST_ON_LATTICE = 0.9
#: The share of the distinct values that must lie on it, however few rows have the others.
_LEAST_VALUES_ON_LATTICE = 0.3
#: The share of the rows whose value must be next to another on the lattice.
_LEAST_ADJACENT = 0.5
#: Values this close to the lattice, in units, lie on it. Decimals are not exact in floats.
_OFF_LATTICE = 0.02
#: Values that differ by this many machine epsilons of the largest one are equal.
_EPSILONS = 2
#: The number of common gaps that are tried as units.
_MOST_CANDIDATES = 3
#: Values are rare if they have less than this part of the rows of a common one.
_RARE = 0.25
#: The share of the gaps between neighboring values that must be one unit wide.
_LEAST_COMMON = 0.2
#: Digits of a unit that are more than rounding.
_DIGITS = 12
#: Values of this weight stand for more than one sample.
_TIED = 1.5
#: Values of one column that differ by less than this, in units, are equal.
_SAME = 1e-6
#: Odd constants of the hash function SplitMix64.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


def find_units(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the unit to which every column of samples is rounded, 0 if it is not rounded.

    A column is rounded if it has enough distinct values to be no code, half of its rows share
    their value with another row, nine in ten rows lie on a lattice, and half of them are next to
    another value on the lattice. The most common value counts only as much as the second most
    common one, so that many zeros decide nothing. The coarsest of several valid units is returned.
    ``weights`` are the numbers of samples that rows stand for.
    """
    units = np.zeros(X.shape[1])
    if weights is not None and not weights.all():
        X, weights = X[weights > 0], weights[weights > 0]
    if len(X) < _LEAST_VALUES:
        return units
    with np.errstate(over="ignore", invalid="ignore"):
        for j in _tied_columns(X, weights):
            units[j] = _unit(*_distinct(X[:, j], weights))
    return units


def _tied_columns(X: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the columns in which enough samples may share their value with another."""
    if weights is not None and weights.max() >= _TIED:
        return np.arange(X.shape[1])
    columns = np.sort(X.T, axis=1)
    n_pairs = (np.diff(columns) <= _tolerance(columns)[:, None]).sum(axis=1)
    return np.flatnonzero(2 * n_pairs >= (1 if weights is not None else _LEAST_TIED * len(X)))


def _tolerance(ascending: np.ndarray) -> np.ndarray:
    """Return the largest difference between equal values."""
    largest = np.maximum(np.abs(ascending[..., 0]), np.abs(ascending[..., -1]))
    return np.asarray(_EPSILONS * np.finfo(np.float64).eps * largest)


def _distinct(x: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of a column in ascending order, and their weights."""
    order = np.argsort(x, kind="stable")
    values = x[order]
    starts = np.flatnonzero(np.append(True, np.diff(values) > _tolerance(values)))
    sums = np.add.reduceat(np.ones(len(x)) if weights is None else weights[order], starts)
    return values[starts], sums


def _unit(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the unit of ascending values, 0 if they have none."""
    if len(values) < _LEAST_VALUES:
        return 0.0
    weights = np.minimum(weights, np.partition(weights, -2)[-2])
    total = weights.sum()
    if weights[weights >= _TIED].sum() < _LEAST_TIED * total:
        return 0.0
    shares = weights / total
    if shares @ shares * _LEAST_EFFECTIVE > 1:
        return 0.0
    # Rare values, such as half years, may stand between all others.
    common = shares >= _RARE * (shares @ shares)
    gaps = {*_common_gaps(values, shares), *_common_gaps(values[common], shares[common])}
    units = (_lattice_unit(values, shares, *each) for each in sorted(gaps, reverse=True))
    return next((unit for unit in units if unit > 0), 0.0)


def _common_gaps(values: np.ndarray, shares: np.ndarray) -> list[tuple[float, float]]:
    """Return the most common gaps between neighbors, each with a value next to it."""
    gaps, lighter = np.diff(values), np.minimum(shares[1:], shares[:-1])
    order = np.argsort(gaps, kind="stable")
    ascending = gaps[order]
    starts = np.flatnonzero(np.append(True, ascending[1:] > ascending[:-1] * (1 + _OFF_LATTICE)))
    ends = np.append(starts[1:], len(gaps))
    common = np.argsort(-np.add.reduceat(lighter[order], starts), kind="stable")
    found = []
    for i in common[:_MOST_CANDIDATES]:
        group = order[starts[i] : ends[i]]
        if len(group) >= _LEAST_COMMON * len(gaps):
            at = values[group[lighter[group].argmax()]]
            found.append((float(gaps[group].mean()), float(at)))
    return found


def _lattice_unit(values: np.ndarray, shares: np.ndarray, unit: float, origin: float) -> float:
    """Return the unit of the lattice through an origin, more exactly, or 0 if there is none."""
    places = (values - origin) / unit
    whole = np.rint(places)
    on = np.abs(places - whole) <= _OFF_LATTICE
    if on.sum() < max(_LEAST_VALUES, _LEAST_VALUES_ON_LATTICE * len(values)):
        return 0.0
    values, whole, shares = values[on], whole[on], shares[on]
    steps = np.diff(whole) == 1
    adjacent = np.append(False, steps) | np.append(steps, False)
    if shares.sum() < _LEAST_ON_LATTICE or shares[adjacent].sum() < _LEAST_ADJACENT:
        return 0.0
    return float(f"{(values[-1] - values[0]) / (whole[-1] - whole[0]):.{_DIGITS}g}")


def spread(
    X: np.ndarray,
    counts: np.ndarray,
    units: np.ndarray,
    labels: np.ndarray | None,
    rows: np.ndarray,
    numbers: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Spread copies of rows evenly over the cells to which their values were rounded.

    ``counts`` (n_rows,) are the numbers of copies of distinct rows ``X``, ``units`` (n_features,)
    the widths of the cells, 0 for columns that stay as they are. ``rows``, ``numbers`` and
    ``weights`` (n_copies,) are the row of every copy, its number among the copies of the row, and
    its weight. The result has shape (n_copies, n_features).
    """
    keys = _keys(X, counts, units, labels)
    out = X[rows]
    steps = numbers.astype(np.uint64) * _STEP
    for j in np.flatnonzero(units):
        cells = _ranks(X[:, j], units[j])[rows]
        order = np.lexsort((_mixed(keys[j][rows] + steps), cells))
        out[order, j] += units[j] * _offsets(cells[order], weights[order])
    return out


def _keys(
    X: np.ndarray, counts: np.ndarray, units: np.ndarray, labels: np.ndarray | None
) -> np.ndarray:
    """Return a hash for every feature of every distinct row, of shape (n_features, n_rows).

    The hash depends on the values of a feature, not on its place, and on the rows of a cluster, not
    on its label. Features that have the same ranks have the same hashes.
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


def _ranks(x: np.ndarray, unit: float) -> np.ndarray:
    """Return the ranks of values; values that differ by a small part of a unit have one rank."""
    order = np.argsort(x, kind="stable")
    ranks = np.empty(len(x), dtype=np.uint64)
    ranks[order] = np.append(0, np.cumsum(np.diff(x[order]) > _SAME * unit))
    return ranks


def _offsets(cells: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return even offsets from -1/2 to 1/2 in every cell, for samples that are sorted by cell."""
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
