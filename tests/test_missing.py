import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest

from sevenhills import ROME, VineDensity

from .densities import ESTIMATORS, fitted, samples


def holes(X, seed=0, share=0.4):
    rng = np.random.RandomState(seed)
    X = np.array(X)
    X[rng.uniform(size=X.shape) < share] = np.nan
    return X


@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_with_missing_values_are_scored_by_what_is_there(name):
    model = fitted(name, 4)
    X = np.concatenate([holes(samples(4)[:60]), samples(4)[:3], np.full((1, 4), np.nan)])
    found = model.score_samples(X, missing="marginal")
    for x, score in zip(X, found, strict=True):
        there = np.flatnonzero(~np.isnan(x))
        expected = model.marginal(there).logpdf(x[None, there])[0] if len(there) else 0.0
        assert_allclose(score, expected, rtol=1e-12)
    assert_array_equal(model.score_samples(samples(4)), model.score_samples(samples(4), "marginal"))
    for ask in (model.score_samples, model.density_.logpdf):
        with pytest.raises(ValueError, match="NaN"):
            ask(X)
        with pytest.raises(ValueError, match="infinity"):
            ask([[np.inf, 0.0, 0.0, np.nan]], missing="marginal")
        with pytest.raises(ValueError, match="missing must be one of"):
            ask(X, missing="drop")


def test_frames_with_missing_values():
    names = ["x", "y", "speed"]
    model = ROME().fit(pd.DataFrame(samples(3), columns=names))
    X = holes(samples(3)[:20])
    assert_array_equal(
        model.score_samples(pd.DataFrame(X, columns=names), missing="marginal"),
        model.density_.logpdf(X, missing="marginal"),
    )


def test_only_kernels_know_marginals():
    for model in (VineDensity(), ROME(density="knn")):
        model.fit(samples())
        with pytest.raises(TypeError, match="missing='marginal' needs a mixture of kernels, but"):
            model.score_samples(samples(), missing="marginal")
        with pytest.raises(TypeError, match="conditional needs a mixture of kernels"):
            model.conditional({0: 0.0})


@pytest.mark.parametrize("name", ESTIMATORS)
def test_imputed_means_are_those_of_the_conditional(name):
    model = fitted(name, 4)
    X = holes(samples(4)[:40])
    filled = model.impute(X)
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    for x, found in zip(X, filled, strict=True):
        lost, there = np.isnan(x), np.flatnonzero(~np.isnan(x))
        if lost.all():
            expected = model.mean()
        elif lost.any():
            expected = model.conditional({i: x[i] for i in there.tolist()}).mean()
        else:
            continue
        assert_allclose(found[lost], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_imputed_draws_follow_the_conditional(name):
    model = fitted(name, 4)
    x = samples(4)[3]
    rows = np.tile([x[0], np.nan, x[2], np.nan], (3000, 1))
    drawn = model.impute(rows, method="sample", random_state=0)[:, [1, 3]]
    left = model.conditional({0: x[0], 2: x[2]})
    for i in range(2):
        assert kstest(drawn[:, i], left.marginal(i).cdf).pvalue > 0.01
    assert abs(np.corrcoef(drawn.T)[0, 1] - _correlation(left.cov())) < 0.1
    again = model.impute(rows, method="sample", random_state=0)[:, [1, 3]]
    assert_array_equal(drawn, again)


def _correlation(covariance):
    return covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_imputed_modes_are_the_highest_places(name):
    model = fitted(name, 4)
    X = holes(samples(4)[:8], share=0.5)
    filled = model.impute(X, method="mode")
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    drawn = np.tile(X, (200, 1))
    drawn = model.impute(drawn, method="sample", random_state=0)
    best = model.score_samples(drawn).reshape(200, len(X)).max(axis=0)
    assert (model.score_samples(filled) >= best - 1e-9).all()


def test_imputing_bad_input():
    model = fitted("rome")
    with pytest.raises(ValueError, match="method must be one of"):
        model.impute(samples(), method="median")
    with pytest.raises(ValueError, match="in row 1 is zero"):
        model.impute([[0.0, np.nan], [1e300, np.nan]])
    assert_array_equal(model.impute(samples()), samples())
    with pytest.raises(ValueError, match="features"):
        model.impute([[np.nan]])
