"""The search for the members of a cluster: few if the cluster looks Gaussian, more if not."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from ..density import KernelMixture
from ..whitening import silverman
from .components import log_sum_exp
from .members import (
    DOF,
    MAX_NEIGHBORS,
    Cell,
    Gaussian,
    Kernels,
    LocalGaussians,
    M,
    Member,
    Mixture,
    Student,
    Trial,
    mean_and_error,
)

#: From this number of samples on, a cluster that looks Gaussian is modeled as one Gaussian.
ENOUGH_TO_STOP = 300
#: Below this number of samples, more members cannot be distinguished.
_ENOUGH_TO_SEARCH = 30
#: A member is better than the Gaussian if the gain exceeds this number of standard errors.
_STANDARD_ERRORS = 2.0
#: A family of members is given up if its first is this number of standard errors below the best.
_FAR_BEHIND = 5.0
#: Widths of kernels, as multiples of Silverman's: those that are tried first, and the others.
_FIRST_WIDTHS = (0.5, 1.0)
_WIDTHS = (0.1, 0.15, 0.22, 0.35, 0.7, 1.4)
_MAX_WIDTH = 0.97
#: In more dimensions than this, kernels narrow enough to follow a curve cover no samples.
_MAX_CURVED_FEATURES = 12
#: From this number of samples per feature on, components with a pooled shape are not tried first.
_PLENTY = 50
#: Numbers of components, after two.
_N_COMPONENTS = (3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
#: From this number of rows on, no mixtures beyond the best number of components are tried.
_MANY_ROWS = 800
#: Widths of local Gaussians: the first one, and those tried at the best number of neighbors.
_FIRST_LOCAL_WIDTH = 0.7
_LOCAL_WIDTHS = (0.35, 0.5, 1.0)
#: Upper bound on the members of a stack, and lower bounds on their weights, before and after the
#: weights are computed again without the others.
_MAX_MEMBERS = 6
_MIN_WEIGHT = 0.03
_MIN_FINAL_WEIGHT = 0.02
#: Iterations for the weights.
_WEIGHT_STEPS = 300


@dataclass(frozen=True, eq=False)
class Stack:
    """The members of a cluster whose weighted sum is the density, and their gain."""

    members: tuple[str, ...]  #: their names
    weights: np.ndarray  #: (n_members,) their weights in the sum
    gain: float  #: in the mean log density of held-out samples, over a plain Gaussian
    gain_error: float  #: the standard error of the gain
    n_tried: int  #: the number of members that were tried
    reason: str  #: the reason why not all members were tried; empty if all were


class CellFit(NamedTuple):
    """The density of a cluster, the mean log density of held-out samples, and the members."""

    density: KernelMixture
    held_out: float
    stack: Stack


def fit_cell(cell: Cell, seed: int, extra: Sequence[Member] = ()) -> CellFit:
    """Try members on a cluster, including ``extra`` ones, and stack the best."""
    gaussian = Gaussian().judge(cell)
    if not cell.points.any():
        return _stacked(cell, [gaussian], 1, "all samples are equal")
    pairs = _pairs(cell, seed)
    trials: list[Trial[Member]] = [gaussian, *_first(cell), *pairs, *_judge(cell, extra)]
    if cell.n_samples < _ENOUGH_TO_SEARCH:
        return _stacked(cell, trials, len(trials), "few samples, so few members were tried")
    if cell.n_samples >= ENOUGH_TO_STOP and not any(_beats(each, gaussian) for each in trials[1:]):
        return _stacked(cell, [gaussian], len(trials), "no other member is clearly better")
    trials += _climb(cell, _kernels(cell, _WIDTHS))
    trials += _mixtures(cell, seed, pairs)
    trials += _local_gaussians(cell, trials)
    return _stacked(cell, trials, len(trials), "")


def _stacked(cell: Cell, trials: list[Trial[Member]], n_tried: int, reason: str) -> CellFit:
    """Return the weighted sum of the best members; the first trial is the Gaussian's."""
    table = np.stack([trial.held_out for trial in trials], axis=1)
    kept, weights = stack(table, cell.test_weights)
    held_out = log_sum_exp(table[:, kept] + np.log(weights))
    gain, gain_error = mean_and_error(held_out - trials[0].held_out, cell.test_weights)
    density = KernelMixture.merge([trials[m].density() for m in kept], weights)
    names = tuple(trials[m].member.name for m in kept)
    return CellFit(
        density=density.affine(cell.back, cell.ellipse.mean),
        held_out=mean_and_error(held_out, cell.test_weights)[0] + cell.ellipse.log_det,
        stack=Stack(names, weights, gain, gain_error, n_tried, reason),
    )


def _judge(cell: Cell, members: Sequence[M]) -> list[Trial[M]]:
    """Judge members, leaving out those that too few or too equal samples do not allow."""
    trials: list[Trial[M]] = []
    for member in members:
        try:
            trial = member.judge(cell)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(trial.held_out).all():
            trials.append(trial)
    return trials


def _beats(trial: Trial[Member], other: Trial[Member], n_errors: float = _STANDARD_ERRORS) -> bool:
    gain, error = trial.gain_over(other)
    return gain > n_errors * error


def _climb(
    cell: Cell, members: Sequence[M], others: Sequence[Trial[Member]] = ()
) -> list[Trial[M]]:
    """Judge members from the middle one outwards, on either side until the score falls.

    If the middle one is far behind the best of the others, it is the only one.
    """
    middle = len(members) // 2
    trials = _judge(cell, [members[middle]])
    if trials and others and _beats(max(others, key=attrgetter("score")), trials[0], _FAR_BEHIND):
        return trials
    start = trials[0].score if trials else -np.inf
    for side in (members[:middle][::-1], members[middle + 1 :]):
        before = start
        for member in side:
            found = _judge(cell, [member])
            trials += found
            if not found or found[0].score < before:
                break
            before = found[0].score
    return trials


def _kernels(cell: Cell, factors: Sequence[float]) -> list[Member]:
    base = silverman(cell.n_samples, cell.n_features)
    return [Kernels(min(_MAX_WIDTH, factor * base)) for factor in factors]


def _first(cell: Cell) -> list[Trial[Member]]:
    """Judge the members that are tried on every cluster."""
    kernels = _kernels(cell, _FIRST_WIDTHS)
    return _judge(cell, [Student(), *kernels] if cell.allows_components else kernels)


def _pairs(cell: Cell, seed: int) -> list[Trial[Mixture]]:
    """Judge two components and, if there are few samples, two components of a pooled shape."""
    if not _allows(cell, 2):
        return []
    free = _judge(cell, [Mixture(2, False, np.inf, seed)])
    if not free or cell.n_samples >= _PLENTY * cell.n_features:
        return free
    return free + _judge(cell, [Mixture(2, True, np.inf, seed, free[0])])


def _allows(cell: Cell, n_components: int) -> bool:
    enough = 0.8 * cell.n_samples >= n_components * max(5, cell.n_features / 2)
    return enough and cell.allows_components


def _mixtures(cell: Cell, seed: int, pairs: list[Trial[Mixture]]) -> list[Trial[Mixture]]:
    """Add components until more do not help, and judge variants of the best mixtures."""
    if not pairs:
        return []
    path = [pairs[_best(pairs)]]
    pooled = path[0].member.pooled
    margin = 1 if cell.n_rows < _MANY_ROWS else 0
    for number in _N_COMPONENTS:
        if not _allows(cell, number) or len(path) - 1 - _best(path) > margin:
            break
        path += _judge(cell, [Mixture(number, pooled, np.inf, seed + number)])
    best = _best(path)
    variants = [
        Mixture(trial.member.n_components, shape, dof, seed, trial)
        for trial in path[max(0, best - margin) : best + margin + 1]
        for shape, dof in ((not pooled, np.inf), (pooled, DOF), (not pooled, DOF))
        # Both kinds of two Gaussians may be among the pairs already.
        if trial.member.n_components > 2 or np.isfinite(dof) or len(pairs) == 1
    ]
    return path[1:] + _judge(cell, variants)


def _best(trials: Sequence[Trial[Member]]) -> int:
    return int(np.argmax([trial.score for trial in trials]))


def _local_gaussians(cell: Cell, others: list[Trial[Member]]) -> list[Trial[LocalGaussians]]:
    """Judge several numbers of neighbors, and several widths at the best number.

    In many dimensions, the search ends with the first if it is far behind the others.
    """
    fewest = max(8, cell.n_features // 2 + 2)
    most = min(MAX_NEIGHBORS, int(cell.n_samples // 4))
    if most < fewest or not cell.allows_matrices(cell.n_rows):
        return []
    numbers = np.unique(np.geomspace(fewest, most, 5).astype(int)).tolist()
    members = [LocalGaussians(number, _FIRST_LOCAL_WIDTH) for number in numbers]
    trials = _climb(cell, members, others if cell.n_features > _MAX_CURVED_FEATURES else ())
    if len(trials) < 2:
        return trials
    best = trials[_best(trials)].member.n_neighbors
    return trials + _judge(cell, [LocalGaussians(best, width) for width in _LOCAL_WIDTHS])


# Weights of members


def stacking_weights(
    held_out: np.ndarray, counts: np.ndarray, n_steps: int = _WEIGHT_STEPS
) -> np.ndarray:
    r"""Return the weights that maximize the likelihood of held-out samples.

    .. math:: \max_w \sum_i a_i \log \sum_m w_m \, p_m(x_i)

    ``held_out`` (n_test, n_members) holds the log densities :math:`\log p_m(x_i)` of members that
    were fitted without :math:`x_i`, and ``counts`` (n_test,) the numbers of samples :math:`a_i`.
    """
    ratios = np.exp(held_out - held_out.max(axis=1, keepdims=True))
    shares = counts / counts.sum()
    weights = np.full(held_out.shape[1], 1.0 / held_out.shape[1])
    for _ in range(n_steps):
        weights = weights * ((shares / (ratios @ weights)) @ ratios)
    return weights / weights.sum()


def stack(held_out: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the members that are kept, heaviest first, and their weights."""
    if held_out.shape[1] == 1:
        return np.zeros(1, dtype=np.int64), np.ones(1)
    weights = stacking_weights(held_out, counts)
    kept = np.argsort(-weights, kind="stable")[:_MAX_MEMBERS]
    kept = kept[weights[kept] >= min(_MIN_WEIGHT, weights.max())]
    weights = stacking_weights(held_out[:, kept], counts)
    stays = weights >= _MIN_FINAL_WEIGHT
    kept, weights = kept[stays], weights[stays] / weights[stays].sum()
    order = np.argsort(-weights, kind="stable")
    return kept[order], weights[order]
