"""Questions that are asked of estimators, and what their densities know of the samples."""

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from sevenhills import (
    ROME,
    AutoROME,
    KernelMixture,
    datasets,
    load,
    save,
)
from sevenhills.density import Density
from sevenhills.estimators.base import DensityEstimator, _Delegate

from ..densities import fitted, samples
from .estimators import EVERY, WITH_KERNELS

WITHOUT_KERNELS = [each for each in EVERY if each not in WITH_KERNELS]
QUESTIONS = sorted(n for n, each in vars(DensityEstimator).items() if isinstance(each, _Delegate))
#: Questions that take no arguments, or points.
ALONE = ("mean", "cov", "entropy", "modes", "mode")
OF_POINTS = (
    "effective_sample_size", "grad_logpdf", "hdr_probability", "hess_logpdf", "is_extrapolation",
    "predict", "predict_proba",
)  # fmt: skip


def answer(value):
    """An answer as arrays."""
    if hasattr(value, "locations"):
        return [value.locations, value.shares]
    return list(value) if isinstance(value, tuple) else [np.asarray(value)]


@pytest.mark.parametrize("model", WITH_KERNELS, ids=repr)
def test_estimators_answer_as_their_densities_do(model):
    model = type(model)(**model.get_params()).fit(samples(n_samples=120))
    X = samples(n_samples=120)[:7]
    for name in (*ALONE, *OF_POINTS):
        arguments = (X,) if name in OF_POINTS else ()
        found = getattr(model, name)(*arguments)
        expected = getattr(model.density_, name)(*arguments)
        for one, other in zip(answer(found), answer(expected), strict=True):
            assert_array_equal(one, other)


def test_all_questions_can_be_asked_of_estimators():
    public = {
        name
        for name in dir(KernelMixture)
        if not name.startswith("_") and callable(getattr(KernelMixture, name))
    }
    elsewhere = {"component", "from_covariances", "logpdf", "merge", "pdf", "sample"}
    elsewhere |= {"framed_like", "latent_view", "unrolled"}  # views for plots
    elsewhere |= {"with_output"}  # set_output of estimators
    assert public - elsewhere == set(QUESTIONS)


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_are_documented_and_need_a_fit(name):
    asked, of_density = getattr(ROME, name), getattr(KernelMixture, name)
    assert asked.__doc__ == of_density.__doc__
    assert inspect.signature(asked) == inspect.signature(of_density)
    with pytest.raises(NotFittedError):
        getattr(ROME(), name)()


@pytest.mark.parametrize("model", WITHOUT_KERNELS, ids=repr)
def test_only_methods_of_the_density_are_offered(model):
    """``hasattr`` tells the truth, before and after the fit."""
    model = type(model)(**model.get_params())
    normalized = not isinstance(model, ROME)
    for _ in range(2):
        for name in QUESTIONS:
            offered = normalized and name in vars(Density)
            assert hasattr(model, name) == offered
            if not offered:
                with pytest.raises(TypeError, match=f"{name} needs a .*, but"):
                    getattr(model, name)
        model.fit(samples())


@pytest.mark.parametrize("model", WITH_KERNELS, ids=repr)
def test_all_methods_are_offered_for_kernels(model):
    assert all(hasattr(model, name) for name in QUESTIONS)


def test_threads_are_those_of_the_estimator(monkeypatch):
    seen = []
    monkeypatch.setattr(
        KernelMixture, "grad_logpdf", lambda self, X, n_jobs=None: seen.append(n_jobs)
    )
    model = ROME(n_jobs=2).fit(samples())
    model.grad_logpdf(samples())
    model.grad_logpdf(samples(), 1)
    model.grad_logpdf(samples(), n_jobs=None)
    assert seen == [2, 1, None]


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="unexpected"):
        fitted("rome").marginal([0], speed=3)
    with pytest.raises(TypeError, match="features"):
        fitted("rome").marginal()


@pytest.mark.parametrize("model", WITH_KERNELS, ids=repr)
def test_the_density_knows_how_many_samples_it_is_made_from(model):
    model = type(model)(**model.get_params())
    density = model.fit(samples()).density_
    assert_allclose(density.counts.sum(), 300)
    assert_allclose(density.counts, 300 * density.weights)
    weights = np.linspace(0.5, 2.0, 300)
    assert_allclose(
        model.fit(samples(), sample_weight=weights).density_.counts.sum(), weights.sum()
    )


@pytest.mark.parametrize("density", ["kde", "gaussian", "mpw"])
def test_the_density_knows_its_clusters(density):
    X, _ = datasets.load("varied").split(run=0, n_samples=1200)
    model = ROME(density=density).fit(X)
    density = model.density_
    masses = np.add.reduceat(density.weights, density.offsets[:-1])
    for cluster in model.clusters_:
        assert_allclose(masses[density.clusters == cluster.label].sum(), cluster.share, rtol=1e-9)
    assert model.predict_proba(X).shape == (len(X), len(model.clusters_))
    assert np.mean(model.predict(X) == model.labels_) > 0.95


def test_labels_that_were_given_are_kept():
    labels = np.where(samples()[:, 0] > 0, 7, 3)
    labels[:4] = -1
    model = ROME().fit(samples(), labels=labels)
    assert_array_equal(np.unique(model.density_.clusters), [-1, 3, 7])
    assert set(model.predict(samples())) == {3, 7}
    assert model.predict_proba(samples()).shape == (len(samples()), 3)


def test_auto_knows_its_clusters():
    X = np.concatenate([samples(), [[1e3, 1e3]]])
    model = AutoROME().fit(X)
    assert set(model.density_.clusters) == {-1, *(cluster.label for cluster in model.clusters_)}
    assert np.mean(model.predict(X) == model.labels_) > 0.95


def test_conditionals_can_be_stored(tmp_path):
    frame = pd.DataFrame(samples(3), columns=["a", "b", "c"])
    model = ROME().fit(frame)
    left = model.conditional({"b": 40.0})
    assert (left.weights == 0).any()
    save(left, tmp_path / "left.npz")
    save(model, tmp_path / "model.npz")
    for again in (load(tmp_path / "left.npz"), pickle.loads(pickle.dumps(left))):
        assert again.feature_names == ("a", "c")
        for name in ("log_weights", "counts", "clusters"):
            assert_array_equal(getattr(again, name), getattr(left, name))
        X = np.array([[0.0, 0.0], [90.0, -90.0]])
        assert_array_equal(again.logpdf(X), left.logpdf(X))
    again = load(tmp_path / "model.npz")
    assert_array_equal(again.conditional({"b": 40.0}).logpdf(X), left.logpdf(X))


def test_a_failed_refit_keeps_the_density():
    model = ROME().fit(samples())
    before = model.density_
    with pytest.raises(ValueError, match="NaN"):
        model.fit([[np.nan, 1.0]])
    assert model.density_ is before
