"""Densities of many kernels, simplified for pictures."""

import numpy as np
import pytest

from sevenhills import KernelMixture
from sevenhills.density import CircleMap, FeatureMap
from sevenhills.plotting import binning
from sevenhills.plotting.overview import telling_features


def many_kernels(n_features=2, n=3000, is_shared=True):
    rng = np.random.RandomState(0)
    means = rng.randn(n, n_features) + np.where(np.arange(n) < n // 2, -2.0, 2.0)[:, None]
    sizes = [n // 2, n - n // 2] if is_shared else np.ones(n, dtype=int)
    offsets = np.append(0, np.cumsum(sizes))
    transforms = np.stack([3.0 * np.eye(n_features)] * len(sizes))
    labels = np.arange(len(sizes)) >= len(sizes) / 2
    weights = np.full(n, 1 / n)
    return KernelMixture(
        weights, means, offsets, transforms, clusters=labels.astype(int), counts=np.ones(n)
    )


@pytest.fixture(autouse=True)
def few_kernels_are_many(monkeypatch):
    monkeypatch.setattr(binning, "_MAX_KERNELS", 500)
    monkeypatch.setattr(binning, "_N_CELLS", {1: 256, 2: 40})


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_joined_density_is_nearly_the_same(n_features, is_shared):
    density = many_kernels(n_features, is_shared=is_shared)
    joined = binning.binned(density)
    assert joined.n_kernels < density.n_kernels / 2
    assert joined.n_groups == (2 if is_shared else joined.n_kernels)
    assert set(joined.clusters) == {0, 1}
    assert joined.counts.sum() == pytest.approx(3000)
    np.testing.assert_allclose(joined.mean(), density.mean(), atol=1e-9)
    X = density.sample(500, random_state=1)
    np.testing.assert_allclose(joined.logpdf(X), density.logpdf(X), atol=0.1)


def test_circles_keep_their_turn_and_few_kernels_stay():
    density = many_kernels()
    mapped = density._replace(maps=(CircleMap(0.0, 24.0), FeatureMap()))
    joined = binning.binned(mapped)
    assert (joined.frame == mapped.frame).all()
    few = many_kernels(n=400)
    assert binning.binned(few) is few


def test_features_in_which_clusters_differ():
    rng = np.random.RandomState(0)
    means = rng.randn(400, 9)
    means[:200, [2, 7]] += 8.0
    density = KernelMixture(
        np.full(400, 1 / 400), means, [0, 200, 400], np.stack([np.eye(9)] * 2), clusters=[0, 1]
    )
    assert telling_features(density, 2)[0] == [2, 7]
