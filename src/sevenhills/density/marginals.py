"""Densities of some features: all others left out, or given."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np

from ..kernels.conditioning import factor_transforms, kernels_at_given
from ..validation import check_numbers
from .groups import KernelGroups

#: Kernels of a group that are worked on together.
_TOGETHER = 64


class Split(NamedTuple):
    r"""The transforms of groups, split by features that are left and features that are given.

    With :math:`T = L Q` and :math:`L` in blocks, the left features first, the given ones have the
    precision :math:`L_{22} L_{22}^\top`, and the left ones, those being given,
    :math:`L_{11} L_{11}^\top` about a mean that moves by :math:`-L_{21} L_{11}^{-1}`.

    Attributes
    ----------
    features : ndarray of shape (n_features,)
        The left features, then the given ones.
    n_left : int
    factors : ndarray of shape (n_groups, n_features, n_features)
        The matrices :math:`L`, with :math:`-L_{21} L_{11}^{-1}` in place of :math:`L_{21}`.
    """

    features: np.ndarray
    n_left: int
    factors: np.ndarray

    @classmethod
    def of(cls, transforms: np.ndarray, given: np.ndarray) -> "Split":
        """Split transforms (G, M, M) by the features that are given."""
        n_features = transforms.shape[1]
        is_left = np.ones(n_features, dtype=bool)
        is_left[given] = False
        left = np.flatnonzero(is_left)
        features = np.concatenate([left, given])
        factors, work = np.empty(transforms.shape), np.empty(n_features)
        order = np.empty(n_features, dtype=np.int64)
        factor_transforms(transforms, features, np.int64(len(left)), order, work, factors)
        return cls(features, len(left), factors)

    @property
    def left(self) -> np.ndarray:
        """The features that are left."""
        return self.features[: self.n_left]

    @property
    def given(self) -> np.ndarray:
        """The features that are given."""
        return self.features[self.n_left :]

    @property
    def of_left(self) -> np.ndarray:
        """What makes unit Gaussians of the left features where the others are given."""
        return np.ascontiguousarray(self.factors[:, : self.n_left, : self.n_left])

    @property
    def of_given(self) -> np.ndarray:
        """What makes unit Gaussians of the given features alone."""
        return np.ascontiguousarray(self.factors[:, self.n_left :, self.n_left :])

    @property
    def slopes(self) -> np.ndarray:
        """How the mean of the left features follows the given ones, (G, n_given, n_left)."""
        return np.ascontiguousarray(self.factors[:, self.n_left :, : self.n_left])

    def log_dets(self) -> np.ndarray:
        """Return the logarithms of the diagonals of the factors, (G, n_features)."""
        return np.log(np.abs(np.diagonal(self.factors, axis1=1, axis2=2)))


class Marginals(KernelGroups):
    """Marginals, conditionals, linear maps and sums of kernel mixtures: mixtures again."""

    def marginal(self, features: Any) -> Self:
        r"""Return the density of some features, whatever the others are.

        .. math:: p(x_S) = \int p(x) \, dx_{\setminus S} = \sum_k w_k \, N(x_S; \mu_{k,S},
                  \Sigma_{g(k),SS})

        Parameters
        ----------
        features : int, str or sequence of them
            Indices, or names if the density knows them; the result has them in this order.

        Returns
        -------
        KernelMixture

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture(
        ...     [1.0], [[1.0, 2.0]], [0, 1], [[[1.0, 0.0], [1.0, 2.0]]], feature_names=["a", "b"]
        ... )
        >>> plane.marginal("b").mean()
        array([2.])
        """
        kept = self._features(features)
        split = Split.of(self.transforms, kept)
        return self._with(
            means=self.means.take(kept, axis=1),
            transforms=split.of_given,
            log_dets=split.log_dets()[:, split.n_left :].sum(axis=1),
            feature_names=self._names(kept),
        )

    def conditional(self, given: Mapping[Any, float]) -> Self:
        r"""Return the density of the other features where some are known.

        .. math:: p(x_R \mid x_S) = \frac{p(x_R, x_S)}{p(x_S)}

        Every kernel stays, with the weight that it has at the given values; weights are kept as
        logarithms, so that the answer is exact however unlikely the values are.

        Parameters
        ----------
        given : mapping from int or str to float
            The values of some features, by index, or by name if the density knows them.

        Returns
        -------
        KernelMixture
            The density of the remaining features, in their order.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> plane = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [[[1.0, 0.0], [1.0, 2.0]]])
        >>> plane.conditional({1: 3.0}).mean()
        array([-3.])
        """
        features, values = self._given(given)
        split = Split.of(self.transforms, features)
        with np.errstate(over="ignore", invalid="ignore"):
            squares, means = self._at_given(split, values)
            log_dets = split.log_dets()
            heights = log_dets[:, split.n_left :].sum(axis=1)
            log_weights = np.repeat(heights, np.diff(self.offsets))
            log_weights += self.log_weights - 0.5 * squares
            top = log_weights.max()
        if not np.isfinite(top):
            named = dict(zip(given, values.tolist(), strict=True))
            raise ValueError(f"given: the density is zero at {named}, even as a logarithm")
        weights = np.exp(log_weights - top)
        total = weights.sum()
        weights /= total
        log_weights -= top + np.log(total)
        return self._with(
            weights=weights,
            log_weights=log_weights,
            means=means,
            transforms=split.of_left,
            log_dets=log_dets[:, : split.n_left].sum(axis=1),
            feature_names=self._names(split.left),
        )

    def _at_given(self, split: Split, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far every kernel is from the given values, squared, and where it is left."""
        squares, means = np.empty(self.n_kernels), np.empty((self.n_kernels, split.n_left))
        kernels_at_given(
            values,
            self.means,
            split.features,
            self.offsets,
            split.factors,
            np.empty((self.n_features + 1, _TOGETHER)),
            squares,
            means,
        )
        return squares, means

    def affine(self, matrix: Any, shift: Any) -> Self:
        r"""Return the density of :math:`x A + b` for :math:`x` from this density.

        Parameters
        ----------
        matrix : array-like of shape (n_features, n_features)
            The regular matrix :math:`A`.
        shift : array-like of shape (n_features,)

        Returns
        -------
        KernelMixture
            It keeps the names of the features only if :math:`A` is diagonal.

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> wide = unit.affine([[3.0]], [5.0])
        >>> bool(np.isclose(wide.pdf([[5.0]])[0] * 3, unit.pdf([[0.0]])[0]))
        True
        """
        matrix = check_numbers(matrix, "matrix")
        expected = (self.n_features, self.n_features)
        if matrix.shape != expected or not np.isfinite(matrix).all():
            raise ValueError(f"matrix must be finite and have shape {expected}")
        shift = check_numbers(shift, "shift")
        if shift.shape != (self.n_features,) or not np.isfinite(shift).all():
            raise ValueError(f"shift must be finite and have shape ({self.n_features},)")
        if _is_singular(matrix):
            raise ValueError("matrix must be regular, got a singular one")
        made = type(self)(
            weights=self.weights,
            means=self.means @ matrix + shift,
            offsets=self.offsets,
            transforms=np.linalg.solve(matrix, self.transforms),
            log_dets=self.log_dets - np.linalg.slogdet(matrix)[1],
        )
        is_diagonal = np.count_nonzero(matrix) == self.n_features and np.diag(matrix).all()
        return made._with(
            log_weights=self.log_weights,
            clusters=self.clusters,
            counts=self.counts,
            feature_names=self.feature_names if is_diagonal else None,
        )

    @classmethod
    def merge(cls, mixtures: Sequence[Self], weights: Any) -> Self:
        r"""Return the weighted sum of densities, :math:`p = \sum_m v_m p_m`.

        Parameters
        ----------
        mixtures : sequence of KernelMixture
            Of the same features.
        weights : array-like of shape (n_mixtures,)
            Positive, adding up to one.

        Returns
        -------
        KernelMixture
            Clusters of different densities stay different, and are numbered anew.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> both = KernelMixture.merge([unit, unit.affine([[2.0]], [1.0])], [0.5, 0.5])
        >>> both.n_kernels
        2
        """
        shares = check_numbers(weights, "weights")
        if shares.shape != (len(mixtures),) or len(mixtures) == 0:
            raise ValueError(f"weights must have shape ({len(mixtures)},), got {shares.shape}")
        if not np.isfinite(shares).all() or (shares < 0).any():
            raise ValueError("weights must be finite and not negative")
        _check_same_features(mixtures)
        sizes = np.concatenate([np.diff(each.offsets) for each in mixtures])
        with np.errstate(divide="ignore"):
            log_weights = [
                np.log(v) + each.log_weights for v, each in zip(shares, mixtures, strict=True)
            ]
        return cls(
            weights=np.concatenate(
                [v * each.weights for v, each in zip(shares, mixtures, strict=True)]
            ),
            means=np.concatenate([each.means for each in mixtures]),
            offsets=np.append(0, np.cumsum(sizes)),
            transforms=np.concatenate([each.transforms for each in mixtures]),
            log_dets=np.concatenate([each.log_dets for each in mixtures]),
            log_weights=np.concatenate(log_weights),
            clusters=_numbered_anew([each.clusters for each in mixtures]),
            counts=_joint_counts([each.counts for each in mixtures]),
            feature_names=mixtures[0].feature_names,
        )

    def _features(self, features: Any) -> np.ndarray:
        """Return the indices of features."""
        if isinstance(features, str | Integral):
            features = [features]
        if isinstance(features, Mapping) or not np.iterable(features):
            raise TypeError(f"features must be indices or names, got {features!r}")
        indices = [self._feature(each) for each in features]
        if not indices:
            raise ValueError("features must not be empty")
        if len(set(indices)) < len(indices):
            raise ValueError(f"features must be different, got {list(features)}")
        return np.array(indices)

    def _feature(self, feature: Any) -> int:
        """Return the index of a feature."""
        if isinstance(feature, str):
            if self.feature_names is None:
                raise ValueError(
                    f"unknown feature {feature!r}: this density knows no names; use the indices "
                    f"0 to {self.n_features - 1}"
                )
            if feature in self.feature_names:
                return self.feature_names.index(feature)
        elif not isinstance(feature, Integral) or isinstance(feature, bool | np.bool_):
            raise TypeError(f"a feature must be an index or a name, got {feature!r}")
        elif -self.n_features <= int(feature) < self.n_features:
            return int(feature) % self.n_features
        known = f"indices 0 to {self.n_features - 1}"
        if self.feature_names is not None:
            known = f"{list(self.feature_names)}, or {known}"
        raise ValueError(f"unknown feature {feature!r}; known are {known}")

    def _given(self, given: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the features that are given, and their values."""
        if not isinstance(given, Mapping):
            raise TypeError(f"given must map features to values, got {given!r}")
        features = self._features(list(given))
        if len(features) == self.n_features:
            raise ValueError("given holds all features; at least one must be left")
        for feature, value in given.items():
            if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
                raise TypeError(f"given[{feature!r}] must be a number, got {value!r}")
            if not np.isfinite(float(value)):
                raise ValueError(f"given[{feature!r}] must be finite, got {value!r}")
        return features, np.array([float(value) for value in given.values()])

    def _names(self, kept: np.ndarray) -> tuple[str, ...] | None:
        if self.feature_names is None:
            return None
        return tuple(self.feature_names[i] for i in kept)


def _is_singular(matrix: np.ndarray) -> bool:
    """Whether rounding cannot tell a matrix from a singular one, whatever its units."""
    for axis in (1, 0):
        sizes = np.abs(matrix).max(axis=axis, keepdims=True)
        if not sizes.all():
            return True
        matrix = matrix / sizes
    stretches = np.linalg.svd(matrix, compute_uv=False)
    return bool(stretches[-1] <= len(matrix) * np.finfo(float).eps * stretches[0])


def _check_same_features(mixtures: Sequence[KernelGroups]) -> None:
    first = mixtures[0]
    for each in mixtures:
        if each.n_features != first.n_features:
            raise ValueError(
                f"mixtures must have the same features, got {first.n_features} and "
                f"{each.n_features}"
            )
        if each.feature_names != first.feature_names:
            raise ValueError(
                f"mixtures must have the same features, got {first.feature_names} and "
                f"{each.feature_names}"
            )


def _numbered_anew(labels: Sequence[np.ndarray]) -> np.ndarray:
    """Return labels of clusters such that none is used by two densities; noise stays noise."""
    out, n_before = [], 0
    for each in labels:
        values, numbers = np.unique(each[each >= 0], return_inverse=True)
        new = np.full(len(each), -1)
        new[each >= 0] = numbers + n_before
        out.append(new)
        n_before += len(values)
    return np.concatenate(out)


def _joint_counts(counts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    known = [each for each in counts if each is not None]
    return np.concatenate(known) if len(known) == len(counts) else None
