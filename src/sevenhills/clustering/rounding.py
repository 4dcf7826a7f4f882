"""Columns of rounded values: the unit to which they were rounded.

Rounded values lie on a lattice of some unit, and neighboring places of the lattice are taken by
many rows. Copies of continuous values repeat, but have no common unit; decimals that are finer
than the distance between samples have one, but it does not matter.
"""

from typing import Any

import numpy as np

#: Columns with fewer distinct values are codes, such as classes, weekdays or seven-point scales.
_LEAST_VALUES = 8
#: The inverse of the probability that two rows are equal must reach this, whatever rare values
#: there are beside. It is 3.2 for counts of mean 1, and 7.9 for counts of mean 5: among few
#: values, a slab around each says less than the values themselves.
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
#: What a resolution can be, in messages.
_KIND = "'auto', None, a number or one number for each feature"


def resolve_resolution(
    resolution: Any, X: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the unit of every column, 0 for columns that are exact.

    Parameters
    ----------
    resolution : "auto", None, float or array-like of shape (n_features,)
        "auto" recognizes rounded columns; None takes all columns as exact.
    X, weights
        See :func:`rounding_units`.
    """
    n_features = X.shape[1]
    if isinstance(resolution, str) and resolution == "auto":
        return rounding_units(X, weights)
    units = check_resolution(resolution)
    if units.shape not in ((), (n_features,)):
        raise ValueError(
            f"resolution must be {_KIND}; there are {n_features} features, got shape {units.shape}"
        )
    return np.broadcast_to(units, n_features).copy()


def check_resolution(resolution: Any) -> np.ndarray:
    """Refuse a resolution that no samples could have; return the units that are given."""
    if resolution is None or (isinstance(resolution, str) and resolution == "auto"):
        return np.zeros(())
    try:
        units = np.array(resolution)
    except ValueError:  # a list of lists of several lengths
        units = np.array(None)
    if units.dtype.kind not in "iuf":
        raise TypeError(f"resolution must be {_KIND}, got {resolution!r:.60}")
    if not ((units >= 0) & (units < np.inf)).all():
        raise ValueError(f"resolution must be finite and not negative, got {resolution!r:.60}")
    return units.astype(np.float64)


def rounding_units(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the unit to which every column is rounded, 0 if it is not.

    A column is rounded if it has enough distinct values to be no code, half of its rows share
    their value with another row, nine in ten rows lie on a lattice, and half of them are next to
    another value on the lattice. The most common value counts only as much as the second most
    common one, so that many zeros decide nothing. If several units qualify, it is the coarsest.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    weights : ndarray of shape (n_samples,), optional
        The number of samples that every row stands for; one by default.

    Returns
    -------
    ndarray of shape (n_features,)
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
