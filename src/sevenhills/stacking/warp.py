r"""Margins bent into normal ones.

Skewed, bounded and heavy-tailed margins are hard on Gaussian kernels of one width. So every
feature is bent by a monotone curve :math:`x = g(z)` under which its samples look normal; kernels
are put on the samples in :math:`z`, and each is carried back as the Gaussian with the same mean and
deviation of :math:`g(z)` in every feature and the same correlations. Kernels are then narrow where
a margin is steep and wide where it trails off, and the density is still a sum of Gaussians.

Where the samples are normal altogether once their margins are, kernels need not stand on samples:
as many as are needed to follow the curves are spread evenly like that normal distribution.
"""

from functools import cache
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri
from scipy.stats import qmc

from ..covariance import whitening_transforms
from ..density import KernelMixture
from ..folds import count

_N_KNOTS = 12
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
#: Margins are tabulated between these normal deviates to be inverted.
_FARTHEST = 8.0
_N_TABLE = 1025
#: How many kernels spell a normal distribution out in one dimension, in two, and in more.
_N_SPOTS = (512, 2048, 4096)
#: But not more than this for each sample.
_MOST_PER_SAMPLE = 16
#: Margins of fewer rows than this go by the quantiles at so many steps at most.
_MOST_STEPS = 2000
#: Margins rise by at least this from knot to knot, in units of about a standard deviation.
_LEAST_RISE = 1e-7


class Margin(NamedTuple):
    """The curve under which a feature looks normal, straight beyond its ends."""

    curve: PchipInterpolator
    ends: np.ndarray
    slopes: np.ndarray

    def values_at(self, z: np.ndarray) -> np.ndarray:
        """Return the feature's values at normal deviates."""
        inner = np.clip(z, *self.ends)
        beyond = z - inner
        slopes = np.where(beyond < 0, self.slopes[0], self.slopes[1])
        return np.asarray(self.curve(inner) + slopes * beyond)

    def deviates_of(self, x: np.ndarray) -> np.ndarray:
        """Return the normal deviates of values of the feature."""
        table = np.linspace(-_FARTHEST, _FARTHEST, _N_TABLE)
        return np.asarray(np.interp(x, self.values_at(table), table))


def margin_of(x: np.ndarray, weights: np.ndarray) -> Margin:
    """Return the margin of samples, smoothed over the distance of its knots."""
    values, deviates = _quantiles(x, weights)
    knots = np.linspace(deviates[0], deviates[-1], min(_N_KNOTS, len(values)))
    step = knots[1] - knots[0]
    weights = np.exp(-2 * np.square((deviates - knots[:, None]) / step))
    heights = (weights @ values) / weights.sum(axis=1)
    # A margin must rise, be it by ever so little, where samples are tied.
    least = _LEAST_RISE * (1 + float(np.ptp(values)))
    heights = np.maximum.accumulate(heights) + least * np.arange(len(knots))
    slopes = np.diff(heights)[[0, -1]] / step
    return Margin(PchipInterpolator(knots, heights), knots[[0, -1]], slopes)


def _quantiles(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values at even steps of probability, one for each sample, and normal deviates."""
    n_steps = max(2, len(x), min(ceil(count(weights)), _MOST_STEPS))
    steps = (np.arange(n_steps) + 0.5) / n_steps
    order = np.argsort(x)
    ends = np.cumsum(weights[order])
    found = np.searchsorted(ends, steps * ends[-1], side="right")
    return x[order[found]], ndtri(steps)


class Spots(NamedTuple):
    """Where kernels are put in the space of normal margins, and how heavy they are."""

    places: np.ndarray
    weights: np.ndarray


class Bent(NamedTuple):
    """Samples in the space of normal margins.

    Attributes
    ----------
    margins : list of Margin
    deviates : ndarray of shape (n_rows, n_features)
        The samples there.
    weights : ndarray of shape (n_rows,)
        How many samples each row stands for.
    mean, stds : ndarray of shape (n_features,)
    correlation : ndarray of shape (n_features, n_features)
    """

    margins: list[Margin]
    deviates: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    stds: np.ndarray
    correlation: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, weights: np.ndarray) -> "Bent":
        """Bend the margins of samples."""
        margins = [margin_of(x, weights) for x in X.T]
        deviates = np.stack([m.deviates_of(x) for m, x in zip(margins, X.T, strict=True)], axis=1)
        shares = weights / weights.sum()
        mean = shares @ deviates
        centred = deviates - mean
        centred[:, np.ptp(X, axis=0) <= _LEAST_RISE] = 0.0  # one value, but for rounding
        stds = np.sqrt(shares @ np.square(centred))
        stds[stds == 0] = 1.0
        scaled = np.sqrt(shares)[:, None] * centred / stds
        correlation = scaled.T @ scaled
        np.fill_diagonal(correlation, 1.0)
        return cls(margins, deviates, weights, mean, stds, correlation)

    def carried_back(self, spots: Spots, width: float, ridge: np.ndarray) -> KernelMixture:
        """Return kernels of a width, drawn from some spots towards the mean, in given space.

        Parameters
        ----------
        spots : Spots
            With about the covariance of the samples.
        width : float
            Part of the covariance's scale, as in
            :func:`~sevenhills.stacking.members.shrunk_kernels`.
        ridge : ndarray of shape (n_features, n_features)
            What is added to every covariance.
        """
        places, weights = spots
        shrunk = self.mean + np.sqrt(1 - width**2) * (places - self.mean)
        reached = shrunk[:, :, None] + width * self.stds[:, None] * _NODES
        images = np.stack([m.values_at(reached[:, j]) for j, m in enumerate(self.margins)], axis=1)
        centres = images @ _NODE_WEIGHTS
        scales = np.sqrt(np.square(images - centres[:, :, None]) @ _NODE_WEIGHTS)
        scatters = scales[:, :, None] * self.correlation * scales[:, None, :] + ridge
        return KernelMixture(
            weights=weights / weights.sum(),
            means=centres,
            offsets=np.arange(len(places) + 1),
            transforms=whitening_transforms(scatters),
        )

    def own_spots(self) -> Spots:
        """Return the spots where the samples are."""
        return Spots(self.deviates, self.weights)

    def normal_spots(self) -> Spots:
        """Return spots spread evenly like a normal distribution with this covariance."""
        n_features = len(self.mean)
        n_spots = _N_SPOTS[min(n_features, len(_N_SPOTS)) - 1]
        while n_spots > max(1, _MOST_PER_SAMPLE * count(self.weights)):
            n_spots //= 2
        steps = _even_normals(n_spots, n_features) @ np.linalg.cholesky(self._regular()).T
        return Spots(self.mean + self.stds * steps, np.ones(n_spots))

    def _regular(self) -> np.ndarray:
        return self.correlation + _LEAST_RISE * np.eye(len(self.mean))


@cache
def _even_normals(n_spots: int, n_features: int) -> np.ndarray:
    """Return normal deviates without gaps or clumps, from a Sobol sequence."""
    even = qmc.Sobol(n_features, scramble=False).random(n_spots) + 0.5 / n_spots
    out = np.asarray(ndtri(even))
    out.flags.writeable = False
    return out
