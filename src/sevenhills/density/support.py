"""How far the samples behind a density support its values."""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from scipy.special import chdtri, gammaincc

from ..threads import map_blocks
from ..validation import check_count, check_queries, freeze, random_generator
from .groups import KernelGroups
from .sums import LOG_2PI, LogSums, log_squares_of, middle_of, sums_at

#: The numbers that a block of points and kernels may hold.
_BLOCK_NUMBERS = 2**20
#: Kernels of groups that have fewer are measured each by itself.
_SMALL = 32
#: In more dimensions a tree is slower than all distances.
_TREE_FEATURES = 8
#: A point is beyond the samples if fewer of them than this would lie as far from their kernels.
_FEW_SAMPLES = 0.01
#: Kernels that add less than this part of it are left out.
_NEGLIGIBLE = 1e-6
#: Points whose replicates are summarised together.
_SUMMARY_POINTS = 4096
#: A sum so small may have lost some of its terms.
_TOO_SMALL = 1e-280
#: The exponential of what is lower by this is nothing.
_UNSEEN = 746.0

#: Decorates what points so far away are given to that their distances overflow.
_far_away = np.errstate(over="ignore", invalid="ignore")


class Support(KernelGroups):
    """How many samples stand behind the density at a point, and how sure it is there."""

    def effective_sample_size(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return how many samples support the density at every row of ``X``.

        .. math:: n(x) = \Big( \sum_k \frac{r_k(x)^2}{n_k} \Big)^{-1}, \qquad
                  r_k(x) = \frac{w_k N(x; \mu_k, \Sigma_{g(k)})}{p(x)}

        where kernel :math:`k` stands for :math:`n_k` samples. It is Kish's effective sample size:
        all :math:`N` samples where their kernels contribute alike, one where the kernel of a
        single sample makes up the density. The variance of the density at :math:`x` is about
        :math:`p(x)^2 / n(x)`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples,)
            From the smallest count of a kernel to the sum of all; the smallest where even the
            logarithm of the density overflows. In a density that does not know its samples, every
            kernel stands for one.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture([0.5, 0.5], [[-1.0], [1.0]], [0, 2], [[[1.0]]])
        >>> hills.effective_sample_size([[0.0], [1.0], [9.0]]).round(2)
        array([2.  , 1.27, 1.  ])
        """
        X = check_queries(X, self.n_features, self.feature_names)
        counts = self._sample_counts
        least, most = counts[self.log_weights > -np.inf].min(), counts.sum()
        with np.errstate(invalid="ignore", over="ignore"):
            log_sums = sums_at(self._log_sums, X, n_jobs)
            found = np.exp(2 * log_sums - sums_at(self._log_squares, X, n_jobs))
        return np.clip(np.nan_to_num(found, nan=0.0), least, most)

    def is_extrapolation(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return whether a point lies beyond the samples, for every row of ``X``.

        .. math:: \sum_k n_k \, P\big(\chi^2_M > d_k(x)^2\big) < 0.01, \qquad
                  d_k(x)^2 = (x - \mu_k)^\top \Sigma_{g(k)}^{-1} (x - \mu_k)

        where kernel :math:`k` stands for :math:`n_k` samples. The sum is the number of samples
        that would lie as far from the means of their kernels as :math:`x` does, were they drawn
        anew from the density. If it is next to nothing, the density at :math:`x` says how kernels
        fall off, and not what the samples say.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of bool of shape (n_samples,)

        Notes
        -----
        In many dimensions narrow kernels may not reach from one sample to the next. Then most new
        samples lie beyond the old ones, too: the density has not learned what they are like.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture([0.5, 0.5], [[-1.0], [1.0]], [0, 2], [[[1.0]]])
        >>> hills.is_extrapolation([[0.0], [3.0], [9.0]])
        array([False, False,  True])
        """
        X = check_queries(X, self.n_features, self.feature_names)
        return ~_by_blocks(self._is_reached, X, self.n_kernels, n_jobs).astype(bool)

    def bootstrap(self, n_replicates: int = 200, random_state: Any = 0) -> "Bootstrap":
        r"""Draw the samples anew, many times, and return the densities that come out.

        The :math:`N` samples behind the kernels are drawn with replacement. In a replicate,
        kernel :math:`k` weighs :math:`c_k / N`, where the counts :math:`c` are multinomial with
        the weights of the density as probabilities; kernels keep their place and their width.

        Parameters
        ----------
        n_replicates : int, default=200
            The number of replicates.
        random_state : int, RandomState instance or None, default=0

        Returns
        -------
        Bootstrap
            With ``logpdf``, ``band`` and ``std_error``.

        See Also
        --------
        sevenhills.refit_bootstrap : Fits every replicate anew, for kernels that stand for many
            samples each, or whose place and width depend on them.

        Notes
        -----
        A band shows how the density would vary from one set of samples to another. What kernels
        smooth away it does not show: it is about the expectation of the estimate.

        Examples
        --------
        >>> from sevenhills import GaussianKDE, datasets
        >>> X = datasets.load("aniso").sample(300, random_state=0)
        >>> density = GaussianKDE().fit(X).density_
        >>> low, high = density.bootstrap().band(X[:5])
        >>> bool(((low < density.logpdf(X[:5])) & (density.logpdf(X[:5]) < high)).all())
        True
        """
        n_replicates = check_count(n_replicates, "n_replicates", least=2)
        rng = random_generator(random_state)
        n_samples = max(1, round(float(self._sample_counts.sum())))
        return Bootstrap(self, resample(self.weights, n_samples, n_replicates, rng) / n_samples)

    @cached_property
    def _sample_counts(self) -> np.ndarray:
        """How many samples every kernel stands for, one each if that is not known."""
        if self.counts is None:
            return np.ones(self.n_kernels)
        # A kernel too light for floats has its share, too.
        return np.maximum(self.counts, np.finfo(np.float64).tiny)

    @cached_property
    def _log_squares(self) -> LogSums:
        """What sums the squares of the kernels, each divided by its count."""
        return log_squares_of(self._kernels, self._sample_counts)

    @cached_property
    def _reaches(self) -> np.ndarray:
        """The squared distances up to which every kernel alone has enough samples."""
        shares = np.minimum(_FEW_SAMPLES / self._sample_counts, 1.0)
        return np.asarray(np.where(shares < 1, chdtri(self.n_features, shares), -1.0))

    @cached_property
    def _trees(self) -> list["_Tree"]:
        """What finds the nearest kernels of large groups."""
        if self.n_features > _TREE_FEATURES:
            return []
        return [
            _tree_of(self.means[rows], self.transforms[g], float(self._reaches[rows].min()))
            for g, rows in self._compact_parts
            if len(rows) >= _SMALL and self._reaches[rows].min() > 0
        ]

    def _is_reached(self, X: np.ndarray) -> np.ndarray:
        """Return whether enough samples would lie as far from their kernels as points do."""
        reached = np.zeros(len(X), dtype=bool)
        for tree in self._trees:
            rest = np.flatnonzero(~reached)
            reached[rest] = tree.is_near(X[rest])
        rest = np.flatnonzero(~reached)
        if len(rest) == 0:
            return reached
        squares = squared_distances(self, X[rest])
        reached[rest] = (squares <= self._reaches).any(axis=1)
        still = ~reached[rest]
        reached[rest[still]] = self._n_as_far(squares[still]) >= _FEW_SAMPLES
        return reached

    def _n_as_far(self, squares: np.ndarray) -> np.ndarray:
        """Return how many samples would lie as far from their kernels, or farther."""
        counts = self._sample_counts
        tail = _NEGLIGIBLE * _FEW_SAMPLES / max(counts.sum(), _FEW_SAMPLES)
        close = squares < chdtri(self.n_features, tail)
        shares = np.zeros(squares.shape)
        shares[close] = gammaincc(0.5 * self.n_features, 0.5 * squares[close])
        return np.asarray(shares @ counts)


class _Tree(NamedTuple):
    """The kernels of a group in coordinates in which their covariance is one."""

    location: np.ndarray
    transform: np.ndarray
    tree: KDTree
    radius: float

    @_far_away
    def is_near(self, X: np.ndarray) -> np.ndarray:
        """Return whether a kernel lies within the radius."""
        turned = (X - self.location) @ self.transform
        out = np.isfinite(turned).all(axis=1)
        apart = self.tree.query(turned[out], distance_upper_bound=self.radius)[0]
        out[out] = apart < np.inf
        return out


def _tree_of(means: np.ndarray, transform: np.ndarray, reach: float) -> _Tree:
    location = middle_of(means)
    tree = KDTree((means - location) @ transform)
    return _Tree(location, transform, tree, float(np.sqrt(reach)))


class Replicates(ABC):
    """Densities that came out of resampled data, one as likely as another."""

    @abstractmethod
    def _check(self, X: Any) -> np.ndarray:
        """Return checked points."""

    @abstractmethod
    def _logpdf(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the log densities (n, Q) of all replicates at checked points."""

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the log density of every replicate at every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_replicates, n_samples)
        """
        return self._logpdf(self._check(X), n_jobs)

    def band(
        self, X: Any, confidence: float = 0.9, n_jobs: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the band in which the log density lies in most replicates, point by point.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        confidence : float, default=0.9
            The share of replicates within the band at every point, between 0 and 1.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,)
            Percentiles of the log density; their exponentials are those of the density.
        """
        if isinstance(confidence, bool) or not isinstance(confidence, numbers.Real):
            raise TypeError(f"confidence must be a number, got {confidence!r}")
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
        tail = round(0.5 - 0.5 * float(confidence), 12)  # a tenth, not a little less

        def limits(values: np.ndarray) -> np.ndarray:
            # Values of replicates, not between them: there is nothing between minus infinity
            # and a number.
            lower = np.quantile(values, tail, axis=0, method="lower")
            return np.stack([lower, np.quantile(values, 1 - tail, axis=0, method="higher")])

        lower, upper = self._summary(limits, X, n_jobs)
        return lower, upper

    def std_error(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the standard error of the log density at every row of ``X``.

        Where it is small, it is the relative standard error of the density.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples,)
            Infinite where a replicate has no density at all.
        """

        def spread(values: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore", over="ignore"):
                return np.nan_to_num(values.std(axis=0, ddof=1), nan=np.inf, posinf=np.inf)

        return self._summary(spread, X, n_jobs)

    def _summary(
        self, summarise: Callable[[np.ndarray], np.ndarray], X: Any, n_jobs: int | None
    ) -> np.ndarray:
        """Summarise replicates point by point, so that never all log densities are held."""
        X = self._check(X)
        parts = [
            summarise(self._logpdf(X[start : start + _SUMMARY_POINTS], n_jobs))
            for start in range(0, len(X), _SUMMARY_POINTS)
        ]
        return np.concatenate(parts, axis=-1)


@dataclass(frozen=True, eq=False)
class Bootstrap(Replicates):
    """Densities that share their kernels and differ in the kernels' weights.

    Parameters
    ----------
    density : KernelMixture
        The density whose samples were drawn anew.
    weights : ndarray of shape (n_replicates, n_kernels)
        The weights of its kernels in every replicate.
    """

    density: KernelGroups
    weights: np.ndarray

    def __post_init__(self) -> None:
        freeze(self, "weights")

    def __repr__(self) -> str:
        return f"Bootstrap({self.density!r}, n_replicates={len(self.weights)})"

    def _check(self, X: Any) -> np.ndarray:
        return check_queries(X, self.density.n_features, self.density.feature_names)

    def _logpdf(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        def evaluate(points: np.ndarray) -> np.ndarray:
            return _log_sums(log_kernels(self.density, points), self.weights)

        return _by_blocks(evaluate, X, self.density.n_kernels, n_jobs, len(self.weights)).T


def resample(
    weights: np.ndarray, n_samples: int, n_replicates: int, rng: np.random.RandomState
) -> np.ndarray:
    """Return how often everything is drawn (n_replicates, n) in ``n_samples`` draws by weight."""
    return rng.multinomial(n_samples, weights / weights.sum(), size=n_replicates)


@_far_away
def squared_distances(kernels: KernelGroups, X: np.ndarray) -> np.ndarray:
    """Return squared distances (Q, K) between points and kernels in units of their widths."""
    out = np.empty((len(X), kernels.n_kernels))
    is_small = np.ones(kernels.n_kernels, dtype=bool)
    for g, rows in kernels._compact_parts:
        if len(rows) >= _SMALL:
            out[:, rows] = _shared_squares(X, kernels.means[rows], kernels.transforms[g])
            is_small[rows] = False
    small = np.flatnonzero(is_small)
    step = max(1, _BLOCK_NUMBERS // X.size)
    for chosen in np.split(small, range(step, len(small), step)):
        out[:, chosen] = _own_squares(kernels, X, chosen)
    out[np.isnan(out)] = np.inf  # infinity less infinity, so far away
    return out


def _shared_squares(X: np.ndarray, means: np.ndarray, transform: np.ndarray) -> np.ndarray:
    location = middle_of(means)
    turned = (X - location) @ transform
    return np.asarray(cdist(turned, (means - location) @ transform, "sqeuclidean"))


def _own_squares(kernels: KernelGroups, X: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    apart = X - kernels.means[chosen][:, None]
    turned = np.matmul(apart, kernels.transforms[kernels._group_of_kernel[chosen]])
    return np.asarray(np.einsum("kqm,kqm->qk", turned, turned))


def log_kernels(kernels: KernelGroups, X: np.ndarray) -> np.ndarray:
    """Return the log densities (Q, K) of all kernels at points."""
    heights = kernels.log_dets[kernels._group_of_kernel] - 0.5 * kernels.n_features * LOG_2PI
    return heights - 0.5 * squared_distances(kernels, X)


def _log_sums(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the logs (Q, n) of sums of kernels, whose logs are (Q, K), by weights (n, K)."""
    tops = logs.max(axis=1)
    shift = np.where(tops > -np.inf, tops, 0.0)
    sums = np.exp(logs - shift[:, None]) @ weights.T
    with np.errstate(divide="ignore"):
        out = np.log(sums) + shift[:, None]
    for i in np.flatnonzero((sums < _TOO_SMALL).any(axis=1) & (tops > -np.inf)):
        lost = sums[i] < _TOO_SMALL
        out[i, lost] = _log_sums_of_drawn(logs[i], weights[lost])
    return out


def _log_sums_of_drawn(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the same at one point (n,), relative to the nearest kernel that was not left out."""
    tops = np.where(weights > 0, logs, -np.inf).max(axis=1)
    seen = logs > tops.min() - _UNSEEN
    relative = np.minimum(logs[seen] - tops[:, None], 0.0)  # those above it weigh nothing
    with np.errstate(divide="ignore"):
        return np.asarray(tops + np.log((weights[:, seen] * np.exp(relative)).sum(axis=1)))


def _by_blocks(
    work: Callable[[np.ndarray], np.ndarray],
    X: np.ndarray,
    n_kernels: int,
    n_jobs: int | None,
    *shape: int,
) -> np.ndarray:
    """Return what work gives for points, so many at a time as a block of kernels allows."""
    out = np.empty((len(X), *shape))
    step = max(1, _BLOCK_NUMBERS // n_kernels)

    def evaluate(blocks: range) -> None:
        for block in blocks:
            rows = slice(block * step, (block + 1) * step)
            out[rows] = work(X[rows])

    map_blocks(evaluate, -(-len(X) // step), n_jobs)
    return out
