r"""A monotone map for every feature, under which samples look like a mixture of Gaussians.

A map is the identity, a power map or a smooth table of normal scores. Maps are chosen feature by
feature, each given the maps of the others: the criterion is the likelihood of one Gaussian, which
has a closed form. A map that bends a linear relation between features loses there, so that such
features stay straight. The choice is made twice, from no maps and from the best map of every
feature on its own, since related features must sometimes be bent together. The two results and no
maps at all are then compared by the likelihood of held-out samples under mixtures of Gaussians.

In both comparisons, maps must gain more than two standard errors, after :math:`p / n` for their
:math:`p` parameters and :math:`n` samples. If mapped samples are one Gaussian, which is simpler
than a mixture, any gain is enough the second time.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from ..clustering import Points, find_clusters
from ..clustering.joining import join_small
from ..covariance import weighted_moments, whitening_transforms
from ..density import FeatureMap, TableMap, YeoJohnson
from ..folds import count, deal_in_turn
from .components import Prior, fit_components, kmeans_start, quadratic_features
from .members import FREE
from .partition import least_variances
from .weights import mean_and_error

#: With fewer samples than this, or than this many for each feature, no feature is mapped.
_FEWEST, _FEWEST_PER_FEATURE = 30, 3
#: With more features than this, none is mapped: the cost grows with the square of their number.
_MOST_FEATURES = 100
#: Upper bounds on the rows by which maps are chosen, and by which the results are compared.
_MOST_ROWS, _MOST_COMPARED = 2000, 500
#: A feature with at most this number of values is a category, and is not mapped.
_MOST_VALUES = 12
#: Powers, and those that are also tried with a third of the scale.
_POWERS = np.array([-3, -2, -1.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1.25, 1.5, 2, 2.5, 3, 4])
_SOFT_POWERS = _POWERS[(_POWERS >= -1) & (_POWERS < 1)]
#: Parameters of a power map: the power, and a part of the choice of center and scale.
_POWER_DOF = 1.5
#: The distance between the quartiles of a normal distribution.
_QUARTILES = 1.349
#: Knots of a table up to the extreme samples, and bounds on those of a table up to outer quantiles.
_N_KNOTS, _FEWEST_KNOTS, _MOST_KNOTS = 12, 6, 24
#: Samples for each knot, and samples beyond the outer quantiles.
_SAMPLES_PER_KNOT, _BEYOND = 12, 5
#: Points of a table between two knots.
_POINTS_PER_KNOT = 8
#: The least rise of a feature, in standard deviations, for each unit of the normal score, which
#: bounds the slope; and that of a feature with a value that occurs at least three times.
_MIN_RISE, _MIN_RISE_TIED, _TIED = 1e-6, 0.02, 3.0
#: Points of a table are farther apart than this, relative to the largest value.
_SPACING = 1e-14
#: Maps are chosen if their gain exceeds this number of standard errors.
_STANDARD_ERRORS = 2.0
#: Rounds of the choice for one Gaussian; a third changes little.
_N_ROUNDS = 2
#: The ridge of the regression on other features, per sample, and the least sum of squares.
_RIDGE, _LEAST_SQUARES = 1e-4, 0.01
#: Folds of the comparison, rows for each parameter of a component, and most components.
_N_FOLDS, _ROWS_PER_PARAMETER, _MOST_COMPONENTS = 3, 12, 6
#: The weight of the identity in the shrinkage of components, in samples. Clusters may be thin.
_ROUND = 0.1


class Shapes(NamedTuple):
    """The maps of all features, and their number of parameters per sample.

    ``is_clear`` says whether the mapped samples look like one Gaussian, which is clearly better
    than no maps. If not, other densities than mixtures may be better, and they may need no maps.
    """

    maps: tuple[FeatureMap, ...]
    penalty: float
    is_clear: bool


def choose_shapes(X: np.ndarray, weights: np.ndarray, is_fixed: np.ndarray) -> Shapes | None:
    """Choose a map for every feature; None if all are the identity.

    X (n_rows, n_features) has distinct rows; rows and features are in an order that follows from
    the values. A row stands for ``weights`` samples. Features that are fixed are not mapped.
    """
    fewest = max(_FEWEST, _FEWEST_PER_FEATURE * X.shape[1])
    if count(weights) < fewest or X.shape[1] > _MOST_FEATURES:
        return None
    rows, weights = _thinned(weights, _MOST_ROWS)
    X = X[rows]
    mean, covariance = weighted_moments(X, weights)
    stds = np.sqrt(np.diag(covariance))
    spacings = _SPACING * np.abs(X).max(axis=0)
    varied = np.flatnonzero(stds > spacings)
    libraries = []
    for j in varied.tolist():
        x, spacing = (X[:, j] - mean[j]) / stds[j], spacings[j] / stds[j]
        libraries.append(Library.from_values(x, weights, spacing, bool(is_fixed[j])))
    frames = _candidates(libraries, weights)
    best = _compared(libraries, weights, frames) if frames else None
    if best is None:
        return None
    frame, is_clear = best
    maps = [FeatureMap()] * X.shape[1]
    for j, library, c in zip(varied.tolist(), libraries, frame, strict=True):
        maps[j] = library.maps[c]().affine(float(stds[j]), float(mean[j]))
    return Shapes(tuple(maps), _n_parameters(libraries, frame) / count(weights), is_clear)


def _thinned(weights: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows at even distances along the sum of weights, and their weights."""
    if len(weights) <= n_rows:
        return np.arange(len(weights)), weights
    ends = np.cumsum(weights)
    marks = (np.arange(n_rows) + 0.5) / n_rows * ends[-1]
    rows, times = np.unique(np.searchsorted(ends, marks), return_counts=True)
    # Maps are known as well as the rows that are left determine them, not as all rows do.
    return rows, times * min(1.0, ends[-1] / n_rows)


# The maps of one feature


class Library(NamedTuple):
    """Maps of a feature, with their numbers of parameters, and values and log slopes at samples.

    Maps are made when they are called: most are not chosen. Values and slopes have the shape
    (n_maps, n_rows).
    """

    maps: tuple[Callable[[], FeatureMap], ...]
    dof: np.ndarray
    values: np.ndarray
    log_slopes: np.ndarray

    @classmethod
    def from_values(
        cls, x: np.ndarray, weights: np.ndarray, spacing: float, is_fixed: bool = False
    ) -> "Library":
        """Compute the maps of standardized samples, which are multiples of a spacing.

        The identity is the first. The values of every map are standardized; the slopes are those of
        the map from samples to these values.
        """
        parts = [cls((FeatureMap,), np.zeros(1), x[None], np.zeros((1, len(x))))]
        order = np.argsort(x, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(x[order]) > spacing))
        if len(starts) > _MOST_VALUES and not is_fixed:
            is_tied = bool(np.add.reduceat(weights[order], starts).max() >= _TIED)
            parts += _power_maps(x, weights, order)
            parts += _tables(x, weights, order, _MIN_RISE_TIED if is_tied else _MIN_RISE, spacing)
        values, shares = np.concatenate([part.values for part in parts]), weights / weights.sum()
        values -= (values @ shares)[:, None]
        stds = np.sqrt(np.square(values) @ shares)[:, None]
        return cls(
            maps=tuple(each for part in parts for each in part.maps),
            dof=np.concatenate([part.dof for part in parts]),
            values=values / stds,
            log_slopes=np.concatenate([part.log_slopes for part in parts]) - np.log(stds),
        )


def _power_maps(x: np.ndarray, weights: np.ndarray, order: np.ndarray) -> list[Library]:
    """Return power maps around the mean and around the median."""
    ends = np.cumsum(weights[order])
    quarters = np.searchsorted(ends, np.array([0.25, 0.5, 0.75]) * ends[-1])
    first, median, last = x[order[quarters]].tolist()
    settings = [(0.0, 1.0, _POWERS)]
    if last > first:
        scale = (last - first) / _QUARTILES
        settings += [(median, scale, _POWERS), (median, scale / 3, _SOFT_POWERS)]
    return [_powers_around(x, *each) for each in settings]


def _powers_around(x: np.ndarray, center: float, scale: float, powers: np.ndarray) -> Library:
    """Return power maps of one center and scale, with one logarithm for all."""
    u = (x - center) / scale
    logs = np.log1p(np.abs(u))
    exponents = np.where(u >= 0, powers[:, None], 2 - powers[:, None])
    safe = np.where(exponents == 0, 1.0, exponents)
    values = np.sign(u) * np.where(exponents == 0, logs, np.expm1(safe * logs) / safe)
    ends = float(x.min()), float(x.max())
    # Powers beyond these squeeze one tail into an interval.
    settings = [(p, center, scale, *(() if 0 <= p <= 2 else ends)) for p in powers.tolist()]
    maps = tuple(partial(YeoJohnson, *each) for each in settings)
    dof = np.full(len(powers), _POWER_DOF)
    return Library(maps, dof, scale * values, (exponents - 1) * logs)


def _tables(
    x: np.ndarray, weights: np.ndarray, order: np.ndarray, min_rise: float, spacing: float
) -> list[Library]:
    """Return maps to smooth normal scores: up to the extreme samples, and up to outer quantiles."""
    n_samples = count(weights)
    ends = np.cumsum(weights[order])
    scores = ndtri((ends - 0.5 * weights[order]) / ends[-1])
    outer = float(ndtri(min(0.25, _BEYOND / n_samples)))
    n_knots = int(np.clip(n_samples // _SAMPLES_PER_KNOT, _FEWEST_KNOTS, _MOST_KNOTS))
    parts = []
    for low, high, number in ((scores[0], scores[-1], _N_KNOTS), (outer, -outer, n_knots)):
        knots = np.linspace(low, high, number)
        table = _table(x[order], weights[order], scores, knots, min_rise, spacing)
        values, log_slopes = table.latent(x)
        make = partial(TableMap, table.knots, table.slopes, table.start)
        dof = np.array([float(number)])
        parts.append(Library((make,), dof, values[None], log_slopes[None]))
    return parts


def _table(
    x: np.ndarray,
    weights: np.ndarray,
    scores: np.ndarray,
    knots: np.ndarray,
    min_rise: float,
    spacing: float,
) -> TableMap:
    """Return the table of the quantiles of ascending values, smoothed over the step of knots."""
    step = knots[1] - knots[0]
    closeness = weights * np.exp(-2 * np.square((scores - knots[:, None]) / step))
    heights = (closeness @ x) / np.maximum(closeness.sum(axis=1), np.finfo(float).tiny)
    rises = np.maximum(np.diff(np.maximum.accumulate(heights)), max(min_rise * step, 2 * spacing))
    curve = PchipInterpolator(knots, heights[0] + np.append(0.0, np.cumsum(rises)))
    at = np.linspace(knots[0], knots[-1], _POINTS_PER_KNOT * (len(knots) - 1) + 1)
    rates = np.maximum(curve(at, 1), min_rise)
    rates[[0, -1]] = rises[[0, -1]] / step
    values = curve(at)
    kept = np.unique(np.floor(values / max(spacing, 1e-300)), return_index=True)[1]
    return TableMap(values[kept], 1 / rates[kept], float(at[0]))


# The choice for one Gaussian

#: The number of the map of every feature in its library; 0 is the identity.
_Frame = tuple[int, ...]


def _n_parameters(libraries: Sequence[Library], frame: _Frame) -> float:
    return float(sum(each.dof[c] for each, c in zip(libraries, frame, strict=True)))


def _candidates(libraries: Sequence[Library], weights: np.ndarray) -> list[_Frame]:
    """Return the frames that two starts lead to, if they have maps."""
    none = (0,) * len(libraries)
    alone = tuple(_best_map(each, weights, []) for each in libraries)
    found = {_descend(libraries, weights, start) for start in {none, alone}}
    return sorted(found - {none})


def _descend(libraries: Sequence[Library], weights: np.ndarray, start: _Frame) -> _Frame:
    """Choose the map of every feature in turn, given the maps of the others."""
    frame = list(start)
    for _ in range(_N_ROUNDS):
        before = frame.copy()
        for j, library in enumerate(libraries):
            others = [libraries[k].values[c] for k, c in enumerate(frame) if k != j]
            frame[j] = _best_map(library, weights, others)
        if frame == before:
            break
    return tuple(frame)


def _best_map(library: Library, weights: np.ndarray, others: Sequence[np.ndarray]) -> int:
    """Return the map with the highest likelihood of a Gaussian given other features."""
    total, values = weights.sum(), library.values
    if others:
        F = np.stack(others)
        weighted = F * weights
        gram = weighted @ F.T + _RIDGE * total * np.eye(len(F))
        values = values - np.linalg.solve(gram, weighted @ values.T).T @ F
    squares = np.square(values)
    variances = (squares @ weights + _LEAST_SQUARES) / total
    scores = library.log_slopes - 0.5 * squares / variances[:, None]
    scores -= 0.5 * np.log(variances)[:, None]
    scores -= scores[0].copy()
    gains = scores @ weights / total
    errors = np.sqrt(np.square(scores - gains[:, None]) @ weights) / total
    gains -= library.dof / total
    # The identity is the first map, and gains nothing.
    return int(np.argmax(np.where(gains > _STANDARD_ERRORS * errors, gains, 0.0)))


# The choice by held-out samples


def _compared(
    libraries: Sequence[Library], weights: np.ndarray, frames: Sequence[_Frame]
) -> tuple[_Frame, bool] | None:
    """Return the best frame and whether it is clearly the best; None if no maps are better.

    Features that cannot be mapped are left out: a component on one of few values would decide.
    With few samples, mixtures without maps are not tried here, and no frame is clearly the best.
    """
    rows, weights = _thinned(weights, _MOST_COMPARED)
    folds, mappable = deal_in_turn(weights, _N_FOLDS), [len(each.maps) > 1 for each in libraries]

    def held_out(frame: _Frame) -> tuple[np.ndarray, bool]:
        pairs = list(compress(zip(libraries, frame, strict=True), mappable))
        Z = np.stack([each.values[c, rows] for each, c in pairs], axis=1)
        log_slopes = np.stack([each.log_slopes[c, rows] for each, c in pairs], axis=1)
        return _held_out(Z, log_slopes, weights, folds)

    plain, _ = held_out((0,) * len(libraries))
    has_mixtures = _n_components(count(weights), sum(mappable)) > 1
    best, highest = None, 0.0
    for frame in frames:
        scores, is_gaussian = held_out(frame)
        gain, error = mean_and_error(scores - plain, folds[folds > 0])
        gain -= _n_parameters(libraries, frame) / count(weights)
        is_clear = gain > _STANDARD_ERRORS * error
        if gain > highest and (is_clear or is_gaussian):
            best, highest = (frame, is_clear and is_gaussian and has_mixtures), gain
    return best


def _held_out(
    Z: np.ndarray, log_slopes: np.ndarray, weights: np.ndarray, folds: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Return the log densities of held-out rows, and whether one Gaussian is the best mixture."""
    ridge = np.diag(least_variances(np.exp(log_slopes.max(axis=0))))
    mean, covariance = weighted_moments(Z, weights)
    transform = whitening_transforms(covariance + ridge)
    constants = log_slopes.sum(axis=1) + np.log(np.diag(transform)).sum()
    points = (Z - mean) @ transform
    features = quadratic_features(points)
    prior = Prior(_ROUND, FREE, None, transform.T @ ridge @ transform)
    found = []
    for start in _starts(points, Z, weights):
        scores = []
        for held in folds:
            left, tested = weights - held, held > 0
            seen = left > 0
            fit = fit_components(features[seen], left[seen], start[seen], prior)
            scores.append(fit.log_density(features[tested]) + constants[tested])
        found.append(np.concatenate(scores))
    best = int(np.argmax([folds[folds > 0] @ each for each in found]))
    return found[best], best == 0


def _n_components(n_samples: float, n_features: int) -> int:
    """Return the number of components that samples determine."""
    return int(min(n_samples // (_ROWS_PER_PARAMETER * (n_features + 2)), _MOST_COMPONENTS))


def _starts(points: np.ndarray, Z: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    """Return responsibilities of one component, of several by k-means, and of clusters."""
    starts = [np.ones((len(Z), 1))]
    n_components = _n_components(count(weights), Z.shape[1])
    if n_components > 1:
        rng = np.random.RandomState(n_components)
        starts.append(kmeans_start(points, weights, n_components, rng))
    labels = find_clusters(Points.from_samples(Z, weights, start="first")).whole_labels()
    labels = np.maximum(join_small(Z, weights, labels), 0)
    if labels.max() > 0:
        starts.append(np.eye(labels.max() + 1)[labels])
    return starts
