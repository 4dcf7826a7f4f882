"""The directions of plots: features or principal axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..density import Density, KernelMixture
from .subject import Subject

#: Features and axes that are shown: more make large files and long menus.
MAX_FEATURES = 24
MAX_AXES = 6
#: Draws from the density that determine ranges and grids.
_N_DRAWS = 4000
#: A range reaches from this quantile to the opposite one, ...
_TAIL = 0.005
#: ... and beyond them by at most this share of its length.
_BEYOND = 0.25


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Directions, and the density, the samples and draws along them.

    Attributes
    ----------
    names : tuple of str
    density : Density or None
        The density along all directions; None if it is not known.
    data : ndarray of shape (n_samples, n_shown) or None
    draws : ndarray of shape (n_draws, n_shown)
        Samples of the density; none if it cannot be sampled.
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
    """The affine map to the principal axes of the standardized features.

    Attributes
    ----------
    center, scales : ndarray of shape (n_features,)
        The center and the standard deviations of the features.
    axes : ndarray of shape (n_features, n_features)
        The axes as rows, the widest first.
    shares : ndarray of shape (n_features,)
        The shares of the variance.
    """

    center: np.ndarray
    scales: np.ndarray
    axes: np.ndarray
    shares: np.ndarray

    @classmethod
    def from_samples(cls, X: np.ndarray) -> "PrincipalAxes":
        """Return the principal axes of samples; constant features have no loadings.

        Values that are far away are clipped, so that a few outliers do not turn all axes.
        """
        X = np.clip(X, *np.transpose([usual_range(column) for column in X.T]))
        center, stds = X.mean(axis=0), X.std(axis=0)
        scales = np.where(stds > 0, stds, 1.0)
        Z = (X - center) / scales
        variances, columns = np.linalg.eigh(Z.T @ Z / len(Z))
        axes = columns.T[::-1]
        # The sign of an axis is arbitrary: its largest loading is positive.
        largest = np.abs(axes).argmax(axis=1)
        axes = axes * np.sign(axes[np.arange(len(axes)), largest])[:, None]
        shares = np.maximum(variances[::-1], 0.0)
        return cls(center, scales, axes, shares / (shares.sum() or 1.0))

    @property
    def matrix(self) -> np.ndarray:
        """The matrix that maps features, from the right, to coordinates along the axes."""
        return self.axes.T / self.scales[:, None]

    @property
    def shift(self) -> np.ndarray:
        """The offset that is added then."""
        return -self.center @ self.matrix

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return samples in coordinates along the axes."""
        return (X - self.center) @ self.matrix


def usual_range(values: np.ndarray) -> tuple[float, float]:
    """Return the range of values, without those that are far away."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    reach = _BEYOND * (high - low)
    return max(values.min(), low - reach), min(values.max(), high + reach)


def draws_of(subject: Subject, seed: int) -> np.ndarray:
    """Return samples of the density, none if it cannot be sampled."""
    if not subject.density.is_normalized:
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
    n_shown = min(MAX_AXES, len(subject.names))
    mixture = subject.mixture
    return Coordinates(
        names=tuple(f"axis {i + 1}" for i in range(n_shown)),
        density=None if mixture is None else mixture.affine(axes.matrix, axes.shift),
        data=None if subject.X is None else axes.apply(subject.X)[:, :n_shown],
        draws=axes.apply(draws)[:, :n_shown],
    )


def features_to_show(subject: Subject, wanted: Sequence[Any] | None) -> list[int]:
    """Return the given features, by default those in which clusters differ most."""
    if wanted is not None:
        return [_index_of(subject.names, each) for each in wanted]
    everything = list(range(len(subject.names)))
    if len(everything) <= MAX_FEATURES:
        return everything
    if subject.X is None or subject.labels is None:
        return everything[:MAX_FEATURES]
    separation = _separation(subject.X, subject.labels)
    return sorted(np.argsort(-separation, kind="stable")[:MAX_FEATURES].tolist())


def first_pair(subject: Subject, shown: Sequence[int]) -> list[int]:
    """Return the positions of the two features that separate clusters best."""
    if len(shown) < 2 or subject.X is None or subject.labels is None:
        return [0, min(1, len(shown) - 1)]
    X = subject.X[:, list(shown)]
    separation = _separation(X, subject.labels)
    best = int(np.argmax(separation))
    # A feature that is correlated with the best one adds little.
    gain = separation * (1 - _squared_correlations(X, best))
    gain[best] = -1.0
    return sorted([best, int(np.argmax(gain))])


def _squared_correlations(X: np.ndarray, i: int) -> np.ndarray:
    """Return the squared correlations of all features with one of them."""
    Z = X - X.mean(axis=0)
    squares = (Z * Z).sum(axis=0) * (Z[:, i] @ Z[:, i])
    return np.divide((Z[:, i] @ Z) ** 2, squares, out=np.zeros_like(squares), where=squares > 0)


def _separation(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return, for every feature, the share of its variance between clusters."""
    _, which = np.unique(labels, return_inverse=True)
    sizes = np.bincount(which)
    means = np.stack([np.bincount(which, column) for column in X.T], axis=1) / sizes[:, None]
    between = sizes @ (means - X.mean(axis=0)) ** 2 / len(X)
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
