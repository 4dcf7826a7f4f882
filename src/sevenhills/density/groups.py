"""Gaussian kernels whose covariances are shared by groups: their arrays, values and draws."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from ..validation import check_count, check_positive, check_queries, random_generator
from .base import Density
from .engines import FEW_PAIRS, TOLERANCE, Engine
from .sums import LOG_2PI, Kernels, LogSums, log_sums_of, sums_at

#: How far weights may be from adding up to one.
_ROUNDING = 1e-9
_DIMENSIONS = {"weights": 1, "means": 2, "offsets": 1, "transforms": 3}


def _are_logs(logarithms: np.ndarray, values: np.ndarray) -> bool:
    """Whether logarithms are those of values, but for rounding; small ones may be lost."""
    with np.errstate(over="ignore"):
        return bool(np.allclose(np.exp(logarithms), values, rtol=1e-6, atol=1e-300))


def _missing() -> np.ndarray:
    return np.empty(0)


def _given(values: Any, dtype: Any = None) -> np.ndarray:
    """Return values as a new array, an empty one if they are not given."""
    return _missing() if values is None else np.array(values, dtype=dtype)


@dataclass(frozen=True, eq=False, repr=False)
class KernelGroups(Density):
    """Kernels in groups; :class:`~sevenhills.KernelMixture` documents the arrays."""

    weights: np.ndarray
    means: np.ndarray
    offsets: np.ndarray
    transforms: np.ndarray
    log_dets: np.ndarray = field(default_factory=_missing)
    log_weights: np.ndarray = field(default_factory=_missing)
    clusters: np.ndarray = field(default_factory=_missing)
    counts: np.ndarray | None = None
    feature_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, dimension in _DIMENSIONS.items():
            dtype = np.int64 if name == "offsets" else np.float64
            value = np.array(getattr(self, name), dtype=dtype, order="C")
            if value.ndim != dimension:
                raise ValueError(f"{name} must have {dimension} dimension(s), got {value.ndim}")
            if not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite")
            self._keep(name, value)
        self._check_shapes()
        self._check_logarithms()
        self._check_descriptions()

    def _keep(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(self, name, value)

    def _check_shapes(self) -> None:
        n_kernels, n_features = self.means.shape
        if n_kernels == 0 or n_features == 0:
            raise ValueError(f"means must not be empty, got shape {self.means.shape}")
        if self.weights.shape != (n_kernels,):
            raise ValueError(f"weights must have shape ({n_kernels},), got {self.weights.shape}")
        if (self.weights < 0).any() or abs(self.weights.sum() - 1.0) > _ROUNDING:
            raise ValueError("weights must not be negative and must add up to one")
        if (
            len(self.offsets) < 2
            or self.offsets[0] != 0
            or self.offsets[-1] != n_kernels
            or (np.diff(self.offsets) < 1).any()
        ):
            raise ValueError(f"offsets must rise from 0 to {n_kernels}, no group being empty")
        expected = (self.n_groups, n_features, n_features)
        if self.transforms.shape != expected:
            raise ValueError(f"transforms must have shape {expected}, got {self.transforms.shape}")

    def _check_logarithms(self) -> None:
        log_dets = _given(self.log_dets, np.float64)
        if log_dets.size == 0:
            log_dets = np.linalg.slogdet(self.transforms)[1]
        if log_dets.shape != (self.n_groups,) or not np.isfinite(log_dets).all():
            raise ValueError("transforms must be regular, and log_dets finite, one for each group")
        self._keep("log_dets", log_dets)
        log_weights = _given(self.log_weights, np.float64)
        if log_weights.size == 0:
            with np.errstate(divide="ignore"):
                log_weights = np.log(self.weights)
        elif log_weights.shape != self.weights.shape or not _are_logs(log_weights, self.weights):
            raise ValueError("log_weights must be the logarithms of the weights")
        self._keep("log_weights", log_weights)

    def _check_descriptions(self) -> None:
        clusters = _given(self.clusters)
        if clusters.size == 0:
            clusters = np.zeros(self.n_groups, dtype=np.int64)
        if clusters.shape != (self.n_groups,) or clusters.dtype.kind not in "iu":
            raise ValueError(f"clusters must be {self.n_groups} whole numbers, one for each group")
        self._keep("clusters", clusters.astype(np.int64))
        if self.counts is not None:
            counts = np.array(self.counts, dtype=np.float64)
            if counts.shape != self.weights.shape or not (counts >= 0).all():
                raise ValueError("counts must be numbers from zero on, one for each kernel")
            if not np.isfinite(counts).all():
                raise ValueError("counts must be finite")
            self._keep("counts", counts)
        if self.feature_names is not None:
            names = tuple(self.feature_names)
            if len(names) != self.n_features or len(set(names)) < len(names):
                raise ValueError(f"feature_names must be {self.n_features} different names")
            if not all(isinstance(name, str) for name in names):
                raise TypeError(f"feature_names must be strings, got {names!r}")
            self._keep("feature_names", names)

    @classmethod
    def _unchecked(cls, **fields: Any) -> Self:
        """Build a mixture from all of its fields, without validation or copying."""
        made = object.__new__(cls)
        for name, value in fields.items():
            made._keep(name, value)
        return made

    def _with(self, **changes: Any) -> Self:
        """Replace some fields, without validation or copying."""
        return self._unchecked(**{**self.__getstate__(), **changes})

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        return int(self.means.shape[1])

    @property
    def n_kernels(self) -> int:
        """The number of kernels."""
        return int(self.means.shape[0])

    @property
    def n_groups(self) -> int:
        """The number of groups that share a covariance."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_features={self.n_features}, n_kernels={self.n_kernels}, "
            f"n_groups={self.n_groups})"
        )

    def logpdf(self, X: Any, n_jobs: int | None = None, *, tol: float | None = None) -> np.ndarray:
        """Return the logarithm of the density at every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_jobs : int, optional
            Number of threads.
        tol : float, optional
            How much the logarithm may be wrong, 1e-8 by default. Up to 2**25 pairs of points and
            kernels are summed directly, to rounding.

        Returns
        -------
        ndarray of shape (n_samples,)
            Within ``tol``, in the far tails, too; minus infinity where the logarithm overflows.
        """
        X = check_queries(X, self.n_features, self.feature_names)
        tol = TOLERANCE if tol is None else check_positive(tol, "tol")
        if len(X) * self.n_kernels <= FEW_PAIRS:
            sums = sums_at(self._log_sums, X, n_jobs)
        else:
            sums = self._engine.sums_at(X, tol, n_jobs)
        return sums - 0.5 * self.n_features * LOG_2PI

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw independent samples.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            With None the draws differ from call to call; numpy's global generator is neither
            used nor changed.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        n_samples = check_count(n_samples, "n_samples")
        rng = random_generator(random_state)
        bounds = np.cumsum(self.weights)
        kernel = np.searchsorted(bounds[:-1], rng.uniform(0.0, bounds[-1], n_samples), side="right")
        steps = rng.standard_normal((n_samples, self.n_features))
        group = np.searchsorted(self.offsets, kernel, side="right") - 1
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))
        for start, end in pairwise(starts):
            rows = order[start:end]
            transform = self.transforms[group[order[start]]]
            steps[rows] = np.linalg.solve(transform.T, steps[rows].T).T
        return self.means[kernel] + steps

    @property
    def _kernels(self) -> Kernels:
        """The kernels as they are summed."""
        return Kernels(self.log_weights, self.means, self.offsets, self.transforms, self.log_dets)

    @cached_property
    def _compact_parts(self) -> list[tuple[int, np.ndarray]]:
        """The groups, those that extend over too many widths divided, and their kernels."""
        parts = self._kernels.parts()
        if parts is not None:
            return parts
        return [(g, np.arange(*ends)) for g, ends in enumerate(pairwise(self.offsets.tolist()))]

    @cached_property
    def _log_sums(self) -> LogSums:
        """What sums the kernels."""
        return log_sums_of(self._kernels)

    @cached_property
    def _engine(self) -> Engine:
        """What sums the kernels at many points."""
        return Engine.of(self._kernels, lambda: self._log_sums)

    @cached_property
    def _group_of_kernel(self) -> np.ndarray:
        """The group of every kernel."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.offsets))
