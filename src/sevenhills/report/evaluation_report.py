"""The report about one or several evaluated forecasters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..estimate import Estimate
from ..forecast import Evaluation, Ranking, rank
from ..forecast.evaluation import as_mixtures
from ..forecast.inputs import Forecasts, open_forecasts
from .forecast_verdicts import chance_error, effective_truths, verdicts
from .page import (
    NO_VALUE,
    Report,
    Section,
    Table,
    estimate_cell,
    number_cell,
    render,
    render_page,
)
from .views import pack

#: Scripts of this page.
_SCRIPTS = ("core", "quality", "forecast")
#: Samples of a scene that are drawn at most, and those of a mixture.
_MAX_PATHS, _N_DRAWS = 100, 20
#: Quantiles of the scores of scenes that are drawn.
_SHARES = np.linspace(0.005, 0.995, 100)


def forecast_report(
    forecasters: Ranking | Evaluation,
    predictions: Any = None,
    truth: Any = None,
    *,
    agents: bool = False,
    title: str = "Evaluation of forecasts",
) -> Report:
    """Return a report about evaluated forecasters, in one HTML file that loads nothing.

    Parameters
    ----------
    forecasters : Ranking or Evaluation
        Several forecasters, or one.
    predictions : array-like, frame or path-like, or a mapping of names to them, optional
        The evaluated forecasts, to draw some scenes; a mapping for a ranking.
    truth : array-like, frame or path-like, optional
        The true paths.
    agents : bool, default=False
        Whether these have an axis of agents.
    title : str, default="Evaluation of forecasts"

    Returns
    -------
    Report

    Notes
    -----
    Reports need the extra ``report``.

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import rank
    >>> from sevenhills.report import forecast_report
    >>> walks = make_walks(20, random_state=0)
    >>> laws = {"true": walks.law, "wide": walks.law.spread(2.0)}
    >>> samples = {name: law.draw(20, random_state=0) for name, law in laws.items()}
    >>> ranking = rank(samples, walks.truth, measures=("nll_step", "ade"))
    >>> page = forecast_report(ranking, samples, walks.truth, title="Walks")
    >>> page.title  # page.save("walks.html") writes it
    'Walks'
    """
    if isinstance(forecasters, Evaluation):
        forecasters = rank({"forecast": forecasters})
        predictions = None if predictions is None else {"forecast": predictions}
    ranking = forecasters
    opened = _opened(ranking, predictions, truth, agents)
    data: dict[str, Any] = {"scores": _scores(ranking), "scenes": _scenes(ranking, opened)}
    calibration = _calibration(ranking)
    if calibration:
        data["quality"] = calibration
    names = list(ranking.evaluations)
    sections = [
        Section("summary", "Summary", _summary_html(ranking)),
        Section("scores", "Scores", _scores_html(data["scores"])),
        Section("calibration", "Calibration", _calibration_html(ranking) if calibration else ""),
        Section("measures", "All measures", _measures_html(ranking)),
        Section("scenes", "Scenes", render("scenes.html", names=names) if data["scenes"] else ""),
        Section("settings", "Settings", _settings_html(ranking)),
    ]
    sections = [each for each in sections if each.body]
    return render_page(title, _subtitle(ranking), sections, data, _SCRIPTS, verdicts(ranking))


def _opened(ranking: Ranking, predictions: Any, truth: Any, agents: bool) -> dict[str, Forecasts]:
    """Return the forecasts whose scenes can be drawn."""
    if predictions is None or truth is None:
        return {}
    if not isinstance(predictions, Mapping):
        kind = type(predictions).__name__
        raise TypeError(f"predictions must be a mapping of names for a ranking, got {kind}")
    missing = [name for name in ranking.evaluations if name not in predictions]
    if missing:
        raise ValueError(f"predictions lack the forecasters {missing}")
    found = {name: _open(predictions[name], truth, agents) for name in ranking.evaluations}
    return found if all(each.n_coordinates == 2 for each in found.values()) else {}


def _open(predictions: Any, truth: Any, agents: bool) -> Forecasts:
    """Open samples, or draws of mixtures."""
    mixtures = as_mixtures(predictions, truth, agents)
    if mixtures is not None:
        predictions = mixtures.sample(_N_DRAWS, random_state=0)
    return open_forecasts(predictions, truth, agents)


def _subtitle(ranking: Ranking) -> str:
    settings = ranking.settings
    return (
        f"{settings['n_steps']} steps, {settings['n_coordinates']} coordinates, ranked by "
        f"{ranking.measure}"
    )


def _forecaster_cells(ranking: Ranking) -> list[dict[str, Any]]:
    """Return the names of forecasters with the colors that they have in all pictures."""
    return [{"label": i, "name": name} for i, name in enumerate(ranking.evaluations)]


def _summary_html(ranking: Ranking) -> str:
    first, *others = ranking.evaluations.values()
    counts = {"forecasters": len(ranking.summary), "scenes": ranking.n_scenes}
    if first.groups is not None:
        counts["groups of scenes"] = first.settings["n_groups"]
    if all(each.settings["n_samples"] == first.settings["n_samples"] for each in others):
        noun = "samples" if first.settings["n_draws"] is None else "components"
        counts[noun] = first.settings["n_samples"]
    counts["steps"] = first.settings["n_steps"]
    tiles = [
        (noun.removesuffix("s") if count == 1 else noun, f"{count:,}")
        for noun, count in counts.items()
    ]
    sentences = verdicts(ranking)
    return render("verdict.html", tiles=tiles, sentences=sentences, content=_headline(ranking))


def _headline(ranking: Ranking) -> Table:
    """Return the table of the ranking."""
    columns = {
        "forecaster": _forecaster_cells(ranking),
        "rank": [row.rank.replace("-", "\N{EN DASH}") for row in ranking.summary],
        ranking.measure: [_estimate(row) for row in ranking.summary],
        "difference": [_interval(row) for row in ranking.summary],
        "p-value": [number_cell(row.p_value, 2) for row in ranking.summary],
        "median": [number_cell(row.median) for row in ranking.summary],
        "trimmed mean": [number_cell(row.trimmed_mean) for row in ranking.summary],
        "share of one scene": [_share_cell(row.largest_share) for row in ranking.summary],
        "ece": [number_cell(row.ece, 3) for row in ranking.summary],
        "energy score": [number_cell(row.energy_score) for row in ranking.summary],
        "source": [row.source for row in ranking.summary],
    }
    caption = f"Mean {ranking.measure} ± standard error, lower is better"
    if len(ranking.summary) == 1:
        for name in ("rank", "difference", "p-value"):
            del columns[name]
    else:
        caption += (
            f"; difference from the first with its {ranking.confidence:.0%} interval, scene by "
            "scene; p-values after Holm's correction for all pairs"
        )
    return Table(caption, list(columns), list(zip(*columns.values(), strict=True)))


def _share_cell(share: float) -> str:
    return NO_VALUE if np.isnan(share) else f"{share:.1%}"


def _estimate(row: Any) -> str:
    return estimate_cell(Estimate(row.mean, row.standard_error))


def _interval(row: Any) -> str:
    if np.isnan(row.difference):
        return NO_VALUE
    low, high = number_cell(row.low, 3), number_cell(row.high, 3)
    return f"{number_cell(row.difference, 3)} ({low} to {high})"


def _scores(ranking: Ranking) -> dict[str, Any]:
    """Return differences from the first, and quantiles of the scores of scenes."""
    values = [each.scenes.get(ranking.measure) for each in ranking.evaluations.values()]
    finite = [each[np.isfinite(each)] for each in values if each is not None]
    limits = [(row.low, row.difference, row.high) for row in ranking.summary[1:]]
    return {
        "measure": ranking.measure,
        "names": list(ranking.evaluations),
        "limits": [(0.0, 0.0, 0.0), *limits],
        "shares": _SHARES,
        "quantiles": [np.quantile(each, _SHARES) if len(each) else [] for each in finite],
    }


def _scores_html(scores: dict[str, Any]) -> str:
    """Return the pictures of scores; empty if there are none."""
    shown = {"differences": len(scores["names"]) > 1, "quantiles": bool(scores["quantiles"])}
    if not any(shown.values()):
        return ""
    return render("scores.html", measure=scores["measure"], first=scores["names"][0], **shown)


def _calibration(ranking: Ranking) -> dict[str, Any]:
    """Return calibration curves, with the 95% band of calibrated forecasts; empty if unknown."""
    found = {name: each.coverage for name, each in ranking.evaluations.items()}
    known = {name: each for name, each in found.items() if each is not None and each.n_truths}
    if len(known) < len(found):
        return {}
    levels = next(iter(known.values())).levels
    n_truths = min(effective_truths(each) for each in ranking.evaluations.values())
    band = 1.96 * np.sqrt(levels * (1 - levels) / n_truths)
    return {
        "confidences": levels,
        "lower": np.maximum(levels - band, 0),
        "upper": np.minimum(levels + band, 1),
        "curves": [
            {"name": name, "covered": each.observed, "at": each.levels}
            for name, each in known.items()
        ],
        "inside": "truths inside",
    }


def _calibration_html(ranking: Ranking) -> str:
    """Return the calibration errors beside the curves."""
    rows = [
        (cell, _estimate(each["ece"]), number_cell(chance_error(each), 2))
        for cell, each in zip(_forecaster_cells(ranking), ranking.evaluations.values(), strict=True)
    ]
    caption = "Calibration error ± standard error, and that of calibrated forecasts by chance"
    content = Table(caption, ["forecaster", "ece", "by chance"], rows)
    return render("calibration.html", content=content)


def _measures_html(ranking: Ranking) -> str:
    """Return the means of all measures, the lowest of each in bold."""
    measures, *means = ranking.columns("measures").values()
    rows = [(measure, *_emphasized(row)) for measure, *row in zip(measures, *means, strict=True)]
    note = (
        "Lower is better for all measures; the lowest of a row is bold. Measures of distance can "
        "prefer wrong forecasts: the mean over samples a narrower one, the nearest sample a wider "
        "one."
    )
    content = Table("Means ± standard errors", ["measure", *ranking.evaluations], rows)
    return render("measures.html", content=content, note=note)


def _emphasized(means: Sequence[Estimate]) -> list[Any]:
    """Return the cells of several means, the lowest one bold."""
    known = [mean for mean in means if not np.isnan(mean)]
    lowest = min(known) if len(known) > 1 else None
    return [
        {"strong": estimate_cell(mean)} if mean == lowest else estimate_cell(mean) for mean in means
    ]


def _settings_html(ranking: Ranking) -> str:
    """Return the settings of the first, and of others where they differ."""
    every = [dict(each.settings) for each in ranking.evaluations.values()]
    for each in every:
        each |= each.pop("versions", {})
    rows = []
    for name in every[0]:
        values = ["-" if each.get(name) is None else str(each[name]) for each in every]
        rows.append([name, values[0] if len(set(values)) == 1 else "; ".join(values)])
    content = Table("Settings of the evaluation", ["setting", "value"], rows)
    return render("measures.html", content=content, note="")


def _scenes(ranking: Ranking, opened: Mapping[str, Forecasts]) -> list[dict[str, Any]]:
    """Return some scenes with the paths of all forecasters."""
    if not opened:
        return []
    return [_scene(ranking, opened, title, i) for title, i in _chosen_scenes(ranking).items()]


def _chosen_scenes(ranking: Ranking) -> dict[str, int]:
    """Return scenes where the first is best and worst, and where it differs from the second."""
    values = [each.scenes.get(ranking.measure) for each in ranking.evaluations.values()]
    if values[0] is None or not np.isfinite(values[0]).any():
        return {}
    (first, names), measure = (values[0], list(ranking.evaluations)), ranking.measure
    order = np.argsort(first, kind="stable")[: np.count_nonzero(np.isfinite(first))]
    found = {
        f"median {measure} of {names[0]}": order[len(order) // 2],
        f"lowest {measure} of {names[0]}": order[0],
        f"highest {measure} of {names[0]}": order[-1],
    }
    for name, other in zip(names[1:2], values[1:2], strict=True):
        apart = first - other
        if np.isfinite(apart).any():
            found[f"{names[0]} farthest ahead of {name}"] = np.nanargmin(apart)
            found[f"{names[0]} farthest behind {name}"] = np.nanargmax(apart)
    return {title: int(i) for title, i in found.items()}


def _scene(ranking: Ranking, opened: Mapping[str, Forecasts], title: str, i: int) -> dict[str, Any]:
    """Return the paths of a scene."""
    evaluations = ranking.evaluations
    read = [each.read(i, i + 1) for each in opened.values()]
    truth = read[0][1][0].reshape(-1, *read[0][1].shape[-2:])
    samples = [paths[0, :_MAX_PATHS].reshape(-1, *paths.shape[-2:]) for paths, _ in read]
    ends = [np.nanquantile(each.reshape(-1, 2), (0.01, 0.99), axis=0) for each in samples]
    points = np.concatenate([truth.reshape(-1, 2), *ends])
    return {
        "title": f"{title}: scene {next(iter(evaluations.values())).names[i]}",
        "scores": [each.scenes[ranking.measure][i] for each in evaluations.values()],
        "box": [np.nanmin(points, axis=0), np.nanmax(points, axis=0)],
        "truth": _pack_paths(truth),
        "samples": [_pack_paths(each) for each in samples],
    }


def _pack_paths(paths: np.ndarray) -> dict[str, Any]:
    """Return the coordinates of paths (N, T, 2) as two rows, with a gap after every path."""
    gaps = np.full((len(paths), 1, 2), np.nan)
    rows = np.concatenate([paths, gaps], axis=1).reshape(-1, 2).T
    origin = np.nan_to_num(rows[:, 0])
    return {"medians": origin.tolist(), "rest": pack(rows - origin[:, None])}
