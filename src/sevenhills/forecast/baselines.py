"""Simple forecasters of pedestrians, as baselines."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..covariance import shrink
from ..validation import check_count, check_numbers, check_positive, random_generator

#: Coordinate differences in a block of distances: 32 MB.
_BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class _HeadingFrames:
    """Last observed positions (S, 2), and axes (S, 2, 2) along and across the heading."""

    last: np.ndarray
    axes: np.ndarray

    @classmethod
    def from_paths(cls, observed: np.ndarray) -> "_HeadingFrames":
        """Return the frames of observed paths; the heading without motion is the first axis."""
        heading = _velocity(observed)
        speed = np.linalg.norm(heading, axis=1, keepdims=True)
        heading = np.where(speed > 0, heading / np.where(speed > 0, speed, 1.0), [1.0, 0.0])
        across = np.stack([-heading[:, 1], heading[:, 0]], axis=1)
        return cls(observed[:, -1], np.stack([heading, across], axis=1))

    def to_local(self, paths: np.ndarray) -> np.ndarray:
        """Return paths (S, T, 2) in the frames."""
        return (paths - self.last[:, None]) @ self.axes.transpose(0, 2, 1)

    def to_global(self, paths: np.ndarray) -> np.ndarray:
        """Return paths (S, K, T, 2) of the frames in data coordinates."""
        return self.last[:, None, None] + paths @ self.axes[:, None]


def _velocity(observed: np.ndarray) -> np.ndarray:
    """Return the displacement per step, over the last two steps."""
    n_back = min(2, observed.shape[1] - 1)
    return (observed[:, -1] - observed[:, -1 - n_back]) / n_back


def _checked(paths: Any, name: str, n_steps: int, n_scenes: int | None = None) -> np.ndarray:
    """Return paths (S, T, 2) of at least n_steps; refuse other shapes and NaN."""
    out = check_numbers(paths, name)
    is_shaped = out.ndim == 3 and out.shape[2] == 2 and out.shape[1] >= n_steps and len(out) > 0
    if not is_shaped or n_scenes not in (None, len(out)):
        raise ValueError(
            f"{name} must have shape ({n_scenes or 'n_scenes'}, n_steps, 2) with at least "
            f"{n_steps} steps, got {out.shape}"
        )
    if not np.isfinite(out).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return out


class _Forecaster(ABC):
    """A forecaster that is fitted to observed and future paths."""

    def __repr__(self) -> str:
        values = [f"{k}={v}" for k, v in vars(self).items() if not k.startswith("_")]
        return f"{type(self).__name__}({', '.join(values)})"

    def fit(self, observed: Any, future: Any) -> Self:
        """Fit the forecaster.

        Parameters
        ----------
        observed : array-like of shape (n_scenes, n_observed, 2)
        future : array-like of shape (n_scenes, n_predicted, 2)

        Returns
        -------
        self
        """
        pasts = _checked(observed, "observed", 2)
        self._fit(pasts, _checked(future, "future", 1, len(pasts)))
        return self

    def predict(self, observed: Any, n_samples: int = 20, random_state: Any = None) -> np.ndarray:
        """Return samples of the futures of observed paths.

        Parameters
        ----------
        observed : array-like of shape (n_scenes, n_observed, 2)
        n_samples : int, default=20
            Number of samples for each scene.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        ndarray of shape (n_scenes, n_samples, n_predicted, 2)
        """
        n_samples = check_count(n_samples, "n_samples", least=1)
        return self._predict(_checked(observed, "observed", 2), n_samples, random_state)

    @abstractmethod
    def _fit(self, pasts: np.ndarray, futures: np.ndarray) -> None:
        """Fit checked paths."""

    @abstractmethod
    def _predict(self, pasts: np.ndarray, n_samples: int, random_state: Any) -> np.ndarray:
        """Return samples for checked paths."""


class ConstantVelocity(_Forecaster):
    """Forecast that continues at constant velocity, with Gaussian errors.

    Parameters
    ----------
    std : float, optional
        Standard deviation of the change of the displacement per step, in data units; changes of
        all steps add up. By default :meth:`fit` estimates the covariance of the errors along and
        across the heading.
    n_steps : int, default=12
        Number of steps to predict without :meth:`fit`.

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import ConstantVelocity
    >>> walks = make_walks(50, random_state=0)
    >>> forecaster = ConstantVelocity().fit(walks.observed, walks.truth)
    >>> forecaster.predict(walks.observed[:3], 20, random_state=0).shape
    (3, 20, 12, 2)
    """

    def __init__(self, std: float | None = None, n_steps: int = 12) -> None:
        self.std = None if std is None else check_positive(std, "std")
        self.n_steps = check_count(n_steps, "n_steps", least=1)
        self._factor: np.ndarray | None = None
        if self.std is not None:
            sums = np.tri(self.n_steps)
            self._factor = np.kron(self.std * sums @ sums, np.eye(2))

    def _fit(self, pasts: np.ndarray, futures: np.ndarray) -> None:
        self.n_steps = futures.shape[1]
        local = _HeadingFrames.from_paths(pasts).to_local(futures)
        errors = (local - self._straight(pasts)).reshape(len(pasts), -1)
        # The mean error is taken as zero; the covariance of few errors is shrunk.
        one_cluster = np.array([0, len(errors)])
        [variances], [directions] = shrink(
            errors, np.ones(len(errors)), one_cluster, np.array([0]), 0.0
        ).axes
        self._factor = directions * np.sqrt(variances)

    def _straight(self, pasts: np.ndarray) -> np.ndarray:
        """Return paths (S, T, 2) at constant velocity, in heading frames."""
        speed = np.linalg.norm(_velocity(pasts), axis=1)
        ahead = speed[:, None] * np.arange(1, self.n_steps + 1)
        return np.stack([ahead, np.zeros_like(ahead)], axis=2)

    def _predict(self, pasts: np.ndarray, n_samples: int, random_state: Any) -> np.ndarray:
        if self._factor is None:
            raise ValueError("this ConstantVelocity is not fitted; fit it or pass a std")
        rng = random_generator(random_state)
        noise = rng.standard_normal((len(pasts), n_samples, 2 * self.n_steps)) @ self._factor.T
        errors = noise.reshape(len(pasts), n_samples, self.n_steps, 2)
        return _HeadingFrames.from_paths(pasts).to_global(self._straight(pasts)[:, None] + errors)


class NearestPasts(_Forecaster):
    """Forecast from the futures of the most similar observed paths.

    Observed paths are compared after translation to one place and rotation to one heading; the
    futures of the nearest ones are transformed back.

    Parameters
    ----------
    n_neighbors : int, optional
        Number of nearest paths from whose futures samples are drawn. By default the number of
        samples, and each of these futures is a sample once.

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import NearestPasts
    >>> walks = make_walks(60, random_state=0)
    >>> forecaster = NearestPasts().fit(walks.observed[10:], walks.truth[10:])
    >>> forecaster.predict(walks.observed[:10], 20).shape
    (10, 20, 12, 2)
    """

    def __init__(self, n_neighbors: int | None = None) -> None:
        if n_neighbors is not None:
            n_neighbors = check_count(n_neighbors, "n_neighbors", least=1)
        self.n_neighbors = n_neighbors
        self._known: tuple[np.ndarray, np.ndarray] | None = None

    def _fit(self, pasts: np.ndarray, futures: np.ndarray) -> None:
        frames = _HeadingFrames.from_paths(pasts)
        self._known = frames.to_local(pasts), frames.to_local(futures)

    def _predict(self, pasts: np.ndarray, n_samples: int, random_state: Any) -> np.ndarray:
        if self._known is None:
            raise ValueError("this NearestPasts is not fitted; fit it first")
        known, futures = self._known
        if pasts.shape[1] != known.shape[1]:
            raise ValueError(
                f"observed has {pasts.shape[1]} steps, but was fitted to {known.shape[1]}"
            )
        n_neighbors = n_samples if self.n_neighbors is None else self.n_neighbors
        if n_neighbors > len(known):
            raise ValueError(
                f"n_neighbors is {n_neighbors}, but only {len(known)} paths were fitted"
            )
        frames = _HeadingFrames.from_paths(pasts)
        nearest = _nearest(frames.to_local(pasts), known, n_neighbors)
        if self.n_neighbors is not None:
            rng = random_generator(random_state)
            drawn = rng.randint(n_neighbors, size=(len(pasts), n_samples))
            nearest = np.take_along_axis(nearest, drawn, axis=1)
        return frames.to_global(futures[nearest])


def _nearest(paths: np.ndarray, known: np.ndarray, n_neighbors: int) -> np.ndarray:
    """Return the indices (S, n_neighbors) of the nearest known paths, nearest first."""
    rows, others = paths.reshape(len(paths), -1), known.reshape(len(known), -1)
    size = max(1, _BLOCK // others.size)
    out = np.empty((len(rows), n_neighbors), dtype=np.int64)
    for start in range(0, len(rows), size):
        apart = rows[start : start + size, None] - others
        squares = np.einsum("ijk,ijk->ij", apart, apart)
        out[start : start + size] = np.argsort(squares, axis=1, kind="stable")[:, :n_neighbors]
    return out
