"""The eight distributions of the ROME study, with their true densities, and clusters of shapes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import roots_legendre
from sklearn.datasets import make_blobs, make_moons

from ..density import Density, KernelMixture
from ..validation import check_count, random_generator
from .trajectories import ORIGIN, WalkModel, walks

#: The study draws this many samples of a distribution once, and all its data sets from these.
POOL_SIZE = 20_000
_POOL_SEED = 100
#: Centers of the three Gaussians of "aniso" (before shearing) and "varied", as in the pools.
BLOB_CENTERS = np.random.RandomState(_POOL_SEED).uniform(-10.0, 10.0, size=(3, 2))
#: Standard deviations of the three Gaussians of "varied".
VARIED_STDS = np.array([1.0, 2.5, 0.5])
_ANISO = np.array([[0.6, -0.6], [-0.4, 0.8]])
_MOONS_STD = 0.05
#: Quadrature nodes on each moon. Seen from a distance of 30 units, the integrand along an arc has
#: a standard deviation of .009, which this many nodes resolve.
_MOON_NODES = 1024


@dataclass(frozen=True)
class Distribution:
    """A distribution with a known density, and the data sets that the study draws from it.

    Parameters
    ----------
    name : str
        The name for :func:`load`.
    description : str
        A description of one line.
    min_std : float
        The study's parameter ``min_std`` for this distribution, in data units.
    draw : callable
        ``draw(n_samples, rng)`` draws the samples of the study, (n_samples, n_features).
    build_truth : callable
        ``build_truth()`` returns the true density; called at the first use of ``truth``.

    Examples
    --------
    >>> from sevenhills import datasets
    >>> aniso = datasets.load("aniso")
    >>> train, test = aniso.split(run=0)
    >>> train.shape, test.shape
    ((3000, 2), (3000, 2))
    >>> round(float(aniso.truth.logpdf(test).mean()), 2)
    -2.5
    """

    name: str
    description: str
    min_std: float
    draw: Callable[[int, np.random.RandomState], np.ndarray] = field(repr=False)
    build_truth: Callable[[], Density] = field(repr=False)

    @cached_property
    def truth(self) -> Density:
        """The true density of the samples."""
        return self.build_truth()

    @cached_property
    def _pool(self) -> np.ndarray:
        pool = self.draw(POOL_SIZE, np.random.RandomState(_POOL_SEED))
        pool.flags.writeable = False
        return pool

    def split(self, run: int = 0, n_samples: int = 3000) -> tuple[np.ndarray, np.ndarray]:
        """Return a training set and a test set.

        Parameters
        ----------
        run : int, default=0
            The seed of the two sets. The study repeats every experiment on different data, and
            calls each repetition a run.
        n_samples : int, default=3000
            The size of each of the two sets, at most 10,000.

        Returns
        -------
        train, test : ndarray of shape (n_samples, n_features)
            Two sets without common samples.
        """
        if not 1 <= n_samples <= POOL_SIZE // 2:
            raise ValueError(f"n_samples must lie between 1 and {POOL_SIZE // 2}, got {n_samples}")
        rows = np.random.RandomState(run).choice(POOL_SIZE, 2 * n_samples, replace=False)
        return self._pool[rows[:n_samples]], self._pool[rows[n_samples:]]

    def sample(self, n_samples: int, random_state: Any = None) -> np.ndarray:
        """Return independent samples, those of ``truth.sample``.

        In the data sets of :meth:`split`, every blob and every moon has the same number of
        samples up to the random choice; here, these numbers are random.
        """
        return self.truth.sample(n_samples, random_state)


def names() -> list[str]:
    """Return the names of all distributions."""
    return list(_REGISTRY)


def load(name: str) -> Distribution:
    """Return the distribution called ``name``, one of :func:`names`.

    Examples
    --------
    >>> from sevenhills import datasets
    >>> datasets.load("trajectories").sample(5, random_state=0).shape
    (5, 24)
    """
    if name not in _REGISTRY:
        raise ValueError(f"name must be one of {names()}, got {name!r}")
    return _REGISTRY[name]


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


# The pools of the study


def _aniso(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return make_blobs(n_samples, random_state=rng)[0] @ _ANISO


def _varied(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return make_blobs(n_samples, cluster_std=VARIED_STDS, random_state=rng)[0]


def _two_moons(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return make_moons(n_samples, noise=_MOONS_STD, random_state=rng)[0]


def _sheared(matrix: np.ndarray, n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return rng.standard_normal((n_samples, 2)) @ matrix


# True densities


def gaussians(means: np.ndarray, transforms: np.ndarray) -> KernelMixture:
    """Return Gaussians of equal weight, with a transform for each of them or one for all."""
    n_kernels = len(means)
    offsets = np.arange(0, n_kernels + 1, n_kernels // len(transforms))
    return KernelMixture(np.full(n_kernels, 1 / n_kernels), means, offsets, transforms)


class TwoMoons(Density):
    """Two half circles, uniform in the angle, with Gaussian noise.

    A Gauss rule of ``n_nodes`` integrates along each half circle.
    """

    n_features = 2

    def __init__(self, n_nodes: int = _MOON_NODES) -> None:
        nodes, weights = roots_legendre(n_nodes)
        means = np.concatenate(_moons(np.pi * (nodes + 1) / 2))
        halves, offsets = np.tile(weights / (2 * weights.sum()), 2), np.array([0, len(means)])
        self.mixture = KernelMixture(halves, means, offsets, np.eye(2)[None] / _MOONS_STD)

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the logarithm of the density at every row of ``X``."""
        return self.mixture.logpdf(X, n_jobs)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw independent samples, from the arcs themselves."""
        n_samples, rng = check_count(n_samples, "n_samples"), random_generator(random_state)
        outer, inner = _moons(rng.uniform(0.0, np.pi, n_samples))
        points = np.where(rng.randint(2, size=n_samples)[:, None], outer, inner)
        return points + rng.normal(0.0, _MOONS_STD, points.shape)


def _moons(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.column_stack([cos, sin]), np.column_stack([1 - cos, 0.5 - sin])


def _normal(name: str, description: str, matrix: np.ndarray) -> Distribution:
    truth = partial(gaussians, np.zeros((1, 2)), np.linalg.inv(matrix)[None])
    return Distribution(name, description, 0.01, partial(_sheared, matrix), truth)


def _trajectories(name: str, description: str, paths: np.ndarray) -> Distribution:
    truth = partial(WalkModel, paths, ORIGIN)
    # The study limits standard deviations of walks to 0.1 m.
    return Distribution(name, description, 0.1, truth().sample, truth)


_REGISTRY = {
    entry.name: entry
    for entry in (
        Distribution(
            "aniso",
            "three sheared Gaussians",
            0.01,
            _aniso,
            partial(gaussians, BLOB_CENTERS @ _ANISO, np.linalg.inv(_ANISO)[None]),
        ),
        Distribution(
            "varied",
            "three round Gaussians of different width",
            0.01,
            _varied,
            partial(gaussians, BLOB_CENTERS, np.eye(2) / VARIED_STDS[:, None, None]),
        ),
        Distribution("two_moons", "two interleaved half circles", 0.01, _two_moons, TwoMoons),
        _normal("gaussian", "a standard normal", np.eye(2)),
        _normal("elliptical", "a narrow normal", np.diag([1, 0.3])),
        _normal("rotated_elliptical", "a sheared normal", _ANISO),
        _trajectories("trajectories", "six walks in 24 dimensions", walks()),
        _trajectories("unimodal_trajectories", "one of the walks", walks()[4:5]),
    )
}
