"""The evaluation of forecasts in one call."""

import numbers
import os
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from ..density import KernelMixture
from ..progress import muted, part, report, show_progress
from ..validation import (
    check_choice,
    check_confidence,
    check_count,
    check_flag,
    check_n_jobs,
    check_numbers,
    check_positive,
    random_generator,
)
from .checks import SceneStatistics, check_scenes
from .groups import check_group_labels
from .inputs import Forecasts, PathArray, checked_periods, open_forecasts, open_paths
from .mixtures import EXACT, Mixtures, exact_scores, read_mixtures
from .path_densities import AgentForecasts, FlooredEstimator, floored_estimator, learn_pools
from .pooled import MAX_SCENES, Pools
from .results import Evaluation, summarize
from .scores import (
    MEASURES,
    BlockScores,
    Measure,
    Scoring,
    choose_measures,
    mean_of_valid,
    score_block,
)

#: A density is fitted to at least this many samples.
_MIN_SAMPLES = 3
#: Blocks per worker, so that workers finish at about the same time and progress is shown.
_BLOCKS_PER_JOB = 8

#: Scenes that are read for the pools: more than they use, because horizons may differ.
_POOLED_SCENES = 2 * MAX_SCENES

_LEVELS = tuple(i / 20 for i in range(1, 20))


def evaluate(
    predictions: Any,
    truth: Any,
    *,
    weights: Any = None,
    log_prob: Any = None,
    n_draws: int = 100,
    estimator: Any = "pooled",
    step_estimator: Any = "kde",
    measures: Sequence[str] | str | None = None,
    shrinkage: str | None = "auto",
    errors: str = "floor",
    floor: float | None = None,
    lower_bound: float | None = None,
    k: int | Sequence[int] | None = None,
    miss_threshold: float = 2.0,
    collision_distance: float = 0.2,
    levels: Sequence[float] = _LEVELS,
    horizon: int | None = None,
    period: Any = None,
    agents: bool = False,
    check_units: bool = True,
    groups: Any = None,
    average: str = "scene",
    confidence: float = 0.95,
    n_replicates: int = 1000,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: bool = False,
) -> Evaluation:
    r"""Evaluate forecasts that are given as samples or as mixtures.

    Every measure is computed for every scene. Means, standard errors and bootstrap intervals are
    over scenes, or over ``groups`` of scenes that depend on one another. Smaller values are better.

    ========================  ======  ==============================================================
    measure                   proper  definition
    ========================  ======  ==============================================================
    ``nll``                   yes     :math:`-\ln p(y)` with the density :math:`p` of whole paths
    ``nll_agent``             yes     ``nll`` of every agent by itself, mean over agents
    ``nll_agents``            yes     ``nll`` of all agents of a scene together
    ``nll_step``              yes     ``nll`` with a density for every step, mean over steps
    ``energy_score``          yes     :math:`(E|X - y| - \frac{1}{2} E|X - X'|) / \sqrt T`
    ``energy_score_moves``    yes     ``energy_score`` of the moves from step to step
    ``crps``                  yes     CRPS, mean over steps and coordinates
    ``variogram_score``       yes     :math:`(E|X_s - X_t|^{1/2} - |y_s - y_t|^{1/2})^2`, mean over
                                      pairs of steps
    ``ece``                   no      calibration error of the coverage of HDRs
    ``kl``                    yes     Kullback-Leibler divergence of several truths
    ``jsd``                   no      Jensen-Shannon divergence of several truths, in bits
    ``wasserstein``           no      Wasserstein distance between samples and several truths
    ``ade``                   no      distance from the truth, mean over steps and samples
    ``fde``                   no      distance from the truth at the last step, mean over samples
    ``min_ade_k``             no      ``ade`` of the nearest of the k most probable samples
    ``min_fde_k``             no      ``fde`` of the nearest of the k most probable samples
    ``miss_rate_k``           no      share of truths with ``min_fde_k`` above ``miss_threshold``
    ``miss_rate_path_k``      no      the same, with the largest distance of any step
    ``brier_min_ade_k``       no      :math:`(1 - p)^2` plus ``min_ade_k``, of a sample of weight p
    ``brier_min_fde_k``       no      :math:`(1 - p)^2` plus ``min_fde_k``, of a sample of weight p
    ``ade_most_likely``       no      ``ade`` of the sample with the largest weight
    ``fde_most_likely``       no      ``fde`` of the sample with the largest weight
    ``ade_densest``           no      ``ade`` of the sample with the highest density
    ``fde_densest``           no      ``fde`` of the sample with the highest density
    ``min_jade_k``            no      ``min_ade_k`` with one sample for all agents, mean over them
    ``min_jfde_k``            no      ``min_fde_k`` with one sample for all agents, mean over them
    ``collision_rate``        no      share of samples of an agent that collide with another agent
    ``collision_rate_truth``  no      the same of the true paths, for reference
    ========================  ======  ==============================================================

    By default, these are the likelihoods, ``energy_score``, ``ece``, ``ade``, ``fde``,
    ``min_ade_k``, ``min_fde_k`` and ``miss_rate_k``; for several truths ``kl``, ``jsd`` and
    ``wasserstein``, if POT is installed; for agents ``min_jade_k`` and ``min_jfde_k``; for weights
    ``brier_min_fde_k``. ``measures="all"`` computes all that the forecasts allow.

    For paths of :math:`T` steps, energy scores and ``wasserstein`` are divided by
    :math:`\sqrt T`, so that they have the unit of a single point, and different horizons can be
    compared. The usual energy score of whole paths is :math:`\sqrt T` times as large. Energy,
    CRPS and variogram scores are fair: no sample is paired with itself, so that their expected
    values do not depend on the number of samples.

    Samples have their weights in all means. The k most probable samples are those with the largest
    weights; of equal weights, and without weights, the first ones. The weights of the k samples
    of a Brier measure are divided by their sum.

    Two agents collide if they come nearer than ``collision_distance``, where they move in straight
    lines from step to step.

    The expected value of a proper measure is best for the distribution of the truth, that of
    ``nll`` up to the error of a density that is estimated from samples. ``nll_step`` and ``crps``
    depend on the distributions of single steps only, and ``variogram_score`` on that of distances
    between steps: forecasts that are wrong elsewhere can be as good. Other measures can be
    improved by wrong forecasts: the nearest sample by a wider spread, mean distances by a
    narrower one. Calibration alone does not make a forecast sharp.

    Parameters
    ----------
    predictions : array-like, frame, path-like or Mixtures
        Samples of shape (scenes, samples, steps, coordinates), or (scenes, samples, agents, steps,
        coordinates) with ``agents=True``. NaN at the end of a path is padding; samples and agents
        that are all NaN are absent. Arrays, memory maps and tensors; a list of scenes of different
        sizes; a frame of pandas, polars or pyarrow, a csv or a parquet file, with the columns
        scene, sample, step, x, y, and optionally z, agent, weight and group; the path of a
        ``.npy`` file, which is read by blocks, or of a ``.npz`` file; ``.ndjson`` of TrajNet++;
        or a ``.json`` submission to nuScenes, with probabilities as weights.
        Gaussian mixtures have exact likelihoods: a :class:`Mixtures`, a ``.npz`` file with its
        arguments as arrays, or a :class:`~sevenhills.KernelMixture` for every scene.
    truth : array-like, frame or path-like
        True paths, without the axis of samples, or with an axis of several true futures in its
        place; in a frame the column "future". NaN is a mask: a step without truth is left out of
        all measures, and whole paths are compared at the other steps.
    weights : array-like of shape (scenes, samples), optional
        Weights of the samples, the probabilities of modes for instance; equal by default. Scenes
        have the order of the predictions, in a frame that of their first rows. Weights are
        not negative, and are divided by their sum. Samples of weight zero are absent. With
        ``agents=True``, every agent may have its own weights, (scenes, samples, agents). A frame
        may have them in the column "weight", a ``.npz`` file in the array "weights".
    log_prob : array-like of shape (scenes,) or (scenes, futures), optional
        Log densities of the truths that the model itself computed, those of all agents together
        with ``agents=True``. They replace the estimated ones in ``nll`` or ``nll_agents``.
    n_draws : int, default=100
        Number of draws from every mixture, for the measures that need samples. Displacements are
        those of the means of components, with their weights.
    estimator, step_estimator : str or estimator, default="pooled", "kde"
        Density of whole paths and of single steps: a name of ``sevenhills.estimators.ESTIMATORS``,
        or an estimator, which is cloned. "pooled" gives whole paths mixtures of Gaussians whose
        means and covariances are shrunk to what all scenes have in common. Calibration, degenerate
        samples and fewer than 30 scenes use "rome".
    measures : sequence of str, optional
        Measures to compute, or "all"; see above.
    shrinkage : {"auto", "always", None}, default="auto"
        Shrinkage of covariances by "rome": of clusters with fewer than five samples for each
        dimension, of all clusters, or of none.
    errors : {"floor", "skip", "raise"}, default="floor"
        Treatment of degenerate samples, which do not span their space because they are identical,
        flat (on a line, for instance) or no more than the dimensions: widen them by ``floor``,
        leave them out, or raise an error. They are counted in any case. Few samples of whole paths
        are not degenerate for "rome" with ``shrinkage`` and for "auto".
    floor : float, optional
        Standard deviation for degenerate samples, in data units. By default 0.01 times the
        standard deviation between the samples of the scene, or, if they are identical, of the
        median scene. It does not depend on the truth.
    lower_bound : float, optional
        Lower bound on log densities of single steps, -20 for instance. With a bound, ``nll_step``
        is not proper.
    k : int or sequence of int, optional
        Numbers of most probable samples for the nearest one, all samples by default.
    miss_threshold : float, default=2.0
        Distance from the nearest sample at the last step above which a truth is missed.
    collision_distance : float, default=0.2
        Distance below which two agents collide: twice the radius of a pedestrian, in meters.
    levels : sequence of float
        Probabilities of the regions whose coverage is reported; 0.05 to 0.95 by default.
    horizon : int, optional
        Number of steps to evaluate, all by default; see :func:`evaluate_horizons`.
    period : float or sequence of float and None, optional
        The period of coordinates that are angles, such as 360 for directions in degrees;
        ``(None, None, 360)`` for a position and a direction. Samples and truth are moved to the
        turn around the mean direction of the samples of their step. Distances are then those on
        the circle from samples that spread over less than half of it.
    agents : bool, default=False
        Whether there is an axis of agents.
    check_units : bool, default=True
        Whether to refuse predictions that are 30 times larger, smaller or farther away than the
        truth in most scenes, and axes that look swapped.
    groups : array-like of shape (scenes,), optional
        Labels of scenes that belong together, strings or numbers: the agent of overlapping windows,
        or the recording. Standard errors and intervals take groups as independent in place of
        scenes. By default the column "group" of a frame, or the array "groups" of a
        ``.npz`` file, if there is one.
    average : {"scene", "group"}, default="scene"
        Whether means are over scenes, or over the means of groups.
    confidence : float, default=0.95
        Confidence of the intervals.
    n_replicates : int, default=1000
        Number of bootstrap replicates of the scenes, or of the groups.
    n_jobs : int, optional
        Number of joblib workers, by default processes; one if None.
    random_state : int, RandomState instance or None, default=0
        Breaks ties of densities, and resamples scenes.
    verbose : bool, default=False
        Whether to print the share that is done and the time left.

    Returns
    -------
    Evaluation

    Warns
    -----
    PrecisionWarning
        If coordinates are rounded by more than a hundredth of the spread between samples, by
        32-bit floats far from the origin for instance. Subtract an origin near the paths before
        the conversion.

    Notes
    -----
    Densities of single steps by "kde" have the covariance and the bandwidth of
    ``scipy.stats.gaussian_kde``. A covariance is singular if the standard deviation of a
    coordinate is below 1e-13 of its largest absolute value, or if the other coordinates explain
    all of its variance up to a fraction of 1e-12. The square of the floor is then added to all
    variances; scipy may raise an error or not, depending on rounding.

    With ``groups``, the squared standard error of a mean :math:`m` is :math:`\sum_g (t_g - m
    n_g)^2 / (1 - n_g / N) / N^2` with totals :math:`t_g` and sizes :math:`n_g` of groups and
    :math:`N` scenes; for groups of one scene it is the usual one. Intervals of means are those of
    the studentized bootstrap, or of Student's distribution for fewer than five groups.

    For the calibration, the density is fitted to samples and truth together, and each of them is
    ranked by the kernels of the others. If truth and samples come from one distribution, the rank
    of the truth is uniform for any number of samples and dimensions.

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
    for name, flag in (("agents", agents), ("check_units", check_units), ("verbose", verbose)):
        check_flag(flag, name)
    check_choice(shrinkage, "shrinkage", ("auto", "always", None))
    check_choice(errors, "errors", ("floor", "skip", "raise"))
    check_choice(average, "average", ("scene", "group"))
    check_n_jobs(n_jobs)
    check_count(n_replicates, "n_replicates")
    check_count(n_draws, "n_draws", least=_MIN_SAMPLES)
    check_confidence(confidence)
    bounds = _checked_levels(levels)
    rng = random_generator(random_state)
    mixtures = as_mixtures(predictions, truth, bool(agents))
    if mixtures is not None:
        _refuse(weights=weights, log_prob=log_prob, period=period)
        weights = mixtures.weights
        predictions = predictions if isinstance(predictions, str | os.PathLike) else mixtures
    forecasts = open_forecasts(predictions, truth, bool(agents), bool(check_units), weights)
    forecasts = replace(
        forecasts,
        horizon=_checked_horizon(horizon, forecasts.n_steps),
        periods=checked_periods(period, forecasts.n_coordinates),
    )
    groups = _checked_groups(groups, average, forecasts)
    ks = _checked_ks(k, forecasts.n_samples)
    floor = None if floor is None else check_positive(floor, "floor")
    scoring = Scoring(
        measures=choose_measures(measures, ks, forecasts),
        paths=floored_estimator(estimator, "estimator", shrinkage, errors, floor),
        steps=floored_estimator(step_estimator, "step_estimator", shrinkage, errors, floor),
        ks=ks,
        miss_threshold=check_positive(miss_threshold, "miss_threshold"),
        collision_distance=check_positive(collision_distance, "collision_distance"),
        lower_bound=_checked_bound(lower_bound),
    )
    run = _Run(rng, n_jobs)
    with show_progress(enabled=verbose):
        with part("checks", 0.0, 0.02):
            statistics = check_scenes(forecasts, bool(check_units))
        with part("", 0.02, 0.95):
            if mixtures is None:
                sources, scores = _score_samples(forecasts, statistics, scoring, run, log_prob)
            else:
                sources, scores = _score_mixtures(
                    mixtures, n_draws, forecasts, statistics, scoring, run
                )
        settings = {
            **_settings(forecasts, scoring, sources),
            "n_draws": None if mixtures is None else n_draws,
            "truth": statistics.digest,
            "shrinkage": shrinkage,
            "average": average,
            "confidence": float(confidence),
        }
        with part("bootstrap", 0.95, 1.0):
            return summarize(
                scores, sources, settings, forecasts.names, groups, bounds, n_replicates, rng
            )


class _Run(NamedTuple):
    """Random numbers and number of workers of an evaluation."""

    rng: np.random.RandomState
    n_jobs: int | None


#: Scores of all scenes, with their sources by measure; see :class:`Row`.
_Sourced = tuple[dict[str, str], BlockScores]


def _score_samples(
    forecasts: Forecasts,
    statistics: SceneStatistics,
    scoring: Scoring,
    run: _Run,
    log_prob: Any = None,
) -> _Sourced:
    """Score samples, by densities that are estimated from them or by given log densities."""
    if log_prob is not None:
        return _score_with_log_prob(log_prob, forecasts, statistics, scoring, run)
    has_weights = forecasts.weights is not None
    with muted():
        if scoring.needing("density", "agents"):
            scoring.paths.try_out("estimator", has_weights)
        if scoring.needing("steps"):
            scoring.steps.try_out("step_estimator", has_weights)
    _check_samples(statistics, scoring)
    floors = statistics.floors(scoring.paths.floor)
    if scoring.paths.name == "pooled":
        with part("pooled shapes", 0.0, 0.2), muted():
            scoring = replace(scoring, pools=_pools(forecasts, statistics, floors, scoring))
    with part("scenes", 0.2 if scoring.paths.name == "pooled" else 0.0, 1.0):
        blocks = _score_blocks(forecasts, floors, scoring, run)
    return scoring.sources, BlockScores.concatenate(blocks)


def _score_with_log_prob(
    log_prob: Any, forecasts: Forecasts, statistics: SceneStatistics, scoring: Scoring, run: _Run
) -> _Sourced:
    """Score samples, with the log densities of truths that the model computed."""
    likelihood = "nll_agents" if forecasts.has_agents else "nll"
    if likelihood not in scoring.measures:
        raise ValueError(f"log_prob is used by {likelihood}, which is not among the measures")
    if forecasts.horizon is not None:
        raise ValueError("log_prob is that of whole paths, and has no horizon")
    others = tuple(name for name in scoring.measures if name != likelihood)
    sources, scores = _score_samples(forecasts, statistics, replace(scoring, measures=others), run)
    values = -mean_of_valid(_checked_log_prob(log_prob, forecasts))
    exact = BlockScores({likelihood: values}, scores.levels, scores.degenerate)
    sources = {name: sources.get(name, "exact") for name in scoring.measures}
    return sources, scores | exact


def _score_mixtures(
    mixtures: Mixtures,
    n_draws: int,
    forecasts: Forecasts,
    statistics: SceneStatistics,
    scoring: Scoring,
    run: _Run,
) -> _Sourced:
    """Score mixtures by their densities, the means of their components, and draws from them."""
    modes = tuple(scoring.needing("displacement"))
    others = tuple(name for name in scoring.measures if name not in (*modes, *EXACT))
    shape = (forecasts.n_scenes, forecasts.n_agents, forecasts.n_truths)
    has_draws = bool(others) or "ece" in scoring.measures
    draws = mixtures.sample(n_draws, run.rng) if has_draws else None
    with part("exact densities", 0.0, 0.4):
        scores = exact_scores(mixtures, forecasts, draws, run.rng.uniform(size=shape), scoring)
    sources = {name: "draws" if name == "ece" else "exact" for name in scoring.measures}
    if modes:
        with part("", 0.4, 0.5):
            found = _score_samples(forecasts, statistics, replace(scoring, measures=modes), run)
        sources |= dict.fromkeys(modes, "modes")
        scores = scores | found[1]
    if others and draws is not None:
        drawn = replace(forecasts, predictions=PathArray(draws), n_samples=n_draws, weights=None)
        scoring = replace(scoring, measures=others)
        with part("", 0.5, 1.0):
            found = _score_samples(drawn, check_scenes(drawn, check_units=False), scoring, run)
        sources |= {name: {"samples": "draws"}.get(each, each) for name, each in found[0].items()}
        scores = scores | found[1]
    return sources, scores


def as_mixtures(predictions: Any, truth: Any, has_agents: bool) -> Mixtures | None:
    """Return predictions that are mixtures, None if they are not."""
    if isinstance(predictions, Mixtures):
        return predictions
    if isinstance(predictions, str | os.PathLike):
        return read_mixtures(Path(predictions))
    if not isinstance(predictions, list | tuple) or not predictions:
        return None
    if not all(isinstance(each, KernelMixture) for each in predictions):
        return None
    shape = open_paths(truth, "truth").shape[-3 if has_agents else -2 :]
    return Mixtures.from_densities(predictions, shape)


def _refuse(**given: Any) -> None:
    """Refuse arguments that mixtures do not take."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is for samples, but predictions are mixtures")


def _checked_log_prob(log_prob: Any, forecasts: Forecasts) -> np.ndarray:
    """Return the log densities (S, L) of truths, NaN where there is no truth."""
    found = check_numbers(log_prob, "log_prob")
    shape = (forecasts.n_scenes, forecasts.n_truths)
    if found.shape != shape and not (found.shape == shape[:1] and shape[1] == 1):
        raise ValueError(f"log_prob must have shape {shape}, got {found.shape}")
    there = ~np.isnan(forecasts.truth.values.reshape(*shape, -1)).all(axis=2)
    values = np.where(there, found.reshape(shape), np.nan)
    bad = there & ~np.isfinite(values)
    if bad.any():
        scene, future = (int(i) for i in np.argwhere(bad)[0])
        name = forecasts.names[scene]
        raise ValueError(f"log_prob must be finite, got {values[scene, future]} in scene {name}")
    return values


def _checked_groups(groups: Any, average: str, forecasts: Forecasts) -> np.ndarray | None:
    groups = forecasts.groups if groups is None else groups
    if groups is not None:
        return check_group_labels(groups, forecasts.n_scenes, "groups")
    if average == "group":
        raise ValueError("average='group' needs groups")
    return None


def _checked_levels(levels: Any) -> np.ndarray:
    out = np.unique(check_numbers(levels, "levels"))
    if out.ndim != 1 or len(out) == 0 or not (out > 0).all() or not (out < 1).all():
        raise ValueError(f"levels must be between 0 and 1, at least one of them, got {levels!r}")
    return out


def _checked_ks(k: Any, n_samples: int) -> tuple[int, ...]:
    given = [n_samples] if k is None else [k] if isinstance(k, numbers.Integral) else list(k)
    ks = tuple(sorted({check_count(each, "k", least=1) for each in given}))
    if not ks or ks[-1] > n_samples:
        raise ValueError(f"k must be between 1 and the {n_samples} samples of a scene, got {k}")
    return ks


def _checked_horizon(horizon: Any, n_steps: int) -> int | None:
    if horizon is not None and check_count(horizon, "horizon", least=1) > n_steps:
        raise ValueError(f"horizon must be at most the {n_steps} steps of a path, got {horizon}")
    return None if horizon is None else int(horizon)


def _checked_bound(lower_bound: Any) -> float | None:
    if lower_bound is None:
        return None
    if isinstance(lower_bound, bool) or not isinstance(lower_bound, numbers.Real):
        raise TypeError(f"lower_bound must be a number or None, got {lower_bound!r}")
    if not np.isfinite(float(lower_bound)):
        raise ValueError(f"lower_bound must be finite, got {lower_bound}")
    return float(lower_bound)


def _check_samples(statistics: SceneStatistics, scoring: Scoring) -> None:
    """Refuse too few samples for a density, and identical samples without a floor."""
    if not scoring.needing("density", "steps", "agents"):
        return
    most = int(statistics.n_samples.max())
    if most < _MIN_SAMPLES:
        possible = [n for n, each in MEASURES.items() if each == Measure("displacement")]
        raise ValueError(
            f"predictions have {most} sample{'s' * (most > 1)} in a scene, but a density needs "
            f"{_MIN_SAMPLES}; pass measures={possible}"
        )
    rule = scoring.paths
    if rule.errors == "floor" and rule.floor is None and not statistics.median_spread:
        raise ValueError(
            "predictions are identical samples in all scenes, which leaves the default floor "
            "undefined; pass a floor, the standard deviation for such samples"
        )


def _pools(
    forecasts: Forecasts, statistics: SceneStatistics, floors: np.ndarray, scoring: Scoring
) -> Pools:
    """Learn what the scenes have in common from some of them, chosen by the spread of samples."""
    likelihoods = {"nll", "nll_agent", "nll_agents"} & set(scoring.measures)
    kinds = sorted({name == "nll_agents" for name in likelihoods})
    if not kinds:
        return {}
    order = statistics.spreads.mean(axis=1).argsort()
    n_chosen = min(len(order), _POOLED_SCENES)
    chosen = order[np.linspace(0, len(order) - 1, n_chosen).astype(np.int64)].tolist()
    size = next(forecasts.blocks())[1]

    def read(places: list[int]) -> AgentForecasts:
        parts = [(*forecasts.read(s, s + 1), forecasts.read_weights(s, s + 1)) for s in places]
        paths, truths, weights = zip(*parts, strict=True)
        return AgentForecasts.from_scenes(
            np.concatenate(paths),
            np.concatenate(truths),
            floors[places],
            None if forecasts.weights is None else np.concatenate(weights),
        )

    scenes = (read(chosen[start : start + size]) for start in range(0, n_chosen, size))
    return learn_pools(scenes, kinds)


def _score_blocks(
    forecasts: Forecasts, floors: np.ndarray, scoring: Scoring, run: _Run
) -> list[BlockScores]:
    """Return the scores of all scenes, in blocks."""
    rng, n_jobs = run
    # Drawn at once, so that results do not depend on the blocks.
    uniform = rng.uniform(size=(forecasts.n_scenes, forecasts.n_agents, forecasts.n_truths))
    bounds = list(forecasts.blocks(_BLOCKS_PER_JOB * effective_n_jobs(n_jobs)))

    def tasks() -> Iterator[Any]:
        for start, stop in bounds:
            part = slice(start, stop)
            yield delayed(_score_block)(
                *forecasts.read(start, stop),
                floors[part],
                uniform[part],
                scoring,
                forecasts.read_weights(start, stop),
            )

    out = []
    # Blocks are read one by one; without max_nbytes, joblib would copy them to mapped files.
    blocks = Parallel(n_jobs=n_jobs, max_nbytes=None, return_as="generator")(tasks())
    for (start, stop), block in zip(bounds, blocks, strict=True):
        if scoring.paths.errors == "raise" and block.degenerate.places:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # joblib's, that further results are lost
                blocks.close()
            places = [
                f"scene {forecasts.names[start + scene]}, {place}"
                for scene, place in block.degenerate.places
            ]
            raise ValueError(
                f"predictions are degenerate in {'; '.join(places)}: pass errors='floor' or 'skip'"
            )
        out.append(block)
        report(stop / forecasts.n_scenes)
    return out


def _score_block(*args: Any) -> BlockScores:
    """Score a block of scenes, without the progress of single fits."""
    with muted():
        return score_block(*args)


def _settings(forecasts: Forecasts, scoring: Scoring, sources: Mapping[str, str]) -> dict[str, Any]:
    """Return shapes, parameters and versions as plain values."""
    return {
        "n_scenes": forecasts.n_scenes,
        "n_samples": forecasts.n_samples,
        "n_agents": forecasts.n_agents if forecasts.has_agents else None,
        "n_truths": forecasts.n_truths,
        "n_steps": forecasts.horizon or forecasts.n_steps,
        "n_coordinates": forecasts.n_coordinates,
        "estimator": _joint_density(sources, scoring.paths),
        "step_estimator": "exact" if sources.get("nll_step") == "exact" else scoring.steps.name,
        "errors": scoring.paths.errors,
        "floor": scoring.paths.floor,
        "lower_bound": scoring.lower_bound,
        "k": list(scoring.ks),
        "miss_threshold": scoring.miss_threshold,
        "collision_distance": scoring.collision_distance,
        "versions": {**_versions()},
    }


@cache
def _versions() -> dict[str, str]:
    from .. import __version__

    names = ("numpy", "scipy", "scikit-learn", "numba")
    own = {"sevenhills": __version__, "python": platform.python_version()}
    return own | {name: version(name) for name in names}


def _joint_density(sources: Mapping[str, str], estimator: FlooredEstimator) -> str:
    """Return "exact" or "pooled" if a likelihood is, otherwise the name of the estimator."""
    found = {sources.get(name) for name in ("nll", "nll_agent", "nll_agents")}
    for name in ("exact", "pooled"):
        if name in found:
            return name
    return "rome" if estimator.name == "pooled" else estimator.name
