"""What can be measured of forecasts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True)
class Measure:
    """A measure, of which less is better.

    Attributes
    ----------
    about : str
        What it is.
    needs : {"paths", "density", "steps", "agents", "displacement"}
        What it is made from: samples of whole paths, their density, the densities of single
        steps, the density of all agents together, or distances from the truth.
    is_proper : bool
        Whether no forecast can do better than the truth's own distribution, on average. A
        density that is estimated from samples is proper but for its own error.
    several : bool
        Whether it needs several true futures.
    """

    about: str
    needs: str
    is_proper: bool = False
    several: bool = False


#: All measures by name; "k" stands for a number of samples.
MEASURES = {
    "nll": Measure("negative log density of the whole path, nats", "density", True),
    "nll_agent": Measure("the same, for every agent by itself", "density", True),
    "nll_agents": Measure("the same, for all agents of a scene together", "agents", True),
    "nll_per_value": Measure("nll by step and coordinate", "density", True),
    "nll_step": Measure("negative log density of single steps, mean over steps", "steps", True),
    "energy_score": Measure("energy score of the samples themselves", "paths", True),
    "ece": Measure("expected calibration error of highest-density regions", "density"),
    "kl": Measure("Kullback-Leibler divergence from the truth, nats", "density", True, True),
    "jsd": Measure("Jensen-Shannon divergence from the truth, bits", "density", False, True),
    "wasserstein": Measure("Wasserstein distance from the truth", "paths", False, True),
    "ade": Measure("mean displacement over steps, mean over samples", "displacement"),
    "fde": Measure("displacement at the last step, mean over samples", "displacement"),
    "min_ade_k": Measure("mean displacement of the nearest of k samples", "displacement"),
    "min_fde_k": Measure("last displacement of the nearest of k samples", "displacement"),
    "miss_rate": Measure("truths that end far from the nearest of k samples", "displacement"),
    "ade_likeliest": Measure("mean displacement of the likeliest sample", "density"),
}


def general_name(name: str) -> str:
    """Return the name of a measure with "k" in the place of a number of samples."""
    return re.sub(r"^(min_[af]de)_\d+$", r"\1_k", name)


def measure_of(name: str) -> Measure:
    """Return what a measure is."""
    return MEASURES[general_name(name)]


def chosen_measures(
    measures: Sequence[str] | str | None, ks: Sequence[int], n_truths: int, has_agents: bool
) -> tuple[str, ...]:
    """Return the names of the measures to take.

    Parameters
    ----------
    measures : sequence of str, optional
        The default is all that the forecasts allow, but for "nll_per_value"; the Wasserstein
        distance only where POT is installed.
    ks : sequence of int
        What "k" stands for in a name.
    n_truths : int
    has_agents : bool
    """
    if measures is None:
        possible = [name for name in MEASURES if _is_default(name, n_truths, has_agents)]
        return _with_numbers(possible, ks)
    names = [measures] if isinstance(measures, str) else list(measures)
    if not names:
        raise ValueError("measures must not be empty")
    for name in names:
        _check(name, ks, n_truths, has_agents)
    return _with_numbers(names, ks)


def _is_default(name: str, n_truths: int, has_agents: bool) -> bool:
    if name == "nll_per_value" or name in (("nll",) if has_agents else ("nll_agent", "nll_agents")):
        return False
    if name == "wasserstein" and find_spec("ot") is None:
        return False
    return n_truths > 1 or not MEASURES[name].several


def _check(name: Any, ks: Sequence[int], n_truths: int, has_agents: bool) -> None:
    """Refuse a measure that is none, or that these forecasts do not allow."""
    if not isinstance(name, str) or general_name(name) not in MEASURES:
        raise ValueError(f"measures must be among {list(MEASURES)}, got {name!r}")
    if name != general_name(name) and int(name.rsplit("_", 1)[1]) not in ks:
        raise ValueError(f"{name} is asked for, but k is {list(ks)}")
    if measure_of(name).several and n_truths < 2:
        raise ValueError(f"{name} needs several true futures in every scene, but there is one")
    if name == "nll" and has_agents:
        raise ValueError(
            "nll could be meant by agent or for all agents together; ask for 'nll_agent' or "
            "'nll_agents'"
        )
    if name in ("nll_agent", "nll_agents") and not has_agents:
        raise ValueError(f"{name} needs an axis of agents; without one, ask for 'nll'")


def _with_numbers(names: Sequence[str], ks: Sequence[int]) -> tuple[str, ...]:
    """Return names in which numbers of samples stand for "k"."""
    out = []
    for name in names:
        out += [name[:-1] + str(k) for k in ks] if name.endswith("_k") else [name]
    return tuple(dict.fromkeys(out))
