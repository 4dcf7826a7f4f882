"""The density of whole paths, of one agent or of several together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..density import KernelMixture
from ..kernels.left_out import log_sums_of_others
from ..kernels.steps import FEW, FINE, FLAT, IDENTICAL
from ..metrics.divergence import divergence_terms
from .cells import Group
from .recipes import REFUSED, Recipe

#: Log densities that are closer than so many decimals are ties.
_DECIMALS = 9
#: A density of the truth needs as many futures.
FEWEST_FUTURES = 3

_NO_STEPS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Problem:
    """Samples of whole paths, and true futures that have as many steps.

    Attributes
    ----------
    samples : ndarray of shape (n, M)
        The points of a path, of one agent after another, in a row.
    truths : ndarray of shape (m, M)
    members : ndarray of shape (n,)
        Which of the samples of the scene these are.
    futures : ndarray of shape (m,)
        Which of the truths of the scene these are.
    n_steps : int
        The number of points of a path, over all agents.
    kind : int
        What is wrong with the samples; see :mod:`sevenhills.kernels.steps`.
    """

    samples: np.ndarray
    truths: np.ndarray
    members: np.ndarray
    futures: np.ndarray
    n_steps: int
    kind: int


def problems(group: Group, kinds: np.ndarray) -> Iterator[Problem]:
    """Yield the problems of a scene: truths that end at the same steps make one.

    Parameters
    ----------
    group : Group
    kinds : ndarray of shape (A, T)
        What is wrong with the samples of single steps.
    """
    first = group.horizons[:1]
    is_one = (group.horizons == first).all()
    for ends in first if is_one else np.unique(group.horizons, axis=0):
        members = np.flatnonzero((group.lengths >= ends).all(axis=1))
        if not ends.any() or len(members) == 0:
            continue
        futures = np.flatnonzero((group.horizons == ends).all(axis=1))
        there = np.arange(kinds.shape[1]) < ends[:, None]
        samples = _rows(group.paths, members, there)
        yield Problem(
            samples=samples,
            truths=_rows(group.truths, futures, there),
            members=members,
            futures=futures,
            n_steps=int(ends.sum()),
            kind=_kind_of(samples, kinds[there]),
        )


def _rows(paths: np.ndarray, chosen: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Return some of the paths (n, A, T, D), as far as they go, each as a row."""
    some = paths if len(chosen) == len(paths) else paths[chosen]
    points = some if there.all() else some[:, there]
    return np.ascontiguousarray(points).reshape(len(chosen), -1)


def _kind_of(samples: np.ndarray, kinds: np.ndarray) -> int:
    """Return what is wrong with samples: a step without spread leaves the whole path flat."""
    if (samples == samples[0]).all():
        return IDENTICAL if len(samples) > 1 else FEW
    if ((kinds == IDENTICAL) | (kinds == FLAT)).any():
        return FLAT
    return FEW if len(samples) <= samples.shape[1] else FINE


@dataclass(frozen=True, eq=False)
class PathDensity:
    """The density of the samples of a problem.

    Attributes
    ----------
    problem : Problem
    recipe : Recipe
    floor : float
        The standard deviation to give to samples that have none.
    model : estimator or None
        The fitted density, None if there is none.
    """

    problem: Problem
    recipe: Recipe
    floor: float
    model: Any

    @classmethod
    def of(cls, problem: Problem, recipe: Recipe, floor: float) -> "PathDensity":
        """Fit the density of a problem."""
        return cls(problem, recipe, floor, recipe.fit(problem.samples, problem.kind, floor))

    @property
    def kind(self) -> int:
        """What is wrong with the samples, or that the estimator refused them."""
        refused = self.model is None and self.problem.kind == FINE
        return REFUSED if refused else self.problem.kind

    def log_densities(self) -> np.ndarray:
        """Return the log densities of the truths."""
        return np.asarray(self.model.score_samples(self.problem.truths))

    def likeliest(self) -> int:
        """Return the densest sample, by the kernels of all the others."""
        return int(left_out(self.model, self.problem.samples).argmax())

    def levels(self, uniform: np.ndarray) -> np.ndarray:
        r"""Return the mass of the smallest highest-density region that holds each truth.

        A density is never as high at new points as at those that it was fitted to. So the truths
        join the samples, the density is fitted to all of them, and every point is judged by the
        kernels of the others. If truths and samples come from one distribution, none of them can
        be told apart, and the rank of a truth among the samples,

        .. math:: \frac{\#\{i : p(x_i) > p(y)\} + U (1 + \#\{i : p(x_i) = p(y)\})}{n + 1},

        is uniform between 0 and 1, exactly, for however few samples in however many dimensions.

        Parameters
        ----------
        uniform : ndarray of shape (m,)
            Uniform numbers :math:`U`, which part ties.
        """
        n = len(self.problem.samples)
        everything = np.concatenate([self.problem.samples, self.problem.truths])
        model = self.recipe.fit(everything, self.problem.kind, self.floor)
        if model is None:
            return np.full(len(uniform), np.nan)
        found = left_out(model, everything).round(_DECIMALS)
        denser = (found[:n] > found[n:, None]).sum(axis=1)
        equal = (found[:n] == found[n:, None]).sum(axis=1)
        return np.asarray((denser + uniform * (1 + equal)) / (n + 1))

    def divergences(self) -> tuple[float, float]:
        """Return the Kullback-Leibler (nats) and Jensen-Shannon (bits) divergences of the truth.

        The density of the truth is fitted to the true futures. Every sample and every future is
        judged by the kernels of the others, as otherwise each would find itself probable.
        """
        truths, samples = self.problem.truths, self.problem.samples
        if len(truths) < FEWEST_FUTURES:
            return np.nan, np.nan
        truth = self.recipe.fit(truths, _kind_of(truths, _NO_STEPS), self.floor)
        if truth is None:
            return np.nan, np.nan
        true_at_truths = left_out(truth, truths)
        at_truths = self.log_densities()
        at_samples = divergence_terms(
            left_out(self.model, samples), np.asarray(truth.score_samples(samples))
        )
        halves = divergence_terms(at_truths, true_at_truths).mean(), at_samples.mean()
        return float((true_at_truths - at_truths).mean()), float(sum(halves) / 2)


def left_out(model: Any, X: np.ndarray) -> np.ndarray:
    """Return the log density of a fit at its own samples, each without its own kernel.

    A density that has no kernel on every sample is taken as it is. In 24 dimensions, an own
    kernel of Silverman's width is some ten orders of magnitude above all others, so that the
    sum minus it would be nothing but rounding; the others are added up instead.
    """
    density = getattr(model, "density_", None)
    if isinstance(density, KernelMixture):
        own = _own_kernels(density.means, X)
        if own is not None:
            return _sums_of_others(density, X, own)
    return np.asarray(model.score_samples(X))


def _own_kernels(centres: np.ndarray, X: np.ndarray) -> np.ndarray | None:
    """Return the kernel that stands on each sample, None unless all kernels do."""
    places = {row.tobytes(): k for k, row in enumerate(centres + 0.0)}  # there is one zero then
    own = np.array([places.get(row.tobytes(), -1) for row in X + 0.0])
    if (own < 0).any() or len(places) < len(centres) or len(np.unique(own)) < len(centres):
        return None
    return own


def _sums_of_others(density: KernelMixture, X: np.ndarray, own: np.ndarray) -> np.ndarray:
    groups = np.repeat(np.arange(density.n_groups), np.diff(density.offsets))
    log_dets = density.log_dets - 0.5 * density.n_features * np.log(2 * np.pi)
    rows = np.empty(density.n_kernels, dtype=np.int64)
    rows[own] = np.arange(len(X))
    with np.errstate(divide="ignore"):
        # A kernel may stand for several equal samples, of which one is left out.
        log_left = np.log(np.maximum(density.weights[own] * len(X) - 1, 0).round(_DECIMALS))
    out = np.empty(len(X))
    log_sums_of_others(
        np.matmul(X - X.mean(axis=0), density.transforms),
        rows,
        groups,
        density.log_weights + log_dets[groups],
        own,
        log_left - np.log(len(X)) + log_dets[groups[own]],
        np.empty(density.n_kernels),
        out,
    )
    return out
