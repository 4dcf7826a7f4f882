"""The densities of which laws are asked: fits of four kinds, and mixtures made by hand."""

from functools import cache

import numpy as np

from sevenhills import ROME, AutoROME, GaussianKDE, KernelMixture, ManifoldParzen, datasets

ESTIMATORS = {
    "rome": ROME,
    "auto": AutoROME,
    "parzen": ManifoldParzen,
    "kde": GaussianKDE,
}


@cache
def samples(n_features=2, n_samples=300):
    """Three sheared clusters, more features being mixtures of those and of noise."""
    X = datasets.load("aniso").sample(n_samples, random_state=0)
    if n_features > 2:
        rng = np.random.RandomState(n_features)
        noise = rng.standard_normal((n_samples, n_features - 2))
        X = np.hstack([X, 0.5 * X @ rng.standard_normal((2, n_features - 2)) + noise])
    X.flags.writeable = False
    return X[:, :n_features]


@cache
def fitted(name, n_features=2, n_samples=300):
    """An estimator of one of the four kinds, fitted."""
    return ESTIMATORS[name]().fit(samples(n_features, n_samples))


def random_mixture(seed, n_features=2, n_groups=3, n_kernels=60, spread=5.0, stretch=0.0):
    """Kernels of random covariances, whose widths differ by powers of ten up to ``stretch``."""
    rng = np.random.RandomState(seed)
    n_groups = min(n_groups, n_kernels)
    cuts = np.sort(rng.choice(np.arange(1, n_kernels), n_groups - 1, replace=False))
    offsets = np.concatenate([[0], cuts, [n_kernels]])
    home = np.repeat(spread * rng.standard_normal((n_groups, n_features)), np.diff(offsets), axis=0)
    axes = np.linalg.qr(rng.standard_normal((n_groups, n_features, n_features)))[0]
    widths = 10 ** rng.uniform(-stretch, stretch, (n_groups, 1, n_features))
    return KernelMixture(
        weights=rng.dirichlet(np.ones(n_kernels)),
        means=rng.standard_normal((n_kernels, n_features)) + home,
        offsets=offsets,
        transforms=axes / widths,
        clusters=rng.randint(-1, 3, n_groups),
        counts=rng.uniform(1, 5, n_kernels),
    )
