"""Fair scores of sampled paths: energy, CRPS and variogram scores.

The expected value of a fair score does not depend on the number of samples: a sample is not paired
with itself (Ferro, "Fair scores for ensemble forecasts", 2014).
"""

from collections.abc import Callable

import numpy as np

from ..kernels.path_densities import pair_distances
from .distances import ScoredPaths

#: Norms, in the order of the results of ``pair_distances``.
_EUCLIDEAN, _ABSOLUTE = 0, 1


def _pair_weights(weights: np.ndarray) -> np.ndarray:
    """Return the sum (N,) of products of the weights (N, K) of different samples, NaN for none.

    It is 1 - sum w^2, summed so that a weight near one does not cancel it.
    """
    before = np.cumsum(weights, axis=1)[:, :-1]
    total = 2 * (weights[:, 1:] * before).sum(axis=1)
    return _or_nan(total)


def _energy(rows: np.ndarray, weights: np.ndarray, norm: int) -> np.ndarray:
    """Return E|X - y| - E|X - X'| / 2 (N,) of samples X and a truth y, rows (N, K + 1, ...)."""
    sums = np.zeros((len(rows), 2, 2))
    pair_distances(rows.reshape(*rows.shape[:2], -1), weights, sums)
    return np.asarray(sums[:, norm, 0] - sums[:, norm, 1] / _pair_weights(weights))


def _or_nan(counts: np.ndarray) -> np.ndarray:
    """Return counts with NaN in place of zeros."""
    return np.where(counts > 0, counts, np.nan)


def _energy_score(scored: ScoredPaths) -> np.ndarray:
    return _energy(scored.paths, scored.weights, _EUCLIDEAN) / np.sqrt(_or_nan(scored.n_steps))


def _crps(scored: ScoredPaths) -> np.ndarray:
    """Return the mean over steps and coordinates: an energy score of absolute distances."""
    n_values = _or_nan(scored.n_steps) * scored.paths.shape[3]
    return _energy(scored.paths, scored.weights, _ABSOLUTE) / n_values


def _energy_score_moves(scored: ScoredPaths) -> np.ndarray:
    """Return the energy score of the moves between consecutive observed steps."""
    both = scored.observed[:, 1:] & scored.observed[:, :-1]
    moves = np.where(both[:, None, :, None], np.diff(scored.paths, axis=2), 0.0)
    return _energy(moves, scored.weights, _EUCLIDEAN) / np.sqrt(_or_nan(both.sum(axis=1)))


def _variogram_score(scored: ScoredPaths) -> np.ndarray:
    """Return the score of square roots of distances between steps, averaged over pairs of steps."""
    total, n_pairs = np.zeros(len(scored.paths)), np.zeros(len(scored.paths))
    weights, pairs = scored.weights[:, None], _pair_weights(scored.weights)[:, None]
    for lag in range(1, scored.observed.shape[1]):
        both = scored.observed[:, lag:] & scored.observed[:, :-lag]
        moves = scored.paths[:, :, lag:] - scored.paths[:, :, :-lag]
        roots = np.sqrt(np.sqrt(np.einsum("nktd,nktd->nkt", moves, moves)))
        apart = roots[:, :-1] - roots[:, -1:]
        mean = weights @ apart
        variance = (weights @ (apart - mean) ** 2)[:, 0]
        total += np.where(both, mean[:, 0] ** 2 + variance * (1 - 1 / pairs), 0.0).sum(axis=1)
        n_pairs += np.count_nonzero(both, axis=1)
    return np.asarray(total / _or_nan(n_pairs))


#: Scores (N,) of samples, NaN for a single sample and where no step is observed.
FAIR_SCORES: dict[str, Callable[[ScoredPaths], np.ndarray]] = {
    "energy_score": _energy_score,
    "energy_score_moves": _energy_score_moves,
    "crps": _crps,
    "variogram_score": _variogram_score,
}
