"""The command forecast."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from sevenhills.cli.app import app
from sevenhills.cli.forecast import named_after_files
from sevenhills.datasets import make_walks
from sevenhills.forecast import evaluate, rank

from ..forecast.scenes import long_frame


@pytest.fixture(scope="module")
def walks():
    return make_walks(40, random_state=0)


@pytest.fixture(scope="module")
def samples(walks):
    laws = {"right": walks.law, "narrow": walks.law.spread(0.5)}
    return {name: law.draw(20, 1) for name, law in laws.items()}


@pytest.fixture(scope="module")
def files(walks, samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, each in samples.items():
        np.savez(folder / f"{name}.npz", predictions=each)
    long_frame(samples["narrow"], "sample").to_parquet(folder / "narrow.parquet")
    np.savez(folder / "t.npz", truth=walks.truth)
    np.save(folder / "short.npy", walks.truth[:, 1:])
    return folder


@pytest.fixture
def run(files):
    def call(*arguments):
        """Run the command on files of the folder."""
        given = [files / each if (files / each).is_file() else each for each in map(str, arguments)]
        return CliRunner().invoke(app, ["forecast", *map(str, given)])

    return call


FAST = ("--measure", "nll_step", "--measure", "ade")


def test_several_forecasters_in_a_page_tables_and_a_file(run, walks, samples, tmp_path):
    page, scenes = tmp_path / "report.html", tmp_path / "s.parquet"
    written = "-o", page, "--parquet", scenes
    result = run("narrow.npz", "right.npz", "--truth", "t.npz", *written, *FAST)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("right is first, but not for certain: its nll_step is ")
    assert f"wrote {page}" in result.stdout
    expected = rank(samples, walks.truth, measures=("nll_step", "ade"))
    for row in expected.texts("measures"):
        assert all(cell in result.stdout for cell in row)
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    frame = pd.read_parquet(scenes)
    assert list(frame) == ["forecaster", "scene", "nll_step", "ade"]
    assert list(frame["forecaster"].unique()) == ["right", "narrow"]
    found = frame.loc[frame["forecaster"] == "narrow", "ade"]
    np.testing.assert_allclose(found, expected.evaluations["narrow"].scenes["ade"])


def test_one_forecaster_as_json(run, walks, samples):
    options = "--json", "-k", 5, "--measure", "ade"
    told = json.loads(run("narrow.parquet", "--truth", "t.npz", *options).stdout)
    expected = evaluate(samples["narrow"], walks.truth, measures="ade")
    assert told["measure"] == "ade"
    assert told["ranking"]["rank"] == ["1"]
    assert told["ranking"]["difference"] == [None]
    found = told["forecasters"]["narrow"]
    assert found["summary"]["measure"] == ["ade"]
    assert found["summary"]["mean"] == pytest.approx([expected["ade"].mean])
    assert found["settings"]["k"] == [5]


def test_the_defaults_are_those_of_the_library(run, walks, samples):
    told = json.loads(run("right.npz", "--truth", "t.npz", "--json", "--measure", "nll").stdout)
    expected = evaluate(samples["right"], walks.truth, measures="nll")
    assert told["ranking"]["mean"] == [expected["nll"].mean]
    assert told["forecasters"]["right"]["settings"]["estimator"] == "pooled"


def test_the_measure_to_rank_by(run):
    options = "--truth", "t.npz", "--json", *FAST
    told = json.loads(run("right.npz", "narrow.npz", *options, "--rank-by", "ade").stdout)
    assert told["measure"] == "ade"
    assert told["ranking"]["forecaster"] == ["narrow", "right"]  # a narrow spread has a better ADE


def test_forecasters_are_named_after_the_ends_of_paths():
    def names(*paths):
        return list(named_after_files([Path(path) for path in paths]))

    assert names("a.npz", "deep/b.c.npz") == ["a", "b.c"]
    assert names("x/p.npz", "y/p.npz") == ["x/p", "y/p"]
    assert names("p.npz", "p.parquet") == ["p.npz", "p.parquet"]
    assert names("a/x/p.npz", "b/x/p.npz", "q.npz") == ["a/x/p", "b/x/p", "q"]
    with pytest.raises(ValueError, match="each file must be given once"):
        names("p.npz", "p.npz")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("right.npz", "--truth", "nothing.npz"), "there is no file"),
        (("right.npz", "--truth", "short.npy"), "do not match truth of shape"),
        (("right.npz", "--truth", "t.npz", "--measure", "luck"), "measures must be 'all' or among"),
        (("right.npz", "--truth", "t.npz", *FAST, "--rank-by", "nll"), "measure must be among"),
        (("right.npz", "--truth", "t.npz", "--estimator", "guess"), "estimator must be one of"),
        (("right.npz", "--truth", "t.npz", "-o", "no/such/folder.html"), "does not exist"),
        (("right.npz", "right.npz", "--truth", "t.npz"), "each file must be given once"),
        (("right.npz", "t.npz"), "missing option '--truth'"),
    ],
)
def test_errors_are_one_line(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
