"""Ranking of several forecasters on the same scenes, and the number of scenes that it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, inf, isfinite, nan, sqrt
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ..estimate import Estimate
from ..metrics.ranks import holm, rank_range, ties
from ..metrics.tables import MeasureTable, data_frame
from ..progress import part, step
from ..validation import (
    check_choice,
    check_confidence,
    check_count,
    check_positive,
    random_generator,
)
from .comparison import Difference, check_comparable, check_evaluation, paired_differences
from .evaluation import evaluate
from .results import Evaluation, Row, without_scenes

#: Measures that forecasters are ranked by, the first that all of them have.
HEADLINES = ("nll", "nll_agents", "nll_agent", "nll_step", "energy_score")
#: Likelihoods of whole paths.
_OF_PATHS = ("nll", "nll_agents", "nll_agent")
#: Bias of the difference of two such likelihoods that samples leave possible, in nats, as
#: ``make bench-forecast-rank`` finds it.
_BIAS = 2.0
#: Share of the evaluations in the time of a ranking.
_EVALUATED = 0.9
#: Settings that do not matter to exact likelihoods.
_OF_SAMPLES = ("n_samples", "n_draws", "k", "estimator", "step_estimator")
#: Smallest p-value after the correction for many pairs, as a fraction of the significance level.
_RESOLUTION = 0.1


@dataclass(frozen=True)
class Ranked:
    """One forecaster in a ranking.

    Attributes
    ----------
    forecaster : str
    rank : str
        Rank, or the range of ranks that cannot be excluded, such as "1-2": the best is one more
        than the number of forecasters that are significantly better.
    mean, standard_error : float
        Mean of the measure over the scenes that all forecasters have, and its standard error.
    difference, low, high : float
        Mean of the paired differences from the first, and its interval; NaN for the first itself.
    p_value : float
        P-value of this difference, after Holm's correction for all pairs.
    median, trimmed_mean : float
        Median over scenes, and mean without the lowest and the highest tenth of them.
    largest_share : float
        Share of the most extreme scene in the absolute deviations of all scenes from the median.
    ece, energy_score : float
        Calibration error and energy score, NaN if they were not measured.
    source : str
        Where the measure comes from, as in :class:`Row`: "exact", or the estimator of a density.
    """

    forecaster: str
    rank: str
    mean: float
    standard_error: float
    difference: float
    low: float
    high: float
    p_value: float
    median: float
    trimmed_mean: float
    largest_share: float
    ece: float
    energy_score: float
    source: str


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(MeasureTable):
    """Forecasters in the order of one measure, the best first.

    Attributes
    ----------
    summary : tuple of Ranked
        A row for every forecaster; ``ranking["name"]`` is the row of one of them.
    measure : str
        The measure that they are ranked by.
    evaluations : mapping of str to Evaluation
        In the order of the ranking.
    pairs : mapping of (str, str) to Difference
        Paired difference of every pair, the better one first. P-values are not corrected.
    ties : tuple of tuple of str
        Largest groups of two and more forecasters, no two of which can be told apart.
    n_scenes : int
        Number of scenes that all forecasters have.
    settings : mapping
        Settings of the first; those of the others differ only where this was allowed.
    confidence : float
        Confidence of intervals, and of all ranks together.
    """

    summary: tuple[Ranked, ...]
    measure: str
    evaluations: Mapping[str, Evaluation]
    pairs: Mapping[tuple[str, str], Difference]
    ties: tuple[tuple[str, ...], ...]
    n_scenes: int
    settings: Mapping[str, Any]
    confidence: float

    def __post_init__(self) -> None:
        for name in ("evaluations", "pairs", "settings"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def resolution(self) -> str:
        """Sentences that say whether scenes and samples can tell the forecasters apart."""
        if len(self.summary) == 1:
            return "There is one forecaster."
        found = [self._tie_text(tie) for tie in self.ties]
        if not found:
            found = [f"All forecasters can be told apart by these {self.n_scenes:,} scenes."]
        sources = {row.source for row in self.summary}
        closest = min(abs(pair.difference) for pair in self.pairs.values())
        if self.measure in _OF_PATHS and sources != {"exact"} and closest < _BIAS:
            found.append(
                f"Differences below {_BIAS:g} nats may come from the density, which is estimated "
                "from samples."
            )
        return " ".join(found)

    def columns(self, what: str = "summary") -> dict[str, Any]:
        """Return the "summary", or the means of all "measures" by forecaster, by columns."""
        check_choice(what, "what", ("summary", "measures"))
        if what == "summary":
            return super().columns()
        rows = [{row.measure: row for row in each.summary} for each in self.evaluations.values()]
        measures = list(dict.fromkeys(name for each in rows for name in each))
        means = [[_estimate(each.get(name)) for name in measures] for each in rows]
        return {"measure": measures, **dict(zip(self.evaluations, means, strict=True))}

    def to_pandas(self, what: str = "summary") -> Any:
        """Return the summary or the means of all measures as a data frame of pandas."""
        return data_frame(self.columns(what))

    def _tie_text(self, tie: tuple[str, ...]) -> str:
        """Return a sentence on forecasters that cannot be told apart."""
        ends, n_groups = self.pairs[tie[0], tie[-1]], self.evaluations[tie[0]].grouping.n_groups
        text = (
            f"{', '.join(tie[:-1])} and {tie[-1]} cannot be told apart by these "
            f"{self.n_scenes:,} scenes"
        )
        size = abs(ends.difference)
        needed = _groups_needed(n_groups, ends.standard_error, size, 0.8, self.confidence)
        if not isfinite(needed):
            return f"{text}."
        times = needed / n_groups
        return (
            f"{text}: a difference of {size:.2g} needs about {self.n_scenes * times:,.0f}, with a "
            "power of 0.8."
        )

    def _caption(self) -> str:
        return (
            f"ranked by {self.measure} over {self.n_scenes:,} scenes, lower is better. "
            f"{self.resolution}"
        )


def rank(
    forecasters: Mapping[str, Any],
    truth: Any = None,
    *,
    measure: str | None = None,
    ignore: Sequence[str] = (),
    confidence: float = 0.95,
    n_replicates: int = 1000,
    n_permutations: int | None = None,
    random_state: Any = 0,
    **options: Any,
) -> Ranking:
    r"""Rank forecasters by one measure on the same scenes.

    Every pair is compared scene by scene, as by :func:`compare`. Two forecasters can be told apart
    if the p-value of their difference is at most ``1 - confidence`` after Holm's correction for
    all pairs. The rank of a forecaster lies between one more than the number of forecasters that
    are better and told apart from it, and the number of those that are not worse and told apart.

    Parameters
    ----------
    forecasters : mapping of str
        Predictions by the name of the forecaster, as for :func:`evaluate`, or their evaluations.
    truth : array-like, frame or path-like, optional
        True paths, for predictions.
    measure : str, optional
        The measure to rank by. By default "nll", or, if it was not measured, the first of
        "nll_agents", "nll_agent", "nll_step", "energy_score" and the others.
    ignore : sequence of str
        Settings that may differ between evaluations, "n_samples" for instance.
    confidence : float, default=0.95
        Confidence of intervals, and of all ranks together.
    n_replicates : int, default=1000
        Number of bootstrap replicates of the scenes.
    n_permutations : int, optional
        Number of permutations for each p-value; by default enough for the correction.
    random_state : int, RandomState instance or None, default=0
    **options
        Other parameters of :func:`evaluate`, for predictions.

    Returns
    -------
    Ranking

    See Also
    --------
    power : Number of scenes that show a difference.

    Notes
    -----
    Scenes in which some forecaster does not have the measure are left out for all of them. Numbers
    of samples and components may differ between exact likelihoods. Ranges of ranks from pairwise
    tests hold together with the confidence of the tests [1]_.

    References
    ----------
    .. [1] M. Mogstad, J. P. Romano, A. M. Shaikh and D. Wilhelm, "Inference for ranks with
       applications to mobility across neighbourhoods and academic achievement across countries",
       Review of Economic Studies, 2024.

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import rank
    >>> walks = make_walks(60, random_state=0)
    >>> laws = {"narrow": walks.law.spread(0.5), "true": walks.law, "wide": walks.law.spread(2)}
    >>> samples = {name: law.draw(20, random_state=1) for name, law in laws.items()}
    >>> ranking = rank(samples, walks.truth, measures=("nll", "ece"))
    >>> [(row.forecaster, row.rank) for row in ranking.summary]
    [('true', '1'), ('wide', '2'), ('narrow', '3')]
    """
    check_confidence(confidence)
    n_replicates = check_count(n_replicates, "n_replicates", least=2)
    rng = random_generator(random_state)
    own = {"confidence": confidence, "n_replicates": n_replicates, "random_state": random_state}
    evaluations = _evaluated(forecasters, truth, own, options)
    measure = _chosen(evaluations, measure)
    names = list(evaluations)
    if all(each[measure].source == "exact" for each in evaluations.values()):
        ignore = (*ignore, *_OF_SAMPLES)
    for name in names[1:]:
        check_comparable(evaluations[names[0]], evaluations[name], ignore, (names[0], name))
    shared = _on_shared_scenes(evaluations, measure, n_replicates, rng)
    names.sort(key=lambda name: _last_if_nan(shared[name][measure].mean))
    couples = list(combinations(names, 2))
    n_permutations = check_count(
        _n_permutations(len(couples), confidence) if n_permutations is None else n_permutations,
        "n_permutations",
        least=1,
    )
    compared = {couple: (shared[couple[0]], shared[couple[1]], measure) for couple in couples}
    with part("pairs", _EVALUATED, 1.0):
        pairs = paired_differences(compared, confidence, n_replicates, n_permutations, rng)
    p_values = dict(zip(couples, holm([each.p_value for each in pairs.values()]), strict=True))
    apart = {couple for couple, p_value in p_values.items() if p_value <= 1 - confidence}
    rows = []
    for name in names:
        pair, ranks = (names[0], name), rank_range(name, names, apart)
        row, p_value = shared[name][measure], p_values.get(pair, nan)
        rows.append(_ranked(name, row, evaluations[name], ranks, pairs.get(pair), p_value))
    return Ranking(
        summary=tuple(rows),
        measure=measure,
        evaluations={name: evaluations[name] for name in names},
        pairs=pairs,
        ties=ties(names, apart),
        n_scenes=shared[names[0]][measure].n_scenes,
        settings=evaluations[names[0]].settings,
        confidence=float(confidence),
    )


def _estimate(row: Row | None) -> Estimate:
    return Estimate(nan) if row is None else Estimate(row.mean, row.standard_error, row.n_scenes)


def _evaluated(
    forecasters: Any, truth: Any, own: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Evaluation]:
    """Return an evaluation of every forecaster, with options of the ranking and of the user."""
    if not isinstance(forecasters, Mapping):
        kind = type(forecasters).__name__
        raise TypeError(f"forecasters must be a mapping of names to predictions, got {kind}")
    if not forecasters:
        raise ValueError("forecasters must be at least one, got none")
    new = [name for name, each in forecasters.items() if not isinstance(each, Evaluation)]
    if new and truth is None:
        raise TypeError(f"truth is needed to evaluate {new[0]!r}")
    if options and not new:
        raise TypeError(f"forecasters are evaluated, but {', '.join(options)} belong to evaluate")
    out = {}
    for name, each in forecasters.items():
        if name in new:
            with part("", 0.0, _EVALUATED), step(str(name), new.index(name), len(new)):
                each = evaluate(each, truth, **own, **options)
        out[str(name)] = each
    return out


def _chosen(evaluations: Mapping[str, Evaluation], measure: str | None) -> str:
    """Return the measure to rank by, which all evaluations have."""
    measured = [[row.measure for row in each.summary] for each in evaluations.values()]
    known = [name for name in measured[0] if all(name in each for each in measured)]
    if not known:
        raise ValueError("forecasters have no measure in common")
    if measure is None:
        return next((name for name in HEADLINES if name in known), known[0])
    if measure not in known:
        raise ValueError(f"measure must be among {known}, got {measure!r}")
    return measure


def _on_shared_scenes(
    evaluations: Mapping[str, Evaluation],
    measure: str,
    n_replicates: int,
    rng: np.random.RandomState,
) -> dict[str, Evaluation]:
    """Return the evaluations without scenes that some of them do not have."""
    found = evaluations.items()
    lacks = {
        name: np.isnan(each.levels if measure == "ece" else each.scenes[measure])
        for name, each in found
    }
    absent = np.any(list(lacks.values()), axis=0)
    return {
        name: each
        if np.array_equal(lacks[name], absent)
        else without_scenes(each, measure, absent, n_replicates, rng)
        for name, each in found
    }


def _last_if_nan(value: float) -> float:
    return inf if np.isnan(value) else value


def _n_permutations(n_pairs: int, confidence: float) -> int:
    """Return a number of permutations whose smallest p-value stands the correction."""
    return max(1999, ceil(n_pairs / (_RESOLUTION * (1 - confidence))))


def _ranked(
    name: str,
    row: Row,
    evaluation: Evaluation,
    ranks: str,
    difference: Difference | None,
    p_value: float,
) -> Ranked:
    """Return the row of a forecaster, with its difference from the first."""
    means = {each.measure: each.mean for each in evaluation.summary}
    found = difference
    return Ranked(
        forecaster=name,
        rank=ranks,
        mean=row.mean,
        standard_error=row.standard_error,
        difference=nan if found is None else -found.difference,
        low=nan if found is None else -found.high,
        high=nan if found is None else -found.low,
        p_value=float(p_value),
        median=row.median,
        trimmed_mean=row.trimmed_mean,
        largest_share=row.largest_share,
        ece=means.get("ece", nan),
        energy_score=means.get("energy_score", nan),
        source=row.source,
    )


# Power


@dataclass(frozen=True)
class Power:
    """The scenes that a difference between two forecasters needs.

    Attributes
    ----------
    measure : str
    difference : float
        The difference to be shown.
    power : float
        Probability that the present scenes show it.
    n_scenes : int
        Number of present scenes.
    n_groups : int
        Number of groups of scenes, which are independent; that of the scenes without groups.
    n_scenes_needed, n_groups_needed : float
        Numbers of scenes and groups that show it with the power asked for, infinite for no
        difference. Groups have as many scenes as now.
    smallest_difference : float
        The smallest difference that the present scenes show with this power.
    sample_share : float
        Share of the variance of the mean difference that comes from the number of samples, NaN if
        there is one evaluation of each forecaster. With c times as many samples,
        ``n_scenes_needed`` is about ``1 - sample_share + sample_share / c`` times as large.
    """

    measure: str
    difference: float
    power: float
    n_scenes: int
    n_groups: int
    n_scenes_needed: float
    n_groups_needed: float
    smallest_difference: float
    sample_share: float


def power(
    a: Evaluation | Sequence[Evaluation],
    b: Evaluation | Sequence[Evaluation],
    *,
    measure: str | None = None,
    difference: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    ignore: Sequence[str] = (),
    n_replicates: int = 1000,
    random_state: Any = 0,
) -> Power:
    r"""Return the number of scenes that show a difference between two forecasters.

    The paired differences of the present scenes have a mean with standard error :math:`s`. A mean
    difference :math:`\delta` is significant with probability :math:`\beta` for about
    :math:`((z_{1 - \alpha / 2} + z_\beta) s / \delta)^2` times as many scenes, with the quantiles
    :math:`z` of the normal distribution and :math:`\alpha` = 1 - confidence.

    Parameters
    ----------
    a, b : Evaluation or sequence of Evaluation
        Evaluations of two forecasters on the same scenes. Several of each, of disjoint samples of
        the same scenes, also give the share of the variance that comes from the samples.
    measure : str, optional
        As for :func:`rank`.
    difference : float, optional
        The difference to be shown, the observed one by default.
    power : float, default=0.8
        Probability to show it.
    confidence : float, default=0.95
        One minus the probability to find a difference where there is none.
    ignore : sequence of str
        Settings that may differ between evaluations.
    n_replicates : int, default=1000
        Number of bootstrap replicates, for the standard error.
    random_state : int, RandomState instance or None, default=0

    Returns
    -------
    Power

    Notes
    -----
    More scenes do not remove the bias of a density that is estimated from few samples.

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import evaluate, power
    >>> walks = make_walks(60, random_state=0)
    >>> one, other = (
    ...     evaluate(law.draw(20, random_state=1), walks.truth, measures="energy_score")
    ...     for law in (walks.law, walks.law.spread(1.25))
    ... )
    >>> found = power(one, other)
    >>> half = power(one, other, difference=found.smallest_difference / 2)
    >>> round(half.n_scenes_needed / half.n_scenes)
    4
    """
    check_confidence(confidence)
    check_confidence(power, "power")
    pairs = _repeats(a, b, ignore)
    measure = _chosen(dict(zip("ab", pairs[0], strict=True)), measure)
    rng = random_generator(random_state)
    counts = confidence, check_count(n_replicates, "n_replicates", least=2), 1, rng
    compared = {i: (one, other, measure) for i, (one, other) in enumerate(pairs)}
    found = list(paired_differences(compared, *counts).values())
    error = sqrt(np.mean([each.standard_error**2 for each in found]))
    if difference is None:
        shown = abs(float(np.mean([each.difference for each in found])))
    else:
        shown = check_positive(difference, "difference")
    n_scenes, n_groups = found[0].n_scenes, pairs[0][0].grouping.n_groups
    needed = _groups_needed(n_groups, error, shown, power, confidence)
    return Power(
        measure=measure,
        difference=shown,
        power=_probability(shown, error, confidence),
        n_scenes=n_scenes,
        n_groups=n_groups,
        n_scenes_needed=_rounded(needed * n_scenes / n_groups),
        n_groups_needed=_rounded(needed),
        smallest_difference=_quantiles(power, confidence) * error,
        sample_share=_sample_share(pairs, measure, error),
    )


def _repeats(a: Any, b: Any, ignore: Sequence[str]) -> list[tuple[Evaluation, Evaluation]]:
    """Return pairs of evaluations, which can be compared with each other."""
    sides = [[each] if isinstance(each, Evaluation) else list(each) for each in (a, b)]
    if not sides[0] or len(sides[0]) != len(sides[1]):
        lengths = " and ".join(str(len(side)) for side in sides)
        raise ValueError(f"a and b must be as many evaluations, got {lengths}")
    for each in sides[0] + sides[1]:
        check_evaluation(each, "a and b")
        check_comparable(sides[0][0], each, ignore, ("a", "b"))
    return list(zip(*sides, strict=True))


def _quantiles(power: float, confidence: float) -> float:
    """Return the standard errors of a difference that is shown with this power."""
    return float(ndtri(0.5 + 0.5 * confidence) + ndtri(power))


def _probability(difference: float, error: float, confidence: float) -> float:
    """Return the probability that a difference with this standard error is significant."""
    if error == 0:
        return float(difference > 0)
    limit, size = ndtri(0.5 + 0.5 * confidence), difference / error
    return float(ndtr(size - limit) + ndtr(-size - limit))


def _groups_needed(
    n_groups: int, error: float, difference: float, power: float, confidence: float
) -> float:
    """Return the number of groups that show a difference, if this many have the standard error.

    The second summand is Guenther's correction for a variance that is estimated.
    """
    if difference == 0:
        return inf
    factor = _quantiles(power, confidence) * error / difference
    return float(n_groups * factor**2 + 0.5 * ndtri(0.5 + 0.5 * confidence) ** 2)


def _rounded(count: float) -> float:
    return float(ceil(count)) if isfinite(count) else count


def _sample_share(
    pairs: Sequence[tuple[Evaluation, Evaluation]], measure: str, error: float
) -> float:
    """Return the share of the samples in the variance of the mean difference."""
    if len(pairs) == 1 or measure == "ece" or error == 0:
        return nan
    apart = np.array([one.scenes[measure] - other.scenes[measure] for one, other in pairs])
    apart = apart[:, np.isfinite(apart).all(axis=0)]
    within = apart.var(axis=0, ddof=1).mean() / apart.shape[1]
    return float(min(1.0, within / error**2))
