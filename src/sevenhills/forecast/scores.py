"""The measures, and the scores of a block of scenes."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from typing import Any, Self

import numpy as np

from ..metrics import wasserstein
from .distances import DISTANCES, collision_rates, scored_paths
from .fair_scores import FAIR_SCORES
from .inputs import Forecasts
from .path_densities import (
    REFUSED,
    AgentForecasts,
    FlooredEstimator,
    PathDensity,
    Paths,
    fit_in_batches,
    paths_by_steps,
    pooled_log_densities,
    step_degeneracy,
    step_densities,
)
from .pooled import Pools
from .step_kernels import EMPTY, FEW, FLAT, IDENTICAL, REGULAR

_NAMES = {IDENTICAL: "identical", FLAT: "flat", FEW: "few", EMPTY: "empty", REFUSED: "refused"}
#: Degenerate samples per block that an error message can name.
_N_PLACES = 5


@dataclass(frozen=True)
class Measure:
    """Properties of a measure; smaller values are better.

    Attributes
    ----------
    needs : {"density", "agents", "steps", "samples", "futures", "displacement", "collisions"}
        Where it comes from: the density of sampled paths, the joint density of all agents,
        densities of single steps, the samples themselves, samples and several true futures,
        distances from the truth, or distances between agents.
    is_proper : bool
        Whether the distribution of the truth has the best expected score, up to the error of a
        density that is estimated from samples.
    is_default : bool
        Whether it is computed unless measures are named.
    several : bool
        Whether it needs several true futures.
    weighted : bool
        Whether it needs weights of the samples.
    joint : bool
        Whether it is one of all agents of a scene together.
    """

    needs: str
    is_proper: bool = False
    is_default: bool = True
    several: bool = False
    weighted: bool = False
    joint: bool = False


#: All measures by name, where "k" stands for a number of samples; see ``evaluate``.
MEASURES = {
    "nll": Measure("density", is_proper=True),
    "nll_agent": Measure("density", is_proper=True),
    "nll_agents": Measure("agents", is_proper=True, joint=True),
    "nll_step": Measure("steps", is_proper=True),
    "energy_score": Measure("samples", is_proper=True),
    "energy_score_moves": Measure("samples", is_proper=True, is_default=False),
    "crps": Measure("samples", is_proper=True, is_default=False),
    "variogram_score": Measure("samples", is_proper=True, is_default=False),
    "ece": Measure("density"),
    "kl": Measure("density", is_proper=True, several=True),
    "jsd": Measure("density", several=True),
    "wasserstein": Measure("futures", several=True),
    "ade": Measure("displacement"),
    "fde": Measure("displacement"),
    "min_ade_k": Measure("displacement"),
    "min_fde_k": Measure("displacement"),
    "miss_rate_k": Measure("displacement"),
    "miss_rate_path_k": Measure("displacement", is_default=False),
    "brier_min_ade_k": Measure("displacement", weighted=True, is_default=False),
    "brier_min_fde_k": Measure("displacement", weighted=True),
    "ade_most_likely": Measure("displacement", weighted=True, is_default=False),
    "fde_most_likely": Measure("displacement", weighted=True, is_default=False),
    "ade_densest": Measure("density", is_default=False),
    "fde_densest": Measure("density", is_default=False),
    "min_jade_k": Measure("displacement", joint=True),
    "min_jfde_k": Measure("displacement", joint=True),
    "collision_rate": Measure("collisions", joint=True, is_default=False),
    "collision_rate_truth": Measure("collisions", joint=True, is_default=False),
}


def measure_of(name: str) -> Measure:
    """Return the properties of a measure, "min_ade_20" for instance."""
    return MEASURES[_general_name(name)]


def _general_name(name: str) -> str:
    """Return the name of a measure with "k" in place of a number of samples."""
    return re.sub(r"_\d+$", "_k", name)


def _number(name: str) -> int:
    """Return the number of samples in the name of a measure, 0 without one."""
    return 0 if name in MEASURES else int(name.rpartition("_")[2])


def choose_measures(
    measures: Sequence[str] | str | None, ks: Sequence[int], forecasts: Forecasts
) -> tuple[str, ...]:
    """Return the names of the measures to compute, with numbers of samples in place of "k".

    None and "all" stand for those that the forecasts allow; "wasserstein" only if POT is installed.
    """
    if measures is None or (isinstance(measures, str) and measures == "all"):
        names = [
            name
            for name, each in MEASURES.items()
            if (each.is_default or measures) and not _obstacle(name, forecasts)
        ]
        if find_spec("ot") is None and "wasserstein" in names:
            names.remove("wasserstein")
    else:
        names = [measures] if isinstance(measures, str) else list(measures)
        for name in names:
            _check_measure(name, ks, forecasts)
    if not names:
        raise ValueError("measures must not be empty")
    numbered = ([n[:-1] + str(k) for k in ks] if n.endswith("_k") else [n] for n in names)
    return tuple(dict.fromkeys(chain.from_iterable(numbered)))


def _check_measure(name: Any, ks: Sequence[int], forecasts: Forecasts) -> None:
    """Refuse unknown measures, and those that the forecasts do not allow."""
    if not isinstance(name, str) or _general_name(name) not in MEASURES:
        raise ValueError(f"measures must be 'all' or among {list(MEASURES)}, got {name!r}")
    if name not in MEASURES and _number(name) not in ks:
        raise ValueError(f"measure {name} needs its number in k, which is {list(ks)}")
    if obstacle := _obstacle(name, forecasts):
        raise ValueError(f"measure {name} {obstacle}")


def _obstacle(name: str, forecasts: Forecasts) -> str:
    """Return why the forecasts do not allow a measure, nothing if they do."""
    each = measure_of(name)
    if name == "nll" and forecasts.has_agents:
        return "is ambiguous with agents=True; pass 'nll_agent' or 'nll_agents'"
    if (each.joint or name == "nll_agent") and not forecasts.has_agents:
        return "needs an axis of agents" + ("; pass 'nll'" if name.startswith("nll") else "")
    if each.several and forecasts.n_truths < 2:
        return "needs several true futures per scene, got one"
    if each.weighted and forecasts.weights is None:
        return "needs weights of the samples"
    if each.joint and not forecasts.has_joint_weights:
        return "needs one weight for each sample, but weights differ between agents"
    return ""


@dataclass(frozen=True)
class Scoring:
    """Measures to compute, and their parameters; see ``evaluate``."""

    measures: tuple[str, ...]
    paths: FlooredEstimator  # densities of whole paths
    steps: FlooredEstimator  # densities of single steps
    ks: tuple[int, ...]
    miss_threshold: float
    collision_distance: float
    lower_bound: float | None
    pools: Pools = field(default_factory=dict)

    @property
    def sources(self) -> dict[str, str]:
        """Where the scores of every measure come from; see ``Row``."""
        of_paths = "rome" if self.paths.name == "pooled" else self.paths.short_name
        by_needs = {"steps": self.steps.short_name, "density": of_paths, "agents": of_paths}
        out = {name: by_needs.get(measure_of(name).needs, "samples") for name in self.measures}
        pooled = ("nll", "nll_agent", "nll_agents") if self.pools else ()
        return {name: "pooled" if name in pooled else source for name, source in out.items()}

    def needing(self, *sources: str) -> list[str]:
        """Return the measures that need one of these; see :class:`Measure`."""
        return [name for name in self.measures if measure_of(name).needs in sources]


@dataclass(frozen=True, eq=False)
class DegenerateSamples:
    """Degenerate samples of a block of scenes."""

    #: By degeneracy and by "steps", "paths" or "joint paths".
    counts: Counter[str] = field(default_factory=Counter)
    #: Those for which the estimator needs a floor, by "steps", "paths" or "joint paths".
    affected: Counter[str] = field(default_factory=Counter)
    #: Scene and description of the first of these.
    places: list[tuple[int, str]] = field(default_factory=list)

    def add(
        self, of: str, degeneracy: int, estimator: FlooredEstimator, scene: int, place: str
    ) -> None:
        """Count samples, if they are degenerate."""
        if degeneracy == REGULAR:
            return
        name = _NAMES[degeneracy]
        self.counts[f"{name} {of}"] += 1
        if estimator.is_degenerate(degeneracy):
            self.affected[of] += 1
            if len(self.places) < _N_PLACES:
                self.places.append((scene, f"{place} ({name})"))

    def add_steps(self, degeneracy: np.ndarray, estimator: FlooredEstimator, n_agents: int) -> None:
        """Count the degenerate steps of agents (N, T)."""
        for i, t in np.argwhere(degeneracy != REGULAR).tolist():
            place = f"agent {i % n_agents}, step {t}" if n_agents > 1 else f"step {t}"
            self.add("steps", int(degeneracy[i, t]), estimator, i // n_agents, place)


@dataclass(frozen=True, eq=False)
class BlockScores:
    """Scores of a block of B scenes."""

    scenes: dict[str, np.ndarray]  # (B,) by measure
    #: Probability (B, A L) of the smallest highest-density region that holds each truth.
    levels: np.ndarray
    degenerate: DegenerateSamples

    @classmethod
    def concatenate(cls, blocks: Sequence[Self]) -> Self:
        """Return the scores of all scenes of blocks that have the same measures."""
        degenerate = DegenerateSamples(
            sum((one.degenerate.counts for one in blocks), Counter[str]()),
            sum((one.degenerate.affected for one in blocks), Counter[str]()),
        )
        names = blocks[0].scenes
        scenes = {name: np.concatenate([one.scenes[name] for one in blocks]) for name in names}
        return cls(scenes, np.concatenate([one.levels for one in blocks]), degenerate)

    def __or__(self, other: Self) -> Self:
        """Return the measures of both, for the same scenes; one of them has the levels."""
        degenerate = DegenerateSamples(
            self.degenerate.counts | other.degenerate.counts,
            self.degenerate.affected | other.degenerate.affected,
        )
        levels = np.fmax(self.levels, other.levels)
        return type(self)({**self.scenes, **other.scenes}, levels, degenerate)


def score_block(
    paths: np.ndarray,
    truths: np.ndarray,
    floors: np.ndarray,
    uniform: np.ndarray,
    scoring: Scoring,
    weights: np.ndarray | None = None,
) -> BlockScores:
    """Return the scores of paths (B, K, A, T, D) for truths (B, L, A, T, D) and floors (B, A).

    The uniform random numbers (B, A, L) break ties of densities. Samples may have weights
    (B, K, A).
    """
    n_scenes, n_agents, n_truths = uniform.shape
    agents = AgentForecasts.from_scenes(paths, truths, floors, weights)
    degenerate = DegenerateSamples()
    scores = _sample_scores(agents, scoring.needing("displacement", "samples"), scoring)
    for name in scoring.needing("collisions"):
        scores[name] = collision_rates(agents, name, scoring.collision_distance)
    degeneracy = np.full((len(agents.paths), paths.shape[3]), REGULAR)
    if scoring.needing("steps"):
        steps = step_densities(agents, scoring.steps)
        degeneracy = steps.degeneracy
        scores["nll_step"] = step_nll(steps.log_densities, scoring.lower_bound, degenerate)
        degenerate.add_steps(degeneracy, scoring.steps, n_agents)
    elif scoring.needing("density", "agents"):
        degeneracy = step_degeneracy(agents)
    of_paths: dict[str, np.ndarray] = {}
    for is_joint in (False, True):
        ties = uniform.reshape(-1, n_truths)
        of_paths |= _path_scores(agents, is_joint, degeneracy, ties, scoring, degenerate)
    levels = of_paths.pop("ece", np.full(uniform.shape, np.nan)).reshape(n_scenes, -1)
    scores |= {name: mean_of_valid(values) for name, values in of_paths.items()}
    degenerate.counts["short samples"] += agents.n_short
    absent = (agents.horizons == 0).all(axis=1).reshape(n_scenes, n_agents).all(axis=1)
    degenerate.counts["scenes without truth"] += int(absent.sum())
    scenes = {
        name: mean_of_valid(scores[name].reshape(n_scenes, -1))
        for name in scoring.measures
        if name != "ece"
    }
    return BlockScores(scenes, levels, degenerate)


def mean_of_valid(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the means over the last axis without NaN, NaN where all values are NaN.

    Values may have weights of the same shape.
    """
    valid = ~np.isnan(values)
    if weights is not None:
        values, valid = values * weights, valid * weights
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(valid > 0, values, 0.0).sum(axis=-1) / valid.sum(axis=-1))


# Samples


def _sample_scores(
    agents: AgentForecasts, names: Sequence[str], scoring: Scoring
) -> dict[str, np.ndarray]:
    """Return measures of samples without a density, (N,) or (B,), averaged over truths."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for scored in scored_paths(agents) if names else ():
        for name in names:
            if name in FAIR_SCORES:
                found[name].append(FAIR_SCORES[name](scored))
            else:
                measure = DISTANCES[_general_name(name)]
                found[name].append(measure(scored, _number(name), scoring.miss_threshold))
    return {name: mean_of_valid(np.stack(each, axis=-1)) for name, each in found.items()}


# Steps and paths


def step_nll(
    values: np.ndarray, lower_bound: float | None, degenerate: DegenerateSamples
) -> np.ndarray:
    """Return the means of -1 times log densities (..., L, T), over steps and then over truths."""
    if lower_bound is not None:
        degenerate.counts["clipped steps"] += int(np.count_nonzero(values < lower_bound))
        values = np.maximum(values, lower_bound)
    return -mean_of_valid(mean_of_valid(values))


def _wasserstein(paths: Paths) -> float:
    found = wasserstein(paths.samples, paths.truths, sample_weight=paths.counts)
    return float(found) / float(np.sqrt(paths.n_steps))


#: Measures of the density of paths; the uniform random numbers (m,) break ties.
_OF_DENSITY: dict[str, Callable[[PathDensity, np.ndarray], Any]] = {
    "nll": lambda density, _: -density.at_truths,
    "nll_agent": lambda density, _: -density.at_truths,
    "nll_agents": lambda density, _: -density.at_truths,
    "ece": PathDensity.levels,
    "kl": lambda density, _: density.divergences[0],
    "jsd": lambda density, _: density.divergences[1],
    "ade_densest": lambda density, _: density.densest_distances().mean(axis=-1),
    "fde_densest": lambda density, _: density.densest_distances()[:, -1],
}


def _path_scores(
    agents: AgentForecasts,
    is_joint: bool,
    degeneracy: np.ndarray,
    uniform: np.ndarray,
    scoring: Scoring,
    degenerate: DegenerateSamples,
) -> dict[str, np.ndarray]:
    """Return the measures of whole paths, (N, L), or (B, L) of all agents of a scene together.

    Those of "ece" are levels.
    """
    names = scoring.needing("agents") if is_joint else scoring.needing("futures", "density")
    if not names:
        return {}
    kind, size, floors = "paths", 1, agents.floors
    if is_joint:
        kind, size = "joint paths", agents.n_agents
        floors = np.sqrt((floors.reshape(-1, size) ** 2).mean(axis=1))
    out = {name: np.full((len(floors), uniform.shape[1]), np.nan) for name in names}
    of_density = [name for name in names if name in _OF_DENSITY]
    places, every = [], []
    for i in range(len(floors)):
        for paths in paths_by_steps(agents, slice(i * size, (i + 1) * size), degeneracy):
            places.append(i)
            every.append(paths)
    pooled = pooled_log_densities(every, is_joint, scoring.pools)
    if "wasserstein" in names:
        for i, paths in zip(places, every, strict=True):
            out["wasserstein"][i, paths.futures] = _wasserstein(paths)
    if not of_density:
        return out
    densities = (
        PathDensity(paths, scoring.paths, float(floors[i]), at_truths)
        for i, paths, at_truths in zip(places, every, pooled, strict=True)
    )
    models = _models_for(of_density, pooled)
    for i, density in zip(places, fit_in_batches(densities, scoring.paths, models), strict=True):
        scene, agent = divmod(i * size, agents.n_agents)
        who = "all agents" if is_joint else f"agent {agent}" if agents.n_agents > 1 else "path"
        degenerate.add(kind, density.degeneracy, scoring.paths, scene, who)
        futures = density.paths.futures
        for name in of_density:
            # Levels have a model of their own, and pooled densities of truths need none.
            is_own = name == "ece" or (name.startswith("nll") and density.has_truths)
            if is_own or density.model is not None:
                out[name][i, futures] = _OF_DENSITY[name](density, uniform[i, futures])
    return out


def _models_for(names: Sequence[str], pooled: Sequence[np.ndarray | None]) -> list[str]:
    """Return the models that measures need; see :func:`fit_in_batches`."""
    likelihoods = [name for name in names if name.startswith("nll")]
    is_fitted = len(names) > len(likelihoods) + ("ece" in names)
    is_fitted |= bool(likelihoods) and any(each is None for each in pooled)
    return ["model"] * is_fitted + ["model_of_everything"] * ("ece" in names)
