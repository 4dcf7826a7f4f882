"""A number of jobs reaches every place that shares work."""

import inspect
import sys
from copy import deepcopy

import joblib
import pytest
from sklearn.base import clone
from sklearn.utils import parallel

from sevenhills import (
    ROME,
    AutoROME,
    DensityClassifier,
    GaussianKDE,
    KernelMixture,
    ManifoldParzen,
    VineDensity,
    datasets,
    fit_many,
    forecast,
    score_many,
    threads,
)

from .estimators import EVERY, for_each

#: The number that is given.
JOBS = 3
# More rows than one block has, since a single block is not shared.
X, OTHERS = (datasets.load("aniso").sample(n, random_state=n) for n in (300, 400))
#: The methods of densities that share work: the model that is asked, and its arguments.
CALLS = {
    "cdf": ("line", X[:, 0]),
    "compress": ("plane", OTHERS),
    "hdr_probability": ("plane", X),
    "effective_sample_size": ("plane", X),
    "entropy": ("plane",),
    "is_extrapolation": ("plane", X),
    "grad_logpdf": ("plane", X),
    "hdr_contours": ("plane", 0.5),
    "hdr_intervals": ("line", 0.5),
    "hdr_level": ("plane", 0.5),
    "hess_logpdf": ("plane", X),
    "predict": ("plane", X),
    "predict_proba": ("plane", X),
    "logpdf": ("plane", X),
    "modes": ("plane",),
    "pdf": ("plane", X),
    "mode": ("plane",),
    "isf": ("line", [0.1, 0.9]),
    "ppf": ("line", [0.1, 0.9]),
    "sf": ("line", X[:, 0]),
}


@pytest.fixture(scope="module")
def models():
    return {"line": GaussianKDE().fit(X[:, :1]), "plane": ROME().fit(X)}


@pytest.fixture
def used(monkeypatch):
    """Return the list of the numbers of jobs that were asked for; one does the work."""
    numbers = []

    def share(work, n_blocks, n_jobs):
        numbers.append(n_jobs)
        work(range(n_blocks))

    def count(n_jobs=-1):
        numbers.append(n_jobs)
        return 1

    def one_worker(parallel):
        def make(n_jobs=None, **options):
            numbers.append(n_jobs)
            return parallel(n_jobs=1, **options)

        return make

    twins = {threads.map_blocks: share, joblib.effective_n_jobs: count}
    twins |= {each: one_worker(each) for each in (joblib.Parallel, parallel.Parallel)}
    ours = [module for name, module in sys.modules.items() if name.startswith("sevenhills.")]
    for module in ours:
        for original, twin in twins.items():
            if getattr(module, original.__name__, None) is original:
                monkeypatch.setattr(module, original.__name__, twin)
    monkeypatch.setattr("sevenhills.clustering.selection._FEWEST_TO_SHARE", 0)
    monkeypatch.setattr("sevenhills.density.engines._DIRECT_POINTS", 64)
    monkeypatch.setattr("sevenhills.density.engines._OWN_POINTS", 64)
    return numbers


def shares_work(name):
    method = getattr(KernelMixture, name)
    return callable(method) and "n_jobs" in inspect.signature(method).parameters


def test_all_methods_are_called_here():
    public = [name for name in dir(KernelMixture) if not name.startswith("_")]
    assert set(filter(shares_work, public)) == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_methods_of_a_density(name, models, used):
    model, *arguments = CALLS[name]
    # A copy, because a density keeps its draws.
    getattr(deepcopy(models[model].density_), name)(*arguments, n_jobs=JOBS)
    assert JOBS in used
    assert set(used) == {JOBS}


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"logpdf", "pdf"}))
def test_estimators_ask_their_density_with_their_own(name, models, used):
    model, *arguments = CALLS[name]
    getattr(deepcopy(models[model]).set_params(n_jobs=JOBS), name)(*arguments)
    assert JOBS in used
    assert set(used) == {JOBS}


# A vine is fitted and scored by threads of its own library.
@for_each([each for each in EVERY if not isinstance(each, VineDensity)])
def test_estimators_fit_and_score_with_their_own(estimator, used):
    model = clone(estimator).set_params(n_jobs=JOBS).fit(X)
    if not isinstance(model, AutoROME):  # one thread does its members, which are small
        assert set(used) <= {JOBS}
    if isinstance(model, ROME | AutoROME | ManifoldParzen):
        assert JOBS in used
    used.clear()
    model.score_samples(X)
    assert set(used) == {JOBS}


def test_classes_are_shared(used):
    model = DensityClassifier(GaussianKDE(), n_jobs=JOBS).fit(X, (X[:, 0] > 0) * 1)
    assert JOBS in used
    used.clear()
    model.predict(X)
    assert JOBS in used


def test_many_fits_are_shared(used):
    models = fit_many([X[:30], X[30:]], n_jobs=JOBS)
    assert set(used[:2]) == {JOBS}
    used.clear()
    score_many(models, [X, X], n_jobs=JOBS)
    assert set(used[:2]) == {JOBS}


def test_scenes_are_shared(used):
    walks = datasets.make_walks(6, random_state=0)
    samples = walks.law.draw(5, random_state=0)
    forecast.evaluate(samples, walks.truth, measures="nll_step", n_jobs=JOBS)
    assert set(used[:2]) == {JOBS}
