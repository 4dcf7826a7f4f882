"""How far hills stand out of the valley between them, along a line.

In many dimensions nearly all samples of a hill are less dense than the pass to the next hill,
however deep that is: half of the samples of a Gaussian in 24 dimensions are below exp(-11.7) of its
height, and the pass between two of them, 6 standard deviations apart, is at exp(-4.5). Along the
line between the hills the valley is as deep as in one dimension.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from .derivatives import Derivatives

#: The points of a profile, and how far it reaches beyond the means of the hills, in standard
#: deviations.
_N_POINTS, _BEYOND = 256, 3.0
#: The least number of samples expected without a hill: half a sample, as in Jeffreys' prior, for
#: that number is never known to be zero.
_LEAST_BELOW = 0.5
#: The numbers that a block of a profile may hold.
_BLOCK_NUMBERS = 2**20


class Excess(NamedTuple):
    """The samples on a hill above a pass."""

    n_above: float
    n_below: float  #: how many there would be if the hill were as dense as the pass
    error: float  #: the squared standard error of the log density at the pass

    def standing(self, n_samples: float) -> float:
        """Return by how much the hill stands out, in units of chance.

        The square root of a count has the standard error 1/2. The largest of as many errors as
        there is room for such hills is what chance is expected to do.
        """
        if self.n_above <= 0:
            return 0.0
        roots = np.sqrt(self.n_above) - np.sqrt(max(self.n_below, _LEAST_BELOW))
        errors = 0.5 * np.sqrt(1 + self.error * self.n_below)
        chance = np.sqrt(2 * np.log1p(n_samples / self.n_above))
        return float(max(roots / errors / chance, 0.0))


def whitening(
    weights: np.ndarray, deviations: np.ndarray, rest: np.ndarray | float = 0.0
) -> np.ndarray:
    """Return the axes in which deviations, and a covariance added to theirs, have unit variance."""
    total = weights.sum()
    shares = weights / total if total > 0 else np.full(len(weights), 1 / len(weights))
    # Squares of the largest numbers would overflow.
    unit = np.abs(deviations).max() or 1.0
    scaled = deviations / unit
    spread, axes = np.linalg.eigh((shares * scaled.T) @ scaled + rest / unit / unit)
    least = np.finfo(float).eps * spread[-1] + np.finfo(float).tiny
    return np.asarray(axes / np.sqrt(np.maximum(spread, least)) / unit)


class Profiles:
    """Marginal densities of pairs of hills, each along the line between the two."""

    def __init__(self, density: Derivatives, counts: np.ndarray) -> None:
        self.density = density
        self.counts = counts

    @cached_property
    def _factors(self) -> np.ndarray:
        """Matrices L of all groups, whose covariances are L^T L."""
        return np.linalg.inv(self.density.transforms)

    def excesses(self, hills: list[np.ndarray]) -> list[Excess]:
        """Return the excess of both hills over the lowest point between their means.

        Parameters
        ----------
        hills : list of two ndarray
            The kernels of the hills.

        Returns
        -------
        list of Excess
        """
        kernels = np.concatenate(hills)
        side = np.repeat([0, 1], [len(hill) for hill in hills])
        line = self._line(kernels, side)
        counts = self.counts[kernels]
        grid = np.linspace(-_BEYOND, line.distance + _BEYOND, _N_POINTS)
        values = line.densities(grid)
        between = np.flatnonzero((grid >= 0) & (grid <= line.distance))
        lowest = between[values[between].argmin()]
        level, terms = values[lowest], line.terms(grid[[lowest]])[0]
        error = float((terms**2)[counts > 0] @ (1 / counts[counts > 0]) / level**2)
        # Without one of the samples that stand at the centre.
        own = line.weights / line.widths / np.maximum(counts, 1.0)
        left_out = np.interp(line.places, grid, values) - own
        ratios = level / np.maximum(left_out, level)
        on_hill = (ratios < 1) & ((line.places > grid[lowest]) == side)
        n_above = np.bincount(side[on_hill], counts[on_hill], 2)
        n_below = np.bincount(side[on_hill], (counts * ratios)[on_hill], 2)
        return [Excess(float(n_above[i]), float(n_below[i]), error) for i in (0, 1)]

    def _line(self, kernels: np.ndarray, side: np.ndarray) -> "_Line":
        """Return kernels along the direction of Fisher's discriminant."""
        counts, points = self.counts[kernels], self.density.means[kernels]
        sizes = np.bincount(side, counts, 2)
        means = np.stack([counts[side == i] @ points[side == i] / sizes[i] for i in (0, 1)])
        deviations = points - means[side]
        groups, group = np.unique(self.density._group_of_kernel[kernels], return_inverse=True)
        factors = self._factors[groups]
        shares = np.bincount(group, counts) / counts.sum()
        rows = (np.sqrt(shares)[:, None, None] * factors).reshape(-1, factors.shape[2])
        axes = whitening(counts, deviations, rows.T @ rows)
        apart = (means[1] - means[0]) @ axes
        distance = float(np.linalg.norm(apart))
        direction = apart / (distance or 1.0)
        units = deviations @ axes
        # A sample draws the mean of its own hill, and so the line, towards itself.
        pulls = (units**2).sum(axis=1) / np.maximum(sizes - 1, 1.0)[side] / (distance or 1.0)
        places = units @ direction + side * distance + np.where(side, -pulls, pulls)
        widths = np.linalg.norm(factors @ (axes @ direction), axis=1)[group]
        return _Line(distance, places, widths, self.density.weights[kernels])


class _Line(NamedTuple):
    """Kernels of two hills on a line, in standard deviations, the mean of the first being zero."""

    distance: float  #: that of the two means
    places: np.ndarray
    widths: np.ndarray
    weights: np.ndarray

    def terms(self, points: np.ndarray) -> np.ndarray:
        """Return the parts (Q, K) of the kernels in the density, but for the same constant."""
        units = (points[:, None] - self.places) / self.widths
        return np.asarray(np.exp(-0.5 * units**2) * (self.weights / self.widths))

    def densities(self, points: np.ndarray) -> np.ndarray:
        """Return the density, but for a constant, a block of points at a time."""
        n_blocks = -(-points.size * self.places.size // _BLOCK_NUMBERS)
        blocks = np.array_split(points, min(n_blocks, points.size))
        return np.concatenate([self.terms(block).sum(axis=1) for block in blocks])
