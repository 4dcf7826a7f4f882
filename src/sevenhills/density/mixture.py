"""A mixture of Gaussian kernels whose covariances are shared by groups."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..kernels.blocks import build_blocks
from ..kernels.mixture import careful_log_kernel_sums, log_kernel_sums
from ..threads import map_blocks
from ..validation import check_count, check_queries, random_generator

#: Queries that are transformed and summed together.
_QUERIES = 256
#: Kernels that are kept or left out of a sum together.
_TILE_SIZE = 256
_LOG_2PI = float(np.log(2 * np.pi))


class _Tiles(NamedTuple):
    """The kernels as the compiled sum wants them."""

    groups: np.ndarray
    columns: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_weights: np.ndarray
    tops: np.ndarray


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
        out = np.empty(len(X))

        def evaluate(blocks: range) -> None:
            for block in blocks:
                rows = slice(block * _QUERIES, (block + 1) * _QUERIES)
                self._write_log_sums(X[rows], out[rows])

        map_blocks(evaluate, -(-len(X) // _QUERIES), n_jobs)
        return out - 0.5 * self.n_features * _LOG_2PI

    def _write_log_sums(self, X: np.ndarray, out: np.ndarray) -> None:
        """Write the log density at every row of ``X``, but for the Gaussians' constant."""
        tiles = self._tiles
        with np.errstate(over="ignore", invalid="ignore"):  # holds for this thread only
            Y = np.matmul(X - self._locations[:, None], self.transforms)
        bounds, work = np.empty(len(tiles.tops)), np.empty((3, tiles.columns.shape[2]))
        log_kernel_sums(Y, *tiles, bounds, work, work.view(np.int64), out)
        lost = np.isnan(out)
        if lost.any():
            rest = np.empty(lost.sum())
            careful_log_kernel_sums(
                Y[:, lost], tiles.groups, tiles.columns, tiles.log_weights, work[0], rest
            )
            out[lost] = rest

    def pdf(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Return the density at every row of ``X``; see :meth:`logpdf`."""
        return np.exp(self.logpdf(X, n_jobs))

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
        for g in np.unique(group):
            rows = group == g
            steps[rows] = np.linalg.solve(self.transforms[g].T, steps[rows].T).T
        return self.centres[kernel] + steps

    @cached_property
    def _locations(self) -> np.ndarray:
        """A point near every group, from which its coordinates are measured without cancelling."""
        sums = np.add.reduceat(self.centres, self.offsets[:-1])
        return sums / np.diff(self.offsets)[:, None]

    @cached_property
    def _tiles(self) -> _Tiles:
        """The kernels in tiles of neighbours, in the coordinates of their groups."""
        tiles = [self._group_tiles(g) for g in range(self.n_groups)]
        size = max(tile.columns.shape[2] for tile in tiles)
        room = [(0, size - tile.columns.shape[2]) for tile in tiles]
        columns = [np.pad(t.columns, [(0, 0), (0, 0), r]) for t, r in zip(tiles, room, strict=True)]
        log_weights = [
            np.pad(t.log_weights, [(0, 0), r], constant_values=-np.inf)
            for t, r in zip(tiles, room, strict=True)
        ]
        return _Tiles(
            groups=np.concatenate([tile.groups for tile in tiles]),
            columns=np.concatenate(columns),
            lower=np.concatenate([tile.lower for tile in tiles]),
            upper=np.concatenate([tile.upper for tile in tiles]),
            log_weights=np.concatenate(log_weights),
            tops=np.concatenate([tile.tops for tile in tiles]),
        )

    def _group_tiles(self, g: int) -> _Tiles:
        rows = slice(self.offsets[g], self.offsets[g + 1])
        blocks = build_blocks(
            (self.centres[rows] - self._locations[g]) @ self.transforms[g], _TILE_SIZE
        )
        n_leaves, leaf_size = blocks.members.shape
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights[rows])[blocks.members] + self.log_dets[g]
        log_weights[np.arange(leaf_size) >= blocks.sizes[:, None]] = -np.inf
        return _Tiles(
            groups=np.full(n_leaves, g),
            columns=blocks.columns,
            lower=blocks.lower[-n_leaves:],
            upper=blocks.upper[-n_leaves:],
            log_weights=log_weights,
            tops=log_weights.max(axis=1),
        )
