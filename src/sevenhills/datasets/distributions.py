"""The eight distributions of the ROME study, by name."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs, make_moons

from ..density import Density
from . import truths
from .trajectories import ORIGIN, WalkModel, walks

#: The study draws this many samples of a distribution once, and all its data sets from these.
POOL_SIZE = 20_000
_POOL_SEED = 100
_ANISO = np.array([[0.6, -0.6], [-0.4, 0.8]])
#: Standard deviations of the three Gaussians of "varied".
VARIED_STDS = np.array([1.0, 2.5, 0.5])
#: The study's lower limit on standard deviations of walks, in meters.
_WALKS_MIN_STD = 0.1


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
        ``draw(n_samples, rng)`` returns samples, an array of shape (n_samples, n_features).
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
        """The true density of the samples; that of Gaussians is a ``KernelMixture``."""
        return self.build_truth()

    @cached_property
    def _pool(self) -> np.ndarray:
        rng = np.random.RandomState(_POOL_SEED)
        if self.draw in (_aniso, _varied):
            _blob_centers(rng)  # the study's make_blobs drew the centers first
        pool = self.draw(POOL_SIZE, rng)
        pool.flags.writeable = False
        return pool

    def split(self, run: int = 0, n_samples: int = 3000) -> tuple[np.ndarray, np.ndarray]:
        """Return a training set and a test set.

        The study repeats every experiment on different data, and calls each repetition a run. The
        number of a run is the seed of its data: the same number always gives the same two sets,
        other numbers give other sets of the same distribution. Take ``run=0`` for one experiment,
        and 0, 1, 2, ... to see how much results vary.

        Parameters
        ----------
        run : int, default=0
            The number of the run.
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


def disturbed_walks(
    walks: Any, origin: Any, name: str = "walks", description: str = "disturbed walks"
) -> Distribution:
    """Return a distribution of rotated, stretched and noisy copies of given walks.

    Parameters
    ----------
    walks : array-like of shape (n_walks, n_steps, 2)
        The walks, in meters; all are equally likely.
    origin : array-like of shape (2,)
        The center of rotation and stretching.
    name, description : str, optional

    Returns
    -------
    Distribution
        Of dimension ``2 * n_steps``; see :class:`WalkModel`.

    Examples
    --------
    >>> from sevenhills import datasets
    >>> fork = datasets.disturbed_walks([[(1, 0), (2, 1)], [(1, 0), (2, -1)]], origin=(0, 0))
    >>> X = fork.sample(100, random_state=0)
    >>> X.shape, fork.truth.logpdf(X).shape
    ((100, 4), (100,))
    """
    model = WalkModel(walks, origin)
    truth = partial(WalkModel, model.walks, model.origin)
    return Distribution(name, description, _WALKS_MIN_STD, model.sample, truth)


def _aniso(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return _blobs(n_samples, rng, 1.0) @ _ANISO


def _varied(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return _blobs(n_samples, rng, VARIED_STDS)


def _blob_centers(rng: np.random.RandomState) -> np.ndarray:
    return rng.uniform(-10.0, 10.0, size=(3, 2))


def _blobs(
    n_samples: int, rng: np.random.RandomState, cluster_std: float | np.ndarray
) -> np.ndarray:
    return make_blobs(n_samples, centers=BLOB_CENTERS, cluster_std=cluster_std, random_state=rng)[0]


def _two_moons(n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return make_moons(n_samples, noise=truths.MOONS_STD, random_state=rng)[0]


def _sheared(matrix: np.ndarray, n_samples: int, rng: np.random.RandomState) -> np.ndarray:
    return rng.standard_normal((n_samples, 2)) @ matrix


def _normal(name: str, description: str, matrix: np.ndarray) -> Distribution:
    truth = partial(truths.sheared_gaussians, np.zeros((1, 2)), matrix)
    return Distribution(name, description, 0.01, partial(_sheared, matrix), truth)


#: Centers of the three Gaussians of "aniso" (before shearing) and "varied".
BLOB_CENTERS = _blob_centers(np.random.RandomState(_POOL_SEED))
_REGISTRY = {
    entry.name: entry
    for entry in (
        Distribution(
            "aniso",
            "three sheared Gaussians",
            0.01,
            _aniso,
            partial(truths.sheared_gaussians, BLOB_CENTERS, _ANISO),
        ),
        Distribution(
            "varied",
            "three round Gaussians of different width",
            0.01,
            _varied,
            partial(truths.round_gaussians, BLOB_CENTERS, VARIED_STDS),
        ),
        Distribution(
            "two_moons", "two interleaved half circles", 0.01, _two_moons, truths.TwoMoons
        ),
        _normal("gaussian", "a standard normal", np.eye(2)),
        _normal("elliptical", "a narrow normal", np.diag([1, 0.3])),
        _normal("rotated_elliptical", "a sheared normal", _ANISO),
        disturbed_walks(walks(), ORIGIN, "trajectories", "six walks in 24 dimensions"),
        disturbed_walks(walks()[4:5], ORIGIN, "unimodal_trajectories", "one of the walks"),
    )
}
