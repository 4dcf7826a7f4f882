"""The search for the members of a cluster: few if the cluster looks Gaussian, more if not."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from ..density import KernelMixture
from ..threads import map_blocks
from ..whitening import silverman
from .components import log_sum_exp
from .members import (
    DOF,
    MAX_NEIGHBORS,
    Cell,
    FactorGaussian,
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
#: Degrees of freedom of a single Student's t.
_DOFS = (DOF, 16.0)
#: Numbers of factors; they are tried with at least this number of features, and with at most this
#: number of samples for each feature.
_N_FACTORS, _MIN_FACTORED, _FEW_PER_FEATURE = (1, 3), 6, 30
#: Widths of kernels, as multiples of Silverman's: those that are tried first, and the others.
_FIRST_WIDTHS = (0.5, 1.0)
_WIDTHS = (0.1, 0.15, 0.22, 0.35, 0.7, 1.4)
_MAX_WIDTH = 0.97
#: In more dimensions than this, the search for local Gaussians ends if the first is not the best.
_MAX_CURVED_FEATURES = 12
#: From this number of samples per feature on, components with a pooled shape are not tried first.
_PLENTY = 50
#: Numbers of components, after two.
_N_COMPONENTS = (3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
#: Numbers of components that are tried to compare frames.
_PREVIEWED = (2, 6)
#: The number of mixtures of which other kinds are tried; one with fewer or more rows than these.
_N_VARIED, _FEW_ROWS, _MANY_ROWS = 2, 150, 3000
#: Kinds of mixtures: whether shapes are pooled, and degrees of freedom.
_KINDS = ((False, np.inf), (True, np.inf), (False, DOF), (True, DOF))
#: Widths of local Gaussians: the first one, and those tried at the best number of neighbors.
_FIRST_LOCAL_WIDTH = 0.7
_LOCAL_WIDTHS = (0.35, 0.5, 1.0)
#: With fewer samples, or fewer for each feature, local Gaussians are not tried.
_ENOUGH_FOR_LOCAL, _LOCAL_PER_FEATURE = 40, 15
#: Upper bound on the members of a stack, and lower bounds on their weights, before and after the
#: weights are computed again without the others.
_MAX_MEMBERS = 6
_MIN_WEIGHT = 0.03
_MIN_FINAL_WEIGHT = 0.02
#: Members are dropped, the most expensive first, if held-out samples lose no more than this for
#: every kernel, and no more than these limits in all.
_PRICE, _MIN_LOSS, _MAX_LOSS = 1e-5, 0.002, 0.008
#: Iterations for the weights, and while members are dropped.
_WEIGHT_STEPS, _PRUNING_STEPS = 150, 60


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
    """The density of a cell, the mean log density of held-out samples, and the members."""

    density: KernelMixture
    held_out: float
    stack: Stack
    scores: np.ndarray  #: the log densities of held-out rows


def fit_cells(
    cells: Sequence[Cell], extra: Sequence[Member] = (), n_jobs: int | None = None
) -> list[CellFit]:
    """Fit the density of every cluster, in threads; ``extra`` members are tried in addition."""
    fits: dict[int, CellFit] = {}

    def work(block: range) -> None:
        for c in block:
            fits[c] = fit_cell(cells[c], extra)

    map_blocks(work, len(cells), n_jobs)
    return [fits[c] for c in range(len(cells))]


def preview(cell: Cell) -> float:
    """Return about the mean log density of held-out samples, from a few members."""
    trials: list[Trial[Member]] = [Gaussian().judge(cell, cell.scanned)]
    if cell.points.any():
        numbers = [each for each in _numbers(cell, _PREVIEWED) if _allows(cell, each)]
        mixtures = [Mixture(number, False, np.inf, cell.seed) for number in numbers]
        trials += [*_first(cell), *_judge(cell, mixtures)]
    table = np.stack([trial.held_out for trial in trials], axis=1)
    counts = trials[0].weights
    kept, weights = stack(table, counts)
    return _likelihood(table[:, kept], counts, weights) + cell.ellipse.log_det


def fit_cell(cell: Cell, extra: Sequence[Member] = ()) -> CellFit:
    """Try members on a cluster, including ``extra`` ones, and stack the best.

    All are tried on the scanned folds; those that a stack of them needs are judged on all folds. A
    large cluster that looks Gaussian on all folds needs no more than the first few members.
    """
    gaussian = Gaussian().judge(cell)
    if not cell.points.any():
        return _stacked(cell, [gaussian], 1, "all samples are equal")
    pairs = _pairs(cell)
    trials: list[Trial[Member]] = [gaussian, *_first(cell), *pairs, *_judge(cell, extra)]
    if cell.n_samples < _ENOUGH_TO_SEARCH:
        return _stacked(cell, trials, len(trials), "few samples, so few members were tried")
    if cell.n_samples >= ENOUGH_TO_STOP and not _any_beats(trials[1:], gaussian):
        trials = _on_all_folds(trials)
        if not _any_beats(trials[1:], gaussian):
            return _stacked(cell, trials, len(trials), "it looks Gaussian, so few were tried")
    trials += _climb(cell, _kernels(cell, _WIDTHS), len(_WIDTHS) // 2)
    trials += _mixtures(cell, pairs)
    trials += _local_gaussians(cell, trials)
    return _stacked(cell, _finalists(cell, trials), len(trials), "")


def _finalists(cell: Cell, trials: list[Trial[Member]]) -> list[Trial[Member]]:
    """Return the Gaussian and the members of the best stack on the scanned folds."""
    counts = cell.test_weights(cell.scanned)
    kept, _ = stack(np.stack([each.held_out[: len(counts)] for each in trials], axis=1), counts)
    return [trials[m] for m in dict.fromkeys([0, *kept.tolist()])]


def _on_all_folds(trials: Sequence[Trial[Member]]) -> list[Trial[Member]]:
    """Judge members on all folds, leaving out those that the samples of some do not allow."""
    found = []
    for trial in trials:
        with suppress(np.linalg.LinAlgError):
            found.append(trial.continued(trial.cell.tested))
    return [each for each in found if np.isfinite(each.held_out).all()]


def _stacked(cell: Cell, trials: list[Trial[Member]], n_tried: int, reason: str) -> CellFit:
    """Return the weighted sum of the best members; the first trial is the Gaussian's."""
    trials = _on_all_folds(trials)
    table = np.stack([trial.held_out for trial in trials], axis=1)
    counts = trials[0].weights
    costs = np.array([trial.member.cost(cell) for trial in trials])
    kept, weights = pruned(table, counts, stack(table, counts)[0], costs)
    held_out = log_sum_exp(table[:, kept] + np.log(weights))
    gain, gain_error = mean_and_error(held_out - trials[0].held_out, counts)
    least = _STANDARD_ERRORS if cell.n_samples >= ENOUGH_TO_STOP else 1.0
    if gain <= least * gain_error:
        kept, weights, held_out = np.zeros(1, dtype=np.int64), np.ones(1), trials[0].held_out
        gain, gain_error = 0.0, 0.0
    density = KernelMixture.merge([trials[m].density() for m in kept], weights)
    names = tuple(trials[m].member.name for m in kept)
    return CellFit(
        density=density.affine(cell.back, cell.ellipse.mean),
        held_out=mean_and_error(held_out, counts)[0] + cell.ellipse.log_det,
        stack=Stack(names, weights, gain, gain_error, n_tried, reason),
        scores=held_out + cell.ellipse.log_det,
    )


def _judge(cell: Cell, members: Sequence[M]) -> list[Trial[M]]:
    """Judge members on the scanned folds, leaving out those that samples do not allow."""
    trials: list[Trial[M]] = []
    for member in members:
        try:
            trial = member.judge(cell, cell.scanned)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(trial.held_out).all():
            trials.append(trial)
    return trials


def _any_beats(trials: Sequence[Trial[Member]], other: Trial[Member]) -> bool:
    return any(_beats(each, other) for each in trials)


def _beats(trial: Trial[Member], other: Trial[Member], n_errors: float = _STANDARD_ERRORS) -> bool:
    gain, error = trial.gain_over(other)
    return gain > n_errors * error


def _climb(cell: Cell, members: Sequence[M], middle: int, patience: int = 1) -> list[Trial[M]]:
    """Judge members from the middle one outwards, on either side until the score falls.

    The last ``patience`` members of a side are below its best.
    """
    trials = _judge(cell, [members[middle]])
    start = trials[0].score if trials else -np.inf
    for side in (members[:middle][::-1], members[middle + 1 :]):
        highest, n_below = start, 0
        for member in side:
            found = _judge(cell, [member])
            trials += found
            n_below = 0 if found and found[0].score >= highest else n_below + 1
            if not found or n_below == patience:
                break
            highest = max(highest, found[0].score)
    return trials


def _kernels(cell: Cell, factors: Sequence[float]) -> list[Member]:
    base = silverman(cell.n_samples, cell.n_features)
    return [Kernels(min(_MAX_WIDTH, factor * base)) for factor in factors]


def _first(cell: Cell) -> list[Trial[Member]]:
    """Judge the members that are tried on every cluster."""
    kernels = _kernels(cell, _FIRST_WIDTHS)
    students = [Student(dof) for dof in _DOFS] if cell.allows_components else []
    factors = [FactorGaussian(number) for number in _N_FACTORS if _allows_factors(cell, number)]
    return _judge(cell, [*students, *factors, *kernels])


def _allows_factors(cell: Cell, n_factors: int) -> bool:
    """Whether a Gaussian of few factors may be better than the Gaussian."""
    few = cell.n_samples <= _FEW_PER_FEATURE * cell.n_features
    return few and 3 * n_factors <= cell.n_features and cell.n_features >= _MIN_FACTORED


def _pairs(cell: Cell) -> list[Trial[Mixture]]:
    """Judge two components of free shapes and, if there are few samples, of a pooled shape."""
    if not _allows(cell, 2):
        return []
    kinds = [(False, np.inf), (False, DOF)]
    if cell.n_samples < _PLENTY * cell.n_features:
        kinds.append((True, np.inf))
    return _judge(cell, [Mixture(2, pooled, dof, cell.seed) for pooled, dof in kinds])


def _allows(cell: Cell, n_components: int) -> bool:
    enough = 0.8 * cell.n_samples >= n_components * max(5, cell.n_features)
    return enough and cell.allows_components


def _numbers(cell: Cell, numbers: Sequence[int]) -> list[int]:
    """Return numbers of components, with the number of pieces among them."""
    return sorted({*numbers, max(cell.n_pieces, numbers[0])})


def _mixtures(cell: Cell, pairs: list[Trial[Mixture]]) -> list[Trial[Mixture]]:
    """Judge numbers of components, from that of the pieces, and other kinds of the best mixture."""
    if not pairs:
        return []
    kind = pairs[_best(pairs)].member.kind
    numbers = [each for each in _numbers(cell, _N_COMPONENTS) if _allows(cell, each)]
    if not numbers:
        return []
    members = [Mixture(number, *kind, cell.seed + number) for number in numbers]
    nearest = max(min(cell.n_pieces, numbers[-1]), numbers[0])
    patience, n_varied = (2, _N_VARIED) if _FEW_ROWS <= cell.n_rows < _MANY_ROWS else (1, 1)
    found = _climb(cell, members, numbers.index(nearest), patience)
    if not found:
        return []
    ranked = sorted(found, key=attrgetter("score"), reverse=True)
    variants = []
    for trial in ranked[:n_varied]:
        for other in _KINDS:
            if other != kind:
                # A pooled shape has starts of its own; see Mixture.
                start = trial.learned if other[0] == kind[0] else None
                variants.append(Mixture(trial.member.n_components, *other, cell.seed, start))
    return found + _judge(cell, variants)


def _best(trials: Sequence[Trial[Member]]) -> int:
    """Return the index of the best member on the folds on which all were judged."""
    n_rows = min(len(trial.held_out) for trial in trials)
    return int(np.argmax([trial.weights[:n_rows] @ trial.held_out[:n_rows] for trial in trials]))


def _local_gaussians(cell: Cell, others: Sequence[Trial[Member]]) -> list[Trial[LocalGaussians]]:
    """Judge several numbers of neighbors, and several widths at the best number.

    In many dimensions, the search ends with the first unless it is better than all others.
    """
    fewest = max(8, cell.n_features // 2 + 2)
    most = min(MAX_NEIGHBORS, int(cell.n_samples // 4))
    enough = max(_ENOUGH_FOR_LOCAL, _LOCAL_PER_FEATURE * cell.n_features)
    if cell.n_samples < enough or most < fewest or not cell.allows_matrices(cell.n_rows):
        return []
    n_numbers = 4 if cell.n_rows >= _FEW_ROWS else 2
    numbers = np.unique(np.geomspace(fewest, most, n_numbers).astype(int)).tolist()
    members = [LocalGaussians(number, _FIRST_LOCAL_WIDTH) for number in numbers]
    middle = len(numbers) // 2
    if cell.n_features > _MAX_CURVED_FEATURES:
        first = _judge(cell, [members[middle]])
        if not first or first[0].gain_over(others[_best(others)])[0] < 0:
            return first
    trials = _climb(cell, members, middle)
    if not trials:
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


def pruned(
    held_out: np.ndarray, counts: np.ndarray, kept: np.ndarray, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Drop members, the most expensive first, as long as held-out samples lose little.

    Return the indices of the members that stay, heaviest first, and their weights. The ``costs``
    are those of all members, in kernels.
    """
    weights = stacking_weights(held_out[:, kept], counts)
    before, saved = _likelihood(held_out[:, kept], counts, weights), 0.0
    for member in kept[np.argsort(-costs[kept], kind="stable")]:
        others = kept[kept != member]
        if len(others) == 0:
            break
        without = stacking_weights(held_out[:, others], counts, _PRUNING_STEPS)
        price = np.clip(_PRICE * (saved + costs[member]), _MIN_LOSS, _MAX_LOSS)
        if _likelihood(held_out[:, others], counts, without) >= before - price:
            kept, weights, saved = others, without, saved + costs[member]
    order = np.argsort(-weights, kind="stable")
    return kept[order], weights[order]


def _likelihood(held_out: np.ndarray, counts: np.ndarray, weights: np.ndarray) -> float:
    return mean_and_error(log_sum_exp(held_out + np.log(weights)), counts)[0]
