"""The commands describe, score and sample."""

import io
import json

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import sevenhills
from sevenhills.cli.table_files import read_table

from .runner import ANISO, done, refused, write_csv


def test_describe(model):
    text = done("describe", model).stdout
    for part in ("ROME of 2 columns: x, y", "Chosen by", "3 modes", "cluster 2:"):
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


def test_scores_are_those_of_the_model_in_every_format(folder, model, tmp_path):
    X = np.loadtxt(folder / "second.csv", delimiter=",", skiprows=1)
    expected = sevenhills.load(model).density_.logpdf(X)
    text = done("score", model, folder / "second.csv").stdout
    assert text.startswith("log_density\n")
    assert_array_equal(np.loadtxt(io.StringIO(text), skiprows=1), expected)
    for suffix in ("csv", "npy", "parquet", "jsonl"):
        out = tmp_path / f"scores.{suffix}"
        assert done("score", model, folder / "second.csv", "-o", out).stdout == ""
        assert_array_equal(read_table(str(out)).frame.iloc[:, 0], expected)
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
    assert "not used, because the model does not have them: other" in result.stderr
    assert json.loads(result.stdout) == expected
    np.save(tmp_path / "plain.npy", X)
    assert json.loads(done("score", model, tmp_path / "plain.npy", "--json").stdout) == expected
    np.save(tmp_path / "wide.npy", np.column_stack([X, X]))
    assert "4 columns of numbers, but the model has 2: x, y" in refused(
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
    assert (
        "column x1: 3 words taken as missing: 'name 0', 'name 1', 'name 2'; first " in result.stderr
    )


def test_missing_values_in_scores(model, tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("x,y\n1,2\n,2\n1,tall\n,\n1e999,2\n0,0\n")
    result = done("score", model, path)
    assert [bool(line.strip('"')) for line in result.stdout.splitlines()[1:]] == [
        True, False, False, False, False, True,
    ]  # fmt: skip
    assert "column y: 1 word taken as missing: 'tall' in row 3" in result.stderr
    assert "4 of 6 rows have missing or infinite values" in result.stderr
    values = json.loads(done("score", model, path, "--missing", "marginal", "--json").stdout)
    density = sevenhills.load(model).density_
    assert_allclose(values["log_densities"][1], density.marginal("y").logpdf([[2.0]])[0])
    assert_allclose(values["log_densities"][2], density.marginal("x").logpdf([[1.0]])[0])
    assert values["log_densities"][3] is None
    assert values["n_scored"] == 5
    assert "row 2 has a missing" in refused("score", model, path, "--missing", "raise")


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
