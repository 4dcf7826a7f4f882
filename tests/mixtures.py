"""Random mixtures of well separated Gaussians, and whether an estimator has found them."""

from typing import NamedTuple

import numpy as np

#: The least distance of two means, in standard deviations.
LEAST_APART = 6.0


class Drawn(NamedTuple):
    """Samples, and the Gaussian of each."""

    samples: np.ndarray
    labels: np.ndarray

    @property
    def n_hills(self):
        return len(np.unique(self.labels))


def draw(seed, n_hills=None):
    """Draw 200 to 3000 samples of 1 to 8 Gaussians in 2 to 24 dimensions.

    Every other mixture has unequal weights, every fourth one common covariance that is not round.
    """
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(2, 25))
    n_hills = int(rng.integers(1, 9)) if n_hills is None else n_hills
    n_samples = int(np.exp(rng.uniform(np.log(200), np.log(3000))))
    weights = np.full(n_hills, 1.0)
    if seed % 2:
        weights = rng.uniform(0.3, 1.7, n_hills)
    labels = rng.choice(n_hills, n_samples, p=weights / weights.sum())
    samples = _means(rng, n_hills, n_features)[labels]
    samples += rng.standard_normal(samples.shape)
    if seed % 4 == 0:
        shear = rng.standard_normal((n_features, n_features)) / np.sqrt(n_features)
        samples = samples @ (np.eye(n_features) + shear)
    return Drawn(samples, labels)


def _means(rng, n_hills, n_features):
    spread, out = np.exp(rng.uniform(np.log(4), np.log(20))), []
    spread /= np.sqrt(rng.uniform(1, n_features))
    while len(out) < n_hills:
        mean = spread * rng.standard_normal(n_features)
        if all(np.linalg.norm(mean - other) >= LEAST_APART for other in out):
            out.append(mean)
        else:
            spread *= 1.02
    return np.array(out)


def is_found(model, drawn):
    """Whether the clusters or components of a model are the Gaussians, but for noise."""
    found = model.labels_ if hasattr(model, "labels_") else _components(model, drawn.samples)
    pairs = np.unique(np.stack([found, drawn.labels])[:, found >= 0], axis=1)
    return pairs.shape[1] == len(np.unique(pairs[0])) == drawn.n_hills


def _components(model, X):
    density = model.density_
    units = np.matmul(X - density.means[:, None], density.transforms)
    log_parts = (density.log_weights + density.log_dets)[:, None] - 0.5 * (units**2).sum(axis=2)
    return log_parts.argmax(axis=0)
