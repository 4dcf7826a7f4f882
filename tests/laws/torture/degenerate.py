"""Samples without spread, with ties, on lines, far away, huge and tiny."""

from functools import cache

import numpy as np
from scipy.stats import multivariate_normal

from .checks import all_finite, check, fits, fits_or_refuses, same
from .data import fitted, hills, one_hill
from .registry import family, group

case = group("degenerate data")


def _rng(seed=0):
    return np.random.RandomState(seed)


@family(
    case,
    "samples that are all equal, {}, give finite answers or a clear error",
    {"to zero": 0.0, "to one": 1.0, "to a fraction": 0.1, "to a huge number": 1e200},
)
def _(subject, value):
    fits_or_refuses(subject, np.full((20, 2), value), "spread", "min_std", "equal", "distinct")


def _line(slope):
    t = _rng(1).standard_normal(24)
    return np.stack([t, slope * t + 1], axis=1)


def _cluster_without_spread():
    return np.concatenate([one_hill(16), np.full((8, 2), 8.0)])


def _constant_column(value):
    X = hills(24, 3)
    X[:, 1] = value
    return X


def _mixed_scales():
    return hills(24, 4) * [1e-12, 1.0, 1e6, 1e12]


def _clusters_of_width(small, large):
    return np.concatenate([small * one_hill(12), large * (one_hill(12, seed=8) + 8)])


#: Samples with spread: they have a density, and so it must be finite where they are.
_AWKWARD = {
    "two distinct rows": lambda: np.repeat([[0.0, 1.0], [2.0, 0.0]], 12, axis=0),
    "one row that differs from all others": lambda: np.eye(20, 1) * [1.0, 2.0],
    "a column of zeros": lambda: _constant_column(0.0),
    "a column of ones": lambda: _constant_column(1.0),
    "a column of huge equal numbers": lambda: _constant_column(1e12),
    "two equal columns": lambda: hills(24)[:, [0, 1, 0]],
    "a column that is another one's negative": lambda: hills(24)[:, [0, 1, 0]] * [1, 1, -1],
    "a column that is the sum of two others": lambda: np.column_stack(
        [one_hill(24), one_hill(24).sum(axis=1)]
    ),
    "an exact line": lambda: _line(2.0),
    "a level line": lambda: _line(0.0),
    "a line but for 1e-9": lambda: _line(2.0) + 1e-9 * one_hill(24),
    "a line but for 1e-15": lambda: _line(2.0) + 1e-15 * one_hill(24),
    "rounding to one decimal": lambda: np.round(one_hill(24), 1),
    "rounding to whole numbers": lambda: np.round(2 * one_hill(40)),
    "a lattice": lambda: np.stack(np.meshgrid(range(6), range(6)), axis=-1).reshape(-1, 2) * 1.0,
    "equal steps": lambda: np.arange(24.0)[:, None],
    "counts": lambda: _rng().poisson(3.0, (24, 2)).astype(float),
    "zeros and ones": lambda: _rng().binomial(1, 0.4, (24, 3)).astype(float),
    "half of the rows repeated": lambda: np.concatenate([hills(24), hills(24)[:12]]),
    "every row three times": lambda: np.repeat(hills(8), 3, axis=0),
    "repetitions but for 1e-14": lambda: (
        np.repeat(hills(8), 3, axis=0) * (1 + 1e-14 * _rng().standard_normal((24, 2)))
    ),
    "a cluster without spread": _cluster_without_spread,
    "clusters without spread": lambda: np.repeat([[0.0, 0.0], [5.0, 1.0], [1.0, 9.0]], 8, axis=0),
    "clusters of 20 and 4 samples": lambda: np.concatenate([one_hill(20), one_hill(4) + 9]),
    "clusters of width 1e-3 and 1e3": lambda: _clusters_of_width(1e-3, 1e3),
    "clusters of width 1e-6 and 1": lambda: _clusters_of_width(1e-6, 1.0),
    "heavy tails": lambda: _rng(4).standard_cauchy((40, 2)),
    "powers of ten": lambda: np.logspace(-8, 8, 24)[:, None] * [1.0, -1.0],
    "features of scales from 1e-12 to 1e12": _mixed_scales,
    "a circle": lambda: np.stack(
        [np.cos(np.arange(0, 6.28, 0.27)), np.sin(np.arange(0, 6.28, 0.27))], axis=1
    ),
    "a trend in time": lambda: np.column_stack([np.arange(24.0), np.arange(24.0) ** 2]),
}


@family(case, "samples with {} have finite log densities", _AWKWARD)
def _(subject, make):
    fits(subject, make())


_SCALES = {"1e150": 1e150, "1e-150": 1e-150, "1e-300": 1e-300, "1e280": 1e280}


@family(case, "samples of scale {} give finite answers or a clear error", _SCALES)
def _(subject, scale):
    fits_or_refuses(subject, hills() * scale, "unit", "spread", "scale", "large", "small")


@family(
    case,
    "samples of scale {} have the density of others",
    {"1e100": 1e100, "1e-100": 1e-100},
    needs=["units"],
)
def _(subject, scale):
    X = hills()
    expected = subject.fit(X).score_samples(X) - 2 * np.log(scale)
    same(subject.fit(X * scale).score_samples(X * scale), expected, 1e-6)


_EXTREME = {
    "subnormal numbers": lambda: np.round(5 * hills()) * 5e-324,
    "numbers near the largest float": lambda: hills() * 1.5e307,
    "the largest float and its negative": lambda: np.where(one_hill() > 0, 1, -1) * 1.797e308,
    "numbers from 1e-300 to 1e300": lambda: np.sign(one_hill()) * 10.0 ** (300 * one_hill() / 3),
}


@family(case, "{} give finite answers or a clear error", _EXTREME)
def _(subject, make):
    fits_or_refuses(subject, make(), "unit", "spread", "scale", "large", "small", "infinity")


@case("an offset of 1e9 changes the density by no more than rounding")
def _(subject):
    X = np.round(hills() * 2.0**16) / 2.0**16  # so that adding the offset is exact
    same(subject.fit(X + 1e9).score_samples(X + 1e9), subject.fit(X).score_samples(X), 1e-3)


@case("samples of width 1 at 1e15 have finite log densities")
def _(subject):
    fits(subject, np.round(hills(24) * 8) / 8 + 1e15)


@case("the sign of zero does not matter")
def _(subject):
    X = np.round(hills(24))
    negative = np.where(X == 0, -0.0, X)
    check(np.signbit(negative[X == 0]).any(), "there is no zero in the samples")
    same(subject.fit(negative).score_samples(X), subject.fit(X).score_samples(negative))


def _bulk(X):
    """Return the four fifths of the samples that lie nearest to their median."""
    distance = np.linalg.norm(X - np.median(X, axis=0), axis=1)
    return X[np.argsort(distance)[: len(X) * 4 // 5]]


@cache
def _bulk_alone(subject):
    X = one_hill(48, seed=7)
    return subject.fit(X).score_samples(_bulk(X))


def _leaves_the_bulk_alone(subject, others):
    X = one_hill(48, seed=7)
    found = subject.fit(np.concatenate([X, others])).score_samples(_bulk(X))
    all_finite(found)
    worst = float(np.abs(found - _bulk_alone(subject)).max())
    check(worst < 1, f"the log densities of the bulk change by {worst:.2f}")


@family(
    case,
    "one outlier at {} leaves the density of the bulk within a nat",
    {"100": 100.0, "1e6": 1e6, "1e12": 1e12},
    needs=["robustness"],
)
def _(subject, distance):
    _leaves_the_bulk_alone(subject, [[distance, -distance]])


@case("an outlier in one feature leaves the density of the bulk within a nat", needs=["robustness"])
def _(subject):
    _leaves_the_bulk_alone(subject, [[1e5, 0.0]])


@case("outliers on three sides leave the density of the bulk within a nat", needs=["robustness"])
def _(subject):
    _leaves_the_bulk_alone(subject, [[1e5, 0.0], [-1e5, 0.0], [0.0, 1e5]])


@case(
    "a fifth of outliers in a heap leaves the density of the bulk within a nat",
    needs=["robustness"],
)
def _(subject):
    _leaves_the_bulk_alone(subject, 1000.0 + one_hill(12, seed=2))


@case(
    "a fifth of outliers all around leaves the density of the bulk within a nat",
    needs=["robustness"],
)
def _(subject):
    angles = _rng(2).uniform(0, 2 * np.pi, 12)
    radii = _rng(3).uniform(200, 2000, (12, 1))
    _leaves_the_bulk_alone(subject, radii * np.stack([np.cos(angles), np.sin(angles)], axis=1))


@case("one outlier leaves the density of two hills within a nat on average", needs=["robustness"])
def _(subject):
    X = hills()
    found = subject.fit(np.concatenate([X, [[1e6, -1e6]]])).score_samples(X)
    off = float(np.abs(found - fitted(subject).score_samples(X)).mean())
    check(off < 1, f"the log densities change by {off:.2f}")


@family(
    case,
    "normal distributions {} apart have their densities",
    {"1e4": 1e4, "1e8": 1e8},
    needs=["robustness", "smoothness"],
)
def _(subject, distance):
    places = _bulk(one_hill(30, seed=1))
    truth = multivariate_normal([0, 0]).logpdf(places) - np.log(2)
    model = subject.fit(np.concatenate([one_hill(20), one_hill(20, seed=9) + distance]))
    for shift in (0.0, distance):
        off = np.abs(model.score_samples(places + shift) - truth).mean()
        check(off < 1, f"log densities are off by {off:.2f} on average")
