"""The measures, and the scores of a block of scenes."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist

from ..kernels.path_densities import EMPTY, FEW, FLAT, IDENTICAL
from ..metrics import wasserstein
from .path_densities import (
    REFUSED,
    AgentForecasts,
    FlooredEstimator,
    PathDensity,
    Paths,
    StepDensities,
    paths_by_horizon,
    step_degeneracy,
    step_densities,
)

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
    "nll_per_value": Measure("density", is_proper=True),
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
    """Return the names of the measures to compute, with the values of "k" in them.

    By default these are all that the forecasts allow, except "nll_per_value"; "wasserstein" only
    if POT is installed.
    """
    if measures is None:
        possible = [name for name in MEASURES if _is_default(name, n_truths, has_agents)]
        return _with_numbers(possible, ks)
    names = [measures] if isinstance(measures, str) else list(measures)
    if not names:
        raise ValueError("measures must not be empty")
    for name in names:
        _check_measure(name, ks, n_truths, has_agents)
    return _with_numbers(names, ks)


def _is_default(name: str, n_truths: int, has_agents: bool) -> bool:
    if name == "nll_per_value" or name in (("nll",) if has_agents else ("nll_agent", "nll_agents")):
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


def _with_numbers(names: Sequence[str], ks: Sequence[int]) -> tuple[str, ...]:
    """Return names with numbers of samples in place of "k"."""
    out = []
    for name in names:
        out += [name[:-1] + str(k) for k in ks] if name.endswith("_k") else [name]
    return tuple(dict.fromkeys(out))


@dataclass(frozen=True)
class Scoring:
    """Measures to compute, and their parameters; see ``evaluate``."""

    measures: tuple[str, ...]
    paths: FlooredEstimator  # densities of whole paths
    steps: FlooredEstimator  # densities of single steps
    ks: tuple[int, ...]
    miss_threshold: float
    lower_bound: float | None

    def needs(self, *sources: str) -> bool:
        """Whether a measure needs one of these; see :class:`Measure`."""
        return any(measure_of(name).needs in sources for name in self.measures)

    def has(self, *names: str) -> bool:
        """Whether one of these measures is computed."""
        return any(name in self.measures for name in names)


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
        if degeneracy not in _NAMES:
            return
        name = _NAMES[degeneracy]
        self.counts[f"{name} {of}"] += 1
        if estimator.is_degenerate(degeneracy):
            self.affected[of] += 1
            if len(self.places) < _N_PLACES:
                self.places.append((scene, f"{place} ({name})"))

    def add_steps(self, degeneracy: np.ndarray, estimator: FlooredEstimator, n_agents: int) -> None:
        """Count the degenerate steps of agents (N, T)."""
        for i, t in np.argwhere(degeneracy != 0).tolist():
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
    paths: np.ndarray, truths: np.ndarray, floors: np.ndarray, uniform: np.ndarray, scoring: Scoring
) -> BlockScores:
    """Return the scores of paths (B, K, A, T, D) for truths (B, L, A, T, D) and floors (B, A).

    The uniform random numbers (B, A, L) break ties of densities.
    """
    n_scenes, n_agents, n_truths = uniform.shape
    agents, degenerate = AgentForecasts.from_scenes(paths, truths, floors), DegenerateSamples()
    scores: dict[str, np.ndarray] = {}
    degeneracy = np.zeros((len(agents.paths), paths.shape[3]), dtype=np.int64)
    levels = np.full((n_scenes, n_agents * n_truths), np.nan)
    if scoring.needs("displacement"):
        scores |= _displacements(agents, scoring)
    if scoring.needs("steps"):
        steps = step_densities(agents, scoring.steps)
        degeneracy = steps.degeneracy
        scores["nll_step"] = _step_nll(steps, scoring.lower_bound, degenerate)
        degenerate.add_steps(degeneracy, scoring.steps, n_agents)
    elif scoring.needs("density", "agents"):
        degeneracy = step_degeneracy(agents)
    if scoring.needs("paths", "density"):
        found = _path_scores(agents, degeneracy, uniform.reshape(-1, n_truths), scoring, degenerate)
        levels = found.pop("ece", levels).reshape(n_scenes, -1)
        scores |= {name: mean_of_valid(values) for name, values in found.items()}
    scores = {k: mean_of_valid(v.reshape(n_scenes, n_agents)) for k, v in scores.items()}
    if scoring.needs("agents"):
        scores["nll_agents"] = _joint_nll(agents, degeneracy, scoring, degenerate)
    degenerate.counts["short samples"] += agents.n_short
    absent = (agents.horizons == 0).all(axis=1).reshape(n_scenes, n_agents).all(axis=1)
    degenerate.counts["scenes without truth"] += int(absent.sum())
    scenes = {name: scores[name] for name in scoring.measures if name != "ece"}
    return BlockScores(scenes, levels, degenerate)


def mean_of_valid(values: np.ndarray) -> np.ndarray:
    """Return the means over the last axis without NaN, NaN where all values are NaN."""
    valid = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(valid, values, 0.0).sum(axis=-1) / valid.sum(axis=-1))


# Displacements


def _displacements(agents: AgentForecasts, scoring: Scoring) -> dict[str, np.ndarray]:
    """Return the measures (N,) of displacement, averaged over truths."""
    by_truth = [
        displacement_scores(*_distances(agents, future), scoring.ks, scoring.miss_threshold)
        for future in range(agents.truths.shape[1])
    ]
    return {
        name: mean_of_valid(np.stack([each[name] for each in by_truth], axis=-1))
        for name in by_truth[0]
    }


def _distances(agents: AgentForecasts, future: int) -> tuple[np.ndarray, np.ndarray]:
    """Return average and final distances (N, K) of samples from a truth.

    They are infinite for samples that do not reach the horizon.
    """
    horizons = agents.horizons[:, future]
    apart = np.sqrt(((agents.paths - agents.truths[:, future, None]) ** 2).sum(axis=-1))
    within = np.arange(apart.shape[2]) < horizons[:, None, None]
    reaching = agents.reaching(future)
    total = np.where(within & reaching[:, :, None], apart, 0.0).sum(axis=2)
    last = np.maximum(horizons - 1, 0)[:, None, None]
    final = np.take_along_axis(apart, last, axis=2)[:, :, 0]
    average = total / np.maximum(horizons, 1)[:, None]
    return np.where(reaching, average, np.inf), np.where(reaching, final, np.inf)


def displacement_scores(
    average: np.ndarray, final: np.ndarray, ks: Sequence[int], miss_threshold: float
) -> dict[str, np.ndarray]:
    """Return all measures (N,) of displacement, NaN without a truth.

    Distances (N, K) from the truth are infinite for samples that do not count. The nearest of k
    samples is that of the first k that count.
    """
    finite = np.isfinite(average)
    out = {
        "ade": mean_of_valid(np.where(finite, average, np.nan)),
        "fde": mean_of_valid(np.where(np.isfinite(final), final, np.nan)),
    }
    rank = np.cumsum(finite, axis=1)
    for k in ks:
        for name, values in (("ade", average), ("fde", final)):
            nearest = np.where(rank <= k, values, np.inf).min(axis=1)
            out[f"min_{name}_{k}"] = np.where(np.isfinite(nearest), nearest, np.nan)
    nearest = out[f"min_fde_{max(ks)}"]
    out["miss_rate"] = np.where(np.isnan(nearest), np.nan, nearest > miss_threshold)
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


def _path_scores(
    agents: AgentForecasts,
    degeneracy: np.ndarray,
    uniform: np.ndarray,
    scoring: Scoring,
    degenerate: DegenerateSamples,
) -> dict[str, np.ndarray]:
    """Return the measures (N, L) of whole paths; those of "ece" are levels."""
    names = [name for name in scoring.measures if measure_of(name).needs in ("paths", "density")]
    out = {name: np.full(uniform.shape, np.nan) for name in names}
    for i in range(len(agents.paths)):
        scene, agent = divmod(i, agents.n_agents)
        place = f"agent {agent}" if agents.n_agents > 1 else "path"
        for paths in paths_by_horizon(agents, slice(i, i + 1), degeneracy):
            scores = _sample_scores(paths, scoring)
            if scoring.needs("density"):
                density = PathDensity.fit(paths, scoring.paths, float(agents.floors[i]))
                degenerate.add("paths", density.degeneracy, scoring.paths, scene, place)
                if density.model is not None:
                    scores |= _density_scores(density, uniform[i, paths.futures], scoring)
                    if scoring.has("ade_likeliest"):
                        scores["ade_likeliest"] = _likeliest_ade(density, agents, i)
            for name, value in scores.items():
                out[name][i, paths.futures] = value
    return out


def _sample_scores(paths: Paths, scoring: Scoring) -> dict[str, np.ndarray | float]:
    """Return the measures that need no density."""
    out: dict[str, np.ndarray | float] = {}
    if scoring.has("energy_score"):
        out["energy_score"] = energy_scores(paths.samples, paths.truths, paths.n_steps)
    if scoring.has("wasserstein"):
        distance = float(wasserstein(paths.samples, paths.truths))
        out["wasserstein"] = distance / float(np.sqrt(paths.n_steps))
    return out


def energy_scores(samples: np.ndarray, truths: np.ndarray, n_steps: int) -> np.ndarray:
    r"""Return the fair energy score of every truth (m, M); NaN for a single sample.

    .. math:: \frac{1}{\sqrt T} \Big( \frac{1}{n} \sum_i \lVert x_i - y \rVert -
              \frac{1}{2 n (n - 1)} \sum_{i \ne j} \lVert x_i - x_j \rVert \Big)

    for paths of :math:`T` steps. The second sum leaves out pairs of a sample with itself, so that
    the expected score does not depend on the number of samples [1]_. Division by :math:`\sqrt T`
    turns distances between paths into root mean square distances of their points.

    References
    ----------
    .. [1] C. Ferro, "Fair scores for ensemble forecasts", Quarterly Journal of the Royal
       Meteorological Society 140 (2014).
    """
    n = len(samples)
    if n < 2:
        return np.full(len(truths), np.nan)
    within = pdist(samples).sum() / (n * (n - 1))
    return np.asarray((cdist(truths, samples).mean(axis=1) - within) / np.sqrt(n_steps))


def _density_scores(
    density: PathDensity, uniform: np.ndarray, scoring: Scoring
) -> dict[str, np.ndarray | float]:
    """Return the measures that a density and the truths give, for every truth or for all."""
    out: dict[str, np.ndarray | float] = {}
    nll_names = [name for name in ("nll", "nll_agent", "nll_per_value") if scoring.has(name)]
    if nll_names:
        nll, n_values = -density.log_densities(), density.paths.samples.shape[1]
        out |= {name: nll / n_values if name == "nll_per_value" else nll for name in nll_names}
    if scoring.has("ece"):
        out["ece"] = density.levels(uniform)
    if scoring.has("kl", "jsd"):
        divergences = zip(("kl", "jsd"), density.divergences(), strict=True)
        out |= {name: value for name, value in divergences if scoring.has(name)}
    return out


def _likeliest_ade(density: PathDensity, agents: AgentForecasts, i: int) -> np.ndarray:
    """Return the mean distance between the likeliest sample of an agent and every truth."""
    paths = density.paths
    likeliest = agents.paths[i, paths.members[density.likeliest()], : paths.n_steps]
    apart = likeliest - agents.truths[i, paths.futures, : paths.n_steps]
    return np.asarray(np.sqrt((apart**2).sum(axis=-1)).mean(axis=-1))


def _joint_nll(
    agents: AgentForecasts, degeneracy: np.ndarray, scoring: Scoring, degenerate: DegenerateSamples
) -> np.ndarray:
    """Return the negative log density (B,) of all agents of a scene together."""
    out = np.full((agents.n_scenes, agents.truths.shape[1]), np.nan)
    for scene in range(agents.n_scenes):
        which = slice(scene * agents.n_agents, (scene + 1) * agents.n_agents)
        floor = float(np.sqrt((agents.floors[which] ** 2).mean()))
        for paths in paths_by_horizon(agents, which, degeneracy):
            density = PathDensity.fit(paths, scoring.paths, floor)
            degenerate.add("joint paths", density.degeneracy, scoring.paths, scene, "all agents")
            if density.model is not None:
                out[scene, paths.futures] = -density.log_densities()
    return mean_of_valid(out)
