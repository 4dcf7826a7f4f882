"""All measures of a block of scenes."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from .cells import Cases
from .displacement import Displacements
from .divergences import energy_scores, transport_distance
from .joint import PathDensity, Problem, problems
from .measures import measure_of
from .recipes import KINDS, Recipe
from .steps import StepDensities, kinds_of_steps, mean_of_valid, step_densities

#: How many degenerate places a block remembers.
_REMEMBERED = 5


@dataclass(frozen=True)
class Plan:
    """What is to be measured, and how.

    Attributes
    ----------
    names : tuple of str
        The measures.
    paths, steps : Recipe
        The densities of whole paths and of single steps.
    ks : tuple of int
        Numbers of samples to choose the nearest among.
    miss_threshold : float
    lower_bound : float or None
        Log densities of single steps below it are raised to it.
    """

    names: tuple[str, ...]
    paths: Recipe
    steps: Recipe
    ks: tuple[int, ...]
    miss_threshold: float
    lower_bound: float | None

    def needs(self, *what: str) -> bool:
        """Whether some measure is made from one of these."""
        return any(measure_of(name).needs in what for name in self.names)

    def takes(self, *names: str) -> bool:
        """Whether one of these measures is to be taken."""
        return any(name in self.names for name in names)


@dataclass(frozen=True, eq=False)
class Tally:
    """Degenerate samples that were met.

    Attributes
    ----------
    counts : Counter
        How many, by kind and by what they are samples of.
    affected : Counter
        How many of those are no matter of course for their estimator, by what they are samples of.
    places : list of tuple
        The scene of the first of these in the block, and how to speak of the place within it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    affected: Counter[str] = field(default_factory=Counter)
    places: list[tuple[int, str]] = field(default_factory=list)

    def add(self, of: str, kind: int, recipe: Recipe, scene: int, place: str) -> None:
        """Note what is wrong with some samples, if anything is."""
        if kind not in KINDS:
            return
        self.counts[f"{KINDS[kind]} {of}"] += 1
        if recipe.is_wrong(kind):
            self.affected[of] += 1
            if len(self.places) < _REMEMBERED:
                self.places.append((scene, f"{place} ({KINDS[kind]})"))


@dataclass(frozen=True, eq=False)
class Measured:
    """The measures of a block of B scenes.

    Attributes
    ----------
    scenes : dict of str to ndarray of shape (B,)
    levels : ndarray of shape (B, A L)
        The mass of the smallest highest-density region that holds each truth.
    tally : Tally
    """

    scenes: dict[str, np.ndarray]
    levels: np.ndarray
    tally: Tally


def measure_block(
    paths: np.ndarray, truths: np.ndarray, floors: np.ndarray, uniform: np.ndarray, plan: Plan
) -> Measured:
    """Take all measures of some scenes.

    Parameters
    ----------
    paths : ndarray of shape (B, K, A, T, D)
    truths : ndarray of shape (B, L, A, T, D)
    floors : ndarray of shape (B, A)
    uniform : ndarray of shape (B, A, L)
        Uniform numbers that part ties of densities.
    plan : Plan
    """
    n_scenes, n_agents, n_truths = uniform.shape
    cases, tally = Cases.of(paths, truths, floors), Tally()
    found: dict[str, np.ndarray] = {}
    if plan.needs("displacement"):
        found |= _displacements(cases, plan)
    kinds = np.zeros(cases.paths.shape[::2], dtype=np.int64)
    if plan.needs("steps"):
        steps = step_densities(cases, plan.steps, plan.lower_bound)
        found["nll_step"], kinds = steps.nll(), steps.kinds
        _note_steps(steps, plan.steps, n_agents, tally)
    elif plan.needs("density", "agents"):
        kinds = kinds_of_steps(cases)
    levels = np.full((n_scenes, n_agents * n_truths), np.nan)
    if plan.needs("paths", "density"):
        by_future = _path_measures(cases, kinds, uniform.reshape(-1, n_truths), plan, tally)
        levels = by_future.pop("levels", levels).reshape(n_scenes, -1)
        found |= {name: mean_of_valid(values) for name, values in by_future.items()}
    by_scene = {k: mean_of_valid(v.reshape(n_scenes, n_agents)) for k, v in found.items()}
    if plan.needs("agents"):
        by_scene["nll_agents"] = _nll_of_agents(cases, kinds, n_agents, plan, tally)
    tally.counts["short samples"] += cases.n_short
    absent = (cases.horizons == 0).all(axis=1).reshape(n_scenes, n_agents).all(axis=1)
    tally.counts["scenes without truth"] += int(absent.sum())
    scenes = {name: by_scene[name] for name in plan.names if name != "ece"}
    return Measured(scenes, levels, tally)


def _displacements(cases: Cases, plan: Plan) -> dict[str, np.ndarray]:
    """Return the measures (C,) of displacement, over truths."""
    each = [
        Displacements.of(cases, future).measures(plan.ks, plan.miss_threshold)
        for future in range(cases.truths.shape[1])
    ]
    return {name: mean_of_valid(np.stack([one[name] for one in each], -1)) for name in each[0]}


def _note_steps(steps: StepDensities, recipe: Recipe, n_agents: int, tally: Tally) -> None:
    for c, t in np.argwhere(steps.kinds != 0).tolist():
        place = f"agent {c % n_agents}, step {t}" if n_agents > 1 else f"step {t}"
        tally.add("cells", int(steps.kinds[c, t]), recipe, c // n_agents, place)
    tally.counts["clipped cells"] += steps.n_clipped


def _path_measures(
    cases: Cases, kinds: np.ndarray, uniform: np.ndarray, plan: Plan, tally: Tally
) -> dict[str, np.ndarray]:
    """Return what is made from whole paths, (C, L) for every measure."""
    out: dict[str, np.ndarray] = {}
    n_agents = len(cases.paths) // cases.n_scenes
    for c in range(len(cases.paths)):
        who = f"agent {c % n_agents}" if n_agents > 1 else "path"
        this = slice(c, c + 1)
        for problem in problems(cases.group(this), kinds[this]):
            numbers = uniform[c, problem.futures]
            density = None
            if plan.needs("density"):
                density = PathDensity.of(problem, plan.paths, float(cases.floors[c]))
                tally.add("paths", density.kind, plan.paths, c // n_agents, who)
            values = _sample_measures(problem, plan)
            if density is not None and density.model is not None:
                values |= _density_measures(density, cases, c, numbers, plan)
            for name, value in values.items():
                out.setdefault(name, np.full(uniform.shape, np.nan))[c, problem.futures] = value
    return {name: out.get(name, np.full(uniform.shape, np.nan)) for name in _path_names(plan)}


def _path_names(plan: Plan) -> list[str]:
    names = [name for name in plan.names if measure_of(name).needs in ("paths", "density")]
    return ["levels" if name == "ece" else name for name in names]


def _sample_measures(problem: Problem, plan: Plan) -> dict[str, np.ndarray | float]:
    """Return what is made from the samples themselves."""
    out: dict[str, np.ndarray | float] = {}
    if plan.takes("energy_score"):
        out["energy_score"] = energy_scores(problem)
    if plan.takes("wasserstein"):
        out["wasserstein"] = transport_distance(problem)
    return out


def _density_measures(
    density: PathDensity, cases: Cases, c: int, uniform: np.ndarray, plan: Plan
) -> dict[str, np.ndarray | float]:
    """Return what is made from the density of a problem, for every truth of it or for all."""
    problem, out = density.problem, dict[str, np.ndarray | float]()
    if plan.takes("nll", "nll_agent", "nll_per_value"):
        nll = -density.log_densities()
        out |= {"nll": nll, "nll_agent": nll, "nll_per_value": nll / problem.samples.shape[1]}
    if plan.takes("ece"):
        out["levels"] = density.levels(uniform)
    if plan.takes("ade_likeliest"):
        likeliest = problem.members[density.likeliest()]
        apart = (
            cases.paths[c, likeliest, : problem.n_steps]
            - (cases.truths[c, problem.futures, : problem.n_steps])
        )
        out["ade_likeliest"] = np.sqrt((apart**2).sum(axis=-1)).mean(axis=-1)
    if plan.takes("kl", "jsd"):
        out["kl"], out["jsd"] = density.divergences()
    return out


def _nll_of_agents(
    cases: Cases, kinds: np.ndarray, n_agents: int, plan: Plan, tally: Tally
) -> np.ndarray:
    """Return the negative log density (B,) of all agents of a scene together."""
    out = np.full((cases.n_scenes, cases.truths.shape[1]), np.nan)
    for scene in range(cases.n_scenes):
        agents = slice(scene * n_agents, (scene + 1) * n_agents)
        floor = float(np.sqrt((cases.floors[agents] ** 2).mean()))
        for problem in problems(cases.group(agents), kinds[agents]):
            density = PathDensity.of(problem, plan.paths, floor)
            tally.add("joint paths", density.kind, plan.paths, scene, "all agents")
            if density.model is not None:
                out[scene, problem.futures] = -density.log_densities()
    return mean_of_valid(out)
