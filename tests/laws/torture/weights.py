"""Samples that count more than once, or less, or not at all."""

import inspect
from functools import cache

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sevenhills

from .checks import all_finite, check, finite_answers, refused, same
from .data import answers, fitted, hills, points
from .registry import family, group
from .state import COPIES, through_a_file

case = group("weights")

#: Whether a sample is repeated or weighted, sums are added up in another order.
_ROUNDING = 1e-6


def _counts(seed=0):
    """Return how often every one of 24 samples counts: from once to three times."""
    return np.random.RandomState(seed).randint(1, 4, size=24)


def _on_second_hill(X):
    return X.sum(axis=1) > 6


def _fit(subject, X, weights):
    takes = inspect.signature(subject.make().fit).parameters
    check("sample_weight" in takes, "fit takes no sample_weight")
    return subject.fit(X, sample_weight=weights)


def _repeated(subject, X, counts):
    return subject.fit(np.repeat(X, counts, axis=0)).score_samples(points())


def _weighted(subject, X, weights):
    return _fit(subject, X, weights).score_samples(points())


@case("weights of None are as none", needs=["weights"])
def _(subject):
    same(_weighted(subject, hills(), None), answers(subject))


@case("a weight of one for all is as none", needs=["weights"])
def _(subject):
    same(_weighted(subject, hills(), np.ones(48)), answers(subject), 1e-9)


@case("the number one as the weight of all is as none", needs=["weights"])
def _(subject):
    same(_weighted(subject, hills(), 1.0), answers(subject), 1e-9)


@case("a weight of two for all is every row twice", needs=["weights", "counts"])
def _(subject):
    X = hills(24)
    same(_weighted(subject, X, np.full(24, 2.0)), _repeated(subject, X, 2), _ROUNDING)


@case("whole weights are repetitions", needs=["weights", "counts"])
def _(subject):
    X = hills(24)
    same(_weighted(subject, X, _counts()), _repeated(subject, X, _counts()), _ROUNDING)


@case("whole weights are repetitions in five dimensions", needs=["weights", "counts"])
def _(subject):
    X, queries = hills(24, 5), points(5)
    found = _fit(subject, X, _counts()).score_samples(queries)
    expected = subject.fit(np.repeat(X, _counts(), axis=0)).score_samples(queries)
    same(found, expected, _ROUNDING)


@case("whole weights are repetitions among ties", needs=["weights", "counts"])
def _(subject):
    X = np.round(hills(24))
    same(_weighted(subject, X, _counts()), _repeated(subject, X, _counts()), _ROUNDING)


@case("one sample of weight 20 is 20 samples", needs=["weights", "counts"])
def _(subject):
    X, counts = hills(16), np.ones(16, dtype=int)
    counts[3] = 20
    same(_weighted(subject, X, counts), _repeated(subject, X, counts), _ROUNDING)


@case("a weight of zero is as if the row was not there", needs=["weights"])
def _(subject):
    weights = np.where(np.arange(48) % 4 == 1, 0.0, 1.0)
    expected = subject.fit(hills()[weights > 0]).score_samples(points())
    same(_weighted(subject, hills(), weights), expected, _ROUNDING)


@case("an outlier of weight zero changes nothing", needs=["weights"])
def _(subject):
    X = np.concatenate([hills(), [[1e9, -1e9]]])
    same(_weighted(subject, X, np.append(np.ones(48), 0.0)), answers(subject), _ROUNDING)


@case("a weight may be shared by repeated rows", needs=["weights"])
def _(subject):
    X, weights = hills(24), np.linspace(0.5, 1.5, 24)
    expected = _weighted(subject, X, weights)
    shared = np.concatenate([0.25 * weights, 0.75 * weights])
    same(_weighted(subject, np.tile(X, (2, 1)), shared), expected, _ROUNDING)


@case("with weights, too, the order of the rows does not matter", needs=["weights", "row order"])
def _(subject):
    X, weights = hills(24), np.linspace(0.5, 1.5, 24)
    rows = np.random.RandomState(0).permutation(24)
    found = _weighted(subject, X[rows], weights[rows])
    same(found, _weighted(subject, X, weights), _ROUNDING)


@case("with weights, too, the unit does not matter", needs=["weights", "units"])
def _(subject):
    X, weights = hills(24), np.linspace(0.5, 1.5, 24)
    found = _fit(subject, 1000 * X, weights).score_samples(1000 * points())
    same(found + 2 * np.log(1000), _weighted(subject, X, weights), _ROUNDING)


_KINDS = {
    "a list": list,
    "integers of 8 bits": lambda w: w.astype(np.int8),
    "unsigned integers of 8 bits": lambda w: w.astype(np.uint8),
    "floats of 16 bits": lambda w: w.astype(np.float16),
    "floats of 32 bits": lambda w: w.astype(np.float32),
    "floats of the other byte order": lambda w: w.astype(">f8"),
    "a pandas series": lambda w: pd.Series(w, index=np.arange(len(w))[::-1]),
    "a pandas series of a nullable type": lambda w: pd.Series(w).astype("Int64"),
    "objects": lambda w: w.astype(object),
}


@cache
def _plain(subject):
    return _weighted(subject, hills(24), 1.0 * _counts())


@family(case, "weights may come as {}", _KINDS, needs=["weights"])
def _(subject, kind):
    same(_weighted(subject, hills(24), kind(1.0 * _counts())), _plain(subject), 1e-9)


@case("weights of 8 bits may have a sum of more", needs=["weights"])
def _(subject):
    weights = 40 * _counts()
    found = _weighted(subject, hills(24), weights.astype(np.uint8))
    same(found, _weighted(subject, hills(24), weights), 1e-9)


@case("weights may be true or false", needs=["weights"])
def _(subject):
    weights = np.arange(48) % 4 != 1
    same(_weighted(subject, hills(), weights), _weighted(subject, hills(), weights * 1.0), 1e-9)


def _one(value):
    weights = np.ones(48)
    weights[7] = value
    return weights


#: What weights are called: by us, by scikit-learn and by scipy.
_NAMES = ("sample_weight", "sample weights", "`weights`")

_BAD = {
    "a negative number": _one(-1.0),
    "NaN": _one(np.nan),
    "infinity": _one(np.inf),
    "minus infinity": _one(-np.inf),
    "nothing but zeros": np.zeros(48),
    "zero as the weight of all": 0.0,
    "a number too few": np.ones(47),
    "a number too many": np.ones(49),
    "no numbers": np.empty(0),
    "a column": np.ones((48, 1)),
    "a table of the shape of the samples": np.ones((48, 2)),
    "words": ["a"] * 48,
    "complex numbers": np.ones(48) * 1j,
    "masked numbers": np.ma.masked_array(np.ones(48), mask=_one(0.0) == 0),
    "None among numbers": [None] + [1.0] * 47,
    "a dictionary": dict.fromkeys(range(48), 1.0),
    "a word": "balanced",
    "a negative number as the weight of all": -1.0,
}


@family(case, "weights refuse {} by name", _BAD, needs=["weights"])
def _(subject, bad):
    refused(lambda: _fit(subject, hills(), bad), *_NAMES)


@case("weights are not written to", needs=["weights"])
def _(subject):
    weights = 1.0 * _counts()
    _fit(subject, hills(24), weights)
    same(weights, 1.0 * _counts(), what="the weights")


@case("weights may be changed after the fit", needs=["weights"])
def _(subject):
    weights = 1.0 * _counts()
    model = _fit(subject, hills(24), weights)
    expected = model.score_samples(points())
    weights[:] = 0.0
    same(model.score_samples(points()), expected)


@case("weights may be read-only", needs=["weights"])
def _(subject):
    weights = 1.0 * _counts()
    weights.flags.writeable = False
    all_finite(_weighted(subject, hills(24), weights))


@case("a higher weight raises the density where it is", needs=["weights"])
def _(subject):
    X, second = hills(), _on_second_hill(hills())
    found = _fit(subject, X, np.where(second, 3.0, 1.0)).score_samples(X[second]).mean()
    check(found > fitted(subject).score_samples(X[second]).mean() + 0.2, "it does not")


@case("draws follow the weights", needs=["weights", "sampling"])
def _(subject):
    second = _on_second_hill(hills())
    weights = np.where(second, 0.75 / second.sum(), 0.25 / (~second).sum()) * 48
    share = _on_second_hill(_fit(subject, hills(), weights).sample(4000, random_state=0)).mean()
    check(abs(share - 0.75) < 0.06, f"{share:.2f} are on the heavy hill, not 0.75")


@case("with weights, too, the density integrates to one", needs=["weights", "integral"])
def _(subject):
    model = _fit(subject, hills(24)[:, :1], np.linspace(0.5, 1.5, 24))
    total = np.exp(model.score_samples(np.linspace(-12, 18, 6001)[:, None])).sum() * 0.005
    check(abs(total - 1) < 0.02, f"it integrates to {total:.4f}")


_UNEVEN = {
    "from 1e-6 to 1": np.logspace(-6, 0, 24),
    "from 1 to 1000": np.logspace(0, 3, 24),
    "of 0.1": np.full(24, 0.1),
    "of a third": np.full(24, 1 / 3),
}


@family(case, "weights {} give finite answers", _UNEVEN, needs=["weights"])
def _(subject, weights):
    finite_answers(subject, _fit(subject, hills(24), weights), hills(24))


_ABSURD = {
    "of 1e300": np.full(24, 1e300),
    "of 1e308, whose sum is infinite": np.full(24, 1e308),
    "of 1e-300": np.full(24, 1e-300),
    "of the smallest float": np.full(24, 5e-324),
    "of one sample alone": np.eye(24)[3],
}


@family(case, "weights {} give finite answers or a clear error", _ABSURD, needs=["weights"])
def _(subject, weights):
    try:
        model = _fit(subject, hills(24), weights)
    except (ValueError, TypeError) as error:
        check(len(str(error).split()) > 1, "refused without a word")
        return
    finite_answers(subject, model, hills(24)[3:4])


@case("there is one label for each weighted sample", needs=["weights", "labels"])
def _(subject):
    labels = _fit(subject, hills(24), _counts()).labels_
    check(labels.shape == (24,), f"labels_ have shape {labels.shape}")


@case("samples of weight zero have the label -1", needs=["weights", "labels"])
def _(subject):
    weights = np.where(np.arange(48) % 4 == 1, 0.0, 1.0)
    labels = _fit(subject, hills(), weights).labels_
    check(labels.shape == (48,), f"labels_ have shape {labels.shape}")
    check((labels[weights == 0] == -1).all(), "they have others")
    expected = subject.fit(hills()[weights > 0]).labels_
    same(labels[weights > 0], expected, what="the labels of the others")


@case("a refit that is refused for its weights keeps the old model", needs=["weights"])
def _(subject):
    model = subject.fit(hills())
    refused(lambda: model.fit(hills(24), sample_weight=-np.ones(24)), *_NAMES)
    same(model.score_samples(points()), answers(subject))


@case("a fit without weights forgets those of the last one", needs=["weights"])
def _(subject):
    model = _fit(subject, hills(24), _counts()).fit(hills())
    same(model.score_samples(points()), answers(subject))


@family(
    case,
    "a weighted model that is {} gives the same answers",
    {name: COPIES[name] for name in ("pickled", "copied deeply")},
    needs=["weights"],
)
def _(subject, copied):
    model = _fit(subject, hills(24), _counts())
    same(copied(model).score_samples(points()), model.score_samples(points()))


@case("a saved weighted model gives the same answers", needs=["weights", "files"])
def _(subject):
    model = _fit(subject, hills(24), np.linspace(0.5, 1.5, 24))
    again = through_a_file(model, sevenhills.save, sevenhills.load)
    same(again.score_samples(points()), model.score_samples(points()))


@case("weights pass through a pipeline", needs=["weights", "estimator"])
def _(subject):
    name = type(subject.make()).__name__.lower()
    pipeline = make_pipeline(StandardScaler(), subject.make())
    pipeline.fit(hills(24), **{f"{name}__sample_weight": _counts()})
    Y = StandardScaler().fit(hills(24)).transform
    expected = _fit(subject, Y(hills(24)), _counts()).score_samples(Y(points()))
    same(pipeline.score_samples(points()), expected)


@case("a cluster of light samples is still found", needs=["weights"])
def _(subject):
    model = _fit(subject, hills(), np.where(_on_second_hill(hills()), 0.25, 1.0))
    heavy, light, beside = model.score_samples([[0.0, 0.0], [6.0, 6.0], [-3.5, 6.0]])
    check(min(heavy, light) > beside + 1, "the density is as high beside the hills")
