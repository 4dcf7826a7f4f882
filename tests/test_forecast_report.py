"""The page of an evaluation, and the command that writes it."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from sevenhills.datasets import make_walks
from sevenhills.forecast import evaluate, read_evaluation, write_paths
from sevenhills.report import forecast_html, forecast_report
from sevenhills.report.forecast_page import verdicts

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
        page = forecast_html(evaluations["oracle"], samples["oracle"], walks.truth)
        outline = Outline(page)
        assert not outline.open
        assert outline.seen.count("svg") == 5
        assert "script" not in outline.seen
        assert "img" not in outline.seen
        assert all(each.startswith("#") for each in outline.loads)
        assert not re.search(r"url\((?!#)|@import", page)
        assert "prefers-color-scheme: dark" in page
        assert "currentColor" in page
        assert "#012345" not in page
        assert '<tr class="proper"><td>nll</td>' in page
        assert "<tr><td>ade</td>" in page

    def test_the_same_page_every_time(self, evaluations):
        assert forecast_html(evaluations["oracle"]) == forecast_html(evaluations["oracle"])

    def test_titles_are_escaped(self, evaluations, tmp_path):
        forecast_report(evaluations["oracle"], tmp_path / "r.html", title="<b> & co")
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert "<h1>&lt;b&gt; &amp; co</h1>" in page

    @pytest.mark.whole
    def test_says_who_is_too_narrow_and_who_too_wide(self, evaluations):
        said = {name: " ".join(verdicts(each)) for name, each in evaluations.items()}
        assert "as wide as they should be" in said["oracle"]
        assert "too narrow" in said["over-confident"]
        assert "too wide" in said["under-confident"]

    def test_distances_alone(self, walks, samples):
        evaluation = evaluate(samples["oracle"], walks.truth, measures="ade", lower_bound=-20)
        page = forecast_html(evaluation, samples["oracle"], walks.truth)
        assert "<svg" not in page
        assert "Log densities of steps below -20" in page

    def test_other_than_two_coordinates_are_not_drawn(self):
        rng = np.random.RandomState(0)
        predictions, truth = rng.standard_normal((9, 20, 3, 1)), rng.standard_normal((9, 3, 1))
        evaluation = evaluate(predictions, truth, measures=("nll_step",))
        assert forecast_html(evaluation, predictions, truth).count("<svg") == 1

    def test_without_matplotlib_the_error_names_the_extra(self, evaluations, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match=r"pip install 'sevenhills\[plot\]'"):
            forecast_html(evaluations["oracle"])


@pytest.fixture(scope="module")
def files(walks, samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_paths(samples["over-confident"], folder / "p.npz")
    write_paths(samples["over-confident"], folder / "p.parquet")
    write_paths(walks.truth, folder / "t.npz", "truth")
    np.save(folder / "short.npy", walks.truth[:, 1:])
    return folder


@pytest.fixture
def run(files):
    from sevenhills.cli.app import app

    def call(*arguments):
        return CliRunner().invoke(app, ["forecast", *(str(each) for each in arguments)])

    return call


FAST = ("--measure", "nll_step", "--measure", "ade")


class TestCommand:
    def test_writes_a_page_and_shows_a_table(self, run, files, tmp_path):
        written = tmp_path / "report.html", tmp_path / "e.parquet"
        result = run(
            files / "p.npz", files / "t.npz", "-o", written[0], "--parquet", written[1], *FAST
        )
        assert result.exit_code == 0, result.output
        assert "nll_step" in result.stdout
        assert written[0].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        assert read_evaluation(written[1])["ade"].n_scenes == 40

    def test_json(self, run, files, walks, samples):
        result = run(files / "p.parquet", files / "t.npz", "--json", "-k", 5, "--measure", "ade")
        told = json.loads(result.stdout)
        expected = evaluate(samples["over-confident"], walks.truth, measures="ade")
        assert told["summary"]["measure"] == ["ade"]
        assert told["summary"]["mean"] == pytest.approx([expected["ade"].mean])
        assert told["settings"]["k"] == [5]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("p.npz", "nothing.npz"), "there is no file"),
            (("p.npz", "short.npy"), "do not match truth of shape"),
            (("p.npz", "t.npz", "--measure", "luck"), "measures must be among"),
            (("p.npz", "t.npz", "--estimator", "guess"), "estimator must be one of"),
            (("p.npz", "t.npz", "--shrinkage", "some"), "shrinkage must be one of"),
            (("p.npz", "t.npz", "-o", "no/such/folder.html", *FAST), "does not exist"),
        ],
    )
    def test_errors_are_one_line(self, run, files, arguments, message):
        names = [files / each if each.endswith(("npz", "npy")) else each for each in arguments]
        result = run(*names)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert message in result.stderr

    def test_it_is_a_command(self):
        command = [sys.executable, "-m", "sevenhills.cli", "forecast", "--help"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert "predictions" in said.lower()
