"""Asking a fitted model for log densities."""

import copy

import numpy as np

from .bad_arrays import BAD
from .checks import Failed, all_finite, check, different, no_nan, not_fitted, refused, same
from .data import answers, fitted, hills, masses, points
from .registry import family, group

case = group("queries")


_BAD_QUERIES = (
    "NaN in the first place",
    "a row of NaN",
    "infinity",
    "minus infinity",
    "both infinities in one column",
    "None among numbers",
    "a word among numbers",
    "complex numbers",
    "a vector",
    "a cube",
    "None",
    "no rows",
    "no columns",
    "rows of different length",
    "a sparse matrix",
    "masked values",
    "dates",
    "a generator",
    "a text",
    "numbers too large for 64 bits",
)


@family(case, "a query refuses {}", {name: BAD[name] for name in _BAD_QUERIES})
def _(subject, bad):
    model = fitted(subject)
    refused(lambda: model.score_samples(bad()))


@case("log densities before the fit are refused", needs=["unfitted"])
def _(subject):
    not_fitted(lambda: subject.make().score_samples(points()))


@case("a score before the fit is refused", needs=["unfitted", "score"])
def _(subject):
    not_fitted(lambda: subject.make().score(points()))


@case("is_normalized before the fit is refused", needs=["value"])
def _(subject):
    not_fitted(lambda: subject.make().is_normalized)


@family(case, "queries of {} are refused", {"one feature": 1, "three features": 3, "fifty": 50})
def _(subject, n_features):
    model = fitted(subject)
    refused(lambda: model.score_samples(np.zeros((5, n_features))), "feature", "dimension")


@case("answers are a new vector of floats")
def _(subject):
    found = fitted(subject).score_samples(points())
    check(type(found) is np.ndarray, f"the answer is a {type(found).__name__}")
    check(found.dtype == np.float64, f"the answer is of dtype {found.dtype}")
    check(found.shape == (len(points()),), f"the answer has shape {found.shape}")
    check(found.flags.c_contiguous, "the answer is not contiguous")
    check(found.flags.writeable, "the answer cannot be written to")


@case("the samples themselves have finite log densities")
def _(subject):
    all_finite(fitted(subject).score_samples(hills()))


@case("a single row can be asked for")
def _(subject):
    for i, point in enumerate(points()):
        _close(fitted(subject).score_samples(point[None]), answers(subject)[i : i + 1])


def _close(found, expected):
    """Sums may be added up in another order, in parts of the number at hand."""
    same(found / (1 + np.abs(expected)), expected / (1 + np.abs(expected)), 1e-12)


@case("asking twice gives the same bits")
def _(subject):
    same(fitted(subject).score_samples(points()), answers(subject))


@case("a point that is asked for twice has the same bits")
def _(subject):
    found = fitted(subject).score_samples(np.tile(points(), (7, 1)))
    same(found.reshape(7, -1), np.tile(found[: len(points())], (7, 1)))


@case("the order of queries does not matter to the bit")
def _(subject):
    many = np.concatenate([points(seed=seed) for seed in range(20)])
    rows = np.random.RandomState(0).permutation(len(many))
    found = fitted(subject).score_samples(many)
    same(fitted(subject).score_samples(many[rows]), found[rows])


@case("parts of a query have the answers of the whole")
def _(subject):
    many = np.concatenate([points(seed=seed) for seed in range(60)])
    found = fitted(subject).score_samples(many)
    for start, end in ((0, 1), (3, 10), (100, 420), (255, 257), (511, 840)):
        _close(fitted(subject).score_samples(many[start:end]), found[start:end])


@case("ten thousand queries have the answers of a few")
def _(subject):
    many = np.random.RandomState(0).uniform(-6, 10, (10_000, 2))
    found = fitted(subject).score_samples(many)
    check(found.shape == (10_000,), f"the answer has shape {found.shape}")
    _close(found[-7:], fitted(subject).score_samples(many[-7:]))


@case("a far query leaves the answers of its neighbours alone")
def _(subject):
    with_far = np.insert(points(), 4, [1e200, -1e200], axis=0)
    found = fitted(subject).score_samples(with_far)
    no_nan(found)
    _close(np.delete(found, 4), answers(subject))


@family(
    case,
    "queries at {} are no NaN",
    {"1e20": 1e20, "1e160": 1e160, "1e300": 1e300, "the largest float": 1.797e308},
)
def _(subject, distance):
    far = distance * np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    found = fitted(subject).score_samples(far)
    no_nan(found)
    check((found < answers(subject).min()).all(), "the density does not fall")


@case("queries next to zero are finite and alike")
def _(subject):
    tiny = np.array([[0.0, 0.0], [-0.0, -0.0], [5e-324, -5e-324], [1e-300, 1e-300]])
    found = fitted(subject).score_samples(tiny)
    all_finite(found)
    same(found, np.full(4, found[0]), 1e-12)
    same(found[:1], found[1:2])


@case("tails are those of the sum of all kernels", needs=["tails"])
def _(subject):
    model, steps = fitted(subject), np.array([3.0, 10.0, 50.0, 200.0, 1000.0, 1e4])
    directions = np.array([[1.0, 0.3], [-0.5, 1.0], [-1.0, -1.0], [0.2, -1.0]])
    far = 3.0 + (steps[:, None, None] * directions).reshape(-1, 2)
    expected = subject.log_sum(model, far)
    check((expected < -1e5).any(), "no query is far enough")
    same(model.score_samples(far) / np.abs(expected), expected / np.abs(expected), 1e-9)


@case("log densities near the samples are those of the sum of all kernels", needs=["tails"])
def _(subject):
    same(answers(subject), subject.log_sum(fitted(subject), points()), 1e-9)


@case("the density falls along every ray that leaves the samples")
def _(subject):
    steps = np.geomspace(9, 1e6, 60)
    for direction in ([1.0, 0.0], [-1.0, 0.4], [0.3, 1.0], [-0.6, -1.0]):
        along = fitted(subject).score_samples(3.0 + steps[:, None] * np.array(direction))
        no_nan(along)
        falling = (along[1:] < along[:-1]) | np.isneginf(along[1:])
        check(falling.all(), f"the density rises at a distance of {steps[1:][~falling][:1]}")


@case("the density is higher at the samples than beside them")
def _(subject):
    model = fitted(subject)
    beside = model.score_samples([[-3.5, 6.0], [6.0, -1.5], [12.0, 3.0]])
    check(np.median(model.score_samples(hills())) > beside.max() + 1, "it is not")


@case("queries are not written to")
def _(subject):
    for order in ("C", "F"):
        X = np.array(points(), order=order)
        fitted(subject).score_samples(X)
        same(X, points(), what="the queries")


@case("writing to an answer changes no later answer")
def _(subject):
    expected, model = answers(subject), copy.deepcopy(fitted(subject))
    found = model.score_samples(points())
    found[:] = 7.0
    same(model.score_samples(points()), expected)


@case("queries may be changed after the answer")
def _(subject):
    X = points()
    found = fitted(subject).score_samples(X)
    X[:] = 0.0
    same(found, answers(subject))


@case("the score is the mean of the log densities", needs=["score"])
def _(subject):
    found = fitted(subject).score(points())
    check(np.ndim(found) == 0, "the score is no number")
    expected = answers(subject).mean()
    check(abs(found - expected) < 1e-9, f"the score is {found}, not {expected}")


@case("the score ignores y", needs=["score"])
def _(subject):
    model = fitted(subject)
    check(model.score(points(), np.ones(3)) == model.score(points()), "it does not")


@case("density_ gives the same answers as its estimator", needs=["value"])
def _(subject):
    density = fitted(subject).density_
    same(density.logpdf(points()), answers(subject))
    same(density.pdf(points()), np.exp(answers(subject)), 1e-12, "the densities")


@case("is_normalized says whether the density integrates to one", needs=["value"])
def _(subject):
    normalised = fitted(subject).is_normalized
    check(normalised is subject.can("integral"), f"is_normalized is {normalised}")


@case("the density integrates to one", needs=["integral"])
def _(subject):
    total = masses(subject)[1].sum()
    check(abs(total - 1) < 0.02, f"it integrates to {total:.4f}")


@case("a density fitted to three features can be asked for")
def _(subject):
    model = subject.fit(hills(36, 3))
    found = model.score_samples(points(3))
    all_finite(found)
    different(found, found[::-1], "all answers")


@case("a refused query leaves the model as it was")
def _(subject):
    model = fitted(subject)
    for bad in ([[np.nan, 0.0]], [[0.0]], "x"):
        try:
            model.score_samples(bad)
        except Exception:
            continue
        raise Failed(f"a query of {bad!r} is answered")
    same(model.score_samples(points()), answers(subject))
