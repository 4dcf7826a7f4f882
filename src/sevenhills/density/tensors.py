"""Kernel mixtures as distributions of PyTorch, which can be differentiated.

PyTorch is imported where it is used, so what derives from its classes is put together there.
"""

from collections.abc import Iterator
from functools import cache, cached_property, partial
from types import new_class
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..extras import import_extra
from .groups import KernelGroups
from .sums import LOG_2PI, Kernels, parted

#: The numbers that a block of points may take, for the cache.
_BLOCK_NUMBERS = 2**20
#: The same for a gradient: so large that memory goes back to the system.
_TRACKED_NUMBERS = 2**23
#: So many blocks are kept for a gradient; if there are more, they are computed again.
_MOST_BLOCKS = 2


class TensorExport(KernelGroups):
    """Kernel mixtures in PyTorch."""

    def to_torch(self, device: Any = None, dtype: Any = None) -> Any:
        """Return the density as a distribution of PyTorch.

        Its ``log_prob`` is ``logpdf``, differentiable as often as one likes, for points of
        any batch shape, so that the density may be a prior or a term of a loss. The distribution
        has ``sample``, which draws from PyTorch's generator, ``mean``, ``variance``,
        ``covariance_matrix``, ``expand`` and ``to(device, dtype)``. It has no ``rsample``: the
        choice of a kernel cannot be differentiated.

        Parameters
        ----------
        device : torch.device or str, optional
            Where the tensors live; the CPU by default.
        dtype : torch.dtype, optional
            ``torch.float64`` by default, or ``torch.float32``.

        Returns
        -------
        torch.distributions.Distribution

        Notes
        -----
        Memory is bounded. A gradient of many points at many kernels is computed a block of
        points at a time, which takes the sums twice.

        Examples
        --------
        >>> from sevenhills import KernelMixture
        >>> unit = KernelMixture([1.0], [[0.0, 0.0]], [0, 1], [[[1.0, 0.0], [0.0, 1.0]]])
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)  # doctest: +SKIP
        >>> unit.to_torch().log_prob(x).backward()  # doctest: +SKIP
        >>> x.grad  # doctest: +SKIP
        tensor([-1., -2.])
        """
        return _distribution_of(self, device, dtype)


def _torch(module: str = "torch") -> Any:
    return import_extra(module, "torch", "to_torch needs PyTorch")


def _distribution_of(density: Any, device: Any, dtype: Any, batch_shape: Any = ()) -> Any:
    torch = _torch()
    dtype = torch.float64 if dtype is None else dtype
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype!r}")
    device = torch.device("cpu" if device is None else device)
    return _distribution_class()(density, _Tensors(torch, device, dtype), batch_shape)


@cache
def _distribution_class() -> Any:
    bases = (_KernelDistribution, _torch().distributions.Distribution)
    return new_class("KernelDistribution", bases)


@cache
def _differentiable(function: type) -> Any:
    """Return what computes a function of tensors, and keeps what its gradient needs."""
    made: Any = new_class(function.__name__, (function, _torch().autograd.Function))
    return made.apply


class _Tensors(NamedTuple):
    """What makes tensors of arrays."""

    torch: Any
    device: Any
    dtype: Any

    def of(self, array: np.ndarray) -> Any:
        """Return the tensor of an array of floats."""
        tensor = self.torch.tensor(array, dtype=self.dtype)
        if not self.torch.isfinite(tensor).all():
            raise ValueError(f"the kernels are too wide or too narrow for dtype {self.dtype}")
        return tensor.to(self.device)

    def rounded(self, array: np.ndarray) -> np.ndarray:
        """Return an array as its tensor has it."""
        return np.asarray(self.of(array).to("cpu", self.torch.float64).numpy())


class _KernelDistribution:
    """The methods of the distribution, to be joined with PyTorch's class."""

    has_rsample = False
    arg_constraints: ClassVar[dict[str, Any]] = {}

    # What PyTorch's class sets.
    batch_shape: Any
    event_shape: Any
    _extended_shape: Any

    def __init__(self, density: Any, tensors: _Tensors, batch_shape: Any) -> None:
        self.density = density
        self._tensors = tensors
        self._parts = _parts_of(density, tensors)
        shapes = (tensors.torch.Size(batch_shape), tensors.torch.Size([density.n_features]))
        super().__init__(*shapes, validate_args=False)  # type: ignore[call-arg]

    def __reduce__(self) -> tuple[Any, ...]:
        device, dtype = self._tensors.device, self._tensors.dtype
        return _distribution_of, (self.density, device, dtype, tuple(self.batch_shape))

    def __repr__(self) -> str:
        return f"KernelDistribution({self.density!r}, {self._tensors.dtype})"

    @property
    def support(self) -> Any:
        """The whole space."""
        return self._tensors.torch.distributions.constraints.real_vector

    @property
    def mean(self) -> Any:
        """The mean of the density."""
        return self._tensors.of(self.density.mean()).expand(self._extended_shape())

    @property
    def covariance_matrix(self) -> Any:
        """The covariance of the density."""
        covariance = self._tensors.of(self.density.cov())
        return covariance.expand(self._extended_shape() + self.event_shape)

    @property
    def variance(self) -> Any:
        """The variance of every feature."""
        return self.covariance_matrix.diagonal(dim1=-2, dim2=-1)

    def to(self, device: Any = None, dtype: Any = None) -> Any:
        """Return the distribution on another device or in another precision."""
        device = self._tensors.device if device is None else device
        dtype = self._tensors.dtype if dtype is None else dtype
        return _distribution_of(self.density, device, dtype, self.batch_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return independent copies, one for every place of a batch."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), _batch_shape=self._tensors.torch.Size(batch_shape))
        return made

    def log_prob(self, value: Any) -> Any:
        """Return the log density at points of shape (..., n_features)."""
        torch = self._tensors.torch
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"value must be a tensor, got {type(value).__name__}")
        if value.shape[-1:] != self.event_shape:
            raise ValueError(
                f"value must have {self.event_shape[0]} features in its last dimension, got shape "
                f"{tuple(value.shape)}"
            )
        shape = torch.broadcast_shapes(value.shape, self._extended_shape())
        points = value.expand(shape).reshape(-1, shape[-1])
        return _log_sums(torch, self._parts, points).reshape(shape[:-1])

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw points of shape (*sample_shape, *batch_shape, n_features)."""
        torch = self._tensors.torch
        shape = self._extended_shape(torch.Size(sample_shape))
        with torch.no_grad():
            return _draw(torch, self._sampler, shape[:-1].numel()).reshape(shape)

    @cached_property
    def _sampler(self) -> "_Sampler":
        density, tensors = self.density, self._tensors
        return _Sampler(
            tensors.of(np.cumsum(density.weights)),
            tensors.of(density.means),
            tensors.torch.tensor(density._group_of_kernel, device=tensors.device),
            tensors.of(np.linalg.inv(density.transforms)),
        )


# Log densities


class _Part(NamedTuple):
    """Kernels seen from one point, so that a large offset cancels nothing.

    Either they share a transform (M, M), and the means are already turned by it, or each has
    its own, (K, M, M).
    """

    location: Any
    transform: Any
    means: Any
    heights: Any

    def exponents(self, points: Any) -> Any:
        """Return the logarithms (Q, K) of the weighted kernels at points (Q, M)."""
        apart = (points - self.location).to(self.location.dtype)
        if self.transform.ndim == 2:
            squares = _differentiable(_SharedSquares)(apart @ self.transform, self.means)
        else:
            squares = _differentiable(_OwnSquares)(apart, self.means, self.transform)
        return self.heights - 0.5 * squares


def _parts_of(density: Any, tensors: _Tensors) -> list[_Part]:
    """Return the kernels: group by group, and those of small groups together if there are many.

    Kernels that weigh nothing are left out, as they would make NaN of overflowing distances.
    """
    shared, own = parted(density._kernels.with_weight())
    parts = []
    if own is not None:
        groups = np.repeat(np.arange(len(own.log_dets)), np.diff(own.offsets))
        parts.append(_part_of(tensors, own, own.transforms[groups]))
    if shared is not None:
        for g, transform in enumerate(shared.transforms):
            parts.append(_part_of(tensors, shared.take(np.array([g])), transform))
    return parts


def _part_of(tensors: _Tensors, kernels: Kernels, transform: np.ndarray) -> _Part:
    # Of location and transform as the tensors have them, so that means move as points do.
    location = tensors.rounded(_location_of(kernels.means, transform, tensors))
    means = kernels.means - location
    if transform.ndim == 2:
        means = means @ tensors.rounded(transform)
    log_dets = np.repeat(kernels.log_dets, np.diff(kernels.offsets))
    heights = kernels.log_weights + log_dets - 0.5 * means.shape[1] * LOG_2PI
    return _Part(*(tensors.of(each) for each in (location, transform, means, heights)))


def _location_of(means: np.ndarray, transform: np.ndarray, tensors: _Tensors) -> np.ndarray:
    """Return where the coordinates of kernels begin: at the median, which outliers do not move.

    Differences between points and means of doubles are exact enough wherever they begin.
    """
    if transform.ndim == 3 and tensors.dtype == tensors.torch.float64:
        return np.zeros(means.shape[1])
    return np.asarray(np.quantile(means, 0.5, axis=0, method="lower"))


class _Squares:
    """Squared distances (Q, K) between points (Q, M) and fixed kernels, from their differences.

    PyTorch would keep every difference for the gradient, or could not differentiate twice. The
    gradients written here keep points and kernels only, and can be differentiated again.
    """

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)


class _SharedSquares(_Squares):
    """Where points and means (K, M) are turned already."""

    @staticmethod
    def forward(points: Any, means: Any) -> Any:
        mode = "donot_use_mm_for_euclid_dist"  # products would cancel
        return _torch().cdist(points, means, compute_mode=mode).square()

    @staticmethod
    def backward(ctx: Any, pull: Any) -> Any:
        points, means = ctx.saved_tensors
        return 2 * (pull.sum(1, keepdim=True) * points - pull @ means), None

    @staticmethod
    def jvp(ctx: Any, push: Any, *_: Any) -> Any:
        points, means = ctx.saved_tensors
        return 2 * ((push * points).sum(1, keepdim=True) - push @ means.T)


class _OwnSquares(_Squares):
    """Where every difference is turned by the kernel's own transform, of (K, M, M)."""

    @staticmethod
    def forward(points: Any, means: Any, transforms: Any) -> Any:
        chunks = _turned_chunks(points, means, transforms)
        return _torch().cat([turned.square().sum(-1) for turned, _ in chunks]).T

    @staticmethod
    def backward(ctx: Any, pull: Any) -> Any:
        total, first = 0.0, 0
        for turned, transforms in _turned_chunks(*ctx.saved_tensors):
            pulled = pull.T[first : first + len(turned), :, None] * turned
            total = total + (pulled @ transforms.mT).sum(0)
            first += len(turned)
        return 2 * total, None, None

    @staticmethod
    def jvp(ctx: Any, push: Any, *_: Any) -> Any:
        chunks = _turned_chunks(*ctx.saved_tensors)
        pushed = [(turned * (push @ transforms)).sum(-1) for turned, transforms in chunks]
        return 2 * _torch().cat(pushed).T


def _turned_chunks(points: Any, means: Any, transforms: Any) -> Iterator[tuple[Any, Any]]:
    """Yield turned differences (k, Q, M) to some kernels at a time, and the transforms."""
    n = max(1, _BLOCK_NUMBERS // max(1, points.numel()))
    for some, turns in zip(means.split(n), transforms.split(n), strict=True):
        yield (points - some[:, None]) @ turns, turns


def _log_sums(torch: Any, parts: list[_Part], points: Any) -> Any:
    """Return the log densities (Q,) at points (Q, M), a block of them at a time."""
    n_kernels = sum(len(part.heights) for part in parts)
    if points.requires_grad and torch.is_grad_enabled():
        return _tracked_log_sums(torch, parts, points, max(1, _TRACKED_NUMBERS // n_kernels))
    # Small results between large blocks, kept until the end, would leave holes in the memory.
    out = points.new_empty(len(points), dtype=parts[0].heights.dtype)
    n_rows = max(1, _BLOCK_NUMBERS // n_kernels)
    for start in range(0, len(points), n_rows):
        out[start : start + n_rows] = _log_sum(torch, parts, points[start : start + n_rows])
    return out


def _tracked_log_sums(torch: Any, parts: list[_Part], points: Any, n_rows: int) -> Any:
    """Return the same with a gradient; if there are many blocks, it computes them again."""
    evaluate = partial(_log_sum, torch, parts)
    if len(points) > _MOST_BLOCKS * n_rows:
        checkpoint = _torch("torch.utils.checkpoint").checkpoint
        evaluate = partial(checkpoint, evaluate, use_reentrant=False, preserve_rng_state=False)
    return torch.cat([evaluate(block) for block in points.split(n_rows)])


def _log_sum(torch: Any, parts: list[_Part], points: Any) -> Any:
    return torch.cat([part.exponents(points) for part in parts], dim=1).logsumexp(1)


# Draws


class _Sampler(NamedTuple):
    """Cumulated weights (K,), means (K, M), groups (K,), and steps (G, M, M) from unit ones."""

    bounds: Any
    means: Any
    groups: Any
    steps: Any


def _draw(torch: Any, sampler: _Sampler, n_samples: int) -> Any:
    bounds, means = sampler.bounds, sampler.means
    like = {"dtype": bounds.dtype, "device": bounds.device}
    heights = torch.rand(n_samples, **like) * bounds[-1]
    kernels = torch.searchsorted(bounds[:-1].contiguous(), heights, right=True)
    rows = max(1, _BLOCK_NUMBERS // means.shape[1] ** 2)
    drawn = [_step(torch, sampler, some) for some in kernels.split(rows)]
    return torch.cat(drawn)


def _step(torch: Any, sampler: _Sampler, kernels: Any) -> Any:
    means = sampler.means[kernels]
    steps = torch.randn_like(means)[:, None] @ sampler.steps[sampler.groups[kernels]]
    return means + steps[:, 0]
