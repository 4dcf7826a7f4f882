"""The walks of the study and their density."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from sevenhills import KernelMixture, datasets
from sevenhills.datasets import trajectories
from sevenhills.datasets.trajectories import ORIGIN, walks


def test_walks_pass_through_the_known_positions():
    assert walks().shape == (6, 12, 2)
    assert_allclose(walks()[0][[0, 3, 11]], [(3.76, 8.18), (4.32, 7.66), (6.83, 6.06)])
    assert_allclose(walks()[5][-1], (5.34, 4.94))


def test_spread_of_trajectories():
    X = datasets.load("unimodal_trajectories").sample(20_000, random_state=0).reshape(-1, 12, 2)
    assert_allclose(X.mean(axis=0), walks()[4], atol=0.01)
    assert_allclose(X[:, 0].std(axis=0), 0.03 / np.sqrt(12), rtol=0.05)


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
    each = [datasets.WalkModel(walk[None], ORIGIN).pdf(X) for walk in walks()]
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
    model = datasets.WalkModel(size * walks()[4:5], size * ORIGIN)
    X = model.sample(2000, random_state=0)
    covariance = walk_covariance(size * (walks()[4] - ORIGIN))
    entropy = multivariate_normal(np.zeros(24), covariance).entropy()
    found = model.logpdf(X)
    assert_allclose(found.mean(), -entropy, atol=0.3)
    monkeypatch.setattr(trajectories, "_SPACING", trajectories._SPACING / 2)
    monkeypatch.setattr(trajectories, "_NEGLIGIBLE", 2 * trajectories._NEGLIGIBLE)
    assert_allclose(found, model.logpdf(X), atol=1e-6, rtol=0)


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
    X = model.sample(20, random_state=0)
    expected = multivariate_normal(np.zeros(24), shake_covariance()).logpdf(X)
    assert_allclose(model.logpdf(X), expected, rtol=1e-10)


def test_bad_walks():
    with pytest.raises(ValueError, match=r"\(n_walks, n_steps, 2\)"):
        datasets.WalkModel(np.zeros((3, 2)), [0, 0])
    with pytest.raises(ValueError, match=r"\(n_walks, n_steps, 2\)"):
        datasets.WalkModel(np.zeros((0, 3, 2)), [0, 0])
    with pytest.raises(ValueError, match="finite"):
        datasets.WalkModel(np.full((1, 3, 2), np.nan), [0, 0])
    with pytest.raises(ValueError, match="origin"):
        datasets.WalkModel(np.zeros((1, 3, 2)), [0, 0, 0])
