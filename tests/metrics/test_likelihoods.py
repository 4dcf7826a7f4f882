"""Ranks of models by the log densities of held-out samples."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ttest_rel

from sevenhills import ROME, AutoROME, GaussianKDE, GaussianMixtureBIC, KernelMixture, datasets
from sevenhills.folds import hold_out, mixed_generator
from sevenhills.metrics import (
    SeenSamplesWarning,
    UnnormalizedWarning,
    compare_likelihoods,
    mean_log_likelihood,
)

TRAIN, TEST = datasets.load("aniso").split(run=0, n_samples=300)


@pytest.fixture(scope="module")
def models():
    return {"kde": GaussianKDE().fit(TRAIN), "gmm": GaussianMixtureBIC().fit(TRAIN)}


def test_figures_are_those_of_single_models_and_of_paired_t_tests(models):
    found = compare_likelihoods(models, TEST)
    assert [row.model for row in found.summary] == ["gmm", "kde"]
    for name, model in models.items():
        alone = mean_log_likelihood(model, TEST)
        assert_allclose([found[name].mean, found[name].standard_error], [alone, alone.std_error])
    test = ttest_rel(*(models[name].score_samples(TEST) for name in ("kde", "gmm")))
    row, interval = found["kde"], test.confidence_interval(0.95)
    assert_allclose(row.difference, row.mean - found["gmm"].mean)
    assert_allclose([row.low, row.high, row.p_value], [*interval, test.pvalue], rtol=1e-6)
    assert np.isnan([found["gmm"].difference, found["gmm"].p_value]).all()
    assert (found["gmm"].rank, row.rank, found.ties) == ("1", "2", ())


def test_known_log_densities_and_a_table(models):
    scores = {name: model.score_samples(TEST) for name, model in models.items()}
    found = compare_likelihoods(scores)
    assert repr(found) == repr(compare_likelihoods(models, TEST))
    n_samples = len(TEST)
    text = " ".join(repr(found).split())
    assert f"All models can be told apart by these {n_samples} samples." in text
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)
    assert list(found.to_pandas()["model"]) == ["gmm", "kde"]
    assert "<table" in found._repr_html_()
    with pytest.raises(ValueError, match=f"same samples, got {n_samples} of kde, 2 of other"):
        compare_likelihoods({"kde": scores["kde"], "other": [0.0, 1.0]})


def test_equal_models_are_rarely_told_apart():
    """All ranks hold together: at most 5 % of rankings of equal models find a difference."""
    rng = np.random.RandomState(0)
    wrong = 0
    for _ in range(400):
        common = rng.standard_normal(60)
        scores = {f"m{i}": common + rng.standard_normal(60) for i in range(4)}
        wrong += len(compare_likelihoods(scores).ties[0]) < 4
    assert wrong <= 35  # 1 of 1,000 for a probability of 0.05


def test_cross_validation_is_a_loop_over_folds():
    recipes = {"rome": ROME(), "kde": GaussianKDE()}
    X = TRAIN[:60]
    found = compare_likelihoods(recipes, X, cv=3)
    held_out = hold_out(np.ones(60), 3, mixed_generator(0, X)) > 0
    assert (held_out.sum(axis=0) == 1).all()
    for name, recipe in recipes.items():
        scores = np.concatenate([recipe.fit(X[~fold]).score_samples(X[fold]) for fold in held_out])
        assert_allclose(found[name].mean, scores.mean())
    assert found.n_samples == 60
    assert compare_likelihoods(recipes, X, cv=0.25).n_samples == 15
    with pytest.raises(ValueError, match="2 are needed"):
        compare_likelihoods(recipes, X[:1], cv=2)
    with pytest.raises(TypeError, match=r"models\['a'\] must be an estimator"):
        compare_likelihoods({"a": [0.0]}, X, cv=2)
    with pytest.raises(ValueError, match=r"models\['kde'\] cannot be fitted"):
        compare_likelihoods({"kde": GaussianKDE()}, np.ones((9, 2)), cv=3)


def test_features_are_found_by_name():
    frame, new = pd.DataFrame(TRAIN, columns=["x", "y"]), pd.DataFrame(TEST, columns=["x", "y"])
    a, b = GaussianKDE().fit(frame), GaussianKDE().fit(frame[["y", "x"]])
    found = compare_likelihoods({"a": a, "b": b}, new.assign(z="word"))
    assert_allclose(found["a"].mean, found["b"].mean)
    assert found.ties == (("a", "b"),)
    other = GaussianKDE().fit(frame.rename(columns={"y": "w"}))
    with pytest.raises(ValueError, match=r"only a has \['y'\]; only other has \['w'\]"):
        compare_likelihoods({"a": a, "other": other}, new)
    with pytest.raises(ValueError, match=r"X lacks the features \['y'\]"):
        compare_likelihoods({"a": a}, new[["x"]])


def test_a_density_that_vanishes_at_a_sample_is_last():
    finite, half = np.zeros(9), np.where(np.arange(9) == 4, -np.inf, 5.0)
    found = compare_likelihoods({"half": half, "finite": finite, "same": half})
    assert [row.model for row in found.summary] == ["finite", "half", "same"]
    assert [row.rank for row in found.summary] == ["1", "2-3", "2-3"]
    assert "-inf" in repr(found)
    one = compare_likelihoods({"a": [1.0], "b": [0.0]})
    assert one.ties == (("a", "b"),)


@pytest.mark.parametrize("recipe", [GaussianKDE(), ROME(scale="std")])
def test_training_samples_are_recognized(recipe):
    model = recipe.fit(TRAIN)
    with pytest.warns(SeenSamplesWarning, match="samples are centers of kernels"):
        compare_likelihoods({"a": model}, TRAIN)
    compare_likelihoods({"a": model}, TEST)


def test_refused_arguments(models):
    with pytest.raises(TypeError, match="mapping"):
        compare_likelihoods([models["kde"]], TEST)
    with pytest.raises(ValueError, match="at least one"):
        compare_likelihoods({})
    with pytest.raises(TypeError, match="X is missing"):
        compare_likelihoods(models)
    with pytest.raises(TypeError, match=r"models\['a'\] must have score_samples"):
        compare_likelihoods({"a": 3}, TEST)
    with pytest.raises(ValueError, match="confidence"):
        compare_likelihoods(models, TEST, confidence=2)
    knn = ROME(density="knn").fit(TRAIN)
    with pytest.warns(UnnormalizedWarning, match="ranking"):
        compare_likelihoods({"knn": knn}, TEST)


def test_any_density_will_do():
    density = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [np.eye(2)])
    found = compare_likelihoods({"plain": density, "auto": AutoROME().fit(TRAIN)}, TEST)
    assert [row.rank for row in found.summary] == ["1", "2"]
