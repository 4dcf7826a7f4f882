"""Synthetic walks of pedestrians, with a known distribution of the future given the past."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import gen_batches

from ..validation import check_count, check_numbers, check_positive, freeze, random_generator

#: Intentions of a walker: the turn in radians, and the final speed as a fraction of the initial.
INTENTIONS = {
    "ahead": (0.0, 1.0),
    "left": (1.0, 0.95),
    "right": (-0.8, 0.95),
    "stop": (0.0, 0.1),
}
#: Standard deviations of accelerations along and across the heading, in m/s^2.
_ACCELERATION = (0.14, 0.10)
#: Correlation of the accelerations of consecutive steps.
_PERSISTENCE = 0.5
#: Standard deviation of observed positions, in meters.
_POSITION_STD = 0.02
#: Speeds of walkers, in m/s: mean, standard deviation and lower limit.
_SPEED, _SPEED_STD, _MIN_SPEED = 1.3, 0.25, 0.5
#: Side of the square in which pasts end, in meters.
_PLACE = 20.0
#: Parameter of the Dirichlet distribution of the probabilities of intentions.
_CONCENTRATION = 3.0
#: Number of values in memory at a time.
_BLOCK = 2**22


@dataclass(frozen=True, eq=False, repr=False)
class WalkLaw:
    r"""The distribution of the futures of scenes, a mixture of Gaussians in each of them.

    .. math:: x = m_{sj} + R_s \, L n, \qquad j \sim w_s, \quad n \sim N(0, I)

    with a mean path :math:`m_{sj}` for every intention, the rotation :math:`R_s` to the heading of
    the walker, and the factor :math:`L` of the covariance of positions under correlated
    accelerations.

    Parameters
    ----------
    shares : array-like of shape (n_scenes, n_intentions)
        The probability of every intention.
    means : array-like of shape (n_scenes, n_intentions, n_steps, 2)
        The mean path of every intention, in meters.
    headings : array-like of shape (n_scenes, 2)
        The headings of the walkers, unit vectors.
    factors : array-like of shape (2, n_steps, n_steps)
        Cholesky factors of the covariances along and across the heading.

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> walks = make_walks(3, random_state=0)
    >>> walks.law.draw(20, random_state=0).shape
    (3, 20, 12, 2)
    >>> walks.law.logpdf(walks.truth).round(1)
    array([39.7, 39.2, 42.7])
    """

    shares: np.ndarray
    means: np.ndarray
    headings: np.ndarray
    factors: np.ndarray

    def __post_init__(self) -> None:
        freeze(self, "shares", "means", "headings", "factors")

    def __repr__(self) -> str:
        return f"WalkLaw(n_scenes={self.n_scenes}, n_steps={self.n_steps})"

    def __getitem__(self, scenes: Any) -> "WalkLaw":
        """Return the law of some scenes, given as a slice or an array of indices."""
        return WalkLaw(self.shares[scenes], self.means[scenes], self.headings[scenes], self.factors)

    @property
    def n_scenes(self) -> int:
        """The number of scenes."""
        return int(self.means.shape[0])

    @property
    def n_steps(self) -> int:
        """The number of steps of every future."""
        return int(self.means.shape[2])

    def spread(self, factor: float) -> "WalkLaw":
        """Return the law with all standard deviations multiplied by a factor.

        Forecasts from the result are over-confident with a factor below one, and under-confident
        with a factor above one.
        """
        return replace(self, factors=check_positive(factor, "factor") * self.factors)

    def turned(self, angle: float) -> "WalkLaw":
        """Return a biased law: every mean path is rotated about its first position, in radians."""
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[cos, sin], [-sin, cos]])
        start = self.means[:, :, :1]
        return replace(self, means=start + (self.means - start) @ turn)

    def predictors(self) -> dict[str, "WalkLaw"]:
        """Return the laws of a right forecaster, the oracle, and of three wrong forecasters."""
        return {
            "oracle": self,
            "over-confident": self.spread(0.5),
            "under-confident": self.spread(2.0),
            "biased": self.turned(0.3),
        }

    def draw(self, n_samples: int, random_state: Any = None) -> np.ndarray:
        """Draw ``n_samples`` futures of every scene, (n_scenes, n_samples, n_steps, 2).

        Data larger than memory can be drawn by blocks of scenes: consecutive blocks from one
        generator are the same as all scenes at once.
        """
        n_samples = check_count(n_samples, "n_samples", least=1)
        rng = random_generator(random_state)
        out = np.empty((self.n_scenes, n_samples, self.n_steps, 2))
        for s in range(self.n_scenes):
            chosen = rng.choice(self.shares.shape[1], n_samples, p=self.shares[s])
            noise = rng.standard_normal((n_samples, self.n_steps, 2))
            moved = np.einsum("ctu,kuc->ktc", self.factors, noise)
            out[s] = self.means[s, chosen] + moved @ _frame(self.headings[s])
        return out

    def logpdf(self, paths: Any) -> np.ndarray:
        """Return the log density of whole futures, one or several for every scene.

        Parameters
        ----------
        paths : array-like of shape (n_scenes, n_steps, 2) or (n_scenes, n_paths, n_steps, 2)

        Returns
        -------
        ndarray of shape (n_scenes,) or (n_scenes, n_paths)
        """
        X = check_numbers(paths, "paths")
        has_one_path = X.ndim == 3
        X = X[:, None] if has_one_path else X
        if X.ndim != 4 or (X.shape[0], *X.shape[2:]) != (self.n_scenes, self.n_steps, 2):
            raise ValueError(
                f"paths must have shape ({self.n_scenes}, {self.n_steps}, 2) or "
                f"({self.n_scenes}, n_paths, {self.n_steps}, 2), got {np.shape(paths)}"
            )
        blocks = gen_batches(len(X), max(1, _BLOCK // (X.shape[1] * self.means[0].size)))
        out = np.concatenate([self[scenes]._logpdf(X[scenes]) for scenes in blocks])
        return out[:, 0] if has_one_path else out

    def _logpdf(self, X: np.ndarray) -> np.ndarray:
        apart = X[:, :, None] - self.means[:, None]
        along = np.einsum("sljtd,scd->sljtc", apart, _frame(self.headings))
        Z = np.einsum("ctu,sljuc->sljtc", np.linalg.inv(self.factors), along)
        squares = np.einsum("sljtc,sljtc->slj", Z, Z)
        log_det = -np.log(np.einsum("ctt->ct", self.factors)).sum()
        with np.errstate(divide="ignore"):  # an intention may have probability zero
            log_shares = np.log(self.shares)[:, None]
        constant = log_det - self.n_steps * np.log(2 * np.pi)
        return np.asarray(logsumexp(log_shares - 0.5 * squares, axis=2) + constant)


@dataclass(frozen=True, eq=False, repr=False)
class Walks:
    """Scenes with one walker each.

    Attributes
    ----------
    observed : ndarray of shape (n_scenes, n_observed, 2)
        The observed positions, in meters.
    truth : ndarray of shape (n_scenes, n_predicted, 2)
        The future positions, drawn from the law.
    law : WalkLaw
        The distribution of the futures given the observed positions.
    """

    observed: np.ndarray
    truth: np.ndarray
    law: WalkLaw

    def __repr__(self) -> str:
        n_scenes, n_observed = self.observed.shape[:2]
        n_predicted = self.law.n_steps
        return f"Walks(n_scenes={n_scenes}, n_observed={n_observed}, n_predicted={n_predicted})"


def make_walks(
    n_scenes: int = 100,
    n_observed: int = 8,
    n_predicted: int = 12,
    *,
    dt: float = 0.4,
    random_state: Any = None,
) -> Walks:
    r"""Make synthetic walks with a known distribution of the future.

    A walker continues from its last position and velocity with one of four intentions: ahead, to
    the left, to the right, or to a stop. The probabilities of the intentions differ from scene to
    scene. Correlated accelerations disturb the mean path of the intention, so that the future
    follows a mixture of four Gaussians in ``2 * n_predicted`` dimensions.

    Parameters
    ----------
    n_scenes : int, default=100
    n_observed : int, default=8
        The number of observed steps, at least two.
    n_predicted : int, default=12
        The number of steps of the future.
    dt : float, default=0.4
        Seconds between steps.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    Walks

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> walks = make_walks(5, random_state=0)
    >>> walks.observed.shape, walks.truth.shape
    ((5, 8, 2), (5, 12, 2))
    """
    n_scenes = check_count(n_scenes, "n_scenes", least=1)
    n_observed = check_count(n_observed, "n_observed", least=2)
    n_predicted = check_count(n_predicted, "n_predicted", least=1)
    dt = check_positive(dt, "dt")
    rng = random_generator(random_state)
    observed = _pasts(n_scenes, n_observed, dt, rng)
    shares = rng.dirichlet(np.full(len(INTENTIONS), _CONCENTRATION), n_scenes)
    law = _law_given(observed, shares, n_predicted, dt)
    return Walks(observed, law.draw(1, rng)[:, 0], law)


def _pasts(n_scenes: int, n_observed: int, dt: float, rng: np.random.RandomState) -> np.ndarray:
    """Return straight walks with noise, which end anywhere in the square."""
    ends = rng.uniform(0.0, _PLACE, (n_scenes, 2))
    angles = rng.uniform(0.0, 2 * np.pi, n_scenes)
    speeds = np.maximum(rng.normal(_SPEED, _SPEED_STD, n_scenes), _MIN_SPEED)
    headings = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # Backwards from its end, a past has the noise of a future.
    noise = rng.standard_normal((n_scenes, n_observed, 2))
    moved = np.einsum("ctu,suc->stc", _factors(n_observed, dt), noise)[:, ::-1]
    ago = dt * np.arange(n_observed - 1, -1, -1.0)
    straight = -ago[None, :, None] * (speeds[:, None] * headings)[:, None]
    return np.asarray(ends[:, None] + straight + moved @ _frame(headings))


def _law_given(observed: np.ndarray, shares: np.ndarray, n_steps: int, dt: float) -> WalkLaw:
    """Return the law of the futures given the observed positions."""
    n_back = min(3, observed.shape[1] - 1)  # a single step would be mostly noise
    last = observed[:, -1]
    velocity = (last - observed[:, -1 - n_back]) / (n_back * dt)
    speed = np.linalg.norm(velocity, axis=1)
    headings = velocity / speed[:, None]
    plans = np.stack([_plan(*each, n_steps) for each in INTENTIONS.values()])
    walked = dt * speed[:, None, None, None] * plans @ _frame(headings)[:, None]
    return WalkLaw(shares, last[:, None, None] + walked, headings, _factors(n_steps, dt))


def _plan(turn: float, slowing: float, n_steps: int) -> np.ndarray:
    """Return a mean path of unit speed and unit time step that starts along the first axis."""
    time = np.arange(1, n_steps + 1) / n_steps
    smooth = time**2 * (3 - 2 * time)
    angle, speed = turn * smooth, 1 + (slowing - 1) * smooth
    return np.cumsum(np.stack([speed * np.cos(angle), speed * np.sin(angle)], axis=1), axis=0)


def _factors(n_steps: int, dt: float) -> np.ndarray:
    """Return Cholesky factors of the covariances of positions under correlated accelerations."""
    steps = np.arange(n_steps)
    correlation = _PERSISTENCE ** np.abs(steps[:, None] - steps)
    sums = np.tri(n_steps)
    walked = dt**2 * sums @ sums
    along = walked @ correlation @ walked.T
    return np.linalg.cholesky(
        [std**2 * along + _POSITION_STD**2 * np.eye(n_steps) for std in _ACCELERATION]
    )


def _frame(headings: np.ndarray) -> np.ndarray:
    """Return the directions along and across headings as rows."""
    across = np.stack([-headings[..., 1], headings[..., 0]], axis=-1)
    return np.stack([headings, across], axis=-2)
