"""What is true of 38 densities with maps: 16 of one feature, 22 of two."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sevenhills import load, save
from sevenhills.density import FeatureMap

from .test_maps import MAPS, kinks_of, mixture

LAWS = {name: mixture(each, width=0.3) for name, each in MAPS.items()}
PAIRS = [*pairwise(MAPS), *((name, "plain") for name in list(MAPS)[:7])]
LAWS |= {f"{a} and {b}": mixture(MAPS[a], MAPS.get(b, FeatureMap()), width=0.3) for a, b in PAIRS}
each_law = pytest.mark.parametrize("density", LAWS.values(), ids=LAWS)


def nodes_of(density, n_parts, n_nodes):
    """Return nodes and weights of Gauss-Legendre between quantiles, bounds and kinks."""
    (each,) = density._chart.maps
    places = [each.bounds[0], density.ppf(1e-14), density.isf(1e-14), each.bounds[1]]
    bounds = np.array(each.bounds)
    ends = np.where(np.isfinite(bounds), bounds, places[1:3])
    tails = [] if np.isfinite(bounds).all() and each.is_folding else np.geomspace(1e-11, 1e-3, 9)
    middle = np.linspace(0.005, 0.995, n_parts)
    inner = [*density.ppf(np.append(tails, middle)), *density.isf(tails)]
    edges = np.unique([*ends, *inner, *kinks_of(each)])
    edges = edges[(edges >= ends[0]) & (edges <= ends[1])]
    # Powers have long tails; sums over images take longer.
    n_nodes = n_nodes if each.is_folding else n_nodes + 8
    u, w = np.polynomial.legendre.leggauss(n_nodes)
    halves = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + halves * (1 + u)).ravel(), (halves * w).ravel()


def test_there_are_at_least_thirty():
    assert len(LAWS) >= 30


@each_law
def test_the_integral_is_one(density):
    if density.n_features == 1:
        x, weights = nodes_of(density, 20, 20)
        found = density.pdf(x[:, None]) @ weights
    else:
        rules = [nodes_of(density.marginal(j), 6, 9) for j in range(2)]
        grid = np.stack(np.meshgrid(*(x for x, _ in rules), indexing="ij"), axis=-1)
        values = density.pdf(grid.reshape(-1, 2)).reshape(grid.shape[:2])
        found = rules[0][1] @ values @ rules[1][1]
    assert found == pytest.approx(1.0, abs=1e-8)


@each_law
def test_there_is_no_mass_outside(density):
    low, high = np.array([each.bounds for each in density._chart.maps]).T
    assert abs(1.0 - density.probability(low, high)) <= 1e-12
    drawn = density.sample(2000, random_state=0)
    assert ((drawn >= low) & (drawn <= high)).all()
    assert np.isfinite(density.logpdf(drawn)).all()


@each_law
def test_distribution_function_and_quantiles_are_inverse(density):
    q = np.array([1e-10, 1e-4, 0.1, 0.5, 0.9, 0.9999])
    for j in range(density.n_features):
        one = density.marginal(j)
        assert_allclose(one.cdf(one.ppf(q)), q, rtol=1e-6, atol=1e-13)
        assert_allclose(one.sf(one.isf(q)), q, rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize(
    "density", [each for each in LAWS.values() if each.n_features == 2], ids=str
)
def test_marginal_times_conditional_is_the_joint(density):
    X = density.sample(5, random_state=1)
    for j in range(2):
        marginal = density.marginal(j).logpdf(X[:, [j]])
        rest = [density.conditional({j: x[j]}).logpdf([[x[1 - j]]])[0] for x in X]
        assert_allclose(np.exp(marginal + rest - density.logpdf(X)), 1.0, rtol=1e-10)


@each_law
def test_files_keep_every_bit(density, tmp_path):
    X = density.sample(20, random_state=2)
    save(density, tmp_path / "law.shm")
    copy = load(tmp_path / "law.shm")
    assert copy.maps == density.maps
    assert_array_equal(copy.logpdf(X), density.logpdf(X))
