"""What must not change, or change in a known way, when the samples are changed in a known way."""

import numpy as np

from .checks import check, same
from .data import answers, fitted, hills, one_hill, points
from .registry import family, group

case = group("metamorphic laws")

#: What rounding in another place may do to a log density.
_ROUNDING = 1e-6


@family(
    case,
    "the order of the rows does not matter ({})",
    {"shuffled": 0, "shuffled again": 1, "backwards": 2, "sorted": 3, "dealt out": 4},
    needs=["row order"],
)
def _(subject, how):
    X = hills()
    rows = [
        np.random.RandomState(0).permutation(len(X)),
        np.random.RandomState(1).permutation(len(X)),
        np.arange(len(X))[::-1],
        np.argsort(X[:, 1]),
        np.argsort(np.arange(len(X)) % 5, kind="stable"),
    ][how]
    same(subject.fit(X[rows]).score_samples(points()), answers(subject), 1e-9)


@case("the order of rows among ties does not matter", needs=["row order"])
def _(subject):
    X = np.round(2 * one_hill(24))
    rows = np.random.RandomState(3).permutation(len(X))
    queries = X[::7] + 0.1
    expected = subject.fit(X).score_samples(queries)
    same(subject.fit(X[rows]).score_samples(queries), expected, _ROUNDING)


@case("the order of repeated rows does not matter", needs=["row order"])
def _(subject):
    X = np.repeat(hills(20), 2, axis=0)
    expected = subject.fit(X).score_samples(points())
    again = np.tile(hills(20), (2, 1))
    same(subject.fit(again).score_samples(points()), expected, _ROUNDING)


def _scaled(subject, factor, tolerance):
    expected = answers(subject) - 2 * np.log(factor)
    found = subject.fit(hills() * factor).score_samples(points() * factor)
    same(found, expected, tolerance)


@family(
    case,
    "the unit of length shifts all log densities alike ({})",
    {"metres in millimetres": 1000.0, "metres in miles": 1 / 1609.344, "a third": 1 / 3},
    needs=["units"],
)
def _(subject, factor):
    _scaled(subject, factor, _ROUNDING)


@family(
    case,
    "a power of two as the unit shifts all log densities exactly ({})",
    {"2**10": 2.0**10, "2**-30": 2.0**-30, "2**100": 2.0**100},
    needs=["units"],
)
def _(subject, factor):
    _scaled(subject, factor, 1e-11)


@family(
    case,
    "the origin does not matter ({})",
    {"1000": [1000.0, 1000.0], "-50 in one feature": [0.0, -50.0], "1/3": [1 / 3, 1 / 3]},
)
def _(subject, shift):
    found = subject.fit(hills() + shift).score_samples(points() + shift)
    same(found, answers(subject), _ROUNDING)


@family(
    case,
    "reflections do not matter ({})",
    {"of all features": [-1.0, -1.0], "of one feature": [1.0, -1.0]},
)
def _(subject, signs):
    signs = np.array(signs)
    found = subject.fit(hills() * signs).score_samples(points() * signs)
    same(found, answers(subject), _ROUNDING)


@case("the order of the features does not matter")
def _(subject):
    found = subject.fit(hills()[:, ::-1]).score_samples(points()[:, ::-1])
    same(found, answers(subject), _ROUNDING)


@case("the order of five features does not matter")
def _(subject):
    X, order = hills(40, 5), np.array([3, 0, 4, 1, 2])
    found = subject.fit(X[:, order]).score_samples(points(5)[:, order])
    same(found, subject.fit(X).score_samples(points(5)), _ROUNDING)


def _rotated(subject, X, queries, rotation):
    found = subject.fit(X @ rotation).score_samples(queries @ rotation)
    same(found, subject.fit(X).score_samples(queries), _ROUNDING)


@family(
    case,
    "rotations do not matter ({} degrees)",
    {"30": 30.0, "90": 90.0, "200": 200.0},
    needs=["rotation"],
)
def _(subject, degrees):
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    _rotated(subject, hills(), points(), np.array([[c, s], [-s, c]]))


@case("rotations of four features do not matter", needs=["rotation"])
def _(subject):
    rotation = np.linalg.qr(one_hill(4, 4))[0]
    _rotated(subject, hills(40, 4), points(4), rotation)


@case("every row twice changes log densities by less than half a nat on average")
def _(subject):
    found = subject.fit(np.repeat(hills(), 2, axis=0)).score_samples(hills())
    change = float(np.abs(found - fitted(subject).score_samples(hills())).mean())
    check(change < 0.5, f"they change by {change:.2f}")


@case("floats of 32 bits give nearly the density of 64 bits")
def _(subject):
    found = subject.fit(hills().astype(np.float32)).score_samples(points())
    same(found, answers(subject), 1e-3)


@case("a change of 1e-10 in the samples changes log densities by no more than 1e-5")
def _(subject):
    X = hills() + 1e-10 * one_hill(48)
    same(subject.fit(X).score_samples(points()), answers(subject), 1e-5)


@case(
    "one sample less changes log densities near the others by less than a nat",
    needs=["smoothness"],
)
def _(subject):
    X = hills()
    found = subject.fit(X[1:]).score_samples(X[1:])
    worst = float(np.abs(found - fitted(subject).score_samples(X[1:])).max())
    check(worst < 1, f"they change by {worst:.2f}")


@case("one sample more raises the density where it is")
def _(subject):
    place = np.array([[1.5, -1.0]])
    before = fitted(subject).score_samples(place)
    after = subject.fit(np.concatenate([hills(), np.repeat(place, 5, axis=0)]))
    check((after.score_samples(place) > before).all(), "it falls")


@case("another sample of the same distribution gives nearly the same score", needs=["smoothness"])
def _(subject):
    other = hills(48, seed=77)
    lost = fitted(subject).score_samples(hills()).mean() - fitted(subject).score_samples(other)
    check(lost.mean() < 4, f"the mean log density falls by {lost.mean():.1f}")
