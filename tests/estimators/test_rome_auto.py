"""ROME with clusters by likelihood: labels to show, kernels on pieces, files and plots."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from sevenhills import ROME, load, plotting, save

X, y = make_moons(400, noise=0.07, random_state=0)


@pytest.mark.parametrize("density", ["kde", "gaussian", "mpw", "knn"])
def test_kernels_follow_pieces_and_labels_clusters(density):
    rome = ROME(selection="auto", density=density).fit(X)
    assert adjusted_rand_score(y, rome.labels_) > 0.95
    assert [cluster.label for cluster in rome.clusters_] == sorted(set(rome.labels_.tolist()))
    assert sum(cluster.n_members for cluster in rome.clusters_) == len(X)
    assert np.isfinite(rome.score(X))
    if density != "knn":
        assert_array_equal(np.unique(rome.density_.clusters), np.unique(rome.labels_))
        assert_allclose(rome.density_.weights.sum(), 1.0)
        shares = [rome.density_.clusters == cluster.label for cluster in rome.clusters_]
        groups = np.add.reduceat(rome.density_.weights, rome.density_.offsets[:-1])
        expected = [cluster.share for cluster in rome.clusters_]
        assert_allclose([groups[each].sum() for each in shares], expected)


def test_pieces_describe_bent_clusters_better_than_silhouettes():
    assert ROME(selection="auto").fit(X[::2]).score(X[1::2]) > ROME().fit(X[::2]).score(X[1::2])


def test_one_cluster_is_one_cluster():
    rome = ROME(selection="auto").fit(np.random.RandomState(0).standard_normal((300, 3)))
    assert_array_equal(rome.labels_, 0)
    assert "One cluster" in rome.summary()


def test_weights_are_numbers_of_rows():
    weights = np.random.RandomState(0).randint(1, 4, len(X))
    one = ROME(selection="auto", resolution=None).fit(X, sample_weight=weights)
    other = ROME(selection="auto", resolution=None).fit(np.repeat(X, weights, axis=0))
    assert_array_equal(np.repeat(one.labels_, weights), other.labels_)
    assert_allclose(one.score_samples(X), other.score_samples(X), rtol=1e-9)


def test_a_fit_can_be_saved_and_drawn(tmp_path):
    rome = ROME(selection="auto").fit(X)
    save(rome, tmp_path / "model.sevenhills")
    again = load(tmp_path / "model.sevenhills")
    assert_array_equal(again.labels_, rome.labels_)
    assert again.candidates_.criterion == "likelihood"
    assert "split and merged" in again.summary()
    for draw in (plotting.plot_candidates, plotting.plot_reachability):
        ax = draw(again, Figure().subplots())
        assert "likelihood" in ax.get_title()
    assert len(plotting.plot_candidates(rome, Figure().subplots()).collections[0].get_offsets()) > 9
