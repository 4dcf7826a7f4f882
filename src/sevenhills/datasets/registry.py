"""The distributions by name, and how the study drew its samples from them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.datasets import make_blobs, make_moons

from .trajectories import draw_walks

#: The study draws every data set from a pool of this size.
POOL_SIZE = 20_000
_POOL_SEED = 100
_ANISO = np.array([[0.6, -0.6], [-0.4, 0.8]])


@dataclass(frozen=True)
class Distribution:
    """A distribution of the ROME study.

    Parameters
    ----------
    name : str
        Its name in the registry.
    description : str
        What it looks like, in one line.
    min_std : float
        The smallest standard deviation that the study allowed on it, in data units.
    draw : callable
        ``draw(n_samples, rng)`` returns an array of shape (n_samples, n_features).

    Examples
    --------
    >>> from sevenhills import datasets
    >>> train, test = datasets.load("aniso").split(run=0)
    >>> train.shape, test.shape
    ((3000, 2), (3000, 2))
    """

    name: str
    description: str
    min_std: float
    draw: Callable[[int, np.random.RandomState], np.ndarray]

    def pool(self) -> np.ndarray:
        """Return the pool of 20,000 draws from which the study takes its samples."""
        return _pool(self.name).copy()

    def split(self, run: int = 0, n_samples: int = 3000) -> tuple[np.ndarray, np.ndarray]:
        """Return the two data sets of one run of the study.

        Parameters
        ----------
        run : int, default=0
            The number of the run, which seeds the choice from the pool.
        n_samples : int, default=3000
            The size of each of the two sets, at most half of the pool.

        Returns
        -------
        first, second : ndarray of shape (n_samples, n_features)
        """
        if not 1 <= n_samples <= POOL_SIZE // 2:
            raise ValueError(f"n_samples must lie between 1 and {POOL_SIZE // 2}, got {n_samples}")
        rows = np.random.RandomState(run).choice(POOL_SIZE, 2 * n_samples, replace=False)
        pool = _pool(self.name)
        return pool[rows[:n_samples]], pool[rows[n_samples:]]

    def sample(self, n_samples: int, random_state: int | None = None) -> np.ndarray:
        """Return ``n_samples`` fresh, independent draws."""
        return self.draw(n_samples, np.random.RandomState(random_state))


def names() -> list[str]:
    """Return the names of all distributions."""
    return list(_REGISTRY)


def load(name: str) -> Distribution:
    """Return the distribution called ``name``.

    Parameters
    ----------
    name : str
        One of :func:`names`.

    Examples
    --------
    >>> from sevenhills import datasets
    >>> datasets.load("trajectories").sample(5, random_state=0).shape
    (5, 24)
    """
    if name not in _REGISTRY:
        raise ValueError(f"name must be one of {names()}, got {name!r}")
    return _REGISTRY[name]


@cache
def _pool(name: str) -> np.ndarray:
    rng = np.random.RandomState(_POOL_SEED)
    if name in ("aniso", "varied"):
        _blob_centres(rng)  # the study left the centres to make_blobs, which draws them first
    pool = _REGISTRY[name].draw(POOL_SIZE, rng)
    pool.flags.writeable = False
    return pool


def _aniso(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return _blobs(n_samples, rng, 1.0) @ _ANISO


def _varied(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return _blobs(n_samples, rng, [1.0, 2.5, 0.5])


def _blob_centres(rng: np.random.RandomState) -> np.ndarray:
    return rng.uniform(-10.0, 10.0, size=(3, 2))


def _blobs(
    n_samples: int, rng: np.random.RandomState, cluster_std: float | list[float]
) -> np.ndarray:
    centres = _blob_centres(np.random.RandomState(_POOL_SEED))
    return make_blobs(n_samples, centers=centres, cluster_std=cluster_std, random_state=rng)[0]


def _two_moons(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return make_moons(n_samples, noise=0.05, random_state=rng)[0]


def _trajectories(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return draw_walks(n_samples, rng, which=(0, 1, 2, 3, 4, 5))


def _unimodal_trajectories(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return draw_walks(n_samples, rng, which=(4,))


def _linear_normal(matrix: np.ndarray) -> Callable[[int, np.random.RandomState], np.ndarray]:
    def draw(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
        return rng.standard_normal((n_samples, 2)) @ matrix

    return draw


_REGISTRY = {
    entry.name: entry
    for entry in (
        Distribution("aniso", "three sheared Gaussians", 0.01, _aniso),
        Distribution("varied", "three round Gaussians of different width", 0.01, _varied),
        Distribution("two_moons", "two interleaved half circles", 0.01, _two_moons),
        Distribution("gaussian", "a standard normal", 0.01, _linear_normal(np.eye(2))),
        Distribution("elliptical", "a narrow normal", 0.01, _linear_normal(np.diag([1, 0.3]))),
        Distribution("rotated_elliptical", "a sheared normal", 0.01, _linear_normal(_ANISO)),
        Distribution("trajectories", "six walks in 24 dimensions", 0.1, _trajectories),
        Distribution("unimodal_trajectories", "one of the walks", 0.1, _unimodal_trajectories),
    )
}
