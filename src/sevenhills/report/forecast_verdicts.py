"""The findings of a ranking of forecasters, in sentences."""

from collections.abc import Iterator, Mapping
from math import nan, sqrt

from ..forecast import Evaluation, Ranking
from ..texts import listed

#: The calibration error is significant beyond this multiple of its expectation by chance.
_SIGNIFICANT = 2.0
#: A scene with a larger share of all deviations is named.
_LARGE_SHARE = 0.1
#: Findings about the calibration, in the order in which they are told.
_CALIBRATIONS = {
    "narrow": "over-confident: the regions hold the truth too rarely, because forecasts are too "
    "narrow or biased",
    "wide": "under-confident: the regions hold the truth too often, because forecasts are too wide",
    "both": "too narrow in some respects and too wide in others",
    "right": "calibrated as far as these scenes can tell",
    "unknown": "without a density whose calibration could be measured",
}
#: Estimators of paths that are made for few samples.
_FOR_FEW = ("pooled", "rome", "auto")
#: Degenerate cells and paths, by kind.
_KINDS = {
    "identical": "with identical samples",
    "flat": "with samples on a line or a plane",
    "few": "with too few samples to span their coordinates",
    "empty": "without samples",
    "refused": "that the estimator refused",
    "clipped": "with a log density raised to the lower bound",
}


def verdicts(ranking: Ranking) -> list[str]:
    """Return who is best, who cannot be told apart, who is over-confident, and what to beware of.

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import rank
    >>> walks = make_walks(40, random_state=0)
    >>> samples = {"narrow": walks.law.spread(0.3).draw(20, random_state=1)}
    >>> print(verdicts(rank(samples, walks.truth, measures="ece"))[1])
    narrow is over-confident: the regions hold the truth too rarely, because forecasts are too \
narrow or biased.
    """
    return [
        _leader(ranking),
        *([ranking.resolution] if len(ranking.summary) > 1 else []),
        *_calibrations(ranking.evaluations),
        *_shares(ranking),
        *_cautions(ranking),
    ]


def _leader(ranking: Ranking) -> str:
    """Return the sentence on the best forecaster."""
    first, measure = ranking.summary[0], ranking.measure
    figure = f"{first.mean:.4g} ± {first.standard_error:.2g}"
    if len(ranking.summary) == 1:
        return f"The {measure} of {first.forecaster} is {figure} over {ranking.n_scenes:,} scenes."
    second = ranking.summary[1]
    ahead = (
        f"{second.difference:.3g} below {second.forecaster} "
        f"({ranking.confidence:.0%} interval {second.low:.3g} to {second.high:.3g})"
    )
    if first.rank == "1":
        return f"{first.forecaster} is best: its {measure} is {figure}, {ahead}."
    return f"{first.forecaster} is first, but not for certain: its {measure} is {figure}, {ahead}."


def _calibrations(evaluations: Mapping[str, Evaluation]) -> Iterator[str]:
    found = {name: calibration(each) for name, each in evaluations.items()}
    for kind, text in _CALIBRATIONS.items():
        names = [name for name, each in found.items() if each == kind]
        if names:
            yield f"{listed(names)} {'is' if len(names) == 1 else 'are'} {text}."


def calibration(evaluation: Evaluation) -> str | None:
    """Return a key of the findings about the calibration, None if it was not measured."""
    coverage = evaluation.coverage
    if coverage is None:
        return None
    if coverage.n_truths == 0:
        return "unknown"
    error = evaluation["ece"].mean
    if error <= _SIGNIFICANT * chance_error(evaluation):
        return "right"
    gap = float((coverage.observed - coverage.levels).mean())
    if abs(gap) < 0.5 * error:
        return "both"
    return "narrow" if gap < 0 else "wide"


def effective_truths(evaluation: Evaluation) -> float:
    """Return the number of independent truths with the standard errors of the coverage."""
    coverage = evaluation.coverage
    if coverage is None or evaluation.groups is None:
        return 0.0 if coverage is None else coverage.n_truths
    variance = (coverage.observed * (1 - coverage.observed)).sum()
    found = variance / max((coverage.standard_error**2).sum(), variance / coverage.n_truths)
    return float(found) if variance else evaluation.settings["effective_groups"]


def chance_error(evaluation: Evaluation) -> float:
    """Return the calibration error that calibrated forecasts have by chance."""
    coverage = evaluation.coverage
    if coverage is None:
        return nan
    return coverage.expected_error * sqrt(coverage.n_truths / effective_truths(evaluation))


def _shares(ranking: Ranking) -> Iterator[str]:
    """Return sentences on forecasters whose mean depends on one scene."""
    for row in ranking.summary:
        if row.largest_share > _LARGE_SHARE:
            yield (
                f"One scene of {row.forecaster} makes {row.largest_share:.0%} of all deviations "
                f"from the median: the median {ranking.measure} is {row.median:.4g}."
            )


def _cautions(ranking: Ranking) -> Iterator[str]:
    """Return sentences on degenerate samples and on clipped log densities."""
    cases = {name: _degenerate(each) for name, each in ranking.evaluations.items()}
    for text in dict.fromkeys(filter(None, cases.values())):
        names = [name for name, each in cases.items() if each == text]
        yield f"Degenerate samples of {listed(names)}: {text}."
    bound = ranking.settings.get("lower_bound")
    if bound is not None:
        yield (
            f"Log densities of steps below {bound:g} were raised to it, so that nll_step is not a "
            "proper score."
        )


def _degenerate(evaluation: Evaluation) -> str:
    """Return the numbers of degenerate cells and paths of every kind, in words."""
    found, settings = [], evaluation.settings
    takes_few = settings["estimator"] in _FOR_FEW and settings["shrinkage"] is not None
    for kind, count in evaluation.degenerate.items():
        first, _, unit = kind.partition(" ")
        if takes_few and first == "few" and unit.endswith("paths"):
            continue
        found.append(f"{count:,} {f'{unit} {_KINDS[first]}' if first in _KINDS else kind}")
    return ", ".join(found)
