"""Pedestrian walks: six paths through one crossing, turned, stretched and shaken."""

import numpy as np
from scipy.interpolate import CubicSpline

#: Where every walk starts, in metres; walks are turned and stretched about this point.
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


def walks() -> np.ndarray:
    """Return the six undisturbed walks, (6, 12, 2), smooth between their known positions."""
    return CubicSpline(_KNOTS, _WALKS, axis=1)(np.arange(1, N_STEPS + 1))


def draw_walks(n_samples: int, rng: np.random.RandomState, which: tuple[int, ...]) -> np.ndarray:
    """Draw disturbed walks, (n_samples, 24), each row x and y of step 1, of step 2, ...

    A walk is turned by an angle and stretched by a factor about the origin, then shaken by a
    random walk whose first step is smaller: ``x = s R (x* - o) + o + L n``.
    """
    chosen = walks()[np.asarray(which)][rng.randint(len(which), size=n_samples)] - ORIGIN
    angle = rng.normal(0.0, ANGLE_STD, n_samples)
    stretch = rng.normal(1.0, STRETCH_STD, n_samples)
    shake = rng.normal(0.0, SHAKE_STD, (n_samples, N_STEPS, 2))
    shake[:, 0] /= np.sqrt(12)
    cos, sin = stretch * np.cos(angle), stretch * np.sin(angle)
    turn = np.stack([np.stack([cos, sin], axis=1), np.stack([-sin, cos], axis=1)], axis=1)
    paths = chosen @ turn + ORIGIN + np.cumsum(shake, axis=1)
    return paths.reshape(n_samples, 2 * N_STEPS)
