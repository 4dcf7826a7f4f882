"""Settings of sphinx for ``make docs``."""

from sevenhills import __version__

project = "sevenhills"
author = "The sevenhills developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "reproduction"]
templates_path = ["templates"]
# Every reference must lead somewhere; this one is in a docstring of scikit-learn's.
nitpicky = True
nitpick_ignore = [("py:class", "sklearn.pipeline.Pipeline")]

# Headings are targets of links, as they are on hosts that show Markdown as it is.
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]

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
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
}

html_theme = "furo"
html_title = f"sevenhills {__version__}"
html_static_path: list[str] = []
html_theme_options = {"navigation_with_keys": True}


def setup(app):
    """Let docstrings that scikit-learn hands down stand without the links into its own pages."""

    def without_links(app, what, name, obj, options, lines):
        lines[:] = [line.replace(":ref:", "") for line in lines]

    app.connect("autodoc-process-docstring", without_links)
