"""Clusters for the tests of stacking."""

import numpy as np

from sevenhills.stacking.cells import Cell
from sevenhills.stacking.search import Trial

KINDS_OF_SAMPLES = ["random", "tied", "repeated", "constant"]


def random_state(seed=0):
    return np.random.RandomState(seed)


def awkward(kind, seed, n_samples=40, n_features=2):
    """Whitened samples, some of which are tied or have no spread."""
    rng = random_state(seed)
    X = rng.standard_normal((n_samples, n_features))
    if kind == "tied":
        X = np.round(X)
    elif kind == "repeated":
        X = X[rng.randint(n_samples // 4, size=n_samples)]
    elif kind == "constant":
        X[:, -1] = 1.5
    return X


def blobs(sizes, apart=100.0, n_features=2, seed=0):
    group = np.repeat(np.arange(len(sizes)), sizes)
    noise = random_state(seed).standard_normal((len(group), n_features))
    return noise + apart * group[:, None], group


def crescent(n_samples=120, seed=0):
    """A bent cluster whose margins are not normal."""
    rng = random_state(seed)
    x = rng.standard_normal(n_samples)
    return np.stack([x, x**2 + 0.3 * rng.standard_normal(n_samples)], axis=1)


def cell_of(X, pooled=None, least=1e-6, weights=None, pieces=None):
    weights = np.ones(len(X)) if weights is None else weights
    pieces = np.zeros(len(X), dtype=int) if pieces is None else pieces
    ridge = least * np.eye(X.shape[1])
    return Cell.from_samples(X, weights, pieces, ridge, pooled, random_state())


def judged(member, cell, n_folds=None):
    """Judge a member on the first folds of a cell, by default on all that have test rows."""
    return Trial(member, cell).on_folds(cell.n_tested if n_folds is None else n_folds)
