"""Simple predictors, to have something to score and something to beat."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..covariance import shrink
from ..validation import check_count, check_numbers, check_positive, random_generator

#: Distances that are held at once.
_BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class _Frames:
    """Where walkers were last seen, and the directions along and across their heading as rows."""

    last: np.ndarray
    axes: np.ndarray

    @classmethod
    def of(cls, observed: np.ndarray) -> "_Frames":
        """Return the frames of pasts; who stands still is heading along the first axis."""
        heading = _velocity(observed)
        speed = np.linalg.norm(heading, axis=1, keepdims=True)
        heading = np.where(speed > 0, heading / np.where(speed > 0, speed, 1.0), [1.0, 0.0])
        across = np.stack([-heading[:, 1], heading[:, 0]], axis=1)
        return cls(observed[:, -1], np.stack([heading, across], axis=1))

    def enter(self, paths: np.ndarray) -> np.ndarray:
        """Return paths (S, T, 2) as walkers see them."""
        return (paths - self.last[:, None]) @ self.axes.transpose(0, 2, 1)

    def leave(self, paths: np.ndarray) -> np.ndarray:
        """Return paths (S, K, T, 2) that walkers see in the coordinates that came in."""
        return self.last[:, None, None] + paths @ self.axes[:, None]


def _velocity(observed: np.ndarray) -> np.ndarray:
    """Return the way walked in a step, over the last steps."""
    n_back = min(2, observed.shape[1] - 1)
    return (observed[:, -1] - observed[:, -1 - n_back]) / n_back


def _checked_pasts(observed: Any) -> np.ndarray:
    out = check_numbers(observed, "observed")
    if out.ndim != 3 or out.shape[2] != 2 or out.shape[1] < 2 or len(out) == 0:
        raise ValueError(
            f"observed must have shape (n_scenes, n_observed, 2) with two steps or more, "
            f"got {out.shape}"
        )
    if not np.isfinite(out).all():
        raise ValueError("observed must be finite, got NaN or infinity")
    return out


def _checked_futures(future: Any, n_scenes: int) -> np.ndarray:
    out = check_numbers(future, "future")
    if out.ndim != 3 or out.shape[2] != 2 or len(out) != n_scenes or out.shape[1] == 0:
        raise ValueError(
            f"future must have shape ({n_scenes}, n_predicted, 2), one for each past, "
            f"got {out.shape}"
        )
    if not np.isfinite(out).all():
        raise ValueError("future must be finite, got NaN or infinity")
    return out


class ConstantVelocity:
    """Walkers go on as they went, with a Gaussian spread.

    Parameters
    ----------
    std : float, optional
        The standard deviation of the change of the way that is walked in a step, in data units;
        changes of all steps add up. By default the spread is learned by :meth:`fit`.
    n_steps : int, default=12
        The number of steps to predict, if the spread is not learned.

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import ConstantVelocity
    >>> walks = make_walks(50, random_state=0)
    >>> predictor = ConstantVelocity().fit(walks.observed, walks.truth)
    >>> predictor.predict(walks.observed[:3], 20, random_state=0).shape
    (3, 20, 12, 2)
    """

    def __init__(self, std: float | None = None, n_steps: int = 12) -> None:
        self.std = None if std is None else check_positive(std, "std")
        self.n_steps = check_count(n_steps, "n_steps", least=1)
        self._factor: np.ndarray | None = None
        if self.std is not None:
            sums = np.tri(self.n_steps)
            self._factor = np.kron(self.std * sums @ sums, np.eye(2))

    def __repr__(self) -> str:
        return f"ConstantVelocity(std={self.std}, n_steps={self.n_steps})"

    def fit(self, observed: Any, future: Any) -> Self:
        """Learn the spread along and across the heading from what became of some pasts.

        Parameters
        ----------
        observed : array-like of shape (n_scenes, n_observed, 2)
        future : array-like of shape (n_scenes, n_predicted, 2)

        Returns
        -------
        self
        """
        pasts = _checked_pasts(observed)
        futures = _checked_futures(future, len(pasts))
        frames = _Frames.of(pasts)
        self.n_steps = futures.shape[1]
        missed = (frames.enter(futures) - self._ahead(pasts)).reshape(len(pasts), -1)
        # Errors are taken about zero, as the predictor goes straight on; few of them are shrunk.
        one = np.array([0, len(missed)])
        [variances], [directions] = shrink(
            missed, np.ones(len(missed)), one, np.array([0]), 0.0
        ).axes
        self._factor = directions * np.sqrt(variances)
        return self

    def _ahead(self, pasts: np.ndarray) -> np.ndarray:
        """Return the straight ways (S, T, 2), as walkers see them."""
        speed = np.linalg.norm(_velocity(pasts), axis=1)
        walked = speed[:, None] * np.arange(1, self.n_steps + 1)
        return np.stack([walked, np.zeros_like(walked)], axis=2)

    def predict(self, observed: Any, n_samples: int = 20, random_state: Any = None) -> np.ndarray:
        """Draw futures.

        Parameters
        ----------
        observed : array-like of shape (n_scenes, n_observed, 2)
        n_samples : int, default=20
            For each scene.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        ndarray of shape (n_scenes, n_samples, n_predicted, 2)
        """
        if self._factor is None:
            raise ValueError("this ConstantVelocity has no spread yet; fit it or pass a std")
        pasts = _checked_pasts(observed)
        n_samples = check_count(n_samples, "n_samples", least=1)
        rng = random_generator(random_state)
        noise = rng.standard_normal((len(pasts), n_samples, 2 * self.n_steps)) @ self._factor.T
        missed = noise.reshape(len(pasts), n_samples, self.n_steps, 2)
        return _Frames.of(pasts).leave(self._ahead(pasts)[:, None] + missed)


class NearestPasts:
    """Walkers do what others did whose past was like theirs.

    Pasts are compared after they are moved to one place and turned to one heading; the futures
    of the nearest are moved and turned back.

    Parameters
    ----------
    n_neighbors : int, optional
        The number of nearest pasts, of which futures are drawn. By default as many as samples
        are asked for, each of which then is a sample once.

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import NearestPasts
    >>> walks = make_walks(60, random_state=0)
    >>> predictor = NearestPasts().fit(walks.observed[10:], walks.truth[10:])
    >>> predictor.predict(walks.observed[:10], 20).shape
    (10, 20, 12, 2)
    """

    def __init__(self, n_neighbors: int | None = None) -> None:
        if n_neighbors is not None:
            n_neighbors = check_count(n_neighbors, "n_neighbors", least=1)
        self.n_neighbors = n_neighbors
        self._pasts: np.ndarray | None = None
        self._futures: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"NearestPasts(n_neighbors={self.n_neighbors})"

    def fit(self, observed: Any, future: Any) -> Self:
        """Remember pasts and what became of them.

        Parameters
        ----------
        observed : array-like of shape (n_scenes, n_observed, 2)
        future : array-like of shape (n_scenes, n_predicted, 2)

        Returns
        -------
        self
        """
        pasts = _checked_pasts(observed)
        futures = _checked_futures(future, len(pasts))
        frames = _Frames.of(pasts)
        self._pasts, self._futures = frames.enter(pasts), frames.enter(futures)
        return self

    def predict(self, observed: Any, n_samples: int = 20, random_state: Any = None) -> np.ndarray:
        """Return the futures of the nearest pasts.

        Parameters
        ----------
        observed : array-like of shape (n_scenes, n_observed, 2)
        n_samples : int, default=20
            For each scene.
        random_state : int, RandomState instance or None, default=None
            Needed only if ``n_neighbors`` was given.

        Returns
        -------
        ndarray of shape (n_scenes, n_samples, n_predicted, 2)
        """
        if self._pasts is None or self._futures is None:
            raise ValueError("this NearestPasts knows no pasts yet; fit it first")
        pasts = _checked_pasts(observed)
        if pasts.shape[1] != self._pasts.shape[1]:
            raise ValueError(
                f"observed has {pasts.shape[1]} steps, but was fitted to {self._pasts.shape[1]}"
            )
        n_samples = check_count(n_samples, "n_samples", least=1)
        n_neighbors = n_samples if self.n_neighbors is None else self.n_neighbors
        if n_neighbors > len(self._pasts):
            raise ValueError(
                f"{n_neighbors} nearest pasts were asked for, but only {len(self._pasts)} are known"
            )
        frames = _Frames.of(pasts)
        chosen = self._nearest(frames.enter(pasts), n_neighbors)
        if self.n_neighbors is not None:
            rng = random_generator(random_state)
            drawn = rng.randint(n_neighbors, size=(len(pasts), n_samples))
            chosen = np.take_along_axis(chosen, drawn, axis=1)
        return frames.leave(self._futures[chosen])

    def _nearest(self, pasts: np.ndarray, n_neighbors: int) -> np.ndarray:
        """Return the known pasts that are nearest to each of some others, the nearest first."""
        known = np.asarray(self._pasts).reshape(len(np.asarray(self._pasts)), -1)
        rows = pasts.reshape(len(pasts), -1)
        size = max(1, _BLOCK // known.size)
        out = np.empty((len(rows), n_neighbors), dtype=np.int64)
        for start in range(0, len(rows), size):
            apart = rows[start : start + size, None] - known
            squares = np.einsum("ijk,ijk->ij", apart, apart)
            out[start : start + size] = np.argsort(squares, axis=1, kind="stable")[:, :n_neighbors]
        return out
