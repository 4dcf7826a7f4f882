"""Forecasts that are given as Gaussian mixtures, and their exact scores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp

from ..decoding import Archive
from ..density import KernelMixture
from ..density.sums import LOG_2PI, covariances
from ..validation import check_count, check_numbers, random_generator
from .inputs import Forecasts
from .scores import BlockScores, DegenerateSamples, Scoring, mean_of_valid, step_nll

#: Measures with an exact value; "ece" has it up to the number of draws.
EXACT = ("nll", "nll_agent", "nll_agents", "nll_step", "ece")
#: Numbers in a block of covariances and residuals: 16 MB.
_BLOCK_SIZE = 2**21
#: Covariances may differ from symmetric ones by this fraction, more than 32-bit floats do.
_ASYMMETRY = 1e-5

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False, repr=False)
class Mixtures:
    r"""A Gaussian mixture of whole paths for every scene, as mixture density networks give it.

    .. math:: p_s(y) = \sum_m w_{sm} \, N(y; \mu_{sm}, \Sigma_{sm})

    The mixture of a scene is a :class:`~sevenhills.KernelMixture`, ``mixtures[scene]``, of the
    values of a path in one row; log densities of all scenes are computed in blocks.

    Parameters
    ----------
    weights : array-like of shape (scenes, components)
        Not negative; they are divided by their sum. A component of weight zero is absent, and so is
        one whose weight and mean are NaN.
    means : array-like of shape (scenes, components, steps, coordinates)
        Paths; or (scenes, components, agents, steps, coordinates), if all agents of a scene share
        the components. If agents have weights of their own, make every agent a scene.
    covariances : array-like
        Of whole paths, (scenes, components, d, d) with d = steps * coordinates; or of every step by
        itself, (scenes, components, steps, coordinates, coordinates), if steps are independent
        within a component. With agents, of all agents together, of every agent by itself or of
        every step of every agent. Axes of scenes and components may have length 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.forecast import Mixtures
    >>> means = np.array([[[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]])
    >>> mixtures = Mixtures([[0.25, 0.75]], means, 0.01 * np.eye(4)[None, None])
    >>> mixtures
    Mixtures(n_scenes=1, n_components=2, path=(2, 2))
    >>> mixtures.logpdf(means[:, 1]).round(3)
    array([5.247])
    >>> mixtures[0].logpdf(means[:, 1].reshape(1, 4)).round(3)
    array([5.247])
    >>> mixtures.sample(100, random_state=0).shape
    (1, 100, 2, 2)
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def __post_init__(self) -> None:
        for name in ("weights", "means", "covariances"):
            object.__setattr__(self, name, check_numbers(getattr(self, name), name))
        _check_shapes(self.weights, self.means, self.covariances)
        shape = (*self.means.shape[:2], *self.covariances.shape[2:])
        object.__setattr__(self, "covariances", np.broadcast_to(self.covariances, shape))
        object.__setattr__(self, "weights", _shares(self.weights, self.means))
        for name in ("weights", "means", "covariances"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @classmethod
    def from_scales(cls, weights: Any, means: Any, scales: Any, correlations: Any = None) -> Self:
        """Build mixtures from standard deviations of every step, which are independent.

        Parameters
        ----------
        weights, means : array-like
            As for :class:`Mixtures`.
        scales : array-like, broadcast to the shape of the means
            Standard deviations of every coordinate.
        correlations : array-like of shape (scenes, components, steps), optional
            Correlation of x and y at every step; with agents, of every agent.

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills.forecast import Mixtures
        >>> means = np.zeros((5, 6, 12, 2))
        >>> Mixtures.from_scales(np.ones((5, 6)), means, 0.1, 0.5 * np.ones((5, 6, 12)))
        Mixtures(n_scenes=5, n_components=6, path=(12, 2))
        """
        means = check_numbers(means, "means")
        scales = _broadcast(scales, "scales", means.shape)
        out = scales[..., None] * scales[..., None, :] * np.eye(means.shape[-1])
        if correlations is not None:
            if means.shape[-1] != 2:
                raise ValueError(f"correlations need 2 coordinates, got {means.shape[-1]}")
            rho = _broadcast(correlations, "correlations", means.shape[:-1])
            out[..., 0, 1] = out[..., 1, 0] = rho * scales.prod(axis=-1)
        return cls(weights, means, out)

    @classmethod
    def from_densities(cls, densities: Sequence[KernelMixture], shape: Sequence[int]) -> Self:
        """Build mixtures from a density of paths for every scene.

        Parameters
        ----------
        densities : sequence of KernelMixture
            Of the values of a path in one row: agent by agent, step by step.
        shape : tuple of int
            Shape of a path, (steps, coordinates) or (agents, steps, coordinates).

        Examples
        --------
        >>> import numpy as np
        >>> from sevenhills import KernelMixture
        >>> from sevenhills.forecast import Mixtures
        >>> walk = KernelMixture.from_covariances([1.0], np.zeros((1, 8)), np.eye(8))
        >>> Mixtures.from_densities([walk, walk], (4, 2))
        Mixtures(n_scenes=2, n_components=1, path=(4, 2))
        """
        size, n_components = int(np.prod(shape)), max(each.n_kernels for each in densities)
        weights = np.zeros((len(densities), n_components))
        means = np.full((len(densities), n_components, size), np.nan)
        spreads = np.zeros((len(densities), n_components, size, size))
        for i, each in enumerate(densities):
            if each.maps is not None:
                raise ValueError(f"predictions: the density of scene {i} has mapped features")
            if each.n_features != size:
                raise ValueError(
                    f"predictions: the density of scene {i} has {each.n_features} features, but "
                    f"paths of shape {tuple(shape)} have {size}"
                )
            weights[i, : each.n_kernels], means[i, : each.n_kernels] = each.weights, each.means
            of_groups = covariances(each.transforms)
            spreads[i, : each.n_kernels] = np.repeat(of_groups, np.diff(each.offsets), axis=0)
        return cls(weights, means.reshape(*weights.shape, *shape), spreads)

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        n_scenes, n_components, *path = self.means.shape
        return f"Mixtures(n_scenes={n_scenes}, n_components={n_components}, path={tuple(path)})"

    def __getitem__(self, scene: int) -> KernelMixture:
        there = self.weights[scene] > 0
        blocks = self._blocks(slice(scene, scene + 1 or None))[0, there]
        n, n_blocks, size = blocks.shape[:3]
        full = np.zeros((n, n_blocks, size, n_blocks, size))
        each = np.arange(n_blocks)
        full[:, each, :, each] = blocks.swapaxes(0, 1)
        full = full.reshape(n, n_blocks * size, -1)
        return KernelMixture.from_covariances(
            self.weights[scene, there],
            self.means[scene, there].reshape(n, -1),
            0.5 * (full + full.swapaxes(1, 2)),
        )

    def logpdf(self, paths: Any) -> np.ndarray:
        """Return the log densities of paths, (scenes,) or (scenes, paths).

        Steps that are NaN are left out: the density is that of the other steps.

        Parameters
        ----------
        paths : array-like
            One path for every scene, (scenes, steps, coordinates), or several, (scenes, paths,
            steps, coordinates); with an axis of agents after them if the means have one.
        """
        found = check_numbers(paths, "paths")
        path = self.means.shape[2:]
        one = found.shape == (len(self), *path)
        if not one and (found.ndim != len(path) + 2 or found[:, 0].shape != (len(self), *path)):
            raise ValueError(f"paths of shape {found.shape} do not match {self!r}")
        out = self.log_densities(found.reshape(len(self), -1, int(np.prod(path))))[..., 0]
        return out[:, 0] if one else out

    def sample(self, n_samples: int, random_state: Any = None) -> np.ndarray:
        """Draw samples (scenes, n_samples, steps, coordinates), with agents if there are any.

        Parameters
        ----------
        n_samples : int
            Number of samples of every scene.
        random_state : int, RandomState instance or None, default=None
        """
        n_samples = check_count(n_samples, "n_samples", least=1)
        rng = random_generator(random_state)
        out = rng.standard_normal((len(self), n_samples, int(np.prod(self.means.shape[2:]))))
        uniform = rng.uniform(size=(len(self), n_samples, 1))
        for part in self._parts(out.shape[2] * n_samples):
            factors, means = self._factors(self._blocks(part), part), self._rows(part)
            up_to = self.weights[part].cumsum(axis=1)
            chosen = (uniform[part] * up_to[:, None, -1:] >= up_to[:, None]).sum(axis=2)
            scenes = np.arange(len(means))[:, None]
            noise = out[part].reshape(*chosen.shape, *factors.shape[2:4], 1)
            moved = factors[scenes, chosen] @ noise
            out[part] = means[scenes, chosen] + moved.reshape(out[part].shape)
        return out.reshape(*out.shape[:2], *self.means.shape[2:])

    def log_densities(self, points: np.ndarray, n_parts: int = 1) -> np.ndarray:
        """Return the log densities (S, n, n_parts) of points (S, n, d), split into equal parts.

        Values that are NaN are left out; parts without any value have the log density NaN.
        """
        missing = np.isnan(points)
        if (missing != missing[:, :1]).any():
            each = [self.log_densities(one[:, None], n_parts) for one in points.swapaxes(0, 1)]
            return np.concatenate(each, axis=1)
        out = np.empty((*points.shape[:2], n_parts))
        for part in self._parts(points.shape[1] * points.shape[2]):
            out[part] = self._log_densities(part, points[part], n_parts)
        return out

    def _log_densities(self, part: slice, points: np.ndarray, n_parts: int) -> np.ndarray:
        """Return the log densities (B, n, n_parts) of points with the same missing values."""
        blocks = _diagonal_blocks(self._blocks(part), n_parts)
        n_scenes, n_components, n_blocks, size = blocks.shape[:4]
        observed = ~np.isnan(points[:, 0]).reshape(n_scenes, 1, n_blocks, size)
        if not observed.all():  # with unit variances in their place, missing values have no effect
            both = observed[..., None] & observed[..., None, :]
            blocks = np.where(both, blocks, np.eye(size))
        factors = self._factors(blocks, part)
        apart = np.nan_to_num(points[:, None] - self._rows(part)[:, :, None])
        apart = apart.reshape(n_scenes, n_components, -1, n_blocks, size).transpose(0, 1, 3, 4, 2)
        whitened = _solve(factors, np.ascontiguousarray(apart))
        log_dets = np.log(np.diagonal(factors, axis1=3, axis2=4)).sum(axis=3)
        terms = -0.5 * np.einsum("smbin,smbin->smbn", whitened, whitened) - log_dets[..., None]
        terms = terms.reshape(n_scenes, n_components, n_parts, n_blocks // n_parts, -1).sum(axis=3)
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights[part])[:, :, None, None]
        found = logsumexp(terms + log_weights, axis=1)
        counts = np.count_nonzero(observed.reshape(n_scenes, n_parts, -1), axis=2)[..., None]
        found = np.where(counts > 0, found - 0.5 * LOG_2PI * counts, np.nan)
        return np.asarray(found.swapaxes(1, 2))

    def _parts(self, n_values: int) -> Iterator[slice]:
        """Yield blocks of scenes, if a scene has this number of values in every component."""
        per_scene = int(np.prod(self.covariances.shape[1:])) + n_values * self.weights.shape[1]
        size = max(1, _BLOCK_SIZE // per_scene)
        for start in range(0, len(self), size):
            yield slice(start, min(start + size, len(self)))

    def _rows(self, part: slice) -> np.ndarray:
        """Return the means (B, M, d) of some scenes, zeros for absent components."""
        rows = self.means[part].reshape(*self.weights[part].shape, -1)
        return np.where(self.weights[part][..., None] > 0, rows, 0.0)

    def _blocks(self, part: slice) -> np.ndarray:
        """Return the blocks (B, M, P, e, e) of covariances, unit matrices for absent components."""
        size = self.covariances.shape[-1]
        blocks = self.covariances[part].reshape(*self.weights[part].shape, -1, size, size)
        absent = self.weights[part] == 0
        return (
            np.where(absent[..., None, None, None], np.eye(size), blocks)
            if absent.any()
            else blocks
        )

    def _factors(self, blocks: np.ndarray, part: slice) -> np.ndarray:
        """Return the Cholesky factors of blocks (B, M, P, e, e)."""
        stds = np.sqrt(np.abs(np.diagonal(blocks, axis1=3, axis2=4)))
        limits = _ASYMMETRY * stds[..., None] * stds[..., None, :]
        is_good = (np.abs(blocks - blocks.swapaxes(3, 4)) <= limits).all(axis=(3, 4))
        if is_good.all():
            try:
                return np.linalg.cholesky(blocks)
            except np.linalg.LinAlgError:
                values = np.linalg.eigvalsh(blocks)
                least = values[..., 0] / np.maximum(np.abs(values).max(axis=-1), _TINY)
                is_good = least > least.min()  # the worst is named
        scene, component = (int(i) for i in np.argwhere(~is_good)[0, :2])
        raise ValueError(
            "covariances must be symmetric and positive definite; that of scene "
            f"{part.start + scene}, component {component} is not"
        )


def _check_shapes(weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> None:
    """Refuse arrays of other numbers of scenes, components or values."""
    if means.ndim not in (4, 5) or 0 in means.shape:
        raise ValueError(
            "means must have the axes (scenes, components, steps, coordinates) or (scenes, "
            f"components, agents, steps, coordinates), got shape {means.shape}"
        )
    if weights.shape != means.shape[:2]:
        raise ValueError(f"weights must have shape {means.shape[:2]}, got {weights.shape}")
    path = means.shape[2:]
    shapes = [(*path[:n], *[int(np.prod(path[n:]))] * 2) for n in range(len(path))]
    given = covariances.shape
    fits = all(a in (1, b) for a, b in zip(given[:2], means.shape[:2], strict=False))
    if not fits or given[2:] not in shapes:
        expected = " or ".join(str((*means.shape[:2], *each)) for each in shapes)
        raise ValueError(f"covariances must have shape {expected}, got {given}")


def _shares(weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return weights (S, M) that add up to one in every scene, 0 for absent components."""
    missing = np.isnan(means.reshape(*weights.shape, -1))
    each = np.where(np.isnan(weights) & missing.all(axis=2), 0.0, weights)
    broken = ~np.isfinite(means.reshape(*weights.shape, -1)).all(axis=2)
    for bad, what in (
        (~(each >= 0) | np.isinf(each), "weights must be finite and not negative"),
        (broken & (each > 0), "means must be finite where the weight is above zero"),
        (each.sum(axis=1, keepdims=True) == 0, "weights must not all be zero"),
    ):
        if bad.any():
            scene = int(np.argwhere(bad)[0, 0])
            raise ValueError(f"{what}; scene {scene} has the weights {weights[scene].tolist()}")
    each = each / each.max(axis=1, keepdims=True)
    return np.asarray(each / each.sum(axis=1, keepdims=True))


def _broadcast(values: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    found = check_numbers(values, name)
    try:
        return np.broadcast_to(found, shape)
    except ValueError:
        raise ValueError(f"{name} must have shape {shape}, got {found.shape}") from None


def _diagonal_blocks(blocks: np.ndarray, n_parts: int) -> np.ndarray:
    """Return the diagonal blocks (..., n, e, e) of blocks (..., P, f, f), at least n_parts."""
    *lead, n_blocks, size, _ = blocks.shape
    n_within = max(1, n_parts // n_blocks)
    split = blocks.reshape(*lead, n_blocks, n_within, size // n_within, n_within, -1)
    diagonal = np.moveaxis(np.diagonal(split, axis1=-4, axis2=-2), -1, -3)
    return diagonal.reshape(*lead, n_blocks * n_within, *diagonal.shape[-2:])


def _solve(factors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Overwrite right-hand sides (..., e, n) by the solutions of lower triangular systems."""
    for j in range(rows.shape[-2]):
        if j:
            rows[..., j, :] -= (factors[..., j, None, :j] @ rows[..., :j, :])[..., 0, :]
        rows[..., j, :] /= factors[..., j, j, None]
    return rows


# Scores


def read_mixtures(path: Path) -> Mixtures | None:
    """Return the mixtures of a .npz file, None if it has no array of means.

    Its arrays are the arguments of :class:`Mixtures` or of :meth:`Mixtures.from_scales`.
    """
    if path.suffix.lower() != ".npz" or not path.exists():
        return None
    with path.open("rb") as file:
        archive = Archive(file, str(path))
        if "means" not in archive.names:
            return None
        spread = "covariances" if "covariances" in archive.names else "scales"
        for name in ("weights", spread):
            if name not in archive.names:
                raise ValueError(f"predictions: {path.name} has means, but no array {name!r}")
        weights, means, values = (archive.read(name) for name in ("weights", "means", spread))
        if spread == "covariances":
            return Mixtures(weights, means, values)
        rho = archive.read("correlations") if "correlations" in archive.names else None
        return Mixtures.from_scales(weights, means, values, rho)


def exact_scores(
    mixtures: Mixtures,
    forecasts: Forecasts,
    draws: np.ndarray | None,
    uniform: np.ndarray,
    scoring: Scoring,
) -> BlockScores:
    """Return the exact scores of all scenes.

    The level of a truth is the rank of its log density among those of draws (S, n, ...); uniform
    random numbers (S, A, L) break ties.
    """
    truths = forecasts.read(0, forecasts.n_scenes)[1]
    n_scenes, n_truths, n_agents, n_steps = truths.shape[:4]
    rows = truths.reshape(n_scenes, n_truths, -1)
    parts = {"nll": 1, "nll_agent": n_agents, "nll_agents": 1}
    scenes, degenerate = {}, DegenerateSamples()
    for name in scoring.measures:
        if name in parts:
            found = mixtures.log_densities(rows, parts[name])
            scenes[name] = -mean_of_valid(mean_of_valid(found.swapaxes(1, 2)))
        elif name == "nll_step":
            found = mixtures.log_densities(rows, n_agents * n_steps)
            found = found.reshape(n_scenes, n_truths, n_agents, n_steps).swapaxes(1, 2)
            scenes[name] = mean_of_valid(step_nll(found, scoring.lower_bound, degenerate))
    levels = np.full(uniform.shape, np.nan)
    if draws is not None and "ece" in scoring.measures:
        others = draws.reshape(n_scenes, draws.shape[1], -1)
        for i, true in enumerate(rows.swapaxes(0, 1)):
            levels[..., i] = _levels(mixtures, true[:, None], others, uniform[..., i])
    return BlockScores(scenes, levels.reshape(n_scenes, -1), degenerate)


def _levels(
    mixtures: Mixtures, true: np.ndarray, draws: np.ndarray, uniform: np.ndarray
) -> np.ndarray:
    """Return the levels (S, A) of true paths (S, 1, d) among draws (S, n, d)."""
    missing, n_agents = np.isnan(true), uniform.shape[1]
    seen = np.where(missing, np.nan, draws) if missing.any() else draws
    found, others = mixtures.log_densities(true, n_agents), mixtures.log_densities(seen, n_agents)
    denser, equal = ((others > found).sum(axis=1), (others == found).sum(axis=1))
    rank = (denser + uniform * (1 + equal)) / (draws.shape[1] + 1)
    return np.where(np.isnan(found[:, 0]), np.nan, rank)
