"""The report about an evaluation of forecasts, with static pictures."""

from collections.abc import Callable
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
    "legend.facecolor": "none",
    "legend.labelcolor": _INK,
}


def forecast_report(
    evaluation: Evaluation,
    predictions: Any = None,
    truth: Any = None,
    *,
    agents: bool = False,
    title: str = "Evaluation of forecasts",
) -> Report:
    """Return a report about an evaluation of forecasts, in one HTML file that loads nothing.

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
    Report

    Examples
    --------
    >>> from sevenhills.datasets import make_walks
    >>> from sevenhills.forecast import evaluate
    >>> from sevenhills.report import forecast_report
    >>> walks = make_walks(20, random_state=0)
    >>> samples = walks.law.draw(20, random_state=0)
    >>> evaluation = evaluate(samples, walks.truth, measures=("nll_step", "ade"))
    >>> page = forecast_report(evaluation, title="Walks")  # page.save("walks.html") writes it
    >>> page.title
    'Walks'
    """
    settings = evaluation.settings
    subtitle = (
        f"{len(evaluation.names)} scenes, {settings['n_samples']} samples in each, "
        f"{settings['n_steps']} steps, {settings['n_coordinates']} coordinates"
    )
    sections = [
        Section("summary", "Summary", render("sentences.html", sentences=verdicts(evaluation))),
        Section("measures", "Measures", _measures_html(evaluation)),
        Section("all", "All scenes", _pictures_html(_all_scenes(evaluation))),
        Section(
            "scenes", "Scenes", _pictures_html(_scenes(evaluation, predictions, truth, agents))
        ),
        Section("settings", "Settings", _settings_html(evaluation)),
    ]
    return render_page(title, subtitle, [each for each in sections if each.body])


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
    headings, *rows = evaluation._texts()
    cells = [
        [{"strong": measure} if measure_of(measure).is_proper else measure, *rest]
        for measure, *rest in rows
    ]
    note = (
        "Lower is better for all measures. Measures in bold are proper: in expectation, the "
        "distribution of the truth scores best, up to the error of a density that is estimated "
        "from samples. Intervals from low to high are bootstrap intervals over scenes."
    )
    return render("measures.html", content=Table("Means over scenes", headings, cells), note=note)


def _settings_html(evaluation: Evaluation) -> str:
    settings = dict(evaluation.settings)
    settings |= settings.pop("versions", {})
    rows = [[name, "-" if value is None else value] for name, value in settings.items()]
    content = Table("Settings of the evaluation", ["setting", "value"], rows)
    return render("measures.html", content=content, note="")


def _pictures_html(figures: list[tuple[str, str]]) -> str:
    """Return pictures with their captions; empty if there are none."""
    return render("figures.html", figures=figures) if figures else ""


def _all_scenes(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return the pictures of calibration and scores."""
    figures, headline = [], _headline(evaluation)
    if evaluation.coverage is not None and evaluation.coverage.n_truths:
        caption = (
            "Share of truths inside highest-density regions. Below the diagonal forecasts are too "
            "narrow, above it too wide."
        )
        name = "Calibration of the forecasts"
        figures.append((_svg(name, (4.2, 4.2), plot_calibration, evaluation), caption))
    if headline is not None:
        name = f"{headline} of the scenes"
        drawn = _svg(name, (4.2, 3.7), _draw_scores, evaluation, headline)
        figures.append((drawn, f"Distribution of {headline}."))
    return figures


def _draw_scores(evaluation: Evaluation, measure: str, ax: Any) -> None:
    values = evaluation.scenes[measure]
    values = values[np.isfinite(values)]
    mean = evaluation[measure].mean
    # The outermost bars hold all values beyond them.
    shown = np.clip(values, *np.percentile(values, [0.5, 99.5]))
    ax.hist(shown, bins=30, color=COLORS[0], alpha=0.8)
    ax.axvline(mean, color=COLORS[1], lw=1.5, label=f"mean {mean:.4g}")
    ax.set(xlabel=measure, ylabel="scenes")
    add_legend(ax)


def _scenes(
    evaluation: Evaluation, predictions: Any, truth: Any, agents: bool
) -> list[tuple[str, str]]:
    """Return the pictures of the best, the median and the worst scene, if they can be drawn."""
    measure = _headline(evaluation)
    if measure is None or predictions is None or truth is None:
        return []
    if open_forecasts(predictions, truth, agents).n_coordinates != 2:
        return []
    values = evaluation.scenes[measure]
    order = np.argsort(values, kind="stable")[: np.count_nonzero(np.isfinite(values))]
    if not len(order):
        return []
    figures = []
    for place, k in {"best": 0, "median": len(order) // 2, "worst": -1}.items():
        i = int(order[k])
        name = f"{place}: scene {evaluation.names[i]}"
        drawn = _svg(name, (3.4, 3.2), plot_forecast, predictions, truth, i, agents=agents)
        figures.append((drawn, f"{name}, {measure} {values[i]:.4g}"))
    return figures


def _svg(
    name: str, size: tuple[float, float], draw: Callable[..., Any], *args: Any, **options: Any
) -> str:
    """Return the picture ``draw(*args, ax=ax, **options)`` as HTML, in the colors of the page."""
    matplotlib = import_extra("matplotlib", "plot", "reports on forecasts need matplotlib")
    # The salt makes ids of elements differ between the pictures of a page.
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure, axes = new_figure(1, 1, size)
        draw(*args, ax=axes[0, 0], **options)
        file = StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = svg.replace(COLORS[0].lower(), "var(--accent)")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(name)}"', 1)
