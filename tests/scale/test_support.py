"""Supports of features in partitions: the density of ROME, whatever the partitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import ROME, DistributedROME
from sevenhills.density import LogMap, MirrorMap

da = pytest.importorskip("dask.array")

SUPPORT = {0: (0, None), 1: (0, 1), 2: ("circular", 360)}


def rows_of(n=240, seed=0):
    """Return two clusters, one of which is on both sides of north."""
    rng = np.random.default_rng(seed)
    first = rng.lognormal(0, 1, n), rng.beta(2, 2, n), rng.normal(0, 5, n) % 360
    second = rng.lognormal(3, 1, n), rng.beta(2, 2, n), rng.normal(180, 9, n)
    return np.concatenate([np.stack(first, axis=1), np.stack(second, axis=1)])


def fitted(X, chunks, support=SUPPORT, **options):
    model = DistributedROME(estimator=ROME(support=support), **options)
    return model.fit(da.from_array(X, chunks=(chunks, X.shape[1])))


@pytest.mark.parametrize("chunks", [70, 480])
def test_the_density_is_that_of_rome(chunks):
    X = rows_of()
    model, plain = fitted(X, chunks), ROME(support=SUPPORT).fit(X)
    queries = np.concatenate([X[:50], X[:3] * [-1, 1, 1]])
    expected = plain.score_samples(queries)
    assert (expected[-3:] == -np.inf).all()
    assert_allclose(model.score_samples(queries), expected, rtol=1e-7, atol=1e-7)
    assert_allclose(model.density_.compute().logpdf(queries), expected, rtol=1e-7, atol=1e-7)
    assert [each.map for each in model.rome_.support_] == [each.map for each in plain.support_]
    for ours, theirs in zip(model.clusters_, plain.clusters_, strict=True):
        assert_allclose(ours.mean, theirs.mean, rtol=1e-7)
        assert_allclose(ours.stds, theirs.stds, rtol=1e-7)
    assert_array_equal(model.predict(X), plain.labels_)


def test_clusters_of_a_small_sample_are_on_one_turn():
    X = rows_of(400)
    models = [fitted(X, chunks, sample_size=150) for chunks in (100, 333)]
    scores = [model.score_samples(X) for model in models]
    assert_allclose(scores[0], scores[1], rtol=1e-9, atol=1e-9)
    stds = [cluster.stds.max() for cluster in models[0].clusters_ if cluster.label >= 0]
    assert max(stds) < 30
    assert scores[0].mean() > ROME(support=SUPPORT).fit(X).score(X) - 0.2


def test_coresets_and_draws_are_inside():
    X = rows_of()
    for model in (fitted(X, 100), fitted(X, 100, kernels=60)):
        draws = np.asarray(model.sample(3000, random_state=0))
        assert (draws[:, 0] >= 0).all()
        assert ((draws[:, 1] >= 0) & (draws[:, 1] <= 1)).all()
        assert ((draws[:, 2] >= 0) & (draws[:, 2] < 360)).all()
        north = np.abs((draws[:, 2] + 90) % 360 - 90) < 90
        assert_allclose(north.mean(), 0.5, atol=0.05)
        assert np.isfinite(model.score_samples(draws)).all()


def test_rows_at_a_bound_that_the_sample_misses_are_mirrored():
    X = np.random.default_rng(0).lognormal(size=(500, 1))
    kinds = []
    for first in (1.0, 0.0):
        X[:1] = first
        model = fitted(X, 100, {0: (0, None)}, sample_size=100)
        kinds.append(type(model.rome_.support_[0].map))
        assert np.isfinite(model.score_samples(X)).all()
    assert kinds == [LogMap, MirrorMap]


def test_rows_outside_are_refused_by_name():
    X = rows_of()
    X[7, 0] = -3.0
    with pytest.raises(ValueError, match="feature 0 has the value -3, outside of its support"):
        fitted(X, 100, sample_size=20)
