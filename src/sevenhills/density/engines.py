"""What sums kernels fastest, by their number and the dimension of the space.

A few pairs of kernels and points are summed directly. For more, kernels that share covariances
are summed by a fast Gauss transform in one to three dimensions and by products of matrices from
seven on, each within a tolerance in the logarithm of the sum, the far tails included. In between
sums are direct, but for tiles of kernels too far away to matter within the tolerance; all kernels
that have covariances of their own are summed directly.

A non-uniform FFT (finufft) gains too little to be needed: .06 s for 1e5 kernels at 1e5 points in
2-D, .6 s for 1e6 at 1e6, 1.0 s for 1e5 in 3-D, and what sums the far tails, where its error is too
large, comes on top; the transform takes .07, 1.0 and 1.4 s, all included.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .gauss_transform import GaussTransform
from .products import Products
from .sums import POINTS, Kernels, LogSums, NearSums, joined, log_sums_of, parted, sums_at

#: Pairs of kernels and points up to which preparing more than direct sums does not pay.
FEW_PAIRS = 2**25
#: The highest dimension in which many kernels are in few cells.
_LOW = 3
#: The lowest dimension in which products save more than leaving out far tiles: for 1e5 kernels at
#: 1e5 points, normal, clustered or heavy-tailed, they took 16 to 25 s in any dimension from four to
#: ten, tiles 9 to 21 s in five, 11 to 43 s in seven and 10 to 46 s in eight.
_HIGH = 7
#: The tolerance unless another is asked for.
TOLERANCE = 1e-8


class Engine(NamedTuple):
    """What sums kernels at many points.

    Attributes
    ----------
    within : callable
        From a tolerance to the function whose results are wrong by less than that.
    n_points : int
        How many points to give to such a function at a time.
    """

    within: Callable[[float], LogSums]
    n_points: int

    @classmethod
    def of(cls, kernels: Kernels, direct: Callable[[], LogSums]) -> "Engine":
        """Prepare the sums of kernels, ``direct`` giving their direct sums if these are needed."""
        shared, own = parted(kernels)
        if shared is None:
            sums = direct()
            return cls(lambda tol: sums, POINTS)
        if own is None:
            engine = _shared_engine(shared, direct)
            return cls(engine.within, engine.n_points)
        engine, rest = _shared_engine(shared, lambda: log_sums_of(shared)), log_sums_of(own)
        return cls(lambda tol: joined(engine.within(tol), rest), engine.n_points)

    def sums_at(self, X: np.ndarray, tol: float, n_jobs: int | None) -> np.ndarray:
        """Return the logarithms of the sums at every point, wrong by less than ``tol``."""
        return sums_at(self.within(tol), X, n_jobs, self.n_points)


def _shared_engine(
    kernels: Kernels, direct: Callable[[], LogSums]
) -> GaussTransform | NearSums | Products:
    n_features = kernels.means.shape[1]
    if n_features <= _LOW:
        return GaussTransform.of(kernels)
    return NearSums.of(kernels) if n_features < _HIGH else Products.of(kernels, direct())
