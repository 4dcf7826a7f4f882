"""What a model keeps, what it does not touch, and how it gets on with its neighbours."""

import copy
import hashlib
import inspect
import json
import os
import pickle
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import sevenhills

from . import subjects
from .checks import Failed, check, not_fitted, refused, same
from .data import answers, fitted, hills, one_hill, points
from .registry import family, group, one_thread

case = group("state and API")

_LAYOUTS = {
    "rows": lambda X: X,
    "columns": np.asfortranarray,
    "floats of 32 bits": lambda X: X.astype(np.float32),
    "a transposed array": lambda X: X.T.copy().T,
}


@family(case, "samples given as {} may be changed after the fit", _LAYOUTS)
def _(subject, layout):
    X = layout(hills(24))
    model = subject.fit(X)
    model.score_samples(points())
    before = copy.deepcopy(model).score_samples(points())
    X[:] = 0.0
    same(model.score_samples(points()), before)


@case("a pandas table may be changed after the fit")
def _(subject):
    table = pd.DataFrame(hills(24))
    model = subject.fit(table)
    before = copy.deepcopy(model).score_samples(points())
    table.loc[:, :] = 0.0
    same(model.score_samples(points()), before)


@family(case, "samples given as {} are not written to", _LAYOUTS)
def _(subject, layout):
    X = layout(hills(24))
    before = X.copy()
    subject.fit(X).score_samples(X)
    same(X, before, what="the samples")


@case("fit returns the estimator")
def _(subject):
    model = subject.make()
    check(model.fit(hills(24)) is model, "it does not")


@case("fit ignores y", needs=["estimator"])
def _(subject):
    model = subject.make().fit(hills(), np.arange(48))
    same(model.score_samples(points()), answers(subject))


@case("fitting twice gives the same bits")
def _(subject):
    model = subject.fit(hills())
    same(model.score_samples(points()), answers(subject))
    same(model.fit(hills()).score_samples(points()), answers(subject))


@case("another fit replaces everything")
def _(subject):
    model = subject.fit(pd.DataFrame(one_hill(20, 3), columns=["a", "b", "c"]))
    model.fit(hills())
    same(model.score_samples(points()), answers(subject))
    check(vars(model).keys() == vars(fitted(subject)).keys(), "some attributes are left over")


def _keeps_its_model(model, expected):
    """Return the demand that a model still gives the answers that it gave."""
    same(model.score_samples(points()), expected)
    check(getattr(model, "n_features_in_", 2) == 2, "n_features_in_ has changed")


_REFUSALS = {
    "samples with NaN": np.full((5, 3), np.nan),
    "no samples": np.empty((0, 2)),
    "a vector": np.arange(5.0),
    "words": [["a", "b"], ["c", "d"]],
    "samples of an impossible spread": np.array([[-1.7e308], [1.7e308], [0.0]]),
}


@family(case, "a refit that is refused for {} keeps the old model", _REFUSALS)
def _(subject, X):
    model = copy.deepcopy(fitted(subject))
    try:
        model.fit(X)
    except Exception:
        _keeps_its_model(model, answers(subject))
        return
    raise Failed("accepted")


@case("a refit that is refused for a parameter keeps the old model")
def _(subject):
    for name in subject.parameters():
        model = copy.deepcopy(fitted(subject))
        kept = getattr(model, name)
        setattr(model, name, object())
        refused(lambda model=model: model.fit(one_hill(20, 3)))
        setattr(model, name, kept)
        _keeps_its_model(model, answers(subject))


@case("a refused first fit leaves the estimator unfitted", needs=["unfitted"])
def _(subject):
    model = subject.make()
    before = dict(vars(model))
    refused(lambda: model.fit([[np.nan, 1.0], [0.0, 1.0]]))
    check(vars(model) == before, "something was left behind")
    not_fitted(lambda: model.score_samples(points()))


#: Calls into these packages are where a fit is interrupted.
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("sevenhills", "sklearn", "scipy"))


@contextmanager
def _interrupted_at(call):
    """Raise KeyboardInterrupt at a call of a function; yield the list of calls so far."""
    calls = []

    def watch(frame, event, _):
        code = frame.f_code
        plain = not code.co_flags & inspect.CO_GENERATOR  # Python ignores what closing one raises
        if event == "call" and plain and any(name in code.co_filename for name in _PACKAGES):
            calls.append(code.co_name)
            if len(calls) == call:
                raise KeyboardInterrupt

    previous = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield calls
    finally:
        sys.setprofile(previous)


@cache
def _calls_of_a_fit(subject):
    for _ in range(2):  # the first one may compile, import and fill caches
        model = subject.make()
        with _interrupted_at(None) as calls:
            model.fit(one_hill(24, 2))
    return len(calls)


def _fit_interrupted(subject, part):
    """Return an estimator that was fitted to the hills and then interrupted in a refit."""
    call = max(2, int(part * _calls_of_a_fit(subject)))
    model = copy.deepcopy(fitted(subject))
    try:
        with _interrupted_at(call):
            model.fit(one_hill(24, 2))
    except KeyboardInterrupt:
        return model
    raise Failed("the interrupt was swallowed")


@family(
    case,
    "an interrupt {} of a refit is passed on and keeps the old model",
    {"at the beginning": 0.0, "in the first half": 0.3, "in the second half": 0.6, "late": 0.9},
)
def _(subject, part):
    _keeps_its_model(_fit_interrupted(subject, part), answers(subject))


@case("an interrupted estimator can be fitted again")
def _(subject):
    model = _fit_interrupted(subject, 0.5)
    same(model.fit(hills()).score_samples(points()), answers(subject))


@case("a clone of a fitted estimator is not fitted", needs=["estimator"])
def _(subject):
    again = clone(fitted(subject))
    not_fitted(lambda: check_is_fitted(again))
    not_fitted(lambda: again.score_samples(points()))


@case("an estimator can be printed before and after the fit")
def _(subject):
    for model in (subject.make(), fitted(subject)):
        check(len(repr(model)) > 3 and len(str(model)) > 3, "it has no text")


@case("a fit does not change how an estimator is printed", needs=["estimator"])
def _(subject):
    check(repr(subject.make()) == repr(fitted(subject)), "it does")


@case("get_params and set_params fit together", needs=["estimator"])
def _(subject):
    model = type(subject.make())().set_params(**subject.make().get_params())
    check(model.get_params() == subject.make().get_params(), "they do not")


COPIES = {
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
    "pickled by protocol 2": lambda model: pickle.loads(pickle.dumps(model, 2)),
    "copied deeply": copy.deepcopy,
    "copied": copy.copy,
    "dumped by joblib": lambda model: through_a_file(model, joblib.dump, joblib.load),
}


def through_a_file(model, save, load):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        save(model, path)
        return load(path)


@family(case, "a model that is {} gives the same answers", COPIES)
def _(subject, copied):
    again = copied(fitted(subject))
    same(again.score_samples(points()), answers(subject))
    check(vars(again).keys() == vars(fitted(subject)).keys(), "some attributes are lost")


@case("an estimator can be pickled before the fit")
def _(subject):
    model = pickle.loads(pickle.dumps(subject.make()))
    same(model.fit(hills()).score_samples(points()), answers(subject))


@case("a saved model gives the same answers and draws", needs=["files"])
def _(subject):
    again = through_a_file(fitted(subject), sevenhills.save, sevenhills.load)
    check(type(again) is type(fitted(subject)), f"it is a {type(again).__name__}")
    same(again.score_samples(points()), answers(subject))
    if subject.can("sampling"):
        draws = fitted(subject).sample(9, random_state=1)
        same(again.sample(9, random_state=1), draws, what="the draws")


@case("saving a model that is not fitted is refused", needs=["files"])
def _(subject):
    refused(lambda: through_a_file(subject.make(), sevenhills.save, sevenhills.load))


@case("four threads may fit at the same time")
def _(subject):
    sets = [hills(16, seed=seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda X: subject.fit(X).score_samples(X), sets))
    for X, scores in zip(sets, found, strict=True):
        same(scores, subject.fit(X).score_samples(X))


@case("four threads may ask one model at the same time")
def _(subject):
    model = pickle.loads(pickle.dumps(fitted(subject)))  # with nothing computed in advance
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(model.score_samples, [points()] * 12))
    for scores in found:
        same(scores, answers(subject))


@case("four threads may draw from one model at the same time", needs=["sampling"])
def _(subject):
    model = fitted(subject)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: model.sample(50, random_state=seed), range(8)))
    for seed, draws in enumerate(found):
        same(draws, model.sample(50, random_state=seed), what="the draws")


def _digest(subject):
    return hashlib.sha256(subject.fit(hills()).score_samples(points()).tobytes()).hexdigest()


def print_digests():
    """Print what every subject answers; called in a process of its own."""
    with one_thread():
        found = {each.name: _digest(each) for each in (*subjects.OURS, *subjects.PEERS)}
    print(json.dumps(found))


@cache
def _fresh_process():
    """Fit every subject in one other process, with other hashes of strings."""
    code = "from tests.laws.torture.state import print_digests; print_digests()"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=900,
    )


@case("another process with other hashes gives the same bits")
def _(subject):
    lines = _fresh_process().stdout.splitlines() or ["{}"]
    found = json.loads(lines[-1])
    check(found.get(subject.name) == _digest(subject), "it does not")


@case("importing and fitting print nothing in a fresh process")
def _(subject):
    done = _fresh_process()
    check(len(done.stdout.splitlines()) == 1 and not done.stderr, f"printed: {done.stderr[:200]!r}")


@case("what is learned ends with an underscore", needs=["estimator"])
def _(subject):
    learned = vars(fitted(subject)).keys() - set(subject.parameters())
    wrong = [name for name in learned if not name.endswith("_") and not name.startswith("_")]
    inherited = vars(type(subject.make())()).keys()
    check(not set(wrong) - inherited, f"{wrong} do not")


@case("n_features_in_ is the number of features", needs=["estimator"])
def _(subject):
    check(fitted(subject).n_features_in_ == 2, f"it is {fitted(subject).n_features_in_}")


@case("the arrays of density_ cannot be written to", needs=["value"])
def _(subject):
    arrays = list(_arrays_of(fitted(subject).density_))
    check(arrays, "there are none")
    for name, array in arrays:
        check(not array.flags.writeable, f"{name} can be")


def _arrays_of(value, name="density_"):
    """Return the arrays among the attributes of a value, and of theirs."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, tuple):
        for i, each in enumerate(value):
            yield from _arrays_of(each, f"{name}[{i}]")
    elif type(value).__module__.startswith("sevenhills."):
        for key, each in vars(value).items():
            if not key.startswith("_"):
                yield from _arrays_of(each, f"{name}.{key}")


@case("there is one label for each sample", needs=["labels"])
def _(subject):
    labels = fitted(subject).labels_
    check(labels.shape == (48,), f"labels_ have shape {labels.shape}")
    check(labels.dtype.kind == "i" and labels.min() >= -1, "they are no labels")


@case("the labels belong to the rows as given", needs=["labels", "row order"])
def _(subject):
    rows = np.random.RandomState(0).permutation(48)
    expected = fitted(subject).labels_[rows]
    same(subject.fit(hills()[rows]).labels_, expected, what="the labels")


@case("it works in a pipeline", needs=["estimator"])
def _(subject):
    scaler = StandardScaler().fit(hills())
    expected = subject.fit(scaler.transform(hills())).score_samples(scaler.transform(points()))
    pipeline = make_pipeline(StandardScaler(), subject.make()).fit(hills())
    same(pipeline.score_samples(points()), expected)
    check(np.isfinite(pipeline.score(points())), "it has no score")


@case("it works in a grid search", needs=["estimator"])
def _(subject):
    name = subject.parameters()[0]
    grid = {name: [getattr(subject.make(), name)]}
    X = hills(24)[np.random.RandomState(0).permutation(24)]
    search = GridSearchCV(subject.make(), grid, cv=2, error_score="raise").fit(X)
    check(np.isfinite(search.best_score_), "it has no score")
    same(search.best_estimator_.score_samples(X), subject.fit(X).score_samples(X))


@case("fitting and asking leave numpy's and scikit-learn's settings alone")
def _(subject):
    def settings():
        return np.geterr(), np.get_printoptions(), sklearn.get_config(), dict(os.environ)

    before = settings()
    subject.fit(hills(24)).score_samples(points())
    check(settings() == before, "they have changed")


@case("it works where numpy raises on overflow, division and invalid numbers")
def _(subject):
    far = np.concatenate([points(), [[1e200, 1e200]]])
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        model = subject.fit(hills())
        found = model.score_samples(far)
    same(found[:-1], answers(subject), 1e-12)


@case("the fit leaves no files behind")
def _(subject):
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            subject.fit(hills(24)).score_samples(points())
            check(not os.listdir(folder), f"it leaves {os.listdir(folder)}")
        finally:
            os.chdir(before)
