"""A mixture of Gaussian kernels whose covariances are shared by groups."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ..threads import map_blocks
from ..validation import check_count, check_queries, random_generator
from .sums import Kernels, LogSums, log_sums_of

#: Queries that are transformed and summed together.
_QUERIES = 256
_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False, repr=False)
class KernelMixture:
    r"""A density that is a sum of Gaussian kernels.

    .. math:: p(x) = \sum_k w_k \, N(x; \mu_k, \Sigma_{g(k)}), \qquad
              \Sigma_g^{-1} = T_g T_g^\top

    The kernels of a group stand one after another and share the transform :math:`T_g`, which
    turns them into Gaussians of unit covariance. The value is immutable: its arrays are copies
    that cannot be written to.

    Parameters
    ----------
    weights : array-like of shape (n_kernels,)
        Positive, adding up to one.
    centres : array-like of shape (n_kernels, n_features)
        The means of the kernels.
    offsets : array-like of shape (n_groups + 1,)
        Group ``g`` consists of the kernels ``offsets[g]`` to ``offsets[g + 1] - 1``.
    transforms : array-like of shape (n_groups, n_features, n_features)
        What turns the kernels of every group into unit Gaussians, from the right:
        ``(x - centre) @ transform``.
    log_dets : array-like of shape (n_groups,), optional
        The logarithms of the transforms' absolute determinants; computed if not given.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills import KernelMixture
    >>> two_hills = KernelMixture(
    ...     weights=[0.5, 0.5], centres=[[-1.0], [1.0]], offsets=[0, 2], transforms=[[[2.0]]]
    ... )
    >>> two_hills.pdf([[0.0], [1.0]]).round(4)
    array([0.108 , 0.3991])
    >>> two_hills.sample(3, random_state=0).shape
    (3, 1)
    """

    weights: np.ndarray
    centres: np.ndarray
    offsets: np.ndarray
    transforms: np.ndarray
    log_dets: np.ndarray = field(default_factory=lambda: np.empty(0))

    #: It integrates to one.
    is_normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, dimension in (("weights", 1), ("centres", 2), ("offsets", 1), ("transforms", 3)):
            dtype = np.int64 if name == "offsets" else np.float64
            value = np.array(getattr(self, name), dtype=dtype, order="C")
            if value.ndim != dimension:
                raise ValueError(f"{name} must have {dimension} dimension(s), got {value.ndim}")
            if not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite")
            self._freeze(name, value)
        self._check_shapes()
        log_dets = np.array(self.log_dets, dtype=np.float64)
        if log_dets.size == 0:
            log_dets = np.linalg.slogdet(self.transforms)[1]
        if log_dets.shape != (self.n_groups,) or not np.isfinite(log_dets).all():
            raise ValueError("transforms must be regular, and log_dets finite, one for each group")
        self._freeze("log_dets", log_dets)

    def _freeze(self, name: str, value: np.ndarray) -> None:
        value.flags.writeable = False
        object.__setattr__(self, name, value)

    def _check_shapes(self) -> None:
        n_kernels, n_features = self.centres.shape
        if n_kernels == 0 or n_features == 0:
            raise ValueError(f"centres must not be empty, got shape {self.centres.shape}")
        if self.weights.shape != (n_kernels,):
            raise ValueError(f"weights must have shape ({n_kernels},), got {self.weights.shape}")
        if (self.weights < 0).any() or abs(self.weights.sum() - 1.0) > 1e-9:
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

    @property
    def n_features(self) -> int:
        """The dimension of the space."""
        return int(self.centres.shape[1])

    @property
    def n_kernels(self) -> int:
        """The number of kernels."""
        return int(self.centres.shape[0])

    @property
    def n_groups(self) -> int:
        """The number of groups that share a covariance."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return (
            f"KernelMixture(n_features={self.n_features}, n_kernels={self.n_kernels}, "
            f"n_groups={self.n_groups})"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def logpdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the logarithm of the density at every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples,)
            Exact in the far tails, too; minus infinity where even the logarithm overflows.
        """
        X = check_queries(X, self.n_features)
        log_sums, out = self._log_sums, np.empty(len(X))

        def evaluate(blocks: range) -> None:
            for block in blocks:
                rows = slice(block * _QUERIES, (block + 1) * _QUERIES)
                out[rows] = log_sums(X[rows])

        map_blocks(evaluate, -(-len(X) // _QUERIES), n_jobs)
        return out - 0.5 * self.n_features * _LOG_2PI

    def pdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the density at every row of ``X``; see :meth:`logpdf`."""
        return np.exp(self.logpdf(X, n_jobs))

    def affine(self, matrix: Any, shift: Any) -> "KernelMixture":
        r"""Return the density of :math:`x A + b` for :math:`x` from this density.

        Parameters
        ----------
        matrix : array-like of shape (n_features, n_features)
            The regular matrix :math:`A`.
        shift : array-like of shape (n_features,)

        Returns
        -------
        KernelMixture

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> wide = unit.affine([[3.0]], [5.0])
        >>> bool(np.isclose(wide.pdf([[5.0]])[0] * 3, unit.pdf([[0.0]])[0]))
        True
        """
        matrix = np.asarray(matrix, dtype=np.float64)
        expected = (self.n_features, self.n_features)
        if matrix.shape != expected or not np.isfinite(matrix).all():
            raise ValueError(f"matrix must be finite and have shape {expected}")
        shift = np.asarray(shift, dtype=np.float64)
        if shift.shape != (self.n_features,) or not np.isfinite(shift).all():
            raise ValueError(f"shift must be finite and have shape ({self.n_features},)")
        log_det = float(np.linalg.slogdet(matrix)[1])
        if not np.isfinite(log_det):
            raise ValueError("matrix must be regular, got a singular one")
        return KernelMixture(
            weights=self.weights,
            centres=self.centres @ matrix + shift,
            offsets=self.offsets,
            transforms=np.linalg.solve(matrix, self.transforms),
            log_dets=self.log_dets - log_det,
        )

    @classmethod
    def merge(cls, mixtures: Sequence["KernelMixture"], weights: Any) -> "KernelMixture":
        r"""Return the weighted sum of densities, :math:`p = \sum_m v_m p_m`.

        Parameters
        ----------
        mixtures : sequence of KernelMixture
        weights : array-like of shape (n_mixtures,)
            Positive, adding up to one.

        Returns
        -------
        KernelMixture

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0]], [0, 1], [[[1.0]]])
        >>> both = KernelMixture.merge([unit, unit.affine([[2.0]], [1.0])], [0.5, 0.5])
        >>> both.n_kernels
        2
        """
        shares = np.asarray(weights, dtype=np.float64)
        if shares.shape != (len(mixtures),) or len(mixtures) == 0:
            raise ValueError(f"weights must have shape ({len(mixtures)},), got {shares.shape}")
        sizes = np.concatenate([np.diff(each.offsets) for each in mixtures])
        return cls(
            weights=np.concatenate(
                [share * each.weights for share, each in zip(shares, mixtures, strict=True)]
            ),
            centres=np.concatenate([each.centres for each in mixtures]),
            offsets=np.append(0, np.cumsum(sizes)),
            transforms=np.concatenate([each.transforms for each in mixtures]),
            log_dets=np.concatenate([each.log_dets for each in mixtures]),
        )

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
        return self.centres[kernel] + steps

    @cached_property
    def _log_sums(self) -> LogSums:
        """What sums the kernels."""
        return log_sums_of(
            Kernels(self.weights, self.centres, self.offsets, self.transforms, self.log_dets)
        )
