"""The page of an evaluation, and the command that writes it."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from sevenhills.datasets import make_walks
from sevenhills.forecast import evaluate
from sevenhills.report import forecast_report
from sevenhills.report.evaluation_report import verdicts

typer = pytest.importorskip("typer")


@pytest.fixture(scope="module")
def walks():
    return make_walks(40, random_state=0)


@pytest.fixture(scope="module")
def samples(walks):
    return {name: law.draw(20, 1) for name, law in walks.law.predictors().items()}


@pytest.fixture(scope="module")
def evaluations(walks, samples):
    measures = ("nll", "nll_step", "ece", "ade")
    return {name: evaluate(each, walks.truth, measures=measures) for name, each in samples.items()}


class Outline(HTMLParser):
    """Which elements a page has, and whether each is closed."""

    VOID = ("meta", "link", "br", "img", "use", "path")

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.loads = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.loads += [v for k, v in attrs if k in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.loads += [v for k, v in attrs if k in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


class TestPage:
    def test_one_file_that_loads_nothing(self, walks, samples, evaluations):
        page = forecast_report(evaluations["oracle"], samples["oracle"], walks.truth).html
        outline = Outline(page)
        assert not outline.open
        assert outline.seen.count("svg") == 5
        assert outline.seen.count("script") == 1  # the theme
        assert "img" not in outline.seen
        assert all(each.startswith(("#", "data:,")) for each in outline.loads)
        assert not re.search(r"url\((?!#)|@import", page)
        assert len(page) < 300_000
        assert "currentColor" in page
        assert "#012345" not in page
        assert '<th scope="row"><strong>nll</strong></th>' in page
        assert '<th scope="row">ade</th>' in page

    def test_the_same_page_every_time(self, evaluations):
        assert forecast_report(evaluations["oracle"]) == forecast_report(evaluations["oracle"])

    def test_titles_are_escaped(self, evaluations, tmp_path):
        path = forecast_report(evaluations["oracle"], title="<b> & co").save(tmp_path / "r.html")
        page = path.read_text(encoding="utf-8")
        assert "<h1>&lt;b&gt; &amp; co</h1>" in page

    def test_names_of_scenes_are_escaped(self, walks, samples, evaluations):
        name = '"><script>alert(1)</script> x'
        named = replace(evaluations["oracle"], names=np.full(40, name))
        page = forecast_report(named, samples["oracle"], walks.truth).html
        assert "<script>alert" not in page
        assert page.count('scene &quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt; x"') == 3

    @pytest.mark.whole
    def test_says_who_is_too_narrow_and_who_too_wide(self, evaluations):
        said = {name: " ".join(verdicts(each)) for name, each in evaluations.items()}
        assert "are calibrated as far as" in said["oracle"]
        assert "too narrow" in said["over-confident"]
        assert "too wide" in said["under-confident"]

    def test_distances_alone(self, walks, samples):
        evaluation = evaluate(samples["oracle"], walks.truth, measures="ade", lower_bound=-20)
        page = forecast_report(evaluation, samples["oracle"], walks.truth).html
        assert "<svg" not in page
        assert "Log densities of steps below -20" in page

    def test_other_than_two_coordinates_are_not_drawn(self):
        rng = np.random.RandomState(0)
        predictions, truth = rng.standard_normal((9, 20, 3, 1)), rng.standard_normal((9, 3, 1))
        evaluation = evaluate(predictions, truth, measures=("nll_step",))
        assert forecast_report(evaluation, predictions, truth).html.count("<svg") == 1

    def test_without_matplotlib_the_error_names_the_extra(self, evaluations, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match=r"pip install 'sevenhills\[plot\]'"):
            forecast_report(evaluations["oracle"])
