r"""Student's t as a sum of Gaussians.

Student's t is a Gaussian whose precision is multiplied by a random :math:`u`, which follows a
gamma distribution with shape and rate :math:`\nu / 2`. With a quadrature for :math:`u` in place of
the integral it is a mixture of a few Gaussians of one centre and one shape, so that whatever can
be asked of Gaussian kernels can be asked of it.
"""

from functools import cache

import numpy as np
from scipy.special import gammaln

#: How much apart the precisions are, as a logarithm, in terms of a Gaussian's width in it.
_SPACING = 1.2
#: Precisions that are less likely than this part of the likeliest are left out.
_NEGLIGIBLE = 1e-5


@cache
def precisions(dof: float, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return precisions and their weights, such that Gaussians of these add up to Student's t.

    Parameters
    ----------
    dof : float
    n_features : int

    Examples
    --------
    >>> factors, weights = precisions(4.0, 2)
    >>> bool(abs(weights.sum() - 1) < 1e-12)
    True
    """
    half = 0.5 * dof
    # As a function of log u, a Gaussian in M dimensions is a bump of width sqrt(2 / M) at most.
    step = _SPACING / np.sqrt(1 + 0.5 * n_features)
    grid = np.arange(-12.0, 4.0, step)
    logs = half * np.log(half) - gammaln(half) + half * grid - half * np.exp(grid)
    kept = logs > logs.max() + np.log(_NEGLIGIBLE)
    weights = np.exp(logs[kept])
    return np.exp(grid[kept]), weights / weights.sum()
