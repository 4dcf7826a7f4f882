"""The report about an evaluation of forecasts, with static pictures."""

import os
from collections.abc import Callable, Mapping
from html import escape
from io import StringIO
from typing import Any

import numpy as np

from ..extras import import_extra
from ..forecast import Evaluation
from ..forecast.inputs import open_forecasts
from ..forecast.scores import measure_of
from ..plotting.canvas import COLORS, add_legend, new_figure
from ..plotting.forecast_plots import plot_calibration, plot_forecast
from .page import Report, Section, Table, render, render_page

#: The calibration error is significant beyond this multiple of its expectation by chance.
_SIGNIFICANT = 2.0
#: Degenerate cells and paths, by kind.
_KINDS = {
    "identical": "with identical samples",
    "flat": "with samples on a line or a plane",
    "few": "with too few samples to span their coordinates",
    "empty": "without samples",
    "refused": "that the estimator refused",
    "clipped": "with a log density raised to the lower bound",
}
#: Measures that may be the headline, the best one first.
_HEADLINES = ("nll", "nll_agents", "nll_agent", "nll_step", "energy_score")
#: Placeholder for the color of text, which depends on the theme of the page.
_INK = "#012345"
_STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def forecast_html(
    evaluation: Evaluation,
    predictions: Any = None,
    truth: Any = None,
    *,
    agents: bool = False,
    title: str = "Evaluation of forecasts",
) -> str:
    """Return a page about an evaluation, one HTML file that loads nothing.

    Parameters
    ----------
    evaluation : Evaluation
    predictions, truth : array-like, frame or path-like, optional
        The evaluated forecasts, to draw the best, the median and the worst scene.
    agents : bool, default=False
        Whether these have an axis of agents.
    title : str, default="Evaluation of forecasts"

    Returns
    -------
    str

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import evaluate
    >>> from sevenhills.report import forecast_html
    >>> walks = make_walks(20, random_state=0)
    >>> samples = walks.law.draw(20, random_state=0)
    >>> evaluation = evaluate(samples, walks.truth, measures=("nll_step", "ade"))
    >>> page = forecast_html(evaluation, title="Walks")
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    settings = evaluation.settings
    subtitle = (
        f"{len(evaluation.names)} scenes, {settings['n_samples']} samples in each, "
        f"{settings['n_steps']} steps, {settings['n_coordinates']} coordinates"
    )
    listed = Table("Settings of the evaluation", ["setting", "value"], _flat(settings))
    sections = [
        Section("summary", "Summary", render("sentences.html", sentences=verdicts(evaluation))),
        Section("measures", "Measures", _measures_html(evaluation)),
        *_all_scenes(evaluation),
        *_single_scenes(evaluation, predictions, truth, agents),
        Section("settings", "Settings", render("measures.html", content=listed, note="")),
    ]
    return render_page(title, subtitle, sections).html


def forecast_report(
    evaluation: Evaluation,
    path: str | os.PathLike[str],
    predictions: Any = None,
    truth: Any = None,
    *,
    agents: bool = False,
    title: str = "Evaluation of forecasts",
) -> None:
    """Write a page about an evaluation; see :func:`forecast_html`.

    Parameters
    ----------
    evaluation : Evaluation
    path : path-like
    predictions, truth, agents, title
        See :func:`forecast_html`.
    """
    page = forecast_html(evaluation, predictions, truth, agents=agents, title=title)
    Report(title, page).save(path)


def verdicts(evaluation: Evaluation) -> list[str]:
    """Return the findings of an evaluation in sentences."""
    out = []
    headline = _headline(evaluation)
    if headline is not None:
        row = evaluation[headline]
        out.append(
            f"{headline} is {row.mean:.4g} ± {row.standard_error:.2g} over {row.n_scenes} scenes."
        )
    if evaluation.coverage is not None:
        out.append(_calibration_verdict(evaluation))
    found = [_degenerate(kind, count) for kind, count in evaluation.degenerate.items() if count]
    if found:
        out.append(f"Degenerate cases: {', '.join(found)}.")
    bound = evaluation.settings.get("lower_bound")
    if bound is not None:
        out.append(
            f"Log densities of steps below {bound:g} were raised to it, so that nll_step is not a "
            "proper score."
        )
    return out or ["Only distances were measured."]


def _degenerate(kind: str, count: int) -> str:
    """Return the number of degenerate cells or paths of a kind, in words."""
    first, _, unit = kind.partition(" ")
    return f"{count:,} {unit} {_KINDS[first]}" if first in _KINDS else f"{count:,} {kind}"


def _headline(evaluation: Evaluation) -> str | None:
    known = [row.measure for row in evaluation.summary]
    return next((each for each in _HEADLINES if each in known), None)


def _calibration_verdict(evaluation: Evaluation) -> str:
    coverage = evaluation.coverage
    if coverage is None or coverage.n_truths == 0:
        return "No scene has a density whose calibration could be measured."
    error, expected = evaluation["ece"].mean, coverage.expected_error
    found = (
        f"The calibration error is {error:.3f}; a perfectly calibrated forecast would show about "
        f"{expected:.3f} by chance."
    )
    if error <= _SIGNIFICANT * expected:
        return f"{found} The forecasts are calibrated as far as these scenes can tell."
    gap = float((coverage.observed - coverage.levels).mean())
    if abs(gap) < 0.5 * error:
        return f"{found} The forecasts are too narrow in some respects and too wide in others."
    if gap < 0:
        return f"{found} The regions hold the truth too rarely: forecasts are too narrow or biased."
    return f"{found} The regions hold the truth too often: forecasts are too wide."


def _measures_html(evaluation: Evaluation) -> str:
    headings = ["measure", "mean", "± error", "interval", "scenes", "degenerate"]
    rows = [
        [
            {"strong": row.measure} if measure_of(row.measure).is_proper else row.measure,
            f"{row.mean:.4g}",
            f"{row.standard_error:.2g}",
            f"{row.low:.4g} to {row.high:.4g}",
            f"{row.n_scenes:,}",
            f"{row.n_degenerate:,}",
        ]
        for row in evaluation.summary
    ]
    note = (
        "Lower is better for all measures. Measures in bold are proper: in expectation, no "
        "forecast scores better than the distribution of the truth. Intervals are bootstrap "
        "intervals over scenes."
    )
    return render("measures.html", content=Table("Means over scenes", headings, rows), note=note)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    """Return settings as rows; nested ones have both names."""
    out = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            out += _flat(value, f"{prefix}{name} ")
        else:
            out.append([prefix + name, "-" if value is None else str(value)])
    return out


def _all_scenes(evaluation: Evaluation) -> list[Section]:
    """Return the section of calibration and scores."""
    figures, headline = [], _headline(evaluation)
    if evaluation.coverage is not None and evaluation.coverage.n_truths:
        caption = (
            "Share of truths inside highest-density regions. Below the diagonal forecasts are too "
            "narrow, above it too wide."
        )
        name = "Calibration of the forecasts"
        drawn = _svg(lambda ax: plot_calibration(evaluation, ax), (4.2, 4.2), name)
        figures.append((drawn, caption))
    if headline is not None:
        figures.append((_draw_scores(evaluation, headline), f"Distribution of {headline}."))
    return _figure_section("all", "All scenes", figures)


def _single_scenes(
    evaluation: Evaluation, predictions: Any, truth: Any, agents: bool
) -> list[Section]:
    """Return the section of the best, the median and the worst scene, if they can be drawn."""
    measure = _headline(evaluation)
    if measure is None or predictions is None or truth is None:
        return []
    if open_forecasts(predictions, truth, agents).n_coordinates != 2:
        return []
    values = evaluation.scenes[measure]
    order = np.argsort(values, kind="stable")[: np.count_nonzero(np.isfinite(values))]
    figures = []
    for place, k in {"best": 0, "median": len(order) // 2, "worst": -1}.items():
        if len(order):
            i = int(order[k])
            title = f"{place}: scene {evaluation.names[i]}"
            drawn = _draw_scene(predictions, truth, i, title, agents)
            figures.append((drawn, f"{measure} {values[i]:.4g}"))
    note = "Thin lines are samples; the thick line with dots is the truth."
    return _figure_section("scenes", "Scenes", figures, note)


def _figure_section(
    name: str, heading: str, figures: list[tuple[str, str]], note: str = ""
) -> list[Section]:
    """Return a section of pictures with captions, none if there are no pictures."""
    if not figures:
        return []
    return [Section(name, heading, render("figures.html", figures=figures, note=note))]


def _draw_scores(evaluation: Evaluation, measure: str) -> str:
    values = evaluation.scenes[measure]
    values = values[np.isfinite(values)]
    low, high = np.percentile(values, [0.5, 99.5])
    mean = evaluation[measure].mean

    def draw(ax: Any) -> None:
        # The outermost bars hold all values beyond them.
        ax.hist(np.clip(values, low, high), bins=30, color=COLORS[0], alpha=0.8)
        ax.axvline(mean, color=COLORS[1], lw=1.5, label=f"mean {mean:.4g}")
        ax.set(xlabel=measure, ylabel="scenes")
        add_legend(ax, labelcolor=_INK, facecolor="none")

    return _svg(draw, (4.2, 3.7), f"{measure} of the scenes")


def _draw_scene(predictions: Any, truth: Any, index: int, title: str, agents: bool) -> str:
    def draw(ax: Any) -> None:
        plot_forecast(predictions, truth, index, ax, agents)
        ax.set_title(title)
        ax.get_legend().remove()  # the page has one note for all scenes

    return _svg(draw, (3.4, 3.2), title)


def _svg(draw: Callable[[Any], Any], size: tuple[float, float], name: str) -> str:
    """Return a picture as an element of the page, in its colors; ``name`` describes it."""
    matplotlib = import_extra("matplotlib", "plot", "reports on forecasts need matplotlib")
    # The salt makes ids of elements differ between the pictures of a page.
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure, axes = new_figure(1, 1, size)
        draw(axes[0, 0])
        file = StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = svg.replace(COLORS[0].lower(), "var(--accent)")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(name)}"', 1)
