"""Clusters of different shapes."""

from typing import Any

import numpy as np

from ..validation import check_count, random_generator


def make_shapes(n_samples: int, random_state: Any = None) -> np.ndarray:
    """Draw samples of a bow, a sheared Gaussian and a skewed cluster with heavy tails.

    Each shape has probability 1/3.

    Parameters
    ----------
    n_samples : int
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    ndarray of shape (n_samples, 2)

    Examples
    --------
    >>> from sevenhills.datasets import make_shapes
    >>> make_shapes(5, random_state=0).shape
    (5, 2)
    """
    n_samples = check_count(n_samples, "n_samples", least=0)
    rng = random_generator(random_state)
    angles = np.pi * rng.uniform(size=n_samples)
    bow = 1.6 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    bow += 0.12 * rng.standard_normal((n_samples, 2)) + [-2.2, 0.0]
    blob = rng.standard_normal((n_samples, 2)) @ [[0.45, 0.25], [0.0, 0.3]] + [-2.2, -2.0]
    skewed = rng.lognormal(-0.6, 0.7, n_samples) + 1.2
    tailed = 0.35 * rng.standard_t(3.0, n_samples) - 0.6
    shapes = np.stack([bow, blob, np.stack([skewed, tailed], axis=1)])
    return np.asarray(shapes[rng.randint(3, size=n_samples), np.arange(n_samples)])
