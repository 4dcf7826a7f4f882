"""The one call that evaluates forecasts."""

import numbers
import platform
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numba
import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed, effective_n_jobs

from ..progress import Progress, no_progress, print_progress
from ..validation import (
    check_choice,
    check_count,
    check_flag,
    check_n_jobs,
    check_numbers,
    check_positive,
    random_generator,
)
from .arrays import Forecasts, open_forecasts
from .blocks import Measured, Plan, measure_block
from .checks import Survey, name_scene, survey
from .measures import MEASURES, chosen_measures
from .recipes import Recipe, estimator_of, try_out
from .results import Evaluation
from .summary import summarise

#: The smallest standard deviation, as a part of the spread of the samples of a scene.
_FLOOR_SHARE = 0.01
#: A density needs as many samples.
_FEWEST_SAMPLES = 3
#: Blocks for every worker at least, so that none of them is idle for long at the end.
_BLOCKS_PER_JOB = 8

_LEVELS = tuple(i / 20 for i in range(1, 20))


def evaluate(
    predictions: Any,
    truth: Any,
    *,
    estimator: Any = "rome",
    step_estimator: Any = "kde",
    measures: Sequence[str] | str | None = None,
    shrinkage: str | None = "auto",
    errors: str = "floor",
    floor: float | None = None,
    lower_bound: float | None = None,
    k: int | Sequence[int] | None = None,
    miss_threshold: float = 2.0,
    levels: Sequence[float] = _LEVELS,
    agents: bool = False,
    check_units: bool = True,
    confidence: float = 0.95,
    n_replicates: int = 1000,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: bool = False,
) -> Evaluation:
    r"""Evaluate forecasts that are given as samples.

    Every figure is taken scene by scene; its mean, standard error and interval are those from
    scene to scene. Less is better of all of them.

    ==================  ======  ===================================================================
    measure             proper  what it is
    ==================  ======  ===================================================================
    ``nll``             yes     :math:`-\ln p(y)`, the density :math:`p` being that of whole paths
    ``nll_agent``       yes     the same for every agent by itself, if there are several
    ``nll_agents``      yes     the same for all agents of a scene together
    ``nll_per_value``   yes     ``nll`` divided by the numbers in a path; only if asked for
    ``nll_step``        yes     the same with a density for every step, mean over steps
    ``energy_score``    yes     :math:`(E|X - y| - \frac{1}{2} E|X - X'|) / \sqrt T` of the samples
    ``ece``             no      how far the coverage of highest-density regions is from their mass
    ``kl``              yes     Kullback-Leibler divergence of several truths from the forecast
    ``jsd``             no      Jensen-Shannon divergence, in bits
    ``wasserstein``     no      the cost of carrying the samples over to several truths
    ``ade``, ``fde``    no      mean distance over steps, and at the last one, mean over samples
    ``min_ade_k``       no      that of the nearest of the first k samples; ``min_fde_k`` alike
    ``miss_rate``       no      truths that end far from the nearest of (the most) k samples
    ``ade_likeliest``   no      that of the sample of the highest density
    ==================  ======  ===================================================================

    For paths of :math:`T` steps, ``energy_score`` and ``wasserstein`` are divided by
    :math:`\sqrt T`, so that they are in the unit of a single point and horizons compare; the
    customary energy score of whole paths is :math:`\sqrt T` times as large.

    A proper measure is best, on average, for the distribution that the truth comes from. The
    others can be improved by forecasts that are wrong: nearest samples by spreading them, mean
    distances by shrinking them to a point. Calibration alone does not make a forecast sharp.

    Parameters
    ----------
    predictions : array-like, frame or path-like
        The samples, of shape (scenes, samples, steps, coordinates), or (scenes, samples, agents,
        steps, coordinates) with ``agents=True``. NaN at the end of a path is padding; samples and
        agents that are NaN throughout are absent. Arrays of numpy, memory maps among them, and
        tensors; a frame of pandas or polars, or a parquet file, with the columns scene, sample,
        step, x, y, and perhaps z and agent, a scene's rows standing together in a file; or the
        path of a ``.npy`` or ``.npz`` file, of which the former is not read as a whole.
    truth : array-like, frame or path-like
        What became true, without the axis of samples; or with an axis of several true futures in
        its place, in a frame the column "future".
    estimator : {"rome", "kde", "auto"} or estimator, default="rome"
        The density of whole paths. "kde" is scipy's, "auto" is
        :class:`~sevenhills.AutoROME`; an estimator is cloned.
    step_estimator : {"kde", "rome", "auto"} or estimator, default="kde"
        The density of single steps.
    measures : sequence of str, optional
        Which measures to take; by default all that the forecasts allow.
    shrinkage : {"auto", "always", None}, default="auto"
        Whether ROME shrinks covariances: of clusters that have fewer than five samples for each
        dimension, of all clusters, or of none.
    errors : {"floor", "skip", "raise"}, default="floor"
        What to do where samples do not span their space, because they are identical, flat (a
        standing pedestrian, samples on a line) or no more than the dimensions: widen them by
        ``floor``; leave them out; or refuse them. Few samples of whole paths are no such case for
        ROME with ``shrinkage`` and for AutoROME. They are counted in any case.
    floor : float, optional
        The standard deviation to give them, in the unit of the data. By default 0.01 times the
        standard deviation between the samples of the scene, or, if they are identical, of the
        median scene. It does not depend on the truth.
    lower_bound : float, optional
        Log densities of single steps below it are raised to it; -20 is customary. A measure is
        no longer proper then.
    k : int or sequence of int, optional
        For the nearest of k samples, all by default.
    miss_threshold : float, default=2.0
        How far the last step may be from the nearest sample, in the unit of the data.
    levels : sequence of float
        Masses of the regions whose coverage is reported; 0.05 to 0.95 by default.
    agents : bool, default=False
        Whether there is an axis of agents.
    check_units : bool, default=True
        Whether to refuse predictions that are 30 times larger, smaller or farther away than the
        truth in most scenes, and axes that look swapped.
    confidence : float, default=0.95
        The mass of intervals.
    n_replicates : int, default=1000
        How often scenes are resampled for them.
    n_jobs : int, optional
        Number of workers, processes unless joblib is told otherwise; one by default.
    random_state : int, RandomState instance or None, default=0
        Parts ties, and resamples scenes.
    verbose : bool, default=False
        Whether to say how many scenes are done.

    Returns
    -------
    Evaluation

    Warns
    -----
    PrecisionWarning
        If predictions or truth are rounded, as by floats of 32 bits far from the origin, to more
        than a hundredth of the spread between samples. Subtract an origin near the paths before
        the conversion; the digits cannot be had afterwards.

    Notes
    -----
    Densities of single steps have the sample covariance and Scott's bandwidth, so that they are
    those of ``scipy.stats.gaussian_kde``. A covariance counts as singular, in which case scipy
    may raise an error or may not, depending on rounding, if the standard deviation of a coordinate
    is below 1e-13 of the coordinate itself, or if the others explain all of its variance but a
    part of 1e-12. Its degenerate cells get the square of the floor added to all variances.

    For calibration, a truth joins the samples, the density is fitted to all of them, and the rank
    of the truth among them is taken by the kernels of all others. If truth and samples come from
    one distribution, these ranks are uniform, for however few samples in however many dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from sevenhills.forecast import evaluate
    >>> rng = np.random.RandomState(0)
    >>> walks = rng.standard_normal((40, 31, 4, 2)).cumsum(axis=2)
    >>> truth, predictions = walks[:, 0], walks[:, 1:]
    >>> right = evaluate(predictions, truth)
    >>> wrong = evaluate(0.2 * predictions, truth)
    >>> right["nll"].mean < wrong["nll"].mean
    True
    >>> right["ece"].mean < 0.15 < wrong["ece"].mean
    True
    """
    check_flag(agents, "agents")
    check_flag(check_units, "check_units")
    check_flag(verbose, "verbose")
    check_n_jobs(n_jobs)
    check_count(n_replicates, "n_replicates")
    at = _checked_levels(levels, confidence)
    rng = random_generator(random_state)
    forecasts = open_forecasts(predictions, truth, bool(agents), bool(check_units))
    ks = _checked_ks(k, forecasts.n_samples)
    plan = Plan(
        names=chosen_measures(measures, ks, forecasts.n_truths, bool(agents)),
        paths=_recipe(estimator, "estimator", shrinkage, errors, floor),
        steps=_recipe(step_estimator, "step_estimator", shrinkage, errors, floor),
        ks=ks,
        miss_threshold=check_positive(miss_threshold, "miss_threshold"),
        lower_bound=_checked_bound(lower_bound),
    )
    if plan.needs("density", "agents"):
        try_out(plan.paths.estimator, "estimator")
    if plan.needs("steps"):
        try_out(plan.steps.estimator, "step_estimator")
    progress = print_progress() if verbose else no_progress
    progress("checking", 0.0)
    found = survey(forecasts, bool(check_units))
    _check_samples(found, plan)
    measured = _measure(forecasts, found, plan, rng, n_jobs, progress)
    settings = _settings(forecasts, found, plan, estimator, step_estimator, shrinkage, confidence)
    names = np.arange(forecasts.n_scenes) if forecasts.names is None else forecasts.names
    return summarise(measured, plan.names, settings, np.array(names), at, n_replicates, rng)


def _recipe(
    estimator: Any, name: str, shrinkage: str | None, errors: str, floor: float | None
) -> Recipe:
    check_choice(shrinkage, "shrinkage", ("auto", "always", None))
    check_choice(errors, "errors", ("floor", "skip", "raise"))
    if floor is not None:
        floor = check_positive(floor, "floor")
    return Recipe(estimator_of(estimator, name, shrinkage), errors, floor)


def _checked_levels(levels: Any, confidence: Any) -> np.ndarray:
    if not 0 < check_positive(confidence, "confidence") < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    out = np.unique(check_numbers(levels, "levels"))
    if out.ndim != 1 or len(out) == 0 or not (out > 0).all() or not (out < 1).all():
        raise ValueError("levels must be between 0 and 1, one at least")
    return out


def _checked_ks(k: Any, n_samples: int) -> tuple[int, ...]:
    given = [n_samples] if k is None else [k] if isinstance(k, numbers.Integral) else list(k)
    ks = tuple(sorted({check_count(each, "k", least=1) for each in given}))
    if not ks or ks[-1] > n_samples:
        raise ValueError(f"k must be between 1 and the {n_samples} samples of a scene, got {k}")
    return ks


def _checked_bound(lower_bound: Any) -> float | None:
    if lower_bound is None:
        return None
    if isinstance(lower_bound, bool) or not isinstance(lower_bound, numbers.Real):
        raise TypeError(f"lower_bound must be a number or None, got {lower_bound!r}")
    if not np.isfinite(float(lower_bound)):
        raise ValueError(f"lower_bound must be finite, got {lower_bound}")
    return float(lower_bound)


def _check_samples(found: Survey, plan: Plan) -> None:
    """Refuse forecasts of too few samples, or of samples that say nothing of their scale."""
    if not plan.needs("density", "steps", "agents"):
        return
    most = int(found.n_present.max())
    if most < _FEWEST_SAMPLES:
        working = [n for n, each in MEASURES.items() if each.needs == "displacement"]
        raise ValueError(
            f"predictions have {most} sample{'s' * (most > 1)} in a scene, too few for a density; "
            f"what can be measured is measures={working}"
        )
    if plan.paths.errors == "floor" and plan.paths.floor is None and not found.usual_spread:
        raise ValueError(
            "predictions are identical samples in all scenes, so that nothing tells their scale; "
            "pass a floor, the standard deviation to give them"
        )


def _measure(
    forecasts: Forecasts,
    found: Survey,
    plan: Plan,
    rng: np.random.RandomState,
    n_jobs: int | None,
    progress: Progress,
) -> list[Measured]:
    """Take all measures, a block of scenes at a time."""
    floors = _floors(found, plan.paths.floor)
    # One number for every truth, whatever the blocks.
    uniform = rng.uniform(size=(forecasts.n_scenes, forecasts.n_agents, forecasts.n_truths))
    n_workers = effective_n_jobs(n_jobs)
    bounds = list(forecasts.blocks(1 if n_workers == 1 else _BLOCKS_PER_JOB * n_workers))

    def tasks() -> Iterator[Any]:
        for start, stop in bounds:
            part = slice(start, stop)
            yield delayed(measure_block)(
                *forecasts.read(start, stop), floors[part], uniform[part], plan
            )

    out = []
    # Blocks are read one after another and sent as they are: mapped files would be memory, too.
    blocks = Parallel(n_jobs=n_jobs, max_nbytes=None, return_as="generator")(tasks())
    for (start, stop), measured in zip(bounds, blocks, strict=True):
        if plan.paths.errors == "raise" and measured.tally.places:
            _abandon(blocks)
            raise _degenerate(measured, start, forecasts)
        out.append(measured)
        progress("scenes", stop / forecasts.n_scenes)
    return out


def _abandon(blocks: Any) -> None:
    """Stop the work on further blocks; joblib would warn that it was for nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blocks.close()


def _floors(found: Survey, floor: float | None) -> np.ndarray:
    """Return the standard deviation (S, A) to give to samples that have none."""
    if floor is not None:
        return np.full(found.spreads.shape, floor)
    return _FLOOR_SHARE * np.where(found.spreads > 0, found.spreads, found.usual_spread)


def _degenerate(measured: Measured, start: int, forecasts: Forecasts) -> ValueError:
    places = [
        f"{name_scene(start + scene, forecasts)}, {place}" for scene, place in measured.tally.places
    ]
    return ValueError(
        f"predictions are degenerate in {'; '.join(places)}: pass errors='floor' or 'skip'"
    )


def _settings(
    forecasts: Forecasts,
    found: Survey,
    plan: Plan,
    estimator: Any,
    step_estimator: Any,
    shrinkage: str | None,
    confidence: float,
) -> dict[str, Any]:
    """Return how the figures came about, in plain values."""
    from .. import __version__

    return {
        "n_scenes": forecasts.n_scenes,
        "n_samples": forecasts.n_samples,
        "n_agents": forecasts.n_agents if forecasts.has_agents else None,
        "n_truths": forecasts.n_truths,
        "n_steps": forecasts.n_steps,
        "n_coordinates": forecasts.n_coordinates,
        "truth": found.digest,
        "estimator": estimator if isinstance(estimator, str) else repr(plan.paths.estimator),
        "step_estimator": step_estimator
        if isinstance(step_estimator, str)
        else repr(plan.steps.estimator),
        "shrinkage": shrinkage,
        "errors": plan.paths.errors,
        "floor": plan.paths.floor,
        "lower_bound": plan.lower_bound,
        "k": list(plan.ks),
        "miss_threshold": plan.miss_threshold,
        "confidence": float(confidence),
        "versions": {
            "sevenhills": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "numba": numba.__version__,
            "python": platform.python_version(),
        },
    }
