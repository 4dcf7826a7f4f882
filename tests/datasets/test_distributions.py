"""The distributions of the study, their samples and their true densities."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare
from sklearn.datasets import make_blobs, make_moons

from sevenhills import KernelMixture, datasets
from sevenhills.datasets import distributions


def test_pools_are_those_of_the_study():
    blobs = make_blobs(20_000, random_state=100)[0]
    assert_array_equal(datasets.load("aniso")._pool, blobs @ np.array([[0.6, -0.6], [-0.4, 0.8]]))
    varied = make_blobs(20_000, cluster_std=[1, 2.5, 0.5], random_state=100)[0]
    assert_array_equal(datasets.load("varied")._pool, varied)
    moons = make_moons(20_000, noise=0.05, random_state=100)[0]
    assert_array_equal(datasets.load("two_moons")._pool, moons)


@pytest.mark.parametrize("name", datasets.names())
def test_splits_and_samples(name):
    distribution = datasets.load(name)
    first, second = distribution.split(run=3)
    rows = np.random.RandomState(3).choice(20_000, 6000, replace=False)
    assert_array_equal(first, distribution._pool[rows[:3000]])
    assert_array_equal(second, distribution._pool[rows[3000:]])
    fresh = distribution.sample(4000, random_state=5)
    assert_array_equal(fresh, distribution.sample(4000, random_state=5))
    spread = first.std(axis=0)
    assert_allclose(fresh.mean(axis=0), first.mean(axis=0), atol=0.15 * spread.max())
    assert_allclose(fresh.std(axis=0), spread, rtol=0.15)
    assert distribution.sample(2).shape == (2, first.shape[1])


def test_bad_names_and_sizes():
    with pytest.raises(ValueError, match="one of"):
        datasets.load("moon")
    with pytest.raises(ValueError, match="n_samples"):
        datasets.load("aniso").split(0, 20_000)


def test_shapes_lie_in_three_places():
    X = datasets.make_shapes(3000, random_state=0)
    assert_array_equal(X, datasets.make_shapes(3000, random_state=0))
    bow, blob = (X[:, 0] < 0.5) & (X[:, 1] > -0.6), (X[:, 0] < 0.5) & (X[:, 1] < -0.6)
    counts = np.array([bow.sum(), blob.sum(), (~bow & ~blob).sum()])
    assert np.abs(counts - 1000).max() < 120
    with pytest.raises(ValueError, match="n_samples"):
        datasets.make_shapes(-1)


PLANE = [name for name in datasets.names() if "trajectories" not in name]


#: Mean log density of the truth, of other draws for the last three.
ORACLE = {
    "aniso": -2.505,
    "varied": -4.092,
    "two_moons": -0.284,
    "trajectories": 50.20,
    "gaussian": -2.853,
    "elliptical": -1.649,
    "rotated_elliptical": -1.426,
}


@pytest.mark.parametrize("name", ORACLE)
def test_truths_reach_the_oracle_values(name):
    distribution = datasets.load(name)
    means = [distribution.truth.logpdf(distribution.split(run)[1]).mean() for run in range(5)]
    assert_allclose(np.mean(means), ORACLE[name], atol=0.15 if name == "trajectories" else 0.02)


def cell_masses(truth, X, n_cells=20, n_fine=25):
    """Edges of cells around ``X`` with room to spare, and the mass of the density in each."""
    low, high = X.min(axis=0), X.max(axis=0)
    room = (high - low) / 4
    edges = np.linspace(low - room, high + room, n_cells * n_fine + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    grid = np.stack(np.meshgrid(*middles.T, indexing="ij"), axis=-1).reshape(-1, 2)
    masses = truth.pdf(grid) * np.prod(edges[1] - edges[0])
    masses = masses.reshape(n_cells, n_fine, n_cells, n_fine).sum(axis=(1, 3))
    return edges[::n_fine], masses


def agreement(X, edges, masses):
    """p-value of the numbers of samples in the cells, cells of few expected ones together."""
    found = np.histogram2d(*X.T, bins=list(edges.T))[0]
    expected = masses * len(X)
    many = expected >= 10
    found = np.append(found[many], len(X) - found[many].sum())
    expected = np.append(expected[many], len(X) - expected[many].sum())
    return chisquare(found, expected).pvalue


@pytest.mark.parametrize("name", PLANE)
def test_truths_in_the_plane_integrate_to_one_and_samples_follow_them(name):
    truth, pool = datasets.load(name).truth, datasets.load(name)._pool
    X = truth.sample(20_000, random_state=1)
    assert_array_equal(X, truth.sample(20_000, random_state=1))
    edges, masses = cell_masses(truth, X)
    assert_allclose(masses.sum(), 1.0, atol=1e-6)
    assert agreement(X, edges, masses) > 1e-3
    assert agreement(pool, edges, masses) > 1e-3
    rng = np.random.RandomState(2)
    singles = np.concatenate([truth.sample(random_state=rng) for _ in range(2000)])
    assert agreement(singles, edges, masses) > 1e-3


def test_truths_are_densities():
    distribution = datasets.load("aniso")
    truth, X = distribution.truth, distribution.split(0)[1][:50]
    assert distribution.truth is truth
    assert isinstance(truth, KernelMixture)
    assert truth.n_features == 2
    assert_array_equal(truth.pdf(X), np.exp(truth.logpdf(X)))
    assert truth.sample().shape == (1, 2)
    assert (truth.sample() != truth.sample()).all()
    copy = pickle.loads(pickle.dumps(distribution))
    assert_array_equal(copy.truth.logpdf(X), truth.logpdf(X))


@pytest.mark.parametrize("name", datasets.names())
def test_truths_refuse_bad_queries(name):
    truth = datasets.load(name).truth
    X = np.zeros((3, truth.n_features))
    with pytest.raises(ValueError, match="features"):
        truth.logpdf(X[:, 1:])
    with pytest.raises(ValueError, match="NaN"):
        truth.logpdf(X * np.nan)
    with pytest.raises(ValueError, match="2D"):
        truth.pdf(X[0])
    with pytest.raises(TypeError, match="masked"):
        truth.logpdf(np.ma.masked_invalid(X))
    with pytest.raises(ValueError, match="n_samples"):
        truth.sample(-1)
    with pytest.raises(TypeError, match="random_state"):
        truth.sample(1, random_state="seed")


def test_moons_need_no_finer_quadrature():
    x, y = np.meshgrid(np.linspace(-3, 4, 71), np.linspace(-3, 3.5, 66))
    turn = np.linspace(0, 2 * np.pi, 361)
    far = np.column_stack([0.5 + 30 * np.cos(turn), 0.25 + 30 * np.sin(turn)])
    moons = datasets.load("two_moons")
    X = np.concatenate([moons.split(0)[1], np.column_stack([x.ravel(), y.ravel()]), far])
    finer = distributions.TwoMoons(4 * distributions._MOON_NODES).logpdf(X)
    assert_allclose(moons.truth.logpdf(X), finer, atol=1e-6, rtol=0)
