"""The samples on which subjects are tortured: few, so that all of it takes little."""

from functools import cache, wraps

import numpy as np

from .subjects import Subject

#: The area of a cell of the grid over the hills.
AREA = 0.05**2


def _fresh(make):
    """Make samples once, and hand out a new array for each call."""
    made = cache(make)
    return wraps(make)(lambda *args, **keywords: made(*args, **keywords).copy())


@_fresh
def hills(n_samples=48, n_features=2, seed=3):
    """Return two well separated clusters, the first of them tilted, as a new array."""
    rng = np.random.RandomState(seed)
    n_first = n_samples * 9 // 16
    X = rng.standard_normal((n_samples, n_features))
    X[:n_first] @= np.eye(n_features) + 0.5 * np.eye(n_features, k=1)
    X[n_first:] = 0.5 * X[n_first:] + 6.0
    return X


@_fresh
def one_hill(n_samples=40, n_features=2, seed=5):
    """Return one cluster as a new array."""
    return np.random.RandomState(seed).standard_normal((n_samples, n_features))


@_fresh
def whole_numbers(n_samples=24, seed=7):
    """Return two clusters of whole numbers from 0 to 120, no row twice, as a new array."""
    return np.unique(np.round(9 * hills(3 * n_samples, seed=seed) + 40), axis=0)[::3].copy()


@_fresh
def points(n_features=2, seed=11):
    """Return points at which to ask for densities: near the hills, between and beside them."""
    rng = np.random.RandomState(seed)
    near = hills(48, n_features)[::6] + 0.2 * rng.standard_normal((8, n_features))
    return np.concatenate([near, rng.uniform(-4.0, 9.0, (6, n_features))])


@cache
def fitted(subject: Subject):
    """Return the subject, fitted to the hills. Whoever changes it takes a copy."""
    return subject.fit(hills())


@cache
def answers(subject: Subject):
    """Return the log densities of the fitted subject at the points, in an array of our own."""
    out = np.array(fitted(subject).score_samples(points()))
    out.flags.writeable = False
    return out


@cache
def masses(subject: Subject):
    """Return a grid over the hills and the mass of the fitted density in each of its cells."""
    axis = np.arange(-9.0, 13.0, np.sqrt(AREA))
    nodes = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return nodes, np.exp(fitted(subject).score_samples(nodes)) * AREA
