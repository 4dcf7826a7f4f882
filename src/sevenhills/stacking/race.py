"""Which members a cluster needs: few where it looks like a Gaussian, more where it does not."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TypeVar

import numpy as np

from ..density import KernelMixture
from ..whitening import silverman
from .cell import MOST_NEIGHBOURS, Cell
from .members import (
    DOF,
    Member,
    MixtureFit,
    bent_gaussian,
    bent_kernels,
    gaussian,
    local_gaussians,
    mixture,
    shrunk_kernels,
    student,
)
from .weights import mean_and_error, stack, stacked

#: From this number of samples on, a cluster that looks Gaussian is taken for one.
ENOUGH_TO_STOP = 300
#: Fewer samples than this do not tell more members apart.
_ENOUGH_TO_TRY = 30
#: What is better than a Gaussian is better by this many standard errors.
_STANDARD_ERRORS = 2.0
#: What is behind by this many standard errors is not followed any further.
_FAR_BEHIND = 5.0
#: Widths of kernels, as multiples of Silverman's: those that are tried first, and the others.
_FIRST_WIDTHS = (0.5, 1.0)
_WIDTHS = (0.1, 0.15, 0.22, 0.35, 0.7, 1.4)
_BENT_WIDTHS = (0.1, 0.15, 0.22, 0.32, 0.45, 0.6, 0.8)
_SPELLED_WIDTHS = (0.15, 0.2, 0.28, 0.4, 0.55, 0.75)
_WIDEST = 0.97
#: In more dimensions than this, kernels that are narrow enough to be bent see no samples.
_MOST_BENT = 12
#: With as many samples for each feature, components need not be alike.
_PLENTY = 50
#: Numbers of components, after two.
_NUMBERS = (3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
#: Clusters of more rows than this look less far beyond the best.
_MANY = 800
_LOCAL_WIDTHS = (0.35, 0.5, 1.0)
_FIRST_LOCAL_WIDTH = 0.7

_Value = TypeVar("_Value", int, float)


@dataclass(frozen=True, eq=False)
class CellFit:
    """The density of a cluster.

    Attributes
    ----------
    density : KernelMixture
    members : tuple of str
        The names of the members that were kept.
    weights : ndarray of shape (n_members,)
    held_out : float
        The mean log density of samples that were not seen.
    gain, gain_error : float
        By how much it exceeds that of a Gaussian, and the standard error of that.
    n_tried : int
        How many members were tried.
    reason : str
        Why there are not more.
    """

    density: KernelMixture
    members: tuple[str, ...]
    weights: np.ndarray
    held_out: float
    gain: float
    gain_error: float
    n_tried: int
    reason: str


def fit_cell(cell: Cell, seed: int) -> CellFit:
    """Try members on a cluster and stack the best."""
    plain = gaussian(cell)
    if not cell.points.any():
        return _stacked(cell, [plain], 1, "all samples are equal")
    pairs = _pairs(cell, seed)
    members = [plain, *_opening(cell), *(each.member for each in pairs)]
    if cell.total < _ENOUGH_TO_TRY:
        return _stacked(cell, members, len(members), "few samples, so few members were tried")
    if cell.total >= ENOUGH_TO_STOP and not any(_beats(each, plain) for each in members[1:]):
        return _stacked(cell, [plain], len(members), "no other member is clearly better")
    base = silverman(cell.total, cell.n_features)
    members += _climb(lambda factor: shrunk_kernels(cell, min(_WIDEST, factor * base)), _WIDTHS)
    members += _mixtures(cell, seed, pairs)
    if cell.n_features <= _MOST_BENT:
        members += _climb(partial(bent_kernels, cell), _BENT_WIDTHS, members)
        members += _climb(partial(bent_gaussian, cell), _SPELLED_WIDTHS, members)
    members += _local(cell, members)
    return _stacked(cell, members, len(members), "")


def _stacked(cell: Cell, members: list[Member], n_tried: int, reason: str) -> CellFit:
    table = np.stack([member.held_out for member in members], axis=1)
    kept, weights = stack(table, cell.test_weights)
    held_out = stacked(table[:, kept], weights)
    gain, gain_error = mean_and_error(held_out - members[0].held_out, cell.test_weights)
    density = KernelMixture.merge([members[m].build() for m in kept], weights)
    back = np.linalg.inv(cell.whole.transform)
    return CellFit(
        density=density.affine(back, cell.whole.mean),
        members=tuple(members[m].name for m in kept),
        weights=weights,
        held_out=mean_and_error(held_out, cell.test_weights)[0] + cell.whole.log_det,
        gain=gain,
        gain_error=gain_error,
        n_tried=n_tried,
        reason=reason,
    )


def _beats(member: Member, other: Member, n_errors: float = _STANDARD_ERRORS) -> bool:
    gain, error = member.gain_over(other)
    return gain > n_errors * error


def _opening(cell: Cell) -> list[Member]:
    base = silverman(cell.total, cell.n_features)
    makers = [partial(shrunk_kernels, cell, min(_WIDEST, f * base)) for f in _FIRST_WIDTHS]
    return _defined([partial(student, cell), *makers] if cell.allows_components else makers)


def _defined(makers: Iterable[Callable[[], Member]]) -> list[Member]:
    """Return the members that exist: too few or too equal samples do not allow all."""
    return [member for member in map(_try, makers) if member is not None]


def _try(make: Callable[[], Member]) -> Member | None:
    try:
        member = make()
    except np.linalg.LinAlgError:
        return None
    return member if np.isfinite(member.held_out).all() else None


def _climb(
    make: Callable[[_Value], Member], values: Sequence[_Value], others: Sequence[Member] = ()
) -> list[Member]:
    """Try values from the middle outwards, as long as members get better.

    If the middle one is far behind the best of the others, it is the only one.
    """
    middle = len(values) // 2
    tried = _defined([partial(make, values[middle])])
    if tried and others and _beats(max(others, key=attrgetter("score")), tried[0], _FAR_BEHIND):
        return tried
    start = tried[0].score if tried else -np.inf
    for places in (range(middle - 1, -1, -1), range(middle + 1, len(values))):
        before = start
        for place in places:
            member = _try(partial(make, values[place]))
            if member is None:
                break
            tried.append(member)
            if member.score < before:
                break
            before = member.score
    return tried


# Mixtures


def _pairs(cell: Cell, seed: int) -> list[MixtureFit]:
    """Return two components and, if samples are few for the features, two that are alike."""
    if not _enough(cell, 2):
        return []
    light = _fitted(cell, 2, False, np.inf, seed)
    if not light or cell.total >= _PLENTY * cell.n_features:
        return light
    return light + _fitted(cell, 2, True, np.inf, seed, light[0])


def _fitted(
    cell: Cell,
    n_components: int,
    alike: bool,
    dof: float,
    seed: int,
    start: MixtureFit | None = None,
) -> list[MixtureFit]:
    """Return a mixture, or nothing where it does not exist."""
    try:
        fit = mixture(cell, n_components, alike, dof, seed, start)
    except np.linalg.LinAlgError:
        return []
    return [fit] if np.isfinite(fit.member.held_out).all() else []


def _enough(cell: Cell, n_components: int) -> bool:
    enough = 0.8 * cell.total >= n_components * max(5, cell.n_features / 2)
    return enough and cell.allows_components


def _mixtures(cell: Cell, seed: int, pairs: list[MixtureFit]) -> list[Member]:
    """Try more and more components until more do not help, and variants of the best."""
    if not pairs:
        return []
    path = [max(pairs, key=lambda fit: fit.member.score)]
    alike = path[0].alike
    beside = 1 if cell.n_rows < _MANY else 0
    for number in _NUMBERS:
        if not _enough(cell, number) or len(path) - 1 - _best(path) > beside:
            break
        path += _fitted(cell, number, alike, np.inf, seed + number)
    best = _best(path)
    variants = [
        variant
        for fit in path[max(0, best - beside) : best + beside + 1]
        for shapes, dof in ((not alike, np.inf), (alike, DOF), (not alike, DOF))
        # Two components of both kinds may be there already.
        if fit.n_components > 2 or np.isfinite(dof) or len(pairs) == 1
        for variant in _fitted(cell, fit.n_components, shapes, dof, seed, fit)
    ]
    return [fit.member for fit in path[1:] + variants]


def _best(path: list[MixtureFit]) -> int:
    return int(np.argmax([fit.member.score for fit in path]))


# Local Gaussians


def _local(cell: Cell, others: list[Member]) -> list[Member]:
    """Try neighbourhoods of several sizes, and several widths at the best.

    Where there are many features, it ends with the first, if it is far behind the others.
    """
    least = max(8, cell.n_features // 2 + 2)
    most = min(MOST_NEIGHBOURS, int(cell.total // 4))
    if most < least or not cell.allows_kernels_of_their_own:
        return []
    sizes = np.unique(np.geomspace(least, most, 5).astype(int)).tolist()
    made: dict[int, Member] = {}

    def make(size: int) -> Member:
        made[size] = local_gaussians(cell, size, _FIRST_LOCAL_WIDTH)
        return made[size]

    members = _climb(make, sizes, others if cell.n_features > _MOST_BENT else ())
    if len(members) < 2:
        return members
    best = max(made, key=lambda size: made[size].score)
    return members + _defined(partial(local_gaussians, cell, best, w) for w in _LOCAL_WIDTHS)
