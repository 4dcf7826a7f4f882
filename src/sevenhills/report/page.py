"""The page: sections, tables, styles, scripts and data in one HTML file."""

import gzip
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__
from ..atomic_write import atomic_write
from ..estimate import Estimate
from ..extras import import_extra
from ..plotting.canvas import COLORS, NOISE_COLOR, cluster_name
from ..texts import json_value

#: The cell of a number that is not known.
NO_VALUE = "\N{EN DASH}"


class Section(NamedTuple):
    """A section of a page: its anchor, its heading, and its HTML from :func:`render`."""

    name: str
    heading: str
    body: str


class Table(NamedTuple):
    """A table on a page; the first cell of every row is its heading.

    Cells are values, or mappings that the template ``parts.html`` knows.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Report:
    """A page in one HTML file.

    Attributes
    ----------
    title : str
    html : str
        The whole page. It refers to nothing outside of it.
    verdict : tuple of str
        The sentences with which the page begins.

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
    verdict: tuple[str, ...] = ()

    def save(self, path: Any) -> Path:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path-like
            Replaced if it exists.

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
        title, html = escape(self.title), escape(self.html)
        frame = 'style="width: 100%; height: 800px; border: 0"'
        return f'<iframe title="{title}" srcdoc="{html}" {frame}></iframe>'


def render_page(
    title: str,
    subtitle: str,
    sections: Sequence[Section],
    data: dict[str, Any],
    scripts: Sequence[str],
    verdict: Sequence[str],
) -> Report:
    """Return a page with the data of its plots and the scripts that draw them."""
    colors = {"colors": COLORS, "noise": NOISE_COLOR}
    html = render(
        "page.html",
        title=title,
        subtitle=subtitle,
        version=__version__,
        sections=sections,
        style=_read("assets", "page.css"),
        script="\n".join(_read("assets", f"{name}.js") for name in ("theme", *scripts)),
        data=to_json(data | colors),
        plotly=_packed_plotly(),
    )
    return Report(title, str(html), tuple(verdict))


def render(template: str, **values: Any) -> str:
    """Return a template of this package with values, which are escaped unless they are HTML."""
    markupsafe = import_extra("markupsafe", "report", "reports need jinja2")
    html: str = markupsafe.Markup(_environment().get_template(template).render(values))
    return html


def absent(reason: str) -> str:
    """Return an explanation in place of a section's content."""
    return render("absent.html", reason=reason)


def number_cell(value: float | None, digits: int = 4) -> str:
    """Return a number for a table, with a minus sign instead of a hyphen."""
    if value is None or not isfinite(value):
        return NO_VALUE
    return f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}")


def estimate_cell(value: Estimate) -> str:
    """Return a number and its standard error for a table."""
    return str(value).replace("-", "\N{MINUS SIGN}").replace("nan", NO_VALUE)


def cluster_cell(label: int) -> dict[str, Any]:
    """Return the cell of a cluster, with its color."""
    return {"label": int(label), "name": cluster_name(label)}


def to_json(value: Any) -> str:
    """Return JSON that can be embedded in a script element, whatever its texts are."""
    text = json.dumps(json_value(value), separators=(",", ":"), allow_nan=False, sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _environment() -> Any:
    jinja2 = import_extra("jinja2", "report", "reports need jinja2")
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(partial(_read, "templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _packed_plotly() -> str:
    """Return plotly.js, compressed to 40% of its size; ``core.js`` unpacks it."""
    offline = import_extra("plotly.offline", "report", "reports need plotly")
    return b64encode(gzip.compress(offline.get_plotlyjs().encode(), mtime=0)).decode()


@cache
def _read(folder: str, name: str) -> str:
    return (files(__package__) / folder / name).read_text(encoding="utf-8")
