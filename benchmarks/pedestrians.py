"""Simulated pedestrians, and forecasters of them whose distribution is known.

Forecasters are Gaussian mixtures in every scene, learned from the tracks of other pedestrians.
Paths are in the frame of the walker: its last observed position is the origin, and the first
coordinate is along its heading.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors

#: Tracks that the forecasters learn from.
N_TRAINING = 4000
#: Observed and predicted steps, and the seconds between them.
N_OBSERVED, N_PREDICTED, DT = 8, 12, 0.4
#: Number of values d of a path.
N_VALUES = 2 * N_PREDICTED
#: Variance that is added to all values of learned forecasters, in square meters.
RIDGE = 1e-5 * np.eye(N_VALUES)


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Gaussian mixtures of whole paths, one mixture for every scene."""

    shares: np.ndarray  # (S, J)
    means: np.ndarray  # (S, J, d)
    factors: np.ndarray  # (S or 1, J or 1, d, d), Cholesky factors of covariances

    def spread(self, factor):
        """Multiply all standard deviations."""
        return replace(self, factors=factor * self.factors)

    def draw(self, n_samples, seed):
        """Draw paths (S, K, T, 2)."""
        rng = np.random.default_rng(seed)
        n_scenes, n_components = self.shares.shape
        factors = np.broadcast_to(self.factors, (n_scenes, n_components, N_VALUES, N_VALUES))
        out = np.empty((n_scenes, n_samples, N_VALUES))
        for s, shares in enumerate(self.shares):
            chosen = rng.choice(n_components, n_samples, p=shares / shares.sum())
            noise = rng.standard_normal((n_samples, N_VALUES))
            out[s] = self.means[s, chosen] + np.einsum("kij,kj->ki", factors[s, chosen], noise)
        return out.reshape(n_scenes, n_samples, N_PREDICTED, 2)

    def logpdf(self, paths):
        """Return the log density of one path (S, T, 2), or several, for every scene."""
        n_scenes = len(self.means)
        apart = paths.reshape(n_scenes, 1, -1, N_VALUES) - self.means[:, :, None]
        Z = apart @ np.linalg.inv(self.factors).swapaxes(2, 3)  # (S, J, q, d)
        log_det = np.log(np.einsum("sjii->sji", self.factors)).sum(axis=2)
        constant = np.log(np.maximum(self.shares, 1e-300)) - log_det
        terms = constant[:, :, None] - 0.5 * (Z**2).sum(axis=3)
        log_density = logsumexp(terms, axis=1) - 0.5 * N_VALUES * np.log(2 * np.pi)
        return log_density.reshape(paths.shape[:-2])


def simulate(n, seed):
    """Return tracks (n, 20, 2) of walkers that stand, turn, stop and evade, in meters."""
    rng = np.random.default_rng(seed)
    n_steps, n_within = N_OBSERVED + N_PREDICTED, 4  # the motion has shorter steps
    dt = DT / n_within
    stands = rng.random(n) < 0.15
    walking_speed = np.maximum(rng.normal(1.3, 0.25, n), 0.4)
    preferred = np.where(stands, np.abs(rng.normal(0, 0.05, n)), walking_speed)
    noise = 0.35 * np.exp(rng.normal(-1.2, 0.5, n))
    evades_at = np.where(rng.random(n) < 0.3, rng.integers(0, n_steps * n_within, n), -1)
    side = np.where(rng.random(n) < 0.6, 1.0, -1.0)
    position, angle = rng.uniform(0, 20, (n, 2)), rng.uniform(0, 2 * np.pi, n)
    speed, aim = preferred.copy(), preferred.copy()
    turn, push, sway = np.zeros((3, n))
    out = np.empty((n, n_steps, 2))
    for t in range(n_steps * n_within):
        new_turn = rng.choice([-1, 1], n) * rng.uniform(0.2, 0.9, n)
        turn = np.where(rng.random(n) < 0.012, new_turn, 0.96 * turn)
        turn = np.where(evades_at == t, 0.7 * side, turn)
        aim = np.where(rng.random(n) < 0.02, preferred, aim)
        aim = np.where((rng.random(n) < 0.006) & ~stands, 0.05, aim)
        push = 0.8 * push + noise * rng.standard_normal(n)
        sway = 0.8 * sway + noise * rng.standard_normal(n) / (speed + 0.4)
        speed = np.maximum(speed + dt * (1.2 * (aim - speed) + push), 0)
        angle = angle + dt * (turn + sway)
        position = position + dt * speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
        if (t + 1) % n_within == 0:
            out[:, t // n_within] = position + rng.normal(0, 0.008, (n, 2))
    return out


def in_frame_of_walkers(tracks):
    """Return features (n, 5) of pasts, futures (n, d), and speeds (n,) in m/s."""
    last = tracks[:, N_OBSERVED - 1]
    velocity = (last - tracks[:, N_OBSERVED - 4]) / (3 * DT)
    speed = np.linalg.norm(velocity, axis=1)
    along = velocity / np.maximum(speed, 1e-9)[:, None]
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    local = (tracks - last[:, None]) @ np.stack([along, across], axis=2)
    # The past position that defines the heading has no coordinate across it.
    features = [local[:, N_OBSERVED - 2], local[:, N_OBSERVED - 4, :1], local[:, N_OBSERVED - 7]]
    return np.hstack(features), local[:, N_OBSERVED:].reshape(len(tracks), -1), speed


class Regression:
    """Linear regression with a small penalty."""

    def __init__(self, X, Y):
        A = self.with_one(X)
        self.coefficients = np.linalg.solve(A.T @ A + 1e-3 * np.eye(A.shape[1]), A.T @ Y)

    @staticmethod
    def with_one(X):
        return np.column_stack([X, np.ones(len(X))])

    def __call__(self, X):
        return self.with_one(X) @ self.coefficients


def covariance_by_speed(residuals, speed, new_speed):
    """Return covariances (S, d, d) of one shape, with a scale that depends on the speed."""

    def basis(speed):
        return np.stack([np.log(speed + 0.05), np.log(speed + 0.05) ** 2], axis=1)

    precision = np.linalg.inv(residuals.T @ residuals / len(residuals) + RIDGE)
    squares = np.einsum("ni,ij,nj->n", residuals, precision, residuals) / N_VALUES
    log_scale = Regression(basis(speed), np.log(squares + 1e-9))
    unit = residuals / np.exp(0.5 * log_scale(basis(speed)))[:, None]
    return np.exp(log_scale(basis(new_speed)))[:, None, None] * (unit.T @ unit / len(unit)) + RIDGE


def constant_velocity(training, features, speed):
    """One Gaussian around the path of constant velocity."""

    def straight(speed):
        distance = speed[:, None] * DT * np.arange(1, N_PREDICTED + 1)
        return np.stack([distance, np.zeros_like(distance)], axis=2).reshape(len(speed), -1)

    _, Y, known_speed = training
    covariance = covariance_by_speed(Y - straight(known_speed), known_speed, speed)
    factors = np.linalg.cholesky(covariance)
    return Mixtures(np.ones((len(speed), 1)), straight(speed)[:, None], factors[:, None])


def autoregression(training, features, speed):
    """One Gaussian of constant covariance around a linear regression."""
    F, Y, _ = training
    mean = Regression(F, Y)
    residuals = Y - mean(F)
    factor = np.linalg.cholesky(residuals.T @ residuals / len(F) + RIDGE)
    return Mixtures(np.ones((len(speed), 1)), mean(features)[:, None], factor[None, None])


def mixture_of_experts(training, features, speed, n_experts=6):
    """A regression for every cluster of residuals, with shares by a logistic regression."""
    F, Y, known_speed = training
    residuals, unit = Y - Regression(F, Y)(F), F.std(axis=0)
    clusters = KMeans(n_experts, n_init=3, random_state=0)
    labels = clusters.fit_predict(residuals / residuals.std(axis=0))
    shares = LogisticRegression(max_iter=2000).fit(F / unit, labels).predict_proba(features / unit)
    means, factors = [], []
    for expert in range(n_experts):
        own = labels == expert
        mean = Regression(F[own], Y[own])
        means.append(mean(features))
        covariance = covariance_by_speed(Y[own] - mean(F[own]), known_speed[own], speed)
        factors.append(np.linalg.cholesky(covariance))
    return Mixtures(shares, np.stack(means, axis=1), np.stack(factors, axis=1))


def gaussian_mixture_regression(training, features, speed, n_components=10):
    """The conditional of a Gaussian mixture of features and futures."""
    F, Y, _ = training
    joint = GaussianMixture(n_components, reg_covar=1e-5, random_state=0).fit(np.hstack([F, Y]))
    log_shares, means, factors = [], [], []
    past, future = slice(None, F.shape[1]), slice(F.shape[1], None)
    for share, mean, cov in zip(joint.weights_, joint.means_, joint.covariances_, strict=True):
        slope = np.linalg.solve(cov[past, past], cov[past, future])
        marginal = multivariate_normal(mean[past], cov[past, past])
        log_shares.append(np.log(share) + marginal.logpdf(features))
        means.append(mean[future] + (features - mean[past]) @ slope)
        factors.append(np.linalg.cholesky(cov[future, future] - cov[future, past] @ slope + RIDGE))
    log_shares = np.stack(log_shares, axis=1)
    shares = np.exp(log_shares - logsumexp(log_shares, axis=1, keepdims=True))
    return Mixtures(shares, np.stack(means, axis=1), np.array(factors)[None])


def kernels(training, features, speed, n_neighbors=40):
    """Gaussians around the residuals of walkers with the most similar pasts."""
    F, Y, _ = training
    mean, unit = Regression(F, Y), F.std(axis=0)
    residuals = Y - mean(F)
    neighbors = NearestNeighbors(n_neighbors=n_neighbors).fit(F / unit)
    near = neighbors.kneighbors(F / unit, n_neighbors=6, return_distance=False)[:, 1:]
    apart = (residuals[near] - residuals[:, None]).reshape(-1, N_VALUES)
    factor = np.linalg.cholesky(0.6 * apart.T @ apart / len(apart) + RIDGE)
    chosen = neighbors.kneighbors(features / unit, return_distance=False)
    means = mean(features)[:, None] + residuals[chosen]
    return Mixtures(np.full(chosen.shape, 1 / n_neighbors), means, factor[None, None])


def moment_gaussian(law):
    """Return the Gaussians with the means and covariances of a law of walks."""
    means = law.means.reshape(*law.shares.shape, -1)
    center = np.einsum("sj,sjd->sd", law.shares, means)
    apart = means - center[:, None]
    between = np.einsum("sj,sjd,sje->sde", law.shares, apart, apart)
    along = law.headings
    frames = np.stack([along, np.stack([-along[:, 1], along[:, 0]], axis=1)], axis=1)
    covariances = law.factors @ law.factors.swapaxes(1, 2)
    within = np.einsum("scx,ctu,scy->stxuy", frames, covariances, frames).reshape(between.shape)
    factors = np.linalg.cholesky(between + within)
    return Mixtures(np.ones((len(center), 1)), center[:, None], factors[:, None])


#: Forecasters by name: functions of the training set, and of features and speeds of new scenes.
FORECASTERS = {
    "constant velocity": constant_velocity,
    "autoregression": autoregression,
    "mixture of experts": mixture_of_experts,
    "mixture regression": gaussian_mixture_regression,
    "kernels": kernels,
}


def make_pedestrians(n_scenes):
    """Return true futures (S, T, 2), and the laws of all forecasters by name."""
    training = in_frame_of_walkers(simulate(N_TRAINING, seed=0))
    features, futures, speed = in_frame_of_walkers(simulate(n_scenes, seed=1000))
    laws = {name: learn(training, features, speed) for name, learn in FORECASTERS.items()}
    return futures.reshape(n_scenes, N_PREDICTED, 2), laws
