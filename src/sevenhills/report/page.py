"""The page: sections, styles, scripts and data in one file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from ..atomic_write import atomic_write
from ..plotting.canvas import COLORS, NOISE_COLOR
from .packing import to_json

_SCRIPTS = ("core.js", "density.js", "clusters.js", "samples.js", "outliers.js", "quality.js")


class Html(str):
    """Text that is HTML already."""


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    name : str
        Its anchor, and the key of its data.
    heading : str
    body : Html
    """

    name: str
    heading: str
    body: Html


@dataclass(frozen=True)
class Report:
    """A page about a fit.

    Attributes
    ----------
    title : str
    html : str
        The whole page, which refers to nothing outside of it.

    Examples
    --------
    >>> from sevenhills import GaussianMixtureBIC, datasets
    >>> from sevenhills.report import build_report
    >>> X = datasets.load("aniso").sample(60, random_state=0)
    >>> build_report(GaussianMixtureBIC(max_components=3), X=X, title="Three hills").title
    'Three hills'
    """

    title: str
    html: str

    def save(self, path: Any) -> Path:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path-like
            Written over if it exists.

        Returns
        -------
        Path
        """
        path = Path(path)
        with atomic_write(path) as file:
            file.write(self.html.encode("utf-8", "backslashreplace"))
        return path

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.html.encode()) / 1e6:.1f} MB)"

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        frame = 'style="width: 100%; height: 800px; border: 0"'
        return f'<iframe title="{text(self.title)}" srcdoc="{text(self.html)}" {frame}></iframe>'


def render_page(
    title: str,
    subtitle: str,
    sections: Sequence[Section],
    data: dict[str, Any],
    scripts: Sequence[str] = _SCRIPTS,
) -> Report:
    """Put a page together.

    Parameters
    ----------
    title, subtitle : str
    sections : sequence of Section
    data : dict
        What scripts draw, by the names of sections.
    scripts : sequence of str
        Files in ``assets``; the first is ``core.js``.
    """
    data = {**data, "colours": COLORS, "noise": NOISE_COLOR}
    html = fill(
        "page.html",
        title=title,
        subtitle=subtitle,
        links=Html("".join(f'<a href="#{s.name}">{text(s.heading)}</a>' for s in sections)),
        sections=Html("".join(_section(each) for each in sections)),
        style=Html(_asset("page.css")),
        plotly=Html(_asset("plotly-cartesian.min.js")),
        script=Html("\n".join(_asset(name) for name in scripts)),
        data=Html(to_json(data)),
    )
    return Report(title, str(html))


def _section(section: Section) -> str:
    return fill("section.html", name=section.name, heading=section.heading, body=section.body)


def absent(reason: str) -> Html:
    """Return what stands in place of something that there is not, and why."""
    return Html(f'<p class="absent">{text(reason)}</p>')


def fill(template: str, **values: Any) -> Html:
    """Return a template with its gaps filled; whatever is not HTML is escaped."""
    return Html(_template(template).substitute({key: text(v) for key, v in values.items()}))


def text(value: Any) -> Html:
    """Return a value as HTML."""
    return value if isinstance(value, Html) else Html(escape(str(value)))


def shorten(name: str, most: int = 28) -> str:
    """Return a name, cut off where it is too long to be read in passing."""
    return name if len(name) <= most else name[: most - 1] + "…"


def table(caption: str, headings: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Html:
    """Return a table that scrolls by itself where it is too wide.

    The first cell of every row is its heading.
    """
    # Long headings are cut on the page.
    head = "".join(f'<th scope="col" title="{text(each)}">{text(each)}</th>' for each in headings)
    body = "".join(_row(row) for row in rows)
    return fill("table.html", caption=caption, head=Html(head), body=Html(body))


def _row(row: Sequence[Any]) -> str:
    first, *rest = row
    cells = "".join(f"<td>{text(each)}</td>" for each in rest)
    return f'<tr><th scope="row">{text(first)}</th>{cells}</tr>'


def _asset(name: str) -> str:
    return _read("assets", name)


@cache
def _template(name: str) -> Template:
    return Template(_read("templates", name))


@cache
def _read(folder: str, name: str) -> str:
    return (files(__package__) / folder / name).read_text(encoding="utf-8")
