r"""Mixtures of Gaussian or Student's t components, fitted by expectation maximisation.

The squared distance of a sample to a component is linear in the products of the sample's
coordinates, and so are the sums from which components are estimated. With all products laid out
as features once, both steps are matrix products, which makes many small fits cheap; that is why
scikit-learn's ``GaussianMixture`` is not used, which also has no Student components and no way to
shrink covariances towards each other.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

#: Steps of k-means before components are fitted, and of the fit at most.
_SETTLING_STEPS = 3
_MOST_STEPS = 60
#: A fit ends when a step gains less than this in mean log likelihood.
_LEAST_GAIN = 1e-3
#: Components without any member keep this weight, so that logarithms stay finite.
_NOTHING = 1e-10
#: As many samples as this speak for the common size of components.
_COMMON_SIZE = 0.3
_LOG_2PI = float(np.log(2 * np.pi))


class Components(NamedTuple):
    """A mixture of ellipses.

    Attributes
    ----------
    weights : ndarray of shape (n_components,)
    means : ndarray of shape (n_components, n_features)
    scatters : ndarray of shape (n_components, n_features, n_features)
        The covariances of Gaussians, the scale matrices of Student's t.
    dof : float
        Degrees of freedom, infinite for Gaussians.
    """

    weights: np.ndarray
    means: np.ndarray
    scatters: np.ndarray
    dof: float


class Prior(NamedTuple):
    """What the scatter of a component is shrunk towards.

    Attributes
    ----------
    round : float
        As many samples as this speak for a round component of the same size.
    pooled : float
        As many for the common shape of all components.
    shape : ndarray of shape (n_features, n_features) or None
        The common shape, if it is known beforehand.
    ridge : ndarray of shape (n_features, n_features)
        What is added to every scatter, so that none is singular.
    """

    round: float
    pooled: float
    shape: np.ndarray | None
    ridge: np.ndarray


@cache
def _pairs(n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the features of every product, and how often it occurs in a quadratic form."""
    i, j = np.triu_indices(n_features)
    return i, j, np.where(i == j, 1.0, 2.0)


def quadratic_features(Y: np.ndarray) -> np.ndarray:
    """Return one, the coordinates and their products, for every row."""
    i, j, _ = _pairs(Y.shape[1])
    return np.concatenate([np.ones((len(Y), 1)), Y, Y[:, i] * Y[:, j]], axis=1)


def squared_distances(
    features: np.ndarray, means: np.ndarray, scatters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances of rows to components, and the log determinants of the scatters."""
    i, j, counts = _pairs(means.shape[1])
    factors = np.linalg.cholesky(scatters)
    n_components, n_features = means.shape
    diagonals = factors.reshape(n_components, -1)[:, :: n_features + 1]
    log_dets = 2 * np.log(diagonals).sum(axis=1)
    inverses = np.linalg.inv(scatters)
    # Only the upper half is used below, beside all of it; what rounding made of them would differ.
    inverses = 0.5 * (inverses + inverses.transpose(0, 2, 1))
    linear = np.matmul(inverses, means[:, :, None])[:, :, 0]
    constant = (means * linear).sum(axis=1)
    products = inverses[:, i, j] * counts
    coefficients = np.concatenate([constant[:, None], -2 * linear, products], axis=1)
    # Laid out by component, so that what follows runs along rows.
    return np.maximum((coefficients @ features.T).T, 0.0), log_dets


def log_components(features: np.ndarray, components: Components) -> np.ndarray:
    """Return the log of every component's part in the density at every row."""
    weights, means, scatters, dof = components
    distances, log_dets = squared_distances(features, means, scatters)
    return _log_parts(distances, log_dets - 2 * np.log(weights), means.shape[1], dof)


def log_density(features: np.ndarray, components: Components) -> np.ndarray:
    """Return the log density at every row."""
    return log_sum_exp(log_components(features, components))


def log_sum_exp(parts: np.ndarray) -> np.ndarray:
    """Return the logarithm of the sum of exponentials along rows."""
    highest = parts.max(axis=1)
    return np.asarray(highest + np.log(np.exp(parts - highest[:, None]).sum(axis=1)))


def _log_parts(
    distances: np.ndarray, log_dets: np.ndarray, n_features: int, dof: float
) -> np.ndarray:
    if np.isinf(dof):
        return np.asarray(-0.5 * (distances + log_dets + n_features * _LOG_2PI))
    half = 0.5 * (dof + n_features)
    constant = gammaln(half) - gammaln(0.5 * dof) - 0.5 * n_features * np.log(dof * np.pi)
    return np.asarray(constant - 0.5 * log_dets - half * np.log1p(distances / dof))


def nearest_centres(
    Y: np.ndarray, weights: np.ndarray, n_centres: int, rng: np.random.RandomState
) -> np.ndarray:
    """Share rows out to centres by a few steps of k-means; return one-hot responsibilities."""
    centres = _spread_centres(Y, weights, n_centres, rng)
    squares = np.einsum("ij,ij->i", Y, Y)
    weighted = _weighted(Y, weights)
    for _ in range(_SETTLING_STEPS):
        apart = squares[:, None] - 2 * Y @ centres.T + np.einsum("ij,ij->i", centres, centres)
        shares = np.zeros((len(Y), n_centres), order="F")
        shares[np.arange(len(Y)), apart.argmin(axis=1)] = 1.0
        sizes = weights @ shares
        taken = sizes > 0
        centres[taken] = (shares.T @ weighted)[taken] / sizes[taken, None]
    return shares


def _spread_centres(
    Y: np.ndarray, weights: np.ndarray, n_centres: int, rng: np.random.RandomState
) -> np.ndarray:
    """Choose rows as centres, by their weights and their squared distances to the others."""
    chosen = [rng.randint(len(Y))]
    apart = np.full(len(Y), np.inf)
    draws = rng.uniform(size=n_centres - 1)
    for draw in draws:
        apart = np.minimum(apart, np.square(Y - Y[chosen[-1]]).sum(axis=1))
        bounds = np.cumsum(weights * apart)
        row = int(np.searchsorted(bounds, draw * bounds[-1], side="right"))
        chosen.append(min(row, len(Y) - 1))
    return Y[chosen].copy()


def _weighted(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return rows times their weights, which are mostly all one."""
    return rows if (weights == 1).all() else rows * weights[:, None]


def fit_components(
    features: np.ndarray,
    weights: np.ndarray,
    shares: np.ndarray,
    prior: Prior,
    dof: float = np.inf,
) -> tuple[Components, np.ndarray]:
    """Fit components by expectation maximisation.

    Parameters
    ----------
    features : ndarray
        Rows as :func:`quadratic_features`.
    weights : ndarray of shape (n_rows,)
        How many samples each row stands for.
    shares : ndarray of shape (n_rows, n_components)
        The responsibilities to start from.
    prior : Prior
    dof : float
        Degrees of freedom of all components.

    Returns
    -------
    components : Components
    shares : ndarray of shape (n_rows, n_components)
        The responsibilities in the end.
    """
    weighted, total = _weighted(features, weights), weights.sum()
    before, pulls = -np.inf, None
    for _ in range(_MOST_STEPS):
        components = _estimate(weighted, weights, shares, pulls, prior, dof)
        sizes, means, scatters, _ = components
        distances, log_dets = squared_distances(features, means, scatters)
        parts = _log_parts(distances, log_dets - 2 * np.log(sizes), means.shape[1], dof)
        highest = parts.max(axis=1, keepdims=True)
        shares = np.exp(parts - highest)
        sums = shares.sum(axis=1, keepdims=True)
        shares /= sums
        if not np.isinf(dof):
            pulls = (dof + means.shape[1]) / (dof + distances)
        likelihood = float(weights @ (highest + np.log(sums))[:, 0] / total)
        if likelihood - before < _LEAST_GAIN:
            break
        before = likelihood
    return components, shares


def _estimate(
    weighted: np.ndarray,
    weights: np.ndarray,
    shares: np.ndarray,
    pulls: np.ndarray | None,
    prior: Prior,
    dof: float,
) -> Components:
    """Return components from responsibilities; far samples pull less on Student's t."""
    n_features = prior.ridge.shape[0]
    pulling = shares if pulls is None else shares * pulls
    sizes, total = weights @ shares + _NOTHING, weights @ pulling + _NOTHING
    sums = pulling.T @ weighted
    means = sums[:, 1 : n_features + 1] / total[:, None]
    scatters = _symmetric(sums[:, n_features + 1 :], n_features)
    scatters -= total[:, None, None] * means[:, :, None] * means[:, None, :]
    scatters /= sizes[:, None, None]
    return Components(sizes / sizes.sum(), means, _shrunk(scatters, sizes, prior), dof)


def _shrunk(scatters: np.ndarray, sizes: np.ndarray, prior: Prior) -> np.ndarray:
    """Shrink scatters towards round ones and towards their common shape, each by its own size.

    A component of a single sample has no size of its own; so a bit of the common size is mixed in.
    """
    n_components, n_features, _ = scatters.shape
    flat = scatters.reshape(n_components, -1)
    traces = flat[:, :: n_features + 1].sum(axis=1)
    pooled = float(sizes @ traces) / sizes.sum()
    traces = (sizes * traces + _COMMON_SIZE * pooled) / (sizes + _COMMON_SIZE)
    common = prior.shape
    if common is None:
        common = (sizes @ flat / sizes.sum()).reshape(n_features, n_features)
    common = common / max(float(common.trace()), _NOTHING)
    towards = prior.round / n_features * np.eye(n_features) + prior.pooled * common
    strength = sizes + prior.round + prior.pooled
    shrunk = sizes[:, None, None] * scatters + np.maximum(traces, 0.0)[:, None, None] * towards
    return np.asarray(shrunk / strength[:, None, None] + prior.ridge)


def _symmetric(upper: np.ndarray, n_features: int) -> np.ndarray:
    i, j, _ = _pairs(n_features)
    out = np.empty((len(upper), n_features, n_features))
    out[:, i, j] = upper
    out[:, j, i] = upper
    return out
