"""The command line: every command, messy tables, exit codes, and what it says."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

import sevenhills
from sevenhills import compat, datasets
from sevenhills.cli.app import COMMANDS, app
from sevenhills.cli.array_files import npz_table
from sevenhills.cli.compare import _drawn
from sevenhills.cli.numbers import Notation
from sevenhills.cli.reading import read_table
from sevenhills.cli.samples import Choices, samples_of
from sevenhills.cli.tables import ColumnBuilder
from sevenhills.cli.text_files import Layout

NAMES = [command.__name__ for command in COMMANDS]
ANISO = datasets.load("aniso")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(*arguments, given=None):
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=given)


def done(*arguments, given=None):
    """Run a command that must succeed."""
    result = call(*arguments, given=given)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments, given=None):
    """Run a command that must be refused, and return the one line that says why."""
    result = call(*arguments, given=given)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert lines[-1].startswith("error: ")
    return lines[-1]


def start(*arguments, **options):
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "sevenhills.cli", *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def write_csv(path, X, names=("x", "y")):
    np.savetxt(path, X, delimiter=",", header=",".join(names), comments="")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two tables of one distribution, one of another, and a model of the first."""
    place = tmp_path_factory.mktemp("tables")
    for seed, name in enumerate(("first", "second")):
        write_csv(place / f"{name}.csv", ANISO.sample(150, random_state=seed))
    write_csv(place / "moved.csv", ANISO.sample(150, random_state=2) + np.array([3.0, 0.0]))
    done("fit", place / "first.csv", "-o", place / "model.sevenhills")
    return place


@pytest.fixture
def model(folder):
    return folder / "model.sevenhills"


# Help and start


@pytest.mark.parametrize("command", [[], *[[name] for name in NAMES]])
def test_help_has_examples_and_keeps_their_lines(command):
    text = done(*command, "--help").stdout
    examples = text.split("For example:\n")[1].split("\n\n")[0].splitlines()
    assert len(examples) >= 2
    for example in examples:
        assert re.match(r" {4}(sevenhills|cat) ", example)


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "sys.argv = ['sevenhills', 'fit', '--help']\n"
        "from sevenhills.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numpy', 'rich', 'scipy', 'sklearn', 'numba', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_shells_complete_commands(monkeypatch):
    # Which shell there is depends on what started the tests.
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    assert "complete" in done("--show-completion").stdout
    assert done("--version").stdout.strip() == sevenhills.__version__


def test_usage_errors_have_code_two(folder, model):
    assert refused("fit").lower().startswith("error: missing argument 'data'; see '")
    assert "Did you mean 'fit'?" in refused("fits")
    assert "'rom' is not one of 'rome'" in refused("fit", "x.csv", "-o", "m", "--mode", "rom")
    assert "'--number'" in refused("sample", model, "-n", "-3")
    assert "Commands:" in call().output


# Fit


def test_fit_saves_the_model_that_the_library_fits(folder, tmp_path):
    result = done("fit", folder / "first.csv", "-o", tmp_path / "m.sevenhills")
    assert "fitted 150 rows of 2 columns (x, y): 3 clusters" in result.stdout
    assert result.stderr == ""
    saved = sevenhills.load(tmp_path / "m.sevenhills")
    X = np.loadtxt(folder / "first.csv", delimiter=",", skiprows=1)
    assert_array_equal(saved.density_.logpdf(X), sevenhills.ROME().fit(X).density_.logpdf(X))
    assert saved.feature_names_in_.tolist() == ["x", "y"]
    assert saved.density_.feature_names == ("x", "y")
    assert_allclose(saved.density_.counts.sum(), 150)


def test_fit_tells_machines(folder, tmp_path):
    out = tmp_path / "m.sevenhills"
    found = json.loads(done("fit", folder / "first.csv", "-o", out, "--json").stdout)
    assert found == {
        "model": str(out),
        "mode": "rome",
        "data": str(folder / "first.csv"),
        "n_rows": 150,
        "columns": ["x", "y"],
        "left_out": {
            "text_columns": [],
            "empty_columns": [],
            "constant_columns": [],
            "rows_with_missing_values": 0,
            "duplicate_rows": 0,
        },
        "n_clusters": 3,
        "n_noise": 0,
        "resolution": {},
    }


@pytest.mark.parametrize("mode", ["auto", "kde", "kde-cv", "mpw", "gmm"])
def test_modes(mode, folder, tmp_path):
    out = tmp_path / "m.sevenhills"
    done("fit", folder / "first.csv", "-o", out, "--mode", mode)
    text = done("describe", out).stdout
    assert "mode" in text
    assert "Strongest correlations" in text
    score = json.loads(done("score", out, folder / "second.csv", "--mean", "--json").stdout)
    assert -4 < score["mean_log_density"] < -2


def test_options_of_the_recipe(folder, tmp_path):
    out = tmp_path / "m.sevenhills"
    done("fit", folder / "first.csv", "-o", out, "--min-std", "0.5", "--selection", "none")
    saved = sevenhills.load(out)
    assert saved.min_std == 0.5
    assert saved.selection is None
    done("fit", folder / "first.csv", "-o", out, "--density", "gaussian", "--jobs", "2")
    assert sevenhills.load(out).n_jobs == 2
    line = refused("fit", folder / "first.csv", "-o", out, "--mode", "gmm", "--min-std", "1")
    assert line == "error: --min-std has no meaning with --mode gmm"
    line = refused("fit", folder / "first.csv", "-o", out, "--min-std", "wide")
    assert line == "error: --min-std must be a number or auto, got 'wide'"


def test_weights_are_repetitions(tmp_path):
    X = ANISO.sample(60, random_state=0)
    weights = np.arange(60) % 3 + 1
    write_csv(tmp_path / "w.csv", np.column_stack([X, weights]), ("x", "y", "n"))
    write_csv(tmp_path / "r.csv", np.repeat(X, weights, axis=0))
    done("fit", tmp_path / "w.csv", "-o", tmp_path / "w.sevenhills", "--weights", "n")
    result = done("fit", tmp_path / "r.csv", "-o", tmp_path / "r.sevenhills")
    assert "60 rows repeat others and count all the same" in result.stderr
    means = [
        json.loads(done("score", tmp_path / name, tmp_path / "w.csv", "--json").stdout)
        for name in ("w.sevenhills", "r.sevenhills")
    ]
    assert_allclose(means[0]["log_densities"], means[1]["log_densities"], rtol=1e-9)


def test_a_failed_fit_leaves_the_old_model(folder, model, tmp_path):
    out = tmp_path / "m.sevenhills"
    out.write_bytes(model.read_bytes())
    refused("fit", folder / "first.csv", "-o", out, "--columns", "z")
    assert out.read_bytes() == model.read_bytes()
    assert "folder" in refused("fit", folder / "first.csv", "-o", tmp_path)
    assert "does not exist" in refused("fit", folder / "first.csv", "-o", tmp_path / "no" / "m")
    assert "file name" in refused("fit", folder / "first.csv", "-o", "-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.sevenhills"]


# Score and sample


def test_scores_are_those_of_the_model_in_every_format(folder, model, tmp_path):
    X = np.loadtxt(folder / "second.csv", delimiter=",", skiprows=1)
    expected = sevenhills.load(model).density_.logpdf(X)
    text = done("score", model, folder / "second.csv").stdout
    assert text.startswith("log_density\n")
    assert_array_equal(np.loadtxt(io.StringIO(text), skiprows=1), expected)
    for suffix in ("csv", "npy", "parquet", "jsonl"):
        out = tmp_path / f"scores.{suffix}"
        assert done("score", model, folder / "second.csv", "-o", out).stdout == ""
        (column,) = read_table(str(out)).columns
        assert_array_equal(column.values, expected)
    piped = done("score", model, folder / "second.csv", "--format", "npy").stdout_bytes
    assert_array_equal(np.load(io.BytesIO(piped))[:, 0], expected)


def test_the_mean_with_its_error(folder, model):
    found = json.loads(done("score", model, folder / "second.csv", "--mean", "--json").stdout)
    assert set(found) == {"n_rows", "n_scored", "mean_log_density", "std_error"}
    text = done("score", model, folder / "second.csv", "--mean").stdout
    assert f"{found['mean_log_density']:.2f}" in text
    assert "150 rows" in text


def test_columns_are_found_by_name_or_taken_by_position(folder, model, tmp_path):
    expected = json.loads(done("score", model, folder / "second.csv", "--json").stdout)
    X = np.loadtxt(folder / "second.csv", delimiter=",", skiprows=1)
    mixed = write_csv(
        tmp_path / "mixed.csv", np.column_stack([X[:, 1], X[:, 0], X[:, 0]]), ("y", "other", "x")
    )
    result = done("score", model, mixed, "--json")
    assert "not used, because the model does not know them: other" in result.stderr
    assert json.loads(result.stdout) == expected
    np.save(tmp_path / "plain.npy", X)
    assert json.loads(done("score", model, tmp_path / "plain.npy", "--json").stdout) == expected
    np.save(tmp_path / "wide.npy", np.column_stack([X, X]))
    assert "4 columns of numbers, but the model 2: x, y" in refused(
        "score", model, tmp_path / "wide.npy"
    )
    write_csv(tmp_path / "other.csv", X, ("a", "y"))
    assert "lacks column x of the model; it has a, y" in refused(
        "score", model, tmp_path / "other.csv"
    )


def test_columns_of_words_are_passed_over_by_position(model, tmp_path):
    X = ANISO.sample(3, random_state=7)
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{x},name {i},{y}\n" for i, (x, y) in enumerate(X.tolist())))
    found = json.loads(done("score", model, path, "--no-header", "--json").stdout)
    assert_array_equal(found["log_densities"], sevenhills.load(model).density_.logpdf(X))
    path.write_text("".join(f"{x},name {i}\n" for i, (x, _) in enumerate(X.tolist())))
    result = done("score", model, path, "--no-header")
    assert "column x1: 3 words taken as missing, the first is 'name 0' in row 1" in result.stderr


def test_missing_values_in_scores(model, tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("x,y\n1,2\n,2\n1,tall\n,\n1e999,2\n0,0\n")
    result = done("score", model, path)
    assert [bool(line.strip('"')) for line in result.stdout.splitlines()[1:]] == [
        True, False, False, False, False, True,
    ]  # fmt: skip
    assert "column y: 1 word taken as missing, the first is 'tall' in row 3" in result.stderr
    assert "4 of 6 rows have missing or infinite values" in result.stderr
    values = json.loads(done("score", model, path, "--missing", "marginal", "--json").stdout)
    density = sevenhills.load(model).density_
    assert_allclose(values["log_densities"][1], density.marginal("y").logpdf([[2.0]])[0])
    assert_allclose(values["log_densities"][2], density.marginal("x").logpdf([[1.0]])[0])
    assert values["log_densities"][3] is None
    assert values["n_scored"] == 5
    assert "row 2 has a missing" in refused("score", model, path, "--missing", "error")


def test_samples_are_those_of_the_model(model, tmp_path):
    expected = sevenhills.load(model).density_.sample(7, random_state=3)
    text = done("sample", model, "-n", 7, "--seed", 3).stdout
    assert text.startswith("x,y\n")
    assert_array_equal(np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1), expected)
    found = json.loads(done("sample", model, "-n", 7, "--seed", 3, "--json").stdout)
    assert found == {"columns": ["x", "y"], "n_rows": 7, "rows": expected.tolist()}
    out = tmp_path / "draws.parquet"
    summary = json.loads(done("sample", model, "-n", 7, "--seed", 3, "-o", out, "--json").stdout)
    assert summary == {"columns": ["x", "y"], "n_rows": 7}
    assert read_table(str(out)).names == ["x", "y"]
    assert done("sample", model, "-n", 0).stdout == "x,y\n"
    assert "must end with .csv" in refused("sample", model, "-o", tmp_path / "draws.xlsx")


def test_models_from_the_library(folder, tmp_path):
    X = np.loadtxt(folder / "first.csv", delimiter=",", skiprows=1)
    for name, value in {
        "compat": compat.ROME(min_std=0.1).fit(X),
        "knn": sevenhills.ROME(density="knn").fit(X),
        "mixture": sevenhills.ROME().fit(X).density_,
    }.items():
        sevenhills.save(value, tmp_path / name)
        assert "x0, x1" in done("describe", tmp_path / name).stdout
        done("score", tmp_path / name, folder / "second.csv", "--mean")
    assert "does not integrate to one" in done("describe", tmp_path / "knn").stdout
    assert "cannot" in refused("sample", tmp_path / "knn")
    assert "integrates to one" in refused(
        "outliers", folder / "first.csv", "--model", tmp_path / "knn"
    )
    assert "mixture of kernels" in refused(
        "score", tmp_path / "knn", "-", "--missing", "marginal", given="x,y\n1,\n1,2\n"
    )


# Describe and outliers


def test_describe(model):
    text = done("describe", model).stdout
    for part in ("ROME of 2 columns: x, y", "Chosen by", "3 modes that stand out", "cluster 2:"):
        assert part in text
    found = json.loads(done("describe", model, "--json").stdout)
    assert list(found) == [
        "model", "kind", "columns", "normalized", "resolution", "clusters", "choice", "modes",
        "correlations",
    ]  # fmt: skip
    assert [set(each) for each in found["clusters"]] == [{"label", "n_rows", "share", "mean"}] * 3
    assert set(found["choice"]["chosen"]) == {
        "rule", "parameter", "n_cuts", "n_clusters", "noise_share", "score", "error",
    }  # fmt: skip
    assert found["choice"]["chosen"]["score"] >= found["choice"]["next_best"][0]["score"]
    rome = sevenhills.load(model)
    for label, matrix in found["correlations"]["within_clusters"].items():
        truth = rome.clusters_[int(label)]
        assert_allclose(np.diag(matrix), 1.0)
        assert matrix[0][1] < -0.8
        assert_allclose(list(found["clusters"][int(label)]["mean"].values()), truth.mean)


def test_outliers(folder, model, tmp_path):
    X = ANISO.sample(150, random_state=5)
    X[[4, 40]] = [[30.0, 30.0], [0.0, 8.0]]
    path = write_csv(tmp_path / "odd.csv", X)
    detector = sevenhills.DensityOutlierDetector().fit(X)
    result = done("outliers", path)
    lines = result.stdout.splitlines()
    assert lines[0] == "row,log_density,p_value,x,y"
    assert lines[1].startswith("5,")
    expected = set(np.flatnonzero(detector.predict(X) < 0) + 1)
    assert {int(line.split(",")[0]) for line in lines[1:]} == expected
    assert f"{len(expected)} of 150 rows are outliers" in result.stderr
    found = json.loads(done("outliers", path, "--contamination", "0.02", "--json").stdout)
    assert found["n_outliers"] == 3
    assert set(found["rows"][0]) == {"row", "outlier", "log_density", "p_value", "values"}
    assert found["rows"][0]["values"] == {"x": 30.0, "y": 30.0}
    every = done("outliers", path, "--all", "--p-value", "0.01").stdout.splitlines()
    assert every[0] == "row,outlier,log_density,p_value,x,y"
    assert [int(line.split(",")[0]) for line in every[1:]] == list(range(1, 151))
    by_model = json.loads(done("outliers", path, "--model", model, "--json").stdout)
    assert [row["row"] for row in by_model["rows"]][:2] == [5, 41]
    assert all(1 / 10_001 <= row["p_value"] < 0.01 for row in by_model["rows"])
    assert "no meaning with --model" in refused(
        "outliers", path, "--model", model, "--contamination", "0.1"
    )


# Compare


def test_compare_tells_same_from_different(folder):
    quick = ["--permutations", 19, "--alpha", 0.2]
    same = done("compare", folder / "first.csv", folder / "second.csv", *quick)
    assert "no difference found" in same.stdout
    shuffles = [int(line.split()[-1]) for line in same.stdout.splitlines()[2:5]]
    assert shuffles[0] == 19
    assert min(shuffles[1:]) < 19  # equal tables are soon known as such
    other = call("compare", folder / "first.csv", folder / "moved.csv", *quick, "--json")
    assert other.exit_code == 1
    found = json.loads(other.stdout)
    assert list(found) == [
        "a", "b", "columns", "units", "n_permutations", "tests", "p_value", "alpha", "different",
    ]  # fmt: skip
    assert found["different"] is True
    assert [each["name"] for each in found["tests"]] == ["energy", "wasserstein", "divergence"]
    assert found["p_value"] == pytest.approx(3 / 20)


def test_compare_in_data_units_of_a_part_of_the_rows(folder):
    arguments = ["--tests", "energy", "--units", "data", "--max-rows", "100", "--json"]
    result = call("compare", folder / "first.csv", folder / "moved.csv", *arguments)
    found = json.loads(result.stdout)
    assert found["a"] == {
        "data": str(folder / "first.csv"), "n_rows": 150, "n_compared": 100,
    }  # fmt: skip
    assert "100 of 150 rows drawn" in result.stderr
    X, Y = (np.loadtxt(folder / f"{n}.csv", delimiter=",", skiprows=1) for n in ("first", "moved"))
    whole = call("compare", folder / "first.csv", folder / "moved.csv", *arguments[:4], "--json")
    expected = sevenhills.metrics.energy_distance(X, Y)
    assert json.loads(whole.stdout)["tests"][0]["statistic"] == pytest.approx(expected)


def test_compare_takes_what_both_have(folder, tmp_path):
    X = ANISO.sample(40, random_state=0)
    a = write_csv(tmp_path / "a.csv", np.column_stack([X, X[:, 0]]), ("x", "y", "extra"))
    b = write_csv(tmp_path / "b.csv", X[:, ::-1], ("y", "x"))
    result = done("compare", a, b, "--tests", "energy", "--json")
    assert "only one of the tables has them: extra" in result.stderr
    (test,) = json.loads(result.stdout)["tests"]
    assert test == {
        "name": "energy", "statistic": pytest.approx(0, abs=1e-12), "p_value": 1.0,
        "n_permutations": 999,
    }  # fmt: skip
    np.save(tmp_path / "c.npy", X)
    assert "not both have names" in refused("compare", a, tmp_path / "c.npy")
    write_csv(tmp_path / "d.csv", X, ("u", "v"))
    assert "no column of numbers in common" in refused("compare", a, tmp_path / "d.csv")
    assert "standard input" in refused("compare", "-", "-")
    assert "different ones of energy" in refused("compare", a, b, "--tests", "energie")
    assert "it takes --permutations 3000" in refused("compare", a, b, "--alpha", "0.001")


def test_what_is_not_compared_is_listed_in_order(tmp_path):
    X = np.random.RandomState(0).standard_normal((20, 6))
    a = write_csv(tmp_path / "a.csv", X, ("x", "f", "b", "d", "e", "c"))
    b = write_csv(tmp_path / "b.csv", X[:, :2], ("x", "a"))
    result = done("compare", a, b, "--tests", "energy")
    assert "only one of the tables has them: a, b, c, d, e and 1 more" in result.stderr


def test_drawn_rows_keep_their_order():
    table = types.SimpleNamespace(source="t.csv")
    rows = _drawn(table, np.arange(40.0)[:, None], 25, seed=0)[:, 0]
    assert len(rows) == 25
    assert (np.diff(rows) > 0).all()


def test_a_constant_of_one_table_may_be_another_in_the_other(tmp_path):
    X = ANISO.sample(40, random_state=0)
    a = write_csv(tmp_path / "a.csv", np.column_stack([X, np.zeros(40)]), ("x", "y", "site"))
    b = write_csv(tmp_path / "b.csv", np.column_stack([X, np.ones(40)]), ("x", "y", "site"))
    assert call("compare", a, b, "--tests", "energy").exit_code == 1
    result = done("compare", a, a, "--tests", "energy")
    assert "not compared, because they have one value only: site" in result.stderr
    assert "nothing to compare" in refused("compare", a, a, "--columns", "site")


def test_compare_without_pot(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    quick = ["--permutations", 19, "--alpha", 0.2]
    result = done("compare", folder / "first.csv", folder / "second.csv", *quick)
    assert "pip install 'sevenhills[ot]'" in result.stderr
    assert "Wasserstein distance  " not in result.stdout
    assert "sevenhills[ot]" in refused(
        "compare", folder / "first.csv", folder / "second.csv", "--tests", "wasserstein"
    )


# Report and demo


@pytest.fixture
def reports(monkeypatch):
    """Stand in for the package that writes reports, and return what it is given."""
    given = []

    def report(model, path, *, X=None, title=None, rows=(), notes=()):
        assert len(rows) == (0 if X is None else len(X))
        given.append((type(model).__name__, None if X is None else X.shape, title))
        Path(path).write_text("page", encoding="utf-8")

    stand_in = types.ModuleType("sevenhills.report")
    stand_in.report = report
    monkeypatch.setitem(sys.modules, "sevenhills.report", stand_in)
    return given


def test_report(reports, folder, model, tmp_path):
    out = tmp_path / "page.html"
    assert f"wrote {out}" in done("report", folder / "first.csv", "-o", out).stdout
    done("report", model, "-o", out, "--title", "Two words")
    found = json.loads(
        done("report", model, "--data", folder / "first.csv", "-o", out, "--json").stdout
    )
    assert found == {"report": str(out), "n_rows": 150}
    assert reports == [
        ("ROME", (150, 2), None), ("ROME", None, "Two words"), ("ROME", (150, 2), None),
    ]  # fmt: skip
    assert "must end with .html" in refused("report", model, "-o", tmp_path / "page")
    assert "belongs to a model" in refused(
        "report", folder / "first.csv", "--data", folder / "first.csv", "-o", out
    )


def test_a_report_names_rows_as_the_table_does(tmp_path):
    lines = ["x,y,name", "1,,a", *(f"{a},{b},b" for a, b in ANISO.sample(40, random_state=0))]
    (tmp_path / "t.csv").write_text("\n".join([*lines, "90,90,c", ""]), encoding="utf-8")
    done("report", tmp_path / "t.csv", "-o", tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert ">42</button>" in page  # the last row of the table, though the first was left out
    assert "left out column name" in page


def test_what_cannot_be_written_is_named(folder, tmp_path, monkeypatch):
    for output in (["fit", "-o", tmp_path / "m"], ["report", "-o", tmp_path / "r.html"]):
        command, *rest = output
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert "cannot be written" in refused(command, folder / "first.csv", *rest)
    monkeypatch.undo()
    said = refused("report", folder / "first.csv", "-o", tmp_path)
    assert "is a folder" in said


def test_a_report_needs_the_data_of_its_model(folder, model, tmp_path):
    said = refused("report", model, "--data", folder / "second.csv", "-o", tmp_path / "t.html")
    assert "does not hold the rows that" in said
    assert not (tmp_path / "t.html").exists()


@pytest.mark.whole
def test_demo_writes_tables_and_pictures(tmp_path, monkeypatch):
    found = done("demo", tmp_path / "tour")
    assert "wrote 3,000 rows" in found.stderr
    assert "3 clusters" in found.stdout
    assert "5 clusters" in found.stdout
    for name in ("aniso", "trajectories"):
        assert (tmp_path / "tour" / f"{name}.png").stat().st_size > 20_000
    train, test = ANISO.split(run=0)
    for name, rows in (("aniso.csv", train), ("aniso_new.csv", test)):
        found = samples_of(read_table(str(tmp_path / "tour" / name)), Choices())
        assert_array_equal(found.X, rows)
        assert found.names == ["x", "y"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "no pictures: the pictures need matplotlib" in done("demo", tmp_path).stderr


# Messy tables


MESSY = "\ufeff" + "\n".join(
    [
        "# exported on Monday",
        "",
        "name;height;weight;site;note;income;age",
        *(
            f'"Anna; {i}";1,{50 + i};{50 + i * 7 % 40},5;7;;"{i % 5 + 1}.{i * 37:03},00";'
            + ("n/a" if i == 3 else str(20 + i))
            for i in range(27)
        ),
        'Zoe;tall;60,5;7;;"2.100,00";44',
        'Zoë;1,71;60,5;7;;"2.100,00";44',
        'Zoë;1,71;60,5;7;;"2.100,00";44',
        "",
    ]
)


def test_a_messy_table(tmp_path):
    path = tmp_path / "messy.csv"
    path.write_text(MESSY, encoding="utf-8")
    result = done("fit", path, "-o", tmp_path / "m.sevenhills", "--json")
    found = json.loads(result.stdout)
    assert found["columns"] == ["weight", "income", "age"]
    assert found["left_out"] == {
        "text_columns": ["name", "height"],
        "empty_columns": ["note"],
        "constant_columns": ["site"],
        "rows_with_missing_values": 1,
        "duplicate_rows": 0,
    }
    for remark in (
        "messy.csv has decimal commas",
        "left out column name: it holds no numbers, but 'Anna; 0' in row 1",
        "left out column height: 1 of its 30 values is no number, first 'tall' in row 28",
        "left out column note: no values",
        "left out column site (7): one value only",
        "left out 1 of 30 rows with missing or infinite values, in age (1)",
        "2 rows repeat others and count all the same",
    ):
        assert remark in result.stderr
    strict = done(
        "fit", path, "-o", tmp_path / "m.sevenhills", "--text", "missing", "--duplicates", "drop"
    )
    assert "column height: 1 word taken as missing" in strict.stderr
    assert "left out 1 row that repeats others" in strict.stderr
    assert "4 columns (height, weight, income, age)" in strict.stdout
    for option, words in (
        (["--text", "error"], "column 'name' is not of numbers"),
        (["--missing", "error"], "1 of 30 rows have missing or infinite values, first row 4"),
        (["--constant", "error"], "columns with one value only: site (7)"),
        (["--columns", "name"], "column 'name' is not of numbers"),
        (["--columns", "wieght"], "did you mean 'weight'?"),
        (["--columns", "zzz"], "it has name, height"),
        (["--columns", "age,age"], "different columns"),
        (["--separator", "::"], "--separator must be one character"),
    ):
        assert words in refused("fit", path, "-o", tmp_path / "m", *option)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a,b\n1,2\n3,4\n", {"a": [1, 3], "b": [2, 4]}),
        ("a;b\n1,5;2\n3,25;4\n", {"a": [1.5, 3.25], "b": [2, 4]}),
        ("a\tb\r\n1\t2\r\n3\t4", {"a": [1, 3], "b": [2, 4]}),
        ("a|b\n1|2\n3|4\n", {"a": [1, 3], "b": [2, 4]}),
        ("  a   b\n  1   2\n 30   4\n", {"a": [1, 30], "b": [2, 4]}),
        ("a\n1,5\n2,5\n", {"a": [1.5, 2.5]}),
        ("a\n1.5\n2.5\n", {"a": [1.5, 2.5]}),
        ('a,b\n"1,5","2"\n"2,5","3"\n', {"a": [1.5, 2.5], "b": [2, 3]}),
        ('a,b\n"1,234.5",1\n"2,000",2\n', {"a": [1234.5, 2000], "b": [1, 2]}),
        ("a;b\n1.234,5;1\n2.000;2\n", {"a": [1234.5, 2000], "b": [1, 2]}),
        ("a;b\n1,234;1\n2,500;2\n", {"a": [1.234, 2.5], "b": [1, 2]}),
        ('"a","b"\n"1"," 2 "\n"3","4"\n', {"a": [1, 3], "b": [2, 4]}),
        ("1,2\n3,4\n", {"x0": [1, 3], "x1": [2, 4]}),
        ("anna,1\nbob,2\n", {"x0": [np.nan, np.nan], "x1": [1, 2]}),
        ("a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4], "x2": [np.nan, np.nan]}),
        ("a,b\n1,2\n3\n", {"a": [1, 3], "b": [2, np.nan]}),
        ("a,a,a\n1,2,3\n", {"a": [1], "a_2": [2], "a_3": [3]}),
        ("a,b\n\n1,2\n\n3,4\n\n", {"a": [1, 3], "b": [2, 4]}),
        ("# made by hand\na,b\n1,2\n", {"a": [1], "b": [2]}),
        ("a,b\nNA,-\n?,NULL\n1,2\n", {"a": [np.nan, np.nan, 1], "b": [np.nan, np.nan, 2]}),
        ("a,b\n1e3,\N{MINUS SIGN}5\n+2,.5\n", {"a": [1000, 2], "b": [-5, 0.5]}),
        ("2019,2020\n1,2\n", {"x0": [2019, 1], "x1": [2020, 2]}),
        ('a,b\n1,"two\nlines"\n2,x\n', {"a": [1, 2], "b": [np.nan, np.nan]}),
        ("a,b\n1_0,2\n", {"a": [np.nan], "b": [2]}),
    ],
)
def test_dialects(tmp_path, text, columns):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    table = read_table(str(path))
    assert table.names == list(columns)
    for column, expected in zip(table.columns, columns.values(), strict=True):
        assert_array_equal(column.values, expected)


def test_what_cannot_be_told_is_not_guessed(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('a,b\n"1,234",1\n"2,500",2\n"3,100",5\n')
    result = done("fit", path, "-o", tmp_path / "m", "--min-std", "1")
    assert "'1,234' in row 1; --decimal says what the mark in it means" in result.stderr
    for mark, expected in ((".", [1234, 2500, 3100]), (",", [1.234, 2.5, 3.1])):
        column = read_table(str(path), Layout(decimal=mark)).columns[0]
        assert_array_equal(column.values, expected)


def test_headers_and_separators_as_told(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("2019,2020\n1,2\n")
    assert read_table(str(path), Layout(header=True)).names == ["2019", "2020"]
    table = read_table(str(path), Layout(separator=";", header=False))
    assert table.columns[0].n_words == 0
    assert_array_equal(table.columns[0].values, [2019.202, 1.2])
    assert Layout(separator="tab").separator == "\t"
    path.write_text("x y\n1 2\n")
    assert read_table(str(path), Layout(separator="space")).names == ["x", "y"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path, encoding):
    path = tmp_path / "table.csv"
    path.write_text("größe,höhe\n1,2\n3,4\n", encoding=encoding)
    table = read_table(str(path))
    assert table.names == ["größe", "höhe"]
    assert any("Windows-1252" in remark for remark in table.remarks) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "has a header but no rows"),
        (b"name,town\nanna,rome\n", "has no column of numbers; there is 'anna' in row 1"),
        (b"a,b\n1,2\n1,2,3\n", "row 2 has 3 cells, but the header has 2; is the --separator"),
        (b"a,b\n1,\n,2\n", "every row has a missing value, in a (1), b (1)"),
        (b"a,b\n1,2\n1,2\n", "every column has one value only: a (1), b (2)"),
        (b"\x00\x01\x02", "is not text; known are csv"),
        (b"\x93NUMPY\x01", "cannot be read"),
        (b"PAR1abc", "cannot be read"),
        (b"PKabc", "cannot be read"),
        (b'{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        (b'{"a": 1}\n[1]\n', "every line must be an object"),
        (b"[1, 2]\n[1]\n", "not equally long"),
    ],
)
def test_bad_tables_are_one_line(content, message, tmp_path):
    assert message in refused("fit", "-", "-o", tmp_path / "m", given=content)
    assert not (tmp_path / "m").exists()


def test_bad_paths_are_one_line(model, tmp_path):
    assert "nothing.csv: No such file" in refused("fit", "nothing.csv", "-o", tmp_path / "m")
    assert "is a folder" in refused("fit", tmp_path, "-o", tmp_path / "m")
    assert "is a model, but data" in refused("fit", model, "-o", tmp_path / "m")
    assert "is no model; `sevenhills fit` makes one" in refused("describe", __file__)
    assert "No such file" in refused("sample", tmp_path / "gone")


def test_all_formats_hold_the_same_table(tmp_path):
    import pyarrow
    import pyarrow.parquet

    X = ANISO.sample(9, random_state=0)
    rows = [dict(zip("ab", row, strict=True)) for row in X.tolist()]
    write_csv(tmp_path / "t.csv", X, "ab")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    np.save(tmp_path / "t.npy", X)
    np.savez(tmp_path / "t.npz", a=X[:, 0], b=X[:, 1])
    np.savez(tmp_path / "big.npz", X=X, other=np.zeros(3))
    np.save(tmp_path / "records.npy", np.rec.fromarrays(X.T, names="a,b"))
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "t.json").write_text(json.dumps(rows))
    (tmp_path / "lists.jsonl").write_text("\n".join(json.dumps(row) for row in X.tolist()))
    pyarrow.parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "t.parquet")
    for path in tmp_path.iterdir():
        table = read_table(str(path))
        assert_array_equal(np.stack([column.values for column in table.columns], axis=1), X)
        assert table.names == (["a", "b"] if table.has_names else ["x0", "x1"])
        given = done("fit", "-", "-o", tmp_path.parent / "m", given=path.read_bytes())
        assert "fitted 9 rows of 2 columns" in given.stdout


def test_columns_of_parquet_and_json_that_are_no_numbers(tmp_path):
    import datetime
    import decimal

    import pyarrow
    import pyarrow.parquet

    content = {
        "whole": [1, None, 3],
        "money": [decimal.Decimal("1.50"), decimal.Decimal("2.25"), None],
        "flag": [True, False, True],
        "day": [datetime.date(2024, 1, 1)] * 3,
        "word": ["a", "b", "c"],
        "quoted": ["1.5", "2", "3"],
    }
    pyarrow.parquet.write_table(pyarrow.table(content), tmp_path / "t.parquet")
    found = {column.name: column for column in read_table(str(tmp_path / "t.parquet")).columns}
    assert_array_equal(found["whole"].values, [1, np.nan, 3])
    assert_array_equal(found["money"].values, [1.5, 2.25, np.nan])
    assert_array_equal(found["quoted"].values, [1.5, 2, 3])
    assert [found[name].n_words for name in ("flag", "day", "word")] == [3, 3, 3]
    (tmp_path / "t.jsonl").write_text('{"a": 1, "b": true}\n{"a": null, "c": [1]}\n')
    a, b, c = read_table(str(tmp_path / "t.jsonl")).columns
    assert_array_equal(a.values, [1, np.nan])
    assert (b.n_words, c.n_words) == (1, 1)


def test_archives_that_are_not_one_table():
    file = io.BytesIO()
    np.savez(file, a=np.zeros(3), b=np.zeros(4))
    file.seek(0)
    with pytest.raises(ValueError, match="holds the arrays a, b"):
        npz_table(file, "it")
    file = io.BytesIO()
    np.save(file, np.zeros((2, 2, 2)))
    line = refused("fit", "-", "-o", "m", given=file.getvalue())
    assert "must hold rows and columns, but has shape (2, 2, 2)" in line


def test_without_pyarrow_parquet_names_the_extra(monkeypatch, tmp_path, model):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "sevenhills[parquet]" in refused("fit", "-", "-o", tmp_path / "m", given=b"PAR1")
    assert "sevenhills[parquet]" in refused("sample", model, "-o", tmp_path / "draws.parquet")
    assert list(tmp_path.iterdir()) == []


def test_thousands_of_columns(tmp_path):
    X = np.random.RandomState(0).standard_normal((5, 3000)).round(3)
    path = write_csv(tmp_path / "wide.csv", X, [f"c{i}" for i in range(3000)])
    found = samples_of(read_table(str(path)), Choices())
    assert_array_equal(found.X, X)
    words = [",".join(f"c{i}" for i in range(3000)), *[",".join(["w", "1"] * 1500)] * 3]
    path.write_text("\n".join(words))
    line = refused("fit", path, "-o", tmp_path / "m")
    assert len(line) < 300


def test_long_tables_are_read_in_blocks(tmp_path):
    X = np.random.RandomState(0).standard_normal((9001, 2)).round(6)
    path = write_csv(tmp_path / "long.csv", X)
    with open(path, "a") as file:
        file.write("1.5,word\n")
    x, y = read_table(str(path)).columns
    assert_array_equal(x.values, [*X[:, 0], 1.5])
    assert y.example == "'word' in row 9002"


def test_fast_and_slow_conversions_agree():
    cells = ["1", " 2.5 ", "1e-3", "-inf", "nan", "", "NA", "word", "1_0", "+7", "0x1", "1,5"]
    for size in (1, 2, len(cells)):
        for mark in (None, "."):
            fast, slow = ColumnBuilder(Notation(mark)), ColumnBuilder(Notation(mark))
            for begin in range(0, len(cells), size):
                part = cells[begin : begin + size]
                fast.add(part)
                slow.pieces.append(slow._slow(part))
                slow.n_rows += len(part)
            one, other = fast.build("a"), slow.build("a")
            assert_array_equal(one.values, other.values)
            assert (one.n_words, one.example) == (other.n_words, other.example)


# How it ends


def test_standard_input_and_output_of_a_process(folder, model):
    process = start("score", model, "-")
    out, errors = process.communicate((folder / "second.csv").read_bytes())
    assert process.returncode == 0
    assert errors == b""
    assert out.count(b"\n") == 151


def test_a_broken_pipe_ends_quietly(model):
    process = start("sample", model, "-n", "200000")
    assert process.stdout.readline().strip() == b"x,y"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.communicate()
    assert process.returncode == 141


def test_errors_of_a_process(tmp_path):
    process = start("fit", tmp_path / "none.csv", "-o", tmp_path / "m")
    out, errors = process.communicate()
    assert process.returncode == 2
    assert out == b""
    assert errors.decode().splitlines() == [
        f"error: {tmp_path / 'none.csv'}: No such file or directory"
    ]


def failing(monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("sevenhills.cli.reading.read_table", fail)
    return call("fit", "x.csv", "-o", "m")


def test_interrupted(monkeypatch):
    result = failing(monkeypatch, KeyboardInterrupt())
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def test_a_bug_is_told_from_bad_input(monkeypatch):
    result = failing(monkeypatch, KeyError("lost"))
    assert result.exit_code == 3
    assert result.stderr == (
        "error of sevenhills itself: KeyError: 'lost'; 'sevenhills --debug ...' shows where\n"
    )


def test_debug_shows_the_traceback():
    result = call("--debug", "fit", "none.csv", "-o", "m")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "Traceback" not in call("fit", "none.csv", "-o", "m").stderr


def test_warnings_are_one_line(monkeypatch, model, folder):
    def warned(*_):
        warnings.warn("this is\nodd", UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        raise ValueError("two\nlines")

    monkeypatch.setattr("sevenhills.cli.reading.read_table", warned)
    result = call("fit", "x.csv", "-o", "m")
    assert result.stderr == "warning: this is odd\nerror: two lines\n"


def test_outputs_are_replaced_whole(model, tmp_path, monkeypatch):
    out = tmp_path / "draws.csv"
    out.write_text("old")

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.fsync", fail)
    assert "the disk is full" in refused("sample", model, "-o", out)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev/null")
def test_what_is_no_file_is_not_replaced(model):
    null = Path("/dev/null")
    done("sample", model, "-o", null, "--format", "csv")
    assert null.is_char_device()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev/stdout")
def test_a_shell_appends(model, tmp_path):
    out = tmp_path / "all.csv"
    out.write_text("old\n")
    command = f"{sys.executable} -m sevenhills.cli sample {model} -n 2 -o /dev/stdout --format csv"
    script = f"{{ echo head; {command}; echo tail; }} >> {out}"
    subprocess.run(["sh", "-c", script], check=True, stderr=subprocess.DEVNULL)
    lines = out.read_text().splitlines()
    assert (lines[:3], len(lines), lines[-1]) == (["old", "head", "x,y"], 6, "tail")


def test_outputs_are_checked_before_anything_is_computed(folder, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("something was computed")

    for name in ("sevenhills.cli.reading.read_table", "sevenhills.forecast.evaluate"):
        monkeypatch.setattr(name, fail)
    gone = tmp_path / "gone" / "x"
    data = folder / "first.csv"
    for arguments in (
        ["fit", data, "-o", gone],
        ["report", data, "-o", f"{gone}.html"],
        ["outliers", data, "-o", f"{gone}.csv"],
        ["forecast", data, data, "-o", f"{gone}.html"],
        ["forecast", data, data, "--parquet", f"{gone}.parquet"],
    ):
        assert "gone does not exist" in refused(*arguments)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    out = tmp_path / "x.parquet"
    assert "sevenhills[parquet]" in refused("outliers", data, "-o", out)
    assert "sevenhills[parquet]" in refused("forecast", data, data, "--parquet", out)


def test_progress_is_shown_on_terminals_only(monkeypatch, capsys):
    from sevenhills.cli.screen import working

    with working("counting") as tell:
        tell("sheep", 0.5)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with working("counting") as tell:
        tell("sheep", 0.5)
