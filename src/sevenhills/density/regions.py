"""Regions of highest density, and what lies outside of them."""

from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from ..estimate import Estimate, mean_with_error
from ..validation import check_count, check_flag
from .base import Density
from .contours import contours_around, intervals_around
from .line import check_confidence

#: Sets of draws whose log densities are remembered.
_MOST_REMEMBERED = 4


class Regions(Density):
    """Entropy and regions of highest density, from draws of a density."""

    def entropy(
        self, n_draws: int = 10_000, random_state: Any = 0, n_jobs: int | None = None
    ) -> Estimate:
        r"""Return the differential entropy, in nats.

        .. math:: H = -\int p(x) \log p(x) \, dx

        Parameters
        ----------
        n_draws : int, default=10000
            The number of draws over which the log density is averaged.
        random_state : int, RandomState instance or None, default=0
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        Estimate
            A float with its standard error ``std_error``.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> unit.entropy()  # exactly log(2 pi e) / 2 = 1.419
        1.410 ± 0.007
        """
        values = self._log_densities(n_draws, random_state, n_jobs)
        mean, error = mean_with_error(values)
        return Estimate(-mean, error, len(values))

    def hdr_level(
        self,
        confidence: float,
        n_draws: int = 10_000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> Estimate:
        r"""Return the log density above which the density has a given mass.

        .. math:: P\big(\log p(x) \ge \ell\big) = \text{confidence}

        The region :math:`\{x : \log p(x) \ge \ell\}` is the smallest of that mass.

        Parameters
        ----------
        confidence : float
            The probability of the region, between 0 and 1.
        n_draws : int, default=10000
            The number of draws, of whose log densities the level is a quantile.
        random_state : int, RandomState instance or None, default=0
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        Estimate
            The logarithm of the density, with its standard error ``std_error``, NaN if there are
            too few draws to tell.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> unit.hdr_level(0.5)  # exactly the log density at 0.674, -1.146
        -1.141 ± 0.005
        """
        share = 1.0 - check_confidence(confidence)
        values = self._log_densities(n_draws, random_state, n_jobs)
        error = _quantile_error(values, share)
        return Estimate(
            float(np.quantile(values, share, method="inverted_cdf")), error, len(values)
        )

    def hdr_probability(
        self,
        X: Any,
        n_draws: int = 10_000,
        random_state: Any = 0,
        *,
        return_std: bool = False,
        n_jobs: int | None = None,
    ) -> Any:
        r"""Return the mass of the smallest region of highest density that holds each point.

        .. math:: c(x) = P\big(p(y) > p(x)\big), \quad y \sim p

        It is 0 at the highest mode and 1 far out. For points that come from the density it is
        uniform; so :math:`1 - c(x)` is a p-value for :math:`x` coming from it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_draws : int, default=10000
            The number of draws that are counted. Their log densities are remembered for the next
            call if ``random_state`` is a number.
        random_state : int, RandomState instance or None, default=0
        return_std : bool, default=False
            Whether to return standard errors, too.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        coverage : ndarray of shape (n_samples,)
            Between 0 and 1; 1 where the density is zero.
        std : ndarray of shape (n_samples,)
            The binomial standard error of every value, only if ``return_std``. It is above zero
            even where all draws agree.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> unit.hdr_probability([[0.0], [1.0], [-1.96]]).round(2)
        array([0.  , 0.69, 0.95])
        """
        check_flag(return_std, "return_std")
        drawn = self._log_densities(n_draws, random_state, n_jobs)
        found = self.logpdf(X, n_jobs)
        n_higher = len(drawn) - np.searchsorted(drawn, found, side="right")
        out = np.where(np.isneginf(found), 1.0, n_higher / len(drawn))
        if not return_std:
            return out
        # As if one more draw had fallen on either side, lest a share of none be taken as certain.
        share = (n_higher + 1) / (len(drawn) + 2)
        return out, np.sqrt(share * (1 - share) / len(drawn))

    def hdr_intervals(
        self,
        confidence: float,
        n_grid: int = 4096,
        n_draws: int = 10_000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        """Return the intervals of highest density that have a given mass, for one feature.

        Parameters
        ----------
        confidence : float
            Their joint probability, between 0 and 1.
        n_grid : int, default=4096
            The number of values between which ends of intervals are looked for.
        n_draws : int, default=10000
            The number of draws that find the level; see :meth:`hdr_level`.
        random_state : int, RandomState instance or None, default=0
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_intervals, 2)
            Lower and upper ends, rising.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture([0.5, 0.5], [[-9.0], [9.0]], [0, 2], [[[1.0]]])
        >>> hills.hdr_intervals(0.95).round(1)
        array([[-10.9,  -7.1],
               [  7.1,  10.9]])
        """
        check_confidence(confidence)
        self._check_dimension(1, "hdr_intervals", "marginal(feature)")
        n_grid = check_count(n_grid, "n_grid", least=4)
        level = float(self.hdr_level(confidence, n_draws, random_state, n_jobs))
        drawn = self.sample(n_draws, random_state)
        return intervals_around(lambda X: self.logpdf(X, n_jobs), level, drawn, n_grid)

    def hdr_contours(
        self,
        confidence: float,
        n_grid: int = 256,
        n_draws: int = 10_000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> list[np.ndarray]:
        """Return outlines of the region of highest density of a given mass, for two features.

        Needs contourpy, which comes with matplotlib: ``pip install 'sevenhills[plot]'``.

        Parameters
        ----------
        confidence : float
            The probability of the region, between 0 and 1.
        n_grid : int, default=256
            The number of grid lines for every feature. They are dense where the draws are; what
            fits between them may be missed.
        n_draws : int, default=10000
            The number of draws that find the level; see :meth:`hdr_level`.
        random_state : int, RandomState instance or None, default=0
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        list of ndarray of shape (n_vertices, 2)
            Closed polygons, the first vertex being the last one, too. They go around the region
            counter-clockwise, and clockwise around holes in it. Every vertex is on the level.

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [np.eye(2)])
        >>> (outline,) = plane.hdr_contours(0.5)
        >>> np.linalg.norm(outline, axis=1).round(1)[:3]  # about sqrt(2 log 2) = 1.18
        array([1.2, 1.2, 1.2])
        """
        check_confidence(confidence)
        self._check_dimension(2, "hdr_contours", "marginal([i, j])")
        n_grid = check_count(n_grid, "n_grid", least=4)
        level = float(self.hdr_level(confidence, n_draws, random_state, n_jobs))
        drawn = self.sample(n_draws, random_state)
        return contours_around(lambda X: self.logpdf(X, n_jobs), level, drawn, n_grid)

    def _check_dimension(self, wanted: int, question: str, remedy: str) -> None:
        if self.n_features != wanted:
            raise ValueError(
                f"{question} is for {wanted} feature(s), but this density has {self.n_features}; "
                f"take {remedy} first"
            )

    def _log_densities(self, n_draws: Any, random_state: Any, n_jobs: int | None) -> np.ndarray:
        """Return the log densities of draws, in rising order."""
        n_draws = check_count(n_draws, "n_draws", least=1)
        if not self.is_normalized:
            raise ValueError(
                f"a {type(self).__name__} is not normalised: its regions have no probability"
            )
        if not isinstance(random_state, Integral) or isinstance(random_state, bool):
            return np.sort(self.logpdf(self.sample(n_draws, random_state), n_jobs))
        key = (n_draws, int(random_state))
        values = self._remembered.get(key)
        if values is None:
            values = np.sort(self.logpdf(self.sample(n_draws, random_state), n_jobs))
            values.flags.writeable = False
            # The oldest go; that another thread may do so, too, does no harm.
            for old in list(self._remembered)[: -_MOST_REMEMBERED + 1]:
                self._remembered.pop(old, None)
            self._remembered[key] = values
        return values

    @cached_property
    def _remembered(self) -> dict[tuple[int, int], np.ndarray]:
        """The log densities of draws, by their number and seed."""
        return {}


def _quantile_error(values: np.ndarray, share: float) -> float:
    """Return the standard error of a quantile of rising values, whatever their distribution.

    The ranks one standard deviation of the binomial distribution apart are one error apart.
    """
    n = len(values)
    spread = np.sqrt(n * share * (1.0 - share))
    low, high = n * share - spread, n * share + spread
    if low < 0 or high > n - 1:
        return float("nan")
    below, above = np.interp([low, high], np.arange(n), values)
    return float(above - below) / 2
