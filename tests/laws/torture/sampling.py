"""Drawing samples from a fitted model."""

import copy
import pickle
import random

import numpy as np
from scipy import stats

from .checks import all_finite, check, different, not_fitted, refused, same
from .data import AREA, answers, fitted, hills, masses, one_hill, points
from .registry import family, group

case = group("sampling")

#: Statistics of draws may lie this many standard errors off: once in thirty thousand.
_ERRORS = 4.2


def _draw(subject, n_samples=1, random_state=0):
    return fitted(subject).sample(n_samples, random_state=random_state)


@family(
    case,
    "{} can be drawn",
    {"no sample": 0, "one sample": 1, "seven samples": 7, "20000 samples": 20_000},
    needs=["sampling"],
)
def _(subject, n_samples):
    draws = _draw(subject, n_samples)
    check(type(draws) is np.ndarray, f"the draws are a {type(draws).__name__}")
    check(draws.shape == (n_samples, 2), f"the draws have shape {draws.shape}")
    check(draws.dtype == np.float64, f"the draws are of dtype {draws.dtype}")
    all_finite(draws, "the draws")


@case("by default one sample is drawn", needs=["sampling"])
def _(subject):
    check(fitted(subject).sample(random_state=0).shape == (1, 2), "it is not")


@case("a number of numpy's says how many to draw", needs=["sampling"])
def _(subject):
    same(_draw(subject, np.int64(5)), _draw(subject, 5), what="the draws")


_NO_COUNTS = {
    "minus one": -1,
    "a fraction": 2.5,
    "a whole float": 3.0,
    "a word": "3",
    "None": None,
    "a list": [3],
    "NaN": np.nan,
}


@family(case, "{} samples cannot be drawn", _NO_COUNTS, needs=["sampling"])
def _(subject, n_samples):
    refused(lambda: _draw(subject, n_samples))


@family(
    case,
    "{} is no seed",
    {"a word": "x", "minus one": -1, "a fraction": 1.5, "an object": object(), "2**70": 2**70},
    needs=["sampling"],
)
def _(subject, random_state):
    refused(lambda: _draw(subject, 5, random_state))


@case("samples before the fit are refused", needs=["sampling", "unfitted"])
def _(subject):
    not_fitted(lambda: subject.make().sample())


_SEEDS = {
    "an int": lambda: 42,
    "a number of numpy's": lambda: np.int64(42),
    "a RandomState": lambda: np.random.RandomState(42),
    "a Generator": lambda: np.random.default_rng(42),
}


@family(case, "{} makes draws reproducible", _SEEDS, needs=["sampling"])
def _(subject, seed):
    draws = _draw(subject, 20, seed())
    same(_draw(subject, 20, seed()), draws, what="the draws")


@case("other seeds give other draws", needs=["sampling"])
def _(subject):
    different(_draw(subject, 5, 1), _draw(subject, 5, 2))


@case("a generator moves on from call to call", needs=["sampling"])
def _(subject):
    for generator in (np.random.RandomState(0), np.random.default_rng(0)):
        different(_draw(subject, 5, generator), _draw(subject, 5, generator))


@case("without a seed draws differ from call to call", needs=["sampling"])
def _(subject):
    different(_draw(subject, 5, None), _draw(subject, 5, None))


@case("without a seed draws do not follow the global generators", needs=["sampling"])
def _(subject):
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        draws = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            random.seed(0)
            draws.append(_draw(subject, 5, None))
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
    different(*draws)


@case("draws are new arrays that can be written to", needs=["sampling"])
def _(subject):
    draws = _draw(subject, 5)
    check(draws.flags.writeable, "the draws cannot be written to")
    draws[:] = np.nan
    all_finite(_draw(subject, 5), "the draws")


@case("drawing does not change the density", needs=["sampling"])
def _(subject):
    _draw(subject, 100, 5)
    same(fitted(subject).score_samples(points()), answers(subject))


@case("draws are no copies of the samples, nor of each other", needs=["sampling"])
def _(subject):
    draws = _draw(subject, 2000)
    check(len(np.unique(draws, axis=0)) == 2000, "some draws are equal")
    check(not np.isin(draws, hills()).any(), "some draws are samples")


def _same_distribution(found, draws):
    for feature in range(draws.shape[1]):
        chance = stats.ks_2samp(found[:, feature], draws[:, feature]).pvalue
        check(chance > 1e-4, f"feature {feature} is distributed otherwise (p = {chance:.1g})")


@case("single draws are distributed like many at once", needs=["sampling"])
def _(subject):
    rng = np.random.RandomState(1)
    singles = np.concatenate([_draw(subject, 1, rng) for _ in range(300)])
    _same_distribution(singles, _draw(subject, 4000, 2))


@case("single draws with seeds 0, 1, 2 and so on are distributed like many", needs=["sampling"])
def _(subject):
    singles = np.concatenate([_draw(subject, 1, seed) for seed in range(150)])
    _same_distribution(singles, _draw(subject, 4000, 2))


@case("the first draws of many are distributed like the last", needs=["sampling"])
def _(subject):
    draws = _draw(subject, 4000)
    _same_distribution(draws[:1000], draws[-1000:])


@case("draws from different clusters do not depend on each other", needs=["sampling"])
def _(subject):
    draws = _draw(subject, 2000)
    second = draws.sum(axis=1) > 6
    parts = [draws[~second], draws[second]]
    size = min(map(len, parts))
    for ours in parts[0][:size].T:
        for theirs in parts[1][:size].T:
            correlation = np.corrcoef(ours, theirs)[0, 1]
            check(abs(correlation) < _ERRORS / np.sqrt(size), f"they correlate {correlation:.2f}")


@case("a draw does not depend on the one before", needs=["sampling"])
def _(subject):
    draws = _draw(subject, 4000)
    for column in draws.T:
        correlation = np.corrcoef(column[1:], column[:-1])[0, 1]
        check(abs(correlation) < _ERRORS / np.sqrt(4000), f"they correlate {correlation:.2f}")


@case("draws have the mean and the covariance of the density", needs=["sampling", "integral"])
def _(subject):
    nodes, mass = masses(subject)
    draws = _draw(subject, 20_000)
    mean = mass @ nodes
    products = {(0,): nodes[:, 0] - mean[0], (1,): nodes[:, 1] - mean[1]}
    for key in ((0,), (1,), (0, 0), (0, 1), (1, 1)):
        of_nodes = np.prod([products[(i,)] for i in key], axis=0)
        of_draws = np.prod([draws[:, i] - mean[i] for i in key], axis=0)
        expected = mass @ of_nodes
        error = np.sqrt(of_draws.var() / len(draws)) + 0.005 * np.sqrt(mass @ of_nodes**2)
        off = abs(of_draws.mean() - expected)
        check(off < _ERRORS * error, f"moment {key} is off by {off:.3g}")


@case("draws fall on the clusters by their mass", needs=["sampling", "integral"])
def _(subject):
    nodes, mass = masses(subject)
    expected = mass[nodes.sum(axis=1) > 6].sum()
    found = np.mean(_draw(subject, 20_000, 3).sum(axis=1) > 6)
    error = np.sqrt(expected * (1 - expected) / 20_000) + 0.003
    check(abs(found - expected) < _ERRORS * error, f"{found:.3f} in place of {expected:.3f}")


@case("draws have the log densities that the density promises", needs=["sampling", "integral"])
def _(subject):
    mass = masses(subject)[1]
    logs = np.log(np.where(mass > 0, mass, 1.0) / AREA)
    expected = mass @ np.where(mass > 0, logs, 0.0)
    found = fitted(subject).score_samples(_draw(subject, 20_000, 4))
    all_finite(found)
    error = found.std() / np.sqrt(len(found)) + 0.01
    check(abs(found.mean() - expected) < _ERRORS * error, f"{found.mean()}, not {expected}")


@case("a copy draws the same", needs=["sampling"])
def _(subject):
    for again in (copy.deepcopy(fitted(subject)), pickle.loads(pickle.dumps(fitted(subject)))):
        same(again.sample(9, random_state=3), _draw(subject, 9, 3), what="the draws")


@case("draws can be taken in ten dimensions", needs=["sampling"])
def _(subject):
    X = one_hill(24, 10)
    draws = subject.fit(X).sample(500, random_state=0)
    check(draws.shape == (500, 10), f"the draws have shape {draws.shape}")
    off = np.abs(draws.mean(axis=0) - X.mean(axis=0)).max()
    check(off < 0.6, f"their mean is off by {off:.2f}")


@case("draws of one feature are a column", needs=["sampling"])
def _(subject):
    draws = subject.fit(one_hill(30, 1)).sample(6, random_state=0)
    check(draws.shape == (6, 1), f"the draws have shape {draws.shape}")


@case(
    "a density fitted to draws is close to the one they come from",
    needs=["sampling", "smoothness"],
)
def _(subject):
    again = subject.fit(_draw(subject, 60, 5))
    X = _draw(subject, 60, 6)
    lost = np.mean(fitted(subject).score_samples(X) - again.score_samples(X))
    check(lost < 1, f"the mean log density falls by {lost:.2f}")
