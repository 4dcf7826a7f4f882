import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import chisquare, multivariate_normal, norm
from sklearn.datasets import make_blobs, make_moons

from sevenhills import KernelMixture, datasets
from sevenhills.datasets import trajectories, truths
from sevenhills.datasets.trajectories import ORIGIN, walks

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


def test_pools_are_those_of_the_study():
    blobs = make_blobs(20_000, random_state=100)[0]
    assert_array_equal(datasets.load("aniso").pool(), blobs @ np.array([[0.6, -0.6], [-0.4, 0.8]]))
    varied = make_blobs(20_000, cluster_std=[1, 2.5, 0.5], random_state=100)[0]
    assert_array_equal(datasets.load("varied").pool(), varied)
    moons = make_moons(20_000, noise=0.05, random_state=100)[0]
    assert_array_equal(datasets.load("two_moons").pool(), moons)


@pytest.mark.parametrize("name", datasets.names())
def test_splits_and_samples(name):
    distribution = datasets.load(name)
    first, second = distribution.split(run=3)
    rows = np.random.RandomState(3).choice(20_000, 6000, replace=False)
    assert_array_equal(first, distribution.pool()[rows[:3000]])
    assert_array_equal(second, distribution.pool()[rows[3000:]])
    fresh = distribution.sample(4000, random_state=5)
    assert_array_equal(fresh, distribution.sample(4000, random_state=5))
    spread = first.std(axis=0)
    assert_allclose(fresh.mean(axis=0), first.mean(axis=0), atol=0.15 * spread.max())
    assert_allclose(fresh.std(axis=0), spread, rtol=0.15)
    assert distribution.sample(2).shape == (2, first.shape[1])


def test_walks_pass_through_the_known_positions():
    assert walks().shape == (6, 12, 2)
    assert_allclose(walks()[0][[0, 3, 11]], [(3.76, 8.18), (4.32, 7.66), (6.83, 6.06)])
    assert_allclose(walks()[5][-1], (5.34, 4.94))


def test_spread_of_trajectories():
    X = datasets.load("unimodal_trajectories").sample(20_000, random_state=0).reshape(-1, 12, 2)
    assert_allclose(X.mean(axis=0), walks()[4], atol=0.01)
    assert_allclose(X[:, 0].std(axis=0), 0.03 / np.sqrt(12), rtol=0.05)


def test_bad_names_and_sizes():
    with pytest.raises(ValueError, match="one of"):
        datasets.load("moon")
    with pytest.raises(ValueError, match="n_samples"):
        datasets.load("aniso").split(0, 20_000)


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
    truth, pool = datasets.load(name).truth, datasets.load(name).pool()
    X = truth.sample(20_000, random_state=1)
    assert_array_equal(X, truth.sample(20_000, random_state=1))
    edges, masses = cell_masses(truth, X)
    assert_allclose(masses.sum(), 1.0, atol=1e-6)
    assert agreement(X, edges, masses) > 1e-3
    assert agreement(pool, edges, masses) > 1e-3
    rng = np.random.RandomState(2)
    singles = np.concatenate([truth.sample(random_state=rng) for _ in range(2000)])
    assert agreement(singles, edges, masses) > 1e-3


def test_truth_is_asked_like_an_estimator():
    distribution = datasets.load("aniso")
    truth, X = distribution.truth, distribution.split(0)[1][:50]
    assert distribution.truth is truth
    assert truth.n_features == 2
    assert_array_equal(truth.score_samples(X), truth.logpdf(X))
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
        truth.score_samples(X * np.nan)
    with pytest.raises(ValueError, match="2D"):
        truth.pdf(X[0])
    with pytest.raises(TypeError, match="masked"):
        truth.logpdf(np.ma.masked_invalid(X))
    with pytest.raises(ValueError, match="n_samples"):
        truth.sample(-1)
    with pytest.raises(TypeError, match="random_state"):
        truth.sample(1, random_state="seed")


def test_only_varied_was_published_with_another_truth():
    for name in datasets.names():
        distribution = datasets.load(name)
        assert (distribution.published_truth is distribution.truth) == (name != "varied")
    varied = datasets.load("varied")
    centres = make_blobs(3, random_state=100, return_centers=True)[2]
    X = varied.split(0)[1]
    for truth, variances in (
        (varied.truth, (1, 6.25, 0.25)),
        (varied.published_truth, (1, 2.5, 0.5)),
    ):
        parts = [
            multivariate_normal(centre, variance).pdf(X)
            for centre, variance in zip(centres, variances, strict=True)
        ]
        assert_allclose(truth.pdf(X), np.mean(parts, axis=0), rtol=1e-9)


def test_moons_need_no_finer_quadrature():
    x, y = np.meshgrid(np.linspace(-3, 4, 71), np.linspace(-3, 3.5, 66))
    turn = np.linspace(0, 2 * np.pi, 361)
    far = np.column_stack([0.5 + 30 * np.cos(turn), 0.25 + 30 * np.sin(turn)])
    moons = datasets.load("two_moons")
    X = np.concatenate([moons.split(0)[1], np.column_stack([x.ravel(), y.ravel()]), far])
    finer = truths.moons_mixture(4 * truths._MOON_NODES).logpdf(X)
    assert_allclose(moons.truth.logpdf(X), finer, atol=1e-6, rtol=0)


def turned_walks(angle, stretch):
    cos, sin = stretch * np.cos(angle), stretch * np.sin(angle)
    return ((walks() - ORIGIN) @ np.array([[cos, sin], [-sin, cos]]) + ORIGIN).reshape(6, -1)


def queries_around_the_walks():
    """Walks as they are, as drawn, off by some deviations, turned, stretched, backwards, afar."""
    rng = np.random.RandomState(0)
    drawn = datasets.load("trajectories").split(0)[1][:200]
    return np.concatenate(
        [
            turned_walks(0.0, 1.0),
            drawn,
            drawn + rng.normal(0, 0.2, drawn.shape),
            turned_walks(0.3, 1.0),
            turned_walks(-0.2, 1.3),
            turned_walks(2.0, 10.0),
            turned_walks(np.pi, 1.0),
            turned_walks(0.01, -1.0),
            np.tile(ORIGIN, (1, 12)),
            rng.normal(0, 100, (20, 24)),
        ]
    )


@pytest.mark.parametrize("name", ["trajectories", "unimodal_trajectories"])
def test_walks_need_no_finer_quadrature(name, monkeypatch):
    truth, X = datasets.load(name).truth, queries_around_the_walks()
    found = truth.logpdf(X)
    monkeypatch.setattr(trajectories, "_SPACING", trajectories._SPACING / 2)
    assert_allclose(found, truth.logpdf(X), atol=1e-6, rtol=1e-12)
    monkeypatch.setattr(trajectories, "_NEGLIGIBLE", 1e9)  # all around the circle
    assert_allclose(found, truth.logpdf(X), atol=1e-6, rtol=1e-12)
    monkeypatch.setattr(trajectories, "_BLOCK", 1)
    assert_allclose(found[::20], truth.logpdf(X[::20]), atol=1e-6, rtol=1e-12)


def test_angles_are_wrapped_around_the_circle():
    angles = np.append(np.linspace(-6.5, 6.5, 301), [-np.pi, np.pi, 3.1415, 2 * np.pi])
    unwrapped = angles[:, None] + 2 * np.pi * np.arange(-2, 3)
    expected = logsumexp(norm(0, np.pi / 180).logpdf(unwrapped), axis=1)
    assert_allclose(trajectories._log_angle_density(angles), expected, rtol=1e-10)


def shake_covariance():
    """Covariance of the noise: sums of independent steps, the first one smaller."""
    sums = np.tril(np.ones((12, 12))) * np.append(0.03 / np.sqrt(12), np.full(11, 0.03))
    return np.kron(sums @ sums.T, np.eye(2))


def walk_covariance(walk):
    """Covariance of a disturbed walk, stretch and angle to first order."""
    along, across = walk.ravel(), np.column_stack([-walk[:, 1], walk[:, 0]]).ravel()
    spread = 0.03**2 * np.outer(along, along) + (np.pi / 180) ** 2 * np.outer(across, across)
    return shake_covariance() + spread


def test_walks_agree_with_brute_force_over_stretch_and_angle():
    angle, stretch = np.meshgrid(np.arange(-0.4, 0.7, 0.006), np.arange(0.6, 1.7, 0.006))
    angle, stretch = angle.ravel(), stretch.ravel()
    log_prior = -0.5 * ((angle * 180 / np.pi) ** 2 + ((stretch - 1) / 0.03) ** 2)
    log_prior += np.log(0.006**2 * 180 / np.pi / 0.03 / (2 * np.pi))
    noise = multivariate_normal(np.zeros(24), shake_covariance())
    rng = np.random.RandomState(3)
    shaken = turned_walks(0.0, 1.0) + rng.normal(0, 0.1, (6, 24))
    X = np.stack([turned_walks(0.0, 1.0)[4], shaken[4], turned_walks(0.3, 1.2)[4]])
    x, y = (walks()[4] - ORIGIN).T
    c, s = stretch * np.cos(angle), stretch * np.sin(angle)
    turned = np.stack([np.outer(c, x) - np.outer(s, y), np.outer(s, x) + np.outer(c, y)], axis=2)
    means = (turned + ORIGIN).reshape(-1, 24)
    expected = [logsumexp(noise.logpdf(row - means) + log_prior) for row in X]
    found = datasets.load("unimodal_trajectories").truth.logpdf(X)
    assert_allclose(found, expected, atol=1e-6, rtol=0)


def test_density_of_trajectories_is_the_mean_over_its_walks():
    X = datasets.load("trajectories").split(0)[1][:100]
    each = [datasets.disturbed_walks(walk[None], ORIGIN).truth.pdf(X) for walk in walks()]
    assert_allclose(datasets.load("trajectories").truth.pdf(X), np.mean(each, axis=0))


def test_density_of_trajectories_integrates_to_one():
    """Weighted draws of Gaussians that are nearly the same, but a little wider."""
    transforms = [
        np.linalg.cholesky(np.linalg.inv(1.2 * walk_covariance(walk))) for walk in walks() - ORIGIN
    ]
    near = KernelMixture(np.full(6, 1 / 6), walks().reshape(6, 24), np.arange(7), transforms)
    X = near.sample(4000, random_state=0)
    ratios = np.exp(datasets.load("trajectories").truth.logpdf(X) - near.logpdf(X))
    assert_allclose(ratios.mean(), 1.0, atol=0.04)


@pytest.mark.parametrize("size", [0.01, 1, 100])
def test_walks_of_any_size(size, monkeypatch):
    """However long a walk is beside its noise, the truth is nearly a Gaussian."""
    distribution = datasets.disturbed_walks(size * walks()[4:5], size * ORIGIN)
    X = distribution.sample(2000, random_state=0)
    covariance = walk_covariance(size * (walks()[4] - ORIGIN))
    entropy = multivariate_normal(np.zeros(24), covariance).entropy()
    found = distribution.truth.logpdf(X)
    assert_allclose(found.mean(), -entropy, atol=0.3)
    monkeypatch.setattr(trajectories, "_SPACING", trajectories._SPACING / 2)
    monkeypatch.setattr(trajectories, "_NEGLIGIBLE", 2 * trajectories._NEGLIGIBLE)
    assert_allclose(found, distribution.truth.logpdf(X), atol=1e-6, rtol=0)


def test_a_walk_stretched_to_the_other_side():
    """Far from all turned walks, and still nearer to a stretch of -1 than to half a turn."""
    walk = 100 * (walks()[4] - ORIGIN)
    found = datasets.WalkModel(walk[None], [0.0, 0.0]).logpdf([-walk.ravel()])
    normal = multivariate_normal(walk.ravel(), walk_covariance(walk))
    assert_allclose(found, normal.logpdf(-walk.ravel()), atol=0.01)


def test_queries_at_any_distance():
    distances = np.array([1e9, 1e60, 1e160, 1e300])
    far = datasets.load("trajectories").truth.logpdf(np.repeat(distances[:, None], 24, axis=1))
    # Only the first step is off, in both coordinates; no walk can be stretched to explain it.
    assert_allclose(far[:2], -12 * distances[:2] ** 2 / 0.03**2, rtol=0.01)
    assert (far[2:] == -np.inf).all()


def test_a_walk_that_stands_still():
    model = datasets.WalkModel(np.zeros((1, 12, 2)), [0.0, 0.0])
    X = model.draw(20, np.random.RandomState(0))
    expected = multivariate_normal(np.zeros(24), shake_covariance()).logpdf(X)
    assert_allclose(model.logpdf(X), expected, rtol=1e-10)


def test_bad_walks():
    with pytest.raises(ValueError, match=r"\(n_walks, n_steps, 2\)"):
        datasets.disturbed_walks(np.zeros((3, 2)), [0, 0])
    with pytest.raises(ValueError, match=r"\(n_walks, n_steps, 2\)"):
        datasets.WalkModel(np.zeros((0, 3, 2)), [0, 0])
    with pytest.raises(ValueError, match="finite"):
        datasets.WalkModel(np.full((1, 3, 2), np.nan), [0, 0])
    with pytest.raises(ValueError, match="origin"):
        datasets.WalkModel(np.zeros((1, 3, 2)), [0, 0, 0])
