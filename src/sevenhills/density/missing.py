"""Rows in which some values are missing: their densities, and what the values may be."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..validation import check_choice, check_queries, random_generator
from .marginals import Marginals, Split
from .modes import Modes
from .moments import Moments
from .support import log_kernels

#: The pairs of rows and kernels that are held at a time.
_BLOCK_PAIRS = 2**21


class Missing(Marginals, Modes, Moments):
    """Rows with NaN, under kernel mixtures."""

    def logpdf(
        self,
        X: Any,
        n_jobs: int | None = None,
        missing: str = "raise",
        tol: float | None = None,
    ) -> np.ndarray:
        """Return the logarithm of the density at every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_jobs : int, optional
            Number of threads.
        missing : {"raise", "marginal"}, default="raise"
            What to do with NaN: refuse it, or give the density of what is there, by the marginal
            of those features; a row without any value has the density one of knowing nothing.
        tol : float, optional
            How much the logarithm may be wrong, 1e-8 by default, beside the rounding of its
            exponents. It is used where kernels times rows are more than 30 million; fewer are
            summed directly, with no error but rounding.

        Returns
        -------
        ndarray of shape (n_samples,)
            Within ``tol``, in the far tails, too; minus infinity where the logarithm overflows.

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [np.eye(2)])
        >>> unit.logpdf([[0.0, 0.0], [0.0, np.nan]], missing="marginal").round(4)
        array([-1.8379, -0.9189])
        """
        check_choice(missing, "missing", ("raise", "marginal"))
        if missing == "raise":
            return super().logpdf(X, n_jobs, tol=tol)
        X = check_queries(X, self.n_features, self.feature_names, missing=True)
        out = np.zeros(len(X))
        for present, rows in _patterns(~np.isnan(X)):
            if len(present) == self.n_features:
                out[rows] = super().logpdf(X[rows], n_jobs, tol=tol)
            elif len(present):
                out[rows] = self.marginal(present).logpdf(X[np.ix_(rows, present)], n_jobs, tol=tol)
        return out

    def impute(self, X: Any, method: str = "mean", random_state: Any = None) -> np.ndarray:
        r"""Return ``X`` with values in place of NaN, by the density given what is there.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With NaN where a value is missing.
        method : {"mean", "mode", "sample"}, default="mean"
            The mean of :math:`p(x_R \mid x_S)`, the place where it is highest, or a draw.
        random_state : int, RandomState instance or None, default=None
            For draws.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            A copy; values that were there are unchanged.

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills import KernelMixture
        >>> hill = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [[[1.0, 0.0], [1.0, 2.0]]])
        >>> hill.impute([[np.nan, 3.0], [1.0, 2.0]])
        array([[-3.,  3.],
               [ 1.,  2.]])
        """
        check_choice(method, "method", ("mean", "mode", "sample"))
        rng = random_generator(random_state)
        X = np.array(check_queries(X, self.n_features, self.feature_names, missing=True))
        for present, rows in _patterns(~np.isnan(X)):
            absent = np.setdiff1d(np.arange(self.n_features), present)
            if len(absent) == 0:
                continue
            for some in np.array_split(rows, -(-len(rows) * self.n_kernels // _BLOCK_PAIRS)):
                values = X[np.ix_(some, present)]
                X[np.ix_(some, absent)] = self._filled(values, present, some, method, rng)
        return X

    def _filled(
        self,
        values: np.ndarray,
        present: np.ndarray,
        rows: np.ndarray,
        method: str,
        rng: np.random.RandomState,
    ) -> np.ndarray:
        """Return what the other features may be where some have these values."""
        if len(present) == 0:
            if method == "sample":
                return self.sample(len(values), rng)
            return np.tile(self.mean() if method == "mean" else self.mode(), (len(values), 1))
        if method == "mode":
            known = (dict(zip(present.tolist(), each.tolist(), strict=True)) for each in values)
            return np.array([self.conditional(each).mode() for each in known])
        given = _Given.of(self, values, present, rows)
        return given.mean() if method == "mean" else given.sample(rng)


def _patterns(there: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield which features are there, and the rows of which that is true."""
    patterns, pattern_of_row = np.unique(there, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.flatnonzero(pattern), np.flatnonzero(pattern_of_row.ravel() == number)


class _Given(NamedTuple):
    """What is left of kernels at many given values.

    Attributes
    ----------
    shares : ndarray of shape (n_rows, n_kernels)
        The part of every kernel in the density of the given values.
    values : ndarray of shape (n_rows, n_given)
        The given values, from ``middle`` on.
    anchors : ndarray of shape (n_kernels, n_left)
        The mean of every kernel where the given values are in the middle.
    slopes : ndarray of shape (n_groups, n_given, n_left)
        How the means follow the given values.
    transforms : ndarray of shape (n_groups, n_left, n_left)
    groups : ndarray of shape (n_kernels,)
    middle : ndarray of shape (n_left,)
    """

    shares: np.ndarray
    values: np.ndarray
    anchors: np.ndarray
    slopes: np.ndarray
    transforms: np.ndarray
    groups: np.ndarray
    middle: np.ndarray

    @classmethod
    def of(
        cls, kernels: Missing, values: np.ndarray, present: np.ndarray, rows: np.ndarray
    ) -> "_Given":
        split, middle = Split.of(kernels.transforms, present), kernels.mean()
        alone = kernels.marginal(present)
        log_shares = alone.log_weights + log_kernels(alone, values)
        tops = log_shares.max(axis=1, keepdims=True)
        if not np.isfinite(tops).all():
            lost = rows[~np.isfinite(tops[:, 0])][0]
            raise ValueError(
                f"X: the density of what is there in row {lost} is zero, even as a logarithm"
            )
        shares = np.exp(log_shares - tops)
        return cls(
            shares / shares.sum(axis=1, keepdims=True),
            values - middle[present],
            kernels._at_given(split, middle[present])[1] - middle[split.left],
            split.slopes,
            split.of_left,
            kernels._group_of_kernel,
            middle[split.left],
        )

    def mean(self) -> np.ndarray:
        """Return the means of what is left."""
        n_groups, n_given, n_left = self.slopes.shape
        starts = np.searchsorted(self.groups, np.arange(n_groups))
        masses = np.add.reduceat(self.shares, starts, axis=1)
        slopes = (masses @ self.slopes.reshape(n_groups, -1)).reshape(-1, n_given, n_left)
        followed = np.matmul(self.values[:, None], slopes)[:, 0]
        return self.shares @ self.anchors + followed + self.middle

    def sample(self, rng: np.random.RandomState) -> np.ndarray:
        """Return a draw of what is left for each."""
        sums = np.cumsum(self.shares, axis=1)
        drawn = (sums[:, :-1] < rng.uniform(0.0, sums[:, -1])[:, None]).sum(axis=1)
        groups, n_left = self.groups[drawn], self.transforms.shape[1]
        means = self.anchors[drawn] + np.matmul(self.values[:, None], self.slopes[groups])[:, 0]
        steps = rng.standard_normal((len(drawn), n_left, 1))
        steps = np.linalg.solve(self.transforms[groups].transpose(0, 2, 1), steps)
        return means + steps[:, :, 0] + self.middle
