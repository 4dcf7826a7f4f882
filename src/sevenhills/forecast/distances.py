"""Distances between sampled and true paths, of single agents and of all agents of a scene."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .path_densities import AgentForecasts

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class ScoredPaths:
    """One true future of all N agents, and the samples that reach its last observed step."""

    #: (N, K + 1, T, D), the samples and the truth after them; zeros where nothing is compared.
    paths: np.ndarray
    observed: np.ndarray  # (N, T)
    weights: np.ndarray  # (N, K), adding up to one, 0 for samples that end earlier
    n_scenes: int

    @cached_property
    def n_steps(self) -> np.ndarray:
        """Number (N,) of observed steps."""
        return np.count_nonzero(self.observed, axis=1)

    @cached_property
    def _apart(self) -> np.ndarray:
        """Distances (N, K, T) between samples and truth."""
        return np.sqrt(((self.paths[:, :-1] - self.paths[:, -1:]) ** 2).sum(axis=-1))

    @property
    def ade(self) -> np.ndarray:
        """Distance (N, K) between samples and truth, averaged over steps."""
        return np.asarray(self._apart.sum(axis=2) / np.maximum(self.n_steps, 1)[:, None])

    @property
    def fde(self) -> np.ndarray:
        """Distance (N, K) between samples and truth at the last observed step."""
        last = self.observed.shape[1] - 1 - self.observed[:, ::-1].argmax(axis=1)
        return np.take_along_axis(self._apart, last[:, None, None], axis=2)[:, :, 0]

    @property
    def largest(self) -> np.ndarray:
        """Largest distance (N, K) between samples and truth."""
        return np.asarray(self._apart.max(axis=2))

    @cached_property
    def by_agent(self) -> "Ranking":
        """The samples of every agent, most probable first."""
        return Ranking(self.weights)

    @cached_property
    def together(self) -> "Ranking":
        """The samples of every scene that reach the ends of all its agents."""
        weights = self.weights.reshape(self.n_scenes, -1, self.weights.shape[1])
        # Agents share the weights of samples, up to a factor where samples are absent.
        absent = (weights == 0).all(axis=2, keepdims=True)
        shared = np.where((absent | (weights > 0)).all(axis=1), weights.sum(axis=1), 0.0)
        return Ranking(shared / np.maximum(shared.sum(axis=1, keepdims=True), _TINY))

    def over_agents(self, values: np.ndarray) -> np.ndarray:
        """Return the means (B, K) of values (N, K) over the agents that have a truth."""
        there = (self.n_steps > 0).reshape(self.n_scenes, -1, 1)
        total = (values.reshape(self.n_scenes, -1, values.shape[1]) * there).sum(axis=1)
        return np.asarray(total / np.maximum(there.sum(axis=1), 1))


def scored_paths(agents: AgentForecasts) -> Iterator[ScoredPaths]:
    """Yield the true futures one by one, with the samples that reach their ends."""
    for future in range(agents.truths.shape[1]):
        horizons, observed = agents.horizons[:, future, None], agents.observed[:, future]
        reaching = (agents.lengths >= horizons) & (horizons > 0)
        weights = np.where(reaching, 1.0 if agents.weights is None else agents.weights, 0.0)
        paths = np.concatenate([agents.paths, agents.truths[:, future, None]], axis=1)
        is_compared = np.pad(reaching, ((0, 0), (0, 1)), constant_values=True)
        left_out = ~(observed[:, None] & is_compared[..., None])
        if left_out.any():
            paths[left_out] = 0.0
        yield ScoredPaths(
            paths=paths,
            observed=observed,
            weights=weights / np.maximum(weights.sum(axis=1, keepdims=True), _TINY),
            n_scenes=agents.n_scenes,
        )


@dataclass(frozen=True, eq=False)
class Ranking:
    """Weights (N, K) of samples; a weight of 0 leaves a sample out.

    Samples of equal weight, and therefore samples without weights, are ranked in their order.
    """

    weights: np.ndarray

    @cached_property
    def _ranks(self) -> np.ndarray:
        return np.argsort(np.argsort(-self.weights, axis=1, kind="stable"), axis=1)

    def _first(self, k: int) -> np.ndarray:
        """Return whether (N, K) a sample is one of the k most probable ones."""
        return (self.weights > 0) & (self._ranks < k)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the weighted means (N,) of values (N, K), NaN without samples."""
        there = (self.weights > 0).any(axis=1)
        return np.where(there, (self.weights * values).sum(axis=1), np.nan)

    def nearest(self, values: np.ndarray, k: int) -> np.ndarray:
        """Return the smallest (N,) of the values of the k most probable samples."""
        found = np.where(self._first(k), values, np.inf).min(axis=1)
        return np.where(np.isfinite(found), found, np.nan)

    def misses(self, values: np.ndarray, k: int, threshold: float) -> np.ndarray:
        """Return 1.0 where the smallest value is above the threshold, 0.0 elsewhere."""
        nearest = self.nearest(values, k)
        return np.where(np.isnan(nearest), np.nan, nearest > threshold)

    def brier(self, values: np.ndarray, k: int) -> np.ndarray:
        """Return the smallest value plus (1 - p)^2, where the k weights p add up to one."""
        first, nearest = self._first(k), self.nearest(values, k)
        shares = np.where(first, self.weights, 0.0)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), _TINY)
        # Of several nearest samples, the most probable one counts.
        best = np.where(first & (values == nearest[:, None]), shares, 0.0).max(axis=1)
        return np.asarray(nearest + (1 - best) ** 2)

    def most_likely(self, values: np.ndarray) -> np.ndarray:
        """Return the value (N,) of the sample with the largest weight, the mean of ties."""
        largest = self.weights == self.weights.max(axis=1, keepdims=True)
        there = largest & (self.weights > 0)
        return Ranking(there / np.maximum(there.sum(axis=1, keepdims=True), 1)).mean(values)


#: Measures (N,) of distance, (B,) of all agents together, by their names with "k" for a number of
#: samples: functions of the paths, that number and the threshold of a miss.
DISTANCES: dict[str, Callable[[ScoredPaths, int, float], np.ndarray]] = {
    "ade": lambda paths, _, __: paths.by_agent.mean(paths.ade),
    "fde": lambda paths, _, __: paths.by_agent.mean(paths.fde),
    "min_ade_k": lambda paths, k, _: paths.by_agent.nearest(paths.ade, k),
    "min_fde_k": lambda paths, k, _: paths.by_agent.nearest(paths.fde, k),
    "miss_rate_k": lambda paths, k, far: paths.by_agent.misses(paths.fde, k, far),
    "miss_rate_path_k": lambda paths, k, far: paths.by_agent.misses(paths.largest, k, far),
    "brier_min_ade_k": lambda paths, k, _: paths.by_agent.brier(paths.ade, k),
    "brier_min_fde_k": lambda paths, k, _: paths.by_agent.brier(paths.fde, k),
    "ade_most_likely": lambda paths, _, __: paths.by_agent.most_likely(paths.ade),
    "fde_most_likely": lambda paths, _, __: paths.by_agent.most_likely(paths.fde),
    "min_jade_k": lambda paths, k, _: paths.together.nearest(paths.over_agents(paths.ade), k),
    "min_jfde_k": lambda paths, k, _: paths.together.nearest(paths.over_agents(paths.fde), k),
}


# Collisions


def collision_rates(agents: AgentForecasts, name: str, distance: float) -> np.ndarray:
    """Return the share (N,) of the paths of an agent that come nearer than this to another agent.

    The paths are samples, or truths for "collision_rate_truth", up to the horizons. Between steps,
    agents move in straight lines. NaN for an agent without truth, or alone in its scene.
    """
    is_truth = name == "collision_rate_truth"
    paths = agents.truths if is_truth else agents.paths
    within = np.arange(paths.shape[2]) < agents.horizons.max(axis=1)[:, None]
    paths = np.where(within[:, None, :, None], paths, np.nan)
    there = ~np.isnan(paths[..., 0]).all(axis=2)
    given = None if is_truth else agents.weights
    weights = np.where(there, 1.0 if given is None else given, 0.0)
    hits = _collisions(paths.reshape(agents.n_scenes, -1, *paths.shape[1:]), distance)
    present = there.any(axis=1).reshape(agents.n_scenes, -1)
    alone = ~present | (present.sum(axis=1, keepdims=True) < 2)
    shares = (hits.reshape(weights.shape) * weights).sum(axis=1)
    return np.where(alone.ravel(), np.nan, shares / np.maximum(weights.sum(axis=1), _TINY))


def _collisions(paths: np.ndarray, distance: float) -> np.ndarray:
    """Return whether (B, A, K) a path (B, A, K, T, D) comes nearer than a distance to another."""
    out = np.zeros(paths.shape[:3], dtype=bool)
    for a in range(paths.shape[1] - 1):
        near = _closest(paths[:, a + 1 :] - paths[:, a : a + 1]) < distance**2
        out[:, a] |= near.any(axis=1)
        out[:, a + 1 :] |= near
    return out


def _closest(gaps: np.ndarray) -> np.ndarray:
    """Return the smallest squared length (...) on the way through vectors (..., T, D)."""
    start, move = gaps[..., :-1, :], np.diff(gaps, axis=-2)
    share = -(start * move).sum(axis=-1) / np.maximum((move**2).sum(axis=-1), _TINY)
    between = start + np.clip(share, 0, 1)[..., None] * move
    points = np.concatenate([gaps, between], axis=-2)
    return np.asarray(np.fmin.reduce((points**2).sum(axis=-1), axis=-1, initial=np.inf))
