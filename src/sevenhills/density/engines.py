"""The choice of the fastest way to sum kernels, by their number and the dimension of the space.

A few pairs of kernels and points are summed directly. For more pairs, kernels that share
covariances are summed by a fast Gauss transform in one to three dimensions, and by matrix products
from seven dimensions on, each within a tolerance in the logarithm of the sum, in the far tails,
too. In between, sums are direct, without tiles of kernels too far away to matter within the
tolerance. Kernels that have covariances of their own are always summed directly.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .gauss_transform import GaussTransform
from .products import MatrixProducts
from .sums import POINTS, Kernels, LogSums, NearSums, added, log_sums_of, split_by_sharing, sums_at

#: Pairs of kernels and points up to which preparing more than direct sums does not pay.
FEW_PAIRS = 2**25
#: The highest dimension in which many kernels are in few cells.
GAUSS_TRANSFORM_FEATURES = 3
#: The lowest dimension in which products save more than leaving out far tiles: for 1e5 kernels at
#: 1e5 points, normal, clustered or heavy-tailed, they took 16 to 25 s in any dimension from four to
#: ten, tiles 9 to 21 s in five, 11 to 43 s in seven and 10 to 46 s in eight.
_PRODUCT_FEATURES = 7
#: The default tolerance of log densities.
TOLERANCE = 1e-8


class Engine(NamedTuple):
    """Sums of kernels at many points."""

    within: Callable[[float], LogSums]  #: from a tolerance to the function that meets it
    n_points: int  #: the number of points that are best given to such a function at a time

    @classmethod
    def from_kernels(cls, kernels: Kernels, direct: Callable[[], LogSums]) -> "Engine":
        """Prepare the sums of kernels; ``direct`` returns their direct sums if needed."""
        shared, own = split_by_sharing(kernels)
        if shared is None:
            sums = direct()
            return cls(lambda tol: sums, POINTS)
        if own is None:
            engine = _shared_engine(shared, direct)
            return cls(engine.within, engine.n_points)
        engine, rest = _shared_engine(shared, lambda: log_sums_of(shared)), log_sums_of(own)
        return cls(lambda tol: added(engine.within(tol), rest), engine.n_points)

    def sums_at(self, X: np.ndarray, tol: float, n_jobs: int | None) -> np.ndarray:
        """Return the logarithms of the sums at every point, with errors below ``tol``."""
        return sums_at(self.within(tol), X, n_jobs, self.n_points)


def _shared_engine(
    kernels: Kernels, direct: Callable[[], LogSums]
) -> GaussTransform | NearSums | MatrixProducts:
    if kernels.n_features <= GAUSS_TRANSFORM_FEATURES:
        return GaussTransform.from_kernels(kernels)
    if kernels.n_features < _PRODUCT_FEATURES:
        return NearSums.from_kernels(kernels)
    return MatrixProducts.from_kernels(kernels, direct())
