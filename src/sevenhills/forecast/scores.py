"""The measures, and the scores of a block of scenes."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist

from ..kernels.path_densities import EMPTY, FEW, FLAT, IDENTICAL, REGULAR
from ..metrics import wasserstein
from .path_densities import (
    REFUSED,
    AgentForecasts,
    FlooredEstimator,
    PathDensity,
    Paths,
    StepDensities,
    paths_by_steps,
    step_degeneracy,
    step_densities,
)
from .pooled import Pools

_NAMES = {IDENTICAL: "identical", FLAT: "flat", FEW: "few", EMPTY: "empty", REFUSED: "refused"}
#: Degenerate samples per block that an error message can name.
_N_PLACES = 5


@dataclass(frozen=True)
class Measure:
    """Properties of a measure; smaller values are better.

    Attributes
    ----------
    needs : {"paths", "density", "steps", "agents", "displacement"}
        Where it comes from: sampled paths, their density, densities of single steps, the joint
        density of all agents, or distances from the truth.
    is_proper : bool
        Whether the distribution of the truth has the best expected score, up to the error of a
        density that is estimated from samples.
    several : bool
        Whether it needs several true futures.
    """

    needs: str
    is_proper: bool = False
    several: bool = False


#: All measures by name, where "k" stands for a number of samples; see ``evaluate``.
MEASURES = {
    "nll": Measure("density", is_proper=True),
    "nll_agent": Measure("density", is_proper=True),
    "nll_agents": Measure("agents", is_proper=True),
    "nll_step": Measure("steps", is_proper=True),
    "energy_score": Measure("paths", is_proper=True),
    "ece": Measure("density"),
    "kl": Measure("density", is_proper=True, several=True),
    "jsd": Measure("density", several=True),
    "wasserstein": Measure("paths", several=True),
    "ade": Measure("displacement"),
    "fde": Measure("displacement"),
    "min_ade_k": Measure("displacement"),
    "min_fde_k": Measure("displacement"),
    "miss_rate": Measure("displacement"),
    "ade_likeliest": Measure("density"),
}


def measure_of(name: str) -> Measure:
    """Return the properties of a measure, "min_ade_20" for instance."""
    return MEASURES[_general_name(name)]


def _general_name(name: str) -> str:
    """Return the name of a measure with "k" in place of a number of samples."""
    return re.sub(r"^(min_[af]de)_\d+$", r"\1_k", name)


def choose_measures(
    measures: Sequence[str] | str | None, ks: Sequence[int], n_truths: int, has_agents: bool
) -> tuple[str, ...]:
    """Return the names of the measures to compute, with numbers of samples in place of "k".

    By default these are all that the forecasts allow; "wasserstein" only if POT is installed.
    """
    if measures is None:
        names = [name for name in MEASURES if _is_default(name, n_truths, has_agents)]
    else:
        names = [measures] if isinstance(measures, str) else list(measures)
        for name in names:
            _check_measure(name, ks, n_truths, has_agents)
    if not names:
        raise ValueError("measures must not be empty")
    numbered = ([n[:-1] + str(k) for k in ks] if n.endswith("_k") else [n] for n in names)
    return tuple(dict.fromkeys(chain.from_iterable(numbered)))


def _is_default(name: str, n_truths: int, has_agents: bool) -> bool:
    if name in (("nll",) if has_agents else ("nll_agent", "nll_agents")):
        return False
    if name == "wasserstein" and find_spec("ot") is None:
        return False
    return n_truths > 1 or not MEASURES[name].several


def _check_measure(name: Any, ks: Sequence[int], n_truths: int, has_agents: bool) -> None:
    """Refuse unknown measures, and those that the forecasts do not allow."""
    if not isinstance(name, str) or _general_name(name) not in MEASURES:
        raise ValueError(f"measures must be among {list(MEASURES)}, got {name!r}")
    if name != _general_name(name) and int(name.rsplit("_", 1)[1]) not in ks:
        raise ValueError(f"measure {name} needs its number in k, which is {list(ks)}")
    if measure_of(name).several and n_truths < 2:
        raise ValueError(f"measure {name} needs several true futures per scene, got one")
    if name == "nll" and has_agents:
        raise ValueError("with agents=True, nll is ambiguous; pass 'nll_agent' or 'nll_agents'")
    if name in ("nll_agent", "nll_agents") and not has_agents:
        raise ValueError(f"measure {name} needs an axis of agents; without one, pass 'nll'")


@dataclass(frozen=True)
class Scoring:
    """Measures to compute, and their parameters; see ``evaluate``."""

    measures: tuple[str, ...]
    paths: FlooredEstimator  # densities of whole paths
    steps: FlooredEstimator  # densities of single steps
    ks: tuple[int, ...]
    miss_threshold: float
    lower_bound: float | None
    pools: Pools = field(default_factory=dict)

    @property
    def joint_density(self) -> str:
        """Name of the density of whole paths that was used."""
        is_missing = self.paths.name == "pooled" and not self.pools
        return "rome" if is_missing else self.paths.name

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
    scores: dict[str, np.ndarray] = {}
    degeneracy = np.full((len(agents.paths), paths.shape[3]), REGULAR)
    if scoring.needing("displacement"):
        scores |= _displacements(agents, scoring)
    if scoring.needing("steps"):
        steps = step_densities(agents, scoring.steps)
        degeneracy = steps.degeneracy
        scores["nll_step"] = _step_nll(steps, scoring.lower_bound, degenerate)
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


# Displacements


def _displacements(agents: AgentForecasts, scoring: Scoring) -> dict[str, np.ndarray]:
    """Return the measures (N,) of displacement, averaged over truths."""
    by_truth = [
        _displacements_from(future, agents, scoring) for future in range(agents.truths.shape[1])
    ]
    return {
        name: mean_of_valid(np.stack([each[name] for each in by_truth], axis=-1))
        for name in by_truth[0]
    }


def _displacements_from(
    future: int, agents: AgentForecasts, scoring: Scoring
) -> dict[str, np.ndarray]:
    """Return the measures (N,) of displacement from a truth, NaN without it.

    The nearest of k samples is that of the first k that reach the horizon.
    """
    horizons = agents.horizons[:, future, None]
    reaching = (agents.lengths >= horizons) & (horizons > 0)
    apart = np.sqrt(((agents.paths - agents.truths[:, future, None]) ** 2).sum(axis=-1))
    observed = agents.observed[:, future, None]
    total = np.where(observed & reaching[:, :, None], apart, 0.0).sum(axis=2)
    last = np.maximum(horizons - 1, 0)[..., None]
    distances = {
        "ade": total / np.maximum(observed.sum(axis=2), 1),
        "fde": np.take_along_axis(apart, last, axis=2)[:, :, 0],
    }
    rank = np.cumsum(reaching, axis=1)
    out = {}
    for name, values in distances.items():
        out[name] = mean_of_valid(np.where(reaching, values, np.nan), agents.weights)
        for k in scoring.ks:
            nearest = np.where(reaching & (rank <= k), values, np.inf).min(axis=1)
            out[f"min_{name}_{k}"] = np.where(np.isfinite(nearest), nearest, np.nan)
    nearest = out[f"min_fde_{max(scoring.ks)}"]
    out["miss_rate"] = np.where(np.isnan(nearest), np.nan, nearest > scoring.miss_threshold)
    return out


# Steps and paths


def _step_nll(
    steps: StepDensities, lower_bound: float | None, degenerate: DegenerateSamples
) -> np.ndarray:
    """Return the negative log density (N,), averaged over steps and then over truths."""
    values = steps.log_densities
    if lower_bound is not None:
        degenerate.counts["clipped steps"] += int(np.count_nonzero(values < lower_bound))
        values = np.maximum(values, lower_bound)
    return -mean_of_valid(mean_of_valid(values))


def _energy_scores(paths: Paths) -> np.ndarray:
    """Return the fair energy score of every truth (m,); NaN for a single sample.

    The mean distance between samples leaves out pairs of a sample with itself, so that the expected
    score does not depend on their number (Ferro, "Fair scores for ensemble forecasts", 2014). Of
    samples with weights, the pairs have the products of weights, divided by their sum.
    """
    n, weights = len(paths.samples), paths.weights
    if n < 2:
        return np.full(len(paths.truths), np.nan)
    if weights is None:
        within = pdist(paths.samples).sum() / (n * (n - 1))
    else:
        pairs = np.outer(weights, weights)[np.triu_indices(n, 1)]
        within = pairs @ pdist(paths.samples) / (2 * pairs.sum())
    mean_distances = np.average(cdist(paths.truths, paths.samples), axis=1, weights=weights)
    return np.asarray((mean_distances - within) / np.sqrt(paths.n_steps))


def _wasserstein(paths: Paths) -> float:
    return float(wasserstein(paths.samples, paths.truths)) / float(np.sqrt(paths.n_steps))


#: Measures of sampled paths, for every truth or one value for all.
_OF_PATHS: dict[str, Callable[[Paths], Any]] = {
    "energy_score": _energy_scores,
    "wasserstein": _wasserstein,
}
#: Measures of the density of paths; the uniform random numbers (m,) break ties.
_OF_DENSITY: dict[str, Callable[[PathDensity, np.ndarray], Any]] = {
    "nll": lambda density, _: -density.at_truths,
    "nll_agent": lambda density, _: -density.at_truths,
    "nll_agents": lambda density, _: -density.at_truths,
    "ece": PathDensity.levels,
    "kl": lambda density, _: density.divergences[0],
    "jsd": lambda density, _: density.divergences[1],
    "ade_likeliest": lambda density, _: density.likeliest_ade(),
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
    names = scoring.needing("agents") if is_joint else scoring.needing("paths", "density")
    if not names:
        return {}
    kind, size, floors = "paths", 1, agents.floors
    if is_joint:
        kind, size = "joint paths", agents.n_agents
        floors = np.sqrt((floors.reshape(-1, size) ** 2).mean(axis=1))
    out = {name: np.full((len(floors), uniform.shape[1]), np.nan) for name in names}
    of_paths, of_density = ([n for n in names if n in each] for each in (_OF_PATHS, _OF_DENSITY))
    for i, floor in enumerate(floors.tolist()):
        scene, agent = divmod(i * size, agents.n_agents)
        who = "all agents" if is_joint else f"agent {agent}" if agents.n_agents > 1 else "path"
        for paths in paths_by_steps(agents, slice(i * size, (i + 1) * size), degeneracy):
            for name in of_paths:
                out[name][i, paths.futures] = _OF_PATHS[name](paths)
            if not of_density:
                continue
            pool = scoring.pools.get((is_joint, paths.pool))
            density = PathDensity(paths, scoring.paths, floor, pool)
            degenerate.add(kind, density.degeneracy, scoring.paths, scene, who)
            for name in of_density:
                if density.has_truths if name.startswith("nll") else density.model is not None:
                    scores = _OF_DENSITY[name](density, uniform[i, paths.futures])
                    out[name][i, paths.futures] = scores
    return out
