"""Marginals and conditionals of kernels, and rows in which some values are missing."""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from ..kernels.conditioning import factor_transforms, kernels_at_given
from .sums import KernelDistances, Kernels

#: Kernels of a group whose conditional means are computed together.
_BLOCK_KERNELS = 64


class _Split(NamedTuple):
    r"""The transforms of groups, split by free features and given features.

    With :math:`T = L Q` and :math:`L` in blocks, the free features first, the given features have
    the precision :math:`L_{22} L_{22}^\top`. The conditional precision of the free features is
    :math:`L_{11} L_{11}^\top`, and their mean changes by :math:`-L_{21} L_{11}^{-1}`.
    """

    features: np.ndarray  #: (M,) the free features, then the given ones
    n_free: int
    factors: np.ndarray  #: (G, M, M) the matrices L, with the change of means in place of L_21

    @classmethod
    def from_transforms(cls, transforms: np.ndarray, given: np.ndarray) -> "_Split":
        """Split transforms (G, M, M) by the features that are given."""
        n_features = transforms.shape[1]
        is_free = np.ones(n_features, dtype=bool)
        is_free[given] = False
        free = np.flatnonzero(is_free)
        features = np.concatenate([free, given])
        factors, work = np.empty(transforms.shape), np.empty(n_features)
        order = np.empty(n_features, dtype=np.int64)
        factor_transforms(transforms, features, np.int64(len(free)), order, work, factors)
        return cls(features, len(free), factors)

    @property
    def free(self) -> np.ndarray:
        """The features that are not given."""
        return self.features[: self.n_free]

    @property
    def free_transforms(self) -> np.ndarray:
        """The transforms of the free features, conditional on the given ones."""
        return np.ascontiguousarray(self.factors[:, : self.n_free, : self.n_free])

    @property
    def given_transforms(self) -> np.ndarray:
        """The transforms of the given features alone."""
        return np.ascontiguousarray(self.factors[:, self.n_free :, self.n_free :])

    @property
    def slopes(self) -> np.ndarray:
        """The change of the free features' means with the given values, (G, n_given, n_free)."""
        return np.ascontiguousarray(self.factors[:, self.n_free :, : self.n_free])

    def log_dets(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log determinants of the transforms of the free and of the given features."""
        logs = np.log(np.abs(np.diagonal(self.factors, axis1=1, axis2=2)))
        return logs[:, : self.n_free].sum(axis=1), logs[:, self.n_free :].sum(axis=1)

    def at(self, kernels: Kernels, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return squared distances to given values, and conditional means of the free features."""
        squares = np.empty(kernels.n_kernels)
        means = np.empty((kernels.n_kernels, self.n_free))
        kernels_at_given(
            values,
            kernels.means,
            self.features,
            kernels.offsets,
            self.factors,
            np.empty((kernels.n_features + 1, _BLOCK_KERNELS)),
            squares,
            means,
        )
        return squares, means


def marginal(kernels: Kernels, features: np.ndarray) -> Kernels:
    """Return the kernels of some features."""
    split = _Split.from_transforms(kernels.transforms, features)
    return kernels._replace(
        means=kernels.means.take(features, axis=1),
        transforms=split.given_transforms,
        log_dets=split.log_dets()[1],
    )


def conditional(
    kernels: Kernels, given: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, Kernels] | None:
    """Return the weights and kernels of the other features, given rows of values of some.

    The densities given several rows are added up, weighted by the densities of the rows. The
    result is None if these are zero, even as logarithms.
    """
    split = _Split.from_transforms(kernels.transforms, given)
    with np.errstate(over="ignore", invalid="ignore"):
        found = [split.at(kernels, row) for row in values]
        free_log_dets, given_log_dets = split.log_dets()
        log_weights = np.tile(np.repeat(given_log_dets, np.diff(kernels.offsets)), len(found))
        log_weights += np.concatenate([kernels.log_weights - 0.5 * each for each, _ in found])
        top = log_weights.max()
    if not np.isfinite(top):
        return None
    weights = np.exp(log_weights - top)
    total = weights.sum()
    weights /= total
    log_weights -= top + np.log(total)
    sizes = np.tile(np.diff(kernels.offsets), len(found))
    return weights, Kernels(
        log_weights,
        np.concatenate([means for _, means in found]),
        np.append(0, np.cumsum(sizes)),
        np.tile(split.free_transforms, (len(found), 1, 1)),
        np.tile(free_log_dets, len(found)),
    )


# Features by index or name


def feature_indices(features: Any, n_features: int, names: Sequence[str] | None) -> np.ndarray:
    """Return the indices of features that are given by index or name."""
    if isinstance(features, str | Integral):
        features = [features]
    if isinstance(features, Mapping) or not np.iterable(features):
        raise TypeError(f"features must be indices or names, got {features!r}")
    indices = [_feature_index(each, n_features, names) for each in features]
    if not indices:
        raise ValueError("features must not be empty")
    if len(set(indices)) < len(indices):
        raise ValueError(f"features must be different, got {list(features)}")
    return np.array(indices)


def _feature_index(feature: Any, n_features: int, names: Sequence[str] | None) -> int:
    if isinstance(feature, str):
        if names is None:
            raise ValueError(
                f"unknown feature {feature!r}: this density has no feature names; use the indices "
                f"0 to {n_features - 1}"
            )
        if feature in names:
            return names.index(feature)
    elif not isinstance(feature, Integral) or isinstance(feature, bool | np.bool_):
        raise TypeError(f"a feature must be an index or a name, got {feature!r}")
    elif -n_features <= int(feature) < n_features:
        return int(feature) % n_features
    known = f"indices 0 to {n_features - 1}"
    if names is not None:
        known = f"{list(names)}, or {known}"
    raise ValueError(f"unknown feature {feature!r}; known are {known}")


def given_values(
    given: Any, n_features: int, names: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices and the values of given features."""
    if not isinstance(given, Mapping):
        raise TypeError(f"given must map features to values, got {given!r}")
    features = feature_indices(list(given), n_features, names)
    if len(features) == n_features:
        raise ValueError("given holds all features; at least one must be free")
    for feature, value in given.items():
        if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
            raise TypeError(f"given[{feature!r}] must be a number, got {value!r}")
        if not np.isfinite(float(value)):
            raise ValueError(f"given[{feature!r}] must be finite, got {value!r}")
    return features, np.array([float(value) for value in given.values()])


# Missing values


def missing_patterns(X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the features that are present in some rows, and these rows."""
    patterns, pattern_of_row = np.unique(~np.isnan(X), axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.flatnonzero(pattern), np.flatnonzero(pattern_of_row.ravel() == number)


class RowConditionals(NamedTuple):
    """The conditional kernels of many rows of which the same features are given."""

    shares: np.ndarray  #: (n_rows, n_kernels) of the kernels in the density of the given values
    values: np.ndarray  #: (n_rows, n_given) minus the mean of the density
    means: np.ndarray  #: (n_kernels, n_free) given the mean of the density, minus that mean
    slopes: np.ndarray  #: (n_groups, n_given, n_free) change of the means with the given values
    transforms: np.ndarray  #: (n_groups, n_free, n_free)
    groups: np.ndarray  #: (n_kernels,)
    center: np.ndarray  #: (n_free,) the mean of the density

    @classmethod
    def from_values(
        cls, kernels: Kernels, center: np.ndarray, given: np.ndarray, values: np.ndarray
    ) -> "RowConditionals":
        """Condition kernels on rows of values; shares are NaN where the density is zero."""
        split = _Split.from_transforms(kernels.transforms, given)
        alone = marginal(kernels, given)
        log_shares = alone.log_weights + KernelDistances.from_kernels(alone).log_kernels(values)
        with np.errstate(invalid="ignore"):
            shares = np.exp(log_shares - log_shares.max(axis=1, keepdims=True))
        return cls(
            shares / shares.sum(axis=1, keepdims=True),
            values - center[given],
            split.at(kernels, center[given])[1] - center[split.free],
            split.slopes,
            split.free_transforms,
            kernels.group_of_kernel,
            center[split.free],
        )

    def mean(self) -> np.ndarray:
        """Return the conditional mean of every row."""
        n_groups, n_given, n_free = self.slopes.shape
        starts = np.searchsorted(self.groups, np.arange(n_groups))
        group_shares = np.add.reduceat(self.shares, starts, axis=1)
        slopes = (group_shares @ self.slopes.reshape(n_groups, -1)).reshape(-1, n_given, n_free)
        changes = np.matmul(self.values[:, None], slopes)[:, 0]
        return self.shares @ self.means + changes + self.center

    def sample(self, rng: np.random.RandomState) -> np.ndarray:
        """Return a draw for every row."""
        sums = np.cumsum(self.shares, axis=1)
        drawn = (sums[:, :-1] < rng.uniform(0.0, sums[:, -1])[:, None]).sum(axis=1)
        groups, n_free = self.groups[drawn], self.transforms.shape[1]
        means = self.means[drawn] + np.matmul(self.values[:, None], self.slopes[groups])[:, 0]
        steps = rng.standard_normal((len(drawn), n_free, 1))
        steps = np.linalg.solve(self.transforms[groups].transpose(0, 2, 1), steps)
        return means + steps[:, :, 0] + self.center
