"""Densities of the samples of an agent, at single steps and of whole paths."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..density import KernelMixture
from ..estimators import ESTIMATORS, ROME, AutoROME, GaussianKDE
from ..estimators.base import inner_fits
from ..estimators.small_sets import SmallFit, fit_small_sets, takes_small_sets
from ..kernels.path_densities import log_sums_of_others
from ..metrics.density_metrics import divergence_terms
from ..validation import unfitted_copy
from .inputs import path_lengths
from .pooled import MIN_SAMPLES, Pools, ScenePool, Scenes
from .step_kernels import EMPTY, FEW, FLAT, IDENTICAL, REGULAR, StepSamples

#: Degeneracy of samples that the estimator refused, although they are regular.
REFUSED = 5
#: Log densities that agree to this many decimals are ties.
_DECIMALS = 9
#: A density of the truth is fitted to at least this many futures.
_MIN_FUTURES = 3
#: Samples of scenes that are evaluated together, and scenes whose fits are held in memory.
_BATCH, _BATCH_SCENES = 5000, 200

_TINY, _NEARLY_ONE = np.finfo(np.float64).tiny, 1 - 1e-15
_NO_STEPS = np.empty(0, dtype=np.int64)


class Samples(NamedTuple):
    """Samples of one scene."""

    X: np.ndarray  # (n, M)
    degeneracy: int
    counts: np.ndarray | None  # (n,), see sample_counts


@dataclass(frozen=True)
class FlooredEstimator:
    """An estimator, which is cloned for every fit, with a rule for degenerate samples."""

    name: str
    estimator: Any
    errors: str  # degenerate samples get a density only with "floor"
    #: Standard deviation for degenerate samples; with None, only identical samples get one, and
    #: the estimator handles others itself.
    floor: float | None

    @property
    def short_name(self) -> str:
        """The name, that of the class for an estimator that is given as an object."""
        return self.name.partition("(")[0]

    def is_degenerate(self, degeneracy: int) -> bool:
        """Whether the rule applies; some estimators are made for few samples."""
        takes_few = isinstance(self.estimator, AutoROME) or (
            getattr(self.estimator, "shrinkage", None) is not None
        )
        return degeneracy != REGULAR and not (degeneracy == FEW and takes_few)

    def fit(
        self, X: np.ndarray, degeneracy: int, floor: float, counts: np.ndarray | None = None
    ) -> Any | None:
        """Return the estimator fitted to X, None if its samples get no density.

        Samples stand for these ``counts`` (n,) of samples, by default one.
        """
        is_degenerate = self.is_degenerate(degeneracy)
        if is_degenerate and self.errors != "floor":
            return None
        model = unfitted_copy(self.estimator)
        needs_floor = is_degenerate and (self.floor is not None or degeneracy == IDENTICAL)
        if needs_floor and "min_std" in vars(model):
            model.min_std = floor
        try:
            with inner_fits():
                return model.fit(X) if counts is None else model.fit(X, sample_weight=counts)
        except (ValueError, RuntimeError, np.linalg.LinAlgError):
            return None

    def fit_alike(self, sets: Sequence["Samples"]) -> list[SmallFit | None]:
        """Return the fits of those sets that can be fitted at once, None for the others."""
        out: list[SmallFit | None] = [None] * len(sets)
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for i, each in enumerate(sets):
            if each.counts is None and not self.is_degenerate(each.degeneracy):
                alike[each.X.shape].append(i)
        for shape, places in alike.items():
            if len(places) == 1 or not takes_small_sets(self.estimator, *shape):
                continue
            # One by one, the samples that are refused will be found.
            with suppress(ValueError, np.linalg.LinAlgError):
                fits = fit_small_sets(np.stack([sets[i].X for i in places]))
                for i, fit in zip(places, fits, strict=True):
                    out[i] = fit
        return out

    def try_out(self, name: str, has_weights: bool = False) -> None:
        """Raise an error if the estimator cannot be fitted at all, before every scene fails."""
        if has_weights and not has_fit_parameter(self.estimator, "sample_weight"):
            raise TypeError(f"{name} ({self.name}) does not take weights of samples")
        if self.name in ("pooled", *ESTIMATORS):  # a fit would compile all of its kernels
            return
        try:
            unfitted_copy(self.estimator).fit(np.random.RandomState(0).standard_normal((40, 2)))
        except (ValueError, TypeError, RuntimeError) as error:
            raise ValueError(f"{name} cannot be fitted: {error}") from error


def sample_counts(weights: np.ndarray) -> np.ndarray | None:
    """Return the number of samples that each of some samples stands for, None for equal weights.

    Their sum is the effective number of samples, one divided by the sum of squared shares.
    """
    if (weights == weights[0]).all():
        return None
    return np.asarray(weights * (weights.sum() / (weights**2).sum()))


def floored_estimator(
    estimator: Any, name: str, shrinkage: str | None, errors: str, floor: float | None
) -> FlooredEstimator:
    """Return the estimator of that name, or a clone; "rome" and "pooled" get the shrinkage."""
    names = [*(["pooled"] if name == "estimator" else []), *ESTIMATORS]
    expected = f"{name} must be one of {names} or an estimator"
    if isinstance(estimator, str):
        if estimator not in names:
            raise ValueError(f"{expected}, got {estimator!r}")
        is_rome = estimator in ("rome", "pooled")
        found = ROME(shrinkage=shrinkage) if is_rome else ESTIMATORS[estimator]()
        return FlooredEstimator(estimator, found, errors, floor)
    missing = [each for each in ("fit", "score_samples") if not hasattr(estimator, each)]
    if isinstance(estimator, type) or missing:
        raise TypeError(f"{expected} with fit and score_samples, got {estimator!r}")
    found = clone(estimator, safe=False)
    return FlooredEstimator(repr(found), found, errors, floor)


@dataclass(frozen=True, eq=False)
class AgentForecasts:
    """Samples and true futures of all N agents of B scenes, one agent after another.

    A truth and its forecast are compared at the observed steps, those that the truth shares with a
    sample; the last of them is the horizon. Samples that end earlier take part in the densities of
    their own steps, but not in measures of whole paths.
    """

    paths: np.ndarray  # (N, K, T, D)
    truths: np.ndarray  # (N, L, T, D)
    floors: np.ndarray  # (N,), standard deviations for degenerate samples
    n_scenes: int
    #: Weights (N, K) of samples, 0 for absent ones; None if all are equal.
    weights: np.ndarray | None = None

    @classmethod
    def from_scenes(
        cls,
        paths: np.ndarray,
        truths: np.ndarray,
        floors: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> "AgentForecasts":
        """Return the agents of paths (B, K, A, T, D), truths (B, L, A, T, D), floors (B, A).

        Weights (B, K, A) of the samples of an agent are divided by their sum.
        """
        by_agent, shares = _by_agent(paths), None
        if weights is not None:
            there = ~np.isnan(by_agent[:, :, 0, 0])
            shares = np.where(there, weights.swapaxes(1, 2).reshape(there.shape), 0.0)
            shares /= np.maximum(shares.sum(axis=1, keepdims=True), _TINY)
        return cls(by_agent, _by_agent(truths), floors.ravel(), len(paths), shares)

    @property
    def n_agents(self) -> int:
        """Number of agents per scene."""
        return len(self.paths) // self.n_scenes

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of steps (N, K) of every sample."""
        return path_lengths(self.paths)

    @cached_property
    def observed(self) -> np.ndarray:
        """Whether (N, L, T) a truth is compared at a step; NaN in a truth is a mask."""
        within = np.arange(self.paths.shape[2]) < self.lengths.max(axis=1)[:, None]
        return ~np.isnan(self.truths[..., 0]) & within[:, None]

    @cached_property
    def horizons(self) -> np.ndarray:
        """Number of steps (N, L) until the last observed one of every truth, 0 without any."""
        return np.asarray((self.observed * np.arange(1, self.observed.shape[2] + 1)).max(axis=2))

    @property
    def n_short(self) -> int:
        """Number of samples that end before a truth does, without absent ones."""
        short = (self.lengths > 0) & (self.lengths < self.horizons.max(axis=1)[:, None])
        return int(np.count_nonzero(short))


def _by_agent(paths: np.ndarray) -> np.ndarray:
    """Return paths (B, K, A, T, D) as (B A, K, T, D)."""
    moved = paths.swapaxes(1, 2)
    return np.ascontiguousarray(moved).reshape(-1, *moved.shape[2:])


# Single steps


class StepDensities(NamedTuple):
    """Log densities (N, L, T) of the truths at every step, and degeneracy (N, T) of the samples.

    Log densities are NaN without a density or a truth.
    """

    log_densities: np.ndarray
    degeneracy: np.ndarray


def step_densities(agents: AgentForecasts, estimator: FlooredEstimator) -> StepDensities:
    """Return the densities of single steps.

    A plain ``GaussianKDE()`` has scipy's covariance and bandwidth, and the square of the floor
    added to the variances of degenerate samples; all steps are computed in one call.
    """
    samples = _step_samples(agents)
    degeneracy = _scored_degeneracy(agents, samples)
    if not _is_plain(estimator.estimator):
        return _fitted_densities(agents, estimator, degeneracy)
    floors = agents.floors if estimator.errors == "floor" else np.full(len(agents.floors), np.nan)
    found = samples.log_densities(agents.truths, floors)
    return StepDensities(np.where(agents.observed, found, np.nan), degeneracy)


def step_degeneracy(agents: AgentForecasts) -> np.ndarray:
    """Return the degeneracy (N, T) of the samples at every step."""
    return _scored_degeneracy(agents, _step_samples(agents))


def _step_samples(agents: AgentForecasts) -> StepSamples:
    ones = np.ones(agents.lengths.shape)
    weights = ones if agents.weights is None else agents.weights
    return StepSamples.from_paths(agents.paths, agents.lengths, weights)


def _scored_degeneracy(agents: AgentForecasts, samples: StepSamples) -> np.ndarray:
    """Return the degeneracy (N, T) of steps; those without a truth are not counted."""
    return np.where(agents.observed.any(axis=1), samples.degeneracy, REGULAR)


def _is_plain(estimator: Any) -> bool:
    """Whether an estimator is a GaussianKDE with default parameters."""
    return isinstance(estimator, GaussianKDE) and bool(
        {**estimator.get_params(), "n_jobs": None} == GaussianKDE().get_params()
    )


def _fitted_densities(
    agents: AgentForecasts, estimator: FlooredEstimator, degeneracy: np.ndarray
) -> StepDensities:
    """Fit the samples of every step by themselves."""
    out = np.full(agents.observed.shape, np.nan)
    degeneracy, scored = degeneracy.copy(), agents.observed
    for i, t in np.argwhere(scored.any(axis=1) & (degeneracy != EMPTY)).tolist():
        there = agents.lengths[i] > t
        counts = None if agents.weights is None else sample_counts(agents.weights[i, there])
        model = estimator.fit(
            agents.paths[i, there, t], int(degeneracy[i, t]), float(agents.floors[i]), counts
        )
        if model is not None:
            true = scored[i, :, t]
            out[i, true, t] = model.score_samples(agents.truths[i, true, t])
        elif degeneracy[i, t] == REGULAR:
            degeneracy[i, t] = REFUSED
    return StepDensities(out, degeneracy)


# Whole paths


@dataclass(frozen=True, eq=False)
class Paths:
    """Sampled and true paths of the same steps, each as a row: one agent after another."""

    samples: np.ndarray  # (n, M)
    truths: np.ndarray  # (m, M)
    futures: np.ndarray  # (m,), indices of the truths in the scene
    steps: np.ndarray  # (A, T), whether a step of an agent is observed
    degeneracy: int  # of the samples, see StepSamples
    counts: np.ndarray | None = None  # (n,), see sample_counts
    #: The same at all steps of these agents, with NaN in the truths, unless all are observed.
    whole: "Paths | None" = None

    @cached_property
    def weights(self) -> np.ndarray | None:
        """Weights (n,) of the samples, adding up to one; None if they are equal."""
        return None if self.counts is None else self.counts / self.counts.sum()

    @property
    def n_steps(self) -> int:
        """Number of points of a path, over all agents."""
        return int(np.count_nonzero(self.steps))

    @property
    def pool(self) -> bytes:
        """Key of the pool of these paths: the observed steps of the agents that are there."""
        return self.steps[self.steps.any(axis=1)].tobytes()

    @property
    def can_be_pooled(self) -> bool:
        """Whether the samples spread in all directions."""
        n = len(self.samples) if self.counts is None else self.counts.sum()
        return self.degeneracy in (REGULAR, FEW) and n >= MIN_SAMPLES

    @property
    def translations(self) -> np.ndarray:
        """Directions (A * D, M) in which the agents that are there may be moved."""
        lengths = np.count_nonzero(self.steps, axis=1)
        n_coordinates = self.samples.shape[1] // self.n_steps
        of_agents = np.repeat(np.eye(len(lengths))[lengths > 0], lengths, axis=1)
        return np.kron(of_agents, np.eye(n_coordinates))


def in_own_frames(alike: Sequence[Paths]) -> tuple[Scenes, np.ndarray]:
    """Return samples and truths (S, m, M) of scenes of one shape in the frames of the agents.

    The origin of an agent is the first point of the mean path of its samples. In the plane, the
    first axis is the direction of the mean path.
    """
    samples, truths = (np.stack([getattr(p, n) for p in alike]) for n in ("samples", "truths"))
    ones = np.ones(samples.shape[1])
    scenes = Scenes(samples, np.stack([ones if p.counts is None else p.counts for p in alike]))
    steps = alike[0].steps
    lengths = np.count_nonzero(steps[steps.any(axis=1)], axis=1)
    starts, ends = np.cumsum(lengths) - lengths, np.cumsum(lengths) - 1
    points = scenes.means().reshape(len(alike), lengths.sum(), -1)
    origins = np.repeat(points[:, starts], lengths, axis=1).reshape(len(alike), 1, -1)
    samples, truths = samples - origins, truths - origins
    if points.shape[2] == 2:
        along = (points[:, ends] - points[:, starts]).view(np.complex128)[..., 0]
        turns = np.where(along == 0, 1, np.conj(along) / np.maximum(abs(along), _TINY))
        turn = np.repeat(turns, lengths, axis=1)[:, None]
        samples, truths = ((r.view(np.complex128) * turn).view(float) for r in (samples, truths))
    return scenes._replace(samples=samples), truths


def paths_by_steps(
    forecasts: AgentForecasts, agents: slice, degeneracy: np.ndarray
) -> Iterator[Paths]:
    """Yield the joint paths of some agents of a scene, for every set of observed steps.

    The degeneracy (N, T) is that of single steps.
    """
    observed = forecasts.observed[agents].swapaxes(0, 1)
    is_one = (observed == observed[:1]).all()
    for steps in observed[:1] if is_one else np.unique(observed, axis=0):
        futures = np.flatnonzero((observed == steps).all(axis=(1, 2)))
        found = _paths_at(steps, futures, forecasts, agents, degeneracy)
        every = np.broadcast_to(steps.any(axis=1, keepdims=True), steps.shape)
        if found is not None and (steps != every).any():
            whole = _paths_at(every, futures, forecasts, agents, degeneracy)
            found = replace(found, whole=whole)
        if found is not None:
            yield found


def _paths_at(
    steps: np.ndarray,
    futures: np.ndarray,
    forecasts: AgentForecasts,
    agents: slice,
    degeneracy: np.ndarray,
) -> Paths | None:
    """Return the joint paths of agents at some steps (A, T), None without such samples."""
    ends = (steps * np.arange(1, steps.shape[1] + 1)).max(axis=1)
    lengths = forecasts.lengths[agents].T
    members = np.flatnonzero((lengths >= ends).all(axis=1))
    if not steps.any() or len(members) == 0:
        return None
    samples = _rows(forecasts.paths[agents], members, steps)
    # Agents that are together have the same weights, but for those that are absent.
    weights = None if forecasts.weights is None else forecasts.weights[agents].max(axis=0)
    return Paths(
        samples=samples,
        truths=_rows(forecasts.truths[agents], futures, steps),
        futures=futures,
        steps=steps,
        degeneracy=_path_degeneracy(samples, degeneracy[agents][steps]),
        counts=None if weights is None else sample_counts(weights[members]),
    )


def _rows(paths: np.ndarray, chosen: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return some of the paths (A, K, T, D) at some of the steps (A, T), each as a row."""
    some = paths.swapaxes(0, 1)
    some = some if len(chosen) == len(some) else some[chosen]
    points = some if steps.all() else some[:, steps]
    return np.ascontiguousarray(points).reshape(len(chosen), -1)


def _path_degeneracy(samples: np.ndarray, of_steps: np.ndarray) -> int:
    """Return the degeneracy of paths; a step without spread makes the whole path flat."""
    if (samples == samples[0]).all():
        return IDENTICAL if len(samples) > 1 else FEW
    if ((of_steps == IDENTICAL) | (of_steps == FLAT)).any():
        return FLAT
    return FEW if len(samples) <= samples.shape[1] else REGULAR


class PathDensity:
    """The density of sampled paths; its model is None if the samples get no density.

    Degenerate samples have the standard deviation ``floor``. The log densities (m,) of the truths
    may be those of a pool.
    """

    def __init__(
        self,
        paths: Paths,
        estimator: FlooredEstimator,
        floor: float,
        pooled: np.ndarray | None = None,
    ) -> None:
        self.paths, self._estimator, self._floor = paths, estimator, floor
        self._pooled = pooled

    @cached_property
    def samples(self) -> Samples:
        """The sampled paths."""
        return Samples(self.paths.samples, self.paths.degeneracy, self.paths.counts)

    @cached_property
    def everything(self) -> Samples:
        """The sampled and the true paths, each of which counts for one sample."""
        X, counts = np.concatenate([self.paths.samples, self.paths.truths]), self.paths.counts
        if counts is not None:
            counts = np.append(counts, np.ones(len(self.paths.truths)))
        return Samples(X, self.paths.degeneracy, counts)

    @cached_property
    def model(self) -> Any:
        """The estimator, fitted to the samples."""
        return self._fit(self.samples)

    @cached_property
    def model_of_everything(self) -> Any:
        """The estimator, fitted to samples and truths together."""
        return self._fit(self.everything)

    def _fit(self, samples: Samples) -> Any:
        return self._estimator.fit(samples.X, samples.degeneracy, self._floor, samples.counts)

    @property
    def has_truths(self) -> bool:
        """Whether truths get a density."""
        return self._pooled is not None or self.model is not None

    @property
    def degeneracy(self) -> int:
        """Degeneracy of the samples, or REFUSED."""
        refused = self.paths.degeneracy == REGULAR and not self.has_truths
        return REFUSED if refused else self.paths.degeneracy

    @cached_property
    def at_truths(self) -> np.ndarray:
        """Log densities (m,) of the truths."""
        if self._pooled is not None:
            return self._pooled
        return np.asarray(self.model.score_samples(self.paths.truths))

    @cached_property
    def at_samples(self) -> np.ndarray:
        """Leave-one-out log densities (n,) of the samples."""
        return leave_one_out(self.model, self.paths.samples, self.paths.counts)

    def densest_distances(self) -> np.ndarray:
        """Return the distances (m, T) between the sample of highest density and every truth."""
        apart = self.paths.samples[self.at_samples.argmax()] - self.paths.truths
        points = apart.reshape(len(apart), self.paths.n_steps, -1)
        return np.asarray(np.sqrt((points**2).sum(axis=-1)))

    def levels(self, uniform: np.ndarray) -> np.ndarray:
        """Return the probability (m,) of the smallest highest-density region that holds each truth.

        The rank of a truth among the samples, by leave-one-out densities of all of them together,
        is uniform if all come from one distribution. The random numbers (m,) break ties.
        Samples count by their weights, and every truth for one sample.
        """
        n, given = len(self.paths.samples), self.paths.counts
        if self.model_of_everything is None:
            return np.full(len(uniform), np.nan)
        together = self.everything
        found = leave_one_out(self.model_of_everything, together.X, together.counts)
        found = found.round(_DECIMALS)
        each = np.ones(n) if given is None else given
        denser, equal = (found[:n] > found[n:, None]) @ each, (found[:n] == found[n:, None]) @ each
        return np.asarray((denser + uniform * (1 + equal)) / (each.sum() + 1))

    @cached_property
    def divergences(self) -> tuple[float, float]:
        """Kullback-Leibler (nats) and Jensen-Shannon (bits) divergences of the truth.

        The density of the truth is fitted to the true futures. Samples and futures are evaluated
        without their own kernels, under which each of them would be too likely.
        """
        truths, samples = self.paths.truths, self.paths.samples
        if len(truths) < _MIN_FUTURES:
            return np.nan, np.nan
        truth = self._estimator.fit(truths, _path_degeneracy(truths, _NO_STEPS), self._floor)
        if truth is None:
            return np.nan, np.nan
        at_truths, true_at_truths = self.model.score_samples(truths), leave_one_out(truth, truths)
        true_at_samples = np.asarray(truth.score_samples(samples))
        halves = (
            divergence_terms(np.asarray(at_truths), true_at_truths).mean(),
            np.average(
                divergence_terms(self.at_samples, true_at_samples), weights=self.paths.weights
            ),
        )
        return float((true_at_truths - at_truths).mean()), float(sum(halves) / 2)


def fit_in_batches(
    densities: Iterator[PathDensity], estimator: FlooredEstimator, models: Sequence[str]
) -> Iterator[PathDensity]:
    """Yield densities by an estimator, with the models of paths of equal shape fitted at once.

    ``models`` are those that will be needed: "model" and "model_of_everything".
    """
    while batch := list(islice(densities, _BATCH_SCENES)):
        for name in models:
            sets = [each.samples if name == "model" else each.everything for each in batch]
            for each, fit in zip(batch, estimator.fit_alike(sets), strict=True):
                if fit is not None:
                    vars(each)[name] = fit  # in place of the cached property
        yield from batch


def learn_pools(scenes: Iterable[AgentForecasts], is_joint: Sequence[bool]) -> Pools:
    """Return the pools of paths of single agents, and of all agents of a scene together.

    Paths of every set of steps have a pool of their own, if there are enough of them; the pool of
    all steps has the marginal densities of rare ones.
    """
    found: dict[tuple[bool, bytes], dict[int, list[Paths]]] = defaultdict(lambda: defaultdict(list))
    for block in scenes:
        degeneracy = step_degeneracy(block)
        for joint in is_joint:
            size = block.n_agents if joint else 1
            for start in range(0, len(block.paths), size):
                own = {
                    each.pool: each
                    for paths in paths_by_steps(block, slice(start, start + size), degeneracy)
                    for each in (paths, paths.whole)
                    if each is not None and each.can_be_pooled
                }
                for key, each in own.items():
                    found[joint, key][len(each.samples)].append(
                        replace(each, truths=each.truths[:0])
                    )
    pools = {}
    for kind, by_size in found.items():
        # Scenes with another number of samples than most are left out.
        alike = max(by_size.values(), key=lambda each: (len(each), -len(each[0].samples)))
        pools[kind] = ScenePool.from_scenes(in_own_frames(alike)[0], alike[0].translations)
    return {kind: pool for kind, pool in pools.items() if pool is not None}


def pooled_log_densities(
    scenes: Sequence[Paths], is_joint: bool, pools: Pools
) -> list[np.ndarray | None]:
    """Return the log densities (m,) of the truths of every scene, None without a pool for it.

    Scenes of equal size are evaluated together, in batches.
    """
    out: list[np.ndarray | None] = [None] * len(scenes)
    alike: dict[tuple[bytes, bytes, int, int], list[tuple[int, Paths]]] = defaultdict(list)
    for i, paths in enumerate(scenes):
        for each in (paths, paths.whole):
            if each is not None and each.can_be_pooled and (is_joint, each.pool) in pools:
                kind = each.pool, paths.pool, len(each.samples), len(each.truths)
                alike[kind].append((i, each))
                break
    for (key, steps, n_samples, _), members in alike.items():
        size = max(1, _BATCH // n_samples)
        for start in range(0, len(members), size):
            places, batch = zip(*members[start : start + size], strict=True)
            framed, truths = in_own_frames(batch)
            columns = None
            if steps != key:
                columns = np.flatnonzero(~np.isnan(truths[0, 0]))
                truths = truths[..., columns]
            found = pools[is_joint, key].logpdf(framed, truths, columns)
            for place, row in zip(places, found, strict=True):
                out[place] = row
    return out


def leave_one_out(model: Any, X: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Return the log density of a fit at its own samples, each without its own kernel.

    A density that does not have one kernel per sample is evaluated as it is. The other kernels
    are summed instead of subtracting the own one: in 24 dimensions, an own kernel of Silverman's
    bandwidth is about ten orders of magnitude above all others, and rounding would remove them.
    """
    if isinstance(model, SmallFit):
        return model.left_out
    density = getattr(model, "density_", None)
    if isinstance(density, KernelMixture) and (own := _own_kernels(density.means, X)) is not None:
        return _sums_of_others(density, X, own, counts)
    return np.asarray(model.score_samples(X))


def _own_kernels(means: np.ndarray, X: np.ndarray) -> np.ndarray | None:
    """Return the kernel whose mean is each sample, None unless every kernel has its sample."""
    places = {row.tobytes(): k for k, row in enumerate(means + 0.0)}  # -0.0 becomes 0.0
    own = np.array([places.get(row.tobytes(), -1) for row in X + 0.0])
    if (own < 0).any() or len(places) < len(means) or len(np.unique(own)) < len(means):
        return None
    return own


def _sums_of_others(
    density: KernelMixture, X: np.ndarray, own: np.ndarray, counts: np.ndarray | None
) -> np.ndarray:
    groups = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
    log_dets = density.log_dets - 0.5 * density.n_features * np.log(2 * np.pi)
    rows = np.empty(density.n_kernels, dtype=np.int64)
    rows[own] = np.arange(len(X))
    with np.errstate(divide="ignore"):
        # A kernel may stand for several equal samples, of which one is left out.
        total, each = (len(X), 1) if counts is None else (counts.sum(), counts)
        log_left = np.log(np.maximum(density.weights[own] * total - each, 0).round(_DECIMALS))
    out = np.empty(len(X))
    log_sums_of_others(
        np.matmul(X - X.mean(axis=0), density.transforms),
        rows,
        groups,
        density.log_weights + log_dets[groups],
        own,
        log_left - np.log(total) + log_dets[groups[own]],
        np.empty(density.n_kernels),
        out,
    )
    return out if counts is None else out - np.log1p(-np.minimum(counts / total, _NEARLY_ONE))
