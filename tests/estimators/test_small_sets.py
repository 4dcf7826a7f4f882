"""Many small sets of samples that are fitted at once, beside one fit for each."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import ROME
from sevenhills.estimators.small_sets import fit_small_sets, takes_small_sets
from sevenhills.forecast.path_densities import leave_one_out

from ..strategies import samples


def one_fit(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # features of unequal scales
        return ROME(shrinkage="always").fit(X)


def of_kernels(density):
    """Return means in lexicographic order, and the cluster of each."""
    order = np.lexsort(density.means.T)
    labels = np.repeat(density.clusters, np.diff(density.offsets))
    return density.means[order], labels[order]


def assert_equal_fits(found, X):
    """Compare a fit of many with a fit of one: log densities, and the clusters of kernels."""
    expected = one_fit(X)
    points = np.concatenate([X, X + 0.3 * X.std(axis=0)])
    assert_allclose(
        found.score_samples(points), expected.score_samples(points), rtol=1e-9, atol=1e-8
    )
    assert_array_equal(found.density.clusters, expected.density_.clusters)
    assert_allclose(found.left_out, leave_one_out(expected, X), rtol=1e-9, atol=1e-8)
    for one, other in zip(of_kernels(found.density), of_kernels(expected.density_), strict=True):
        assert_array_equal(one, other)


@given(X=samples(max_samples=40, scales=(1.0, 1e-9, 1e12)), seed=st.integers(0, 2**31))
def test_awkward_sets(X, seed):
    """Sets with ties are left to be fitted one by one."""
    rng = np.random.RandomState(seed)
    X = np.stack([X, rng.standard_normal(X.shape), X[::-1]])
    found = fit_small_sets(X)
    assert found[1] is not None
    assert (found[0] is None) == (found[2] is None)
    for each, own in zip(found, X, strict=True):
        if each is not None:
            assert_equal_fits(each, own)


@pytest.mark.parametrize(("n_samples", "n_features"), [(5, 1), (6, 24), (20, 24), (21, 3), (40, 8)])
def test_sets_of_clusters(n_samples, n_features):
    rng = np.random.RandomState(n_samples)
    X = rng.standard_normal((60, n_samples, n_features))
    X += 5 * rng.randint(3, size=(60, n_samples, 1))
    X[40:] *= np.geomspace(1e-4, 1e4, n_features)
    for each, own in zip(fit_small_sets(X), X + 0.0, strict=True):
        assert_equal_fits(each, own)


def test_sets_far_from_the_origin_and_far_apart():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((12, 20, 6)).cumsum(axis=2)
    X += 1e4 * rng.standard_normal((12, 1, 1))
    for each, own in zip(fit_small_sets(X), X, strict=True):
        assert_equal_fits(each, own)


def test_equal_samples_have_no_fit():
    X = np.random.RandomState(0).standard_normal((4, 10, 3))
    X[0], X[1, 3], X[2, :, 1] = X[0, 0], X[1, 2], 0.5
    assert [each is None for each in fit_small_sets(X)] == [True, True, True, False]


def test_estimators_that_fit_sets_at_once():
    assert takes_small_sets(ROME(shrinkage="auto"), 20, 24)
    assert takes_small_sets(ROME(shrinkage="always", n_jobs=2), 30, 2)
    assert not takes_small_sets(ROME(shrinkage="auto"), 20, 4)  # clusters may be large enough
    assert not takes_small_sets(ROME(), 20, 24)
    assert not takes_small_sets(ROME(shrinkage="auto", k_min=6), 20, 24)
    assert not takes_small_sets(ROME(shrinkage="auto"), 4, 24)
    assert not takes_small_sets(ROME(shrinkage="auto"), 500, 240)
