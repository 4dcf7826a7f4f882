"""Marginals and conditionals of kernels, and rows in which some values are missing."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from ..kernels.conditionals import (
    active_kernels,
    grid_heights,
    grid_nodes,
    grid_tails,
    row_heights,
    row_log_sums,
    row_quantiles,
    row_slopes,
    row_tails,
)
from ..kernels.conditioning import factor_transforms, kernels_at_given
from ..validation import check_numbers, first_not_finite
from .sums import LOG_2PI, Kernels, covariances

#: Kernels of a group whose conditional means are computed together.
_BLOCK_KERNELS = 64
#: The sum of the shares of kernels that are left out of the conditional density of a row.
_NEGLIGIBLE = 1e-10
#: The nodes of a grid for which memory is allocated at first.
_NODES = 512


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
        # The kernel is compiled for read-only arrays only, which those of a density are.
        transforms = np.ascontiguousarray(transforms).view()
        transforms.flags.writeable = False
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
    """Return the indices of given features, and their values.

    The values are (n_given,) if all are numbers, and (n_rows, n_given) if there are columns.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"given must map features to values, got {given!r}")
    features = feature_indices(list(given), n_features, names)
    if len(features) == n_features:
        raise ValueError("given holds all features; at least one must be free")
    values = [_given_value(f"given[{feature!r}]", value) for feature, value in given.items()]
    lengths = {len(each) for each in values if each.ndim}
    if len(lengths) > 1:
        raise ValueError(f"given: columns must have one length, got {sorted(lengths)}")
    return features, np.stack(np.broadcast_arrays(*values), axis=-1)


def _given_value(name: str, value: Any) -> np.ndarray:
    """Return the value of a given feature, or a column of them."""
    if np.ndim(value) == 0:
        if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} must be a number or a column of numbers, got {value!r}")
        out = np.array(float(value))
    else:
        out = check_numbers(value, name)
        if out.ndim != 1 or not len(out):
            raise ValueError(f"{name} must have shape (n,), n > 0, got {out.shape}")
    if not np.isfinite(out).all():
        found = value if out.ndim == 0 else first_not_finite(out)
        raise ValueError(f"{name} must be finite, got {found}")
    return out


# Missing values


def missing_patterns(X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the features that are present in some rows, and these rows."""
    patterns, pattern_of_row = np.unique(~np.isnan(X), axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.flatnonzero(pattern), np.flatnonzero(pattern_of_row.ravel() == number)


class RowKernels(NamedTuple):
    """The conditional kernels of many rows, without those of a negligible share.

    The kernels of row ``r`` are the entries ``starts[r]`` to ``starts[r + 1] - 1``.
    """

    starts: np.ndarray  #: (n_rows + 1,)
    log_shares: np.ndarray  #: (E,) the logs of the weights, which add up to one in every row
    means: np.ndarray  #: (E, n_free)
    groups: np.ndarray  #: (E,)
    triangles: np.ndarray  #: (G, n_free, n_free) maps to unit Gaussians, zero above the diagonal
    log_dets: np.ndarray  #: (G,) those of the triangles

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.starts) - 1

    @property
    def row_of_entry(self) -> np.ndarray:
        """The row of every entry."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    @property
    def shares(self) -> np.ndarray:
        """The weights of the kernels of every row."""
        return np.exp(self.log_shares)

    @property
    def stds(self) -> np.ndarray:
        """The standard deviations (E, n_free) of the kernels."""
        variances = np.diagonal(covariances(self.triangles), axis1=1, axis2=2)
        return np.sqrt(variances)[self.groups]

    def _kernel_arguments(self) -> tuple[np.ndarray, ...]:
        """Return arguments of the compiled sums: starts, log heights and means."""
        return self.starts, self.log_shares + self.log_dets[self.groups], self.means

    def _workspace(self) -> np.ndarray:
        return np.empty(np.diff(self.starts).max(initial=0))

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Return the sums (n_rows, ...) of values of kernels, weighted by their shares."""
        shares = self.shares.reshape(-1, *[1] * (values.ndim - 1))
        return np.asarray(np.add.reduceat(shares * values, self.starts[:-1]))

    def log_sums(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the log densities of rows at points (P, n_free)."""
        out = np.empty(len(points))
        row_log_sums(
            np.ascontiguousarray(points),
            rows,
            *self._kernel_arguments(),
            self.triangles,
            self.groups,
            self._workspace(),
            out,
        )
        return out - 0.5 * LOG_2PI * points.shape[1]

    def slopes(self, points: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradients of log densities of rows, and the mean precisions of their kernels."""
        slopes = np.empty(points.shape)
        scales = np.empty((*points.shape, points.shape[1]))
        precisions = self.triangles @ self.triangles.swapaxes(1, 2)
        row_slopes(
            np.ascontiguousarray(points),
            rows,
            *self._kernel_arguments(),
            self.triangles,
            precisions,
            self.groups,
            self._workspace(),
            slopes,
            scales,
        )
        return slopes, scales

    def sample(self, n_samples: int, rng: np.random.RandomState) -> np.ndarray:
        """Return draws (n_rows, n_samples, n_free)."""
        sums = np.cumsum(self.shares)
        before = np.append(0.0, sums)[self.starts]
        sizes, n_free = np.diff(before)[:, None], self.means.shape[1]
        wanted = before[:-1, None] + sizes * rng.uniform(size=(self.n_rows, n_samples))
        drawn = np.searchsorted(sums, wanted, side="right")
        drawn = drawn.clip(self.starts[:-1, None], self.starts[1:, None] - 1)
        factors = np.linalg.inv(self.triangles)[self.groups[drawn]]
        steps = rng.standard_normal((self.n_rows, n_samples, 1, n_free))
        return np.asarray(self.means[drawn] + np.matmul(steps, factors)[:, :, 0])


class RowNormals(NamedTuple):
    """The conditional kernels of many rows of one feature, like :class:`RowKernels`."""

    starts: np.ndarray  #: (n_rows + 1,)
    shares: np.ndarray  #: (E,)
    means: np.ndarray  #: (E,)
    rates: np.ndarray  #: (E,) one over the standard deviations

    @classmethod
    def from_kernels(cls, kernels: RowKernels, least: float = 0.0) -> "RowNormals":
        """Take the kernels of one feature that have at least a share."""
        shares, means = kernels.shares, kernels.means[:, 0]
        rates = np.abs(kernels.triangles[:, 0, 0])[kernels.groups]
        kept = shares >= least
        sizes = np.add.reduceat(kept, kernels.starts[:-1], dtype=np.int64)
        return cls(np.append(0, np.cumsum(sizes)), shares[kept], means[kept], rates[kept])

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.starts) - 1

    def tails(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the probabilities of rows below values (P,)."""
        out = np.empty(len(points))
        row_tails(np.ascontiguousarray(points), rows, *self, out)
        return out

    def log_heights(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the log densities of rows at values, minus infinity far from all kernels."""
        out = np.empty(len(points))
        row_heights(np.ascontiguousarray(points), rows, *self, out)
        with np.errstate(divide="ignore"):
            return np.log(out)

    def quantiles(self, q: np.ndarray) -> np.ndarray:
        """Return quantiles (n_rows, n) of probabilities (n,) between 0 and 1."""
        out = np.empty((self.n_rows, len(q)))
        row_quantiles(q, ndtri(q), *self, out)
        return out

    def grid(self, step: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes of a grid for every row, in ascending order, and their starts.

        ``step`` is their distance, in standard deviations of the narrowest kernels around them.
        """
        starts = np.empty(self.n_rows + 1, dtype=np.int64)
        edges, widths = np.empty((2, 2 * int(np.diff(self.starts).max(initial=0))))
        fill = partial(grid_nodes, *self, step, edges, widths, starts)
        nodes = np.empty(_NODES * self.n_rows)
        n_nodes = fill(nodes)
        if n_nodes > len(nodes):
            nodes = np.empty(n_nodes)
            fill(nodes)
        return nodes[:n_nodes], starts

    def grid_heights(self, nodes: np.ndarray, node_starts: np.ndarray) -> np.ndarray:
        """Return the densities of rows at the nodes of their grids."""
        out = np.empty(len(nodes))
        grid_heights(nodes, node_starts, *self, out)
        return out

    def grid_tails(self, nodes: np.ndarray, node_starts: np.ndarray) -> np.ndarray:
        """Return the probabilities of rows below the nodes of their grids."""
        out = np.empty(len(nodes))
        grid_tails(nodes, node_starts, *self, out)
        return out


class GivenFeatures(NamedTuple):
    """Kernels prepared to be conditioned on many rows of values of the same features."""

    kernels: Kernels
    split: _Split
    groups: np.ndarray  #: (K,)
    log_heights: np.ndarray  #: (K,) log weights and log determinants of the given features
    log_dets: np.ndarray  #: (G,) of the free features

    @classmethod
    def from_kernels(cls, kernels: Kernels, given: np.ndarray) -> "GivenFeatures":
        """Split kernels by the features that are given."""
        kernels = kernels.with_weight()
        split = _Split.from_transforms(kernels.transforms, given)
        groups, (free, own) = kernels.group_of_kernel, split.log_dets()
        return cls(kernels, split, groups, kernels.log_weights + own[groups], free)

    def at(self, values: np.ndarray, images: np.ndarray) -> RowKernels:
        """Return the conditional kernels of rows.

        Row ``r`` has the values ``images[r]`` to ``images[r + 1] - 1``, which are the latent
        coordinates of a point; the conditional kernels of all of them are added up.
        """
        kernels, size = self.kernels, len(values) * self.kernels.n_kernels
        starts = np.empty(len(images), dtype=np.int64)
        chosen, log_shares = np.empty(size, dtype=np.int64), np.empty(size)
        moved = np.empty((size, self.split.n_free))
        n = active_kernels(
            np.ascontiguousarray(values),
            images,
            self.log_heights,
            kernels.means,
            self.split.features,
            self.groups,
            self.split.factors,
            np.log(_NEGLIGIBLE / kernels.n_kernels),
            np.empty((np.diff(images).max(), kernels.n_kernels)),
            starts,
            chosen,
            log_shares,
            moved,
        )
        groups, triangles = self.groups[chosen[:n]], self.split.free_transforms
        return RowKernels(
            starts, log_shares[:n].copy(), moved[:n].copy(), groups, triangles, self.log_dets
        )
