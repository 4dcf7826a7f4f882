"""Parameters that are wrong: an error at the fit that names the parameter."""

import numpy as np
from sklearn.base import clone

from .checks import check, refused, same
from .data import fitted, hills, points
from .registry import family, group

case = group("parameter abuse")

_NUMBERS = {
    "min_std",
    "resolution",
    "bw_method",
    "alpha_k",
    "reg_covar",
    "bandwidth",
    "atol",
    "rtol",
}
_NO_CHOICE = {
    "n_jobs",
    "random_state",
    "selection",
    "scale",
    "shrinkage",
    "resolution",
    "support",
    "n_directions",
    "maps",
    "bw_method",
    "members",
    "metric_params",
}
_FROM_ZERO = {
    "min_std",
    "resolution",
    "random_state",
    "truncation",
    "n_directions",
    "maps",
    "n_eps",
    "n_xi",
    "exact_below",
}
_FLAGS = {"decorrelate", "normalize", "breadth_first", "verbose"}

#: Values, and the parameters that rightly take them.
_ABUSES = {
    "minus one": (-1, {"n_jobs"}),
    "zero": (0, _FROM_ZERO | {"atol", "rtol", "reg_covar"}),
    "NaN": (np.nan, {}),
    "infinity": (np.inf, {}),
    "a word": ("x", {}),
    "an empty word": ("", {}),
    "bytes": (b"auto", {}),
    "a list": ([1, 2], {"bandwidths", "resolution"}),
    "a dictionary": ({"a": 1}, {"metric_params"}),
    "an array": (np.array([0.5, 1.0]), {"bandwidths", "resolution"}),
    "an object": (object(), {}),
    "None": (None, _NO_CHOICE),
    "True": (True, _FLAGS | {"n_jobs"}),
    "a fraction": (2.5, _NUMBERS),
    "a complex number": (1j, {}),
    "NaN in a list": ([np.nan], {}),
}


def _fit_with(subject, name, value):
    return subject.make_with(name, value).fit(hills(24))


@family(case, "every parameter refuses {} by its name", _ABUSES)
def _(subject, abuse):
    value, takers = abuse
    _refused_by_name(subject, value, [each for each in subject.parameters() if each not in takers])


def _refused_by_name(subject, value, names):
    failures = []
    for name in names:
        try:
            refused(lambda name=name: _fit_with(subject, name, value), name)
        except Exception as failure:
            failures.append(f"{name}: {failure}")
    check(not failures, "; ".join(failures))


@case("every parameter that is a number refuses one beyond all floats by its name")
def _(subject):
    _refused_by_name(subject, 10**400, [each for each in subject.parameters() if each in _NUMBERS])


@case("numpy's numbers are as good as Python's")
def _(subject):
    model = subject.make()
    for name in subject.parameters():
        value = getattr(model, name)
        if type(value) in (int, float):
            setattr(model, name, np.asarray(value)[()])
    same(model.fit(hills()).score_samples(points()), fitted(subject).score_samples(points()))


@case("the constructor takes anything and keeps it")
def _(subject):
    make = type(subject.make())
    for value, _ in _ABUSES.values():
        for name in subject.parameters():
            check(getattr(make(**{name: value}), name) is value, f"{name} is not kept as given")


@case("an unknown parameter is refused by the constructor")
def _(subject):
    refused(lambda: type(subject.make())(bandwith=1.0), "bandwith")


@case("an unknown parameter is refused by set_params", needs=["estimator"])
def _(subject):
    refused(lambda: subject.make().set_params(bandwith=1.0), "bandwith")


@case("a clone has the same parameters", needs=["estimator"])
def _(subject):
    model = subject.make()
    check(clone(model).get_params() == model.get_params(), "parameters differ")


@case("a wrong parameter does not keep from cloning", needs=["estimator"])
def _(subject):
    for name in subject.parameters():
        check(clone(subject.make_with(name, "x")).get_params()[name] == "x", f"{name} is lost")


@case("fit changes no parameter")
def _(subject):
    before, model = subject.make(), fitted(subject)
    for name in subject.parameters():
        check(repr(getattr(before, name)) == repr(getattr(model, name)), f"{name} has changed")


@family(case, "{} threads give the same bits as one", {"two": 2, "all": -1}, needs=["threads"])
def _(subject, n_jobs):
    model = subject.make_with("n_jobs", n_jobs).fit(hills())
    many = np.concatenate([points(seed=seed) for seed in range(60)])
    same(model.score_samples(many), fitted(subject).score_samples(many))
