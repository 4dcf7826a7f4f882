"""Made-up walks of pedestrians, whose future given their past has a known law."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..density import KernelMixture
from ..validation import check_count, check_numbers, check_positive, freeze, random_generator

#: What a walker may be about to do: the turn in radians and the part of the speed that is left in
#: the end.
INTENTIONS = {
    "ahead": (0.0, 1.0),
    "left": (1.0, 0.95),
    "right": (-0.8, 0.95),
    "stop": (0.0, 0.1),
}
#: Standard deviation of accelerations along and across the heading, in metres per second squared.
_ACCELERATION = (0.14, 0.10)
#: How much of an acceleration is left at the next step.
_PERSISTENCE = 0.5
#: Standard deviation of where a walker is seen, in metres.
_SHAKE = 0.02
#: Speeds of walkers, in metres per second: mean, standard deviation and the least.
_SPEED, _SPEED_STD, _SLOWEST = 1.3, 0.25, 0.5
#: Walkers start in a square of this side, in metres.
_PLACE = 20.0
#: How alike the shares of intentions are from scene to scene.
_CONCENTRATION = 3.0
#: Numbers that are held at once.
_BLOCK = 2**22


@dataclass(frozen=True, eq=False, repr=False)
class WalkLaw:
    r"""The law of the futures of some scenes: in each, a mixture of Gaussians over intentions.

    .. math:: x = m_{sj} + R_s \, L n, \qquad j \sim w_s, \quad n \sim N(0, I)

    with a mean path for every intention, :math:`R_s` turning to the heading of the walker and
    :math:`L` summing up accelerations that last a while.

    Parameters
    ----------
    shares : array-like of shape (n_scenes, n_intentions)
        How likely every intention is.
    means : array-like of shape (n_scenes, n_intentions, n_steps, 2)
        The mean path of every intention, in metres.
    headings : array-like of shape (n_scenes, 2)
        Where walkers are heading, of length one.
    factors : array-like of shape (2, n_steps, n_steps)
        Lower triangular roots of the covariance along and across the heading.

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

    def __len__(self) -> int:
        return self.n_scenes

    def __getitem__(self, scenes: Any) -> "WalkLaw":
        """Return the law of some scenes, given as a slice or an array of numbers."""
        return replace(
            self,
            shares=self.shares[scenes],
            means=self.means[scenes],
            headings=self.headings[scenes],
        )

    @property
    def n_scenes(self) -> int:
        """The number of scenes."""
        return int(self.means.shape[0])

    @property
    def n_steps(self) -> int:
        """The number of steps of every future."""
        return int(self.means.shape[2])

    def spread(self, factor: float) -> "WalkLaw":
        """Return the law with every intention ``factor`` times as wide about its mean path.

        Parameters
        ----------
        factor : float
            Below one, a predictor that draws from it is over-confident; above one, too cautious.

        Returns
        -------
        WalkLaw
        """
        return replace(self, factors=check_positive(factor, "factor") * self.factors)

    def turned(self, angle: float) -> "WalkLaw":
        """Return the law with every mean path turned about the first mean position.

        Parameters
        ----------
        angle : float
            In radians; a predictor that draws from it is biased.

        Returns
        -------
        WalkLaw
        """
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[cos, sin], [-sin, cos]])
        start = self.means[:, :, :1]
        return replace(self, means=start + (self.means - start) @ turn)

    def predictors(self) -> dict[str, "WalkLaw"]:
        """Return what predictors draw from: one that is right, and three that are not.

        Returns
        -------
        dict of str to WalkLaw
            The oracle knows the law; the over-confident one is half as wide about the mean paths,
            the under-confident one twice as wide, and the biased one turns them by 0.3 radians.
        """
        return {
            "oracle": self,
            "over-confident": self.spread(0.5),
            "under-confident": self.spread(2.0),
            "biased": self.turned(0.3),
        }

    def draw(self, n_samples: int, random_state: Any = None) -> np.ndarray:
        """Draw futures, scene after scene.

        Blocks of scenes that are drawn one after another from one generator are the draws of all
        of them together, so that sets that do not fit into memory can be drawn block by block.

        Parameters
        ----------
        n_samples : int
            For each scene.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        ndarray of shape (n_scenes, n_samples, n_steps, 2)
        """
        n_samples = check_count(n_samples, "n_samples", least=1)
        rng = random_generator(random_state)
        out = np.empty((self.n_scenes, n_samples, self.n_steps, 2))
        for s in range(self.n_scenes):
            chosen = rng.choice(self.shares.shape[1], n_samples, p=self.shares[s])
            noise = rng.standard_normal((n_samples, self.n_steps, 2))
            shaken = np.einsum("ctu,kuc->ktc", self.factors, noise)
            out[s] = self.means[s, chosen] + shaken @ _frame(self.headings[s])
        return out

    def logpdf(self, paths: Any) -> np.ndarray:
        """Return the logarithm of the density of whole futures.

        Parameters
        ----------
        paths : array-like of shape (n_scenes, n_steps, 2) or (n_scenes, n_paths, n_steps, 2)

        Returns
        -------
        ndarray of shape (n_scenes,) or (n_scenes, n_paths)
        """
        X = check_numbers(paths, "paths")
        one = X.ndim == 3
        X = X[:, None] if one else X
        if X.ndim != 4 or (X.shape[0], *X.shape[2:]) != (self.n_scenes, self.n_steps, 2):
            raise ValueError(
                f"paths must have shape ({self.n_scenes}, {self.n_steps}, 2) or "
                f"({self.n_scenes}, n_paths, {self.n_steps}, 2), got {np.shape(paths)}"
            )
        numbers = X.shape[1] * self.means[0].size
        blocks = [self[rows]._logpdf(X[rows]) for rows in _blocks(len(X), numbers)]
        out = np.concatenate(blocks)
        return out[:, 0] if one else out

    def _logpdf(self, X: np.ndarray) -> np.ndarray:
        apart = X[:, :, None] - self.means[:, None]
        along = np.einsum("sljtd,scd->sljtc", apart, _frame(self.headings))
        Z = np.einsum("ctu,sljuc->sljtc", np.linalg.inv(self.factors), along)
        squares = np.einsum("sljtc,sljtc->slj", Z, Z)
        log_det = -np.log(np.einsum("ctt->ct", self.factors)).sum()
        with np.errstate(divide="ignore"):  # some scene may lack an intention
            log_shares = np.log(self.shares)[:, None]
        constant = log_det - self.n_steps * np.log(2 * np.pi)
        return np.asarray(logsumexp(log_shares - 0.5 * squares, axis=2) + constant)

    def density(self, scene: int) -> KernelMixture:
        """Return the law of one scene as a density of rows: x and y of step 1, of step 2, ...

        Parameters
        ----------
        scene : int

        Returns
        -------
        KernelMixture
        """
        shares, means = self.shares[scene], self.means[scene]
        present = np.flatnonzero(shares > 0)
        inverse = np.linalg.inv(self.factors)
        turned = np.einsum("ctu,cd->udtc", inverse, _frame(self.headings[scene]))
        transform = turned.reshape(2 * self.n_steps, 2 * self.n_steps)
        return KernelMixture(
            weights=shares[present],
            means=means[present].reshape(len(present), -1),
            offsets=np.array([0, len(present)]),
            transforms=transform[None],
        )

    @cached_property
    def covariances(self) -> np.ndarray:
        """The covariances along and across the heading, (2, n_steps, n_steps)."""
        return self.factors @ self.factors.transpose(0, 2, 1)


@dataclass(frozen=True, eq=False, repr=False)
class Walks:
    """Scenes of one walker each.

    Attributes
    ----------
    observed : ndarray of shape (n_scenes, n_observed, 2)
        Where the walkers were seen, in metres.
    truth : ndarray of shape (n_scenes, n_predicted, 2)
        Where they went.
    law : WalkLaw
        The law of their futures, given what was observed, from which the truth was drawn.
    """

    observed: np.ndarray
    truth: np.ndarray
    law: WalkLaw

    def __repr__(self) -> str:
        n_scenes, n_observed = self.observed.shape[:2]
        return (
            f"Walks(n_scenes={n_scenes}, n_observed={n_observed}, n_predicted={self.law.n_steps})"
        )


def make_walks(
    n_scenes: int = 100,
    n_observed: int = 8,
    n_predicted: int = 12,
    *,
    dt: float = 0.4,
    random_state: Any = None,
) -> Walks:
    r"""Make up walks whose future has a known law.

    A walker goes on from where and how fast it was last seen, with one of four intentions: ahead,
    to the left, to the right, or to a stop. How likely these are differs from scene to scene.
    Accelerations that last for some steps shake the mean path of the intention, so that a future
    is a mixture of four Gaussians in 24 dimensions: its density is known, and predictors can draw
    from it, or from a law that is wrong in a known way.

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
    >>> over_confident = walks.law.spread(0.5).draw(20, random_state=1)
    >>> over_confident.shape
    (5, 20, 12, 2)
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
    """Return shaken straight walks that end anywhere."""
    ends = rng.uniform(0.0, _PLACE, (n_scenes, 2))
    angles = rng.uniform(0.0, 2 * np.pi, n_scenes)
    speeds = np.maximum(rng.normal(_SPEED, _SPEED_STD, n_scenes), _SLOWEST)
    headings = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # Seen from the end, a past is shaken like a future.
    noise = rng.standard_normal((n_scenes, n_observed, 2))
    shaken = np.einsum("ctu,suc->stc", _factors(n_observed, dt), noise)[:, ::-1]
    ago = dt * np.arange(n_observed - 1, -1, -1.0)
    straight = -ago[None, :, None] * (speeds[:, None] * headings)[:, None]
    return np.asarray(ends[:, None] + straight + shaken @ _frame(headings))


def _law_given(observed: np.ndarray, shares: np.ndarray, n_steps: int, dt: float) -> WalkLaw:
    """Return the law of the futures after these pasts."""
    n_back = min(3, observed.shape[1] - 1)  # one step alone would be mostly shaking
    last = observed[:, -1]
    velocity = (last - observed[:, -1 - n_back]) / (n_back * dt)
    speed = np.linalg.norm(velocity, axis=1)
    headings = velocity / speed[:, None]
    plans = np.stack([_plan(*each, n_steps) for each in INTENTIONS.values()])
    walked = dt * speed[:, None, None, None] * plans @ _frame(headings)[:, None]
    return WalkLaw(shares, last[:, None, None] + walked, headings, _factors(n_steps, dt))


def _plan(turn: float, slowing: float, n_steps: int) -> np.ndarray:
    """Return a mean path at unit speed and unit time, heading along the first axis."""
    part = np.arange(1, n_steps + 1) / n_steps
    smooth = part**2 * (3 - 2 * part)
    angle, speed = turn * smooth, 1 + (slowing - 1) * smooth
    return np.cumsum(np.stack([speed * np.cos(angle), speed * np.sin(angle)], axis=1), axis=0)


def _factors(n_steps: int, dt: float) -> np.ndarray:
    """Return roots of the covariances of positions under accelerations that last a while."""
    steps = np.arange(n_steps)
    lasting = _PERSISTENCE ** np.abs(steps[:, None] - steps)
    sums = np.tri(n_steps)
    walked = dt**2 * sums @ sums
    along = walked @ lasting @ walked.T
    return np.linalg.cholesky(
        [std**2 * along + _SHAKE**2 * np.eye(n_steps) for std in _ACCELERATION]
    )


def _frame(headings: np.ndarray) -> np.ndarray:
    """Return the directions along and across headings as rows."""
    across = np.stack([-headings[..., 1], headings[..., 0]], axis=-1)
    return np.stack([headings, across], axis=-2)


def _blocks(n_scenes: int, numbers: int) -> Iterator[slice]:
    """Return slices of scenes, each of which has so many numbers to be held."""
    step = max(1, _BLOCK // numbers)
    return (slice(start, start + step) for start in range(0, n_scenes, step))
