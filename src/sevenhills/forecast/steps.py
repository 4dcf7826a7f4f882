"""The density of every step by itself, as forecasts are customarily judged."""

from dataclasses import dataclass

import numpy as np

from ..estimators import GaussianKDE
from ..kernels.steps import EMPTY, FINE, log_step_densities
from .cells import Cases
from .recipes import REFUSED, Recipe


@dataclass(frozen=True, eq=False)
class StepDensities:
    """What the densities of single steps say.

    Attributes
    ----------
    log_densities : ndarray of shape (C, L, T)
        Of every truth at every step; NaN where there is none.
    kinds : ndarray of shape (C, T)
        What is wrong with the samples; see :mod:`sevenhills.kernels.steps`.
    n_clipped : int
        How many log densities were raised to the lower bound.
    """

    log_densities: np.ndarray
    kinds: np.ndarray
    n_clipped: int

    def nll(self) -> np.ndarray:
        """Return the negative log density (C,), over steps and then over truths."""
        return -mean_of_valid(mean_of_valid(self.log_densities))


def mean_of_valid(values: np.ndarray) -> np.ndarray:
    """Return the means along the last axis of what is not NaN, NaN where there is nothing."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, values, 0.0).sum(axis=-1) / there.sum(axis=-1))


def step_densities(cases: Cases, recipe: Recipe, lower_bound: float | None = None) -> StepDensities:
    """Return the log densities of truths under densities of single steps.

    Parameters
    ----------
    cases : Cases
    recipe : Recipe
        With plain ``GaussianKDE()``, all cells are worked through at once; they have scipy's
        covariance and bandwidth, and degenerate ones the floor's square added to the variances.
    lower_bound : float, optional
        Log densities below it are raised to it.
    """
    is_plain = isinstance(recipe.estimator, GaussianKDE) and not _changed(recipe.estimator)
    floors = cases.floors if recipe.errors == "floor" else np.full(len(cases.floors), np.nan)
    found, kinds = _kernel_densities(cases, floors, cases.truths)
    if not is_plain:
        found = _fitted_densities(cases, recipe, kinds)
    if lower_bound is None:
        return StepDensities(found, kinds, 0)
    n_clipped = int(np.count_nonzero(found < lower_bound))
    return StepDensities(np.maximum(found, lower_bound), kinds, n_clipped)


def kinds_of_steps(cases: Cases) -> np.ndarray:
    """Return what is wrong with the samples (C, T) of every step."""
    no_truths = np.empty((len(cases.paths), 0, *cases.paths.shape[2:]))
    return _kernel_densities(cases, np.full(len(cases.floors), np.nan), no_truths)[1]


def _changed(estimator: GaussianKDE) -> bool:
    """Whether an estimator was given parameters of its own."""
    mine = {**estimator.get_params(), "n_jobs": None}
    return bool(mine != GaussianKDE().get_params())


def _kernel_densities(
    cases: Cases, floors: np.ndarray, truths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    n_cases, n_samples, n_steps, n_coordinates = cases.paths.shape
    n_truths = truths.shape[1]
    kinds = np.empty((n_cases, n_steps), dtype=np.int64)
    out = np.empty((n_cases, n_truths, n_steps))
    log_step_densities(
        np.ascontiguousarray(cases.paths),
        cases.lengths,
        np.ascontiguousarray(truths),
        cases.horizons,
        floors,
        np.empty((n_samples, n_coordinates)),
        np.empty((n_coordinates, n_coordinates)),
        np.empty((4, n_coordinates)),
        np.empty(n_samples),
        kinds,
        out,
    )
    # Steps without a truth count for nothing.
    scored = np.arange(n_steps) < cases.horizons.max(axis=1)[:, None]
    return out, np.where(scored, kinds, FINE)


def _fitted_densities(cases: Cases, recipe: Recipe, kinds: np.ndarray) -> np.ndarray:
    """Fit every cell by itself, writing into ``kinds`` which of them are refused."""
    out = np.full((*cases.horizons.shape, cases.paths.shape[2]), np.nan)
    scored = np.arange(out.shape[2]) < cases.horizons[..., None]
    for c, t in np.argwhere(scored.any(axis=1) & (kinds != EMPTY)).tolist():
        samples = cases.paths[c, cases.lengths[c] > t, t]
        model = recipe.fit(samples, int(kinds[c, t]), float(cases.floors[c]))
        if model is not None:
            true = scored[c, :, t]
            out[c, true, t] = model.score_samples(cases.truths[c, true, t])
        elif kinds[c, t] == FINE:
            kinds[c, t] = REFUSED
    return out
