"""Settings of sphinx for ``make docs``."""

import re
from functools import partial

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

from sevenhills import __version__

logger = logging.getLogger(__name__)

project = "sevenhills"
author = "the sevenhills developers"
copyright = f"2026, {author}"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "reproduction"]
templates_path = ["templates"]
# Every reference must lead somewhere; this one is in a docstring of scikit-learn's.
nitpicky = True
nitpick_ignore = [("py:class", "sklearn.pipeline.Pipeline")]

# Headings are targets of links, as they are on hosts that show Markdown as it is.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]

# The button copies what is typed: lines after a prompt, without it, and no output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autosummary_generate = True
autodoc_typehints = "none"
# Methods have pages of their own only where a class page would be too long to read.
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Every script of examples/ is a page; one that fails, fails the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/",
    "within_subsection_order": "ExampleTitleSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
}

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"sevenhills {__version__}"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_theme_options = {"navigation_with_keys": True}


def without_links(app, what, name, obj, options, lines):
    """Let docstrings that scikit-learn hands down stand without the links into its own pages."""
    lines[:] = [line.replace(":ref:", "") for line in lines]


def mathml(translator, node, as_block):
    """Write a formula in the language that browsers know, which needs no script and no network."""
    # docutils has sizes of brackets for opening and closing ones only.
    text = re.sub(r"\\([bB]ig{1,2})(?![a-zA-Z])", r"\\\1l", node.astext())
    try:
        formula = tex2mathml(text, as_block=as_block)
    except MathError as error:
        logger.warning("%s: %s", error, text, location=node)
        formula = translator.encode(text)
    # What is wider than a telephone can be moved.
    block = f'<div style="overflow: auto hidden; margin: 1em 0">{formula}</div>'
    translator.body.append(block if as_block else formula)
    raise nodes.SkipNode


def list_pages_only(app, pagename, templatename, context, doctree):
    """Leave the entries of the gallery and of the reference out of the side bar."""
    if "toctree" in context:
        context["toctree"] = partial(shallow_toctree, context["toctree"])


def shallow_toctree(toctree, **options):
    return toctree(**{**options, "maxdepth": 1})


def setup(app):
    """Add what no extension does."""
    # Before the theme, which renders the side bar at the default priority of 500.
    app.connect("html-page-context", list_pages_only, priority=400)
    app.connect("autodoc-process-docstring", without_links)
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(partial(mathml, as_block=False), None),
        block_renderers=(partial(mathml, as_block=True), None),
    )
