"""The command forecast."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from sevenhills.cli.app import app
from sevenhills.datasets import make_walks
from sevenhills.forecast import evaluate, read_evaluation

from ..forecast.scenes import long_frame


@pytest.fixture(scope="module")
def walks():
    return make_walks(40, random_state=0)


@pytest.fixture(scope="module")
def samples(walks):
    return walks.law.predictors()["over-confident"].draw(20, 1)


@pytest.fixture(scope="module")
def files(walks, samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    np.savez(folder / "p.npz", predictions=samples)
    long_frame(samples, "sample").to_parquet(folder / "p.parquet")
    np.savez(folder / "t.npz", truth=walks.truth)
    np.save(folder / "short.npy", walks.truth[:, 1:])
    return folder


@pytest.fixture
def run(files):
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
        expected = evaluate(samples, walks.truth, measures="ade")
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
