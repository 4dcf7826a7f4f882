"""Pages as files, in notebooks, and their data."""

import json

import numpy as np

from sevenhills import GaussianKDE
from sevenhills.report import Report, build_report
from sevenhills.report.page import to_json

from .pages import aniso


def test_it_is_written_and_shown_in_notebooks(tmp_path):
    X = aniso(40)
    page = build_report(GaussianKDE(), X=X, title="Hills & dales")
    path = page.save(str(tmp_path / "a.html"))
    assert path == tmp_path / "a.html"
    assert path.read_text(encoding="utf-8") == page.html
    assert page == Report("Hills & dales", page.html, page.verdict)
    assert "MB" in repr(page)
    assert 'title="Hills &amp; dales" srcdoc="&lt;!DOCTYPE' in page._repr_html_()


def test_json_is_safe_and_has_no_nan():
    assert to_json({"a": [np.nan, np.float64(1), np.int64(2), np.bool_(True)]}) == (
        '{"a":[null,1.0,2,true]}'
    )
    assert json.loads(to_json(["</script>&"])) == ["</script>&"]
    assert "<" not in to_json("</script>")
