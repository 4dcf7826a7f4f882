"""The command fit."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sevenhills

from .runner import ANISO, done, refused, remarks, write_csv


def test_fit_saves_the_model_that_the_library_fits(folder, tmp_path):
    result = done("fit", folder / "first.csv", "-o", tmp_path / "m.sevenhills")
    assert remarks(result) == []
    saved = sevenhills.load(tmp_path / "m.sevenhills")
    X = np.loadtxt(folder / "first.csv", delimiter=",", skiprows=1)
    same = sevenhills.AutoROME().fit(X)
    assert_array_equal(saved.density_.logpdf(X), same.density_.logpdf(X))
    said = f"fitted 150 rows of 2 columns (x, y): {len(same.clusters_)} clusters"
    assert said in result.stdout
    assert saved.feature_names_in_.tolist() == ["x", "y"]
    assert saved.density_.feature_names == ("x", "y")
    assert_allclose(saved.density_.counts.sum(), 150)


def test_fit_tells_machines(folder, tmp_path):
    out = tmp_path / "m.sevenhills"
    options = ["--estimator", "rome", "--scale", "none", "--json"]
    found = json.loads(done("fit", folder / "first.csv", "-o", out, *options).stdout)
    assert found == {
        "model": str(out),
        "estimator": "rome",
        "estimator_reason": None,
        "data": str(folder / "first.csv"),
        "n_rows": 150,
        "columns": ["x", "y"],
        "left_out": {
            "text_columns": [],
            "identifier_columns": [],
            "empty_columns": [],
            "constant_columns": [],
            "unit_and_total_rows": 0,
            "rows_with_missing_values": 0,
            "duplicate_rows": 0,
        },
        "n_clusters": 3,
        "n_noise": 0,
        "resolution": {},
        "support": {},
    }


@pytest.mark.parametrize("estimator", ["auto", "kde", "kde_cv", "parzen", "gmm"])
def test_estimators(estimator, folder, tmp_path):
    out = tmp_path / "m.sevenhills"
    done("fit", folder / "first.csv", "-o", out, "--estimator", estimator)
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
    line = refused("fit", folder / "first.csv", "-o", out, "--estimator", "gmm", "--min-std", "1")
    assert line == "error: --min-std has no meaning with --estimator gmm"
    line = refused("fit", folder / "first.csv", "-o", out, "--min-std", "wide")
    assert line == "error: --min-std must be a number or auto, got 'wide'"


@pytest.mark.parametrize(
    ("estimator", "scales"), [("rome", ["auto", "std", "none"]), ("auto", ["none"])]
)
def test_scales(estimator, scales, folder, tmp_path):
    out, data = tmp_path / "m.sevenhills", folder / "first.csv"
    options = ["fit", data, "-o", out, "--estimator", estimator]
    done(*options)
    assert sevenhills.load(out).scale == "auto"
    for given in scales:
        done(*options, "--scale", given)
        assert sevenhills.load(out).scale == (None if given == "none" else given)


def test_scales_that_have_no_meaning(folder, tmp_path):
    out, data = tmp_path / "m.sevenhills", folder / "first.csv"
    line = refused("fit", data, "-o", out, "--estimator", "kde", "--scale", "std")
    assert line == "error: --scale has no meaning with --estimator kde"
    line = refused("fit", data, "-o", out, "--density", "knn", "--scale", "auto")
    assert "scale needs a mixture of kernels" in line
    done("fit", data, "-o", out, "--density", "knn")
    assert "is a model" in refused("report", out, "--scale", "std")
    assert "no meaning with --model" in refused("outliers", data, "--model", out, "--scale", "std")


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
    options = ["fit", path, "-o", tmp_path / "m.sevenhills"]
    result = done(*options, "--text", "drop", "--json")
    found = json.loads(result.stdout)
    assert found["columns"] == ["weight", "income", "age"]
    assert found["left_out"] == {
        "text_columns": ["name", "height"],
        "identifier_columns": [],
        "empty_columns": ["note"],
        "constant_columns": ["site"],
        "unit_and_total_rows": 0,
        "rows_with_missing_values": 1,
        "duplicate_rows": 0,
    }
    for remark in (
        "messy.csv has decimal commas",
        "left out column name ('Anna; 0'): words, no numbers",
        "left out column height: 1 of its 30 values is no number, first 'tall' in row 28",
        "left out column note: no values",
        "left out column site (7): one value only",
        "left out 1 of 30 rows with missing or infinite values, in age (1)",
        "2 rows repeat others and count all the same",
    ):
        assert remark in result.stderr
    for text in ("auto", "missing"):
        strict = done(*options, "--text", text, "--duplicates", "drop")
        assert "column height: 1 word taken as missing: 'tall' in row 28" in strict.stderr
        assert "left out 1 row that repeats others" in strict.stderr
        assert "4 columns (height, weight, income, age)" in strict.stdout
    for option, words in (
        (["--text", "raise"], "column 'name' does not hold numbers"),
        (["--missing", "raise"], "2 of 30 rows have missing or infinite values, first row 4"),
        (["--constant", "raise"], "columns with one value only: site (7)"),
        (["--columns", "name"], "column 'name' does not hold numbers"),
        (["--columns", "wieght"], "did you mean 'weight'?"),
        (["--columns", "zzz"], "it has name, height"),
        (["--columns", "age,age"], "different columns"),
        (["--separator", "::"], "--separator must be one character"),
    ):
        assert words in refused("fit", path, "-o", tmp_path / "m", *option)
