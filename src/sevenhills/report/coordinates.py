"""Directions to look along: some of the features, or the principal axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..density import Density, KernelMixture
from .subject import Subject

#: More features, or more axes, do not fit into menus and files.
MOST_FEATURES = 24
MOST_AXES = 6
#: Draws from the density that fix ranges and grids.
_N_DRAWS = 4000
#: What a range leaves out at either end, if it is far away.
_TAIL = 0.005
#: How far beyond that it may go, as a part of the range.
_BEYOND = 0.25


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Directions to look along, and what is seen.

    Attributes
    ----------
    names : tuple of str
    density : Density or None
        Of all directions, or of those shown; None if it is not known.
    data : ndarray of shape (n_samples, n_shown) or None
    draws : ndarray of shape (n_draws, n_shown)
        Samples of the density; none if it cannot be drawn from.
    """

    names: tuple[str, ...]
    density: Density | None
    data: np.ndarray | None
    draws: np.ndarray

    def along(self, *which: int) -> Density | None:
        """Return the density of some of the directions, None if it is not known."""
        if isinstance(self.density, KernelMixture):
            return self.density.marginal(list(which))
        return self.density if which == tuple(range(len(self.names))) else None


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """An affine map to the axes along which standardised features spread most.

    Attributes
    ----------
    middle, scales : ndarray of shape (n_features,)
        What features are reduced and divided by.
    axes : ndarray of shape (n_features, n_features)
        The axes as rows, the widest first.
    shares : ndarray of shape (n_features,)
        The part of all variance along every axis.
    """

    middle: np.ndarray
    scales: np.ndarray
    axes: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> "PrincipalAxes":
        """Return the principal axes of samples; features that do not vary have no part in them.

        Values that are far away are pulled in, lest a few of them turn all axes.
        """
        X = np.clip(X, *np.transpose([usual_range(column) for column in X.T]))
        middle, stds = X.mean(axis=0), X.std(axis=0)
        scales = np.where(stds > 0, stds, 1.0)
        Z = (X - middle) / scales
        variances, columns = np.linalg.eigh(Z.T @ Z / len(Z))
        axes = columns.T[::-1]
        # The sign of an axis means nothing: its largest part is positive.
        largest = np.abs(axes).argmax(axis=1)
        axes = axes * np.sign(axes[np.arange(len(axes)), largest])[:, None]
        shares = np.maximum(variances[::-1], 0.0)
        return cls(middle, scales, axes, shares / (shares.sum() or 1.0))

    @property
    def matrix(self) -> np.ndarray:
        """What turns features, from the right, into coordinates along the axes."""
        return self.axes.T / self.scales[:, None]

    @property
    def shift(self) -> np.ndarray:
        """What is added then."""
        return -self.middle @ self.matrix

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return samples in coordinates along the axes."""
        return (X - self.middle) @ self.matrix


def usual_range(values: np.ndarray) -> tuple[float, float]:
    """Return the range of values, without those that are far away."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    reach = _BEYOND * (high - low)
    return max(values.min(), low - reach), min(values.max(), high + reach)


def draws_of(subject: Subject, seed: int) -> np.ndarray:
    """Return samples of the density of a subject, none if it has none."""
    if not subject.can_be_sampled:
        return np.empty((0, len(subject.names)))
    return subject.density.sample(_N_DRAWS, random_state=seed)


def feature_coordinates(subject: Subject, shown: Sequence[int], draws: np.ndarray) -> Coordinates:
    """Return some of the features as directions."""
    kept = list(shown)
    return Coordinates(
        names=tuple(subject.names[i] for i in kept),
        density=_density_of(subject, kept),
        data=None if subject.X is None else subject.X[:, kept],
        draws=draws[:, kept],
    )


def _density_of(subject: Subject, kept: list[int]) -> Density | None:
    if subject.mixture is not None:
        return subject.mixture.marginal(kept)
    is_whole = kept == list(range(len(subject.names))) and subject.density.is_normalized
    return subject.density if is_whole else None


def axis_coordinates(subject: Subject, axes: PrincipalAxes, draws: np.ndarray) -> Coordinates:
    """Return the first principal axes as directions."""
    n_shown = min(MOST_AXES, len(subject.names))
    mixture = subject.mixture
    return Coordinates(
        names=tuple(f"axis {i + 1}" for i in range(n_shown)),
        density=None if mixture is None else mixture.affine(axes.matrix, axes.shift),
        data=None if subject.X is None else axes.apply(subject.X)[:, :n_shown],
        draws=axes.apply(draws)[:, :n_shown],
    )


def features_to_show(subject: Subject, wanted: Sequence[Any] | None) -> list[int]:
    """Return the features to show: those asked for, or those in which clusters differ most."""
    if wanted is not None:
        return [_index_of(subject.names, each) for each in wanted]
    everything = list(range(len(subject.names)))
    if len(everything) <= MOST_FEATURES:
        return everything
    if subject.X is None or subject.labels is None:
        return everything[:MOST_FEATURES]
    told = _told_apart(subject.X, subject.labels)
    return sorted(np.argsort(-told, kind="stable")[:MOST_FEATURES].tolist())


def first_pair(subject: Subject, shown: Sequence[int]) -> list[int]:
    """Return two of the features shown, by their places, between which clusters are best seen."""
    if len(shown) < 2 or subject.X is None or subject.labels is None:
        return [0, min(1, len(shown) - 1)]
    X = subject.X[:, list(shown)]
    told = _told_apart(X, subject.labels)
    best = int(np.argmax(told))
    # A feature that says the same again is of no use.
    use = told * (1 - _alike(X, best))
    use[best] = -1.0
    return sorted([best, int(np.argmax(use))])


def _alike(X: np.ndarray, i: int) -> np.ndarray:
    """Return the squared correlations of all features with one of them."""
    Z = X - X.mean(axis=0)
    squares = (Z * Z).sum(axis=0) * (Z[:, i] @ Z[:, i])
    return np.divide((Z[:, i] @ Z) ** 2, squares, out=np.zeros_like(squares), where=squares > 0)


def _told_apart(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return, for every feature, the part of its variance that lies between clusters."""
    _, which = np.unique(labels, return_inverse=True)
    sizes = np.bincount(which)
    middles = np.stack([np.bincount(which, column) for column in X.T], axis=1) / sizes[:, None]
    between = sizes @ (middles - X.mean(axis=0)) ** 2 / len(X)
    total = X.var(axis=0)
    return np.divide(between, total, out=np.zeros_like(total), where=total > 0)


def _index_of(names: tuple[str, ...], wanted: Any) -> int:
    if isinstance(wanted, str):
        if wanted not in names:
            raise ValueError(f"features has {wanted!r}, which is none of {list(names)}")
        return names.index(wanted)
    if not 0 <= int(wanted) < len(names):
        raise ValueError(f"features must be from 0 to {len(names) - 1}, got {wanted}")
    return int(wanted)
