"""The search for the members of a cluster: few if the cluster looks Gaussian, more if not."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ..density import KernelMixture
from ..progress import part
from ..threads import map_blocks
from ..whitening import silverman
from .cells import MAX_NEIGHBORS, Cell
from .components import log_sum_exp
from .members import (
    DOF,
    FactorGaussian,
    Gaussian,
    Kernels,
    LocalGaussians,
    Member,
    Mixture,
    Student,
)
from .weights import likelihood, mean_and_error, pruned, stack

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
_FIRST_LOCAL_WIDTH, _LOCAL_WIDTHS = 0.7, (0.35, 0.5, 1.0)
#: With fewer samples, or fewer for each feature, local Gaussians are not tried.
_ENOUGH_FOR_LOCAL, _LOCAL_PER_FEATURE = 40, 15


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


M = TypeVar("M", bound=Member, covariant=True)


@dataclass(frozen=True, eq=False)
class Trial(Generic[M]):
    """A member, and the log densities of the test rows of the first folds of a cell.

    ``learned`` is what the fit without the first fold found, if the member keeps it: the fits
    without other folds and of all samples start from there.
    """

    member: M
    cell: Cell
    folds: tuple[np.ndarray, ...] = ()
    learned: Any = None

    @cached_property
    def held_out(self) -> np.ndarray:
        """The log densities (n_test,) of all test rows."""
        return np.concatenate(self.folds)

    @property
    def weights(self) -> np.ndarray:
        """The number of samples of every test row."""
        return self.cell.test_weights(len(self.folds))

    @property
    def score(self) -> float:
        """The mean log density of held-out samples."""
        return mean_and_error(self.held_out, self.weights)[0]

    def gain_over(self, other: "Trial[Member]") -> tuple[float, float]:
        """Return the difference of the scores of two members, and its standard error."""
        n_rows = min(len(self.held_out), len(other.held_out))
        gains = self.held_out[:n_rows] - other.held_out[:n_rows]
        return mean_and_error(gains, self.weights[:n_rows])

    def on_folds(self, n_folds: int) -> "Trial[M]":
        """Judge the member on further folds, up to a number of folds."""
        folds, learned = list(self.folds), self.learned
        for f in range(len(folds), n_folds):
            held_out, found = self.member.held_out(self.cell, f, learned)
            folds.append(np.logaddexp(held_out, self.cell.log_background(f)))
            learned = found if learned is None else learned
        return replace(self, folds=tuple(folds), learned=learned)


def fit_cells(
    cells: Sequence[Cell], extra: Sequence[Member] = (), n_jobs: int | None = None
) -> list[CellFit]:
    """Fit the density of every cluster, in threads; ``extra`` members are tried in addition."""
    fits: dict[int, CellFit] = {}
    ends = np.cumsum([0, *(cell.n_rows for cell in cells)]) / sum(cell.n_rows for cell in cells)

    def work(block: range) -> None:
        for c in block:
            with part("" if len(cells) == 1 else f"cell {c + 1} of {len(cells)}", *ends[c : c + 2]):
                fits[c] = fit_cell(cells[c], extra)

    map_blocks(work, len(cells), n_jobs)
    return [fits[c] for c in range(len(cells))]


def preview(cell: Cell) -> float:
    """Return about the mean log density of held-out samples, from a few members."""
    members: list[Member] = [Gaussian()]
    if cell.points.any():
        mixtures = [Mixture(each, False, np.inf, cell.seed) for each in _numbers(cell, _PREVIEWED)]
        members += [*_first(cell), *mixtures]
    counts = cell.test_weights(cell.n_scanned)
    table = _table(_judge(cell, members), counts)
    kept, weights = stack(table, counts)
    return likelihood(table[:, kept], counts, weights) + cell.ellipse.log_det


def fit_cell(cell: Cell, extra: Sequence[Member] = ()) -> CellFit:
    """Try members on a cluster, including ``extra`` ones, and stack the best.

    All are tried on the scanned folds; those that a stack of them needs are judged on all folds. A
    large cluster that looks Gaussian on all folds needs no more than the first few members.
    """
    gaussian = Trial(Gaussian(), cell).on_folds(cell.n_tested)
    if not cell.points.any():
        return _stacked(cell, [gaussian], 1, "all samples are equal")
    with part("first members", 0.0, 0.2):
        pairs = _pairs(cell)
        first = _judge(cell, _first(cell))
        trials: list[Trial[Member]] = [gaussian, *first, *pairs, *_judge(cell, extra)]
    if cell.n_samples < _ENOUGH_TO_SEARCH:
        return _stacked(cell, trials, len(trials), "few samples, so few members were tried")
    if cell.n_samples >= ENOUGH_TO_STOP and not _any_beats(trials[1:], gaussian):
        trials = _on_folds(trials, cell.n_tested)
        if not _any_beats(trials[1:], gaussian):
            return _stacked(cell, trials, len(trials), "it looks Gaussian, so few were tried")
    with part("kernels", 0.2, 0.35):
        trials += _climb(cell, _kernels(cell, _WIDTHS), len(_WIDTHS) // 2)
    with part("mixtures", 0.35, 0.7):
        trials += _mixtures(cell, pairs)
    with part("local Gaussians", 0.7, 0.85):
        trials += _local_gaussians(cell, trials)
    with part("stack", 0.85, 1.0):
        return _stacked(cell, _finalists(cell, trials), len(trials), "")


def _finalists(cell: Cell, trials: list[Trial[Member]]) -> list[Trial[Member]]:
    """Return the Gaussian and the members of the best stack on the scanned folds."""
    counts = cell.test_weights(cell.n_scanned)
    kept, _ = stack(_table(trials, counts), counts)
    return [trials[m] for m in dict.fromkeys([0, *kept.tolist()])]


def _table(trials: Sequence[Trial[Member]], counts: np.ndarray) -> np.ndarray:
    """Return the log densities (n_test, n_members) of the first held-out rows."""
    return np.stack([trial.held_out[: len(counts)] for trial in trials], axis=1)


def _stacked(cell: Cell, trials: list[Trial[Member]], n_tried: int, reason: str) -> CellFit:
    """Return the weighted sum of the best members; the first trial is the Gaussian's."""
    trials, counts = _on_folds(trials, cell.n_tested), cell.test_weights(cell.n_tested)
    table = _table(trials, counts)
    costs = np.array([each.member.kernel_cost * each.member.n_kernels(cell) for each in trials])
    kept, weights = pruned(table, counts, stack(table, counts)[0], costs)
    held_out = log_sum_exp(table[:, kept] + np.log(weights))
    gain, gain_error = mean_and_error(held_out - trials[0].held_out, counts)
    least = _STANDARD_ERRORS if cell.n_samples >= ENOUGH_TO_STOP else 1.0
    if gain <= least * gain_error:
        kept, weights, held_out = np.zeros(1, dtype=np.int64), np.ones(1), trials[0].held_out
        gain, gain_error = 0.0, 0.0
    best = [trials[m] for m in kept]
    densities = [trial.member.density(cell, trial.learned) for trial in best]
    names = tuple(trial.member.name for trial in best)
    return CellFit(
        density=KernelMixture.merge(densities, weights).affine(cell.back, cell.ellipse.mean),
        held_out=mean_and_error(held_out, counts)[0] + cell.ellipse.log_det,
        stack=Stack(names, weights, gain, gain_error, n_tried, reason),
        scores=held_out + cell.ellipse.log_det,
    )


def _judge(cell: Cell, members: Sequence[M]) -> list[Trial[M]]:
    """Judge members on the scanned folds."""
    return _on_folds([Trial(member, cell) for member in members], cell.n_scanned)


def _on_folds(trials: Sequence[Trial[M]], n_folds: int) -> list[Trial[M]]:
    """Judge members on further folds, leaving out those that samples do not allow."""
    found = []
    for trial in trials:
        with suppress(np.linalg.LinAlgError):
            found.append(trial.on_folds(n_folds))
    return [trial for trial in found if np.isfinite(trial.held_out).all()]


def _any_beats(trials: Sequence[Trial[Member]], other: Trial[Member]) -> bool:
    gains = [trial.gain_over(other) for trial in trials]
    return any(gain > _STANDARD_ERRORS * error for gain, error in gains)


def _climb(cell: Cell, members: Sequence[M], middle: int, patience: int = 1) -> list[Trial[M]]:
    """Judge members from the middle outwards, each side until ``patience`` are below its best."""
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


def _first(cell: Cell) -> list[Member]:
    """Return the members that are tried on every cluster."""
    kernels = _kernels(cell, _FIRST_WIDTHS)
    students = [Student(dof) for dof in _DOFS] if cell.allows_components else []
    scarce = cell.n_samples <= _FEW_PER_FEATURE * cell.n_features
    numbers = [n for n in _N_FACTORS if scarce and max(_MIN_FACTORED, 3 * n) <= cell.n_features]
    return [*students, *map(FactorGaussian, numbers), *kernels]


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
    """Return the numbers of components that samples allow, with that of the pieces among them."""
    found = sorted({*numbers, max(cell.n_pieces, numbers[0])})
    return [number for number in found if _allows(cell, number)]


def _mixtures(cell: Cell, pairs: list[Trial[Mixture]]) -> list[Trial[Mixture]]:
    """Judge numbers of components, from that of the pieces, and other kinds of the best mixture."""
    numbers = _numbers(cell, _N_COMPONENTS)
    if not pairs or not numbers:
        return []
    best = _best(pairs).member
    kind = best.pooled, best.dof
    members = [Mixture(number, *kind, cell.seed + number) for number in numbers]
    nearest = max(min(cell.n_pieces, numbers[-1]), numbers[0])
    patience, n_varied = (2, _N_VARIED) if _FEW_ROWS <= cell.n_rows < _MANY_ROWS else (1, 1)
    found = _climb(cell, members, numbers.index(nearest), patience)
    ranked = sorted(found, key=attrgetter("score"), reverse=True)
    variants = []
    for trial in ranked[:n_varied]:
        for other in _KINDS:
            if other != kind:
                # A pooled shape has starts of its own; see Mixture.
                start = trial.learned if other[0] == kind[0] else None
                variants.append(Mixture(trial.member.n_components, *other, cell.seed, start))
    return found + _judge(cell, variants)


def _best(trials: Sequence[Trial[M]]) -> Trial[M]:
    """Return the trial of the best member on the folds on which all were judged."""
    n_rows = min(len(trial.held_out) for trial in trials)
    return max(trials, key=lambda trial: trial.weights[:n_rows] @ trial.held_out[:n_rows])


def _local_gaussians(cell: Cell, others: Sequence[Trial[Member]]) -> list[Trial[LocalGaussians]]:
    """Judge several numbers of neighbors, and several widths at the best number."""
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
        if not first or first[0].gain_over(_best(others))[0] < 0:
            return first
    trials = _climb(cell, members, middle)
    if not trials:
        return trials
    best = _best(trials).member.n_neighbors
    return trials + _judge(cell, [LocalGaussians(best, width) for width in _LOCAL_WIDTHS])
