"""The conditional densities of many rows at once."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from ..threads import map_rows
from ..validation import check_confidence, check_count, check_numbers, random_generator
from .conditioning import GivenFeatures, RowKernels, RowNormals
from .maps import FeatureMap, map_columns
from .output import to_frame
from .preimages import Preimages
from .probabilities import check_probabilities

#: Pairs of given values and kernels that are held in memory, and rows of a block.
_BLOCK_PAIRS, _BLOCK_ROWS = 2**21, 1024
#: Numbers in a table of draws, kernels and nodes.
_TABLE_NUMBERS = 2**20
#: The nodes by which a map of a kernel is integrated, in standard deviations from its mean. With
#: this distance the trapezoidal rule is exact for smooth maps.
_NODES = np.arange(-32, 33) * 0.25
_NODE_WEIGHTS = 0.25 * np.exp(-0.5 * _NODES**2) / np.sqrt(2 * np.pi)
#: The distances of the nodes of a grid, in standard deviations of kernels, without a map and with
#: one, whose slope may change within a kernel.
_STEPS = (0.5, 0.2)
#: Kernels of a smaller share are left out of regions and modes of one feature.
_LEAST_SHARE = 1e-9
#: The steps of a golden-section search; they narrow an interval to 1e-8 of its length.
_GOLDEN, _GOLDEN_STEPS = (np.sqrt(5.0) - 1) / 2, 38
#: The steps by which the ends of intervals, and the levels of regions, are refined.
_CROSSING_STEPS, _LEVEL_STEPS = 6, 3
#: The kernels from which the mode of several features is searched, the steps of an ascent, its end
#: in standard deviations of kernels, and the halvings of a step that leads down.
_N_STARTS, _MAX_STEPS, _CLOSE, _HALVINGS = 8, 300, 1e-8, 20
#: Log densities this far below a level are as good as lower ones.
_DEPTH = 30.0


class Conditionals:
    r"""The conditional densities of the other features, given rows of values of some.

    It is made by ``density.conditional({feature: column})``; ``conditionals[i]`` is the density of
    row ``i``. Methods return an array with one entry per row. They leave out kernels with a
    share of less than 1e-10 in all; regions and modes of one feature leave out those with less than
    1e-9 each. Only :meth:`logpdf` is exact in the far tails, too.

    Features whose maps are monotone are conditioned in latent coordinates. If one of the free
    features is mirrored or on a circle, the methods go through the rows one by one, which is slow.

    Parameters
    ----------
    density : KernelMixture
        The joint density.
    features : array-like of shape (n_given,)
        The indices of the given features.
    values : array-like of shape (n_rows, n_given)
        Their values.

    Examples
    --------
    >>> from sevenhills import KernelMixture
    >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.5], [0.5, 1.0]])
    >>> rows = plane.conditional({0: [-1.0, 0.0, 2.0]})
    >>> rows.mean().ravel()
    array([-0.5,  0. ,  1. ])
    >>> rows.ppf([0.05, 0.95]).round(2)
    array([[-1.92,  0.92],
           [-1.42,  1.42],
           [-0.42,  2.42]])
    """

    #: The index of the rows of frames of pandas, that of the given columns.
    index: Any = None

    def __init__(self, density: Any, features: Any, values: Any) -> None:
        self.density = density
        self.features = np.array(features, dtype=np.int64)
        self.values = np.array(values, dtype=np.float64)
        for each in (self.features, self.values):
            each.flags.writeable = False

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> Any:
        """Return the conditional density of a row."""
        values = self.values[row].tolist()
        return self.density.conditional(dict(zip(self.features.tolist(), values, strict=True)))

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_rows={len(self)}, n_features={self.n_features})"

    @cached_property
    def free(self) -> np.ndarray:
        """The indices of the features that are not given."""
        return np.delete(np.arange(self.density.n_features), self.features)

    @property
    def n_features(self) -> int:
        """The number of features that are not given."""
        return len(self.free)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features that are not given."""
        names = self.density._names
        return None if names is None else tuple(names[j] for j in self.free)

    @cached_property
    def maps(self) -> Sequence[FeatureMap]:
        """The maps of the features that are not given."""
        return [self.density._chart.maps[j] for j in self.free]

    @cached_property
    def is_folded(self) -> bool:
        """Whether a value of a free feature has several latent coordinates."""
        return any(each.is_folding for each in self.maps)

    @cached_property
    def log_given(self) -> np.ndarray:
        """The log densities (n_rows,) of the given values."""
        return np.asarray(self.density.marginal(self.features)._logpdf(self.values))

    @cached_property
    def _given(self) -> GivenFeatures:
        return GivenFeatures.from_kernels(self.density.kernels, self.features)

    @cached_property
    def _images(self) -> tuple[np.ndarray, np.ndarray]:
        """The latent coordinates of the given values, and the first of every row."""
        if self.density.maps is None:
            return self.values, np.arange(len(self) + 1)
        found: list[Preimages] = []
        marginal = self.density.marginal(self.features)

        def keep(each: Preimages) -> np.ndarray:
            found.append(each)
            return np.bincount(each.rows, minlength=each.n_rows).astype(float)

        sizes = marginal._answers(self.values, None, keep)
        starts = np.append(0, np.cumsum(sizes.astype(np.int64)))
        return np.concatenate([each.Z for each in found]), starts

    # Blocks of rows

    def _answers(
        self,
        answer: Callable[[RowKernels, np.ndarray], np.ndarray],
        shape: tuple[int, ...],
        n_jobs: int | None,
    ) -> np.ndarray:
        """Return answers (n_rows, *shape) from the kernels of blocks, and the rows of each."""
        Z, starts = self._images
        n_images = max(1, int(np.diff(starts).max()))
        size = _BLOCK_PAIRS // (self.density.n_kernels * n_images)

        def of_block(rows: np.ndarray) -> np.ndarray:
            images = starts[rows[0] : rows[-1] + 2]
            kernels = self._given.at(Z[images[0] : images[-1]], images - images[0])
            return answer(kernels, rows)

        size = int(np.clip(size, 1, _BLOCK_ROWS))
        out = np.empty((len(self), *shape))
        return map_rows(of_block, np.arange(len(self)), size, n_jobs, out)

    def _one_by_one(self, answer: Callable[[Any], Any]) -> np.ndarray:
        """Return the answers of the densities of all rows."""
        return np.array([answer(each.with_output(None)) for each in self])

    def _map(self, Z: np.ndarray) -> np.ndarray:
        """Return the values of latent coordinates (..., n_features)."""
        flat = map_columns(self.maps, "inverse", Z.reshape(-1, self.n_features))
        return flat.reshape(Z.shape)

    def _check_points(self, Y: Any, name: str, depths: tuple[int, ...]) -> np.ndarray:
        """Return points of every row; the last axis may be left out for one feature."""
        Y = check_numbers(Y, name)
        if self.n_features == 1 and Y.ndim == 1:
            Y = Y[:, None]
        if Y.ndim not in depths or len(Y) != len(self) or Y.shape[-1] != self.n_features:
            shapes = [(len(self), *["n_points"] * (n - 2), self.n_features) for n in depths]
            expected = " or ".join(str(each).replace("'", "") for each in shapes)
            raise ValueError(f"{name} must have shape {expected}, got {Y.shape}")
        if np.isnan(Y).any():
            raise ValueError(f"{name} must not be NaN")
        return Y

    # Values and draws

    def logpdf(self, Y: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return the log densities :math:`\log p(y_i \mid x_i)` of points.

        Parameters
        ----------
        Y : array-like of shape (n_rows, n_features) or (n_rows, n_points, n_features)
            A point for every row, or several; (n_rows,) for one feature.
        n_jobs : int, optional

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_points)

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
        >>> plane.conditional({0: [-1.0, 50.0]}).logpdf([0.0, 2.0]).round(4)
        array([-0.9189, -2.9189])
        """
        Y = self._check_points(Y, "Y", (2, 3))
        if not np.isfinite(Y).all():
            raise ValueError("Y must be finite")
        n_points = 1 if Y.ndim == 2 else Y.shape[1]
        X = np.empty((len(Y) * n_points, self.density.n_features))
        X[:, self.features] = np.repeat(self.values, n_points, axis=0)
        X[:, self.free] = Y.reshape(-1, self.n_features)
        joint = self.density._logpdf(X, n_jobs).reshape(Y.shape[:-1])
        return np.asarray(joint - self.log_given.reshape(-1, *[1] * (Y.ndim - 2)))

    def sample(
        self, n_samples: int = 1, random_state: Any = None, n_jobs: int | None = None
    ) -> np.ndarray:
        """Draw independent samples (n_rows, n_samples, n_features) of every row.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
        >>> plane.conditional({0: [-1.0, 50.0]}).sample(3, random_state=0).shape
        (2, 3, 1)
        """
        n_samples = check_count(n_samples, "n_samples")
        rng = random_generator(random_state)
        if self.is_folded:
            return self._one_by_one(lambda each: each.sample(n_samples, rng))
        draw = self._drawing(n_samples, rng)
        shape = n_samples, self.n_features
        return self._answers(lambda *block: self._map(draw(*block)), shape, n_jobs)

    def _drawing(
        self, n_samples: int, rng: np.random.RandomState
    ) -> Callable[[RowKernels, np.ndarray], np.ndarray]:
        """Return a function that draws latent coordinates for blocks, the same in all threads."""
        seed = int(rng.randint(2**31))
        return lambda kernels, rows: kernels.sample(
            n_samples, np.random.RandomState([seed, int(rows[0])])
        )

    # Moments

    def mean(self, n_jobs: int | None = None) -> Any:
        """Return the conditional means (n_rows, n_features).

        The mean of a mapped feature is integrated numerically, to about 1e-4 of its standard
        deviation.
        """
        return to_frame(self._mean(n_jobs), self.density.output, self.feature_names, self.index)

    def _mean(self, n_jobs: int | None) -> np.ndarray:
        if self.is_folded:
            return self._one_by_one(lambda each: each.mean())
        return self._answers(
            lambda kernels, _: self._moments(kernels)[0], (self.n_features,), n_jobs
        )

    def std(self, n_jobs: int | None = None) -> np.ndarray:
        """Return the conditional standard deviations (n_rows, n_features)."""
        if self.is_folded:
            return self._one_by_one(lambda each: np.sqrt(np.diag(each.cov())))
        shape = (self.n_features,)
        return self._answers(lambda kernels, _: np.sqrt(self._moments(kernels)[1]), shape, n_jobs)

    def _moments(self, kernels: RowKernels) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (n_rows, n_features)."""
        means, stds = kernels.means.copy(), kernels.stds
        variances = stds**2
        for j, each in enumerate(self.maps):
            if type(each) is not FeatureMap:
                means[:, j], variances[:, j] = _mapped_moments(each, means[:, j], stds[:, j])
        # Measured from one of the means, so that a large offset does not cost digits.
        origins = means[kernels.starts[:-1]]
        found = origins + kernels.totals(means - origins[kernels.row_of_entry])
        apart = means - found[kernels.row_of_entry]
        return found, kernels.totals(variances + apart**2)

    # One feature

    def cdf(self, y: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the probabilities of rows below values of one feature.

        Parameters
        ----------
        y : array-like of shape (n_rows,) or (n_rows, n_values)
            The result has the same shape.
        n_jobs : int, optional

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.5], [0.5, 1.0]])
        >>> plane.conditional({0: [0.0, 2.0]}).cdf([1.0, 1.0]).round(4)
        array([0.8759, 0.5   ])
        """
        self._one_feature("cdf")
        y = check_numbers(y, "y")
        if y.ndim not in (1, 2) or len(y) != len(self):
            n = len(self)
            raise ValueError(f"y must have shape ({n},) or ({n}, n_values), got {y.shape}")
        if np.isnan(y).any():
            raise ValueError("y must not be NaN")
        if self.is_folded:
            return np.array([each.cdf(value) for each, value in zip(self, y, strict=True)])
        (each,), Z = self.maps, np.empty(y.shape)
        low, high = each.bounds
        inside = (y > low) & (y < high)
        Z[inside], Z[~inside] = (
            each.forward(y[inside]),
            np.where(y <= low, -np.inf, np.inf)[~inside],
        )

        def tails(kernels: RowKernels, rows: np.ndarray) -> np.ndarray:
            found = Z[rows]
            of_value = np.repeat(np.arange(len(rows)), found.size // len(rows))
            return (
                RowNormals.from_kernels(kernels).tails(found.ravel(), of_value).reshape(found.shape)
            )

        return self._answers(tails, Z.shape[1:], n_jobs)

    def ppf(self, q: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the quantiles of one feature.

        Parameters
        ----------
        q : float or array-like of shape (n_quantiles,)
            Probabilities, from 0 to 1; at the ends the quantiles are infinite, or bounds of the
            support.
        n_jobs : int, optional

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_quantiles)

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.5], [0.5, 1.0]])
        >>> plane.conditional({0: [0.0, 2.0]}).ppf(0.5) + 0.0
        array([0., 1.])
        """
        self._one_feature("ppf")
        check_probabilities(q)
        q = check_numbers(q, "q")
        if q.ndim > 1:
            raise ValueError(f"q must be a number or have shape (n_quantiles,), got {q.shape}")
        if self.is_folded:
            return self._one_by_one(lambda each: each.ppf(q))
        (each,), flat = self.maps, np.atleast_1d(q)
        inside = (flat > 0) & (flat < 1)

        def quantiles(kernels: RowKernels, rows: np.ndarray) -> np.ndarray:
            out = np.tile(np.where(flat > 0, *each.bounds[::-1]), (len(rows), 1))
            out[:, inside] = each.inverse(RowNormals.from_kernels(kernels).quantiles(flat[inside]))
            return out

        return self._answers(quantiles, flat.shape, n_jobs).reshape(len(self), *q.shape)

    def crps(self, y: Any, n_jobs: int | None = None) -> np.ndarray:
        r"""Return the continuous ranked probability scores of values of one feature.

        .. math:: \int \big(F_i(t) - [t \ge y_i]\big)^2 \, dt

        The score has the unit of the feature, and is the absolute error of a density that is a
        point. It is integrated numerically.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
        n_jobs : int, optional

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
        >>> plane.conditional({0: [0.0, 2.0]}).crps([0.0, 1.0]).round(4)
        array([0.2337, 0.6024])
        """
        self._one_feature("crps")
        y = self._check_points(y, "y", (2,))[:, 0]
        if self.is_folded:
            raise ValueError("crps needs a feature that is neither mirrored nor on a circle")
        (each,) = self.maps
        low, high = each.bounds
        Z = each.forward(np.clip(y, np.nextafter(low, high), np.nextafter(high, low)))

        def scores(kernels: RowKernels, rows: np.ndarray) -> np.ndarray:
            found = self._line(kernels).crps(Z[rows])
            return np.asarray(found + np.abs(y[rows] - each.inverse(Z[rows])))

        return self._answers(scores, (), n_jobs)

    def _one_feature(self, question: str) -> None:
        if self.n_features != 1:
            raise ValueError(
                f"{question} is for one feature, but {self.n_features} are not given; take "
                "marginal(features) of the density first"
            )

    # Highest-density regions and modes

    def hdr_probability(
        self, Y: Any, n_draws: int = 1000, random_state: Any = 0, n_jobs: int | None = None
    ) -> np.ndarray:
        r"""Return the probabilities of the smallest highest-density regions that contain points.

        .. math:: c_i = P\big(p(y \mid x_i) > p(y_i \mid x_i)\big), \quad y \sim p(y \mid x_i)

        Those of one feature are integrals. Those of several features are shares of draws.

        Parameters
        ----------
        Y : array-like of shape (n_rows, n_features)
        n_draws, random_state : int and int, RandomState instance or None
            The number of draws per row and their seed, for several features.
        n_jobs : int, optional

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
        >>> plane.conditional({0: [-1.0, 50.0]}).hdr_probability([1.0, 1.96]).round(2)
        array([0.68, 0.95])
        """
        Y = self._check_points(Y, "Y", (2,))
        levels = self.logpdf(Y, n_jobs)
        if self.n_features == 1 and not self.is_folded:

            def masses(kernels: RowKernels, rows: np.ndarray) -> np.ndarray:
                line = self._line(kernels)
                return line.masses(*line.level_sets(levels[rows]))

            return self._answers(masses, (), n_jobs)

        def higher(log_densities: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return np.asarray((log_densities > levels[rows, None]).mean(axis=1))

        return self._from_draws(higher, n_draws, random_state, n_jobs)

    def hdr_level(
        self,
        confidence: float,
        n_draws: int = 1000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        """Return the log densities (n_rows,) at the boundaries of highest-density regions.

        The arguments are those of :meth:`hdr_probability`.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
        >>> plane.conditional({0: [-1.0, 50.0]}).hdr_level(0.5).round(3)
        array([-1.146, -1.146])
        """
        confidence = check_confidence(confidence)
        if self.n_features == 1 and not self.is_folded:
            return self._answers(
                lambda kernels, _: self._line(kernels).levels(confidence), (), n_jobs
            )
        level = partial(np.quantile, q=1 - confidence, axis=1, method="inverted_cdf")
        return self._from_draws(lambda logs, _: level(logs), n_draws, random_state, n_jobs)

    def hdr_size(
        self,
        confidence: float,
        n_draws: int = 1000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        r"""Return the lengths, areas or volumes (n_rows,) of highest-density regions.

        Those of several features are means over draws: a region has the size
        :math:`E\big[[p(y) \ge \ell] / p(y)\big]`. The arguments are those of
        :meth:`hdr_probability`.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture.from_covariances([1.0], [[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
        >>> plane.conditional({0: [-1.0, 50.0]}).hdr_size(0.95).round(2)
        array([3.92, 3.92])
        """
        if self.n_features == 1:
            found = self.hdr_intervals(confidence, n_jobs)
            return np.array([np.subtract(each[:, 1], each[:, 0]).sum() for each in found])
        share = 1 - check_confidence(confidence)

        def sizes(log_densities: np.ndarray, rows: np.ndarray) -> np.ndarray:
            level = np.quantile(log_densities, share, axis=1, method="inverted_cdf", keepdims=True)
            inside = log_densities >= level
            with np.errstate(over="ignore"):
                sizes = np.exp(-np.where(inside, log_densities, np.inf))
            return np.asarray(sizes.mean(axis=1))

        return self._from_draws(sizes, n_draws, random_state, n_jobs)

    def hdr_intervals(self, confidence: float, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return the highest-density regions of one feature, as ascending intervals (n, 2).

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture.from_covariances([0.5, 0.5], [[0.0, -9.0], [0.0, 9.0]], np.eye(2))
        >>> hills.conditional({0: [0.0, 1.0]}).hdr_intervals(0.95)[0].round(1)
        array([[-11.,  -7.],
               [  7.,  11.]])
        """
        self._one_feature("hdr_intervals")
        confidence = check_confidence(confidence)
        if self.is_folded:
            return [each.hdr_intervals(confidence) for each in self]
        found: list[Any] = [None] * len(self)

        def keep(kernels: RowKernels, rows: np.ndarray) -> np.ndarray:
            line = self._line(kernels)
            own, ends = line.level_sets(line.levels(confidence))
            intervals = self.maps[0].inverse(ends).T
            cuts = np.searchsorted(own, np.arange(1, len(rows)))
            for row, each in zip(rows, np.split(intervals, cuts), strict=True):
                found[row] = each
            return np.zeros(len(rows))

        self._answers(keep, (), n_jobs)
        return found

    def _from_draws(
        self,
        answer: Callable[[np.ndarray, np.ndarray], np.ndarray],
        n_draws: int,
        random_state: Any,
        n_jobs: int | None,
    ) -> np.ndarray:
        """Return answers (n_rows,) from the log densities (n_rows, n_draws) of draws, and rows."""
        n_draws = check_count(n_draws, "n_draws", least=1)
        rng = random_generator(random_state)
        if self.is_folded:
            draws = (each.logpdf(np.asarray(each.sample(n_draws, rng))) for each in self)
            return np.array([answer(each[None], np.array([i]))[0] for i, each in enumerate(draws)])
        draw = self._drawing(n_draws, rng)

        def of_block(kernels: RowKernels, rows: np.ndarray) -> np.ndarray:
            Z = draw(kernels, rows).reshape(-1, self.n_features)
            found = kernels.log_sums(Z, np.repeat(np.arange(len(rows)), n_draws))
            found += map_columns(self.maps, "log_slope", self._map(Z)).sum(axis=1)
            return answer(found.reshape(len(rows), n_draws), rows)

        return self._answers(of_block, (), n_jobs)

    def mode(self, n_jobs: int | None = None) -> Any:
        """Return the highest modes (n_rows, n_features).

        That of one feature is found on a grid. That of several features is the highest one to
        which ascents from the means of eight kernels lead.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> hills = KernelMixture.from_covariances([0.4, 0.6], [[0.0, -9.0], [0.0, 9.0]], np.eye(2))
        >>> hills.conditional({0: [0.0, 1.0]}).mode().round(6).ravel()
        array([9., 9.])
        """
        return to_frame(self._mode(n_jobs), self.density.output, self.feature_names, self.index)

    def _mode(self, n_jobs: int | None) -> np.ndarray:
        if self.is_folded:
            return self._one_by_one(lambda each: each.mode())
        if self.n_features == 1:

            def find(kernels: RowKernels) -> np.ndarray:
                return self._line(kernels).highest()[:, None]
        else:
            find = partial(_ascended, maps=self.maps)
        shape = (self.n_features,)
        return self._answers(lambda kernels, _: self._map(find(kernels)), shape, n_jobs)

    def _line(self, kernels: RowKernels) -> "_Line":
        return _Line.from_kernels(kernels, self.maps[0])


def _mapped_moments(
    each: FeatureMap, means: np.ndarray, stds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances of a mapped feature of kernels."""
    out, size = np.empty((2, len(means))), _TABLE_NUMBERS // len(_NODES)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(means), size):
            rows = slice(start, start + size)
            values = each.inverse(means[rows, None] + stds[rows, None] * _NODES)
            out[0, rows] = values @ _NODE_WEIGHTS
            out[1, rows] = (values - out[0, rows, None]) ** 2 @ _NODE_WEIGHTS
    return out[0], out[1]


# One feature


class _Line(NamedTuple):
    """The densities of rows of one feature on a grid of latent coordinates."""

    normals: RowNormals
    map: FeatureMap
    nodes: np.ndarray  #: (N,) ascending in every row
    starts: np.ndarray  #: (n_rows + 1,) the first node of every row
    rows: np.ndarray  #: (N,) the row of every node
    shares: np.ndarray  #: (N,) about the probability around every node
    log_densities: np.ndarray  #: (N,) those of the values

    @classmethod
    def from_kernels(cls, kernels: RowKernels, each: FeatureMap) -> "_Line":
        """Make grids for rows."""
        normals = RowNormals.from_kernels(kernels, _LEAST_SHARE)
        nodes, starts = normals.grid(_STEPS[type(each) is not FeatureMap])
        rows = np.repeat(np.arange(normals.n_rows), np.diff(starts))
        heights = normals.grid_heights(nodes, starts)
        steps = np.diff(nodes) * (np.diff(rows) == 0)
        shares = heights * 0.5 * (np.append(steps, 0.0) + np.append(0.0, steps))
        with np.errstate(divide="ignore"):
            log_densities = np.log(heights) + each.log_slope(each.inverse(nodes))
        return cls(normals, each, nodes, starts, rows, shares, log_densities)

    def log_density(self, z: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the log densities of values of rows, by their latent coordinates."""
        found = self.normals.log_heights(z, rows)
        if type(self.map) is not FeatureMap:
            found += self.map.log_slope(self.map.inverse(z))
        return found

    def highest(self) -> np.ndarray:
        """Return the highest maxima of rows, by a golden-section search around the best nodes."""
        best = np.lexsort((-self.log_densities, self.rows))[self.starts[:-1]]
        low = self.nodes[np.maximum(best - 1, self.starts[:-1])]
        high = self.nodes[np.minimum(best + 1, self.starts[1:] - 1)]
        every = np.arange(self.normals.n_rows)
        first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        heights = self.log_density(first, every), self.log_density(second, every)
        for _ in range(_GOLDEN_STEPS):
            left = heights[0] > heights[1]
            low, high = np.where(left, low, first), np.where(left, second, high)
            new = np.where(left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
            height = self.log_density(new, every)
            first, second = np.where(left, new, second), np.where(left, first, new)
            heights = np.where(left, height, heights[1]), np.where(left, heights[0], height)
        return np.asarray(0.5 * low + 0.5 * high)

    def level_sets(self, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows (N,) and ends (2, N) of intervals where densities are above levels."""
        above = self.log_densities > levels[self.rows]
        before, after = np.append(False, above[:-1]), np.append(above[1:], False)
        before[self.starts[:-1]], after[self.starts[1:] - 1] = False, False
        first, last = np.flatnonzero(above & ~before), np.flatnonzero(above & ~after)
        own = self.rows[first]
        inner, both = np.concatenate([first, last]), np.concatenate([own, own])
        outer = np.clip(np.concatenate([first - 1, last + 1]), *self._ends(both))

        def excess(z: np.ndarray) -> np.ndarray:
            return np.maximum(self.log_density(z, both) - levels[both], -_DEPTH)

        return own, _crossings(excess, self.nodes[inner], self.nodes[outer]).reshape(2, -1)

    def _ends(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last node of rows."""
        return self.starts[rows], self.starts[rows + 1] - 1

    def masses(self, rows: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the probabilities of rows in intervals."""
        low, high = (self.normals.tails(each, rows) for each in ends)
        return np.bincount(rows, high - low, minlength=self.normals.n_rows).clip(0.0, 1.0)

    def levels(self, confidence: float) -> np.ndarray:
        """Return the log densities above which rows have a probability, by Newton's method."""
        order = np.lexsort((-self.log_densities, self.rows))
        sums = np.cumsum(self.shares[order])
        before = np.append(0.0, sums)[self.starts]
        wanted = before[:-1] + confidence * np.diff(before)
        at = np.searchsorted(sums, wanted).clip(*self._ends(np.arange(self.normals.n_rows)))
        levels = self.log_densities[order[at]]
        for _ in range(_LEVEL_STEPS):
            rows, ends = self.level_sets(levels)
            excess = self.masses(rows, ends) - confidence
            with np.errstate(divide="ignore", invalid="ignore"):
                steps = np.nan_to_num(excess / self._rates(rows, ends), posinf=0.0, neginf=0.0)
            levels = levels + np.clip(steps, -0.5, 0.5)
        return np.asarray(levels)

    def _rates(self, rows: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return how fast the probabilities of rows in intervals fall with the level."""
        step, total = 1e-4 * (ends[1] - ends[0]), np.zeros(self.normals.n_rows)
        for end in ends:
            rise = self.log_density(end + step, rows) - self.log_density(end - step, rows)
            heights = np.exp(self.normals.log_heights(end, rows))
            with np.errstate(divide="ignore", invalid="ignore"):
                total += np.bincount(rows, heights * 2 * step / np.abs(rise), minlength=len(total))
        return total

    def crps(self, at: np.ndarray) -> np.ndarray:
        """Return the ranked probability scores of latent coordinates, by Simpson's rule."""
        rows = np.append(self.rows, np.arange(len(at)))
        nodes = np.append(self.nodes, at)
        order = np.lexsort((nodes, rows))
        rows, values = rows[order], self.map.inverse(nodes[order])
        middles = 0.5 * values[1:] + 0.5 * values[:-1]
        within = np.flatnonzero(np.diff(rows) == 0)
        # Nodes and the middles between them in turn, without those between two rows.
        nodes = np.insert(nodes[order], within + 1, self.map.forward(middles[within]))
        rows = np.insert(rows, within + 1, rows[within])
        tails = self.normals.grid_tails(nodes, np.append(0, np.cumsum(np.bincount(rows))))
        left = within + np.arange(len(within))
        own = rows[left]
        tails_at = [tails[left + i] - (nodes[left] >= at[own]) for i in range(3)]
        first, second, third = (each**2 for each in tails_at)
        lengths = values[within + 1] - values[within]
        return np.bincount(own, lengths * (first + 4 * second + third) / 6)


def _crossings(
    excess: Callable[[np.ndarray], np.ndarray], inner: np.ndarray, outer: np.ndarray
) -> np.ndarray:
    """Return where functions between positive and negative values are zero.

    They are found by false position; the value of an end that is kept twice is halved (the
    Illinois rule). An end at which the function is positive is the limit of the grid.
    """
    tiny = np.finfo(float).tiny
    f_inner, f_outer = np.maximum(excess(inner), tiny), np.minimum(excess(outer), -tiny)
    kept = np.zeros(len(inner))  # the end that the last step replaced: 1 for the inner one
    z = inner
    for _ in range(_CROSSING_STEPS):
        z = inner + (outer - inner) * (f_inner / (f_inner - f_outer))
        f = excess(z)
        above = f > 0
        halved = np.where(kept == np.where(above, 1.0, -1.0), 0.5, 1.0)
        f_inner = np.where(above, f, np.maximum(halved * f_inner, tiny))
        f_outer = np.where(above, np.minimum(halved * f_outer, -tiny), np.minimum(f, -tiny))
        inner, outer = np.where(above, z, inner), np.where(above, outer, z)
        kept = np.where(above, 1.0, -1.0)
    return z


# Modes of several features


def _ascended(kernels: RowKernels, maps: Sequence[FeatureMap]) -> np.ndarray:
    """Return the highest maxima (n_rows, n_features) to which ascents from kernels lead."""
    z, rows = _best_means(kernels)

    def heights(z: np.ndarray, rows: np.ndarray) -> np.ndarray:
        slopes = map_columns(maps, "log_slope", map_columns(maps, "inverse", z))
        return np.asarray(kernels.log_sums(z, rows) + slopes.sum(axis=1))

    top, left = heights(z, rows), np.arange(len(z))
    for _ in range(_MAX_STEPS):
        steps, scales = _steps_up(kernels, maps, z[left], rows[left])
        for _ in range(_HALVINGS):
            new = heights(z[left] + steps, rows[left])
            down = new < top[left]
            if not down.any():
                break
            steps[down] *= 0.5
        steps[down] = 0.0
        z[left] += steps
        top[left] = heights(z[left], rows[left])
        sizes = np.sqrt(np.einsum("pi,pij,pj->p", steps, scales, steps))
        left = left[sizes > _CLOSE]
        if not len(left):
            break
    best = np.lexsort((-top, rows))
    return z[best[np.searchsorted(rows[best], np.arange(kernels.n_rows))]]


def _best_means(kernels: RowKernels) -> tuple[np.ndarray, np.ndarray]:
    """Return the conditional means of the highest kernels of every row, and their rows."""
    rows = kernels.row_of_entry
    order = np.lexsort((-kernels.log_shares - kernels.log_dets[kernels.groups], rows))
    kept = order[np.arange(len(order)) - kernels.starts[rows[order]] < _N_STARTS]
    return kernels.means[kept], rows[kept]


def _steps_up(
    kernels: RowKernels, maps: Sequence[FeatureMap], z: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps of the mean-shift algorithm, and the mean precisions of the kernels."""
    slopes, scales = kernels.slopes(z, rows)
    X = map_columns(maps, "inverse", z)
    for j, each in enumerate(maps):
        if type(each) is not FeatureMap:
            slopes[:, j] += each.bends(X[:, j])[0] * np.exp(-each.log_slope(X[:, j]))
    return np.linalg.solve(scales, slopes[:, :, None])[:, :, 0], scales
