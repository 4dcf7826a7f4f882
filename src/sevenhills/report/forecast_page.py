"""The page of an evaluation."""

import os
from collections.abc import Iterable, Mapping
from html import escape
from string import Template
from typing import Any

import numpy as np

from ..atomic_write import atomic_write
from ..forecast import Evaluation
from ..forecast.inputs import open_forecasts
from ..forecast.scores import measure_of
from . import forecast_pictures as pictures

#: The coverage differs from what it should be if it does so by this many times what chance does.
_BEYOND_CHANCE = 2.0
#: What is the matter with cells and paths, by kind.
_KINDS = {
    "identical": "whose samples are all the same",
    "flat": "whose samples lie on a line or a plane",
    "few": "with fewer samples than it takes to span their coordinates",
    "empty": "without samples",
    "refused": "that the estimator refused",
    "clipped": "whose log density was raised to the lower bound",
}

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
:root { --ink: #1c1e21; --paper: #ffffff; --soft: #f1f3f5; --line: #d0d4d9; --blue: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #16181c; --soft: #22262c; --line: #3a4048; --blue: #56b4e9; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; }
h1, p { overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; }
.table { overflow-x: auto; }
:focus-visible { outline: 3px solid var(--blue); outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.7rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.proper td:first-child { font-weight: 600; }
.verdict { background: var(--soft); border-left: 4px solid var(--blue); padding: 0.6rem 1rem; }
.verdict p { margin: 0.3rem 0; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: end; }
figure { margin: 0 0 1rem; flex: 1 1 17rem; max-width: 30rem; }
@media (max-width: 30rem) {
  th, td { padding: 0.25rem 0.35rem; }
  table { font-size: 0.8rem; }
}
/* Text is laid out in the font of matplotlib and may be wider in the reader's. */
svg { width: 100%; height: auto; overflow: visible; }
figcaption, .small { font-size: 0.85rem; opacity: 0.85; }
</style>
</head>
<body>
<h1>$title</h1>
<p>$about</p>
<div class="verdict">$verdict</div>
<h2>Measures</h2>
<div class="table" role="region" aria-label="Measures" tabindex="0">$measures</div>
<p class="small">Less is better of all measures. Those in bold are proper: on average, no forecast
does better than the distribution that the truth comes from. Intervals are taken by resampling
scenes.</p>
$figures
<h2>How it was measured</h2>
<div class="table" role="region" aria-label="Settings" tabindex="0">$settings</div>
</body>
</html>
""")


def forecast_html(
    evaluation: Evaluation,
    predictions: Any = None,
    truth: Any = None,
    *,
    agents: bool = False,
    title: str = "Forecasts, evaluated",
) -> str:
    """Return a page that says what an evaluation found.

    It is one file, without scripts and without anything to load: pictures are part of it. It is
    dark where readers prefer that, and fits a telephone.

    Parameters
    ----------
    evaluation : Evaluation
    predictions, truth : array-like, frame or path-like, optional
        What was evaluated, to draw the likeliest, a usual and the least likely scene.
    agents : bool, default=False
        Whether these have an axis of agents.
    title : str, default="Forecasts, evaluated"

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
    about = (
        f"{len(evaluation.names)} scenes, {settings['n_samples']} samples in each, "
        f"{settings['n_steps']} steps, {settings['n_coordinates']} coordinates."
    )
    return _PAGE.substitute(
        title=escape(title),
        about=about,
        verdict="".join(f"<p>{escape(each)}</p>" for each in verdicts(evaluation)),
        measures=_measures(evaluation),
        figures=_figures(evaluation, predictions, truth, agents),
        settings=_table([["setting", "value"], *_flat(settings)]),
    )


def forecast_report(
    evaluation: Evaluation,
    path: str | os.PathLike[str],
    predictions: Any = None,
    truth: Any = None,
    *,
    agents: bool = False,
    title: str = "Forecasts, evaluated",
) -> None:
    """Write a page that says what an evaluation found; see :func:`forecast_html`.

    Parameters
    ----------
    evaluation : Evaluation
    path : path-like
    predictions, truth, agents, title
        See :func:`forecast_html`.
    """
    page = forecast_html(evaluation, predictions, truth, agents=agents, title=title)
    with atomic_write(path) as file:
        file.write(page.encode("utf-8", "backslashreplace"))


def verdicts(evaluation: Evaluation) -> list[str]:
    """Return what the figures say, in sentences.

    Parameters
    ----------
    evaluation : Evaluation
    """
    out = []
    headline = _headline(evaluation)
    if headline is not None:
        row = evaluation[headline]
        out.append(
            f"{headline} is {row.mean:.4g} ± {row.standard_error:.2g} over {row.n_scenes} scenes."
        )
    if evaluation.coverage is not None:
        out.append(_calibration(evaluation))
    found = [_unusual(kind, count) for kind, count in evaluation.degenerate.items() if count]
    if found:
        out.append(f"Not as usual: {', '.join(found)}.")
    bound = evaluation.settings.get("lower_bound")
    if bound is not None:
        out.append(f"Log densities of steps below {bound:g} were raised to it: not proper.")
    return out or ["Nothing but distances was measured."]


def _unusual(kind: str, count: int) -> str:
    """Return in words how many cells or paths are of an unusual kind."""
    first, _, of = kind.partition(" ")
    return f"{count:,} {of} {_KINDS[first]}" if first in _KINDS else f"{count:,} {kind}"


def _headline(evaluation: Evaluation) -> str | None:
    """Return the measure to report first, if there is one."""
    known = [row.measure for row in evaluation.summary]
    wanted = ("nll", "nll_agents", "nll_agent", "nll_step", "energy_score")
    return next((each for each in wanted if each in known), None)


def _calibration(evaluation: Evaluation) -> str:
    coverage = evaluation.coverage
    if coverage is None or coverage.n_truths == 0:
        return "No scene has a density whose calibration could be measured."
    error, chance = evaluation["ece"].mean, coverage.expected_error
    said = f"The calibration error is {error:.3f}; {chance:.3f} is what chance makes of none."
    if error <= _BEYOND_CHANCE * chance:
        return f"{said} Forecasts are as wide as they should be."
    gap = float((coverage.observed - coverage.levels).mean())
    if abs(gap) < 0.5 * error:
        return f"{said} Forecasts are too narrow in some respects and too wide in others."
    if gap < 0:
        return f"{said} Regions hold the truth too rarely: forecasts are too narrow, or biased."
    return f"{said} Regions hold the truth too often: forecasts are too wide."


def _measures(evaluation: Evaluation) -> str:
    head = ["measure", "mean", "± error", "interval", "scenes", "degenerate"]
    rows = [
        [
            row.measure,
            f"{row.mean:.4g}",
            f"{row.standard_error:.2g}",
            f"{row.low:.4g} to {row.high:.4g}",
            str(row.n_scenes),
            str(row.n_degenerate),
        ]
        for row in evaluation.summary
    ]
    proper = {row.measure for row in evaluation.summary if measure_of(row.measure).is_proper}
    return _table([head, *rows], proper)


def _table(rows: list[list[str]], marked: Iterable[str] = ()) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = ""
    for row in rows[1:]:
        kind = ' class="proper"' if row[0] in marked else ""
        body += f"<tr{kind}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _flat(settings: Mapping[str, Any], above: str = "") -> list[list[str]]:
    """Return settings as rows, those within others by both names."""
    out = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            out += _flat(value, f"{above}{name} ")
        else:
            out.append([above + name, "-" if value is None else str(value)])
    return out


def _figures(evaluation: Evaluation, predictions: Any, truth: Any, agents: bool) -> str:
    over_all, headline = "", _headline(evaluation)
    if evaluation.coverage is not None and evaluation.coverage.n_truths:
        over_all += _figure(
            pictures.calibration(evaluation),
            "How often regions of the highest density hold the truth. Below the line forecasts "
            "are too narrow, above it too wide.",
        )
    if headline is not None:
        picture = pictures.spread(evaluation, headline)
        over_all += _figure(picture, f"{headline} from scene to scene.")
    if not over_all:
        return ""
    out = f'<h2>All scenes</h2>\n<div class="pictures">{over_all}</div>\n'
    if headline is not None and predictions is not None and truth is not None:
        out += _scenes(evaluation, headline, predictions, truth, agents)
    return out


def _scenes(
    evaluation: Evaluation, measure: str, predictions: Any, truth: Any, agents: bool
) -> str:
    """Return pictures of the likeliest, a usual and the least likely scene."""
    if open_forecasts(predictions, truth, agents).n_coordinates != 2:
        return ""
    values = evaluation.scenes[measure]
    order = np.argsort(values, kind="stable")[: np.count_nonzero(np.isfinite(values))]
    if len(order) == 0:
        return ""
    chosen = {"likeliest": order[0], "usual": order[len(order) // 2], "least likely": order[-1]}
    drawn = [
        _figure(
            pictures.scene(
                predictions, truth, int(i), f"{name}: scene {evaluation.names[i]}", agents
            ),
            f"{measure} {values[i]:.4g}",
        )
        for name, i in chosen.items()
    ]
    told = '<p class="small">Thin lines are samples; the thick one with dots is the truth.</p>'
    return f'<h2>Scenes</h2>\n{told}\n<div class="pictures">{"".join(drawn)}</div>'


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>\n"
