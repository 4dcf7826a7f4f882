"""Kernel mixtures as distributions of PyTorch, which can be differentiated.

PyTorch is imported where it is used, so the class that derives from its classes is made there.
"""

from functools import cache, cached_property, partial
from types import new_class
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..extras import import_extra
from .preimages import ManyImagesError
from .sums import LOG_2PI, Kernels, split_by_sharing

#: The numbers in a block of differences between points and kernels, which should fit the cache.
_BLOCK_NUMBERS = 2**20
#: The same for a gradient; larger, so that memory is returned to the system.
_TRACKED_NUMBERS = 2**23
#: Up to this many blocks are kept for a gradient; more are computed again.
_MAX_BLOCKS = 2


def distribution(density: Any, device: Any, dtype: Any, batch_shape: Any = ()) -> Any:
    """Return a kernel mixture as a distribution of PyTorch."""
    torch = _torch()
    dtype = torch.float64 if dtype is None else dtype
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype!r}")
    device = torch.device("cpu" if device is None else device)
    return _distribution_class()(density, _Tensors(torch, device, dtype), batch_shape)


def _torch(module: str = "torch") -> Any:
    return import_extra(module, "torch", "to_torch needs PyTorch")


@cache
def _distribution_class() -> Any:
    bases = (_KernelDistribution, _torch().distributions.Distribution)
    return new_class("KernelDistribution", bases)


class _Tensors(NamedTuple):
    """The conversion of arrays to tensors."""

    torch: Any
    device: Any
    dtype: Any

    def make(self, array: np.ndarray) -> Any:
        """Return the tensor of an array of floats."""
        tensor = self.torch.tensor(array, dtype=self.dtype)
        if not self.torch.isfinite(tensor).all():
            raise ValueError(f"the kernels are too wide or too narrow for dtype {self.dtype}")
        return tensor.to(self.device)

    def rounded(self, array: np.ndarray) -> np.ndarray:
        """Return an array rounded to the precision of the tensors."""
        return np.asarray(self.make(array).to("cpu", self.torch.float64).numpy())


class _KernelDistribution:
    """The methods of the distribution, to be joined with PyTorch's class."""

    has_rsample = False
    arg_constraints: ClassVar[dict[str, Any]] = {}

    # Attributes of PyTorch's class.
    batch_shape: Any
    event_shape: Any
    _extended_shape: Any

    def __init__(self, density: Any, tensors: _Tensors, batch_shape: Any) -> None:
        self.density = density
        self._tensors = tensors
        self._parts = _parts(density.kernels, tensors)
        shapes = (tensors.torch.Size(batch_shape), tensors.torch.Size([density.n_features]))
        super().__init__(*shapes, validate_args=False)  # type: ignore[call-arg]

    def __reduce__(self) -> tuple[Any, ...]:
        device, dtype = self._tensors.device, self._tensors.dtype
        return distribution, (self.density, device, dtype, tuple(self.batch_shape))

    def __repr__(self) -> str:
        return f"KernelDistribution({self.density!r}, {self._tensors.dtype})"

    @property
    def support(self) -> Any:
        """The whole space, or the bounds of the maps."""
        constraints = self._tensors.torch.distributions.constraints
        if self.density.maps is None:
            return constraints.real_vector
        ends = np.array([each.bounds for each in self.density.maps]).T
        low, high = (self._tensors.torch.tensor(each).to(self._like) for each in ends)
        return constraints.independent(constraints.interval(low, high), 1)

    @property
    def _like(self) -> Any:
        """A tensor of the device and the precision of all others."""
        return self._parts[0].center

    @property
    def mean(self) -> Any:
        """The mean of the density."""
        return self._tensors.make(self.density._mean()).expand(self._extended_shape())

    @property
    def covariance_matrix(self) -> Any:
        """The covariance of the density."""
        covariance = self._tensors.make(self.density.cov())
        return covariance.expand(self._extended_shape() + self.event_shape)

    @property
    def variance(self) -> Any:
        """The variance of every feature."""
        return self.covariance_matrix.diagonal(dim1=-2, dim2=-1)

    def to(self, device: Any = None, dtype: Any = None) -> Any:
        """Return the distribution on another device or in another precision."""
        device = self._tensors.device if device is None else device
        dtype = self._tensors.dtype if dtype is None else dtype
        return distribution(self.density, device, dtype, self.batch_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return a batch of independent copies."""
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
        if self.density.maps is not None:
            return self._mapped_log_sums(points).reshape(shape[:-1])
        return self._log_q(points).reshape(shape[:-1])

    def _mapped_log_sums(self, points: Any) -> Any:
        """Return the log densities (Q,) from those of the latent coordinates."""
        torch, chart, log_q = self._tensors.torch, self.density._chart, self._log_q
        X = points.detach().cpu().double().numpy()
        try:
            found = chart.preimages(X, self._numpy_log_q if chart.folding else len)
        except ManyImagesError:
            return torch.cat([self._mapped_log_sums(half) for half in points.tensor_split(2)])
        rows = found.rows[found.starts]
        Z, log_slopes = chart.latent(points[rows].T.contiguous().T, torch)
        if chart.folding:
            which = np.repeat(np.arange(len(rows)), found.sizes)
            offsets = found.Z - found.signs * chart.latent(found.X)[0][which]
            Z = torch.tensor(found.signs).to(Z) * Z[which] + torch.tensor(offsets).to(Z)
            values = _grouped_log_sums(torch, log_q(Z), torch.tensor(which).to(Z.device))
        else:
            values = log_q(Z)
        out = torch.full((len(points),), -torch.inf).to(values)
        return out.index_put((torch.tensor(rows).to(Z.device),), values + log_slopes)

    def _log_q(self, Z: Any) -> Any:
        """Return the log densities of latent coordinates."""
        return _log_sums(self._tensors.torch, self._parts, Z)

    def _numpy_log_q(self, Z: np.ndarray) -> np.ndarray:
        torch = self._tensors.torch
        with torch.no_grad():
            values = self._log_q(torch.tensor(Z).to(self._like))
        return np.asarray(values.cpu().double().numpy())

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw points of shape (*sample_shape, *batch_shape, n_features)."""
        torch = self._tensors.torch
        shape = self._extended_shape(torch.Size(sample_shape))
        with torch.no_grad():
            drawn = self._sampler.draw(torch, shape[:-1].numel())
            if self.density.maps is not None:
                columns = zip(self.density.maps, drawn.T.contiguous(), strict=True)
                drawn = torch.stack([each.inverse(z, torch) for each, z in columns], -1)
            return drawn.reshape(shape)

    @cached_property
    def _sampler(self) -> "_Sampler":
        density, tensors = self.density, self._tensors
        return _Sampler(
            tensors.make(np.cumsum(density.weights)),
            tensors.make(density.means),
            tensors.torch.tensor(density.kernels.group_of_kernel, device=tensors.device),
            tensors.make(np.linalg.inv(density.transforms)),
        )


# Log densities


class _Part(NamedTuple):
    """Kernels, measured from a point near them so that a large offset does not cost digits.

    Either they share a transform (M, M), by which the means are already multiplied, or each has
    its own, (K, M, M).
    """

    center: Any
    transform: Any
    means: Any
    log_heights: Any

    def exponents(self, points: Any) -> Any:
        """Return the logarithms (Q, K) of the weighted kernels at points (Q, M)."""
        points = (points - self.center).to(self.center.dtype)
        if self.transform.ndim == 2:
            units = (points @ self.transform)[:, None] - self.means
        else:
            units = ((points - self.means[:, None]) @ self.transform).transpose(0, 1)
        return self.log_heights - 0.5 * units.square().sum(-1)


def _parts(kernels: Kernels, tensors: _Tensors) -> list[_Part]:
    """Return kernels that share a covariance, group by group, and the others together.

    Kernels of zero weight are left out, since overflowing distances would make them NaN.
    """
    shared, own = split_by_sharing(kernels.with_weight())
    parts = []
    if own is not None:
        parts.append(_part(tensors, own, own.transforms[own.group_of_kernel]))
    if shared is not None:
        for g, transform in enumerate(shared.transforms):
            parts.append(_part(tensors, shared.take(np.array([g])), transform))
    return parts


def _part(tensors: _Tensors, kernels: Kernels, transform: np.ndarray) -> _Part:
    # Center and transform are rounded first, so that means are transformed as points are.
    center = tensors.rounded(_center(kernels.means, transform, tensors))
    means = kernels.means - center
    if transform.ndim == 2:
        means = means @ tensors.rounded(transform)
    log_heights = kernels.log_heights - 0.5 * kernels.n_features * LOG_2PI
    return _Part(*(tensors.make(each) for each in (center, transform, means, log_heights)))


def _center(means: np.ndarray, transform: np.ndarray, tensors: _Tensors) -> np.ndarray:
    """Return the origin of the coordinates: the median, which is robust to outliers.

    Differences between points and single means are exact enough in doubles, from any origin.
    """
    if transform.ndim == 3 and tensors.dtype == tensors.torch.float64:
        return np.zeros(means.shape[1])
    return np.asarray(np.quantile(means, 0.5, axis=0, method="lower"))


def _log_sums(torch: Any, parts: list[_Part], points: Any) -> Any:
    """Return the log densities (Q,) at points (Q, M), a block of points at a time."""
    n_numbers = sum(part.means.numel() for part in parts)
    if points.requires_grad and torch.is_grad_enabled():
        return _tracked_log_sums(torch, parts, points, max(1, _TRACKED_NUMBERS // n_numbers))
    # Small results kept between large blocks would fragment the memory.
    out = points.new_empty(len(points), dtype=parts[0].means.dtype)
    n_rows = max(1, _BLOCK_NUMBERS // n_numbers)
    for start in range(0, len(points), n_rows):
        out[start : start + n_rows] = _log_sum(torch, parts, points[start : start + n_rows])
    return out


def _tracked_log_sums(torch: Any, parts: list[_Part], points: Any, n_rows: int) -> Any:
    """Return the log densities with a gradient, for which many blocks are computed again."""
    evaluate = partial(_log_sum, torch, parts)
    if len(points) > _MAX_BLOCKS * n_rows:
        checkpoint = _torch("torch.utils.checkpoint").checkpoint
        evaluate = partial(checkpoint, evaluate, use_reentrant=False, preserve_rng_state=False)
    return torch.cat([evaluate(block) for block in points.split(n_rows)])


def _log_sum(torch: Any, parts: list[_Part], points: Any) -> Any:
    return torch.cat([part.exponents(points) for part in parts], dim=1).logsumexp(1)


def _grouped_log_sums(torch: Any, logs: Any, groups: Any) -> Any:
    """Return the log of the sum of every group; groups are numbered from zero."""
    n_groups = int(groups[-1]) + 1 if len(groups) else 0
    tops = torch.full((n_groups,), -torch.inf).to(logs)
    tops = tops.scatter_reduce(0, groups, logs.detach(), "amax").nan_to_num(neginf=0.0)
    sums = torch.zeros_like(tops).index_add(0, groups, (logs - tops[groups]).exp())
    return sums.log() + tops


# Draws


class _Sampler(NamedTuple):
    """Cumulative weights (K,), means (K, M), groups (K,) and inverse transforms (G, M, M)."""

    bounds: Any
    means: Any
    groups: Any
    inverses: Any

    def draw(self, torch: Any, n_samples: int) -> Any:
        """Draw samples (n_samples, M), a block at a time."""
        like = {"dtype": self.bounds.dtype, "device": self.bounds.device}
        heights = torch.rand(n_samples, **like) * self.bounds[-1]
        kernels = torch.searchsorted(self.bounds[:-1].contiguous(), heights, right=True)
        rows = max(1, _BLOCK_NUMBERS // self.means.shape[1] ** 2)
        return torch.cat([self._draw_block(torch, some) for some in kernels.split(rows)])

    def _draw_block(self, torch: Any, kernels: Any) -> Any:
        means = self.means[kernels]
        steps = torch.randn_like(means)[:, None] @ self.inverses[self.groups[kernels]]
        return means + steps[:, 0]
