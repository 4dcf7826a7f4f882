"""The walks of the ROME study: paths through one crossing, rotated, stretched and noisy."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from ..density import Density
from ..validation import check_count, check_numbers, check_queries, freeze, random_generator

#: Start of every walk, in meters; the center of rotation and stretching.
ORIGIN = np.array([3.75, 8.19])
N_STEPS = 12
ANGLE_STD = np.pi / 180
STRETCH_STD = 0.03
SHAKE_STD = 0.03

_KNOTS = np.array([1, 4, 6, 8, 10, 12])
_WALKS = np.array(
    [
        [(3.76, 8.18), (4.32, 7.66), (5.01, 7.37), (5.71, 7.06), (6.31, 6.61), (6.83, 6.06)],
        [(3.76, 8.18), (4.26, 7.61), (4.62, 6.94), (4.93, 6.25), (5.10, 5.51), (5.15, 4.76)],
        [(3.76, 8.19), (3.86, 8.10), (4.21, 7.82), (4.90, 7.86), (5.65, 7.99), (6.40, 8.09)],
        [(3.75, 8.19), (3.80, 8.15), (4.05, 7.90), (4.54, 7.42), (5.20, 6.80), (5.85, 6.17)],
        [(3.76, 8.18), (4.32, 7.68), (5.03, 7.53), (5.77, 7.66), (6.49, 7.86), (7.22, 8.06)],
        [(3.76, 8.18), (4.31, 7.66), (4.79, 7.07), (5.17, 6.42), (5.29, 5.68), (5.34, 4.94)],
    ]
)

#: Spacing of the quadrature nodes, in standard deviations of the narrowest peak: the relative
#: error of the trapezoid rule is then exp(-2 pi^2 / .7^2) = 3e-18.
_SPACING = 0.7
#: Angles are left out if the log integrand is this far below its value at the best angle.
_NEGLIGIBLE = 60.0
#: Number of values of the integrand in memory at a time.
_BLOCK = 2**16
#: Limit on distances in standard deviations; squares of larger ones would overflow.
_FAR = 1e140
_LOG_2PI = float(np.log(2 * np.pi))


def walks() -> np.ndarray:
    """Return the six walks, (6, 12, 2), splines through the published positions."""
    return CubicSpline(_KNOTS, _WALKS, axis=1)(np.arange(1, N_STEPS + 1))


class _Fit(NamedTuple):
    """The best rotation of a walk for every query, with c(t) = reach cos(t - angle)."""

    reach: np.ndarray
    angle: np.ndarray
    square: float  # squared length of the whitened walk


@dataclass(frozen=True, eq=False, repr=False)
class WalkModel(Density):
    r"""The distribution of rotated, stretched and noisy copies of walks in the plane.

    .. math:: x = s \, R_\theta (x^*_i - o) + o + L n, \qquad
              \theta \sim N(0, (\pi/180)^2), \quad s \sim N(1, .03^2)

    with i uniform over the walks, L the cumulative sum over steps, and n normal with a standard
    deviation of .03 for each step and coordinate, but :math:`.03 / \sqrt{12}` for the first step.

    Parameters
    ----------
    walks : array-like of shape (n_walks, n_steps, 2)
        The walks, in meters.
    origin : array-like of shape (2,)
        The center of rotation and stretching.

    Notes
    -----
    Let z be the steps of x and u those of a walk, both in units of the noise. Given the angle, z
    is normal with a mean that is linear in s, so that its density has a closed form. With
    :math:`a = |u|^2`, :math:`b = .03^{-2}` and :math:`c(\theta) = z \cdot R_\theta u`:

    .. math:: p(z | \theta) = (2\pi)^{-n} \sqrt{b / (a + b)} \exp\left(
              \frac{(c(\theta) + b)^2}{2 (a + b)} - \frac{b + |z|^2}{2}\right)

    The noise is isotropic, so :math:`c(\theta) = r \cos(\theta - \phi)`. A trapezoid rule, with
    nodes chosen for every query, integrates over the angle.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.datasets import WalkModel
    >>> ahead = np.column_stack([np.arange(1.0, 5.0), np.zeros(4)])
    >>> model = WalkModel([ahead, ahead[:, ::-1]], origin=[0.0, 0.0])
    >>> X = model.sample(3, random_state=0)
    >>> X.shape
    (3, 8)
    >>> model.logpdf([ahead.ravel()]).round(2)
    array([20.2])
    """

    walks: np.ndarray
    origin: np.ndarray

    def __post_init__(self) -> None:
        for name in ("walks", "origin"):
            object.__setattr__(self, name, check_numbers(getattr(self, name), name))
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} must be finite")
        freeze(self, "walks", "origin")
        shape = self.walks.shape
        if len(shape) != 3 or shape[2] != 2 or 0 in shape:
            raise ValueError(f"walks must have shape (n_walks, n_steps, 2), got {shape}")
        if self.origin.shape != (2,):
            raise ValueError(f"origin must have shape (2,), got {self.origin.shape}")

    def __repr__(self) -> str:
        return f"WalkModel(n_walks={len(self.walks)}, n_steps={self.n_steps})"

    @property
    def n_steps(self) -> int:
        """The number of steps of every walk."""
        return int(self.walks.shape[1])

    @property
    def n_features(self) -> int:
        """The dimension of the space: x and y of every step."""
        return 2 * self.n_steps

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw walks (n_samples, n_features); each row holds x and y of step 1, of step 2, ..."""
        n_samples, rng = check_count(n_samples, "n_samples"), random_generator(random_state)
        chosen = self.walks[rng.randint(len(self.walks), size=n_samples)] - self.origin
        angle = rng.normal(0.0, ANGLE_STD, n_samples)
        stretch = rng.normal(1.0, STRETCH_STD, n_samples)
        shake = rng.normal(0.0, SHAKE_STD, (n_samples, self.n_steps, 2))
        shake[:, 0] /= np.sqrt(12)
        cos, sin = stretch * np.cos(angle), stretch * np.sin(angle)
        turn = np.stack([np.stack([cos, sin], axis=1), np.stack([-sin, cos], axis=1)], axis=1)
        paths = chosen @ turn + self.origin + np.cumsum(shake, axis=1)
        return paths.reshape(n_samples, self.n_features)

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the log density at every row of ``X``, minus infinity where it overflows.

        One thread is used, whatever ``n_jobs`` is.
        """
        X = check_queries(X, self.n_features)
        out = np.full(len(X), -np.inf)
        with np.errstate(over="ignore"):
            Z = self._whiten(X.reshape(-1, self.n_steps, 2))
        near = np.abs(Z).max(axis=1) < _FAR
        Z = Z[near]
        of_walks = [_log_turned(_fit(Z, walk)) for walk in self._whiten(self.walks)]
        log_noise = -0.5 * (Z**2).sum(axis=1) - self.n_steps * _LOG_2PI
        log_det = -2 * np.log(self._noise_stds).sum()
        out[near] = logsumexp(of_walks, axis=0) - np.log(len(of_walks)) + log_noise + log_det
        return out

    @cached_property
    def _noise_stds(self) -> np.ndarray:
        return SHAKE_STD / np.sqrt([12.0] + [1.0] * (self.n_steps - 1))

    def _whiten(self, paths: np.ndarray) -> np.ndarray:
        """Return the steps from the origin on, in units of the noise."""
        steps = np.diff(paths - self.origin, axis=1, prepend=0.0) / self._noise_stds[:, None]
        return steps.reshape(len(paths), self.n_features)


def _fit(Z: np.ndarray, walk: np.ndarray) -> _Fit:
    turned = np.column_stack([-walk[1::2], walk[::2]]).ravel()  # by a right angle
    along, across = Z @ walk, Z @ turned
    return _Fit(np.hypot(along, across), np.arctan2(across, along), float(walk @ walk))


def _log_turned(fit: _Fit) -> np.ndarray:
    """Return the log density given one walk, integrated over angle and stretch, up to log_noise."""
    half_width, n_nodes = _angle_rule(fit)
    out = np.empty(len(fit.reach))
    order = np.argsort(-n_nodes)
    start = 0
    while start < len(order):
        n_most = n_nodes[order[start]]
        rows = order[start : start + max(1, _BLOCK // n_most)]
        start += len(rows)
        angles = np.multiply.outer(half_width[rows], 2 * np.arange(n_most) / n_most - 1)
        log_values = _log_integrand(fit, rows, angles)
        out[rows] = logsumexp(log_values, axis=1) + np.log(2 * half_width[rows] / n_most)
    return out


def _log_integrand(fit: _Fit, rows: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Return the log of the integrand at ``angles`` relative to the best one."""
    weight = STRETCH_STD**-2
    total = fit.square + weight
    product = fit.reach[rows, None] * np.cos(angles)
    fitting = (product + weight) ** 2 / (2 * total) - 0.5 * weight + 0.5 * np.log(weight / total)
    return fitting + _log_angle_density(fit.angle[rows, None] + angles)


def _log_angle_density(angles: np.ndarray) -> np.ndarray:
    """Return the log density of a normal angle wrapped around the circle."""
    turn = np.abs(np.remainder(angles + np.pi, 2 * np.pi) - np.pi)
    # Near half a turn, rotations in both directions contribute.
    other_way = np.log1p(np.exp(-2 * np.pi * (np.pi - turn) / ANGLE_STD**2))
    return other_way - 0.5 * (turn / ANGLE_STD) ** 2 - np.log(ANGLE_STD) - 0.5 * _LOG_2PI


def _angle_rule(fit: _Fit) -> tuple[np.ndarray, np.ndarray]:
    """Return the half width of the integration range around the best angle, and its nodes.

    The value at the best angle is a lower bound on the peak of the integrand, and the density
    given the angle an upper bound on the integrand. Angles where the upper bound is negligible
    relative to the lower one are left out.
    """
    weight = STRETCH_STD**-2
    total = fit.square + weight
    best = fit.reach + weight
    loss = _NEGLIGIBLE + 0.5 * (fit.angle / ANGLE_STD) ** 2
    least = np.sqrt(np.maximum(best**2 - 2 * total * loss, 0.0))
    # 1 - cos(half_width) without cancellation for distant queries
    versine = 2 * total * loss / ((best + least) * np.maximum(fit.reach, 1e-100))
    half_width = 2 * np.arcsin(np.sqrt(np.clip(versine / 2, 0.0, 1.0)))
    half_width[2 * fit.reach * weight <= total * loss] = np.pi  # the stretch may be negative
    narrowest = 1 / np.sqrt(ANGLE_STD**-2 + fit.reach * best / total)
    n_nodes = 2 * np.ceil(half_width / (_SPACING * narrowest))
    return half_width, n_nodes.astype(np.int64)
